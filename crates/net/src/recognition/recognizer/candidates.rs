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
        for place in self.fresh.drain(..) {
            let state = &mut self.states[place];
            state.is_listed = false;
            // Its flow may be decided by now, so that nothing is held.
            let directions = [Direction::Up, Direction::Down];
            for (direction, stream) in directions.iter().zip(&mut state.streams) {
                let (bytes, is_over) = (stream.bytes(&self.pool), stream.is_over());
                if !bytes.is_empty() && stream.shown.is_due(bytes.len(), is_over) {
                    stream.shown.look(bytes.len(), is_over);
                    each(Candidate {
                        flow: state.flow,
                        direction: *direction,
                        bytes,
                    });
                }
            }
        }
    }

    /// Puts the [candidates](Self::candidates) into one buffer, one behind another, as the input of a job: the place of each is appended to `spans` as one of
    /// buffer `buf`, its flow and direction to `flows`. What finds no room is left out, and comes again when its flow has more.
    pub fn gather(
        &mut self,
        into: &mut [u8],
        buf: u32,
        spans: &mut Vec<Span>,
        flows: &mut Vec<(u64, Direction)>,
    ) {
        let mut at = 0;
        self.candidates(|candidate| {
            let end = at + candidate.bytes.len();
            if let Some(room) = into.get_mut(at..end) {
                room.copy_from_slice(candidate.bytes);
                spans.push(Span {
                    buf,
                    start: at as u32,
                    len: candidate.bytes.len() as u32,
                });
                flows.push((candidate.flow, candidate.direction));
                at = end;
            }
        });
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
