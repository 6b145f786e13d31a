//! LMDB, through heed: a B+tree in a file that is mapped, copied on write.
//!
//! LMDB 0.9 from `mdb.master`, as lmdb-master-sys compiles it. Its own documentation (lmdb.h) is the source for what the flags promise.
#![allow(unsafe_code)]

mod unflushed;

use std::fmt;
use std::ops::Bound;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use heed::types::Bytes;
use heed::{
    CommitOrAbort, Database, Env, EnvFlags, EnvOpenOptions, MdbError, RoTxn, RwTxn, WithoutTls,
};

use self::unflushed::Unflushed;
use super::{
    Deleted, Durability, EachRow, Found, Holder, Index, IndexError, KEY_BYTES_MAX, KeyRange, Keys,
    Reads, Session, Usage, Values, Write,
};

/// How LMDB is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LmdbOptions {
    /// The folder of its files. It is made if it is not there. It belongs to this index: nothing else may write to what is in it.
    pub folder: PathBuf,
    /// The largest size of the file. It takes no room before it is used, but never grows beyond this; [`Lmdb::map_bytes`] says what data need.
    pub map_bytes: u64,
    /// Sessions that may be open at once, in all processes that have the folder open.
    pub sessions_max: u32,
    /// What commits survive. Not [`Durability::Volatile`].
    pub durability: Durability,
    /// Lets the system read pages ahead of those that are wanted. It helps scans of a file that is not in memory, and hurts reads of single keys.
    pub read_ahead: bool,
}

impl LmdbOptions {
    /// 126 sessions, [`Durability::Sync`], no reading ahead.
    pub fn new(folder: impl Into<PathBuf>, map_bytes: u64) -> Self {
        Self {
            folder: folder.into(),
            map_bytes,
            sessions_max: 126,
            durability: Durability::Sync,
            read_ahead: false,
        }
    }

    /// What LMDB is told.
    ///
    /// * `None`: nothing is flushed (`MDB_NOSYNC`), and pages are written in place (`MDB_WRITEMAP`), with which it is fastest. `MDB_MAPASYNC` in place of
    ///   the former would add a call that does nothing on Linux: msync(2) says so of `MS_ASYNC`.
    /// * `Commit`: data are flushed at each commit, the page that makes them public is not (`MDB_NOMETASYNC`).
    /// * `Sync`: both are flushed at each commit.
    fn flags(&self) -> Result<EnvFlags, IndexError> {
        let flags = match self.read_ahead {
            true => EnvFlags::empty(),
            false => EnvFlags::NO_READ_AHEAD,
        };
        match self.durability {
            Durability::None => Ok(flags | EnvFlags::NO_SYNC | EnvFlags::WRITE_MAP),
            Durability::Commit => Ok(flags | EnvFlags::NO_META_SYNC),
            Durability::Sync => Ok(flags),
            Durability::Volatile => Err(IndexError::Durability {
                engine: NAME,
                durability: self.durability.word(),
            }),
        }
    }
}

/// The engine over LMDB. See [the module](super) for what it promises.
///
/// A transaction of LMDB's is one transaction here, and a snapshot is a read transaction of LMDB's. A held one keeps pages from being used again, so the
/// file grows while others write.
///
/// Each call of a session that holds nothing begins a read transaction, for which LMDB takes a lock that all of its readers share, and searches its table of
/// them. A [`Snapshot`](super::Snapshot) pays that once for many calls, and is LMDB's best setting for reads of single keys.
///
/// Under [`Durability::None`] pages of the file are memory of the process. A disk that fills up ends the process with `SIGBUS` then, and a stray write of any
/// code in the process may damage the data.
pub struct Lmdb {
    env: Env<WithoutTls>,
    database: Database<'static, Bytes, Bytes>,
    map_bytes: u64,
    page_bytes: u64,
    durability: Durability,
    sessions: AtomicU64,
    sessions_max: u64,
    /// The one read transaction that no session has.
    counts: Mutex<()>,
    unflushed: Option<Unflushed>,
}

const NAME: &str = "lmdb";

/// Bytes of the pages of a new file: the system's, but not more than LMDB can count.
fn page_bytes() -> u64 {
    rustix::param::page_size().min(1 << 15) as u64
}

