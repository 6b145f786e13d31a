//! The ring by which a packet socket hands packets over (`PACKET_RX_RING`, version 3 of its layout): blocks in shared memory, each with the packets of
//! a while. The kernel's Documentation/networking/packet_mmap.rst has the layout.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::super::mapping::Mapping;
use super::super::sys;

/// Length of `struct virtio_net_hdr`, which `PACKET_VNET_HDR` puts in front of a packet.
const OFFLOAD_BYTES: usize = 10;
/// Its first byte has this bit where the checksum is not computed yet.
const NEEDS_CHECKSUM: u8 = 1;
/// The place of `struct sockaddr_ll` behind the header of a packet.
const ADDRESS_AT: usize = size_of::<libc::tpacket3_hdr>().next_multiple_of(16);
/// Room in a block besides the bytes of a packet: the block's header, the packet's, its address and what is in front of its bytes.
const PACKET_ROOM: usize = 256;

/// The blocks of a socket, read one after another.
#[derive(Debug)]
pub(super) struct Ring {
    mapping: Mapping,
    block_bytes: usize,
    blocks: usize,
    /// The block that is read next, or is being read.
    block: usize,
    /// Packets that are left in it.
    left: u32,
    /// The place of the next of them, from the start of the block.
    next_at: usize,
    /// The place of the packet that was read last.
    last_at: usize,
    /// True if the block is ours.
    is_ours: bool,
}

/// A packet in the ring.
#[derive(Debug)]
pub(super) struct Packet<'a> {
    /// Its bytes, as far as there was room for them.
    pub(super) bytes: &'a [u8],
    /// Bytes that it had.
    pub(super) len: usize,
    /// The tag of a virtual network, which the kernel has taken out behind the addresses, as it was there.
    pub(super) tag: Option<[u8; 4]>,
    /// The checksum that is not computed yet: the place from which it sums, and its own place behind that one.
    pub(super) checksum: Option<(usize, usize)>,
    /// True if this machine has sent it.
    pub(super) is_outgoing: bool,
    /// Nanoseconds since 1970.
    pub(super) time_ns: u64,
}

impl Ring {
    /// Makes the ring of a packet socket: `blocks` of `block_bytes`, each handed over when it is full or was open for `block_time`.
    ///
    /// # Errors
    /// The kernel has no memory for it, or it is of no length that there is.
    pub(super) fn new(
        socket: BorrowedFd<'_>,
        blocks: u32,
        block_bytes: u32,
        block_time: Duration,
    ) -> io::Result<Self> {
        let set = |option, value| sys::set_option(socket, libc::SOL_PACKET, option, value);
        set(
            libc::PACKET_VERSION,
            libc::tpacket_versions::TPACKET_V3 as i32,
        )?;
        set(libc::PACKET_VNET_HDR, 1)?;
        // The layout has no frames of a length; the kernel wants to be told one all the same.
        let frame_bytes = 2048;
        let request = libc::tpacket_req3 {
            tp_block_size: block_bytes,
            tp_block_nr: blocks,
            tp_frame_size: frame_bytes,
            tp_frame_nr: block_bytes / frame_bytes * blocks,
            tp_retire_blk_tov: u32::try_from(block_time.as_millis())
                .unwrap_or(u32::MAX)
                .max(1),
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        sys::set_option(socket, libc::SOL_PACKET, libc::PACKET_RX_RING, request)?;
        let (blocks, block_bytes) = (blocks as usize, block_bytes as usize);
        Ok(Self {
            mapping: Mapping::of_file(socket, blocks * block_bytes, 0)?,
            block_bytes,
            blocks,
            block: 0,
            left: 0,
            next_at: 0,
            last_at: 0,
            is_ours: false,
        })
    }

    /// The shortest block that holds a packet of this length, in bytes: a power of two of pages.
    pub(super) fn block_bytes_for(packet_bytes: usize) -> usize {
        (packet_bytes + PACKET_ROOM).next_power_of_two().max(4096)
    }

    /// The next packet, if the kernel has handed one over. It stays where it is until the next call.
    pub(super) fn next(&mut self) -> Option<Packet<'_>> {
        // A block may be empty, handed over because its time was up; others may be behind it.
        for _ in 0..self.blocks {
            if self.left > 0 {
                break;
            }
            self.give_back();
            if !self.take_block() {
                return None;
            }
        }
        self.left = self.left.checked_sub(1)?;
        let at = self.next_at;
        self.last_at = at;
        // Inside the block, or there is nothing that could be read.
        let block_bytes = self.block_bytes;
        let is_inside =
            move |at: usize, len: usize| at.checked_add(len).is_some_and(|end| end <= block_bytes);
        if !is_inside(at, ADDRESS_AT + size_of::<libc::sockaddr_ll>()) {
            self.left = 0;
            return None;
        }
        // SAFETY: inside the block, which is ours, so that the kernel does not write to it; any bytes are a value of this type.
        let header: libc::tpacket3_hdr = unsafe { self.address(at).cast().read_unaligned() };
        // SAFETY: as above.
        let address: libc::sockaddr_ll =
            unsafe { self.address(at + ADDRESS_AT).cast().read_unaligned() };
        self.next_at = at.saturating_add(header.tp_next_offset as usize);
        let bytes_at = at.saturating_add(usize::from(header.tp_mac));
        let bytes_len = header.tp_snaplen as usize;
        let offload_at = bytes_at.checked_sub(OFFLOAD_BYTES);
        let (Some(offload_at), true) = (offload_at, is_inside(bytes_at, bytes_len)) else {
            self.left = 0;
            return None;
        };
        // SAFETY: inside the block, which is ours until `give_back`, for which nobody may have this packet any more.
        let with_offload = unsafe {
            let len = OFFLOAD_BYTES + bytes_len;
            std::slice::from_raw_parts(self.address(offload_at).as_ptr().cast_const(), len)
        };
        let (offload, bytes) = with_offload.split_at(OFFLOAD_BYTES);
        Some(Packet {
            bytes,
            len: header.tp_len as usize,
            tag: tag(&header),
            checksum: checksum(offload),
            is_outgoing: address.sll_pkttype == libc::PACKET_OUTGOING,
            time_ns: u64::from(header.tp_sec) * 1_000_000_000 + u64::from(header.tp_nsec),
        })
    }

