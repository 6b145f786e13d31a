//! What is read and written: a file that dpb made, or a block device.
//!
//! A file is made where none is (`O_EXCL`), and the first thing written into it is its mark, behind the data. An existing file is used again
//! only if it has that mark, so nothing of anybody else's is ever written to. Unless it is to be kept, the file has no name (`O_TMPFILE`), or
//! loses it as soon as it is open where the file system has no such files: then nothing is left behind, however the process ends.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use dpb_core::random::SplitMix64;
use rustix::fs::{Advice, AtFlags, OFlags, StatxFlags, fadvise, statx};

use super::space::available_bytes;
use super::stamp::{Stamps, checksum};

/// Bytes of the mark.
const MARK_BYTES: usize = 4096;
const MARK: &str = "dpb storage 1";
/// Bytes laid out with one write.
const CHUNK: usize = 1 << 20;
/// A file system keeps books besides the data.
const SPARE_BYTES: u64 = 16 << 20;

/// How a target is laid out.
#[derive(Clone, Copy, Debug)]
pub struct Laying<'a> {
    /// Bytes of data.
    pub bytes: u64,
    /// See [`unit_bytes`](super::unit_bytes).
    pub unit: u64,
    /// The seed of the contents.
    pub seed: u64,
    /// Set when somebody wants it to end.
    pub stop: &'a AtomicBool,
}

/// A file or a block device.
#[derive(Debug)]
pub struct Target {
    path: PathBuf,
    file: File,
    bytes: u64,
    /// `None`: what it holds is not dpb's, and cannot be checked.
    stamps: Option<Stamps>,
    seed: u64,
    may_write: bool,
    is_device: bool,
}

/// Why there is no target.
#[derive(Debug)]
pub enum TargetError {
    /// It is not dpb's, or not what was named.
    Refused(String),
    /// There is too little room.
    NoSpace(String),
    /// It broke on the way.
    Failed(String),
    /// Somebody wanted it to end.
    Interrupted,
}

impl fmt::Display for TargetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(why) | Self::NoSpace(why) | Self::Failed(why) => f.write_str(why),
            Self::Interrupted => f.write_str("interrupted while the file was laid out"),
        }
    }
}

impl std::error::Error for TargetError {}

impl Target {
    /// A file of dpb's own at `path`: made and laid out, or the one that was kept there. With `keep` it stays there, else it
    /// loses its name now and its bytes when this value goes.
    ///
    /// # Errors
    /// [`TargetError`]; nothing half made is left.
    pub fn of_file(path: &Path, laying: &Laying<'_>, keep: bool) -> Result<Self, TargetError> {
        if let Some(kept) = open_kept(path)? {
            let is_same = kept.mark == Mark::of(laying);
            if !is_same {
                check_space(path, laying.bytes.saturating_sub(kept.bytes))?;
            }
            // Of a longer file the old mark stays at the end until the new length is set.
            if laying.bytes < kept.bytes {
                kept.spoil().map_err(|error| refused(path, error))?;
            }
            let target = Self::new(path, kept.file, laying);
            if !keep {
                target.forget_name()?;
            }
            if !is_same {
                target.lay_out_first(laying.stop, keep)?;
            }
            return Ok(target);
        }
        check_space(path, laying.bytes)?;
        let unnamed = if keep { None } else { open_unnamed(path) };
        let file = unnamed.map_or_else(|| open_new(path), Ok)?;
        lock(path, &file)?;
        let target = Self::new(path, file, laying);
        if !keep {
            target.forget_name()?;
        }
        target.lay_out_first(laying.stop, keep)?;
        Ok(target)
    }

    /// Bytes of the file that stays at `path`: one that dpb kept and that nobody uses, or an empty one, as a maker leaves that is killed
    /// before its first write. `None` for everything else.
    pub fn kept_bytes(path: &Path) -> Option<u64> {
        let there = fs::symlink_metadata(path).ok()?;
        match there.is_file() && there.len() == 0 {
            true => Some(0),
            false => open_kept(path).ok()?.map(|_| there.len()),
        }
    }

    /// Removes the empty file at `path`, unless a dpb uses it or it is not empty any more. For paths at which nobody but dpb makes files.
    ///
    /// # Errors
    /// [`TargetError`]: it is in use, or cannot be removed.
    pub fn remove_empty(path: &Path) -> Result<(), TargetError> {
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        options.custom_flags(OFlags::NOFOLLOW.bits() as i32);
        let file = options.open(path).map_err(|error| refused(path, error))?;
        lock(path, &file)?;
        let removed = file.metadata().and_then(|about| match about.len() {
            0 => forget(path, &file),
            _ => Ok(()),
        });
        removed.map_err(|error| refused(path, error))
    }

