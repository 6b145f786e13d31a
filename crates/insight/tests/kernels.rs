//! Programs of which every count is known, written in assembly, watched by every source; and cachegrind beside the models.
//!
//! Each program is built for two lengths, and the difference is compared: exactly.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;

use dpb_insight::source::{Program, Source, WatchError};
use dpb_insight::trace::{Geometry, Isa, Options, Tally};
use tempfile::TempDir;

/// Begins and ends a program of x86-64 around a loop; `N` is how often it is gone through.
const X86: (&str, &str) = (
    ".globl _start\n_start:\n mov $N, %ecx\n lea buffer(%rip), %rsi\n xor %ebx, %ebx\n mov $88172645, %r9d\n",
    " mov $60, %eax\n xor %edi, %edi\n syscall\n.bss\n.balign 4096\nbuffer: .skip 8 << 20\n",
);
const A64: (&str, &str) = (
    ".globl _start\n_start:\n ldr x2, =N\n ldr x1, =buffer\n mov x0, #0\n",
    " mov x8, #93\n mov x0, #0\n svc #0\n.ltorg\n.bss\n.balign 4096\nbuffer: .skip 8 << 20\n",
);

/// A line further with each load, a store and a modify in one place, a product, vectors, a CRC; one iteration's instructions:
/// 3 scalar (product, step, count), 1 vector, 1 crypto, 1 float, 2 moves, 1 scalar with memory, 1 branch.
const MIXED: &str = "1: mov (%rsi), %rax\n add $64, %rsi\n imul %rax, %rbx\n mov %rbx, -8(%rsp)\n addq $1, -16(%rsp)\n\
    \x20paddd %xmm1, %xmm0\n crc32q %rax, %rbx\n addsd %xmm2, %xmm3\n dec %ecx\n jne 1b\n";

/// Wide loads and stores, which emulators split: 2 moves, 1 scalar, 1 branch.
const WIDE: &str = "1: movups (%rsi), %xmm0\n movups %xmm0, 256(%rsi)\n dec %ecx\n jne 1b\n";

/// A branch that is taken every second time: 3 scalar, 2 branches, and 1 scalar more every second time.
const TURNS: &str = "1: test $1, %cl\n je 2f\n inc %rbx\n2: dec %ecx\n jne 1b\n";

/// A string instruction that repeats itself 100 times: 3 scalar, 1 move, 1 branch.
const REPEATS: &str = "1: mov %ecx, %r8d\n mov $100, %ecx\n mov %rsi, %rdi\n rep stosb\n mov %r8d, %ecx\n dec %ecx\n jne 1b\n";

/// An instruction that lies over a page's end, behind another one: 3 scalar, 2 branches.
const CROSSES: &str = "1: jmp 2f\n.balign 4096\n.skip 4090, 0x90\n2: inc %rbx\n mov $0x12345678, %r10d\n dec %ecx\n jne 1b\n";

/// Places that follow from a generator of random numbers: loads of 8 bytes at any address of 8 MiB, a store at every one of 64 KiB.
const RANDOM: &str = "1: mov %r9, %rax\n shl $13, %rax\n xor %rax, %r9\n mov %r9, %rax\n shr $7, %rax\n xor %rax, %r9\n\
    \x20mov %r9, %rax\n shl $17, %rax\n xor %rax, %r9\n mov %r9, %rax\n and $0x7ffff0, %eax\n mov 5(%rsi,%rax), %rdx\n\
    \x20and $0xffff, %eax\n mov %rdx, (%rsi,%rax)\n dec %ecx\n jne 1b\n";

/// The same mix on Arm: load, step, product, store, vector, CRC, float, count, branch.
const ARM: &str = "1: ldr x3, [x1]\n add x1, x1, #64\n mul x4, x3, x3\n str x4, [sp, #-16]\n add v0.4s, v1.4s, v2.4s\n\
    \x20crc32cx w5, w5, x3\n fadd d0, d1, d2\n subs x2, x2, #1\n b.ne 1b\n";

struct Kernel {
    folder: TempDir,
    isa: Isa,
    loop_: &'static str,
}

impl Kernel {
    fn new(isa: Isa, loop_: &'static str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        Self { folder, isa, loop_ }
    }

    /// The program that goes through its loop so often; `None` if there is no assembler for it.
    fn build(&self, times: u32) -> Option<PathBuf> {
        let ((begin, end), compiler, more): (_, _, &[&str]) = match self.isa {
            Isa::X86 if cfg!(target_arch = "x86_64") => (X86, "cc", &["-msse4.2"]),
            Isa::X86 => (X86, "x86_64-linux-gnu-gcc", &["-msse4.2"]),
            Isa::A64 if cfg!(target_arch = "aarch64") => (A64, "cc", &["-march=armv8-a+crc"]),
            Isa::A64 => (A64, "aarch64-linux-gnu-gcc", &["-march=armv8-a+crc"]),
        };
        let source = self.folder.path().join(format!("{times}.S"));
        let program = source.with_extension("");
        std::fs::write(&source, [begin, self.loop_, end].concat()).expect("written");
        let mut compiler = Command::new(compiler);
        compiler
            .args(["-nostdlib", "-static", "-Wl,--build-id=none"])
            .args(more)
            .arg(format!("-DN={times}"))
            .arg("-o")
            .args([&program, &source]);
        let built = compiler.output().ok()?;
        let said = String::from_utf8_lossy(&built.stderr).into_owned();
        assert!(built.status.success(), "{said}");
        Some(program)
    }

