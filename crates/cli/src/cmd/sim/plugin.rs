//! `dpb sim plugin`: the source of QEMU's plugin.

use dpb_sim::system::lockstep::PLUGIN_SOURCE;

use crate::exit::Failure;
use crate::output;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "QEMU 7.2 to 8.1 take it as it is; later ones, which say that they support only a later API version, with -DVERSION=2.\n\
                  Example:\n  dpb sim plugin > lockstep.c && cc -O2 -shared -fPIC -o lockstep.so lockstep.c"
)]
pub(super) struct Args {}

/// Prints it.
pub(super) fn run(_args: &Args) -> Result<(), Failure> {
    output::print(PLUGIN_SOURCE)
}
