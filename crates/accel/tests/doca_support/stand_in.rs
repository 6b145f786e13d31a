//! The stand-in for DOCA's libraries, compiled.
//!
//! `DPB_STAND_IN_CC` or `CC`, and `DPB_STAND_IN_CFLAGS` say how it is compiled: with instrumentation for AddressSanitizer, for one.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// A release that the stand-in stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flavour {
    pub(crate) name: &'static str,
    family: u32,
    /// The version node of libdoca_common's functions.
    node: &'static str,
    engines: &'static [&'static str],
}

pub(crate) const FLAVOURS: [Flavour; 3] = [
    Flavour {
        name: "jobs-2.2",
        family: 22,
        node: "EXPERIMENTAL",
        engines: &["dma", "compress", "sha", "regex"],
    },
    Flavour {
        name: "tasks-2.5",
        family: 25,
        node: "DOCA_2",
        engines: &["dma", "compress", "sha", "aes_gcm", "erasure_coding"],
    },
    Flavour {
        name: "tasks-2.10",
        family: 210,
        node: "DOCA_2",
        engines: &["dma", "compress", "sha", "aes_gcm", "erasure_coding"],
    },
];

/// A library that the stand-in computes with, where it is installed.
struct Helper {
    name: &'static str,
    header: &'static str,
    flags: &'static [&'static str],
    operators: &'static [&'static str],
    /// The package to install.
    package: &'static str,
}

const HELPERS: [Helper; 3] = [
    Helper {
        name: "zlib",
        header: "zlib.h",
        flags: &["-DWITH_ZLIB", "-lz"],
        operators: &["deflate", "inflate"],
        package: "zlib's headers (zlib1g-dev)",
    },
    Helper {
        name: "crypto",
        header: "openssl/evp.h",
        flags: &["-DWITH_CRYPTO", "-lcrypto"],
        operators: &["sha1", "sha256", "sha512", "aes-gcm", "aes-gcm-decrypt"],
        package: "OpenSSL's headers (libssl-dev)",
    },
    Helper {
        name: "pcre2",
        header: "pcre2.h",
        flags: &["-DWITH_PCRE2", "-DPCRE2_CODE_UNIT_WIDTH=8", "-lpcre2-8"],
        operators: &["rxpmatch"],
        package: "PCRE2's headers (libpcre2-dev)",
    },
];

