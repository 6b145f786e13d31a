//! Ethernet frames, as parts hand them on.
//!
//! The headers of a frame are bytes, as on the wire. Its payload mostly is not: it is a piece of a stream whose bytes are a function of the
//! stream's seed and of the offset, and is written out only where somebody looks: an operator, a capture, a peer outside, a bit that is flipped. So
//! nothing is made up, and nothing is copied that nobody reads.

use std::net::Ipv4Addr;

use super::journey::Journey;

/// An Ethernet frame without its frame check sequence, and what has become of it.
#[derive(Clone, Debug)]
pub struct Frame {
    head: [u8; HEAD_BYTES_MAX],
    head_bytes: u8,
    trailer_bytes: u8,
    /// True if the checksum of the layer-4 header is to be filled in when bytes are written out.
    is_unsummed: bool,
    body: Body,
    trailer: [u8; TRAILER_BYTES_MAX],
    /// The way of the frame so far.
    pub journey: Journey,
}

/// Longest headers: Ethernet, IPv4, and TCP with 40 bytes of options.
pub const HEAD_BYTES_MAX: usize = 14 + 20 + 60;
/// Longest trailer: a digest of 64 bytes, and a mark of 16.
pub const TRAILER_BYTES_MAX: usize = 80;
/// Shortest Ethernet frame without its frame check sequence (IEEE 802.3): shorter ones are padded.
pub const FRAME_BYTES_MIN: usize = 60;

/// The payload of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Body {
    /// A piece of a stream.
    Stream(Stream, u32),
    /// Bytes: they came from outside, or were changed.
    Bytes(Vec<u8>),
}

/// A place in a stream whose bytes are a function of the seed and of the offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// The stream's seed.
    pub seed: u64,
    /// The offset of the first byte.
    pub offset: u64,
}

impl Stream {
    /// Appends bytes from this place on. Eight bytes are one number of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014), whose *i*-th is a
    /// function of the seed and *i*.
    pub fn write(self, bytes: usize, out: &mut Vec<u8>) {
        out.reserve(bytes);
        let end = self.offset + bytes as u64;
        let mut at = self.offset;
        while at < end {
            let word = self.word(at / 8).to_le_bytes();
            let from = (at % 8) as usize;
            let to = (8 - from).min((end - at) as usize) + from;
            out.extend_from_slice(&word[from..to]);
            at += (to - from) as u64;
        }
    }

    /// True if these bytes stand at this place.
    pub fn holds(self, bytes: &[u8]) -> bool {
        let mut at = self.offset;
        bytes.iter().all(|&byte| {
            let is_it = self.word(at / 8).to_le_bytes()[(at % 8) as usize] == byte;
            at += 1;
            is_it
        })
    }

    #[inline]
    fn word(self, number: u64) -> u64 {
        let step = 0x9e37_79b9_7f4a_7c15u64;
        let mut z = self
            .seed
            .wrapping_add(step.wrapping_mul(number.wrapping_add(1)));
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// The reason why bytes are no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoFrame {
    /// The number of bytes.
    pub bytes: usize,
}

impl Frame {
    /// A frame of these headers and a piece of a stream. The checksum of layer 4 is filled in when the frame is written out.
    ///
    /// # Panics
    /// If the headers are longer than [`HEAD_BYTES_MAX`].
    pub fn new(head: &[u8], stream: Stream, body_bytes: u32, now_ps: u64) -> Box<Self> {
        Self::over(None, head, stream, body_bytes, now_ps)
    }

