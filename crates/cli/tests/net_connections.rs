//! `dpb net connections`, the real program: the capacity that is found is that of the table, rates are found, and what lets both sides begin connections has no figures. How fast
//! the machine is decides nothing: the tester may be late for as long as it likes.

mod support;

use std::fs;
use std::process::{Command, Stdio};

use dpb_core::measure::{Outcome, Record};
use support::{DPB, cannot_be_emulated, finish, records, text};

/// However late packets are offered, none is given up.
const PATIENT: &str = "--tolerance 30 --patience 30";

fn words(text: &str) -> Vec<&str> {
    text.split_whitespace().collect()
}

/// The records of a command line that ends well.
fn measured(line: &str) -> Vec<Record> {
    let line = format!("net connections {line} {PATIENT} --format json");
    let output = finish(&words(&line));
    assert!(output.status.success(), "{line}: {}", text(&output.stderr));
    records(&output)
}

/// Checks what holds in each record with numbers: the packets of all phases add up, and all of them have a reason.
fn assert_counted(record: &Record) {
    assert_eq!(record.outcome, Outcome::Done);
    let count = |name: &str| record.counts.get(name).copied().unwrap_or(0);
    assert_eq!(
        count("offered"),
        count("refused") + count("delivered") + count("dropped") + count("unexplained"),
        "{:?}",
        record.counts
    );
    assert_eq!((count("duplicates"), count("corrupted")), (0, 0));
    assert!(count("connections_made") > 0 && count("tear_downs") > 0);
    assert!(count("connections_made") <= count("connections_tried"));
    let check = record.check.as_ref().expect("checked");
    assert_eq!(check.compared, count("received"));
    assert!(check.against.contains("by an answer"), "{check:?}");
}

fn median(record: &Record, name: &str) -> f64 {
    let summary = record.summary.get(name);
    summary
        .unwrap_or_else(|| panic!("{name}: {record:?}"))
        .median
}

/// Rules by which clients alone begin connections, in a folder that is gone with the first value.
fn rules() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("rules");
    fs::write(&path, "allow udp from 10.0.0.0/16\ndefault deny\n").expect("writes");
    let path = path.to_str().expect("UTF-8").to_owned();
    (folder, path)
}

#[test]
fn the_capacity_that_is_found_is_the_tables() {
    let (_folder, rules) = rules();
    let exact = "--measure capacity --goal-width 0.0001% --fill-rate 100k";
    for (program, flows) in [
        ("--program nat44".to_owned(), 1000),
        (format!("--program firewall --rules {rules}"), 777),
    ] {
        let line = format!("{program} --program-flows {flows} --place inline,threads {exact}");
        let records = measured(&line);
        assert_eq!(records.len(), 2);
        for record in &records {
            assert_counted(record);
            let found = ["capacity_connections", "capacity_upper_connections"];
            assert_eq!(
                found.map(|name| median(record, name)),
                [f64::from(flows), f64::from(flows + 1)]
            );
            assert_eq!(record.evidence.kind(), "measured");
            assert_eq!(record.counts["unexplained"], 0);
            // What found no room is dropped for that reason.
            let full = record.counts.keys().any(|name| name.contains("table full"));
            assert!(full, "{:?}", record.counts);
        }
    }
}

#[test]
fn rates_are_found_with_their_bounds() {
    let (_folder, rules) = rules();
    let goal = "--search ndr,pdr --goal-trial 10ms --goal-sum 20ms --search-time 60 --rate-min 1k --rate-max 20k";
    let line = format!(
        "--program firewall --rules {rules} --place inline --connections 200 --measure establishment,throughput,tear-down {goal}"
    );
    let records = measured(&line);
    let of = |record: &Record, name: &str| record.parameters[name].to_string();
    let found: Vec<String> = (records.iter())
        .map(|record| {
            let goal = record.parameters.get("search");
            let goal = goal.map_or(String::new(), ToString::to_string);
            format!("{} {goal}", of(record, "measure"))
        })
        .collect();
    assert_eq!(
        found,
        [
            "establishment ndr",
            "establishment pdr",
            "throughput ndr",
            "throughput pdr",
            "tear-down "
        ]
    );
    for (record, name) in records.iter().zip([
        "established_per_s",
        "established_per_s",
        "throughput_packets_per_s",
        "throughput_packets_per_s",
        "torn_down_per_s",
    ]) {
        assert_counted(record);
        let rate = median(record, name);
        assert!(rate > 0.0 && rate.is_finite(), "{name}: {rate}");
        if name == "established_per_s" {
            // All 200 may be as late as they like.
            let stability = record.stability.as_ref().expect("judged");
            let mut reasons = stability.reasons.iter();
            assert!(reasons.any(|why| why.contains("more --connections")));
        }
        if name != "torn_down_per_s" {
            assert!(rate <= 20e3, "{name}: {rate}");
            assert!(!record.samples["trial_load_per_s"].values.is_empty());
        }
    }
    let forgotten = &records[4];
    let seconds = median(forgotten, "tear_down_s");
    let rate = median(forgotten, "torn_down_per_s");
    assert!((seconds * rate - 200.0).abs() < 1e-6, "{seconds} {rate}");
}

