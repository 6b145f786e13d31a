//! `dpb data` as a process: killed, interrupted, short of disk, at the same time as another, and misused.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use dpb_dbmods::tpch::{self, TABLES};

fn dpb(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dpb"));
    command.arg("data").args(args).arg("--data-dir").arg(dir);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Runs to the end; the exit code and what it said on stderr.
fn run(dir: &Path, args: &[&str]) -> (i32, String) {
    let Output { status, stderr, .. } = dpb(dir, args).output().unwrap();
    (
        status.code().expect("not killed"),
        String::from_utf8(stderr).unwrap(),
    )
}

/// Files whose name says that they are not finished.
fn temporaries(dir: &Path, sf: f64) -> Vec<std::path::PathBuf> {
    let Ok(entries) = fs::read_dir(tpch::set_dir(dir, sf)) else {
        return Vec::new();
    };
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .filter(|path| path.extension().is_some_and(|extension| extension == "tmp"))
        .collect()
}

/// Waits until some of a table is written, or the process has ended.
fn wait_for_rows(child: &mut Child, dir: &Path, sf: f64) {
    let started = Instant::now();
    let written = |path| fs::metadata(path).is_ok_and(|metadata| metadata.len() > 64);
    while child.try_wait().unwrap().is_none() && !temporaries(dir, sf).into_iter().any(written) {
        assert!(
            started.elapsed() < Duration::from_secs(60),
            "nothing is written"
        );
        std::thread::sleep(Duration::from_micros(200));
    }
}

#[test]
fn killed_at_any_moment_nothing_half_made_is_found_later() {
    const SF: f64 = 0.03;
    let args = ["--sf", "0.03", "--tables", "nation,orders,lineitem"];
    let (reference, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let started = Instant::now();
    assert_eq!(run(reference.path(), &args), (0, String::new()));
    let whole_us = started.elapsed().as_micros() as u64;
    let expected = tpch::find(reference.path(), SF);

    let mut random = 0x2545_F491_4F6C_DD1D_u64;
    let mut next = |below: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % below
    };
    // Emulated, a run takes half a minute.
    let is_emulated = std::env::var_os("DPB_QEMU").is_some();
    let kills = if is_emulated { 4 } else { 12 };
    let (mut killed, mut ended) = (0, 0);
    // How long a run takes changes with the machine's load: aim earlier after each that ended first.
    let mut span_us = whole_us;
    while killed < kills {
        let round = killed + ended;
        assert!(round < 200, "{killed} killed, {ended} ended before");
        let mut child = dpb(dir.path(), &args).spawn().unwrap();
        // Most of a run goes by before the first row is written; aim at both times.
        if round % 3 == 0 {
            std::thread::sleep(Duration::from_micros(next(span_us)));
        } else {
            wait_for_rows(&mut child, dir.path(), SF);
            std::thread::sleep(Duration::from_micros(next(span_us / 6 + 1)));
        }
        child.kill().unwrap();
        match child.wait().unwrap().success() {
            true => {
                ended += 1;
                span_us = span_us * 3 / 4 + 100;
            }
            false => killed += 1,
        }
        let found = tpch::find(dir.path(), SF);
        for table in &found.tables {
            found.open(&table.name).unwrap().verify().unwrap();
            let same = expected.table(&table.name).unwrap();
            assert_eq!(
                (table.rows, table.crc32c),
                (same.rows, same.crc32c),
                "{}",
                table.name
            );
        }
        if found.tables.len() == 3 {
            tpch::remove(
                dir.path(),
                SF,
                &["lineitem", "orders"],
                &dpb_core::WallClock::default(),
            )
            .unwrap();
        }
    }
    assert_eq!(run(dir.path(), &args), (0, String::new()));
    assert!(temporaries(dir.path(), SF).is_empty());
    for table in &expected.tables {
        let read = |set: &tpch::TableSet| fs::read(set.path(&table.name)).unwrap();
        assert!(
            read(&tpch::find(dir.path(), SF)) == read(&expected),
            "{}",
            table.name
        );
    }
}

#[test]
fn interrupted_it_keeps_what_is_whole_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let mut child = dpb(dir.path(), &["--sf", "2", "--tables", "nation,lineitem"])
        .spawn()
        .unwrap();
    wait_for_rows(&mut child, dir.path(), 2.0);
    while tpch::find(dir.path(), 2.0).table("nation").is_none() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let status = child.wait().unwrap();
    let mut message = String::new();
    child.stderr.unwrap().read_to_string(&mut message).unwrap();
    assert_eq!(status.code(), Some(130), "{message}");
    assert!(message.contains("interrupted"), "{message}");
    assert!(temporaries(dir.path(), 2.0).is_empty());
    assert_eq!(tpch::find(dir.path(), 2.0).tables.len(), 1);
}

