//! Headers of TCP over IPv4 over Ethernet, written and read.

use std::net::Ipv4Addr;

use dpb_core::random::SplitMix64;

use crate::tcp::{Flags, SACK_BLOCKS_MAX, Segment, SequenceNumbers, Timestamps};

use super::frame::{HEAD_BYTES_MAX, TCP};

/// The addresses of one end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address {
    /// The address of Ethernet.
    pub mac: [u8; 6],
    /// The address of IPv4.
    pub ip: Ipv4Addr,
    /// The port of TCP.
    pub port: u16,
}

/// The sequence numbers of both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbers {
    /// Those of the end that sends.
    pub own: SequenceNumbers,
    /// Those of the end that receives.
    pub peer: SequenceNumbers,
}

/// The shift of windows that SYNs announce (RFC 7323): windows up to 16 MiB.
const WINDOW_SHIFT: u8 = 8;
const LAYER4: usize = 34;
const OPTIONS: usize = LAYER4 + 20;

/// Bits of TCP's flags.
const WIRE_FLAGS: [(Flags, u8); 3] = [(Flags::FIN, 1), (Flags::SYN, 2), (Flags::ACK, 16)];

/// Writes the headers of a segment, without checksums; returns their length.
pub fn write(
    from: &Address,
    to: &Address,
    segment: &Segment,
    numbers: Numbers,
    head: &mut [u8; HEAD_BYTES_MAX],
) -> usize {
    head.fill(0);
    head[..6].copy_from_slice(&to.mac);
    head[6..12].copy_from_slice(&from.mac);
    head[12..16].copy_from_slice(&[8, 0, 0x45, 0]);
    let total = segment.ipv4_bytes() as u16;
    head[16..18].copy_from_slice(&total.to_be_bytes());
    // Don't fragment; 64 hops.
    head[20] = 0x40;
    head[22] = 64;
    head[23] = TCP;
    head[26..30].copy_from_slice(&from.ip.octets());
    head[30..34].copy_from_slice(&to.ip.octets());
    head[34..36].copy_from_slice(&from.port.to_be_bytes());
    head[36..38].copy_from_slice(&to.port.to_be_bytes());
    let sequence = numbers.own.to_wire(segment.sequence);
    head[38..42].copy_from_slice(&sequence.to_be_bytes());
    if segment.is_ack() {
        let acknowledgement = numbers.peer.to_wire(segment.acknowledgement);
        head[42..46].copy_from_slice(&acknowledgement.to_be_bytes());
    }
    let options = segment.option_bytes() as usize;
    head[46] = ((20 + options) as u8 / 4) << 4;
    for (flag, bit) in WIRE_FLAGS {
        if segment.flags.contains(flag) {
            head[47] |= bit;
        }
    }
    let shift = if segment.is_syn() { 0 } else { WINDOW_SHIFT };
    let window = (segment.window >> shift).min(u32::from(u16::MAX)) as u16;
    head[48..50].copy_from_slice(&window.to_be_bytes());
    write_options(segment, numbers, &mut head[OPTIONS..OPTIONS + options]);
    OPTIONS + options
}

/// Options in Linux's order; what is left is filled with no-operations.
fn write_options(segment: &Segment, numbers: Numbers, room: &mut [u8]) {
    room.fill(1);
    let mut at = 0;
    let mut put = |bytes: &[u8]| {
        room[at..at + bytes.len()].copy_from_slice(bytes);
        at += bytes.len();
    };
    if segment.is_syn() {
        put(&[2, 4]);
        put(&segment.mss.to_be_bytes());
        put(&[3, 3, WINDOW_SHIFT, 1]);
    }
    let is_permitted = segment.flags.contains(Flags::SACK_PERMITTED);
    if let Some(Timestamps { value, echo }) = segment.timestamps() {
        put(if is_permitted { &[4, 2] } else { &[1, 1] });
        put(&[8, 10]);
        put(&value.to_be_bytes());
        put(&echo.to_be_bytes());
    } else if is_permitted {
        put(&[4, 2, 1, 1]);
    }
    let blocks = segment.sack_blocks().count();
    if blocks > 0 {
        put(&[1, 1, 5, 2 + 8 * blocks as u8]);
        for (start, end) in segment.sack_blocks() {
            for position in [start, end] {
                put(&numbers.peer.to_wire(position).to_be_bytes());
            }
        }
    }
}

/// True if these headers are of a segment that opens a connection: a SYN that acknowledges nothing.
pub fn opens(head: &[u8]) -> bool {
    head.get(47).is_some_and(|flags| flags & (2 | 16) == 2)
}

/// A number that the addresses of a direction determine: its payload's seed, and its first sequence number.
pub fn seed(from: Address, to: Address) -> u64 {
    let end = |it: Address| u64::from(u32::from(it.ip)) << 16 | u64::from(it.port);
    let mut random = SplitMix64::new(end(from));
    let first = random.next_u64();
    SplitMix64::new(first ^ end(to)).next_u64()
}

/// The ports of a TCP segment or a UDP datagram, source first.
pub fn ports(head: &[u8]) -> Option<(u16, u16)> {
    let bytes = head.get(LAYER4..LAYER4 + 4)?;
    let port = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
    Some((port(0), port(2)))
}

