//! `dpb sim join`, the real program: systems in several processes, peers of another kind, peers that are dead, silent or lie.

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};

use dpb_core::measure::{Outcome, Record};
use dpb_sim::simbricks::{Endpoint, Error, LinkParams, Sent, SyncMode, Waiting, connect};
use rustix::process::{Pid, Signal, kill_process};
use support::text;

const PATIENCE: Duration = Duration::from_secs(60);

/// The example with cards, smaller, with requests besides, with cores whose times vary by the seed, and with links so long that processes on busy cores need few
/// rounds.
fn system(folder: &Path) -> String {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../sim/systems/card.toml");
    let text = fs::read_to_string(example).expect("an example");
    let text = text.replace("20_000_000", "300_000");
    let listen = "application = \"receive\" }";
    let answer =
        "{ port = 80, application = \"answer\", request_bytes = 100, answer_bytes = 1000 }";
    let text = text.replace(listen, &format!("{listen}, {answer}"));
    let send = "bytes = 300_000 }";
    let ask = "{ to = \"server\", port = 80, application = \"ask\", requests = 20, request_bytes = 100, answer_bytes = 1000 }";
    let text = text.replace(send, &format!("{send}, {ask}"));
    let text = text.replace("latency_ns = 500\n", "latency_ns = 10_000\n");
    let text = text.replace("[[host]]\n", "[[host]]\njitter = 0.1\n");
    let path = folder.join("system.toml");
    fs::write(&path, text).expect("a file");
    path.to_str().expect("a name").to_owned()
}

/// A process of `dpb sim join`, killed when dropped.
struct Process(Option<Child>);

impl Process {
    fn start(system: &str, more: &[&str]) -> Self {
        let args = [&["sim", "join", system, "--format", "json"], more].concat();
        let mut command = support::dpb(&args);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Self(Some(command.spawn().expect("dpb starts")))
    }

    fn child(&mut self) -> &mut Child {
        self.0.as_mut().expect("it runs")
    }

    fn finish(mut self) -> Output {
        let child = self.0.take().expect("it runs");
        child.wait_with_output().expect("it ends")
    }

    fn record(self) -> Record {
        let output = self.finish();
        assert!(output.status.success(), "{}", text(&output.stderr));
        support::records(&output).pop().expect("a record")
    }

