//! The compute side of a connection to an agent.

use std::fs::File;
use std::io::{self, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use super::link::Link;
use super::query::Predicate;
use super::wire::batch::{decode_batch, decode_schema};
use super::wire::{
    self, AgentInfo, End, FileFormat, Header, Hello, Refusal, Reply, Request, ScanRequest,
    TableInfo, Tag, Usage, Welcome, WireError,
};

/// How long an agent may take to accept and to welcome.
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);

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
    #[error("the agent at {address} refused: {text}")]
    Refused {
        /// Where.
        address: String,
        /// The agent's code.
        refusal: Refusal,
        /// The agent's words.
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
    /// A signal asked to end.
    #[error("interrupted")]
    Interrupted,
    /// What was received cannot be written.
    #[error("cannot write what was fetched: {0}")]
    Write(io::Error),
}

/// A connection to an agent, one request at a time.
#[derive(Debug)]
pub struct Client {
    link: Link,
    address: String,
    welcome: Welcome,
    interrupted: fn() -> bool,
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
        let wrong = |source| wrong(address, source);
        let stream = dial(address)?;
        let mut link = Link::new(stream, link_bits_per_s).map_err(|e| wrong(WireError::Io(e)))?;
        link.set_deadline(Some(Instant::now() + CONNECT_PATIENCE));
        let hello = Hello {
            version: wire::VERSION,
            capabilities: wire::CAPABILITY_DUCKDB | wire::CAPABILITY_FETCH,
            link_bits_per_s,
            token: token.to_vec(),
        };
        link.send(Tag::Hello, &hello.to_bytes()).map_err(wrong)?;
        let header = expect(&mut link, Tag::Welcome).map_err(wrong)?;
        let body = link.receive_body(header).map_err(wrong)?;
        let welcome = Welcome::parse(&body).map_err(wrong)?;
        link.set_deadline(None);
        Ok(Self {
            link,
            address: address.to_owned(),
            welcome,
            interrupted: || false,
        })
    }

    /// Asks `interrupted` between frames whether to end early; a scan or fetch that it ends leaves this connection useless.
    pub fn set_interrupted(&mut self, interrupted: fn() -> bool) {
        self.interrupted = interrupted;
    }

    /// Who answers.
    pub fn agent(&self) -> &AgentInfo {
        &self.welcome.agent
    }

    /// Bytes sent and received on this connection so far, frame headers included.
    pub fn bytes(&self) -> (u64, u64) {
        self.link.bytes()
    }

    /// The tables of a data set.
    ///
    /// # Errors
    /// [`ClientError`], as all that follow.
    pub fn describe(&mut self, sf: f64) -> Result<Vec<TableInfo>, ClientError> {
        match self.ask(&Request::Describe { sf })? {
            Reply::Tables(tables) => Ok(tables),
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
            } => Ok((predicate, selectivity)),
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
            Reply::Usage(usage) => Ok(usage),
            _ => Err(self.out_of_place()),
        }
    }

    /// Runs a scan; its batches go to `sink` as they arrive. When `sink` breaks, the scan is stopped.
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
        let address = self.address.clone();
        let interrupted = self.interrupted;
        let mut ended = false;
        let scanned = self.scan_frames(request, &mut |batch| {
            ended |= interrupted();
            match ended {
                true => ControlFlow::Break(()),
                false => sink(batch),
            }
        });
        match scanned {
            _ if ended => Err(ClientError::Interrupted),
            scanned => scanned.map_err(|source| wrong(&address, source)),
        }
    }

    /// Fetches a file whole into `file`, from its start; says how many bytes it has.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn fetch(
        &mut self,
        sf: f64,
        table: &str,
        format: FileFormat,
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
        let address = self.address.clone();
        let wrong = |source| wrong(&address, source);
        let mut got = 0;
        let mut buffer = vec![0; 1 << 20];
        loop {
            if (self.interrupted)() {
                return Err(ClientError::Interrupted);
            }
            let header = self.next().map_err(wrong)?;
            match header.tag {
                Tag::File => {
                    let mut left = header.len;
                    while left > 0 {
                        let piece = left.min(buffer.len());
                        self.link
                            .receive_exact(&mut buffer[..piece])
                            .map_err(wrong)?;
                        file.write_all(&buffer[..piece])
                            .map_err(ClientError::Write)?;
                        left -= piece;
                    }
                    got += header.len as u64;
                }
                Tag::End => {
                    let body = self.link.receive_body(header).map_err(wrong)?;
                    wire::decode::<End>(&body).map_err(wrong)?;
                    break;
                }
                tag => return Err(wrong(WireError::OutOfPlace(tag))),
            }
        }
        if got == bytes {
            Ok(bytes)
        } else {
            Err(wrong(WireError::Torn))
        }
    }

    fn scan_frames(
        &mut self,
        request: ScanRequest,
        sink: &mut dyn FnMut(&RecordBatch) -> ControlFlow<()>,
    ) -> Result<Scanned, WireError> {
        let started = Instant::now();
        self.link
            .send(Tag::Request, &wire::encode(&Request::Scan(request)))?;
        let header = self.next()?;
        if header.tag != Tag::Schema {
            return Err(WireError::OutOfPlace(header.tag));
        }
        let schema = decode_schema(&self.link.receive_body(header)?)?;
        let mut first_batch = None;
        let mut stopped = false;
        loop {
            let header = self.next()?;
            match header.tag {
                Tag::Batch => {
                    let body = self.link.receive_large_body(header)?;
                    if !stopped {
                        let batch = decode_batch(&body.slice_with_length(0, header.len), &schema)?;
                        first_batch.get_or_insert_with(|| started.elapsed());
                        stopped = sink(&batch).is_break();
                        if stopped {
                            self.link.send(Tag::Stop, &[])?;
                        }
                    }
                    self.link.give_back(body);
                }
                Tag::End => {
                    let end = wire::decode(&self.link.receive_body(header)?)?;
                    let first_batch = first_batch.unwrap_or_else(|| started.elapsed());
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
        let address = self.address.clone();
        let mut exchange = || {
            self.link.send(Tag::Request, &wire::encode(request))?;
            let header = expect(&mut self.link, Tag::Reply)?;
            wire::decode(&self.link.receive_body(header)?)
        };
        exchange().map_err(|source| wrong(&address, source))
    }

    fn next(&mut self) -> Result<Header, WireError> {
        next(&mut self.link)
    }

    fn out_of_place(&self) -> ClientError {
        wrong(&self.address, WireError::OutOfPlace(Tag::Reply))
    }
}

/// The next frame's header; an error frame becomes its error.
fn next(link: &mut Link) -> Result<Header, WireError> {
    let header = link.receive_header()?.ok_or(WireError::Closed)?;
    if header.tag == Tag::Error {
        let body = link.receive_body(header)?;
        return Err(wire::parse_refusal(&body));
    }
    Ok(header)
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