#[test]
fn a_full_disk_is_an_error_that_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    // A limit on the size of a file, with its signal ignored, stops a write as a full disk does, and needs no root.
    // Nothing can be written, or only some of the table.
    for blocks in [0, 200] {
        let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$@\"");
        let output = Command::new("sh")
            .args(["-c", &script, "sh", env!("CARGO_BIN_EXE_dpb"), "data"])
            .args(["--sf", "0.01", "--tables", "lineitem", "--data-dir"])
            .arg(dir.path())
            .output()
            .unwrap();
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{message}");
        assert!(
            message.contains("lineitem.dpbseg: File too large"),
            "{message}"
        );
        let left = temporaries(dir.path(), 0.01);
        assert!(left.is_empty(), "{blocks} blocks: {left:?}");
        assert!(tpch::find(dir.path(), 0.01).tables.is_empty());
    }
    assert_eq!(
        run(dir.path(), &["--sf", "0.01", "--tables", "lineitem"]),
        (0, String::new())
    );
}

#[test]
fn two_processes_make_the_same_data_once() {
    let dir = tempfile::tempdir().unwrap();
    let args = ["--sf", "0.02", "--tables", "orders,lineitem"];
    let children: Vec<Child> = (0..3)
        .map(|_| dpb(dir.path(), &args).spawn().unwrap())
        .collect();
    let made: Vec<String> = children
        .into_iter()
        .map(|child| {
            let output = child.wait_with_output().unwrap();
            assert_eq!(output.status.code(), Some(0));
            String::from_utf8(output.stdout).unwrap()
        })
        .collect();
    // Each line has the seconds that its table took to make, so these are three reports of one generation.
    assert!(made[0].contains("\"made_in_s\":"), "{}", made[0]);
    assert!(made.iter().all(|lines| lines == &made[0]), "{made:?}");
}

#[test]
fn what_is_there_is_listed_checked_and_removed() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    assert_eq!(
        run(dir, &["--sf", "0.01", "--tables", "all"]),
        (0, String::new())
    );
    let lines = |args: &[&str]| {
        let output = dpb(dir, args).output().unwrap();
        assert_eq!(output.status.code(), Some(0));
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect::<Vec<serde_json::Value>>()
    };
    let tables = lines(&["--list"]);
    assert_eq!(tables.len(), TABLES.len());
    assert_eq!(
        (&tables[7]["table"], &tables[7]["rows"]),
        (&"lineitem".into(), &60_175.into())
    );
    let columns = lines(&["--sf", "0.01", "--tables", "lineitem", "--columns"]);
    assert_eq!(columns.len(), 16);
    assert_eq!(columns[4]["type"], "DECIMAL(15,2)");
    assert_eq!(
        (&columns[4]["min"], &columns[4]["max"]),
        (&"1.00".into(), &"50.00".into())
    );
    assert_eq!(columns[10]["min"], "1992-01-04");
    assert_eq!(columns[14]["encodings"]["dictionary"], 1);
    assert_eq!(columns[15]["encodings"]["fsst"], 1);

    // One bit in the middle of a file; it has the size that it had, so only reading it tells.
    let path = tpch::find(dir, 0.01).path("orders");
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 16;
    fs::write(&path, bytes).unwrap();
    let (code, message) = run(dir, &["--sf", "0.01", "--verify"]);
    assert_eq!(code, 1, "{message}");
    for part in [
        "orders.dpbseg: column o_comment, row group 0, block ",
        "checksum",
        "--remove",
    ] {
        assert!(message.contains(part), "{message}");
    }
    // Who asks for the table to be there is not told that it is.
    let (code, message) = run(dir, &["--sf", "0.01", "--tables", "orders"]);
    assert_eq!(code, 1, "{message}");
    let is_told = message.contains("column o_comment") && message.contains("--remove");
    assert!(is_told, "{message}");
    assert_eq!(
        run(dir, &["--sf", "0.01", "--tables", "orders", "--remove"]).0,
        0
    );
    assert_eq!(
        run(dir, &["--sf", "0.01", "--tables", "orders", "--verify"]).0,
        3
    );
    // Also beside one that is there; without names, what was made is checked.
    let named = ["--sf", "0.01", "--tables", "lineitem,orders", "--verify"];
    assert_eq!(run(dir, &named).0, 3);
    assert_eq!(run(dir, &["--sf", "0.01", "--verify"]).0, 0);
    assert_eq!(run(dir, &["--sf", "0.01", "--tables", "orders"]).0, 0);
    assert_eq!(run(dir, &["--sf", "0.01", "--verify"]).0, 0);
}

