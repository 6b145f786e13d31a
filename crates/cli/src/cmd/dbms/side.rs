//! An engine of a command: its data, made cold, and processes that answer from it.

use std::fs;
use std::path::PathBuf;

use dpb_core::Evidence;
use dpb_dbmods::dbms::page_cache::{self, NotCold};
use dpb_dbmods::dbms::queries::TpchQuery;
use dpb_dbmods::dbms::session::{AgentAt, Engine, Opening};
use dpb_dbmods::dbms::source::{AgentSource, Pace};
use dpb_dbmods::duckdb::spill::Spill;
use dpb_dbmods::service::{
    self,
    protocol::{FileFormat, Usage},
};

use super::process::{Answering, Ended, OwnAgent};
use super::session::connect_unpaced;
use super::{Args, EngineName};
use crate::cmd::serve;
use crate::exit::Failure;

/// An engine.
#[derive(Debug)]
pub(super) struct Side {
    pub(super) engine: EngineName,
    data: Data,
}

/// The place of an engine's data.
#[derive(Debug)]
enum Data {
    /// A file of DuckDB's on this machine.
    File(PathBuf),
    /// An agent.
    Agent(Box<Agent>),
}

#[derive(Debug)]
struct Agent {
    at: AgentAt,
    /// A connection without a pace, to ask the agent about itself.
    source: AgentSource,
    /// The agent, if it is our own.
    own: Option<OwnAgent>,
}

/// The resources that an agent had used at a moment.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AgentUse {
    usage: Option<Usage>,
    read_bytes: Option<u64>,
}

impl Side {
    /// DuckDB over its file.
    pub(super) fn of_file(path: PathBuf) -> Self {
        Self {
            engine: EngineName::Duckdb,
            data: Data::File(path),
        }
    }

    /// An engine whose data is at an agent: the one that was named, or one of our own.
    pub(super) fn of_agent(engine: EngineName, args: &Args, threads: u32) -> Result<Self, Failure> {
        let (at, own) = match &args.link.agent.server {
            Some(address) => (elsewhere(args, address)?, None),
            None => {
                let own = OwnAgent::start(args, threads)?;
                (own.at.clone(), Some(own))
            }
        };
        let connect = connect_unpaced(&at).map_err(Failure::usage)?;
        let clock = std::sync::Arc::new(dpb_core::WallClock::default());
        let source = AgentSource::connect(connect, args.sf, 1, Pace::new(0, clock), false);
        Ok(Self {
            engine,
            data: Data::Agent(Box::new(Agent {
                at,
                source: source
                    .map_err(|error| Failure::that_ends(error.ends, error.to_string()))?,
                own,
            })),
        })
    }

    /// Drops what a query reads from the caches of whoever has it.
    pub(super) fn make_cold(&self, query: &TpchQuery) -> Result<(), Ended> {
        match &self.data {
            Data::File(path) => page_cache::drop_file(path).map_err(|error| match error {
                NotCold::Kept { .. } => Ended::unsupported(error),
                NotCold::Io { .. } => Ended::wrong(error),
            }),
            Data::Agent(agent) => {
                let format = match self.engine {
                    EngineName::DuckdbFetch => FileFormat::DuckDb,
                    _ => FileFormat::Segment,
                };
                (agent.source)
                    .make_cold(query.tables(), format)
                    .map_err(|error| match error.is_refusal {
                        true => Ended::unsupported(error),
                        false => Ended::agent(&error),
                    })
            }
        }
    }

    /// Starts a process that answers queries.
    pub(super) fn start(&self, args: &Args, threads: u32) -> Result<Answering, Ended> {
        let engine = match (&self.data, self.engine) {
            (Data::File(path), _) => Engine::DuckDb { path: path.clone() },
            (Data::Agent(agent), EngineName::DuckdbFetch) => Engine::Fetch(agent.at.clone()),
            (Data::Agent(agent), _) => Engine::Agent(agent.at.clone()),
        };
        let spill = Spill::new(&args.dir(), "dbms");
        let folder = spill.folder().map_err(|error| {
            Failure::unavailable(format!(
                "no folder for DuckDB to spill into: {error}; --data-dir chooses another place"
            ))
        })?;
        let opening = Opening {
            engine,
            threads,
            memory_bytes_max: args.memory,
            spill: folder.to_owned(),
        };
        Answering::start(&opening, spill)
    }

    /// The resources that the agent has used so far; with `reset_peak` a new peak of its memory starts.
    pub(super) fn used(&self, reset_peak: bool) -> Result<AgentUse, Ended> {
        match &self.data {
            Data::File(_) => Ok(AgentUse::default()),
            Data::Agent(agent) => Ok(AgentUse {
                usage: Some(
                    (agent.source.usage(reset_peak)).map_err(|error| Ended::agent(&error))?,
                ),
                read_bytes: agent.own.as_ref().and_then(|own| read_bytes(own.pid())),
            }),
        }
    }

    /// The evidence of its times: on a link with a pace they are emulated.
    pub(super) fn evidence(&self, args: &Args) -> Evidence {
        let Data::Agent(agent) = &self.data else {
            return Evidence::of_this_cpu();
        };
        service::evidence(agent.source.emulated_by(), args.link.bits_per_s())
    }
}

impl AgentUse {
    /// CPU seconds and most memory of an agent between two moments.
    pub(super) fn since(&self, before: &Self) -> (Option<f64>, Option<u64>) {
        let both = self.usage.zip(before.usage);
        (
            both.map(|(after, before)| after.cpu_s - before.cpu_s),
            self.usage.map(|usage| usage.peak_bytes),
        )
    }

    /// Bytes that it has read from storage since.
    pub(super) fn read_since(&self, before: &Self) -> Option<u64> {
        let both = self.read_bytes.zip(before.read_bytes);
        both.map(|(after, before)| after.saturating_sub(before))
    }
}

/// The agent that was named.
fn elsewhere(args: &Args, address: &str) -> Result<AgentAt, Failure> {
    let token = match &args.link.agent.token_file {
        None => None,
        Some(path) => {
            let token = serve::token_of(path)?;
            let text = String::from_utf8(token.as_bytes().to_vec());
            Some(text.map_err(|_| {
                Failure::usage(format!("the token file {} is no text", path.display()))
            })?)
        }
    };
    Ok(AgentAt {
        address: address.to_owned(),
        token,
        credentials: args.link.agent.credentials.clone(),
        scale_factor: args.sf,
        link_bits_per_s: args.link.bits_per_s(),
        is_compact: args.is_compact(),
    })
}

/// Bytes that a process has had read from storage (proc(5)).
fn read_bytes(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/io")).ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("read_bytes:"))?;
    line.trim().parse().ok()
}
