//! Galois/counter mode: the counter mode of sixteen blocks at once, and a hash whose sums of up to 64 products are reduced
//! once.
//!
//! GHASH is computed as POLYVAL (RFC 8452, appendix A): the bytes of blocks are turned around, the hash key is multiplied by
//! x, and a product is reduced as Montgomery does.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use aes::cipher::inout::InOutBuf;
use dpb_core::{Direction, JobError};
use zeroize::{Zeroize, Zeroizing};

use super::{
    Group, WIDE, broadcast, encrypt_blocks, first, load, load_block, load_some, store, store_block,
    store_some, swap,
};
use crate::security::aes::form::{BLOCK, Form, Mode, Places, Work};
use crate::security::aes::text::{chunks, groups};

/// Products in a sum.
const SUMMANDS: usize = 64;

/// Bytes from which on a text is worth groups.
const LONG: usize = 2 * 64 * WIDE;

/// The powers of the hash key, highest first, and zeros that are read with the last ones.
#[repr(align(64))]
pub(super) struct Powers([[u8; BLOCK]; SUMMANDS + 3]);

/// Of no key.
pub(super) const NONE: Powers = Powers([[0; BLOCK]; SUMMANDS + 3]);

impl Zeroize for Powers {
    fn zeroize(&mut self) {
        self.0.zeroize();
    }
}

/// Encrypts and authenticates each item.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,vaes,vpclmulqdq,pclmulqdq")]
pub(super) fn encrypt<'a, const N: usize, P: Places<'a>>(
    keys: &[[u8; 16]; N],
    powers: &Powers,
    form: Form,
    work: Work<'a, P>,
) {
    let keys = broadcast(keys);
    let form = form.known(Mode::Gcm, Direction::Encrypt);
    form.each(work, |parts| {
        let (head, text) = ((parts.iv, parts.aad), parts.text);
        let tag = match text.len() < LONG {
            true => item::<N, true, false, P>(&keys, powers, head, text),
            false => long_item::<N, true>(&keys, powers, head, text),
        };
        store_block(parts.tag_to.try_into().expect("sixteen bytes"), tag);
        Ok(())
    });
}

/// Checks and decrypts each item.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,vaes,vpclmulqdq,pclmulqdq")]
pub(super) fn decrypt<'a, const N: usize, P: Places<'a>>(
    keys: &[[u8; 16]; N],
    powers: &Powers,
    form: Form,
    work: Work<'a, P>,
) {
    let keys = broadcast(keys);
    let form = form.known(Mode::Gcm, Direction::Decrypt);
    form.each(work, |parts| {
        let (head, mut text) = ((parts.iv, parts.aad), parts.text);
        let tag = match text.len() < LONG {
            true => item::<N, false, false, P>(&keys, powers, head, text.reborrow()),
            false => long_item::<N, false>(&keys, powers, head, text.reborrow()),
        };
        let given = parts.tag.try_into().expect("sixteen bytes");
        let difference = _mm_xor_si128(tag, load_block(given));
        // All bits at once: where they part takes no time.
        if _mm_testz_si128(difference, difference) == 1 {
            Ok(())
        } else {
            text.get_out().fill(0);
            Err(JobError::Malformed)
        }
    });
}

/// The powers of the hash key, which the encrypted block of zeros is.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,vaes,vpclmulqdq,pclmulqdq")]
pub(super) fn powers<const N: usize>(keys: &[[u8; 16]; N]) -> Zeroizing<Powers> {
    let mut block = Zeroizing::new([0; BLOCK]);
    let [zeros] = encrypt_blocks(&broadcast(keys), [_mm512_setzero_si512()]);
    store_some(&mut *block, zeros);
    let key = u128::from_be_bytes(*block);
    // Times x; x^128 is x^127 + x^126 + x^121 + 1.
    let key = key << 1 ^ (key >> 127).wrapping_neg() & (0xc2 << 120 | 1);
    *block = key.to_le_bytes();
    let key = load_some(&*block);
    let mut powers = Zeroizing::new(NONE);
    let mut power = key;
    for to in powers.0[..SUMMANDS].iter_mut().rev() {
        store_some(to, power);
        let mut square = Sum::zero();
        square.add(power, key);
        power = square.reduced();
    }
    powers
}

