//! `cargo xtask test --target aarch64`: the same tests, built for 64-bit Arm and run under qemu-user.
//!
//! Such runs say right or wrong, never fast or slow. They leave out what does not depend on the target: format, lints,
//! documentation and its examples, benches, Miri.
//!
//! Tests start programs: themselves, `dpb`, and `dpb` starts agents. A kernel starts another machine's programs only if
//! it is told which emulator runs them (`binfmt_misc`). Where this one is not told, it is told here for one user
//! namespace in which all this runs, which Linux 6.7 allows without root; the machine's own settings stay as they are.
//! Where that fails too, what starts programs is left out, and the run says so.
//!
//! Under qemu `DPB_QEMU` is set, by which tests may shrink heavy sizes; to `alone` if no emulated program can be started.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Result, bail, ensure};

use super::{Outcome, Part, sum_up};
use crate::{setup, shell};

const TRIPLE: &str = "aarch64-unknown-linux-gnu";
const LINKER: &str = "aarch64-linux-gnu-gcc";
/// Where the distribution keeps the other machine's C library.
const SYSROOT: &str = "/usr/aarch64-linux-gnu";

/// Tells a namespace's kernel of the emulator (`$1`) and runs the rest in it.
const IN_NAMESPACE: &str = r#"
mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc &&
printf '%s' "$1" > /proc/sys/fs/binfmt_misc/register &&
shift && exec "$@"
"#;

/// An ELF file of 64 bits, little endian, executable or shared, for machine 183: what Arm programs begin with, and
/// which of these bits count. The kernel reads the escapes.
const MAGIC: &str = r"\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00";
const MAGIC_MASK: &str =
    r"\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff";

/// What runs Arm programs here.
struct Emulation {
    compiler: Compiler,
    qemu: &'static str,
    cpu: String,
    starting: Starting,
}

/// Whose standard library for aarch64 there is.
enum Compiler {
    Rustup,
    Distribution(&'static str),
}

/// Whether Arm programs can start Arm programs.
enum Starting {
    /// This kernel starts them.
    Anywhere,
    /// It does in a namespace.
    InNamespace,
    /// It does not, and why the namespace could not be had.
    Never(String),
}

/// Runs the tests; `cargo` says which, all if it is empty.
pub(super) fn run(cpu: &str, cargo: &[String]) -> Result<()> {
    let emulation = Emulation::find(cpu)?;
    setup::run_for_aarch64();
    let mut parts = Vec::new();
    let mut part = |name: &str, arguments: &[&str]| {
        let mut skipped = Vec::new();
        let result = run_and_filter(&mut emulation.command(arguments), &mut skipped);
        parts.push(Part::of(name, result));
        parts.extend(skipped.into_iter().map(|(name, why)| Part {
            name,
            outcome: Outcome::Skipped(why),
        }));
    };
    let chosen: Vec<&str> = cargo.iter().map(String::as_str).collect();
    // All but what documentation says.
    let kinds = ["--tests"];
    if chosen
        .iter()
        .any(|word| word.starts_with("--test") || *word == "--lib")
    {
        part("what was chosen", &chosen);
    } else if !chosen.is_empty() {
        part("what was chosen", &[&kinds, &chosen[..]].concat());
    } else if let Starting::Never(why) = &emulation.starting {
        // Always with the workspace's features, so that nothing is built twice.
        let inside = ["--workspace", "--lib", "--bins"];
        part("everything from inside", &inside);
        let outside = ["--workspace", "--exclude", "dpb-cli", "--test", "*"];
        part("the libraries from outside", &outside);
        let why = format!("its tests start it, and here no Arm program can be started: {why}");
        parts.push(Part::skipped("the program from outside", why));
    } else {
        part("every test", &[&["--workspace"], &kinds[..]].concat());
    }
    let independent = "documentation, lints, benches and Miri";
    parts.push(Part::skipped(independent, "cargo xtask test"));
    println!(
        "\naarch64 under {} -cpu {}: right or wrong only, its times mean nothing",
        emulation.qemu, emulation.cpu
    );
    sum_up(&parts)
}

/// Runs `cargo test ... -- --show-output`, and of what tests that passed say shows only why they skip something: the
/// test and the reason, into `skipped`.
fn run_and_filter(command: &mut Command, skipped: &mut Vec<(String, String)>) -> Result<()> {
    let mut child = shell::start(command.stdout(Stdio::piped()))?;
    let stdout = child.stdout.take().expect("was piped");
    let mut filter = Filter::default();
    for line in BufReader::new(stdout).split(b'\n') {
        let line = line?;
        if let Some(line) = filter.hear(&String::from_utf8_lossy(&line), skipped) {
            println!("{line}");
        }
    }
    let status = child.wait()?;
    ensure!(status.success(), "{status}; what failed is above");
    Ok(())
}

/// Where in the output of a test program we are.
#[derive(Default)]
struct Filter {
    is_among_passed: bool,
    test: String,
}

impl Filter {
    /// The line, if it is to be shown.
    fn hear<'a>(&mut self, line: &'a str, skipped: &mut Vec<(String, String)>) -> Option<&'a str> {
        if line == "successes:" {
            self.is_among_passed = true;
        } else if line == "failures:" || line.starts_with("test result:") {
            self.is_among_passed = false;
        } else if let Some(rest) = line.strip_prefix("---- ") {
            self.test = rest.split(' ').next().unwrap_or_default().to_owned();
        } else if let Some(why) = line.strip_prefix("skipped: ") {
            skipped.push((self.test.clone(), why.to_owned()));
        }
        (!self.is_among_passed).then_some(line)
    }
}

