//! Systems of `dpb sim`: read, and put together.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use dpb_core::{Operator, SetupError};
use dpb_sim::system::{Description, System, WaysOut};

use crate::Globals;
use crate::exit::Failure;

/// The usual backend of digests.
pub(super) const BACKEND: &str = "cpu/best";

/// The system that a file describes.
pub(super) fn read(file: &Path) -> Result<Description, Failure> {
    let name = file.display();
    let text = fs::read_to_string(file);
    let text = text.map_err(|why| Failure::usage(format!("cannot read {name}: {why}")))?;
    let described = text.parse::<Description>();
    described.map_err(|why| Failure::usage(format!("{name}: {why}")))
}

/// Puts the system of this file together, which is in this process alone; digests are computed by this backend.
pub(super) fn assemble(
    description: &Description,
    file: &Path,
    backend: &str,
    seed: u64,
    threads: u64,
    globals: &Globals,
) -> Result<System, Failure> {
    let prepare = |name: &str| prepared(name, backend, globals);
    System::assemble(description, &prepare, seed, threads as usize)
        .map_err(|why| Failure::usage(format!("{}: {why}", file.display())))
}

/// Puts the part of the system together that is in this process.
pub(super) fn assemble_part(
    description: &Description,
    file: &Path,
    backend: &str,
    seed: u64,
    threads: u64,
    ways: WaysOut,
    globals: &Globals,
) -> Result<System, Failure> {
    let prepare = |name: &str| prepared(name, backend, globals);
    System::assemble_part(description, &prepare, seed, threads as usize, ways)
        .map_err(|why| Failure::usage(format!("{}: {why}", file.display())))
}

fn prepared(name: &str, backend: &str, globals: &Globals) -> Result<Arc<dyn Operator>, SetupError> {
    let entry = globals.operators.find(name);
    let entry = entry.ok_or_else(|| {
        SetupError::Parameter(format!(
            "there is no operator `{name}`; `dpb list operators` has them"
        ))
    })?;
    let opened = globals.families.open(backend);
    let opened =
        opened.map_err(|why| SetupError::Parameter(format!("--backend {backend}: {why}")))?;
    opened.prepare(&entry.default_spec())
}