#[test]
fn a_table_shows_the_figures() {
    let line = format!(
        "net connections --program-flows 100 --place inline --measure capacity,tear-down --connections 50 {PATIENT} --format table"
    );
    let output = finish(&words(&line));
    let stdout = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    for said in ["capacity", "torn down/s", "program flows", "evidence"] {
        assert!(stdout.contains(said), "{said}: {stdout}");
    }
}

#[test]
fn what_has_no_figures_says_why() {
    let folder = tempfile::tempdir().expect("a folder");
    let open = folder.path().join("open");
    fs::write(&open, "default allow\n").expect("writes");
    let open = open.to_str().expect("UTF-8");
    let ports = "--from capture:,a --to capture:,b";
    for (line, code, said) in [
        ("--program bridge".to_owned(), 2, "nat44 and firewall know"),
        ("--program firewall".to_owned(), 2, "default deny"),
        (
            ports.to_owned(),
            2,
            "--tear-down FILE or --forget-after TIME",
        ),
        (
            format!("{ports} --forget-after 1 --measure tear-down"),
            2,
            "no rate of tear-down",
        ),
        ("--tear-down ./flush.sh".to_owned(), 2, "--from"),
        (
            "--connections 40000 --measure tear-down --clients 10.0.0.0/32 --servers 198.18.0.0/32"
                .to_owned(),
            2,
            "tuples",
        ),
        // Both sides may begin connections: no answer says anything.
        (
            format!("--program firewall --rules {open} --place inline"),
            1,
            "lets the responder begin",
        ),
        // More than the table holds.
        (
            "--program-flows 100 --connections 101 --measure tear-down --place inline".to_owned(),
            3,
            "100 of 101 connections were established",
        ),
    ] {
        let output = finish(&words(&format!("net connections {line} {PATIENT}")));
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{line}: {stderr}");
        assert!(stderr.contains(said), "{line}: {stderr}");
    }
}

/// Somebody's own system: a process between two links, which begins anew where it is told to forget.
const ELSEWHERE: &str = r#"
set -eu
cd "$1"
for pair in "initiator inside" "responder outside"; do
    set -- $pair
    ip link add $1 type veth peer name $2
    for end in $1 $2; do
        ip link set $end addrgenmode none
        ip link set $end up
    done
done
touch go
supervise() {
    while [ -e go ]; do
        "$DPB" --format json net nat44 --port af-packet:inside --port af-packet:outside --flows 200 --idle sleep > /dev/null 2> said &
        echo $! > process
        wait $! || true
    done
}
cat > forget.sh <<'EOF'
#!/bin/sh
old=$(cat process)
: > said
kill -TERM "$old"
rounds=0
until [ "$(cat process)" != "$old" ] && grep -q 'running on' said; do
    rounds=$((rounds + 1))
    [ $rounds -lt 3000 ] || { cat said >&2; exit 1; }
    sleep 0.02
done
EOF
chmod +x forget.sh
supervise &
supervisor=$!
trap 'rm -f go; kill $(cat process) 2>/dev/null || true; wait $supervisor' EXIT
rounds=0
until grep -q 'running on' said 2>/dev/null; do
    rounds=$((rounds + 1))
    [ $rounds -lt 1200 ] || { cat said >&2; exit 1; }
    sleep 0.05
done
"$DPB" --format json net connections --from af-packet:initiator --to af-packet:responder --tear-down ./forget.sh --fill-rate 5k \
    --tolerance 30 --patience 30 --goal-width 0.0001% --connections-max 1000 --connections 100 --measure capacity,tear-down
"#;

#[test]
fn a_system_elsewhere_is_measured_through_ports() {
    if cannot_be_emulated("rings of AF_PACKET") {
        return;
    }
    let namespaces = ["--user", "--map-root-user", "--net", "--mount"];
    let tried = Command::new("unshare")
        .args(namespaces)
        .args([
            "ip", "link", "add", "a", "type", "veth", "peer", "name", "b",
        ])
        .output();
    if !tried.is_ok_and(|tried| tried.status.success()) {
        println!(
            "skipped: no network namespaces here; apt-get install iproute2, as root or with user namespaces"
        );
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let output = Command::new("unshare")
        .args(namespaces)
        .args(["sh", "-c", ELSEWHERE, "sh"])
        .arg(folder.path())
        .env("DPB", DPB)
        .stdin(Stdio::null())
        .output()
        .expect("unshare starts");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let records = records(&output);
    let [capacity, tear_down] = &records[..] else {
        panic!("{records:?}")
    };
    for record in &records {
        assert_counted(record);
        assert_eq!(record.evidence.kind(), "emulated");
    }
    assert_eq!(median(capacity, "capacity_connections"), 200.0);
    assert_eq!(median(capacity, "capacity_upper_connections"), 201.0);
    // Nobody knows why a packet was lost elsewhere.
    assert!(capacity.counts["unexplained"] > 0);
    assert!(median(tear_down, "torn_down_per_s") > 0.0);
}
