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
use std::fs::File;
use std::io::{self, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use dpb_core::{WallClock, printable};

use self::claims::Arriving;
use crate::ipc::{decode_batch, decode_schema};
use crate::query::Predicate;
use crate::service::bulk::{Connected, Connector, Transport};
use crate::service::link::Link;
use crate::service::protocol::{
    self, AgentInfo, End, FileFormat, Header, Hello, Refusal, Reply, Request, ScanRequest,
    TableInfo, Tag, Usage, Welcome, WireError,
};
use crate::tpch;

mod claims;

/// Most bytes that may come of a scan after it was told to stop: what was in flight.
const IN_FLIGHT_BYTES_MAX: usize = 8 * Tag::Batch.body_bytes_max();
/// What a batch without rows counts as: a sign of life every few seconds is one, a stream of them is not.
const EMPTY_BATCH: Duration = Duration::from_secs(1);
/// Characters of what an agent says of itself that are kept.
const WORDS_MAX: usize = 1000;

/// How long an agent may take to accept.
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);
/// How long it may take to welcome: it may have to load DuckDB first.
const WELCOME_PATIENCE: Duration = Duration::from_secs(15);
/// How long it may take to open a transport beside TCP: its device may have to find the one on this side first.
const TRANSPORT_PATIENCE: Duration = Duration::from_secs(15);

/// How long an agent may keep its client waiting for a reply.
///
/// Of waiting counts what this side has nothing else to do. A byte ends a silence, and what arrives earns time too, at
/// [`BYTES_PER_S_MIN`](crate::service::link::BYTES_PER_S_MIN), so that who sends a byte now and then gains nothing. An agent that scans
/// shows a sign of life every few seconds, see [`crate::service::protocol`]; for what it answers with one reply it is silent for as long as
/// the work takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// Longest silence, and what any reply may take in all.
    pub silence: Duration,
    /// What a scan may take beyond that: as long as one of so many rows of the table in a second does. To find a predicate, or
    /// to read a file anew, is given a hundredth of it.
    pub rows_per_s: u32,
}

impl Default for Patience {
    /// A minute, and 1000 rows a second, where scans go through millions.
    fn default() -> Self {
        Self {
            silence: Duration::from_secs(60),
            rows_per_s: 1000,
        }
    }
}

/// What went wrong between this side and an agent.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody there.
    #[error("cannot reach an agent at {address}: {source}. Start one there with `dpb serve`")]
    Unreachable {
        /// Where.
        address: String,
        /// What the operating system says.
        source: io::Error,
    },
    /// The agent refused.
    #[error("the agent at {address} refused: {text}{}", remedy(*refusal))]
    Refused {
        /// Where.
        address: String,
        /// The agent's code.
        refusal: Refusal,
        /// The agent's words, on one line.
        text: String,
    },
    /// The connection broke, or what came over it was no sense.
    #[error("the connection to the agent at {address} failed: {source}")]
    Wire {
        /// Where.
        address: String,
        /// Why.
        source: WireError,
    },
    /// The agent has ended, and another process answers in its place.
    #[error("the agent at {address} has ended, and another one answers there now: run again")]
    Replaced {
        /// Where.
        address: String,
    },
    /// A signal asked to end.
    #[error("interrupted")]
    Interrupted,
    /// What was received cannot be written.
    #[error("cannot write what was fetched: {0}")]
    Write(io::Error),
}

/// A connection to an agent, one request at a time.
pub struct Client {
    link: Link,
    /// Bytes of the connections before this one.
    bytes_before: (u64, u64),
    bulk_bytes_before: u64,
    address: String,
    token: Vec<u8>,
    link_bits_per_s: u64,
    capabilities: u64,
    welcome: Welcome,
    interrupted: fn() -> bool,
    patience: Patience,
    /// Rows of tables, at most, by the scale factor's bits and the name: counting them takes a while.
    table_rows: HashMap<(u64, String), u64>,
    transport: Transport,
    /// Who opened the transport, if it is another than TCP.
    offers: Option<Arc<dyn Connector>>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("address", &self.address)
            .field("agent", &self.welcome.agent)
            .finish_non_exhaustive()
    }
}

/// What a scan returned beside its rows.
#[derive(Clone, Debug)]
pub struct Scanned {
    /// The rows' schema.
    pub schema: SchemaRef,
    /// What the agent did.
    pub end: End,
    /// From the request to the first batch; to the end if there was none.
    pub first_batch: Duration,
}

