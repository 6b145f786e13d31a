//! Capture files beside other programs: scapy, Wireshark's tshark and editcap, python-pcapng.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use dpb_core::port::{Dating, PacketPort};
use dpb_core::{Buf, VirtualClock};
use dpb_net::port::capture::{ByteOrder, Format, Reader, Resolution, Writer};
use dpb_net::port::{Capture, Dates, pair};

mod support;

use support::frame;

const FORMATS: [Format; 6] = [
    Format::Pcap(ByteOrder::Little, Resolution::Microseconds),
    Format::Pcap(ByteOrder::Little, Resolution::Nanoseconds),
    Format::Pcap(ByteOrder::Big, Resolution::Microseconds),
    Format::Pcap(ByteOrder::Big, Resolution::Nanoseconds),
    Format::PcapNg(ByteOrder::Little),
    Format::PcapNg(ByteOrder::Big),
];
const TIME_NS: u64 = 1_700_000_000_123_456_789;

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data/captures")
        .join(name)
}

/// The packets of a file as tshark prints them: interface, time, bytes kept, bytes there were. `-` for one that is refused.
fn read(path: &Path) -> String {
    let file = io::BufReader::new(File::open(path).expect("there is one"));
    let mut reader = Reader::new(file).expect("a capture");
    let mut lines = String::new();
    loop {
        match reader.read() {
            Ok(None) => return lines,
            Ok(Some(record)) => {
                let (s, ns) = (
                    record.time_ns / 1_000_000_000,
                    record.time_ns % 1_000_000_000,
                );
                let (kept, had) = (record.bytes.len(), record.original_len);
                lines += &format!("{} {s}.{ns:09} {kept} {had}\n", record.interface);
            }
            Err(error) => {
                assert!(error.to_string().contains("link type 101"), "{error}");
                lines += "-\n";
            }
        }
    }
}

#[test]
fn files_of_other_programs_are_read() {
    let library = "0 1700000000.500000000 60 60\n\
                   1 1700000000.250000000 61 61\n\
                   2 1700000000.123456000 62 62\n\
                   2 1700000000.123457000 63 1514\n\
                   -\n\
                   2 1700000000.999999000 64 64\n\
                   0 0.000000000 70 99\n\
                   0 0.000000000 61 61\n";
    assert_eq!(read(&data("library.pcapng")), library);
    let merged = "0 1700000000.000000000 60 60\n\
                  1 1700000000.000001001 60 60\n\
                  1 1700000001.000001006 61 61\n\
                  0 1700000001.000005000 61 61\n\
                  1 1700000002.000001011 62 62\n\
                  0 1700000002.000010000 62 62\n";
    assert_eq!(read(&data("merged.pcapng")), merged);
}

/// The bytes are those that were written: the number of a packet follows its addresses.
#[test]
fn a_port_hands_out_what_other_programs_wrote() {
    let mut port = Capture::open(Some(&data("merged.pcapng")), None).expect("a capture");
    let mut came = Vec::new();
    assert_eq!(port.receive(&mut came, 99).expect("whole"), 6);
    let numbers: Vec<u8> = came.iter().map(|packet| packet[14]).collect();
    assert_eq!(numbers, [0, 16, 17, 1, 18, 2]);
    assert!(
        came.iter()
            .all(|packet| packet[14..].iter().all(|&byte| byte == packet[14]))
    );
    assert_eq!(port.arrivals().by, Dating::File);
    assert_eq!(port.arrivals().times_ns[1], 1_700_000_000_000_001_001);
}

/// True if a program is here; otherwise the test is skipped.
fn has(program: &str, package: &str) -> bool {
    let is_here = Command::new(program)
        .arg("-v")
        .output()
        .is_ok_and(|output| output.status.success());
    if !is_here {
        println!("skipped: captures beside {program}: there is none; apt-get install {package}");
    }
    is_here
}

fn run(program: &str, arguments: &[&str], files: &[&Path]) -> String {
    let output = Command::new(program)
        .args(arguments)
        .args(files)
        .output()
        .expect("it ran before");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Two packets of which the second one needs no filling.
fn written(format: Format) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), format).expect("memory");
    writer.write(TIME_NS, &[1; 61]).expect("memory");
    writer
        .write(TIME_NS + 1_000_000_000, &[2; 1514])
        .expect("memory");
    writer.into_inner()
}

