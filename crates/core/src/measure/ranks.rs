//! Where two sides differ, by ranks alone: estimates of a shift, and the intervals that the rank tests of Wilcoxon leave open.
//!
//! No distribution is assumed. A test's p-value says whether a shift of zero is likely; the interval is all shifts that the
//! test does not reject (Hodges and Lehmann 1963; Hollander, Wolfe and Chicken, *Nonparametric Statistical Methods*, 3.2 and 4.2).
//! Unlike an interval of order statistics of each side, one of few values still exists where it may seldom miss: with seven
//! values a side up to 1 in 1,716.

use std::cmp::Ordering;

/// A shift and how sure it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shift {
    /// The middle of all the single shifts (Hodges and Lehmann).
    pub estimate: f64,
    /// What the test leaves open. `None` if there are too few values for an interval that misses so seldom.
    pub interval: Option<(f64, f64)>,
}

/// Beyond so many values of a side, a test's distribution is taken as normal.
const EXACT_MAX: usize = 60;

impl Shift {
    /// Of values that were paired and subtracted: where their middle is, by the signed-rank test. The interval misses it with
    /// a probability of `miss` at most, if differences spread alike to both sides. `None` of nothing.
    pub fn of_differences(differences: &[f64], miss: f64) -> Option<Self> {
        let mut sorted = differences.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        let n = sorted.len();
        // The test's statistic counts the positive means of two.
        let means = Sums {
            left: &sorted,
            right: &sorted,
            each_pair_once: true,
        };
        let cut = match n <= EXACT_MAX {
            true => tail_cut(&signed_rank_distribution(n), miss),
            false => {
                let n = n as f64;
                let variance = n * (n + 1.0) * (2.0 * n + 1.0) / 24.0;
                normal_cut(n * (n + 1.0) / 4.0, variance.sqrt(), miss)
            }
        };
        means.shift(cut).map(|sum| Self {
            estimate: sum.estimate / 2.0,
            interval: sum.interval.map(|(low, high)| (low / 2.0, high / 2.0)),
        })
    }

    /// From the values of `from` to those of `to`, which are two samples of their own, by the rank-sum test. The interval misses
    /// the shift with a probability of `miss` at most, if both sides spread alike. `None` if a side is empty.
    pub fn between(from: &[f64], to: &[f64], miss: f64) -> Option<Self> {
        let mut negated: Vec<f64> = from.iter().map(|value| -value).collect();
        let mut sorted = to.to_vec();
        negated.sort_unstable_by(f64::total_cmp);
        sorted.sort_unstable_by(f64::total_cmp);
        let (m, n) = (negated.len(), sorted.len());
        let differences = Sums {
            left: &negated,
            right: &sorted,
            each_pair_once: false,
        };
        let cut = match m <= EXACT_MAX && n <= EXACT_MAX {
            true => tail_cut(&rank_sum_distribution(m, n), miss),
            false => {
                let (m, n) = (m as f64, n as f64);
                normal_cut(m * n / 2.0, (m * n * (m + n + 1.0) / 12.0).sqrt(), miss)
            }
        };
        differences.shift(cut)
    }
}

/// All sums of one value of the left and one of the right, both sorted; or of two of one list, itself and another, each pair once.
struct Sums<'a> {
    left: &'a [f64],
    right: &'a [f64],
    each_pair_once: bool,
}

