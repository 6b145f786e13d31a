//! From an IP packet to an ESP packet: [`Seal`].

use dpb_core::packet::{IPV6_BYTES, Version, u16_at};
use dpb_core::{Buf, JobError};

use super::{
    ALIGNMENT, Association, EXHAUSTED, EXTENSIONS, FRAGMENT, HEADER_BYTES, Mode, Note,
    PREFIX_BYTES, TAG_BYTES, TOO_LONG, TRAILER_BYTES, Tunnel,
};
use crate::packet::{Sum, protocol};
use crate::pipeline::{Choice, Output, Packet, Part, Pool, Reason};
use crate::programs::network::Network;

/// The sending end of an association.
#[derive(Debug)]
pub struct Seal {
    association: Association,
    pool: Pool,
    mtu: u16,
    /// The last number that was used.
    sequence: u32,
    epoch: u64,
}

/// The shape of a packet that will be.
struct Plan {
    /// From where on it is text, in the frame as it is.
    text: usize,
    /// Bytes of text, without padding and trailer.
    bytes: usize,
    /// Bytes that are new in front of it.
    front: usize,
    protocol: u8,
}

impl Seal {
    /// Of `association`, whose first packet has sequence number 1. Frames that become longer have their room from `pool`, unless they have it. A
    /// packet that would be longer than `mtu` bytes, from its IP header on, is dropped.
    pub fn new(association: Association, pool: Pool, mtu: u16) -> Self {
        Self {
            association,
            pool,
            mtu,
            sequence: 0,
            epoch: 0,
        }
    }

    /// The same, with `sequence` as the last number that was used.
    #[must_use]
    pub fn after(self, sequence: u32) -> Self {
        Self { sequence, ..self }
    }

    /// The same, with IVs that count on from `epoch`. A key that outlives a process is used once for each IV only if each process counts from above all IVs of those before. The
    /// nanoseconds since 1970 at its start do so, where the clock does not go back and one process ends before the next one starts: nobody seals a packet a nanosecond.
    #[must_use]
    pub fn in_epoch(self, epoch: u64) -> Self {
        Self { epoch, ..self }
    }

    /// A number that comes once with a key: the sequence number, counted from the epoch (RFC 4106, 3.1).
    fn iv(&self, sequence: u32) -> [u8; 8] {
        self.epoch.wrapping_add(sequence.into()).to_be_bytes()
    }

    fn plan(&self, frame: &[u8]) -> Result<(Network, Plan), Reason> {
        let headers = Network::of(frame)?;
        let plan = match self.association.mode {
            Mode::Tunnel(tunnel) => Plan {
                text: headers.start,
                bytes: headers.end - headers.start,
                front: tunnel.header_bytes() + HEADER_BYTES,
                protocol: match headers.version {
                    Version::V4 => protocol::IPV4,
                    Version::V6 => protocol::IPV6,
                },
            },
            Mode::Transport => {
                if headers.is_fragment {
                    return Err(FRAGMENT);
                }
                if !headers.is_plain {
                    return Err(EXTENSIONS);
                }
                Plan {
                    text: headers.payload,
                    bytes: headers.end - headers.payload,
                    front: HEADER_BYTES,
                    protocol: headers.protocol,
                }
            }
        };
        Ok((headers, plan))
    }

    fn prepare(&mut self, frame: &mut Buf, note: &mut Note) -> Result<Choice, Reason> {
        let (headers, plan) = self.plan(frame)?;
        let text_bytes = (plan.bytes + TRAILER_BYTES).next_multiple_of(ALIGNMENT);
        let text = plan.text + plan.front;
        let end = text + text_bytes + TAG_BYTES;
        if end - headers.start > usize::from(self.mtu) {
            return Err(TOO_LONG);
        }
        let sequence = self.sequence.checked_add(1).ok_or(EXHAUSTED)?;
        // Traffic class and "don't fragment" of the packet inside, before anything moves.
        let inside = Inside::of(&headers, frame);
        let back = end as isize - (frame.len() + plan.front) as isize;
        if !self.pool.fit(frame, plan.front as isize, back) {
            return Err(Reason::NO_MEMORY);
        }
        self.sequence = sequence;
        // What stands in front of the text comes to the front; a tunnel's IP header takes its place.
        frame.copy_within(plan.front..text, 0);
        let packet_bytes = (end - headers.start) as u16;
        match self.association.mode {
            Mode::Tunnel(tunnel) => {
                let ether_type = tunnel.ether_type().to_be_bytes();
                frame[headers.start - 2..headers.start].copy_from_slice(&ether_type);
                tunnel.write(&mut frame[headers.start..], packet_bytes, &inside, sequence);
            }
            Mode::Transport => {
                let header = &mut frame[headers.start..headers.payload];
                write_lengths(header, headers.version, packet_bytes, protocol::ESP);
            }
        }
        let padding = text_bytes - plan.bytes - TRAILER_BYTES;
        let trailer = &mut frame[text + plan.bytes..text + text_bytes];
        for (byte, value) in trailer.iter_mut().zip(1..=padding as u8) {
            *byte = value;
        }
        trailer[padding..].copy_from_slice(&[padding as u8, plan.protocol]);
        *note = Note {
            network: headers.start as u32,
            text: text as u32,
            text_bytes: text_bytes as u32,
            sequence,
            ..Note::default()
        };
        note.write_prefix(frame, &self.association, self.iv(sequence));
        Ok(Choice::Item {
            start: (text - PREFIX_BYTES) as u32,
            len: (PREFIX_BYTES + text_bytes) as u32,
            room: (text_bytes + TAG_BYTES) as u32,
        })
    }
}

