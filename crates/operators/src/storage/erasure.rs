//! Erasure coding: parity blocks, from which as many lost blocks can be recovered.
//!
//! Both operators are one product: a matrix of coefficients, in the field of 256 elements, times the blocks of an item. Encoding
//! multiplies by the code's own rows, recovering by rows that a matrix's inversion gives when the operator is prepared.
//!
#![doc = include_str!("../../docs/erasure.md")]

#[cfg(target_arch = "aarch64")]
mod aarch64;
mod field;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod groups;
mod matrix;
mod portable;
#[cfg(target_arch = "x86_64")]
mod x86_64;

use dpb_core::{
    Batch, BatchOut, BlockLoss, ErasureCode, JobError, Kernel, OpSpec, OutputShape, Right,
    SetupError, Workload, match_spec,
    spec::{self, Arguments, Domain, Parameter},
};

use super::each;
use crate::entry::{Entry, PORTABLE, foreign};
use crate::implementation::{Implementation, codes};
#[cfg(target_arch = "x86_64")]
use crate::isa::{Avx2, Sse42};
use matrix::Matrix;

/// The registry's line for encoding.
pub(crate) const ENCODE: Entry = Entry {
    name: "erasure-encode",
    scenario: "storage",
    summary: "computes the parity blocks of an erasure code",
    output: "the parity blocks of each item, variable",
    source: "Reed and Solomon 1960; Cauchy matrices: Blömer and others 1995",
    peers: &["isa-l", "rusty_erasure"],
    parameters: &[DATA, PARITY],
    paths: Erasure::PATHS,
    documentation: include_str!("../../docs/erasure.md"),
    ..Entry::new::<spec::ErasureEncode>(
        |given| {
            let code = code(given)?;
            Ok(OpSpec::from(spec::ErasureEncode { code }).into())
        },
        |spec, path| Ok(Box::new(Erasure::new(&Parts::of(spec), path)?)),
        |case| Ok(Box::new(Blocks::new(&case.spec)?)),
    )
};

/// The registry's line for recovering.
pub(crate) const RECOVER: Entry = Entry {
    name: "erasure-recover",
    scenario: "storage",
    summary: "computes the lost blocks of an erasure code from those that remain",
    output: "the missing blocks of each item, variable",
    source: "Reed and Solomon 1960; Cauchy matrices: Blömer and others 1995",
    peers: &["isa-l", "rusty_erasure"],
    parameters: &[
        DATA,
        PARITY,
        Parameter {
            name: "missing",
            values: Domain::Numbers {
                below: ErasureCode::BLOCKS_MAX as u64,
                examples: &["0+3", "1+10+12", "2+9+11+13"],
            },
            default: "0",
            meaning: "the lost blocks, parity blocks counted behind the data's",
        },
    ],
    paths: Erasure::PATHS,
    documentation: include_str!("../../docs/erasure.md"),
    ..Entry::new::<spec::ErasureRecover>(
        |given| {
            let code = code(given)?;
            let missing = given.numbers("missing");
            let missing = missing.map(|block| u8::try_from(block).unwrap_or(u8::MAX));
            let loss = BlockLoss::new(code, missing)?;
            Ok(OpSpec::from(spec::ErasureRecover { loss }).into())
        },
        |spec, path| Ok(Box::new(Erasure::new(&Parts::of(spec), path)?)),
        |case| Ok(Box::new(Blocks::new(&case.spec)?)),
    )
};

const DATA: Parameter = Parameter {
    name: "data",
    values: Domain::Number(1, 128),
    default: "10",
    meaning: "data blocks of an item",
};

const PARITY: Parameter = Parameter {
    name: "parity",
    values: Domain::Number(1, 64),
    default: "4",
    meaning: "parity blocks of the code",
};

fn code(given: &Arguments<'_>) -> Result<ErasureCode, SetupError> {
    ErasureCode::new(given.get("data"), given.get("parity"))
}

/// The parts of a spec.
struct Parts {
    code: ErasureCode,
    /// A row for each block of the output.
    matrix: Matrix,
    loss: Option<BlockLoss>,
}

impl Parts {
    fn of(spec: &OpSpec) -> Self {
        match_spec!(spec, {
            spec::ErasureEncode { code } => Self {
                code: *code,
                matrix: Matrix::parity(*code),
                loss: None,
            },
            spec::ErasureRecover { loss } => Self {
                code: loss.code(),
                matrix: Matrix::recovery(loss),
                loss: Some(*loss),
            },
        } else {
            foreign(spec)
        })
    }
}

/// Encoding or recovering on one code path.
#[derive(Debug)]
pub struct Erasure {
    code: ErasureCode,
    /// Blocks of an item's output.
    outputs: usize,
    product: Product,
}

codes! {
    enum Choice {
        "x86_64": Gfni,
        "x86_64": GfniAvx2,
        "x86_64": Avx2,
        "x86_64": Sse42,
        "aarch64": Neon,
        Portable,
    }
}

/// An implementation with its proof, and the coefficients as it needs them.
#[derive(Debug)]
enum Product {
    Portable(Matrix),
    #[cfg(target_arch = "x86_64")]
    Gfni(x86_64::gfni::Matrices),
    #[cfg(target_arch = "x86_64")]
    GfniAvx2(x86_64::gfni::HalfMatrices),
    #[cfg(target_arch = "x86_64")]
    Avx2(x86_64::shuffles::Tables<Avx2>),
    #[cfg(target_arch = "x86_64")]
    Sse42(x86_64::shuffles::Tables<Sse42>),
    #[cfg(target_arch = "aarch64")]
    Neon(aarch64::Tables),
}

impl Erasure {
    /// The paths there are, best first.
    pub const PATHS: &'static [Implementation] = Choice::ALL;

