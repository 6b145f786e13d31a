//! x86-64 with AVX-512: short items without a call, and stores past the caches.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use dpb_core::{Batch, BatchOut, CopyMode};

use crate::isa::Avx512;

/// Longer items are the C library's, which knows each CPU's best loop.
const INLINE_BYTES_MAX: usize = 256;

/// Copies each item that its slot has room for.
pub(super) fn batch(_proof: Avx512, mode: CopyMode, batch: Batch<'_>, out: BatchOut<'_>) {
    match mode {
        CopyMode::Cached => super::each(batch, out, |item, slot| {
            // SAFETY: `Avx512` exists only where these instructions do.
            unsafe { cached(item, slot) }
        }),
        CopyMode::Streaming => {
            super::each(batch, out, |item, slot| {
                // SAFETY: as above.
                unsafe { stream(item, slot) }
            });
            // SAFETY: every x86-64 CPU has it. Streamed bytes are there for whoever is told of them later.
            unsafe { _mm_sfence() };
        }
    }
}

/// Copies `item` to `slot`, which is as long.
#[target_feature(enable = "avx512f,avx512bw")]
fn cached(item: &[u8], slot: &mut [u8]) {
    match item.len() {
        0..=64 => masked(item, slot),
        // The last vectors may overlap those before them.
        65..=INLINE_BYTES_MAX => {
            let (blocks, _) = item.as_chunks::<64>();
            let (places, _) = slot.as_chunks_mut::<64>();
            for (block, place) in blocks.iter().zip(places) {
                store(place, load(block));
            }
            if let (Some(block), Some(place)) = (item.last_chunk(), slot.last_chunk_mut()) {
                store(place, load(block));
            }
        }
        _ => slot.copy_from_slice(item),
    }
}

/// Copies `item` to `slot`, which is as long, whole cache lines past the caches.
#[target_feature(enable = "avx512f,avx512bw")]
fn stream(item: &[u8], slot: &mut [u8]) {
    let head = slot.as_ptr().align_offset(64).min(slot.len());
    let (item_head, item) = item.split_at(head);
    let (slot_head, slot) = slot.split_at_mut(head);
    masked(item_head, slot_head);
    let (blocks, item_tail) = item.as_chunks::<64>();
    let (lines, slot_tail) = slot.as_chunks_mut::<64>();
    for (block, line) in blocks.iter().zip(lines) {
        // SAFETY: 64 bytes, aligned so: `head` ends where a line does.
        unsafe { _mm512_stream_si512(line.as_mut_ptr().cast(), load(block)) };
    }
    masked(item_tail, slot_tail);
}

/// Copies up to 64 bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn masked(item: &[u8], slot: &mut [u8]) {
    debug_assert!(item.len() <= 64 && item.len() == slot.len());
    let mask = !(!0u64).checked_shl(item.len() as u32).unwrap_or(0);
    // SAFETY: the mask selects both slices, which are as long, alone; what is masked out is not accessed.
    unsafe {
        let bytes = _mm512_maskz_loadu_epi8(mask, item.as_ptr().cast());
        _mm512_mask_storeu_epi8(slot.as_mut_ptr().cast(), mask, bytes);
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load(block: &[u8; 64]) -> __m512i {
    // SAFETY: 64 bytes; the load needs no alignment.
    unsafe { _mm512_loadu_si512(block.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn store(place: &mut [u8; 64], block: __m512i) {
    // SAFETY: 64 bytes; the store needs no alignment.
    unsafe { _mm512_storeu_si512(place.as_mut_ptr().cast(), block) }
}
