//! Endpoints against each other: counts, bytes, and arrivals to the picosecond.

use std::thread;

use dpb_sim::simbricks::{Endpoint, LinkParams, RingShape, Sent, SyncMode};
use tempfile::tempdir;

use crate::drive::{Model, Station, Timed, drive, drive_freely, frame, pair, params};

/// The listener's side: a latency, and a SYNC as seldom as it may be.
const LISTENER: (u64, u64) = (500_000, 500_000);
/// The connecter's side: others.
const CONNECTER: (u64, u64) = (700_000, 130_000);
/// The time between two frames: no multiple of anything.
const GAP_PS: u64 = 33_333;

fn sides(sync: SyncMode) -> [LinkParams; 2] {
    [LISTENER, CONNECTER].map(|(latency, interval)| params(sync, latency, interval))
}

/// Frames of those lengths, sent at regular times from `start_ps` on.
fn frames(lengths: impl IntoIterator<Item = usize>, start_ps: u64) -> Vec<Timed> {
    let lengths = lengths.into_iter().enumerate();
    let sent = lengths.map(|(i, len)| (start_ps + i as u64 * GAP_PS, frame(i, len)));
    sent.collect()
}

/// The same frames at their arrival.
fn delayed(sent: &[Timed], latency_ps: u64) -> Vec<Timed> {
    let later = |(at_ps, frame): &Timed| (at_ps + latency_ps, frame.clone());
    sent.iter().map(later).collect()
}

/// Sends `forth` from the listener and `back` from the connecter at the same time; what each received, and the endpoints.
fn exchange(
    shape: RingShape,
    sync: SyncMode,
    [forth, back]: [&[Timed]; 2],
) -> ([Vec<Timed>; 2], [Endpoint; 2]) {
    let folder = tempdir().unwrap();
    let [mut a, mut b] = pair(&folder.path().join("link"), shape, sides(sync));
    let run = |link: &mut Endpoint, to_send: &[Timed], expected: usize| {
        assert_eq!(link.is_synchronised(), sync != SyncMode::Disabled);
        if !link.is_synchronised() {
            return drive_freely(link, to_send, expected).unwrap();
        }
        let mut station = Station::new(to_send, expected);
        drive(std::slice::from_mut(link), &mut station).unwrap();
        station.received
    };
    let received = thread::scope(|scope| {
        let other = scope.spawn(|| run(&mut b, back, forth.len()));
        [run(&mut a, forth, back.len()), other.join().unwrap()]
    });
    (received, [a, b])
}

/// Checks an exchange of frames of those lengths in both directions, with virtual time and without.
fn check(shape: RingShape, lengths: impl IntoIterator<Item = usize> + Clone) {
    for sync in [SyncMode::Required, SyncMode::Disabled] {
        let forth = frames(lengths.clone(), 0);
        let back = frames(lengths.clone(), 12_345);
        let (received, links) = exchange(shape, sync, [&forth, &back]);
        assert!(
            received[0] == delayed(&back, CONNECTER.0),
            "{sync:?}: at the listener"
        );
        assert!(
            received[1] == delayed(&forth, LISTENER.0),
            "{sync:?}: at the connecter"
        );
        for link in &links {
            let counts = link.counts();
            assert_eq!(counts.frames_sent, forth.len() as u64);
            assert_eq!(counts.frames_received, forth.len() as u64);
            assert_eq!(counts.frames_too_long + counts.frames_after_end, 0);
            assert_eq!(counts.syncs_sent > 0, sync == SyncMode::Required);
            assert!(link.is_sealed());
        }
        // Whoever has received everything has ended; the SYNCs that came later are of no account.
        assert!(links[0].counts().syncs_received <= links[1].counts().syncs_sent);
    }
}

#[test]
fn every_length_arrives_whole_and_on_time() {
    check(RingShape::ETHERNET, 60..=1536);
}

#[test]
fn a_full_frame_with_a_digest_needs_longer_entries() {
    let entries = 256;
    let shape = RingShape {
        entries,
        ..RingShape::LONG_FRAMES
    };
    check(shape, [1578; 600].into_iter().chain([9024, 60, 1546]));
}

#[test]
fn slots_are_used_again_and_again() {
    let shape = RingShape {
        entries: 48,
        entry_bytes: 320,
    };
    check(shape, (0..48 * 200).map(|i| 1 + i * 37 % 256));
}

