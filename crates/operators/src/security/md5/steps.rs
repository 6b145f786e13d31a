//! The steps over vectors: several messages' words in each, and several such vectors, whose steps fill each other's waits.

use super::{K, Md5};
use crate::security::hash::vectors::{Steps, Vectors};

impl Steps<64, 4> for Md5 {
    type Word = u32;
    const BIG_ENDIAN: bool = false;
    const MARK: u32 = 0x80;
    const OUTER_BITS: [u32; 2] = [(64 + 16) * 8, 0];

    #[inline(always)]
    fn steps<V: Vectors<u32, N>, const N: usize, const SETS: usize>(
        v: V,
        now: &mut [[V::V; SETS]; 4],
        words: &mut [[V::V; 16]; SETS],
    ) {
        let [mut a, mut b, mut c, mut d] = *now;
        // One step of each set: `a` becomes `b + ((a + mix(b, c, d) + word + constant) <<< rotate)`.
        macro_rules! step {
            ($mix:ident, $a:ident $b:ident $c:ident $d:ident, $word:expr, $step:expr, $rotate:literal) => {
                let constant = v.splat(K[$step]);
                for set in 0..SETS {
                    let sum = v.add(v.add(words[set][($word) % 16], constant), $a[set]);
                    let sum = $mix(v, sum, [$b[set], $c[set], $d[set]]);
                    $a[set] = v.add(v.rotate::<$rotate, { 32 - $rotate }>(sum), $b[set]);
                }
            };
        }
        macro_rules! round {
            ($mix:ident, $first:literal, $stride:literal, $round:literal, $rotate:tt) => {
                round!(4 $mix, $first, $stride, 16 * $round, 0, $rotate);
                round!(4 $mix, $first, $stride, 16 * $round, 4, $rotate);
                round!(4 $mix, $first, $stride, 16 * $round, 8, $rotate);
                round!(4 $mix, $first, $stride, 16 * $round, 12, $rotate);
            };
            (4 $mix:ident, $first:literal, $stride:literal, $at:expr, $four:literal, [$r0:literal $r1:literal $r2:literal $r3:literal]) => {
                step!($mix, a b c d, $first + $stride * $four, $at + $four, $r0);
                step!($mix, d a b c, $first + $stride * ($four + 1), $at + $four + 1, $r1);
                step!($mix, c d a b, $first + $stride * ($four + 2), $at + $four + 2, $r2);
                step!($mix, b c d a, $first + $stride * ($four + 3), $at + $four + 3, $r3);
            };
        }
        round!(f, 0, 1, 0, [7 12 17 22]);
        round!(g, 1, 5, 1, [5 9 14 20]);
        round!(h, 5, 3, 2, [4 11 16 23]);
        round!(i, 0, 7, 3, [6 10 15 21]);
        *now = [a, b, c, d];
    }
}

// The four functions of b, c and d (3.4), added to a sum. `b` comes last.

#[inline(always)]
fn f<V: Vectors<u32, N>, const N: usize>(v: V, sum: V::V, [b, c, d]: [V::V; 3]) -> V::V {
    v.add(sum, v.choose(b, c, d))
}

/// Without an instruction that chooses, the two halves are added one after the other: they have no bit in common.
#[inline(always)]
fn g<V: Vectors<u32, N>, const N: usize>(v: V, sum: V::V, [b, c, d]: [V::V; 3]) -> V::V {
    if V::CHOOSES {
        v.add(sum, v.choose(d, b, c))
    } else {
        v.add(v.add(sum, v.not_and(d, c)), v.and(d, b))
    }
}

#[inline(always)]
fn h<V: Vectors<u32, N>, const N: usize>(v: V, sum: V::V, [b, c, d]: [V::V; 3]) -> V::V {
    v.add(sum, v.xor_3(c, d, b))
}

#[inline(always)]
fn i<V: Vectors<u32, N>, const N: usize>(v: V, sum: V::V, [b, c, d]: [V::V; 3]) -> V::V {
    v.add(sum, v.xor_or_not(c, b, d))
}
