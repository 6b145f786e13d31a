//! Tables of sessions, for whoever computes [`spec::Sessions`]: the keys by the numbers of their sessions, and the changes of such a table
//! as its [`Control`](crate::Control) takes them.
//!
//! Changes lie one behind another: the number of a session, four bytes; the length of its key, two bytes; the key. A key of no bytes ends
//! the session. All numbers are little endian. [`write_change`] writes one, [`changes`] reads them.
//!
//! After the commit that took a key out, the table that was live before still has it, until the next change is made there
//! ([`Versions`](crate::Versions)). Whoever wants the key gone at once makes one that changes nothing: it ends a session that there is not.

use std::sync::Arc;

use crate::{ChangeError, Material, SetupError, Versioned, spec};

/// Sessions of a table, at most: no number is higher.
pub const SESSIONS_MAX: u32 = 1 << 20;
/// Bytes of a session's number, at the start of an item and of a change.
pub const NUMBER_BYTES: usize = size_of::<u32>();
/// Bytes of a change before its key.
const HEAD_BYTES: usize = NUMBER_BYTES + size_of::<u16>();

/// The number of the session of `item`, which begins with it. `None` if the item is too short for one.
#[inline]
pub fn number(item: &[u8]) -> Option<u32> {
    let (number, _) = item.split_first_chunk::<NUMBER_BYTES>()?;
    Some(u32::from_le_bytes(*number))
}

/// A change of one session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionChange<'a> {
    /// The number of the session.
    pub number: u32,
    /// The key that the session has from now on; `None` ends it.
    pub key: Option<&'a [u8]>,
    /// The byte at which the change begins.
    at: usize,
}

impl SessionChange<'_> {
    /// The error for a key that an operator does not take.
    pub fn malformed(&self) -> ChangeError {
        ChangeError::Malformed { at: self.at }
    }
}

/// The changes that lie in `bytes`, in order. After an error there are none.
pub fn changes(bytes: &[u8]) -> impl Iterator<Item = Result<SessionChange<'_>, ChangeError>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        if at == bytes.len() {
            return None;
        }
        let read = change_at(bytes, at);
        at = read.as_ref().map_or(bytes.len(), |(_, end)| *end);
        Some(read.map(|(change, _)| change))
    })
}

/// The change at byte `at`, and where it ends.
fn change_at(bytes: &[u8], at: usize) -> Result<(SessionChange<'_>, usize), ChangeError> {
    let malformed = ChangeError::Malformed { at };
    let head = bytes[at..]
        .split_first_chunk::<HEAD_BYTES>()
        .ok_or(malformed)?;
    let ([n0, n1, n2, n3, l0, l1], behind) = head;
    let number = u32::from_le_bytes([*n0, *n1, *n2, *n3]);
    let len = usize::from(u16::from_le_bytes([*l0, *l1]));
    let key = behind.get(..len).ok_or(malformed)?;
    if number >= SESSIONS_MAX {
        return Err(ChangeError::Full);
    }
    let key = (len > 0).then_some(key);
    Ok((SessionChange { number, key, at }, at + HEAD_BYTES + len))
}

/// Appends a change: session `number` has `key` from now on, or ends if the key has no bytes.
///
/// # Panics
/// If the key is longer than 65,535 bytes.
pub fn write_change(changes: &mut Vec<u8>, number: u32, key: &[u8]) {
    let len = u16::try_from(key.len()).expect("a key of less than 64 KiB");
    changes.extend(number.to_le_bytes());
    changes.extend(len.to_le_bytes());
    changes.extend(key);
}

/// Keys by the numbers of their sessions, each as an operator uses it. A copy shares them.
#[derive(Debug)]
pub struct SessionTable<K>(Vec<Option<Arc<K>>>);

impl<K> SessionTable<K> {
    /// The table of `sessions`, whose keys `ready` makes ready.
    ///
    /// # Errors
    /// More than [`SESSIONS_MAX`] keys; those of `ready`.
    pub fn new<R: Into<Arc<K>>>(
        sessions: &spec::Sessions,
        mut ready: impl FnMut(&Material) -> Result<R, SetupError>,
    ) -> Result<Self, SetupError> {
        let spec::Sessions { of, keys } = sessions;
        if keys.len() > SESSIONS_MAX as usize {
            return Err(SetupError::Parameter(format!(
                "{of}: {} sessions; at most {SESSIONS_MAX} are possible",
                keys.len()
            )));
        }
        let keys = keys
            .iter()
            .map(|key| ready(key).map(|key| Some(key.into())));
        keys.collect::<Result<_, _>>().map(Self)
    }

