//! Specs of operators that measure a processor's basic abilities.

use super::{ArithmeticForm, ArithmeticOperation, ArithmeticType, CollationLocale};
use crate::spec;

spec! {
    /// Arithmetic in registers. An item's first 32 bytes are the operands; a shorter item is filled up with zeros. Output: fixed,
    /// the last value of each chain, little endian.
    pub struct Arithmetic = "arithmetic" {
        /// The type of the operands.
        operand as "type": ArithmeticType = "int64",
        /// The arithmetic operation.
        operation: ArithmeticOperation = "add",
        /// One chain of operations, for latency, or several side by side, for throughput.
        form: ArithmeticForm = "dependent",
        /// The number of rounds of eight operations.
        rounds: u32 = "128" in 1..=8192,
        cost |spec| spec.rounds as usize * 8
    }
}

spec! {
    /// Compares two strings, each in half of the item, an odd last byte left out: up to a zero byte, or the half's end. Output: one
    /// byte, 0 if they are equal, 1 if the first is greater, 255 if it is less.
    pub struct Strcmp = "strcmp";
}

spec! {
    /// Joins two strings, laid out as for [`Strcmp`]. Output: variable, both strings and a zero byte.
    pub struct Strcat = "strcat";
}

spec! {
    /// The sort key of UTF-8 text (Unicode Collation Algorithm, as CLDR has it; what is not UTF-8 counts as U+FFFD). Output:
    /// variable; keys compare as bytes.
    pub struct Strxfrm = "strxfrm" {
        /// The language whose order the keys follow: CLDR's root, German telephone books, Swedish.
        locale: CollationLocale = "und",
    }
}
