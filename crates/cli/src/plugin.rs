//! Plug-ins: tasks in any language, as dpBento has them.
//!
//! A plug-in is a folder with a manifest, `plugin.json`, and up to four executables: `prepare`, `run`, `report`, `clean`; only `run`
//! must be there. Each reads one JSON object on stdin ([`Request`]). `run` prints its results as JSON lines ([`Line`]), whose fields
//! are those of a record; what a line leaves out, dpb fills in. `report` reads the records behind the request, a line each, and what
//! it prints is shown to the person. What `prepare` makes it puts into the folder `state`, which stays until `dpb clean`.
//!
//! A plug-in is a guest: it works in an empty folder that is removed after it, with a small environment, for a bounded time; its
//! output is bounded, and processes that it leaves behind are ended.

mod manifest;

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use dpb_core::measure::import::{CRITERION, Program};
use dpb_core::measure::interference::Interference;
use dpb_core::measure::statistics::judge;
use dpb_core::measure::{Check, Evidence, Outcome, Record, Value};
use serde::{Deserialize, Serialize};

use crate::contained::{self, Bounds, Ended, How, Input, Unwatched, Watch};
use crate::exit::Failure;
use crate::task::{Cost, Parameter, Tasks};
pub use manifest::Metric;
use manifest::PluginView;

/// The manifest's name.
const MANIFEST: &str = "plugin.json";
/// Longest manifest.
const MANIFEST_BYTES_MAX: u64 = 1 << 20;
/// Most that one step may print.
const STDOUT_BYTES_MAX: usize = 16 << 20;
/// Most results of one test, and most samples of one metric.
const LINES_MAX: usize = 10_000;
/// Time of a step whose manifest says nothing.
const TIME_LIMIT: Duration = Duration::from_secs(300);

/// A plug-in, its manifest read and checked.
#[derive(Debug)]
pub struct Plugin {
    /// The task's name in boxes and records.
    pub name: String,
    /// What it measures, in a few words.
    pub summary: String,
    /// What its tests are given.
    pub parameters: Vec<Parameter>,
    /// What its tests measure.
    pub metrics: Vec<Metric>,
    /// What a test takes, as the manifest says.
    pub cost: Cost,
    view: PluginView,
    folder: PathBuf,
    time_limit: Duration,
}

/// All plug-ins that there are.
#[derive(Debug, Default)]
pub struct Plugins {
    folders: BTreeMap<String, PathBuf>,
}

/// A step of a plug-in, by the name of its executable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Makes what all tests need.
    Prepare,
    /// Carries out one test.
    Run,
    /// Shows the results.
    Report,
    /// Removes what was made.
    Clean,
}

/// What a step reads on stdin.
#[derive(Debug, Serialize)]
struct Request<'a> {
    step: Step,
    /// The test's parameters, all of them; empty for steps that are for all tests.
    parameters: BTreeMap<&'a str, serde_json::Value>,
    repeats: u64,
    seed: u64,
    /// The folder that stays until `dpb clean`.
    state: &'a Path,
}

/// A line that `run` prints: any part of a record.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Line {
    /// More parameters than the test was given.
    parameters: BTreeMap<String, Value>,
    /// A value a run, by metric.
    samples: BTreeMap<String, Vec<f64>>,
    /// What was counted.
    counts: BTreeMap<String, u64>,
    /// What was checked.
    check: Option<Check>,
    /// Whether there are numbers.
    outcome: Option<Outcome>,
    /// Where the numbers come from; `measured` if it is not said.
    evidence: Option<Evidence>,
    /// Programs and libraries that took part, with versions.
    libraries: BTreeMap<String, String>,
}

impl Plugins {
    /// The plug-ins of these folders: each is one, or holds some.
    ///
    /// # Errors
    /// Two plug-ins of one name, or a folder that cannot be read.
    pub fn of(folders: &[PathBuf], tasks: Tasks) -> Result<Self, Failure> {
        let mut plugins = Self::default();
        for folder in folders {
            if folder.join(MANIFEST).is_file() {
                plugins.add(folder, tasks)?;
                continue;
            }
            let unreadable = |error: io::Error| {
                Failure::usage(format!(
                    "cannot read plug-ins in {}: {error}",
                    folder.display()
                ))
            };
            let mut inside: Vec<PathBuf> = Vec::new();
            for entry in fs::read_dir(folder).map_err(unreadable)? {
                inside.push(entry.map_err(unreadable)?.path());
            }
            inside.sort();
            for folder in inside.iter().filter(|path| path.join(MANIFEST).is_file()) {
                plugins.add(folder, tasks)?;
            }
        }
        Ok(plugins)
    }

