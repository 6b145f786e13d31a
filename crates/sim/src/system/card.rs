//! A network card between a host and a wire: rings, DMA, interrupts, and on the way of the frames engines and cores.
//!
//! A card without stages is a dumb one. A card whose frames pass a stage is a data-processing unit: on path with an engine alone, off path with cores and
//! the card's memory before it. Frames of both directions share the stages.

use std::collections::VecDeque;

use crate::kernel::{Component, Context};

use super::frame::{Frame, Leg};
use super::message::{Interrupt, Message};
use super::protect::{Protection, ProtectionLane, ProtectionUsage, Verdict};
use super::server::{Server, Usage};
use super::wire::{Departure, Wire, WireUsage};

/// The port towards the host.
pub const HOST: usize = 0;
/// The port towards the wire.
pub const WIRE: usize = 1;

/// The parameters of a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CardModel {
    /// Time of a DMA transfer from its begin to the first byte, in picoseconds.
    pub dma_ps: u64,
    /// Time of each byte of a transfer, in picoseconds: what PCIe and the memories behind it sustain in one direction.
    pub dma_byte_ps: u64,
    /// Buffers that the host has given the card for frames that come in; a frame that finds none is dropped.
    pub receive_descriptors: u32,
    /// Least time between two interrupts, in picoseconds.
    pub interrupt_gap_ps: u64,
}

impl Default for CardModel {
    /// A card of today: 600 ns, 63 Gbit/s each way (eight lanes of PCIe 3), 512 descriptors, an interrupt each 20 µs at most.
    fn default() -> Self {
        Self {
            dma_ps: 600_000,
            dma_byte_ps: 127,
            receive_descriptors: 512,
            interrupt_gap_ps: 20_000_000,
        }
    }
}

/// A stage that frames pass inside the card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageModel {
    /// The name in records.
    pub name: String,
    /// Frames that are served at a time: lanes of an engine, cores.
    pub lanes: usize,
    /// Frames that may wait. One that comes from the wire and finds the queue full is dropped; one that comes from the host waits in its ring.
    pub waiting_max: usize,
    /// Time for each frame, in picoseconds.
    pub job_ps: u64,
    /// Time for each byte, in picoseconds.
    pub byte_ps: u64,
    /// Time from the end of the service to the next stage, in which the lane is free: doorbells, a hop over the card's memory.
    pub latency_ps: u64,
}

/// Counters of a card. `received` = `to_host` + `no_descriptor` + `stage_full` + those that protection refused, when nothing is under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CardUsage {
    /// Frames from the host.
    pub from_host: u64,
    /// Frames from the wire.
    pub received: u64,
    /// Frames that were given to the host.
    pub to_host: u64,
    /// Frames that found no receive descriptor.
    pub no_descriptor: u64,
    /// Frames from the wire that found a stage's queue full.
    pub stage_full: u64,
    /// Frames whose digest was wrong or missing.
    pub refused: u64,
    /// Interrupts.
    pub interrupts: u64,
}

struct Stage {
    model: StageModel,
    server: Server,
    /// The time at which the last frame of each direction left: frames of a direction keep their order.
    left_ps: [u64; 2],
    /// Frames from the host for which the queue had no room.
    held: VecDeque<Box<Frame>>,
}

/// The way of a frame through the card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Out,
    In,
}

/// A frame on its way through the card, and the place that it comes to next: a stage, or behind the last.
struct Passing {
    frame: Box<Frame>,
    way: Way,
    stage: usize,
}

/// A network card.
#[allow(missing_debug_implementations)] // operators are anything
pub struct Card {
    model: CardModel,
    wire: Wire,
    stages: Vec<Stage>,
    protection: Option<Protection>,
    dma: [Server; 2],
    passing: Vec<Option<Passing>>,
    spare: Vec<usize>,
    descriptors: u32,
    news: Interrupt,
    /// The times at which frames have left, or will have, of which the host does not know yet.
    leaving_ps: VecDeque<u64>,
    interrupted_ps: Option<u64>,
    is_armed: bool,
    usage: CardUsage,
}

/// The token of the timer that raises an interrupt; others are places in `passing`.
const INTERRUPT: u64 = u64::MAX;

impl Card {
    /// A card that sends on this wire. Frames that come from the host pass the stages in their order, those that come from the wire in the opposite one; the
    /// digest is computed when the last of the first, and the first of the others, is passed.
    pub fn new(
        model: CardModel,
        wire: Wire,
        stages: Vec<StageModel>,
        protection: Option<Protection>,
    ) -> Self {
        let stages = stages.into_iter().map(|model| Stage {
            server: Server::new(model.lanes, model.waiting_max),
            model,
            left_ps: [0; 2],
            held: VecDeque::new(),
        });
        Self {
            descriptors: model.receive_descriptors,
            model,
            wire,
            stages: stages.collect(),
            protection,
            dma: [(); 2].map(|()| Server::new(1, usize::MAX)),
            passing: Vec::new(),
            spare: Vec::new(),
            news: Interrupt::default(),
            leaving_ps: VecDeque::new(),
            interrupted_ps: None,
            is_armed: false,
            usage: CardUsage::default(),
        }
    }

