//! Long values, in runs of cache lines.
//!
//! A value lies in one run of as many lines as it needs, one behind another, so that a scan can lend it as it is. One of more than
//! [`RUN_BYTES`] is a chain: runs of that length, each of which begins with the word of the next, and a last one with the rest.
//!
//! A run's word names its first line and the number of its lines, which may be more than the value needs: a run that is used again is cut only if another
//! value could have the rest. A run is written once, read by whoever finds its word, and used again when nobody can.
#![allow(unsafe_code)]

use dpb_core::prefetch::prefetch_item;

use super::arena::Arena;
use super::node::{LINE, Word, copy_bytes, load, store, words_for, write_bytes};
use super::slot::INLINE_BYTES_MAX;
use crate::index::IndexError;

/// Bytes of a line.
const LINE_BYTES: usize = LINE * 8;
/// Lines of a run, at most: a bit each in a word.
const LINES_MAX: usize = 64;
/// Bytes of a value in one run, at most: 4 KiB.
pub(super) const RUN_BYTES: usize = LINES_MAX * LINE_BYTES;
/// Bytes of a value in a run that names the next.
const CHAINED_BYTES: usize = RUN_BYTES - 8;
/// The fewest lines of a value that is long. What is left of a run is of use from this many on.
const LINES_MIN: usize = INLINE_BYTES_MAX / LINE_BYTES + 1;
/// Where the lines are in a run's word.
const LINES_SHIFT: u32 = 32;

/// A run, as leaves and chains name it. Any word, if it was read while its node changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    line: u32,
    lines: usize,
}

impl Run {
    fn of(word: u64) -> Self {
        Self {
            line: word as u32,
            lines: ((word >> LINES_SHIFT) as usize).min(LINES_MAX),
        }
    }

    fn word(self) -> u64 {
        u64::from(self.line) | (self.lines as u64) << LINES_SHIFT
    }
}

/// Lines of a value's last run, whose rest is so long.
fn lines_for(bytes: usize) -> usize {
    bytes.div_ceil(LINE_BYTES).max(1)
}

/// Lines of all runs of a value, and the number of these, where each run is as long as it needs.
fn lines_of(mut bytes: usize) -> (usize, usize) {
    let chained = bytes.saturating_sub(RUN_BYTES).div_ceil(CHAINED_BYTES);
    bytes -= chained * CHAINED_BYTES;
    (chained * LINES_MAX + lines_for(bytes), chained + 1)
}

/// The runs, for readers.
#[derive(Debug)]
pub(super) struct Runs(Arena<LINE>);

impl Runs {
    pub(super) fn new() -> Self {
        Self(Arena::new())
    }

    /// Bytes of memory that a value takes, about: a run may be longer than it needs.
    pub(super) fn bytes_of(&self, bytes: usize) -> u32 {
        (lines_of(bytes).0 * LINE_BYTES) as u32
    }

    /// Writes a value, and gives the word of its first run. Its room was reserved.
    pub(super) fn write(&self, free: &mut FreeRuns, bytes: &[u8]) -> u64 {
        let (_, runs) = lines_of(bytes.len());
        let (chained, rest) = bytes.split_at((runs - 1) * CHAINED_BYTES);
        let last = free.take(lines_for(rest.len()));
        write_bytes(self.words(last), rest);
        let mut next = last.word();
        for piece in chained.rchunks(CHAINED_BYTES) {
            let run = free.take(LINES_MAX);
            let words = self.words(run);
            store(&words[0], next);
            write_bytes(&words[1..], piece);
            next = run.word();
        }
        next
    }

    /// Reads the first bytes of a value of `len` bytes, as many as `to` takes. False if it ends before, which a word that was read while its node changed
    /// may lead to.
    pub(super) fn read(&self, first: u64, mut len: usize, mut to: &mut [u8]) -> bool {
        let mut run = Run::of(first);
        while len > RUN_BYTES {
            let Some(words) = self.try_words(run) else {
                return false;
            };
            let piece = to.len().min(CHAINED_BYTES);
            let (now, later) = to.split_at_mut(piece);
            if words.len() <= words_for(piece) {
                return false;
            }
            copy_bytes(&words[1..], now);
            if later.is_empty() {
                return true;
            }
            (to, len) = (later, len - CHAINED_BYTES);
            run = Run::of(load(&words[0]));
        }
        match self.try_words(run) {
            Some(words) if words.len() >= words_for(to.len()) => {
                copy_bytes(words, to);
                true
            }
            _ => false,
        }
    }