    /// Removes the file of dpb's own that was kept at `path`. Whether there was one.
    ///
    /// # Errors
    /// [`TargetError`]: what is there is not dpb's, is in use, or cannot be removed.
    pub fn remove_kept(path: &Path) -> Result<bool, TargetError> {
        let Some(kept) = open_kept(path)? else {
            return Ok(false);
        };
        forget(path, &kept.file).map_err(|error| refused(path, error))?;
        Ok(true)
    }

    /// The first bytes of a block device, for reading; what it holds is not checked.
    ///
    /// # Errors
    /// [`TargetError`]
    pub fn of_device(path: &Path, bytes_max: u64) -> Result<Self, TargetError> {
        Self::device(path, bytes_max, OpenOptions::new().read(true))
    }

    /// The first bytes of a block device, for reading and writing: they are laid out, and what was there is gone. A device that is
    /// mounted or otherwise in use is refused by the kernel.
    ///
    /// # Errors
    /// [`TargetError`]
    pub fn of_device_to_destroy(path: &Path, laying: &Laying<'_>) -> Result<Self, TargetError> {
        let mut options = OpenOptions::new();
        let in_use = OFlags::EXCL.bits() as i32;
        options.read(true).write(true).custom_flags(in_use);
        let mut target = Self::device(path, laying.bytes, &options)?;
        target.stamps = Some(Stamps::new(laying.seed, laying.unit));
        target.seed = laying.seed;
        target.may_write = true;
        target.lay_out(laying.stop)?;
        Ok(target)
    }

    fn device(path: &Path, bytes_max: u64, options: &OpenOptions) -> Result<Self, TargetError> {
        let known = fs::metadata(path).map_err(|error| refused(path, error))?;
        if !known.file_type().is_block_device() {
            return Err(refused(path, "it is no block device; --file is for files"));
        }
        let mut file = options.open(path).map_err(|error| refused(path, error))?;
        let is_same = file.metadata().is_ok_and(|now| now.rdev() == known.rdev());
        if !is_same {
            return Err(refused(path, "it has just become another device"));
        }
        let bytes = file
            .seek(SeekFrom::End(0))
            .map_err(|error| refused(path, error))?;
        if bytes == 0 {
            return Err(refused(
                path,
                "it has no bytes; is anything attached to it?",
            ));
        }
        Ok(Self {
            path: path.to_owned(),
            file,
            bytes: bytes.min(bytes_max),
            stamps: None,
            seed: 0,
            may_write: false,
            is_device: true,
        })
    }

    fn new(path: &Path, file: File, laying: &Laying<'_>) -> Self {
        Self {
            path: path.to_owned(),
            file,
            bytes: laying.bytes,
            stamps: Some(Stamps::new(laying.seed, laying.unit)),
            seed: laying.seed,
            may_write: true,
            is_device: false,
        }
    }

