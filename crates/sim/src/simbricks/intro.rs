//! The two intros of the handshake, as bytes: little-endian 64-bit words, and behind them four bytes in which Ethernet says nothing.

use std::fmt;
use std::ops::Range;

use super::message::HEADER_BYTES;

/// The protocol's version.
const VERSION: u64 = 1;
/// The number of Ethernet among the protocols above.
const NETWORK: u64 = 1;
/// Bytes that Ethernet adds to an intro.
const UPPER_BYTES: usize = 4;
/// Rings and their slots begin at multiples of this many bytes, so that a slot's words can be read and written whole.
pub(super) const ALIGNMENT: u64 = 8;
/// The bit of an intro's flags by which a side offers to be synchronised.
pub(super) const FLAG_OFFERED: u64 = 1;
/// The bit by which it requires that.
pub(super) const FLAG_FORCED: u64 = 2;

/// The direction of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the listener to the connecter.
    ToConnecter,
    /// From the connecter to the listener.
    ToListener,
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ToConnecter => "the ring to the connecter",
            Self::ToListener => "the ring to the listener",
        })
    }
}

/// The reason why bytes are no intro of Ethernet in version 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IntroError {
    /// There are too few bytes, or too many.
    #[error("{bytes} bytes, not {expected}")]
    Length {
        /// Bytes that came.
        bytes: usize,
        /// Bytes of such an intro.
        expected: usize,
    },
    /// It is of another version.
    #[error("version {0}, not 1")]
    Version(u64),
    /// Flags are set that have no meaning.
    #[error("flags {0:#x}, of which only 1 and 2 have a meaning")]
    Flags(u64),
    /// The protocol above is not Ethernet.
    #[error("protocol {0}, not 1, Ethernet")]
    Protocol(u64),
    /// The protocol above begins somewhere else than behind the intro.
    #[error("the protocol above begins at byte {offset}, not at {expected}")]
    UpperOffset {
        /// The offset that came.
        offset: u64,
        /// The offset of such an intro.
        expected: u64,
    },
    /// A ring's entries are shorter than a message's header.
    #[error("{ring} has entries of {bytes} bytes, fewer than 64")]
    EntryTooShort {
        /// The ring.
        ring: Direction,
        /// Bytes of an entry.
        bytes: u64,
    },
    /// A ring has no entries.
    #[error("{ring} has no entries")]
    NoEntries {
        /// The ring.
        ring: Direction,
    },
    /// A ring, or its entries, would not begin at words.
    #[error("{ring} has entries of {entry_bytes} bytes at {offset}: not multiples of 8")]
    Misaligned {
        /// The ring.
        ring: Direction,
        /// The ring's first byte.
        offset: u64,
        /// Bytes of an entry.
        entry_bytes: u64,
    },
    /// A ring ends beyond the last number that there is.
    #[error("{ring} has {entries} entries of {entry_bytes} bytes at {offset}: too many")]
    TooLarge {
        /// The ring.
        ring: Direction,
        /// The ring's first byte.
        offset: u64,
        /// Bytes of an entry.
        entry_bytes: u64,
        /// Entries.
        entries: u64,
    },
    /// The rings share bytes.
    #[error("the two rings overlap")]
    Overlap,
    /// A ring lies outside of the shared memory.
    #[error("{ring} ends at byte {end} of a shared memory of {memory_bytes} bytes")]
    Outside {
        /// The ring.
        ring: Direction,
        /// The byte behind the ring.
        end: u64,
        /// Bytes of the shared memory.
        memory_bytes: u64,
    },
}

/// The place of a ring in the shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingPlace {
    /// Its first byte.
    pub offset: u64,
    /// Bytes of an entry: 64 of a header, the rest for a frame.
    pub entry_bytes: u64,
    /// Entries.
    pub entries: u64,
}

impl RingPlace {
    /// The bytes of the ring.
    ///
    /// # Errors
    /// Entries that do not hold a header, none of them, a place that is not aligned to words, or beyond all numbers.
    pub fn bytes(&self, ring: Direction) -> Result<Range<u64>, IntroError> {
        let Self {
            offset,
            entry_bytes,
            entries,
        } = *self;
        if entry_bytes < HEADER_BYTES as u64 {
            let bytes = entry_bytes;
            return Err(IntroError::EntryTooShort { ring, bytes });
        }
        if entries == 0 {
            return Err(IntroError::NoEntries { ring });
        }
        if offset % ALIGNMENT != 0 || entry_bytes % ALIGNMENT != 0 {
            return Err(IntroError::Misaligned {
                ring,
                offset,
                entry_bytes,
            });
        }
        let end = entry_bytes.checked_mul(entries);
        let end = end.and_then(|bytes| bytes.checked_add(offset));
        let end = end.ok_or(IntroError::TooLarge {
            ring,
            offset,
            entry_bytes,
            entries,
        })?;
        Ok(offset..end)
    }
}

