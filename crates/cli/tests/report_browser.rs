//! The report in a browser: nothing goes wrong in it, nothing is asked for outside, everything is drawn and fits, on a screen, a phone and paper, and
//! the keyboard reaches each record. Where there is no Chromium the test says so and passes, unless `CI=true`: there one is installed, and the test fails.

mod browser;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use browser::Browser;
use dpb_core::measure::latency::Latencies;
use dpb_core::measure::{Durability, Evidence, Outcome, Record, Samples, Stability, Store};

/// Seven runs around a rate.
fn runs(rate: f64) -> Vec<f64> {
    (0..7)
        .map(|run| rate * (1.0 + 0.002 * f64::from(run)))
        .collect()
}

/// A record of one of two machines, in one run of each.
fn record(host: &str, task: &str, evidence: Evidence) -> Record {
    let mut record = Record::new(task, evidence, 1);
    record.provenance.host = host.to_owned();
    record.provenance.run = format!("run of {host}");
    record
}

/// The machines, with their speeds.
const HOSTS: [(&str, f64); 2] = [("host", 1.0), ("dpu", 0.4)];

fn operators(host: &str, speed: f64, records: &mut Vec<Record>) {
    for operator in ["crc32c", "deflate"] {
        for size in [64u64, 256, 1024, 65536] {
            for threads in [1u64, 2, 4, 8] {
                for (backend, factor) in [
                    ("cpu/portable", 1.0),
                    ("cpu/best", 5.0),
                    ("sim/default", 3.0),
                ] {
                    let evidence = match backend {
                        "sim/default" => Evidence::Simulated {
                            model: "default".to_owned(),
                        },
                        _ => Evidence::Measured,
                    };
                    // The DPU is ahead with large pieces of one operator.
                    let ahead = if operator == "deflate" && size > 1024 && host == "dpu" {
                        9.0
                    } else {
                        1.0
                    };
                    let mut record = record(host, "op", evidence)
                        .with("operator", operator)
                        .with("backend", backend)
                        .with("mode", "closed")
                        .with("size", size)
                        .with("threads", threads);
                    let rate = 1e8 * speed * factor * ahead * threads as f64 * (size as f64).log2();
                    record.sample("bytes_per_s", runs(rate));
                    record.sample("items_per_s", runs(rate / size as f64));
                    records.push(record);
                }
            }
        }
    }
}

fn memory(host: &str, speed: f64, records: &mut Vec<Record>) {
    for (pattern, access) in [
        ("random", "read"),
        ("sequential", "read"),
        ("random", "write"),
    ] {
        for (size, rate) in [(16384u64, 4e8), (4 << 20, 2e8), (1 << 30, 3e7)] {
            let mut record = record(host, "memory", Evidence::Measured)
                .with("pattern", pattern)
                .with("access", access)
                .with("size", size)
                .with("threads", 1u64)
                .with("tool", "dpb");
            record.sample("accesses_per_s", runs(rate * speed));
            record.sample("bytes_per_s", runs(8.0 * rate * speed));
            records.push(record);
        }
    }
}

fn latencies(host: &str, speed: f64, records: &mut Vec<Record>) {
    for size in [64u64, 32768] {
        let mut record = record(host, "tcp", Evidence::Measured)
            .with("direction", "echo")
            .with("mode", "closed")
            .with("tool", "dpb")
            .with("size", size)
            .with("depth", 1u64)
            .with("connections", 1u64);
        let mut all = Latencies::default();
        (1..20_000u64)
            .for_each(|at| all.record((20_000.0 / speed) as u64 + at * at * size / 500_000));
        record.samples.insert(
            "latency_ns".to_owned(),
            Samples {
                values: Vec::new(),
                hdr: Some(all.to_base64()),
            },
        );
        record.sample("messages_per_s", runs(4e4 * speed));
        record.sample("latency_ns_mean", runs(26_000.0 / speed));
        record.sample("latency_ns_p50", runs(24_000.0 / speed));
        record.sample("latency_ns_p99", runs(60_000.0 / speed));
        record.sample("latency_ns_p999", runs(90_000.0 / speed));
        record.sample("bytes_per_s", runs(4e4 * speed * size as f64));
        record.sample("client_cpu_ns_per_message", runs(9_000.0 / speed));
        record.sample("server_cpu_ns_per_message", runs(8_000.0 / speed));
        record.stability = Some(Stability {
            stable: size > 64,
            reasons: if size > 64 {
                Vec::new()
            } else {
                vec!["drift of 4 % over the runs".to_owned()]
            },
            disturbed: false,
            cv: Some(0.01),
            core_wait_s: None,
            context_switches_involuntary: None,
            steal_s: None,
        });
        records.push(record);
    }
}

