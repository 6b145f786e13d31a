//! A command that is run again and again: how long it takes, and what it says.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::unix::process::CommandExt;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use crate::interrupt;

/// The variable whose length each run draws.
const PADDING: &str = "DPB_AB_PADDING";
/// Its longest value: a page.
pub(super) const PADDING_MAX: usize = 4096;
/// How often the signal is looked at while a command runs.
const LOOK: Duration = Duration::from_millis(50);
/// Most of a command's words on stderr that an error repeats.
const SAID_BYTES_MAX: usize = 2000;
/// Most that is read of what a command prints.
const STDOUT_BYTES_MAX: u64 = 64 << 20;

/// A program and its arguments.
#[derive(Clone, Debug)]
pub(super) struct Command {
    words: Vec<String>,
}

/// One run of a command.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) wall_ns: f64,
    /// Of the process and of the children that it waited for.
    pub(super) cpu_ns: f64,
    /// Empty unless it was asked for.
    pub(super) stdout: String,
}

impl Command {
    pub(super) fn new(words: &[String]) -> Self {
        Self {
            words: words.to_vec(),
        }
    }

    /// Runs it once. `None` if the run was ended, by an interrupt or by `end`.
    pub(super) fn run(
        &self,
        padding: usize,
        keep_stdout: bool,
        end: Instant,
    ) -> Result<Option<Run>, String> {
        let told = |error: io::Error| error.to_string();
        let mut stderr = memory_file("stderr").map_err(told)?;
        let mut stdout = match keep_stdout {
            true => Some(memory_file("stdout").map_err(told)?),
            false => None,
        };
        let (program, arguments) = self.words.split_first().expect("a command has a word");
        let mut command = std::process::Command::new(program);
        command
            .args(arguments)
            .env(PADDING, "x".repeat(padding))
            .stdin(Stdio::null())
            .stderr(stderr.try_clone().map_err(told)?)
            // A group of its own, so that it can be ended with its children.
            .process_group(0);
        command.stdout(match &stdout {
            Some(file) => Stdio::from(file.try_clone().map_err(told)?),
            None => Stdio::null(),
        });
        let cpu_before_ns = children_cpu_ns();
        let start = Instant::now();
        let mut child = command.spawn().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => "there is no such program".to_owned(),
            _ => format!("cannot start it: {error}"),
        })?;
        let has_ended = wait(&child, end).map_err(told)?;
        if !has_ended {
            end_group(&child);
        }
        let status = child.wait().map_err(told)?;
        let wall_ns = start.elapsed().as_nanos() as f64;
        let cpu_ns = children_cpu_ns() - cpu_before_ns;
        if !has_ended || interrupt::has_ended(status) {
            return Ok(None);
        }
        if !status.success() {
            let said = read(&mut stderr).map_err(told)?;
            let from = said.floor_char_boundary(said.len().saturating_sub(SAID_BYTES_MAX));
            return Err(format!("it failed ({status})\n{}", said[from..].trim_end()));
        }
        let stdout = match &mut stdout {
            Some(file) => read(file).map_err(told)?,
            None => String::new(),
        };
        Ok(Some(Run {
            wall_ns,
            cpu_ns,
            stdout,
        }))
    }
}

/// A shell could read it back.
impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_plain = |word: &str| {
            let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
            !word.is_empty() && word.chars().all(is_plain)
        };
        let words = self.words.iter().map(|word| match is_plain(word) {
            true => word.clone(),
            false => format!("'{}'", word.replace('\'', "'\\''")),
        });
        f.write_str(&words.collect::<Vec<_>>().join(" "))
    }
}

/// Waits until the process has ended; says false if it has not when `end` comes, or an interrupt.
fn wait(child: &Child, end: Instant) -> io::Result<bool> {
    let pid = Pid::from_child(child);
    let process = pidfd_open(pid, PidfdFlags::empty())?;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if interrupt::is_set() || left.is_zero() {
            return Ok(false);
        }
        let look = Timespec {
            tv_sec: 0,
            tv_nsec: left.min(LOOK).as_nanos().max(1) as i64,
        };
        let mut ended = [PollFd::new(&process, PollFlags::IN)];
        match poll(&mut ended, Some(&look)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) => return Ok(true),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Ends a command and what it started.
fn end_group(child: &Child) {
    // It may have ended meanwhile, which is as good.
    let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
}

fn memory_file(name: &str) -> io::Result<File> {
    Ok(memfd_create(name, MemfdFlags::CLOEXEC)?.into())
}

fn read(file: &mut File) -> io::Result<String> {
    file.rewind()?;
    let mut bytes = Vec::new();
    file.take(STDOUT_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The CPU time of all children that this process has waited for, and theirs.
fn children_cpu_ns() -> f64 {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).expect("a process may ask for its own");
    let ns =
        |time: nix::sys::time::TimeVal| time.tv_sec() as f64 * 1e9 + time.tv_usec() as f64 * 1e3;
    ns(usage.user_time()) + ns(usage.system_time())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        Command::new(&["sh", "-c", script].map(str::to_owned))
    }

    fn run(command: &Command, seconds: f64) -> Result<Option<Run>, String> {
        command.run(100, true, Instant::now() + Duration::from_secs_f64(seconds))
    }

    #[test]
    fn a_run_is_timed_and_heard() {
        let ran = run(&shell("echo \"${#DPB_AB_PADDING}\"; sleep 0.05"), 60.0);
        let ran = ran.unwrap().unwrap();
        assert_eq!(ran.stdout, "100\n");
        assert!(ran.wall_ns >= 5e7, "{ran:?}");
        assert!(ran.cpu_ns > 0.0 && ran.cpu_ns < ran.wall_ns, "{ran:?}");
    }

    #[test]
    fn what_fails_says_why() {
        let failed = run(&shell("echo no such file >&2; exit 7"), 60.0).unwrap_err();
        assert!(
            failed.contains("exit status: 7") && failed.ends_with("no such file"),
            "{failed}"
        );
        let missing = Command::new(&["./not-there".to_owned()]);
        // qemu-user does not tell a process that a program could not be started; the child ends with 127 instead.
        let why = match std::env::var_os("DPB_QEMU") {
            None => "there is no such program",
            Some(_) => "exit status: 127",
        };
        assert!(run(&missing, 60.0).unwrap_err().contains(why));
    }

    #[test]
    fn who_takes_too_long_is_ended_with_its_children() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().display();
        let ended = run(&shell(&format!("sleep 61 & echo $! > {path}; wait")), 0.5);
        assert!(ended.unwrap().is_none());
        let pid: u32 = std::fs::read_to_string(file.path())
            .unwrap()
            .trim()
            .parse()
            .unwrap();
        // It may be there for a moment, as one that nobody has waited for.
        let is_alive = || {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            stat.rsplit(") ")
                .next()
                .is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
        };
        let patience = Instant::now() + Duration::from_secs(20);
        while is_alive() {
            assert!(Instant::now() < patience, "{pid} lives");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn words_are_quoted_for_a_shell() {
        let command = Command::new(&["a b", "", "it's", "-x=1"].map(str::to_owned));
        assert_eq!(command.to_string(), r"'a b' '' 'it'\''s' -x=1");
    }
}
