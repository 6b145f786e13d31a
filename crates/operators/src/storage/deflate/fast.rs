//! The encoder of level 1: one pass that finds repeats by one probe of a hash table and counts what it finds, then for each block
//! whichever is shortest: codes of its own, the format's fixed ones, or none. Safe Rust without any instruction set of its own.

mod bits;
mod block;
mod repeats;

use dpb_core::{DeflateFormat, JobError};

use super::container;
use block::Blocks;
use repeats::{BLOCK_BYTES, Repeats};

/// A queue's tables. What an item leaves there is not seen by the next, without being cleared.
#[allow(missing_debug_implementations)]
pub struct Encoder {
    repeats: Repeats,
    blocks: Blocks,
}

impl Encoder {
    /// Nothing seen.
    pub(super) fn new() -> Self {
        Self {
            repeats: Repeats::new(),
            blocks: Blocks::new(),
        }
    }

    /// Writes one stream; says how long it is.
    pub(super) fn encode(
        &mut self,
        format: DeflateFormat,
        plain: &[u8],
        slot: &mut [u8],
    ) -> Result<usize, JobError> {
        let header = container::put(slot, format.header(1))?;
        let body = self.body(plain, &mut slot[header..])?;
        let check = match format {
            DeflateFormat::Raw => 0,
            DeflateFormat::Zlib => libdeflater::adler32(plain),
            DeflateFormat::Gzip => libdeflater::crc32(plain),
        };
        let trailer = format.trailer(check, plain.len());
        let trailer = container::put(&mut slot[header + body..], &trailer)?;
        Ok(header + body + trailer)
    }

    /// The bare stream.
    fn body(&mut self, plain: &[u8], slot: &mut [u8]) -> Result<usize, JobError> {
        let mut out = bits::Bits::new(slot);
        self.repeats.start(plain.len());
        let mut done = 0;
        loop {
            let end = plain.len().min(done + BLOCK_BYTES);
            self.repeats.find(plain, done, end);
            let is_last = end == plain.len();
            let block = &plain[done..end];
            self.blocks
                .write(block, self.repeats.found(), is_last, &mut out)?;
            if is_last {
                return out.finish();
            }
            done = end;
        }
    }
}
