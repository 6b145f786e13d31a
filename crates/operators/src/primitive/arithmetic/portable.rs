//! The oracle: integers of every width as the low bits of 128, floats as the language has them, one step after another.

use dpb_core::{ArithmeticOperation, ArithmeticType};

use super::Task;
use super::operands::Operands;

/// The results of all chains.
pub(super) fn results(task: Task, item: &[u8]) -> Vec<u8> {
    let chains = 0..task.chains();
    match task.operand {
        ArithmeticType::F32 => {
            let [start, other] = Operands::floats(item, task.operation, 23);
            let result = |i| float32(task, start as f32 + i as f32, other as f32).to_le_bytes();
            chains.flat_map(result).collect()
        }
        ArithmeticType::F64 => {
            let [start, other] = Operands::floats(item, task.operation, 52);
            let result = |i| float64(task, start + i as f64, other).to_le_bytes();
            chains.flat_map(result).collect()
        }
        integer => {
            let bytes = integer.bytes();
            let result = |i: usize| integer_chain(task, item, i).to_le_bytes();
            chains
                .flat_map(|i| result(i).into_iter().take(bytes))
                .collect()
        }
    }
}

fn integer_chain(task: Task, item: &[u8], chain: usize) -> u128 {
    let bits = task.operand.bytes() as u32 * 8;
    let mask = u128::MAX >> (128 - bits);
    let Operands { start, other } = Operands::integers(item, task.operation, bits);
    let start = start.wrapping_add(Operands::STEP * chain as u128) & mask;
    let other = other & mask;
    (0..task.steps()).fold(start, |value, _| {
        mask & match task.operation {
            ArithmeticOperation::Add => value.wrapping_add(other),
            ArithmeticOperation::Subtract => value.wrapping_sub(other),
            ArithmeticOperation::Multiply => value.wrapping_mul(other),
            // Both are positive as signed numbers too.
            ArithmeticOperation::Divide => other / value,
        }
    })
}

fn float32(task: Task, start: f32, other: f32) -> f32 {
    (0..task.steps()).fold(start, |value, _| match task.operation {
        ArithmeticOperation::Add => value + other,
        ArithmeticOperation::Subtract => value - other,
        ArithmeticOperation::Multiply => value * other,
        ArithmeticOperation::Divide => other / value,
    })
}

fn float64(task: Task, start: f64, other: f64) -> f64 {
    (0..task.steps()).fold(start, |value, _| match task.operation {
        ArithmeticOperation::Add => value + other,
        ArithmeticOperation::Subtract => value - other,
        ArithmeticOperation::Multiply => value * other,
        ArithmeticOperation::Divide => other / value,
    })
}
