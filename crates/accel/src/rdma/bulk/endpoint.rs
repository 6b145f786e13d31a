//! The endpoint of a ring, as one side describes it to the other.
//!
//! | field | bytes | |
//! |---|---|---|
//! | version | 1 | 1 |
//! | MTU | 1 | 1 for 256 bytes to 5 for 4096 |
//! | LID | 2 | little endian, as all that follows |
//! | queue pair, first packet number | 4, 4 | |
//! | GID | 16 | zeros without one |
//! | key, address | 4, 8 | the ring's; zeros in an answer |
//! | pieces, bytes of a piece | 4, 4 | likewise |
//! | stand-in | the rest | what emulates the device, if something does; UTF-8 |

use dpb_core::Unsupported;

use super::{PIECE_BYTES, PIECES, unsupported};

const VERSION: u8 = 1;
/// Bytes of an encoded endpoint before the stand-in's name, and most bytes of that name.
const FIXED_BYTES: usize = 48;
const STAND_IN_BYTES_MAX: usize = 64;

/// One side's queue pair, and its ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Endpoint {
    pub(super) mtu: u8,
    pub(super) lid: u16,
    pub(super) qp_num: u32,
    pub(super) psn: u32,
    pub(super) gid: [u8; 16],
    pub(super) rkey: u32,
    pub(super) address: u64,
    pub(super) pieces: u32,
    pub(super) piece_bytes: u32,
    pub(super) stand_in: Option<String>,
}

impl Endpoint {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut words = vec![VERSION, self.mtu];
        words.extend(self.lid.to_le_bytes());
        words.extend(self.qp_num.to_le_bytes());
        words.extend(self.psn.to_le_bytes());
        words.extend(self.gid);
        words.extend(self.rkey.to_le_bytes());
        words.extend(self.address.to_le_bytes());
        words.extend(self.pieces.to_le_bytes());
        words.extend(self.piece_bytes.to_le_bytes());
        words.extend(self.stand_in.as_deref().unwrap_or_default().bytes());
        words
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Unsupported> {
        let none = || unsupported(&"the peer's words for its ring are none that this dpb knows");
        let (words, stand_in) = bytes.split_first_chunk::<FIXED_BYTES>().ok_or_else(none)?;
        let stand_in = std::str::from_utf8(stand_in).map_err(|_| none())?;
        let is_name = stand_in.len() <= STAND_IN_BYTES_MAX && !stand_in.contains(char::is_control);
        if words[0] != VERSION || !(1..=5).contains(&words[1]) || !is_name {
            return Err(none());
        }
        let mut rest = &words[2..];
        Ok(Self {
            mtu: words[1],
            lid: u16::from_le_bytes(next(&mut rest)),
            qp_num: u32::from_le_bytes(next(&mut rest)) & 0xff_ffff,
            psn: u32::from_le_bytes(next(&mut rest)) & 0xff_ffff,
            gid: next(&mut rest),
            rkey: u32::from_le_bytes(next(&mut rest)),
            address: u64::from_le_bytes(next(&mut rest)),
            pieces: u32::from_le_bytes(next(&mut rest)),
            piece_bytes: u32::from_le_bytes(next(&mut rest)),
            stand_in: Some(stand_in.to_owned()).filter(|name| !name.is_empty()),
        })
    }

    /// The endpoint of an offer, if a sender here can fill its ring.
    pub(super) fn with_ring(self) -> Result<Self, Unsupported> {
        let bytes = u64::from(self.pieces) * u64::from(self.piece_bytes);
        let fits = (1..=PIECES).contains(&self.pieces)
            && (1..=PIECE_BYTES).contains(&(self.piece_bytes as usize))
            && self.address.checked_add(bytes).is_some();
        match fits {
            true => Ok(self),
            false => Err(unsupported(&format!(
                "a ring of {} pieces of {} bytes; at most {PIECES} of {PIECE_BYTES} are written to",
                self.pieces, self.piece_bytes
            ))),
        }
    }
}

/// The next bytes of words, whose length was checked.
fn next<const N: usize>(rest: &mut &[u8]) -> [u8; N] {
    let (bytes, later) = rest.split_first_chunk().expect("words are long enough");
    *rest = later;
    *bytes
}

#[cfg(test)]
impl Endpoint {
    pub(super) fn of_a_test() -> Self {
        Self {
            mtu: 3,
            lid: 0x102,
            qp_num: 0x30405,
            psn: 0x60708,
            gid: [9; 16],
            rkey: 0xa0b0_c0d0,
            address: 0x7fff_1234_5000,
            pieces: PIECES,
            piece_bytes: PIECE_BYTES as u32,
            stand_in: Some("soft-RoCE (rxe)".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_mean_the_same_on_both_sides() {
        let real = Endpoint {
            stand_in: None,
            ..Endpoint::of_a_test()
        };
        for words in [Endpoint::of_a_test(), real] {
            let bytes = words.encode();
            assert_eq!(Endpoint::decode(&bytes).as_ref(), Ok(&words));
            assert_eq!(words.clone().with_ring(), Ok(words));
        }
        assert_eq!(
            Endpoint::of_a_test().encode()[..8],
            [1, 3, 2, 1, 5, 4, 3, 0]
        );
    }

    #[test]
    fn words_of_strangers_are_refused() {
        let good = Endpoint::of_a_test().encode();
        for end in 0..FIXED_BYTES {
            assert!(Endpoint::decode(&good[..end]).is_err(), "{end}");
        }
        for (at, byte) in [
            (0, 2),
            (1, 0),
            (1, 6),
            (FIXED_BYTES, 0xff),
            (FIXED_BYTES, 7),
        ] {
            let mut forged = good.clone();
            forged[at] = byte;
            assert!(Endpoint::decode(&forged).is_err(), "{at}: {byte}");
        }
        let long = Endpoint {
            stand_in: Some("x".repeat(STAND_IN_BYTES_MAX + 1)),
            ..Endpoint::of_a_test()
        };
        assert!(Endpoint::decode(&long.encode()).is_err());
    }

    #[test]
    fn rings_that_no_sender_has_room_for_are_refused() {
        let good = Endpoint::of_a_test();
        for wrong in [
            Endpoint {
                pieces: 0,
                ..good.clone()
            },
            Endpoint {
                pieces: PIECES + 1,
                ..good.clone()
            },
            Endpoint {
                piece_bytes: 0,
                ..good.clone()
            },
            Endpoint {
                piece_bytes: u32::MAX,
                ..good.clone()
            },
            Endpoint {
                address: u64::MAX - 100,
                ..good.clone()
            },
        ] {
            assert!(wrong.clone().with_ring().is_err(), "{wrong:?}");
        }
        let smaller = Endpoint {
            pieces: 2,
            piece_bytes: 100,
            ..good
        };
        assert!(smaller.with_ring().is_ok());
    }
}
