//! Every instruction set against crate `fastlanes` and against plain definitions.
#![allow(unsafe_code)]

use fastlanes::BitPacking;
use proptest::prelude::*;

use super::*;

/// 1,024 values of `width` bits, packed by crate `fastlanes`.
fn pack(lane_bits: u8, width: u8, values: &[u64]) -> Vec<u8> {
    macro_rules! pack {
        ($lane:ty) => {{
            let values: Vec<$lane> = values.iter().map(|&value| value as $lane).collect();
            let mut packed = vec![0; 1024 * usize::from(width) / <$lane>::BITS as usize];
            // SAFETY: 1,024 values, and `width` times 1,024 bits.
            unsafe { BitPacking::unchecked_pack(usize::from(width), &values, &mut packed) };
            packed
                .iter()
                .flat_map(|value| value.to_le_bytes())
                .collect()
        }};
    }
    match lane_bits {
        8 => pack!(u8),
        16 => pack!(u16),
        32 => pack!(u32),
        _ => pack!(u64),
    }
}

fn values(lanes: &Lanes, lane_bits: u8) -> Vec<u64> {
    match lane_bits {
        8 => lanes.bytes().iter().map(|&value| value.into()).collect(),
        16 => lanes.words().iter().map(|&value| value.into()).collect(),
        32 => lanes
            .doublewords()
            .iter()
            .map(|&value| value.into())
            .collect(),
        _ => lanes.quadwords().to_vec(),
    }
}

fn contains(mask: &Mask, row: usize) -> bool {
    mask.0[row / 64] >> (row % 64) & 1 == 1
}

fn mask_of(holds: impl Fn(usize) -> bool) -> Mask {
    let mut mask = Mask::NONE;
    (0..1024)
        .filter(|&row| holds(row))
        .for_each(|row| mask.insert(row));
    mask
}

#[test]
fn all_widths_of_all_lanes_agree_with_fastlanes() {
    let mut seed = 1u64;
    let mut random = || {
        seed = seed
            .wrapping_mul(0x5851_F42D_4C95_7F2D)
            .wrapping_add(0x1405_7B7E_F767_814F);
        seed ^ seed >> 29
    };
    for lane_bits in [8, 16, 32, 64] {
        for width in 1..=lane_bits {
            let max = u64::MAX >> (64 - width);
            let expected: Vec<u64> = (0..1024).map(|_| random() & max).collect();
            let bytes = pack(lane_bits, width, &expected);
            let packed = Packed::new(&bytes, lane_bits, width).unwrap();
            let (a, b) = (expected[random() as usize % 1024], random() & max);
            let ranges = [(a.min(b), a.max(b)), (a, a), (0, max), (0, b), (b, max)];
            let rows: Vec<u16> = (0..60).map(|_| (random() % 1024) as u16).collect();
            let mut single = Vec::new();
            gather::for_each(packed, &rows, |value| single.push(value));
            let fetched: Vec<u64> = rows.iter().map(|&row| expected[usize::from(row)]).collect();
            assert_eq!(single, fetched, "{width} in {lane_bits}");
            for kernels in Kernels::available() {
                // All remainders of a vector's rows; an empty list too.
                for count in 0..=rows.len() {
                    let rows = &rows[..count];
                    kernels.ask(packed, rows);
                    for (min, unit) in [(0, 1), (-5, 7), (i64::MIN, 1), (3, 1 << 40)] {
                        let (mut narrow, mut wide) = (vec![8], vec![9]);
                        let mut lanes = Lanes::new();
                        let small = (min as i32, unit as i32);
                        kernels.select_narrow(packed, rows, small, &mut lanes, &mut narrow);
                        kernels.select_wide(packed, rows, (min, unit), &mut lanes, &mut wide);
                        let wanted = fetched[..count]
                            .iter()
                            .map(|&value| min.wrapping_add((value as i64).wrapping_mul(unit)));
                        assert!(wide[0] == 9 && wide[1..].iter().copied().eq(wanted.clone()));
                        assert!(
                            narrow[0] == 8
                                && narrow[1..].iter().copied().eq(wanted.map(|n| n as i32))
                        );
                    }
                }
                let mut lanes = Lanes::new();
                kernels.unpack(packed, &mut lanes);
                assert_eq!(
                    values(&lanes, lane_bits),
                    expected,
                    "{kernels:?}: {width} in {lane_bits}"
                );
                for (min, unit) in [(0, 1), (-5, 7), (i64::MIN, 1), (3, 1 << 40)] {
                    let mut numbers = [0; 1024];
                    kernels.numbers(packed, min, unit, &mut lanes, &mut numbers);
                    let wanted = |value: &u64| min.wrapping_add((*value as i64).wrapping_mul(unit));
                    assert!(
                        numbers
                            .iter()
                            .eq(expected.iter().map(wanted).collect::<Vec<_>>().iter())
                    );
                }
                for (lo, hi) in ranges {
                    let mut mask = Mask::NONE;
                    kernels.range(packed, lo, hi - lo, &mut mask);
                    let wanted = mask_of(|row| (lo..=hi).contains(&expected[row]));
                    assert_eq!(
                        mask, wanted,
                        "{kernels:?}: {width} in {lane_bits}, {lo}..={hi}"
                    );
                }
            }
        }
    }
}

