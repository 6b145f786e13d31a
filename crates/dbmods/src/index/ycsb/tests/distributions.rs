//! Each distribution against its exact probabilities, and arithmetic of our own against the standard library's.

use dpb_core::random::SplitMix64;

use super::statistics::{SIGNIFICANCE, chi_square};
use crate::index::ycsb::generator::{A, ITEMS, ITEMS_ZETA, Modulus};
use crate::index::ycsb::zipfian::{Zeta, Zipfian, root};
use crate::index::ycsb::{Distribution, Generator, Inserted, Mix, Spec, Workload};

/// As many draws as find a constant of 0.95 in place of 0.99 beyond doubt.
const DRAWS: u64 = if cfg!(miri) { 2_000 } else { 500_000 };

/// The method of Gray et al. with the standard library's powers, which gives the probability of each item.
pub(super) struct Gray {
    constant: f64,
    items: f64,
    zeta: f64,
    eta: f64,
}

impl Gray {
    pub(super) fn new(constant: f64, first: u64, items: u64, zeta: f64) -> Self {
        let two = 1.0 + 0.5f64.powf(constant);
        Self {
            constant,
            items: items as f64,
            zeta,
            eta: (1.0 - (2.0 / first as f64).powf(1.0 - constant)) / (1.0 - two / zeta),
        }
    }

    /// The uniform number from which on items are `item` or later.
    fn from(&self, item: u64) -> f64 {
        let begin = match item {
            0 => return 0.0,
            1 => return 1.0 / self.zeta,
            _ => (item as f64 / self.items).powf(1.0 - self.constant),
        };
        let two = (1.0 + 0.5f64.powf(self.constant)) / self.zeta;
        ((begin - 1.0 + self.eta) / self.eta).clamp(two, 1.0)
    }

    pub(super) fn probability(&self, item: u64) -> f64 {
        self.from(item + 1) - self.from(item)
    }
}

/// The sum, term by term.
pub(super) fn summed_zeta(constant: f64, items: u64) -> f64 {
    (1..=items).map(|i| (i as f64).powf(-constant)).sum()
}

/// FNV-1a with 64 bits, octet by octet.
fn fnv(number: u64) -> u64 {
    let mixed = |hash: u64, octet: u8| (hash ^ u64::from(octet)).wrapping_mul(1_099_511_628_211);
    let hash = number
        .to_le_bytes()
        .into_iter()
        .fold(0xcbf2_9ce4_8422_2325, mixed);
    hash.cast_signed().unsigned_abs()
}

fn uniform(random: &mut SplitMix64) -> f64 {
    1.0 - random.unit()
}

fn count(len: u64, draws: u64, mut draw: impl FnMut() -> u64) -> Vec<u64> {
    let mut counts = vec![0; len as usize];
    for _ in 0..draws {
        counts[draw() as usize] += 1;
    }
    counts
}

#[test]
fn roots_and_zetas_are_those_of_the_library() {
    for number in [
        1e-10, 2e-10, 0.001, 0.5, 1.0, 1.5, 1.999_999, 2.0, 3.0, 1e3, 1e6, 4e9, 1e10,
    ] {
        let (own, library) = (root::<100>(number), f64::powf(number, 0.01));
        assert!(
            (own / library - 1.0).abs() < 1e-15,
            "{number}: {own} {library}"
        );
        let (own, library) = (root::<20>(number), f64::powf(number, 0.05));
        assert!(
            (own / library - 1.0).abs() < 2e-15,
            "{number}: {own} {library}"
        );
    }
    let zeta = Zeta::<A>::new();
    for items in [0, 1, 2, 63, 64, 65, 66, 1000, 100_000] {
        let (own, summed) = (zeta.of(items), summed_zeta(0.99, items));
        assert!((own - summed).abs() < 1e-11, "{items}: {own} {summed}");
    }
    // YCSB summed 10^10 terms in order, and so lost some digits.
    let own = zeta.of(10_000_000_000);
    assert!((own - ITEMS_ZETA).abs() < 1e-6, "{own}");
}

#[test]
fn remainders_are_exact() {
    let mut random = SplitMix64::new(3);
    for _ in 0..20_000 {
        let number = (random.next_u64() >> (31 + random.below(32))).max(2);
        let dividend = random.next_u64() >> (1 + random.below(30));
        for dividend in [
            dividend,
            dividend / number * number,
            (dividend / number * number).saturating_sub(1),
            u64::MAX >> 1,
        ] {
            assert_eq!(
                Modulus::new(number).of(dividend),
                dividend % number,
                "{dividend} % {number}"
            );
        }
    }
}

