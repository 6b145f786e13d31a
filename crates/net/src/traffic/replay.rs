//! Captures played back: faster or slower, over and over, with other addresses.

use crate::packet::Change;

use super::permutation::Permutation;
use super::stamp::STAMP_BYTES;
use super::{FRAME_BYTES_MIN, Stamp, StampKey, Traffic, TrafficError};

/// How addresses are rewritten, so that each loop of a capture has flows of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rewrite {
    /// Not at all.
    Nothing,
    /// The last bits of IPv4 and IPv6 addresses are permuted: equal ones stay equal, so flows stay whole and both directions
    /// meet. Each loop has another permutation. Checksums stay right, or as wrong as they were.
    Addresses {
        /// Determines the permutations.
        seed: u64,
        /// Bits of IPv4 addresses that change, from the last: 2 to 32.
        v4_bits: u32,
        /// Bits of IPv6 addresses that change: 2 to 63.
        v6_bits: u32,
    },
}

/// A capture in memory. Packet *i* is the packet *i* modulo their number, so it is a function of *i* as a generator's is.
///
/// A frame is followed by a stamp behind its datagram, as padding of Ethernet lies there: what it carries is as it was captured.
#[derive(Clone, Debug)]
pub struct Replay {
    bytes: Vec<u8>,
    /// Where each packet ends in `bytes`.
    ends: Vec<usize>,
    /// When each was captured, from the first on, in nanoseconds.
    times_ns: Vec<u64>,
    frame_bytes_max: usize,
    rewrite: Option<[Permutation; 2]>,
}

impl Replay {
    /// The packets of a capture: when each came, in nanoseconds, and its bytes. Times that go back count as the one before.
    ///
    /// # Errors
    /// [`TrafficError::Capture`] if there is no packet, or one of no bytes; bits to be rewritten that are too few or too many.
    pub fn new<B: AsRef<[u8]>>(
        packets: impl IntoIterator<Item = (u64, B)>,
        rewrite: Rewrite,
    ) -> Result<Self, TrafficError> {
        let rewrite = match rewrite {
            Rewrite::Nothing => None,
            Rewrite::Addresses {
                seed,
                v4_bits,
                v6_bits,
            } => {
                if !(2..=32).contains(&v4_bits) || !(2..=63).contains(&v6_bits) {
                    return Err(TrafficError::Capture(
                        "is rewritten in 2 to 32 bits of IPv4 addresses and 2 to 63 of IPv6",
                    ));
                }
                Some([v4_bits, v6_bits].map(|bits| Permutation::of_bits(bits, seed)))
            }
        };
        let mut replay = Self {
            bytes: Vec::new(),
            ends: Vec::new(),
            times_ns: Vec::new(),
            frame_bytes_max: 0,
            rewrite,
        };
        let (mut first_ns, mut last_ns) = (None, 0);
        for (time_ns, packet) in packets {
            let packet = packet.as_ref();
            if packet.is_empty() {
                return Err(TrafficError::Capture("with a packet of no bytes"));
            }
            let first_ns = *first_ns.get_or_insert(time_ns);
            last_ns = time_ns.saturating_sub(first_ns).max(last_ns);
            replay.times_ns.push(last_ns);
            replay.bytes.extend_from_slice(packet);
            replay.ends.push(replay.bytes.len());
            replay.frame_bytes_max = replay.frame_bytes_max.max(stamped_bytes(packet.len()));
        }
        match replay.ends.is_empty() {
            true => Err(TrafficError::Capture("without a packet")),
            false => Ok(replay),
        }
    }

    /// Packets of the capture.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Never: there is a packet at least.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Packets a second of the capture; `None` if all came at once.
    pub fn packets_per_s(&self) -> Option<f64> {
        let last_ns = *self.times_ns.last()?;
        (last_ns > 0).then(|| (self.len() - 1) as f64 * 1e9 / last_ns as f64)
    }

    /// When packet `i` is due, in nanoseconds from the first, `speed` times as fast as it was captured. Between the last packet of a loop and the
    /// first of the next lies the mean gap.
    pub fn departure_ns(&self, i: u64, speed: f64) -> u64 {
        let len = self.len() as u64;
        let (turn, at) = (i / len, (i % len) as usize);
        let last_ns = self.times_ns[self.len() - 1];
        let gap_ns = last_ns.checked_div(len - 1).unwrap_or(0);
        let captured = turn as f64 * (last_ns + gap_ns) as f64 + self.times_ns[at] as f64;
        (captured / speed) as u64
    }

    /// Packet `i` as it was captured.
    pub fn captured(&self, i: u64) -> &[u8] {
        let at = (i % self.len() as u64) as usize;
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..self.ends[at]]
    }
}

/// Bytes of a frame with its stamp.
fn stamped_bytes(captured: usize) -> usize {
    (captured + STAMP_BYTES).max(FRAME_BYTES_MIN)
}

impl Traffic for Replay {
    fn frame_bytes(&self, i: u64) -> usize {
        stamped_bytes(self.captured(i).len())
    }

    fn frame_bytes_max(&self) -> usize {
        self.frame_bytes_max
    }

