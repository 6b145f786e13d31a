//! The programs of `dpb net` as processes, between the network namespaces of a client and of a server, without root: curl gets a file from an HTTPS server, iperf3 measures,
//! and what went through is accounted for. Checksums that the hosts leave to their devices are computed by the port; that they put packets together (TSO) is switched off.

mod support;

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{BufReader, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use dpb_core::Evidence;
use dpb_core::measure::{Outcome, Record};
use dpb_net::port::capture::Reader;
use support::{DPB, finish, records, text};
use tempfile::TempDir;

const NAMESPACES: [&str; 4] = ["--user", "--map-root-user", "--net", "--mount"];

/// A client, a server, and between them this namespace with an end of a link to each. Everything ends with the shell.
const NETWORK: &str = r#"
set -eu
cd "$1"
mount -t tmpfs tmpfs /run
echo 0 > /proc/sys/net/ipv4/ip_forward
for host in client server; do
    ip netns add $host
    ip link add to-$host type veth peer name eth0 netns $host
    ip link set to-$host addrgenmode none up
    ip -n $host link set eth0 addrgenmode none
    # A packet that the host's device would cut into several is none that anybody on a wire sees.
    ip -n $host link set eth0 gso_max_segs 1
    ip -n $host link set lo up
    ip -n $host link set eth0 up
done
ip link set to-client address 02:00:00:00:00:01
ip link set to-server address 02:00:00:00:00:02
ip -n client link set eth0 address 02:00:00:00:00:0a
ip -n server link set eth0 address 02:00:00:00:00:0b
started=
trap 'kill $started 2>/dev/null || true' EXIT
# Starts `dpb net VERB …`, whose record and words go to files of this name; returns when it runs.
start() {
    name=$1
    shift
    "$DPB" --format json net "$@" --idle sleep > "$name.json" 2> "$name.said" &
    eval "$name=$!"
    started="$started $!"
    until grep -q 'running on' "$name.said"; do
        kill -0 "$!" || { cat "$name.said" >&2; exit 1; }
        sleep 0.05
    done
}
# Ends it; it has to end well.
stop() {
    for name in "$@"; do
        eval "kill -TERM \$$name; wait \$$name" || { cat "$name.said" >&2; exit 1; }
    done
}
# Starts a server in the server's namespace; returns when something listens at this TCP port.
serve() {
    port=$1
    shift
    ip netns exec server "$@" > "serve-$port.said" 2>&1 &
    started="$started $!"
    until ip netns exec server ss -Hltn "sport = :$port" | grep -q .; do
        kill -0 "$!" || { cat "serve-$port.said" >&2; exit 1; }
        sleep 0.05
    done
}
client() { ip netns exec client "$@"; }
# Measures into a file; again while the server listens to nobody, as it does between two clients.
iperf() {
    file=$1
    shift
    until client iperf3 -J -c 203.0.113.2 -t 1 "$@" > "$file"; do
        grep -q 'Connection refused' "$file" || break
        sleep 0.1
    done
}
routed() {
    ip addr add 10.0.0.1/24 dev to-client
    ip addr add 203.0.113.1/24 dev to-server
    ip -n client addr add 10.0.0.2/24 dev eth0
    ip -n client route add default via 10.0.0.1
    ip -n server addr add 203.0.113.2/24 dev eth0
    printf '%s\n' '10.0.0.0/24 port 0 via 02:00:00:00:00:0a' '203.0.113.0/24 port 1 via 02:00:00:00:00:0b' > routes
}
bridged() {
    ip -n client addr add 203.0.113.3/24 dev eth0
    ip -n server addr add 203.0.113.2/24 dev eth0
}
https() {
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=server.test \
        -addext subjectAltName=DNS:server.test -keyout tls.key -out tls.pem 2> /dev/null
    mkdir -p files
    head -c 3000000 /dev/urandom > files/data
    serve "$1" python3 "$PWD/https.py" "$1"
}
get() { client curl --silent --show-error --max-time 20 --cacert tls.pem --resolve "server.test:$1:203.0.113.2" -o got "https://server.test:$1/data" && cmp got files/data; }
"#;

/// A server of files over TLS, which says who asked.
const HTTPS: &str = r#"
import functools, http.server, ssl, sys
handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory="files")
server = http.server.ThreadingHTTPServer(("203.0.113.2", int(sys.argv[1])), handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("tls.pem", "tls.key")
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
"#;

/// A datagram to a port where nobody listens: the server's kernel answers with an error of ICMP, which the client's kernel has to take for its own.
const REFUSED: &str = r#"
import socket
asking = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
asking.settimeout(10)
asking.connect(("203.0.113.2", 9))
asking.send(b"anybody there?")
try:
    asking.recv(100)
except ConnectionRefusedError:
    print("refused")
"#;

/// What crosses an interface while others talk: a line for each kind of packet.
const WATCH: &str = r#"
import socket, sys, time
watching = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.ntohs(3))
watching.bind((sys.argv[1], 0))
watching.settimeout(0.2)
print("watching", flush=True)
kinds = {}
end = time.monotonic() + 3
while time.monotonic() < end:
    try:
        frame = watching.recv(2000)
    except TimeoutError:
        continue
    kind = "arp" if frame[12:14] == b"\x08\x06" else "ip %d" % frame[23] if frame[12:14] == b"\x08\x00" else frame[12:14].hex()
    kinds[kind] = kinds.get(kind, 0) + 1
