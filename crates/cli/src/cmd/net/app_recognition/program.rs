//! The program on its sides, and its trials.

use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, PoisonError};

use dpb_core::measure::Record;
use dpb_core::{Clock, PacketPort, SetupError, WallClock};
use dpb_net::pipeline::{Line, Make, Remote, Ring, Shard, Stage, Station, WhenFull, Work, ring};
use dpb_net::port::{End, pair_of};
use dpb_net::programs::app_recognition::{self, Counts, Log, Recognise, Results, Settings, Totals};
use dpb_net::programs::forward::{Addresses, bridge};
use dpb_net::traffic::{Replay, Schedule};
use dpb_net::trial::{Plan, Pool};

use super::right::{self, EVERY, Flows, SAMPLES_MAX, Sent};
use super::{Args, Engines, Offered, Side, Test};
use crate::Globals;
use crate::cmd::net::bench::{Place, host};
use crate::cmd::net::end_to_end::{Lab, Meter, Metered, Run, Sides, Spent};

/// Packets of a burst.
pub(super) const BURST: usize = 32;
/// Bursts that are with an operator at a time.
pub(super) const DEPTH: NonZeroU32 = NonZeroU32::new(4).expect("four");
/// Bursts in the program's hands.
const LINE: usize = 8;
/// The longest payload of a frame.
const PAYLOAD_BYTES_MAX: usize = 16_000;
/// Flows whose verdicts are kept in a trial.
const FLOWS_MAX: usize = 1 << 18;

/// The state that the program's parts share with whoever runs it.
#[derive(Clone)]
struct Shared {
    settings: Settings,
    engines: Engines,
    clock: Arc<dyn Clock>,
    counts: Arc<Mutex<Option<Arc<Counts>>>>,
    log: Arc<Log>,
    hashed: Arc<Results>,
    compressed: Arc<Results>,
}

impl Shared {
    fn totals(&self) -> Totals {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts
            .as_ref()
            .map_or_else(Totals::default, |counts| counts.read())
    }

    fn recognise(&self) -> Result<Box<dyn Stage>, SetupError> {
        let (log, clock) = (Arc::clone(&self.log), Arc::clone(&self.clock));
        let stage = Recognise::new(&self.settings, Some(&self.engines.rules), Some(log), clock)?;
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        *counts = Some(stage.counts());
        Ok(Box::new(stage))
    }

    fn actions(&self) -> Result<[Box<dyn Stage>; 2], SetupError> {
        let hash = app_recognition::hash(&self.engines.hash, Arc::clone(&self.hashed))?;
        let results = Arc::clone(&self.compressed);
        let compress =
            app_recognition::compress(&self.engines.compress, results, PAYLOAD_BYTES_MAX)?;
        Ok([Box::new(hash), Box::new(compress)])
    }

    fn metered(&self, work: impl Work + 'static, meter: &Arc<Meter>) -> Box<dyn Work> {
        let metered = Metered::new(Box::new(work), Arc::clone(&self.clock), Arc::clone(meter));
        Box::new(metered)
    }

    /// The whole program between two ports.
    fn whole(self, ports: [End; 2], meter: Arc<Meter>) -> Make {
        Box::new(move || {
            let mut stages = vec![self.recognise()?];
            stages.extend(self.actions()?);
            Ok(self.metered(shard(ports, stages), &meter))
        })
    }

    /// Recognition between two ports; what packets need then is done behind the ring.
    fn recognition(self, ports: [End; 2], remote: Remote, meter: Arc<Meter>) -> Make {
        Box::new(move || {
            let stages = vec![self.recognise()?, Box::new(remote) as Box<dyn Stage>];
            Ok(self.metered(shard(ports, stages), &meter))
        })
    }

    /// The work behind the ring.
    fn station(self, ring: Ring, meter: Arc<Meter>) -> Make {
        Box::new(move || {
            let line = Line::new("actions", self.actions()?.into(), LINE);
            let station = Station::new(Box::new(line), vec![ring]);
            Ok(self.metered(station, &meter))
        })
    }
}

