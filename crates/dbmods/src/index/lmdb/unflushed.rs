//! A file beside LMDB's that says: since this start of the system, data were committed that nobody flushed.
//!
//! Under [`Durability::None`] a crash of the system may leave a file whose pages point anywhere, which LMDB follows. So the file is there, and on the disk,
//! before the first page is written, and goes when everything is flushed. One of another start of the system means that this did not happen.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::index::IndexError;

/// The name of the file. It has the system's number of its start.
const NAME: &str = "unflushed";
/// Where Linux has that number.
const BOOT: &str = "/proc/sys/kernel/random/boot_id";

/// The file, while an index is open. Processes that have the index share its lock.
#[derive(Debug)]
pub(super) struct Unflushed {
    file: File,
    path: PathBuf,
}

impl Unflushed {
    /// Refuses a folder that was not flushed before the system went down. Then makes the file if `makes`, or else takes the one that is there.
    ///
    /// # Errors
    /// [`IndexError::Unclean`], and what the system says.
    pub(super) fn open(folder: &Path, makes: bool) -> io::Result<Result<Option<Self>, IndexError>> {
        let path = folder.join(NAME);
        let boot = std::fs::read_to_string(BOOT)?;
        let Some(mut file) = locked(&path, makes)? else {
            return Ok(Ok(None));
        };
        let mut said = String::new();
        file.read_to_string(&mut said)?;
        if said != boot {
            if !said.is_empty() && folder.join("data.mdb").exists() {
                let path = folder.display().to_string();
                return Ok(Err(IndexError::Unclean { path }));
            }
            file.set_len(0)?;
            file.rewind()?;
            file.write_all(boot.as_bytes())?;
            file.sync_all()?;
            sync_folder(folder)?;
        }
        Ok(Ok(Some(Self { file, path })))
    }

    /// Takes the file away, unless others have the index open: all data were flushed.
    pub(super) fn remove(self) -> io::Result<()> {
        if flock(&self.file, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Ok(());
        }
        std::fs::remove_file(&self.path)
    }
}

/// Opens the file and shares its lock. `None` if it is not there and is not to be made.
fn locked(path: &Path, makes: bool) -> io::Result<Option<File>> {
    loop {
        let mut options = OpenOptions::new();
        let file = match options.read(true).write(true).create(makes).open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound && !makes => return Ok(None),
            Err(error) => return Err(error),
        };
        flock(&file, FlockOperation::LockShared)?;
        // Who had the lock before may have taken the file away.
        match std::fs::metadata(path) {
            Ok(there) if there.ino() == file.metadata()?.ino() => return Ok(Some(file)),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
}

/// Brings the names in a folder to the disk.
pub(super) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}
