//! `dpb storage`, the real program: sweeps, damage that is found, files that are left alone or not left behind, fio beside it.

mod support;

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use dpb_core::measure::latency::Latencies;
use dpb_core::measure::{Outcome, Record};
use support::text;

const TIMES: [&str; 6] = ["--seconds", "20ms", "--warm-up", "1ms", "--repeat", "2"];
const SMALL: [&str; 2] = ["--file-size", "4MiB"];

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("file")
    }

    fn is_empty(&self) -> bool {
        fs::read_dir(self.0.path()).expect("there").next().is_none()
    }

    /// Runs it on the file.
    fn storage(&self, args: &[&str]) -> Output {
        let file = self.file();
        let file = file.to_str().expect("UTF-8");
        support::finish(&[&["storage", "--file", file], &SMALL[..], args, &TIMES].concat())
    }

    fn records(&self, args: &[&str]) -> Vec<Record> {
        let output = self.storage(args);
        assert!(output.status.success(), "{}", text(&output.stderr));
        support::records(&output)
    }
}

fn of(record: &Record, name: &str) -> String {
    record
        .parameters
        .get(name)
        .map_or(String::new(), ToString::to_string)
}

#[test]
fn a_sweep_has_a_record_for_each_test_with_latencies_and_leaves_nothing() {
    let place = Place::new();
    let swept = place.records(&[
        "--engine",
        "sync",
        "--block",
        "8KiB,64KiB",
        "--jobs",
        "1,2",
        "--access",
        "read,write,mixed",
    ]);
    assert_eq!(swept.len(), 2 * 2 * 3 * 2);
    assert!(place.is_empty());
    for record in &swept {
        assert_eq!(
            (record.task.as_str(), &record.outcome),
            ("storage", &Outcome::Done),
            "{record:?}"
        );
        assert_eq!(of(record, "tool"), "dpb");
        let counts = |name: &str| record.counts[name];
        let items = counts("reads") + counts("writes");
        let block: u64 = of(record, "block").parse().expect("a number");
        assert_eq!(
            counts("bytes_read") + counts("bytes_written"),
            items * block
        );
        let hdr = record.samples["latency_ns"]
            .hdr
            .as_deref()
            .expect("a histogram");
        let latencies = Latencies::from_base64(hdr).expect("HDR");
        assert_eq!(latencies.count(), items);
        for name in ["p50", "p90", "p99", "p999", "max", "mean"] {
            assert!(record.summary[&format!("latency_ns_{name}")].median > 0.0);
        }
        assert!(record.summary["cpu_ns_per_item"].median > 0.0);
        assert!(record.check.as_ref().expect("checked").compared > 0);
        let access = of(record, "access");
        assert_eq!(counts("reads") > 0, access != "write", "{access}");
        assert_eq!(counts("writes") > 0, access != "read", "{access}");
        assert_eq!(
            record.samples.contains_key("read_latency_ns"),
            access == "mixed"
        );
    }
}

#[test]
fn single_values_do_as_a_box_of_tests_gives_them() {
    let place = Place::new();
    for engine in ["io_uring", "libaio", "sync"] {
        let output = place.storage(&[
            "--engine",
            engine,
            "--pattern",
            "random",
            "--access",
            "mixed",
            "--read-share",
            "50%",
            "--block",
            "4KiB",
            "--depth",
            if engine == "sync" { "1" } else { "4" },
            "--jobs",
            "1",
            "--direct",
            "no",
            "--registered",
            "no",
            "--fsync",
            "8",
            "--verify",
            "yes",
            "--seed",
            "3",
        ]);
        let records = support::records(&output);
        assert_eq!(records.len(), 1);
        match &records[0].outcome {
            Outcome::Done => {
                let record = &records[0];
                assert!(record.counts["fsyncs"] > 0);
                assert_eq!(
                    (
                        of(record, "read_share").as_str(),
                        of(record, "fsync").as_str()
                    ),
                    ("0.5", "8")
                );
                assert_eq!(of(record, "verify"), "true");
            }
            Outcome::Unsupported { reason } => println!("skipped: {engine}: {reason}"),
            other => panic!("{other:?}"),
        }
    }
    assert!(place.is_empty());
}

