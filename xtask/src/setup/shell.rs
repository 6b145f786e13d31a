//! Other people's programs: found, run within a time limit, and quoted when they fail.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Whether `program` is on the PATH.
pub(super) fn has(program: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(program).is_file()))
}

/// A command that asks nothing.
pub(super) fn command(program: &str) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null());
    command
}

/// Runs `command` to its end or for at most `limit`.
///
/// # Errors
/// Why it did not succeed, with the last line that it printed.
pub(super) fn run(mut command: Command, limit: Duration) -> Result<(), String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let log = Scratch::new().map_err(|why| format!("{program}: {why}"))?;
    let log_path = log.path().join("log");
    let open = || File::create(&log_path).and_then(|file| Ok((file.try_clone()?, file)));
    let (out, err) = open().map_err(|why| format!("{program}: {why}"))?;
    let mut child = command
        .stdout(out)
        .stderr(err)
        .spawn()
        .map_err(|why| format!("{program}: {why}"))?;
    let deadline = Instant::now() + limit;
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => {
                let text = std::fs::read(&log_path).unwrap_or_default();
                let text = String::from_utf8_lossy(&text);
                let telling = text.lines().rfind(|line| !line.trim().is_empty());
                return Err(format!(
                    "{program}: {status}: {}",
                    telling.unwrap_or("").trim()
                ));
            }
            Ok(None) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(20)),
            Ok(None) => {
                // It is ours; what it left is in scratch folders.
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!(
                    "{program}: gave nothing within {} s",
                    limit.as_secs()
                ));
            }
            Err(why) => return Err(format!("{program}: {why}")),
        }
    }
}

/// What `command` prints, if it succeeds.
pub(super) fn output(mut command: Command) -> Option<String> {
    let output = command.stderr(Stdio::null()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then_some(text)
}

/// A folder that is removed when dropped.
pub(super) struct Scratch(std::path::PathBuf);

impl Scratch {
    /// A new one under the system's folder for such.
    pub(super) fn new() -> std::io::Result<Self> {
        Self::under(&std::env::temp_dir())
    }

    /// A new one under `dir`, so that what is made in it can be renamed into `dir`.
    pub(super) fn under(dir: &Path) -> std::io::Result<Self> {
        use std::sync::atomic::{AtomicU32, Ordering};
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = dir.join(format!(".dpb-setup-{}-{number}", std::process::id()));
        std::fs::create_dir(&path)?;
        Ok(Self(path))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_quoted_or_given_up() {
        let sh = |script: &str| {
            let mut command = command("sh");
            command.args(["-c", script]);
            command
        };
        assert_eq!(run(sh("true"), Duration::from_secs(60)), Ok(()));
        let failed = run(
            sh("echo first; echo why >&2; exit 3"),
            Duration::from_secs(60),
        );
        assert!(
            failed.as_ref().is_err_and(|text| text.ends_with("why")),
            "{failed:?}"
        );
        let slow = run(sh("exec sleep 60"), Duration::from_millis(50));
        assert!(slow.is_err_and(|text| text.contains("within")));
        assert!(run(command("no-such-program"), Duration::from_secs(1)).is_err());
        assert_eq!(output(sh("echo text")).as_deref(), Some("text\n"));
    }

    #[test]
    fn a_scratch_folder_goes() {
        let scratch = Scratch::new().unwrap();
        let path = scratch.path().to_owned();
        std::fs::write(path.join("file"), "text").unwrap();
        drop(scratch);
        assert!(!path.exists());
    }
}
