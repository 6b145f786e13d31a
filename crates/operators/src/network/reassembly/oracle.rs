//! A list of fragments for each datagram, sorted when it is looked at.

use std::collections::HashMap;

use super::ReassemblyLimits;
use super::key::{Key, Piece};
use crate::network::checksum::portable;
use crate::network::packet::{Burst, Packet, PacketError, Version};

/// The fragments of one datagram that wait.
struct Waiting<'a> {
    number: usize,
    /// `None`: given up.
    pieces: Option<Vec<Piece<'a>>>,
}

/// The datagrams of a burst and the packets that are no fragments, one after another.
pub(crate) fn reassemble(burst: &[u8], limits: ReassemblyLimits) -> Result<Vec<u8>, PacketError> {
    let mut output = Vec::new();
    let mut waiting: HashMap<[u64; 6], Waiting<'_>> = HashMap::new();
    for (number, packet) in Burst::new(burst).enumerate() {
        let Ok(packet) = Packet::parse(packet?) else {
            continue;
        };
        if packet.version() == Version::V4 && portable::checksum(packet.headers()) != 0 {
            continue;
        }
        if !packet.is_fragment() {
            output.extend(packet.bytes());
            continue;
        }
        let Ok(piece) = Piece::parse(packet) else {
            continue;
        };
        if piece.is_whole() {
            output.extend(joined(&[piece]));
            continue;
        }
        let key = flat(&piece.key);
        if !waiting.contains_key(&key) && waiting.len() == limits.datagrams_max as usize {
            let oldest = waiting.iter().min_by_key(|(_, waiting)| waiting.number);
            let oldest = *oldest.expect("not empty").0;
            waiting.remove(&oldest);
        }
        let entry = waiting.entry(key).or_insert(Waiting {
            number,
            pieces: Some(Vec::new()),
        });
        let Some(mut pieces) = entry.pieces.take() else {
            continue;
        };
        let is_again = |other: &Piece<'_>| {
            (other.start, other.payload, other.more) == (piece.start, piece.payload, piece.more)
        };
        if pieces.iter().any(is_again) {
            entry.pieces = Some(pieces);
            continue;
        }
        pieces.push(piece);
        pieces.sort_by_key(|piece| piece.start);
        if is_hopeless(&pieces, limits) {
            continue;
        }
        if !is_whole(&pieces) {
            entry.pieces = Some(pieces);
            continue;
        }
        let datagram = joined(&pieces);
        if is_congestion_right(&pieces) && Packet::parse(&datagram).is_ok() {
            output.extend(datagram);
            waiting.remove(&key);
        }
    }
    Ok(output)
}

fn flat(key: &Key) -> [u64; 6] {
    let [a, b, c, d] = key.addresses;
    [a, b, c, d, key.identification.into(), key.kind.into()]
}

/// Whether two of these, sorted, overlap, one lies behind the last, they are too many or too long.
fn is_hopeless(pieces: &[Piece<'_>], limits: ReassemblyLimits) -> bool {
    let overlaps = pieces
        .windows(2)
        .any(|pair| pair[0].end() > pair[1].start || !pair[0].more);
    let is_too_long = pieces.iter().any(|piece| piece.end() > 65_535);
    overlaps || is_too_long || pieces.len() > limits.fragments_max as usize
}

fn is_whole(pieces: &[Piece<'_>]) -> bool {
    let mut end = 0;
    let joins = pieces.iter().all(|piece| {
        let joins = piece.start == end;
        end = piece.end();
        joins
    });
    joins && pieces.last().is_some_and(|last| !last.more)
}

/// RFC 3168, 5.3.
fn is_congestion_right(pieces: &[Piece<'_>]) -> bool {
    let has = |ecn| pieces.iter().any(|piece| piece.ecn == ecn);
    !(has(3) && has(0))
}

/// The datagram of all its pieces, in order.
fn joined(pieces: &[Piece<'_>]) -> Vec<u8> {
    let first = &pieces[0];
    let mut datagram = first.headers.to_vec();
    let (at, next_header) = first.next_header;
    datagram[at] = next_header;
    let is_marked = pieces.iter().any(|piece| piece.ecn == 3);
    datagram.extend(pieces.iter().flat_map(|piece| piece.payload));
    let len = datagram.len();
    match first.version {
        Version::V4 => {
            datagram[1] |= if is_marked { 0b11 } else { 0 };
            datagram[2..4].copy_from_slice(&(len as u16).to_be_bytes());
            datagram[6] &= 0b1100_0000;
            datagram[7] = 0;
            datagram[10..12].fill(0);
            let sum = portable::checksum(&datagram[..first.headers.len()]);
            datagram[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        Version::V6 => {
            datagram[1] |= if is_marked { 0b11_0000 } else { 0 };
            datagram[4..6].copy_from_slice(&((len - 40) as u16).to_be_bytes());
        }
    }
    datagram
}
