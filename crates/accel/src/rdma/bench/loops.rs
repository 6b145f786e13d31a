//! What is timed: perftest's loops.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::{
    Bandwidth, Figures, Latency, MeasurementFailure, MeasurementPlan, Method, RECEIVES, Verb,
};
use crate::rdma::raw::requests::{Kind, Request, RequestQueue};
use crate::rdma::raw::{Completion, CompletionQueue, Window};

/// The time for which nothing may happen.
const PATIENCE: Duration = Duration::from_secs(10);
/// Looks between two looks at the clock.
const LOOKS: u32 = 1 << 12;

/// The parts of the window: one to send from for each queue pair, then one to receive into for each.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stage {
    queue_pairs: usize,
    part_bytes: usize,
    page_bytes: usize,
    line_bytes: usize,
}

impl Stage {
    /// The stage for the longest message; no part has less than a page.
    pub(super) fn new(plan: &MeasurementPlan, page_bytes: u32, line_bytes: u32) -> Self {
        let (page_bytes, line_bytes) = (page_bytes as usize, line_bytes as usize);
        let part_bytes = (plan.size_max() as usize).max(page_bytes);
        Self {
            queue_pairs: plan.queue_pairs as usize,
            part_bytes: part_bytes.next_multiple_of(line_bytes),
            page_bytes,
            line_bytes,
        }
    }

    pub(super) fn window_bytes(&self) -> usize {
        2 * self.queue_pairs * self.part_bytes
    }

    pub(super) fn send_offset(&self, lane: usize) -> usize {
        lane * self.part_bytes
    }

    pub(super) fn receive_offset(&self, lane: usize) -> usize {
        (self.queue_pairs + lane) * self.part_bytes
    }

    /// Short messages take turns in a page, a cache line or more apart; where in its part message `number` lies.
    fn turn(&self, size: u32, number: u64) -> usize {
        let step = (size as usize).next_multiple_of(self.line_bytes);
        match size as usize <= self.page_bytes / 2 {
            true => (number % (self.page_bytes / step).max(1) as u64) as usize * step,
            false => 0,
        }
    }
}

/// Everything that a loop needs, made before.
pub(super) struct Loops {
    stage: Stage,
    // Queue pairs go before what they use.
    pub(super) lanes: Vec<RequestQueue>,
    window: Arc<Window>,
    completions: [Arc<CompletionQueue>; 2],
    /// The address and key of the peer's part for each queue pair.
    pub(super) remotes: Vec<(u64, u32)>,
    kind: Kind,
    inline_bytes: u32,
    clock: Instant,
}

impl Loops {
    pub(super) fn new(
        plan: &MeasurementPlan,
        stage: Stage,
        window: Arc<Window>,
        completions: [Arc<CompletionQueue>; 2],
        mut lanes: Vec<RequestQueue>,
    ) -> Self {
        let granted = lanes
            .iter_mut()
            .map(|lane| lane.queue_pair().inline_bytes());
        let inline_bytes = granted.min().unwrap_or(0).min(plan.inline_bytes);
        Self {
            stage,
            lanes,
            window,
            completions,
            remotes: Vec::new(),
            kind: match plan.verb {
                Verb::Read => Kind::Read,
                Verb::Write => Kind::Write,
                Verb::Send => Kind::Send,
            },
            inline_bytes,
            clock: Instant::now(),
        }
    }

    /// This side's part in messages of `size`; `None` if it has nothing to say.
    pub(super) fn measure(
        &mut self,
        plan: &MeasurementPlan,
        is_client: bool,
        size: u32,
    ) -> Result<Option<Figures>, MeasurementFailure> {
        let latency = |stamps: Vec<u64>, ways| Figures::Latency(Latency::between(&stamps, ways));
        let count = plan.iterations;
        Ok(match (plan.method, plan.verb, is_client) {
            (Method::Latency, Verb::Read, true) => Some(latency(self.read(size, count)?, 1.0)),
            (Method::Latency, Verb::Write, _) => {
                Some(latency(self.write(size, count, is_client)?, 2.0))
            }
            (Method::Latency, Verb::Send, _) => {
                Some(latency(self.send(size, count, is_client)?, 2.0))
            }
            (Method::Bandwidth, _, true) => Some(Figures::Bandwidth(self.stream(plan, size)?)),
            (Method::Bandwidth, Verb::Send, false) => {
                Some(Figures::Bandwidth(self.receive(plan, size)?))
            }
            _ => None,
        })
    }

