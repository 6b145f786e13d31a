//! Acknowledgements and windows beside a model that keeps every octet.

use std::collections::BTreeMap;

use dpb_core::random::SplitMix64;

use super::*;
use crate::tcp::config::{MILLISECOND_PS, Reading, SECOND_PS};

fn config() -> Config {
    Config {
        quick_acks: 0,
        ..Config::default()
    }
}

fn receiver(config: Config) -> Receiver {
    let mut receiver = Receiver::new(config);
    let syn = Segment {
        flags: Flags::SYN,
        ..Segment::default()
    };
    receiver.synchronise(0, &syn);
    acknowledgement(&mut receiver, 0);
    receiver
}

fn data(sequence: u64, payload_len: u32) -> Segment {
    Segment {
        sequence,
        payload_len,
        flags: Flags::ACK,
        ..Segment::default()
    }
}

fn acknowledgement(receiver: &mut Receiver, now: u64) -> Segment {
    let mut segment = Segment::default();
    receiver.acknowledge(now, &mut segment, true, false);
    segment
}

#[test]
fn acknowledges_every_second_segment_or_after_the_delay() {
    let mut receiver = receiver(config());
    receiver.receive(0, &data(1, 1460));
    assert!(!receiver.is_acknowledgement_due());
    assert_eq!(receiver.deadline(), Some(40 * MILLISECOND_PS));
    receiver.receive(5, &data(1461, 1460));
    assert!(receiver.is_acknowledgement_due());
    assert_eq!(acknowledgement(&mut receiver, 5).acknowledgement, 2921);
    receiver.receive(10, &data(2921, 1460));
    receiver.expire(10 + 40 * MILLISECOND_PS - 1);
    assert!(!receiver.is_acknowledgement_due());
    receiver.expire(10 + 40 * MILLISECOND_PS);
    assert!(receiver.is_acknowledgement_due());
}

#[test]
fn acknowledges_the_first_segments_at_once_until_answers_carry_it() {
    let mut receiver = receiver(Config::default());
    for segment in 0..10 {
        receiver.receive(0, &data(1 + segment, 1));
        assert!(receiver.is_acknowledgement_due());
        acknowledgement(&mut receiver, 0);
    }
    receiver.receive(0, &data(11, 1));
    receiver.acknowledge(0, &mut Segment::default(), true, true);
    receiver.receive(0, &data(12, 1));
    assert!(!receiver.is_acknowledgement_due());
}

#[test]
fn a_gap_and_its_filling_are_acknowledged_at_once() {
    let mut receiver = receiver(config());
    receiver.receive(0, &data(101, 100));
    assert!(receiver.is_acknowledgement_due_alone());
    let ack = acknowledgement(&mut receiver, 0);
    assert_eq!(ack.acknowledgement, 1);
    assert_eq!(ack.sack_blocks().collect::<Vec<_>>(), [(101, 201)]);
    receiver.receive(0, &data(1, 100));
    assert!(receiver.is_acknowledgement_due());
    let ack = acknowledgement(&mut receiver, 0);
    assert_eq!((ack.acknowledgement, ack.sack_blocks().count()), (201, 0));
}