#[test]
fn a_damaged_frame_is_reported_and_made_anew() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let tables = ["--sf", "0.01", "--tables", "nation,lineitem"];
    assert_eq!(run(dir, &tables), (0, String::new()));
    let path = tpch::find(dir, 0.01).path("lineitem");
    let whole = fs::read(&path).unwrap();
    let with_flipped_bit = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 4;
        bytes
    };
    let nation = fs::read(tpch::find(dir, 0.01).path("nation")).unwrap();
    for (damaged, what) in [
        (with_flipped_bit(20), "lineitem.dpbseg: header: checksum"),
        (
            with_flipped_bit(whole.len() - 9),
            "lineitem.dpbseg: footer: checksum",
        ),
        (
            whole[..whole.len() - 1000].to_vec(),
            "lineitem.dpbseg: header: the file has",
        ),
        (Vec::new(), "lineitem.dpbseg: no segment"),
        (nation, "rows of nation, but manifest.json says"),
    ] {
        fs::write(&path, damaged).unwrap();
        let (code, message) = run(dir, &["--sf", "0.01", "--verify"]);
        assert_eq!(code, 1, "{message}");
        assert!(message.contains(what), "{message}");
        assert!(message.contains("nation: every block"), "{message}");
        let (code, message) = run(dir, &["--list"]);
        assert_eq!(code, 0, "{message}");
        assert!(message.contains(what), "{message}");

        let (code, message) = run(dir, &tables);
        assert_eq!(code, 0, "{message}");
        let is_told = message.contains("lineitem") && message.contains("damaged (");
        assert!(is_told && message.contains("made anew"), "{message}");
        assert!(message.contains(what), "{message}");
        assert!(fs::read(&path).unwrap() == whole);
    }
    fs::remove_file(&path).unwrap();
    let (code, message) = run(dir, &["--sf", "0.01", "--verify"]);
    assert_eq!(code, 1, "{message}");
    assert!(
        message.contains("lineitem.dpbseg is not there"),
        "{message}"
    );
}