fn expected(format: Format) -> &'static str {
    match format {
        Format::Pcap(_, Resolution::Microseconds) => {
            "1700000000.123456000 61 61\n1700000001.123456000 1514 1514\n"
        }
        _ => "1700000000.123456789 61 61\n1700000001.123456789 1514 1514\n",
    }
}

#[test]
fn wireshark_reads_what_is_written() {
    if !has("tshark", "tshark") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("some");
    let fields = [
        "-T",
        "fields",
        "-E",
        "separator=/s",
        "-e",
        "frame.time_epoch",
        "-e",
        "frame.cap_len",
        "-e",
        "frame.len",
        "-n",
        "-r",
    ];
    for format in FORMATS {
        std::fs::write(&path, written(format)).expect("a folder");
        assert_eq!(
            run("tshark", &fields, &[&path]),
            expected(format),
            "{format:?}"
        );
    }
    // The numbers of interfaces are in pcapng alone.
    let fields = [
        &[
            "-T",
            "fields",
            "-E",
            "separator=/s",
            "-e",
            "frame.interface_id",
        ][..],
        &fields[4..],
    ]
    .concat();
    assert_eq!(
        run("tshark", &fields, &[&data("merged.pcapng")]),
        read(&data("merged.pcapng"))
    );
}

#[test]
fn what_wireshark_converts_is_read() {
    if !has("editcap", "wireshark-common") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let [from, to] = ["from", "to"].map(|name| folder.path().join(name));
    for format in FORMATS {
        std::fs::write(&from, written(format)).expect("a folder");
        for (kind, unit_ns) in [("pcapng", 1), ("nsecpcap", 1), ("pcap", 1_000)] {
            run("editcap", &["-F", kind], &[&from, &to]);
            let file = io::BufReader::new(File::open(&to).expect("converted"));
            let mut reader = Reader::new(file).expect("a capture");
            let original = written(format);
            let mut ours = Reader::new(&original[..]).expect("a capture");
            for _ in 0..2 {
                let (mut right, converted) =
                    (ours.read().expect("whole"), reader.read().expect("whole"));
                if let Some(record) = &mut right {
                    record.time_ns -= record.time_ns % unit_ns;
                }
                assert_eq!(converted, right, "{format:?} as {kind}");
            }
            assert_eq!(reader.read().expect("the end"), None);
        }
        // Cut to 40 bytes, and two of them in one file.
        run("editcap", &["-F", "pcapng", "-s", "40"], &[&from, &to]);
        let cut = expected(format)
            .replace(" 61 ", " 40 ")
            .replace(" 1514 ", " 40 ");
        let read: String = read(&to)
            .lines()
            .map(|line| line.strip_prefix("0 ").expect("one interface").to_owned() + "\n")
            .collect();
        assert_eq!(read, cut, "{format:?}");
        let mut port = Capture::open(Some(&to), None).expect("a capture");
        let (mut came, cut) = (Vec::new(), cut.lines().count() as u64);
        assert_eq!(port.receive(&mut came, 9).expect("all cut"), 0);
        assert_eq!(port.stats().receive_lost.malformed, cut);
    }
}

