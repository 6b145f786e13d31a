//! Frames for packets: pieces of equal length of one mapping, which come back when their buffers are dropped, so that a port allocates nothing
//! for a packet.
//!
//! One side takes, the port; buffers are dropped anywhere ([`returns`](super::returns)).
#![allow(unsafe_code)]

use std::fmt;
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;

use dpb_core::{Buf, Region};

use super::mapping::Mapping;
use super::returns::{NONE, Own, Returns};

/// The memory. It stays as long as any of its buffers.
pub(super) struct Memory {
    mapping: Mapping,
    frame_bytes: usize,
    /// The numbers of frames.
    returns: Returns,
}

/// The frames of a port: the side that takes.
#[derive(Debug)]
pub(super) struct Pool {
    memory: Arc<Memory>,
    /// The free frames that are this side's own.
    free: Own,
}

/// A frame that whoever has this may use. One that is dropped is lost to its pool until the end: [`Pool::give`] brings it back.
#[derive(Debug)]
#[must_use]
pub(super) struct Frame(u32);

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (frames, bytes) = (self.returns.len(), self.frame_bytes);
        write!(f, "Memory({frames} frames of {bytes} bytes)")
    }
}

impl Frame {
    /// Its number in the pool.
    pub(super) fn number(&self) -> usize {
        self.0 as usize
    }
}

impl Memory {
    fn frame_of(&self, ptr: NonNull<u8>) -> u32 {
        ((ptr.addr().get() - self.mapping.start().addr().get()) / self.frame_bytes) as u32
    }
}

impl Region for Memory {
    unsafe fn release(&self, ptr: NonNull<u8>, _len: usize) {
        // The caller vouches that this was a buffer of ours: it began inside a frame, which no one else has.
        self.returns.put(self.frame_of(ptr));
    }
}

impl Pool {
    /// `count` frames of `frame_bytes` bytes.
    ///
    /// # Errors
    /// There is no memory for them.
    pub(super) fn new(count: u32, frame_bytes: usize) -> io::Result<Self> {
        let len = (count as usize).checked_mul(frame_bytes);
        let len = len.filter(|&len| len > 0 && count < NONE);
        let len = len.ok_or(io::ErrorKind::InvalidInput)?;
        let (returns, free) = Returns::new(count);
        let memory = Memory {
            mapping: Mapping::of_process(len)?,
            frame_bytes,
            returns,
        };
        Ok(Self {
            memory: Arc::new(memory),
            free,
        })
    }

    /// Where the frames lie, one behind another.
    pub(super) fn mapping(&self) -> &Mapping {
        &self.memory.mapping
    }

    /// Bytes of a frame.
    pub(super) fn frame_bytes(&self) -> usize {
        self.memory.frame_bytes
    }

    /// A frame, if one is free. What is in it was there before.
    pub(super) fn take(&mut self) -> Option<Frame> {
        self.memory.returns.take(&mut self.free).map(Frame)
    }

    /// Takes a frame back.
    pub(super) fn give(&mut self, frame: Frame) {
        self.memory.returns.give(&mut self.free, frame.0);
    }