#[test]
fn two_slots_are_enough_without_virtual_time() {
    let shape = RingShape {
        entries: 2,
        entry_bytes: 64 + 104,
    };
    let lengths = (0..3000).map(|i| 1 + i % 104);
    let (forth, back) = (frames(lengths.clone(), 5), frames(lengths, 6));
    let (received, _) = exchange(shape, SyncMode::Disabled, [&forth, &back]);
    assert!(received[0] == delayed(&back, CONNECTER.0));
    assert!(received[1] == delayed(&forth, LISTENER.0));
}

#[test]
fn runs_are_the_same() {
    let shape = RingShape {
        entries: 64,
        entry_bytes: 512,
    };
    let (forth, back) = (frames(60..400, 0), frames((60..300).rev(), 9));
    let run = || exchange(shape, SyncMode::Optional, [&forth, &back]).0;
    let first = run();
    assert!((0..3).all(|_| run() == first));
}

/// A switch of two ports: what comes in at one goes out at the other, at the same time.
struct Switch {
    waiting: Vec<(usize, Vec<u8>)>,
    left: usize,
}

impl Model for Switch {
    fn next_ps(&self) -> u64 {
        u64::MAX
    }

    fn receive(&mut self, now_ps: u64, timestamp_ps: u64, link: usize, frame: &[u8]) {
        assert_eq!(now_ps, timestamp_ps);
        self.waiting.push((1 - link, frame.to_vec()));
    }

    fn send(&mut self, _: u64) -> Option<(usize, Vec<u8>)> {
        let sent = (!self.waiting.is_empty()).then(|| self.waiting.remove(0));
        self.left -= usize::from(sent.is_some());
        sent
    }

    fn has_ended(&self) -> bool {
        self.left == 0
    }
}

#[test]
fn latencies_add_up_through_a_switch() {
    let folder = tempdir().unwrap();
    let sent = frames([64; 100], 0);
    for [near, far] in [
        [500_000, 500_000],
        [100_000, 2_000_000],
        [10_000_000, 50_001],
    ] {
        let shape = RingShape::ETHERNET;
        // Each station's link has one latency in both directions.
        let side = |latency: u64| params(SyncMode::Required, latency, latency.min(50_000));
        let first = pair(&folder.path().join("a"), shape, [side(near); 2]);
        let second = pair(&folder.path().join("b"), shape, [side(far); 2]);
        let ([mut a, port_a], [port_b, mut b]) = (first, second);
        let run = |link: &mut Endpoint| {
            let mut station = Station::new(&sent, sent.len());
            drive(std::slice::from_mut(link), &mut station).unwrap();
            station.received
        };
        let mut switch = Switch {
            waiting: Vec::new(),
            left: 2 * sent.len(),
        };
        let received = thread::scope(|scope| {
            let switch = &mut switch;
            scope.spawn(move || drive(&mut [port_a, port_b], switch).unwrap());
            let other = scope.spawn(|| run(&mut b));
            [run(&mut a), other.join().unwrap()]
        });
        let right = delayed(&sent, near + far);
        assert!(received.iter().all(|received| *received == right));
    }
}

#[test]
fn a_frame_longer_than_a_slot_is_dropped_and_counted() {
    let folder = tempdir().unwrap();
    let sides = sides(SyncMode::Disabled);
    let [mut a, mut b] = pair(&folder.path().join("link"), RingShape::ETHERNET, sides);
    assert_eq!(a.frame_bytes_max(), 1536);
    assert_eq!(a.send(0, &[1; 1537]).unwrap(), Sent::TooLong);
    assert_eq!(a.send(0, &[1; 1578]).unwrap(), Sent::TooLong);
    assert_eq!(a.send(0, &[2; 1536]).unwrap(), Sent::Queued);
    assert_eq!(b.poll(0).unwrap().unwrap().frame, [2; 1536]);
    assert_eq!(b.poll(0).unwrap(), None);
    assert_eq!(a.counts().frames_too_long, 2);
    assert_eq!(a.counts().frames_sent, 1);
}

