//! An Ethernet switch: it learns addresses, stores and forwards, and has a buffer that its ports share.

use std::collections::BTreeMap;

use crate::kernel::{Component, Context};

use super::frame::Frame;
use super::journey::Leg;
use super::ledger::Reason;
use super::message::Message;
use super::watch::Watch;
use super::wire::{Departure, Wire, WireUsage};

/// The parameters of a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchModel {
    /// Time from the last bit in to the earliest first bit out, in picoseconds.
    pub forward_ps: u64,
    /// Bytes of frames that are being forwarded or are in queues, of all ports together; a frame that does not fit is dropped.
    pub buffer_bytes: u64,
}

impl Default for SwitchModel {
    /// 500 ns, and 12 MiB: of the size of today's switches, no one of them.
    fn default() -> Self {
        Self {
            forward_ps: 500_000,
            buffer_bytes: 12 << 20,
        }
    }
}

/// Counters of a switch. Each frame that came in was dropped, or went out of one port, or of all others (`flooded`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SwitchUsage {
    /// Frames that came in.
    pub frames: u64,
    /// Frames whose destination was not known, or is a group: they went to all other ports.
    pub flooded: u64,
    /// Copies that the shared buffer had no room for.
    pub buffer_full: u64,
    /// Frames whose destination lies behind the port that they came from.
    pub turned_back: u64,
    /// The most bytes that were in the buffer.
    pub buffered_bytes_max: u64,
}

/// A switch.
#[derive(Debug)]
pub struct Switch {
    model: SwitchModel,
    wires: Vec<Wire>,
    addresses: BTreeMap<[u8; 6], usize>,
    /// The bytes in the queues of all wires, as each wire was when it was last looked at: as many as there are now, or more.
    held_bytes: u64,
    usage: SwitchUsage,
    watch: Watch,
}

impl Switch {
    /// A switch with these sending ends, one a port.
    pub fn new(model: SwitchModel, wires: Vec<Wire>) -> Self {
        Self {
            model,
            wires,
            addresses: BTreeMap::new(),
            held_bytes: 0,
            usage: SwitchUsage::default(),
            watch: Watch::default(),
        }
    }

    /// Lets the switch know what lies behind a port, as a packet of ARP would: a host that only takes datagrams sends nothing else that it could learn from.
    pub fn learn(&mut self, address: [u8; 6], port: usize) {
        self.addresses.insert(address, port);
    }

    /// Lets observers see what the switch does, and its wires in their order.
    pub fn watch_by(&mut self, own: Watch, wires: impl IntoIterator<Item = Watch>) {
        self.watch = own;
        for (wire, watch) in self.wires.iter_mut().zip(wires) {
            wire.watch_by(watch);
        }
    }

    /// Its observers: its own, and those of its wires.
    pub fn watches(&self) -> impl Iterator<Item = &Watch> {
        let wires = self.wires.iter().map(Wire::watch);
        std::iter::once(&self.watch).chain(wires)
    }

    /// Its counters so far.
    pub fn usage(&self) -> SwitchUsage {
        self.usage
    }

    /// The counters of what a port sends.
    pub fn wire_usage(&self, port: usize) -> Option<WireUsage> {
        self.wires.get(port).map(Wire::usage)
    }

    /// True if the buffer has room for so many bytes more. All wires are looked at only if the answer, or the most that was ever buffered, depends on what has left
    /// since they were last looked at.
    fn has_room(&mut self, now_ps: u64, bytes: u64) -> bool {
        let enough = self.usage.buffered_bytes_max.min(self.model.buffer_bytes);
        if self.held_bytes + bytes <= enough {
            return true;
        }
        let queues = self.wires.iter_mut();
        self.held_bytes = queues.map(|it| it.queued_bytes(now_ps)).sum();
        let queued_bytes = self.held_bytes + bytes;
        if queued_bytes > self.model.buffer_bytes {
            return false;
        }
        self.usage.buffered_bytes_max = self.usage.buffered_bytes_max.max(queued_bytes);
        true
    }

    /// Gives a frame to a port's wire, whose queue it comes to at `ready_ps`.
    fn enqueue(&mut self, port: usize, now_ps: u64, ready_ps: u64, frame: Box<Frame>) -> Departure {
        let wire = &mut self.wires[port];
        let others_bytes = self.held_bytes - wire.held_bytes();
        let departure = wire.send_ready(now_ps, ready_ps, frame);
        self.held_bytes = others_bytes + wire.held_bytes();
        departure
    }

