//! A workload that is seldom asked twice.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::OpSpec;
use crate::workload::{Input, Right, Workload};

/// The bytes that it remembers at most; beyond them it begins anew.
const BYTES_MAX: usize = if cfg!(miri) { 1 << 10 } else { 1 << 26 };

/// Another workload, whose answers it remembers: the suite lays the same items out in many ways, and an oracle is often slower than what it
/// judges. It begins anew where the answers would take more than 64 MiB. Where several backends are tried on one workload, each gets the same
/// one of these.
///
/// ```
/// use dpb_core::{Backend, Workload, conformance};
///
/// fn pass(backends: &[&dyn Backend], workload: &dyn Workload) {
///     let workload = conformance::Remembered::new(workload);
///     for backend in backends {
///         conformance::check(*backend, &[&workload]).unwrap_or_else(|failure| panic!("{failure}"));
///     }
/// }
/// ```
pub struct Remembered<'a> {
    of: &'a dyn Workload,
    known: Mutex<Known>,
}

/// Its answers.
#[derive(Default)]
struct Known {
    /// By seed, length and count.
    plain: HashMap<(u64, usize, usize), Input>,
    encoded: HashMap<Vec<u8>, Result<Vec<u8>, String>>,
    /// The slot that was last asked about, by item.
    right: HashMap<Vec<u8>, (usize, Right)>,
    /// The output that was last approved, by item.
    approved: HashMap<Vec<u8>, Vec<u8>>,
    bytes: usize,
}

impl<'a> Remembered<'a> {
    /// Remembers the answers of `workload`.
    pub fn new(workload: &'a dyn Workload) -> Self {
        Self {
            of: workload,
            known: Mutex::default(),
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps `answer` in one of the maps. Nothing is held while a workload is asked, so two threads may both ask.
    fn keep<K: std::hash::Hash + Eq, A: Clone>(
        &self,
        map: impl FnOnce(&mut Known) -> &mut HashMap<K, A>,
        (key, answer): (K, A),
        bytes: usize,
    ) -> A {
        let mut known = self.known();
        if known.bytes + bytes > BYTES_MAX {
            *known = Known::default();
        }
        known.bytes += bytes;
        map(&mut known).insert(key, answer.clone());
        answer
    }
}

impl Workload for Remembered<'_> {
    fn spec(&self) -> &OpSpec {
        self.of.spec()
    }

    fn name(&self) -> &str {
        self.of.name()
    }

    fn plain(&self, seed: u64, len: usize, count: usize) -> Input {
        let key = (seed, len, count);
        if let Some(known) = self.known().plain.get(&key) {
            return known.clone();
        }
        let plain = self.of.plain(seed, len, count);
        let bytes = plain.bytes.len();
        self.keep(|known| &mut known.plain, (key, plain), bytes)
    }

    fn encode_item(&self, plain: &[u8]) -> Result<Vec<u8>, String> {
        if let Some(known) = self.known().encoded.get(plain) {
            return known.clone();
        }
        let item = self.of.encode_item(plain);
        let bytes = plain.len() + item.as_ref().map_or(0, Vec::len);
        self.keep(|known| &mut known.encoded, (plain.to_vec(), item), bytes)
    }

    fn describe(&self, plain: &str) -> String {
        self.of.describe(plain)
    }

    fn slot_bytes(&self, plain_len: usize) -> Option<usize> {
        self.of.slot_bytes(plain_len)
    }

    fn cost_bytes(&self) -> usize {
        self.of.cost_bytes()
    }

    fn right(&self, item: &[u8], slot_bytes: usize) -> Right {
        if let Some((asked, right)) = self.known().right.get(item)
            && *asked == slot_bytes
        {
            return right.clone();
        }
        let right = self.of.right(item, slot_bytes);
        let bytes = match &right {
            Right::Only(output) => item.len() + output.len(),
            Right::AnyValid | Right::Refused(_) => item.len(),
        };
        let answer = (item.to_vec(), (slot_bytes, right));
        self.keep(|known| &mut known.right, answer, bytes).1
    }

    fn approve(&self, item: &[u8], output: &[u8]) -> Result<(), String> {
        let is_it = |known: &Vec<u8>| known == output;
        if self.known().approved.get(item).is_some_and(is_it) {
            return Ok(());
        }
        self.of.approve(item, output)?;
        let answer = (item.to_vec(), output.to_vec());
        let bytes = item.len() + output.len();
        self.keep(|known| &mut known.approved, answer, bytes);
        Ok(())
    }

    fn spoil(&self, item: &mut Vec<u8>, seed: u64) {
        self.of.spoil(item, seed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use crate::{Exact, JobError};

    #[test]
    fn it_answers_as_the_workload_does_and_asks_it_once() {
        let asked = AtomicU32::new(0);
        let long = vec![7; BYTES_MAX];
        let sum = |item: &[u8], slot_bytes: usize| {
            asked.fetch_add(1, Ordering::Relaxed);
            match item {
                [] => Err(JobError::Malformed),
                _ => Ok(vec![item.len() as u8, slot_bytes as u8]),
            }
        };
        let workload = Exact::new(&OpSpec::custom("sum", []), "by hand", sum);
        let remembered = Remembered::new(&workload);
        let ask = |item: &[u8], slot_bytes: usize| {
            let right = remembered.right(item, slot_bytes);
            assert_eq!(right, workload.right(item, slot_bytes));
            // The comparison asked once, too.
            asked.swap(0, Ordering::Relaxed) - 1
        };
        assert_eq!(ask(b"one", 9), 1);
        assert_eq!(ask(b"one", 9), 0);
        assert_eq!(ask(b"two", 9), 1);
        assert_eq!(ask(b"one", 9), 0);
        assert_eq!(ask(b"one", 8), 1);
        assert_eq!(ask(b"", 8), 1);
        assert_eq!(ask(b"", 8), 0);
        // Too much to keep anything besides.
        assert_eq!(ask(&long, 8), 1);
        assert_eq!(ask(b"one", 8), 1);
        for _ in 0..2 {
            assert_eq!(remembered.check(b"two", Ok(&[3, 8]), 8), Ok(()));
            assert!(remembered.check(b"two", Ok(&[4, 8]), 8).is_err());
        }
        assert_eq!(asked.swap(0, Ordering::Relaxed), 1);
        for _ in 0..2 {
            assert_eq!(
                remembered.plain(3, 5, 2).bytes,
                workload.plain(3, 5, 2).bytes
            );
            assert_eq!(remembered.encode_item(b"abc"), Ok(b"abc".to_vec()));
            assert!(remembered.approve(b"abc", b"d").is_err());
        }
    }
}
