//! What of a run is compared.

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

use dpb_core::measure::comparison::Better;
use dpb_core::measure::{Evidence, Outcome, Record};

use super::command::Run;
use crate::output;

/// What of a run is compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Metric {
    /// How long it takes.
    Wall,
    /// Its CPU time.
    Cpu,
    /// The last number that it prints.
    Stdout,
    /// A metric of the one record that it prints.
    Record(String),
}

impl FromStr for Metric {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(match text {
            "wall" => Self::Wall,
            "cpu" => Self::Cpu,
            "stdout" => Self::Stdout,
            name => Self::Record(name.to_owned()),
        })
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Wall => "wall",
            Self::Cpu => "cpu",
            Self::Stdout => "stdout",
            Self::Record(name) => name,
        })
    }
}

impl Metric {
    pub(super) fn needs_stdout(&self) -> bool {
        matches!(self, Self::Stdout | Self::Record(_))
    }

    /// Whether the larger value is the better one.
    pub(super) fn more_is_better(&self) -> bool {
        matches!(self, Self::Record(name) if Better::of(name) == Better::More)
    }

    /// The name of its samples in a record, the unit last.
    pub(super) fn in_records(&self) -> &str {
        match self {
            Self::Wall => "wall_ns",
            Self::Cpu => "cpu_ns",
            Self::Stdout => "stdout",
            Self::Record(name) => name,
        }
    }

    /// For a person.
    pub(super) fn text(&self, value: f64) -> String {
        match self.in_records() {
            name if name.ends_with("_ns") => output::short_ns(value),
            _ => output::short(value),
        }
    }

    /// The value of a run, and what it rests on.
    ///
    /// # Errors
    /// If the run has none.
    pub(super) fn of(&self, run: &Run) -> Result<(f64, Evidence), String> {
        match self {
            Self::Wall => Ok((run.wall_ns, Evidence::Measured)),
            Self::Cpu => Ok((run.cpu_ns, Evidence::Measured)),
            Self::Stdout => last_number(&run.stdout)
                .map(|value| (value, Evidence::Measured))
                .ok_or_else(|| "it printed no number".to_owned()),
            Self::Record(name) => {
                let record = the_record(&run.stdout)?;
                let summary = record.summary.get(name).ok_or_else(|| {
                    let known: Vec<&str> = record.summary.keys().map(String::as_str).collect();
                    format!(
                        "its record has no metric `{name}`; it has {}",
                        known.join(", ")
                    )
                })?;
                Ok((summary.median, record.evidence))
            }
        }
    }
}

/// The one record in what was printed, if it has numbers.
fn the_record(stdout: &str) -> Result<Record, String> {
    let lines = stdout.lines().filter(|line| line.starts_with('{'));
    let records: Vec<Record> = lines
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    let count = records.len();
    let [record] = <[Record; 1]>::try_from(records).map_err(|_| match count {
        0 => "it printed no record; dpb prints them with --format json".to_owned(),
        count => format!("it printed {count} records, and one is compared: narrow its parameters"),
    })?;
    match &record.outcome {
        Outcome::Done => Ok(record),
        _ => Err(format!("its test is {}", output::verdict(&record))),
    }
}

fn last_number(text: &str) -> Option<f64> {
    let words = text.split_whitespace().rev();
    words
        .filter_map(|word| word.parse().ok())
        .find(|number: &f64| number.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(stdout: &str) -> Run {
        Run {
            wall_ns: 2.0,
            cpu_ns: 1.0,
            stdout: stdout.to_owned(),
        }
    }

    #[test]
    fn numbers_come_from_the_clock_from_text_and_from_records() {
        let value = |metric: &str, stdout: &str| {
            let metric: Metric = metric.parse().unwrap();
            metric.of(&printed(stdout)).map(|(value, _)| value)
        };
        assert_eq!(value("wall", ""), Ok(2.0));
        assert_eq!(value("cpu", ""), Ok(1.0));
        assert_eq!(value("stdout", "took 5 ms\nrate: 1.5e3 ops\n"), Ok(1500.0));
        assert!(value("stdout", "nan inf done").is_err());
        let mut record = Record::new("op", Evidence::Measured, 1);
        record.sample("items_per_s", vec![3.0; 7]);
        let line = serde_json::to_string(&record).unwrap();
        assert_eq!(value("items_per_s", &line), Ok(3.0));
        assert!(
            value("bytes_per_s", &line)
                .unwrap_err()
                .contains("it has items_per_s")
        );
        assert!(
            value("items_per_s", &format!("{line}\n{line}"))
                .unwrap_err()
                .contains("2 records")
        );
        assert!(
            value("items_per_s", "")
                .unwrap_err()
                .contains("--format json")
        );
        let failed = record.without_numbers(Outcome::Failed {
            reason: "a wrong bit".into(),
        });
        let line = serde_json::to_string(&failed).unwrap();
        assert!(
            value("items_per_s", &line)
                .unwrap_err()
                .contains("a wrong bit")
        );
    }

    #[test]
    fn rates_are_better_when_they_are_larger() {
        let is = |name: &str| name.parse::<Metric>().unwrap().more_is_better();
        assert!(is("items_per_s"));
        assert!(!is("latency_ns_p99") && !is("wall") && !is("run_s"));
    }
}
