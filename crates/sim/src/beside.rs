//! Measured beside simulated: a program on packets, and a server that was fed with the program's own records.
//!
//! The model of a program between two ports in memory is small: packets come in an open loop and wait in a port that holds so many; one server takes each for the time that the
//! program needs at its highest rate; what a packet needs besides, on an idle machine, passes beside it (the queueing form of LogNIC's model, MICRO 2023: a rate, a
//! queue, an overhead). So two runs of a program give the model all that it has: one at more than its highest rate, and the one at the lowest rate. It then says what
//! the other runs must have shown.
//!
//! A run above the highest rate loses packets; or, where the generator may be late without bound (`--tolerance`), packets wait before the port and none is lost. Then the
//! backlog says the rate: of the packets that are due in a time `T`, the middle one is done at `T / 2` and its latency.

use std::fmt;

use dpb_core::Evidence;
use dpb_core::measure::latency::Latencies;
use dpb_core::measure::{Outcome, Record, Value};
use dpb_core::random::SplitMix64;

use crate::kernel::{NANOSECOND_PS, SECOND_PS};
use crate::system::arrivals::{Arrivals, Gaps, Rate};
use crate::system::server::Server;
use crate::system::times::{Measured, Point, Times};

/// A server with a queue, and what a packet needs besides.
#[derive(Clone, Debug, PartialEq)]
pub struct Station {
    /// Packets that are served at a time.
    pub lanes: usize,
    /// Packets that may wait; one that finds as many is refused.
    pub waiting_max: usize,
    /// The time of service.
    pub service: Times,
    /// Time besides, in which the server is free.
    pub overhead: Option<Times>,
}

/// The outcome of a load.
#[derive(Clone, Debug, PartialEq)]
pub struct Served {
    /// Packets that came.
    pub offered: u64,
    /// Packets that were served.
    pub delivered: u64,
    /// Time from coming to the end of service, and the time besides.
    pub latencies: Latencies,
}

impl Station {
    /// Offers so many packets of a size, at this rate.
    pub fn serve(&self, rate: Rate, count: u64, bytes: u64, seed: u64) -> Served {
        let mut arrivals = Arrivals::new(rate, 0, seed);
        let mut random = SplitMix64::new(!seed);
        let mut server = Server::new(self.lanes, self.waiting_max);
        let mut latencies = Latencies::default();
        for _ in 0..count {
            let now_ps = arrivals.next_ps();
            arrivals.advance();
            let cost_ps = self.service.cost_ps(bytes, &mut random);
            let Some(served) = server.serve(now_ps, cost_ps) else {
                continue;
            };
            let besides = self.overhead.as_ref();
            let besides_ps = besides.map_or(0, |times| times.cost_ps(bytes, &mut random));
            let took_ps = served.end_ps + besides_ps - now_ps;
            latencies.record(took_ps.div_ceil(NANOSECOND_PS));
        }
        let delivered = server.usage().jobs;
        Served {
            offered: count,
            delivered,
            latencies,
        }
    }
}

/// A run, measured and simulated.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    /// The id of the measured record.
    pub id: String,
    /// Packets a second that were offered.
    pub rate: f64,
    /// Packets a second, measured and simulated.
    pub packets_per_s: [f64; 2],
    /// The median of the latency in nanoseconds, measured and simulated.
    pub p50_ns: [f64; 2],
    /// Its 99th percentile.
    pub p99_ns: [f64; 2],
}

/// A program's runs, measured and simulated.
#[derive(Clone, Debug, PartialEq)]
pub struct Beside {
    /// The program, with what its runs share.
    pub program: String,
    /// The evidence of the records.
    pub evidence: Evidence,
    /// The machine that they were made on.
    pub machine: String,
    /// The records that the model was made of: above the highest rate, and at the lowest rate.
    pub calibration: [String; 2],
    /// The server's time for a packet, in picoseconds.
    pub service_ps: u64,
    /// The other runs.
    pub pairs: Vec<Pair>,
}

/// The ratio of what was simulated to what was measured, less one.
pub fn error([measured, simulated]: [f64; 2]) -> f64 {
    simulated / measured - 1.0
}

/// The reason why records cannot be laid beside a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoModel(String);

impl fmt::Display for NoModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NoModel {}

/// Parameters in which the runs of a program may differ.
const OWN: [&str; 2] = ["rate", "seconds"];
/// A run that delivers less than this part of what was offered is above the highest rate.
const SATURATED: f64 = 0.97;
/// A run in which half of the packets take longer than this part of it is above the highest rate too.
const BACKLOG: f64 = 0.05;
/// Packets of a simulated run, where the record does not say the time of its runs.
const PACKETS: u64 = 400_000;

