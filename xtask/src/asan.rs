//! `cargo xtask asan`: devices' tests under AddressSanitizer, with the stand-ins and DPDK's software devices, which work in C
//! on memory that is ours. It sees what is used after it was freed, what lies behind a buffer, and what nobody frees.

use std::process::Command;

use anyhow::{Result, bail};

use crate::shell;

/// Libraries in C find the sanitizer's functions in the program.
const RUSTFLAGS: &str = "-Zsanitizer=address -Clink-args=-rdynamic";
/// The stand-in is instrumented by the C compiler, without a second copy of the sanitizer, and without one check whose
/// switch is not the program's to share.
const C_FLAGS: &str =
    "-fsanitize=address -static-libasan --param=asan-use-after-return=0 -fno-omit-frame-pointer";
/// Operators have few jobs here, and with what `[profile.dev]` asks for they take minutes more to compile.
const OPERATORS: &str = "profile.dev.package.dpb-operators.opt-level=0";
/// Tests of queues, buffers and devices that end, break, hang or are dropped.
const ENDS: [&str; 5] = ["lane", "order", "any_time", "unplugged", "wedged"];
/// What leaks on purpose: buffers that a device which does not answer may still write to.
const LEAKS: &str = "leak:a_device_that_does_not_answer\nleak:is_wedged\n";

/// All tests of devices.
pub(crate) fn run() -> Result<()> {
    test(&[], shell::run)
}

/// Those in which something ends, beside other work.
pub(crate) fn run_ends() -> Result<()> {
    test(&ENDS, shell::run_whole)
}

/// Tests whose names have one of these in them; all, if there are none.
fn test(names: &[&str], run: impl Fn(&mut Command) -> Result<()>) -> Result<()> {
    if let Some(why) = missing() {
        bail!("{why}");
    }
    let folder = shell::target_dir().join("asan");
    std::fs::create_dir_all(&folder)?;
    let leaks = folder.join("leaks.txt");
    std::fs::write(&leaks, LEAKS)?;
    let mut cargo = shell::cargo_nightly();
    cargo
        .args(["--config", OPERATORS])
        // With a target, the flags are not for build scripts.
        .args(["test", "--no-fail-fast", "--package", "dpb-accel"])
        .args(["--lib", "--tests", "--target", &shell::nightly_host()?])
        .arg("--")
        .args(names)
        .env("CARGO_TARGET_DIR", &folder)
        .env("RUSTFLAGS", RUSTFLAGS)
        .env("DPB_STAND_IN_CFLAGS", C_FLAGS)
        // C libraries compile one template several times, each with tables of the same name. What leaks on purpose is known by
        // the names of functions, which binutils' addr2line knows where LLVM's symbolizer is missing.
        .env(
            "ASAN_OPTIONS",
            "detect_odr_violation=0:malloc_context_size=60:allow_addr2line=1",
        )
        .env(
            "LSAN_OPTIONS",
            format!("print_suppressions=0:suppressions={}", leaks.display()),
        );
    run(&mut cargo)
}

/// Why it cannot run here, and what to do.
pub(crate) fn missing() -> Option<String> {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        return Some("made for x86-64 Linux".into());
    }
    let is_gcc = shell::output(Command::new("cc").arg("--version"))
        .is_ok_and(|version| version.contains("Free Software Foundation"));
    if !is_gcc {
        return Some("no gcc as cc".into());
    }
    shell::nightly_host().err().map(|error| error.to_string())
}
