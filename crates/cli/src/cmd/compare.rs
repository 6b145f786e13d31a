//! `dpb compare`: two files of records, test by test, or a file beside what papers say of a platform.

mod platform;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use clap::builder::PossibleValuesParser;
use dpb_core::measure::comparison::{
    self, Comparison, Declared, Judgement, Options, SideOfComparison,
};
use dpb_core::measure::{Reading, Record};
use dpb_dbmods::tpch;

use crate::Globals;
use crate::args::{self, List, Regression};
use crate::exit::Failure;
use crate::output::{self, Column, Format, Table, short};
use crate::plugin::Plugins;
use crate::shown::ShownTasks;
use crate::task::Tasks;

/// What is compared, and how.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Tests are paired by their parameters; --repeat, --seconds and other parameters of precision may differ. A ratio is B's runs over A's, with an \
                  interval that is corrected for the number of ratios. The interval covers the spread of a record's runs, not what sets two processes \
                  on one machine apart: for that there is `dpb ab`.\n\
                  Examples:\n  dpb compare host.jsonl dpu.jsonl\n  \
                  dpb compare before.jsonl after.jsonl --fail-on worse:5%\n  \
                  dpb compare records.jsonl records.jsonl --where backend=cpu/portable,cpu/best --ignore backend\n  \
                  dpb compare host.jsonl dpu.jsonl --format markdown\n  \
                  dpb compare --published bluefield-3 --across-evidence dpbento-results/records.jsonl"
)]
pub struct Args {
    /// A file of records; with --published B's, and the only one
    a: PathBuf,
    /// Another one
    #[arg(required_unless_present = "published", conflicts_with = "published")]
    b: Option<PathBuf>,
    /// As A what papers say of this platform, of the tests in the file; --across-evidence says that this is wanted. Papers'
    /// numbers have no interval, so --fail-on has nothing to judge
    #[arg(long, value_name = "PLATFORM", requires = "across_evidence", conflicts_with = "fail_on", value_parser = PossibleValuesParser::new(platform::PLATFORMS))]
    published: Option<String>,
    /// The metrics that are compared [default: the one that each record is about, such as items_per_s]
    #[arg(long, value_parser = args::words)]
    metric: Option<List<String>>,
    /// Parameters that paired tests may differ in
    #[arg(long, value_parser = args::words)]
    ignore: Option<List<String>>,
    /// Only tests with this value of a parameter; with two values the first is A's, the second B's. The flag may be given several times
    #[arg(long = "where", value_name = "PARAMETER=A[,B]", value_parser = condition)]
    conditions: Vec<Condition>,
    /// A ratio this near to 1 is no difference
    #[arg(long, value_parser = args::share, default_value = "1%")]
    margin: f64,
    /// Exit with 1 if a test of B is surely worse than A's, and by so much or more, or failed, or if no test could be judged
    #[arg(long, value_name = "worse:SHARE")]
    fail_on: Option<Regression>,
    /// Compare what was measured with what was emulated, simulated, published or predicted too; such rows are marked. A prediction shares a ratio with the same test alone: it is the error
    #[arg(long)]
    across_evidence: bool,
    /// Compare although other work took time from a side while it was measured
    #[arg(long)]
    despite_interference: bool,
    /// A plug-in's folder, or a folder with plug-ins, whose metrics its manifest declares; those that the data folder
    /// (`DPB_DATA_DIR`) knows, because they have run with it, are found without the flag
    #[arg(long, value_name = "FOLDER")]
    plugins: Vec<PathBuf>,
    /// Compare records of one machine although its governor, kernel, CPU level or number of CPUs differs; such rows are marked
    #[arg(long)]
    across_state: bool,
}

/// A parameter's value in A, and in B.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Condition {
    parameter: String,
    values: [String; 2],
}

fn condition(text: &str) -> Result<Condition, String> {
    let (parameter, values) = text
        .split_once('=')
        .ok_or("it needs a parameter and a value, as in size=64")?;
    let (a, b) = values.split_once(',').unwrap_or((values, values));
    Ok(Condition {
        parameter: parameter.to_owned(),
        values: [a, b].map(str::to_owned),
    })
}

