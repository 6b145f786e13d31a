//! Reassembly in any order, of hostile fragments, and against another implementation.

use dpb_core::spec::Declared;
use dpb_core::{Backend, Buf, Span, Stage};
use proptest::prelude::*;

use super::*;
use crate::cpu::Cpu;
use crate::network::fragmentation::Fragmentation;
use crate::network::packet::tests::{bytes, samples};
use crate::network::packet::{Burst, Sample, Transport, u16_at};

const SEEDS: [u64; 2] = [1, 2];
const LIMITS: ReassemblyLimits = ReassemblyLimits {
    datagrams_max: 4,
    fragments_max: 100,
    timeout_ns: 1000,
};

/// The fragments of a packet.
fn fragments(packet: &[u8], mtu: u16, identification: u32) -> Vec<Vec<u8>> {
    let fragmentation = Fragmentation::best(mtu).expect("an MTU");
    let mut dst = vec![0; 200_000];
    let len = fragmentation
        .fragment(packet, identification, &mut dst)
        .expect("fragments");
    Burst::new(&dst[..len])
        .map(|fragment| fragment.expect("sound").to_vec())
        .collect()
}

/// A UDP packet of this version, and its fragments.
fn cut(version: Version, len: usize, id: u16) -> (Vec<u8>, Vec<Vec<u8>>) {
    let sample = Sample {
        id,
        ..Sample::new(version, Transport::Udp)
    };
    let packet = sample.packet(&bytes(len, id.into()));
    let fragments = fragments(&packet, 500, id.into());
    (packet, fragments)
}

/// The result of each push.
fn push_all(
    reassembler: &mut Reassembler,
    packets: &[Vec<u8>],
) -> Vec<Result<Option<Vec<u8>>, Dropped>> {
    packets
        .iter()
        .map(|packet| {
            reassembler
                .push(packet, 0)
                .map(|whole| whole.map(<[u8]>::to_vec))
        })
        .collect()
}

#[test]
fn in_any_order_the_datagram_comes_back() {
    for sample in samples(Transport::Udp) {
        for len in [493, 1000, 9000, 65_000] {
            let packet = sample.packet(&bytes(len, 1));
            let mut pieces = fragments(&packet, 500, 9);
            let mut reassembler = Reassembler::new(ReassemblyLimits::default(), SEEDS);
            for order in 0..3 {
                match order {
                    1 => pieces.reverse(),
                    2 => pieces.rotate_left(1),
                    _ => {}
                }
                let (last, others) = pieces.split_last().expect("not empty");
                for piece in others {
                    assert_eq!(reassembler.push(piece, 0), Ok(None));
                }
                // IPv4's options that were not copied come back with the first fragment, which has them.
                assert_eq!(reassembler.push(last, 0), Ok(Some(&packet[..])));
                assert_eq!(reassembler.waiting(), 0);
            }
        }
    }
}

#[test]
fn a_duplicate_is_dropped_and_changes_nothing() {
    for version in [Version::V4, Version::V6] {
        let (packet, pieces) = cut(version, 1300, 1);
        let mut reassembler = Reassembler::new(LIMITS, SEEDS);
        let doubled: Vec<_> = pieces[..2].iter().chain(&pieces[..2]).cloned().collect();
        let outcomes = push_all(&mut reassembler, &doubled);
        let duplicate = Err(Dropped::Duplicate);
        assert_eq!(outcomes, [Ok(None), Ok(None), duplicate.clone(), duplicate]);
        assert_eq!(reassembler.push(&pieces[2], 0), Ok(Some(&packet[..])));
    }
}

/// Moves an IPv4 fragment by `units`, its checksum right.
fn moved(fragment: &[u8], units: i16) -> Vec<u8> {
    let mut fragment = fragment.to_vec();
    let field = u16_at(&fragment, 6).wrapping_add_signed(units);
    put(&mut fragment, 6, field);
    fragment
}

/// Writes a word of an IPv4 header, its checksum right.
fn put(packet: &mut [u8], at: usize, value: u16) {
    use crate::network::checksum::Checksum;
    use crate::network::packet::put_u16;
    use dpb_core::ChecksumForm;
    put_u16(packet, at, value);
    let sum = Checksum::best(ChecksumForm::Ipv4).of(packet).expect("IPv4");
    put_u16(packet, 10, sum);
}