    /// As [`Frame::new`], written over a frame that nobody needs any more, if there is one. Nothing of that frame is left, its way included.
    ///
    /// # Panics
    /// If the headers are longer than [`HEAD_BYTES_MAX`].
    #[inline]
    pub fn over(
        spent: Option<Box<Self>>,
        head: &[u8],
        stream: Stream,
        body_bytes: u32,
        now_ps: u64,
    ) -> Box<Self> {
        let body = Body::Stream(stream, body_bytes);
        match spent {
            None => Box::new(Self::of(head, body, true, now_ps)),
            // What lies behind the lengths is never read, so it is not written either.
            Some(mut frame) => {
                frame.head[..head.len()].copy_from_slice(head);
                frame.head_bytes = head.len() as u8;
                frame.trailer_bytes = 0;
                frame.is_unsummed = true;
                frame.body = body;
                frame.journey = Journey::begin(now_ps);
                frame
            }
        }
    }

    /// A frame that came from outside.
    ///
    /// # Errors
    /// [`NoFrame`] if there are fewer bytes than an Ethernet header has.
    pub fn from_bytes(bytes: &[u8], now_ps: u64) -> Result<Box<Self>, NoFrame> {
        if bytes.len() < ETHERNET_BYTES {
            return Err(NoFrame { bytes: bytes.len() });
        }
        let (head, body) = bytes.split_at(header_bytes(bytes));
        Ok(Box::new(Self::of(
            head,
            Body::Bytes(body.to_vec()),
            false,
            now_ps,
        )))
    }

    fn of(head: &[u8], body: Body, is_unsummed: bool, now_ps: u64) -> Self {
        let mut room = [0; HEAD_BYTES_MAX];
        room[..head.len()].copy_from_slice(head);
        Self {
            head: room,
            head_bytes: head.len() as u8,
            trailer_bytes: 0,
            is_unsummed,
            body,
            trailer: [0; TRAILER_BYTES_MAX],
            journey: Journey::begin(now_ps),
        }
    }

    /// The headers.
    pub fn head(&self) -> &[u8] {
        &self.head[..usize::from(self.head_bytes)]
    }

    /// The trailer, which is not a part of the IP packet.
    pub fn trailer(&self) -> &[u8] {
        &self.trailer[..usize::from(self.trailer_bytes)]
    }

    /// The bytes of the payload, without a trailer.
    pub fn body_bytes(&self) -> usize {
        match &self.body {
            Body::Stream(_, bytes) => *bytes as usize,
            Body::Bytes(bytes) => bytes.len(),
        }
    }

    /// The bytes behind the headers, without a trailer: those of a datagram may begin in [`Frame::head`].
    pub fn payload_bytes(&self) -> usize {
        let more = match self.is_datagram() {
            true => usize::from(self.head_bytes).saturating_sub(UDP_HEAD_BYTES),
            false => 0,
        };
        self.body_bytes() + more
    }

    /// The bytes of the frame with its trailer, without padding and frame check sequence.
    #[inline]
    pub fn bytes(&self) -> usize {
        usize::from(self.head_bytes) + self.body_bytes() + usize::from(self.trailer_bytes)
    }

    /// The destination address of Ethernet.
    pub fn destination(&self) -> [u8; 6] {
        self.head[..6].try_into().expect("six bytes")
    }

    /// The source address of Ethernet.
    pub fn source(&self) -> [u8; 6] {
        self.head[6..12].try_into().expect("six bytes")
    }

    /// True if the type of Ethernet says that it is an IPv4 packet, whatever the packet itself says.
    pub fn is_packet(&self) -> bool {
        self.head[12..14] == ETHERTYPE_IPV4
    }

    /// The addresses of IPv4, source first, and the protocol, if it is an IPv4 packet without options.
    pub fn ipv4(&self) -> Option<(Ipv4Addr, Ipv4Addr, u8)> {
        let head = self.head();
        let is_ipv4 = head.len() >= ETHERNET_BYTES + 20 && head[12..14] == ETHERTYPE_IPV4;
        let at = |from: usize| {
            Ipv4Addr::from(<[u8; 4]>::try_from(&head[from..from + 4]).expect("four bytes"))
        };
        is_ipv4.then(|| (at(26), at(30), head[23]))
    }