    /// Its exit code and what it says.
    fn failure(self) -> (Option<i32>, String) {
        let output = self.finish();
        assert_eq!(text(&output.stdout), "");
        (output.status.code(), text(&output.stderr))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            // One that has ended by itself is no error.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn path(folder: &Path, name: &str) -> String {
    folder.join(name).to_str().expect("a name").to_owned()
}

/// The counts of parts together, without those that a cut changes: events, what frames remember of their way, and what went over cut links.
fn counts(records: &[Record]) -> BTreeMap<String, u64> {
    let mut all = BTreeMap::new();
    let counts = records.iter().flat_map(|record| &record.counts);
    for (name, count) in counts {
        let of_ways = ["leg_", "spent_ns: "];
        let is_of_way = of_ways.iter().any(|start| name.starts_with(start));
        if !is_of_way && name != "events" && !name.contains("-switch: ") {
            *all.entry(name.clone()).or_insert(0) += count;
        }
    }
    all
}

fn completion_s(records: &[Record]) -> f64 {
    let samples = records
        .iter()
        .filter_map(|it| it.samples.get("completion_s"));
    let values = samples.flat_map(|it| it.values.clone());
    values.fold(0.0, f64::max)
}

/// Those of all clients, of whom each counts its own.
fn transactions_per_s(records: &[Record]) -> f64 {
    let samples = records
        .iter()
        .filter_map(|it| it.samples.get("transactions_per_s"));
    let sum = samples.flat_map(|it| it.values.clone()).sum();
    assert!(sum > 0.0);
    sum
}

#[test]
fn a_system_in_several_processes_is_the_one_in_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let system = system(folder.path());
    let whole = support::finish(&["sim", "run", &system, "--format", "json"]);
    assert!(whole.status.success(), "{}", text(&whole.stderr));
    let whole = support::records(&whole);
    let [a, b, c] = ["a", "b", "c"].map(|name| path(folder.path(), name));
    // Each process: the parts that it has, and its sockets.
    let cuts = [
        vec![
            ("server", vec![format!("--listen={a}")]),
            ("switch,client 0,client 1", vec![format!("--connect={a}")]),
        ],
        vec![
            ("switch,client 0,client 1", vec![format!("--listen={a}")]),
            ("server", vec![format!("--connect={a}")]),
        ],
        vec![
            ("server", vec![format!("--connect=server-switch={a}")]),
            (
                "switch",
                vec![
                    format!("--listen=switch-server={a}"),
                    format!("--connect=client 0-switch={b}"),
                    format!("--listen=client 1-switch={c}"),
                ],
            ),
            (
                "client 0,client 1",
                vec![
                    format!("--connect=client 1-switch={c}"),
                    format!("--listen=client 0-switch={b}"),
                ],
            ),
        ],
    ];
    for cut in cuts {
        let processes = cut.iter().map(|(here, sockets)| {
            let mut more = vec!["--here", here, "--entries", "512"];
            more.extend(sockets.iter().map(String::as_str));
            Process::start(&system, &more)
        });
        let processes: Vec<Process> = processes.collect();
        let records: Vec<Record> = processes.into_iter().map(Process::record).collect();
        assert_eq!(counts(&records), counts(&whole));
        assert_eq!(completion_s(&records), completion_s(&whole));
        assert_eq!(transactions_per_s(&records), transactions_per_s(&whole));
        for record in &records {
            assert_eq!(
                (record.outcome.clone(), record.evidence.kind()),
                (Outcome::Done, "simulated")
            );
            let links: Vec<_> = record
                .counts
                .iter()
                .filter(|(name, _)| name.contains(": dropped"))
                .collect();
            assert!(links.iter().all(|(_, count)| **count == 0), "{links:?}");
        }
        let frames: u64 = records
            .iter()
            .filter_map(|it| it.counts.get("server-switch: frames in"))
            .sum();
        assert!(frames > 2 * 300_000 / 1448, "{frames}");
    }
}

#[test]
fn processes_without_common_time_follow_the_clock() {
    let folder = tempfile::tempdir().expect("a folder");
    let system = system(folder.path());
    let link = path(folder.path(), "link");
    let more = ["--unsynchronised", "--entries", "512"];
    let start = |here: &str, way: &str| {
        let own = ["--here", here, way, &link];
        Process::start(&system, &[&own[..], &more].concat())
    };
    let processes = [
        start("server", "--listen"),
        start("switch,client 0,client 1", "--connect"),
    ];
    let records = processes.map(Process::record);
    for record in &records {
        assert_eq!(record.evidence.kind(), "emulated");
        assert_eq!(record.counts["payloads_wrong"], 0);
    }
    assert!(records[0].counts["payload_frames"] > 2 * 300_000 / 1448);
}

/// An endpoint of this test's own, at a socket that `dpb` makes.
fn peer(path: &str, sync: SyncMode) -> Endpoint {
    let params = LinkParams {
        sync,
        link_latency_ps: 700_000,
        sync_interval_ps: 700_000,
    };
    connect(path, params, PATIENCE).expect("dpb listens")
}

fn frame(to: u8, from: u8, bytes: usize) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, from];
    frame.resize(bytes, to ^ from);
    frame
}

