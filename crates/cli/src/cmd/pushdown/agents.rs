//! Agents that this process starts for itself, one a scheme, so that each scheme's memory and CPU time are its own.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use dpb_link::Token;

use super::Args;
use crate::cmd::serve::Ready;
use crate::exit::Failure;
use crate::interrupt;

/// A process of ours that serves; it ends when this value is dropped, and also if this process is killed: its standard
/// input is a pipe that only we hold.
#[derive(Debug)]
pub struct LocalAgent {
    child: Child,
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
        let mut child = Command::new(&program)
            .args(["--format", "json", "serve", "--until-stdin-closes"])
            .args(["--listen", "127.0.0.1:0", "--data-dir"])
            .arg(data_dir)
            .args(["--cache", &args.cache.to_string()])
            .args(["--threads", &threads_max.to_string()])
            .args(["--bulk", &args.bulk.to_text(), "--backend", &args.backend])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Ctrl-C in a terminal is for us; we end the agents when our records are complete.
            .process_group(0)
            .spawn()
            .map_err(|e| broke(&program.display().to_string(), e.to_string()))?;
        let token = Token::random().map_err(|e| broke("no random numbers", e.to_string()))?;
        let mut stdin = child.stdin.as_ref().expect("was piped");
        // If it has ended already, its words below say why.
        let _ = stdin.write_all(&[token.as_bytes(), b"\n"].concat());
        let mut line = String::new();
        let stdout = child.stdout.take().expect("was piped");
        // It says one line and keeps the pipe open, or ends and closes it.
        let said = BufReader::new(stdout).read_line(&mut line);
        let ready = match said.map(|_| serde_json::from_str(&line)) {
            Ok(Ok(ready)) => ready,
            _ => {
                let _ = child.kill();
                return Err(match child.wait() {
                    Ok(status) if interrupt::has_ended(status) => {
                        Failure::interrupted("interrupted before the agents were ready")
                    }
                    _ => broke("it ended before it was ready", line),
                });
            }
        };
        Ok(Self {
            child,
            ready,
            token,
        })
    }
}

impl Drop for LocalAgent {
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
        // It did not; nothing else is left to do with failures here.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