for kind, count in kinds.items():
    print(kind, count)
"#;

/// A folder for the network's files; `None`, and a reason is printed, if something is missing here.
fn folder(programs: &[&str]) -> Option<TempDir> {
    let tried = Command::new("unshare")
        .args(NAMESPACES)
        .args(["sh", "-c", "mount -t tmpfs tmpfs /run && ip netns add a && ip link add a0 type veth peer name b0 netns a && ip -n a link set b0 gso_max_segs 1"])
        .output();
    if !tried.as_ref().is_ok_and(|tried| tried.status.success()) {
        let why = tried.map_or_else(|error| error.to_string(), |tried| text(&tried.stderr));
        println!(
            "skipped: no network namespaces here ({}); apt-get install iproute2, as root or with user namespaces",
            why.trim()
        );
        return None;
    }
    for program in programs {
        let found = Command::new(program).arg("--version").output();
        if found.is_err() {
            println!("skipped: no {program}; apt-get install {program}");
            return None;
        }
    }
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in [
        ("https.py", HTTPS),
        ("refused.py", REFUSED),
        ("watch.py", WATCH),
    ] {
        fs::write(folder.path().join(name), text).expect("writes");
    }
    Some(folder)
}

/// Runs a script in the network.
fn run(folder: &Path, script: &str) -> Output {
    let output = Command::new("unshare")
        .args(NAMESPACES)
        .args(["sh", "-c", &format!("{NETWORK}{script}"), "sh"])
        .arg(folder)
        .env("DPB", DPB)
        .stdin(Stdio::null())
        .output()
        .expect("unshare starts");
    assert!(
        output.status.success(),
        "{}{}",
        text(&output.stdout),
        text(&output.stderr)
    );
    output
}

