//! Captures made of packets that etherparse writes, inspected on every kind of backend: what is found is what other
//! implementations find, and after the first bursts nothing is allocated.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use dpb_accel::port::capture;
use dpb_core::{Buf, View};
use etherparse::PacketBuilder;
use inspect::{BURST, Found, Inspector, QUEUES};
use sha2::{Digest, Sha256};

/// The system's memory, counted.
struct Counted;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

#[global_allocator]
static COUNTED: Counted = Counted;

// SAFETY: every call is the system allocator's own.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps to the same contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps to the same contract.
        unsafe { System.dealloc(ptr, layout) }
    }
}

/// The tests count allocations of the whole process.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

const RULES: [(u32, &str); 3] = [
    (7, "attack[0-9]+"),
    (9, r"GET /\w+\.php"),
    (4000, "^USER root"),
];
const ROUTES: [(&str, u8, u32); 4] = [
    ("0.0.0.0", 0, 1),
    ("161.142.0.0", 16, 2),
    ("161.142.100.0", 24, 3),
    ("10.0.0.0", 8, 4),
];
/// "Verifying the RSS hash calculation", Microsoft.
const KEY: [u8; 40] = [
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0,
    0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c,
    0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
];

/// A frame, and what is to be found of it.
struct Frame {
    bytes: Vec<u8>,
    kind: Kind,
}

enum Kind {
    NotIp,
    Damaged,
    Right {
        source: IpAddr,
        destination: IpAddr,
        /// If the hash has them.
        ports: Option<[u16; 2]>,
        /// If it is whole.
        payload: Option<Vec<u8>>,
    },
}

fn toeplitz(input: &[u8]) -> u32 {
    let bit = |bytes: &[u8], i: usize| bytes[i / 8] >> (7 - i % 8) & 1;
    let key = |at: usize| (0..32).fold(0, |word, i| word << 1 | u32::from(bit(&KEY, at + i)));
    let set = (0..8 * input.len()).filter(|&i| bit(input, i) == 1);
    set.fold(0, |hash, i| hash ^ key(i))
}

/// The hash's low seven bits choose one of 128 entries, which are queues in turn.
fn queue(frame: &Kind) -> Option<usize> {
    let Kind::Right {
        source,
        destination,
        ports,
        ..
    } = frame
    else {
        return None;
    };
    let bytes = |address: &IpAddr| match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    let ports = ports
        .iter()
        .flatten()
        .flat_map(|port| port.to_be_bytes())
        .collect();
    let input = [bytes(source), bytes(destination), ports].concat();
    Some((toeplitz(&input) & 127) as usize % QUEUES)
}

/// One after another, every route that the address starts with.
fn hop(destination: Ipv4Addr) -> Option<u32> {
    let is_under = |(prefix, len, _): &&(&str, u8, u32)| {
        let prefix: Ipv4Addr = prefix.parse().unwrap();
        let shift = 32 - u32::from(*len);
        u64::from(prefix.to_bits()) >> shift == u64::from(destination.to_bits()) >> shift
    };
    let routes = ROUTES.iter().filter(is_under);
    routes
        .max_by_key(|(_, len, _)| *len)
        .map(|(_, _, hop)| *hop)
}

