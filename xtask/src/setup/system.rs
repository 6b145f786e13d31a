//! What tests and benches need from the system and from rustup: looked for, and installed if that was asked for.
//!
//! A package is one line of a table. What is missing is installed in one call of apt-get; where there is no apt-get, or no right to
//! use it, each line says what to install.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::{Finding, shell};
use crate::vm;

const TARGET: &str = "aarch64-unknown-linux-gnu";
const INSTALL_LIMIT: Duration = Duration::from_secs(1800);

/// How a part shows that it is here.
enum Sign {
    /// One of these programs can be started.
    Program(&'static [&'static str]),
    /// The C compiler finds this header.
    Header(&'static str),
    /// pkg-config knows this library.
    PkgConfig(&'static str),
    /// Python imports this module.
    Python(&'static str),
    /// This file exists.
    File(&'static str),
}

use Sign::{File, Header, PkgConfig, Program, Python};

/// A part of the system: its name, its sign, its package in Debian 12 and 13, and what is left out without it. Where
/// architectures differ, the first package that apt knows is the one.
struct Part(&'static str, Sign, &'static [&'static str], &'static str);

#[rustfmt::skip]
const PARTS: &[Part] = &[
    Part("C++ compiler", Program(&["c++"]), &["g++"], "no C library is compiled, nor what tests are compared with"),
    Part("pkg-config", Program(&["pkg-config"]), &["pkg-config"], "DPDK is not found"),
    Part("git", Program(&["git"]), &["git"], "`cargo xtask tidy` does not run"),
    Part("curl", Program(&["curl"]), &["curl"], "DuckDB is not fetched from its own page"),
    Part("certificates", File("/etc/ssl/certs/ca-certificates.crt"), &["ca-certificates"], "nothing is fetched"),
    Part("DPDK", PkgConfig("libdpdk"), &["libdpdk-dev"], "its backends, ports and peers are left out"),
    Part("DPDK's own measurements", Program(&["dpdk-test-crypto-perf"]), &["dpdk-dev"], "dpdk_speed has nothing to compare with"),
    Part("verbs", Header("infiniband/verbs.h"), &["libibverbs-dev"], "their declarations are not compared"),
    Part("RDMA connections", Header("rdma/rdma_cma.h"), &["librdmacm-dev"], "their declarations are not compared"),
    Part("ISA-L", Header("isa-l/igzip_lib.h"), &["libisal-dev"], "a path of deflate and a peer are left out"),
    Part("Snappy", Header("snappy-c.h"), &["libsnappy-dev"], "a peer is left out"),
    Part("OpenSSL", Header("openssl/evp.h"), &["libssl-dev"], "a peer is left out, and ciphers of DOCA's stand-in"),
    Part("command openssl", Program(&["openssl"]), &["openssl"], "public keys are not exchanged with it"),
    Part("zlib", Header("zlib.h"), &["zlib1g-dev"], "DOCA's stand-in does not compress"),
    Part("PCRE2", PkgConfig("libpcre2-8"), &["libpcre2-dev"], "DOCA's stand-in matches no rules"),
    Part("Hyperscan or Vectorscan", Header("hs/hs.h"), &["libhyperscan-dev", "libvectorscan-dev"], "a path of rxpmatch is left out"),
    Part("scapy", Python("scapy.all"), &["python3-scapy"], "fragments and captures are not compared with it"),
    Part("Wireshark", Program(&["tshark"]), &["tshark"], "captures are not compared with it"),
    Part("cpio", Program(&["cpio"]), &["cpio"], "it does not read the guest's archive"),
    Part("sshd", Program(&["sshd"]), &["openssh-server"], "benches over ssh are not tested"),
    Part("iperf3", Program(&["iperf3"]), &["iperf3"], "throughput of TCP is not compared with it, and no TCP goes through `dpb net`"),
    Part("sockperf", Program(&["sockperf"]), &["sockperf"], "round trips of TCP are not compared with it"),
    Part("namespaces", Program(&["ip"]), &["iproute2"], "TCP is not tested between two network namespaces, nor programs on packets between three"),
    Part("Python", Program(&["python3"]), &["python3"], "no HTTPS server for programs on packets to be tested with"),
    Part("Maven", Program(&["mvn"]), &["maven"], "DuckDB is not fetched with it"),
    Part("npm", Program(&["npm"]), &["npm"], "DuckDB is not fetched with it, for 64-bit Arm neither"),
    Part("sysbench", Program(&["sysbench"]), &["sysbench"], "memory is not measured beside it"),
    Part("fio", Program(&["fio"]), &["fio"], "storage is not measured beside it"),
    Part("Valgrind", Program(&["valgrind"]), &["valgrind"], "programs are not watched by it, and models of caches not compared with its"),
    Part("ns-3", PkgConfig("ns3-core"), &["libns3-dev"], "`cargo xtask bench --ns3` has nothing to compare the simulation with"),
    Part("browser", Program(&["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"]), &["chromium"], "the report is not opened in one"),
    Part("debootstrap", Program(&["debootstrap"]), &["debootstrap"], "no peers of a newer release"),
];

/// What only an x86-64 machine needs, or has.
#[rustfmt::skip]
const ON_X86_64: &[Part] = &[
    Part("ipsec-mb", Header("intel-ipsec-mb.h"), &["libipsec-mb-dev"], "a peer is left out"),
    Part("emulator of the guest", Program(&["qemu-system-x86_64"]), &["qemu-system-x86"], "RDMA is not tested in a guest"),
    Part("the guest's shell", Program(&["busybox"]), &["busybox-static"], "RDMA is not tested in a guest"),
    Part("the guest's network", Program(&["rdma"]), &["iproute2"], "RDMA is not tested in a guest"),
    Part("soft-RoCE's provider", File("/etc/libibverbs.d/rxe.driver"), &["ibverbs-providers"], "RDMA is not tested in a guest"),
    Part("perftest", Program(&["ib_read_lat"]), &["perftest"], "RDMA is not tested in a guest"),
    Part("aarch64 emulator", Program(&["qemu-aarch64-static", "qemu-aarch64"]), &["qemu-user-static"], "aarch64 tests do not run here"),
    Part("aarch64 emulator, plugins", Program(&["qemu-aarch64"]), &["qemu-user"], "instructions are not counted"),
    Part("llvm-mca", Program(&["llvm-mca-19"]), &["llvm-19"], "cycles on cores of 64-bit Arm are not estimated"),
    // With the libraries of C and C++: the compiler for C only recommends the first, and DuckDB needs the second.
    Part("aarch64 linker", Program(&["aarch64-linux-gnu-gcc"]), &["g++-aarch64-linux-gnu"], "nothing is built for aarch64 here"),
];

/// Finds each part, or installs it if that was asked for and is allowed.
pub(super) fn find_or_install(may_install: bool) -> Vec<Finding> {
    let parts = || {
        let here: &[Part] = if cfg!(target_arch = "x86_64") {
            ON_X86_64
        } else {
            &[]
        };
        PARTS.iter().chain(here)
    };
    let missing: Vec<&Part> = parts()
        .filter(|Part(_, sign, ..)| !sign.is_here())
        .collect();
    if may_install
        && !missing.is_empty()
        && let Err(why) = install(&missing)
    {
        println!("not all could be installed: {why}");
    }
    let mut findings: Vec<Finding> = parts().map(Part::find).collect();
    findings.push(target(may_install));
    findings.push(miri(may_install));
    if cfg!(target_arch = "x86_64") {
        findings.push(kernel(may_install));
    }
    findings
}

/// Installs the packages of all these parts. Lists of packages that are old, or not there yet, are fetched first.
fn install(missing: &[&Part]) -> Result<(), String> {
    let update = || apt_get(&["update"]);
    if missing.iter().any(|part| part.package(apt_knows).is_none()) {
        update()?;
    }
    let install = || {
        let packages = missing.iter().filter_map(|part| part.package(apt_knows));
        let mut arguments = vec!["install", "--yes", "--no-install-recommends"];
        arguments.extend(packages);
        println!("apt-get {}", arguments.join(" "));
        apt_get(&arguments)
    };
    install().or_else(|_| update().and_then(|()| install()))
}

/// Whether apt has lists that name this package.
fn apt_knows(package: &str) -> bool {
    let mut apt = shell::command("apt-cache");
    apt.args(["show", "--no-all-versions", package]);
    shell::output(apt).is_some_and(|said| !said.is_empty())
}

impl Part {
    fn find(&self) -> Finding {
        let Self(what, sign, packages, without) = self;
        match sign.is_here() {
            true => Finding::there(what, sign.text()),
            false => {
                let packages = packages.join(" or ");
                Finding::missing(what, format!("{without}; `apt-get install {packages}`"))
            }
        }
    }

    /// The package for this machine.
    fn package(&self, is_known: impl Fn(&str) -> bool) -> Option<&'static str> {
        self.2.iter().copied().find(|package| is_known(package))
    }
}

impl Sign {
    fn is_here(&self) -> bool {
        let succeeds = |program: &str, arguments: &[&str]| {
            let mut command = shell::command(program);
            command.args(arguments);
            shell::output(command).is_some()
        };
        match self {
            // Not every user's PATH has the folders for administrators.
            Program(names) => names
                .iter()
                .any(|name| shell::has(name) || Path::new("/usr/sbin").join(name).is_file()),
            Header(name) => succeeds("cc", &["-E", "-x", "c", "-include", name, "/dev/null"]),
            PkgConfig(name) => succeeds("pkg-config", &["--exists", name]),
            // As the tests: the system's Python has the package, and another may come first.
            Python(module) => ["python3", "/usr/bin/python3"]
                .iter()
                .any(|python| succeeds(python, &["-c", &format!("import {module}")])),
            File(path) => Path::new(path).is_file(),
        }
    }

    fn text(&self) -> String {
        match self {
            Program(names) => names.join(" or "),
            Header(name) | PkgConfig(name) | Python(name) | File(name) => (*name).to_owned(),
        }
    }
}

/// The kernel that the guest boots.
fn kernel(may_fetch: bool) -> Finding {
    const WHAT: &str = "the guest's kernel";
    match vm::kernel(may_fetch) {
        Ok(path) => Finding::there(WHAT, path.display().to_string()),
        Err(why) => Finding::missing(WHAT, format!("{why:#}")),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_are_seen_where_they_are() {
        for (sign, is_here) in [
            (Program(&["no-such-program", "sh"]), true),
            (Program(&["no-such-program"]), false),
            (Header("stdio.h"), true),
            (Header("no/such.h"), false),
            (PkgConfig("no-such-library"), false),
            (Python("no_such_module"), false),
            (File("/proc/self/exe"), true),
            (File("/no/such/file"), false),
        ] {
            assert_eq!(sign.is_here(), is_here, "{}", sign.text());
        }
    }

    #[test]
    fn a_part_takes_the_first_package_that_is_known() {
        let part = Part("", File("/no/such/file"), &["one", "other"], "without");
        assert_eq!(part.package(|_| true), Some("one"));
        assert_eq!(part.package(|name| name == "other"), Some("other"));
        assert_eq!(part.package(|_| false), None);
        let finding = part.find();
        assert!(!finding.is_there);
        assert_eq!(finding.note, "without; `apt-get install one or other`");
    }
}
