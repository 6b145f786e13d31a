//! `dpb pushdown` as a real process: what it gives, and what it says when it cannot be had. `serve.rs` has the agent's side.

mod support;

use std::fs;
use std::process::Stdio;
use std::time::Duration;

use dpb_core::measure::{Evidence, Outcome, Store, Value};
use dpb_dbmods::duckdb::Library;
use support::{
    Agent, bound_by_permissions, csv, dpb, finish, make_data, records, runs, sweep, sweep_command,
    text, wait_until,
};

/// Runs that succeeded or had no DuckDB to run.
fn done_or_unsupported(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Done | Outcome::Unsupported { .. })
}

#[test]
fn scans_run_on_the_backend_that_is_asked_for() {
    let mut checks = Vec::new();
    for backend in ["cpu/best", "cpu/portable", "pool/2", "faulty/flips_ppm=0"] {
        let ran = finish(&[
            "pushdown",
            "--sf",
            "0.01",
            "--schemes",
            "dpb",
            "--threads",
            "2",
            "--selectivity",
            "0.1",
            "--repeat",
            "1",
            "--format",
            "json",
            "--backend",
            backend,
        ]);
        assert!(ran.status.success(), "{}", text(&ran.stderr));
        let [record] = &records(&ran)[..] else {
            panic!("one record");
        };
        assert_eq!(record.parameters["backend"], Value::Text(backend.into()));
        checks.push(record.check.clone().unwrap());
    }
    assert!(checks.windows(2).all(|pair| pair[0] == pair[1]));
}

#[test]
fn every_scheme_agrees_and_leaves_records() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("sweep.jsonl");
    let out_text = out.to_str().unwrap();
    let ran = finish(&[
        "pushdown",
        "--sf",
        "0.01",
        "--threads",
        "1,2",
        "--selectivity",
        "0.01,0.2",
        "--repeat",
        "2",
        "--format",
        "json",
        "--out",
        out_text,
    ]);
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    let records = records(&ran);
    assert_eq!(records.len(), 2 * 2 * 4);
    for record in &records {
        assert!(done_or_unsupported(&record.outcome), "{:?}", record.outcome);
        assert_eq!(record.evidence, Evidence::of_this_cpu());
        if record.outcome == Outcome::Done {
            let is_ours = record.parameters["scheme"] == Value::Text("dpb".into());
            let libraries = &record.provenance.libraries;
            assert_eq!(libraries.is_empty(), is_ours);
            assert!(libraries.values().all(|version| version.starts_with('v')));
            let rows = record.check.as_ref().unwrap().compared;
            assert!(rows > 0);
            assert_eq!(record.counts["tuples"], 2 * 60_175);
            assert!(record.counts["wire_bytes_from_agent"] > 0);
            assert!(record.summary["tuples_per_s"].median > 0.0);
            // A file that was fetched lies in the client's memory.
            if record.parameters["scheme"] == Value::Text("fetch".into()) {
                let file_bytes = (record.counts["wire_bytes_from_agent"] / 2) as f64;
                assert!(record.summary["client_added_bytes"].median > 0.99 * file_bytes);
            }
        }
    }
    let ours = records
        .iter()
        .filter(|r| r.parameters["scheme"] == Value::Text("dpb".into()));
    assert!(ours.clone().count() == 4 && ours.clone().all(|r| r.outcome == Outcome::Done));
    // A fifth of the rows, and a hundredth: the condition does what it was picked for.
    let rows: Vec<u64> = ours.map(|r| r.counts["rows"] / 2).collect();
    assert!(
        rows.iter()
            .all(|&n| n == rows[0] || (rows[0]..60_175).contains(&n))
    );
    assert!(
        rows.contains(&rows[0]) && (500..800).contains(&rows[0]),
        "{rows:?}"
    );
    let kept = dpb_core::measure::Reading::of_file(&out).unwrap();
    assert_eq!(kept.records.len(), records.len());
    assert!(kept.damaged.is_empty());
    // The file can be appended to again.
    Store::open(&out, dpb_core::measure::Durability::Process).unwrap();
}

