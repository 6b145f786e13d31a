//! `cargo xtask vm`: tests that need a kernel of their own, in a guest that QEMU emulates.
//!
//! The guest is a distribution's kernel and a file system in memory, made here from this machine's programs and the libraries
//! that they load. It needs no rights, no network and no disk, and is gone afterwards. Emulated instructions are slow: results
//! are right or wrong, their times mean nothing.

mod guest;
mod image;
mod kernel;
mod rdma;
mod sim;

use std::path::PathBuf;

use anyhow::Result;
use clap::Subcommand;

/// Which tests.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Verbs on soft-RoCE: the conformance suite, of the device and of another machine's operators by it, `dpb rdma` and perftest's
    /// programs on either side of it, the pushdown's rows, a link that goes down. Fetches the distribution's kernel if there is none
    Rdma,
    /// Two guests that talk through modelled cards (`dpb sim live`): their frames over QEMU's sockets, a transfer whose bytes are compared. Fetches the distribution's
    /// kernel if there is none
    Sim,
    /// The same guests on virtual time, an instruction a nanosecond, twice: both runs must be the same, frame by frame. Takes minutes
    Lockstep,
}

/// Runs them.
pub(crate) fn run(args: &Args) -> Result<()> {
    match args.what {
        What::Rdma => rdma::run(kernel::Kernel::find_or_fetch()?, false),
        What::Sim => sim::run(&kernel::Kernel::find_or_fetch()?, false),
        What::Lockstep => sim::run_in_steps(&kernel::Kernel::find_or_fetch()?),
    }
}

/// The image of a kernel for guests that is here; or fetched, if it may be.
pub(crate) fn kernel(may_fetch: bool) -> Result<PathBuf> {
    let kernel = match may_fetch {
        true => kernel::Kernel::find_or_fetch(),
        false => kernel::Kernel::find(),
    };
    Ok(kernel?.image)
}

/// What is missing for RDMA in a guest, with what to install; nothing is fetched for this.
pub(crate) fn missing() -> Option<String> {
    let missing = rdma::missing().or_else(|| kernel::Kernel::find().err());
    missing.map(|why| format!("{why:#}"))
}

/// Runs RDMA in a guest with the kernel that is here, after all tests of the workspace or some of them.
pub(crate) fn test(all_is_built: bool) -> Result<()> {
    rdma::run(kernel::Kernel::find()?, all_is_built)
}

/// The programs that are missing for guests that talk through modelled cards, with what to install; nothing is fetched for this.
pub(crate) fn sim_missing() -> Option<String> {
    let missing = sim::missing().or_else(|| kernel::Kernel::find().err());
    missing.map(|why| format!("{why:#}"))
}

/// Runs guests that talk through modelled cards, with the kernel that is here, after all tests of the workspace or some of them.
pub(crate) fn sim_test(all_is_built: bool) -> Result<()> {
    sim::run(&kernel::Kernel::find()?, all_is_built)
}
