//! Canonical, length-limited prefix codes over bytes, and how their lengths are written down.

use dpb_core::JobError;

/// The longest code, bits: a decoding table of 2,048 entries, which stays in the first cache.
pub(super) const BITS_MAX: usize = 11;
/// Most bytes that [`write_lengths`] makes: a nibble for each symbol, two for one that is not used.
pub(super) const LENGTHS_BYTES_MAX: usize = 256;

/// Bits of each symbol's code; 0: the symbol does not occur.
pub(super) type Lengths = [u8; 256];

/// The lengths, none above [`BITS_MAX`], with the fewest bits in all.
///
/// At least two symbols must occur.
pub(super) fn lengths(counts: &[u32; 256]) -> Lengths {
    let mut symbols = [0; 256];
    let mut used = 0;
    for (symbol, &count) in counts.iter().enumerate() {
        symbols[used] = symbol as u8;
        used += usize::from(count > 0);
    }
    let symbols = &mut symbols[..used];
    symbols.sort_unstable_by_key(|&symbol| counts[usize::from(symbol)]);
    let mut leaves = [0; 256];
    for (leaf, &symbol) in leaves.iter_mut().zip(&*symbols) {
        *leaf = counts[usize::from(symbol)];
    }
    let leaves = &leaves[..used];
    let mut bits = [0; 256];
    if !unlimited(leaves, &mut bits) {
        limited(leaves, &mut bits);
    }
    let mut lengths = [0; 256];
    for (&symbol, &bits) in symbols.iter().zip(&bits) {
        lengths[usize::from(symbol)] = bits;
    }
    lengths
}

/// The lengths of `leaves`, lightest first, in Huffman's own code (1952), built from two queues: leaves, and the nodes made
/// so far, which come lightest first by themselves. Says whether no length is above [`BITS_MAX`].
fn unlimited(leaves: &[u32], bits: &mut [u8; 256]) -> bool {
    let inner = leaves.len() - 1;
    let mut weights = [0u32; 255];
    // The parent of each leaf, then of each inner node, by the inner nodes' numbers.
    let (mut of_leaf, mut of_node) = ([0u8; 256], [0u8; 255]);
    let (mut leaf, mut node) = (0, 0);
    for parent in 0..inner {
        for _ in 0..2 {
            let is_leaf = node == parent || leaf < leaves.len() && leaves[leaf] <= weights[node];
            if is_leaf {
                weights[parent] += leaves[leaf];
                of_leaf[leaf] = parent as u8;
                leaf += 1;
            } else {
                weights[parent] += weights[node];
                of_node[node] = parent as u8;
                node += 1;
            }
        }
    }
    let mut depths = [0u8; 255];
    for node in (0..inner - 1).rev() {
        depths[node] = depths[usize::from(of_node[node])] + 1;
    }
    for (bits, &parent) in bits.iter_mut().zip(&of_leaf[..leaves.len()]) {
        *bits = depths[usize::from(parent)] + 1;
    }
    // The lightest leaf is as deep as any.
    usize::from(bits[0]) <= BITS_MAX
}

/// The lengths of `leaves`, lightest first, by package-merge (Larmore, Hirschberg: A fast algorithm for optimal length-limited
/// Huffman codes, JACM 1990).
fn limited(leaves: &[u32], bits: &mut [u8; 256]) {
    // Each level's items, lightest first: leaves, and pairs of the level below. Only which is which is kept.
    let mut is_leaf = [[false; 512]; BITS_MAX];
    let (mut items, mut below) = ([0u32; 512], [0u32; 512]);
    let mut count = 0;
    for kinds in &mut is_leaf {
        std::mem::swap(&mut items, &mut below);
        let (pairs, _) = below[..count].as_chunks::<2>();
        let (mut leaf, mut pair) = (0, 0);
        count = leaves.len() + pairs.len();
        for (item, kind) in items.iter_mut().zip(&mut *kinds).take(count) {
            let weight = pairs.get(pair).map(|[a, b]| a + b);
            *kind = leaf < leaves.len() && weight.is_none_or(|weight| leaves[leaf] <= weight);
            if *kind {
                *item = leaves[leaf];
                leaf += 1;
            } else {
                *item = weight.expect("a pair is left where no leaf is");
                pair += 1;
            }
        }
    }
    // The lightest 2n - 2 items of the last level are the code; a leaf among them is one more bit of its symbol.
    bits.fill(0);
    let mut taken = 2 * leaves.len() - 2;
    for kinds in is_leaf.iter().rev() {
        let leaves = kinds[..taken].iter().filter(|&&leaf| leaf).count();
        bits[..leaves].iter_mut().for_each(|bits| *bits += 1);
        taken = 2 * (taken - leaves);
    }
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
                for (open, &bits) in best[used].iter().enumerate().skip(1) {
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
            let mut symbols = [0; 256];
            let used: Vec<u8> = (0..=255).filter(|&s| table[usize::from(s)] > 0).collect();
            let read = read_lengths(&out[..len], &mut symbols);
            prop_assert_eq!(read, Ok((lengths, &used[..], len)));
        }
    }
}
