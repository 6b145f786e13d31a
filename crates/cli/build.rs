//! Tells `dpb` what it was built from. Without git, or outside a checkout, the revision is left out.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    let rustc = first_line(Command::new(rustc).arg("--version")).unwrap_or_default();
    let target = std::env::var("TARGET").unwrap_or_default();
    println!("cargo::rustc-env=DPB_TOOLCHAIN={rustc}, {target}");
    let git = |args: &[&str]| first_line(Command::new("git").args(args));
    let revision = git(&["describe", "--always", "--dirty", "--tags"]);
    let revision = revision.map_or(String::new(), |revision| format!(" ({revision})"));
    let version = std::env::var("CARGO_PKG_VERSION").unwrap_or_default();
    println!("cargo::rustc-env=DPB_VERSION={version}{revision}");
    // A commit moves one of these; a file that is not there would make every build a new one.
    for name in ["HEAD", "logs/HEAD"] {
        if let Some(path) = git(&["rev-parse", "--git-path", name])
            && Path::new(&path).exists()
        {
            println!("cargo::rerun-if-changed={path}");
        }
    }
}

fn first_line(command: &mut Command) -> Option<String> {
    let output = command
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?;
    let line = text.lines().next()?.trim();
    (!line.is_empty()).then(|| line.to_owned())
}
