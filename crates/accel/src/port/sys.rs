//! Raw sockets: what of `socket(2)`, `bind(2)`, `packet(7)`, `sendmmsg(2)` and `recvmmsg(2)` the standard library
//! lacks.
#![allow(unsafe_code)]

use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

const AF_PACKET: c_int = 17;
const SOCK_RAW: c_int = 3;
const SOCK_NONBLOCK: c_int = 0o4000;
const SOCK_CLOEXEC: c_int = 0o2_000_000;
const ETH_P_ALL: u16 = 3;
const SOL_PACKET: c_int = 263;
const PACKET_AUXDATA: c_int = 8;
const PACKET_IGNORE_OUTGOING: c_int = 23;
const TP_STATUS_VLAN_VALID: u32 = 1 << 4;
const TP_STATUS_VLAN_TPID_VALID: u32 = 1 << 6;
const ETH_P_8021Q: u16 = 0x8100;
const MSG_DONTWAIT: c_int = 0x40;
/// A flag of a packet socket: it says how long a packet was, not how much of it there was room for.
const MSG_TRUNC: c_int = 0x20;

/// `struct sockaddr_ll`.
#[repr(C)]
#[derive(Default)]
struct LinkAddress {
    family: u16,
    /// The protocol, in network order.
    protocol: u16,
    interface: c_int,
    hardware: u16,
    packet_type: u8,
    address_len: u8,
    address: [u8; 8],
}

/// `struct iovec`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Vector {
    base: *mut c_void,
    len: usize,
}

/// `struct msghdr`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Header {
    name: *mut c_void,
    name_len: c_uint,
    vectors: *mut Vector,
    vectors_len: usize,
    control: *mut c_void,
    control_len: usize,
    flags: c_int,
}

/// `struct mmsghdr`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Message {
    header: Header,
    /// Bytes that came or went.
    len: c_uint,
}

/// `struct cmsghdr`, and behind it `struct tpacket_auxdata`: what the kernel knows of a packet that is not in its bytes.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Control {
    len: usize,
    level: c_int,
    kind: c_int,
    status: u32,
    packet_len: u32,
    snap_len: u32,
    mac: u16,
    net: u16,
    vlan_tci: u16,
    vlan_tpid: u16,
    /// Messages end where a long may begin.
    end: u32,
}

const _: () = assert!(size_of::<LinkAddress>() == 20);
#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<Message>() == 64 && size_of::<Vector>() == 16);
#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<Control>() == 40);

/// A packet that has come.
pub(super) struct Received {
    /// Bytes of the packet, of which there may have been room for fewer.
    pub(super) len: usize,
    /// The tag of a virtual network, which the kernel has taken out behind the addresses, as it was there.
    pub(super) tag: Option<[u8; 4]>,
}

impl Control {
    fn tag(&self) -> Option<[u8; 4]> {
        let is_ours = self.level == SOL_PACKET && self.kind == PACKET_AUXDATA;
        if !is_ours || self.status & TP_STATUS_VLAN_VALID == 0 {
            return None;
        }
        let tpid = match self.status & TP_STATUS_VLAN_TPID_VALID {
            0 => ETH_P_8021Q,
            _ => self.vlan_tpid,
        };
        let [[a, b], [c, d]] = [tpid.to_be_bytes(), self.vlan_tci.to_be_bytes()];
        Some([a, b, c, d])
    }
}

unsafe extern "C" {
    fn socket(family: c_int, kind: c_int, protocol: c_int) -> c_int;
    fn bind(socket: c_int, address: *const LinkAddress, len: c_uint) -> c_int;
    fn setsockopt(
        socket: c_int,
        level: c_int,
        option: c_int,
        value: *const c_int,
        len: c_uint,
    ) -> c_int;
    fn if_nametoindex(name: *const c_char) -> c_uint;
    fn sendmmsg(socket: c_int, messages: *mut Message, len: c_uint, flags: c_int) -> c_int;
    fn recvmmsg(
        socket: c_int,
        messages: *mut Message,
        len: c_uint,
        flags: c_int,
        timeout: *mut c_void,
    ) -> c_int;
}

/// Most packets of one call.
pub(super) const BURST: usize = 32;

