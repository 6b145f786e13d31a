//! The ledger against brute force: random histories in which operations overlap, judged by what was noted of each operation.

use std::sync::atomic::{AtomicU64, Ordering};

use dpb_core::random::SplitMix64;

use crate::index::ycsb::{ABSENT, Floor, LOADED, Ledger, Write, WrongRead};

const HISTORIES: u64 = if cfg!(miri) { 30 } else { 4_000 };

/// All that happened to a record. Times are the numbers of events.
#[derive(Default)]
struct History {
    now: u64,
    /// When each version began and ended, from version 1 on.
    writes: Vec<(u64, Option<u64>)>,
}

impl History {
    fn tick(&mut self) -> u64 {
        self.now += 1;
        self.now
    }

    fn begin_write(&mut self, version: u64) {
        let now = self.tick();
        self.writes.push((now, None));
        assert_eq!(
            version,
            self.writes.len() as u64,
            "versions are numbered as they begin"
        );
    }

    fn end_write(&mut self, version: u64) {
        let now = self.tick();
        self.writes[version as usize - 1].1 = Some(now);
    }

    /// Version `version` or, with `prefix`, all up to it had ended at `time`.
    fn had_ended(&self, version: u64, prefix: bool, time: u64) -> bool {
        let first = match (version, prefix) {
            (ABSENT, _) => return true,
            (_, true) => 0,
            (_, false) => version as usize - 1,
        };
        let versions = &self.writes[first..version as usize];
        versions
            .iter()
            .all(|(_, end)| end.is_some_and(|end| end < time))
    }

    /// That `version` is wrong for a read that began at `begin` and ends now. With `prefix`, by the rule that the ledger promises; else by all
    /// that can be known: some write began after the version had ended, and ended before the read began.
    fn is_wrong(&self, version: u64, begin: u64, prefix: bool) -> bool {
        let replaced = |(began, ended): &(u64, Option<u64>)| {
            ended.is_some_and(|ended| ended < begin) && self.had_ended(version, prefix, *began)
        };
        version > self.writes.len() as u64 || self.writes.iter().any(replaced)
    }
}

/// How a history is made.
struct Shape {
    writers: usize,
    readers: usize,
    events: usize,
    loaded: bool,
}

/// What was seen in histories.
#[derive(Default, Debug)]
struct Seen {
    stale: u64,
    nowhere: u64,
    right: u64,
    /// Wrong by all that can be known, but not found.
    missed: u64,
}

/// Plays a history at random. Reads return random versions, near to those that are right.
fn play(seed: u64, shape: &Shape, exact: bool, seen: &mut Seen) {
    let mut random = SplitMix64::new(seed);
    let ledger = Ledger::new(u64::from(shape.loaded), 1);
    let mut history = History::default();
    if shape.loaded {
        history.begin_write(LOADED);
        history.end_write(LOADED);
    }
    let mut writes: Vec<Write> = Vec::new();
    let mut reads: Vec<(u64, Floor)> = Vec::new();
    for _ in 0..shape.events {
        match random.below(4) {
            0 if writes.len() < shape.writers => {
                let write = ledger.begin_write(0).expect("few writes");
                history.begin_write(write.version);
                writes.push(write);
            }
            1 if !writes.is_empty() => {
                let write = writes.swap_remove(random.below(writes.len()));
                history.end_write(write.version);
                ledger.end_write(write);
            }
            2 if reads.len() < shape.readers => {
                let begin = history.tick();
                reads.push((begin, ledger.begin_read(0)));
            }
            3 if !reads.is_empty() => {
                let (begin, floor) = reads.swap_remove(random.below(reads.len()));
                let newest = history.writes.len() as u64;
                let version = (newest + 1).saturating_sub(random.below(shape.writers + 4) as u64);
                let said = ledger.end_read(0, floor, version);
                let wrong = history.is_wrong(version, begin, false);
                let by_the_rule = history.is_wrong(version, begin, true);
                assert!(
                    !by_the_rule || wrong,
                    "the rule is part of what can be known"
                );
                match said {
                    Ok(()) => {
                        seen.right += 1;
                        seen.missed += u64::from(wrong);
                        assert!(
                            !exact || !by_the_rule,
                            "{seed}: version {version} was not found"
                        );
                    }
                    Err(WrongRead::Stale { .. }) => seen.stale += 1,
                    Err(WrongRead::FromNowhere { .. }) => seen.nowhere += 1,
                }
                assert!(
                    said.is_ok() || wrong,
                    "{seed}: a false alarm about version {version}: {said:?}"
                );
                let nowhere = matches!(said, Err(WrongRead::FromNowhere { .. }));
                assert_eq!(nowhere, version > newest);
            }
            _ => (),
        }
    }
}

fn play_all(shape: &Shape, exact: bool) -> Seen {
    let mut seen = Seen::default();
    (0..HISTORIES).for_each(|seed| play(seed, shape, exact, &mut seen));
    let Seen {
        stale,
        nowhere,
        right,
        ..
    } = seen;
    assert!(
        stale.min(nowhere).min(right) > HISTORIES / 10,
        "each verdict is tried: {seen:?}"
    );
    seen
}

#[test]
fn one_writer_is_judged_exactly() {
    for loaded in [false, true] {
        let seen = play_all(
            &Shape {
                writers: 1,
                readers: 3,
                events: 60,
                loaded,
            },
            true,
        );
        assert_eq!(seen.missed, 0, "{seen:?}");
    }
}

