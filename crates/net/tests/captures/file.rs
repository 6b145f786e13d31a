//! Packets of capture files, for tests and the example: pcap and pcapng, down to TCP and UDP, through the tunnels and fragments that corpora have.
//! It is another reader than the crate's, and written to be read: what it does not know it passes over.
// Each of the programs that share this needs a part of it.
#![allow(dead_code)]

use std::collections::HashMap;

/// A packet of TCP or UDP.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// From where to where; IPv4 as `::ffff:a.b.c.d`.
    pub(crate) addresses: [u128; 2],
    pub(crate) ports: [u16; 2],
    /// Sequence number and flags.
    pub(crate) tcp: Option<(u32, u8)>,
    pub(crate) payload: Vec<u8>,
    /// The innermost IP packet; empty if it came in fragments.
    pub(crate) packet: Vec<u8>,
    pub(crate) time_ms: u32,
}

/// All packets of a file.
pub(crate) fn packets(file: &[u8]) -> Vec<Seen> {
    let mut reader = Reader::default();
    for (link, time_ms, frame) in frames(file) {
        reader.time_ms = time_ms;
        reader.link(link, &frame);
    }
    reader.seen
}

/// Link type, time and bytes of each packet.
fn frames(file: &[u8]) -> Vec<(u32, u32, Vec<u8>)> {
    match file.first_chunk() {
        Some([0xd4, 0xc3, 0xb2, 0xa1]) => pcap(file, u32::from_le_bytes, 1000),
        Some([0xa1, 0xb2, 0xc3, 0xd4]) => pcap(file, u32::from_be_bytes, 1000),
        Some([0x4d, 0x3c, 0xb2, 0xa1]) => pcap(file, u32::from_le_bytes, 1_000_000),
        Some([0xa1, 0xb2, 0x3c, 0x4d]) => pcap(file, u32::from_be_bytes, 1_000_000),
        Some([0x0a, 0x0d, 0x0d, 0x0a]) => pcapng(file),
        _ => Vec::new(),
    }
}

fn pcap(file: &[u8], word: fn([u8; 4]) -> u32, per_ms: u32) -> Vec<(u32, u32, Vec<u8>)> {
    let at = |place: usize| Some(word(*file.get(place..)?.first_chunk()?));
    let mut frames = Vec::new();
    let Some(link) = at(20) else {
        return frames;
    };
    let mut place = 24;
    while let (Some(seconds), Some(parts), Some(len)) = (at(place), at(place + 4), at(place + 8)) {
        let Some(bytes) = file
            .get(place + 16..)
            .and_then(|rest| rest.get(..len as usize))
        else {
            break;
        };
        let time_ms = seconds.wrapping_mul(1000).wrapping_add(parts / per_ms);
        frames.push((link & 0xffff, time_ms, bytes.to_vec()));
        place += 16 + len as usize;
    }
    frames
}

fn pcapng(file: &[u8]) -> Vec<(u32, u32, Vec<u8>)> {
    let mut frames = Vec::new();
    let mut word: fn([u8; 4]) -> u32 = u32::from_le_bytes;
    // Link type and ticks in a millisecond of each interface.
    let mut interfaces: Vec<(u32, u64)> = Vec::new();
    let mut place = 0;
    loop {
        let at = |place: usize| Some(word(*file.get(place..)?.first_chunk()?));
        let (Some(kind), Some(mut len)) = (at(place), at(place + 4)) else {
            break;
        };
        if kind == 0x0a0d_0d0a {
            let is_little = file.get(place + 8..place + 12) == Some(&[0x4d, 0x3c, 0x2b, 0x1a]);
            word = if is_little {
                u32::from_le_bytes
            } else {
                u32::from_be_bytes
            };
            let Some(bytes) = file.get(place + 4..).and_then(|rest| rest.first_chunk()) else {
                break;
            };
            len = word(*bytes);
            interfaces.clear();
        }
        let at = |place: usize| Some(word(*file.get(place..)?.first_chunk()?));
        let end = place + len as usize;
        if len < 12 || end > file.len() {
            break;
        }
        match kind {
            1 => {
                let link = at(place + 8).unwrap_or(0);
                let link = if word([1, 0, 0, 0]) == 1 {
                    link & 0xffff
                } else {
                    link >> 16
                };
                interfaces.push((link, ticks(&file[place + 16..end - 4], word)));
            }
            6 => {
                let words = (
                    at(place + 8),
                    at(place + 12),
                    at(place + 16),
                    at(place + 20),
                );
                if let (Some(interface), Some(high), Some(low), Some(len)) = words {
                    let known = interfaces.get(interface as usize).copied();
                    let (link, per_ms) = known.unwrap_or((1, 1000));
                    let time = u64::from(high) << 32 | u64::from(low);
                    let bytes = file.get(place + 28..place + 28 + len as usize);
                    frames.push((
                        link,
                        (time / per_ms) as u32,
                        bytes.unwrap_or_default().to_vec(),
                    ));
                }
            }
            3 => {
                let len = (at(place + 8).unwrap_or(0) as usize).min(end - place - 16);
                let link = interfaces.first().map_or(1, |one| one.0);
                frames.push((link, 0, file[place + 12..place + 12 + len].to_vec()));
            }
            _ => {}
        }
        place = end;
    }
    frames
}

