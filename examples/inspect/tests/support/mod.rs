//! Captures made of packets that etherparse writes, and what other implementations find in them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use etherparse::PacketBuilder;
use inspect::{Found, QUEUES};

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

/// A frame, and the findings that it should give.
pub(crate) struct Frame {
    pub(crate) bytes: Vec<u8>,
    pub(crate) kind: Kind,
}

pub(crate) enum Kind {
    NotIp,
    Damaged,
    Right {
        source: IpAddr,
        destination: IpAddr,
        /// The ports, if the hash has them.
        ports: Option<[u16; 2]>,
        /// The payload, if the packet is whole.
        payload: Option<Vec<u8>>,
    },
}

pub(crate) fn toeplitz(input: &[u8]) -> u32 {
    let bit = |bytes: &[u8], i: usize| bytes[i / 8] >> (7 - i % 8) & 1;
    let key = |at: usize| (0..32).fold(0, |word, i| word << 1 | u32::from(bit(&KEY, at + i)));
    let set = (0..8 * input.len()).filter(|&i| bit(input, i) == 1);
    set.fold(0, |hash, i| hash ^ key(i))
}

/// The hash's low seven bits choose one of 128 entries, which are queues in turn.
fn queue(frame: &Kind) -> Option<u32> {
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
    Some((toeplitz(&input) & 127) % QUEUES)
}

/// One after another, every route that the address starts with.
fn hop(destination: Ipv4Addr) -> u32 {
    let is_under = |(prefix, len, _): &&(&str, u8, u32)| {
        let prefix: Ipv4Addr = prefix.parse().unwrap();
        let shift = 32 - u32::from(*len);
        u64::from(prefix.to_bits()) >> shift == u64::from(destination.to_bits()) >> shift
    };
    let routes = ROUTES.iter().filter(is_under);
    let longest = routes.max_by_key(|(_, len, _)| *len);
    longest.map_or(u32::MAX, |(_, _, hop)| *hop)
}

/// Packets of every kind, `count` in all.
pub(crate) fn frames(count: usize) -> Vec<Frame> {
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
pub(crate) fn pcap(frames: &[Frame]) -> Vec<u8> {
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

/// Rules and routes as files; the parameters that name them.
pub(crate) fn files(folder: &std::path::Path) -> [String; 2] {
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
    [format!("routes={routes}"), format!("rules={rules}")]
}

/// The findings and the matching payloads of other implementations.
pub(crate) fn expected(frames: &[Frame]) -> (Found, Vec<Vec<u8>>) {
    let rules: Vec<_> = RULES
        .iter()
        .map(|(id, rule)| (*id, regex::bytes::Regex::new(rule).unwrap()))
        .collect();
    let mut found = Found::default();
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
                let queue = queue(kind).unwrap();
                *found.by_queue.entry(queue).or_default() += 1;
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
