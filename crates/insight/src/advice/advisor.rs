//! The advisor: two sides, a goal, and what follows.

mod checks;
mod queues;
mod split;

use dpb_core::Executor;

use super::application::{Design, Profile};
use super::decision::{Decision, Threshold, Verdict};
use super::interval::Estimate;
use super::load::Load;
use super::predictor::{Gain, Predictor, Quantity};
use super::service::Bound;
use super::side::{Refusal, Side};
pub use checks::{Check, Prediction, frozen, hash_of};

/// Values of the axis of sizes, besides those that were measured.
const GRID: usize = 96;
/// The same where each value is replayed.
const GRID_REPLAYED: usize = 12;
/// The share of a job's time that its fixed part may take, for the batch that is advised.
const FIXED_SHARE: f64 = 0.1;

/// The purpose that the device is wanted for.
#[derive(Clone, Debug, PartialEq)]
pub enum Goal {
    /// A job is done sooner.
    Latency,
    /// More jobs a second, either side at its deepest measured queue.
    Throughput,
    /// The host spends less CPU time.
    Cores,
    /// The 99th percentile at a rate stays below a limit.
    Slo {
        /// Jobs that arrive a second.
        jobs_per_s: f64,
        /// The limit in nanoseconds.
        limit_ns: f64,
    },
    /// The whole application is faster.
    Application(Profile),
    /// Both work on one job, of which each gets some of the items.
    Split,
}

impl Goal {
    /// In a word.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Latency => "latency",
            Self::Throughput => "throughput",
            Self::Cores => "cores",
            Self::Slo { .. } => "slo",
            Self::Application(_) => "application",
            Self::Split => "split",
        }
    }

    /// The figure by which it is checked.
    pub fn metric(&self) -> Metric {
        match self {
            Self::Cores => Metric::HostTime,
            Self::Slo { .. } => Metric::P99,
            _ => Metric::Time,
        }
    }
}

/// A figure that a check predicts, by job, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Time in a closed loop.
    Time,
    /// The host's CPU time.
    HostTime,
    /// The 99th percentile of an open loop.
    P99,
}

/// A question.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// The goal.
    pub goal: Goal,
    /// Items of a job; `None` for the number that was measured at most sizes.
    pub batch: Option<u64>,
    /// Jobs a second, for the cores that they free.
    pub jobs_per_s: Option<f64>,
    /// Bytes a second of a link that lies between host and device and that the records do not have, and its round trip in nanoseconds.
    pub transfer: Option<(f64, f64)>,
}

/// The advice about items of one size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AtSize {
    /// Bytes of an item.
    pub size: u64,
    /// The factor by which the device is better; above 1 it is.
    pub gain: Estimate,
    /// The host's figure by job, in nanoseconds.
    pub host_ns: Estimate,
    /// The device's; of a split the time until both sides are done.
    pub device_ns: Estimate,
    /// The bound that limits the device.
    pub bound: Bound,
}

/// Advice.
#[derive(Clone, Debug)]
pub struct Advice {
    /// The question's goal.
    pub goal: Goal,
    /// Items of a job.
    pub batch: u64,
    /// The sizes that were measured on both sides, and what is said of each.
    pub at: Vec<AtSize>,
    /// The decision over the whole range of sizes.
    pub decision: Decision,
    /// Where it changes.
    pub threshold: Threshold,
    /// Assumptions of it that no record says.
    pub assumptions: Vec<String>,
    /// Further findings by name: cores that are freed, split, batch, depth, rates.
    pub findings: Vec<(String, String)>,
    /// The device's share of a split job at the largest size.
    pub device_share: Option<f64>,
    /// Cores that are freed at the asked rate, at the largest size.
    pub cores_freed: Option<f64>,
    /// Tests that would prove it wrong, with what is predicted for them.
    pub checks: Vec<Check>,
}

/// Two sides, fitted.
#[derive(Clone, Debug)]
pub struct Advisor {
    /// The software of the host.
    pub host: Side,
    /// The device that may take its work.
    pub device: Side,
    host_time: Predictor,
    device_time: Predictor,
}

