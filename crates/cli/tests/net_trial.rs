//! `dpb net generate`, `replay` and `trial`, the real program: files that tshark reads, faults that are planted and counted, records that say
//! why there is no number. Whether a trial is in time depends on the machine, so no test wants it to be.

mod support;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::process::{Command, Output};

use dpb_core::measure::{Outcome, Record};
use dpb_net::port::capture::Reader;
use dpb_net::wire;
use support::{cannot_be_emulated, finish, text};

fn net(words: &[&str]) -> Output {
    finish(&[&["net"], words, &["--format", "json"]].concat())
}

/// The account that `generate` and `replay` print.
fn account(words: &[&str]) -> serde_json::Value {
    let output = net(words);
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn trial(words: &[&str]) -> (Output, Vec<Record>) {
    let output = net(&[&["trial"], words].concat());
    let records = support::records(&output);
    (output, records)
}

fn packets(path: &Path) -> Vec<(u64, Vec<u8>)> {
    let file = BufReader::new(File::open(path).expect("a file"));
    let mut reader = Reader::new(file).expect("a capture");
    let next = || reader.read().expect("whole");
    std::iter::from_fn(next)
        .map(|record| (record.time_ns, record.bytes))
        .collect()
}

/// Fields of all packets, as tshark reads them; `None` without it.
fn tshark(path: &Path, fields: &[&str]) -> Option<Vec<Vec<String>>> {
    let mut command = Command::new("tshark");
    command.args(["-n", "-r"]).arg(path).args(["-T", "fields"]);
    for layer in ["ip", "tcp", "udp"] {
        command.args(["-o", &format!("{layer}.check_checksum:TRUE")]);
    }
    for field in fields {
        command.args(["-e", field]);
    }
    let Ok(output) = command.output() else {
        println!("skipped: captures read by tshark: no tshark (Debian: tshark)");
        return None;
    };
    assert!(output.status.success(), "{}", text(&output.stderr));
    let row = |line: &str| line.split('\t').map(str::to_owned).collect();
    Some(text(&output.stdout).lines().map(row).collect())
}

fn path_of(path: &Path) -> &str {
    path.to_str().expect("text")
}

const TIMED: [&str; 6] = [
    "frame.time_epoch",
    "frame.len",
    "ip.checksum.status",
    "udp.checksum.status",
    "tcp.checksum.status",
    "vlan.id",
];

/// Checksums that are there are right.
fn assert_sums(row: &[String]) {
    for sum in &row[2..5] {
        assert!(sum.is_empty() || sum == "1", "{row:?}");
    }
}

#[test]
fn a_generated_file_is_what_the_account_says() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("out.pcap");
    let port = format!("capture:,{}", path.display());
    let words = "--packets 500 --rate 1M --size imix-csit-from-104 --family both --transport both --vlan 7 --flows 9";
    let words: Vec<&str> = words.split(' ').collect();
    let account = account(&[&["generate", "--port", &port], &words[..]].concat());
    assert_eq!(
        (&account["offered"], &account["refused"]),
        (&500.into(), &0.into())
    );
    assert_eq!(
        (&account["taken"], &account["sent"], &account["lost"]),
        (&500.into(), &500.into(), &0.into())
    );
    let Some(rows) = tshark(
        &path,
        &[&TIMED[..], &["ip.version", "ip.proto", "ipv6.nxt"]].concat(),
    ) else {
        return;
    };
    assert_eq!(rows.len(), 500);
    let lens: Vec<u64> = rows
        .iter()
        .map(|row| row[1].parse().expect("bytes"))
        .collect();
    assert_eq!(account["taken_bytes"], lens.iter().sum::<u64>());
    // 104 bytes with check sequence are 100 without.
    assert!(
        lens.iter().all(|len| [100, 566, 1514].contains(len)),
        "{lens:?}"
    );
    let nanoseconds = |row: &Vec<String>| {
        let (_, fraction) = row[0].split_once('.').expect("a fraction");
        fraction.parse::<u64>().expect("nine digits")
    };
    let first = nanoseconds(&rows[0]);
    for (i, row) in (0..).zip(&rows) {
        assert_eq!(nanoseconds(row) - first, i * 1000, "{row:?}");
        assert_eq!(row[5], "7");
        assert_sums(row);
    }
    // Nine flows have both families and both transports at this seed.
    let kinds = |column: usize, value: &str| rows.iter().filter(|row| row[column] == value).count();
    assert!(kinds(6, "4") > 0 && kinds(6, "6") > 0);
    assert!(kinds(7, "17") + kinds(8, "17") > 0 && kinds(7, "6") + kinds(8, "6") > 0);
}

