//! What answers of DNS say of addresses: [`Resolutions`].

use super::super::Name;
use super::super::dns::{Message, Names, Question, Questions};
use super::{Limits, Packet};

/// The port of DNS's servers.
const PORT: u16 = 53;

/// Names of addresses, as servers of DNS gave them to whoever had asked.
pub(super) struct Resolutions {
    names: Names,
    questions: Questions,
}

impl Resolutions {
    /// Nothing is known yet.
    pub(super) fn new(limits: &Limits, seed: u64) -> Self {
        Self {
            names: Names::new(limits.names_max, seed),
            questions: Questions::new(limits.names_max, seed),
        }
    }

    /// The name of an address.
    pub(super) fn name(&self, address: u128, now_ms: u32) -> Option<&[u8]> {
        self.names.find(address, now_ms)
    }

    /// Remembers a question to DNS's port, and what an answer to one says; returns the number of addresses that have a name by it. Other answers count for nothing,
    /// or whoever can send a packet from this port would name any address. `said` is what the packet's direction has said, as far as the message needs it.
    pub(super) fn hear(&mut self, packet: &Packet<'_>, said: &[u8], now_ms: u32) -> u64 {
        let message = match packet.segment {
            // Its length stands before it.
            Some(_) => said.get(2..).unwrap_or_default(),
            None => said,
        };
        let [from, to] = packet.ports;
        let mut name = Name::EMPTY;
        if ![from, to].contains(&PORT) {
            return 0;
        }
        let Some(message) = Message::read(message, &mut name) else {
            return 0;
        };
        let is_answer = message.is_answer();
        let question = Question {
            addresses: packet.addresses,
            ports: packet.ports,
            id: message.id,
            name: name.as_bytes(),
        };
        if !is_answer {
            if to == PORT {
                self.questions.ask(&question, now_ms);
            }
            return 0;
        }
        let [source, destination] = packet.addresses;
        let question = Question {
            addresses: [destination, source],
            ports: [to, from],
            ..question
        };
        if from != PORT || !self.questions.answer(&question, now_ms) {
            return 0;
        }
        let mut count = 0;
        for one in message.addresses() {
            self.names
                .insert(one.address, question.name, one.ttl_s, now_ms);
            count += 1;
        }
        count
    }
}
