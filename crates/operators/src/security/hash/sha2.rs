//! SHA-256 and SHA-512 differ in the width of a word, the number of steps and how far they rotate: their steps over vectors,
//! written once for both.

pub(crate) mod alone;

use std::ops::{BitAnd, BitXor, Not};

use super::settled;
use super::vectors::Vectors;

/// A word, of 32 bits or 64. What the two differ in: four functions of a word (4.1.2, 4.1.3).
pub(crate) trait Sums:
    Copy + BitXor<Output = Self> + BitAnd<Output = Self> + Not<Output = Self>
{
    /// No bit set.
    const ZERO: Self;

    /// The sum without what does not fit.
    fn plus(self, other: Self) -> Self;
    /// See [`settled::settled`].
    fn settled(self) -> Self;
    /// See [`settled::computed_here`].
    fn computed_here(self) -> Self;
    /// [`Self::sum_0`] of one word.
    fn upper_0(self) -> Self;
    /// [`Self::sum_1`] of one word.
    fn upper_1(self) -> Self;
    /// [`Self::upper_0`], each rotation over the one before: longer to wait for, but fewer instructions where a rotation overwrites its operand.
    fn upper_0_nested(self) -> Self;
    /// [`Self::upper_1`] in the same way.
    fn upper_1_nested(self) -> Self;
    /// The upper-case sum that is added to the new `a`.
    fn sum_0<V: Vectors<Self, N>, const N: usize>(v: V, a: V::V) -> V::V;
    /// The upper-case sum that `e` gives.
    fn sum_1<V: Vectors<Self, N>, const N: usize>(v: V, e: V::V) -> V::V;
    /// The lower-case sum of the word fifteen steps before.
    fn more_0<V: Vectors<Self, N>, const N: usize>(v: V, word: V::V) -> V::V;
    /// The lower-case sum of the word two steps before.
    fn more_1<V: Vectors<Self, N>, const N: usize>(v: V, word: V::V) -> V::V;
}

/// Declares the four functions of words of `BITS`: rotations to the right, and of the lower-case sums a shift.
macro_rules! sums {
    (
        $word:ty, $bits:literal, [$a1:literal $a2:literal $a3:literal] [$e1:literal $e2:literal $e3:literal],
        [$s1:literal $s2:literal, $s3:literal] [$t1:literal $t2:literal, $t3:literal]
    ) => {
        impl Sums for $word {
            const ZERO: Self = 0;

            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }

            #[inline(always)]
            fn settled(self) -> Self {
                settled::settled(self.into()) as Self
            }

            #[inline(always)]
            fn computed_here(self) -> Self {
                settled::computed_here(self.into()) as Self
            }

            #[inline(always)]
            fn upper_0(self) -> Self {
                self.rotate_right($a1) ^ self.rotate_right($a2) ^ self.rotate_right($a3)
            }

            #[inline(always)]
            fn upper_1(self) -> Self {
                self.rotate_right($e1) ^ self.rotate_right($e2) ^ self.rotate_right($e3)
            }

            #[inline(always)]
            fn upper_0_nested(self) -> Self {
                let two = self.rotate_right($a3 - $a2) ^ self;
                (two.rotate_right($a2 - $a1) ^ self).rotate_right($a1)
            }

            #[inline(always)]
            fn upper_1_nested(self) -> Self {
                let two = self.rotate_right($e3 - $e2) ^ self;
                (two.rotate_right($e2 - $e1) ^ self).rotate_right($e1)
            }

            sums!(sum_0, $word, $bits, $a1 $a2 $a3, { $bits - $a3 });
            sums!(sum_1, $word, $bits, $e1 $e2 $e3, { $bits - $e3 });
            sums!(more_0, $word, $bits, $s1 $s2 $s3, 0);
            sums!(more_1, $word, $bits, $t1 $t2 $t3, 0);
        }
    };
    ($name:ident, $word:ty, $bits:literal, $one:literal $two:literal $three:literal, $left:tt) => {
        #[inline(always)]
        fn $name<V: Vectors<$word, N>, const N: usize>(v: V, x: V::V) -> V::V {
            v.xor_rotated::<{ $bits - $one }, $one, { $bits - $two }, $two, $left, $three>(x)
        }
    };
}

