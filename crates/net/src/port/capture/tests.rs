//! Files that are written here and read here, whole and spoilt. What other programs write and read is in `tests/captures.rs`.

use proptest::prelude::*;

use super::format::RECORD_BYTES_MAX;
use super::*;

const FORMATS: [Format; 6] = [
    Format::Pcap(ByteOrder::Little, Resolution::Microseconds),
    Format::Pcap(ByteOrder::Little, Resolution::Nanoseconds),
    Format::Pcap(ByteOrder::Big, Resolution::Microseconds),
    Format::Pcap(ByteOrder::Big, Resolution::Nanoseconds),
    Format::PcapNg(ByteOrder::Little),
    Format::PcapNg(ByteOrder::Big),
];
const TIME_NS: u64 = 1_700_000_000_123_456_789;
const LENS: [usize; 3] = [61, 0, 1514];

fn written(format: Format) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), format).expect("memory");
    for (i, len) in LENS.into_iter().enumerate() {
        let time_ns = TIME_NS + i as u64;
        writer.write(time_ns, &vec![i as u8; len]).expect("memory");
    }
    writer.into_inner()
}

fn read_all(bytes: &[u8]) -> io::Result<Vec<Record>> {
    let mut reader = Reader::new(bytes)?;
    let mut records = Vec::new();
    while let Some(record) = reader.read()? {
        records.push(record);
    }
    Ok(records)
}

#[test]
fn what_is_written_is_read_in_every_format() {
    for format in FORMATS {
        let bytes = written(format);
        assert_eq!(Reader::new(&bytes[..]).expect("a capture").format(), format);
        let records = read_all(&bytes).expect("whole");
        assert_eq!(records.len(), LENS.len());
        for (i, (record, len)) in records.iter().zip(LENS).enumerate() {
            let time_ns = match format {
                Format::Pcap(_, Resolution::Microseconds) => TIME_NS - 789,
                _ => TIME_NS + i as u64,
            };
            assert_eq!((record.time_ns, record.original_len), (time_ns, len as u32));
            assert_eq!(record.bytes, vec![i as u8; len]);
        }
    }
}

#[test]
fn packets_in_memory_lie_where_reading_finds_them() {
    for format in FORMATS {
        let bytes = written(format);
        let records = read_all(&bytes).expect("whole");
        let places: io::Result<Vec<_>> = packets(&bytes).expect("a capture").collect();
        let places = places.expect("whole");
        assert_eq!(places.len(), records.len());
        for (place, record) in places.into_iter().zip(&records) {
            assert_eq!(bytes[place], record.bytes[..]);
        }
        // Cut inside the last packet, and inside its header.
        for cut in [1, 1514 + 3] {
            let places = packets(&bytes[..bytes.len() - cut]).expect("a capture");
            let is_right: Vec<bool> = places.map(|place| place.is_ok()).collect();
            assert_eq!(is_right, [true, true, false], "{cut}");
        }
    }
    assert!(packets(b"no pcap file, but long enough to be one").is_err());
}

#[test]
fn a_file_that_ends_early_is_refused_wherever_it_ends() {
    for format in FORMATS {
        let bytes = written(format);
        // Between packets an end is none too early; nor is it behind the header of a section, or its interface.
        let (headers, per_packet): (&[usize], _) = match format {
            Format::Pcap(..) => (&[24], 16),
            Format::PcapNg(_) => (&[28, 60], 32),
        };
        let mut ends = headers.to_vec();
        let mut end = headers[headers.len() - 1];
        for len in LENS {
            let padded = match format {
                Format::Pcap(..) => len,
                Format::PcapNg(_) => len.next_multiple_of(4),
            };
            end += per_packet + padded;
            ends.push(end);
        }
        assert_eq!(end, bytes.len());
        for len in 0..bytes.len() {
            let read = read_all(&bytes[..len]);
            assert_eq!(
                read.is_ok(),
                ends.contains(&len),
                "{format:?} {len}: {read:?}"
            );
        }
    }
}

#[test]
fn what_is_no_capture_says_what_it_is() {
    let said = |bytes: &[u8]| read_all(bytes).expect_err("no capture").to_string();
    assert!(said(&[0; 24]).contains("no pcap or pcapng file"));
    assert!(said(&[0x1F, 0x8B, 8, 0, 0, 0]).contains("gunzip"));
    assert!(said(&[0x34, 0xCD, 0xB2, 0xA1]).contains("editcap"));
    assert!(said(b"snoop\0\0\0").contains("snoop"));
    let mut other_link = written(FORMATS[0]);
    other_link[20] = 101;
    assert!(said(&other_link).contains("link type 101"));
    let mut too_long = written(FORMATS[0]);
    too_long[32..36].copy_from_slice(&[0xFF; 4]);
    assert!(said(&too_long).contains("4294967295 bytes, more than 262144"));
    let mut writer = Writer::new(Vec::new(), FORMATS[0]).expect("memory");
    let packet = vec![0; RECORD_BYTES_MAX as usize + 1];
    assert!(writer.write(0, &packet).is_err() && writer.write(0, &packet[1..]).is_ok());
}