/// A burst that leaves at once is no millions of packets a second: it is what is due until the next one.
#[test]
fn the_rate_of_a_burst_is_the_one_that_was_asked_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let port = format!("capture:,{}", folder.path().join("out.pcap").display());
    let words = "--rate 1k --schedule bursts --schedule-burst 32 --schedule-peak 10M";
    let words: Vec<&str> = words.split(' ').collect();
    for (packets, seconds) in [("32", 0.032), ("64", 0.064)] {
        let account = account(
            &[
                &["generate", "--port", &port, "--packets", packets],
                &words[..],
            ]
            .concat(),
        );
        assert_eq!(account["seconds"], seconds, "{account}");
        assert_eq!(account["packets_per_s"], 1000.0, "{account}");
        assert_eq!(
            (&account["late"], &account["is_as_asked"]),
            (&0.into(), &true.into())
        );
    }
}

#[test]
fn a_replayed_file_is_the_same_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let [captured, again, twice] =
        ["captured.pcapng", "again.pcap", "twice.pcap"].map(|name| folder.path().join(name));
    let to = |path: &Path| format!("capture:,{}", path.display());
    account(&[
        "generate",
        "--port",
        &to(&captured),
        "--packets",
        "300",
        "--size",
        "200",
        "--application",
        "today",
        "--lengths",
        "agh-campus",
        "--schedule",
        "poisson",
        "--flows",
        "20",
    ]);
    let words = ["replay", "--capture", path_of(&captured), "--port"];
    account(&[&words[..], &[&to(&again)]].concat());
    let (one, two) = (packets(&captured), packets(&again));
    let from_first = |all: &[(u64, Vec<u8>)]| -> Vec<(u64, Vec<u8>)> {
        let first_ns = all[0].0;
        all.iter()
            .map(|(ns, packet)| (ns - first_ns, packet.clone()))
            .collect()
    };
    assert_eq!(one.len(), 300);
    assert!(
        from_first(&one) == from_first(&two),
        "bytes and times are those of the capture"
    );

    // Four times as fast, twice, with other addresses each time.
    account(
        &[
            &words[..],
            &[
                &to(&twice),
                "--speed",
                "4",
                "--loops",
                "2",
                "--rewrite",
                "--ipv4-bits",
                "8",
            ],
        ]
        .concat(),
    );
    let fast = packets(&twice);
    assert_eq!(fast.len(), 600);
    for (slow, fast) in from_first(&one).iter().zip(from_first(&fast)) {
        assert!(
            fast.0.abs_diff(slow.0 / 4) <= 1,
            "{} and {}",
            slow.0,
            fast.0
        );
    }
    let fields = ["ip.src", "ip.dst", "udp.length", "tcp.seq_raw"];
    let fields = [&TIMED[..5], &fields].concat();
    let (Some(before), Some(after)) = (tshark(&captured, &fields), tshark(&twice, &fields)) else {
        return;
    };
    let mut new_of: BTreeMap<(usize, String), String> = BTreeMap::new();
    for (i, row) in after.iter().enumerate() {
        let old = &before[i % 300];
        assert_sums(row);
        assert_eq!(
            (&old[1], &old[7..]),
            (&row[1], &row[7..]),
            "only addresses differ"
        );
        for at in [5, 6] {
            let prefix = |address: &str| {
                address
                    .rsplit_once('.')
                    .map(|(prefix, _)| prefix.to_owned())
            };
            assert_eq!(prefix(&old[at]), prefix(&row[at]));
            // Equal addresses stay equal within a loop.
            let new = new_of
                .entry((i / 300, old[at].clone()))
                .or_insert_with(|| row[at].clone());
            assert_eq!(new, &row[at]);
        }
    }
    let moved = new_of
        .iter()
        .filter(|((turn, old), new)| *turn == 1 && old != *new);
    assert!(moved.count() > 10);
}

const PLANTED: &str = "loss=1%,duplicates=0.5%,reordering=0.5%";

