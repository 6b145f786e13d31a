//! Operators and programs by what they are like: all that DPUBench's section 4.2.2 draws, and the numbers that it leaves out.
//!
//! Components, clusters and coverage are found over operators and programs together, so that neither set decides what a difference is.

use std::fmt;

use crate::components::bootstrap::Intervals;
use crate::components::clusters::Dendrogram;
use crate::components::coverage::Coverage;
use crate::components::parallel::Chance;
use crate::components::{Components, NoComponents, Observations};

/// The figures of the paper that have a definition here, by their names in records.
pub const FIGURES: [&str; 7] = [
    "instructions_per_cycle",
    "itlb_misses_per_1000",
    "dtlb_misses_per_1000",
    "l1d_misses_per_1000",
    "integer_share",
    "branch_share",
    "load_store_share",
];
/// A share of the instructions that the others nearly determine, as all kinds sum to one: components are shown without it too.
pub const CLOSED: &str = "load_store_share";
/// Random draws for chance and intervals, of few columns.
const DRAWS: usize = 500;
/// Random draws of many columns, whose components take longer.
const DRAWS_WIDE: usize = 100;
/// More columns than these are many.
const WIDE: usize = 20;
/// A plane needs two components.
const RETAINED_MIN: usize = 2;

/// One operator or program.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// True of a program, false of an operator.
    pub is_program: bool,
    /// A value for each column.
    pub values: Vec<f64>,
}

/// What rows are like, seen together.
#[derive(Clone, Debug)]
pub struct Profile {
    /// The components of all rows; misses are logarithms, ln(1 + misses).
    pub components: Components,
    /// Eigenvalues by chance.
    pub chance: Chance,
    /// The components that parallel analysis retains.
    pub by_chance: usize,
    /// The components that are used: those by chance, two at least.
    pub retained: usize,
    /// What other rows would change.
    pub intervals: Intervals,
    /// The tree of the rows by their places along the retained components.
    pub tree: Dendrogram,
    /// The programs among the operators; `None` if either are missing.
    pub coverage: Option<Coverage>,
    /// The same without a share that the others determine, if it is a column.
    pub without: Option<Without>,
}

/// The components without a column.
#[derive(Clone, Debug)]
pub struct Without {
    /// The column.
    pub column: &'static str,
    /// The share of all variance that each component has.
    pub shares: Vec<f64>,
    /// The programs among the operators.
    pub coverage: Option<Coverage>,
}

/// True of figures that spread over decades and have zeros.
fn is_skewed(column: &str) -> bool {
    column.contains("misses_per_1000") || column.contains("mispredictions_per_1000")
}

impl Profile {
    /// The profile of rows under these columns; random draws are `seed`'s.
    ///
    /// # Errors
    /// If they have no components.
    pub fn of(columns: &[String], rows: &[Row], seed: u64) -> Result<Self, NoComponents> {
        let values = rows.iter().map(|row| row.values.clone()).collect();
        let observations = Observations::new(columns.to_vec(), values)?.with_logarithms(is_skewed);
        let components = Components::of(&observations)?;
        let count = components.columns.len();
        let draws = if count > WIDE { DRAWS_WIDE } else { DRAWS };
        let chance = Chance::of(rows.len(), count, draws, seed);
        let by_chance = chance.retained(&components.eigenvalues);
        let retained = by_chance.max(RETAINED_MIN);
        let is_closed = components.columns.iter().any(|column| column == CLOSED);
        let without = is_closed.then(|| observations.without(CLOSED));
        // Two columns are too few for components once one is gone.
        let without = without.and_then(|fewer| Components::of(&fewer).ok());
        Ok(Self {
            intervals: Intervals::of(&observations, &components, draws, seed.wrapping_add(1)),
            tree: Dendrogram::of(&components.places(retained)),
            coverage: coverage(&components, rows, retained, draws, seed),
            without: without.map(|fewer| Without {
                column: CLOSED,
                shares: fewer.shares(),
                coverage: coverage(&fewer, rows, retained, draws, seed),
            }),
            components,
            chance,
            by_chance,
            retained,
        })
    }
}

