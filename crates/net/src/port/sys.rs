//! What of sockets, interfaces and mappings the standard library lacks: `socket(2)`, `packet(7)`, `netdevice(7)`, `sendmmsg(2)`, `recvmmsg(2)`, `poll(2)`.
#![allow(unsafe_code)]

use std::ffi::{CString, c_int, c_ulong, c_void};
use std::fs::File;
use std::io;
use std::mem::{MaybeUninit, zeroed};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::time::Duration;

/// Values of options: numbers and structures of numbers, of which all bytes are fine.
///
/// # Safety
/// Any bytes are a value, and none of a value's bytes is padding.
pub(super) unsafe trait Plain: Copy {}

// SAFETY: an integer.
unsafe impl Plain for c_int {}
// SAFETY: integers without gaps.
unsafe impl Plain for libc::tpacket_req3 {}
// SAFETY: integers without gaps.
unsafe impl Plain for libc::tpacket_stats_v3 {}
// SAFETY: integers and an array of them without gaps.
unsafe impl Plain for libc::packet_mreq {}
// SAFETY: integers without gaps.
unsafe impl Plain for libc::xdp_umem_reg_v1 {}
// SAFETY: integers without gaps.
unsafe impl Plain for libc::xdp_mmap_offsets {}
// SAFETY: integers without gaps.
unsafe impl Plain for libc::xdp_statistics {}
/// What the kernel says of a socket's memory (`SO_MEMINFO`).
type MemoryOfSocket = [u32; libc::SK_MEMINFO_DROPS as usize + 1];
// SAFETY: an array of integers.
unsafe impl Plain for MemoryOfSocket {}

/// `struct ifreq`: the name of an interface, and what is asked of it or said.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct InterfaceRequest {
    name: [u8; 16],
    /// A number at the start of a union.
    pub(super) number: c_int,
    rest: [u8; 20],
}

const _: () = assert!(size_of::<InterfaceRequest>() == 40 || size_of::<usize>() != 8);

