//! LMDB, through heed: a B+tree in a file that is mapped, copied on write.
//!
//! LMDB 0.9 from `mdb.master`, as lmdb-master-sys compiles it. Its own documentation (lmdb.h) is the source for what the flags promise.
#![allow(unsafe_code)]

use std::fmt;
use std::ops::Bound;
use std::path::{Path, PathBuf};

use heed::types::Bytes;
use heed::{CommitOrAbort, Database, Env, EnvFlags, EnvOpenOptions, MdbError, RoTxn, WithoutTls};

use super::{
    EachRow, Found, Index, IndexError, KEY_BYTES_MAX, Keys, Session, Usage, Values, Write,
};

/// What a transaction that was committed survives. The process may end at any moment without loss with each of these, as the system has the pages then; they differ in
/// what a crash of the system or a loss of power does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Nothing is flushed (`MDB_NOSYNC`, and `MDB_WRITEMAP`, with which it is fastest). A crash of the system may lose any transaction, and may leave a file that cannot be read.
    None,
    /// Data are flushed at each commit, the page that makes them public is not (`MDB_NOMETASYNC`). A crash of the system may lose the last transaction; the file
    /// stays whole.
    Commit,
    /// Both are flushed at each commit. Nothing that was committed is lost.
    Sync,
}

impl Durability {
    fn flags(self) -> EnvFlags {
        // A read of a random key has no use for the pages behind it.
        let flags = EnvFlags::NO_READ_AHEAD;
        match self {
            Self::None => flags | EnvFlags::NO_SYNC | EnvFlags::WRITE_MAP,
            Self::Commit => flags | EnvFlags::NO_META_SYNC,
            Self::Sync => flags,
        }
    }
}

/// How LMDB is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LmdbOptions {
    /// The folder of its two files. It is made if it is not there. A process opens a folder once.
    pub folder: PathBuf,
    /// The largest size of the file. It takes no room before it is used, but never grows beyond this; [`Lmdb::map_bytes`] says what data need.
    pub map_bytes: u64,
    /// Sessions that may be open at once.
    pub sessions_max: u32,
    /// What commits survive.
    pub durability: Durability,
}

/// The engine over LMDB. See [the module](super) for what it promises.
///
/// A transaction of LMDB's is one transaction here, and a snapshot is a read transaction of LMDB's. A held one keeps pages from being used again, so the
/// file grows while others write.
pub struct Lmdb {
    env: Env<WithoutTls>,
    database: Database<'static, Bytes, Bytes>,
    map_bytes: u64,
}

/// Bytes of LMDB's pages on machines with pages of 4 KiB.
const PAGE: u64 = 4096;

impl Lmdb {
    /// Bytes of a map that holds so many records, whatever order they are written in, with the copies that updates make: pages that are half full, and
    /// half as much again. A value of more than half a page takes pages of its own.
    pub fn map_bytes(records: u64, key_bytes: u64, value_bytes: u64) -> u64 {
        let node = 10 + key_bytes + value_bytes;
        let per_record = match node > PAGE / 2 - 16 {
            true => (value_bytes + 16).next_multiple_of(PAGE) + 2 * (18 + key_bytes),
            false => 2 * node,
        };
        let data = records.saturating_mul(per_record);
        (data.saturating_add(data / 2).saturating_add(16 << 20)).next_multiple_of(PAGE)
    }

    /// Opens the index of a folder, or makes one.
    ///
    /// # Errors
    /// [`IndexError::Folder`], [`IndexError::Disk`] if the file system has no room for the whole map, [`IndexError::Lmdb`].
    pub fn open(options: &LmdbOptions) -> Result<Self, IndexError> {
        let folder = &options.folder;
        let refused = |source| IndexError::Folder {
            path: folder.display().to_string(),
            source,
        };
        std::fs::create_dir_all(folder).map_err(refused)?;
        admit(folder, options.map_bytes).map_err(refused)??;
        let map_bytes = options.map_bytes.next_multiple_of(PAGE);
        let mut open = EnvOpenOptions::new().read_txn_without_tls();
        open.map_size(usize::try_from(map_bytes).unwrap_or(usize::MAX));
        open.max_readers(options.sessions_max);
        // SAFETY: without `NO_LOCK`, processes exclude each other by LMDB's lock file, and `NO_SYNC` leaves a file that is broken only if the system crashes,
        // which the option's documentation says. What remains is that nobody else may write to the file while it is mapped; a folder that is given
        // to this index is the index's.
        let env = unsafe {
            open.flags(options.durability.flags());
            open.open(folder)?
        };
        let txn = env.write_txn()?;
        let made =
            env.create_databases_and_commit(txn, |opener, txn| -> Result<_, heed::Error> {
                let database = opener.create_database::<Bytes, Bytes>(txn, None)?;
                Ok(CommitOrAbort::<_, ()>::Commit(database))
            })?;
        Ok(Self {
            database: made.unwrap_commit(),
            env,
            map_bytes,
        })
    }

