//! Galois/counter mode: the counter mode of a group of blocks at once, and the products of the hash between its rounds.

use aes::cipher::inout::InOutBuf;
use dpb_core::{Direction, JobError};

use super::blocks::{Block, Blocks, Rounds, Task};
use super::counter::Counter;
use super::hash::{Hash, Powers, SUMMANDS};
use super::keys::{AHEAD, Items, Keys, Source, each_item};
use super::rounds::{each_part, encrypt, encrypt_one, last, round, rounds_from};
use crate::security::aes::form::{BLOCK, Form, Mode, Places, Work};
use crate::security::aes::text::groups;

/// Encrypts and authenticates each item, or checks and decrypts it.
pub(super) struct Crypt<'a, P, S, const N: usize, const ENCRYPT: bool> {
    pub(super) source: S,
    pub(super) form: Form,
    pub(super) work: Work<'a, P>,
}

impl<'a, 'k, T, P, S, const N: usize, const ENCRYPT: bool> Task<T> for Crypt<'a, P, S, N, ENCRYPT>
where
    T: Blocks,
    P: Places<'a>,
    S: Source<'k, Powers, N>,
{
    type Out = ();

    #[inline(always)]
    fn run<const W: usize, const L: usize>(self, t: T) {
        let common = self.source.common().unwrap_or(const { &Keys::NONE });
        let mut keys = S::ready(t, common.data());
        let direction = match ENCRYPT {
            true => Direction::Encrypt,
            false => Direction::Decrypt,
        };
        let form = self.form.known(Mode::Gcm, direction);
        let items = Items::alike(form, self.source, self.work, AHEAD);
        each_item!(items, (own, mut parts, outcome) => {
            if S::EACH {
                keys = S::ready(t, own.data());
            }
            let item = Item {
                keys: &keys,
                powers: &own.extra,
                iv: parts.iv,
                aad: parts.aad,
                text: parts.text.reborrow(),
            };
            let tag = match item.text.len() {
                0..=64 => item.run::<_, ENCRYPT, 1, false>(t),
                65..=128 => item.run::<_, ENCRYPT, 2, false>(t),
                129..=256 if L > 2 => item.run::<_, ENCRYPT, 4, false>(t),
                _ => t.enter(Long::<_, N, ENCRYPT>(item)),
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
        });
    }
}

/// An item with a longer text. Apart, so that each is as lean as it can be.
struct Long<'a, K, const N: usize, const ENCRYPT: bool>(Item<'a, K, N>);

impl<T, K, const N: usize, const ENCRYPT: bool> Task<T> for Long<'_, K, N, ENCRYPT>
where
    T: Blocks,
    K: Rounds<T, N>,
{
    type Out = Block<T>;

    #[inline(always)]
    fn run<const W: usize, const L: usize>(self, t: T) -> Block<T> {
        // A register is hashed in each of eight rounds, or in each other one; and sums end between groups.
        const { assert!(8 % (L * T::REGS) == 0 && L * T::REGS >= 4) };
        const { assert!(SUMMANDS.is_multiple_of(4 * L)) };
        self.0.run::<_, ENCRYPT, L, true>(t)
    }
}

struct Item<'a, K, const N: usize> {
    keys: &'a K,
    powers: &'a Powers,
    iv: &'a [u8],
    aad: &'a [u8],
    text: InOutBuf<'a, 'a, u8>,
}

impl<K, const N: usize> Item<'_, K, N> {
    /// Encrypts or decrypts the text, `L` times four blocks at a time, and gives its tag. If it is not said to be long, that many
    /// hold it.
    #[inline(always)]
    fn run<T, const ENCRYPT: bool, const L: usize, const IS_LONG: bool>(self, t: T) -> Block<T>
    where
        T: Blocks,
        K: Rounds<T, N>,
    {
        let Self { keys, aad, .. } = self;
        let one = t.one();
        let (low, high) = self.iv.split_first_chunk().expect("twelve bytes");
        let high = u32::from_le_bytes(high.try_into().expect("twelve bytes"));
        let nonce = [u64::from_le_bytes(*low), u64::from(high)];
        // The counter, in four bytes behind the nonce, is one for the tag, and goes on from two for the text.
        let first = one.set_words([nonce[0], nonce[1] | 1 << 56]);
        let mut mask = encrypt_one(t, keys, first);
        // Else the compiler encrypts it at the end, where it is used. For that it copies all keys to the stack, since for all it knows the text that is
        // written changes them.
        one.pin(&mut mask);
        let counter = Counter::new(t, t.set_words(nonce), 0, 2);

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
        let mut text = Text::<_, _, N> {
            keys,
            counter,
            hash,
        };
        if IS_LONG {
            text.groups::<ENCRYPT, L>(t, self.text);
        } else if text_bytes > 0 {
            text.hash.begin_if_none(t, blocks(text_bytes) + 1);
            let stream = encrypt(t, keys, text.counter.next::<L>(t));
            text.end::<ENCRYPT, L>(t, stream, self.text);
        }
        let bits = |bytes: usize| (bytes as u64) << 3;
        let hash = text.hash.last(t, [bits(text_bytes), bits(aad.len())]);
        one.xor(one.swap(hash), mask)
    }
}

/// Blocks of so many bytes.
#[inline(always)]
fn blocks(bytes: usize) -> usize {
    bytes.div_ceil(BLOCK)
}

