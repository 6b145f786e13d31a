//! Frames from templates: the headers of a kind of flow, of which little is left to fill in.

use crate::packet::Sum;
use crate::packet::protocol::{TCP, UDP};

use super::application::Transport;

/// The shortest frame: that many bytes of a template may be copied into any frame.
const COPIED: usize = super::sizes::FRAME_BYTES_MIN;
/// The longest headers: Ethernet, a tag, IPv6, TCP.
pub(super) const HEADER_BYTES_MAX: usize = 14 + 4 + 40 + 20;
const TTL: u8 = 64;
const TCP_BYTES: usize = 20;
const UDP_BYTES: usize = 8;

/// A version of IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// RFC 791.
    V4,
    /// RFC 8200.
    V6,
}

/// Addresses of a packet.
#[derive(Clone, Copy, Debug)]
pub(super) enum Addresses {
    V4([u32; 2]),
    V6([u128; 2]),
}

/// What a TCP header says beside its ports.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tcp {
    pub(super) sequence: u32,
    pub(super) acknowledgement: u32,
    pub(super) flags: u8,
}

/// What is filled in.
pub(super) struct Fields {
    pub(super) addresses: Addresses,
    pub(super) ports: [u16; 2],
    pub(super) tcp: Tcp,
    /// The sum of the payload; `None` leaves UDP's checksum away, which IPv4 allows.
    pub(super) payload_sum: Option<Sum>,
}

/// Link addresses and a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// The addresses of the client's side and of the server's.
    pub macs: [[u8; 6]; 2],
    /// The VLAN's number, 0 to 4095, if frames have a tag (IEEE 802.1Q).
    pub vlan: Option<u16>,
}

impl Default for Link {
    /// Addresses that are locally administered, and no tag.
    fn default() -> Self {
        Self {
            macs: [[0x02, 0, 0, 0, 0, 1], [0x02, 0, 0, 0, 0, 2]],
            vlan: None,
        }
    }
}

/// The headers of one kind of flow in one direction.
#[derive(Clone, Debug)]
pub(super) struct Template {
    bytes: [u8; HEADER_BYTES_MAX],
    ip: usize,
    l4: usize,
    payload: usize,
    /// The sum of IPv4's header without addresses and lengths.
    ip_sum: Sum,
    /// The sum of what the checksum of layer 4 covers and does not change: the protocol's number, TCP's offset and window.
    l4_sum: Sum,
    is_v6: bool,
    is_tcp: bool,
}

impl Template {
    pub(super) fn new(
        link: &Link,
        family: Family,
        transport: Transport,
        is_from_client: bool,
    ) -> Self {
        let mut bytes = [0; HEADER_BYTES_MAX];
        let mut len = 0;
        let mut put = |field: &[u8]| {
            bytes[len..][..field.len()].copy_from_slice(field);
            len += field.len();
            len
        };
        let [client, server] = link.macs;
        let (to, from) = if is_from_client {
            (server, client)
        } else {
            (client, server)
        };
        put(&to);
        let mut ip = put(&from);
        if let Some(vlan) = link.vlan {
            put(&[0x81, 0x00]);
            ip = put(&vlan.to_be_bytes());
        }
        let is_tcp = transport == Transport::Tcp;
        let protocol = if is_tcp { TCP } else { UDP };
        ip += 2;
        let l4 = match family {
            Family::V4 => {
                put(&[0x08, 0x00, 0x45, 0, 0, 0]);
                // Identification 0, "do not fragment": an atomic datagram (RFC 6864).
                put(&[0, 0, 0x40, 0, TTL, protocol, 0, 0]);
                put(&[0; 8])
            }
            Family::V6 => {
                put(&[0x86, 0xdd, 0x60, 0, 0, 0, 0, 0, protocol, TTL]);
                put(&[0; 32])
            }
        };
        let payload = match transport {
            Transport::Tcp => {
                put(&[0; 12]);
                // An offset of five words, no flags yet, the largest window.
                put(&[0x50, 0, 0xff, 0xff, 0, 0, 0, 0])
            }
            Transport::Udp => put(&[0; UDP_BYTES]),
        };
        Self {
            ip,
            l4,
            payload,
            ip_sum: Sum::of(&bytes[ip..l4]),
            l4_sum: Sum::of(&bytes[l4..payload]) + Sum::of(&[0, protocol]),
            bytes,
            is_v6: family == Family::V6,
            is_tcp,
        }
    }