#[test]
fn every_table_of_tpch_can_be_pushed_down() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().to_str().unwrap();
    for table in dpb_dbmods::tpch::TABLES {
        let ran = sweep(&["--table", table, "--selectivity", "0.4", "--data-dir", dir]);
        assert!(ran.status.success(), "{table}: {}", text(&ran.stderr));
        let records = records(&ran);
        assert_eq!(records.len(), 4, "{table}");
        for record in &records {
            assert!(done_or_unsupported(&record.outcome), "{:?}", record.outcome);
            assert_eq!(record.parameters["table"], Value::Text(table.into()));
        }
        // Most rows of some, so the condition was one of that table.
        let ours = records.last().unwrap();
        let (rows, tuples) = (ours.counts["rows"], ours.counts["tuples"]);
        assert!(0 < rows && rows < tuples, "{table}: {rows} of {tuples}");
    }
    let refused = sweep(&["--table", "orders", "--query", "q6", "--data-dir", dir]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("q6 asks about lineitem"));
    let refused = sweep(&["--table", "customers", "--data-dir", dir]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("customer"));
    // A box gives the parameter, too.
    let path = folder.path().join("box.json");
    let tasks = r#"{ "tasks": [{ "task": "pushdown", "parameters": { "table": ["nation", "region"], "sf": 0.01, "threads": 1,
        "selectivity": 0.4, "schemes": "dpb" } }], "repeats": 1 }"#;
    fs::write(&path, tasks).unwrap();
    let ran = dpb(&["run", path.to_str().unwrap(), "--data-dir", dir])
        .current_dir(&folder)
        .output()
        .unwrap();
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    let kept = support::boxes::records(&folder.path().join("box-results"));
    let tables: Vec<&Value> = kept.iter().map(|one| &one.parameters["table"]).collect();
    let both = ["nation", "region"].map(|table| Value::Text(table.into()));
    assert_eq!(tables, both.each_ref());
}

#[test]
fn conditions_columns_and_aggregates_agree() {
    let cases: &[&[&str]] = &[
        &["--query", "q6", "--aggregate", "q6"],
        &["--query", "q1", "--aggregate", "q1"],
        &["--query", "q19", "--columns", "l_orderkey, l_shipmode"],
        &[
            "--where",
            "l_comment LIKE '%special%' AND l_commitdate < l_receiptdate OR l_tax * 2 = l_discount",
            "--columns",
            "l_comment, l_tax",
        ],
        &["--where", "l_quantity > 1000", "--cold"],
        &["--query", "q6", "--cache", "0"],
        &["--query", "q14", "--link-gbps", "1"],
    ];
    for case in cases {
        let ran = sweep(case);
        let said = text(&ran.stderr);
        if case.contains(&"--cold") && said.contains("tmpfs") {
            println!("skipped: {said}");
            continue;
        }
        assert!(ran.status.success(), "{case:?}: {said}");
        for record in records(&ran) {
            assert!(
                done_or_unsupported(&record.outcome),
                "{case:?}: {:?}",
                record.outcome
            );
            // A pace stands for a link that is not there.
            assert_eq!(
                record.evidence.kind() == "emulated",
                case.contains(&"--link-gbps") || Evidence::of_this_cpu().kind() == "emulated",
                "{case:?}"
            );
        }
    }
}

#[test]
fn groups_that_are_asked_for_replace_a_querys_own() {
    let output_of = |groups: &[&str]| {
        let question = ["--schemes", "dpb", "--aggregate", "q1"];
        let ran = sweep(&[&question[..], groups].concat());
        assert!(ran.status.success(), "{}", text(&ran.stderr));
        match &records(&ran)[0].parameters["output"] {
            Value::Text(output) => output.clone(),
            other => panic!("{other:?}"),
        }
    };
    let own = output_of(&[]);
    assert!(own.ends_with(" by l_returnflag, l_linestatus"), "{own}");
    let asked = output_of(&["--group-by", "l_shipmode"]);
    assert!(asked.ends_with(" by l_shipmode"), "{asked}");
}

