//! `dpb list`.

use crate::Globals;
use crate::exit::Failure;

/// Takes nothing yet.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Says so.
pub fn run(_args: Args, _globals: &Globals) -> Result<(), Failure> {
    Err(Failure::unavailable("`list` is not in this build"))
}
