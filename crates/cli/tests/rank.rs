//! `dpb rank`: the tables of Liu et al. from their files, where these are; what is refused; and the page.
//!
//! The files are not kept here. `DPB_SMARTNIC_WU` names a copy of <https://github.com/ljishen/SmartNIC-WU>, of which `results/stress-ng` and
//! `benchmarks/stress-ng/scripts` are read.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use dpb_core::measure::{Durability, Evidence, Record, Store};
use serde_json::Value;

/// The card in the files' folders.
const CARD: &str = "MBF2H516A-CENO_Ax";

fn dpb(args: &[&str]) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_dpb")).args(args).output();
    output.expect("dpb starts")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("UTF-8")
}

fn name(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// The copy, or a line that says how to get one.
fn copy() -> Option<PathBuf> {
    let folder = std::env::var_os("DPB_SMARTNIC_WU").map(PathBuf::from);
    if folder.is_none() {
        println!(
            "skipped: DPB_SMARTNIC_WU is not set; git clone https://github.com/ljishen/SmartNIC-WU, and name the folder with it"
        );
    }
    folder
}

/// The output of `dpb rank --format json` for the records of one time limit, without the platforms that are named.
fn ranked(records: &Path, more: &[&str]) -> Value {
    let output = dpb(&[
        &[
            "rank",
            name(records),
            "--format",
            "json",
            "--reference",
            "pi4_4gb",
        ][..],
        more,
    ]
    .concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// By test, the card's rank, among so many platforms as all tests have that are complete.
fn ranks(ranking: &Value) -> BTreeMap<String, (u64, Vec<String>)> {
    let platforms = ranking["platforms"].as_array().expect("a list");
    let at = platforms
        .iter()
        .position(|name| name == CARD)
        .expect("the card");
    let tests = ranking["tests"].as_array().expect("a list").iter();
    let complete = tests.filter(|test| {
        test["places"]
            .as_array()
            .expect("a list")
            .iter()
            .all(|place| !place.is_null())
    });
    let words = |list: &Value| -> Vec<String> {
        let mut words: Vec<String> = list
            .as_array()
            .expect("a list")
            .iter()
            .map(|word| word.as_str().expect("a word").to_owned())
            .collect();
        words.sort();
        words
    };
    complete
        .map(|test| {
            let rank = test["places"][at]["rank"]["rank"].as_u64().expect("a rank");
            (
                test["name"].as_str().expect("a name").to_owned(),
                (rank, words(&test["classes"])),
            )
        })
        .collect()
}

/// Table III of the paper: stressors, classes, ranks.
const TABLE_III: &str = "\
af-alg CPU|OS 1
klog OS 1
lockbus CPU_CACHE|MEMORY 1
mcontend MEMORY 1
splice PIPE_IO|OS 1
stack VM|MEMORY 1
dev DEV|OS 2
sem-sysv OS|SCHEDULER 2
get OS 3
mremap VM|OS 3
chattr FILESYSTEM|OS 5
inode-flags OS|FILESYSTEM 5
madvise VM|OS 5
personality OS 5
stackmmap VM|MEMORY 5
sysinfo OS 5
ioprio FILESYSTEM|OS 6
msync VM|OS 6
brk OS|VM 7
file-ioctl FILESYSTEM|OS 7
fp-error CPU 7
bigheap OS|VM 8
mknod FILESYSTEM|OS 8
mmap VM|OS 8
revio IO|OS 8
context MEMORY|CPU 9
dirdeep FILESYSTEM|OS 9
fifo PIPE_IO|OS|SCHEDULER 9
locka FILESYSTEM|OS 9
lockofd FILESYSTEM|OS 9
sigsegv INTERRUPT|OS 9
vecmath CPU|CPU_CACHE 9
chown FILESYSTEM|OS 10
env OS|VM 10
timerfd INTERRUPT|OS 10
bad-altstack VM|MEMORY|OS 14
getrandom OS|CPU 14
inotify FILESYSTEM|SCHEDULER|OS 14
netdev NETWORK 14
rename FILESYSTEM|OS 14
resources MEMORY|OS 14
rseq CPU 14
schedpolicy INTERRUPT|SCHEDULER|OS 14
sigabrt INTERRUPT|OS 14
sigchld INTERRUPT|OS 14
vforkmany SCHEDULER|OS 14
vm-addr VM|MEMORY|OS 14";

/// Table IV: stressors whose rank changed by more than two, with 10 s and with 60 s.
const TABLE_IV: [(&str, u64, u64); 9] = [
    ("af-alg", 7, 1),
    ("bigheap", 14, 8),
    ("branch", 14, 11),
    ("brk", 11, 7),
    ("cache", 14, 11),
    ("dirdeep", 13, 9),
    ("klog", 5, 1),
    ("seek", 7, 13),
    ("sigfd", 14, 11),
];

#[test]
fn tables_iii_and_iv_of_the_paper_come_from_its_files() {
    let Some(copy) = copy() else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let records = folder.path().join("liu.jsonl");
    let imported = dpb(&[
        "import",
        name(&copy),
        "--out",
        name(&records),
        "--format",
        "csv",
    ]);
    assert!(imported.status.success(), "{}", text(&imported.stderr));
    // The paper has no word of pc3000, whose results are among the files.
    let paper = [
        "--without",
        "pc3000",
        "--platform",
        CARD,
        "--ignore",
        "timeout",
    ];
    let ranking = ranked(
        &records,
        &[
            &paper[..],
            &[
                "--where",
                "timeout=60s",
                "--before",
                name(&records),
                "--before-where",
                "timeout=10s",
            ],
        ]
        .concat(),
    );
    assert_eq!(ranking["platforms"].as_array().map(Vec::len), Some(14));

    let found = ranks(&ranking);
    assert_eq!(found.len(), 175, "stressors that ran on all platforms");
    let shown: BTreeMap<_, _> = found
        .into_iter()
        .filter(|(_, (rank, _))| *rank <= 10 || *rank == 14)
        .collect();
    let expected = TABLE_III.lines().map(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        let mut classes: Vec<String> = words[1].split('|').map(str::to_owned).collect();
        classes.sort();
        (
            words[0].to_owned(),
            (words[2].parse().expect("a rank"), classes),
        )
    });
    assert_eq!(shown, expected.collect());

    let moved = ranking["moved"][0]["tests"]
        .as_array()
        .expect("a list")
        .iter();
    let moved = moved.map(|one| {
        (
            one["test"].as_str().expect("a name"),
            one["before"]["rank"].as_u64().expect("a rank"),
            one["after"]["rank"].as_u64().expect("a rank"),
        )
    });
    assert_eq!(moved.collect::<Vec<_>>(), TABLE_IV);

    summaries(
        &copy,
        &ranking,
        "sequential-all_60s_Npc3000.platforms_summary",
    );
    let all = ranked(&records, &["--where", "timeout=60s"]);
    assert_eq!(all["platforms"].as_array().map(Vec::len), Some(15));
    summaries(&copy, &all, "sequential-all_60s.platforms_summary");
    classes(
        &copy,
        &all,
        "sequential-all_60s.platforms_summary.per_class",
    );
}

/// The rows of a file of the authors': a platform or a class, and its cells by column.
fn rows(copy: &Path, file: &str) -> Vec<(String, BTreeMap<String, Vec<f64>>)> {
    let text = fs::read_to_string(copy.join("results/stress-ng").join(file)).expect("it is there");
    let mut lines = text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    let titles: Vec<&str> = lines.next().expect("titles").split('\t').collect();
    let row = |line: &str| {
        let cells: Vec<&str> = line.split('\t').collect();
        let cell = |cell: &&str| {
            cell.split('/')
                .map(|part| part.parse().unwrap_or(f64::NAN))
                .collect()
        };
        let named = titles[1..].iter().zip(cells[1..].iter().map(cell));
        (
            cells[0].to_owned(),
            named
                .map(|(title, cell)| ((*title).to_owned(), cell))
                .collect(),
        )
    };
    lines.map(row).collect()
}

/// `cloudlab/r320` is `r320`; the card's folder has its mode below it.
fn platform(path: &str) -> &str {
    path.split('/').nth(1).expect("a site and a platform")
}

/// True of the digits that awk printed: six, or six behind the point. Ratios are of means with six behind the point, of small ones (`symlink`) five digits.
fn is_printed(found: f64, printed: f64) -> bool {
    (found - printed).abs() <= 7e-6 * printed.abs().max(0.1)
}

/// Mean, z-score and ratio of each stressor on each platform, as the authors' script wrote them.
fn summaries(copy: &Path, ranking: &Value, file: &str) {
    let platforms = ranking["platforms"].as_array().expect("a list");
    let mut compared = 0;
    let tests = ranking["tests"].as_array().expect("a list");
    let tests: BTreeMap<&str, &Value> = tests
        .iter()
        .map(|test| (test["name"].as_str().expect("a name"), test))
        .collect();
    for (path, cells) in rows(copy, file) {
        let at = platforms
            .iter()
            .position(|name| name == platform(&path))
            .expect("a platform");
        for (stressor, printed) in cells {
            let place = tests.get(stressor.as_str()).map(|test| &test["places"][at]);
            let Some(place) = place.filter(|place| !place.is_null()) else {
                // What one platform alone has is no test of a ranking; what a platform lacks is `nan` or zero in the file.
                let is_none = printed[0].is_nan() || printed[0] == 0.0;
                assert!(
                    is_none || !tests.contains_key(stressor.as_str()),
                    "{stressor} on {path}"
                );
                continue;
            };
            for (field, printed) in ["mean", "z_score", "ratio"].iter().zip(&printed) {
                let found = place[field].as_f64().unwrap_or(f64::NAN);
                let is_same = is_printed(found, *printed) || (found.is_nan() && printed.is_nan());
                assert!(
                    is_same,
                    "{stressor} on {path}: {field} {found}, not {printed}"
                );
                compared += 1;
            }
        }
    }
    assert!(compared > 7000, "{compared}");
}

/// Means of z-scores and ratios by class (figure 9), as the authors' script wrote them.
fn classes(copy: &Path, ranking: &Value, file: &str) {
    let platforms = ranking["platforms"].as_array().expect("a list");
    let rows = rows(copy, file);
    assert_eq!(rows.len(), 12, "classes");
    for (class, cells) in rows {
        let mut all = ranking["classes"].as_array().expect("a list").iter();
        let own = all
            .find(|own| own["name"] == class.as_str())
            .unwrap_or_else(|| panic!("{class}"));
        assert_eq!(
            own["tests"].as_f64(),
            cells["NUM_STRESSORS"].first().copied(),
            "{class}"
        );
        for (path, printed) in cells.iter().filter(|(title, _)| *title != "NUM_STRESSORS") {
            let at = platforms
                .iter()
                .position(|name| name == platform(path))
                .expect("a platform");
            let standing = &own["standings"][at];
            for (field, printed) in [("z_score", &printed[..2]), ("ratio", &printed[4..6])] {
                for (part, printed) in printed.iter().enumerate() {
                    let found = standing[field][part].as_f64().expect("a number");
                    // Their sums are of figures of six digits; a deviation of the reference's own ratios, zero, is the rounding of these.
                    let is_near = (found - printed).abs() <= 2e-5 * printed.abs().max(1.0);
                    assert!(is_near, "{class} on {path}: {field} {found}, not {printed}");
                }
            }
        }
    }
}

/// Table II: the platform, what lshw calls its CPU, sockets, cores of one, memory in GiB, and the memory's clock in MHz.
const TABLE_II: [(&str, &str, usize, usize, u64, u64); 13] = [
    ("c220g1", "E5-2630 v3 @ 2.40GHz", 2, 8, 128, 1866),
    ("c220g2", "E5-2660 v3 @ 2.60GHz", 2, 10, 160, 2133),
    ("c220g5", "Silver 4114 CPU @ 2.20GHz", 2, 10, 192, 2666),
    ("c6220", "E5-2650 v2 @ 2.60GHz", 2, 8, 64, 1866),
    ("c8220", "E5-2660 v2 @ 2.20GHz", 2, 10, 256, 1600),
    ("d430", "E5-2630 v3 @ 2.40GHz", 2, 8, 64, 2133),
    ("d710", "E5530 @ 2.40GHz", 1, 4, 12, 1066),
    ("dss7500", "E5-2620 v3 @ 2.40GHz", 2, 6, 128, 2133),
    ("m400", "", 8, 1, 64, 0),
    ("m510", "D-1548 @ 2.00GHz", 1, 8, 64, 2133),
    ("r320", "E5-2450 0 @ 2.10GHz", 1, 8, 16, 1600),
    ("xl170", "E5-2640 v4 @ 2.40GHz", 1, 10, 64, 2400),
    (CARD, "ARMv8 (OPN: MBF2H516A-CENO)", 1, 8, 16, 1600),
];
/// The table's clocks that the files do not have: they say what the modules can do.
const OTHER_CLOCKS: [(&str, u64); 2] = [("c220g1", 2133), ("m510", 2400)];

/// Release dates, drives and the clock of m400's memory are in no file; the rest of table II is what lshw found, but for two clocks.
#[test]
fn table_ii_is_what_lshw_found_but_for_two_clocks() {
    let Some(copy) = copy() else { return };
    for (platform, model, sockets, cores, gib, clock) in TABLE_II {
        let mut path = copy.join("results/stress-ng/cloudlab").join(platform);
        if platform == CARD {
            path.push("SEPERATED_HOST_mode");
        }
        let html = fs::read_to_string(path.join("lshw.html")).expect("it is there");
        let nodes = nodes(&html);
        let of = |kind: &str| {
            nodes
                .iter()
                .filter(|node| node.id == kind || node.id.starts_with(&format!("{kind}:")))
                .collect::<Vec<_>>()
        };
        let cpus: Vec<_> = of("cpu")
            .into_iter()
            // Of an empty socket nothing is known; `cpu-map` says how cores lie.
            .filter(|cpu| cpu.text.contains("product:") && !cpu.text.contains("cpu-map"))
            .collect();
        assert_eq!(cpus.len(), sockets, "{platform}");
        for cpu in cpus {
            assert!(cpu.text.contains(model), "{platform}: {}", cpu.text);
            assert!(
                cores == 1 || cpu.text.contains(&format!("cores={cores} ")),
                "{platform}: {}",
                cpu.text
            );
        }
        let has_size = |node: &&Node| node.text.contains(&format!("size: {gib}GiB "));
        assert!(of("memory").iter().any(has_size), "{platform}");
        let clock = OTHER_CLOCKS
            .iter()
            .find(|(other, _)| *other == platform)
            .map_or(clock, |(_, clock)| *clock);
        let banks: Vec<_> = of("bank")
            .into_iter()
            .filter(|bank| bank.text.contains("clock:"))
            .collect();
        assert_eq!(banks.is_empty(), clock == 0, "{platform}");
        for bank in banks {
            assert!(
                bank.text.contains(&format!("clock: {clock}MHz")),
                "{platform}: {}",
                bank.text
            );
        }
    }
}

/// A device of lshw's page: its id, and all it says as one line.
struct Node {
    id: String,
    text: String,
}

fn nodes(html: &str) -> Vec<Node> {
    let mut plain = String::new();
    let mut rest = html;
    while let Some(at) = rest.find('<') {
        plain.push_str(&rest[..at]);
        let end = rest[at..].find('>').map_or(rest.len(), |end| at + end + 1);
        // A cell's end is a blank; inside of `cores=8` there is none.
        if ["</tr>", "</div>"].contains(&&rest[at..end])
            || rest[at..end].starts_with("</td><td class=\"second\"")
        {
            plain.push(' ');
        }
        rest = &rest[end..];
    }
    let plain = plain.split_whitespace().collect::<Vec<_>>().join(" ");
    let parts = plain.split("id:").skip(1);
    let node = |part: &str| Node {
        id: part
            .split_whitespace()
            .next()
            .unwrap_or_default()
            .to_owned(),
        text: format!("{part} "),
    };
    // `physical id:` is no device.
    let mut nodes: Vec<Node> = Vec::new();
    for part in parts {
        match nodes.last_mut() {
            Some(last) if last.text.ends_with("physical ") || last.text.ends_with("physical  ") => {
                last.text.push_str(&format!("{part} "))
            }
            _ => nodes.push(node(part)),
        }
    }
    nodes
}

/// A copy with two runs of three stressors on three platforms.
fn made_up(folder: &Path) -> PathBuf {
    let copy = folder.join("copy");
    let scripts = copy.join("benchmarks/stress-ng/scripts");
    fs::create_dir_all(&scripts).expect("a folder");
    fs::write(
        scripts.join("stressor_classes.txt"),
        "# Made up\n\nSTRESSOR\tCLASSES\n\ncpu\t\tCPU\nfifo\t\tPIPE_IO | OS\nklog\tOS\n",
    )
    .expect("written");
    for (platform, cpu, fifo) in [
        ("slow", 100.0, 30.0),
        ("middle", 200.0, 10.0),
        ("fast", 400.0, 20.0),
    ] {
        let results = copy
            .join("results/stress-ng/site")
            .join(platform)
            .join("mode");
        fs::create_dir_all(&results).expect("a folder");
        for run in 1..=5 {
            let noise = 1.0 + f64::from(run) / 1000.0;
            let klog = if platform == "slow" { 0.0 } else { 5.0 };
            let mut yaml = String::from(
                "---\nsystem-info:\n      stress-ng-version: 0.12.01\n      hostname: node-0.example\n      cpus-online: 8\n\nmetrics:\n",
            );
            for (stressor, rate) in [("cpu", cpu), ("fifo", fifo), ("klog", klog)] {
                yaml.push_str(&format!(
                    "    - stressor: {stressor}\n      bogo-ops: 7\n      bogo-ops-per-second-usr-sys-time: 1.0\n      bogo-ops-per-second-real-time: {:.6}\n      wall-clock-time: 60.01\n\n",
                    rate * noise
                ));
            }
            fs::write(results.join(format!("sequential-all_60s.yaml.{run}")), yaml)
                .expect("written");
        }
        fs::write(results.join("sequential-all_60s.summary"), "not read\n").expect("written");
    }
    copy
}

#[test]
fn a_copy_is_imported_ranked_and_reported() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let copy = made_up(folder.path());
    let records = folder.path().join("records.jsonl");
    let imported = dpb(&["import", name(&copy), "--out", name(&records)]);
    assert!(imported.status.success(), "{}", text(&imported.stderr));
    let kept = dpb_core::measure::Reading::of_file(&records)
        .expect("records")
        .records;
    // A stressor that did nothing in a run has no figure.
    assert_eq!(kept.len(), 8);
    let first = &kept[0].record;
    let Evidence::Published { source } = &first.evidence else {
        panic!("{:?}", first.evidence)
    };
    assert!(
        source.ends_with("results/stress-ng/site/fast/mode/sequential-all_60s.yaml.*"),
        "{source}"
    );
    assert_eq!(first.samples["bogo_ops_per_s"].values.len(), 5);

    let output = dpb(&[
        "rank",
        name(&records),
        "--platform",
        "slow",
        "--format",
        "table",
    ]);
    let said = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let line = |start: &str| {
        let line = said.lines().find(|line| line.starts_with(start));
        line.unwrap_or_else(|| panic!("{start} in {said}"))
            .split_whitespace()
            .collect::<Vec<_>>()
    };
    assert_eq!(
        line("fifo")[..5],
        ["fifo", "OS", "|", "PIPE_IO", "1"],
        "{said}"
    );
    assert_eq!(line("cpu")[..3], ["cpu", "CPU", "3"]);
    assert!(said.contains("Without each platform in turn"), "{said}");

    let page = folder.path().join("report.html");
    let output = dpb(&["report", name(&records), "--out", name(&page)]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let page = fs::read_to_string(page).expect("written");
    assert!(page.contains("<section id=\"rank\">"), "a ranking");
    for outside in ["http://", "src=", "@import", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
}

/// Records of three platforms, by a task's own metric.
fn measured(path: &Path, platforms: &[(&str, f64, Evidence)]) {
    let mut store = Store::open(path, Durability::Process).expect("a file");
    for (host, rate, evidence) in platforms {
        for (at, operator) in ["deflate", "sha256", "toeplitz"].into_iter().enumerate() {
            let mut record = Record::new("op", evidence.clone(), 1)
                .with("operator", operator)
                .with("size", 64_u64);
            record.provenance.host = (*host).to_owned();
            record.id = format!("{host}-{operator}");
            let runs = (0..7).map(|run| rate * (1.0 + at as f64) * (1.0 + f64::from(run) / 500.0));
            record.sample("items_per_s", runs.collect());
            store.append(&record).expect("written");
        }
    }
}

#[test]
fn kinds_of_evidence_are_mixed_only_when_asked() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("records.jsonl");
    let emulated = Evidence::Emulated {
        by: "qemu".to_owned(),
    };
    measured(
        &path,
        &[("a", 1e6, Evidence::Measured), ("b", 2e6, emulated)],
    );
    let refused = dpb(&["rank", name(&path)]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        text(&refused.stderr).contains("--across-evidence"),
        "{}",
        text(&refused.stderr)
    );
    let output = dpb(&[
        "rank",
        name(&path),
        "--across-evidence",
        "--reference",
        "a",
        "--format",
        "table",
    ]);
    let said = text(&output.stdout);
    assert!(
        said.contains("b (emulated) is first of 2 platforms, 3 tests."),
        "{said}"
    );
    assert!(
        said.contains("Across evidence: emulated and measured"),
        "{said}"
    );
}

#[test]
fn classes_are_those_of_operators_and_what_cannot_be_ranked_is_said() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("records.jsonl");
    let all = [("a", 1e6), ("b", 2e6), ("c", 2.0001e6)];
    measured(
        &path,
        &all.map(|(host, rate)| (host, rate, Evidence::Measured)),
    );
    let output = dpb(&["rank", name(&path), "--platform", "b", "--format", "json"]);
    let ranking: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let names: Vec<&str> = ranking["classes"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|class| class["name"].as_str())
        .collect();
    assert_eq!(names, ["CPU", "CRYPTO", "PACKET", "STORAGE"]);
    // 0.005 % is less than the runs' spread: b may be first.
    let b = &ranking["tests"][0]["places"][1]["rank"];
    assert_eq!(
        (b["rank"].as_u64(), b["best"].as_u64(), b["worst"].as_u64()),
        (Some(2), Some(1), Some(2))
    );
    for (flags, why) in [
        (
            &["--platform", "d"][..],
            "--platform d: it is not ranked; there are a, b, c",
        ),
        (
            &["--reference", "d"],
            "no test is of the reference platform d",
        ),
        (
            &["--without", "b,c"],
            "a ranking needs tests of two platforms at least",
        ),
        (&["--where", "size=65"], "no record fits"),
        (&["--published"], "--across-evidence"),
    ] {
        let refused = dpb(&[&["rank", name(&path)][..], flags].concat());
        assert_eq!(refused.status.code(), Some(2), "{flags:?}");
        assert!(
            text(&refused.stderr).contains(why),
            "{flags:?}: {}",
            text(&refused.stderr)
        );
    }
}

/// Figures of `dpb characterize` as another source of counts would give them.
fn characterized(store: &mut Store, source: &str, at: usize, program: Option<&str>) {
    let wave = |by: f64| (at as f64 * by).sin().abs();
    let evidence = Evidence::Emulated {
        by: "qemu".to_owned(),
    };
    let record = Record::new("characterize", evidence, 1)
        .with("size", 64_u64)
        .with("source", source);
    let mut record = match program {
        Some(program) => record.with("program", program),
        None => record
            .with("operator", format!("operator{at}"))
            .with("backend", "cpu/portable"),
    };
    record.id = format!("{source}-{at}");
    for (name, value) in [
        ("instructions_per_item", 100.0 * wave(1.0)),
        ("itlb_misses_per_1000", wave(1.3)),
        ("dtlb_misses_per_1000", 5.0 * wave(1.3) + wave(2.1)),
        ("l1d_misses_per_1000", 40.0 * wave(1.7)),
        ("integer_share", 0.5 + 0.3 * wave(0.7)),
        ("branch_share", 0.1 + 0.1 * wave(1.1)),
        ("load_store_share", 0.4 - 0.3 * wave(0.7)),
    ] {
        record.sample(name, vec![value]);
    }
    store.append(&record).expect("written");
}

#[test]
fn what_was_characterized_is_drawn_and_sources_stay_apart() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("records.jsonl");
    let mut store = Store::open(&path, Durability::Process).expect("a file");
    for at in 0..12 {
        characterized(&mut store, "plugin", at, None);
    }
    for (at, program) in ["gzip -c <file>", "sha256sum"].into_iter().enumerate() {
        characterized(&mut store, "plugin", 20 + at, Some(program));
    }
    for at in 0..4 {
        characterized(&mut store, "lackey", 40 + at, None);
    }
    drop(store);
    let page = folder.path().join("report.html");
    let output = dpb(&["report", name(&path), "--out", name(&page)]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let page = fs::read_to_string(page).expect("written");
    let section = &page[page
        .find("<section id=\"task-characterize\"")
        .expect("a section")..];
    let section = &section[..section.find("</section>").expect("it ends")];
    // One radar a record, and each source has its own components.
    assert_eq!(section.matches("class=\"pt web\"").count(), 18);
    assert_eq!(section.matches("<h3>Eigenvalues</h3>").count(), 2);
    assert_eq!(section.matches("<h3>Components 1 and 2</h3>").count(), 2);
    assert_eq!(section.matches("<h3>What is alike</h3>").count(), 2);
    assert_eq!(section.matches("Programs among operators").count(), 1);
    // The radars of a source, which begin its part.
    let radars = |title: &str| {
        let part = &section[section.find(title).expect("a heading")..];
        &part[..part.find("<h3>Eigenvalues</h3>").expect("components")]
    };
    let of = |source: &str| radars(&format!("<h3 class=\"beside\">Counts by {source}"));
    let (plugin, lackey) = (of("plugin"), of("lackey"));
    assert!(plugin.contains("14 records are here; not compared with 4 under"));
    assert!(plugin.contains("operator11") && !plugin.contains("operator40"));
    assert!(lackey.contains("operator40") && !lackey.contains("operator11"));
    assert!(section.contains("gzip -c &lt;file&gt;") && !section.contains("<file>"));
    for outside in ["http://", "https://", "src=", "@import", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
    let output = dpb(&["report", name(&path), "--text"]);
    let said = text(&output.stdout);
    assert!(
        said.contains("of 6 components are more than chance"),
        "{said}"
    );
}
