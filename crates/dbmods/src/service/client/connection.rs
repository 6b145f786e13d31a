//! Connections: made, made anew, and the transport beside TCP that one may have.

use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use dpb_core::{WallClock, printable};

use super::Client;
use super::error::{ClientError, wrong};
use super::frames::{answer, expect};
use crate::service::bulk::{Connected, Connector, Transport};
use crate::service::link::Link;
use crate::service::protocol::{self, AgentInfo, Hello, Reply, Request, Tag, Welcome, WireError};

/// Characters of what an agent says of itself that are kept.
const WORDS_MAX: usize = 1000;
/// The time that an agent may take to accept.
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);
/// The time that it may take to welcome: it may have to load DuckDB first.
const WELCOME_PATIENCE: Duration = Duration::from_secs(15);
/// The time that it may take to open a transport beside TCP: its device may have to find the one on this side first.
const TRANSPORT_PATIENCE: Duration = Duration::from_secs(15);

impl Client {
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

    /// A new connection to the same agent, with the same transport for large bodies.
    pub(super) fn connect_anew(&mut self) -> Result<(), ClientError> {
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
}

/// Connects and shakes hands.
pub(super) fn open(
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

/// Makes an agent's description fit to be shown and recorded.
pub(super) fn make_printable(agent: &mut AgentInfo) {
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
