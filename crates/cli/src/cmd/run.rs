//! `dpb run`: the tests of a box, each in a process of its own.

mod results;
mod schedule;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use dpb_core::measure::provenance::memory_available_bytes;
use dpb_core::measure::{Evidence, Outcome, Reading, Record};
use dpb_core::random::SplitMix64;
use dpb_dbmods::tpch;

use self::results::Results;
use self::schedule::Schedule;
use super::report;
use crate::args;
use crate::boxes::{Changes, MeasurementBox, Runner, Test};
use crate::contained::{self, Bounds, How};
use crate::exit::{Exit, Failure};
use crate::output::{self, Column, Format, Progress, Table};
use crate::plugin::{Plugins, Step};
use crate::task::Cost;
use crate::{Globals, interrupt};

/// Most that a test may print.
const STDOUT_BYTES_MAX: usize = 256 << 20;
/// A test that takes this many times its estimate, and a minute more, is ended.
const PATIENCE: u32 = 20;
/// The variable that gives the records of one run of a box one name of a run.
const RUN: &str = "DPB_RUN";
/// The variable that names the folder for data.
const DATA_DIR: &str = "DPB_DATA_DIR";

/// Run the tests of a box: a JSON file that names tasks and lists of their parameters.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "A box that was interrupted goes on where it stood when the same command is given again.\n\
                  Prepared data stays for the next box; `dpb clean` removes it.\n\
                  Examples:\n  dpb run quick\n  dpb run my.json --dry-run\n  dpb run host --time-budget 10m --out host\n  \
                  dpb run my.json --filter task=op --filter size=64,1500 --plugins ./plugins"
)]
pub struct Args {
    /// The box: a file, or the name of one that dpb ships (see `dpb list boxes`)
    #[arg(value_name = "BOX")]
    name: String,
    /// The folder for results; one that holds part of the same box's results is completed [default: NAME-results]
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Say which tests there are and what they take, and run none
    #[arg(long)]
    dry_run: bool,
    /// Run only tests with these values, NAME=VALUE with more values behind commas; `task` is a name too
    #[arg(long, value_name = "NAME=VALUES", value_parser = filter)]
    filter: Vec<(String, Vec<String>)>,
    /// Run the tests in an order that the seed draws
    #[arg(long)]
    shuffle: bool,
    /// Choose the number of runs of each test so that all tests together take about this long
    #[arg(long, value_name = "TIME", value_parser = args::duration, conflicts_with = "repeat")]
    time_budget: Option<Duration>,
    /// The number of runs of each test, instead of the box's
    #[arg(long, value_name = "COUNT", value_parser = args::count)]
    repeat: Option<u64>,
    /// The seed of everything random, instead of the box's
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
    /// A plug-in's folder, or a folder with plug-ins
    #[arg(long, value_name = "FOLDER")]
    plugins: Vec<PathBuf>,
    /// The folder that data is kept in [default: $DPB_DATA_DIR, $XDG_DATA_HOME/dpb, ~/.local/share/dpb; without HOME ./dpb-data]
    #[arg(long, value_name = "FOLDER")]
    data_dir: Option<PathBuf>,
}

/// `size=64,1500`.
fn filter(text: &str) -> Result<(String, Vec<String>), String> {
    let (name, values) = text
        .split_once('=')
        .filter(|(name, values)| !name.is_empty() && !values.is_empty())
        .ok_or_else(|| format!("`{text}` is not NAME=VALUE"))?;
    let values = values.split(',').map(|value| value.trim().to_owned());
    Ok((name.to_owned(), values.collect()))
}

