//! The programs of `dpb net` as processes, on capture files: what goes in, what comes out, and an account that has every packet. What cannot be run is said before it runs.

mod support;

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{BufReader, Write};
use std::process::Command;
use std::thread;
use std::time::Duration;

use dpb_core::Evidence;
use dpb_core::measure::Outcome;
use dpb_net::port::capture::Reader;
use support::{finish, records, text};

#[test]
fn what_cannot_be_run_is_said_before_it_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, content: &str| {
        let path = folder.path().join(name);
        fs::write(&path, content).expect("writes");
        path.to_str().expect("UTF-8").to_owned()
    };
    let (routes, rules, key) = (
        file("routes", "\n10.0.0.0/8 port 7 via 02:00:00:00:00:01\n"),
        file("rules", "allow everything\n"),
        file("key", "0102"),
    );
    let ports = ["--port", "capture:,a", "--port", "capture:,b"];
    let no_interface = ["--port", "af-packet:no-such-one", "--port", "capture:,b"];
    for (words, code, said) in [
        (vec!["forward"], 2, "--port"),
        (
            vec!["forward", "--port", "capture:,a"],
            2,
            "two ports at least",
        ),
        (vec!["forward", "--port", "eth0"], 2, "a kind, a colon"),
        ([&["forward"][..], &no_interface].concat(), 3, "no-such-one"),
        (
            [&["forward"][..], &ports, &["--routes", &routes]].concat(),
            2,
            "line 2: `port 7`",
        ),
        (
            [&["forward"][..], &ports, &["--backend", "lpm4=pool/2"]].concat(),
            2,
            "no stage of this program uses lpm4",
        ),
        (
            [&["forward"][..], &ports, &["--backend", "pool/2"]].concat(),
            2,
            "forward has no operator",
        ),
        (
            [&["firewall"][..], &ports, &["--backend", "pool/2"]].concat(),
            2,
            "firewall has no operator",
        ),
        (
            [
                &["encrypt"][..],
                &ports,
                &["--seed", "1", "--backend"],
                &["pool/2,aes-gcm=cpu/best,aes-gcm-decrypt=cpu/best"],
            ]
            .concat(),
            2,
            "each operator of encrypt has a backend of its own",
        ),
        (
            [
                &["app-recognition", "run"][..],
                &ports,
                &["--policy", "tls=burn"],
            ]
            .concat(),
            2,
            "no action",
        ),
        (
            [
                &["app-recognition", "run"][..],
                &ports,
                &["--rules", "/nosuch"],
            ]
            .concat(),
            2,
            "/nosuch",
        ),
        (
            [&["app-recognition"][..], &ports].concat(),
            2,
            "unexpected argument '--port'",
        ),
        (
            [&["firewall"][..], &ports, &["--rules", &rules]].concat(),
            2,
            "line 1",
        ),
        (
            [&["encrypt"][..], &ports, &["--key", &key]].concat(),
            2,
            "chmod 600",
        ),
        (
            [&["decrypt"][..], &ports].concat(),
            2,
            "the same --key FILE",
        ),
        (
            [&["encrypt"][..], &ports, &["--spi", "9", "--seed", "1"]].concat(),
            2,
            "from 256",
        ),
        (
            [
                &["encrypt"][..],
                &ports,
                &["--backend", "sim/default", "--seed", "1"],
            ]
            .concat(),
            2,
            "a model has a time of its own",
        ),
        (
            [
                &["encrypt"][..],
                &ports,
                &["--backend", "gpu/best", "--seed", "1"],
            ]
            .concat(),
            2,
            "gpu/best",
        ),
        (
            [&["nat44"][..], &ports, &["--key", &key]].concat(),
            2,
            "--key",
        ),
    ] {
        let output = finish(&[&["net"][..], &words].concat());
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{words:?}: {stderr}");
        assert!(stderr.contains(said), "{words:?}: {stderr}");
    }
}

/// A frame with an IPv4 packet to this address.
fn packet_to(to: [u8; 4]) -> Vec<u8> {
    let mut frame = vec![0; 60];
    frame[12..14].copy_from_slice(&[8, 0]);
    frame[14..26].copy_from_slice(&[0x45, 0, 0, 46, 0, 0, 0, 0, 9, 253, 0, 0]);
    frame[26..30].copy_from_slice(&[10, 0, 0, 1]);
    frame[30..34].copy_from_slice(&to);
    let words = frame[14..34].as_chunks::<2>().0.iter();
    let sum: u32 = words.map(|word| u32::from(u16::from_be_bytes(*word))).sum();
    let sum = !((sum & 0xFFFF) + (sum >> 16)) as u16;
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    frame
}