    /// The bytes of a value of `len` bytes where they lie, if they lie in one run.
    ///
    /// # Safety
    /// The word is of a value of that length: it was read of a node whose version held thereafter, or of the version of an entry that a state has. The state is
    /// announced for as long as the bytes are used.
    #[inline(always)]
    pub(super) unsafe fn lend(&self, first: u64, len: usize) -> Option<&[u8]> {
        if len > RUN_BYTES {
            return None;
        }
        let words = self.try_words(Run::of(first))?.get(..words_for(len))?;
        // SAFETY: the words were all written before the node's lock was given back, which the reader has seen, and by the caller's promise nobody
        // writes to them while the bytes are used. Atomic words lie in memory as words do, and `len` bytes are in them.
        Some(unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), len) })
    }

    /// Fetches the first lines of a value's first run, so many at most.
    #[inline(always)]
    pub(super) fn prefetch(&self, first: u64, lines: usize) {
        if let Some(words) = self.try_words(Run::of(first)) {
            for word in (0..words.len()).step_by(LINE).take(lines) {
                prefetch_item::<Word>(words, word);
            }
        }
    }

    /// Gives a value's runs back.
    pub(super) fn free(&self, free: &mut FreeRuns, first: u64, mut len: usize) {
        let mut run = Run::of(first);
        while len > RUN_BYTES {
            let next = Run::of(load(&self.words(run)[0]));
            free.give(run);
            (run, len) = (next, len - CHAINED_BYTES);
        }
        free.give(run);
    }

    /// The lines of a value's runs.
    #[cfg(test)]
    pub(super) fn lines_of_chain(&self, first: u64, mut len: usize) -> u64 {
        let mut run = Run::of(first);
        let mut lines = run.lines;
        while len > RUN_BYTES {
            run = Run::of(load(&self.words(run)[0]));
            len -= CHAINED_BYTES;
            lines += run.lines;
        }
        lines as u64
    }

    /// The words of a run that was taken.
    fn words(&self, run: Run) -> &[Word] {
        self.try_words(run).expect("a run that was taken")
    }

    /// The words of a run, unless there is no such run.
    #[inline(always)]
    fn try_words(&self, run: Run) -> Option<&[Word]> {
        let lines = self.0.try_nodes(run.line, run.lines)?;
        Some(lines.as_flattened())
    }
}

/// Which lines are free. The writer has it.
#[derive(Debug)]
pub(super) struct FreeRuns {
    /// The first lines of runs that were given back, by the number of their lines less one; the last one first, as it is most likely in a cache.
    given: [Vec<u32>; LINES_MAX],
    /// A bit for each of these lists that is not empty.
    some: u64,
    /// The first line that was never taken. Zero is no line.
    next: u32,
    /// Lines below this have memory.
    ready: u32,
}

impl FreeRuns {
    pub(super) fn new() -> Self {
        Self {
            given: std::array::from_fn(|_| Vec::new()),
            some: 0,
            next: 1,
            ready: 1,
        }
    }

    /// Makes sure that [`Runs::write`] has room for a value of each of these lengths.
    pub(super) fn reserve(
        &mut self,
        runs: &Runs,
        lengths: impl Iterator<Item = usize>,
    ) -> Result<(), IndexError> {
        let lines: usize = lengths.map(|bytes| lines_of(bytes).0).sum();
        if lines == 0 {
            return Ok(());
        }
        // No run lies in two chunks, so each chunk's end may cost the lines of one.
        let skipped = (lines / Arena::<LINE>::NODES + 2) * LINES_MAX;
        let end = u32::try_from(lines + skipped)
            .ok()
            .and_then(|lines| self.next.checked_add(lines));
        let end = end.ok_or_else(|| runs.0.full())?;
        while self.ready < end {
            runs.0.ensure(self.ready)?;
            let chunk_end = (self.ready as usize + 1).next_multiple_of(Arena::<LINE>::NODES);
            self.ready = u32::try_from(chunk_end).unwrap_or(u32::MAX);
        }
        Ok(())
    }

    /// A run of so many lines, or of a few more. Its room was reserved.
    fn take(&mut self, lines: usize) -> Run {
        let fitting = self.some >> (lines - 1);
        if fitting != 0 {
            // The shortest that is long enough.
            let found = lines + fitting.trailing_zeros() as usize;
            let list = &mut self.given[found - 1];
            if let Some(line) = list.pop() {
                if list.is_empty() {
                    self.some &= !(1 << (found - 1));
                }
                let rest = found - lines;
                if rest < LINES_MIN {
                    return Run { line, lines: found };
                }
                self.give(Run {
                    line: line + lines as u32,
                    lines: rest,
                });
                return Run { line, lines };
            }
        }
        let left = Arena::<LINE>::NODES - self.next as usize % Arena::<LINE>::NODES;
        if left < lines {
            self.give(Run {
                line: self.next,
                lines: left,
            });
            self.next += left as u32;
        }
        let line = self.next;
        self.next += lines as u32;
        debug_assert!(self.next <= self.ready, "lines are reserved before");
        Run { line, lines }
    }

    /// Gives a run back that no reader can reach.
    fn give(&mut self, run: Run) {
        self.given[run.lines - 1].push(run.line);
        self.some |= 1 << (run.lines - 1);
    }

    /// Lines that were taken and not given back.
    #[cfg(test)]
    pub(super) fn lines_in_use(&self) -> u64 {
        let free = self.given.iter().zip(1..);
        let free: usize = free.map(|(list, lines)| list.len() * lines).sum();
        u64::from(self.next) - 1 - free as u64
    }

