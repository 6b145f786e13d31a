//! A segment as the endpoints see it: positions, flags, options and a length, no bytes.

use std::fmt;

/// The length of an IPv4 header without options, in bytes.
pub const IPV4_HEADER_BYTES: u32 = 20;
/// The length of a TCP header without options, in bytes.
pub const TCP_HEADER_BYTES: u32 = 20;
/// The bytes that the timestamps option takes: ten, and two for alignment (RFC 7323, appendix A).
pub const TIMESTAMP_OPTION_BYTES: u32 = 12;
/// The most blocks of a SACK option: three, as timestamps leave room for no fourth (RFC 2018, section 3).
pub const SACK_BLOCKS_MAX: usize = 3;

/// The flags of a segment, and which options it has.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Flags(u8);

impl Flags {
    /// No flag.
    pub const NONE: Self = Self(0);
    /// The segment opens a connection; it takes position 0.
    pub const SYN: Self = Self(1);
    /// The acknowledgement is valid.
    pub const ACK: Self = Self(1 << 1);
    /// The stream ends behind the payload; this takes one position.
    pub const FIN: Self = Self(1 << 2);
    /// The timestamps option is there.
    pub const TIMESTAMPS: Self = Self(1 << 3);
    /// The option of a SYN that permits selective acknowledgements is there.
    pub const SACK_PERMITTED: Self = Self(1 << 4);

    /// True if all of `other` are set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Both sets of flags.
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [
            (Self::SYN, "SYN"),
            (Self::ACK, "ACK"),
            (Self::FIN, "FIN"),
            (Self::TIMESTAMPS, "TIMESTAMPS"),
            (Self::SACK_PERMITTED, "SACK_PERMITTED"),
        ];
        let mut set = f.debug_set();
        for (flag, name) in names {
            if self.contains(flag) {
                set.entry(&format_args!("{name}"));
            }
        }
        set.finish()
    }
}

/// The timestamps option (RFC 7323), in ticks of the sender's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Timestamps {
    /// The sender's clock when the segment left (TSval).
    pub value: u32,
    /// The value that is echoed (TSecr); valid with [`Flags::ACK`].
    pub echo: u32,
}

/// One segment, without its payload's bytes: 64 bytes, so that a queue of segments is one cache line each.
///
/// Positions count the stream with 64 bits and begin at 0, which is the SYN's; the first byte of data is at position 1.
/// [`SequenceNumbers`] gives the 32-bit numbers on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Segment {
    /// The position of the first thing in the segment.
    pub sequence: u64,
    /// The position that the sender of this segment expects next; valid with [`Flags::ACK`].
    pub acknowledgement: u64,
    pub(crate) timestamps: Timestamps,
    /// Bytes that may follow the acknowledgement, already scaled.
    pub window: u32,
    /// The payload's bytes.
    pub payload_len: u32,
    /// Starts and ends, counted from the acknowledgement.
    pub(crate) sack: [(u32, u32); SACK_BLOCKS_MAX],
    /// The flags, and which options there are.
    pub flags: Flags,
    pub(crate) sack_blocks: u8,
    /// The maximum segment size that a SYN announces (RFC 9293, section 3.7.1), in bytes.
    pub mss: u16,
}

impl Segment {
    /// True if the segment opens a connection.
    pub fn is_syn(&self) -> bool {
        self.flags.contains(Flags::SYN)
    }

    /// True if the acknowledgement is valid.
    pub fn is_ack(&self) -> bool {
        self.flags.contains(Flags::ACK)
    }

    /// True if the stream ends behind the payload.
    pub fn is_fin(&self) -> bool {
        self.flags.contains(Flags::FIN)
    }

    /// The positions that the segment takes: its payload, SYN and FIN.
    pub fn sequence_len(&self) -> u64 {
        u64::from(self.payload_len) + u64::from(self.is_syn()) + u64::from(self.is_fin())
    }

    /// The position behind the segment.
    pub fn end(&self) -> u64 {
        self.sequence + self.sequence_len()
    }

    /// The offset of the payload's first byte in the stream of data.
    pub fn stream_offset(&self) -> u64 {
        (self.sequence + u64::from(self.is_syn())).saturating_sub(1)
    }

    /// The timestamps option, if there is one.
    pub fn timestamps(&self) -> Option<Timestamps> {
        self.flags
            .contains(Flags::TIMESTAMPS)
            .then_some(self.timestamps)
    }

    /// Adds the timestamps option.
    pub fn set_timestamps(&mut self, timestamps: Timestamps) {
        self.flags = self.flags.with(Flags::TIMESTAMPS);
        self.timestamps = timestamps;
    }

    /// Adds a SACK block from `start` up to `end`, behind those that are there; false if there is no room, or if the block does not lie
    /// within 4 GiB behind the acknowledgement. The acknowledgement must be set before.
    pub fn push_sack_block(&mut self, start: u64, end: u64) -> bool {
        let relative = |position: u64| {
            let distance = position.checked_sub(self.acknowledgement)?;
            u32::try_from(distance).ok()
        };
        let at = usize::from(self.sack_blocks);
        let (Some(first), Some(last)) = (relative(start), relative(end)) else {
            return false;
        };
        if at == SACK_BLOCKS_MAX || first >= last {
            return false;
        }
        self.sack[at] = (first, last);
        self.sack_blocks += 1;
        true
    }

