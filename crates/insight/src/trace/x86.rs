//! x86-64, decoded by iced-x86.

use iced_x86::{
    CpuidFeature, Decoder, DecoderError, DecoderOptions, FlowControl, InstructionInfoFactory,
    Mnemonic, OpAccess, OpKind, Register, RflagsBits,
};

use super::instruction::{Instruction, Operation};

/// The number of the flags, as one register. Those of registers are iced's own, which are fewer.
const FLAGS: u8 = u8::MAX;

/// Decodes the bytes of one instruction.
pub(super) fn decode(address: u64, bytes: &[u8]) -> Instruction {
    let unknown = Instruction::unknown(address, bytes.len());
    let decoded = Decoder::with_ip(64, bytes, address, DecoderOptions::NONE).decode();
    if decoded.is_invalid() || decoded.len() != bytes.len() {
        return unknown;
    }
    let (reads, writes) = registers(&decoded);
    let is_string = decoded.is_string_instruction();
    Instruction {
        operation: operation(&decoded),
        is_conditional: is_conditional(&decoded),
        is_repeated: is_string && (decoded.has_rep_prefix() || decoded.has_repne_prefix()),
        is_multiply: is_multiply(decoded.mnemonic()),
        reads,
        writes,
        ..unknown
    }
}

/// True if these bytes are the beginning of an instruction that has more. No such beginning is an instruction itself.
pub(super) fn is_beginning(bytes: &[u8]) -> bool {
    let mut decoder = Decoder::new(64, bytes, DecoderOptions::NONE);
    let _ = decoder.decode();
    decoder.last_error() == DecoderError::NoMoreBytes
}

fn is_conditional(decoded: &iced_x86::Instruction) -> bool {
    decoded.flow_control() == FlowControl::ConditionalBranch
}

fn operation(decoded: &iced_x86::Instruction) -> Operation {
    use Mnemonic as M;
    match decoded.flow_control() {
        FlowControl::Next => {}
        FlowControl::Exception => return Operation::Unknown,
        _ => return Operation::Branch,
    }
    if is_crypto(decoded) {
        return Operation::Crypto;
    }
    let mnemonic = decoded.mnemonic();
    let has_memory = decoded.op_kinds().any(|kind| kind == OpKind::Memory);
    match mnemonic {
        M::Nop
        | M::Fnop
        | M::Pause
        | M::Endbr64
        | M::Endbr32
        | M::Mfence
        | M::Lfence
        | M::Sfence
        | M::Cpuid
        | M::Rdtsc
        | M::Rdtscp
        | M::Xgetbv
        | M::Rdfsbase
        | M::Wrfsbase
        | M::Vzeroupper
        | M::Vzeroall
        | M::Emms
        | M::Ldmxcsr
        | M::Stmxcsr
        | M::Vldmxcsr
        | M::Vstmxcsr
        | M::Rdrand
        | M::Rdseed
        | M::Rdsspq
        | M::Rdsspd => return Operation::Other,
        M::Push
        | M::Pop
        | M::Pushfq
        | M::Popfq
        | M::Leave
        | M::Enter
        | M::Movsb
        | M::Movsw
        | M::Movsq
        | M::Stosb
        | M::Stosw
        | M::Stosd
        | M::Stosq
        | M::Lodsb
        | M::Lodsw
        | M::Lodsd
        | M::Lodsq
        | M::Prefetcht0
        | M::Prefetcht1
        | M::Prefetcht2
        | M::Prefetchnta
        | M::Prefetchw
        | M::Xsave
        | M::Xsavec
        | M::Xrstor
        | M::Fxsave
        | M::Fxrstor
        | M::Xsave64
        | M::Xsavec64
        | M::Xrstor64
        | M::Fxsave64
        | M::Fxrstor64
        | M::Clflush
        | M::Clflushopt
        | M::Clwb => {
            return Operation::Move;
        }
        _ => {}
    }
    let name = format!("{mnemonic:?}").to_lowercase();
    let name = name.strip_prefix('v').unwrap_or(&name);
    // `movsd` is a string instruction as well as a move of floating-point numbers.
    if has_memory && name.starts_with("mov") && !name.starts_with("movmsk")
        || has_memory && (name.starts_with("broadcast") || name.starts_with("lddqu"))
        || mnemonic == M::Movsd && decoded.is_string_instruction()
    {
        return Operation::Move;
    }
    if is_float(name) || decoded.cpuid_features().iter().any(|it| is_x87(*it)) {
        return Operation::Float;
    }
    let registers = (0..decoded.op_count())
        .filter(|&at| decoded.op_kind(at) == OpKind::Register)
        .map(|at| decoded.op_register(at));
    let is_vector = |register: Register| register.is_vector_register() || register.is_mm();
    let is_mask = |register: Register| register.is_k();
    match registers.into_iter().any(|it| is_vector(it) || is_mask(it)) {
        true => Operation::Vector,
        false => Operation::Scalar,
    }
}

