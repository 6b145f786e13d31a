//! XTS: the tweaks of a group of blocks at once.

use aes::cipher::inout::InOutBuf;
use dpb_core::Direction;

use super::blocks::{Block, Blocks, Rounds, Task};
use super::keys::{AHEAD, Items, Keys, SHORT, Source, TweakKeys};
use super::rounds::{
    decrypt, each_part, each_round, encrypt, encrypt_one, inverse_last, inverse_round, last, round,
    start,
};
use crate::security::aes::form::{BLOCK, Form, Mode, Places, Work};
use crate::security::aes::text::groups;

/// Each item, in one direction.
pub(super) struct Crypt<'a, P, S, const N: usize, const ENCRYPT: bool> {
    pub(super) source: S,
    pub(super) form: Form,
    pub(super) work: Work<'a, P>,
}

impl<'a, 'k, T, P, S, const N: usize, const ENCRYPT: bool> Task<T> for Crypt<'a, P, S, N, ENCRYPT>
where
    T: Blocks,
    P: Places<'a>,
    S: Source<'k, TweakKeys, N>,
{
    type Out = ();

    #[inline(always)]
    fn run<const W: usize, const L: usize>(self, t: T) {
        let common = self.source.common().unwrap_or(const { &Keys::NONE });
        // Not `S::ready`, which copies a common key: with the tweaks, sixteen registers do not hold it. `own` copies keys only where there are more.
        let mut keys = t.own::<N>(common.data());
        let mut tweak_keys = t.one().own::<N>(common.extra.keys());
        let direction = match ENCRYPT {
            true => Direction::Encrypt,
            false => Direction::Decrypt,
        };
        let form = self.form.known(Mode::Xts, direction);
        // Sectors are too long for it to matter whether they are alike.
        let mut items = Items::new(form, self.source, self.work, AHEAD);
        while let Some((own, parts, _)) = items.next() {
            if S::EACH {
                keys = t.own::<N>(own.data());
                tweak_keys = t.one().own::<N>(own.extra.keys());
            }
            let iv = t.load_block(parts.iv.try_into().expect("sixteen bytes"));
            let tweak = encrypt_one(t.one(), &tweak_keys, iv);
            unit::<T, N, ENCRYPT, W>(t, &keys, tweak, parts.text);
        }
    }
}

/// A data unit; `tweak` is that of its first block.
#[inline(always)]
fn unit<T: Blocks, const N: usize, const ENCRYPT: bool, const W: usize>(
    t: T,
    keys: &impl Rounds<T, N>,
    tweak: Block<T>,
    text: InOutBuf<'_, '_, u8>,
) {
    let rest = text.len() % BLOCK;
    // With a short block at the end, the last whole one is not done in turn.
    let in_turn = match rest {
        0 => text.len(),
        rest => text.len() - rest - BLOCK,
    };
    let (text, last) = text.split_at(in_turn);
    // Those of four blocks.
    let mut tweak = first_tweaks(t, tweak);
    let (whole, mut text) = groups::<W, 64>(text);
    let at = text.len() % 64 / BLOCK;
    if !whole.is_empty() || text.len() > 64 {
        let mut tweaks = [tweak; W];
        for i in 1..W {
            tweaks[i] = next_four(t, tweaks[i - 1]);
        }
        for mut text in whole {
            let mut blocks = tweaks;
            for i in 0..W {
                blocks[i] = t.xor4(tweaks[i], t.load(&text.get_in()[i]));
            }
            let now = tweaks;
            blocks = direct_ahead::<T, N, W, ENCRYPT>(t, keys, blocks, &mut tweaks);
            for i in 0..W {
                t.store(&mut text.get_out()[i], t.xor4(blocks[i], now[i]));
            }
        }
        if !text.is_empty() {
            let mut blocks = tweaks;
            each_part!(W, text.reborrow(), (i, text) {
                blocks[i] = t.xor4(tweaks[i], t.load_some(text.get_in()));
            });
            blocks = direct::<T, N, W, ENCRYPT>(t, keys, blocks);
            let fours = text.len() / 64;
            each_part!(W, text, (i, text) {
                t.store_some(text.get_out(), t.xor4(blocks[i], tweaks[i]));
            });
            for i in 0..W {
                if i == fours {
                    tweak = tweaks[i];
                }
            }
        } else {
            tweak = tweaks[0];
        }
    } else if !text.is_empty() {
        let block = t.xor4(t.load_some(text.get_in()), tweak);
        let [block] = direct::<T, N, 1, ENCRYPT>(t, keys, [block]);
        let is_whole = text.len() == 64;
        t.store_some(text.get_out(), t.xor4(block, tweak));
        if is_whole && rest != 0 {
            tweak = next_four(t, tweak);
        }
    }
    if rest != 0 {
        let mut tweaks = [[0; BLOCK]; 8];
        let (now, next) = tweaks.split_at_mut(4);
        t.store_some(now.as_flattened_mut(), tweak);
        t.store_some(next.as_flattened_mut(), next_four(t, tweak));
        steal::<T, N, ENCRYPT>(t, keys, [tweaks[at], tweaks[at + 1]], last);
    }
}