#[test]
fn items_have_their_probabilities() {
    let items = 1000;
    let mut random = SplitMix64::new(11);
    let right = Zipfian::<100>::grown(items, items, summed_zeta(0.99, items));
    let wrong = Zipfian::<20>::grown(items, items, summed_zeta(0.95, items));
    let exact = Gray::new(0.99, items, items, summed_zeta(0.99, items));
    let weights: Vec<f64> = (0..items).map(|item| exact.probability(item)).collect();
    assert!((weights.iter().sum::<f64>() - 1.0).abs() < 1e-12);
    let counts = count(items, DRAWS, || right.item(uniform(&mut random)));
    assert!(chi_square(&counts, &weights) > SIGNIFICANCE);
    if !cfg!(miri) {
        let counts = count(items, DRAWS, || wrong.item(uniform(&mut random)));
        assert!(
            chi_square(&counts, &weights) < SIGNIFICANCE,
            "the constant 0.95 is found"
        );
    }
}

/// The weights of the records of YCSB's scrambled zipfian distribution. The first items are taken one by one; the later ones, each of which is rarer than
/// 1 in 10^7, are spread evenly.
fn scrambled(records: u64, inserted: u64) -> Vec<f64> {
    let one_by_one: u64 = if cfg!(miri) { 1 << 10 } else { 1 << 20 };
    let exact = Gray::new(0.99, ITEMS, ITEMS, ITEMS_ZETA);
    let mut weights = vec![(1.0 - exact.from(one_by_one)) / records as f64; records as usize];
    for item in 0..one_by_one {
        weights[(fnv(item) % records) as usize] += exact.probability(item);
    }
    weights.truncate(inserted as usize);
    weights
}

#[test]
#[cfg_attr(miri, ignore = "a million powers")]
fn records_are_scrambled_zipfian() {
    // Without inserts, with inserts that are expected, and with some of those done.
    for (workload, inserts, expected) in [
        (Workload::C, 0, 0),
        (Workload::E, 0, 100),
        (Workload::E, 60, 100),
    ] {
        let spec = Spec::new(workload, 1000, 1000);
        assert_eq!(spec.inserts_expected(), expected);
        let inserted = Inserted::new(1000, 2000).expect("room");
        (0..inserts).for_each(|_| inserted.acknowledge(inserted.take().expect("room")));
        let mut generator = Generator::new(&spec, 5, 0).expect("a mix");
        let counts = count(1000 + inserts, DRAWS, || generator.record(&inserted));
        let weights = scrambled(1000 + expected + 1, 1000 + inserts);
        assert!(
            chi_square(&counts, &weights) > SIGNIFICANCE,
            "{workload} {inserts}"
        );
        // A modulus that is wrong by one is found.
        let weights = scrambled(1000 + expected, 1000 + inserts.min(expected));
        assert!(
            chi_square(&counts, &weights) < SIGNIFICANCE,
            "{workload} {inserts}"
        );
    }
    let wrong = Zipfian::<20>::grown(ITEMS, ITEMS, Zeta::<20>::new().of(ITEMS));
    let mut random = SplitMix64::new(12);
    let counts = count(1001, DRAWS, || fnv(wrong.item(uniform(&mut random))) % 1001);
    assert!(
        chi_square(&counts, &scrambled(1001, 1001)) < SIGNIFICANCE,
        "the constant 0.95 is found"
    );
}

#[test]
fn records_are_uniform() {
    let spec = Spec {
        distribution: Distribution::Uniform,
        ..Spec::new(Workload::D, 500, 1000)
    };
    let inserted = Inserted::new(500, 600).expect("room");
    inserted.acknowledge(inserted.take().expect("room"));
    let mut generator = Generator::new(&spec, 6, 0).expect("a mix");
    let counts = count(500, DRAWS, || generator.record(&inserted));
    assert!(chi_square(&counts, &[1.0; 500]) > SIGNIFICANCE);
}

