//! Canonical, length-limited prefix codes over bytes, and how their lengths are written down.

use dpb_core::JobError;

/// The longest code, bits: a decoding table of 2,048 entries, which stays in the first cache.
pub(super) const BITS_MAX: usize = 11;
/// Most bytes that [`write_lengths`] makes: a nibble for each symbol, two for one that is not used.
pub(super) const LENGTHS_BYTES_MAX: usize = 256;

/// Bits of each symbol's code; 0: the symbol does not occur.
pub(super) type Lengths = [u8; 256];

/// The lengths, none above [`BITS_MAX`], with the fewest bits in all: package-merge (Larmore, Hirschberg: A fast algorithm for
/// optimal length-limited Huffman codes, JACM 1990).
///
/// At least two symbols must occur.
pub(super) fn lengths(counts: &[u32; 256]) -> Lengths {
    let mut symbols: Vec<u8> = (0..=255).filter(|&s| counts[usize::from(s)] > 0).collect();
    symbols.sort_by_key(|&symbol| counts[usize::from(symbol)]);
    let leaves: Vec<u64> = symbols
        .iter()
        .map(|&symbol| u64::from(counts[usize::from(symbol)]))
        .collect();
    // Each level's items, lightest first: leaves, and pairs of the level below. Only which is which is kept.
    let mut is_leaf: [Vec<bool>; BITS_MAX] = Default::default();
    let mut items: Vec<u64> = Vec::new();
    for kinds in &mut is_leaf {
        let mut pairs = items.as_chunks().0.iter().map(|[a, b]| a + b).peekable();
        let mut singles = leaves.iter().copied().peekable();
        let mut merged = Vec::with_capacity(2 * leaves.len());
        loop {
            let takes_leaf = match (singles.peek(), pairs.peek()) {
                (Some(single), Some(pair)) => single <= pair,
                (Some(_), None) => true,
                (None, Some(_)) => false,
                (None, None) => break,
            };
            kinds.push(takes_leaf);
            merged.extend(if takes_leaf {
                singles.next()
            } else {
                pairs.next()
            });
        }
        items = merged;
    }
    // The lightest 2n - 2 items of the last level are the code; a leaf among them is one more bit of its symbol.
    let mut lengths = [0; 256];
    let mut taken = 2 * symbols.len() - 2;
    for kinds in is_leaf.iter().rev() {
        let leaves = kinds[..taken].iter().filter(|&&leaf| leaf).count();
        for &symbol in &symbols[..leaves] {
            lengths[usize::from(symbol)] += 1;
        }
        taken = 2 * (taken - leaves);
    }
    lengths
}

/// The codes of complete `lengths`: shorter before longer, then by symbol (RFC 1951, 3.2.2), first bit lowest.
pub(super) fn codes(lengths: &Lengths) -> [u16; 256] {
    let mut count = [0u16; BITS_MAX + 1];
    for &length in lengths.iter().filter(|&&length| length > 0) {
        count[usize::from(length)] += 1;
    }
    let mut next = [0u16; BITS_MAX + 1];
    for length in 1..=BITS_MAX {
        next[length] = (next[length - 1] + count[length - 1]) << 1;
    }
    std::array::from_fn(|symbol| match usize::from(lengths[symbol]) {
        0 => 0,
        length => {
            let code = next[length];
            next[length] += 1;
            code.reverse_bits() >> (16 - length)
        }
    })
}

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

