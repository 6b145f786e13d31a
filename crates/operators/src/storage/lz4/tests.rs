//! Both ways with the C library, malformed blocks, and hostile items on both decoders.

use lz4_sys::{LZ4_compress_HC, LZ4_compress_default, LZ4_decompress_safe};
use proptest::prelude::*;

use dpb_core::Input;

use super::*;
use crate::input;
use crate::storage::repeats::inputs;

/// The output of both decoders for an item, in a slot of `slot_bytes` bytes.
fn decoded(item: &[u8], slot_bytes: usize) -> Result<Vec<u8>, JobError> {
    let right = portable::decode(item, slot_bytes);
    let mut slot = vec![0; slot_bytes];
    let fast = library::decode(item, &mut slot).map(|len| slot[..len].to_vec());
    if right != Err(JobError::Malformed) || !has_offset_of_zero(item) {
        assert_eq!(fast, right, "of {} bytes", item.len());
    }
    right
}

/// True if a sequence of `item`, as far as it can be read, has an offset of 0.
fn has_offset_of_zero(item: &[u8]) -> bool {
    let mut bytes = item.iter().copied();
    let read = |bytes: &mut dyn Iterator<Item = u8>| -> Option<bool> {
        let rest = |nibble: u8, bytes: &mut dyn Iterator<Item = u8>| {
            let mut len = usize::from(nibble);
            let mut goes_on = nibble == 15;
            while goes_on {
                let more = bytes.next()?;
                len += usize::from(more);
                goes_on = more == 255;
            }
            Some(len)
        };
        let token = bytes.next()?;
        let literals = rest(token >> 4, bytes)?;
        for _ in 0..literals {
            bytes.next()?;
        }
        let offset = [bytes.next()?, bytes.next()?];
        rest(token & 15, bytes)?;
        Some(offset == [0, 0])
    };
    while let Some(is_zero) = read(&mut bytes) {
        if is_zero {
            return true;
        }
    }
    false
}

/// Where this test fails the library refuses it too, and the page and [`spoil`] can be stricter.
#[test]
fn an_offset_of_zero_is_where_the_paths_part() {
    let plain: Vec<u8> = (b'a'..=b'z').collect();
    let mut item = vec![0xf4, 26 - 15];
    item.extend_from_slice(&plain);
    // Eight bytes from nowhere, then as many literals as a block's end has.
    item.extend([0, 0, 0xc0]);
    item.extend_from_slice(&plain[..12]);
    assert!(has_offset_of_zero(&item));
    assert_eq!(portable::decode(&item, 100), Err(JobError::Malformed));
    assert_eq!(library::decode(&item, &mut [0; 100]), Ok(26 + 8 + 12));
    let mut emptied = 0;
    for seed in 0..200 {
        let mut spoilt = item.clone();
        spoil(&mut spoilt, seed);
        let room = spoilt.len() * 255;
        let portable = portable::decode(&spoilt, room).map(|plain| plain.len());
        let library = library::decode(&spoilt, &mut vec![0; room]);
        assert_eq!(portable.is_ok(), library.is_ok(), "{seed}");
        emptied += usize::from(spoilt.is_empty());
    }
    assert!(emptied > 0, "no seed leaves the offset of zero");
}

/// The output of each encoder for `plain`: the one for speed, the portable one.
fn encoded(plain: &[u8]) -> [Vec<u8>; 2] {
    let room = compressed_bytes_max(plain.len());
    [
        inputs::stream(room, |slot| words::encode(plain, slot, &mut [0; _])),
        inputs::stream(room, |slot| portable::encode(plain, slot, &mut [0; _])),
    ]
}

/// The block of each encoder decodes to `plain` on all decoders, and keeps to the rules for a block's end.
fn assert_comes_back(plain: &[u8]) {
    for item in encoded(plain) {
        let len = plain.len();
        assert!(decoded(&item, len).as_deref() == Ok(plain), "{len} bytes");
        let other = reference::decode(&item, len);
        assert!(other.as_deref() == Some(plain), "{len} bytes");
        let (mut at, mut last_literals) = (0, 0);
        let sequences = portable::sequences(&item, len, |literals, _, repeated| {
            at += literals.len();
            assert!(
                repeated == 0 || at + MATCH_START_MIN <= len,
                "{at} of {len}"
            );
            at += repeated;
            last_literals = literals.len();
        });
        assert_eq!(sequences, Ok(len));
        assert!(
            last_literals >= LAST_LITERALS.min(len),
            "{last_literals} of {len}"
        );
    }
}

