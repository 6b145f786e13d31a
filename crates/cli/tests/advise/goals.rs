//! Each goal, asked of a known engine on virtual time, and what it predicts of its own tests.

use std::collections::BTreeSet;
use std::fs;

use dpb_core::measure::Record;
use dpb_dbmods::duckdb::Library;

use super::support;
use super::{ENGINE, HOST, advice, assert_frozen, known, predicted, records};

fn number(record: &Record, name: &str) -> u64 {
    let value = record.parameters[name].to_string();
    value.parse().expect("a count")
}

#[test]
fn throughput_is_checked_at_the_deepest_queue_and_priced() {
    let folder = tempfile::tempdir().expect("a folder");
    let prices = folder.path().join("prices.toml");
    fs::write(
        &prices,
        "currency = \"EUR\"\ncore_hour = 0.04\ndevice_hour = 0.1\n",
    )
    .expect("written");
    let records = records(&known(&[
        "--goal",
        "throughput",
        "--verify",
        "--rate",
        "1e5",
        "--price",
        prices.to_str().expect("a name"),
    ]));
    let advice = advice(&records);
    // 70 + g against (2005 + g/10)/4.
    let threshold = advice.summary["threshold_bytes"].median;
    assert!((threshold / 444.0 - 1.0).abs() < 0.05, "{threshold}");
    assert!(advice.summary["worst_off_ns"].median <= 1.0);
    assert_eq!(advice.counts["right"], advice.counts["spoken"]);
    assert!(
        advice.findings["price"].contains("EUR"),
        "{:?}",
        advice.findings
    );
    let depths: BTreeSet<u64> = predicted(&records, "op")
        .map(|it| number(it, "depth"))
        .collect();
    assert!(depths.contains(&64), "{depths:?}");
    assert_frozen(&records);
}

/// A model's jobs cost the host what a submission does: nothing of the host, 300 ns of the engine.
#[test]
fn cores_are_not_freed_by_a_costly_submission() {
    let records = records(&known(&["--goal", "cores", "--rate", "1e6"]));
    let advice = advice(&records);
    assert_eq!(advice.findings["verdict"], "stay");
    assert!(
        advice.findings["cores_freed"].starts_with('-'),
        "{:?}",
        advice.findings
    );
    let mut own = predicted(&records, "op").peekable();
    assert!(own.peek().is_some());
    for record in own {
        assert!(
            record.summary.contains_key("host_cpu_ns_per_item"),
            "{record:?}"
        );
        assert!(record.provenance.command.contains(&"--host-cpu".to_owned()));
    }
}

/// 600,000 jobs a second are 0.4 of what four lanes can, and 1.6 times what one can: with one job in flight the engine would fall behind without an end.
#[test]
fn a_limit_is_verified_on_the_system_that_was_predicted() {
    // In an open loop a model's clock needs polls to pass.
    let polled = |name: &str| format!("{name},poll_ns=100");
    let (host, engine) = (polled(HOST), polled(ENGINE));
    let flags = [
        "advise",
        "--operator",
        "crc32c",
        "--host",
        &host,
        "--device",
        &engine,
    ];
    let shapes = [
        "--size",
        "64,1KiB,4KiB",
        "--batch",
        "1,4,16",
        "--depth",
        "1,2,8",
    ];
    let runs = ["--seconds", "1ms", "--warm-up", "1ms", "--repeat", "6"];
    let asked = ["--goal", "slo", "--rate", "6e5", "--limit", "100us"];
    let words = [
        &flags[..],
        &shapes,
        &runs,
        &asked,
        &["--verify", "--format", "json"],
    ]
    .concat();
    let words: Vec<String> = words.into_iter().map(str::to_owned).collect();
    let records = records(&words);
    let open: Vec<&Record> = records
        .iter()
        .filter(|it| it.evidence.kind() == "simulated")
        .filter(|it| it.parameters["mode"].to_string() == "open")
        .collect();
    let of_engine = |it: &&Record| it.parameters["backend"].to_string() == engine;
    let mut checked = 0;
    for own in predicted(&records, "op").filter(of_engine) {
        assert_eq!(number(own, "depth"), 8);
        // A round of the checks has its part of the runs.
        let load = |it: &Record| {
            let mut load = it.parameters.clone();
            load.remove("repeat");
            load
        };
        let same = |it: &&&Record| load(it) == load(own);
        let measured = open.iter().find(same).expect("its test was measured");
        let [said, was] = [own, measured].map(|it| it.summary["latency_ns_p99"].median);
        assert!((0.5..2.0).contains(&(was / said)), "{said} {was}");
        checked += 1;
    }
    assert!(checked >= 2);
    let advice = advice(&records);
    assert_eq!(
        advice.counts["right"], advice.counts["spoken"],
        "{:?}",
        advice.findings
    );
    assert!(advice.counts["spoken"] > 0);
    assert_frozen(&records);
}