    /// True if it is a packet of UDP over IPv4.
    #[inline]
    pub fn is_datagram(&self) -> bool {
        self.head[23] == UDP && self.ipv4().is_some()
    }

    /// The bytes of Ethernet header and IPv4 packet together, as the IPv4 header says, with options or without; `None` if it is no IPv4 packet ([`Frame::is_packet`]), or ends before
    /// it says so.
    pub fn ipv4_end(&self) -> Option<usize> {
        let length = match &self.body {
            _ if !self.is_packet() => return None,
            _ if self.head().len() > ETHERNET_BYTES => self.head().get(16..18)?,
            Body::Bytes(bytes) => bytes.get(2..4)?,
            Body::Stream(..) => return None,
        };
        let total = u16::from_be_bytes([length[0], length[1]]);
        Some(ETHERNET_BYTES + usize::from(total))
    }

    /// True if the payload is what stands at this place of a stream.
    pub fn carries(&self, stream: Stream) -> bool {
        match &self.body {
            Body::Stream(own, _) => *own == stream,
            Body::Bytes(bytes) => stream.holds(bytes),
        }
    }

    /// Writes the frame out, after what `out` holds: headers with their checksums, payload, trailer. No padding.
    pub fn write(&self, out: &mut Vec<u8>) {
        self.write_packet(out);
        out.extend_from_slice(self.trailer());
    }

    /// As [`Frame::write`], without the trailer.
    pub fn write_packet(&self, out: &mut Vec<u8>) {
        let from = out.len();
        out.extend_from_slice(self.head());
        match &self.body {
            Body::Stream(stream, bytes) => stream.write(*bytes as usize, out),
            Body::Bytes(bytes) => out.extend_from_slice(bytes),
        }
        if self.is_unsummed {
            sum(&mut out[from..]);
        }
    }

    /// Appends to the trailer.
    ///
    /// # Panics
    /// If the trailer is then longer than [`TRAILER_BYTES_MAX`].
    pub fn append(&mut self, trailer: &[u8]) {
        let from = usize::from(self.trailer_bytes);
        self.trailer[from..from + trailer.len()].copy_from_slice(trailer);
        self.trailer_bytes += trailer.len() as u8;
    }

    /// Makes so many of the last bytes the trailer, if the frame came from outside with a trailer among its bytes; a frame that has its trailer already
    /// is left as it is. Returns the trailer, or `None` if the frame has not so many bytes behind its headers.
    pub fn split_trailer(&mut self, bytes: usize) -> Option<&[u8]> {
        let more = bytes.saturating_sub(usize::from(self.trailer_bytes));
        if more > 0 {
            let body = match &mut self.body {
                Body::Bytes(body) if body.len() >= more && bytes <= TRAILER_BYTES_MAX => body,
                _ => return None,
            };
            let moved = body.split_off(body.len() - more);
            let old = self.trailer;
            self.trailer[..more].copy_from_slice(&moved);
            let kept = usize::from(self.trailer_bytes);
            self.trailer[more..bytes].copy_from_slice(&old[..kept]);
            self.trailer_bytes = bytes as u8;
        }
        let trailer = self.trailer();
        Some(&trailer[trailer.len() - bytes..])
    }

    /// Takes the trailer off.
    pub fn strip(&mut self) {
        self.trailer_bytes = 0;
    }

    /// Cuts padding: bytes behind the IPv4 packet that are no trailer.
    pub fn cut_padding(&mut self) {
        let Some(end) = self.ipv4_end() else { return };
        let head_bytes = usize::from(self.head_bytes);
        if let Body::Bytes(body) = &mut self.body {
            body.truncate(end.saturating_sub(head_bytes).min(body.len()));
        }
    }

