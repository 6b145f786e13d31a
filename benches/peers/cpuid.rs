//! A CPU made to look like one of a lower level to every library of this process, also to those that ask it themselves.
//!
//! Linux can have the instruction `cpuid` fault (`arch_prctl(ARCH_SET_CPUID, 0)`; Intel's and some hypervisors' CPUs, `cpuid_fault` in
//! `/proc/cpuinfo`). The fault's handler answers in its place, without the features above the level. Whoever asks after [`hide_above`]
//! sees them nowhere: isa-l, libdeflate, Hyperscan and the standard library's own detection choose as they would on such a CPU. What was
//! asked before the program began (glibc, constructors of shared libraries) is not answered again: `GLIBC_TUNABLES` and
//! `OPENSSL_ia32cap` are for these.
#![allow(unsafe_code)]

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// The level that is left, for the handler: set before the first fault.
static LEFT: OnceLock<usize> = OnceLock::new();
/// True if [`hide_above`] hides something that the CPU has.
static HIDES: AtomicBool = AtomicBool::new(false);

/// True if something that this CPU has is hidden from every library of this process.
pub fn hides() -> bool {
    HIDES.load(Ordering::Relaxed)
}

/// A leaf of `cpuid`, its subleaf if it has any, and the bits of EAX, EBX, ECX and EDX that a level takes away.
#[cfg_attr(
    not(target_arch = "x86_64"),
    allow(dead_code, reason = "other CPUs have no `cpuid` to answer")
)]
struct Hidden {
    leaf: u32,
    subleaf: Option<u32>,
    registers: [u32; 4],
}

const fn hidden(leaf: u32, subleaf: Option<u32>, registers: [u32; 4]) -> Hidden {
    Hidden {
        leaf,
        subleaf,
        registers,
    }
}

const fn bits(positions: &[u32]) -> u32 {
    let (mut bits, mut i) = (0, 0);
    while i < positions.len() {
        bits |= 1 << positions[i];
        i += 1;
    }
    bits
}

/// What each level lacks that the next has, the highest first; a level also lacks all that stands above it. Positions are those of
/// Intel's manual, volume 2A, CPUID, and of AMD's, volume 3, appendix E.
const LEVELS: [(&str, &[Hidden]); 5] = [
    ("x86-64-v4", &[]),
    (
        "x86-64-v3-vaes",
        &[
            // AVX-512 in all its parts, AMX, and AVX-512's relatives at 256 bits (AVX-VNNI, AVX-IFMA).
            hidden(
                7,
                Some(0),
                [
                    0,
                    bits(&[16, 17, 21, 26, 27, 28, 30, 31]),
                    bits(&[1, 6, 11, 12, 14]),
                    bits(&[2, 3, 8, 22, 23, 24, 25]),
                ],
            ),
            hidden(
                7,
                Some(1),
                [bits(&[4, 5, 21, 23]), 0, 0, bits(&[4, 5, 10, 19])],
            ),
        ],
    ),
    // GFNI, VAES, VPCLMULQDQ.
    (
        "x86-64-v3",
        &[hidden(7, Some(0), [0, 0, bits(&[8, 9, 10]), 0])],
    ),
    (
        "x86-64-v2",
        &[
            // FMA, MOVBE, AVX, F16C.
            hidden(1, None, [0, 0, bits(&[12, 22, 28, 29]), 0]),
            // BMI1, AVX2, BMI2, ADX.
            hidden(7, Some(0), [0, bits(&[3, 5, 8, 19]), 0, 0]),
            // LZCNT.
            hidden(0x8000_0001, None, [0, 0, bits(&[5]), 0]),
        ],
    ),
    (
        "x86-64-v1",
        &[
            // SSE3, PCLMULQDQ, SSSE3, SSE4.1, SSE4.2, POPCNT, AES.
            hidden(1, None, [0, 0, bits(&[0, 1, 9, 19, 20, 23, 25]), 0]),
            // SHA.
            hidden(7, Some(0), [0, bits(&[29]), 0, 0]),
        ],
    ),
];

