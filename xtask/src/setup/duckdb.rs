//! DuckDB's library, into dpb's cache: `duckdb/VERSION-ARCH/libduckdb.so`.
//!
//! Looked for in `DUCKDB_LIB_DIR`, the cache and the system; then fetched as the official prebuilt library, through the
//! ordinary client of a package registry (`mvn`, `npm`). What was fetched is checked against a digest that is written
//! here, before it is put into the cache by a rename. Last it is compiled ([`super::bundled`]), which takes long; cargo
//! checks the sources.
//!
//! For Arm it is 1.5.5: GCC 14 compiles the loops that compare vectors of 128-bit integers into code that overwrites
//! its own operands (DuckDB's issue 17757), and in the library of 2.0.0 these are the loops behind `<`, `<=`, `>` and
//! `>=` of HUGEINT and of decimals beyond 18 digits wherever a comparison is a value rather than a filter.

use std::env::consts::ARCH;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest, Sha256};

use super::kept::{FILE, keep};
use super::shell::{self, Scratch};
use super::{Effort, Finding, bundled, failures};

const WHAT: &str = "DuckDB";
const NO_CACHE: &str = "no cache, because neither XDG_CACHE_HOME nor HOME is set";

/// One way to get the library for one machine.
struct Source {
    /// The machine, as `std::env::consts::ARCH` names it.
    arch: &'static str,
    /// The program that fetches it.
    client: &'static str,
    /// DuckDB's version.
    version: &'static str,
    /// Downloads the archive into a folder and says where it is. The flag: without a network.
    fetch: fn(&Path, bool) -> Result<PathBuf, String>,
    /// The archive's SHA-256. The registry's own digests were compared when this one was taken.
    archive_sha256: &'static str,
    /// Takes the library out of the archive, into a folder, and says where it is.
    unpack: fn(&Path, &Path) -> Result<PathBuf, String>,
}

/// The first that works is taken.
const SOURCES: [Source; 3] = [
    Source {
        arch: "x86_64",
        client: "mvn",
        version: "2.0.0",
        fetch: fetch_with_maven,
        archive_sha256: "6cb8b0e0fc51b2e45aead2d2c1e1fd09dd10267db2966e69aaab0de67319f826",
        unpack: |archive, to| unzip(archive, to, "libduckdb_java.so_linux_amd64"),
    },
    Source {
        arch: "x86_64",
        client: "npm",
        version: "1.5.5",
        fetch: |to, offline| fetch_with_npm("x64", to, offline),
        archive_sha256: "86d2bda909785550e8a14a57a8a4584827aff0e268d8f1a58c3fd48559f7020e",
        unpack: untar,
    },
    Source {
        arch: "aarch64",
        client: "npm",
        version: "1.5.5",
        fetch: |to, offline| fetch_with_npm("arm64", to, offline),
        archive_sha256: "3b85f3ea438f7dc3691d7b5e6e4222ffe9127fd17885f96ca72e0c99925c348e",
        unpack: untar,
    },
];

/// Finds a library for this machine, or fetches or compiles one.
pub(super) fn find_or_make(effort: Effort) -> Finding {
    if let Some(dir) = std::env::var_os("DUCKDB_LIB_DIR").filter(|dir| !dir.is_empty()) {
        let path = Path::new(&dir).join(FILE);
        return if path.is_file() {
            Finding::there(WHAT, format!("{} (DUCKDB_LIB_DIR)", path.display()))
        } else {
            Finding::missing(
                WHAT,
                format!("DUCKDB_LIB_DIR is set, but there is no {}", path.display()),
            )
        };
    }
    let Some(cache) = cache_dir() else {
        return Finding::missing(WHAT, NO_CACHE);
    };
    if let Some(path) = cached(&cache, ARCH) {
        return Finding::there(WHAT, path.display().to_string());
    }
    if let Some(path) = installed() {
        return Finding::there(WHAT, format!("{path} (the system's)"));
    }
    match make(&cache, effort, fetch, bundled::install) {
        Ok(note) => Finding::there(WHAT, note),
        Err(why) => Finding::missing(
            WHAT,
            format!(
                "dpb's own scan runs, comparisons with DuckDB do not. Tried: {why}. `cargo xtask setup` tries again, and \
                 compiles DuckDB if need be, about 25 minutes on 2 cores; or put a {FILE} into a folder and set \
                 DUCKDB_LIB_DIR to it"
            ),
        ),
    }
}

