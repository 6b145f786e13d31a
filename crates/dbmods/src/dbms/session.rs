//! Queries in a process of their own, so that memory, CPU time and reads are those of the queries.
//!
//! The process is told what to open by its first line of input, [`Opening`], and says what that took. Each further line is a query's number,
//! answered by a line that says what the run took and has its rows. It ends when its input does.

use std::cell::Cell;
use std::fs;
use std::io::{self, BufRead, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use dpb_core::measure::provenance::memory_available_bytes;
use dpb_core::measure::{Interference, Watch};
use dpb_core::{Clock, WallClock};
use dpb_link::Connect;
use serde::{Deserialize, Serialize};

use super::answer::Answer;
use super::fetch::FetchingDuckDb;
use super::pushed::{PushedDuckDb, ScanNote};
use super::queries;
use super::source::{AgentError, AgentSource, OwnSource, Pace};
use super::stock::{Settings, Stock};
use crate::duckdb::{Library, Missing, v2};
use crate::service::usage;
use crate::tpch;

/// The tables and settings that a process opens.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Opening {
    /// The tables, and who scans them.
    pub engine: Engine,
    /// DuckDB's threads, and those of each scan elsewhere.
    pub threads: u32,
    /// Bytes of memory that DuckDB may hold; `None` for its own limit.
    pub memory_bytes_max: Option<u64>,
    /// The folder that DuckDB spills into.
    pub spill: PathBuf,
}

/// The tables, and who scans them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Engine {
    /// DuckDB, in a file of its own.
    DuckDb {
        /// The file.
        path: PathBuf,
    },
    /// Our scan, of segments in this process.
    Own {
        /// The folder that data is kept in.
        data_dir: PathBuf,
        /// TPC-H's scale factor.
        scale_factor: f64,
    },
    /// Our scan, at an agent.
    Agent(AgentAt),
    /// DuckDB, over files of its own that come from an agent each time.
    Fetch(AgentAt),
}

/// An agent on this machine, or one whose credentials lie in a file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AgentAt {
    /// Its address.
    pub address: String,
    /// The token that it wants to be shown.
    pub token: Option<String>,
    /// The file of its credentials: the connection is encrypted.
    pub credentials: Option<PathBuf>,
    /// TPC-H's scale factor.
    pub scale_factor: f64,
    /// The pace of the link, bits per second; 0 for none.
    pub link_bits_per_s: u64,
    /// True if rows come in fewer bytes, at the cost of both sides' cores.
    pub is_compact: bool,
}

/// The resources that something took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Took {
    /// Wall-clock seconds.
    pub elapsed_s: f64,
    /// CPU time of the process, seconds.
    pub cpu_s: f64,
    /// Most memory of the process, bytes.
    pub peak_bytes: u64,
    /// Bytes that the process had read from storage; `None` where the kernel does not say.
    pub read_bytes: Option<u64>,
    /// Seconds for which threads of the process waited for a core.
    pub core_wait_s: Option<f64>,
    /// Involuntary context switches of its threads.
    pub context_switches_involuntary: Option<u64>,
    /// CPU time that the hypervisor gave to others, seconds.
    pub steal_s: Option<f64>,
}

/// A run of a query.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The resources that it took, from the statement to its last row.
    pub took: Took,
    /// Its rows.
    pub answer: Answer,
    /// Notes of the scans, where they are not DuckDB's own.
    pub scans: Vec<ScanNote>,
    /// Bytes that came over a link.
    pub link_bytes: u64,
}

/// A line that the process says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Said {
    /// It is ready for queries.
    Opened(Took),
    /// A query ran.
    Ran(Box<Run>),
    /// A query or the opening failed.
    Failed(String),
    /// This machine lacks something.
    Unsupported(String),
    /// The agent could not be asked.
    Agent(AgentError),
}

/// An engine, open for queries.
enum Opened {
    Stock(Stock),
    Pushed(PushedDuckDb),
    Fetching(Box<FetchingDuckDb>),
}

/// Gives the way to connect to an agent, or the reason why there is none.
pub type Connecting<'a> = &'a dyn Fn(&AgentAt) -> Result<Connect, String>;

/// Answers until the input ends. `connect` knows how to show an agent who asks.
///
/// # Errors
/// If the input cannot be read or the output not be written.
pub fn serve(input: impl BufRead, output: impl Write, connect: Connecting<'_>) -> io::Result<()> {
    let clock = Arc::new(WallClock::default());
    serve_by(clock, &Library::find, input, output, connect)
}

