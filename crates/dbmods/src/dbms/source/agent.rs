//! Tables of an agent: each scan is a request on a connection of its own.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dpb_link::Connect;

use super::{Pace, Queue, ScanCounts, Source};
use crate::query::Query;
use crate::scan::operator::BATCH_ROWS;
use crate::schema::Schema;
use crate::service::client::{Client, ClientError};
use crate::service::protocol::{
    CAPABILITY_COMPACT, DataSet, Engine, FileFormat, ScanRequest, TableInfo, Usage,
};
use crate::tpch::TABLES;

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
    /// Connects to an agent that has the tables of a scale factor. `pace` is that of `connect`, which all connections share. With
    /// `is_compact` batches come in fewer bytes, which takes both sides' cores.
    ///
    /// # Errors
    /// If it cannot be reached, or lacks a table.
    pub fn connect(
        connect: Connect,
        scale_factor: f64,
        threads: u32,
        pace: Pace,
        is_compact: bool,
    ) -> Result<Self, String> {
        let capabilities = match is_compact {
            true => CAPABILITY_COMPACT,
            // Scans alone, so that the agent loads no DuckDB.
            false => 0,
        };
        let mut client = open(&connect, capabilities, &pace).map_err(|error| error.to_string())?;
        let data = DataSet::tpch(scale_factor).map_err(|error| error.to_string())?;
        let tables = client.describe(&data).map_err(|error| error.to_string())?;
        let has = |name: &&str| tables.iter().any(|info| info.schema.table == *name);
        if let Some(missing) = TABLES.iter().find(|name| !has(name)) {
            return Err(format!(
                "the agent has no {missing} at scale factor {scale_factor}: run `dpb data --sf {scale_factor}` on its machine"
            ));
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
    ) -> Result<(), String> {
        let mut client = self.client().map_err(|error| error.to_string())?;
        for table in tables {
            let cold = client.make_cold(&self.data, table, format);
            cold.map_err(|error| error.to_string())?;
        }
        self.idle().push(client);
        Ok(())
    }

    /// The resources that the agent's process has used; with `reset_peak` a new peak of its memory starts.
    ///
    /// # Errors
    /// The agent's words.
    pub fn usage(&self, reset_peak: bool) -> Result<Usage, String> {
        let mut client = self.client().map_err(|error| error.to_string())?;
        let usage = client
            .usage(reset_peak)
            .map_err(|error| error.to_string())?;
        self.idle().push(client);
        Ok(usage)
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
    client.set_meter(Arc::new(move |bytes| pace.pass(bytes)));
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
