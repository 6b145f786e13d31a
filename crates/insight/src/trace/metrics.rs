//! What follows from counts: shares of instructions, misses by 1000 of them.

use super::mica;
use super::tally::Tally;

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

impl Tally {
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
        metrics.extend(mica::metrics(self, instructions));
        metrics
    }

    /// Integer instructions: those of general and of vector registers, and those of cryptography and CRC.
    fn integer(&self) -> Option<u64> {
        self.count("integer").or_else(|| {
            let scalar = self.count("scalar_integer")?;
            // A kind that never occurred has no count.
            let others = ["vector_integer", "crypto"].map(|kind| self.count(kind).unwrap_or(0));
            Some(scalar + others.iter().sum::<u64>())
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn tally(counts: &[(&'static str, u64)]) -> Tally {
        let mut tally = Tally::default();
        for (name, count) in counts {
            tally.add(name, *count);
        }
        tally
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
