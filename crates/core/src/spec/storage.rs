//! Specs of operators on stored data.

use super::{BlockLoss, DeflateFormat, ErasureCode, ParameterValue, Spec};
use crate::spec;

spec! {
    /// DEFLATE compression (RFC 1951; wrapped as RFC 1950 or RFC 1952). Output: variable.
    pub struct Deflate = "deflate" {
        /// 1 is fast, 9 is small.
        level: u8 = "6" in 1..=9,
        /// What wraps the stream.
        format: DeflateFormat = "raw",
    }
}

spec! {
    /// DEFLATE decompression. Output: variable; refuses what is malformed or longer than its slot.
    pub struct Inflate = "inflate" {
        /// What wraps the stream.
        format: DeflateFormat = "raw",
    }
}

spec! {
    /// LZ77 as a block of LZ4 (`lz4_Block_format.md`). Output: variable.
    pub struct Lz4 = "lz4";
}

spec! {
    /// Decodes a block of LZ4. Output: variable; refuses what is malformed or longer than its slot.
    pub struct Unlz4 = "unlz4";
}

spec! {
    /// Compression in Snappy's raw format (`format_description.txt`). Output: variable.
    pub struct Snappy = "snappy";
}

spec! {
    /// Decodes Snappy's raw format. Output: variable; refuses what is malformed or longer than its slot.
    pub struct Unsnappy = "unsnappy";
}

spec! {
    /// Encodes with canonical Huffman codes of at most eleven bits, their table in front. Output: variable, in dpb's own format.
    pub struct Huffman = "huffman";
}

spec! {
    /// Decodes what [`Huffman`] writes. Output: variable; refuses what is malformed or longer than its slot.
    pub struct Unhuffman = "unhuffman";
}

/// The parity blocks of an erasure code. Item: its data blocks, one behind another, each of whole units. Output: variable, its
/// parity blocks; an item that is not such blocks is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ErasureEncode {
    /// The numbers of data and parity blocks.
    pub code: ErasureCode,
}

/// The blocks of an erasure code that are lost. Item: the first blocks that remain, as many as there are data blocks. Output:
/// variable, the missing blocks; an item that is not such blocks is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ErasureRecover {
    /// The code, and which of its blocks are lost.
    pub loss: BlockLoss,
}

impl Spec for ErasureEncode {
    fn name(&self) -> &str {
        "erasure-encode"
    }

    fn parameters(&self) -> Vec<(&str, ParameterValue)> {
        blocks(self.code)
    }
}

impl Spec for ErasureRecover {
    fn name(&self) -> &str {
        "erasure-recover"
    }

    fn parameters(&self) -> Vec<(&str, ParameterValue)> {
        let mut parameters = blocks(self.loss.code());
        parameters.push(("missing", self.loss.to_string().as_str().into()));
        parameters
    }
}

/// The numbers of blocks of each kind, as parameters.
fn blocks(code: ErasureCode) -> Vec<(&'static str, ParameterValue)> {
    let number = |blocks: usize| ParameterValue::Number(blocks as i64);
    vec![
        ("data", number(code.data_blocks())),
        ("parity", number(code.parity_blocks())),
    ]
}
