//! The stage that recognises flows and decides on packets: [`Recognise`].

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use dpb_core::packet::{TCP, UDP};
use dpb_core::{Clock, SetupError};

use super::rules::Lane;
use super::{Action, Log, Policy, RuleEngine};
use crate::flow::{Found, HashKey, Key, Seen, Slot, Table, Timeouts, V4, V6};
use crate::packet::{Facts, Headers, Marks, Places, Verdict};
use crate::pipeline::{Burst, Mark, Reason, Stage};
use crate::recognition::{
    self, Applications, Evidence, Label, Protocol, Recognizer, Segment, Verdict as Decision,
};

/// Settings of the recognition of one shard.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Flows that a shard has room for, of each version of IP.
    pub flows: usize,
    /// After so long without a packet a flow ends.
    pub timeouts: Timeouts,
    /// A number that nobody outside knows: flows' places depend on it.
    pub seed: u64,
    /// The recognizer's own. Whether there are rules is taken from [`Recognise::new`].
    pub recognizer: recognition::Settings,
    /// The actions.
    pub policy: Policy,
    /// The applications that verdicts name.
    pub applications: Arc<Applications>,
}

/// What was counted of one shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Packets that came.
    pub packets: u64,
    /// Packets that are no IP. They go on as those of undecided flows do.
    pub others: u64,
    /// Packets that were refused, as their headers contradict themselves or are cut short.
    pub refused: u64,
    /// Packets without a flow, as the table was full. They go on as those of undecided flows do.
    pub full: u64,
    /// Flows that began.
    pub began: u64,
    /// Flows that ended.
    pub ended: u64,
    /// Packets that the recognizer looked into.
    pub inspected: u64,
    /// Flows that were decided by what they said, rules included.
    pub decided: u64,
    /// Of these, flows that a rule decided.
    pub by_rule: u64,
    /// Flows that were given up; some have a guess.
    pub given_up: u64,
    /// Packets of each [`Action`], by its number.
    pub actions: [u64; 4],
    /// Starts of streams that rules have seen, and their bytes.
    pub rule_items: u64,
    /// See `rule_items`.
    pub rule_bytes: u64,
    /// Of these starts, those that the engine refused or whose job failed.
    pub rule_failed: u64,
}

/// The counters of a shard, for other threads.
#[derive(Debug, Default)]
pub struct Counts(Mutex<Totals>);

impl Counts {
    /// The counters as of the last burst.
    pub fn read(&self) -> Totals {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, totals: &Totals) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = *totals;
    }
}

/// What later stages have to know of a packet, as its mark holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Note {
    pub(super) action: Action,
    /// Where the payload of the transport lies in the frame.
    pub(super) payload: u32,
    pub(super) payload_bytes: u32,
}

const ACTION_BITS: u32 = 2;
const PLACE_BITS: u32 = 14;
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
    fn new(action: Action, places: Places) -> Self {
        let (payload, bytes) = (u32::from(places.payload), u32::from(places.payload_bytes));
        let is_near = payload < 1 << PLACE_BITS;
        Self {
            action,
            payload: if is_near { payload } else { 0 },
            payload_bytes: if is_near { bytes } else { 0 },
        }
    }

    fn value(self) -> u32 {
        const { assert!(ACTION_BITS + PLACE_BITS + BYTES_BITS == u32::BITS) };
        self.action as u32
            | self.payload << ACTION_BITS
            | self.payload_bytes << (ACTION_BITS + PLACE_BITS)
    }
}

/// A stage that recognises the flow of each packet, as far as there is something to recognise, and writes the policy's action into the packet's mark. Later stages carry
/// it out. Packets that are to be dropped are dropped here.
pub struct Recognise {
    headers: Headers,
    v4: Family<2>,
    v6: Family<5>,
    desk: Desk,
    rules: Option<Lane>,
    clock: Arc<dyn Clock>,
    /// Bursts that wait for rules, by the number of their flight.
    waiting: Vec<Option<Waiting>>,
    in_flight: usize,
    done: Vec<Burst>,
    /// Packets of the burst in hand whose flows are undecided.
    open: Vec<(u32, u64)>,
}

