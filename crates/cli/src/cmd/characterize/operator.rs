//! Operators: this program watched while it carries out jobs, for two lengths.

use std::ffi::OsString;
use std::fmt;
use std::io::Write;

use dpb_core::Backend;
use dpb_core::measure::{Check, Record};
use dpb_insight::source::{Program, Source};
use dpb_insight::trace::{Isa, Options};
use dpb_operators::registry::{Case, Entry};
use tempfile::NamedTempFile;

use super::child::{Jobs, Said, WORD};
use super::{Args, Counted, Uncounted, count_both, stop};
use crate::exit::Failure;
use crate::{Globals, spec};

/// Bytes of a job's items, or what costs as much.
const JOB_BYTES: u64 = 16_384;
/// Different inputs.
const INPUTS: u64 = 4;
/// Most jobs that the longer run has more.
const JOBS_MAX: u64 = 1 << 20;
/// Instructions before the shorter run's counted jobs from which MICA's sets are computed. They take ten times as long, and most of a run is start-up.
const MICA_BEFORE: u64 = 200_000;
/// The parameter by which an operator takes a key.
const KEY: &str = "key";

/// An operator on a path, at a size.
pub(super) struct Test {
    entry: &'static Entry,
    case: Case,
    /// The words that make the case in another process.
    parameters: String,
    /// The key's file, as long as the test lives.
    _key: Option<NamedTempFile>,
    size: u64,
    batch: u64,
    /// The backend as it was asked for, and the one that it stands for.
    asked: String,
    backend: Result<Box<dyn Backend>, String>,
}

/// Every operator at every size on every backend that is asked for.
///
/// # Errors
/// An operator, size or backend that there is not.
pub(super) fn tests(args: &Args, globals: &Globals) -> Result<Vec<Test>, Failure> {
    let mut tests = Vec::new();
    for entry in entries(args, globals)? {
        let usage = |error: &dyn fmt::Display| Failure::usage(error.to_string());
        let case = entry
            .case(&args.parameters)
            .map_err(|error| usage(&error))?;
        for &size in &args.size {
            let usual = usual_batch(size, case.spec.cost_bytes() as u64);
            let batch = args.batch.unwrap_or(usual);
            if size.saturating_mul(batch) > 1 << 26 {
                return Err(Failure::usage(format!(
                    "--size {size} --batch {batch} makes jobs of more than 64 MiB; lower one of them"
                )));
            }
            for name in names(args, &case, globals) {
                let opened = globals.families.open(&name);
                opened.map_err(|why| Failure::usage(format!("{why} (see `dpb list backends`)")))?;
                let (parameters, key) = words(args, entry, &case)?;
                tests.push(Test {
                    entry,
                    case: case.clone(),
                    parameters,
                    _key: key,
                    size,
                    batch,
                    backend: path(&name, &case, globals),
                    asked: name,
                });
            }
        }
    }
    Ok(tests)
}

fn entries(args: &Args, globals: &Globals) -> Result<Vec<&'static Entry>, Failure> {
    if args.operator == ["all"] {
        return Ok(globals.operators.iter().collect());
    }
    let find = |name: &String| {
        globals
            .operators
            .find(name)
            .ok_or_else(|| Failure::usage(format!("no operator `{name}` (see `dpb list`)")))
    };
    args.operator.iter().map(find).collect()
}

/// As many items as fit a job, or cost as much.
fn usual_batch(size: u64, cost_bytes: u64) -> u64 {
    (JOB_BYTES / (size + cost_bytes).max(1)).clamp(1, 256)
}

/// The backends' names, `all` taken apart.
fn names(args: &Args, case: &Case, globals: &Globals) -> Vec<String> {
    let paths = || {
        let all = globals.families.all_for(&case.spec).into_iter();
        all.filter(|name| name.starts_with("cpu/") && name != "cpu/best")
    };
    let mut names = Vec::new();
    for name in &args.backend {
        match name.as_str() {
            "all" => names.extend(paths()),
            name => names.push(name.to_owned()),
        }
    }
    names
}

/// The path of this CPU that a backend is. An emulated CPU would choose another one for `cpu/best`.
fn path(name: &str, case: &Case, globals: &Globals) -> Result<Box<dyn Backend>, String> {
    if name != "cpu" && !name.starts_with("cpu/") {
        return Err(format!(
            "{name} is no path of this CPU: instructions are counted where this thread executes them; take cpu/…"
        ));
    }
    let named = |name: &str| {
        globals
            .families
            .open(name)
            .map_err(|error| error.to_string())
    };
    let backend = named(name)?;
    backend.limits(&case.spec).map_err(|why| why.reason)?;
    if name != "cpu" && name != "cpu/best" {
        return Ok(backend);
    }
    let code = backend.code(&case.spec).unwrap_or_default();
    let (path, _) = code.split_once(',').unwrap_or((&code, ""));
    named(&format!("cpu/{path}"))
}

/// The parameters for another process. A key that was made here is handed on in a file: one that is made anew takes another number of
/// instructions.
fn words(
    args: &Args,
    entry: &Entry,
    case: &Case,
) -> Result<(String, Option<NamedTempFile>), Failure> {
    let is_given = args
        .parameters
        .split(',')
        .any(|word| word.starts_with("key="));
    let takes_key = entry
        .parameters
        .iter()
        .any(|parameter| parameter.name == KEY);
    let of_spec = || {
        let mut parts = case.spec.parts().into_iter();
        parts.find_map(|(name, value)| match value {
            dpb_core::ParameterValue::Material(key) if name == KEY => Some(key),
            _ => None,
        })
    };
    let key = case.private().cloned().or_else(of_spec);
    let Some(key) = key.filter(|_| takes_key && !is_given) else {
        return Ok((args.parameters.clone(), None));
    };
    let unwritable = |error: std::io::Error| Failure::check(format!("a key's file: {error}"));
    let mut file = NamedTempFile::new().map_err(unwritable)?;
    file.write_all(key.bytes()).map_err(unwritable)?;
    let word = format!("key={}", file.path().display());
    let words = [args.parameters.as_str(), &word];
    let words = words.into_iter().filter(|word| !word.is_empty());
    Ok((words.collect::<Vec<_>>().join(","), Some(file)))
}

