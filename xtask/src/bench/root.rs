//! The bench of peers in a Debian of a newer release: a root folder that debootstrap makes, once, in the user's cache. The kernel, the
//! toolchain and the tree are this machine's; the C compiler and the libraries are the release's.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::Args;
use crate::shell;

/// What can be asked for.
pub(super) const RELEASES: [&str; 2] = ["debian-12", "debian-13"];

/// What the bench and its peers are built from; each is a package of both releases.
const PACKAGES: &[&str] = &[
    "ca-certificates",
    "g++",
    "gcc",
    "git",
    "libc6-dev",
    "libdpdk-dev",
    "libhyperscan-dev",
    "libipsec-mb-dev",
    "libisal-dev",
    "libsnappy-dev",
    "libssl-dev",
    "pkg-config",
];

/// Mounts what the bench needs besides the root's own files, and goes in. It runs in a mount namespace of its own, so that nothing
/// stays mounted however it ends. Arguments: the root, the folders to show at their own places, `--`, the program.
const ENTER: &str = r#"
root=$1; shift
while [ "$1" != -- ]; do
    mkdir -p "$root$1"
    mount --rbind "$1" "$root$1"
    shift
done
shift
cp /etc/resolv.conf /etc/hosts "$root/etc/"
exec chroot "$root" "$@"
"#;

/// Runs the bench that `args` ask for in a root of `release`.
pub(super) fn run(release: &str, args: &Args) -> Result<()> {
    let uid = shell::output(Command::new("id").arg("-u"))?;
    ensure!(
        uid.trim() == "0",
        "--root makes a root folder and mounts into it: run it as root (sudo -E)"
    );
    let root = find_or_make(release)?;
    // There is no need for a network inside.
    shell::run(shell::cargo().arg("fetch"))?;
    let [cargo, rustup] = [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")].map(home);
    let (cargo, rustup) = (cargo?, rustup?);
    let target = shell::target_dir().join(release);
    std::fs::create_dir_all(&target)?;
    let tree = shell::root();
    let mut enter = Command::new("unshare");
    enter.args([
        "--mount",
        "--propagation",
        "private",
        "sh",
        "-euc",
        ENTER,
        "sh",
    ]);
    enter.arg(&root);
    let shown = ["/proc", "/sys", "/dev"].map(PathBuf::from);
    enter.args(shown.iter().chain([&cargo, &rustup, &tree, &target]));
    enter.args(["--", "/usr/bin/env", "--chdir"]).arg(&tree);
    let variable = |name: &str, value: &Path| format!("{name}={}", value.display());
    enter.args([
        variable("CARGO_HOME", &cargo),
        variable("RUSTUP_HOME", &rustup),
        variable("CARGO_TARGET_DIR", &target),
        format!("PATH={}/bin:/usr/sbin:/usr/bin:/sbin:/bin", cargo.display()),
        "HOME=/root".to_owned(),
        "CARGO_NET_OFFLINE=true".to_owned(),
    ]);
    enter.args(["cargo", "xtask", "bench", "--peers"]);
    if let Some(level) = &args.cpu_level {
        enter.args(["--cpu-level", level]);
    }
    enter.arg("--").args(args.of_bench());
    shell::run(&mut enter)
}

/// The root of `release`, made if it is not there yet.
fn find_or_make(release: &str) -> Result<PathBuf> {
    let cache = crate::setup::cache_dir().context("no HOME to keep a root in")?;
    let root = cache.join("root").join(release);
    if root.is_dir() {
        return Ok(root);
    }
    ensure!(
        shell::find("debootstrap").is_some(),
        "no debootstrap to make {release} with: apt-get install debootstrap"
    );
    let suite = match release {
        "debian-12" => "bookworm",
        _ => "trixie",
    };
    // Into its place in one step: an interrupted run must not look like a whole one.
    let part = root.with_extension("part");
    if part.exists() {
        std::fs::remove_dir_all(&part)?;
    }
    std::fs::create_dir_all(&part)?;
    let mut make = Command::new("debootstrap");
    make.args(["--variant=minbase", suite])
        .arg(&part)
        .args(mirror());
    shell::run(&mut make)?;
    let mut install = Command::new("chroot");
    install
        .arg(&part)
        .args(["env", "DEBIAN_FRONTEND=noninteractive", "apt-get"]);
    install
        .args(["install", "--yes", "--no-install-recommends"])
        .args(PACKAGES);
    shell::run(&mut install)?;
    std::fs::rename(&part, &root)?;
    Ok(root)
}

/// Where this system, if it is a Debian, has its packages from; none leaves it to debootstrap.
fn mirror() -> Option<String> {
    let mut targets = Command::new("apt-get");
    targets.args([
        "indextargets",
        "--format",
        "$(SITE) $(RELEASE)",
        "Created-By: Packages",
    ]);
    let targets = shell::output(&mut targets).ok()?;
    let is_main = |site: &&str| site.trim_end_matches('/').ends_with("/debian");
    let mut sites = targets.lines().filter_map(|line| line.split(' ').next());
    sites.find(is_main).map(str::to_owned)
}

/// The folder that `variable` names, or that has its usual name in the user's home.
fn home((variable, usual): (&str, &str)) -> Result<PathBuf> {
    let set = std::env::var_os(variable).map(PathBuf::from);
    let usual = || Some(PathBuf::from(std::env::var_os("HOME")?).join(usual));
    set.or_else(usual)
        .with_context(|| format!("neither {variable} nor HOME is set"))
}