/// A capture in the classic format, little endian, with microseconds: bytes that were kept of each frame, and how many it had.
fn capture_of<'a>(frames: impl Iterator<Item = (&'a [u8], u32)>) -> Vec<u8> {
    let mut capture = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65535, 1] {
        capture.extend(word.to_le_bytes());
    }
    for (kept, had) in frames {
        for word in [0, 0, kept.len() as u32, had] {
            capture.extend(word.to_le_bytes());
        }
        capture.extend(kept);
    }
    capture
}

/// The frames of a capture.
fn frames_of(path: &str) -> Vec<Vec<u8>> {
    let file = BufReader::new(File::open(path).expect("a file"));
    let mut reader = Reader::new(file).expect("a capture");
    let next = || reader.read().expect("whole");
    std::iter::from_fn(next)
        .map(|record| record.bytes)
        .collect()
}

/// The end of a capture is where it ends, however long nothing comes of it. What was cut is lost, and counted.
#[test]
fn a_capture_is_read_to_its_end_and_what_was_cut_is_lost() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let made = Command::new("mkfifo").arg(path("in.pcap")).status();
    assert!(made.expect("coreutils").success());
    // A burst, and behind the pause one that was cut and more than a loop reads before it looks around.
    let (before, behind) = (32, 4000);
    let frames: Vec<Vec<u8>> = (0..before + behind)
        .map(|i: u32| packet_to((0x0a00_0000 + i).to_be_bytes()))
        .collect();
    let mut written = capture_of(frames.iter().map(|frame| (&frame[..], 60)));
    let cut = capture_of([(&frames[0][..40], 60)].into_iter());
    let pause = 24 + before as usize * (16 + 60);
    written.splice(pause..pause, cut[24..].iter().copied());
    for threads in ["1", "3"] {
        let (to, written) = (path("in.pcap"), written.clone());
        let writer = thread::spawn(move || {
            let mut file = File::options().write(true).open(to).expect("a reader");
            let (first, rest) = written.split_at(pause);
            file.write_all(first).expect("a reader");
            thread::sleep(Duration::from_secs(1));
            file.write_all(rest).expect("a reader");
        });
        let (near, far) = (path("near.pcap"), path("far.pcap"));
        let ports = [
            format!("capture:{},{near}", path("in.pcap")),
            format!("capture:,{far}"),
        ];
        let output = finish(&[
            "net",
            "forward",
            "--port",
            &ports[0],
            "--port",
            &ports[1],
            "--threads",
            threads,
            "--format",
            "json",
        ]);
        writer.join().expect("written");
        let stderr = text(&output.stderr);
        assert!(output.status.success(), "{stderr}");
        assert!(stderr.contains("1 packets were cut"), "{stderr}");
        let record = records(&output).remove(0);
        for (name, count) in [
            ("received_packets", u64::from(before + behind)),
            ("sent_packets", u64::from(before + behind)),
            ("port.0.lost_before.malformed", 1),
        ] {
            assert_eq!(record.counts[name], count, "{name}: {:?}", record.counts);
        }
        let by = "capture files".to_owned();
        assert_eq!(record.evidence, Evidence::Emulated { by });
        // Several threads keep the order of flows alone.
        let mut came = frames_of(&far);
        let mut right = frames.clone();
        came.sort_unstable();
        right.sort_unstable();
        assert!(came == right, "{} frames", came.len());
    }
}

/// Programs that start one behind another, within a second too, use no IV of a key twice.
#[test]
fn no_iv_comes_twice_with_a_key() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let frames: Vec<Vec<u8>> = (0..9).map(|i| packet_to([10, 0, 1, i])).collect();
    let written = capture_of(frames.iter().map(|frame| (&frame[..], 60)));
    fs::write(path("in.pcap"), written).expect("writes");
    let key = path("key");
    let made = Command::new("sh")
        .args(["-c", "umask 077; printf %040d 7 > \"$1\"", "sh", &key])
        .status();
    assert!(made.expect("sh").success());
    let ports = [
        format!("capture:{}", path("in.pcap")),
        format!("capture:,{}", path("far.pcap")),
    ];
    let mut ivs = HashSet::new();
    for _ in 0..6 {
        let output = finish(&[
            "net", "encrypt", "--port", &ports[0], "--port", &ports[1], "--key", &key,
        ]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        for frame in frames_of(&path("far.pcap")) {
            // Ethernet, IPv4, SPI and sequence number stand in front of it.
            assert!(ivs.insert(frame[14 + 20 + 8..][..8].to_vec()), "{ivs:?}");
        }
    }
    assert_eq!(ivs.len(), 6 * 9);
}

