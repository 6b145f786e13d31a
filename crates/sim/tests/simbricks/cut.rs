//! Described systems, cut along their links into several kernels: each part does what it does in the whole.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use dpb_core::conformance::sample::Sample;
use dpb_core::{Backend, OpSpec, Operator, SetupError, WallClock, spec};
use dpb_sim::simbricks::{RingShape, SyncMode};
use dpb_sim::system::{Description, Gate, GateWatch, System, WaysOut};
use tempfile::tempdir;

use crate::drive::{pair, params};

/// A server and two clients; one of them talks to the other as well, so that the parts finish at different times.
const SYSTEM: &str = r#"
    limit_s = 3
    [[host]]
    name = "server"
    listen = [{ port = 5001, application = "receive" }]
    [[host]]
    name = "a"
    listen = [{ port = 5002, application = "answer", request_bytes = 100, answer_bytes = 1000 }]
    connect = [{ to = "server", port = 5001, application = "send", bytes = 300_000 }]
    [[host]]
    name = "b"
    connect = [
        { to = "server", port = 5001, at_us = 10, application = "send", bytes = 200_000 },
        { to = "a", port = 5002, at_us = 20, application = "ask", requests = 400, request_bytes = 100, answer_bytes = 1000 },
    ]
    [[card]]
    host = "server"
    stage = [{ name = "crc", job_ns = 100 }]
    digest = { operator = "crc32c" }
    [[card]]
    host = "a"
    stage = [{ name = "crc", job_ns = 100 }]
    digest = { operator = "crc32c" }
    [[card]]
    host = "b"
    stage = [{ name = "crc", job_ns = 100 }]
    digest = { operator = "crc32c" }
    [[switch]]
    name = "left"
    [[switch]]
    name = "right"
    [[link]]
    ends = ["server", "left"]
    latency_ns = 10_000
    [[link]]
    ends = ["left", "right"]
    latency_ns = 20_000
    [[link]]
    ends = ["right", "a"]
    latency_ns = 10_000
    [[link]]
    ends = ["b", "right"]
    latency_ns = 10_000
"#;

fn prepare(_: &str) -> Result<Arc<dyn Operator>, SetupError> {
    Sample::new(None).prepare(&OpSpec::from(spec::Crc32c))
}

/// Everything that is counted, by part, but what frames remember and bytes do not say.
fn record(system: &System) -> Vec<String> {
    let hosts = system.hosts().map(|(name, host)| {
        let flows = host.flows().iter().map(|flow| {
            let statistics = flow.endpoint.sender().statistics();
            let bytes = flow.endpoint.delivered_bytes();
            format!(
                "{:?} {bytes} {} {statistics:?}",
                flow.finished_ps, flow.answers
            )
        });
        let flows: Vec<String> = flows.collect();
        format!("{name} {:?} {flows:?}", host.usage())
    });
    let cards = system.cards().map(|(name, card)| {
        let (usage, protection) = (card.usage(), card.protection());
        let stages: Vec<_> = card.stages().collect();
        let (wire, dma) = (card.wire_usage(), card.dma());
        format!("card {name} {usage:?} {protection:?} {stages:?} {wire:?} {dma:?}")
    });
    let switches = system.switches().map(|(name, switch, ports)| {
        let wires = (0..ports.len()).map(|port| switch.wire_usage(port));
        let wires: Vec<_> = wires.collect();
        format!("{name} {:?} {wires:?}", switch.usage())
    });
    hosts.chain(cards).chain(switches).collect()
}

fn names(part: &[&str]) -> BTreeSet<String> {
    part.iter().map(|&name| name.to_owned()).collect()
}

/// The ways out of each part, and their watches.
fn ways(description: &Description, parts: &[&[&str]]) -> Vec<(WaysOut, Vec<GateWatch>)> {
    let folder = tempdir().unwrap();
    let all = parts.iter().map(|part| {
        let ways = WaysOut {
            here: Some(names(part)),
            ..WaysOut::default()
        };
        (ways, Vec::new())
    });
    let mut all: Vec<(WaysOut, Vec<GateWatch>)> = all.collect();
    for (number, link) in description.link.iter().enumerate() {
        let owner = |end: &String| parts.iter().position(|it| it.contains(&end.as_str()));
        let [a, b] = link.ends.each_ref().map(|end| owner(end).unwrap());
        if a == b {
            continue;
        }
        let cut = description.cut_links(&names(parts[a])).unwrap();
        let cut = cut.iter().find(|it| it.number == number).unwrap();
        let side = params(SyncMode::Required, cut.latency_ps, cut.latency_ps);
        let shape = RingShape {
            entries: 256,
            entry_bytes: (64 + description.frame_bytes_max() as u64).next_multiple_of(8),
        };
        let gates = pair(&folder.path().join(number.to_string()), shape, [side, side]);
        for (at, end) in [a, b].into_iter().zip(gates) {
            let clock = Arc::new(WallClock::default());
            let gate = Gate::synchronised(end).unwrap();
            let gate = gate.with_patience(clock, Duration::from_secs(60), || false);
            all[at].1.push(gate.watch());
            all[at].0.links.insert(number, Box::new(gate));
        }
    }
    all
}

