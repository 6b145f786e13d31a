//! Where the time of frames went: sums to the picosecond, and a single frame by hand.

use dpb_sim::system::{Leg, System, report};

use super::{assemble, pair, run};

const BULK: &str =
    r#"connect = [{ to = "server", port = 5001, application = "send", bytes = 2_000_000 }]"#;
const LISTEN: &str = r#"listen = [{ port = 5001, application = "receive" }]"#;

/// The sum over the parts is the time from end to end, and the legs of the hosts say the same.
fn check(system: &System) -> [u64; Leg::ALL.len()] {
    let account = report::account(system);
    assert!(account.frames > 100, "{}", account.frames);
    let sum_ps: u64 = account.entries().map(|(_, _, sum_ps)| sum_ps).sum();
    assert_eq!(sum_ps, account.end_to_end_ps);
    let mut legs = [0; Leg::ALL.len()];
    for (_, leg, sum_ps) in account.entries() {
        legs[leg as usize] += sum_ps;
    }
    let mut by_hosts = [0; Leg::ALL.len()];
    for (_, host) in system.hosts() {
        let ways = host.ways();
        for (sum, leg) in by_hosts.iter_mut().zip(ways.legs_ps) {
            *sum += leg;
        }
    }
    assert_eq!(legs, by_hosts);
    legs
}

#[test]
fn sums_are_the_time_from_end_to_end() {
    let card = |host: &str| {
        format!(
            r#"
            [[card]]
            host = "{host}"
            stage = [{{ name = "crc", job_ns = 900, latency_ns = 50 }}]
            digest = {{ operator = "crc32c" }}
            "#
        )
    };
    let cards = card("server") + &card("client");
    for (more, is_lossy) in [("", false), (cards.as_str(), false), ("", true)] {
        let mut text = pair(LISTEN, BULK, more);
        if is_lossy {
            text = text.replace("latency_ns = 500", "latency_ns = 500\n        loss = 0.005");
        }
        let system = run(&text, 3);
        let legs = check(&system);
        let took = |leg: Leg| legs[leg as usize] > 0;
        assert_eq!(took(Leg::Retransmission), is_lossy);
        assert_eq!(took(Leg::EngineWork), !more.is_empty());
        for leg in [
            Leg::HostWork,
            Leg::Wire,
            Leg::Propagation,
            Leg::Dma,
            Leg::Bus,
        ] {
            assert!(took(leg), "{leg:?}");
        }
        // Propagation and forwarding are the same for each frame.
        let frames = report::account(&system).frames;
        assert_eq!(legs[Leg::Propagation as usize], frames * 2 * 500_000);
        assert_eq!(legs[Leg::Switch as usize], frames * 500_000);
    }
}

#[test]
fn an_observed_system_does_what_it_does_unseen() {
    let text = pair(LISTEN, BULK, "").replace("latency_ns = 500", "loss = 0.002");
    let told = |system: &System| {
        let hosts: Vec<String> = system
            .hosts()
            .map(|(_, host)| format!("{:?}", (host.usage(), host.flows()[0].finished_ps)))
            .collect();
        (hosts, system.kernel().events())
    };
    let mut unseen = assemble(&text, 5, 1);
    assert!(unseen.run().expect("nothing fails"));
    assert_eq!(report::account(&unseen).frames, 0);
    assert_eq!(told(&unseen), told(&run(&text, 5)));
    // On two threads the account is the same.
    let mut two = assemble(&text, 5, 2);
    two.observe(true, None);
    assert!(two.run().expect("nothing fails"));
    assert_eq!(report::account(&two), report::account(&run(&text, 5)));
}

#[test]
fn a_single_datagram_takes_the_sum_of_its_parts() {
    let client = r#"offer = [{ to = "server", port = 9, rate_per_s = 1, count = 1, bytes = 100 }]"#;
    let system = run(&pair("serve = [{ port = 9 }]", client, ""), 1);
    let (_, server) = system.hosts().next().expect("a server");
    // 142 bytes with headers; the usual values of host, card, wire and switch, by hand.
    let send = 1_000_000 + 100 * 50;
    let bus = 300_000;
    let dma = 142 * 127 + 600_000;
    let wire = (142 + 24) * 800 + 500_000;
    let receive = 2_000_000 + 1_200_000 + 100 * 50;
    let whole = send + bus + dma + wire + 500_000 + wire + dma + bus + receive;
    assert_eq!(server.account().end_to_end_ps, whole);
    let flows = report::datagram_flows(&system);
    let received = flows[0].received.expect("it came");
    assert_eq!(received.latency_ps, u128::from(whole));
    assert_eq!(received.bytes, 100);
    let legs = server.ways().legs_ps;
    assert_eq!(legs[Leg::HostWork as usize], send + receive);
    assert_eq!(legs[Leg::Wire as usize], 2 * (142 + 24) * 800);
    assert_eq!(legs[Leg::Dma as usize], 2 * dma);
    assert_eq!(legs[Leg::Bus as usize], 2 * bus);
    assert_eq!(legs[Leg::HostQueue as usize], 0);
}

