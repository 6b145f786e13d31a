//! The programs of `dpb net` as processes, between the network namespaces of a client and of a server, without root: curl gets a file from an HTTPS server, iperf3 measures,
//! and what went through is accounted for. Checksums that the hosts leave to their devices are computed by the port; that they put packets together (TSO) is switched off.

mod support;

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use dpb_core::Evidence;
use dpb_core::measure::{Outcome, Record};
use support::{DPB, cannot_be_emulated, text};
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
    if cannot_be_emulated("rings of AF_PACKET") {
        return None;
    }
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
