//! From an ESP packet to the IP packet: [`Open`].

use dpb_core::packet::{Version, u16_at, u32_at};
use dpb_core::{Buf, JobError};

use super::seal::{traffic_class, write_lengths};
use super::{
    ALIGNMENT, Association, BAD_CONTENT, CONGESTED, DUMMY, EXTENSIONS, FORGED, FRAGMENT,
    HEADER_BYTES, Mode, Note, Opening, PREFIX_BYTES, REPLAY, TAG_BYTES, TRAILER_BYTES, UNKNOWN,
    UNPROTECTED, Window,
};
use crate::packet::{Change, ether_type, protocol};
use crate::pipeline::{Choice, Output, Packet, Part, Pool, Reason};
use crate::programs::network::Network;

/// The receiving end of an association, or of several with one key.
#[derive(Debug)]
pub struct Open {
    /// In the order of their SPIs.
    inbound: Box<[Inbound]>,
    pool: Pool,
    lets_others_in: bool,
}

#[derive(Debug)]
struct Inbound {
    association: Association,
    window: Window,
}

impl Open {
    pub(super) fn new(associations: &[Association], pool: Pool, opening: Opening) -> Self {
        let one = |association: &Association| Inbound {
            association: *association,
            window: Window::new(opening.window),
        };
        let mut inbound: Box<[Inbound]> = associations.iter().map(one).collect();
        inbound.sort_by_key(|it| it.association.spi);
        Self {
            inbound,
            pool,
            lets_others_in: opening.lets_others_in,
        }
    }

    /// The sequence numbers that came with this SPI; `None` if no association has it.
    pub fn window(&self, spi: u32) -> Option<&Window> {
        self.place(spi).map(|at| &self.inbound[at].window)
    }

    fn place(&self, spi: u32) -> Option<usize> {
        let found = (self.inbound).binary_search_by_key(&spi, |it| it.association.spi);
        found.ok()
    }

    fn prepare(&mut self, frame: &mut Buf, note: &mut Note) -> Result<Choice, Reason> {
        let headers = match Network::of(frame) {
            Ok(headers) if headers.protocol == protocol::ESP => headers,
            _ if self.lets_others_in => return Ok(Choice::None),
            Ok(_) => return Err(UNPROTECTED),
            Err(reason) => return Err(reason),
        };
        if headers.is_fragment {
            return Err(FRAGMENT);
        }
        if !headers.is_plain {
            return Err(EXTENSIONS);
        }
        let esp = headers.payload;
        let sealed = (headers.end - esp)
            .checked_sub(HEADER_BYTES + TAG_BYTES)
            .filter(|bytes| *bytes >= ALIGNMENT && bytes.is_multiple_of(ALIGNMENT));
        let text_bytes = sealed.ok_or(Reason::MALFORMED)?;
        let at = self.place(u32_at(frame, esp)).ok_or(UNKNOWN)?;
        let Inbound {
            association,
            window,
        } = &self.inbound[at];
        let sequence = u32_at(frame, esp + 4);
        if !window.allows(sequence) {
            return Err(REPLAY);
        }
        // Ethernet's padding, which nobody needs.
        let padding = frame.len() - headers.end;
        if padding > 0 && !self.pool.fit(frame, 0, -(padding as isize)) {
            return Err(Reason::NO_MEMORY);
        }
        let text = esp + HEADER_BYTES;
        *note = Note {
            network: headers.start as u32,
            text: text as u32,
            text_bytes: text_bytes as u32,
            sequence,
            association: at as u32,
            ..Note::default()
        };
        let mut iv = [0; 8];
        iv.copy_from_slice(&frame[esp + 8..text]);
        note.write_prefix(frame, association, iv);
        Ok(Choice::Item {
            start: (text - PREFIX_BYTES) as u32,
            len: (PREFIX_BYTES + text_bytes + TAG_BYTES) as u32,
            room: text_bytes as u32,
        })
    }

    /// Makes the packet anew of what was in it.
    fn unpack(&mut self, frame: &mut Buf, note: &Note) -> Result<(), Reason> {
        let [network, text, bytes] = [note.network, note.text, note.text_bytes].map(|n| n as usize);
        let saved = text - PREFIX_BYTES;
        frame[saved..saved + note.saved.len()].copy_from_slice(&note.saved);
        // Only now it is known to be genuine; the same number may have come in another job.
        let inbound = &mut self.inbound[note.association as usize];
        if !inbound.window.accept(note.sequence) {
            return Err(REPLAY);
        }
        let (payload, protocol) = content(&frame[text..text + bytes])?;
        match inbound.association.mode {
            Mode::Tunnel(_) => self.leave_tunnel(frame, [network, text, payload], protocol),
            Mode::Transport => {
                let version = version(frame[network]);
                let behind = text - HEADER_BYTES;
                let packet_bytes = (behind - network + payload) as u16;
                let header = &mut frame[network..behind];
                write_lengths(header, version, packet_bytes, protocol);
                frame.copy_within(..behind, HEADER_BYTES);
                self.cut(frame, HEADER_BYTES, text + payload)
            }
        }
    }

