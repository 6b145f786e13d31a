//! A host that is not modelled: its frames come from a real network stack and go to one. Its card is modelled, as any other's.
//!
//! The part stands between the card and the way out of the kernel. What a driver does is all that it does: it keeps descriptors in the card's ring, and gives
//! buffers back. The real host's time is the wall clock's, and costs nothing here.

use std::collections::VecDeque;

use crate::kernel::{Component, Context};

use super::frame::Frame;
use super::journey::Leg;
use super::ledger::Reason;
use super::message::Message;
use super::part::Part;
use super::watch::{Account, Watch};

/// The port towards the card.
pub const CARD: usize = 0;
/// The port towards the real host.
pub const OUT: usize = 1;
/// Descriptors of the card's ring.
const RING: u32 = 512;
/// Frames that wait for a descriptor: a queue of Linux's usual length.
const WAITING_MAX: usize = 1000;

/// Counters of a real host's part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RealUsage {
    /// Frames that came from the real host.
    pub sent: u64,
    /// The bytes of these frames.
    pub sent_bytes: u64,
    /// Frames of it that found neither a descriptor nor room to wait for one. They are among `sent`.
    pub dropped: u64,
    /// Frames that went to the real host.
    pub received: u64,
    /// The bytes of these frames.
    pub received_bytes: u64,
    /// The modelled time of these frames, by leg, in picoseconds.
    pub legs_ps: [u64; Leg::ALL.len()],
}

/// The part of a real host.
#[derive(Debug, Default)]
pub struct Real {
    in_ring: u32,
    waiting: VecDeque<Box<Frame>>,
    waiting_max: usize,
    waited_ps: u64,
    usage: RealUsage,
    account: Account,
    watch: Watch,
    keeps: bool,
}

impl Real {
    /// A part without frames.
    pub fn new() -> Self {
        Self::default()
    }

    /// Its counters so far.
    pub fn usage(&self) -> RealUsage {
        self.usage
    }

    /// Lets an observer see what the part does. With `keeps`, it keeps account of the way of frames to the real host.
    pub fn watch_by(&mut self, watch: Watch, keeps: bool) {
        self.watch = watch;
        self.keeps = keeps;
    }

    /// Its observer.
    pub fn watch(&self) -> &Watch {
        &self.watch
    }

    /// The modelled time of the frames that went to the real host, by part and cause; empty if no account is kept. Frames without payload count too, as
    /// nobody here knows what is in them.
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// Its parts, in the order of their places.
    pub fn parts(&self) -> Vec<Part> {
        vec![Part {
            jobs: self.usage.sent + self.usage.received,
            waited_ps: self.waited_ps,
            waiting_max: self.waiting_max,
            dropped: self.usage.dropped,
            ..Part::passive("driver")
        }]
    }

    /// Gives waiting frames to the card, as far as there are descriptors.
    fn send(&mut self, context: &mut Context<'_, Message>) {
        while self.in_ring < RING
            && let Some(mut frame) = self.waiting.pop_front()
        {
            self.in_ring += 1;
            let now_ps = context.now_ps();
            self.waited_ps += now_ps - frame.journey.counted_ps();
            self.watch.goes(0, now_ps);
            self.watch.pass(&mut frame, 0, Leg::HostQueue, now_ps);
            context.send(CARD, Message::Send(frame));
        }
    }
}

impl Component<Message> for Real {
    fn receive(&mut self, port: usize, message: Message, context: &mut Context<'_, Message>) {
        match (port, message) {
            (OUT, Message::Frame(mut frame)) => {
                let now_ps = context.now_ps();
                self.usage.sent += 1;
                self.usage.sent_bytes += frame.bytes() as u64;
                self.watch.begin(&mut frame);
                if self.waiting.len() < WAITING_MAX {
                    self.watch.waits(0, now_ps);
                    self.waiting.push_back(frame);
                } else {
                    self.usage.dropped += 1;
                    self.watch.dropped(0, &frame, Reason::NoDescriptor, now_ps);
                }
                self.send(context);
                self.waiting_max = self.waiting_max.max(self.waiting.len());
            }
            (CARD, Message::Interrupt(news)) => {
                self.in_ring = self.in_ring.saturating_sub(news.sent);
                context.send(CARD, Message::Refill(news.frames.len() as u32));
                let now_ps = context.now_ps();
                for mut frame in news.frames {
                    self.watch.pass(&mut frame, 0, Leg::Bus, now_ps);
                    self.usage.received += 1;
                    self.usage.received_bytes += frame.bytes() as u64;
                    for (sum_ps, leg) in self.usage.legs_ps.iter_mut().zip(Leg::ALL) {
                        *sum_ps += frame.journey.leg_ps(leg);
                    }
                    if self.keeps {
                        self.account.add(&frame, now_ps);
                    }
                    context.send(OUT, Message::Frame(frame));
                }
                self.send(context);
            }
            (port, message) => context.fail(format!("port {port} takes no {message:?}")),
        }
    }
}
