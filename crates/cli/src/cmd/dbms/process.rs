//! Processes of one command: those that answer queries, and agents that scan for them.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use dpb_dbmods::dbms::session::{AgentAt, Opening, Run, Said, Took};
use dpb_dbmods::dbms::source::AgentError;
use dpb_dbmods::duckdb::spill::Spill;
use dpb_micro::Broken;

use super::Args;
use crate::cmd::own_server::OwnServer;
use crate::cmd::serve::Ready;
use crate::contained::{self, Kept};
use crate::exit::Failure;
use crate::interrupt;

/// The interval at which one that waits for a line looks around.
const LOOK: Duration = Duration::from_millis(50);

/// The end of something without a number.
#[derive(Debug)]
pub(super) enum Ended {
    /// A test has no number, and the reason.
    Broken(Broken),
    /// The whole command ends.
    Failure(Failure),
}

impl Ended {
    pub(super) fn wrong(why: impl std::fmt::Display) -> Self {
        Self::Broken(Broken::Wrong(why.to_string()))
    }

    /// An agent that could not be asked ends the whole command, as it does when the command starts.
    pub(super) fn agent(error: &AgentError) -> Self {
        Self::Failure(Failure::that_ends(error.ends, error.to_string()))
    }

    pub(super) fn unsupported(why: impl std::fmt::Display) -> Self {
        Self::Broken(Broken::Unsupported(why.to_string()))
    }
}

/// A process that answers queries. It is ended when this value is dropped.
#[derive(Debug)]
pub(super) struct Answering {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    /// The resources that opening took.
    pub(super) opened: Took,
    _kept: Kept,
    /// Removed when the process has ended.
    _spill: Spill,
}

impl Answering {
    /// Starts one that spills into `spill`, and waits until it is ready.
    pub(super) fn start(opening: &Opening, spill: Spill) -> Result<Self, Ended> {
        let broke = |why: String| {
            Ended::Failure(Failure::check(format!(
                "cannot start a process for queries: {why}"
            )))
        };
        let program = std::env::current_exe().map_err(|error| broke(error.to_string()))?;
        let mut child = Command::new(program)
            .args(["dbms-session", "--parent", &std::process::id().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Ctrl-C in a terminal is for us.
            .process_group(0)
            .spawn()
            .map_err(|error| broke(error.to_string()))?;
        let kept = contained::keep(&child);
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().expect("it is piped");
        let (sender, lines) = channel();
        thread::spawn(move || {
            let lines = BufReader::new(stdout).lines();
            // Ends when nobody waits for lines any more, or there are none.
            lines
                .map_while(Result::ok)
                .try_for_each(|line| sender.send(line))
        });
        let mut answering = Self {
            child,
            stdin,
            lines,
            opened: Took::default(),
            _kept: kept,
            _spill: spill,
        };
        let text = serde_json::to_string(opening).expect("plain data");
        match answering.ask(&text)? {
            Said::Opened(took) => answering.opened = took,
            Said::Unsupported(why) => return Err(Ended::unsupported(why)),
            Said::Agent(error) => return Err(Ended::agent(&error)),
            Said::Failed(why) => return Err(Ended::wrong(why)),
            Said::Ran(_) => return Err(Ended::wrong("an answer before a question")),
        }
        Ok(answering)
    }

    /// Runs a query.
    pub(super) fn run(&mut self, query: u8) -> Result<Run, Ended> {
        match self.ask(&query.to_string())? {
            Said::Ran(run) => Ok(*run),
            Said::Failed(why) => Err(Ended::wrong(why)),
            Said::Unsupported(why) => Err(Ended::unsupported(why)),
            Said::Agent(error) => Err(Ended::agent(&error)),
            Said::Opened(_) => Err(Ended::wrong("another word than a run")),
        }
    }

    fn ask(&mut self, line: &str) -> Result<Said, Ended> {
        if let Some(stdin) = &mut self.stdin {
            // If it has ended already, its last words or its end say why.
            let _ = stdin
                .write_all(format!("{line}\n").as_bytes())
                .and_then(|()| stdin.flush());
        }
        loop {
            match self.lines.recv_timeout(LOOK) {
                Ok(line) => {
                    return serde_json::from_str(&line).map_err(|error| {
                        Ended::wrong(format!("a process for queries said {error}"))
                    });
                }
                Err(RecvTimeoutError::Timeout) if interrupt::is_set() => {
                    return Err(Ended::Failure(Failure::interrupted(
                        "interrupted while a query ran; what was finished is in the records",
                    )));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    let ended = self.child.wait();
                    let how = ended.map_or_else(|error| error.to_string(), |how| how.to_string());
                    return Err(match interrupt::is_set() {
                        true => Ended::Failure(Failure::interrupted("interrupted")),
                        false => Ended::wrong(format!(
                            "the process for queries ended before it answered ({how}); the memory may have been too small"
                        )),
                    });
                }
            }
        }
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        drop(self.stdin.take());
        // It has nothing to tidy up: DuckDB's files were opened to be read, and its spill is removed behind it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An agent of our own on this machine, for one engine. It ends when this value is dropped, and also if this process is killed.
#[derive(Debug)]
pub(super) struct OwnAgent {
    server: OwnServer<Ready>,
    /// The way to reach it.
    pub(super) at: AgentAt,
}

impl OwnAgent {
    /// Starts one on a free loopback port.
    pub(super) fn start(args: &Args, threads_max: u32) -> Result<Self, Failure> {
        let server: OwnServer<Ready> = OwnServer::agent("an agent", |command| {
            command
                .arg("--data-dir")
                .arg(args.dir())
                .args(["--cache", &args.cache.to_string()])
                .args(["--threads", &threads_max.to_string(), "--bulk", "tcp"]);
        })?;
        let token = String::from_utf8(server.token.as_bytes().to_vec());
        let token = token.expect("random tokens are hexadecimal digits");
        Ok(Self {
            at: AgentAt {
                address: server.ready.listening.to_string(),
                token: Some(token),
                credentials: None,
                scale_factor: args.sf,
                link_bits_per_s: args.link.bits_per_s(),
                is_compact: args.is_compact(),
            },
            server,
        })
    }

    /// Its process.
    pub(super) fn pid(&self) -> u32 {
        self.server.ready.agent.pid
    }
}
