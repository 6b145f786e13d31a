//! The rounds of AES on blocks that are on their way together.

use super::blocks::{Block, Blocks, Rounds};

/// The round keys, each in every block of a register.
#[inline(always)]
pub(super) fn broadcast<T: Blocks, const N: usize>(t: T, keys: &[[u8; 16]; N]) -> [T::Reg; N] {
    let mut wide = [t.zeros()[0]; N];
    for i in 0..N {
        wide[i] = t.broadcast(t.load_block(&keys[i]));
    }
    wide
}

/// Runs the code for each round from the given one on, all but the first key and the last. Written out: the compiler leaves a loop.
macro_rules! each_round {
    ($N:ident, $first:expr, $i:ident, $code:block) => {
        each_round!(@ $N, $first, $i, $code, 1 2 3 4 5 6 7 8 9 10 11 12 13)
    };
    (@ $N:ident, $first:expr, $i:ident, $code:block, $($round:literal)+) => {
        $(if $round >= $first && $round < $N - 1 {
            let $i = $round;
            $code
        })+
    };
}

pub(super) use each_round;

/// Runs the code for each part of a text, of 64 bytes but for the last one, and of `$W` parts at most. Written out, as [`each_round`] is: of a loop the compiler
/// keeps registers in memory.
macro_rules! each_part {
    ($W:ident, $text:expr, ($i:ident, $part:ident) $code:block) => {{
        let mut parts = crate::security::aes::text::chunks($text, 64);
        each_part!(@ $W, parts, $i, $part, $code, 0 1 2 3 4 5 6 7);
    }};
    (@ $W:ident, $parts:ident, $i:ident, $part:ident, $code:block, $($n:literal)+) => {
        $(if $n < $W {
            #[allow(unused_mut, reason = "not all code writes")]
            if let Some(mut $part) = $parts.next() {
                let $i = $n;
                $code
            }
        })+
    };
}

pub(super) use each_part;

/// Encrypts `W` times four blocks.
#[inline(always)]
pub(super) fn encrypt<T: Blocks, const N: usize, const W: usize>(
    t: T,
    keys: &impl Rounds<T, N>,
    blocks: [T::Four; W],
) -> [T::Four; W] {
    let mut blocks = start(t, keys, blocks);
    rounds_from::<1, T, N, W>(t, keys, &mut blocks);
    last(t, keys, blocks)
}

/// What comes before the first round.
#[inline(always)]
pub(super) fn start<T: Blocks, const N: usize, const W: usize>(
    t: T,
    keys: &impl Rounds<T, N>,
    mut blocks: [T::Four; W],
) -> [T::Four; W] {
    for four in &mut blocks {
        for r in 0..T::REGS {
            four[r] = t.start(four[r], keys.at(t, 0));
        }
    }
    blocks
}

/// The rounds from number `FIRST` on, without the last one.
#[inline(always)]
pub(super) fn rounds_from<const FIRST: usize, T: Blocks, const N: usize, const W: usize>(
    t: T,
    keys: &impl Rounds<T, N>,
    blocks: &mut [T::Four; W],
) {
    each_round!(N, FIRST, i, {
        round(t, keys, i, blocks);
    });
}

/// Round number `i`.
#[inline(always)]
pub(super) fn round<T: Blocks, const N: usize, const W: usize>(
    t: T,
    keys: &impl Rounds<T, N>,
    i: usize,
    blocks: &mut [T::Four; W],
) {
    for four in &mut *blocks {
        for r in 0..T::REGS {
            four[r] = t.round(four[r], [keys.at(t, i - 1), keys.at(t, i)]);
        }
    }
    keep_order(t, blocks);
}

/// The last round.
#[inline(always)]
pub(super) fn last<T: Blocks, const N: usize, const W: usize>(
    t: T,
    keys: &impl Rounds<T, N>,
    mut blocks: [T::Four; W],
) -> [T::Four; W] {
    for four in &mut blocks {
        for r in 0..T::REGS {
            four[r] = t.last(four[r], [keys.at(t, N - 2), keys.at(t, N - 1)]);
        }
    }
    blocks
}