/// The record that a program of this name has left, whose packets add up.
fn record(folder: &Path, name: &str) -> Record {
    let written = fs::read(folder.join(format!("{name}.json"))).expect("a record");
    let record: Record = serde_json::from_slice(&written).expect("one record");
    assert_eq!(record.outcome, Outcome::Done);
    let count = |name: &str| record.counts[name];
    let check = record.check.as_ref().expect("checked");
    assert_eq!(check.compared, count("received_packets"));
    assert_eq!(
        count("received_packets"),
        count("sent_packets") + count("dropped_packets") + count("in_flight_packets")
    );
    let by_reason = record
        .counts
        .iter()
        .filter(|(name, _)| name.starts_with("dropped."));
    assert_eq!(
        by_reason.map(|(_, count)| count).sum::<u64>(),
        count("dropped_packets")
    );
    // No packet has been on a wire.
    let by = "an interface of software".to_owned();
    assert_eq!(record.evidence, Evidence::Emulated { by });
    let too_long = record.counts.keys().find(|name| name.contains("too long"));
    assert_eq!(
        too_long, None,
        "packets that were put together: {:?}",
        record.counts
    );
    record
}

/// Checks the account of application recognition after one connection of TLS to `server.test`, by which the file came.
fn assert_recognised(record: &Record) {
    let counts = &record.counts;
    let count = |name: &str| counts[name];
    assert_eq!(record.task, "net app-recognition run");
    assert_eq!((count("flows.tls"), count("server.server.test")), (1, 1));
    // The file has 3 MB, and all of it comes behind the hello.
    assert!(count("hashed_bytes") > 3_000_000, "{counts:?}");
    assert!(count("packets_hashed") > 2000 && count("packets_passed") > 2);
    for none in [
        "packets_sent_back",
        "hash_failed",
        "compress_failed",
        "rule_failed",
    ] {
        assert_eq!(count(none), 0, "{none}: {counts:?}");
    }
    let check = record.check.as_ref().expect("checked");
    assert!(check.against.contains("RustCrypto"), "{}", check.against);
    let dropped = counts
        .keys()
        .filter_map(|name| name.strip_prefix("dropped."));
    for reason in dropped {
        assert_eq!(reason, "way out full");
    }
}

/// Bytes that iperf3's receiver got, of a result in this file.
fn iperf_bytes(folder: &Path, name: &str) -> u64 {
    let written = fs::read(folder.join(name)).expect("a result");
    let result: serde_json::Value = serde_json::from_slice(&written).expect("JSON");
    let bytes = result["end"]["sum_received"]["bytes"].as_u64();
    bytes.unwrap_or_else(|| panic!("{result}"))
}

#[test]
fn curl_reaches_an_https_server_through_nat44() {
    let Some(folder) = folder(&["curl", "python3", "openssl"]) else {
        return;
    };
    for threads in ["1", "2"] {
        let script = format!(
            r#"
routed
ip -n server route add 198.51.100.0/24 via 203.0.113.1
https 443
start nat nat44 --port af-packet:to-client --port af-packet:to-server --outside 198.51.100.7 --routes routes --threads {threads}
get 443
client python3 refused.py
stop nat
cat serve-443.said
"#
        );
        let output = run(folder.path(), &script);
        let said = text(&output.stdout);
        // Who asked, as the server sees it.
        assert!(said.contains("198.51.100.7 - - "), "{said}");
        assert!(!said.contains("10.0.0.2 - - "), "{said}");
        assert!(said.contains("refused"), "{said}");
        let record = record(folder.path(), "nat");
        assert_eq!(record.parameters["threads"].to_string(), threads);
        // The file's connection, and the datagram that nobody wanted.
        assert_eq!(record.counts["nat_sessions_began"], 2);
        assert_eq!(record.counts["nat_icmp_errors"], 1);
        // ARP is the kernel's business, and a link may have no room.
        let reasons = record
            .counts
            .keys()
            .filter_map(|name| name.strip_prefix("dropped."));
        for reason in reasons {
            assert!(["not IP", "way out full"].contains(&reason), "{reason}");
        }
    }
}