impl Lmdb {
    /// Bytes of a map that holds so many records, whatever order they are written in, with the copies that updates make: pages that are half full, and
    /// half as much again. A value of more than half a page takes pages of its own.
    pub fn map_bytes(records: u64, key_bytes: u64, value_bytes: u64) -> u64 {
        let page = page_bytes();
        let node = 10 + key_bytes + value_bytes;
        let per_record = match node > page / 2 - 16 {
            true => (value_bytes + 16).next_multiple_of(page) + 2 * (18 + key_bytes),
            false => 2 * node,
        };
        let data = records.saturating_mul(per_record);
        let map = data.saturating_add(data / 2).saturating_add(16 << 20);
        map.next_multiple_of(rustix::param::page_size() as u64)
    }

    /// Opens the index of a folder, or makes one.
    ///
    /// # Errors
    /// [`IndexError::Durability`] for a volatile one, [`IndexError::Unclean`] for a file that a crash of the system may have damaged,
    /// [`IndexError::Disk`] if the file system has no room for the whole map, [`IndexError::Folder`], [`IndexError::Lmdb`].
    pub fn open(options: &LmdbOptions) -> Result<Self, IndexError> {
        let folder = &options.folder;
        let flags = options.flags()?;
        let refused = |source| IndexError::Folder {
            path: folder.display().to_string(),
            source,
        };
        make_folder(folder).map_err(refused)?;
        admit(folder, options.map_bytes).map_err(refused)??;
        let makes = options.durability == Durability::None;
        let unflushed = Unflushed::open(folder, makes).map_err(refused)??;
        let map_bytes = (options.map_bytes).next_multiple_of(rustix::param::page_size() as u64);
        let mut open = EnvOpenOptions::new().read_txn_without_tls();
        open.map_size(usize::try_from(map_bytes).unwrap_or(usize::MAX));
        open.max_readers(options.sessions_max.saturating_add(1));
        // SAFETY: without `NO_LOCK`, processes exclude each other by LMDB's lock file. With `NO_SYNC`, a crash of the system may leave a file that is broken,
        // which `Unflushed` refuses. `NO_META_SYNC` leaves a whole one (lmdb.h). What remains is that nobody else may write to the file while it is mapped,
        // which the option's documentation asks for.
        let env = unsafe {
            open.flags(flags);
            open.open(folder)?
        };
        // Readers of processes that were killed would keep their pages for ever.
        env.clear_stale_readers()?;
        let txn = env.write_txn()?;
        let made =
            env.create_databases_and_commit(txn, |opener, txn| -> Result<_, heed::Error> {
                let database = opener.create_database::<Bytes, Bytes>(txn, None)?;
                Ok(CommitOrAbort::<_, ()>::Commit(database))
            })?;
        let unflushed = match unflushed {
            // What an earlier process left is flushed here, as commits are from now on.
            Some(unflushed) if !makes => {
                env.force_sync()?;
                unflushed.remove().map_err(refused)?;
                None
            }
            unflushed => unflushed,
        };
        if options.durability == Durability::Sync {
            unflushed::sync_folder(folder).map_err(refused)?;
        }
        let page_bytes = u64::from(env.unnamed_database_stat().page_size);
        Ok(Self {
            database: made.unwrap_commit(),
            env,
            map_bytes,
            page_bytes,
            durability: options.durability,
            sessions: AtomicU64::new(0),
            sessions_max: u64::from(options.sessions_max),
            counts: Mutex::new(()),
            unflushed,
        })
    }

    /// Names the cause where LMDB has one that a person can act on.
    fn error(&self, error: heed::Error) -> IndexError {
        match error {
            heed::Error::Mdb(MdbError::MapFull) => IndexError::Full {
                what: "the pages of an LMDB map",
                limit_bytes: self.map_bytes,
                remedy: "release the snapshots that are held, or open it with a larger map",
            },
            heed::Error::Mdb(MdbError::ReadersFull) => IndexError::Sessions {
                max: usize::try_from(self.sessions_max).unwrap_or(usize::MAX),
            },
            error => IndexError::Lmdb(error),
        }
    }

    /// Calls `does` again if LMDB is full of what processes left that were killed.
    fn retried<T>(&self, does: impl Fn() -> Result<T, heed::Error>) -> Result<T, IndexError> {
        match does() {
            Err(heed::Error::Mdb(MdbError::MapFull | MdbError::ReadersFull))
                if self.env.clear_stale_readers()? > 0 =>
            {
                does()
            }
            done => done,
        }
        .map_err(|error| self.error(error))
    }

