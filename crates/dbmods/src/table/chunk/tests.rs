//! Forged chunks: all checksums hold, the content breaks a rule. What the encoder writes is tested beside it.

use super::*;
use crate::table::encode::{Texts, encode};

fn parse(bytes: &[u8]) -> Result<Chunk, ChunkError> {
    let mut buf = Buf::zeroed(bytes.len()).unwrap();
    buf.copy_from_slice(bytes);
    Chunk::parse(buf)
}

fn numbers() -> Vec<u8> {
    encode(
        1,
        2,
        &Values::Numbers((0..1500).map(|i| i * i % 1000).collect()),
    )
    .bytes
}

fn texts(rows: impl Iterator<Item = String>) -> Vec<u8> {
    let mut texts = Texts::default();
    rows.for_each(|row| texts.push(&row));
    encode(1, 2, &Values::Texts(texts)).bytes
}

fn dictionary() -> Vec<u8> {
    texts((0..1500).map(|i| ["b", "aa", "c"][i % 3].to_owned()))
}

fn free() -> Vec<u8> {
    texts((0..1500).map(|i| format!("row {i} é")))
}

/// Changes a field, makes the checksums right, and says what the parser says.
fn forged(mut bytes: Vec<u8>, at: usize, field: &[u8]) -> ChunkError {
    parse(&bytes).expect("valid before");
    bytes[at..at + field.len()].copy_from_slice(field);
    seal(&mut bytes);
    parse(&bytes).expect_err("forged")
}

/// Where the directory's entry of the first block has a field.
const META: usize = HEADER_BYTES;

#[test]
fn a_block_whose_values_are_not_as_it_says_is_refused() {
    // Smallest, largest, width, lane bits, rows of the first block; unit.
    for (at, field) in [
        (META, &1i64.to_le_bytes()[..]),
        (META + 8, &998i64.to_le_bytes()),
        (META + 8, &(-1i64).to_le_bytes()),
        (META + 8, &1_000_000i64.to_le_bytes()),
        (META + 29, &[9]),
        (META + 29, &[64]),
        (META + 28, &[32]),
        (META + 28, &[7]),
        (META + 30, &[0, 0]),
        (META + 30, &[1, 4]),
        (32, &3i64.to_le_bytes()),
        (32, &0i64.to_le_bytes()),
        (32, &(-1i64).to_le_bytes()),
    ] {
        forged(numbers(), at, field);
    }
}

#[test]
fn payloads_and_side_tables_elsewhere_are_refused() {
    for bytes in [numbers(), dictionary(), free()] {
        for value in [0u32, 1, 63, 64, 128, 4096, 1 << 31, u32::MAX] {
            for at in [12, 16, 20, 24, 28, META + 16, META + 20] {
                if u32_at(&bytes, at) != value && !(at == 20 && bytes[6] == 0 && value == 0) {
                    forged(bytes.clone(), at, &value.to_le_bytes());
                }
            }
        }
        for encoding in (0..4).filter(|encoding| *encoding != bytes[6]) {
            forged(bytes.clone(), 6, &[encoding]);
        }
    }
}

#[test]
fn bad_dictionaries_are_refused() {
    let side = HEADER_BYTES + 2 * META_BYTES;
    assert_eq!(u32_at(&dictionary(), 20) as usize, side);
    let strings = side + 4 + 4 * 4;
    assert_eq!(&dictionary()[strings..strings + 4], b"aabc");
    for (at, field) in [
        (strings, &b"c"[..]),
        (strings, b"\xff"),
        (side, &[2, 0, 0, 0]),
        (side, &[0, 0, 0, 0]),
        (side + 4, &[1, 0, 0, 0]),
        (side + 8, &[9, 0, 0, 0]),
        (side + 16, &[5, 0, 0, 0]),
    ] {
        assert_eq!(
            forged(dictionary(), at, field).part,
            Part::SideTable,
            "{field:?} at {at}"
        );
    }
    // Positions up to 3 of 3 strings: width and values would fit.
    let mut bytes = dictionary();
    let payload = BlockMeta::from_bytes(&bytes[META..META + META_BYTES]).range();
    bytes[payload].fill(0xff);
    assert_eq!(
        forged_payload(bytes, 3).what,
        "it points outside the dictionary"
    );
}

