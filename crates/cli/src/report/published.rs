//! What papers and their authors' repositories say of machines that most readers have not: read from the data files of
//! `crates/cli/published/`, drawn beside what was measured, never mixed into it.
//!
//! A file is one work. It has `[source]` (`work`, and `short` for a legend), and any number of
//!
//! * `[[platform]]`: a machine, as far as the work describes it: `name`, `also` (another name of it there), `cpu`, `memory`, `storage`, `network`, and the `place` in the work;
//! * `[[statement]]`: a sentence of the work about a `platform`, in our words, with its `place`;
//! * `[[figure]]`: numbers. `number` is the figure's, `place` says where the numbers stand. `task` and `metric` are dpb's names;
//!   `unit` is the factor from the figure's unit to the metric's. `parameters` are dpb's parameters of all its tests, `axis` is the
//!   one that differs. Each of `rows` has a value of the axis, if there is one, and a number for each of the `platforms`: `nan`
//!   where the work has none.
//!
//! Each number becomes a record of its own, whose evidence names work, figure and place.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use serde::Deserialize;

use dpb_core::measure::record::SCHEMA_VERSION;
use dpb_core::measure::{Evidence, Outcome, Provenance, Record, Summary, Value};

/// The data files, by name.
const FILES: [(&str, &str); 4] = [
    ("dpbento.toml", include_str!("../../published/dpbento.toml")),
    (
        "dpubench.toml",
        include_str!("../../published/dpubench.toml"),
    ),
    ("liu.toml", include_str!("../../published/liu.toml")),
    ("woo.toml", include_str!("../../published/woo.toml")),
];

/// What one work says.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Work {
    /// The work itself.
    pub source: Source,
    /// The machines that it describes.
    #[serde(default, rename = "platform")]
    pub platforms: Vec<Platform>,
    /// What it says of them without a figure that dpb could draw.
    #[serde(default, rename = "statement")]
    pub statements: Vec<Statement>,
    #[serde(default, rename = "figure")]
    figures: Vec<Figure>,
}

/// A paper, with what belongs to it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// Authors, title, where it can be had.
    pub work: String,
    /// Its name in a legend.
    pub short: String,
}

/// A machine, as far as the work describes it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Platform {
    /// Its name in the files' figures.
    pub name: String,
    /// Another name that the work has for it.
    #[serde(default)]
    pub also: String,
    /// Processor, cores, clock, caches.
    pub cpu: String,
    /// Main memory.
    #[serde(default)]
    pub memory: String,
    /// Drives of its own.
    #[serde(default)]
    pub storage: String,
    /// Ports.
    #[serde(default)]
    pub network: String,
    /// The section or table that says so.
    pub place: String,
}

/// What the work says of a machine.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Statement {
    /// The machine.
    pub platform: String,
    /// The sentence, in our words.
    pub text: String,
    /// The section and the figure.
    pub place: String,
}

/// Numbers of one figure.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Figure {
    number: String,
    place: String,
    task: String,
    metric: String,
    unit: f64,
    axis: Option<String>,
    parameters: BTreeMap<String, Value>,
    platforms: Vec<String>,
    rows: Vec<Vec<Value>>,
}

/// All works, read once.
pub fn works() -> &'static [Work] {
    static WORKS: LazyLock<Vec<Work>> = LazyLock::new(|| {
        let read = FILES.iter().map(|(name, text)| {
            let work = Work::read(text).map_err(|error| format!("{name}: {error}"));
            work.expect("a test reads each of the files")
        });
        read.collect()
    });
    &WORKS
}

/// All published numbers of a task.
pub fn of_task(task: &str) -> Vec<Record> {
    let works = works().iter();
    let records = works.flat_map(Work::records);
    records.filter(|record| record.task == task).collect()
}

/// Operations of an item of the operator `arithmetic` in a round; see the operator's page.
pub const OPERATIONS_OF_ROUND: f64 = 8.0;