/// Ciphertext stealing (IEEE 1619, 5.3.2 and 5.4.2): the last whole block and the short one behind it. `tweaks` are theirs.
#[inline(always)]
fn steal<T: Blocks, const N: usize, const ENCRYPT: bool>(
    t: T,
    keys: &impl Rounds<T, N>,
    tweaks: [[u8; BLOCK]; 2],
    text: InOutBuf<'_, '_, u8>,
) {
    let [first, second] = match ENCRYPT {
        true => tweaks,
        false => [tweaks[1], tweaks[0]],
    };
    let (mut whole, mut short) = text.split_at(BLOCK);
    let mut block = [0; BLOCK];
    block.copy_from_slice(whole.get_in());
    let stolen = single::<T, N, ENCRYPT>(t, keys, block, first);
    // The short block becomes the start of this one, and its own bytes take that place.
    block = stolen;
    block[..short.len()].copy_from_slice(short.get_in());
    let rest = short.len();
    short.get_out().copy_from_slice(&stolen[..rest]);
    let block = single::<T, N, ENCRYPT>(t, keys, block, second);
    whole.get_out().copy_from_slice(&block);
}

/// One block with its tweak.
#[inline(always)]
fn single<T: Blocks, const N: usize, const ENCRYPT: bool>(
    t: T,
    keys: &impl Rounds<T, N>,
    mut block: [u8; BLOCK],
    tweak: [u8; BLOCK],
) -> [u8; BLOCK] {
    let tweak = t.load_some(&tweak);
    let four = t.xor4(t.load_some(&block), tweak);
    let [four] = direct::<T, N, 1, ENCRYPT>(t, keys, [four]);
    t.store_some(&mut block, t.xor4(four, tweak));
    block
}

#[inline(always)]
fn direct<T: Blocks, const N: usize, const W: usize, const ENCRYPT: bool>(
    t: T,
    keys: &impl Rounds<T, N>,
    blocks: [T::Four; W],
) -> [T::Four; W] {
    match ENCRYPT {
        true => encrypt(t, keys, blocks),
        false => decrypt(t, keys, blocks),
    }
}

/// The tweaks of four blocks, of which the first has `tweak`.
#[inline(always)]
fn first_tweaks<T: Blocks>(t: T, tweak: Block<T>) -> T::Four {
    let mut four = t.repeat(t.times_alphas(t.broadcast(tweak)));
    for r in 1..T::REGS {
        four[r] = match T::REGS {
            4 => t.times_alpha(four[r - 1]),
            regs => t.times_alpha_to(four[r - 1], 4 / regs as u32),
        };
    }
    four
}

/// Four tweaks times α^4.
#[inline(always)]
fn next_four<T: Blocks>(t: T, tweaks: T::Four) -> T::Four {
    let mut next = tweaks;
    let mut last = tweaks[T::REGS - 1];
    for r in 0..T::REGS {
        next[r] = match T::REGS {
            4 => t.times_alpha(last),
            _ => t.times_alpha_to(tweaks[r], 4),
        };
        last = next[r];
    }
    next
}

/// As [`direct`]; and `tweaks` become those of the next group, a register in each round: between groups the blocks of neither would be on their way.
#[inline(always)]
fn direct_ahead<T: Blocks, const N: usize, const W: usize, const ENCRYPT: bool>(
    t: T,
    keys: &impl Rounds<T, N>,
    blocks: [T::Four; W],
    tweaks: &mut [T::Four; W],
) -> [T::Four; W] {
    const { assert!(W * T::REGS <= 8 && (T::REGS == 4 || W == 4)) };
    let last_tweak = tweaks[W - 1][T::REGS - 1];
    // On x86 without VAES, vector instructions for tweaks compete with AES's for the same units. With ten rounds integers are faster, with fourteen they are
    // not (measured on Zen 3).
    let by_integers = cfg!(target_arch = "x86_64") && T::REGS == 4 && N == SHORT;
    let [low, high] = t.words(last_tweak);
    let mut integer = u128::from(high) << 64 | u128::from(low);
    let mut blocks = start(t, keys, blocks);
    each_round!(N, 1, i, {
        match ENCRYPT {
            true => round(t, keys, i, &mut blocks),
            false => inverse_round(t, keys, i, &mut blocks),
        }
        let r = i - 1;
        if r < W * T::REGS {
            let before = match r.checked_sub(1) {
                Some(before) => tweaks[before / T::REGS][before % T::REGS],
                None => last_tweak,
            };
            let tweak = &mut tweaks[r / T::REGS][r % T::REGS];
            // Each is the one before times α, for which CPUs need no product.
            *tweak = match T::REGS {
                4 if by_integers => {
                    let out = (integer.cast_signed() >> 127).cast_unsigned();
                    integer = (integer << 1) ^ (out & 0x87);
                    t.set_words([integer as u64, (integer >> 64) as u64])
                }
                4 => t.times_alpha(before),
                _ => next_group(t, *tweak),
            };
            t.pin(tweak);
        }
    });
    match ENCRYPT {
        true => last(t, keys, blocks),
        false => inverse_last(t, keys, blocks),
    }
}

/// A register of tweaks times α^16: as many half bytes further.
#[inline(always)]
fn next_group<T: Blocks>(t: T, tweaks: T::Reg) -> T::Reg {
    let out = t.down::<14>(tweaks);
    let back = t.low_product(out, t.set_words([0x87; 2]));
    t.xor(t.up::<2>(tweaks), back)
}
