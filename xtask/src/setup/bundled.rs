//! DuckDB compiled here, where no library can be fetched, and put where fetched ones go.
//!
//! The crate `libduckdb-sys` has the sources and compiles them into archives (feature `duckdb-bundled`). They are linked
//! into a library, so that every build of ours finds it at run time, as it finds a fetched one.

use std::env::consts::ARCH;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use super::kept::{FILE, keep};
use super::shell::{self, Scratch};

const PACKAGE: &str = "libduckdb-sys";

/// Compiles, links and puts into the cache; says what it did. The flag: without a network.
pub(super) fn install(cache: &Path, offline: bool) -> Result<String, String> {
    if !shell::has("c++") {
        return Err("there is no c++ to compile it with".to_owned());
    }
    println!(
        "compiling DuckDB, since none could be fetched: about 25 minutes on 2 cores, once. dpb's own scan runs without it: \
         to do without, stop this with Ctrl-C, and `cargo xtask demo` goes on alone"
    );
    let built = compile(offline)?;
    let at = |why: std::io::Error| format!("{}: {why}", cache.display());
    std::fs::create_dir_all(cache).map_err(at)?;
    let scratch = Scratch::under(cache).map_err(at)?;
    let library = link(&built.folder, scratch.path())?;
    let kept = keep(&library, cache, &built.version, ARCH)?;
    Ok(format!("{} (compiled here)", kept.display()))
}

/// What cargo says of the sources that it built.
#[derive(Debug, PartialEq, Eq)]
struct Built {
    /// Where the archives are.
    folder: PathBuf,
    /// DuckDB's version.
    version: String,
}

/// Builds the archives; what cargo and the compiler say goes to stderr.
fn compile(offline: bool) -> Result<Built, String> {
    let mut cargo = crate::shell::cargo();
    cargo
        .args(["build", "--release", "--package", "dpb-dbmods"])
        .args(["--features", "duckdb-bundled"])
        .arg("--message-format=json-render-diagnostics")
        .stdout(Stdio::piped());
    if offline {
        cargo.arg("--offline");
    }
    let mut child = crate::shell::start(&mut cargo).map_err(|why| format!("{why:#}"))?;
    let stdout = child.stdout.take().expect("was piped");
    let built = BufReader::new(stdout)
        .lines()
        .map_while(Result::ok)
        .filter_map(|line| Built::from_message(&line))
        .last();
    let status = child.wait().map_err(|why| format!("cargo: {why}"))?;
    if !status.success() {
        return Err(format!("compiling it failed ({status}), as said above"));
    }
    built.ok_or_else(|| format!("cargo built no {PACKAGE}"))
}

impl Built {
    /// Reads a line of `cargo build --message-format=json`: that the package's build script ran.
    fn from_message(line: &str) -> Option<Self> {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        let package = message["package_id"].as_str()?;
        let (_, version) = package.rsplit_once(&format!("{PACKAGE}@"))?;
        if message["reason"] != "build-script-executed" {
            return None;
        }
        Some(Self {
            folder: PathBuf::from(message["out_dir"].as_str()?),
            version: version_of(version)?,
        })
    }
}

/// DuckDB's version in the package's, which is 1.MAJOR MINOR PATCH.ITS OWN, two digits each for MINOR and PATCH.
fn version_of(package: &str) -> Option<String> {
    let number: u32 = package.split('.').nth(1)?.parse().ok()?;
    let (major, minor, patch) = (number / 10_000, number / 100 % 100, number % 100);
    Some(format!("{major}.{minor}.{patch}"))
}

/// What the sources are compiled into: DuckDB, and what registers its extensions when the library is loaded.
const ARCHIVES: [&str; 2] = ["libduckdb.a", "libduckdb_static_extension_autoregister.a"];

/// Makes a library of all that is in the archives, in the folder `to`.
fn link(archives: &Path, to: &Path) -> Result<PathBuf, String> {
    let library = to.join(FILE);
    let mut linker = shell::command("c++");
    linker
        .args(["-shared", "-o"])
        .arg(&library)
        .arg("-Wl,--whole-archive")
        .args(ARCHIVES.map(|archive| archives.join(archive)))
        .args(["-Wl,--no-whole-archive", "-lpthread", "-ldl"]);
    shell::run(linker, Duration::from_secs(600))?;
    Ok(library)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shortened from what cargo 1.95 writes.
    #[test]
    fn what_cargo_says_is_understood() {
        let line = r#"{"reason":"build-script-executed","package_id":"registry+https://example.org/index#libduckdb-sys@1.20000.1","linked_libs":["static=duckdb"],"out_dir":"/target/release/build/libduckdb-sys-0123/out"}"#;
        let expected = Built {
            folder: PathBuf::from("/target/release/build/libduckdb-sys-0123/out"),
            version: "2.0.0".to_owned(),
        };
        assert_eq!(Built::from_message(line), Some(expected));
        let artifact = line.replace("build-script-executed", "compiler-artifact");
        let other = line.replace("libduckdb-sys@", "serde@");
        for line in [&artifact, &other, "", "Compiling"] {
            assert_eq!(Built::from_message(line), None, "{line}");
        }
        assert_eq!(version_of("1.10504.0").as_deref(), Some("1.5.4"));
    }

    #[test]
    fn archives_become_a_library_that_has_all_of_them() {
        if !shell::has("c++") || !shell::has("ar") {
            println!("skipped: there is no c++ or no ar");
            return;
        }
        let scratch = Scratch::new().unwrap();
        let dir = scratch.path();
        let run = |program: &str, args: &[&str]| {
            let mut command = shell::command(program);
            command.args(args).current_dir(dir);
            shell::run(command, Duration::from_secs(60)).unwrap();
        };
        for (archive, function) in ARCHIVES.into_iter().zip(["one", "other"]) {
            let code = format!("extern \"C\" int {function}() {{ return 1; }}");
            std::fs::write(dir.join("code.cpp"), code).unwrap();
            run("c++", &["-c", "-fPIC", "-o", "code.o", "code.cpp"]);
            run("ar", &["rcs", archive, "code.o"]);
        }
        let library = link(dir, dir).unwrap();
        // A program that is linked to it runs both.
        let code = "extern \"C\" int one(), other(); int main() { return one() + other() - 2; }";
        std::fs::write(dir.join("main.cpp"), code).unwrap();
        let library = library.to_str().unwrap();
        run("c++", &["-o", "main", "main.cpp", library]);
        run("./main", &[]);
    }
}
