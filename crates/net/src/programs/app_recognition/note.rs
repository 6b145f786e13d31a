//! What later stages have to know of a packet: [`Note`].

use super::Action;
use crate::packet::Places;
use crate::pipeline::Mark;

/// What later stages have to know of a packet, as its mark holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Note {
    pub(super) action: Action,
    /// Where the payload of the transport lies in the frame.
    pub(super) payload: u32,
    pub(super) payload_bytes: u32,
}

const ACTION_BITS: u32 = 3;
const PLACE_BITS: u32 = 13;
const BYTES_BITS: u32 = 16;

impl Note {
    pub(super) fn of(mark: &Mark) -> Self {
        let value = mark.value;
        Self {
            action: Action::of(value & ((1 << ACTION_BITS) - 1)),
            payload: value >> ACTION_BITS & ((1 << PLACE_BITS) - 1),
            payload_bytes: value >> (ACTION_BITS + PLACE_BITS),
        }
    }

    /// A payload that lies too far behind is none.
    pub(super) fn new(action: Action, places: Places) -> Self {
        let (payload, bytes) = (u32::from(places.payload), u32::from(places.payload_bytes));
        let is_near = payload < 1 << PLACE_BITS;
        Self {
            action,
            payload: if is_near { payload } else { 0 },
            payload_bytes: if is_near { bytes } else { 0 },
        }
    }

    pub(super) fn value(self) -> u32 {
        const { assert!(ACTION_BITS + PLACE_BITS + BYTES_BITS == u32::BITS) };
        self.action as u32
            | self.payload << ACTION_BITS
            | self.payload_bytes << (ACTION_BITS + PLACE_BITS)
    }
}