#[test]
fn rfc_2018_section_4_case_3() {
    // Segments of 500 bytes from 5000 on; the second, fourth, sixth and eighth are lost. Positions are the RFC's numbers less 4999.
    let position = |number: u64| number - 4999;
    let mut receiver = receiver(config());
    let mut blocks = Vec::new();
    for number in [5000, 6000, 7000, 8000] {
        receiver.receive(0, &data(position(number), 500));
        let ack = acknowledgement(&mut receiver, 0);
        assert_eq!(ack.acknowledgement, position(5500));
        blocks = ack
            .sack_blocks()
            .map(|(a, b)| (a + 4999, b + 4999))
            .collect();
    }
    assert_eq!(blocks, [(8000, 8500), (7000, 7500), (6000, 6500)]);
    // The fourth packet, 6500, arrives.
    receiver.receive(0, &data(position(6500), 500));
    let ack = acknowledgement(&mut receiver, 0);
    blocks = ack
        .sack_blocks()
        .map(|(a, b)| (a + 4999, b + 4999))
        .collect();
    assert_eq!(blocks, [(6000, 7500), (8000, 8500)]);
    // The second, 5500, arrives.
    receiver.receive(0, &data(position(5500), 500));
    let ack = acknowledgement(&mut receiver, 0);
    assert_eq!(ack.acknowledgement, position(7500));
    blocks = ack
        .sack_blocks()
        .map(|(a, b)| (a + 4999, b + 4999))
        .collect();
    assert_eq!(blocks, [(8000, 8500)]);
}

/// Every octet, and when the latest segment that holds it arrived.
#[derive(Default)]
struct Octets(BTreeMap<u64, u64>);

impl Octets {
    fn next(&self) -> u64 {
        (1..).find(|octet| !self.0.contains_key(octet)).unwrap()
    }

    /// The blocks above `next`, the one that was added to last first.
    fn blocks(&self) -> Vec<(u64, u64)> {
        let next = self.next();
        let mut blocks: Vec<(u64, u64, u64)> = Vec::new();
        for (&octet, &time) in self.0.range(next..) {
            match blocks.last_mut() {
                Some((_, end, latest)) if *end == octet => {
                    *end += 1;
                    *latest = time.max(*latest);
                }
                _ => blocks.push((octet, octet + 1, time)),
            }
        }
        blocks.sort_by_key(|&(_, _, time)| std::cmp::Reverse(time));
        blocks
            .into_iter()
            .map(|(start, end, _)| (start, end))
            .collect()
    }
}

#[test]
fn blocks_are_those_of_a_model_that_keeps_every_octet() {
    for seed in 0..4000 {
        let mut random = SplitMix64::new(seed);
        let mut receiver = receiver(config());
        let mut octets = Octets::default();
        for time in 1..60 {
            let next = octets.next();
            let start = (next + random.below(70) as u64).saturating_sub(10).max(1);
            let len = 1 + random.below(8) as u64;
            receiver.receive(time, &data(start, len as u32));
            for octet in start..start + len {
                octets.0.insert(octet, time);
            }
            assert_eq!(receiver.delivered_bytes(), octets.next() - 1, "seed {seed}");
            let ack = acknowledgement(&mut receiver, time);
            assert_eq!(ack.acknowledgement, octets.next());
            let blocks: Vec<_> = ack.sack_blocks().collect();
            let expected = octets.blocks();
            // More blocks than the receiver remembers the order of: then only the first, and that each is one, is promised.
            let known = if expected.len() <= RECENT { 3 } else { 1 };
            let shown = expected.len().min(3);
            assert_eq!(blocks.len(), shown, "seed {seed}");
            assert_eq!(
                blocks[..known.min(shown)],
                expected[..known.min(shown)],
                "seed {seed}"
            );
            assert!(blocks.iter().all(|block| expected.contains(block)));
        }
    }
}

#[test]
fn the_window_closes_and_opens_as_the_application_reads() {
    let mut receiver = receiver(Config {
        receive_buffer_bytes: 4000,
        mss: 1000,
        reading: Reading::OnCall,
        ..config()
    });
    for segment in 0..4 {
        receiver.receive(0, &data(1 + 1000 * segment, 1000));
    }
    let ack = acknowledgement(&mut receiver, 0);
    assert_eq!((ack.acknowledgement, ack.window), (4001, 0));
    receiver.receive(0, &data(4001, 1000));
    assert_eq!(receiver.statistics().beyond_window_bytes, 1000);
    assert_eq!(acknowledgement(&mut receiver, 0).window, 0);
    // Less than a segment is not worth telling (RFC 9293, section 3.8.6.2.2).
    assert_eq!(receiver.read(1, 999), 999);
    assert!(!receiver.is_acknowledgement_due());
    assert_eq!(receiver.read(2, 1), 1);
    assert!(receiver.is_acknowledgement_due());
    assert_eq!(acknowledgement(&mut receiver, 2).window, 1000);
}