    /// Begins to read the newest state.
    #[inline]
    fn read(&self) -> Result<RoTxn<'_, WithoutTls>, IndexError> {
        self.retried(|| self.env.read_txn())
    }

    /// Carries out a transaction, which says how many keys it changed. Gives the state that it made, and that number.
    fn transaction(
        &self,
        write: impl Fn(&mut RwTxn<'_>) -> Result<usize, heed::Error>,
    ) -> Result<(u64, usize), IndexError> {
        self.retried(|| {
            let mut txn = self.env.write_txn()?;
            let changed = write(&mut txn)?;
            let number = txn.id() as u64;
            txn.commit()?;
            // LMDB commits nothing where nothing was changed, and the next transaction gets the number.
            Ok((number - u64::from(changed == 0), changed))
        })
    }
}

impl Drop for Lmdb {
    fn drop(&mut self) {
        let Some(unflushed) = self.unflushed.take() else {
            return;
        };
        // If it cannot be flushed, or the file stays, the index is only refused after a crash of the system.
        if self.env.force_sync().is_ok() {
            drop(unflushed.remove());
        }
    }
}

/// Makes a folder, and brings its name to the disk.
fn make_folder(folder: &Path) -> std::io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    std::fs::create_dir_all(folder)?;
    match folder.canonicalize()?.parent() {
        Some(parent) => unflushed::sync_folder(parent),
        None => Ok(()),
    }
}

/// Refuses a map that would not fit. The room that its file takes already counts as free.
fn admit(folder: &Path, map_bytes: u64) -> std::io::Result<Result<(), IndexError>> {
    let system = rustix::fs::statvfs(folder)?;
    // Not its length, which is the map's with `MDB_WRITEMAP`.
    let there = std::fs::metadata(folder.join("data.mdb")).map_or(0, |file| file.blocks() * 512);
    let free_bytes = system.f_bavail.saturating_mul(system.f_frsize);
    if map_bytes > free_bytes.saturating_add(there) {
        return Ok(Err(IndexError::Disk {
            asked_bytes: map_bytes,
            free_bytes,
            path: folder.display().to_string(),
        }));
    }
    Ok(Ok(()))
}

impl Index for Lmdb {
    fn name(&self) -> &'static str {
        NAME
    }

    fn durability(&self) -> Durability {
        self.durability
    }

    fn session(self: Arc<Self>) -> Result<Box<dyn Session>, IndexError> {
        let open = self.sessions.fetch_add(1, Ordering::Relaxed);
        // From here on, dropping it counts down.
        let reader = Reader {
            index: self,
            held: None,
            state: 0,
        };
        match open < reader.index.sessions_max {
            true => Ok(Box::new(reader)),
            false => Err(reader.index.error(heed::Error::Mdb(MdbError::ReadersFull))),
        }
    }

    fn apply(&self, writes: &[Write<'_>]) -> Result<u64, IndexError> {
        for write in writes {
            write.check()?;
        }
        let (state, _) = self.transaction(|txn| {
            let mut changed = 0;
            for write in writes {
                changed += match write {
                    Write::Put { key, value } => self.database.put(txn, key, value).map(|()| 1),
                    Write::Delete { key } => self.database.delete(txn, key).map(usize::from),
                }?;
            }
            Ok(changed)
        })?;
        Ok(state)
    }

    fn delete_range(&self, range: KeyRange<'_>, limit: usize) -> Result<Deleted, IndexError> {
        let range = bounds(range);
        let (state, keys) = self.transaction(|txn| {
            let Some(range) = range else { return Ok(0) };
            let mut keys = 0;
            let mut rows = self.database.range_mut(txn, &range)?;
            while keys < limit && rows.next().transpose()?.is_some() {
                // SAFETY: the row that the iterator stands on is not used.
                unsafe { rows.del_current()? };
                keys += 1;
            }
            Ok(keys)
        })?;
        Ok(Deleted { state, keys })
    }

    fn flush(&self) -> Result<(), IndexError> {
        Ok(self.env.force_sync()?)
    }

    fn usage(&self) -> Result<Usage, IndexError> {
        let _alone = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let txn = self.read()?;
        let newest = txn.id() as u64;
        Ok(Usage {
            keys: self.database.len(&txn)?,
            bytes: (self.env.info().last_page_number as u64 + 1) * self.page_bytes,
            versions_bytes: 0,
            sessions: self.sessions.load(Ordering::Relaxed),
            newest,
            oldest: newest,
        })
    }
}