/// Fetches a library into `cache` or, if that fails and may take so long, compiles one; neither if it failed lately.
fn make(
    cache: &Path,
    effort: Effort,
    fetch: impl FnOnce(&Path, &str, bool) -> Result<String, String>,
    compile: impl FnOnce(&Path, bool) -> Result<String, String>,
) -> Result<String, String> {
    let offline = effort.offline;
    let name = format!("fetch-{ARCH}");
    let fetch = || fetch(cache, ARCH, offline);
    let fetched = failures::unless_failed_lately(cache, &name, offline, fetch);
    let Err(why) = fetched else { return fetched };
    if !effort.compile {
        return Err(why);
    }
    let compile = || {
        println!("no {WHAT} could be fetched: {why}");
        compile(cache, offline)
    };
    failures::unless_failed_lately(cache, &format!("compile-{ARCH}"), offline, compile)
        .map_err(|also| format!("{why}; compiling: {also}"))
}

/// The cache's library for 64-bit Arm, whatever this machine is; fetched if there is none.
pub(super) fn find_or_fetch_for_aarch64() -> Finding {
    const WHAT: &str = "DuckDB for aarch64";
    const ARM: &str = "aarch64";
    let Some(cache) = cache_dir() else {
        return Finding::missing(WHAT, NO_CACHE);
    };
    if let Some(path) = cached(&cache, ARM) {
        return Finding::there(WHAT, path.display().to_string());
    }
    let fetch = || fetch(&cache, ARM, false);
    match failures::unless_failed_lately(&cache, &format!("fetch-{ARM}"), false, fetch) {
        Ok(note) => Finding::there(WHAT, note),
        Err(why) => Finding::missing(
            WHAT,
            format!("comparisons with DuckDB do not run there. Tried: {why}"),
        ),
    }
}

/// Forgets what was tried in vain, so that it is tried again.
pub(super) fn forget_failures() {
    if let Some(cache) = cache_dir() {
        failures::forget(&cache);
    }
}

/// Tries one source after the other; says what worked, or why none did.
fn fetch(cache: &Path, arch: &str, offline: bool) -> Result<String, String> {
    let mut tried = Vec::new();
    let for_arch = |source: &&Source| cfg!(target_os = "linux") && source.arch == arch;
    for source in SOURCES.iter().filter(for_arch) {
        match source.install(cache, offline) {
            Ok(note) => return Ok(note),
            Err(why) => tried.push(why),
        }
    }
    if tried.is_empty() {
        tried.push(format!("no prebuilt library for {arch} is known"));
    }
    Err(tried.join("; "))
}

impl Source {
    /// Fetches, checks, unpacks and puts into the cache; says what it did.
    fn install(&self, cache: &Path, offline: bool) -> Result<String, String> {
        if !shell::has(self.client) {
            return Err(format!("{} is not installed", self.client));
        }
        let at = |path: &Path, why: io::Error| format!("{}: {why}", path.display());
        fs::create_dir_all(cache).map_err(|why| at(cache, why))?;
        let scratch = Scratch::under(cache).map_err(|why| at(cache, why))?;
        println!(
            "fetching {WHAT} {} for {} with {}",
            self.version, self.arch, self.client
        );
        let archive = (self.fetch)(scratch.path(), offline)?;
        let (expected, found) = (self.archive_sha256, sha256(&archive));
        let found = found.map_err(|why| at(&archive, why))?;
        if found != expected {
            return Err(format!(
                "{} gave an archive whose SHA-256 is {found}, not {expected}",
                self.client
            ));
        }
        let unpacked = (self.unpack)(&archive, scratch.path())?;
        let kept = keep(&unpacked, cache, self.version, self.arch)?;
        Ok(format!(
            "{} (fetched with {}, SHA-256 checked)",
            kept.display(),
            self.client
        ))
    }
}