    fn new(parts: &Parts, path: Implementation) -> Result<Self, SetupError> {
        let matrix = &parts.matrix;
        let product = match Choice::on("erasure coding", path)? {
            Choice::Portable => Product::Portable(matrix.clone()),
            #[cfg(target_arch = "x86_64")]
            Choice::Gfni(proof) => Product::Gfni(x86_64::gfni::Matrices::new(proof, matrix)),
            #[cfg(target_arch = "x86_64")]
            Choice::GfniAvx2(proof) => {
                Product::GfniAvx2(x86_64::gfni::HalfMatrices::new(proof, matrix))
            }
            #[cfg(target_arch = "x86_64")]
            Choice::Avx2(proof) => Product::Avx2(x86_64::shuffles::Tables::new(proof, matrix)),
            #[cfg(target_arch = "x86_64")]
            Choice::Sse42(proof) => Product::Sse42(x86_64::shuffles::Tables::new(proof, matrix)),
            #[cfg(target_arch = "aarch64")]
            Choice::Neon(proof) => Product::Neon(aarch64::Tables::new(proof, matrix)),
        };
        Ok(Self {
            code: parts.code,
            outputs: matrix.rows(),
            product,
        })
    }
}

impl Product {
    /// Multiplies blocks of `block_bytes`, one behind another, into blocks of the same length.
    fn run(&self, blocks: &[u8], block_bytes: usize, out: &mut [u8]) {
        match self {
            Self::Portable(matrix) => portable::product(matrix, blocks, block_bytes, out),
            #[cfg(target_arch = "x86_64")]
            Self::Gfni(matrices) => matrices.product(blocks, block_bytes, out),
            #[cfg(target_arch = "x86_64")]
            Self::GfniAvx2(matrices) => matrices.product(blocks, block_bytes, out),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(tables) => tables.product(blocks, block_bytes, out),
            #[cfg(target_arch = "x86_64")]
            Self::Sse42(tables) => tables.product(blocks, block_bytes, out),
            #[cfg(target_arch = "aarch64")]
            Self::Neon(tables) => tables.product(blocks, block_bytes, out),
        }
    }
}

impl Kernel for Erasure {
    type Scratch = ();

    fn scratch(&self) {}

    fn shape(&self) -> OutputShape {
        OutputShape::Variable
    }

    fn dst_len(&self, item_len: usize) -> usize {
        item_len / self.code.data_blocks() * self.outputs
    }

    fn run(&self, batch: Batch<'_>, out: BatchOut<'_>, (): &mut ()) -> Result<(), JobError> {
        each(batch, out, |item, slot| {
            let block_bytes = self.code.block_bytes(item.len());
            let block_bytes = block_bytes.ok_or(JobError::Malformed)?;
            let len = output_bytes(block_bytes, self.outputs)?;
            let out = slot.get_mut(..len).ok_or(JobError::DstTooShort)?;
            if len > 0 {
                self.product.run(item, block_bytes, out);
            }
            Ok(len)
        });
        Ok(())
    }
}

/// Bytes of `blocks` blocks; an outcome says no more than 4 GiB, which a few blocks of data can make of parity.
fn output_bytes(block_bytes: usize, blocks: usize) -> Result<usize, JobError> {
    let bytes = block_bytes.checked_mul(blocks);
    bytes
        .filter(|bytes| u32::try_from(*bytes).is_ok())
        .ok_or(JobError::TooLong)
}

/// Data that is cut into blocks, the last filled with zeros; right is what the portable path computes.
struct Blocks {
    spec: OpSpec,
    parts: Parts,
    parity: Matrix,
}

impl Blocks {
    fn new(spec: &OpSpec) -> Result<Self, SetupError> {
        let parts = Parts::of(spec);
        Ok(Self {
            spec: spec.clone(),
            parity: Matrix::parity(parts.code),
            parts,
        })
    }
}

impl Workload for Blocks {
    fn spec(&self) -> &OpSpec {
        &self.spec
    }

    fn name(&self) -> &str {
        PORTABLE
    }

    fn encode_item(&self, plain: &[u8]) -> Result<Vec<u8>, String> {
        let code = self.parts.code;
        let unit = code.data_blocks() * ErasureCode::UNIT_BYTES;
        let mut blocks = plain.to_vec();
        blocks.resize(plain.len().next_multiple_of(unit), 0);
        let Some(loss) = &self.parts.loss else {
            return Ok(blocks);
        };
        let block_bytes = blocks.len() / code.data_blocks();
        let mut parity = vec![0; block_bytes * code.parity_blocks()];
        portable::product(&self.parity, &blocks, block_bytes, &mut parity);
        blocks.extend(parity);
        let remaining = loss
            .available()
            .flat_map(|block| &blocks[usize::from(block) * block_bytes..][..block_bytes]);
        Ok(remaining.copied().collect())
    }

    fn describe(&self, plain: &str) -> String {
        let code = self.parts.code;
        let blocks = format!("{plain}, in {} blocks", code.data_blocks());
        match &self.parts.loss {
            Some(loss) => format!("{blocks}, {loss} of {} lost", code.blocks()),
            None => blocks,
        }
    }

    fn right(&self, item: &[u8], _slot_bytes: usize) -> Right {
        let Some(block_bytes) = self.parts.code.block_bytes(item.len()) else {
            return Right::Refused(JobError::Malformed);
        };
        let mut out = match output_bytes(block_bytes, self.parts.matrix.rows()) {
            Ok(len) => vec![0; len],
            Err(error) => return Right::Refused(error),
        };
        portable::product(&self.parts.matrix, item, block_bytes, &mut out);
        Right::Only(out)
    }
}
