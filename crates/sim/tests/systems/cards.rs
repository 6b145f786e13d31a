//! Cards on the path and off it: the same function, shared memories, doorbells, times from records.

use dpb_sim::system::{Leg, Reason, report};

use super::{pair, run};

const OFFER: &str =
    r#"offer = [{ to = "server", port = 9, rate_per_s = 1000, count = 200, bytes = 958 }]"#;
const SERVE: &str = "serve = [{ port = 9 }]";

fn mean_ps(system: &dpb_sim::system::System) -> u64 {
    let flows = report::datagram_flows(system);
    let received = flows[0].received.expect("they came");
    assert_eq!(received.delivered, 200);
    u64::try_from(received.latency_ps / 200).expect("a time")
}

#[test]
fn what_a_frame_passes_takes_its_time() {
    let dumb = mean_ps(&run(&pair(SERVE, OFFER, ""), 1));
    let with = |card: &str| {
        let system = run(&pair(SERVE, OFFER, card), 1);
        mean_ps(&system) - dumb
    };
    // Frames of 1000 bytes, far apart: nobody waits, and times add up.
    let engine = "[[card]]\nhost = \"client\"\nstage = [{ name = \"engine\", job_ns = 300, byte_ps = 500, latency_ns = 70 }]";
    assert_eq!(with(engine), 300_000 + 1000 * 500 + 70_000);
    let off_path = r#"
        [[card]]
        host = "client"
        order = "same"
        shared = [{ name = "dram", byte_ps = 40, latency_ns = 90 }]
        stage = [
            { name = "switch", job_ns = 100, ports = [9] },
            { name = "cores", lanes = 8, job_ns = 2000, ports = [9], crosses = [{ over = "DMA in" }, { over = "dram", times = 2.0 }] },
            { name = "engine", job_ns = 300, byte_ps = 500, doorbell_ns = 150, ports = [9], crosses = [{ over = "dram", times = 0.5 }] },
        ]
    "#;
    let dma = 1000 * 127 + 600_000;
    let dram = (2000 * 40 + 90_000) + (500 * 40 + 90_000);
    let stages = 100_000 + 2_000_000 + 150_000 + 300_000 + 500_000;
    assert_eq!(with(off_path), dma + dram + stages);
    // Frames of other ports go by.
    assert_eq!(with(&off_path.replace("[9]", "[10]")), 0);
    // The receiver's card does the same in the same order.
    assert_eq!(
        with(&off_path.replace("client", "server")),
        dma + dram + stages
    );
}

/// Two stages that write and read the same memory get no more of it together than there is.
#[test]
fn shared_memory_is_a_bound() {
    let offer = r#"send_ns = 0
        byte_ps = 0
        offer = [{ to = "server", port = 9, rate_per_s = 1_000_000, count = 20_000, bytes = 958, waiting = 100000 }]"#;
    let card = r#"
        [[card]]
        host = "client"
        dma_byte_ps = 0
        shared = [{ name = "dram", byte_ps = 1000 }]
        stage = [
            { name = "first", lanes = 16, job_ns = 100, crosses = [{ over = "dram", times = 2.0 }] },
            { name = "second", lanes = 16, job_ns = 100, crosses = [{ over = "dram", times = 1.0 }] },
        ]
    "#;
    let server = format!("{SERVE}\nreceive_ns = 0\nbyte_ps = 0\ninterrupt_ns = 0");
    let system = run(&pair(&server, offer, card), 1);
    let run_ps = report::end_ps(&system);
    let parts = report::parts(&system);
    let busiest = report::busiest(&parts, run_ps).expect("something is busy");
    assert_eq!(busiest.name, "card of client: dram");
    assert!(busiest.utilisation(run_ps) > 0.99);
    // Three thousand bytes cross for each frame, a nanosecond each.
    let rate = 20_000.0 / run_ps as f64 * 1e12;
    assert!((rate / (1e9 / 3000.0) - 1.0).abs() < 0.01, "{rate}");
    let spent = report::spent(&system);
    let waits = |part: &str, leg| spent.iter().any(|it| it.part == part && it.leg == leg);
    assert!(waits("card of client: dram", Leg::DmaQueue));
    assert!(!waits("card of client: first", Leg::EngineQueue));
}

