//! Checks: tests that were not measured, with what is predicted for each, written before they run.

use sha2::{Digest, Sha256};

use super::{Advice, Advisor, Goal, Metric, Planned};
use crate::advice::decision::Verdict;
use crate::advice::interval::Estimate;
use crate::advice::load::Load;

/// Most sizes that are held out.
const SIZES_MAX: usize = 6;

/// A prediction about both sides at a load of each.
#[derive(Clone, Debug, PartialEq)]
pub struct Check {
    /// The figure.
    pub metric: Metric,
    /// The host's load.
    pub host_load: Load,
    /// The device's.
    pub device_load: Load,
    /// The host's figure, in nanoseconds by job.
    pub host: Estimate,
    /// The device's.
    pub device: Estimate,
    /// The decision that follows.
    pub gain: Estimate,
    /// The decision about it.
    pub verdict: Verdict,
}

/// Checks at sizes between those that were measured, and for times at a queue between the measured depths too.
pub(super) fn of(plan: &Planned<'_>, batch: u64, measured: &[u64]) -> Vec<Check> {
    let (batch, sizes) = match &plan.question.goal {
        // Of a whole application the parts are checked, of its own sizes and items.
        Goal::Application(profile) => {
            let sizes = profile.sizes.iter().map(|(size, _)| *size);
            (profile.batch, sizes.collect())
        }
        _ => (batch, held_out(measured)),
    };
    let mut checks = Vec::new();
    for &size in &sizes {
        let metric = plan.question.goal.metric();
        let mut loads = [plan.load(0, batch, size), plan.load(1, batch, size)];
        // Of a split the parts are checked, each alone.
        let is_split = plan.question.goal == Goal::Split;
        if is_split {
            let Ok(split) = plan.split(&loads[0]) else {
                continue;
            };
            loads = split.parts(loads);
        }
        let of_queue = |host_load: Load, device_load: Load| {
            let at = plan.at(batch, size).ok()?;
            let (host, device) = match metric {
                Metric::Time => (
                    plan.time(0, &host_load).ok()?.0,
                    plan.time(1, &device_load).ok()?.0,
                ),
                _ => (at.host_ns, at.device_ns),
            };
            let gain = match &plan.question.goal {
                Goal::Slo { .. } | Goal::Split => at.gain,
                _ => plan.gain(&[host_load, device_load], &host, &device),
            };
            Some(Check {
                metric,
                host_load,
                device_load,
                host,
                device,
                verdict: Verdict::of(&gain),
                gain,
            })
        };
        checks.extend(of_queue(loads[0], loads[1]));
        let between = between_depths(plan, loads[1].in_flight());
        if let (Metric::Time, Some(depth), false) = (metric, between, is_split) {
            let device_load = Load {
                depth,
                threads: 1,
                ..loads[1]
            };
            checks.extend(of_queue(loads[0], device_load));
        }
    }
    checks
}

/// Sizes in the middle, on a logarithmic axis, of two that were measured; multiples of eight where there is room.
fn held_out(measured: &[u64]) -> Vec<u64> {
    let middles = measured.windows(2).filter_map(|pair| {
        let middle = (pair[0] as f64 * pair[1] as f64).sqrt().round() as u64;
        let middle = if middle >= 64 { middle / 8 * 8 } else { middle };
        (pair[0] < middle && middle < pair[1]).then_some(middle)
    });
    let middles: Vec<u64> = middles.collect();
    let step = middles.len().div_ceil(SIZES_MAX).max(1);
    middles.into_iter().step_by(step).collect()
}

/// A number of jobs in flight in the middle of two that were measured on one thread, which is not `besides`.
fn between_depths(plan: &Planned<'_>, besides: u64) -> Option<u64> {
    let points = plan.advisor.device.points.iter();
    let mut depths: Vec<u64> = points
        .filter(|point| point.load.threads == 1)
        .map(|point| point.load.depth)
        .collect();
    depths.sort_unstable();
    depths.dedup();
    let mut middles = depths.windows(2).filter_map(|pair| {
        let middle = (pair[0] as f64 * pair[1] as f64).sqrt().round() as u64;
        (pair[0] < middle && middle < pair[1] && middle != besides).then_some(middle)
    });
    middles.next_back()
}

/// The figure that a side is predicted to have at a load. A load that several checks have is one prediction.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// True of the device's, false of the host's.
    pub of_device: bool,
    /// The load.
    pub load: Load,
    /// The name of the figure in records of `dpb op`.
    pub figure: &'static str,
    /// The figure as these records have it.
    pub estimate: Estimate,
    /// The verdict of the device's check. The host's has none: it may be in several checks.
    pub verdict: Option<Verdict>,
    /// All of it in a line, which is hashed.
    pub line: String,
}

impl Prediction {
    fn new(advisor: &Advisor, check: &Check, of_device: bool) -> Self {
        let (side, load, by_job) = match of_device {
            true => (&advisor.device, check.device_load, check.device),
            false => (&advisor.host, check.host_load, check.host),
        };
        let batch = load.batch as f64;
        let (figure, estimate) = match check.metric {
            Metric::Time => ("items_per_s", by_job.map(|ns| batch * 1e9 / ns)),
            Metric::HostTime => ("host_cpu_ns_per_item", by_job.map(|ns| ns / batch)),
            Metric::P99 => ("latency_ns_p99", by_job),
        };
        let verdict = of_device.then_some(check.verdict);
        let line = format!(
            "{} {} batch={} size={} depth={} threads={} {figure}={:e} low90={:e} high90={:e}{}",
            if of_device { "device" } else { "host" },
            side.backend,
            load.batch,
            load.size,
            load.depth,
            load.threads,
            estimate.value,
            estimate.low,
            estimate.high,
            verdict.map_or(String::new(), |verdict| format!(" {}", verdict.name()))
        );
        Self {
            of_device,
            load,
            figure,
            estimate,
            verdict,
            line,
        }
    }
}

impl Advisor {
    /// The predictions of advice, each once.
    pub fn predictions(&self, advice: &Advice) -> Vec<Prediction> {
        let mut all: Vec<Prediction> = Vec::new();
        for check in &advice.checks {
            for of_device in [false, true] {
                let new = Prediction::new(self, check, of_device);
                let is_same =
                    |known: &Prediction| known.of_device == of_device && known.load == new.load;
                if !all.iter().any(is_same) {
                    all.push(new);
                }
            }
        }
        all
    }
}

/// The hash (SHA-256, in hexadecimal digits) of lines with a newline behind each: whoever has it from before the measurement can see that none was changed
/// afterwards.
pub fn frozen<'a>(lines: impl IntoIterator<Item = &'a str>) -> String {
    let lines = lines.into_iter().map(|line| format!("{line}\n"));
    hash_of(&lines.collect::<String>())
}

/// SHA-256 in hexadecimal digits.
pub fn hash_of(text: &str) -> String {
    let hash = Sha256::digest(text.as_bytes());
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// FIPS 180-4's example of one block.
    #[test]
    fn the_hash_is_sha256() {
        let known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hash_of("abc"), known);
    }

    #[test]
    fn sizes_between_measured_ones_are_held_out() {
        assert_eq!(held_out(&[64, 1024, 16384]), [256, 4096]);
        assert_eq!(held_out(&[1, 2]), [] as [u64; 0]);
        let many: Vec<u64> = (0..14).map(|at| 64 << at).collect();
        assert!(held_out(&many).len() <= SIZES_MAX);
    }
}
