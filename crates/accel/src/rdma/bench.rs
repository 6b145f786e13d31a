//! Latency and bandwidth of a connection, by perftest's method: the same loops, the same defaults, the same exchange over TCP.
//! So each side may be one of perftest's programs (6.06, as of Debian's 4.5+0.17; any from 5.70 on says that it agrees).
//!
//! | | latency | bandwidth |
//! |---|---|---|
//! | read | stamp, post, poll until it is done; the client measures | `depth` in flight; the client measures |
//! | write | ping-pong: each side waits for the last byte of its memory to change; half of the way there and back; both measure | as for read |
//! | send | ping-pong by receives; half; both measure | as for read; the server also measures, from its first message on |
//!
//! What is different: **every sample is kept**, and [`Latency::summary`] leaves none out. perftest leaves out the two highest,
//! calls the second highest the maximum, and cuts deviations to whole microseconds; [`perftest`] prints its columns by its own
//! rules, for who compares with it.
//!
//! A side that waits gives up: after ten seconds without a completion, when its port goes down, when its peer closes the connection
//! over which both talk. A peer whose machine is gone without a word is waited for as long as the port is up.

mod exchange;
mod figures;
mod loops;
pub mod perftest;
mod session;

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use dpb_core::Timer;

pub use exchange::Report;
pub use figures::{Bandwidth, Latency, Summary};

use super::port::Problem;
use super::raw::{Refused, VerbsError};

/// The verb that crosses the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// The client reads the server's memory.
    Read,
    /// The client writes to it; for latency both write.
    Write,
    /// Messages into receives that are posted.
    Send,
}

/// The quantity that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// One request at a time.
    Latency,
    /// Many in flight.
    Bandwidth,
}

/// The part of this side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// Waits for one client at this address.
    Server(IpAddr),
    /// Goes to the server on this host.
    Client(String),
}

/// A measurement. Both sides must have the same, but for the device and its GID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeasurementPlan {
    /// The device's name, as `ibv_devices` lists it.
    pub device: String,
    /// The quantity that is measured.
    pub method: Method,
    /// The verb that crosses the wire.
    pub verb: Verb,
    /// Bytes of a message, ascending. perftest's `-a` is 2, 4, 8 … 2^23; another list is not known to it, but for one size.
    pub sizes: Vec<u32>,
    /// Requests in flight of a queue pair; latency has one.
    pub depth: u32,
    /// Queue pairs; latency has one.
    pub queue_pairs: u32,
    /// Messages of a size on each queue pair.
    pub iterations: u32,
    /// Requests for each completion, at most as many as there is room for.
    pub signal_every: u32,
    /// Requests posted with one call.
    pub chain: u32,
    /// Messages up to this many bytes travel inside the request, if the device can.
    pub inline_bytes: u32,
    /// The index of our port's address; `None` chooses one.
    pub gid_index: Option<u8>,
    /// TCP port of the exchange.
    pub port: u16,
    /// Whether librdmacm connects, on the port behind; both sides must be dpb's. perftest's own way with it, `-R`, is another
    /// one, in which nothing goes over TCP.
    pub by_rdma_cm: bool,
}

/// perftest's port.
pub const PORT: u16 = 18515;
/// perftest's least; its columns need as many.
pub const ITERATIONS_MIN: u32 = 5;
/// The size from which on perftest signals each request.
const LARGE_BYTES: u32 = 8192;
/// Most messages of a size over all queue pairs, of each of which the time is kept: a gigabyte of times.
pub const STAMPS_MAX: u64 = 1 << 27;
/// Requests in flight over all queue pairs.
const REQUESTS_MAX: u64 = 1 << 20;
/// Bytes of one message on each queue pair together.
const BYTES_MAX: u64 = 1 << 34;
/// Receives that are posted ahead.
const RECEIVES: u32 = 512;

impl MeasurementPlan {
    /// A plan with perftest's defaults.
    pub fn new(device: &str, method: Method, verb: Verb, sizes: Vec<u32>) -> Self {
        let is_latency = method == Method::Latency;
        let is_large = matches!(sizes[..], [size] if size > LARGE_BYTES);
        Self {
            device: device.to_owned(),
            method,
            verb,
            sizes,
            depth: if is_latency { 1 } else { 128 },
            queue_pairs: 1,
            iterations: match (method, verb) {
                (Method::Bandwidth, Verb::Write) => 5000,
                _ => 1000,
            },
            signal_every: if is_latency || is_large { 1 } else { 100 },
            chain: 1,
            inline_bytes: match verb {
                Verb::Write if is_latency => 220,
                Verb::Send if is_latency => 236,
                _ => 0,
            },
            gid_index: None,
            port: PORT,
            by_rdma_cm: false,
        }
    }