fn pushdown(host: &str, speed: f64, records: &mut Vec<Record>) {
    for (scheme, format, rate) in [("fetch", "parquet", 1e7), ("dpb", "segment", 4e8)] {
        for threads in [1u64, 2] {
            let mut record = record(host, "pushdown", Evidence::Measured)
                .with("scheme", scheme)
                .with("format", format)
                .with("sf", 1.0)
                .with("selectivity", 0.01)
                .with("threads", threads)
                .with("where", "l_comment LIKE '%<b>\"&%'");
            if scheme == "dpb" {
                record = record.with("backend", "cpu/best");
            }
            record.sample("tuples_per_s", runs(rate * speed * threads as f64));
            for (metric, value) in [
                ("run_s", 0.6),
                ("first_batch_s", 0.01),
                ("agent_cpu_s", 0.5),
                ("client_cpu_s", 0.04),
                ("agent_peak_bytes", 3e8),
                ("client_peak_bytes", 4e8),
                ("client_added_bytes", 2e8),
            ] {
                record.sample(metric, runs(value / speed));
            }
            records.push(record);
        }
    }
}

/// The character of operators and programs, by a model.
fn characterized(records: &mut Vec<Record>) {
    let names = [
        "aes-gcm",
        "arithmetic",
        "checksum",
        "crc32c",
        "deflate",
        "lpm4",
        "lz4",
        "rxpmatch",
        "sha256",
        "toeplitz",
    ];
    let programs = [
        "gzip -c {input}",
        "sha256sum {input}",
        "dpb net forward --port memory:0",
    ];
    let named = names.iter().map(|name| ("operator", *name));
    for (at, (kind, name)) in named
        .chain(programs.map(|name| ("program", name)))
        .enumerate()
    {
        let wave = |by: f64| (1.0 + at as f64 * by).sin().abs();
        let evidence = Evidence::Emulated {
            by: "qemu".to_owned(),
        };
        let mut record = record("host", "characterize", evidence)
            .with(kind, name)
            .with("size", 64u64)
            .with("source", "plugin");
        for (metric, value) in [
            ("instructions_per_item", 100.0 * wave(1.0)),
            ("itlb_misses_per_1000", wave(1.3)),
            ("dtlb_misses_per_1000", 5.0 * wave(1.3) + wave(2.1)),
            ("l1d_misses_per_1000", 40.0 * wave(1.7)),
            ("integer_share", 0.5 + 0.3 * wave(0.7)),
            ("branch_share", 0.1 + 0.1 * wave(1.1)),
            ("load_store_share", 0.4 - 0.3 * wave(0.7)),
        ] {
            record.sample(metric, vec![value]);
        }
        records.push(record);
    }
}

