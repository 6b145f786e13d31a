//! One HTML file from records: charts first, tables under them, every number's record one click away. It refers to
//! nothing outside itself.

mod advice;
mod bars;
pub mod busiest;
mod cdf;
mod character;
mod chart;
mod contest;
mod dpbento;
mod glance;
mod heat;
mod html;
mod origin;
mod page;
pub mod pays;
pub mod published;
mod radar;
pub mod ranked;
pub mod ranking;
mod represented;
mod scale;
mod scatter;
mod select;
mod sensitivity;
mod terminal;
mod tree;
mod vary;
mod woo;

use std::collections::BTreeSet;
use std::fmt::Write;

use dpb_core::measure::{Outcome, Record};

use crate::output::Table;
use crate::shown::ShownTasks;
use crate::task::ShownTask;
use chart::Chart;
use contest::Contest;
use heat::Map;
pub use terminal::text;

/// So many heat maps, charts and distributions of a task are open at first; the rest is folded.
const SHOWN: [usize; 3] = [4, 6, 2];

/// What a page shows, found once.
struct Found<'a> {
    records: &'a [Record],
    known: &'a ShownTasks,
    origins: origin::Origins<'a>,
    /// Tests of several machines.
    platforms: Vec<Contest<'a>>,
    /// Tests of several backends or schemes in one run.
    sides: Vec<Contest<'a>>,
    /// Ratios to the first machine, and to the base of each task.
    maps: Vec<Map>,
    /// dpBento's figures.
    dpbento: Vec<bars::Bars>,
    /// Woo and Chung's figures.
    woo: Option<woo::Figures>,
    /// Sweeps of a simulated system's parameters.
    sweeps: Vec<sensitivity::Swept<'a>>,
    /// Papers' numbers that are drawn somewhere.
    figures: Vec<Record>,
    /// The platforms, ranked.
    ranked: Option<ranked::Ranked>,
    /// The records that advise.
    advice: Vec<&'a Record>,
}

impl<'a> Found<'a> {
    fn of(records: &'a [Record], known: &'a ShownTasks) -> Self {
        let [platforms, sides] = glance::contests(records, known);
        let (dpbento, mut figures) = dpbento::figures(records);
        let sweeps = sensitivity::sweeps(records);
        let woo = woo::figures(records, &sensitivity::shown(&sweeps));
        let beside = woo.iter().flat_map(|figures| figures.beside.clone());
        for figure in beside.chain(select::published_for(records, known)) {
            if figures.iter().all(|other| other.id != figure.id) {
                figures.push(figure);
            }
        }
        let origins = origin::Origins::of(records);
        let first = records.first().map(|record| origins.machine(record));
        let mut maps = heat::maps(&platforms, Some(&first.unwrap_or_default()));
        maps.extend(heat::maps(&sides, None));
        Self {
            records,
            known,
            maps,
            origins,
            platforms,
            sides,
            dpbento,
            woo,
            sweeps,
            figures,
            ranked: ranking::of(records, known),
            advice: advice::of(records),
        }
    }

    /// The tasks of the records, by name.
    fn tasks(&self) -> BTreeSet<&'a str> {
        self.records
            .iter()
            .map(|record| record.task.as_str())
            .collect()
    }

    /// Who is fastest, in a sentence each for platforms and for the sides of runs.
    fn verdicts(&self) -> impl Iterator<Item = String> {
        let named = [
            ("Platforms", &self.platforms),
            ("Within a run", &self.sides),
        ];
        let said = named.map(|(among, contests)| (among, glance::verdict(contests)));
        let said = said.into_iter().filter(|(_, verdict)| !verdict.is_empty());
        said.map(|(among, verdict)| format!("{among}: {verdict}."))
    }

    /// The heat maps of a task.
    fn maps(&self, task: &str) -> impl Iterator<Item = &Map> {
        self.maps.iter().filter(move |map| map.task == task)
    }

    fn charts(&self, task: ShownTask) -> Vec<Chart> {
        if self.sweeps.is_empty() {
            return select::charts(task, self.records, &self.figures, &self.origins);
        }
        // Sweeps of a system have charts of their own.
        let swept = sensitivity::shown(&self.sweeps);
        let rest = self.records.iter().filter(|it| !swept.contains(&it.id));
        let rest: Vec<Record> = rest.cloned().collect();
        select::charts(task, &rest, &self.figures, &self.origins)
    }

    fn distributions(&self, task: ShownTask) -> Vec<Chart> {
        cdf::charts(task, &of_task(self.records, task.name), &self.origins)
    }
}

