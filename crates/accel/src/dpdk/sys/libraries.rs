//! The part of the shim's table that is over DPDK's own libraries, as `native/dpdk/shim.h` declares it.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_void};

/// Longest item that `checksums` takes.
pub(in crate::dpdk) const SUMMED_MAX: usize = 131_072;
/// Longest packet that is cut.
pub(in crate::dpdk) const WHOLE_MAX: usize = 65_407;
/// Longest piece of one.
pub(in crate::dpdk) const PIECE_MAX: usize = 2048;
/// Packets that a table of flows receives at most.
pub(in crate::dpdk) const RECEIVED_MAX: usize = 256;
/// Bytes of the key that it makes of one.
pub(in crate::dpdk) const TUPLE_BYTES: usize = 16;

#[repr(C)]
pub(in crate::dpdk) struct Batch {
    pub(in crate::dpdk) src: *const u8,
    pub(in crate::dpdk) offsets: *const u32,
    pub(in crate::dpdk) len: u32,
    pub(in crate::dpdk) n: u32,
}

/// `struct dpb_hash`; only pointed at, as the two below.
#[repr(C)]
pub(in crate::dpdk) struct Hash {
    _private: [u8; 0],
}

#[repr(C)]
pub(in crate::dpdk) struct Routes {
    _private: [u8; 0],
}

#[repr(C)]
pub(in crate::dpdk) struct Pieces {
    _private: [u8; 0],
}

/// `struct dpb_flow_table`.
#[repr(C)]
pub(in crate::dpdk) struct FlowTable {
    _private: [u8; 0],
}

#[repr(C)]
pub(in crate::dpdk) struct Sums {
    pub(in crate::dpdk) choose_crc: unsafe extern "C" fn() -> c_int,
    pub(in crate::dpdk) checksums: unsafe extern "C" fn(*const Batch, *mut u8),
    pub(in crate::dpdk) crc32s: unsafe extern "C" fn(*const Batch, *mut u8),
    pub(in crate::dpdk) crc32cs: unsafe extern "C" fn(*const Batch, *mut u8),
    pub(in crate::dpdk) hash_open: unsafe extern "C" fn(*const u8, u32, u32) -> *mut Hash,
    pub(in crate::dpdk) hashes: unsafe extern "C" fn(*const Hash, *const u8, u32, *mut u8),
    pub(in crate::dpdk) hash_bulk:
        unsafe extern "C" fn(*const Hash, *const *const u8, u32, *mut u32),
    pub(in crate::dpdk) hash_close: unsafe extern "C" fn(*mut Hash),
}

/// A prefix, its address in network order, of IPv4 in the first four bytes; and its hop.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::dpdk) struct Route {
    pub(in crate::dpdk) address: [u8; 16],
    pub(in crate::dpdk) hop: u32,
    pub(in crate::dpdk) bits: u32,
}

/// `enum dpb_table_kind`.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::dpdk) enum TableKind {
    Lpm,
    Lpm6,
    Fib,
    Fib6,
}

#[repr(C)]
pub(in crate::dpdk) struct Table {
    pub(in crate::dpdk) kind: u32,
    pub(in crate::dpdk) hop_bytes: u32,
    pub(in crate::dpdk) tbl8s: u32,
    pub(in crate::dpdk) n: u32,
    pub(in crate::dpdk) routes: *const Route,
}

#[repr(C)]
pub(in crate::dpdk) struct Lookups {
    pub(in crate::dpdk) open: unsafe extern "C" fn(*const Table, *mut *mut Routes) -> c_int,
    pub(in crate::dpdk) lookup: unsafe extern "C" fn(*const Routes, *const u8, u32, *mut u8),
    pub(in crate::dpdk) bursts:
        unsafe extern "C" fn(*const Routes, *const c_void, u32, u32, *mut c_void),
    pub(in crate::dpdk) close: unsafe extern "C" fn(*mut Routes),
}

#[repr(C)]
pub(in crate::dpdk) struct Item {
    pub(in crate::dpdk) src: *const u8,
    pub(in crate::dpdk) dst: *mut u8,
    pub(in crate::dpdk) len: u32,
    pub(in crate::dpdk) room: u32,
    pub(in crate::dpdk) written: u32,
}

/// `enum dpb_pieces_kind`.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::dpdk) enum PiecesKind {
    Gso,
    GsoDescriptors,
    Fragments,
    Reassembly,
}

#[repr(C)]
pub(in crate::dpdk) struct Packets {
    pub(in crate::dpdk) open:
        unsafe extern "C" fn(u32, u32, *mut Item, u32, *mut *mut Pieces) -> c_int,
    pub(in crate::dpdk) run: unsafe extern "C" fn(*mut Pieces),
    pub(in crate::dpdk) finish: unsafe extern "C" fn(*mut Pieces),
    pub(in crate::dpdk) close: unsafe extern "C" fn(*mut Pieces),
}

#[repr(C)]
pub(in crate::dpdk) struct Flows {
    pub(in crate::dpdk) open: unsafe extern "C" fn(u32, u32, *mut *mut FlowTable) -> c_int,
    pub(in crate::dpdk) hashes: unsafe extern "C" fn(*const FlowTable, *const u8, u32, *mut u32),
    pub(in crate::dpdk) add:
        unsafe extern "C" fn(*mut FlowTable, *const u8, *const u32, *const u32, u32, u32) -> u32,
    pub(in crate::dpdk) remove:
        unsafe extern "C" fn(*mut FlowTable, *const u8, *const u32, u32) -> u32,
    pub(in crate::dpdk) count:
        unsafe extern "C" fn(*mut FlowTable, *const u8, *mut u32, *const u32, u32, u32, u32) -> u32,
    pub(in crate::dpdk) pass:
        unsafe extern "C" fn(*mut FlowTable, *const u8, *mut u32, *const u32, u32, u32) -> u32,
    pub(in crate::dpdk) receive:
        unsafe extern "C" fn(*mut FlowTable, *const *const u8, *const u32, u32),
    pub(in crate::dpdk) work: unsafe extern "C" fn(*mut FlowTable, u32, u32) -> u32,
    pub(in crate::dpdk) packets: unsafe extern "C" fn(*const FlowTable, *const u8) -> u64,
    pub(in crate::dpdk) close: unsafe extern "C" fn(*mut FlowTable),
}

#[repr(C)]
pub(in crate::dpdk) struct Libraries {
    pub(in crate::dpdk) level: *const c_char,
    pub(in crate::dpdk) sums: *const Sums,
    pub(in crate::dpdk) lookups: *const Lookups,
    pub(in crate::dpdk) packets: *const Packets,
    pub(in crate::dpdk) flows: *const Flows,
}

// As the C compiler has them.
const _: () = assert!(size_of::<Batch>() == 24 && size_of::<Route>() == 24);
const _: () = assert!(size_of::<Table>() == 24 && size_of::<Item>() == 32);
