//! A network card between a host and a wire: rings, DMA, interrupts, and on the way of the frames engines and cores.
//!
//! A card without stages is a dumb one. A card whose frames pass stages is a data-processing unit. **On path**, every frame passes them, in mirrored order when it comes
//! in: an engine at the wire is the last before it and the first behind it. **Off path**, the first stage is a switch in the card, the next are cores, and engines behind
//! them; frames take the same order in both directions, and a stage that names ports lets all other frames go by. Frames of both directions share the stages.
//!
//! Stages share memories and buses ([`SharedModel`]): a frame crosses them before its service, and whoever crosses the same one waits. The DMA engines of the two directions
//! are two of them.

use std::collections::VecDeque;

use dpb_core::random::SplitMix64;

use crate::kernel::{Component, Context};

use super::frame::Frame;
use super::headers;
use super::journey::Leg;
use super::ledger::Reason;
use super::message::{Interrupt, Message};
use super::part::{Kind, Part};
use super::protect::{Protection, ProtectionLane, ProtectionUsage, Verdict};
use super::server::{Server, Usage, Waiting};
use super::times::Times;
use super::watch::Watch;
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
    /// Buffers that the host has given the card for frames that come in; a frame that finds none is dropped. A modelled host gives a buffer back when a core takes
    /// the frame, so as many frames wait in a slow host at most; a real one, when the frame is there.
    pub receive_descriptors: u32,
    /// Least time between two interrupts, in picoseconds.
    pub interrupt_gap_ps: u64,
    /// True if frames that come in pass the stages in the opposite order: the stages lie on the path. Otherwise they pass them in the same one.
    pub is_mirrored: bool,
}

impl Default for CardModel {
    /// A card of today: 600 ns, 63 Gbit/s each way (eight lanes of PCIe 3), 512 descriptors, an interrupt each 20 µs at most.
    fn default() -> Self {
        Self {
            dma_ps: 600_000,
            dma_byte_ps: 127,
            receive_descriptors: 512,
            interrupt_gap_ps: 20_000_000,
            is_mirrored: true,
        }
    }
}

/// A memory or a bus inside the card, which stages share: bytes cross it one after another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedModel {
    /// The name in records.
    pub name: String,
    /// Time for each byte, in picoseconds.
    pub byte_ps: u64,
    /// Time from the end of a transfer until it is there, in picoseconds; others cross meanwhile.
    pub latency_ps: u64,
}

/// The number of the DMA engine from the host's memory among what stages share.
pub const DMA_OUT: usize = 0;
/// The number of the DMA engine to the host's memory.
pub const DMA_IN: usize = 1;
/// The names of both.
pub const DMA_NAMES: [&str; 2] = ["DMA out", "DMA in"];

/// A crossing of something that stages share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crossing {
    /// Its number: [`DMA_OUT`], [`DMA_IN`], then those of the card.
    pub shared: usize,
    /// The bytes that cross for each thousand bytes of the frame: 2000 if it is written and read.
    pub permille: u64,
}

/// A stage that frames pass inside the card.
#[derive(Clone, Debug, PartialEq)]
pub struct StageModel {
    /// The name in records.
    pub name: String,
    /// Frames that are served at a time: lanes of an engine, cores.
    pub lanes: usize,
    /// Frames of each direction that may wait: each has a queue, and who came first is served first. One that comes from the wire and finds its queue full is dropped; one that
    /// comes from the host waits in its ring until the queue has room.
    pub waiting_max: usize,
    /// The time of service of a frame, by its bytes.
    pub times: Times,
    /// Time from the end of the service to the next stage, in which the lane is free: a hop over the card.
    pub latency_ps: u64,
    /// Time for which a lane of the stage before rings this stage's doorbell for each frame; where there is none before, the frame alone takes it.
    pub doorbell_ps: u64,
    /// Shared memories and buses that a frame crosses before its service.
    pub crosses: Vec<Crossing>,
    /// The ports of TCP or UDP, at either end, whose frames pass the stage; all frames if none is named. Fragments, and packets whose IPv4 header has options,
    /// have no ports here.
    pub ports: Vec<u16>,
    /// The seed of times that vary.
    pub seed: u64,
}

