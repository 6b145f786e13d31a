//! Carry-less products of 64 bits fold a message by 16 bytes each two (Gopal et al., Fast CRC Computation for Generic
//! Polynomials Using PCLMULQDQ, Intel 2009).
//!
//! Zeros before a message do not change a CRC whose register starts at zero. So the odd bytes are taken first, behind
//! zeros, and no tail is left. A register that starts otherwise is XORed onto the first eight bytes.

/// Shorter data, which the register would reach beyond, goes through the table.
pub(super) const FOLDED_BYTES_MIN: usize = 8;

/// Defines `advance` and `each` over an instruction set's `Lane` of 16 bytes, `load(&[u8; 16]) -> Lane`,
/// `xor(Lane, Lane) -> Lane`, `folded(Lane, [u64; 2], Lane) -> Lane`, `halves(Lane) -> [u64; 2]` and
/// `product(u64, u64) -> [u64; 2]`. A macro and not a trait, because only code with the same features is inlined.
macro_rules! folds {
    ($features:literal) => {
        /// The CRC of each item, into its slot.
        #[target_feature(enable = $features)]
        fn each(batch: &dpb_core::Batch<'_>, slots: &mut [[u8; 8]]) {
            for (i, place) in slots[..batch.len()].iter_mut().enumerate() {
                *place = slot(advance(INITIAL, batch.item(i)));
            }
        }

        /// The register after `data`.
        #[target_feature(enable = $features)]
        fn advance(register: u64, data: &[u8]) -> u64 {
            if data.len() < FOLDED_BYTES_MIN {
                return portable::advance(register, data);
            }
            // 17 to 32 bytes, if there are as many.
            let head_bytes = ((data.len() - 1) % 16 + 17).min(data.len());
            let (head, body) = data.split_at(head_bytes);
            let (body, _) = body.as_chunks::<16>();
            let (before, groups) = body.split_at(body.len() % 4);
            let (groups, _) = groups.as_chunks::<4>();
            let by_16 = const { fold(128) };
            let mut lane = start(register, head);
            for block in before {
                lane = folded(lane, by_16, load(block));
            }
            if let Some((first, groups)) = groups.split_first() {
                let mut lanes = [
                    folded(lane, by_16, load(&first[0])),
                    load(&first[1]),
                    load(&first[2]),
                    load(&first[3]),
                ];
                let by_64 = const { fold(512) };
                for group in groups {
                    for (lane, block) in lanes.iter_mut().zip(group) {
                        *lane = folded(*lane, by_64, load(block));
                    }
                }
                let [a, b, c, d] = lanes;
                let (ab, cd) = (folded(a, by_16, b), folded(c, by_16, d));
                lane = folded(ab, const { fold(256) }, cd);
            }
            reduced(halves(lane))
        }

        /// The remainder of 8 to 32 bytes behind a register, in 16.
        #[inline]
        #[target_feature(enable = $features)]
        fn start(register: u64, head: &[u8]) -> Lane {
            let (mut bytes, mut registers) = ([0; 32], [0; 32]);
            // Whole lanes, as blocks of a disk have them, are not copied byte by byte.
            if let Ok(whole) = head.try_into() {
                bytes = whole;
                registers[..8].copy_from_slice(&register.to_le_bytes());
            } else {
                let at = 32 - head.len();
                bytes[at..].copy_from_slice(head);
                registers[at..at + 8].copy_from_slice(&register.to_le_bytes());
            }
            let (bytes, registers) = (bytes.as_chunks::<16>().0, registers.as_chunks::<16>().0);
            let early = xor(load(&bytes[0]), load(&registers[0]));
            let late = xor(load(&bytes[1]), load(&registers[1]));
            folded(early, const { fold(128) }, late)
        }

        /// The register after 16 bytes, from a register of zero.
        #[inline]
        #[target_feature(enable = $features)]
        fn reduced([low, high]: [u64; 2]) -> u64 {
            let [low, next] = product(low, FORWARD);
            let [quotient, _] = product(low ^ high, QUOTIENT);
            let [_, rest] = product(quotient, DIVISOR);
            next ^ rest ^ quotient
        }
    };
}
pub(super) use folds;
