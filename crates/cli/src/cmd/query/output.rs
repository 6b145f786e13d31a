//! Rows on their way out, and whether anybody takes them.

use std::fs::{File, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tempfile::NamedTempFile;

use super::format::{Destination, Format};
use super::writers::{self, RowWriter};
use crate::exit::Failure;
use crate::interrupt;
use crate::output::note;

/// Bytes that are written at once, at least.
const BUFFER_BYTES: usize = 64 << 10;

/// Whether rows go to stdout, whose reader may leave.
static GOES_TO_STDOUT: AtomicBool = AtomicBool::new(false);

/// True if the rows are of no more use: an interrupt, or their reader has left.
pub(super) fn is_over() -> bool {
    interrupt::is_set() || reader_has_left()
}

/// True if rows go to stdout, and nobody can read them any more.
pub(super) fn reader_has_left() -> bool {
    if !GOES_TO_STDOUT.load(Ordering::Relaxed) {
        return false;
    }
    let stdout = io::stdout();
    let mut stdout = [PollFd::new(&stdout, PollFlags::empty())];
    let now = Timespec::default();
    // A poll that fails says nothing of the reader.
    poll(&mut stdout, Some(&now)).is_ok() && stdout[0].revents().contains(PollFlags::ERR)
}

/// Rows on their way out, from any thread.
pub(super) struct Rows(Mutex<Open>);

struct Open {
    writer: Box<dyn RowWriter>,
    /// The file that becomes the one which was asked for.
    file: Option<(NamedTempFile, PathBuf)>,
    /// Rows that are counted for a person.
    says_rows: bool,
    rows: u64,
    failed: Option<io::Error>,
}

impl Rows {
    /// Begins to write rows of `schema`.
    ///
    /// # Errors
    /// A file that cannot be made; columns that the format cannot have.
    pub(super) fn open(
        destination: &Destination,
        (format, null): (Format, &str),
        schema: &SchemaRef,
    ) -> Result<Self, Failure> {
        let (file, to) = match destination {
            Destination::Stdout => {
                GOES_TO_STDOUT.store(true, Ordering::Relaxed);
                // Not by `Stdout`, which looks for ends of lines.
                let stdout = io::stdout().as_fd().try_clone_to_owned();
                (
                    None,
                    File::from(stdout.map_err(|error| unwritable(&error))?),
                )
            }
            Destination::File(path) => {
                let made = temporary(path).and_then(|file| {
                    let to = file.reopen()?;
                    Ok((file, to))
                });
                let named = |error: io::Error| {
                    Failure::check(format!("cannot write {}: {error}", path.display()))
                };
                let (file, to) = made.map_err(named)?;
                (Some((file, path.clone())), to)
            }
        };
        let to: Box<dyn Write + Send> = Box::new(BufWriter::with_capacity(BUFFER_BYTES, to));
        let writer = writers::open(format, null, to, schema)?;
        Ok(Self(Mutex::new(Open {
            writer,
            file,
            says_rows: format == Format::Table && destination.is_terminal(),
            rows: 0,
            failed: None,
        })))
    }

    /// Writes a batch. False if no more can be written: the reader has left, or the disk is full.
    pub(super) fn write(&self, batch: &RecordBatch) -> bool {
        let mut open = self.lock();
        if open.failed.is_some() {
            return false;
        }
        match open.writer.write(batch) {
            Ok(()) => {
                open.rows += batch.num_rows() as u64;
                true
            }
            Err(error) => {
                open.failed = Some(error);
                false
            }
        }
    }

    /// Ends the output. A reader that has left (`dpb query … | head`) is no failure.
    ///
    /// # Errors
    /// If the rows could not be written, or an interrupt ended the scan.
    pub(super) fn finish(self) -> Result<(), Failure> {
        let open = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        if interrupt::is_set() {
            return Err(Failure::interrupted("interrupted before all rows came"));
        }
        let written = match open.failed {
            Some(error) => Err(error),
            None => open.writer.finish(),
        };
        match (written, open.file) {
            (Err(error), None) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            (Err(error), _) => return Err(unwritable(&error)),
            (Ok(()), None) => {}
            (Ok(()), Some((file, path))) => {
                let kept = file.as_file().sync_all();
                kept.and_then(|()| file.persist(&path).map_err(|error| error.error))
                    .map_err(|error| {
                        Failure::check(format!("cannot write {}: {error}", path.display()))
                    })?;
            }
        }
        if open.says_rows {
            note(&format!("{} rows", open.rows));
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A file beside `path`, gone unless it is kept.
fn temporary(path: &Path) -> io::Result<NamedTempFile> {
    if path.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    tempfile::Builder::new()
        .prefix(".dpb-query.")
        .suffix(".tmp")
        // Less what the umask takes, as of any file that a program makes.
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(folder.unwrap_or(Path::new(".")))
}

fn unwritable(error: &io::Error) -> Failure {
    Failure::check(format!("cannot write the rows: {error}"))
}