impl InterfaceRequest {
    /// # Errors
    /// The name is empty, or longer than names of interfaces are.
    pub(super) fn new(interface: &str, number: c_int) -> io::Result<Self> {
        let mut name = [0; 16];
        if interface.is_empty() || interface.len() >= name.len() || interface.contains('\0') {
            let why = format!("`{interface}` is no name of an interface: 1 to 15 bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        name[..interface.len()].copy_from_slice(interface.as_bytes());
        let rest = [0; 20];
        Ok(Self { name, number, rest })
    }

    /// Flags, which are a short at the start of the union, as its number.
    pub(super) fn flags(flags: u16) -> c_int {
        let [a, b] = flags.to_ne_bytes();
        c_int::from_ne_bytes([a, b, 0, 0])
    }

    /// The name, which the kernel may have completed.
    pub(super) fn name(&self) -> String {
        let len = self.name.iter().position(|&byte| byte == 0);
        String::from_utf8_lossy(&self.name[..len.unwrap_or(self.name.len())]).into_owned()
    }

    /// Asks the kernel by one of `netdevice(7)`'s or `tun`'s requests, all of which take a `struct ifreq`.
    pub(super) fn ask(&mut self, file: BorrowedFd<'_>, request: c_ulong) -> io::Result<()> {
        // SAFETY: the caller's request takes a `struct ifreq`, which this is, and is as long.
        let result =
            unsafe { libc::ioctl(file.as_raw_fd(), request as _, std::ptr::from_mut(self)) };
        done(result).map(drop)
    }
}

/// The number of an interface in this thread's network namespace.
pub(super) fn interface_index(interface: &str) -> io::Result<c_int> {
    let name = CString::new(interface).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: a string with its zero.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => {
            let error = io::Error::last_os_error();
            let why = format!("{interface}: no such interface in this network namespace ({error})");
            Err(io::Error::new(error.kind(), why))
        }
        index => Ok(index as c_int),
    }
}

/// A socket by which to ask about interfaces of this thread's network namespace. Sockets of `AF_XDP` do not take such questions.
fn question() -> io::Result<OwnedFd> {
    socket(libc::AF_UNIX, libc::SOCK_DGRAM, 0)
}

/// Longest packet of IP on the interface. Asked of the kernel: `/sys` may show another namespace's interfaces.
pub(super) fn mtu(interface: &str) -> io::Result<usize> {
    let mut request = InterfaceRequest::new(interface, 0)?;
    request.ask(question()?.as_fd(), libc::SIOCGIFMTU as c_ulong)?;
    usize::try_from(request.number).map_err(io::Error::other)
}

/// The Ethernet address of an interface, asked of the kernel for the same reason.
pub(super) fn ethernet_address(interface: &str) -> io::Result<[u8; 6]> {
    let mut request = InterfaceRequest::new(interface, 0)?;
    request.ask(question()?.as_fd(), libc::SIOCGIFHWADDR as c_ulong)?;
    // A `struct sockaddr`: two bytes of kind, then the address.
    let [a, b, first, second] = request.number.to_ne_bytes();
    let [c, d, e, f, ..] = request.rest;
    match u16::from_ne_bytes([a, b]) {
        libc::ARPHRD_ETHER => Ok([first, second, c, d, e, f]),
        kind => {
            let why = format!("{interface} is no Ethernet interface (ARPHRD {kind})");
            Err(io::Error::new(io::ErrorKind::InvalidInput, why))
        }
    }
}

/// Brings an interface up.
pub(super) fn bring_up(interface: &str) -> io::Result<()> {
    let socket = question()?;
    let mut request = InterfaceRequest::new(interface, 0)?;
    request.ask(socket.as_fd(), libc::SIOCGIFFLAGS as c_ulong)?;
    request.number |= InterfaceRequest::flags(libc::IFF_UP as u16);
    request.ask(socket.as_fd(), libc::SIOCSIFFLAGS as c_ulong)
}

/// The counters of the interfaces of this thread's network namespace, whichever thread reads them later.
pub(super) fn interface_counters() -> io::Result<File> {
    File::open("/proc/thread-self/net/dev")
}

/// Packets that the kernel has dropped because an interface had no room to send them.
pub(super) fn dropped_when_sending(counters: &File, interface: &str) -> Option<u64> {
    let mut counts = Vec::new();
    let mut piece = [0; 4096];
    loop {
        match counters.read_at(&mut piece, counts.len() as u64).ok()? {
            0 => break,
            bytes => counts.extend_from_slice(&piece[..bytes]),
        }
    }
    let counts = String::from_utf8_lossy(&counts);
    let line = counts.lines().find_map(|line| {
        let (name, counts) = line.split_once(':')?;
        (name.trim() == interface).then_some(counts)
    })?;
    // Eight counts of what came; then bytes, packets, errors, drops.
    line.split_whitespace().nth(11)?.parse().ok()
}

/// A socket that does not wait.
pub(super) fn socket(family: c_int, kind: c_int, protocol: c_int) -> io::Result<OwnedFd> {
    let kind = kind | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: numbers only.
    let fd = done(unsafe { libc::socket(family, kind, protocol) })?;
    // SAFETY: new, and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Binds a packet socket to an interface.
pub(super) fn bind_packet(socket: BorrowedFd<'_>, index: c_int, protocol: u16) -> io::Result<()> {
    // SAFETY: a structure of numbers, of which zeros are a value.
    let mut address: libc::sockaddr_ll = unsafe { zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = index;
    // SAFETY: a `sockaddr_ll` is what sockets of this family are bound to.
    unsafe { bind(socket, &address) }
}

/// Binds a socket of `AF_XDP` to a queue of an interface.
pub(super) fn bind_xdp(
    socket: BorrowedFd<'_>,
    index: c_int,
    queue: u32,
    flags: u16,
) -> io::Result<()> {
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: flags,
        sxdp_ifindex: index as u32,
        sxdp_queue_id: queue,
        sxdp_shared_umem_fd: 0,
    };
    // SAFETY: a `sockaddr_xdp` is what sockets of this family are bound to.
    unsafe { bind(socket, &address) }
}

/// # Safety
/// `A` is a structure of addresses of the socket's family.
unsafe fn bind<A>(socket: BorrowedFd<'_>, address: &A) -> io::Result<()> {
    let len = size_of::<A>() as libc::socklen_t;
    // SAFETY: an address as long as said; the caller vouches for its type.
    let result = unsafe { libc::bind(socket.as_raw_fd(), std::ptr::from_ref(address).cast(), len) };
    done(result).map(drop)
}

/// Sets an option of a socket.
pub(super) fn set_option<T: Plain>(
    socket: BorrowedFd<'_>,
    level: c_int,
    option: c_int,
    value: T,
) -> io::Result<()> {
    let len = size_of::<T>() as libc::socklen_t;
    let address: *const c_void = std::ptr::from_ref(&value).cast();
    // SAFETY: as many initialised bytes as said; what they mean is the kernel's to check.
    done(unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, address, len) }).map(drop)
}

