//! One test after another: each engine in turn, every answer checked, records from what the runs took.

use std::collections::BTreeMap;

use dpb_core::measure::{Check, Interference, Outcome, Record};
use dpb_dbmods::dbms::answer::Answer;
use dpb_dbmods::dbms::answers;
use dpb_dbmods::dbms::database::TpchDatabase;
use dpb_dbmods::dbms::pushed::ScanNote;
use dpb_dbmods::dbms::queries::TpchQuery;
use dpb_dbmods::dbms::session::{Run, Took};
use dpb_dbmods::duckdb::Library;

use super::process::{Answering, Ended};
use super::side::Side;
use super::{Args, EngineName, State};
use crate::cmd::sweep;
use crate::exit::Failure;
use crate::interrupt;

/// One test, the same for all engines.
#[derive(Clone, Copy, Debug)]
pub(super) struct Test {
    pub(super) query: &'static TpchQuery,
    pub(super) state: State,
    pub(super) threads: u32,
}

impl Test {
    /// Runs of each engine, those that warm up with them.
    pub(super) fn runs(&self, args: &Args) -> u64 {
        match self.state {
            State::Cold => args.repeat,
            State::Hot => args.repeat + args.warm_up_runs,
        }
    }
}

/// The engines of a command, and what is known of the answers.
#[derive(Debug)]
pub(super) struct Bench<'a> {
    args: &'a Args,
    sides: Vec<Side>,
    duckdb: String,
    /// The first answer to each query, which all later ones must be like.
    first: BTreeMap<u8, (String, Answer)>,
    /// The last notes of each query's scans.
    scans: BTreeMap<u8, Vec<ScanNote>>,
    done: u64,
}

/// One engine's runs in a test.
struct Series {
    record: Record,
    runs: Vec<Sample>,
    /// Rows of all answers that were checked, also of runs that warm up.
    rows_checked: u64,
    digest: Option<String>,
    process: Option<Answering>,
    /// Set once there can be no number.
    is_over: bool,
}

/// One run.
struct Sample {
    took: Took,
    rows: u64,
    open_s: f64,
    link_bytes: u64,
    rows_scanned: u64,
    rows_sent: u64,
    agent_cpu_s: Option<f64>,
    agent_peak_bytes: Option<u64>,
    agent_read_bytes: Option<u64>,
}

/// Hears of the runs that were done, and of the next one.
pub(super) type Told<'a> = &'a mut dyn FnMut(u64, &str);

impl<'a> Bench<'a> {
    /// Starts what the engines need.
    pub(super) fn new(
        args: &'a Args,
        engines: &[EngineName],
        database: Option<&TpchDatabase>,
        library: Library,
    ) -> Result<Self, Failure> {
        let threads = args.threads().into_iter().max().unwrap_or(1);
        let sides = engines.iter().map(|&engine| match (engine, database) {
            (EngineName::Duckdb, Some(database)) => Ok(Side::of_file(database.path.clone())),
            (EngineName::Duckdb, None) => Err(Failure::check("DuckDB's file was not made")),
            _ => Side::of_agent(engine, args, threads),
        });
        Ok(Self {
            args,
            sides: sides.collect::<Result<_, _>>()?,
            duckdb: library.version().to_owned(),
            first: BTreeMap::new(),
            scans: BTreeMap::new(),
            done: 0,
        })
    }

    /// Runs a test by each engine, as records whatever comes of it.
    pub(super) fn measure(&mut self, test: &Test, told: Told<'_>) -> Result<Vec<Record>, Failure> {
        let sides = std::mem::take(&mut self.sides);
        let measured = self.measured(&sides, test, told);
        self.sides = sides;
        measured
    }