/// Where `dpb` looks too.
fn cache_dir() -> Option<PathBuf> {
    Some(super::cache_dir()?.join("duckdb"))
}

/// The newest library in the cache.
fn cached(cache: &Path, arch: &str) -> Option<PathBuf> {
    let suffix = format!("-{arch}");
    let entries = cache.read_dir().ok()?.filter_map(Result::ok);
    entries
        .filter(|entry| entry.file_name().to_string_lossy().ends_with(&suffix))
        .map(|entry| entry.path().join(FILE))
        .filter(|path| path.is_file())
        .max()
}

/// The library that the system's loader knows.
fn installed() -> Option<String> {
    let program = if shell::has("ldconfig") {
        "ldconfig"
    } else {
        "/sbin/ldconfig"
    };
    let mut ldconfig = shell::command(program);
    ldconfig.arg("-p");
    let listing = shell::output(ldconfig)?;
    let line = listing
        .lines()
        .find(|line| line.trim_start().starts_with(FILE))?;
    Some(line.split("=> ").nth(1)?.to_owned())
}

fn fetch_with_maven(to: &Path, offline: bool) -> Result<PathBuf, String> {
    let mut mvn = shell::command("mvn");
    mvn.args(["--batch-mode", "--quiet"]);
    if offline {
        mvn.arg("--offline");
    }
    mvn.arg("dependency:copy")
        .arg("-Dartifact=org.duckdb:duckdb_jdbc:2.0.0.1")
        .arg(format!("-DoutputDirectory={}", to.display()))
        // No project is wanted, and one in this folder would be taken.
        .current_dir(to);
    shell::run(mvn, Duration::from_secs(300))?;
    Ok(to.join("duckdb_jdbc-2.0.0.1.jar"))
}

fn fetch_with_npm(arch: &str, to: &Path, offline: bool) -> Result<PathBuf, String> {
    let mut npm = shell::command("npm");
    npm.args([
        "pack",
        "--silent",
        "--fetch-retries=1",
        "--fetch-timeout=20000",
    ]);
    if offline {
        npm.arg("--offline");
    }
    npm.arg(format!("@duckdb/node-bindings-linux-{arch}@1.5.5-r.5"))
        .current_dir(to);
    shell::run(npm, Duration::from_secs(180))?;
    Ok(to.join(format!("duckdb-node-bindings-linux-{arch}-1.5.5-r.5.tgz")))
}

/// Takes one member out of a zip archive with whichever program is there.
fn unzip(archive: &Path, to: &Path, member: &str) -> Result<PathBuf, String> {
    let mut unzip = shell::command("unzip");
    unzip.arg("-q").arg(archive).arg(member);
    let mut jar = shell::command("jar");
    jar.arg("xf").arg(archive).arg(member);
    let mut python = shell::command("python3");
    python.args(["-m", "zipfile", "-e"]).arg(archive).arg(".");
    let mut tried = Vec::new();
    for mut command in [unzip, jar, python] {
        command.current_dir(to);
        match shell::run(command, Duration::from_secs(120)) {
            Ok(()) => return Ok(to.join(member)),
            Err(why) => tried.push(why),
        }
    }
    Err(format!(
        "no program could unpack {}: {}",
        archive.display(),
        tried.join(", ")
    ))
}

