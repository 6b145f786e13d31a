//! Stages one behind another: [`Line`].

use std::collections::VecDeque;
use std::fmt;
use std::mem::{replace, take};
use std::sync::Arc;

use dpb_core::Clock;

use super::order::Reorder;
use super::{Burst, Counters, Stage, StageReport};

/// Stages one behind another, and itself a stage. Bursts leave it in the order in which they came.
///
/// It is driven by [`Stage::poll`]: one call goes through all stages once, from the first to the last. So a burst runs to completion through
/// stages that work at once, while those with engines behind them go on with what they have.
pub struct Line {
    name: String,
    links: Vec<Link>,
    end: Reorder,
    ordered: VecDeque<Burst>,
    /// The numbers that bursts had outside, in order, and the number of packets that were taken out of each there.
    outside: VecDeque<(u64, u64)>,
    next: u64,
    depth: usize,
    in_flight: usize,
    done: Vec<Burst>,
    clock: Option<Arc<dyn Clock>>,
}

/// A stage, and what stands in front of it.
struct Link {
    stage: Box<dyn Stage>,
    needs_order: bool,
    order: Reorder,
    ready: VecDeque<Burst>,
    counters: Counters,
}

impl Line {
    /// A line of `stages` that holds up to `depth` bursts: in its stages, in front of them, and where they wait for earlier ones.
    ///
    /// # Panics
    /// If the depth is zero.
    pub fn new(name: impl Into<String>, stages: Vec<Box<dyn Stage>>, depth: usize) -> Self {
        assert!(depth > 0, "a line that holds at least one burst");
        let link = |stage: Box<dyn Stage>| Link {
            needs_order: stage.needs_order(),
            stage,
            order: Reorder::new(depth),
            ready: VecDeque::with_capacity(depth),
            counters: Counters::default(),
        };
        Self {
            name: name.into(),
            links: stages.into_iter().map(link).collect(),
            end: Reorder::new(depth),
            ordered: VecDeque::with_capacity(depth),
            outside: VecDeque::with_capacity(depth),
            next: 0,
            depth,
            in_flight: 0,
            done: Vec::with_capacity(depth),
            clock: None,
        }
    }

    /// Takes the time of each stage by `clock`: two looks for each stage that has something to do, each time it is polled.
    #[must_use]
    pub fn timed_by(self, clock: Arc<dyn Clock>) -> Self {
        Self {
            clock: Some(clock),
            ..self
        }
    }

    /// Bursts that it holds at most.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// The counters of its stages, in order; behind each those within it.
    pub fn reports(&self) -> Vec<StageReport> {
        let mut reports = Vec::new();
        self.inner(&mut reports);
        reports
    }

    /// Packets that are in no stage: in front of one, or held back for order.
    pub fn waiting(&self) -> u64 {
        let of = |ready: &VecDeque<Burst>| ready.iter().map(|b| b.len() as u64).sum::<u64>();
        let links = self
            .links
            .iter()
            .map(|link| of(&link.ready) + link.order.packets());
        links.sum::<u64>() + self.end.packets() + of(&self.ordered)
    }

    /// Goes through all stages once.
    fn turn(&mut self) {
        let Self {
            links,
            end,
            ordered,
            done,
            clock,
            ..
        } = self;
        for i in 0..links.len() {
            let (link, behind) = links[i..].split_first_mut().expect("link i");
            link.turn(clock.as_deref(), done);
            for burst in done.drain(..) {
                match behind.first_mut() {
                    Some(next) => next.accept(burst),
                    None => end.accept(burst, ordered),
                }
            }
        }
    }
}

impl Link {
    fn accept(&mut self, burst: Burst) {
        match self.needs_order {
            true => self.order.accept(burst, &mut self.ready),
            false => self.ready.push_back(burst),
        }
    }

    /// Offers what is ready, and appends what is finished, without packets that were dropped.
    fn turn(&mut self, clock: Option<&dyn Clock>, done: &mut Vec<Burst>) {
        let Self {
            stage,
            ready,
            counters,
            ..
        } = self;
        if ready.is_empty() && stage.in_flight() == 0 {
            return;
        }
        let began = clock.map(Clock::now_ns);
        if !ready.is_empty() {
            // A stage takes from the front: what it left is what it did not take.
            let tally = |ready: &VecDeque<Burst>| {
                let each = ready.iter().map(|burst| (burst.len(), burst.bytes()));
                each.fold((0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1))
            };
            let before = tally(ready);
            counters.bursts += stage.offer(ready) as u64;
            let left = tally(ready);
            (counters.offered).add(before.0 - left.0, before.1 - left.1);
        }
        stage.poll(done);
        for burst in done.iter_mut() {
            let inside = take(&mut burst.gone_inside);
            counters.dropped_inside += inside;
            burst.gone += inside;
            burst.sweep(|reason, bytes| counters.dropped.count(reason, bytes));
            counters.finished.add(burst.len(), burst.bytes());
        }
        if let (Some(clock), Some(began)) = (clock, began) {
            counters.busy_ns += clock.now_ns().saturating_sub(began);
        }
    }
}

impl Stage for Line {
    fn name(&self) -> &str {
        &self.name
    }

    fn offer(&mut self, ready: &mut VecDeque<Burst>) -> usize {
        let taken = ready.len().min(self.depth - self.in_flight);
        for mut burst in ready.drain(..taken) {
            self.outside
                .push_back((burst.number, take(&mut burst.gone)));
            burst.number = self.next;
            self.next += 1;
            match self.links.first_mut() {
                Some(first) => first.accept(burst),
                None => self.end.accept(burst, &mut self.ordered),
            }
        }
        self.in_flight += taken;
        taken
    }

    fn poll(&mut self, done: &mut Vec<Burst>) -> usize {
        self.turn();
        let finished = self.ordered.len();
        for mut burst in self.ordered.drain(..) {
            let (number, gone) = self.outside.pop_front().expect("as many as bursts");
            burst.number = number;
            burst.gone_inside = replace(&mut burst.gone, gone);
            done.push(burst);
        }
        self.in_flight -= finished;
        finished
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }

    fn inner(&self, reports: &mut Vec<StageReport>) {
        for link in &self.links {
            reports.push(StageReport {
                name: link.stage.name().to_owned(),
                level: 0,
                counters: link.counters.clone(),
            });
            let first = reports.len();
            link.stage.inner(reports);
            for within in &mut reports[first..] {
                within.level += 1;
            }
        }
    }
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.links.iter().map(|link| link.stage.name());
        write!(f, "Line({}: ", self.name)?;
        f.debug_list().entries(names).finish()?;
        write!(f, ", {} of {} in flight)", self.in_flight, self.depth)
    }
}
