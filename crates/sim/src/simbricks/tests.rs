//! The ring, from its two ends, against a queue of the standard library. The rest is tested from outside, in `tests/simbricks`.

use std::collections::VecDeque;
use std::sync::Arc;

use proptest::prelude::*;

use super::intro::{Direction, RingPlace};
use super::message::{Header, PACKET, SYNC};
use super::raw::{Region, Slots};
use super::ring::{Consumer, Producer};

/// A ring of so many entries of 128 bytes, not at the start of its memory, from both ends.
fn ring(entries: u64) -> (Producer, Consumer) {
    let place = RingPlace {
        offset: 72,
        entry_bytes: 128,
        entries,
    };
    let region = Arc::new(Region::create(72 + 128 * entries).unwrap());
    let slots = Slots::new(&region, place, Direction::ToListener).unwrap();
    (Producer::new(slots.clone()), Consumer::new(slots))
}

#[derive(Clone, Debug)]
enum Step {
    Push(Header, Vec<u8>),
    Pop,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let frame = prop::collection::vec(any::<u8>(), 0..=64);
    let push = (any::<bool>(), any::<u64>(), frame).prop_map(|(is_packet, timestamp_ps, frame)| {
        let frame = if is_packet { frame } else { Vec::new() };
        let header = Header {
            message_type: if is_packet { PACKET } else { SYNC },
            timestamp_ps,
            frame_bytes: frame.len() as u16,
        };
        Step::Push(header, frame)
    });
    prop::collection::vec(prop_oneof![push, Just(Step::Pop)], 0..200)
}

proptest! {
    #[test]
    fn a_ring_is_a_bounded_queue(entries in 1_u64..9, steps in steps()) {
        let (mut producer, mut consumer) = ring(entries);
        let mut model = VecDeque::new();
        for step in steps {
            match step {
                Step::Push(header, frame) => {
                    let has_room = model.len() < entries as usize;
                    prop_assert_eq!(producer.push(header, &frame), has_room);
                    if has_room {
                        model.push_back((header, frame));
                    }
                }
                Step::Pop => match model.pop_front() {
                    None => prop_assert_eq!(consumer.peek(), None),
                    Some((header, frame)) => {
                        prop_assert_eq!(consumer.peek(), Some(header));
                        let mut copy = vec![0; frame.len()];
                        consumer.copy_frame(&mut copy);
                        prop_assert_eq!(copy, frame);
                        consumer.pop(header.message_type);
                    }
                },
            }
        }
    }
}

#[test]
fn two_threads_lose_nothing() {
    let (mut producer, mut consumer) = ring(5);
    let count = 50_000_u64;
    let frame = |number: u64| number.to_le_bytes().repeat(1 + number as usize % 8);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for number in 0..count {
                let frame = frame(number);
                let header = Header {
                    message_type: PACKET,
                    timestamp_ps: number * 3,
                    frame_bytes: frame.len() as u16,
                };
                while !producer.push(header, &frame) {
                    std::thread::yield_now();
                }
            }
        });
        for number in 0..count {
            let header = loop {
                match consumer.peek() {
                    Some(header) => break header,
                    None => std::thread::yield_now(),
                }
            };
            let mut copy = vec![0; usize::from(header.frame_bytes)];
            consumer.copy_frame(&mut copy);
            consumer.pop(PACKET);
            assert_eq!((header.timestamp_ps, copy), (number * 3, frame(number)));
        }
    });
}

#[test]
fn slots_outside_of_the_memory_are_refused() {
    let region = Arc::new(Region::create(4096).unwrap());
    let slots = |offset, entry_bytes, entries| {
        let place = RingPlace {
            offset,
            entry_bytes,
            entries,
        };
        Slots::new(&region, place, Direction::ToListener)
    };
    assert!(slots(0, 64, 64).is_ok());
    assert!(slots(8, 64, 64).is_err());
    assert!(slots(0, 64, 65).is_err());
    assert!(slots(u64::MAX - 7, 64, 1).is_err());
    assert!(slots(0, u64::MAX - 7, 2).is_err());
}

#[test]
#[should_panic(expected = "outside of a slot")]
fn a_frame_longer_than_a_slot_is_not_copied() {
    let (_, consumer) = ring(2);
    consumer.copy_frame(&mut [0; 65]);
}