    /// Has the packet that was just read come again with the next call of [`Ring::next`].
    pub(super) fn unread(&mut self) {
        self.left += 1;
        self.next_at = self.last_at;
    }

    /// Gives the block back whose packets were all read, so that the kernel can fill it.
    pub(super) fn give_back(&mut self) {
        if self.is_ours && self.left == 0 {
            // Release: what was read here was read before the kernel writes there.
            self.status()
                .store(libc::TP_STATUS_KERNEL, Ordering::Release);
            self.is_ours = false;
            self.block = (self.block + 1) % self.blocks;
        }
    }

    /// Begins the next block, if the kernel has handed it over.
    fn take_block(&mut self) -> bool {
        // Acquire: what the kernel has written before is seen.
        if self.status().load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
            return false;
        }
        // SAFETY: the start of the block, which is ours now; any bytes are a value of this type, whose union has one member.
        let block = unsafe {
            let start: NonNull<libc::tpacket_block_desc> = self.address(0).cast();
            start.read_unaligned().hdr.bh1
        };
        self.is_ours = true;
        self.left = block.num_pkts;
        self.next_at = block.offset_to_first_pkt as usize;
        true
    }

    /// The word by which the block goes from one to the other.
    fn status(&self) -> &AtomicU32 {
        let at = std::mem::offset_of!(libc::tpacket_block_desc, hdr)
            + std::mem::offset_of!(libc::tpacket_hdr_v1, block_status);
        // SAFETY: a word inside the block, at the start of a page but for two words; the kernel and we write it as one word.
        unsafe { self.address(at).cast::<AtomicU32>().as_ref() }
    }

    /// The address `at` bytes behind the start of the block.
    fn address(&self, at: usize) -> NonNull<u8> {
        assert!(at < self.block_bytes && self.block < self.blocks);
        // SAFETY: inside the block, and so inside the mapping.
        unsafe { self.mapping.start().add(self.block * self.block_bytes + at) }
    }
}

fn tag(header: &libc::tpacket3_hdr) -> Option<[u8; 4]> {
    if header.tp_status & libc::TP_STATUS_VLAN_VALID == 0 {
        return None;
    }
    let kind = match header.tp_status & libc::TP_STATUS_VLAN_TPID_VALID {
        0 => libc::ETH_P_8021Q as u16,
        _ => header.hv1.tp_vlan_tpid,
    };
    let ([a, b], [c, d]) = (
        kind.to_be_bytes(),
        (header.hv1.tp_vlan_tci as u16).to_be_bytes(),
    );
    Some([a, b, c, d])
}

/// The checksum that a `struct virtio_net_hdr` says is not computed: flags, kind and two lengths of a packet in parts, then two places, in the
/// machine's byte order.
fn checksum(offload: &[u8]) -> Option<(usize, usize)> {
    let &[flags, _, _, _, _, _, a, b, c, d] = offload else {
        return None;
    };
    let place = |bytes| usize::from(u16::from_ne_bytes(bytes));
    (flags & NEEDS_CHECKSUM != 0).then(|| (place([a, b]), place([c, d])))
}
