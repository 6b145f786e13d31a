//! Packets that DPDK's libraries cut and put together.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::ptr::NonNull;

use dpb_core::{Batch, Buf, Unsupported};

use super::libraries::Libraries;
use crate::dpdk::sys::libraries as sys;

/// The work on packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::dpdk) enum Work {
    /// Whole segments of at most this payload in bytes.
    Segments(u16),
    /// Such segments as descriptors.
    Descriptors(u16),
    /// Fragments of at most this length in bytes.
    Fragments(u16),
    /// Datagrams.
    Datagrams,
}

/// Packets in mbufs, set up for one batch that can be run again and again. Of the thread that made it.
pub(in crate::dpdk) struct Pieces<'a> {
    libraries: Libraries,
    pieces: NonNull<sys::Pieces>,
    /// A box's.
    items: NonNull<[sys::Item]>,
    dst: Buf,
    input: PhantomData<&'a [u8]>,
}

impl<'a> Pieces<'a> {
    /// Sets up the packets of `batch` for `work`, with slots of `slot` bytes.
    ///
    /// # Errors
    /// A packet is of another kind than the library works on, a slot is too short, or there is no memory.
    pub(in crate::dpdk) fn new(
        libraries: Libraries,
        work: Work,
        batch: Batch<'a>,
        slot: usize,
    ) -> Result<Self, Unsupported> {
        let unsupported = |reason| Unsupported { reason };
        for i in 0..batch.len() {
            let item = batch.item(i);
            check(work, item, batch.item(0), slot)
                .map_err(|what| unsupported(format!("item {i}: {what}")))?;
        }
        let no_memory = || unsupported(format!("no memory for {} packets", batch.len()));
        let (kind, bytes) = match work {
            Work::Segments(mss) => (sys::PiecesKind::Gso, mss),
            Work::Descriptors(mss) => (sys::PiecesKind::GsoDescriptors, mss),
            Work::Fragments(mtu) => (sys::PiecesKind::Fragments, mtu),
            Work::Datagrams => (sys::PiecesKind::Reassembly, 0),
        };
        let mut dst = Buf::zeroed(slot * batch.len()).ok_or_else(no_memory)?;
        let place = dst.as_mut_ptr();
        let item = |i: usize| sys::Item {
            src: batch.item(i).as_ptr(),
            dst: place.wrapping_add(i * slot),
            len: batch.item(i).len() as u32,
            room: u32::try_from(slot).unwrap_or(u32::MAX),
            written: 0,
        };
        let items: Box<[sys::Item]> = (0..batch.len()).map(item).collect();
        let items = NonNull::from(Box::leak(items));
        let mut opened = std::ptr::null_mut();
        let control = libraries.eal().control();
        // SAFETY: EAL runs, and no other thread changes what DPDK keeps; items stay until `drop`, the batch as long as its
        // lifetime, which is longer, `dst` as long as `self`; `check` has seen that the packets are of the kind that is
        // taken, and that what is cut from them fits; what is put together is left out where it does not.
        let result = unsafe {
            let (first, count) = (items.as_ptr().cast(), items.len() as u32);
            (libraries.packets().open)(kind as u32, u32::from(bytes), first, count, &mut opened)
        };
        drop(control);
        match NonNull::new(opened) {
            Some(pieces) if result == 0 => Ok(Self {
                libraries,
                pieces,
                items,
                dst,
                input: PhantomData,
            }),
            _ => {
                // SAFETY: leaked above, and nobody has it.
                drop(unsafe { Box::from_raw(items.as_ptr()) });
                let (count, why) = (batch.len(), libraries.eal().error(result));
                Err(unsupported(format!("{count} packets: {why}")))
            }
        }
    }

    /// Does the batch once.
    pub(in crate::dpdk) fn run(&mut self) {
        // SAFETY: opened by this thread, as the type is not `Send`.
        unsafe { (self.libraries.packets().run)(self.pieces.as_ptr()) }
    }

    /// Overwrites all slots.
    pub(in crate::dpdk) fn fill(&mut self, byte: u8) {
        self.dst.fill(byte);
    }

