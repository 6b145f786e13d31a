//! Stages: the trait, and those of plain code.

use std::collections::VecDeque;

use super::{Burst, Packet, StageReport};

/// Takes bursts and gives them back, as a [`Queue`](dpb_core::Queue) does jobs. Made on the thread that drives it.
///
/// Every burst that was taken comes back once, with the number that it had and the packets that it had, each in its place: a stage has a packet
/// dropped by its mark, and whoever drives the stage takes it out and counts it. Neither call waits, or allocates once it is warm.
pub trait Stage {
    /// A name for people: `forward`, `aes-gcm on cpu/vaes`.
    fn name(&self) -> &str;

    /// True if bursts must come in the order of their numbers.
    fn needs_order(&self) -> bool {
        true
    }

    /// Takes bursts from the front, until it has no room for more; says how many.
    fn offer(&mut self, ready: &mut VecDeque<Burst>) -> usize;

    /// Appends bursts that are finished, in any order; says how many.
    fn poll(&mut self, done: &mut Vec<Burst>) -> usize;

    /// Bursts that were taken and not given back.
    fn in_flight(&self) -> usize;

    /// Appends the reports of stages within this one; by default there are none.
    fn inner(&self, _reports: &mut Vec<StageReport>) {}
}

/// Plain code over whole bursts.
pub struct Whole<F> {
    name: String,
    work: F,
    done: Vec<Burst>,
}

impl<F: FnMut(&mut Burst)> Whole<F> {
    /// Has `work` done on each burst.
    pub fn new(name: impl Into<String>, work: F) -> Self {
        Self {
            name: name.into(),
            work,
            done: Vec::new(),
        }
    }
}

impl<F: FnMut(&mut Burst)> Stage for Whole<F> {
    fn name(&self) -> &str {
        &self.name
    }

    fn offer(&mut self, ready: &mut VecDeque<Burst>) -> usize {
        let taken = ready.len();
        for mut burst in ready.drain(..) {
            (self.work)(&mut burst);
            self.done.push(burst);
        }
        taken
    }

    fn poll(&mut self, done: &mut Vec<Burst>) -> usize {
        let finished = self.done.len();
        done.append(&mut self.done);
        finished
    }

    fn in_flight(&self) -> usize {
        self.done.len()
    }
}

impl<F> std::fmt::Debug for Whole<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Whole({})", self.name)
    }
}

/// A stage that has `work` done on one packet after another.
pub fn each(
    name: impl Into<String>,
    mut work: impl FnMut(Packet<'_>),
) -> Whole<impl FnMut(&mut Burst)> {
    Whole::new(name, move |burst: &mut Burst| {
        for packet in burst.iter_mut() {
            work(packet);
        }
    })
}