/// Lays the runs of `dpb net trial` in these records beside a model of each program, which is made of two of them; or says why a program has no model: its
/// records are not of one machine, or one of the two is missing.
pub fn beside(records: &[Record], seed: u64) -> Vec<Result<Beside, NoModel>> {
    let mut programs: Vec<(String, Vec<&Record>)> = Vec::new();
    let trials = records.iter().filter(|record| {
        record.task == "net trial" && record.outcome == Outcome::Done && load(record).is_some()
    });
    for record in trials {
        let name = shared(record);
        match programs.iter_mut().find(|(known, _)| *known == name) {
            Some((_, runs)) => runs.push(record),
            None => programs.push((name, vec![record])),
        }
    }
    if programs.is_empty() {
        let why = "there are no runs of `dpb net trial --rate` with numbers";
        return vec![Err(NoModel(why.to_owned()))];
    }
    let programs = programs.into_iter();
    programs
        .map(|(name, runs)| {
            one(&runs, seed).map_err(|NoModel(why)| NoModel(format!("{name}: {why}")))
        })
        .collect()
}

/// The rate that a run was offered, and the rate at which it was done with packets, a second.
fn load(record: &Record) -> Option<(f64, f64)> {
    let median = |name: &str| record.summary.get(name).map(|it| it.median);
    let (offered, got) = (median("offered_packets_per_s")?, median("packets_per_s")?);
    let middle_ns = latencies(record).map_or(0, |it| it.percentile_ns(0.5));
    let sustained = sustained(offered, seconds(record), middle_ns);
    Some((offered, got.min(sustained)))
}

/// The rate at which packets were done that were due at this rate for so long, by the latency of the middle one.
fn sustained(offered: f64, seconds: Option<f64>, middle_ns: u64) -> f64 {
    let middle_s = middle_ns as f64 / 1e9;
    match seconds {
        Some(seconds) if middle_s > BACKLOG * seconds => {
            offered * seconds / (seconds + 2.0 * middle_s)
        }
        _ => offered,
    }
}

/// The time of each run of a record.
fn seconds(record: &Record) -> Option<f64> {
    match record.parameters.get("seconds") {
        Some(&Value::Float(seconds)) if seconds > 0.0 => Some(seconds),
        Some(&Value::Int(seconds)) if seconds > 0 => Some(seconds as f64),
        _ => None,
    }
}

/// True if packets of a run above the highest rate wait before the port, and none is lost.
fn is_patient(record: &Record) -> bool {
    let median = |name: &str| record.summary.get(name).map(|it| it.median);
    median("packets_per_s") >= median("offered_packets_per_s").map(|it| it * SATURATED)
}

/// The parameters that the runs of a program share, in words.
fn shared(record: &Record) -> String {
    let own = record.parameters.iter();
    let own = own.filter(|(name, _)| {
        ["program", "size", "threads", "flows", "place", "schedule"].contains(&name.as_str())
    });
    let own: Vec<String> = own.map(|(name, value)| format!("{name} {value}")).collect();
    own.join(", ")
}

fn latencies(record: &Record) -> Result<Latencies, NoModel> {
    let kept = record
        .samples
        .get("latency_ns")
        .and_then(|it| it.hdr.as_ref());
    let text = kept.ok_or_else(|| NoModel(format!("record {} has no latencies", record.id)))?;
    let read = Latencies::from_base64(text);
    read.map_err(|why| NoModel(format!("record {}, latency_ns: {why}", record.id)))
}

fn machine(record: &Record) -> String {
    let made = &record.provenance;
    format!(
        "{} ({}, {} CPUs)",
        made.cpu_model, made.cpu_level, made.cpus
    )
}

fn number(record: &Record, name: &str) -> Option<u64> {
    match record.parameters.get(name) {
        Some(&Value::Int(number)) => u64::try_from(number).ok(),
        _ => None,
    }
}