    /// The plug-ins of these folders, and those that have run on this machine before and are still where they were.
    ///
    /// # Errors
    /// As [`Plugins::of`]. A plug-in that ran before and cannot be read any more is none.
    pub fn known(folders: &[PathBuf], data_dir: &Path, tasks: Tasks) -> Result<Self, Failure> {
        let mut plugins = Self::of(folders, tasks)?;
        let (noted, _) = prepared(&state_folder(data_dir));
        for note in noted {
            let is_same = Plugin::open(&note.folder).is_ok_and(|found| found.name == note.name);
            if is_same && tasks.find(&note.name).is_none() {
                plugins.folders.entry(note.name).or_insert(note.folder);
            }
        }
        Ok(plugins)
    }

    fn add(&mut self, folder: &Path, tasks: Tasks) -> Result<(), Failure> {
        let plugin = Plugin::open(folder)?;
        plugin.check_run()?;
        if tasks.find(&plugin.name).is_some() {
            let path = folder.join(MANIFEST);
            return Err(Failure::usage(format!(
                "{}: name: `{}` is a task of dpb",
                path.display(),
                plugin.name
            )));
        }
        // Its metrics would stand in for those of imported records.
        let is_program = |program: &Program| program.name() == plugin.name;
        if Program::ALL.iter().any(is_program) || plugin.name == CRITERION {
            let path = folder.join(MANIFEST);
            return Err(Failure::usage(format!(
                "{}: name: records that `dpb import` makes are called `{}`",
                path.display(),
                plugin.name
            )));
        }
        if let Some(other) = self.folders.insert(plugin.name.clone(), folder.to_owned()) {
            return Err(Failure::usage(format!(
                "two plug-ins are called {}: {} and {}",
                plugin.name,
                other.display(),
                folder.display()
            )));
        }
        Ok(())
    }

    /// Their names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.folders.keys().map(String::as_str)
    }

    /// The plug-in of this name, if there is one.
    ///
    /// # Errors
    /// If its manifest is wrong.
    pub fn find(&self, name: &str) -> Result<Option<Arc<Plugin>>, Failure> {
        let folder = self.folders.get(name);
        folder
            .map(|folder| Plugin::open(folder).map(Arc::new))
            .transpose()
    }
}

impl Plugin {
    /// Reads a plug-in's manifest.
    ///
    /// # Errors
    /// Wrong usage: what is wrong with it.
    pub fn open(folder: &Path) -> Result<Self, Failure> {
        let path = folder.join(MANIFEST);
        let wrong = |why: String| Failure::usage(format!("{}: {why}", path.display()));
        let bytes = dpb_core::file::read(&path, MANIFEST_BYTES_MAX);
        let bytes = bytes.map_err(|error| wrong(error.to_string()))?;
        let folder = fs::canonicalize(folder).map_err(|error| wrong(error.to_string()))?;
        Self::read(&bytes, folder).map_err(wrong)
    }

    /// The plug-in's folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The parameters whose values are compared.
    pub fn series(&self) -> &[String] {
        &self.view.series
    }

    /// Refuses a plug-in whose `run` cannot be started: none of its tests could give a number.
    fn check_run(&self) -> Result<(), Failure> {
        let path = self.executable(Step::Run);
        let why = match fs::metadata(&path) {
            Ok(file) if !file.is_file() => "is no file",
            Ok(file) if file.permissions().mode() & 0o111 == 0 => "is not executable: chmod +x",
            Ok(_) => return Ok(()),
            Err(_) => "cannot be found; it is the executable that carries out a test",
        };
        Err(Failure::usage(format!("{}: {why}", path.display())))
    }

    /// Whether the plug-in has this step.
    pub fn has(&self, step: Step) -> bool {
        self.executable(step).is_file()
    }

    fn executable(&self, step: Step) -> PathBuf {
        self.folder.join(match step {
            Step::Prepare => "prepare",
            Step::Run => "run",
            Step::Report => "report",
            Step::Clean => "clean",
        })
    }

    /// Carries out a step that is for all tests.
    ///
    /// # Errors
    /// If it failed, with its last words.
    pub fn step(&self, step: Step, state: &Path, records: &[Record]) -> Result<String, Failure> {
        self.step_watched(step, state, records, &mut Unwatched)
    }

