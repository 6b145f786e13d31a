//! Counter mode: the counter blocks of a group at once.

use aes::cipher::inout::InOutBuf;
use dpb_core::Direction;

use super::blocks::{Blocks, Rounds, Task};
use super::counter::Counter;
use super::keys::{AHEAD, Items, Keys, Source, each_item};
use super::rounds::{each_part, encrypt};
use crate::security::aes::form::{BLOCK, Form, Mode, Places, Work};
use crate::security::aes::text::{chunks, groups};

/// Each item.
pub(super) struct Crypt<'a, P, S, const N: usize> {
    pub(super) source: S,
    pub(super) form: Form,
    pub(super) work: Work<'a, P>,
}

impl<'a, 'k, T, P, S, const N: usize> Task<T> for Crypt<'a, P, S, N>
where
    T: Blocks,
    P: Places<'a>,
    S: Source<'k, (), N>,
{
    type Out = ();

    #[inline(always)]
    fn run<const W: usize, const L: usize>(self, t: T) {
        let common = self.source.common().unwrap_or(const { &Keys::NONE });
        let mut keys = S::ready(t, common.data());
        let form = self.form.known(Mode::Ctr, Direction::Encrypt);
        let items = Items::alike(form, self.source, self.work, AHEAD);
        each_item!(items, (own, parts, _) => {
            if S::EACH {
                keys = S::ready(t, own.data());
            }
            let iv: &[u8; BLOCK] = parts.iv.try_into().expect("sixteen bytes");
            let first = u128::from_be_bytes(*iv);
            let blocks = (parts.text.len() / BLOCK) as u64;
            // Room for the counters behind the last block, which are computed and not used.
            match (first as u64).checked_add(blocks + 4 * W as u64) {
                Some(_) => in_one_word::<T, _, N, W>(t, &keys, iv, parts.text),
                None => t.enter(AcrossWords::<_, N> {
                    keys: &keys,
                    first,
                    text: parts.text,
                }),
            }
        });
    }
}

/// The case in which only the lower word of the counter changes.
#[inline(always)]
fn in_one_word<T: Blocks, K: Rounds<T, N>, const N: usize, const W: usize>(
    t: T,
    keys: &K,
    iv: &[u8; BLOCK],
    text: InOutBuf<'_, '_, u8>,
) {
    let first = t.broadcast(t.load_block(iv));
    let mut counter = Counter::<T, 64>::new(t, first, iv[BLOCK - 1], 0);
    let (whole, rest) = groups::<W, 64>(text);
    for mut text in whole {
        let stream = encrypt(t, keys, counter.next::<W>(t));
        for i in 0..W {
            let crypt = t.xor4(t.load(&text.get_in()[i]), stream[i]);
            t.store(&mut text.get_out()[i], crypt);
        }
    }
    if rest.len() > 64 {
        let stream = encrypt(t, keys, counter.next::<W>(t));
        each_part!(W, rest, (i, text) {
            let crypt = t.xor4(t.load_some(text.get_in()), stream[i]);
            t.store_some(text.get_out(), crypt);
        });
        return;
    }
    for mut text in chunks(rest, 64) {
        let [stream] = encrypt(t, keys, counter.next::<1>(t));
        let crypt = t.xor4(t.load_some(text.get_in()), stream);
        t.store_some(text.get_out(), crypt);
    }
}

/// The case in which both words change, which one item in 2^60 sees: four blocks at a time.
struct AcrossWords<'a, K, const N: usize> {
    keys: &'a K,
    first: u128,
    text: InOutBuf<'a, 'a, u8>,
}

impl<T: Blocks, K: Rounds<T, N>, const N: usize> Task<T> for AcrossWords<'_, K, N> {
    type Out = ();

    #[inline(always)]
    fn run<const W: usize, const L: usize>(self, t: T) {
        let mut counter = self.first;
        for mut text in chunks(self.text, 64) {
            let mut counters = [0; 64];
            for block in counters.as_chunks_mut().0 {
                *block = counter.to_be_bytes();
                counter = counter.wrapping_add(1);
            }
            let [stream] = encrypt(t, self.keys, [t.load(&counters)]);
            let crypt = t.xor4(t.load_some(text.get_in()), stream);
            t.store_some(text.get_out(), crypt);
        }
    }
}