    /// Whether it can be carried out anywhere.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self) -> Result<(), String> {
        if self.sizes.is_empty() || self.sizes[0] == 0 || !self.sizes.is_sorted_by(|a, b| a < b) {
            return Err("sizes ascend from one byte or more".into());
        }
        if self.iterations < ITERATIONS_MIN {
            return Err(format!("at least {ITERATIONS_MIN} iterations"));
        }
        let counts = [self.depth, self.queue_pairs, self.signal_every, self.chain];
        if counts.contains(&0) || self.chain > self.depth {
            return Err(
                "depth, queue pairs, chain and signals are one or more, and a chain fits the depth"
                    .into(),
            );
        }
        let stamps = u64::from(self.iterations) * u64::from(self.queue_pairs);
        let requests = u64::from(self.depth) * u64::from(self.queue_pairs);
        if stamps > STAMPS_MAX || requests > REQUESTS_MAX {
            return Err(format!(
                "at most {STAMPS_MAX} messages of a size over all queue pairs, each of which keeps its time, and {REQUESTS_MAX} \
                 requests in flight: these are {stamps} and {requests}"
            ));
        }
        let bytes = u64::from(self.size_max()) * u64::from(self.queue_pairs);
        if bytes > BYTES_MAX {
            return Err(format!(
                "{bytes} bytes of messages over all queue pairs, and at most {BYTES_MAX} are registered"
            ));
        }
        if self.method == Method::Latency && (self.depth, self.queue_pairs, self.chain) != (1, 1, 1)
        {
            return Err("latency has one queue pair with one request in flight".into());
        }
        Ok(())
    }

    /// Requests for each completion, as asked, but few enough that the room for requests never runs out without a completion.
    pub fn signal_every(&self) -> u32 {
        self.signal_every.min(self.depth - self.chain + 1)
    }

    fn size_max(&self) -> u32 {
        self.sizes.last().copied().unwrap_or(0)
    }

    /// Whether perftest would have been told `-a`: then sides also agree between sizes.
    fn is_sweep(&self) -> bool {
        self.sizes.len() > 1
    }
}

/// The result for one size.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Bytes of a message.
    pub size_bytes: u32,
    /// The figures.
    pub figures: Figures,
}

/// Figures as the method gives them.
#[derive(Clone, Debug)]
pub enum Figures {
    /// Latencies of requests one at a time.
    Latency(Latency),
    /// Bandwidth with many requests in flight.
    Bandwidth(Bandwidth),
    /// The client's report: a server has no figures of its own for reads and writes.
    Reported(Report),
}

/// The reason that there is no measurement, or none to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MeasurementFailure {
    /// The plan makes no sense.
    Plan(String),
    /// This machine does not have what it takes.
    Unavailable(String),
    /// The other side is not there.
    NoPeer(String),
    /// The measurement broke on the way.
    Broken(String),
    /// [`Waiting::stop`] said so.
    Interrupted,
}

impl fmt::Display for MeasurementFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plan(what)
            | Self::Unavailable(what)
            | Self::NoPeer(what)
            | Self::Broken(what) => f.write_str(what),
            Self::Interrupted => f.write_str("interrupted"),
        }
    }
}

impl std::error::Error for MeasurementFailure {}

impl From<Problem> for MeasurementFailure {
    fn from(problem: Problem) -> Self {
        Self::Unavailable(problem.to_string())
    }
}

impl From<VerbsError> for MeasurementFailure {
    fn from(error: VerbsError) -> Self {
        Self::Broken(error.to_string())
    }
}

impl From<Refused> for MeasurementFailure {
    fn from(refused: Refused) -> Self {
        Self::Unavailable(match refused {
            Refused::Memory => "no memory for the buffers".into(),
            Refused::Device(error) => format!("{error}; see `ulimit -l`"),
        })
    }
}

