//! Predicate pushdown: the file crosses the link and is filtered here, or the storage filters and the rows that qualify cross. Each scheme has two parts, its
//! work and its transfer, which may be done at once; how far they are, and what each run costs beside them, is fitted to runs over other links.

use super::interval::{Estimate, FOLDS_MIN, Missed, jackknife_plus};

/// The shares of the shorter part that are tried, in percent. Two parts that hinder each other take more than their sum.
const SHARES: std::ops::RangeInclusive<u32> = 0..=200;

/// Known figures of a table, a link and both filters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tables {
    /// N: rows of the table.
    pub rows: f64,
    /// F: bytes of the file that a fetch moves.
    pub file_bytes: f64,
    /// r: bytes of a row that is sent.
    pub row_bytes: f64,
    /// W: bytes that the link carries in a second.
    pub link_bytes_per_s: f64,
    /// Rows that the storage filters in a second.
    pub scan_rows_per_s: f64,
    /// Rows that are filtered here in a second.
    pub filter_rows_per_s: f64,
}

impl Tables {
    /// Refuses what is no table.
    ///
    /// # Errors
    /// The reason.
    pub fn check(&self) -> Result<(), String> {
        let parts = [
            ("rows", self.rows),
            ("bytes of the file", self.file_bytes),
            ("bytes of a row", self.row_bytes),
            ("the link's rate", self.link_bytes_per_s),
            ("the scan's rate", self.scan_rows_per_s),
            ("the filter's rate", self.filter_rows_per_s),
        ];
        match parts
            .into_iter()
            .find(|(_, value)| !value.is_finite() || *value <= 0.0)
        {
            Some((name, value)) => Err(format!("{name}: {value}")),
            None => Ok(()),
        }
    }

    /// The fetch: the file's transfer, and the filter here.
    pub fn fetch(&self) -> Parts {
        Parts {
            work_s: self.rows / self.filter_rows_per_s,
            link_s: self.file_bytes / self.link_bytes_per_s,
        }
    }

    /// The scan at the storage, and the transfer of this share of rows.
    pub fn push(&self, selectivity: f64) -> Parts {
        Parts {
            work_s: self.rows / self.scan_rows_per_s,
            link_s: selectivity * self.rows * self.row_bytes / self.link_bytes_per_s,
        }
    }
}

/// The parts of a scheme's time, in seconds, each as if it were alone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parts {
    /// Scan or filter.
    pub work_s: f64,
    /// The transfer.
    pub link_s: f64,
}

/// A scheme that was measured over a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Its parts over this link.
    pub parts: Parts,
    /// The time that it took.
    pub seconds: f64,
}

/// The time by parts: the longer one, this share of the shorter one, and a time that each run takes.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Joined {
    /// 0 if the shorter part hides behind the longer one, 1 if they follow one another, more if they hinder each other.
    share: f64,
    fixed_s: f64,
}

impl Joined {
    fn at(&self, parts: Parts) -> f64 {
        let (longer, shorter) = (
            parts.work_s.max(parts.link_s),
            parts.work_s.min(parts.link_s),
        );
        longer + self.share * shorter + self.fixed_s
    }

    /// Least squares of relative errors; each share is tried, and the fixed time that goes with it follows.
    fn fit(points: &[Measured]) -> Self {
        let tried = SHARES.map(|percent| {
            let mut joined = Self {
                share: f64::from(percent) / 100.0,
                fixed_s: 0.0,
            };
            let weight = |point: &Measured| point.seconds.recip();
            let missing = |point: &Measured| point.seconds - joined.at(point.parts);
            let sum = |of: &dyn Fn(&Measured) -> f64| points.iter().map(of).sum::<f64>();
            let above = sum(&|point| weight(point).powi(2) * missing(point));
            joined.fixed_s = (above / sum(&|point| weight(point).powi(2))).max(0.0);
            let error = |point: &Measured| joined.at(point.parts) / point.seconds - 1.0;
            let squares: f64 = points.iter().map(|point| error(point).powi(2)).sum();
            (squares, joined)
        });
        let best = tried.min_by(|(one, _), (other, _)| one.total_cmp(other));
        best.map_or(
            Self {
                share: 1.0,
                fixed_s: 0.0,
            },
            |(_, joined)| joined,
        )
    }
}

/// A scheme's time over any link, with intervals.
#[derive(Clone, Debug)]
pub struct Scheme {
    all: Joined,
    /// The fit without each point, and the logarithm of the ratio by which it missed that point.
    without: Vec<(Joined, f64)>,
}

impl Scheme {
    /// Fits a scheme to what was measured over other links.
    ///
    /// # Errors
    /// Too few points for an interval, or a point without a time.
    pub fn fit(points: &[Measured]) -> Result<Self, String> {
        if points.len() < FOLDS_MIN {
            return Err(format!(
                "{} points were measured, and an interval needs {FOLDS_MIN}",
                points.len()
            ));
        }
        let is_time = |value: f64| value.is_finite() && value > 0.0;
        let is_part = |value: f64| value.is_finite() && value >= 0.0;
        let is_wrong = |point: &&Measured| {
            !is_time(point.seconds)
                || !is_part(point.parts.work_s)
                || !is_part(point.parts.link_s)
                || !is_time(point.parts.work_s + point.parts.link_s)
        };
        if let Some(wrong) = points.iter().find(is_wrong) {
            return Err(format!("{wrong:?} is no time"));
        }
        let without = (0..points.len()).map(|left_out| {
            let mut rest = points.to_vec();
            let point = rest.swap_remove(left_out);
            let joined = Joined::fit(&rest);
            (joined, (point.seconds / joined.at(point.parts)).ln())
        });
        Ok(Self {
            all: Joined::fit(points),
            without: without.collect(),
        })
    }