/// Reads an option of a socket. What the kernel leaves out, because it is older, is zero.
pub(super) fn option<T: Plain>(
    socket: BorrowedFd<'_>,
    level: c_int,
    option: c_int,
) -> io::Result<T> {
    let mut value = MaybeUninit::<T>::zeroed();
    let mut len = size_of::<T>() as libc::socklen_t;
    let address: *mut c_void = value.as_mut_ptr().cast();
    // SAFETY: room for as many bytes as said.
    done(unsafe { libc::getsockopt(socket.as_raw_fd(), level, option, address, &mut len) })?;
    // SAFETY: any bytes are a value (`Plain`), and all are initialised: zeros, or what the kernel has written.
    Ok(unsafe { value.assume_init() })
}

/// Most packets of one call of [`send`].
pub(super) const BURST: usize = 64;

/// Sends packets out of a bound socket, from the first; says how many went. There is no room for any: none.
pub(super) fn send<'a>(
    socket: BorrowedFd<'_>,
    packets: impl Iterator<Item = &'a [u8]>,
) -> io::Result<usize> {
    // SAFETY: structures of numbers and addresses, of which zeros are a value.
    let (mut vectors, mut messages): ([libc::iovec; BURST], [libc::mmsghdr; BURST]) =
        unsafe { (zeroed(), zeroed()) };
    let mut len = 0;
    for ((packet, vector), message) in packets.zip(&mut vectors).zip(&mut messages) {
        // Only read, in spite of its type.
        vector.iov_base = packet.as_ptr().cast_mut().cast();
        vector.iov_len = packet.len();
        message.msg_hdr.msg_iov = vector;
        message.msg_hdr.msg_iovlen = 1;
        len += 1;
    }
    if len == 0 {
        return Ok(0);
    }
    // SAFETY: as many messages, each with one vector over bytes that live through the call.
    let sent = unsafe {
        libc::sendmmsg(
            socket.as_raw_fd(),
            messages.as_mut_ptr(),
            len,
            libc::MSG_DONTWAIT as _,
        )
    };
    or_none(done(sent)).map(|sent| sent as usize)
}

