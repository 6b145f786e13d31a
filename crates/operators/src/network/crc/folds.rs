//! Carry-less products of 64 bits fold a message by 16 bytes each two (Gopal et al., Fast CRC Computation for Generic
//! Polynomials Using PCLMULQDQ, Intel 2009): for CRCs that the CPU has no instruction for.
//!
//! Zeros before a message do not change a CRC whose register starts at zero. So the odd bytes are taken first, behind
//! zeros, and no tail is left. A register that starts otherwise is XORed onto the first four bytes.

/// Shorter data goes through the table.
pub(super) const FOLDED_BYTES_MIN: usize = 32;

/// Defines `advance` and `batch` over an instruction set's `Lane` of 16 bytes, `load(&[u8; 16]) -> Lane`,
/// `reversed(Lane) -> Lane`, which reverses the bits of each byte, `xor(Lane, Lane) -> Lane`, `folded(Lane, [u64; 2], Lane) -> Lane`,
/// `halves(Lane) -> [u64; 2]` and `product(u64, u64) -> [u64; 2]`. A macro and not a trait, because only code with the same
/// features is inlined.
macro_rules! folds {
    ($features:literal) => {
        /// The CRC of each item, into its slot.
        #[target_feature(enable = $features)]
        pub(super) fn batch<A: Algorithm>(batch: &dpb_core::Batch<'_>, slots: &mut [A::Slot]) {
            for (i, slot) in slots[..batch.len()].iter_mut().enumerate() {
                *slot = A::slot(A::crc(advance::<A>(A::INITIAL, batch.item(i))));
            }
        }

        /// The register after `data`.
        #[target_feature(enable = $features)]
        pub(super) fn advance<A: Algorithm>(register: u32, data: &[u8]) -> u32 {
            if data.len() < FOLDED_BYTES_MIN {
                return portable::advance::<A>(register, data);
            }
            // 17 to 32 bytes, so that the register does not reach beyond them.
            let (head, body) = data.split_at((data.len() - 1) % 16 + 17);
            let (body, _) = body.as_chunks::<16>();
            let (before, groups) = body.split_at(body.len() % 4);
            let (groups, _) = groups.as_chunks::<4>();
            let by_16 = const { fold::<A>(128) };
            let mut lane = start::<A>(register, head);
            for block in before {
                lane = folded(lane, by_16, taken::<A>(block));
            }
            if let Some((first, groups)) = groups.split_first() {
                let mut lanes = [
                    folded(lane, by_16, taken::<A>(&first[0])),
                    taken::<A>(&first[1]),
                    taken::<A>(&first[2]),
                    taken::<A>(&first[3]),
                ];
                let by_64 = const { fold::<A>(512) };
                for group in groups {
                    for (lane, block) in lanes.iter_mut().zip(group) {
                        *lane = folded(*lane, by_64, taken::<A>(block));
                    }
                }
                let [a, b, c, d] = lanes;
                let (ab, cd) = (folded(a, by_16, b), folded(c, by_16, d));
                lane = folded(ab, const { fold::<A>(256) }, cd);
            }
            reduced::<A>(halves(lane))
        }

        /// The remainder of 17 to 32 bytes behind a register, in 16.
        #[inline]
        #[target_feature(enable = $features)]
        fn start<A: Algorithm>(register: u32, head: &[u8]) -> Lane {
            let (mut bytes, mut registers) = ([0; 32], [0; 32]);
            let at = 32 - head.len();
            bytes[at..].copy_from_slice(head);
            registers[at..at + 4].copy_from_slice(&register.to_le_bytes());
            let (bytes, registers) = (bytes.as_chunks::<16>().0, registers.as_chunks::<16>().0);
            // Twice written out: a closure is not always inlined.
            let early = xor(taken::<A>(&bytes[0]), load(&registers[0]));
            let late = xor(taken::<A>(&bytes[1]), load(&registers[1]));
            folded(early, const { fold::<A>(128) }, late)
        }

        /// The next bytes of a message.
        #[inline]
        #[target_feature(enable = $features)]
        fn taken<A: Algorithm>(block: &[u8; 16]) -> Lane {
            match A::HIGHEST_FIRST {
                true => reversed(load(block)),
                false => load(block),
            }
        }

        /// The register after 16 bytes, from a register of zero.
        #[inline]
        #[target_feature(enable = $features)]
        fn reduced<A: Algorithm>([low, high]: [u64; 2]) -> u32 {
            let [low, next] = product(low, Barrett::<A>::FORWARD);
            let [quotient, _] = product(low ^ high, Barrett::<A>::QUOTIENT);
            let [_, rest] = product(quotient, Barrett::<A>::POLYNOMIAL);
            (next ^ rest) as u32
        }
    };
}
pub(super) use folds;

/// Defines `forward_by` over an instruction set's `product(u64, u64) -> [u64; 2]`.
macro_rules! forward {
    ($features:literal) => {
        /// A remainder with `bytes` zero bytes behind it: a product for each byte of their number.
        #[target_feature(enable = $features)]
        fn forward_by<A: Algorithm>(mut remainder: u32, mut bytes: u64) -> u32 {
            let mut powers = const { &powers::<A>() }.iter();
            while bytes > 0 {
                // At most eight bytes: there is a row for each.
                let Some(row) = powers.next() else { break };
                let power = row[bytes as usize & 0xff];
                // Bit *i* of the product is the coefficient of x^(62-i); of what leaves the polynomial, of x^(63-i).
                let [twice, _] = product(u64::from(remainder), u64::from(power) << 1);
                let half = |word: u64| word & 0xffff_ffff;
                let [quotient, _] = product(half(twice), half(Barrett::<A>::QUOTIENT));
                let [multiple, _] = product(half(quotient), Barrett::<A>::POLYNOMIAL);
                remainder = ((twice ^ multiple) >> 32) as u32;
                bytes >>= 8;
            }
            remainder
        }
    };
}
pub(super) use forward;