/// The bits that a CPU of the level at `at` has not, of one leaf.
#[cfg_attr(
    not(target_arch = "x86_64"),
    allow(dead_code, reason = "other CPUs have no `cpuid` to answer")
)]
fn lacks(at: usize, leaf: u32, subleaf: u32) -> [u32; 4] {
    let mut all = [0; 4];
    for (_, levels) in &LEVELS[..=at] {
        for hidden in *levels {
            if hidden.leaf == leaf && hidden.subleaf.is_none_or(|wanted| wanted == subleaf) {
                for (all, register) in all.iter_mut().zip(hidden.registers) {
                    *all |= register;
                }
            }
        }
    }
    all
}

/// Hides from now on what lies above `level`.
///
/// # Errors
/// The level is none of x86-64's, or the reason why this machine cannot: then nothing is hidden.
///
/// # Panics
/// If it is called twice.
pub fn hide_above(level: &str) -> Result<(), String> {
    let at = LEVELS.iter().position(|(name, _)| *name == level);
    let at = at.ok_or_else(|| format!("{level} is no level of x86-64"))?;
    let hides = faulting::has_any(at);
    faulting::start()?;
    LEFT.set(at).expect("called once");
    faulting::enable(false)?;
    HIDES.store(hides, Ordering::Relaxed);
    Ok(())
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod faulting {
    //! The fault of `cpuid` and its answer.

    use std::arch::x86_64::__cpuid_count;
    use std::ffi::{c_int, c_void};
    use std::mem::MaybeUninit;
    use std::sync::OnceLock;

    use super::{LEFT, LEVELS, lacks};

    /// Of the kernel's `asm/prctl.h`: has `cpuid` run or fault in this thread and those it starts.
    const ARCH_SET_CPUID: c_int = 0x1012;
    /// The instruction.
    const CPUID: [u8; 2] = [0x0f, 0xa2];

    /// What was there for SIGSEGV before.
    static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

    /// True if the CPU has anything that the level at `at` lacks.
    pub(super) fn has_any(at: usize) -> bool {
        let all = LEVELS[..=at].iter().flat_map(|(_, hidden)| *hidden);
        let mut said = all.map(|hidden| {
            let said = __cpuid_count(hidden.leaf, hidden.subleaf.unwrap_or(0));
            let said = [said.eax, said.ebx, said.ecx, said.edx];
            said.iter()
                .zip(hidden.registers)
                .any(|(said, lacks)| said & lacks != 0)
        });
        said.any(|has| has)
    }

    /// Has `cpuid` run if `runs`, else fault.
    pub(super) fn enable(runs: bool) -> Result<(), String> {
        // SAFETY: this call changes nothing but the faulting of `cpuid`.
        let failed = unsafe {
            libc::syscall(
                libc::SYS_arch_prctl,
                libc::c_long::from(ARCH_SET_CPUID),
                libc::c_long::from(runs),
            )
        };
        match failed {
            0 => Ok(()),
            _ => Err("this kernel and CPU cannot have `cpuid` fault".to_owned()),
        }
    }

    /// Has faults answered.
    pub(super) fn start() -> Result<(), String> {
        // Or the handler would be there for nothing.
        enable(true)?;
        // SAFETY: all zeroes is a `sigaction` without flags.
        let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
        let answer: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) = answer;
        action.sa_sigaction = answer as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        // SAFETY: as above.
        let mut before: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
        // SAFETY: both are whole, and the handler calls nothing that a signal could have interrupted.
        let failed = unsafe { libc::sigaction(libc::SIGSEGV, &action, &mut before) };
        let _ = BEFORE.set(before);
        match failed {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error().to_string()),
        }
    }

    /// Answers in place of `cpuid`; gives any other fault back to whoever had it before.
    extern "C" fn answer(_: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
        // SAFETY: the kernel gives both, for this call alone.
        let (info, context) = unsafe { (&*info, &mut *context.cast::<libc::ucontext_t>()) };
        let registers = &mut context.uc_mcontext.gregs;
        let at = registers[libc::REG_RIP as usize];
        // A general protection fault, not one of memory.
        // SAFETY: an instruction was fetched from there. Were it shorter, and the last one of its page, this would be a fault of memory, and end
        // the process as the first one would have.
        let is_cpuid =
            info.si_code == libc::SI_KERNEL && unsafe { (at as *const [u8; 2]).read() } == CPUID;
        let level = LEFT.get().copied();
        let (true, Some(level)) = (is_cpuid, level) else {
            if let Some(before) = BEFORE.get() {
                // SAFETY: it was there before. The instruction faults again, and is answered by it.
                unsafe { libc::sigaction(libc::SIGSEGV, before, std::ptr::null_mut()) };
            }
            return;
        };
        let [leaf, subleaf] =
            [libc::REG_RAX, libc::REG_RCX].map(|register| registers[register as usize] as u32);
        // A thread that could not ask could not go on either.
        if enable(true).is_err() {
            std::process::abort();
        }
        let said = __cpuid_count(leaf, subleaf);
        if enable(false).is_err() {
            std::process::abort();
        }
        let lacks = lacks(level, leaf, subleaf);
        let said = [said.eax, said.ebx, said.ecx, said.edx];
        let into = [libc::REG_RAX, libc::REG_RBX, libc::REG_RCX, libc::REG_RDX];
        for ((register, said), lacks) in into.into_iter().zip(said).zip(lacks) {
            registers[register as usize] = i64::from(said & !lacks);
        }
        registers[libc::REG_RIP as usize] = at + CPUID.len() as i64;
    }
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
mod faulting {
    pub(super) fn has_any(_: usize) -> bool {
        false
    }

