//! The questions to a system, whatever it is: its highest rate, then how much work it bears at each rate, kind by kind. It knows nothing of packets, so that it is
//! tested on systems whose free cores are known.

use dpb_net::headroom::{Headroom, HighestRate, Load, Patience, find, highest_rate};
use dpb_net::search::{Goal, SearchError, TrialOutput};

/// A rate that is asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Rate {
    /// Packets a second.
    Of(f64),
    /// A part of the highest rate.
    Part(f64),
}

/// The questions to one system.
#[derive(Clone, Debug)]
pub(super) struct Question {
    pub(super) goal: Goal,
    pub(super) patience: Patience,
    /// The rate at which the search for the highest begins.
    pub(super) rate_max: f64,
    pub(super) rates: Vec<Rate>,
    /// How many kinds of work there are.
    pub(super) kinds: usize,
    /// Cores that do the work.
    pub(super) cores: u32,
    /// Searches for each kind and rate.
    pub(super) repeat: usize,
}

/// The finding for one kind at one rate.
#[derive(Debug)]
pub(super) struct Finding {
    /// The number of the kind.
    pub(super) kind: usize,
    pub(super) rate: Rate,
    /// The searches for the work that it bears, or why there is no number.
    pub(super) headroom: Result<Found, NoNumber>,
}

/// A result with numbers.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) packets_per_s: f64,
    pub(super) highest: HighestRate,
    /// One for each repetition.
    pub(super) searches: Vec<Headroom>,
}

/// Why there is no number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NoNumber {
    /// This machine, or this load, does not allow one.
    Unsupported(String),
    /// A check failed.
    Failed(String),
}

impl Question {
    /// Answers it, by trials of `trial`, which is told the kind. `keep` takes each finding as it comes.
    ///
    /// # Errors
    /// What `trial` says when no trial can be done any more; findings before it have been kept.
    pub(super) fn answer<E: std::fmt::Display + Clone>(
        &self,
        mut trial: impl FnMut(usize, Load) -> Result<Option<TrialOutput>, E>,
        mut keep: impl FnMut(Finding),
    ) -> Result<(), E> {
        let highest = highest_rate(&self.goal, self.rate_max, &self.patience, &mut |load| {
            trial(0, load)
        });
        let highest = match highest {
            Ok(highest) => Ok(highest),
            Err(SearchError::Measurer(error)) => return Err(error),
            Err(error) => Err(no_number(&error, "the highest rate: ", "packets a second")),
        };
        for &rate in &self.rates {
            for kind in 0..self.kinds {
                let headroom = match &highest {
                    Err(why) => Err(why.clone()),
                    Ok(highest) => self.of_kind(rate, *highest, &mut |load| trial(kind, load))?,
                };
                keep(Finding {
                    kind,
                    rate,
                    headroom,
                });
            }
        }
        Ok(())
    }

    /// The headroom for one kind at one rate.
    fn of_kind<E>(
        &self,
        rate: Rate,
        highest: HighestRate,
        trial: &mut impl FnMut(Load) -> Result<Option<TrialOutput>, E>,
    ) -> Result<Result<Found, NoNumber>, E> {
        let packets_per_s = match (rate, highest.packets_per_s()) {
            (Rate::Of(rate), _) => rate,
            (Rate::Part(part), Some(max)) => part * max,
            (Rate::Part(_), None) => {
                return Ok(Err(NoNumber::Unsupported(format!(
                    "no rate upholds the goal, down to {:.0} packets a second, so there is no part of the highest",
                    highest.found.upper.unwrap_or(highest.offered_max)
                ))));
            }
        };
        let mut searches = Vec::with_capacity(self.repeat);
        for _ in 0..self.repeat {
            match find(&self.goal, packets_per_s, self.cores, &self.patience, trial) {
                Ok(found) => searches.push(found),
                Err(SearchError::Measurer(error)) => return Err(error),
                Err(error) => return Ok(Err(no_number(&error, "", "ns of work a packet"))),
            }
        }
        let free = searches
            .iter()
            .filter_map(Headroom::cores_free)
            .fold(0.0, f64::max);
        if free > f64::from(self.cores) {
            return Ok(Err(NoNumber::Failed(format!(
                "the system bore more work ({free:.3} cores) than its {} cores have time for: trials are too short, so that it falls behind without a loss, or \
                 the machine changed its speed; take longer --seconds",
                self.cores
            ))));
        }
        Ok(Ok(Found {
            packets_per_s,
            highest,
            searches,
        }))
    }
}

