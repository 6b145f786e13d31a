//! Keys, values and scans as long as they may be, and longer.

use dpb_core::VirtualClock;

use super::*;
use crate::index::{KEY_BYTES_MAX, VALUE_BYTES_MAX};

/// A router between a host and a DPU's side for so many records of so many bytes, of which the keys from `mark` on are the DPU's.
fn split_at(mark: &[u8], records: u64, value_bytes: u32, served: &Served) -> Arc<Router> {
    let clock = Arc::new(WallClock::default());
    split_by(clock, mark, records, value_bytes, served)
}

/// The same with times by a clock.
fn split_by(
    clock: Arc<dyn Timer>,
    mark: &[u8],
    records: u64,
    value_bytes: u32,
    served: &Served,
) -> Arc<Router> {
    let plan = Plan {
        key_bytes: KEY_BYTES_MAX as u32,
        value_bytes,
        ..plan(EngineKind::Tree, records)
    };
    let host = plan.make(Path::new("")).expect("a host's index");
    let options = RouterOptions {
        dpu: Some((Connect::new(served.address.as_str()), plan)),
        marks: vec![mark.into()],
        boundary: 0,
        value_room: value_bytes as usize,
        burst_requests: 64,
        depth: 3,
        connections: 1,
        patience: PATIENCE,
        mirror: false,
        clock,
    };
    Router::new(host, options).expect("an agent")
}

#[test]
fn a_scan_of_more_rows_than_a_burst_has_passes_none_over() {
    let served = Served::start();
    let key = |number: u64| format!("{number:06}").into_bytes();
    let (host, all) = (70_000, 80_000);
    let router = split_at(&key(host), all, 8, &served);
    let mut lane = Lane::new(&router).expect("a session");
    let mut seen = Seen::default();
    for number in 0..all {
        lane.put(number, &key(number), b"v", &mut seen);
    }
    lane.finish(&mut seen);
    // From the host's keys on to the DPU's, all of them and not all; and of the host's alone.
    for (request, (start, rows)) in (0..).zip([(0, 100_000), (3, 75_000), (1, 68_000)]) {
        lane.scan(request, &key(start), rows, &mut seen);
        lane.finish(&mut seen);
        assert_eq!(seen.failed, Vec::<String>::new());
        assert_eq!(seen.scanned.pop(), Some(request));
        let found = seen.rows.remove(&request).expect("rows");
        let expected = (start..all).take(rows as usize).map(key);
        assert!(
            found.into_iter().map(|(key, _)| key).eq(expected),
            "{start}"
        );
    }
}

#[test]
fn bursts_of_long_values_are_short_enough_to_be_sent() {
    const BYTES: usize = 1 << 20;
    let served = Served::start();
    let router = split_at(b"m", 160, BYTES as u32, &served);
    let mut lane = Lane::new(&router).expect("a session");
    let mut seen = Seen::default();
    let keys: Vec<Vec<u8>> = (0..160_u8)
        .map(|number| vec![if number % 2 == 0 { b'a' } else { b'z' }, number])
        .collect();
    for (request, key) in (0..).zip(&keys) {
        lane.put(request, key, &vec![key[1]; BYTES], &mut seen);
    }
    lane.finish(&mut seen);
    assert_eq!(
        (seen.failed.len(), seen.written.len()),
        (0, 160),
        "{:?}",
        seen.failed
    );
    for (request, key) in (0..).zip(&keys) {
        lane.lookup(request, key, &mut seen);
    }
    lane.finish(&mut seen);
    for (request, key) in (0..).zip(&keys) {
        let value = seen.values.remove(&request).flatten().expect("a value");
        assert!(value.len() == BYTES && value.iter().all(|byte| *byte == key[1]));
    }
    lane.scan(0, b"", 160, &mut seen);
    lane.finish(&mut seen);
    let mut expected = keys.clone();
    expected.sort();
    let found = seen.rows.remove(&0).expect("rows").into_iter();
    assert!(found.map(|(key, _)| key).eq(expected));
    assert_eq!(seen.failed, Vec::<String>::new());
}

