//! Findings and failures. `Unsupported` is a finding, `SetupError` ends a preparation, `JobError` ends one job.

use std::borrow::Cow;
use std::fmt;

/// The reason why a backend cannot run an operator here, in words that a person can act on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsupported {
    /// For example: `needs the SHA instruction set, which this CPU lacks`.
    pub reason: String,
}

/// The reason why an operator does not work in place, in words that a person can act on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotInPlace {
    /// For example: `a digest does not replace what it is made of; give the digests slots outside of the items`.
    pub reason: Cow<'static, str>,
}

/// The reason why an operator was not prepared, a queue not opened, memory not given.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetupError {
    /// The backend says so itself.
    Unsupported(Unsupported),
    /// More jobs in flight were asked for than `depth_max`.
    TooDeep {
        /// The depth that was asked for.
        asked: u32,
        /// The depth that is possible.
        depth_max: u32,
    },
    /// No memory of this length.
    OutOfMemory {
        /// Bytes asked for.
        len: usize,
    },
    /// A measurement needs more memory than there is.
    TooLittleMemory {
        /// Bytes for inputs, their right outputs, and the outputs of all jobs in flight.
        needed_bytes: u64,
        /// Bytes that may be taken.
        available_bytes: u64,
    },
    /// A worker thread could not be started.
    NoThread {
        /// The system's own words.
        reason: String,
    },
    /// A parameter of the operator is out of range.
    Parameter(String),
}

/// The reason why one job, or one item of a job, failed. A few bytes and `Copy`, so that a hot path can carry it.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobError {
    /// The output slot is too short; for a decoder also: the input decodes to more than the slot holds.
    DstTooShort,
    /// The input is not what the operator reads.
    Malformed,
    /// The job's items do not lie inside its input; its slots are not one for each item, not in the order of their addresses, or
    /// overlap; or its outcome list has too little capacity.
    BadItems,
    /// A buffer lives in memory that this backend's device cannot reach.
    ForeignBuffer,
    /// The job's input is its output, and the operator does not work in place. [`Operator::in_place`](crate::Operator::in_place) says why.
    NotInPlace,
    /// Longer than `input_bytes_max`, or an item longer than `item_bytes_max`.
    TooLong,
    /// More items than `items_max`.
    TooManyItems,
    /// The kernel said Ok and left outcomes that cannot be: not one for each item, or longer than a slot. A bug in the kernel.
    BadOutcomes,
    /// The kernel panicked on this job: a bug in the kernel, which said more on stderr.
    Panicked,
    /// A device's own code. Below zero it is an error number of the operating system, negated.
    Device(i32),
}

impl NotInPlace {
    /// An operator does not work in place for this `reason`.
    pub fn new(reason: impl Into<Cow<'static, str>>) -> Self {
        let reason = reason.into();
        Self { reason }
    }
}

impl From<Unsupported> for SetupError {
    fn from(why: Unsupported) -> Self {
        Self::Unsupported(why)
    }
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl fmt::Display for NotInPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsupported(u) => write!(f, "unsupported: {u}"),
            Self::TooDeep { asked, depth_max } => {
                write!(
                    f,
                    "{asked} jobs in flight asked for, at most {depth_max} possible"
                )
            }
            Self::OutOfMemory { len } => write!(f, "no memory for {len} bytes"),
            Self::TooLittleMemory {
                needed_bytes,
                available_bytes,
            } => write!(
                f,
                "needs {:.2} GB of memory, and {:.2} GB are available; smaller jobs, less depth or fewer threads need \
                 less",
                *needed_bytes as f64 / 1e9,
                *available_bytes as f64 / 1e9
            ),
            Self::NoThread { reason } => write!(f, "cannot start a worker thread: {reason}"),
            Self::Parameter(what) => f.write_str(what),
        }
    }
}

impl fmt::Display for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DstTooShort => f.write_str("output does not fit its slot"),
            Self::Malformed => f.write_str("malformed input"),
            Self::BadItems => {
                f.write_str("items lie outside the input, slots are too few or overlap, or there is no room for outcomes")
            }
            Self::ForeignBuffer => f.write_str("buffer in memory that the device cannot reach"),
            Self::NotInPlace => {
                f.write_str("the operator does not work in place: it needs an output of its own")
            }
            Self::TooLong => f.write_str("input or item longer than the backend takes"),
            Self::TooManyItems => f.write_str("more items in a job than the backend takes"),
            Self::BadOutcomes => {
                f.write_str("the kernel's outcomes are not one per item, each within its slot")
            }
            Self::Panicked => f.write_str("the kernel panicked"),
            Self::Device(code @ ..0) => {
                let of_system = std::io::Error::from_raw_os_error(code.saturating_neg());
                write!(f, "device error {code}: {of_system}")
            }
            Self::Device(code) => write!(f, "device error {code}"),
        }
    }
}

impl std::error::Error for Unsupported {}
impl std::error::Error for NotInPlace {}
impl std::error::Error for SetupError {}
impl std::error::Error for JobError {}