    fn leave_tunnel(
        &mut self,
        frame: &mut Buf,
        [network, text, payload]: [usize; 3],
        protocol: u8,
    ) -> Result<(), Reason> {
        let outer = match version(frame[network]) {
            Version::V4 => frame[network + 1],
            Version::V6 => traffic_class(&frame[network..]),
        };
        let (version, ether_type) = match protocol {
            protocol::IPV4 => (Version::V4, ether_type::IPV4),
            protocol::IPV6 => (Version::V6, ether_type::IPV6),
            _ => return Err(BAD_CONTENT),
        };
        let packet = &mut frame[text..text + payload];
        let inner = Network::of_packet(packet, version).map_err(|_| BAD_CONTENT)?;
        mark_congestion(packet, version, outer)?;
        let front = text - network;
        frame.copy_within(..network, front);
        frame[text - 2..text].copy_from_slice(&ether_type.to_be_bytes());
        // Behind the packet inside there may be padding that hides its length (RFC 4303, 2.7).
        self.cut(frame, front, text + inner.end)
    }

    /// Leaves `start..end` of the frame.
    fn cut(&mut self, frame: &mut Buf, start: usize, end: usize) -> Result<(), Reason> {
        let (front, back) = (-(start as isize), end as isize - frame.len() as isize);
        match self.pool.fit(frame, front, back) {
            true => Ok(()),
            false => Err(Reason::NO_MEMORY),
        }
    }
}

/// The version that the first byte of a header says, which was checked.
fn version(first: u8) -> Version {
    match first >> 4 {
        4 => Version::V4,
        _ => Version::V6,
    }
}

/// The length of the payload in `text`, and its protocol; padding is 1, 2, 3 and so on (RFC 4303, 2.4).
fn content(text: &[u8]) -> Result<(usize, u8), Reason> {
    let [.., padding, protocol] = *text else {
        return Err(BAD_CONTENT);
    };
    let padded = text.len() - TRAILER_BYTES;
    let payload = padded
        .checked_sub(usize::from(padding))
        .ok_or(BAD_CONTENT)?;
    let is_right = (text[payload..padded].iter()).zip(1..=padding);
    if !is_right.into_iter().all(|(byte, right)| *byte == right) {
        return Err(BAD_CONTENT);
    }
    match protocol {
        protocol::NONE => Err(DUMMY),
        _ => Ok((payload, protocol)),
    }
}

/// Hands congestion that was marked outside on to the packet inside (RFC 6040, 4.2).
fn mark_congestion(packet: &mut [u8], version: Version, outer: u8) -> Result<(), Reason> {
    const BITS: u8 = 3;
    const EXPERIENCED: u8 = 3;
    // The first one of ECT(1) and ECT(0).
    const CAPABLE_1: u8 = 1;
    let inner = match version {
        Version::V4 => packet[1] & BITS,
        Version::V6 => traffic_class(packet) & BITS,
    };
    let becomes = match (inner, outer & BITS) {
        (0, EXPERIENCED) => return Err(CONGESTED),
        (0, _) | (EXPERIENCED, _) => inner,
        (_, EXPERIENCED) => EXPERIENCED,
        (_, CAPABLE_1) => CAPABLE_1,
        _ => inner,
    };
    if becomes == inner {
        return Ok(());
    }
    match version {
        Version::V4 => {
            let old = u16_at(packet, 0);
            packet[1] = packet[1] & !BITS | becomes;
            let change = Change::of(old, u16_at(packet, 0));
            let sum = change.applied(u16_at(packet, 10));
            packet[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        // Bits 10 and 11 of the header.
        Version::V6 => packet[1] = packet[1] & !(BITS << 4) | becomes << 4,
    }
    Ok(())
}

impl Part for Open {
    type Note = Note;

    fn is_in_place(&self) -> bool {
        true
    }

    fn item(&mut self, packet: Packet<'_>, note: &mut Note) -> Choice {
        match self.prepare(packet.frame, note) {
            Ok(choice) => choice,
            Err(reason) => Choice::Drop(reason),
        }
    }

    fn output(&mut self, mut packet: Packet<'_>, note: Note, output: Result<Output<'_>, JobError>) {
        let (text, bytes) = (note.text as usize, note.text_bytes as usize);
        match output {
            Ok(Output::Within(len)) if len == bytes => {}
            Ok(Output::Beside(opened)) if opened.len() == bytes => {
                packet.frame[text..text + bytes].copy_from_slice(opened);
            }
            Err(JobError::Malformed) => return packet.drop_for(FORGED),
            Ok(_) | Err(JobError::DstTooShort) => return packet.drop_for(Reason::REFUSED),
            Err(_) => return packet.drop_for(Reason::JOB_FAILED),
        }
        if let Err(reason) = self.unpack(packet.frame, &note) {
            packet.drop_for(reason);
        }
    }
}
