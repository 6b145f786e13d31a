//! The CRC instructions of x86-64 and Armv8-A take eight bytes a cycle, but a result three cycles later: independent
//! chains fill the gap. Four items go side by side, unless they are so short that the CPU overlaps them by itself; a
//! long item is three chains, joined by a carry-less product (Gopal et al., Fast CRC Computation for iSCSI Polynomial
//! Using CRC32 Instruction, Intel 2011).

/// Bytes per chain; a long item goes in strides of three chains.
pub(super) const CHAIN_BYTES: usize = 128;
pub(super) const STRIDE_BYTES: usize = 3 * CHAIN_BYTES;
/// Items from this length on go side by side; items of 64 bytes were slower so than one after another.
pub(super) const SIDE_BY_SIDE_BYTES_MIN: usize = 256;

/// Defines `advance` and `batch` over an instruction set's `word::<A>(u32, u64) -> u32`, `byte::<A>(u32, u8) -> u32` and
/// `product(u64, u64) -> [u64; 2]`. A macro and not a trait, because only code with the same features is inlined.
macro_rules! chains {
    ($features:literal) => {
        /// The CRC of each item, into its slot.
        #[target_feature(enable = $features)]
        pub(super) fn batch<A: Algorithm>(batch: &dpb_core::Batch<'_>, slots: &mut [A::Slot]) {
            let (groups, _) = slots[..batch.len()].as_chunks_mut::<4>();
            let grouped = groups.len() * 4;
            for (group, slots) in groups.iter_mut().enumerate() {
                // Written out, here and below: `map` is not always inlined.
                let first = group * 4;
                let [a, b, c, d] = [
                    batch.item(first),
                    batch.item(first + 1),
                    batch.item(first + 2),
                    batch.item(first + 3),
                ];
                let shortest = a.len().min(b.len()).min(c.len()).min(d.len());
                let registers = if shortest >= SIDE_BY_SIDE_BYTES_MIN {
                    four::<A>([a, b, c, d], shortest)
                } else {
                    [
                        advance::<A>(A::INITIAL, a),
                        advance::<A>(A::INITIAL, b),
                        advance::<A>(A::INITIAL, c),
                        advance::<A>(A::INITIAL, d),
                    ]
                };
                for (slot, register) in slots.iter_mut().zip(registers) {
                    *slot = A::slot(A::crc(register));
                }
            }
            for (i, slot) in slots[..batch.len()].iter_mut().enumerate().skip(grouped) {
                *slot = A::slot(A::crc(advance::<A>(A::INITIAL, batch.item(i))));
            }
        }

        /// The registers after four items, side by side as far as the shortest goes.
        #[inline]
        #[target_feature(enable = $features)]
        fn four<A: Algorithm>([a, b, c, d]: [&[u8]; 4], shortest: usize) -> [u32; 4] {
            let side_by_side = shortest / 8 * 8;
            let (a, rest_a) = a.split_at(side_by_side);
            let (b, rest_b) = b.split_at(side_by_side);
            let (c, rest_c) = c.split_at(side_by_side);
            let (d, rest_d) = d.split_at(side_by_side);
            let mut registers = [A::INITIAL; 4];
            let (a, b) = (a.as_chunks::<8>().0, b.as_chunks::<8>().0);
            let (c, d) = (c.as_chunks::<8>().0, d.as_chunks::<8>().0);
            for (((a, b), c), d) in a.iter().zip(b).zip(c).zip(d) {
                registers[0] = word::<A>(registers[0], u64::from_le_bytes(*a));
                registers[1] = word::<A>(registers[1], u64::from_le_bytes(*b));
                registers[2] = word::<A>(registers[2], u64::from_le_bytes(*c));
                registers[3] = word::<A>(registers[3], u64::from_le_bytes(*d));
            }
            [
                advance::<A>(registers[0], rest_a),
                advance::<A>(registers[1], rest_b),
                advance::<A>(registers[2], rest_c),
                advance::<A>(registers[3], rest_d),
            ]
        }

        /// The register after `data`.
        #[inline]
        #[target_feature(enable = $features)]
        pub(in super::super) fn advance<A: Algorithm>(mut register: u32, data: &[u8]) -> u32 {
            // Factors that move a register forward.
            let by_chain = const { shift::<A>(CHAIN_BYTES as u32 * 8) };
            let by_2_chains = const { shift::<A>(2 * CHAIN_BYTES as u32 * 8) };
            let (strides, rest) = data.as_chunks::<STRIDE_BYTES>();
            for stride in strides {
                let (words, _) = stride.as_chunks::<8>();
                let (words0, words) = words.split_at(CHAIN_BYTES / 8);
                let (words1, words2) = words.split_at(CHAIN_BYTES / 8);
                let mut chains = [register, 0, 0];
                for ((word0, word1), word2) in words0.iter().zip(words1).zip(words2) {
                    chains[0] = word::<A>(chains[0], u64::from_le_bytes(*word0));
                    chains[1] = word::<A>(chains[1], u64::from_le_bytes(*word1));
                    chains[2] = word::<A>(chains[2], u64::from_le_bytes(*word2));
                }
                let carried = moved(chains[0], by_2_chains) ^ moved(chains[1], by_chain);
                register = chains[2] ^ word::<A>(0, carried);
            }
            let (words, bytes) = rest.as_chunks::<8>();
            for bytes in words {
                register = word::<A>(register, u64::from_le_bytes(*bytes));
            }
            for next in bytes {
                register = byte::<A>(register, *next);
            }
            register
        }

        /// The word whose CRC from a register of zero is `register` moved forward by what `factor` says.
        #[inline]
        #[target_feature(enable = $features)]
        pub(in super::super) fn moved(register: u32, factor: u64) -> u64 {
            let [low, _] = product(u64::from(register), factor);
            low
        }
    };
}
pub(super) use chains;
