//! Searches of one test: each trial is counted, and every goal has a record.

use dpb_core::measure::{Interference, Outcome as Ended, Record, Samples};
use dpb_micro::Broken;
use dpb_net::search::{
    Goal, GoalResult, Measurer, Outcome as Found, SearchError, Trial, TrialInput, TrialOutput,
    search,
};

use super::super::Work;
use super::super::goals::GoalName;
use super::{OfBench, Runner, Stop};
use crate::cmd::net::bench::{self, Counted, judge_searches};
use crate::cmd::sweep;
use crate::interrupt;
use crate::output::short;

impl Runner<'_> {
    pub(super) fn searched(&mut self, blank: &Record, mut trials: OfBench<'_, '_>) -> Vec<Record> {
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
                    let why = format!("{error}: {}", self.counted.why_invalid());
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
            self.counted.note(record);
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
        let (load_min, load_max) = (load(flags.rate_min), load(flags.rate_max));
        let counted = &mut self.counted;
        let say = self.say;
        let invalid_at = |error: &SearchError<Stop>| match error {
            SearchError::Invalid { load, .. } => Some(*load),
            _ => None,
        };
        bench::search_down([load_min, load_max], invalid_at, |load_max| {
            let mut counting = Counting {
                trials: &mut *trials,
                counted: &mut *counted,
                say: &|what: &str| say(&format!(" {}: {what}", number + 1)),
            };
            let settings = flags.settings(load_min, load_max);
            search(goals, &settings, &mut counting)
        })
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
        let irregular: Vec<String> = results
            .iter()
            .filter_map(|result| bench::irregular(result, "packets/s"))
            .collect();
        if throughputs.is_none() && !interrupt::is_set() {
            let reason = irregular.join("; ");
            *record = record
                .clone()
                .without_numbers(Ended::Unsupported { reason });
            return;
        }
        let throughputs = throughputs.unwrap_or_default();
        let asked = self.args.search.searches as usize;
        let workers = 1 + self.test.system.threads();
        judge_searches(record, &throughputs, asked, workers, interference);
        if interrupt::is_set() {
            record.outcome = Ended::Interrupted;
        }
        self.note_invalid(record);
        for why in irregular {
            bench::unstable(record, why);
        }
    }
}

/// Trials of a search, each of which is counted.
struct Counting<'a, 't, 'b> {
    trials: &'a mut OfBench<'t, 'b>,
    counted: &'a mut Counted,
    say: &'a dyn Fn(&str),
}

impl Measurer for Counting<'_, '_, '_> {
    type Error = Stop;

    fn measure(&mut self, input: TrialInput) -> Result<Option<TrialOutput>, Stop> {
        if interrupt::is_set() {
            return Err(Stop::Interrupted);
        }
        (self.say)(&format!("{} packets/s", short(input.load)));
        let output = self.trials.measure(input)?;
        if let Some(outcome) = self.trials.last() {
            self.counted.add(outcome, bench::invalid(outcome));
        }
        Ok(output)
    }
}