/// How a side waits for the other.
#[derive(Clone, Copy)]
pub struct Waiting<'a> {
    /// The timer by which its patience is counted.
    pub timer: &'a dyn Timer,
    /// True if it shall end. It is asked before each size, and while the side waits for its peer over TCP.
    pub stop: &'a (dyn Fn() -> bool + Sync),
    /// The longest time that a server waits for its client; `None` is without end.
    pub client_within: Option<Duration>,
}

impl<'a> Waiting<'a> {
    /// Waits by `timer`, a server for a client without end, and nothing stops it.
    pub fn patient(timer: &'a dyn Timer) -> Self {
        Self {
            timer,
            stop: &|| false,
            client_within: None,
        }
    }

    fn go_on(&self) -> Result<(), MeasurementFailure> {
        match (self.stop)() {
            true => Err(MeasurementFailure::Interrupted),
            false => Ok(()),
        }
    }
}

/// Measures, and gives each size's figures as soon as they are there. Packets of the connection are numbered from a number that
/// `seed` chooses: with another seed than the last run's, late packets of that run do not count.
///
/// # Errors
/// As [`MeasurementFailure`] has them; what was given before stands.
pub fn run(
    plan: &MeasurementPlan,
    role: &Role,
    waiting: Waiting<'_>,
    seed: u64,
    each: &mut dyn FnMut(Measured),
) -> Result<(), MeasurementFailure> {
    plan.check().map_err(MeasurementFailure::Plan)?;
    session::Session::open(plan, role, waiting, seed)?.run(each)
}

/// The name of the software that stands in for `device`, if something does, which makes every figure emulated.
///
/// # Errors
/// If there is no such device.
pub fn software(device: &str) -> Result<Option<String>, MeasurementFailure> {
    let device = super::port::Device::open(device)?;
    Ok(device.software().map(str::to_owned))
}

/// The device to take where none is named: the first with a port that is up.
///
/// # Errors
/// If there is none.
pub fn first_device() -> Result<String, MeasurementFailure> {
    let names = super::port::device_names()?;
    let is_up = |name: &&String| super::port::Device::open(name).is_ok();
    match names.iter().find(is_up) {
        Some(name) => Ok(name.clone()),
        None => Err(MeasurementFailure::Unavailable(
            "no RDMA device has an active port; `dpb doctor` says what to do".into(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_perftests() {
        let plan = |method, verb, size| MeasurementPlan::new("d", method, verb, vec![size]);
        let bandwidth = plan(Method::Bandwidth, Verb::Write, 65536);
        assert_eq!((bandwidth.depth, bandwidth.iterations), (128, 5000));
        assert_eq!((bandwidth.signal_every(), bandwidth.inline_bytes), (1, 0));
        let small = plan(Method::Bandwidth, Verb::Read, 64);
        assert_eq!((small.iterations, small.signal_every()), (1000, 100));
        let latency = plan(Method::Latency, Verb::Send, 2);
        assert_eq!((latency.depth, latency.signal_every()), (1, 1));
        assert_eq!((latency.inline_bytes, latency.iterations), (236, 1000));
        assert_eq!(latency.check(), Ok(()));
    }

    #[test]
    fn plans_that_make_no_sense_are_refused() {
        let good = MeasurementPlan::new("d", Method::Bandwidth, Verb::Read, vec![2, 4, 8]);
        assert_eq!(good.check(), Ok(()));
        for wrong in [
            MeasurementPlan {
                sizes: vec![],
                ..good.clone()
            },
            MeasurementPlan {
                sizes: vec![0],
                ..good.clone()
            },
            MeasurementPlan {
                sizes: vec![4, 4],
                ..good.clone()
            },
            MeasurementPlan {
                iterations: 4,
                ..good.clone()
            },
            MeasurementPlan {
                depth: 0,
                ..good.clone()
            },
            MeasurementPlan {
                chain: 129,
                ..good.clone()
            },
            MeasurementPlan {
                method: Method::Latency,
                ..good.clone()
            },
        ] {
            assert!(wrong.check().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn completions_come_before_the_room_runs_out() {
        let plan = MeasurementPlan::new("d", Method::Bandwidth, Verb::Read, vec![64]);
        for (depth, chain) in [(1, 1), (16, 1), (16, 16), (128, 8)] {
            let plan = MeasurementPlan {
                depth,
                chain,
                ..plan.clone()
            };
            // So many may be posted and not signalled, and still a chain must fit.
            assert!(plan.signal_every() - 1 + chain <= depth);
        }
    }
}
