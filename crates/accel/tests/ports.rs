//! Ports without DPDK: raw sockets on the loopback interface, and pcap files that another tool reads and writes.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dpb_accel::PacketPort;
use dpb_accel::port::capture::{ByteOrder, Reader, Resolution, Writer};
use dpb_accel::port::{AfPacket, Capture, Dates, pair};
use dpb_core::{Buf, VirtualClock};

/// A frame of a type that is for experiments (IEEE 802), told from others by its number.
fn frame(port: &mut dyn PacketPort, number: u8, len: usize) -> Buf {
    let mut frame = port.alloc(len).expect("memory");
    frame.fill(number);
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xB5]);
    frame
}

/// Puts the frame into a virtual network, as IEEE 802.1Q or 802.1ad tag it.
fn tag(frame: &mut Buf, number: u8) {
    let outer = [[0x81, 0x00], [0x88, 0xA8]][usize::from(number) / 3 % 2];
    let network = [0x20 | number >> 4, number];
    frame.copy_within(12..14, 16);
    frame[12..14].copy_from_slice(&outer);
    frame[14..16].copy_from_slice(&network);
}

/// The place of the frame's own type, behind its tag if it has one.
fn type_at(frame: &[u8]) -> usize {
    match frame.get(12..14) {
        Some([0x81, 0x00] | [0x88, 0xA8]) => 16,
        _ => 12,
    }
}

/// The kernel takes tags out, and they are back in what arrives.
#[test]
fn frames_out_of_a_socket_arrive_at_another() {
    let opened = AfPacket::open("lo").and_then(|one| Ok([one, AfPacket::open("lo")?]));
    let [mut one, mut two] = match opened {
        Ok(both) => both,
        Err(error) => {
            println!("skipped: raw sockets on lo: {error} (needs CAP_NET_RAW)");
            return;
        }
    };
    let mut framed = |i: u8| {
        let mut frame = frame(&mut one, i, 60 + usize::from(i));
        if !i.is_multiple_of(3) {
            tag(&mut frame, i);
        }
        frame
    };
    let mut ready: VecDeque<Buf> = (0..50).map(&mut framed).collect();
    let sent: Vec<Buf> = (0..50).map(framed).collect();
    let (mut came, start) = (Vec::new(), Instant::now());
    while came.len() < 50 && start.elapsed() < Duration::from_secs(10) {
        one.send(&mut ready).expect("sends");
        let mut all = Vec::new();
        two.receive(&mut all, 64).expect("receives");
        // Others use this interface, too.
        let is_ours = |packet: &Buf| {
            packet
                .get(type_at(packet)..)
                .is_some_and(|own| own.starts_with(&[0x88, 0xB5]))
        };
        came.extend(all.into_iter().filter(is_ours));
    }
    assert_eq!(came.len(), 50);
    for (i, (packet, sent)) in came.iter().zip(&sent).enumerate() {
        assert_eq!(packet[..], sent[..], "{i}");
    }
    let max = one.packet_bytes_max();
    let mut long = VecDeque::from([Buf::zeroed(max + 1).expect("memory")]);
    let error = one.send(&mut long).expect_err("too long");
    assert_eq!((error.kind(), long.len()), (io::ErrorKind::InvalidInput, 1));
    assert!(AfPacket::open("no-such-interface").is_err());
}

fn scratch(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("dpb-ports-{}-{name}", std::process::id()))
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
        println!("skipped: pcap files beside scapy: no Python has it (Debian: python3-scapy)");
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

const FORMATS: [(ByteOrder, Resolution); 4] = [
    (ByteOrder::Little, Resolution::Microseconds),
    (ByteOrder::Little, Resolution::Nanoseconds),
    (ByteOrder::Big, Resolution::Microseconds),
    (ByteOrder::Big, Resolution::Nanoseconds),
];

