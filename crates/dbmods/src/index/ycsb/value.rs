//! Values of records: each says which record and version it is, and each of its bytes is checked.
//!
//! A value is a row of words of 64 bits, the lowest byte first: the record, the version, and words of an arithmetic sequence. The sequence begins at
//! a hash of record, version and length. The last word is cut where the value ends. A value that is torn between two versions, cut, shifted or
//! another record's differs somewhere. Sums of words are all that the loops need, so that compilers make vectors of them.

/// Bytes of the shortest value: record, version and a word to check them by.
pub const VALUE_BYTES_MIN: usize = 24;

/// Bytes of a word.
const WORD: usize = 8;
/// Bytes before the sequence.
const HEAD: usize = 2 * WORD;
/// Words that are worked on at once.
const LANES: usize = 8;
/// The difference between words of the sequence: odd, and all its bytes differ from zero.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// What is wrong with a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WrongValue {
    /// It is too short to say what it is.
    #[error("record {record}: a value of {bytes} bytes; values have {VALUE_BYTES_MIN} or more")]
    Short {
        /// The record that was asked for.
        record: u64,
        /// Bytes of the value.
        bytes: usize,
    },
    /// It is another record's, or none's.
    #[error("record {record}: the value says that it is of record {found}")]
    Record {
        /// The record that was asked for.
        record: u64,
        /// The record that the value names.
        found: u64,
    },
    /// Its bytes are not those of the version that it names.
    #[error(
        "record {record}: byte {at} of {bytes} is not that of version {version}, which the value names"
    )]
    Bytes {
        /// The record that was asked for.
        record: u64,
        /// The version that the value names.
        version: u64,
        /// Bytes of the value.
        bytes: usize,
        /// The first byte that differs.
        at: usize,
    },
}

/// Writes the value of a version of a record over all of `value`.
///
/// # Panics
///
/// If `value` is shorter than [`VALUE_BYTES_MIN`].
#[inline]
pub fn fill(record: u64, version: u64, value: &mut [u8]) {
    assert!(
        value.len() >= VALUE_BYTES_MIN,
        "a value has {VALUE_BYTES_MIN} bytes or more"
    );
    let bytes = value.len();
    let (head, words) = value.split_at_mut(HEAD);
    head[..WORD].copy_from_slice(&record.to_le_bytes());
    head[WORD..].copy_from_slice(&version.to_le_bytes());
    let mut lanes = lanes(record, version, bytes);
    let (groups, rest) = words.as_chunks_mut::<{ LANES * WORD }>();
    for group in groups {
        let (words, _) = group.as_chunks_mut::<WORD>();
        for (word, lane) in words.iter_mut().zip(&mut lanes) {
            *word = lane.to_le_bytes();
            *lane = lane.wrapping_add(STEP.wrapping_mul(LANES as u64));
        }
    }
    for (word, lane) in rest.chunks_mut(WORD).zip(&lanes) {
        word.copy_from_slice(&lane.to_le_bytes()[..word.len()]);
    }
}

/// The version of the record that `value` is, if each byte is as [`fill`] would write it.
///
/// # Errors
///
/// The first [`WrongValue`] that applies.
#[inline]
pub fn check(record: u64, value: &[u8]) -> Result<u64, WrongValue> {
    let bytes = value.len();
    if bytes < VALUE_BYTES_MIN {
        return Err(WrongValue::Short { record, bytes });
    }
    let (head, words) = value.split_at(HEAD);
    let (head, _) = head.as_chunks::<WORD>();
    let (found, version) = (u64::from_le_bytes(head[0]), u64::from_le_bytes(head[1]));
    if found != record {
        return Err(WrongValue::Record { record, found });
    }
    let mut lanes = lanes(record, version, bytes);
    let mut differing = [0; LANES];
    let (groups, rest) = words.as_chunks::<{ LANES * WORD }>();
    for group in groups {
        let (words, _) = group.as_chunks::<WORD>();
        for ((word, lane), differing) in words.iter().zip(&mut lanes).zip(&mut differing) {
            *differing |= u64::from_le_bytes(*word) ^ *lane;
            *lane = lane.wrapping_add(STEP.wrapping_mul(LANES as u64));
        }
    }
    let (last, end) = rest.as_chunks::<WORD>();
    for (word, lane) in last.iter().zip(&lanes) {
        differing[0] |= u64::from_le_bytes(*word) ^ lane;
    }
    if !end.is_empty() {
        let mut word = [0; WORD];
        word[..end.len()].copy_from_slice(end);
        let unused = 8 * (WORD - end.len());
        differing[0] |= (u64::from_le_bytes(word) ^ lanes[last.len()]) << unused;
    }
    match differing.iter().fold(0, |all, lane| all | lane) {
        0 => Ok(version),
        _ => Err(first_wrong(record, version, value)),
    }
}

/// The first words of the sequence.
#[inline]
fn lanes(record: u64, version: u64, bytes: usize) -> [u64; LANES] {
    let mut first = mixed(mixed(record ^ (bytes as u64).rotate_left(40)).wrapping_add(version));
    let mut lanes = [0; LANES];
    for lane in &mut lanes {
        *lane = first;
        first = first.wrapping_add(STEP);
    }
    lanes
}

/// A bijection that spreads each bit over the word (the finaliser of SplitMix64: Steele, Lea and Flood, OOPSLA 2014).
#[inline]
fn mixed(word: u64) -> u64 {
    let word = word.wrapping_add(STEP);
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// Where the bytes of a value first differ from those of the version that it names.
#[cold]
fn first_wrong(record: u64, version: u64, value: &[u8]) -> WrongValue {
    let mut right = vec![0; value.len()];
    fill(record, version, &mut right);
    let same = value.iter().zip(&right).take_while(|(a, b)| a == b);
    WrongValue::Bytes {
        record,
        version,
        bytes: value.len(),
        at: same.count(),
    }
}