#[test]
fn a_rate_of_reading_opens_the_window_on_time() {
    let mut receiver = receiver(Config {
        receive_buffer_bytes: 4000,
        mss: 1000,
        reading: Reading::Rate {
            bytes_per_second: 3000,
        },
        ..config()
    });
    for segment in 0..4 {
        receiver.receive(0, &data(1 + 1000 * segment, 1000));
    }
    acknowledgement(&mut receiver, 0);
    // A segment of room after a third of a second.
    let at = receiver.deadline().unwrap();
    assert_eq!(at, SECOND_PS.div_ceil(3));
    receiver.expire(at - 1);
    assert!(!receiver.is_acknowledgement_due());
    receiver.expire(at);
    assert!(receiver.is_acknowledgement_due());
    assert_eq!(acknowledgement(&mut receiver, at).window, 1000);
    assert_eq!(receiver.unread_bytes(), 3000);
}

#[test]
fn the_window_never_goes_back() {
    for seed in 0..500 {
        let mut random = SplitMix64::new(seed);
        let mut receiver = receiver(Config {
            receive_buffer_bytes: 5000,
            mss: 700,
            reading: Reading::OnCall,
            ..config()
        });
        let mut end = 0;
        for time in 0..200 {
            let next = receiver.delivered_bytes() + 1;
            let start = next + [0, 0, 0, 500][random.below(4)];
            receiver.receive(time, &data(start, 1 + random.below(700) as u32));
            receiver.read(time, random.below(600) as u64);
            let ack = acknowledgement(&mut receiver, time);
            let now = ack.acknowledgement + u64::from(ack.window);
            assert!(now >= end, "seed {seed}");
            assert!(receiver.unread_bytes() <= 5000);
            end = now;
        }
    }
}

#[test]
fn echoes_the_timestamp_that_rfc_7323_section_4_3_wants() {
    let stamped = |sequence, payload, value| {
        let mut segment = data(sequence, payload);
        segment.set_timestamps(Timestamps { value, echo: 0 });
        segment
    };
    let echo = |receiver: &mut Receiver| {
        let mut segment = stamped(1, 0, 99);
        receiver.acknowledge(0, &mut segment, false, false);
        segment.timestamps().unwrap().echo
    };
    let mut receiver = receiver(config());
    // Case A: a delayed acknowledgement of three segments echoes the first.
    receiver.receive(0, &stamped(1, 10, 1));
    receiver.receive(0, &stamped(11, 10, 2));
    receiver.receive(0, &stamped(21, 10, 3));
    assert_eq!(echo(&mut receiver), 1);
    // Case B: <B, 5> is lost; what comes behind it echoes the last one in order, and B the one that fills the gap.
    receiver.receive(0, &stamped(31, 10, 4));
    assert_eq!(echo(&mut receiver), 4);
    receiver.receive(0, &stamped(51, 10, 6));
    assert_eq!(echo(&mut receiver), 4);
    receiver.receive(0, &stamped(41, 10, 5));
    assert_eq!(echo(&mut receiver), 5);
}

#[test]
fn the_stream_ends_once_all_of_it_is_there() {
    let mut receiver = receiver(config());
    let mut last = data(11, 10);
    last.flags = last.flags.with(Flags::FIN);
    receiver.receive(0, &last);
    assert!(!receiver.has_finished());
    receiver.receive(0, &data(1, 10));
    assert!(receiver.has_finished());
    assert_eq!(receiver.delivered_bytes(), 20);
    assert_eq!(acknowledgement(&mut receiver, 0).acknowledgement, 22);
}