    fn watch(&self, source: Source, times: u32, options: Options) -> Result<Tally, WatchError> {
        let path = self
            .build(times)
            .ok_or_else(|| WatchError::Missing(format!("no assembler for {:?}", self.isa)))?;
        let program = Program {
            path: path.into(),
            arguments: Vec::new(),
            variables: Vec::<(OsString, OsString)>::new(),
            isa: self.isa,
            says_begin: false,
        };
        let watched = source.watch(&program, options, &AtomicBool::new(false))?;
        Ok(watched.tally)
    }

    /// The counts of 3000 iterations more; `None`, with the reason printed, where the source or the assembler is not here.
    fn difference(&self, source: Source, options: Options) -> Option<Tally> {
        let both = self
            .watch(source, 1000, options)
            .and_then(|short| Ok((short, self.watch(source, 4000, options)?)));
        match both {
            Ok((short, long)) => Some(long.since(&short).expect("a longer run")),
            Err(WatchError::Missing(why)) => {
                eprintln!("skipped: {source}: {why}");
                None
            }
            Err(why) => panic!("{source}: {why}"),
        }
    }
}

const OPTIONS: Options = Options {
    geometry: Geometry::NAMED[0],
    mica_from: Some(0),
    working_set_from: 0,
    has_models: true,
};
const EMULATED: [Source; 3] = [Source::Qemu, Source::Lackey, Source::Step];
const MORE: u64 = 3000;

fn check(loop_: &'static str, right: &[(&str, u64)]) {
    let kernel = Kernel::new(Isa::X86, loop_);
    for source in EMULATED {
        let Some(tally) = kernel.difference(source, OPTIONS) else {
            continue;
        };
        for (name, count) in right {
            assert_eq!(
                tally.count(name),
                Some(*count),
                "{source}: {name} in {tally:?}"
            );
        }
    }
}

#[test]
fn a_mix_is_counted_exactly() {
    check(
        MIXED,
        &[
            ("instructions", 10 * MORE),
            ("scalar_integer", 4 * MORE),
            ("vector_integer", MORE),
            ("crypto", MORE),
            ("float", MORE),
            ("move", 2 * MORE),
            ("branch", MORE),
            ("multiply", MORE),
            ("load_store", 3 * MORE),
            ("loads", MORE),
            ("stores", MORE),
            ("modifies", MORE),
            ("undecoded", 0),
            ("conditional_branches", MORE),
            ("conditional_branches_taken", MORE),
            // A line of 64 bytes each, 64 of which are a page; two lines beside them, which are used again and again.
            ("l1d_misses", MORE),
            ("dtlb_misses", MORE / 64 + 1),
            ("l1i_misses", 0),
            ("itlb_misses", 0),
            ("local_load_strides", 2 * MORE),
            ("local_load_stride_0", MORE),
            ("local_load_stride_8", MORE),
            ("local_load_stride_64", 2 * MORE),
            ("local_store_stride_0", 2 * MORE),
            ("global_store_stride_0", 0),
            ("global_store_stride_8", 2 * MORE),
        ],
    );
}

#[test]
fn wide_accesses_are_one_each() {
    check(
        WIDE,
        &[
            ("instructions", 4 * MORE),
            ("move", 2 * MORE),
            ("loads", MORE),
            ("stores", MORE),
            ("l1d_misses", 0),
        ],
    );
}

#[test]
fn branches_are_counted_exactly() {
    check(
        TURNS,
        &[
            ("instructions", 4 * MORE + MORE / 2),
            ("scalar_integer", 2 * MORE + MORE / 2),
            ("branch", 2 * MORE),
            ("conditional_branches", 2 * MORE),
            ("conditional_branches_taken", MORE + MORE / 2),
            // A pattern that repeats itself is known after a while.
            ("branch_mispredictions", 0),
            ("ppm_gag_wrong", 0),
            ("ppm_pas_wrong", 0),
        ],
    );
}

#[test]
fn an_instruction_over_the_end_of_a_page_is_one() {
    check(
        CROSSES,
        &[
            ("instructions", 5 * MORE),
            ("scalar_integer", 3 * MORE),
            ("branch", 2 * MORE),
            ("undecoded", 0),
        ],
    );
}

#[test]
fn a_string_instruction_is_one() {
    check(
        REPEATS,
        &[
            ("instructions", 7 * MORE),
            ("scalar_integer", 5 * MORE),
            ("move", MORE),
            ("storing", MORE),
        ],
    );
}

