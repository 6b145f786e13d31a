//! Single acknowledgements, and what RFC 5681, 6582, 6675 and 6298 say follows.

use super::*;
use crate::tcp::config::{Algorithm, MILLISECOND_PS, SECOND_PS};
use crate::tcp::segment::{Flags, Segment};

const MSS: u64 = 1000;
const ROUND_TRIP: u64 = 50 * MILLISECOND_PS;

fn config(sack: bool) -> Config {
    Config {
        mss: MSS as u16,
        algorithm: Algorithm::NewReno,
        sack,
        timestamps: false,
        slow_start_segments: 1,
        ..Config::default()
    }
}

fn ack(position: u64) -> Segment {
    Segment {
        acknowledgement: position,
        flags: Flags::ACK,
        window: 1 << 30,
        ..Segment::default()
    }
}

fn sack(position: u64, blocks: &[(u64, u64)]) -> Segment {
    let mut segment = ack(position);
    for &(start, end) in blocks {
        assert!(segment.push_sack_block(start, end));
    }
    segment
}

/// The position at which segment `index` begins, the first being 0.
fn at(index: u64) -> u64 {
    1 + index * MSS
}

/// A sender whose handshake took a round trip, and that never lacks data.
fn established(config: Config) -> Sender {
    let mut sender = Sender::new(config);
    sender.open();
    assert!(sender.next_segment(0).unwrap().is_syn());
    sender.receive(ROUND_TRIP, &ack(1));
    sender.offer_unlimited();
    sender
}

/// The starts of all segments that the sender lets out now, as indexes.
fn sent(sender: &mut Sender, now: u64) -> Vec<u64> {
    let mut indexes = Vec::new();
    while let Some(segment) = sender.next_segment(now) {
        assert_eq!((segment.sequence - 1) % MSS, 0);
        indexes.push((segment.sequence - 1) / MSS);
    }
    indexes
}

#[test]
fn begins_with_ten_segments() {
    let mut sender = established(config(true));
    assert_eq!(sent(&mut sender, ROUND_TRIP), (0..10).collect::<Vec<_>>());
    // SRTT 50 ms and RTTVAR 25 ms: below Linux's minimum.
    assert_eq!(sender.deadline(), Some(ROUND_TRIP + 200 * MILLISECOND_PS));
    sender.receive(2 * ROUND_TRIP, &ack(at(1)));
    assert_eq!(sent(&mut sender, 2 * ROUND_TRIP), [10, 11]);
}

#[test]
fn limited_transmit_lets_two_segments_out_before_the_third_duplicate() {
    for with_sack in [false, true] {
        let mut sender = established(config(with_sack));
        sent(&mut sender, 0);
        let duplicate = |upto| {
            if with_sack {
                sack(at(0), &[(at(1), at(upto))])
            } else {
                ack(at(0))
            }
        };
        sender.receive(ROUND_TRIP, &duplicate(2));
        assert_eq!(sent(&mut sender, ROUND_TRIP), [10], "sack {with_sack}");
        sender.receive(ROUND_TRIP, &duplicate(3));
        assert_eq!(sent(&mut sender, ROUND_TRIP), [11], "sack {with_sack}");
        sender.receive(ROUND_TRIP, &duplicate(4));
        assert_eq!(sent(&mut sender, ROUND_TRIP), [0], "sack {with_sack}");
        // RFC 5681, section 3.2: limited transmit's segments do not count.
        assert_eq!(sender.sample().window_bytes, 5 * MSS);
        assert_eq!(sender.statistics().fast_recoveries, 1);
    }
}