    /// Where it is, or was when it had a name.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A path by which another process reaches it while this one lives.
    pub fn path_for_others(&self) -> PathBuf {
        match self.is_device {
            true => self.path.clone(),
            false => format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd()).into(),
        }
    }

    /// Bytes of data.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether its contents can be checked.
    pub fn is_stamped(&self) -> bool {
        self.stamps.is_some()
    }

    /// Whether it may be written to.
    pub fn may_write(&self) -> bool {
        self.may_write
    }

    /// Waits until all that was written is on the device.
    ///
    /// # Errors
    /// What the system says.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// Notes that somebody else is about to write to it: until it is laid out again, its mark says that its data are not whole.
    ///
    /// # Errors
    /// [`TargetError`]
    pub fn give_up_contents(&self) -> Result<(), TargetError> {
        self.mark(false)
    }

    /// Writes all data anew: generation 0.
    ///
    /// # Errors
    /// [`TargetError`]
    pub fn lay_out(&self, stop: &AtomicBool) -> Result<(), TargetError> {
        self.mark(false)?;
        self.write_all(stop)?;
        self.mark(true)
    }

    fn write_all(&self, stop: &AtomicBool) -> Result<(), TargetError> {
        let Some(stamps) = self.stamps.filter(|_| self.may_write) else {
            return Err(refused(&self.path, "it may only be read"));
        };
        let mut chunk = vec![0; CHUNK];
        let rests = stamps.fill(&mut chunk, &mut SplitMix64::new(self.seed));
        let mut offset = 0;
        while offset < self.bytes {
            if stop.load(Ordering::Relaxed) {
                return Err(TargetError::Interrupted);
            }
            stamps.stamp(&mut chunk, &rests, offset, 0);
            let len = (self.bytes - offset).min(CHUNK as u64);
            let written = self.file.write_all_at(&chunk[..len as usize], offset);
            written.map_err(|error| self.failed("cannot be written", &error))?;
            offset += len;
        }
        let synced = self.file.sync_data();
        synced.map_err(|error| self.failed("cannot be written", &error))
    }

    /// Whether requests of this kind are possible, as far as the system says.
    pub(super) fn admits(&self, block: u64, direct: bool) -> Result<(), String> {
        let unit = self.stamps.map_or(1, |stamps| stamps.unit as u64);
        if !block.is_multiple_of(unit) {
            return Err(format!(
                "blocks of {block} bytes in a file of units of {unit}"
            ));
        }
        if !direct {
            return Ok(());
        }
        let file = self.open(true).map_err(|error| self.no_direct(&error))?;
        let known = statx(&file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN);
        let align = known.map_or(0, |known| u64::from(known.stx_dio_offset_align));
        match align {
            0 => Ok(()),
            align if block.is_multiple_of(align) => Ok(()),
            align => Err(format!(
                "direct requests to {} are multiples of {align} bytes, not {block}",
                self.path.display()
            )),
        }
    }

    /// Why `O_DIRECT` was refused.
    pub(super) fn no_direct(&self, error: &io::Error) -> String {
        format!(
            "the file system of {} refuses direct requests ({error}); leave --direct out, or name a file on another one",
            self.path.display()
        )
    }

    /// Opens it once more.
    pub(super) fn open(&self, direct: bool) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.read(true).write(self.may_write);
        if direct {
            // What lies in the page cache would have to be thrown out by the first requests.
            let _ = fadvise(&self.file, 0, None, Advice::DontNeed);
            options.custom_flags(OFlags::DIRECT.bits() as i32);
        }
        // The same file, whatever its name means by now.
        options.open(format!("/proc/self/fd/{}", self.file.as_raw_fd()))
    }

    pub(super) fn stamps(&self) -> Option<Stamps> {
        self.stamps
    }

    /// What is half laid out loses its name.
    fn lay_out_first(&self, stop: &AtomicBool, keep: bool) -> Result<(), TargetError> {
        let laid = self.lay_out(stop);
        if laid.is_err() && keep {
            let _ = self.forget_name();
        }
        laid
    }

    /// Writes the mark of a file behind its data; a device has none.
    fn mark(&self, is_whole: bool) -> Result<(), TargetError> {
        let Some(stamps) = self.stamps.filter(|_| !self.is_device) else {
            return Ok(());
        };
        let mark = Mark {
            bytes: self.bytes,
            unit: stamps.unit as u64,
            seed: self.seed,
            is_whole,
        };
        let failed = |error: io::Error| self.failed("cannot be marked", &error);
        let len = self.bytes + MARK_BYTES as u64;
        // The mark comes first: a file that grows has one, also if the process is killed between the two.
        let written = self.file.write_all_at(&mark.to_bytes(), self.bytes);
        written
            .and_then(|()| self.file.set_len(len))
            .and_then(|()| self.file.sync_data())
            .map_err(failed)
    }

    fn forget_name(&self) -> Result<(), TargetError> {
        let forgotten = forget(&self.path, &self.file);
        forgotten.map_err(|error| self.failed("cannot be removed", &error))
    }

    fn failed(&self, what: &str, error: &io::Error) -> TargetError {
        TargetError::Failed(format!("{} {what}: {error}", self.path.display()))
    }
}

/// Removes the name, if it is still this file's.
fn forget(path: &Path, file: &File) -> io::Result<()> {
    let is_same = |ours: &fs::Metadata, named: &fs::Metadata| {
        ours.dev() == named.dev() && ours.ino() == named.ino()
    };
    match (file.metadata(), fs::symlink_metadata(path)) {
        (Ok(ours), Ok(named)) if is_same(&ours, &named) => fs::remove_file(path),
        _ => Ok(()),
    }
}

/// Makes a file that was not there.
fn open_new(path: &Path) -> Result<File, TargetError> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true).mode(0o600);
    options.open(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            refused(path, "its folder is not there; make it first (mkdir -p)")
        }
        io::ErrorKind::AlreadyExists => refused(path, "it has just been made by somebody else"),
        _ => refused(path, error),
    })
}

/// Makes a file without a name in the folder of `path`: a process that is killed leaves none. `None` if the file system has no such files.
fn open_unnamed(path: &Path) -> Option<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    options.custom_flags(OFlags::TMPFILE.bits() as i32);
    options.open(folder_of(path)).ok()
}

