//! `cargo xtask bench`: the criterion benches, and the comparison with peers.

use std::process::Command;

use anyhow::Result;

use crate::shell;

/// Names and filters.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only this one, for example `seam`; all if not given
    #[arg(long)]
    bench: Option<String>,
    /// dpb's operators beside the implementations that an expert would use, C libraries of the system too, in turn
    #[arg(long, conflicts_with = "bench")]
    peers: bool,
    /// Passed on: to criterion a filter, --save-baseline, --baseline; with --peers operators, --quick, --record FOLDER
    #[arg(last = true)]
    rest: Vec<String>,
}

/// A C library that peers come from, by its file in `benches/peers/native`, and a header that is there if it is.
const PEERS: [(&str, &str); 6] = [
    ("dpdk", "rte_config.h"),
    ("ipsec", "intel-ipsec-mb.h"),
    ("isal", "isa-l/igzip_lib.h"),
    ("openssl", "openssl/evp.h"),
    ("snappy", "snappy-c.h"),
    ("vpp", "stdint.h"),
];

/// Runs them.
pub(crate) fn run(args: &Args) -> Result<()> {
    let mut cargo = shell::cargo();
    match &args.bench {
        Some(name) => cargo.args(["bench", "--package", "dpb-benches", "--bench", name]),
        None if args.peers => cargo
            .args(["bench", "--package", "dpb-peers", "--bench", "peers"])
            .env("DPB_PEERS", peers_here().join(",")),
        None => cargo.args(["bench", "--package", "dpb-benches", "--benches"]),
    };
    cargo.arg("--").args(&args.rest);
    shell::run(&mut cargo)
}

/// Those whose header the C compiler finds. Which are missing, the bench says.
fn peers_here() -> Vec<&'static str> {
    let has = |&(name, header): &(&'static str, &str)| {
        let mut compiler = Command::new("cc");
        compiler.args(["-E", "-x", "c", "-include", header, "/dev/null"]);
        if name == "dpdk" {
            let mut flags = Command::new("pkg-config");
            let flags = shell::output(flags.args(["--cflags", "libdpdk"])).ok()?;
            compiler.args(flags.split_whitespace());
        }
        shell::output(&mut compiler).ok().map(|_| name)
    };
    PEERS.iter().filter_map(has).collect()
}
