//! Windows of whole transfers beside the RFCs' formulas, a loss planted where it is wanted.

use dpb_sim::tcp::{Algorithm, Config, Endpoint, MILLISECOND_PS, SECOND_PS, Segment};

use crate::network::{CLIENT, Fate, Link, Network};

/// 100 ms there and back, on links that are never busy.
const ROUND_TRIP: u64 = 100 * MILLISECOND_PS;

fn network(config: Config, fate: impl FnMut(u64, &Segment) -> Fate + 'static) -> Network {
    let mut client = Endpoint::connect(config);
    client.offer_unlimited();
    let links = [
        Link::with_fate(0, ROUND_TRIP / 2, fate),
        Link::new(0, ROUND_TRIP / 2),
    ];
    Network::new([client, Endpoint::listen(config)], links)
}

fn config(algorithm: Algorithm) -> Config {
    Config {
        algorithm,
        ack_every: 1,
        receive_buffer_bytes: 1 << 29,
        ..Config::default()
    }
}

fn window(network: &Network) -> f64 {
    let sender = network.ends[CLIENT].sender();
    sender.sample().window_bytes as f64 / f64::from(sender.payload_max())
}

/// Loses the first transmission of the segment at this position, once.
fn lose_once(position: u64) -> impl FnMut(u64, &Segment) -> Fate {
    let mut done = false;
    move |_, segment| {
        let hit = !done && segment.payload_len > 0 && segment.sequence >= position;
        done |= hit;
        if hit { Fate::Lost } else { Fate::Delivered }
    }
}

#[test]
fn slow_start_doubles_the_first_ten_segments_each_round_trip() {
    let mut network = network(config(Algorithm::NewReno), |_, _| Fate::Delivered);
    for (round, expected) in [10.0, 20.0, 40.0, 80.0, 160.0, 320.0]
        .into_iter()
        .enumerate()
    {
        // The handshake takes one round trip.
        network.run_until(ROUND_TRIP * (round as u64 + 1) + ROUND_TRIP / 2);
        assert_eq!(window(&network), expected);
    }
}

#[test]
fn newreno_loses_half_and_regains_a_segment_each_round_trip() {
    for sack in [false, true] {
        let config = Config {
            sack,
            ..config(Algorithm::NewReno)
        };
        // In the fifth round there are 160 segments; the first of them is number 150.
        let mut network = network(config, lose_once(1 + 150 * 1448));
        network.run_until(ROUND_TRIP * 8);
        let statistics = *network.ends[CLIENT].sender().statistics();
        assert_eq!((statistics.retransmissions, statistics.timeouts), (1, 0));
        let mut before = window(&network);
        // The loss is known one round trip after it; nothing grew in that round as its acknowledgements were duplicates.
        assert!((79.0..85.0).contains(&before), "{before} with sack {sack}");
        for _ in 0..50 {
            let now = network.now;
            network.run_until(now + ROUND_TRIP);
            let after = window(&network);
            assert_eq!(after, before + 1.0, "sack {sack}");
            before = after;
        }
    }
}

#[test]
fn cubic_loses_three_tenths_and_follows_its_curve() {
    // The eighth round has 1280 segments.
    let mut network = network(config(Algorithm::Cubic), lose_once(1 + 1270 * 1448));
    let mut least = (f64::MAX, 0);
    let mut before_loss = 0.0;
    for step in 0..2000u64 {
        network.run_until(step * ROUND_TRIP / 100);
        let lost = network.ends[CLIENT].sender().statistics().fast_recoveries > 0;
        let now = window(&network);
        if !lost {
            before_loss = now;
        } else if now < least.0 {
            least = (now, network.now);
        }
    }
    // Growth of the round in which the loss is found may be missed by one sample.
    assert!(
        (least.0 / before_loss - 0.7).abs() < 0.01,
        "{} of {before_loss}",
        least.0
    );
    let maximum = least.0 / 0.7;
    let rise = (maximum * 0.3 / 0.4).cbrt();
    // The stage begins with the first acknowledgement after recovery, a round trip after the loss was found.
    let start = least.1 + ROUND_TRIP;
    let curve = |seconds: f64| 0.4 * (seconds - rise).powi(3) + maximum;
    for round in 1..200u64 {
        let time = start + round * ROUND_TRIP;
        if time < network.now {
            continue;
        }
        network.run_until(time);
        let seconds = (time - start) as f64 / SECOND_PS as f64;
        // The window aims one round trip ahead, and gets there within one.
        let (low, high) = (curve(seconds - 0.1), curve(seconds + 0.2));
        let now = window(&network);
        assert!(
            now > low - 1.0 && now < high + 1.0,
            "{now} after {seconds} s, not {low} to {high}"
        );
    }
    assert_eq!(
        network.ends[CLIENT].sender().statistics().fast_recoveries,
        1
    );
}

#[test]
fn the_last_segment_lost_waits_for_the_timer() {
    let config = config(Algorithm::NewReno);
    let mut client = Endpoint::connect(config);
    client.offer(5 * 1448);
    client.close();
    let mut server = Endpoint::listen(config);
    server.close();
    let links = [
        Link::with_fate(0, ROUND_TRIP / 2, lose_once(1 + 4 * 1448)),
        Link::new(0, ROUND_TRIP / 2),
    ];
    let mut network = Network::new([client, server], links);
    network.run_until(10 * SECOND_PS);
    assert!(network.ends[CLIENT].is_closed());
    let statistics = network.ends[CLIENT].sender().statistics();
    assert!(statistics.timeouts + statistics.fast_recoveries >= 1);
    assert!(statistics.retransmissions >= 1);
}
