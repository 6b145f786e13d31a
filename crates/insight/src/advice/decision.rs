//! Decisions out of predictions: move, stay, or too close to call; from which size on; and where to measure next.

use super::interval::Estimate;

/// The decision about one load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// The device is the better one.
    Move,
    /// The host is the better one.
    Stay,
    /// The interval holds both.
    TooClose,
}

impl Verdict {
    /// By a gain: above 1 the device is the better one.
    pub fn of(gain: &Estimate) -> Self {
        if gain.low > 1.0 {
            Self::Move
        } else if gain.high < 1.0 {
            Self::Stay
        } else {
            Self::TooClose
        }
    }

    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Move => "move",
            Self::Stay => "stay",
            Self::TooClose => "too close to call",
        }
    }
}

/// The decision about a range of loads: the loads in order, and the gain at each.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The gain at each value of the axis, in order.
    pub gains: Vec<(f64, Estimate)>,
}

/// Where the verdict becomes, or ends to be, [`Verdict::Move`] along an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Threshold {
    /// Behind this place the verdict is `move`, to the end of the axis.
    From(Place),
    /// Before this place it is.
    UpTo(Place),
    /// The verdict is `move` everywhere or nowhere.
    None,
    /// It is `move` in the middle, or in several places.
    Several,
}

/// A value of the axis, and the interval that it lies in; the axis's ends where the interval is open. The side of the interval on which the verdict is
/// `move` begins at its end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Place {
    /// Where the predicted gain is 1.
    pub at: f64,
    /// The earliest value that the gains' intervals leave open.
    pub low: f64,
    /// The latest.
    pub high: f64,
}

impl Threshold {
    /// The value from which on, or up to which, the device is the better one for sure: what a library is set to.
    pub fn sure(&self) -> Option<f64> {
        match self {
            Self::From(place) => Some(place.high),
            Self::UpTo(place) => Some(place.low),
            Self::None | Self::Several => None,
        }
    }
}

impl Decision {
    /// The verdict on all values, if it is one.
    pub fn everywhere(&self) -> Option<Verdict> {
        let mut verdicts = self.gains.iter().map(|(_, gain)| Verdict::of(gain));
        let first = verdicts.next()?;
        verdicts.all(|verdict| verdict == first).then_some(first)
    }

    /// Where the verdict changes to or from `move`. The interval reaches from the first value at which the gain may have crossed 1 to the first from which
    /// on it has. A gain whose interval never clears 1 has no threshold, wherever its values cross.
    pub fn threshold(&self) -> Threshold {
        let stretches = self.stretches();
        let moves = stretches
            .iter()
            .filter(|(.., verdict)| *verdict == Verdict::Move);
        let ends = [stretches.first(), stretches.last()];
        let [at_first, at_last] =
            ends.map(|end| end.is_some_and(|(.., verdict)| *verdict == Verdict::Move));
        let rises = match (moves.count(), at_first, at_last) {
            (0, ..) | (1, true, true) => return Threshold::None,
            (1, false, true) => true,
            (1, true, false) => false,
            _ => return Threshold::Several,
        };
        let by = |of: fn(&Estimate) -> f64| self.crossing(of, rises);
        let first = self.gains.first().map_or(0.0, |(value, _)| *value);
        let last = self.gains.last().map_or(0.0, |(value, _)| *value);
        // A rising gain's upper end crosses first, a falling one's lower end.
        type End = fn(&Estimate) -> f64;
        let (earlier, later): (End, End) = match rises {
            true => (|gain| gain.high, |gain| gain.low),
            false => (|gain| gain.low, |gain| gain.high),
        };
        let low = by(earlier).unwrap_or(first);
        let high = by(later).unwrap_or(last).max(low);
        // Where the value is on one side all along, it crosses at the open end.
        let open = if rises { low } else { high };
        let place = Place {
            at: by(|gain| gain.value).unwrap_or(open).clamp(low, high),
            low,
            high,
        };
        match rises {
            true => Threshold::From(place),
            false => Threshold::UpTo(place),
        }
    }

    /// The verdicts in words; `value` puts a value of the axis into words, as `4096 B`.
    pub fn said(&self, value: impl Fn(f64) -> String) -> String {
        if let Some(verdict) = self.everywhere() {
            return verdict.name().to_owned();
        }
        let threshold = self.threshold();
        match (&threshold, threshold.sure()) {
            (Threshold::From(_), Some(at)) => format!("move from {} on", value(at)),
            (_, Some(at)) => format!("move up to {}", value(at)),
            (_, None) => {
                let stretches = self.stretches();
                let said = stretches.iter().map(|(from, to, verdict)| {
                    format!("{} to {}: {}", value(*from), value(*to), verdict.name())
                });
                said.collect::<Vec<_>>().join("; ")
            }
        }
    }

    /// Where `of` crosses 1 for good, on the straight line between logarithms; `None` if it does not.
    fn crossing(&self, of: fn(&Estimate) -> f64, rises: bool) -> Option<f64> {
        let side = |gain: &Estimate| (of(gain) > 1.0) == rises;
        let last_before = self.gains.iter().rposition(|(_, gain)| !side(gain))?;
        let (below, under) = &self.gains[last_before];
        let (above, over) = self.gains.get(last_before + 1)?;
        let (under, over) = (of(under).ln(), of(over).ln());
        let share = match (under.is_finite(), over.is_finite()) {
            (true, true) => -under / (over - under),
            (false, true) => 1.0,
            _ => 0.0,
        };
        Some((below.ln() + share * (above.ln() - below.ln())).exp())
    }

