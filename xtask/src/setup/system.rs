//! What the aarch64 tests and Miri need from the system and from rustup.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use super::{Finding, shell};

const TARGET: &str = "aarch64-unknown-linux-gnu";
const INSTALL_LIMIT: Duration = Duration::from_secs(600);

/// A program of a Debian package.
struct Package {
    what: &'static str,
    program: &'static str,
    package: &'static str,
    without: &'static str,
}

const PACKAGES: [Package; 2] = [
    Package {
        what: "aarch64 emulator",
        program: "qemu-aarch64-static",
        package: "qemu-user-static",
        without: "aarch64 tests do not run here",
    },
    Package {
        what: "aarch64 linker",
        program: "aarch64-linux-gnu-gcc",
        // With the libraries of C and C++: the compiler for C only recommends the first, and DuckDB needs the second.
        package: "g++-aarch64-linux-gnu",
        without: "nothing is built for aarch64 here",
    },
];

/// Finds each, or installs it if that was asked for and is allowed.
pub(super) fn find_or_install(may_install: bool) -> Vec<Finding> {
    let mut findings: Vec<_> = PACKAGES
        .iter()
        .map(|package| package.find_or_install(may_install))
        .collect();
    findings.push(target(may_install));
    findings.push(miri(may_install));
    findings
}

impl Package {
    fn find_or_install(&self, may_install: bool) -> Finding {
        if shell::has(self.program) {
            return Finding::there(self.what, self.program);
        }
        let advice = format!("{}; `apt-get install {}`", self.without, self.package);
        if !may_install {
            return Finding::missing(self.what, advice);
        }
        match apt_get(&["install", "--yes", "--no-install-recommends", self.package]) {
            Ok(()) if shell::has(self.program) => {
                Finding::there(self.what, format!("{} (installed now)", self.program))
            }
            Ok(()) => Finding::missing(
                self.what,
                format!("{} has no {}", self.package, self.program),
            ),
            Err(why) => Finding::missing(self.what, format!("{advice} ({why})")),
        }
    }
}

/// Rust's standard library for aarch64: rustup's or, where rustup cannot fetch, Debian's with its own compiler.
fn target(may_install: bool) -> Finding {
    const WHAT: &str = "aarch64 standard library";
    let found = || {
        ["rustc", "/usr/bin/rustc"]
            .into_iter()
            .find(|rustc| target_dir(rustc).is_some_and(|dir| dir.is_dir()))
            .map(|rustc| Finding::there(WHAT, format!("with {rustc}")))
    };
    let advice = format!("nothing is built for aarch64 here; `rustup target add {TARGET}`");
    if let Some(found) = found() {
        return found;
    }
    if !may_install {
        return Finding::missing(WHAT, advice);
    }
    let attempts = rustup(&["target", "add", TARGET])
        .or_else(|why| debian_rust().map_err(|also| format!("{why}; {also}")));
    match (attempts, found()) {
        (Ok(()), Some(found)) => found,
        (Ok(()), None) => Finding::missing(WHAT, advice),
        (Err(why), _) => Finding::missing(WHAT, format!("{advice} ({why})")),
    }
}

/// Debian's compiler with its standard library for both architectures, which must be of one version.
fn debian_rust() -> Result<(), String> {
    as_root("dpkg", &["--add-architecture", "arm64"])?;
    apt_get(&["update"])?;
    apt_get(&[
        "install",
        "--yes",
        "--no-install-recommends",
        "rustc-web",
        "libstd-rust-web-dev:arm64",
    ])
}

fn target_dir(rustc: &str) -> Option<PathBuf> {
    let mut rustc = shell::command(rustc);
    rustc.args(["--print", "target-libdir", "--target", TARGET]);
    Some(PathBuf::from(shell::output(rustc)?.trim()))
}

/// Miri, which comes with a nightly toolchain.
fn miri(may_install: bool) -> Finding {
    const WHAT: &str = "Miri";
    let found = || {
        let mut rustup = shell::command("rustup");
        rustup.args(["which", "miri", "--toolchain", "nightly"]);
        shell::output(rustup).map(|path| Finding::there(WHAT, path.trim()))
    };
    let advice = "the tests of `unsafe` do not run under Miri here; `rustup toolchain install nightly --component miri`";
    if let Some(found) = found() {
        return found;
    }
    if !may_install {
        return Finding::missing(WHAT, advice);
    }
    let install = [
        "toolchain",
        "install",
        "nightly",
        "--profile",
        "minimal",
        "--component",
        "miri,rust-src",
    ];
    match (rustup(&install), found()) {
        (Ok(()), Some(found)) => found,
        (Ok(()), None) => Finding::missing(WHAT, advice),
        (Err(why), _) => Finding::missing(WHAT, format!("{advice} ({why})")),
    }
}

fn rustup(args: &[&str]) -> Result<(), String> {
    let mut rustup = shell::command("rustup");
    rustup.args(args);
    shell::run(rustup, INSTALL_LIMIT)
}

fn apt_get(args: &[&str]) -> Result<(), String> {
    as_root("apt-get", args)
}

/// Runs `program` as root: directly, or through a `sudo` that does not ask.
fn as_root(program: &str, args: &[&str]) -> Result<(), String> {
    if !shell::has(program) {
        return Err(format!("{program} is not installed"));
    }
    let mut id = shell::command("id");
    id.arg("-u");
    let is_root = shell::output(id).is_some_and(|uid| uid.trim() == "0");
    let mut command: Command;
    if is_root {
        command = shell::command(program);
        command.env("DEBIAN_FRONTEND", "noninteractive");
    } else if shell::has("sudo") {
        command = shell::command("sudo");
        command.args(["-n", "DEBIAN_FRONTEND=noninteractive", program]);
    } else {
        return Err("needs root".to_owned());
    }
    command.args(args);
    shell::run(command, INSTALL_LIMIT)
}
