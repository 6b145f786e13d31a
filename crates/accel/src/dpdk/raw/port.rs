//! Network devices, and packets in mbufs.

use std::collections::VecDeque;
use std::ffi::c_void;
use std::io;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

use dpb_core::port::{Losses, PortStats, too_long};
use dpb_core::{Buf, PacketPort, Region, SetupError, Unsupported};

use super::Eal;
use crate::dpdk::sys::{BURST, PortLosses};

/// Packets that a port has mbufs for.
const PACKETS: u32 = 4096;
/// Longest packet, in bytes: an Ethernet frame of the usual kind, and what DPDK's drivers want a buffer to hold.
const PACKET_BYTES_MAX: usize = 2048;

/// The ports that are open: each is one thread's at a time.
static OPEN: Mutex<Vec<u32>> = Mutex::new(Vec::new());

/// A network device with one queue each way. Stopped when it is dropped.
pub(in crate::dpdk) struct Port {
    eal: &'static Eal,
    name: String,
    id: u32,
    packets: Arc<Packets>,
    stats: PortStats,
    /// What the device had lost before this port was opened.
    lost_before: PortLosses,
}

/// Packets in mbufs. Their pools are never freed, so they may outlive their port.
struct Packets {
    eal: &'static Eal,
}

impl Region for Packets {
    unsafe fn release(&self, ptr: NonNull<u8>, _len: usize) {
        // SAFETY: the caller vouches that this is an allocation of ours; ours are packets that `take` or `receive` gave us.
        unsafe { (self.eal.table().packet_give)(ptr.as_ptr().cast()) }
    }
}

impl Port {
    /// The names of all that there are, with their drivers.
    pub(in crate::dpdk) fn names(eal: &Eal) -> Vec<(String, String)> {
        let ports = eal.devices(eal.table().ports);
        ports
            .iter()
            .map(|port| (port.name(), port.driver()))
            .collect()
    }

    /// Starts the device of this name.
    ///
    /// # Errors
    /// There is none, it is open already, or it does not start.
    pub(in crate::dpdk) fn open(eal: &'static Eal, name: &str) -> Result<Self, Unsupported> {
        let unsupported = |reason| Unsupported { reason };
        let ports = eal.devices(eal.table().ports);
        let found = ports.iter().find(|port| port.name() == name);
        let id = found
            .ok_or_else(|| unsupported(format!("no network device `{name}`")))?
            .id;
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        if open.contains(&id) {
            return Err(unsupported(format!("{name} is open already")));
        }
        let control = eal.control();
        // SAFETY: a device that there is and that nobody uses; EAL runs, and no other thread changes devices.
        let result = unsafe { (eal.table().port_start)(id, PACKETS, PACKET_BYTES_MAX as u32) };
        drop(control);
        if result != 0 {
            let error = eal.shim.error(result);
            return Err(unsupported(format!("{name} does not start: {error}")));
        }
        open.push(id);
        let mut port = Self {
            eal,
            name: name.to_owned(),
            id,
            packets: Arc::new(Packets { eal }),
            stats: PortStats::default(),
            lost_before: PortLosses::default(),
        };
        port.lost_before = port.losses();
        Ok(port)
    }

    /// What the device has lost of what came. A device that does not count says zero.
    fn losses(&self) -> PortLosses {
        let mut losses = PortLosses::default();
        // SAFETY: a port that was started, and room for its counts.
        unsafe { (self.eal.table().port_losses)(self.id, &mut losses) };
        losses
    }

    /// A buffer over a packet.
    ///
    /// # Safety
    /// The shim gave it to us, `len` bytes of it are initialised, and nobody else has it.
    unsafe fn buf(&self, packet: *mut c_void, len: usize) -> Buf {
        let ptr = NonNull::new(packet.cast()).expect("packets have addresses");
        let home: Arc<dyn Region> = self.packets.clone();
        // SAFETY: as the caller vouches; `release` gives it back.
        unsafe { Buf::from_raw_parts(ptr, len, home) }
    }

    /// An mbuf with room for any packet, if there is one left.
    fn take(&self) -> Option<*mut c_void> {
        let mut packet = std::ptr::null_mut();
        // SAFETY: a port that was started, and room for one.
        let taken = unsafe { (self.eal.table().port_take)(self.id, &mut packet, 1) };
        (taken == 1).then_some(packet)
    }

    /// True if a packet is in an mbuf.
    fn is_ours(packet: &Buf) -> bool {
        packet.region().downcast_ref::<Packets>().is_some()
    }