#[test]
fn a_damaged_block_fails_the_test_and_is_named() {
    let place = Place::new();
    let read = [
        "--engine",
        "sync",
        "--access",
        "read",
        "--pattern",
        "sequential",
        "--block",
        "8KiB",
        "--keep",
        "--verify",
    ];
    place.records(&read);
    let file = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(place.file())
        .expect("kept");
    // The second unit of the block at 81920.
    let at = 81_920 + 4096 + 3000;
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).expect("read");
    file.write_all_at(&[!byte[0]], at).expect("written");
    let output = place.storage(&read);
    assert_eq!(output.status.code(), Some(1));
    let records = support::records(&output);
    assert!(
        records[0].summary.is_empty() && records[0].samples.is_empty(),
        "no number"
    );
    assert!(
        matches!(&records[0].outcome, Outcome::Failed { reason } if reason.contains("byte 86016") && reason.contains("damaged"))
    );
    let said = text(&output.stderr);
    assert!(
        said.contains("byte 86016") && said.contains(place.file().to_str().expect("UTF-8")),
        "{said}"
    );
    // Mended, it is right again: the file was used as it was, not laid out anew.
    file.write_all_at(&byte, at).expect("written");
    place.records(&read);
}

#[test]
fn what_dpb_did_not_make_is_not_written_to() {
    let place = Place::new();
    let contents = vec![5; 4 << 20];
    fs::write(place.file(), &contents).expect("written");
    let output = place.storage(&["--engine", "sync"]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    assert!(output.stdout.is_empty() && text(&output.stderr).contains("did not make"));
    assert!(fs::read(place.file()).expect("read") == contents);
}

#[test]
fn a_device_is_only_written_to_if_it_was_named_twice() {
    let refused = |args: &[&str], why: &str| {
        let output = support::finish(&[&["storage"], args, &SMALL[..], &TIMES].concat());
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(output.stdout.is_empty() && said.contains(why), "{said}");
    };
    refused(
        &["--device", "/dev/no-such", "--access", "write"],
        "--i-know-this-destroys",
    );
    refused(
        &[
            "--device",
            "/dev/no-such",
            "--access",
            "write",
            "--i-know-this-destroys",
            "/dev/other",
        ],
        "names another device",
    );
    refused(
        &["--device", "/dev/no-such", "--access", "read", "--verify"],
        "cannot be verified",
    );
    refused(
        &[
            "--i-know-this-destroys",
            "/dev/no-such",
            "--access",
            "write",
        ],
        "--device",
    );
    refused(
        &["--device", "/dev/null", "--access", "read"],
        "no block device",
    );
    refused(
        &[
            "--device",
            "/dev/null",
            "--access",
            "write",
            "--i-know-this-destroys",
            "/dev/null",
        ],
        "no block device",
    );
    refused(
        &["--device", "/dev/null", "--file", "x"],
        "cannot be used with",
    );
}

#[test]
fn a_device_is_read() {
    let devices = fs::read_dir("/sys/block").expect("sysfs").flatten();
    let path = |device: fs::DirEntry| Path::new("/dev").join(device.file_name());
    let is_readable = |path: &PathBuf| {
        let mut byte = [0];
        fs::File::open(path)
            .and_then(|file| file.read_exact_at(&mut byte, 0))
            .is_ok()
    };
    let Some(device) = devices.map(path).find(is_readable) else {
        println!("skipped: no block device can be read here; run as root");
        return;
    };
    let device = device.to_str().expect("UTF-8");
    let args = [
        "storage", "--device", device, "--engine", "sync", "--block", "8KiB",
    ];
    let output = support::finish(&[&args[..], &SMALL, &TIMES].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    for record in support::records(&output) {
        assert_eq!(
            (
                of(&record, "device").as_str(),
                of(&record, "access").as_str()
            ),
            (device, "read")
        );
        assert_eq!(
            record.check.expect("said").compared,
            0,
            "what it holds is not known"
        );
    }
}

#[test]
fn what_cannot_be_is_refused_before_anything_runs() {
    let place = Place::new();
    let refused = |args: &[&str], code: i32, why: &str| {
        let output = place.storage(args);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(output.stdout.is_empty() && said.contains(why), "{said}");
        assert!(place.is_empty());
    };
    refused(&["--block", "1000"], 2, "multiples of 512");
    refused(&["--direct", "perhaps"], 2, "neither yes nor no");
    refused(&["--fsync", "always"], 2, "always");
    let file = place.file();
    let file = file.to_str().expect("UTF-8");
    let output = support::finish(&["storage", "--file", file, "--file-size", "1000TiB"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(text(&output.stderr).contains("are free in") && place.is_empty());
    let lost = place.0.path().join("no/such/file");
    let output = support::finish(&[
        "storage",
        "--file",
        lost.to_str().expect("UTF-8"),
        "--file-size",
        "4MiB",
    ]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("mkdir"));
}

#[test]
fn direct_requests_are_measured_or_a_finding() {
    let place = Place::new();
    let output = place.storage(&[
        "--engine", "sync", "--block", "8KiB", "--direct", "--access", "read",
    ]);
    for record in support::records(&output) {
        assert_eq!(of(&record, "direct"), "true");
        match &record.outcome {
            Outcome::Done => assert!(record.check.is_some_and(|check| check.compared > 0)),
            Outcome::Unsupported { reason } => println!("skipped: direct requests: {reason}"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn an_interrupt_leaves_records_and_no_file() {
    let place = Place::new();
    let file = place.file();
    let file = file.to_str().expect("UTF-8");
    let args = [
        "storage",
        "--file",
        file,
        "--engine",
        "sync",
        "--seconds",
        "1h",
        "--file-size",
        "4MiB",
    ];
    let mut child = support::dpb(&args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("dpb starts");
    // It is at work once it has threads that measure.
    let patience = Instant::now() + Duration::from_secs(60);
    let tasks = format!("/proc/{}/task", child.id());
    let measures = || {
        let names = fs::read_dir(&tasks).into_iter().flatten().flatten();
        let mut names = names.filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
        names.any(|name| name.starts_with("dpb-micro"))
    };
    while !measures() {
        assert!(Instant::now() < patience && child.try_wait().expect("asked").is_none());
        std::thread::sleep(Duration::from_millis(5));
    }
    let pid = child.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-INT", &pid])
            .status()
            .expect("kill starts")
            .success()
    );
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    assert!(place.is_empty());
    let records = support::records(&output);
    assert_eq!(records.len(), 1);
    assert_eq!(records[0].outcome, Outcome::Interrupted);
}

#[test]
fn fio_beside_has_records_of_its_own_on_the_same_file() {
    if Command::new("fio").arg("--version").output().is_err() {
        println!("skipped: fio is not here; apt-get install fio");
        return;
    }
    let place = Place::new();
    let records = place.records(&[
        "--engine",
        "sync",
        "--block",
        "8KiB",
        "--pattern",
        "random",
        "--access",
        "read,write,mixed",
        "--beside",
    ]);
    let kinds: Vec<String> = records
        .iter()
        .map(|record| {
            ["access", "tool", "direction"]
                .map(|name| of(record, name))
                .join(" ")
        })
        .collect();
    let expected = [
        "read dpb ",
        "read fio ",
        "write dpb ",
        "write fio ",
        "mixed dpb ",
        "mixed fio read",
        "mixed fio write",
    ];
    assert_eq!(kinds, expected);
    for record in records.iter().filter(|record| of(record, "tool") == "fio") {
        assert_eq!(record.outcome, Outcome::Done);
        let figure = |name: &str| record.summary[name].median;
        assert_eq!(record.samples["items_per_s"].values.len(), 2);
        // By fio's own count.
        assert!((figure("bytes_per_s") / figure("items_per_s") / 8192.0 - 1.0).abs() < 0.01);
        assert!(record.provenance.libraries.contains_key("fio"));
    }
    // What fio has written was laid out anew: the mixed test of dpb's would have found it.
    assert!(place.is_empty());
}