    /// The SACK blocks, each from its start up to its end, in the order of the option.
    pub fn sack_blocks(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.sack[..usize::from(self.sack_blocks)]
            .iter()
            .map(|&(start, end)| {
                (
                    self.acknowledgement + u64::from(start),
                    self.acknowledgement + u64::from(end),
                )
            })
    }

    /// The options' bytes in the TCP header, aligned as Linux does: of a SYN the maximum segment size, the window scale, permission of SACK
    /// and timestamps; of others timestamps and SACK blocks.
    pub fn option_bytes(&self) -> u32 {
        let timestamps = if self.flags.contains(Flags::TIMESTAMPS) {
            TIMESTAMP_OPTION_BYTES
        } else {
            0
        };
        if self.is_syn() {
            // MSS 4; window scale 3 and a filler; SACK permitted 2, which fills the timestamps' two, or needs two fillers.
            let permitted = self.flags.contains(Flags::SACK_PERMITTED);
            let alone = permitted && timestamps == 0;
            return 8 + timestamps + if alone { 4 } else { 0 };
        }
        timestamps + sack_option_bytes(usize::from(self.sack_blocks))
    }

    /// The length of the IPv4 packet that holds the segment, in bytes.
    pub fn ipv4_bytes(&self) -> u32 {
        IPV4_HEADER_BYTES + TCP_HEADER_BYTES + self.option_bytes() + self.payload_len
    }
}

/// The bytes that a SACK option of `blocks` blocks takes, with two for alignment.
pub fn sack_option_bytes(blocks: usize) -> u32 {
    if blocks == 0 {
        0
    } else {
        4 + 8 * blocks as u32
    }
}

/// The 32-bit numbers of one direction on the wire, which wrap, beside its 64-bit positions, which do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceNumbers {
    /// The number of position 0, which is the SYN's.
    pub initial: u32,
}

impl SequenceNumbers {
    /// The number on the wire of a position.
    pub fn to_wire(self, position: u64) -> u32 {
        self.initial.wrapping_add(position as u32)
    }

    /// The position nearest to `near` that has this number. It is right if the true one is less than 2 GiB away from `near`, as a receiver's
    /// next position is from all that a peer with a window below 1 GiB sends.
    pub fn from_wire(self, number: u32, near: u64) -> u64 {
        let distance = number.wrapping_sub(self.to_wire(near)) as i32;
        near.saturating_add_signed(i64::from(distance))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_one_cache_line() {
        assert_eq!(size_of::<Segment>(), 64);
    }

    #[test]
    fn numbers_on_the_wire_come_back_across_every_wrap() {
        let numbers = SequenceNumbers {
            initial: 0xffff_fff0,
        };
        assert_eq!(numbers.to_wire(0x10), 0);
        for position in [
            0u64,
            1,
            15,
            16,
            17,
            u64::from(u32::MAX),
            1 << 32,
            (1 << 40) + 12345,
        ] {
            for distance in [-(1i64 << 30), -1, 0, 1, 1 << 30] {
                let near = position.saturating_add_signed(distance);
                assert_eq!(
                    numbers.from_wire(numbers.to_wire(position), near),
                    position,
                    "{position} near {near}"
                );
            }
        }
    }

    #[test]
    fn sack_blocks_come_back_and_three_fit() {
        let mut segment = Segment {
            acknowledgement: 1 << 40,
            ..Segment::default()
        };
        let base = segment.acknowledgement;
        assert!(!segment.push_sack_block(base - 1, base + 5));
        assert!(!segment.push_sack_block(base + 5, base + 5));
        for block in 1..4 {
            assert!(segment.push_sack_block(base + block * 10, base + block * 10 + 5));
        }
        assert!(!segment.push_sack_block(base + 90, base + 95));
        let blocks: Vec<_> = segment
            .sack_blocks()
            .map(|(a, b)| (a - base, b - base))
            .collect();
        assert_eq!(blocks, [(10, 15), (20, 25), (30, 35)]);
    }

    #[test]
    fn headers_have_the_lengths_that_linux_gives_them() {
        // Captured lengths: a SYN of Linux is 60 bytes of IP, a pure acknowledgement 52, one with one SACK block 64.
        let mut syn = Segment {
            flags: Flags::SYN.with(Flags::SACK_PERMITTED),
            ..Segment::default()
        };
        assert_eq!(syn.ipv4_bytes(), 52);
        syn.set_timestamps(Timestamps::default());
        assert_eq!(syn.ipv4_bytes(), 60);
        let mut ack = Segment {
            flags: Flags::ACK,
            ..Segment::default()
        };
        ack.set_timestamps(Timestamps::default());
        assert_eq!(ack.ipv4_bytes(), 52);
        assert!(ack.push_sack_block(10, 20));
        assert_eq!(ack.ipv4_bytes(), 64);
    }
}
