//! A test on this machine: what it needs is made once, it runs in a process of its own, and whatever comes of it is a record.
//!
//! `dpb run` has an executor for its tests, an agent one for those of its clients. An agent's tests have nothing of the agent's
//! surroundings: an empty folder to work in, and of its environment what programs need to run.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use dpb_core::measure::{Evidence, Outcome, Reading, Record};

use crate::boxes::{Runner, Site, Test};
use crate::contained::{self, Bounds, Ended, How, Input, Watch};
use crate::exit::{Exit, Failure};
use crate::plugin::{Step, state_folder};
use crate::task::Cost;

/// Most that a test may print.
const STDOUT_BYTES_MAX: usize = 256 << 20;
/// A test that takes this many times its estimate, and a minute more, is ended.
const PATIENCE: u32 = 20;
/// Longest time that is counted: a year.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);
/// Time of what tests need, beyond its estimate.
const PREPARE_TIME: Duration = Duration::from_secs(3600);
/// The variable that gives the records of one run of a box one name of a run.
const RUN: &str = "DPB_RUN";
/// The variable that names the folder for data.
const DATA_DIR: &str = "DPB_DATA_DIR";
/// The variables that a client's test has of its agent's environment: those that programs and libraries are found by, and those of
/// dpb that are no secrets of the agent's.
const SHARED: [&str; 12] = [
    "PATH",
    "LANG",
    "LC_ALL",
    "LD_LIBRARY_PATH",
    "DUCKDB_LIB_DIR",
    "DPB_CPU_LEVEL",
    "DPB_HOST",
    "DPB_QEMU",
    "DPB_DOCA_LIB_DIR",
    "DPB_DPDK_SHIM",
    "DPB_DPDK_EAL_ARGS",
    "RUST_BACKTRACE",
];
/// The variable that names the folder of caches, where a library of DuckDB may be, and that folder below the home folder.
const CACHES: (&str, &str) = ("XDG_CACHE_HOME", ".cache");

/// Whose surroundings a test has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Surroundings {
    /// Those of the person who runs it.
    Ours,
    /// An empty folder, and a small environment.
    Clean,
}

/// Runs tests, one at a time.
#[derive(Debug)]
pub struct Executor {
    data_dir: PathBuf,
    surroundings: Surroundings,
    /// Most time of a test, whatever its estimate.
    time_max: Duration,
    /// The run of the test before.
    run: String,
    /// What came of preparing in this run, by the words that asked for it.
    prepared: BTreeMap<Vec<String>, Result<(), String>>,
}

/// A test that is to run.
#[derive(Clone, Copy, Debug)]
pub struct Order<'a> {
    /// The test.
    pub test: &'a Test,
    /// Runs of it.
    pub repeats: u64,
    /// The seed of everything random in it.
    pub seed: u64,
    /// The name that the records of one run of a box share.
    pub run: &'a str,
    /// An estimate of what it takes.
    pub cost: Cost,
    /// More words of its command line.
    pub words: &'a [String],
}

/// What came of a test.
#[derive(Debug)]
pub enum TestEnd {
    /// Its records, at least one.
    Done(Done),
    /// Nothing: it was ended by an interrupt, or by whoever watched.
    Ended,
}

/// The end of a test.
#[derive(Debug)]
pub struct Done {
    /// The records; of a test that gave none, one without numbers that says why.
    pub records: Vec<Record>,
    /// The exit code of its process, if it has ended by itself.
    pub code: Option<i32>,
    /// The last words on stderr.
    pub stderr: String,
}

/// Whether a test has what it needs.
enum Prepared {
    Yes,
    No(String),
    Ended,
}

impl Executor {
    /// An executor whose tests keep their data in `data_dir`, and take `time_max` at most.
    pub fn new(data_dir: PathBuf, surroundings: Surroundings, time_max: Duration) -> Self {
        Self {
            data_dir,
            surroundings,
            time_max,
            run: String::new(),
            prepared: BTreeMap::new(),
        }
    }

    /// The folder that tests keep their data in.
    pub fn data_dir(&self) -> &Path {
        &self.data_dir
    }

    /// The folder that a plug-in's state stays in.
    pub fn state_of(&self, plugin: &str) -> PathBuf {
        state_folder(&self.data_dir).join(plugin)
    }

    /// Runs one test.
    ///
    /// # Errors
    /// If no process can be started.
    pub fn test(&mut self, order: &Order<'_>, watch: &mut dyn Watch) -> Result<TestEnd, Failure> {
        let came = self.carry_out(order, watch)?;
        Ok(match came {
            TestEnd::Done(mut done) => {
                for record in &mut done.records {
                    order.run.clone_into(&mut record.provenance.run);
                }
                TestEnd::Done(done)
            }
            TestEnd::Ended => TestEnd::Ended,
        })
    }