/// Ticks in a millisecond, by the options of an interface; microseconds if they say nothing.
fn ticks(mut options: &[u8], word: fn([u8; 4]) -> u32) -> u64 {
    let is_little = word([1, 0, 0, 0]) == 1;
    let short = |bytes: [u8; 2]| match is_little {
        true => u16::from_le_bytes(bytes),
        false => u16::from_be_bytes(bytes),
    };
    while let [a, b, c, d, rest @ ..] = options {
        let (kind, len) = (short([*a, *b]), usize::from(short([*c, *d])));
        if kind == 9 && len == 1 {
            return match rest.first() {
                Some(power @ 3..=12) => 10_u64.pow(u32::from(power - 3)),
                _ => 1000,
            };
        }
        options = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
    }
    1000
}

/// What a fragment is of.
type Datagram = ([u128; 2], u32, u8);

/// Pieces by their places, and the length of the whole if it is known.
type Pieces = (Vec<(usize, Vec<u8>)>, Option<usize>);

#[derive(Default)]
struct Reader {
    seen: Vec<Seen>,
    time_ms: u32,
    packet: Vec<u8>,
    fragments: HashMap<Datagram, Pieces>,
}

fn short(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

impl Reader {
    fn link(&mut self, link: u32, frame: &[u8]) -> Option<()> {
        match link {
            1 => self.ethernet(frame),
            // BSD's loopback: a family in the machine's order.
            0 | 108 => self.ip(frame.get(4..)?),
            // PPP, with or without its address.
            9 => {
                let rest = frame.strip_prefix(&[0xff, 0x03]).unwrap_or(frame);
                match short(rest, 0)? {
                    0x0021 | 0x0057 => self.ip(rest.get(2..)?),
                    _ => None,
                }
            }
            12 | 14 | 101 | 228 | 229 => self.ip(frame),
            // Linux cooked, both forms.
            113 => self.ethertype(short(frame, 14)?, frame.get(16..)?),
            276 => self.ethertype(short(frame, 0)?, frame.get(20..)?),
            _ => None,
        }
    }

    fn ethernet(&mut self, frame: &[u8]) -> Option<()> {
        self.ethertype(short(frame, 12)?, frame.get(14..)?)
    }

    fn ethertype(&mut self, kind: u16, rest: &[u8]) -> Option<()> {
        match kind {
            0x0800 | 0x86dd => self.ip(rest),
            0x8100 | 0x88a8 | 0x9100 => self.ethertype(short(rest, 2)?, rest.get(4..)?),
            // PPP over Ethernet.
            0x8864 => match short(rest, 6)? {
                0x0021 | 0x0057 => self.ip(rest.get(8..)?),
                _ => None,
            },
            0x8847 => {
                let is_last = rest.get(2)? & 1 == 1;
                let rest = rest.get(4..)?;
                match is_last {
                    true => match rest.first()? >> 4 {
                        4 | 6 => self.ip(rest),
                        // A control word, or none, and Ethernet.
                        0 => self.ethernet(rest.get(4..)?),
                        _ => self.ethernet(rest),
                    },
                    false => self.ethertype(0x8847, rest),
                }
            }
            0x6558 => self.ethernet(rest),
            // Cisco's metadata, and FabricPath.
            0x8909 => self.ethertype(short(rest, 6)?, rest.get(8..)?),
            0x8903 => self.ethernet(rest.get(2..)?),
            0x880b => match short(rest, 0)? {
                0x0021 | 0x0057 => self.ip(rest.get(2..)?),
                0xff03 => self.ip(rest.get(4..)?),
                _ => None,
            },
            _ => None,
        }
    }

    fn ip(&mut self, packet: &[u8]) -> Option<()> {
        match packet.first()? >> 4 {
            4 => self.v4(packet),
            6 => self.v6(packet),
            _ => None,
        }
    }

    fn v4(&mut self, packet: &[u8]) -> Option<()> {
        let header = usize::from(packet[0] & 15) * 4;
        let total = match usize::from(short(packet, 2)?) {
            // Segmentation offload leaves it out.
            0 => packet.len(),
            total => total.min(packet.len()),
        };
        let packet = packet.get(..total)?;
        let address = |at: usize| {
            let bytes = packet.get(at..)?.first_chunk()?;
            Some(0xffff_0000_0000 | u128::from(u32::from_be_bytes(*bytes)))
        };
        let addresses = [address(12)?, address(16)?];
        let field = short(packet, 6)?;
        let protocol = *packet.get(9)?;
        let (start, more) = (usize::from(field & 0x1fff) * 8, field & 0x2000 != 0);
        let payload = packet.get(header..)?;
        if start == 0 && !more {
            self.packet = packet.to_vec();
            return self.transport(addresses, protocol, payload);
        }
        let id = (addresses, u32::from(short(packet, 4)?), protocol);
        self.fragment(id, start, more, payload)
    }

    fn v6(&mut self, packet: &[u8]) -> Option<()> {
        let len = usize::from(short(packet, 4)?);
        let end = if len == 0 {
            packet.len()
        } else {
            (40 + len).min(packet.len())
        };
        let address = |at: usize| Some(u128::from_be_bytes(*packet.get(at..)?.first_chunk()?));
        let addresses = [address(8)?, address(24)?];
        let mut protocol = *packet.get(6)?;
        let mut rest = packet.get(40..end)?;
        loop {
            let len = match protocol {
                0 | 43 | 60 | 135 => 8 + usize::from(*rest.get(1)?) * 8,
                51 => 8 + usize::from(*rest.get(1)?) * 4,
                44 => {
                    let field = short(rest, 2)?;
                    let id = u32::from_be_bytes(*rest.get(4..)?.first_chunk()?);
                    let id = (addresses, id, *rest.first()?);
                    let (start, more) = (usize::from(field & 0xfff8), field & 1 != 0);
                    return self.fragment(id, start, more, rest.get(8..)?);
                }
                _ => {
                    self.packet = packet.get(..end)?.to_vec();
                    return self.transport(addresses, protocol, rest);
                }
            };
            protocol = *rest.first()?;
            rest = rest.get(len..)?;
        }
    }

    fn fragment(&mut self, id: Datagram, start: usize, more: bool, bytes: &[u8]) -> Option<()> {
        let (pieces, end) = self.fragments.entry(id).or_default();
        pieces.push((start, bytes.to_vec()));
        if !more {
            *end = Some(start + bytes.len());
        }
        let end = (*end)?;
        pieces.sort_by_key(|piece| piece.0);
        let mut whole = vec![0; end];
        let mut covered = 0;
        for (start, bytes) in pieces.iter() {
            if *start > covered {
                return None;
            }
            let to = (start + bytes.len()).min(end);
            if to > covered {
                whole[covered..to].copy_from_slice(&bytes[covered - start..to - start]);
                covered = to;
            }
        }
        if covered < end {
            return None;
        }
        self.fragments.remove(&id);
        self.packet.clear();
        let (addresses, _, protocol) = id;
        self.transport(addresses, protocol, &whole)
    }

    fn transport(&mut self, addresses: [u128; 2], protocol: u8, rest: &[u8]) -> Option<()> {
        match protocol {
            6 => {
                let header = usize::from(rest.get(12)? >> 4) * 4;
                let sequence = u32::from_be_bytes(*rest.get(4..)?.first_chunk()?);
                self.seen.push(Seen {
                    addresses,
                    ports: [short(rest, 0)?, short(rest, 2)?],
                    tcp: Some((sequence, *rest.get(13)?)),
                    payload: rest.get(header.max(20)..)?.to_vec(),
                    packet: self.packet.clone(),
                    time_ms: self.time_ms,
                });
                Some(())
            }
            17 => self.udp(addresses, rest),
            4 | 41 => self.ip(rest),
            47 => {
                let flags = short(rest, 0)?;
                let len = 4 + [0x8000, 0x2000, 0x1000]
                    .map(|bit| usize::from(flags & bit != 0) * 4)
                    .iter()
                    .sum::<usize>();
                let len = len + usize::from(flags & 7 == 1 && flags & 0x80 != 0) * 4;
                self.ethertype(short(rest, 2)?, rest.get(len..)?)
            }
            // An authentication header.
            51 => {
                let len = 8 + usize::from(*rest.get(1)?) * 4;
                self.transport(addresses, *rest.first()?, rest.get(len..)?)
            }
            _ => None,
        }
    }

    fn udp(&mut self, addresses: [u128; 2], rest: &[u8]) -> Option<()> {
        let ports = [short(rest, 0)?, short(rest, 2)?];
        let len = match usize::from(short(rest, 4)?) {
            0..8 => rest.len(),
            len => len.min(rest.len()),
        };
        let payload = rest.get(8..len)?;
        let to = |port: u16| ports[1] == port || ports[0] == port;
        let before = self.seen.len();
        match () {
            () if to(4789) || to(8472) => {
                self.ethernet(payload.get(8..)?);
            }
            () if to(2152) && payload.first()? >> 5 == 1 && *payload.get(1)? == 255 => {
                let has_more = payload.first()? & 7 != 0;
                self.ip(payload.get(if has_more { 12 } else { 8 }..)?);
            }
            () if to(3544) => {
                self.ip(payload);
            }
            () if to(6081) => {
                let options = usize::from(payload.first()? & 0x3f) * 4;
                self.ethertype(short(payload, 2)?, payload.get(8 + options..)?);
            }
            () => {}
        }
        if self.seen.len() == before {
            self.seen.push(Seen {
                addresses,
                ports,
                tcp: None,
                payload: payload.to_vec(),
                packet: self.packet.clone(),
                time_ms: self.time_ms,
            });
        }
        Some(())
    }
}
