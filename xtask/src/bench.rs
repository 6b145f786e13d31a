//! `cargo xtask bench`: the criterion benches, and the comparison with peers; here, on another machine, or for one.

mod arm64;
mod cycles;
mod emulated;
mod level;
mod ns3;
pub(crate) mod programs;
pub(crate) mod remote;
mod root;

use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use crate::aarch64::Toolchain;
use crate::shell;
use programs::How;
use remote::Ssh;

/// Names and filters.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only this one, for example `seam`; all if not given
    #[arg(long)]
    bench: Option<String>,
    /// dpb's operators beside the implementations that an expert would use, C libraries of the system too, in turn
    #[arg(long, conflicts_with = "bench")]
    peers: bool,
    /// The simulation beside ns-3: the same transfers of three nodes, in turn, the wall time of each
    #[arg(long, conflicts_with_all = ["bench", "peers", "target", "ssh", "cpu_level"])]
    ns3: bool,
    /// Build for 64-bit Arm; run here if this is such a machine, over --ssh, else under qemu-user, which checks and counts
    /// instructions, dpb's beside its peers', estimates their cycles with llvm-mca, and claims no speed
    #[arg(long, value_parser = ["aarch64"])]
    target: Option<String>,
    /// The core that qemu emulates: `max`, or `cortex-a72` as in BlueField-2; if it is not given, peers are counted on both and all else
    /// runs on `max`
    #[arg(long, requires = "target")]
    cpu: Option<String>,
    /// With --peers under qemu-user: print the hottest loops of each side of the rows that were asked for, and the hottest one's instructions as
    /// llvm-mca sees them
    #[arg(long, requires_all = ["target", "peers"], conflicts_with = "ssh")]
    loops: bool,
    /// With --peers: run in a Debian of this release, made once with debootstrap in the user's cache, whose peers are newer than
    /// this system's; needs root
    #[arg(long, value_parser = root::RELEASES, requires = "peers", conflicts_with_all = ["target", "ssh"])]
    root: Option<String>,
    /// Keep dpb and its peers to a lower level of instruction sets than this CPU has; peers that cannot be kept to it are left out
    #[arg(long, value_parser = level::LEVELS, conflicts_with_all = ["target", "ssh"])]
    cpu_level: Option<String>,
    #[command(flatten)]
    ssh: Ssh,
    /// Less of everything: fewer turns; under qemu one run of each operator
    #[arg(long)]
    quick: bool,
    /// Passed on: filters, then to criterion --save-baseline, --baseline; with --peers operators, --record FOLDER
    #[arg(last = true)]
    rest: Vec<String>,
}

/// A C library that peers come from, by its file in `benches/peers/native`, and a header that is there if it is.
const PEERS: [(&str, &str); 7] = [
    ("ipsec", "intel-ipsec-mb.h"),
    ("isal", "isa-l/igzip_lib.h"),
    ("openssl", "openssl/evp.h"),
    ("snappy", "snappy-c.h"),
    ("null", "stdint.h"),
    ("vpp", "stdint.h"),
    ("glibc", "gnu/libc-version.h"),
];

/// Runs them.
pub(crate) fn run(args: &Args) -> Result<()> {
    if args.ns3 {
        return ns3::run(args.quick);
    }
    let is_for_arm = args.target.is_some() && cfg!(not(target_arch = "aarch64"));
    let machine = args.ssh.machine()?;
    if let Some(release) = &args.root {
        return root::run(release, args);
    }
    if !is_for_arm && machine.is_none() {
        return here(args);
    }
    let wanted = if is_for_arm {
        "aarch64"
    } else {
        std::env::consts::ARCH
    };
    // Of another machine only itself knows which libraries are there.
    let libraries = (is_for_arm && machine.is_none()).then(arm64::Libraries::find);
    let programs = if is_for_arm {
        let toolchain = Toolchain::find()?;
        let mut cargo = toolchain.cargo(shell::cargo(), &args.cargo());
        if let Some(libraries) = &libraries {
            libraries.build_with(&mut cargo);
        }
        programs::build(&mut cargo, &["bench"])?
    } else {
        let mut cargo = shell::cargo();
        programs::build(cargo.args(args.cargo()), &["bench"])?
    };
    let Some(machine) = machine else {
        let libraries = libraries.expect("looked for where nothing is sent elsewhere");
        return emulated::run(
            &programs,
            args.cpu.as_deref(),
            args.loops,
            &libraries,
            &args.rest,
        );
    };
    // What the kernel there starts with an emulator is no more measured than here.
    let emulator = format!("an emulator on {}", machine.architecture);
    let how = if machine.architecture == wanted {
        How::Timed { quick: args.quick }
    } else {
        How::Checked {
            by: &emulator,
            counts: None,
        }
    };
    let records = records(&machine.architecture);
    machine.run(&programs, &how, &args.rest, &records)?;
    println!("records are in {}", records.display());
    Ok(())
}

/// As cargo does it.
fn here(args: &Args) -> Result<()> {
    let mut cargo = shell::cargo();
    cargo.args(args.cargo());
    if args.peers {
        cargo.env("DPB_PEERS", peers_here().join(","));
    }
    if let Some(level) = &args.cpu_level {
        cargo.envs(level::variables(level));
    }
    cargo.arg("--");
    shell::run(cargo.args(args.of_bench()))
}

impl Args {
    /// The bench's own arguments.
    fn of_bench(&self) -> impl Iterator<Item = String> {
        let quick = self.quick.then(|| "--quick".to_owned());
        let is_peers = self.peers || self.bench.as_deref() == Some(programs::PEERS);
        let rest = match is_peers {
            true => self.rest.clone(),
            false => programs::of_criterion(&self.rest),
        };
        quick.into_iter().chain(rest)
    }

    /// What cargo is to build.
    fn cargo(&self) -> Vec<&str> {
        let for_others = self.target.is_some();
        match &self.bench {
            _ if self.peers => vec!["bench", "-p", "dpb-peers", "--bench", programs::PEERS],
            Some(name) if name == programs::PEERS => {
                vec!["bench", "-p", "dpb-peers", "--bench", name]
            }
            Some(name) => vec!["bench", "-p", "dpb-benches", "--bench", name],
            // The criterion bench of operators has every parameter on every path, which takes an emulator hours.
            None if self.quick && for_others => vec![
                "bench",
                "-p",
                "dpb-benches",
                "-p",
                "dpb-peers",
                "--bench",
                "seam",
                "--bench",
                "scan",
                "--bench",
                "peers",
            ],
            None if for_others => {
                vec!["bench", "-p", "dpb-benches", "-p", "dpb-peers", "--benches"]
            }
            None => vec!["bench", "-p", "dpb-benches", "--benches"],
        }
    }
}

/// Where what runs elsewhere is recorded.
fn records(machine: &str) -> PathBuf {
    shell::target_dir().join("bench").join(machine)
}

/// Those whose header the C compiler finds. Which are missing, the bench says.
fn peers_here() -> Vec<&'static str> {
    let has = |&(name, header): &(&'static str, &str)| {
        let mut compiler = Command::new("cc");
        compiler.args(["-E", "-x", "c", "-include", header, "/dev/null"]);
        shell::output(&mut compiler).ok().map(|_| name)
    };
    PEERS.iter().filter_map(has).collect()
}
