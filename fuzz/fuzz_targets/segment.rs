//! Chunks and segment files from arbitrary bytes: an error, or rows that are what the directory says. Never a panic, a read
//! outside the bytes, or more memory than the bytes justify.
//!
//! The first byte of an input chooses how the others are used, since plain noise ends at the first checksum.
#![no_main]

use dpb_core::Buf;
use dpb_dbmods::schema::{Column, ColumnType, Schema};
use dpb_dbmods::table::forge::{HEADER_BYTES, encode, seal_chunk, seal_segment};
use dpb_dbmods::table::{Chunk, Encoding, Segment, SegmentWriter, Texts, Values};
use libfuzzer_sys::fuzz_target;

fuzz_target!(init: dpb_fuzz::plant(seeds()), |input: &[u8]| {
    let Some((&mode, rest)) = input.split_first() else {
        return;
    };
    match mode % 5 {
        0 => read_chunk(rest),
        1 => {
            let mut bytes = rest.to_vec();
            if bytes.len() >= HEADER_BYTES {
                let len = bytes.len() as u32;
                bytes[28..32].copy_from_slice(&len.to_le_bytes());
                seal_chunk(&mut bytes);
            }
            read_chunk(&bytes);
        }
        2 => forge_chunk(rest),
        3 => read_file(rest),
        _ => forge_file(rest),
    }
});

/// Parses and decodes, and checks what comes out against the directory.
fn read_chunk(bytes: &[u8]) {
    let mut buf = Buf::zeroed(bytes.len()).expect("memory");
    buf.copy_from_slice(bytes);
    if let Ok(chunk) = Chunk::parse(buf) {
        check(&chunk);
    }
}

fn check(chunk: &Chunk) {
    for (block, meta) in chunk.blocks().iter().enumerate() {
        let (mut rows, mut bytes, mut longest) = (0, 0, 0);
        if chunk.encoding() == Encoding::Numbers {
            let mut numbers = Vec::new();
            chunk.decode_numbers(block, &mut numbers);
            rows = numbers.len();
            assert_eq!(numbers.iter().min(), Some(&meta.min));
            assert_eq!(numbers.iter().max(), Some(&meta.max));
        } else {
            chunk.decode_texts(block, |text| {
                rows += 1;
                bytes += text.len() as i64;
                longest = longest.max(text.len() as i64);
            });
        }
        if chunk.encoding() == Encoding::Text {
            assert_eq!((bytes, longest), (meta.min, meta.max));
        }
        assert_eq!(rows, meta.rows as usize);
    }
}

/// Values from the input, as a column of one kind or the other.
fn values(input: &[u8]) -> Values {
    let Some((&kind, rest)) = input.split_first() else {
        return Values::Numbers(vec![0]);
    };
    // A longer stretch of rows than the input has bytes reaches later blocks.
    let repeat = 1 + (kind as usize >> 4) * 16;
    if kind & 1 == 0 {
        let numbers = rest.chunks(1 + (kind as usize >> 1 & 7)).map(|bytes| {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            i64::from_le_bytes(word)
        });
        let numbers: Vec<i64> = numbers.collect();
        let len = (numbers.len() * repeat).clamp(1, 5000);
        Values::Numbers(
            numbers
                .iter()
                .cycle()
                .copied()
                .chain([7])
                .take(len.max(1))
                .collect(),
        )
    } else {
        let mut texts = Texts::default();
        let text = String::from_utf8_lossy(rest);
        let pieces: Vec<&str> = text.split('|').collect();
        (0..(pieces.len() * repeat).min(5000)).for_each(|i| texts.push(pieces[i % pieces.len()]));
        Values::Texts(texts)
    }
}

