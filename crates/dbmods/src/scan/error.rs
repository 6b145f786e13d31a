//! Why scans fail.

use dpb_core::SetupError;

use crate::ends::Ends;
use crate::table::segment::SegmentError;

/// The reason why a scan failed.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum ScanError {
    /// The segment is unreadable or damaged.
    #[error(transparent)]
    Segment(#[from] SegmentError),
    /// The query names a column that the table has not.
    #[error("no column {0} in the table")]
    NoSuchColumn(usize),
    /// Types do not fit.
    #[error("{0}")]
    Type(String),
    /// An exact number has more digits than can be computed with.
    #[error("a number is out of range")]
    Overflow,
    /// It would take more memory than [`super::ScanOptions::memory_bytes`].
    #[error("the scan needs more than the {0} bytes of memory that it may take")]
    Memory(usize),
    /// More groups than an aggregate may have.
    #[error("more than {0} groups; group by columns of few values")]
    TooManyGroups(usize),
    /// What a backend gave is not what a scan gives.
    #[error("{0} that is malformed")]
    Malformed(&'static str),
    /// A backend cannot scan.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// A backend failed where our own scan of the same row groups does not.
    #[error("{backend}: {why}")]
    Backend {
        /// The backend's name.
        backend: String,
        /// The backend's words.
        why: String,
    },
    /// Arrow refused what was built.
    #[error("arrow: {0}")]
    Arrow(#[from] arrow_schema::ArrowError),
    /// A rule of this module was broken.
    #[error("internal: {0}")]
    Internal(&'static str),
}

impl ScanError {
    /// The end that it is.
    pub fn ends(&self) -> Ends {
        match self {
            Self::Segment(_) | Self::Backend { .. } | Self::Malformed(_) | Self::Internal(_) => {
                Ends::Broken
            }
            Self::Setup(_) => Ends::Unavailable,
            Self::NoSuchColumn(_)
            | Self::Type(_)
            | Self::Overflow
            | Self::Memory(_)
            | Self::TooManyGroups(_)
            | Self::Arrow(_) => Ends::Usage,
        }
    }
}
