//! The page around the charts: style, tables, records, and the little script.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use dpb_core::measure::comparison::Better;
use dpb_core::measure::{Ratio, Record, Value};

use super::anchor;
use super::html::{escape, narrow};
use super::origin::{Origin, Origins};
use super::published::works;
use crate::output::{Column, Table, evidence, text_of, verdict};
use crate::spec;
use crate::task::{Base, ShownTask};

/// Everything before the content.
pub(super) const HEAD: &str = concat!(
    "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>",
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>",
    "<title>dpb report</title><style>",
    include_str!("style.css"),
    "</style></head><body><main>"
);

/// Everything after it.
pub(super) const FOOT: &str = concat!(
    "</main><div id=\"tip\" role=\"status\" hidden=\"hidden\"></div><script>",
    include_str!("page.js"),
    "</script></body></html>\n"
);

/// Parameters that are shown elsewhere or say nothing in a table.
const HIDDEN: [&str; 5] = ["seconds", "repeat", "where", "output", "set"];

/// Text as part of an address on the page.
pub(super) fn fragment(text: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    text.chars().map(safe).collect()
}

/// Links to the sections.
pub(super) fn contents(tasks: &BTreeSet<&str>, overall: &[(&str, &str)]) -> String {
    let overall = overall.iter();
    let overall = overall.map(|(place, name)| ((*place).to_owned(), (*name).to_owned()));
    let mut links: Vec<(String, String)> = overall.collect();
    links.extend(
        tasks
            .iter()
            .map(|task| (format!("task-{}", fragment(task)), (*task).to_owned())),
    );
    for (place, name) in [
        ("published", "published"),
        ("where", "where it was measured"),
        ("records", "records"),
    ] {
        links.push((place.to_owned(), name.to_owned()));
    }
    let links = links
        .iter()
        .map(|(place, name)| format!("<a href=\"#{}\">{}</a>", escape(place), escape(name)));
    format!(
        "<nav aria-label=\"sections\">{}</nav>",
        links.collect::<String>()
    )
}

/// The machines of papers, and what the papers say of them.
pub(super) fn published(drawn: &[Record]) -> String {
    let mut html = String::from("<section id=\"published\"><h2>Published platforms</h2>");
    let said = match drawn.len() {
        0 => "None of their numbers is on this page.".to_owned(),
        count => format!(
            "{count} of their numbers are on this page, hollow in charts or in a table; each is a record below, with its source."
        ),
    };
    let _ = write!(
        html,
        "<p class=\"sub\">What papers and their authors' repositories say of other machines. {said}</p>"
    );
    for work in works() {
        let _ = write!(
            html,
            "<details class=\"work\"><summary>{}</summary><div class=\"wide\"><table><thead><tr><th>platform</th><th>what it is</th><th>place</th></tr></thead><tbody>",
            escape(&work.source.work)
        );
        for platform in &work.platforms {
            let parts = [
                &platform.cpu,
                &platform.memory,
                &platform.storage,
                &platform.network,
            ];
            let parts: Vec<&str> = parts
                .into_iter()
                .map(String::as_str)
                .filter(|part| !part.is_empty())
                .collect();
            html.push_str(&published_row(
                &platform.name,
                &parts.join("; "),
                &platform.place,
            ));
        }
        for statement in &work.statements {
            html.push_str(&published_row(
                &statement.platform,
                &statement.text,
                &statement.place,
            ));
        }
        html.push_str("</tbody></table></div></details>");
    }
    html + "</section>"
}

fn published_row(platform: &str, text: &str, place: &str) -> String {
    format!(
        "<tr><th>{}</th><td>{}</td><td>{}</td></tr>",
        escape(platform),
        escape(text),
        escape(place)
    )
}

