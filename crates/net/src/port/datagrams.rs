//! The kernel's UDP sockets as a port: packets pass the whole of the kernel's network stack, as those of an ordinary program do.

use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use dpb_core::port::PortStats;
use dpb_core::{Buf, PacketPort, SetupError};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with, sockopt};

use super::pool::Pool;
use super::{pooled, sys};

/// Frames for datagrams.
const FRAMES: u32 = 4096;
/// Datagrams that are received with one call of the system.
const BURST: usize = sys::BURST;

/// A UDP socket over IPv4.
///
/// * A packet of this port is no Ethernet frame: it is what is in a datagram. The kernel takes the headers off, and makes new ones.
/// * Whatever comes to its port is received; all that is sent goes to one address.
/// * Many datagrams are received or sent with one call of the system (`recvmmsg(2)`, `sendmmsg(2)`), each copied once by the kernel and once more on the way in.
/// * What the kernel drops because the socket's buffer is full counts as `kernel` (`SO_MEMINFO`).
/// * The kernel's word that nobody has the port that an earlier datagram went to stops nothing: who is to receive may come later, and what does not come is lost
///   on the way.
#[derive(Debug)]
pub struct Datagrams {
    name: String,
    socket: OwnedFd,
    /// Where the kernel writes the datagrams of a call.
    room: Vec<u8>,
    bytes_max: usize,
    pool: Pool,
    stats: PortStats,
}

/// How a socket is opened.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The port that datagrams come to, at any address of this machine.
    pub port: u16,
    /// Where all that is sent goes; `None` for a socket that only receives.
    pub to: Option<SocketAddrV4>,
    /// True if datagrams are received. One that is connected would take those of its peer alone, so who receives from others has another to send by.
    pub receives: bool,
    /// Longest datagram.
    pub bytes_max: usize,
    /// True if several sockets share the port: the kernel gives each flow to one of them.
    pub is_shared: bool,
}

impl Datagrams {
    /// A socket in this thread's network namespace.
    ///
    /// # Errors
    /// The port is taken, or the kernel's own.
    pub fn open(options: &Options) -> io::Result<Self> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, flags, None)?;
        if options.receives {
            if options.is_shared {
                sockopt::set_socket_reuseport(&socket, true)?;
            }
            let any = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, options.port);
            bind(&socket, &any)?;
        }
        if let Some(to) = options.to {
            connect(&socket, &to)?;
        }
        let frame_bytes = options.bytes_max.next_multiple_of(64);
        let room = match options.receives {
            true => vec![0; BURST * options.bytes_max],
            false => Vec::new(),
        };
        Ok(Self {
            name: format!("UDP port {}", options.port),
            socket,
            room,
            bytes_max: options.bytes_max,
            pool: Pool::new(FRAMES, frame_bytes)?,
            stats: PortStats::default(),
        })
    }
}

/// True of what the kernel tells a socket of an earlier datagram (udp(7)): nobody has the port that it went to.
fn is_about_another(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::ConnectionRefused
}

impl PacketPort for Datagrams {
    fn name(&self) -> &str {
        &self.name
    }

    fn packet_bytes_max(&self) -> usize {
        self.bytes_max
    }

    fn alloc(&mut self, len: usize) -> Result<Buf, SetupError> {
        pooled(&mut self.pool, len, self.bytes_max)
    }

    fn receive(&mut self, packets: &mut Vec<Buf>, max: usize) -> io::Result<usize> {
        if self.room.is_empty() {
            return Ok(0);
        }
        // Each has a frame before it is asked for: what has come is not thrown away.
        let mut frames = Vec::with_capacity(max.min(BURST));
        while frames.len() < max.min(BURST)
            && let Some(frame) = self.pool.take()
        {
            frames.push(frame);
        }
        let rooms = self
            .room
            .chunks_exact_mut(self.bytes_max)
            .take(frames.len());
        let mut lens = [None; BURST];
        let result = match sys::receive(self.socket.as_fd(), rooms, &mut lens) {
            Err(error) if is_about_another(&error) => Ok(0),
            result => result,
        };
        let came = *result.as_ref().unwrap_or(&0);
        let datagrams = self.room.chunks_exact(self.bytes_max).zip(&lens[..came]);
        let mut delivered = 0;
        let mut frames = frames.into_iter();
        for ((bytes, len), mut frame) in datagrams.zip(frames.by_ref()) {
            match len {
                Some(len) => {
                    self.pool.bytes_mut(&mut frame)[..*len].copy_from_slice(&bytes[..*len]);
                    self.stats.delivered.add(*len);
                    packets.push(self.pool.buf(frame, 0, *len));
                    delivered += 1;
                }
                None => {
                    self.stats.receive_lost.too_long += 1;
                    self.pool.give(frame);
                }
            }
        }
        frames.for_each(|frame| self.pool.give(frame));
        result.map(|_| delivered)
    }

    fn send(&mut self, packets: &mut VecDeque<Buf>) -> io::Result<usize> {
        let (mut taken, mut told) = (0, 0);
        while let Some(first) = packets.front() {
            if first.len() > self.bytes_max {
                if taken > 0 {
                    break;
                }
                self.stats.refused.too_long += 1;
                return Err(dpb_core::port::too_long(first.len(), self.bytes_max));
            }
            let fits = |packet: &&Buf| packet.len() <= self.bytes_max;
            let fit = packets.iter().take_while(fits).map(|packet| &packet[..]);
            let sent = match sys::send(self.socket.as_fd(), fit) {
                // Nothing was sent in its place, and it is told once.
                Err(error) if is_about_another(&error) && told < BURST => {
                    told += 1;
                    continue;
                }
                Err(_) if taken > 0 => break,
                sent => sent?,
            };
            for packet in packets.drain(..sent) {
                self.stats.taken.add(packet.len());
                self.stats.sent.add(packet.len());
            }
            taken += sent;
            // Where an error comes in the middle, the kernel says only how many went before it.
            if sent == 0 {
                self.stats.refused.queue_full += packets.len() as u64;
                break;
            }
        }
        Ok(taken)
    }

