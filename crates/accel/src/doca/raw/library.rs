//! The libraries: which there are, of which family, and what their functions are called.
#![allow(unsafe_code)]

use std::env;
use std::ffi::{CStr, c_char};
use std::fmt;
use std::sync::OnceLock;

use super::super::kind::Kind;
use super::super::sys::{Code, Core, Created, StandIn, SymbolNames, jobs, tasks};
use crate::library::{Library, NoSymbol, NotLoaded};

/// A folder that is searched instead of all others.
const FOLDER: &str = "DPB_DOCA_LIB_DIR";
/// Versions of the file names, the newest first. They do not tell the family.
const SUFFIXES: &[&str] = &[".so.3", ".so.2", ".so"];

/// DOCA in this process.
pub(in crate::doca) struct Doca {
    pub(super) core: Core,
    family: Family,
    /// libdoca_common, and what else loads.
    libraries: Vec<Library>,
    version: String,
    stand_in: Option<String>,
    /// The calls of each kind, in the order of [`Kind::ALL`], or the reason that there are none.
    kinds: [Result<Calls, String>; Kind::COUNT],
}

/// The way in which work is given to an engine.
#[derive(Clone, Copy)]
pub(in crate::doca) enum Family {
    /// Jobs, and a work queue that is polled: up to 2.2.
    Jobs(jobs::Jobs),
    /// Tasks, and a progress engine that calls back: from 2.5 on.
    Tasks(Progress),
}

/// Functions by which tasks progress.
#[derive(Clone, Copy)]
pub(in crate::doca) struct Progress {
    pub(super) tasks: tasks::Tasks,
    pub(super) flush: Option<tasks::Flush>,
    pub(super) thread_safety: Option<tasks::ThreadSafety>,
    pub(super) notification: Option<tasks::Notification>,
}

/// The functions of a kind of work.
#[derive(Clone, Copy)]
pub(super) enum Calls {
    Job(JobCalls),
    Task(TaskCalls),
}

/// Functions up to 2.2.
#[derive(Clone, Copy)]
pub(super) struct JobCalls {
    pub(super) of: SymbolNames,
    pub(super) created: Created,
    pub(super) create: jobs::Create,
    pub(super) kind: jobs::JobType,
    pub(super) form: JobForm,
}

/// The form of a job.
#[derive(Clone, Copy)]
pub(super) enum JobForm {
    Memcpy(jobs::MemcpyLimits),
    Deflate(jobs::DeflateLimits),
    Sha(jobs::ShaLimits),
    Search(jobs::Searching),
}

/// Functions from 2.5 on.
#[derive(Clone, Copy)]
pub(super) struct TaskCalls {
    pub(super) of: SymbolNames,
    pub(super) created: Created,
    pub(super) create: tasks::Create,
    pub(super) tasks_max: Option<tasks::TasksMax>,
    pub(super) any: tasks::AnyTask,
    /// Functions of DEFLATE's tasks.
    pub(super) checks: Option<tasks::Checks>,
    pub(super) form: TaskForm,
}

/// The form of a task.
#[derive(Clone, Copy)]
pub(super) enum TaskForm {
    Plain(tasks::Configured, tasks::Plain),
    Hash(tasks::Hash, tasks::Algorithm),
    Authenticated(tasks::Configured, tasks::Authenticated, tasks::KeyType),
    Coding(tasks::Coding),
}

/// The reason that there is no DOCA here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::doca) enum Absent {
    /// No library loads: what the loader said of each name.
    NotLoaded(Vec<String>),
    /// One does, and is not what it should be: its path, and what it lacks.
    Incomplete(String, Vec<String>),
}

/// DOCA, loaded at the first call and kept: its libraries are not made to be unloaded.
pub(in crate::doca) fn library() -> Result<&'static Doca, &'static Absent> {
    static LIBRARY: OnceLock<Result<Doca, Absent>> = OnceLock::new();
    LIBRARY.get_or_init(Doca::load).as_ref()
}