impl fmt::Debug for Lmdb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lmdb = f.debug_struct("Lmdb");
        lmdb.field("folder", &self.env.path());
        lmdb.field("map_bytes", &self.map_bytes);
        lmdb.finish_non_exhaustive()
    }
}

type Bounds<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// A range as LMDB takes it: no key is longer than the longest. None if it is empty.
fn bounds(range: KeyRange<'_>) -> Option<Bounds<'_>> {
    if range.is_empty() {
        return None;
    }
    let start = match range.start {
        Bound::Included(key) | Bound::Excluded(key) if key.len() > KEY_BYTES_MAX => {
            // A stored key that is its beginning lies before it.
            Bound::Excluded(&key[..KEY_BYTES_MAX])
        }
        // LMDB takes no empty key. Nothing lies before or at it.
        Bound::Included([]) | Bound::Excluded([]) => Bound::Unbounded,
        start => start,
    };
    let end = match range.end {
        Bound::Included(key) | Bound::Excluded(key) if key.len() > KEY_BYTES_MAX => {
            Bound::Included(&key[..KEY_BYTES_MAX])
        }
        Bound::Included([]) => return None,
        end => end,
    };
    Some((start, end))
}

/// A session of LMDB's.
struct Reader {
    index: Arc<Lmdb>,
    held: Option<RoTxn<'static, WithoutTls>>,
    /// Of the last call.
    state: u64,
}

impl Reader {
    /// Calls `read` with the held transaction or one of its own.
    #[inline]
    fn with<T>(
        &mut self,
        read: impl FnOnce(&RoTxn<'_>, Database<'static, Bytes, Bytes>) -> Result<T, IndexError>,
    ) -> Result<T, IndexError> {
        let database = self.index.database;
        match &self.held {
            Some(txn) => read(txn, database),
            None => {
                let txn = self.index.read()?;
                self.state = txn.id() as u64;
                read(&txn, database)
            }
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.index.sessions.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Looks a key up, and copies its value.
fn get(
    txn: &RoTxn<'_>,
    database: Database<'static, Bytes, Bytes>,
    key: &[u8],
    to: &mut [u8],
) -> Result<Found, IndexError> {
    if !(1..=KEY_BYTES_MAX).contains(&key.len()) {
        return Ok(Found::Absent);
    }
    let Some(value) = database.get(txn, key)? else {
        return Ok(Found::Absent);
    };
    let len = value.len().min(to.len());
    to[..len].copy_from_slice(&value[..len]);
    Ok(Found::of(value.len(), to.len()))
}

impl Reads for Reader {
    fn get(&mut self, key: &[u8], value: &mut [u8]) -> Result<Found, IndexError> {
        self.with(|txn, database| get(txn, database, key, value))
    }

    fn get_batch(&mut self, keys: Keys<'_>, values: &mut Values<'_>) -> Result<(), IndexError> {
        values.admit(keys)?;
        self.with(|txn, database| {
            for at in 0..keys.len() {
                let (to, found) = values.place(at);
                *found = get(txn, database, keys.key(at), to)?;
            }
            Ok(())
        })
    }

    fn scan(
        &mut self,
        range: KeyRange<'_>,
        limit: usize,
        each: &mut EachRow<'_>,
    ) -> Result<usize, IndexError> {
        let range = bounds(range);
        self.with(|txn, database| {
            let Some(range) = range else { return Ok(0) };
            let mut given = 0;
            for row in database.range(txn, &range)?.take(limit) {
                let (key, value) = row?;
                given += 1;
                if each(key, value).is_break() {
                    break;
                }
            }
            Ok(given)
        })
    }

    fn state(&self) -> u64 {
        self.state
    }
}

impl Session for Reader {
    fn hold(&mut self, _by: Holder) -> Result<u64, IndexError> {
        if self.held.is_some() {
            return Err(IndexError::Held);
        }
        let index = &self.index;
        let txn = index.retried(|| index.env.clone().static_read_txn())?;
        self.state = txn.id() as u64;
        self.held = Some(txn);
        Ok(self.state)
    }

    fn release(&mut self, _by: Holder) {
        self.held = None;
    }
}
