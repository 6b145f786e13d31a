//! C's compiler as the judge of declarations that were written by hand.

use std::io::Write as _;
use std::process::{Command, Stdio};

/// What the compiler has against `claims` behind `headers`; `None` where there is no compiler, or no such header.
pub(super) fn compiles(headers: &str, claims: &str) -> Option<Result<(), String>> {
    compile(headers)?.ok()?;
    compile(&format!("{headers}{claims}"))
}

/// What the compiler says against `source`.
fn compile(source: &str) -> Option<Result<(), String>> {
    let mut compiler = Command::new("cc")
        .args(["-std=c11", "-x", "c", "-fsyntax-only", "-"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .ok()?;
    compiler.stdin.take()?.write_all(source.as_bytes()).ok()?;
    let output = compiler.wait_with_output().ok()?;
    Some(match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    })
}
