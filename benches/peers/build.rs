//! Compiles the peers written in C that `DPB_PEERS` names (`cargo xtask bench --peers` sets it to those whose libraries are
//! here); without it, nothing. Says how it compiled, for records.

use std::path::PathBuf;
use std::process::Command;

/// What the C compiler builds for where it builds for 64-bit Arm elsewhere: the oldest core that dpb's figures name has this.
const ARM: &str = "-march=armv8-a+crc+crypto";
/// Folders of the libraries of a package under a root that it is unpacked in.
const OF_PACKAGES: [&str; 2] = ["usr/lib/aarch64-linux-gnu", "lib/aarch64-linux-gnu"];
/// Flags that align functions and loops, so that their addresses do not decide: one loop compiled twice differed by 9 % without this.
const ALIGNED: &[&str] = &["-falign-functions=64", "-falign-loops=64"];
/// Folders of its headers.
const HEADERS: [&str; 2] = ["usr/include", "usr/include/aarch64-linux-gnu"];
/// The libraries to link, besides the file of the same name in `native/`.
const LIBRARIES: &[(&str, &[&str])] = &[
    ("glibc", &[]),
    ("ipsec", &["IPSec_MB"]),
    ("isal", &["isal"]),
    ("null", &[]),
    ("openssl", &["crypto"]),
    ("snappy", &["snappy"]),
    ("vpp", &[]),
];

fn main() {
    let of_cargo = |name: &str| std::env::var(name).unwrap_or_default();
    let (rustc, target) = (of_cargo("RUSTC"), of_cargo("TARGET"));
    let rustc = said(&rustc, "--version");
    let flags = of_cargo("CARGO_ENCODED_RUSTFLAGS").replace('\u{1f}', " ");
    let flags = format!("-C opt-level={} {flags}", of_cargo("OPT_LEVEL"));
    println!("cargo::rustc-env=DPB_TOOLCHAIN={rustc}, {target}");
    println!("cargo::rustc-env=DPB_PEERS_RUSTC={rustc} {}", flags.trim());
    println!("cargo::rerun-if-env-changed=DPB_PEERS");
    println!("cargo::rerun-if-env-changed=DPB_CPU_LEVEL");
    println!("cargo::rerun-if-env-changed=DPB_CROSS_ROOT");
    println!("cargo::rerun-if-changed=native");
    let machine = match of_cargo("HOST") == target {
        true => machine(&of_cargo("DPB_CPU_LEVEL")),
        false => vec![ARM.to_owned()],
    };
    // Where the target's libraries are, of a build for another machine.
    let root = of_cargo("DPB_CROSS_ROOT");
    let root = (!root.is_empty()).then(|| PathBuf::from(root));
    for folder in root
        .iter()
        .flat_map(|root| OF_PACKAGES.map(|it| root.join(it)))
    {
        println!("cargo::rustc-link-search=native={}", folder.display());
    }
    let compiler = cc::Build::new().cargo_metadata(false).get_compiler();
    let compiler = said(&compiler.path().to_string_lossy(), "--version");
    let compiler = compiler.lines().next().unwrap_or_default();
    println!(
        "cargo::rustc-env=DPB_PEERS_CC={compiler}, -O3 {} {}",
        machine.join(" "),
        ALIGNED.join(" ")
    );
    let wanted = of_cargo("DPB_PEERS");
    for (name, links) in LIBRARIES {
        println!("cargo::rustc-check-cfg=cfg(peer_{name})");
        if !wanted.split(',').any(|wanted| wanted == *name) {
            continue;
        }
        let mut build = cc::Build::new();
        build.file(format!("native/{name}.c")).opt_level(3);
        build.flags(&machine).flags(ALIGNED).warnings(false);
        for folder in root.iter().flat_map(|root| HEADERS.map(|it| root.join(it))) {
            build.flag("-isystem").flag(folder);
        }
        build.compile(&format!("dpb_peer_{name}"));
        for link in *links {
            println!("cargo::rustc-link-lib={link}");
        }
        println!("cargo::rustc-cfg=peer_{name}");
    }
}

/// The compiler's flags for this CPU, or for the level that it is kept to.
fn machine(level: &str) -> Vec<String> {
    let flags: &[&str] = match level {
        "" => &["-march=native"],
        "x86-64-v1" => &["-march=x86-64"],
        "x86-64-v3-vaes" => &["-march=x86-64-v3", "-mvaes", "-mvpclmulqdq", "-mgfni"],
        level if level.starts_with("x86-64-") => return vec![format!("-march={level}")],
        _ => &[],
    };
    flags.iter().map(ToString::to_string).collect()
}

fn said(program: &str, arguments: &str) -> String {
    let output = Command::new(program).args(arguments.split(' ')).output();
    let output = output.unwrap_or_else(|error| panic!("{program}: {error}"));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}
