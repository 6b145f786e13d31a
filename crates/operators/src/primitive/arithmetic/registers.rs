//! Values held in registers: after each operation an empty instruction takes its result in a register and gives it back, so
//! that the compiler knows nothing of it and can neither fold, reorder nor vectorise what follows.
#![allow(unsafe_code)]
// The instruction is empty: it does not matter how a register is spelled in it.
#![allow(asm_sub_register)]

use dpb_core::{ArithmeticForm, ArithmeticOperation, ArithmeticType};

use super::Task;
use super::operands::Operands;

/// The results of an item.
pub(super) type Run = fn(&[u8], Task, &mut [u8]);

/// The code for a task: one function for each type, operation and form.
pub(super) fn of(task: Task) -> Run {
    match task.operand {
        ArithmeticType::Int8 => typed::<i8>(task),
        ArithmeticType::Int16 => typed::<i16>(task),
        ArithmeticType::Int32 => typed::<i32>(task),
        ArithmeticType::Int64 => typed::<i64>(task),
        ArithmeticType::Int128 => typed::<i128>(task),
        ArithmeticType::F32 => typed::<f32>(task),
        ArithmeticType::F64 => typed::<f64>(task),
    }
}

fn typed<T: Operand>(task: Task) -> Run {
    match task.operation {
        ArithmeticOperation::Add => formed::<T, Add>(task),
        ArithmeticOperation::Subtract => formed::<T, Subtract>(task),
        ArithmeticOperation::Multiply => formed::<T, Multiply>(task),
        ArithmeticOperation::Divide => formed::<T, Divide>(task),
    }
}

fn formed<T: Operand, O: Operation>(task: Task) -> Run {
    match (task.form, task.operand) {
        (ArithmeticForm::Dependent, _) => run::<T, O, 1>,
        (ArithmeticForm::Independent, ArithmeticType::Int128) => run::<T, O, 4>,
        (ArithmeticForm::Independent, _) => run::<T, O, 8>,
    }
}

/// `CHAINS` chains side by side, eight operations a round.
#[inline(never)]
fn run<T: Operand, O: Operation, const CHAINS: usize>(item: &[u8], task: Task, slot: &mut [u8]) {
    let (mut values, other) = T::operands::<CHAINS>(item, task.operation);
    let other = other.settled();
    for _ in 0..task.rounds {
        for _ in 0..8 / CHAINS {
            for value in &mut values {
                *value = O::apply(*value, other).settled();
            }
        }
    }
    for (value, place) in values
        .into_iter()
        .zip(slot.chunks_exact_mut(size_of::<T>()))
    {
        value.put(place);
    }
}

/// A number that fits registers.
trait Operand: Copy + 'static {
    /// The starts of the chains, and the other operand.
    fn operands<const CHAINS: usize>(
        item: &[u8],
        operation: ArithmeticOperation,
    ) -> ([Self; CHAINS], Self);
    fn add(self, other: Self) -> Self;
    fn subtract(self, other: Self) -> Self;
    fn multiply(self, other: Self) -> Self;
    /// `other / self`; 1 <= self <= other.
    fn divide(self, other: Self) -> Self;
    /// The same value, of which the compiler knows nothing.
    fn settled(self) -> Self;
    /// Little endian.
    fn put(self, place: &mut [u8]);
}

/// The operation as a type, so that each has its own code.
trait Operation {
    fn apply<T: Operand>(value: T, other: T) -> T;
}

macro_rules! operation {
    ($($name:ident $method:ident)+) => {$(
        struct $name;

        impl Operation for $name {
            #[inline(always)]
            fn apply<T: Operand>(value: T, other: T) -> T {
                value.$method(other)
            }
        }
    )+};
}

operation! { Add add Subtract subtract Multiply multiply Divide divide }

/// A value through an empty instruction, in a register of this class.
macro_rules! settled {
    ($value:expr, $x86_64:ident, $aarch64:ident) => {{
        let mut value = $value;
        #[cfg(target_arch = "x86_64")]
        // SAFETY: no instruction: the value stays as it is.
        unsafe {
            std::arch::asm!("/* {0} */", inout($x86_64) value, options(pure, nomem, nostack, preserves_flags));
        }
        #[cfg(target_arch = "aarch64")]
        // SAFETY: as above.
        unsafe {
            std::arch::asm!("/* {0} */", inout($aarch64) value, options(pure, nomem, nostack, preserves_flags));
        }
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        {
            value = std::hint::black_box(value);
        }
        value
    }};
}

macro_rules! integer {
    ($type:ty, |$value:ident| $settled:expr) => {
        impl Operand for $type {
            fn operands<const CHAINS: usize>(
                item: &[u8],
                operation: ArithmeticOperation,
            ) -> ([Self; CHAINS], Self) {
                let Operands { start, other } = Operands::integers(item, operation, <$type>::BITS);
                let start = |i| start.wrapping_add(Operands::STEP * i as u128) as Self;
                (std::array::from_fn(start), other as Self)
            }

            #[inline(always)]
            fn add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }

            #[inline(always)]
            fn subtract(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }

            #[inline(always)]
            fn multiply(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }

            #[inline(always)]
            fn divide(self, other: Self) -> Self {
                // SAFETY: `Operands::integers` makes 1 <= self <= other, and then 1 <= other / self <= other. Checks would be
                // branches in the loop.
                unsafe { std::hint::assert_unchecked(self != 0 && self != -1) };
                other.wrapping_div(self)
            }

            #[inline(always)]
            fn settled(self) -> Self {
                let $value = self;
                $settled
            }

            fn put(self, place: &mut [u8]) {
                place.copy_from_slice(&self.to_le_bytes());
            }
        }
    };
}

integer!(i8, |value| settled!(value, reg_byte, reg));
integer!(i16, |value| settled!(value, reg, reg));
integer!(i32, |value| settled!(value, reg, reg));
integer!(i64, |value| settled!(value, reg, reg));
integer!(i128, |value| {
    let low = settled!(value as i64, reg, reg);
    let high = settled!((value >> 64) as i64, reg, reg);
    i128::from(high) << 64 | i128::from(low.cast_unsigned())
});

macro_rules! float {
    ($type:ty, $fraction:literal) => {
        impl Operand for $type {
            fn operands<const CHAINS: usize>(
                item: &[u8],
                operation: ArithmeticOperation,
            ) -> ([Self; CHAINS], Self) {
                let [start, other] = Operands::floats(item, operation, $fraction);
                let start = |i| start as Self + i as Self;
                (std::array::from_fn(start), other as Self)
            }

            #[inline(always)]
            fn add(self, other: Self) -> Self {
                self + other
            }

            #[inline(always)]
            fn subtract(self, other: Self) -> Self {
                self - other
            }

            #[inline(always)]
            fn multiply(self, other: Self) -> Self {
                self * other
            }

            #[inline(always)]
            fn divide(self, other: Self) -> Self {
                other / self
            }

            #[inline(always)]
            fn settled(self) -> Self {
                settled!(self, xmm_reg, vreg)
            }

            fn put(self, place: &mut [u8]) {
                place.copy_from_slice(&self.to_le_bytes());
            }
        }
    };
}

float!(f32, 23);
float!(f64, 52);
