//! From raw samples to a median with its uncertainty, and to a verdict on whether it can be trusted.
//!
//! Nothing here assumes a distribution: medians, resampling, ranks. All random choices follow a seed.

use super::interference::Interference;
use super::random::SplitMix64;
use super::record::{Stability, Summary};

/// Resamples behind a confidence interval.
const RESAMPLES: usize = 2000;
/// Runs that vary by more than this (coefficient of variation) are not stable.
const CV_MAX: f64 = 0.05;
/// A run further from the median than this share of it can be an outlier, one that is nearer never is.
const OUTLIER_SHARE_MIN: f64 = 0.05;
/// Modified z-score above which a run is an outlier (Iglewicz and Hoaglin, 1993).
const OUTLIER_SCORE: f64 = 3.5;
/// A trend over all runs of less than this share of the median is no drift, however regular.
const DRIFT_SHARE_MIN: f64 = 0.02;
/// Two-sided 5 % point of the normal distribution.
const Z_95: f64 = 1.96;
/// Share of the workers' time that the hypervisor may give away.
const STEAL_SHARE_MAX: f64 = 0.01;
/// Share of the workers' time that they may be ready and wait for a core.
const CORE_WAIT_SHARE_MAX: f64 = 0.02;

/// The median; the mean of the middle two if their number is even. `None` of nothing.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    median_in_place(&mut sorted)
}

/// Coefficient of variation: standard deviation (n − 1) over mean. `None` below two values or at mean zero.
pub fn cv(values: &[f64]) -> Option<f64> {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    if values.len() < 2 || mean == 0.0 {
        return None;
    }
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some((squares / (n - 1.0)).sqrt() / mean.abs())
}

/// The 95 % percentile-bootstrap interval of the median. `None` below three values.
pub fn bootstrap_ci95(values: &[f64], seed: u64) -> Option<(f64, f64)> {
    if values.len() < 3 {
        return None;
    }
    let mut random = SplitMix64::new(seed);
    let mut resample = vec![0.0; values.len()];
    let medians =
        (0..RESAMPLES).filter_map(|_| resampled_median(values, &mut resample, &mut random));
    Some(middle_95(medians.collect()))
}

/// Median, interval and number of samples. `None` of nothing.
pub fn summarize(values: &[f64], seed: u64) -> Option<Summary> {
    let median = median(values)?;
    let interval = bootstrap_ci95(values, seed);
    Some(Summary {
        median,
        ci95_low: interval.map(|(low, _)| low),
        ci95_high: interval.map(|(_, high)| high),
        samples: values.len() as u64,
    })
}

/// How one side compares with another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// Median over median.
    pub median: f64,
    /// The 95 % interval of that ratio, both sides resampled; `None` if a side has fewer than three values.
    pub ci95: Option<(f64, f64)>,
}

impl Ratio {
    /// `over / under`. `None` if a side is empty or `under` has the median zero.
    pub fn of(over: &[f64], under: &[f64], seed: u64) -> Option<Self> {
        let below = median(under).filter(|&median| median != 0.0)?;
        let median = median(over)? / below;
        if over.len() < 3 || under.len() < 3 {
            return Some(Self { median, ci95: None });
        }
        let mut random = SplitMix64::new(seed);
        let (mut a, mut b) = (vec![0.0; over.len()], vec![0.0; under.len()]);
        let ratios = (0..RESAMPLES).filter_map(|_| {
            let above = resampled_median(over, &mut a, &mut random)?;
            let below = resampled_median(under, &mut b, &mut random)?;
            (below != 0.0).then(|| above / below)
        });
        Some(Self {
            median,
            ci95: Some(middle_95(ratios.collect())),
        })
    }

    /// Whether the interval leaves no doubt on which side of 1 the ratio is.
    pub fn is_decided(&self) -> bool {
        self.ci95.is_some_and(|(low, high)| low > 1.0 || high < 1.0)
    }
}

/// Positions of values far from the median, by the median absolute deviation.
pub fn outliers(values: &[f64]) -> Vec<usize> {
    let Some(middle) = median(values).filter(|_| values.len() >= 4) else {
        return Vec::new();
    };
    let deviations: Vec<f64> = values.iter().map(|value| (value - middle).abs()).collect();
    let mad = median(&deviations).unwrap_or(0.0);
    let is_far = |deviation: f64| {
        deviation > OUTLIER_SHARE_MIN * middle.abs() && 0.6745 * deviation > OUTLIER_SCORE * mad
    };
    (0..values.len())
        .filter(|&at| is_far(deviations[at]))
        .collect()
}

