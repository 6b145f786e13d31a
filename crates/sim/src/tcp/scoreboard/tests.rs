//! The scoreboard beside RFC 6675's functions as the RFC writes them, octet by octet.

use std::collections::BTreeSet;

use dpb_core::random::SplitMix64;

use super::*;

const MSS: u64 = 4;

/// RFC 6675, section 4, over a set of octets.
#[derive(Default)]
struct Octets {
    acknowledged: u64,
    sent: u64,
    selective: BTreeSet<u64>,
    repaired: u64,
    timed_out_below: u64,
}

impl Octets {
    /// IsLost: three discontiguous sequences above, or more than two segments' bytes.
    fn is_lost(&self, octet: u64) -> bool {
        if octet < self.timed_out_below {
            return true;
        }
        let above: Vec<u64> = self.selective.range(octet + 1..).copied().collect();
        let sequences = above
            .iter()
            .enumerate()
            .filter(|&(at, &octet)| at == 0 || above[at - 1] + 1 != octet)
            .count();
        sequences >= 3 || above.len() as u64 > 2 * MSS
    }

    /// SetPipe.
    fn pipe(&self) -> u64 {
        (self.acknowledged..self.sent)
            .filter(|octet| !self.selective.contains(octet))
            .map(|octet| u64::from(!self.is_lost(octet)) + u64::from(octet < self.repaired))
            .sum()
    }

    /// Rule 1 of NextSeg: the smallest octet to send again, if any.
    fn next_lost(&self, limit: u64) -> Option<u64> {
        (self.repaired.max(self.acknowledged)..limit.min(self.sent))
            .find(|octet| !self.selective.contains(octet) && self.is_lost(*octet))
    }

    /// Rule 3.
    fn next_hole(&self, limit: u64) -> Option<u64> {
        let highest = *self.selective.last()?;
        (self.repaired.max(self.acknowledged)..limit.min(highest))
            .find(|octet| !self.selective.contains(octet))
    }
}

fn compare(board: &Scoreboard, octets: &Octets, limit: u64, seed: u64) {
    assert_eq!(board.pipe(), octets.pipe(), "seed {seed}");
    let lost = board.next_lost(limit, MSS);
    assert_eq!(
        lost.map(|(start, _)| start),
        octets.next_lost(limit),
        "seed {seed}"
    );
    let hole = board.next_hole(limit, MSS);
    assert_eq!(
        hole.map(|(start, _)| start),
        octets.next_hole(limit),
        "seed {seed}"
    );
    for (start, end) in lost.into_iter().chain(hole) {
        assert!(start < end && end - start <= MSS && end <= octets.sent);
        assert!((start..end).all(|octet| !octets.selective.contains(&octet)));
    }
    assert_eq!(board.head_is_lost(), {
        let head = octets.acknowledged;
        head < octets.sent && !octets.selective.contains(&head) && octets.is_lost(head)
    });
    let missing =
        (octets.acknowledged..octets.sent).rfind(|octet| !octets.selective.contains(octet));
    assert_eq!(
        board.tail(MSS).map(|(_, end)| end - 1),
        missing,
        "seed {seed}"
    );
}

#[test]
fn gives_what_the_rfc_computes_octet_by_octet() {
    for seed in 0..3000 {
        let mut random = SplitMix64::new(seed);
        let mut board = Scoreboard::default();
        let mut octets = Octets::default();
        for _ in 0..40 {
            step(&mut random, &mut board, &mut octets);
            board.judge(MSS);
            let limit = octets.acknowledged + random.below(60) as u64;
            compare(&board, &octets, limit, seed);
        }
    }
}

fn step(random: &mut SplitMix64, board: &mut Scoreboard, octets: &mut Octets) {
    let flight = octets.sent - octets.acknowledged;
    match random.below(9) {
        0..3 => {
            let len = 1 + random.below(12) as u64;
            board.send(len);
            octets.sent += len;
        }
        3..6 if flight > 1 => {
            // Never the head: a receiver acknowledges that cumulatively.
            let start = octets.acknowledged + 1 + random.below(flight as usize - 1) as u64;
            let end = (start + 1 + random.below(8) as u64).min(octets.sent);
            let before = octets.selective.len();
            octets.selective.extend(start..end);
            let added = (octets.selective.len() - before) as u64;
            assert_eq!(board.acknowledge_block(start, end), added);
        }
        6 if flight > 0 => {
            let mut to = octets.acknowledged + 1 + random.below(flight as usize) as u64;
            while octets.selective.contains(&to) {
                to += 1;
            }
            octets.selective = octets.selective.split_off(&to);
            octets.acknowledged = to;
            board.acknowledge(to);
        }
        7 => {
            let end = octets.sent;
            if let Some((start, end)) = board
                .next_lost(end, MSS)
                .or_else(|| board.next_hole(end, MSS))
            {
                board.repair(start, end);
                octets.repaired = end;
            }
        }
        8 if random.below(4) == 0 => {
            board.time_out();
            octets.timed_out_below = octets.sent;
            octets.repaired = octets.acknowledged;
        }
        _ => {}
    }
}

#[test]
fn blocks_of_what_was_never_sent_say_nothing() {
    let mut board = Scoreboard::default();
    board.send(20);
    board.acknowledge(5);
    assert_eq!(board.acknowledge_block(10, 21), 0);
    assert_eq!(board.acknowledge_block(2, 5), 0);
    assert_eq!(board.acknowledge_block(12, 12), 0);
    board.judge(MSS);
    assert_eq!(board.pipe(), 15);
}