/// Gives a number in operations a second, whose test says how many rounds an item has, as items a second: dpb's metric.
pub fn in_items(number: &mut Record) {
    let rounds = number.parameters.get("op.rounds").and_then(as_number);
    if let Some(rounds) = rounds
        && let Some(mut summary) = number.summary.remove("operations_per_s")
    {
        summary.median /= OPERATIONS_OF_ROUND * rounds;
        number.summary.insert("items_per_s".to_owned(), summary);
    }
}

/// True if a paper may have a number of the record's test: it is dpb's own, where it says so, and of a closed loop.
pub fn may_have_numbers(record: &Record) -> bool {
    let is = |name: &str, value: &str| {
        let own = record.parameters.get(name);
        own.is_none_or(|own| own.to_string() == value)
    };
    is("tool", "dpb") && is("mode", "closed")
}

/// True if a published number is of the record's test, which has all parameters that the number has.
pub fn is_of(record: &Record, number: &Record) -> bool {
    let mut own = number
        .parameters
        .iter()
        .filter(|(name, _)| *name != "platform");
    let has_all = own.all(|(name, value)| {
        let other = record.parameters.get(name);
        other.is_some_and(|other| are_same(value, other))
    });
    record.task == number.task && has_all && may_have_numbers(record)
}

/// The published number as one of the record's test, if it is one.
pub fn number_of(record: &Record, number: &Record) -> Option<Record> {
    if !is_of(record, number) {
        return None;
    }
    let mut number = number.clone();
    number.parameters.clone_from(&record.parameters);
    in_items(&mut number);
    let has_its_metric = |name: &String| record.summary.contains_key(name);
    let has_metric = number.summary.keys().any(has_its_metric);
    // What gave no numbers is shown with its reason.
    (has_metric || record.summary.is_empty()).then_some(number)
}

fn are_same(one: &Value, other: &Value) -> bool {
    match (as_number(one), as_number(other)) {
        (Some(one), Some(other)) => (one - other).abs() <= 1e-9 * one.abs(),
        _ => one == other,
    }
}

/// Predicate pushdown in dpBento.
pub fn pushdown() -> Vec<Record> {
    of_task("pushdown")
}

/// Index offloading in dpBento.
pub fn index() -> Vec<Record> {
    of_task("index")
}

/// Systems that papers simulated.
pub fn simulated() -> Vec<Record> {
    of_task("sim run")
}

/// Application recognition in DPUBench.
pub fn app_recognition() -> Vec<Record> {
    of_task("net app-recognition")
}

impl Work {
    /// Reads a data file.
    ///
    /// # Errors
    /// What is wrong with it, and where.
    pub fn read(text: &str) -> Result<Self, String> {
        let work: Self = toml::from_str(text).map_err(|error| error.to_string())?;
        let names: BTreeSet<&str> = work
            .platforms
            .iter()
            .map(|platform| platform.name.as_str())
            .collect();
        if names.len() < work.platforms.len() {
            return Err("two platforms of one name".to_owned());
        }
        for statement in &work.statements {
            if !names.contains(statement.platform.as_str()) {
                return Err(format!(
                    "a statement about {}, which is no platform",
                    statement.platform
                ));
            }
            if statement.place.is_empty() || statement.text.is_empty() {
                return Err(format!("an empty statement about {}", statement.platform));
            }
        }
        for figure in &work.figures {
            figure.check(&names).map_err(|error| {
                format!("figure {} of {}: {error}", figure.number, figure.place)
            })?;
        }
        Ok(work)
    }

