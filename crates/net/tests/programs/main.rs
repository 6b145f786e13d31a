//! The programs against what others say: etherparse reads and sums, RustCrypto decrypts, scapy encrypted, rules are tried one after the other, and a map translates.

#[path = "../pipeline_support/mod.rs"]
mod support;

mod app_recognition;
mod esp;
mod firewall;
mod flow_table;
mod forward;
mod nat44;

use std::collections::VecDeque;

use dpb_core::Buf;
use dpb_net::pipeline::{Burst, Line, Mark, Reason, Stage};

/// Has frames, which came by port 0, go through stages in bursts of 32; gives what is left of each, or why it was dropped.
pub(crate) fn through(stages: &mut Line, frames: Vec<Buf>) -> Vec<Result<(Buf, Mark), Reason>> {
    let count = frames.len();
    let (mut ready, mut done) = (VecDeque::new(), Vec::new());
    let mut outcomes = Vec::new();
    let mut frames = frames.into_iter().peekable();
    while frames.peek().is_some() {
        let mut burst = Burst::with_capacity(32);
        for frame in frames.by_ref().take(32) {
            burst.push(frame, Mark::of(0));
        }
        ready.push_back(burst);
    }
    for _ in 0..10_000 {
        stages.offer(&mut ready);
        stages.poll(&mut done);
        for mut burst in done.drain(..) {
            outcomes.extend(burst.drain().map(Ok));
        }
        if ready.is_empty() && stages.in_flight() == 0 {
            break;
        }
    }
    let dropped = stages.reports();
    let dropped = dropped
        .iter()
        .flat_map(|stage| stage.counters.dropped.iter());
    for (reason, tally) in dropped {
        outcomes.extend((0..tally.packets).map(|_| Err(reason)));
    }
    assert!(
        outcomes.len() >= count,
        "all of this call, and drops of earlier ones"
    );
    outcomes
}

/// One frame through stages that are made anew: what is left of it.
pub(crate) fn one(stages: Vec<Box<dyn Stage>>, frame: &[u8]) -> Result<(Vec<u8>, Mark), Reason> {
    let mut line = Line::new("test", stages, 2);
    let mut outcomes = through(&mut line, vec![support::buf(frame)]);
    assert_eq!(outcomes.len(), 1);
    outcomes
        .remove(0)
        .map(|(frame, mark)| (frame.to_vec(), mark))
}
