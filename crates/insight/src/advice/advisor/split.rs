//! A job whose items are shared out: some to the device, the rest stays, and both work at once. An item is never cut: a digest or a signature is one work.

use super::{Planned, Refusal};
use crate::advice::interval::Estimate;
use crate::advice::load::Load;

/// A job that is shared out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Split {
    /// Items for the device, one at least.
    pub items: u64,
    /// The time until both sides are done.
    pub both: Estimate,
}

impl Split {
    /// The part of each side, of the whole job of each; the host's whole job, beside which it is judged, where nothing is left for it.
    pub(super) fn parts(&self, [host, device]: [Load; 2]) -> [Load; 2] {
        let left = match host.batch - self.items {
            0 => host.batch,
            left => left,
        };
        [
            Load {
                batch: left,
                ..host
            },
            Load {
                batch: self.items,
                ..device
            },
        ]
    }
}

impl Planned<'_> {
    /// The split of a job that is done first. The device gets an item at least: with none there is no split to be judged.
    pub(super) fn split(&self, whole: &Load) -> Result<Split, Refusal> {
        let part = |items: u64| Load {
            batch: items,
            ..*whole
        };
        let sides = |items: u64| {
            let device = self.time(1, &part(items)).ok()?.0;
            let host = self.time(0, &part(whole.batch - items)).ok()?.0;
            Some([host, device])
        };
        // The first number of items with which the device is the later one. Parts too small to be known lie at the ends, away from which it goes.
        let (mut low, mut high) = (1, whole.batch);
        while low < high {
            let items = u64::midpoint(low, high);
            let device_is_later = match sides(items) {
                Some([host, device]) => device.value > host.value,
                None => items > whole.batch / 2,
            };
            match device_is_later {
                true => high = items,
                false => low = items + 1,
            }
        }
        let shared = [low.saturating_sub(1), low]
            .into_iter()
            .filter_map(|items| {
                let is_shared = (1..whole.batch).contains(&items);
                let [host, device] = is_shared.then(|| sides(items))??;
                let both = host.max(&device);
                Some(Split { items, both })
            });
        let shared: Vec<Split> = shared.collect();
        if shared.is_empty() {
            return Err(Refusal(format!(
                "no part of a job of {} items of {} B is known: a smaller number of items is to be measured too (--batch)",
                whole.batch, whole.size
            )));
        }
        let alone = self.time(1, whole).ok().map(|(both, _)| Split {
            items: whole.batch,
            both,
        });
        let all = shared.into_iter().chain(alone);
        let first = all.min_by(|a, b| a.both.value.total_cmp(&b.both.value));
        Ok(first.expect("one part is known"))
    }
}
