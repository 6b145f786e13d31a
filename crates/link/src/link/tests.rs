//! A link carries what it should, no faster than its pace, and gives up whom it must.

use std::cell::Cell;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use dpb_core::{Clock, VirtualClock, WallClock};

use super::pacer::{BURST, LATE_MAX, PACED_BYTES};
use super::*;

/// Tags of a service that the tests have.
const BATCH: u8 = 146;
const END: u8 = 148;
const TAGS: Tags = Tags {
    body_bytes_max: |tag| match tag {
        BATCH => Some(64 << 20),
        END => Some(64 << 10),
        _ => None,
    },
    is_bulk: |_| false,
};

fn link(tcp: TcpStream, bits_per_s: u64, clock: Arc<dyn Timer>) -> Link {
    let mut link = Link::new(Stream::Plain(tcp), bits_per_s, clock).unwrap();
    link.set_tags(TAGS);
    link
}

fn wall() -> Arc<WallClock> {
    Arc::default()
}

fn pair(bits_per_s: u64) -> (Link, Link) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (far, _) = listener.accept().unwrap();
    (link(near, bits_per_s, wall()), link(far, 0, wall()))
}

#[test]
fn a_paced_link_never_beats_its_pace_and_counts_both_sides() {
    let bits_per_s = 400_000_000;
    let (mut near, mut far) = pair(bits_per_s);
    let body = vec![7u8; 3 << 20];
    let started = Instant::now();
    let receiver = std::thread::spawn(move || {
        let header = far.receive_header().unwrap().unwrap();
        assert_eq!(header.tag, BATCH);
        let body = far.receive_body(header).unwrap();
        (body, far.bytes())
    });
    let slices = [&body[..100], &body[100..1 << 20], &body[1 << 20..]];
    let ended = near
        .send_frame(BATCH, &slices, body.len(), &|| false)
        .unwrap();
    assert_eq!(near.settle(&|| false), None);
    let least = Duration::from_secs_f64((body.len() + 8) as f64 * 8.0 / bits_per_s as f64);
    assert!(started.elapsed() + BURST >= least);
    assert_eq!(ended, None);
    let (received, (_, bytes)) = receiver.join().unwrap();
    assert_eq!(received, body);
    assert_eq!(bytes, near.bytes().0);
    assert_eq!(bytes, body.len() as u64 + 8);
}

/// What a link carried when: a sender that is paced in a time of its own, whose sleeps are late by `late_us` in turn.
fn carried(bits_per_s: u64, late_us: &[u64], sends: usize) -> Vec<(Duration, f64)> {
    let clock = VirtualClock::new(false);
    let mut pacer = Pacer::new(bits_per_s, clock.now_ns());
    let mut late_us = late_us.iter().cycle();
    let mut bits = 0.0;
    (0..sends)
        .map(|_| {
            // The write itself.
            clock.sleep(Duration::from_micros(20));
            pacer.sent(PACED_BYTES, clock.now_ns());
            let ahead = pacer.ahead(clock.now_ns());
            if ahead > BURST {
                let late = late_us.next().copied().map(Duration::from_micros);
                clock.sleep(ahead + late.unwrap_or_default());
                pacer.woke(clock.now_ns());
            }
            bits += PACED_BYTES as f64 * 8.0;
            (Duration::from_nanos(clock.now_ns()), bits)
        })
        .collect()
}

#[test]
fn sleeps_that_are_late_do_not_slow_the_link() {
    for bits_per_s in [1e9, 10e9, 25e9] {
        for late_us in [&[0][..], &[60], &[300, 50, 1900], &[2000]] {
            let trace = carried(bits_per_s as u64, late_us, 20_000);
            let &(ended, bits) = trace.last().unwrap();
            // It may end ahead of its pace by a burst, and with a late sleep that was not made up for yet.
            let exact = bits / bits_per_s;
            let off = ended.as_secs_f64() - exact;
            assert!(
                (-0.0003..0.0025).contains(&off),
                "{bits_per_s} {late_us:?}: {off}"
            );
        }
    }
    // What is later than that is lost.
    let trace = carried(1_000_000_000, &[5000], 1000);
    let &(ended, bits) = trace.last().unwrap();
    assert!(ended.as_secs_f64() > 1.5 * bits / 1e9);
}

/// Over any span of 50 ms and more, a link carries no more than it may.
fn assert_paced(trace: &[(Duration, f64)], bits_per_s: f64) {
    let mut last = 0;
    for (first, &(from, before)) in trace.iter().enumerate() {
        let is_long = |at: &usize| trace[*at].0 - from >= Duration::from_millis(50);
        let Some(until) = (last.max(first)..trace.len()).find(is_long) else {
            return;
        };
        last = until;
        let span = trace[until].0 - from + 2 * BURST + LATE_MAX;
        let bits = trace[until].1 - before;
        assert!(
            bits <= span.as_secs_f64() * bits_per_s + 1.0,
            "{from:?}: {bits} bits"
        );
    }
    panic!("shorter than 50 ms");
}

#[test]
fn no_span_of_a_late_sender_carries_more_than_the_link_may() {
    for late_us in [&[0][..], &[150, 40_000, 10], &[3000, 700], &[1_000_000, 1]] {
        assert_paced(&carried(1_000_000_000, late_us, 2000), 1e9);
    }
}

