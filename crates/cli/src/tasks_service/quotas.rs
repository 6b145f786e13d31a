//! What a client's test may take.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::output;
use crate::task::Cost;

/// Most that a test of a client may take. Memory and disk are held against the task's own estimate before it runs; time is kept while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quotas {
    /// The most main memory, in bytes; `None` for as much as is free.
    pub memory_bytes: Option<u64>,
    /// The most disk space for data that is not there yet, in bytes.
    pub disk_bytes: u64,
    /// The most time of a test, and of making what it needs, in seconds each.
    pub seconds: u64,
}

impl Quotas {
    /// The time of a test.
    pub fn time(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }

    /// True if a test of `runs` runs keeps the quotas.
    ///
    /// # Errors
    /// What it would take too much of.
    pub fn check(&self, cost: &Cost, runs: u64) -> Result<(), String> {
        let bytes = |bytes: u64| format!("{}B", output::short(bytes as f64));
        let memory_max = self.memory_bytes.unwrap_or(u64::MAX);
        if cost.memory_bytes > memory_max {
            let (needed, most) = (bytes(cost.memory_bytes), bytes(memory_max));
            return Err(format!(
                "it needs about {needed} of memory, more than the {most} of a client's test"
            ));
        }
        if cost.disk_bytes > self.disk_bytes {
            let (needed, most) = (bytes(cost.disk_bytes), bytes(self.disk_bytes));
            return Err(format!(
                "it needs about {needed} of disk, more than the {most} of a client's test"
            ));
        }
        if cost.time(runs) > self.time() {
            return Err(format!(
                "{runs} runs take about {} s, more than the {} s of a client's test",
                cost.time(runs).as_secs(),
                self.seconds
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_too_much_is_refused_by_its_figure() {
        let quotas = Quotas {
            memory_bytes: Some(1000),
            disk_bytes: 2000,
            seconds: 60,
        };
        let cost = Cost {
            once: Duration::from_secs(10),
            each_run: Duration::from_secs(5),
            memory_bytes: 1000,
            disk_bytes: 2000,
        };
        assert_eq!(quotas.check(&cost, 10), Ok(()));
        let more_memory = Cost {
            memory_bytes: 1001,
            ..cost
        };
        let more_disk = Cost {
            disk_bytes: 2001,
            ..cost
        };
        for (cost, runs, said) in [
            (more_memory, 1, "of memory, more than"),
            (more_disk, 1, "of disk"),
            (cost, 11, "11 runs take about 65 s"),
        ] {
            let why = quotas.check(&cost, runs).expect_err("too much");
            assert!(why.contains(said), "{why}");
        }
    }
}
