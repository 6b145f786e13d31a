//! DOCA: the engines of BlueField cards.
//!
//! Nothing of it is needed to build. Its libraries are looked for in the folder that `DPB_DOCA_LIB_DIR` names, or else where the
//! loader looks and where NVIDIA's packages put them; `sys` declares what they export, `raw` holds handles and memory.
//!
//! | | up to 2.2 | from 2.5 on |
//! |---|---|---|
//! | a queue | a context and a work queue | a context and a progress engine |
//! | an item of a job | a job of DOCA's | a task of DOCA's, used again when it has ended |
//! | `submit` | `doca_workq_submit` | `doca_task_submit`; from 2.10 on `doca_task_submit_ex`, and one flush |
//! | `poll` | `doca_workq_progress_retrieve` | `doca_pe_progress`, and its callbacks |
//!
//! The DEFLATE engine reads and writes bare streams and computes checks beside. What wraps a stream is written around its output,
//! or read and compared, here. The engine does not say where a stream ended, so that a wrapped one must end where its item does.
//!
//! Erasure codes are computed by tasks alone. DOCA documents its Cauchy matrix, and of the field that it is over only that it has
//! 256 elements; that it is the usual one ([`ErasureCode`](dpb_core::ErasureCode)) is seen when results are checked.
//!
//! Up to 2.2 there is RegEx too, for `rxpmatch`. Its rules are text, written anew for NVIDIA's compiler (`rules`), which DOCA runs
//! when a queue is opened: that takes librxp_compiler, the service mlx-regex, and seconds, and leaves a folder `compiled_output`
//! where the program runs. NVIDIA says that the engine reports the shortest match; whether the smallest end of a rule's matches is
//! always among those that it reports is not said, and is checked like every result. What it does not report of an item, because it
//! found too much or gave up, refuses that item.
//!
//! An engine may refuse an item for reasons of its own, with a code in [`JobError::Device`](dpb_core::JobError::Device) that
//! [`describe`] puts in words.

mod backend;
mod kind;
mod operator;
mod queue;
mod raw;
mod rules;
mod sys;

use std::sync::Arc;

use dpb_core::{Backend, Family, Finding, Listed, OpenError, Unsupported};

pub use backend::DocaBackend;
use kind::Kind;
use raw::{Absent, Device, Doca as Library, Family as Api};

/// The remedy where no library is.
const INSTALL: &str = "install NVIDIA's doca-runtime packages, of 2.2 or later, or name the folder with libdoca_common in \
                       DPB_DOCA_LIB_DIR";
/// The remedy where no device is.
const ENABLE: &str = "needs a BlueField card, its driver loaded; `ibv_devices` lists what the driver has, and on a host the \
                      card must be in DPU mode with this host privileged";

/// The family.
#[derive(Clone, Copy, Debug)]
pub struct Doca;

/// A code of [`JobError::Device`](dpb_core::JobError::Device) in the words of the DOCA that is loaded: its name, and what it means.
/// Negative ones are not DOCA's: what a search did not report.
pub fn describe(code: i32) -> Option<String> {
    let library = raw::library().ok()?;
    Some(library.describe(sys::Code(code)))
}

impl Family for Doca {
    fn name(&self) -> &'static str {
        "doca"
    }

    /// One for all devices, whose instance has no name, and one for each.
    fn backends(&self) -> Vec<Listed> {
        let devices = match devices() {
            Ok((_, devices)) => devices,
            Err(why) => {
                return vec![Listed {
                    instance: String::new(),
                    is_here: false,
                    summary: operators(|_| true),
                    details: why.reason,
                }];
            }
        };
        let all = Listed {
            instance: String::new(),
            is_here: true,
            summary: operators(|kind| devices.iter().any(|device| device.bounds(kind).is_ok())),
            details: "each operator on the first device that has an engine for it".to_owned(),
        };
        let each = devices.iter().map(|device| Listed {
            instance: device.name().to_owned(),
            is_here: true,
            summary: operators(|kind| device.bounds(kind).is_ok()),
            details: format!("the engines of {}", device.pci()),
        });
        std::iter::once(all).chain(each).collect()
    }

    /// A device's name or PCI address; of nothing, all devices.
    fn open(&self, instance: &str) -> Result<Box<dyn Backend>, OpenError> {
        let (library, mut devices) = devices()?;
        if instance.is_empty() {
            return Ok(Box::new(DocaBackend::new(
                "doca".to_owned(),
                library,
                devices,
            )));
        }
        let names: Vec<String> = devices
            .iter()
            .map(|device| device.name().to_owned())
            .collect();
        devices.retain(|device| [device.name(), device.pci()].contains(&instance));
        if devices.is_empty() {
            let reason = format!(
                "DOCA finds no device `{instance}` with an engine; there are: {}",
                names.join(", ")
            );
            return Err(OpenError::Absent(Unsupported { reason }));
        }
        let name = format!("doca/{instance}");
        Ok(Box::new(DocaBackend::new(name, library, devices)))
    }

    fn findings(&self) -> Vec<Finding> {
        let library = match raw::library() {
            Ok(library) => library,
            Err(absent) => return vec![absence(absent)],
        };
        let mut findings = vec![Finding::found("library", about(library))];
        findings.extend(lacks(library));
        match Device::all(library, &Arc::default()) {
            Err(refused) => findings.push(Finding::missing("devices", refused.to_string(), ENABLE)),
            Ok(devices) if devices.is_empty() => {
                findings.push(Finding::missing("devices", "DOCA finds none", ENABLE));
            }
            Ok(devices) => {
                findings.extend(devices.into_iter().map(|(name, device)| match device {
                    Ok(device) => engines(&device),
                    Err(refused) => {
                        let remedy = "it needs rights, and no other program that has taken it";
                        Finding::limited(format!("device {name}"), refused.to_string(), remedy)
                    }
                }))
            }
        }
        findings
    }
}