/// The same by a clock, with the library that `find` loads.
fn serve_by(
    clock: Arc<dyn Clock>,
    find: &dyn Fn() -> Result<Library, Missing>,
    input: impl BufRead,
    mut output: impl Write,
    connect: Connecting<'_>,
) -> io::Result<()> {
    let mut lines = input.lines();
    let Some(first) = lines.next().transpose()? else {
        return Ok(());
    };
    let mut opened = match serde_json::from_str::<Opening>(&first) {
        Err(error) => {
            return say(
                &mut output,
                &Said::Failed(format!("its first line: {error}")),
            );
        }
        Ok(opening) => {
            // Not timed: libraries stay in the page cache.
            let library = match find() {
                Err(missing) => {
                    return say(&mut output, &Said::Unsupported(missing.to_string()));
                }
                Ok(library) => library,
            };
            let watched = Watched::start(&clock);
            match opening.open(library, connect) {
                Err(said) => return say(&mut output, &said),
                Ok(opened) => {
                    say(&mut output, &Said::Opened(watched.stop()))?;
                    opened
                }
            }
        }
    };
    for line in lines {
        let line = line?;
        let query = line.trim().parse().ok().and_then(queries::query);
        let said = match query {
            None => Said::Failed(format!("`{line}` is no query of TPC-H's")),
            Some(query) => opened.run(query, &clock),
        };
        say(&mut output, &said)?;
    }
    Ok(())
}

fn say(output: &mut impl Write, said: &Said) -> io::Result<()> {
    let line = serde_json::to_string(said).map_err(io::Error::other)?;
    output.write_all(line.as_bytes())?;
    output.write_all(b"\n")?;
    output.flush()
}

impl Opening {
    fn open(self, library: Library, connect: Connecting<'_>) -> Result<Opened, Said> {
        let failed = |error: &dyn std::fmt::Display| Said::Failed(error.to_string());
        let pushed = |source| {
            v2::check_version(library.version()).map_err(Said::Unsupported)?;
            let opened = PushedDuckDb::open(
                library,
                source,
                self.threads as usize,
                self.memory_bytes_max,
                self.spill.clone(),
            );
            opened.map(Opened::Pushed).map_err(Said::Failed)
        };
        match self.engine {
            Engine::DuckDb { path } => {
                let settings = Settings {
                    threads: self.threads as usize,
                    memory_bytes_max: self.memory_bytes_max,
                    spill: self.spill,
                };
                let stock = Stock::open(library, &path, &settings);
                Ok(Opened::Stock(stock.map_err(|error| failed(&error))?))
            }
            Engine::Fetch(agent) => {
                let settings = Settings {
                    threads: self.threads as usize,
                    memory_bytes_max: self.memory_bytes_max,
                    spill: self.spill,
                };
                let at = connect(&agent).map_err(Said::Failed)?;
                let fetching = FetchingDuckDb::connect(library, at, agent.scale_factor, settings);
                let fetching = fetching.map_err(Said::Agent)?;
                match fetching.missing() {
                    Some(missing) => Err(Said::Unsupported(missing)),
                    None => Ok(Opened::Fetching(Box::new(fetching))),
                }
            }
            Engine::Own {
                data_dir,
                scale_factor,
            } => {
                let set = tpch::find(&data_dir, scale_factor);
                let source = OwnSource::open(&set, self.threads as usize);
                pushed(Arc::new(source.map_err(|error| failed(&error))?))
            }
            Engine::Agent(agent) => {
                let pace = Pace::new(agent.link_bits_per_s, Arc::new(WallClock::default()));
                let connect = connect(&agent).map_err(Said::Failed)?;
                let source = AgentSource::connect(
                    connect,
                    agent.scale_factor,
                    self.threads,
                    pace,
                    agent.is_compact,
                );
                pushed(Arc::new(source.map_err(Said::Agent)?))
            }
        }
    }
}

impl Opened {
    fn run(&mut self, query: &queries::TpchQuery, clock: &Arc<dyn Clock>) -> Said {
        if let Self::Fetching(fetching) = &*self
            && let Some(shortage) = fetching.shortage(query, memory_available_bytes())
        {
            return Said::Unsupported(shortage);
        }
        let watched = Watched::start(clock);
        let mut took = None;
        let ended = || took = Some(watched.stop());
        let outcome = match self {
            Self::Stock(stock) => stock
                .run(query.sql, ended)
                .map(|answer| (answer, Vec::new(), 0)),
            Self::Fetching(fetching) => fetching
                .run(query, &mut || watched.pause(), ended)
                .map(|(answer, fetched)| (answer, Vec::new(), fetched.link_bytes)),
            Self::Pushed(pushed) => pushed.run(query, ended).map(|(answer, scans)| {
                // The next run's plan knows what this one has seen.
                pushed.expect(&scans);
                let link_bytes = scans.iter().map(|scan| scan.counts.link_bytes).sum();
                (answer, scans, link_bytes)
            }),
        };
        if let (Self::Fetching(fetching), Some(took)) = (&*self, &mut took) {
            took.peak_bytes += fetching.file_bytes();
        }
        match (outcome, took) {
            (Ok((answer, scans, link_bytes)), Some(took)) => Said::Ran(Box::new(Run {
                took,
                answer,
                scans,
                link_bytes,
            })),
            (Ok(_), None) => Said::Failed("the run's end was not seen".to_owned()),
            (Err(why), _) => Said::Failed(format!("{}: {why}", query.name())),
        }
    }
}