    /// The packet in an mbuf: itself if it is, else a copy, if there is an mbuf left.
    fn in_mbuf(&mut self, packet: Buf) -> Result<Buf, Buf> {
        if Self::is_ours(&packet) {
            return Ok(packet);
        }
        match self.alloc(packet.len()) {
            Ok(mut copy) => {
                copy.copy_from_slice(&packet);
                Ok(copy)
            }
            Err(_) => Err(packet),
        }
    }
}

impl PacketPort for Port {
    fn name(&self) -> &str {
        &self.name
    }

    fn packet_bytes_max(&self) -> usize {
        PACKET_BYTES_MAX
    }

    fn alloc(&mut self, len: usize) -> Result<Buf, SetupError> {
        let fits = (len <= PACKET_BYTES_MAX).then(|| self.take()).flatten();
        let packet = fits.ok_or(SetupError::OutOfMemory { len })?;
        // SAFETY: the shim gave it to us, with room for `PACKET_BYTES_MAX` bytes, of which these are written here.
        Ok(unsafe {
            packet.cast::<u8>().write_bytes(0, len);
            self.buf(packet, len)
        })
    }

    fn receive(&mut self, packets: &mut Vec<Buf>, max: usize) -> io::Result<usize> {
        let mut came = [std::ptr::null_mut(); BURST];
        let mut lens = [0; BURST];
        let max = max.min(BURST) as u32;
        // SAFETY: a port that was started, which is ours alone; room for so many.
        let count = unsafe {
            (self.eal.table().port_receive)(self.id, came.as_mut_ptr(), lens.as_mut_ptr(), max)
        };
        let came = came.iter().zip(lens).take(count as usize);
        for &len in &lens[..count as usize] {
            self.stats.delivered.add(len as usize);
        }
        // SAFETY: the shim gave these to us; the device wrote them.
        packets.extend(came.map(|(&packet, len)| unsafe { self.buf(packet, len as usize) }));
        Ok(count as usize)
    }

    fn send(&mut self, packets: &mut VecDeque<Buf>) -> io::Result<usize> {
        let (mut parts, mut lens) = (Vec::with_capacity(BURST), Vec::with_capacity(BURST));
        while parts.len() < BURST
            && let Some(packet) = packets.pop_front()
        {
            let len = packet.len();
            let is_long = len > PACKET_BYTES_MAX;
            match if is_long {
                Err(packet)
            } else {
                self.in_mbuf(packet)
            } {
                Ok(packet) => {
                    parts.push(packet.into_raw_parts());
                    lens.push(len as u32);
                }
                Err(packet) => {
                    packets.push_front(packet);
                    if is_long && parts.is_empty() {
                        self.stats.refused.too_long += 1;
                        return Err(too_long(len, PACKET_BYTES_MAX));
                    }
                    if !is_long {
                        self.stats.refused.no_memory += 1;
                    }
                    break;
                }
            }
        }
        let pointers: Vec<*mut c_void> = parts.iter().map(|part| part.0.as_ptr().cast()).collect();
        // SAFETY: packets that the shim gave us and nobody else has, as long as said; the port was started and is ours
        // alone.
        let sent = unsafe {
            let send = self.eal.table().port_send;
            send(self.id, pointers.as_ptr(), lens.as_ptr(), lens.len() as u32)
        } as usize;
        for &len in &lens[..sent] {
            self.stats.taken.add(len as usize);
        }
        self.stats.refused.queue_full += (lens.len() - sent) as u64;
        for (ptr, len, home) in parts.drain(sent..).rev() {
            // SAFETY: the parts of a buffer that the device did not take.
            packets.push_front(unsafe { Buf::from_raw_parts(ptr, len, home) });
        }
        Ok(sent)
    }

    /// What the device was given counts as sent: drivers do not agree whether an error of theirs is a packet that they took.
    fn stats(&mut self) -> PortStats {
        let (now, before) = (self.losses(), self.lost_before);
        let mut lost = Losses::default();
        lost.queue_full = now.queue_full.saturating_sub(before.queue_full);
        lost.no_memory = now.no_memory.saturating_sub(before.no_memory);
        lost.too_long = now.too_long.saturating_sub(before.too_long);
        lost.kernel = now.errors.saturating_sub(before.errors);
        let mut stats = self.stats;
        (stats.sent, stats.receive_lost) = (stats.taken, lost);
        stats
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        let control = self.eal.control();
        // SAFETY: a port that was started, and that nobody uses any more.
        unsafe { (self.eal.table().port_stop)(self.id) };
        drop(control);
        open.retain(|&id| id != self.id);
    }
}