#[test]
fn a_file_that_stays_in_memory_makes_no_cold_run() {
    let Ok(folder) = tempfile::tempdir_in("/dev/shm") else {
        println!("skipped: no /dev/shm");
        return;
    };
    let memory = folder.path().to_str().unwrap();
    let ran = sweep(&["--cold", "--data-dir", memory]);
    let said = text(&ran.stderr);
    assert_eq!(ran.status.code(), Some(3), "{said}");
    assert!(said.contains("tmpfs") && said.contains("--cold"), "{said}");
    for record in records(&ran) {
        let Outcome::Unsupported { reason } = &record.outcome else {
            panic!("{:?}", record.outcome);
        };
        assert!(
            reason.contains("stay in memory") || reason.contains("DUCKDB"),
            "{reason}"
        );
        assert!(record.summary.is_empty());
    }
}

#[test]
fn without_duckdb_ours_is_checked_by_the_reference_evaluator() {
    make_data("0.01");
    let nowhere = tempfile::tempdir().unwrap();
    let ran = sweep_command(&[])
        .env("DUCKDB_LIB_DIR", nowhere.path())
        .output()
        .unwrap();
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    let records = records(&ran);
    assert_eq!(records.len(), 4);
    for record in &records[..3] {
        let Outcome::Unsupported { reason } = &record.outcome else {
            panic!("{:?}", record.outcome);
        };
        assert!(reason.contains("DUCKDB_LIB_DIR"), "{reason}");
        assert!(record.summary.is_empty());
    }
    assert_eq!(records[3].outcome, Outcome::Done);
    let check = records[3].check.as_ref().unwrap();
    assert!(check.against.contains("reference evaluator"), "{check:?}");
}

#[test]
fn the_table_and_csv_have_a_row_a_scheme() {
    for (format, separator) in [("table", "  "), ("csv", ",")] {
        let ran = finish(&[
            "pushdown",
            "--sf",
            "0.01",
            "--threads",
            "1",
            "--repeat",
            "1",
            "--format",
            format,
            "--out",
            "/dev/null",
            "--explain",
        ]);
        assert!(ran.status.success(), "{}", text(&ran.stderr));
        let shown = text(&ran.stdout);
        let (notes, lines): (Vec<&str>, Vec<&str>) =
            shown.lines().partition(|line| line.starts_with('['));
        assert_eq!(lines.len(), 5, "{shown}");
        // One run is too few to judge: the table says so beneath, once if nothing differs, CSV in its row.
        let judged = if format == "table" { 1..=4 } else { 0..=0 };
        assert!(judged.contains(&notes.len()), "{shown}");
        assert!(notes.iter().all(|note| note.contains("too few to judge")));
        assert!(lines[0].contains(&format!(
            "scheme{}",
            if format == "csv" { "," } else { " " }
        )));
        assert!(lines[4].contains(separator) && lines[4].contains("dpb"));
        assert!(text(&ran.stderr).contains("sampled rows pass"));
    }
}

#[test]
fn csv_says_what_the_records_say() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("records.jsonl");
    let ran = finish(&[
        "pushdown",
        "--sf",
        "0.01",
        "--threads",
        "1,2",
        "--repeat",
        "2",
        "--format",
        "csv",
        "--out",
        out.to_str().unwrap(),
    ]);
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    let rows = csv(&text(&ran.stdout));
    let (titles, rows) = rows.split_first().unwrap();
    let unique: std::collections::BTreeSet<&String> = titles.iter().collect();
    assert_eq!(
        unique.len(),
        titles.len(),
        "each column has a name of its own"
    );
    let records = dpb_core::measure::Reading::of_file(&out).unwrap().records;
    assert_eq!((rows.len(), records.len()), (8, 8));
    for (row, line) in rows.iter().zip(&records) {
        let record = &line.record;
        assert_eq!(row.len(), titles.len());
        let cell = |title: &str| {
            let at = titles.iter().position(|name| name == title);
            row[at.expect(title)].as_str()
        };
        let Value::Text(scheme) = &record.parameters["scheme"] else {
            panic!("{record:?}");
        };
        assert!(cell("scheme").starts_with(scheme.as_str()));
        assert_eq!(
            Value::Int(cell("threads").parse().unwrap()),
            record.parameters["threads"]
        );
        if let Outcome::Unsupported { reason } = &record.outcome {
            assert!(cell("verdict").contains(reason.as_str()), "{row:?}");
            assert_eq!((cell("rows"), cell("tuples/s")), ("", ""));
            continue;
        }
        assert_eq!(
            cell("rows").parse::<u64>().unwrap() * 2,
            record.counts["rows"]
        );
        let cpu_s: f64 = cell("CPU s client").parse().unwrap();
        assert!((cpu_s - record.summary["client_cpu_s"].median).abs() <= 0.0005);
        let mb: f64 = cell("MB on wire").parse().unwrap();
        let bytes = record.counts["wire_bytes_from_agent"] + record.counts["wire_bytes_to_agent"];
        assert!((mb - bytes as f64 / 2e6).abs() <= 0.01, "{mb} {bytes}");
        let stability = record.stability.as_ref().unwrap();
        assert!(
            stability
                .reasons
                .iter()
                .all(|reason| cell("verdict").contains(reason.as_str()))
        );
    }
}