    /// The bytes of a frame of this pool.
    pub(super) fn bytes_mut<'a>(&'a mut self, frame: &'a mut Frame) -> &'a mut [u8] {
        let start = self.address(frame.0);
        // SAFETY: `frame` is the only one that this frame has, and is borrowed; the mapping began with zeros, so its bytes are initialised.
        unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), self.frame_bytes()) }
    }

    /// A buffer over `len` bytes of a frame, from `start` on.
    pub(super) fn buf(&self, frame: Frame, start: usize, len: usize) -> Buf {
        assert!(start < self.frame_bytes() && len <= self.frame_bytes() - start);
        // SAFETY: inside the frame, as just checked.
        let ptr = unsafe { self.address(frame.0).add(start) };
        let region: Arc<dyn Region> = self.memory.clone();
        // SAFETY: `frame` was the only one that this frame had, and is gone, until `release` puts it back; its bytes are initialised.
        unsafe { Buf::from_raw_parts(ptr, len, region) }
    }

    /// True if the buffer lies in a frame of this pool.
    pub(super) fn is_ours(&self, buf: &Buf) -> bool {
        let region: &dyn Region = &*self.memory;
        buf.region().is(region)
    }

    /// A buffer of this pool, taken apart: the place of its first byte in its frame, and the frame.
    ///
    /// # Errors
    /// The buffer, if it is not of this pool.
    pub(super) fn frame_of(&self, buf: Buf) -> Result<(u64, Frame), Buf> {
        if !self.is_ours(&buf) {
            return Err(buf);
        }
        // The region that comes along is this pool's memory, which lives on.
        let (ptr, _, _) = buf.into_raw_parts();
        let distance = ptr.addr().get() - self.mapping().start().addr().get();
        let start = distance % self.frame_bytes();
        Ok((start as u64, Frame(self.memory.frame_of(ptr))))
    }

    /// The distance of a frame from the start of the mapping, for a device that has the frame from now on.
    pub(super) fn lend(&self, frame: Frame) -> u64 {
        u64::from(frame.0) * self.frame_bytes() as u64
    }

    /// A frame that a device gives back, by the distance of any of its bytes; `None` for what is no frame.
    ///
    /// # Safety
    /// The device had this frame by [`Pool::lend`] or [`Pool::frame_of`], and gives it back once.
    pub(super) unsafe fn reclaim(&self, distance: u64) -> Option<Frame> {
        let frame = usize::try_from(distance).ok()? / self.frame_bytes();
        (frame < self.memory.returns.len()).then_some(Frame(frame as u32))
    }

    fn address(&self, frame: u32) -> NonNull<u8> {
        let start = frame as usize * self.frame_bytes();
        assert!(start < self.mapping().len());
        // SAFETY: numbers of frames are below their count, so this is inside the mapping.
        unsafe { self.mapping().start().add(start) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_back_from_wherever_they_are_dropped() {
        let mut pool = Pool::new(8, 64).expect("memory");
        for round in 0..100_u8 {
            let mut bufs: Vec<Buf> = std::iter::from_fn(|| {
                let mut frame = pool.take()?;
                pool.bytes_mut(&mut frame).fill(round);
                Some(pool.buf(frame, 2, 60))
            })
            .collect();
            assert_eq!(bufs.len(), 8);
            let mut starts: Vec<usize> = bufs.iter().map(|buf| buf.as_ptr().addr()).collect();
            starts.sort_unstable();
            assert!(starts.windows(2).all(|two| two[1] - two[0] == 64));
            assert!(bufs.iter().all(|buf| buf[..] == [round; 60]));
            let elsewhere = bufs.split_off(usize::from(round % 8));
            std::thread::scope(|scope| {
                scope.spawn(move || drop(elsewhere));
                drop(bufs);
            });
        }
    }

    #[test]
    fn a_buffer_outlives_its_pool() {
        let mut pool = Pool::new(2, 4096).expect("memory");
        let frame = pool.take().expect("two");
        let mut buf = pool.buf(frame, 0, 4096);
        assert!(pool.is_ours(&buf) && !pool.is_ours(&Buf::zeroed(1).expect("memory")));
        drop(pool);
        buf.fill(7);
        assert_eq!(buf[4095], 7);
    }

    #[test]
    fn what_a_device_had_is_a_frame_again() {
        let mut pool = Pool::new(3, 128).expect("memory");
        let (one, two) = (pool.take().expect("three"), pool.take().expect("three"));
        let distance = pool.lend(two);
        let buf = pool.buf(one, 100, 28);
        let (first, frame) = pool.frame_of(buf).expect("ours");
        assert_eq!((first, distance), (100, 128));
        pool.give(frame);
        // SAFETY: lent above, and given back here.
        let two = unsafe { pool.reclaim(distance + 5) }.expect("a frame");
        pool.give(two);
        // SAFETY: no frame, so nobody has it.
        assert!(unsafe { pool.reclaim(3 * 128) }.is_none());
        assert_eq!(std::iter::from_fn(|| pool.take()).count(), 3);
        assert!(pool.frame_of(Buf::zeroed(9).expect("memory")).is_err());
    }
}
