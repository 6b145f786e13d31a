//! `dpb tcp` as processes: over loopback, against a server with a token, between two network namespaces, beside iperf3 and sockperf.

mod support;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use dpb_core::measure::{Outcome, Record, Value};
use rustix::process::{Pid, Signal, kill_process};
use support::{DPB, children, csv, dpb, finish, listening, records, runs, text, wait_until};

/// As short as a test may be that has figures.
const SHORT: [&str; 6] = ["--seconds", "30ms", "--warm-up", "5ms", "--repeat", "3"];

fn tcp<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&["tcp"], &SHORT[..], more].concat()
}

fn assert_ends(args: &[&str], code: i32, says: &str) -> Output {
    let output = finish(args);
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {stderr}");
    assert!(stderr.contains(says), "{args:?}: {stderr}");
    output
}

fn parameter(record: &Record, name: &str) -> String {
    record.parameters[name].to_string()
}

fn median(record: &Record, name: &str) -> f64 {
    let summary = record.summary.get(name);
    summary
        .unwrap_or_else(|| panic!("{name} of {:?}", record.summary))
        .median
}

/// What any record of a test that went well has.
fn assert_whole(record: &Record) {
    assert_eq!(
        (record.task.as_str(), &record.outcome),
        ("tcp", &Outcome::Done)
    );
    let check = record.check.as_ref().expect("checked");
    assert_eq!(check.compared, record.counts["messages"]);
    assert!(median(record, "messages_per_s") > 0.0);
    let size: f64 = parameter(record, "size").parse().expect("a number");
    let bytes = median(record, "bytes_per_s") / median(record, "messages_per_s");
    assert!((bytes / size - 1.0).abs() < 1e-9, "{bytes} of {size}");
    for end in ["client", "server"] {
        assert!(median(record, &format!("{end}_cpu_ns_per_message")) > 0.0);
        assert!(median(record, &format!("{end}_cpu_ns_per_byte")) > 0.0);
    }
    assert!(record.counts.contains_key("retransmissions"));
}

#[test]
fn loopback_needs_nothing_and_leaves_nothing() {
    let output = finish(&tcp(&["--size", "64", "--depth", "1"]));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let records = records(&output);
    let [record] = &records[..] else {
        panic!("{records:?}")
    };
    assert_whole(record);
    for (name, value) in [
        ("tool", "dpb"),
        ("server", "loopback"),
        ("link", "loopback"),
        ("wire", "false"),
        ("size", "64"),
        ("depth", "1"),
        ("connections", "1"),
        ("direction", "echo"),
        ("mode", "closed"),
        ("engine", "sockets"),
        ("nodelay", "true"),
        ("repeat", "3"),
    ] {
        assert_eq!(parameter(record, name), value, "{name}");
    }
    assert!(record.provenance.libraries["server"].starts_with("dpb "));
    let percentiles = ["p50", "p90", "p99", "p999", "max"];
    let percentiles = percentiles.map(|name| median(record, &format!("latency_ns_{name}")));
    assert!(
        percentiles.is_sorted() && percentiles[0] > 0.0,
        "{percentiles:?}"
    );
    assert!(median(record, "latency_ns_mean") <= percentiles[4]);
    assert!(record.samples["latency_ns"].hdr.is_some());
    // A message is under way all the time, so that there are as many a second as fit; the rest is what is not a round trip.
    let share = median(record, "messages_per_s") * median(record, "latency_ns_mean") / 1e9;
    assert!(share < 1.01, "{share}");
}