/// Receives datagrams, one into each of `rooms`, as many as are there; says how many, and the length of each in `lens`: `None` for one that was longer than its
/// room, which is cut.
pub(super) fn receive<'a>(
    socket: BorrowedFd<'_>,
    rooms: impl Iterator<Item = &'a mut [u8]>,
    lens: &mut [Option<usize>; BURST],
) -> io::Result<usize> {
    // SAFETY: structures of numbers and addresses, of which zeros are a value.
    let (mut vectors, mut messages): ([libc::iovec; BURST], [libc::mmsghdr; BURST]) =
        unsafe { (zeroed(), zeroed()) };
    let mut len = 0;
    for ((room, vector), message) in rooms.zip(&mut vectors).zip(&mut messages) {
        vector.iov_base = room.as_mut_ptr().cast();
        vector.iov_len = room.len();
        message.msg_hdr.msg_iov = vector;
        message.msg_hdr.msg_iovlen = 1;
        len += 1;
    }
    if len == 0 {
        return Ok(0);
    }
    // SAFETY: as many messages, each with one vector over a room that is borrowed for longer than the call.
    let came = unsafe {
        libc::recvmmsg(
            socket.as_raw_fd(),
            messages.as_mut_ptr(),
            len,
            libc::MSG_DONTWAIT as _,
            std::ptr::null_mut(),
        )
    };
    let came = or_none(done(came))? as usize;
    for (message, len) in messages[..came].iter().zip(lens) {
        let is_cut = message.msg_hdr.msg_flags & libc::MSG_TRUNC != 0;
        *len = (!is_cut).then_some(message.msg_len as usize);
    }
    Ok(came)
}

/// Packets that the kernel has dropped because a socket had no room for them.
pub(super) fn dropped_by_socket(socket: BorrowedFd<'_>) -> Option<u32> {
    /// `asm-generic/socket.h`.
    const SO_MEMINFO: c_int = 55;
    let numbers = option::<MemoryOfSocket>(socket, libc::SOL_SOCKET, SO_MEMINFO);
    numbers
        .ok()
        .map(|numbers| numbers[libc::SK_MEMINFO_DROPS as usize])
}

/// Has the kernel look at the queue of packets to send. `Ok(false)` if it wants to be asked again, as when it has sent a part of them.
pub(super) fn kick(socket: BorrowedFd<'_>) -> io::Result<bool> {
    // SAFETY: nothing is read: no bytes, no address.
    let result = unsafe {
        libc::sendto(
            socket.as_raw_fd(),
            std::ptr::null(),
            0,
            libc::MSG_DONTWAIT,
            std::ptr::null(),
            0,
        )
    };
    match result {
        0.. => Ok(true),
        _ => match io::Error::last_os_error() {
            error if is_full(&error) => Ok(false),
            error => Err(error),
        },
    }
}

/// Waits until a file is readable, with `to_send` or writable, for no longer than `patience`. True if it is.
pub(super) fn poll(file: BorrowedFd<'_>, to_send: bool, patience: Duration) -> io::Result<bool> {
    let events = match to_send {
        true => libc::POLLIN | libc::POLLOUT,
        false => libc::POLLIN,
    };
    let mut asked = libc::pollfd {
        fd: file.as_raw_fd(),
        events,
        revents: 0,
    };
    // Up to the next millisecond: rounded down, a short patience would be none.
    let ms = patience.as_nanos().div_ceil(1_000_000);
    let ms = c_int::try_from(ms).unwrap_or(c_int::MAX);
    // SAFETY: one entry, as said.
    match done(unsafe { libc::poll(&mut asked, 1, ms) }) {
        Ok(ready) => Ok(ready > 0),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(false),
        Err(error) => Err(error),
    }
}

/// The result of a call, or the reason why it failed.
pub(super) fn done(result: c_int) -> io::Result<c_int> {
    match result {
        0.. => Ok(result),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Nothing instead of an error that says that there is no room now.
fn or_none(result: io::Result<c_int>) -> io::Result<c_int> {
    match result {
        Err(error) if is_full(&error) => Ok(0),
        result => result,
    }
}

/// True if the error says that nothing can be done now, and something may later.
pub(super) fn is_full(error: &io::Error) -> bool {
    let later = [libc::EAGAIN, libc::EINTR, libc::ENOBUFS];
    error
        .raw_os_error()
        .is_some_and(|error| later.contains(&error))
}
