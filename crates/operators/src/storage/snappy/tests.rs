//! Both ways with another implementation, elements by hand, and hostile items on both decoders.

use proptest::prelude::*;
use snap::raw::Decoder;

use dpb_core::Input;

use super::*;
use crate::input;
use crate::storage::repeats::inputs;

/// The output of both decoders for an item, in a slot of `slot_bytes` bytes.
fn decoded(item: &[u8], slot_bytes: usize) -> Result<Vec<u8>, JobError> {
    let right = portable::decode(item, slot_bytes);
    let mut slot = vec![0; slot_bytes];
    let fast = decode(item, &mut slot).map(|len| slot[..len].to_vec());
    match (&fast, &right) {
        (Err(_), Err(_)) => {}
        _ => assert_eq!(fast, right, "of {} bytes", item.len()),
    }
    right
}

/// The output of each encoder for `plain`: snap's, the portable one's, ours.
fn encoded(plain: &[u8]) -> [Vec<u8>; 3] {
    let room = compressed_bytes_max(plain.len());
    let snap = |slot: &mut [u8]| Ok(Encoder::new().compress(plain, slot).expect("room"));
    [
        inputs::stream(room, snap),
        inputs::stream(room, |slot| portable::encode(plain, slot, &mut [0; _])),
        inputs::stream(room, |slot| words::encode(plain, slot, &mut [0; _])),
    ]
}

/// The stream of each encoder decodes to `plain`, on both decoders.
fn assert_comes_back(plain: &[u8]) {
    for item in encoded(plain) {
        assert!(
            decoded(&item, plain.len()).as_deref() == Ok(plain),
            "{} bytes",
            plain.len()
        );
    }
}

#[test]
fn ours_comes_back_here_and_in_another_implementation() {
    for len in (0..70).chain([
        255, 256, 257, 1000, 4097, 65_535, 65_536, 65_537, 200_001, 2_097_153,
    ]) {
        let periods = (0..len)
            .map(|at| (at % (1 + at / 500 % 20)) as u8)
            .collect();
        let text = input::text(1, len, 1).bytes;
        for plain in [text, Input::random(1, len, 1).bytes, vec![7; len], periods] {
            for item in encoded(&plain) {
                assert_eq!(decoded(&item, plain.len()).as_ref(), Ok(&plain));
                assert_eq!(decoded(&item, plain.len() + 100).as_ref(), Ok(&plain));
                let other = Decoder::new().decompress_vec(&item).expect("decodes");
                assert_eq!(other, plain);
                if len > 0 {
                    let short = decoded(&item, len - 1);
                    assert_eq!(short, Err(JobError::DstTooShort), "{len}");
                }
            }
        }
    }
}

/// By the format's description: a repeat in three bytes, one in two, and no place looked up with fewer than twelve bytes from there on.
#[test]
fn streams_of_our_own_by_hand() {
    let ours = |plain: &[u8]| encoded(plain)[2].clone();
    assert_eq!(ours(&[7; 16]), [16, 0, 7, 2 | 14 << 2, 1, 0]);
    let mut plain = vec![7; 12];
    plain.extend(10..20);
    let right = [22, 0, 7, 1 | 7 << 2, 1, 9 << 2];
    assert_eq!(ours(&plain), [&right[..], &plain[12..]].concat());
    assert_eq!(ours(&[7; 12]), [&[12, 11 << 2][..], &[7; 12]].concat());
    assert_eq!(ours(&[]), [0]);
}

#[test]
fn our_streams_are_no_longer_than_those_of_the_library() {
    for len in [1000, 4096, 65_536, 300_000] {
        let [snap, _, ours] = encoded(&input::text(1, len, 1).bytes);
        let bound = snap.len() + snap.len() / 200;
        assert!(ours.len() <= bound, "{len}: {} {}", ours.len(), snap.len());
    }
}

#[test]
fn repeats_at_the_end_come_back() {
    let lens = (16..80).chain([1024, 1025, 4096, 65_536, 65_536 + 16, 65_536 + 1025]);
    inputs::repeats_at_the_end(lens, assert_comes_back);
}

/// Both forms of a repeat, and where one is cut in two.
#[test]
fn repeats_of_all_lengths_come_back_from_near_and_far() {
    let offsets = [200, 2047, 2048, 2049, 65_400];
    let counts = [4, 5, 11, 12, 59, 60, 61, 64, 65, 67, 68, 69, 128, 132, 190];
    inputs::repeats_from_near_and_far(&offsets, &counts, assert_comes_back);
}