    /// The same; its records do not have the run's name yet.
    fn carry_out(&mut self, order: &Order<'_>, watch: &mut dyn Watch) -> Result<TestEnd, Failure> {
        match self.prepare(order, watch)? {
            Prepared::Yes => {}
            Prepared::Ended => return Ok(TestEnd::Ended),
            Prepared::No(reason) => {
                let outcome = Outcome::Failed { reason };
                return Ok(TestEnd::without_numbers(
                    order,
                    outcome,
                    None,
                    String::new(),
                ));
            }
        }
        watch.begins("running");
        if let Runner::Plugin(plugin) = &order.test.runner {
            let state = self.state_of(&plugin.name);
            let given = &order.test.parameters;
            let records = plugin.test(given, order.repeats, order.seed, &state, watch)?;
            return Ok(records.map_or(TestEnd::Ended, |records| {
                TestEnd::Done(Done {
                    records,
                    code: None,
                    stderr: String::new(),
                })
            }));
        }
        let words = order.test.words(order.repeats, order.seed);
        let data = match self.surroundings {
            // The record's command line says where the data lay.
            Surroundings::Ours => order.test.data_words(&self.data_dir),
            Surroundings::Clean => Vec::new(),
        };
        let words = [&words[..], &data, order.words].concat();
        let ended = self.start(&words, order.run, self.time_of(order), watch)?;
        if ended.left_behind > 0 {
            let (title, left) = (order.test.title(), ended.left_behind);
            crate::output::note(&format!("{title}: ended {left} processes that it left"));
        }
        Ok(TestEnd::of(order, ended))
    }

    /// Makes what the test needs, once for all tests that need the same.
    fn prepare(&mut self, order: &Order<'_>, watch: &mut dyn Watch) -> Result<Prepared, Failure> {
        let words = match &order.test.runner {
            Runner::Plugin(plugin) if !plugin.has(Step::Prepare) => return Ok(Prepared::Yes),
            Runner::Plugin(plugin) => vec![plugin.name.clone()],
            Runner::Task(task) => match task.prepare {
                None => return Ok(Prepared::Yes),
                // The other end has it.
                Some(_) if matches!(order.test.site, Site::To(_)) => return Ok(Prepared::Yes),
                Some(flag) => {
                    let mut words = order.test.words(order.repeats, order.seed);
                    words.push(flag.to_owned());
                    words
                }
            },
        };
        // Between two runs it may have been removed, and what failed may succeed.
        if self.run != order.run {
            order.run.clone_into(&mut self.run);
            self.prepared.clear();
        }
        if let Some(known) = self.prepared.get(&words) {
            return Ok(Prepared::of(known));
        }
        watch.begins("preparing");
        let came = match &order.test.runner {
            Runner::Plugin(plugin) => {
                let state = self.state_of(&plugin.name);
                match plugin.step_watched(Step::Prepare, &state, &[], watch) {
                    Err(failure) if failure.exit == Exit::Interrupted => {
                        return Ok(Prepared::Ended);
                    }
                    came => came.map(drop).map_err(|failure| failure.message),
                }
            }
            Runner::Task(_) => {
                let time = (order.cost.once + PREPARE_TIME).min(self.time_max);
                let ended = self.start(&words, order.run, time, watch)?;
                match ended.how {
                    How::Interrupted | How::Stopped => return Ok(Prepared::Ended),
                    How::Exited(status) if status.success() => Ok(()),
                    _ => {
                        let why = last_words(&ended.stderr);
                        Err(format!("it cannot be prepared: {why}"))
                    }
                }
            }
        };
        let prepared = Prepared::of(&came);
        self.prepared.insert(words, came);
        Ok(prepared)
    }

    /// Makes what a test needs, and runs nothing. `None` if that was ended; else whether it is there now.
    ///
    /// # Errors
    /// If no process can be started.
    pub fn only_prepare(
        &mut self,
        order: &Order<'_>,
        watch: &mut dyn Watch,
    ) -> Result<Option<Result<(), String>>, Failure> {
        Ok(match self.prepare(order, watch)? {
            Prepared::Yes => Some(Ok(())),
            Prepared::No(why) => Some(Err(why)),
            Prepared::Ended => None,
        })
    }

    /// The most time of a test.
    pub fn time_of(&self, order: &Order<'_>) -> Duration {
        let estimate = order.cost.time(order.repeats);
        let time = estimate.saturating_mul(PATIENCE);
        time.saturating_add(Duration::from_secs(60))
            .min(self.time_max)
            .min(LONGEST)
    }