impl Client {
    /// Connects to `address` (`host:port`). Both sides then send at `link_bits_per_s`, 0 for as fast as they can.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn connect(address: &str, token: &[u8], link_bits_per_s: u64) -> Result<Self, ClientError> {
        let all =
            protocol::CAPABILITY_DUCKDB | protocol::CAPABILITY_FETCH | protocol::CAPABILITY_BULK;
        Self::connect_for(address, token, link_bits_per_s, all)
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
        let (link, welcome) = open(address, token, link_bits_per_s, capabilities)?;
        Ok(Self {
            link,
            bytes_before: (0, 0),
            bulk_bytes_before: 0,
            address: address.to_owned(),
            token: token.to_vec(),
            link_bits_per_s,
            capabilities,
            welcome,
            interrupted: || false,
            patience: Patience::default(),
            table_rows: HashMap::new(),
            transport: Transport::Tcp { fallback: None },
            offers: None,
        })
    }

    /// Asks the agent to write large bodies into a ring on this side from now on. If that cannot be, everything stays on TCP,
    /// and the transport says why. A connection that is made anew has the same transport or fails.
    ///
    /// # Errors
    /// [`ClientError`]: of TCP alone.
    pub fn use_bulk(&mut self, offers: Arc<dyn Connector>) -> Result<&Transport, ClientError> {
        self.transport = match self.open_transport(&*offers)? {
            Ok(transport) => {
                self.offers = Some(offers);
                transport
            }
            Err(reason) => Transport::Tcp {
                fallback: Some(reason),
            },
        };
        Ok(&self.transport)
    }

    /// The transport of large bodies.
    pub fn transport(&self) -> &Transport {
        &self.transport
    }

    /// Asks `interrupted` between frames, and several times a second while it waits for one, whether to end early.
    pub fn set_interrupted(&mut self, interrupted: fn() -> bool) {
        self.interrupted = interrupted;
        self.link.set_stop(interrupted);
    }

    /// Sets how long the agent may keep this side waiting.
    pub fn set_patience(&mut self, patience: Patience) {
        self.patience = patience;
    }

    /// Who is asked whether to end early.
    pub fn interrupted(&self) -> fn() -> bool {
        self.interrupted
    }

    /// Who answers.
    pub fn agent(&self) -> &AgentInfo {
        &self.welcome.agent
    }

    /// Bytes sent to the agent and received from it so far, frame headers included, whatever carried them.
    pub fn bytes(&self) -> (u64, u64) {
        let (sent, received) = self.link.bytes();
        (self.bytes_before.0 + sent, self.bytes_before.1 + received)
    }

    /// Those of them that came past TCP.
    pub fn bulk_bytes(&self) -> u64 {
        self.bulk_bytes_before + self.link.bulk_bytes().1
    }

    /// The tables of a data set.
    ///
    /// # Errors
    /// [`ClientError`], as all that follow.
    pub fn describe(&mut self, sf: f64) -> Result<Vec<TableInfo>, ClientError> {
        match self.ask(&Request::Describe { sf })? {
            Reply::Tables(tables) => {
                self.believe(claims::tables(&tables, sf))?;
                Ok(tables)
            }
            _ => Err(self.out_of_place()),
        }
    }

    /// A predicate that selects about this share of a table's rows, and the share that it selects exactly.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn pick(
        &mut self,
        sf: f64,
        table: &str,
        selectivity: f64,
    ) -> Result<(Predicate, f64), ClientError> {
        let request = Request::Pick {
            sf,
            table: table.to_owned(),
            selectivity,
        };
        match self.ask(&request)? {
            Reply::Predicate {
                predicate,
                selectivity,
            } => {
                self.believe(claims::picked(table, &predicate, selectivity))?;
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
        sf: f64,
        table: &str,
        format: FileFormat,
    ) -> Result<(), ClientError> {
        let request = Request::Cold {
            sf,
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

    /// Runs a scan; its batches go to `sink` as they arrive, those without rows aside. When `sink` breaks, the scan is stopped.
    ///
    /// A sink that keeps no part of a batch lets its memory be used for the next one.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn scan(
        &mut self,
        request: ScanRequest,
        sink: &mut dyn FnMut(&RecordBatch) -> ControlFlow<()>,
    ) -> Result<Scanned, ClientError> {
        let started_ns = self.link.clock().now_ns();
        let table_rows = self.table_rows(request.sf, &request.query.table);
        let arriving = Arriving::of(&request, table_rows);
        self.request(&Request::Scan(request))?;
        self.scan_frames(started_ns, arriving, sink)
            .map_err(|source| self.broke(source))
    }

    /// Fetches a file whole into `file`, from its start; says how many bytes it has, `bytes_max` at most.
    ///
    /// # Errors
    /// [`ClientError`]; among them a file that is longer than `bytes_max`, or than the agent announced.
    pub fn fetch(
        &mut self,
        sf: f64,
        table: &str,
        format: FileFormat,
        bytes_max: u64,
        file: &mut File,
    ) -> Result<u64, ClientError> {
        let request = Request::Fetch {
            sf,
            table: table.to_owned(),
            format,
        };
        let Reply::File { bytes } = self.ask(&request)? else {
            return Err(self.out_of_place());
        };
        if bytes > bytes_max {
            return Err(self.broke(WireError::Malformed(
                "a file longer than its table's description says",
            )));
        }
        let written = self
            .file_frames(bytes, file)
            .map_err(|source| self.broke(source))?;
        match written {
            Ok(()) => Ok(bytes),
            Err(error) => {
                self.hang_up();
                Err(ClientError::Write(error))
            }
        }
    }

    /// Receives a file of so many bytes. The inner error is that of writing it.
    fn file_frames(&mut self, bytes: u64, file: &mut File) -> Result<io::Result<()>, WireError> {
        let (mut due, mut pieces) = (bytes, 0);
        let mut buffer = vec![0; 1 << 20];
        loop {
            let header = next(&mut self.link)?;
            match header.tag {
                Tag::File if header.len == 0 => {
                    return Err(WireError::Malformed("an empty piece of a file"));
                }
                Tag::File => {
                    pieces += 1;
                    due = due
                        .checked_sub(header.len as u64)
                        .ok_or(WireError::Malformed("more of a file than was announced"))?;
                    let mut left = header.len;
                    while left > 0 {
                        let piece = left.min(buffer.len());
                        self.link.receive_exact(&mut buffer[..piece])?;
                        if let Err(error) = file.write_all(&buffer[..piece]) {
                            return Ok(Err(error));
                        }
                        left -= piece;
                    }
                }
                Tag::End => {
                    let end = protocol::decode(&self.link.receive_body(header)?)?;
                    if due > 0 {
                        return Err(WireError::Torn);
                    }
                    claims::fetched(&end, pieces, bytes)?;
                    return Ok(Ok(()));
                }
                tag => return Err(WireError::OutOfPlace(tag)),
            }
        }
    }

    fn scan_frames(
        &mut self,
        started_ns: u64,
        mut arriving: Arriving,
        sink: &mut dyn FnMut(&RecordBatch) -> ControlFlow<()>,
    ) -> Result<Scanned, WireError> {
        let header = next(&mut self.link)?;
        if header.tag != Tag::Schema {
            return Err(WireError::OutOfPlace(header.tag));
        }
        let schema = decode_schema(&self.link.receive_body(header)?)?;
        arriving.schema(&schema)?;
        let mut first_batch = None;
        let (mut stopped, mut bytes_since) = (false, 0);
        loop {
            let header = next(&mut self.link)?;
            match header.tag {
                Tag::Batch => {
                    let body = self.link.receive_large_body(header)?;
                    if stopped {
                        bytes_since += header.len;
                        if bytes_since > IN_FLIGHT_BYTES_MAX {
                            return Err(WireError::OutOfPlace(Tag::Batch));
                        }
                        self.link.give_back(body);
                        continue;
                    }
                    let batch = decode_batch(&body.slice_with_length(0, header.len), &schema)?;
                    arriving.batch(&batch, header.len)?;
                    if batch.num_rows() == 0 {
                        self.link.charge(EMPTY_BATCH)?;
                    } else {
                        first_batch.get_or_insert_with(|| self.link.since(started_ns));
                        stopped = sink(&batch).is_break();
                        if stopped {
                            self.link.send(Tag::Stop, &[])?;
                        }
                    }
                    drop(batch);
                    self.link.give_back(body);
                }
                Tag::End => {
                    let end = protocol::decode(&self.link.receive_body(header)?)?;
                    arriving.end(&end, stopped)?;
                    let first_batch = first_batch.unwrap_or_else(|| self.link.since(started_ns));
                    return Ok(Scanned {
                        schema,
                        end,
                        first_batch,
                    });
                }
                tag => return Err(WireError::OutOfPlace(tag)),
            }
        }
    }

    /// Sends a request and reads its one reply.
    fn ask(&mut self, request: &Request) -> Result<Reply, ClientError> {
        self.request(request)?;
        answer(&mut self.link).map_err(|source| self.broke(source))
    }

    /// Opens a transport on the connection that there is, or says why it cannot be.
    fn open_transport(
        &mut self,
        offers: &dyn Connector,
    ) -> Result<Result<Transport, String>, ClientError> {
        if self.link_bits_per_s != 0 {
            return Ok(Err("the link has a pace, and only TCP keeps it".to_owned()));
        }
        if self.welcome.capabilities & protocol::CAPABILITY_BULK == 0 {
            let version = &self.agent().dpb_version;
            return Ok(Err(format!(
                "the agent's dpb {version} knows no transport but TCP: install this one there"
            )));
        }
        let (words, offer) = match offers.offer() {
            Ok(made) => made,
            Err(reason) => return Ok(Err(reason)),
        };
        self.link.set_deadline(Some(TRANSPORT_PATIENCE));
        let request = protocol::encode(&Request::Bulk { offer: words });
        let sent = self.link.send(Tag::Request, &request);
        let told = sent.and_then(|()| answer(&mut self.link));
        self.link.set_deadline(None);
        let words = match told.map_err(|source| self.broke(source))? {
            Reply::Bulk(Ok(words)) => words,
            Reply::Bulk(Err(reason)) => {
                let reason = printable(&reason, WORDS_MAX);
                return Ok(Err(format!("at the agent: {reason}")));
            }
            _ => return Err(self.out_of_place()),
        };
        match offer.open(&words) {
            Ok(Connected {
                reader,
                name,
                emulated_by,
            }) => {
                self.link.set_reader(reader);
                Ok(Ok(Transport::Ring { name, emulated_by }))
            }
            Err(reason) => {
                // The agent would write all the same.
                self.hang_up();
                self.reopen()?;
                Ok(Err(reason))
            }
        }
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
        let Patience {
            silence,
            rows_per_s,
        } = self.patience;
        let (at_a_time, in_all) = match request {
            Request::Scan(ScanRequest { sf, query, .. }) => {
                let rows = self.table_rows(*sf, &query.table);
                (silence, silence + work(rows, rows_per_s))
            }
            Request::Pick { sf, table, .. } | Request::Cold { sf, table, .. } => {
                let rows = self.table_rows(*sf, table);
                let in_all = silence + work(rows, rows_per_s) / 100;
                (in_all, in_all)
            }
            _ => (silence, silence),
        };
        self.link.grant(at_a_time, in_all);
    }

    /// Rows of a table that dpb makes, at most; 0 for any other.
    fn table_rows(&mut self, sf: f64, table: &str) -> u64 {
        let name = (sf.to_bits(), table.to_owned());
        *self.table_rows.entry(name).or_insert_with(|| {
            let made = tpch::row_count(table, sf);
            made.map_or(0, |made| *made.end())
        })
    }

    /// Ends the conversation with an agent whose words cannot be.
    fn believe(&self, claim: Result<(), WireError>) -> Result<(), ClientError> {
        claim.map_err(|source| self.broke(source))
    }

    /// A new connection to the same agent, with the same transport for large bodies.
    fn connect_anew(&mut self) -> Result<(), ClientError> {
        self.reopen()?;
        let Some(offers) = self.offers.clone() else {
            return Ok(());
        };
        let reason = match self.open_transport(&*offers)? {
            Ok(transport) if transport == self.transport => return Ok(()),
            Ok(transport) => format!("they would come by {} now", transport.name()),
            Err(reason) => reason,
        };
        Err(self.broke(WireError::Bulk(reason)))
    }

    /// A new connection to the same agent.
    fn reopen(&mut self) -> Result<(), ClientError> {
        let opened = open(
            &self.address,
            &self.token,
            self.link_bits_per_s,
            self.capabilities,
        );
        let (mut link, welcome) = opened.map_err(|error| match error {
            // It was there before.
            ClientError::Unreachable { address, .. } => wrong(&address, WireError::Closed),
            other => other,
        })?;
        if welcome.agent != self.welcome.agent {
            let address = self.address.clone();
            return Err(ClientError::Replaced { address });
        }
        link.set_stop(self.interrupted);
        (self.bytes_before, self.bulk_bytes_before) = (self.bytes(), self.bulk_bytes());
        self.link = link;
        Ok(())
    }

    fn out_of_place(&self) -> ClientError {
        self.broke(WireError::OutOfPlace(Tag::Reply))
    }

    /// What an exchange that failed is told as. Unless the agent refused in its place, the connection ends.
    fn broke(&self, source: WireError) -> ClientError {
        if !matches!(source, WireError::Refused { .. }) {
            self.hang_up();
            if (self.interrupted)() {
                return ClientError::Interrupted;
            }
        }
        wrong(&self.address, source)
    }

    fn hang_up(&self) {
        // An agent that has hung up too needs no word.
        let _ = self.link.stream().shutdown(Shutdown::Both);
    }
}

/// Connects and shakes hands.
fn open(
    address: &str,
    token: &[u8],
    link_bits_per_s: u64,
    capabilities: u64,
) -> Result<(Link, Welcome), ClientError> {
    let wrong = |source| wrong(address, source);
    let stream = dial(address)?;
    let clock = Arc::new(WallClock::default());
    let mut link =
        Link::new(stream, link_bits_per_s, clock).map_err(|e| wrong(WireError::Io(e)))?;
    let hello = Hello {
        version: protocol::VERSION,
        capabilities,
        link_bits_per_s,
        token: token.to_vec(),
    };
    link.send(Tag::Hello, &hello.to_bytes()).map_err(wrong)?;
    link.set_deadline(Some(WELCOME_PATIENCE));
    let header = expect(&mut link, Tag::Welcome).map_err(wrong)?;
    let body = link.receive_body(header).map_err(wrong)?;
    let mut welcome = Welcome::parse(&body).map_err(wrong)?;
    make_printable(&mut welcome.agent);
    link.set_deadline(None);
    Ok((link, welcome))
}

/// What an agent says of itself is shown and recorded.
fn make_printable(agent: &mut AgentInfo) {
    let AgentInfo {
        dpb_version,
        cpu_model,
        host,
        backend,
        emulated_by,
        duckdb: Ok(duckdb) | Err(duckdb),
        ..
    } = agent;
    let always = [dpb_version, cpu_model, host, backend, duckdb];
    for words in always.into_iter().chain(emulated_by) {
        *words = printable(words, WORDS_MAX);
    }
}

/// How long this takes at so many rows a second.
fn work(rows: u64, rows_per_s: u32) -> Duration {
    Duration::from_secs(rows) / rows_per_s.max(1)
}

/// What to do about a refusal whose words do not say it.
fn remedy(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::Damaged => {
            "; on the agent's machine `dpb data --remove` removes the table, and `dpb data` makes it anew"
        }
        _ => "",
    }
}

/// The next frame's header; an error frame becomes its error.
fn next(link: &mut Link) -> Result<Header, WireError> {
    let header = link.receive_header()?.ok_or(WireError::Closed)?;
    if header.tag == Tag::Error {
        let body = link.receive_body(header)?;
        return Err(protocol::parse_refusal(&body));
    }
    Ok(header)
}

/// The one reply to a request.
fn answer(link: &mut Link) -> Result<Reply, WireError> {
    let header = expect(link, Tag::Reply)?;
    protocol::decode(&link.receive_body(header)?)
}

fn expect(link: &mut Link, tag: Tag) -> Result<Header, WireError> {
    let header = next(link)?;
    if header.tag == tag {
        Ok(header)
    } else {
        Err(WireError::OutOfPlace(header.tag))
    }
}

fn dial(address: &str) -> Result<TcpStream, ClientError> {
    let unreachable = |source| ClientError::Unreachable {
        address: address.to_owned(),
        source,
    };
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in address.to_socket_addrs().map_err(unreachable)? {
        match TcpStream::connect_timeout(&address, CONNECT_PATIENCE) {
            Ok(stream) => return Ok(stream),
            Err(e) => last = e,
        }
    }
    Err(unreachable(last))
}

fn wrong(address: &str, source: WireError) -> ClientError {
    let address = address.to_owned();
    match source {
        WireError::Refused { refusal, text } => ClientError::Refused {
            address,
            refusal,
            text,
        },
        source => ClientError::Wire { address, source },
    }
}

#[cfg(test)]
mod tests;