/// Compares and prints.
pub fn run(args: Args, globals: &Globals) -> Result<(), Failure> {
    let (a, b) = sides(&args, globals.tasks)?;
    let listed = |list: &Option<List<String>>| {
        list.iter()
            .flat_map(List::iter)
            .cloned()
            .collect::<Vec<_>>()
    };
    let plugins = Plugins::known(&args.plugins, &tpch::default_data_dir(), globals.tasks)?;
    let shown = ShownTasks::of(globals.tasks, &plugins)?;
    let options = Options {
        metrics: listed(&args.metric),
        ignored: listed(&args.ignore).into_iter().collect(),
        margin: args.margin,
        across_evidence: args.across_evidence,
        despite_interference: args.despite_interference,
        across_state: args.across_state,
        declared: declared(&shown),
    };
    check_names(&a, &b, &options)?;
    let mut compared = comparison::compare(&a, &b, &options);
    if args.published.is_some() {
        for one in &mut compared {
            one.notes.extend(platform::apart(&one.parameters));
        }
    }
    let is_paired = |one: &Comparison| one.a.is_some() && one.b.is_some();
    if !compared.iter().any(is_paired) {
        return Err(Failure::usage(unpaired(&a, &b)));
    }
    output::print_rows(globals.format(), &table(&compared), &compared)?;
    if matches!(globals.format(), Format::Table | Format::Markdown) {
        output::print(&format!("\n{}\n", counts(&compared)))?;
    }
    match &args.fail_on {
        Some(limit) => regressions(&compared, *limit),
        None => Ok(()),
    }
}

/// The records of A and B.
fn sides(args: &Args, tasks: Tasks) -> Result<(Vec<Record>, Vec<Record>), Failure> {
    match (&args.published, &args.b) {
        (Some(platform), _) => beside_papers(args, platform, tasks),
        (None, Some(b)) => Ok((
            records(&args.a, &args.conditions, 0)?,
            records(b, &args.conditions, 1)?,
        )),
        (None, None) => Err(Failure::usage(
            "name a second file, or a platform with --published",
        )),
    }
}

/// What papers say of a platform, and the tests of the file that it is of.
fn beside_papers(
    args: &Args,
    platform: &str,
    tasks: Tasks,
) -> Result<(Vec<Record>, Vec<Record>), Failure> {
    let all = records(&args.a, &args.conditions, 1)?;
    let count = all.len();
    let (a, b) = platform::beside(platform, all, &args.a, tasks)?;
    let left = count - b.len();
    if left > 0 {
        output::note(&format!(
            "{left} of {count} tests are left out: no paper has a number of theirs for {platform}"
        ));
    }
    Ok((a, b))
}

/// Prints what has changed between two sets of records of the same tests.
///
/// # Errors
/// If stdout cannot be written, or no test is in both.
pub fn show_change(
    a: &[Record],
    b: &[Record],
    shown: &ShownTasks,
    format: Format,
) -> Result<(), Failure> {
    let options = Options {
        metrics: Vec::new(),
        ignored: BTreeSet::new(),
        margin: 0.01,
        across_evidence: false,
        despite_interference: true,
        across_state: true,
        declared: declared(shown),
    };
    let compared = comparison::compare(a, b, &options);
    let in_both = compared
        .into_iter()
        .filter(|one| one.a.is_some() && one.b.is_some());
    let in_both: Vec<Comparison> = in_both.collect();
    if in_both.is_empty() {
        return Err(Failure::check(unpaired(a, b)));
    }
    output::print_rows(format, &table(&in_both), &in_both)
}

/// The metrics of each task, and those of `dpb ab`, which is no task of boxes.
fn declared(shown: &ShownTasks) -> BTreeMap<String, Vec<Declared>> {
    let mut declared = shown.declared();
    declared.insert(super::ab::TASK.to_owned(), super::ab::metrics());
    declared
}

/// The records of a file that fit the conditions.
fn records(path: &Path, conditions: &[Condition], side: usize) -> Result<Vec<Record>, Failure> {
    let reading = Reading::of_file(path)
        .map_err(|error| Failure::usage(format!("cannot read the {error}")))?;
    for damage in &reading.damaged {
        let (path, number) = (path.display(), damage.number);
        output::note(&format!("dpb: skipped {path}:{number}: {}", damage.reason));
    }
    let fits = |record: &Record| {
        conditions.iter().all(|condition| {
            let value = record.parameters.get(&condition.parameter);
            value.is_some_and(|value| value.to_string() == condition.values[side])
        })
    };
    let records = reading.records.into_iter().map(|line| line.record);
    let records: Vec<Record> = records.filter(fits).collect();
    match records.is_empty() {
        true => Err(Failure::usage(format!(
            "no such record in {}",
            path.display()
        ))),
        false => Ok(records),
    }
}