/// This process while something runs.
struct Watched {
    watch: Watch,
    clock: Arc<dyn Clock>,
    started_ns: u64,
    cpu_s: f64,
    read_bytes: Option<u64>,
    /// The time that is left out so far, and since when more is.
    left_out: Cell<(u64, Option<u64>)>,
}

impl Watched {
    fn start(clock: &Arc<dyn Clock>) -> Self {
        let cpu_s = usage::of_this_process(true).cpu_s;
        Self {
            watch: Watch::start(),
            started_ns: clock.now_ns(),
            clock: Arc::clone(clock),
            cpu_s,
            read_bytes: read_bytes(),
            left_out: Cell::default(),
        }
    }

    /// Begins to leave time out, or ends it.
    fn pause(&self) {
        let now_ns = self.clock.now_ns();
        self.left_out.set(match self.left_out.get() {
            (so_far_ns, None) => (so_far_ns, Some(now_ns)),
            (so_far_ns, Some(since_ns)) => (so_far_ns + now_ns.saturating_sub(since_ns), None),
        });
    }

    fn stop(&self) -> Took {
        let started_ns = self.started_ns + self.left_out.get().0;
        let elapsed_s = self.clock.now_ns().saturating_sub(started_ns) as f64 / 1e9;
        let Interference {
            core_wait_s,
            context_switches_involuntary,
            steal_s,
            ..
        } = self.watch.stop();
        let usage = usage::of_this_process(false);
        let read_bytes = read_bytes().zip(self.read_bytes);
        Took {
            elapsed_s,
            cpu_s: usage.cpu_s - self.cpu_s,
            peak_bytes: usage.peak_bytes,
            read_bytes: read_bytes.map(|(after, before)| after.saturating_sub(before)),
            core_wait_s,
            context_switches_involuntary,
            steal_s,
        }
    }
}

/// Bytes that this process has had read from storage (proc(5), `/proc/self/io`).
fn read_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/io").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("read_bytes:"))?;
    line.trim().parse().ok()
}

impl Took {
    /// The resources that two things took one after the other; the memory is that of the larger one.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        let sum = |a: Option<f64>, b: Option<f64>| a.zip(b).map(|(a, b)| a + b);
        let count = |a: Option<u64>, b: Option<u64>| a.zip(b).map(|(a, b)| a + b);
        Self {
            elapsed_s: self.elapsed_s + other.elapsed_s,
            cpu_s: self.cpu_s + other.cpu_s,
            peak_bytes: self.peak_bytes.max(other.peak_bytes),
            read_bytes: count(self.read_bytes, other.read_bytes),
            core_wait_s: sum(self.core_wait_s, other.core_wait_s),
            context_switches_involuntary: count(
                self.context_switches_involuntary,
                other.context_switches_involuntary,
            ),
            steal_s: sum(self.steal_s, other.steal_s),
        }
    }

    /// The disturbances while it ran.
    pub fn interference(&self) -> Interference {
        Interference {
            wall_s: Duration::from_secs_f64(self.elapsed_s.max(0.0)).as_secs_f64(),
            core_wait_s: self.core_wait_s,
            context_switches_involuntary: self.context_switches_involuntary,
            steal_s: self.steal_s,
        }
    }
}

#[cfg(test)]
mod tests {
    use dpb_core::{Timer, VirtualClock};

    use super::*;
    use crate::duckdb::tests::library;

    /// The lines that a process says which is told these, by a clock that only loading the library moves.
    fn said(lines: &[String], loads: Duration) -> Option<Vec<Said>> {
        library()?;
        let clock = Arc::new(VirtualClock::new(false));
        let find = || {
            clock.sleep(loads);
            Library::find()
        };
        let (input, mut output) = (lines.join("\n"), Vec::new());
        let connect = |_: &AgentAt| Err("there is no agent".to_owned());
        serve_by(
            clock.clone(),
            &find,
            input.as_bytes(),
            &mut output,
            &connect,
        )
        .unwrap();
        let lines = String::from_utf8(output).unwrap();
        let said = lines
            .lines()
            .map(|line| serde_json::from_str(line).unwrap());
        Some(said.collect())
    }

    fn opening(engine: Engine, folder: &std::path::Path) -> String {
        let opening = Opening {
            engine,
            threads: 1,
            memory_bytes_max: None,
            spill: folder.to_owned(),
        };
        serde_json::to_string(&opening).unwrap()
    }

    #[test]
    fn loading_the_library_is_no_part_of_opening() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("empty.duckdb");
        let made = library().map(|library| {
            let config = crate::duckdb::Config::default();
            crate::duckdb::Database::open(library, Some(&path), &config).unwrap()
        });
        drop(made);
        let opening = opening(Engine::DuckDb { path }, folder.path());
        let Some(said) = said(&[opening], Duration::from_secs(60)) else {
            return;
        };
        let [Said::Opened(took)] = &said[..] else {
            panic!("{said:?}");
        };
        assert_eq!(took.elapsed_s, 0.0);
    }
}
