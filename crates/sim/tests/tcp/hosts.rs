//! Whole hosts under loss beside ns-3: what a host does between the wire and TCP changes what TCP achieves.
//!
//! ns-3's nodes answer each frame by itself and cost no time. Here bursts reach a host faster than a core takes them, and interrupts are moderated, so frames wait
//! behind each other. A host that merges none of them has ns-3's throughput all the same; one that merges them acknowledges less often, and a window that grows
//! with each acknowledgement grows more slowly.

use std::net::Ipv4Addr;

use dpb_sim::kernel::{Plan, SECOND_PS};
use dpb_sim::system::{
    Address, Application, Card, CardModel, Host, HostModel, Listening, Opening, Wire, WireFaults,
    WireModel, card, host,
};
use dpb_sim::tcp::{Config, MILLISECOND_PS};

use crate::throughput::{config, peers};

const WARM_SECONDS: u64 = 50;
const PORT: u16 = 5001;

fn address(number: u8) -> Address {
    Address {
        mac: [2, 0, 0, 0, 0, number],
        ip: Ipv4Addr::new(10, 0, 0, number),
        port: PORT,
    }
}

/// Segments a second that a sender sends to a receiver over 50 ms, of which each is lost with a probability.
fn rate(config: Config, merge: u32, loss: f64, seconds: u64) -> f64 {
    let mut plan = Plan::new();
    let model = HostModel {
        merge,
        ..HostModel::default()
    };
    let opening = Opening {
        at_ps: 0,
        port: 40_000,
        to: address(2),
        application: Application::Send { bytes: 1 << 60 },
        config,
    };
    let listening = Listening {
        port: PORT,
        application: Application::Receive,
        config,
    };
    let sender = Host::new(model, address(1), vec![opening], vec![], None);
    let receiver = Host::new(model, address(2), vec![], vec![listening], None);
    let mut cards = Vec::new();
    let mut ids = Vec::new();
    for (number, host) in [sender, receiver].into_iter().enumerate() {
        let faults = WireFaults {
            loss: if number == 0 { loss } else { 0.0 },
            ..WireFaults::default()
        };
        let wire = WireModel {
            queue_bytes: u64::MAX,
            faults,
            ..WireModel::default()
        };
        let card = Card::new(CardModel::default(), Wire::new(wire, 5), Vec::new(), None);
        let id = plan.add("host", 1, host);
        let card = plan.add("card", 1, card);
        plan.join((id, host::CARD), (card, card::HOST), 300_000)
            .expect("free ports");
        cards.push(card);
        ids.push(id);
    }
    let ends = [cards[0], cards[1]].map(|card| (card, card::WIRE));
    plan.join(ends[0], ends[1], 50 * MILLISECOND_PS)
        .expect("free ports");
    let mut kernel = plan.build(1);
    let mut sent = [0; 2];
    for (sent, seconds) in sent.iter_mut().zip([WARM_SECONDS, WARM_SECONDS + seconds]) {
        kernel
            .run_until(seconds * SECOND_PS)
            .expect("nothing fails");
        let host: &Host = kernel.component(ids[0]).expect("a host");
        *sent = host.flows()[0].endpoint.sender().statistics().segments;
    }
    (sent[1] - sent[0]) as f64 / seconds as f64
}

#[test]
fn hosts_that_merge_nothing_have_ns3s_throughput() {
    let peers = peers();
    let mut compared = 0;
    for (b, loss) in [(1, 0.001), (1, 0.01), (2, 0.001), (2, 0.01)] {
        let runs = peers.iter().filter(|it| {
            it.law == "HalfOfFlight" && it.losses == "random" && (it.b, it.amount) == (b, loss)
        });
        let runs: Vec<f64> = runs.map(|it| it.sent).collect();
        let expected = runs.iter().sum::<f64>() / runs.len() as f64;
        let single = rate(config(b), 1, loss, 4000);
        let error = single / expected - 1.0;
        println!("b {b}, p {loss}: {single:.1}, ns-3 {expected:.1}: {error:+.3}");
        assert!(error.abs() < 0.10, "b {b}, p {loss}: {error}");
        compared += runs.len();
    }
    assert_eq!(compared, 12);
}

#[test]
fn hosts_that_merge_acknowledge_less() {
    let [single, merged] = [1, 44].map(|merge| rate(config(1), merge, 0.001, 2000));
    println!("merging one {single:.1}, 44 {merged:.1}");
    assert!(merged < 0.95 * single, "{merged} of {single}");
}
