//! Files that DuckDB makes of a scale factor once, and that are kept: found, made whole or not at all, and removed.
//!
//! ```text
//! DIR/PREFIX-v2.0.0/NAME/               made by this version of DuckDB, because older ones cannot read newer files
//!                       manifest.json   what was made
//! DIR/PREFIX-v2.0.0/.NAME.partial/      being made; renamed when whole, wiped when found without its maker
//! DIR/PREFIX-v2.0.0/.NAME.lock          held by the maker, or by who removes them
//! ```

use std::fs::{self, File};
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use dpb_core::Timer;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Config, Connection, Error, Library};
use crate::tpch::lock::Lock;

/// The file that says what was made.
pub(crate) const MANIFEST: &str = "manifest.json";
/// Memory for DuckDB while it makes files, beside the generator's 300 MB of text.
const MEMORY_BYTES: u64 = 2 << 30;
/// DuckDB's storage format. The one of 1.0 keeps text in FSST; from 1.3 on it is DICT_FSST, which made the file 7 %
/// larger, all 16 columns at 1 % 2.2 times slower, LIKE 1.2 times slower and nothing faster (DuckDB 2.0.0, scale factor 1).
const STORAGE_VERSION: &str = "v1.0.0";
/// The folder that DuckDB spills into while it makes files.
const SPILL: &str = "spill";
/// Between two reports of what was loaded.
const TICK: Duration = Duration::from_millis(100);

/// A file or folder that the operating system refused.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) path: PathBuf,
    pub(crate) source: io::Error,
}

impl Refused {
    pub(crate) fn at(path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        Self { path, source }
    }
}

/// The place of files that are kept, and of what is beside them.
#[derive(Debug)]
pub(crate) struct Place {
    parent: PathBuf,
    name: String,
}

/// What [`Place::ensure`] waits for, or found.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Found<'a> {
    /// Another process is making the same files.
    Maker,
    /// Files are there that are not as their manifest says; the damage.
    Damage(&'a str),
}

/// Files of one kind: what makes them whole, and how they are made.
pub(crate) trait Making {
    /// What whoever asks for the files is told of them.
    type Files;
    /// Why there are none.
    type Error: From<Refused>;

    /// The files in `home`; none if there are none of these versions.
    ///
    /// # Errors
    /// The damage of files that are there.
    fn look(&self, home: &Path) -> Result<Option<Self::Files>, String>;

    /// Hears what was found instead of whole files; an error gives up.
    fn hear(&mut self, found: Found<'_>) -> Result<(), Self::Error>;

    /// Bytes of disk that the files take, about.
    fn bytes_needed(&self) -> u64;

    /// The error of a folder whose disk has too little left.
    fn no_space(&self, dir: &Path, needed_bytes: u64, free_bytes: u64) -> Self::Error;

    /// Makes the files and their manifest in a folder.
    fn make(&mut self, partial: &Path) -> Result<(), Self::Error>;
}

impl Place {
    /// The place under `dir` of the files of this name that the library makes.
    pub(crate) fn new(dir: &Path, prefix: &str, library: Library, name: String) -> Self {
        let parent = dir.join(format!("{prefix}{}", library.version()));
        Self { parent, name }
    }

    /// The folder of the files.
    pub(crate) fn home(&self) -> PathBuf {
        self.parent.join(&self.name)
    }

    fn partial(&self) -> PathBuf {
        self.parent.join(format!(".{}.partial", self.name))
    }

    fn lock_path(&self) -> PathBuf {
        self.parent.join(format!(".{}.lock", self.name))
    }

    fn lock(
        &self,
        clock: &dyn Timer,
        wait: impl FnMut() -> ControlFlow<()>,
    ) -> Result<Option<Lock>, Refused> {
        let path = self.lock_path();
        Lock::take(&path, clock, wait).map_err(|source| Refused::at(&path, source))
    }

