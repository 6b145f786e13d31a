//! TCP between two machines, or over loopback: round trips, one-way throughput, and the CPU time of both ends (dpBento, "network").
//!
//! A [`Server`] waits for clients and serves them one after the other. A client ([`measure()`]) opens one control connection, on which both agree what is
//! done ([`protocol`]), and as many data connections as the [`Plan`] says. Each data connection has a thread of its own at both ends.
//! A test is a warm-up and so many runs on the same connections. Every message has a number and a pattern that the seed gives, and whoever
//! receives it compares all of it.

mod client;
mod flow;
mod message;
pub mod protocol;
mod server;
mod wire;

use std::fmt;
use std::time::Duration;

use dpb_core::measure::Interference;
use dpb_core::measure::latency::Latencies;

pub use client::{Target, measure};
pub use server::{BindError, Server, ServerOptions};
pub use wire::usable;

/// Bytes that a message may have: its number takes the first eight.
pub const MESSAGE_BYTES: std::ops::RangeInclusive<u64> = 8..=16 << 20;
/// The most messages in flight on a connection.
pub const DEPTH_MAX: u64 = 65_536;
/// The most connections of a test.
pub const CONNECTIONS_MAX: u64 = 256;
/// The longest run.
pub const RUN_MAX: Duration = Duration::from_secs(3600);
/// The most memory of either end.
pub const MEMORY_BYTES_MAX: u64 = 2 << 30;
/// How long a step of the conversation may take, unless told otherwise.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// The messages that are received with one call are at most so many bytes, or one message.
const RECEIVE_BYTES: usize = 128 << 10;

/// Which way messages go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To the server and back: round trips.
    Echo,
    /// From the client to the server.
    Send,
    /// From the server to the client.
    Receive,
}

/// Which interface of the kernel moves the bytes, at both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// `send(2)` and `recv(2)` on blocking sockets.
    Sockets,
    /// Sends and receives through a ring of each thread's own.
    IoUring,
}

/// Who decides when a message starts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    /// A message starts when another has come back; of one way, as fast as the kernel takes them.
    Closed,
    /// Messages start by a seeded schedule, whatever the server does.
    Open {
        /// Messages a second over all connections; the gaps are exponential.
        messages_per_s: f64,
    },
}

/// A test: one value for every parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Bytes of a message.
    pub size_bytes: u64,
    /// Messages in flight on a connection; of one way, messages that one call hands to the kernel.
    pub depth: u64,
    /// Connections, each with a thread at both ends.
    pub connections: u64,
    /// Which way messages go.
    pub direction: Direction,
    /// What moves the bytes.
    pub engine: Engine,
    /// Who decides when a message starts.
    pub load: Load,
    /// Whether small segments are sent at once (`TCP_NODELAY`).
    pub nodelay: bool,
    /// Bytes of each socket's send and receive buffer; `None` for the kernel's own choice.
    pub buffer_bytes: Option<u64>,
    /// How long a run takes.
    pub run: Duration,
    /// How long the connections work before the first run.
    pub warm_up: Duration,
    /// The number of runs.
    pub repeat: u32,
    /// Cores for the client's threads, in order, used again from the start if there are fewer; empty: wherever the kernel likes.
    pub pin: Vec<u32>,
    /// The seed of the patterns and of the schedule.
    pub seed: u64,
}

impl Plan {
    /// Messages of a ring: new ones are written beside those that an engine is still sending, though they were answered already.
    fn slots(&self) -> usize {
        2 * self.depth as usize
    }

    fn size(&self) -> usize {
        self.size_bytes as usize
    }

    /// Bytes that one receive may bring: whole messages.
    fn receive_bytes(&self) -> usize {
        let size = self.size();
        (RECEIVE_BYTES / size).max(1) * size
    }

    /// Memory that one end takes: a ring and its pattern, and what is received, on each connection.
    pub fn memory_bytes(&self) -> u64 {
        let ring = self.slots() as u64 * self.size_bytes;
        self.connections * (2 * ring + self.receive_bytes() as u64)
    }