/// A check sequence that was captured is no part of the frame.
#[test]
fn check_sequences_are_left_out() {
    let mut bytes = written(FORMATS[0]);
    // Two words of two bytes, and the bit that says that this is said.
    bytes[23] = 2 << 4 | 1 << 2;
    let records = read_all(&bytes).expect("whole");
    let lens: Vec<usize> = records.iter().map(|record| record.bytes.len()).collect();
    assert_eq!(lens, [57, 0, 1510]);
}

/// The parts of a pcapng file in little endian.
fn block(kind: u32, parts: &[&[u8]]) -> Vec<u8> {
    let body = parts.concat();
    assert!(body.len().is_multiple_of(4));
    let len = (body.len() as u32 + 12).to_le_bytes();
    [&kind.to_le_bytes()[..], &len, &body, &len].concat()
}

fn section() -> Vec<u8> {
    block(
        0x0A0D_0D0A,
        &[&0x1A2B_3C4D_u32.to_le_bytes(), &[1, 0, 0, 0], &[0xFF; 8]],
    )
}

fn interface(link: u16, snap: u32, options: &[u8]) -> Vec<u8> {
    block(
        1,
        &[&link.to_le_bytes(), &[0; 2], &snap.to_le_bytes(), options],
    )
}

fn packet(interface: u32, time: u64, kept: &[u8], had: u32) -> Vec<u8> {
    let time = [(time >> 32) as u32, time as u32].map(u32::to_le_bytes);
    let lens = [kept.len() as u32, had].map(u32::to_le_bytes);
    let filling = &[0; 3][..kept.len().next_multiple_of(4) - kept.len()];
    let parts = [time.as_flattened(), lens.as_flattened(), kept, filling];
    block(6, &[&[&interface.to_le_bytes()[..]], &parts[..]].concat())
}

#[test]
fn each_interface_has_its_unit_of_time() {
    // The unit, what is added in seconds, a time, and that in nanoseconds.
    let cases: [(&[u8], i64, u64, u64); 9] = [
        (&[], 0, 5, 5_000),
        (&[9, 0, 1, 0, 9, 0, 0, 0], 0, 5, 5),
        (&[9, 0, 1, 0, 0, 0, 0, 0], 0, 5, 5_000_000_000),
        (&[9, 0, 1, 0, 12, 0, 0, 0], 0, 5_999, 5),
        (&[9, 0, 1, 0, 127, 0, 0, 0], 0, u64::MAX, 0),
        (&[9, 0, 1, 0, 0x81, 0, 0, 0], 0, 5, 2_500_000_000),
        (&[9, 0, 1, 0, 0xFF, 0, 0, 0], 0, u64::MAX, 0),
        (&[], 1_000, 5, 1_000_000_005_000),
        (&[], -1, 5, 0),
    ];
    for (unit, offset_s, time, right) in cases {
        let offset = [&[14, 0, 8, 0][..], &offset_s.to_le_bytes()].concat();
        // An option in front that nobody asks for, of a length that is filled up.
        let options = [
            &[2, 0, 3, 0, b'l', b'o', b'0', 0][..],
            unit,
            &offset,
            &[0; 4],
        ]
        .concat();
        let file = [
            section(),
            interface(1, 0, &options),
            packet(0, time, &[7; 60], 60),
        ]
        .concat();
        let records = read_all(&file).expect("whole");
        assert_eq!(records[0].time_ns, right, "{unit:?} {offset_s} {time}");
        assert_eq!(records[0].bytes, [7; 60]);
    }
}

#[test]
fn packets_of_all_kinds_and_sections_are_read() {
    let simple = block(3, &[&99_u32.to_le_bytes(), &[5; 60]]);
    let old = {
        // Interface 1, 3 drops.
        let words = [1 | 3 << 16, 0, 77, 60, 60].map(u32::to_le_bytes);
        block(2, &[words.as_flattened(), &[6; 60]])
    };
    let unknown = block(0x0BAD, &[&[1; 400]]);
    let big = {
        let mut writer = Writer::new(Vec::new(), Format::PcapNg(ByteOrder::Big)).expect("memory");
        writer.write(TIME_NS, &[8; 62]).expect("memory");
        writer.into_inner()
    };
    let file = [
        section(),
        unknown.clone(),
        interface(1, 60, &[]),
        interface(1, 0, &[]),
        simple,
        old,
        unknown,
        packet(1, 3, &[7; 61], 61),
        big,
    ]
    .concat();
    let records = read_all(&file).expect("whole");
    let seen: Vec<_> = records
        .iter()
        .map(|record| {
            (
                record.bytes[0],
                record.bytes.len(),
                record.original_len,
                record.interface,
            )
        })
        .collect();
    // Of the simple one only the snap length was kept.
    assert_eq!(
        seen,
        [
            (5, 60, 99, 0),
            (6, 60, 60, 1),
            (7, 61, 61, 1),
            (8, 62, 62, 0)
        ]
    );
    let times: Vec<u64> = records.iter().map(|record| record.time_ns).collect();
    assert_eq!(times, [0, 77_000, 3_000, TIME_NS]);
}