    /// Reads, one at a time.
    fn read(&mut self, size: u32, count: u32) -> Result<Vec<u64>, MeasurementFailure> {
        let mut stamps = Vec::with_capacity(count as usize);
        let request = self.request(0, size);
        for _ in 0..count {
            stamps.push(self.now());
            self.lanes[0].post([request].into_iter())?;
            self.sent()?;
        }
        Ok(stamps)
    }

    /// Writes to and fro: the last byte of a message counts up, and who sees it answers. The server begins.
    fn write(
        &mut self,
        size: u32,
        count: u32,
        is_client: bool,
    ) -> Result<Vec<u64>, MeasurementFailure> {
        let mut stamps = Vec::with_capacity(count as usize);
        let request = self.request(0, size);
        let last = size as usize - 1;
        let (to_send, to_see) = (
            self.stage.send_offset(0) + last,
            self.stage.receive_offset(0) + last,
        );
        for number in 1..=count {
            if is_client || number > 1 {
                let expected = if is_client { number } else { number - 1 };
                self.seen(to_see, expected as u8)?;
            }
            stamps.push(self.now());
            self.window
                .byte(to_send)
                .store(number as u8, Ordering::Release);
            self.lanes[0].post([request].into_iter())?;
            self.sent()?;
        }
        if !is_client {
            self.seen(to_see, count as u8)?;
        }
        Ok(stamps)
    }

    /// Messages to and fro. The client begins.
    fn send(
        &mut self,
        size: u32,
        count: u32,
        is_client: bool,
    ) -> Result<Vec<u64>, MeasurementFailure> {
        let mut stamps = Vec::with_capacity(count as usize);
        let request = self.request(0, size);
        for number in 1..=count {
            if !is_client || number > 1 {
                let received = if is_client { number - 1 } else { number };
                self.received(size, received, count)?;
            }
            stamps.push(self.now());
            self.lanes[0].post([request].into_iter())?;
            self.sent()?;
        }
        if is_client {
            self.received(size, count, count)?;
        }
        Ok(stamps)
    }

    /// Keeps every queue pair as full as the plan says.
    fn stream(
        &mut self,
        plan: &MeasurementPlan,
        size: u32,
    ) -> Result<Bandwidth, MeasurementFailure> {
        let count = u64::from(plan.iterations);
        let every = u64::from(plan.signal_every());
        let total = count * self.lanes.len() as u64;
        let mut posted_ns = Vec::with_capacity(total as usize);
        let mut completed_ns = Vec::with_capacity(total.div_ceil(every) as usize);
        let mut posted = vec![0; self.lanes.len()];
        let mut done = vec![0; self.lanes.len()];
        let mut done_total = 0;
        let mut patience = Patience::new("completed");
        let mut completions = [Completion::default(); 16];
        while done_total < total {
            for i in 0..self.lanes.len() {
                let mut chain = u64::from(plan.chain).min(count - posted[i]);
                while chain > 0 && posted[i] - done[i] + chain <= u64::from(plan.depth) {
                    let base = self.request(i, size);
                    let stage = self.stage;
                    let requests = (posted[i]..posted[i] + chain).map(|number| {
                        let turn = stage.turn(size, number);
                        Request {
                            id: i as u64,
                            offset: base.offset + turn,
                            // The peer chose where its memory begins; its own device refuses what lies elsewhere.
                            remote: (base.remote.0.wrapping_add(turn as u64), base.remote.1),
                            is_signalled: (number + 1) % every == 0 || number + 1 == count,
                            ..base
                        }
                    });
                    let now = self.now();
                    posted_ns.extend((0..chain).map(|_| now));
                    self.lanes[i].post(requests)?;
                    posted[i] += chain;
                    chain = chain.min(count - posted[i]);
                }
            }
            let taken = self.completions[0].poll(&mut completions)?;
            patience.step(taken > 0)?;
            for completion in &completions[..taken] {
                self.check(completion)?;
                let i = completion.id() as usize;
                // Completions of a queue pair come in order: the next that was signalled.
                let next = ((done[i] / every + 1) * every).min(count);
                done_total += next - done[i];
                done[i] = next;
                completed_ns.push((done_total, self.now()));
            }
        }
        Ok(Bandwidth {
            size_bytes: size,
            posted_ns,
            completed_ns,
        })
    }