/// True if ciphertext is kept in registers until it is hashed. There are 32 of four blocks, and a group's lines that are read from memory once more are
/// mostly parts of two lines of the cache. Where there are 16 they are full.
#[inline(always)]
const fn keeps<T: Blocks>() -> bool {
    T::REGS == 1
}

/// A text on its way.
struct Text<'a, T: Blocks, K, const N: usize> {
    keys: &'a K,
    counter: Counter<T, 32>,
    hash: Hash<'a, T>,
}

impl<T: Blocks, K: Rounds<T, N>, const N: usize> Text<'_, T, K, N> {
    /// Encrypts or decrypts all.
    ///
    /// A group's ciphertext is hashed between the rounds of the next group's encryption, or of its own decryption: products and
    /// rounds have nothing to wait for in each other.
    #[inline(always)]
    fn groups<const ENCRYPT: bool, const L: usize>(&mut self, t: T, text: InOutBuf<'_, '_, u8>) {
        let all = blocks(text.len()) + 1;
        let (mut groups, rest) = groups::<L, 64>(text);
        let count = groups.len();
        // The ciphertext of the group before, or of this one.
        let mut kept = [t.zeros(); L];
        for i in 0..count + usize::from(!rest.is_empty()) {
            // What is hashed between the rounds.
            let hashed = match ENCRYPT {
                true => i.checked_sub(1).map(|before| &groups.get_out()[before]),
                false => groups.get_in().get(i),
            };
            let stream = match hashed {
                Some(hashed) => {
                    let behind = all - 4 * L * (i - usize::from(ENCRYPT));
                    self.hash.begin_if_none(t, behind);
                    if keeps::<T>() && !ENCRYPT {
                        for i in 0..L {
                            kept[i] = t.load(&hashed[i]);
                        }
                    }
                    self.encrypt_and_hash::<L>(t, &kept, hashed)
                }
                None => {
                    let mut stream = self.counter.next_started::<N, L>(t, self.keys);
                    rounds_from::<1, _, _, _>(t, self.keys, &mut stream);
                    last(t, self.keys, stream)
                }
            };
            if i == count {
                self.hash.begin_if_none(t, all - 4 * L * count);
                return self.end::<ENCRYPT, L>(t, stream, rest);
            }
            let mut now = groups.get(i);
            for i in 0..L {
                let text = match keeps::<T>() && !ENCRYPT {
                    true => kept[i],
                    false => t.load(&now.get_in()[i]),
                };
                let made = t.xor4(text, stream[i]);
                t.store(&mut now.get_out()[i], made);
                if keeps::<T>() && ENCRYPT {
                    kept[i] = made;
                }
            }
        }
        if ENCRYPT && let Some(last) = groups.get_out().last() {
            self.hash.begin_if_none(t, 4 * L + 1);
            for i in 0..L {
                let four = match keeps::<T>() {
                    true => kept[i],
                    false => t.load(&last[i]),
                };
                self.hash.add(t, four, 4);
            }
        }
    }

    /// The stream of the next group; a group goes into the hash, which is `kept` if it [is](keeps), and lies in `hashed`.
    #[inline(always)]
    fn encrypt_and_hash<const L: usize>(
        &mut self,
        t: T,
        kept: &[T::Four; L],
        hashed: &[[u8; 64]; L],
    ) -> [T::Four; L] {
        let keys = self.keys;
        let powers = self.hash.next_powers::<L>();
        let mut stream = self.counter.next_started::<N, L>(t, keys);
        // A register in each so many rounds.
        let rounds = (8 / (L * T::REGS)).max(1);
        macro_rules! both {
            ($($i:literal)+) => {
                $(
                    round(t, keys, $i, &mut stream);
                    if $i % rounds == 0 {
                        let r = $i / rounds - 1;
                        let blocks = match keeps::<T>() {
                            true => kept[r / T::REGS][r % T::REGS],
                            false => t.load_reg(&hashed.as_flattened()[r * T::BYTES..]),
                        };
                        self.hash.add_register(t, r, blocks, powers);
                    }
                )+
            };
        }
        both!(1 2 3 4 5 6 7 8);
        self.hash.end(t, 4 * L);
        rounds_from::<9, _, _, _>(t, keys, &mut stream);
        last(t, keys, stream)
    }

    /// Encrypts or decrypts up to `L` times four blocks, of which the last may be short, and takes them into the hash.
    #[inline(always)]
    fn end<const ENCRYPT: bool, const L: usize>(
        &mut self,
        t: T,
        stream: [T::Four; L],
        text: InOutBuf<'_, '_, u8>,
    ) {
        if text.len() == 64 * L {
            let (mut group, _) = groups::<L, 64>(text);
            let mut group = group.get(0);
            for i in 0..L {
                let text = t.load(&group.get_in()[i]);
                let made = t.xor4(text, stream[i]);
                t.store(&mut group.get_out()[i], made);
                self.hash.add(t, if ENCRYPT { made } else { text }, 4);
            }
            return;
        }
        each_part!(L, text, (i, text) {
            let len = text.len();
            let from = t.load_some(text.get_in());
            let made = t.first(t.xor4(from, stream[i]), len);
            t.store_some(text.get_out(), made);
            self.hash.add(t, if ENCRYPT { made } else { from }, blocks(len));
        });
    }
}
