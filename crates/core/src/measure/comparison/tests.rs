//! Pairs, verdicts and reasons, on records made up for it.

use super::*;
use crate::measure::Stability;

fn options() -> Options {
    Options {
        metrics: Vec::new(),
        ignored: BTreeSet::new(),
        margin: 0.01,
        across_evidence: false,
        despite_interference: false,
        across_state: false,
        declared: BTreeMap::from([("op".to_owned(), vec![declared("items_per_s", Better::More)])]),
    }
}

fn declared(name: &str, better: Better) -> Declared {
    Declared {
        name: name.to_owned(),
        better,
    }
}

/// Seven runs around a rate, none like another.
fn record(size: u64, items_per_s: f64) -> Record {
    let mut record = Record::new("op", Evidence::Measured, 1)
        .with("operator", "crc32c")
        .with("size", size)
        .with("repeat", 7u64);
    let run = |at: i32| items_per_s * (1.0 + 0.001 * f64::from(at - 3));
    record.sample("items_per_s", (0..7).map(run).collect());
    record.sample("latency_ns_p99", (0..7).map(|at| 1e9 / run(at)).collect());
    record
}

fn verdict(a: &Record, b: &Record, options: &Options) -> (Judgement, Vec<String>) {
    let compared = compare(std::slice::from_ref(a), std::slice::from_ref(b), options);
    let [compared] = &compared[..] else {
        panic!("{compared:?}")
    };
    (compared.verdict, compared.notes.clone())
}

#[test]
fn verdicts_follow_from_ratios_and_from_what_is_better() {
    let a = record(64, 1e6);
    for (factor, expected) in [
        (1.0, Judgement::Same),
        (1.004, Judgement::Same),
        (1.1, Judgement::Better),
        (0.9, Judgement::Worse),
    ] {
        let b = record(64, factor * 1e6);
        assert_eq!(verdict(&a, &b, &options()).0, expected, "{factor}");
    }
    let by_latency = Options {
        metrics: vec!["latency_ns_p99".to_owned()],
        ..options()
    };
    let slower = record(64, 0.9e6);
    assert_eq!(verdict(&a, &slower, &by_latency).0, Judgement::Worse);
    let [compared] = &compare(&[a], &[slower], &by_latency)[..] else {
        panic!("one")
    };
    assert!((compared.ratio.unwrap() - 1.0 / 0.9).abs() < 1e-3);
    assert!((compared.gain().unwrap() - 0.9).abs() < 1e-3);
    let mut wide = record(64, 1e6);
    let run = |at: u32| 1e6 * (0.8 + 0.1 * f64::from(at));
    wide.sample("items_per_s", (0..7).map(run).collect());
    assert_eq!(
        verdict(&record(64, 1e6), &wide, &options()).0,
        Judgement::TooClose
    );
}

#[test]
fn tests_are_paired_by_what_they_measure() {
    let mut longer = record(64, 1e6);
    longer.parameters.insert("repeat".to_owned(), 21u64.into());
    let a = [record(64, 1e6), record(1500, 1e5), record(64, 2e6)];
    let b = [longer.clone(), record(9000, 1e4)];
    let compared = compare(&a, &b, &options());
    let verdicts: Vec<Judgement> = compared.iter().map(|one| one.verdict).collect();
    // The last record of a test counts, at the place of its first.
    assert_eq!(
        verdicts,
        [Judgement::Worse, Judgement::OnlyA, Judgement::OnlyB]
    );
    let ignoring = Options {
        ignored: BTreeSet::from(["size".to_owned()]),
        ..options()
    };
    let compared = compare(&[record(64, 1e6)], &[record(9000, 1e4)], &ignoring);
    assert_eq!(compared[0].verdict, Judgement::Worse);
    assert_eq!(compared[0].parameters["size"], Value::Int(64));
}

#[test]
fn what_has_no_ratio_says_why() {
    let a = record(64, 1e6);
    let failed = record(64, 1e6).without_numbers(Outcome::Failed {
        reason: "a wrong bit".into(),
    });
    let (found, notes) = verdict(&a, &failed, &options());
    assert_eq!(found, Judgement::NotComparable);
    assert_eq!(notes, ["B failed: a wrong bit"]);
    let mut simulated = record(64, 2e6);
    simulated.evidence = Evidence::Simulated {
        model: "a card".into(),
    };
    let (found, notes) = verdict(&a, &simulated, &options());
    assert_eq!(found, Judgement::NotComparable);
    assert_eq!(notes[0], "A is measured, B simulated");
    let across = Options {
        across_evidence: true,
        ..options()
    };
    let (found, notes) = verdict(&a, &simulated, &across);
    assert_eq!(found, Judgement::Better);
    assert!(notes[0].starts_with("across evidence"), "{notes:?}");
    let unknown = Options {
        metrics: vec!["watts".to_owned()],
        ..options()
    };
    assert_eq!(verdict(&a, &a, &unknown).1, ["A has no `watts`"]);
    let mut still = record(64, 1e6);
    still.sample("items_per_s", vec![0.0; 7]);
    assert_eq!(verdict(&a, &still, &options()).1, ["B has a run of zero"]);
}

#[test]
fn a_single_figure_has_a_ratio_and_no_verdict() {
    let a = record(64, 1e6);
    let mut one = record(64, 2e6);
    one.samples.clear();
    let compared = compare(&[a], &[one], &options());
    assert!((compared[0].ratio.unwrap() - 2.0).abs() < 1e-9);
    assert_eq!(compared[0].ratio_low, None);
    assert_eq!(compared[0].verdict, Judgement::TooClose);
    assert!(compared[0].notes[0].contains("too few"), "{compared:?}");
}

