//! `dpb rank`: platforms by what they are good at, from their records.

use std::path::{Path, PathBuf};

use dpb_core::measure::{Reading, Record};
use dpb_dbmods::tpch;
use dpb_insight::rank::Move;
use serde::Serialize;

use crate::Globals;
use crate::args::{self, List};
use crate::exit::Failure;
use crate::output::{self, Column, Format, Table};
use crate::plugin::Plugins;
use crate::report::ranked::{self, Ranked, Wanted};
use crate::report::ranking;
use crate::shown::ShownTasks;

/// The things that are ranked, and the way.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Tests are the same if their parameters are, but for --repeat, --seconds and other parameters of precision. \"3 (2-5)\" is third by the mean of its runs, and by \
                  the intervals anything from second to fifth. Classes are stress-ng's, where records have them, and dpb's own tasks'. JSON has every test; a \
                  platform's tables are those that --platform names.\n\
                  Examples:\n  dpb run rank && dpb rank rank-results/records.jsonl --published --across-evidence\n  \
                  dpb rank host.jsonl dpu.jsonl --reference host\n  \
                  dpb import SmartNIC-WU --out liu.jsonl && dpb rank liu.jsonl --where timeout=60s --without pc3000 --reference pi4_4gb --platform MBF2H516A-CENO_Ax\n  \
                  dpb rank liu.jsonl --where timeout=60s --without pc3000 --before liu.jsonl --before-where timeout=10s --ignore timeout --platform MBF2H516A-CENO_Ax"
)]
pub struct Args {
    /// Files of records, of two platforms at least
    #[arg(required = true)]
    records: Vec<PathBuf>,
    /// The platform that ratios are held against [default: the first by name]
    #[arg(long, value_name = "PLATFORM")]
    reference: Option<String>,
    /// Print the classes, strengths and weaknesses of these platforms [default: those that were measured, if they are two at most]
    #[arg(long, value_name = "PLATFORMS", value_parser = args::words)]
    platform: Option<List<String>>,
    /// Leave these platforms out
    #[arg(long, value_name = "PLATFORMS", value_parser = args::words)]
    without: Option<List<String>>,
    /// Only tests with this value of a parameter. The flag may be given several times
    #[arg(long = "where", value_name = "PARAMETER=VALUE", value_parser = condition)]
    conditions: Vec<Condition>,
    /// Parameters in which tests may differ
    #[arg(long, value_parser = args::words)]
    ignore: Option<List<String>>,
    /// A rank up to this is a strength
    #[arg(long, value_name = "RANK", default_value_t = ranking::BEST)]
    best: usize,
    /// Rank the platforms by this file too, and print the tests in which a platform's rank there is another one by more than --steps
    #[arg(long, value_name = "FILE")]
    before: Option<PathBuf>,
    /// As --where, for the file of --before
    #[arg(long, value_name = "PARAMETER=VALUE", value_parser = condition, requires = "before")]
    before_where: Vec<Condition>,
    /// Ranks that differ by no more than this have not changed
    #[arg(long, value_name = "STEPS", default_value_t = 2)]
    steps: usize,
    /// Rank the platforms of papers too, by their numbers of tests that the records have
    #[arg(long, requires = "across_evidence")]
    published: bool,
    /// Rank what was measured with what was emulated, simulated or published; each platform says which it is
    #[arg(long)]
    across_evidence: bool,
    /// Rank although other work took time from a test while it was measured
    #[arg(long)]
    despite_interference: bool,
}

/// A parameter's value.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Condition {
    parameter: String,
    value: String,
}

fn condition(text: &str) -> Result<Condition, String> {
    let (parameter, value) = text
        .split_once('=')
        .ok_or("it needs a parameter and a value, as in timeout=60s")?;
    Ok(Condition {
        parameter: parameter.to_owned(),
        value: value.to_owned(),
    })
}

/// The form of the JSON.
#[derive(Serialize)]
struct Whole<'a> {
    #[serde(flatten)]
    ranking: &'a dpb_insight::rank::Ranking,
    evidence: &'a [&'static str],
    left_out: &'a [dpb_insight::rank::left_out::LeftOut],
    notes: &'a [String],
    moved: Vec<Moved>,
}

/// The tests in which a platform's rank changed.
#[derive(Serialize)]
struct Moved {
    platform: String,
    tests: Vec<Move>,
}

