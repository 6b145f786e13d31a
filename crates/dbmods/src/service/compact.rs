//! Batches in fewer bytes, for links that are slower than a core.
//!
//! A message of a batch is mostly numbers of four or eight bytes whose upper bytes are alike. Its bytes are put in eight planes, byte *i* of
//! each eight in plane *i*, and the planes are compressed by LZ4: upper bytes all but vanish, lower ones stay. A frame's body is the
//! length of the message (4 bytes, little-endian) and LZ4's block. Of rows of `lineitem`'s keys and prices a third of the bytes stay.

use arrow_buffer::{Buffer, MutableBuffer};
use dpb_link::LinkError;

use crate::ipc::MESSAGE_BYTES_MAX;

/// The number of planes: bytes of the widest number.
const PLANES: usize = 8;
/// Bytes of the length.
const HEADER_BYTES: usize = 4;

/// Batches' worth of memory that a [`Compactor`] takes, at most: its planes, and the room that LZ4 asks for, which is a tenth more than these.
pub const COMPACTOR_BATCHES: usize = 3;

/// Makes messages compact, in memory that it keeps for the next one.
#[derive(Debug, Default)]
pub struct Compactor {
    planes: Vec<u8>,
    body: Vec<u8>,
}

impl Compactor {
    /// A message in fewer bytes, its parts one behind another; `None` if it would not become shorter.
    pub fn compact(&mut self, parts: &[&[u8]]) -> Option<&[u8]> {
        let bytes = parts.iter().map(|part| part.len()).sum();
        let most = HEADER_BYTES + lz4_flex::block::get_maximum_output_size(bytes);
        grow(&mut self.planes, bytes);
        grow(&mut self.body, most);
        let planes = &mut self.planes[..bytes];
        scatter(parts, planes);
        let (header, block) = self.body[..most].split_at_mut(HEADER_BYTES);
        header.copy_from_slice(&u32::try_from(bytes).ok()?.to_le_bytes());
        let packed = lz4_flex::block::compress_into(planes, block).ok()?;
        let body = &self.body[..HEADER_BYTES + packed];
        (body.len() < bytes).then_some(body)
    }
}

/// Makes messages whole again, in memory that it keeps for the next one.
#[derive(Debug, Default)]
pub struct Expander {
    planes: Vec<u8>,
    /// Memory of a message that nobody holds any more.
    spare: MutableBuffer,
}

impl Expander {
    /// The message of a body, at the beginning of the buffer, and its length.
    ///
    /// # Errors
    /// [`LinkError::Malformed`] of a body that no message became.
    pub fn expand(&mut self, body: &[u8]) -> Result<(Buffer, usize), LinkError> {
        let malformed = LinkError::Malformed("a compact batch");
        let Some((length, block)) = body.split_first_chunk::<HEADER_BYTES>() else {
            return Err(malformed);
        };
        let bytes = u32::from_le_bytes(*length) as usize;
        if bytes > MESSAGE_BYTES_MAX {
            return Err(malformed);
        }
        grow(&mut self.planes, bytes);
        let planes = &mut self.planes[..bytes];
        if !matches!(lz4_flex::block::decompress_into(block, planes), Ok(found) if found == bytes) {
            return Err(malformed);
        }
        let mut message = std::mem::take(&mut self.spare);
        if message.len() < bytes {
            message = MutableBuffer::from_len_zeroed(bytes);
        }
        gather(planes, &mut message.as_slice_mut()[..bytes]);
        Ok((message.into(), bytes))
    }

    /// Takes a buffer of [`Expander::expand`] back, to be used again, if nobody else holds a part of it.
    pub fn give_back(&mut self, message: Buffer) {
        if let Ok(bytes) = message.into_mutable() {
            self.spare = bytes;
        }
    }
}

/// Makes `room` as long as that at least.
fn grow(room: &mut Vec<u8>, bytes: usize) {
    if room.len() < bytes {
        // What is there is of no use, and is not copied.
        *room = vec![0; bytes];
    }
}

/// Byte *i* of each eight in plane *i*; what is left at the end stays behind them.
fn scatter(parts: &[&[u8]], planes: &mut [u8]) {
    let count = planes.len() / PLANES;
    let mut from = 0;
    for part in parts {
        // Parts of messages begin and end at multiples of eight; others would be right, too.
        let (words, _) = match from % PLANES {
            0 => part.as_chunks::<PLANES>(),
            _ => (&[][..], *part),
        };
        let first = from / PLANES;
        let words = &words[..words.len().min(count - first.min(count))];
        if !words.is_empty() {
            for (at, plane) in planes[..count * PLANES].chunks_exact_mut(count).enumerate() {
                for (byte, word) in plane[first..].iter_mut().zip(words) {
                    *byte = word[at];
                }
            }
        }
        for (at, byte) in part.iter().enumerate().skip(words.len() * PLANES) {
            let place = from + at;
            let place = match place < count * PLANES {
                true => place % PLANES * count + place / PLANES,
                false => place,
            };
            planes[place] = *byte;
        }
        from += part.len();
    }
}

