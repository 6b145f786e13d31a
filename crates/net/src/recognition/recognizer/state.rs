//! States of undecided flows: as many as there is memory for from the start, in the order in which their flows were last known to be busy.

use std::ops::{Index, IndexMut};

use super::super::Protocol;
use super::super::stream::{Pool, Stream};
use super::super::verdict::Opened;
use super::datagram::Collected;

/// What is held of an undecided flow.
pub(super) struct State {
    pub(super) flow: u64,
    /// How often this place was taken: marks of flows that lost it have another number.
    pub(super) turn: u16,
    pub(super) last_ms: u32,
    /// Packets with a payload.
    pub(super) packets: u16,
    /// Those that brought nothing that a reader waits for.
    pub(super) idle_packets: u16,
    pub(super) initiator: u8,
    pub(super) is_tcp: bool,
    /// True if this place is in the list of those with bytes for rules, whichever flow put it there.
    pub(super) is_listed: bool,
    /// The protocol that it has if nothing else is found.
    pub(super) likely: Protocol,
    pub(super) opened: Opened,
    /// Of the sender of each direction.
    pub(super) ports: [u16; 2],
    pub(super) addresses: [u128; 2],
    /// The starts of both directions. Of datagrams the first one holds pieces of a hello.
    pub(super) streams: [Stream; 2],
    pub(super) collected: Collected,
    is_taken: bool,
    before: u32,
    after: u32,
}

impl State {
    /// Puts this state into the list of those with bytes for rules. Each place is there once at most, so the list never grows.
    pub(super) fn list(&mut self, place: u32, fresh: &mut Vec<u32>) {
        if !self.is_listed {
            self.is_listed = true;
            fresh.push(place);
        }
    }
}

const NOWHERE: u32 = u32::MAX;
/// Flows that are asked, the oldest first, whether they are idle.
const ASKED_MAX: usize = 4;

/// All states.
pub(super) struct States {
    states: Vec<State>,
    free: Vec<u32>,
    first: u32,
    last: u32,
}

impl States {
    pub(super) fn new(count: u32) -> Self {
        let state = || State {
            flow: 0,
            turn: 0,
            last_ms: 0,
            packets: 0,
            idle_packets: 0,
            initiator: 0,
            is_tcp: false,
            is_listed: false,
            likely: Protocol::Unknown,
            opened: Opened::default(),
            ports: [0; 2],
            addresses: [0; 2],
            streams: [Stream::EMPTY; 2],
            collected: Collected::default(),
            is_taken: false,
            before: NOWHERE,
            after: NOWHERE,
        };
        Self {
            states: (0..count).map(|_| state()).collect(),
            free: (0..count).rev().collect(),
            first: NOWHERE,
            last: NOWHERE,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.states.len() - self.free.len()
    }

    /// True if the flow that took this place in this turn has it still.
    pub(super) fn has(&self, place: u32, turn: u16) -> bool {
        let state = self.states.get(place as usize);
        state.is_some_and(|state| state.is_taken && state.turn == turn)
    }

    /// A place, taken from a flow that is idle for `idle_ms` if none is free.
    pub(super) fn take(&mut self, pool: &mut Pool, now_ms: u32, idle_ms: u32) -> Option<u32> {
        if self.free.is_empty() || pool.left() == (0, 0) {
            for _ in 0..ASKED_MAX {
                let oldest = self.first;
                if oldest == NOWHERE {
                    break;
                }
                if now_ms.wrapping_sub(self[oldest].last_ms) >= idle_ms {
                    self.give(pool, oldest);
                    break;
                }
                // It was busy since it came to the front.
                self.unlink(oldest);
                self.link(oldest);
            }
        }
        let place = self.free.pop()?;
        let state = &mut self[place];
        state.turn = state.turn.wrapping_add(1);
        state.last_ms = now_ms;
        (state.packets, state.idle_packets) = (0, 0);
        state.likely = Protocol::Unknown;
        state.opened = Opened::default();
        state.streams = [Stream::EMPTY; 2];
        state.collected = Collected::default();
        state.is_taken = true;
        self.link(place);
        Some(place)
    }

    /// Frees a place and its memory.
    pub(super) fn give(&mut self, pool: &mut Pool, place: u32) {
        self.unlink(place);
        let state = &mut self[place];
        state.is_taken = false;
        for stream in &mut state.streams {
            stream.release(pool);
        }
        self.free.push(place);
    }

    fn link(&mut self, place: u32) {
        let last = self.last;
        let state = &mut self[place];
        (state.before, state.after) = (last, NOWHERE);
        match last {
            NOWHERE => self.first = place,
            last => self[last].after = place,
        }
        self.last = place;
    }

    fn unlink(&mut self, place: u32) {
        let State { before, after, .. } = self[place];
        match before {
            NOWHERE => self.first = after,
            before => self[before].after = after,
        }
        match after {
            NOWHERE => self.last = before,
            after => self[after].before = before,
        }
    }
}

impl Index<u32> for States {
    type Output = State;

    fn index(&self, place: u32) -> &State {
        &self.states[place as usize]
    }
}

impl IndexMut<u32> for States {
    fn index_mut(&mut self, place: u32) -> &mut State {
        &mut self.states[place as usize]
    }
}