#[test]
fn every_parameter_sweeps_and_every_format_shows_it() {
    let output = finish(&tcp(&[
        "--size",
        "8,1KiB",
        "--depth",
        "1,4",
        "--connections",
        "1,2",
        "--direction",
        "echo,send,receive",
        "--engine",
        "sockets,io_uring",
        "--buffer",
        "256KiB",
        "--nodelay",
        "false",
        "--pin",
        "0",
    ]));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let swept = records(&output);
    assert_eq!(swept.len(), 48);
    for record in &swept {
        let is_ring = parameter(record, "engine") == "io_uring";
        if let (Outcome::Unsupported { reason }, true) = (&record.outcome, is_ring) {
            println!("skipped: {reason}");
            continue;
        }
        assert_whole(record);
        assert_eq!(parameter(record, "buffer"), "262144");
        assert_eq!(parameter(record, "nodelay"), "false");
        assert_eq!(record.provenance.pinned, [0]);
        let (sent, received) = (record.counts["bytes_sent"], record.counts["bytes_received"]);
        let direction = parameter(record, "direction");
        assert_eq!(
            (sent == 0, received == 0),
            (direction == "receive", direction == "send")
        );
        assert_eq!(
            record.summary.contains_key("latency_ns_p50"),
            direction == "echo"
        );
    }
    let shown = |format| finish(&tcp(&["--size", "64", "--depth", "1", "--format", format]));
    let rows = csv(&text(&shown("csv").stdout));
    assert_eq!((rows.len(), rows[0].len()), (2, rows[1].len()));
    let column = rows[0]
        .iter()
        .position(|title| title == "messages_per_s")
        .expect("a column");
    assert!(rows[1][column].parse::<f64>().expect("a number") > 0.0);
    assert!(text(&shown("table").stdout).starts_with("direction"));
    assert!(text(&shown("markdown").stdout).starts_with("| direction"));
}

#[test]
fn an_open_loop_offers_what_it_was_told() {
    let open = [
        "tcp",
        "--repeat",
        "3",
        "--mode",
        "open",
        "--rate",
        "2000",
        "--size",
        "64",
        "--depth",
        "8",
        "--seconds",
        "0.2",
    ];
    let output = finish(&open);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let records = records(&output);
    let [record] = &records[..] else {
        panic!("{records:?}")
    };
    assert_whole(record);
    assert_eq!(parameter(record, "rate"), "2000");
    assert_eq!(median(record, "offered_messages_per_s"), 2000.0);
    assert!(record.summary.contains_key("start_delay_ns_p99"));
    // 1200 arrivals, give or take six standard deviations.
    let arrivals = record.counts["messages"] + record.counts["arrivals_unserved"];
    assert!((990..=1410).contains(&arrivals), "{arrivals}");
}

#[test]
fn what_makes_no_sense_is_wrong_usage() {
    let cases: [(&[&str], &str); 9] = [
        (&["--size", "7"], "8 (their number)"),
        (&["--rate", "5"], "--mode open"),
        (&["--mode", "open"], "--rate"),
        (
            &["--mode", "open", "--rate", "5", "--direction", "send"],
            "--direction echo",
        ),
        (&["--pin", "4000"], "--pin 4000"),
        (&["--server", "there"], "dpu:7400"),
        (&["--serve", "--server", "there:1"], "--server"),
        (&["--serve", "--listen", "0.0.0.0:0"], "--token-file"),
        (&["--engine", "rdma"], "io_uring"),
    ];
    for (more, says) in cases {
        let output = assert_ends(&tcp(more), 2, says);
        assert!(output.stdout.is_empty(), "{more:?}");
    }
    // Nobody listens there.
    let nobody = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let nobody = nobody.expect("loopback").to_string();
    assert_ends(&tcp(&["--server", &nobody]), 3, "dpb tcp --serve");
}

#[test]
fn every_flag_stands_under_a_heading() {
    let help = text(&finish(&["tcp", "--help"]).stdout);
    for heading in ["Where:", "Test:", "Runs:", "Files:", "Examples:"] {
        assert!(help.contains(heading), "{heading}: {help}");
    }
    let (_, ours) = help.split_once("Options:").expect("the flags of all verbs");
    let (all_verbs, _) = ours.split_once("Where:").expect("a heading");
    for flag in ["--size", "--out", "--listen"] {
        assert!(!all_verbs.contains(flag), "{all_verbs}");
    }
}

/// A server of a test; killed with it.
struct Serving {
    child: Child,
    address: String,
}

