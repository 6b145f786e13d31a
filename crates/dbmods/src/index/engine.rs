//! What every engine does: [`Index`], [`Session`], [`Snapshot`].

use std::fmt;
use std::ops::{ControlFlow, DerefMut};
use std::sync::Arc;

use super::{Found, IndexError, KEY_BYTES_MAX, KeyRange, Keys, VALUE_BYTES_MAX, Values};

/// One write of a transaction. Of several writes of one key, the last one counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write<'a> {
    /// Gives a key a value, in place of the one that it may have.
    Put {
        /// The key, of 1 to [`KEY_BYTES_MAX`] bytes.
        key: &'a [u8],
        /// The value, of up to [`VALUE_BYTES_MAX`] bytes.
        value: &'a [u8],
    },
    /// Takes a key away. One that is not there is no error.
    Delete {
        /// The key.
        key: &'a [u8],
    },
}

impl Write<'_> {
    /// Refuses keys and values of lengths that no engine takes.
    pub(super) fn check(&self) -> Result<(), IndexError> {
        let (key, value) = match self {
            Self::Put { key, value } => (*key, *value),
            Self::Delete { key } => (*key, &[][..]),
        };
        if !(1..=KEY_BYTES_MAX).contains(&key.len()) {
            return Err(IndexError::KeyLength {
                bytes: key.len(),
                max: KEY_BYTES_MAX,
            });
        }
        if value.len() > VALUE_BYTES_MAX {
            return Err(IndexError::ValueLength {
                bytes: value.len(),
                max: VALUE_BYTES_MAX,
            });
        }
        Ok(())
    }
}

/// The crashes that a committed transaction survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// None: the data lie in the memory of the process, and end with it.
    Volatile,
    /// The end of the process, at any moment: the system has the pages. A crash of the system or a loss of power may lose any transaction, and may
    /// leave a file that cannot be used.
    None,
    /// The end of the process; a crash of the system but for the last transaction. The file stays whole.
    Commit,
    /// The end of the process, and a crash of the system.
    Sync,
}

impl Durability {
    /// All of them, the weakest first.
    pub const ALL: [Self; 4] = [Self::Volatile, Self::None, Self::Commit, Self::Sync];

    /// The word for it, in flags and records.
    pub fn word(self) -> &'static str {
        match self {
            Self::Volatile => "volatile",
            Self::None => "none",
            Self::Commit => "commit",
            Self::Sync => "sync",
        }
    }
}

/// What an index holds and takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Keys with a value.
    pub keys: u64,
    /// Bytes of memory, or of the file, that are in use: data, nodes and spare room in them, old versions, pages that wait to be used again.
    pub bytes: u64,
    /// Bytes of these that serve old states alone: versions in memory. Zero for LMDB, which keeps old pages among the others.
    pub versions_bytes: u64,
    /// Sessions that are open.
    pub sessions: u64,
    /// The newest committed state.
    pub newest: u64,
    /// The oldest state that a session reads, or the newest one if none reads.
    pub oldest: u64,
}

/// What [`Index::delete_range`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deleted {
    /// The state that the transaction made.
    pub state: u64,
    /// Keys that it took away. Fewer than the limit were all of the range.
    pub keys: usize,
}

/// An ordered index that threads share. See [the module](super) for what it promises.
///
/// States are numbered. A transaction has the number of the state that it makes, so a read of state `s` sees exactly the transactions with numbers up
/// to `s`. The numbers of one index say nothing about those of another.
pub trait Index: Send + Sync + fmt::Debug {
    /// The engine's name, for tables and records.
    fn name(&self) -> &'static str;

    /// The crashes that a committed transaction survives, for records.
    fn durability(&self) -> Durability;

    /// A lane for one thread's reads. It keeps the index alive, so that a queue can own it.
    ///
    /// # Errors
    /// [`IndexError::Sessions`] if as many are open as may be.
    fn session(self: Arc<Self>) -> Result<Box<dyn Session>, IndexError>;

