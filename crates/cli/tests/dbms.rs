//! `dpb dbms` as processes: three engines, cold and hot, an agent elsewhere, files that are damaged, answers that are wrong.
//!
//! A machine without DuckDB says so and checks nothing.

mod support;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use dpb_core::measure::{Outcome, Record};
use dpb_dbmods::dbms::queries;
use dpb_dbmods::dbms::session::{AgentAt, Engine, Opening, Said};
use dpb_dbmods::duckdb::v2::check_version;
use dpb_dbmods::duckdb::{Config, Database, Library};
use rustix::process::{Pid, Signal, kill_process};
use support::{Agent, children, csv, dpb, finish, records, runs, text, wait_until};

const SF: &str = "0.01";

/// A library that every engine takes, or a line that says why the test does not run.
fn library() -> Option<Library> {
    let found = Library::find().map_err(|missing| missing.to_string());
    let fit = found.and_then(|library| {
        check_version(library.version())?;
        Ok(library)
    });
    fit.inspect_err(|why| println!("skipped: {why}")).ok()
}

/// `dpb dbms` at a small scale, on two threads, once, with `more` flags.
fn words<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let own = [
        ("--sf", SF),
        ("--threads", "2"),
        ("--repeat", "1"),
        ("--warm-up-runs", "1"),
        ("--format", "json"),
    ];
    let own = own.into_iter().filter(|(flag, _)| !more.contains(flag));
    let own = own.flat_map(|(flag, value)| [flag, value]);
    ["dbms"]
        .into_iter()
        .chain(own)
        .chain(more.iter().copied())
        .collect()
}

fn dbms(more: &[&str]) -> Output {
    finish(&words(more))
}

/// The records of a command that went well.
fn done(more: &[&str]) -> Vec<Record> {
    let output = dbms(more);
    assert!(
        output.status.success(),
        "{more:?}: {}",
        text(&output.stderr)
    );
    let records = records(&output);
    for record in &records {
        assert_eq!(record.outcome, Outcome::Done, "{record:?}");
        let check = record.check.as_ref().expect("checked");
        assert!(check.compared > 0 && check.digest.is_some(), "{check:?}");
        assert!(figure(record, "run_s") > 0.0 && figure(record, "peak_bytes") > 0.0);
    }
    records
}

fn parameter(record: &Record, name: &str) -> String {
    record
        .parameters
        .get(name)
        .map_or(String::new(), ToString::to_string)
}

fn figure(record: &Record, name: &str) -> f64 {
    let summary = record.summary.get(name);
    let summary = summary.unwrap_or_else(|| panic!("{name} of {:?}", record.summary));
    summary.median
}

/// The record of an engine.
fn of<'a>(records: &'a [Record], engine: &str) -> &'a Record {
    let found = records
        .iter()
        .find(|record| parameter(record, "engine") == engine);
    found.unwrap_or_else(|| panic!("no record of {engine}"))
}

#[test]
fn all_22_answers_are_right_by_all_engines() {
    if library().is_none() {
        return;
    }
    let records = done(&[
        "--engine",
        "duckdb,dpb-pushdown,duckdb-fetch",
        "--state",
        "hot",
    ]);
    assert_eq!(records.len(), 66);
    let mut digests = std::collections::BTreeMap::new();
    for record in &records {
        let check = record.check.as_ref().expect("checked");
        assert!(
            check
                .against
                .contains("the known answer at scale factor 0.01"),
            "{check:?}"
        );
        let query = parameter(record, "query");
        let first = digests.entry(query).or_insert_with(|| check.digest.clone());
        assert_eq!(*first, check.digest, "{record:?}");
    }
    let queries: std::collections::BTreeSet<String> = records
        .iter()
        .map(|record| parameter(record, "query"))
        .collect();
    assert_eq!(queries.len(), 22);
    // What was pushed is told, and fewer rows cross the link than there are.
    let q6: Vec<Record> = (records.iter())
        .filter(|record| parameter(record, "query") == "6")
        .cloned()
        .collect();
    let pushed = of(&q6, "dpb-pushdown");
    assert!(
        parameter(pushed, "filters").contains("l_discount"),
        "{pushed:?}"
    );
    assert_eq!(pushed.counts["rows_scanned"], 60_175);
    assert!(pushed.counts["rows_sent"] < 6_000, "{:?}", pushed.counts);
    let (pushed, fetched) = (
        figure(pushed, "link_bytes"),
        figure(of(&q6, "duckdb-fetch"), "link_bytes"),
    );
    assert!(
        pushed > 0.0 && pushed * 10.0 < fetched,
        "{pushed} {fetched}"
    );
    assert!(!of(&q6, "duckdb").summary.contains_key("link_bytes"));
}