/// Runs a program under the first Python that has scapy, if there is one.
fn scapy(program: &str, arguments: &[PathBuf]) -> Option<String> {
    let has_scapy = |python: &&str| {
        let tried = Command::new(python)
            .args(["-c", "import scapy.all"])
            .output();
        tried.is_ok_and(|output| output.status.success())
    };
    let Some(python) = ["python3", "/usr/bin/python3"].into_iter().find(has_scapy) else {
        println!("skipped: captures beside scapy: no Python has it (Debian: python3-scapy)");
        return None;
    };
    let output = Command::new(python)
        .arg("-c")
        .arg(program)
        .args(arguments)
        .output();
    let output = output.expect("it ran before");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Prints the packets of each file, and puts one of its own in the place of them, as far as it can write the format.
const SCAPY: &str = "
import sys
from scapy.all import RawPcapReader, RawPcapWriter
for i, name in enumerate(sys.argv[1:]):
    for b, m in RawPcapReader(name):
        if i < 4:
            print(m.sec, m.usec, m.wirelen, len(b), b[0])
        else:
            print(m.tshigh << 32 | m.tslow, m.wirelen, len(b), b[0])
    if i < 4:
        w = RawPcapWriter(name, linktype=1, endianness='<<>>'[i], nano=i % 2 == 1)
        w.write_header(None)
        w.write_packet(b'\\x07' * 99, sec=1700000000, usec=5)
        w.close()
";

#[test]
fn captures_are_what_scapy_reads_and_writes() {
    let folder = tempfile::tempdir().expect("a folder");
    let files: Vec<PathBuf> = (0..6).map(|i| folder.path().join(format!("{i}"))).collect();
    for (format, file) in FORMATS.into_iter().zip(&files) {
        std::fs::write(file, written(format)).expect("a folder");
    }
    let Some(said) = scapy(SCAPY, &files) else {
        return;
    };
    let us = "1700000000 123456 61 61 1\n1700000001 123456 1514 1514 2\n";
    let ns = "1700000000 123456789 61 61 1\n1700000001 123456789 1514 1514 2\n";
    let ng = "1700000000123456789 61 61 1\n1700000001123456789 1514 1514 2\n";
    assert_eq!(said, [us, ns, us, ns, ng, ng].concat());
    for (format, file) in FORMATS.into_iter().zip(&files).take(4) {
        let bytes = std::fs::read(file).expect("written");
        let mut reader = Reader::new(&bytes[..]).expect("a pcap file");
        assert_eq!(reader.format(), format);
        let record = reader.read().expect("whole").expect("one");
        let fraction_ns = match format {
            Format::Pcap(_, Resolution::Microseconds) => 5000,
            _ => 5,
        };
        assert_eq!(record.time_ns, 1_700_000_000_000_000_000 + fraction_ns);
        assert_eq!(record.bytes, [7; 99]);
        assert_eq!(reader.read().expect("the end"), None);
    }
}

#[test]
fn a_capture_sends_to_a_file_what_another_receives_from_it() {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, format) in [("both.pcap", FORMATS[1]), ("both.pcapng", FORMATS[4])] {
        let path = folder.path().join(name);
        let clock = Arc::new(VirtualClock::new(false));
        let dates = Dates {
            clock: clock.clone(),
            start_ns: 1_700_000_000_000_000_000,
        };
        let mut sender = Capture::open(None, Some((&path, dates))).expect("a folder");
        clock.advance_to(123);
        let mut ready: VecDeque<Buf> = (0..9).map(|i| frame(&mut sender, i, 100)).collect();
        assert_eq!(sender.send(&mut ready).expect("writes"), 9);
        assert_eq!(sender.receive(&mut Vec::new(), 1).expect("has no file"), 0);
        let mut long =
            VecDeque::from([Buf::zeroed(sender.packet_bytes_max() + 1).expect("memory")]);
        assert!(sender.send(&mut long).is_err() && long.len() == 1);
        let stats = sender.stats();
        assert_eq!(
            (
                stats.taken.packets,
                stats.sent.bytes,
                stats.refused.too_long
            ),
            (9, 900, 1)
        );
        drop(sender);
        let mut receiver = Capture::open(Some(&path), None).expect("written");
        let [mut one, mut two] = pair();
        let mut came = Vec::new();
        assert_eq!(receiver.receive(&mut came, 5).expect("reads"), 5);
        assert_eq!(receiver.receive(&mut came, 5).expect("reads"), 4);
        assert_eq!(receiver.arrivals().times_ns, [1_700_000_000_000_000_123; 4]);
        assert_eq!(receiver.stats().delivered.bytes, 900);
        // On through another port.
        assert_eq!(one.send(&mut came.into()).expect("room"), 9);
        let mut came = Vec::new();
        assert_eq!(two.receive(&mut came, 99).expect("works"), 9);
        for (i, packet) in came.iter().enumerate() {
            assert_eq!(packet[..], frame(&mut two, i as u32, 100)[..]);
        }
        let bytes = std::fs::read(&path).expect("written");
        assert_eq!(Reader::new(&bytes[..]).expect("a capture").format(), format);
        let said =
            Capture::open(Some(&folder.path().join("none")), None).expect_err("there is none");
        assert!(said.to_string().contains("none"), "{said}");
    }
}