    fn stats(&mut self) -> PortStats {
        if let Some(dropped) = sys::dropped_by_socket(self.socket.as_fd()) {
            self.stats.receive_lost.kernel = dropped.into();
        }
        self.stats
    }

    fn file(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::time::Duration;

    use super::*;
    use crate::port::wait;

    fn options(port: u16, to: Option<SocketAddrV4>) -> Options {
        Options {
            port,
            to,
            receives: to.is_none(),
            bytes_max: 1472,
            is_shared: false,
        }
    }

    /// A port of this machine that nobody has.
    fn free_port() -> u16 {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        socket.local_addr().expect("an address").port()
    }

    fn receive(port: &mut Datagrams, count: usize) -> Vec<Buf> {
        let mut came = Vec::new();
        for _ in 0..1000 {
            let missing = count - came.len();
            port.receive(&mut came, missing).expect("receives");
            if came.len() == count {
                break;
            }
            wait(port, false, Duration::from_millis(10)).expect("waits");
        }
        came
    }

    /// Against the standard library's sockets.
    #[test]
    fn datagrams_of_other_sockets_come_and_go_whole() {
        let number = free_port();
        let mut port = Datagrams::open(&options(number, None)).expect("a socket");
        let other = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        for len in [0, 1, 18, 1472] {
            let bytes: Vec<u8> = (0..len).map(|i| (i * 7) as u8).collect();
            other.send_to(&bytes, ("127.0.0.1", number)).expect("sent");
            let came = receive(&mut port, 1);
            assert_eq!(came[0][..], bytes);
        }
        other
            .send_to(&[0; 1473], ("127.0.0.1", number))
            .expect("sent");
        other
            .send_to(&[1; 60], ("127.0.0.1", number))
            .expect("sent");
        assert_eq!(receive(&mut port, 1)[0][..], [1; 60]);
        let stats = port.stats();
        assert_eq!(
            (stats.delivered.packets, stats.receive_lost.too_long),
            (5, 1)
        );

        let address = match other.local_addr().expect("an address") {
            std::net::SocketAddr::V4(address) => address,
            other => panic!("{other}"),
        };
        let mut sender = Datagrams::open(&options(0, Some(address))).expect("a socket");
        let mut ready: VecDeque<Buf> = (0..100_u8)
            .map(|i| {
                let mut packet = sender.alloc(60 + usize::from(i)).expect("memory");
                packet.fill(i);
                packet
            })
            .collect();
        let mut room = [0; 2000];
        other
            .set_read_timeout(Some(Duration::from_secs(10)))
            .expect("a time");
        for i in 0..100_u8 {
            if !ready.is_empty() {
                sender.send(&mut ready).expect("sends");
            }
            let len = other.recv(&mut room).expect("a datagram");
            assert_eq!(room[..len], vec![i; 60 + usize::from(i)]);
        }
        assert_eq!(
            (sender.stats().sent.packets, sender.stats().in_flight()),
            (100, 0)
        );
        let mut came = Vec::new();
        assert_eq!(sender.receive(&mut came, 9).expect("works"), 0);
        let mut ready = VecDeque::from([Buf::zeroed(1473).expect("memory")]);
        assert!(sender.send(&mut ready).is_err());
        assert_eq!(sender.stats().refused.too_long, 1);
    }

    /// Where nobody has the port, the kernel answers each datagram with an error, which the next one finds.
    #[test]
    fn nobody_at_the_other_end_stops_nothing() {
        let to = SocketAddrV4::new(Ipv4Addr::LOCALHOST, free_port());
        let mut sender = Datagrams::open(&options(0, Some(to))).expect("a socket");
        let packet = |len| Buf::zeroed(len).expect("memory");
        for _ in 0..3 {
            let mut ready: VecDeque<Buf> = (60..160).map(packet).collect();
            assert_eq!(sender.send(&mut ready).expect("goes on"), 100);
        }
        let stats = sender.stats();
        assert_eq!((stats.sent.packets, stats.in_flight()), (300, 0));
        assert_eq!(stats.refused.total(), 0);
        // Somebody comes.
        let other = UdpSocket::bind(to).expect("the port is free");
        let patience = Some(Duration::from_secs(10));
        other.set_read_timeout(patience).expect("a time");
        assert_eq!(
            sender
                .send(&mut VecDeque::from([packet(77)]))
                .expect("goes on"),
            1
        );
        assert_eq!(other.recv(&mut [0; 200]).expect("a datagram"), 77);
    }

    #[test]
    fn what_the_socket_has_no_room_for_is_counted() {
        let number = free_port();
        let mut port = Datagrams::open(&options(number, None)).expect("a socket");
        let other = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let sent = 5000;
        for _ in 0..sent {
            other
                .send_to(&[3; 1000], ("127.0.0.1", number))
                .expect("sent");
        }
        let mut came = Vec::new();
        while port.receive(&mut came, 64).expect("receives") > 0 {}
        let lost = port.stats().receive_lost.kernel;
        assert!(
            lost > 0 && came.len() as u64 + lost == sent,
            "{} came, {lost} lost",
            came.len()
        );
    }
}