#[test]
fn a_key_or_value_that_is_too_long_fails_alone() {
    let served = Served::start();
    let router = split_at(b"m", 100, 8, &served);
    let mut lane = Lane::new(&router).expect("a session");
    let mut seen = Seen::default();
    let long = |first: u8, bytes: usize| vec![first; bytes];
    let longest = long(b'z', KEY_BYTES_MAX);
    lane.put(0, b"z", b"1", &mut seen);
    lane.put(1, &longest, b"2", &mut seen);
    for (request, first) in [(2, b'a'), (3, b'z')] {
        lane.lookup(request, &long(first, KEY_BYTES_MAX + 1), &mut seen);
        lane.put(10, &long(first, KEY_BYTES_MAX + 1), b"", &mut seen);
        lane.delete(11, &long(first, 3000), &mut seen);
        lane.put(12, &[first], &vec![0; VALUE_BYTES_MAX + 1], &mut seen);
    }
    lane.put(13, b"", b"", &mut seen);
    lane.finish(&mut seen);
    assert_eq!(seen.failed.len(), 7, "{:?}", seen.failed);
    assert_eq!(
        (seen.values[&2].as_ref(), seen.values[&3].as_ref()),
        (None, None)
    );
    // The DPU's side is there, and has what was written.
    lane.lookup(4, &longest, &mut seen);
    // A start beyond a key that it begins with, and one beyond all keys.
    lane.scan(5, &long(b'z', KEY_BYTES_MAX + 2), 10, &mut seen);
    lane.scan(6, &[&b"z"[..], &long(0, 3000)].concat(), 10, &mut seen);
    lane.finish(&mut seen);
    assert_eq!(seen.failed.len(), 7, "{:?}", seen.failed);
    assert_eq!(seen.values[&4].as_deref(), Some(&b"2"[..]));
    assert_eq!(seen.rows.get(&5), None);
    assert_eq!(seen.rows[&6], [(longest, b"2".to_vec())]);
    assert_eq!(router.failures(), 0);
}

#[test]
fn a_split_of_two_pieces_has_none_to_move() {
    let served = Served::start();
    let router = split_at(b"m", 1000, 8, &served);
    let mut mover = Mover::new(&router).expect("a session");
    let mut lane = Lane::new(&router).expect("a session");
    let mut seen = Seen::default();
    for round in 0..20_u64 {
        for request in 0..1000 {
            let first = if request % 50 == 0 { b'z' } else { b'a' };
            lane.put(
                round * 1000 + request,
                &[first, request as u8],
                b"v",
                &mut seen,
            );
        }
        lane.finish(&mut seen);
        mover.adapt(1, 1, &|| false).expect("both sides are there");
    }
    assert_eq!(router.boundary(), 0);
}

/// The time that a row takes.
const ROW: Duration = Duration::from_millis(20);

/// Takes [`ROW`] for each row.
struct Slow(Arc<VirtualClock>, Seen);

impl Receive for Slow {
    fn looked_up(&mut self, request: u64, value: Option<&[u8]>) {
        self.1.looked_up(request, value);
    }

    fn written(&mut self, request: u64) {
        self.1.written(request);
    }

    fn row(&mut self, request: u64, key: &[u8], value: &[u8]) {
        self.0.sleep(ROW);
        self.1.row(request, key, value);
    }

    fn scanned(&mut self, request: u64) {
        self.1.scanned(request);
    }

    fn failed(&mut self, request: u64, error: &RouterError) {
        self.1.failed(request, error);
    }
}

#[test]
fn rows_cost_the_host_the_same_whichever_side_they_come_from() {
    let served = Served::start();
    let clock = Arc::new(VirtualClock::new(false));
    let key = |number: u64| format!("{number:06}").into_bytes();
    let router = split_by(clock.clone(), &key(100), 200, 8, &served);
    let mut lane = Lane::new(&router).expect("a session");
    let mut slow = Slow(clock, Seen::default());
    for number in 0..200 {
        lane.put(number, &key(number), b"v", &mut slow);
    }
    lane.finish(&mut slow);
    let before = router.work();
    for (request, start) in (0..).zip([0, 100, 30, 120]) {
        lane.scan(request, &key(start), 50, &mut slow);
    }
    lane.finish(&mut slow);
    assert_eq!(slow.1.failed, Vec::<String>::new());
    assert_eq!(slow.1.rows.values().map(Vec::len).sum::<usize>(), 200);
    // Nothing else moves this clock. The way has what its sockets took besides, by their own clock.
    let work = router.work().since(&before);
    assert_eq!((work.host_requests, work.dpu_requests), (2, 2));
    let rows_ns = 100 * ROW.as_nanos() as u64;
    assert_eq!(work.host_ns, rows_ns);
    assert!(work.way_ns >= rows_ns, "{} {rows_ns}", work.way_ns);
}
