//! An output of the operator `scan`, byte by byte, and how long its slot has to be.

use super::ScanError;
use super::stats::{ConjunctStats, ScanStats};

/// A head has a multiple of so many bytes, as a message has: Arrow's values behind it lie as they should.
const HEAD_ALIGNMENT: usize = 64;
/// Bytes of a number of an item, and of how far an output came.
pub(super) const NUMBER: usize = size_of::<u32>();

/// What an item gave: the head of an output, and its body.
///
/// The head: how many of the item's row groups are done, and how many rows of the next one, four bytes each; tuples scanned, tuples
/// skipped, rows selected, blocks scanned, blocks skipped, row groups skipped, bytes read, eight bytes each; of each conjunct of the
/// predicate blocks sampled, rows sampled, rows passed and nanoseconds, eight bytes each; zeros up to a multiple of 64 bytes. All numbers
/// are little endian.
#[derive(Clone, Debug, PartialEq)]
pub struct Output<'a> {
    /// Row groups of the item that are done.
    pub groups: usize,
    /// Rows of the next one that are done; 0 if there is none.
    pub row: usize,
    /// The counts; the conjuncts are [`super::Plan::conjuncts`].
    pub stats: ScanStats,
    /// Of rows: messages of the Arrow IPC format, one record batch each, of the schema that [`super::Plan::output_schema`] says and that
    /// is not sent. Of an aggregate: what [`super::operator::Merged::add`] takes.
    pub body: &'a [u8],
}

impl<'a> Output<'a> {
    pub(super) fn head_bytes(conjuncts: usize) -> usize {
        let numbers = 7 + 4 * conjuncts;
        (2 * NUMBER + numbers * size_of::<u64>()).next_multiple_of(HEAD_ALIGNMENT)
    }

    /// Writes a head, and sets what was counted to zero.
    pub(super) fn write_head(head: &mut [u8], groups: usize, row: usize, stats: &mut ScanStats) {
        head.fill(0);
        let (place, counts) = head.split_at_mut(2 * NUMBER);
        place[..NUMBER].copy_from_slice(&(groups as u32).to_le_bytes());
        place[NUMBER..].copy_from_slice(&(row as u32).to_le_bytes());
        let numbers = counts.as_chunks_mut().0.iter_mut();
        for (to, number) in numbers.zip(stats.numbers_mut()) {
            *to = std::mem::take(number).to_le_bytes();
        }
    }

    /// Reads what the operator made for a plan of so many conjuncts.
    ///
    /// # Errors
    /// [`ScanError::Malformed`].
    pub fn parse(output: &'a [u8], conjuncts: usize) -> Result<Self, ScanError> {
        let malformed = ScanError::Malformed("a scan's output");
        let split = output.split_at_checked(Self::head_bytes(conjuncts));
        let (head, body) = split.ok_or(malformed)?;
        let (place, counts) = head.split_at(2 * NUMBER);
        let mut stats = ScanStats {
            conjuncts: vec![ConjunctStats::default(); conjuncts],
            ..ScanStats::default()
        };
        let numbers = counts.as_chunks().0.iter();
        for (to, number) in stats.numbers_mut().zip(numbers) {
            *to = u64::from_le_bytes(*number);
        }
        let number =
            |at: usize| u32::from_le_bytes(std::array::from_fn(|i| place[at + i])) as usize;
        Ok(Self {
            groups: number(0),
            row: number(NUMBER),
            stats,
            body,
        })
    }
}
