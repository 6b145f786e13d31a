//! The C libraries that the benches for 64-bit Arm compare with: the distribution's own packages for arm64, unpacked in dpb's
//! cache. Nothing is installed: apt keeps lists and state of this in a folder of its own, so neither root nor a foreign architecture is needed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::shell::{self, Scratch};
use super::{Finding, cache_dir};

const WHAT: &str = "peers for 64-bit Arm";
const FETCH_LIMIT: Duration = Duration::from_secs(900);
/// Packages whose libraries and headers are peers; what they depend on comes along.
const PACKAGES: &[&str] = &[
    "libdpdk-dev",
    "libisal-dev",
    "libsnappy-dev",
    "libssl-dev",
    "libvectorscan5",
];
/// Beginnings of packages that are unpacked; the others, such as tar and perl, are programs.
const LIBRARIES: [&str; 2] = ["lib", "zlib1g"];
/// What the cross compiler has of its own: a second C library would be loaded beside the first.
const OF_THE_COMPILER: [&str; 5] = ["libc6", "libc-", "libgcc", "libperl", "libstdc++"];
/// Where packages keep libraries, under the root.
pub(crate) const FOLDERS: [&str; 2] = ["usr/lib/aarch64-linux-gnu", "lib/aarch64-linux-gnu"];
/// Lines of a library's file name, a tab, and the package that it is from, with its version.
pub(crate) const LIST: &str = "packages";

/// The root that they are unpacked in, if it was made.
pub(crate) fn root() -> Option<PathBuf> {
    let root = place()?;
    root.join(LIST).is_file().then_some(root)
}

fn place() -> Option<PathBuf> {
    Some(cache_dir()?.join("arm64"))
}

/// Finds them, or fetches them if that was asked for.
pub(super) fn find_or_fetch(may_fetch: bool) -> Finding {
    let missing = |why: &str| {
        Finding::missing(
            WHAT,
            format!(
                "{why}; `cargo xtask setup --install` fetches Debian's packages for arm64 into dpb's cache"
            ),
        )
    };
    if let Some(root) = root() {
        return Finding::there(WHAT, root.display().to_string());
    }
    let Some(place) = place() else {
        return missing("no cache, because neither XDG_CACHE_HOME nor HOME is set");
    };
    if !may_fetch {
        return missing("`cargo xtask bench --target aarch64` counts Rust's peers alone");
    }
    match fetch(&place) {
        Ok(()) => Finding::there(WHAT, place.display().to_string()),
        Err(why) => missing(&why),
    }
}

/// Fetches with apt, by this system's own list of sources, and unpacks into `place`, in one step.
fn fetch(place: &Path) -> Result<(), String> {
    let missing = ["apt-get", "dpkg-deb"]
        .into_iter()
        .find(|name| !shell::has(name));
    if let Some(program) = missing {
        return Err(format!("no {program} here to fetch them with"));
    }
    let cache = place.parent().expect("a folder of the cache");
    let at = |why: std::io::Error| format!("{}: {why}", cache.display());
    fs::create_dir_all(cache).map_err(at)?;
    let scratch = Scratch::under(cache).map_err(at)?;
    let apt = Apt::new(scratch.path()).map_err(at)?;
    apt.run(&["update"])?;
    println!(
        "fetching {} and what they depend on, for arm64",
        PACKAGES.join(", ")
    );
    let install = [
        "install",
        "--download-only",
        "--no-install-recommends",
        "--yes",
    ];
    apt.run(&[&install, PACKAGES].concat())?;
    let root = scratch.path().join("root");
    fs::create_dir_all(&root).map_err(at)?;
    let packages = fs::read_dir(apt.folder.join("cache/archives")).map_err(at)?;
    let mut packages: Vec<PathBuf> = packages.flatten().map(|entry| entry.path()).collect();
    packages.retain(|path| is_wanted(&name(path)));
    packages.sort();
    let mut list = String::new();
    for package in &packages {
        list += &unpack(package, &root)?;
    }
    lead_links_to(place, &root).map_err(at)?;
    fs::write(root.join(LIST), list).map_err(at)?;
    if place.exists() {
        fs::remove_dir_all(place).map_err(at)?;
    }
    fs::rename(&root, place).map_err(at)
}

fn name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

fn is_wanted(package: &str) -> bool {
    let begins = |beginnings: &[&str]| beginnings.iter().any(|it| package.starts_with(it));
    package.ends_with(".deb") && begins(&LIBRARIES) && !begins(&OF_THE_COMPILER)
}

