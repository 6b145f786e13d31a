//! Atomic words, and bytes that lie in them. A node is words, whatever is in it.

use std::cmp::Ordering;
use std::sync::atomic::{AtomicU64, Ordering as Order};

/// A word of a node.
pub(super) type Word = AtomicU64;

/// Words of a cache line.
pub(super) const LINE: usize = 8;

#[inline(always)]
pub(super) fn load(word: &Word) -> u64 {
    word.load(Order::Relaxed)
}

#[inline(always)]
pub(super) fn store(word: &Word, value: u64) {
    word.store(value, Order::Relaxed);
}

/// Words for so many bytes.
#[inline(always)]
pub(super) fn words_for(bytes: usize) -> usize {
    bytes.div_ceil(8)
}

/// Bytes that lie in words, as many as `to` takes and the words have.
#[inline(always)]
pub(super) fn copy_bytes(words: &[Word], to: &mut [u8]) {
    let (chunks, rest) = to.as_chunks_mut::<8>();
    let whole = chunks.len().min(words.len());
    // Slices of one length, by places: zipped ones are compared twice a word.
    let (chunks, from) = (&mut chunks[..whole], &words[..whole]);
    for at in 0..whole {
        chunks[at] = load(&from[at]).to_ne_bytes();
    }
    if let (false, Some(word)) = (rest.is_empty(), words.get(whole)) {
        let last = load(word).to_ne_bytes();
        // A length that is no constant would be a call.
        for (to, from) in rest.iter_mut().zip(last) {
            *to = from;
        }
    }
}

/// How bytes that lie in words, as [`write_bytes`] left them, compare with others, as far as both go and up to the end of a word.
#[inline(always)]
pub(super) fn compare_words(words: &[Word], than: &[u8]) -> Ordering {
    let (chunks, rest) = than.as_chunks::<8>();
    // Words are filled up with zeroes. So where they differ, bytes differ, or those that end first are the lesser.
    for (word, chunk) in words.iter().zip(chunks) {
        let (word, chunk) = (load(word).to_be(), u64::from_be_bytes(*chunk));
        if word != chunk {
            return word.cmp(&chunk);
        }
    }
    match words.get(chunks.len()) {
        Some(word) if !rest.is_empty() => {
            let mut last = [0; 8];
            last[..rest.len()].copy_from_slice(rest);
            load(word).to_be().cmp(&u64::from_be_bytes(last))
        }
        _ => Ordering::Equal,
    }
}

/// How `len` bytes that lie in words compare with others.
#[inline(always)]
pub(super) fn compare_bytes(words: &[Word], len: usize, than: &[u8]) -> Ordering {
    compare_words(words, than).then(len.cmp(&than.len()))
}

/// Bytes into words, the last one filled up with zeroes.
#[inline]
pub(super) fn write_bytes(words: &[Word], from: &[u8]) {
    let (chunks, rest) = from.as_chunks::<8>();
    for (word, chunk) in words.iter().zip(chunks) {
        store(word, u64::from_ne_bytes(*chunk));
    }
    if let (false, Some(word)) = (rest.is_empty(), words.get(chunks.len())) {
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        store(word, u64::from_ne_bytes(last));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_in_words_compare_as_slices_do() {
        let mut all: Vec<Vec<u8>> = Vec::new();
        for len in 0..20 {
            let zeroes = vec![0; len];
            all.push(zeroes.clone());
            for (at, byte) in [
                (0, 1),
                (0, 0xff),
                (len / 2, 1),
                (len.saturating_sub(1), 0x80),
            ] {
                let mut bytes = zeroes.clone();
                if let Some(place) = bytes.get_mut(at) {
                    *place = byte;
                }
                all.push(bytes);
            }
        }
        for left in &all {
            let words: [Word; 3] = std::array::from_fn(|_| Word::new(u64::MAX));
            let words = &words[..words_for(left.len())];
            write_bytes(words, left);
            for right in &all {
                let found = compare_bytes(words, left.len(), right);
                assert_eq!(found, left.cmp(right), "{left:?} {right:?}");
            }
        }
    }
}
