//! What every side of a comparison gets: the same items, laid out alike, in as many calls, and memory placed alike.

use std::ops::{Deref, DerefMut};

use dpb_core::{Batch, Buf, OutputShape};

/// The calls that one run makes, and where their outputs go.
#[derive(Clone, Copy, Debug)]
pub struct Work<'a> {
    /// The items of all calls.
    pub batch: Batch<'a>,
    /// The same items, as many in each call.
    pub calls: &'a [Batch<'a>],
    /// The shape of the operator's outputs.
    pub shape: OutputShape,
    /// Bytes of an item's slot.
    pub slot: usize,
    /// The place at which slots begin, see [`Placed`].
    pub place: usize,
}

impl Work<'_> {
    /// Zeroed slots for all items.
    ///
    /// # Panics
    /// If there is no memory.
    pub fn slots(&self) -> Placed {
        Placed::zeroed(self.slot * self.batch.len(), self.place)
    }
}

/// Memory at a chosen distance from the start of its allocation.
///
/// How fast code is depends on where its input and output lie: a load whose address differs from that of an earlier store by a
/// multiple of 4 KiB waits for it. A bench that takes memory once samples one such accident; this one takes it anew each round.
pub struct Placed {
    buf: Buf,
    start: usize,
    len: usize,
}

impl Placed {
    /// Places that can be asked for, 64 bytes apart.
    pub const PLACES: usize = 1024;

    /// `len` zeroed bytes, `place` times 64 bytes behind an address that is a multiple of 64.
    ///
    /// # Panics
    /// If there is no memory, or no such place.
    pub fn zeroed(len: usize, place: usize) -> Self {
        const LINE: usize = 64;
        assert!(place < Self::PLACES, "a place");
        let buf = Buf::zeroed(len + (Self::PLACES + 1) * LINE).expect("memory");
        let aligned = buf.as_ptr().align_offset(LINE);
        Self {
            buf,
            start: aligned + place * LINE,
            len,
        }
    }
}

impl Deref for Placed {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.buf[self.start..][..self.len]
    }
}

impl DerefMut for Placed {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.buf[self.start..][..self.len]
    }
}

/// Values that begin at a chosen distance from the start of their allocation, as [`Placed`] does.
pub struct Shifted<T> {
    all: Vec<T>,
    start: usize,
}

impl<T: Copy> Shifted<T> {
    /// `values`, `place` times 64 bytes behind the start of an allocation.
    pub fn new(values: impl IntoIterator<Item = T>, place: usize) -> Self {
        let start = place * 64 / size_of::<T>();
        let mut values = values.into_iter().peekable();
        let first = values.peek().copied();
        let before = first.into_iter().cycle().take(start);
        let all: Vec<T> = before.chain(values).collect();
        let start = start.min(all.len());
        Self { all, start }
    }
}

impl<T> Deref for Shifted<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.all[self.start..]
    }
}

impl<T> DerefMut for Shifted<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.all[self.start..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_begins_where_it_is_placed() {
        for place in [0, 1, 63, Placed::PLACES - 1] {
            let mut placed = Placed::zeroed(100, place);
            assert_eq!(placed.as_ptr().align_offset(64), 0);
            placed.fill(1);
            assert_eq!(placed.len(), 100);
        }
        let mut shifted = Shifted::new(0..10u32, 3);
        shifted[0] = 7;
        assert_eq!((shifted.len(), shifted[0], shifted[9]), (10, 7, 9));
        let [low, high] = [0, 3].map(|place| {
            let placed = Placed::zeroed(10, place);
            placed.as_ptr() as usize - placed.buf.as_ptr() as usize
        });
        assert!(high.abs_diff(low + 3 * 64) < 64, "{low} {high}");
    }
}