    /// Pads the packet with zeros to at least so many bytes, before a trailer is put behind it.
    pub fn pad(&mut self, bytes: usize) {
        let missing = bytes.saturating_sub(usize::from(self.head_bytes) + self.body_bytes());
        if missing == 0 {
            return;
        }
        let mut body = Vec::with_capacity(self.body_bytes() + missing);
        let mut packet = Vec::new();
        self.write_packet(&mut packet);
        let head_bytes = usize::from(self.head_bytes);
        self.head[..head_bytes].copy_from_slice(&packet[..head_bytes]);
        self.is_unsummed = false;
        body.extend_from_slice(&packet[head_bytes..]);
        body.resize(body.len() + missing, 0);
        self.body = Body::Bytes(body);
    }

    /// Flips a bit of the frame as it lies on the wire: bit `number % 8` of byte `number / 8`, counted from the first byte. Checksums are what they
    /// were before. Headers and payload are then what the bytes say, as those of a frame that came from outside, and a trailer is among them.
    ///
    /// # Panics
    /// If the frame has no such byte.
    pub fn flip(&mut self, number: usize) {
        let mut bytes = Vec::with_capacity(self.bytes());
        self.write(&mut bytes);
        bytes[number / 8] ^= 1 << (number % 8);
        let (head, body) = bytes.split_at(header_bytes(&bytes));
        *self = Self {
            journey: std::mem::take(&mut self.journey),
            ..Self::of(head, Body::Bytes(body.to_vec()), false, 0)
        };
    }

    /// True if the checksums of the IPv4 header and of TCP or UDP are right. A frame whose payload nobody wrote out has right ones. Of a packet with options nobody looks at them.
    pub fn is_sum_right(&self) -> bool {
        if self.is_unsummed || self.ipv4().is_none() {
            return true;
        }
        let mut packet = Vec::with_capacity(self.bytes());
        self.write_packet(&mut packet);
        let Some(end) = self.ipv4_end() else {
            return true;
        };
        if end > packet.len() || end < ETHERNET_BYTES + 20 {
            return false;
        }
        packet.truncate(end);
        let is_whole = u16::from_be_bytes([packet[20], packet[21]]) & 0x3fff == 0;
        if is_whole && matches!(packet[23], TCP | UDP) && header_bytes(&packet) == 34 {
            return false;
        }
        let before = packet.clone();
        sum(&mut packet);
        let has_none = packet[23] == UDP && before[40..42] == [0, 0];
        before == packet || has_none && before[..40] == packet[..40]
    }
}

/// Headers of Ethernet, IPv4 and UDP.
pub const UDP_HEAD_BYTES: usize = 14 + 20 + 8;
const ETHERNET_BYTES: usize = 14;
const ETHERTYPE_IPV4: [u8; 2] = [8, 0];
/// IP's number of TCP.
pub const TCP: u8 = 6;
/// IP's number of UDP.
pub const UDP: u8 = 17;

/// The bytes of a frame that are headers: Ethernet, IPv4, TCP or UDP, as far as they are there and well-formed.
fn header_bytes(frame: &[u8]) -> usize {
    let mut bytes = ETHERNET_BYTES;
    if frame[12..14] != ETHERTYPE_IPV4 || frame.len() < bytes + 20 {
        return bytes;
    }
    let ipv4_bytes = usize::from(frame[14] & 15) * 4;
    if frame[14] >> 4 != 4 || ipv4_bytes != 20 {
        return bytes;
    }
    bytes += ipv4_bytes;
    let fragment = u16::from_be_bytes([frame[20], frame[21]]) & 0x3fff;
    let layer4_bytes = match (fragment, frame[23]) {
        (0, TCP) => frame.get(bytes + 12).map(|it| usize::from(it >> 4) * 4),
        (0, UDP) => Some(8),
        _ => None,
    };
    match layer4_bytes {
        Some(more) if (8..=60).contains(&more) && frame.len() >= bytes + more => bytes + more,
        _ => bytes,
    }
}

/// Fills in the checksums of IPv4 (RFC 791) and of TCP (RFC 9293) or UDP (RFC 768) of a frame without trailer and padding; the header lengths are those that
/// [`header_bytes`] finds.
fn sum(frame: &mut [u8]) {
    let head_bytes = header_bytes(frame);
    if head_bytes < ETHERNET_BYTES + 20 {
        return;
    }
    frame[24..26].fill(0);
    let header = !fold(add(0, &frame[14..34]));
    frame[24..26].copy_from_slice(&header.to_be_bytes());
    let field = match frame[23] {
        TCP if head_bytes > 34 => 50,
        UDP if head_bytes > 34 => 40,
        _ => return,
    };
    frame[field..field + 2].fill(0);
    let layer4_bytes = frame.len() - 34;
    let pseudo = add(u64::from(frame[23]) + layer4_bytes as u64, &frame[26..34]);
    let mut checksum = !fold(add(pseudo, &frame[34..]));
    if frame[23] == UDP && checksum == 0 {
        checksum = 0xffff;
    }
    frame[field..field + 2].copy_from_slice(&checksum.to_be_bytes());
}

fn add(mut sum: u64, bytes: &[u8]) -> u64 {
    let mut words = bytes.chunks_exact(4);
    for word in &mut words {
        let word = u32::from_be_bytes(word.try_into().expect("four bytes"));
        sum += u64::from(word);
    }
    for (at, &byte) in words.remainder().iter().enumerate() {
        sum += u64::from(byte) << if at % 2 == 0 { 8 } else { 0 };
    }
    sum
}

fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::super::journey::{Leg, Place};
    use super::*;

