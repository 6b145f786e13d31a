//! A server or an agent that a command starts for itself: a process, so that its memory and CPU time are its own.

use std::process::Command;
use std::time::Duration;

use dpb_link::Token;
use serde::de::DeserializeOwned;

use crate::child::{NotReady, ServingChild};
use crate::exit::Failure;

/// The time that a server has to end.
const END: Duration = Duration::from_secs(3);
/// The words by which this program is an agent on a free port of loopback.
const AGENT: [&str; 4] = ["serve", "--until-stdin-closes", "--listen", "127.0.0.1:0"];

/// A process of ours that serves. It ends when this value is dropped, and also if this process is killed.
#[derive(Debug)]
pub struct OwnServer<R> {
    _child: ServingChild,
    /// What it said when it was ready.
    pub ready: R,
    /// What it wants to be shown: other users of this machine can reach it too.
    pub token: Token,
}

impl<R: DeserializeOwned> OwnServer<R> {
    /// Starts an agent on a free loopback port, with what `set` adds to its flags. `what` it is, for messages.
    ///
    /// # Errors
    /// As [`OwnServer::start`].
    pub fn agent(what: &str, set: impl FnOnce(&mut Command)) -> Result<Self, Failure> {
        Self::start(what, |command| {
            command.args(AGENT);
            set(command);
        })
    }

    /// Starts this program with the words that `set` adds. `what` it is, for messages.
    ///
    /// # Errors
    /// If this program cannot be started again, or ends before it is ready; its own words are on stderr.
    pub fn start(what: &str, set: impl FnOnce(&mut Command)) -> Result<Self, Failure> {
        let broke =
            |why: &str, how: String| Failure::check(format!("cannot start {what}: {why}: {how}"));
        let program =
            std::env::current_exe().map_err(|e| broke("where is this program?", e.to_string()))?;
        let mut command = Command::new(&program);
        command.args(["--format", "json"]);
        set(&mut command);
        let token = Token::random().map_err(|e| broke("no random numbers", e.to_string()))?;
        let mut child = ServingChild::start(&mut command, token.as_bytes(), END)
            .map_err(|e| broke(&program.display().to_string(), e.to_string()))?;
        match child.ready() {
            Ok(ready) => Ok(Self {
                _child: child,
                ready,
                token,
            }),
            Err(NotReady::Interrupted) => Err(Failure::interrupted(format!(
                "interrupted before {what} was ready"
            ))),
            Err(NotReady::Said(line)) => Err(broke("it ended before it was ready", line)),
        }
    }
}
