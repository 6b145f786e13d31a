//! Two machines, and records of other work than the usual one.

use std::fs;
use std::path::Path;

use dpb_core::measure::Record;

use super::support::{self, text};
use super::{ENGINE, HOST, advice, assert_frozen, predicted, records};

const SIZES: &str = "256,1KiB,4KiB";

/// Records of `dpb op` with a backend on a machine of this name.
fn op(file: &Path, machine: &str, operator: &str, backend: &str, more: &[&str]) {
    let out = format!("--out={}", file.display());
    let load = ["--size", SIZES, "--batch", "1,4,16", "--depth", "1,2,8"];
    let runs = ["--seconds", "1ms", "--warm-up", "1ms", "--repeat", "6"];
    let words = [
        &["op", operator, "--backend", backend, &out],
        &load[..],
        &runs,
        more,
    ]
    .concat();
    let made = support::dpb(&words).env("DPB_HOST", machine).output();
    let made = made.expect("dpb starts");
    assert!(made.status.success(), "{}", text(&made.stderr));
}

fn ask(words: &[&str]) -> Vec<Record> {
    let words = [&["advise"], words, &["--format", "json"]].concat();
    let words: Vec<String> = words.into_iter().map(str::to_owned).collect();
    records(&words)
}

fn name(file: &Path) -> &str {
    file.to_str().expect("a name")
}

/// The same backend on both machines: what is said of either has its own machine, predictions and commands.
#[test]
fn one_backend_on_two_machines_has_two_sides() {
    let folder = tempfile::tempdir().expect("a folder");
    let [host, dpu] = ["host.jsonl", "dpu.jsonl"].map(|name| folder.path().join(name));
    op(&host, "node", "crc32c", HOST, &[]);
    op(&dpu, "dpu", "crc32c", HOST, &[]);
    let sides = [name(&host), name(&dpu), "--host", HOST, "--device", HOST];
    let all = ask(&sides);
    let said = advice(&all);
    assert_eq!(said.findings["verdict"], "too close to call");
    assert!(!said.findings.contains_key("knob") && !said.summary.contains_key("threshold_bytes"));
    let of = |machine: &'static str| {
        let own = predicted(&all, "op").filter(move |it| it.provenance.host == machine);
        own.map(|it| it.parameters.clone()).collect::<Vec<_>>()
    };
    assert!(!of("node").is_empty());
    assert_eq!(
        of("node").len() + of("dpu").len(),
        predicted(&all, "op").count()
    );
    let once: Vec<_> = of("node")
        .into_iter()
        .filter(|load| !of("dpu").contains(load))
        .collect();
    assert_eq!(once, [], "each of the host's tests is the device's too");
    let commands: Vec<&str> = said.findings["would_prove_it_wrong"].lines().collect();
    for machine in ["node", "dpu"] {
        let on = format!("  # on {machine}, ");
        assert!(
            commands.iter().any(|line| line.contains(&on)),
            "{commands:?}"
        );
    }
    assert!(
        commands.iter().all(|line| line.contains("  # on ")),
        "{commands:?}"
    );
    assert_frozen(&all);
    // Neither is this machine.
    let verify = support::finish(&[&["advise"], &sides[..], &["--verify"]].concat());
    assert!(
        text(&verify.stderr).contains("measures here"),
        "{}",
        text(&verify.stderr)
    );

    // A way to the other machine that takes as long as a job at least.
    let far = [&sides[..], &["--link", "25G", "--round-trip", "30us"]].concat();
    let said = advice(&ask(&far)).clone();
    assert_eq!(said.findings["verdict"], "stay");
    assert!(
        said.findings["assumes"].contains("round trip"),
        "{:?}",
        said.findings
    );
}

/// Parameters, inputs and working set of a check are those of the records that the advice rests on, not the usual ones.
#[test]
fn records_are_checked_by_their_own_work() {
    let folder = tempfile::tempdir().expect("a folder");
    let [file, input] = ["records.jsonl", "input.txt"].map(|name| folder.path().join(name));
    let lines: String = (0..4000)
        .map(|at| format!("line {at} of a file\n"))
        .collect();
    fs::write(&input, lines).expect("written");
    let own = [
        "--parameters=level=1",
        "--working-set=128KiB",
        &format!("--input={}", input.display()),
        "--seed=7",
    ];
    for backend in [HOST, ENGINE] {
        op(&file, "node", "deflate", backend, &own);
    }
    let flags = ["advise", name(&file), "--host", HOST, "--verify"];
    let output = support::dpb(&[&flags[..], &["--format", "json"]].concat())
        .env("DPB_HOST", "node")
        .output()
        .expect("dpb starts");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let all = support::records(&output);
    let said = advice(&all);
    assert_eq!(said.counts["right"], said.counts["spoken"]);
    let commands: Vec<&str> = said.findings["would_prove_it_wrong"].lines().collect();
    assert!(!commands.is_empty());
    for command in commands {
        for part in ["level=1", "--working-set=131072", own[2], "--seed=7"] {
            assert!(command.contains(part), "{part}: {command}");
        }
    }
    let of = |kind: &'static str| {
        let own = all.iter().filter(move |it| it.evidence.kind() == kind);
        own.filter(|it| it.task == "op")
    };
    assert!(of("predicted").count() > 0 && of("simulated").count() > 0);
    for record in of("predicted").chain(of("simulated")) {
        assert_eq!(record.parameters["op.level"].to_string(), "1");
        assert_eq!(record.parameters["working_set"].to_string(), "131072");
        let from = record.parameters["input"].to_string();
        assert!(from.contains("input.txt"), "{from}");
        assert_eq!(record.provenance.seed, 7);
    }
    assert_frozen(&all);
}
