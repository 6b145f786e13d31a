//! Windows beside the formulas of RFC 5681, RFC 9438 and RFC 9406.

use super::*;

const MSS: u64 = 1448;
const SECOND: u64 = 1_000_000_000_000;

fn congestion(algorithm: Algorithm) -> Congestion {
    let config = Config {
        algorithm,
        slow_start_segments: 1,
        ..Config::default()
    };
    Congestion::new(&config, MSS)
}

fn ack(now: u64, bytes: u64, round_trip_ps: u64) -> Acknowledged {
    Acknowledged {
        now,
        bytes,
        round_trip_ps,
        sample_ps: Some(round_trip_ps),
        acknowledged: 0,
        sent: 0,
        after_timeout: false,
    }
}

/// Acknowledges a whole window, segment by segment, spread over one round trip.
fn round(congestion: &mut Congestion, start: u64, round_trip: u64) {
    let segments = congestion.window() / MSS;
    for segment in 0..segments {
        congestion.acknowledged(&ack(
            start + round_trip * segment / segments,
            MSS,
            round_trip,
        ));
    }
}

#[test]
fn slow_start_doubles_in_a_round_trip() {
    // RFC 5681, equation 2, with an acknowledgement of each segment.
    let mut congestion = congestion(Algorithm::NewReno);
    for expected in [20, 40, 80, 160] {
        round(&mut congestion, 0, SECOND / 10);
        assert_eq!(congestion.window(), expected * MSS);
    }
}

#[test]
fn newreno_halves_and_then_adds_a_segment_a_round_trip() {
    let mut congestion = congestion(Algorithm::NewReno);
    for _ in 0..3 {
        round(&mut congestion, 0, SECOND / 10);
    }
    // 80 segments are outstanding: equation 4.
    congestion.lost(80 * MSS);
    assert_eq!(congestion.window(), 40 * MSS);
    for expected in 41..200 {
        round(&mut congestion, 0, SECOND / 10);
        assert_eq!(congestion.window(), expected * MSS);
    }
}

#[test]
fn newreno_by_acknowledgements_follows_equation_3() {
    let config = Config {
        algorithm: Algorithm::NewReno,
        growth: Growth::Acknowledgements,
        ..Config::default()
    };
    let mut congestion = Congestion::new(&config, MSS);
    congestion.lost(10 * MSS);
    let mut exact = congestion.window() as f64;
    for _ in 0..100_000 {
        congestion.acknowledged(&ack(0, 2 * MSS, 1));
        exact += (MSS * MSS) as f64 / exact;
        let error = (congestion.window() as f64 - exact).abs();
        assert!(error < 3.0, "{} and {exact}", congestion.window());
    }
}

#[test]
fn a_timeout_leaves_one_segment_and_half_the_flight_as_threshold() {
    let mut congestion = congestion(Algorithm::NewReno);
    round(&mut congestion, 0, SECOND);
    congestion.timed_out(20 * MSS, false);
    assert_eq!(
        (congestion.window(), congestion.threshold()),
        (MSS, 10 * MSS)
    );
    congestion.timed_out(MSS, true);
    assert_eq!(
        (congestion.window(), congestion.threshold()),
        (MSS, 10 * MSS)
    );
    congestion.timed_out(MSS, false);
    assert_eq!(congestion.threshold(), 2 * MSS);
}

/// The window, in segments, of RFC 9438's figure 1 after a loss at `before` segments.
fn w_cubic(before: f64, seconds: f64) -> f64 {
    let k = ((before - 0.7 * before) / 0.4).cbrt();
    0.4 * (seconds - k).powi(3) + before
}

#[test]
fn cubic_follows_its_curve_within_a_segment() {
    // A long path, so that the curve is above Reno's line: 1000 segments, 100 ms.
    let round_trip = SECOND / 10;
    let mut congestion = congestion(Algorithm::Cubic);
    congestion.window = 1000 * MSS;
    congestion.lost(1000 * MSS);
    assert_eq!(congestion.window(), 700 * MSS);
    for rounds in 0..300 {
        round(&mut congestion, rounds * round_trip, round_trip);
        let seconds = rounds as f64 * 0.1;
        // An acknowledgement at t aims at the curve at t + RTT and arrives there during the round.
        let behind = w_cubic(1000.0, seconds + 0.1);
        let ahead = w_cubic(1000.0, seconds + 0.2);
        let window = congestion.window() as f64 / MSS as f64;
        assert!(
            window > behind - 1.0 && window < ahead + 1.0,
            "{window} after {seconds} s, and not {behind} to {ahead}"
        );
    }
    // At K = (300 / 0.4)^(1/3) = 9.09 s the plateau; far beyond it, growth limited by 1.5 a round trip is not reached here.
    assert!(congestion.window() > 2000 * MSS);
}

