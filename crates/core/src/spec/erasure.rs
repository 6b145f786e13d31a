//! Erasure codes: how many blocks there are, and which of them are lost.

use std::fmt;

use crate::SetupError;

/// A systematic Reed-Solomon code over bytes. Data blocks stay as they are, and parity blocks are added. Any `data_blocks`
/// surviving blocks rebuild the rest.
///
/// Byte *b* of parity block *j* is the sum, over the data blocks *i*, of byte *b* of each divided by `i + (data_blocks + j)`,
/// in the field of 256 elements modulo x⁸ + x⁴ + x³ + x² + 1, whose sum is the exclusive or: a Cauchy matrix (Blömer and others
/// 1995). ISA-L's `gf_gen_cauchy1_matrix` and DOCA's `DOCA_EC_MATRIX_TYPE_CAUCHY` give the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ErasureCode {
    data_blocks: u8,
    parity_blocks: u8,
}

/// Blocks that are lost and to be recovered, no more than there are parity blocks.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct BlockLoss {
    code: ErasureCode,
    /// Bit *i* of the whole: block *i*; parity blocks are counted behind the data's.
    missing: [u64; 4],
}

impl ErasureCode {
    /// The unit of a block's length, in bytes: engines take no others, and vectors are as long.
    pub const UNIT_BYTES: usize = 64;

    /// Most blocks, data and parity together.
    pub const BLOCKS_MAX: usize = 255;

    /// A code of this many data blocks and parity blocks.
    ///
    /// # Errors
    /// [`SetupError::Parameter`] if there are none of either, or more than [`Self::BLOCKS_MAX`] together.
    pub fn new(data_blocks: u8, parity_blocks: u8) -> Result<Self, SetupError> {
        let blocks = usize::from(data_blocks) + usize::from(parity_blocks);
        if data_blocks == 0 || parity_blocks == 0 || blocks > Self::BLOCKS_MAX {
            let reason = format!(
                "an erasure code has data and parity blocks, at most {} together; not {data_blocks} and {parity_blocks}",
                Self::BLOCKS_MAX
            );
            return Err(SetupError::Parameter(reason));
        }
        Ok(Self {
            data_blocks,
            parity_blocks,
        })
    }

    /// The number of data blocks.
    pub fn data_blocks(self) -> usize {
        self.data_blocks.into()
    }

    /// The number of parity blocks.
    pub fn parity_blocks(self) -> usize {
        self.parity_blocks.into()
    }

    /// The number of data and parity blocks together.
    pub fn blocks(self) -> usize {
        self.data_blocks() + self.parity_blocks()
    }

    /// Bytes of each block in an item, which is as many blocks as there are data blocks, one behind another. `None` if it is not
    /// of whole [units](Self::UNIT_BYTES).
    pub fn block_bytes(self, item_bytes: usize) -> Option<usize> {
        item_bytes
            .is_multiple_of(self.data_blocks() * Self::UNIT_BYTES)
            .then(|| item_bytes / self.data_blocks())
    }
}

impl BlockLoss {
    /// Of the blocks with these numbers, from 0 on, parity blocks behind data blocks; in whatever order.
    ///
    /// # Errors
    /// [`SetupError::Parameter`] if it is none, more than can be recovered, or there is no such block.
    pub fn new(
        code: ErasureCode,
        missing: impl IntoIterator<Item = u8>,
    ) -> Result<Self, SetupError> {
        let mut loss = Self {
            code,
            missing: [0; 4],
        };
        for block in missing {
            if usize::from(block) >= code.blocks() {
                let (last, data) = (code.blocks() - 1, code.data_blocks());
                let reason = format!(
                    "missing={block}: there are blocks 0 to {last}, the first {data} of data"
                );
                return Err(SetupError::Parameter(reason));
            }
            loss.missing[usize::from(block / 64)] |= 1 << (block % 64);
        }
        match loss.blocks() {
            0 => Err(SetupError::Parameter("missing: no block".to_owned())),
            lost if lost > code.parity_blocks() => {
                let parity = code.parity_blocks();
                let reason =
                    format!("missing={loss}: {lost} blocks, more than the {parity} of parity");
                Err(SetupError::Parameter(reason))
            }
            _ => Ok(loss),
        }
    }

    /// The code that the blocks are of.
    pub fn code(&self) -> ErasureCode {
        self.code
    }

    /// The number of lost blocks.
    pub fn blocks(&self) -> usize {
        self.missing
            .iter()
            .map(|word| word.count_ones() as usize)
            .sum()
    }

    /// Their numbers, ascending.
    pub fn missing(&self) -> impl Iterator<Item = u8> {
        self.numbers().filter(|block| self.is_missing(*block))
    }

    /// The numbers of the blocks that they are recovered from: the first that remain, as many as there are data blocks.
    pub fn available(&self) -> impl Iterator<Item = u8> {
        self.numbers()
            .filter(|block| !self.is_missing(*block))
            .take(self.code.data_blocks())
    }

    fn numbers(&self) -> impl Iterator<Item = u8> + use<> {
        0..self.code.data_blocks + self.code.parity_blocks
    }

    fn is_missing(&self, block: u8) -> bool {
        self.missing[usize::from(block / 64)] >> (block % 64) & 1 == 1
    }
}

/// `0+3`.
impl fmt::Display for BlockLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, block) in self.missing().enumerate() {
            let plus = if i == 0 { "" } else { "+" };
            write!(f, "{plus}{block}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for BlockLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BlockLoss({self} of {:?})", self.code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_has_data_and_parity_and_no_more_blocks_than_the_field_has_elements() {
        assert!(ErasureCode::new(0, 4).is_err());
        assert!(ErasureCode::new(4, 0).is_err());
        assert!(ErasureCode::new(200, 56).is_err());
        assert_eq!(ErasureCode::new(200, 55).map(ErasureCode::blocks), Ok(255));
    }

    #[test]
    fn an_item_is_its_blocks_of_whole_units() {
        let code = ErasureCode::new(3, 2).expect("a code");
        assert_eq!(code.block_bytes(0), Some(0));
        assert_eq!(code.block_bytes(3 * 128), Some(128));
        assert_eq!(code.block_bytes(3 * 128 + 64), None);
        assert_eq!(code.block_bytes(3 * 100), None);
    }

    #[test]
    fn a_loss_is_ascending_and_can_be_recovered() {
        let code = ErasureCode::new(200, 50).expect("a code");
        let loss = BlockLoss::new(code, [249, 0, 130, 0]).expect("three blocks");
        assert_eq!(loss.to_string(), "0+130+249");
        assert_eq!(loss.blocks(), 3);
        let available: Vec<u8> = loss.available().collect();
        assert_eq!(available.len(), 200);
        assert_eq!(
            (available[0], available[128], available[129], available[199]),
            (1, 129, 131, 201)
        );
        assert!(BlockLoss::new(code, []).is_err());
        assert!(BlockLoss::new(code, [250]).is_err());
        assert!(BlockLoss::new(code, 0..51).is_err());
        assert!(BlockLoss::new(code, 0..50).is_ok());
    }
}
