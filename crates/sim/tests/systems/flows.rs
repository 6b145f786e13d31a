//! Flows of datagrams and of requests: every one accounted for, queues as theory has them, loops open and closed.

use dpb_sim::kernel::SECOND_PS;
use dpb_sim::system::{Leg, Reason, System, report};

use super::{assemble, pair, run};

/// Each datagram has one fate.
fn check(system: &System) {
    for flow in report::datagram_flows(system) {
        let received = flow.received.expect("some came");
        let ended = flow.refused + received.delivered + received.duplicates + flow.dropped_all();
        assert_eq!(flow.offered + flow.copied, ended, "{flow:?}");
        assert_eq!(flow.in_flight(), 0);
        assert_eq!(received.latencies.count(), received.delivered);
    }
}

#[test]
fn every_datagram_has_one_fate() {
    let client = r#"offer = [
        { to = "server", port = 9, rate_per_s = 400_000, gaps = "poisson", count = 20_000, sizes = "mixed", waiting = 20 },
        { to = "server", port = 10, rate_per_s = 100_000, count = 5_000, bytes = 200, answered = true },
    ]"#;
    let server =
        "serve = [{ port = 9 }, { port = 10, answer_bytes = 700, waiting = 8 }]\nchecksums = true";
    let sizes = "[[sizes]]\nname = \"mixed\"\nchoices = [[22, 7], [548, 4], [1472, 1]]";
    let text = pair(server, client, sizes).replace(
        "latency_ns = 500",
        "latency_ns = 500\n loss = 0.01\n flip = 0.01\n duplicate = 0.01\n rate_gbps = 1\n queue_bytes = 20000",
    ).replacen("rate_gbps = 1", "rate_gbps = 0.5", 1);
    for seed in 0..4 {
        let system = run(&text, seed);
        check(&system);
        let flows = report::datagram_flows(&system);
        assert_eq!(flows.len(), 3);
        let reasons: Vec<Reason> = flows
            .iter()
            .flat_map(|it| &it.dropped)
            .map(|it| it.0)
            .collect();
        for reason in [Reason::Lost, Reason::Checksum, Reason::QueueFull] {
            assert!(reasons.contains(&reason), "{reasons:?}");
        }
        // Twice as many arrive as a core can send: what it has no room for is refused.
        assert!(flows[0].refused > 1000, "{}", flows[0].refused);
        let received = flows[0].received.expect("some came");
        assert!(received.duplicates > 0 && received.missing() > 0);
        // Each was sent by the rate's time, and a queue in front of the core is full all the time.
        let mean_ps = received.latency_ps / u128::from(received.delivered);
        assert!(mean_ps > 20 * 1_000_000, "{mean_ps}");
    }
}

#[test]
fn nothing_is_refused_or_lost_without_a_reason() {
    let client = r#"offer = [{ to = "server", port = 9, rate_per_s = 100_000, count = 10_000, bytes = 64 }]"#;
    let system = run(&pair("serve = [{ port = 9 }]", client, ""), 1);
    check(&system);
    let flows = report::datagram_flows(&system);
    let received = flows[0].received.expect("they came");
    assert_eq!((received.delivered, flows[0].refused), (10_000, 0));
    assert_eq!((received.reordered, received.missing()), (0, 0));
    assert_eq!((flows[0].copied, flows[0].dropped_all()), (0, 0));
    // The last of 10,000 leaves 9,999 gaps after the first.
    let last_ps = received.last_ps;
    assert!((9_999 * 10_000_000..10_050 * 10_000_000).contains(&last_ps));
}