    /// Finds the files, or makes them; true if this call made them. Processes that ask for the same files make them once, and wait for
    /// each other on `clock`.
    ///
    /// # Errors
    /// Those of `making`, and refusals of the operating system; nothing half made is left that a later call would use.
    pub(crate) fn ensure<M: Making>(
        &self,
        making: &mut M,
        clock: &dyn Timer,
    ) -> Result<(M::Files, bool), M::Error> {
        let home = self.home();
        if let Ok(Some(found)) = making.look(&home) {
            return Ok((found, false));
        }
        fs::create_dir_all(&self.parent).map_err(|source| Refused::at(&self.parent, source))?;
        let mut given_up = Ok(());
        let lock = self.lock(clock, || {
            given_up = making.hear(Found::Maker);
            match &given_up {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            }
        })?;
        given_up?;
        // Whoever held the lock before may have made them.
        match making.look(&home) {
            Ok(Some(found)) => return Ok((found, false)),
            Ok(None) => {}
            Err(damage) => making.hear(Found::Damage(&damage))?,
        }
        let partial = self.partial();
        for stale in [&partial, &home] {
            remove_folder(stale)?;
        }
        self.check_space(making)?;
        fs::create_dir(&partial).map_err(|source| Refused::at(&partial, source))?;
        let made = making.make(&partial).and_then(|()| {
            fs::rename(&partial, &home).map_err(|source| Refused::at(&home, source))?;
            sync(&self.parent)?;
            let made = making.look(&home).ok().flatten();
            let unreadable = || io::Error::other("was just made and cannot be read");
            made.ok_or_else(|| Refused::at(&home, unreadable()).into())
        });
        if made.is_err() {
            remove_folder(&partial)?;
        }
        drop(lock);
        made.map(|made| (made, true))
    }

    fn check_space<M: Making>(&self, making: &M) -> Result<(), M::Error> {
        let disk = rustix::fs::statvfs(&self.parent)
            .map_err(|errno| Refused::at(&self.parent, errno.into()))?;
        let free_bytes = disk.f_bavail.saturating_mul(disk.f_frsize);
        let needed_bytes = making.bytes_needed();
        match needed_bytes > free_bytes {
            true => Err(making.no_space(&self.parent, needed_bytes, free_bytes)),
            false => Ok(()),
        }
    }

    /// Removes what an [`ensure`](Self::ensure) left whose process was killed, unless another process makes the same files now.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub(crate) fn remove_unfinished(&self, clock: &dyn Timer) -> Result<(), Refused> {
        let path = self.lock_path();
        if path.exists() {
            // It gives up before it would wait.
            if let Some(lock) = self.lock(clock, || ControlFlow::Break(()))? {
                remove_folder(&self.partial())?;
                lock.remove().map_err(|source| Refused::at(&path, source))?;
            }
        }
        self.remove_parent();
        Ok(())
    }

    /// Removes the files, and what a killed process left of them. Says how many bytes that frees.
    ///
    /// # Errors
    /// If they cannot be removed.
    pub(crate) fn remove(&self, clock: &dyn Timer) -> Result<u64, Refused> {
        let lock = self.lock(clock, || ControlFlow::Continue(()))?;
        let mut freed = 0;
        for folder in [self.home(), self.partial()] {
            freed += bytes_under(&folder);
            remove_folder(&folder)?;
        }
        if let Some(lock) = lock {
            let path = self.lock_path();
            lock.remove().map_err(|source| Refused::at(&path, source))?;
        }
        self.remove_parent();
        Ok(freed)
    }

    fn remove_parent(&self) {
        // Stays if it holds other files.
        let _ = fs::remove_dir(&self.parent);
    }
}

/// The folders under `dir` of all versions of DuckDB, and these.
pub(crate) fn parents(dir: &Path, prefix: &str) -> impl Iterator<Item = (PathBuf, String)> {
    entries(dir).filter_map(move |(path, name)| {
        let version = name.strip_prefix(prefix)?.to_owned();
        Some((path, version))
    })
}

/// The places under `dir` whose names are `wanted`, each once; whole, half made, or with a lock alone.
pub(crate) fn places(dir: &Path, prefix: &str, wanted: impl Fn(&str) -> bool) -> Vec<Place> {
    let mut places = Vec::new();
    for (parent, _) in parents(dir, prefix) {
        let names = entries(&parent).map(|(_, name)| shown_name(&name).to_owned());
        let mut names: Vec<String> = names.filter(|name| wanted(name)).collect();
        names.sort();
        names.dedup();
        let parent = |name| Place {
            parent: parent.clone(),
            name,
        };
        places.extend(names.into_iter().map(parent));
    }
    places
}