/// The change from first to last as a share of the median, if a trend is there: Mann-Kendall's test at 5 %, slope by
/// Theil and Sen. `None` below five values, without a trend, or if it is too small to matter.
pub fn drift(values: &[f64]) -> Option<f64> {
    let n = values.len();
    if n < 5 {
        return None;
    }
    let mut slopes = Vec::with_capacity(n * (n - 1) / 2);
    let mut s = 0i64;
    for i in 0..n {
        for j in i + 1..n {
            let change = values[j] - values[i];
            s += i64::from(change > 0.0) - i64::from(change < 0.0);
            slopes.push(change / (j - i) as f64);
        }
    }
    let n = n as f64;
    let deviation = (n * (n - 1.0) * (2.0 * n + 5.0) / 18.0).sqrt();
    let z = (s.abs() - 1).max(0) as f64 / deviation;
    let share = median_in_place(&mut slopes)? * (n - 1.0) / median(values)?;
    (z > Z_95 && share.abs() > DRIFT_SHARE_MIN).then_some(share)
}

/// The verdict on `runs` (one value a run, in the order they were taken), of which `runs_asked` were asked for, by
/// `workers` threads, in the company of `interference`.
pub fn judge(
    runs: &[f64],
    runs_asked: usize,
    workers: u32,
    interference: &Interference,
) -> Stability {
    let cv = cv(runs);
    let mut reasons = Vec::new();
    if runs.len() < runs_asked {
        reasons.push(format!("{} of {runs_asked} runs", runs.len()));
    }
    if runs.len() < 3 {
        reasons.push(format!("{} runs are too few to judge", runs.len()));
    }
    if let Some(cv) = cv.filter(|&cv| cv > CV_MAX) {
        reasons.push(format!("runs vary by {:.1} % (CV)", cv * 100.0));
    }
    let far = outliers(runs);
    if !far.is_empty() {
        let names: Vec<String> = far.iter().map(|at| (at + 1).to_string()).collect();
        reasons.push(format!("outlier: run {}", names.join(", ")));
    }
    if let Some(share) = drift(runs) {
        reasons.push(format!("drift of {:+.1} % over the runs", share * 100.0));
    }
    reasons.extend(interference_reasons(workers, interference));
    Stability {
        stable: reasons.is_empty(),
        reasons,
        cv,
        core_wait_s: interference.core_wait_s,
        context_switches_involuntary: interference.context_switches_involuntary,
        steal_s: interference.steal_s,
    }
}

fn interference_reasons(workers: u32, interference: &Interference) -> Vec<String> {
    let worker_s = interference.wall_s * f64::from(workers.max(1));
    let mut reasons = Vec::new();
    if let Some(steal_s) = interference.steal_s
        && steal_s > STEAL_SHARE_MAX * worker_s
        && steal_s > 0.02
    {
        reasons.push(format!("the hypervisor took {steal_s:.2} s of CPU time"));
    }
    if let Some(core_wait_s) = interference.core_wait_s {
        let share = core_wait_s / worker_s;
        if share > CORE_WAIT_SHARE_MAX {
            reasons.push(format!(
                "threads waited {:.0} % of the time for a core",
                share * 100.0
            ));
        }
    }
    reasons
}

fn median_in_place(values: &mut [f64]) -> Option<f64> {
    let (middle, is_odd) = (values.len() / 2, values.len() % 2 == 1);
    if values.is_empty() {
        return None;
    }
    let (below, &mut upper, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    if is_odd {
        return Some(upper);
    }
    let lower = below.iter().copied().max_by(f64::total_cmp)?;
    Some(f64::midpoint(lower, upper))
}

fn resampled_median(values: &[f64], resample: &mut [f64], random: &mut SplitMix64) -> Option<f64> {
    resample.fill_with(|| values[random.below(values.len())]);
    median_in_place(resample)
}

/// The 2.5 % and 97.5 % points of what was resampled.
fn middle_95(mut values: Vec<f64>) -> (f64, f64) {
    values.sort_unstable_by(f64::total_cmp);
    let at = |share: f64| values[(share * (values.len() - 1) as f64).round() as usize];
    (at(0.025), at(0.975))
}

#[cfg(test)]
mod tests;