/// Reads the box, runs what is missing of it, writes records and report.
pub fn run(args: Args, globals: &Globals) -> Result<(), Failure> {
    interrupt::flag();
    let plugins = Plugins::of(&args.plugins, globals.tasks)?;
    let changes = Changes {
        seed: args.seed,
        repeats: args.repeat,
    };
    let mut asked = MeasurementBox::open(&args.name, &plugins, &changes, globals)?;
    if !globals.quiet && !asked.description.is_empty() {
        output::note(&format!("{}: {}", asked.name, asked.description));
    }
    for absent in &asked.absent {
        output::note(&format!("not in dpb: {absent}"));
    }
    narrow(&mut asked, &args.filter)?;
    if asked.tests.is_empty() {
        return Err(match asked.absent.is_empty() {
            true => Failure::usage(format!("{}: the box has no tests", args.name)),
            false => Failure::unavailable("dpb has no task for anything in this box"),
        });
    }
    if args.dry_run {
        return dry_run(&asked, args.time_budget, globals.format());
    }
    refuse_what_does_not_fit(&asked)?;
    let data_dir = args.data_dir.clone().unwrap_or_else(tpch::default_data_dir);
    let data_dir = std::path::absolute(data_dir).map_err(anyhow::Error::from)?;
    let results = Results::open(args.out.clone(), &asked)?;
    let mut runs = Runs {
        asked: &asked,
        args: &args,
        globals,
        data_dir,
        results,
        prepared: BTreeMap::new(),
        run: String::new(),
    };
    let ended = runs.all();
    runs.finish(ended)
}

/// Leaves the tests that all filters take.
fn narrow(asked: &mut MeasurementBox, filters: &[(String, Vec<String>)]) -> Result<(), Failure> {
    for (name, values) in filters {
        let is_known = |test: &Test| name == "task" || test.value(name).is_some();
        if !asked.tests.iter().any(is_known) {
            return Err(Failure::usage(format!(
                "--filter {name}: no test of this box has such a parameter"
            )));
        }
        asked.tests.retain(|test| match name.as_str() {
            "task" => values.iter().any(|value| value == test.runner.name()),
            name => test
                .value(name)
                .is_some_and(|value| values.contains(&value)),
        });
    }
    Ok(())
}

/// One line a task: how many tests, and what they take.
fn dry_run(
    asked: &MeasurementBox,
    budget: Option<Duration>,
    format: Format,
) -> Result<(), Failure> {
    #[derive(serde::Serialize)]
    struct Row {
        task: String,
        tests: usize,
        repeats: u64,
        seconds: f64,
        memory_bytes: u64,
        disk_bytes: u64,
    }
    let schedule = Schedule::new(&asked.tests, budget);
    let mut rows: Vec<Row> = Vec::new();
    for (at, test) in asked.tests.iter().enumerate() {
        let (cost, repeats) = (schedule.cost(at), schedule.repeats(test));
        let name = test.runner.name();
        if !rows.iter().any(|row| row.task == name) {
            rows.push(Row {
                task: name.to_owned(),
                tests: 0,
                repeats,
                seconds: 0.0,
                memory_bytes: 0,
                disk_bytes: 0,
            });
        }
        let row = rows
            .iter_mut()
            .find(|row| row.task == name)
            .expect("pushed");
        row.tests += 1;
        row.seconds += cost.time(repeats).as_secs_f64();
        row.memory_bytes = row.memory_bytes.max(cost.memory_bytes);
        // Tests of one task share what is prepared.
        row.disk_bytes = row.disk_bytes.max(cost.disk_bytes);
    }
    let mut table = Table::new([
        Column::left("task"),
        Column::right("tests"),
        Column::right("runs each"),
        Column::right("about"),
        Column::right("memory"),
        Column::right("new on disk"),
    ]);
    for row in &rows {
        table.row([
            row.task.clone(),
            row.tests.to_string(),
            row.repeats.to_string(),
            schedule::short_time(Duration::from_secs_f64(row.seconds)),
            format!("{}B", output::short(row.memory_bytes as f64)),
            format!("{}B", output::short(row.disk_bytes as f64)),
        ]);
    }
    output::print_rows(format, &table, &rows)?;
    let all: f64 = rows.iter().map(|row| row.seconds).sum();
    output::note(&format!(
        "{} tests, about {}; nothing was run",
        asked.tests.len(),
        schedule::short_time(Duration::from_secs_f64(all))
    ));
    Ok(())
}

