//! The character of operators and programs (`dpb characterize`): radars, components, their planes, a tree, and coverage as numbers.
//!
//! Records of another source of counts, another evidence, other models of caches or another machine never share a chart.

use std::collections::BTreeMap;
use std::fmt::Write;

use dpb_core::measure::{Outcome, Record};
use dpb_insight::components::coverage::Coverage;
use dpb_insight::profile::{FIGURES, Profile, Row};

use super::anchor;
use super::chart::{Chart, Point, Series};
use super::html::escape;
use super::origin::Machines;
use super::radar::{Axis, Radar};
use super::ranking::table_html;
use super::represented;
use super::scatter::{Arrow, Dot, Scatter};
use super::tree::Tree;
use super::vary::text_of;
use crate::output::{Column, Table, percent, short};

/// The task whose records these are.
pub(super) const TASK: &str = "characterize";
/// Components whose planes are drawn, at most.
const COMPONENTS_MAX: usize = 4;
/// Loadings of a plane that are drawn, the longest first; the table has all.
const ARROWS_MAX: usize = 10;
/// Radars of a group that are open at first.
const RADARS_OPEN: usize = 12;
/// The title of the table of loadings.
const LOADINGS: &str = "Loadings, with 95 % intervals over rows";
/// The seed of random draws: the page of the same records is the same page.
const SEED: u64 = 0x5eed;
/// The prefix of machine-independent figures.
const MICA: &str = "mica_";

/// Records that may share a chart.
struct Group<'a> {
    /// Where the counts come from, in words.
    title: String,
    kind: &'static str,
    records: Vec<&'a Record>,
}

/// All that is drawn of records; nothing if none are of the task.
pub(super) fn html(records: &[&Record]) -> String {
    let groups = groups(records);
    let drawn = groups
        .iter()
        .enumerate()
        .map(|(at, group)| group.html(elsewhere(&groups, at)));
    drawn.collect()
}

/// The same for a terminal: what the charts say in words.
pub(super) fn text(records: &[&Record]) -> Vec<String> {
    let mut said = Vec::new();
    let groups = groups(records);
    for (at, group) in groups.iter().enumerate() {
        said.extend(elsewhere(&groups, at));
        for set in group.sets() {
            if let Ok(profile) = Profile::of(&set.columns, &set.rows, SEED) {
                said.push(format!("{}, {}\n  {profile}\n", group.title, set.name));
                said.push(loadings(&profile).to_text());
                said.extend(coverage(&profile, &set).map(|table| table.to_text()));
            }
        }
    }
    said
}

fn groups<'a>(records: &[&'a Record]) -> Vec<Group<'a>> {
    let done = |record: &&&Record| record.task == TASK && record.outcome == Outcome::Done;
    let own: Vec<&Record> = records.iter().filter(done).copied().collect();
    let machines = Machines::of(own.iter().copied());
    let mut groups: Vec<Group<'_>> = Vec::new();
    for record in own {
        let source = text_of(record, "source");
        let geometry = match text_of(record, "geometry") {
            geometry if geometry.is_empty() => geometry,
            geometry => format!(", caches of {geometry}{}", other_caches(record)),
        };
        // What stands in is a part of the evidence.
        let evidence = match &record.evidence {
            dpb_core::Evidence::Emulated { by } => format!("emulated by {by}"),
            dpb_core::Evidence::Simulated { model } => format!("simulated by {model}"),
            other => other.kind().to_owned(),
        };
        let title = format!(
            "Counts by {source}, {evidence}{geometry}, {}",
            machines.name(record)
        );
        let kind = record.evidence.kind();
        match groups.iter_mut().find(|group| group.title == title) {
            Some(group) => group.records.push(record),
            None => groups.push(Group {
                title,
                kind,
                records: vec![record],
            }),
        }
    }
    groups
}

/// The caches that a record has instead of its geometry's.
fn other_caches(record: &Record) -> String {
    let given = ["l1i", "l1d", "l2"].map(|name| (name, text_of(record, name)));
    let given = given.iter().filter(|(_, shape)| !shape.is_empty());
    let words: Vec<String> = given
        .map(|(name, shape)| format!("{name} {shape}"))
        .collect();
    match words.is_empty() {
        true => String::new(),
        false => format!(" with {}", words.join(", ")),
    }
}