/// A question and its answer, with interrupts that no card holds back. That the question was sent is told to a core that has nothing else to do: the
/// answer does not wait for it, and the core has worked for it all the same.
#[test]
fn an_interrupt_without_frames_is_worked_off_at_once() {
    let client = r#"offer = [{ to = "server", port = 9, rate_per_s = 1000, count = 2, bytes = 100, answered = true }]"#;
    let gap = |host: &str| format!("[[card]]\nhost = \"{host}\"\ninterrupt_gap_us = 0\n");
    let serve = "serve = [{ port = 9, answer_bytes = 100 }]";
    let text = pair(serve, client, &(gap("server") + &gap("client")));
    let system = run(&text, 1);
    let send = 1_000_000 + 100 * 50;
    let receive = 1_200_000 + 100 * 50;
    let interrupt = 2_000_000;
    let dma = 142 * 127 + 600_000;
    let wire = (142 + 24) * 800 + 500_000;
    let way = 300_000 + dma + wire + 500_000 + wire + dma + 300_000;
    let there = send + way + interrupt + receive;
    let flows = report::datagram_flows(&system);
    let latencies = flows
        .iter()
        .map(|it| it.received.expect("they came").latency_ps);
    assert_eq!(
        Vec::from_iter(latencies),
        [2 * u128::from(there), 4 * u128::from(there)]
    );
    for (name, host) in system.hosts() {
        // Two frames each way, and an interrupt for each.
        let busy = 2 * (send + receive + 2 * interrupt);
        assert_eq!(host.usage().busy_ps, busy, "{name}");
    }
}

/// A slow wire on which a long frame is sent: what comes in meanwhile is announced when it is there.
#[test]
fn what_comes_in_does_not_wait_for_what_goes_out() {
    let gap = |host: &str| format!("[[card]]\nhost = \"{host}\"\ninterrupt_gap_us = 0\n");
    let serve = "serve = [{ port = 9 }]\n";
    let offer = |to: &str, bytes: u32| {
        format!(
            "{serve}offer = [{{ to = \"{to}\", port = 9, rate_per_s = 1, count = 1, bytes = {bytes} }}]"
        )
    };
    let latency_ps = |client: &str| {
        let cards = gap("server") + &gap("client");
        let text = pair(&offer("client", 100), client, &cards)
            .replace("latency_ns = 500", "latency_ns = 500\nrate_gbps = 0.01");
        let system = run(&text, 1);
        let flows = report::datagram_flows(&system);
        let to_client = flows.iter().find(|it| it.to == "client");
        let received = to_client.expect("a flow").received.expect("it came");
        received.latency_ps
    };
    // 1538 bytes take 1.2 ms, and the datagram is there after a quarter of that.
    assert_eq!(latency_ps(&offer("server", 1472)), latency_ps(serve));
}

#[test]
fn the_part_that_binds_is_found() {
    let slow = |part: &str| match part {
        "server: cores" => pair(&format!("{LISTEN}\nreceive_ns = 8000"), BULK, ""),
        "switch: wire to server" => pair(LISTEN, &format!("{BULK}\nsend_ns = 100"), "").replacen(
            "latency_ns = 500",
            "rate_gbps = 0.5\nqueue_bytes = 4000000",
            1,
        ),
        _ => pair(
            LISTEN,
            BULK,
            "[[card]]\nhost = \"client\"\nstage = [{ name = \"slow\", job_ns = 9000 }]",
        ),
    };
    for part in [
        "server: cores",
        "switch: wire to server",
        "card of client: slow",
    ] {
        let system = run(&slow(part), 1);
        let parts = report::parts(&system);
        let run_ps = report::end_ps(&system);
        let busiest = report::busiest(&parts, run_ps).expect("something is busy");
        assert_eq!(busiest.name, part);
        assert!(busiest.utilisation(run_ps) > 0.9, "{busiest:?}");
        assert!(busiest.waiting_mean(run_ps) > 0.0 && busiest.waiting_max > 0);
    }
}