#[test]
fn an_application_is_verified_by_its_own_jobs() {
    let folder = tempfile::tempdir().expect("a folder");
    let profile = folder.path().join("profile.toml");
    // Software takes 50 + 4 (20 + g) ns: 41,090 ns in the mean. The engine takes 2320 + 0.4 g.
    fs::write(
        &profile,
        "share = 0.4109\noffloads_per_s = 10000\ncores = 1\ndesign = \"sync\"\nbatch = 4\nsizes = [[4096, 0.5], [16384, 0.5]]\n",
    )
    .expect("written");
    let records = records(&known(&[
        "--goal",
        "application",
        "--profile",
        profile.to_str().expect("a name"),
        "--verify",
    ]));
    let advice = advice(&records);
    assert_eq!(advice.findings["verdict"], "move");
    let gain = advice.summary["gain"].median;
    let known = 1.0 / (1.0 - 0.4109 + 1e4 * (2320.0 + 0.4 * 10_240.0) * 1e-9);
    assert!((gain / known - 1.0).abs() < 0.02, "{gain} {known}");
    let mut sizes = BTreeSet::new();
    for own in predicted(&records, "op") {
        assert_eq!(number(own, "batch"), 4);
        sizes.insert(number(own, "size"));
    }
    assert_eq!(sizes, BTreeSet::from([4096, 16_384]));
    assert_eq!(advice.counts["right"], advice.counts["spoken"]);
    assert!(
        advice.summary["worst_off_ns"].median <= 1.0,
        "{:?}",
        advice.findings
    );
}

/// Times are the machine's, so nothing is said of the verdict.
#[test]
fn pushdown_writes_its_predictions_first() {
    if Library::find().is_err() {
        println!("skipped: without DuckDB nothing fetches");
        return;
    }
    support::make_data("0.01");
    let flags = ["--goal", "pushdown", "--link", "1G", "--sf", "0.01"];
    let more = ["--repeat", "1", "--verify", "--format", "json"];
    let words = [&["advise"], &flags[..], &more].concat();
    let words: Vec<String> = words.into_iter().map(str::to_owned).collect();
    let records = records(&words);
    let advice = advice(&records);
    assert!(!advice.findings["verdict"].is_empty());
    assert!(advice.findings["would_prove_it_wrong"].contains("  # on "));
    assert_frozen(&records);
    let paced = |it: &Record| it.parameters["link_gbps"].to_string() == "1";
    let first = records
        .iter()
        .position(|it| it.evidence.kind() != "predicted" && paced(it));
    let first = first.expect("the checks were measured");
    let before = predicted(&records[..first], "pushdown").count();
    // Six selectivities, two schemes.
    assert_eq!((before, predicted(&records, "pushdown").count()), (12, 12));
    for own in predicted(&records, "pushdown") {
        let [low, value, high] =
            ["run_s_low", "run_s", "run_s_high"].map(|name| own.summary[name].median);
        assert!(low <= value && value <= high && paced(own), "{own:?}");
        let same = |name: &str, it: &Record| it.parameters[name] == own.parameters[name];
        let mut after = records[first..].iter().filter(|it| it.task == "pushdown");
        let is_check = |it: &Record| same("scheme", it) && same("selectivity", it);
        assert!(after.any(is_check), "{:?}", own.parameters);
    }
}