#[test]
fn bytes_that_are_no_packed_values_are_refused() {
    let bytes = [0; 256];
    assert!(Packed::new(&bytes, 8, 2).is_some());
    assert!(Packed::new(&bytes, 8, 3).is_none());
    assert!(Packed::new(&bytes, 8, 0).is_none());
    assert!(Packed::new(&bytes, 12, 1).is_none());
    assert!(Packed::new(&[0; 2048], 8, 9).is_none());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn masks_agree_with_their_definitions(
        words: [u64; 16],
        thin: bool,
        rows in 0usize..=1024,
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        set: [u64; 4],
    ) {
        let mask = Mask(if thin { words.map(|word| word & word >> 7 & word >> 19) } else { words });
        let members: Vec<u16> = (0..1024u16).filter(|&row| contains(&mask, row.into())).collect();
        let set = ByteSet(set);
        prop_assert_eq!(Mask::first(rows), mask_of(|row| row < rows));
        for kernels in Kernels::available() {
            prop_assert_eq!(kernels.count(&mask), members.len());
            let mut positions = [0; 1024 + 64];
            let count = kernels.positions(&mask, &mut positions);
            prop_assert_eq!(&positions[..count], &members);
            let mut found = vec![u64::MAX; bytes.len().div_ceil(64)];
            kernels.bytes_in_set(&bytes, &set, &mut found);
            for at in 0..found.len() * 64 {
                let wanted = bytes.get(at).is_some_and(|&byte| set.contains(byte));
                prop_assert_eq!(found[at / 64] >> (at % 64) & 1 == 1, wanted);
            }
        }
    }

    #[test]
    fn bits_fall_into_the_rows_that_hold_them(
        lengths in prop::collection::vec(0usize..40, 1..=1024),
        thinning in 1u32..200,
        seed: u64,
    ) {
        let mut offsets = vec![0];
        for len in &lengths {
            offsets.push(offsets.last().unwrap() + len);
        }
        let bytes = *offsets.last().unwrap();
        let hit = |at: usize| {
            ((at as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ seed).wrapping_mul(0xD6E8_FEB8_6659_FD93) >> 32
                < (u64::from(u32::MAX) / u64::from(thinning))
        };
        let mut found = vec![0u64; bytes.div_ceil(64)];
        (0..bytes).filter(|&at| hit(at)).for_each(|at| found[at / 64] |= 1 << (at % 64));
        let wanted = mask_of(|row| row < lengths.len() && (offsets[row]..offsets[row + 1]).any(hit));
        let offsets: Vec<[u8; 2]> = offsets.iter().map(|&at| (at as u16).to_le_bytes()).collect();
        for kernels in Kernels::available() {
            let mut out = Mask::NONE;
            kernels.rows_hit(&found, &offsets, &mut out);
            prop_assert_eq!(out, wanted);
        }
    }

    #[test]
    fn vectors_agree_with_scalars(
        seed: [i64; 32],
        words: [u64; 16],
        narrow: bool,
    ) {
        let value = |i: usize, step: i64| {
            let value = seed[i % 32].wrapping_mul(step).wrapping_add(i as i64 / 32);
            if narrow { value % 3 } else { value }
        };
        let left: Numbers = std::array::from_fn(|i| value(i, 1));
        let right: Numbers = std::array::from_fn(|i| value(i + 5, 3));
        let mask = Mask(words);
        for kernels in Kernels::available() {
            let mut out = Mask::NONE;
            kernels.compare(Relation::Equal, &left, &right, &mut out);
            prop_assert_eq!(out, mask_of(|row| left[row] == right[row]));
            kernels.compare(Relation::Less, &left, &right, &mut out);
            prop_assert_eq!(out, mask_of(|row| left[row] < right[row]));
            kernels.compare(Relation::LessOrEqual, &left, &right, &mut out);
            prop_assert_eq!(out, mask_of(|row| left[row] <= right[row]));
            let wanted = (0..1024).filter(|&row| contains(&mask, row)).map(|row| left[row]);
            prop_assert_eq!(kernels.sum(&left, &mask), wanted.fold(0, i64::wrapping_add));
            let mut result = [0; 1024];
            kernels.add(&left, &right, &mut result);
            prop_assert!((0..1024).all(|row| result[row] == left[row].wrapping_add(right[row])));
            kernels.subtract(&left, &right, &mut result);
            prop_assert!((0..1024).all(|row| result[row] == left[row].wrapping_sub(right[row])));
            kernels.multiply(&left, &right, &mut result);
            prop_assert!((0..1024).all(|row| result[row] == left[row].wrapping_mul(right[row])));
        }
    }

    #[test]
    fn symbols_decode_like_their_definition(
        symbols in prop::collection::vec((any::<u64>(), 1u8..=8), 1..255),
        codes in prop::collection::vec(prop_oneof![20 => any::<u8>(), 1 => Just(gather::ESCAPE)], 0..100),
        before in 0usize..10,
        after in 0usize..10,
    ) {
        let around = [vec![7; before], codes.clone(), vec![gather::ESCAPE; after]].concat();
        let (bytes, lengths): (Vec<u64>, Vec<u8>) = symbols.iter().copied().unzip();
        let table = gather::Symbols::new(&bytes, &lengths);
        let mut expected = b"before".to_vec();
        let mut rest = codes.iter();
        while let Some(&code) = rest.next() {
            if code == gather::ESCAPE && let Some(&literal) = rest.next() {
                expected.push(literal);
            } else if let Some((symbol, len)) = symbols.get(usize::from(code)) {
                expected.extend(&symbol.to_le_bytes()[..usize::from(*len)]);
            }
        }
        let mut decoded = b"before".to_vec();
        table.decode(&around, before..before + codes.len(), &mut decoded);
        prop_assert_eq!(decoded, expected);
    }
}
