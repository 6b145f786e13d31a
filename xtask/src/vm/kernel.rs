//! A kernel with soft-RoCE as a module: this machine's, or the distribution's package, unpacked in the user's cache.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::shell;

/// A kernel and its modules.
pub(super) struct Kernel {
    /// The image that QEMU boots.
    pub(super) image: PathBuf,
    modules: PathBuf,
}

/// The package that depends on the newest kernel.
const PACKAGE: &str = "linux-image-amd64";
/// Where soft-RoCE is among a kernel's modules.
const SOFT_ROCE: &str = "kernel/drivers/infiniband/sw/rxe/rdma_rxe.ko";
/// Where packages have modules, and how their names end: Debian 13 compresses them.
const MODULES: [&str; 2] = ["lib/modules", "usr/lib/modules"];
const ENDINGS: [&str; 2] = ["", ".xz"];

impl Kernel {
    /// The newest of those that are here.
    ///
    /// # Errors
    /// There is none, and what to do.
    pub(super) fn find() -> Result<Self> {
        let roots = [PathBuf::from("/"), cache().join("kernel")];
        let found = roots.iter().find_map(|root| Self::under(root));
        found.with_context(|| {
            format!(
                "no kernel with {SOFT_ROCE}: `cargo xtask vm rdma` fetches Debian's, or apt-get install {PACKAGE}"
            )
        })
    }

    /// The same, or else the distribution's, fetched and unpacked; nothing is installed.
    pub(super) fn find_or_fetch() -> Result<Self> {
        Self::find().or_else(|_| {
            fetch(&cache())?;
            Self::find()
        })
    }

    fn under(root: &Path) -> Option<Self> {
        let folders = MODULES.iter().map(|folder| root.join(folder));
        let versions = folders.filter_map(|folder| fs::read_dir(folder).ok());
        let mut kernels: Vec<_> = versions
            .flatten()
            .filter_map(|version| {
                let modules = version.ok()?.path();
                let version = modules.file_name()?.to_str()?;
                let image = root.join(format!("boot/vmlinuz-{version}"));
                let mut names = ENDINGS.iter().map(|ending| format!("{SOFT_ROCE}{ending}"));
                let is_whole = image.is_file() && names.any(|name| modules.join(name).is_file());
                is_whole.then_some(Self { image, modules })
            })
            .collect();
        kernels.sort_by_key(|kernel| numbers(&kernel.image));
        kernels.pop()
    }

    /// The module called `name`; `None` if it is built in, or not to be had.
    pub(super) fn module(&self, name: &str) -> Option<PathBuf> {
        let folder = self.modules.join("kernel");
        let mut files = ENDINGS.iter().map(|ending| format!("{name}.ko{ending}"));
        files.find_map(|file| find_file(&folder, &file))
    }
}

/// The module at `path`, decompressed by the guest's own shell.
pub(super) fn read_module(path: &Path) -> Result<Vec<u8>> {
    let is_compressed = path.extension().is_some_and(|ending| ending == "xz");
    if !is_compressed {
        return fs::read(path).with_context(|| format!("cannot read {}", path.display()));
    }
    let mut xzcat = Command::new("busybox");
    let output = xzcat.arg("xzcat").arg(path).output();
    let output = output.context("cannot start busybox")?;
    ensure!(
        output.status.success(),
        "busybox xzcat {}: {}",
        path.display(),
        output.status
    );
    Ok(output.stdout)
}

/// The numbers in a name, so that 6.12 comes behind 6.9.
fn numbers(path: &Path) -> Vec<u64> {
    let name = path.to_string_lossy();
    let numbers = name.split(|c: char| !c.is_ascii_digit());
    numbers.filter_map(|number| number.parse().ok()).collect()
}

fn find_file(folder: &Path, name: &str) -> Option<PathBuf> {
    let mut folders = Vec::new();
    for entry in fs::read_dir(folder).ok()?.flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => folders.push(entry.path()),
            _ if entry.file_name() == name => return Some(entry.path()),
            _ => {}
        }
    }
    folders.iter().find_map(|folder| find_file(folder, name))
}