    /// Its numbers, as records.
    pub fn records(&self) -> impl Iterator<Item = Record> + '_ {
        let cells = self.figures.iter().flat_map(Figure::cells);
        cells
            .enumerate()
            .map(|(at, (figure, cell))| self.record(at, figure, cell))
    }

    fn record(&self, at: usize, figure: &Figure, (axis, platform, number): Cell<'_>) -> Record {
        let short = &self.source.short;
        let mut parameters = figure.parameters.clone();
        parameters.insert("platform".to_owned(), Value::from(platform));
        parameters.extend(axis.map(|(name, value)| (name.to_owned(), value.clone())));
        let summary = Summary {
            median: number * figure.unit,
            ci95_low: None,
            ci95_high: None,
            samples: 1,
        };
        let cpu = self.platforms.iter().find(|known| known.name == platform);
        Record {
            schema_version: SCHEMA_VERSION,
            id: format!("published-{short}-{}-{at}-{platform}", figure.number),
            task: figure.task.clone(),
            parameters,
            evidence: Evidence::Published {
                source: format!(
                    "{}, figure {}, {}",
                    self.source.work, figure.number, figure.place
                ),
            },
            outcome: Outcome::Done,
            check: None,
            samples: BTreeMap::new(),
            counts: BTreeMap::new(),
            summary: BTreeMap::from([(figure.metric.clone(), summary)]),
            stability: None,
            findings: BTreeMap::new(),
            provenance: elsewhere(cpu.map_or("", |platform| &platform.cpu)),
        }
    }
}

/// The value of the axis, if there is one, the platform, and its number.
type Cell<'a> = (Option<(&'a str, &'a Value)>, &'a str, f64);

impl Figure {
    fn check(&self, platforms: &BTreeSet<&str>) -> Result<(), String> {
        if let Some(name) = self
            .platforms
            .iter()
            .find(|name| !platforms.contains(name.as_str()))
        {
            return Err(format!("{name} is no platform of this file"));
        }
        if self.place.is_empty() || self.number.is_empty() {
            return Err("no number, or no place".to_owned());
        }
        if !(self.unit.is_finite() && self.unit > 0.0) {
            return Err(format!("the unit {}", self.unit));
        }
        if let Some((name, value)) = self.parameters.iter().find(|(_, value)| !is_kept(value)) {
            return Err(format!("{name} = {value} is no parameter"));
        }
        let wide = self.platforms.len() + usize::from(self.axis.is_some());
        for row in &self.rows {
            if row.len() != wide {
                return Err(format!("{row:?} has {} values, not {wide}", row.len()));
            }
            let axis = usize::from(self.axis.is_some());
            if let Some(value) = row[..axis].iter().find(|value| !is_kept(value)) {
                return Err(format!("{value} is no value of an axis"));
            }
            for value in &row[axis..] {
                match as_number(value) {
                    Some(number) if number.is_nan() => {}
                    Some(number) if number > 0.0 && (number * self.unit).is_normal() => {}
                    _ => return Err(format!("{value} is no positive number in its unit")),
                }
            }
        }
        match self.cells().next() {
            Some(_) => Ok(()),
            None => Err("no number".to_owned()),
        }
    }

    /// Each number that the work has.
    fn cells(&self) -> impl Iterator<Item = (&Self, Cell<'_>)> {
        self.rows.iter().flat_map(move |row| {
            let (axis, numbers) = match &self.axis {
                Some(name) => (row.first().map(|value| (name.as_str(), value)), &row[1..]),
                None => (None, &row[..]),
            };
            let named = self.platforms.iter().zip(numbers);
            named.filter_map(move |(platform, number)| {
                let number = as_number(number).filter(|number| !number.is_nan())?;
                Some((self, (axis, platform.as_str(), number)))
            })
        })
    }
}

/// Whether a record keeps the value: JSON has no infinity and no `nan`.
fn is_kept(value: &Value) -> bool {
    !matches!(value, Value::Float(number) if !number.is_finite())
}

fn as_number(value: &Value) -> Option<f64> {
    match value {
        Value::Int(value) => Some(*value as f64),
        Value::Float(value) => Some(*value),
        Value::Bool(_) | Value::Text(_) => None,
    }
}

