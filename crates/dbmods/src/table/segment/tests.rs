//! Files written are read again; what is damaged is reported and not read.

use std::fs;

use super::*;
use crate::table::chunk::{BLOCK_ROWS, Part};
use crate::table::encode::{Texts, Values};

const ROWS: usize = 2100;

fn schema() -> Schema {
    let column = |name: &str, ty| Column {
        name: name.to_owned(),
        ty,
    };
    Schema {
        table: "t".to_owned(),
        columns: vec![
            column("n", ColumnType::BigInt),
            column("d", ColumnType::Text),
            column("x", ColumnType::Text),
        ],
    }
}

/// Three blocks of numbers, of a dictionary and of free text.
fn values() -> Vec<Values> {
    let (mut few, mut free) = (Texts::default(), Texts::default());
    for i in 0..ROWS {
        few.push(["AIR", "RAIL", "SHIP"][i * i % 3]);
        free.push_display(format_args!("é row {} of {}", i * 7919 % 1000, i % 37));
    }
    let numbers = (0..ROWS as i64).map(|i| i * i % 509 * 100 - 7).collect();
    vec![
        Values::Numbers(numbers),
        Values::Texts(few),
        Values::Texts(free),
    ]
}

fn write(dir: &Path) -> PathBuf {
    let path = dir.join("t.dpbseg");
    let mut writer = SegmentWriter::create(&path, schema()).unwrap();
    writer.write_group(&values()).unwrap();
    let finished = writer.finish().unwrap();
    let bytes = fs::read(&path).unwrap();
    assert_eq!(finished.bytes, bytes.len() as u64);
    assert_eq!(finished.crc32c, crc_fast::crc32_iscsi(&bytes));
    path
}

/// Every row, decoded, or the first error.
fn read(path: &Path) -> Result<Vec<Values>, SegmentError> {
    let segment = Segment::open(path)?;
    let mut columns = crate::table::encode::empty(segment.schema());
    for group in 0..segment.groups().len() {
        for (i, column) in columns.iter_mut().enumerate() {
            segment.read_chunk(group, i)?.decode(column);
        }
    }
    Ok(columns)
}

#[test]
fn what_is_written_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = write(dir.path());
    assert_eq!(read(&path).unwrap(), values());
    let segment = Segment::open(&path).unwrap();
    assert_eq!((segment.rows(), segment.schema()), (ROWS as u64, &schema()));
    assert_eq!(
        fs::read_dir(dir.path()).unwrap().count(),
        1,
        "no temporary is left"
    );
}

#[test]
fn a_file_that_is_not_finished_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = SegmentWriter::create(&dir.path().join("t"), schema()).unwrap();
    writer.write_group(&values()).unwrap();
    drop(writer);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

/// Where in the file a byte lies, as an error must name it.
#[derive(Debug, PartialEq)]
enum Place {
    File(&'static str),
    /// In a chunk's header, directory or side table, or zeros between its parts.
    Chunk(usize),
    Block(usize, u32),
}

fn place(segment: &Segment, at: u64) -> Place {
    let chunks = &segment.groups()[0].chunks;
    let inside = |chunk: &ChunkMeta| (chunk.offset..chunk.offset + chunk.len as u64).contains(&at);
    match chunks.iter().position(inside) {
        None if at < HEADER_BYTES as u64 => Place::File("header"),
        None => Place::File("footer"),
        Some(column) => {
            let chunk = segment.read_chunk(0, column).unwrap();
            let inner = (at - chunks[column].offset) as usize;
            match chunk
                .blocks()
                .iter()
                .position(|block| block.range().contains(&inner))
            {
                Some(block) => Place::Block(column, block as u32),
                None => Place::Chunk(column),
            }
        }
    }
}

#[test]
fn every_flipped_bit_is_found_and_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = write(dir.path());
    let good = fs::read(&path).unwrap();
    let whole = Segment::open(&path).unwrap();
    // `place` decodes, so ask it once for each byte, of the file that stays whole.
    let kept = dir.path().join("kept");
    fs::copy(&path, &kept).unwrap();
    let kept = Segment::open(&kept).unwrap();
    assert!(whole.groups() == kept.groups());
    let file = fs::File::options().write(true).open(&path).unwrap();
    for at in 0..good.len() as u64 {
        let place = place(&kept, at);
        // Every bit of what is not payload, one bit of each payload byte.
        let bits = if matches!(place, Place::Block(..)) {
            at as u32 % 8..at as u32 % 8 + 1
        } else {
            0..8
        };
        for bit in bits {
            file.write_all_at(&[good[at as usize] ^ (1 << bit)], at)
                .unwrap();
            match (&place, damage(&path)) {
                (Place::File(part), SegmentError::File { what, .. }) => {
                    assert!(what.starts_with(part), "byte {at}: {what}")
                }
                (Place::Chunk(column), SegmentError::Chunk { column: name, .. }) => {
                    assert_eq!(name, schema().columns[*column].name, "byte {at}")
                }
                (
                    Place::Block(column, block),
                    SegmentError::Chunk {
                        column: name,
                        source,
                        ..
                    },
                ) => {
                    assert_eq!(name, schema().columns[*column].name, "byte {at}");
                    assert_eq!(source.part, Part::Block(*block), "byte {at}");
                }
                (place, error) => panic!("byte {at} in {place:?}: {error}"),
            }
        }
        file.write_all_at(&good[at as usize..at as usize + 1], at)
            .unwrap();
    }
    assert_eq!(read(&path).unwrap(), values());
}

