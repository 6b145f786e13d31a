//! Agents that this process starts for itself, one a scheme, so that each scheme's memory and CPU time are its own.

use std::path::Path;

use super::Args;
use crate::cmd::own_server::OwnServer;
use crate::cmd::serve::Ready;
use crate::exit::Failure;

/// Starts an agent on a free loopback port.
///
/// # Errors
/// If this program cannot be started again, or the agent ends before it is ready; its own words are on stderr.
pub fn start(data_dir: &Path, args: &Args, threads_max: u32) -> Result<OwnServer<Ready>, Failure> {
    OwnServer::agent("an agent", |command| {
        command
            .arg("--data-dir")
            .arg(data_dir)
            .args(["--cache", &args.cache.to_string()])
            .args(["--threads", &threads_max.to_string()])
            .args(["--bulk", &args.bulk.to_text(), "--backend", &args.backend]);
    })
}
