//! Partial aggregates as bytes: groups ascending, each its key, its count and its states, in postcard.

use std::collections::HashMap;

use serde::Deserialize;

use super::super::ScanError;
use super::state::{Accumulated, Key, Partial, State};
use super::{Aggregation, GROUPS_MAX, Part};

/// The error of bytes that no scan has written.
const MALFORMED: ScanError = ScanError::Malformed("a partial aggregate");

/// The rest of a partial aggregate's bytes.
struct PartialReader<'a>(&'a [u8]);

impl PartialReader<'_> {
    fn take<T: for<'de> Deserialize<'de>>(&mut self) -> Result<T, ScanError> {
        let (value, rest) = postcard::take_from_bytes(self.0).map_err(|_| MALFORMED)?;
        self.0 = rest;
        Ok(value)
    }

    /// A list of a length that is known, so that nobody else chooses it.
    fn list<T: for<'de> Deserialize<'de>>(&mut self, len: usize) -> Result<Vec<T>, ScanError> {
        if self.take::<u64>()? != len as u64 {
            return Err(MALFORMED);
        }
        (0..len).map(|_| self.take()).collect()
    }
}

impl Aggregation {
    /// Writes a partial aggregate, groups ascending; says how many bytes, or nothing if they are too many for `slot`.
    pub(in crate::scan) fn write(
        &self,
        partial: &Partial,
        slot: &mut [u8],
    ) -> Result<Option<usize>, ScanError> {
        let mut groups: Vec<(&Vec<Key>, &Accumulated)> = partial.groups.iter().collect();
        groups.sort_by_key(|(key, _)| *key);
        match postcard::to_slice(&groups, slot) {
            Ok(written) => Ok(Some(written.len())),
            Err(postcard::Error::SerializeBufferFull) => Ok(None),
            Err(_) => Err(ScanError::Internal("a partial aggregate cannot be written")),
        }
    }

    /// The bytes that [`Aggregation::write`] writes, however many.
    pub(in crate::scan) fn to_bytes(&self, partial: &Partial) -> Result<Vec<u8>, ScanError> {
        let mut groups: Vec<(&Vec<Key>, &Accumulated)> = partial.groups.iter().collect();
        groups.sort_by_key(|(key, _)| *key);
        let written = postcard::to_stdvec(&groups);
        written.map_err(|_| ScanError::Internal("a partial aggregate cannot be written"))
    }

    /// Reads what [`Aggregation::write`] has written, or a stranger: it takes memory in proportion to the bytes.
    pub(in crate::scan) fn read(&self, bytes: &[u8]) -> Result<Partial, ScanError> {
        let mut from = PartialReader(bytes);
        let count: u64 = from.take()?;
        if count > GROUPS_MAX as u64 {
            return Err(ScanError::TooManyGroups(GROUPS_MAX));
        }
        let mut groups = HashMap::new();
        let mut last: Option<Vec<Key>> = None;
        for _ in 0..count {
            let key: Vec<Key> = from.list(self.group_by.len())?;
            let count = from.take()?;
            let states: Vec<State> = from.list(self.parts.len())?;
            let fits = states.iter().zip(&self.parts).all(|(state, part)| {
                matches!(
                    (state, part),
                    (State::Nothing, _)
                        | (State::Integer(_), Part::Sum(_) | Part::Extreme(..))
                        | (State::Text(_), Part::ExtremeText(..))
                )
            });
            if !fits || last.is_some_and(|last| last >= key) {
                return Err(MALFORMED);
            }
            last = Some(key.clone());
            groups.insert(key, Accumulated { count, states });
        }
        match from.0.is_empty() {
            true => Ok(Partial { groups }),
            false => Err(MALFORMED),
        }
    }
}
