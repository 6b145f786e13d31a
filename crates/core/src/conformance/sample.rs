//! Small, slow, right kernels for tests of whatever wraps a backend: CRC-32C byte by byte, DEFLATE's stored blocks
//! (RFC 1951 section 3.2.4) in both directions, and an exclusive or with a key.

use std::num::NonZeroU32;
use std::sync::{Arc, LazyLock};

use crate::{
    Backend, Batch, BatchOut, Buf, Clock, DeflateFormat, Exact, InPlace, Inline, JobError, Kernel,
    Limits, Material, NotInPlace, OpSpec, Operator, OutputShape, Overlay, ParameterValue, Pool,
    Pooled, Properties, Right, SetupError, Unsupported, WallClock, Workload, match_spec, spec,
};

/// Who says what is right.
const NAME: &str = "sample";

/// The longest item that one stored block holds.
const STORED_MAX: usize = 0xFFFF;

/// The workloads of [`Sample`]: CRC-32C, DEFLATE, INFLATE, and `xor` with a key.
pub fn workloads() -> &'static [&'static dyn Workload] {
    static CRC_AND_XOR: LazyLock<[Box<dyn Workload>; 2]> = LazyLock::new(|| {
        let crc = |item: &[u8], _| Ok(crc32c(item).to_le_bytes().to_vec());
        let key = Material::secret(*b"no secret at all");
        let spec = OpSpec::custom("xor", [("key", key.clone().into())]);
        let xor = move |item: &[u8], _| Ok(xored(item, key.bytes()).collect());
        [
            Box::new(Exact::new(&OpSpec::from(spec::Crc32c), NAME, crc)),
            Box::new(Exact::new(&spec, NAME, xor)),
        ]
    });
    static ALL: LazyLock<[&'static dyn Workload; 4]> =
        LazyLock::new(|| [&*CRC_AND_XOR[0], &*DEFLATE, &*INFLATE, &*CRC_AND_XOR[1]]);
    &*ALL
}

/// Stored blocks, in one direction.
struct StoredBlocks(OpSpec);

static DEFLATE: LazyLock<StoredBlocks> = LazyLock::new(|| {
    let format = DeflateFormat::Raw;
    StoredBlocks(spec::Deflate { level: 6, format }.into())
});

static INFLATE: LazyLock<StoredBlocks> = LazyLock::new(|| {
    let format = DeflateFormat::Raw;
    StoredBlocks(spec::Inflate { format }.into())
});

impl StoredBlocks {
    fn decodes(&self) -> bool {
        self.0.is::<spec::Inflate>()
    }
}

impl Workload for StoredBlocks {
    fn spec(&self) -> &OpSpec {
        &self.0
    }

    fn name(&self) -> &str {
        NAME
    }

    fn encode_item(&self, plain: &[u8]) -> Result<Vec<u8>, String> {
        match self.decodes() {
            true => stored(plain).map_err(|error| error.to_string()),
            false => Ok(plain.to_vec()),
        }
    }

    fn right(&self, item: &[u8], _slot_bytes: usize) -> Right {
        match self.decodes() {
            true => unstored(item).map(<[u8]>::to_vec).into(),
            false if item.len() > STORED_MAX => Right::Refused(JobError::TooLong),
            // An encoder is free in what it writes.
            false => Right::AnyValid,
        }
    }

    fn approve(&self, item: &[u8], output: &[u8]) -> Result<(), String> {
        match unstored(output) {
            Ok(again) if again == item => Ok(()),
            other => Err(format!("decodes to {other:02x?}")),
        }
    }
}

/// The kernels on the caller's core, or on workers.
#[derive(Debug)]
pub struct Sample {
    name: String,
    workers: Option<NonZeroU32>,
    clock: WallClock,
    limits: Limits,
}

impl Sample {
    /// The kernels on a pool of `workers` threads; on the caller's core without a number.
    pub fn new(workers: Option<NonZeroU32>) -> Self {
        Self {
            name: match workers {
                None => "sample/inline".into(),
                Some(n) => format!("sample/pool/{n}"),
            },
            workers,
            clock: WallClock::default(),
            limits: Limits {
                depth_max: NonZeroU32::new(64).expect("not zero"),
                input_bytes_max: if cfg!(miri) { 1 << 12 } else { 2 << 20 },
                item_bytes_max: if cfg!(miri) { 1 << 11 } else { 1 << 20 },
                items_max: if cfg!(miri) { 64 } else { 4096 },
                synchronous: workers.is_none(),
            },
        }
    }

    pub(super) fn lift<K: Kernel>(&self, kernel: K, spec: &OpSpec) -> Arc<dyn Operator> {
        match self.workers {
            None => Arc::new(Inline::new(kernel, spec.clone(), self.limits)),
            Some(n) => {
                let pool = Pool::shared(n).expect("threads");
                Arc::new(Pooled::new(kernel, spec.clone(), self.limits, pool))
            }
        }
    }
}

impl Backend for Sample {
    fn name(&self) -> &str {
        &self.name
    }

    fn clock(&self) -> &dyn Clock {
        &self.clock
    }

    fn properties(&self) -> Properties {
        match self.workers {
            None => Properties::of_this_cpu(),
            Some(threads) => Properties::of_workers(threads),
        }
    }

    fn alloc(&self, len: usize) -> Result<Buf, SetupError> {
        Buf::zeroed(len).ok_or(SetupError::OutOfMemory { len })
    }

    fn limits(&self, spec: &OpSpec) -> Result<Limits, Unsupported> {
        let is_known = spec.is::<spec::Crc32c>()
            || [&DEFLATE.0, &INFLATE.0].contains(&spec)
            || key_of(spec).is_some();
        is_known.then_some(self.limits).ok_or_else(|| Unsupported {
            reason: format!("a sample has no {spec}"),
        })
    }

    fn prepare(&self, spec: &OpSpec) -> Result<Arc<dyn Operator>, SetupError> {
        self.limits(spec)?;
        Ok(match_spec!(spec, {
            spec::Crc32c => self.lift(Crc, spec),
            spec::Deflate { .. } => self.lift(Each(store), spec),
            spec::Inflate { .. } => {
                let unstore = |item: &[u8], output: &mut Vec<u8>| {
                    output.extend_from_slice(unstored(item)?);
                    Ok(())
                };
                self.lift(Each(unstore), spec)
            },
        } else {
            let key = key_of(spec).expect("supported").clone();
            let xor = move |item: &[u8], output: &mut Vec<u8>| {
                output.extend(xored(item, key.bytes()));
                Ok(())
            };
            self.lift(Each(xor), spec)
        }))
    }
}

/// The key in the spec of an exclusive or, if it is one.
fn key_of(spec: &OpSpec) -> Option<&Material> {
    match spec.get()? {
        spec::Custom { name, parameters } if name == "xor" && parameters.len() == 1 => {
            match parameters.get("key")? {
                ParameterValue::Material(key) if !key.bytes().is_empty() => Some(key),
                _ => None,
            }
        }
        _ => None,
    }
}

struct Crc;

impl Kernel for Crc {
    type Scratch = ();

    fn scratch(&self) {}

    fn shape(&self) -> OutputShape {
        OutputShape::Fixed(4)
    }

    fn dst_len(&self, _item_len: usize) -> usize {
        4
    }

    fn run(&self, batch: Batch<'_>, out: BatchOut<'_>, (): &mut ()) -> Result<(), JobError> {
        for (item, slot) in batch.iter().zip(out.slots) {
            slot[..4].copy_from_slice(&crc32c(item).to_le_bytes());
        }
        Ok(())
    }
}

/// A function of each item, of variable shape, which appends its output; outputs are at most five bytes longer than their items. Works
/// in place.
pub(super) struct Each<F>(pub(super) F);

impl<F> Kernel for Each<F>
where
    F: Fn(&[u8], &mut Vec<u8>) -> Result<(), JobError> + Send + Sync + 'static,
{
    /// The output of one item.
    type Scratch = Vec<u8>;

    fn scratch(&self) -> Vec<u8> {
        Vec::new()
    }

    fn shape(&self) -> OutputShape {
        OutputShape::Variable
    }

    fn dst_len(&self, item_len: usize) -> usize {
        item_len + 5
    }

    fn run(
        &self,
        batch: Batch<'_>,
        out: BatchOut<'_>,
        output: &mut Vec<u8>,
    ) -> Result<(), JobError> {
        for (item, slot) in batch.iter().zip(out.slots) {
            output.clear();
            let is_output = self.0(item, output);
            out.outcomes
                .push(is_output.and_then(|()| put(output, slot)));
        }
        Ok(())
    }

    fn in_place(&self) -> Result<usize, NotInPlace> {
        Ok(0)
    }

    fn run_in_place(&self, work: InPlace<'_>, output: &mut Vec<u8>) -> Result<(), JobError> {
        for Overlay {
            bytes,
            item_len,
            slot_len,
        } in work.items
        {
            output.clear();
            let is_output = self.0(&bytes[..item_len], output);
            let slot = &mut bytes[..slot_len];
            work.outcomes
                .push(is_output.and_then(|()| put(output, slot)));
        }
        Ok(())
    }
}

fn put(bytes: &[u8], slot: &mut [u8]) -> Result<u32, JobError> {
    let room = slot.get_mut(..bytes.len()).ok_or(JobError::DstTooShort)?;
    room.copy_from_slice(bytes);
    Ok(bytes.len() as u32)
}

/// Each byte with the key's, which starts again at its end.
pub(super) fn xored(item: &[u8], key: &[u8]) -> impl Iterator<Item = u8> {
    item.iter().zip(key.iter().cycle()).map(|(a, b)| a ^ b)
}

/// What each byte adds to a CRC-32C: Castagnoli's polynomial, reflected, bit by bit.
const CRC_OF_BYTE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = (crc >> 1) ^ (0x82F6_3B78 & (crc & 1).wrapping_neg());
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

pub(super) fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, &byte| {
        (crc >> 8) ^ CRC_OF_BYTE[(crc as u8 ^ byte) as usize]
    })
}