/// Keeps the compiler from moving what is computed of one block behind what is computed of another, which it does for want of
/// registers: the CPU would not look far enough ahead to start their rounds together.
#[inline(always)]
fn keep_order<T: Blocks, const W: usize>(t: T, blocks: &mut [T::Four; W]) {
    if W * T::REGS > 1 {
        for four in blocks {
            for r in 0..T::REGS {
                t.pin(&mut four[r]);
            }
        }
    }
}

/// Encrypts a block.
#[inline(always)]
pub(super) fn encrypt_one<T: Blocks, const N: usize>(
    t: T,
    keys: &impl Rounds<T, N>,
    mut block: Block<T>,
) -> Block<T> {
    let one = t.one();
    block = one.start(block, t.low(keys.at(t, 0)));
    each_round!(N, 1, i, {
        block = one.round(block, [t.low(keys.at(t, i - 1)), t.low(keys.at(t, i))]);
    });
    one.last(block, [t.low(keys.at(t, N - 2)), t.low(keys.at(t, N - 1))])
}

/// The keys of the rounds of `W` times four blocks, of which each has its own.
pub(super) trait OwnRounds<T: Blocks, const N: usize, const W: usize> {
    /// Those of round `i` for register `r` of the `w`th four.
    fn at(&self, t: T, w: usize, r: usize, i: usize) -> T::Reg;
}

/// Encrypts `W` times four blocks, each block with keys of its own.
#[inline(always)]
pub(super) fn encrypt_each<T: Blocks, const N: usize, const W: usize>(
    t: T,
    keys: &impl OwnRounds<T, N, W>,
    mut blocks: [T::Four; W],
) -> [T::Four; W] {
    for w in 0..W {
        for r in 0..T::REGS {
            blocks[w][r] = t.start(blocks[w][r], keys.at(t, w, r, 0));
        }
    }
    each_round!(N, 1, i, {
        for w in 0..W {
            for r in 0..T::REGS {
                let pair = [keys.at(t, w, r, i - 1), keys.at(t, w, r, i)];
                blocks[w][r] = t.round(blocks[w][r], pair);
            }
        }
        keep_order(t, &mut blocks);
    });
    for w in 0..W {
        for r in 0..T::REGS {
            let pair = [keys.at(t, w, r, N - 2), keys.at(t, w, r, N - 1)];
            blocks[w][r] = t.last(blocks[w][r], pair);
        }
    }
    blocks
}

/// Decrypts `W` times four blocks, with the keys of the inverse cipher.
#[inline(always)]
pub(super) fn decrypt<T: Blocks, const N: usize, const W: usize>(
    t: T,
    keys: &impl Rounds<T, N>,
    blocks: [T::Four; W],
) -> [T::Four; W] {
    let mut blocks = start(t, keys, blocks);
    each_round!(N, 1, i, {
        inverse_round(t, keys, i, &mut blocks);
    });
    inverse_last(t, keys, blocks)
}

/// Round number `i` of the inverse cipher.
#[inline(always)]
pub(super) fn inverse_round<T: Blocks, const N: usize, const W: usize>(
    t: T,
    keys: &impl Rounds<T, N>,
    i: usize,
    blocks: &mut [T::Four; W],
) {
    for four in &mut *blocks {
        for r in 0..T::REGS {
            four[r] = t.inverse_round(four[r], [keys.at(t, i - 1), keys.at(t, i)]);
        }
    }
    keep_order(t, blocks);
}

/// The last round of the inverse cipher.
#[inline(always)]
pub(super) fn inverse_last<T: Blocks, const N: usize, const W: usize>(
    t: T,
    keys: &impl Rounds<T, N>,
    mut blocks: [T::Four; W],
) -> [T::Four; W] {
    for four in &mut blocks {
        for r in 0..T::REGS {
            four[r] = t.inverse_last(four[r], [keys.at(t, N - 2), keys.at(t, N - 1)]);
        }
    }
    blocks
}
