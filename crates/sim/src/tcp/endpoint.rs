//! One end of a connection: a sender and a receiver, and the handshake between them.

use crate::tcp::config::Config;
use crate::tcp::receiver::Receiver;
use crate::tcp::segment::{Flags, Segment, Timestamps, sack_option_bytes};
use crate::tcp::sender::Sender;

/// One end of a connection, in either direction. Times are picoseconds and never go back.
#[derive(Clone, Debug)]
pub struct Endpoint {
    sender: Sender,
    receiver: Receiver,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Waits for a SYN.
    Listening,
    /// Has a SYN to send, or sent it.
    Connecting,
    /// The peer's SYN arrived.
    Synchronised,
}

impl Endpoint {
    /// The end that opens the connection: its first segment is a SYN.
    pub fn connect(config: Config) -> Self {
        let mut endpoint = Self::listen(config);
        endpoint.state = State::Connecting;
        endpoint.sender.open();
        endpoint
    }

    /// The end that waits for a SYN.
    pub fn listen(config: Config) -> Self {
        Self {
            sender: Sender::new(config),
            receiver: Receiver::new(config),
            state: State::Listening,
        }
    }

    /// Takes a segment that arrived. One that does not belong to the connection's state is passed over.
    pub fn receive(&mut self, now: u64, segment: &Segment) {
        match self.state {
            State::Listening if segment.is_syn() && !segment.is_ack() => {
                self.synchronise(now, segment);
                self.sender.open();
            }
            State::Connecting if segment.is_syn() && segment.is_ack() => {
                if segment.acknowledgement == 1 && self.sender.next_position() >= 1 {
                    self.synchronise(now, segment);
                    self.sender.receive(now, segment);
                }
            }
            State::Listening | State::Connecting => {}
            State::Synchronised if segment.is_syn() && !segment.is_ack() => {
                // The peer's SYN again: the answer was lost.
                self.sender.repeat_syn();
                self.receiver.receive(now, segment);
            }
            State::Synchronised => {
                self.receiver.receive(now, segment);
                self.sender.receive(now, segment);
            }
        }
    }

    fn synchronise(&mut self, now: u64, syn: &Segment) {
        let sack = syn.flags.contains(Flags::SACK_PERMITTED);
        self.sender
            .negotiate(syn.mss, sack, syn.timestamps().is_some());
        self.receiver.synchronise(now, syn);
        self.state = State::Synchronised;
    }

    /// The next segment to send now; to be called until it gives none, after every other call.
    pub fn next_segment(&mut self, now: u64) -> Option<Segment> {
        if self.state != State::Synchronised {
            let mut syn = self.sender.next_segment(now)?;
            syn.window = self.receiver.first_window();
            return Some(syn);
        }
        if self.receiver.is_acknowledgement_due_alone() && self.sender.is_established() {
            return Some(self.acknowledgement(now));
        }
        let sack = self.sender.has_sack();
        let blocks = if sack { self.receiver.block_count() } else { 0 };
        if let Some(mut segment) = self
            .sender
            .next_segment_with(now, sack_option_bytes(blocks))
        {
            let answer = segment.payload_len > 0;
            self.receiver.acknowledge(now, &mut segment, sack, answer);
            return Some(segment);
        }
        let due = self.receiver.is_acknowledgement_due() && self.sender.next_position() > 0;
        due.then(|| self.acknowledgement(now))
    }

    /// A segment that only acknowledges.
    fn acknowledgement(&mut self, now: u64) -> Segment {
        let mut segment = Segment {
            sequence: self.sender.next_position(),
            ..Segment::default()
        };
        if self.sender.has_timestamps() {
            segment.set_timestamps(Timestamps {
                value: self.sender.clock(now),
                echo: 0,
            });
        }
        let sack = self.sender.has_sack();
        self.receiver.acknowledge(now, &mut segment, sack, false);
        segment
    }

    /// The time at which [`Endpoint::expire`] is to be called, if any. Every call may change it.
    pub fn deadline(&self) -> Option<u64> {
        match (self.sender.deadline(), self.receiver.deadline()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (one, other) => one.or(other),
        }
    }

    /// Lets timers expire that are due; none are if the call comes too early.
    pub fn expire(&mut self, now: u64) {
        self.sender.expire(now);
        self.receiver.expire(now);
    }

    /// Adds bytes to what the application wants sent. Nothing is added once it closed.
    pub fn offer(&mut self, bytes: u64) {
        self.sender.offer(bytes);
    }

    /// Lets the application want to send for ever, until it closes.
    pub fn offer_unlimited(&mut self) {
        self.sender.offer_unlimited();
    }

    /// Ends this end's stream behind what was offered; of an unlimited one, behind what was sent.
    pub fn close(&mut self) {
        self.sender.close();
    }

    /// Reads up to `bytes`, with [`crate::tcp::Reading::OnCall`]; the number that were read.
    pub fn read(&mut self, now: u64, bytes: u64) -> u64 {
        self.receiver.read(now, bytes)
    }

    /// Bytes that arrived in order, each counted once.
    pub fn delivered_bytes(&self) -> u64 {
        self.receiver.delivered_bytes()
    }

    /// True if the handshake is complete at this end.
    pub fn is_established(&self) -> bool {
        self.state == State::Synchronised && self.sender.is_established()
    }

    /// True if the peer's stream has ended and all of it arrived.
    pub fn peer_has_closed(&self) -> bool {
        self.receiver.has_finished()
    }

    /// True if both streams have ended, and the peer knows that of this end's. The endpoint still answers a peer that repeats its FIN.
    pub fn is_closed(&self) -> bool {
        self.sender.is_closed() && self.receiver.has_finished()
    }

    /// The sending half.
    pub fn sender(&self) -> &Sender {
        &self.sender
    }

    /// The receiving half.
    pub fn receiver(&self) -> &Receiver {
        &self.receiver
    }
}

#[cfg(test)]
mod tests;
