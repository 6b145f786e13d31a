//! Why there are no tables.

use std::path::PathBuf;
use std::{fmt, io};

use crate::table::segment::SegmentError;

/// The reason why there are no tables.
#[derive(Debug)]
pub enum DataError {
    /// What was asked for makes no sense.
    Usage(String),
    /// The disk is too small.
    Space {
        /// TPC-H's scale factor.
        scale_factor: f64,
        /// The directory.
        dir: PathBuf,
        /// Bytes that it takes.
        needed: u64,
        /// Bytes that are free.
        free: u64,
    },
    /// A directory or a file cannot be written.
    Write {
        /// Which.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// A table is there, but damaged.
    Segment(SegmentError),
    /// A table is not there.
    Missing {
        /// Where it would be.
        path: PathBuf,
    },
    /// The progress callback gave up.
    Interrupted,
}

impl fmt::Display for DataError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(what) => f.write_str(what),
            Self::Space {
                scale_factor,
                dir,
                needed,
                free,
            } => {
                let dir = dir.display();
                let (needed, free) = (bytes(*needed), bytes(*free));
                write!(
                    f,
                    "--sf {scale_factor} needs {needed} in {dir}, {free} free"
                )
            }
            Self::Write { path, source } => write!(f, "{}: {source}", path.display()),
            Self::Segment(error) => error.fmt(f),
            Self::Missing { path } => {
                write!(f, "{} is not there; `dpb data` makes it", path.display())
            }
            Self::Interrupted => f.write_str("interrupted; what was finished is kept"),
        }
    }
}

impl std::error::Error for DataError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Write { source, .. } => Some(source),
            Self::Segment(source) => Some(source),
            _ => None,
        }
    }
}

/// Bytes for a person, in powers of 1000.
fn bytes(bytes: u64) -> String {
    match bytes {
        0..1_000_000 => format!("{} kB", bytes.div_ceil(1000)),
        1_000_000..1_000_000_000 => format!("{} MB", bytes.div_ceil(1_000_000)),
        _ => format!("{:.0} GB", bytes as f64 / 1e9),
    }
}
