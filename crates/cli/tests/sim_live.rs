//! `dpb sim live`, the real program: kernels' TCP between two network namespaces, and guests' frames over sockets, through modelled cards.

mod support;

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use dpb_core::measure::Record;
use dpb_core::random::SplitMix64;
use rustix::process::{Pid, Signal, kill_process};
use support::{DPB, text};

/// The variable by which this program, started again in a namespace, knows what to be: `serve` or `send`, and the bytes.
const ROLE: &str = "DPB_SIM_LIVE_ROLE";
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const PORT: u16 = 5001;
/// Where the server writes that it listens.
const LISTENS: &str = "listens";

/// The bytes that one side sends.
fn stream(seed: u64, bytes: usize) -> Vec<u8> {
    let mut random = SplitMix64::new(seed);
    let words = (0..bytes.div_ceil(8)).flat_map(|_| random.next_u64().to_le_bytes());
    words.take(bytes).collect()
}

/// Both sides of a transfer: each sends its own bytes whole, and checks the other's.
fn transfer(mut socket: TcpStream, own: u64, peer: u64, bytes: usize) {
    let mut sending = socket.try_clone().expect("a socket");
    let sender = std::thread::spawn(move || {
        sending
            .write_all(&stream(own, bytes))
            .expect("the peer reads");
        sending.shutdown(Shutdown::Write).expect("it is there");
    });
    let mut received = Vec::new();
    socket.read_to_end(&mut received).expect("the peer sends");
    assert!(received == stream(peer, bytes), "{} bytes", received.len());
    sender.join().expect("all was sent");
}

/// One side, in its namespace.
#[test]
#[ignore = "the sides of the tests here"]
fn side() {
    let Ok(role) = env::var(ROLE) else { return };
    let (role, bytes) = role.split_once(' ').expect("two words");
    let bytes = bytes.parse().expect("a number");
    match role {
        "serve" => {
            let listener = TcpListener::bind((SERVER, PORT)).expect("its address");
            fs::write(LISTENS, "").expect("a file");
            let (socket, _) = listener.accept().expect("a client");
            transfer(socket, 1, 2, bytes);
        }
        _ => {
            let began = Instant::now();
            let socket = TcpStream::connect((SERVER, PORT)).expect("the server");
            fs::write("connect_us", began.elapsed().as_micros().to_string()).expect("a file");
            transfer(socket, 2, 1, bytes);
        }
    }
}

const UNSHARE: [&str; 4] = ["--user", "--map-root-user", "--net", "--mount"];

/// Two namespaces, a system between them, a transfer, and the kernels' counters of wrong checksums.
const BETWEEN: &str = r#"
set -eu
cd "$1"
mount -t tmpfs tmpfs /run
ip netns add a
ip netns add b
"$DPB" --format json sim live system.toml > record 2> said &
live=$!
server=
trap 'kill $live $server 2> /dev/null || true' EXIT
patiently() {
    rounds=0
    until "$@"; do
        rounds=$((rounds + 1))
        [ $rounds -lt 1200 ] || { cat said >&2; exit 1; }
        sleep 0.05
    done
}
patiently grep -q 'running with 2' said
for host in a b; do
    number=1 other=2
    [ $host = a ] || { number=2; other=1; }
    ip -n $host link set lo up
    ip -n $host link set tap0 addrgenmode none address 02:00:00:00:00:0$number up
    ip -n $host addr add 10.0.0.$number/24 dev tap0
    ip -n $host neigh replace 10.0.0.$other lladdr 02:00:00:00:00:0$other dev tap0 nud permanent
done
DPB_SIM_LIVE_ROLE="serve $BYTES" ip netns exec a "$SIDE" --exact side --ignored --nocapture > server 2>&1 &
server=$!
patiently test -e listens
DPB_SIM_LIVE_ROLE="send $BYTES" ip netns exec b "$SIDE" --exact side --ignored --nocapture > client 2>&1 || { cat client said >&2; exit 1; }
wait $server || { cat server said >&2; exit 1; }
server=
for host in a b; do
    ip netns exec $host cat /proc/net/snmp | grep '^Tcp:' > snmp-$host
done
kill -TERM $live
wait $live || { cat said >&2; exit 1; }
"#;

/// True if this machine lets anybody make namespaces and interfaces; else the reason is printed.
fn has_namespaces() -> bool {
    let script =
        "mount -t tmpfs tmpfs /run && ip netns add a && ip -n a tuntap add dev tap0 mode tap";
    let tried = Command::new("unshare")
        .args(UNSHARE)
        .args(["sh", "-c", script])
        .output();
    let is_possible = tried.is_ok_and(|tried| tried.status.success());
    if !is_possible {
        println!(
            "skipped: no network namespaces with TAP interfaces here; apt-get install iproute2, load the module tun, as root or with user namespaces"
        );
    }
    is_possible
}

