//! How a block's code lengths are written down.

use dpb_core::JobError;

/// The longest code, bits: a decoding table of 2,048 entries, which stays in the first cache.
pub(super) const BITS_MAX: usize = 11;
/// Most bytes that [`write_lengths`] makes: a nibble for each symbol, two for one that is not used.
pub(super) const LENGTHS_BYTES_MAX: usize = 256;

/// Bits of each symbol's code; 0: the symbol does not occur.
pub(super) type Lengths = [u8; 256];

/// Writes `lengths` as nibbles, the low one of a byte first: a length, or 0 and how many more symbols after this one are not
/// used, 15 at most. Says how many bytes.
pub(super) fn write_lengths(lengths: &Lengths, out: &mut [u8; LENGTHS_BYTES_MAX]) -> usize {
    let mut nibbles = 0;
    let mut push = |nibble: u8| {
        let byte = &mut out[nibbles / 2];
        *byte = if nibbles % 2 == 0 {
            nibble
        } else {
            *byte | nibble << 4
        };
        nibbles += 1;
    };
    let mut symbol = 0;
    while symbol < lengths.len() {
        let length = lengths[symbol];
        push(length);
        symbol += 1;
        if length == 0 {
            let rest = &lengths[symbol..lengths.len().min(symbol + 15)];
            let more = rest.iter().take_while(|&&length| length == 0).count();
            push(more as u8);
            symbol += more;
        }
    }
    nibbles.div_ceil(2)
}

/// Reads what [`write_lengths`] wrote from the start of `bytes`: the lengths, the symbols that have one, and how many bytes
/// that was.
///
/// # Errors
/// [`JobError::Malformed`] if they end too soon, go beyond the last symbol, or are not those of a complete code.
pub(super) fn read_lengths<'a>(
    bytes: &[u8],
    symbols: &'a mut [u8; 256],
) -> Result<(Lengths, &'a [u8], usize), JobError> {
    let mut nibbles = 0;
    let mut next = || {
        let byte = bytes.get(nibbles / 2).ok_or(JobError::Malformed)?;
        let nibble = byte >> (nibbles % 2 * 4) & 15;
        nibbles += 1;
        Ok::<_, JobError>(nibble)
    };
    let mut lengths = [0; 256];
    let (mut symbol, mut used, mut kraft) = (0, 0, 0);
    while symbol < lengths.len() {
        let length = next()?;
        if usize::from(length) > BITS_MAX {
            return Err(JobError::Malformed);
        }
        if length == 0 {
            symbol += usize::from(next()?);
        } else {
            lengths[symbol] = length;
            symbols[used] = symbol as u8;
            used += 1;
            kraft += 1 << (BITS_MAX - usize::from(length));
        }
        symbol += 1;
    }
    let is_padded = nibbles % 2 == 0 || bytes[nibbles / 2] >> 4 == 0;
    if symbol != lengths.len() || kraft != 1 << BITS_MAX || !is_padded {
        return Err(JobError::Malformed);
    }
    Ok((lengths, &symbols[..used], nibbles.div_ceil(2)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::prefix_code;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn lengths_come_back(
            counts in prop::collection::vec((any::<u8>(), 1u32..5000), 2..24)
        ) {
            let mut table = [0; 256];
            for (symbol, count) in counts {
                table[usize::from(symbol)] = count;
            }
            prop_assume!(table.iter().filter(|&&count| count > 0).count() >= 2);
            let lengths = prefix_code::lengths(&table, BITS_MAX);
            let mut out = [0xff; LENGTHS_BYTES_MAX];
            let len = write_lengths(&lengths, &mut out);
            let mut symbols = [0; 256];
            let used: Vec<u8> = (0..=255).filter(|&s| table[usize::from(s)] > 0).collect();
            let read = read_lengths(&out[..len], &mut symbols);
            prop_assert_eq!(read, Ok((lengths, &used[..], len)));
        }
    }
}
