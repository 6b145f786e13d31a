//! The NAT of one shard as a stage: [`Nat44`].

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use dpb_core::Clock;

use crate::flow::nat::{self, Nat, Realm, Refusal, Translated};
use crate::flow::{Steering, Tuple};
use crate::packet::protocol::ICMP;
use crate::packet::{Frame, Headers, Marks, Rewriter, Side, Unchangeable, Verdict};
use crate::pipeline::{Burst, Packet, Reason, Stage};

/// The sides that ports are on, by their numbers, and the way out of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sides {
    /// The realm that packets of each port come from.
    pub realms: Vec<Realm>,
    /// True if packets leave by the first port of the realm that they go to. False where a later stage, a router, says by which port they leave.
    pub sends: bool,
    /// The port by which packets go that another shard has to go on with, a [`Looped`](crate::port::Looped) one; its realm is [`Realm::Outside`]. Without it they are dropped.
    pub crossing: Option<u16>,
}

impl Sides {
    /// `ports` ports of which the first `inside` are inside. A NAT of more than one shard has a crossing behind them.
    pub fn new(ports: u16, inside: u16, sends: bool, has_crossing: bool) -> Self {
        let realm = |port| match port < inside {
            true => Realm::Inside,
            false => Realm::Outside,
        };
        Self {
            realms: (0..ports + u16::from(has_crossing)).map(realm).collect(),
            sends,
            crossing: has_crossing.then_some(ports),
        }
    }

    pub(super) fn realm(&self, ingress: u16) -> Option<Realm> {
        self.realms.get(usize::from(ingress)).copied()
    }

    fn first(&self, realm: Realm) -> Option<u16> {
        let at = self.realms.iter().position(|of| *of == realm);
        at.map(|port| port as u16)
    }
}

/// Counts of one shard's NAT, which others may read while it works.
#[derive(Debug, Default)]
pub struct Counts {
    sessions: AtomicU64,
    mappings: AtomicU64,
    began: AtomicU64,
    hairpinned: AtomicU64,
    unsolicited: AtomicU64,
    errors: AtomicU64,
}

impl Counts {
    /// Sessions that there are.
    pub fn sessions(&self) -> u64 {
        self.sessions.load(Ordering::Relaxed)
    }

    /// Mappings that there are, each of an inside port to an outside port.
    pub fn mappings(&self) -> u64 {
        self.mappings.load(Ordering::Relaxed)
    }

    /// Sessions that began so far.
    pub fn began(&self) -> u64 {
        self.began.load(Ordering::Relaxed)
    }

    /// Packets so far that went from inside to inside within this shard.
    pub fn hairpinned(&self) -> u64 {
        self.hairpinned.load(Ordering::Relaxed)
    }

    /// Packets of strangers so far that were let in and belong to no session.
    pub fn unsolicited(&self) -> u64 {
        self.unsolicited.load(Ordering::Relaxed)
    }

    /// Errors of ICMP that were translated so far.
    pub fn errors(&self) -> u64 {
        self.errors.load(Ordering::Relaxed)
    }

    fn store<S: Steering>(&self, nat: &Nat<S>) {
        let store = |counter: &AtomicU64, count: u64| counter.store(count, Ordering::Relaxed);
        let (stats, table) = (nat.stats(), nat.sessions());
        store(&self.sessions, table.len() as u64);
        store(&self.mappings, nat.mappings() as u64);
        store(&self.began, table.stats().began);
        store(&self.hairpinned, stats.hairpinned);
        store(&self.unsolicited, stats.unsolicited);
        store(&self.errors, stats.errors);
    }
}

/// A stage that translates packets between an inside and an outside.
pub struct Nat44<S> {
    nat: Nat<S>,
    sides: Sides,
    clock: Arc<dyn Clock>,
    counts: Arc<Counts>,
    headers: Headers,
    /// Packets that were read and not asked for yet, all of one realm, and their rows.
    asked: Vec<nat::Packet>,
    rows: Vec<u32>,
    translated: Vec<Translated>,
    done: Vec<Burst>,
}

