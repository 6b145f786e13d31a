//! Compiles the peers written in C that `DPB_PEERS` names (`cargo xtask bench --peers` sets it to those whose libraries are
//! here); without it, nothing.

use std::process::Command;

/// What to link, besides the file of the same name in `native/`.
const LIBRARIES: &[(&str, &[&str])] = &[
    ("glibc", &[]),
    ("ipsec", &["IPSec_MB"]),
    ("isal", &["isal"]),
    ("openssl", &["crypto"]),
    ("snappy", &["snappy"]),
    ("vpp", &[]),
];

fn main() {
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    let target = std::env::var("TARGET").unwrap_or_default();
    println!(
        "cargo::rustc-env=DPB_TOOLCHAIN={}, {target}",
        said(&rustc, "--version")
    );
    println!("cargo::rerun-if-env-changed=DPB_PEERS");
    println!("cargo::rerun-if-changed=native");
    let wanted = std::env::var("DPB_PEERS").unwrap_or_default();
    for (name, links) in LIBRARIES {
        println!("cargo::rustc-check-cfg=cfg(peer_{name})");
        if !wanted.split(',').any(|wanted| wanted == *name) {
            continue;
        }
        let mut build = cc::Build::new();
        build.file(format!("native/{name}.c")).opt_level(3);
        build.flag("-march=native").warnings(false);
        build.compile(&format!("dpb_peer_{name}"));
        for link in *links {
            println!("cargo::rustc-link-lib={link}");
        }
        println!("cargo::rustc-cfg=peer_{name}");
    }
}

fn said(program: &str, arguments: &str) -> String {
    let output = Command::new(program).args(arguments.split(' ')).output();
    let output = output.unwrap_or_else(|error| panic!("{program}: {error}"));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}
