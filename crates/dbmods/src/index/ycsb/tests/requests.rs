//! Mixes, names, determinism and refusals.

use std::collections::HashSet;

use dpb_core::random::SplitMix64;

use super::statistics::{SIGNIFICANCE, chi_square};
use crate::index::ycsb::generator::stream;
use crate::index::ycsb::{
    Distribution, Full, Generator, Inserted, Mix, RECORDS_MAX, Request, Spec, SpecError, Workload,
};

const DRAWS: usize = if cfg!(miri) { 1_000 } else { 200_000 };

/// How often each kind was drawn, in the order of the mix.
pub(super) fn kinds(spec: &Spec, seed: u64, draws: usize) -> [u64; 5] {
    let inserted = Inserted::new(spec.records, spec.records + draws as u64).expect("room");
    let mut generator = Generator::new(spec, seed, 0).expect("a mix");
    let mut kinds = [0; 5];
    for _ in 0..draws {
        let kind = match generator.next(&inserted).expect("room") {
            Request::Read(_) => 0,
            Request::Update(_) => 1,
            Request::Insert(record) => {
                inserted.acknowledge(record);
                2
            }
            Request::Scan { .. } => 3,
            Request::ReadModifyWrite(_) => 4,
        };
        kinds[kind] += 1;
    }
    kinds
}

#[test]
fn kinds_have_their_shares() {
    let table = [
        (Workload::A, [50.0, 50.0, 0.0, 0.0, 0.0]),
        (Workload::B, [95.0, 5.0, 0.0, 0.0, 0.0]),
        (Workload::D, [95.0, 0.0, 5.0, 0.0, 0.0]),
        (Workload::E, [0.0, 0.0, 5.0, 95.0, 0.0]),
        (Workload::F, [50.0, 0.0, 0.0, 0.0, 50.0]),
    ];
    for (workload, weights) in table {
        let counts = kinds(&Spec::new(workload, 1000, DRAWS as u64), 1, DRAWS);
        assert!(
            chi_square(&counts, &weights) > SIGNIFICANCE,
            "{workload} {counts:?}"
        );
    }
    let reads = kinds(&Spec::new(Workload::C, 1000, DRAWS as u64), 1, DRAWS);
    assert_eq!(reads, [DRAWS as u64, 0, 0, 0, 0]);
    let mix = Mix {
        read: 3.0,
        update: 1.0,
        insert: 0.5,
        scan: 0.25,
        read_modify_write: 2.0,
    };
    let counts = kinds(
        &Spec {
            mix,
            ..Spec::new(Workload::A, 1000, 1000)
        },
        2,
        DRAWS,
    );
    assert!(
        chi_square(&counts, &mix.weights()) > SIGNIFICANCE,
        "{counts:?}"
    );
}

#[test]
fn names_parse_and_print() {
    for workload in Workload::ALL {
        let name = workload.to_string();
        assert_eq!(name.parse(), Ok(workload));
        assert_eq!(name.to_uppercase().parse(), Ok(workload));
    }
    for distribution in Distribution::ALL {
        assert_eq!(distribution.to_string().parse(), Ok(distribution));
        assert_eq!(
            distribution.to_string().to_uppercase().parse(),
            Ok(distribution)
        );
    }
    let refused = "g".parse::<Workload>().expect_err("no workload g");
    assert_eq!(
        refused.to_string(),
        "`g` is no workload of YCSB; they are a, b, c, d, e, f"
    );
    assert!("zipf".parse::<Distribution>().is_err());
    assert_eq!(Workload::D.distribution(), Distribution::Latest);
    assert_eq!(Workload::E.distribution(), Distribution::Zipfian);
}

fn requests(workload: Workload, seed: u64, thread: u32, len: usize) -> Vec<Request> {
    let inserted = Inserted::new(10_000, 20_000).expect("room");
    let mut generator =
        Generator::new(&Spec::new(workload, 10_000, 10_000), seed, thread).expect("a mix");
    let mut next = || {
        let request = generator.next(&inserted).expect("room");
        if let Request::Insert(record) = request {
            inserted.acknowledge(record);
        }
        request
    };
    (0..len).map(|_| next()).collect()
}

