//! The rings that a socket of `AF_XDP` shares with the kernel: two counts, flags and descriptors, in memory that is mapped.
#![allow(unsafe_code)]

use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU32, Ordering};

use super::super::mapping::Mapping;

/// A ring of which this program puts descriptors in and the kernel takes them out.
pub(super) struct ToKernel<D> {
    ring: Ring<D>,
    /// Descriptors that were ever put in, those included that the kernel has not been told of.
    put: u32,
    /// Those that the kernel has taken, as far as this side has looked.
    taken: u32,
}

/// A ring of which the kernel puts descriptors in and this program takes them out.
pub(super) struct FromKernel<D> {
    ring: Ring<D>,
    /// Descriptors that were ever taken out.
    taken: u32,
    /// Those that the kernel has put in, as far as this side has looked.
    put: u32,
}

/// What is in a ring: numbers alone.
pub(super) trait Descriptor: Copy {}

impl Descriptor for u64 {}
impl Descriptor for libc::xdp_desc {}

struct Ring<D> {
    mapping: Mapping,
    places: libc::xdp_ring_offset,
    /// A power of two.
    len: u32,
    kind: PhantomData<D>,
}

impl<D: Descriptor> Ring<D> {
    /// Maps a ring of `len` descriptors that the socket has.
    fn map(
        socket: BorrowedFd<'_>,
        offset: u64,
        places: libc::xdp_ring_offset,
        len: u32,
    ) -> io::Result<Self> {
        let bytes = places.desc as usize + len as usize * size_of::<D>();
        let words = [places.producer, places.consumer, places.flags];
        if !len.is_power_of_two() || words.iter().any(|&at| at + 4 > bytes as u64 || at % 4 != 0) {
            return Err(io::Error::other(
                "the kernel's rings have places that cannot be",
            ));
        }
        Ok(Self {
            mapping: Mapping::of_file(socket, bytes, offset)?,
            places,
            len,
            kind: PhantomData,
        })
    }

    fn word(&self, at: u64) -> &AtomicU32 {
        // SAFETY: inside the mapping and aligned, as `map` has checked; the kernel and we use it as an atomic word.
        unsafe {
            self.mapping
                .start()
                .add(at as usize)
                .cast::<AtomicU32>()
                .as_ref()
        }
    }

    /// Descriptors that were put in.
    fn put(&self) -> &AtomicU32 {
        self.word(self.places.producer)
    }

    /// Descriptors that were taken out.
    fn taken(&self) -> &AtomicU32 {
        self.word(self.places.consumer)
    }

    /// The place of descriptor `i`, counted from the start of time.
    fn slot(&self, i: u32) -> *mut D {
        let at = self.places.desc as usize + (i & (self.len - 1)) as usize * size_of::<D>();
        // SAFETY: inside the mapping, which `map` has made that long.
        unsafe { self.mapping.start().add(at).cast().as_ptr() }
    }
}

impl<D: Descriptor> ToKernel<D> {
    pub(super) fn map(
        socket: BorrowedFd<'_>,
        offset: u64,
        places: libc::xdp_ring_offset,
        len: u32,
    ) -> io::Result<Self> {
        let ring = Ring::map(socket, offset, places, len)?;
        Ok(Self {
            ring,
            put: 0,
            taken: 0,
        })
    }

    /// True if there is room for a descriptor.
    pub(super) fn has_room(&mut self) -> bool {
        if self.put.wrapping_sub(self.taken) == self.ring.len {
            // Acquire: the kernel has read the descriptors before they are written again.
            self.taken = self.ring.taken().load(Ordering::Acquire);
        }
        self.put.wrapping_sub(self.taken) < self.ring.len
    }

    /// Puts a descriptor in, for which there is room. The kernel sees it with the next [`ToKernel::publish`].
    pub(super) fn put(&mut self, descriptor: D) {
        debug_assert!(self.put.wrapping_sub(self.taken) < self.ring.len);
        // SAFETY: a slot of the ring that is this side's until it is published.
        unsafe { self.ring.slot(self.put).write(descriptor) };
        self.put = self.put.wrapping_add(1);
    }

    /// Shows the kernel what was put in.
    pub(super) fn publish(&self) {
        // Release: who sees the count sees the descriptors.
        self.ring.put().store(self.put, Ordering::Release);
    }

    /// Descriptors that the kernel has not taken yet.
    pub(super) fn pending(&mut self) -> u32 {
        self.taken = self.ring.taken().load(Ordering::Acquire);
        self.put.wrapping_sub(self.taken)
    }

    /// True if the kernel looks at the ring only when it is woken up.
    pub(super) fn needs_wakeup(&self) -> bool {
        let flags = self.ring.word(self.ring.places.flags);
        flags.load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }
}

impl<D: Descriptor> FromKernel<D> {
    pub(super) fn map(
        socket: BorrowedFd<'_>,
        offset: u64,
        places: libc::xdp_ring_offset,
        len: u32,
    ) -> io::Result<Self> {
        let ring = Ring::map(socket, offset, places, len)?;
        Ok(Self {
            ring,
            taken: 0,
            put: 0,
        })
    }

    /// Takes a descriptor out, if one is there. Its place is the kernel's again with the next [`FromKernel::release`].
    pub(super) fn take(&mut self) -> Option<D> {
        if self.put == self.taken {
            // Acquire: the descriptors that are counted are seen, and what they point to.
            self.put = self.ring.put().load(Ordering::Acquire);
            if self.put == self.taken {
                return None;
            }
        }
        // SAFETY: a slot that the kernel has written and does not write again before `release`; a descriptor is numbers alone.
        let descriptor = unsafe { self.ring.slot(self.taken).read() };
        self.taken = self.taken.wrapping_add(1);
        Some(descriptor)
    }

    /// Gives the kernel the places of what was taken out.
    pub(super) fn release(&self) {
        // Release: the descriptors were read before.
        self.ring.taken().store(self.taken, Ordering::Release);
    }
}

impl<D> fmt::Debug for ToKernel<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "ToKernel({} of {})",
            self.put.wrapping_sub(self.taken),
            self.ring.len
        )
    }
}

impl<D> fmt::Debug for FromKernel<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "FromKernel({} of {})",
            self.put.wrapping_sub(self.taken),
            self.ring.len
        )
    }
}