impl Test {
    /// Its record, without numbers.
    pub(super) fn record(&self, args: &Args) -> Record {
        let record = match &self.backend {
            Ok(backend) => Record::on("characterize", &**backend, &self.case.spec, args.seed),
            Err(_) => {
                let evidence = dpb_core::Evidence::of_this_cpu();
                let record = Record::new("characterize", evidence, args.seed);
                record.with("backend", self.asked.as_str())
            }
        };
        let record = spec::kept(record, &self.case)
            .with("size", self.size)
            .with("batch", self.batch);
        args.noted(record)
    }

    /// Watches both lengths.
    pub(super) fn count(&self, args: &Args, options: Options) -> Result<Counted, Uncounted> {
        let backend = match &self.backend {
            Ok(backend) => &**backend,
            Err(why) => return Err(Uncounted::Unseen(why.clone())),
        };
        args.first_that_sees(Isa::HOST, |source| {
            self.count_by(source, args, backend, options)
        })
    }

    fn count_by(
        &self,
        source: Source,
        args: &Args,
        backend: &dyn Backend,
        options: Options,
    ) -> Result<Counted, Uncounted> {
        let inputs = match source {
            Source::Step => 1,
            _ => self.jobs_of(args.work).clamp(1, INPUTS),
        };
        let more = self.more_jobs(source, args, inputs);
        let (name, right) = (backend.name(), backend.code(&self.case.spec));
        let lengths = [inputs, inputs + more];
        let rehearsed = self.program(source, args, name, inputs, lengths[0])?;
        if let Some(said) = source.rehearse(&rehearsed)? {
            heard(&said, right.as_deref())?;
        }
        let watch = |at: usize, options: Options| {
            let program = self.program(source, args, name, inputs, lengths[at])?;
            let watched = source.watch(&program, options, stop())?;
            let check = heard(&watched.stdout, right.as_deref())?;
            Ok((watched, Some(check)))
        };
        let mica_from = |counts: [u64; 2]| {
            let jobs = counts[1].saturating_sub(counts[0]) / more * lengths[0];
            counts[0].saturating_sub(jobs + MICA_BEFORE)
        };
        let items = Some(more * self.batch);
        count_both(source, options, items, mica_from, watch)
    }

    /// The jobs that the longer run has more: whole rounds of the inputs.
    fn more_jobs(&self, source: Source, args: &Args, inputs: u64) -> u64 {
        let jobs = match source {
            Source::Step => 1,
            // Where outputs are drawn at random, one job says little.
            _ => self.jobs_of(args.work).clamp(2, JOBS_MAX),
        };
        jobs.next_multiple_of(inputs)
    }

    /// The jobs that handle so many bytes, or cost as much.
    fn jobs_of(&self, bytes: u64) -> u64 {
        let item = self.size + self.case.spec.cost_bytes() as u64;
        bytes / item.saturating_mul(self.batch).max(1)
    }

    fn program(
        &self,
        source: Source,
        args: &Args,
        backend: &str,
        inputs: u64,
        jobs: u64,
    ) -> Result<Program, Uncounted> {
        let jobs = Jobs {
            operator: self.entry.name.to_owned(),
            parameters: self.parameters.clone(),
            backend: backend.to_owned(),
            size: self.size,
            batch: self.batch,
            inputs,
            jobs: format!("{jobs:020}"),
            seed: args.seed,
            says_begin: source == Source::Step,
        };
        let jobs = serde_json::to_string(&jobs).expect("words and numbers are JSON");
        let own = std::env::current_exe();
        let own = own.map_err(|error| Uncounted::Failed(format!("this program: {error}")))?;
        Ok(Program {
            path: own.into(),
            arguments: vec![OsString::from(WORD), jobs.into()],
            variables: Vec::new(),
            isa: Isa::HOST,
            says_begin: source == Source::Step,
        })
    }
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { entry, size, .. } = self;
        write!(f, "{} {size} B, {}", entry.name, self.asked)
    }
}

/// The words of the watched program: its check, if it ran the code that it was to run.
fn heard(stdout: &[u8], right: Option<&str>) -> Result<Check, Uncounted> {
    // Behind the first word comes one only if something went wrong.
    let said = serde_json::Deserializer::from_slice(stdout).into_iter::<Said>();
    match said.last() {
        Some(Ok(Said::Ready { code, .. })) if code.as_deref() != right => {
            let [code, right] = [code.as_deref(), right].map(|code| code.unwrap_or("nothing"));
            Err(Uncounted::Unseen(format!(
                "it would watch {code}, not {right}"
            )))
        }
        Some(Ok(Said::Ready {
            against, compared, ..
        })) => Ok(Check {
            against,
            compared,
            digest: None,
        }),
        Some(Ok(Said::Unsupported(why))) => Err(Uncounted::Unseen(format!(
            "{why}; what is watched has another CPU than this one"
        ))),
        Some(Ok(Said::Failed(why))) => Err(Uncounted::Failed(why)),
        _ => Err(Uncounted::Failed(
            "the watched program said nothing".to_owned(),
        )),
    }
}