#[test]
fn overlapping_writers_are_judged_by_the_rule_and_never_too_hard() {
    // So few events that all versions of a history have a bit.
    for (writers, events) in [(2, 40), (3, 60), (8, 80)] {
        let seen = play_all(
            &Shape {
                writers,
                readers: 3,
                events,
                loaded: writers == 3,
            },
            true,
        );
        assert!(seen.missed > 0, "the rule does not see all: {seen:?}");
    }
}

#[test]
fn writes_beyond_the_bits_are_never_judged_too_hard() {
    for (writers, events) in [(40, 600), (400, 1500)] {
        let shape = Shape {
            writers,
            readers: 3,
            events,
            loaded: false,
        };
        let mut seen = Seen::default();
        (0..HISTORIES / 10).for_each(|seed| play(seed, &shape, false, &mut seen));
        assert!(seen.nowhere.min(seen.right) > 0, "{seen:?}");
    }
}

/// One write goes on while `others` begin and end. After it ended as well, two writes in order follow. The version of the second is the floor if the
/// ledger is exact.
fn floor_after(others: usize) -> (u64, bool) {
    let ledger = Ledger::new(0, 1);
    let write = || ledger.begin_write(0).expect("few writes");
    let slow = write();
    for _ in 0..others {
        ledger.end_write(write());
    }
    ledger.end_write(slow);
    ledger.end_write(write());
    let last = write();
    let version = last.version;
    ledger.end_write(last);
    let floor = ledger.begin_read(0);
    ledger
        .end_read(0, floor, version)
        .expect("the newest version is right");
    (version, ledger.end_read(0, floor, version - 1).is_err())
}

#[test]
fn a_record_is_exact_again_once_its_writes_have_ended() {
    // 23 have bits, as has the slow one; 254 more are counted.
    for others in [0, 1, 23, 24, 25, 100, 23 + 254] {
        assert_eq!(floor_after(others), (others as u64 + 3, true), "{others}");
    }
    assert_eq!(
        floor_after(23 + 255),
        (23 + 255 + 3, false),
        "too many are not judged"
    );
}

#[test]
fn inserts_are_absent_until_they_end() {
    let ledger = Ledger::new(3, 5);
    assert_eq!(ledger.capacity(), 5);
    let loaded = ledger.begin_read(2);
    assert_eq!(ledger.end_read(2, loaded, LOADED), Ok(()));
    assert_eq!(
        ledger.end_read(2, loaded, ABSENT),
        Err(WrongRead::Stale {
            record: 2,
            found: 0,
            floor: 1
        })
    );
    let before = ledger.begin_read(3);
    assert_eq!(ledger.end_read(3, before, ABSENT), Ok(()));
    assert_eq!(
        ledger.end_read(3, before, LOADED),
        Err(WrongRead::FromNowhere {
            record: 3,
            found: 1,
            begun: 0
        })
    );
    let insert = ledger.begin_write(3).expect("few writes");
    assert_eq!(
        (insert.record, insert.version, insert.floor_after()),
        (3, LOADED, 1)
    );
    let during = ledger.begin_read(3);
    for version in [ABSENT, LOADED] {
        assert_eq!(ledger.end_read(3, during, version), Ok(()));
    }
    ledger.end_write(insert);
    assert_eq!(ledger.end_read(3, during, ABSENT), Ok(()));
    let after = ledger.begin_read(3);
    assert_eq!(ledger.end_read(3, after, LOADED), Ok(()));
    assert!(ledger.end_read(3, after, ABSENT).is_err());
    assert_eq!(ledger.end_read(3, Floor::NONE, ABSENT), Ok(()));
    assert!(ledger.end_read(3, Floor::NONE, 2).is_err());
}

#[test]
fn a_record_takes_sixteen_bytes() {
    assert_eq!(crate::index::ycsb::ledger::RECORD_BYTES, 16);
}

/// Threads write and read one register for each record, which holds the newest version stored. With `forgetful`, it keeps an old version at times.
fn run(forgetful: bool) -> (u64, u64) {
    const RECORDS: u64 = 4;
    const EACH: u64 = if cfg!(miri) { 200 } else { 40_000 };
    let ledger = Ledger::new(RECORDS, RECORDS);
    let registers: Vec<AtomicU64> = (0..RECORDS).map(|_| AtomicU64::new(LOADED)).collect();
    let wrong = AtomicU64::new(0);
    let work = |seed: u64| {
        let mut random = SplitMix64::new(seed);
        for _ in 0..EACH {
            let record = random.below(RECORDS as usize) as u64;
            let register = &registers[record as usize];
            if random.below(2) == 0 {
                let write = ledger.begin_write(record).expect("few writes");
                if !forgetful || random.below(100) > 0 {
                    register.store(write.version, Ordering::Release);
                }
                ledger.end_write(write);
            } else {
                let floor = ledger.begin_read(record);
                let found = register.load(Ordering::Acquire);
                let said = ledger.end_read(record, floor, found);
                wrong.fetch_add(said.is_err().into(), Ordering::Relaxed);
            }
        }
    };
    std::thread::scope(|scope| {
        for seed in 0..3 {
            scope.spawn(move || work(seed));
        }
    });
    (wrong.into_inner(), EACH)
}

#[test]
fn threads_raise_no_false_alarm_and_lost_writes_are_found() {
    assert_eq!(run(false).0, 0);
    let (wrong, each) = run(true);
    assert!(wrong > each / 1000, "{wrong} of {each}");
}
