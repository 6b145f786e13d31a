//! The compute side of a connection to an agent.
//!
//! An agent ends connections that are idle for long, and a client's may be while others are busy. So a connection that has
//! ended is made anew for the next request, to the same agent or not at all. An exchange that breaks ends its connection:
//! what is left of it must not be taken for the next one's.
//!
//! **Trust.** None: see [`crate::service::protocol`] for bytes, `client/claims.rs` for words and figures. [`Patience`] bounds every wait. A scan or
//! a file is bounded by what the table can hold.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use dpb_core::Timer;
use dpb_link::bulk::{Connector, Transport};
use dpb_link::{Connect, Link, LinkError, Pass, Token};

use self::connection::{Opened, answer, open};
pub use self::error::ClientError;
use self::error::wrong;
pub use self::parts::scan_parts;
pub use self::patience::Patience;
pub use self::scanning::Scanned;
use self::spare::Spare;
use crate::query::Predicate;
use crate::schema::Schema;
use crate::service::compact::Expander;
use crate::service::protocol::{
    self, AgentInfo, DataSet, FileFormat, Refusal, Reply, Request, ScanRequest, TableInfo, Tag,
    Usage,
};
use crate::tpch;

mod claims;
mod connection;
mod error;
mod fetching;
mod parts;
mod patience;
mod scanning;
mod spare;

/// Every capability but compact batches, which are for links that are slower than a core.
pub const CAPABILITIES: u64 = protocol::CAPABILITY_DUCKDB
    | protocol::CAPABILITY_FETCH
    | protocol::CAPABILITY_BULK
    | protocol::CAPABILITY_PARTIALS;

/// Hears of bytes that have come, and whether some of them were there before anybody waited for them.
pub type Meter = Arc<dyn Fn(u64, bool) + Send + Sync>;

/// A connection to an agent, one request at a time.
pub struct Client {
    link: Link,
    /// Bytes of the connections before this one.
    bytes_before: (u64, u64),
    bulk_bytes_before: u64,
    /// How it was connected to, and is again.
    connect: Connect,
    /// Capabilities that the agent is asked for.
    capabilities: u64,
    agent_capabilities: u64,
    agent: AgentInfo,
    patience: Patience,
    /// Rows of TPC-H's tables, at most: counting them takes a while.
    table_rows: HashMap<(DataSet, String), u64>,
    /// Tables that are not TPC-H's, as the agent last described them.
    described: HashMap<(DataSet, String), TableInfo>,
    spare: Spare,
    expander: Expander,
    /// Hears of the bytes of each batch as it has come.
    meter: Option<Meter>,
    transport: Transport,
    /// The opener of the transport, if it is another than TCP.
    offers: Option<Arc<dyn Connector>>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("address", &self.connect.address)
            .field("agent", &self.agent)
            .finish_non_exhaustive()
    }
}