/// Refuses names that no record knows: a typo would compare nothing, or too much.
fn check_names(a: &[Record], b: &[Record], options: &Options) -> Result<(), Failure> {
    let both = || a.iter().chain(b);
    let parameters: BTreeSet<&String> =
        both().flat_map(|record| record.parameters.keys()).collect();
    let metrics: BTreeSet<&String> = both().flat_map(|record| record.summary.keys()).collect();
    let unknown = |flag: &str, name: &String, known: &BTreeSet<&String>| {
        let known: Vec<&str> = known.iter().map(|name| name.as_str()).collect();
        Failure::usage(format!(
            "{flag} {name}: no record has it; there are {}",
            known.join(", ")
        ))
    };
    if let Some(name) = options
        .ignored
        .iter()
        .find(|name| !parameters.contains(name))
    {
        return Err(unknown("--ignore", name, &parameters));
    }
    match options.metrics.iter().find(|name| !metrics.contains(name)) {
        Some(name) => Err(unknown("--metric", name, &metrics)),
        None => Ok(()),
    }
}

/// Why nothing was paired, by the first test of each side.
fn unpaired(a: &[Record], b: &[Record]) -> String {
    let (Some(a), Some(b)) = (a.first(), b.first()) else {
        return "no records".to_owned();
    };
    if a.task != b.task {
        return format!(
            "no test is in both files: A has task `{}`, B `{}`",
            a.task, b.task
        );
    }
    let names: BTreeSet<&String> = a.parameters.keys().chain(b.parameters.keys()).collect();
    let value = |record: &Record, name: &String| {
        record
            .parameters
            .get(name)
            .map_or_else(|| "-".to_owned(), ToString::to_string)
    };
    let differing = names
        .into_iter()
        .filter(|name| a.parameters.get(*name) != b.parameters.get(*name));
    let differing: Vec<String> = differing
        .map(|name| format!("{name}: {} and {}", value(a, name), value(b, name)))
        .collect();
    format!(
        "no test is in both files; their first ones differ in {} (see --ignore)",
        differing.join("; ")
    )
}

/// Fails if a test is worse by so much, or failed, or if none was judged: then nothing is known of B.
fn regressions(compared: &[Comparison], limit: Regression) -> Result<(), Failure> {
    let is_worse = |one: &&Comparison| {
        let gain = one.gain().unwrap_or(1.0);
        limit.is_met(gain, one.verdict == Judgement::Worse)
    };
    let has_failed = |one: &&Comparison| one.notes.iter().any(|note| note.starts_with("B failed"));
    let worse = compared.iter().filter(is_worse).count();
    let failed = compared.iter().filter(has_failed).count();
    match (worse, failed) {
        (0, 0) => judged(compared),
        (worse, 0) => Err(Failure::check(format!(
            "{worse} of {} worse by {limit}",
            compared.len()
        ))),
        (worse, failed) => Err(Failure::check(format!(
            "{worse} of {} worse by {limit}, {failed} failed",
            compared.len()
        ))),
    }
}

/// Fails if no test has an interval, and says how many have none. A test without one cannot be found worse.
fn judged(compared: &[Comparison]) -> Result<(), Failure> {
    let without = |one: &&Comparison| one.ratio_low.is_none();
    let count = compared.iter().filter(without).count();
    let Some(first) = compared.iter().find(without) else {
        return Ok(());
    };
    let why = first
        .notes
        .first()
        .map_or(first.verdict.name(), String::as_str);
    let said = format!(
        "--fail-on: {count} of {} tests could not be judged; the first: {why}",
        compared.len()
    );
    if count == compared.len() {
        return Err(Failure::check(said));
    }
    output::note(&format!("dpb: {said}"));
    Ok(())
}

