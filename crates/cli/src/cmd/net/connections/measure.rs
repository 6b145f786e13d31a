//! The phases of one test, and the records that come of them.

use std::ops::Range;
use std::sync::Arc;

use dpb_core::measure::{Interference, Outcome as Ended, Record, Samples, Watch};
use dpb_core::{Clock, PacketPort, WallClock};
use dpb_micro::Broken;
use dpb_net::search::{Goal, GoalResult, Outcome as Found, SearchError, TrialInput, TrialOutput};
use dpb_net::traffic::{Flows, Generator, Profile, TrafficError};
use dpb_net::trial::Between;
use dpb_net::trial::stateful::{
    AheadClock, Stateful, StatefulError, Tester, TesterError, capacity, establishment_rate,
    tear_down_rate, throughput,
};

use super::{Args, CAPACITY_FROM, Figure, Test};
use crate::cmd::net::bench::{self, Counted, Pinned, judge_searches};
use crate::cmd::net::trial::goals::GoalName;
use crate::cmd::sweep;
use crate::exit::Failure;
use crate::output::short;
use crate::{Globals, interrupt};

/// A part of a trial's connections that may wait.
const BURST_PART: f64 = 0.05;

/// Checks that there are so many connections of this profile.
pub(super) fn connections(profile: &Profile, count: u64) -> Result<(), TrafficError> {
    let profile = Profile {
        flows: Flows::endless(count),
        ..profile.clone()
    };
    Generator::new(&profile).map(drop)
}

/// Carries a test out: a record, or one of each goal.
///
/// # Errors
/// If a port cannot be opened or a core cannot be had, which no other test changes.
pub(super) fn records(
    args: &Args,
    test: &Test<'_>,
    goals: &[(GoalName, Goal)],
    say: &dyn Fn(&str),
    globals: &Globals,
) -> Result<Vec<Record>, Failure> {
    let clock: Arc<dyn Clock> = Arc::new(WallClock::default());
    let ahead = Arc::new(AheadClock::new(Arc::clone(&clock)));
    let flow_clock = Arc::clone(&ahead) as Arc<dyn Clock>;
    let cores = bench::cores(args.pins(), 1 + test.system.threads());
    let of_system = cores.get(1..).unwrap_or_default();
    let bench = test
        .system
        .open(&clock, &flow_clock, of_system, args.seed, globals);
    let mut bench = bench?;
    let pinned = Pinned::on(cores.first().copied());
    let _pinned = pinned.map_err(Failure::unavailable)?;
    let mut blank = bench.note(args.record(test));
    blank.provenance.pinned = cores;
    let profile = args.profile(test.size);
    let count = match test.figure {
        Figure::Capacity => args.connections_max,
        _ => test.connections,
    };
    let between: Between<'_, dyn PacketPort + '_, dyn PacketPort + '_> = Between {
        from: &mut *bench.from,
        to: &mut *bench.to,
        system: &mut *bench.system,
    };
    let forgetting = args.forget.of(test.system, ahead);
    let tester = Tester::new(&profile, count, args.timing(), &*clock, between, forgetting);
    let mut tester = tester.map_err(|error| test.size.refused(error))?;
    tester.measure_rate(test.figure == Figure::Establishment);
    let mut phases = Phases {
        tester,
        counted: Counted::default(),
        tried: 0,
        made: 0,
        tear_downs: 0,
        say,
    };
    let measured = Measurement {
        args,
        test,
        goals,
        watch: Watch::start(),
    };
    let mut records = measured.records(&blank, &mut phases);
    drop(phases);
    for record in &mut records {
        bench.note_counts(record);
    }
    Ok(records)
}

/// Why phases ended.
#[derive(Debug)]
enum Stop {
    Tester(TesterError),
    Interrupted,
}

impl From<TesterError> for Stop {
    fn from(error: TesterError) -> Self {
        Self::Tester(error)
    }
}

