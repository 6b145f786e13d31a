//! `dpb ab`: two commands in turns, until it is known which one is faster or the time is up.

mod command;
mod metric;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use dpb_core::measure::comparison::{Better, Declared};
use dpb_core::measure::turns::{Estimate, MISS_MAX, Turns, Verdict};
use dpb_core::measure::{Durability, Evidence, Outcome, Record, Summary};
use dpb_core::random::SplitMix64;

use self::command::Command;
use self::metric::Metric;
use crate::args::{self, Regression};
use crate::exit::Failure;
use crate::output::{self, Column, Progress, Table};
use crate::{Globals, interrupt};

/// The task's name in records.
pub(super) const TASK: &str = "ab";

/// What its records are about: how much better B is than A, whichever values are the better ones. Records of older versions have
/// only the ratio, most of them of times.
pub(super) fn metrics() -> Vec<Declared> {
    let metric = |name: &str, better| Declared {
        name: name.to_owned(),
        better,
    };
    vec![metric("gain", Better::More), metric("ratio", Better::Less)]
}

/// The sides' names.
const SIDES: [&str; 2] = ["A", "B"];

/// Which commands, and how they are compared.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "dpb ab [OPTIONS] -- A [ARGUMENTS]... -- B [ARGUMENTS]...",
    after_help = "Both run again and again, one right behind the other, in an order that is drawn. dpb looks at the ratio of the pairs as they come, and \
                  stops when its interval leaves out 1, or lies within the margin. A thing beside itself is called different once in 100 \
                  times at most.\n\
                  Examples:\n  dpb ab -- ./old input -- ./new input\n  \
                  dpb ab --measure cpu --fail-on worse:2% -- ./old -- ./new\n  \
                  dpb ab -- env DPB_CPU_LEVEL=x86-64-v3 ./program -- ./program\n  \
                  dpb ab --measure items_per_s -- ./dpb-old op crc32c --size 64 --backend cpu/best --format json \
                  -- ./dpb-new op crc32c --size 64 --backend cpu/best --format json"
)]
pub struct Args {
    /// What is compared: wall (the time that a run takes), cpu (the CPU time of the process and its children), stdout (the last number that it
    /// prints), or a metric of the record that it prints (`items_per_s`)
    #[arg(long, default_value = "wall", value_name = "METRIC")]
    measure: Metric,
    /// With --measure stdout: a larger number is the better one
    #[arg(long)]
    more_is_better: bool,
    /// A difference this small is none
    #[arg(long, value_parser = args::share, default_value = "1%")]
    margin: f64,
    /// Stop after this time, decided or not
    #[arg(long, value_parser = args::duration, default_value = "2m")]
    time_budget: Duration,
    /// Exit with 1 if B is surely worse than A, and by so much or more
    #[arg(long, value_name = "worse:SHARE")]
    fail_on: Option<Regression>,
    /// Runs of each side that do not count, before the first pair
    #[arg(long, default_value = "1")]
    warm_up_runs: u32,
    /// The seed of the order
    #[arg(long, default_value = "1")]
    seed: u64,
    /// The word that stands between the two commands
    #[arg(long, default_value = "--", value_name = "WORD")]
    between: String,
    /// Append the record to this file, in a folder that is there
    #[arg(long)]
    out: Option<PathBuf>,
    /// The commands
    #[arg(last = true, required = true, value_name = "COMMANDS")]
    commands: Vec<String>,
}

/// Measures, and says what was found.
pub fn run(args: Args, globals: &Globals) -> Result<(), Failure> {
    interrupt::flag();
    let mut store = match &args.out {
        Some(path) => Some(output::open_records(path, Durability::Machine)?),
        None => None,
    };
    let compared = Measured::run(&args, globals)?;
    let record = compared.record(&args);
    if let Some(store) = &mut store {
        store.append(&record).map_err(anyhow::Error::from)?;
    }
    output::print_rows(globals.format(), &compared.table(), &[record])?;
    if globals.format() == output::Format::Table {
        output::print(&format!("{}\n", compared.sentence()))?;
    }
    if compared.is_interrupted {
        return Err(Failure::interrupted(
            "interrupted; the record has the pairs that were complete",
        ));
    }
    match (&args.fail_on, compared.estimate) {
        (Some(limit), Some(estimate))
            if limit.is_met(compared.gain(estimate.ratio), compared.is_worse()) =>
        {
            Err(Failure::check(format!("B is worse than A, by {limit}")))
        }
        _ => Ok(()),
    }
}

/// What was measured and found.
struct Measured {
    commands: [Command; 2],
    metric: Metric,
    more_is_better: bool,
    /// Of each side, in the order in which pairs were measured.
    values: [Vec<f64>; 2],
    evidence: Evidence,
    verdict: Verdict,
    estimate: Option<Estimate>,
    is_interrupted: bool,
}