impl Emulation {
    fn find(cpu: &str) -> Result<Self> {
        if cfg!(target_arch = "aarch64") {
            bail!("this machine is aarch64 itself: cargo xtask test");
        }
        let mut missing = Vec::new();
        let compiler = Compiler::find();
        if compiler.is_none() {
            missing.push(format!(
                "no standard library for {TRIPLE}: rustup target add {TRIPLE}; or, where rustup cannot fetch: dpkg \
                 --add-architecture arm64 && apt-get update && apt-get install rustc-web libstd-rust-web-dev:arm64"
            ));
        }
        if shell::find(LINKER).is_none() || !Path::new(SYSROOT).is_dir() {
            missing.push(format!(
                "no {LINKER}: apt-get install g++-aarch64-linux-gnu"
            ));
        }
        let qemu = ["qemu-aarch64-static", "qemu-aarch64"]
            .into_iter()
            .find(|name| shell::find(name).is_some());
        if qemu.is_none() {
            missing.push("no qemu-aarch64-static: apt-get install qemu-user-static".into());
        }
        let (Some(compiler), Some(qemu)) = (compiler, qemu.filter(|_| missing.is_empty())) else {
            bail!("cannot test for aarch64 here:\n  {}", missing.join("\n  "));
        };
        Ok(Self {
            compiler,
            qemu,
            cpu: cpu.to_owned(),
            starting: Starting::find(qemu),
        })
    }

    /// `cargo test` for Arm with these arguments.
    fn command(&self, arguments: &[&str]) -> Command {
        let cargo = shell::cargo();
        let mut command = match self.starting {
            Starting::InNamespace => {
                let mut command = namespace(self.qemu);
                command.arg(cargo.get_program());
                command.current_dir(shell::root());
                command
            }
            Starting::Anywhere | Starting::Never(_) => cargo,
        };
        command
            .args(["test", "--no-fail-fast", "--target", TRIPLE])
            // Another compiler, another set of artefacts.
            .arg("--target-dir")
            .arg(shell::target_dir().join("aarch64"))
            .args(arguments)
            .env("QEMU_CPU", &self.cpu)
            .env("QEMU_LD_PREFIX", SYSROOT)
            // Where the distribution's own arm64 C library is installed as well, the loader of one would load the
            // other, and the first thread that is started spins for ever.
            .env("QEMU_SET_ENV", format!("LD_LIBRARY_PATH={SYSROOT}/lib"))
            // Would be this machine's own library; Arm's is in the cache.
            .env_remove("DUCKDB_LIB_DIR")
            .env("DPB_QEMU", "1");
        if matches!(self.starting, Starting::Never(_)) {
            command
                .env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER", self.qemu)
                .env("DPB_QEMU", "alone");
        }
        if let Compiler::Distribution(path) = self.compiler {
            command.env("RUSTC", path);
        }
        // Tests say on stdout why they skip something; whoever chose tests may have put arguments for them last.
        if !arguments.contains(&"--") {
            command.arg("--");
        }
        command.arg("--show-output");
        command
    }
}

impl Starting {
    /// Tries it with the sysroot's loader, which is an Arm program.
    fn find(qemu: &str) -> Self {
        let loader = format!("{SYSROOT}/lib/ld-linux-aarch64.so.1");
        if shell::output(Command::new(&loader).arg("--version")).is_ok() {
            return Self::Anywhere;
        }
        match shell::output(namespace(qemu).args([&loader, "--version"])) {
            Ok(_) => Self::InNamespace,
            Err(why) => Self::Never(format!("{why:#}").trim().to_owned()),
        }
    }
}

/// Runs what is added to it in a namespace whose kernel starts Arm programs.
fn namespace(qemu: &str) -> Command {
    let qemu = shell::find(qemu).unwrap_or_else(|| qemu.into());
    // `F`: the emulator is opened now, wherever later mounts hide it.
    let registration = format!(":dpb:M::{MAGIC}:{MAGIC_MASK}:{}:F", qemu.display());
    let mut command = Command::new("unshare");
    command
        .args(["--user", "--map-root-user", "--mount"])
        .args(["sh", "-c", IN_NAMESPACE, "sh", &registration]);
    command
}

impl Compiler {
    fn find() -> Option<Self> {
        if has_target("rustc") {
            return Some(Self::Rustup);
        }
        let debian = "/usr/bin/rustc";
        has_target(debian).then_some(Self::Distribution(debian))
    }
}

fn has_target(rustc: &str) -> bool {
    let sysroot = shell::output(Command::new(rustc).args(["--print", "sysroot"]));
    sysroot.is_ok_and(|path| {
        Path::new(path.trim())
            .join("lib/rustlib")
            .join(TRIPLE)
            .join("lib")
            .is_dir()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What libtest of Rust 1.95 prints, shortened.
    #[test]
    fn reasons_are_taken_from_the_output_and_the_rest_of_it_is_left_out() {
        let output = "
running 3 tests
test a::passes ... ok
test a::skips ... ok
test fails ... FAILED

successes:

---- a::skips stdout ----
chatter
skipped: no device

successes:
    a::passes
    a::skips

failures:

---- fails stdout ----
why it fails

failures:
    fails

test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s";
        let mut skipped = Vec::new();
        let mut filter = Filter::default();
        let shown: Vec<&str> = output
            .lines()
            .filter_map(|line| filter.hear(line, &mut skipped))
            .collect();
        let expected = [("a::skips".to_owned(), "no device".to_owned())];
        assert_eq!(skipped, expected);
        let shown = shown.join("\n");
        assert!(!shown.contains("chatter") && !shown.contains("successes"));
        for line in [
            "test a::skips ... ok",
            "why it fails",
            "    fails",
            "test result: FAILED.",
        ] {
            assert!(shown.contains(line), "{line}: {shown}");
        }
    }
}