/// RFC 5722: the datagram is given up, with what is still to come of it.
#[test]
fn an_overlap_ends_a_datagram() {
    let (_, pieces) = cut(Version::V4, 1400, 1);
    let mut changed = pieces[1].clone();
    *changed.last_mut().expect("not empty") ^= 1;
    let mut last_inside = pieces[0].clone();
    put(&mut last_inside, 6, 0x0001);
    let worse = [
        moved(&pieces[1], 1),
        moved(&pieces[1], -1),
        // Same place, other bytes.
        changed,
        // Another end, before what has come.
        last_inside,
    ];
    for bad in worse {
        let mut reassembler = Reassembler::new(LIMITS, SEEDS);
        let packets = [
            pieces[0].clone(),
            pieces[1].clone(),
            bad,
            pieces[2].clone(),
            pieces[0].clone(),
        ];
        let outcomes = push_all(&mut reassembler, &packets);
        let given_up = Err(Dropped::GivenUp);
        let right = [
            Ok(None),
            Ok(None),
            Err(Dropped::Overlap),
            given_up.clone(),
            given_up,
        ];
        assert_eq!(outcomes, right);
        // Until its time is over: then its identification is free again.
        assert_eq!(reassembler.waiting(), 1);
        assert_eq!(reassembler.expire(1000), 1);
        assert_eq!(reassembler.push(&pieces[0], 1000), Ok(None));
    }
}

#[test]
fn what_lies_behind_the_end_ends_a_datagram() {
    let (_, pieces) = cut(Version::V4, 1400, 1);
    for (first, second) in [
        (pieces[2].clone(), moved(&pieces[1], 120)),
        (moved(&pieces[1], 120), pieces[2].clone()),
    ] {
        let mut reassembler = Reassembler::new(LIMITS, SEEDS);
        let outcomes = push_all(&mut reassembler, &[first, second]);
        assert_eq!(outcomes, [Ok(None), Err(Dropped::Overlap)]);
    }
}

#[test]
fn a_datagram_too_long_is_given_up() {
    let (_, pieces) = cut(Version::V4, 1400, 1);
    let mut reassembler = Reassembler::new(LIMITS, SEEDS);
    let mut far = pieces[1].clone();
    put(&mut far, 6, 0x3fff);
    assert_eq!(reassembler.push(&far, 0), Err(Dropped::TooLong));
    // Each fragment fits, but not with the header.
    let sample = Sample::new(Version::V4, Transport::Udp);
    let whole = sample.packet(&bytes(65_507, 1));
    let mut reassembler = Reassembler::new(ReassemblyLimits::default(), SEEDS);
    let mut pieces = fragments(&whole, 1500, 1);
    let last = pieces.last_mut().expect("not empty");
    let len = last.len() as u16 + 8;
    last.extend([0; 8]);
    put(last, 2, len);
    let outcome = push_all(&mut reassembler, &pieces).pop();
    assert_eq!(outcome, Some(Err(Dropped::TooLong)));
}

#[test]
fn time_runs_from_the_first_fragment() {
    let (packet, pieces) = cut(Version::V6, 1300, 1);
    let mut reassembler = Reassembler::new(LIMITS, SEEDS);
    assert_eq!(reassembler.push(&pieces[0], 0), Ok(None));
    assert_eq!(reassembler.push(&pieces[1], 999), Ok(None));
    assert_eq!(reassembler.expire(999), 0);
    assert_eq!(
        reassembler.push(&pieces[2], 1000),
        Ok(None),
        "came too late, and waits alone"
    );
    assert_eq!(reassembler.waiting(), 1);
    assert_eq!(reassembler.push(&pieces[0], 1001), Ok(None));
    assert_eq!(reassembler.push(&pieces[1], 1999), Ok(Some(&packet[..])));
}

#[test]
fn a_flood_takes_no_more_than_it_is_given() {
    let mut reassembler = Reassembler::new(LIMITS, SEEDS);
    for id in 0..10_000 {
        let (_, pieces) = cut(Version::V4, 1400, id);
        assert_eq!(reassembler.push(&pieces[1], 0), Ok(None));
        assert!(reassembler.waiting() <= 4);
    }
    assert_eq!(reassembler.evicted(), 9996);
    // The four youngest are there still.
    let (_, [first, _, last]) = three(9996);
    assert_eq!(reassembler.push(&first, 0), Ok(None));
    assert!(matches!(reassembler.push(&last, 0), Ok(Some(_))));
    reassembler.clear();
    assert_eq!(reassembler.waiting(), 0);
    // Many fragments of one datagram.
    let packet = Sample::new(Version::V4, Transport::Udp).packet(&bytes(9000, 1));
    let pieces = fragments(&packet, 68, 1);
    let outcomes = push_all(&mut reassembler, &pieces);
    assert_eq!(
        outcomes
            .iter()
            .filter(|outcome| **outcome == Ok(None))
            .count(),
        100
    );
    assert_eq!(outcomes[100], Err(Dropped::TooMany));
    assert_eq!(outcomes[101], Err(Dropped::GivenUp));
}