impl Measured {
    fn run(args: &Args, globals: &Globals) -> Result<Self, Failure> {
        let commands = sides(&args.commands, &args.between)?;
        let metric = args.measure.clone();
        if args.more_is_better && metric != Metric::Stdout {
            return Err(Failure::usage(
                "--more-is-better is for --measure stdout; of the others dpb knows it",
            ));
        }
        let end = Instant::now() + args.time_budget;
        let mut random = SplitMix64::new(args.seed);
        let mut turns = Turns::new(args.margin);
        let mut compared = Self {
            more_is_better: args.more_is_better || metric.more_is_better(),
            commands,
            metric,
            values: [Vec::new(), Vec::new()],
            evidence: Evidence::Measured,
            verdict: Verdict::TooClose,
            estimate: None,
            is_interrupted: false,
        };
        for side in 0..2 {
            for _ in 0..args.warm_up_runs {
                if let Some((_, evidence)) = compared.measure(side, &mut random, end)? {
                    compared.evidence = evidence;
                }
            }
        }
        let progress = Progress::new(args.time_budget.as_secs().max(1), globals.quiet);
        while !interrupt::is_set() && Instant::now() < end {
            let first = random.below(2);
            let mut pair = [0.0; 2];
            let mut evidence = [Evidence::Measured, Evidence::Measured];
            let mut is_whole = true;
            for side in [first, 1 - first] {
                match compared.measure(side, &mut random, end)? {
                    Some(measured) => (pair[side], evidence[side]) = measured,
                    None => is_whole = false,
                }
            }
            if !is_whole {
                break;
            }
            let [of_a, of_b] = evidence;
            if of_a != of_b {
                return Err(Failure::usage(
                    "the two sides' records are of different evidence, and such numbers share no ratio",
                ));
            }
            compared.evidence = of_a;
            for (values, value) in compared.values.iter_mut().zip(pair) {
                values.push(value);
            }
            turns.push(pair[0], pair[1]);
            let is_decided = turns.look();
            let left = end.saturating_duration_since(Instant::now());
            let now = turns.estimate().map_or_else(String::new, |estimate| {
                let (low, high) = estimate.interval;
                format!(", B/A {:.4} [{low:.4}, {high:.4}]", estimate.ratio)
            });
            let what = format!(
                "{} pairs{now}, {} s left at most",
                turns.pairs(),
                left.as_secs()
            );
            progress.set((args.time_budget - left).as_secs(), &what);
            if is_decided {
                break;
            }
        }
        compared.is_interrupted = interrupt::is_set();
        (compared.verdict, compared.estimate) = turns.finish();
        Ok(compared)
    }

    /// One run of a side: its value, and what it rests on. `None` if it was interrupted, or not done when the time was up.
    fn measure(
        &self,
        side: usize,
        random: &mut SplitMix64,
        end: Instant,
    ) -> Result<Option<(f64, Evidence)>, Failure> {
        let (command, name) = (&self.commands[side], SIDES[side]);
        let named = |why: String| Failure::check(format!("{name}, `{command}`: {why}"));
        // The length of the environment moves a program's stack, and thereby its speed (Mytkowicz et al. 2009): each run draws one.
        let padding = random.below(command::PADDING_MAX);
        let needs_stdout = self.metric.needs_stdout();
        let Some(run) = command.run(padding, needs_stdout, end).map_err(named)? else {
            let is_first = self.values[side].is_empty() && !interrupt::is_set();
            return match is_first {
                true => Err(named(
                    "its first run was not done when the time was up; see --time-budget".to_owned(),
                )),
                false => Ok(None),
            };
        };
        let (value, evidence) = self.metric.of(&run).map_err(named)?;
        match value.is_finite() && value > 0.0 {
            true => Ok(Some((value, evidence))),
            false => Err(named(format!("{value} {} gives no ratio", self.metric))),
        }
    }

    /// How much better a ratio makes B: above 1 it is better.
    fn gain(&self, ratio: f64) -> f64 {
        match self.more_is_better {
            true => ratio,
            false => 1.0 / ratio,
        }
    }

    fn is_worse(&self) -> bool {
        match self.verdict {
            Verdict::Less => self.more_is_better,
            Verdict::More => !self.more_is_better,
            Verdict::Same | Verdict::TooClose => false,
        }
    }

