//! Trials of one test, and the records that come of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use dpb_core::measure::latency::Latencies;
use dpb_core::measure::{Check, Interference, Outcome as Ended, Record, Samples, Stability, Watch};
use dpb_core::{Clock, WallClock};
use dpb_micro::Broken;
use dpb_net::search::{
    Goal, GoalResult, Irregular, Measurer, Outcome as Found, SearchError, Trial, TrialInput,
    TrialOutput, search,
};
use dpb_net::traffic::Generator;
use dpb_net::trial::{Between, Outcome, Plan, TrialError, Trials, Validity};
use rustix::thread::{CpuSet, sched_setaffinity};

use super::super::traffic::frame_bytes_mean;
use super::goals::GoalName;
use super::system::Bench;
use super::{Args, Test, Work};
use crate::cmd::sweep::{self, RunFlags};
use crate::exit::Failure;
use crate::interrupt;
use crate::output::short;

/// Trials in vain, one after another, that end a run or a search.
const INVALID_MAX: u32 = 3;
/// A search begins again at half of its highest rate, so many times at most, until the generator can offer it.
const HALVES_MAX: u32 = 12;

/// A name's ending and the share of packets that it stands for.
const PERCENTILES: [(&str, f64); 3] = [("p50", 0.5), ("p99", 0.99), ("p999", 0.999)];

/// Keeps this thread on the first core that is asked for, and gives the others to the program.
pub(super) fn pin(runs: &RunFlags) -> Result<(), Failure> {
    let Some(&core) = runs.pins().first() else {
        return Ok(());
    };
    let mut cores = CpuSet::new();
    cores.set(core as usize);
    sched_setaffinity(None, &cores)
        .map_err(|why| Failure::unavailable(format!("--pin {core}: {why}")))
}

/// The cores of the program: those behind the first, which is the trial's.
fn cores(runs: &RunFlags) -> Vec<u32> {
    let pins = runs.pins();
    pins.get(1..).unwrap_or_default().to_vec()
}

/// Carries a test out: a record of a load, or one of each goal.
///
/// # Errors
/// If a port cannot be opened, which no other test changes.
pub(super) fn records(
    args: &Args,
    test: &Test<'_>,
    say: &dyn Fn(&str),
) -> Result<Vec<Record>, Failure> {
    let clock: Arc<dyn Clock> = Arc::new(WallClock::default());
    let generator = args.traffic.generator(args.runs.seed, test.chosen)?;
    let bench = test
        .system
        .open(&clock, &cores(&args.runs), args.runs.seed)?;
    let mut bench = Watched::new(bench);
    let mut runner = Runner {
        args,
        test,
        bytes: frame_bytes_mean(&generator),
        tally: Tally::default(),
        watch: Watch::start(),
        say,
    };
    let plan = Plan {
        tolerance_ns: args.tolerance.as_nanos() as u64,
        flow_order: args.flow_order,
        ..Plan::new(runner.schedule(1.0), 1, args.runs.seed)
    };
    let blank = args.record(test);
    let trials = bench.trials(plan, &generator, &*clock);
    let mut records = match test.work {
        Work::Rate(rate) => vec![runner.at_rate(blank.with("rate", rate), rate, trials)],
        Work::Search(_) => runner.searched(&blank, trials),
    };
    for record in &mut records {
        bench.note(record);
    }
    Ok(records)
}

/// Ports whose own losses are looked at.
struct Watched {
    bench: Bench,
    before: [dpb_core::port::PortStats; 2],
}

type OfBench<'t, 'b> =
    Trials<'t, 'b, Generator, dyn dpb_core::PacketPort, dyn dpb_core::PacketPort>;

impl Watched {
    fn new(mut bench: Bench) -> Self {
        let before = [bench.from.stats(), bench.to.stats()];
        Self { bench, before }
    }

    fn trials<'t, 'b>(
        &'b mut self,
        plan: Plan,
        generator: &'t Generator,
        clock: &'t dyn Clock,
    ) -> OfBench<'t, 'b> {
        let between = Between {
            from: &mut *self.bench.from,
            to: &mut *self.bench.to,
            system: &mut *self.bench.system,
        };
        Trials::new(plan, generator, clock, between)
    }

    /// Adds what ports say that they lost themselves, trials to warm up included.
    fn note(&mut self, record: &mut Record) {
        let now = [self.bench.from.stats(), self.bench.to.stats()];
        let [from, to] = std::array::from_fn(|i| now[i].since(&self.before[i]));
        for (name, lost) in [
            ("from_port_lost", from.send_lost.total()),
            ("to_port_lost", to.receive_lost.total()),
        ] {
            if lost > 0 {
                record.counts.insert(name.to_owned(), lost);
            }
        }
    }
}

