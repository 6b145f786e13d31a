//! `dpb import`: files as the programs wrote them, to records that `dpb compare` and `dpb report` take.

use std::path::Path;
use std::process::{Command, Output};

use dpb_core::measure::{Outcome, Reading, Record};

fn dpb(args: &[&str]) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_dpb")).args(args).output();
    output.expect("dpb starts")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("UTF-8")
}

/// An output that stands beside the importers.
fn written(name: &str) -> String {
    let folder = "../core/src/measure/import/testdata";
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join(folder)
        .join(name);
    path.to_str().expect("UTF-8").to_owned()
}

fn records(path: &str) -> Vec<Record> {
    let reading = Reading::of_file(Path::new(path)).expect("records");
    assert_eq!(reading.damaged, []);
    reading
        .records
        .into_iter()
        .map(|line| line.record)
        .collect()
}

#[test]
fn runs_of_another_program_are_compared_and_reported() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let output = std::fs::read_to_string(written("sysbench.txt")).expect("it is there");
    // Seven runs each: of the second machine all are faster.
    let import = |out: &str, host: &str, base: u32| {
        let files: Vec<String> = (0..7)
            .map(|run| {
                let file = path(&format!("{host}-{run}.txt"));
                let rate = format!("{}.93", base + run);
                std::fs::write(&file, output.replace("2048.93", &rate)).expect("written");
                file
            })
            .collect();
        let files: Vec<&str> = files.iter().map(String::as_str).collect();
        let imported = dpb(&[&["import", "--host", host, "--out", out][..], &files].concat());
        assert!(imported.status.success(), "{}", text(&imported.stderr));
    };
    let (a, b) = (path("a.jsonl"), path("b.jsonl"));
    import(&a, "host", 2048);
    import(&b, "dpu", 3048);
    let of_a = records(&a);
    assert_eq!(of_a.len(), 5, "one a test, not one a file");
    assert_eq!(of_a[0].samples["items_per_s"].values.len(), 7);
    assert_eq!(of_a[0].provenance.host, "host");
    let compared = dpb(&["compare", &a, &b, "--format", "csv"]);
    let compared = text(&compared.stdout).to_owned();
    let verdict = |test: &str| {
        let mut lines = compared.lines().filter(|line| line.contains(test));
        lines
            .next()
            .and_then(|line| line.rsplit(',').next())
            .map(str::to_owned)
    };
    assert_eq!(verdict("test=cpu").as_deref(), Some("better"), "{compared}");
    assert_eq!(
        verdict("test=memory").as_deref(),
        Some("same"),
        "{compared}"
    );
    let page = path("report.html");
    let reported = dpb(&["report", &a, &b, "--out", &page]);
    assert!(reported.status.success(), "{}", text(&reported.stderr));
}

#[test]
fn each_program_is_told_by_its_output() {
    for (file, task, count) in [
        ("fio.json", "fio", 2),
        ("iperf3.json", "iperf3", 1),
        ("sysbench.txt", "sysbench", 5),
        ("stress-ng.txt", "stress-ng", 2),
        ("perftest.txt", "perftest", 1),
        ("doca-bench.txt", "doca_bench", 2),
    ] {
        let output = dpb(&["import", &written(file), "--emulated-by", "QEMU"]);
        let lines = text(&output.stdout).lines();
        let lines: Vec<Record> = lines
            .map(|line| serde_json::from_str(line).expect("a record"))
            .collect();
        assert_eq!(lines.len(), count, "{file}");
        assert!(
            lines
                .iter()
                .all(|record| record.task == task && record.outcome == Outcome::Done)
        );
        assert!(
            lines
                .iter()
                .all(|record| record.evidence.kind() == "emulated")
        );
    }
}

#[test]
fn criterions_folders_are_searched() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for side in ["new", "base"] {
        let inner = folder.path().join("group/value").join(side);
        std::fs::create_dir_all(&inner).expect("made");
        for file in ["benchmark.json", "sample.json"] {
            std::fs::copy(written(&format!("criterion/{file}")), inner.join(file)).expect("copied");
        }
    }
    let output = dpb(&[
        "import",
        folder.path().to_str().expect("UTF-8"),
        "--format",
        "csv",
    ]);
    let table = text(&output.stdout);
    // The newest run alone: its rate and its time.
    assert_eq!(table.lines().count(), 3, "{table}");
    assert!(table.contains("group=scan/q1_aggregate"), "{table}");
}

#[test]
fn what_is_no_result_is_refused_by_name() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let refused = |args: &[&str], why: &str| {
        let output = dpb(&[&["import"], args].concat());
        assert_eq!(output.status.code(), Some(2));
        assert!(
            text(&output.stderr).contains(why),
            "{}",
            text(&output.stderr)
        );
    };
    let file = folder.path().join("notes.txt");
    std::fs::write(&file, "nothing of the kind\n").expect("written");
    let file = file.to_str().expect("UTF-8");
    refused(&[file], "notes.txt: not an output of fio, iperf3");
    refused(&[file, "--from", "fio"], "not an output of fio: no JSON");
    refused(
        &[folder.path().to_str().expect("UTF-8")],
        "no results of Criterion",
    );
    refused(&["/not/there"], "cannot read /not/there");
}