fn is_x87(feature: CpuidFeature) -> bool {
    matches!(
        feature,
        CpuidFeature::FPU | CpuidFeature::FPU287 | CpuidFeature::FPU387
    )
}

fn is_crypto(decoded: &iced_x86::Instruction) -> bool {
    use CpuidFeature as C;
    let crypto = [
        C::AES,
        C::VAES,
        C::SHA,
        C::SHA512,
        C::PCLMULQDQ,
        C::VPCLMULQDQ,
        C::GFNI,
        C::SM3,
        C::SM4,
    ];
    let features = decoded.cpuid_features();
    decoded.mnemonic() == Mnemonic::Crc32 || features.iter().any(|it| crypto.contains(it))
}

/// Arithmetic on floating-point numbers. Moves, shuffles and logic do not care what bits mean, and compilers use them for integers.
fn is_float(name: &str) -> bool {
    const ENDS: [&str; 6] = ["ps", "pd", "ss", "sd", "ph", "sh"];
    const STARTS: [&str; 26] = [
        "add", "sub", "mul", "div", "sqrt", "min", "max", "cmp", "fm", "fnm", "round", "rcp",
        "rsqrt", "dpp", "hadd", "hsub", "ucomis", "comis", "range", "reduce", "scalef", "getexp",
        "getmant", "fixup", "rndscale", "fpclass",
    ];
    let is_arithmetic = ENDS.iter().any(|end| name.ends_with(end))
        && STARTS.iter().any(|start| name.starts_with(start));
    is_arithmetic || name.starts_with("cvt")
}

fn is_multiply(mnemonic: Mnemonic) -> bool {
    use Mnemonic as M;
    let name = format!("{mnemonic:?}");
    matches!(mnemonic, M::Mul | M::Imul | M::Mulx)
        || name.starts_with("Pmul")
        || name.starts_with("Vpmul")
        || name.starts_with("Pmadd")
        || name.starts_with("Vpmadd")
}