/// Advice on an engine with a long name, and the tests that were run for it.
fn advised(records: &mut Vec<Record>) {
    let host = "sim/lanes=1,job_ns=50,item_ns=20,byte_ps=1000,doorbell_ns=0";
    let device = "sim/lanes=4,job_ns=2000,item_ns=5,byte_ps=100,doorbell_ns=300";
    for (backend, factor) in [(host, 1.0), (device, 3.0)] {
        let evidence = Evidence::Simulated {
            model: backend.to_owned(),
        };
        let mut record = record("host", "op", evidence)
            .with("operator", "snappy")
            .with("backend", backend)
            .with("mode", "closed")
            .with("size", 4096u64)
            .with("threads", 1u64);
        record.sample("bytes_per_s", runs(1e8 * factor));
        record.sample("items_per_s", runs(1e8 * factor / 4096.0));
        records.push(record);
    }
    let from = records.iter().rev().take(2).map(|it| it.id.clone());
    let evidence = Evidence::Predicted {
        model: "lines".to_owned(),
        from: from.collect(),
    };
    let mut record = record("host", "advise", evidence)
        .with("operator", "snappy")
        .with("host", host)
        .with("device", device)
        .with("goal", "throughput");
    record.sample("gain", vec![3.0]);
    for (name, text) in [
        (
            "verdict",
            "move from 256 B on, 3.00x [2.90, 3.10]".to_owned(),
        ),
        (
            "would_prove_it_wrong",
            format!(
                "dpb op snappy --backend {device} --size 4096 --threads 1: bytes_per_s 3e8 [2.9e8, 3.1e8]"
            ),
        ),
    ] {
        record.findings.insert(name.to_owned(), text);
    }
    records.push(record);
}

/// A page with a bit of everything.
fn page(folder: &Path) -> PathBuf {
    let mut records = Vec::new();
    for (host, speed) in HOSTS {
        operators(host, speed, &mut records);
        memory(host, speed, &mut records);
        latencies(host, speed, &mut records);
        pushdown(host, speed, &mut records);
    }
    characterized(&mut records);
    advised(&mut records);
    let reason = "needs a BlueField with an engine for DEFLATE; `dpb doctor` says what is missing and what to do about it".to_owned();
    records.push(
        record("dpu", "op", Evidence::Measured)
            .with("operator", "deflate")
            .with("backend", "doca")
            .with("mode", "closed")
            .with("size", 64u64)
            .with("threads", 1u64)
            .without_numbers(Outcome::Unsupported { reason }),
    );
    let path = folder.join("records.jsonl");
    let mut store = Store::open(&path, Durability::Process).expect("a file of records");
    for record in &records {
        store.append(record).expect("written");
    }
    drop(store);
    let page = folder.join("report.html");
    let made = Command::new(env!("CARGO_BIN_EXE_dpb"))
        .arg("report")
        .arg(&path)
        .arg("--out")
        .arg(&page)
        .output()
        .expect("dpb starts");
    assert!(
        made.status.success(),
        "{}",
        String::from_utf8_lossy(&made.stderr)
    );
    page
}

/// The elements that reach out of the window if the page is wider than it; those in a box that scrolls by itself do not count.
const TOO_WIDE: &str = "(() => {
  const root = document.documentElement;
  if (root.scrollWidth <= root.clientWidth) return [];
  const reach = (e) => e.getBoundingClientRect().right;
  const scrolls = (e) => e.parentElement.closest('.wide, .scroll, pre');
  const wide = [...document.body.querySelectorAll('*')].filter((e) => reach(e) > root.clientWidth + 1 && !scrolls(e));
  if (wide.length === 0) return ['the page ' + root.scrollWidth + ' > ' + root.clientWidth];
  return wide.slice(0, 8).map((e) => e.tagName + '.' + e.getAttribute('class') + ' ' + Math.round(reach(e)) + ' ' + e.textContent.slice(0, 30));
})()";
/// Tables and cards at the top of sections whose content is wider than they are.
const TABLES_TOO_WIDE: &str = "[...document.querySelectorAll('section > .wide, .card')].filter(
  (box) => box.clientWidth > 0 && box.scrollWidth > box.clientWidth + 1).map(
  (box) => box.closest('section').id + ' ' + box.scrollWidth + ' > ' + box.clientWidth)";

