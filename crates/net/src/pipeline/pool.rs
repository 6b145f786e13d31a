//! Memory for frames with room in front of them and behind: [`Pool`].
//!
//! A [`Buf`] is as long as its frame. A frame that becomes longer (a tunnel's header, a tag) needs room around it, and one that becomes shorter
//! gives some back. A pool's buffers are windows of slots of one size; [`resize`] moves the ends of such a window, without a copy. Slots come back
//! to their pool when a buffer is dropped, on whatever thread, without a lock and without the allocator.
#![allow(unsafe_code)]

use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use dpb_core::{Buf, Region};

use super::slots::Slots;

/// Slots of one size for frames. A clone is the same pool.
#[derive(Clone)]
pub struct Pool {
    slab: Arc<Slab>,
    front: usize,
}

/// The memory of a pool: it lives as long as one of its buffers does.
struct Slab {
    /// All slots, one behind another. Never dereferenced: the buffers have its bytes.
    memory: Buf,
    slot_bytes: usize,
    slots: Slots,
}

impl Pool {
    /// A pool of `slots` slots of `slot_bytes`, in which a new frame has `front` bytes before it. `None` if there is no such memory, or if a frame would have
    /// no byte.
    pub fn new(slots: u32, slot_bytes: usize, front: usize) -> Option<Self> {
        if slots == 0 || slots == u32::MAX || front >= slot_bytes {
            return None;
        }
        let memory = Buf::zeroed(slot_bytes.checked_mul(slots as usize)?)?;
        let slab = Slab {
            memory,
            slot_bytes,
            slots: Slots::new(slots),
        };
        Some(Self {
            slab: Arc::new(slab),
            front,
        })
    }

    /// A frame of `len` bytes, which hold what they held. `None` if no slot is free, or slots are shorter.
    pub fn frame(&self, len: usize) -> Option<Buf> {
        if len > self.slab.slot_bytes - self.front {
            return None;
        }
        let slot = self.slab.slots.take()?;
        let start = slot as usize * self.slab.slot_bytes + self.front;
        // SAFETY: the slot was free, and is ours alone until its buffer is dropped; `len` bytes from `start` lie in it, and it in the memory,
        // which is initialised. The slab keeps the memory, and a buffer keeps the slab.
        Some(unsafe {
            let first = self.slab.memory.as_non_null().add(start);
            Buf::from_raw_parts(first, len, Arc::clone(&self.slab) as Arc<dyn Region>)
        })
    }

    /// A copy of `frame`.
    pub fn copy(&self, frame: &[u8]) -> Option<Buf> {
        let mut copy = self.frame(frame.len())?;
        copy.copy_from_slice(frame);
        Some(copy)
    }

    /// Moves the ends of `frame`, as [`resize`] does; where that is not possible, in a slot of this pool. Says if it was done.
    pub fn fit(&self, frame: &mut Buf, front: isize, back: isize) -> bool {
        if resize(frame, front, back) {
            return true;
        }
        let cut = |by: isize| by.min(0).unsigned_abs();
        let Some(kept) = frame
            .len()
            .checked_sub(cut(back))
            .and_then(|end| frame.get(cut(front)..end))
        else {
            return false;
        };
        let Some(mut copy) = self.copy(kept) else {
            return false;
        };
        let is_done = resize(&mut copy, front.max(0), back.max(0));
        if is_done {
            *frame = copy;
        }
        is_done
    }

    /// Slots that are free. Others may take them meanwhile.
    pub fn free(&self) -> usize {
        self.slab.slots.free()
    }
}

/// Moves the start of `frame` by `front` bytes forward, towards lower addresses, and its end by `back` bytes behind; negative ones make it
/// shorter. What is new holds what the slot held there. False, and nothing is done, if the frame is not of a pool, or there is no such room.
pub fn resize(frame: &mut Buf, front: isize, back: isize) -> bool {
    let Some(slab) = frame.region().downcast_ref::<Slab>() else {
        return false;
    };
    let (slot, offset) = slab.place(frame.as_non_null());
    let start = offset.checked_add_signed(front.wrapping_neg());
    let end = (offset + frame.len()).checked_add_signed(back);
    let (Some(start), Some(end)) = (start, end) else {
        return false;
    };
    // A window begins in its slot even if it has no byte: the slot is found by where it begins.
    if start > end || end > slab.slot_bytes || start >= slab.slot_bytes {
        return false;
    }
    let at = slot * slab.slot_bytes + start;
    // SAFETY: the bytes lie in the slot of this buffer, which has the slot for itself. The old buffer is taken apart and not used again, and
    // nothing between reading and writing it can panic: its region is kept by the parts.
    unsafe {
        let first = slab.memory.as_non_null().add(at);
        let (_, _, region) = std::ptr::read(frame).into_raw_parts();
        std::ptr::write(frame, Buf::from_raw_parts(first, end - start, region));
    }
    true
}

