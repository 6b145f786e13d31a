//! Counts by name, and what follows from them.

use std::collections::BTreeMap;

use super::TraceError;

/// Counts of a program, or of what one run of it did more than a shorter one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally(BTreeMap<&'static str, u64>);

impl Tally {
    /// Adds to the count of this name, which then exists.
    pub fn add(&mut self, name: &'static str, count: u64) {
        *self.0.entry(name).or_insert(0) += count;
    }

    /// The count of this name; `None` where the source does not count it.
    pub fn count(&self, name: &str) -> Option<u64> {
        self.0.get(name).copied()
    }

    /// All counts.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.0.iter().map(|(name, count)| (*name, *count))
    }

    /// What a run counted beyond a shorter one of the same program: start-up and end cancel. Where the shorter one counted more, as it
    /// may of misses, it is nothing. A working set (`…_touched`) is the longer one's, which began to count where the shorter one ended.
    ///
    /// # Errors
    /// If the longer run has not executed more instructions, or the two do not count the same.
    pub fn since(&self, shorter: &Self) -> Result<Self, TraceError> {
        if !self.0.keys().eq(shorter.0.keys()) {
            let why = "the two lengths were not counted by the same means";
            return Err(TraceError::Malformed(why.to_owned()));
        }
        let (long, short) = (self.count("instructions"), shorter.count("instructions"));
        if long <= short {
            let of = |count: Option<u64>| count.unwrap_or(0);
            return Err(TraceError::Malformed(format!(
                "the longer run executed {} instructions and the shorter one {}: their length depends on something else",
                of(long),
                of(short)
            )));
        }
        let difference = |(&name, &count): (&&'static str, &u64)| {
            let is_level = name.ends_with("_touched");
            let less = if is_level { 0 } else { shorter.0[name] };
            (name, count.saturating_sub(less))
        };
        Ok(Self(self.0.iter().map(difference).collect()))
    }

    /// The metrics that follow from the counts, by their names in records. `items` is the number of items that the counts are of, if
    /// the program has items. METHODOLOGY defines each.
    pub fn metrics(&self, items: Option<u64>) -> Vec<(String, f64)> {
        let mut metrics = Vec::new();
        let Some(instructions) = self.count("instructions").filter(|&count| count > 0) else {
            return metrics;
        };
        let of = |count: u64| count as f64 / instructions as f64;
        let mut push = |name: &str, value: Option<f64>| {
            metrics.extend(value.map(|value| (name.to_owned(), value)));
        };
        let per_item = items.filter(|&items| items > 0);
        push(
            "instructions_per_item",
            per_item.map(|items| instructions as f64 / items as f64),
        );
        let cycles = self.count("cycles").filter(|&cycles| cycles > 0);
        push(
            "instructions_per_cycle",
            cycles.map(|cycles| instructions as f64 / cycles as f64),
        );
        for what in MISSES {
            let misses = self.count(&format!("{what}_misses"));
            push(
                &format!("{what}_misses_per_1000"),
                misses.map(|misses| 1000.0 * of(misses)),
            );
            let references = self.references(what).filter(|&count| count > 0);
            let ratio = misses.zip(references);
            push(
                &format!("{what}_miss_ratio"),
                ratio.map(|(misses, all)| misses as f64 / all as f64),
            );
        }
        let wrong = self.count("branch_mispredictions");
        push(
            "branch_mispredictions_per_1000",
            wrong.map(|wrong| 1000.0 * of(wrong)),
        );
        push("integer_share", self.integer().map(of));
        for (share, name) in SHARES {
            push(share, self.count(name).map(of));
        }
        metrics.extend(super::mica::metrics(self, instructions));
        metrics
    }

    /// Integer instructions: those of general and of vector registers, and those of cryptography and CRC.
    fn integer(&self) -> Option<u64> {
        self.count("integer").or_else(|| {
            let kinds = ["scalar_integer", "vector_integer", "crypto"];
            kinds.iter().map(|kind| self.count(kind)).sum()
        })
    }

    /// What misses of a cache or TLB are a part of: instructions where instructions are fetched, else accesses.
    fn references(&self, what: &str) -> Option<u64> {
        let counted = self.count(&format!("{what}_references"));
        counted.or_else(|| match what {
            "l1i" | "itlb" | "itlb_2m" => self.count("instructions"),
            "l1d" | "dtlb" | "dtlb_2m" => {
                let kinds = ["loads", "stores", "modifies"];
                kinds.iter().map(|kind| self.count(kind)).sum()
            }
            _ => None,
        })
    }
}

/// Caches and TLBs.
const MISSES: [&str; 8] = [
    "itlb", "dtlb", "l1d", "l1i", "itlb_2m", "dtlb_2m", "l2d", "l2i",
];

/// Shares of instructions, and the counts that they are of.
const SHARES: [(&str, &str); 6] = [
    ("branch_share", "branch"),
    ("load_store_share", "load_store"),
    ("scalar_integer_share", "scalar_integer"),
    ("vector_integer_share", "vector_integer"),
    ("crypto_share", "crypto"),
    ("float_share", "float"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(counts: &[(&'static str, u64)]) -> Tally {
        Tally(counts.iter().copied().collect())
    }

    #[test]
    fn two_lengths_are_subtracted() {
        let short = tally(&[
            ("instructions", 100),
            ("l1d_misses", 9),
            ("blocks_touched", 5),
        ]);
        let long = tally(&[
            ("instructions", 300),
            ("l1d_misses", 8),
            ("blocks_touched", 7),
        ]);
        let both = long.since(&short).expect("a longer run");
        let right = tally(&[
            ("instructions", 200),
            ("l1d_misses", 0),
            ("blocks_touched", 7),
        ]);
        assert_eq!(both, right);
        assert!(short.since(&long).is_err());
        assert!(short.since(&short).is_err());
        assert!(long.since(&tally(&[("instructions", 1)])).is_err());
    }

    #[test]
    fn metrics_are_shares_and_rates() {
        let counts = tally(&[
            ("instructions", 2000),
            ("scalar_integer", 500),
            ("vector_integer", 300),
            ("crypto", 200),
            ("branch", 250),
            ("load_store", 400),
            ("loads", 300),
            ("stores", 80),
            ("modifies", 20),
            ("dtlb_misses", 4),
        ]);
        let metrics: BTreeMap<_, _> = counts.metrics(Some(10)).into_iter().collect();
        let is = |name: &str, right: f64| assert_eq!(metrics[name], right, "{name}");
        is("instructions_per_item", 200.0);
        is("integer_share", 0.5);
        is("branch_share", 0.125);
        is("load_store_share", 0.2);
        is("dtlb_misses_per_1000", 2.0);
        is("dtlb_miss_ratio", 0.01);
        assert!(!metrics.contains_key("instructions_per_cycle"));
        assert!(!metrics.contains_key("itlb_misses_per_1000"));
        assert!(tally(&[]).metrics(None).is_empty());
    }
}
