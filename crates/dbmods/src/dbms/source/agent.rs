//! Tables of an agent: each scan is a request on a connection of its own.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dpb_link::Connect;
use serde::{Deserialize, Serialize};

use super::{Pace, Queue, ScanCounts, Source};
use crate::ends::Ends;
use crate::query::Query;
use crate::scan::operator::BATCH_ROWS;
use crate::schema::Schema;
use crate::service::client::{Client, ClientError};
use crate::service::protocol::{
    CAPABILITY_COMPACT, DataSet, Engine, FileFormat, Refusal, ScanRequest, TableInfo, Usage,
};
use crate::tpch::TABLES;

/// A failure between this side and an agent, as one process tells another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{text}")]
pub struct AgentError {
    /// The end that it is.
    pub ends: Ends,
    /// True if the agent is there, and has refused.
    pub is_refusal: bool,
    /// The event, for people.
    pub text: String,
}

impl AgentError {
    /// Something that is not there.
    pub(in crate::dbms) fn lacks(text: String) -> Self {
        Self {
            ends: Ends::Unavailable,
            is_refusal: true,
            text,
        }
    }
}

impl From<ClientError> for AgentError {
    fn from(error: ClientError) -> Self {
        Self {
            ends: error.ends(),
            is_refusal: matches!(error, ClientError::Refused { .. }),
            text: error.to_string(),
        }
    }
}

/// A question makes its connection anew at most so many times.
const ANEW: u32 = 2;

/// TPC-H's tables at an agent.
pub struct AgentSource {
    connect: Connect,
    data: DataSet,
    threads: u32,
    tables: Vec<TableInfo>,
    pace: Pace,
    /// Capabilities that it is asked for.
    capabilities: u64,
    /// The stand-in for hardware that the agent has.
    emulated_by: Option<String>,
    /// Connections that no scan has.
    idle: Mutex<Vec<Client>>,
}

impl AgentSource {
    /// Connects to an agent that has the tables of a scale factor. `pace` is that of the link, which all connections share; it is kept by who receives, and
    /// the agent sends without one, so that no batch passes the link twice. With `is_compact` batches come in fewer bytes, which takes both sides' cores.
    ///
    /// # Errors
    /// If it cannot be reached, or lacks a table.
    pub fn connect(
        connect: Connect,
        scale_factor: f64,
        threads: u32,
        pace: Pace,
        is_compact: bool,
    ) -> Result<Self, AgentError> {
        let connect = Connect {
            link_bits_per_s: 0,
            ..connect
        };
        let capabilities = match is_compact {
            true => CAPABILITY_COMPACT,
            // Scans alone, so that the agent loads no DuckDB.
            false => 0,
        };
        let mut client = open(&connect, capabilities, &pace)?;
        let data = DataSet::tpch(scale_factor);
        let data = data.map_err(|error| AgentError::lacks(error.to_string()))?;
        let tables = client.describe(&data)?;
        let has = |name: &&str| tables.iter().any(|info| info.schema.table == *name);
        if let Some(missing) = TABLES.iter().find(|name| !has(name)) {
            return Err(AgentError::lacks(format!(
                "the agent has no {missing} at scale factor {scale_factor}: run `dpb data --sf {scale_factor}` on its machine"
            )));
        }
        Ok(Self {
            connect,
            data,
            threads,
            tables,
            pace,
            capabilities,
            emulated_by: client.agent().emulated_by.clone(),
            idle: Mutex::new(vec![client]),
        })
    }

    /// Has the agent drop these tables' files from its caches.
    ///
    /// # Errors
    /// The agent's words.
    pub fn make_cold(
        &self,
        tables: impl IntoIterator<Item = &'static str>,
        format: FileFormat,
    ) -> Result<(), AgentError> {
        let tables: Vec<&str> = tables.into_iter().collect();
        self.asked(|client| {
            (tables.iter()).try_for_each(|table| client.make_cold(&self.data, table, format))
        })
    }

    /// The resources that the agent's process has used; with `reset_peak` a new peak of its memory starts.
    ///
    /// # Errors
    /// The agent's words.
    pub fn usage(&self, reset_peak: bool) -> Result<Usage, AgentError> {
        self.asked(|client| client.usage(reset_peak))
    }

    /// Asks on a connection that no scan has, and keeps it unless it broke. One that has broken since it was kept is made anew, and so is one that breaks
    /// then: an agent that is being ended still takes a connection, and only the next one finds nobody there.
    fn asked<T>(
        &self,
        ask: impl Fn(&mut Client) -> Result<T, ClientError>,
    ) -> Result<T, AgentError> {
        let mut client = self.client();
        let mut more = ANEW;
        loop {
            let asked = client.map(|mut client| {
                let answer = ask(&mut client);
                (client, answer)
            });
            let (client_of_answer, answer) = match asked {
                Err(ClientError::Wire { .. }) | Ok((_, Err(ClientError::Wire { .. })))
                    if more > 0 =>
                {
                    more -= 1;
                    client = open(&self.connect, self.capabilities, &self.pace);
                    continue;
                }
                asked => asked?,
            };
            let is_whole = match &answer {
                Ok(_) => true,
                // Others end the connection.
                Err(ClientError::Refused { refusal, .. }) => matches!(
                    refusal,
                    Refusal::Usage
                        | Refusal::Unavailable
                        | Refusal::Busy
                        | Refusal::Damaged
                        | Refusal::Internal
                ),
                Err(_) => false,
            };
            if is_whole {
                self.idle().push(client_of_answer);
            }
            return Ok(answer?);
        }
    }

