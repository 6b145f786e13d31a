//! Packets and bursts of fragments from arbitrary bytes: reassembly, fragmentation, segmentation and checksums give what
//! their oracles give, and a reassembler holds no more than it may.
//!
//! The first byte of an input chooses how the others are used, since noise is seldom a packet, and fragments of noise never
//! fit together.
#![no_main]

use std::sync::{LazyLock, Mutex};

use dpb_core::{Batch, BatchOut, ChecksumForm, Items, JobError, Workload};
use dpb_operators::cpu::Implementation;
use dpb_operators::direct::Direct;
use dpb_operators::network::checksum::Checksum;
use dpb_operators::network::fragmentation::Fragmentation;
use dpb_operators::network::packet::{Burst, Sample, Transport, Version};
use dpb_operators::network::reassembly::{Reassembler, ReassemblyLimits};
use dpb_operators::registry;
use libfuzzer_sys::fuzz_target;

/// A spec on every path that this CPU has, and what is right for it.
struct Subject {
    workload: Box<dyn Workload>,
    kernels: Vec<(Implementation, Box<dyn Direct>)>,
}

/// The operators that read packets, each in one variant at least; reassembly first.
static SUBJECTS: LazyLock<Mutex<Vec<Subject>>> = LazyLock::new(|| {
    let specs = [
        ("reassembly", ""),
        ("fragmentation", "mtu=68"),
        ("fragmentation", "mtu=1280"),
        ("segmentation", "mss=48"),
        ("segmentation", "mss=536,mode=descriptor"),
        ("checksum", "form=ipv4"),
        ("checksum", "form=tcp"),
        ("checksum", "form=udp"),
    ];
    let subject = |(name, parameters)| {
        let entry = registry::find(name).expect("registered");
        let spec = entry.spec(parameters).expect("valid");
        let paths = entry.paths.iter().filter(|path| path.is_available());
        let kernel = |&path| (path, entry.direct(&spec, path).expect("available"));
        Subject {
            workload: entry.workload(&spec).expect("its own spec"),
            kernels: paths.map(kernel).collect(),
        }
    };
    Mutex::new(specs.into_iter().map(subject).collect())
});

fuzz_target!(init: dpb_fuzz::plant(seeds()), |input: &[u8]| {
    let Some((&mode, rest)) = input.split_first() else {
        return;
    };
    match mode % 2 {
        0 => check(rest, usize::MAX),
        _ => {
            let burst = burst(rest);
            check(&burst, 1);
            hold(&burst, mode);
        }
    }
});

/// Runs the first of the operators on `item` on every path, and has each output judged.
fn check(item: &[u8], operators: usize) {
    let mut subjects = SUBJECTS.lock().expect("a panic ends it all");
    for Subject { workload, kernels } in subjects.iter_mut().take(operators) {
        for (path, kernel) in kernels {
            let outcome = run(&mut **kernel, item);
            let output = outcome.as_deref().map_err(|error| *error);
            if let Err(wrong) = workload.check(item, output, usize::MAX) {
                panic!("{:?} on {path}: {wrong}", workload.spec());
            }
        }
    }
}

fn run(kernel: &mut dyn Direct, item: &[u8]) -> Result<Vec<u8>, JobError> {
    let slot = kernel.dst_len(item.len());
    let mut dst = vec![0; slot];
    let mut outcomes = Vec::with_capacity(1);
    let batch = Batch::new(item, &Items::One).expect("inside");
    let out = BatchOut::new(&mut dst, &Items::One, &mut outcomes).expect("one slot");
    kernel.run(batch, out).expect("runs");
    dst.truncate(outcomes[0]? as usize);
    Ok(dst)
}

