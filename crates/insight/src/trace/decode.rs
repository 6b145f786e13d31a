//! The decoder of an instruction set.

use super::instruction::{Instruction, Isa};
use super::{TraceError, a64, x86};

impl Isa {
    /// The instruction that lies at `address`.
    ///
    /// # Errors
    /// If no instruction has so many bytes. Bytes that are no known instruction are `Operation::Unknown`.
    pub fn decode(self, address: u64, bytes: &[u8]) -> Result<Instruction, TraceError> {
        let fits = match self {
            Self::X86 => (1..=15).contains(&bytes.len()),
            Self::A64 => bytes.len() == 4,
        };
        if !fits {
            let length = bytes.len();
            return Err(TraceError::Malformed(format!(
                "an instruction of {length} bytes"
            )));
        }
        Ok(match self {
            Self::X86 => x86::decode(address, bytes),
            Self::A64 => a64::decode(address, bytes),
        })
    }

    /// True if these bytes are the beginning of an instruction that has more.
    pub fn is_beginning(self, bytes: &[u8]) -> bool {
        match self {
            Self::X86 => x86::is_beginning(bytes),
            Self::A64 => bytes.len() < 4,
        }
    }
}
