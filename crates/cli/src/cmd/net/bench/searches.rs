//! The verdict on searches.

use dpb_core::measure::statistics::judge;
use dpb_core::measure::{Interference, Record};

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