/// A system of real hosts a and b. Digests are behind frames if `framing` names how.
fn system(framing: Option<&str>, link: &str) -> String {
    let mut text = String::new();
    for host in ["a", "b"] {
        text += &format!("[[real]]\nname = \"{host}\"\ntap = \"tap0\"\nnamespace = \"{host}\"\n");
        if let Some(framing) = framing {
            text += &format!(
                "[[card]]\nhost = \"{host}\"\nstage = [{{ name = \"sha256\", lanes = 2, job_ns = 200, byte_ps = 500 }}]\n\
                 digest = {{ operator = \"sha256\", framing = \"{framing}\" }}\n"
            );
        }
    }
    text + "[[link]]\nends = [\"a\", \"b\"]\n" + link
}

/// What came of a transfer of so many bytes each way.
struct Came {
    record: Record,
    connect_us: u64,
    /// Segments with wrong checksums that both kernels saw.
    sums_wrong: u64,
}

fn between(system: &str, bytes: usize) -> Came {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| folder.path().join(name);
    fs::write(file("system.toml"), system).expect("a file");
    let output = Command::new("unshare")
        .args(UNSHARE)
        .args(["sh", "-c", BETWEEN, "sh"])
        .arg(folder.path())
        .env("DPB", DPB)
        .env("SIDE", env::current_exe().expect("this program"))
        .env("BYTES", bytes.to_string())
        .stdin(Stdio::null())
        .output()
        .expect("unshare starts");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let read = |name: &str| fs::read_to_string(file(name)).expect("a file");
    let wrong = |host: &str| sums_wrong(&read(&format!("snmp-{host}")));
    Came {
        record: serde_json::from_str(&read("record")).expect("a record"),
        connect_us: read("connect_us").trim().parse().expect("a number"),
        sums_wrong: wrong("a") + wrong("b"),
    }
}

/// `InCsumErrors` of `/proc/net/snmp`: a line of names, a line of numbers.
fn sums_wrong(snmp: &str) -> u64 {
    let mut lines = snmp.lines().map(str::split_whitespace);
    let (names, numbers) = (lines.next().expect("names"), lines.next().expect("numbers"));
    let counts: BTreeMap<&str, &str> = names.zip(numbers).collect();
    counts["InCsumErrors"].parse().expect("a number")
}

#[test]
fn kernels_talk_through_modelled_cards() {
    if !has_namespaces() {
        return;
    }
    const BYTES: usize = 10_000_000;
    // The link takes longer than any release is late, so that it can be seen.
    let link = "latency_ns = 5_000_000\n";
    for framing in [Some("mark"), Some("length"), None] {
        let came = between(&system(framing, link), BYTES);
        let record = &came.record;
        assert_eq!(record.evidence.kind(), "emulated");
        // SYN and its answer are held for the latency each.
        assert!(came.connect_us >= 10_000, "{} µs", came.connect_us);
        let segments = BYTES as u64 / 1448;
        assert!(
            record.counts["a: frames sent"] >= segments
                && record.counts["b: frames sent"] >= segments
        );
        assert!(record.counts["a: bytes received"] > BYTES as u64);
        assert_eq!((record.counts["digests_wrong"], came.sums_wrong), (0, 0));
        let digests = record.counts.get("digests_right").copied();
        assert_eq!(digests.is_some(), framing.is_some());
        assert!(
            digests.is_none_or(|right| right >= 2 * segments),
            "{digests:?}"
        );
        let late = |quantile: &str| record.summary[&format!("release_late_ns_{quantile}")].median;
        assert!(late("p50") <= late("p99") && late("p99") <= late("max"));
        let reasons = &record.stability.as_ref().expect("judged").reasons;
        assert!(reasons[0].contains("not visible"), "{reasons:?}");
    }
}

#[test]
fn flips_on_the_wire_reach_no_kernel_if_cards_compute_digests() {
    if !has_namespaces() {
        return;
    }
    const BYTES: usize = 3_000_000;
    let link = "latency_ns = 200_000\nflip = 0.01\n";
    let came = between(&system(Some("mark"), link), BYTES);
    assert!(
        came.record.counts["flipped"] > 10,
        "{:?}",
        came.record.counts
    );
    assert!(came.record.counts["digests_wrong"] > 0);
    assert_eq!(came.sums_wrong, 0);
    let came = between(&system(None, link), BYTES);
    assert!(came.record.counts["flipped"] > 10);
    assert_eq!(came.record.counts["digests_wrong"], 0);
    assert!(came.sums_wrong > 0);
}