/// A folder and a suffix, between which stands the library's name.
type Place = (String, &'static str);

/// The loader's own folders, and where packages put the libraries.
fn places() -> Vec<Place> {
    let folders = match env::var(FOLDER) {
        Ok(folder) => vec![format!("{folder}/")],
        Err(_) => vec![
            String::new(),
            format!("/opt/mellanox/doca/lib/{}-linux-gnu/", env::consts::ARCH),
            "/opt/mellanox/doca/lib64/".to_owned(),
        ],
    };
    let suffixed = |folder: String| SUFFIXES.iter().map(move |suffix| (folder.clone(), *suffix));
    folders.into_iter().flat_map(suffixed).collect()
}

fn open(name: &str, (folder, suffix): &Place) -> Result<Library, NotLoaded> {
    // SAFETY: nothing else has libraries of DOCA's names.
    unsafe { Library::open(&[format!("{folder}libdoca_{name}{suffix}")]) }
}

impl Doca {
    fn load() -> Result<Self, Absent> {
        let mut tried = Vec::new();
        for place in places() {
            match open("common", &place) {
                Ok(common) => return Self::with(common, &place),
                Err(NotLoaded { tried: said }) => tried.extend(said),
            }
        }
        Err(Absent::NotLoaded(tried))
    }

    /// All libraries are of one release, so the others lie where the first one does.
    fn with(common: Library, place: &Place) -> Result<Self, Absent> {
        let incomplete = |missing: Vec<NoSymbol>| {
            let missing = missing.iter().map(ToString::to_string).collect();
            Absent::Incomplete(common.name().to_owned(), missing)
        };
        // SAFETY: the library is DOCA's, and its functions are declared as it documents them for the family at hand.
        let (family, core) = unsafe {
            let family = family_of(&common).map_err(incomplete)?;
            (
                family,
                Core::load(&common, SymbolNames::default()).map_err(incomplete)?,
            )
        };
        // SAFETY: a function without arguments; its text is static.
        let version = unsafe { text((core.version_runtime)()) };
        let stand_in = stand_in(&common);
        let mut engines: Vec<(&str, Result<Library, NotLoaded>)> = Vec::new();
        let kinds = Kind::ALL.map(|kind| {
            if let (Kind::Match, Family::Tasks(_)) = (kind, &family) {
                return Err(
                    "RegEx left DOCA with 2.5; it needs 2.2 or earlier, and a BlueField-2"
                        .to_owned(),
                );
            }
            let name = kind.libdoca();
            if engines.iter().all(|(known, _)| *known != name) {
                engines.push((name, open(name, place)));
            }
            let (_, engine) = engines
                .iter()
                .find(|(known, _)| *known == name)
                .expect("opened above");
            match engine {
                Ok(library) => calls(&family, kind, library),
                Err(not) => Err(format!("libdoca_{name} does not load: {not}")),
            }
        });
        let engines = engines.into_iter().filter_map(|(_, engine)| engine.ok());
        Ok(Self {
            core,
            family,
            libraries: std::iter::once(common).chain(engines).collect(),
            version,
            stand_in,
            kinds,
        })
    }

    /// The way in which work is given to the engines.
    pub(in crate::doca) fn family(&self) -> &Family {
        &self.family
    }

    /// The libraries that were loaded, libdoca_common first.
    pub(in crate::doca) fn paths(&self) -> impl Iterator<Item = &str> {
        self.libraries.iter().map(Library::name)
    }

    /// The version as the library says it: `2.5.0108`.
    pub(in crate::doca) fn version(&self) -> &str {
        &self.version
    }

    /// The name of the stand-in, if this is not DOCA.
    pub(in crate::doca) fn stand_in(&self) -> Option<&str> {
        self.stand_in.as_deref()
    }

    /// The reason that the libraries cannot do work of this kind at all, if they cannot.
    pub(in crate::doca) fn lack(&self, kind: Kind) -> Option<&str> {
        self.kinds[kind as usize].as_ref().err().map(String::as_str)
    }

    /// `DOCA_ERROR_DRIVER (…)`: a code by its name and in words, as this release has them.
    pub(in crate::doca) fn describe(&self, code: Code) -> String {
        match code {
            Code::MATCHES_LOST => {
                return "the engine found more matches than it reports of one item".to_owned();
            }
            Code::GIVEN_UP => {
                return "the engine gave the search up: it has threads, prefixes and time for so much of one item"
                    .to_owned();
            }
            _ => {}
        }
        // SAFETY: the functions take any code, and their texts are static.
        let (name, words) = unsafe {
            (
                text((self.core.error_name)(code)),
                text((self.core.error_text)(code)),
            )
        };
        format!("{name} ({words})")
    }

    pub(super) fn calls(&self, kind: Kind) -> Result<Calls, String> {
        self.kinds[kind as usize].clone()
    }
}

/// 2.2 exports `doca_pe_create` and `doca_task_submit` beside its work queues, so these tell nothing; work queues are gone with
/// 2.5.
///
/// # Safety
/// The library is DOCA's.
unsafe fn family_of(common: &Library) -> Result<Family, Vec<NoSymbol>> {
    let of = SymbolNames::default();
    // SAFETY: the caller vouches for the library, and what it exports for the family.
    unsafe {
        if common.has("doca_workq_create") {
            return jobs::Jobs::load(common, of).map(Family::Jobs);
        }
        Ok(Family::Tasks(Progress {
            tasks: tasks::Tasks::load(common, of)?,
            flush: tasks::Flush::load(common, of).ok(),
            thread_safety: tasks::ThreadSafety::load(common, of).ok(),
            notification: tasks::Notification::load(common, of).ok(),
        }))
    }
}

fn stand_in(common: &Library) -> Option<String> {
    // SAFETY: only the stand-in has a function of this name; its text is static.
    unsafe {
        let stand_in = StandIn::load(common, SymbolNames::default()).ok()?;
        Some(text((stand_in.text)()))
    }
}

/// # Safety
/// Null, or a string that ends in zero and lives on.
unsafe fn text(text: *const c_char) -> String {
    if text.is_null() {
        return "?".to_owned();
    }
    // SAFETY: the caller vouches for it.
    unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned()
}

/// The functions of `kind` in its engine's library.
fn calls(family: &Family, kind: Kind, library: &Library) -> Result<Calls, String> {
    let of = SymbolNames {
        engine: kind.engine(),
        task: kind.task(),
    };
    // SAFETY: DOCA's library of that engine, of the family that was found.
    let calls = unsafe {
        match family {
            Family::Jobs(_) => job_calls(kind, library, of),
            Family::Tasks(_) => task_calls(kind, library, of).map(|calls| Some(Calls::Task(calls))),
        }
    };
    match calls {
        Ok(Some(calls)) => Ok(calls),
        Ok(None) => Err("dpb gives it to tasks alone, which are there from 2.5 on".to_owned()),
        Err(missing) => Err(lacking(&missing)),
    }
}

fn lacking(missing: &[NoSymbol]) -> String {
    match missing {
        [one] => one.to_string(),
        [first, rest @ ..] => format!("{first} and {} more", rest.len()),
        [] => String::new(),
    }
}

/// `None` if jobs have no such kind.
///
/// # Safety
/// The library is DOCA's of that engine, up to 2.2.
unsafe fn job_calls(
    kind: Kind,
    library: &Library,
    of: SymbolNames,
) -> Result<Option<Calls>, Vec<NoSymbol>> {
    // SAFETY: the caller vouches for the library.
    unsafe {
        let (kind, form) = match kind {
            Kind::Copy => (
                jobs::DMA_MEMCPY,
                JobForm::Memcpy(jobs::MemcpyLimits::load(library, of)?),
            ),
            Kind::Deflate | Kind::Inflate => {
                let job = match kind {
                    Kind::Deflate => jobs::COMPRESS_DEFLATE,
                    _ => jobs::DECOMPRESS_DEFLATE,
                };
                (
                    job,
                    JobForm::Deflate(jobs::DeflateLimits::load(library, of)?),
                )
            }
            Kind::Sha1 | Kind::Sha256 | Kind::Sha512 => {
                let job = match kind {
                    Kind::Sha1 => jobs::SHA1,
                    Kind::Sha256 => jobs::SHA256,
                    _ => jobs::SHA512,
                };
                (job, JobForm::Sha(jobs::ShaLimits::load(library, of)?))
            }
            Kind::Match => (
                jobs::REGEX_SEARCH,
                JobForm::Search(jobs::Searching::load(library, of)?),
            ),
            _ => return Ok(None),
        };
        Ok(Some(Calls::Job(JobCalls {
            of,
            created: Created::load(library, of)?,
            create: jobs::Create::load(library, of)?,
            kind,
            form,
        })))
    }
}

/// # Safety
/// The library is DOCA's of that engine, from 2.5 on.
unsafe fn task_calls(
    kind: Kind,
    library: &Library,
    of: SymbolNames,
) -> Result<TaskCalls, Vec<NoSymbol>> {
    // SAFETY: the caller vouches for the library.
    unsafe {
        let form = match kind {
            Kind::Copy | Kind::Deflate | Kind::Inflate | Kind::Unlz4 => TaskForm::Plain(
                tasks::Configured::load(library, of)?,
                tasks::Plain::load(library, of)?,
            ),
            Kind::Sha1 => TaskForm::Hash(tasks::Hash::load(library, of)?, tasks::SHA1),
            Kind::Sha256 => TaskForm::Hash(tasks::Hash::load(library, of)?, tasks::SHA256),
            Kind::Sha512 => TaskForm::Hash(tasks::Hash::load(library, of)?, tasks::SHA512),
            Kind::Encrypt128 | Kind::Decrypt128 | Kind::Encrypt256 | Kind::Decrypt256 => {
                let key = match kind {
                    Kind::Encrypt128 | Kind::Decrypt128 => tasks::KEY_128,
                    _ => tasks::KEY_256,
                };
                TaskForm::Authenticated(
                    tasks::Configured::load(library, of)?,
                    tasks::Authenticated::load(library, of)?,
                    key,
                )
            }
            Kind::ErasureEncode | Kind::ErasureRecover => {
                TaskForm::Coding(tasks::Coding::load(library, of)?)
            }
            Kind::Match => unreachable!("not looked for among tasks"),
        };
        let checks = match kind {
            Kind::Deflate | Kind::Inflate => Some(tasks::Checks::load(library, of)?),
            _ => None,
        };
        Ok(TaskCalls {
            of,
            created: Created::load(library, of)?,
            create: tasks::Create::load(library, of)?,
            tasks_max: tasks::TasksMax::load(library, of).ok(),
            any: tasks::AnyTask::load(library, of)?,
            checks,
            form,
        })
    }
}

impl fmt::Display for Absent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotLoaded(tried) => {
                // The first name stands for all, unless a library was there and did not load.
                let telling = tried.iter().find(|said| !said.contains("No such file"));
                let said = telling.or(tried.first()).map_or("", String::as_str);
                write!(f, "libdoca_common does not load: {said}")
            }
            Self::Incomplete(path, missing) => {
                write!(f, "{path} is not DOCA 2.2 or later: {}", missing.join("; "))
            }
        }
    }
}
