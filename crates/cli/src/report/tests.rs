//! The page refers to nothing outside, is well formed, and says which number is of which kind.

use dpb_core::measure::{Evidence, Outcome};

use super::origin::Origins;
use super::*;
use crate::task::ShownTask;

fn pushdown(scheme: &str, threads: u64, selectivity: f64, rates: &[f64]) -> Record {
    let mut record = Record::new("pushdown", Evidence::of_this_cpu(), 1)
        .with("scheme", scheme)
        .with("sf", 1.0)
        .with("threads", threads)
        .with("selectivity", selectivity)
        .with("where", "l_comment LIKE '%<script>&\"%'");
    record.id = format!("{scheme}-{threads}-{selectivity}");
    record.sample("tuples_per_s", rates.to_vec());
    record
}

fn sweep() -> Vec<Record> {
    let mut records = Vec::new();
    for threads in [1, 2] {
        for selectivity in [0.01, 0.1] {
            let scale = threads as f64;
            records.push(pushdown("fetch", threads, selectivity, &[9e6 * scale; 5]));
            records.push(pushdown("dpb", threads, selectivity, &[4e8 * scale; 5]));
        }
    }
    records
}

/// Every element closed, in order; what HTML leaves open is written closed.
fn assert_well_formed(html: &str) {
    let body = html
        .strip_prefix("<!DOCTYPE html>\n")
        .expect("a document type");
    let mut open = Vec::new();
    let mut rest = body;
    while let Some(at) = rest.find('<') {
        let end = at + rest[at..].find('>').expect("a tag ends");
        let tag = &rest[at + 1..end];
        rest = &rest[end + 1..];
        let name = tag.split([' ', '/']).next().unwrap_or_default();
        if let Some(closed) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(closed), "near {:.60}", rest);
        } else if !tag.ends_with('/') {
            open.push(name);
            // Style and script are no markup inside.
            if ["style", "script"].contains(&name) {
                rest = &rest[rest.find(&format!("</{name}>")).expect("it ends")..];
            }
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

/// What every program of dpb's can show.
fn known() -> ShownTasks {
    crate::TASKS.into()
}

fn task(name: &str) -> ShownTask {
    known().find(name).expect("a task")
}

#[test]
fn the_page_is_whole_and_refers_to_nothing_outside() {
    let html = html(
        &sweep(),
        &["Skipped records.jsonl:7: not a record".into()],
        &known(),
    );
    assert_well_formed(&html);
    for outside in ["http://", "https://", "src=", "@import", "url("] {
        assert!(!html.contains(outside), "{outside}");
    }
    assert!(html.contains("records.jsonl:7"));
    // What a predicate says stays text.
    assert!(!html.contains("<script>&"));
    assert!(html.contains("&lt;script&gt;&amp;"));
}

#[test]
fn every_number_leads_to_its_record() {
    let records = sweep();
    let html = html(&records, &[], &known());
    for record in records
        .iter()
        .chain(&select::published_for(&records, &known()))
    {
        let anchor = anchor(record);
        assert_eq!(
            html.matches(&format!("<details id=\"{anchor}\"")).count(),
            1,
            "{anchor}"
        );
        assert!(
            html.matches(&format!("href=\"#{anchor}\"")).count() >= 2,
            "{anchor}"
        );
    }
    assert_eq!(html.matches("<details id=").count(), 8 + 5);
}

/// Liu et al.'s throughputs stand beside those of the same link, topology and size, and nowhere else.
#[test]
fn a_papers_numbers_stand_where_their_test_is() {
    let headroom = |size: u64, threads: u64| {
        let mut record = Record::new("net headroom", Evidence::of_this_cpu(), 1)
            .with("kind", "arithmetic")
            .with("link", "kernel")
            .with("topology", "embedded")
            .with("goal", "pdr")
            .with("part", 0.5)
            .with("size", size)
            .with("threads", threads);
        record.id = format!("{size}-{threads}");
        record.sample("bytes_per_s_max", vec![1e9 * threads as f64]);
        record
    };
    for (size, is_there) in [(836, true), (64, false)] {
        let records = [headroom(size, 1), headroom(size, 2)];
        let figures = select::published_for(&records, &known());
        let task = task("net headroom");
        let charts = select::charts(task, &records, &figures, &Origins::of(&records));
        assert_eq!(charts.len(), 1);
        let published = charts[0]
            .series
            .iter()
            .filter(|series| series.kind == "published");
        let published: Vec<_> = published.collect();
        assert_eq!(published.len(), usize::from(is_there), "{size}");
        // Figure 5a: not the other topology, not DPDK.
        assert!(
            published
                .iter()
                .all(|series| series.name == "Liu et al." && series.points.len() == 8)
        );
        let notes = charts[0].notes.join(" ");
        assert_eq!(notes.contains("Published: Liu et al."), is_there, "{notes}");
        assert_well_formed(&html(&records, &[], &known()));
    }
}

#[test]
fn published_figures_stand_beside_and_say_what_they_are() {
    let records = sweep();
    let figures = select::published_for(&records, &known());
    let charts = select::charts(task("pushdown"), &records, &figures, &Origins::of(&records));
    // Threads at 1 % and at 10 %, selectivity with one thread and with two.
    assert_eq!(charts.len(), 4);
    let is_mixed =
        |chart: &chart::Chart| chart.series.iter().any(|series| series.kind == "published");
    let mixed: Vec<bool> = charts.iter().map(is_mixed).collect();
    assert_eq!(
        mixed,
        [true, false, true, true],
        "figures of 1 % do not belong beside 10 %"
    );
    let shown = charts[0].html();
    assert!(shown.contains("Two kinds of evidence on one axis"));
    assert!(shown.contains("class=\"c2 published\""));
    assert!(!charts[1].html().contains("Two kinds of evidence"));
    // 33 M, and what the text gives as multiples of it.
    let mut medians: Vec<f64> = figures
        .iter()
        .map(|figure| figure.summary["tuples_per_s"].median)
        .collect();
    medians.sort_by(f64::total_cmp);
    assert_eq!(medians, [33e6, 59.4e6, 150e6, 150e6, 396e6]);
}

#[test]
fn a_batch_that_follows_from_the_size_is_no_sweep_of_its_own() {
    let mut records = Vec::new();
    for (size, batch) in [(64u64, 256u64), (1500, 10), (65536, 1)] {
        for backend in ["cpu/portable", "cpu/best", "sim/default"] {
            let evidence = match backend {
                "sim/default" => Evidence::Simulated {
                    model: "default".into(),
                },
                _ => Evidence::Measured,
            };
            let mut record = Record::new("op", evidence, 1)
                .with("operator", "crc32c")
                .with("size", size)
                .with("batch", batch)
                .with("backend", backend);
            record.sample("bytes_per_s", vec![1e9, 1.1e9, 1.2e9]);
            record.sample("items_per_s", vec![1e6, 1.1e6, 1.2e6]);
            records.push(record);
        }
    }
    let origins = Origins::of(&records);
    let charts = select::charts(task("op"), &records, &[], &origins);
    assert_eq!(charts.len(), 1);
    assert_eq!(charts[0].series.len(), 3);
    assert!(charts[0].html().contains("simulated"));
    // A ratio never crosses kinds of evidence.
    let rows: Vec<&Record> = records.iter().collect();
    let table = page::table(known().find("op"), &rows, &origins);
    assert_eq!(table.matches("× cpu/portable").count(), 3);
}

/// A sweep of two thread counts, as another process would record it.
fn run_of(host: &str, run: &str, scale: f64) -> Vec<Record> {
    let mut records = Vec::new();
    for threads in [1, 2] {
        for (scheme, rate) in [("fetch", 1e7), ("dpb", 4e7)] {
            let mut record = pushdown(scheme, threads, 0.01, &[rate * scale; 5]);
            record.id = format!("{host}-{run}-{scheme}-{threads}");
            record.provenance.host = host.to_owned();
            record.provenance.run = run.to_owned();
            records.push(record);
        }
    }
    records
}

#[test]
fn machines_and_runs_share_no_ratio_and_no_curve() {
    // The second run of the DPU has a baseline a hundred times slower; all others have one of their own, too.
    let records = [
        run_of("host", "a", 1.0),
        run_of("dpu", "b", 0.1),
        run_of("dpu", "c", 0.01),
    ]
    .concat();
    let origins = Origins::of(&records);
    let rows: Vec<&Record> = records.iter().collect();
    let table = page::table(known().find("pushdown"), &rows, &origins);
    assert_eq!(table.matches("4.00× fetch").count(), 6, "{table}");
    assert!(table.contains("<td>dpu, run 3</td>"), "{table}");
    let charts = select::charts(task("pushdown"), &records, &[], &origins);
    assert_eq!(charts.len(), 1);
    let names: Vec<&str> = charts[0]
        .series
        .iter()
        .map(|series| series.name.as_str())
        .collect();
    assert_eq!(
        names,
        [
            "fetch, host, run 1",
            "dpb, host, run 1",
            "fetch, dpu, run 2",
            "dpb, dpu, run 2",
            "fetch, dpu, run 3",
            "dpb, dpu, run 3"
        ]
    );
    assert!(
        charts[0]
            .series
            .iter()
            .all(|series| series.points.len() == 2)
    );
    // Hosts alone tell two runs apart; one run needs no name.
    let two = [run_of("host", "a", 1.0), run_of("dpu", "b", 0.1)].concat();
    let charts = select::charts(task("pushdown"), &two, &[], &Origins::of(&two));
    assert_eq!(charts[0].series[1].name, "dpb, host");
    let one = run_of("host", "a", 1.0);
    let charts = select::charts(task("pushdown"), &one, &[], &Origins::of(&one));
    assert_eq!(charts[0].series[1].name, "dpb");
}

#[test]
fn a_baseline_of_another_run_is_none() {
    let mut records = run_of("host", "a", 1.0);
    records.retain(|record| record.id.contains("fetch"));
    records.extend(
        run_of("host", "b", 1.0)
            .into_iter()
            .filter(|record| record.id.contains("dpb")),
    );
    let ratios = |records: &[Record]| {
        let rows: Vec<&Record> = records.iter().collect();
        let table = page::table(known().find("pushdown"), &rows, &Origins::of(records));
        table.matches("× fetch").count()
    };
    assert_eq!(ratios(&records), 0);
    // Written before runs were kept: nothing says that they are one.
    for record in &mut records {
        record.provenance.run.clear();
    }
    assert_eq!(ratios(&records), 0);
}

#[test]
fn an_operators_own_numbers_sweep_and_its_words_are_held() {
    let mut records = Vec::new();
    for format in ["raw", "gzip"] {
        for level in [1u64, 9] {
            for (backend, rate) in [("cpu/portable", 1e6), ("cpu/libdeflate", 2e6)] {
                let mut record = Record::new("op", Evidence::Measured, 1)
                    .with("operator", "deflate")
                    .with("mode", "closed")
                    .with("op.level", level)
                    .with("op.format", format)
                    .with("op.mode", "own")
                    .with("backend", backend);
                for metric in ["items_per_s", "bytes_per_s"] {
                    record.sample(metric, vec![rate / level as f64; 5]);
                }
                records.push(record);
            }
        }
    }
    let origins = Origins::of(&records);
    let charts = select::charts(task("op"), &records, &[], &origins);
    let titles: Vec<&str> = charts.iter().map(|chart| chart.title.as_str()).collect();
    assert_eq!(titles, ["deflate: input bytes per second against level"; 2]);
    assert!(
        charts[0].notes[0].contains("format gzip"),
        "{:?}",
        charts[0].notes
    );
    assert!(charts.iter().all(|chart| chart.series.len() == 2));
    let rows: Vec<&Record> = records.iter().collect();
    let table = page::table(known().find("op"), &rows, &origins);
    assert!(
        table.contains("<th>format</th><th class=\"n\">level</th><th>backend</th>"),
        "{table}"
    );
    assert_eq!(table.matches("2.00× cpu/portable").count(), 4);
}

#[test]
fn each_setting_of_a_system_is_an_axis_once_and_else_part_of_a_curves_name() {
    let mut records = Vec::new();
    for (queue, pcie_ns, byte_ps) in [
        ("fifo", 300u64, 125u64),
        ("fifo", 300, 250),
        ("fifo", 600, 125),
        ("fifo", 600, 250),
    ] {
        let simulated = Evidence::Simulated {
            model: "card".to_owned(),
        };
        let mut record = Record::new("sim run", simulated, 1)
            .with("system", "card")
            .with("digest", "sha256")
            .with(
                "set",
                format!("card.pcie_ns={pcie_ns};stage.byte_ps={byte_ps}"),
            )
            .with("set.card.queue", queue)
            .with("set.card.pcie_ns", pcie_ns)
            .with("set.stage.byte_ps", byte_ps);
        record.sample("completion_s", vec![0.05; 3]);
        records.push(record);
    }
    // Of a system that has no such parts.
    let mut plain = records[0].clone();
    plain.parameters.retain(|name, _| !name.starts_with("set"));
    records.push(plain.with("system", "plain"));
    let origins = Origins::of(&records);
    let charts = select::charts(task("sim run"), &records, &[], &origins);
    let curves: Vec<(&str, Vec<(&str, usize)>)> = (charts.iter())
        .map(|chart| {
            let curves = chart.series.iter();
            let curves = curves.map(|curve| (curve.name.as_str(), curve.points.len()));
            (chart.x_label.as_str(), curves.collect())
        })
        .collect();
    assert_eq!(
        curves,
        [
            (
                "card.pcie_ns",
                vec![
                    ("card, sha256, stage.byte_ps 125", 2),
                    ("card, sha256, stage.byte_ps 250", 2)
                ]
            ),
            (
                "stage.byte_ps",
                vec![
                    ("card, sha256, card.pcie_ns 300", 2),
                    ("card, sha256, card.pcie_ns 600", 2)
                ]
            ),
        ]
    );
    assert!(
        charts[0].notes[0].contains("card.queue fifo"),
        "{:?}",
        charts[0].notes
    );
}

#[test]
fn records_without_numbers_are_rows_with_reasons() {
    let reason = "needs <AVX-512>".to_owned();
    let records = [
        pushdown("dpb", 1, 0.01, &[]).without_numbers(Outcome::Unsupported {
            reason: reason.clone(),
        }),
        pushdown("fetch", 1, 0.01, &[]).without_numbers(Outcome::Failed { reason }),
        Record::new("something new", Evidence::Measured, 1),
    ];
    let html = html(&records, &[], &known());
    assert_well_formed(&html);
    assert!(html.contains("unsupported: needs &lt;AVX-512&gt;"));
    assert!(html.contains("1 done, 1 failed, 1 unsupported"));
    assert!(html.contains("something new"));
}

/// Seven runs around a value.
fn runs(middle: f64) -> Vec<f64> {
    (0..7)
        .map(|run| middle * (1.0 + 0.001 * f64::from(run)))
        .collect()
}

/// An operator on a machine.
fn operator(host: &str, backend: &str, (size, threads): (u64, u64), rate: f64) -> Record {
    let mut record = Record::new("op", Evidence::Measured, 1)
        .with("operator", "crc32c")
        .with("backend", backend)
        .with("mode", "closed")
        .with("size", size)
        .with("threads", threads);
    record.provenance.host = host.to_owned();
    record.provenance.run = format!("run of {host}");
    record.sample("bytes_per_s", runs(rate));
    record
}

fn contests(records: &[Record]) -> [Vec<contest::Contest<'_>>; 2] {
    glance::contests(records, &known())
}

#[test]
fn the_fastest_platform_wins_beyond_doubt_or_not_at_all() {
    let mut records = vec![
        operator("host", "cpu/best", (64, 1), 4e9),
        operator("dpu", "cpu/best", (64, 1), 1e9),
        operator("host", "cpu/best", (1500, 1), 4e9),
        operator("dpu", "cpu/best", (1500, 1), 8e9),
        operator("host", "cpu/best", (4096, 1), 4e9),
        operator("dpu", "cpu/best", (4096, 1), 4e9),
    ];
    let [platforms, sides] = contests(&records);
    assert_eq!(
        glance::verdict(&platforms),
        "dpu is fastest in 1 of 3 tests, host in 1, 1 too close to call"
    );
    assert!(sides.is_empty(), "one backend each");
    // Whoever was disturbed while it was measured has won nothing.
    records[1].stability = Some(dpb_core::measure::Stability {
        stable: false,
        reasons: vec!["threads waited for a core".to_owned()],
        disturbed: true,
        cv: None,
        core_wait_s: None,
        context_switches_involuntary: None,
        steal_s: None,
    });
    let [platforms, _] = contests(&records);
    assert_eq!(
        glance::verdict(&platforms),
        "dpu is fastest in 1 of 3 tests, 1 too close to call, 1 disturbed by other work"
    );
    // A model's figures are not of the machine that computed them.
    for record in &mut records {
        record.evidence = Evidence::Simulated {
            model: "default".to_owned(),
        };
    }
    assert!(contests(&records)[0].is_empty());
}

#[test]
fn two_machines_of_one_name_stay_two() {
    let machine = |model: &str, rate: f64| {
        let mut record = operator("dpu", "cpu/best", (64, 1), rate);
        record.id = format!("of-{model}");
        record.provenance.cpu_model = model.to_owned();
        record.provenance.run = format!("run on {model}");
        record
    };
    let mut imported = machine("", 5e8);
    imported.task = "fio".to_owned();
    let records = [machine("A72", 1e9), machine("A78", 2e9), imported];
    let [platforms, _] = contests(&records);
    let names: Vec<&str> = platforms[0].sides.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(names, ["dpu (A78)", "dpu (A72)"]);
    let machines = glance::machines(&records);
    let counts: Vec<(&str, usize)> = machines
        .iter()
        .map(|(name, own)| (name.as_str(), own.len()))
        .collect();
    assert_eq!(
        counts,
        [("dpu (A72)", 2), ("dpu (A78)", 1)],
        "a record without a model is of the first"
    );
    let page = html(&records, &[], &known());
    for title in ["<h3>dpu (A72)</h3>", "<h3>dpu (A78)</h3>"] {
        assert_eq!(page.matches(title).count(), 1, "{title}");
    }
    assert!(page.contains("dpu (A78) 2.00× dpu (A72)"));
    // A machine alone under its name has no more than that.
    let one = [records[0].clone()];
    assert_eq!(glance::machines(&one)[0].0, "dpu");
    let charts = select::charts(task("op"), &records, &[], &Origins::of(&records));
    let lines: Vec<&str> = charts[0].series.iter().map(|s| s.name.as_str()).collect();
    for name in ["dpu (A72)", "dpu (A78)"] {
        assert!(lines.iter().any(|line| line.contains(name)), "{lines:?}");
    }
}

#[test]
fn of_times_the_shorter_one_wins() {
    let record = |host: &str, ns: f64| {
        let mut record = Record::new("memory", Evidence::Measured, 1)
            .with("pattern", "chain")
            .with("size", 4096u64);
        record.provenance.host = host.to_owned();
        record.sample("ns_per_access", runs(ns));
        record
    };
    let records = [record("host", 90.0), record("dpu", 30.0)];
    let [platforms, _] = contests(&records);
    assert_eq!(platforms[0].sides[0].name, "dpu");
    let lead = platforms[0].lead().expect("runs on both sides");
    assert!((lead.times - 3.0).abs() < 1e-9, "{lead:?}");
}

/// Two machines, sizes and threads; the DPU is twice as fast at one place, half as fast elsewhere.
fn grid_of_two() -> Vec<Record> {
    let mut records = Vec::new();
    for host in ["host", "dpu"] {
        for size in [64u64, 1024] {
            for threads in [1u64, 4] {
                let factor = match (host, size, threads) {
                    ("dpu", 1024, 4) => 2.0,
                    ("dpu", ..) => 0.5,
                    _ => 1.0,
                };
                records.push(operator(
                    host,
                    "cpu/best",
                    (size, threads),
                    1e9 * threads as f64 * factor,
                ));
            }
        }
    }
    records
}

#[test]
fn a_heat_map_has_a_ratio_for_each_size_and_number_of_threads() {
    let records = grid_of_two();
    let [platforms, _] = contests(&records);
    let maps = heat::maps(&platforms, Some("host"));
    assert_eq!(maps.len(), 1);
    let text = maps[0].to_text();
    let rows: Vec<Vec<&str>> = text
        .lines()
        .skip(2)
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(
        rows[1],
        ["threads", "1", "▼", "0.50×", "▼", "0.50×"],
        "{text}"
    );
    assert_eq!(
        rows[2],
        ["threads", "4", "▼", "0.50×", "▲", "2.00×"],
        "{text}"
    );
    // Against the other machine all is turned over.
    let turned = heat::maps(&platforms, Some("dpu"))[0].to_text();
    assert!(
        turned.contains("▲ 2.00×") && turned.contains("▼ 0.50×"),
        "{turned}"
    );
    // Of each cell the record is a click away.
    let html = maps[0].html();
    let own = records
        .iter()
        .filter(|record| record.provenance.host == "dpu");
    for record in own {
        assert_eq!(
            html.matches(&format!("href=\"#{}\"", anchor(record)))
                .count(),
            1
        );
    }
}

#[test]
fn throughput_is_drawn_against_threads_with_a_line_for_each_size() {
    let mut records = grid_of_two();
    records.retain(|record| record.provenance.host == "host");
    let charts = select::charts(task("op"), &records, &[], &Origins::of(&records));
    let first = &charts[0];
    assert_eq!(
        first.title,
        "crc32c: input bytes per second against threads, cpu/best"
    );
    let names: Vec<&str> = first
        .series
        .iter()
        .map(|series| series.name.as_str())
        .collect();
    assert_eq!(names, ["64", "1 Ki"]);
    let xs: Vec<Option<f64>> = first.series[1].points.iter().map(|point| point.x).collect();
    assert_eq!(xs, [Some(1.0), Some(4.0)]);
}

#[test]
fn dpbentos_figures_have_published_numbers_beside_and_no_ratio_to_them() {
    let mut record = Record::new("memory", Evidence::Measured, 1)
        .with("pattern", "random")
        .with("access", "read")
        .with("size", 16384u64)
        .with("threads", 1u64)
        .with("tool", "dpb");
    record.provenance.host = "here".to_owned();
    record.sample("accesses_per_s", runs(2e8));
    let records = [record];
    let (charts, beside) = dpbento::figures(&records);
    let titles: Vec<&str> = charts.iter().map(|chart| chart.title.as_str()).collect();
    assert_eq!(
        titles,
        [
            "memory, random reads, as dpBento's figure 7a",
            "memory, random reads of 16 KiB by threads, as dpBento's figure 8"
        ]
    );
    // mem-read-rnd.data has 274.92 million for BlueField-3 at 16 KB.
    let of = |name: &str| charts[0].groups[0].bars.iter().find(|bar| bar.name == name);
    assert_eq!(
        of("BlueField-3").map(|bar| (bar.value, bar.kind)),
        Some((274.92e6, "published"))
    );
    assert_eq!(of("here").map(|bar| bar.kind), Some("measured"));
    assert!(
        charts[0]
            .html()
            .contains("Two kinds of evidence on one axis")
    );
    let page = html(&records, &[], &known());
    assert!(!page.contains("class=\"heat\""), "nothing to compare with");
    for published in &beside {
        assert!(page.contains(&format!("<details id=\"{}\"", anchor(published))));
    }
    assert!(page.contains("mem-read-rnd.data"));
}

/// Those of perftest are not, though they have the same parameters.
#[test]
fn figures_of_rdma_are_of_dpbs_own_records() {
    let record = |tool: Option<&str>, p50: f64| {
        let mut record = Record::new("rdma", Evidence::Measured, 1)
            .with("method", "lat")
            .with("verb", "read")
            .with("size", 64u64);
        if let Some(tool) = tool {
            record = record.with("tool", tool);
        }
        record.provenance.host = format!("host of {}", tool.unwrap_or("nobody"));
        record.sample("latency_ns_p50", runs(p50));
        record
    };
    let records = [
        record(Some("dpb"), 2e3),
        record(Some("perftest"), 1e3),
        record(None, 3e3),
    ];
    let (charts, _) = dpbento::figures(&records);
    let [chart] = &charts[..] else {
        panic!("figure 12a alone");
    };
    let mut values: Vec<f64> = chart.bars().map(|bar| bar.value).collect();
    values.sort_by(f64::total_cmp);
    assert_eq!(values.len(), 2, "{values:?}");
    assert!(values[0] > 1.5e3 && values[1] > 2.5e3, "{values:?}");
}

#[test]
fn the_text_has_the_same_numbers_as_bars() {
    let mut records = grid_of_two();
    records.extend(sweep());
    let text = text(&records, &["Skipped line 7".to_owned()], &known(), 80);
    for part in [
        "Skipped line 7",
        "Platforms: host is fastest in 3 of 4 tests, dpu in 1.",
        "crc32c: dpu against host",
        "BlueField-3, 16 cores (published)",
        "pushdown: tuples scanned per second against threads",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains('<'), "no markup");
    // The longest bar is the largest number's, and others are in proportion.
    let bars = |text: &str| text.matches('█').count();
    let chart = text
        .split("against threads, cpu/best")
        .nth(1)
        .expect("a chart");
    let of = |name: &str| {
        chart
            .lines()
            .find(|line| line.contains(name))
            .map_or(0, bars)
    };
    assert!(
        of("1 Ki, dpu") > 0 && of("1 Ki, dpu") < of("1 Ki, host"),
        "{chart}"
    );
}