#[test]
fn newreno_repairs_one_segment_a_round_trip() {
    // RFC 6582: segments 0 and 4 of ten are lost.
    let mut sender = established(config(false));
    sent(&mut sender, 0);
    let mut out = Vec::new();
    for _ in 0..8 {
        sender.receive(ROUND_TRIP, &ack(at(0)));
        out.extend(sent(&mut sender, ROUND_TRIP));
    }
    // Two by limited transmit, the repair, and new data as window inflation exceeds the flight of twelve: ssthresh 5 + 8 = 13.
    assert_eq!(out, [10, 11, 0, 12]);
    // The repair is acknowledged up to the next hole: a partial acknowledgement.
    sender.receive(2 * ROUND_TRIP, &ack(at(4)));
    assert_eq!(sent(&mut sender, 2 * ROUND_TRIP), [4, 13]);
    assert_eq!(sender.sample().recovery, Recovery::Fast);
    // Everything outstanding when the loss was found is acknowledged: 12 and 13 are in flight.
    sender.receive(3 * ROUND_TRIP, &ack(at(12)));
    assert_eq!(sender.sample().recovery, Recovery::None);
    assert_eq!(sender.sample().window_bytes, 3 * MSS);
    assert_eq!(sender.statistics().fast_recoveries, 1);
    assert_eq!(sender.statistics().timeouts, 0);
}

#[test]
fn newreno_does_not_take_its_own_repairs_duplicates_for_a_loss() {
    let mut sender = established(config(false));
    sent(&mut sender, 0);
    let now = sender.deadline().unwrap();
    sender.expire(now);
    assert_eq!(sent(&mut sender, now), [0]);
    // Nothing was lost but acknowledgements: those of the repair's originals are duplicates.
    sender.receive(now, &ack(at(10)));
    sent(&mut sender, now);
    for _ in 0..5 {
        sender.receive(now, &ack(at(10)));
    }
    assert_eq!(sender.statistics().fast_recoveries, 0);
}

#[test]
fn sack_repairs_all_holes_in_one_round_trip() {
    // RFC 6675: of twenty segments, 0, 2 and 4 are lost.
    let mut sender = established(Config {
        initial_window_segments: 20,
        ..config(true)
    });
    assert_eq!(sent(&mut sender, 0).len(), 20);
    let mut out = Vec::new();
    let blocks = [(at(1), at(2)), (at(3), at(4))];
    sender.receive(ROUND_TRIP, &sack(at(0), &blocks[..1]));
    sender.receive(ROUND_TRIP, &sack(at(0), &[blocks[1], blocks[0]]));
    out.extend(sent(&mut sender, ROUND_TRIP));
    assert_eq!(out, [20, 21]);
    out.clear();
    for upto in 6..=20 {
        sender.receive(
            ROUND_TRIP,
            &sack(at(0), &[(at(5), at(upto)), blocks[1], blocks[0]]),
        );
        out.extend(sent(&mut sender, ROUND_TRIP));
    }
    // The window is 10 of 20. First the repair that goes whatever the pipe; the others once it is below the window; then new data.
    assert_eq!(out[..3], [0, 2, 4]);
    assert_eq!(
        out[3..],
        (22..22 + out.len() as u64 - 3).collect::<Vec<_>>()
    );
    assert_eq!(sender.sample().in_flight_bytes, 10 * MSS);
    sender.receive(2 * ROUND_TRIP, &sack(at(2), &[(at(5), at(20)), blocks[1]]));
    assert_eq!(sender.sample().recovery, Recovery::Fast);
    sender.receive(2 * ROUND_TRIP, &ack(at(22)));
    assert_eq!(sender.sample().recovery, Recovery::None);
    assert_eq!(sender.sample().window_bytes, 10 * MSS);
    assert_eq!(sender.statistics().retransmissions, 3);
}

#[test]
fn the_timer_backs_off_and_the_window_is_one_segment() {
    for with_sack in [false, true] {
        let mut sender = established(config(with_sack));
        sent(&mut sender, 0);
        let mut now = sender.deadline().unwrap();
        assert_eq!(now, 200 * MILLISECOND_PS);
        sender.expire(now - 1);
        assert_eq!(sender.statistics().timeouts, 0);
        for wait in [400, 800, 1600] {
            sender.expire(now);
            assert_eq!(sent(&mut sender, now), [0]);
            assert_eq!(sender.sample().window_bytes, MSS);
            assert_eq!(sender.sample().threshold_bytes, 5 * MSS);
            assert_eq!(sender.deadline(), Some(now + wait * MILLISECOND_PS));
            now += wait * MILLISECOND_PS;
        }
        // Slow start repairs the rest.
        sender.receive(now, &ack(at(1)));
        assert_eq!(sent(&mut sender, now), [1, 2], "sack {with_sack}");
        sender.receive(now, &ack(at(10)));
        assert_eq!(sender.sample().recovery, Recovery::None);
        assert_eq!(sent(&mut sender, now), [10, 11, 12]);
        assert_eq!(sender.statistics().repeated_timeouts, 2);
    }
}