/// Counts of all trials of a record.
#[derive(Default)]
struct Tally {
    counts: BTreeMap<String, u64>,
    invalid: u64,
    why_invalid: Option<Validity>,
    latencies: Latencies,
}

impl Tally {
    fn add(&mut self, outcome: &Outcome) {
        if let Validity::Late { .. } = outcome.validity {
            self.invalid += 1;
            self.why_invalid = Some(outcome.validity);
            return;
        }
        let account = &outcome.account;
        let counts = [
            ("trials", 1),
            ("offered", account.offered),
            ("refused", account.refused),
            ("delivered", account.delivered),
            ("dropped", account.drops.packets()),
            ("lost", outcome.balance.lost),
            ("unexplained", outcome.balance.unexplained),
            ("duplicates", account.duplicates),
            ("corrupted", account.corrupted),
            ("foreign", account.foreign),
            ("received", account.received),
            ("reordered", outcome.order.reordered()),
        ];
        for (name, count) in counts {
            self.count(name, count);
        }
        for (reason, packets) in &account.drops.reasons {
            self.count(&format!("dropped: {reason}"), *packets);
        }
        if let Some(order) = &outcome.flow_order {
            self.count("reordered_in_flows", order.reordered());
        }
        self.latencies.add(outcome.latency.of_arrived());
    }

    fn count(&mut self, name: &str, count: u64) {
        *self.counts.entry(name.to_owned()).or_insert(0) += count;
    }

    fn note(&self, record: &mut Record) {
        record.counts.extend(self.counts.clone());
        record
            .counts
            .insert("trials_invalid".to_owned(), self.invalid);
        let hdr = Some(self.latencies.to_base64());
        let values = Vec::new();
        record
            .samples
            .insert("latency_ns".to_owned(), Samples { values, hdr });
        record.check = Some(Check {
            against: "each packet's stamp and payload, and the sum of all packets".to_owned(),
            compared: self.counts.get("received").copied().unwrap_or(0),
            digest: None,
        });
    }

    /// Why there is no number.
    fn late(&self) -> String {
        match self.why_invalid {
            Some(Validity::Late { packets, allowed }) => format!(
                "the generator was late: {packets} packets were offered after their time, and {allowed} may be; lower the load, give the \
                 trial a core of its own (--pin), or allow more (--tolerance)"
            ),
            _ => "no packet was due; take a higher rate or longer trials".to_owned(),
        }
    }
}

/// Why trials ended.
#[derive(Debug)]
enum Stop {
    Trial(TrialError),
    Interrupted,
}

impl From<TrialError> for Stop {
    fn from(error: TrialError) -> Self {
        Self::Trial(error)
    }
}

impl Stop {
    /// What fails because of the machine or the load is not available; what does not add up is wrong.
    fn broken(&self) -> Broken {
        let Self::Trial(error) = self else {
            return Broken::Unsupported("interrupted".to_owned());
        };
        let why = said(error);
        match error {
            TrialError::TooLong { .. }
            | TrialError::Memory(_)
            | TrialError::Traffic(_)
            | TrialError::Duration(_)
            | TrialError::Packets => Broken::Unsupported(why),
            TrialError::Port { .. } | TrialError::System(_) | TrialError::Imbalance(_) => {
                Broken::Wrong(why)
            }
        }
    }
}

/// An error with its causes.
fn said(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = error.source();
    }
    text
}

struct Runner<'a> {
    args: &'a Args,
    test: &'a Test<'a>,
    bytes: f64,
    tally: Tally,
    watch: Watch,
    say: &'a dyn Fn(&str),
}

