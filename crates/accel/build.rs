//! Builds the shim over DPDK's inlines where pkg-config knows DPDK and there is a C compiler. Where not, the crate is
//! built without: `DPB_DPDK_SHIM_BUILT` says where the shim is, `DPB_DPDK_SHIM_ABSENT` why there is none.

use std::env;
use std::path::PathBuf;
use std::process::Command;

const FILES: [&str; 4] = ["shim.c", "crypto.c", "compress.c", "port.c"];
const HEADERS: [&str; 2] = ["shim.h", "parts.h"];
const VERSION_MIN: &str = "22.11";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    for file in FILES.iter().chain(&HEADERS) {
        println!("cargo::rerun-if-changed=native/dpdk/{file}");
    }
    for variable in ["PKG_CONFIG", "PKG_CONFIG_PATH", "CC"] {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    match dpdk_shim() {
        Ok(path) => println!("cargo::rustc-env=DPB_DPDK_SHIM_BUILT={}", path.display()),
        Err(why) => println!("cargo::rustc-env=DPB_DPDK_SHIM_ABSENT={why}"),
    }
}

/// Compiles and links the shim; where it is, or in one line why it is not.
fn dpdk_shim() -> Result<PathBuf, String> {
    if env::var_os("HOST") != env::var_os("TARGET") {
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
    let folder = PathBuf::from(env::var_os("OUT_DIR").ok_or("no OUT_DIR")?);
    let shim = folder.join("libdpb_dpdk.so");
    let compiler = env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    // Both lists as they are: what is included before all else, and the CPU that the inlines need, are among them.
    let output = Command::new(&compiler)
        .args([
            "-shared",
            "-fPIC",
            "-O3",
            "-std=gnu11",
            "-fvisibility=hidden",
        ])
        .args(["-DALLOW_EXPERIMENTAL_API", "-o"])
        .arg(&shim)
        .args(compile.split_whitespace())
        .args(FILES.map(|file| format!("native/dpdk/{file}")))
        .args(link.split_whitespace())
        .output()
        .map_err(|error| format!("no C compiler: {compiler}: {error}"))?;
    if output.status.success() {
        return Ok(shim);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let error = said.lines().find(|line| line.contains("error"));
    Err(format!(
        "{compiler} failed: {}",
        error.unwrap_or("it says not why")
    ))
}

/// What pkg-config says of DPDK.
fn pkg_config(arguments: &[&str]) -> Result<String, String> {
    let program = env::var("PKG_CONFIG").unwrap_or_else(|_| "pkg-config".to_owned());
    let output = Command::new(&program)
        .args(arguments)
        .arg("libdpdk")
        .output()
        .map_err(|error| format!("{program}: {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("{program} knows no libdpdk")),
    }
}
