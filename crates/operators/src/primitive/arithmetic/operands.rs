//! What an item says is computed with.
//!
//! Each operation has operands that keep it at work for as long as it may last. Nothing becomes 0, 1, infinite or
//! denormal, for which CPUs have shortcuts or detours:
//!
//! * additions and subtractions of integers wrap, those of floats stay far below 2^53 times what is added;
//! * multiplications of integers are by odd numbers, of odd numbers, and wrap; of floats, by a little more than one;
//! * a division of the last quotient would end at 0. So the last quotient divides: x becomes N / x, which swings between
//!   two values around the square root of N.

use dpb_core::ArithmeticOperation;

/// The numbers of a computation, as bits.
#[derive(Clone, Copy)]
pub(super) struct Operands {
    /// The start of chain 0; chain `i` starts `i` times [`Operands::STEP`] further on.
    pub(super) start: u128,
    /// The other operand of each step: what is divided, or the right-hand side.
    pub(super) other: u128,
}

impl Operands {
    /// Even, so that odd starts stay odd.
    pub(super) const STEP: u128 = 2;

    /// The operands of integers of `bits` bits.
    pub(super) fn integers(item: &[u8], operation: ArithmeticOperation, bits: u32) -> Self {
        let Self { start, other } = Self::of(item);
        match operation {
            ArithmeticOperation::Add | ArithmeticOperation::Subtract => Self { start, other },
            ArithmeticOperation::Multiply => Self {
                start: start | 1,
                other: other | 1,
            },
            ArithmeticOperation::Divide => Self {
                // Half of the bits, with room for eight chains; and all but the sign.
                start: 1 << (bits / 2) | start & ((1 << (bits / 2 - 1)) - 1),
                other: 1 << (bits - 2) | other & ((1 << (bits - 2)) - 1),
            },
        }
    }

    /// The operands of floats of `fraction` bits in the fraction.
    pub(super) fn floats(item: &[u8], operation: ArithmeticOperation, fraction: u32) -> [f64; 2] {
        let Self { start, other } = Self::of(item);
        let scale = (1u64 << fraction) as f64;
        let below_one = |bits: u128| (bits & ((1 << fraction) - 1)) as f64 / scale;
        let start = 1.0 + below_one(start);
        match operation {
            ArithmeticOperation::Add | ArithmeticOperation::Subtract => {
                [start, 1.0 + below_one(other)]
            }
            // At most eight units in the last place of f32: 65,536 of them are less than a factor of two.
            ArithmeticOperation::Multiply => {
                [start, 1.0 + ((other & 7) + 1) as f64 / f64::from(1 << 23)]
            }
            ArithmeticOperation::Divide => [start, 2.0 + 2.0 * below_one(other)],
        }
    }

    /// The first 32 bytes, or fewer if there are fewer.
    fn of(item: &[u8]) -> Self {
        let mut bytes = [[0; 16]; 2];
        let flat = bytes.as_flattened_mut();
        let len = item.len().min(flat.len());
        flat[..len].copy_from_slice(&item[..len]);
        let [start, other] = bytes.map(u128::from_le_bytes);
        Self { start, other }
    }
}