    /// A TCP segment or a UDP datagram of five bytes.
    fn stream_frame(protocol: u8) -> Box<Frame> {
        let layer4: &[u8] = match protocol {
            TCP => &[
                0x13, 0x88, 0x14, 0x51, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x10, 1, 0, 0, 0, 0, 0,
            ],
            _ => &[0x13, 0x88, 0x14, 0x51, 0, 13, 0, 0],
        };
        let total = (20 + layer4.len() + 5) as u16;
        let mut head = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0];
        head.extend(total.to_be_bytes());
        head.extend([0, 0, 0x40, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        head.extend(layer4);
        let stream = Stream { seed: 7, offset: 3 };
        Frame::new(&head, stream, 5, 100)
    }

    /// The sum of RFC 1071 over all 16-bit words, slowly.
    fn slow_sum(bytes: &[u8]) -> u16 {
        let mut sum = 0u32;
        for pair in bytes.chunks(2) {
            sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum as u16
    }

    #[test]
    fn checksums_come_out_as_all_ones() {
        for protocol in [TCP, UDP] {
            let frame = stream_frame(protocol);
            let mut bytes = Vec::new();
            frame.write(&mut bytes);
            assert_eq!(slow_sum(&bytes[14..34]), 0xffff);
            let mut pseudo = bytes[26..34].to_vec();
            pseudo.extend([0, protocol]);
            pseudo.extend(((bytes.len() - 34) as u16).to_be_bytes());
            pseudo.extend(&bytes[34..]);
            assert_eq!(slow_sum(&pseudo), 0xffff);
            assert_eq!(bytes.len(), frame.bytes());
            assert!(frame.is_sum_right());
        }
    }

    #[test]
    fn streams_are_the_same_from_every_offset() {
        let mut whole = Vec::new();
        Stream { seed: 9, offset: 0 }.write(100, &mut whole);
        let mut random = dpb_core::random::SplitMix64::new(9);
        assert_eq!(whole[..8], random.next_u64().to_le_bytes());
        assert_eq!(whole[8..16], random.next_u64().to_le_bytes());
        for from in 0..40 {
            for to in from..100 {
                let stream = Stream {
                    seed: 9,
                    offset: from as u64,
                };
                let mut part = Vec::new();
                stream.write(to - from, &mut part);
                assert_eq!(part, whole[from..to]);
                assert!(stream.holds(&part));
            }
        }
        assert!(!Stream { seed: 9, offset: 1 }.holds(&whole));
    }

    #[test]
    fn bytes_and_back() {
        let mut frame = stream_frame(TCP);
        frame.append(&[1, 2, 3]);
        let mut bytes = Vec::new();
        frame.write(&mut bytes);
        let mut read = Frame::from_bytes(&bytes, 0).expect("a frame");
        assert_eq!(read.head(), &bytes[..54]);
        assert_eq!(read.split_trailer(3), Some(&[1, 2, 3][..]));
        assert_eq!(read.split_trailer(3), Some(&[1, 2, 3][..]));
        assert!(read.carries(Stream { seed: 7, offset: 3 }));
        assert!(read.is_sum_right());
        assert_eq!(read.split_trailer(9), None);
        read.strip();
        let mut again = Vec::new();
        read.write(&mut again);
        assert_eq!(again, bytes[..bytes.len() - 3]);
        assert_eq!(read.ipv4_end(), Some(59));
        assert!(Frame::from_bytes(&bytes[..13], 0).is_err());
    }

    #[test]
    fn padding_comes_and_goes() {
        let mut frame = stream_frame(UDP);
        let mut before = Vec::new();
        frame.write(&mut before);
        frame.pad(FRAME_BYTES_MIN);
        assert_eq!(frame.bytes(), 60);
        let mut padded = Vec::new();
        frame.write(&mut padded);
        assert_eq!(padded[..before.len()], before);
        assert!(frame.is_sum_right());
        frame.cut_padding();
        let mut after = Vec::new();
        frame.write(&mut after);
        assert_eq!(after, before);
    }

    #[test]
    fn nothing_is_left_of_a_frame_that_was_written_over() {
        let stream = Stream { seed: 7, offset: 9 };
        let head = [1; 60];
        let mut spent = Frame::new(&[2; 14], Stream { seed: 1, offset: 1 }, 700, 5);
        spent.journey.flow = 3;
        spent.journey.watch(4);
        spent.journey.pass(Place(1), Leg::Wire, 50);
        spent.append(&[8; 32]);
        spent.flip(100);
        let over = Frame::over(Some(spent), &head, stream, 100, 77);
        let fresh = Frame::new(&head, stream, 100, 77);
        for frame in [&over, &fresh] {
            assert_eq!((frame.head(), frame.trailer()), (&head[..], &[][..]));
            assert_eq!((frame.body_bytes(), frame.bytes()), (100, 160));
            assert!(frame.is_unsummed && frame.carries(stream));
            assert_eq!(frame.journey, Journey::begin(77));
        }
        let [over, fresh] = [over, fresh].map(|frame| {
            let mut bytes = Vec::new();
            frame.write(&mut bytes);
            bytes
        });
        assert_eq!(over, fresh);
    }

    #[test]
    fn each_bit_that_flips_is_seen() {
        let mut whole = Vec::new();
        let mut frame = stream_frame(TCP);
        frame.append(&[9; 8]);
        frame.write(&mut whole);
        for bit in 0..whole.len() * 8 {
            let mut flipped = frame.clone();
            flipped.flip(bit);
            let mut bytes = Vec::new();
            flipped.write(&mut bytes);
            let differ = bytes.iter().zip(&whole).map(|(a, b)| (a ^ b).count_ones());
            assert_eq!(differ.sum::<u32>(), 1);
            // Behind the addresses of Ethernet and its type, and before the trailer, one flipped bit is never summed away, unless the packet is none any more.
            let is_summed = (8 * 16..8 * 59).contains(&bit) && flipped.ipv4_end() == Some(59);
            let is_parsed = is_summed && bytes[14] == 0x45 && bytes[23] == TCP;
            if is_parsed {
                assert!(!flipped.is_sum_right(), "bit {bit}");
            }
        }
    }
}
