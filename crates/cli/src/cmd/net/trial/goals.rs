//! What is searched for: goals by name, and the limits of a search.

use std::time::Duration;

use clap::ValueEnum;
use dpb_core::measure::Record;
use dpb_net::search::{Goal, Settings};

use super::super::traffic::word;
use crate::args;
use crate::exit::Failure;

const SEARCH: &str = "The search";

/// Flags that say what is searched for.
#[derive(Debug, clap::Args)]
pub(in crate::cmd::net) struct SearchFlags {
    /// Search for the highest rate that upholds a goal (MLRsearch, RFC 9971); several goals share their trials
    #[arg(long, help_heading = SEARCH, value_enum, value_delimiter = ',')]
    pub(in crate::cmd::net) search: Vec<GoalName>,
    /// The lowest rate that is tried, in the unit of --rate
    #[arg(long, value_name = "RATE", help_heading = SEARCH, value_parser = args::rate, default_value = "1k")]
    pub(in crate::cmd::net) rate_min: f64,
    /// The highest rate that is tried; half of it, and so on, where the generator is late
    #[arg(long, value_name = "RATE", help_heading = SEARCH, value_parser = args::rate, default_value = "10M")]
    pub(in crate::cmd::net) rate_max: f64,
    /// Searches, one after another: how well the rate is found again
    #[arg(long, value_name = "COUNT", help_heading = SEARCH, value_parser = args::count, default_value = "1")]
    pub(in crate::cmd::net) searches: u64,
    /// A search ends with what it has after trials of so long together
    #[arg(long, value_name = "TIME", help_heading = SEARCH, value_parser = args::duration, default_value = "1h")]
    search_time: Duration,
    /// The time of a trial that counts in full [default: the goal's]
    #[arg(long, value_name = "TIME", help_heading = SEARCH, value_parser = args::duration)]
    goal_trial: Option<Duration>,
    /// The time of trials that decide about a load [default: the goal's]
    #[arg(long, value_name = "TIME", help_heading = SEARCH, value_parser = args::duration)]
    goal_sum: Option<Duration>,
    /// The part of the trials that may lose more than the goal allows [default: the goal's]
    #[arg(long, value_name = "SHARE", help_heading = SEARCH, value_parser = args::share)]
    goal_exceed: Option<f64>,
    /// The distance of the bounds at the end, as a part of the upper one [default: the goal's]
    #[arg(long, value_name = "SHARE", help_heading = SEARCH, value_parser = args::share)]
    goal_width: Option<f64>,
}

/// A goal, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cmd::net) enum GoalName {
    /// No loss in half of the trials of a second, 21 s of them
    Ndr,
    /// The same with a loss of up to 0.5 %
    Pdr,
    /// No loss in a trial of 60 s
    Rfc2544,
    /// ETSI TST009: no loss in one of two trials of 60 s
    Tst009,
}

impl SearchFlags {
    /// The goals, as they are searched for.
    ///
    /// # Errors
    /// Wrong usage: a goal is none, or the limits are.
    pub(in crate::cmd::net) fn goals(&self) -> Result<Vec<Goal>, Failure> {
        let named = self.named(&self.search)?;
        Ok(named.into_iter().map(|(_, goal)| goal).collect())
    }

    /// The goals with their names; this one where none is asked for.
    ///
    /// # Errors
    /// As [`Self::goals`].
    pub(in crate::cmd::net) fn goals_or(
        &self,
        usual: GoalName,
    ) -> Result<Vec<(GoalName, Goal)>, Failure> {
        match self.search.is_empty() {
            true => self.named(&[usual]),
            false => self.named(&self.search),
        }
    }

    /// The distance of the bounds, if one is asked for.
    pub(in crate::cmd::net) fn width(&self) -> Option<f64> {
        self.goal_width
    }

    fn named(&self, names: &[GoalName]) -> Result<Vec<(GoalName, Goal)>, Failure> {
        let seconds = |time: Option<Duration>, of_goal| time.map_or(of_goal, |t| t.as_secs_f64());
        let goal = |name: &GoalName| {
            let goal = name.goal();
            let final_trial_s = seconds(self.goal_trial, goal.final_trial_s);
            Goal {
                final_trial_s,
                duration_sum_s: seconds(self.goal_sum, goal.duration_sum_s),
                initial_trial_s: goal.initial_trial_s.min(final_trial_s),
                exceed_ratio: self.goal_exceed.unwrap_or(goal.exceed_ratio),
                width: self.goal_width.unwrap_or(goal.width),
                ..goal
            }
        };
        let goals: Vec<(GoalName, Goal)> = names.iter().map(|name| (*name, goal(name))).collect();
        for (name, goal) in &goals {
            goal.check()
                .map_err(|why| Failure::usage(format!("--search {}: {why}", word(*name))))?;
        }
        if self.rate_min >= self.rate_max {
            return Err(Failure::usage(format!(
                "--rate-min {} is not below --rate-max {}",
                self.rate_min, self.rate_max
            )));
        }
        Ok(goals)
    }

    /// The limits, with these loads in packets a second.
    pub(in crate::cmd::net) fn settings(&self, load_min: f64, load_max: f64) -> Settings {
        Settings {
            duration_max_s: self.search_time.as_secs_f64(),
            ..Settings::between(load_min, load_max)
        }
    }

    /// The time of all searches of a test, roughly: bounds are a few loads, and each takes the sum of a goal.
    pub(in crate::cmd::net) fn time(&self) -> Duration {
        self.time_of(&self.named(&self.search).unwrap_or_default())
    }

    /// The same for these goals.
    pub(in crate::cmd::net) fn time_of(&self, goals: &[(GoalName, Goal)]) -> Duration {
        let sums = goals.iter().map(|(_, goal)| goal.duration_sum_s);
        // Of NDR and PDR together an ideal system takes 36 s, less than both sums.
        let once_s = (2.0 * sums.sum::<f64>()).min(self.search_time.as_secs_f64());
        Duration::from_secs_f64(once_s * self.searches as f64)
    }

    /// The record with what the goal asks for.
    pub(in crate::cmd::net) fn note(&self, record: Record, name: GoalName, goal: &Goal) -> Record {
        record
            .with("search", word(name))
            .with("goal_loss", goal.loss_ratio)
            .with("goal_trial", goal.final_trial_s)
            .with("goal_sum", goal.duration_sum_s)
            .with("goal_exceed", goal.exceed_ratio)
            .with("goal_width", goal.width)
            .with("rate_min", self.rate_min)
            .with("rate_max", self.rate_max)
            .with("searches", self.searches)
            .with("search_time", self.search_time.as_secs_f64())
    }
}

impl GoalName {
    fn goal(self) -> Goal {
        match self {
            Self::Ndr => Goal::NDR,
            Self::Pdr => Goal::PDR,
            Self::Rfc2544 => Goal::RFC2544,
            Self::Tst009 => Goal::TST009,
        }
    }
}