/// Which machines, builds and runs the records come from.
pub(super) fn provenance(records: &[Record], origins: &Origins<'_>) -> String {
    let mut machines = BTreeSet::new();
    let mut builds = BTreeSet::new();
    let mut runs = BTreeMap::new();
    for record in records {
        let here = &record.provenance;
        let governor = here.governor.as_ref();
        machines.insert(format!(
            "{}: {}, {} CPUs, {:.1} GiB, Linux {}{}",
            here.host,
            here.cpu_model,
            here.cpus,
            here.memory_bytes as f64 / f64::from(1 << 30),
            here.kernel,
            governor.map_or(String::new(), |governor| format!(", governor {governor}"))
        ));
        builds.insert(format!("dpb {}, {}", here.dpb_version, here.toolchain));
        let run = (origins.machine(record), here.command.join(" "));
        runs.insert(origins.number(record), run);
    }
    let mut html = String::from("<dl class=\"provenance\">");
    for (term, values) in [("Machine", machines), ("Build", builds)] {
        let _ = write!(html, "<dt>{term}</dt>");
        for value in values {
            let _ = write!(html, "<dd>{}</dd>", escape(&value));
        }
    }
    for (number, (host, command)) in runs {
        let (host, command) = (escape(&host), escape(&command));
        let _ = write!(
            html,
            "<dt>Run {number}</dt><dd>{host}: <code>{command}</code></dd>"
        );
    }
    html + "</dl>"
}

/// The parameters that differ between records, and those that are the same in all, both in the task's order.
fn named<'a>(task: Option<ShownTask>, records: &[&'a Record]) -> (Vec<&'a str>, Vec<&'a str>) {
    let lead = task.map_or(&[] as &[&str], |task| task.view.lead);
    let given: BTreeSet<&str> = records
        .iter()
        .flat_map(|record| record.parameters.keys())
        .map(String::as_str)
        .filter(|name| !HIDDEN.contains(name))
        .collect();
    // An operator's own parameters stand behind its name.
    let place = |name: &&str| match lead.iter().position(|lead| lead == name) {
        Some(0) => 0,
        Some(at) => at + 1,
        None if spec::is_own(name) => 1,
        None => lead.len() + 1,
    };
    let mut ordered: Vec<&str> = given.into_iter().collect();
    ordered.sort_by_key(place);
    ordered.into_iter().partition(|name| varies(records, name))
}

/// Records as rows of text; `wanted` are the metrics, empty for all of the task's. An operator's own parameters share a column.
pub(super) fn text_table(
    task: Option<ShownTask>,
    records: &[&Record],
    wanted: &[&String],
) -> Table {
    let (differing, _) = named(task, records);
    let (own, names): (Vec<&str>, Vec<&str>) = differing
        .into_iter()
        .filter(|name| *name != "input")
        .partition(|name| spec::is_own(name));
    let metrics = columns(task, records);
    let is_wanted = |metric: &&String| wanted.is_empty() || wanted.contains(metric);
    let metrics: Vec<&String> = metrics.iter().filter(is_wanted).collect();
    let is_number = |name: &str| {
        let mut values = records
            .iter()
            .filter_map(|record| record.parameters.get(name));
        values.all(|value| matches!(value, Value::Int(_) | Value::Float(_)))
    };
    let mut titles: Vec<Column> = Vec::new();
    for name in &names {
        titles.push(match is_number(name) {
            true => Column::right(title(name)),
            false => Column::left(title(name)),
        });
    }
    if !own.is_empty() {
        titles.push(Column::left("parameters"));
    }
    titles.extend(metrics.iter().map(|metric| Column::right(heading(metric))));
    titles.extend([Column::left("evidence"), Column::noted("verdict")]);
    let mut table = Table::new(titles);
    for record in records {
        let value = |name: &&str| {
            record
                .parameters
                .get(*name)
                .map_or(String::new(), parameter)
        };
        let mut row: Vec<String> = names.iter().map(value).collect();
        if !own.is_empty() {
            row.push(own_values(record, &own).replace(", ", ","));
        }
        for metric in &metrics {
            let summary = record.summary.get(*metric);
            row.push(summary.map_or("-".to_owned(), |s| figure(metric, s.median)));
        }
        row.extend([evidence(record).to_owned(), verdict(record)]);
        table.row(row);
    }
    table
}