/// Prints the packets of each file, and puts one of its own in the place of them.
const SCAPY: &str = "
import sys
from scapy.all import RawPcapReader, RawPcapWriter
for i, name in enumerate(sys.argv[1:]):
    for b, m in RawPcapReader(name):
        print(m.sec, m.usec, m.wirelen, len(b), b[0])
    w = RawPcapWriter(name, linktype=1, endianness='<<>>'[i], nano=i % 2 == 1)
    w.write_header(None)
    w.write_packet(b'\\x07' * 99, sec=1700000000, usec=5)
    w.close()
";

#[test]
fn captures_are_what_scapy_reads_and_writes() {
    let files: Vec<PathBuf> = (0..4).map(|i| scratch(&format!("{i}.pcap"))).collect();
    for ((order, resolution), file) in FORMATS.into_iter().zip(&files) {
        let mut writer = Writer::new(Vec::new(), order, resolution).expect("memory");
        writer
            .write(1_700_000_000_123_456_789, &[1; 60])
            .expect("memory");
        writer
            .write(1_700_000_001_000_000_001, &[2; 1514])
            .expect("memory");
        std::fs::write(file, writer.into_inner()).expect("scratch");
    }
    let Some(said) = scapy(SCAPY, &files) else {
        return;
    };
    let us = "1700000000 123456 60 60 1\n1700000001 0 1514 1514 2\n";
    let ns = "1700000000 123456789 60 60 1\n1700000001 1 1514 1514 2\n";
    assert_eq!(said, [us, ns, us, ns].concat());
    for ((order, resolution), file) in FORMATS.into_iter().zip(&files) {
        let bytes = std::fs::read(file).expect("written");
        let mut reader = Reader::new(&bytes[..]).expect("a pcap file");
        assert_eq!(reader.format(), (order, resolution));
        let record = reader.read().expect("whole").expect("one");
        let fraction_ns = if resolution == Resolution::Nanoseconds {
            5
        } else {
            5000
        };
        assert_eq!(record.time_ns, 1_700_000_000_000_000_000 + fraction_ns);
        assert_eq!(record.bytes, [7; 99]);
        assert_eq!(reader.read().expect("the end"), None);
        std::fs::remove_file(file).expect("scratch");
    }
}

#[test]
fn a_capture_sends_to_a_file_what_another_receives_from_it() {
    let file = scratch("both.pcap");
    let clock = Arc::new(VirtualClock::new(false));
    let dates = Dates {
        clock: clock.clone(),
        start_ns: 1_700_000_000_000_000_000,
    };
    let mut sender = Capture::open(None, Some((&file, dates))).expect("scratch");
    clock.advance_to(123);
    let mut ready: VecDeque<Buf> = (0..9).map(|i| frame(&mut sender, i, 100)).collect();
    assert_eq!(sender.send(&mut ready).expect("writes"), 9);
    assert_eq!(sender.receive(&mut Vec::new(), 1).expect("has no file"), 0);
    drop(sender);
    let mut receiver = Capture::open(Some(&file), None).expect("written");
    let [mut one, mut two] = pair();
    let mut came = Vec::new();
    assert_eq!(receiver.receive(&mut came, 5).expect("reads"), 5);
    assert_eq!(receiver.receive(&mut came, 5).expect("reads"), 4);
    // On through another port.
    assert_eq!(one.send(&mut came.into()).expect("room"), 9);
    let mut came = Vec::new();
    assert_eq!(two.receive(&mut came, 99).expect("works"), 9);
    for (i, packet) in came.iter().enumerate() {
        assert_eq!(packet[..], frame(&mut two, i as u8, 100)[..]);
    }
    let mut reader = Reader::new(File::open(&file).expect("written")).expect("a capture");
    let first = reader.read().expect("whole").expect("nine");
    assert_eq!(first.time_ns, 1_700_000_000_000_000_123);
    std::fs::remove_file(&file).expect("scratch");
    assert!(Capture::open(Some(&file), None).is_err());
}
