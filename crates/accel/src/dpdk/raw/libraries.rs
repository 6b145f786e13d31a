//! DPDK's own libraries, on the caller's core: which code there is for this CPU; sums and hashes.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::OnceLock;

use dpb_core::Batch;

use super::Eal;
use crate::dpdk::sys::libraries as sys;

/// The sum that is computed of each item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::dpdk) enum Sum {
    Checksum,
    Crc32,
    Crc32c,
}

impl Sum {
    pub(in crate::dpdk) fn bytes(self) -> usize {
        match self {
            Self::Checksum => 2,
            Self::Crc32 | Self::Crc32c => 4,
        }
    }
}

/// The libraries, compiled for one level of instruction sets.
#[derive(Clone, Copy)]
pub(in crate::dpdk) struct Libraries {
    eal: &'static Eal,
    table: &'static sys::Libraries,
}

// SAFETY: what it points to is functions, in a static table of the shim's, which stays.
unsafe impl Send for Libraries {}
// SAFETY: the same.
unsafe impl Sync for Libraries {}

impl Libraries {
    /// The functions for the best level that this CPU has, or for the `nth` behind it; `None` if there are fewer levels, or no
    /// memory.
    pub(in crate::dpdk) fn of(eal: &'static Eal, nth: u32) -> Option<Self> {
        // SAFETY: the shim gives the address of a static table, or null.
        let table = unsafe { (eal.table().libraries)(nth).as_ref() }?;
        let libraries = Self { eal, table };
        static CHOSEN: OnceLock<bool> = OnceLock::new();
        let is_chosen = CHOSEN.get_or_init(|| {
            let _control = eal.control();
            // SAFETY: EAL runs; once, before the first CRC, and no other thread changes what DPDK chooses by.
            unsafe { (libraries.sums().choose_crc)() == 0 }
        });
        is_chosen.then_some(libraries)
    }

    pub(in crate::dpdk) fn eal(&self) -> &'static Eal {
        self.eal
    }

    /// The level of instruction sets: `avx512`.
    pub(in crate::dpdk) fn level(&self) -> String {
        // SAFETY: static text that ends in a zero.
        let level = unsafe { CStr::from_ptr(self.table.level) };
        level.to_string_lossy().into_owned()
    }

    /// One sum for each item, one behind the other.
    ///
    /// # Panics
    /// If `dst` is too short for them, items of a checksum are too long, or the batch is of 4 GiB or more.
    pub(in crate::dpdk) fn sum(&self, sum: Sum, batch: Batch<'_>, dst: &mut [u8]) {
        assert!(
            dst.len() >= batch.len() * sum.bytes(),
            "a place for each sum"
        );
        let longest = batch.longest();
        assert!(
            sum != Sum::Checksum || longest <= sys::SUMMED_MAX,
            "within 32 bits"
        );
        let longest = u32::try_from(longest).expect("below 4 GiB");
        let count = u32::try_from(batch.len()).expect("fewer than 2^32 items");
        let compute = match sum {
            Sum::Checksum => self.sums().checksums,
            Sum::Crc32 => self.sums().crc32s,
            Sum::Crc32c => self.sums().crc32cs,
        };
        let mut run = |src: &[u8], offsets: Option<&[u32]>, len, n, first: usize| {
            let items = sys::Batch {
                src: src.as_ptr(),
                offsets: offsets.map_or(std::ptr::null(), <[u32]>::as_ptr),
                len,
                n,
            };
            let dst = &mut dst[first * sum.bytes()..];
            // SAFETY: a `Batch` was checked to lie in its input, and has one more offset than items; `dst` has the room, as
            // asserted.
            unsafe { compute(&items, dst.as_mut_ptr()) }
        };
        match (batch.contiguous(), batch.offsets()) {
            (Some((items, _)), _) => run(items, None, longest, count, 0),
            (None, Some((src, offsets))) => run(src, Some(offsets), 0, count, 0),
            // The library's calls take one item each.
            (None, None) => {
                for (i, item) in batch.iter().enumerate() {
                    run(item, None, item.len() as u32, 1, i);
                }
            }
        }
    }

    fn sums(&self) -> &'static sys::Sums {
        // SAFETY: part of the static table.
        unsafe { &*self.table.sums }
    }

    pub(super) fn lookups(&self) -> &'static sys::Lookups {
        // SAFETY: as above.
        unsafe { &*self.table.lookups }
    }

    pub(super) fn packets(&self) -> &'static sys::Packets {
        // SAFETY: as above.
        unsafe { &*self.table.packets }
    }

    pub(super) fn flows(&self) -> &'static sys::Flows {
        // SAFETY: as above.
        unsafe { &*self.table.flows }
    }
}

