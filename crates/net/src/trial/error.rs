//! Why a trial was not done or has no number, and what it is worth if it was late.

use std::io;

use dpb_core::{PacketPort, SetupError};

use super::Imbalance;
use crate::traffic::{Traffic, TrafficError};

/// Why a trial was not done, or has no number.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// The load is none.
    #[error(transparent)]
    Traffic(#[from] TrafficError),
    /// Departures do not fit their field of a stamp.
    #[error("a trial of {0} ns; it must be shorter than 2^46 ns (19 hours)")]
    Duration(u64),
    /// Numbers do not fit their field of a stamp.
    #[error("a trial of more than 2^40 packets; take a lower rate or a shorter trial")]
    Packets,
    /// Frames do not fit the port.
    #[error("frames of up to {bytes} bytes, and port {port} takes up to {max}")]
    TooLong {
        /// The port.
        port: String,
        /// Bytes of the traffic's longest frame.
        bytes: usize,
        /// Bytes of the longest frame that the port takes.
        max: usize,
    },
    /// A port has no memory.
    #[error("no memory for frames")]
    Memory(#[from] SetupError),
    /// A port cannot go on.
    #[error("port {port}")]
    Port {
        /// The port.
        port: String,
        /// What it says.
        #[source]
        source: io::Error,
    },
    /// The system cannot go on, or cannot say what it dropped.
    #[error("the system under test")]
    System(#[source] io::Error),
    /// Packets do not add up.
    #[error("the packets of the trial do not add up: {0}")]
    Imbalance(#[from] Imbalance),
}

/// What a trial is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validity {
    /// Its numbers count.
    Valid,
    /// The generator was late, so they say nothing of the system.
    Late {
        /// Packets that were offered too late.
        packets: u64,
        /// Packets that may be.
        allowed: u64,
    },
}

/// Frames of the traffic have to fit the port.
pub(super) fn check_length<T, P>(traffic: &T, port: &P) -> Result<(), TrialError>
where
    T: Traffic + ?Sized,
    P: PacketPort + ?Sized,
{
    let (bytes, max) = (traffic.frame_bytes_max(), port.packet_bytes_max());
    match bytes > max {
        true => Err(TrialError::TooLong {
            port: port.name().to_owned(),
            bytes,
            max,
        }),
        false => Ok(()),
    }
}

/// The error of a port.
pub(super) fn failed<P: PacketPort + ?Sized>(port: &P, source: io::Error) -> TrialError {
    TrialError::Port {
        port: port.name().to_owned(),
        source,
    }
}
