//! Faults are injected, counted and nothing else goes wrong.

use super::*;
use crate::{Model, Modelled, Simulation};
use dpb_core::conformance::check;
use dpb_core::conformance::sample::{Sample, workloads};
use dpb_core::{Items, Right, spec};

fn faults(errors_ppm: u32, delay_polls_max: u32, reorder: bool) -> Faults {
    Faults {
        seed: 42,
        errors_ppm,
        delay_polls_max,
        reorder,
        ..Faults::default()
    }
}

#[test]
fn conforms_when_late_and_out_of_order() {
    let pool = NonZeroU32::new(2);
    for (faults, workers) in [
        (faults(0, 0, false), None),
        (faults(0, 0, true), None),
        (faults(0, 5, false), None),
        (faults(0, 9, true), pool),
    ] {
        let backend = Faulty::new("test", faults.clone(), Sample::new(workers));
        check(&backend, workloads()).unwrap_or_else(|f| panic!("{faults:?}: {f}"));
    }
}

#[test]
fn faults_and_models_compose() {
    let inner = Faulty::new("test", faults(0, 3, true), Sample::new(None));
    let backend = Modelled::new("late", Model::default(), inner, &Simulation::new());
    check(&backend, workloads()).unwrap_or_else(|f| panic!("{f}"));
    let inner = Modelled::new(
        "engine",
        Model::default(),
        Sample::new(None),
        &Simulation::new(),
    );
    let backend = Faulty::new("test", faults(0, 3, true), inner);
    assert_eq!(backend.name(), "faulty/test");
    check(&backend, workloads()).unwrap_or_else(|f| panic!("{f}"));
}

/// Runs `count` jobs; the tags in the order they came home, each with its result.
fn run(backend: &dyn Backend, count: u64, depth: u32) -> Vec<(u64, Result<(), JobError>)> {
    let operator = backend.prepare(&OpSpec::from(spec::Crc32c)).unwrap();
    let mut queue = operator.open(NonZeroU32::new(depth).unwrap()).unwrap();
    let src = Buf::zeroed(32).unwrap().freeze();
    let job = |tag| {
        let dst = Buf::zeroed(4).unwrap();
        Job::new(tag, src.clone(), Items::One, dst, OutputShape::Fixed(4))
    };
    let mut ready: VecDeque<_> = (0..count).map(job).collect();
    let mut done = Vec::new();
    while done.len() < count as usize {
        queue.submit(&mut ready);
        queue.poll(&mut done);
        assert!(queue.in_flight() <= depth as usize);
    }
    let Right::Only(right) = workloads()[0].right(&[0; 32], 4) else {
        panic!("a checksum has one answer");
    };
    for completion in done.iter().filter(|c| c.result.is_ok()) {
        assert_eq!(completion.job.dst[0][..], right);
    }
    done.iter().map(|c| (c.job.tag, c.result)).collect()
}

#[test]
fn every_injected_error_is_seen_and_no_other() {
    let backend = Faulty::new("test", faults(250_000, 4, true), Sample::new(None));
    let mut home = run(&backend, 2000, 16);
    let errors = home
        .iter()
        .filter(|(_, result)| *result == Err(Faults::ERROR))
        .count();
    assert_eq!(backend.injected().errors(), errors as u64);
    // Six standard deviations around a quarter of 2000.
    assert!((384..=616).contains(&errors), "{errors}");
    assert_eq!(
        home.iter().filter(|(_, result)| result.is_ok()).count(),
        2000 - errors
    );
    home.sort_unstable_by_key(|(tag, _)| *tag);
    assert!(home.iter().map(|(tag, _)| *tag).eq(0..2000));
}

#[test]
fn order_changes_only_when_asked() {
    let in_order =
        |backend: &Faulty<Sample>| run(backend, 500, 8).is_sorted_by_key(|(tag, _)| *tag);
    let calm = Faulty::new("test", faults(0, 0, false), Sample::new(None));
    assert!(in_order(&calm));
    assert_eq!((calm.injected().delays(), calm.injected().swaps()), (0, 0));
    let wild = Faulty::new("test", faults(0, 0, true), Sample::new(None));
    assert!(!in_order(&wild));
    assert!(wild.injected().swaps() > 0);
    let late = Faulty::new("test", faults(0, 3, false), Sample::new(None));
    assert!(!in_order(&late));
    assert!(late.injected().delays() > 0);
}

#[test]
fn a_seed_gives_the_same_faults_again() {
    let once = run(
        &Faulty::new("test", faults(100_000, 3, true), Sample::new(None)),
        300,
        8,
    );
    let again = run(
        &Faulty::new("test", faults(100_000, 3, true), Sample::new(None)),
        300,
        8,
    );
    assert_eq!(once, again);
    let seed = Faults {
        seed: 43,
        ..faults(100_000, 3, true)
    };
    assert_ne!(
        once,
        run(&Faulty::new("test", seed, Sample::new(None)), 300, 8)
    );
}

#[test]
fn every_flipped_bit_is_one_that_a_check_sees() {
    let faults: Faults = "flips_ppm=1000000,seed=3".parse().expect("a fault");
    assert_eq!(faults.to_string().parse(), Ok(faults.clone()));
    let backend = Faulty::new("test", faults, Sample::new(None));
    let found = check(&backend, workloads()).expect_err("wrong outputs");
    assert!(backend.injected().flips() > 0, "{found}");
    for wrong in ["flips_ppm=1000001", "flips_ppm", "flops=1", "reorder=maybe"] {
        assert!(wrong.parse::<Faults>().is_err(), "{wrong}");
    }
}