/// A guest as QEMU's `-netdev stream` is one.
fn guest(path: &Path) -> UnixStream {
    let began = Instant::now();
    loop {
        match UnixStream::connect(path) {
            Ok(guest) => return guest,
            Err(error) => assert!(began.elapsed() < Duration::from_secs(60), "{error}"),
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn guests(folder: &Path) -> String {
    let text = system(Some("mark"), "latency_ns = 1_000\n");
    let mut text = text.replace("tap = \"tap0\"\n", "");
    for host in ["a", "b"] {
        let socket = format!(
            "stream = {:?}\n",
            folder.join(host).to_str().expect("a name")
        );
        text = text.replace(&format!("namespace = \"{host}\"\n"), &socket);
    }
    let path = folder.join("system.toml");
    fs::write(&path, text).expect("a file");
    path.to_str().expect("a name").to_owned()
}

fn framed(frame: &[u8]) -> Vec<u8> {
    [&(frame.len() as u32).to_be_bytes()[..], frame].concat()
}

#[test]
fn frames_of_guests_come_as_they_went() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = guests(folder.path());
    let mut live = support::dpb(&["sim", "live", &path, "--format", "json"]);
    live.stdout(Stdio::piped()).stderr(Stdio::piped());
    let live = live.spawn().expect("dpb starts");
    let [mut a, mut b] = ["a", "b"].map(|name| guest(&folder.path().join(name)));
    for (number, bytes) in (28..=1500).step_by(23).enumerate() {
        let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0];
        frame.extend((bytes as u16).to_be_bytes());
        frame.resize(14 + bytes, number as u8);
        a.write_all(&framed(&frame)).expect("dpb reads");
        let mut back = vec![0; 4 + frame.len()];
        b.read_exact(&mut back).expect("it comes");
        assert!(back == framed(&frame), "{bytes} bytes");
    }
    let pid = Pid::from_child(&live);
    kill_process(pid, Signal::TERM).expect("it runs");
    let output = live.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let record = support::records(&output).pop().expect("a record");
    let frames = (28..=1500).step_by(23).count() as u64;
    assert_eq!(record.counts["b: frames received"], frames);
    assert_eq!(record.counts["digests_right"], frames);
    assert!(!folder.path().join("a").exists());
}

#[test]
fn a_guest_that_lies_ends_the_run_and_its_counts_are_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = guests(folder.path());
    let mut live = support::dpb(&["sim", "live", &path, "--format", "json"]);
    live.stdout(Stdio::piped()).stderr(Stdio::piped());
    let live = live.spawn().expect("dpb starts");
    let mut liar = guest(&folder.path().join("b"));
    liar.write_all(&[0xff; 64]).expect("dpb reads");
    let output = live.wait_with_output().expect("it ends");
    let why = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{why}");
    assert!(
        why.contains("`b` failed") && why.contains("4294967295 bytes"),
        "{why}"
    );
    let record = support::records(&output).pop().expect("a record");
    assert!(record.summary.is_empty());
}

#[test]
fn what_is_wrong_is_said() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = guests(folder.path());
    let right = fs::read_to_string(&path).expect("a file");
    let socket = format!(
        "stream = {:?}\n",
        folder.path().join("a").to_str().expect("a name")
    );
    let both = format!("{socket}tap = \"tap0\"\n");
    let spare = format!("{socket}namespace = \"a\"\n");
    let nowhere = "tap = \"tap0\"\nnamespace = \"/no/such/namespace\"\n";
    for (to, code, said) in [
        ("", 2, "has one port"),
        (&both, 2, "has one port"),
        (&spare, 2, "a socket needs none"),
        (nowhere, 3, "/no/such/namespace"),
        ("stream = \"/no/such/folder/a\"\n", 3, "/no/such/folder/a"),
    ] {
        fs::write(&path, right.replacen(&socket, to, 1)).expect("a file");
        let output = support::finish(&["sim", "live", &path, "--seconds", "10ms"]);
        let why = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{to}: {why}");
        assert!(why.contains(said), "{to}: {why}");
    }
    fs::write(&path, &right).expect("a file");
    let output = support::finish(&["sim", "run", &path]);
    assert_eq!(output.status.code(), Some(2));
    let card = concat!(env!("CARGO_MANIFEST_DIR"), "/../sim/systems/card.toml");
    let output = support::finish(&["sim", "live", card]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("no host is real"));
    // A run whose time is over has a record; a system with real hosts is drawn.
    let output = support::finish(&[
        "sim",
        "live",
        &path,
        "--seconds",
        "50ms",
        "--format",
        "table",
    ]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("no frame was released"));
    let output = support::finish(&["sim", "describe", &path]);
    assert!(
        text(&output.stdout).contains("real: QEMU at"),
        "{}",
        text(&output.stderr)
    );
    let help = support::finish(&["sim", "live", "--help"]);
    assert!(text(&help.stdout).contains("systems/live.toml --seconds 30"));
}
