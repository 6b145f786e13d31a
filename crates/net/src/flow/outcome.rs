//! The ways in which a table says what came of a packet: with flows that begin, with some that may not, with none that do.

use super::{Found, Slot};

/// The outcome for a packet.
pub(super) trait Outcome: Copy {
    /// True if a packet without a flow begins one.
    const BEGINS: bool;
    /// That of a packet that has no flow and begins none.
    const NONE: Self;
    /// That of a packet for whose flow there is no room.
    const FULL: Self;
    fn known(slot: Slot) -> Self;
    fn new(slot: Slot) -> Self;
}

impl Outcome for Found {
    const BEGINS: bool = true;
    const NONE: Self = Self::Full;
    const FULL: Self = Self::Full;

    #[inline(always)]
    fn known(slot: Slot) -> Self {
        Self::Known(slot)
    }

    #[inline(always)]
    fn new(slot: Slot) -> Self {
        Self::New(slot)
    }
}

impl Outcome for Option<Found> {
    const BEGINS: bool = true;
    const NONE: Self = None;
    const FULL: Self = Some(Found::Full);

    #[inline(always)]
    fn known(slot: Slot) -> Self {
        Some(Found::Known(slot))
    }

    #[inline(always)]
    fn new(slot: Slot) -> Self {
        Some(Found::New(slot))
    }
}

impl Outcome for Option<Slot> {
    const BEGINS: bool = false;
    const NONE: Self = None;
    const FULL: Self = None;

    #[inline(always)]
    fn known(slot: Slot) -> Self {
        Some(slot)
    }

    #[inline(always)]
    fn new(slot: Slot) -> Self {
        Some(slot)
    }
}