fn shard(ports: [End; 2], mut stages: Vec<Box<dyn Stage>>) -> Shard {
    stages.push(Box::new(bridge(vec![1, 0], Addresses::Kept)));
    let line = Line::new("app-recognition", stages, LINE);
    let ports = ports.map(|port| Box::new(port) as Box<dyn PacketPort>);
    Shard::new("app-recognition", ports.into(), line, BURST, WhenFull::Hold)
}

/// Trials of one side.
///
/// # Errors
/// The reason why the test broke, as a sentence.
pub(super) fn measure(
    args: &Args,
    test: &Test<'_>,
    side: Side,
    engines: &Engines,
    replay: Option<Arc<Replay>>,
    record: Record,
    globals: &Globals,
) -> Result<Record, String> {
    let clock: Arc<dyn Clock> = Arc::new(WallClock::default());
    let policy = args.policy().map_err(|failure| failure.message)?;
    let shared = Shared {
        settings: args.settings(policy),
        engines: engines.clone(),
        clock: Arc::clone(&clock),
        counts: Arc::default(),
        log: Arc::new(Log::new(FLOWS_MAX)),
        hashed: Arc::new(Results::new(EVERY, SAMPLES_MAX)),
        compressed: Arc::new(Results::new(EVERY, SAMPLES_MAX)),
    };
    let [near, far] = pair_of(args.load.queue());
    let [far_out, near_back] = pair_of(args.load.queue());
    let (server, dpu) = (Arc::new(Meter::default()), Arc::new(Meter::default()));
    let meters = [Arc::clone(&server), Arc::clone(&dpu)];
    let system = sides(args, side, &shared, [far, far_out], server, dpu)?;
    let schedule = Schedule::constant(test.load.packets_per_s());
    let mut lab = Lab {
        clock: &*clock,
        from: Box::new(near),
        to: Box::new(near_back),
        system,
        plan: Plan {
            tolerance_ns: args.load.tolerance(true).as_nanos() as u64,
            ..Plan::new(schedule, 0, args.runs.seed)
        },
        pool: Pool::default(),
        core: args.cores().first().copied(),
    };
    let mut flows = Flows::default();
    let mut last: Option<Sent> = None;
    let runs = lab.runs(&args.runs, test.load, &meters, |_, trial, duration_ns| {
        let at = last.as_ref().map_or(0, |last| last.at + 1);
        flows.compare(last.take(), &shared.log);
        let offered = match &replay {
            Some(replay) => Offered::Played(Arc::clone(replay)),
            None => Offered::Made(Arc::new(args.generator(test.chosen, trial)?)),
        };
        let packets = (test.load.packets_per_s() * duration_ns as f64 / 1e9) as u64 + 1;
        let traffic = offered.traffic();
        last = Some(Sent {
            offered,
            packets,
            at,
        });
        Ok(traffic)
    })?;
    flows.compare(last.take(), &shared.log);
    let Lab { system, .. } = lab;
    for hosted in system.0 {
        for account in hosted.stop().map_err(|error| error.to_string())? {
            account.check().map_err(|error| error.to_string())?;
        }
    }
    let totals = shared.totals();
    let (hashed, compressed) = (shared.hashed.read(), shared.compressed.read());
    right::carried_out(&[totals], &hashed, &compressed, 0)?;
    let compared = right::samples(
        &shared.hashed,
        &shared.compressed,
        engines.compression,
        globals,
    )?;
    let (mut record, runs) = runs.fill(record, args.runs.repeat(), 2);
    if runs.runs.is_empty() {
        return Ok(record);
    }
    let all: Vec<&Run> = runs.runs.iter().chain(&runs.others).collect();
    let lossless = all.iter().filter(|run| is_lossless(run));
    flows.judge(lossless.map(|run| run.at))?;
    if !engines.has_own_threads {
        note_time(&mut record, side, &runs.runs);
    }
    note_counts(&mut record, &shared, &totals);
    flows.note(&mut record);
    if let Some(check) = &mut record.check {
        check.against += &format!(
            "; {compared} outputs of operators, by RustCrypto's SHA-256 and by the portable decoder; verdicts, by the conversations that were sent"
        );
    }
    Ok(record)
}