    /// Bytes that were ever taken. All of them have memory.
    pub(super) fn ever_bytes(&self) -> u64 {
        u64::from(self.next - 1) * LINE_BYTES as u64
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bytes_of(seed: u8, len: usize) -> Vec<u8> {
        (0..len)
            .map(|at| (at as u8).wrapping_mul(7) ^ seed)
            .collect()
    }

    fn written(runs: &Runs, free: &mut FreeRuns, bytes: &[u8]) -> u64 {
        free.reserve(runs, std::iter::once(bytes.len())).unwrap();
        runs.write(free, bytes)
    }

    #[test]
    fn values_of_all_lengths_come_back_and_lie_in_the_lines_that_they_need() {
        let runs = Runs::new();
        let mut free = FreeRuns::new();
        let step = if cfg!(miri) { 997 } else { 61 };
        let lengths = [
            0,
            1,
            63,
            64,
            65,
            513,
            600,
            1024,
            RUN_BYTES - 1,
            RUN_BYTES,
            RUN_BYTES + 1,
        ];
        for len in lengths.into_iter().chain((0..20_000).step_by(step)) {
            let before = free.ever_bytes();
            let bytes = bytes_of(len as u8, len);
            let word = written(&runs, &mut free, &bytes);
            let mut read = vec![0; len];
            assert!(runs.read(word, len, &mut read), "{len}");
            assert_eq!(read, bytes, "{len}");
            let mut part = vec![0; len / 2];
            assert!(runs.read(word, len, &mut part));
            assert_eq!(part, bytes[..len / 2], "{len}");
            // SAFETY: nobody else has the runs.
            let lent = unsafe { runs.lend(word, len) };
            assert_eq!(lent, (len <= RUN_BYTES).then_some(&bytes[..]), "{len}");
            let taken = (free.ever_bytes() - before) as usize;
            // Less where the rest of a chunk was given back.
            assert!(taken <= runs.bytes_of(len) as usize + RUN_BYTES, "{len}");
            assert!(runs.bytes_of(len) as usize <= len + len / 400 + 72, "{len}");
        }
    }

    #[test]
    fn runs_are_used_again_and_cut_where_the_rest_is_of_use() {
        let runs = Runs::new();
        let mut free = FreeRuns::new();
        let long = written(&runs, &mut free, &bytes_of(1, RUN_BYTES));
        let ever = free.ever_bytes();
        runs.free(&mut free, long, RUN_BYTES);
        // 64 lines are six times ten and four, which the last one has beside its own.
        let words: Vec<u64> = (0..6)
            .map(|seed| written(&runs, &mut free, &bytes_of(seed, 600)))
            .collect();
        assert_eq!(free.ever_bytes(), ever);
        assert_eq!(Run::of(words[5]).lines, 14);
        for (seed, word) in words.iter().enumerate() {
            let mut read = vec![0; 600];
            assert!(runs.read(*word, 600, &mut read));
            assert_eq!(read, bytes_of(seed as u8, 600));
            runs.free(&mut free, *word, 600);
        }
        written(&runs, &mut free, &bytes_of(0, 14 * LINE_BYTES));
        assert_eq!(free.ever_bytes(), ever);
        written(&runs, &mut free, &bytes_of(0, 14 * LINE_BYTES));
        assert!(free.ever_bytes() > ever);
    }

    #[test]
    fn words_of_no_run_are_no_value() {
        let runs = Runs::new();
        let mut free = FreeRuns::new();
        written(&runs, &mut free, &bytes_of(1, 600));
        for word in [
            0,
            1,
            1 << LINES_SHIFT,
            u64::MAX,
            u64::from(u32::MAX),
            5 << 32 | 1,
        ] {
            for len in [600, 10_000] {
                assert!(!runs.read(word, len, &mut vec![0; len]), "{word:x} {len}");
            }
            runs.prefetch(word, 100);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: if cfg!(miri) { 2 } else { 64 },
            failure_persistence: None,
            ..ProptestConfig::default()
        })]
        #[test]
        fn values_that_come_and_go_never_share_a_line(
            steps in prop::collection::vec((any::<bool>(), 0_usize..9000, any::<prop::sample::Index>()), 1..200)
        ) {
            let runs = Runs::new();
            let mut free = FreeRuns::new();
            let mut live: Vec<(u64, Vec<u8>)> = Vec::new();
            for (seed, (puts, len, which)) in steps.into_iter().enumerate() {
                if puts || live.is_empty() {
                    let bytes = bytes_of(seed as u8, len);
                    live.push((written(&runs, &mut free, &bytes), bytes));
                } else {
                    let (word, bytes) = live.swap_remove(which.index(live.len()));
                    runs.free(&mut free, word, bytes.len());
                }
                for (word, bytes) in &live {
                    let mut read = vec![0; bytes.len()];
                    prop_assert!(runs.read(*word, bytes.len(), &mut read));
                    prop_assert_eq!(&read, bytes);
                }
            }
        }
    }
}
