//! A slot of a ring: 64 bytes of a header, then a frame.
//!
//! | bytes | field |
//! |---|---|
//! | 0, 1 | the frame's length |
//! | 2 | a port, 0 here |
//! | 48 to 55 | the time of arrival in picoseconds |
//! | 63 | bit 7: the consumer owns the slot; the other bits: the message's type |
//! | from 64 | the frame, without its check sequence |

/// Bytes of a header.
pub(super) const HEADER_BYTES: usize = 64;
/// The word with the frame's length.
pub(super) const LENGTH_WORD: usize = 0;
/// The word with the time of arrival.
pub(super) const TIMESTAMP_WORD: usize = 6;
/// The byte with owner and type.
pub(super) const OWN_TYPE_BYTE: usize = 63;
/// The bit of that byte by which the consumer owns the slot.
pub(super) const CONSUMER_OWNS: u8 = 0x80;
/// The longest frame, by the width of its length.
pub(super) const FRAME_BYTES_MAX: usize = u16::MAX as usize;

/// A message that only bears a time.
pub(super) const SYNC: u8 = 0x00;
/// The last message of a side.
pub(super) const TERMINATE: u8 = 0x01;
/// A frame.
pub(super) const PACKET: u8 = 0x40;

/// The fields of a header that Ethernet uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// Without the owner's bit.
    pub(super) message_type: u8,
    pub(super) timestamp_ps: u64,
    /// Bytes of the frame.
    pub(super) frame_bytes: u16,
}

impl Header {
    /// The word at the start of the slot.
    pub(super) fn length_word(&self) -> u64 {
        u64::from(self.frame_bytes)
    }

    /// The length in the word at the start of a slot.
    pub(super) fn length_of(word: u64) -> u16 {
        let [low, high, ..] = word.to_le_bytes();
        u16::from_le_bytes([low, high])
    }
}