/// More own parameters of operators than these share a column.
const OWN_COLUMNS_MAX: usize = 2;

/// What a table's rows have in common.
struct Columns<'a> {
    task: Option<ShownTask>,
    names: Vec<&'a str>,
    /// An operator's own parameters that share a column.
    own: Vec<&'a str>,
    metrics: Vec<String>,
    bases: Option<Bases<'a>>,
}

/// One row a record.
pub(super) fn table(task: Option<ShownTask>, records: &[&Record], origins: &Origins<'_>) -> String {
    let (names, same) = named(task, records);
    let names: Vec<&str> = names.into_iter().filter(|name| *name != "input").collect();
    let are_many = names.iter().filter(|name| spec::is_own(name)).count() > OWN_COLUMNS_MAX;
    let (own, names) = names
        .into_iter()
        .partition(|name| are_many && spec::is_own(name));
    let columns = Columns {
        task,
        names,
        own,
        metrics: columns(task, records),
        bases: Bases::of(task, records),
    };
    let runs = origins.names(records);
    let mut html = common(records, &same) + "<div class=\"wide\"><table><thead><tr>";
    if runs.are_several() {
        html.push_str("<th>run</th>");
    }
    columns.head(&mut html, records);
    for record in records {
        html.push_str("<tr>");
        if let Some(run) = runs.of(record) {
            let _ = write!(html, "<td>{}</td>", escape(&run));
        }
        columns.row(&mut html, record);
        html.push_str("</tr>");
    }
    html + "</tbody></table></div>"
}

/// The parameters that all rows share.
fn common(records: &[&Record], same: &[&str]) -> String {
    let value = |name: &&str| {
        let value = records.first()?.parameters.get(*name)?;
        Some(format!("{} {}", title(name), parameter(value)))
    };
    let same: Vec<String> = same.iter().filter_map(value).collect();
    match same.is_empty() {
        true => String::new(),
        false => format!(
            "<p class=\"sub same\">Same in all rows: {}</p>",
            escape(&same.join(" · "))
        ),
    }
}

fn varies(records: &[&Record], name: &str) -> bool {
    let mut values = records.iter().map(|record| record.parameters.get(name));
    let first = values.next().flatten();
    values.any(|value| value != first)
}