/// The page. Papers' figures for the same work are drawn beside `records`, as their own kind of evidence; `warnings` (damaged
/// lines, for one) stand at the top.
pub fn html(records: &[Record], warnings: &[String], known: &ShownTasks) -> String {
    let found = Found::of(records, known);
    let mut html = String::from(page::HEAD);
    html.push_str("<h1>dpb report</h1>");
    let _ = write!(
        html,
        "<p class=\"sub\">{}</p>",
        html::escape(&overview(records))
    );
    for warning in warnings {
        let _ = write!(html, "<p class=\"warn\">{}</p>", html::escape(warning));
    }
    html.push_str(&page::contents(&found.tasks(), &overall(&found)));
    // Advice is the answer to a question that was asked; what follows is what it rests on.
    if !found.advice.is_empty() {
        html.push_str(&advice::html(&found.advice));
    }
    html.push_str(&at_a_glance(&found));
    if !found.dpbento.is_empty() {
        html.push_str("<section id=\"dpbento\"><h2>As in dpBento</h2><p class=\"sub\">The paper's figures with this page's records. Hollow bars are the paper's own numbers: other machines, other methods, and no ratio is drawn to them.</p>");
        html.push_str(&grid(
            &found
                .dpbento
                .iter()
                .map(bars::Bars::html)
                .collect::<Vec<_>>(),
            8,
        ));
        html.push_str("</section>");
    }
    if let Some(figures) = &found.woo {
        let _ = write!(
            html,
            "<section id=\"woo-chung\"><h2>{}</h2><p class=\"sub\">{}</p>",
            woo::TITLE,
            html::escape(woo::NOTE)
        );
        let bars: Vec<String> = figures.bars.iter().map(bars::Bars::html).collect();
        html.push_str(&grid(&bars, 2));
        html.push_str(&woo::html(figures));
        html.push_str("</section>");
    }
    if let Some(ranked) = &found.ranked {
        html.push_str(&ranking::html(ranked));
    }
    for task in found.tasks() {
        html.push_str(&section(&found, task));
    }
    html.push_str(&page::published(&found.figures));
    html.push_str("<section id=\"where\"><h2>Where it was measured</h2>");
    html.push_str(&page::provenance(records, &found.origins));
    html.push_str("</section><section id=\"records\"><h2>Records</h2>");
    let all: Vec<&Record> = records.iter().chain(&found.figures).collect();
    html.push_str(&page::records(&all));
    html.push_str("</section>");
    html + page::FOOT
}

/// The sections over several tasks, by their places on the page.
fn overall(found: &Found<'_>) -> Vec<(&'static str, &'static str)> {
    let sections = [
        (!found.advice.is_empty(), ("advice", "what to move")),
        (true, ("glance", "at a glance")),
        (!found.dpbento.is_empty(), ("dpbento", "as in dpBento")),
        (found.woo.is_some(), ("woo-chung", "as in Woo and Chung")),
        (found.ranked.is_some(), ("rank", "ranking")),
    ];
    let there = sections.into_iter().filter(|(is_there, _)| *is_there);
    there.map(|(_, section)| section).collect()
}

/// Platforms, and who is fastest in what.
fn at_a_glance(found: &Found<'_>) -> String {
    let mut html = String::from("<section id=\"glance\"><h2>At a glance</h2>");
    for verdict in found.verdicts() {
        let _ = write!(html, "<p class=\"verdict\">{}</p>", html::escape(&verdict));
    }
    html.push_str(&glance::platforms(found.records, &found.platforms));
    for (contests, title) in [
        (&found.platforms, "Which platform is fastest in what"),
        (
            &found.sides,
            "Which backend or scheme is fastest in what, within a run",
        ),
    ] {
        if !contests.is_empty() {
            let _ = write!(html, "<h3 class=\"beside\">{title}</h3>");
            html.push_str(&glance::winners(contests));
        }
    }
    html + "<p class=\"sub\">A test is won where the 95 % interval of its ratio to the next leaves out 1, and no other work disturbed either. The intervals are not corrected for their number: of twenty such tests without a difference one may be called.</p></section>"
}