#[test]
fn literals_of_all_lengths_come_back() {
    let counts = (1..70).chain([255, 256, 257, 258, 1000]);
    inputs::literals(counts, assert_comes_back);
}

#[test]
fn what_a_table_says_of_an_item_is_forgotten_at_the_next() {
    inputs::with_one_table(|plain, table| {
        let room = compressed_bytes_max(plain.len());
        inputs::stream(room, |slot| words::encode(plain, slot, table))
    });
}

/// From the format's description: its example of a repeat that is longer than its offset, and each kind of element.
#[test]
fn elements_by_hand() {
    // "xababab": the literal "xab", then four bytes from two back.
    let item = [7, 2 << 2, b'x', b'a', b'b', 1, 2];
    assert_eq!(decoded(&item, 7).as_deref(), Ok(&b"xababab"[..]));
    // Literals with a length of one byte behind the tag; offsets of two and of four bytes.
    let mut item = vec![64, 60 << 2, 60];
    item.extend(0..61u8);
    item.extend([2 | 1 << 2, 61, 0, 3, 1, 0, 0, 0]);
    let mut plain: Vec<u8> = (0..61).collect();
    plain.extend([0, 1, 1]);
    assert_eq!(decoded(&item, 64), Ok(plain));
    assert_eq!(decoded(&[0], 0).as_deref(), Ok(&b""[..]));
}

#[test]
fn malformed_items_are_refused() {
    let items: &[&[u8]] = &[
        &[],
        // A length without an end, and one above 32 bits.
        &[0x80],
        &[0x80, 0x80, 0x80, 0x80, 0x80],
        &[0xff, 0xff, 0xff, 0xff, 0x10, 0, b'a'],
        // Fewer and more bytes than said.
        &[2, 0, b'a'],
        &[1, 1 << 2, b'a', b'b'],
        // Literals, a literal's length, and offsets that are cut.
        &[3, 2 << 2, b'a'],
        &[3, 61 << 2, 1],
        &[5, 0, b'a', 1],
        &[5, 0, b'a', 2, 1],
        &[5, 0, b'a', 3, 1, 0, 0],
        // Offsets of 0 and beyond the start.
        &[5, 0, b'a', 1, 0],
        &[5, 0, b'a', 1, 2],
    ];
    for item in items {
        assert_eq!(decoded(item, 100), Err(JobError::Malformed), "{item:02x?}");
    }
}

#[test]
fn slots_that_are_too_short_refuse() {
    let plain = input::text(1, 3000, 1).bytes;
    let right = portable::encode(&plain, &mut [0; 4000], &mut [0; _]).expect("room");
    for slot_bytes in [0, 1, 10, right - 1] {
        let slot = &mut vec![0; slot_bytes];
        let short = portable::encode(&plain, slot, &mut [0; _]);
        assert_eq!(short, Err(JobError::DstTooShort), "{slot_bytes}");
    }
    let slot = &mut vec![0; compressed_bytes_max(plain.len())];
    assert!(words::encode(&plain, slot, &mut [0; _]).is_ok());
    slot.pop();
    let short = words::encode(&plain, slot, &mut [0; _]);
    assert_eq!(short, Err(JobError::DstTooShort));
}

proptest! {
    #[test]
    fn hostile_items_are_refused_alike(
        len in 0usize..3000,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<prop::sample::Index>(),
        slot_bytes in 0usize..5000,
    ) {
        let [mut item, ..] = encoded(&input::text(2, len, 1).bytes);
        for (at, byte) in changes {
            let at = at.index(item.len());
            item[at] = byte;
        }
        let _ = decoded(&item, slot_bytes);
        let _ = decoded(&item[..cut.index(item.len() + 1)], slot_bytes);
    }

    #[test]
    fn whatever_repeats_comes_back(
        parts in prop::collection::vec((any::<u8>(), 1usize..13, 1usize..300), 0..40),
        padding in 0usize..70_000,
    ) {
        let plain = inputs::runs(&parts, padding);
        assert_comes_back(&plain);
    }

    #[test]
    fn noise_is_refused_or_decoded_alike(item in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = decoded(&item, 4096);
    }
}
