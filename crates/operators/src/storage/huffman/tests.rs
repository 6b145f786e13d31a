//! Blocks by hand, every way there and back, and hostile items on all decoders.

use proptest::prelude::*;

use dpb_core::Input;

use super::*;
use crate::input;

/// The output of all decoders for an item, in a slot of `slot_bytes` bytes.
fn decoded(item: &[u8], slot_bytes: usize) -> Result<Vec<u8>, JobError> {
    let right = portable::decode(item, slot_bytes);
    let mut slot = vec![0; slot_bytes];
    let same = |fast: Result<usize, JobError>, slot: &[u8]| match (fast, &right) {
        (Err(_), Err(_)) => {}
        (fast, right) => {
            let fast = fast.map(|len| slot[..len].to_vec());
            assert_eq!(&fast, right, "of {} bytes", item.len());
        }
    };
    let fast = tables::decode(item, &mut slot, &mut [0; _]);
    same(fast, &slot);
    #[cfg(target_arch = "x86_64")]
    if let Some(proof) = crate::isa::Bmi2::detect() {
        let fast = x86_64::decode(proof, item, &mut slot, &mut [0; _]);
        same(fast, &slot);
    }
    right
}

fn encoded(plain: &[u8]) -> Vec<u8> {
    let mut slot = vec![0; encoded_bytes_max(plain.len())];
    let len = encode::encode(plain, &mut slot, &mut encode::scratch()).expect("room");
    slot.truncate(len);
    slot
}

/// Written by hand from the format's description.
#[test]
fn blocks_by_hand() {
    // Symbols A to H with the lengths of RFC 1951, 3.2.2, the text "FAH": 00 010 1111, first bits lowest.
    let unused = |symbols: u8| [0u8, symbols - 1];
    let mut nibbles = Vec::new();
    (0..4).for_each(|_| nibbles.extend(unused(16)));
    nibbles.extend(unused(1));
    nibbles.extend([3, 3, 3, 3, 3, 2, 4, 4]);
    (0..11).for_each(|_| nibbles.extend(unused(16)));
    nibbles.extend(unused(7));
    let mut item = vec![2, 2, 0];
    let pairs = nibbles
        .chunks(2)
        .map(|pair| pair[0] | pair.get(1).unwrap_or(&0) << 4);
    item.extend(pairs);
    item.extend([2, 0, 0b1110_1000, 0b1]);
    assert_eq!(decoded(&item, 3).as_deref(), Ok(&b"FAH"[..]));
    let stored_and_run = [0, 1, 0, b'o', b'k', 1, 4, 0, b'!'];
    assert_eq!(decoded(&stored_and_run, 7).as_deref(), Ok(&b"ok!!!!!"[..]));
    assert_eq!(decoded(&stored_and_run, 6), Err(JobError::DstTooShort));
    assert_eq!(decoded(&[], 0).as_deref(), Ok(&[][..]));
    // A bit behind the last code, a byte behind the stream, and a block that ends in its header.
    for (at, bit) in [(item.len() - 1, 2), (item.len() - 4, 1)] {
        let mut spoilt = item.clone();
        spoilt[at] ^= bit;
        assert_eq!(decoded(&spoilt, 9), Err(JobError::Malformed), "{at}");
    }
    let longer = [&item[..], &[0]].concat();
    assert_eq!(decoded(&longer, 9), Err(JobError::Malformed));
}

#[test]
fn text_and_noise_come_back() {
    for len in (0..70).chain([
        1000, 1023, 1024, 1025, 4097, 65_535, 65_536, 65_537, 200_001,
    ]) {
        for plain in [input::text(1, len, 1).bytes, Input::random(1, len, 1).bytes] {
            let item = encoded(&plain);
            assert!(item.len() <= encoded_bytes_max(len));
            assert_eq!(decoded(&item, len), Ok(plain), "{len}");
        }
    }
}

/// Of bytes that coding makes hardly shorter, padding must not make the output longer than the bound.
#[test]
fn what_hardly_becomes_shorter_fits_the_bound() {
    for len in (900..1200).chain([65_536]) {
        for values in 100..=256 {
            let plain: Vec<u8> = (0..len).map(|at| (at * at / 7 % values) as u8).collect();
            let item = encoded(&plain);
            assert_eq!(decoded(&item, len), Ok(plain), "{len} of {values}");
        }
    }
}

/// Text takes as many bits as its symbols' entropy and a little more; Shannon's bound cannot be beaten.
#[test]
fn text_is_coded_close_to_its_entropy() {
    let plain = input::text(1, 65_536, 1).bytes;
    let mut counts = [0u32; 256];
    plain
        .iter()
        .for_each(|&byte| counts[usize::from(byte)] += 1);
    let bits = |&count: &u32| f64::from(count) * (65_536.0 / f64::from(count)).log2();
    let entropy = counts
        .iter()
        .filter(|&&count| count > 0)
        .map(bits)
        .sum::<f64>()
        / 8.0;
    let coded = encoded(&plain).len() as f64;
    assert!(
        coded >= entropy && coded < entropy * 1.03,
        "{coded} bytes, entropy {entropy}"
    );
}

#[test]
fn slots_that_are_too_short_refuse() {
    let plain = input::text(1, 3000, 1).bytes;
    let item = encoded(&plain);
    for slot_bytes in [0, 1, 2, 3, 100, item.len() - 1] {
        let mut slot = vec![0; slot_bytes];
        let short = encode::encode(&plain, &mut slot, &mut encode::scratch());
        assert_eq!(short, Err(JobError::DstTooShort), "{slot_bytes}");
    }
    assert_eq!(decoded(&item, 2999), Err(JobError::DstTooShort));
}

proptest! {
    /// Few symbols with skewed counts make long codes.
    #[test]
    fn any_bytes_come_back(
        symbols in prop::collection::vec(any::<u8>(), 1..40),
        draws in prop::collection::vec(0u32..1 << 16, 0..6000),
    ) {
        let of = |draw: &u32| symbols[(draw.leading_zeros() as usize - 15) % symbols.len()];
        let plain: Vec<u8> = draws.iter().map(of).collect();
        prop_assert_eq!(decoded(&encoded(&plain), plain.len()), Ok(plain));
    }

    #[test]
    fn hostile_items_are_refused_alike(
        len in 0usize..3000,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut item = encoded(&input::text(2, len, 1).bytes);
        for (at, byte) in changes {
            if !item.is_empty() {
                let at = at.index(item.len());
                item[at] = byte;
            }
        }
        let _ = decoded(&item, 4096);
        let _ = decoded(&item[..cut.index(item.len() + 1)], 4096);
    }

    #[test]
    fn noise_is_refused_or_decoded_alike(item in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = decoded(&item, 4096);
    }
}