/// The registers that are read and those that are written, each once; parts of a register are the register.
fn registers(decoded: &iced_x86::Instruction) -> (Box<[u8]>, Box<[u8]>) {
    let (mut reads, mut writes) = (Vec::new(), Vec::new());
    let keep = |list: &mut Vec<u8>, number: u8| {
        if !list.contains(&number) {
            list.push(number);
        }
    };
    let mut factory = InstructionInfoFactory::new();
    for used in factory.info(decoded).used_registers() {
        let number = u8::try_from(used.register().full_register() as usize);
        let number = number.expect("iced has fewer than 255 registers");
        let access = used.access();
        let is_read = matches!(
            access,
            OpAccess::Read | OpAccess::CondRead | OpAccess::ReadWrite | OpAccess::ReadCondWrite
        );
        let is_written = matches!(
            access,
            OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite
        );
        if is_read {
            keep(&mut reads, number);
        }
        if is_written {
            keep(&mut writes, number);
        }
    }
    if decoded.rflags_read() != RflagsBits::NONE {
        keep(&mut reads, FLAGS);
    }
    if decoded.rflags_modified() != RflagsBits::NONE {
        keep(&mut writes, FLAGS);
    }
    (reads.into(), writes.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes as binutils assembles them.
    #[test]
    fn known_bytes_have_their_classes() {
        let cases: &[(&[u8], Operation, bool)] = &[
            (&[0x48, 0x01, 0xd8], Operation::Scalar, false), // add %rbx, %rax
            (&[0x48, 0x03, 0x03], Operation::Scalar, false), // add (%rbx), %rax
            (&[0x48, 0x89, 0xd8], Operation::Scalar, false), // mov %rbx, %rax
            (&[0x48, 0x8b, 0x03], Operation::Move, false),   // mov (%rbx), %rax
            (&[0x48, 0x89, 0x03], Operation::Move, false),   // mov %rax, (%rbx)
            (&[0x0f, 0xb6, 0x03], Operation::Move, false),   // movzbl (%rbx), %eax
            (&[0xc5, 0xfe, 0x6f, 0x03], Operation::Move, false), // vmovdqu (%rbx), %ymm0
            (&[0x75, 0x02], Operation::Branch, true),        // jne +2
            (&[0xeb, 0x02], Operation::Branch, false),       // jmp +2
            (&[0xe8, 0, 0, 0, 0], Operation::Branch, false), // call +0
            (&[0xc3], Operation::Branch, false),             // ret
            (&[0x0f, 0x05], Operation::Branch, false),       // syscall
            (&[0xf3, 0x0f, 0x1e, 0xfa], Operation::Other, false), // endbr64
            (
                &[0xf2, 0x48, 0x0f, 0x38, 0xf1, 0xc3],
                Operation::Crypto,
                false,
            ), // crc32q %rbx, %rax
            (&[0x66, 0x0f, 0x38, 0xdc, 0xc1], Operation::Crypto, false), // aesenc %xmm1, %xmm0
            (&[0x0f, 0x38, 0xcb, 0xc1], Operation::Crypto, false), // sha256rnds2 %xmm1, %xmm0
            (&[0x66, 0x0f, 0xfe, 0xc1], Operation::Vector, false), // paddd %xmm1, %xmm0
            (&[0x0f, 0x57, 0xc1], Operation::Vector, false), // xorps %xmm1, %xmm0
            (&[0xf2, 0x0f, 0x58, 0xc1], Operation::Float, false), // addsd %xmm1, %xmm0
            (&[0xf2, 0x48, 0x0f, 0x2a, 0xc0], Operation::Float, false), // cvtsi2sd %rax, %xmm0
            (&[0xd9, 0xc0], Operation::Float, false),        // fld %st(0)
            (&[0x0f, 0x0b], Operation::Unknown, false),      // ud2
            (&[0x06], Operation::Unknown, false),            // none in 64 bits
        ];
        for (bytes, operation, is_conditional) in cases {
            let decoded = decode(0x1000, bytes);
            let found = (decoded.operation, decoded.is_conditional);
            assert_eq!(found, (*operation, *is_conditional), "{bytes:02x?}");
        }
        assert!(decode(0, &[0x48, 0x0f, 0xaf, 0xc3]).is_multiply); // imul %rbx, %rax
        assert!(decode(0, &[0xf3, 0xa4]).is_repeated); // rep movsb
        assert!(!decode(0, &[0xa4]).is_repeated);
        assert!(!decode(0, &[0xf3, 0xc3]).is_repeated); // rep ret
    }

    #[test]
    fn registers_are_whole_ones_and_flags() {
        // add %bl, (%rcx): reads rbx and rcx, writes the flags alone.
        let add = decode(0, &[0x00, 0x19]);
        assert_eq!((add.reads.len(), add.writes.len()), (2, 1));
        // adc %rbx, %rax: reads both and the flags.
        let adc = decode(0, &[0x48, 0x11, 0xd8]);
        assert_eq!((adc.reads.len(), adc.writes.len()), (3, 2));
        assert!(adc.writes.contains(&FLAGS));
    }
}
