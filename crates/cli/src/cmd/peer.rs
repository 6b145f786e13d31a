//! Another program that measures the same, run as a process; its figures become a record beside dpb's.

use std::io::{self, Read};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use dpb_core::measure::import::{Origin, Program};
use dpb_core::measure::{Evidence, Interference, Outcome, Record, Watch};

use super::sweep::{conclude, parameter};
use crate::interrupt;

/// How often the signal and the process are looked at.
const LOOK: Duration = Duration::from_millis(10);
/// A client that finds no server is started again after this time, and so often.
const TRY_AGAIN: Duration = Duration::from_millis(100);
const TRIES_MAX: u32 = 50;
/// The last words of a program that failed, at most.
const SAID_BYTES_MAX: usize = 1000;

/// One run of a program.
pub(super) enum Ran {
    /// What it printed.
    Printed(String),
    /// An interrupt ended it.
    Interrupted,
    /// It is not installed, and what to do.
    Missing(String),
    /// It failed, and what it said.
    Failed(String),
}

/// Runs it to its end, until an interrupt, or for `time_max`.
pub(super) fn run(program: Program, words: &[String], time_max: Option<Duration>) -> Ran {
    let name = program.name();
    let (first, rest) = words.split_first().expect("a command has a word");
    let mut command = Command::new(first);
    command.args(rest).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ran::Missing(format!("{first} is not installed; apt-get install {name}"));
        }
        Err(error) => return Ran::Failed(format!("{first} cannot be started: {error}")),
    };
    let readers = (
        child.stdout.take().map(reader),
        child.stderr.take().map(reader),
    );
    let ended = wait(&mut child, time_max);
    let text = |reader: Option<thread::JoinHandle<String>>| {
        reader
            .and_then(|reader| reader.join().ok())
            .unwrap_or_default()
    };
    let (out, error) = (text(readers.0), text(readers.1));
    match ended {
        Ok(Ended::Well) => Ran::Printed(out),
        Ok(Ended::Interrupted) => Ran::Interrupted,
        Ok(Ended::TooLate) => Ran::Failed(format!(
            "{first} did not end within {} s",
            time_max.unwrap_or_default().as_secs_f64()
        )),
        Ok(Ended::Badly) => {
            let said = format!("{out}\n{error}");
            let from = said.floor_char_boundary(said.len().saturating_sub(SAID_BYTES_MAX));
            Ran::Failed(format!("{first} failed: {}", said[from..].trim()))
        }
        Err(error) => Ran::Failed(format!("{first}: {error}")),
    }
}

/// Reads to the end on a thread, so that no pipe fills up.
fn reader(mut from: impl Read + Send + 'static) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = from.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// How a process ended.
enum Ended {
    Well,
    Badly,
    Interrupted,
    TooLate,
}

/// Waits for its end. An interrupt ends it, and so does `time_max`.
fn wait(child: &mut Child, time_max: Option<Duration>) -> io::Result<Ended> {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(match status.success() {
                true => Ended::Well,
                false if interrupt::has_ended(status) => Ended::Interrupted,
                false => Ended::Badly,
            });
        }
        let ended = match time_max {
            _ if interrupt::is_set() => Ended::Interrupted,
            Some(longest) if started.elapsed() > longest => Ended::TooLate,
            _ => {
                thread::sleep(LOOK);
                continue;
            }
        };
        child.kill()?;
        child.wait()?;
        return Ok(ended);
    }
}

/// What a peer is told, and which of its figures become which.
pub(super) struct Peer<'a> {
    pub(super) program: Program,
    /// The command, or why it cannot do this test.
    pub(super) command: Result<Vec<String>, String>,
    pub(super) repeat: usize,
    /// How long one of its runs takes, where it is told a time.
    pub(super) seconds: Option<f64>,
    /// The time after which a run is ended, where another machine may keep it waiting.
    pub(super) time_max: Option<Duration>,
    pub(super) workers: u64,
    /// The importer's name of a figure, ours, and by how much it is multiplied.
    pub(super) figures: &'a [(&'static str, &'static str, f64)],
    /// The figure that says whether the runs are stable.
    pub(super) judged: &'static str,
    /// What is done before each run.
    pub(super) before: &'a dyn Fn(),
    /// What a client says that finds no server. It is started again for a while, as its server starts anew for each run.
    pub(super) no_server: Option<&'static str>,
}

/// What all runs of a peer gave.
struct Series {
    /// The importer's records of each run, one a direction.
    runs: Vec<Vec<Record>>,
    interference: Interference,
    interrupted: bool,
}

