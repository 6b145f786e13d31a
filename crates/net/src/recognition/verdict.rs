//! What is said of a flow, and the eight bytes by which a flow table remembers it.

use super::{Application, Evidence, Ja4, Name, Protocol};
use crate::flow::Direction;

/// What a flow is of, in few bytes: enough to choose what happens to its packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Label {
    /// The protocol.
    pub protocol: Protocol,
    /// What shows the protocol.
    pub evidence: Evidence,
    /// The application, if a name led to one, or a rule did.
    pub application: Option<Application>,
}

impl Label {
    /// Nothing is known.
    pub const UNKNOWN: Self = Self {
        protocol: Protocol::Unknown,
        evidence: Evidence::None,
        application: None,
    };
}

/// Where a name comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NameSource {
    /// The hello's `server_name`.
    Sni,
    /// The same of a hello that carries an encrypted one, or pretends to: the name may be that of whoever stands in front of the server.
    OuterSni,
    /// The target or the header `Host` of a request.
    Http,
    /// What a proxy is asked to connect to.
    Proxy,
    /// A question of DNS.
    DnsQuestion,
    /// An answer of DNS that had the server's address, some time before.
    DnsAnswer,
}

/// All that was found out about a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// In short.
    pub label: Label,
    /// The server's name; empty if there is none.
    pub host: Name,
    /// Where it comes from.
    pub source: Option<NameSource>,
    /// The fingerprint of the client's hello.
    pub ja4: Option<Ja4>,
    /// The highest version of TLS that the client offers; zero without a hello.
    pub tls_version: u16,
    /// The first protocol that the client offers (ALPN); empty if there is none.
    pub protocol_offered: Name,
    /// Packets with a payload that were looked at.
    pub packets: u16,
}

impl Verdict {
    pub(super) const NONE: Self = Self {
        label: Label::UNKNOWN,
        host: Name::EMPTY,
        source: None,
        ja4: None,
        tls_version: 0,
        protocol_offered: Name::EMPTY,
        packets: 0,
    };

    /// Forgets what was said; the names' bytes need not be written for that.
    pub(super) fn clear(&mut self) {
        self.label = Label::UNKNOWN;
        self.host.set(b"");
        self.source = None;
        self.ja4 = None;
        self.tls_version = 0;
        self.protocol_offered.set(b"");
        self.packets = 0;
    }

    /// Takes what is found, and says protocol and evidence.
    pub(super) fn found(&mut self, protocol: Protocol, evidence: Evidence) {
        self.label.protocol = protocol;
        self.label.evidence = evidence;
    }

    pub(super) fn named(&mut self, host: &[u8], source: NameSource) {
        self.host.set(host);
        self.source = Some(source);
    }
}

/// What a recognizer knows of a flow: eight bytes, zeroes at first. Whoever has the flow keeps it, and hands it in with each packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark(u64);

/// A mark, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// Nothing was seen that says anything.
    New,
    /// A connection was opened: the number of the next byte in each direction, as far as it is known.
    Opened(Opened),
    /// There is more in this place of the recognizer, if it still has this turn.
    Undecided { place: u32, turn: u16 },
    /// It is decided.
    Decided(Label),
}

/// Of sequence numbers the low 24 bits are kept: a packet of the connection's start is never 8 MiB away from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Opened {
    /// The direction of the side that opened it.
    pub(super) initiator: u8,
    pub(super) next: [Option<u32>; 2],
}

const KIND: u64 = 3;
const OPENED: u64 = 1;
const UNDECIDED: u64 = 2;
const DECIDED: u64 = 3;
const LOW: u32 = (1 << 24) - 1;

impl Mark {
    /// The label, once there is one: packets of such a flow need not come to the recognizer, unless their protocol is DNS, whose answers name addresses.
    #[inline(always)]
    pub fn label(self) -> Option<Label> {
        let Self(word) = self;
        (word & KIND == DECIDED).then(|| Label {
            protocol: Protocol::of((word >> 8) as u8),
            evidence: Evidence::of((word >> 16) as u8),
            application: Application::of((word >> 32) as u16),
        })
    }

    /// True of a flow without a label that the recognizer keeps memory for: when it ends, [`end`](super::Recognizer::end) frees that.
    pub fn holds_memory(self) -> bool {
        self.0 & KIND == UNDECIDED
    }

    #[inline(always)]
    pub(super) fn progress(self) -> Progress {
        let Self(word) = self;
        match word & KIND {
            OPENED => {
                let next = |bit: u32, shift: u32| {
                    (word >> bit & 1 != 0).then_some((word >> shift) as u32 & LOW)
                };
                Progress::Opened(Opened {
                    initiator: (word >> 2 & 1) as u8,
                    next: [next(3, 8), next(4, 32)],
                })
            }
            UNDECIDED => Progress::Undecided {
                place: (word >> 32) as u32,
                turn: (word >> 8) as u16,
            },
            DECIDED => Progress::Decided(self.label().unwrap_or(Label::UNKNOWN)),
            _ => Progress::New,
        }
    }

    pub(super) fn of(progress: Progress) -> Self {
        Self(match progress {
            Progress::New => 0,
            Progress::Opened(Opened { initiator, next }) => {
                let [up, down] = next.map(|next| next.map(|next| u64::from(next & LOW)));
                OPENED
                    | u64::from(initiator) << 2
                    | u64::from(up.is_some()) << 3
                    | u64::from(down.is_some()) << 4
                    | up.unwrap_or(0) << 8
                    | down.unwrap_or(0) << 32
            }
            Progress::Undecided { place, turn } => {
                UNDECIDED | u64::from(turn) << 8 | u64::from(place) << 32
            }
            Progress::Decided(label) => {
                let application = label.application.map_or(0, Application::number);
                DECIDED
                    | (label.protocol as u64) << 8
                    | (label.evidence as u64) << 16
                    | u64::from(application) << 32
            }
        })
    }
}

impl Opened {
    /// The whole number of the next byte in a direction, which is near `sequence`.
    pub(super) fn next_near(&self, direction: Direction, sequence: u32) -> Option<u32> {
        let low = self.next[direction as usize]?;
        // The distance in 24 bits, with its sign.
        let distance = (sequence.wrapping_sub(low) << 8) as i32 >> 8;
        Some(sequence.wrapping_sub(distance as u32))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn marks_say_what_was_put_into_them(
            initiator in 0..2_u8,
            next in proptest::array::uniform2(proptest::option::of(0..1_u32 << 24)),
            place: u32,
            turn: u16,
            protocol in 0..Protocol::ALL.len(),
            evidence in 0..9_u8,
            application: u16,
        ) {
            let label = Label {
                protocol: Protocol::ALL[protocol],
                evidence: Evidence::of(evidence),
                application: Application::of(application),
            };
            for progress in [
                Progress::New,
                Progress::Opened(Opened { initiator, next }),
                Progress::Undecided { place, turn },
                Progress::Decided(label),
            ] {
                prop_assert_eq!(Mark::of(progress).progress(), progress);
            }
            prop_assert_eq!(Mark::of(Progress::Decided(label)).label(), Some(label));
        }

        #[test]
        fn a_sequence_number_is_whole_again_near_its_packet(next: u32, distance in -(1_i32 << 23)..1 << 23) {
            let opened = Opened { initiator: 0, next: [Some(next & LOW), None] };
            let sequence = next.wrapping_add(distance as u32);
            prop_assert_eq!(opened.next_near(Direction::Up, sequence), Some(next));
            prop_assert_eq!(opened.next_near(Direction::Down, sequence), None);
        }
    }
}