#[test]
fn copies_for_duckdb_are_listed_and_removed_with_their_scale_factor() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    assert_eq!(
        run(dir, &["--sf", "0.01", "--tables", "nation,lineitem"]),
        (0, String::new())
    );
    // Of two versions, and what a killed process leaves.
    for copy in [
        "duckdb-v1.4.0/sf0.01",
        "duckdb-v2.0.0/sf0.01",
        "duckdb-v2.0.0/.sf0.01.partial",
        "duckdb-v2.0.0/sf3",
    ] {
        fs::create_dir_all(dir.join(copy)).unwrap();
        fs::write(dir.join(copy).join("lineitem.duckdb"), [1; 2000]).unwrap();
        fs::write(dir.join(copy).join("lineitem.parquet"), [1; 500]).unwrap();
    }
    let listed = || {
        let output = dpb(dir, &["--list"]).output().unwrap();
        assert_eq!(output.status.code(), Some(0));
        let text = String::from_utf8(output.stdout).unwrap();
        let value = |line| serde_json::from_str::<serde_json::Value>(line).unwrap();
        let row = |row: serde_json::Value| {
            format!("{} {} {}", row["scale_factor"], row["kind"], row["table"])
        };
        let rows = text.lines().map(value);
        assert!(
            rows.clone()
                .all(|row| row["kind"] == "segment" || row["bytes"] == 2500),
            "{text}"
        );
        rows.map(row).collect::<Vec<_>>()
    };
    assert_eq!(
        listed(),
        [
            "0.01 \"segment\" \"nation\"",
            "0.01 \"segment\" \"lineitem\"",
            "0.01 \"duckdb v1.4.0\" \"lineitem\"",
            "0.01 \"duckdb v2.0.0\" \"lineitem\"",
            "3.0 \"duckdb v2.0.0\" \"lineitem\"",
        ]
    );
    // They hold lineitem, so another table's going leaves them.
    let remove = |tables| run(dir, &["--sf", "0.01", "--remove", "--tables", tables]);
    assert_eq!(remove("nation").0, 0);
    assert_eq!(listed().len(), 4);
    assert_eq!(remove("lineitem").0, 0);
    assert_eq!(listed(), ["3.0 \"duckdb v2.0.0\" \"lineitem\""]);
    assert!(!dir.join("duckdb-v1.4.0").exists());
    let left = fs::read_dir(dir.join("duckdb-v2.0.0")).unwrap();
    let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["sf3"]);
    let (code, message) = run(dir, &["--sf", "3", "--remove"]);
    assert_eq!((code, message.trim()), (0, "removed 2.50 kB"));
    assert!(!dir.join("duckdb-v2.0.0").exists());
}

#[test]
fn wrong_usage_is_said_before_anything_is_made() {
    let dir = tempfile::tempdir().unwrap();
    for (args, part) in [
        (&["--sf", "-1"][..], "scale factor -1"),
        (&["--sf", "NaN"], "scale factor NaN"),
        (&["--sf", "1e300"], "0.001 to 10000"),
        (&["--sf", "one"], "invalid"),
        (&["--threads", "0"], "0 is too few"),
        (&["--tables", "lineitem,items"], "no table `items`"),
        (&["--list", "--remove"], "cannot be used with"),
    ] {
        let (code, message) = run(dir.path(), args);
        assert_eq!(code, 2, "{message}");
        assert!(message.contains(part), "{message}");
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_part_is_not_made_for_a_process_that_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    let made_for = |parent: u32| {
        let parent = parent.to_string();
        let part = ["--part", "segment", "--sf", "0.01", "--parent", &parent];
        run(dir.path(), &[&part[..], &["--tables", "orders"]].concat())
    };
    let mut gone = Command::new("true").spawn().unwrap();
    gone.wait().unwrap();
    let (code, message) = made_for(gone.id());
    assert_eq!(code, 130, "{message}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    assert_eq!(made_for(std::process::id()).0, 0);
}

#[test]
fn too_little_disk_is_said_with_the_figures() {
    let dir = tempfile::tempdir().unwrap();
    let space = rustix::fs::statvfs(dir.path()).unwrap();
    if space.f_bavail * space.f_frsize > 2_000_000_000_000 {
        println!("skipped: 2 TB are free here, which is enough for --sf 10000");
        return;
    }
    let (code, message) = run(dir.path(), &["--sf", "10000"]);
    assert_eq!(code, 3, "{message}");
    assert!(
        message.contains("--sf 10000 needs 2842 GB in "),
        "{message}"
    );
    assert!(message.contains(" free; "), "{message}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_directory_that_cannot_be_written_is_named() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let closed = dir.path().join("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o555)).unwrap();
    let blocked = if rustix::process::geteuid().is_root() {
        eprintln!("as root, whom permissions do not bind: a file stands in the way instead");
        fs::write(dir.path().join("file"), "").unwrap();
        dir.path().join("file")
    } else {
        closed
    };
    let (code, message) = run(&blocked, &["--sf", "0.01"]);
    assert_eq!(code, 1, "{message}");
    assert!(message.contains(blocked.to_str().unwrap()), "{message}");
    assert!(message.contains("--data-dir"), "{message}");
}
