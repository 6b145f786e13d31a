//! `dpb run`: the tests of a box, each in a process of its own.

mod machines;
mod results;
mod schedule;
mod shared;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use dpb_core::measure::{Outcome, Provenance, Record};
use dpb_core::random::SplitMix64;
use dpb_dbmods::tpch;

use self::machines::{MachineEnd, Machines};
use self::results::Results;
use self::schedule::Schedule;
use self::shared::SharedFiles;
use crate::args;
use crate::boxes::{Changes, MeasurementBox, Runner, Site, Test};
use crate::contained::Unwatched;
use crate::executor::{Executor, Order, Surroundings, TestEnd, without_numbers};
use crate::exit::Failure;
use crate::output::{self, Column, Format, Progress, Table};
use crate::plugin::{Plugins, Step};
use crate::room::Room;
use crate::shown::ShownTasks;
use crate::{Globals, interrupt};

/// Run the tests of a box: a JSON file that names tasks and lists of their parameters.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "A box that was interrupted goes on where it stood when the same command is given again.\n\
                  Prepared data stays for the next box; `dpb clean` removes it.\n\
                  Examples:\n  dpb run quick\n  dpb run my.json --dry-run\n  dpb run host --time-budget 10m --out host\n  \
                  dpb run my.json --filter task=op --filter size=64,1500 --plugins ./plugins\n  \
                  dpb run rank --seconds 60s --out rank-60s\n  \
                  dpb run quick --on dpu=ssh:ubuntu@192.168.100.2\n  \
                  dpb run quick --on dpu=192.168.100.2:7400 --credentials client.credentials"
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
    /// Run only tests with these values, NAME=VALUE with more values behind commas, in any spelling (4KiB is 4096); `task` is a name too
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
    /// The time of each run, instead of the box's, in tasks that have such a parameter
    #[arg(long, value_name = "TIME", value_parser = args::duration)]
    seconds: Option<Duration>,
    /// The seed of everything random, instead of the box's
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
    /// A plug-in's folder, or a folder with plug-ins
    #[arg(long, value_name = "FOLDER")]
    plugins: Vec<PathBuf>,
    /// The folder that data is kept in [default: $DPB_DATA_DIR, $XDG_DATA_HOME/dpb, ~/.local/share/dpb; without HOME ./dpb-data]
    #[arg(long, value_name = "FOLDER")]
    data_dir: Option<PathBuf>,
    #[command(flatten)]
    machines: machines::Flags,
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
    if let Some(seconds) = args.seconds {
        let value = format!("{}s", seconds.as_secs_f64());
        let taken = asked
            .tests
            .iter_mut()
            .map(|test| test.set("seconds", &value));
        if taken.filter(|is_taken| *is_taken).count() == 0 {
            return Err(Failure::usage("--seconds: no task of this box has it"));
        }
    }
    let machines = Machines::reach(&args.machines)?;
    machines.spread(&mut asked, &args.machines)?;
    let data_dir = args.data_dir.clone().unwrap_or_else(tpch::default_data_dir);
    let data_dir = std::path::absolute(data_dir).map_err(anyhow::Error::from)?;
    let files = SharedFiles::of(&asked.tests, asked.seed, &data_dir);
    if args.dry_run {
        let all: Vec<usize> = (0..asked.tests.len()).collect();
        say_what_gets_no_numbers(&asked, &all, &files, &data_dir);
        return dry_run(&asked, args.time_budget, &data_dir, globals.format());
    }
    let results = Results::open(args.out.clone(), &asked)?;
    say_what_gets_no_numbers(&asked, &results.missing(), &files, &data_dir);
    let mut runs = Runs {
        asked: &asked,
        args: &args,
        globals,
        executor: Executor::new(data_dir, Surroundings::Ours, Duration::MAX),
        machines,
        results,
        files,
        shown: ShownTasks::of(globals.tasks, &plugins)?,
        begun_by: None,
        run: String::new(),
    };
    let ended = runs.all();
    runs.finish(ended)
}

/// Leaves the tests that all filters take.
fn narrow(asked: &mut MeasurementBox, filters: &[(String, Vec<String>)]) -> Result<(), Failure> {
    for (name, wanted) in filters {
        if name == "task" {
            let is_wanted = |test: &Test| wanted.iter().any(|task| task == test.runner.name());
            asked.tests.retain(is_wanted);
            continue;
        }
        let (mut is_known, mut is_understood, mut wrong) = (false, false, None);
        asked.tests.retain(|test| {
            let Some((parameter, value)) = test.given_or_default(name) else {
                return false;
            };
            is_known = true;
            // Tasks may have parameters of one name and two kinds.
            match parameter.kind.is_among(&value, wanted) {
                Ok(is_among) => {
                    is_understood = true;
                    is_among
                }
                Err(why) => {
                    wrong.get_or_insert(why);
                    false
                }
            }
        });
        if !is_known {
            return Err(Failure::usage(format!(
                "--filter {name}: no test of this box has such a parameter"
            )));
        }
        if let Some(why) = wrong.filter(|_| !is_understood) {
            return Err(Failure::usage(format!("--filter {name}: {why}")));
        }
    }
    Ok(())
}