#[test]
fn cold_runs_read_storage_and_hot_ones_do_not() {
    if library().is_none() {
        return;
    }
    let output = dbms(&[
        "--engine",
        "duckdb,dpb-pushdown",
        "--query",
        "1",
        "--repeat",
        "2",
    ]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let records = records(&output);
    assert_eq!(records.len(), 4);
    for record in &records {
        let state = parameter(record, "state");
        if let (Outcome::Unsupported { reason }, "cold") = (&record.outcome, state.as_str()) {
            // The build folder is in memory.
            assert!(reason.contains("tmpfs"), "{reason}");
            println!("skipped: {reason}");
            continue;
        }
        assert_eq!(record.outcome, Outcome::Done, "{record:?}");
        let Some(read) = record.summary.get("read_bytes") else {
            println!("skipped: the kernel does not say what was read");
            continue;
        };
        match state.as_str() {
            "cold" => {
                assert!(read.median > 500_000.0, "{record:?}");
                assert!(figure(record, "open_s") > 0.0);
            }
            _ => assert!(read.median == 0.0, "{record:?}"),
        }
    }
}

#[test]
fn at_other_scale_factors_answers_are_held_against_each_other() {
    if library().is_none() {
        return;
    }
    let records = done(&["--sf", "0.002", "--query", "3,13,18", "--state", "hot"]);
    assert_eq!(records.len(), 6);
    for record in &records {
        let check = record.check.as_ref().expect("checked");
        assert!(
            check.against.starts_with("every other run's answer"),
            "{check:?}"
        );
    }
    // CSV has the parameters and the figures.
    let output = dbms(&[
        "--sf", "0.002", "--query", "6", "--state", "hot", "--format", "csv",
    ]);
    let rows = csv(&text(&output.stdout));
    assert_eq!(rows.len(), 3);
    let column = |name: &str| rows[0].iter().position(|title| title == name).expect(name);
    assert_eq!(rows[1][column("query")], "6");
    assert!(
        rows[2][column("filters")].contains("l_shipdate"),
        "{rows:?}"
    );
}

#[test]
fn a_link_with_a_pace_is_emulated() {
    if library().is_none() {
        return;
    }
    let records = done(&[
        "--engine",
        "duckdb,dpb-pushdown,duckdb-fetch",
        "--query",
        "14",
        "--state",
        "hot",
        "--link-gbps",
        "1",
    ]);
    let kind = |engine: &str| of(&records, engine).evidence.kind();
    assert_eq!(kind("dpb-pushdown"), "emulated");
    assert_eq!(kind("duckdb-fetch"), "emulated");
    assert_ne!(kind("duckdb"), "emulated");
    // Rows in fewer bytes are the same rows.
    let pushed = of(&records, "dpb-pushdown");
    assert_eq!(parameter(pushed, "wire"), "compact");
    let plain = done(&[
        "--engine",
        "dpb-pushdown",
        "--query",
        "14",
        "--state",
        "hot",
        "--link-gbps",
        "1",
        "--wire",
        "plain",
    ]);
    assert_eq!(parameter(&plain[0], "wire"), "plain");
    let (few, all) = (
        figure(pushed, "link_bytes"),
        figure(&plain[0], "link_bytes"),
    );
    assert!(few * 1.5 < all, "{few} {all}");
    // What crossed took its time, at least.
    let fetched = of(&records, "duckdb-fetch");
    let bits = figure(fetched, "link_bytes") * 8.0;
    assert!(figure(fetched, "run_s") >= bits / 1e9 * 0.9, "{fetched:?}");
}

#[test]
fn an_agent_elsewhere_scans() {
    if library().is_none() {
        return;
    }
    // Its tables.
    done(&["--query", "6", "--state", "hot", "--engine", "dpb-pushdown"]);
    let agent = Agent::start(&["--allow-cold"]);
    let records = done(&[
        "--query",
        "6,12",
        "--engine",
        "dpb-pushdown",
        "--server",
        &agent.address,
        "--state",
        "cold,hot",
    ]);
    assert_eq!(records.len(), 4);
    for record in &records {
        assert_eq!(parameter(record, "server"), agent.address);
        assert!(figure(record, "agent_cpu_s") > 0.0);
        // What it read is not known here.
        assert!(!record.summary.contains_key("read_bytes"), "{record:?}");
    }
    // One that does not let caches be dropped.
    let agent = Agent::start(&[]);
    let output = dbms(&[
        "--query",
        "6",
        "--engine",
        "dpb-pushdown",
        "--server",
        &agent.address,
        "--state",
        "cold",
    ]);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    // Tables that it does not have.
    let output = dbms(&[
        "--sf",
        "0.003",
        "--query",
        "6",
        "--engine",
        "dpb-pushdown",
        "--server",
        &agent.address,
    ]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("dpb data --sf 0.003"), "{said}");
}

/// DuckDB's file in a data folder.
fn database(dir: &Path, library: Library) -> PathBuf {
    let parent = dir.join(format!("dbms-duckdb-{}", library.version()));
    parent.join(format!("sf{SF}/tpch.duckdb"))
}

/// CRC-32C, bit by bit.
fn crc32c(bytes: &[u8]) -> u32 {
    let step = |crc: u32| (crc >> 1) ^ (0x82F6_3B78 * (crc & 1));
    !bytes.iter().fold(u32::MAX, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| step(crc))
    })
}

