//! The firewall of one shard: [`Firewall`].

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use dpb_core::Clock;
use dpb_core::packet::TCP;

use super::view::{Tuples, View};
use super::{Action, Rules};
use crate::flow::{Flags, Found, HashKey, Seen, Table, TableError, Timeouts, Tuple};
use crate::pipeline::{Burst, Reason, Stage};

/// Settings of a firewall beside its rules.
#[derive(Clone, Debug)]
pub struct Policy {
    /// Flows that a shard knows at most, of each family.
    pub flows: usize,
    /// After so long without a packet a flow is forgotten.
    pub timeouts: Timeouts,
    /// A number that nobody outside knows: flows' places depend on it.
    pub seed: u64,
    /// The fate of frames that are neither IPv4 nor IPv6: ARP, for one.
    pub others: Action,
    /// True if a TCP packet that does not begin a connection may begin a flow, if a rule allows it: after a start in the middle of traffic.
    pub takes_up_connections: bool,
    /// The fate of a fragment without ports. Where it is [`Action::Allow`], its addresses and protocol are asked of the rules with ports of zero.
    pub fragments: Action,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            flows: 1 << 16,
            timeouts: Timeouts::default(),
            seed: 0,
            others: Action::Deny,
            takes_up_connections: false,
            fragments: Action::Deny,
        }
    }
}

/// Packets that each rule decided, so far. Others may read it while the firewall works.
#[derive(Debug)]
pub struct Hits {
    rules: Box<[AtomicU64]>,
    default: AtomicU64,
}

impl Hits {
    /// Packets that rule `i` decided.
    ///
    /// # Panics
    /// If there is no such rule.
    pub fn of(&self, i: usize) -> u64 {
        self.rules[i].load(Ordering::Relaxed)
    }

    /// Packets that no rule matched.
    pub fn by_default(&self) -> u64 {
        self.default.load(Ordering::Relaxed)
    }

    fn count(&self, rule: Option<usize>) {
        let counter = rule.map_or(&self.default, |rule| &self.rules[rule]);
        // One writer: no other core loses a count.
        counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }
}

/// A stage that drops what rules do not allow, and knows the flows of one shard.
pub struct Firewall {
    rules: Arc<Rules>,
    hits: Arc<Hits>,
    policy: Policy,
    clock: Arc<dyn Clock>,
    v4: Family<u32, 2>,
    v6: Family<u128, 5>,
    done: Vec<Burst>,
}

/// The flows of one family, and what of a burst belongs to it.
struct Family<A, const N: usize> {
    table: Table<N>,
    seen: Vec<Seen<N>>,
    /// Of each packet seen its place in the burst, and its tuple.
    packets: Vec<(u32, Tuple<A>)>,
    found: Vec<Option<Found>>,
}

impl<A, const N: usize> Family<A, N> {
    fn new(policy: &Policy, seed: u64) -> Result<Self, TableError> {
        let table = Table::new(policy.flows, HashKey::new(seed), policy.timeouts)?;
        Ok(Self {
            table,
            seen: Vec::new(),
            packets: Vec::new(),
            found: Vec::new(),
        })
    }

    fn note(&mut self, i: u32, tuple: Tuple<A>, seen: Seen<N>) {
        self.packets.push((i, tuple));
        self.seen.push(seen);
    }

    /// Finds the flow of each packet, and asks `judge` of those that would begin one, before they do: what is denied changes no flow.
    fn decide(
        &mut self,
        burst: &mut Burst,
        now_ms: u32,
        mut judge: impl FnMut(&Tuple<A>, Option<Flags>) -> Result<(), Reason>,
    ) {
        let Self {
            table,
            seen,
            packets,
            found,
        } = self;
        found.clear();
        table.expire(now_ms, |_| {});
        let may_begin = |at: usize| {
            let (i, tuple) = &packets[at];
            let verdict = judge(tuple, seen[at].flags);
            if let Err(reason) = verdict {
                burst.packet(*i as usize).drop_for(reason);
            }
            verdict.is_ok()
        };
        table.burst_if(seen, now_ms, found, may_begin, |_| {});
        for ((i, _), found) in packets.iter().zip(&*found) {
            if *found == Some(Found::Full) {
                burst.packet(*i as usize).drop_for(Firewall::TABLE_FULL);
            }
        }
        packets.clear();
        seen.clear();
    }
}

impl Firewall {
    /// A rule denies it, or none allows it.
    pub const DENIED: Reason = Reason("denied");
    /// It would begin a flow, and there is no room for one.
    pub const TABLE_FULL: Reason = Reason("flow table full");
    /// It is part of a connection that nobody began here.
    pub const NO_CONNECTION: Reason = Reason("no connection");
    /// A fragment without ports, or one whose transport stands behind another extension header, which no later fragment repeats.
    pub const FRAGMENT: Reason = Reason("fragment");

