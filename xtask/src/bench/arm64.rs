//! The C libraries beside which operators are counted under an emulator of 64-bit Arm: what the build and the run are told of them.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::PEERS;
use crate::aarch64::Emulation;
use crate::setup::arm64::{FOLDERS, LIST, root};

/// Peers that need no library, or one that the compiler brings along.
const WITHOUT: [&str; 3] = ["null", "vpp", "glibc"];

/// Folders of headers under the root.
const HEADERS: [&str; 2] = ["usr/include", "usr/include/aarch64-linux-gnu"];

/// What there is.
pub(super) struct Libraries {
    root: Option<PathBuf>,
}

impl Libraries {
    /// Looks for the root that they are unpacked in, and says what is left out without it.
    pub(super) fn find() -> Self {
        let root = root();
        if root.is_none() {
            println!(
                "missing  C libraries for arm64, so none of DPDK, isa-l, OpenSSL, Snappy and Vectorscan is a peer: `cargo xtask setup \
                 --install` fetches them into dpb's cache"
            );
        }
        Self { root }
    }

    /// Tells a build for Arm which peers in C there are, and where.
    pub(super) fn build_with(&self, cargo: &mut Command) {
        // Not as the compiler finds them, which looks among this machine's own too.
        let has = |(name, header): &(&'static str, &str)| {
            let root = self.root.iter();
            let mut folders = root.flat_map(|root| HEADERS.map(|folder| root.join(folder)));
            let is_here =
                WITHOUT.contains(name) || folders.any(|folder| folder.join(header).is_file());
            is_here.then_some(*name)
        };
        let peers: Vec<&str> = PEERS.iter().filter_map(has).collect();
        cargo.env("DPB_PEERS", peers.join(","));
        if let Some(root) = &self.root {
            cargo.env("DPB_CROSS_ROOT", root);
        }
    }

    /// Tells a run under an emulator where the libraries are.
    pub(super) fn run_with(&self, emulation: &mut Emulation) {
        let Some(root) = &self.root else {
            return;
        };
        emulation.libraries = FOLDERS.map(|folder| root.join(folder)).to_vec();
        let list = ("DPB_PEERS_PACKAGES", root.join(LIST).display().to_string());
        emulation.variables.push(list);
        // DPDK looks for its drivers where its package would be installed.
        if let Some(ring) = memory_pools(&root.join(FOLDERS[0]).join("dpdk")) {
            let arguments = format!("-d {}", ring.display());
            emulation.variables.push(("DPB_DPDK_EAL_ARGS", arguments));
        }
    }
}

/// The one driver of DPDK's that mbufs need.
fn memory_pools(folder: &Path) -> Option<PathBuf> {
    let versions = std::fs::read_dir(folder).ok()?.flatten();
    let mut files = versions.map(|version| version.path().join("librte_mempool_ring.so"));
    files.find(|file| file.exists())
}
