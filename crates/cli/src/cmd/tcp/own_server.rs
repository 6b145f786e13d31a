//! The server that a run over loopback starts for itself: a process, so that its memory and CPU time are its own.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::serve::Ready;
use crate::args::List;
use crate::exit::Failure;
use crate::interrupt;

/// A process of ours that serves. It ends when this value is dropped, and also if this process is killed: its standard input is a
/// pipe that only we hold.
#[derive(Debug)]
pub(super) struct OwnServer {
    child: Child,
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
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Ctrl-C in a terminal is for us; we end the server when our records are complete.
            .process_group(0)
            .spawn()
            .map_err(|e| broke(&program.display().to_string(), e.to_string()))?;
        let token = random_token().map_err(|e| broke("no random numbers", e.to_string()))?;
        let mut stdin = child.stdin.as_ref().expect("was piped");
        // If it has ended already, its words below say why.
        let _ = stdin.write_all(&[&token[..], b"\n"].concat());
        let mut line = String::new();
        let stdout = child.stdout.take().expect("was piped");
        let said = BufReader::new(stdout).read_line(&mut line);
        match said.map(|_| serde_json::from_str::<Ready>(&line)) {
            Ok(Ok(ready)) => Ok(Self {
                child,
                listening: ready.listening,
                token,
            }),
            _ => {
                let _ = child.kill();
                Err(match child.wait() {
                    Ok(status) if interrupt::has_ended(status) => {
                        Failure::interrupted("interrupted before the server was ready")
                    }
                    _ => broke("it ended before it was ready", line),
                })
            }
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

impl Drop for OwnServer {
    fn drop(&mut self) {
        // Closing its standard input asks it to end.
        drop(self.child.stdin.take());
        let patience = Instant::now() + Duration::from_secs(3);
        while Instant::now() < patience {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