/// A search's error, whose loads have this unit. It is no fault of the system's that the generator was late.
fn no_number<E>(error: &SearchError<E>, before: &str, unit: &str) -> NoNumber {
    match error {
        SearchError::Invalid { load, tried } => NoNumber::Unsupported(format!(
            "{before}no trial at {load:.1} {unit} was valid, of {tried} one after another: as a rule the generator was late, since something else took its core; take a lower \
             rate, shorter --seconds, or a machine with nothing else to do"
        )),
        other => NoNumber::Failed(format!("{before}{other}")),
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use dpb_net::search::Irregular;

    use super::*;

    /// A goal of short trials; systems that are computed need no more.
    const GOAL: Goal = Goal {
        final_trial_s: 0.1,
        duration_sum_s: 0.5,
        initial_trial_s: 0.1,
        width: 0.01,
        ..Goal::PDR
    };

    fn question(rates: &[Rate], kinds: usize) -> Question {
        Question {
            goal: GOAL,
            patience: Patience::default(),
            rate_max: 32e6,
            rates: rates.to_vec(),
            kinds,
            cores: 1,
            repeat: 1,
        }
    }

    /// A core that spends `own_ns` on a packet, and on a unit of kind `i` `slower[i]` times its time alone; the generator is late above 2 million packets a second.
    fn system(
        own_ns: f64,
        slower: &'static [f64],
    ) -> impl FnMut(usize, Load) -> Result<Option<TrialOutput>, Infallible> {
        move |kind, load| {
            if load.packets_per_s > 2e6 {
                return Ok(None);
            }
            let each_ns = own_ns + slower[kind] * load.work_ns_per_packet;
            let busy = load.packets_per_s * each_ns * 1e-9;
            Ok(Some(TrialOutput {
                loss_ratio: (1.0 - 1.0 / busy).max(0.0),
                effective_s: load.duration_s,
            }))
        }
    }

    fn answers(
        question: &Question,
        trial: impl FnMut(usize, Load) -> Result<Option<TrialOutput>, Infallible>,
    ) -> Vec<Finding> {
        let mut findings = Vec::new();
        let answered = question.answer(trial, |finding| findings.push(finding));
        answered.expect("trials that can be done");
        findings
    }

    #[test]
    fn each_kind_has_the_cores_free_that_the_system_was_made_with() {
        // The core is busy for 0.4 of the time; memory's work takes twice as long beside packets as alone.
        let rates = [Rate::Of(4e5), Rate::Part(0.5)];
        let findings = answers(&question(&rates, 2), system(1000.0, &[1.0, 2.0]));
        let places: Vec<_> = findings.iter().map(|it| (it.rate, it.kind)).collect();
        assert_eq!(
            places,
            [(rates[0], 0), (rates[0], 1), (rates[1], 0), (rates[1], 1)]
        );
        for (finding, free) in findings.iter().zip([0.6, 0.3, 0.5, 0.25]) {
            let found = finding.headroom.as_ref().expect("numbers");
            let least = found.searches[0].cores_free().expect("a lower bound");
            let most = found.searches[0]
                .cores_free_at_most()
                .expect("an upper bound");
            // A loss of half a percent is upheld.
            assert!(
                least < free * 1.02 && most > free * 0.99,
                "{least} to {most}, {free}"
            );
            assert!(!found.highest.is_generators());
            let max = found.highest.packets_per_s().expect("a rate");
            assert!((max / 1e6 - 1.005).abs() < 0.01, "{max}");
            // The papers' figure knows nothing of kinds.
            let by_rate = found.searches[0].by_rate(max);
            let rate = found.packets_per_s / 1e6;
            assert!((by_rate - (1.0 - rate)).abs() < 0.01, "{by_rate}");
        }
    }

    #[test]
    fn a_system_that_is_faster_than_the_generator_is_said_to_be() {
        let findings = answers(&question(&[Rate::Part(0.5)], 1), system(100.0, &[1.0]));
        let found = findings[0].headroom.as_ref().expect("numbers");
        assert!(found.highest.is_generators());
        assert!(found.packets_per_s <= 1e6);
    }

    #[test]
    fn a_rate_that_is_too_much_leaves_nothing_free() {
        let findings = answers(&question(&[Rate::Of(1.5e6)], 1), system(1000.0, &[1.0]));
        let found = findings[0].headroom.as_ref().expect("numbers");
        assert_eq!(found.searches[0].cores_free(), None);
        assert_eq!(found.searches[0].found.irregular, Some(Irregular::NoLower));
    }

    #[test]
    fn a_generator_that_is_always_late_gives_no_number() {
        let findings = answers(&question(&[Rate::Of(1e5), Rate::Part(0.1)], 2), |_, _| {
            Ok(None)
        });
        assert_eq!(findings.len(), 4);
        let unsupported = |finding: &Finding| match &finding.headroom {
            Err(NoNumber::Unsupported(why)) => why.clone(),
            other => panic!("{other:?}"),
        };
        for finding in &findings {
            let why = unsupported(finding);
            assert!(why.contains("generator was late"), "{why}");
        }
        // Late only when there is work: the highest rate is found.
        let late_with_work = |kind: usize, load: Load| match load.work_ns_per_packet > 0.0 {
            true => Ok(None),
            false => system(1000.0, &[1.0])(kind, load),
        };
        let findings = answers(&question(&[Rate::Of(1e5)], 1), late_with_work);
        let why = unsupported(&findings[0]);
        assert!(
            why.contains("ns of work a packet") && why.contains("of 3"),
            "{why}"
        );
    }

    /// A queue as long as the trial hides any loss, and a system would seem to have no end.
    #[test]
    fn more_than_there_is_is_no_number() {
        let endless = |_: usize, load: Load| {
            let loss_ratio = f64::from(u8::from(load.packets_per_s > 1e6));
            Ok(Some(TrialOutput {
                loss_ratio,
                effective_s: load.duration_s,
            }))
        };
        let findings = answers(&question(&[Rate::Of(1e5)], 1), endless);
        let Err(NoNumber::Failed(why)) = &findings[0].headroom else {
            panic!("{:?}", findings[0]);
        };
        assert!(why.contains("more work (1.250 cores)"), "{why}");
    }

    #[test]
    fn a_system_that_breaks_ends_it_all() {
        let mut turns = 0;
        let mut kept = 0;
        let answered = question(&[Rate::Of(4e5), Rate::Of(5e5)], 1).answer(
            |kind, load| {
                turns += 1;
                match load.packets_per_s == 5e5 {
                    true => Err("it broke"),
                    false => system(1000.0, &[1.0])(kind, load).map_err(|never| match never {}),
                }
            },
            |_| kept += 1,
        );
        assert_eq!((answered, kept), (Err("it broke"), 1));
        assert!(turns > 10);
    }
}