/// Packets of a flow whose verdict says so leave by the port that they came by; the others pass as they came, whatever is computed of them.
#[test]
fn a_capture_is_recognised_and_some_of_it_sent_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let to = format!("capture:,{}", path("in.pcap"));
    let words = "--packets 4000 --flows 20 --lengths 40 --application tls-1.3,http,dns,ssh --size 200 --replies 0.5";
    let words: Vec<&str> = words.split(' ').collect();
    let output = finish(&[&["net", "generate", "--port", &to][..], &words].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let sent = frames_of(&path("in.pcap"));
    let ports = [
        format!("capture:{},{}", path("in.pcap"), path("back.pcap")),
        format!("capture:,{}", path("on.pcap")),
    ];
    for threads in ["1", "3"] {
        let output = finish(&[
            "net",
            "app-recognition",
            "run",
            "--port",
            &ports[0],
            "--port",
            &ports[1],
            "--threads",
            threads,
            "--policy",
            "tls=back,http=compress,dns=hash,ssh=drop,other=pass",
            "--format",
            "json",
        ]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let record = records(&output).remove(0);
        let count = |name: &str| record.counts[name];
        let [back, on] = ["back.pcap", "on.pcap"].map(|name| frames_of(&path(name)));
        assert_eq!(back.len() as u64, count("packets_sent_back"));
        assert_eq!(
            on.len() as u64 + count("dropped_packets") + back.len() as u64,
            4000
        );
        assert_eq!(count("dropped_packets"), count("dropped.denied by policy"));
        assert!(count("packets_compressed") > 0 && count("packets_hashed") > 0);
        let check = record.check.as_ref().expect("checked");
        assert!(check.against.contains("by their verdicts"), "{check:?}");
        let as_sent: HashSet<&Vec<u8>> = sent.iter().collect();
        assert!(on.iter().all(|frame| as_sent.contains(frame)));
        for frame in &back {
            let there = [&frame[6..12], &frame[..6], &frame[12..]].concat();
            assert!(as_sent.contains(&there) && !there.is_empty());
        }
        for name in ["flows.tls", "flows.http", "flows.dns", "flows.ssh"] {
            assert!(count(name) > 0, "{name}: {:?}", record.counts);
        }
    }
    let table = finish(&[
        "net",
        "app-recognition",
        "run",
        "--port",
        &ports[0],
        "--port",
        &ports[1],
        "--format",
        "table",
    ]);
    let stdout = text(&table.stdout);
    for said in ["application", "server", "bytes made", "sent back"] {
        assert!(stdout.contains(said), "{stdout}");
    }
}

/// A capture goes through a program from its start to its end; each format shows the account.
#[test]
fn a_capture_goes_through_a_router() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let frames = [[10, 0, 1, 9], [10, 0, 2, 9], [192, 0, 2, 9], [10, 0, 1, 10]].map(packet_to);
    let capture = capture_of(frames.iter().map(|frame| (&frame[..], 60)));
    fs::write(path("in.pcap"), &capture).expect("writes");
    let routes =
        "10.0.1.0/24 port 1 via 02:00:00:00:01:01\n10.0.0.0/16 port 0 via 02:00:00:00:00:09\n";
    fs::write(path("routes"), routes).expect("writes");
    let ports = [
        format!("capture:{},{}", path("in.pcap"), path("near.pcap")),
        format!("capture:,{}", path("far.pcap")),
    ];
    let routes = path("routes");
    let command = [
        "net", "forward", "--port", &ports[0], "--port", &ports[1], "--routes", &routes,
    ];
    for threads in ["1", "3"] {
        let output = finish(&[&command[..], &["--threads", threads, "--format", "json"]].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        let records = records(&output);
        let [record] = &records[..] else {
            panic!("{records:?}");
        };
        assert_eq!(
            (record.task.as_str(), &record.outcome),
            ("net forward", &Outcome::Done)
        );
        for (name, count) in [
            ("received_packets", 4),
            ("sent_packets", 3),
            ("dropped.no route", 1),
            ("port.0.received", 4),
            ("port.0.sent", 1),
            ("port.1.sent", 2),
        ] {
            assert_eq!(record.counts[name], count, "{name}: {:?}", record.counts);
        }
        assert_eq!(record.parameters["backend"].to_string(), "lpm4 on cpu/best");
        let far = fs::read(path("far.pcap")).expect("a capture");
        assert_eq!(far.len(), 24 + 2 * (16 + 60));
        let frame = &far[24 + 16..][..60];
        assert_eq!(frame[..6], [2, 0, 0, 0, 1, 1]);
        assert_eq!((frame[22], &frame[26..34]), (8, &frames[0][26..34]));
    }
    for (format, said) in [
        ("table", "no route"),
        ("markdown", "| no route | 1 |"),
        ("csv", "sent_packets,3"),
    ] {
        let output = finish(&[&command[..], &["--format", format]].concat());
        let stdout = text(&output.stdout);
        assert!(output.status.success() && stdout.contains(said), "{stdout}");
    }
}