#[test]
fn a_switch_of_dpb_joins_two_other_simulators() {
    let folder = tempfile::tempdir().expect("a folder");
    let system = folder.path().join("system.toml");
    let described = "[[host]]\nname = \"a\"\n[[host]]\nname = \"b\"\n[[switch]]\nname = \"sw\"\nforward_ns = 400\n\
                     [[link]]\nends = [\"a\", \"sw\"]\nlatency_ns = 500\n[[link]]\nends = [\"sw\", \"b\"]\nlatency_ns = 600\n";
    fs::write(&system, described).expect("a file");
    let [a, b] = ["a", "b"].map(|name| path(folder.path(), name));
    let sockets = [format!("--listen=a-sw={a}"), format!("--listen=sw-b={b}")];
    let process = Process::start(
        system.to_str().expect("a name"),
        &["--here", "sw", "--entries", "64", &sockets[0], &sockets[1]],
    );
    let mut ends = [a, b].map(|path| peer(&path, SyncMode::Optional));
    assert!(ends.iter().all(Endpoint::is_synchronised));
    // Frames of all lengths from one to the other, each microsecond tenth; the switch's wire takes 10 Gbit/s.
    let lengths: Vec<usize> = (60..=1514).step_by(97).collect();
    let sent_at = |number: usize| number as u64 * 10_000_000;
    let end_ps = sent_at(lengths.len() + 1);
    let (mut now_ps, mut next, mut received) = (0, 0, Vec::new());
    let mut waiting = Waiting::new(true);
    let began = Instant::now();
    while now_ps < end_ps {
        assert!(began.elapsed() < PATIENCE, "at {now_ps} ps");
        if next < lengths.len() && sent_at(next) <= now_ps {
            let sent = ends[0].send(now_ps, &frame(2, 1, lengths[next]));
            if sent.expect("a peer") == Sent::Queued {
                next += 1;
            }
        }
        for end in &mut ends {
            let _ = end.out_sync(now_ps).expect("a peer");
        }
        assert_eq!(ends[0].poll(now_ps).expect("a peer"), None);
        while let Some(frame) = ends[1].poll(now_ps).expect("a peer") {
            received.push((frame.timestamp_ps, frame.frame.to_vec()));
        }
        let promised = ends.iter().map(Endpoint::input_timestamp_ps).min();
        let due = if next < lengths.len() {
            sent_at(next)
        } else {
            u64::MAX
        };
        let syncs = ends.iter().map(Endpoint::next_sync_ps).min();
        let soonest = [promised, syncs, Some(due)].into_iter().flatten().min();
        match soonest.filter(|&it| it > now_ps) {
            Some(later) => {
                now_ps = later;
                waiting.end();
            }
            None => waiting.pause(),
        }
    }
    // This side's latency, the switch, the bits with 24 bytes of framing, the latency of the switch's side.
    let expected = lengths.iter().enumerate().map(|(number, &bytes)| {
        let due_ps = sent_at(number) + 700_000 + 400_000 + (bytes as u64 + 24) * 800 + 600_000;
        (due_ps, frame(2, 1, bytes))
    });
    assert_eq!(received, Vec::from_iter(expected));
    for end in &mut ends {
        assert_eq!(end.terminate().expect("a peer"), Sent::Queued);
    }
    let record = process.record();
    assert_eq!(record.counts["a-sw: frames in"], lengths.len() as u64);
    assert_eq!(record.counts["sw-b: frames out"], lengths.len() as u64);
}

/// An endpoint that hears the process out: true if it says TERMINATE, false if it closes without.
fn hears_the_end(mut end: Endpoint) -> bool {
    let (mut now_ps, mut waiting) = (0, Waiting::new(true));
    let began = Instant::now();
    loop {
        assert!(began.elapsed() < PATIENCE, "at {now_ps} ps");
        match end
            .out_sync(now_ps)
            .and_then(|_| end.poll(now_ps).map(|it| it.is_some()))
        {
            Err(Error::PeerGone) => return false,
            other => assert!(!other.expect("a peer that speaks"), "nobody sends a frame"),
        }
        if end.peer_has_terminated() {
            return true;
        }
        match end.input_timestamp_ps().min(end.next_sync_ps()) {
            later if later > now_ps => {
                now_ps = later;
                waiting.end();
            }
            _ => waiting.pause(),
        }
    }
}