impl Columns<'_> {
    /// The column before which an operator's own parameters stand: behind its name, or first.
    fn own_at(&self) -> usize {
        match self.own.is_empty() {
            true => usize::MAX,
            false => self
                .names
                .iter()
                .position(|name| *name == "operator")
                .map_or(0, |at| at + 1),
        }
    }

    /// The titles.
    fn head(&self, html: &mut String, records: &[&Record]) {
        for (at, name) in self.names.iter().enumerate() {
            if at == self.own_at() {
                html.push_str("<th>parameters</th>");
            }
            let mut values = records
                .iter()
                .filter_map(|record| record.parameters.get(*name));
            let is_number = |value| matches!(value, &Value::Int(_) | &Value::Float(_));
            let class = if values.all(is_number) {
                " class=\"n\""
            } else {
                ""
            };
            let _ = write!(html, "<th{class}>{}</th>", escape(&title(name)));
        }
        if self.own_at() == self.names.len() {
            html.push_str("<th>parameters</th>");
        }
        for metric in &self.metrics {
            let _ = write!(html, "<th class=\"n\">{}</th>", escape(&heading(metric)));
        }
        html.push_str("<th class=\"n\">95 % CI</th>");
        if self.bases.is_some() {
            html.push_str("<th class=\"n\">against</th>");
        }
        html.push_str("<th>evidence</th><th>verdict</th></tr></thead><tbody>");
    }

    fn row(&self, html: &mut String, record: &Record) {
        for (at, name) in self.names.iter().enumerate() {
            if at == self.own_at() {
                let _ = write!(html, "<td>{}</td>", escape(&own_values(record, &self.own)));
            }
            let value = record.parameters.get(*name);
            let class = if matches!(value, Some(Value::Int(_) | Value::Float(_))) {
                " class=\"n\""
            } else {
                ""
            };
            let value = value.map_or(String::new(), |value| swept(self.task, name, value));
            let _ = write!(html, "<td{class}>{}</td>", narrow(&value));
        }
        if self.own_at() == self.names.len() {
            let _ = write!(html, "<td>{}</td>", escape(&own_values(record, &self.own)));
        }
        let href = escape(&anchor(record));
        for metric in &self.metrics {
            let number = record.summary.get(metric);
            let number = number.map(|number| figure(metric, number.median));
            let number = number.unwrap_or_else(|| "–".to_owned());
            let _ = write!(
                html,
                "<td class=\"n\"><a href=\"#{href}\">{}</a></td>",
                escape(&number)
            );
        }
        let interval = escape(&self.interval(record).unwrap_or_default());
        let _ = write!(html, "<td class=\"n two\">{interval}</td>");
        if let Some(bases) = &self.bases {
            let against = escape(&bases.against(record).unwrap_or_default());
            let _ = write!(html, "<td class=\"n two\">{against}</td>");
        }
        // The reasons against a record's numbers are many words; its tip and the record have them.
        let verdict = verdict(record);
        let said = match verdict.strip_prefix("unstable: ") {
            Some(_) => "unstable",
            None => &verdict,
        };
        let _ = write!(
            html,
            "<td class=\"{kind}\">{kind}</td><td><a href=\"#{href}\" data-tip=\"{}\">{}</a></td>",
            escape(&verdict),
            escape(said),
            kind = record.evidence.kind(),
        );
    }

    /// Of the first metric that the record has.
    fn interval(&self, record: &Record) -> Option<String> {
        let metric = self.metrics.first()?;
        let number = record.summary.get(metric)?;
        let (low, high) = number.ci95_low.zip(number.ci95_high)?;
        // A narrow table breaks the line between the ends, not before a unit.
        let end = |value: f64| figure(metric, value).replace(' ', "\u{a0}");
        Some(format!("{} … {}", end(low), end(high)))
    }
}

/// An operator's own parameters in a few words. Where one is the content of a file, its hash tells a reader nothing.
fn own_values(record: &Record, names: &[&str]) -> String {
    let given = names
        .iter()
        .filter_map(|name| Some((name, record.parameters.get(*name)?)));
    let given = given.filter(|(_, value)| !value.to_string().contains(' '));
    let given: Vec<String> = given
        .map(|(name, value)| format!("{}={value}", spec::bare(name)))
        .collect();
    given.join(", ")
}

/// The summaries that a row shows.
fn columns(task: Option<ShownTask>, records: &[&Record]) -> Vec<String> {
    let all = records.iter().flat_map(|record| record.summary.keys());
    let all: BTreeSet<&String> = all.collect();
    let Some(task) = task else {
        return all.into_iter().cloned().collect();
    };
    let shown = task
        .view
        .metrics
        .iter()
        .map(|metric| metric.name.to_owned());
    shown.filter(|name| all.contains(name)).collect()
}

/// The records that others of a table are held against, by what both must share; found once, as tables are long.
struct Bases<'a> {
    side: &'static str,
    base: &'static str,
    metric: &'static str,
    better: Better,
    own: &'static [&'static str],
    fastest: BTreeMap<String, &'a Record>,
}