impl StageModel {
    /// A stage with these times, one lane, a queue of 256, which all frames pass.
    pub fn new(name: impl Into<String>, times: Times) -> Self {
        Self {
            name: name.into(),
            lanes: 1,
            waiting_max: 256,
            times,
            latency_ps: 0,
            doorbell_ps: 0,
            crosses: Vec::new(),
            ports: Vec::new(),
            seed: 0,
        }
    }

    fn takes(&self, frame: &Frame) -> bool {
        self.ports.is_empty() || {
            let ports = frame.ipv4().and_then(|_| headers::ports(frame.head()));
            ports.is_some_and(|(from, to)| self.ports.contains(&from) || self.ports.contains(&to))
        }
    }
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
    random: SplitMix64,
    /// The time that frames waited for it, also those that it had no room for.
    waited_ps: u64,
    held_max: usize,
    /// Frames from the wire for which its queue had no room.
    refused: u64,
    /// The time at which the last frame of each direction left: frames of a direction keep their order.
    left_ps: [u64; 2],
    /// The frames of each direction that wait.
    waiting: [Waiting; 2],
    /// Frames from the host for which the queue had no room.
    held: VecDeque<Held>,
}

impl Stage {
    fn usage(&self) -> Usage {
        Usage {
            refused: self.refused,
            ..self.server.usage()
        }
    }

    /// The time at which a frame of this direction finds room; now, or the time at which the first that waits begins.
    fn room_ps(&mut self, way: Way, now_ps: u64) -> u64 {
        let free_ps = self.server.free_ps();
        let waiting = &mut self.waiting[way as usize];
        match free_ps > now_ps && waiting.count(now_ps) >= self.model.waiting_max {
            // Where nobody may wait, a lane has to be free.
            true => waiting.first_ps().unwrap_or(free_ps),
            false => now_ps,
        }
    }
}

/// A frame that a stage had no room for, and its step.
struct Held {
    frame: Box<Frame>,
    step: usize,
}

/// The steps of both ways.
fn steps(stages: &[Stage], is_mirrored: bool) -> [Vec<Step>; 2] {
    let of = |order: &mut dyn Iterator<Item = usize>| {
        let mut steps = Vec::new();
        for stage in order {
            let crosses = stages[stage].model.crosses.iter();
            steps.extend(crosses.map(|&crossing| Step::Cross(crossing, stage)));
            steps.push(Step::Serve(stage));
        }
        steps
    };
    let out = of(&mut (0..stages.len()));
    let into = match is_mirrored {
        true => of(&mut (0..stages.len()).rev()),
        false => out.clone(),
    };
    [out, into]
}

/// The way of a frame through the card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Out,
    In,
}

/// A step of a way.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Crossing what stages share, for a stage.
    Cross(Crossing, usize),
    /// The service of a stage.
    Serve(usize),
}

/// A frame on its way through the card, and the step that comes next: of its way, or behind the last.
struct Passing {
    frame: Box<Frame>,
    way: Way,
    step: usize,
}

/// Something that stages share.
struct Shared {
    model: SharedModel,
    server: Server,
}

impl Shared {
    fn new(model: SharedModel) -> Self {
        Self {
            model,
            server: Server::new(1, usize::MAX),
        }
    }
}