/// Runs the parts, each in a thread with a kernel of its own; the records of all of them.
fn in_parts(description: &Description, parts: &[&[&str]], linger_ps: u64) -> Vec<String> {
    let ways = ways(description, parts);
    let records: Vec<Vec<String>> = thread::scope(|scope| {
        let threads = ways.into_iter().map(|(ways, watches)| {
            scope.spawn(move || {
                let system = System::assemble_part(description, &prepare, 7, 1, ways);
                let mut system = system.unwrap();
                assert!(system.run_beside(&watches, linger_ps).unwrap());
                watches.iter().for_each(GateWatch::farewell);
                record(&system)
            })
        });
        let threads: Vec<_> = threads.collect();
        threads.into_iter().map(|it| it.join().unwrap()).collect()
    });
    let mut all: Vec<String> = records.into_iter().flatten().collect();
    all.sort();
    all
}

fn whole(description: &Description) -> Vec<String> {
    let mut system = System::assemble(description, &prepare, 7, 2).unwrap();
    assert!(system.run().unwrap());
    let mut all = record(&system);
    all.sort();
    all
}

#[test]
fn parts_do_what_they_do_in_the_whole() {
    let description: Description = SYSTEM.parse().unwrap();
    let whole = whole(&description);
    for parts in [
        &[&["server"][..], &["left", "right", "a", "b"]][..],
        &[&["server", "left"], &["right", "a", "b"]],
        &[&["server", "a", "b"], &["left", "right"]],
        &[&["server"], &["left"], &["right", "b"], &["a"]],
    ] {
        let parted = in_parts(&description, parts, 5_000_000_000);
        assert_eq!(parted, whole, "{parts:?}");
    }
}

#[test]
fn a_part_that_has_finished_answers_what_was_lost() {
    let text = SYSTEM.replace("latency_ns = 20_000", "latency_ns = 20_000\nloss = 0.02");
    let description: Description = text.parse().unwrap();
    assert!(description.has_faults());
    let whole = whole(&description);
    let parts: &[&[&str]] = &[&["server", "left"], &["right", "a", "b"]];
    // The whole ends when all have finished; a part that goes on must do nothing that counts.
    let parted = in_parts(&description, parts, 300_000_000_000);
    assert_eq!(parted, whole);
}

#[test]
fn cuts_are_named() {
    let description: Description = SYSTEM.parse().unwrap();
    let cut = description.cut_links(&names(&["server", "b"])).unwrap();
    let named: Vec<String> = cut.iter().map(ToString::to_string).collect();
    assert_eq!(named, ["server-left", "b-right"]);
    assert!(cut[0].is_named("left-server") && !cut[0].is_named("left"));
    assert_eq!(cut[1].latency_ps, 10_000_000);
    assert_eq!(description.frame_bytes_max(), 1514 + 70);
    let wrong = description.cut_links(&names(&["nobody"])).unwrap_err();
    assert_eq!(wrong.to_string(), "`nobody` is no part of the system");
}

#[test]
fn a_source_of_datagrams_is_in_no_system_of_several_processes() {
    let text = SYSTEM.replacen(
        "name = \"b\"",
        "name = \"b\"\noffer = [{ to = \"server\", port = 9, rate_per_s = 1000, count = 5, bytes = 64 }]",
        1,
    );
    assert_ne!(text, SYSTEM);
    let text = text.replacen(
        "name = \"server\"",
        "name = \"server\"\nserve = [{ port = 9 }]",
        1,
    );
    let description: Description = text.parse().unwrap();
    let refused = description.cut_links(&names(&["server", "b"])).unwrap_err();
    assert!(
        refused.to_string().contains("`b` offers datagrams"),
        "{refused}"
    );
    let here = Some(names(&["server", "b"]));
    let ways = WaysOut {
        here,
        ..WaysOut::default()
    };
    let part = System::assemble_part(&description, &prepare, 1, 1, ways);
    assert_eq!(part.err(), Some(refused));
    // Nobody misses anything where all parts are in one process.
    let all: BTreeSet<String> = description.part_names().map(str::to_owned).collect();
    assert_eq!(description.cut_links(&all), Ok(vec![]));
    System::assemble(&description, &prepare, 1, 1).unwrap();
}
