//! The DPU's side of a test: an agent elsewhere, or a process of our own on this machine.

use dpb_dbmods::index::Plan;
use dpb_link::{Connect, Pass};

use super::{Args, Ended};
use crate::cmd::own_server::OwnServer;
use crate::cmd::serve::Ready;
use crate::exit::Failure;

/// The DPU's side.
pub(super) struct DpuSide {
    _own: Option<OwnServer<Ready>>,
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
        let found = match &args.agent.server {
            Some(address) => Self::elsewhere(args, address),
            None => Self::here(args, plan, threads, cores),
        };
        found.map_err(Ended::Failure)
    }

    fn elsewhere(args: &Args, address: &str) -> Result<Self, Failure> {
        let pass = args.agent.pass()?;
        Ok(Self {
            _own: None,
            connect: Connect {
                pass,
                ..Connect::new(address)
            },
            words: format!("an agent at {address}"),
        })
    }

    fn here(args: &Args, plan: &Plan, threads: u64, cores: &[u32]) -> Result<Self, Failure> {
        let server: OwnServer<Ready> = OwnServer::agent("the DPU's side", |command| {
            command
                .arg("--data-dir")
                .arg(args.dir())
                .args(["--index-memory", &plan.needs().memory_bytes.to_string()])
                .args(["--index-threads", &threads.to_string()])
                .args(["--max-connections", "128", "--bulk", "tcp"]);
            if !cores.is_empty() {
                let cores: Vec<String> = cores.iter().map(ToString::to_string).collect();
                command.args(["--cores", &cores.join(",")]);
            }
        })?;
        Ok(Self {
            connect: Connect {
                pass: Pass::Token(server.token.clone()),
                ..Connect::new(server.ready.listening.to_string())
            },
            words: "a process on this machine".to_owned(),
            _own: Some(server),
        })
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
