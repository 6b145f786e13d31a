//! What both formats have in common: numbers in two byte orders, packets, and errors that say where in the file.

use std::io;

use super::super::{BYTES_MAX, FRAME_HEADER};

/// Magic number of files with microseconds, in the byte order of the machine that wrote the file.
pub(super) const MAGIC_US: u32 = 0xA1B2_C3D4;
/// Magic number of files with nanoseconds.
pub(super) const MAGIC_NS: u32 = 0xA1B2_3C4D;
/// Ethernet frames (LINKTYPE_ETHERNET).
pub(super) const LINK_ETHERNET: u32 = 1;
/// Longest record that is read or written: as long as libpcap takes.
pub(super) const RECORD_BYTES_MAX: u32 = 262_144;

/// A format of capture files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The classic format (draft-ietf-opsawg-pcap).
    Pcap(ByteOrder, Resolution),
    /// The next generation (draft-ietf-opsawg-pcapng), with the byte order of its section. Written with nanoseconds; what is read has the
    /// resolution of each of its interfaces.
    PcapNg(ByteOrder),
}

/// The byte order of numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ByteOrder {
    /// Little endian, as x86 and Arm.
    #[default]
    Little,
    /// Big endian, as networks.
    Big,
}

/// The unit of times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Resolution {
    /// Microseconds, as most programs write.
    Microseconds,
    /// Nanoseconds, as some programs write.
    #[default]
    Nanoseconds,
}

/// A packet out of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The time at which it came, in nanoseconds since 1970.
    pub time_ns: u64,
    /// The bytes of the packet that were kept, without check sequence.
    pub bytes: Vec<u8>,
    /// Bytes that it had.
    pub original_len: u32,
    /// The number of the interface at which it came, in its section of the file. 0 where the format knows no interfaces.
    pub interface: u32,
}

/// What stands in front of a packet's bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub(super) time_ns: u64,
    /// Bytes that were kept, without the check sequence if that was kept, too.
    pub(super) len: usize,
    /// Bytes that there were, as `len` counts them. Some writers leave it 0.
    pub(super) original_len: u32,
    pub(super) interface: u32,
    /// The kind of its frames.
    pub(super) link: u32,
    /// Bytes that follow the packet's.
    pub(super) behind: u32,
    /// In pcapng, what the length behind these has to be.
    pub(super) trailer: Option<u32>,
}

impl Head {
    /// True if it is all of an Ethernet frame, as a port may hand it out.
    pub(super) fn is_whole(&self) -> bool {
        let is_cut = (self.len as u64) < u64::from(self.original_len);
        self.link == LINK_ETHERNET && !is_cut && (FRAME_HEADER..=BYTES_MAX).contains(&self.len)
    }

    /// Leaves the last `bytes` out, which are the frame's check sequence, if they are there.
    pub(super) fn without_check_sequence(mut self, bytes: u32) -> Self {
        let (kept, had) = (self.len as u32, self.original_len.max(self.len as u32));
        // What was cut may have lost it already.
        let there = (kept + bytes).saturating_sub(had).min(bytes).min(kept);
        self.len -= there as usize;
        self.behind += there;
        self.original_len = self.original_len.saturating_sub(bytes);
        self
    }
}

impl ByteOrder {
    pub(super) fn u16(self, bytes: [u8; 2]) -> u16 {
        match self {
            Self::Little => u16::from_le_bytes(bytes),
            Self::Big => u16::from_be_bytes(bytes),
        }
    }

    pub(super) fn u32(self, bytes: [u8; 4]) -> u32 {
        match self {
            Self::Little => u32::from_le_bytes(bytes),
            Self::Big => u32::from_be_bytes(bytes),
        }
    }

    pub(super) fn i64(self, bytes: [u8; 8]) -> i64 {
        match self {
            Self::Little => i64::from_le_bytes(bytes),
            Self::Big => i64::from_be_bytes(bytes),
        }
    }

    pub(super) fn bytes(self, number: u32) -> [u8; 4] {
        match self {
            Self::Little => number.to_le_bytes(),
            Self::Big => number.to_be_bytes(),
        }
    }

    pub(super) fn bytes_of_two(self, number: u16) -> [u8; 2] {
        match self {
            Self::Little => number.to_le_bytes(),
            Self::Big => number.to_be_bytes(),
        }
    }

    /// `N` words that lie one behind another.
    pub(super) fn words<const N: usize>(self, bytes: &[u8]) -> [u32; N] {
        let (words, _) = bytes.as_chunks::<4>();
        std::array::from_fn(|i| words.get(i).map_or(0, |&word| self.u32(word)))
    }
}

pub(super) fn invalid(why: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.into())
}

pub(super) fn not_ethernet(link: u32) -> io::Error {
    invalid(format!("packets of link type {link}, not of Ethernet (1)"))
}

/// The error of a packet that says that it is longer than any.
pub(super) fn too_many(len: u32, at: u64) -> io::Error {
    invalid(format!(
        "a packet of {len} bytes, more than {RECORD_BYTES_MAX} (before byte {at})"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(len: usize, original_len: u32) -> Head {
        Head {
            time_ns: 0,
            len,
            original_len,
            interface: 0,
            link: LINK_ETHERNET,
            behind: 0,
            trailer: None,
        }
    }

    #[test]
    fn what_is_not_whole_or_too_long_is_no_packet() {
        let max = BYTES_MAX as u32;
        for (kept, had) in [(BYTES_MAX, max), (60, 0), (14, 14)] {
            assert!(head(kept, had).is_whole(), "{kept} of {had}");
        }
        for (kept, had) in [(BYTES_MAX + 1, max + 1), (13, 13), (0, 0), (96, 1514)] {
            assert!(!head(kept, had).is_whole(), "{kept} of {had}");
        }
        let mut other = head(60, 60);
        other.link = 113;
        assert!(!other.is_whole());
    }

    #[test]
    fn check_sequences_are_left_out_as_far_as_they_were_kept() {
        // Kept, had; kept and had without it; bytes that are passed over.
        let cases = [
            ((64, 64), (60, 60), 4),
            ((62, 64), (60, 60), 2),
            ((60, 64), (60, 60), 0),
            ((40, 64), (40, 60), 0),
            ((64, 0), (60, 0), 4),
            ((3, 3), (0, 0), 3),
            ((0, 0), (0, 0), 0),
        ];
        for ((kept, had), right, behind) in cases {
            let head = head(kept, had).without_check_sequence(4);
            assert_eq!((head.len, head.original_len), right, "{kept} {had}");
            assert_eq!(head.behind, behind, "{kept} {had}");
        }
    }
}
