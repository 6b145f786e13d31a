//! The stage that recognises flows and decides on packets: [`Recognise`].

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use dpb_core::{Clock, SetupError};

use super::flows::{self, Books, Desk, Family, Ipv4, Ipv6, Version};
use super::note::Note;
use super::rules::Lane;
use super::settings::Settings;
use super::{Counts, Log, RuleEngine, Tally, Totals};
use crate::packet::{Headers, Places, Verdict};
use crate::pipeline::{Burst, Reason, Stage};
use crate::recognition::{self, Recognizer};

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

#[derive(Default)]
struct Waiting {
    burst: Burst,
    open: Vec<(u32, u64)>,
}

impl Recognise {
    /// Its policy says so.
    pub const BY_POLICY: Reason = flows::BY_POLICY;

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
                books: Books { log, tally: None },
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

    /// The same, which adds flows up in `tally`.
    #[must_use]
    pub fn tallied(mut self, tally: Arc<Tally>) -> Self {
        self.desk.books.tally = Some(tally);
        self
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