    /// The key of session `number`, if there is such a session.
    #[inline]
    pub fn key(&self, number: u32) -> Option<&K> {
        self.0.get(number as usize)?.as_deref()
    }
}

impl<K> Default for SessionTable<K> {
    /// A table without sessions.
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<K> Clone for SessionTable<K> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K: Send + Sync + 'static> Versioned for SessionTable<K> {
    /// The changes of one call: the key that a session gets, or none.
    type Change = Box<[(u32, Option<Arc<K>>)]>;
    type Error = ChangeError;

    fn apply(&mut self, changes: &Self::Change) -> Result<(), ChangeError> {
        let Self(table) = self;
        for (number, key) in changes {
            let at = *number as usize;
            if at >= table.len() && key.is_some() {
                table.resize(at + 1, None);
            }
            if let Some(place) = table.get_mut(at) {
                place.clone_from(key);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_read_as_they_were_written() {
        let mut bytes = Vec::new();
        write_change(&mut bytes, 7, &[1; 16]);
        write_change(&mut bytes, SESSIONS_MAX - 1, &[]);
        // By the format, not by the writer.
        bytes.extend([2, 1, 0, 0, 3, 0, 9, 9, 9]);
        let read: Result<Vec<_>, _> = changes(&bytes).collect();
        let read: Vec<_> = read
            .expect("well formed")
            .iter()
            .map(|c| (c.number, c.key))
            .collect();
        let wanted: [(u32, Option<&[u8]>); 3] = [
            (7, Some(&[1; 16])),
            (SESSIONS_MAX - 1, None),
            (258, Some(&[9; 3])),
        ];
        assert_eq!(read, wanted);
        assert_eq!(changes(&[]).next(), None);
    }

    #[test]
    fn an_error_says_where_its_change_begins_and_ends_the_reading() {
        let mut good = Vec::new();
        write_change(&mut good, 7, &[1; 16]);
        // Cut anywhere in the second change.
        let mut two = good.clone();
        write_change(&mut two, 8, &[2; 16]);
        for end in good.len() + 1..two.len() {
            let mut read = changes(&two[..end]);
            let first = read.next().expect("whole").expect("well formed");
            assert_eq!(
                (first.number, first.malformed()),
                (7, ChangeError::Malformed { at: 0 })
            );
            let at = good.len();
            assert_eq!(
                read.next(),
                Some(Err(ChangeError::Malformed { at })),
                "{end}"
            );
            assert_eq!(read.next(), None);
        }
        write_change(&mut good, SESSIONS_MAX, &[1; 16]);
        assert_eq!(changes(&good).nth(1), Some(Err(ChangeError::Full)));
    }

    #[test]
    fn a_key_that_was_taken_out_goes_with_the_next_change() {
        let key = Arc::new(3);
        let end = |number| -> Box<[(u32, Option<Arc<u8>>)]> { [(number, None)].into() };
        let versions = crate::Versions::seated(Arc::new(SessionTable(vec![Some(key.clone())])));
        // Of a queue that gets no job.
        let _idle = versions.reader();
        for number in [0, 9] {
            assert!(Arc::strong_count(&key) > 1);
            versions.change(end(number)).expect("taken");
            versions.commit();
        }
        assert_eq!(Arc::strong_count(&key), 1);
    }

    #[test]
    fn a_table_grows_for_keys_alone_and_its_copies_share_them() {
        let mut table = SessionTable::<u8>::default();
        table.apply(&[(5, None)].into()).expect("taken");
        assert!(table.0.is_empty());
        let key = Arc::new(3);
        table
            .apply(&[(5, Some(key.clone()))].into())
            .expect("taken");
        let copy = table.clone();
        table.apply(&[(5, None)].into()).expect("taken");
        assert_eq!(
            (table.key(5), copy.key(5), copy.key(4), copy.key(6)),
            (None, Some(&3), None, None)
        );
        assert_eq!(Arc::strong_count(&key), 2);
    }
}