/// A sentence for each group about the operators and programs that are not in it: no chart compares them.
fn elsewhere(groups: &[Group<'_>], at: usize) -> Option<String> {
    let others = groups.iter().enumerate().filter(|(other, _)| *other != at);
    let parts: Vec<String> = others
        .map(|(_, group)| {
            format!(
                "{} under \u{201c}{}\u{201d}",
                group.records.len(),
                group.title
            )
        })
        .collect();
    (!parts.is_empty()).then(|| {
        format!(
            "{} records are here; not compared with {}.",
            groups[at].records.len(),
            parts.join(", ")
        )
    })
}

/// Figures that are seen together, and the records that have them all.
struct Set<'a> {
    name: &'static str,
    columns: Vec<String>,
    rows: Vec<Row>,
    records: Vec<&'a Record>,
    /// Records that lack one of the figures.
    lacking: usize,
}

impl<'a> Group<'a> {
    /// The paper's figures, and MICA's.
    fn sets(&self) -> Vec<Set<'a>> {
        let has = |name: &str| {
            self.records
                .iter()
                .filter(|record| record.summary.contains_key(name))
                .count()
        };
        let own = FIGURES.iter().map(|&name| name.to_owned());
        let mut mica: Vec<String> = self
            .records
            .iter()
            .flat_map(|record| record.summary.keys().cloned())
            .collect();
        mica.retain(|name| name.starts_with(MICA));
        mica.sort();
        mica.dedup();
        let sets = [
            ("DPUBench's figures", own.collect::<Vec<_>>()),
            ("MICA's figures", mica),
        ];
        let set = |(name, columns): (&'static str, Vec<String>)| {
            // A figure that few have would leave few rows.
            let columns: Vec<String> = columns
                .into_iter()
                .filter(|name| 2 * has(name) > self.records.len())
                .collect();
            let is_whole =
                |record: &&&Record| columns.iter().all(|name| record.summary.contains_key(name));
            let records: Vec<&Record> = self.records.iter().filter(is_whole).copied().collect();
            (columns.len() > 1).then(|| Set {
                name,
                rows: records
                    .iter()
                    .zip(names(&records))
                    .map(|(record, name)| row(record, name, &columns))
                    .collect(),
                lacking: self.records.len() - records.len(),
                columns,
                records,
            })
        };
        sets.into_iter().filter_map(set).collect()
    }

    /// The charts, below a sentence about what is not in them.
    fn html(&self, elsewhere: Option<String>) -> String {
        let mut html = format!("<h3 class=\"beside\">{}</h3>", escape(&self.title));
        if let Some(elsewhere) = elsewhere {
            let _ = write!(html, "<p class=\"sub\">{}</p>", escape(&elsewhere));
        }
        for set in &self.sets() {
            let _ = write!(html, "<h4>{}</h4>", set.name);
            if set.lacking > 0 {
                let _ = write!(
                    html,
                    "<p class=\"sub\">{} records lack one of these figures, and are not drawn.</p>",
                    set.lacking
                );
            }
            // Dozens of axes make no radar.
            if set.columns.len() <= FIGURES.len() {
                html.push_str(&radars(set, self.kind));
            }
            match Profile::of(&set.columns, &set.rows, SEED) {
                Ok(profile) => html.push_str(&self.profile(&profile, set)),
                Err(why) => {
                    let _ = write!(
                        html,
                        "<p class=\"sub\">No components: {}.</p>",
                        escape(&why.to_string())
                    );
                }
            }
        }
        html
    }

    fn profile(&self, profile: &Profile, set: &Set<'_>) -> String {
        let mut html = format!("<p>{}</p>", escape(&profile.to_string()));
        if !profile.components.constant.is_empty() {
            let same: Vec<String> = profile
                .components
                .constant
                .iter()
                .map(|name| words(name))
                .collect();
            let _ = write!(
                html,
                "<p class=\"sub\">The same in all: {}.</p>",
                escape(&same.join(", "))
            );
        }
        let planes = planes(profile, set, self.kind);
        html.push_str("<div class=\"charts\">");
        html.push_str(&planes[..1.min(planes.len())].concat());
        html.push_str(&scree(profile, self.kind).html());
        html.push_str(&tree(profile, set).html());
        html.push_str("</div>");
        if planes.len() > 1 {
            let _ = write!(
                html,
                "<details class=\"more\"><summary>{} more planes</summary><div class=\"charts\">{}</div></details>",
                planes.len() - 1,
                planes[1..].concat()
            );
        }
        if let Some(table) = coverage(profile, set) {
            html.push_str("<h4>Programs among operators</h4>");
            html.push_str(&table_html(&table));
        }
        let coverage = profile.coverage.as_ref();
        if let Some(table) = coverage.and_then(|it| represented::table(&set.rows, it)) {
            let _ = write!(
                html,
                "<details class=\"more\"><summary>DPUBench's table 5 and these programs</summary>{}<p class=\"sub\">{}</p></details>",
                table_html(&table),
                escape(represented::WHY)
            );
        }
        let table = table_html(&loadings(profile));
        // Dozens of rows are for whoever asks.
        let _ = match set.columns.len() <= FIGURES.len() {
            true => write!(html, "<h4>{LOADINGS}</h4>{table}"),
            false => write!(
                html,
                "<details class=\"more\"><summary>{LOADINGS}</summary>{table}</details>"
            ),
        };
        html
    }
}