/// Half of the input as values, half as bytes to be overwritten: two of position, one of value.
fn forge_chunk(input: &[u8]) {
    let (seed, edits) = input.split_at(input.len() / 2);
    let mut bytes = encode(3, 5, &values(seed));
    for edit in edits.chunks_exact(3) {
        let at = u16::from_le_bytes([edit[0], edit[1]]) as usize % bytes.len();
        bytes[at] = edit[2];
    }
    seal_chunk(&mut bytes);
    read_chunk(&bytes);
}

/// Opens a file of these bytes and reads all of it.
fn read_file(bytes: &[u8]) {
    let path = path("read");
    std::fs::write(&path, bytes).expect("a temporary file");
    if let Ok(segment) = Segment::open(&path) {
        for group in 0..segment.groups().len() {
            for column in 0..segment.schema().columns.len() {
                if let Ok(chunk) = segment.read_chunk(group, column) {
                    assert_eq!(chunk.rows(), segment.groups()[group].rows as usize);
                    check(&chunk);
                }
            }
        }
    }
}

/// A valid file whose footer is overwritten here and there.
fn forge_file(input: &[u8]) {
    let (seed, edits) = input.split_at(input.len() / 2);
    let mut bytes = file(values(seed));
    let footer = u64::from_le_bytes(bytes[16..24].try_into().expect("8 bytes")) as usize;
    let footer_len = bytes.len() - footer;
    for edit in edits.chunks_exact(3) {
        let at = u16::from_le_bytes([edit[0], edit[1]]) as usize % footer_len;
        bytes[footer + at] = edit[2];
    }
    seal_segment(&mut bytes, footer);
    read_file(&bytes);
}

/// A valid file of one column.
fn file(values: Values) -> Vec<u8> {
    let ty = match values {
        Values::Numbers(_) => ColumnType::BigInt,
        Values::Texts(_) => ColumnType::Text,
    };
    let name = "c".to_owned();
    let schema = Schema {
        table: "t".to_owned(),
        columns: vec![Column { name, ty }],
    };
    let path = path("forge");
    let mut writer = SegmentWriter::create(&path, schema).expect("a temporary file");
    writer.write_group(&[values]).expect("a temporary file");
    writer.finish().expect("a temporary file");
    std::fs::read(&path).expect("a temporary file")
}

/// A chunk and a file of every encoding, which whole inputs of modes 0, 1 and 3 are, and values for modes 2 and 4.
fn seeds() -> Vec<Vec<u8>> {
    let mut free = Texts::default();
    (0..1500u32).for_each(|i| free.push_display(format_args!("carefully final {}", i * i % 977)));
    let mut few = Texts::default();
    (0..1500).for_each(|i| few.push(["AIR", "RAIL", "TRUCK"][i % 3]));
    let numbers = |number: fn(i64) -> i64| Values::Numbers((0..1500).map(number).collect());
    let columns = [
        numbers(|i| i * i),
        numbers(|_| -7),
        numbers(|i| i64::MIN + i),
        Values::Texts(free),
        Values::Texts(few),
    ];
    let mut seeds = Vec::new();
    for values in columns {
        let chunk = encode(3, 5, &values);
        for (mode, bytes) in [(0, &chunk[..]), (1, &chunk), (3, &file(values))] {
            seeds.push([&[mode], bytes].concat());
        }
    }
    for mode in [2, 4] {
        // As many bytes of values as of changes: the kind, then numbers or texts with bars between.
        seeds.push([&[mode, 0x10][..], &[1, 2, 3, 4, 5], &[0, 0, 1, 9, 0, 2]].concat());
        seeds.push(
            [
                &[mode, 0x11][..],
                b"air|rail",
                &[0, 0, 1, 9, 0, 2, 30, 0, 3],
            ]
            .concat(),
        );
    }
    seeds
}

/// In memory where there is such a file system.
fn path(name: &str) -> std::path::PathBuf {
    let dir = std::path::Path::new("/dev/shm");
    let dir = if dir.is_dir() {
        dir.to_owned()
    } else {
        std::env::temp_dir()
    };
    dir.join(format!("dpb-fuzz-segment-{name}-{}", std::process::id()))
}
