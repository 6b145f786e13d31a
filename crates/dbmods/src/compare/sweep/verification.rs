//! Whether all schemes of a test return the same rows.

use std::collections::BTreeMap;

use dpb_core::measure::Check;

use super::result::SchemeResult;
use super::{Contender, Progress, SweepTest, is_interrupt};
use crate::compare::consumer::Consumer;
use crate::compare::digest::{Digest, first_difference};
use crate::compare::error::SchemeError;
use crate::compare::reference;
use crate::compare::scheme::Scheme;
use crate::compare::side::Test;

/// The outcome of a test's check for all its contenders.
pub(super) enum Verdict {
    /// They agree.
    Agreed {
        check: Check,
        digest: Digest,
    },
    Differs(String),
    Broke(BTreeMap<Scheme, String>),
    Interrupted,
}

impl SweepTest<'_> {
    /// Every contender's rows, compared. Who cannot run this test says so in its result.
    pub(super) fn verify<E>(
        &self,
        contenders: &mut [Contender],
        results: &mut [SchemeResult],
        progress: &mut Progress<'_, E>,
    ) -> Result<Verdict, E> {
        let mut digests: Vec<(usize, Digest)> = Vec::new();
        let mut broke = BTreeMap::new();
        // DuckDB chooses how it hands rows over by their number, and what is checked is what will be timed. So ours goes
        // first, being last in the list; without it the first scheme counts its rows in a run of its own.
        for (done, at) in (0..contenders.len()).rev().enumerate() {
            let contender = &mut contenders[at];
            let label = self.label(contender.scheme);
            progress(done as u64, format!("checking {label}"))?;
            let Ok(side) = &mut contender.side else {
                continue;
            };
            let mut consumer = Consumer::Digest(Digest::default());
            let expected = match digests.first() {
                Some((_, digest)) => Ok(Some(digest.rows)),
                None if contender.scheme == Scheme::Dpb => Ok(None),
                None => side
                    .run(&self.test(None), &mut Consumer::Count)
                    .map(|run| Some(run.rows)),
            };
            let run = expected.and_then(|rows| side.run(&self.test(rows), &mut consumer));
            match (run, consumer) {
                (Ok(_), Consumer::Digest(digest)) => digests.push((at, digest)),
                (Err(error @ SchemeError::NotCold(_)), _) => {
                    results[at].cannot(&error.to_string());
                }
                (Err(error), _) if is_interrupt(&error) => return Ok(Verdict::Interrupted),
                (Err(error), _) => {
                    broke.insert(contender.scheme, error.to_string());
                }
                (Ok(_), _) => unreachable!("a consumer keeps its kind"),
            }
            if (self.interrupted)() {
                return Ok(Verdict::Interrupted);
            }
        }
        if !broke.is_empty() {
            return Ok(Verdict::Broke(broke));
        }
        digests.reverse();
        let Some(&(first, digest)) = digests.first() else {
            return Ok(Verdict::Broke(BTreeMap::new()));
        };
        if let Some(&(other, _)) = digests.iter().find(|(_, other)| *other != digest) {
            let test = self.test(Some(digest.rows));
            let difference = self.difference(contenders, &test, first, other);
            return Ok(Verdict::Differs(difference));
        }
        if let [(only, _)] = digests[..] {
            return Ok(self.verify_alone(&mut contenders[only], digest));
        }
        let names = digests.iter().map(|&(at, _)| contenders[at].scheme.label());
        let check = Check {
            against: names.collect::<Vec<_>>().join(" = "),
            compared: digest.rows,
            digest: Some(digest.to_string()),
        };
        Ok(Verdict::Agreed { check, digest })
    }

    /// With nobody to compare with: the reference evaluator.
    fn verify_alone(&self, contender: &mut Contender, digest: Digest) -> Verdict {
        let scheme = contender.scheme;
        let Ok(side) = &mut contender.side else {
            return Verdict::Broke(BTreeMap::new());
        };
        match reference::compare(side, &self.test(Some(digest.rows))) {
            Ok(Ok(compared)) => Verdict::Agreed {
                check: Check {
                    against: compared.to_string(),
                    compared: compared.rows,
                    digest: Some(digest.to_string()),
                },
                digest,
            },
            Ok(Err(difference)) => Verdict::Differs(difference),
            Err(error) if is_interrupt(&error) => Verdict::Interrupted,
            Err(error) => Verdict::Broke(BTreeMap::from([(scheme, error.to_string())])),
        }
    }

    /// Names the first row that two contenders do not share.
    fn difference(
        &self,
        contenders: &mut [Contender],
        test: &Test,
        first: usize,
        other: usize,
    ) -> String {
        let names = [first, other].map(|at| contenders[at].scheme.label());
        let mut kept = [first, other].map(|at| {
            let side = contenders[at].side.as_mut().ok()?;
            let mut consumer = Consumer::keep();
            side.run(test, &mut consumer).ok()?;
            match consumer {
                Consumer::Keep(kept) => Some(kept.batches),
                _ => None,
            }
        });
        let row = match (kept[0].take(), kept[1].take()) {
            (Some(a), Some(b)) => first_difference(names[0], &a, names[1], &b)
                .ok()
                .flatten()
                .unwrap_or_else(|| "they agree when asked again".to_owned()),
            _ => {
                "they could not be asked again, or return too much to compare row by row".to_owned()
            }
        };
        format!(
            "{} and {} return different rows for {}: {row}",
            names[0],
            names[1],
            self.condition(contenders[first].side.as_ref().ok())
        )
    }
}