/// Says before anything runs that memory does not suffice.
fn refuse_what_does_not_fit(asked: &MeasurementBox) -> Result<(), Failure> {
    let free = memory_available_bytes();
    for test in &asked.tests {
        let needed = test.cost().memory_bytes;
        if needed > free {
            return Err(Failure::unavailable(format!(
                "{} needs about {}B of memory, {}B are free; leave it out with --filter",
                test.title(),
                output::short(needed as f64),
                output::short(free as f64)
            )));
        }
    }
    Ok(())
}

/// The runs of a box's tests.
struct Runs<'a> {
    asked: &'a MeasurementBox,
    args: &'a Args,
    globals: &'a Globals,
    data_dir: PathBuf,
    results: Results,
    /// What came of preparing, by the words that asked for it.
    prepared: BTreeMap<Vec<String>, Result<(), String>>,
    /// The name that the records of this process's tests share.
    run: String,
}

impl Runs<'_> {
    /// Runs what is missing, in order.
    fn all(&mut self) -> Result<(), Failure> {
        let mut missing = self.results.missing();
        if self.args.shuffle {
            shuffle(&mut missing, self.asked.seed);
        }
        let done = self.asked.tests.len() - missing.len();
        if done > 0 {
            let all = self.asked.tests.len();
            output::note(&format!(
                "{done} of {all} tests are in {}",
                self.results.folder().display()
            ));
        }
        self.run = dpb_core::measure::provenance::new_run();
        let mut schedule = Schedule::new(&self.asked.tests, self.args.time_budget);
        schedule.leave(&missing);
        let progress = Progress::new(missing.len() as u64, self.globals.quiet);
        for (count, &at) in missing.iter().enumerate() {
            let test = &self.asked.tests[at];
            let left = schedule::short_time(schedule.left(&self.asked.tests));
            progress.set(count as u64, &format!("{left} left: {}", test.title()));
            let repeats = schedule.repeats(test);
            let start = Instant::now();
            let Some(records) = self.test(test, repeats, schedule.cost(at))? else {
                return Err(Failure::interrupted(format!(
                    "interrupted after {} of {} tests; the same command goes on there",
                    done + count,
                    self.asked.tests.len()
                )));
            };
            self.results.keep(at, &records)?;
            schedule.took(at, start.elapsed());
        }
        Ok(())
    }

    /// Runs one test. `None` if it was interrupted.
    fn test(
        &mut self,
        test: &Test,
        repeats: u64,
        cost: Cost,
    ) -> Result<Option<Vec<Record>>, Failure> {
        let failed = |outcome: Outcome| {
            let record = Record::new(test.runner.name(), Evidence::of_this_cpu(), self.asked.seed);
            let given = test.parameters.iter();
            let record = given.fold(record, |record, (parameter, value)| {
                record.with(&parameter.name, value.as_str())
            });
            vec![record.without_numbers(outcome)]
        };
        match self.prepare(test, repeats, cost)? {
            Prepared::Yes => {}
            Prepared::Interrupted => return Ok(None),
            Prepared::No(reason) => return Ok(Some(failed(Outcome::Failed { reason }))),
        }
        if let Runner::Plugin(plugin) = &test.runner {
            let state = self.state_of(&plugin.name);
            return plugin.test(&test.parameters, repeats, self.asked.seed, &state);
        }
        let words = test.words(repeats, self.asked.seed);
        let ended = self.start(&words, cost.time(repeats))?;
        if ended.left_behind > 0 {
            let title = test.title();
            output::note(&format!(
                "{title}: ended {} processes that it left",
                ended.left_behind
            ));
        }
        let why = last_words(&ended.stderr);
        let outcome = match ended.how {
            How::Interrupted => return Ok(None),
            How::Exited(_) => {
                let reading = Reading::of_bytes(&ended.stdout);
                if reading.damaged.is_empty() && !reading.records.is_empty() {
                    let records = reading.records.into_iter();
                    return Ok(Some(records.map(|line| line.record).collect()));
                }
                outcome_of(ended.how, why)
            }
            how => outcome_of(how, why),
        };
        Ok(Some(failed(outcome)))
    }

    /// The folder that a plug-in's state stays in.
    fn state_of(&self, plugin: &str) -> PathBuf {
        state_folder(&self.data_dir).join(plugin)
    }

    /// Makes what the test needs, once for all tests that need the same.
    fn prepare(&mut self, test: &Test, repeats: u64, cost: Cost) -> Result<Prepared, Failure> {
        let words = match &test.runner {
            Runner::Plugin(plugin) if !plugin.has(Step::Prepare) => return Ok(Prepared::Yes),
            Runner::Plugin(plugin) => vec![plugin.name.clone()],
            Runner::Task(task) => match task.prepare {
                None => return Ok(Prepared::Yes),
                Some(flag) => {
                    let mut words = test.words(repeats, self.asked.seed);
                    words.push(flag.to_owned());
                    words
                }
            },
        };
        if let Some(known) = self.prepared.get(&words) {
            return Ok(match known {
                Ok(()) => Prepared::Yes,
                Err(why) => Prepared::No(why.clone()),
            });
        }
        let came = match &test.runner {
            Runner::Plugin(plugin) => {
                match plugin.step(Step::Prepare, &self.state_of(&plugin.name), &[]) {
                    Err(failure) if failure.exit == Exit::Interrupted => {
                        return Ok(Prepared::Interrupted);
                    }
                    came => came.map(drop).map_err(|failure| failure.message),
                }
            }
            Runner::Task(_) => {
                let ended = self.start(&words, cost.once + Duration::from_secs(3600))?;
                match ended.how {
                    How::Interrupted => return Ok(Prepared::Interrupted),
                    How::Exited(status) if status.success() => Ok(()),
                    _ => Err(format!(
                        "it cannot be prepared: {}",
                        last_words(&ended.stderr)
                    )),
                }
            }
        };
        let prepared = match &came {
            Ok(()) => Prepared::Yes,
            Err(why) => Prepared::No(why.clone()),
        };
        self.prepared.insert(words, came);
        Ok(prepared)
    }

    /// Starts `dpb` with these words, and waits for its end.
    fn start(&self, words: &[String], estimate: Duration) -> Result<contained::Ended, Failure> {
        let broke = |error: std::io::Error| Failure::check(format!("cannot start a test: {error}"));
        let program = std::env::current_exe().map_err(broke)?;
        let mut command = contained::tied(program.as_os_str()).map_err(broke)?;
        command
            .args(words)
            .args(["--format", "json", "--quiet"].map(OsStr::new))
            .env(RUN, &self.run)
            .env(DATA_DIR, &self.data_dir);
        let bounds = Bounds {
            time: estimate * PATIENCE + Duration::from_secs(60),
            stdout_bytes: STDOUT_BYTES_MAX,
        };
        contained::run(command, b"", bounds).map_err(broke)
    }

    /// Writes records and report, shows both, and judges.
    fn finish(self, ended: Result<(), Failure>) -> Result<(), Failure> {
        let records = self.results.records()?;
        let page = self.results.folder().join("report.html");
        if !records.is_empty() {
            let html = crate::report::html(&records, &[], self.globals.tasks);
            report::write_whole(&page, &html)?;
        }
        self.results.write_records(&records)?;
        if !records.is_empty() {
            show(self.asked, &records, self.globals)?;
            self.plugin_reports(&records)?;
            let path = self.results.records_path();
            output::note(&format!("records: {}", path.display()));
            output::note(&format!("report: {}", page.display()));
        }
        ended?;
        judge(&records)
    }

    /// What plug-ins make of their own records.
    fn plugin_reports(&self, records: &[Record]) -> Result<(), Failure> {
        let mut shown: Vec<&str> = Vec::new();
        for test in &self.asked.tests {
            let Runner::Plugin(plugin) = &test.runner else {
                continue;
            };
            if shown.contains(&plugin.name.as_str()) || !plugin.has(Step::Report) {
                continue;
            }
            shown.push(&plugin.name);
            let own: Vec<Record> = records
                .iter()
                .filter(|record| record.task == plugin.name)
                .cloned()
                .collect();
            if !own.is_empty() {
                let said = plugin.step(Step::Report, &self.state_of(&plugin.name), &own)?;
                output::note(said.trim_end());
            }
        }
        Ok(())
    }
}