fn assert_fits(browser: &mut Browser, what: &str) {
    let wide = browser.value(TOO_WIDE);
    assert_eq!(wide.as_array().map(Vec::len), Some(0), "{what}: {wide}");
}

/// Lines have points, bars a length, cells of heat maps a figure; and each link of a number leads to a record.
fn assert_drawn(browser: &mut Browser) {
    for (what, count, least) in [
        (
            "lines",
            "[...document.querySelectorAll('polyline')].filter((l) => l.points.numberOfItems > 1 && l.getTotalLength() > 0).length",
            20,
        ),
        (
            "bars",
            "[...document.querySelectorAll('.fill')].filter((b) => b.getBoundingClientRect().width > 1).length",
            40,
        ),
        (
            "hollow bars",
            "[...document.querySelectorAll('.published .fill')].filter((b) => getComputedStyle(b).backgroundColor === 'rgba(0, 0, 0, 0)').length",
            20,
        ),
        (
            "cells",
            "[...document.querySelectorAll('.heat td')].filter((c) => /×/.test(c.textContent)).length",
            16,
        ),
        (
            "distributions",
            "[...document.querySelectorAll('h3')].filter((h) => /distribution of latencies/.test(h.textContent)).length",
            1,
        ),
        (
            "radars",
            "[...document.querySelectorAll('.radars .web polygon')].filter((p) => p.getBoundingClientRect().width > 5).length",
            12,
        ),
        (
            "points of components, and branches of a tree",
            "document.querySelectorAll('.hull').length && document.querySelectorAll('.branch').length",
            12,
        ),
        (
            "ranks",
            "document.querySelectorAll('#rank tbody tr').length",
            4,
        ),
        (
            "marks of unstable records",
            "document.querySelectorAll('.pt .shaky, .bar abbr').length",
            2,
        ),
    ] {
        let found = browser.value(count).as_u64().unwrap_or(0);
        assert!(found >= least, "{what}: {found}, not {least}");
    }
    let lost = browser.value(
        "[...document.querySelectorAll('a[href^=\"#\"]')].map((a) => a.getAttribute('href').slice(1)).filter((id) => !document.getElementById(id))",
    );
    assert_eq!(
        lost.as_array().map(Vec::len),
        Some(0),
        "links that lead nowhere: {lost}"
    );
}

/// By the keyboard alone: to the first bar or point, whose tip shows, and on to its record.
fn assert_keyboard(browser: &mut Browser) {
    let is_there = "document.activeElement.matches('.bar, .pt, .heat td a')";
    let reached = (0..400).any(|_| {
        browser.press("Tab", 9);
        browser.value(is_there) == true
    });
    assert!(reached, "no chart is reached by the keyboard");
    assert_eq!(
        browser.value("!document.getElementById('tip').hidden"),
        true
    );
    let said = browser
        .value("document.getElementById('tip').textContent === document.activeElement.dataset.tip");
    assert_eq!(said, true);
    browser.press("Enter", 13);
    let opened = "new Promise((done) => setTimeout(() => done((document.querySelector('details.at') || {}).open === true), 300))";
    assert_eq!(browser.value(opened), true, "the record opens");
    browser.press("Escape", 27);
}

/// The page asked for itself alone, and the browser found nothing to complain about.
fn assert_quiet(browser: &mut Browser, url: &str) {
    assert_eq!(browser.requests(), [url]);
    let complaints = browser.complaints();
    assert!(complaints.is_empty(), "{complaints:?}");
}

/// A browser, and a folder for its pages; `None` where there is no browser, which is said.
fn browser_and_folder() -> Option<(Browser, tempfile::TempDir)> {
    match Browser::start() {
        Ok(browser) => Some((browser, tempfile::tempdir().expect("a temporary folder"))),
        Err(why) if std::env::var_os("CI").is_some_and(|ci| ci == "true") => {
            panic!("no browser although CI=true: {why}")
        }
        Err(why) => {
            // Past the test harness, which shows nothing of a test that passes.
            let _ = writeln!(std::io::stderr(), "report_browser: skipped: {why}");
            None
        }
    }
}