/// The listener's message: the rings, and if it wants to be synchronised. 84 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenerIntro {
    /// Bit 0: synchronisation is offered; bit 1: it is required.
    pub flags: u64,
    /// The ring in which the listener sends.
    pub to_connecter: RingPlace,
    /// The ring in which the connecter sends.
    pub to_listener: RingPlace,
}

impl ListenerIntro {
    /// Words before the part of the protocol above.
    const WORDS: usize = 10;
    /// Bytes of the whole message.
    pub const BYTES: usize = Self::WORDS * 8 + UPPER_BYTES;

    /// The message's bytes.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let (forth, back) = (self.to_connecter, self.to_listener);
        let words: [u64; Self::WORDS] = [
            VERSION,
            self.flags,
            forth.offset,
            forth.entry_bytes,
            forth.entries,
            back.offset,
            back.entry_bytes,
            back.entries,
            NETWORK,
            Self::WORDS as u64 * 8,
        ];
        written(&words)
    }

    /// The message that `bytes` are.
    ///
    /// # Errors
    /// Any field that is not right in itself. [`check_inside`](Self::check_inside) has the rest.
    pub fn decode(bytes: &[u8]) -> Result<Self, IntroError> {
        let words: [u64; Self::WORDS] = words(bytes)?;
        let [version, flags, o1, b1, n1, o2, b2, n2, protocol, upper] = words;
        check_ends(bytes.len(), &words, [version, flags, protocol, upper])?;
        let place = |offset, entry_bytes, entries| RingPlace {
            offset,
            entry_bytes,
            entries,
        };
        let intro = Self {
            flags,
            to_connecter: place(o1, b1, n1),
            to_listener: place(o2, b2, n2),
        };
        let forth = intro.to_connecter.bytes(Direction::ToConnecter)?;
        let back = intro.to_listener.bytes(Direction::ToListener)?;
        if forth.start < back.end && back.start < forth.end {
            return Err(IntroError::Overlap);
        }
        Ok(intro)
    }

    /// Checks that the rings lie in a shared memory of that size.
    ///
    /// # Errors
    /// One does not.
    pub fn check_inside(&self, memory_bytes: u64) -> Result<(), IntroError> {
        let rings = [
            (Direction::ToConnecter, self.to_connecter),
            (Direction::ToListener, self.to_listener),
        ];
        for (ring, place) in rings {
            let end = place.bytes(ring)?.end;
            if end > memory_bytes {
                return Err(IntroError::Outside {
                    ring,
                    end,
                    memory_bytes,
                });
            }
        }
        Ok(())
    }
}

/// The connecter's message. 36 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnecterIntro {
    /// Bit 0: synchronisation is offered; bit 1: it is required.
    pub flags: u64,
}

impl ConnecterIntro {
    /// Words before the part of the protocol above.
    const WORDS: usize = 4;
    /// Bytes of the whole message.
    pub const BYTES: usize = Self::WORDS * 8 + UPPER_BYTES;

    /// The message's bytes.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let words: [u64; Self::WORDS] = [VERSION, self.flags, NETWORK, Self::WORDS as u64 * 8];
        written(&words)
    }

    /// The message that `bytes` are.
    ///
    /// # Errors
    /// Any field that is not right.
    pub fn decode(bytes: &[u8]) -> Result<Self, IntroError> {
        let words: [u64; Self::WORDS] = words(bytes)?;
        let flags = words[1];
        check_ends(bytes.len(), &words, words)?;
        Ok(Self { flags })
    }
}

/// `words` as bytes, and zeros up to the message's length.
fn written<const BYTES: usize>(words: &[u64]) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

/// The words at the start of a message. The version is looked at first: another one may have another length.
fn words<const WORDS: usize>(bytes: &[u8]) -> Result<[u64; WORDS], IntroError> {
    let (chunks, _) = bytes.as_chunks();
    if let Some(&version) = chunks.first()
        && u64::from_le_bytes(version) != VERSION
    {
        return Err(IntroError::Version(u64::from_le_bytes(version)));
    }
    let too_short = IntroError::Length {
        bytes: bytes.len(),
        expected: WORDS * 8 + UPPER_BYTES,
    };
    let chunks = chunks.first_chunk::<WORDS>().ok_or(too_short)?;
    Ok(chunks.map(u64::from_le_bytes))
}

/// Checks the fields that both intros have, of a message of `bytes` bytes that begins with `words`.
fn check_ends(
    bytes: usize,
    words: &[u64],
    [version, flags, protocol, upper]: [u64; 4],
) -> Result<(), IntroError> {
    if version != VERSION {
        return Err(IntroError::Version(version));
    }
    if protocol != NETWORK {
        return Err(IntroError::Protocol(protocol));
    }
    if flags & !(FLAG_OFFERED | FLAG_FORCED) != 0 {
        return Err(IntroError::Flags(flags));
    }
    let header_bytes = words.len() * 8;
    if upper != header_bytes as u64 {
        return Err(IntroError::UpperOffset {
            offset: upper,
            expected: header_bytes as u64,
        });
    }
    let expected = header_bytes + UPPER_BYTES;
    if bytes != expected {
        return Err(IntroError::Length { bytes, expected });
    }
    Ok(())
}
