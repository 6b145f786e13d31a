//! Predictability of branches: prediction by partial matching (Chen, Coffey and Mudge, ASPLOS-VII, 1996). The outcome that came
//! oftener after the longest history that was seen before is predicted; histories have up to twelve outcomes. The history is of all
//! branches (G) or of the branch alone (P), the tables are for all branches (g) or for each one (s).

use std::collections::hash_map::Entry;

use super::super::Tally;
use super::super::hash::Map;

/// The predictors, by their names in metrics.
pub(super) const KINDS: [&str; 4] = ["gag", "pag", "gas", "pas"];
/// The counts of wrong predictions.
pub(super) const NAMES: [&str; 4] = [
    "ppm_gag_wrong",
    "ppm_pag_wrong",
    "ppm_gas_wrong",
    "ppm_pas_wrong",
];
/// Outcomes of the longest history.
const LONGEST: u32 = 12;

/// The four predictors.
#[derive(Debug)]
pub(super) struct Ppm {
    history: u64,
    /// A number for each branch, and its history.
    branches: Map<(u64, u64)>,
    /// Tables for all branches, by history of all and of one: index `2^length + history`.
    shared: [Vec<i32>; 2],
    /// Tables for each branch.
    own: [Map<i32>; 2],
    wrong: [u64; 4],
}

/// A history that was not seen.
const UNSEEN: i32 = i32::MIN;

impl Default for Ppm {
    fn default() -> Self {
        let table = || vec![UNSEEN; 2 << LONGEST];
        Self {
            history: 0,
            branches: Map::default(),
            shared: [table(), table()],
            own: [Map::default(), Map::default()],
            wrong: [0; 4],
        }
    }
}

impl Ppm {
    pub(super) fn branch(&mut self, address: u64, is_taken: bool) {
        let number = self.branches.len() as u64;
        let (number, own) = *self.branches.entry(address).or_insert((number, 0));
        let step = if is_taken { 1 } else { -1 };
        for (kind, history) in [self.history, own].into_iter().enumerate() {
            let (mut shared, mut of_branch) = (None, None);
            for length in 0..=LONGEST {
                let at = 1 << length | (history & ((1 << length) - 1));
                let entry = &mut self.shared[kind][at as usize];
                match *entry {
                    UNSEEN => *entry = step,
                    seen => {
                        shared = Some(seen);
                        *entry = seen.saturating_add(step).max(UNSEEN + 1);
                    }
                }
                match self.own[kind].entry(number << (LONGEST + 1) | at) {
                    Entry::Vacant(entry) => drop(entry.insert(step)),
                    Entry::Occupied(mut entry) => {
                        let seen = *entry.get();
                        of_branch = Some(seen);
                        entry.insert(seen.saturating_add(step).max(UNSEEN + 1));
                    }
                }
            }
            // As often the one as the other, or never seen: taken.
            let is_wrong = |seen: Option<i32>| u64::from((seen.unwrap_or(0) >= 0) != is_taken);
            self.wrong[kind] += is_wrong(shared);
            self.wrong[kind + 2] += is_wrong(of_branch);
        }
        self.history = self.history << 1 | u64::from(is_taken);
        self.branches
            .insert(address, (number, own << 1 | u64::from(is_taken)));
    }

    pub(super) fn count(&self, tally: &mut Tally) {
        for (name, wrong) in NAMES.iter().zip(self.wrong) {
            tally.add(name, wrong);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use dpb_core::random::SplitMix64;

    use super::*;

    /// The definition, told anew for each branch out of all outcomes before it.
    fn naive(outcomes: &[(u64, bool)], of_one: bool, own_tables: bool) -> u64 {
        let mut tables: HashMap<(u64, Vec<bool>), i64> = HashMap::new();
        let mut histories: HashMap<u64, Vec<bool>> = HashMap::new();
        let mut wrong = 0;
        for &(address, is_taken) in outcomes {
            let history = histories
                .entry(if of_one { address } else { 0 })
                .or_default();
            // Before the first outcomes a history has branches that were not taken.
            let mut padded = vec![false; 12];
            padded.extend(history.iter());
            let table = if own_tables { address } else { 0 };
            let key = |length: usize| (table, padded[padded.len() - length..].to_vec());
            let longest = (0..=12).rev().find_map(|length| tables.get(&key(length)));
            wrong += u64::from((longest.copied().unwrap_or(0) >= 0) != is_taken);
            for length in 0..=12 {
                *tables.entry(key(length)).or_insert(0) += if is_taken { 1 } else { -1 };
            }
            history.push(is_taken);
        }
        wrong
    }

    #[test]
    fn predictions_are_those_of_the_definition() {
        let mut random = SplitMix64::new(11);
        let outcomes: Vec<(u64, bool)> = (0..3000)
            .map(|at| {
                let address = 4 * random.below(5) as u64;
                let is_taken = match address {
                    0 => at % 3 == 0,
                    4 => at % 7 < 4,
                    8 => true,
                    _ => random.below(2) == 0,
                };
                (address, is_taken)
            })
            .collect();
        let mut ppm = Ppm::default();
        for &(address, is_taken) in &outcomes {
            ppm.branch(address, is_taken);
        }
        let right = [(false, false), (true, false), (false, true), (true, true)]
            .map(|(of_one, own)| naive(&outcomes, of_one, own));
        assert_eq!(ppm.wrong, right);
    }
}
