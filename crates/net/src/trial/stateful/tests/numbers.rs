//! Phases over a table of numbers that makes, forwards and forgets at rates that are known.

use std::collections::HashSet;
use std::convert::Infallible;

use super::super::*;

/// A table with a limit, that makes so many connections a second and forwards faster the emptier it is.
struct Table {
    known: HashSet<u64>,
    capacity: usize,
    per_s: f64,
    forwards_per_s: f64,
    forgets_per_s: f64,
    /// Every such phase says nothing.
    invalid_every: u32,
    phases: u32,
    forgets_all_but: usize,
}

impl Table {
    fn new() -> Self {
        Self {
            known: HashSet::new(),
            capacity: 10_000,
            per_s: 200_000.0,
            forwards_per_s: 1e6,
            forgets_per_s: 5e5,
            invalid_every: 7,
            phases: 0,
            forgets_all_but: 0,
        }
    }

    fn is_valid(&mut self) -> bool {
        self.phases += 1;
        !self.phases.is_multiple_of(self.invalid_every)
    }
}

impl Stateful for Table {
    type Error = Infallible;

    fn establish(
        &mut self,
        connections: Range<u64>,
        per_s: f64,
    ) -> Result<Option<u64>, Infallible> {
        let all = connections.end - connections.start;
        // What is too fast is lost evenly.
        let kept = (all as f64 * (self.per_s / per_s).min(1.0)).floor() as u64;
        let fits = connections.take(kept as usize);
        for connection in fits {
            if self.known.len() < self.capacity {
                self.known.insert(connection);
            }
        }
        Ok(self.is_valid().then_some(kept))
    }

    fn answer(&mut self, connections: Range<u64>, _per_s: f64) -> Result<Option<u64>, Infallible> {
        let known = connections.filter(|connection| self.known.contains(connection));
        let known = known.count() as u64;
        Ok(self.is_valid().then_some(known))
    }

    fn trial(
        &mut self,
        mut connections: Range<u64>,
        input: TrialInput,
    ) -> Result<Option<TrialOutput>, Infallible> {
        assert!(connections.all(|connection| self.known.contains(&connection)));
        let full = self.known.len() as f64 / self.capacity as f64;
        let limit = self.forwards_per_s * (1.0 - 0.5 * full);
        Ok(Some(TrialOutput {
            loss_ratio: (1.0 - limit / input.load).max(0.0),
            effective_s: input.duration_s,
        }))
    }

    fn tear_down(&mut self) -> Result<f64, Infallible> {
        let seconds = self.known.len() as f64 / self.forgets_per_s;
        let kept: HashSet<u64> = self
            .known
            .iter()
            .copied()
            .take(self.forgets_all_but)
            .collect();
        self.known = kept;
        Ok(seconds)
    }
}

const FILL: Fill = Fill {
    connections: 5000,
    per_s: 1e5,
    invalid_max: 3,
};

#[test]
fn rates_are_those_of_the_system() {
    let mut table = Table::new();
    let settings = Settings::between(1e4, 1e6);
    let made = establishment_rate(&mut table, FILL, &[Goal::NDR], &settings).expect("found");
    let [result] = made.results[..] else { panic!() };
    assert_eq!(result.irregular, None);
    assert!(
        result
            .lower
            .is_some_and(|rate| rate <= 200_000.0 && rate > 198_000.0),
        "{result:?}"
    );
    assert!(made.invalid > 0);

    let full = throughput(&mut table, FILL, &[Goal::NDR], &settings).expect("found");
    let [result] = full.results[..] else { panic!() };
    // Half full.
    assert!(
        result
            .lower
            .is_some_and(|rate| rate <= 750_000.0 && rate > 745_000.0),
        "{result:?}"
    );

    let rate = tear_down_rate(&mut table, FILL).expect("all forgotten");
    assert!((rate - 5e5).abs() < 1.0, "{rate}");
}

#[test]
fn capacity_is_found_from_below() {
    let mut table = Table::new();
    let plan = Fill {
        connections: 100,
        ..FILL
    };
    let found = capacity(&mut table, plan, 1 << 20, 1e-6).expect("found");
    assert_eq!(
        found,
        Capacity {
            lower: 10_000,
            upper: Some(10_001)
        }
    );
    let coarse = capacity(&mut table, plan, 1 << 20, 0.1).expect("found");
    assert!(coarse.lower <= 10_000 && coarse.upper.is_some_and(|upper| upper > 10_000));
    let max = capacity(&mut table, plan, 9000, 0.1).expect("found");
    assert_eq!(
        max,
        Capacity {
            lower: 9000,
            upper: None
        }
    );
}

#[test]
fn what_says_nothing_is_no_result() {
    let mut small = Table {
        capacity: 10,
        ..Table::new()
    };
    let plan = FILL;
    assert!(matches!(
        throughput(&mut small, plan, &[Goal::NDR], &Settings::between(1e4, 1e6)),
        Err(StatefulError::NotFilled {
            established: 10,
            ..
        })
    ));
    assert!(matches!(
        capacity(&mut small, plan, 10_000, 0.1),
        Err(StatefulError::NotFilled {
            connections: 5000,
            established: 10,
            ..
        })
    ));
    let mut deaf = Table {
        invalid_every: 1,
        ..Table::new()
    };
    assert!(matches!(
        tear_down_rate(&mut deaf, plan),
        Err(StatefulError::Invalid { tried: 3, .. })
    ));
    let mut sticky = Table {
        forgets_all_but: 2,
        ..Table::new()
    };
    assert!(matches!(
        tear_down_rate(&mut sticky, plan),
        Err(StatefulError::NotForgotten(2))
    ));
    assert!(capacity(&mut sticky, plan, 10, 0.1).is_err());
    let none = Fill {
        connections: 0,
        ..plan
    };
    let settings = Settings::between(1e4, 1e6);
    assert!(matches!(
        establishment_rate(&mut sticky, none, &[Goal::NDR], &settings),
        Err(StatefulError::Settings(_))
    ));
    assert!(matches!(
        throughput(&mut sticky, none, &[Goal::NDR], &settings),
        Err(StatefulError::Settings(_))
    ));
}