    /// Receives what the peer streams. The first message starts the clock, and is not counted.
    fn receive(
        &mut self,
        plan: &MeasurementPlan,
        size: u32,
    ) -> Result<Bandwidth, MeasurementFailure> {
        let count = u64::from(plan.iterations);
        let total = count * self.lanes.len() as u64;
        let mut received = vec![0; self.lanes.len()];
        let mut received_total = 0;
        let mut first_ns = None;
        let mut completed_ns = Vec::with_capacity(total as usize);
        let mut patience = Patience::new("arrived");
        let mut completions = [Completion::default(); 16];
        while received_total < total {
            let taken = self.completions[1].poll(&mut completions)?;
            patience.step(taken > 0)?;
            for completion in &completions[..taken] {
                self.check_received(completion, size)?;
                let i = completion.id() as usize;
                let ahead = u64::from(RECEIVES.min(plan.iterations));
                if received[i] + ahead < count {
                    let turn = self.stage.turn(size, received[i] + ahead);
                    let offset = self.stage.receive_offset(i) + turn;
                    self.lanes[i].post_receive(i as u64, offset, size)?;
                }
                received[i] += 1;
                received_total += 1;
                match first_ns {
                    None => first_ns = Some(self.now()),
                    Some(_) => completed_ns.push((received_total - 1, self.now())),
                }
            }
        }
        Ok(Bandwidth {
            size_bytes: size,
            posted_ns: first_ns.into_iter().collect(),
            completed_ns,
        })
    }

    /// Receives for messages of `size`, ahead of the first.
    pub(super) fn post_receives(
        &mut self,
        size: u32,
        iterations: u32,
    ) -> Result<(), MeasurementFailure> {
        for (i, lane) in self.lanes.iter_mut().enumerate() {
            for number in 0..RECEIVES.min(iterations) {
                let turn = self.stage.turn(size, number.into());
                lane.post_receive(i as u64, self.stage.receive_offset(i) + turn, size)?;
            }
        }
        Ok(())
    }

    /// The first message of a queue pair, signalled.
    fn request(&self, lane: usize, size: u32) -> Request {
        Request {
            kind: self.kind,
            id: lane as u64,
            offset: self.stage.send_offset(lane),
            len: size,
            remote: self.remotes[lane],
            is_inline: self.kind != Kind::Read && size <= self.inline_bytes,
            is_signalled: true,
        }
    }

    fn now(&self) -> u64 {
        self.clock.elapsed().as_nanos() as u64
    }

    /// Waits until the request in flight is done.
    #[inline]
    fn sent(&self) -> Result<(), MeasurementFailure> {
        let completion = self.next(0, "completed")?;
        self.check(&completion)
    }

    /// Waits for message `number` of `count`, and posts another receive if there will be one for it.
    #[inline]
    fn received(&mut self, size: u32, number: u32, count: u32) -> Result<(), MeasurementFailure> {
        let completion = self.next(1, "arrived")?;
        self.check_received(&completion, size)?;
        if number + RECEIVES <= count {
            let offset = self.stage.receive_offset(0);
            self.lanes[0].post_receive(0, offset, size)?;
        }
        Ok(())
    }