#[test]
fn a_packet_of_another_link_is_an_error_that_ends_nothing() {
    let file = [
        section(),
        interface(1, 0, &[]),
        interface(101, 0, &[]),
        packet(0, 1, &[1; 60], 60),
        packet(1, 2, &[2; 60], 60),
        packet(0, 3, &[3; 60], 60),
    ]
    .concat();
    let mut reader = Reader::new(&file[..]).expect("a capture");
    assert_eq!(reader.read().expect("Ethernet").expect("three").bytes[0], 1);
    let error = reader.read().expect_err("raw IP");
    assert!(error.to_string().contains("link type 101"), "{error}");
    assert_eq!(reader.read().expect("Ethernet").expect("three").bytes[0], 3);
    assert_eq!(reader.read().expect("the end"), None);
}

#[test]
fn what_a_block_cannot_say_is_refused_with_the_reason() {
    let start = [section(), interface(1, 0, &[])].concat();
    let said = |blocks: &[u8]| {
        let file = [&start[..], blocks].concat();
        let mut reader = Reader::new(&file[..]).expect("a capture");
        let error = reader.read().expect_err("no packet").to_string();
        assert_eq!(reader.read().expect("nothing more"), None);
        error
    };
    assert!(said(&packet(9, 0, &[0; 60], 60)).contains("interface 9"));
    let spoilt = |at: usize, word: u32| {
        let mut block = packet(0, 0, &[0; 60], 60);
        block[at..at + 4].copy_from_slice(&word.to_le_bytes());
        said(&block)
    };
    assert!(spoilt(4, 8).contains("a block of 8 bytes"));
    assert!(spoilt(4, 16 << 20 | 1).contains("a block of 16777217 bytes"));
    assert!(spoilt(20, 61).contains("room for 60"));
    assert!(spoilt(20, 300_000).contains("300000 bytes, more than"));
    assert!(spoilt(88, 7).contains("ends with 7"));
    let mut section = section();
    section[12] = 2;
    assert!(said(&section).contains("version 2.0"));
    section[8] = 0;
    assert!(said(&section).contains("unknown byte order"));
    assert!(said(&interface(1, 0, &[9, 0, 9, 0])).contains("longer than its block"));
}

#[test]
fn a_port_counts_what_it_cannot_hand_out_and_goes_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("some.pcapng");
    let file = [
        section(),
        interface(1, 0, &[]),
        interface(101, 0, &[]),
        packet(0, 1, &[1; 60], 60),
        packet(0, 2, &[2; 60], 1514),
        packet(1, 3, &[3; 60], 60),
        packet(0, 3, &[3; 13], 13),
        packet(0, 4, &[4; 3000], 3000),
    ]
    .concat();
    std::fs::write(&path, file).expect("a folder");
    let mut port = Capture::open(Some(&path), None).expect("a capture");
    let mut came = Vec::new();
    // A call looks at as many as it may give.
    assert_eq!(port.receive(&mut came, 2).expect("one"), 1);
    assert_eq!(port.arrivals().times_ns, [1_000]);
    assert_eq!(port.receive(&mut came, 2).expect("none"), 0);
    assert!(port.arrivals().times_ns.is_empty() && !port.is_at_end());
    assert_eq!(port.receive(&mut came, 9).expect("the last"), 1);
    assert_eq!(came[1][..], [4; 3000]);
    assert!(port.is_at_end());
    assert_eq!(port.receive(&mut came, 9).expect("the end"), 0);
    let stats = port.stats();
    assert_eq!((stats.delivered.packets, stats.delivered.bytes), (2, 3060));
    assert_eq!(
        (stats.receive_lost.malformed, stats.receive_lost.total()),
        (3, 3)
    );
}

proptest! {
    /// Whatever a file says, it is read or refused, and both ways to read agree.
    #[test]
    fn spoilt_files_are_read_or_refused(
        which in 0..FORMATS.len(),
        spoils in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = written(FORMATS[which]);
        for (at, byte) in spoils {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes.truncate(cut.index(bytes.len()) + 1);
        agree(&bytes);
    }

    #[test]
    fn bytes_of_no_kind_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300), is_ng: bool) {
        let start = if is_ng { section() } else { written(FORMATS[0])[..24].to_vec() };
        agree(&[start, bytes].concat());
    }
}

fn agree(bytes: &[u8]) {
    let Ok(mut reader) = Reader::new(bytes) else {
        assert!(packets(bytes).is_err());
        return;
    };
    for place in packets(bytes).expect("as the reader") {
        match (place, reader.read()) {
            (Ok(place), Ok(Some(record))) => assert_eq!(bytes[place], record.bytes[..]),
            (Err(_), Err(_)) => return,
            (place, record) => panic!("{place:?}, and {record:?}"),
        }
    }
    assert_eq!(reader.read().expect("the end"), None);
}