fn table(compared: &[Comparison]) -> Table {
    let mut table = Table::new([
        Column::left("test"),
        Column::left("metric"),
        Column::right("A"),
        Column::right("B"),
        Column::right("B/A"),
        Column::right("interval"),
        Column::noted("verdict"),
    ]);
    let varied = varied(compared);
    for one in compared {
        let median = |side: &Option<SideOfComparison>| {
            let median = side.as_ref().and_then(|side| side.median);
            median.map_or_else(|| "-".to_owned(), short)
        };
        let figure = |value: Option<f64>| {
            value.map_or_else(|| "-".to_owned(), |value| format!("{value:.3}"))
        };
        let interval = one.ratio_low.zip(one.ratio_high);
        let verdict = match &one.notes[..] {
            [] => one.verdict.name().to_owned(),
            notes => format!("{}: {}", one.verdict.name(), notes.join("; ")),
        };
        table.row([
            name(one, &varied),
            one.metric.clone(),
            median(&one.a),
            median(&one.b),
            figure(one.ratio),
            interval.map_or_else(
                || "-".to_owned(),
                |(low, high)| format!("{low:.3}..{high:.3}"),
            ),
            verdict,
        ]);
    }
    table
}

/// Parameters in which tests differ: the others would say the same in each row.
fn varied(compared: &[Comparison]) -> BTreeSet<&str> {
    let mut values: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    let mut tests: BTreeMap<&str, usize> = BTreeMap::new();
    for one in compared {
        for (name, value) in &one.parameters {
            values.entry(name).or_default().insert(value.to_string());
            *tests.entry(name).or_default() += 1;
        }
    }
    let is_varied = |name: &&str| values[name].len() > 1 || tests[name] < compared.len();
    values.keys().copied().filter(is_varied).collect()
}

/// The test in a few words: its task, what it is about, and the parameters that vary.
fn name(one: &Comparison, varied: &BTreeSet<&str>) -> String {
    // What a row is about, whether it varies or not.
    const ALWAYS: [&str; 3] = ["operator", "query", "scheme"];
    let about = ALWAYS.iter().filter_map(|name| one.parameters.get(*name));
    let about = about.map(ToString::to_string);
    let parameters = one
        .parameters
        .iter()
        .filter(|(name, _)| varied.contains(name.as_str()) && !ALWAYS.contains(&name.as_str()));
    let parameters = parameters.map(|(name, value)| format!("{name}={value}"));
    let words = [one.task.clone()]
        .into_iter()
        .chain(about)
        .chain(parameters);
    words.collect::<Vec<_>>().join(" ")
}

/// How many of each verdict.
fn counts(compared: &[Comparison]) -> String {
    let mut counts: BTreeMap<Judgement, usize> = BTreeMap::new();
    for one in compared {
        *counts.entry(one.verdict).or_default() += 1;
    }
    let counts: Vec<String> = counts
        .iter()
        .map(|(verdict, count)| format!("{count} {}", verdict.name()))
        .collect();
    counts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_have_a_value_for_each_side() {
        let both = condition("size=64").unwrap();
        assert_eq!(both.values, ["64", "64"]);
        let each = condition("backend=cpu/best,pool/2").unwrap();
        assert_eq!(
            (each.parameter.as_str(), each.values),
            ("backend", ["cpu/best", "pool/2"].map(str::to_owned))
        );
        assert!(condition("size").is_err());
    }

    #[test]
    fn a_gate_that_judged_nothing_does_not_pass() {
        let limit: Regression = "worse:5%".parse().expect("a limit");
        let record = |runs: usize| {
            let mut record = Record::new("op", dpb_core::measure::Evidence::Measured, 1);
            let values = (0..runs).map(|at| 1e6 + at as f64).collect();
            record.sample("items_per_s", values);
            [record]
        };
        let gate = |runs| {
            let options = Options {
                metrics: Vec::new(),
                ignored: BTreeSet::new(),
                margin: 0.01,
                across_evidence: false,
                despite_interference: false,
                across_state: false,
                declared: declared(&crate::TASKS.into()),
            };
            let compared = comparison::compare(&record(7), &record(runs), &options);
            regressions(&compared, limit)
        };
        assert!(gate(7).is_ok());
        let failure = gate(1).expect_err("one run has no interval");
        assert_eq!(failure.exit, crate::exit::Exit::Check);
        assert!(failure.message.contains("1 of 1 tests"), "{failure}");
    }
}