impl Advisor {
    /// Fits both sides.
    ///
    /// # Errors
    /// [`Refusal`]: sides of different work, the same side twice, one machine in two states, too few points.
    pub fn new(host: Side, device: Side) -> Result<Self, Refusal> {
        if host.work != device.work {
            return Err(Refusal(format!(
                "the sides do different work: {:?} and {:?}",
                host.work, device.work
            )));
        }
        if host.backend == device.backend && host.machine == device.machine {
            return Err(Refusal(format!(
                "both sides are {} on one machine",
                host.backend
            )));
        }
        let states = host.state.iter().zip(&device.state);
        if host.machine == device.machine
            && let Some(((what, one), (_, other))) = states.into_iter().find(|(a, b)| a != b)
        {
            return Err(Refusal(format!(
                "both sides are of {}, whose {what} was `{one}` for {} and `{other}` for {}",
                host.machine, host.backend, device.backend
            )));
        }
        let fit = |side: &Side| {
            let fitted = Predictor::new(&side.points, Quantity::Time);
            fitted.map_err(|why| Refusal(format!("{}: {why}", side.backend)))
        };
        Ok(Self {
            host_time: fit(&host)?,
            device_time: fit(&device)?,
            host,
            device,
        })
    }

    /// The predictor of a side's time by job: the host's, or the device's.
    pub fn time(&self, of_device: bool) -> &Predictor {
        match of_device {
            true => &self.device_time,
            false => &self.host_time,
        }
    }

    /// Advice.
    ///
    /// # Errors
    /// [`Refusal`]: the goal needs figures that the records do not have, or lies outside of what was measured.
    pub fn advise(&self, question: &Question) -> Result<Advice, Refusal> {
        let plan = Planned::new(self, question)?;
        let (batch, measured) = self.sizes(question)?;
        let mut gains = Vec::new();
        let values = match question.goal {
            Goal::Slo { .. } | Goal::Application(_) => GRID_REPLAYED,
            _ => GRID,
        };
        for size in grid(&measured, values) {
            if let Ok(at) = plan.at(batch, size) {
                gains.push((size as f64, at.gain));
            }
        }
        let at: Vec<AtSize> = measured
            .iter()
            .map(|&size| plan.at(batch, size))
            .collect::<Result<_, _>>()?;
        let decision = Decision { gains };
        let mut advice = Advice {
            goal: question.goal.clone(),
            batch,
            threshold: decision.threshold(),
            decision,
            assumptions: plan.assumptions(),
            findings: Vec::new(),
            device_share: None,
            cores_freed: None,
            checks: checks::of(&plan, batch, &measured),
            at,
        };
        plan.find(&mut advice)?;
        Ok(advice)
    }

    /// Items of a job, and the sizes that both sides measured with them.
    fn sizes(&self, question: &Question) -> Result<(u64, Vec<u64>), Refusal> {
        let of = |side: &Side, batch: u64| {
            let loads = side.points.iter().map(|point| point.load);
            let sizes = loads
                .filter(|load| load.batch == batch)
                .map(|load| load.size);
            sizes.collect::<std::collections::BTreeSet<u64>>()
        };
        let common = |batch: u64| {
            let both = &of(&self.host, batch) & &of(&self.device, batch);
            both.into_iter().collect::<Vec<u64>>()
        };
        let mut batches: Vec<u64> = self
            .host
            .points
            .iter()
            .map(|point| point.load.batch)
            .collect();
        batches.sort_unstable();
        batches.dedup();
        if let Some(batch) = question.batch {
            batches.retain(|&known| known == batch);
        }
        if question.goal == Goal::Split {
            batches.retain(|&batch| batch > 1);
            if batches.is_empty() {
                return Err(Refusal(
                    "a split shares out the items of a job, and there is none of several items (--batch)"
                        .to_owned(),
                ));
            }
            // Of equally many sizes the largest batch: it has the most to share out.
            batches.reverse();
        }
        let best = batches
            .into_iter()
            .map(|batch| (batch, common(batch)))
            // Of equally many the smallest batch.
            .rev()
            .max_by_key(|(_, sizes)| sizes.len());
        match best {
            Some((batch, sizes)) if sizes.len() >= 2 => Ok((batch, sizes)),
            _ => Err(Refusal(
                "no number of items (--batch) was measured at two sizes or more on both sides"
                    .to_owned(),
            )),
        }
    }
}