    /// The firewall of one shard.
    ///
    /// # Errors
    /// If there can be no table for so many flows.
    pub fn new(
        rules: Arc<Rules>,
        policy: Policy,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, TableError> {
        let hits = Hits {
            rules: rules.list().iter().map(|_| AtomicU64::new(0)).collect(),
            default: AtomicU64::new(0),
        };
        Ok(Self {
            v4: Family::new(&policy, policy.seed)?,
            v6: Family::new(&policy, !policy.seed)?,
            hits: Arc::new(hits),
            rules,
            policy,
            clock,
            done: Vec::new(),
        })
    }

    /// Packets that each rule decided.
    pub fn hits(&self) -> Arc<Hits> {
        Arc::clone(&self.hits)
    }

    /// The flows that it knows.
    pub fn flows(&self) -> usize {
        self.v4.table.len() + self.v6.table.len()
    }

    fn work(&mut self, burst: &mut Burst) {
        let now_ms = (self.clock.now_ns() / 1_000_000) as u32;
        for i in 0..burst.len() {
            if let Err(reason) = self.look(burst, i as u32, now_ms) {
                burst.packet(i).drop_for(reason);
            }
        }
        let Self {
            rules,
            hits,
            policy,
            v4,
            v6,
            ..
        } = self;
        let allowed = |(action, rule): (Action, Option<usize>), protocol, flags| {
            hits.count(rule);
            match action {
                Action::Deny => Err(Self::DENIED),
                Action::Allow => begins(policy, protocol, flags),
            }
        };
        v4.decide(burst, now_ms, |tuple, flags| {
            allowed(rules.v4(tuple), tuple.protocol, flags)
        });
        v6.decide(burst, now_ms, |tuple, flags| {
            allowed(rules.v6(tuple), tuple.protocol, flags)
        });
    }

    /// Notes packet `i` for its family, or decides at once.
    fn look(&mut self, burst: &Burst, i: u32, now_ms: u32) -> Result<(), Reason> {
        let frame = &burst.frames()[i as usize];
        if burst.marks()[i as usize].dropped.is_some() {
            return Ok(());
        }
        let view = match View::of(frame)? {
            Some(view) => view,
            None if self.policy.others == Action::Allow => return Ok(()),
            None => return Err(Reason::NOT_IP),
        };
        if view.hides_transport() {
            return Err(Self::FRAGMENT);
        }
        if !view.starts_here() {
            return self.fragment(&view);
        }
        // An error about a packet of a flow that is known belongs to that flow.
        if let Some(quoted) = view.quoted()
            && self.knows(&quoted, now_ms)
        {
            return Ok(());
        }
        let (bytes, flags) = (frame.len() as u32, view.flags());
        match view.tuples() {
            Tuples::V4(tuple) => {
                let (key, direction) = tuple.key();
                let seen = Seen {
                    key,
                    direction,
                    bytes,
                    flags,
                };
                self.v4.note(i, tuple, seen);
            }
            Tuples::V6(tuple) => {
                let (key, direction) = tuple.key();
                let seen = Seen {
                    key,
                    direction,
                    bytes,
                    flags,
                };
                self.v6.note(i, tuple, seen);
            }
        }
        Ok(())
    }

    fn fragment(&self, view: &View<'_>) -> Result<(), Reason> {
        if self.policy.fragments == Action::Deny {
            return Err(Self::FRAGMENT);
        }
        let (action, rule) = match view.tuples() {
            Tuples::V4(tuple) => self.rules.v4(&tuple),
            Tuples::V6(tuple) => self.rules.v6(&tuple),
        };
        self.hits.count(rule);
        match action {
            Action::Allow => Ok(()),
            Action::Deny => Err(Self::DENIED),
        }
    }

    fn knows(&self, quoted: &View<'_>, now_ms: u32) -> bool {
        match quoted.tuples() {
            Tuples::V4(tuple) => self.v4.table.get(&tuple.key().0, now_ms).is_some(),
            Tuples::V6(tuple) => self.v6.table.get(&tuple.key().0, now_ms).is_some(),
        }
    }
}

/// Checks that a packet which a rule allows may begin a flow.
fn begins(policy: &Policy, protocol: u8, flags: Option<Flags>) -> Result<(), Reason> {
    if protocol != TCP || policy.takes_up_connections {
        return Ok(());
    }
    // A header that is cut short has no flags, and begins nothing.
    let flags = flags.ok_or(Reason::TRUNCATED)?;
    let opens = flags.has(Flags::SYN) && !flags.has(Flags::ACK) && !flags.has(Flags::RST);
    opens.then_some(()).ok_or(Firewall::NO_CONNECTION)
}

impl Stage for Firewall {
    fn name(&self) -> &str {
        "firewall"
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

impl fmt::Debug for Firewall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rules, flows) = (self.rules.list().len(), self.flows());
        write!(f, "Firewall({rules} rules, {flows} flows)")
    }
}