/// DOCA, and the devices that have an engine; not none.
///
/// # Errors
/// A finding that a device is missing, with its remedy.
fn devices() -> Result<(&'static Library, Vec<Arc<Device>>), Unsupported> {
    let unsupported = |reason| Unsupported { reason };
    let library = raw::library().map_err(|absent| unsupported(format!("{absent}; {INSTALL}")))?;
    let all = Device::all(library, &Arc::default())
        .map_err(|refused| unsupported(format!("{refused}; {ENABLE}")))?;
    let mut refusals = Vec::new();
    let mut devices = Vec::new();
    for (name, device) in all {
        match device {
            Ok(device) if device.is_useful() => devices.push(Arc::new(device)),
            Ok(_) => refusals.push(format!("{name} has no engine that dpb knows")),
            Err(refused) => refusals.push(format!("{name}: {refused}")),
        }
    }
    if devices.is_empty() {
        let found = match refusals.as_slice() {
            [] => "no device".to_owned(),
            refusals => refusals.join("; "),
        };
        let version = library.version();
        return Err(unsupported(format!(
            "DOCA {version} finds no engine: {found}; {ENABLE}"
        )));
    }
    Ok((library, devices))
}

fn operators(has: impl Fn(Kind) -> bool) -> String {
    names(Kind::ALL.into_iter().filter(|kind| has(*kind)))
}

/// Operators by their names, each once.
fn names(kinds: impl Iterator<Item = Kind>) -> String {
    let mut names: Vec<&str> = kinds.map(Kind::name).collect();
    names.dedup();
    names.join(", ")
}

fn absence(absent: &Absent) -> Finding {
    match absent {
        Absent::NotLoaded(_) => Finding::missing("library", absent.to_string(), INSTALL),
        Absent::Incomplete(..) => Finding::limited("library", absent.to_string(), INSTALL),
    }
}

fn about(library: &Library) -> String {
    let family = match library.family() {
        Api::Jobs(_) => "jobs and work queues",
        Api::Tasks(_) => "tasks and progress engines",
    };
    let mut paths = library.paths();
    let common = paths.next().unwrap_or_default();
    let others: Vec<&str> = paths.filter_map(|path| path.rsplit('/').next()).collect();
    let others = match others.as_slice() {
        [] => "no engine's library".to_owned(),
        others => others.join(", "),
    };
    let version = library.version();
    let about = format!("{common} with {others}; version {version}, {family}");
    match library.stand_in() {
        Some(what) => format!("{about}; {what}"),
        None => about,
    }
}

/// Kinds of work that the libraries cannot do whatever the device.
fn lacks(library: &Library) -> Vec<Finding> {
    let lacks = grouped(|kind| library.lack(kind));
    let remedy = "install a DOCA that has it, all its packages of one release";
    let limited = |(lack, kinds)| Finding::limited(kinds, lack, remedy);
    lacks.into_iter().map(limited).collect()
}

/// The kinds of work that a device can do, and within which limits.
fn engines(device: &Device) -> Finding {
    let what = format!("device {}", device.name());
    let can = grouped(|kind| Some((device.bounds(kind).ok()?, kind.has_blocks())));
    if can.is_empty() {
        return Finding::limited(what, format!("{}: no engine", device.pci()), ENABLE);
    }
    let can = can.into_iter().map(|((bounds, has_blocks), kinds)| {
        let (bytes, tasks) = (bounds.item_bytes_max, bounds.tasks_max);
        let blocks = if has_blocks { "in blocks " } else { "" };
        format!("{kinds} {blocks}of up to {bytes} bytes, {tasks} at a time")
    });
    let can: Vec<String> = can.collect();
    Finding::found(what, format!("{}: {}", device.pci(), can.join("; ")))
}

/// Each thing that is true of some kinds, and the names of these.
fn grouped<T: PartialEq>(of: impl Fn(Kind) -> Option<T>) -> Vec<(T, String)> {
    let mut groups: Vec<(T, Vec<Kind>)> = Vec::new();
    for kind in Kind::ALL {
        let Some(thing) = of(kind) else {
            continue;
        };
        match groups.iter_mut().find(|(known, _)| *known == thing) {
            Some((_, kinds)) => kinds.push(kind),
            None => groups.push((thing, vec![kind])),
        }
    }
    let named = |(thing, kinds): (T, Vec<Kind>)| (thing, names(kinds.into_iter()));
    groups.into_iter().map(named).collect()
}