    /// Whether the plan makes sense.
    ///
    /// # Errors
    /// A sentence that names what does not.
    pub fn check(&self) -> Result<(), String> {
        let (least, most) = MESSAGE_BYTES.into_inner();
        if !MESSAGE_BYTES.contains(&self.size_bytes) {
            return Err(format!(
                "messages of {} bytes: they have {least} (their number) to {most}",
                self.size_bytes
            ));
        }
        if !(1..=DEPTH_MAX).contains(&self.depth) {
            return Err(format!("a depth of {}: 1 to {DEPTH_MAX}", self.depth));
        }
        if !(1..=CONNECTIONS_MAX).contains(&self.connections) {
            return Err(format!(
                "{} connections: 1 to {CONNECTIONS_MAX}",
                self.connections
            ));
        }
        if self.memory_bytes() > MEMORY_BYTES_MAX {
            return Err(format!(
                "{} connections with {} messages of {} bytes in flight take {} bytes at each end, of {MEMORY_BYTES_MAX} at most; lower one of them",
                self.connections,
                self.depth,
                self.size_bytes,
                self.memory_bytes()
            ));
        }
        if self.run > RUN_MAX || self.warm_up > RUN_MAX {
            return Err("a run takes an hour at most".to_owned());
        }
        if self.direction != Direction::Echo && self.load != Load::Closed {
            return Err("an open loop needs round trips: --direction echo".to_owned());
        }
        Ok(())
    }
}

/// Why there are no figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The plan makes no sense.
    Plan(String),
    /// The server cannot be reached, or takes no client.
    Unreachable(String),
    /// This machine or the server's has no such engine, or too little memory.
    Unavailable(String),
    /// The conversation broke.
    Broken(String),
    /// A message was not what was sent.
    Wrong(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Plan(why)
        | Self::Unreachable(why)
        | Self::Unavailable(why)
        | Self::Broken(why)
        | Self::Wrong(why)) = self;
        f.write_str(why)
    }
}

impl std::error::Error for Failure {}

/// The figures of a test. Every message behind them was compared whole by who received it.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The runs that were finished, the warm-up not among them.
    pub runs: Vec<Run>,
    /// Somebody wanted the work to end before the last.
    pub interrupted: bool,
    /// What else happened on the client's cores while the runs lasted; its wait for cores has the server's threads too.
    pub interference: Interference,
    /// The server.
    pub server: protocol::Machine,
    /// The connections' ends: whether they lie on one machine, and by what interface the client reaches the server.
    pub link: Link,
}

/// The way to the server, as the kernel's tables have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Link {
    /// Both ends are of this machine.
    Loopback,
    /// An interface without a device: a pair of namespaces, a bridge, a tunnel.
    Virtual(String),
    /// The interface of a device.
    Device(String),
    /// The tables do not say.
    Unknown,
}

/// One run, over all connections.
#[derive(Clone, Debug)]
pub struct Run {
    /// Messages that arrived where they were to go: back at the client, or at the receiver.
    pub messages: u64,
    /// The time from the first start to the last arrival, by the clock of who counted the messages.
    pub elapsed_ns: u64,
    /// Bytes that the client sent.
    pub sent_bytes: u64,
    /// Bytes that the client received.
    pub received_bytes: u64,
    /// Round-trip times; empty of one way.
    pub latencies: Latencies,
    /// Their sum.
    pub latency_sum_ns: u64,
    /// The delays of messages behind their intended starts; empty in a closed loop.
    pub delays: Latencies,
    /// Arrivals that were due and never started, because the connections were full; they count in `latencies` with what they had waited.
    pub unserved: u64,
    /// CPU time of the client's threads.
    pub client_cpu_ns: u64,
    /// CPU time of the server's threads.
    pub server_cpu_ns: u64,
    /// Segments that either end sent again; `None` where the kernel does not say.
    pub retransmissions: Option<u64>,
}

#[cfg(test)]
mod tests;