#[test]
fn a_damaged_file_is_made_anew_and_a_wrong_answer_is_found() {
    let Some(library) = library() else { return };
    let dir = tempfile::tempdir().expect("a folder");
    let folder = dir.path().to_str().expect("UTF-8");
    let run = |more: &[&str]| {
        let own = ["--data-dir", folder, "--query", "6", "--state", "hot"];
        dbms(&[&own[..], more].concat())
    };
    let prepared = run(&["--prepare"]);
    assert!(prepared.status.success(), "{}", text(&prepared.stderr));
    assert!(prepared.stdout.is_empty());
    let path = database(dir.path(), library);
    let mut bytes = fs::read(&path).expect("it was made");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    fs::write(&path, &bytes).expect("it is ours");
    let output = run(&["--engine", "duckdb"]);
    let said = text(&output.stderr);
    assert!(
        output.status.success() && said.contains("is made anew"),
        "{said}"
    );

    // A line that Q6 counts, in a file that is otherwise whole.
    let opened = Database::open(library, Some(&path), &Config::default());
    let database = opened.expect("DuckDB's file");
    let mut connection = database.connect().expect("a connection");
    let changed = connection
        .execute(
            "UPDATE lineitem SET l_shipdate = DATE '1994-06-01', l_discount = 0.06, l_quantity = 1, l_extendedprice = 100000 \
             WHERE l_orderkey = 1 AND l_linenumber = 1",
        )
        .expect("a statement");
    assert_eq!(changed, 1);
    connection.execute("CHECKPOINT").expect("a statement");
    drop((connection, database));
    let manifest_path = path.with_file_name("manifest.json");
    let manifest = fs::read_to_string(&manifest_path).expect("a manifest");
    let mut manifest: serde_json::Value = serde_json::from_str(&manifest).expect("JSON");
    let bytes = fs::read(&path).expect("it is there");
    manifest["bytes"] = bytes.len().into();
    manifest["crc32c"] = crc32c(&bytes).into();
    fs::write(&manifest_path, manifest.to_string()).expect("it is ours");
    let output = run(&[]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("q6: row 1 is 1199053.2253, expected 1193053.2253"),
        "{said}"
    );
    let records = records(&output);
    let wrong = of(&records, "duckdb");
    assert!(matches!(&wrong.outcome, Outcome::Failed { reason } if reason.contains("q6: row 1")));
    assert!(
        wrong.samples.is_empty() && wrong.summary.is_empty(),
        "{wrong:?}"
    );
    assert_eq!(of(&records, "dpb-pushdown").outcome, Outcome::Done);

    let cleaned = finish(&["clean", "--data-dir", folder]);
    assert!(cleaned.status.success(), "{}", text(&cleaned.stderr));
    assert!(!path.exists());
}