/// Whether a test has what it needs.
enum Prepared {
    Yes,
    No(String),
    Interrupted,
}

/// The folder of all plug-ins' state.
pub fn state_folder(data_dir: &Path) -> PathBuf {
    data_dir.join("plugins")
}

/// The last of a process's words that say something.
fn last_words(stderr: &str) -> String {
    let mut lines = stderr
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty());
    let last = lines.next_back().unwrap_or("it said nothing");
    last.strip_prefix("dpb: ").unwrap_or(last).to_owned()
}

/// What a test without records comes to.
fn outcome_of(how: How, reason: String) -> Outcome {
    match how {
        How::Exited(status) if status.code() == Some(Exit::Unavailable as i32) => {
            Outcome::Unsupported { reason }
        }
        How::Exited(_) => Outcome::Failed { reason },
        How::TimedOut => Outcome::Failed {
            reason: format!("it took far longer than it should, and was ended: {reason}"),
        },
        How::TooMuchOutput => Outcome::Failed {
            reason: "it printed too much".to_owned(),
        },
        How::Interrupted => Outcome::Interrupted,
    }
}

/// Fisher and Yates.
fn shuffle(order: &mut [usize], seed: u64) {
    let mut random = SplitMix64::new(seed);
    for last in (1..order.len()).rev() {
        let other = random.next_u64() % (last as u64 + 1);
        order.swap(last, other as usize);
    }
}