/// On a virtual clock a pace costs no time, and is kept to the nanosecond.
#[test]
fn a_pace_is_kept_by_the_clock_that_is_given() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let mut far = listener.accept().unwrap().0;
    let clock = Arc::new(VirtualClock::new(false));
    // A megabyte with its header takes eight seconds and some microseconds.
    let mut near = link(near, 1_000_000, clock.clone());
    let receiver = std::thread::spawn(move || {
        let mut received = vec![0; 1_000_008];
        far.read_exact(&mut received).unwrap();
        // It stays until the pace is kept: a peer that has gone ends the wait.
        far
    });
    let body = vec![1u8; 1_000_000];
    let ended = near.send_frame(BATCH, &[&body], body.len(), &|| false);
    assert_eq!(ended.unwrap(), None);
    assert_eq!(near.settle(&|| false), None);
    assert_eq!(clock.now_ns(), 8_000_064_000);
    receiver.join().unwrap();
}

#[test]
fn no_span_of_a_real_connection_carries_more_than_the_link_may() {
    let bits_per_s = 1_000_000_000;
    let (mut near, mut far) = pair(bits_per_s);
    let sends = 150;
    let receiver = std::thread::spawn(move || {
        for _ in 0..sends {
            let header = far.receive_header().unwrap().unwrap();
            far.receive_body(header).unwrap();
        }
    });
    let body = vec![1u8; 100_000];
    let started = Instant::now();
    let trace: Vec<(Duration, f64)> = (0..sends)
        .map(|at| {
            // Nothing to send for a while: no credit for that.
            if at % 40 == 39 {
                std::thread::sleep(Duration::from_millis(5));
            }
            near.send_frame(BATCH, &[&body], body.len(), &|| false)
                .unwrap();
            (started.elapsed(), near.bytes().0 as f64 * 8.0)
        })
        .collect();
    receiver.join().unwrap();
    assert_paced(&trace, bits_per_s as f64);
}

#[test]
fn a_file_arrives_byte_for_byte() {
    let mut file = tempfile::tempfile().unwrap();
    let bytes: Vec<u8> = (0..700_000u32).flat_map(|i| i.to_le_bytes()).collect();
    file.write_all(&bytes).unwrap();
    for bits_per_s in [0, 2_000_000_000] {
        let (mut near, mut far) = pair(bits_per_s);
        let len = bytes.len() - 1000;
        let receiver = std::thread::spawn(move || {
            let header = far.receive_header().unwrap().unwrap();
            far.receive_body(header).unwrap()
        });
        near.send_file_frame(BATCH, &file, 1000, len, &|| false)
            .unwrap();
        assert!(receiver.join().unwrap() == bytes[1000..]);
    }
}

#[test]
fn a_slow_pace_does_not_hold_back_a_stop_or_hide_a_peer_that_left() {
    // Each frame would take 80,000 seconds.
    let (mut near, far) = pair(1);
    let stopped = near.send_frame(BATCH, &[&[0; 10_000]], 10_000, &|| true);
    assert_eq!(stopped.unwrap(), Some(Interrupted::Stopped));
    assert_eq!(near.settle(&|| true), Some(Interrupted::Stopped));
    drop(far);
    assert_eq!(near.settle(&|| false), Some(Interrupted::Stopped));
}

#[test]
fn a_body_beyond_its_bound_is_an_error_and_nothing_of_it_is_sent() {
    let (mut near, _far) = pair(0);
    let body = vec![0; (64 << 10) + 1];
    assert!(matches!(
        near.send(END, &body),
        Err(LinkError::TooLong { tag: END, .. })
    ));
    assert_eq!(near.bytes().0, 0);
}

#[test]
fn a_peer_that_may_pause_is_waited_for_unless_others_wait() {
    let (mut near, mut far) = pair(0);
    let patience = Duration::from_millis(50);
    near.set_patience(patience);
    near.set_may_pause(true).unwrap();
    let body: Vec<u8> = (0..32 << 20).map(|at: u32| (at >> 10) as u8).collect();
    let is_reading = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            while !is_reading.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            let header = far.receive_header().unwrap().unwrap();
            far.receive_body(header).unwrap()
        });
        // It begins to read once the sender has asked ten times whether to stop, and has had no patience left for long.
        let waits = Cell::new(0);
        let started = Instant::now();
        let stop = || {
            waits.set(waits.get() + 1);
            if waits.get() >= 10 && started.elapsed() > 4 * patience {
                is_reading.store(true, Ordering::Relaxed);
            }
            false
        };
        let ended = near.send_frame(BATCH, &[&body], body.len(), &stop).unwrap();
        assert_eq!(ended, None);
        assert!(waits.get() >= 10);
        assert_eq!(reader.join().unwrap(), body);
    });
    // Now somebody waits for what this connection holds.
    let pressure = Arc::new(AtomicUsize::new(1));
    near.set_pressure(Arc::clone(&pressure));
    let ended = near.send_frame(BATCH, &[&body], body.len(), &|| false);
    assert_eq!(ended.unwrap(), Some(Interrupted::Stalled));
}

#[test]
fn a_peer_that_reads_nothing_is_given_up_or_stopped() {
    let (mut near, far) = pair(0);
    near.set_patience(Duration::from_millis(100));
    let body = vec![0u8; 48 << 20];
    let ended = near
        .send_frame(BATCH, &[&body], body.len(), &|| false)
        .unwrap();
    assert_eq!(ended, Some(Interrupted::Stalled));
    let ended = near
        .send_frame(BATCH, &[&body], body.len(), &|| true)
        .unwrap();
    assert_eq!(ended, Some(Interrupted::Stopped));
    assert!(!near.peer_stirs());
    drop(far);
    assert!(near.peer_stirs());
    let gone = near.send_frame(BATCH, &[&body], body.len(), &|| false);
    assert!(gone.is_err());
}
