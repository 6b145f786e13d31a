//! One test: every scheme's rows verified, then every scheme timed in turns.

use super::result::SchemeResult;
use super::verification::Verdict;
use super::{Contender, Progress, SweepTest, is_interrupt};
use crate::compare::consumer::Consumer;
use crate::compare::digest::Digest;
use crate::compare::error::SchemeError;
use crate::compare::run::SchemeRun;
use crate::compare::side::{SchemeSide, Test};

/// Timed runs of so many rows at most keep them until the clock has stopped, and then compare their values.
const KEPT_ROWS_MAX: u64 = 65_536;

impl SweepTest<'_> {
    pub(super) fn run<E>(
        &self,
        contenders: &mut [Contender],
        progress: &mut Progress<'_, E>,
    ) -> Result<Vec<SchemeResult>, E> {
        let mut results: Vec<SchemeResult> = contenders
            .iter()
            .map(|contender| SchemeResult::of(self, contender))
            .collect();
        match self.verify(contenders, &mut results, progress)? {
            Verdict::Agreed { check, digest } => {
                self.time(contenders, &mut results, &digest, progress)?;
                for result in &mut results {
                    result.finish(self, &check, digest.rows);
                }
            }
            Verdict::Differs(reason) => {
                results.iter_mut().for_each(|result| result.fail(&reason));
            }
            Verdict::Broke(reasons) => {
                for result in &mut results {
                    let own = reasons.get(&result.scheme).map(String::as_str);
                    result.fail(own.unwrap_or("another scheme of this test broke"));
                }
            }
            Verdict::Interrupted => results.iter_mut().for_each(SchemeResult::interrupt),
        }
        Ok(results)
    }

    /// The timed runs: in each round every scheme once, starting with another one each time.
    fn time<E>(
        &self,
        contenders: &mut [Contender],
        results: &mut [SchemeResult],
        agreed: &Digest,
        progress: &mut Progress<'_, E>,
    ) -> Result<(), E> {
        let here = contenders.len();
        let test = self.test(Some(agreed.rows));
        for round in 0..self.sweep.repeat {
            for turn in 0..here {
                let at = (round + turn) % here;
                let contender = &mut contenders[at];
                let Ok(side) = &mut contender.side else {
                    continue;
                };
                if results[at].has_no_numbers() {
                    continue;
                }
                let done = here + round * here + turn;
                progress(done as u64, self.label(contender.scheme))?;
                time_once(side, &test, &mut results[at], agreed);
                if (self.interrupted)() {
                    results.iter_mut().for_each(SchemeResult::interrupt);
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

/// One timed run, whose rows must be those that were agreed on.
fn time_once(side: &mut SchemeSide, test: &Test, result: &mut SchemeResult, agreed: &Digest) {
    let mut consumer = match agreed.rows <= KEPT_ROWS_MAX {
        true => Consumer::keep(),
        false => Consumer::Count,
    };
    match side.run(test, &mut consumer) {
        Ok(run) => match differs(&run, &consumer, agreed) {
            None => result.runs.push(run),
            Some(reason) => result.fail(&reason),
        },
        Err(error @ SchemeError::NotCold(_)) => result.cannot(&error.to_string()),
        Err(error) if is_interrupt(&error) => {}
        Err(error) => result.fail(&error.to_string()),
    }
}

/// The difference between a timed run's rows and those that were agreed on.
fn differs(run: &SchemeRun, consumer: &Consumer, agreed: &Digest) -> Option<String> {
    if run.rows != agreed.rows {
        return Some(format!(
            "a timed run returned {} rows, the check {}",
            run.rows, agreed.rows
        ));
    }
    let Consumer::Keep(kept) = consumer else {
        return None;
    };
    let digest = match Digest::of(&kept.batches) {
        Ok(digest) => digest,
        Err(error) => return Some(error.to_string()),
    };
    (digest != *agreed).then(|| "a timed run returned other values than the check".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timed_run_with_other_values_or_rows_is_told() {
        let batch = |values: [i32; 2]| {
            let column: arrow_array::ArrayRef =
                std::sync::Arc::new(arrow_array::Int32Array::from(values.to_vec()));
            arrow_array::RecordBatch::try_from_iter([("a", column)]).unwrap()
        };
        let mut agreed = Digest::default();
        agreed.update(&batch([1, 2])).unwrap();
        let run = SchemeRun {
            rows: 2,
            ..SchemeRun::default()
        };
        let kept = |values| {
            let mut consumer = Consumer::keep();
            if let Consumer::Keep(kept) = &mut consumer {
                kept.batches.push(batch(values));
            }
            consumer
        };
        assert_eq!(differs(&run, &kept([2, 1]), &agreed), None);
        assert!(differs(&run, &kept([1, 3]), &agreed).is_some());
        assert!(differs(&SchemeRun::default(), &Consumer::Count, &agreed).is_some());
    }
}
