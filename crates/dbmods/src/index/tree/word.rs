//! Atomic words, and bytes that lie in them. A node is words, whatever is in it.

use std::sync::atomic::{AtomicU64, Ordering};

/// A word of a node.
pub(super) type Word = AtomicU64;

/// Words of a cache line.
pub(super) const LINE: usize = 8;

#[inline(always)]
pub(super) fn load(word: &Word) -> u64 {
    word.load(Ordering::Relaxed)
}

#[inline(always)]
pub(super) fn store(word: &Word, value: u64) {
    word.store(value, Ordering::Relaxed);
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