    /// Carries out all writes as one transaction, and gives the number of the state that they make. A later transaction has a larger one; one that
    /// changes nothing may have the number of the state that was there. Writers take turns. Keys in order are written fastest and leave full nodes.
    ///
    /// # Errors
    /// See [`IndexError`]; nothing is changed then.
    fn apply(&self, writes: &[Write<'_>]) -> Result<u64, IndexError>;

    /// Takes the first keys of a range away, at most `limit`, as one transaction. Called until it takes fewer than `limit`, it empties a range in steps
    /// that let other writers in.
    ///
    /// # Errors
    /// As [`Index::apply`].
    fn delete_range(&self, range: KeyRange<'_>, limit: usize) -> Result<Deleted, IndexError>;

    /// A transaction of one [`Write::Put`].
    ///
    /// # Errors
    /// As [`Index::apply`].
    fn put(&self, key: &[u8], value: &[u8]) -> Result<u64, IndexError> {
        self.apply(&[Write::Put { key, value }])
    }

    /// A transaction of one [`Write::Delete`].
    ///
    /// # Errors
    /// As [`Index::apply`].
    fn delete(&self, key: &[u8]) -> Result<u64, IndexError> {
        self.apply(&[Write::Delete { key }])
    }

    /// Brings what was committed to the disk. A [volatile](Durability::Volatile) index has none, and does nothing.
    ///
    /// # Errors
    /// [`IndexError::Lmdb`].
    fn flush(&self) -> Result<(), IndexError>;

    /// What it holds and takes now. It does not wait for a transaction.
    ///
    /// # Errors
    /// [`IndexError::Lmdb`], [`IndexError::Broken`].
    fn usage(&self) -> Result<Usage, IndexError>;
}

/// What a scan calls with each key and its value, in order, until it breaks.
pub type EachRow<'a> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'a;

/// Reads of one thread, of the newest state ([`Session`]) or of one that is held ([`Snapshot`]).
pub trait Reads: Send {
    /// Looks one key up, and writes its value to `value`.
    ///
    /// # Errors
    /// [`IndexError::Lmdb`], [`IndexError::Broken`].
    fn get(&mut self, key: &[u8], value: &mut [u8]) -> Result<Found, IndexError>;

    /// Looks all keys up in one state. This is the main way: an engine overlaps the waits for memory of many keys.
    ///
    /// # Errors
    /// [`IndexError::Layout`] if there are more keys than room, [`IndexError::Offsets`], [`IndexError::Lmdb`], [`IndexError::Broken`].
    fn get_batch(&mut self, keys: Keys<'_>, values: &mut Values<'_>) -> Result<(), IndexError>;

    /// Gives `each` the pairs of a range in order, at most `limit`, until it breaks. Says how many were given. All pairs are of one state. A scan
    /// that broke goes on with [`KeyRange::after`] the last key.
    ///
    /// # Errors
    /// [`IndexError::Memory`] if a long value finds no room, [`IndexError::Lmdb`], [`IndexError::Broken`].
    fn scan(
        &mut self,
        range: KeyRange<'_>,
        limit: usize,
        each: &mut EachRow<'_>,
    ) -> Result<usize, IndexError>;

    /// The state that is held, or else the one that the last call read; zero before the first call. The reads of this call saw every
    /// transaction up to this number, and none above.
    fn state(&self) -> u64;
}

/// A lane for one thread's reads. Each call reads the newest committed state. A [`Snapshot`] reads one state in many calls.
pub trait Session: Reads {
    /// Holds the newest committed state until [`Session::release`], and says which it is. Calls read that one then.
    ///
    /// # Errors
    /// [`IndexError::Held`] if one is held, [`IndexError::Lmdb`].
    fn hold(&mut self, by: Holder) -> Result<u64, IndexError>;

    /// Ends what [`Session::hold`] began. Without that, it does nothing.
    fn release(&mut self, by: Holder);
}

/// The proof that a [`Snapshot`] calls: nothing else makes one. An engine over other engines passes it on.
#[derive(Clone, Copy, Debug)]
pub struct Holder(());

/// A session that holds one state of the index for as long as this lives. `S` is a `&mut dyn Session`, or a `Box<dyn Session>` that it owns.
///
/// Versions and pages that the state needs stay, so a snapshot that is held for long makes an index grow while others write, and fail with
/// [`IndexError::Full`] at last ([`Usage::oldest`] tells).
pub struct Snapshot<S: DerefMut<Target = dyn Session>> {
    /// None from [`Snapshot::release`] on.
    session: Option<S>,
    /// None after [`Snapshot::renew`] failed.
    state: Option<u64>,
}

impl<S: DerefMut<Target = dyn Session>> Snapshot<S> {
    /// Holds the newest committed state.
    ///
    /// # Errors
    /// As [`Session::hold`].
    pub fn of(mut session: S) -> Result<Self, IndexError> {
        let state = session.hold(Holder(()))?;
        Ok(Self {
            session: Some(session),
            state: Some(state),
        })
    }

    /// Lets the state go, and holds the one that is newest now. In a [`Tree`](super::Tree) it allocates nothing.
    ///
    /// # Errors
    /// As [`Session::hold`]. Nothing is held then, and reads fail with [`IndexError::Released`] until this succeeds.
    pub fn renew(&mut self) -> Result<u64, IndexError> {
        let session = self.session.as_mut().ok_or(IndexError::Released)?;
        if self.state.take().is_some() {
            session.release(Holder(()));
        }
        let state = session.hold(Holder(()))?;
        self.state = Some(state);
        Ok(state)
    }

    /// Lets the state go, and gives the session back.
    pub fn release(mut self) -> S {
        let mut session = self.session.take().expect("only this takes it");
        session.release(Holder(()));
        session
    }

    /// The session, while it holds the state.
    fn held(&mut self) -> Result<&mut S, IndexError> {
        match (&mut self.session, self.state) {
            (Some(session), Some(_)) => Ok(session),
            _ => Err(IndexError::Released),
        }
    }
}

impl<S: DerefMut<Target = dyn Session> + Send> Reads for Snapshot<S> {
    fn get(&mut self, key: &[u8], value: &mut [u8]) -> Result<Found, IndexError> {
        self.held()?.get(key, value)
    }

    fn get_batch(&mut self, keys: Keys<'_>, values: &mut Values<'_>) -> Result<(), IndexError> {
        self.held()?.get_batch(keys, values)
    }

    fn scan(
        &mut self,
        range: KeyRange<'_>,
        limit: usize,
        each: &mut EachRow<'_>,
    ) -> Result<usize, IndexError> {
        self.held()?.scan(range, limit, each)
    }

    fn state(&self) -> u64 {
        self.state.unwrap_or(0)
    }
}

impl<S: DerefMut<Target = dyn Session>> Drop for Snapshot<S> {
    fn drop(&mut self) {
        if let Some(session) = &mut self.session {
            session.release(Holder(()));
        }
    }
}

impl<S: DerefMut<Target = dyn Session>> fmt::Debug for Snapshot<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut snapshot = f.debug_struct("Snapshot");
        snapshot.field("state", &self.state);
        snapshot.finish_non_exhaustive()
    }
}