#[test]
fn a_seed_repeats_its_requests() {
    for workload in Workload::ALL {
        let first = requests(workload, 1, 0, 300);
        assert_eq!(first, requests(workload, 1, 0, 300));
        assert_ne!(first, requests(workload, 2, 0, 300));
        assert_ne!(first, requests(workload, 1, 1, 300));
    }
}

#[test]
fn requests_are_the_same_on_every_machine() {
    let digest = |workload| {
        let mixed = |digest: u64, request: Request| {
            let word = match request {
                Request::Read(record) => record,
                Request::Update(record) => record | 1 << 40,
                Request::Insert(record) => record | 2 << 40,
                Request::Scan { from, rows } => from | 3 << 40 | u64::from(rows) << 48,
                Request::ReadModifyWrite(record) => record | 4 << 40,
            };
            SplitMix64::new(digest ^ word).next_u64()
        };
        requests(workload, 42, 3, 2000).into_iter().fold(0, mixed)
    };
    assert_eq!(Workload::ALL.map(digest), DIGESTS);
}

/// Of the first 2,000 requests of each workload, on x86-64.
const DIGESTS: [u64; 6] = [
    15_982_774_517_875_562_317,
    14_535_237_137_568_814_584,
    6_037_040_673_101_739_774,
    10_825_132_109_068_458_290,
    1_946_321_356_031_714_313,
    2_220_560_031_478_638_924,
];

#[test]
fn streams_of_threads_do_not_meet() {
    let mut seen = HashSet::new();
    for (seed, thread) in [(1, 0), (1, 1), (1, 2), (1, (1 << 20) - 1), (2, 0)] {
        let mut random = stream(seed, thread);
        assert!(
            (0..2000).all(|_| seen.insert(random.next_u64())),
            "{seed} {thread}"
        );
    }
    // Nor do they know of each other.
    let mut pairs = vec![0; 100];
    let (mut first, mut second) = (stream(9, 0), stream(9, 1));
    for _ in 0..DRAWS {
        pairs[first.below(10) * 10 + second.below(10)] += 1;
    }
    assert!(chi_square(&pairs, &[1.0; 100]) > SIGNIFICANCE);
}

#[test]
fn specs_that_cannot_be_drawn_are_refused() {
    let good = Spec::new(Workload::E, 1000, 1000);
    assert_eq!(good.validate(), Ok(()));
    for mix in [
        Mix::NONE,
        Mix {
            read: -1.0,
            update: 2.0,
            ..Mix::NONE
        },
        Mix {
            read: f64::NAN,
            ..Mix::NONE
        },
        Mix {
            read: f64::INFINITY,
            ..Mix::NONE
        },
    ] {
        let refused = Generator::new(&Spec { mix, ..good }, 1, 0).expect_err("no mix");
        assert!(matches!(refused, SpecError::Mix(_)), "{refused}");
    }
    let refused = |spec: Spec| spec.validate().expect_err("refused");
    assert_eq!(refused(Spec { records: 0, ..good }), SpecError::NoRecords);
    assert_eq!(
        refused(Spec {
            scan_rows_max: 0,
            ..good
        }),
        SpecError::NoRows
    );
    let many = RECORDS_MAX - 99;
    assert_eq!(
        refused(Spec {
            records: many,
            ..good
        }),
        SpecError::TooManyRecords {
            records: RECORDS_MAX + 1
        }
    );
    assert_eq!(
        Spec {
            records: many - 1,
            ..good
        }
        .validate(),
        Ok(())
    );
    assert!(
        Spec {
            requests: u64::MAX,
            ..good
        }
        .validate()
        .is_err()
    );
}

#[test]
fn an_insert_without_room_is_an_error_and_reads_go_on() {
    let spec = Spec::new(Workload::D, 10, 100);
    let inserted = Inserted::new(10, 11).expect("room");
    let mut generator = Generator::new(&spec, 1, 0).expect("a mix");
    let drawn: Vec<_> = (0..400).map(|_| generator.next(&inserted)).collect();
    let inserts = drawn
        .iter()
        .filter(|drawn| matches!(drawn, Ok(Request::Insert(_))))
        .count();
    assert_eq!(inserts, 1);
    assert!(drawn.contains(&Err(Full { capacity: 11 })));
    assert!(matches!(drawn[399], Ok(Request::Read(_)) | Err(_)));
    assert!(drawn.iter().filter(|drawn| drawn.is_ok()).count() > 350);
}
