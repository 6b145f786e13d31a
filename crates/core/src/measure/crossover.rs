//! From which size on one side wins: where a ratio over sizes rises above 1 and stays there.

use super::statistics::Ratio;

/// From which size on the ratio is above 1, to the largest size that was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Crossing {
    /// At every size that was measured.
    Always,
    /// From about this size, in bytes: between two sizes that were measured, on the straight line between them where
    /// both size and ratio are logarithms.
    From(f64),
    /// At the largest size it is not.
    Never,
}

/// A crossing and how sure it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Crossover {
    /// The crossing of the medians.
    pub at: Crossing,
    /// The earliest and the latest that the ratios' 95 % intervals leave open: where their upper ends cross, and their
    /// lower. `None` if a ratio has no interval.
    pub ci95: Option<(Crossing, Crossing)>,
}

impl Crossover {
    /// Of ratios at sizes in bytes, in any order. `None` of nothing.
    pub fn of(ratios: &[(u64, Ratio)]) -> Option<Self> {
        let mut ratios = ratios.to_vec();
        ratios.sort_unstable_by_key(|(size, _)| *size);
        let intervals: Option<Vec<_>> = ratios
            .iter()
            .map(|(size, ratio)| Some((*size, ratio.ci95?)))
            .collect();
        let ends = |end: fn((f64, f64)) -> f64| {
            let ends = intervals.iter().flatten();
            crossing(ends.map(|(size, ci95)| (*size, end(*ci95))))
        };
        let at = crossing(ratios.iter().map(|(size, ratio)| (*size, ratio.median)))?;
        let ci95 = match intervals {
            Some(_) => ends(|(_, high)| high).zip(ends(|(low, _)| low)),
            None => None,
        };
        Some(Self { at, ci95 })
    }
}

/// Of ratios by rising size.
fn crossing(ratios: impl Iterator<Item = (u64, f64)>) -> Option<Crossing> {
    let mut ratios = ratios.peekable();
    ratios.peek()?;
    let mut at = Crossing::Always;
    let mut lost: Option<(u64, f64)> = None;
    for (size, ratio) in ratios {
        if ratio <= 1.0 {
            at = Crossing::Never;
            lost = Some((size, ratio));
        } else if let Some((below, under)) = lost.take() {
            let (low, high) = ((below.max(1) as f64).ln(), (size.max(1) as f64).ln());
            // A ratio of zero is as far below as can be: the crossing is at the size that wins.
            let share = if under > 0.0 {
                -under.ln() / (ratio.ln() - under.ln())
            } else {
                1.0
            };
            at = Crossing::From((low + share * (high - low)).exp());
        }
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(low: f64, median: f64, high: f64) -> Ratio {
        Ratio {
            median,
            ci95: Some((low, high)),
        }
    }

    #[test]
    fn crosses_where_both_logarithms_say() {
        // From one half to two: in the middle of the sizes' logarithms.
        let ratios = [
            (4096, ratio(1.9, 2.0, 2.1)),
            (64, ratio(0.1, 0.1, 0.1)),
            (1024, ratio(0.4, 0.5, 0.6)),
        ];
        let crossover = Crossover::of(&ratios).expect("ratios");
        let Crossing::From(size) = crossover.at else {
            panic!("{crossover:?}");
        };
        assert!((size - 2048.0).abs() < 1e-6, "{size}");
        let Some((Crossing::From(earliest), Crossing::From(latest))) = crossover.ci95 else {
            panic!("{crossover:?}");
        };
        assert!(1024.0 < earliest && earliest < size && size < latest && latest < 4096.0);
    }

    #[test]
    fn winning_is_staying_ahead() {
        let at = |medians: &[f64]| {
            let ratios = medians
                .iter()
                .zip(1..)
                .map(|(median, size)| (size, *median));
            crossing(ratios)
        };
        assert_eq!(at(&[]), None);
        assert_eq!(at(&[1.1, 3.0]), Some(Crossing::Always));
        assert_eq!(at(&[0.9, 1.0]), Some(Crossing::Never));
        assert_eq!(at(&[0.5, 2.0, 0.9]), Some(Crossing::Never));
        let Some(Crossing::From(size)) = at(&[2.0, 0.5, 2.0]) else {
            panic!("it wins at the end");
        };
        assert!(size > 2.0 && size < 3.0);
        assert_eq!(at(&[0.0, 2.0]), Some(Crossing::From(2.0)));
    }

    #[test]
    fn without_intervals_there_is_none() {
        let unsure = Ratio {
            median: 2.0,
            ci95: None,
        };
        let crossover = Crossover::of(&[(64, unsure), (128, ratio(1.0, 2.0, 3.0))]);
        assert_eq!(
            crossover,
            Some(Crossover {
                at: Crossing::Always,
                ci95: None
            })
        );
        // The lower end does not win at any size, so it may never.
        let crossover = Crossover::of(&[(64, ratio(0.9, 1.1, 1.2))]).expect("a ratio");
        assert_eq!(crossover.ci95, Some((Crossing::Always, Crossing::Never)));
    }
}