    fn write(&self, i: u64, departure_ns: u64, key: &StampKey, frame: &mut [u8]) {
        let captured = self.captured(i);
        let (packet, rest) = frame.split_at_mut(captured.len());
        packet.copy_from_slice(captured);
        rest.fill(0);
        if let Some(permutations) = &self.rewrite {
            rewrite(packet, permutations, i / self.len() as u64);
        }
        let stamp = Stamp {
            number: i,
            departure_ns,
            filler_bytes: 0,
        };
        key.write(stamp, frame);
    }

    fn has_filler(&self, _i: u64, filler: &[u8]) -> bool {
        filler.is_empty()
    }
}

/// Rewrites the addresses of an Ethernet frame. What cannot be read stays as it is.
fn rewrite(frame: &mut [u8], permutations: &[Permutation; 2], turn: u64) -> Option<()> {
    let mut at = 12;
    let mut kind = half(frame, at)?;
    // Tags: IEEE 802.1Q and 802.1ad.
    while matches!(kind, 0x8100 | 0x88a8) {
        at += 4;
        kind = half(frame, at)?;
    }
    let packet = &mut frame[at + 2..];
    let [v4, v6] = permutations;
    match kind {
        0x0800 => rewrite_v4(packet, v4, turn),
        0x86dd => rewrite_v6(packet, v6, turn),
        _ => None,
    }
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    let pair = bytes.get(at..at + 2)?;
    Some(u16::from_be_bytes([pair[0], pair[1]]))
}

/// The last bits of an address, permuted.
fn permuted(address: u64, permutation: &Permutation, turn: u64) -> u64 {
    let mask = permutation.len() - 1;
    address & !mask | permutation.apply(address & mask, turn)
}

fn rewrite_v4(packet: &mut [u8], permutation: &Permutation, turn: u64) -> Option<()> {
    let header_bytes = usize::from(packet.first()? & 0x0f) * 4;
    if packet[0] >> 4 != 4 || header_bytes < 20 || packet.len() < header_bytes {
        return None;
    }
    let protocol = packet[9];
    // Only a first fragment has layer 4's header.
    let is_first = half(packet, 6)? & 0x1fff == 0;
    let old: [u8; 8] = packet[12..20].try_into().ok()?;
    for at in [12, 16] {
        let address: [u8; 4] = packet[at..at + 4].try_into().ok()?;
        let new = permuted(u32::from_be_bytes(address).into(), permutation, turn);
        packet[at..at + 4].copy_from_slice(&(new as u32).to_be_bytes());
    }
    let new: [u8; 8] = packet[12..20].try_into().ok()?;
    update(packet, 10, &old, &new, false);
    if is_first {
        update_l4(&mut packet[header_bytes..], protocol, &old, &new);
    }
    Some(())
}

fn rewrite_v6(packet: &mut [u8], permutation: &Permutation, turn: u64) -> Option<()> {
    if packet.first()? >> 4 != 6 || packet.len() < 40 {
        return None;
    }
    let old: [u8; 32] = packet[8..40].try_into().ok()?;
    for at in [8, 24] {
        let address: [u8; 16] = packet[at..at + 16].try_into().ok()?;
        let address = u128::from_be_bytes(address);
        let low = permuted(address as u64, permutation, turn);
        let new = address >> 64 << 64 | u128::from(low);
        packet[at..at + 16].copy_from_slice(&new.to_be_bytes());
    }
    let new: [u8; 32] = packet[8..40].try_into().ok()?;
    let (mut protocol, mut at) = (packet[6], 40);
    loop {
        let (next, bytes) = match protocol {
            // Hop by hop, routing, destination options: a length in units of eight bytes.
            0 | 43 | 60 => {
                let next = *packet.get(at)?;
                (next, 8 + 8 * usize::from(*packet.get(at + 1)?))
            }
            // A fragment; only the first has layer 4's header.
            44 if half(packet, at + 2)? & 0xfff8 == 0 => (*packet.get(at)?, 8),
            44 => return Some(()),
            _ => break,
        };
        (protocol, at) = (next, at + bytes);
    }
    update_l4(packet.get_mut(at..)?, protocol, &old, &new);
    Some(())
}

/// The checksum of layer 4, of which the addresses are part.
fn update_l4(header: &mut [u8], protocol: u8, old: &[u8], new: &[u8]) {
    const TCP: u8 = 6;
    const UDP: u8 = 17;
    const ICMPV6: u8 = 58;
    match protocol {
        TCP => update(header, 16, old, new, false),
        UDP => update(header, 6, old, new, true),
        ICMPV6 => update(header, 2, old, new, false),
        _ => {}
    }
}

/// RFC 1624, equation 3: a checksum at `at`, with `new` in place of `old`. Where zero says that there is none, it stays zero and is never computed.
fn update(bytes: &mut [u8], at: usize, old: &[u8], new: &[u8], zero_is_none: bool) {
    let Some(sum) = half(bytes, at) else {
        return;
    };
    if zero_is_none && sum == 0 {
        return;
    }
    let mut change = Change::default();
    for (old, new) in old.as_chunks().0.iter().zip(new.as_chunks().0) {
        change = change + Change::of(u16::from_be_bytes(*old), u16::from_be_bytes(*new));
    }
    let mut sum = change.applied(sum);
    if zero_is_none && sum == 0 {
        sum = 0xffff;
    }
    bytes[at..at + 2].copy_from_slice(&sum.to_be_bytes());
}