    /// The same while somebody looks on, who can end it.
    ///
    /// # Errors
    /// As [`Plugin::step`].
    pub fn step_watched(
        &self,
        step: Step,
        state: &Path,
        records: &[Record],
        watch: &mut dyn Watch,
    ) -> Result<String, Failure> {
        let mut stdin = self.request(step, BTreeMap::new(), 1, 1, state);
        for record in records {
            stdin.extend(serde_json::to_vec(record).map_err(anyhow::Error::from)?);
            stdin.push(b'\n');
        }
        let ended = self.start(step, &stdin, state, watch)?;
        match self.why_not(&ended) {
            None => Ok(String::from_utf8_lossy(&ended.stdout).into_owned()),
            Some(_) if matches!(ended.how, How::Interrupted | How::Stopped) => {
                Err(Failure::interrupted("interrupted"))
            }
            Some(why) => Err(Failure::check(format!("{}: {step:?}: {why}", self.name))),
        }
    }

    /// Carries out one test. Whatever comes of it is a record; `None` if it was interrupted, or ended by `watch`.
    ///
    /// # Errors
    /// If the process cannot be started.
    pub fn test(
        &self,
        given: &[(Parameter, String)],
        repeats: u64,
        seed: u64,
        state: &Path,
        watch: &mut dyn Watch,
    ) -> Result<Option<Vec<Record>>, Failure> {
        let parameters: BTreeMap<&str, serde_json::Value> = self.typed(given);
        let record = || {
            let record = Record::new(&self.name, Evidence::of_this_cpu(), seed);
            parameters.iter().fold(record, |record, (name, value)| {
                record.with(name, value_of(value))
            })
        };
        let stdin = self.request(Step::Run, parameters.clone(), repeats, seed, state);
        let ended = self.start(Step::Run, &stdin, state, watch)?;
        if matches!(ended.how, How::Interrupted | How::Stopped) {
            return Ok(None);
        }
        let failed = |reason: String| record().without_numbers(Outcome::Failed { reason });
        if let Some(why) = self.why_not(&ended) {
            return Ok(Some(vec![failed(why)]));
        }
        let records = self.results(&ended.stdout, &record, repeats);
        Ok(Some(records.unwrap_or_else(|why| vec![failed(why)])))
    }

    /// The records of what `run` printed, each on top of a `record` of the test.
    ///
    /// # Errors
    /// What is wrong with the output.
    pub fn results(
        &self,
        stdout: &[u8],
        record: &dyn Fn() -> Record,
        repeats: u64,
    ) -> Result<Vec<Record>, String> {
        let lines = self.lines(stdout)?.into_iter();
        Ok(lines.map(|line| line.fill(record(), repeats)).collect())
    }

    /// All parameters with their values, typed.
    fn typed(&self, given: &[(Parameter, String)]) -> BTreeMap<&str, serde_json::Value> {
        let value = |parameter: &Parameter| {
            let given = given.iter().find(|(p, _)| p.name == parameter.name);
            let given = given.map(|(_, value)| value.clone());
            given.or_else(|| parameter.default.clone())
        };
        let parameters = self.parameters.iter().filter_map(|parameter| {
            let value = parameter.kind.value(&value(parameter)?);
            Some((parameter.name.as_str(), value))
        });
        parameters.collect()
    }

    fn request(
        &self,
        step: Step,
        parameters: BTreeMap<&str, serde_json::Value>,
        repeats: u64,
        seed: u64,
        state: &Path,
    ) -> Vec<u8> {
        let request = Request {
            step,
            parameters,
            repeats,
            seed,
            state,
        };
        let mut text = serde_json::to_vec(&request).expect("it has no keys that are no texts");
        text.push(b'\n');
        text
    }