/// A packet's business with a NAT.
enum Business {
    /// It is part of a session.
    Session(nat::Packet),
    /// It is an error about a packet that was.
    Error,
}

impl<S: Steering> Nat44<S> {
    /// It is no IPv4 packet.
    pub const NOT_IPV4: Reason = Reason("not IPv4");
    /// It came by a port that is on no side.
    pub const NO_SIDE: Reason = Reason("neither inside nor outside");
    /// A part of a datagram.
    pub const FRAGMENT: Reason = Reason("fragment");
    /// It is neither TCP nor UDP nor ICMP.
    pub const PROTOCOL: Reason = Reason("protocol that is not translated");
    /// A message of ICMP that is neither a query nor an error about a packet.
    pub const ICMP_KIND: Reason = Reason("ICMP that is not translated");
    /// An authentication header covers its addresses (RFC 4302).
    pub const AUTHENTICATED: Reason = Reason("authentication header");
    /// All outside ports that it could have are taken.
    pub const NO_PORT: Reason = Reason("no outside port left");
    /// There is no room for its session.
    pub const TABLE_FULL: Reason = Reason("session table full");
    /// Nothing is mapped to where it goes.
    pub const UNMAPPED: Reason = Reason("no mapping");
    /// Its sender is not one that was sent to.
    pub const FILTERED: Reason = Reason("filtered");
    /// An error that quotes no packet of a session.
    pub const NO_SESSION: Reason = Reason("error about no session");
    /// Another shard would have to go on with it, and there is no way there.
    pub const OTHER_SHARD: Reason = Reason("another shard's");

    /// A stage around the NAT of one shard. `clock` says what time it is for sessions.
    pub fn new(nat: Nat<S>, sides: Sides, clock: Arc<dyn Clock>) -> Self {
        Self {
            nat,
            sides,
            clock,
            counts: Arc::default(),
            headers: Headers::new(),
            asked: Vec::new(),
            rows: Vec::new(),
            translated: Vec::new(),
            done: Vec::new(),
        }
    }

    /// Its counts.
    pub fn counts(&self) -> Arc<Counts> {
        Arc::clone(&self.counts)
    }

    fn work(&mut self, burst: &mut Burst) {
        let now_ms = (self.clock.now_ns() / 1_000_000) as u32;
        self.nat.expire(now_ms, |_, _| {});
        self.headers.read(burst.frames());
        let mut realm = Realm::Inside;
        for row in 0..burst.len() {
            let mark = burst.marks()[row];
            if mark.dropped.is_some() {
                continue;
            }
            let business = match self.sides.realm(mark.ingress) {
                Some(of) => self.look(&burst.frames()[row], row).map(|it| (of, it)),
                None => Err(Self::NO_SIDE),
            };
            match business {
                Ok((of, Business::Session(packet))) => {
                    if of != realm {
                        self.translate(burst, realm, now_ms);
                        realm = of;
                    }
                    self.rows.push(row as u32);
                    self.asked.push(packet);
                }
                Ok((of, Business::Error)) => {
                    // Behind the packets before it, whose session it may be about.
                    self.translate(burst, realm, now_ms);
                    if let Err(reason) = self.error(burst, row, of, now_ms) {
                        burst.packet(row).drop_for(reason);
                    }
                }
                Err(reason) => burst.packet(row).drop_for(reason),
            }
        }
        self.translate(burst, realm, now_ms);
        self.counts.store(&self.nat);
    }

