//! Galois/counter mode: the counter mode of a group of blocks at once, and the products of the hash between its rounds.

use aes::cipher::inout::InOutBuf;
use dpb_core::{Direction, JobError};

use super::blocks::{Block, Blocks, Task};
use super::counter::Counter;
use super::hash::{Hash, Powers, SUMMANDS};
use super::rounds::{RoundKeys, broadcast, encrypt, encrypt_one, rounds};
use crate::security::aes::form::{BLOCK, Form, Mode, Places, Work};
use crate::security::aes::text::{chunks, groups};

/// Encrypts and authenticates each item, or checks and decrypts it.
pub(super) struct Crypt<'a, 'k, P, const N: usize, const ENCRYPT: bool> {
    pub(super) keys: &'k RoundKeys<N>,
    pub(super) powers: &'k Powers,
    pub(super) form: Form,
    pub(super) work: Work<'a, P>,
}

impl<'a, T: Blocks, P: Places<'a>, const N: usize, const ENCRYPT: bool> Task<T>
    for Crypt<'a, '_, P, N, ENCRYPT>
{
    type Out = ();

    #[inline(always)]
    fn run<const W: usize>(self, t: T) {
        let keys = &broadcast(t, self.keys);
        let powers = self.powers;
        let direction = match ENCRYPT {
            true => Direction::Encrypt,
            false => Direction::Decrypt,
        };
        let form = self.form.known(Mode::Gcm, direction);
        for (mut parts, outcome) in form.items(self.work) {
            let item = Item {
                keys,
                powers,
                iv: parts.iv,
                aad: parts.aad,
                text: parts.text.reborrow(),
            };
            // Groups are worth their while from two of them on.
            let tag = match item.text.len() < 2 * 64 * W {
                true => item.run::<ENCRYPT, false, W>(t),
                false => t.enter(Long::<_, N, ENCRYPT>(item)),
            };
            if ENCRYPT {
                t.store_block(parts.tag_to.try_into().expect("sixteen bytes"), tag);
                continue;
            }
            let given = t.load_block(parts.tag.try_into().expect("sixteen bytes"));
            let one = t.one();
            let [low, high] = one.words(one.xor(tag, given));
            // All bits at once: where they part takes no time.
            if low | high != 0 {
                parts.text.get_out().fill(0);
                *outcome = Err(JobError::Malformed);
            }
        }
    }
}

/// An item with a text of two groups and more. Apart, so that each is as lean as it can be.
struct Long<'a, T: Blocks, const N: usize, const ENCRYPT: bool>(Item<'a, T, N>);

impl<T: Blocks, const N: usize, const ENCRYPT: bool> Task<T> for Long<'_, T, N, ENCRYPT> {
    type Out = Block<T>;

    #[inline(always)]
    fn run<const W: usize>(self, t: T) -> Block<T> {
        self.0.run::<ENCRYPT, true, W>(t)
    }
}

struct Item<'a, T: Blocks, const N: usize> {
    keys: &'a [T::Reg; N],
    powers: &'a Powers,
    iv: &'a [u8],
    aad: &'a [u8],
    text: InOutBuf<'a, 'a, u8>,
}

