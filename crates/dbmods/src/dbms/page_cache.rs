//! A file dropped from the kernel's page cache, so that the next process reads storage.

use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{Advice, fadvise};

use crate::service::agent::residency::Pages;
use crate::table::open_regular;

/// A file counts as dropped if no more than one of so many pages stays.
const PAGES_KEPT_SHARE: u64 = 100;

/// The reason why a file is not out of the page cache.
#[derive(Debug, thiserror::Error)]
pub enum NotCold {
    /// The kernel keeps pages: the file system is in memory (tmpfs), or somebody else uses the file.
    #[error(
        "{cached} of {all} pages of {} stay in memory, so no run can be cold: the folder may be in memory itself (tmpfs), or another \
         process may use the file; choose another --data-dir, or --state hot", path.display()
    )]
    Kept {
        /// The file.
        path: PathBuf,
        /// Pages of the file.
        all: u64,
        /// Pages that stay.
        cached: u64,
    },
    /// The file cannot be opened, written back or mapped.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
}

/// Drops a file from the page cache, and looks whether it is gone.
///
/// # Errors
/// [`NotCold`].
pub fn drop_file(path: &Path) -> Result<(), NotCold> {
    let failed = |source| NotCold::Io {
        path: path.to_owned(),
        source,
    };
    let file = open_regular(path).map_err(failed)?;
    // Pages that are not written yet cannot be dropped. If they cannot be written, they are counted below.
    let _unwritten = file.sync_data();
    fadvise(&file, 0, None, Advice::DontNeed).map_err(|error| failed(error.into()))?;
    let Pages { all, cached } = Pages::of(&file).map_err(failed)?;
    match cached * PAGES_KEPT_SHARE > all {
        true => Err(NotCold::Kept {
            path: path.to_owned(),
            all,
            cached,
        }),
        false => Ok(()),
    }
}