fn one(runs: &[&Record], seed: u64) -> Result<Beside, NoModel> {
    let first = runs[0];
    for run in runs {
        if machine(run) != machine(first) || run.evidence.kind() != first.evidence.kind() {
            return Err(NoModel("its runs are of several machines".to_owned()));
        }
        let mut names = run
            .parameters
            .iter()
            .filter(|(name, _)| !OWN.contains(&name.as_str()));
        if let Some((name, value)) =
            names.find(|&(name, value)| first.parameters.get(name) != Some(value))
        {
            return Err(NoModel(format!("its runs differ in {name}: {value}")));
        }
    }
    let gaps = match first.parameters.get("schedule") {
        Some(Value::Text(name)) => Gaps::ALL.into_iter().find(|it| it.name() == name),
        _ => None,
    };
    let gaps =
        gaps.ok_or_else(|| NoModel("the model has constant and poisson arrivals".to_owned()))?;
    let delivered = |run: &&&Record| load(run).map_or(0.0, |it| it.1);
    let is_saturated =
        |run: &&&Record| load(run).is_some_and(|(offered, got)| got < SATURATED * offered);
    let saturated = runs.iter().filter(is_saturated);
    let highest = saturated.max_by(|a, b| delivered(a).total_cmp(&delivered(b)));
    let highest = *highest.ok_or_else(|| {
        NoModel("no run is above the highest rate: offer more, until packets are lost".to_owned())
    })?;
    let below: Vec<&Record> = runs
        .iter()
        .filter(|run| !is_saturated(run))
        .copied()
        .collect();
    let lowest = below.iter().min_by(|a, b| {
        let [a, b] = [a, b].map(|run| load(run).map_or(0.0, |it| it.0));
        a.total_cmp(&b)
    });
    let lowest = *lowest.ok_or_else(|| NoModel("no run is below the highest rate".to_owned()))?;
    let threads = number(first, "threads").unwrap_or(1).max(1);
    let rate_max = load(highest).map_or(1.0, |it| it.1);
    let service_ps = (threads as f64 * SECOND_PS as f64 / rate_max).round() as u64;
    let station = Station {
        lanes: threads as usize,
        waiting_max: match is_patient(highest) {
            true => usize::MAX,
            false => number(first, "queue").unwrap_or(1024) as usize,
        },
        service: Times::constant(service_ps),
        overhead: Some(besides(&latencies(lowest)?, service_ps)?),
    };
    let mut pairs = Vec::new();
    let others = runs
        .iter()
        .filter(|run| run.id != highest.id && run.id != lowest.id);
    for run in others {
        pairs.push(pair(run, &station, gaps, seed)?);
    }
    Ok(Beside {
        program: shared(first),
        evidence: first.evidence.clone(),
        machine: machine(first),
        calibration: [highest.id.clone(), lowest.id.clone()],
        service_ps,
        pairs,
    })
}

/// Quantiles of the time besides service that are kept.
const QUANTILES: u32 = 4096;

/// The time that a packet needs besides its service: the latency of an idle program, less the service.
fn besides(idle: &Latencies, service_ps: u64) -> Result<Times, NoModel> {
    let shares = (0..QUANTILES).map(|it| (f64::from(it) + 0.5) / f64::from(QUANTILES));
    let times_ps = shares.map(|share| {
        let whole_ps = idle.percentile_ns(share) as f64 * NANOSECOND_PS as f64;
        (whole_ps - service_ps as f64).max(1.0)
    });
    let point = Point {
        bytes: 1,
        times_ps: times_ps.collect(),
    };
    let measured = Measured::new(vec![point]).map_err(|wrong| NoModel(wrong.0))?;
    Ok(Times::Measured(measured))
}

fn pair(run: &Record, station: &Station, gaps: Gaps, seed: u64) -> Result<Pair, NoModel> {
    let (rate, got) = load(run).unwrap_or_default();
    let (count, repeats) = match seconds(run) {
        Some(seconds) => ((rate * seconds) as u64, number(run, "repeat").unwrap_or(1)),
        None => (PACKETS, 1),
    };
    let mut simulated = Latencies::default();
    let mut delivered = 0;
    for repeat in 0..repeats {
        let served = station.serve(Rate { per_s: rate, gaps }, count, 1, seed + repeat);
        simulated.add(&served.latencies);
        delivered += served.delivered;
    }
    let share = delivered as f64 / (count * repeats).max(1) as f64;
    let sustained = sustained(rate, seconds(run), simulated.percentile_ns(0.5));
    let measured = latencies(run)?;
    let both = |share: f64| [&measured, &simulated].map(|it| it.percentile_ns(share) as f64);
    Ok(Pair {
        id: run.id.clone(),
        rate,
        packets_per_s: [got, sustained.min(rate * share)],
        p50_ns: both(0.5),
        p99_ns: both(0.99),
    })
}

#[cfg(test)]
mod tests;
