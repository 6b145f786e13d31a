//! Programs that run on the stand-in for DOCA's libraries, each in a process of its own.

pub(crate) mod cases;
#[path = "../../../operators/tests/support/chained.rs"]
mod chained;
mod items;
mod stand_in;

use std::path::Path;
use std::process::{Command, Output};

pub(crate) use stand_in::{FLAVOURS, Flavour, compile};

/// Runs the test `child` of this program on what is in `libraries`, as `case`, with faults as `common.c` names them.
pub(crate) fn run(libraries: &Path, case: &str, faults: &str) -> Output {
    Command::new(std::env::current_exe().expect("this test has a path"))
        .args(["--exact", "child", "--nocapture"])
        .env("DPB_DOCA_CASE", case)
        .env("DPB_DOCA_LIB_DIR", libraries)
        .env("DPB_STAND_IN", faults)
        .output()
        .expect("this test runs again")
}

/// Runs a case as [`run`] does; it succeeds, and the stand-in has nothing to say against it.
pub(crate) fn passes(libraries: &Path, case: &str, faults: &str) -> String {
    let output = run(libraries, case, faults);
    let (said, errors) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(
        output.status.success(),
        "{} {case} {faults}:\n{said}{errors}",
        libraries.display()
    );
    assert!(
        !errors.contains("stand-in:"),
        "{} {case} {faults}:\n{errors}",
        libraries.display()
    );
    said.into_owned()
}