fn three(id: u16) -> (Vec<u8>, [Vec<u8>; 3]) {
    let (packet, pieces) = cut(Version::V4, 1400, id);
    (packet, pieces.try_into().expect("three"))
}

/// RFC 3168, 5.3.
#[test]
fn congestion_marks_are_kept() {
    let marked = |codes: [u8; 3]| {
        let (_, mut pieces) = three(1);
        for (piece, code) in pieces.iter_mut().zip(codes) {
            let word = u16_at(piece, 0) | u16::from(code);
            put(piece, 0, word);
        }
        let mut reassembler = Reassembler::new(LIMITS, SEEDS);
        push_all(&mut reassembler, &pieces).pop().expect("three")
    };
    let whole = |outcome: Result<Option<Vec<u8>>, Dropped>| outcome.expect("fits").expect("whole");
    assert_eq!(whole(marked([2, 2, 2]))[1] & 3, 2);
    assert_eq!(whole(marked([2, 3, 2]))[1] & 3, 3);
    assert_eq!(marked([0, 3, 0]), Err(Dropped::Congestion));
}

/// RFC 6946: a fragment that is all of its datagram.
#[test]
fn an_atomic_fragment_stands_for_itself() {
    let (_, pieces) = cut(Version::V6, 1300, 1);
    let packet = Sample::new(Version::V6, Transport::Udp).packet(b"whole");
    let mut atomic = packet.clone();
    atomic.splice(40..40, [17, 0, 0, 0, 0, 0, 0, 1]);
    atomic[6] = 44;
    atomic[5] += 8;
    let mut reassembler = Reassembler::new(LIMITS, SEEDS);
    assert_eq!(reassembler.push(&pieces[0], 0), Ok(None));
    assert_eq!(reassembler.push(&atomic, 0), Ok(Some(&packet[..])));
    assert_eq!(reassembler.waiting(), 1);
}

#[test]
fn fragments_that_cannot_be_are_dropped() {
    let (_, pieces) = cut(Version::V4, 1400, 1);
    let mut odd = pieces[0].clone();
    odd.pop();
    let len = odd.len() as u16;
    put(&mut odd, 2, len);
    let mut empty = pieces[1][..20].to_vec();
    put(&mut empty, 2, 20);
    let mut wrong = pieces[0].clone();
    wrong[8] ^= 1;
    // The first of IPv6 without the transport's header.
    let (_, six) = cut(Version::V6, 1300, 1);
    let mut first = six[0][..48].to_vec();
    first[5] = 8;
    first[4] = 0;
    let cases = [
        (odd, PacketError::Malformed),
        (empty, PacketError::Malformed),
        (wrong, PacketError::Checksum),
        (first, PacketError::Malformed),
        (pieces[0][..30].to_vec(), PacketError::Malformed),
    ];
    let mut reassembler = Reassembler::new(LIMITS, SEEDS);
    for (packet, error) in cases {
        assert_eq!(reassembler.push(&packet, 0), Err(Dropped::Packet(error)));
        assert_eq!(reassembler.waiting(), 0);
    }
}

/// Another implementation's reassembly of the same fragments (it knows neither duplicates nor limits).
#[test]
fn another_implementation_puts_the_same_together() {
    let mut pool = etherparse::defrag::IpDefragPool::<(), ()>::new();
    let mut reassembler = Reassembler::new(ReassemblyLimits::default(), SEEDS);
    for sample in samples(Transport::Udp) {
        let packet = sample.packet(&bytes(7000, 1));
        let mut pieces = fragments(&packet, 600, 9);
        pieces.rotate_left(3);
        for piece in &pieces {
            let sliced = etherparse::SlicedPacket::from_ip(piece).expect("sound");
            let theirs = pool
                .process_sliced_packet(&sliced, (), ())
                .expect("no error");
            let ours = reassembler.push(piece, 0).expect("sound");
            assert_eq!(theirs.is_some(), ours.is_some());
            if let (Some(theirs), Some(ours)) = (theirs, ours) {
                let ours = Packet::parse(ours).expect("sound");
                let behind = &ours.bytes()[ours.per_fragment_bytes()..];
                assert!(theirs.payload == behind);
            }
        }
    }
}