#[test]
fn without_a_browser_the_test_is_skipped_aloud_and_fails_in_ci() {
    let empty = tempfile::tempdir().expect("a temporary folder");
    let test = || {
        let mut command = Command::new(std::env::current_exe().expect("a program"));
        command
            .args(["--exact", "the_report_works_in_a_browser"])
            .env("PATH", empty.path())
            .env_remove("CI");
        command
    };
    let here = test().output().expect("it runs");
    let said = String::from_utf8_lossy(&here.stderr).into_owned();
    assert!(here.status.success(), "{said}");
    assert!(said.contains("skipped: no Chromium"), "{said}");
    let there = test().env("CI", "true").output().expect("it runs");
    let said = String::from_utf8_lossy(&there.stdout).into_owned();
    assert!(!there.status.success(), "{said}");
    assert!(said.contains("no Chromium"), "{said}");
}

#[test]
fn the_report_works_in_a_browser() {
    let Some((mut browser, folder)) = browser_and_folder() else {
        return;
    };
    let page = page(folder.path());

    let url = browser.open(&page, (1280, 900));
    assert_drawn(&mut browser);
    assert_fits(&mut browser, "a screen");
    let wide = browser.value(TABLES_TOO_WIDE);
    assert_eq!(wide.as_array().map(Vec::len), Some(0), "tables: {wide}");
    let first = browser.value("document.querySelector('section').textContent");
    assert!(
        first.as_str().is_some_and(
            |text| text.starts_with("What to move") && text.contains("move from 256 B on")
        ),
        "{first}"
    );
    let verdict = "(() => { const v = document.querySelector('.verdict'); return v.getBoundingClientRect().bottom < innerHeight && v.textContent; })()";
    let verdict = browser.value(verdict);
    assert!(
        verdict
            .as_str()
            .is_some_and(|text| text.starts_with("Platforms: host is fastest in ")),
        "{verdict}"
    );
    browser.pictures("screen", 12);
    assert_keyboard(&mut browser);
    assert_quiet(&mut browser, &url);

    let url = browser.open(&page, (360, 740));
    assert_fits(&mut browser, "a phone");
    // Letters of charts are as large as a hand's distance asks for.
    let least = "Math.min(...[...document.querySelectorAll('figure svg text')].map((t) => t.getBoundingClientRect().height).filter((h) => h > 0 && h < 40))";
    let least = browser.value(least).as_f64().unwrap_or(0.0);
    assert!(least >= 9.0, "letters of {least} pixels");
    browser.pictures("phone", 12);
    assert_quiet(&mut browser, &url);

    browser.open(&page, (794, 1123));
    browser.call(
        "Emulation.setEmulatedMedia",
        serde_json::json!({"media": "print"}),
    );
    browser.call(
        "Emulation.setEmulatedVisionDeficiency",
        serde_json::json!({"type": "achromatopsia"}),
    );
    assert_fits(&mut browser, "paper");
    browser.pictures("paper", 6);
}

/// A test that sees no fault may be blind.
#[test]
fn a_page_with_faults_is_found_out() {
    let Some((mut browser, folder)) = browser_and_folder() else {
        return;
    };
    let page = folder.path().join("faulty.html");
    let faulty = "<!DOCTYPE html><html><body><div style='width:900px'>wide</div><img src='other.png'>\
                  <script>console.error('no'); undefined.method();</script></body></html>";
    std::fs::write(&page, faulty).expect("written");
    browser.open(&page, (800, 740));
    assert_eq!(browser.requests().len(), 2, "{:?}", browser.requests());
    // The console's line, the exception, and the file that is not there.
    assert!(
        browser.complaints().len() >= 3,
        "{:?}",
        browser.complaints()
    );
    assert_ne!(browser.value(TOO_WIDE).as_array().map(Vec::len), Some(0));
}