/// Tests of one task on one machine with one number of runs, and what they take.
#[derive(serde::Serialize)]
struct Row {
    task: String,
    /// Where there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    machine: Option<String>,
    tests: usize,
    repeats: u64,
    seconds: f64,
    memory_bytes: u64,
    disk_bytes: u64,
}

/// The machine of a test, as a table has it.
fn machine_of(test: &Test) -> String {
    match &test.site {
        Site::Here => "this one".to_owned(),
        Site::On(machine) => machine.clone(),
        Site::To(machine) => format!("this one to {machine}"),
    }
}

/// One line a task, machine and number of runs: how many tests, and what they take.
fn dry_run(
    asked: &MeasurementBox,
    budget: Option<Duration>,
    data_dir: &Path,
    format: Format,
) -> Result<(), Failure> {
    let schedule = Schedule::new(&asked.tests, budget, data_dir);
    let rows = rows(asked, &schedule);
    let has_machines = rows.iter().any(|row| row.machine.is_some());
    let mut columns = vec![Column::left("task")];
    columns.extend(has_machines.then(|| Column::left("machine")));
    columns.extend(["tests", "runs each", "about", "memory", "new on disk"].map(Column::right));
    let mut table = Table::new(columns);
    for row in &rows {
        let mut cells = vec![row.task.clone()];
        cells.extend(row.machine.clone());
        cells.extend([
            row.tests.to_string(),
            row.repeats.to_string(),
            output::short_time(Duration::from_secs_f64(row.seconds)),
            format!("{}B", output::short(row.memory_bytes as f64)),
            format!("{}B", output::short(row.disk_bytes as f64)),
        ]);
        table.row(cells);
    }
    output::print_rows(format, &table, &rows)?;
    let all: f64 = rows.iter().map(|row| row.seconds).sum();
    output::note(&format!(
        "{} tests, about {}; nothing was run",
        asked.tests.len(),
        output::short_time(Duration::from_secs_f64(all))
    ));
    Ok(())
}

fn rows(asked: &MeasurementBox, schedule: &Schedule) -> Vec<Row> {
    let has_machines = asked.tests.iter().any(|test| test.site != Site::Here);
    let mut rows: Vec<Row> = Vec::new();
    for (at, repeats) in schedule.plan() {
        let (test, cost) = (&asked.tests[at], schedule.cost(at));
        let name = test.runner.name();
        let machine = has_machines.then(|| machine_of(test));
        let is_same =
            |row: &Row| row.task == name && row.machine == machine && row.repeats == repeats;
        let place = rows.iter().position(is_same).unwrap_or_else(|| {
            rows.push(Row {
                task: name.to_owned(),
                machine: machine.clone(),
                tests: 0,
                repeats,
                seconds: 0.0,
                memory_bytes: 0,
                disk_bytes: 0,
            });
            rows.len() - 1
        });
        let row = &mut rows[place];
        row.tests += 1;
        row.seconds += cost.time(repeats).as_secs_f64();
        row.memory_bytes = row.memory_bytes.max(cost.memory_bytes);
        // Tests of one task share what is prepared.
        row.disk_bytes = row.disk_bytes.max(cost.disk_bytes);
    }
    rows
}

/// Says before anything runs which of these tests this machine has too little memory or disk for, or another machine does not take.
fn say_what_gets_no_numbers(
    asked: &MeasurementBox,
    tests: &[usize],
    files: &SharedFiles,
    data_dir: &Path,
) {
    for &at in tests {
        let test = &asked.tests[at];
        let why = match &test.told {
            Some(Err(why)) => Some(why.clone()),
            _ => shortage(test, files.bytes_there(at), data_dir),
        };
        if let Some(why) = why {
            output::note(&format!("{}: {why}; it gets no numbers", test.title()));
        }
    }
}

/// The reason why this machine has too little memory or disk for the test now, if it has. `bytes_there` of what the test keeps on the
/// disk are there already.
fn shortage(test: &Test, bytes_there: u64, data_dir: &Path) -> Option<String> {
    let mut room = Room::of(test, data_dir);
    room.disk_bytes = room.disk_bytes.saturating_add(bytes_there);
    room.shortage(test, &test.cost(data_dir))
}