/// Packets of every kind, `count` in all.
fn frames(count: usize) -> Vec<Frame> {
    let v4 = |a: &str| a.parse::<Ipv4Addr>().unwrap();
    let v6 = |a: &str| a.parse::<Ipv6Addr>().unwrap();
    let payloads = [
        "USER root\r\nPASS secret",
        "GET /index.php HTTP/1.1\r\n\r\n",
        "nothing to see",
        "an attack77 in the middle, and attack8 behind",
        "",
        "attacks without a number",
        "GET /a.php attack1 and more of it",
    ];
    let frame = |i: usize| {
        let payload = payloads[i % payloads.len()]
            .repeat(1 + i % 5 * 3)
            .into_bytes();
        let ports = [2794 + i as u16, 1766];
        let ethernet = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
        let (from, to) = (
            v4("66.9.149.187"),
            v4(["161.142.100.80", "161.142.7.7", "10.1.2.3", "8.8.8.8"][i % 4]),
        );
        let (from6, to6) = (v6("3ffe:2501:200:1fff::7"), v6("3ffe:2501:200:3::1"));
        let mut bytes = Vec::new();
        let mut addresses: (IpAddr, IpAddr) = (from.into(), to.into());
        match i % 8 {
            0 => ethernet
                .ipv4(from.octets(), to.octets(), 64)
                .tcp(ports[0], ports[1], 5, 99)
                .write(&mut bytes, &payload)
                .unwrap(),
            1 => ethernet
                .ipv4(from.octets(), to.octets(), 64)
                .udp(ports[0], ports[1])
                .write(&mut bytes, &payload)
                .unwrap(),
            2 => {
                addresses = (from6.into(), to6.into());
                ethernet
                    .ipv6(from6.octets(), to6.octets(), 64)
                    .tcp(ports[0], ports[1], 5, 99)
                    .write(&mut bytes, &payload)
                    .unwrap();
            }
            3 => {
                let tagged = ethernet.single_vlan(etherparse::VlanId::try_new(5).unwrap());
                tagged
                    .ipv4(from.octets(), to.octets(), 64)
                    .udp(ports[0], ports[1])
                    .write(&mut bytes, &payload)
                    .unwrap();
            }
            // Padded, as Ethernet does.
            4 => {
                ethernet
                    .ipv4(from.octets(), to.octets(), 64)
                    .tcp(ports[0], ports[1], 5, 99)
                    .write(&mut bytes, b"")
                    .unwrap();
                bytes.resize(60, 0);
                let kind = Kind::Right {
                    source: addresses.0,
                    destination: addresses.1,
                    ports: Some(ports),
                    payload: Some(Vec::new()),
                };
                return Frame { bytes, kind };
            }
            5 => {
                ethernet
                    .ipv4(from.octets(), to.octets(), 64)
                    .tcp(ports[0], ports[1], 5, 99)
                    .write(&mut bytes, b"attack1")
                    .unwrap();
                *bytes.last_mut().unwrap() ^= 1;
                return Frame {
                    bytes,
                    kind: Kind::Damaged,
                };
            }
            // ARP's ethertype.
            6 => {
                bytes = [[0xff; 12].as_slice(), &[0x08, 0x06], &[1; 46]].concat();
                return Frame {
                    bytes,
                    kind: Kind::NotIp,
                };
            }
            // A first fragment: more follow. Its IP checksum is right, its transport's cannot be looked at.
            _ => {
                ethernet
                    .ipv4(from.octets(), to.octets(), 64)
                    .udp(ports[0], ports[1])
                    .write(&mut bytes, b"attack2 and the rest")
                    .unwrap();
                bytes[14 + 6] |= 0x20;
                bytes[14 + 10..14 + 12].fill(0);
                let sum: u32 = bytes[14..34]
                    .chunks(2)
                    .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])))
                    .sum();
                let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
                bytes[14 + 10..14 + 12].copy_from_slice(&sum.to_be_bytes());
                let kind = Kind::Right {
                    source: addresses.0,
                    destination: addresses.1,
                    ports: None,
                    payload: None,
                };
                return Frame { bytes, kind };
            }
        }
        let kind = Kind::Right {
            source: addresses.0,
            destination: addresses.1,
            ports: Some(ports),
            payload: Some(payload),
        };
        Frame { bytes, kind }
    };
    (0..count).map(frame).collect()
}