    /// Its counters so far.
    pub fn usage(&self) -> CardUsage {
        self.usage
    }

    /// The counters of what it sends.
    pub fn wire_usage(&self) -> WireUsage {
        self.wire.usage()
    }

    /// Names, lanes and use of the stages.
    pub fn stages(&self) -> impl Iterator<Item = (&str, usize, Usage)> {
        let stages = self.stages.iter();
        stages.map(|it| (it.model.name.as_str(), it.model.lanes, it.server.usage()))
    }

    /// The use of DMA from the host's memory, and to it.
    pub fn dma(&self) -> [Usage; 2] {
        [self.dma[0].usage(), self.dma[1].usage()]
    }

    /// The counters of its digests.
    pub fn protection(&self) -> Option<ProtectionUsage> {
        self.protection.as_ref().map(Protection::usage)
    }

    /// Lets a frame come to the stage at this time.
    fn pass_at(&mut self, at_ps: u64, passing: Passing, context: &mut Context<'_, Message>) {
        let place = self.spare.pop().unwrap_or(self.passing.len());
        match self.passing.get_mut(place) {
            Some(empty) => *empty = Some(passing),
            None => self.passing.push(Some(passing)),
        }
        context.wake_at(at_ps, place as u64);
    }

    /// Moves a frame over PCIe; says when it is there.
    fn transfer(&mut self, way: Way, now_ps: u64, frame: &mut Frame) -> u64 {
        let cost_ps = frame.bytes() as u64 * self.model.dma_byte_ps;
        let served = self.dma[way as usize].serve(now_ps, cost_ps);
        let end_ps = served.map_or(now_ps, |it| it.end_ps) + self.model.dma_ps;
        frame.journey.pass(Leg::Bus, end_ps);
        end_ps
    }

    fn arrive(&mut self, passing: Passing, context: &mut Context<'_, Message>) {
        let Passing {
            mut frame,
            way,
            stage: number,
        } = passing;
        if number == self.stages.len() {
            return self.leave(frame, way, context);
        }
        let now_ps = context.now_ps();
        let at = match way {
            Way::Out => number,
            Way::In => self.stages.len() - 1 - number,
        };
        let computes = at + 1 == self.stages.len();
        let bytes = match (&self.protection, computes, way) {
            (Some(protection), true, Way::In) => protection.bytes_to_verify(&mut frame),
            (Some(protection), true, Way::Out) if !protection.is_to_protect(&frame) => 0,
            _ => frame.bytes(),
        };
        let stage = &mut self.stages[at];
        if way == Way::Out && !stage.held.is_empty() {
            stage.held.push_back(frame);
            return;
        }
        let cost_ps = match bytes {
            0 => 0,
            bytes => stage.model.job_ps + bytes as u64 * stage.model.byte_ps,
        };
        let Some(served) = stage.server.serve(now_ps, cost_ps) else {
            match way {
                Way::In => self.usage.stage_full += 1,
                Way::Out => self.hold(at, frame, context),
            }
            return;
        };
        let left_ps = &mut stage.left_ps[way as usize];
        *left_ps = served.end_ps.max(*left_ps);
        let end_ps = *left_ps + stage.model.latency_ps;
        frame.journey.pass(Leg::EngineQueue, served.begin_ps);
        frame.journey.pass(Leg::EngineWork, end_ps);
        if computes {
            match self.compute(&mut frame, way, context.local()) {
                Ok(true) => {}
                Ok(false) => {
                    self.usage.refused += 1;
                    return;
                }
                Err(wrong) => return context.fail(wrong),
            }
        }
        let passing = Passing {
            frame,
            way,
            stage: number + 1,
        };
        self.pass_at(end_ps, passing, context);
    }

    /// Keeps a frame from the host until the stage has room.
    fn hold(&mut self, at: usize, frame: Box<Frame>, context: &mut Context<'_, Message>) {
        let stage = &mut self.stages[at];
        stage.held.push_back(frame);
        let free_ps = stage.server.free_ps().max(context.now_ps() + 1);
        context.wake_at(free_ps, HELD - at as u64);
    }

    /// Tries again with the frames that were kept.
    fn release(&mut self, at: usize, context: &mut Context<'_, Message>) {
        for frame in std::mem::take(&mut self.stages[at].held) {
            let passing = Passing {
                frame,
                way: Way::Out,
                stage: at,
            };
            self.arrive(passing, context);
        }
    }

    /// Protects a frame, or verifies it; `false` if it is refused.
    fn compute(
        &mut self,
        frame: &mut Frame,
        way: Way,
        lane: &mut ProtectionLane,
    ) -> Result<bool, String> {
        let Some(protection) = &mut self.protection else {
            return Ok(true);
        };
        match way {
            Way::Out => protection.protect(frame, lane).map(|_| true),
            Way::In => {
                let is_packet = frame.ipv4().is_some();
                let verdict = protection.verify(frame, lane)?;
                Ok(verdict == Verdict::Right || verdict == Verdict::Bare && !is_packet)
            }
        }
    }