sums! { u32, 32, [2 13 22] [6 11 25], [7 18, 3] [17 19, 10] }
sums! { u64, 64, [28 34 39] [14 18 41], [1 8, 7] [19 61, 6] }

/// All steps, as many as there are constants.
#[inline(always)]
pub(crate) fn steps<W: Sums, V: Vectors<W, N>, const N: usize, const SETS: usize>(
    v: V,
    now: &mut [[V::V; SETS]; 8],
    words: &mut [[V::V; 16]; SETS],
    constants: &[W],
) {
    let (sixteens, _) = constants.as_chunks::<16>();
    for (i, constants) in sixteens.iter().enumerate() {
        if i + 1 < sixteens.len() {
            sixteen::<true, W, V, N, SETS>(v, now, words, constants);
        } else {
            sixteen::<false, W, V, N, SETS>(v, now, words, constants);
        }
    }
}

/// Sixteen steps; with `MORE`, each makes the word that is needed sixteen steps later. Unrolled by hand: each word has a
/// register of its own only where its number is a constant.
#[inline(always)]
fn sixteen<const MORE: bool, W: Sums, V: Vectors<W, N>, const N: usize, const SETS: usize>(
    v: V,
    now: &mut [[V::V; SETS]; 8],
    words: &mut [[V::V; 16]; SETS],
    constants: &[W; 16],
) {
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = *now;
    // Of the step to come, b ^ c: what the step before has as a ^ b.
    let mut differ = b;
    for set in 0..SETS {
        differ[set] = v.xor(b[set], c[set]);
    }
    macro_rules! step {
        ($a:ident $b:ident $c:ident $d:ident $e:ident $f:ident $g:ident $h:ident, $t:literal) => {
            let constant = v.splat(constants[$t]);
            for set in 0..SETS {
                let words = &mut words[set];
                let (a, b, e) = ($a[set], $b[set], $e[set]);
                let mut h = v.add($h[set], v.add(words[$t], constant));
                h = v.add(h, v.choose(e, $f[set], $g[set]));
                h = v.add(h, W::sum_1(v, e));
                $d[set] = v.add($d[set], h);
                h = if V::CHOOSES {
                    v.add(h, v.majority(a, b, $c[set]))
                } else {
                    let now = v.xor(a, b);
                    let most = v.xor(v.and(now, differ[set]), b);
                    differ[set] = now;
                    v.add(h, most)
                };
                $h[set] = v.add(h, W::sum_0(v, a));
                if MORE {
                    let (w1, w14) = (words[($t + 1) % 16], words[($t + 14) % 16]);
                    let word = v.add(words[$t], words[($t + 9) % 16]);
                    let word = v.add(word, W::more_0(v, w1));
                    words[$t] = v.add(word, W::more_1(v, w14));
                }
            }
        };
    }
    step!(a b c d e f g h, 0);
    step!(h a b c d e f g, 1);
    step!(g h a b c d e f, 2);
    step!(f g h a b c d e, 3);
    step!(e f g h a b c d, 4);
    step!(d e f g h a b c, 5);
    step!(c d e f g h a b, 6);
    step!(b c d e f g h a, 7);
    step!(a b c d e f g h, 8);
    step!(h a b c d e f g, 9);
    step!(g h a b c d e f, 10);
    step!(f g h a b c d e, 11);
    step!(e f g h a b c d, 12);
    step!(d e f g h a b c, 13);
    step!(c d e f g h a b, 14);
    step!(b c d e f g h a, 15);
    *now = [a, b, c, d, e, f, g, h];
}