    /// In a word.
    fn word(&self) -> &'static str {
        match self.verdict {
            Verdict::Same => "same",
            Verdict::TooClose => "too close to call",
            Verdict::Less | Verdict::More if self.is_worse() => "worse",
            Verdict::Less | Verdict::More => "better",
        }
    }

    fn sentence(&self) -> String {
        let pairs = self.values[0].len();
        let Some(Estimate {
            ratio,
            interval: (low, high),
        }) = self.estimate
        else {
            return format!(
                "B is {} in {pairs} pairs: too few for an interval",
                self.word()
            );
        };
        let confidence = (1.0 - MISS_MAX) * 100.0;
        let found = match self.verdict {
            Verdict::Same => "B is the same as A".to_owned(),
            Verdict::TooClose => "B and A are too close to call".to_owned(),
            Verdict::Less | Verdict::More => format!("B is {} than A", self.word()),
        };
        format!(
            "{found}: B/A is {ratio:.4}, {confidence:.0} % interval {low:.4} to {high:.4}, {pairs} pairs"
        )
    }

    fn table(&self) -> Table {
        let mut table = Table::new([
            Column::left("side"),
            Column::right(self.metric.to_string()),
            Column::right("fastest quarter"),
            Column::right("slowest quarter"),
            Column::right("runs"),
            Column::left("command"),
        ]);
        for ((name, command), values) in SIDES.iter().zip(&self.commands).zip(&self.values) {
            let mut sorted = values.clone();
            sorted.sort_unstable_by(f64::total_cmp);
            let at = |part: usize| {
                let value =
                    sorted.get((sorted.len() * part / 4).min(sorted.len().saturating_sub(1)));
                value.map_or_else(|| "-".to_owned(), |&value| self.metric.text(value))
            };
            let (best, worst) = if self.more_is_better { (3, 1) } else { (1, 3) };
            table.row([
                (*name).to_owned(),
                at(2),
                at(best),
                at(worst),
                values.len().to_string(),
                command.to_string(),
            ]);
        }
        table
    }

    fn record(&self, args: &Args) -> Record {
        let [a, b] = &self.commands;
        let mut record = Record::new(TASK, self.evidence.clone(), args.seed)
            .with("a", a.to_string())
            .with("b", b.to_string())
            .with("measure", self.metric.to_string())
            .with("margin", args.margin)
            .with("time_budget", args.time_budget.as_secs_f64())
            .with("warm_up_runs", u64::from(args.warm_up_runs))
            .with("verdict", self.word());
        if self.is_interrupted {
            record.outcome = Outcome::Interrupted;
        }
        let name = self.metric.in_records();
        for (side, values) in ["a", "b"].iter().zip(&self.values) {
            record.sample(&format!("{side}_{name}"), values.clone());
        }
        let ratios = self.values[0]
            .iter()
            .zip(&self.values[1])
            .map(|(a, b)| b / a);
        let ratios: Vec<f64> = ratios.collect();
        let gains = ratios.iter().map(|&ratio| self.gain(ratio)).collect();
        record.sample("gain", gains);
        record.sample("ratio", ratios);
        if let Some(estimate) = self.estimate {
            // Wider than 95 %, for it holds at every look.
            let (low, high) = estimate.interval;
            let summary = |median: f64, one: f64, other: f64| Summary {
                median,
                ci95_low: Some(one.min(other)),
                ci95_high: Some(one.max(other)),
                samples: self.values[0].len() as u64,
            };
            let ratio = summary(estimate.ratio, low, high);
            let gain = summary(self.gain(estimate.ratio), self.gain(low), self.gain(high));
            record.summary.insert("ratio".to_owned(), ratio);
            record.summary.insert("gain".to_owned(), gain);
        }
        record.counts = BTreeMap::from([("pairs".to_owned(), self.values[0].len() as u64)]);
        record
    }
}

/// The two commands, which the word `between` parts.
fn sides(words: &[String], between: &str) -> Result<[Command; 2], Failure> {
    let parts: Vec<&[String]> = words.split(|word| word == between).collect();
    match parts[..] {
        [a, b] if !a.is_empty() && !b.is_empty() => Ok([Command::new(a), Command::new(b)]),
        _ => Err(Failure::usage(format!(
            "two commands are compared, with `{between}` between them, as in `dpb ab -- ./old {between} ./new`; there are {} (see --between)",
            parts.iter().filter(|part| !part.is_empty()).count()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_parted_by_the_word_between() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let [a, b] = sides(&words("./a -x -- ./b y"), "--").unwrap();
        assert_eq!(
            (a.to_string().as_str(), b.to_string().as_str()),
            ("./a -x", "./b y")
        );
        let [a, b] = sides(&words("cargo run -- x // y"), "//").unwrap();
        assert_eq!(
            (a.to_string().as_str(), b.to_string().as_str()),
            ("cargo run -- x", "y")
        );
        for wrong in ["./a", "./a --", "-- ./a", "a -- b -- c"] {
            assert!(sides(&words(wrong), "--").is_err(), "{wrong}");
        }
    }
}
