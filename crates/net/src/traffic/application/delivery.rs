//! How a stream is cut into segments, and in which order these are sent.

use std::ops::Range;

/// Named ways to send the same bytes. What arrives makes the same stream each time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Delivery {
    /// Segments as long as they may be, in order.
    #[default]
    Whole,
    /// A first segment of so many bytes, then the rest.
    SplitAt(usize),
    /// Segments of so many bytes; 1 is a segment for each byte.
    Segments(usize),
    /// Segments of so many bytes, the last one first.
    Backwards(usize),
    /// Segments of so many bytes, each pair swapped.
    Swapped(usize),
    /// Segments of so many bytes, each of which begins with the last half of the one before.
    Overlapping(usize),
    /// Segments of so many bytes, each sent twice: again behind the one that follows it.
    Retransmitted(usize),
}

impl Delivery {
    /// The pieces of `len` bytes in the order in which they are sent, none longer than `segment_bytes_max`.
    pub fn pieces(self, len: usize, segment_bytes_max: usize) -> Vec<Range<usize>> {
        let max = segment_bytes_max.max(1);
        let cut = |bytes: usize| cut(0..len, bytes.clamp(1, max));
        match self {
            Self::Whole => cut(max),
            Self::SplitAt(at) => {
                let at = at.min(len);
                let mut pieces = self::cut(0..at, max);
                pieces.extend(self::cut(at..len, max));
                pieces
            }
            Self::Segments(bytes) => cut(bytes),
            Self::Backwards(bytes) => cut(bytes).into_iter().rev().collect(),
            Self::Swapped(bytes) => {
                let mut pieces = cut(bytes);
                pieces.chunks_exact_mut(2).for_each(|pair| pair.swap(0, 1));
                pieces
            }
            Self::Overlapping(bytes) => {
                let bytes = bytes.clamp(1, max);
                let begin = |piece: Range<usize>| piece.start.saturating_sub(bytes / 2)..piece.end;
                // The part that is new is shorter, so that the whole stays below the limit.
                self::cut(0..len, bytes.div_ceil(2))
                    .into_iter()
                    .map(begin)
                    .collect()
            }
            Self::Retransmitted(bytes) => {
                let pieces = cut(bytes);
                let mut sent = Vec::with_capacity(2 * pieces.len());
                for (i, piece) in pieces.iter().enumerate() {
                    sent.push(piece.clone());
                    if i > 0 {
                        sent.push(pieces[i - 1].clone());
                    }
                }
                sent.extend(pieces.last().cloned());
                sent
            }
        }
    }
}

fn cut(range: Range<usize>, bytes: usize) -> Vec<Range<usize>> {
    let end = range.end;
    range
        .step_by(bytes)
        .map(|start| start..(start + bytes).min(end))
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_delivery() -> impl Strategy<Value = Delivery> {
        (0usize..7, 1usize..400).prop_map(|(kind, bytes)| match kind {
            0 => Delivery::Whole,
            1 => Delivery::SplitAt(bytes),
            2 => Delivery::Segments(bytes),
            3 => Delivery::Backwards(bytes),
            4 => Delivery::Swapped(bytes),
            5 => Delivery::Overlapping(bytes),
            _ => Delivery::Retransmitted(bytes),
        })
    }

    proptest! {
        /// All bytes are sent, in pieces that are neither empty nor too long.
        #[test]
        fn all_of_it_is_sent(delivery in any_delivery(), len in 0usize..600, max in 1usize..500) {
            let pieces = delivery.pieces(len, max);
            let mut sent = vec![false; len];
            for piece in &pieces {
                prop_assert!(!piece.is_empty() && piece.len() <= max, "{:?}", pieces);
                sent[piece.clone()].fill(true);
            }
            prop_assert!(sent.iter().all(|sent| *sent), "{:?}", pieces);
        }
    }

    #[test]
    fn the_named_ways() {
        let of = |delivery: Delivery| {
            let pieces = delivery.pieces(5, 100);
            pieces
                .into_iter()
                .map(|piece| (piece.start, piece.end))
                .collect::<Vec<_>>()
        };
        assert_eq!(of(Delivery::Whole), [(0, 5)]);
        assert_eq!(of(Delivery::SplitAt(1)), [(0, 1), (1, 5)]);
        assert_eq!(of(Delivery::Segments(2)), [(0, 2), (2, 4), (4, 5)]);
        assert_eq!(of(Delivery::Backwards(2)), [(4, 5), (2, 4), (0, 2)]);
        assert_eq!(of(Delivery::Swapped(2)), [(2, 4), (0, 2), (4, 5)]);
        assert_eq!(of(Delivery::Overlapping(4)), [(0, 2), (0, 4), (2, 5)]);
        assert_eq!(
            of(Delivery::Retransmitted(3)),
            [(0, 3), (3, 5), (0, 3), (3, 5)]
        );
    }
}