    fn forward(&mut self, port: usize, message: Message, context: &mut Context<'_, Message>) {
        let Message::Frame(mut frame) = message else {
            return;
        };
        let now_ps = context.now_ps();
        if !self.has_room(now_ps, frame.bytes() as u64) {
            self.usage.buffer_full += 1;
            self.watch.dropped(0, &frame, Reason::BufferFull, now_ps);
            return;
        }
        let ready_ps = now_ps + self.model.forward_ps;
        self.watch.pass(&mut frame, 0, Leg::Switch, ready_ps);
        match self.enqueue(port, now_ps, ready_ps, frame) {
            Departure::Dropped => {}
            Departure::Sent { end_ps, frames } => {
                for frame in frames.into_iter().flatten() {
                    context.send_after(port, end_ps - now_ps, Message::Frame(frame));
                }
            }
        }
    }
}

impl Component<Message> for Switch {
    fn least_delay_ps(&self, port: usize) -> u64 {
        let wire = self.wires.get(port).map_or(0, |it| it.model().time_ps(0));
        self.model.forward_ps + wire
    }

    fn receive(&mut self, port: usize, message: Message, context: &mut Context<'_, Message>) {
        let Message::Frame(mut frame) = message else {
            return context.fail("a switch takes frames alone");
        };
        self.usage.frames += 1;
        let now_ps = context.now_ps();
        self.wires[port].watch().arrive(&mut frame, now_ps);
        let (source, destination) = (frame.source(), frame.destination());
        let is_group = |address: [u8; 6]| address[0] & 1 == 1;
        if !is_group(source) {
            self.addresses.insert(source, port);
        }
        let known = self.addresses.get(&destination).copied();
        match known.filter(|_| !is_group(destination)) {
            Some(out) if out == port => {
                self.usage.turned_back += 1;
                self.watch.dropped(0, &frame, Reason::TurnedBack, now_ps);
            }
            Some(out) => self.forward(out, Message::Frame(frame), context),
            None => {
                self.usage.flooded += 1;
                let others = self.wires.len() as u64 - 1;
                self.watch.copied(&frame, others.saturating_sub(1));
                if others == 0 {
                    self.watch.dropped(0, &frame, Reason::TurnedBack, now_ps);
                }
                for out in (0..self.wires.len()).filter(|&out| out != port) {
                    self.forward(out, Message::Frame(frame.clone()), context);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::wire::WireModel;
    use super::*;
    use crate::system::Stream;
    use proptest::prelude::*;

    proptest! {
        /// Beside a list of all frames that came, and when their last bits leave.
        #[test]
        fn the_buffer_holds_what_has_not_left(
            frames in prop::collection::vec((0usize..5, 60u32..1600, 0u64..2_000_000), 1..300),
            buffer_bytes in 1000u64..30_000,
            forward_ps in prop_oneof![Just(0), 0u64..20_000_000],
        ) {
            let models = (0..5).map(|port| {
                // Slow and fast ones, of which some drop by themselves.
                WireModel {
                    rate_bps: 1_000_000_000 << port,
                    queue_bytes: 4000 << port,
                    ..WireModel::default()
                }
            });
            let models = Vec::from_iter(models);
            let wires = models.iter().map(|it| Wire::new(it.clone(), 0)).collect();
            let mut switch = Switch::new(SwitchModel { buffer_bytes, forward_ps }, wires);
            // By frame: port, end, bytes.
            let mut sent: Vec<(usize, u64, u64)> = Vec::new();
            let (mut now_ps, mut max) = (0, 0);
            for (port, bytes, after_ps) in frames {
                now_ps += after_ps;
                let bytes_there = u64::from(bytes);
                let there = sent.iter().filter(|it| it.1 > now_ps).map(|it| it.2);
                let expected = there.sum::<u64>() + bytes_there;
                let has_room = switch.has_room(now_ps, bytes_there);
                prop_assert_eq!(has_room, expected <= buffer_bytes);
                if has_room {
                    max = expected.max(max);
                    let stream = Stream { seed: 0, offset: 0 };
                    let frame = Frame::new(&[0; 14], stream, bytes - 14, now_ps);
                    let ready_ps = now_ps + forward_ps;
                    let waits = sent.iter().filter(|it| it.0 == port && it.1 > ready_ps);
                    let queued: u64 = waits.map(|it| it.2).sum();
                    let fits = queued + bytes_there <= models[port].queue_bytes;
                    match switch.enqueue(port, now_ps, ready_ps, frame) {
                        Departure::Sent { end_ps, .. } => {
                            prop_assert!(fits);
                            sent.push((port, end_ps, bytes_there));
                        }
                        Departure::Dropped => prop_assert!(!fits),
                    }
                }
                prop_assert_eq!(switch.usage.buffered_bytes_max, max);
            }
        }
    }
}
