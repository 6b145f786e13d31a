//! Searches that a generator may be too slow for, and the verdict on what they found.

use dpb_core::measure::statistics::judge;
use dpb_core::measure::{Interference, Record, Stability};
use dpb_net::search::{GoalResult, Irregular};

use crate::output::short;

/// A search begins again at half of its highest rate, so many times at most, until the generator can offer it.
const HALVES_MAX: u32 = 12;

/// Calls `once` with the highest load of a search; with half of it and so on, above the lowest one, as long as `invalid_at` says that nothing could be said of that load.
pub(in crate::cmd::net) fn search_down<T, E>(
    [load_min, mut load_max]: [f64; 2],
    invalid_at: impl Fn(&E) -> Option<f64>,
    mut once: impl FnMut(f64) -> Result<T, E>,
) -> Result<T, E> {
    let mut halves = 0;
    loop {
        let found = once(load_max);
        let is_too_high = found.as_ref().err().and_then(&invalid_at) == Some(load_max);
        if !is_too_high || halves == HALVES_MAX || load_max / 2.0 <= load_min {
            return found;
        }
        load_max /= 2.0;
        halves += 1;
    }
}

/// The reason why a result is not two bounds of the goal's width, if it is not; rates are in `unit`.
pub(in crate::cmd::net) fn irregular(result: &GoalResult, unit: &str) -> Option<String> {
    let at = |rate: Option<f64>| rate.map_or("-".to_owned(), short);
    Some(match result.irregular? {
        Irregular::NoUpper => format!(
            "the highest rate, {} {unit}, upholds the goal: the system does more (--rate-max), or the generator can offer no more",
            at(result.lower)
        ),
        Irregular::NoLower => format!(
            "the lowest rate, {} {unit}, fails the goal; lower --rate-min",
            at(result.upper)
        ),
        Irregular::OutOfTime => format!(
            "the time of the search was over with bounds at {} and {} {unit}; raise --search-time",
            at(result.lower),
            at(result.upper)
        ),
    })
}

/// Adds a reason why a record's numbers are not to be trusted.
pub(in crate::cmd::net) fn unstable(record: &mut Record, why: String) {
    if let Some(Stability {
        stable, reasons, ..
    }) = &mut record.stability
    {
        *stable = false;
        reasons.push(why);
    }
}

/// Judges what each of `asked` searches found. A search is itself many trials, whose goal says how sure its bounds are: one alone is not too few.
pub(in crate::cmd::net) fn judge_searches(
    record: &mut Record,
    values: &[f64],
    asked: usize,
    workers: u64,
    interference: &Interference,
) {
    let workers = workers as u32;
    let mut stability = match values {
        [one] if asked == 1 => judge(&[*one; 3], 3, workers, interference),
        values => judge(values, asked, workers, interference),
    };
    if values.len() < 2 {
        stability.cv = None;
    }
    record.stability = Some(stability);
}

#[cfg(test)]
mod tests {
    use dpb_core::Evidence;

    use super::*;

    #[test]
    fn one_search_is_enough_if_one_was_asked_for() {
        let judged = |values: &[f64], asked| {
            let mut record = Record::new("net trial", Evidence::of_this_cpu(), 1);
            judge_searches(&mut record, values, asked, 2, &Interference::default());
            record.stability.expect("it is judged")
        };
        let one = judged(&[4e5], 1);
        assert!(one.stable && one.cv.is_none(), "{one:?}");
        assert!(!judged(&[4e5], 5).stable);
        assert!(!judged(&[], 1).stable);
        // A system that has something free in one search of seven is no steady one.
        assert!(!judged(&[0.0, 0.0, 0.0, 0.4, 0.0, 0.0, 0.0], 7).stable);
        assert!(judged(&[0.0; 5], 5).stable);
    }
}
