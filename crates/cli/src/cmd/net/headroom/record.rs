//! What a record says of a search: its numbers, what was counted, the verdict.

use dpb_core::measure::statistics::judge;
use dpb_core::measure::{Check, Interference, Record, Summary};
use dpb_net::headroom::{Headroom, Speed};
use dpb_net::search::Irregular;

use super::find::Found;
use super::rig::Counts;

/// What was found, and what is needed to say it.
pub(super) struct Measured<'a> {
    pub(super) found: &'a Found,
    pub(super) speed: Speed,
    pub(super) cores: u32,
    pub(super) frame_bytes: usize,
}

impl Measured<'_> {
    pub(super) fn fill(&self, record: &mut Record, repeat: usize) {
        let Found {
            packets_per_s,
            highest,
            searches,
        } = self.found;
        // A system that does not even bear the least work has nothing free.
        let free = |search: &Headroom| search.cores_free().unwrap_or(0.0);
        let all: Vec<f64> = searches.iter().map(free).collect();
        let each =
            |of: &dyn Fn(&Headroom) -> f64| -> Vec<f64> { searches.iter().map(of).collect() };
        let most = |search: &Headroom| search.cores_free_at_most();
        if searches.iter().all(|search| most(search).is_some()) {
            record.sample(
                "cores_free_at_most",
                each(&|search| most(search).unwrap_or(0.0)),
            );
        }
        record.sample(
            "cores_free_part",
            each(&|search| free(search) / f64::from(self.cores)),
        );
        let work_ns = |search: &Headroom| search.found.lower.unwrap_or(0.0);
        record.sample("work_ns_per_packet", each(&work_ns));
        record.sample(
            "units_per_packet",
            each(&|search| self.speed.units(work_ns(search))),
        );
        record.sample("cores_free", all);
        let mut say = |name: &str, value: f64| {
            let summary = Summary {
                median: value,
                ci95_low: None,
                ci95_high: None,
                samples: repeat as u64,
            };
            record.summary.insert(name.to_owned(), summary);
        };
        say("packets_per_s", *packets_per_s);
        say("ns_per_unit", self.speed.ns_per_unit);
        if let Some(max) = highest.packets_per_s() {
            say("packets_per_s_max", max);
            say("bytes_per_s_max", max * self.frame_bytes as f64);
            if let Some(search) = searches.first() {
                say("headroom_by_rate", search.by_rate(max));
            }
        }
        // Then both are bounds: the system may forward more than was offered.
        let is_generators = u64::from(highest.is_generators());
        for (name, count) in [
            ("highest_rate_is_generators", is_generators),
            ("highest_rate_trials", highest.trials),
            ("highest_rate_trials_invalid", highest.invalid),
        ] {
            record.counts.insert(name.to_owned(), count);
        }
    }
}

/// Adds what the trials of a search have counted, and that it was checked.
pub(super) fn fill_counts(record: &mut Record, counts: &Counts) {
    let Counts {
        trials,
        invalid,
        offered,
        refused,
        delivered,
        dropped,
        unexplained,
        corrupted,
        duplicates,
        foreign,
        units,
    } = *counts;
    for (name, count) in [
        ("trials", trials),
        ("trials_invalid", invalid),
        ("packets_offered", offered),
        ("packets_refused", refused),
        ("packets_delivered", delivered),
        ("packets_dropped", dropped),
        ("packets_unexplained", unexplained),
        ("packets_corrupted", corrupted),
        ("packets_duplicate", duplicates),
        ("packets_foreign", foreign),
        ("units_of_work", units),
    ] {
        record.counts.insert(name.to_owned(), count);
    }
    record.check = Some(Check {
        against: "each packet's number and bytes; offered = refused + delivered + dropped + unexplained; units of work = those asked for".to_owned(),
        compared: delivered,
        digest: None,
    });
}

/// The verdict. One search is many trials, so it is judged by its own end; several are runs like any other.
pub(super) fn judged(
    record: &mut Record,
    found: &Found,
    workers: u32,
    interference: &Interference,
) {
    let values: Vec<f64> = found
        .searches
        .iter()
        .filter_map(Headroom::cores_free)
        .collect();
    let asked = found.searches.len();
    let mut stability = match &values[..] {
        [] => judge(&[1.0; 3], 3, workers, interference),
        [one] => judge(&[*one; 3], 3, workers, interference),
        all => judge(all, asked, workers, interference),
    };
    if values.len() < 2 {
        stability.cv = None;
    }
    for search in &found.searches {
        let Some(Irregular::OutOfTime) = search.found.irregular else {
            continue;
        };
        stability.reasons.push(format!(
            "the search's time was over: between {:.3} and {} cores; take a longer --limit",
            search.cores_free().unwrap_or(0.0),
            search
                .cores_free_at_most()
                .map_or("all".to_owned(), |most| format!("{most:.3}"))
        ));
    }
    stability.stable = stability.reasons.is_empty();
    record.stability = Some(stability);
}
