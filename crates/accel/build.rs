//! Builds the shim over DPDK's inlines where pkg-config knows DPDK and there is a C compiler. Where not, the crate is
//! built with an empty file instead of the shim, and `DPB_DPDK_SHIM_ABSENT` says why.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

const FILES: [&str; 5] = ["shim.c", "crypto.c", "compress.c", "port.c", "heap.c"];
/// Compiled for each of the levels.
const LEVEL_FILES: [&str; 4] = ["sums.c", "routes.c", "packets.c", "flows.c"];
const HEADERS: [&str; 3] = ["shim.h", "parts.h", "libraries.h"];

/// Levels of instruction sets, of which the shim takes the best that the CPU has (`has` in `shim.c` asks for just these); and what
/// the compiler is told besides what pkg-config says. Other machines have the first alone.
const LEVELS: &[(&str, &[&str])] = &[
    ("base", &[]),
    (
        "avx2",
        &["-mavx2", "-mbmi", "-mbmi2", "-mfma", "-mtune=native"],
    ),
    (
        "avx512",
        &[
            "-mavx2",
            "-mbmi",
            "-mbmi2",
            "-mfma",
            "-mavx512f",
            "-mavx512bw",
            "-mavx512cd",
            "-mavx512dq",
            "-mavx512vl",
            "-mavx512vbmi",
            "-mgfni",
            "-mtune=native",
        ],
    ),
];

const FLAGS: [&str; 5] = [
    "-fPIC",
    "-O3",
    "-std=gnu11",
    "-fvisibility=hidden",
    "-DALLOW_EXPERIMENTAL_API",
];
const VERSION_MIN: &str = "22.11";
/// Names a folder in which the target's packages are unpacked, for a build for another machine.
const CROSS_ROOT: &str = "DPB_CROSS_ROOT";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    for file in FILES.iter().chain(&LEVEL_FILES).chain(&HEADERS) {
        println!("cargo::rerun-if-changed=native/dpdk/{file}");
    }
    for variable in ["PKG_CONFIG", "PKG_CONFIG_PATH", "CC", CROSS_ROOT] {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    // What is installed later is found at the next build.
    let arch = env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    let of_distribution = format!("/usr/lib/{arch}-linux-gnu/pkgconfig");
    for folder in [
        &of_distribution,
        "/usr/lib64/pkgconfig",
        "/usr/local/lib/pkgconfig",
    ] {
        // Cargo takes a path that does not exist for one that has changed.
        if Path::new(folder).is_dir() {
            println!("cargo::rerun-if-changed={folder}");
        }
    }
    let folder = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let shim = folder.join("libdpb_dpdk.so");
    if let Err(why) = dpdk_shim(&folder, &shim) {
        println!("cargo::rustc-env=DPB_DPDK_SHIM_ABSENT={why}");
        std::fs::write(&shim, "").expect("cargo's own folder");
    }
}

/// Compiles in `folder` and links the shim; in one line why it cannot.
fn dpdk_shim(folder: &Path, shim: &Path) -> Result<(), String> {
    if is_cross() && env::var_os(CROSS_ROOT).is_none() {
        return Err(
            "this is a cross build, and pkg-config answers for the machine that built it".into(),
        );
    }
    let version = pkg_config(&["--modversion"])?;
    pkg_config(&["--atleast-version", VERSION_MIN]).map_err(|_| {
        format!(
            "pkg-config knows DPDK {}, older than {VERSION_MIN}",
            version.trim()
        )
    })?;
    let (compile, link) = (pkg_config(&["--cflags"])?, pkg_config(&["--libs"])?);
    // Both lists as they are: what is included before all else, and the CPU that the inlines need, are among them.
    let compile: Vec<&str> = compile.split_whitespace().collect();
    let mut objects = Vec::new();
    let levels = match env::var("CARGO_CFG_TARGET_ARCH").as_deref() {
        Ok("x86_64") => LEVELS,
        _ => &LEVELS[..1],
    };
    for (level, flags) in levels {
        for file in LEVEL_FILES {
            let object = folder.join(format!("{file}.{level}.o"));
            let mut compiler = compiler();
            compiler.arg("-c").args(FLAGS).args(&compile).args(*flags);
            compiler
                .arg(format!("-DDPB_LEVEL={level}"))
                .arg(format!("native/dpdk/{file}"))
                .arg("-o")
                .arg(&object);
            succeeds(&mut compiler)?;
            objects.push(object);
        }
    }
    let mut linker = compiler();
    linker.arg("-shared").args(FLAGS).args(&compile);
    linker
        .args(FILES.map(|file| format!("native/dpdk/{file}")))
        .args(&objects)
        .arg("-o")
        .arg(shim)
        .args(link.split_whitespace());
    succeeds(&mut linker)
}

fn is_cross() -> bool {
    env::var_os("HOST") != env::var_os("TARGET")
}

/// As compilers and folders of the distribution call the target.
fn triple() -> String {
    let arch = env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    format!("{arch}-linux-gnu")
}

fn compiler() -> Command {
    match is_cross() {
        true => Command::new(format!("{}-gcc", triple())),
        false => Command::new(env::var("CC").unwrap_or_else(|_| "cc".to_owned())),
    }
}

/// Runs a compiler; the first error that it names, if it fails.
fn succeeds(compiler: &mut Command) -> Result<(), String> {
    let name = compiler.get_program().to_string_lossy().into_owned();
    let output = compiler
        .output()
        .map_err(|error| format!("no C compiler: {name}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let error = said.lines().find(|line| line.contains("error"));
    let error = error.unwrap_or("it says not why");
    Err(format!("{name} failed: {error}"))
}

/// The words of pkg-config for DPDK.
fn pkg_config(arguments: &[&str]) -> Result<String, String> {
    let program = env::var("PKG_CONFIG").unwrap_or_else(|_| "pkg-config".to_owned());
    let mut command = Command::new(&program);
    command.args(arguments).arg("libdpdk");
    if let (true, Ok(root)) = (is_cross(), env::var(CROSS_ROOT)) {
        let folders = [
            format!("{root}/usr/lib/{}/pkgconfig", triple()),
            format!("{root}/usr/share/pkgconfig"),
        ];
        command
            .env("PKG_CONFIG_SYSROOT_DIR", &root)
            .env("PKG_CONFIG_LIBDIR", folders.join(":"));
    }
    let output = command
        .output()
        .map_err(|error| format!("{program}: {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("{program} knows no libdpdk")),
    }
}