/// The inverse of [`scatter`].
fn gather(planes: &[u8], message: &mut [u8]) {
    let count = planes.len() / PLANES;
    let (head, tail) = planes.split_at(count * PLANES);
    let (words, rest) = message.as_chunks_mut::<PLANES>();
    rest.copy_from_slice(tail);
    if count > 0 {
        for (at, plane) in head.chunks_exact(count).enumerate() {
            for (word, byte) in words.iter_mut().zip(plane) {
                word[at] = *byte;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn compact(parts: &[&[u8]]) -> Option<Vec<u8>> {
        Compactor::default().compact(parts).map(<[u8]>::to_vec)
    }

    fn expanded(body: &[u8]) -> Result<Vec<u8>, LinkError> {
        let (message, bytes) = Expander::default().expand(body)?;
        Ok(message[..bytes].to_vec())
    }

    #[test]
    fn messages_come_back_as_they_were_and_shorter() {
        for len in [0, 1, 7, 8, 9, 4096, 65_537] {
            let message: Vec<u8> = (0..len as u64).map(|at| ((at * at) >> 3) as u8).collect();
            if let Some(body) = compact(&[&message]) {
                assert_eq!(expanded(&body).unwrap(), message, "{len}");
            }
        }
        let numbers: Vec<u8> = (0..10_000u64)
            .flat_map(|at| (at * 7919 % 200_000).to_le_bytes())
            .collect();
        let (front, back) = numbers.split_at(12_345);
        let body = compact(&[front, back]).unwrap();
        assert!(body.len() * 2 < numbers.len(), "{}", body.len());
        assert_eq!(expanded(&body).unwrap(), numbers);
        assert_eq!(compact(&[&numbers]).unwrap(), body);
    }

    proptest! {
        #[test]
        fn parts_are_one_message_wherever_it_is_cut(
            message in prop::collection::vec(0..4_u8, 0..400),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6)
        ) {
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(message.len() + 1)).collect();
            cuts.sort_unstable();
            let mut parts = Vec::new();
            let mut from = 0;
            for cut in cuts.into_iter().chain([message.len()]) {
                parts.push(&message[from..cut]);
                from = cut;
            }
            let whole = compact(&[&message]);
            prop_assert_eq!(compact(&parts), whole.clone());
            if let Some(body) = whole {
                prop_assert_eq!(expanded(&body).unwrap(), message);
            }
        }
    }

    #[test]
    fn memory_is_used_again_and_is_no_more_than_what_is_reserved() {
        let large: Vec<u8> = (0..1 << 17).map(|at: u32| (at >> 9) as u8).collect();
        let mut compactor = Compactor::default();
        let mut expander = Expander::default();
        let body = compactor.compact(&[&large]).unwrap().to_vec();
        let held = compactor.planes.capacity() + compactor.body.capacity();
        assert!(held <= COMPACTOR_BATCHES * large.len(), "{held}");
        let places = (compactor.planes.as_ptr(), compactor.body.as_ptr());
        let (message, bytes) = expander.expand(&body).unwrap();
        assert_eq!(message[..bytes], large);
        let place = message.as_ptr();
        expander.give_back(message);
        // A shorter one has what a longer one had before it behind it, and none of it in it.
        let short = &large[..1000];
        let body = compactor.compact(&[short]).unwrap().to_vec();
        assert_eq!(places, (compactor.planes.as_ptr(), compactor.body.as_ptr()));
        let (message, bytes) = expander.expand(&body).unwrap();
        assert_eq!((message.as_ptr(), &message[..bytes]), (place, short));
        // Whoever holds a message keeps it.
        let held = message.clone();
        expander.give_back(message);
        let (other, _) = expander.expand(&body).unwrap();
        assert_ne!(other.as_ptr(), place);
        assert_eq!(held[..1000], *short);
    }

    #[test]
    fn bytes_that_no_message_became_are_refused() {
        let body = compact(&[&[0; 10_000]]).unwrap();
        for cut in 0..body.len() {
            assert!(expanded(&body[..cut]).is_err(), "{cut}");
        }
        let mut longer = body.clone();
        longer[0] ^= 1;
        assert!(expanded(&longer).is_err());
        let mut endless = body;
        endless[..4].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(expanded(&endless).is_err());
    }
}