/// Records as a table a task, or as JSON lines.
fn show(asked: &MeasurementBox, records: &[Record], globals: &Globals) -> Result<(), Failure> {
    let format = globals.format();
    if format == Format::Json {
        return records.iter().try_for_each(output::print_json);
    }
    let mut tasks: Vec<&str> = Vec::new();
    for record in records {
        if !tasks.contains(&record.task.as_str()) {
            tasks.push(&record.task);
        }
    }
    for task in tasks {
        let own: Vec<&Record> = records
            .iter()
            .filter(|record| record.task == task)
            .collect();
        let wanted = asked.tests.iter().filter(|test| test.runner.name() == task);
        let wanted: Vec<&String> = wanted.flat_map(|test| &test.metrics).collect();
        let table = crate::report::text_table(globals.tasks.find(task), &own, &wanted);
        output::print(&match format {
            Format::Csv => table.to_csv(),
            Format::Markdown => format!("## {task}\n\n{}\n", table.to_markdown()),
            _ => format!("{task}\n{}\n", table.to_text()),
        })?;
    }
    Ok(())
}

/// Whether checks failed, or nothing could run.
fn judge(records: &[Record]) -> Result<(), Failure> {
    let failed: Vec<String> = records
        .iter()
        .filter_map(|record| match &record.outcome {
            Outcome::Failed { reason } => Some(format!("{}: {reason}", record.task)),
            _ => None,
        })
        .collect();
    if let Some(first) = failed.first() {
        return Err(Failure::check(format!(
            "{} tests failed, and give no numbers; the first: {first}",
            failed.len()
        )));
    }
    let has_numbers = |record: &Record| record.outcome == Outcome::Done;
    if records.iter().any(has_numbers) {
        return Ok(());
    }
    Err(Failure::unavailable(
        "no test of this box is available here",
    ))
}
