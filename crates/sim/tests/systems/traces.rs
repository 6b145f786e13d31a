//! Traces: each frame at each port with its time, each wait and service, counters that come back to zero.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::{Arc, Mutex};

use dpb_sim::system::{Leg, System, Trace, report};

use super::{assemble, pair};

/// A file in memory.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("nobody panics").extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Runs a system with both traces.
fn traced(text: &str) -> (System, Vec<u8>, serde_json::Value) {
    let mut system = assemble(text, 3, 1);
    let (capture, timeline) = (Shared::default(), Shared::default());
    let mut trace = Trace::default();
    let tracks = system.tracks();
    trace
        .capture_to(Box::new(capture.clone()), &tracks)
        .expect("memory");
    trace
        .timeline_to(Box::new(timeline.clone()), &tracks)
        .expect("memory");
    let trace = Arc::new(Mutex::new(trace));
    system.observe(true, Some(&trace));
    assert!(system.run().expect("nothing fails"));
    trace
        .lock()
        .expect("nobody panics")
        .finish()
        .expect("memory");
    let bytes = capture.0.lock().expect("nobody panics").clone();
    let timeline = timeline.0.lock().expect("nobody panics").clone();
    let timeline = serde_json::from_slice(&timeline).expect("JSON");
    (system, bytes, timeline)
}

fn system_text() -> String {
    let client = r#"
        connect = [{ to = "server", port = 5001, application = "send", bytes = 300_000 }]
        offer = [{ to = "server", port = 9, rate_per_s = 100_000, gaps = "poisson", count = 300, bytes = 64 }]"#;
    let server = "listen = [{ port = 5001, application = \"receive\" }]\nserve = [{ port = 9 }]";
    let card = "[[card]]\nhost = \"client\"\nstage = [{ name = \"engine\", lanes = 2, job_ns = 2500, waiting = 4 }]";
    pair(server, client, card).replace(
        "latency_ns = 500",
        "latency_ns = 500\n loss = 0.005\n rate_gbps = 1",
    )
}

/// A packet of a capture: its interface, its time in nanoseconds, its direction, its bytes.
type Packet = (String, u64, u32, Vec<u8>);

/// Reads pcapng as its draft has it, all of what is written here and nothing else.
fn read(bytes: &[u8]) -> Vec<Packet> {
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    let half = |at: usize| usize::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]));
    let options = |mut at: usize, end: usize| {
        let mut options = BTreeMap::new();
        while at < end && half(at) != 0 {
            let length = half(at + 2);
            options.insert(half(at), bytes[at + 4..at + 4 + length].to_vec());
            at += 4 + length.next_multiple_of(4);
        }
        options
    };
    let (mut at, mut interfaces, mut packets) = (0, Vec::new(), Vec::new());
    while at < bytes.len() {
        let length = word(at + 4) as usize;
        assert_eq!(length % 4, 0);
        assert_eq!(word(at + length - 4) as usize, length);
        let end = at + length - 4;
        match word(at) {
            0x0a0d_0d0a => assert_eq!(word(at + 8), 0x1a2b_3c4d),
            1 => {
                assert_eq!(half(at + 8), 1);
                let options = options(at + 16, end);
                assert_eq!(options[&9], [9]);
                interfaces.push(String::from_utf8(options[&2].clone()).expect("a name"));
            }
            6 => {
                let stamp = u64::from(word(at + 12)) << 32 | u64::from(word(at + 16));
                let kept = word(at + 20) as usize;
                assert_eq!(word(at + 24) as usize, kept);
                let packet = bytes[at + 28..at + 28 + kept].to_vec();
                let options = options(at + 28 + kept.next_multiple_of(4), end);
                let flags = u32::from_le_bytes(options[&2][..].try_into().expect("four bytes"));
                packets.push((
                    interfaces[word(at + 8) as usize].clone(),
                    stamp,
                    flags,
                    packet,
                ));
            }
            other => panic!("block {other}"),
        }
        at += length;
    }
    assert_eq!(
        interfaces,
        ["server", "client", "switch: server", "switch: client"]
    );
    packets
}

