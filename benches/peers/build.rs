//! Compiles the peers written in C that `DPB_PEERS` names (`cargo xtask bench --peers` sets it to those whose libraries are
//! here); without it, nothing.

use std::process::Command;

/// What to link, besides the file of the same name in `native/`.
const LIBRARIES: &[(&str, &[&str])] = &[
    (
        "dpdk",
        &[
            "rte_eal",
            "rte_lpm",
            "rte_fib",
            "rte_rib",
            "rte_hash",
            "rte_gso",
            "rte_ip_frag",
            "rte_mbuf",
            "rte_mempool",
            "rte_ring",
            "rte_net",
        ],
    ),
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
        if *name == "dpdk" {
            for flag in dpdk_flags() {
                build.flag(flag);
            }
            // The pools of packets find this one by its constructor, not by a symbol.
            let ring = "-Wl,--push-state,--no-as-needed,-lrte_mempool_ring,--pop-state";
            println!("cargo::rustc-link-arg-benches={ring}");
            println!("cargo::rustc-link-arg-benches=-Wl,--export-dynamic-symbol=memfd_create");
        }
        // Behind the flags of pkg-config, which ask for an old CPU.
        build.flag("-march=native").warnings(false);
        build.compile(&format!("dpb_peer_{name}"));
        for link in *links {
            println!("cargo::rustc-link-lib={link}");
        }
        println!("cargo::rustc-cfg=peer_{name}");
    }
}

fn dpdk_flags() -> Vec<String> {
    let flags = said("pkg-config", "--cflags libdpdk");
    flags.split_whitespace().map(str::to_owned).collect()
}

fn said(program: &str, arguments: &str) -> String {
    let output = Command::new(program).args(arguments.split(' ')).output();
    let output = output.unwrap_or_else(|error| panic!("{program}: {error}"));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}