impl Runner<'_> {
    fn schedule(&self, rate: f64) -> dpb_net::traffic::Schedule {
        let Args { schedule, runs, .. } = self.args;
        schedule.schedule(rate, self.bytes, runs.seed)
    }

    fn at_rate(&mut self, mut record: Record, rate: f64, mut trials: OfBench<'_, '_>) -> Record {
        let runs = &self.args.runs;
        let load = self.schedule(rate).packets_per_s();
        let warm_up = trials.trial(load, runs.warm_up().as_secs_f64());
        if let Err(error) = warm_up {
            return sweep::broken(record, &Stop::from(error).broken());
        }
        self.watch = Watch::start();
        let mut of_runs = OfRuns::default();
        for run in 0..runs.repeat() {
            (self.say)(&format!(", run {}", run + 1));
            match self.one_run(load, &mut trials, &mut of_runs) {
                Ok(true) => {}
                Ok(false) => break,
                Err(stop) => return sweep::broken(record, &stop.broken()),
            }
        }
        let interference = self.watch.stop();
        self.tally.note(&mut record);
        if of_runs.delivered.is_empty() && !interrupt::is_set() {
            let reason = self.tally.late();
            return record.without_numbers(Ended::Unsupported { reason });
        }
        let series = of_runs.sample(&mut record);
        self.conclude(&mut record, &series, runs.repeat(), &interference);
        record
    }

    /// One run, again if it says nothing. False if the runs are over.
    fn one_run(
        &mut self,
        load: f64,
        trials: &mut OfBench<'_, '_>,
        of_runs: &mut OfRuns,
    ) -> Result<bool, Stop> {
        let seconds = self.args.runs.seconds().as_secs_f64();
        for _ in 0..INVALID_MAX {
            if interrupt::is_set() {
                return Ok(false);
            }
            let outcome = trials.trial(load, seconds)?;
            self.tally.add(outcome);
            if outcome.validity == Validity::Valid && outcome.balance.offered > 0 {
                of_runs.add(outcome, seconds);
                break;
            }
        }
        Ok(true)
    }

    /// The verdict on a series of runs.
    fn conclude(
        &self,
        record: &mut Record,
        series: &[f64],
        asked: usize,
        interference: &Interference,
    ) {
        let workers = 1 + self.test.system.threads();
        let interrupted = interrupt::is_set();
        sweep::conclude(record, series, asked, workers, interference, interrupted);
        if self.tally.invalid > 0 {
            let why = format!(
                "{} trials were invalid: {}",
                self.tally.invalid,
                self.tally.late()
            );
            unstable(record, why);
        }
    }

    fn searched(&mut self, blank: &Record, mut trials: OfBench<'_, '_>) -> Vec<Record> {
        let Work::Search(goals) = self.test.work else {
            return Vec::new();
        };
        let names = self.args.search.search.iter();
        let note =
            |(name, goal): (&GoalName, &Goal)| self.args.search.note(blank.clone(), *name, goal);
        let mut records: Vec<Record> = names.zip(goals).map(note).collect();
        let mut searches = Vec::new();
        for at in 0..self.args.search.searches {
            match self.one_search(at, &mut trials) {
                Ok(found) => searches.push(found),
                Err(SearchError::Measurer(Stop::Interrupted)) => break,
                Err(SearchError::Measurer(stop)) => {
                    let broken = stop.broken();
                    return records
                        .into_iter()
                        .map(|record| sweep::broken(record, &broken))
                        .collect();
                }
                Err(error @ SearchError::Invalid { .. }) => {
                    let why = format!("{error}: {}", self.tally.late());
                    let broken = Broken::Unsupported(why);
                    return records
                        .into_iter()
                        .map(|record| sweep::broken(record, &broken))
                        .collect();
                }
                Err(error) => {
                    let broken = Broken::Wrong(error.to_string());
                    return records
                        .into_iter()
                        .map(|record| sweep::broken(record, &broken))
                        .collect();
                }
            }
        }
        let interference = self.watch.stop();
        for (at, record) in records.iter_mut().enumerate() {
            self.tally.note(record);
            self.of_goal(record, at, &searches, &interference);
        }
        records
    }

    /// One search, with a lower highest rate as long as the generator cannot offer it.
    fn one_search(
        &mut self,
        number: u64,
        trials: &mut OfBench<'_, '_>,
    ) -> Result<Found, SearchError<Stop>> {
        let Work::Search(goals) = self.test.work else {
            return Err(SearchError::Settings("there is no goal"));
        };
        let flags = &self.args.search;
        let load = |rate: f64| self.schedule(rate).packets_per_s();
        let (load_min, mut load_max) = (load(flags.rate_min), load(flags.rate_max));
        let mut halves = 0;
        loop {
            let settings = flags.settings(load_min, load_max);
            let mut counted = Counted {
                trials: &mut *trials,
                tally: &mut self.tally,
                say: &|what: &str| (self.say)(&format!(" {}: {what}", number + 1)),
            };
            match search(goals, &settings, &mut counted) {
                Err(SearchError::Invalid { load, .. })
                    if load == load_max && halves < HALVES_MAX && load_max / 2.0 > load_min =>
                {
                    load_max /= 2.0;
                    halves += 1;
                }
                other => return other,
            }
        }
    }

    /// What all searches found for the goal at this place.
    fn of_goal(
        &self,
        record: &mut Record,
        at: usize,
        searches: &[Found],
        interference: &Interference,
    ) {
        let results: Vec<GoalResult> = searches.iter().map(|found| found.results[at]).collect();
        let every = |of: fn(&GoalResult) -> Option<f64>| {
            results.iter().map(of).collect::<Option<Vec<f64>>>()
        };
        let throughputs = every(|result| result.throughput);
        for (name, values) in [
            ("throughput_packets_per_s", throughputs.clone()),
            ("lower_packets_per_s", every(|result| result.lower)),
            ("upper_packets_per_s", every(|result| result.upper)),
            (
                "search_s",
                Some(searches.iter().map(|found| found.duration_s).collect()),
            ),
        ] {
            if let Some(values) = values.filter(|values| !values.is_empty()) {
                record.sample(name, values);
            }
        }
        let each = |of: fn(&Trial) -> f64| {
            let trials = searches.iter().flat_map(|found| &found.trials);
            Samples {
                values: trials.map(of).collect(),
                hdr: None,
            }
        };
        for (name, samples) in [
            (
                "trial_offered_packets_per_s",
                each(|trial| trial.input.load),
            ),
            ("trial_loss_ratio", each(|trial| trial.output.loss_ratio)),
            ("trial_s", each(|trial| trial.input.duration_s)),
        ] {
            record.samples.insert(name.to_owned(), samples);
        }
        let irregular: Vec<String> = results.iter().filter_map(irregular).collect();
        if throughputs.is_none() && !interrupt::is_set() {
            let reason = irregular.join("; ");
            *record = record
                .clone()
                .without_numbers(Ended::Unsupported { reason });
            return;
        }
        let asked = self.args.search.searches as usize;
        self.conclude(
            record,
            &throughputs.unwrap_or_default(),
            asked,
            interference,
        );
        for why in irregular {
            unstable(record, why);
        }
    }
}

