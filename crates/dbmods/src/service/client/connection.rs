//! Connections: made, made anew, and the transport beside TCP that one may have.

use std::sync::Arc;
use std::time::Duration;

use dpb_core::printable;
use dpb_link::bulk::{Connected, Connector, Transport};
use dpb_link::{Connect, ConnectError, Link, LinkError};

use super::Client;
use super::error::{ClientError, wrong};
use crate::service::protocol::{self, AgentInfo, Description, Reply, Request, Tag};

/// Characters of what an agent says of itself that are kept.
const WORDS_MAX: usize = 1000;
/// The time that an agent may take to say what it can do: it may have to load DuckDB first.
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
        if self.connect.link_bits_per_s != 0 {
            return Ok(Err("the link has a pace, and only TCP keeps it".to_owned()));
        }
        if self.agent_capabilities & protocol::CAPABILITY_BULK == 0 {
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
                self.link.hang_up();
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
        Err(self.broke(LinkError::Bulk(reason)))
    }

    /// A new connection to the same agent.
    fn reopen(&mut self) -> Result<(), ClientError> {
        let opened = open(&self.connect, self.capabilities);
        let opened = opened.map_err(|error| match error {
            // It was there before.
            ClientError::Unreachable { address, .. } => wrong(&address, LinkError::Closed),
            other => other,
        })?;
        if opened.agent != self.agent {
            let address = self.connect.address.clone();
            return Err(ClientError::Replaced { address });
        }
        (self.bytes_before, self.bulk_bytes_before) = (self.bytes(), self.bulk_bytes());
        self.link = opened.link;
        Ok(())
    }
}

/// A connection on which the service is open, and what is known of the agent.
pub(super) struct Opened {
    pub(super) link: Link,
    pub(super) capabilities: u64,
    pub(super) agent: AgentInfo,
}

/// Connects, opens the service, and asks what the agent can do of `wanted`.
pub(super) fn open(connect: &Connect, wanted: u64) -> Result<Opened, ClientError> {
    let wrong = |source| wrong(&connect.address, source);
    let session = connect.session().map_err(not_connected)?;
    let description = session.agent().clone();
    let offers = session.services().iter();
    let offer = offers.clone().find(|offer| {
        (offer.name.as_str(), offer.version) == (protocol::SERVICE, protocol::VERSION)
    });
    let offer = offer.cloned();
    // An agent without it, or with another version, says so.
    let mut link = session
        .open(protocol::SERVICE, protocol::VERSION, protocol::TAGS)
        .map_err(wrong)?;
    let offer = offer.ok_or(LinkError::Malformed("a service that was not offered"));
    let service: Description = offer
        .and_then(|offer| protocol::decode(&offer.description))
        .map_err(wrong)?;
    link.set_deadline(Some(WELCOME_PATIENCE));
    let asked = link.send(
        Tag::Request,
        &protocol::encode(&Request::Capabilities { wanted }),
    );
    let told = asked.and_then(|()| answer(&mut link)).map_err(wrong)?;
    link.set_deadline(None);
    let Reply::Capabilities {
        capabilities,
        duckdb,
    } = told
    else {
        return Err(wrong(LinkError::OutOfPlace(Tag::Reply.into())));
    };
    let mut agent = AgentInfo::new(&description, service, duckdb);
    make_printable(&mut agent);
    Ok(Opened {
        link,
        capabilities,
        agent,
    })
}

/// Why there is no session, as the client's error.
fn not_connected(error: ConnectError) -> ClientError {
    match error {
        ConnectError::Unreachable { address, source } => {
            ClientError::Unreachable { address, source }
        }
        ConnectError::Link { address, source } => wrong(&address, source),
        error @ ConnectError::Unprotected { .. } => ClientError::Unprotected(error),
    }
}

/// The one reply to a request.
pub(super) fn answer(link: &mut Link) -> Result<Reply, LinkError> {
    let header = link.receive_answer_of(Tag::Reply)?;
    protocol::decode(&link.receive_body(header)?)
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