/// The error of a file that has one. No chunk but the damaged one may fail, so that its rows alone are lost.
fn damage(path: &Path) -> SegmentError {
    let segment = match Segment::open(path) {
        Ok(segment) => segment,
        Err(error) => return error,
    };
    let mut errors = (0..3).filter_map(|column| segment.read_chunk(0, column).err());
    let error = errors.next().expect("the damage is found");
    assert!(errors.next().is_none(), "one column is damaged");
    error
}

#[test]
fn cut_off_and_foreign_files_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = write(dir.path());
    let good = fs::read(&path).unwrap();
    let refused = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        Segment::open(&path).unwrap_err().to_string()
    };
    for len in (0..good.len()).step_by(61).chain([good.len() - 1]) {
        let error = refused(&good[..len]);
        assert!(
            error.contains("too short") || error.contains("cut off"),
            "{len}: {error}"
        );
    }
    assert!(refused(&[&good[..], b"x"].concat()).contains("appended"));
    assert!(refused(&[b'|'; 4096]).contains("no segment"));
    let mut newer = good.clone();
    newer[8] = 2;
    assert!(refused(&newer).contains("version 2"));
    assert!(
        Segment::open(dir.path())
            .unwrap_err()
            .to_string()
            .contains("not a regular file")
    );
    assert!(matches!(
        Segment::open(&dir.path().join("none")),
        Err(SegmentError::Io { .. })
    ));
}

#[test]
fn chunks_of_another_place_are_refused() {
    // Both columns are valid, and swapped: the file's checksums hold, the chunk says that it is another.
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t");
    let chunk = |column| crate::table::encode::encode(column, 0, &values()[1]);
    let mut schema = schema();
    schema.columns.remove(0);
    let mut writer = SegmentWriter::create(&path, schema).unwrap();
    writer.append(&[chunk(1), chunk(0)]).unwrap();
    writer.finish().unwrap();
    let error = Segment::open(&path).unwrap().read_chunk(0, 0).unwrap_err();
    assert!(error.to_string().contains("not the chunk"), "{error}");
}

#[test]
fn a_cold_file_is_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let segment = Segment::open(&write(dir.path())).unwrap();
    let cache = Cache::new(1 << 20);
    let read = || {
        let chunk = segment.chunk(0, 1, &cache).unwrap();
        assert_eq!(chunk.rows(), ROWS);
        assert_eq!(chunk.blocks().len(), ROWS.div_ceil(BLOCK_ROWS));
        cache.stats()
    };
    assert_eq!((read().hits, read().hits, cache.stats().misses), (0, 1, 1));
    segment.make_cold(&cache).unwrap();
    assert_eq!(cache.stats().bytes_held, 0);
    assert_eq!(read().misses, 2);
}

#[test]
fn forged_footers_are_refused_or_change_nothing_but_names() {
    let dir = tempfile::tempdir().unwrap();
    let path = write(dir.path());
    let good = fs::read(&path).unwrap();
    let footer = chunk::u64_at(&good, 16) as usize;
    let mut accepted = 0;
    for at in footer..good.len() {
        for value in [0, 1, 0x7f, 0x80, 0xff] {
            let mut bytes = good.clone();
            bytes[at] = value;
            seal(&mut bytes, footer);
            fs::write(&path, &bytes).unwrap();
            let Ok(rows) = read(&path) else {
                continue;
            };
            // Names and types are the footer's own; rows are the chunks'.
            accepted += 1;
            assert_eq!(rows, values(), "byte {at} = {value:#x}");
        }
    }
    // At the least each byte's own value, where it is among those tried.
    assert!(accepted > 0);
    for cut in footer..good.len() {
        let mut bytes = good[..cut].to_vec();
        seal(&mut bytes, footer);
        fs::write(&path, &bytes).unwrap();
        assert!(
            Segment::open(&path).is_err(),
            "footer of {} bytes",
            cut - footer
        );
    }
}

/// Sparse files that say that there is much, with all checksums right.
#[test]
fn what_a_foreign_file_can_take_is_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let path = write(dir.path());
    let good = fs::read(&path).unwrap();
    let footer_at = chunk::u64_at(&good, 16);
    let refused = |footer: &[u8], len: u32, at: u64| {
        let place = FooterPlace {
            offset: at,
            len,
            crc32c: crc_fast::crc32_iscsi(footer),
        };
        let file = fs::File::create(&path).unwrap();
        file.write_all_at(&place.to_bytes(), 0).unwrap();
        file.write_all_at(footer, at).unwrap();
        file.set_len(at + u64::from(len)).unwrap();
        Segment::open(&path).unwrap_err().to_string()
    };
    // The last column's chunk, longer by what is between it and the footer now.
    let mut footer = Footer::parse(&good[footer_at as usize..], footer_at).unwrap();
    let chunk = footer.groups[0].chunks.last_mut().unwrap();
    let more = u32::MAX - chunk.len;
    chunk.len += more;
    let bytes = footer.to_bytes();
    let error = refused(&bytes, bytes.len() as u32, footer_at + u64::from(more));
    assert!(
        error.contains("column x: has 4294967295 bytes; at most 67108864"),
        "{error}"
    );
    let error = refused(&[], u32::MAX, HEADER_BYTES as u64);
    assert!(error.contains("a footer of 4294967295 bytes"), "{error}");
    // A count of entries takes no memory beyond what the footer has bytes for.
    assert_eq!(Bytes(&[0; 100]).at_most(1 << 32, 33), 3);
    assert_eq!(Bytes(&[0; 100]).at_most(2, 33), 2);
}

#[test]
fn what_is_no_regular_file_is_refused_and_not_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let fifo = dir.path().join("fifo");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    for path in [dir.path(), &fifo] {
        let refused = Segment::open(path).unwrap_err().to_string();
        assert!(refused.contains("not a regular file"), "{refused}");
    }
}