#[test]
fn a_frame_longer_than_its_field_is_dropped_in_any_slot() {
    let folder = tempdir().unwrap();
    let shape = RingShape {
        entries: 1,
        entry_bytes: 1 << 17,
    };
    let [mut a, mut b] = pair(
        &folder.path().join("link"),
        shape,
        sides(SyncMode::Disabled),
    );
    assert_eq!(a.frame_bytes_max(), 65_535);
    assert_eq!(a.send(0, &vec![1; 65_536]).unwrap(), Sent::TooLong);
    assert_eq!(a.send(0, &vec![1; 65_535]).unwrap(), Sent::Queued);
    assert_eq!(b.poll(0).unwrap().unwrap().frame.len(), 65_535);
}

#[test]
fn a_full_ring_takes_nothing_until_a_slot_is_free() {
    let folder = tempdir().unwrap();
    let shape = RingShape {
        entries: 4,
        entry_bytes: 128,
    };
    let [mut a, mut b] = pair(
        &folder.path().join("link"),
        shape,
        sides(SyncMode::Disabled),
    );
    let mut next = 0_u8;
    for round in 0..50 {
        let room = if round == 0 { 4 } else { 1 };
        for _ in 0..room {
            assert_eq!(a.send(0, &[next; 3]).unwrap(), Sent::Queued);
            next += 1;
        }
        assert_eq!(a.send(0, &[0xff]).unwrap(), Sent::Full);
        assert_eq!(b.poll(0).unwrap().unwrap().frame, [next - 4; 3]);
    }
    assert_eq!(a.counts().frames_sent, 53);
}

#[test]
fn terminate_ends_waiting_and_sending() {
    let folder = tempdir().unwrap();
    let [mut a, mut b] = pair(
        &folder.path().join("link"),
        RingShape::ETHERNET,
        sides(SyncMode::Required),
    );
    assert_eq!(b.input_timestamp_ps(), 0);
    assert_eq!(a.next_sync_ps(), 0);
    assert!(a.out_sync(0).unwrap());
    assert_eq!(a.next_sync_ps(), 500_000);
    assert_eq!(a.send(200_000, &[7; 60]).unwrap(), Sent::Queued);
    assert_eq!(a.next_sync_ps(), 700_000);
    assert_eq!(a.terminate().unwrap(), Sent::Queued);
    assert_eq!(a.terminate().unwrap(), Sent::Queued);
    assert!(a.send(300_000, &[8; 60]).is_err());
    assert_eq!(a.next_sync_ps(), u64::MAX);
    assert!(a.out_sync(300_000).unwrap());
    drop(a);
    // The frame is not due before its time, and the end not before the frame.
    assert_eq!(b.poll(699_999).unwrap(), None);
    assert_eq!(b.input_timestamp_ps(), 700_000);
    assert!(!b.peer_has_terminated());
    assert_eq!(b.poll(700_000).unwrap().unwrap().timestamp_ps, 700_000);
    assert_eq!(b.poll(700_000).unwrap(), None);
    assert!(b.peer_has_terminated());
    assert_eq!(b.input_timestamp_ps(), u64::MAX);
    assert_eq!(b.next_sync_ps(), u64::MAX);
    assert_eq!(b.send(700_000, &[9; 60]).unwrap(), Sent::Ended);
    assert_eq!(b.terminate().unwrap(), Sent::Ended);
    assert_eq!(b.counts().frames_after_end, 1);
    for _ in 0..5000 {
        assert_eq!(b.poll(800_000).unwrap(), None);
    }
}

#[test]
fn a_sender_cannot_go_back_or_beyond_the_end_of_time() {
    let folder = tempdir().unwrap();
    let [mut a, mut b] = pair(
        &folder.path().join("link"),
        RingShape::ETHERNET,
        sides(SyncMode::Required),
    );
    assert_eq!(a.send(1000, &[1; 60]).unwrap(), Sent::Queued);
    assert!(a.send(999, &[1; 60]).is_err());
    assert_eq!(a.send(1000, &[1; 60]).unwrap(), Sent::Queued);
    assert!(a.send(u64::MAX, &[1; 60]).is_err());
    let last = u64::MAX - 500_000;
    assert_eq!(a.send(last, &[1; 60]).unwrap(), Sent::Queued);
    assert_eq!(b.poll(501_000).unwrap().unwrap().timestamp_ps, 501_000);
    assert_eq!(b.poll(501_000).unwrap().unwrap().timestamp_ps, 501_000);
    assert_eq!(b.poll(501_000).unwrap(), None);
    assert_eq!(b.input_timestamp_ps(), u64::MAX);
}