    fn measured(
        &mut self,
        sides: &[Side],
        test: &Test,
        told: Told<'_>,
    ) -> Result<Vec<Record>, Failure> {
        let mut all: Vec<Series> = sides.iter().map(|side| self.series(side, test)).collect();
        let warm_ups = match test.state {
            State::Cold => 0,
            State::Hot => self.args.warm_up_runs,
        };
        let rounds = test.runs(self.args);
        'rounds: for round in 0..rounds {
            for turn in 0..sides.len() {
                // A run may be shorter than the time after which whoever waits for it looks around.
                if interrupt::is_set() {
                    break 'rounds;
                }
                // Each round starts with another engine.
                let at = (round as usize + turn) % sides.len();
                let (side, series) = (&sides[at], &mut all[at]);
                let what = format!(
                    "Q{}, {}, {}, {} threads",
                    test.query.number,
                    side.engine.name(),
                    test.state.name(),
                    test.threads
                );
                told(self.done, &what);
                self.done += 1;
                if series.is_over {
                    continue;
                }
                match self.run(side, test, series) {
                    Ok(sample) if round >= warm_ups => series.runs.push(sample),
                    Ok(_) => {}
                    Err(Ended::Broken(broken)) => {
                        series.is_over = true;
                        series.process = None;
                        series.record = sweep::broken(series.record.clone(), &broken);
                    }
                    // The runs that are complete are kept; the command ends by its own look.
                    Err(Ended::Failure(_)) if interrupt::is_set() => break 'rounds,
                    Err(Ended::Failure(failure)) => return Err(failure),
                }
            }
        }
        let records = all.into_iter().map(|series| self.record_of(series, test));
        // A test that was cut off before a run of it was whole has nothing to say.
        Ok(records.flatten().collect())
    }

    fn series(&self, side: &Side, test: &Test) -> Series {
        let args = self.args;
        // Nothing is drawn at random: the generator of the data has its own fixed seeds, and engines take turns.
        let mut record = Record::new("dbms", side.evidence(args), 0)
            .with("engine", side.engine.name())
            .with("query", u64::from(test.query.number))
            .with("state", test.state.name())
            .with("sf", args.sf)
            .with("threads", u64::from(test.threads))
            .with("repeat", args.repeat)
            .with("warm_up_runs", args.warm_up_runs);
        record = match side.engine.has_link() {
            true => record
                .with("link_gbps", args.link.gbps())
                .with("cache", args.cache)
                .with("server", args.link.agent.name()),
            false => record,
        };
        if side.engine == EngineName::DpbPushdown {
            let wire = if args.is_compact() {
                "compact"
            } else {
                "plain"
            };
            record = record.with("wire", wire);
        }
        if let Some(memory) = args.memory {
            record = record.with("memory", memory);
        }
        let libraries = &mut record.provenance.libraries;
        libraries.insert("duckdb".to_owned(), self.duckdb.clone());
        Series {
            record,
            runs: Vec::new(),
            rows_checked: 0,
            digest: None,
            process: None,
            is_over: false,
        }
    }

    /// One run, its answer checked.
    fn run(&mut self, side: &Side, test: &Test, series: &mut Series) -> Result<Sample, Ended> {
        if test.state == State::Cold {
            side.make_cold(test.query)?;
        }
        side.used(true)?;
        // The reply above tells of the time before the reset; this one is the start.
        let before = side.used(false)?;
        let mut process = match series.process.take() {
            Some(process) => process,
            None => side.start(self.args, test.threads)?,
        };
        // A query whose agent has gone says what DuckDB made of it; that the agent has gone says more.
        let run = process.run(test.query.number);
        let run = run.or_else(|ended| side.used(false).and(Err(ended)))?;
        let used = side.used(false)?;
        let (agent_cpu_s, agent_peak_bytes) = used.since(&before);
        self.check(side, test, &run)?;
        series.rows_checked += run.answer.rows.len() as u64;
        series.digest = Some(run.answer.digest());
        let sum = |of: fn(&ScanNote) -> u64| run.scans.iter().map(of).sum::<u64>();
        let mut sample = Sample {
            took: run.took,
            rows: run.answer.rows.len() as u64,
            open_s: process.opened.elapsed_s,
            link_bytes: run.link_bytes,
            rows_scanned: sum(|scan| scan.counts.rows_scanned),
            rows_sent: sum(|scan| scan.counts.rows_sent),
            agent_cpu_s,
            agent_peak_bytes,
            agent_read_bytes: used.read_since(&before),
        };
        if side.engine == EngineName::DpbPushdown {
            self.scans.insert(test.query.number, run.scans);
        }
        match test.state {
            // Whoever begins cold opens the file, too.
            State::Cold => sample.took = process.opened.and(&sample.took),
            State::Hot => series.process = Some(process),
        }
        Ok(sample)
    }

    /// Holds an answer against the expected one, and against the first that came.
    fn check(&mut self, side: &Side, test: &Test, run: &Run) -> Result<(), Ended> {
        let (query, sf) = (test.query, self.args.sf);
        if let Some(expected) = answers::expected(query, sf)
            && let Some(difference) = answers::wrong(query, &expected, &run.answer)
        {
            return Err(Ended::wrong(format!(
                "{difference} (by the expected answer at scale factor {sf})"
            )));
        }
        let who = format!("{}, {}", side.engine.name(), test.state.name());
        match self.first.get(&query.number) {
            None => {
                self.first.insert(query.number, (who, run.answer.clone()));
                Ok(())
            }
            Some((first, answer)) => match answers::differ(query, answer, &run.answer) {
                None => Ok(()),
                Some(difference) => Err(Ended::wrong(format!(
                    "{difference} (by the first answer, of {first})"
                ))),
            },
        }
    }

    /// The record of an engine's runs; none if there were none and nothing went wrong.
    fn record_of(&self, series: Series, test: &Test) -> Option<Record> {
        let Series {
            mut record,
            runs,
            rows_checked,
            digest,
            is_over,
            ..
        } = series;
        if is_over {
            return Some(record);
        }
        if runs.is_empty() {
            return None;
        }
        let is_whole = runs.len() as u64 == self.args.repeat;
        let each = |of: &dyn Fn(&Sample) -> f64| runs.iter().map(of).collect::<Vec<f64>>();
        let times = each(&|run| run.took.elapsed_s);
        record.sample("run_s", times.clone());
        record.sample("cpu_s", each(&|run| run.took.cpu_s));
        record.sample("peak_bytes", each(&|run| run.took.peak_bytes as f64));
        if test.state == State::Cold {
            record.sample("open_s", each(&|run| run.open_s));
        }
        let has_link = record.parameters.contains_key("server");
        let mut known = |name: &str, of: &dyn Fn(&Sample) -> Option<f64>| {
            if let Some(values) = runs.iter().map(of).collect::<Option<Vec<f64>>>() {
                record.sample(name, values);
            }
        };
        // What this process reads, and what its agent reads for it: unknown of an agent elsewhere.
        known("read_bytes", &|run| {
            let agent = match has_link {
                true => run.agent_read_bytes?,
                false => 0,
            };
            Some((run.took.read_bytes? + agent) as f64)
        });
        known("agent_cpu_s", &|run| run.agent_cpu_s);
        known("agent_peak_bytes", &|run| {
            run.agent_peak_bytes.map(|bytes| bytes as f64)
        });
        if has_link {
            record.sample("link_bytes", each(&|run| run.link_bytes as f64));
        }
        let sum = |of: fn(&Sample) -> u64| runs.iter().map(of).sum::<u64>();
        let counts = [
            ("rows_scanned", sum(|run| run.rows_scanned)),
            ("rows_sent", sum(|run| run.rows_sent)),
            ("link_bytes", sum(|run| run.link_bytes)),
        ];
        record.counts.insert("rows".to_owned(), sum(|run| run.rows));
        if has_link {
            record
                .counts
                .extend(counts.map(|(name, count)| (name.to_owned(), count)));
        }
        let is_pushdown = sweep::parameter(&record, "engine") == EngineName::DpbPushdown.name();
        if let (true, Some(scans)) = (is_pushdown, self.scans.get(&test.query.number)) {
            record = record.with("filters", filters(scans));
        }
        let sf = self.args.sf;
        let against = match answers::expected(test.query, sf) {
            Some(_) => format!("the known answer at scale factor {sf}, and every other run's"),
            None => "every other run's answer, of all engines and states".to_owned(),
        };
        record.check = Some(Check {
            against,
            compared: rows_checked,
            digest,
        });
        let mut around = Interference::default();
        runs.iter()
            .for_each(|run| around.add(&run.took.interference()));
        sweep::conclude(
            &mut record,
            &times,
            self.args.repeat as usize,
            u64::from(test.threads),
            &around,
            false,
        );
        if !is_whole {
            record.outcome = Outcome::Interrupted;
        }
        Some(record)
    }

    /// The notes of each query's scans, in words.
    pub(super) fn explained(&self) -> String {
        let mut lines = Vec::new();
        for (query, scans) in &self.scans {
            for scan in scans {
                let filters = match scan.filters.as_str() {
                    "" => "no filter",
                    filters => filters,
                };
                let again = match scan.filters_in_part {
                    0 => String::new(),
                    count => format!("; DuckDB evaluates {count} of them again"),
                };
                lines.push(format!(
                    "Q{query} {}: {} of {} rows, {} bytes, columns {}; {filters}{again}",
                    scan.table,
                    scan.counts.rows_sent,
                    scan.counts.rows_scanned,
                    scan.counts.link_bytes,
                    scan.columns.join(", ")
                ));
            }
        }
        lines.join("\n")
    }
}

/// The filters that were pushed, table by table.
fn filters(scans: &[ScanNote]) -> String {
    let pushed = scans.iter().filter(|scan| !scan.filters.is_empty());
    let pushed = pushed.map(|scan| format!("{}: {}", scan.table, scan.filters));
    pushed.collect::<Vec<_>>().join("; ")
}
