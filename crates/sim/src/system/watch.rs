//! Observation of the parts of a system: what became of frames, where their time went, and traces of both.

use std::sync::{Arc, Mutex, PoisonError};

use super::frame::Frame;
use super::journey::{ANSWER, Leg, Place};
use super::ledger::{Ledger, Reason};
use super::trace::{Direction, Trace};

/// The observer of a component, or of a wire of it. The places of its parts follow one another.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    first: u16,
    /// True if frames that begin here keep their stretches, as do those that come here then: a system is observed whole or not at all.
    keeps: bool,
    begun: u64,
    trace: Option<Arc<Mutex<Trace>>>,
    ledger: Ledger,
}

impl Watch {
    /// An observer of the parts from this place on. Frames that begin there keep their stretches if `keeps`, or if there is a trace.
    pub fn new(first: Place, keeps: bool, trace: Option<Arc<Mutex<Trace>>>) -> Self {
        Self {
            first: first.0,
            keeps: keeps || trace.is_some(),
            trace,
            ..Self::default()
        }
    }

    /// The fates that it counted.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// The place of a part.
    pub fn place(&self, part: u16) -> Place {
        Place(self.first + part)
    }

    /// A frame begins here.
    #[inline]
    pub fn begin(&mut self, frame: &mut Frame) {
        if self.keeps {
            self.begun += 1;
            frame
                .journey
                .watch(u64::from(self.first) << 40 | self.begun);
        }
    }

    /// Counts a frame's time since the last call for this leg, in this part.
    #[inline]
    pub fn pass(&self, frame: &mut Frame, part: u16, leg: Leg, until_ps: u64) {
        match self.keeps {
            true => self.pass_at(frame, self.place(part), leg, until_ps),
            false => frame.journey.count(leg, until_ps),
        }
    }

    /// As [`Watch::pass`], in the part that the frame was in before: the wire by which it came.
    #[inline]
    pub fn arrive(&self, frame: &mut Frame, until_ps: u64) {
        if !self.keeps {
            return frame.journey.count(Leg::Propagation, until_ps);
        }
        let last = frame.journey.hops().last();
        let place = last.map_or(self.place(0), |it| it.place);
        self.pass_at(frame, place, Leg::Propagation, until_ps);
        self.capture(Direction::In, until_ps, frame);
    }

    #[inline(never)]
    fn pass_at(&self, frame: &mut Frame, place: Place, leg: Leg, until_ps: u64) {
        let from_ps = frame.journey.pass(place, leg, until_ps);
        if self.trace.is_some() && until_ps > from_ps {
            self.traced(|trace| trace.stretch(place, leg, frame, from_ps, until_ps));
        }
    }

    /// A frame comes in now, or its last bit will go out at `stamp_ps`.
    #[inline]
    pub fn capture(&self, direction: Direction, stamp_ps: u64, frame: &Frame) {
        if self.trace.is_some() {
            let place = self.place(0);
            self.traced(|trace| trace.capture(place, direction, stamp_ps, frame));
        }
    }

    /// A frame begins to wait in a part.
    #[inline]
    pub fn waits(&self, part: u16, now_ps: u64) {
        if self.trace.is_some() {
            self.traced(|trace| trace.waits(self.place(part), now_ps));
        }
    }

    /// A frame that waits in a part ends that, now or later.
    #[inline]
    pub fn goes(&self, part: u16, at_ps: u64) {
        if self.trace.is_some() {
            self.traced(|trace| trace.goes(self.place(part), at_ps));
        }
    }

    fn traced(&self, act: impl FnOnce(&mut Trace)) {
        if let Some(trace) = &self.trace {
            act(&mut trace.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// A frame ends here before an application has it.
    pub fn dropped(&mut self, part: u16, frame: &Frame, reason: Reason, now_ps: u64) {
        self.ledger.drop_one(frame.journey.flow, reason);
        self.traced(|trace| trace.dropped(self.place(part), reason, frame, now_ps));
    }

    /// A frame's answer ends before it begins, as there is no room for it.
    pub fn dropped_answer(&mut self, part: u16, frame: &Frame, now_ps: u64) {
        let flow = frame.journey.flow;
        if flow != 0 {
            self.ledger.drop_one(flow | ANSWER, Reason::NoRoom);
        }
        self.traced(|trace| trace.dropped(self.place(part), Reason::NoRoom, frame, now_ps));
    }

    /// There are so many more frames of this kind now.
    pub fn copied(&mut self, frame: &Frame, more: u64) {
        self.ledger.copy(frame.journey.flow, more);
    }
}

/// The time of the frames with payload that a host accepted, by part and cause.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// The number of frames.
    pub frames: u64,
    /// Their time from their making to the end of their reception, in picoseconds.
    pub end_to_end_ps: u64,
    /// By place, then by leg.
    sums_ps: Vec<u64>,
}

impl Account {
    /// Adds a frame that has arrived now; one whose stretches were not kept is passed over.
    pub fn add(&mut self, frame: &Frame, now_ps: u64) {
        let journey = &frame.journey;
        if journey.number().is_none() {
            return;
        }
        self.frames += 1;
        self.end_to_end_ps += now_ps - journey.born_ps;
        for hop in journey.hops() {
            *self.sum_mut(hop.place, hop.leg) += hop.took_ps;
        }
    }

    /// Adds another account.
    pub fn merge(&mut self, other: &Self) {
        self.frames += other.frames;
        self.end_to_end_ps += other.end_to_end_ps;
        for (place, leg, sum_ps) in other.entries() {
            *self.sum_mut(place, leg) += sum_ps;
        }
    }

    fn sum_mut(&mut self, place: Place, leg: Leg) -> &mut u64 {
        let at = usize::from(place.0) * Leg::ALL.len() + leg as usize;
        if self.sums_ps.len() <= at {
            self.sums_ps.resize(at + 1, 0);
        }
        &mut self.sums_ps[at]
    }

    /// The places and causes that took time, with their sums in picoseconds, which add up to `end_to_end_ps`.
    pub fn entries(&self) -> impl Iterator<Item = (Place, Leg, u64)> + '_ {
        let sums = self.sums_ps.iter().enumerate();
        let sums = sums.filter(|&(_, &sum_ps)| sum_ps > 0);
        sums.map(|(at, &sum_ps)| {
            let place = Place((at / Leg::ALL.len()) as u16);
            (place, Leg::ALL[at % Leg::ALL.len()], sum_ps)
        })
    }
}