    /// What row `row` of the burst that was read asks for.
    fn look(&self, frame: &[u8], row: usize) -> Result<Business, Reason> {
        let facts = &self.headers.facts()[row];
        let tuple = match (facts.verdict, self.headers.tuple_v4(row)) {
            (Verdict::Refused(refusal), _) => return Err(refusal.into()),
            (_, tuple) => tuple.ok_or(Self::NOT_IPV4)?,
        };
        let is_fragment = facts.marks.has(Marks::FRAGMENT);
        if facts.marks.has(Marks::AUTHENTICATED) {
            return Err(Self::AUTHENTICATED);
        }
        if facts.protocol == ICMP && !is_fragment {
            // Queries (RFC 5508, section 3) and errors (section 4). Redirections tell hosts where to send, source quench is of the past (RFC 6633).
            match frame.get(usize::from(self.headers.places()[row].l4)) {
                Some(0 | 8 | 13 | 14) => {}
                Some(3 | 11 | 12) => return Ok(Business::Error),
                _ => return Err(Self::ICMP_KIND),
            }
        }
        Ok(Business::Session(nat::Packet {
            tuple,
            bytes: facts.bytes,
            flags: facts.flags(),
            is_fragment,
        }))
    }

    /// Translates the packets that were noted, which came from `realm`.
    fn translate(&mut self, burst: &mut Burst, realm: Realm, now_ms: u32) {
        if self.asked.is_empty() {
            return;
        }
        let Self {
            nat,
            sides,
            headers,
            asked,
            rows,
            translated,
            ..
        } = self;
        translated.clear();
        nat.burst(realm, asked, now_ms, translated, |_, _| {});
        for ((row, asked), translated) in rows.iter().zip(&*asked).zip(&*translated) {
            let row = *row as usize;
            let mut packet = burst.packet(row);
            let done = match *translated {
                Translated::To(tuple) => rewrite(headers, row, packet.frame, &asked.tuple, &tuple)
                    .map(|()| {
                        let is_inwards = tuple.addresses[1] != asked.tuple.addresses[1];
                        leave(sides, &mut packet, is_inwards);
                    }),
                Translated::ByShard {
                    realm: Realm::Outside,
                    tuple,
                    ..
                } => cross(sides, &mut packet)
                    .and_then(|()| rewrite(headers, row, packet.frame, &asked.tuple, &tuple)),
                // No reply would come to this shard: whoever spreads packets goes by another hash than the NAT.
                Translated::ByShard { .. } => Err(Self::OTHER_SHARD),
                Translated::Refused(why) => Err(reason_of(why)),
            };
            if let Err(reason) = done {
                packet.drop_for(reason);
            }
        }
        asked.clear();
        rows.clear();
    }

    /// Translates an error of ICMP and what it quotes.
    fn error(
        &mut self,
        burst: &mut Burst,
        row: usize,
        realm: Realm,
        now_ms: u32,
    ) -> Result<(), Reason> {
        let mut packet = burst.packet(row);
        let (Some(outer), Some(quoted)) = read_error(packet.frame) else {
            return Err(Self::NO_SESSION);
        };
        let translated = self.nat.error(realm, outer.addresses, quoted, now_ms);
        let translated = translated.ok_or(Self::NO_SESSION)?;
        match translated.by_shard {
            Some(_) => cross(&self.sides, &mut packet)?,
            None => {
                let is_inwards = translated.addresses[1] != outer.addresses[1];
                leave(&self.sides, &mut packet, is_inwards);
            }
        }
        let rewriter = Rewriter::of_row(&self.headers, row, packet.frame);
        let mut rewriter = rewriter.map_err(unchangeable)?;
        let write = |rewriter: &mut Rewriter<'_>| {
            for (i, side) in SIDES {
                if translated.quoted.addresses[i] != quoted.addresses[i] {
                    rewriter.set_quoted_address_v4(side, translated.quoted.addresses[i])?;
                }
            }
            // The identifier of a query stands there once, whatever the side.
            let sides = match quoted.protocol {
                ICMP => &SIDES[..1],
                _ => &SIDES,
            };
            for (i, side) in sides {
                if translated.quoted.ports[*i] != quoted.ports[*i] {
                    rewriter.set_quoted_port(*side, translated.quoted.ports[*i])?;
                }
            }
            for (i, side) in SIDES {
                if translated.addresses[i] != outer.addresses[i] {
                    rewriter.set_address_v4(side, translated.addresses[i])?;
                }
            }
            Ok(())
        };
        write(&mut rewriter).map_err(unchangeable)
    }
}

