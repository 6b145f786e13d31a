//! An Ethernet switch: it learns addresses, stores and forwards, and has a buffer that its ports share.

use std::collections::BTreeMap;

use crate::kernel::{Component, Context};

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
    /// Bytes of frames in all queues together; a frame that does not fit is dropped.
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
            usage: SwitchUsage::default(),
            watch: Watch::default(),
        }
    }

    /// Lets the switch know what lies behind a port, as a packet of ARP would.
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

    fn forward(&mut self, port: usize, message: Message, context: &mut Context<'_, Message>) {
        let Message::Frame(mut frame) = message else {
            return;
        };
        let now_ps = context.now_ps();
        let queued_bytes: u64 = self
            .wires
            .iter_mut()
            .map(|it| it.queued_bytes(now_ps))
            .sum();
        let queued_bytes = queued_bytes + frame.bytes() as u64;
        if queued_bytes > self.model.buffer_bytes {
            self.usage.buffer_full += 1;
            self.watch.dropped(0, &frame, Reason::BufferFull, now_ps);
            return;
        }
        self.usage.buffered_bytes_max = self.usage.buffered_bytes_max.max(queued_bytes);
        let ready_ps = now_ps + self.model.forward_ps;
        self.watch.pass(&mut frame, 0, Leg::Switch, ready_ps);
        match self.wires[port].send(ready_ps, frame) {
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