impl Sums<'_> {
    fn count(&self) -> u64 {
        let (m, n) = (self.left.len() as u64, self.right.len() as u64);
        match self.each_pair_once {
            true => n * (n + 1) / 2,
            false => m * n,
        }
    }

    /// The middle, and what is left when `cut` of the sums are cut off each end.
    fn shift(&self, cut: Option<u64>) -> Option<Shift> {
        let count = self.count();
        let middle = count.checked_sub(1)? / 2;
        let estimate = match count % 2 {
            1 => self.nth(middle),
            _ => f64::midpoint(self.nth(middle), self.nth(middle + 1)),
        };
        let interval = cut.map(|cut| (self.nth(cut), self.nth(count - 1 - cut)));
        Some(Shift { estimate, interval })
    }

    /// The sum that so many are below or equal to, by bisection over all numbers: there are too many sums to list.
    fn nth(&self, nth: u64) -> f64 {
        let (mut low, mut high) = (i64::MIN, i64::MAX);
        while low < high {
            let middle = (low & high) + ((low ^ high) >> 1);
            match self.up_to(of_key(middle)) > nth {
                true => high = middle,
                false => low = middle + 1,
            }
        }
        of_key(low)
    }

    /// How many sums are at most `bound`.
    fn up_to(&self, bound: f64) -> u64 {
        let mut fitting = self.right.len();
        let (mut all, mut twice) = (0, 0);
        for &left in self.left {
            while fitting > 0
                && (left + self.right[fitting - 1]).total_cmp(&bound) == Ordering::Greater
            {
                fitting -= 1;
            }
            all += fitting as u64;
            twice += u64::from(
                self.each_pair_once && (left + left).total_cmp(&bound) != Ordering::Greater,
            );
        }
        match self.each_pair_once {
            // Each pair of two was counted from both ends.
            true => (all + twice) / 2,
            false => all,
        }
    }
}

/// The number whose place in the total order of numbers is `key`.
fn of_key(key: i64) -> f64 {
    f64::from_bits((key ^ (((key >> 63) as u64) >> 1) as i64).cast_unsigned())
}

/// How often each sum of ranks comes when each of 1 to `n` is taken or not, with equal probability.
fn signed_rank_distribution(n: usize) -> Vec<f64> {
    let mut shares = vec![1.0];
    for rank in 1..=n {
        let mut next = vec![0.0; shares.len() + rank];
        for (sum, share) in shares.iter().enumerate() {
            next[sum] += share / 2.0;
            next[sum + rank] += share / 2.0;
        }
        shares = next;
    }
    shares
}

/// How often each number of pairs comes in which the second side is ahead, when all orders of the `m + n` values are alike.
fn rank_sum_distribution(m: usize, n: usize) -> Vec<f64> {
    // `shares[i][u]`: of `i` values of one side among the values so far, `u` pairs. Each next value is of either side, as often
    // as there are values of it left.
    let mut shares = vec![vec![0.0; m * n + 1]; m + 1];
    shares[0][0] = 1.0;
    for placed in 0..m + n {
        let left = (m + n - placed) as f64;
        for i in (0..=m.min(placed)).rev() {
            let j = placed - i;
            let to_m = (m - i) as f64 / left;
            // A value of the first side is behind all `j` of the second.
            if i < m {
                let (of_i, of_next) = shares.split_at_mut(i + 1);
                let pairs = j..=m * n;
                for (to, share) in of_next[0][pairs].iter_mut().zip(&of_i[i]) {
                    *to += share * to_m;
                }
            }
            shares[i].iter_mut().for_each(|share| *share *= 1.0 - to_m);
        }
    }
    shares.swap_remove(m)
}

/// How many may be cut off each end of a symmetric distribution, so that less than `miss` goes with them. `None` if not even the
/// outermost may.
fn tail_cut(shares: &[f64], miss: f64) -> Option<u64> {
    let mut tail = 0.0;
    let fitting = shares.iter().take_while(|&share| {
        tail += share;
        2.0 * tail <= miss
    });
    (fitting.count() as u64).checked_sub(1)
}

/// As [`tail_cut`], of a normal distribution of whole numbers.
fn normal_cut(mean: f64, deviation: f64, miss: f64) -> Option<u64> {
    let cut = (mean - 0.5 - normal_quantile(miss / 2.0) * deviation).floor();
    (cut >= 0.0).then_some(cut as u64)
}

/// Beyond how many deviations above the mean a normal distribution has so small a share, by bisection.
fn normal_quantile(tail: f64) -> f64 {
    let (mut low, mut high) = (0.0, 40.0);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        let beyond = libm::erfc(middle / std::f64::consts::SQRT_2) / 2.0;
        match beyond > tail {
            true => low = middle,
            false => high = middle,
        }
    }
    low
}

#[cfg(test)]
mod tests;
