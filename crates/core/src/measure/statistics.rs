//! From raw samples to a median with its uncertainty, and to a verdict on whether it can be trusted.
//!
//! Nothing here assumes a distribution, and nothing is drawn: medians, order statistics, ranks.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::interference::Interference;

/// A number with its uncertainty.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Summary {
    /// The median over the runs, or for one of a kind (a percentile of a histogram) the value.
    pub median: f64,
    /// Lower end of the 95 % confidence interval of the median; six samples are the fewest that have one.
    pub ci95_low: Option<f64>,
    /// Upper end.
    pub ci95_high: Option<f64>,
    /// The number of samples that it rests on.
    pub samples: u64,
}

/// The verdict on whether the numbers can be trusted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stability {
    /// No reason against it was found.
    pub stable: bool,
    /// Reasons against: drift, outliers, interference, fewer runs than asked.
    pub reasons: Vec<String>,
    /// Other work took cores or time from it, by more than a small share: its numbers are of a machine that was shared.
    #[serde(default)]
    pub disturbed: bool,
    /// Coefficient of variation over the runs.
    pub cv: Option<f64>,
    /// The time for which the threads were ready to run and waited for a core during the timed runs, summed over them, in seconds.
    #[serde(default)]
    pub core_wait_s: Option<f64>,
    /// Involuntary context switches during the timed runs. Polling threads that offer their core have many, harmless ones.
    pub context_switches_involuntary: Option<u64>,
    /// CPU time that the hypervisor gave to others meanwhile, in seconds.
    pub steal_s: Option<f64>,
}

/// How often an interval may miss what it is an interval of.
const MISS_MAX: f64 = 0.05;
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

/// Coefficient of variation: standard deviation (n − 1) over mean. `None` below two values, at mean zero, and where it is no
/// finite number.
pub fn cv(values: &[f64]) -> Option<f64> {
    if values.len() < 2 {
        return None;
    }
    let largest = values
        .iter()
        .fold(0.0, |most: f64, value| most.max(value.abs()));
    let n = values.len() as f64;
    // Squares of very large values are infinite, and those of very small ones zero; squares of shares of the largest are neither.
    let parts = values.iter().map(|value| value / largest);
    let mean = parts.clone().sum::<f64>() / n;
    let squares: f64 = parts.map(|part| (part - mean).powi(2)).sum();
    let cv = (squares / (n - 1.0)).sqrt() / mean.abs();
    cv.is_finite().then_some(cv)
}

/// The 95 % interval of the median: from one order statistic to the other that is as far from its end, the closest pair
/// that covers the median so often whatever the distribution, by the binomial (sign test). `None` below six values: even
/// the whole range of five covers it but 15 times in 16.
///
/// A percentile bootstrap was tried and lost: of a median it covers 75 % with three values, 88 % with seven.
pub fn median_ci95(values: &[f64]) -> Option<(f64, f64)> {
    median_interval(values, MISS_MAX)
}

/// As [`median_ci95`], for an interval that misses the median at most as often as `miss`.
fn median_interval(values: &[f64], miss: f64) -> Option<(f64, f64)> {
    let cut = cut(values.len(), miss)?;
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    Some((sorted[cut], sorted[sorted.len() - 1 - cut]))
}

/// Median, interval and number of samples. `None` of nothing.
pub fn summarize(values: &[f64]) -> Option<Summary> {
    let median = median(values)?;
    let interval = median_ci95(values);
    Some(Summary {
        median,
        ci95_low: interval.map(|(low, _)| low),
        ci95_high: interval.map(|(_, high)| high),
        samples: values.len() as u64,
    })
}

/// The ratio of one side to another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// Median over median.
    pub median: f64,
    /// The 95 % interval of that ratio; `None` if a side has fewer than six values, or one that is not positive.
    pub ci95: Option<(f64, f64)>,
}

impl Ratio {
    /// `over / under`. `None` if a side is empty or `under` has the median zero.
    pub fn of(over: &[f64], under: &[f64]) -> Option<Self> {
        let below = median(under).filter(|&median| median != 0.0)?;
        Some(Self {
            median: median(over)? / below,
            ci95: Self::interval(over, under, MISS_MAX),
        })
    }

    /// The interval of `over / under` that misses the ratio at most as often as `miss`: from the intervals of both medians, whose
    /// arms on the logarithmic scale add like the sides of a right angle (MOVER, Zou and Donner 2008). `None` if there are too
    /// few values for it, or one that is not positive.
    pub fn interval(over: &[f64], under: &[f64], miss: f64) -> Option<(f64, f64)> {
        let (above, (above_low, above_high)) = (median(over)?, median_interval(over, miss)?);
        let (below, (below_low, below_high)) = (median(under)?, median_interval(under, miss)?);
        if above_low <= 0.0 || below_low <= 0.0 {
            return None;
        }
        let arm = |of_above: f64, of_below: f64| of_above.ln().hypot(of_below.ln()).exp();
        let ratio = above / below;
        Some((
            ratio / arm(above / above_low, below_high / below),
            ratio * arm(above_high / above, below / below_low),
        ))
    }

    /// True if the interval leaves no doubt on which side of 1 the ratio is.
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
    let of_interference = interference_reasons(workers, interference);
    let disturbed = !of_interference.is_empty();
    reasons.extend(of_interference);
    Stability {
        disturbed,
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

/// How many of `n` values may be cut off each end, so that the rest's range misses the median at most as often as `miss`. Each value
/// falls below the median with one half, so the number of those that do is binomial.
fn cut(n: usize, miss: f64) -> Option<usize> {
    let mut cut = None;
    let mut ln_share = -(n as f64) * std::f64::consts::LN_2;
    let mut tail = 0.0;
    for below in 0..n {
        tail += ln_share.exp();
        if 2.0 * tail > miss {
            break;
        }
        cut = Some(below);
        ln_share += ((n - below) as f64 / (below + 1) as f64).ln();
    }
    cut
}

#[cfg(test)]
mod tests;