/// Heat maps, charts, distributions and tables of a task.
fn section(found: &Found<'_>, task: &str) -> String {
    let own = of_task(found.records, task);
    let declared = found.known.find(task);
    let mut html = format!(
        "<section id=\"task-{}\"><h2>{}</h2>",
        html::escape(&page::fragment(task)),
        html::escape(task)
    );
    if let Some(task) = declared {
        let drawn = [
            found.maps(task.name).map(Map::html).collect::<Vec<_>>(),
            found.charts(task).iter().map(Chart::html).collect(),
            found.distributions(task).iter().map(Chart::html).collect(),
        ];
        for (figures, shown) in drawn.iter().zip(SHOWN) {
            html.push_str(&grid(figures, shown));
        }
    }
    html.push_str(&character::html(&own));
    html.push_str(&pays::html(&own, &found.origins).unwrap_or_default());
    if task == sensitivity::TASK {
        html.push_str(&sensitivity::html(&found.sweeps).unwrap_or_default());
    }
    html.push_str(&page::table(declared, &own, &found.origins));
    let published = of_task(&found.figures, task);
    if !published.is_empty() {
        let _ = write!(
            html,
            "<details class=\"more\"><summary>Published, for comparison: {} numbers</summary>",
            published.len()
        );
        html.push_str(&page::table(declared, &published, &found.origins));
        html.push_str("</details>");
    }
    html + "</section>"
}

fn of_task<'a>(records: &'a [Record], task: &str) -> Vec<&'a Record> {
    records
        .iter()
        .filter(|record| record.task == task)
        .collect()
}

/// A table of a page: its titles, and a row of cells for each thing.
fn rows_html(titles: &[&str], rows: &[Vec<String>]) -> String {
    let head: String = titles
        .iter()
        .map(|title| format!("<th>{}</th>", html::escape(title)))
        .collect();
    let row = |row: &Vec<String>| {
        let cells = row
            .iter()
            .map(|cell| format!("<td>{}</td>", html::escape(cell)));
        format!("<tr>{}</tr>", cells.collect::<String>())
    };
    let body: String = rows.iter().map(row).collect();
    format!(
        "<div class=\"wide\"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )
}

/// The first `shown` figures, and the others folded.
fn grid(figures: &[String], shown: usize) -> String {
    let (first, more) = figures.split_at(figures.len().min(shown));
    let grid = |figures: &[String]| format!("<div class=\"charts\">{}</div>", figures.concat());
    match (first.is_empty(), more.is_empty()) {
        (true, _) => String::new(),
        (false, true) => grid(first),
        (false, false) => format!(
            "{}<details class=\"more\"><summary>{} more charts</summary>{}</details>",
            grid(first),
            more.len(),
            grid(more)
        ),
    }
}

fn overview(records: &[Record]) -> String {
    let count =
        |is: fn(&Outcome) -> bool| records.iter().filter(|record| is(&record.outcome)).count();
    let parts = [
        (count(|outcome| *outcome == Outcome::Done), "done"),
        (
            count(|outcome| matches!(outcome, Outcome::Failed { .. })),
            "failed",
        ),
        (
            count(|outcome| matches!(outcome, Outcome::Unsupported { .. })),
            "unsupported",
        ),
        (
            count(|outcome| *outcome == Outcome::Interrupted),
            "interrupted",
        ),
    ];
    let parts = parts.iter().filter(|(count, _)| *count > 0);
    let parts: Vec<String> = parts
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    format!(
        "{} tests: {}. Medians with 95 % intervals; each record says against what it was checked.",
        records.len(),
        parts.join(", ")
    )
}

/// A task's records as rows: the parameters that differ, and the metrics that are `wanted`, or all of the task's.
pub fn text_table(task: Option<ShownTask>, records: &[&Record], wanted: &[&String]) -> Table {
    page::text_table(task, records, wanted)
}

/// A record's place on the page.
fn anchor(record: &Record) -> String {
    let safe = |c: char| {
        if c.is_ascii_alphanumeric() || ".-_".contains(c) {
            c
        } else {
            '-'
        }
    };
    format!("r-{}", record.id.chars().map(safe).collect::<String>())
}

#[cfg(test)]
mod tests;
