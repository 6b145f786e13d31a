//! Capture files from arbitrary bytes: they are read or refused, both ways to read agree, and what was read is written and read again, in every format.
#![no_main]

use dpb_net::port::capture::{ByteOrder, Format, Reader, Record, Resolution, Writer, packets};
use libfuzzer_sys::fuzz_target;

const FORMATS: [Format; 6] = [
    Format::Pcap(ByteOrder::Little, Resolution::Microseconds),
    Format::Pcap(ByteOrder::Big, Resolution::Nanoseconds),
    Format::Pcap(ByteOrder::Big, Resolution::Microseconds),
    Format::Pcap(ByteOrder::Little, Resolution::Nanoseconds),
    Format::PcapNg(ByteOrder::Little),
    Format::PcapNg(ByteOrder::Big),
];

fuzz_target!(init: dpb_fuzz::plant(seeds()), |input: &[u8]| {
    let Ok(mut reader) = Reader::new(input) else {
        assert!(packets(input).is_err());
        return;
    };
    let mut records: Vec<Record> = Vec::new();
    for place in packets(input).expect("as the reader") {
        match (place, reader.read()) {
            (Ok(place), Ok(Some(record))) => {
                assert_eq!(input[place], record.bytes[..]);
                records.push(record);
            }
            (Err(_), Err(_)) => break,
            (place, record) => panic!("{place:?}, and {record:?}"),
        }
    }
    // Behind a packet of another link reading may go on, and ends.
    while !matches!(reader.read(), Ok(None)) {}
    for format in FORMATS {
        assert_eq!(read(&written(&records, format)), records.iter().map(|record| as_in(record, format)).collect::<Vec<_>>());
    }
});

/// What a format keeps of a record.
fn as_in(record: &Record, format: Format) -> Record {
    const SECOND_NS: u64 = 1_000_000_000;
    let time_ns = match format {
        Format::PcapNg(_) => record.time_ns,
        Format::Pcap(_, resolution) => {
            let seconds = u64::from((record.time_ns / SECOND_NS) as u32);
            let fraction_ns = record.time_ns % SECOND_NS;
            seconds * SECOND_NS
                + match resolution {
                    Resolution::Nanoseconds => fraction_ns,
                    Resolution::Microseconds => fraction_ns - fraction_ns % 1000,
                }
        }
    };
    Record {
        time_ns,
        bytes: record.bytes.clone(),
        original_len: record.bytes.len() as u32,
        interface: 0,
    }
}

fn written(records: &[Record], format: Format) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), format).expect("memory");
    for record in records {
        writer.write(record.time_ns, &record.bytes).expect("memory");
    }
    writer.into_inner()
}

fn read(file: &[u8]) -> Vec<Record> {
    let mut reader = Reader::new(file).expect("was written");
    std::iter::from_fn(|| reader.read().expect("was written")).collect()
}

/// Two packets in each format, and files that other programs wrote.
fn seeds() -> Vec<Vec<u8>> {
    let record = |number: u8, len: usize| Record {
        time_ns: 1_700_000_000_123_456_789 + u64::from(number),
        bytes: vec![number; len],
        original_len: len as u32,
        interface: 0,
    };
    let records = [record(1, 61), record(2, 80)];
    let mut seeds: Vec<Vec<u8>> = FORMATS
        .iter()
        .map(|&format| written(&records, format))
        .collect();
    seeds.push(include_bytes!("../../crates/net/tests/data/captures/library.pcapng").to_vec());
    seeds.push(include_bytes!("../../crates/net/tests/data/captures/merged.pcapng").to_vec());
    seeds
}