/// Short names: the operator or the program, and what tells records of one apart.
fn names(records: &[&Record]) -> Vec<String> {
    let about = |record: &Record| match text_of(record, "program") {
        program if program.is_empty() => text_of(record, "operator"),
        program => program,
    };
    let mut counts = BTreeMap::<String, usize>::new();
    for record in records {
        *counts.entry(about(record)).or_default() += 1;
    }
    let name = |record: &&Record| {
        let name = about(record);
        match counts[&name] > 1 {
            true => format!(
                "{name} {} {}",
                text_of(record, "size"),
                text_of(record, "backend")
            )
            .trim()
            .to_owned(),
            false => name,
        }
    };
    records.iter().map(name).collect()
}

fn row(record: &Record, name: String, columns: &[String]) -> Row {
    Row {
        name,
        is_program: record.parameters.contains_key("program"),
        values: columns
            .iter()
            .map(|column| record.summary[column].median)
            .collect(),
    }
}

/// A figure's name for people.
fn words(name: &str) -> String {
    let name = name.strip_prefix(MICA).unwrap_or(name);
    match name {
        "instructions_per_cycle" => "IPC".to_owned(),
        "itlb_misses_per_1000" => "iTLB misses".to_owned(),
        "dtlb_misses_per_1000" => "dTLB misses".to_owned(),
        "l1d_misses_per_1000" => "L1D misses".to_owned(),
        "integer_share" => "integer".to_owned(),
        "branch_share" => "branch".to_owned(),
        "load_store_share" => "load & store".to_owned(),
        name => name.replace('_', " "),
    }
}

/// A figure's name beside a radar, where there is little room.
fn letters(name: &str) -> String {
    match name {
        "itlb_misses_per_1000" => "iTLB".to_owned(),
        "dtlb_misses_per_1000" => "dTLB".to_owned(),
        "l1d_misses_per_1000" => "L1D".to_owned(),
        "load_store_share" => "ld/st".to_owned(),
        name => words(name),
    }
}

fn figure(column: &str, value: f64) -> String {
    match column.ends_with("_share") {
        true => percent(value),
        false => short(value),
    }
}

