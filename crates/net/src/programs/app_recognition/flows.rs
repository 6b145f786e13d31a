//! The flows of a shard and the decisions on their packets: [`Family`], [`Desk`].

use std::sync::Arc;

use dpb_core::SetupError;
use dpb_core::packet::{TCP, UDP};

use super::note::Note;
use super::settings::Settings;
use super::{Action, Counts, Log, Policy, Tally, Totals};
use crate::flow::{Found, HashKey, Key, Seen, Slot, Table, V4, V6};
use crate::packet::{Facts, Headers, Marks, Places};
use crate::pipeline::{Burst, Reason};
use crate::recognition::{self, Evidence, Label, Outcome, Protocol, Recognizer, Segment};

/// Why the packets are dropped that the policy drops.
pub(super) const BY_POLICY: Reason = Reason("denied by policy");

/// What all flows share.
pub(super) struct Desk {
    pub(super) recognizer: Recognizer,
    pub(super) policy: Policy,
    pub(super) books: Books,
    pub(super) totals: Totals,
    pub(super) counts: Arc<Counts>,
}

/// Where verdicts are written down.
pub(super) struct Books {
    pub(super) log: Option<Arc<Log>>,
    pub(super) tally: Option<Arc<Tally>>,
}

/// The flows of one version of IP, and what of a burst belongs to it.
pub(super) struct Family<const N: usize> {
    pub(super) table: Table<N>,
    pub(super) seen: Vec<Seen<N>>,
    found: Vec<Found>,
    /// Of each slot what the recognizer knows of its flow, and how many flows it has had.
    marks: Vec<(recognition::Mark, u32)>,
}

/// The ends of a packet, as a recognizer takes them.
pub(super) struct Ends {
    addresses: [u128; 2],
    ports: [u16; 2],
    is_tcp: bool,
}

/// A version of IP.
pub(super) trait Version<const N: usize> {
    /// The bit of flows' numbers that tells versions apart.
    const BIT: u64;
    fn ends_of(key: &Key<N>) -> Ends;
    fn ends_in(headers: &Headers, row: usize) -> Option<Ends>;
}

fn mapped(address: u32) -> u128 {
    0xffff_0000_0000 | u128::from(address)
}

pub(super) struct Ipv4;
pub(super) struct Ipv6;

impl Version<2> for Ipv4 {
    const BIT: u64 = 0;

    fn ends_of(key: &V4) -> Ends {
        let tuple = key.tuple();
        Ends {
            addresses: tuple.addresses.map(mapped),
            ports: tuple.ports,
            is_tcp: tuple.protocol == TCP,
        }
    }

    fn ends_in(headers: &Headers, row: usize) -> Option<Ends> {
        let tuple = headers.tuple_v4(row)?;
        Some(Ends {
            addresses: tuple.addresses.map(mapped),
            ports: tuple.ports,
            is_tcp: tuple.protocol == TCP,
        })
    }
}

impl Version<5> for Ipv6 {
    const BIT: u64 = 1 << 63;

    fn ends_of(key: &V6) -> Ends {
        let tuple = key.tuple();
        Ends {
            addresses: tuple.addresses,
            ports: tuple.ports,
            is_tcp: tuple.protocol == TCP,
        }
    }

    fn ends_in(headers: &Headers, row: usize) -> Option<Ends> {
        let tuple = headers.tuple_v6(row)?;
        Some(Ends {
            addresses: tuple.addresses,
            ports: tuple.ports,
            is_tcp: tuple.protocol == TCP,
        })
    }
}

/// Bits of a flow's number that say which flow of its slot it is.
const TURN_BITS: u32 = 31;

/// The number by which the recognizer knows a flow.
fn number(bit: u64, slot: usize, turn: u32) -> u64 {
    bit | u64::from(turn & ((1 << TURN_BITS) - 1)) << 32 | slot as u64
}

impl<const N: usize> Family<N> {
    pub(super) fn new(settings: &Settings, seed: u64) -> Result<Self, SetupError> {
        let flows = settings.flows;
        let table = Table::new(flows, HashKey::new(seed), settings.timeouts);
        Ok(Self {
            table: table.map_err(|why| SetupError::Parameter(why.to_string()))?,
            seen: Vec::new(),
            found: Vec::new(),
            marks: vec![Default::default(); flows],
        })
    }

    /// Ends the flows that are over.
    pub(super) fn expire<V: Version<N>>(&mut self, desk: &mut Desk, now_ms: u32) {
        let marks = &mut self.marks;
        self.table.expire(now_ms, |flow| {
            let (mark, _) = &mut marks[flow.slot().number()];
            desk.end(mark, || V::ends_of(&flow.key()), now_ms);
        });
    }

    /// Decides on each packet seen, which are those in `rows` of the burst. Packets of undecided flows are added to `open`.
    pub(super) fn decide<V: Version<N>>(
        &mut self,
        rows: &[u32],
        headers: &Headers,
        burst: &mut Burst,
        desk: &mut Desk,
        open: &mut Vec<(u32, u64)>,
        now_ms: u32,
    ) {
        self.found.clear();
        // A flow that is begun anew shows as a new one.
        (self.table).burst(&self.seen, now_ms, &mut self.found, |_| {});
        for (row, found) in rows.iter().zip(&self.found) {
            let at = *row as usize;
            let places = headers.places()[at];
            let label = match found {
                Found::Full => None,
                Found::Known(slot) | Found::New(slot) => {
                    let slot = slot.number();
                    let (mark, turn) = &mut self.marks[slot];
                    if matches!(found, Found::New(_)) {
                        // It had the same ends: the table begins a flow anew in its slot, and what is swept has no mark any more.
                        let key = || V::ends_of(&self.table.flow(Slot(slot as u32)).key());
                        desk.end(mark, key, now_ms);
                        *turn = turn.wrapping_add(1);
                    }
                    let label = match mark.label() {
                        Some(label) if label.protocol != Protocol::Dns => Some(label),
                        _ => {
                            let flow = number(V::BIT, slot, *turn);
                            let frame = &burst.frames()[at];
                            desk.look::<V, N>(mark, flow, headers, at, frame, now_ms)
                        }
                    };
                    if label.is_none() {
                        open.push((*row, number(V::BIT, slot, *turn)));
                    }
                    label
                }
            };
            let action = desk.policy.action(label);
            burst.packet(at).mark.value = Note::new(action, places).value();
        }
    }