/// Unpacks one; its libraries as lines of [`LIST`].
fn unpack(package: &Path, root: &Path) -> Result<String, String> {
    let dpkg = |arguments: &[&Path]| {
        let mut command = shell::command("dpkg-deb");
        command.args(arguments);
        shell::output(command).ok_or_else(|| format!("dpkg-deb fails for {}", package.display()))
    };
    let shown = dpkg(&["--show".as_ref(), package])?;
    let files = dpkg(&["--vextract".as_ref(), package, root])?;
    let from = shown.trim().replace('\t', " ");
    let libraries = files.lines().map(Path::new).map(name);
    let libraries = libraries.filter(|name| name.contains(".so."));
    Ok(libraries.map(|name| format!("{name}\t{from}\n")).collect())
}

/// Has what links and scripts of the linker name by a full path be found under `place`, which `root` will be.
fn lead_links_to(place: &Path, root: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(root.join(FOLDERS[0]))?.flatten() {
        let path = entry.path();
        if path.extension().is_none_or(|end| end != "so") {
            continue;
        }
        if let Ok(target) = fs::read_link(&path) {
            if let Ok(inner) = target.strip_prefix("/") {
                fs::remove_file(&path)?;
                std::os::unix::fs::symlink(place.join(inner), &path)?;
            }
            continue;
        }
        // Scripts are text, libraries are not.
        if let Ok(script) = fs::read_to_string(&path) {
            fs::write(&path, led_to(place, &script))?;
        }
    }
    Ok(())
}

/// A script of the linker whose full paths begin at `place`.
fn led_to(place: &Path, script: &str) -> String {
    let place = place.display();
    ["/usr/lib/", "/lib/"]
        .iter()
        .fold(script.to_owned(), |script, folder| {
            let (before, after) = (format!("({folder}"), format!("({place}{folder}"));
            let script = script.replace(&before, &after);
            script.replace(&format!(" {folder}"), &format!(" {place}{folder}"))
        })
}

/// apt with a state of its own, for arm64, by this system's sources.
struct Apt {
    folder: PathBuf,
}

impl Apt {
    fn new(folder: &Path) -> std::io::Result<Self> {
        for part in ["state/lists/partial", "cache/archives/partial"] {
            fs::create_dir_all(folder.join(part))?;
        }
        // Nothing is installed, as apt sees it.
        fs::write(folder.join("state/status"), "")?;
        Ok(Self {
            folder: folder.to_owned(),
        })
    }

    fn run(&self, arguments: &[&str]) -> Result<(), String> {
        let mut apt: Command = shell::command("apt-get");
        let folder = self.folder.display();
        for option in [
            "APT::Architecture=arm64".to_owned(),
            "APT::Architectures::=arm64".to_owned(),
            format!("Dir::State={folder}/state"),
            format!("Dir::State::status={folder}/state/status"),
            format!("Dir::Cache={folder}/cache"),
            // The user that root's apt takes for fetching may not write there.
            "APT::Sandbox::User=".to_owned(),
        ] {
            apt.args(["-o", &option]);
        }
        apt.arg("--quiet").args(arguments);
        shell::run(apt, FETCH_LIMIT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_unpacked_and_the_compilers_own_are_not() {
        for (package, wanted) in [
            ("libisal2_2.30.0-5_arm64.deb", true),
            ("zlib1g_1%3a1.2.13.dfsg-1_arm64.deb", true),
            ("libc6_2.36-9_arm64.deb", false),
            ("libstdc++6_12.2.0-14_arm64.deb", false),
            ("perl-base_5.36.0-7_arm64.deb", false),
            ("lock", false),
        ] {
            assert_eq!(is_wanted(package), wanted, "{package}");
        }
    }

    #[test]
    fn what_has_a_full_path_is_found_under_the_root() {
        let root = tempfile::tempdir().expect("a folder");
        let folder = root.path().join(FOLDERS[0]);
        fs::create_dir_all(&folder).expect("a folder");
        let script = "GROUP(/usr/lib/aarch64-linux-gnu/libbsd.so.0 AS_NEEDED(-lmd) )";
        fs::write(folder.join("libbsd.so"), script).expect("written");
        std::os::unix::fs::symlink("/lib/aarch64-linux-gnu/libz.so.1", folder.join("libz.so"))
            .expect("linked");
        std::os::unix::fs::symlink("libnear.so.1", folder.join("libnear.so")).expect("linked");
        lead_links_to(Path::new("/there"), root.path()).expect("led");
        let read = fs::read_to_string(folder.join("libbsd.so")).expect("a script");
        assert_eq!(
            read,
            "GROUP(/there/usr/lib/aarch64-linux-gnu/libbsd.so.0 AS_NEEDED(-lmd) )"
        );
        let target = |name: &str| fs::read_link(folder.join(name)).expect("a link");
        assert_eq!(
            target("libz.so"),
            Path::new("/there/lib/aarch64-linux-gnu/libz.so.1")
        );
        assert_eq!(target("libnear.so"), Path::new("libnear.so.1"));
    }
}