/// Ages that are drawn while a record is inserted every `every` draws, and the weights that they should have.
fn ages(records: u64, every: u64, draws: u64, constant: f64) -> (Vec<u64>, Vec<f64>) {
    let spec = Spec::new(Workload::D, records, draws);
    let inserted = Inserted::new(records, records + draws / every + 1).expect("room");
    let mut generator = Generator::new(&spec, 7, 0).expect("a mix");
    let len = (records + draws / every + 1) as usize;
    let (mut counts, mut weights) = (vec![0; len], vec![0.0; len]);
    for stage in 0..draws / every {
        let newest = records - 1 + stage;
        let exact = Gray::new(constant, records - 1, newest, summed_zeta(constant, newest));
        for (age, weight) in (0..newest).zip(&mut weights) {
            *weight += exact.probability(age);
        }
        for _ in 0..every {
            let record = generator.record(&inserted);
            assert!((1..=newest).contains(&record), "{record} of {newest}");
            counts[(newest - record) as usize] += 1;
        }
        inserted.acknowledge(inserted.take().expect("room"));
    }
    (counts, weights)
}

#[test]
fn ages_are_zipfian_while_records_are_inserted() {
    let stages = if cfg!(miri) { 4 } else { 400 };
    for (records, every) in [(1000, DRAWS), (300, DRAWS / stages)] {
        let (counts, weights) = ages(records, every, DRAWS, 0.99);
        assert!(
            chi_square(&counts, &weights) > SIGNIFICANCE,
            "{records} {every}"
        );
    }
    if !cfg!(miri) {
        let (counts, weights) = ages(300, DRAWS / stages, DRAWS, 0.95);
        assert!(
            chi_square(&counts, &weights) < SIGNIFICANCE,
            "the constant 0.95 is found"
        );
    }
}

#[test]
fn the_newest_record_that_may_be_drawn_is_the_last_acknowledged() {
    let spec = Spec::new(Workload::D, 100, 1000);
    let inserted = Inserted::new(100, 200).expect("room");
    let mut generator = Generator::new(&spec, 8, 0).expect("a mix");
    let mut newest = |inserted: &Inserted| (0..200).map(|_| generator.record(inserted)).max();
    let (first, second) = (
        inserted.take().expect("room"),
        inserted.take().expect("room"),
    );
    inserted.acknowledge(second);
    assert_eq!(newest(&inserted), Some(99));
    inserted.acknowledge(first);
    assert_eq!(newest(&inserted), Some(101));
}

#[test]
fn one_record_is_drawn_by_each_distribution() {
    for distribution in Distribution::ALL {
        let spec = Spec {
            distribution,
            ..Spec::new(Workload::C, 1, 0)
        };
        let inserted = Inserted::new(1, 1).expect("room");
        let mut generator = Generator::new(&spec, 9, 0).expect("a mix");
        assert!(
            (0..100).all(|_| generator.record(&inserted) == 0),
            "{distribution}"
        );
    }
}

#[test]
fn ages_of_few_records_stay_among_them() {
    for records in 1..6 {
        let spec = Spec::new(Workload::D, records, 1000);
        let inserted = Inserted::new(records, 100).expect("room");
        let mut generator = Generator::new(&spec, 9, 0).expect("a mix");
        for newest in records - 1..99 {
            let drawn = (0..50).map(|_| generator.record(&inserted));
            let mut drawn = drawn.collect::<Vec<_>>();
            drawn.sort_unstable();
            assert!(
                drawn[0] >= newest.min(1) && drawn[49] == newest,
                "{records} {newest} {drawn:?}"
            );
            inserted.acknowledge(inserted.take().expect("room"));
        }
    }
}

#[test]
fn lengths_of_scans_are_uniform() {
    use crate::index::ycsb::Request;
    for rows in [100, 1, 7] {
        let mix = Mix {
            scan: 1.0,
            ..Mix::NONE
        };
        let spec = Spec {
            mix,
            scan_rows_max: rows,
            ..Spec::new(Workload::E, 10, 0)
        };
        let inserted = Inserted::new(10, 10).expect("room");
        let mut generator = Generator::new(&spec, 10, 0).expect("a mix");
        let mut draw = || match generator.next(&inserted) {
            Ok(Request::Scan { rows, .. }) => u64::from(rows),
            other => panic!("{other:?}"),
        };
        let counts = count(u64::from(rows) + 1, DRAWS / 4, &mut draw);
        assert_eq!(counts[0], 0);
        if rows > 1 {
            assert!(
                chi_square(&counts[1..], &vec![1.0; rows as usize]) > SIGNIFICANCE,
                "{rows}"
            );
        }
    }
}
