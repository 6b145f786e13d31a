//! The server that a run over loopback starts for itself: a process, so that its memory and CPU time are its own.

use std::fs::File;
use std::io::Read;
use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use super::serve::Ready;
use crate::args::List;
use crate::child::{NotReady, ServingChild};
use crate::exit::Failure;

/// The time that a server has to end.
const END: Duration = Duration::from_secs(3);

/// A process of ours that serves. It ends when this value is dropped, and also if this process is killed.
#[derive(Debug)]
pub(super) struct OwnServer {
    _child: ServingChild,
    pub(super) listening: SocketAddr,
    /// What it wants to be shown: other users of this machine can reach it too.
    pub(super) token: Vec<u8>,
}

impl OwnServer {
    /// Starts a server on a free loopback port.
    pub(super) fn start(pin: Option<&List<u64>>) -> Result<Self, Failure> {
        let broke = |what: &str, why: String| {
            Failure::check(format!("cannot start a server: {what}: {why}"))
        };
        let program =
            std::env::current_exe().map_err(|e| broke("where is this program?", e.to_string()))?;
        let mut command = Command::new(&program);
        command
            .args(["--format", "json", "tcp", "--serve", "--until-stdin-closes"])
            .args(["--listen", "127.0.0.1:0"]);
        if let Some(cores) = pin {
            let cores: Vec<String> = cores.iter().map(ToString::to_string).collect();
            command.args(["--pin", &cores.join(",")]);
        }
        let token = random_token().map_err(|e| broke("no random numbers", e.to_string()))?;
        let mut child = ServingChild::start(&mut command, &token, END)
            .map_err(|e| broke(&program.display().to_string(), e.to_string()))?;
        match child.ready::<Ready>() {
            Ok(ready) => Ok(Self {
                _child: child,
                listening: ready.listening,
                token,
            }),
            Err(NotReady::Interrupted) => Err(Failure::interrupted(
                "interrupted before the server was ready",
            )),
            Err(NotReady::Said(line)) => Err(broke("it ended before it was ready", line)),
        }
    }
}

/// 32 random bytes, in letters.
fn random_token() -> std::io::Result<Vec<u8>> {
    let mut bytes = [0; 32];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    let letters = bytes.iter().map(|byte| format!("{byte:02x}"));
    Ok(letters.collect::<String>().into_bytes())
}