impl Flavour {
    /// The folder with its libraries, or why there is none.
    pub(crate) fn libraries(self) -> Result<PathBuf, String> {
        // One thread builds, others wait for it.
        static BUILDING: Mutex<()> = Mutex::new(());
        let _building = BUILDING.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!(
            "doca-{}-{:016x}",
            self.name,
            sources()
        ));
        if folder.exists() {
            return Ok(folder);
        }
        let building = folder.with_extension(std::process::id().to_string());
        fs::create_dir_all(&building).map_err(|error| error.to_string())?;
        if let Err(why) = self.build(&building) {
            assert!(
                why.starts_with(NO_COMPILER),
                "the stand-in does not compile: {why}"
            );
            return Err(why);
        }
        // Another process may have been quicker.
        if fs::rename(&building, &folder).is_err() {
            fs::remove_dir_all(&building).map_err(|error| error.to_string())?;
        }
        Ok(folder)
    }

    fn build(self, folder: &Path) -> Result<(), String> {
        let map = |node: &str, names: &str| format!("{node} {{ global: {names}; local: *; }};\n");
        let common = map(self.node, "doca_*; dpb_stand_in")
            + &map("INTERNAL", "dpb_internal_*").replace(" local: *;", "");
        let written = fs::write(folder.join("common.map"), common)
            .and_then(|()| fs::write(folder.join("engine.map"), map("EXPERIMENTAL", "doca_*")));
        written.map_err(|error| error.to_string())?;
        let mut with = Vec::new();
        for helper in HELPERS {
            if helper.is_installed(folder) {
                with.extend(helper.flags);
                fs::write(folder.join(helper.name), "").map_err(|error| error.to_string())?;
            }
        }
        let common = ["common.c", "work.c", "erasure.c", "regex.c"];
        self.compile(folder, "common", &common, &with)?;
        for engine in self.engines {
            let define = format!("-DLIB_{}", engine.to_uppercase());
            let search = format!("-L{}", folder.display());
            self.compile(
                folder,
                engine,
                &["engines.c"],
                &[&define, &search, "-l:libdoca_common.so.2"],
            )?;
        }
        Ok(())
    }

    /// The release, as its version says: `2.10`.
    pub(crate) fn release(self) -> &'static str {
        self.name.split_once('-').expect("family and release").1
    }

    /// The operators that these `libraries` have, and which they have not for want of what.
    pub(crate) fn operators(self, libraries: &Path) -> (Vec<&'static str>, Vec<String>) {
        let mut operators = vec!["copy", "erasure-encode", "erasure-recover"];
        if self.family >= 210 {
            operators.push("unlz4");
        }
        let mut skipped = Vec::new();
        for helper in HELPERS {
            let (has, package) = (helper.operators, helper.package);
            match libraries.join(helper.name).exists() {
                true => operators.extend(has),
                false => skipped.push(format!("{}: install {package}", has.join(", "))),
            }
        }
        let has = |engine| self.engines.contains(&engine);
        operators.retain(|name| has("aes_gcm") || !name.starts_with("aes"));
        operators.retain(|name| has("erasure_coding") || !name.starts_with("erasure"));
        operators.retain(|name| has("regex") || *name != "rxpmatch");
        (operators, skipped)
    }

    fn compile(
        self,
        folder: &Path,
        name: &str,
        sources: &[&str],
        flags: &[&str],
    ) -> Result<(), String> {
        let soname = format!("libdoca_{name}.so.2");
        let map = if name == "common" {
            "common.map"
        } else {
            "engine.map"
        };
        let extra = std::env::var("DPB_STAND_IN_CFLAGS").unwrap_or_default();
        let mut command = Command::new(compiler());
        command
            .args([
                "-std=c11", "-O1", "-g", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror",
            ])
            .args(extra.split_whitespace())
            .arg(format!("-DFAMILY={}", self.family))
            .args(sources.iter().map(|source| native().join(source)))
            .arg("-o")
            .arg(folder.join(&soname))
            .arg(format!("-Wl,-soname,{soname}"))
            .arg(format!(
                "-Wl,--version-script={}",
                folder.join(map).display()
            ))
            .args(flags);
        succeeds(&mut command)
    }
}

impl Helper {
    /// Whether nothing but its header and its flags compiles.
    fn is_installed(&self, folder: &Path) -> bool {
        let probe = folder.join("probe.c");
        let source = format!("#include <{}>\n", self.header);
        fs::write(&probe, source).expect("its folder was made");
        let mut command = Command::new(compiler());
        command.args(["-fPIC", "-shared", "-o"]);
        command.arg(folder.join("probe.so")).arg(probe);
        succeeds(command.args(self.flags)).is_ok()
    }
}

/// Compiles C that stands for itself to a library.
pub(crate) fn compile(source: &str, library: &Path) -> Result<(), String> {
    let file = library.with_extension("c");
    fs::write(&file, source).map_err(|error| error.to_string())?;
    let mut command = Command::new(compiler());
    command
        .args(["-fPIC", "-shared", "-o"])
        .arg(library)
        .arg(file);
    succeeds(&mut command)
}

const NO_COMPILER: &str = "no C compiler";

/// Whether a compiler succeeds, or what it says.
fn succeeds(command: &mut Command) -> Result<(), String> {
    let output = command
        .output()
        .map_err(|error| format!("{NO_COMPILER}: {error}; install gcc or clang"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

/// The folder of the stand-in's sources.
pub(crate) fn native() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../accel/native/doca")
}

/// The compiler of C for the machine that these tests run on, which may be an emulated one.
pub(crate) fn compiler() -> String {
    let named = std::env::var("DPB_STAND_IN_CC").or_else(|_| std::env::var("CC"));
    named.unwrap_or_else(|_| "cc".to_owned())
}

/// A number that tells one state of the sources, and of how they are compiled, from another.
fn sources() -> u64 {
    let mut files: Vec<PathBuf> = fs::read_dir(native())
        .expect("the stand-in's sources are in this package")
        .map(|entry| entry.expect("readable").path())
        .collect();
    files.sort();
    let mut bytes: Vec<u8> = files
        .iter()
        .flat_map(|file| fs::read(file).expect("readable"))
        .collect();
    bytes.extend(compiler().bytes());
    bytes.extend(
        std::env::var("DPB_STAND_IN_CFLAGS")
            .unwrap_or_default()
            .bytes(),
    );
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