    /// Starts a step in an empty folder of its own, and waits for its end.
    fn start(
        &self,
        step: Step,
        stdin: &[u8],
        state: &Path,
        watch: &mut dyn Watch,
    ) -> Result<Ended, Failure> {
        let broke = |error: io::Error| Failure::check(format!("{}: {step:?}: {error}", self.name));
        let work = state.with_extension(format!("{WORK}{}", std::process::id()));
        self.note(state)?;
        remove_left_behind(state).map_err(broke)?;
        fs::create_dir_all(state).map_err(broke)?;
        fs::create_dir_all(&work).map_err(broke)?;
        let mut command = contained::tied(self.executable(step).as_os_str()).map_err(broke)?;
        command.current_dir(&work).env_clear();
        for name in ["PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH"] {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        command
            .env("HOME", &work)
            .env("TMPDIR", &work)
            .env("DPB_PLUGIN", &self.folder);
        let bounds = Bounds {
            time: self.time_limit,
            stdout_bytes: STDOUT_BYTES_MAX,
        };
        let ended = contained::run_watched(command, Input::Whole(stdin), bounds, watch);
        let ended = ended.map_err(broke);
        remove_whole(&work).map_err(broke)?;
        if let Ok(Ended {
            left_behind: left @ 1..,
            ..
        }) = &ended
        {
            crate::output::note(&format!(
                "{}: ended {left} processes that it left",
                self.name
            ));
        }
        ended
    }

    /// Notes whose the folder of what is kept is, before it is made.
    fn note(&self, state: &Path) -> Result<(), Failure> {
        let path = note_of(state);
        if path.is_file() {
            return Ok(());
        }
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(anyhow::Error::from)?;
        }
        let note = Kept {
            name: self.name.clone(),
            folder: self.folder.clone(),
            state: PathBuf::new(),
        };
        let text = serde_json::to_string(&note).map_err(anyhow::Error::from)?;
        crate::output::write_whole(&path, &text)
    }

    /// Why a step did not do its work.
    fn why_not(&self, ended: &Ended) -> Option<String> {
        let said = ended.stderr.trim();
        let said = said.lines().next_back().map(|line| format!(": {line}"));
        let said = said.unwrap_or_default();
        match ended.how {
            How::Exited(status) if status.success() => None,
            How::Exited(status) => Some(format!("it ended with {status}{said}")),
            How::TimedOut => Some(format!("it took more than {:?}{said}", self.time_limit)),
            How::TooMuchOutput => Some(format!("it printed more than {STDOUT_BYTES_MAX} bytes")),
            How::Interrupted | How::Stopped => Some("it was interrupted".to_owned()),
        }
    }

    /// The results that `run` printed.
    fn lines(&self, stdout: &[u8]) -> Result<Vec<Line>, String> {
        let lines = stdout.split(|&byte| byte == b'\n');
        let lines = lines
            .enumerate()
            .filter(|(_, line)| !line.trim_ascii().is_empty());
        let mut read = Vec::new();
        for (at, line) in lines {
            let parsed: Result<Line, _> = serde_json::from_slice(line);
            let parsed =
                parsed.map_err(|error| format!("line {} of its output: {error}", at + 1))?;
            if read.len() == LINES_MAX {
                return Err(format!("it printed more than {LINES_MAX} results"));
            }
            self.judge(&parsed)
                .map_err(|why| format!("line {} of its output: {why}", at + 1))?;
            read.push(parsed);
        }
        match read.is_empty() {
            true => Err("it printed no result".to_owned()),
            false => Ok(read),
        }
    }

    /// Whether a result has the metrics of the manifest, and numbers that are some.
    fn judge(&self, line: &Line) -> Result<(), String> {
        for (name, values) in &line.samples {
            if !self.metrics.iter().any(|metric| metric.name == *name) {
                return Err(format!("the manifest has no metric {name}"));
            }
            if values.is_empty() || values.len() > LINES_MAX {
                return Err(format!("{name} has {} values", values.len()));
            }
            if !values.iter().all(|value| value.is_finite()) {
                return Err(format!("{name} has a value that is no number"));
            }
        }
        let is_done = matches!(line.outcome, None | Some(Outcome::Done));
        if is_done && line.samples.is_empty() {
            return Err("it has neither samples nor an outcome".to_owned());
        }
        Ok(())
    }
}

/// What a plug-in keeps until `dpb clean`.
#[derive(Debug, Deserialize, Serialize)]
pub struct Kept {
    /// The plug-in's name.
    pub name: String,
    /// The plug-in's folder.
    pub folder: PathBuf,
    /// The folder of what it keeps. The note stands beside it and does not say it, so that both may be moved.
    #[serde(skip)]
    pub state: PathBuf,
}

impl Kept {
    /// Reads a note; what it is of lies beside it.
    fn read(note: &Path) -> Result<Self, String> {
        let bytes = dpb_core::file::read(note, MANIFEST_BYTES_MAX);
        let bytes = bytes.map_err(|error| error.to_string())?;
        let kept: Self = serde_json::from_slice(&bytes).map_err(|error| error.to_string())?;
        Ok(Self {
            state: note.with_extension(""),
            ..kept
        })
    }