    /// Waits until the peer has written `expected` at `offset`.
    #[inline]
    fn seen(&self, offset: usize, expected: u8) -> Result<(), MeasurementFailure> {
        let byte = self.window.byte(offset);
        let mut patience = Patience::new("was written by the peer");
        while byte.load(Ordering::Acquire) != expected {
            patience.step(false)?;
        }
        Ok(())
    }

    #[inline]
    fn next(&self, queue: usize, what: &'static str) -> Result<Completion, MeasurementFailure> {
        let mut patience = Patience::new(what);
        let mut completion = [Completion::default()];
        while self.completions[queue].poll(&mut completion)? == 0 {
            patience.step(false)?;
        }
        Ok(completion[0])
    }

    #[inline]
    fn check(&self, completion: &Completion) -> Result<(), MeasurementFailure> {
        match completion.failure() {
            None => Ok(()),
            Some(status) => Err(MeasurementFailure::Broken(format!(
                "a request failed: {} (status {status}, the device's code {:#x})",
                super::super::status_text(status).unwrap_or_default(),
                completion.vendor_code()
            ))),
        }
    }

    #[inline]
    fn check_received(&self, completion: &Completion, size: u32) -> Result<(), MeasurementFailure> {
        self.check(completion)?;
        match completion.bytes() {
            bytes if bytes == size => Ok(()),
            bytes => Err(MeasurementFailure::Broken(format!(
                "a message of {bytes} bytes arrived where {size} were agreed on"
            ))),
        }
    }
}

/// Ends a wait that leads nowhere. Looks at the clock now and then only.
struct Patience {
    what: &'static str,
    looks: u32,
    since: Option<Instant>,
}

impl Patience {
    fn new(what: &'static str) -> Self {
        Self {
            what,
            looks: 0,
            since: None,
        }
    }

    /// After a look that found something, or did not.
    #[inline]
    fn step(&mut self, found: bool) -> Result<(), MeasurementFailure> {
        if found {
            (self.looks, self.since) = (0, None);
            return Ok(());
        }
        self.looks += 1;
        if self.looks < LOOKS {
            return Ok(());
        }
        self.looks = 0;
        match self.since.get_or_insert_with(Instant::now).elapsed() > PATIENCE {
            false => Ok(()),
            true => Err(MeasurementFailure::Broken(format!(
                "nothing {} for {} seconds: is the peer still there, with the same options?",
                self.what,
                PATIENCE.as_secs()
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_messages_take_turns_in_a_page() {
        let plan = MeasurementPlan::new(
            "d",
            Method::Bandwidth,
            Verb::Write,
            vec![2, 100, 2048, 1 << 20],
        );
        let stage = Stage::new(&plan, 4096, 64);
        assert_eq!(stage.window_bytes(), 2 << 20);
        let turns = |size| [0, 1, 31, 63, 64].map(|number| stage.turn(size, number));
        assert_eq!(turns(2), [0, 64, 31 * 64, 63 * 64, 0]);
        assert_eq!(turns(100), [0, 128, 31 * 128, 31 * 128, 0]);
        assert_eq!(turns(2048), [0, 2048, 2048, 2048, 0]);
        assert_eq!(turns(4096), [0; 5]);
        // Lines that are longer than pages leave no room for turns.
        assert_eq!(Stage::new(&plan, 4096, 8192).turn(2, 7), 0);
        for &size in &plan.sizes {
            let ends = (0..200).map(|number| stage.turn(size, number) + size as usize);
            assert!(ends.max() <= Some(stage.receive_offset(0)));
        }
    }

    #[test]
    fn patience_ends() {
        let mut patience = Patience::new("arrived");
        patience.since = Some(Instant::now() - PATIENCE - Duration::from_secs(1));
        let looks = (0..2 * LOOKS).map(|_| patience.step(false));
        let why = looks
            .filter_map(Result::err)
            .next()
            .expect("it ends")
            .to_string();
        assert!(why.contains("nothing arrived"), "{why}");
        patience.since = Some(Instant::now() - PATIENCE - Duration::from_secs(1));
        patience.step(true).expect("something came");
        assert!((0..2 * LOOKS).all(|_| patience.step(false).is_ok()));
    }
}
