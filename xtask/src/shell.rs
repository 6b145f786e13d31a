//! Running other programs from the root of the tree.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};

/// The root of the tree that `cargo xtask` was called in. Where clones share a target folder, this program may have been
/// built from another one.
pub(crate) fn root() -> PathBuf {
    let by_cargo = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    by_cargo
        .unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")))
        .parent()
        .expect("xtask lies in the root")
        .to_path_buf()
}

/// Where cargo puts what it builds.
pub(crate) fn target_dir() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => root().join(dir),
        None => root().join("target"),
    }
}

/// The cargo that runs this, in the root.
pub(crate) fn cargo() -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    in_root(Command::new(cargo))
}

/// The nightly cargo, in the root.
pub(crate) fn cargo_nightly() -> Command {
    let mut command = in_root(Command::new("rustup"));
    command.args(["run", "nightly", "cargo"]);
    command
}

/// The triple that nightly builds for.
pub(crate) fn nightly_host() -> Result<String> {
    let version = output(Command::new("rustup").args(["run", "nightly", "rustc", "-vV"]))
        .context("needs nightly: rustup toolchain install nightly --profile minimal")?;
    let line = version.lines().find_map(|line| line.strip_prefix("host: "));
    line.map(str::to_string).context("rustc -vV names no host")
}

fn in_root(mut command: Command) -> Command {
    command.current_dir(root());
    command
}

/// Shows the command and runs it; its output goes where ours goes.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = start(command)?.wait()?;
    ensure!(status.success(), "`{}` failed: {status}", shown(command));
    Ok(())
}

/// Shows the command and runs it; its output is shown whole when it has ended, for what runs beside others.
pub(crate) fn run_whole(command: &mut Command) -> Result<()> {
    command.stdin(Stdio::null());
    let child = start(command.stdout(Stdio::piped()).stderr(Stdio::piped()))?;
    let output = child.wait_with_output()?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (said, complaints) = (text(&output.stdout), text(&output.stderr));
    println!("$ {}\n{complaints}{said}", shown(command));
    let status = output.status;
    ensure!(status.success(), "`{}` failed: {status}", shown(command));
    Ok(())
}

/// Shows the command and starts it.
pub(crate) fn start(command: &mut Command) -> Result<Child> {
    eprintln!("$ {}", shown(command));
    command
        .spawn()
        .with_context(|| format!("cannot start `{}`", shown(command)))
}

/// Runs the command quietly; what it writes to stdout.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output = command
        .stderr(Stdio::piped())
        .output()
        .with_context(|| format!("cannot start `{}`", shown(command)))?;
    ensure!(
        output.status.success(),
        "`{}` failed: {}\n{}",
        shown(command),
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).context("output is not UTF-8")
}

/// Where `program` is on the PATH.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|dir| dir.join(program))
        .find(|file| file.is_file())
}

/// As a person would type it, with the variables that are set for it.
fn shown(command: &Command) -> String {
    let variables = command
        .get_envs()
        .filter_map(|(name, value)| Some((name.to_string_lossy(), value?.to_string_lossy())))
        .map(|(name, value)| format!("{name}={}", quoted(&value)));
    let words = std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| quoted(&word.to_string_lossy()));
    variables.chain(words).collect::<Vec<_>>().join(" ")
}

fn quoted(word: &str) -> String {
    if word.contains([' ', '"', '\'', '$', '*']) || word.is_empty() {
        format!("'{}'", word.replace('\'', r"'\''"))
    } else {
        word.to_string()
    }
}