    pub(super) fn enable(_: bool) -> Result<(), String> {
        start()
    }

    pub(super) fn start() -> Result<(), String> {
        Err("there is no `cpuid` here".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The variable that a process of a test's own has.
    const INSIDE: &str = "DPB_TEST_CPUID";

    /// In a process of its own, since the standard library asks once, and what is hidden stays hidden.
    #[cfg(target_arch = "x86_64")]
    #[test]
    fn what_is_hidden_is_seen_by_no_thread() {
        use std::arch::x86_64::__cpuid_count;
        if std::env::var_os(INSIDE).is_none() {
            let name = "cpuid::tests::what_is_hidden_is_seen_by_no_thread";
            let output = std::process::Command::new(std::env::current_exe().expect("this test"))
                .args(["--exact", name, "--nocapture"])
                .env(INSIDE, "1")
                .output()
                .expect("runs");
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success(), "{said}");
            if let Some(why) = said.lines().find(|line| line.starts_with("skipped: ")) {
                println!("{why}");
            }
            return;
        }
        let of = |leaf| {
            let said = __cpuid_count(leaf, 0);
            [said.eax, said.ebx, said.ecx, said.edx]
        };
        let before = [0, 1, 7].map(of);
        if let Err(why) = hide_above("x86-64-v2") {
            println!("skipped: {why}");
            return;
        }
        for after in [
            [0, 1, 7].map(of),
            std::thread::spawn(move || [0, 1, 7].map(of))
                .join()
                .expect("ends"),
        ] {
            assert_eq!(after[0], before[0], "the highest leaf and the vendor");
            let without = |leaf, at: usize, register: usize| {
                before[at][register] & !lacks(3, leaf, 0)[register]
            };
            // Bits 24 to 31 of EBX name the core that answers.
            assert_eq!(after[1][2], without(1, 1, 2));
            assert_eq!(
                after[2],
                [0, 1, 2, 3].map(|register| without(7, 2, register))
            );
        }
        assert!(!is_x86_feature_detected!("avx2"));
        assert_eq!(hides(), before[1][2] >> 28 & 1 == 1, "AVX");
    }

    /// By Intel's manual: AVX2 is bit 5 of EBX of leaf 7, AVX-512 F bit 16, VAES bit 9 of ECX; AVX is bit 28 of ECX of leaf 1.
    #[test]
    fn each_level_lacks_what_lies_above_it() {
        let at = |name: &str| {
            let at = LEVELS.iter().position(|(level, _)| *level == name);
            at.expect("a level")
        };
        let lacks = |level: &str, leaf, register: usize, bit: u32| {
            lacks(at(level), leaf, 0)[register] >> bit & 1 == 1
        };
        assert!(!lacks("x86-64-v4", 7, 1, 16));
        assert!(lacks("x86-64-v3-vaes", 7, 1, 16) && !lacks("x86-64-v3-vaes", 7, 2, 9));
        assert!(lacks("x86-64-v3", 7, 2, 9) && !lacks("x86-64-v3", 7, 1, 5));
        assert!(lacks("x86-64-v2", 7, 1, 5) && lacks("x86-64-v2", 1, 2, 28));
        assert!(!lacks("x86-64-v2", 1, 2, 25) && lacks("x86-64-v1", 1, 2, 25));
    }
}