fn folder_of(path: &Path) -> &Path {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

fn refused(path: &Path, why: impl fmt::Display) -> TargetError {
    TargetError::Refused(format!("{}: {why}", path.display()))
}

fn lock(path: &Path, file: &File) -> Result<(), TargetError> {
    file.try_lock().map_err(|_| {
        refused(
            path,
            "another dpb is using it; wait for it, or name another file",
        )
    })
}

fn check_space(path: &Path, more_bytes: u64) -> Result<(), TargetError> {
    let folder = folder_of(path);
    let Ok(available) = available_bytes(folder) else {
        // Whoever opens the file says why.
        return Ok(());
    };
    let needed = more_bytes.saturating_add(SPARE_BYTES);
    match needed <= available {
        true => Ok(()),
        false => Err(TargetError::NoSpace(format!(
            "{} needs {needed} bytes, and {available} are free in {}; lower --file-size, or name a file elsewhere",
            path.display(),
            folder.display()
        ))),
    }
}

/// A file that was kept.
struct Kept {
    file: File,
    bytes: u64,
    mark: Mark,
}

impl Kept {
    /// Says in the mark that the data are not whole: they are about to change.
    fn spoil(&self) -> io::Result<()> {
        let mark = Mark {
            is_whole: false,
            ..self.mark.clone()
        };
        self.file.write_all_at(&mark.to_bytes(), self.bytes)?;
        self.file.sync_data()
    }
}

/// The file at `path`, locked; `None` if nothing is there. Whatever is not dpb's is refused.
fn open_kept(path: &Path) -> Result<Option<Kept>, TargetError> {
    let no_follow = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(refused(path, error)),
        Ok(there) if there.is_dir() => {
            return Err(refused(path, "it is a folder; name a file in it"));
        }
        Ok(there) if !there.is_file() => return Err(refused(path, NOT_OURS)),
        Ok(_) => {}
    }
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(no_follow);
    let file = options.open(path).map_err(|error| refused(path, error))?;
    let mark = Mark::read(&file).map_err(|error| refused(path, error))?;
    let Some((bytes, mark)) = mark else {
        return Err(refused(path, NOT_OURS));
    };
    lock(path, &file)?;
    Ok(Some(Kept { file, bytes, mark }))
}

const NOT_OURS: &str =
    "it is there, and dpb did not make it; it is left as it is. Name a file that is not there";

/// What stands behind a file's data.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mark {
    bytes: u64,
    unit: u64,
    seed: u64,
    /// Whether all data were laid out.
    is_whole: bool,
}

impl Mark {
    /// Of a file that was laid out whole.
    fn of(laying: &Laying<'_>) -> Self {
        Self {
            bytes: laying.bytes,
            unit: laying.unit,
            seed: laying.seed,
            is_whole: true,
        }
    }

    /// Text, its checksum, and zeros.
    fn to_bytes(&self) -> Vec<u8> {
        let text = self.text();
        let mut padded = text.clone().into_bytes();
        padded.resize(text.len().next_multiple_of(32), 0);
        let sum = checksum(&padded);
        let mut bytes = format!("{text}sum {sum:016x}\n").into_bytes();
        bytes.resize(MARK_BYTES, 0);
        bytes
    }

    fn text(&self) -> String {
        let Self {
            bytes,
            unit,
            seed,
            is_whole,
        } = self;
        format!("{MARK}\nbytes {bytes}\nunit {unit}\nseed {seed}\nwhole {is_whole}\n")
    }

    /// The mark of a file, and the bytes before it.
    fn read(file: &File) -> io::Result<Option<(u64, Self)>> {
        let len = file.metadata()?.len();
        let Some(bytes) = len.checked_sub(MARK_BYTES as u64) else {
            return Ok(None);
        };
        let mut read = vec![0; MARK_BYTES];
        file.read_exact_at(&mut read, bytes)?;
        let mark = Self::parse(&read);
        Ok(mark
            .filter(|mark| mark.bytes == bytes)
            .map(|mark| (bytes, mark)))
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?;
        let mut lines = text.lines();
        (lines.next() == Some(MARK)).then_some(())?;
        let mut value = |name: &str| lines.next()?.strip_prefix(name)?.strip_prefix(' ');
        let mark = Self {
            bytes: value("bytes")?.parse().ok()?,
            unit: value("unit")?.parse().ok()?,
            seed: value("seed")?.parse().ok()?,
            is_whole: value("whole")?.parse().ok()?,
        };
        (mark.to_bytes() == bytes).then_some(mark)
    }
}

#[cfg(test)]
mod tests;