impl Slab {
    /// The slot that an address lies in, and where in it.
    fn place(&self, ptr: NonNull<u8>) -> (usize, usize) {
        let at = ptr.addr().get() - self.memory.as_non_null().addr().get();
        (at / self.slot_bytes, at % self.slot_bytes)
    }
}

impl Region for Slab {
    unsafe fn release(&self, ptr: NonNull<u8>, _: usize) {
        let (slot, _) = self.place(ptr);
        self.slots.give(slot as u32);
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (slots, bytes) = (self.slab.slots.len(), self.slab.slot_bytes);
        write!(
            f,
            "Pool({} of {slots} slots of {bytes} bytes free)",
            self.free()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_given_once_and_come_back() {
        let pool = Pool::new(3, 128, 32).expect("memory");
        let mut frames: Vec<Buf> = (0..3).map(|i| pool.copy(&[i; 60]).expect("free")).collect();
        assert!(pool.frame(1).is_none());
        assert_eq!(pool.free(), 0);
        for (i, frame) in frames.iter().enumerate() {
            assert_eq!(frame[..], [i as u8; 60]);
        }
        frames.remove(1);
        assert_eq!(pool.free(), 1);
        frames.push(pool.copy(&[9; 96]).expect("free"));
        assert!(pool.frame(97).is_none());
        assert_eq!(frames[1][..], [2; 60]);
        drop(frames);
        assert_eq!(pool.free(), 3);
        assert!(pool.frame(97).is_none(), "a slot has 128 bytes, 32 before");
    }

    #[test]
    fn ends_move_within_a_slot_and_no_further() {
        let pool = Pool::new(2, 128, 32).expect("memory");
        let mut frame = pool.copy(&[7; 60]).expect("free");
        assert!(resize(&mut frame, 32, 36));
        assert_eq!((frame.len(), &frame[32..92]), (128, &[7; 60][..]));
        assert!(!resize(&mut frame, 1, 0) && !resize(&mut frame, 0, 1));
        assert!(resize(&mut frame, -128 + 1, 0));
        assert_eq!(frame.len(), 1);
        assert!(!resize(&mut frame, -1, 0), "its slot would not be found");
        assert!(!resize(&mut frame, -2, 0) && !resize(&mut frame, isize::MIN, 0));
        assert!(resize(&mut frame, 0, -1));
        drop(frame);
        assert_eq!(pool.free(), 2);
    }

    #[test]
    fn a_frame_of_elsewhere_moves_into_a_slot() {
        let pool = Pool::new(1, 128, 32).expect("memory");
        let mut frame = Buf::zeroed(60).expect("memory");
        frame.fill(5);
        assert!(!resize(&mut frame, -1, 0), "the heap's has no slot");
        assert!(pool.fit(&mut frame, 20, -4));
        assert_eq!((frame.len(), &frame[20..]), (76, &[5; 56][..]));
        assert_eq!(pool.free(), 0);
        // No slot is free, but this one has room.
        assert!(pool.fit(&mut frame, 1, 2));
        assert!(!pool.fit(&mut frame, 100, 0));
        assert_eq!(frame.len(), 79);
        let mut other = Buf::zeroed(60).expect("memory");
        assert!(!pool.fit(&mut other, -61, 0) && !pool.fit(&mut other, 0, -61));
        drop((pool, frame));
    }

    #[test]
    fn threads_share_a_pool() {
        let pool = Pool::new(8, 64, 0).expect("memory");
        let rounds = if cfg!(miri) { 50 } else { 20_000 };
        std::thread::scope(|scope| {
            for byte in 0..4 {
                let pool = pool.clone();
                scope.spawn(move || {
                    for _ in 0..rounds {
                        let Some(mut frame) = pool.frame(64) else {
                            continue;
                        };
                        frame.fill(byte);
                        std::hint::spin_loop();
                        assert!(frame.iter().all(|b| *b == byte), "two have one slot");
                    }
                });
            }
        });
        assert_eq!(pool.free(), 8);
    }
}