impl Stop {
    fn broken(&self) -> Broken {
        let error = match self {
            Self::Interrupted => return Broken::Unsupported("interrupted".to_owned()),
            Self::Tester(error) => error,
        };
        let why = bench::said(error);
        match error {
            TesterError::Trial(error) => bench::broken(error),
            TesterError::Forget(_) | TesterError::Connections { .. } => Broken::Unsupported(why),
            TesterError::LetThrough(_) | TesterError::Unaccounted { .. } => Broken::Wrong(why),
        }
    }
}

/// A tester whose phases are counted.
struct Phases<'b, 's> {
    tester: Tester<'b>,
    counted: Counted,
    tried: u64,
    made: u64,
    tear_downs: u64,
    say: &'s dyn Fn(&str),
}

impl Phases<'_, '_> {
    fn begin(&self, what: &str) -> Result<(), Stop> {
        if interrupt::is_set() {
            return Err(Stop::Interrupted);
        }
        (self.say)(what);
        Ok(())
    }

    fn count(&mut self) {
        if let Some(outcome) = self.tester.last() {
            self.counted.add(outcome, bench::invalid(outcome));
        }
    }

    fn note(&self, record: &mut Record) {
        self.counted.note(record);
        for (name, count) in [
            ("connections_tried", self.tried),
            ("connections_made", self.made),
            ("tear_downs", self.tear_downs),
        ] {
            record.counts.insert(name.to_owned(), count);
        }
        if let Some(check) = &mut record.check {
            check.against += "; each connection, by an answer of the responder's that came back";
        }
    }
}

impl Stateful for Phases<'_, '_> {
    type Error = Stop;

    fn establish(&mut self, connections: Range<u64>, per_s: f64) -> Result<Option<u64>, Stop> {
        let (count, rate) = (connections.end - connections.start, short(per_s));
        self.begin(&format!(": {count} connections, {rate}/s"))?;
        let arrived = self.tester.establish(connections, per_s)?;
        self.count();
        if arrived.is_some() {
            self.tried += count;
        }
        Ok(arrived)
    }

    fn answer(&mut self, connections: Range<u64>, per_s: f64) -> Result<Option<u64>, Stop> {
        let count = connections.end - connections.start;
        self.begin(&format!(": answers on {count} connections"))?;
        let known = self.tester.answer(connections, per_s)?;
        self.count();
        self.made += known.unwrap_or(0);
        Ok(known)
    }

    fn trial(
        &mut self,
        connections: Range<u64>,
        input: TrialInput,
    ) -> Result<Option<TrialOutput>, Stop> {
        self.begin(&format!(": {} packets/s", short(input.load)))?;
        let output = self.tester.trial(connections, input)?;
        self.count();
        Ok(output)
    }

    fn tear_down(&mut self) -> Result<f64, Stop> {
        self.begin(": tear-down")?;
        let seconds = self.tester.tear_down()?;
        self.tear_downs += 1;
        Ok(seconds)
    }
}

/// The names of a search's figures, and the unit of its rates.
struct Named {
    rate: &'static str,
    lower: &'static str,
    upper: &'static str,
    unit: &'static str,
}

const ESTABLISHMENT: Named = Named {
    rate: "established_per_s",
    lower: "lower_established_per_s",
    upper: "upper_established_per_s",
    unit: "connections/s",
};
const THROUGHPUT: Named = Named {
    rate: "throughput_packets_per_s",
    lower: "lower_packets_per_s",
    upper: "upper_packets_per_s",
    unit: "packets/s",
};

struct Measurement<'a> {
    args: &'a Args,
    test: &'a Test<'a>,
    goals: &'a [(GoalName, Goal)],
    watch: Watch,
}