/// Somebody else's machine, of which a paper says little.
fn elsewhere(cpu: &str) -> Provenance {
    Provenance {
        run: String::new(),
        command: Vec::new(),
        started_unix_s: 0.0,
        dpb_version: String::new(),
        toolchain: String::new(),
        cpu_model: cpu.to_owned(),
        cpus: 0,
        cpu_level: String::new(),
        cpu_features: Vec::new(),
        pinned: Vec::new(),
        governor: None,
        kernel: String::new(),
        memory_bytes: 0,
        host: String::new(),
        libraries: BTreeMap::new(),
        made_of: None,
        seed: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = r#"
        [source]
        work = "A paper"
        short = "paper"
        [[platform]]
        name = "card"
        cpu = "8 cores"
        place = "table 1"
        [[figure]]
        number = "3"
        place = "section 2"
        task = "memory"
        metric = "accesses_per_s"
        unit = 1e6
        axis = "size"
        parameters = { pattern = "random" }
        platforms = ["card"]
        rows = [[16384, 2.5], [4096, nan]]
    "#;

    #[test]
    fn each_file_is_read_and_each_number_says_where_it_stands() {
        let mut ids = BTreeSet::new();
        for (name, text) in FILES {
            let work = Work::read(text).unwrap_or_else(|error| panic!("{name}: {error}"));
            for record in work.records() {
                assert!(
                    crate::TASKS.find(&record.task).is_some(),
                    "{name}: {}",
                    record.task
                );
                assert_eq!(record.evidence.kind(), "published");
                let Evidence::Published { source } = &record.evidence else {
                    panic!("{}", record.id)
                };
                assert!(source.contains("figure "), "{source}");
                assert!(ids.insert(record.id.clone()), "{}", record.id);
            }
        }
        // Arithmetic 48, strings 48, memory 48 and 20, storage 48, TCP 4, pushdown 5, less what the repository has as zero; application recognition 4;
        // headroom 93; the index 4; transactions and completion times of Woo and Chung 4 and 2.
        assert_eq!(ids.len(), 225 + 93 + 4 + 4 + 2);
    }

    #[test]
    fn a_number_has_the_unit_of_its_metric() {
        let work = Work::read(SMALL).expect("a whole file");
        let records: Vec<Record> = work.records().collect();
        assert_eq!(records.len(), 1, "what the work does not have is no record");
        assert_eq!(records[0].summary["accesses_per_s"].median, 2.5e6);
        assert_eq!(records[0].parameters["size"], Value::Int(16384));
        assert_eq!(records[0].provenance.cpu_model, "8 cores");
    }

    #[test]
    fn what_is_wrong_with_a_file_is_said() {
        for (from, to, what) in [
            (
                "platforms = [\"card\"]",
                "platforms = [\"cart\"]",
                "cart is no platform",
            ),
            ("[16384, 2.5]", "[16384, 2.5, 3]", "has 3 values, not 2"),
            ("[16384, 2.5]", "[16384, 0.0]", "0 is no positive number"),
            ("[16384, 2.5]", "[16384, inf]", "inf is no positive number"),
            (
                "unit = 1e6",
                "unit = 1e308",
                "2.5 is no positive number in its unit",
            ),
            ("[16384, 2.5]", "[inf, 2.5]", "inf is no value of an axis"),
            ("\"random\"", "nan", "pattern = NaN is no parameter"),
            ("unit = 1e6", "unit = -1e6", "the unit -1000000"),
            ("place = \"section 2\"", "place = \"\"", "no place"),
            ("short = \"paper\"", "short = \"paper\"\npage = 3", "page"),
            ("rows = [[16384, 2.5], ", "rows = [", "no number"),
        ] {
            let wrong = SMALL.replace(from, to);
            assert_ne!(wrong, SMALL, "{from}");
            let error = Work::read(&wrong).expect_err(to);
            assert!(error.contains(what), "{error}");
        }
    }
}