/// A stage that gets more from the wire than it can do. What the host sends waits for what is in the queue, once, and when both send more than the stage can do, each gets half of it.
#[test]
fn both_directions_have_their_share_of_a_full_stage() {
    let run_at = |rate: u32, count: u32| {
        let quick =
            "send_ns = 0\nreceive_ns = 0\nbyte_ps = 0\ninterrupt_ns = 0\nserve = [{ port = 9 }]\n";
        let offer = |to: &str, rate: u32, count: u32| {
            format!(
                "{quick}offer = [{{ to = \"{to}\", port = 9, rate_per_s = {rate}, count = {count}, bytes = 100, waiting = 1000000 }}]"
            )
        };
        let card = "[[card]]\nhost = \"server\"\nstage = [{ name = \"slow\", job_ns = 6000 }]";
        let text = pair(
            &offer("client", rate, count),
            &offer("server", 400_000, 40_000),
            card,
        );
        run(&text, 1)
    };
    let delivered = |system: &dpb_sim::system::System| {
        report::datagram_flows(system)
            .iter()
            .map(|it| {
                let received = it.received.expect("some came");
                let mean_ps = received.latency_ps / u128::from(received.delivered);
                (
                    it.to.to_owned(),
                    received.delivered,
                    mean_ps,
                    received.last_ps,
                )
            })
            .collect::<Vec<_>>()
    };
    // The client's come for 0.1 s, in which the stage does 16,667. The server's are 1000 of them.
    let few = delivered(&run_at(10_000, 1000));
    let to_client = few.iter().find(|it| it.0 == "client").expect("a flow");
    assert_eq!(to_client.1, 1000);
    // 256 wait, of 6 us each.
    let queue_ps = 257 * 6_000_000u128;
    assert!(to_client.2 < queue_ps * 11 / 10, "{few:?}");
    assert!(to_client.2 > queue_ps * 8 / 10, "{few:?}");
    // Both send four times what the stage does.
    let many = delivered(&run_at(400_000, 40_000));
    let of = |to: &str| many.iter().find(|it| it.0 == to).expect("a flow");
    let in_time = of("server").1 as f64;
    assert!((in_time / 8333.0 - 1.0).abs() < 0.1, "{many:?}");
    // All that the host sends gets through, at the end alone.
    assert_eq!(of("client").1, 40_000);
    let took_s = of("client").3 as f64 / 1e12;
    let expected_s = 0.1 + (40_000.0 - 8333.0) * 6e-6;
    assert!((took_s / expected_s - 1.0).abs() < 0.05, "{many:?}");
}

#[test]
fn what_is_wrong_with_a_card_is_said() {
    let said = |card: &str| {
        let text = pair(
            SERVE,
            OFFER,
            &format!("[[card]]\nhost = \"client\"\n{card}"),
        );
        let description = text
            .parse()
            .map_err(|it: dpb_sim::system::DescriptionError| it.to_string());
        let assembled = description.and_then(|it| {
            dpb_sim::system::System::assemble(&it, &super::prepare, 1, 1)
                .map_err(|it| it.to_string())
        });
        assembled.err().unwrap_or_default()
    };
    for (card, expected) in [
        ("order = \"reverse\"", "mirrored or same"),
        (
            "stage = [{ name = \"a\", crosses = [{ over = \"dram\" }] }]",
            "not shared",
        ),
        (
            "stage = [{ name = \"a\", crosses = [{ over = \"DMA in\", times = -1.0 }] }]",
            "0 to 1000",
        ),
        (
            "stage = [{ name = \"a\", record = \"x.jsonl\" }]",
            "not read",
        ),
        (
            "stage = [{ name = \"a\", lanes = 0 }]",
            "lanes: there is at least one",
        ),
        ("stage = [{ name = \"a\", doorbell_ns = -1 }]", "no time"),
        ("stage = [{ name = \"a\", ring = 4 }]", "unknown field"),
    ] {
        assert!(said(card).contains(expected), "{card}: {}", said(card));
    }
}

/// The example systems of one function, on the path and off it.
#[test]
fn the_same_function_takes_longer_off_the_path() {
    let example = |name: &str| {
        let path = format!("{}/systems/{name}.toml", env!("CARGO_MANIFEST_DIR"));
        run(&std::fs::read_to_string(path).expect("an example"), 1)
    };
    let [on, off] = ["on-path", "off-path"].map(example);
    let asked = |system: &dpb_sim::system::System| {
        let flows = system.hosts().flat_map(|(_, host)| host.flows());
        let asking: Vec<_> = flows.filter_map(|it| it.asking.as_ref()).collect();
        assert_eq!(asking.len(), 1);
        asking[0].latency_ps / u128::from(asking[0].latencies.count())
    };
    assert!(asked(&off) > asked(&on) + 4_000_000);
    for system in [&on, &off] {
        for (_, card) in system.cards() {
            let digests = card.protection().expect("it computes digests");
            assert_eq!((digests.wrong, digests.bare), (0, 0));
            assert!(digests.right > 0 && digests.protected > 0);
        }
        for flow in report::datagram_flows(system) {
            // Beside a bulk transfer the server cannot keep up, and what finds no buffer is dropped.
            let ended = flow.dropped.iter().all(|it| it.0 == Reason::NoDescriptor);
            assert!(ended && flow.in_flight() == 0, "{flow:?}");
            assert!(flow.delivered() > 100, "{flow:?}");
        }
    }
    let spent = report::spent(&off);
    for part in ["switch", "cores", "sha256", "memory", "bus"] {
        let name = format!("card of server: {part}");
        assert!(spent.iter().any(|it| it.part == name), "{name}");
    }
}