fn untar(archive: &Path, to: &Path) -> Result<PathBuf, String> {
    let member = format!("package/{FILE}");
    let mut tar = shell::command("tar");
    tar.arg("xzf").arg(archive).arg(&member).current_dir(to);
    shell::run(tar, Duration::from_secs(120))?;
    Ok(to.join(member))
}

/// In hexadecimal.
fn sha256(path: &Path) -> io::Result<String> {
    let mut hasher = Sha256::new();
    let mut file = File::open(path)?;
    let mut block = vec![0; 1 << 20];
    loop {
        match io::Read::read(&mut file, &mut block)? {
            0 => break,
            len => hasher.update(&block[..len]),
        }
    }
    Ok(hasher
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// FIPS 180-4's example of one block, over a file.
    #[test]
    fn digest_of_a_file() {
        let scratch = Scratch::new().unwrap();
        let path = scratch.path().join("abc");
        fs::write(&path, "abc").unwrap();
        assert_eq!(
            sha256(&path).unwrap(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }

    fn source(archive_sha256: &'static str) -> Source {
        Source {
            arch: "vax",
            client: "sh",
            version: "9.9.9",
            fetch: |to, _| {
                let archive = to.join("archive");
                fs::write(&archive, "abc").map_err(|why| why.to_string())?;
                Ok(archive)
            },
            archive_sha256,
            unpack: |archive, to| {
                let library = to.join("library");
                fs::copy(archive, &library).map_err(|why| why.to_string())?;
                Ok(library)
            },
        }
    }

    #[test]
    fn what_is_not_what_was_pinned_stays_out() {
        let cache = Scratch::new().unwrap();
        let wrong = source("00");
        let refused = wrong.install(cache.path(), true).unwrap_err();
        assert!(refused.contains("SHA-256"), "{refused}");
        assert_eq!(cached(cache.path(), "vax"), None);
        assert_eq!(
            cache.path().read_dir().unwrap().count(),
            0,
            "something was left behind"
        );
    }

    #[test]
    fn what_can_be_fetched_is_not_compiled_and_what_failed_is_not_tried_again() {
        use std::cell::RefCell;
        let cache = Scratch::new().unwrap();
        let log = RefCell::new(Vec::new());
        let does = |what: &'static str, succeeds: bool| {
            log.borrow_mut().push(what);
            match succeeds {
                true => Ok(what.to_owned()),
                false => Err(format!("no {what}")),
            }
        };
        let make = |effort, can_fetch, can_compile| {
            log.borrow_mut().clear();
            let made = make(
                cache.path(),
                effort,
                |_, _, _| does("fetch", can_fetch),
                |_, _| does("compile", can_compile),
            );
            (made, log.borrow().join(" "))
        };
        let (test, demo) = (
            Effort::default(),
            Effort {
                compile: true,
                ..Effort::default()
            },
        );
        assert_eq!(
            make(demo, true, true),
            (Ok("fetch".to_owned()), "fetch".to_owned())
        );
        assert_eq!(
            make(test, false, true),
            (Err("no fetch".to_owned()), "fetch".to_owned())
        );
        let (again, did) = make(test, true, true);
        assert!(again.is_err_and(|why| why.contains("no fetch (0 h ago")));
        assert_eq!(did, "");
        // What takes long was not tried so far.
        let (failed, did) = make(demo, false, false);
        assert!(failed.is_err_and(|why| why.ends_with("compiling: no compile")));
        assert_eq!(did, "compile");
        assert_eq!(make(demo, true, true).1, "");
        failures::forget(cache.path());
        assert_eq!(
            make(demo, false, true),
            (Ok("compile".to_owned()), "fetch compile".to_owned())
        );
    }

    #[test]
    fn what_was_fetched_is_found_again() {
        let cache = Scratch::new().unwrap();
        let right = source("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        for _ in 0..2 {
            right.install(cache.path(), true).unwrap();
        }
        let expected = cache.path().join("9.9.9-vax").join(FILE);
        assert_eq!(cached(cache.path(), "vax"), Some(expected));
    }
}