/// [`item`] with a text of [`LONG`] and more. Apart, so that each is as lean as it can be.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,vaes,vpclmulqdq,pclmulqdq")]
fn long_item<const N: usize, const ENCRYPT: bool>(
    keys: &[__m512i; N],
    powers: &Powers,
    head: (&[u8], &[u8]),
    text: InOutBuf<'_, '_, u8>,
) -> __m128i {
    item::<N, ENCRYPT, true, ()>(keys, powers, head, text)
}

/// Encrypts or decrypts the text, which may be [`LONG`] only if said so, and gives its tag. Made for each `P`, so that the one
/// call of it is inlined: around a call all round keys would leave their registers.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,vaes,vpclmulqdq,pclmulqdq")]
fn item<const N: usize, const ENCRYPT: bool, const IS_LONG: bool, P>(
    keys: &[__m512i; N],
    powers: &Powers,
    (iv, aad): (&[u8], &[u8]),
    text: InOutBuf<'_, '_, u8>,
) -> __m128i {
    // Behind the nonce four bytes of zeros: the counter, here the lowest of a block's 32-bit words.
    let start = _mm512_castsi512_si128(load_some(iv));
    let start = swap(_mm512_broadcast_i32x4(start));
    let at = |blocks: [i32; 4]| {
        let [a, b, c, d] = blocks;
        _mm512_add_epi32(
            start,
            _mm512_set_epi32(0, 0, 0, d, 0, 0, 0, c, 0, 0, 0, b, 0, 0, 0, a),
        )
    };
    let [mask] = encrypt_blocks(keys, [swap(at([1, 0, 0, 0]))]);
    let mut counter = at([2, 3, 4, 5]);

    let blocks = |bytes: usize| bytes.div_ceil(BLOCK);
    let text_bytes = text.len();
    let mut hash = Hash::new(powers);
    let all = blocks(aad.len()) + blocks(text_bytes) + 1;
    if all <= SUMMANDS {
        hash.begin(all);
    }
    for part in aad.chunks(SUMMANDS * BLOCK) {
        hash.begin_if_none(blocks(part.len()));
        for four in part.chunks(64) {
            hash.add(load_some(four), blocks(four.len()));
        }
    }
    let mut rest = text;
    if IS_LONG {
        let long;
        (long, rest) = groups(rest);
        (hash, counter) = many::<N, ENCRYPT>(keys, hash, counter, long, blocks(rest.len()) + 1);
    }
    hash.begin_if_none(blocks(rest.len()) + 1);
    for mut text in chunks(rest, 64) {
        let [stream] = encrypt_blocks(keys, [swap(counter)]);
        counter = _mm512_add_epi32(counter, four_blocks());
        let blocks = blocks(text.len());
        let mask = first(text.len());
        let plain_or_crypt = load_some(text.get_in());
        let made = _mm512_maskz_mov_epi8(mask, _mm512_xor_si512(plain_or_crypt, stream));
        store_some(text.get_out(), made);
        hash.add(if ENCRYPT { made } else { plain_or_crypt }, blocks);
    }
    let bits = |bytes: usize| (bytes as i64) << 3;
    let lengths = _mm_set_epi64x(bits(aad.len()), bits(text_bytes));
    let hash = hash.last(_mm512_zextsi128_si512(lengths));
    _mm512_castsi512_si128(_mm512_xor_si512(swap(hash), mask))
}

