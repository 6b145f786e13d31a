//! XTS: the tweaks of sixteen blocks at once.

use std::arch::x86_64::*;

use aes::cipher::inout::InOutBuf;
use dpb_core::Direction;

use super::{WIDE, broadcast, decrypt_blocks, encrypt_blocks, load, load_some, store, store_some};
use crate::security::aes::form::{BLOCK, Form, Mode, Places, Work};
use crate::security::aes::stealing::steal;
use crate::security::aes::text::{chunks, groups};

/// Each item. `keys` are those of the direction, `tweak` those that encrypt.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,vaes,vpclmulqdq")]
pub(super) fn crypt<'a, const N: usize, const ENCRYPT: bool, P: Places<'a>>(
    keys: &[[u8; 16]; N],
    tweak: &[[u8; 16]; N],
    form: Form,
    work: Work<'a, P>,
) {
    let keys = broadcast(keys);
    let form = form.known(Mode::Xts, direction(ENCRYPT));
    let tweak_keys = broadcast(tweak);
    form.each(work, |parts| {
        let iv = super::broadcast_block(parts.iv.try_into().expect("sixteen bytes"));
        let [tweak] = encrypt_blocks(&tweak_keys, [iv]);
        unit::<N, ENCRYPT, P>(&keys, tweak, parts.text);
        Ok(())
    });
}

/// A data unit; `tweak` is that of its first block, four times. Made for each `P`, so that the one call of it is inlined.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,vaes,vpclmulqdq")]
fn unit<const N: usize, const ENCRYPT: bool, P>(
    keys: &[__m512i; N],
    tweak: __m512i,
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
    let mut tweak = times_alpha_to(tweak, _mm512_set_epi64(3, 3, 2, 2, 1, 1, 0, 0));
    let four = _mm512_set1_epi64(4);
    let (whole, text) = groups::<WIDE, 64>(text);
    if !whole.is_empty() {
        let mut tweaks = [tweak; WIDE];
        for i in 1..WIDE {
            tweaks[i] = times_alpha_to(tweaks[i - 1], four);
        }
        for mut text in whole {
            let mut blocks = tweaks;
            for i in 0..WIDE {
                blocks[i] = _mm512_xor_si512(tweaks[i], load(&text.get_in()[i]));
            }
            blocks = direct::<N, WIDE, ENCRYPT>(keys, blocks);
            for i in 0..WIDE {
                store(
                    &mut text.get_out()[i],
                    _mm512_xor_si512(blocks[i], tweaks[i]),
                );
                tweaks[i] = times_alpha_to_16(tweaks[i]);
            }
        }
        tweak = tweaks[0];
    }
    let at = text.len() % 64 / BLOCK;
    for mut text in chunks(text, 64) {
        let block = _mm512_xor_si512(load_some(text.get_in()), tweak);
        let [block] = direct::<N, 1, ENCRYPT>(keys, [block]);
        store_some(text.get_out(), _mm512_xor_si512(block, tweak));
        if text.len() == 64 {
            tweak = times_alpha_to(tweak, four);
        }
    }
    if rest != 0 {
        let mut tweaks = [[0; BLOCK]; 8];
        let (now, next) = tweaks.split_at_mut(4);
        store_some(now.as_flattened_mut(), tweak);
        store_some(next.as_flattened_mut(), times_alpha_to(tweak, four));
        let one = |block: [u8; BLOCK], tweak: [u8; BLOCK]| {
            let tweak = load_some(&tweak);
            let block = _mm512_xor_si512(load_some(&block), tweak);
            let [block] = direct::<N, 1, ENCRYPT>(keys, [block]);
            let mut to = [0; BLOCK];
            store_some(&mut to, _mm512_xor_si512(block, tweak));
            to
        };
        let tweaks = [tweaks[at], tweaks[at + 1]];
        steal(direction(ENCRYPT), tweaks, last, one);
    }
}

/// The direction: from plain text to ciphertext, or back.
fn direction(encrypt: bool) -> Direction {
    match encrypt {
        true => Direction::Encrypt,
        false => Direction::Decrypt,
    }
}

#[inline]
#[target_feature(enable = "avx512f,vaes")]
fn direct<const N: usize, const W: usize, const ENCRYPT: bool>(
    keys: &[__m512i; N],
    blocks: [__m512i; W],
) -> [__m512i; W] {
    match ENCRYPT {
        true => encrypt_blocks(keys, blocks),
        false => decrypt_blocks(keys, blocks),
    }
}

/// Four tweaks times α to the powers in `bits`, each of them twice, below 57.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,vpclmulqdq")]
fn times_alpha_to(tweaks: __m512i, bits: __m512i) -> __m512i {
    let left = _mm512_sllv_epi64(tweaks, bits);
    let out = _mm512_srlv_epi64(tweaks, _mm512_sub_epi64(_mm512_set1_epi64(64), bits));
    // What leaves the lower word enters the upper one; what leaves that comes back times α^7 + α^2 + α + 1.
    let back = _mm512_clmulepi64_epi128::<0x01>(out, _mm512_set1_epi64(0x87));
    let up = _mm512_bslli_epi128::<8>(out);
    _mm512_ternarylogic_epi64::<XOR3>(left, up, back)
}

/// Four tweaks times α^16: two bytes further.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,vpclmulqdq")]
fn times_alpha_to_16(tweaks: __m512i) -> __m512i {
    let out = _mm512_bsrli_epi128::<14>(tweaks);
    let back = _mm512_clmulepi64_epi128::<0x00>(out, _mm512_set1_epi64(0x87));
    _mm512_xor_si512(_mm512_bslli_epi128::<2>(tweaks), back)
}

/// The sum of three, bit by bit.
const XOR3: i32 = 0x96;
