//! Building for 64-bit Arm on another machine, and running what was built under qemu-user.
//!
//! Programs start programs: tests start themselves and `dpb`, and `dpb` starts agents. A kernel starts another machine's
//! programs only if it is told which emulator runs them (`binfmt_misc`). Where this one is not told, it is told here for one user
//! namespace in which all this runs, which Linux 6.7 allows without root; the machine's own settings stay as they are.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};

use crate::shell;

/// As compilers call it.
pub(crate) const TRIPLE: &str = "aarch64-unknown-linux-gnu";
/// Compiles and links C for it.
pub(crate) const LINKER: &str = "aarch64-linux-gnu-gcc";
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

/// What builds Arm programs here.
pub(crate) struct Toolchain {
    compiler: Compiler,
}

/// Whose standard library for aarch64 there is.
enum Compiler {
    Rustup,
    Distribution(&'static str),
}

/// What runs Arm programs here.
pub(crate) struct Emulation {
    /// The emulator's name.
    pub(crate) qemu: &'static str,
    /// The core that it emulates.
    pub(crate) cpu: String,
    /// Whether what it runs can start programs.
    pub(crate) starting: Starting,
    /// Folders of libraries besides the sysroot's own.
    pub(crate) libraries: Vec<PathBuf>,
    /// Variables of what it runs.
    pub(crate) variables: Vec<(&'static str, String)>,
}

/// Whether Arm programs can start Arm programs.
pub(crate) enum Starting {
    /// This kernel starts them.
    Anywhere,
    /// It does in a namespace.
    InNamespace,
    /// It does not, and why the namespace could not be had.
    Never(String),
}

impl Toolchain {
    /// Finds it.
    ///
    /// # Errors
    /// All that is missing, and what to install.
    pub(crate) fn find() -> Result<Self> {
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
        match compiler {
            Some(compiler) if missing.is_empty() => Ok(Self { compiler }),
            _ => bail!("cannot build for aarch64 here:\n  {}", missing.join("\n  ")),
        }
    }

    /// Has `command`, which leads to cargo, build for Arm with these arguments; what it builds lies in [`Self::target_dir`].
    pub(crate) fn cargo(&self, mut command: Command, arguments: &[&str]) -> Command {
        let (verb, rest) = arguments.split_first().expect("a verb of cargo's");
        command
            .args([verb, "--target", TRIPLE, "--target-dir"])
            .arg(Self::target_dir())
            .args(rest);
        if let Compiler::Distribution(path) = self.compiler {
            command.env("RUSTC", path);
        }
        command
    }

    /// Another compiler, another set of artefacts.
    pub(crate) fn target_dir() -> PathBuf {
        shell::target_dir().join("aarch64")
    }
}

impl Emulation {
    /// Finds the emulator.
    ///
    /// # Errors
    /// If it is missing, or not needed.
    pub(crate) fn find(cpu: &str) -> Result<Self> {
        if cfg!(target_arch = "aarch64") {
            bail!("this machine is aarch64 itself: leave --target out");
        }
        let qemu = ["qemu-aarch64-static", "qemu-aarch64"]
            .into_iter()
            .find(|name| shell::find(name).is_some());
        let Some(qemu) = qemu else {
            bail!("no emulator here: apt-get install qemu-user-static");
        };
        Ok(Self {
            qemu,
            cpu: cpu.to_owned(),
            starting: Starting::find(qemu),
            libraries: Vec::new(),
            variables: Vec::new(),
        })
    }

    /// `program`, where it and what it starts can start Arm programs; as far as that goes.
    pub(crate) fn around(&self, program: &Command) -> Command {
        let mut command = match self.starting {
            Starting::InNamespace => {
                let mut command = namespace(self.qemu);
                command.arg(program.get_program());
                command
            }
            Starting::Anywhere | Starting::Never(_) => Command::new(program.get_program()),
        };
        command.args(program.get_args()).current_dir(shell::root());
        self.set(&mut command);
        command
    }

    /// Tells the emulator and what it runs where they are.
    pub(crate) fn set(&self, command: &mut Command) {
        let mut folders = format!("{SYSROOT}/lib");
        for folder in &self.libraries {
            folders += &format!(":{}", folder.display());
        }
        command
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .env("QEMU_CPU", &self.cpu)
            .env("QEMU_LD_PREFIX", SYSROOT)
            // Where the distribution's own arm64 C library is installed as well, the loader of one would load the
            // other, and the first thread that is started spins for ever.
            .env("QEMU_SET_ENV", format!("LD_LIBRARY_PATH={folders}"))
            // Would be this machine's own library; Arm's is in the cache.
            .env_remove("DUCKDB_LIB_DIR")
            .env("DPB_QEMU", "1");
        if matches!(self.starting, Starting::Never(_)) {
            command
                .env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER", self.qemu)
                .env("DPB_QEMU", "alone");
        }
    }
}

impl Starting {
    /// Tries it with the sysroot's loader, which is an Arm program.
    fn find(qemu: &str) -> Self {
        let loader = loader();
        if shell::output(Command::new(&loader).arg("--version")).is_ok() {
            return Self::Anywhere;
        }
        match shell::output(namespace(qemu).args([loader.as_str(), "--version"])) {
            Ok(_) => Self::InNamespace,
            Err(why) => Self::Never(format!("{why:#}").trim().to_owned()),
        }
    }
}

/// The other machine's loader, which is a program that every sysroot has.
pub(crate) fn loader() -> String {
    format!("{SYSROOT}/lib/ld-linux-aarch64.so.1")
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