#[test]
fn captures_have_each_frame_at_each_port() {
    let (system, bytes, _) = traced(&system_text());
    let packets = read(&bytes);
    assert!(
        packets.windows(2).all(|pair| pair[0].1 <= pair[1].1),
        "times go on"
    );
    let count = |interface: &str, flags: u32| {
        packets
            .iter()
            .filter(|it| it.0 == interface && it.2 == flags)
            .count() as u64
    };
    for ((name, _), (_, card)) in system.hosts().zip(system.cards()) {
        assert_eq!(count(name, 2), card.wire_usage().sent);
        assert_eq!(count(name, 1), card.usage().received);
    }
    let (_, switch, ports) = system.switches().next().expect("a switch");
    for (port, to) in ports.iter().enumerate() {
        let wire = switch.wire_usage(port).expect("a port");
        assert_eq!(count(&format!("switch: {to}"), 2), wire.sent);
    }
    let came: u64 = ports
        .iter()
        .map(|to| count(&format!("switch: {to}"), 1))
        .sum();
    assert_eq!(came, switch.usage().frames);
    // A frame comes one latency after it went, the whole bytes of it.
    let went: BTreeMap<&[u8], u64> = packets
        .iter()
        .filter(|it| it.0 == "client" && it.2 == 2)
        .map(|it| (it.3.as_slice(), it.1))
        .collect();
    let came = packets
        .iter()
        .filter(|it| it.0 == "switch: client" && it.2 == 1);
    let mut datagrams = 0;
    for (_, stamp, _, packet) in came {
        if packet[23] == 17 {
            assert_eq!(*stamp, went[packet.as_slice()] + 500);
            datagrams += 1;
        }
    }
    assert!(datagrams > 250);
}

#[test]
fn timelines_have_each_wait_and_each_service() {
    let (system, _, timeline) = traced(&system_text());
    let events = timeline["traceEvents"].as_array().expect("events");
    let names: BTreeMap<u64, &str> = events
        .iter()
        .filter(|it| it["name"] == "process_name")
        .map(|it| {
            (
                it["pid"].as_u64().expect("a number"),
                it["args"]["name"].as_str().expect("a name"),
            )
        })
        .collect();
    let tracks = system.tracks();
    assert_eq!(names.len(), tracks.len());
    let ps =
        |event: &serde_json::Value| (event["ts"].as_f64().expect("a time") * 1e6).round() as u64;
    let (mut begun, mut sums) = (BTreeMap::new(), BTreeMap::new());
    for event in events {
        let key = || {
            (
                event["pid"].as_u64(),
                event["id"].to_string(),
                event["name"].to_string(),
            )
        };
        match event["ph"].as_str() {
            Some("b") => assert_eq!(begun.insert(key(), ps(event)), None),
            Some("e") => {
                let began = begun.remove(&key()).expect("it began");
                let part = names[&event["pid"].as_u64().expect("a number")];
                let leg = event["name"].as_str().expect("a name");
                *sums.entry((part, leg)).or_insert(0) += ps(event) - began;
            }
            Some("C") => assert!(event["args"]["frames"].as_u64().is_some()),
            Some("i" | "M") => {}
            other => panic!("{other:?}"),
        }
    }
    assert!(begun.is_empty());
    // Service is counted by the parts too: those whose every service is in the timeline.
    let parts = report::parts(&system);
    for (part, leg) in [
        ("card of client: engine", Leg::EngineWork),
        ("card of client: wire", Leg::Wire),
        ("switch: wire to server", Leg::Wire),
    ] {
        let found = parts.iter().find(|it| it.name == part).expect("a part");
        assert_eq!(sums[&(part, leg.name())], found.busy_ps, "{part}");
        let queue = if leg == Leg::Wire {
            Leg::WireQueue
        } else {
            Leg::EngineQueue
        };
        let waited = sums.get(&(part, queue.name())).copied().unwrap_or(0);
        assert_eq!(waited, found.waited_ps, "{part}");
    }
    // What waits is counted up and down, and nothing waits at the end.
    let mut last = BTreeMap::new();
    for event in events.iter().filter(|it| it["ph"] == "C") {
        let pid = event["pid"].as_u64().expect("a number");
        let at = last.insert(pid, (ps(event), event["args"]["frames"].as_u64()));
        assert!(at.is_none_or(|(before, _)| before <= ps(event)));
    }
    assert!(last.len() >= 3, "{last:?}");
    assert!(last.values().all(|it| it.1 == Some(0)), "{last:?}");
    let dropped = events.iter().filter(|it| it["ph"] == "i").count() as u64;
    let (_, switch, _) = system.switches().next().expect("a switch");
    let lost = [0, 1].map(|port| switch.wire_usage(port).expect("a port").lost);
    let lost: u64 = lost.iter().sum::<u64>()
        + system
            .cards()
            .map(|(_, card)| card.wire_usage().lost)
            .sum::<u64>();
    assert!(dropped >= lost && lost > 0, "{dropped}, {lost}");
}
