//! Throughput under loss beside the published formulas.
//!
//! Each formula is held to on the losses that it was derived for:
//!
//! * Mathis, Semke, Mahdavi, Ott (CCR 1997): one segment of each 1/p is lost, the round trip is constant, recovery costs no time.
//! * Padhye, Firoiu, Towsley, Kurose (ToN 2000, equation 32): a loss takes the rest of its round with it, rounds are independent.
//! * RFC 9438, section 5.2: CUBIC, one segment of each 1/p is lost.

use dpb_core::random::SplitMix64;
use dpb_sim::tcp::{Algorithm, Config, Counting, Endpoint, MILLISECOND_PS, SECOND_PS, Segment};

use crate::network::{CLIENT, Fate, Link, Network};

const ROUND_TRIP: u64 = 100 * MILLISECOND_PS;
const ROUND_TRIP_SECONDS: f64 = 0.1;

/// Segments with data a second, retransmissions among them, in a transfer of so many seconds behind its first 50.
fn rate(
    config: Config,
    seconds: u64,
    fate: impl FnMut(u64, &Segment) -> Fate + 'static,
) -> Measured {
    let mut client = Endpoint::connect(config);
    client.offer_unlimited();
    let links = [
        Link::with_fate(0, ROUND_TRIP / 2, fate),
        Link::new(0, ROUND_TRIP / 2),
    ];
    let mut network = Network::new([client, Endpoint::listen(config)], links);
    network.run_until(50 * SECOND_PS);
    let before = *network.ends[CLIENT].sender().statistics();
    network.run_until((50 + seconds) * SECOND_PS);
    let after = network.ends[CLIENT].sender().statistics();
    Measured {
        sent: (after.segments - before.segments) as f64 / seconds as f64,
        fast_recoveries: after.fast_recoveries - before.fast_recoveries,
        timeouts: after.timeouts - before.timeouts,
    }
}

#[derive(Debug)]
struct Measured {
    sent: f64,
    fast_recoveries: u64,
    timeouts: u64,
}

/// A receiver that acknowledges each `b`-th segment, and a sender whose window grows by acknowledgements, as the formulas have it.
fn config(b: u32) -> Config {
    Config {
        algorithm: Algorithm::NewReno,
        counting: Counting::Acknowledgements,
        ack_every: b,
        quick_acks: 0,
        receive_buffer_bytes: 1 << 29,
        ..Config::default()
    }
}

/// One segment with data of each `period` is lost.
fn periodic(period: u64) -> impl FnMut(u64, &Segment) -> Fate {
    let mut count = 0;
    move |_, segment| {
        count += u64::from(segment.payload_len > 0);
        if segment.payload_len > 0 && count % period == 0 {
            Fate::Lost
        } else {
            Fate::Delivered
        }
    }
}

/// Each segment is lost with a probability of `p`, and with it the rest of its round. The links are never busy, so a round is what
/// leaves within half a round trip.
fn rounds(p: f64, seed: u64) -> impl FnMut(u64, &Segment) -> Fate {
    let mut random = SplitMix64::new(seed);
    let mut lost_until = 0;
    move |now, segment| {
        if segment.payload_len == 0 {
            return Fate::Delivered;
        }
        if now < lost_until {
            return Fate::Lost;
        }
        if random.unit() < p {
            lost_until = now + ROUND_TRIP / 2;
            return Fate::Lost;
        }
        Fate::Delivered
    }
}

/// Mathis' segments a second: C / (RTT sqrt p), where C is the root of 3/2b.
fn mathis(p: f64, b: f64) -> f64 {
    (1.5 / b).sqrt() / p.sqrt() / ROUND_TRIP_SECONDS
}

/// Padhye's segments a second, the full model.
fn padhye(p: f64, b: f64, timeout: f64) -> f64 {
    let third = (2.0 + b) / (3.0 * b);
    let window = third + (8.0 * (1.0 - p) / (3.0 * b * p) + third * third).sqrt();
    let kept = 1.0 - p;
    let by_timeout = (1.0 - kept.powi(3)) * (1.0 + kept.powi(3) * (1.0 - kept.powf(window - 3.0)))
        / (1.0 - kept.powf(window));
    let by_timeout = by_timeout.min(1.0);
    let backoff = 1.0
        + p
        + 2.0 * p.powi(2)
        + 4.0 * p.powi(3)
        + 8.0 * p.powi(4)
        + 16.0 * p.powi(5)
        + 32.0 * p.powi(6);
    let segments = kept / p + window + by_timeout / kept;
    let seconds =
        ROUND_TRIP_SECONDS * (b / 2.0 * window + 1.0) + by_timeout * timeout * backoff / kept;
    segments / seconds
}

#[test]
fn newreno_has_mathis_throughput_under_periodic_loss() {
    for b in [1, 2] {
        for period in [1000, 333, 100, 33] {
            let measured = rate(config(b), 2000, periodic(period));
            let formula = mathis(1.0 / period as f64, f64::from(b));
            let error = measured.sent / formula - 1.0;
            println!("b {b} p 1/{period}: {measured:?} formula {formula:.1} error {error:+.3}");
        }
    }
}

#[test]
fn newreno_has_padhyes_throughput_where_a_round_is_lost() {
    for b in [1, 2] {
        for p in [0.001, 0.003, 0.01, 0.03] {
            let measured = rate(config(b), 20_000, rounds(p, 7));
            let formula = padhye(p, f64::from(b), 0.2);
            let error = measured.sent / formula - 1.0;
            println!("b {b} p {p}: {measured:?} formula {formula:.1} error {error:+.3}");
        }
    }
}

#[test]
fn cubic_has_the_window_of_rfc_9438() {
    for period in [10_000, 33_333, 100_000] {
        let cubic = Config {
            algorithm: Algorithm::Cubic,
            ..config(1)
        };
        let measured = rate(cubic, 3000, periodic(period));
        let p = 1.0 / period as f64;
        // Equation 6 with beta 0.7: (C (3 + beta) / (4 (1 - beta)))^(1/4) RTT^(3/4) / p^(3/4).
        let window = (0.4 * 3.7 / 1.2f64).powf(0.25) * (ROUND_TRIP_SECONDS / p).powf(0.75);
        let formula = window / ROUND_TRIP_SECONDS;
        let error = measured.sent / formula - 1.0;
        println!("p 1/{period}: {measured:?} formula {formula:.1} error {error:+.3}");
    }
}