/// Adds a reason why a record's numbers are not to be trusted.
fn unstable(record: &mut Record, why: String) {
    if let Some(Stability {
        stable, reasons, ..
    }) = &mut record.stability
    {
        *stable = false;
        reasons.push(why);
    }
}

/// Why a result is not two bounds of the goal's width.
fn irregular(result: &GoalResult) -> Option<String> {
    let at = |rate: Option<f64>| rate.map_or("-".to_owned(), short);
    Some(match result.irregular? {
        Irregular::NoUpper => format!(
            "the highest rate, {} packets/s, upholds the goal: the system does more (--rate-max), or the generator can offer no more",
            at(result.lower)
        ),
        Irregular::NoLower => format!(
            "the lowest rate, {} packets/s, fails the goal; lower --rate-min",
            at(result.upper)
        ),
        Irregular::OutOfTime => format!(
            "the time of the search was over with bounds at {} and {} packets/s; raise --search-time",
            at(result.lower),
            at(result.upper)
        ),
    })
}

/// Trials of a search, each of which is counted.
struct Counted<'a, 't, 'b> {
    trials: &'a mut OfBench<'t, 'b>,
    tally: &'a mut Tally,
    say: &'a dyn Fn(&str),
}

impl Measurer for Counted<'_, '_, '_> {
    type Error = Stop;

    fn measure(&mut self, input: TrialInput) -> Result<Option<TrialOutput>, Stop> {
        if interrupt::is_set() {
            return Err(Stop::Interrupted);
        }
        (self.say)(&format!("{} packets/s", short(input.load)));
        let output = self.trials.measure(input)?;
        if let Some(outcome) = self.trials.last() {
            self.tally.add(outcome);
        }
        Ok(output)
    }
}

/// What each run at a load gave.
#[derive(Default)]
struct OfRuns {
    offered: Vec<f64>,
    delivered: Vec<f64>,
    loss: Vec<f64>,
    schedule_errors: Vec<f64>,
    /// Of each of [`PERCENTILES`]; `None` where it is infinite.
    latencies: [Vec<Option<f64>>; 3],
}

impl OfRuns {
    fn add(&mut self, outcome: &Outcome, seconds: f64) {
        let balance = &outcome.balance;
        self.offered.push(balance.offered as f64 / seconds);
        self.delivered.push(balance.delivered as f64 / seconds);
        self.loss.push(balance.loss_ratio());
        let error = outcome.schedule_errors.percentile_ns(0.99);
        self.schedule_errors.push(error as f64);
        for (values, (_, share)) in self.latencies.iter_mut().zip(PERCENTILES) {
            let latency = outcome.latency.percentile_ns(share);
            values.push(latency.map(|ns| ns as f64));
        }
    }

    /// Adds the samples to a record, and gives the series by which the runs are judged.
    fn sample(self, record: &mut Record) -> Vec<f64> {
        let series = self.delivered.clone();
        record.sample("offered_packets_per_s", self.offered);
        record.sample("packets_per_s", self.delivered);
        record.sample("loss_ratio", self.loss);
        record.sample("schedule_error_ns_p99", self.schedule_errors);
        for (values, (name, _)) in self.latencies.into_iter().zip(PERCENTILES) {
            let name = format!("latency_ns_{name}");
            let infinite = values.iter().filter(|value| value.is_none()).count();
            match values.into_iter().collect::<Option<Vec<f64>>>() {
                Some(values) => record.sample(&name, values),
                // A median of the other runs would be better than the truth.
                None => {
                    let name = format!("{name}_infinite");
                    record.counts.insert(name, infinite as u64);
                }
            }
        }
        series
    }
}
