//! Canonical, length-limited prefix codes (RFC 1951, 3.2.2) with the fewest bits.

use std::hint::select_unpredictable;

/// Symbols of the largest alphabet: DEFLATE's literals and lengths.
const SYMBOLS_MAX: usize = 288;
/// Bits of the longest code that any format allows.
const BITS_MAX: usize = 15;
/// Bits of a symbol in a sorted key, which it shares with its count.
const SYMBOL_BITS: u32 = 9;
/// No symbol may occur more often.
pub(super) const COUNT_MAX: u32 = u32::MAX >> SYMBOL_BITS;

/// Bits of each symbol's code, none above `bits_max`, with the fewest bits in all; 0: the symbol does not occur.
///
/// At least two symbols must occur, and no more than so many bits can tell apart.
pub(super) fn lengths<const N: usize>(counts: &[u32; N], bits_max: usize) -> [u8; N] {
    const { assert!(N <= SYMBOLS_MAX) };
    let mut keys = [0u32; N];
    let mut used = 0;
    for (symbol, &count) in counts.iter().enumerate() {
        debug_assert!(count <= COUNT_MAX);
        keys[used] = count << SYMBOL_BITS | symbol as u32;
        used += usize::from(count > 0);
    }
    let keys = &mut keys[..used];
    keys.sort_unstable();
    // Behind the leaves, none is lighter than a node.
    let mut leaves = [u32::MAX; SYMBOLS_MAX + 1];
    for (leaf, &key) in leaves.iter_mut().zip(&*keys) {
        *leaf = key >> SYMBOL_BITS;
    }
    let mut bits = [0; N];
    if !unlimited(&leaves, used, bits_max, &mut bits) {
        limited(&leaves[..used], bits_max, &mut bits);
    }
    let mut lengths = [0; N];
    for (&key, &bits) in keys.iter().zip(&bits) {
        lengths[(key & ((1 << SYMBOL_BITS) - 1)) as usize] = bits;
    }
    lengths
}

/// The lengths of the first `used` of `leaves`, lightest first, in Huffman's own code (1952), built from two queues: leaves, and the
/// nodes made so far, which come lightest first by themselves. Says whether no length is above `bits_max`.
///
/// Which queue is next cannot be foreseen, so it is not a branch.
fn unlimited<const N: usize>(
    leaves: &[u32; SYMBOLS_MAX + 1],
    used: usize,
    bits_max: usize,
    bits: &mut [u8; N],
) -> bool {
    let inner = used - 1;
    // A node that is not yet made is heavier than any leaf.
    let mut weights = [u32::MAX; SYMBOLS_MAX];
    // The parent of each leaf, then of each inner node, by the inner nodes' numbers.
    let mut parents = [0u16; 2 * SYMBOLS_MAX];
    let (mut leaf, mut node) = (0, 0);
    for parent in 0..inner {
        let mut sum = 0;
        for _ in 0..2 {
            let weight = leaves[leaf].min(weights[node]);
            let is_leaf = leaves[leaf] <= weights[node];
            sum += weight;
            parents[select_unpredictable(is_leaf, leaf, SYMBOLS_MAX + node)] = parent as u16;
            leaf += usize::from(is_leaf);
            node += usize::from(!is_leaf);
        }
        weights[parent] = sum;
    }
    let (of_leaf, of_node) = parents.split_at(SYMBOLS_MAX);
    let mut depths = [0u8; SYMBOLS_MAX];
    for node in (0..inner - 1).rev() {
        depths[node] = depths[usize::from(of_node[node])] + 1;
    }
    for (bits, &parent) in bits.iter_mut().zip(&of_leaf[..used]) {
        *bits = depths[usize::from(parent)] + 1;
    }
    // The lightest leaf is as deep as any.
    usize::from(bits[0]) <= bits_max
}

/// The lengths of `leaves`, lightest first, by package-merge (Larmore, Hirschberg: A fast algorithm for optimal length-limited
/// Huffman codes, JACM 1990).
fn limited<const N: usize>(leaves: &[u32], bits_max: usize, bits: &mut [u8; N]) {
    // Each level's items, lightest first: leaves, and pairs of the level below. Only which is which is kept.
    let mut is_leaf = [[false; 2 * SYMBOLS_MAX]; BITS_MAX];
    let is_leaf = &mut is_leaf[..bits_max];
    let (mut items, mut below) = ([0u32; 2 * SYMBOLS_MAX], [0u32; 2 * SYMBOLS_MAX]);
    let mut count = 0;
    for kinds in &mut *is_leaf {
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

/// The codes of complete `lengths`: shorter before longer, then by symbol, first bit lowest.
pub(super) const fn codes<const N: usize>(lengths: &[u8; N]) -> [u16; N] {
    let mut count = [0u16; BITS_MAX + 1];
    let mut symbol = 0;
    while symbol < N {
        // Most of a large alphabet is not used, and counting it would wait for itself.
        if lengths[symbol] > 0 {
            count[lengths[symbol] as usize] += 1;
        }
        symbol += 1;
    }
    let mut next = [0u16; BITS_MAX + 1];
    let mut length = 1;
    while length <= BITS_MAX {
        next[length] = (next[length - 1] + count[length - 1]) << 1;
        length += 1;
    }
    let mut codes = [0; N];
    symbol = 0;
    while symbol < N {
        let length = lengths[symbol] as usize;
        if length > 0 {
            codes[symbol] = next[length].reverse_bits() >> (16 - length);
            next[length] += 1;
        }
        symbol += 1;
    }
    codes
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

    /// Fibonacci's counts make the limit bind.
    #[test]
    fn no_code_within_the_limit_is_shorter() {
        let mut counts = [0; 256];
        let (mut a, mut b) = (1u32, 1u32);
        for count in counts.iter_mut().take(20) {
            *count = a;
            (a, b) = (b, a + b);
        }
        let lengths = lengths(&counts, 11);
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
        fn lengths_are_optimal(
            counts in prop::collection::vec((any::<u8>(), 1u32..5000), 2..24),
            bits_max in 5..=BITS_MAX
        ) {
            let mut table = [0; 256];
            for (symbol, count) in counts {
                table[usize::from(symbol)] = count;
            }
            prop_assume!(table.iter().filter(|&&count| count > 0).count() >= 2);
            let lengths = lengths(&table, bits_max);
            let used: Vec<u32> = table.iter().copied().filter(|&count| count > 0).collect();
            let bits: u64 = (0..256).map(|s| u64::from(table[s]) * u64::from(lengths[s])).sum();
            prop_assert_eq!(bits, best_bits(&used, bits_max as u32));
        }
    }
}