const SIDES: [(usize, Side); 2] = [(0, Side::Source), (1, Side::Destination)];

/// The tuples of an error of ICMP and of the packet that it quotes, if both are of IPv4.
pub(super) fn read_error(frame: &[u8]) -> (Option<Tuple<u32>>, Option<Tuple<u32>>) {
    let Ok(frame) = Frame::read(frame) else {
        return (None, None);
    };
    let quoted = frame.quoted().filter(Frame::has_transport);
    (
        frame.tuple_v4(),
        quoted.and_then(|quoted| quoted.tuple_v4()),
    )
}

/// Writes what differs between two tuples.
fn rewrite(
    headers: &Headers,
    row: usize,
    frame: &mut [u8],
    old: &Tuple<u32>,
    new: &Tuple<u32>,
) -> Result<(), Reason> {
    let mut write = || {
        let mut rewriter = Rewriter::of_row(headers, row, frame)?;
        for (i, side) in SIDES {
            if new.addresses[i] != old.addresses[i] {
                rewriter.set_address_v4(side, new.addresses[i])?;
            }
        }
        let sides = match old.protocol {
            ICMP => &SIDES[..1],
            _ => &SIDES,
        };
        for (i, side) in sides {
            if new.ports[*i] != old.ports[*i] {
                rewriter.set_port(*side, new.ports[*i])?;
            }
        }
        Ok(())
    };
    write().map_err(unchangeable)
}

/// Says where a packet leaves, unless that is a later stage's.
fn leave(sides: &Sides, packet: &mut Packet<'_>, is_inwards: bool) {
    if !sides.sends {
        return;
    }
    let realm = match is_inwards {
        true => Realm::Inside,
        false => Realm::Outside,
    };
    if let Some(port) = sides.first(realm) {
        packet.mark.egress = port;
    }
}

/// Sends a packet to another shard. One that has come from there does not go back: then shards do not agree on whose it is.
fn cross(sides: &Sides, packet: &mut Packet<'_>) -> Result<(), Reason> {
    match sides.crossing {
        Some(port) if packet.mark.ingress != port => {
            packet.mark.egress = port;
            Ok(())
        }
        _ => Err(OTHER_SHARD),
    }
}

const OTHER_SHARD: Reason = Nat44::<fn(&Tuple<u32>) -> usize>::OTHER_SHARD;

fn reason_of(why: Refusal) -> Reason {
    type Any = Nat44<fn(&Tuple<u32>) -> usize>;
    match why {
        Refusal::NoPort => Any::NO_PORT,
        Refusal::Full => Any::TABLE_FULL,
        Refusal::Filtered => Any::FILTERED,
        Refusal::Unmapped => Any::UNMAPPED,
        Refusal::Fragment => Any::FRAGMENT,
        Refusal::Protocol => Any::PROTOCOL,
    }
}

/// Of packets that were read, which is all that come here, none should be so.
fn unchangeable(_: Unchangeable) -> Reason {
    Reason::MALFORMED
}

impl<S: Steering> Stage for Nat44<S> {
    fn name(&self) -> &str {
        "nat44"
    }

    fn offer(&mut self, ready: &mut VecDeque<Burst>) -> usize {
        let taken = ready.len();
        for mut burst in ready.drain(..) {
            self.work(&mut burst);
            self.done.push(burst);
        }
        taken
    }

    fn poll(&mut self, done: &mut Vec<Burst>) -> usize {
        let finished = self.done.len();
        done.append(&mut self.done);
        finished
    }

    fn in_flight(&self) -> usize {
        self.done.len()
    }
}

impl<S> fmt::Debug for Nat44<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Nat44({:?}, {:?})", self.nat, self.sides)
    }
}