fn forged_payload(mut bytes: Vec<u8>, max: i64) -> ChunkError {
    bytes[META + 8..META + 16].copy_from_slice(&max.to_le_bytes());
    seal(&mut bytes);
    parse(&bytes).expect_err("forged")
}

#[test]
fn codes_that_do_not_decode_are_refused() {
    let bytes = free();
    let chunk = parse(&bytes).unwrap();
    let meta = chunk.blocks()[0];
    let codes = meta.offset as usize + TextBlock::offset_bytes(1024, meta.lane_bits == 32);
    let end = codes + chunk.text(0).row(0).len();
    let symbols = chunk.symbols().unwrap();
    assert!(symbols.len() < 254, "there is a code without a symbol");
    for (at, field, what) in [
        (end - 1, &[ESCAPE][..], "a code has no symbol"),
        (codes, &[254], "a code has no symbol"),
        (codes, &[ESCAPE, 0xff], "a row is not UTF-8"),
        (
            meta.offset as usize,
            &[1, 0],
            "its offsets are not in order",
        ),
        (
            meta.offset as usize + 2,
            &[0xff, 0xff],
            "its offsets are not in order",
        ),
        (META, &[1, 0], "its rows are not as long as it says"),
        (META + 8, &[99, 0], "its rows are not as long as it says"),
        (META + 29, &[1], "it has no such offsets"),
    ] {
        let error = forged(bytes.clone(), at, field);
        assert_eq!(
            (error.part, error.what.as_str()),
            (Part::Block(0), what),
            "{field:?} at {at}"
        );
    }
    let side = u32_at(&bytes, 20) as usize;
    for (at, field) in [
        (side, &[255, 1][..]),
        (side, &[3, 0]),
        (side + 4, &[9]),
        (side + 4, &[0]),
    ] {
        assert_eq!(
            forged(bytes.clone(), at, field).part,
            Part::SideTable,
            "{field:?} at {at}"
        );
    }
}

#[test]
fn strings_are_bounded() {
    let longest = "0123456789abcdef".repeat(STRING_BYTES_MAX / 16);
    let free = texts(
        [longest.as_str(), "more"]
            .iter()
            .map(|&text| text.to_owned()),
    );
    let chunk = parse(&free).unwrap();
    let meta = chunk.blocks()[0];
    assert_eq!((meta.lane_bits, meta.max as usize), (32, STRING_BYTES_MAX));
    // The first row takes the second one's codes.
    let ends = chunk.text(0).offset(2) as u32;
    let error = forged(free, meta.offset as usize + 4, &ends.to_le_bytes());
    assert_eq!(error.part, Part::Block(0));
    assert_eq!(error.what, "a row is longer than 1 MiB");
    // The first string takes a byte of the second one's.
    let few = texts((0..64).map(|i| [longest.as_str(), "more"][i % 2].to_owned()));
    let side = u32_at(&few, 20) as usize;
    let end = STRING_BYTES_MAX as u32 + 1;
    let error = forged(few, side + 8, &end.to_le_bytes());
    assert_eq!(error.part, Part::SideTable);
    assert_eq!(error.what, "a string is longer than 1 MiB");
}

#[test]
fn what_a_kernel_loads_past_a_payload_is_there() {
    for bytes in [numbers(), dictionary(), free()] {
        let chunk = parse(&bytes).unwrap();
        assert_eq!(chunk.bytes().as_ptr() as usize % ALIGN, 0);
        for (block, meta) in chunk.blocks().iter().enumerate() {
            assert_eq!(meta.offset as usize % ALIGN, 0);
            assert_eq!(meta.len as usize, chunk.payload(block).len());
            assert!(meta.range().end + TAIL_BYTES <= chunk.bytes().len());
        }
    }
}