/// Who talks through recognition hears what was said, and the account has the server's name; text is compressed on the way, and arrives as it was.
#[test]
fn curl_reaches_its_servers_through_app_recognition() {
    let Some(folder) = folder(&["curl", "python3", "openssl"]) else {
        return;
    };
    for threads in ["1", "2"] {
        run(
            folder.path(),
            &format!(
                r#"
bridged
https 443
start tls app-recognition run --port af-packet:to-client --port af-packet:to-server --threads {threads}
get 443
stop tls
yes 'The same words, again and again.' | head -c 300000 > files/words
serve 80 python3 -m http.server --bind 203.0.113.2 --directory files 80
start http app-recognition run --port af-packet:to-client --port af-packet:to-server --threads {threads} --compression lz4
client curl --silent --show-error --max-time 20 --resolve words.test:80:203.0.113.2 -o words http://words.test/words
cmp words files/words
stop http
"#
            ),
        );
        assert_recognised(&record(folder.path(), "tls"));
        let http = record(folder.path(), "http");
        let count = |name: &str| http.counts[name];
        assert_eq!((count("flows.http"), count("server.words.test")), (1, 1));
        let (read, written) = (count("compressed_bytes_in"), count("compressed_bytes_out"));
        assert!(read >= 300_000 && written < read / 4, "{read} {written}");
        assert_eq!(count("compress_failed"), 0);
    }
}

/// The same behind a NAT: a link lies between the two programs.
#[test]
fn curl_reaches_an_https_server_through_app_recognition_and_nat44() {
    let Some(folder) = folder(&["curl", "python3", "openssl"]) else {
        return;
    };
    let output = run(
        folder.path(),
        r#"
ip link add near type veth peer name far
for end in near far; do ip link set $end addrgenmode none up; done
ip link set far address 02:00:00:00:00:01
routed
# The client's first router is behind the recognition.
ip addr del 10.0.0.1/24 dev to-client
ip addr add 10.0.0.1/24 dev far
ip link set to-client address 02:00:00:00:00:03
ip -n server route add 198.51.100.0/24 via 203.0.113.1
https 443
start app app-recognition run --port af-packet:to-client --port af-packet:near
start nat nat44 --port af-packet:far --port af-packet:to-server --outside 198.51.100.7 --routes routes
get 443
stop app nat
cat serve-443.said
"#,
    );
    let said = text(&output.stdout);
    assert!(said.contains("198.51.100.7 - - "), "{said}");
    assert_recognised(&record(folder.path(), "app"));
    let nat = record(folder.path(), "nat");
    assert_eq!(nat.counts["nat_sessions_began"], 1);
}

/// A generator that is ended has not done what it was asked for, and says how long it was at it.
#[test]
fn a_generator_that_is_interrupted_says_so() {
    let Some(folder) = folder(&[]) else {
        return;
    };
    run(
        folder.path(),
        r#"
bridged
"$DPB" --format json net generate --port af-packet:to-client --rate 1k --seconds 60 --tolerance 1 > sent.json 2> sent.said &
generator=$!
until [ "$(ip -n client -s -o link show eth0 | awk '{ for (i = 1; i < NF; i++) if ($i == "RX:") print $(i + 9) }')" -gt 20 ]; do
    kill -0 $generator || { cat sent.said >&2; exit 1; }
    sleep 0.05
done
kill -INT $generator
wait $generator || echo $? > code
"#,
    );
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).expect("a file");
    assert_eq!(read("code").trim(), "130");
    let account: serde_json::Value = serde_json::from_str(&read("sent.json")).expect("JSON");
    assert_eq!(account["is_as_asked"], false, "{account}");
    let (seconds, sent) = (account["seconds"].as_f64(), account["sent"].as_f64());
    let (seconds, sent) = (seconds.expect("a number"), sent.expect("a number"));
    assert!(seconds < 50.0 && sent > 20.0, "{account}");
    let rate = account["packets_per_s"].as_f64().expect("a number");
    assert!((rate * seconds - sent).abs() < 1e-3 * sent, "{account}");
}