/// Encrypts or decrypts groups, from `counter` on, and takes them into the hash, in which `behind` blocks will follow.
///
/// A group's ciphertext is hashed in the rounds of its own decryption, or those of the next group's encryption: products and
/// rounds have nothing to wait for in each other.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,vaes,vpclmulqdq,pclmulqdq")]
fn many<'a, const N: usize, const ENCRYPT: bool>(
    keys: &[__m512i; N],
    mut hash: Hash<'a>,
    mut counter: __m512i,
    text: InOutBuf<'_, '_, Group>,
    behind: usize,
) -> (Hash<'a>, __m512i) {
    let mut group = [_mm512_setzero_si512(); WIDE];
    let stream = encrypt_blocks(keys, next_counters(&mut counter));
    let mut left = text.len();
    let mut text = text.into_iter();
    let mut now = text.next().expect("two groups at least");
    for i in 0..WIDE {
        let text = load(&now.get_in()[i]);
        let crypt = _mm512_xor_si512(stream[i], text);
        store(&mut now.get_out()[i], crypt);
        group[i] = if ENCRYPT { crypt } else { text };
    }
    for mut now in text {
        hash.begin_if_none(SUMMANDS.min(left * 4 * WIDE + behind));
        left -= 1;
        let powers = &hash.powers.0[SUMMANDS - hash.left..][..4 * WIDE];
        let powers = powers.as_flattened().as_chunks::<64>().0;
        let mut blocks = next_counters(&mut counter);
        for block in &mut blocks {
            *block = _mm512_xor_si512(*block, keys[0]);
        }
        for i in 0..WIDE {
            for block in &mut blocks {
                *block = _mm512_aesenc_epi128(*block, keys[2 * i + 1]);
            }
            let four = swap(group[i]);
            let four = match i {
                0 => _mm512_xor_si512(four, hash.before),
                _ => four,
            };
            hash.sum.add(four, load(&powers[i]));
            for block in &mut blocks {
                *block = _mm512_aesenc_epi128(*block, keys[2 * i + 2]);
            }
            keep_order(&mut blocks);
        }
        for key in &keys[2 * WIDE + 1..N - 1] {
            for block in &mut blocks {
                *block = _mm512_aesenc_epi128(*block, *key);
            }
        }
        for i in 0..WIDE {
            let block = _mm512_aesenclast_epi128(blocks[i], keys[N - 1]);
            let text = load(&now.get_in()[i]);
            let crypt = _mm512_xor_si512(block, text);
            store(&mut now.get_out()[i], crypt);
            group[i] = if ENCRYPT { crypt } else { text };
        }
        hash.before = _mm512_setzero_si512();
        hash.left -= 4 * WIDE;
        if hash.left == 0 {
            hash.before = hash.sum.reduced();
        }
    }
    hash.begin_if_none(4 * WIDE + behind);
    for four in group {
        hash.add(four, 4);
    }
    (hash, counter)
}

/// The counter blocks of a group, and `counter` taken forward behind them.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,vaes,vpclmulqdq,pclmulqdq")]
fn next_counters(counter: &mut __m512i) -> [__m512i; WIDE] {
    let mut blocks = [swap(*counter); WIDE];
    // Mostly only the last byte of the counter changes, which can be added to where it is.
    let last_byte = _mm_cvtsi128_si32(_mm512_castsi512_si128(*counter)) & 0xff;
    if last_byte < 256 - 4 * WIDE as i32 {
        let four = swap(four_blocks());
        for i in 1..WIDE {
            blocks[i] = _mm512_add_epi32(blocks[i - 1], four);
        }
        *counter = _mm512_add_epi32(*counter, _mm512_slli_epi32::<2>(four_blocks()));
        return blocks;
    }
    for block in &mut blocks {
        *block = swap(*counter);
        *counter = _mm512_add_epi32(*counter, four_blocks());
    }
    blocks
}

/// Keeps the compiler from moving one block's rounds behind another's, which it does for want of registers: the CPU would not
/// look far enough ahead to start them together.
#[inline]
#[target_feature(enable = "avx512f")]
fn keep_order(blocks: &mut [__m512i; WIDE]) {
    let [a, b, c, d] = blocks;
    // SAFETY: no instruction: the values stay as they are.
    unsafe {
        std::arch::asm!(
            "/* {} {} {} {} */",
            inout(zmm_reg) * a,
            inout(zmm_reg) * b,
            inout(zmm_reg) * c,
            inout(zmm_reg) * d,
            options(nomem, nostack, preserves_flags)
        );
    }
}

/// To count four blocks on.
#[inline]
#[target_feature(enable = "avx512f")]
fn four_blocks() -> __m512i {
    _mm512_set_epi32(0, 0, 0, 4, 0, 0, 0, 4, 0, 0, 0, 4, 0, 0, 0, 4)
}