#[test]
fn what_cannot_be_is_refused() {
    for (args, code, says) in [
        (&["--query", "23"][..], 2, "1 to 22"),
        (&["--query", "0"], 2, "1 to 22"),
        (
            &["--engine", "postgres"],
            2,
            "duckdb, dpb-pushdown, duckdb-fetch",
        ),
        (&["--state", "tepid"], 2, "cold, hot"),
        (&["--sf", "0"], 2, "scale factor"),
        (&["--link-gbps", "-1"], 2, "link-gbps"),
        (&["--sf", "9000"], 3, "free"),
    ] {
        let output = dbms(args);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
        assert!(said.contains(says), "{args:?}: {said}");
    }
    let nowhere = std::env::temp_dir().join("no such folder");
    let output = dpb(&words(&["--query", "6"]))
        .env("DUCKDB_LIB_DIR", nowhere)
        .output();
    let output = output.expect("dpb starts");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("DUCKDB_LIB_DIR"), "{said}");
}

#[test]
fn an_interrupt_keeps_what_is_complete_and_leaves_no_process() {
    if library().is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("records");
    let more = [
        "--engine",
        "duckdb,dpb-pushdown",
        "--repeat",
        "300",
        "--state",
        "hot",
        "--out",
        out.to_str().expect("a path"),
    ];
    let run = dpb(&words(&more))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("dpb starts");
    let pid = run.id();
    // An agent, and a process for each engine.
    let is_busy = || children(pid).len() == 3;
    assert!(
        wait_until(Duration::from_secs(120), is_busy),
        "{:?}",
        children(pid)
    );
    let started = children(pid);
    // The records of the first query.
    let lines = || fs::read_to_string(&out).map_or(0, |text| text.lines().count());
    assert!(wait_until(Duration::from_secs(200), || lines() >= 2));
    kill_process(Pid::from_raw(pid as i32).expect("a process"), Signal::INT).expect("it is ours");
    let output = run.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    let all_gone = || started.iter().all(|&child| !runs(child));
    assert!(wait_until(Duration::from_secs(10), all_gone), "{started:?}");
    // Those of queries that were whole, and of the one that was cut off, with the runs that were whole.
    let records = records(&output);
    assert!((2..44).contains(&records.len()), "{}", records.len());
    for (at, record) in records.iter().enumerate() {
        let runs = record.samples["run_s"].values.len();
        match record.outcome {
            Outcome::Done => assert_eq!(runs, 300, "{record:?}"),
            Outcome::Interrupted => {
                assert!((1..=300).contains(&runs), "{record:?}");
                assert!(at >= 2 && at + 2 >= records.len(), "only the last query");
            }
            _ => panic!("{record:?}"),
        }
    }
}

#[test]
fn rows_are_those_of_timed_runs_and_all_are_compared() {
    if library().is_none() {
        return;
    }
    let records = done(&[
        "--query",
        "1",
        "--engine",
        "dpb-pushdown",
        "--state",
        "hot",
        "--repeat",
        "2",
        "--warm-up-runs",
        "3",
    ]);
    let record = of(&records, "dpb-pushdown");
    // Q1 has four groups, and lineitem so many rows.
    assert_eq!(record.counts["rows"], 2 * 4, "{record:?}");
    assert_eq!(record.counts["rows_scanned"], 2 * 60_175, "{record:?}");
    assert_eq!(
        record.check.as_ref().map(|check| check.compared),
        Some(5 * 4)
    );
}

