//! What every engine does: [`Index`], [`Session`], [`Snapshot`].

use std::fmt;
use std::ops::{ControlFlow, Deref, DerefMut};

use super::{Found, IndexError, KEY_BYTES_MAX, Keys, VALUE_BYTES_MAX, Values};

/// One write of a transaction. Of several writes of one key, the last one counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write<'a> {
    /// Gives a key a value, whether it has one or not.
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

/// What an index holds and takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Keys with a value.
    pub keys: u64,
    /// Bytes of memory, or of the file, that are in use: data, nodes and spare room in them, old versions, pages that wait to be used again.
    pub bytes: u64,
}

/// An ordered index that threads share. See [the module](super) for what it promises.
pub trait Index: Send + Sync + fmt::Debug {
    /// The engine's name, for tables and records.
    fn name(&self) -> &'static str;

    /// A lane for one thread's reads.
    ///
    /// # Errors
    /// [`IndexError::Sessions`] if as many are open as may be.
    fn session(&self) -> Result<Box<dyn Session + '_>, IndexError>;

    /// Carries out all writes as one transaction, and gives its number. A later transaction has a larger one; one that changes nothing may
    /// share its number with a neighbour. Writers take turns.
    ///
    /// # Errors
    /// See [`IndexError`]; nothing is changed then.
    fn apply(&self, writes: &[Write<'_>]) -> Result<u64, IndexError>;

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

    /// What it holds and takes now.
    ///
    /// # Errors
    /// [`IndexError::Lmdb`].
    fn usage(&self) -> Result<Usage, IndexError>;
}

/// What a scan calls with each key and its value, in order, until it breaks.
pub type EachRow<'a> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'a;

/// One thread's reads. Each call reads the newest committed state, or the held one between [`Session::hold`] and [`Session::release`],
/// which [`Snapshot`] calls.
pub trait Session: Send {
    /// Looks one key up, and writes its value to `value`.
    ///
    /// # Errors
    /// [`IndexError::Lmdb`].
    fn get(&mut self, key: &[u8], value: &mut [u8]) -> Result<Found, IndexError>;

    /// Looks all keys up in one snapshot. This is the main way: an engine overlaps the waits for memory of many keys.
    ///
    /// # Errors
    /// [`IndexError::Layout`] if there are more keys than room, [`IndexError::Lmdb`].
    fn get_batch(&mut self, keys: Keys<'_>, values: &mut Values<'_>) -> Result<(), IndexError>;

    /// Gives `each` the pairs from the first key that is not less than `from` on, in order, at most `limit`, until it breaks. Says how many
    /// were given. An empty `from` is the beginning. All pairs are of one snapshot.
    ///
    /// # Errors
    /// [`IndexError::Lmdb`].
    fn scan(
        &mut self,
        from: &[u8],
        limit: usize,
        each: &mut EachRow<'_>,
    ) -> Result<usize, IndexError>;

    /// Holds the newest committed state, so that later calls read it.
    ///
    /// # Errors
    /// [`IndexError::Held`] if one is held, [`IndexError::Lmdb`].
    fn hold(&mut self) -> Result<(), IndexError>;

    /// Ends what [`Session::hold`] began. Without that, it does nothing.
    fn release(&mut self);
}

/// A session that holds one state of the index for as long as this lives.
pub struct Snapshot<'a>(&'a mut (dyn Session + 'a));

impl<'a> Snapshot<'a> {
    /// Holds the newest committed state.
    ///
    /// # Errors
    /// As [`Session::hold`].
    pub fn of<'s: 'a>(session: &'a mut (dyn Session + 's)) -> Result<Self, IndexError> {
        session.hold()?;
        Ok(Self(session))
    }
}

impl<'a> Deref for Snapshot<'a> {
    type Target = dyn Session + 'a;

    fn deref(&self) -> &Self::Target {
        self.0
    }
}

impl DerefMut for Snapshot<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        self.0
    }
}

impl Drop for Snapshot<'_> {
    fn drop(&mut self) {
        self.0.release();
    }
}

impl fmt::Debug for Snapshot<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot").finish_non_exhaustive()
    }
}