/// The sequence number of a segment, as on the wire.
pub fn sequence(head: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(head.get(38..42)?.try_into().ok()?))
}

/// Reads a segment's headers. `numbers` are those of its sender; `near` are positions near its sequence number and near its acknowledgement. `None` if the
/// headers are not well-formed.
pub fn read(head: &[u8], payload_len: u32, numbers: Numbers, near: (u64, u64)) -> Option<Segment> {
    let fixed = head.get(LAYER4..OPTIONS)?;
    let word = |at: usize| u32::from_be_bytes(fixed[at..at + 4].try_into().expect("four bytes"));
    let options = head.get(OPTIONS..LAYER4 + usize::from(fixed[12] >> 4) * 4)?;
    let mut flags = Flags::NONE;
    for (flag, bit) in WIRE_FLAGS {
        if fixed[13] & bit != 0 {
            flags = flags.with(flag);
        }
    }
    let shift = if flags.contains(Flags::SYN) {
        0
    } else {
        WINDOW_SHIFT
    };
    let mut segment = Segment {
        sequence: numbers.own.from_wire(word(4), near.0),
        acknowledgement: 0,
        window: u32::from(u16::from_be_bytes([fixed[14], fixed[15]])) << shift,
        payload_len,
        flags,
        ..Segment::default()
    };
    if segment.is_ack() {
        segment.acknowledgement = numbers.peer.from_wire(word(8), near.1);
    }
    read_options(options, numbers, &mut segment)?;
    Some(segment)
}

fn read_options(mut options: &[u8], numbers: Numbers, segment: &mut Segment) -> Option<()> {
    while let Some((&kind, rest)) = options.split_first() {
        match kind {
            0 => break,
            1 => {
                options = rest;
                continue;
            }
            _ => {}
        }
        let bytes = usize::from(*rest.first()?);
        let value = options.get(2..bytes)?;
        options = &options[bytes..];
        let word = |at: usize| Some(u32::from_be_bytes(value.get(at..at + 4)?.try_into().ok()?));
        match kind {
            2 => segment.mss = u16::from_be_bytes(value.try_into().ok()?),
            4 => segment.flags = segment.flags.with(Flags::SACK_PERMITTED),
            5 => {
                for block in 0..(value.len() / 8).min(SACK_BLOCKS_MAX) {
                    let near = segment.acknowledgement;
                    let [start, end] = [word(8 * block)?, word(8 * block + 4)?]
                        .map(|number| numbers.peer.from_wire(number, near));
                    segment.push_sack_block(start, end);
                }
            }
            8 => segment.set_timestamps(Timestamps {
                value: word(0)?,
                echo: word(4)?,
            }),
            _ => {}
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_come_back_as_they_went() {
        let address = |last: u8, port| Address {
            mac: [2, 0, 0, 0, 0, last],
            ip: Ipv4Addr::new(10, 0, 0, last),
            port,
        };
        let (from, to) = (address(1, 5001), address(2, 80));
        let mut random = SplitMix64::new(5);
        for _ in 0..10_000 {
            let mut number = |below: u64| random.next_u64() % below;
            let numbers = Numbers {
                own: SequenceNumbers {
                    initial: number(1 << 32) as u32,
                },
                peer: SequenceNumbers {
                    initial: number(1 << 32) as u32,
                },
            };
            let is_syn = number(4) == 0;
            let mut segment = Segment {
                sequence: number(1 << 40),
                acknowledgement: number(1 << 40),
                window: number(0xffff) as u32 * if is_syn { 1 } else { 256 },
                payload_len: number(1460) as u32,
                flags: Flags::ACK,
                ..Segment::default()
            };
            if is_syn {
                segment.flags = segment.flags.with(Flags::SYN);
                segment.mss = number(9000) as u16;
            }
            if number(2) == 0 {
                segment.flags = segment.flags.with(Flags::FIN);
            }
            if is_syn && number(2) == 0 {
                segment.flags = segment.flags.with(Flags::SACK_PERMITTED);
            }
            if number(2) == 0 {
                segment.set_timestamps(Timestamps {
                    value: number(1 << 32) as u32,
                    echo: number(1 << 32) as u32,
                });
            }
            for _ in 0..if is_syn { 0 } else { number(4) } {
                let start = segment.acknowledgement + 1 + number(1 << 20);
                segment.push_sack_block(start, start + 1 + number(1 << 20));
            }
            let mut head = [0; HEAD_BYTES_MAX];
            let bytes = write(&from, &to, &segment, numbers, &mut head);
            assert_eq!(
                bytes,
                14 + (segment.ipv4_bytes() - segment.payload_len) as usize
            );
            assert_eq!(ports(&head[..bytes]), Some((5001, 80)));
            let near = (
                segment.sequence + number(1 << 30),
                segment.acknowledgement + number(1 << 30),
            );
            let read = read(&head[..bytes], segment.payload_len, numbers, near);
            assert_eq!(read, Some(segment));
            // Cut short, it is refused, or read as what is left; it never panics.
            let short = number(bytes as u64) as usize;
            let _ = super::read(&head[..short], 0, numbers, near);
        }
    }
}
