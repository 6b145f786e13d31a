//! A connection to an index at an agent: bursts are sent ahead, and their outcomes taken in order.

use std::collections::VecDeque;
use std::time::Duration;

use dpb_link::{Connect, ConnectError, Link, LinkError, Refusal, decode, encode};

use super::burst::{Burst, Outcome};
use super::kind::Plan;
use super::protocol::{self, BURST, IndexId, OUTCOME, REPLY, REQUEST, RemoteUsage, Reply, Request};

/// Bytes of outcomes that may be on their way when a further burst is sent. A socket's buffer takes them, so that the agent is never kept from reading the next
/// burst: with more, both sides could wait for each other to read.
const AHEAD_BYTES_MAX: usize = 128 << 10;

/// Why an index at an agent could not be used.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// No connection came about.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The agent refused, or the connection broke.
    #[error("the index at {address}: {source}")]
    Link {
        /// The agent's address.
        address: String,
        /// What happened.
        source: LinkError,
    },
}

impl RemoteError {
    /// True if the connection can be used no more. Some refusals leave it as it was.
    pub fn is_broken(&self) -> bool {
        let Self::Link {
            source: LinkError::Refused { refusal, .. },
            ..
        } = self
        else {
            return true;
        };
        // Those with which an agent ends the connection.
        matches!(
            refusal,
            Refusal::Protocol | Refusal::Version | Refusal::Token | Refusal::Credentials
        )
    }
}

/// A connection that has joined an index.
pub struct Remote {
    link: Link,
    address: String,
    id: IndexId,
    threads: u32,
    /// The time that an outcome may take.
    patience: Duration,
    /// The most bytes of each outcome that is on its way.
    ahead: VecDeque<usize>,
    ahead_bytes: usize,
    body: Vec<u8>,
}

impl Remote {
    /// Connects and makes an index. An answer may take `patience`.
    ///
    /// # Errors
    /// [`RemoteError`].
    pub fn make(connect: &Connect, plan: Plan, patience: Duration) -> Result<Self, RemoteError> {
        Self::open(connect, &Request::Make(plan), patience)
    }

    /// Connects and joins the index of another connection.
    ///
    /// # Errors
    /// [`RemoteError`].
    pub fn join(connect: &Connect, id: IndexId, patience: Duration) -> Result<Self, RemoteError> {
        Self::open(connect, &Request::Join(id), patience)
    }

    fn open(connect: &Connect, request: &Request, patience: Duration) -> Result<Self, RemoteError> {
        let address = connect.address.clone();
        let session = connect.session()?;
        let opened = session.open(protocol::NAME, protocol::VERSION, protocol::TAGS);
        let link = opened.map_err(|source| RemoteError::Link {
            address: address.clone(),
            source,
        })?;
        let mut remote = Self {
            link,
            address,
            id: IndexId(0),
            threads: 0,
            patience,
            ahead: VecDeque::new(),
            ahead_bytes: 0,
            body: Vec::new(),
        };
        match remote.ask(request)? {
            Reply::Joined { id, threads, .. } => {
                (remote.id, remote.threads) = (id, threads);
                Ok(remote)
            }
            _ => Err(remote.wrong(LinkError::OutOfPlace(REPLY))),
        }
    }

    /// The index.
    pub fn id(&self) -> IndexId {
        self.id
    }

    /// Threads of the agent that work on bursts at once.
    pub fn threads(&self) -> u32 {
        self.threads
    }

    /// Bursts whose outcomes have not been taken.
    pub fn in_flight(&self) -> usize {
        self.ahead.len()
    }

    /// True if `burst` may be sent now, as its outcome finds room beside those that are on their way.
    pub fn has_room(&self, burst: &Burst) -> bool {
        self.ahead.is_empty() || self.ahead_bytes + burst.outcome_bytes_max() <= AHEAD_BYTES_MAX
    }

