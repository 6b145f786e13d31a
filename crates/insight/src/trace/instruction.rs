//! What an instruction does, as far as its bytes tell.

/// An instruction-set architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isa {
    /// x86-64.
    X86,
    /// 64-bit Arm.
    A64,
}

/// What an instruction does. Each instruction does one of these; that it accesses memory besides is counted apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Integer arithmetic, logic and moves between general registers.
    Scalar,
    /// Integer arithmetic, logic and moves in vector registers.
    Vector,
    /// Cryptography and CRC: AES, SHA, carry-less products, Galois fields, CRC-32.
    Crypto,
    /// Floating-point arithmetic.
    Float,
    /// All transfers of control: jumps, calls, returns, calls of the system.
    Branch,
    /// Memory is read or written and nothing is computed.
    Move,
    /// Hints, barriers, the system's state.
    Other,
    /// No instruction that the decoder knows.
    Unknown,
}

/// An instruction at its place.
#[derive(Clone, Debug)]
pub struct Instruction {
    /// The first byte.
    pub address: u64,
    /// The number of bytes.
    pub length: u8,
    /// What it does.
    pub operation: Operation,
    /// True for a branch that may not be taken.
    pub is_conditional: bool,
    /// True for an x86 string instruction with a repeat prefix.
    pub is_repeated: bool,
    /// True for a product of integers.
    pub is_multiply: bool,
    /// The registers that it reads, by numbers without meaning; the flags are one. None on Arm.
    pub reads: Box<[u8]>,
    /// The registers that it writes.
    pub writes: Box<[u8]>,
}

impl Isa {
    /// The instruction set of this program.
    pub const HOST: Self = if cfg!(target_arch = "aarch64") {
        Self::A64
    } else {
        Self::X86
    };
}

impl Operation {
    /// The name of the count of such instructions.
    pub fn name(self) -> &'static str {
        match self {
            Self::Scalar => "scalar_integer",
            Self::Vector => "vector_integer",
            Self::Crypto => "crypto",
            Self::Float => "float",
            Self::Branch => "branch",
            Self::Move => "move",
            Self::Other => "other",
            Self::Unknown => "unknown",
        }
    }
}

impl Instruction {
    /// An instruction of which nothing but its place is known.
    pub(super) fn unknown(address: u64, length: usize) -> Self {
        Self {
            address,
            length: length as u8,
            operation: Operation::Unknown,
            is_conditional: false,
            is_repeated: false,
            is_multiply: false,
            reads: Box::default(),
            writes: Box::default(),
        }
    }
}