#[test]
fn cubic_on_a_short_path_is_renos_friend() {
    // 100 microseconds: the curve hardly moves in a second, Reno's estimate does. W_est grows by alpha = 9/17 a round trip up to the
    // window before the loss, then by one (RFC 9438, section 4.3).
    let round_trip = SECOND / 10_000;
    let mut congestion = congestion(Algorithm::Cubic);
    congestion.window = 100 * MSS;
    congestion.lost(100 * MSS);
    let alpha = 9.0 / 17.0;
    let to_prior = (30.0f64 / alpha).ceil() as u64;
    for rounds in 0..400 {
        round(&mut congestion, rounds * round_trip, round_trip);
        let done = rounds + 1;
        let expected = if done <= to_prior {
            70.0 + alpha * done as f64
        } else {
            100.0 + (done - to_prior) as f64
        };
        let window = congestion.window() as f64 / MSS as f64;
        assert!(
            (window - expected).abs() < 1.0 + expected / 100.0,
            "{window} and not {expected} after {done}"
        );
    }
}

#[test]
fn cubic_after_a_timeout_begins_at_its_plateau() {
    // Section 4.8: K is zero and W_max the window at the start of congestion avoidance.
    let round_trip = SECOND / 10;
    let mut congestion = congestion(Algorithm::Cubic);
    congestion.window = 1000 * MSS;
    congestion.timed_out(1000 * MSS, false);
    assert_eq!(
        (congestion.window(), congestion.threshold()),
        (MSS, 700 * MSS)
    );
    congestion.window = congestion.threshold();
    for rounds in 0..100 {
        round(&mut congestion, rounds * round_trip, round_trip);
    }
    let window = congestion.window() as f64 / MSS as f64;
    let (behind, ahead) = (700.0 + 0.4 * 1000.0, 700.0 + 0.4 * 10.2f64.powi(3));
    // Reno's line reaches 700 + 100 * 9/17 only.
    assert!(window > behind - 2.0 && window < ahead + 2.0, "{window}");
}

#[test]
fn a_pause_is_no_time_of_the_curve() {
    let round_trip = SECOND / 10;
    let mut steady = congestion(Algorithm::Cubic);
    steady.window = 1000 * MSS;
    steady.lost(1000 * MSS);
    let mut paused = steady.clone();
    for rounds in 0..20 {
        round(&mut steady, rounds * round_trip, round_trip);
        round(&mut paused, rounds * round_trip, round_trip);
    }
    let pause = 1000 * SECOND;
    paused.resumed(pause, false);
    for rounds in 20..40 {
        round(&mut steady, rounds * round_trip, round_trip);
        round(&mut paused, rounds * round_trip + pause, round_trip);
    }
    assert_eq!(steady.window(), paused.window());
}

#[test]
fn hystart_leaves_slow_start_as_round_trips_grow() {
    let config = Config {
        hystart: true,
        ..Config::default()
    };
    let mut congestion = Congestion::new(&config, MSS);
    let base = 40_000_000_000;
    let mut sent = 0;
    let mut windows = Vec::new();
    for rounds in 0..12u64 {
        // From the fourth round on, round trips are 6 ms longer, which is more than an eighth of 40 ms.
        let sample = if rounds < 4 {
            base
        } else {
            base + 6_000_000_000
        };
        let segments = congestion.window() / MSS;
        sent += segments * MSS;
        for segment in 1..=segments {
            congestion.acknowledged(&Acknowledged {
                sample_ps: Some(sample),
                acknowledged: sent - (segments - segment) * MSS,
                sent: sent + segment * MSS,
                ..ack(rounds * base, MSS, sample)
            });
        }
        windows.push(congestion.window() / MSS);
    }
    assert_eq!(
        &windows[..4],
        [20, 40, 80, 160],
        "doubles while nothing changes"
    );
    assert!(windows[4] < 220, "a quarter of the growth: {windows:?}");
    assert!(
        congestion.threshold() < u64::MAX,
        "no loss was needed: {windows:?}"
    );
    let last = windows.len() - 1;
    assert!(
        windows[last] - windows[last - 1] <= 2,
        "congestion avoidance: {windows:?}"
    );
}