/// A raw socket on an interface, which gets what comes in there, and not what this machine sends.
pub(super) fn open(interface: &str) -> io::Result<OwnedFd> {
    let name = CString::new(interface).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: a string with its zero.
    let index = unsafe { if_nametoindex(name.as_ptr()) };
    if index == 0 {
        return Err(io::Error::last_os_error());
    }
    let kind = SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC;
    // Of protocol 0, so that nothing comes before it is bound.
    // SAFETY: numbers only.
    let fd = unsafe { socket(AF_PACKET, kind, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: new, and nobody else's.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    let yes: c_int = 1;
    let address = LinkAddress {
        family: AF_PACKET as u16,
        protocol: ETH_P_ALL.to_be(),
        interface: index as c_int,
        ..LinkAddress::default()
    };
    let set = |option| {
        // SAFETY: an int and its length.
        let set = unsafe { setsockopt(fd, SOL_PACKET, option, &yes, size_of::<c_int>() as c_uint) };
        set == 0
    };
    let is_bound = set(PACKET_IGNORE_OUTGOING)
        && set(PACKET_AUXDATA)
        // SAFETY: the address and its length, of the socket's family.
        && unsafe { bind(fd, &address, size_of::<LinkAddress>() as c_uint) == 0 };
    is_bound
        .then_some(socket)
        .ok_or_else(io::Error::last_os_error)
}

/// Receives packets into equal parts of `room`; says what came. None came: none is said.
pub(super) fn receive(
    socket: &OwnedFd,
    room: &mut [u8],
    part: usize,
    max: usize,
) -> io::Result<Vec<Received>> {
    let parts = room.chunks_exact_mut(part).take(max.min(BURST));
    let mut vectors: Vec<Vector> = parts
        .map(|part| Vector {
            base: part.as_mut_ptr().cast(),
            len: part.len(),
        })
        .collect();
    let mut messages: Vec<Message> = vectors.iter_mut().map(message).collect();
    let mut controls = vec![Control::default(); messages.len()];
    for (message, control) in messages.iter_mut().zip(&mut controls) {
        message.header.control = std::ptr::from_mut(control).cast();
        message.header.control_len = size_of::<Control>();
    }
    let len = messages.len() as c_uint;
    // SAFETY: as many messages, each with one vector over a part of `room` and one control that no other has.
    let came = unsafe {
        recvmmsg(
            socket.as_raw_fd(),
            messages.as_mut_ptr(),
            len,
            MSG_DONTWAIT | MSG_TRUNC,
            std::ptr::null_mut(),
        )
    };
    let came = count(came)?;
    let received = |(message, control): (&Message, &Control)| Received {
        len: message.len as usize,
        tag: control.tag(),
    };
    let came = messages[..came].iter().zip(&controls);
    Ok(came.map(received).collect())
}

/// Sends packets, from the first; says how many went.
pub(super) fn send<'a>(
    socket: &OwnedFd,
    packets: impl Iterator<Item = &'a [u8]>,
) -> io::Result<usize> {
    let mut vectors: Vec<Vector> = packets
        .take(BURST)
        .map(|packet| Vector {
            // Only read, in spite of its type.
            base: packet.as_ptr().cast_mut().cast(),
            len: packet.len(),
        })
        .collect();
    let mut messages: Vec<Message> = vectors.iter_mut().map(message).collect();
    let len = messages.len() as c_uint;
    // SAFETY: as many messages, each with one vector over bytes that live through the call.
    count(unsafe { sendmmsg(socket.as_raw_fd(), messages.as_mut_ptr(), len, MSG_DONTWAIT) })
}

fn message(vector: &mut Vector) -> Message {
    Message {
        header: Header {
            name: std::ptr::null_mut(),
            name_len: 0,
            vectors: vector,
            vectors_len: 1,
            control: std::ptr::null_mut(),
            control_len: 0,
            flags: 0,
        },
        len: 0,
    }
}

/// The result of a call; `None` where it would have to wait.
fn count(result: c_int) -> io::Result<usize> {
    if let Ok(count) = usize::try_from(result) {
        return Ok(count);
    }
    let error = io::Error::last_os_error();
    let waits = [io::ErrorKind::WouldBlock, io::ErrorKind::Interrupted];
    // ENOBUFS: the interface's own queue is full.
    match waits.contains(&error.kind()) || error.raw_os_error() == Some(105) {
        true => Ok(0),
        false => Err(error),
    }
}