/// A host that gets twice what its core can do: as many frames wait as the card has buffers, and the others are dropped.
#[test]
fn a_slow_host_has_as_many_frames_as_buffers() {
    let client = r#"send_ns = 0
        byte_ps = 0
        interrupt_ns = 0
        offer = [{ to = "server", port = 9, rate_per_s = 2_000_000, count = 20_000, bytes = 64, waiting = 100000 }]"#;
    for buffers in [512, 40, 8] {
        let card = format!("[[card]]\nhost = \"server\"\nreceive_descriptors = {buffers}");
        let system = run(&pair("serve = [{ port = 9 }]", client, &card), 1);
        check(&system);
        let flows = report::datagram_flows(&system);
        let received = flows[0].received.expect("some came");
        assert_eq!(
            flows[0].dropped,
            [(Reason::NoDescriptor, 20_000 - received.delivered)]
        );
        // 1.2 us and 64 bytes a frame; interrupts of 2 us, one each 20 us, take a core a tenth of its time.
        let frame_ps = 1_203_200u64;
        let rate = received.delivered as f64 / received.last_ps as f64 * 1e12;
        assert!(rate < 0.92e12 / frame_ps as f64, "{rate}");
        // Few buffers are full long before the next interrupt.
        let least = if buffers > 16 { 0.85e12 } else { 0.3e12 };
        assert!(rate > least / frame_ps as f64, "{buffers}: {rate}");
        let (_, server) = system.hosts().next().expect("a server");
        assert!(server.usage().waiting_max <= buffers);
        // A frame waits for those in the buffers before it, for an interrupt, and for its way.
        let longest_ps = buffers as u64 * frame_ps * 10 / 9 + 20_000_000 + 10_000_000;
        let longest = server.ways().longest_ps;
        assert!(longest < longest_ps, "{buffers}: {longest} {longest_ps}");
    }
}

#[test]
fn flipped_stamps_are_found_without_checksums() {
    let client = r#"offer = [{ to = "server", port = 9, rate_per_s = 100_000, count = 20_000, bytes = 64 }]"#;
    let text = pair("serve = [{ port = 9 }]\nchecksums = false", client, "")
        .replace("latency_ns = 500", "latency_ns = 500\n flip = 0.02");
    let system = run(&text, 2);
    check(&system);
    let flows = report::datagram_flows(&system);
    let (_, server) = system.hosts().next().expect("a server");
    let wrong: u64 = flows[0]
        .dropped
        .iter()
        .filter(|it| it.0 == Reason::Payload)
        .map(|it| it.1)
        .sum();
    assert!(
        wrong > 300 && wrong == server.usage().payload_wrong,
        "{:?}",
        flows[0].dropped
    );
}

#[test]
fn more_threads_change_nothing() {
    let client = r#"offer = [{ to = "server", port = 9, rate_per_s = 300_000, gaps = "poisson", count = 5_000, bytes = 300, answered = true }]"#;
    let text = pair("serve = [{ port = 9, answer_bytes = 100 }]", client, "")
        .replace("latency_ns = 500", "latency_ns = 500\n loss = 0.01");
    let told = [1, 2, 3].map(|threads| {
        let mut system = assemble(&text, 7, threads);
        assert!(system.run().expect("nothing fails"));
        check(&system);
        format!("{:?}", report::datagram_flows(&system))
    });
    assert_eq!(told[0], told[1]);
    assert_eq!(told[0], told[2]);
}

