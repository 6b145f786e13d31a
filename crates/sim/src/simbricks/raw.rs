//! Memory that is shared with a peer, which may write to it at any time, and whatever it likes.
//!
//! So no reference to plain bytes is ever made into it: bytes 56 to 63 of a slot are atomic bytes, all others atomic words, and each
//! is always accessed as one of its kind. What comes out of it are copies.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::OwnedFd;
use std::ptr::{NonNull, null_mut};
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use rustix::fs::{
    MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create,
};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::intro::{ALIGNMENT, Direction, IntroError, RingPlace};
use super::message::{HEADER_BYTES, OWN_TYPE_BYTE};

/// Bytes of a word.
const WORD: usize = 8;
/// The first word of a frame.
const FRAME_WORD: usize = HEADER_BYTES / WORD;
/// The word that is only accessed by its bytes.
const OWN_TYPE_WORD: usize = OWN_TYPE_BYTE / WORD;

const _: () = assert!(ALIGNMENT as usize == WORD && align_of::<AtomicU64>() <= WORD);

/// A file in memory, mapped whole.
#[derive(Debug)]
pub(super) struct Region {
    start: NonNull<u8>,
    len: usize,
    file: OwnedFd,
    is_sealed: bool,
}

// SAFETY: the mapping is valid from any thread until the value is dropped, and is accessed by atomics only.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// New memory of zeros, which nobody can shrink or grow. Its pages come when they are touched first: to reserve them all would take
    /// whatever the machine has before the kernel refuses a ring that is too large.
    pub(super) fn create(bytes: u64) -> io::Result<Self> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = memfd_create("dpb-simbricks", flags)?;
        ftruncate(&file, bytes)?;
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Self::map(file)
    }

    /// A peer's memory. It is sealed against shrinking if its file takes a seal.
    pub(super) fn of_peer(file: OwnedFd) -> io::Result<Self> {
        // A file that takes no seal is of use all the same; `is_sealed` tells.
        let _ = fcntl_add_seals(&file, SealFlags::SHRINK);
        Self::map(file)
    }

    fn map(file: OwnedFd) -> io::Result<Self> {
        let is_sealed = fcntl_get_seals(&file).is_ok_and(|seals| seals.contains(SealFlags::SHRINK));
        let len = usize::try_from(fstat(&file)?.st_size).map_err(io::Error::other)?;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address that the kernel chooses.
        let start = unsafe { mmap(null_mut(), len, protection, MapFlags::SHARED, &file, 0) }?;
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::AddrNotAvailable)?;
        Ok(Self {
            start,
            len,
            file,
            is_sealed,
        })
    }

    /// Bytes that are mapped.
    pub(super) fn len(&self) -> u64 {
        self.len as u64
    }

    /// Bytes that the file has now. Fewer than [`len`](Self::len) if the peer has cut it off.
    pub(super) fn file_len(&self) -> io::Result<u64> {
        Ok(u64::try_from(fstat(&self.file)?.st_size).unwrap_or(0))
    }

    /// True if the file cannot shrink.
    pub(super) fn is_sealed(&self) -> bool {
        self.is_sealed
    }

    /// The file.
    pub(super) fn file(&self) -> &OwnedFd {
        &self.file
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the whole of the mapping that `map` made. Nobody refers to it: `Slots` hold the region.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
        debug_assert!(unmapped.is_ok(), "{unmapped:?}");
    }
}

/// The slots of a ring.
#[derive(Clone, Debug)]
pub(super) struct Slots {
    region: Arc<Region>,
    /// The first slot's byte, aligned to words.
    offset: usize,
    /// A multiple of a word, and at least a header.
    entry_bytes: usize,
    entries: usize,
}

impl Slots {
    /// The slots at `place`.
    ///
    /// # Errors
    /// They do not lie in the region, or not at words.
    pub(super) fn new(
        region: &Arc<Region>,
        place: RingPlace,
        ring: Direction,
    ) -> Result<Self, IntroError> {
        let end = place.bytes(ring)?.end;
        if end > region.len() {
            return Err(IntroError::Outside {
                ring,
                end,
                memory_bytes: region.len(),
            });
        }
        // All are at most the region's length, which is a `usize`.
        Ok(Self {
            region: region.clone(),
            offset: place.offset as usize,
            entry_bytes: place.entry_bytes as usize,
            entries: place.entries as usize,
        })
    }

