//! With vectors: payload copied and summed in one pass, headers stored from a template.
//!
//! Of a segment's headers only a few fields are its own. The sums of all others are taken once for a send, so that a checksum
//! is the payload's sum and a handful of additions (RFC 1624).

use super::template;
use super::{Mode, Send};
use crate::network::checksum::kernel;
use crate::network::checksum::lines::{Lines, Task};

/// Writes the segments of a send to `dst`, which is as long as they are.
pub(super) struct Segments<'a, 'd> {
    pub(super) send: &'a Send<'a>,
    pub(super) mss: usize,
    pub(super) mode: Mode,
    pub(super) dst: &'d mut [u8],
}

impl Task for Segments<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lines>(self, lines: L) {
        template::segment(
            self.send,
            (self.mss, self.mode),
            self.dst,
            |part| kernel::sum(lines, part),
            |part, to| kernel::copy(lines, part, to),
            |template, to| lines.put(template, to),
        );
    }
}