/// The program on its cores.
fn sides(
    args: &Args,
    side: Side,
    shared: &Shared,
    ports: [End; 2],
    server: Arc<Meter>,
    dpu: Arc<Meter>,
) -> Result<Sides, String> {
    let (cores, clock) = (args.cores(), &shared.clock);
    let cores = cores.get(1..).unwrap_or_default();
    let on = |name: &str, place: Place, make: Make| {
        host(vec![(name.to_owned(), make)], place, cores, clock)
    };
    let inline = |make: Make| on("server", Place::Inline, make);
    let apart = |make: Make| on("dpu", Place::Threads, make);
    let shared = || shared.clone();
    Ok(Sides(match side {
        Side::Host => vec![inline(shared().whole(ports, server))?],
        Side::DpuAll => vec![apart(shared().whole(ports, dpu))?],
        Side::Dpu => {
            let (remote, ring) = ring("server", LINE);
            vec![
                apart(shared().recognition(ports, remote, dpu))?,
                inline(shared().station(ring, server))?,
            ]
        }
    }))
}

/// True if no packet was lost but those that the policy drops.
fn is_lossless(run: &Run) -> bool {
    let denied = Recognise::BY_POLICY.to_string();
    let reasons = &run.outcome.account.drops.reasons;
    let denied = reasons.iter().find(|(reason, _)| *reason == denied);
    run.outcome.balance.lost == denied.map_or(0, |(_, packets)| *packets)
}

fn note_time(record: &mut Record, side: Side, runs: &[Run]) {
    let mut sample = |name: &str, of: &dyn Fn(&Run) -> f64| {
        record.sample(name, runs.iter().map(of).collect());
    };
    let share = |ns: u64, run: &Run| ns as f64 / (1e9 * run.duration_s);
    let each = |ns: u64, run: &Run| ns as f64 / run.outcome.balance.delivered.max(1) as f64;
    let server = |run: &Run| run.spent[0].busy_ns;
    let dpu = |run: &Run| run.spent[1];
    sample("server_cpu_share", &|run| share(server(run), run));
    sample("server_cpu_ns_per_packet", &|run| each(server(run), run));
    if side != Side::Host {
        let busy = |Spent { busy_ns, .. }: Spent| busy_ns;
        sample("dpu_cpu_share", &|run| share(busy(dpu(run)), run));
        sample("dpu_cpu_ns_per_packet", &|run| each(busy(dpu(run)), run));
        sample("dpu_thread_cpu_share", &|run| {
            dpu(run).cpu_ns as f64 / run.metered_ns as f64
        });
    }
}

/// The program's counts, the trial that warmed up and invalid ones included.
fn note_counts(record: &mut Record, shared: &Shared, totals: &Totals) {
    let [hashed, compressed] = [&shared.hashed, &shared.compressed].map(|results| results.read());
    let mut counts = vec![
        ("program_packets", totals.packets),
        ("packets_inspected", totals.inspected),
        ("flows_begun", totals.began),
        ("flows_ended", totals.ended),
        ("flows_decided", totals.decided),
        ("flows_by_rule", totals.by_rule),
        ("flows_given_up", totals.given_up),
        ("table_full", totals.full),
        ("rule_items", totals.rule_items),
        ("rule_bytes", totals.rule_bytes),
        ("hashed_bytes", hashed.bytes_in),
        ("compressed_bytes_in", compressed.bytes_in),
        ("compressed_bytes_out", compressed.bytes_out),
    ];
    let names = [
        "packets_back",
        "packets_hashed",
        "packets_compressed",
        "packets_dropped",
        "packets_passed",
    ];
    counts.extend(names.into_iter().zip(totals.actions));
    let counts = counts
        .into_iter()
        .map(|(name, count)| (name.to_owned(), count));
    record.counts.extend(counts);
}