    /// A frame has passed all stages.
    fn leave(&mut self, mut frame: Box<Frame>, way: Way, context: &mut Context<'_, Message>) {
        let now_ps = context.now_ps();
        match way {
            Way::Out => match self.wire.send(now_ps, frame) {
                Departure::Dropped => self.leaving_ps.push_back(now_ps),
                Departure::Sent { end_ps, frames } => {
                    for frame in frames.into_iter().flatten() {
                        context.send_after(WIRE, end_ps - now_ps, Message::Frame(frame));
                    }
                    self.leaving_ps.push_back(end_ps);
                }
            },
            Way::In if self.descriptors == 0 => {
                self.usage.no_descriptor += 1;
                return;
            }
            Way::In => {
                self.descriptors -= 1;
                self.usage.to_host += 1;
                let there_ps = self.transfer(Way::In, now_ps, &mut frame);
                self.news_at(there_ps, frame, context);
                return;
            }
        }
        self.arm(context);
    }

    /// A frame will lie in the host's memory at this time.
    fn news_at(&mut self, at_ps: u64, frame: Box<Frame>, context: &mut Context<'_, Message>) {
        self.news.frames.push(frame);
        self.arm_at(at_ps, context);
    }

    fn arm(&mut self, context: &mut Context<'_, Message>) {
        if let Some(&left_ps) = self.leaving_ps.front() {
            self.arm_at(left_ps, context);
        }
    }

    fn arm_at(&mut self, at_ps: u64, context: &mut Context<'_, Message>) {
        if self.is_armed {
            return;
        }
        self.is_armed = true;
        let gap_ps = self.model.interrupt_gap_ps;
        let earliest_ps = self.interrupted_ps.map_or(0, |last_ps| last_ps + gap_ps);
        context.wake_at(at_ps.max(earliest_ps), INTERRUPT);
    }

    fn interrupt(&mut self, context: &mut Context<'_, Message>) {
        let now_ps = context.now_ps();
        self.is_armed = false;
        while self
            .leaving_ps
            .front()
            .is_some_and(|&left_ps| left_ps <= now_ps)
        {
            self.leaving_ps.pop_front();
            self.news.sent += 1;
        }
        // Frames that are still on their way to memory wait for the next interrupt.
        let there = self.news.frames.iter();
        let there = there.take_while(|it| it.journey.born_ps + it.journey.total_ps() <= now_ps);
        let later = self.news.frames.split_off(there.count());
        let mut news = std::mem::take(&mut self.news);
        self.news.frames = later;
        if !news.frames.is_empty() || news.sent > 0 {
            for frame in &mut news.frames {
                frame.journey.pass(Leg::Interrupt, now_ps);
            }
            self.usage.interrupts += 1;
            self.interrupted_ps = Some(now_ps);
            context.send(HOST, Message::Interrupt(Box::new(news)));
        }
        if let Some(next) = self.news.frames.first() {
            let there_ps = next.journey.born_ps + next.journey.total_ps();
            self.arm_at(there_ps, context);
        }
        self.arm(context);
    }
}

/// The tokens of timers of frames that were kept, one a stage, downwards.
const HELD: u64 = INTERRUPT - 1;

impl Component<Message> for Card {
    fn least_delay_ps(&self, port: usize) -> u64 {
        match port {
            WIRE => self.wire.model().time_ps(0),
            _ => 0,
        }
    }

    fn receive(&mut self, port: usize, message: Message, context: &mut Context<'_, Message>) {
        let now_ps = context.now_ps();
        match (port, message) {
            (HOST, Message::Send(mut frame)) => {
                self.usage.from_host += 1;
                frame.journey.pass(Leg::Bus, now_ps);
                let there_ps = self.transfer(Way::Out, now_ps, &mut frame);
                let passing = Passing {
                    frame,
                    way: Way::Out,
                    stage: 0,
                };
                self.pass_at(there_ps, passing, context);
            }
            (HOST, Message::Refill(buffers)) => self.descriptors += buffers,
            (WIRE, Message::Frame(mut frame)) => {
                self.usage.received += 1;
                frame.journey.pass(Leg::Wire, now_ps);
                let passing = Passing {
                    frame,
                    way: Way::In,
                    stage: 0,
                };
                self.arrive(passing, context);
            }
            (port, message) => context.fail(format!("port {port} takes no {message:?}")),
        }
    }

    fn wake(&mut self, token: u64, context: &mut Context<'_, Message>) {
        if token == INTERRUPT {
            return self.interrupt(context);
        }
        let place = token as usize;
        if place >= self.passing.len() {
            return self.release((HELD - token) as usize, context);
        }
        self.spare.push(place);
        if let Some(passing) = self.passing[place].take() {
            self.arrive(passing, context);
        }
    }
}