/// A burst in which six bytes say what each fragment is: fragments of few datagrams that nearly fit together.
fn burst(bytes: &[u8]) -> Vec<u8> {
    let (descriptions, _) = bytes.as_chunks::<6>();
    let mut burst = Vec::new();
    for &[kind, id, start, units, ragged, fill] in descriptions.iter().take(200) {
        let more = kind & 2 != 0;
        let ragged = if kind & 4 != 0 {
            usize::from(ragged % 8)
        } else {
            0
        };
        let payload = vec![fill; usize::from(units % 32) * 8 + ragged];
        let start = u16::from(start) << (kind >> 5);
        burst.extend(match kind & 1 {
            0 => fragment_v4(kind, id % 4, start, more, &payload),
            _ => fragment_v6(id % 4, start, more, &payload),
        });
    }
    burst
}

fn fragment_v4(kind: u8, id: u8, start: u16, more: bool, payload: &[u8]) -> Vec<u8> {
    let sample = Sample {
        id: id.into(),
        ..Sample::new(Version::V4, Transport::Udp)
    };
    let mut fragment = sample.packet(&[])[..20].to_vec();
    fragment.extend(payload);
    let len = fragment.len() as u16;
    fragment[1] = kind >> 3 & 3;
    fragment[2..4].copy_from_slice(&len.to_be_bytes());
    let field = u16::from(more) << 13 | start & 0x1fff;
    fragment[6..8].copy_from_slice(&field.to_be_bytes());
    fragment[10..12].fill(0);
    let sum = Checksum::best(ChecksumForm::Ipv4).of(&fragment);
    let sum = sum.expect("an IPv4 header");
    fragment[10..12].copy_from_slice(&sum.to_be_bytes());
    fragment
}

fn fragment_v6(id: u8, start: u16, more: bool, payload: &[u8]) -> Vec<u8> {
    let mut fragment = Sample::new(Version::V6, Transport::Udp).packet(&[])[..40].to_vec();
    fragment[6] = 44;
    let field = start << 3 | u16::from(more);
    fragment.extend([17, 0]);
    fragment.extend(field.to_be_bytes());
    fragment.extend([0, 0, 0, id]);
    fragment.extend(payload);
    let len = (fragment.len() - 40) as u16;
    fragment[4..6].copy_from_slice(&len.to_be_bytes());
    fragment
}

/// What a reassembler with tight limits holds, while time passes.
fn hold(burst: &[u8], mode: u8) {
    let limits = ReassemblyLimits {
        datagrams_max: 1 + u32::from(mode >> 1) % 3,
        fragments_max: 1 + u32::from(mode >> 3) % 8,
        timeout_ns: 20,
    };
    let mut reassembler = Reassembler::new(limits, [1, 2]);
    for (now_ns, packet) in Burst::new(burst).map_while(Result::ok).enumerate() {
        if let Ok(Some(datagram)) = reassembler.push(packet, now_ns as u64) {
            assert_eq!(Burst::new(datagram).count(), 1);
        }
        assert!(reassembler.waiting() <= 3);
    }
    reassembler.expire(u64::MAX);
    assert_eq!(reassembler.waiting(), 0);
}

/// A packet and a send of each version, the fragments of the packets, and a burst that is described.
fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    let fragmentation = Fragmentation::best(200).expect("an MTU");
    for version in [Version::V4, Version::V6] {
        let datagram = Sample::new(version, Transport::Udp).packet(&[7; 500]);
        let mut fragments = vec![0; 2000];
        let len = fragmentation.fragment(&datagram, 1, &mut fragments);
        fragments.truncate(len.expect("fragments"));
        let send = Sample::new(version, Transport::LAST).packet(&[9; 700]);
        seeds.extend([datagram, fragments, send].map(|bytes| [&[0], &bytes[..]].concat()));
    }
    let described = [[2, 0, 0, 2, 0, 5], [2, 0, 2, 2, 0, 6], [4, 0, 4, 1, 3, 7]];
    seeds.push([&[1], &described.concat()[..]].concat());
    let described = [[3, 1, 0, 2, 0, 5], [3, 1, 2, 2, 0, 6], [5, 1, 4, 1, 3, 7]];
    seeds.push([&[1], &described.concat()[..]].concat());
    seeds
}