impl Client {
    /// Connects to `address` (`host:port`) on loopback, showing `token` if it is not empty. Both sides then send at `link_bits_per_s`, 0 for as fast as they can.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn connect(address: &str, token: &[u8], link_bits_per_s: u64) -> Result<Self, ClientError> {
        Self::connect_for(address, token, link_bits_per_s, CAPABILITIES)
    }

    /// The same for who needs these capabilities only: an agent loads no DuckDB for who does not ask for
    /// [`protocol::CAPABILITY_DUCKDB`].
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn connect_for(
        address: &str,
        token: &[u8],
        link_bits_per_s: u64,
        capabilities: u64,
    ) -> Result<Self, ClientError> {
        let pass = match token {
            [] => Pass::None,
            _ => {
                let token = Token::new(token);
                let text = |error: dpb_link::TokenLength| error.to_string();
                Pass::Token(token.map_err(|error| ClientError::Refused {
                    address: address.to_owned(),
                    refusal: Refusal::Token,
                    text: text(error),
                })?)
            }
        };
        let connect = Connect {
            pass,
            link_bits_per_s,
            ..Connect::new(address)
        };
        Self::connect_with(connect, capabilities)
    }

    /// The same for who has more to say of the connection: what is shown, the clock, how long the agent is waited for.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn connect_with(connect: Connect, capabilities: u64) -> Result<Self, ClientError> {
        let Opened {
            link,
            capabilities: agent_capabilities,
            agent,
        } = open(&connect, capabilities)?;
        Ok(Self {
            link,
            bytes_before: (0, 0),
            bulk_bytes_before: 0,
            connect,
            capabilities,
            agent_capabilities,
            agent,
            spare: Spare::default(),
            expander: Expander::default(),
            meter: None,
            patience: Patience::default(),
            table_rows: HashMap::new(),
            described: HashMap::new(),
            transport: Transport::Tcp { fallback: None },
            offers: None,
        })
    }

    /// Has `meter` hear of the bytes of each batch that has come, before anybody has its rows, and whether some of them were there when it was waited for.
    pub fn set_meter(&mut self, meter: Meter) {
        self.meter = Some(meter);
    }

    /// The transport of large bodies.
    pub fn transport(&self) -> &Transport {
        &self.transport
    }

    /// Asks `interrupted` between frames, and several times a second while it waits for one, whether to end early.
    pub fn set_interrupted(&mut self, interrupted: fn() -> bool) {
        self.connect.stop = interrupted;
        self.link.set_stop(interrupted);
    }

    /// Sets how long the agent may keep this side waiting.
    pub fn set_patience(&mut self, patience: Patience) {
        self.patience = patience;
    }

    /// The function that is asked whether to end early.
    pub fn interrupted(&self) -> fn() -> bool {
        self.connect.stop
    }

    /// The clock that waits for the agent go by.
    pub fn clock(&self) -> Arc<dyn Timer> {
        self.link.shared_clock()
    }

    /// The agent, as it describes itself.
    pub fn agent(&self) -> &AgentInfo {
        &self.agent
    }

    /// Bytes sent to the agent and received from it so far, frame headers included, whatever carried them.
    pub fn bytes(&self) -> (u64, u64) {
        let (sent, received) = self.link.bytes();
        (self.bytes_before.0 + sent, self.bytes_before.1 + received)
    }

    /// Bytes that came past TCP so far.
    pub fn bulk_bytes(&self) -> u64 {
        self.bulk_bytes_before + self.link.bulk_bytes().1
    }

    /// The tables of a data set.
    ///
    /// # Errors
    /// [`ClientError`], as all that follow.
    pub fn describe(&mut self, data: &DataSet) -> Result<Vec<TableInfo>, ClientError> {
        self.tables(Some(data))
    }

    /// All tables of all data sets that the agent has.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn catalog(&mut self) -> Result<Vec<TableInfo>, ClientError> {
        self.tables(None)
    }

    fn tables(&mut self, data: Option<&DataSet>) -> Result<Vec<TableInfo>, ClientError> {
        let request = Request::Describe {
            data: data.cloned(),
        };
        let Reply::Tables(tables) = self.ask(&request)? else {
            return Err(self.out_of_place());
        };
        self.believe(claims::tables(&tables, data))?;
        let own = tables
            .iter()
            .filter(|table| table.data.scale_factor().is_none());
        for table in own {
            let name = (table.data.clone(), table.schema.table.clone());
            self.described.insert(name, table.clone());
        }
        Ok(tables)
    }

    /// A predicate that selects about this share of a table's rows, and the share that it selects exactly.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn pick(
        &mut self,
        data: &DataSet,
        table: &str,
        selectivity: f64,
    ) -> Result<(Predicate, f64), ClientError> {
        let schema = self.table_schema(data, table)?;
        let request = Request::Pick {
            data: data.clone(),
            table: table.to_owned(),
            selectivity,
        };
        match self.ask(&request)? {
            Reply::Predicate {
                predicate,
                selectivity,
            } => {
                self.believe(claims::picked(schema.as_ref(), &predicate, selectivity))?;
                Ok((predicate, selectivity))
            }
            _ => Err(self.out_of_place()),
        }
    }

    /// Makes the agent forget a file's contents, so that the next scan reads storage.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn make_cold(
        &mut self,
        data: &DataSet,
        table: &str,
        format: FileFormat,
    ) -> Result<(), ClientError> {
        let request = Request::Cold {
            data: data.clone(),
            table: table.to_owned(),
            format,
        };
        match self.ask(&request)? {
            Reply::Dropped => Ok(()),
            _ => Err(self.out_of_place()),
        }
    }

    /// What the agent's process has used.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn usage(&mut self, reset_peak: bool) -> Result<Usage, ClientError> {
        match self.ask(&Request::Usage { reset_peak })? {
            Reply::Usage(usage) => {
                self.believe(claims::usage(&usage))?;
                Ok(usage)
            }
            _ => Err(self.out_of_place()),
        }
    }

    /// Sends a request and reads its one reply.
    fn ask(&mut self, request: &Request) -> Result<Reply, ClientError> {
        self.request(request)?;
        answer(&mut self.link).map_err(|source| self.broke(source))
    }

    /// Sends a request, on a new connection if the last one has ended.
    fn request(&mut self, request: &Request) -> Result<(), ClientError> {
        if self.link.peer_gone() {
            self.connect_anew()?;
        }
        self.grant(request);
        let sent = self.link.send(Tag::Request, &protocol::encode(request));
        sent.map_err(|source| self.broke(source))
    }

    /// Bounds the wait for the answer to a request.
    fn grant(&mut self, request: &Request) {
        let patience = self.patience;
        let silence = patience.silence;
        let (at_a_time, in_all) = match request {
            Request::Scan(ScanRequest { data, query, .. }) => {
                let rows = self.table_rows(data, &query.table);
                (silence, silence + patience.work(rows))
            }
            Request::Pick { data, table, .. } | Request::Cold { data, table, .. } => {
                let rows = self.table_rows(data, table);
                let in_all = silence + patience.work(rows) / 100;
                (in_all, in_all)
            }
            _ => (silence, silence),
        };
        self.link.grant(at_a_time, in_all);
    }

    /// The largest number of rows that a table can have; 0 for one that is unknown.
    fn table_rows(&mut self, data: &DataSet, table: &str) -> u64 {
        let name = (data.clone(), table.to_owned());
        let Some(sf) = data.scale_factor() else {
            return self.described.get(&name).map_or(0, |known| known.rows);
        };
        *self.table_rows.entry(name).or_insert_with(|| {
            let made = tpch::row_count(table, sf);
            made.map_or(0, |made| *made.end())
        })
    }

    /// The columns of a table; asks the agent about tables that are not TPC-H's, once.
    fn table_schema(&mut self, data: &DataSet, table: &str) -> Result<Option<Schema>, ClientError> {
        if data.scale_factor().is_some() {
            return Ok(tpch::schema(table));
        }
        let name = (data.clone(), table.to_owned());
        if !self.described.contains_key(&name) {
            self.describe(data)?;
        }
        Ok(self.described.get(&name).map(|known| known.schema.clone()))
    }

    /// Ends the conversation with an agent whose words cannot be.
    fn believe(&mut self, claim: Result<(), LinkError>) -> Result<(), ClientError> {
        claim.map_err(|source| self.broke(source))
    }

    fn out_of_place(&mut self) -> ClientError {
        self.broke(LinkError::OutOfPlace(Tag::Reply.into()))
    }

    /// The error of an exchange that failed. Unless the agent refused in its place, the connection ends.
    fn broke(&mut self, source: LinkError) -> ClientError {
        if !matches!(source, LinkError::Refused { .. }) {
            self.link.hang_up();
            if (self.connect.stop)() {
                return ClientError::Interrupted;
            }
        }
        wrong(&self.connect.address, source)
    }
}

#[cfg(test)]
mod tests;
