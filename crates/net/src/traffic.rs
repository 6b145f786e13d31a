//! Traffic from a seed: packet *i* is a function of the seed and *i*.
//!
//! So any core makes any part of it, a receiver knows what packet *i* was, and a run is repeated from two numbers. A [`Generator`] makes the frames of
//! a [`Profile`]; a [`Replay`] plays a capture. Both are [`Traffic`], which a [trial](crate::trial) offers to a system.
//!
//! | part | what |
//! |---|---|
//! | [`Sizes`] | lengths of frames: fixed, ranges, IMIXes by name, RFC 6985's genomes |
//! | [`Flows`], [`Mixture`] | how many flows live at a time, how long they are, and when they come and go; [`Population`] says how |
//! | [`Addresses`] | where flows lead: permuted, never counted up |
//! | [`application`] | what they say: TLS, QUIC, HTTP, DNS and others, with real hellos |
//! | [`Schedule`], [`Pacer`] | when each packet is due, whatever became of those before, and how late the sender is |
//! | [`StampKey`] | what each packet says of itself, for whoever receives it |
//!
//! ```
//! use dpb_net::traffic::{Flows, Generator, Mixture, Profile, Read, Sizes, StampKey, Traffic};
//!
//! let profile = Profile {
//!     sizes: Sizes::Fixed(60),
//!     flows: Flows::churning(10_000, Mixture::agh_campus()),
//!     ..Profile::new(1)
//! };
//! let generator = Generator::new(&profile)?;
//! let key = StampKey::new(1, 0);
//! let mut frame = vec![0; generator.frame_bytes(1_000_000)];
//! generator.write(1_000_000, 500, &key, &mut frame);
//! assert!(matches!(key.read(&frame), Read::Stamp(stamp) if stamp.number == 1_000_000));
//! # Ok::<(), dpb_net::traffic::TrafficError>(())
//! ```

pub mod application;
mod draw;
mod ends;
mod filler;
mod frame;
mod generator;
mod lengths;
mod permutation;
mod population;
mod rate;
mod replay;
mod schedule;
mod sizes;
mod stamp;
#[cfg(test)]
mod tests;

pub use ends::{Addresses, Ends};
pub use frame::{Family, Link};
pub use generator::{Generator, Identity, Profile, UdpChecksum};
pub use lengths::{Lengths, Mixture, Part};
pub use permutation::Permutation;
pub use population::{Flows, Member, Order, Population, Start};
pub use rate::{GAP_BYTES, Layer};
pub use replay::{Replay, Rewrite};
pub use schedule::{Departures, Pacer, Schedule};
pub use sizes::{FCS_BYTES, FRAME_BYTES_MAX, FRAME_BYTES_MIN, Mix, Sizes};
pub use stamp::{DEPARTURES_NS, NUMBERS, Read, STAMP_BYTES, Stamp, StampKey};

/// Frames by number.
pub trait Traffic: Sync {
    /// Bytes of frame `i`, without check sequence.
    fn frame_bytes(&self, i: u64) -> usize;

    /// No frame is longer.
    fn frame_bytes_max(&self) -> usize;

    /// Writes frame `i`, which is due at `departure_ns` of a trial with this key, into a buffer of [`Traffic::frame_bytes`] bytes. Both numbers have
    /// to be below [`NUMBERS`] and [`DEPARTURES_NS`]. Nothing is allocated.
    fn write(&self, i: u64, departure_ns: u64, key: &StampKey, frame: &mut [u8]);

    /// True if `filler`, the bytes in front of the stamp of packet `i` that the stamp counts, are those that were written.
    fn has_filler(&self, i: u64, filler: &[u8]) -> bool;

    /// The flow of packet `i`, if there is one that is known.
    fn member(&self, _i: u64) -> Option<Member> {
        None
    }

    /// The flows, if [`Traffic::member`] knows them.
    fn population(&self) -> Option<&Population> {
        None
    }
}

/// Why there is no such traffic.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum TrafficError {
    /// A frame of a length that is not generated.
    #[error(
        "frames of {0} bytes; from {FRAME_BYTES_MIN} to {FRAME_BYTES_MAX} without check sequence"
    )]
    Size(usize),
    /// Headers and stamp do not fit the shortest frame.
    #[error(
        "the shortest frame has {bytes} bytes, and headers and stamp of {kind} take {needed}; choose longer frames (`Sizes::at_least`) or UDP over IPv4"
    )]
    TooShort {
        /// The flows that need more.
        kind: &'static str,
        /// Bytes of the shortest frame.
        bytes: usize,
        /// Bytes of headers and stamp together.
        needed: usize,
    },
    /// A mix of no packet, or of too many.
    #[error("the mix {name} has {packets} packets; from 1 to 65536")]
    Mix {
        /// The mix.
        name: String,
        /// The sum of its counts.
        packets: u64,
    },
    /// Letters that RFC 6985 does not have.
    #[error("{0:?} is no IMIX genome; letters are a to j and z")]
    Genome(String),
    /// A mixture with a number that is not positive.
    #[error("the mixture {0} has a weight, a spread, a median or a maximum that is not above 0")]
    Mixture(String),
    /// Too few or too many lengths in a deck.
    #[error("{0} strata; from 2 to 1048576, and fewer than 2^32 packets in all of them")]
    Strata(u32),
    /// No flow, or too many.
    #[error("{0} flows at the same time; from 1 to 2^32")]
    Live(u64),
    /// Flows without a packet, or with too many.
    #[error("flows of {0} packets; from 1 to 2^32 - 1")]
    FlowPackets(u64),
    /// A range of addresses does not begin where a range of its length may.
    #[error("a range of addresses has up to 2^24, and begins at a multiple of its length")]
    Addresses,
    /// Flows would share addresses and ports.
    #[error(
        "flows that live together have numbers up to {numbers} apart, and there are 2^{bits} tuples; take more clients or servers"
    )]
    Tuples {
        /// The largest distance of two such numbers.
        numbers: u64,
        /// The number of tuples, as a power of two.
        bits: u32,
    },
    /// A share that is none.
    #[error("the share of {what} is {share}; from 0 to 1")]
    Share {
        /// The property that the share of flows or packets has.
        what: &'static str,
        /// The share.
        share: f64,
    },
    /// Flows lead to no port.
    #[error("there is no port for servers")]
    Ports,
    /// A VLAN's number has 12 bits.
    #[error("VLAN {0}; from 0 to 4095")]
    Vlan(u16),
    /// A mix of no application, or of one with no weight.
    #[error("the mix {0} has no application, no conversation, or a weight that is not above 0")]
    Applications(String),
    /// A rate or a burst that is none.
    #[error("a schedule of {packets_per_s} packets a second in bursts of {burst}")]
    Schedule {
        /// The mean rate: not positive, too high, or above the rate inside a burst.
        packets_per_s: f64,
        /// Packets of a burst.
        burst: u64,
    },
    /// A capture that cannot be played.
    #[error("a capture {0}")]
    Capture(&'static str),
}
