//! Every encoding and width survives the way to a chunk and back.

use dpb_core::Buf;
use proptest::prelude::*;

use super::*;
use crate::table::chunk::Chunk;

fn parse(encoded: &EncodedChunk) -> Chunk {
    let mut bytes = Buf::zeroed(encoded.bytes.len()).unwrap();
    bytes.copy_from_slice(&encoded.bytes);
    Chunk::parse(bytes).unwrap()
}

/// Encodes, verifies and decodes again.
fn numbers_survive(values: &[i64]) -> Chunk {
    let encoded = encode(3, 7, &Values::Numbers(values.to_vec()));
    assert_eq!(encoded.min, *values.iter().min().unwrap());
    assert_eq!(encoded.max, *values.iter().max().unwrap());
    let chunk = parse(&encoded);
    let mut decoded = Vec::new();
    (0..chunk.blocks().len()).for_each(|block| chunk.decode_numbers(block, &mut decoded));
    assert!(decoded == values, "decoded differs");
    chunk
}

fn texts_survive<'a>(values: impl Iterator<Item = &'a str> + Clone) -> Chunk {
    let mut texts = Texts::default();
    values.clone().for_each(|text| texts.push(text));
    let chunk = parse(&encode(0, 0, &Values::Texts(texts)));
    let mut expected = values;
    for block in 0..chunk.blocks().len() {
        chunk.decode_texts(block, |row| assert_eq!(Some(row), expected.next()));
    }
    assert_eq!(expected.next(), None);
    chunk
}

#[test]
fn every_width_and_length_survives() {
    for width in 0..=64u32 {
        let top = if width == 0 {
            0
        } else {
            u64::MAX >> (64 - width)
        };
        for rows in [2, 1023, 1024, 1025] {
            // Both ends and a scatter between them.
            let value = |i: u64| match i {
                0 => i64::MIN,
                1 => i64::MIN.wrapping_add(top as i64),
                _ => i64::MIN.wrapping_add((i.wrapping_mul(0x9E37_79B9_7F4A_7C15) & top) as i64),
            };
            let values: Vec<i64> = (0..rows).map(value).collect();
            let chunk = numbers_survive(&values);
            if chunk.unit() == 1 {
                assert_eq!(chunk.blocks()[0].width as u32, width);
            }
        }
    }
}

#[test]
fn single_rows_full_groups_and_extremes_survive() {
    numbers_survive(&[0]);
    numbers_survive(&[i64::MIN]);
    numbers_survive(&[i64::MIN, i64::MAX]);
    numbers_survive(&[i64::MIN, i64::MIN + i64::MAX, i64::MAX]);
    numbers_survive(&(0..65_536).map(|i| i * i).collect::<Vec<_>>());
    assert_eq!(numbers_survive(&[100, 5000, 300]).unit(), 100);
    texts_survive(["", "", "x"].into_iter());
    texts_survive(["é", "日本語", "a\0b", "\0"].into_iter());
    let long = "0123456789ab".repeat(40_000);
    texts_survive([long.as_str(), "", &long[1..], &long[2..], "z"].into_iter());
}

#[test]
fn few_distinct_strings_become_a_sorted_dictionary() {
    let words = ["RAIL", "AIR", "TRUCK", "MAIL"];
    let chunk = texts_survive((0..65_536).map(|i| words[(i * i + i / 7) % 4]));
    let dictionary = chunk.dictionary().unwrap();
    assert_eq!(
        dictionary.iter().collect::<Vec<_>>(),
        ["AIR", "MAIL", "RAIL", "TRUCK"]
    );
    assert!(chunk.blocks().iter().all(|block| block.width == 2));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn numbers_survive_everything(
        base in any::<i64>(),
        shift in 0..64u32,
        unit in 1..1000i64,
        values in prop::collection::vec(any::<i64>(), 1..3000),
    ) {
        let values: Vec<i64> =
            values.iter().map(|value| base.wrapping_add((value >> shift).wrapping_mul(unit))).collect();
        numbers_survive(&values);
    }

    #[test]
    fn texts_survive_everything(values in prop::collection::vec(any::<String>(), 1..600), few in any::<bool>()) {
        let distinct = if few { values.len().min(5) } else { values.len() };
        texts_survive((0..values.len() * 3).map(|i| values[i % distinct].as_str()));
    }
}
