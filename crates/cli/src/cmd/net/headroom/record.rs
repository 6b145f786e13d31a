//! What a record says of a search: its numbers, what was counted, the verdict.

use dpb_core::measure::{Interference, Record, Summary};
use dpb_net::headroom::{Headroom, Speed};
use dpb_net::search::Irregular;

use super::find::Found;
use super::rig::Counts;
use crate::cmd::net::bench::judge_searches;

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
    counts.packets.note(record);
    record
        .counts
        .insert("units_of_work".to_owned(), counts.units);
    if let Some(check) = &mut record.check {
        check.against += "; units of work = those asked for";
    }
}

/// The verdict. A search without a lower bound found nothing free.
pub(super) fn judged(
    record: &mut Record,
    found: &Found,
    workers: u32,
    interference: &Interference,
) {
    let free = |search: &Headroom| search.cores_free().unwrap_or(0.0);
    let values: Vec<f64> = found.searches.iter().map(free).collect();
    judge_searches(
        record,
        &values,
        values.len(),
        u64::from(workers),
        interference,
    );
    let Some(stability) = &mut record.stability else {
        return;
    };
    for search in &found.searches {
        let Some(Irregular::OutOfTime) = search.found.irregular else {
            continue;
        };
        stability.reasons.push(format!(
            "the search's time was over: between {:.3} and {} cores; take a longer --limit",
            free(search),
            search
                .cores_free_at_most()
                .map_or("all".to_owned(), |most| format!("{most:.3}"))
        ));
    }
    stability.stable = stability.reasons.is_empty();
}
