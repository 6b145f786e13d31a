//! Trials of one test, and the records that come of them.

mod search;

use std::sync::Arc;

use dpb_core::measure::{Outcome as Ended, Record, Watch};
use dpb_core::{Clock, WallClock};
use dpb_micro::Broken;
use dpb_net::traffic::Generator;
use dpb_net::trial::{Between, Plan, TrialError, Trials};

use super::super::bench::{self, Counted, OfRuns, Pinned};
use super::super::traffic::frame_bytes_mean;
use super::system::Bench;
use super::{Args, Test, Work};
use crate::cmd::sweep;
use crate::exit::Failure;
use crate::{Globals, interrupt};

/// Trials in vain, one after another, that end a run.
const INVALID_MAX: u32 = 3;

/// Carries a test out: a record of a load, or one of each goal.
///
/// # Errors
/// If a port cannot be opened or a core cannot be had, which no other test changes.
pub(super) fn records(
    args: &Args,
    test: &Test<'_>,
    say: &dyn Fn(&str),
    globals: &Globals,
) -> Result<Vec<Record>, Failure> {
    let clock: Arc<dyn Clock> = Arc::new(WallClock::default());
    let generator = args.traffic.generator(args.runs.seed, test.chosen)?;
    let cores = bench::cores(args.runs.pins(), 1 + test.system.threads());
    let mut bench = test.system.open(
        &clock,
        &clock,
        cores.get(1..).unwrap_or_default(),
        args.runs.seed,
        globals,
    )?;
    let pinned = Pinned::on(cores.first().copied());
    let _pinned = pinned.map_err(Failure::unavailable)?;
    let mut blank = bench.note(args.record(test));
    blank.provenance.pinned = cores;
    let mut runner = Runner {
        args,
        test,
        bytes: frame_bytes_mean(&generator),
        counted: Counted::default(),
        watch: Watch::start(),
        say,
    };
    let plan = Plan {
        tolerance_ns: args.tolerance.as_nanos() as u64,
        flow_order: args.flow_order,
        ..Plan::new(runner.schedule(1.0), 1, args.runs.seed)
    };
    let trials = trials(&mut bench, plan, &generator, &*clock);
    let mut records = match test.work {
        Work::Rate(rate) => vec![runner.at_rate(blank.with("rate", rate), rate, trials)],
        Work::Search(_) => runner.searched(&blank, trials),
    };
    for record in &mut records {
        bench.note_counts(record);
    }
    Ok(records)
}

type OfBench<'t, 'b> =
    Trials<'t, 'b, Generator, dyn dpb_core::PacketPort, dyn dpb_core::PacketPort>;

fn trials<'t, 'b>(
    bench: &'b mut Bench,
    plan: Plan,
    generator: &'t Generator,
    clock: &'t dyn Clock,
) -> OfBench<'t, 'b> {
    let between = Between {
        from: &mut *bench.from,
        to: &mut *bench.to,
        system: &mut *bench.system,
    };
    Trials::new(plan, generator, clock, between)
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
        bench::broken(error)
    }
}

struct Runner<'a> {
    args: &'a Args,
    test: &'a Test<'a>,
    bytes: f64,
    counted: Counted,
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
        self.counted.note(&mut record);
        if of_runs.delivered.is_empty() && !interrupt::is_set() {
            let reason = self.counted.why_invalid().to_owned();
            return record.without_numbers(Ended::Unsupported { reason });
        }
        self.counted.note_latencies(&mut record);
        let series = of_runs.sample(&mut record);
        let workers = 1 + self.test.system.threads();
        let interrupted = interrupt::is_set();
        sweep::conclude(
            &mut record,
            &series,
            runs.repeat(),
            workers,
            &interference,
            interrupted,
        );
        self.note_invalid(&mut record);
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
            let invalid = bench::invalid(outcome);
            let is_valid = invalid.is_none();
            self.counted.add(outcome, invalid);
            if is_valid {
                of_runs.add(outcome, seconds);
                break;
            }
        }
        Ok(true)
    }

    /// Trials in vain are a reason not to trust the others.
    fn note_invalid(&self, record: &mut Record) {
        if self.counted.invalid > 0 {
            let why = format!(
                "{} trials were invalid: {}",
                self.counted.invalid,
                self.counted.why_invalid()
            );
            bench::unstable(record, why);
        }
    }
}