/// The mean time that frames wait for the stage of a card whose arrivals are a Poisson process: M/D/1 (Pollaczek and Khinchine).
#[test]
fn a_stage_in_a_system_is_a_queue_of_theory() {
    let service_ps = 1_000_000f64;
    for load in [0.3, 0.7] {
        let rate = load * 1e12 / service_ps;
        let client = format!(
            "send_ns = 0\nbyte_ps = 0\ninterrupt_ns = 0\nring = 100000\noffer = [{{ to = \"server\", port = 9, rate_per_s = {rate}, gaps = \"poisson\", count = 20_000, bytes = 16, waiting = 100000 }}]"
        );
        let card = "[[card]]\nhost = \"client\"\ndma_byte_ps = 0\nstage = [{ name = \"stage\", job_ns = 1000, waiting = 100000 }]\n\
                    [[card]]\nhost = \"server\"\nreceive_descriptors = 100000";
        let server = "receive_ns = 0\nbyte_ps = 0\ninterrupt_ns = 0\nserve = [{ port = 9 }]";
        let text = pair(server, &client, card);
        let means: Vec<f64> = (0..10)
            .map(|seed| {
                let system = run(&text, seed);
                let spent = report::spent(&system);
                let waits = spent
                    .iter()
                    .find(|it| it.part == "card of client: stage" && it.leg == Leg::EngineQueue);
                waits.map_or(0.0, |it| it.sum_ps as f64 / 20_000.0)
            })
            .collect();
        let mean = means.iter().sum::<f64>() / 10.0;
        let variance = means.iter().map(|it| (it - mean).powi(2)).sum::<f64>() / 9.0;
        // Student's t of nine degrees of freedom, 99.9 %.
        let half = 4.781 * (variance / 10.0).sqrt();
        let expected = load * service_ps / (2.0 * (1.0 - load));
        assert!(
            (mean - expected).abs() < half,
            "{load}: {mean} +- {half}, {expected}"
        );
    }
}

const ANSWER: &str =
    r#"listen = [{ port = 80, application = "answer", request_bytes = 100, answer_bytes = 1000 }]"#;

fn asking(more: &str, connections: usize) -> String {
    let one = format!(
        "{{ to = \"server\", port = 80, application = \"ask\", requests = 400, request_bytes = 100, answer_bytes = 1000, {more} }}"
    );
    format!("connect = [{}]", vec![one; connections].join(", "))
}

/// The interactive response time law: of N users who think for Z, each makes a request in Z and the response time (Denning and Buzen, 1978).
#[test]
fn closed_loops_keep_the_response_time_law() {
    for (think, more) in [
        (50.0, "think_us = 50"),
        (200.0, "think_us = 200, think = \"exponential\""),
    ] {
        let system = run(&pair(ANSWER, &asking(more, 8), ""), 4);
        let (_, client) = system.hosts().nth(1).expect("a client");
        let mut requests = 0.0;
        for flow in client.flows() {
            let asking = flow.asking.as_ref().expect("it asks");
            assert_eq!((asking.latencies.count(), asking.open()), (400, 0));
            let response_ps = asking.latency_ps as f64 / 400.0;
            let took_ps = (flow.finished_ps.expect("it finished") - flow.opened_ps) as f64;
            requests += 400.0 / took_ps;
            // One user; of 399 exponential times of thinking the mean is within 20 %.
            let cycle_ps = response_ps + think * 1e6;
            let error = took_ps / (400.0 * cycle_ps) - 1.0;
            assert!(
                error.abs() < if think == 50.0 { 0.01 } else { 0.2 },
                "{error}"
            );
        }
        assert!(requests > 0.0);
    }
}

#[test]
fn open_loops_do_not_wait_for_answers() {
    let run_at = |rate: f64| {
        let system = run(
            &pair(
                ANSWER,
                &asking(&format!("rate_per_s = {rate}, gaps = \"poisson\""), 1),
                "",
            ),
            6,
        );
        let (_, client) = system.hosts().nth(1).expect("a client");
        let flow = &client.flows()[0];
        let asking = flow.asking.as_ref().expect("it asks");
        assert_eq!((asking.latencies.count(), asking.asked()), (400, 400));
        let rate = 400.0 * SECOND_PS as f64 / flow.finished_ps.expect("it finished") as f64;
        (rate, asking.latency_ps / 400)
    };
    let (slow, quick) = (run_at(1000.0), run_at(2_000_000.0));
    assert!((slow.0 / 1000.0 - 1.0).abs() < 0.2, "{slow:?}");
    // More than the hosts can do: requests are late by their intended time.
    assert!(
        quick.0 < 1_000_000.0 && quick.1 > 5 * slow.1,
        "{slow:?}, {quick:?}"
    );
}
