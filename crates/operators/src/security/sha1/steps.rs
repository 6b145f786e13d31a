//! The steps over vectors: several messages' words in each.

use super::{K, Sha1};
use crate::security::hash::vectors::{Steps, Vectors};

impl Steps<64, 5> for Sha1 {
    type Word = u32;
    const BIG_ENDIAN: bool = true;
    const MARK: u32 = 1 << 31;
    const OUTER_BITS: [u32; 2] = [0, (64 + 20) * 8];

    #[inline(always)]
    fn steps<V: Vectors<u32, N>, const N: usize, const SETS: usize>(
        v: V,
        now: &mut [[V::V; SETS]; 5],
        words: &mut [[V::V; 16]; SETS],
    ) {
        let [mut a, mut b, mut c, mut d, mut e] = *now;
        // `words` are those of the last sixteen steps. Unrolled by hand: each word has a register of its own only where its number
        // is a constant.
        macro_rules! step {
            ($mix:ident, $t:expr, $a:ident $b:ident $c:ident $d:ident $e:ident) => {
                let constant = v.splat(K[$t / 20]);
                for set in 0..SETS {
                    let words = &mut words[set];
                    if $t >= 16 {
                        let (w3, w8, w14) = (
                            words[($t + 13) % 16],
                            words[($t + 8) % 16],
                            words[($t + 2) % 16],
                        );
                        let sum = v.xor(v.xor_3(w8, w14, w3), words[$t % 16]);
                        words[$t % 16] = v.rotate::<1, 31>(sum);
                    }
                    $e[set] = v.add($e[set], v.add(words[$t % 16], constant));
                    $e[set] = v.add($e[set], v.$mix($b[set], $c[set], $d[set]));
                    $e[set] = v.add($e[set], v.rotate::<5, 27>($a[set]));
                    $b[set] = v.rotate::<30, 2>($b[set]);
                }
            };
        }
        macro_rules! twenty {
            ($mix:ident, $first:literal) => {
                twenty!($mix, $first, 0);
                twenty!($mix, $first, 5);
                twenty!($mix, $first, 10);
                twenty!($mix, $first, 15);
            };
            ($mix:ident, $first:literal, $five:literal) => {
                step!($mix, $first + $five, a b c d e);
                step!($mix, $first + $five + 1, e a b c d);
                step!($mix, $first + $five + 2, d e a b c);
                step!($mix, $first + $five + 3, c d e a b);
                step!($mix, $first + $five + 4, b c d e a);
            };
        }
        twenty!(choose, 0);
        twenty!(xor_3, 20);
        twenty!(majority, 40);
        twenty!(xor_3, 60);
        *now = [a, b, c, d, e];
    }
}