    /// True if the next outcome has begun to arrive, or the agent is gone.
    pub fn stirs(&self) -> bool {
        self.link.peer_stirs()
    }

    /// Bytes sent and received.
    pub fn bytes(&self) -> (u64, u64) {
        self.link.bytes()
    }

    /// Sends a burst. [`Remote::has_room`] must have said that it may go.
    ///
    /// # Errors
    /// [`RemoteError`]. The burst may have been carried out all the same.
    pub fn send(&mut self, burst: &Burst) -> Result<(), RemoteError> {
        debug_assert!(self.has_room(burst));
        self.body.clear();
        burst.write_to(&mut self.body);
        let sent = self.link.send(BURST, &self.body);
        sent.map_err(|source| self.wrong(source))?;
        let bytes = burst.outcome_bytes_max();
        self.ahead.push_back(bytes);
        self.ahead_bytes += bytes;
        Ok(())
    }

    /// Waits for the outcome of the oldest burst, which is `burst`. Gives the time that it took to take it from the first byte on, nanoseconds.
    ///
    /// # Errors
    /// [`RemoteError`]. A burst that was refused has no outcome, and the next one is the oldest then. Lookups and scans of it are not answered; its writes were
    /// done or not, as [`Executor::run`](super::burst::Executor::run) says.
    pub fn receive(&mut self, burst: &Burst, outcome: &mut Outcome) -> Result<u64, RemoteError> {
        self.ahead_bytes -= self.ahead.pop_front().unwrap_or(0);
        self.link.set_deadline(Some(self.patience));
        let received = self.link.receive_answer_of(OUTCOME).and_then(|header| {
            let begun_ns = self.link.clock().now_ns();
            self.body.resize(header.len, 0);
            self.link.receive_exact(&mut self.body)?;
            outcome.read_from(burst, &self.body)?;
            Ok(self.link.clock().now_ns().saturating_sub(begun_ns))
        });
        received.map_err(|source| self.wrong(source))
    }

    /// Asks something. Nothing may be in flight.
    ///
    /// # Errors
    /// [`RemoteError`].
    pub fn ask(&mut self, request: &Request) -> Result<Reply, RemoteError> {
        assert!(self.ahead.is_empty(), "outcomes are to be taken before");
        self.link.set_deadline(Some(self.patience));
        let sent = self.link.send(REQUEST, &encode(request));
        let told = sent.and_then(|()| {
            let header = self.link.receive_answer_of(REPLY)?;
            decode(&self.link.receive_body(header)?)
        });
        told.map_err(|source| self.wrong(source))
    }

    /// What the index holds, and what the agent's process has used.
    ///
    /// # Errors
    /// [`RemoteError`].
    pub fn usage(&mut self) -> Result<RemoteUsage, RemoteError> {
        match self.ask(&Request::Usage)? {
            Reply::Usage(usage) => Ok(usage),
            _ => Err(self.wrong(LinkError::OutOfPlace(REPLY))),
        }
    }

    /// Takes all keys from `start` to before `end` away.
    ///
    /// # Errors
    /// [`RemoteError`].
    pub fn delete_range(&mut self, start: &[u8], end: Option<&[u8]>) -> Result<u64, RemoteError> {
        let request = Request::DeleteRange {
            start: start.to_vec(),
            end: end.map(<[u8]>::to_vec),
            limit: DELETED_AT_ONCE,
        };
        let mut all = 0;
        loop {
            match self.ask(&request)? {
                Reply::Deleted(keys) => {
                    all += u64::from(keys);
                    if keys < DELETED_AT_ONCE {
                        return Ok(all);
                    }
                }
                _ => return Err(self.wrong(LinkError::OutOfPlace(REPLY))),
            }
        }
    }

    fn wrong(&self, source: LinkError) -> RemoteError {
        RemoteError::Link {
            address: self.address.clone(),
            source,
        }
    }
}

/// Keys that one transaction takes away.
pub(super) const DELETED_AT_ONCE: u32 = 4096;