impl Measurement<'_> {
    fn records(self, blank: &Record, phases: &mut Phases<'_, '_>) -> Vec<Record> {
        match self.test.figure {
            Figure::Capacity => vec![self.capacity(blank.clone(), phases)],
            Figure::TearDown => vec![self.tear_down(blank.clone(), phases)],
            Figure::Establishment => self.searches(blank, phases, &ESTABLISHMENT),
            Figure::Throughput => self.searches(blank, phases, &THROUGHPUT),
        }
    }

    /// Each measurement of a figure; `Err` has what broke. An interrupt ends them with those that there are.
    fn each<T>(
        &self,
        phases: &mut Phases<'_, '_>,
        mut once: impl FnMut(&mut Phases<'_, '_>) -> Result<T, StatefulError<Stop>>,
    ) -> Result<Vec<T>, Broken> {
        let mut all = Vec::new();
        for _ in 0..self.args.search.searches {
            match once(phases) {
                Ok(one) => all.push(one),
                Err(error) => match broken(&error, &phases.counted) {
                    Some(broken) => return Err(broken),
                    None => break,
                },
            }
        }
        Ok(all)
    }

    fn capacity(&self, mut record: Record, phases: &mut Phases<'_, '_>) -> Record {
        let max = self.args.connections_max;
        let plan = self.args.fill(CAPACITY_FROM.min(max));
        let width = self.args.capacity_width();
        let found = self.each(phases, |phases| capacity(phases, plan, max, width));
        let found = match found {
            Ok(found) => found,
            Err(broken) => return sweep::broken(record, &broken),
        };
        let interference = self.watch.stop();
        phases.note(&mut record);
        let lower: Vec<f64> = found.iter().map(|found| found.lower as f64).collect();
        let upper = found
            .iter()
            .map(|found| found.upper.map(|upper| upper as f64));
        let upper: Option<Vec<f64>> = upper.collect();
        let has_upper = upper.is_some();
        if let Some(upper) = upper.filter(|upper| !upper.is_empty()) {
            record.sample("capacity_upper_connections", upper);
        }
        self.judge(&mut record, "capacity_connections", lower, &interference);
        if !has_upper {
            let why = format!(
                "the table holds all {max} connections that were tried (--connections-max)"
            );
            bench::unstable(&mut record, why);
        }
        record
    }

    fn tear_down(&self, mut record: Record, phases: &mut Phases<'_, '_>) -> Record {
        let plan = self.args.fill(self.test.connections);
        let rates = match self.each(phases, |phases| tear_down_rate(phases, plan)) {
            Ok(rates) => rates,
            Err(broken) => return sweep::broken(record, &broken),
        };
        let interference = self.watch.stop();
        phases.note(&mut record);
        let seconds = rates.iter().map(|rate| plan.connections as f64 / rate);
        let seconds: Vec<f64> = seconds.collect();
        if !seconds.is_empty() {
            record.sample("tear_down_s", seconds);
        }
        self.judge(&mut record, "torn_down_per_s", rates, &interference);
        record
    }

    /// Adds the figure that is reported, and the verdict on it.
    fn judge(
        &self,
        record: &mut Record,
        name: &str,
        values: Vec<f64>,
        interference: &Interference,
    ) {
        let asked = self.args.search.searches as usize;
        let workers = 1 + self.test.system.threads();
        judge_searches(record, &values, asked, workers, interference);
        if !values.is_empty() {
            record.sample(name, values);
        }
        if interrupt::is_set() {
            record.outcome = Ended::Interrupted;
        }
    }

    fn searches(&self, blank: &Record, phases: &mut Phases<'_, '_>, named: &Named) -> Vec<Record> {
        let flags = &self.args.search;
        let note = |(name, goal): &(GoalName, Goal)| flags.note(blank.clone(), *name, goal);
        let mut records: Vec<Record> = self.goals.iter().map(note).collect();
        let goals: Vec<Goal> = self.goals.iter().map(|(_, goal)| *goal).collect();
        let plan = self.args.fill(self.test.connections);
        let invalid_at = |error: &StatefulError<Stop>| match error {
            StatefulError::Search(SearchError::Invalid { load, .. }) => Some(*load),
            _ => None,
        };
        let found = self.each(phases, |phases| {
            let loads = [flags.rate_min, flags.rate_max];
            bench::search_down(loads, invalid_at, |load_max| {
                let settings = flags.settings(flags.rate_min, load_max);
                match self.test.figure {
                    Figure::Throughput => throughput(phases, plan, &goals, &settings),
                    _ => establishment_rate(phases, plan, &goals, &settings),
                }
            })
        });
        let found = match found {
            Ok(found) => found,
            Err(broken) => {
                let records = records.into_iter();
                return records.map(|it| sweep::broken(it, &broken)).collect();
            }
        };
        let interference = self.watch.stop();
        for (at, record) in records.iter_mut().enumerate() {
            phases.note(record);
            self.of_goal(record, at, &found, named, &interference);
        }
        records
    }

    /// What all searches found for the goal at this place.
    fn of_goal(
        &self,
        record: &mut Record,
        at: usize,
        searches: &[Found],
        named: &Named,
        interference: &Interference,
    ) {
        let results: Vec<GoalResult> = searches.iter().map(|found| found.results[at]).collect();
        let every = |of: fn(&GoalResult) -> Option<f64>| {
            let all = results.iter().map(of).collect::<Option<Vec<f64>>>();
            all.filter(|values| !values.is_empty())
        };
        let seconds: Vec<f64> = searches.iter().map(|found| found.duration_s).collect();
        for (name, values) in [
            (named.lower, every(|result| result.lower)),
            (named.upper, every(|result| result.upper)),
            ("search_s", Some(seconds).filter(|all| !all.is_empty())),
        ] {
            if let Some(values) = values {
                record.sample(name, values);
            }
        }
        let trials = searches.iter().flat_map(|found| &found.trials);
        let trials: Vec<_> = trials.collect();
        let mut keep = |name: &str, values: Vec<f64>| {
            let samples = Samples { values, hdr: None };
            record.samples.insert(name.to_owned(), samples);
        };
        keep(
            "trial_load_per_s",
            trials.iter().map(|it| it.input.load).collect(),
        );
        keep(
            "trial_loss_ratio",
            trials.iter().map(|it| it.output.loss_ratio).collect(),
        );
        keep(
            "trial_s",
            trials.iter().map(|it| it.input.duration_s).collect(),
        );
        let irregular: Vec<String> = (results.iter())
            .filter_map(|result| bench::irregular(result, named.unit))
            .collect();
        let rates = every(|result| result.throughput);
        if rates.is_none() && !interrupt::is_set() {
            let reason = irregular.join("; ");
            *record = record
                .clone()
                .without_numbers(Ended::Unsupported { reason });
            return;
        }
        let rates = rates.unwrap_or_default();
        let burst = rates
            .iter()
            .copied()
            .find_map(|rate| self.burst(rate, &self.goals[at].1));
        self.judge(record, named.rate, rates, interference);
        for why in irregular.into_iter().chain(burst) {
            bench::unstable(record, why);
        }
    }

    /// The reason why a rate of establishment may be that of a burst: too many of a trial's connections may wait in the port or be late, so that the system need not keep up.
    fn burst(&self, per_s: f64, goal: &Goal) -> Option<String> {
        if self.test.figure != Figure::Establishment {
            return None;
        }
        let due = (per_s * goal.final_trial_s) as u64;
        let connections = self.test.connections.min(due.max(1));
        let late = per_s * self.args.tolerance.as_secs_f64();
        let may_wait = late + self.test.system.queue() as f64;
        (may_wait > BURST_PART * connections as f64).then(|| {
            format!(
                "of the {connections} connections of a trial {} may wait or be late, so that it says little of the rate: take more --connections",
                short(may_wait)
            )
        })
    }
}

/// What an error makes of a test; `None` for an interrupt.
fn broken(error: &StatefulError<Stop>, counted: &Counted) -> Option<Broken> {
    let invalid = |why: String| Broken::Unsupported(format!("{why}: {}", counted.why_invalid()));
    Some(match error {
        StatefulError::System(Stop::Interrupted)
        | StatefulError::Search(SearchError::Measurer(Stop::Interrupted)) => return None,
        StatefulError::System(stop) | StatefulError::Search(SearchError::Measurer(stop)) => {
            stop.broken()
        }
        StatefulError::Invalid { .. } | StatefulError::Search(SearchError::Invalid { .. }) => {
            invalid(error.to_string())
        }
        StatefulError::NotFilled { .. } | StatefulError::Settings(_) => {
            Broken::Unsupported(error.to_string())
        }
        StatefulError::NotForgotten(_) | StatefulError::Search(_) => {
            Broken::Wrong(error.to_string())
        }
    })
}