impl Part for Seal {
    type Note = Note;

    fn is_in_place(&self) -> bool {
        true
    }

    fn needs_order(&self) -> bool {
        true
    }

    fn item(&mut self, packet: Packet<'_>, note: &mut Note) -> Choice {
        match self.prepare(packet.frame, note) {
            Ok(choice) => choice,
            Err(reason) => Choice::Drop(reason),
        }
    }

    fn output(&mut self, mut packet: Packet<'_>, note: Note, output: Result<Output<'_>, JobError>) {
        let (text, bytes) = (note.text as usize, note.text_bytes as usize + TAG_BYTES);
        match output {
            Ok(Output::Within(len)) if len == bytes => {}
            Ok(Output::Beside(sealed)) if sealed.len() == bytes => {
                packet.frame[text..text + bytes].copy_from_slice(sealed);
            }
            Ok(_) | Err(JobError::Malformed | JobError::DstTooShort) => {
                return packet.drop_for(Reason::REFUSED);
            }
            Err(_) => return packet.drop_for(Reason::JOB_FAILED),
        }
        let prefix = &mut packet.frame[text - PREFIX_BYTES..text];
        prefix[..4].copy_from_slice(&note.saved);
        prefix[4..8].copy_from_slice(&self.association.spi.to_be_bytes());
        prefix[8..12].copy_from_slice(&note.sequence.to_be_bytes());
        prefix[12..].copy_from_slice(&self.iv(note.sequence));
    }
}

/// The parts of the packet inside that the outer header takes over.
struct Inside {
    traffic_class: u8,
    is_whole_only: bool,
}

impl Inside {
    fn of(headers: &Network, frame: &[u8]) -> Self {
        let header = &frame[headers.start..];
        match headers.version {
            Version::V4 => Self {
                traffic_class: header[1],
                is_whole_only: header[6] & 0x40 != 0,
            },
            Version::V6 => Self {
                traffic_class: traffic_class(header),
                // Routers fragment no packets of IPv6.
                is_whole_only: true,
            },
        }
    }
}

/// The traffic class of an IPv6 header.
pub(super) fn traffic_class(header: &[u8]) -> u8 {
    (u16_at(header, 0) >> 4) as u8
}

const HOP_LIMIT: u8 = 64;

impl Tunnel {
    /// Writes the outer header of a packet of `bytes` bytes.
    fn write(&self, header: &mut [u8], bytes: u16, inside: &Inside, sequence: u32) {
        match self {
            Self::V4 {
                source,
                destination,
            } => {
                let header = &mut header[..self.header_bytes()];
                header[0] = 0x45;
                header[1] = inside.traffic_class;
                header[2..4].copy_from_slice(&bytes.to_be_bytes());
                // Only fragments need an identification (RFC 6864, 4.1).
                let (id, flags) = match inside.is_whole_only {
                    true => (0, 0x4000_u16),
                    false => (sequence as u16, 0),
                };
                header[4..6].copy_from_slice(&id.to_be_bytes());
                header[6..8].copy_from_slice(&flags.to_be_bytes());
                header[8..12].copy_from_slice(&[HOP_LIMIT, protocol::ESP, 0, 0]);
                header[12..16].copy_from_slice(&source.octets());
                header[16..].copy_from_slice(&destination.octets());
                let sum = Sum::of(header).checksum();
                header[10..12].copy_from_slice(&sum.to_be_bytes());
            }
            Self::V6 {
                source,
                destination,
            } => {
                let header = &mut header[..self.header_bytes()];
                let first = 6 << 28 | u32::from(inside.traffic_class) << 20;
                header[..4].copy_from_slice(&first.to_be_bytes());
                let payload = bytes - IPV6_BYTES as u16;
                header[4..6].copy_from_slice(&payload.to_be_bytes());
                header[6..8].copy_from_slice(&[protocol::ESP, HOP_LIMIT]);
                header[8..24].copy_from_slice(&source.octets());
                header[24..].copy_from_slice(&destination.octets());
            }
        }
    }
}

/// Writes length and protocol of an IP header without extensions, and of IPv4 the checksum.
pub(super) fn write_lengths(header: &mut [u8], version: Version, bytes: u16, protocol: u8) {
    match version {
        Version::V4 => {
            header[2..4].copy_from_slice(&bytes.to_be_bytes());
            header[9] = protocol;
            header[10..12].fill(0);
            let sum = Sum::of(header).checksum();
            header[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        Version::V6 => {
            let payload = bytes - IPV6_BYTES as u16;
            header[4..6].copy_from_slice(&payload.to_be_bytes());
            header[6] = protocol;
        }
    }
}