    /// The value at which the interval that holds 1 is widest: what to measure next. `None` if each verdict is clear.
    pub fn measure_next(&self) -> Option<f64> {
        let unclear = self
            .gains
            .iter()
            .filter(|(_, gain)| Verdict::of(gain) == Verdict::TooClose);
        let widest = unclear.max_by(|(_, a), (_, b)| a.width().total_cmp(&b.width()));
        widest.map(|(value, _)| *value)
    }

    /// Values next to each other with the same verdict.
    pub fn stretches(&self) -> Vec<(f64, f64, Verdict)> {
        let mut stretches: Vec<(f64, f64, Verdict)> = Vec::new();
        for (value, gain) in &self.gains {
            let verdict = Verdict::of(gain);
            match stretches.last_mut() {
                Some((_, last, known)) if *known == verdict => *last = *value,
                _ => stretches.push((*value, *value, verdict)),
            }
        }
        stretches
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gains(arm: f64, values: &[(f64, f64)]) -> Decision {
        let estimate = |value: f64| Estimate {
            value,
            low: value / arm,
            high: value * arm,
        };
        Decision {
            gains: values
                .iter()
                .map(|&(at, gain)| (at, estimate(gain)))
                .collect(),
        }
    }

    #[test]
    fn a_gain_that_rises_has_a_threshold_with_an_interval() {
        // A gain that rises with the size: x/1000.
        let line: Vec<(f64, f64)> = [100.0, 400.0, 800.0, 1600.0, 10_000.0]
            .map(|x| (x, x / 1000.0))
            .into();
        let decision = gains(1.5, &line);
        let Threshold::From(place) = decision.threshold() else {
            panic!("{decision:?}");
        };
        assert!((place.at - 1000.0).abs() < 1e-6, "{place:?}");
        assert!((place.low - 1000.0 / 1.5).abs() < 1e-6, "{place:?}");
        assert!((place.high - 1500.0).abs() < 1e-6, "{place:?}");
        let verdicts: Vec<Verdict> = decision.stretches().iter().map(|it| it.2).collect();
        assert_eq!(verdicts, [Verdict::Stay, Verdict::TooClose, Verdict::Move]);
        assert_eq!(decision.everywhere(), None);
        assert_eq!(decision.threshold().sure(), Some(place.high));
        assert_eq!(
            decision.said(|x| format!("{x:.0} B")),
            "move from 1500 B on"
        );
        // What may have crossed before the axis is open to its beginning.
        let Threshold::From(place) = gains(9.0, &line[2..]).threshold() else {
            panic!("it still rises");
        };
        assert_eq!(place.low, 800.0);
    }

    /// The values cross 1, and no interval above is clear of it: nothing is said to move, and there is no threshold to set a library to.
    #[test]
    fn values_alone_make_no_threshold() {
        let below = Estimate {
            value: 0.5,
            low: 0.4,
            high: 0.6,
        };
        let above = Estimate {
            value: 1.05,
            low: 0.8,
            high: 1.4,
        };
        let decision = Decision {
            gains: vec![(64.0, below), (1024.0, above), (4096.0, above)],
        };
        assert_eq!(decision.threshold(), Threshold::None);
        assert_eq!(decision.threshold().sure(), None);
        let said = decision.said(|x| format!("{x:.0} B"));
        assert_eq!(
            said,
            "64 B to 64 B: stay; 1024 B to 4096 B: too close to call"
        );
        // All too close, and the values cross.
        let all = gains(200.0, &[(64.0, 0.5), (1024.0, 2.0)]);
        assert_eq!(all.threshold(), Threshold::None);
        assert_eq!(all.said(|x| x.to_string()), "too close to call");
        // The device wins for sure at the end alone; its value is above 1 all along.
        let rises = gains(1.5, &[(64.0, 1.1), (1024.0, 1.2), (4096.0, 3.0)]);
        let Threshold::From(place) = rises.threshold() else {
            panic!("{:?}", rises.threshold());
        };
        assert!(place.at == 64.0 && place.low == 64.0 && place.high > 1024.0);
        assert!(!rises.said(|x| x.to_string()).starts_with("move from 64"));
        // In the middle alone.
        let middle = gains(1.1, &[(1.0, 0.5), (2.0, 2.0), (3.0, 0.5)]);
        assert_eq!(middle.threshold(), Threshold::Several);
    }

    #[test]
    fn a_gain_that_falls_is_a_threshold_too() {
        let line: Vec<(f64, f64)> = [100.0, 500.0, 2000.0].map(|x| (x, 1000.0 / x)).into();
        let Threshold::UpTo(place) = gains(1.1, &line).threshold() else {
            panic!("it falls");
        };
        assert!((place.at - 1000.0).abs() < 1e-6 && place.low < place.at && place.at < place.high);
    }

    #[test]
    fn no_threshold_where_nothing_changes_or_too_much() {
        assert_eq!(
            gains(1.1, &[(1.0, 2.0), (2.0, 3.0)]).threshold(),
            Threshold::None
        );
        let wild = gains(1.1, &[(1.0, 2.0), (2.0, 0.5), (3.0, 2.0)]);
        assert_eq!(wild.threshold(), Threshold::Several);
        assert_eq!(
            gains(1.1, &[(1.0, 2.0), (2.0, 3.0)]).everywhere(),
            Some(Verdict::Move)
        );
    }

    #[test]
    fn the_widest_open_interval_is_measured_next() {
        let mut decision = gains(1.2, &[(1.0, 0.5), (2.0, 1.0), (3.0, 1.1), (4.0, 2.0)]);
        decision.gains[2].1.high = 9.0;
        assert_eq!(decision.measure_next(), Some(3.0));
        decision.gains[3].1.high = 99.0;
        assert_eq!(
            decision.measure_next(),
            Some(3.0),
            "a wide one that is clear is no question"
        );
        assert_eq!(gains(1.2, &[(1.0, 0.5)]).measure_next(), None);
    }
}