/// The reference implementation's way back, and its ways there: fast and thorough.
mod reference {
    #![allow(unsafe_code)]
    use super::*;

    pub(super) fn decode(item: &[u8], slot_bytes: usize) -> Option<Vec<u8>> {
        let mut slot = vec![0u8; slot_bytes.max(1)];
        // SAFETY: pointers and lengths of two slices.
        let len = unsafe {
            LZ4_decompress_safe(
                item.as_ptr().cast(),
                slot.as_mut_ptr().cast(),
                item.len() as i32,
                slot_bytes as i32,
            )
        };
        slot.truncate(usize::try_from(len).ok()?);
        Some(slot)
    }

    pub(super) fn encoded(plain: &[u8]) -> [Vec<u8>; 2] {
        let of = |code: &dyn Fn(*const u8, *mut u8, i32, i32) -> i32| {
            let mut slot = vec![0u8; compressed_bytes_max(plain.len())];
            let (len, room) = (plain.len() as i32, slot.len() as i32);
            let len = code(plain.as_ptr(), slot.as_mut_ptr(), len, room);
            slot.truncate(usize::try_from(len).expect("a length"));
            slot
        };
        // SAFETY: pointers and lengths of two slices.
        let fast = |from: *const u8, to: *mut u8, len, room| unsafe {
            LZ4_compress_default(from.cast(), to.cast(), len, room)
        };
        // SAFETY: the same.
        let thorough = |from: *const u8, to: *mut u8, len, room| unsafe {
            LZ4_compress_HC(from.cast(), to.cast(), len, room, 9)
        };
        [of(&fast), of(&thorough)]
    }
}

fn samples() -> Vec<Vec<u8>> {
    let lengths = (0..40).chain([255, 270, 1000, 4097, 65_534, 65_535, 65_536, 200_001]);
    let mut samples = Vec::new();
    for len in lengths {
        samples.push(input::text(1, len, 1).bytes);
        samples.push(Input::random(1, len, 1).bytes);
        samples.push(vec![7; len]);
        // Runs of every short period.
        samples.push(
            (0..len)
                .map(|at| (at % (1 + at / 500 % 20)) as u8)
                .collect(),
        );
    }
    samples
}

#[test]
fn ours_comes_back_here_and_in_the_reference_implementation() {
    for plain in samples() {
        assert_comes_back(&plain);
        for item in encoded(&plain) {
            assert_eq!(decoded(&item, plain.len() + 100).as_ref(), Ok(&plain));
            if !plain.is_empty() {
                let short = decoded(&item, plain.len() - 1);
                assert_eq!(short, Err(JobError::DstTooShort), "{}", plain.len());
            }
        }
    }
}

/// By the format's description: a repeat behind one literal, its length beyond the token's, literals beyond the token's, and none looked for near the end.
#[test]
fn blocks_of_our_own_by_hand() {
    let ours = |plain: &[u8]| encoded(plain)[0].clone();
    let end = [0x50, 7, 7, 7, 7, 7];
    assert_eq!(ours(&[7; 18]), [&[0x18, 7, 1, 0][..], &end].concat());
    assert_eq!(ours(&[7; 25]), [&[0x1f, 7, 1, 0, 0][..], &end].concat());
    let long = [0x1f, 7, 1, 0, 255, 255, 0];
    assert_eq!(ours(&[7; 25 + 510]), [&long[..], &end].concat());
    assert_eq!(ours(&[7; 17]), [&[0xf0, 2][..], &[7; 17]].concat());
    assert_eq!(ours(&[]), [0]);
    // From place 65 on every second one is looked up. So the repeat at 128 is found at 129, and begins a byte before.
    let mut plain: Vec<u8> = (0..128).collect();
    plain.extend(66..=86);
    plain.extend(200..=220);
    let (repeat, end) = ([62, 0, 2], [0xf0, 21 - 15]);
    let parts = [
        &[0xff, 128 - 15][..],
        &plain[..128],
        &repeat,
        &end,
        &plain[149..],
    ];
    assert_eq!(ours(&plain), parts.concat());
}