/// Sizes between the first and the last, evenly on a logarithmic axis, and the measured ones.
fn grid(measured: &[u64], values: usize) -> Vec<u64> {
    let (Some(&first), Some(&last)) = (measured.first(), measured.last()) else {
        return Vec::new();
    };
    let (low, high) = ((first as f64).ln(), (last as f64).ln());
    let between = (0..=values).map(|at| {
        (low + (high - low) * at as f64 / values as f64)
            .exp()
            .round() as u64
    });
    let mut all: Vec<u64> = between.chain(measured.iter().copied()).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// A question with the predictors that it needs.
#[derive(Debug)]
struct Planned<'a> {
    advisor: &'a Advisor,
    question: &'a Question,
    /// Queues of the host and of the device, for the goal.
    queues: [(u64, u64); 2],
    costs: [Option<Predictor>; 2],
}

impl<'a> Planned<'a> {
    fn new(advisor: &'a Advisor, question: &'a Question) -> Result<Self, Refusal> {
        let queues = match question.goal {
            // Tails are replayed through all lanes and all threads, and only so many jobs in flight keep them busy.
            Goal::Throughput | Goal::Cores | Goal::Slo { .. } => {
                [advisor.host.deepest(), advisor.device.deepest()]
            }
            _ => [(1, 1), (1, 1)],
        };
        let cost = |side: &Side, (depth, threads): (u64, u64)| {
            let own = side.points.iter();
            let own =
                own.filter(|point| point.load.depth == depth && point.load.threads == threads);
            let own: Vec<_> = own.cloned().collect();
            Predictor::new(&own, Quantity::HostTime).ok()
        };
        if let Goal::Application(profile) = &question.goal {
            profile.check().map_err(Refusal)?;
        }
        if let Goal::Slo {
            jobs_per_s,
            limit_ns,
        } = question.goal
        {
            let is_positive = |value: f64| value.is_finite() && value > 0.0;
            if !is_positive(jobs_per_s) || !is_positive(limit_ns) {
                return Err(Refusal(
                    "the rate and the limit are numbers above 0".to_owned(),
                ));
            }
        }
        Ok(Self {
            costs: [
                cost(&advisor.host, queues[0]),
                cost(&advisor.device, queues[1]),
            ],
            advisor,
            question,
            queues,
        })
    }

    fn load(&self, side: usize, batch: u64, size: u64) -> Load {
        let (depth, threads) = self.queues[side];
        Load {
            batch,
            size,
            depth,
            threads,
        }
    }

    /// The time by job of a side: 0 is the host.
    fn time(&self, side: usize, load: &Load) -> Result<(Estimate, Bound), Refusal> {
        let own = [&self.advisor.host, &self.advisor.device][side];
        let (time, mut bound) = self.by_model(side, load)?;
        // Times at this queue were measured with the host's own part in them: it adds nothing, and is named where it may be all of the time.
        if own.executor == Executor::Device
            && let Some(cost) = &self.costs[side]
            && let Ok(host) = cost.at(load)
            && host.value / load.threads as f64 >= time.low
        {
            bound = Bound::Host;
        }
        self.over_the_link(side, load, (time, bound))
    }

    /// The host's CPU time by job of a side.
    fn cost(&self, side: usize, load: &Load) -> Result<Estimate, Refusal> {
        let own = [&self.advisor.host, &self.advisor.device][side];
        match &self.costs[side] {
            Some(cost) => cost
                .at(load)
                .map_err(|why| Refusal(format!("{}: {why}", own.backend))),
            // A model's submission is all that it costs the host.
            None if own.executor == Executor::Model => {
                let service = [&self.advisor.host_time, &self.advisor.device_time][side].service();
                let doorbell = service.map(|service| service.doorbell_ns.max(1.0));
                doorbell.map(Estimate::exact).ok_or_else(|| {
                    Refusal(format!(
                        "{}: no doorbell of the model is known",
                        own.backend
                    ))
                })
            }
            None => Err(Refusal(format!(
                "{}: the host's CPU time was not measured at {} shapes of jobs (dpb op --host-cpu)",
                own.backend,
                super::interval::FOLDS_MIN
            ))),
        }
    }

