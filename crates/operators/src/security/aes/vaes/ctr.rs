//! Counter mode: the counter blocks of sixteen blocks at once.

use std::arch::x86_64::*;

use aes::cipher::inout::InOutBuf;
use dpb_core::Direction;

use super::{WIDE, broadcast, encrypt_blocks, load, load_some, store, store_some, swap};
use crate::security::aes::form::{BLOCK, Form, Mode, Places, Work};
use crate::security::aes::text::{chunks, groups};

/// Each item.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,vaes")]
pub(super) fn crypt<'a, const N: usize, P: Places<'a>>(
    keys: &[[u8; 16]; N],
    form: Form,
    work: Work<'a, P>,
) {
    let keys = broadcast(keys);
    let form = form.known(Mode::Ctr, Direction::Encrypt);
    form.each(work, |parts| {
        let counter = u128::from_be_bytes(parts.iv.try_into().expect("sixteen bytes"));
        let blocks = (parts.text.len() / BLOCK) as u64;
        // Room for the counters behind the last block, which are computed and not used.
        match (counter as u64).checked_add(blocks + 4 * WIDE as u64) {
            Some(_) => in_one_word::<N, P>(&keys, counter, parts.text),
            None => across_words(&keys, counter, parts.text),
        }
        Ok(())
    });
}

/// The case in which only the lower word of the counter changes. Made for each `P`, so that the one call of it is inlined.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,vaes")]
fn in_one_word<const N: usize, P>(keys: &[__m512i; N], counter: u128, text: InOutBuf<'_, '_, u8>) {
    let (low, high) = (counter as i64, (counter >> 64) as i64);
    let mut counter = _mm512_add_epi64(
        _mm512_broadcast_i32x4(_mm_set_epi64x(high, low)),
        _mm512_set_epi64(0, 3, 0, 2, 0, 1, 0, 0),
    );
    let four = _mm512_set_epi64(0, 4, 0, 4, 0, 4, 0, 4);
    let (whole, rest) = groups::<WIDE, 64>(text);
    for mut text in whole {
        let mut stream = [counter; WIDE];
        for stream in &mut stream {
            *stream = swap(counter);
            counter = _mm512_add_epi64(counter, four);
        }
        let stream = encrypt_blocks(keys, stream);
        for (i, stream) in stream.iter().enumerate() {
            let crypt = _mm512_xor_si512(load(&text.get_in()[i]), *stream);
            store(&mut text.get_out()[i], crypt);
        }
    }
    for mut text in chunks(rest, 64) {
        let [stream] = encrypt_blocks(keys, [swap(counter)]);
        counter = _mm512_add_epi64(counter, four);
        let crypt = _mm512_xor_si512(load_some(text.get_in()), stream);
        store_some(text.get_out(), crypt);
    }
}

/// The case in which both words change, which one item in 2^60 sees: four blocks at a time.
#[cold]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,vaes")]
fn across_words<const N: usize>(keys: &[__m512i; N], first: u128, text: InOutBuf<'_, '_, u8>) {
    let mut counter = first;
    for mut text in chunks(text, 64) {
        let mut counters = [0; 64];
        for block in counters.as_chunks_mut().0 {
            *block = counter.to_be_bytes();
            counter = counter.wrapping_add(1);
        }
        let [stream] = encrypt_blocks(keys, [load(&counters)]);
        let crypt = _mm512_xor_si512(load_some(text.get_in()), stream);
        store_some(text.get_out(), crypt);
    }
}