#[test]
fn files_that_are_fetched_count_as_memory() {
    if library().is_none() {
        return;
    }
    // Its files.
    done(&["--query", "6", "--state", "hot", "--engine", "duckdb-fetch"]);
    let agent = Agent::start(&[]);
    let spill = tempfile::tempdir().expect("a folder");
    let opening = Opening {
        engine: Engine::Fetch(AgentAt {
            address: agent.address.clone(),
            token: None,
            credentials: None,
            scale_factor: 0.01,
            link_bits_per_s: 0,
            is_compact: false,
        }),
        threads: 1,
        memory_bytes_max: None,
        spill: spill.path().to_owned(),
    };
    let mut session = dpb(&["dbms-session", "--parent", &std::process::id().to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("dpb starts");
    let mut input = session.stdin.take().expect("was piped");
    let mut lines = BufReader::new(session.stdout.take().expect("was piped")).lines();
    let mut ask = |line: &str| -> Said {
        writeln!(input, "{line}").expect("it reads");
        let line = lines.next().expect("a line").expect("it is there");
        serde_json::from_str(&line).expect("what it says")
    };
    let opened = ask(&serde_json::to_string(&opening).expect("plain data"));
    assert!(matches!(opened, Said::Opened(_)), "{opened:?}");
    let Said::Ran(run) = ask("6") else {
        panic!("it ran")
    };
    // What the kernel counts of the process has no page of them.
    let status = fs::read_to_string(format!("/proc/{}/status", session.id())).expect("it lives");
    let counted = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let counted = counted.and_then(|text| text.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    let counted = counted.expect("a number") * 1024;
    assert!(run.link_bytes > 1_000_000, "{}", run.link_bytes);
    assert!(
        run.took.peak_bytes >= counted + run.link_bytes / 2,
        "{} {counted} {}",
        run.took.peak_bytes,
        run.link_bytes
    );
    drop(input);
    session.wait().expect("it ends");
}

#[test]
fn an_agent_that_goes_is_not_there_and_no_answer_is_called_wrong() {
    if library().is_none() {
        return;
    }
    done(&["--query", "6", "--state", "hot", "--engine", "dpb-pushdown"]);
    let mut agent = Agent::start(&[]);
    let more = [
        "--query",
        "6",
        "--engine",
        "dpb-pushdown",
        "--server",
        &agent.address,
        "--state",
        "hot",
        "--repeat",
        "100000",
    ];
    let run = dpb(&words(&more))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("dpb starts");
    let pid = run.id();
    assert!(wait_until(Duration::from_secs(120), || children(pid).len() == 1));
    std::thread::sleep(Duration::from_millis(300));
    agent.child.kill().expect("it is ours");
    agent.child.wait().expect("it is ours");
    let output = run.wait_with_output().expect("it ends");
    let said = text(&output.stderr);
    assert!(
        !said.contains("check failed") && said.contains("agent"),
        "{said}"
    );
    assert_eq!(output.status.code(), Some(3), "{said}");
}

#[test]
fn the_list_of_tasks_and_the_report_know_it() {
    let listed = text(&finish(&["list", "tasks"]).stdout);
    assert!(listed.contains("dbms"), "{listed}");
    assert_eq!(queries::all().count(), 22);
    if library().is_none() {
        return;
    }
    let dir = tempfile::tempdir().expect("a folder");
    let (out, page) = (dir.path().join("r.jsonl"), dir.path().join("r.html"));
    let (out, page) = (out.to_str().expect("UTF-8"), page.to_str().expect("UTF-8"));
    done(&["--query", "6,14", "--state", "hot", "--out", out]);
    let reported = finish(&["report", out, "--out", page]);
    assert!(reported.status.success(), "{}", text(&reported.stderr));
    let html = fs::read_to_string(page).expect("a page");
    assert!(
        html.contains("as dpBento&#39;s figure 15b") || html.contains("as dpBento's figure 15b")
    );
    assert!(html.contains("Q14"));
}