/// Runs a peer as often as dpb has run. Of a program that reports directions apart there is a record for each.
pub(super) fn records(blank: &Record, peer: &Peer<'_>) -> Vec<Record> {
    let mut blank = blank.clone().with("tool", peer.program.name());
    if let Some(seconds) = peer.seconds {
        blank = blank.with("seconds", seconds);
    }
    let series = match &peer.command {
        Ok(words) => peer.series(words),
        Err(reason) => Err(Outcome::Unsupported {
            reason: reason.clone(),
        }),
    };
    match series {
        Err(outcome) => vec![blank.without_numbers(outcome)],
        Ok(series) => match series.runs.first().map_or(0, Vec::len) {
            0 => vec![blank.without_numbers(Outcome::Interrupted)],
            directions => (0..directions)
                .map(|at| peer.record(blank.clone(), &series, at))
                .collect(),
        },
    }
}

impl Peer<'_> {
    fn series(&self, words: &[String]) -> Result<Series, Outcome> {
        let origin = Origin {
            host: None,
            evidence: Evidence::Measured,
        };
        let name = self.program.name();
        let failed = |reason| Err(Outcome::Failed { reason });
        let watch = Watch::start();
        let (mut runs, mut interrupted) = (Vec::new(), false);
        for _ in 0..self.repeat {
            (self.before)();
            match self.run(words) {
                Ran::Printed(text) => match self.program.records(&text, &origin) {
                    Ok(records) => runs.push(records),
                    Err(error) => {
                        return failed(format!("what {name} printed cannot be read: {error}"));
                    }
                },
                Ran::Interrupted => {
                    interrupted = true;
                    break;
                }
                Ran::Missing(reason) => return Err(Outcome::Unsupported { reason }),
                Ran::Failed(reason) => return failed(reason),
            }
        }
        Ok(Series {
            runs,
            interference: watch.stop(),
            interrupted,
        })
    }

    /// One run; of a client that finds no server, the first that finds one.
    fn run(&self, words: &[String]) -> Ran {
        let mut tries = 0;
        loop {
            match (run(self.program, words, self.time_max), self.no_server) {
                (Ran::Failed(said), Some(sign)) if said.contains(sign) && tries < TRIES_MAX => {
                    tries += 1;
                    thread::sleep(TRY_AGAIN);
                }
                (Ran::Failed(said), Some(sign)) if said.contains(sign) => {
                    return Ran::Failed(format!(
                        "{said}; the other side must have --beside, and the same program"
                    ));
                }
                (ran, _) => return ran,
            }
        }
    }

    /// The record of a direction, by its place among them.
    fn record(&self, mut record: Record, series: &Series, at: usize) -> Record {
        let runs: Vec<&Record> = series.runs.iter().filter_map(|run| run.get(at)).collect();
        record.provenance.command = self.command.clone().unwrap_or_default();
        for run in &runs {
            let libraries = run.provenance.libraries.clone();
            record.provenance.libraries.extend(libraries);
        }
        if series.runs[0].len() > 1 {
            record = record.with("direction", parameter(runs[0], "direction"));
        }
        for (theirs, ours, factor) in self.figures {
            let samples = runs.iter().filter_map(|run| run.samples.get(*theirs));
            let values = samples.filter_map(|samples| samples.values.first());
            let values: Vec<f64> = values.map(|value| value * factor).collect();
            if !values.is_empty() {
                record.sample(ours, values);
            }
        }
        let judged = record.samples.get(self.judged);
        let values = judged.map_or_else(Vec::new, |samples| samples.values.clone());
        conclude(
            &mut record,
            &values,
            self.repeat,
            self.workers,
            &series.interference,
            series.interrupted,
        );
        record
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A program that would run for a minute, and says who it is first.
    #[test]
    fn a_program_that_takes_too_long_is_ended_and_is_gone() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("process");
        let script = format!("echo $$ > {}; exec sleep 60", file.display());
        let words = ["sh", "-c", &script].map(str::to_owned);
        let ran = run(Program::Perftest, &words, Some(Duration::from_secs(1)));
        let Ran::Failed(why) = ran else {
            panic!("it did not run for a minute");
        };
        assert!(why.contains("did not end within 1 s"), "{why}");
        let process = fs::read_to_string(file).expect("it ran");
        let folder = format!("/proc/{}", process.trim());
        assert!(!fs::exists(&folder).expect("/proc"), "{folder} is there");
    }
}
