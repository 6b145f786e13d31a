//! x86-64 with AVX-512: payload copied and summed in one pass, headers stored from a template.
//!
//! Of a segment's headers only a few fields are its own. The sums of all others are taken once for a send, so that a checksum
//! is the payload's sum and a handful of additions (RFC 1624).
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::template::{self, Template};
use super::{Mode, Send};
use crate::isa::Avx512Vnni;
use crate::network::checksum::avx512;

/// Writes the segments of `send` to `dst`, which is as long as they are.
pub(super) fn segment(_proof: Avx512Vnni, send: &Send<'_>, mss: usize, mode: Mode, dst: &mut [u8]) {
    // SAFETY: `Avx512Vnni` exists only where these instructions do.
    unsafe { segment_in_lines(send, mss, mode, dst) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,bmi2")]
fn segment_in_lines(send: &Send<'_>, mss: usize, mode: Mode, dst: &mut [u8]) {
    template::segment(
        send,
        (mss, mode),
        dst,
        |part| avx512::read(part).sum(),
        |part, to| avx512::copy(part, to).sum(),
        |template, to| put(template, to),
    );
}

/// The start of a template, as long as `dst`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,bmi2")]
fn put(template: &[u8; Template::BYTES], dst: &mut [u8]) {
    let lines = dst.chunks_mut(64).zip(template.as_chunks::<64>().0);
    for (to, from) in lines {
        let mask = _bzhi_u64(!0, to.len() as u32);
        // SAFETY: 64 bytes are read; the mask selects `to` alone, and no other byte is written.
        unsafe {
            let bytes = _mm512_loadu_si512(from.as_ptr().cast());
            _mm512_mask_storeu_epi8(to.as_mut_ptr().cast(), mask, bytes);
        }
    }
}