/// Text by the encoder for speed: from 64 KiB on no longer than by the C library's, and hardly longer before.
#[test]
fn our_blocks_are_hardly_longer_than_those_of_the_library() {
    for (len, most) in [(1000, 1.01), (4096, 1.01), (65_536, 1.0), (300_000, 0.95)] {
        let plain = input::text(1, len, 1).bytes;
        let [ours, _] = encoded(&plain);
        let [library, _] = reference::encoded(&plain);
        let times = ours.len() as f64 / library.len() as f64;
        assert!(times <= most, "{len}: {times}");
    }
}

#[test]
fn repeats_at_the_end_come_back() {
    let lens = (16..80).chain([1024, 1025, 4096, 4097, 65_536, 65_537]);
    inputs::repeats_at_the_end(lens, assert_comes_back);
}

/// Each form of a length, and offsets up to the farthest and beyond.
#[test]
fn repeats_of_all_lengths_come_back_from_near_and_far() {
    let offsets = [200, 65_534, 65_535, 65_536, 65_537, 131_072];
    let counts = [4, 5, 11, 12, 13, 18, 19, 20, 27, 28, 273, 274, 275, 530];
    inputs::repeats_from_near_and_far(&offsets, &counts, assert_comes_back);
}

#[test]
fn literals_of_all_lengths_come_back() {
    let counts = (1..40).chain([269, 270, 271, 525, 1000]);
    inputs::literals(counts, assert_comes_back);
}

#[test]
fn what_a_table_says_of_an_item_is_forgotten_at_the_next() {
    inputs::with_one_table(|plain, table| {
        let room = compressed_bytes_max(plain.len());
        inputs::stream(room, |slot| words::encode(plain, slot, table))
    });
}

#[test]
fn what_the_reference_implementation_writes_is_read() {
    for plain in samples() {
        for item in reference::encoded(&plain) {
            assert_eq!(decoded(&item, plain.len()).as_ref(), Ok(&plain));
        }
    }
}

#[test]
fn slots_that_are_too_short_refuse() {
    let plain = input::text(1, 3000, 1).bytes;
    let right = portable::encode(&plain, &mut [0; 4000], &mut [0; _]).expect("room");
    for slot_bytes in [0, 1, 10, right - 1] {
        let short = portable::encode(&plain, &mut vec![0; slot_bytes], &mut [0; _]);
        assert_eq!(short, Err(JobError::DstTooShort), "{slot_bytes}");
    }
    // Noise is what takes the whole room.
    let noise = Input::random(1, 3000, 1).bytes;
    let slot = &mut vec![0; compressed_bytes_max(noise.len())];
    assert!(words::encode(&noise, slot, &mut [0; _]).is_ok());
    slot.pop();
    let short = words::encode(&noise, slot, &mut [0; _]);
    assert_eq!(short, Err(JobError::DstTooShort));
}

/// Malformed in each way that the format has.
#[test]
fn malformed_blocks_are_refused() {
    let items: &[&[u8]] = &[
        &[],
        // A token whose literals, or whose length, are missing.
        &[0x10],
        &[0xf0],
        &[0xf0, 255],
        // No literals behind the last repeat; no offset; half of one; an offset of 0; one beyond the start.
        &[0x10, b'a', 1, 0],
        &[0x10, b'a', 1],
        &[0x10, b'a', 0, 0, 0x10, b'b'],
        &[0x10, b'a', 2, 0, 0x10, b'b'],
    ];
    for item in items {
        assert_eq!(decoded(item, 100), Err(JobError::Malformed), "{item:02x?}");
    }
    let good = [0x10, b'a', 1, 0, 0x10, b'b'];
    assert_eq!(decoded(&good, 100).as_deref(), Ok(&b"aaaaab"[..]));
    assert_eq!(decoded(&[0], 0).as_deref(), Ok(&b""[..]));
    // What the last token says of a repeat means nothing.
    assert_eq!(decoded(&[0x11, b'a'], 100).as_deref(), Ok(&b"a"[..]));
    assert_eq!(
        reference::decode(&[0x11, b'a'], 100).as_deref(),
        Some(&b"a"[..])
    );
}

proptest! {
    #[test]
    fn hostile_items_are_refused_alike(
        len in 0usize..3000,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<prop::sample::Index>(),
        slot_bytes in 0usize..5000,
    ) {
        let [mut item, _] = encoded(&input::text(2, len, 1).bytes);
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
        padding in 0usize..140_000,
    ) {
        let plain = inputs::runs(&parts, padding);
        assert_comes_back(&plain);
    }

    #[test]
    fn noise_is_refused_or_decoded_alike(item in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = decoded(&item, 4096);
    }
}