    /// Where the payload begins.
    #[inline(always)]
    pub(super) fn payload_at(&self) -> usize {
        self.payload
    }

    /// Writes the headers of a frame whose datagram ends at `end`: behind it the link's own bytes may follow.
    #[inline(always)]
    pub(super) fn write(&self, frame: &mut [u8], end: usize, fields: &Fields) {
        // A copy of a fixed length is a few instructions, and of another one a call.
        frame[..COPIED].copy_from_slice(&self.bytes[..COPIED]);
        if self.payload > COPIED {
            frame[COPIED..self.payload].copy_from_slice(&self.bytes[COPIED..self.payload]);
        }
        let l4_bytes = (end - self.l4) as u16;
        let addresses = self.ip(frame, (end - self.ip) as u16, fields.addresses);
        let [source, destination] = fields.ports.map(u16::to_be_bytes);
        let ports = u32::from_le_bytes([source[0], source[1], destination[0], destination[1]]);
        let mut total = self.l4_sum + addresses + Sum::of_le(ports.into());
        // The length of the pseudo-header.
        let length = Sum::of_le(l4_bytes.swap_bytes().into());
        total = total + length;
        let header = &mut frame[self.l4..self.payload];
        header[..4].copy_from_slice(&ports.to_le_bytes());
        if self.is_tcp {
            let Tcp {
                sequence,
                acknowledgement,
                flags,
            } = fields.tcp;
            let header: &mut [u8; TCP_BYTES] = header.try_into().expect("of TCP");
            let (sequence, acknowledgement) = (sequence.swap_bytes(), acknowledgement.swap_bytes());
            header[4..8].copy_from_slice(&sequence.to_le_bytes());
            header[8..12].copy_from_slice(&acknowledgement.to_le_bytes());
            header[13] = flags;
            let numbers = u64::from(sequence) | u64::from(acknowledgement) << 32;
            total = total + Sum::of_le(numbers) + Sum::of_le(u64::from(flags) << 8);
            let sum = (total + fields.payload_sum.unwrap_or_default()).checksum();
            header[16..18].copy_from_slice(&sum.to_be_bytes());
        } else {
            let header: &mut [u8; UDP_BYTES] = header.try_into().expect("of UDP");
            header[4..6].copy_from_slice(&l4_bytes.to_be_bytes());
            let sum = match fields.payload_sum {
                Some(payload) => {
                    // A checksum of zero says that there is none (RFC 768).
                    match (total + length + payload).checksum() {
                        0 => 0xffff,
                        sum => sum,
                    }
                }
                None => 0,
            };
            header[6..8].copy_from_slice(&sum.to_be_bytes());
        }
    }

    /// Fills IP's header in; returns the sum of the addresses.
    #[inline(always)]
    fn ip(&self, frame: &mut [u8], bytes: u16, addresses: Addresses) -> Sum {
        match addresses {
            Addresses::V4([from, to]) => {
                debug_assert!(!self.is_v6);
                let header: &mut [u8; 20] =
                    (&mut frame[self.ip..self.l4]).try_into().expect("of IPv4");
                let both = u64::from(from.swap_bytes()) | u64::from(to.swap_bytes()) << 32;
                header[12..].copy_from_slice(&both.to_le_bytes());
                header[2..4].copy_from_slice(&bytes.to_be_bytes());
                let addresses = Sum::of_le(both);
                let length = Sum::of_le(bytes.swap_bytes().into());
                let sum = (self.ip_sum + addresses + length).checksum();
                header[10..12].copy_from_slice(&sum.to_be_bytes());
                addresses
            }
            Addresses::V6([from, to]) => {
                debug_assert!(self.is_v6);
                let header: &mut [u8; 40] =
                    (&mut frame[self.ip..self.l4]).try_into().expect("of IPv6");
                header[4..6].copy_from_slice(&(bytes - 40).to_be_bytes());
                header[8..24].copy_from_slice(&from.to_be_bytes());
                header[24..].copy_from_slice(&to.to_be_bytes());
                let of = |address: u128| {
                    let swapped = address.swap_bytes();
                    Sum::of_le(swapped as u64) + Sum::of_le((swapped >> 64) as u64)
                };
                of(from) + of(to)
            }
        }
    }
}
