//! `dpdk/libraries` and `dpdk/lpm`, DPDK's own libraries, pass the suite.

mod dpdk;

use dpb_accel::dpdk::libraries::{Libraries, PrefixMatch};
use dpb_core::{Backend, Batch, Input, Items, Limits, OpSpec, SegmentationMode, spec};
use dpb_operators::registry;

/// The spec of one operator.
fn spec(operator: &str, parameters: &str) -> OpSpec {
    let entry = registry::find(operator).expect("registered");
    entry.spec(parameters).expect("right")
}

fn refusal(backend: &dyn Backend, operator: &str, parameters: &str) -> String {
    let limits: Result<Limits, _> = backend.limits(&spec(operator, parameters));
    limits.expect_err("not of DPDK's").reason
}

#[test]
fn conforms() {
    let Some(backend) = dpdk::open("libraries") else {
        return;
    };
    let operators = ["checksum", "crc32", "crc32c", "toeplitz", "lpm4", "lpm6"];
    let others = [
        "segmentation",
        "fragmentation",
        "reassembly",
        "crc16-t10dif",
    ];
    dpdk::conforms(&*backend, &operators, &others);
    for (operator, parameters, said) in [
        ("checksum", "form=tcp", "rte_raw_cksum"),
        ("toeplitz", "queues=8", "queues=0"),
        ("segmentation", "", "IPv4 alone"),
        ("fragmentation", "", "extension headers"),
        ("reassembly", "", "eight fragments"),
    ] {
        let why = refusal(&*backend, operator, parameters);
        assert!(why.contains(said), "{why}");
    }
}

#[test]
fn lpm_conforms() {
    let Some(backend) = dpdk::open("lpm") else {
        return;
    };
    dpdk::conforms(&*backend, &["lpm4", "lpm6"], &["checksum", "toeplitz"]);
}

/// Every library on what the operators are measured on, judged by their workloads: twice, as what is set up is run again and again.
#[test]
fn packets_come_out_right() {
    let Ok(libraries) = Libraries::load() else {
        println!("skipped: DPDK's libraries on packets (Debian: libdpdk-dev, and build again)");
        return;
    };
    for (operator, parameters, len, count) in [
        ("segmentation", "mss=1448,mode=copy", 60_000, 4),
        ("segmentation", "mss=1448,mode=descriptor", 60_000, 4),
        ("segmentation", "mss=48,mode=copy", 4096, 1),
        ("fragmentation", "mtu=1500", 8000, 16),
        ("fragmentation", "mtu=68", 400, 3),
        ("reassembly", "", 8000, 16),
    ] {
        let spec = spec(operator, parameters);
        let entry = registry::of(&spec).expect("registered");
        let workload = entry.workload(&spec).expect("its own spec");
        let input = Input::of(&*workload, 1, len, count).expect("packets");
        let batch = input.batch().expect("as laid out");
        let slot = 4 * len + 4096;
        let mut packets = libraries.packets(&spec, batch, slot).expect("IPv4");
        for fill in [0x5a, 0xa5] {
            packets.fill(fill);
            packets.run();
            for (i, output) in packets.outputs().into_iter().enumerate() {
                let right = workload.check(batch.item(i), Ok(output), slot);
                right.unwrap_or_else(|wrong| panic!("{spec:?}, item {i}: {wrong}"));
            }
        }
    }
}

/// Functions that are for comparisons alone give the same as the operators.
#[test]
fn bare_calls_give_the_same() {
    let Ok(libraries) = Libraries::load() else {
        println!("skipped: bare calls of DPDK's libraries (Debian: libdpdk-dev, and build again)");
        return;
    };
    let toeplitz = spec("toeplitz", "form=ipv6-ports");
    let workload = registry::of(&toeplitz)
        .expect("registered")
        .workload(&toeplitz);
    let workload = workload.expect("its own spec");
    let input = Input::of(&*workload, 1, 36 * 101, 1).expect("tuples");
    let batch = input.batch().expect("one item");
    let hashes = libraries.hashes(&toeplitz).expect("has it");
    let mut bulk = [0; 101];
    hashes.bulk(&hashes.tuples(batch), &mut bulk);
    let bulk = bulk.map(u32::to_le_bytes).concat();
    assert_eq!(workload.check(batch.item(0), Ok(&bulk), bulk.len()), Ok(()));

    let entry = registry::find("lpm4").expect("registered");
    let routed = entry.case("keys=route-weighted").expect("right");
    let lpm4 = routed.spec.clone();
    let workload = entry.workload(routed);
    let workload = workload.expect("its own spec");
    let input = Input::of(&*workload, 1, 4 * 64, 1).expect("addresses");
    let addresses: Vec<u32> = input
        .bytes
        .as_chunks()
        .0
        .iter()
        .map(|word| u32::from_be_bytes(*word))
        .collect();
    let routes = libraries.routes(&lpm4, PrefixMatch::Fib).expect("fits");
    let mut hops = [0; 64];
    routes.bursts_v4(&addresses, 64, &mut hops);
    // Every address has a route.
    let hops: Vec<_> = (0..64)
        .map(|at| PrefixMatch::Fib.hop(&hops, at).to_le_bytes())
        .collect();
    let hops = hops.concat();
    assert_eq!(workload.check(&input.bytes, Ok(&hops), hops.len()), Ok(()));
}

