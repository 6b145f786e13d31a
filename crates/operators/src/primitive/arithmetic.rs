//! Arithmetic in registers: how long one operation takes that waits for the last, and how many that do not wait go at once.
//!
#![doc = include_str!("../../docs/arithmetic.md")]

mod operands;
mod portable;
mod registers;

use dpb_core::{
    ArithmeticForm, ArithmeticOperation, ArithmeticType, Batch, BatchOut, Exact, JobError, Kernel,
    OpSpec, OutputShape, SetupError, spec,
};

use crate::entry::{Entry, PORTABLE, own};
use crate::implementation::Implementation;

/// The registry's line.
pub(crate) const ENTRY: Entry = Entry {
    scenario: "primitive",
    summary: "additions, subtractions, multiplications or divisions in registers",
    unit: "item of 8 operations a round",
    output: "fixed: the last value of each chain, little endian",
    source: "two's complement, wrapping; IEEE 754, to nearest",
    paths: Arithmetic::PATHS,
    allocates: &[Implementation::Portable],
    documentation: include_str!("../../docs/arithmetic.md"),
    ..Entry::of::<spec::Arithmetic>(
        |spec, path| Ok(Box::new(Arithmetic::new(Task::of(spec), path)?)),
        |case| {
            let task = Task::of(&case.spec);
            let right = move |item: &[u8], _| Ok(portable::results(task, item));
            Ok(Box::new(Exact::new(&case.spec, PORTABLE, right)))
        },
    )
};

/// The operations of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// The type of the operands.
    pub operand: ArithmeticType,
    /// The operation.
    pub operation: ArithmeticOperation,
    /// One chain or several.
    pub form: ArithmeticForm,
    /// Eight operations each.
    pub rounds: u32,
}

impl Task {
    fn of(spec: &OpSpec) -> Self {
        let &spec::Arithmetic {
            operand,
            operation,
            form,
            rounds,
        } = own(spec);
        Self {
            operand,
            operation,
            form,
            rounds,
        }
    }

    /// The number of chains: as many as registers hold, eight at most.
    fn chains(self) -> usize {
        match (self.form, self.operand) {
            (ArithmeticForm::Dependent, _) => 1,
            (ArithmeticForm::Independent, ArithmeticType::Int128) => 4,
            (ArithmeticForm::Independent, _) => 8,
        }
    }

    /// Operations of each chain.
    fn steps(self) -> usize {
        self.rounds as usize * 8 / self.chains()
    }

    /// Bytes of all results.
    fn output_bytes(self) -> usize {
        self.chains() * self.operand.bytes()
    }
}

/// Arithmetic on one code path.
#[derive(Clone, Copy, Debug)]
pub struct Arithmetic {
    task: Task,
    /// The results of an item, into a slot of [`Task::output_bytes`]; `None` on the portable path.
    run: Option<registers::Run>,
}

impl Arithmetic {
    /// The paths there are, best first.
    pub const PATHS: &'static [Implementation] =
        &[Implementation::Registers, Implementation::Portable];

    /// Makes the operator for `task` on the code path `path`.
    ///
    /// # Errors
    /// If there is no such path.
    pub fn new(task: Task, path: Implementation) -> Result<Self, SetupError> {
        let run = match path.among("arithmetic", Self::PATHS)? {
            Implementation::Registers => Some(registers::of(task)),
            _ => None,
        };
        Ok(Self { task, run })
    }
}

impl Kernel for Arithmetic {
    type Scratch = ();

    fn scratch(&self) {}

    fn shape(&self) -> OutputShape {
        OutputShape::Fixed(self.task.output_bytes())
    }

    fn dst_len(&self, _item_len: usize) -> usize {
        self.task.output_bytes()
    }

    fn run(&self, batch: Batch<'_>, out: BatchOut<'_>, (): &mut ()) -> Result<(), JobError> {
        out.each(batch, |item, slot| {
            let slot = &mut slot[..self.task.output_bytes()];
            match self.run {
                Some(run) => run(item, self.task, slot),
                None => slot.copy_from_slice(&portable::results(self.task, item)),
            }
        });
        Ok(())
    }
}
