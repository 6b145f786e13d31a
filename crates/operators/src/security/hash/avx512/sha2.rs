//! SHA-256 and SHA-512 differ in the width of a word, the number of steps and how far they rotate. Written once for both, as
//! a macro: rotations are immediate operands, and each word has a register of its own only where its number is a constant.

/// `fn compress`: takes each state forward by its blocks.
macro_rules! lanes {
    (
        $word:ty, $states:ident, $lanes:literal lanes of $block:literal bytes,
        $words:ident, $swap:ident, $add:ident, $ror:ident, $srli:ident, $ternary:ident, $set1:ident,
        steps: 16 * $sixteens:literal,
        sums: [$a1:literal, $a2:literal, $a3:literal], [$e1:literal, $e2:literal, $e3:literal],
        schedule: [$s1:literal, $s2:literal, $s3:literal], [$t1:literal, $t2:literal, $t3:literal],
    ) => {
        #[target_feature(enable = "avx512f,avx512bw")]
        fn compress(states: &mut $states<8>, blocks: &[&[[u8; $block]]; $lanes]) {
            let mut now = states.load();
            for block in 0..blocks[0].len() {
                let mut words = $words(blocks, block);
                for word in &mut words {
                    *word = $swap(*word);
                }
                let before = now;
                let (constants, _) = K.as_chunks::<16>();
                for constants in &constants[..$sixteens - 1] {
                    steps::<true>(&mut now, &mut words, constants);
                }
                steps::<false>(&mut now, &mut words, &constants[$sixteens - 1]);
                for i in 0..8 {
                    now[i] = $add(now[i], before[i]);
                }
            }
            states.store(&now);
        }

        /// Sixteen steps; with `MORE`, each makes the word that is needed sixteen steps later.
        #[inline]
        #[target_feature(enable = "avx512f")]
        fn steps<const MORE: bool>(
            now: &mut [__m512i; 8],
            words: &mut [__m512i; 16],
            constants: &[$word; 16],
        ) {
            // Truth tables of three inputs.
            const CHOICE: i32 = 0xca;
            const MAJORITY: i32 = 0xe8;
            const PARITY: i32 = 0x96;
            macro_rules! sum {
                ($x:expr, $one:literal, $two:literal, $three:literal, $last:ident) => {
                    $ternary::<PARITY>($ror::<$one>($x), $ror::<$two>($x), $last::<$three>($x))
                };
            }
            macro_rules! step {
                ($a:ident $b:ident $c:ident $d:ident $e:ident $f:ident $g:ident $h:ident, $t:literal) => {
                    let constant = $set1(constants[$t].cast_signed());
                    $h = $add($h, $add(words[$t], constant));
                    $h = $add($h, $ternary::<CHOICE>($e, $f, $g));
                    $h = $add($h, sum!($e, $e1, $e2, $e3, $ror));
                    $d = $add($d, $h);
                    $h = $add($h, $ternary::<MAJORITY>($a, $b, $c));
                    $h = $add($h, sum!($a, $a1, $a2, $a3, $ror));
                    if MORE {
                        let (w1, w14) = (words[($t + 1) % 16], words[($t + 14) % 16]);
                        let word = $add(words[$t], words[($t + 9) % 16]);
                        let word = $add(word, sum!(w1, $s1, $s2, $s3, $srli));
                        words[$t] = $add(word, sum!(w14, $t1, $t2, $t3, $srli));
                    }
                };
            }
            let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = *now;
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
    };
}
pub(crate) use lanes;
