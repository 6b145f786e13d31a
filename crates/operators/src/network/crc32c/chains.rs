//! The CRC instructions of x86-64 and Armv8-A take eight bytes a cycle, but a result three cycles later: independent
//! chains fill the gap. Four items go side by side, unless they are so short that the CPU overlaps them by itself; a
//! long item is three chains, joined by a carry-less product (Gopal et al., Fast CRC Computation for iSCSI Polynomial
//! Using CRC32 Instruction, Intel 2011).

use super::constants::shift;

/// Bytes per chain; a long item goes in strides of three chains.
pub(super) const CHAIN_BYTES: usize = 128;
pub(super) const STRIDE_BYTES: usize = 3 * CHAIN_BYTES;
/// Items from this length on go side by side; items of 64 bytes were slower so than one after another.
pub(super) const SIDE_BY_SIDE_BYTES_MIN: usize = 256;
/// Factors that move a register forward.
pub(super) const BY_CHAIN: u64 = shift(CHAIN_BYTES as u32 * 8);
pub(super) const BY_2_CHAINS: u64 = shift(2 * CHAIN_BYTES as u32 * 8);

/// Defines `advance`, `one` and `batch` over an instruction set's `word(u32, u64) -> u32`, `byte(u32, u8) -> u32` and
/// `moved(u32, u64) -> u64`. A macro and not a trait, because only code with the same features is inlined.
macro_rules! chains {
    ($proof:ty, $features:literal) => {
        /// CRC-32C of `data`.
        pub(super) fn one(_proof: $proof, data: &[u8]) -> u32 {
            // SAFETY: the proof exists only where these features do.
            unsafe { !advance(!0, data) }
        }

        /// CRC-32C of each item, into its slot.
        pub(super) fn batch(_proof: $proof, batch: dpb_core::Batch<'_>, slots: &mut [[u8; 4]]) {
            // SAFETY: the proof exists only where these features do.
            unsafe { each(batch, slots) }
        }

        #[target_feature(enable = $features)]
        fn each(batch: dpb_core::Batch<'_>, slots: &mut [[u8; 4]]) {
            let (groups, _) = slots[..batch.len()].as_chunks_mut::<4>();
            let grouped = groups.len() * 4;
            for (group, slots) in groups.iter_mut().enumerate() {
                let items = [0, 1, 2, 3].map(|i| batch.item(group * 4 + i));
                let long = |item: &&[u8]| item.len() >= super::chains::SIDE_BY_SIDE_BYTES_MIN;
                let registers = if items.iter().all(long) {
                    four(items)
                } else {
                    let [a, b, c, d] = items;
                    [
                        advance(!0, a),
                        advance(!0, b),
                        advance(!0, c),
                        advance(!0, d),
                    ]
                };
                *slots = registers.map(|register| (!register).to_le_bytes());
            }
            for (i, slot) in slots[..batch.len()].iter_mut().enumerate().skip(grouped) {
                *slot = (!advance(!0, batch.item(i))).to_le_bytes();
            }
        }

        /// The registers after four items, side by side as far as the shortest goes.
        #[inline]
        #[target_feature(enable = $features)]
        fn four(items: [&[u8]; 4]) -> [u32; 4] {
            let words = items.iter().map(|item| item.len() / 8).min().unwrap_or(0);
            let [(a, rest_a), (b, rest_b), (c, rest_c), (d, rest_d)] =
                items.map(|item| item.split_at(words * 8));
            let [a, b, c, d] = [a, b, c, d].map(|words| words.as_chunks::<8>().0);
            let mut registers = [!0; 4];
            for (((a, b), c), d) in a.iter().zip(b).zip(c).zip(d) {
                registers[0] = word(registers[0], u64::from_le_bytes(*a));
                registers[1] = word(registers[1], u64::from_le_bytes(*b));
                registers[2] = word(registers[2], u64::from_le_bytes(*c));
                registers[3] = word(registers[3], u64::from_le_bytes(*d));
            }
            [
                advance(registers[0], rest_a),
                advance(registers[1], rest_b),
                advance(registers[2], rest_c),
                advance(registers[3], rest_d),
            ]
        }

        /// The register after `data`.
        #[inline]
        #[target_feature(enable = $features)]
        pub(super) fn advance(mut register: u32, data: &[u8]) -> u32 {
            use super::chains::{BY_2_CHAINS, BY_CHAIN, CHAIN_BYTES, STRIDE_BYTES};
            let (strides, rest) = data.as_chunks::<STRIDE_BYTES>();
            for stride in strides {
                let (words, _) = stride.as_chunks::<8>();
                let (words0, words) = words.split_at(CHAIN_BYTES / 8);
                let (words1, words2) = words.split_at(CHAIN_BYTES / 8);
                let mut chains = [register, 0, 0];
                for ((word0, word1), word2) in words0.iter().zip(words1).zip(words2) {
                    chains[0] = word(chains[0], u64::from_le_bytes(*word0));
                    chains[1] = word(chains[1], u64::from_le_bytes(*word1));
                    chains[2] = word(chains[2], u64::from_le_bytes(*word2));
                }
                let carried = moved(chains[0], BY_2_CHAINS) ^ moved(chains[1], BY_CHAIN);
                register = chains[2] ^ word(0, carried);
            }
            let (words, bytes) = rest.as_chunks::<8>();
            for bytes in words {
                register = word(register, u64::from_le_bytes(*bytes));
            }
            for next in bytes {
                register = byte(register, *next);
            }
            register
        }
    };
}
pub(super) use chains;