    /// Flushes what was committed to the disk.
    ///
    /// # Errors
    /// [`IndexError::Lmdb`].
    pub fn flush(&self) -> Result<(), IndexError> {
        Ok(self.env.force_sync()?)
    }

    /// Names the cause where LMDB has one that a person can act on.
    fn error(&self, error: heed::Error) -> IndexError {
        match error {
            heed::Error::Mdb(MdbError::MapFull) => IndexError::Full {
                what: "the pages of an LMDB map",
                limit_bytes: self.map_bytes,
                remedy: "release the snapshots that are held, or open it with a larger map",
            },
            error => IndexError::Lmdb(error),
        }
    }
}

/// Refuses a map that would not fit. What its file takes already counts as free.
fn admit(folder: &Path, map_bytes: u64) -> std::io::Result<Result<(), IndexError>> {
    let system = rustix::fs::statvfs(folder)?;
    let there = std::fs::metadata(folder.join("data.mdb")).map_or(0, |file| file.len());
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
        "lmdb"
    }

    fn session(&self) -> Result<Box<dyn Session + '_>, IndexError> {
        // LMDB counts read transactions, not sessions; a session that could not read would help nobody.
        drop(self.read()?);
        Ok(Box::new(Reader {
            index: self,
            held: None,
        }))
    }

    fn apply(&self, writes: &[Write<'_>]) -> Result<u64, IndexError> {
        for write in writes {
            write.check()?;
        }
        let mut txn = self.env.write_txn()?;
        for write in writes {
            let written = match write {
                Write::Put { key, value } => self.database.put(&mut txn, key, value),
                Write::Delete { key } => self.database.delete(&mut txn, key).map(drop),
            };
            written.map_err(|error| self.error(error))?;
        }
        let number = txn.id() as u64;
        txn.commit().map_err(|error| self.error(error))?;
        Ok(number)
    }

    fn usage(&self) -> Result<Usage, IndexError> {
        let txn = self.read()?;
        Ok(Usage {
            keys: self.database.len(&txn)?,
            bytes: (self.env.info().last_page_number as u64 + 1) * PAGE,
        })
    }
}

impl Lmdb {
    fn read(&self) -> Result<RoTxn<'_, WithoutTls>, IndexError> {
        self.env.read_txn().map_err(|error| match error {
            heed::Error::Mdb(MdbError::ReadersFull) => IndexError::Sessions {
                max: self.env.max_readers() as usize,
            },
            error => self.error(error),
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

/// A session of LMDB's.
struct Reader<'a> {
    index: &'a Lmdb,
    held: Option<RoTxn<'a, WithoutTls>>,
}

impl Reader<'_> {
    /// Calls `read` with the held transaction or one of its own.
    #[inline]
    fn with<T>(
        &self,
        read: impl FnOnce(&RoTxn<'_>, Database<'static, Bytes, Bytes>) -> Result<T, IndexError>,
    ) -> Result<T, IndexError> {
        match &self.held {
            Some(txn) => read(txn, self.index.database),
            None => read(&*self.index.read()?, self.index.database),
        }
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

impl Session for Reader<'_> {
    fn get(&mut self, key: &[u8], value: &mut [u8]) -> Result<Found, IndexError> {
        self.with(|txn, database| get(txn, database, key, value))
    }

    fn get_batch(&mut self, keys: Keys<'_>, values: &mut Values<'_>) -> Result<(), IndexError> {
        values.admit(keys.len())?;
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
        from: &[u8],
        limit: usize,
        each: &mut EachRow<'_>,
    ) -> Result<usize, IndexError> {
        let from = &from[..from.len().min(KEY_BYTES_MAX)];
        self.with(|txn, database| {
            let bounds = match from.is_empty() {
                true => (Bound::Unbounded, Bound::Unbounded),
                false => (Bound::Included(from), Bound::Unbounded),
            };
            let mut given = 0;
            for row in database.range(txn, &bounds)?.take(limit) {
                let (key, value) = row?;
                given += 1;
                if each(key, value).is_break() {
                    break;
                }
            }
            Ok(given)
        })
    }

    fn hold(&mut self) -> Result<(), IndexError> {
        if self.held.is_some() {
            return Err(IndexError::Held);
        }
        self.held = Some(self.index.read()?);
        Ok(())
    }

    fn release(&mut self) {
        self.held = None;
    }
}