    /// The ratio of the figure that the goal is about. Where both sides' figures are their predictors' own, and no link limits them, the ratio has an interval of
    /// its own.
    fn gain(&self, loads: &[Load; 2], host_ns: &Estimate, device_ns: &Estimate) -> Estimate {
        match self.own_gain(loads) {
            Some((gain, own)) if own == [*host_ns, *device_ns] => gain.ratio,
            _ => host_ns.over(device_ns),
        }
    }

    /// The ratio of both sides' predictors of the figure that the goal is about, and what they say themselves.
    fn own_gain(&self, loads: &[Load; 2]) -> Option<(Gain, [Estimate; 2])> {
        let [host, device] = match self.question.goal {
            Goal::Cores => self.costs.each_ref().map(Option::as_ref),
            _ => [&self.advisor.host_time, &self.advisor.device_time].map(Some),
        };
        let (host, device) = (host?, device?);
        let own = [host.at(&loads[0]).ok()?, device.at(&loads[1]).ok()?];
        let gain = host.over(&loads[0], device, &loads[1]).ok()?;
        Some((gain, own))
    }

    /// Both figures, and the gain.
    fn at(&self, batch: u64, size: u64) -> Result<AtSize, Refusal> {
        let loads = [self.load(0, batch, size), self.load(1, batch, size)];
        let (device_time, bound) = self.time(1, &loads[1])?;
        let (host_ns, device_ns) = match &self.question.goal {
            Goal::Cores => (self.cost(0, &loads[0])?, self.cost(1, &loads[1])?),
            Goal::Slo { jobs_per_s, .. } => (
                self.tail(0, &loads[0], *jobs_per_s)?,
                self.tail(1, &loads[1], *jobs_per_s)?,
            ),
            Goal::Split => (self.time(0, &loads[0])?.0, self.split(&loads[0])?.both),
            _ => (self.time(0, &loads[0])?.0, device_time),
        };
        let gain = match &self.question.goal {
            // Too late is too late: what lies beyond the limit is all alike.
            Goal::Slo { limit_ns, .. } => {
                let in_time = |p99: &Estimate| p99.map(|ns| ns.min(*limit_ns));
                in_time(&host_ns).over(&in_time(&device_ns))
            }
            Goal::Application(profile) => self.speed_up(profile)?,
            _ => self.gain(&loads, &host_ns, &device_ns),
        };
        Ok(AtSize {
            size,
            gain,
            host_ns,
            device_ns,
            bound,
        })
    }

    /// Assumptions of the advice that no record says.
    fn assumptions(&self) -> Vec<String> {
        let Advisor { host, device, .. } = self.advisor;
        let mut said = Vec::new();
        let has_two_machines = host.machine != device.machine;
        if has_two_machines {
            said.push(format!(
                "two machines: {} and {}, each measured alone",
                host.machine, device.machine
            ));
        }
        match self.question.transfer {
            Some((bytes_per_s, round_trip_ns)) => said.push(format!(
                "a link of {:.3} Gbit/s each way and a round trip of {:.0} ns between them, as you gave; what it costs the host's CPU is not counted",
                bytes_per_s * 8.0 / 1e9,
                round_trip_ns
            )),
            None if has_two_machines => said.push(
                "the data is where the work is done: no transfer is counted (see --link and --round-trip)".to_owned(),
            ),
            None => {}
        }
        for side in [host, device] {
            if side.evidence.kind() == "simulated" {
                said.push(format!(
                    "{} is a model, and its times are the model's",
                    side.backend
                ));
            }
        }
        said.push("jobs are alike, and as the measured ones in content".to_owned());
        match &self.question.goal {
            Goal::Slo { .. } => {
                said.push("jobs arrive at exponential gaps, and know nothing of each other".to_owned());
                said.extend([0, 1].into_iter().filter_map(|side| self.lanes(side).assumption(self.name(side))));
            }
            Goal::Split => said.push("both sides together disturb each other by nothing, and the host submits in no time: the commands measure each part alone, so measure both at once before you rely on it".to_owned()),
            Goal::Application(profile) => {
                said.push(format!(
                    "your profile: share {}, {} offloads a second, {} cores, {:?}",
                    profile.share, profile.offloads_per_s, profile.cores, profile.design
                ));
                if profile.design == Design::Sync {
                    said.push("each core waits for its own offload, and works on the rest for exponential times between two".to_owned());
                    said.extend(self.lanes(1).assumption(self.name(1)));
                }
            }
            _ => {}
        }
        let notes = host.notes.iter().chain(&device.notes);
        said.extend(notes.cloned());
        said
    }

