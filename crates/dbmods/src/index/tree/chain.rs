//! Bytes in chains of extents: separators that are longer than a head.
//!
//! A chain is written once, read by whoever finds its number, and used again when nobody can.

use std::cmp::Ordering;

use super::arena::Arena;
use super::node::{Word, compare_words, copy_bytes, load, store, words_for, write_bytes};
use super::numbers::Numbers;
use crate::index::IndexError;

/// Extents of `W` words: the number of the next one, then bytes.
#[derive(Debug)]
pub(super) struct Chains<const W: usize>(Arena<W>);

impl<const W: usize> Chains<W> {
    /// Bytes of an extent.
    const BYTES: usize = (W - 1) * 8;

    pub(super) fn new() -> Self {
        Self(Arena::new())
    }

    /// Makes room for chains of so many bytes in all, in so many pieces.
    pub(super) fn reserve(
        &self,
        numbers: &mut Numbers,
        bytes: usize,
        pieces: usize,
    ) -> Result<(), IndexError> {
        numbers.reserve(&self.0, bytes / Self::BYTES + pieces)
    }

    /// Writes a chain. Its room was reserved.
    pub(super) fn write(&self, numbers: &mut Numbers, bytes: &[u8]) -> u32 {
        let mut next = 0;
        let pieces = bytes.chunks(Self::BYTES);
        for piece in pieces.rev() {
            let number = numbers.take();
            let extent = self.0.node(number);
            store(&extent[0], u64::from(next));
            write_bytes(&extent[1..], piece);
            next = number;
        }
        next
    }

    /// Reads the first bytes of a chain, as many as `to` takes. False if it ends before, which a number that was read while its node changed may lead to.
    pub(super) fn read(&self, first: u32, to: &mut [u8]) -> bool {
        let mut number = first;
        for piece in to.chunks_mut(Self::BYTES) {
            let Some(extent) = self.extent(number) else {
                return false;
            };
            let words: &[Word] = &extent[1..1 + words_for(piece.len())];
            copy_bytes(words, piece);
            number = load(&extent[0]) as u32;
        }
        true
    }

    /// How a chain of `len` bytes compares with others. Any order, if its number or length was read while its node changed.
    pub(super) fn compare(&self, first: u32, len: usize, than: &[u8]) -> Ordering {
        let mut number = first;
        for piece in than[..than.len().min(len)].chunks(Self::BYTES) {
            let Some(extent) = self.extent(number) else {
                return Ordering::Greater;
            };
            let words = &extent[1..1 + words_for(piece.len())];
            let order = compare_words(words, piece);
            if order.is_ne() {
                return order;
            }
            number = load(&extent[0]) as u32;
        }
        len.cmp(&than.len())
    }

    /// An extent, unless the number is of none.
    #[inline(always)]
    fn extent(&self, number: u32) -> Option<&[Word; W]> {
        match number {
            0 => None,
            number => self.0.try_node(number),
        }
    }

    /// The number of a chain's extents.
    #[cfg(test)]
    pub(super) fn extents_of(&self, first: u32) -> usize {
        let next = |number: &u32| Some(load(&self.0.node(*number)[0]) as u32);
        std::iter::successors(Some(first), next)
            .take_while(|number| *number != 0)
            .count()
    }

    /// Gives a chain's extents back.
    pub(super) fn free(&self, numbers: &mut Numbers, first: u32) {
        let mut number = first;
        while number != 0 {
            let next = load(&self.0.node(number)[0]) as u32;
            numbers.give(number);
            number = next;
        }
    }
}