/// A burst of fragments: of several datagrams, shuffled, some doubled, changed, left out.
fn bursts() -> impl Strategy<Value = Vec<u8>> {
    let datagram = (0usize..4, 0usize..3000, 68u16..700, 0u16..3);
    let datagrams = prop::collection::vec(datagram, 1..6);
    (datagrams, any::<u64>(), 0usize..4).prop_map(|(datagrams, seed, harm)| {
        let mut random = dpb_core::random::SplitMix64::new(seed);
        let mut packets = Vec::new();
        for (kind, len, mtu, id) in datagrams {
            let sample = Sample {
                id,
                ..samples(Transport::Udp)[kind].clone()
            };
            let mtu = if kind % 2 == 0 { mtu } else { mtu + 60 };
            packets.extend(fragments(&sample.packet(&bytes(len, seed)), mtu, id.into()));
        }
        for _ in 0..harm {
            let at = random.below(packets.len());
            match random.below(4) {
                0 => packets.push(packets[at].clone()),
                1 => drop(packets.remove(at)),
                _ => {
                    let byte = random.below(packets[at].len().min(60));
                    packets[at][byte] ^= 1 << random.below(8);
                }
            }
            if packets.is_empty() {
                break;
            }
        }
        for i in (1..packets.len()).rev() {
            // Mostly near to where it was, as on a wire.
            let near = i.saturating_sub(if seed % 2 == 0 { 3 } else { i });
            packets.swap(i, near + random.below(i - near + 1));
        }
        for packet in &mut packets {
            if packet[0] >> 4 == 4 && packet.len() >= 60 && random.below(20) != 0 {
                let word = u16_at(packet, 0);
                if packet[0] & 15 >= 5 {
                    put(packet, 0, word);
                }
            }
        }
        packets.concat()
    })
}

/// A queue of `cpu/best` that keeps fragments.
struct Kept(Stage);

impl Kept {
    fn new(parameters: &str) -> Self {
        let spec = spec::Reassembly::from_text(&format!("keep=queue,{parameters}"));
        let operator = Cpu::best().prepare(&spec.expect("parameters").into());
        let alloc = |len| Ok(Buf::zeroed(len).expect("memory"));
        Self(Stage::new(operator.expect("portable"), 1, 300_000, alloc).expect("opens"))
    }

    /// The output for a burst that came at `now_ns`.
    fn take(&mut self, now_ns: u64, burst: &[u8]) -> Result<Vec<u8>, JobError> {
        let item = [&now_ns.to_le_bytes(), burst].concat();
        let mut src = Buf::zeroed(item.len()).expect("memory");
        src.copy_from_slice(&item);
        let len = item.len() as u32;
        let outputs = self.0.run(
            &src.freeze(),
            &[Span {
                buf: 0,
                start: 0,
                len,
            }],
        );
        outputs.expect("carried out").get(0).map(<[u8]>::to_vec)
    }
}

#[test]
fn what_is_kept_in_a_queue_goes_when_its_time_is_over() {
    let (packet, [one, two, three]) = three(7);
    const SECOND: u64 = 1_000_000_000;
    for (times, is_whole) in [
        ([0, 1, 2], true),
        ([5 * SECOND, 6 * SECOND, 15 * SECOND - 1], true),
        ([5 * SECOND, 6 * SECOND, 15 * SECOND], false),
        // Time does not go back.
        ([5 * SECOND, 20 * SECOND, 6 * SECOND], false),
        ([5 * SECOND, 4 * SECOND, 3 * SECOND], true),
    ] {
        let mut kept = Kept::new("timeout-ms=10000");
        assert_eq!(kept.take(times[0], &two), Ok(Vec::new()));
        assert_eq!(kept.take(times[1], &one), Ok(Vec::new()));
        let right = if is_whole { &packet[..] } else { &[] };
        assert_eq!(
            kept.take(times[2], &three).as_deref(),
            Ok(right),
            "{times:?}"
        );
    }
}