/// The wire's model says what becomes of packet number so-and-so; the trial counts what came.
#[test]
fn planted_faults_are_counted_as_planted() {
    let load = [
        "--rate",
        "20k",
        "--seconds",
        "0.2",
        "--warm-up",
        "1ms",
        "--repeat",
        "1",
        "--seed",
        "7",
    ];
    // However late the generator is, and for however long a port is full: nothing is refused.
    let (output, records) =
        trial(&[&["--faults", PLANTED, "--tolerance", "10"], &load[..]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let [record] = &records[..] else {
        panic!("{} records", records.len())
    };
    assert_eq!(record.evidence.kind(), "emulated");
    let count = |name: &str| record.counts.get(name).copied().unwrap_or(0);
    let plan = wire::Plan {
        seed: 7,
        loss_ppm: 10_000,
        duplicate_ppm: 5_000,
        reorder_ppm: 5_000,
        ..wire::Plan::default()
    };
    // Behind the packets to warm up.
    const WARM_UP: u64 = 20;
    let harmless = wire::Fate::default();
    assert!((0..WARM_UP).all(|i| plan.fate(i) == harmless));
    let fates: Vec<wire::Fate> = (WARM_UP..WARM_UP + 4000).map(|i| plan.fate(i)).collect();
    let fated = |of: fn(&wire::Fate) -> bool| fates.iter().filter(|fate| of(fate)).count() as u64;
    assert_eq!(
        (count("offered"), count("refused"), count("trials")),
        (4000, 0, 1)
    );
    assert_eq!(count("dropped: planted loss"), fated(|fate| fate.is_lost));
    assert!(count("dropped: planted loss") > 20);
    let late = count("dropped: late");
    assert_eq!(count("dropped"), count("dropped: planted loss") + late);
    assert_eq!(count("offered"), count("delivered") + count("dropped"));
    assert_eq!(count("received"), count("delivered") + count("duplicates"));
    let planted = ["planted_lost", "planted_duplicated", "planted_reordered"].map(count);
    assert_eq!(planted[0], fated(|fate| fate.is_lost));
    assert_eq!(planted[1], fated(|fate| fate.is_duplicated));
    // A packet that is held back is overtaken if others come in time.
    assert!((1..=fated(|fate| fate.overtaken_by > 0)).contains(&planted[2]));
    // What is late is counted as late alone.
    if late == 0 {
        assert_eq!([count("duplicates"), count("reordered")], planted[1..]);
    }
    let loss = record.summary["loss_ratio"].median;
    assert_eq!(loss, count("dropped") as f64 / 4000.0);
    assert_eq!(
        record.summary["packets_per_s"].median,
        count("delivered") as f64 / 0.2
    );
    assert_eq!(record.summary["offered_packets_per_s"].median, 20e3);
    // More than one in a thousand never arrives.
    assert!(!record.summary.contains_key("latency_ns_p999"));
    assert_eq!(count("latency_ns_p999_infinite"), 1);
    assert!(record.summary["latency_ns_p50"].median > 0.0);
    assert_eq!(
        record.check.as_ref().expect("checked").compared,
        count("received")
    );
}

/// No generator keeps to a nanosecond.
#[test]
fn a_late_generator_has_no_number() {
    let words = [
        "--rate",
        "100k",
        "--seconds",
        "20ms",
        "--warm-up",
        "1ms",
        "--repeat",
        "2",
        "--tolerance",
        "0.001us",
    ];
    let (output, records) = trial(&words);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    let [record] = &records[..] else {
        panic!("{} records", records.len())
    };
    let Outcome::Unsupported { reason } = &record.outcome else {
        panic!("{:?}", record.outcome);
    };
    assert!(reason.contains("the generator was late"), "{reason}");
    assert!(record.summary.is_empty() && record.samples.is_empty());
    assert_eq!(
        (record.counts["trials_invalid"], record.counts.get("trials")),
        (6, None)
    );
}

#[test]
fn a_sweep_has_a_record_for_each_test_that_says_what_it_was() {
    let words = "--size 64,imix-csit --rate 5k,10k --place threads,inline --seconds 20ms --warm-up 1ms --repeat 3 --tolerance 10 --flow-order";
    let words: Vec<&str> = words.split(' ').collect();
    let (output, records) = trial(&words);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let of = |record: &Record, name: &str| record.parameters[name].to_string();
    let found: Vec<String> = (records.iter())
        .map(|record| {
            ["place", "size", "rate"]
                .map(|name| of(record, name))
                .join(" ")
        })
        .collect();
    let mut expected = Vec::new();
    for place in ["threads", "inline"] {
        for size in ["64", "imix-csit"] {
            expected.extend([5000, 10_000].map(|rate| format!("{place} {size} {rate}")));
        }
    }
    assert_eq!(found, expected);
    for record in &records {
        assert_eq!(
            (record.outcome.clone(), record.evidence.kind()),
            (Outcome::Done, "measured")
        );
        assert_eq!(of(record, "link"), "memory");
        let count = |name: &str| record.counts[name];
        assert_eq!(
            count("offered"),
            count("refused") + count("delivered") + count("dropped")
        );
        assert_eq!(
            (
                count("trials"),
                count("trials_invalid"),
                count("unexplained")
            ),
            (3, 0, 0)
        );
        assert_eq!((count("duplicates"), count("corrupted")), (0, 0));
        // A bridge of one thread keeps all order.
        assert_eq!((count("reordered"), count("reordered_in_flows")), (0, 0));
        assert_eq!(record.samples["packets_per_s"].values.len(), 3);
        assert_eq!(record.samples["schedule_error_ns_p99"].values.len(), 3);
    }
}

/// Each program gives back the packets that it is sent, changed as it changes them: what the trial looks at is the payload.
#[test]
fn programs_are_under_test_by_name() {
    let load =
        "--size 200 --flows 16 --rate 10k --seconds 0.1 --warm-up 10ms --repeat 1 --tolerance 10";
    let load: Vec<&str> = load.split(' ').collect();
    for program in ["forward", "nat44", "firewall", "encrypt,decrypt"] {
        // Two ends of ESP each say which thread has which packets.
        let threads = match program {
            "encrypt,decrypt" => &["1"][..],
            _ => &["1", "2"],
        };
        for threads in threads {
            let words = ["--program", program, "--threads", threads];
            let (output, records) = trial(&[&words[..], &load[..]].concat());
            assert!(
                output.status.success(),
                "{program}, {threads}: {}",
                text(&output.stderr)
            );
            let record = &records[0];
            let of = |name: &str| record.parameters[name].to_string();
            assert_eq!(
                (of("program"), of("threads")),
                (program.to_owned(), (*threads).to_owned())
            );
            assert_eq!(of("flows"), "16", "of the traffic, not of a table");
            let count = |name: &str| record.counts.get(name).copied().unwrap_or(0);
            assert_eq!(count("offered"), 1000);
            assert_eq!(
                count("delivered") + count("refused") + count("dropped: late"),
                1000,
                "{program}, {threads}: {:?}",
                record.counts
            );
            match program {
                "nat44" => assert_eq!(count("nat_sessions"), 16),
                "encrypt,decrypt" => assert!(of("backend").contains("aes-gcm")),
                _ => {}
            }
        }
    }
}

/// Two threads may exchange packets of two flows, and keep the order of each.
#[test]
fn threads_keep_the_order_of_flows() {
    let words = "--threads 2 --flows 16 --rate 20k --seconds 0.1 --warm-up 1ms --repeat 1 --tolerance 10 --flow-order";
    let words: Vec<&str> = words.split(' ').collect();
    let (output, records) = trial(&words);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let count = |name: &str| records[0].counts[name];
    assert_eq!(
        (
            count("offered"),
            count("refused"),
            count("reordered_in_flows")
        ),
        (2000, 0, 0)
    );
    assert_eq!(count("offered"), count("delivered") + count("dropped"));
}

/// A search between narrow limits: whatever the machine bears, the record follows from its trials.
#[test]
fn a_search_has_a_record_for_each_goal() {
    let words = "--search ndr,pdr --goal-trial 20ms --goal-sum 60ms --goal-width 20% --rate-min 1k --rate-max 20k --searches 2 --tolerance 10 \
                 --place inline --warm-up 1ms";
    let words: Vec<&str> = words.split_whitespace().collect();
    let (output, records) = trial(&words);
    assert_eq!(records.len(), 2, "{}", text(&output.stderr));
    for (record, (name, loss)) in records.iter().zip([("ndr", 0.0), ("pdr", 0.005)]) {
        let of = |name: &str| record.parameters[name].to_string();
        assert_eq!(
            (of("search"), of("goal_loss")),
            (name.to_owned(), loss.to_string())
        );
        assert_eq!(
            (of("goal_trial"), of("goal_sum"), of("goal_width")),
            ("0.02".to_owned(), "0.06".to_owned(), "0.2".to_owned())
        );
        let loads = &record.samples["trial_offered_packets_per_s"].values;
        let losses = &record.samples["trial_loss_ratio"].values;
        assert_eq!(
            (loads.len(), record.samples["trial_s"].values.len()),
            (losses.len(), losses.len())
        );
        // Each search has a trial to warm up beside these.
        assert_eq!(record.counts["trials"], loads.len() as u64 + 2);
        if record.outcome != Outcome::Done {
            continue;
        }
        let each = |name: &str| {
            record
                .samples
                .get(name)
                .map(|samples| samples.values.clone())
        };
        let throughputs = each("throughput_packets_per_s").expect("a number");
        assert_eq!(throughputs.len(), 2);
        let lower = each("lower_packets_per_s").expect("where there is throughput");
        assert!(
            throughputs
                .iter()
                .zip(&lower)
                .all(|(rate, lower)| rate <= lower && loads.contains(lower))
        );
        match each("upper_packets_per_s") {
            Some(upper) => assert!(lower.iter().zip(&upper).all(|(lower, upper)| lower < upper)),
            // The machine bears the highest rate at least once: the verdict says so.
            None => {
                let stability = record.stability.as_ref().expect("judged");
                let says = |why: &String| why.contains("upholds the goal");
                assert!(
                    !stability.stable && stability.reasons.iter().any(says),
                    "{stability:?}"
                );
            }
        }
    }
}

#[test]
fn what_makes_no_sense_is_said_before_anything_runs() {
    for (words, says) in [
        ("trial --from af-packet:lo", "--to"),
        (
            "trial --from af-packet:lo --to af-packet:lo --threads 2",
            "cannot be used with",
        ),
        ("trial --family ipv6 --size 64", "take 84 bytes"),
        ("trial --size 63", "a frame of 63 bytes"),
        ("trial --rate 2G", "a schedule of 2000000000 packets"),
        (
            "trial --search ndr --rate-min 10k --rate-max 10k",
            "is not below",
        ),
        ("trial --faults rain=1%", "none of loss"),
        ("generate --port capture:in.pcap", "capture:,FILE"),
        ("generate --port eth0", "a kind, a colon"),
        (
            "generate --port capture:,x.pcap --size 64,128",
            "one value each",
        ),
        (
            "replay --capture x.pcap --port capture:,y.pcap --speed 0",
            "above 0",
        ),
        (
            "replay --capture /nosuch.pcap --port capture:,y.pcap",
            "/nosuch.pcap",
        ),
        (
            "trial --from af-packet:nosuch0 --to af-packet:lo",
            "af-packet:nosuch0",
        ),
    ] {
        let words: Vec<&str> = words.split(' ').collect();
        let output = net(&words);
        // A port may be there on another machine.
        let code = if says == "af-packet:nosuch0" { 3 } else { 2 };
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{words:?}: {stderr}");
        assert!(stderr.contains(says), "{words:?}: {stderr}");
    }
}

/// Two ends of a cable of the kernel's, in a network namespace of our own.
#[test]
fn a_trial_between_two_ports_of_this_machine() {
    if cannot_be_emulated("rings of AF_PACKET") {
        return;
    }
    let script = format!(
        "ip link add left type veth peer name right && \
         sysctl -qw net.ipv6.conf.left.disable_ipv6=1 net.ipv6.conf.right.disable_ipv6=1; \
         ip link set left up && ip link set right up && sleep 0.1 && \
         exec {} net trial --from af-packet:left --to af-packet:right --rate 2k --seconds 0.2 --repeat 1 --tolerance 10 --format json",
        support::DPB
    );
    let output = Command::new("unshare")
        .args(["-Urn", "sh", "-c", &script])
        .output();
    let Ok(output) = output else {
        println!("skipped: a trial between namespaces: no unshare (Debian: util-linux)");
        return;
    };
    if output.stdout.is_empty()
        && ["unshare", "ip:", "not permitted"]
            .iter()
            .any(|why| text(&output.stderr).contains(why))
    {
        println!(
            "skipped: a trial between ports: {}; allow user namespaces",
            text(&output.stderr).trim()
        );
        return;
    }
    assert!(output.status.success(), "{}", text(&output.stderr));
    let records = support::records(&output);
    let count = |name: &str| records[0].counts[name];
    assert_eq!(records[0].parameters["link"].to_string(), "af-packet");
    // A cable of software.
    assert_eq!(records[0].evidence.kind(), "emulated");
    assert_eq!(count("offered"), 400);
    assert_eq!(
        400,
        count("refused") + count("delivered") + count("dropped") + count("unexplained")
    );
    assert!(count("delivered") > 0, "{:?}", records[0].counts);
}