/// A hash on its way.
struct Hash<'a> {
    powers: &'a Powers,
    /// Of the blocks before the current sum, in the lowest block.
    before: __m512i,
    sum: Sum,
    /// The number of blocks that the current sum still takes.
    left: usize,
}

impl<'a> Hash<'a> {
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn new(powers: &'a Powers) -> Self {
        Self {
            powers,
            before: _mm512_setzero_si512(),
            sum: Sum::zero(),
            left: 0,
        }
    }

    /// Begins a sum of `blocks` blocks, at most [`SUMMANDS`].
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn begin(&mut self, blocks: usize) {
        self.sum = Sum::zero();
        self.left = blocks;
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn begin_if_none(&mut self, blocks: usize) {
        if self.left == 0 {
            self.begin(blocks);
        }
    }

    /// Takes `blocks` blocks in, four at most; zeros are behind them.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,vpclmulqdq,pclmulqdq")]
    fn add(&mut self, four: __m512i, blocks: usize) {
        self.add_turned(swap(four), blocks);
        if self.left == 0 {
            self.before = self.sum.reduced();
        }
    }

    /// Takes the block of lengths in, whose bytes are turned around already.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,vpclmulqdq,pclmulqdq")]
    fn last(mut self, lengths: __m512i) -> __m512i {
        self.begin_if_none(1);
        self.add_turned(lengths, 1);
        self.sum.reduced()
    }

    #[inline]
    #[target_feature(enable = "avx512f,vpclmulqdq")]
    fn add_turned(&mut self, four: __m512i, blocks: usize) {
        let powers = &self.powers.0[SUMMANDS - self.left..][..4];
        let powers = load(powers.as_flattened().try_into().expect("64 bytes"));
        self.sum.add(_mm512_xor_si512(four, self.before), powers);
        self.before = _mm512_setzero_si512();
        self.left -= blocks;
    }
}

/// Four sums of products of 256 bits: those of the lower halves, of the upper, and of one with the other.
#[derive(Clone, Copy)]
struct Sum {
    low: __m512i,
    middle: __m512i,
    high: __m512i,
}

impl Sum {
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn zero() -> Self {
        let [low, middle, high] = [_mm512_setzero_si512(); 3];
        Self { low, middle, high }
    }

    #[inline]
    #[target_feature(enable = "avx512f,vpclmulqdq")]
    fn add(&mut self, a: __m512i, b: __m512i) {
        self.low = _mm512_xor_si512(self.low, _mm512_clmulepi64_epi128::<0x00>(a, b));
        self.high = _mm512_xor_si512(self.high, _mm512_clmulepi64_epi128::<0x11>(a, b));
        self.middle = _mm512_ternarylogic_epi64::<0x96>(
            self.middle,
            _mm512_clmulepi64_epi128::<0x01>(a, b),
            _mm512_clmulepi64_epi128::<0x10>(a, b),
        );
    }

    /// The sum of the four, divided by x^128, in the lowest block.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,vpclmulqdq,pclmulqdq")]
    fn reduced(self) -> __m512i {
        let low = _mm512_xor_si512(self.low, _mm512_bslli_epi128::<8>(self.middle));
        let high = _mm512_xor_si512(self.high, _mm512_bsrli_epi128::<8>(self.middle));
        let mut low = across(low);
        let prime = _mm_set_epi64x(0, 0xc2 << 56);
        for _ in 0..2 {
            let product = _mm_clmulepi64_si128::<0x00>(low, prime);
            low = _mm_xor_si128(_mm_shuffle_epi32::<0b01_00_11_10>(low), product);
        }
        _mm512_zextsi128_si512(_mm_xor_si128(low, across(high)))
    }
}

/// The sum of four blocks.
#[inline]
#[target_feature(enable = "avx512f,avx512vl")]
fn across(four: __m512i) -> __m128i {
    let two = _mm256_xor_si256(
        _mm512_castsi512_si256(four),
        _mm512_extracti64x4_epi64::<1>(four),
    );
    _mm_xor_si128(
        _mm256_castsi256_si128(two),
        _mm256_extracti128_si256::<1>(two),
    )
}