#[test]
fn an_item_may_complete_all_datagrams_that_wait() {
    let cuts = [1, 2, 3].map(|id| cut(Version::V4, 50_000, id));
    let mut kept = Kept::new("datagrams=8");
    let (mut early, mut late) = (Vec::new(), Vec::new());
    for (_, pieces) in &cuts {
        let (last, others) = pieces.split_last().expect("pieces");
        early.extend(others.concat());
        late.extend_from_slice(last);
    }
    assert_eq!(kept.take(0, &early), Ok(Vec::new()));
    let wholes = cuts.map(|(packet, _)| packet).concat();
    let room = kept.0.operator().dst_len(8 + late.len());
    assert!(wholes.len() <= room, "{} bytes, {room}", wholes.len());
    assert_eq!(kept.take(1, &late), Ok(wholes));
}

#[test]
fn a_burst_that_is_refused_leaves_nothing_in_its_queue() {
    let (packet, [one, two, three]) = three(7);
    let mut kept = Kept::new("datagrams=1");
    assert_eq!(kept.take(0, &[&one[..], &two].concat()), Ok(Vec::new()));
    let broken = [&three[..], &[0x45; 10]].concat();
    assert_eq!(kept.take(1, &broken), Err(JobError::Malformed));
    let no_time = kept.0.run(
        &Buf::zeroed(7).expect("memory").freeze(),
        &[Span::default()],
    );
    assert_eq!(
        no_time.expect("carried out").get(0),
        Err(JobError::Malformed)
    );
    assert_eq!(kept.take(2, &three), Ok(packet));
}

#[test]
fn a_pool_has_no_order_to_keep_fragments_in() {
    let pool = Cpu::pool(std::num::NonZeroU32::MIN);
    let [kept, not] = ["queue", "item"].map(|keep| {
        let spec = spec::Reassembly::from_text(&format!("keep={keep}"));
        OpSpec::from(spec.expect("parameters"))
    });
    assert!(pool.limits(&not).is_ok());
    let why = pool.limits(&kept).expect_err("no order").reason;
    assert!(why.contains("order"), "{why}");
    assert!(pool.prepare(&kept).is_err());
}

proptest! {
    /// However a burst is cut into items, what comes of it is the same.
    #[test]
    fn kept_in_a_queue_a_burst_may_come_in_parts(burst in bursts(), datagrams_max in 1u32..4, seed in any::<u64>()) {
        let limits = ReassemblyLimits { datagrams_max, ..ReassemblyLimits::default() };
        let Ok(right) = oracle::reassemble(&burst, limits) else { return Ok(()) };
        let mut random = dpb_core::random::SplitMix64::new(seed);
        let mut kept = Kept::new(&format!("datagrams={datagrams_max}"));
        let (mut given, mut part) = (Vec::new(), Vec::new());
        for (i, packet) in Burst::new(&burst).enumerate() {
            part.extend(packet.expect("the oracle took it"));
            if random.below(3) == 0 {
                given.extend(kept.take(i as u64, &part).expect("sound"));
                part.clear();
            }
        }
        given.extend(kept.take(1_000_000, &part).expect("sound"));
        prop_assert_eq!(given, right);
    }

    #[test]
    fn a_burst_is_as_the_oracle_says(burst in bursts(), datagrams_max in 1u32..4, fragments_max in prop_oneof![1u32..20, Just(8192u32)]) {
        let limits = ReassemblyLimits { datagrams_max, fragments_max, timeout_ns: 1 };
        let right = oracle::reassemble(&burst, limits).map_err(PacketError::refusal);
        let mut reassembler = Reassembler::new(limits, SEEDS);
        let mut slot = vec![0; burst.len()];
        let len = burst::run(&mut reassembler, &burst, &mut slot);
        prop_assert_eq!(len.map(|len| &slot[..len as usize]), right.as_deref().map_err(|error| *error));

        // In a slot that just fits, a datagram that becomes whole late has no room to be put together in before.
        let Ok(right) = right else { return Ok(()) };
        slot.truncate(right.len());
        slot.fill(0);
        reassembler.clear();
        let len = burst::run(&mut reassembler, &burst, &mut slot);
        prop_assert_eq!(len, Ok(right.len() as u32));
        prop_assert_eq!(&slot, &right);
        slot.pop();
        reassembler.clear();
        let len = burst::run(&mut reassembler, &burst, &mut slot);
        prop_assert_eq!(len.is_err(), !right.is_empty());
    }
}
