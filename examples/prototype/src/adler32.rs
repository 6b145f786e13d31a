//! Adler-32, the checksum of zlib's format (RFC 1950, 8.2).

use dpb_core::spec::Declared;
use dpb_core::{Batch, BatchOut, Exact, JobError, Kernel, OutputShape};
use dpb_operators::cpu::{Implementation, OwnPath};
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
    paths: PATHS,
    ..Entry::of::<Adler32>(
        |spec, path| {
            let path = path.among(Adler32::NAME, PATHS)?;
            Ok(Box::new(Checksum::on(path, *own::<Adler32>(spec))))
        },
        |case| {
            let adler32 = *own::<Adler32>(&case.spec);
            let right =
                move |item: &[u8], _| Ok(adler32.by_definition(item).to_be_bytes().to_vec());
            Ok(Box::new(Exact::new(&case.spec, "by definition", right)))
        },
    )
};

/// A path of its own beside the portable one: `cpu/lanes`.
const PATHS: &[Implementation] = &[Implementation::Own(&LANES_PATH), Implementation::Portable];

/// The path that computes [`LANES`] sums side by side, which the compiler lays into vectors.
static LANES_PATH: OwnPath = OwnPath {
    name: "lanes",
    needs: "any CPU",
    is_available: || true,
};

/// Bytes that are added up side by side.
const LANES: usize = 32;

/// The largest prime below 2^16.
const BASE: u32 = 65_521;

/// So many bytes cannot overflow 32 bits between two reductions (RFC 1950, 9).
const BYTES_MAX: usize = 5552;

impl Adler32 {
    /// The checksum of `item`, one byte after the other.
    pub fn by_byte(self, item: &[u8]) -> u32 {
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

    /// The same, 32 bytes at a time.
    ///
    /// A byte counts once in the lower sum, and in the upper one as often as there are bytes from it to the end. With a sum for each lane, a
    /// block adds to the upper sum of a lane what the lower one was before it, 32 times.
    pub fn in_lanes(self, item: &[u8]) -> u32 {
        let (mut low, mut high) = (self.start & 0xffff, self.start >> 16);
        for part in item.chunks(BYTES_MAX / LANES * LANES) {
            let (blocks, rest) = part.as_chunks::<LANES>();
            let mut sums = [0_u32; LANES];
            let mut sums_before = [0_u32; LANES];
            for block in blocks {
                for lane in 0..LANES {
                    sums_before[lane] += sums[lane];
                    sums[lane] += u32::from(block[lane]);
                }
            }
            high += low * (blocks.len() * LANES) as u32 % BASE;
            for lane in 0..LANES {
                let from_here = (LANES - lane) as u32;
                high += (sums_before[lane] * LANES as u32 + sums[lane] * from_here) % BASE;
                low += sums[lane];
            }
            for &byte in rest {
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

/// The operator with the code of a path.
pub(crate) struct Checksum {
    adler32: Adler32,
    code: fn(Adler32, &[u8]) -> u32,
}

impl Checksum {
    /// `adler32` by this path of the operator.
    fn on(path: Implementation, adler32: Adler32) -> Self {
        let code = match path {
            Implementation::Own(_) => Adler32::in_lanes,
            _ => Adler32::by_byte,
        };
        Self { adler32, code }
    }

    /// `adler32` by the best path.
    pub(crate) fn best(adler32: Adler32) -> Self {
        Self::on(Implementation::best(PATHS), adler32)
    }
}

impl Kernel for Checksum {
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
            slot.copy_from_slice(&(self.code)(self.adler32, item).to_be_bytes());
        });
        Ok(())
    }
}