#[test]
fn wrong_usage_is_refused_before_anything_runs() {
    let cases: &[(&[&str], &str)] = &[
        (&["--threads", "0"], "0 is too few"),
        (&["--sf", "-1"], "scale factor"),
        (&["--sf", "NaN"], "scale factor"),
        (&["--sf", "1e300"], "scale factor"),
        (&["--selectivity", "1.5"], "above 0 and at most 1"),
        (
            &["--schemes", "carrier-pigeon"],
            "there are fetch, duckdb-at-dpu, dpb",
        ),
        (&["--query", "q7"], "q1, q6, q14, q19"),
        (&["--where", "l_shipdat < DATE '1995-01-01'"], "l_shipdate"),
        (&["--where", "l_tax < 0.05 AND"], "--where"),
        (&["--columns", "l_tax, l_nothing"], "l_nothing"),
        (&["--aggregate", "median(l_tax)"], "--aggregate"),
        (&["--link-gbps", "-3"], "--link-gbps"),
        (&["--where", "true", "--query", "q1"], "cannot be used with"),
    ];
    let dir = tempfile::tempdir().unwrap();
    for (case, words) in cases {
        let mut args = vec!["pushdown", "--data-dir", dir.path().to_str().unwrap()];
        args.extend(*case);
        let refused = finish(&args);
        let said = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{case:?}: {said}");
        assert!(said.contains(words), "{case:?}: {said}");
        assert!(refused.stdout.is_empty());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "{case:?}");
    }
    // A box says where in the file.
    let file = dir.path().join("box.json");
    let wrong = r#"{ "tasks": [{ "task": "pushdown", "parameters": { "sf": 1e300 } }] }"#;
    fs::write(&file, wrong).unwrap();
    let refused = finish(&["run", "--dry-run", file.to_str().unwrap()]);
    let said = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(
        said.contains("tasks[0]") && said.contains("scale factor"),
        "{said}"
    );
}

#[test]
fn an_unknown_column_is_pointed_at() {
    let refused = finish(&["pushdown", "--where", "l_tax < 0.05 AND l_shipdat IS NULL"]);
    let said = text(&refused.stderr);
    let lines: Vec<&str> = said.lines().collect();
    let at = lines
        .iter()
        .position(|line| line.contains("AND l_shipdat"))
        .expect(&said);
    let column = lines[at].find("l_shipdat").unwrap();
    assert_eq!(lines[at + 1].find('^'), Some(column), "{said}");
}

#[test]
fn too_little_disk_is_found_out_before_the_run() {
    let refused = finish(&["pushdown", "--sf", "10000", "--out", "/dev/null"]);
    let said = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(3), "{said}");
    assert!(said.contains("needs") && said.contains("free"), "{said}");
}