    /// Seconds of a run of these parts, with an interval by jackknife+.
    pub fn at(&self, parts: Parts) -> Estimate {
        let missed = self.without.iter();
        let missed: Vec<Missed> = missed
            .map(|(joined, error)| Some((joined.at(parts).ln(), *error)))
            .collect();
        jackknife_plus(self.all.at(parts), &missed)
    }

    /// The share of the shorter part that the longer one does not hide, and the seconds that each run takes beside its parts.
    pub fn fitted(&self) -> (f64, f64) {
        (self.all.share, self.all.fixed_s)
    }
}

#[cfg(test)]
mod tests {
    use dpb_core::random::SplitMix64;

    use super::*;

    const TABLE: Tables = Tables {
        rows: 6e6,
        file_bytes: 200e6,
        row_bytes: 100.0,
        link_bytes_per_s: 125e6,
        scan_rows_per_s: 60e6,
        filter_rows_per_s: 30e6,
    };

    #[test]
    fn a_part_is_a_number_by_its_rate() {
        let fetch = TABLE.fetch();
        assert!((fetch.link_s - 1.6).abs() < 1e-12 && (fetch.work_s - 0.2).abs() < 1e-12);
        let push = TABLE.push(0.01);
        // 0.1 s of scan, 6 MB in 0.048 s.
        assert!((push.work_s - 0.1).abs() < 1e-12 && (push.link_s - 0.048).abs() < 1e-12);
    }

    #[test]
    fn what_is_no_table_is_refused() {
        let wrong = Tables {
            link_bytes_per_s: 0.0,
            ..TABLE
        };
        assert!(wrong.check().is_err() && TABLE.check().is_ok());
    }

    /// Fetches over three links at three selectivities, by a law.
    fn measured(law: impl Fn(Parts) -> f64) -> Vec<Measured> {
        let links = [62.5e6, 250e6, 500e6, 2500e6];
        let all = links.into_iter().flat_map(|link_bytes_per_s| {
            [0.001, 0.05, 0.5].map(|selectivity| {
                Tables {
                    link_bytes_per_s,
                    ..TABLE
                }
                .push(selectivity)
            })
        });
        all.map(|parts| Measured {
            parts,
            seconds: law(parts),
        })
        .collect()
    }

    #[test]
    fn a_known_law_is_found() {
        let law = |parts: Parts| {
            parts.work_s.max(parts.link_s) + 0.25 * parts.work_s.min(parts.link_s) + 0.007
        };
        let scheme = Scheme::fit(&measured(law)).expect("enough");
        let (share, fixed_s) = scheme.fitted();
        assert!((share - 0.25).abs() < 1e-9 && (fixed_s - 0.007).abs() < 1e-9);
        let new = TABLE.push(0.2);
        let said = scheme.at(new);
        assert!((said.value / law(new) - 1.0).abs() < 1e-9 && said.width() < 1e-6);
    }

    /// A law that the model does not have, or runs that scatter, widen the intervals until they hold.
    #[test]
    fn what_the_model_lacks_widens_the_intervals() {
        let hidden =
            |parts: Parts| parts.work_s + parts.link_s + 0.5 * (parts.work_s * parts.link_s).sqrt();
        let scheme = Scheme::fit(&measured(hidden)).expect("enough");
        let new = [0.003, 0.01, 0.03, 0.1, 0.2, 0.4].map(|selectivity| TABLE.push(selectivity));
        let held = new
            .iter()
            .filter(|new| scheme.at(**new).holds(hidden(**new)));
        assert!(held.count() >= 5, "{scheme:?}");
        assert!(new.iter().all(|new| scheme.at(*new).width() > 0.1));
        let mut random = SplitMix64::new(5);
        let (mut held, rounds) = (0, 1000);
        for _ in 0..rounds {
            let mut scattered =
                |parts: Parts| (parts.work_s + parts.link_s) * (0.1 * (random.unit() - 0.5)).exp();
            let points: Vec<Measured> = measured(|_| 1.0)
                .into_iter()
                .map(|point| Measured {
                    seconds: scattered(point.parts),
                    ..point
                })
                .collect();
            let new = TABLE.push(0.1);
            let truth = scattered(new);
            held += usize::from(Scheme::fit(&points).expect("enough").at(new).holds(truth));
        }
        assert!(held * 100 >= rounds * 85, "{held} of {rounds}");
    }

    #[test]
    fn too_few_points_and_times_that_are_none_are_refused() {
        let mut points = measured(|parts| parts.work_s + parts.link_s);
        assert!(Scheme::fit(&points[..8]).is_err());
        points[3].seconds = f64::NAN;
        assert!(Scheme::fit(&points).is_err());
        points[3].seconds = 0.0;
        assert!(Scheme::fit(&points).is_err());
    }
}