impl Serving {
    fn start(token: &Path) -> Self {
        let token = token.to_str().expect("UTF-8");
        let words = [
            "--format",
            "json",
            "tcp",
            "--serve",
            "--listen",
            "127.0.0.1:0",
        ];
        let mut serve = dpb(&[&words[..], &["--token-file", token]].concat());
        let (child, address) = listening(serve.stderr(Stdio::null()));
        Self { child, address }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn token_file(dir: &Path, name: &str, token: &str) -> PathBuf {
    let path = dir.join(name);
    let mut options = std::fs::OpenOptions::new();
    let file = options.create_new(true).write(true).mode(0o600).open(&path);
    file.and_then(|mut file| file.write_all(token.as_bytes()))
        .expect("a folder of ours");
    path
}

#[test]
fn a_server_takes_who_has_its_token() {
    let dir = tempfile::tempdir().expect("a folder");
    let right = token_file(dir.path(), "right", "0123456789abcdef0123\n");
    let wrong = token_file(dir.path(), "wrong", "0123456789abcdef0124\n");
    let out = dir.path().join("records.jsonl");
    let serving = Serving::start(&right);
    let with = |token: &Path, more: &[&str]| {
        let token = token.to_str().expect("UTF-8");
        let to = [
            "--server",
            &serving.address,
            "--token-file",
            token,
            "--size",
            "64",
            "--depth",
            "1",
        ];
        finish(&[&tcp(&to)[..], more].concat())
    };
    let refused = with(&wrong, &[]);
    assert_eq!(refused.status.code(), Some(3), "{}", text(&refused.stderr));
    assert!(text(&refused.stderr).contains("--token-file"));
    for _ in 0..2 {
        let output = with(&right, &["--out", out.to_str().expect("UTF-8")]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let records = records(&output);
        assert_whole(&records[0]);
        assert_eq!(parameter(&records[0], "server"), serving.address);
    }
    let kept = std::fs::read_to_string(&out).expect("written");
    assert_eq!(kept.lines().count(), 2);
    // Asked to end, it ends well.
    let pid = Pid::from_child(&serving.child);
    kill_process(pid, Signal::TERM).expect("it lives");
    assert!(wait_until(Duration::from_secs(10), || !runs(
        serving.child.id()
    )));
}

#[test]
fn a_server_of_its_own_ends_with_a_client_that_is_killed() {
    let long = ["tcp", "--size", "64", "--depth", "1", "--seconds", "60"];
    let mut client = dpb(&long)
        .stdout(Stdio::null())
        .spawn()
        .expect("dpb starts");
    let pid = client.id();
    assert!(wait_until(Duration::from_secs(20), || !children(pid).is_empty()));
    let server = children(pid)[0];
    // Into the first run.
    thread::sleep(Duration::from_millis(500));
    client
        .kill()
        .and_then(|()| client.wait())
        .expect("it lived");
    assert!(wait_until(Duration::from_secs(20), || !runs(server)));
}

#[test]
fn an_interrupt_leaves_whole_records_and_no_process() {
    let dir = tempfile::tempdir().expect("a folder");
    let out = dir.path().join("records.jsonl");
    let path = out.to_str().expect("UTF-8");
    let args = [
        "tcp",
        "--size",
        "64,128",
        "--depth",
        "1",
        "--seconds",
        "0.1",
        "--repeat",
        "1000",
        "--out",
        path,
    ];
    let client = dpb(&args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let client = client.expect("dpb starts");
    let pid = client.id();
    assert!(wait_until(Duration::from_secs(20), || !children(pid).is_empty()));
    let server = children(pid)[0];
    thread::sleep(Duration::from_millis(700));
    kill_process(Pid::from_child(&client), Signal::INT).expect("it lives");
    let output = client.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    assert!(
        text(&output.stderr).contains("1 of 2 tests"),
        "{}",
        text(&output.stderr)
    );
    assert!(wait_until(Duration::from_secs(10), || !runs(server)));
    let records = records(&output);
    assert_eq!(records[0].outcome, Outcome::Interrupted);
    let kept = std::fs::read_to_string(&out).expect("written");
    assert_eq!(kept.lines().count(), records.len());
}

/// A proxy that turns one bit of each data connection, far behind its first frame.
fn spoiling(server: String) -> String {
    const JOIN: u8 = 5;
    const PLACE: usize = 30_001;
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let address = listener.local_addr().expect("bound").to_string();
    thread::spawn(move || {
        for client in listener.incoming() {
            let client = client.expect("a connection");
            let server = TcpStream::connect(&server).expect("it listens");
            let copy = |mut from: TcpStream, mut to: TcpStream, spoils: bool| {
                thread::spawn(move || {
                    let (mut bytes, mut at, mut first) = (vec![0; 8192], 0, 0);
                    while let Ok(read @ 1..) = from.read(&mut bytes) {
                        if at == 0 {
                            first = bytes[0];
                        }
                        if spoils && first == JOIN && (at..at + read).contains(&PLACE) {
                            bytes[PLACE - at] ^= 0x20;
                        }
                        at += read;
                        if to.write_all(&bytes[..read]).is_err() {
                            break;
                        }
                    }
                    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
                });
            };
            let back = server.try_clone().expect("a socket");
            let again = client.try_clone().expect("a socket");
            copy(client, server, true);
            copy(back, again, false);
        }
    });
    address
}

#[test]
fn a_wrong_byte_fails_the_test_and_leaves_no_number() {
    let dir = tempfile::tempdir().expect("a folder");
    let token = token_file(dir.path(), "token", "0123456789abcdef0123\n");
    let serving = Serving::start(&token);
    let proxy = spoiling(serving.address.clone());
    let token = token.to_str().expect("UTF-8");
    for direction in ["echo", "send"] {
        let to = [
            "--server",
            &proxy,
            "--token-file",
            token,
            "--direction",
            direction,
            "--size",
            "1KiB",
            "--depth",
            "4",
        ];
        let output = assert_ends(&tcp(&to), 1, "there is no number for it");
        let records = records(&output);
        let Outcome::Failed { reason } = &records[0].outcome else {
            panic!("{records:?}")
        };
        assert!(
            reason.contains("byte ") || reason.contains("number"),
            "{reason}"
        );
        assert!(records[0].summary.is_empty() && records[0].samples.is_empty());
    }
}

#[test]
fn iperf3_and_sockperf_stand_beside_it() {
    let has = |program: &str| {
        let output = Command::new(program).arg("--version").output();
        output.is_ok_and(|output| !output.stdout.is_empty())
    };
    for (tool, more) in [
        (
            "sockperf",
            ["--direction", "echo", "--size", "64", "--depth", "1"],
        ),
        (
            "iperf3",
            ["--direction", "send", "--size", "16KiB", "--depth", "8"],
        ),
    ] {
        let args = [
            &["tcp", "--beside", "--repeat", "1", "--seconds", "0.2"],
            &more[..],
        ]
        .concat();
        let output = finish(&args);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let records = records(&output);
        let [ours, theirs] = &records[..] else {
            panic!("{records:?}")
        };
        assert_whole(ours);
        assert_eq!(parameter(theirs, "tool"), tool);
        let same = |name: &str| assert_eq!(ours.parameters[name], theirs.parameters[name]);
        ["size", "depth", "connections", "direction", "server"]
            .into_iter()
            .for_each(same);
        if !has(tool) {
            assert!(matches!(theirs.outcome, Outcome::Unsupported { .. }));
            println!("skipped: {tool} is missing; apt-get install {tool}");
            continue;
        }
        assert_eq!(theirs.outcome, Outcome::Done);
        assert!(theirs.check.is_none() && theirs.provenance.libraries.contains_key(tool));
        assert_eq!(theirs.parameters["seconds"], Value::Float(1.0));
        // Two programs that do the same are not hundreds of times apart.
        let ratio = median(ours, "messages_per_s") / median(theirs, "messages_per_s");
        assert!((0.01..100.0).contains(&ratio), "{ratio}");
    }
    // What neither of them does has no row.
    let deep = finish(&tcp(&["--beside", "--size", "64", "--depth", "16"]));
    assert_eq!(records(&deep).len(), 1, "{}", text(&deep.stderr));
}

#[test]
fn with_a_server_elsewhere_the_peers_servers_are_a_persons() {
    let dir = tempfile::tempdir().expect("a folder");
    let token = token_file(dir.path(), "token", "0123456789abcdef0123\n");
    let serving = Serving::start(&token);
    let token = token.to_str().expect("UTF-8");
    let free = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = free.local_addr().expect("its address").port().to_string();
    drop(free);
    let server = ["--server", &serving.address, "--token-file", token];
    let flags = [
        "--beside",
        "--repeat",
        "1",
        "--seconds",
        "0.2",
        "--iperf3-port",
    ];
    let work = ["--direction", "send", "--size", "16KiB", "--depth", "8"];
    let args = [&["tcp"], &server[..], &flags, &[port.as_str()], &work].concat();
    let beside = || {
        let output = finish(&args);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let [ours, theirs] = &records(&output)[..] else {
            panic!("two records")
        };
        assert_whole(ours);
        assert_eq!(parameter(theirs, "tool"), "iperf3");
        assert_eq!(theirs.parameters["server"], ours.parameters["server"]);
        (ours.clone(), theirs.clone())
    };
    let Ok(probe) = Command::new("iperf3").arg("--version").output() else {
        println!("skipped: iperf3 is missing; apt-get install iperf3");
        return;
    };
    assert!(probe.status.success());
    let (_, absent) = beside();
    let Outcome::Unsupported { reason } = &absent.outcome else {
        panic!("{absent:?}")
    };
    assert!(
        reason.contains(&format!("start `iperf3 -s -p {port}`")),
        "{reason}"
    );
    let started = Command::new("iperf3")
        .args(["-s", "-p", &port])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let mut started = started.expect("iperf3 starts");
    let is_there = || TcpStream::connect(format!("127.0.0.1:{port}")).is_ok();
    assert!(wait_until(Duration::from_secs(10), is_there), "it listens");
    let (ours, theirs) = beside();
    let _ = started.kill();
    let _ = started.wait();
    assert_eq!(theirs.outcome, Outcome::Done, "{theirs:?}");
    assert_eq!(theirs.parameters["link"], ours.parameters["link"]);
    let alone = finish(&["tcp", "--iperf3-port", "5201"]);
    assert_eq!(alone.status.code(), Some(2), "{}", text(&alone.stderr));
}

/// Two namespaces and a pair of interfaces, the server in one and the client in the other. Everything ends with the shell.
const NAMESPACES: &str = r#"
set -e
mount -t tmpfs tmpfs /run
ip netns add dpu
ip link add host0 type veth peer name dpu0 netns dpu
ip addr add 10.77.0.1/24 dev host0
ip link set host0 up
ip -n dpu addr add 10.77.0.2/24 dev dpu0
ip -n dpu link set dpu0 up
mount -t sysfs sysfs /sys
ip netns exec dpu "$0" tcp --serve --listen 10.77.0.2:7500 --token-file "$1" > "$2" 2>&1 &
trap "kill $!" EXIT
for wait in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do grep -q listening "$2" && break; sleep 0.25; done
shift 2
"$0" "$@"
"#;

#[test]
fn a_server_is_measured_across_two_namespaces() {
    let namespaces = ["--user", "--map-root-user", "--net", "--mount"];
    let tried = Command::new("unshare").args(namespaces).args(["sh", "-c", "mount -t tmpfs tmpfs /run && ip netns add dpu && ip link add a0 type veth peer name b0 netns dpu"]).output();
    if !tried.as_ref().is_ok_and(|tried| tried.status.success()) {
        let why = tried.map_or_else(|error| error.to_string(), |tried| text(&tried.stderr));
        println!(
            "skipped: no network namespaces here ({}); apt-get install iproute2, as root or with user namespaces",
            why.trim()
        );
        return;
    }
    let dir = tempfile::tempdir().expect("a folder");
    let token = token_file(dir.path(), "token", "0123456789abcdef0123\n");
    let said = dir.path().join("said");
    let (token, said) = (
        token.to_str().expect("UTF-8"),
        said.to_str().expect("UTF-8"),
    );
    let to = [
        "--server",
        "10.77.0.2:7500",
        "--token-file",
        token,
        "--direction",
        "echo,send,receive",
        "--size",
        "1000",
        "--depth",
        "4",
        "--connections",
        "2",
    ];
    let output = Command::new("unshare")
        .args(namespaces)
        .args(["sh", "-c", NAMESPACES, DPB, token, said])
        .args(tcp(&to))
        .stdin(Stdio::null())
        .output()
        .expect("unshare starts");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let records = records(&output);
    assert_eq!(records.len(), 3);
    for record in &records {
        assert_whole(record);
        assert_eq!(parameter(record, "server"), "10.77.0.2:7500");
        assert_eq!(parameter(record, "link"), "host0");
        assert_eq!(parameter(record, "wire"), "false");
    }
}