/// Downloads the package with the distribution's own tools and unpacks it.
fn fetch(cache: &Path) -> Result<()> {
    for program in ["apt-get", "apt-cache", "dpkg-deb"] {
        ensure!(
            shell::find(program).is_some(),
            "no kernel with soft-RoCE here, and no {program} to fetch one: install the distribution's kernel"
        );
    }
    fs::create_dir_all(cache)?;
    let depends = shell::output(Command::new("apt-cache").args(["depends", PACKAGE]))?;
    let Some(package) = real_package(&depends) else {
        bail!("apt-cache names no kernel for {PACKAGE}: apt-get update");
    };
    shell::run(
        Command::new("apt-get")
            .args(["--quiet", "download", package])
            .current_dir(cache),
    )?;
    let is_it = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with(package) && name.ends_with(".deb")
    };
    let mut files = fs::read_dir(cache)?.flatten().map(|entry| entry.path());
    let file = files
        .find(is_it)
        .context("apt-get said that it fetched the kernel")?;
    // Into its place in one step: an interrupted run must not look like a whole one.
    let (whole, part) = (cache.join("kernel"), cache.join("kernel.part"));
    if part.exists() {
        fs::remove_dir_all(&part)?;
    }
    let unpacked = shell::run(Command::new("dpkg-deb").arg("-x").arg(&file).arg(&part));
    fs::remove_file(&file)?;
    unpacked?;
    // One that is there was of no use.
    if whole.exists() {
        fs::remove_dir_all(&whole)?;
    }
    Ok(fs::rename(part, whole)?)
}

/// From what apt-cache says of the package that only depends.
fn real_package(depends: &str) -> Option<&str> {
    let names = depends
        .lines()
        .filter_map(|line| line.trim().strip_prefix("Depends: "));
    names
        .into_iter()
        .find(|name| name.starts_with("linux-image-"))
}

fn cache() -> PathBuf {
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache");
    let cache = std::env::var_os("XDG_CACHE_HOME").map_or_else(home, PathBuf::from);
    cache.join("dpb/vm")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_real_package_is_named_by_the_one_that_depends_on_it() {
        let depends = "linux-image-amd64\n  Depends: linux-image-6.1.0-56-amd64\n";
        assert_eq!(real_package(depends), Some("linux-image-6.1.0-56-amd64"));
        assert_eq!(real_package("linux-image-amd64\n"), None);
    }

    #[test]
    fn a_kernel_without_its_modules_is_none() {
        let root = tempfile::tempdir().expect("a folder");
        let modules = root.path().join("lib/modules/6.1.0-7-amd64");
        let rxe = modules.join(SOFT_ROCE);
        fs::create_dir_all(rxe.parent().expect("has one")).expect("a folder");
        fs::create_dir_all(root.path().join("boot")).expect("a folder");
        fs::write(root.path().join("boot/vmlinuz-6.1.0-7-amd64"), "").expect("written");
        assert!(Kernel::under(root.path()).is_none());
        fs::write(&rxe, "").expect("written");
        let kernel = Kernel::under(root.path()).expect("whole");
        assert_eq!(kernel.module("rdma_rxe"), Some(rxe));
        assert_eq!(kernel.module("siw"), None);
    }

    #[test]
    fn compressed_modules_are_found_where_debian_13_has_them() {
        let root = tempfile::tempdir().expect("a folder");
        let modules = root.path().join("usr/lib/modules/6.12.1-amd64");
        let rxe = modules.join(format!("{SOFT_ROCE}.xz"));
        fs::create_dir_all(rxe.parent().expect("has one")).expect("a folder");
        fs::create_dir_all(root.path().join("boot")).expect("a folder");
        fs::write(root.path().join("boot/vmlinuz-6.12.1-amd64"), "").expect("written");
        fs::write(&rxe, "").expect("written");
        let kernel = Kernel::under(root.path()).expect("whole");
        assert_eq!(kernel.module("rdma_rxe"), Some(rxe));
    }
}