#[test]
fn a_mix_of_arm_is_counted_exactly() {
    let kernel = Kernel::new(Isa::A64, ARM);
    let sources: &[Source] = match Isa::HOST {
        Isa::A64 => &[Source::Qemu, Source::Lackey],
        Isa::X86 => &[Source::Qemu],
    };
    for &source in sources {
        let Some(tally) = kernel.difference(source, OPTIONS) else {
            continue;
        };
        for (name, count) in [
            ("instructions", 9 * MORE),
            ("scalar_integer", 3 * MORE),
            ("vector_integer", MORE),
            ("crypto", MORE),
            ("float", MORE),
            ("move", 2 * MORE),
            ("branch", MORE),
            ("load_store", 2 * MORE),
            ("conditional_branches_taken", MORE),
            ("l1d_misses", MORE),
        ] {
            assert_eq!(
                tally.count(name),
                Some(count),
                "{source}: {name} in {tally:?}"
            );
        }
    }
}

#[test]
fn sources_agree_on_everything() {
    for loop_ in [MIXED, WIDE, TURNS, RANDOM] {
        let kernel = Kernel::new(Isa::X86, loop_);
        let tallies = EMULATED.map(|source| kernel.difference(source, OPTIONS));
        let mut tallies = tallies.iter().flatten();
        let Some(first) = tallies.next() else { return };
        for other in tallies {
            for ((name, one), (_, two)) in first.iter().zip(other.iter()) {
                // The stack lies elsewhere, so a line or a page of the loop's memory may meet it in another set; and what the
                // working set has of the start is the source's.
                let allowed = match name {
                    _ if name.ends_with("_touched") => u64::MAX,
                    _ if name.contains("misses") || name.contains("stride") => 1 + one / 100,
                    _ => 0,
                };
                assert!(one.abs_diff(two) <= allowed, "{name}: {one}, {two}");
            }
        }
    }
}

/// Cachegrind's counts by name.
fn cachegrind(program: &Path, caches: [&str; 3]) -> Option<Vec<(String, u64)>> {
    let out = program.with_extension("cachegrind");
    let [i1, d1, ll] = caches;
    let mut valgrind = Command::new("valgrind");
    valgrind
        .args(["--tool=cachegrind", "--cache-sim=yes"])
        .args([
            format!("--I1={i1}"),
            format!("--D1={d1}"),
            format!("--LL={ll}"),
        ])
        .arg(format!("--cachegrind-out-file={}", out.display()))
        .arg(program);
    let ran = valgrind.output().ok()?;
    assert!(
        ran.status.success(),
        "{}",
        String::from_utf8_lossy(&ran.stderr)
    );
    let text = std::fs::read_to_string(out).expect("counts");
    let line = |start: &str| {
        let mut lines = text.lines().filter_map(|line| line.strip_prefix(start));
        let line = lines.next().expect("a line").to_owned();
        line.split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let counts = line("summary:")
        .into_iter()
        .map(|count| count.parse().expect("a count"));
    Some(line("events:").into_iter().zip(counts).collect())
}

#[test]
fn the_models_are_cachegrinds_at_its_geometry() {
    for caches in [
        ["32768,8,64", "32768,8,64", "262144,8,64"],
        ["1024,1,32", "4096,2,32", "65536,4,64"],
        ["512,2,64", "1024,16,64", "1048576,16,64"],
    ] {
        let [i1, d1, ll] = caches;
        let geometry = Geometry::NAMED[0].with_caches(i1, d1, ll).expect("caches");
        for loop_ in [MIXED, WIDE, TURNS, RANDOM] {
            let kernel = Kernel::new(Isa::X86, loop_);
            let options = Options {
                geometry,
                ..OPTIONS
            };
            let tally = match kernel.watch(Source::Lackey, 20_000, options) {
                Ok(tally) => tally,
                Err(WatchError::Missing(why)) => {
                    eprintln!("skipped: {why}");
                    return;
                }
                Err(why) => panic!("{why}"),
            };
            let program = kernel.build(20_000).expect("built before");
            let theirs = cachegrind(&program, caches).expect("valgrind ran before");
            let theirs = |names: &[&str]| -> u64 {
                let named = theirs
                    .iter()
                    .filter(|(name, _)| names.contains(&name.as_str()));
                named.map(|(_, count)| count).sum()
            };
            let ours = |names: &[&str]| -> u64 {
                names
                    .iter()
                    .map(|name| tally.count(name).expect("counted"))
                    .sum()
            };
            assert_eq!(ours(&["instructions"]), theirs(&["Ir"]));
            // Cachegrind counts a modify as a read.
            assert_eq!(ours(&["loads", "modifies"]), theirs(&["Dr"]));
            assert_eq!(ours(&["stores"]), theirs(&["Dw"]));
            assert_eq!(ours(&["l1i_misses"]), theirs(&["I1mr"]));
            assert_eq!(
                ours(&["l1d_misses"]),
                theirs(&["D1mr", "D1mw"]),
                "{caches:?} {loop_}"
            );
            assert_eq!(ours(&["l2i_misses"]), theirs(&["ILmr"]));
            assert_eq!(ours(&["l2d_misses"]), theirs(&["DLmr", "DLmw"]));
        }
    }
}