    /// Removes what is kept, and the note of it.
    ///
    /// # Errors
    /// What the system says.
    pub fn remove(&self) -> io::Result<()> {
        if self.state.exists() {
            fs::remove_dir_all(&self.state)?;
        }
        remove_left_behind(&self.state)?;
        fs::remove_file(note_of(&self.state))
    }
}

/// The note that says whose the folder is. It is written before the folder is made.
fn note_of(state: &Path) -> PathBuf {
    state.with_extension("json")
}

/// What the ending of a working folder's name begins with; the number of dpb's process follows.
const WORK: &str = "work-";

/// Removes the working folders, beside the folder `state` of a plug-in, of processes that were killed.
fn remove_left_behind(state: &Path) -> io::Result<()> {
    let (Some(parent), Some(name)) = (state.parent(), state.file_name()) else {
        return Ok(());
    };
    let prefix = format!("{}.{WORK}", name.to_string_lossy());
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let process = name.strip_prefix(&prefix).and_then(|id| id.parse().ok());
        if process.is_some_and(|id| !contained::is_running(id)) {
            remove_whole(&entry.path())?;
        }
    }
    Ok(())
}

/// Removes a working folder, if it is there: its plug-in may have removed it, or another dpb. Folders inside that their owner may
/// not enter are opened first.
fn remove_whole(folder: &Path) -> io::Result<()> {
    let mut removed = fs::remove_dir_all(folder);
    if removed
        .as_ref()
        .is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
    {
        open_folders(folder)?;
        removed = fs::remove_dir_all(folder);
    }
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Lets the owner enter and change `folder` and all folders inside. Links are not followed.
fn open_folders(folder: &Path) -> io::Result<()> {
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        fs::set_permissions(&folder, Permissions::from_mode(0o700))?;
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                folders.push(entry.path());
            }
        }
    }
    Ok(())
}

/// The folder of all plug-ins' state.
pub fn state_folder(data_dir: &Path) -> PathBuf {
    data_dir.join("plugins")
}

/// What plug-ins keep, by the notes in the folder of all; and of each note that cannot be read, why.
pub fn prepared(folder: &Path) -> (Vec<Kept>, Vec<String>) {
    let (mut kept, mut wrong) = (Vec::new(), Vec::new());
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.extension().is_some_and(|ending| ending == "json") {
            match Kept::read(&path) {
                Ok(note) => kept.push(note),
                Err(why) => wrong.push(format!("{}: {why}", path.display())),
            }
        }
    }
    kept.sort_by(|a, b| a.name.cmp(&b.name));
    (kept, wrong)
}

/// Notes that processes were writing when they were killed: `NAME.json.PROCESS.tmp`.
pub fn unfinished_notes(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let is_left = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let parts = name.strip_suffix(".tmp").and_then(|n| n.rsplit_once('.'));
        parts.is_some_and(|(note, process)| {
            let process = process.parse();
            note.ends_with(".json") && process.is_ok_and(|id| !contained::is_running(id))
        })
    };
    entries.map(|entry| entry.path()).filter(is_left).collect()
}

impl Line {
    /// The record that the line gives, on top of what is known of the test.
    fn fill(self, mut record: Record, repeats: u64) -> Record {
        for (name, value) in self.parameters {
            // What the test was given stands.
            record.parameters.entry(name).or_insert(value);
        }
        if let Some(evidence) = self.evidence {
            record.evidence = evidence;
        }
        record.check = self.check;
        record.counts = self.counts;
        record.provenance.libraries.extend(self.libraries);
        record = record.with("repeat", repeats);
        if let Some(outcome) = self.outcome.filter(|outcome| *outcome != Outcome::Done) {
            return record.without_numbers(outcome);
        }
        let first = self.samples.values().next().cloned();
        for (name, values) in self.samples {
            record.sample(&name, values);
        }
        record.stability = first.map(|runs| {
            let asked = usize::try_from(repeats).unwrap_or(usize::MAX);
            judge(&runs, asked, 1, &Interference::default())
        });
        record
    }
}

/// A JSON value as a record's parameter.
fn value_of(value: &serde_json::Value) -> Value {
    match value {
        serde_json::Value::Bool(value) => (*value).into(),
        serde_json::Value::Number(number) => match (number.as_u64(), number.as_f64()) {
            (Some(whole), _) => whole.into(),
            (None, real) => real.unwrap_or_default().into(),
        },
        serde_json::Value::String(text) => text.as_str().into(),
        other => other.to_string().into(),
    }
}