#[test]
fn a_lost_syn_costs_the_first_window() {
    let mut sender = Sender::new(config(true));
    sender.open();
    sender.offer_unlimited();
    assert!(sender.next_segment(0).unwrap().is_syn());
    assert_eq!(sender.next_segment(0), None);
    assert_eq!(sender.deadline(), Some(SECOND_PS));
    sender.expire(SECOND_PS);
    assert!(sender.next_segment(SECOND_PS).unwrap().is_syn());
    assert_eq!(sender.deadline(), Some(3 * SECOND_PS));
    let now = SECOND_PS + ROUND_TRIP;
    sender.receive(now, &ack(1));
    assert_eq!(sent(&mut sender, now), [0]);
    // RFC 6298, rule 5.7.
    assert_eq!(sender.deadline(), Some(now + 3 * SECOND_PS));
}

#[test]
fn a_closed_window_is_probed() {
    let mut sender = Sender::new(config(true));
    sender.open();
    sender.next_segment(0);
    sender.receive(
        ROUND_TRIP,
        &Segment {
            window: 0,
            ..ack(1)
        },
    );
    sender.offer(500);
    assert_eq!(sender.next_segment(ROUND_TRIP), None);
    let now = sender.deadline().unwrap();
    sender.expire(now);
    let probe = sender.next_segment(now).unwrap();
    assert_eq!((probe.sequence, probe.payload_len), (0, 0));
    let later = sender.deadline().unwrap();
    assert_eq!(later - now, 400 * MILLISECOND_PS, "backs off");
    sender.receive(
        later,
        &Segment {
            window: 400,
            ..ack(1)
        },
    );
    let data = sender.next_segment(later).unwrap();
    assert_eq!(
        (data.sequence, data.payload_len),
        (1, 400),
        "all that fits into the largest window"
    );
}

#[test]
fn a_small_window_is_not_filled_in_small_pieces() {
    let mut sender = Sender::new(config(true));
    sender.open();
    sender.next_segment(0);
    sender.receive(
        0,
        &Segment {
            window: 2000,
            ..ack(1)
        },
    );
    sender.offer(10_000);
    assert_eq!(sent(&mut sender, 0), [0, 1]);
    sender.receive(
        1,
        &Segment {
            window: 300,
            ..ack(at(2))
        },
    );
    assert_eq!(sender.next_segment(1), None);
    // The override after a time.
    let now = sender.deadline().unwrap();
    sender.expire(now);
    assert_eq!(sender.next_segment(now).unwrap().payload_len, 300);
}

#[test]
fn an_application_that_sends_little_does_not_earn_a_window() {
    let mut sender = established(config(true));
    sender.close();
    let mut sender = established(config(true)).clone();
    sender.limit = 1;
    for request in 0..100 {
        let now = ROUND_TRIP * (request + 2);
        sender.offer(MSS);
        assert_eq!(sent(&mut sender, now).len(), 1);
        sender.receive(now + ROUND_TRIP, &ack(at(request + 1)));
    }
    assert_eq!(sender.sample().window_bytes, 10 * MSS);
}

#[test]
fn a_pause_ends_in_the_first_window() {
    let mut sender = established(config(true));
    let mut now = ROUND_TRIP;
    for _ in 0..5 {
        sent(&mut sender, now);
        now += ROUND_TRIP;
        let upto = sender.next_position();
        let mut position = sender.board.acknowledged();
        while position < upto {
            position += MSS;
            sender.receive(now, &ack(position));
        }
    }
    sender.limit = sender.next_position();
    sent(&mut sender, now);
    assert!(sender.sample().window_bytes >= 160 * MSS);
    now += SECOND_PS;
    sender.offer(100 * MSS);
    assert_eq!(sent(&mut sender, now).len(), 10);
}