/// A network card.
#[allow(missing_debug_implementations)] // operators are anything
pub struct Card {
    model: CardModel,
    wire: Wire,
    stages: Vec<Stage>,
    protection: Option<Protection>,
    shared: Vec<Shared>,
    /// The steps of each way.
    steps: [Vec<Step>; 2],
    passing: Vec<Option<Passing>>,
    spare: Vec<usize>,
    descriptors: u32,
    news: Interrupt,
    /// The times at which frames have left, or will have, of which the host does not know yet.
    leaving_ps: VecDeque<u64>,
    interrupted_ps: Option<u64>,
    /// The time of the next interrupt, if one is to come.
    armed_ps: Option<u64>,
    usage: CardUsage,
    watch: Watch,
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
        let stages: Vec<Stage> = stages
            .into_iter()
            .map(|model| Stage {
                // The queues of both directions have the bounds.
                server: Server::new(model.lanes, usize::MAX),
                random: SplitMix64::new(model.seed),
                model,
                left_ps: [0; 2],
                waiting: Default::default(),
                held: VecDeque::new(),
                waited_ps: 0,
                held_max: 0,
                refused: 0,
            })
            .collect();
        let dma = DMA_NAMES.map(|name| {
            Shared::new(SharedModel {
                name: name.to_owned(),
                byte_ps: model.dma_byte_ps,
                latency_ps: model.dma_ps,
            })
        });
        Self {
            descriptors: model.receive_descriptors,
            steps: steps(&stages, model.is_mirrored),
            model,
            wire,
            stages,
            protection,
            shared: dma.into(),
            passing: Vec::new(),
            spare: Vec::new(),
            news: Interrupt::default(),
            leaving_ps: VecDeque::new(),
            interrupted_ps: None,
            armed_ps: None,
            usage: CardUsage::default(),
            watch: Watch::default(),
        }
    }

    /// Gives the card memories and buses that its stages share, behind its DMA engines.
    ///
    /// # Panics
    /// If a stage crosses one that there is not.
    #[must_use]
    pub fn sharing(mut self, shared: Vec<SharedModel>) -> Self {
        self.shared.extend(shared.into_iter().map(Shared::new));
        let crossings = self.stages.iter().flat_map(|it| &it.model.crosses);
        let highest = crossings.map(|it| it.shared).max();
        assert!(
            highest.is_none_or(|it| it < self.shared.len()),
            "each crossing has something to cross"
        );
        self
    }

    /// Lets observers see what the card does, and its wire.
    pub fn watch_by(&mut self, own: Watch, wire: Watch) {
        self.watch = own;
        self.wire.watch_by(wire);
    }

    /// Its observers: its own, and that of its wire.
    pub fn watches(&self) -> [&Watch; 2] {
        [&self.watch, self.wire.watch()]
    }

    /// Its parts, in the order of their places; the wire is the last.
    pub fn parts(&self) -> Vec<Part> {
        let shared = self.shared.iter();
        let shared = shared.map(|it| Part::server(Kind::Bus, &it.model.name, 1, it.server.usage()));
        let stages = self.stages.iter().map(|it| Part {
            waited_ps: it.waited_ps,
            waiting_max: it.server.usage().waiting_max + it.held_max,
            ..Part::server(Kind::Stage, &it.model.name, it.model.lanes, it.usage())
        });
        let bus = Part {
            dropped: self.usage.no_descriptor,
            ..Part::passive("bus and interrupts")
        };
        let wire = Part::wire("wire", self.wire.usage());
        shared.chain(stages).chain([bus, wire]).collect()
    }

    fn stage_part(&self, stage: usize) -> u16 {
        (self.shared.len() + stage) as u16
    }

    fn bus_part(&self) -> u16 {
        (self.shared.len() + self.stages.len()) as u16
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
        stages.map(|it| (it.model.name.as_str(), it.model.lanes, it.usage()))
    }

    /// The use of DMA from the host's memory, and to it.
    pub fn dma(&self) -> [Usage; 2] {
        [DMA_OUT, DMA_IN].map(|it| self.shared[it].server.usage())
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

    /// Moves a frame over something that is shared; says when it is there.
    #[inline]
    fn cross(&mut self, crossing: Crossing, now_ps: u64, frame: &mut Frame) -> u64 {
        let Shared { model, server } = &mut self.shared[crossing.shared];
        let bytes = match crossing.permille {
            // As DMA does: no division for each frame.
            1000 => frame.bytes() as u64,
            permille => (frame.bytes() as u64 * permille).div_ceil(1000),
        };
        // The queue has no bound.
        let served = server.serve(now_ps, bytes * model.byte_ps);
        let (begin_ps, end_ps) = served.map_or((now_ps, now_ps), |it| (it.begin_ps, it.end_ps));
        let end_ps = end_ps + model.latency_ps;
        let part = crossing.shared as u16;
        if begin_ps > now_ps {
            self.watch.waits(part, now_ps);
            self.watch.goes(part, begin_ps);
        }
        self.watch.pass(frame, part, Leg::DmaQueue, begin_ps);
        self.watch.pass(frame, part, Leg::Dma, end_ps);
        end_ps
    }

    fn transfer(&mut self, way: Way, now_ps: u64, frame: &mut Frame) -> u64 {
        let crossing = Crossing {
            shared: way as usize,
            permille: 1000,
        };
        self.cross(crossing, now_ps, frame)
    }

    fn arrive(&mut self, mut passing: Passing, context: &mut Context<'_, Message>) {
        let now_ps = context.now_ps();
        loop {
            let way = passing.way;
            match self.steps[way as usize].get(passing.step).copied() {
                None => return self.leave(passing.frame, way, context),
                Some(Step::Cross(_, stage) | Step::Serve(stage))
                    if !self.stages[stage].model.takes(&passing.frame) =>
                {
                    passing.step += 1;
                }
                Some(Step::Cross(crossing, _)) => {
                    passing.step += 1;
                    let there_ps = self.cross(crossing, now_ps, &mut passing.frame);
                    return self.pass_at(there_ps, passing, context);
                }
                Some(Step::Serve(stage)) => return self.serve(stage, passing, context),
            }
        }
    }

    /// Lets a stage serve a frame, if it has room.
    fn serve(&mut self, at: usize, passing: Passing, context: &mut Context<'_, Message>) {
        let now_ps = context.now_ps();
        let part = self.stage_part(at);
        let stage = &mut self.stages[at];
        let room_ps = stage.room_ps(passing.way, now_ps);
        let Passing { frame, way, step } = passing;
        match way {
            Way::In if room_ps > now_ps => {
                self.usage.stage_full += 1;
                stage.refused += 1;
                let reason = Reason::StageFull;
                self.watch.dropped(part, &frame, reason, now_ps);
            }
            Way::Out if room_ps > now_ps || !stage.held.is_empty() => {
                self.watch.waits(part, now_ps);
                if stage.held.is_empty() {
                    context.wake_at(room_ps, HELD - at as u64);
                }
                stage.held.push_back(Held { frame, step });
                stage.held_max = stage.held_max.max(stage.held.len());
            }
            _ => self.admit(at, Passing { frame, way, step }, context),
        }
    }

    /// Gives a frame to the lanes of a stage, which has room.
    fn admit(&mut self, at: usize, passing: Passing, context: &mut Context<'_, Message>) {
        let Passing {
            mut frame,
            way,
            step,
        } = passing;
        let now_ps = context.now_ps();
        let computes = at + 1 == self.stages.len();
        let bytes = match (&self.protection, computes, way) {
            (Some(protection), true, Way::In) => protection.bytes_to_verify(&mut frame),
            (Some(protection), true, Way::Out) if !protection.is_to_protect(&frame) => 0,
            _ => frame.bytes(),
        };
        let (before, behind) = self.doorbells(&frame, way, step, at);
        let part = self.stage_part(at);
        let stage = &mut self.stages[at];
        let cost_ps = match bytes {
            0 => 0,
            bytes => stage.model.times.cost_ps(bytes as u64, &mut stage.random) + behind,
        };
        // The server's own queue has no bound.
        let Some(served) = stage.server.serve(now_ps, cost_ps) else {
            return;
        };
        if served.begin_ps > now_ps {
            stage.waiting[way as usize].push(served.begin_ps);
        }
        let was_held = frame.journey.counted_ps() < now_ps;
        stage.waited_ps += served.begin_ps - frame.journey.counted_ps();
        if served.begin_ps > now_ps && !was_held {
            self.watch.waits(part, now_ps);
        }
        if served.begin_ps > now_ps || was_held {
            self.watch.goes(part, served.begin_ps);
        }
        let left_ps = &mut stage.left_ps[way as usize];
        *left_ps = served.end_ps.max(*left_ps);
        let end_ps = *left_ps + stage.model.latency_ps + before;
        self.watch
            .pass(&mut frame, part, Leg::EngineQueue, served.begin_ps);
        self.watch
            .pass(&mut frame, part, Leg::EngineWork, served.end_ps);
        self.watch.pass(&mut frame, part, Leg::Hop, end_ps);
        if computes {
            match self.compute(&mut frame, way, context.local()) {
                Ok(true) => {}
                Ok(false) => {
                    self.usage.refused += 1;
                    self.watch.dropped(part, &frame, Reason::Digest, now_ps);
                    return;
                }
                Err(wrong) => return context.fail(wrong),
            }
        }
        let step = step + 1;
        self.pass_at(end_ps, Passing { frame, way, step }, context);
    }

    /// The doorbells of a frame at a stage: its own, if nobody before rings it, and the one that the stage rings for the next.
    fn doorbells(&self, frame: &Frame, way: Way, step: usize, at: usize) -> (u64, u64) {
        let served = |step: &Step| match step {
            Step::Serve(stage) => {
                let model = &self.stages[*stage].model;
                model.takes(frame).then_some(model.doorbell_ps)
            }
            Step::Cross(..) => None,
        };
        let steps = &self.steps[way as usize];
        let own = match steps[..step].iter().find_map(served) {
            Some(_) => 0,
            None => self.stages[at].model.doorbell_ps,
        };
        let next = steps[step + 1..].iter().find_map(served);
        (own, next.unwrap_or(0))
    }

    /// Lets the frames that were kept for want of room go on, as many as there is room for.
    fn release(&mut self, at: usize, context: &mut Context<'_, Message>) {
        let now_ps = context.now_ps();
        let way = Way::Out;
        loop {
            let stage = &mut self.stages[at];
            if stage.held.is_empty() {
                return;
            }
            let room_ps = stage.room_ps(way, now_ps);
            if room_ps > now_ps {
                return context.wake_at(room_ps, HELD - at as u64);
            }
            if let Some(Held { frame, step }) = stage.held.pop_front() {
                self.admit(at, Passing { frame, way, step }, context);
            }
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
                let is_packet = frame.is_packet();
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
                let part = self.bus_part();
                let reason = Reason::NoDescriptor;
                self.watch.dropped(part, &frame, reason, now_ps);
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
        let gap_ps = self.model.interrupt_gap_ps;
        let earliest_ps = self.interrupted_ps.map_or(0, |last_ps| last_ps + gap_ps);
        let at_ps = at_ps.max(earliest_ps);
        if self.armed_ps.is_none_or(|armed_ps| at_ps < armed_ps) {
            self.armed_ps = Some(at_ps);
            context.wake_at(at_ps, INTERRUPT);
        }
    }

    fn interrupt(&mut self, context: &mut Context<'_, Message>) {
        let now_ps = context.now_ps();
        if self.armed_ps != Some(now_ps) {
            // A timer that was set before an earlier one took its place.
            return;
        }
        self.armed_ps = None;
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
        let there = there.take_while(|it| it.journey.counted_ps() <= now_ps);
        let later = self.news.frames.split_off(there.count());
        let mut news = std::mem::take(&mut self.news);
        self.news.frames = later;
        if !news.frames.is_empty() || news.sent > 0 {
            let part = self.bus_part();
            for frame in &mut news.frames {
                self.watch.pass(frame, part, Leg::Interrupt, now_ps);
            }
            self.usage.interrupts += 1;
            self.interrupted_ps = Some(now_ps);
            context.send(HOST, Message::Interrupt(Box::new(news)));
        }
        if let Some(next) = self.news.frames.first() {
            let there_ps = next.journey.counted_ps();
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
                self.watch
                    .pass(&mut frame, self.bus_part(), Leg::Bus, now_ps);
                let there_ps = self.transfer(Way::Out, now_ps, &mut frame);
                let passing = Passing {
                    frame,
                    way: Way::Out,
                    step: 0,
                };
                self.pass_at(there_ps, passing, context);
            }
            (HOST, Message::Refill(buffers)) => self.descriptors += buffers,
            (WIRE, Message::Frame(mut frame)) => {
                self.usage.received += 1;
                self.wire.watch().arrive(&mut frame, now_ps);
                let passing = Passing {
                    frame,
                    way: Way::In,
                    step: 0,
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