/// The capture, as draft-ietf-opsawg-pcap has it.
fn pcap(frames: &[Frame]) -> Vec<u8> {
    let header = [0xa1b2_c3d4, 4 << 16 | 2, 0, 0, 262_144, 1u32];
    let mut file: Vec<u8> = header.iter().flat_map(|word| word.to_le_bytes()).collect();
    for frame in frames {
        let len = frame.bytes.len() as u32;
        file.extend(
            [1, 2, len, len]
                .iter()
                .flat_map(|word: &u32| word.to_le_bytes()),
        );
        file.extend(&frame.bytes);
    }
    file
}

fn memory(bytes: &[u8]) -> View {
    let mut file = Buf::zeroed(bytes.len()).unwrap();
    file.copy_from_slice(bytes);
    file.freeze()
}

/// Rules and routes as files; the parameters that name them.
fn files(folder: &std::path::Path) -> [String; 3] {
    let write = |name: &str, lines: Vec<String>| {
        let path = folder.join(name);
        std::fs::write(&path, lines.join("\n")).unwrap();
        path.display().to_string()
    };
    let rules = RULES
        .iter()
        .map(|(id, rule)| format!("{id}:/{}/", rule.replace('/', r"\/")));
    let routes = ROUTES
        .iter()
        .map(|(prefix, len, hop)| format!("{prefix}/{len} {hop}"));
    let (rules, routes) = (
        write("rules", rules.collect()),
        write("routes", routes.collect()),
    );
    [
        format!("routes={routes}"),
        String::new(),
        format!("rules={rules}"),
    ]
}

/// What others find.
fn expected(frames: &[Frame]) -> (Found, Vec<Vec<u8>>) {
    let rules: Vec<_> = RULES
        .iter()
        .map(|(id, rule)| (*id, regex::bytes::Regex::new(rule).unwrap()))
        .collect();
    let mut found = Found {
        packets: frames.len() as u64,
        ..Found::default()
    };
    let mut payloads = Vec::new();
    for Frame { kind, .. } in frames {
        match kind {
            Kind::NotIp => found.not_ip += 1,
            Kind::Damaged => found.damaged += 1,
            Kind::Right {
                destination,
                payload,
                ..
            } => {
                found.by_queue[queue(kind).unwrap()] += 1;
                // IPv6's routes are dpb's own here.
                if let IpAddr::V4(destination) = destination {
                    *found.by_hop.entry(hop(*destination)).or_default() += 1;
                }
                let payload = payload.as_deref().unwrap_or_default();
                let matching = rules.iter().filter(|(_, rule)| rule.is_match(payload));
                let matching: Vec<u32> = matching.map(|(id, _)| *id).collect();
                for id in &matching {
                    *found.by_rule.entry(*id).or_default() += 1;
                }
                if !matching.is_empty() {
                    payloads.push(payload.to_vec());
                    found.bytes[0] += payload.len() as u64;
                }
            }
        }
    }
    (found, payloads)
}

