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
}

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
}
