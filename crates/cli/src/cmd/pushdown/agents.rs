//! Agents that this process starts for itself, one a scheme, so that each scheme's memory and CPU time are its own.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use dpb_link::Token;

use super::Args;
use crate::child::{NotReady, ServingChild};
use crate::cmd::serve::Ready;
use crate::exit::Failure;

/// The time that an agent has to end.
const END: Duration = Duration::from_secs(3);

/// A process of ours that serves; it ends when this value is dropped, and also if this process is killed.
#[derive(Debug)]
pub struct LocalAgent {
    _child: ServingChild,
    /// What it said when it was ready.
    pub ready: Ready,
    /// What it wants to be shown: other users of this machine can reach it too.
    pub token: Token,
}

impl LocalAgent {
    /// Starts an agent on a free loopback port.
    ///
    /// # Errors
    /// If this program cannot be started again, or the agent ends before it is ready; its own words are on stderr.
    pub fn start(data_dir: &Path, args: &Args, threads_max: u32) -> Result<Self, Failure> {
        let broke = |what: &str, why: String| {
            Failure::check(format!("cannot start an agent: {what}: {why}"))
        };
        let program =
            std::env::current_exe().map_err(|e| broke("where is this program?", e.to_string()))?;
        let mut command = Command::new(&program);
        command
            .args(["--format", "json", "serve", "--until-stdin-closes"])
            .args(["--listen", "127.0.0.1:0", "--data-dir"])
            .arg(data_dir)
            .args(["--cache", &args.cache.to_string()])
            .args(["--threads", &threads_max.to_string()])
            .args(["--bulk", &args.bulk.to_text(), "--backend", &args.backend]);
        let token = Token::random().map_err(|e| broke("no random numbers", e.to_string()))?;
        let mut child = ServingChild::start(&mut command, token.as_bytes(), END)
            .map_err(|e| broke(&program.display().to_string(), e.to_string()))?;
        match child.ready() {
            Ok(ready) => Ok(Self {
                _child: child,
                ready,
                token,
            }),
            Err(NotReady::Interrupted) => Err(Failure::interrupted(
                "interrupted before the agents were ready",
            )),
            Err(NotReady::Said(line)) => Err(broke("it ended before it was ready", line)),
        }
    }
}