    /// Starts `dpb` with these words, and waits for its end.
    fn start(
        &self,
        words: &[String],
        run: &str,
        time: Duration,
        watch: &mut dyn Watch,
    ) -> Result<Ended, Failure> {
        let bounds = Bounds {
            time,
            stdout_bytes: STDOUT_BYTES_MAX,
        };
        let words = [words, &["--format=json".to_owned(), "--quiet".to_owned()]].concat();
        self.process(&words, run, Input::Whole(b""), bounds, watch)
    }

    /// Runs `dpb` with these words, in its surroundings.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn process(
        &self,
        words: &[String],
        run: &str,
        input: Input<'_>,
        bounds: Bounds,
        watch: &mut dyn Watch,
    ) -> Result<Ended, Failure> {
        let broke = |error: io::Error| Failure::check(format!("cannot start a test: {error}"));
        let program = std::env::current_exe().map_err(broke)?;
        let mut command = contained::tied(program.as_os_str()).map_err(broke)?;
        let work = match self.surroundings {
            Surroundings::Ours => None,
            Surroundings::Clean => Some(Work::new().map_err(broke)?),
        };
        if let Some(work) = &work {
            clean(&mut command, &work.0);
        }
        command
            .args(words.iter().map(OsStr::new))
            .env(RUN, run)
            .env(DATA_DIR, &self.data_dir);
        contained::run_watched(command, input, bounds, watch).map_err(broke)
    }
}

/// Leaves a process what [`SHARED`] names of our environment, and a folder of its own.
fn clean(command: &mut Command, work: &Path) {
    command.current_dir(work).env_clear();
    for name in SHARED {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    let set = |name| {
        let value = std::env::var_os(name).filter(|value| !value.is_empty());
        value.map(PathBuf::from)
    };
    let below_home = || Some(set("HOME")?.join(CACHES.1));
    if let Some(caches) = set(CACHES.0).or_else(below_home) {
        command.env(CACHES.0, caches);
    }
    command.env("HOME", work).env("TMPDIR", work);
}

/// An empty folder that only this user can enter, and that is removed with all that is in it.
#[derive(Debug)]
pub struct Work(pub PathBuf);

impl Work {
    /// Makes one among the system's temporary files.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn new() -> io::Result<Self> {
        let process = std::process::id();
        for number in 0_u32..10_000 {
            let path = std::env::temp_dir().join(format!("dpb-{process}-{number}"));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Self(path)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::other(
            "too many folders of this process are there",
        ))
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        // What cannot be removed is among temporary files.
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Prepared {
    fn of(came: &Result<(), String>) -> Self {
        match came {
            Ok(()) => Self::Yes,
            Err(why) => Self::No(why.clone()),
        }
    }
}

impl TestEnd {
    /// What a test's process has left.
    fn of(order: &Order<'_>, ended: Ended) -> Self {
        let code = match ended.how {
            How::Exited(status) => status.code(),
            How::Interrupted | How::Stopped => return Self::Ended,
            How::TimedOut | How::TooMuchOutput => None,
        };
        if matches!(ended.how, How::Exited(_)) {
            let reading = Reading::of_bytes(&ended.stdout);
            if reading.damaged.is_empty() && !reading.records.is_empty() {
                let records = reading.records.into_iter();
                return Self::Done(Done {
                    records: records.map(|line| line.record).collect(),
                    code,
                    stderr: ended.stderr,
                });
            }
        }
        let outcome = outcome_of(ended.how, last_words(&ended.stderr));
        Self::without_numbers(order, outcome, code, ended.stderr)
    }

    fn without_numbers(
        order: &Order<'_>,
        outcome: Outcome,
        code: Option<i32>,
        stderr: String,
    ) -> Self {
        Self::Done(Done {
            records: vec![without_numbers(order, outcome)],
            code,
            stderr,
        })
    }
}

/// The record of a test that gave none.
pub fn without_numbers(order: &Order<'_>, outcome: Outcome) -> Record {
    let test = order.test;
    let record = Record::new(test.runner.name(), Evidence::of_this_cpu(), order.seed);
    let given = test.parameters.iter();
    let record = given.fold(record, |record, (parameter, value)| {
        record.with(&parameter.name, value.as_str())
    });
    record.without_numbers(outcome)
}

/// The last of a process's words that say something.
pub fn last_words(stderr: &str) -> String {
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
        How::Interrupted | How::Stopped => Outcome::Interrupted,
    }
}
