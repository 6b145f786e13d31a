//! A lock between processes: a file that is locked while its holder lives.

use std::fs::{self, File, TryLockError};
use std::io;
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use dpb_core::Timer;

/// Between two looks at a lock that another process holds; tests look all the time, to meet every moment.
const LOOK: Duration = Duration::from_millis(if cfg!(test) { 0 } else { 50 });

/// The number of times that a folder is made which others remove.
const TRIES: usize = 100;

/// A lock that is held. It ends with this, so with the process, however that ends.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
    path: PathBuf,
}

impl Lock {
    /// Takes the lock at `path`, whose folder is there or was removed a moment ago. While another holds it, `wait` is asked between
    /// sleeps on `clock`; `None` if it gives up.
    ///
    /// # Errors
    /// If the file cannot be made or locked.
    pub(crate) fn take(
        path: &Path,
        clock: &dyn Timer,
        mut wait: impl FnMut() -> ControlFlow<()>,
    ) -> io::Result<Option<Self>> {
        loop {
            match File::options().create(true).append(true).open(path) {
                Ok(file) => match file.try_lock() {
                    // `remove` may have removed the file that is locked now; others then lock another.
                    Ok(()) if is_at(&file, path)? => {
                        let path = path.to_owned();
                        return Ok(Some(Self { _file: file, path }));
                    }
                    Ok(()) => continue,
                    Err(TryLockError::WouldBlock) => {}
                    Err(TryLockError::Error(error)) => return Err(error),
                },
                // Whoever removed the last of the folder's files removed the folder.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    make_folder(path.parent().unwrap_or(Path::new(".")))?;
                }
                Err(error) => return Err(error),
            }
            if wait().is_break() {
                return Ok(None);
            }
            clock.sleep(LOOK);
        }
    }

    /// Removes the lock's file while it is locked, so that whoever waits for it finds it gone, and nobody locks it between.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub(crate) fn remove(self) -> io::Result<()> {
        fs::remove_file(&self.path)
    }
}

/// Makes the folder, or leaves it to [`Lock::take`] where somebody removes it meanwhile.
///
/// # Errors
/// If it cannot be made.
pub(crate) fn make_folder(path: &Path) -> io::Result<()> {
    // A folder above it may be removed between its own making and this one's, though not time and again.
    let is_gone = |made: &io::Result<()>| matches!(made, Err(error) if error.kind() == io::ErrorKind::NotFound);
    let mut made = fs::create_dir_all(path);
    for _ in 1..TRIES {
        if !is_gone(&made) {
            break;
        }
        made = fs::create_dir_all(path);
    }
    match made {
        // It was there when it was to be made, and gone when it was looked at; or something else has its name.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            match fs::symlink_metadata(path) {
                Ok(there) if !there.is_dir() => Err(error),
                _ => Ok(()),
            }
        }
        made => made,
    }
}

/// Whether `path` still names this file.
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let ours = file.metadata()?;
    match fs::metadata(path) {
        Ok(there) => Ok((there.dev(), there.ino()) == (ours.dev(), ours.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Instant;

    use dpb_core::WallClock;

    use super::*;

    #[test]
    fn one_at_a_time_also_where_each_removes_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sets/set/.lock");
        let holders = AtomicUsize::new(0);
        let until = Instant::now() + Duration::from_secs(1);
        std::thread::scope(|scope| {
            for _ in 0..6 {
                scope.spawn(|| {
                    while Instant::now() < until {
                        let lock =
                            Lock::take(&path, &WallClock::default(), || ControlFlow::Continue(()));
                        let lock = lock.unwrap().expect("nobody gives up");
                        assert_eq!(holders.fetch_add(1, Ordering::SeqCst), 0);
                        std::thread::yield_now();
                        holders.fetch_sub(1, Ordering::SeqCst);
                        lock.remove().unwrap();
                        // As who removes the last file of a folder does.
                        let _ = fs::remove_dir(dir.path().join("sets/set"));
                        let _ = fs::remove_dir(dir.path().join("sets"));
                    }
                });
            }
        });
    }

    #[test]
    fn who_gives_up_has_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(".lock");
        let take = || Lock::take(&path, &WallClock::default(), || ControlFlow::Break(())).unwrap();
        let held = take().unwrap();
        assert!(take().is_none());
        drop(held);
        assert!(take().is_some());
    }
}
