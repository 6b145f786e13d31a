//! YCSB's own core beside ours: keys are equal, and histograms are those of one distribution. `testdata/README.md` says how YCSB's were made.

use dpb_core::random::SplitMix64;

use super::requests::kinds;
use super::statistics::{SIGNIFICANCE, chi_square_of_two};
use crate::index::ycsb::generator::{ITEMS, Latest};
use crate::index::ycsb::zipfian::{Zeta, Zipfian};
use crate::index::ycsb::{
    Distribution, Generator, Inserted, KeyForm, Mix, Request, Spec, Workload, hash,
};

const YCSB: &str = include_str!("../testdata/ycsb-core-0.17.0.txt");

/// The counts of a line.
fn counts(name: &str) -> Vec<u64> {
    let line = YCSB
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    let numbers = line.expect("a line of that name").split(' ');
    numbers
        .map(|number| number.parse().expect("a count"))
        .collect()
}

/// Ours as often as YCSB drew, over twice as many draws.
fn compare(name: &str, mut draw: impl FnMut() -> u64) -> f64 {
    let theirs = counts(name);
    let mut ours: Vec<u64> = vec![0; theirs.len()];
    for _ in 0..2 * theirs.iter().sum::<u64>() {
        let drawn = draw() as usize;
        if ours.len() <= drawn {
            ours.resize(drawn + 1, 0);
        }
        ours[drawn] += 1;
    }
    chi_square_of_two(&ours, &theirs)
}

#[test]
fn hashes_and_keys_are_equal() {
    let mut keys = 0;
    for line in YCSB.lines().filter_map(|line| line.strip_prefix("key ")) {
        let [record, hashed, key] = line.split(' ').collect::<Vec<_>>()[..] else {
            panic!("a record, its hash and its key: {line}");
        };
        let record = record.parse().expect("a record");
        assert_eq!(hash(record).to_string(), hashed);
        assert_eq!(KeyForm::Ycsb.key(record).as_bytes(), key.as_bytes());
        keys += 1;
    }
    assert_eq!(keys, 136);
}

#[test]
#[cfg_attr(miri, ignore = "millions of draws")]
fn mixes_are_of_one_distribution() {
    for workload in Workload::ALL {
        let theirs = counts(&format!("mix {workload}"));
        let spec = Spec::new(workload, 1000, 400_000);
        let ours = kinds(&spec, 21, 400_000);
        if workload == Workload::C {
            assert_eq!((ours[0], theirs[0]), (400_000, 200_000));
            continue;
        }
        let tail = chi_square_of_two(&ours, &theirs);
        assert!(tail > SIGNIFICANCE, "{workload}: {tail}");
        // Some more reads are found.
        let mut mix = workload.mix();
        mix.read += 0.2;
        let tail = chi_square_of_two(&kinds(&Spec { mix, ..spec }, 21, 400_000), &theirs);
        assert!(tail < SIGNIFICANCE, "{workload}: {tail}");
    }
}

#[test]
#[cfg_attr(miri, ignore = "millions of draws")]
fn records_and_lengths_are_of_one_distribution() {
    let generator = |spec: &Spec, inserts: u64| {
        let inserted = Inserted::new(spec.records, spec.records + inserts).expect("room");
        (0..inserts).for_each(|_| inserted.acknowledge(inserted.take().expect("room")));
        (Generator::new(spec, 22, 0).expect("a mix"), inserted)
    };
    let uniform = Spec {
        distribution: Distribution::Uniform,
        ..Spec::new(Workload::C, 200, 1000)
    };
    for (name, spec, inserts) in [
        ("uniform", uniform, 0),
        ("zipfian", Spec::new(Workload::C, 1000, 1000), 0),
        ("zipfian-inserted", Spec::new(Workload::E, 300, 1000), 50),
        (
            "latest",
            Spec {
                mix: Mix {
                    read: 1.0,
                    ..Mix::NONE
                },
                ..Spec::new(Workload::D, 1000, 1000)
            },
            0,
        ),
    ] {
        let (mut generator, inserted) = generator(&spec, inserts);
        let tail = compare(name, || generator.record(&inserted));
        assert!(tail > SIGNIFICANCE, "{name}: {tail}");
    }
    let spec = Spec {
        mix: Mix {
            scan: 1.0,
            ..Mix::NONE
        },
        ..Spec::new(Workload::E, 1000, 1000)
    };
    let (mut generator, inserted) = generator(&spec, 0);
    let tail = compare("scan", || match generator.next(&inserted) {
        Ok(Request::Scan { rows, .. }) => rows.into(),
        other => panic!("{other:?}"),
    });
    assert!(tail > SIGNIFICANCE, "{tail}");
}

/// A source of ages: 200 records, and one more before each `every`-th draw, as YCSB's were made.
fn growing_ages(every: u64) -> f64 {
    let records = 200;
    let mut random = SplitMix64::new(23);
    let mut latest = Latest::new(records);
    let mut draws = 0;
    compare("latest-growing-age", || {
        // The second half of our draws begins again.
        if draws == 1_000_000 {
            (draws, latest) = (0, Latest::new(records));
        }
        draws += 1;
        let inserted = records + draws / every;
        inserted - 1 - latest.draw(1.0 - random.unit(), inserted)
    })
}

#[test]
#[cfg_attr(miri, ignore = "millions of draws")]
fn ages_are_of_one_distribution_while_records_are_inserted() {
    let tail = growing_ages(2500);
    assert!(tail > SIGNIFICANCE, "{tail}");
    assert!(growing_ages(2000) < SIGNIFICANCE, "more inserts are found");
}

#[test]
#[cfg_attr(miri, ignore = "millions of draws")]
fn another_constant_is_not_of_that_distribution() {
    let items = Zipfian::<20>::grown(ITEMS, ITEMS, Zeta::<20>::new().of(ITEMS));
    let mut random = SplitMix64::new(24);
    let tail = compare("zipfian", || {
        hash(items.item(1.0 - random.unit())) % 1001 % 1000
    });
    assert!(tail < SIGNIFICANCE, "{tail}");
}
