//! The DPU's side of a test: an agent elsewhere, or a process of our own on this machine.

use std::process::Command;
use std::time::Duration;

use dpb_dbmods::index::Plan;
use dpb_link::{ClientCredentials, Connect, Pass, Token};

use super::{Args, Ended};
use crate::child::{NotReady, ServingChild};
use crate::cmd::serve::{Ready, token_of};
use crate::exit::Failure;

/// The time that a process of ours has to end.
const END: Duration = Duration::from_secs(3);

/// The DPU's side.
pub(super) struct DpuSide {
    /// A process that ends when this value is dropped, and also if this process is killed.
    _child: Option<ServingChild>,
    connect: Connect,
    words: String,
}

impl DpuSide {
    /// The agent that was named, or a process of our own with room for `plan`, on these cores.
    pub(super) fn find(
        args: &Args,
        plan: &Plan,
        threads: u64,
        cores: &[u32],
    ) -> Result<Self, Ended> {
        let found = match &args.server {
            Some(address) => Self::elsewhere(args, address),
            None => Self::here(args, plan, threads, cores),
        };
        found.map_err(Ended::Failure)
    }

    fn elsewhere(args: &Args, address: &str) -> Result<Self, Failure> {
        let pass = match (&args.credentials, &args.token_file) {
            (Some(path), _) => {
                let credentials = ClientCredentials::load(path);
                Pass::Credentials(
                    credentials
                        .map_err(|error| Failure::usage(format!("--credentials: {error}")))?,
                )
            }
            (None, Some(path)) => Pass::Token(token_of(path)?),
            (None, None) => Pass::None,
        };
        Ok(Self {
            _child: None,
            connect: Connect {
                pass,
                ..Connect::new(address)
            },
            words: format!("an agent at {address}"),
        })
    }

    fn here(args: &Args, plan: &Plan, threads: u64, cores: &[u32]) -> Result<Self, Failure> {
        let broke = |what: &str, why: String| {
            Failure::check(format!("cannot start the DPU's side: {what}: {why}"))
        };
        let program =
            std::env::current_exe().map_err(|e| broke("where is this program?", e.to_string()))?;
        let mut command = Command::new(&program);
        command
            .args([
                "--format",
                "json",
                "serve",
                "--until-stdin-closes",
                "--listen",
                "127.0.0.1:0",
                "--data-dir",
            ])
            .arg(args.dir())
            .args(["--index-memory", &plan.needs().memory_bytes.to_string()])
            .args(["--index-threads", &threads.to_string()])
            .args(["--max-connections", "128", "--bulk", "tcp"]);
        if !cores.is_empty() {
            let cores: Vec<String> = cores.iter().map(ToString::to_string).collect();
            command.args(["--cores", &cores.join(",")]);
        }
        let token = Token::random().map_err(|e| broke("no random numbers", e.to_string()))?;
        let mut child = ServingChild::start(&mut command, token.as_bytes(), END)
            .map_err(|e| broke(&program.display().to_string(), e.to_string()))?;
        match child.ready::<Ready>() {
            Ok(ready) => Ok(Self {
                _child: Some(child),
                connect: Connect {
                    pass: Pass::Token(token),
                    ..Connect::new(ready.listening.to_string())
                },
                words: "a process on this machine".to_owned(),
            }),
            Err(NotReady::Interrupted) => Err(Failure::interrupted(
                "interrupted before the DPU's side was ready",
            )),
            Err(NotReady::Said(line)) => Err(broke("it ended before it was ready", line)),
        }
    }

    /// How it is reached.
    pub(super) fn connect(&self) -> Connect {
        self.connect.clone()
    }

    /// What it is, for a record.
    pub(super) fn words(&self) -> String {
        self.words.clone()
    }
}