/// A radar for each row; each axis reaches to the largest value of the group.
fn radars(set: &Set<'_>, kind: &'static str) -> String {
    let largest = |at: usize| {
        set.rows
            .iter()
            .map(|row| row.values[at])
            .fold(0.0, f64::max)
    };
    let radar = |(row, record): (&Row, &&Record)| {
        let axes = set.columns.iter().zip(&row.values).enumerate();
        let axes = axes.map(|(at, (column, &value))| Axis {
            name: letters(column),
            share: if largest(at) > 0.0 {
                value / largest(at)
            } else {
                0.0
            },
            text: figure(column, value),
        });
        Radar {
            title: row.name.clone(),
            kind,
            colour: usize::from(row.is_program),
            axes: axes.collect(),
            href: anchor(record),
        }
        .html()
    };
    let all: Vec<String> = set.rows.iter().zip(&set.records).map(radar).collect();
    let (open, folded) = all.split_at(all.len().min(RADARS_OPEN));
    let scale: Vec<String> = set
        .columns
        .iter()
        .enumerate()
        .map(|(at, column)| format!("{} {}", words(column), figure(column, largest(at))))
        .collect();
    let mut html = format!(
        "<p class=\"sub\">An axis ends at the group's largest value: {}. Misses are per 1000 instructions. The area depends on the order of the axes and says nothing.</p><div class=\"radars\">{}</div>",
        escape(&scale.join(", ")),
        open.concat()
    );
    if !folded.is_empty() {
        let _ = write!(
            html,
            "<details class=\"more\"><summary>{} more radars</summary><div class=\"radars\">{}</div></details>",
            folded.len(),
            folded.concat()
        );
    }
    html
}

/// Each plane of two retained components.
fn planes(profile: &Profile, set: &Set<'_>, kind: &'static str) -> Vec<String> {
    let shown = profile
        .retained
        .min(COMPONENTS_MAX)
        .min(profile.components.columns.len());
    let pairs = (0..shown).flat_map(|x| (x + 1..shown).map(move |y| (x, y)));
    pairs
        .map(|(x, y)| plane(profile, set, kind, x, y).html())
        .collect()
}

fn plane(profile: &Profile, set: &Set<'_>, kind: &'static str, x: usize, y: usize) -> Scatter {
    let shares = profile.components.shares();
    let axis = |at: usize| format!("PC{} ({})", at + 1, percent(shares[at]));
    let dots = set
        .rows
        .iter()
        .zip(&set.records)
        .zip(&profile.components.scores);
    let dots = dots.map(|((row, record), score)| Dot {
        name: row.name.clone(),
        at: (score[x], score[y]),
        is_second: row.is_program,
        href: anchor(record),
    });
    let loadings = &profile.components.loadings;
    let arrows = profile.components.columns.iter().enumerate();
    let arrows = arrows.map(|(at, column)| Arrow {
        name: words(column),
        to: (loadings[x][at], loadings[y][at]),
    });
    let mut arrows: Vec<Arrow> = arrows.collect();
    let length = |arrow: &Arrow| arrow.to.0.hypot(arrow.to.1);
    arrows.sort_by(|a, b| length(b).total_cmp(&length(a)));
    arrows.truncate(ARROWS_MAX);
    let covered = profile.coverage.as_ref().and_then(|coverage| {
        let plane = coverage
            .planes
            .iter()
            .find(|plane| (plane.x, plane.y) == (x, y))?;
        Some(format!(
            "{} of {} programs lie among the operators here.",
            plane.inside, coverage.points
        ))
    });
    Scatter {
        title: format!("Components {} and {}", x + 1, y + 1),
        notes: covered.into_iter().collect(),
        kind,
        x_label: axis(x),
        y_label: axis(y),
        names: ["operators", "programs"],
        dots: dots.collect(),
        arrows,
    }
}

/// Eigenvalues beside those by chance, and Kaiser's 1.
fn scree(profile: &Profile, kind: &'static str) -> Chart {
    let href = format!("task-{TASK}");
    let series = |name: &str, values: &[f64]| Series {
        name: name.to_owned(),
        kind,
        points: values
            .iter()
            .enumerate()
            .map(|(at, &value)| Point {
                x: Some((at + 1) as f64),
                y: value,
                interval: None,
                is_unstable: false,
                is_marked: true,
                label: None,
                tip: format!("component {}, {name}: {value:.3}", at + 1),
                href: href.clone(),
            })
            .collect(),
    };
    let ones = vec![1.0; profile.components.eigenvalues.len()];
    Chart {
        title: "Eigenvalues".to_owned(),
        notes: vec!["A component counts while it is above the 95th percentile of chance; Kaiser's rule takes those above 1.".to_owned()],
        x_label: "component".to_owned(),
        y_label: "eigenvalue".to_owned(),
        series: vec![
            series("these rows", &profile.components.eigenvalues),
            series("chance, 95th percentile", &profile.chance.p95),
            series("Kaiser: 1", &ones),
        ],
        x_text: Some(|value| format!("{value:.0}")),
        y_text: Some(|value| format!("{value:.1}")),
        ..Chart::default()
    }
}