/// An IPv4 packet without options, of this protocol, with this flags and offset, its length said right.
fn packet(id: u8, protocol: u8, field: u16, payload: &[u8]) -> Vec<u8> {
    let len = 20 + payload.len() as u16;
    let mut packet = vec![0x45, 0];
    packet.extend(len.to_be_bytes());
    packet.extend([0, id]);
    packet.extend(field.to_be_bytes());
    packet.extend([64, protocol, 0, 0, 192, 0, 2, 1, 198, 51, 100, 2]);
    packet.extend(payload);
    packet
}

#[test]
fn packets_of_another_kind_are_refused_before_c_sees_them() {
    const TCP: u8 = 6;
    const UDP: u8 = 17;
    let Ok(libraries) = Libraries::load() else {
        println!("skipped: DPDK's libraries on packets (Debian: libdpdk-dev, and build again)");
        return;
    };
    let mut tcp = vec![0; 4000];
    tcp[12] = 5 << 4;
    let good = packet(1, TCP, 0, &tcp);
    let with = |at: usize, byte: u8| {
        let mut bad = good.clone();
        bad[at] = byte;
        bad
    };
    let segmentation = spec("segmentation", "mss=1000");
    let short = OpSpec::from(spec::Segmentation {
        mss: 8,
        mode: SegmentationMode::Copy,
    });
    let fragmentation = spec("fragmentation", "mtu=1500");
    let reassembly = spec("reassembly", "");
    let cases = [
        (&segmentation, with(0, 0x65), 65_536, "no IPv4"),
        (&segmentation, with(0, 0x46), 65_536, "no IPv4"),
        (&segmentation, with(3, 0), 65_536, "no IPv4"),
        (&segmentation, with(9, UDP), 65_536, "no TCP"),
        (&segmentation, with(32, 4 << 4), 65_536, "no TCP"),
        (&segmentation, with(6, 0x20), 65_536, "a fragment"),
        (
            &segmentation,
            packet(1, TCP, 0, &tcp[..20]),
            65_536,
            "two segments",
        ),
        (&segmentation, good[..30].to_vec(), 65_536, "no IPv4"),
        (&segmentation, good.clone(), 4000, "slot"),
        (
            &short,
            packet(1, TCP, 0, &tcp[..60]),
            65_536,
            "too short ones",
        ),
        (
            &fragmentation,
            with(6, 0x40),
            65_536,
            "not to be fragmented",
        ),
        (&fragmentation, vec![], 65_536, "no IPv4"),
        (&fragmentation, good.clone(), good.len(), "slot"),
        (
            &reassembly,
            [&good[..], &[0x45]].concat(),
            65_536,
            "one behind the other",
        ),
        (&reassembly, with(3, 19), 65_536, "one behind the other"),
        (&reassembly, good.clone(), 20, "slot"),
    ];
    for (spec, bytes, slot, said) in cases {
        let input = Input::fixed("", bytes.clone(), bytes.len(), 1);
        let batch = input.batch().expect("one item");
        let why = libraries.packets(spec, batch, slot).err();
        let why = why.unwrap_or_else(|| panic!("{spec}: taken, not {said}"));
        assert!(why.reason.contains(said), "{spec}: {why}");
    }
}

/// More fragments that belong to nothing, or to too much, than DPDK keeps of any: nothing comes out, and nothing breaks.
#[test]
fn fragments_that_never_become_whole_do_no_harm() {
    const UDP: u8 = 17;
    const MORE: u16 = 0x2000;
    let Ok(libraries) = Libraries::load() else {
        println!("skipped: DPDK's libraries on packets (Debian: libdpdk-dev, and build again)");
        return;
    };
    let mut bytes = Vec::new();
    for n in 0..3000u16 {
        // Of three datagrams: over and over the first, holes, and overlaps.
        let offset = [0, n % 500 + 1, n % 7 + 1][usize::from(n % 3)];
        bytes.extend(packet((n % 3) as u8, UDP, MORE | offset, &[n as u8; 64]));
    }
    let input = Input::fixed("", bytes.clone(), bytes.len(), 1);
    let batch = input.batch().expect("one item");
    let reassembly = spec("reassembly", "");
    let mut packets = libraries
        .packets(&reassembly, batch, bytes.len())
        .expect("IPv4");
    for _ in 0..8 {
        packets.run();
        assert_eq!(packets.outputs(), [[0u8; 0]]);
    }
}

/// A datagram that becomes whole in another item than it began in, whose slot has no room for it.
#[test]
fn what_becomes_whole_stays_within_its_slot() {
    const UDP: u8 = 17;
    const MORE: u16 = 0x2000;
    let Ok(libraries) = Libraries::load() else {
        println!("skipped: DPDK's libraries on packets (Debian: libdpdk-dev, and build again)");
        return;
    };
    let first = packet(1, UDP, MORE, &[1; 1400]);
    let last = packet(1, UDP, 1400 / 8, &[2; 8]);
    let (len, bytes) = (first.len(), [first, last].concat());
    let items = Items::Offsets([0, len as u32, bytes.len() as u32].into());
    let batch = Batch::new(&bytes, &items).expect("two items");
    let reassembly = spec("reassembly", "");
    for (slot, whole) in [(len, 0), (len + 8, len + 8)] {
        let mut packets = libraries.packets(&reassembly, batch, slot).expect("IPv4");
        packets.run();
        let lens: Vec<usize> = packets
            .outputs()
            .iter()
            .map(|output| output.len())
            .collect();
        assert_eq!(lens, [0, whole], "slots of {slot} bytes");
    }
}
