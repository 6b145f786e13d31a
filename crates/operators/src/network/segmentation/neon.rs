//! Armv8-A: payload copied and summed in one pass, headers stored from a template.

use super::template;
use super::{Mode, Send};
use crate::isa::Neon;
use crate::network::checksum::neon;

/// Writes the segments of `send` to `dst`, which is as long as they are.
pub(super) fn segment(proof: Neon, send: &Send<'_>, mss: usize, mode: Mode, dst: &mut [u8]) {
    template::segment(
        send,
        (mss, mode),
        dst,
        |part| neon::sum(proof, part),
        |part, to| neon::copy(proof, part, to),
        |template, to| to.copy_from_slice(&template[..to.len()]),
    );
}