fn tree(profile: &Profile, set: &Set<'_>) -> Tree {
    let leaves = set.rows.iter().zip(&set.records);
    Tree {
        title: "What is alike".to_owned(),
        notes: vec![format!(
            "Ward's clustering along the first {} components. A branch's place is the distance of what it joins.",
            profile.retained
        )],
        leaves: leaves
            .map(|(row, record)| (row.name.clone(), row.is_program, anchor(record)))
            .collect(),
        tree: profile.tree.clone(),
    }
}

/// Each column's loadings on the components that count.
fn loadings(profile: &Profile) -> Table {
    let shown = profile
        .retained
        .min(COMPONENTS_MAX)
        .min(profile.components.columns.len());
    let mut titles = vec![Column::left("figure")];
    titles.extend((0..shown).map(|at| Column::right(format!("PC{}", at + 1))));
    let mut table = Table::new(titles);
    let range =
        |(low, high): (f64, f64), digits: usize| format!("({low:.digits$} .. {high:.digits$})");
    let shares = profile.components.shares();
    let mut first = vec!["share of variance, %".to_owned()];
    first.extend((0..shown).map(|at| {
        let (low, high) = profile.intervals.shares[at];
        format!(
            "{:.1} {}",
            100.0 * shares[at],
            range((100.0 * low, 100.0 * high), 1)
        )
    }));
    table.row(first);
    if let Some(without) = &profile.without {
        let mut row = vec![format!("the same without {}, %", words(without.column))];
        row.extend((0..shown).map(|at| {
            without
                .shares
                .get(at)
                .map_or_else(|| "-".to_owned(), |share| format!("{:.1}", 100.0 * share))
        }));
        table.row(row);
    }
    for (at, column) in profile.components.columns.iter().enumerate() {
        let mut row = vec![words(column)];
        row.extend((0..shown).map(|component| {
            let loading = profile.components.loadings[component][at];
            format!(
                "{loading:.2} {}",
                range(profile.intervals.loadings[component][at], 2)
            )
        }));
        table.row(row);
    }
    table
}

/// Programs inside the operators' hull, by plane and in all dimensions, and each program's nearest operator.
fn coverage(profile: &Profile, set: &Set<'_>) -> Option<Table> {
    let coverage = profile.coverage.as_ref()?;
    let mut table = Table::new([
        Column::left("what"),
        Column::right("inside"),
        Column::left("beside"),
    ]);
    let of = |inside: usize, coverage: &Coverage| format!("{inside} of {}", coverage.points);
    for plane in &coverage.planes {
        table.row([
            format!("components {} and {}", plane.x + 1, plane.y + 1),
            of(plane.inside, coverage),
            String::new(),
        ]);
    }
    let chance = format!(
        "p = {:.3} of {} random deals",
        coverage.p_value, coverage.deals
    );
    table.row([
        format!("all {} components", coverage.dimensions),
        of(coverage.inside, coverage),
        chance,
    ]);
    if let Some(fewer) = profile
        .without
        .as_ref()
        .and_then(|without| Some((without.column, without.coverage.as_ref()?)))
    {
        let (column, fewer) = fewer;
        table.row([
            format!("the same without {}", words(column)),
            of(fewer.inside, fewer),
            format!("p = {:.3}", fewer.p_value),
        ]);
    }
    let operators: Vec<&Row> = set.rows.iter().filter(|row| !row.is_program).collect();
    let programs = set.rows.iter().filter(|row| row.is_program);
    for (program, near) in programs.zip(&coverage.nearest) {
        let inside = if near.is_inside { "yes" } else { "no" };
        table.row([
            program.name.clone(),
            inside.to_owned(),
            format!(
                "{:.2} from {}; operators are {:.2} apart",
                near.distance, operators[near.at].name, coverage.spacing
            ),
        ]);
    }
    Some(table)
}
