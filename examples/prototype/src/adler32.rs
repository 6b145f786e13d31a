//! Adler-32, the checksum of zlib's format (RFC 1950, 8.2).

use dpb_core::spec::Declared;
use dpb_core::{Batch, BatchOut, Exact, JobError, Kernel, OutputShape};
use dpb_operators::cpu::Implementation;
use dpb_operators::registry::{Entry, Library, own};

dpb_core::spec! {
    /// Adler-32 (RFC 1950). Output: four bytes, big endian, per item.
    pub struct Adler32 = "adler32" {
        /// The checksum of what came before the item: its two sums, the second in the upper half.
        start: u32 = "1" in 0..=0xfff0_fff0,
    }
}

/// The operator as `dpb` knows it.
pub const ADLER32: Entry = Entry {
    scenario: "storage",
    summary: "Adler-32 of each item",
    output: "4 bytes per item, big endian",
    source: "RFC 1950, 8.2",
    library: Library {
        name: env!("CARGO_PKG_NAME"),
        version: || env!("CARGO_PKG_VERSION"),
    },
    documentation: "# adler32\n\nThe checksum of zlib's format.",
    ..Entry::of::<Adler32>(
        |spec, path| {
            path.among(Adler32::NAME, &[Implementation::Portable])?;
            Ok(Box::new(*own::<Adler32>(spec)))
        },
        |case| {
            let adler32 = *own::<Adler32>(&case.spec);
            let right =
                move |item: &[u8], _| Ok(adler32.by_definition(item).to_be_bytes().to_vec());
            Ok(Box::new(Exact::new(&case.spec, "by definition", right)))
        },
    )
};

/// The largest prime below 2^16.
const BASE: u32 = 65_521;

/// So many bytes cannot overflow 32 bits between two reductions (RFC 1950, 9).
const BYTES_MAX: usize = 5552;

impl Adler32 {
    /// The checksum of `item`.
    pub fn checksum(self, item: &[u8]) -> u32 {
        let (mut low, mut high) = (self.start & 0xffff, self.start >> 16);
        for part in item.chunks(BYTES_MAX) {
            for &byte in part {
                low += u32::from(byte);
                high += low;
            }
            low %= BASE;
            high %= BASE;
        }
        high << 16 | low
    }

    /// The same, reduced at each byte.
    fn by_definition(self, item: &[u8]) -> u32 {
        let start = (self.start & 0xffff, self.start >> 16);
        let (low, high) = item.iter().fold(start, |(low, high), &byte| {
            let low = (low + u32::from(byte)) % BASE;
            (low, (high + low) % BASE)
        });
        high << 16 | low
    }
}

impl Kernel for Adler32 {
    type Scratch = ();

    fn scratch(&self) {}

    fn shape(&self) -> OutputShape {
        OutputShape::Fixed(4)
    }

    fn dst_len(&self, _item_len: usize) -> usize {
        4
    }

    fn run(&self, batch: Batch<'_>, out: BatchOut<'_>, (): &mut ()) -> Result<(), JobError> {
        out.each(batch, |item, slot| {
            slot.copy_from_slice(&self.checksum(item).to_be_bytes());
        });
        Ok(())
    }
}
