//! Armv8-A: stores that say that nobody reads what they write soon (`STNP`).
#![allow(unsafe_code)]

use std::arch::aarch64::vld1q_u8;
use std::arch::asm;

use crate::isa::Neon;

/// Copies `item` to `slot`, which is as long, 32 bytes a store.
pub(super) fn stream(_proof: Neon, item: &[u8], slot: &mut [u8]) {
    let (blocks, item_tail) = item.as_chunks::<32>();
    let (places, slot_tail) = slot.as_chunks_mut::<32>();
    for (block, place) in blocks.iter().zip(places) {
        let (halves, _) = block.as_chunks::<16>();
        // SAFETY: `Neon` exists only where these instructions do; 16 bytes each, 32 behind `place`, and none needs alignment.
        unsafe {
            let (low, high) = (vld1q_u8(halves[0].as_ptr()), vld1q_u8(halves[1].as_ptr()));
            asm!(
                "stnp {low:q}, {high:q}, [{place}]",
                low = in(vreg) low,
                high = in(vreg) high,
                place = in(reg) place.as_mut_ptr(),
                options(nostack, preserves_flags),
            );
        }
    }
    slot_tail.copy_from_slice(item_tail);
}