/// What all flows share.
struct Desk {
    recognizer: Recognizer,
    policy: Policy,
    log: Option<Arc<Log>>,
    totals: Totals,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Waiting {
    burst: Burst,
    open: Vec<(u32, u64)>,
}

/// The flows of one version of IP, and what of a burst belongs to it.
struct Family<const N: usize> {
    table: Table<N>,
    seen: Vec<Seen<N>>,
    found: Vec<Found>,
    /// Of each slot what the recognizer knows of its flow, and how many flows it has had.
    marks: Vec<(recognition::Mark, u32)>,
}

/// The ends of a packet, as a recognizer takes them.
struct Ends {
    addresses: [u128; 2],
    ports: [u16; 2],
    is_tcp: bool,
}

/// A version of IP.
trait Version<const N: usize> {
    /// The bit of flows' numbers that tells versions apart.
    const BIT: u64;
    fn ends_of(key: &Key<N>) -> Ends;
    fn ends_in(headers: &Headers, row: usize) -> Option<Ends>;
}

fn mapped(address: u32) -> u128 {
    0xffff_0000_0000 | u128::from(address)
}

struct Ipv4;
struct Ipv6;

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
    fn new(settings: &Settings, seed: u64) -> Result<Self, SetupError> {
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
    fn expire<V: Version<N>>(&mut self, desk: &mut Desk, now_ms: u32) {
        let marks = &mut self.marks;
        self.table.expire(now_ms, |flow| {
            let (mark, _) = &mut marks[flow.slot().number()];
            if mark.holds_memory()
                && let Some(verdict) = desk.recognizer.end(mark, now_ms)
            {
                let log = desk.log.as_deref();
                note(
                    &mut desk.totals,
                    log,
                    V::ends_of(&flow.key()),
                    verdict,
                    true,
                );
            }
            *mark = recognition::Mark::default();
        });
    }

    /// Decides on each packet seen, which are those in `rows` of the burst. Packets of undecided flows are added to `open`.
    fn decide<V: Version<N>>(
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
                        if mark.holds_memory() {
                            desk.recognizer.end(mark, now_ms);
                        }
                        *mark = recognition::Mark::default();
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
    fn mark(&mut self, flow: u64) -> Option<&mut recognition::Mark> {
        let (mark, turn) = self.marks.get_mut(flow as u32 as usize)?;
        let is_same =
            flow >> 32 & ((1 << TURN_BITS) - 1) == u64::from(*turn & ((1 << TURN_BITS) - 1));
        is_same.then_some(mark)
    }

    /// A rule matched what this flow said.
    fn matched<V: Version<N>>(&mut self, desk: &mut Desk, flow: u64, now_ms: u32) {
        let Some(mark) = self.mark(flow) else { return };
        let verdict = (desk.recognizer).matched(mark, Protocol::Unknown, None, now_ms);
        if let Some(verdict) = verdict {
            let key = self.table.flow(Slot(flow as u32)).key();
            let log = desk.log.as_deref();
            note(&mut desk.totals, log, V::ends_of(&key), verdict, false);
        }
    }
}

/// Counts a flow's verdict, and writes it down.
fn note(totals: &mut Totals, log: Option<&Log>, ends: Ends, verdict: &Decision, is_given_up: bool) {
    match is_given_up {
        true => totals.given_up += 1,
        false => totals.decided += 1,
    }
    totals.by_rule += u64::from(verdict.label.evidence == Evidence::Rule);
    if let Some(log) = log {
        log.write(ends.addresses, ends.ports, ends.is_tcp, verdict);
    }
}

impl Desk {
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
        let is_given_up = matches!(outcome, recognition::Outcome::GaveUp(..));
        if let Some(verdict) = outcome.verdict() {
            let log = self.log.as_deref();
            note(&mut self.totals, log, ends, verdict, is_given_up);
        }
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

impl Recognise {
    /// Its policy says so.
    pub const BY_POLICY: Reason = Reason("dropped by policy");

    /// The recognition of one shard, whose flows end by `clock`; with `rules` for flows that no reader knows, and a `log` of all verdicts.
    ///
    /// # Errors
    /// If there is no memory for the table, or no queue for the rules.
    pub fn new(
        settings: &Settings,
        rules: Option<&RuleEngine>,
        log: Option<Arc<Log>>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, SetupError> {
        let recognizer = recognition::Settings {
            has_rules: rules.is_some(),
            ..settings.recognizer
        };
        let rules = rules.map(Lane::open).transpose()?;
        let depth = rules.as_ref().map_or(0, Lane::depth);
        Ok(Self {
            headers: Headers::new(),
            v4: Family::new(settings, settings.seed)?,
            v6: Family::new(settings, !settings.seed)?,
            desk: Desk {
                recognizer: Recognizer::new(recognizer, Arc::clone(&settings.applications)),
                policy: settings.policy.clone(),
                log,
                totals: Totals::default(),
                counts: Arc::default(),
            },
            rules,
            clock,
            waiting: (0..depth).map(|_| None).collect(),
            in_flight: 0,
            done: Vec::new(),
            open: Vec::new(),
        })
    }

    /// Its counters.
    pub fn counts(&self) -> Arc<Counts> {
        Arc::clone(&self.desk.counts)
    }

    fn now_ms(&self) -> u32 {
        (self.clock.now_ns() / 1_000_000) as u32
    }

    fn work(&mut self, mut burst: Burst) {
        let now_ms = self.now_ms();
        self.headers.read(burst.frames());
        let Self {
            headers,
            v4,
            v6,
            desk,
            open,
            ..
        } = self;
        v4.expire::<Ipv4>(desk, now_ms);
        v6.expire::<Ipv6>(desk, now_ms);
        v4.seen.clear();
        headers.seen_v4(&mut v4.seen);
        v6.seen.clear();
        headers.seen_v6(&mut v6.seen);
        open.clear();
        let rows = headers.ipv4();
        v4.decide::<Ipv4>(rows, headers, &mut burst, desk, open, now_ms);
        let rows = headers.ipv6();
        v6.decide::<Ipv6>(rows, headers, &mut burst, desk, open, now_ms);
        desk.totals.packets += burst.len() as u64;
        for (i, facts) in headers.facts().iter().enumerate() {
            match facts.verdict {
                Verdict::Refused(refusal) => {
                    desk.totals.refused += 1;
                    burst.packet(i).drop_for(Reason::from(refusal));
                }
                Verdict::Other => {
                    desk.totals.others += 1;
                    let action = desk.policy.action(None);
                    burst.packet(i).mark.value = Note::new(action, Places::default()).value();
                }
                _ => {}
            }
        }
        let flight = self
            .rules
            .as_mut()
            .and_then(|rules| rules.send(&mut self.desk.recognizer));
        match flight {
            Some(at) => {
                self.in_flight += 1;
                let open = std::mem::take(&mut self.open);
                self.waiting[at] = Some(Waiting { burst, open });
                self.land();
            }
            None => self.finish(burst),
        }
    }

    /// Takes home what rules have seen.
    fn land(&mut self) {
        let now_ms = self.now_ms();
        let Self {
            v4,
            v6,
            desk,
            rules,
            waiting,
            in_flight,
            done,
            open: spare,
            ..
        } = self;
        let Some(rules) = rules else { return };
        let mut landed = Vec::new();
        rules.poll(
            |flow, _| match flow & Ipv6::BIT {
                0 => v4.matched::<Ipv4>(desk, flow, now_ms),
                _ => v6.matched::<Ipv6>(desk, flow, now_ms),
            },
            |at| landed.push(at),
        );
        for at in landed {
            let Some(Waiting {
                mut burst,
                mut open,
            }) = waiting[at].take()
            else {
                continue;
            };
            *in_flight -= 1;
            for (row, flow) in open.drain(..) {
                let mark = match flow & Ipv6::BIT {
                    0 => v4.mark(flow),
                    _ => v6.mark(flow),
                };
                if let Some(label) = mark.and_then(|mark| mark.label()) {
                    let mark = burst.packet(row as usize).mark;
                    let action = desk.policy.action(Some(label));
                    let note = Note::of(mark);
                    mark.value = Note { action, ..note }.value();
                }
            }
            *spare = open;
            desk.finish(&mut burst);
            done.push(burst);
        }
        self.publish();
    }

    fn finish(&mut self, mut burst: Burst) {
        self.desk.finish(&mut burst);
        self.done.push(burst);
        self.publish();
    }

    fn publish(&mut self) {
        let (v4, v6) = (self.v4.table.stats(), self.v6.table.stats());
        let totals = &mut self.desk.totals;
        totals.began = v4.began + v6.began;
        totals.ended = v4.ended + v6.ended;
        totals.full = v4.refused + v6.refused;
        totals.inspected = self.desk.recognizer.stats().inspected;
        if let Some(rules) = &self.rules {
            let seen = rules.seen();
            totals.rule_items = seen.items;
            totals.rule_bytes = seen.bytes;
            totals.rule_failed = seen.failed;
        }
        self.desk.counts.write(totals);
    }
}

impl Desk {
    /// Counts the action of each packet, and drops those that the policy drops.
    fn finish(&mut self, burst: &mut Burst) {
        for mut packet in burst.iter_mut() {
            if packet.mark.dropped.is_some() {
                continue;
            }
            let action = Note::of(packet.mark).action;
            self.totals.actions[action as usize] += 1;
            if action == Action::Drop {
                packet.drop_for(Recognise::BY_POLICY);
            }
        }
    }
}

impl Stage for Recognise {
    fn name(&self) -> &str {
        "recognise"
    }

    fn offer(&mut self, ready: &mut VecDeque<Burst>) -> usize {
        let before = ready.len();
        while self.rules.as_ref().is_none_or(Lane::has_room)
            && let Some(burst) = ready.pop_front()
        {
            self.work(burst);
        }
        before - ready.len()
    }

    fn poll(&mut self, done: &mut Vec<Burst>) -> usize {
        if self.in_flight > 0 {
            self.land();
        }
        let finished = self.done.len();
        done.append(&mut self.done);
        finished
    }

    fn in_flight(&self) -> usize {
        self.in_flight + self.done.len()
    }
}

impl fmt::Debug for Recognise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flows = self.v4.table.len() + self.v6.table.len();
        let undecided = self.desk.recognizer.undecided();
        write!(f, "Recognise({flows} flows, {undecided} undecided)")
    }
}