/// The runs of a box's tests.
struct Runs<'a> {
    asked: &'a MeasurementBox,
    args: &'a Args,
    globals: &'a Globals,
    executor: Executor,
    machines: Machines,
    results: Results,
    files: SharedFiles,
    /// How records are shown.
    shown: ShownTasks,
    /// The version of dpb that began the box, if it is another one.
    begun_by: Option<String>,
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
        self.begun_by = self.other_version()?;
        self.run = dpb_core::measure::provenance::new_run();
        let data_dir = self.executor.data_dir().to_owned();
        let mut schedule = Schedule::new(&self.asked.tests, self.args.time_budget, &data_dir);
        schedule.leave(&missing);
        let progress = Progress::new(missing.len() as u64, self.globals.quiet);
        for (count, &at) in missing.iter().enumerate() {
            let test = &self.asked.tests[at];
            let words = self.files.words(at, &missing[count + 1..]);
            let plan = schedule.plan();
            let repeats = plan[0].1;
            let left = output::short_time(schedule.time(&plan));
            let doing = format!("{left} left: {}", test.title());
            progress.set(count as u64, &doing);
            let order = Order {
                test,
                repeats,
                seed: self.asked.seed,
                run: &self.run,
                cost: schedule.cost(at),
                words: &words,
            };
            let mut say = |what: &str| {
                if !what.is_empty() {
                    progress.set(count as u64, &format!("{doing}: {what}"));
                }
            };
            let start = Instant::now();
            let short_of = shortage(test, self.files.bytes_there(at), &data_dir);
            let tried = match (short_of, &test.site) {
                (Some(reason), _) => {
                    let outcome = Outcome::Unsupported { reason };
                    let mut record = without_numbers(&order, outcome);
                    self.run.clone_into(&mut record.provenance.run);
                    MachineEnd::Records(vec![record])
                }
                (None, Site::Here) => match self.executor.test(&order, &mut Unwatched)? {
                    TestEnd::Done(done) => MachineEnd::Records(done.records),
                    TestEnd::Ended => MachineEnd::Interrupted,
                },
                (None, _) => self.machines.test(&order, &mut self.executor, &mut say)?,
            };
            match tried {
                MachineEnd::Records(mut records) => {
                    self.mark(&mut records);
                    match records.iter().all(|record| record.outcome == Outcome::Done) {
                        true => schedule.took(at, repeats, start.elapsed()),
                        false => schedule.give_up(at),
                    }
                    self.results.keep(at, &records)?;
                }
                MachineEnd::Lost => schedule.give_up(at),
                MachineEnd::Interrupted => {
                    return Err(Failure::interrupted(format!(
                        "interrupted after {} of {} tests; the same command goes on there",
                        self.asked.tests.len() - self.results.missing().len(),
                        self.asked.tests.len()
                    )));
                }
            }
        }
        self.tell_losses()
    }

    /// The version of dpb that began the box, if it is another one than this; said to the person.
    fn other_version(&self) -> Result<Option<String>, Failure> {
        let here = Provenance::here(0);
        let there = self.results.records()?;
        let begun_by = there.into_iter().find_map(|record| {
            let own = record.provenance;
            let is_other = own.host == here.host && own.dpb_version != here.dpb_version;
            is_other.then_some(own.dpb_version)
        });
        if let Some(version) = &begun_by {
            output::note(&format!(
                "this box was begun by dpb {version}, and goes on with dpb {}: its records say so, and reports join no curve of both",
                here.dpb_version
            ));
        }
        Ok(begun_by)
    }

    /// Says in records of a box that another version of dpb began which one that was.
    fn mark(&self, records: &mut [Record]) {
        let Some(version) = &self.begun_by else {
            return;
        };
        for record in records {
            let libraries = &mut record.provenance.libraries;
            libraries.insert("box begun by".to_owned(), format!("dpb {version}"));
        }
    }

    /// Says which machines could not be reached to the end.
    fn tell_losses(&self) -> Result<(), Failure> {
        let losses = self.machines.losses();
        if losses.is_empty() {
            return Ok(());
        }
        Err(Failure::unavailable(format!(
            "{} of {} tests are left, and the same command runs them: {}",
            self.results.missing().len(),
            self.asked.tests.len(),
            losses.join("; ")
        )))
    }

    /// Writes records and report, shows both, and judges.
    fn finish(self, ended: Result<(), Failure>) -> Result<(), Failure> {
        let records = self.results.records()?;
        let page = self.results.folder().join("report.html");
        if !records.is_empty() {
            let html = crate::report::html(&records, &[], &self.shown);
            output::write_whole(&page, &html)?;
        }
        self.results.write_records(&records)?;
        if !records.is_empty() {
            show(self.asked, &records, &self.shown, self.globals)?;
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
                let state = self.executor.state_of(&plugin.name);
                let said = plugin.step(Step::Report, &state, &own)?;
                output::note(said.trim_end());
            }
        }
        Ok(())
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
fn show(
    asked: &MeasurementBox,
    records: &[Record],
    shown: &ShownTasks,
    globals: &Globals,
) -> Result<(), Failure> {
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
        let table = crate::report::text_table(shown.find(task), &own, &wanted);
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

#[cfg(test)]
mod tests;
