//! The decoder of the library lz4, which is built in.
#![allow(unsafe_code)]

use dpb_core::JobError;
use lz4_sys::LZ4_decompress_safe;

use super::portable;

/// Writes the plain bytes of `item`; says how many.
pub(super) fn decode(item: &[u8], slot: &mut [u8]) -> Result<usize, JobError> {
    // Lengths are signed 32-bit numbers there; of more room than that nothing is used.
    let room = i32::try_from(slot.len()).unwrap_or(i32::MAX);
    let decoded = i32::try_from(item.len()).ok().and_then(|len| {
        // SAFETY: two slices that do not overlap, and lengths that are at most theirs; the function reads only the first, whatever is in
        // it, and writes only to the second.
        let plain = unsafe {
            LZ4_decompress_safe(item.as_ptr().cast(), slot.as_mut_ptr().cast(), len, room)
        };
        usize::try_from(plain).ok()
    });
    match decoded {
        Some(plain) => Ok(plain),
        // The library does not say why, and refuses blocks that end otherwise than its encoder's.
        None => portable::decode_into(item, slot),
    }
}