    /// The stand-in for hardware that the agent has, if it has one.
    pub fn emulated_by(&self) -> Option<String> {
        self.emulated_by.clone()
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Client>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn client(&self) -> Result<Client, ClientError> {
        let idle = self.idle().pop();
        idle.map_or_else(|| open(&self.connect, self.capabilities, &self.pace), Ok)
    }
}

/// A connection whose batches pass at the link's pace.
fn open(connect: &Connect, capabilities: u64, pace: &Pace) -> Result<Client, ClientError> {
    let mut client = Client::connect_with(connect.clone(), capabilities)?;
    let pace = pace.clone();
    client.set_meter(Arc::new(move |bytes, was_there| {
        pace.pass(bytes, was_there)
    }));
    Ok(client)
}

impl Source for AgentSource {
    fn tables(&self) -> Vec<(Schema, u64)> {
        let tables = self.tables.iter();
        tables
            .map(|info| (info.schema.clone(), info.rows))
            .collect()
    }

    fn threads(&self) -> usize {
        self.threads as usize
    }

    fn scan(&self, schema: &Schema, query: Query, queue: &Queue) -> Result<ScanCounts, String> {
        let mut client = self.client().map_err(|error| error.to_string())?;
        let request = ScanRequest {
            data: self.data.clone(),
            schema: schema.fingerprint(),
            engine: Engine::Dpb,
            query,
            threads: self.threads,
            batch_rows: BATCH_ROWS as u32,
            rows_expected: None,
            partial: false,
        };
        let before = client.bytes().1;
        let mut rows_sent = 0;
        let scanned = client.scan(request, &mut |batch| {
            rows_sent += batch.num_rows() as u64;
            match queue.put(batch.clone()) {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        });
        let end = scanned.map_err(|error| error.to_string())?.end;
        let link_bytes = client.bytes().1 - before;
        self.idle().push(client);
        Ok(ScanCounts {
            rows_scanned: end.tuples_scanned,
            rows_sent,
            link_bytes,
        })
    }
}

impl std::fmt::Debug for AgentSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AgentSource({})", self.connect.address)
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::num::NonZeroU32;
    use std::sync::atomic::AtomicBool;
    use std::thread;

    use dpb_core::{
        Backend, Buf, Clock, Limits, OpSpec, Operator, Properties, SetupError, Unsupported,
        WallClock,
    };

    use super::*;
    use crate::service::agent::{Agent, AgentOptions};
    use crate::tpch;

    /// A stand-in for a device, which no test here has scan.
    struct StandIn(WallClock);

    impl Backend for StandIn {
        fn name(&self) -> &str {
            "stand-in"
        }

        fn clock(&self) -> &dyn Clock {
            &self.0
        }

        fn properties(&self) -> Properties {
            Properties::of_device(Some("a stand-in".to_owned()))
        }

        fn alloc(&self, len: usize) -> Result<Buf, SetupError> {
            Err(SetupError::OutOfMemory { len })
        }

        fn limits(&self, _: &OpSpec) -> Result<Limits, Unsupported> {
            Ok(Limits::new(NonZeroU32::MIN))
        }

        fn prepare(&self, spec: &OpSpec) -> Result<Arc<dyn Operator>, SetupError> {
            let reason = format!("no {}", spec.name());
            Err(SetupError::Unsupported(Unsupported { reason }))
        }
    }

    #[test]
    fn an_agent_that_refuses_stays_what_it_is_and_one_that_is_gone_is_not_there() {
        const SF: f64 = 0.001;
        let dir = tempfile::tempdir().unwrap();
        let going = |_: tpch::Step<'_>| ControlFlow::Continue(());
        tpch::ensure(dir.path(), SF, &TABLES, 2, &WallClock::default(), &going).unwrap();
        let agent = Agent::bind(AgentOptions {
            data_dir: dir.path().to_owned(),
            backend: Arc::new(StandIn(WallClock::default())),
            ..AgentOptions::new("127.0.0.1:0".parse().unwrap())
        });
        let agent = agent.unwrap_or_else(|error| panic!("{error}"));
        let address = agent.address().to_string();
        let stop = AtomicBool::new(false);
        let source = thread::scope(|scope| {
            scope.spawn(|| agent.run(&|| stop.load(std::sync::atomic::Ordering::Relaxed)));
            let pace = Pace::new(0, Arc::new(WallClock::default()));
            let source = AgentSource::connect(Connect::new(&address), SF, 1, pace, false);
            let source = source.unwrap_or_else(|error| panic!("{error}"));
            for _ in 0..2 {
                assert_eq!(source.emulated_by().as_deref(), Some("a stand-in"));
                let cold = source.make_cold(["orders"], FileFormat::Segment);
                let refused = cold.unwrap_err();
                assert!(
                    refused.is_refusal && refused.text.contains("--allow-cold"),
                    "{refused}"
                );
                // The connection goes on.
                assert_eq!(source.idle().len(), 1);
                source.usage(false).unwrap();
            }
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
            source
        });
        let assert_gone = || {
            let gone = source.usage(false).unwrap_err();
            assert_eq!(
                (gone.ends, gone.is_refusal),
                (Ends::Unavailable, false),
                "{gone}"
            );
        };
        assert_gone();
        // One that takes a connection and is gone before it has said a word.
        let going = TcpListener::bind(&address).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| {
                let taken = going.accept().unwrap();
                drop(going);
                drop(taken);
            });
            assert_gone();
        });
    }
}