    /// The mark of a flow, if it is still the one with this number.
    pub(super) fn mark(&mut self, flow: u64) -> Option<&mut recognition::Mark> {
        let (mark, turn) = self.marks.get_mut(flow as u32 as usize)?;
        let is_same =
            flow >> 32 & ((1 << TURN_BITS) - 1) == u64::from(*turn & ((1 << TURN_BITS) - 1));
        is_same.then_some(mark)
    }

    /// A rule matched what this flow said.
    pub(super) fn matched<V: Version<N>>(&mut self, desk: &mut Desk, flow: u64, now_ms: u32) {
        let Some(mark) = self.mark(flow) else { return };
        let verdict = (desk.recognizer).matched(mark, Protocol::Unknown, None, now_ms);
        if let Some(verdict) = verdict {
            let key = self.table.flow(Slot(flow as u32)).key();
            let outcome = Outcome::Verdict(verdict);
            note(&mut desk.totals, &desk.books, V::ends_of(&key), outcome);
        }
    }
}

/// Counts the verdict that a flow has now, if it has one, and writes it down.
fn note(totals: &mut Totals, books: &Books, ends: Ends, outcome: Outcome<'_>) {
    let Some(verdict) = outcome.verdict() else {
        return;
    };
    let is_given_up = matches!(outcome, Outcome::GaveUp(..));
    match is_given_up {
        true => totals.given_up += 1,
        false => totals.decided += 1,
    }
    totals.by_rule += u64::from(verdict.label.evidence == Evidence::Rule);
    if let (Some(tally), false) = (&books.tally, is_given_up) {
        tally.write(verdict);
    }
    if let Some(log) = &books.log {
        log.write(ends.addresses, ends.ports, ends.is_tcp, verdict);
    }
}

impl Desk {
    /// The flow with this mark and these ends is over: what it said decides it, if nothing did before.
    fn end(&mut self, mark: &mut recognition::Mark, ends: impl FnOnce() -> Ends, now_ms: u32) {
        if mark.holds_memory()
            && let Some(outcome) = self.recognizer.end(mark, now_ms)
        {
            note(&mut self.totals, &self.books, ends(), outcome);
        }
        *mark = recognition::Mark::default();
    }

    /// Has the recognizer look at the packet in `row`; gives the label of its flow.
    fn look<V: Version<N>, const N: usize>(
        &mut self,
        mark: &mut recognition::Mark,
        flow: u64,
        headers: &Headers,
        row: usize,
        frame: &[u8],
        now_ms: u32,
    ) -> Option<Label> {
        let facts = headers.facts()[row];
        let places = headers.places()[row];
        let packet = packet::<V, N>(flow, headers, row, &facts, places, frame);
        let Some((packet, ends)) = packet else {
            return mark.label();
        };
        let outcome = self.recognizer.packet(mark, &packet, now_ms);
        note(&mut self.totals, &self.books, ends, outcome);
        mark.label()
    }
}

/// A whole packet of TCP or UDP, as a recognizer takes it.
fn packet<'a, V: Version<N>, const N: usize>(
    flow: u64,
    headers: &Headers,
    row: usize,
    facts: &Facts,
    places: Places,
    frame: &'a [u8],
) -> Option<(recognition::Packet<'a>, Ends)> {
    let has_ports = matches!(facts.protocol, TCP | UDP);
    if !has_ports || !facts.marks.has(Marks::TRANSPORT) || facts.marks.has(Marks::FRAGMENT) {
        return None;
    }
    let ends = V::ends_in(headers, row)?;
    let start = usize::from(places.payload);
    let payload = frame.get(start..start + usize::from(places.payload_bytes))?;
    let segment = match facts.flags() {
        Some(flags) => {
            let header = frame.get(usize::from(places.l4)..)?;
            let sequence = header.get(4..)?.first_chunk::<4>()?;
            Some(Segment {
                sequence: u32::from_be_bytes(*sequence),
                flags,
            })
        }
        None => None,
    };
    let packet = recognition::Packet {
        flow,
        direction: facts.direction(),
        segment,
        addresses: ends.addresses,
        ports: ends.ports,
        payload,
    };
    Some((packet, ends))
}

impl Desk {
    /// Counts the action of each packet, and drops those that the policy drops.
    pub(super) fn finish(&mut self, burst: &mut Burst) {
        for mut packet in burst.iter_mut() {
            if packet.mark.dropped.is_some() {
                continue;
            }
            let Note {
                action,
                payload_bytes,
                ..
            } = Note::of(packet.mark);
            self.totals.actions[action as usize] += 1;
            let is_compressed = action == Action::Compress && payload_bytes > 0;
            self.totals.to_compress += u64::from(is_compressed);
            if action == Action::Drop {
                packet.drop_for(BY_POLICY);
            }
        }
    }
}
