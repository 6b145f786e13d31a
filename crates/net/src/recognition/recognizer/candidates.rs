//! Rules for payloads: what undecided flows have said, in batches for an operator, and what it found.

use dpb_core::Span;

use super::super::verdict::Progress;
use super::super::{Application, Evidence, Mark, Protocol, Verdict};
use super::Recognizer;
use crate::flow::Direction;

/// The start of one direction of an undecided flow: of TCP without a gap, of UDP one datagram behind another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate<'a> {
    /// The caller's number of the flow.
    pub flow: u64,
    /// The direction.
    pub direction: Direction,
    /// The bytes, all that are held: an operator keeps nothing between items.
    pub bytes: &'a [u8],
}

impl Recognizer {
    /// Hands out the bytes of streams of undecided flows that have more than at the last call, at most [`Limits::undecided_max`](super::Limits::undecided_max) flows with
    /// two directions each. Only with [`Settings::has_rules`](super::Settings::has_rules). Readers have not known these flows, so far. A stream that comes in very many
    /// pieces is handed out when it has grown by an eighth, or is over.
    pub fn candidates(&mut self, mut each: impl FnMut(Candidate<'_>)) {
        self.offer(|candidate| {
            each(candidate);
            true
        });
    }

    /// Puts the [candidates](Self::candidates) into one buffer, one behind another, as the input of a job: the place of each is appended to `spans` as one of
    /// buffer `buf`, its flow and direction to `flows`. What finds no room there, or would be more than `items_max`, comes first at the next call. One that is longer
    /// than the whole buffer is cut.
    pub fn gather(
        &mut self,
        into: &mut [u8],
        buf: u32,
        items_max: usize,
        spans: &mut Vec<Span>,
        flows: &mut Vec<(u64, Direction)>,
    ) {
        let (mut at, mut items) = (0, 0);
        self.offer(|candidate| {
            let len = match at {
                0 => candidate.bytes.len().min(into.len()),
                _ => candidate.bytes.len(),
            };
            let room = into.get_mut(at..at + len);
            let Some(room) = room.filter(|room| !room.is_empty() && items < items_max) else {
                return false;
            };
            room.copy_from_slice(&candidate.bytes[..len]);
            spans.push(Span {
                buf,
                start: at as u32,
                len: len as u32,
            });
            flows.push((candidate.flow, candidate.direction));
            at += len;
            items += 1;
            true
        });
    }

    /// Hands out candidates until one is not taken: this one and those behind it stay.
    fn offer(&mut self, mut take: impl FnMut(Candidate<'_>) -> bool) {
        let mut handed_out = 0;
        'states: for place in &self.fresh {
            let state = &mut self.states[*place];
            // Its flow may be decided by now, so that nothing is held.
            let directions = [Direction::Up, Direction::Down];
            for (direction, stream) in directions.into_iter().zip(&mut state.streams) {
                let (bytes, is_over) = (stream.bytes(&self.pool), stream.is_over());
                if bytes.is_empty() || !stream.shown.is_due(bytes.len(), is_over) {
                    continue;
                }
                let candidate = Candidate {
                    flow: state.flow,
                    direction,
                    bytes,
                };
                if !take(candidate) {
                    break 'states;
                }
                stream.shown.look(bytes.len(), is_over);
            }
            state.is_listed = false;
            handed_out += 1;
        }
        self.fresh.drain(..handed_out);
    }

    /// A rule matched what this flow said. `None` if the flow is decided already, or its memory is gone.
    pub fn matched(
        &mut self,
        mark: &mut Mark,
        protocol: Protocol,
        application: Option<Application>,
        now_ms: u32,
    ) -> Option<&Verdict> {
        let Progress::Undecided { place, turn } = mark.progress() else {
            return None;
        };
        if !self.states.has(place, turn) {
            return None;
        }
        self.desk.verdict.clear();
        self.desk.verdict.found(protocol, Evidence::Rule);
        self.desk.verdict.label.application = application;
        self.release(mark, place, now_ms).verdict()
    }
}