    /// The outcome of each item in the last run.
    pub(in crate::dpdk) fn outputs(&mut self) -> Vec<&[u8]> {
        // SAFETY: as in `run`.
        unsafe { (self.libraries.packets().finish)(self.pieces.as_ptr()) }
        // SAFETY: a box's, which C writes to only in `run` and `finish`.
        let items = unsafe { self.items.as_ref() };
        let slot = self.dst.len() / items.len().max(1);
        let output =
            |(i, item): (usize, &sys::Item)| &self.dst[i * slot..][..item.written as usize];
        items.iter().enumerate().map(output).collect()
    }
}

impl Drop for Pieces<'_> {
    fn drop(&mut self) {
        let _control = self.libraries.eal().control();
        // SAFETY: opened by this thread and closed nowhere else; then nobody has the items any more.
        unsafe {
            (self.libraries.packets().close)(self.pieces.as_ptr());
            drop(Box::from_raw(self.items.as_ptr()));
        }
    }
}

/// Bytes of an IPv4 header without options, and the least of TCP.
const IPV4_BYTES: usize = 20;
const TCP_BYTES_MIN: usize = 20;
/// Least bytes of a segment that `rte_gso` cuts (`RTE_GSO_SEG_SIZE_MIN`), but the last.
const SEGMENT_BYTES_MIN: usize = 55;
/// Most pieces of one packet.
const PIECES_MAX: usize = 2048;

/// Whether `shim.h` lets `item` be given to the library, beside `first`, and its slot has the room.
fn check(work: Work, item: &[u8], first: &[u8], slot: usize) -> Result<(), &'static str> {
    const SHORT_SLOT: &str = "its slot is too short";
    let whole = || {
        let is_whole = ipv4_bytes(item) == Some(item.len()) && item.len() <= sys::WHOLE_MAX;
        is_whole
            .then_some(())
            .ok_or("no IPv4 packet without options whose length agrees, or too long a one")
    };
    let field = || u16::from_be_bytes([item[6], item[7]]);
    let needed = match work {
        Work::Segments(mss) | Work::Descriptors(mss) => {
            whole()?;
            let headers = headers_bytes(item).ok_or("no TCP behind its IP header")?;
            if field() & 0x3fff != 0 || headers_bytes(first) != Some(headers) {
                return Err("a fragment, or of another TCP header's length than the others");
            }
            let (mss, payload) = (usize::from(mss), item.len() - headers);
            let count = payload.div_ceil(mss.max(1));
            if !(SEGMENT_BYTES_MIN..=usize::from(u16::MAX)).contains(&(headers + mss))
                || !(2..=PIECES_MAX).contains(&count)
            {
                return Err("not of two segments or more, of too many, or of too short ones");
            }
            match work {
                Work::Segments(_) => payload + count * headers,
                _ => count * (8 + headers).next_multiple_of(64),
            }
        }
        Work::Fragments(mtu) => {
            whole()?;
            let mtu = usize::from(mtu);
            if !(68..=sys::PIECE_MAX).contains(&mtu) || field() & 0x4000 != 0 {
                return Err("not to be fragmented, or to an MTU that is not from 68 to 2048");
            }
            let room = (mtu - IPV4_BYTES) & !7;
            item.len() + (item.len() - IPV4_BYTES).div_ceil(room) * IPV4_BYTES
        }
        Work::Datagrams => {
            let mut rest = item;
            while !rest.is_empty() {
                let len = ipv4_bytes(rest)
                    .ok_or("not IPv4 packets without options, one behind the other")?;
                rest = &rest[len..];
            }
            item.len()
        }
    };
    (slot >= needed).then_some(()).ok_or(SHORT_SLOT)
}

/// The length that the packet at the start of `bytes` says, if it is of IPv4 without options and lies inside.
fn ipv4_bytes(bytes: &[u8]) -> Option<usize> {
    let header = bytes.first_chunk::<IPV4_BYTES>()?;
    let len = usize::from(u16::from_be_bytes([header[2], header[3]]));
    (header[0] == 0x45 && (IPV4_BYTES..=bytes.len()).contains(&len)).then_some(len)
}

/// Bytes of the IPv4 header without options and the TCP header of a packet.
fn headers_bytes(packet: &[u8]) -> Option<usize> {
    const TCP: u8 = 6;
    let tcp = packet.get(IPV4_BYTES..)?;
    let len = usize::from(tcp.get(12)? >> 4) * 4;
    (packet[9] == TCP && (TCP_BYTES_MIN..=tcp.len()).contains(&len)).then_some(IPV4_BYTES + len)
}
