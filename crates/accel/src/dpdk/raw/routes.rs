//! Longest prefix match by DPDK's libraries: tables that are filled once.
#![allow(unsafe_code)]

use std::ptr::NonNull;

use super::libraries::{Libraries, places};
use crate::dpdk::sys::libraries as sys;

/// A table of routes, filled.
pub(in crate::dpdk) struct Routes {
    libraries: Libraries,
    routes: NonNull<sys::Routes>,
    address_bytes: usize,
}

// SAFETY: lookups read alone, whatever the thread; what changes the table is in `new` and `drop`.
unsafe impl Send for Routes {}
// SAFETY: the same.
unsafe impl Sync for Routes {}

/// The room of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::dpdk) struct Size {
    /// Bytes of an entry.
    pub(in crate::dpdk) hop_bytes: u32,
    /// Tables behind the first, of 256 entries each.
    pub(in crate::dpdk) tbl8s: u32,
}

impl Routes {
    /// A table of this kind and size with these routes.
    ///
    /// # Errors
    /// DPDK's, negative.
    pub(in crate::dpdk) fn new(
        libraries: Libraries,
        kind: sys::TableKind,
        size: Size,
        routes: &[sys::Route],
    ) -> Result<Self, i32> {
        let table = sys::Table {
            kind: kind as u32,
            hop_bytes: size.hop_bytes,
            tbl8s: size.tbl8s,
            n: routes.len() as u32,
            routes: routes.as_ptr(),
        };
        let mut opened = std::ptr::null_mut();
        let _control = libraries.eal().control();
        // SAFETY: EAL runs; `n` routes, which are read before the call returns; no other thread changes what DPDK keeps.
        let result = unsafe { (libraries.lookups().open)(&table, &mut opened) };
        match NonNull::new(opened) {
            Some(routes) if result == 0 => Ok(Self {
                libraries,
                routes,
                address_bytes: match kind {
                    sys::TableKind::Lpm | sys::TableKind::Fib => 4,
                    sys::TableKind::Lpm6 | sys::TableKind::Fib6 => 16,
                },
            }),
            _ => Err(result),
        }
    }

    /// Bytes of an address.
    pub(in crate::dpdk) fn address_bytes(&self) -> usize {
        self.address_bytes
    }

    /// The hops of addresses in network order: four bytes each, little endian, all ones where no route leads.
    ///
    /// # Panics
    /// If there is not one place for each address.
    pub(in crate::dpdk) fn lookup(&self, addresses: &[u8], hops: &mut [u8]) {
        let count = places(addresses, self.address_bytes, hops);
        // SAFETY: as many addresses and places, as asserted; the table stays as it is while `self` is there.
        unsafe {
            let lookup = self.libraries.lookups().lookup;
            lookup(
                self.routes.as_ptr(),
                addresses.as_ptr(),
                count,
                hops.as_mut_ptr(),
            );
        }
    }

    /// DPDK's own calls for `burst` IPv4 addresses each, in the CPU's order; hops as it writes them.
    ///
    /// # Panics
    /// If the table is of IPv6, there are fewer hops than addresses, or a burst is empty.
    pub(in crate::dpdk) fn bursts_v4(&self, addresses: &[u32], burst: u32, hops: &mut [u64]) {
        assert_eq!(self.address_bytes, 4);
        let count = checked(addresses.len(), burst, hops);
        // SAFETY: as many addresses of this kind as said, and eight bytes for each hop, as much as any takes.
        unsafe {
            let bursts = self.libraries.lookups().bursts;
            let (from, to) = (addresses.as_ptr().cast(), hops.as_mut_ptr().cast());
            bursts(self.routes.as_ptr(), from, count, burst, to);
        }
    }

    /// As [`Routes::bursts_v4`] for IPv6 addresses in network order.
    ///
    /// # Panics
    /// As [`Routes::bursts_v4`], if the table is of IPv4.
    pub(in crate::dpdk) fn bursts_v6(&self, addresses: &[[u8; 16]], burst: u32, hops: &mut [u64]) {
        assert_eq!(self.address_bytes, 16);
        let count = checked(addresses.len(), burst, hops);
        // SAFETY: as in `bursts_v4`.
        unsafe {
            let bursts = self.libraries.lookups().bursts;
            let (from, to) = (addresses.as_ptr().cast(), hops.as_mut_ptr().cast());
            bursts(self.routes.as_ptr(), from, count, burst, to);
        }
    }
}

/// The number of addresses, each of which has a hop.
fn checked(addresses: usize, burst: u32, hops: &[u64]) -> u32 {
    assert!(
        addresses <= hops.len() && burst > 0,
        "a hop for each address"
    );
    u32::try_from(addresses).expect("fewer than 2^32 addresses")
}

impl Drop for Routes {
    fn drop(&mut self) {
        let _control = self.libraries.eal().control();
        // SAFETY: the shim's own, which nobody uses any more.
        unsafe { (self.libraries.lookups().close)(self.routes.as_ptr()) }
    }
}
