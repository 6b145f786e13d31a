//! What is known of a flow, and of a packet of it.

use dpb_core::packet::TCP;

use super::{Direction, Flags, Key, State};

/// What is known of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Flow<const N: usize> {
    pub(super) key: Key<N>,
    /// Packets of [`Direction::Up`] and of [`Direction::Down`].
    packets: [u64; 2],
    bytes: [u64; 2],
    first_ms: u32,
    last_ms: u32,
    number: u32,
    /// Of its [`State`].
    state: u8,
    initiator: Direction,
}

impl<const N: usize> Flow<N> {
    pub(super) const NONE: Self = Self {
        key: Key([0; N]),
        packets: [0; 2],
        bytes: [0; 2],
        first_ms: 0,
        last_ms: 0,
        number: 0,
        state: State::Datagrams as u8,
        initiator: Direction::Up,
    };

    /// Its key.
    pub fn key(&self) -> Key<N> {
        self.key
    }

    /// Its slot, which is its own as long as it lives.
    pub fn slot(&self) -> Slot {
        Slot(self.number)
    }

    /// Packets in this direction.
    pub fn packets(&self, direction: Direction) -> u64 {
        self.packets[direction as usize]
    }

    /// Bytes of those, as they were given with each packet.
    pub fn bytes(&self, direction: Direction) -> u64 {
        self.bytes[direction as usize]
    }

    /// The time of the first packet and of the last one.
    pub fn seen_ms(&self) -> (u32, u32) {
        (self.first_ms, self.last_ms)
    }

    /// How far it has come.
    pub fn state(&self) -> State {
        State::of(self.state)
    }

    /// The direction of the side that began.
    pub fn initiator(&self) -> Direction {
        self.initiator
    }

    #[inline(always)]
    pub(super) fn is_none(&self) -> bool {
        // No key of a packet has zero as its last word.
        self.key.0[N - 1] == 0
    }

    /// The flow that `packet` begins.
    pub(super) fn begun(packet: &Seen<N>, number: u32, now_ms: u32) -> Self {
        let (state, is_by_initiator) = State::first(packet.key.protocol(), packet.flags);
        let mut flow = Self {
            key: packet.key,
            first_ms: now_ms,
            last_ms: now_ms,
            number,
            state: state as u8,
            initiator: match is_by_initiator {
                true => packet.direction,
                false => packet.direction.reverse(),
            },
            ..Self::NONE
        };
        flow.packets[packet.direction as usize] = 1;
        flow.bytes[packet.direction as usize] = u64::from(packet.bytes);
        flow
    }

    /// A flow that `initiator` has begun unseen.
    pub(super) fn put(key: Key<N>, initiator: Direction, number: u32, now_ms: u32) -> Self {
        let flags = (key.protocol() == TCP).then_some(Flags::ACK);
        let (state, _) = State::first(key.protocol(), flags);
        Self {
            key,
            first_ms: now_ms,
            last_ms: now_ms,
            number,
            state: state as u8,
            initiator,
            ..Self::NONE
        }
    }

    /// Counts `packet`, which has the flow's key, unless the flow is over before it: then false.
    #[inline(always)]
    pub(super) fn count(&mut self, packet: &Seen<N>, limits: &Limits, now_ms: u32) -> bool {
        let is_by_initiator = packet.direction == self.initiator;
        let next = State::number_after(self.state, packet.flags, is_by_initiator);
        if self.is_over(limits, now_ms) || next == State::BEGINS {
            return false;
        }
        self.state = next;
        self.last_ms = now_ms;
        self.packets[packet.direction as usize] += 1;
        self.bytes[packet.direction as usize] += u64::from(packet.bytes);
        true
    }

    /// Adds what was counted elsewhere.
    pub(super) fn add(&mut self, extra: &Extra) {
        for (i, (packets, bytes)) in extra.counted().into_iter().enumerate() {
            self.packets[i] += packets;
            self.bytes[i] += bytes;
        }
        if !extra.is_nothing() && extra.last_ms.wrapping_sub(self.last_ms) <= u32::MAX / 2 {
            self.last_ms = extra.last_ms;
        }
    }

    /// True if the flow is over.
    #[inline(always)]
    pub(super) fn is_over(&self, limits: &Limits, now_ms: u32) -> bool {
        now_ms.wrapping_sub(self.last_ms) > limits[usize::from(self.state) % State::NUMBERS]
    }
}

/// Packets that were counted apart from their flow.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Extra {
    packets: [u64; 2],
    bytes: [u64; 2],
    last_ms: u32,
}

impl Extra {
    pub(super) fn count(&mut self, direction: Direction, bytes: u32, now_ms: u32) {
        self.packets[direction as usize] += 1;
        self.bytes[direction as usize] += u64::from(bytes);
        self.last_ms = now_ms;
    }

    pub(super) fn is_nothing(&self) -> bool {
        self.packets == [0; 2]
    }

    /// Packets and bytes of each direction.
    pub(super) fn counted(&self) -> [(u64, u64); 2] {
        [0, 1].map(|i| (self.packets[i], self.bytes[i]))
    }
}

/// Timeouts by the numbers of states, in milliseconds.
pub(super) type Limits = [u32; State::NUMBERS];

/// A packet, as a table sees it.
#[derive(Clone, Copy, Debug)]
pub struct Seen<const N: usize> {
    /// The flow that it is part of.
    pub key: Key<N>,
    /// Its direction there.
    pub direction: Direction,
    /// Its bytes, by the measure that the caller chose.
    pub bytes: u32,
    /// Of TCP, its flags.
    pub flags: Option<Flags>,
}

/// The place of a flow, from its first packet to its end. Another flow may have it afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot(pub(crate) u32);

impl Slot {
    /// A number below [`Table::capacity`](super::Table::capacity): whoever knows more of flows keeps it in an array of this length.
    pub fn number(self) -> usize {
        self.0 as usize
    }
}

/// What came of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// It is part of a flow that is known.
    Known(Slot),
    /// It is the first of a flow.
    New(Slot),
    /// It would be, and there is no room. It is counted as refused.
    Full,
}

/// What a table counted. Packets of live flows, of ended ones, refused and missed ones are all that were offered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Packets that were offered.
    pub offered: u64,
    /// Packets without a flow, as the table was full.
    pub refused: u64,
    /// Packets that were counted at no flow, as they were to begin none ([`Table::known`](super::Table::known), [`Table::burst_if`](super::Table::burst_if)).
    pub missed: u64,
    /// Flows that began.
    pub began: u64,
    /// Flows that ended.
    pub ended: u64,
    /// Flows whose tag moved to make room for another one's.
    pub moved: u64,
}