#[test]
fn the_last_word_is_said_unless_it_is_not_wanted() {
    let folder = tempfile::tempdir().expect("a folder");
    let system = folder.path().join("system.toml");
    // Nobody has anything to do.
    let described = "[[host]]\nname = \"a\"\n[[switch]]\nname = \"sw\"\n[[link]]\nends = [\"a\", \"sw\"]\nlatency_ns = 50000\n";
    fs::write(&system, described).expect("a file");
    let system = system.to_str().expect("a name");
    let params = LinkParams {
        sync: SyncMode::Required,
        link_latency_ps: 50_000_000,
        sync_interval_ps: 50_000_000,
    };
    for (word, is_said) in [
        (None, true),
        (Some("terminate"), true),
        (Some("silent"), false),
    ] {
        let link = path(folder.path(), word.unwrap_or("usual"));
        let mut more = vec!["--here", "a", "--listen", &link, "--entries", "64"];
        if let Some(word) = word {
            more.extend(["--end", word]);
        }
        let process = Process::start(system, &more);
        let end = connect(&link, params, PATIENCE).expect("dpb listens");
        assert_eq!(hears_the_end(end), is_said, "{word:?}");
        assert_eq!(process.record().outcome, Outcome::Done);
    }
}

/// A process that has the server and listens, and the socket.
fn listening(folder: &Path, more: &[&str]) -> (Process, PathBuf) {
    let link = path(folder, "link");
    let own = ["--here", "server", "--listen", &link];
    let process = Process::start(&system(folder), &[&own[..], more].concat());
    (process, PathBuf::from(link))
}