    /// Further remarks.
    fn find(&self, advice: &mut Advice) -> Result<(), Refusal> {
        let mut add = |name: &str, text: String| advice.findings.push((name.to_owned(), text));
        for (name, predictor) in [
            ("host_model", &self.advisor.host_time),
            ("device_model", &self.advisor.device_time),
        ] {
            add(name, said_of(predictor));
        }
        let Some(largest) = advice.at.last().copied() else {
            return Ok(());
        };
        let load = self.load(1, advice.batch, largest.size);
        let loads = [self.load(0, advice.batch, largest.size), load];
        let is_of_figures = matches!(advice.goal, Goal::Latency | Goal::Throughput | Goal::Cores);
        if let Some((gain, own)) = self.own_gain(&loads).filter(|_| is_of_figures)
            && own == [largest.host_ns, largest.device_ns]
        {
            add("gain_model", said_of_gain(&gain));
        }
        if let Some(service) = self.advisor.device_time.service() {
            let by_item = service.item_ns + service.byte_ns * largest.size as f64;
            if by_item > 0.0 && service.job_ns > 0.0 {
                let least = ((1.0 / FIXED_SHARE - 1.0) * service.job_ns / by_item).ceil();
                add(
                    "batch",
                    format!(
                        "{least:.0} items or more at {} B, so that a job's fixed part is at most a tenth of it",
                        largest.size
                    ),
                );
            }
            if let Some(lanes) = service.lanes {
                let depth =
                    (lanes as f64 * service.alone_ns(&load) / service.service_ns(&load)).ceil();
                let deep = Load {
                    depth: depth as u64,
                    threads: 1,
                    ..load
                };
                let waits = depth * service.closed_loop_ns(&deep).0;
                add(
                    "depth",
                    format!(
                        "{depth:.0} jobs in flight keep {lanes} lanes busy; each then takes {waits:.0} ns instead of {:.0}",
                        service.alone_ns(&load)
                    ),
                );
            }
        }
        let costs = || {
            let host = self.cost(0, &self.load(0, advice.batch, largest.size))?;
            Ok::<_, Refusal>((host, self.cost(1, &load)?))
        };
        let costs = self.question.jobs_per_s.map(|rate| (rate, costs()));
        if let Some((_, Err(why))) = &costs {
            add("cores_freed", format!("not known: {why}"));
        }
        if let Some((jobs_per_s, Ok((host, device)))) = costs {
            // More than the device does stays where it is.
            let most = self.most_jobs_per_s(advice.batch, largest.size)?;
            let moved = most.min(&Estimate::exact(jobs_per_s));
            let cores =
                |jobs_per_s: f64, host: f64, device: f64| jobs_per_s * (host - device) / 1e9;
            let freed = cores(moved.value, host.value, device.value);
            let ends = [moved.low, moved.high].map(|moved| {
                [(host.low, device.high), (host.high, device.low)]
                    .map(|(host, device)| cores(moved, host, device))
            });
            let ends = ends.as_flattened().iter().copied();
            let (low, high) = (
                ends.clone().fold(f64::INFINITY, f64::min),
                ends.fold(f64::NEG_INFINITY, f64::max),
            );
            let of = match moved.value < jobs_per_s {
                true => format!(
                    "{:.0} of {jobs_per_s}, which is all that {} does of",
                    moved.value,
                    self.name(1)
                ),
                false => jobs_per_s.to_string(),
            };
            add(
                "cores_freed",
                format!(
                    "{freed:.3} ({low:.3} to {high:.3}) at {of} jobs of {} B a second",
                    largest.size
                ),
            );
            advice.cores_freed = Some(freed);
        }
        match &self.question.goal {
            Goal::Split => {
                let split = self.split(&self.load(0, advice.batch, largest.size))?;
                advice.findings.push((
                    "split".to_owned(),
                    format!(
                        "{} of {} items of {} B to {}",
                        split.items, advice.batch, largest.size, self.advisor.device.backend
                    ),
                ));
                advice.device_share = Some(split.items as f64 / advice.batch as f64);
            }
            Goal::Application(profile) => {
                let most = self.most_offloads_per_s(profile)?;
                advice.findings.push((
                    "capacity".to_owned(),
                    match most.value.is_finite() {
                        true => format!(
                            "{} does {:.0} offloads a second ({:.0} to {:.0}) of these sizes at its deepest measured queue; the profile has {}",
                            self.name(1), most.value, most.low, most.high, profile.offloads_per_s
                        ),
                        false => format!("{} is as many as there are cores", self.name(1)),
                    },
                ));
            }
            Goal::Slo { limit_ns, .. } => {
                let met = advice.at.iter().map(|at| met(at, *limit_ns));
                let met = met.collect::<Vec<_>>().join("; ");
                advice.findings.push(("limit".to_owned(), met));
                let rates = [0, 1].map(|side| self.highest_rate(side, &load, *limit_ns));
                let rates: Vec<String> = rates.into_iter().collect::<Result<_, _>>()?;
                advice
                    .findings
                    .push(("rate_threshold".to_owned(), rates.join("; ")));
            }
            _ => {}
        }
        Ok(())
    }
}