/// Reads what [`write_lengths`] wrote from the start of `bytes`; says how many bytes that was.
///
/// # Errors
/// [`JobError::Malformed`] if they end too soon, go beyond the last symbol, or are not those of a complete code.
pub(super) fn read_lengths(bytes: &[u8]) -> Result<(Lengths, usize), JobError> {
    let mut nibbles = 0;
    let mut next = || {
        let byte = bytes.get(nibbles / 2).ok_or(JobError::Malformed)?;
        let nibble = byte >> (nibbles % 2 * 4) & 15;
        nibbles += 1;
        Ok(nibble)
    };
    let mut lengths = [0; 256];
    let (mut symbol, mut kraft) = (0, 0);
    while symbol < lengths.len() {
        let length = next()?;
        if usize::from(length) > BITS_MAX {
            return Err(JobError::Malformed);
        }
        if length == 0 {
            symbol += usize::from(next()?);
        } else {
            lengths[symbol] = length;
            kraft += 1 << (BITS_MAX - usize::from(length));
        }
        symbol += 1;
    }
    let is_padded = nibbles % 2 == 0 || bytes[nibbles / 2] >> 4 == 0;
    if symbol != lengths.len() || kraft != 1 << BITS_MAX || !is_padded {
        return Err(JobError::Malformed);
    }
    Ok((lengths, nibbles.div_ceil(2)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn codes_of_rfc_1951() {
        // 3.2.2: lengths (3, 3, 3, 3, 3, 2, 4, 4) of A to H.
        let mut lengths = [0; 256];
        lengths[65..73].copy_from_slice(&[3, 3, 3, 3, 3, 2, 4, 4]);
        let expected = [0b010, 0b011, 0b100, 0b101, 0b110, 0b00, 0b1110, 0b1111];
        let codes = codes(&lengths);
        for (symbol, code) in (65..73).zip(expected) {
            let reversed = codes[symbol].reverse_bits() >> (16 - lengths[symbol]);
            assert_eq!(reversed, code, "{symbol}");
        }
    }

    /// With Fibonacci's counts the limit binds.
    #[test]
    fn no_code_within_the_limit_is_shorter() {
        let mut counts = [0; 256];
        let (mut a, mut b) = (1u32, 1u32);
        for count in counts.iter_mut().take(20) {
            *count = a;
            (a, b) = (b, a + b);
        }
        let lengths = lengths(&counts);
        assert_eq!(lengths.iter().max(), Some(&11));
        let kraft: u32 = lengths
            .iter()
            .filter(|&&l| l > 0)
            .map(|&l| 1 << (11 - l))
            .sum();
        assert_eq!(kraft, 1 << 11);
        let bits: u64 = (0..256)
            .map(|s| u64::from(counts[s]) * u64::from(lengths[s]))
            .sum();
        assert_eq!(bits, best_bits(&counts[..20], 11));
    }

    /// The fewest bits of a code within the limit, by dynamic programming over how many codes of each length there are: the
    /// counts sorted, the rarest with the longest codes.
    fn best_bits(counts: &[u32], limit: u32) -> u64 {
        let mut counts: Vec<u64> = counts.iter().copied().map(u64::from).collect();
        counts.sort_by(|a, b| b.cmp(a));
        // `best[used][open]`: symbols that have a code, and nodes of the current depth that may still become codes or grow.
        let n = counts.len();
        let total = |from: usize| counts[from..].iter().sum::<u64>();
        let mut best = vec![vec![u64::MAX; n + 1]; n + 1];
        best[0][1] = 0;
        for _ in 0..limit {
            let mut next = vec![vec![u64::MAX; n + 1]; n + 1];
            for used in 0..n {
                for open in 1..=n {
                    let bits = best[used][open];
                    if bits == u64::MAX {
                        continue;
                    }
                    // One more bit for all without a code; then some nodes of this depth become codes.
                    let bits = bits + total(used);
                    for coded in 0..=(2 * open).min(n - used) {
                        let left = (2 * open - coded).min(n);
                        let entry = &mut next[used + coded][left];
                        *entry = bits.min(*entry);
                    }
                }
            }
            for open in 0..=n {
                next[n][open] = next[n][open].min(best[n][open]);
            }
            best = next;
        }
        *best[n].iter().min().expect("not empty")
    }

    proptest! {
        #[test]
        fn lengths_are_optimal_and_come_back(
            counts in prop::collection::vec((any::<u8>(), 1u32..5000), 2..24)
        ) {
            let mut table = [0; 256];
            for (symbol, count) in counts {
                table[usize::from(symbol)] = count;
            }
            prop_assume!(table.iter().filter(|&&count| count > 0).count() >= 2);
            let lengths = lengths(&table);
            let used: Vec<u32> = table.iter().copied().filter(|&count| count > 0).collect();
            let bits: u64 = (0..256).map(|s| u64::from(table[s]) * u64::from(lengths[s])).sum();
            prop_assert_eq!(bits, best_bits(&used, BITS_MAX as u32));
            let mut out = [0xff; LENGTHS_BYTES_MAX];
            let len = write_lengths(&lengths, &mut out);
            prop_assert_eq!(read_lengths(&out[..len]), Ok((lengths, len)));
        }
    }
}
