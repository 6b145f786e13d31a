//! Flows by DPDK's `rte_hash`.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::ptr::NonNull;

use super::libraries::Libraries;
use crate::dpdk::sys::libraries as sys;

/// A table of flows.
pub(in crate::dpdk) struct Flows {
    libraries: Libraries,
    table: NonNull<sys::FlowTable>,
    key_bytes: usize,
}

/// A table whose mbufs lie over frames, and these frames.
pub(in crate::dpdk) struct Received<'a> {
    flows: &'a mut Flows,
    frames: PhantomData<&'a [u8]>,
}

// SAFETY: the shim's part is of no thread in particular; what changes it takes `&mut`.
unsafe impl Send for Flows {}

impl Flows {
    /// A table for so many flows.
    ///
    /// # Errors
    /// DPDK's, negative.
    pub(in crate::dpdk) fn new(
        libraries: Libraries,
        entries: u32,
        key_bytes: u32,
    ) -> Result<Self, i32> {
        let mut opened = std::ptr::null_mut();
        let _control = libraries.eal().control();
        // SAFETY: EAL runs, and no other thread changes what DPDK keeps.
        let result = unsafe { (libraries.flows().open)(entries, key_bytes, &mut opened) };
        match NonNull::new(opened) {
            Some(table) if result == 0 => Ok(Self {
                libraries,
                table,
                key_bytes: key_bytes as usize,
            }),
            _ => Err(result),
        }
    }

    /// The number of keys.
    ///
    /// # Panics
    /// If they are not whole, or there is not `others` for each.
    fn count_of(&self, keys: &[u8], others: &[usize]) -> u32 {
        let count = keys.len() / self.key_bytes;
        assert_eq!(count * self.key_bytes, keys.len(), "whole keys");
        assert!(others.iter().all(|len| *len == count), "one for each key");
        u32::try_from(count).expect("fewer than 2^32 keys")
    }

    pub(in crate::dpdk) fn hashes(&self, keys: &[u8], hashes: &mut [u32]) {
        let n = self.count_of(keys, &[hashes.len()]);
        let hash = self.libraries.flows().hashes;
        // SAFETY: as many keys and places, as asserted.
        unsafe { hash(self.table.as_ptr(), keys.as_ptr(), n, hashes.as_mut_ptr()) }
    }

    pub(in crate::dpdk) fn add(
        &mut self,
        keys: &[u8],
        hashes: &[u32],
        lens: &[u32],
        now: u32,
    ) -> u32 {
        let n = self.count_of(keys, &[hashes.len(), lens.len()]);
        let add = self.libraries.flows().add;
        // SAFETY: as many keys, hashes and lengths, as asserted; nobody else has the table.
        unsafe {
            add(
                self.table.as_ptr(),
                keys.as_ptr(),
                hashes.as_ptr(),
                lens.as_ptr(),
                n,
                now,
            )
        }
    }

    pub(in crate::dpdk) fn remove(&mut self, keys: &[u8], hashes: &[u32]) -> u32 {
        let n = self.count_of(keys, &[hashes.len()]);
        let remove = self.libraries.flows().remove;
        // SAFETY: as above.
        unsafe { remove(self.table.as_ptr(), keys.as_ptr(), hashes.as_ptr(), n) }
    }

    pub(in crate::dpdk) fn count(
        &mut self,
        keys: &[u8],
        hashes: &mut [u32],
        lens: &[u32],
        size: u32,
        now: u32,
    ) -> u32 {
        assert!(size > 0, "bursts of some keys");
        let n = self.count_of(keys, &[hashes.len(), lens.len()]);
        let count = self.libraries.flows().count;
        // SAFETY: as above.
        unsafe {
            count(
                self.table.as_ptr(),
                keys.as_ptr(),
                hashes.as_mut_ptr(),
                lens.as_ptr(),
                n,
                size,
                now,
            )
        }
    }

    pub(in crate::dpdk) fn pass(
        &mut self,
        keys: &[u8],
        hashes: &mut [u32],
        lens: &[u32],
        now: u32,
    ) -> u32 {
        let n = self.count_of(keys, &[hashes.len(), lens.len()]);
        let pass = self.libraries.flows().pass;
        // SAFETY: as above.
        unsafe {
            pass(
                self.table.as_ptr(),
                keys.as_ptr(),
                hashes.as_mut_ptr(),
                lens.as_ptr(),
                n,
                now,
            )
        }
    }

    pub(in crate::dpdk) fn receive<'a>(
        &'a mut self,
        frames: impl IntoIterator<Item = &'a [u8]>,
    ) -> Received<'a> {
        assert_eq!(self.key_bytes, sys::TUPLE_BYTES, "the table's keys");
        let mut places = [std::ptr::null(); sys::RECEIVED_MAX];
        let mut lens = [0; sys::RECEIVED_MAX];
        let mut count = 0;
        for frame in frames {
            places[count] = frame.as_ptr();
            lens[count] = u16::try_from(frame.len()).expect("an mbuf's length").into();
            count += 1;
        }
        let receive = self.libraries.flows().receive;
        // SAFETY: so many places and lengths, which the shim has room for.
        unsafe {
            receive(
                self.table.as_ptr(),
                places.as_ptr(),
                lens.as_ptr(),
                count as u32,
            )
        }
        Received {
            flows: self,
            frames: PhantomData,
        }
    }

    pub(in crate::dpdk) fn packets(&self, key: &[u8]) -> u64 {
        assert_eq!(self.count_of(key, &[]), 1, "one key");
        let packets = self.libraries.flows().packets;
        // SAFETY: a key, as asserted.
        unsafe { packets(self.table.as_ptr(), key.as_ptr()) }
    }
}

impl Received<'_> {
    pub(in crate::dpdk) fn work(&mut self, burst: u32, now: u32) -> u32 {
        assert!(burst > 0, "bursts of some packets");
        let work = self.flows.libraries.flows().work;
        // SAFETY: the frames that the mbufs lie over are borrowed as long as this lives; keys have the length that is made, as asserted.
        unsafe { work(self.flows.table.as_ptr(), burst, now) }
    }
}

impl Drop for Flows {
    fn drop(&mut self) {
        let _control = self.libraries.eal().control();
        // SAFETY: the shim's own, which nobody uses any more.
        unsafe { (self.libraries.flows().close)(self.table.as_ptr()) }
    }
}