#[test]
fn too_little_disk_for_both_copies_is_found_out_before_either_is_made() {
    if Library::find().is_err() {
        println!("skipped: without DuckDB there is one copy");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let space = rustix::fs::statvfs(dir.path()).unwrap();
    // Room for our segment, some 180 MB at scale factor 1, but not for DuckDB's 400 MB beside it.
    let sf = (space.f_bavail * space.f_frsize) as f64 / 300e6;
    if sf > 10_000.0 {
        println!("skipped: this disk has room for the largest scale factor");
        return;
    }
    // As dpb writes it: 70, not 70.0.
    let sf = ((10.0 * sf).round() / 10.0).to_string();
    let mut child = dpb(&["pushdown", "--sf", &sf, "--data-dir"])
        .arg(dir.path())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let has_ended = wait_until(Duration::from_secs(20), || !runs(child.id()));
    if !has_ended {
        child.kill().unwrap();
    }
    let output = child.wait_with_output().unwrap();
    let said = text(&output.stderr);
    assert!(has_ended, "it makes what does not fit: {said}");
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains(&format!("--sf {sf} needs ")), "{said}");
    assert!(said.contains("--schemes dpb"), "{said}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_damaged_table_is_said_by_the_agent_and_made_anew_here() {
    let dir = tempfile::tempdir().unwrap();
    let data_dir = dir.path().to_str().unwrap();
    let made = finish(&[
        "data",
        "--sf",
        "0.01",
        "--tables",
        "nation,lineitem",
        "--data-dir",
        data_dir,
    ]);
    assert!(made.status.success(), "{}", text(&made.stderr));
    let set = dpb_dbmods::tpch::find(dir.path(), 0.01);
    let damage = |table: &str| {
        let mut bytes = std::fs::read(set.path(table)).unwrap();
        let last = bytes.len() - 9;
        bytes[last] ^= 1;
        std::fs::write(set.path(table), bytes).unwrap();
    };
    damage("nation");
    let agent = Agent::start(&["--data-dir", data_dir]);
    let asked = |way: [&str; 2]| {
        let question = ["--query", "q6", "--schemes", "dpb"];
        sweep(&[&question[..], &way].concat())
    };
    // Not asked for, so it stands in nobody's way.
    let there = asked(["--server", &agent.address]);
    assert!(there.status.success(), "{}", text(&there.stderr));
    drop(agent);
    damage("lineitem");
    let agent = Agent::start(&["--data-dir", data_dir]);
    let there = asked(["--server", &agent.address]);
    let said = text(&there.stderr);
    assert_eq!(there.status.code(), Some(1), "{said}");
    assert!(said.contains("lineitem.dpbseg: footer: checksum"), "{said}");

    let here = asked(["--data-dir", data_dir]);
    let said = text(&here.stderr);
    assert!(here.status.success(), "{said}");
    assert!(said.contains("lineitem.dpbseg: footer: checksum"), "{said}");
    assert!(said.contains("made anew"), "{said}");
}

#[test]
fn a_full_disk_under_the_records_is_said() {
    let ran = finish(&[
        "pushdown",
        "--sf",
        "0.01",
        "--threads",
        "1",
        "--repeat",
        "1",
        "--schemes",
        "dpb",
        "--format",
        "json",
        "--out",
        "/dev/full",
    ]);
    let said = text(&ran.stderr);
    assert_eq!(ran.status.code(), Some(1), "{said}");
    assert!(said.contains("/dev/full"), "{said}");
}

#[test]
fn more_threads_than_cores_is_said_once() {
    let cpus = std::thread::available_parallelism().unwrap().get();
    let many = (cpus * 4).to_string();
    // A first run, which makes data.
    let folder = tempfile::tempdir().unwrap();
    let ran = finish(&[
        "pushdown",
        "--data-dir",
        folder.path().to_str().unwrap(),
        "--sf",
        "0.01",
        "--threads",
        &many,
        "--repeat",
        "1",
        "--format",
        "json",
        "--out",
        "/dev/null",
    ]);
    let said = text(&ran.stderr);
    assert!(ran.status.success(), "{said}");
    let words = format!("{many} threads share {cpus} cores");
    assert_eq!(said.matches(&words).count(), 1, "{said}");
}

#[test]
fn a_data_folder_without_permission_is_named() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o500)).unwrap();
    let path = folder.path().to_str().unwrap();
    let args = ["pushdown", "--sf", "0.01", "--data-dir", path];
    let Ok(ran) = bound_by_permissions(&args).output() else {
        println!(
            "skipped: permissions do not bind root, and there is no setpriv (Debian: util-linux)"
        );
        return;
    };
    let said = text(&ran.stderr);
    assert!(matches!(ran.status.code(), Some(1 | 3)), "{said}");
    assert!(said.contains(path), "{said}");
}
