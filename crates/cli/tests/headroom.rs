//! `dpb net headroom`, the real program, with trials so short that its numbers say little: that it measures, accounts for every packet, and says what is not there.
//!
//! No number and no timing is a verdict here. On a machine that does something else a generator may be late in every trial; then a record says so and has no number.

mod support;

use std::process::{Command, Output};

use dpb_core::measure::{Outcome, Record};
use support::{DPB, cannot_be_emulated, text};

/// Trials of 20 ms at few packets a second, which a debug build on a shared machine may keep up with.
const TINY: [&str; 7] = [
    "--seconds=20ms",
    "--sum=40ms",
    "--width=20%",
    "--limit=2s",
    "--buffer=256KiB",
    "--rate-max=100k",
    "--tolerance=2ms",
];

fn headroom(args: &[&str]) -> Output {
    support::finish(&[&["net", "headroom"], &TINY[..], args].concat())
}

fn of(record: &Record, name: &str) -> String {
    let value = record.parameters.get(name);
    value.map_or(String::new(), ToString::to_string)
}

/// A record with numbers has numbers that can be, one without says why. True if it has some.
fn is_done(record: &Record, cores: f64) -> bool {
    assert_eq!(record.task, "net headroom");
    if record.outcome != Outcome::Done {
        // What a machine that does something else makes of it.
        let is_busy = match &record.outcome {
            Outcome::Unsupported { reason } => {
                reason.contains("generator was late") || reason.contains("no rate upholds")
            }
            Outcome::Failed { reason } => reason.contains("more work"),
            _ => false,
        };
        assert!(is_busy && record.summary.is_empty(), "{:?}", record.outcome);
        return false;
    }
    let figure = |name: &str| record.summary.get(name).map(|summary| summary.median);
    let free = figure("cores_free").expect("a number");
    assert!((0.0..=cores).contains(&free), "{free}");
    assert!(figure("cores_free_at_most").is_none_or(|most| most > free));
    let (rate, work_ns) = (
        figure("packets_per_s").expect("a rate"),
        figure("work_ns_per_packet").expect("work"),
    );
    assert!((free - rate * work_ns * 1e-9).abs() < 1e-6 * cores);
    if let (Some(max), Some(by_rate)) = (figure("packets_per_s_max"), figure("headroom_by_rate")) {
        assert!((by_rate - (1.0 - rate / max)).abs() < 1e-9);
    }
    let (units, ns) = (
        figure("units_per_packet").expect("units"),
        figure("ns_per_unit").expect("their time"),
    );
    assert!((units * ns - work_ns).abs() <= 1e-6 * work_ns);
    let count = |name: &str| record.counts[name];
    assert_eq!(
        count("offered"),
        count("refused") + count("delivered") + count("dropped") + count("unexplained")
    );
    assert_eq!((count("corrupted"), count("duplicates")), (0, 0));
    assert!(count("delivered") > 0 && count("units_of_work") > 0 && count("trials") > 1);
    assert!(
        record
            .check
            .as_ref()
            .is_some_and(|check| check.compared == count("received"))
    );
    assert!(record.stability.is_some());
    true
}

#[test]
fn each_kind_of_work_is_measured_in_memory() {
    for topology in ["separated", "embedded"] {
        let output = headroom(&[
            "--kind=arithmetic,memory,crc32c,aes-gcm:bits=256",
            "--rate=20k",
            "--size=64",
            "--topology",
            topology,
        ]);
        let records = support::records(&output);
        let kinds: Vec<String> = records.iter().map(|record| of(record, "kind")).collect();
        assert_eq!(
            kinds,
            ["arithmetic", "memory", "crc32c", "aes-gcm:bits=256"]
        );
        let done = records.iter().filter(|record| is_done(record, 1.0)).count();
        let has_failed = |record: &Record| matches!(record.outcome, Outcome::Failed { .. });
        let code = match records.iter().any(has_failed) {
            true => 1,
            // Nothing of what was asked for is there.
            false if done == 0 => 3,
            false => 0,
        };
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{stderr}");
        for record in &records {
            assert_eq!(record.evidence.kind(), "measured");
            assert_eq!(
                (of(record, "link"), of(record, "topology")),
                ("memory".into(), topology.into())
            );
            // Whatever the system drops in memory is counted.
            assert_eq!(record.counts.get("unexplained").copied().unwrap_or(0), 0);
        }
        let injected = |at: usize| of(&records[at], "injected");
        assert!(done < 4 || injected(3).contains("256"), "{}", injected(3));
    }
}

/// However busy the machine is: a generator that may be late for ten seconds is not late.
#[test]
fn a_patient_search_has_a_number() {
    let output = support::finish(&[
        "net",
        "headroom",
        "--kind=arithmetic,memory,crc32c",
        "--rate=20k",
        "--rate-max=100k",
        "--size=64",
        "--tolerance=10",
        "--seconds=100ms",
        "--sum=200ms",
        "--width=20%",
        "--limit=4s",
        "--buffer=256KiB",
        "--queue=64",
    ]);
    let records = support::records(&output);
    let done = records.iter().filter(|record| is_done(record, 1.0)).count();
    assert!(done > 0, "{records:?}");
}