#[test]
fn iperf3_goes_through_forward() {
    let Some(folder) = folder(&["iperf3"]) else {
        return;
    };
    run(
        folder.path(),
        r#"
routed
ip -n server route add 10.0.0.0/24 via 203.0.113.1
serve 5201 iperf3 -s
start router forward --port af-packet:to-client --port af-packet:to-server --routes routes --threads 2
iperf out
iperf back -R
iperf datagrams -u -b 5M -l 1000
stop router
"#,
    );
    let record = record(folder.path(), "router");
    assert_eq!(record.parameters["spread"].to_string(), "ports");
    let bytes = ["out", "back", "datagrams"].map(|name| iperf_bytes(folder.path(), name));
    assert!(bytes.iter().all(|bytes| *bytes > 100_000), "{bytes:?}");
    assert!(record.counts["sent_bytes"] > bytes.iter().sum());
}

#[test]
fn a_bridge_and_a_firewall_need_no_addresses() {
    let Some(folder) = folder(&["curl", "python3", "openssl", "iperf3"]) else {
        return;
    };
    let output = run(
        folder.path(),
        r#"
bridged
serve 5201 iperf3 -s
start bridge forward --port af-packet:to-client --port af-packet:to-server
iperf out
stop bridge
https 443
printf '%s\n' '# Files, and nothing else.' 'allow tcp from any to 203.0.113.2 port 443' 'default deny' > rules
start wall firewall --port af-packet:to-client --port af-packet:to-server --rules rules
get 443
client curl --silent --max-time 2 telnet://203.0.113.2:5201 < /dev/null || echo "ended by $?"
stop wall
"#,
    );
    assert!(iperf_bytes(folder.path(), "out") > 100_000);
    let bridge = record(folder.path(), "bridge");
    assert_eq!(bridge.counts["dropped_packets"], 0);
    // 28: the time was over.
    assert!(
        text(&output.stdout).contains("ended by 28"),
        "{}",
        text(&output.stdout)
    );
    let wall = record(folder.path(), "wall");
    assert!(wall.counts["dropped.denied"] >= 1, "{:?}", wall.counts);
    assert_eq!(
        wall.counts["dropped.denied"],
        wall.counts["dropped_packets"]
    );
}

#[test]
fn iperf3_goes_through_encrypt_and_decrypt() {
    let Some(folder) = folder(&["iperf3", "python3"]) else {
        return;
    };
    let output = run(
        folder.path(),
        r#"
bridged
ip -n client link set eth0 mtu 1400
ip -n server link set eth0 mtu 1400
ip link add far-a type veth peer name far-b
for end in far-a far-b; do ip link set $end addrgenmode none up; done
(umask 077; head -c 20 /dev/urandom | od -An -v -tx1 | tr -d ' \n' > key)
start near encrypt --port af-packet:to-client --port af-packet:far-a --key key
start far decrypt --port af-packet:far-b --port af-packet:to-server --key key
serve 5201 iperf3 -s
python3 watch.py far-a > seen &
watching=$!
until grep -q watching seen; do sleep 0.05; done
iperf out
iperf back -R
wait $watching
stop near far
cat seen
"#,
    );
    for name in ["out", "back"] {
        assert!(iperf_bytes(folder.path(), name) > 100_000);
    }
    // On the link between there is ESP, and the ARP by which the hosts have found each other.
    let said = text(&output.stdout);
    let kinds: Vec<&str> = said
        .lines()
        .filter(|line| *line != "watching")
        .filter_map(|line| line.rsplit_once(' '))
        .map(|(kind, _)| kind)
        .collect();
    assert!(kinds.contains(&"ip 50"), "{said}");
    assert!(
        kinds.iter().all(|kind| ["ip 50", "arp"].contains(kind)),
        "{said}"
    );
    for name in ["near", "far"] {
        let record = record(folder.path(), name);
        assert_eq!(record.counts["dropped_packets"], 0, "{:?}", record.counts);
        assert_eq!(record.parameters["key"].to_string(), "file");
    }
}

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
        let record = support::records(&output).remove(0);
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