/// A Toeplitz hash with its key.
pub(in crate::dpdk) struct Hash {
    libraries: Libraries,
    hash: NonNull<sys::Hash>,
    tuple_bytes: usize,
}

// SAFETY: the shim's part is read alone once it is made, and is of no thread in particular.
unsafe impl Send for Hash {}
// SAFETY: the same.
unsafe impl Sync for Hash {}

impl Hash {
    /// Makes a hash over tuples of `len` bytes; `None` if there is no memory.
    ///
    /// # Panics
    /// If the key has not 40 to 60 bytes, or a tuple not whole words, nine at most.
    pub(in crate::dpdk) fn new(
        libraries: Libraries,
        key: &[u8],
        tuple_bytes: usize,
    ) -> Option<Self> {
        assert!((40..=60).contains(&key.len()), "a key");
        assert!(
            tuple_bytes.is_multiple_of(4) && (4..=36).contains(&tuple_bytes),
            "a tuple"
        );
        // SAFETY: a key and lengths as `shim.h` wants them, as asserted.
        let hash = unsafe {
            (libraries.sums().hash_open)(key.as_ptr(), key.len() as u32, tuple_bytes as u32)
        };
        Some(Self {
            libraries,
            hash: NonNull::new(hash)?,
            tuple_bytes,
        })
    }

    pub(in crate::dpdk) fn tuple_bytes(&self) -> usize {
        self.tuple_bytes
    }

    /// The hash of each tuple, four bytes, little endian.
    ///
    /// # Panics
    /// If there is not one place for each tuple.
    pub(in crate::dpdk) fn hash_all(&self, tuples: &[u8], hashes: &mut [u8]) {
        let count = places(tuples, self.tuple_bytes, hashes);
        // SAFETY: as many tuples and places, as asserted.
        unsafe {
            let hashes_of = self.libraries.sums().hashes;
            hashes_of(
                self.hash.as_ptr(),
                tuples.as_ptr(),
                count,
                hashes.as_mut_ptr(),
            );
        }
    }
}

/// The places of a batch's tuples, as DPDK's own call takes them.
pub(in crate::dpdk) struct Tuples<'a> {
    places: Vec<*const u8>,
    tuple_bytes: usize,
    input: PhantomData<&'a [u8]>,
}

impl<'a> Tuples<'a> {
    /// The whole tuples of `tuple_bytes` bytes in each item.
    pub(in crate::dpdk) fn new(batch: Batch<'a>, tuple_bytes: usize) -> Self {
        let items = (0..batch.len()).map(|i| batch.item(i));
        let places = items.flat_map(|item| item.chunks_exact(tuple_bytes).map(<[u8]>::as_ptr));
        Self {
            places: places.collect(),
            tuple_bytes,
            input: PhantomData,
        }
    }
}

impl Hash {
    /// The hash of each tuple, by DPDK's own calls for many.
    ///
    /// # Panics
    /// If tuples are of another length, or there is not one place for each.
    pub(in crate::dpdk) fn bulk(&self, tuples: &Tuples<'_>, hashes: &mut [u32]) {
        assert!(tuples.tuple_bytes == self.tuple_bytes && tuples.places.len() == hashes.len());
        let count = u32::try_from(hashes.len()).expect("fewer than 2^32 tuples");
        // SAFETY: addresses of as many tuples, each whole and borrowed as long as `tuples`; a place for each hash.
        unsafe {
            let bulk = self.libraries.sums().hash_bulk;
            bulk(
                self.hash.as_ptr(),
                tuples.places.as_ptr(),
                count,
                hashes.as_mut_ptr(),
            );
        }
    }
}

impl Drop for Hash {
    fn drop(&mut self) {
        // SAFETY: the shim's own, which nobody uses any more.
        unsafe { (self.libraries.sums().hash_close)(self.hash.as_ptr()) }
    }
}

/// The number of records, each of which has a place of four bytes.
pub(super) fn places(records: &[u8], record_bytes: usize, places: &[u8]) -> u32 {
    let count = places.len() / 4;
    assert!(
        places.len().is_multiple_of(4) && records.len() == count * record_bytes,
        "a place for each record"
    );
    u32::try_from(count).expect("fewer than 2^32 records")
}