impl<'a> Bases<'a> {
    fn of(task: Option<ShownTask>, records: &[&'a Record]) -> Option<Self> {
        let Base {
            side,
            base,
            metric,
            own,
        } = task?.view.base?;
        let mut metrics = task?.view.metrics.iter();
        let declared = metrics.find(|declared| declared.name == metric);
        let better = declared.map_or_else(|| Better::of(metric), |declared| declared.better());
        let mut bases = Self {
            side,
            base,
            metric,
            better,
            own,
            fastest: BTreeMap::new(),
        };
        for &record in records {
            // Where a side was run in several ways, its fastest counts.
            let median = |record: &Record| Some(record.summary.get(metric)?.median);
            if bases.is_base(record) && median(record).is_some() {
                let fastest = bases.fastest.entry(bases.shared(record)).or_insert(record);
                let is_faster = match better {
                    Better::More => median(record) >= median(fastest),
                    Better::Less => median(record) <= median(fastest),
                };
                if is_faster {
                    *fastest = record;
                }
            }
        }
        Some(bases)
    }

    fn is_base(&self, record: &Record) -> bool {
        record.parameters.get(self.side) == Some(&Value::from(self.base))
    }

    /// The run, the evidence and the parameters, but for the side's own.
    fn shared(&self, record: &Record) -> String {
        let is_shared = |name: &str| {
            ![self.side, "where", "output"].contains(&name) && !self.own.contains(&name)
        };
        let parameters = record.parameters.iter();
        let parameters: Vec<_> = parameters.filter(|(name, _)| is_shared(name)).collect();
        format!("{:?}", (Origin::of(record), &record.evidence, parameters))
    }

    /// The ratio to the base of the same run, at the same parameters and of the same evidence.
    fn against(&self, record: &Record) -> Option<String> {
        if self.is_base(record) || !Origin::of(record).is_known() {
            return None;
        }
        let best = self.fastest.get(&self.shared(record))?;
        let series = |record: &Record| Some(record.samples.get(self.metric)?.values.clone());
        let ratio = match self.better {
            Better::More => Ratio::of(&series(record)?, &series(best)?)?,
            Better::Less => Ratio::of(&series(best)?, &series(record)?)?,
        };
        let doubt = if ratio.is_decided() {
            ""
        } else {
            " (too close to call)"
        };
        Some(format!("{:.2}× {}{doubt}", ratio.median, self.base))
    }
}

fn parameter(value: &Value) -> String {
    match value {
        // Not 0.019138 of a predicate that hits what it hits.
        Value::Float(value) => format!("{}", (value * 1e6).round() / 1e6),
        value => value.to_string(),
    }
}

/// A parameter's value, as the axis of the task shows it that has the parameter.
fn swept(task: Option<ShownTask>, name: &str, value: &Value) -> String {
    let sweep = task.and_then(|task| task.view.sweeps.iter().find(|sweep| sweep.name == name));
    match (sweep, value) {
        (Some(sweep), Value::Int(value)) => (sweep.text)(*value as f64),
        (Some(sweep), Value::Float(value)) => (sweep.text)(*value),
        (_, value) => parameter(value),
    }
}

/// A parameter's name for people.
fn title(name: &str) -> String {
    spec::bare(name).replace('_', " ")
}

/// A metric's name without the unit, which its figures carry.
fn heading(metric: &str) -> String {
    let bare = metric.replace("_ns", "");
    let bare = match bare.strip_suffix("_s") {
        Some(time) if !bare.ends_with("_per_s") => time,
        _ => &bare,
    };
    bare.replace('_', " ")
}

/// A figure in the unit that its name ends with.
fn figure(metric: &str, value: f64) -> String {
    text_of(metric)(value)
}

/// Every record whole, folded.
pub(super) fn records(records: &[&Record]) -> String {
    let mut html = String::new();
    for record in records {
        let json = serde_json::to_string_pretty(record).unwrap_or_default();
        let named = record.parameters.iter();
        let words: Vec<String> = named
            .map(|(name, value)| format!("{name} {}", parameter(value)))
            .collect();
        let _ = write!(
            html,
            "<details id=\"{}\"><summary><code>{}</code> {}</summary><pre>{}</pre></details>",
            escape(&anchor(record)),
            escape(&record.id),
            escape(&words.join(" · ")),
            escape(&json)
        );
    }
    html
}