/// The paths under `dir` of files that are whole or half made, and of their locks, with the scale factor that their names have, ordered
/// by it.
pub(crate) fn paths(
    dir: &Path,
    prefix: &str,
    scale_factor: impl Fn(&str) -> Option<f64>,
) -> Vec<(f64, PathBuf)> {
    let mut paths = Vec::new();
    for (parent, _) in parents(dir, prefix) {
        for (path, name) in entries(&parent) {
            let scale_factor = scale_factor(shown_name(&name));
            paths.extend(scale_factor.map(|scale_factor| (scale_factor, path)));
        }
    }
    paths.sort_by(|a: &(f64, _), b| a.0.total_cmp(&b.0));
    paths
}

/// The name of what is kept, of its own folder, the one in which it is made, or its lock.
fn shown_name(name: &str) -> &str {
    let hidden = name.strip_prefix('.');
    let half_made = hidden.and_then(|name| {
        name.strip_suffix(".partial")
            .or_else(|| name.strip_suffix(".lock"))
    });
    half_made.unwrap_or(name)
}

/// The entries of a folder, with names; nothing if it cannot be read.
pub(crate) fn entries(dir: &Path) -> impl Iterator<Item = (PathBuf, String)> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter_map(|entry| Some((entry.path(), entry.file_name().into_string().ok()?)))
}

/// Bytes of all files in a folder and below; 0 if it is not there.
pub(crate) fn bytes_under(dir: &Path) -> u64 {
    let bytes = |(path, _): (PathBuf, _)| match fs::symlink_metadata(&path) {
        Ok(metadata) if metadata.is_dir() => bytes_under(&path),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    };
    entries(dir).map(bytes).sum()
}

/// The manifest of a folder, if there is one of this form.
pub(crate) fn manifest<M: DeserializeOwned>(home: &Path) -> Option<M> {
    let text = fs::read_to_string(home.join(MANIFEST)).ok()?;
    serde_json::from_str(&text).ok()
}

/// Writes the manifest of a folder.
///
/// # Errors
/// If it cannot be written.
pub(crate) fn write_manifest(home: &Path, manifest: &impl Serialize) -> Result<(), Refused> {
    let path = home.join(MANIFEST);
    let text = serde_json::to_string_pretty(manifest).expect("plain data");
    fs::write(&path, text).map_err(|source| Refused::at(&path, source))?;
    sync(&path)
}

/// How DuckDB is opened to make files in a folder.
pub(crate) fn making_config(partial: &Path, threads: usize) -> Config {
    Config {
        threads: Some(threads.max(1)),
        memory_bytes_max: Some(MEMORY_BYTES),
        temp_dir: Some(partial.join(SPILL)),
        storage_version: Some(STORAGE_VERSION),
        ..Config::default()
    }
}

/// Removes what DuckDB spilled into a folder, once it is closed.
///
/// # Errors
/// If it cannot be removed.
pub(crate) fn remove_spill(partial: &Path) -> Result<(), Refused> {
    remove_folder(&partial.join(SPILL))
}

/// Runs `sql` on another thread while `progress` is called, which may have it stopped. Says how many rows it changed; `None` if it was
/// stopped.
///
/// # Errors
/// If DuckDB refuses it.
pub(crate) fn execute(
    connection: &mut Connection,
    sql: &str,
    progress: &mut dyn FnMut() -> ControlFlow<()>,
) -> Result<Option<u64>, Error> {
    let interrupt = connection.interrupt_handle();
    let (finished, outcome) = sync_channel(1);
    std::thread::scope(|scope| {
        scope.spawn(move || finished.send(connection.execute(sql)));
        let mut is_stopped = false;
        loop {
            if is_stopped || progress().is_break() {
                is_stopped = true;
                // Again each time: one that comes before the statement has begun is forgotten by DuckDB.
                interrupt.interrupt();
            }
            match outcome.recv_timeout(TICK) {
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => unreachable!("it sends before it ends"),
                Ok(_) if is_stopped => return Ok(None),
                Ok(done) => return done.map(Some),
            }
        }
    })
}

/// Removes a folder and all in it, if it is there.
fn remove_folder(path: &Path) -> Result<(), Refused> {
    match fs::remove_dir_all(path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => Err(Refused::at(path, source)),
        _ => Ok(()),
    }
}

/// Has a file or a folder written to the disk.
///
/// # Errors
/// If it cannot be.
pub(crate) fn sync(path: &Path) -> Result<(), Refused> {
    File::open(path)
        .and_then(|file| file.sync_all())
        .map_err(|source| Refused::at(path, source))
}