    /// The slots' number.
    pub(super) fn entries(&self) -> usize {
        self.entries
    }

    /// Bytes of a frame that a slot holds.
    pub(super) fn frame_bytes_max(&self) -> usize {
        self.entry_bytes - HEADER_BYTES
    }

    /// Owner and type of a slot. Whatever the peer wrote before it gave the slot away is visible afterwards.
    pub(super) fn own_type(&self, slot: usize) -> u8 {
        self.own_type_byte(slot).load(Ordering::Acquire)
    }

    /// Gives a slot away: everything that was written to it before is visible to the peer, which finds this owner and type.
    pub(super) fn give(&self, slot: usize, own_type: u8) {
        self.own_type_byte(slot).store(own_type, Ordering::Release);
    }

    /// A word of a slot's header: one before the owner's.
    pub(super) fn header_word(&self, slot: usize, word: usize) -> u64 {
        u64::from_le(self.header(slot)[word].load(Ordering::Relaxed))
    }

    /// Writes a word of a slot's header: one before the owner's.
    pub(super) fn set_header_word(&self, slot: usize, word: usize, value: u64) {
        self.header(slot)[word].store(value.to_le(), Ordering::Relaxed);
    }

    /// Copies the start of a slot's frame into `bytes`, which must not be longer than a slot's frame.
    pub(super) fn copy_frame(&self, slot: usize, bytes: &mut [u8]) {
        let words = self.frame(slot, bytes.len());
        for (place, word) in bytes.chunks_mut(WORD).zip(words) {
            let word = word.load(Ordering::Relaxed).to_ne_bytes();
            match place.as_mut_array::<WORD>() {
                Some(place) => *place = word,
                None => place.copy_from_slice(&word[..place.len()]),
            }
        }
    }

    /// Writes a slot's frame, which must not be longer than a slot's, and zeros up to the next word.
    pub(super) fn write_frame(&self, slot: usize, bytes: &[u8]) {
        let words = self.frame(slot, bytes.len());
        for (piece, place) in bytes.chunks(WORD).zip(words) {
            let mut word = [0; WORD];
            word[..piece.len()].copy_from_slice(piece);
            place.store(u64::from_ne_bytes(word), Ordering::Relaxed);
        }
    }

    /// The byte with owner and type.
    fn own_type_byte(&self, slot: usize) -> &AtomicU8 {
        let start = self.slot(slot);
        // SAFETY: a slot has at least a header, so the byte lies in the mapping, which lives as long as `self`. Bytes of
        // this word are accessed as atomic bytes only.
        unsafe { AtomicU8::from_ptr(start.add(OWN_TYPE_BYTE).as_ptr()) }
    }

    /// The words of the header that are accessed as words.
    fn header(&self, slot: usize) -> &[AtomicU64] {
        self.words(slot, 0, OWN_TYPE_WORD)
    }

    /// The words of a frame of that length.
    fn frame(&self, slot: usize, bytes: usize) -> &[AtomicU64] {
        self.words(slot, FRAME_WORD, bytes.div_ceil(WORD))
    }

    /// Words of a slot: of the header before the owner's, or of the frame.
    fn words(&self, slot: usize, first: usize, count: usize) -> &[AtomicU64] {
        assert!(first >= FRAME_WORD || first + count <= OWN_TYPE_WORD);
        assert!(
            count <= self.entry_bytes / WORD - first,
            "outside of a slot"
        );
        let start = self.slot(slot);
        // SAFETY: the words lie inside the slot by the assertion above, hence in the mapping, which lives as long as `self`. They are
        // aligned, as mappings, rings and slots begin at words. None is the owner's, so all are accessed as atomic words only.
        unsafe {
            let first = start.cast::<AtomicU64>().add(first);
            slice::from_raw_parts(first.as_ptr(), count)
        }
    }

    fn slot(&self, slot: usize) -> NonNull<u8> {
        assert!(slot < self.entries, "outside of a ring");
        // SAFETY: `new` has checked that all slots lie in the mapping.
        unsafe { self.region.start.add(self.offset + slot * self.entry_bytes) }
    }
}