impl<T: Blocks, const N: usize> Item<'_, T, N> {
    /// Encrypts or decrypts the text, and gives its tag.
    #[inline(always)]
    fn run<const ENCRYPT: bool, const IS_LONG: bool, const W: usize>(self, t: T) -> Block<T> {
        let Self { keys, aad, .. } = self;
        let one = t.one();
        let (low, high) = self.iv.split_first_chunk().expect("twelve bytes");
        let high = u32::from_le_bytes(high.try_into().expect("twelve bytes"));
        let nonce = [u64::from_le_bytes(*low), u64::from(high)];
        // The counter, in four bytes behind the nonce, is one for the tag, and goes on from two for the text.
        let first = one.from_words([nonce[0], nonce[1] | 1 << 56]);
        let mask = encrypt_one(t, keys, first);
        let mut counter = Counter::new(t, t.from_words(nonce), 0, 2);

        let blocks = |bytes: usize| bytes.div_ceil(BLOCK);
        let text_bytes = self.text.len();
        let mut hash = Hash::new(t, self.powers);
        let all = blocks(aad.len()) + blocks(text_bytes) + 1;
        if all <= SUMMANDS {
            hash.begin(t, all);
        }
        for part in aad.chunks(SUMMANDS * BLOCK) {
            hash.begin_if_none(t, blocks(part.len()));
            for four in part.chunks(64) {
                hash.add(t, t.load_some(four), blocks(four.len()));
            }
        }
        let mut rest = self.text;
        if IS_LONG {
            let long;
            (long, rest) = groups(rest);
            let behind = blocks(rest.len()) + 1;
            (hash, counter) = many::<T, N, ENCRYPT, W>(t, keys, hash, counter, long, behind);
        }
        hash.begin_if_none(t, blocks(rest.len()) + 1);
        for mut text in chunks(rest, 64) {
            let [stream] = encrypt(t, keys, counter.next::<1>(t));
            let plain_or_crypt = t.load_some(text.get_in());
            let made = t.first(t.xor4(plain_or_crypt, stream), text.len());
            t.store_some(text.get_out(), made);
            hash.add(
                t,
                if ENCRYPT { made } else { plain_or_crypt },
                blocks(text.len()),
            );
        }
        let bits = |bytes: usize| (bytes as u64) << 3;
        let hash = hash.last(t, [bits(text_bytes), bits(aad.len())]);
        one.xor(one.swap(hash), mask)
    }
}

/// Encrypts or decrypts groups, two at least, from `counter` on, and takes them into the hash, in which `behind` blocks will follow.
///
/// A group's ciphertext is hashed in the rounds of the next group: products and rounds have nothing to wait for in each other.
#[inline(always)]
fn many<'a, T: Blocks, const N: usize, const ENCRYPT: bool, const W: usize>(
    t: T,
    keys: &[T::Reg; N],
    mut hash: Hash<'a, T>,
    mut counter: Counter<T, 32>,
    text: InOutBuf<'_, '_, [[u8; 64]; W]>,
    behind: usize,
) -> (Hash<'a, T>, Counter<T, 32>) {
    let mut group = [t.zeros(); W];
    let stream = encrypt(t, keys, counter.next::<W>(t));
    let mut left = text.len();
    let mut text = text.into_iter();
    let mut now = text.next().expect("two groups at least");
    for i in 0..W {
        let text = t.load(&now.get_in()[i]);
        let crypt = t.xor4(stream[i], text);
        t.store(&mut now.get_out()[i], crypt);
        group[i] = if ENCRYPT { crypt } else { text };
    }
    for mut now in text {
        hash.begin_if_none(t, SUMMANDS.min(left * 4 * W + behind));
        left -= 1;
        let powers = hash.next_powers::<W>();
        let mut blocks = counter.next::<W>(t);
        for four in &mut blocks {
            for r in 0..T::REGS {
                four[r] = t.start(four[r], keys[0]);
            }
        }
        // Eight rounds, in as many steps as there are products of fours.
        let step = 8 / W;
        for i in 0..W {
            let at = 1 + step * i;
            rounds(t, keys, at..at + step / 2, &mut blocks);
            hash.add_product(t, group[i], powers.each(i));
            rounds(t, keys, at + step / 2..at + step, &mut blocks);
        }
        rounds(t, keys, 9..N - 1, &mut blocks);
        for i in 0..W {
            for r in 0..T::REGS {
                blocks[i][r] = t.last(blocks[i][r], [keys[N - 2], keys[N - 1]]);
            }
            let text = t.load(&now.get_in()[i]);
            let crypt = t.xor4(blocks[i], text);
            t.store(&mut now.get_out()[i], crypt);
            group[i] = if ENCRYPT { crypt } else { text };
        }
        hash.end(t, 4 * W);
    }
    hash.begin_if_none(t, 4 * W + behind);
    for four in group {
        hash.add(t, four, 4);
    }
    (hash, counter)
}