/// The programs among the operators, along the first components.
fn coverage(
    components: &Components,
    rows: &[Row],
    retained: usize,
    deals: usize,
    seed: u64,
) -> Option<Coverage> {
    let places = components.places(retained.min(components.columns.len()));
    let of = |is_program: bool| -> Vec<Vec<f64>> {
        let own = places
            .iter()
            .zip(rows)
            .filter(|(_, row)| row.is_program == is_program);
        own.map(|(place, _)| place.clone()).collect()
    };
    Coverage::of(&of(false), &of(true), deals, seed.wrapping_add(2))
}

impl fmt::Display for Profile {
    /// How many components there are by each rule, and the programs among the operators, in a sentence each.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shares: f64 = self.components.shares().iter().take(self.retained).sum();
        write!(
            f,
            "{} of {} components are more than chance (parallel analysis), {} have an eigenvalue of 1 or more (Kaiser); the first {} have {:.1} % of the variance.",
            self.by_chance,
            self.components.columns.len(),
            self.components.kaiser(),
            self.retained,
            100.0 * shares
        )?;
        let Some(coverage) = &self.coverage else {
            return Ok(());
        };
        write!(
            f,
            " {} of {} programs are mixtures of operators along all {}; were programs drawn as operators are, no more would lie inside, summed over planes, with a probability of {:.3}.",
            coverage.inside, coverage.points, coverage.dimensions, coverage.p_value
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(shift: f64) -> (Vec<String>, Vec<Row>) {
        let mut random = dpb_core::random::SplitMix64::new(3);
        let mut row = |name: String, is_program: bool, shift: f64| {
            // Two hidden directions, five columns.
            let (a, b) = (random.unit() + shift, random.unit() - shift);
            let noise = random.unit() / 50.0;
            Row {
                name,
                is_program,
                values: vec![20.0 * a, 10.0 * a + noise, b, 1.0 - b + noise, 0.5],
            }
        };
        let columns = [
            "itlb_misses_per_1000",
            "l1d_misses_per_1000",
            "integer_share",
            "load_store_share",
            "branch_share",
        ];
        let mut all: Vec<Row> = (0..20)
            .map(|at| row(format!("operator {at}"), false, 0.0))
            .collect();
        all.extend((0..6).map(|at| row(format!("program {at}"), true, shift)));
        (columns.map(str::to_owned).to_vec(), all)
    }

    #[test]
    fn two_hidden_directions_are_found_and_programs_among_operators_covered() {
        let (columns, rows) = rows(0.0);
        let profile = Profile::of(&columns, &rows, 1).expect("they vary");
        assert_eq!(profile.components.constant, ["branch_share"]);
        assert_eq!(
            (
                profile.by_chance,
                profile.retained,
                profile.components.kaiser()
            ),
            (2, 2, 2)
        );
        let coverage = profile.coverage.as_ref().expect("both kinds");
        assert!(
            coverage.inside >= 3 && coverage.p_value > 0.05,
            "{coverage:?}"
        );
        assert_eq!(profile.tree.merges.len(), 25);
        let without = profile.without.as_ref().expect("it is a column");
        assert_eq!(without.shares.len(), 3);
        assert!(
            profile
                .to_string()
                .contains("2 of 4 components are more than chance"),
            "{profile}"
        );
    }

    #[test]
    fn programs_far_from_operators_are_not_covered() {
        let (columns, rows) = rows(9.0);
        let coverage = Profile::of(&columns, &rows, 1)
            .expect("they vary")
            .coverage
            .expect("both kinds");
        assert_eq!(coverage.inside, 0);
        assert!(coverage.p_value < 0.05, "{coverage:?}");
        let operators: Vec<Row> = rows.into_iter().filter(|row| !row.is_program).collect();
        assert!(
            Profile::of(&columns, &operators, 1)
                .expect("they vary")
                .coverage
                .is_none()
        );
    }
}
