//! The loop over a long item's stripes.

/// Defines `all` over an instruction set's `Lanes`, which hold the eight sums, `begun() -> Lanes` and `ended(Lanes) -> Sums` from and to
/// memory, `load(&[u8; 64]) -> Lanes`,
/// `accumulated(Lanes, Lanes, Lanes) -> Lanes` of sums, stripe and secret, `scrambled(Lanes, Lanes) -> Lanes` of sums and
/// secret. A macro and not a trait, because only code with the same features is inlined.
macro_rules! stripes {
    ($features:literal) => {
        /// The sums after `data`, which is longer than a stripe.
        #[target_feature(enable = $features)]
        fn all(data: &[u8], secret: &Secret) -> Sums {
            // Begun and ended in here: lanes that are handed in or out lie in memory between the loops as well.
            let mut sums = begun();
            // The last byte is the last stripe's, which overlaps those before it.
            let (blocks, rest) = data[..data.len() - 1].as_chunks::<BLOCK_BYTES>();
            for block in blocks {
                sums = stripes(sums, block, secret);
                let secret = secret.stripe(SECRET_BYTES - STRIPE_BYTES);
                sums = scrambled(sums, load(secret));
            }
            sums = stripes(sums, rest, secret);
            let last = data.last_chunk().expect("longer than a stripe");
            ended(accumulated(sums, load(last), load(secret.stripe(LAST))))
        }

        /// The sums after the whole stripes of a block or a part of one.
        #[inline]
        #[target_feature(enable = $features)]
        fn stripes(mut sums: Lanes, block: &[u8], secret: &Secret) -> Lanes {
            for (i, stripe) in block.as_chunks().0.iter().enumerate() {
                sums = accumulated(sums, load(stripe), load(secret.stripe(8 * i)));
            }
            sums
        }
    };
}
pub(super) use stripes;
