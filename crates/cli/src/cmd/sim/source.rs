//! Systems of `dpb sim`: read, and put together.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use dpb_core::{Operator, SetupError};
use dpb_sim::system::{Description, System};

use crate::Globals;
use crate::exit::Failure;

/// The usual backend of digests.
pub(super) const BACKEND: &str = "cpu/best";

/// The system that a file describes, with the times that it takes from other files.
pub(super) fn read(file: &Path) -> Result<Description, Failure> {
    let name = file.display();
    let text = fs::read_to_string(file);
    let text = text.map_err(|why| Failure::usage(format!("cannot read {name}: {why}")))?;
    let described = text.parse::<Description>().and_then(|mut it| {
        it.load(file.parent().unwrap_or(Path::new("")))?;
        Ok(it)
    });
    described.map_err(|why| Failure::usage(format!("{name}: {why}")))
}

/// Puts the system of this file together; digests are computed by this backend.
pub(super) fn assemble(
    description: &Description,
    file: &Path,
    backend: &str,
    seed: u64,
    threads: u64,
    globals: &Globals,
) -> Result<System, Failure> {
    let prepare = |name: &str| -> Result<Arc<dyn Operator>, SetupError> {
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
    };
    System::assemble(description, &prepare, seed, threads as usize)
        .map_err(|why| Failure::usage(format!("{}: {why}", file.display())))
}