#[test]
fn threads_have_queues_of_their_own() {
    let records = support::records(&headroom(&[
        "--kind=arithmetic",
        "--part=0.3",
        "--size=100",
        "--threads=2",
    ]));
    assert_eq!(records.len(), 1);
    is_done(&records[0], 2.0);
    assert_eq!(
        (of(&records[0], "threads"), of(&records[0], "part")),
        ("2".into(), "0.3".into())
    );
    assert_eq!(
        records[0].counts.get("unexplained").copied().unwrap_or(0),
        0
    );
}

#[test]
fn a_table_has_the_papers_numbers_beside() {
    let output = headroom(&[
        "--kind=arithmetic",
        "--rate=20k",
        "--size=64",
        "--format=table",
    ]);
    let said = text(&output.stdout);
    for part in [
        "cores free",
        "1 - R/Rmax",
        "0.228",
        "0.750",
        "0.820",
        "published",
        "figure 6",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let output = headroom(&[
        "--kind=arithmetic",
        "--rate=20k",
        "--size=64",
        "--format=csv",
    ]);
    let rows = support::csv(&text(&output.stdout));
    assert_eq!(rows.len(), 2);
    assert!(rows[0].contains(&"headroom_by_rate_ci95_low".to_owned()));
}

/// Network namespaces, if this machine has them.
fn has_namespaces() -> bool {
    let probe = "mount -t tmpfs tmpfs /run && ip netns add a";
    let tried = Command::new("unshare")
        .args([
            "--user",
            "--map-root-user",
            "--net",
            "--mount",
            "sh",
            "-c",
            probe,
        ])
        .output();
    let is_there = tried.as_ref().is_ok_and(|tried| tried.status.success());
    if !is_there {
        println!(
            "skipped: no network namespaces here; apt-get install iproute2, as root or with user namespaces"
        );
    }
    is_there
}

#[test]
fn packets_pass_virtual_interfaces_and_the_kernels_stack() {
    if cannot_be_emulated("rings of AF_PACKET") || !has_namespaces() {
        return;
    }
    // Twice at once: each has namespaces of its own.
    let start = |topology: &str| {
        let mut command = support::dpb(
            &[
                &["net", "headroom"],
                &TINY[..],
                &[
                    "--kind=arithmetic",
                    "--rate=10k",
                    "--size=100",
                    "--link=af-packet,kernel",
                    "--topology",
                    topology,
                ],
            ]
            .concat(),
        );
        command
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .expect("dpb starts")
    };
    let runs = ["separated", "embedded"].map(|topology| (topology, start(topology)));
    for (topology, run) in runs {
        let output = run.wait_with_output().expect("dpb ends");
        let records = support::records(&output);
        assert_eq!(records.len(), 2, "{}", text(&output.stderr));
        for (record, link) in records.iter().zip(["af-packet", "kernel"]) {
            assert_eq!(
                (of(record, "link"), of(record, "topology")),
                (link.into(), topology.into())
            );
            assert_eq!(record.evidence.kind(), "emulated");
            is_done(record, 1.0);
        }
    }
}

/// As anybody, without BPF's rights: a finding with a remedy, beside what works.
#[test]
fn a_link_that_is_not_there_says_what_to_do() {
    if !has_namespaces() {
        return;
    }
    let args = [
        &["net", "headroom"],
        &TINY[..],
        &[
            "--format=json",
            "--kind=arithmetic",
            "--rate=10k",
            "--size=100",
            "--link=memory,af-xdp",
        ],
    ]
    .concat();
    // In a user namespace root is nobody to BPF.
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", DPB])
        .args(&args)
        .output()
        .expect("unshare starts");
    let records = support::records(&output);
    assert_eq!(records.len(), 2, "{}", text(&output.stderr));
    is_done(&records[0], 1.0);
    match &records[1].outcome {
        Outcome::Unsupported { reason } => assert!(
            reason.contains("root") || reason.contains("CAP_BPF"),
            "{reason}"
        ),
        other => panic!("{other:?}"),
    }
    // All that was asked for is absent: exit 3.
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", DPB])
        .args(&args[..args.len() - 1])
        .arg("--link=af-xdp")
        .output()
        .expect("unshare starts");
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
}

#[test]
fn wrong_usage_ends_with_2() {
    for args in [
        &["--size=10"][..],
        &["--kind=nothing"],
        &["--rate=10", "--seconds=1ms"],
        &["--rate=5k", "--part=0.5"],
        &["--link=pigeon"],
    ] {
        let output = support::finish(&[&["net", "headroom"], args].concat());
        assert_eq!(
            output.status.code(),
            Some(2),
            "{args:?}: {}",
            text(&output.stderr)
        );
    }
}