/// Reads, ranks, prints.
pub fn run(args: Args, globals: &Globals) -> Result<(), Failure> {
    let plugins = Plugins::known(&[], &tpch::default_data_dir(), globals.tasks)?;
    let shown = ShownTasks::of(globals.tasks, &plugins)?;
    let wanted = Wanted {
        reference: args.reference.clone(),
        ignored: args.ignore.iter().flat_map(List::iter).cloned().collect(),
        published: args.published,
        across_evidence: args.across_evidence,
        despite_interference: args.despite_interference,
    };
    let rank = |files: &[PathBuf], conditions: &[Condition]| -> Result<Ranked, Failure> {
        let records = records(files, conditions, args.without.as_ref())?;
        ranked::rank(&records, &shown, &wanted).map_err(Failure::usage)
    };
    let ranked = rank(&args.records, &args.conditions)?;
    let before = args
        .before
        .as_ref()
        .map(|file| rank(std::slice::from_ref(file), &args.before_where));
    let before = before.transpose()?;
    let platforms = platforms(&args, &ranked)?;
    let moved = before.iter().flat_map(|before| {
        platforms.iter().map(|&at| Moved {
            platform: ranked.ranking.platforms[at].clone(),
            tests: ranked
                .ranking
                .moved(&before.ranking, &ranked.ranking.platforms[at], args.steps),
        })
    });
    let moved: Vec<Moved> = moved.collect();
    match globals.format() {
        Format::Json => output::print_json(&Whole {
            ranking: &ranked.ranking,
            evidence: &ranked.kinds,
            left_out: &ranked.left_out,
            notes: &ranked.notes,
            moved,
        }),
        Format::Csv => output::print(&ranking::every(&ranked.ranking).to_csv()),
        Format::Table => output::print(&text(&args, &ranked, &platforms, &moved, Table::to_text)),
        Format::Markdown => output::print(&text(
            &args,
            &ranked,
            &platforms,
            &moved,
            Table::to_markdown,
        )),
    }
}

/// The platforms whose own tables are printed.
fn platforms(args: &Args, ranked: &Ranked) -> Result<Vec<usize>, Failure> {
    let ranking = &ranked.ranking;
    let Some(asked) = &args.platform else {
        let measured = (0..ranking.platforms.len()).filter(|at| ranked.kinds[*at] == "measured");
        let measured: Vec<usize> = measured.collect();
        return Ok(if measured.len() <= 2 {
            measured
        } else {
            Vec::new()
        });
    };
    let find = |name: &String| {
        let of_kind =
            |at: &usize| ranking.platforms[*at] == format!("{name} ({})", ranked.kinds[*at]);
        let found = ranking
            .platform(name)
            .or_else(|| (0..ranking.platforms.len()).find(of_kind));
        found.ok_or_else(|| {
            let known = ranking.platforms.join(", ");
            Failure::usage(format!(
                "--platform {name}: it is not ranked; there are {known}"
            ))
        })
    };
    asked.iter().map(find).collect()
}

fn text(
    args: &Args,
    ranked: &Ranked,
    platforms: &[usize],
    moved: &[Moved],
    form: fn(&Table) -> String,
) -> String {
    let mut text = format!("{}\n", ranking::verdict(ranked));
    for note in &ranked.notes {
        text.push_str(&format!("{note}\n"));
    }
    text.push_str(&format!("\n{}", form(&ranking::overall(ranked))));
    if !ranked.left_out.is_empty() {
        text.push_str(&format!(
            "\nWithout each platform in turn\n\n{}",
            form(&ranking::left_out(ranked))
        ));
    }
    for &at in platforms {
        let name = &ranked.ranking.platforms[at];
        let strengths = form(&ranking::strengths(&ranked.ranking, at, args.best));
        text.push_str(&format!(
            "\n{name}: ranks up to {}, and last ones\n\n{strengths}",
            args.best
        ));
        text.push_str(&format!(
            "\n{name} by class\n\n{}",
            form(&ranking::classes(&ranked.ranking, at))
        ));
    }
    for one in moved {
        let title = format!(
            "{}: ranks that differ from those of --before by more than {}",
            one.platform, args.steps
        );
        text.push_str(&format!("\n{title}\n\n{}", form(&moves(&one.tests))));
    }
    text
}

fn moves(moved: &[Move]) -> Table {
    let mut table = Table::new([
        Column::left("test"),
        Column::left("classes"),
        Column::right("before"),
        Column::right("now"),
    ]);
    for one in moved {
        table.row([
            one.test.clone(),
            one.classes.join(" | "),
            one.before.to_string(),
            one.after.to_string(),
        ]);
    }
    table
}

/// The records of files that fit the conditions, but for those of platforms that are left out.
fn records(
    files: &[PathBuf],
    conditions: &[Condition],
    without: Option<&List<String>>,
) -> Result<Vec<Record>, Failure> {
    let fits = |record: &Record| {
        conditions.iter().all(|condition| {
            let value = record.parameters.get(&condition.parameter);
            value.is_some_and(|value| value.to_string() == condition.value)
        })
    };
    let is_out = |record: &Record| {
        without.is_some_and(|list| list.iter().any(|name| *name == record.provenance.host))
    };
    let mut records = Vec::new();
    for path in files {
        records.extend(
            all(path)?
                .into_iter()
                .filter(|record| fits(record) && !is_out(record)),
        );
    }
    match records.is_empty() {
        true => Err(Failure::usage("no record fits")),
        false => Ok(records),
    }
}

fn all(path: &Path) -> Result<Vec<Record>, Failure> {
    let reading = Reading::of_file(path)
        .map_err(|error| Failure::usage(format!("cannot read the {error}")))?;
    for damage in &reading.damaged {
        let (path, number) = (path.display(), damage.number);
        output::note(&format!("dpb: skipped {path}:{number}: {}", damage.reason));
    }
    Ok(reading
        .records
        .into_iter()
        .map(|line| line.record)
        .collect())
}
