//! The evidence of what crosses a link.

use dpb_core::Evidence;

/// The evidence of times over a link: emulated where a stand-in for hardware took part or the link is a pace, else that of this CPU.
///
/// `emulated_by` names the stand-in; `link_bits_per_s` is the pace, 0 for none.
pub fn evidence(emulated_by: Option<String>, link_bits_per_s: u64) -> Evidence {
    match (emulated_by, link_bits_per_s) {
        (Some(by), _) => Evidence::Emulated { by },
        (None, 0) => Evidence::of_this_cpu(),
        (None, bits) => Evidence::Emulated {
            by: format!("a link of {} Gbit/s by pacing", bits as f64 / 1e9),
        },
    }
}
