//! Processes whose words are kept and whose trace comes through a pipe of its own.

use std::io::{self, PipeReader, PipeWriter, Read};
use std::os::fd::{AsFd, AsRawFd};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};

use rustix::io::{FdFlags, fcntl_setfd};

use super::{Program, WatchError};
use crate::trace::TraceError;

/// Most that is kept of what a program says.
const SAID_BYTES_MAX: u64 = 64 << 10;

/// A program that runs; it is killed when this is dropped before its end.
pub(super) struct Process {
    pub(super) child: Child,
    stdout: Option<JoinHandle<Vec<u8>>>,
    stderr: Option<JoinHandle<Vec<u8>>>,
}

/// The end of a program, and its words.
pub(super) struct Ended {
    pub(super) status: ExitStatus,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: String,
}

impl Process {
    /// Starts it. It reads nothing.
    pub(super) fn start(command: &mut Command) -> Result<Self, WatchError> {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| {
            let program = command.get_program().display();
            WatchError::Ended(format!("{program} cannot be started: {error}"))
        })?;
        Ok(Self {
            stdout: child.stdout.take().map(kept),
            stderr: child.stderr.take().map(kept),
            child,
        })
    }

    /// Waits for its end, if nobody has done that.
    pub(super) fn end(mut self) -> Result<Ended, WatchError> {
        let status = self.child.wait().map_err(TraceError::from)?;
        self.ended(status)
    }

    /// Its words, once it has ended like this.
    pub(super) fn ended(&mut self, status: ExitStatus) -> Result<Ended, WatchError> {
        let said = |thread: Option<JoinHandle<Vec<u8>>>| {
            let said = thread.map(JoinHandle::join);
            said.and_then(Result::ok).unwrap_or_default()
        };
        Ok(Ended {
            status,
            stdout: said(self.stdout.take()),
            stderr: String::from_utf8_lossy(&said(self.stderr.take())).into_owned(),
        })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            // It may end in this moment.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

impl Ended {
    /// # Errors
    /// If the program failed: its last words.
    pub(super) fn check(&self) -> Result<(), WatchError> {
        if self.status.success() {
            return Ok(());
        }
        let said = self
            .stderr
            .lines()
            .rev()
            .find(|line| !line.trim().is_empty());
        let said = said.map_or(String::new(), |said| format!(": {said}"));
        Err(WatchError::Ended(format!(
            "the program ended with {}{said}",
            self.status
        )))
    }
}

/// Reads to the end and keeps the beginning.
fn kept(mut from: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut kept = Vec::new();
        // A program whose output cannot be read has ended.
        let _ = (&mut from).take(SAID_BYTES_MAX).read_to_end(&mut kept);
        let _ = io::copy(&mut from, &mut io::sink());
        kept
    })
}

/// The writing end of a pipe that a child inherits. It is to be dropped once the child has started.
pub(super) struct Inherited {
    _writer: PipeWriter,
    /// A child that another thread starts meanwhile would inherit it, too, and the pipe would have no end before that child's.
    _alone: MutexGuard<'static, ()>,
}

/// A pipe whose writing end a child inherits, by its number.
pub(super) fn inherited_pipe() -> Result<(PipeReader, Inherited, i32), WatchError> {
    static ALONE: Mutex<()> = Mutex::new(());
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (reader, writer) = io::pipe().map_err(TraceError::from)?;
    let set = fcntl_setfd(writer.as_fd(), FdFlags::empty());
    set.map_err(|error| TraceError::Read(error.into()))?;
    let number = writer.as_raw_fd();
    let inherited = Inherited {
        _writer: writer,
        _alone: alone,
    };
    Ok((reader, inherited, number))
}

/// A reader that ends with an error when somebody says so.
pub(super) struct Stoppable<'a, R> {
    pub(super) inner: R,
    pub(super) stop: &'a AtomicBool,
}

impl<R: Read> Read for Stoppable<'_, R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(io::Error::other("interrupted"));
        }
        self.inner.read(into)
    }
}

/// The command of a program behind these words, which may be none. Where the system allows it, its memory has the same addresses
/// in every run.
pub(super) fn command(words: &[&str], program: &Program) -> Command {
    let mut words: Vec<&str> = words.to_vec();
    if has_fixed_addresses() {
        words.splice(0..0, ["setarch", "-R"]);
    }
    let mut words = words.into_iter();
    let mut command = match words.next() {
        Some(first) => {
            let mut command = Command::new(first);
            command.args(words).arg(&program.path);
            command
        }
        None => Command::new(&program.path),
    };
    command
        .args(&program.arguments)
        .envs(program.variables.iter().cloned());
    command
}

/// True if `setarch -R` is here and allowed.
fn has_fixed_addresses() -> bool {
    static HAS: OnceLock<bool> = OnceLock::new();
    *HAS.get_or_init(|| {
        let mut command = Command::new("setarch");
        command.args(["-R", "true"]).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    })
}

/// Where a program of this name is on the PATH.
pub(super) fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let found = std::env::split_paths(&path).map(|folder| folder.join(name));
    found.into_iter().find(|file| file.is_file())
}

/// The first line that a program prints about its version.
pub(super) fn version(name: &str) -> String {
    let said = Command::new(name).arg("--version").output();
    let said = said.map(|said| said.stdout).unwrap_or_default();
    let said = String::from_utf8_lossy(&said);
    said.lines().next().unwrap_or(name).trim().to_owned()
}