#[test]
fn what_is_found_is_what_others_find_and_nothing_is_allocated() {
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    // The published example of the key.
    let tuple = [
        [66, 9, 149, 187],
        [161, 142, 100, 80],
        [0x0a, 0xea, 0x06, 0xe6],
    ]
    .concat();
    assert_eq!(toeplitz(&tuple), 0x51cc_c178);
    let folder = tempfile::tempdir().unwrap();
    let parameters = files(folder.path());
    let frames = frames(5 * BURST + 7);
    let bytes = pcap(&frames);
    let packets: Vec<Range<usize>> = capture::packets(&bytes)
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert_eq!(packets.len(), frames.len());
    let file = memory(&bytes);
    let (right, payloads) = expected(&frames);
    let delays = "faulty/delay_polls_max=3,reorder=1";
    for backends in [
        ["cpu"; 6],
        ["pool/2"; 6],
        [
            "cpu/portable",
            "sim/default",
            delays,
            "pool/1",
            "sim/default",
            delays,
        ],
    ] {
        let parameters = parameters.each_ref().map(String::as_str);
        let mut inspector = Inspector::new(backends, parameters)
            .unwrap_or_else(|error| panic!("{backends:?}: {error:#}"));
        let mut found = Found::default();
        let mut matched = Vec::new();
        for burst in packets.chunks(BURST) {
            inspector
                .inspect(&file, burst, &mut found, |place, digest, compressed| {
                    matched.push((place, digest.to_vec(), compressed.to_vec()));
                })
                .unwrap();
        }
        for ((place, digest, compressed), payload) in matched.iter().zip(&payloads) {
            assert_eq!(bytes[place.clone()], payload[..]);
            assert_eq!(digest[..], Sha256::digest(payload)[..]);
            assert_eq!(
                miniz_oxide::inflate::decompress_to_vec(compressed).unwrap(),
                *payload
            );
        }
        assert_eq!(matched.len(), payloads.len());
        let compressed: usize = matched
            .iter()
            .map(|(_, _, compressed)| compressed.len())
            .sum();
        let of_v6 = frames.iter().filter(|frame| {
            matches!(
                &frame.kind,
                Kind::Right {
                    destination: IpAddr::V6(_),
                    ..
                }
            )
        });
        let of_v6 = of_v6.count() as u64;
        let by_hop: u64 = found.by_hop.values().sum();
        assert_eq!(by_hop, of_v6 + right.by_hop.values().sum::<u64>());
        let v4_hops: BTreeMap<_, _> = right
            .by_hop
            .iter()
            .map(|(hop, count)| (*hop, *count))
            .collect();
        for (hop, count) in &v4_hops {
            assert!(found.by_hop[hop] >= *count, "{hop:?}");
        }
        found.by_hop.clone_from(&right.by_hop);
        let bytes = [right.bytes[0], compressed as u64];
        assert_eq!(
            found,
            Found {
                bytes,
                by_hop: right.by_hop.clone(),
                by_queue: right.by_queue,
                by_rule: right.by_rule.clone(),
                ..right
            }
        );

        let mut count = 0;
        let mut again = |inspector: &mut Inspector, found: &mut Found| {
            for burst in packets.chunks(BURST) {
                inspector
                    .inspect(&file, burst, found, |_, _, _| count += 1)
                    .unwrap();
            }
        };
        // The harness's own threads allocate now and then.
        let allocated = (0..5).map(|_| {
            let before = ALLOCATIONS.load(Ordering::Relaxed);
            again(&mut inspector, &mut found);
            ALLOCATIONS.load(Ordering::Relaxed) - before
        });
        assert_eq!(allocated.min(), Some(0), "{backends:?}");
        assert_eq!(count, 5 * payloads.len());
    }
}

#[test]
fn the_program_reads_captures() {
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    let [routes, _, rules] = files(folder.path());
    let frames = frames(100);
    let capture = folder.path().join("some.pcap");
    std::fs::write(&capture, pcap(&frames)).unwrap();
    let run = |capture: &std::path::Path| {
        Command::new(env!("CARGO_BIN_EXE_inspect"))
            .args(["--rules", rules.strip_prefix("rules=").unwrap()])
            .args(["--routes", routes.strip_prefix("routes=").unwrap()])
            .args(["--backends", "cpu,pool/2,cpu,cpu,sim/default,cpu"])
            .arg(capture)
            .output()
            .unwrap()
    };
    let output = run(&capture);
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let (right, payloads) = expected(&frames);
    for payload in &payloads {
        let digest = Sha256::digest(payload)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>();
        assert!(
            said.contains(&format!("{} {digest}", payload.len())),
            "{said}"
        );
    }
    assert!(
        said.contains(&format!("damaged: {}", right.damaged)),
        "{said}"
    );

    let torn = folder.path().join("torn.pcap");
    std::fs::write(&torn, &pcap(&frames)[..500]).unwrap();
    let output = run(&torn);
    assert!(!output.status.success());
}