/// One final stored block.
pub(super) fn stored(item: &[u8]) -> Result<Vec<u8>, JobError> {
    let mut block = Vec::new();
    store(item, &mut block)?;
    Ok(block)
}

fn store(item: &[u8], block: &mut Vec<u8>) -> Result<(), JobError> {
    if item.len() > STORED_MAX {
        return Err(JobError::TooLong);
    }
    let len = item.len() as u16;
    block.push(1);
    block.extend_from_slice(&len.to_le_bytes());
    block.extend_from_slice(&(!len).to_le_bytes());
    block.extend_from_slice(item);
    Ok(())
}

fn unstored(block: &[u8]) -> Result<&[u8], JobError> {
    let (head, rest) = block.split_first_chunk::<5>().ok_or(JobError::Malformed)?;
    let len = u16::from_le_bytes([head[1], head[2]]);
    let inverse = u16::from_le_bytes([head[3], head[4]]);
    if head[0] != 1 || len != !inverse || rest.len() != len as usize {
        return Err(JobError::Malformed);
    }
    Ok(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crc_gives_the_vectors_of_rfc_3720() {
        assert_eq!(crc32c(&[0; 32]), 0x8A91_36AA);
        assert_eq!(crc32c(&[0xFF; 32]), 0x62A8_AB43);
        assert_eq!(
            crc32c(&std::array::from_fn::<u8, 32, _>(|i| i as u8)),
            0x46DD_794E
        );
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
    }

    #[test]
    fn stored_blocks_are_zlibs() {
        // zlib.compressobj(0, wbits=-15) of b"dpb".
        let block = [0x01, 0x03, 0x00, 0xFC, 0xFF, b'd', b'p', b'b'];
        assert_eq!(stored(b"dpb").as_deref(), Ok(&block[..]));
        assert_eq!(unstored(&block), Ok(&b"dpb"[..]));
    }
}
