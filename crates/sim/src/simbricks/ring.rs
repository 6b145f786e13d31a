//! A ring of slots, from its two ends. Positions are each end's own.

use super::message::{CONSUMER_OWNS, Header, LENGTH_WORD, TIMESTAMP_WORD};
use super::raw::Slots;

/// The end that sends.
#[derive(Debug)]
pub(super) struct Producer {
    slots: Slots,
    position: usize,
}

impl Producer {
    pub(super) fn new(slots: Slots) -> Self {
        Self { slots, position: 0 }
    }

    /// Bytes of the longest frame.
    pub(super) fn frame_bytes_max(&self) -> usize {
        self.slots.frame_bytes_max()
    }

    /// Sends a message with its frame, which must not be longer than [`frame_bytes_max`](Self::frame_bytes_max); false if the
    /// ring is full.
    pub(super) fn push(&mut self, header: Header, frame: &[u8]) -> bool {
        let slot = self.position;
        if self.slots.own_type(slot) & CONSUMER_OWNS != 0 {
            return false;
        }
        let length = header.length_word();
        self.slots.set_header_word(slot, LENGTH_WORD, length);
        let timestamp = header.timestamp_ps;
        self.slots.set_header_word(slot, TIMESTAMP_WORD, timestamp);
        self.slots.write_frame(slot, frame);
        self.slots.give(slot, header.message_type | CONSUMER_OWNS);
        self.position = next(slot, &self.slots);
        true
    }
}

/// The end that receives.
#[derive(Debug)]
pub(super) struct Consumer {
    slots: Slots,
    position: usize,
}

impl Consumer {
    pub(super) fn new(slots: Slots) -> Self {
        Self { slots, position: 0 }
    }

    /// Slots of the ring.
    pub(super) fn entries(&self) -> usize {
        self.slots.entries()
    }

    /// Bytes of the longest frame that a slot holds.
    pub(super) fn frame_bytes_max(&self) -> usize {
        self.slots.frame_bytes_max()
    }

    /// The slot of the next message.
    pub(super) fn position(&self) -> usize {
        self.position
    }

    /// The next message's header, each field read once. `None` if there is none yet.
    pub(super) fn peek(&self) -> Option<Header> {
        let slot = self.position;
        let own_type = self.slots.own_type(slot);
        if own_type & CONSUMER_OWNS == 0 {
            return None;
        }
        Some(Header {
            message_type: own_type & !CONSUMER_OWNS,
            timestamp_ps: self.slots.header_word(slot, TIMESTAMP_WORD),
            frame_bytes: Header::length_of(self.slots.header_word(slot, LENGTH_WORD)),
        })
    }

    /// Copies the start of the next message's frame, which must not be longer than a slot's.
    pub(super) fn copy_frame(&self, frame: &mut [u8]) {
        self.slots.copy_frame(self.position, frame);
    }

    /// Gives the next message's slot back, with the type that it had.
    pub(super) fn pop(&mut self, message_type: u8) {
        let slot = self.position;
        self.slots.give(slot, message_type & !CONSUMER_OWNS);
        self.position = next(slot, &self.slots);
    }
}

/// The slot behind `slot`.
fn next(slot: usize, slots: &Slots) -> usize {
    if slot + 1 == slots.entries() {
        0
    } else {
        slot + 1
    }
}