#[test]
fn more_ratios_make_each_interval_wider() {
    let sizes = |factor: f64, many: u64| -> Vec<Record> {
        let each = (1..=many).map(|size| record(size, factor * 1e6));
        each.collect()
    };
    let of_first = |many| {
        let compared = compare(&sizes(1.0, many), &sizes(1.02, many), &options());
        (compared[0].ratio_low, compared[0].verdict)
    };
    let (alone, _) = of_first(1);
    let (beside, verdict) = of_first(50);
    assert!(beside.unwrap() < alone.unwrap());
    assert_eq!(verdict, Judgement::Better);
    // One order of 3,432 to either side: beyond 85 ratios seven runs a side say nothing.
    assert_eq!(of_first(85).1, Judgement::Better);
    assert_eq!(of_first(86), (None, Judgement::TooClose));
}

#[test]
fn the_state_of_the_machine_is_said() {
    let a = record(64, 1e6);
    let mut b = record(64, 1e6);
    b.provenance.governor = Some("powersave".into());
    b.stability = Some(Stability {
        stable: false,
        disturbed: false,
        reasons: vec!["outlier: run 3".into()],
        cv: None,
        core_wait_s: None,
        context_switches_involuntary: None,
        steal_s: None,
    });
    let (found, notes) = verdict(&a, &b, &options());
    assert_eq!(found, Judgement::NotComparable);
    assert!(
        notes[0].starts_with("the machine's state differs: governor: ")
            && notes[0].ends_with("and powersave"),
        "{notes:?}"
    );
    let across = Options {
        across_state: true,
        ..options()
    };
    let (found, notes) = verdict(&a, &b, &across);
    assert_eq!(found, Judgement::Same);
    assert_eq!(notes[0], "B is unstable: outlier: run 3");
    assert!(notes[1].starts_with("governor: "), "{notes:?}");
    b.stability.as_mut().unwrap().disturbed = true;
    let (found, notes) = verdict(&a, &b, &across);
    assert_eq!(found, Judgement::NotComparable);
    assert_eq!(notes[0], "B was disturbed");
    let despite = Options {
        despite_interference: true,
        ..across
    };
    assert_eq!(verdict(&a, &b, &despite).0, Judgement::Same);
    // Another machine has other settings, which is the point.
    b.provenance.host = "dpu".into();
    let alone = Options {
        across_state: false,
        ..despite
    };
    assert_eq!(verdict(&a, &b, &alone).0, Judgement::Same);
    assert_eq!(verdict(&a, &b, &alone).1.len(), 1);
}

#[test]
fn a_record_is_about_the_first_metric_that_its_task_declares() {
    let chain = |ns: f64| {
        let mut record = Record::new("memory", Evidence::Measured, 1).with("size", 64u64);
        let run = |at: i32| ns * (1.0 + 0.001 * f64::from(at));
        record.sample("ns_per_access", (0..7).map(run).collect());
        record
    };
    let declaring = |metrics: Vec<Declared>| Options {
        declared: BTreeMap::from([("memory".to_owned(), metrics)]),
        ..options()
    };
    let (fast, slow) = (chain(80.0), chain(90.0));
    let metrics = vec![
        declared("accesses_per_s", Better::More),
        declared("ns_per_access", Better::Less),
    ];
    let (found, _) = verdict(&fast, &slow, &declaring(metrics));
    assert_eq!(found, Judgement::Worse);
    let turned = declaring(vec![declared("ns_per_access", Better::More)]);
    assert_eq!(verdict(&fast, &slow, &turned).0, Judgement::Better);
    // Of a task that nobody declares: its only metric, by its name.
    assert_eq!(verdict(&fast, &slow, &options()).0, Judgement::Worse);
    let (mut two, mut others) = (fast.clone(), slow.clone());
    for record in [&mut two, &mut others] {
        record.sample("bytes_per_s", vec![1.0; 7]);
    }
    let (found, notes) = verdict(&two, &others, &options());
    assert_eq!(found, Judgement::NotComparable);
    assert_eq!(notes, ["no main metric is known; name one"]);
}

#[test]
fn samples_of_messages_are_no_runs() {
    let messages = |factor: f64| {
        let mut record = record(64, 1e6);
        let values = (0..1000).map(|at| factor * f64::from(at + 1)).collect();
        let samples = crate::measure::Samples { values, hdr: None };
        record.samples.insert("latency_ns".to_owned(), samples);
        record
    };
    let by_message = Options {
        metrics: vec!["latency_ns".to_owned()],
        ..options()
    };
    let (found, notes) = verdict(&messages(1.0), &messages(2.0), &by_message);
    assert_eq!(found, Judgement::NotComparable);
    assert_eq!(notes, ["A has no `latency_ns`"]);
}

#[test]
fn a_pair_is_about_a_metric_that_both_have() {
    let declaring = Options {
        declared: BTreeMap::from([(
            "op".to_owned(),
            vec![
                declared("items_per_s", Better::More),
                declared("latency_ns_p99", Better::Less),
            ],
        )]),
        ..options()
    };
    let mut of_paper = record(64, 1e6);
    of_paper.summary.remove("items_per_s");
    let whole = record(64, 0.5e6);
    for (a, b, expected) in [
        (&of_paper, &whole, Judgement::Worse),
        (&whole, &of_paper, Judgement::Better),
    ] {
        let [compared] = &compare(std::slice::from_ref(a), std::slice::from_ref(b), &declaring)[..]
        else {
            panic!("one")
        };
        assert_eq!(compared.metric, "latency_ns_p99");
        assert_eq!(compared.verdict, expected);
    }
}