fn stream(path: &Path) -> UnixStream {
    let began = Instant::now();
    loop {
        match UnixStream::connect(path) {
            Ok(stream) => return stream,
            Err(error) => assert!(began.elapsed() < PATIENCE, "{error}"),
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn peers_that_do_not_come_or_are_not_there_for_long_are_errors() {
    let folder = tempfile::tempdir().expect("a folder");
    let (nobody, link) = listening(folder.path(), &["--timeout", "200ms"]);
    let (code, why) = nobody.failure();
    assert_eq!(code, Some(3), "{why}");
    assert!(
        why.contains("server-switch") && why.contains("did not come within 0.2 s"),
        "{why}"
    );
    assert!(!link.exists());
    // One that hangs up at once, one that is silent before its intro, one that is no simulator.
    let (process, link) = listening(folder.path(), &[]);
    drop(stream(&link));
    let (code, why) = process.failure();
    assert_eq!(code, Some(1), "{why}");
    assert!(why.contains("before it had sent its intro"), "{why}");
    let (process, link) = listening(folder.path(), &["--timeout", "1"]);
    let silent = stream(&link);
    let (code, why) = process.failure();
    assert_eq!(code, Some(3), "{why}");
    assert!(why.contains("intro did not come"), "{why}");
    drop(silent);
    let (process, link) = listening(folder.path(), &[]);
    let mut liar = stream(&link);
    liar.write_all(b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n")
        .expect("it reads");
    let (code, why) = process.failure();
    assert_eq!(code, Some(1), "{why}");
    assert!(why.contains("the peer's intro"), "{why}");
}

#[test]
fn peers_that_end_are_silent_or_lie_on_the_way_are_errors() {
    let folder = tempfile::tempdir().expect("a folder");
    // One that leaves without TERMINATE.
    let (process, link) = listening(folder.path(), &["--entries", "64"]);
    let mut gone = peer(link.to_str().expect("a name"), SyncMode::Required);
    assert!(gone.out_sync(0).expect("there"));
    drop(gone);
    let (code, why) = process.failure();
    assert_eq!(code, Some(1), "{why}");
    assert!(
        why.contains("closed its socket without having sent TERMINATE"),
        "{why}"
    );
    // One that stays and says nothing.
    let (process, link) = listening(folder.path(), &["--patience", "300ms", "--entries", "64"]);
    let silent = peer(link.to_str().expect("a name"), SyncMode::Required);
    let (code, why) = process.failure();
    assert_eq!(code, Some(1), "{why}");
    assert!(why.contains("said nothing for 0.3 s"), "{why}");
    drop(silent);
    // One that sends bytes where none belong.
    let (process, link) = listening(folder.path(), &["--entries", "64"]);
    let mut liar = stream(&link);
    let mut intro = Vec::new();
    for word in [1u64, 3, 1, 32] {
        intro.extend(word.to_le_bytes());
    }
    intro.extend([0; 4]);
    liar.write_all(&intro).expect("it reads");
    let mut answer = [0; 84];
    liar.read_exact(&mut answer).expect("its intro");
    liar.write_all(b"more").expect("it is there");
    let (code, why) = process.failure();
    assert_eq!(code, Some(1), "{why}");
    // If the program was slow, they came with the intro.
    let is_said = [
        "bytes on the socket after its intro",
        "the peer's intro: 40 bytes",
    ];
    assert!(is_said.iter().any(|said| why.contains(said)), "{why}");
    // One that does not want common time.
    let (process, link) = listening(folder.path(), &["--entries", "64"]);
    let params = LinkParams {
        sync: SyncMode::Disabled,
        ..LinkParams::default()
    };
    assert!(connect(&link, params, PATIENCE).is_err());
    let (code, why) = process.failure();
    assert_eq!(code, Some(1), "{why}");
    assert!(why.contains("requires synchronisation"), "{why}");
}

#[test]
fn an_interrupt_ends_a_process_that_waits_and_leaves_no_socket() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut process, link) = listening(folder.path(), &[]);
    let began = Instant::now();
    while !link.exists() {
        assert!(began.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(5));
    }
    let pid = Pid::from_child(process.child());
    kill_process(pid, Signal::TERM).expect("it runs");
    let (code, why) = process.failure();
    assert_eq!(code, Some(130), "{why}");
    assert!(!link.exists());
    // One whose peer is there and silent.
    let (mut process, link) = listening(folder.path(), &["--entries", "64"]);
    let silent = peer(link.to_str().expect("a name"), SyncMode::Required);
    std::thread::sleep(Duration::from_millis(50));
    let pid = Pid::from_child(process.child());
    kill_process(pid, Signal::TERM).expect("it runs");
    let (code, why) = process.failure();
    assert_eq!(code, Some(130), "{why}");
    drop(silent);
}

#[test]
fn what_is_wrong_is_said() {
    let folder = tempfile::tempdir().expect("a folder");
    let system = system(folder.path());
    let link = path(folder.path(), "link");
    let listen = format!("--listen={link}");
    for (more, said) in [
        (
            &["--here", "nobody", &listen][..],
            "`nobody` is no part of the system",
        ),
        (
            &["--here", "server,switch,client 0,client 1", &listen],
            "nobody to join",
        ),
        (&["--here", "server"], "has no socket"),
        (&["--here", "switch", &listen], "several links"),
        (&["--here", "server", &listen, &listen], "already"),
        (
            &["--here", "server", &listen, "--sync-interval", "20us"],
            "too seldom",
        ),
        (
            &["--here", "server", &listen, "--entry-bytes", "10"],
            "this side's rings",
        ),
        (
            &["--here", "server", &listen, "--backend", "cpu/none"],
            "cpu/none",
        ),
        (&[&listen], "--here"),
    ] {
        let output = Process::start(&system, more).finish();
        let why = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{more:?}: {why}");
        assert!(why.contains(said), "{more:?}: {why}");
    }
    // A system that comes with dpb goes by its name.
    let output = Process::start("card", &["--here", "server"]).finish();
    let why = text(&output.stderr);
    assert!(why.contains("has no socket"), "{why}");
    let help = support::finish(&["sim", "join", "--help"]);
    assert!(text(&help.stdout).contains("dpb sim join card --here server"));
}
