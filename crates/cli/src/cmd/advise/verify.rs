//! The proof of the advice: the checks are measured, and the predictions scored.

use dpb_core::measure::provenance::Machine;
use dpb_core::measure::statistics::median;
use dpb_core::measure::{Outcome, Ratio, Record};
use dpb_insight::advice::{Check, Decided, Estimate, Goal, Held, Metric, Score, side};

use super::{Answer, Kept, measure};
use crate::exit::Failure;

/// Measures the checks and scores them.
///
/// # Errors
/// If a side was measured on another machine, or there is no point to check.
pub(super) fn score(answer: &Answer<'_>, kept: &mut Kept) -> Result<Score, Failure> {
    let (advisor, advice) = (&answer.advisor, &answer.advice);
    let here = Machine::look();
    let here = format!("{}, {}", here.host, here.cpu_model);
    for side in [&advisor.host, &advisor.device] {
        if side.machine != here {
            return Err(Failure::unavailable(format!(
                "--verify measures here, and {} was measured on {}; run the printed commands there",
                side.backend, side.machine
            )));
        }
    }
    if advice.checks.is_empty() {
        return Err(Failure::check(
            "there is no size between the measured ones that could be held out",
        ));
    }
    let records = measure::checks(answer.args, &answer.commands)?;
    for (of_device, own) in [false, true].into_iter().zip(&records) {
        for record in own {
            kept.keep(record.clone())?;
            if side::work(record) != answer.side(of_device).work {
                return Err(Failure::check(format!(
                    "record {} is of other work than the advice: {:?}, not {:?}",
                    record.id,
                    side::work(record),
                    answer.side(of_device).work
                )));
            }
        }
    }
    let (mut held, mut decided) = (Vec::new(), Vec::new());
    for check in &advice.checks {
        judge(answer, check, &records, &mut held, &mut decided)?;
    }
    Ok(Score::of(&held, &decided))
}

fn judge(
    answer: &Answer<'_>,
    check: &Check,
    records: &[Vec<Record>; 2],
    held: &mut Vec<Held>,
    decided: &mut Vec<Decided>,
) -> Result<(), Failure> {
    let mut sides = Vec::new();
    for (of_device, load, predicted) in [
        (false, &check.host_load, check.host),
        (true, &check.device_load, check.device),
    ] {
        let backend = &answer.side(of_device).backend;
        let name = format!(
            "{backend}, {} x {} B, {} in flight",
            load.batch,
            load.size,
            load.in_flight()
        );
        let own = measure::found(&records[usize::from(of_device)], load);
        if own.is_empty() {
            return Err(Failure::check(format!("{name} was not measured")));
        }
        for record in &own {
            if let Outcome::Failed { reason } | Outcome::Unsupported { reason } = &record.outcome {
                return Err(Failure::check(format!("{name}: {reason}")));
            }
        }
        let runs = own.iter();
        let runs = runs.flat_map(|record| measure::figures(record, check.metric, load.batch));
        let runs: Vec<f64> = runs.collect();
        let Some(measured) = median(&runs) else {
            return Err(Failure::check(format!(
                "{name}: its record has no such figure"
            )));
        };
        // CPU time around zero: less than a nanosecond cannot be told, and a ratio of such runs has no interval.
        let measured = measured.max(1.0);
        // A host that is asked at several of the device's depths is one prediction.
        if held.iter().all(|known| known.name != name) && predicted.value.is_finite() {
            held.push(Held {
                name: name.clone(),
                predicted,
                measured,
            });
        }
        sides.push((name, runs, measured));
    }
    let (host, device) = (&sides[0], &sides[1]);
    let truth = match &answer.advice.goal {
        // As predicted: what lies beyond the limit is all alike.
        Goal::Slo { limit_ns, .. } => {
            let in_time = |ns: f64| ns.min(*limit_ns);
            let runs = |side: &[f64]| side.iter().map(|&ns| in_time(ns)).collect::<Vec<f64>>();
            let value = in_time(host.2) / in_time(device.2);
            ratio(&runs(&host.1), &runs(&device.1), value)
        }
        _ => ratio(&host.1, &device.1, host.2 / device.2),
    };
    debug_assert!(check.metric != Metric::P99 || matches!(answer.advice.goal, Goal::Slo { .. }));
    decided.push(Decided {
        name: format!("{} beside {}", device.0, answer.side(false).backend),
        size: check.device_load.size,
        verdict: check.verdict,
        truth,
    });
    Ok(())
}

/// The measured gain with its 95 % interval; without one nothing is known of it.
fn ratio(host: &[f64], device: &[f64], value: f64) -> Estimate {
    let interval = Ratio::of(host, device).and_then(|ratio| ratio.ci95);
    let (low, high) = interval.unwrap_or((0.0, f64::INFINITY));
    Estimate { value, low, high }
}
