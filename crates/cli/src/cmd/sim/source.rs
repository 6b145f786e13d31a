//! Systems of `dpb sim`: found by name or as a file, changed, put together.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use dpb_core::{Operator, SetupError};
use dpb_sim::system::{Description, Setting, Shipped, System, WaysOut, shipped::SHIPPED};

use crate::Globals;
use crate::exit::Failure;

/// The usual backend of digests.
pub(super) const BACKEND: &str = "cpu/best";
/// Longest file of a system.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The text of a system: one that dpb ships, or a file's.
///
/// # Errors
/// Wrong usage: the file cannot be read.
pub(super) fn text(name: &str) -> Result<String, Failure> {
    if let Some(shipped) = Shipped::find(name) {
        return Ok(shipped.text.to_owned());
    }
    let bytes = dpb_core::file::read(name.as_ref(), FILE_BYTES_MAX);
    let bytes = bytes.map_err(|why| {
        let known: Vec<&str> = SHIPPED.iter().map(|shipped| shipped.name).collect();
        let known = known.join(", ");
        Failure::usage(format!(
            "cannot read the system {name}: {why}; dpb ships {known}"
        ))
    })?;
    String::from_utf8(bytes).map_err(|_| Failure::usage(format!("{name} is not UTF-8 text")))
}

/// The system of this name with these changes, and with the times that it takes from other files: their paths begin in the folder of the system's file.
///
/// # Errors
/// Wrong usage: what is wrong with the file, with a change, or with another file that is named.
pub(super) fn read(name: &str, settings: &[Setting]) -> Result<Description, Failure> {
    let folder = match Shipped::find(name) {
        None => Path::new(name).parent(),
        Some(_) => None,
    };
    let described = Description::with(&text(name)?, settings).and_then(|mut it| {
        it.load(folder.unwrap_or(Path::new("")))?;
        Ok(it)
    });
    described.map_err(|why| Failure::usage(format!("{name}: {why}")))
}

/// The model that a record names: the system, and what its times were taken from.
pub(super) fn model(system: &str, description: &Description) -> String {
    let inputs: Vec<String> = description.inputs.iter().map(ToString::to_string).collect();
    match inputs.is_empty() {
        true => system.to_owned(),
        false => format!("{system}; times of {}", inputs.join("; times of ")),
    }
}

/// Puts the system of this name together, which is in this process alone; digests are computed by this backend.
///
/// # Errors
/// Wrong usage: what is wrong with the system.
pub(super) fn assemble(
    description: &Description,
    name: &str,
    backend: &str,
    seed: u64,
    threads: u64,
    globals: &Globals,
) -> Result<System, Failure> {
    let operators = Prepared::on(backend, globals);
    let prepare = |operator: &str| operators.prepare(operator);
    System::assemble(description, &prepare, seed, threads as usize)
        .map_err(|why| Failure::usage(format!("{name}: {why}")))
}

/// Puts the part of the system together that is in this process.
///
/// # Errors
/// Wrong usage: what is wrong with the system.
pub(super) fn assemble_part(
    description: &Description,
    name: &str,
    backend: &str,
    seed: u64,
    threads: u64,
    ways: WaysOut,
    globals: &Globals,
) -> Result<System, Failure> {
    let operators = Prepared::on(backend, globals);
    let prepare = |operator: &str| operators.prepare(operator);
    System::assemble_part(description, &prepare, seed, threads as usize, ways)
        .map_err(|why| Failure::usage(format!("{name}: {why}")))
}

/// The operators of a system, each prepared once: all parts that protect by it share its key.
struct Prepared<'a> {
    backend: &'a str,
    globals: &'a Globals,
    known: RefCell<BTreeMap<String, Arc<dyn Operator>>>,
}

impl<'a> Prepared<'a> {
    fn on(backend: &'a str, globals: &'a Globals) -> Self {
        Self {
            backend,
            globals,
            known: RefCell::default(),
        }
    }

    /// The operator of this name, with a key of its own if it has one.
    fn prepare(&self, name: &str) -> Result<Arc<dyn Operator>, SetupError> {
        if let Some(known) = self.known.borrow().get(name) {
            return Ok(Arc::clone(known));
        }
        let entry = self.globals.operators.find(name);
        let entry = entry.ok_or_else(|| {
            SetupError::Parameter(format!(
                "there is no operator `{name}`; `dpb list operators` has them"
            ))
        })?;
        let backend = self.backend;
        let opened = self.globals.families.open(backend);
        let opened =
            opened.map_err(|why| SetupError::Parameter(format!("--backend {backend}: {why}")))?;
        let operator = opened.prepare(&entry.default_spec())?;
        let again = Arc::clone(&operator);
        self.known.borrow_mut().insert(name.to_owned(), again);
        Ok(operator)
    }
}