/// Who meets the limit at a size.
fn met(at: &AtSize, limit_ns: f64) -> String {
    let by = |p99: &Estimate| {
        if p99.high <= limit_ns {
            "meets it"
        } else if p99.low > limit_ns {
            "misses it"
        } else {
            "may meet it"
        }
    };
    let (host, device) = (by(&at.host_ns), by(&at.device_ns));
    format!("{} B: the host {host}, the device {device}", at.size)
}

/// A relative error in words.
fn error(error: Option<f64>) -> String {
    match error {
        Some(error) => format!("{:.2} %", error * 100.0),
        None => "not able to".to_owned(),
    }
}

/// The way to a gain in a sentence, with the error of the one that lost.
fn said_of_gain(gain: &Gain) -> String {
    let [models, lines] = gain.errors;
    format!(
        "{}; left-out ratios are missed by {} (of both models) and {} (lines)",
        match gain.is_on_lines {
            true => "lines between measured ratios on logarithmic axes",
            false => "the ratio of both models",
        },
        error(models),
        error(lines)
    )
}

/// A predictor in a sentence, with the error of the one that lost.
fn said_of(predictor: &Predictor) -> String {
    let [affine, lines] = predictor.errors;
    let mut said = format!(
        "{}; left-out points are missed by {} (affine) and {} (lines)",
        predictor.kind().name(),
        error(affine),
        error(lines)
    );
    if let Some(service) = predictor.service() {
        let lanes = service.lanes.map_or_else(
            || "lanes never all busy".to_owned(),
            |lanes| format!("{lanes} lanes"),
        );
        said.push_str(&format!(
            "; {lanes}, {:.1} ns a job, {:.2} ns an item, {:.4} ns a byte, doorbell {:.1} ns",
            service.job_ns, service.item_ns, service.byte_ns, service.doorbell_ns
        ));
        if service.shared_byte_ns > 0.0 {
            said.push_str(&format!(
                ", {:.4} ns a byte on what lanes share",
                service.shared_byte_ns
            ));
        }
    }
    said
}

impl Advice {
    /// The verdict over the whole range of sizes, in words.
    pub fn verdict(&self) -> String {
        if let Goal::Application(_) = self.goal {
            let gain = self.at.first().map(|at| Verdict::of(&at.gain));
            return gain.unwrap_or(Verdict::TooClose).name().to_owned();
        }
        self.decision.said(|size| format!("{size:.0} B"))
    }
}

#[cfg(test)]
mod tests;
