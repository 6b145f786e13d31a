//! Processes that are bounded in time and output, and leave no process behind.
//!
//! A child has a process group of its own and dies with this process. What it starts is ended with it, also what has left its
//! group: this process makes itself the parent of orphans (`PR_SET_CHILD_SUBREAPER`), and when a child has ended it ends all other
//! children. So one child runs at a time, beside those that [`keep`] names.

use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, kill_process, kill_process_group, pidfd_open,
    test_kill_process, waitpid,
};

use crate::interrupt;

/// How often the interrupt and the bounds are looked at.
const LOOK: Duration = Duration::from_millis(50);
/// Time between the request to end and the end by force.
const GRACE: Duration = Duration::from_secs(5);
/// Most that is kept of the child's words on stderr: the last of them.
const STDERR_BYTES_MAX: usize = 64 << 10;

/// What a child may use.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Time from start to end.
    pub time: Duration,
    /// Bytes on stdout.
    pub stdout_bytes: usize,
}

/// How a child ended.
#[derive(Debug)]
pub struct Ended {
    /// Why.
    pub how: How,
    /// Everything on its stdout, up to the bound.
    pub stdout: Vec<u8>,
    /// The last words on its stderr.
    pub stderr: String,
    /// Processes that it had left behind, which were ended.
    pub left_behind: usize,
}

/// Why a child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// By itself.
    Exited(ExitStatus),
    /// It was ended because its time was up.
    TimedOut,
    /// It was ended because it printed too much.
    TooMuchOutput,
    /// It was ended because whoever watched it said so.
    Stopped,
    /// It was ended because somebody interrupted this process.
    Interrupted,
}

/// The words that a child reads on its standard input.
#[derive(Clone, Copy, Debug)]
pub enum Input<'a> {
    /// These, then the end.
    Whole(&'a [u8]),
    /// These; standard input ends when the child does.
    Open(&'a [u8]),
}

/// Somebody who looks on while a child runs.
pub trait Watch {
    /// A step begins, in a few words.
    fn begins(&mut self, _step: &str) {}

    /// Asked about twenty times a second: whether the child is to end now.
    fn ends(&mut self, said: &OutputSoFar<'_>) -> bool;
}

/// Nobody looks on.
#[derive(Clone, Copy, Debug)]
pub struct Unwatched;

impl Watch for Unwatched {
    fn ends(&mut self, _: &OutputSoFar<'_>) -> bool {
        false
    }
}

/// The output of a child that runs.
#[derive(Clone, Copy, Debug)]
pub struct OutputSoFar<'a> {
    stdout: &'a Pipe,
    stderr: &'a Pipe,
}

impl OutputSoFar<'_> {
    /// The first line on stdout, once it is whole.
    pub fn first_line(&self) -> Option<String> {
        let bytes = self.stdout.bytes();
        let end = bytes.iter().position(|&byte| byte == b'\n')?;
        Some(String::from_utf8_lossy(&bytes[..end]).into_owned())
    }

    /// The last whole line on stderr that says something.
    pub fn last_words(&self) -> Option<String> {
        let bytes = self.stderr.bytes();
        let end = bytes.iter().rposition(|&byte| byte == b'\n')?;
        let mut lines = bytes[..end].rsplit(|&byte| byte == b'\n');
        let last = lines.find(|line| !line.trim_ascii().is_empty())?;
        Some(String::from_utf8_lossy(last.trim_ascii()).into_owned())
    }
}

/// Runs a program to its end. `stdin` is what it reads.
///
/// # Errors
/// If it cannot be started.
pub fn run(command: Command, stdin: &[u8], bounds: Bounds) -> io::Result<Ended> {
    run_watched(command, Input::Whole(stdin), bounds, &mut Unwatched)
}

/// The same while somebody looks on, who can end it.
///
/// # Errors
/// If it cannot be started.
pub fn run_watched(
    mut command: Command,
    input: Input<'_>,
    bounds: Bounds,
    watch: &mut dyn Watch,
) -> io::Result<Ended> {
    // Where the kernel cannot do it, orphans are not found; their group is.
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    let mut child = command.spawn()?;
    let mut pipe = child.stdin.take().expect("it is piped");
    let (words, stays_open) = match input {
        Input::Whole(words) => (words.to_vec(), false),
        Input::Open(words) => (words.to_vec(), true),
    };
    // A child that never reads must not hold this process up; its end closes the pipe.
    let writer = thread::spawn(move || {
        let _ = pipe.write_all(&words);
        stays_open.then_some(pipe)
    });
    let (stdout, stderr) = (Pipe::default(), Pipe::default());
    let of_stdout = child.stdout.take().expect("it is piped");
    let of_stdout = read_up_to(of_stdout, bounds.stdout_bytes, stdout.clone());
    let of_stderr = read_last(child.stderr.take().expect("it is piped"), stderr.clone());
    let said = OutputSoFar {
        stdout: &stdout,
        stderr: &stderr,
    };
    let stopped = wait(&mut child, bounds.time, &said, watch)?;
    // Of the group, whoever is still there.
    let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
    let status = child.wait()?;
    let left_behind = end_children();
    let joined = "a thread that moves bytes through a pipe does not panic";
    drop(writer.join().expect(joined));
    of_stdout.join().expect(joined);
    of_stderr.join().expect(joined);
    Ok(Ended {
        how: match stopped {
            Some(how) => how,
            None if stdout.is_full() => How::TooMuchOutput,
            None if interrupt::has_ended(status) => How::Interrupted,
            None => How::Exited(status),
        },
        stdout: std::mem::take(&mut *stdout.bytes()),
        stderr: String::from_utf8_lossy(&stderr.bytes()).into_owned(),
        left_behind,
    })
}

/// Children of this process that outlive a bounded one.
static KEPT: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

/// A child that is left alone when a bounded one has ended, for as long as this lives.
#[derive(Debug)]
pub struct Kept(Pid);

/// Leaves a child alone that is not started here.
pub fn keep(child: &Child) -> Kept {
    let pid = Pid::from_child(child);
    lock(&KEPT).push(pid);
    Kept(pid)
}

impl Drop for Kept {
    fn drop(&mut self) {
        lock(&KEPT).retain(|&pid| pid != self.0);
    }
}

/// Locks, also after a holder's panic: what is guarded is whole between any two statements.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// The bytes that came through a pipe and are kept.
#[derive(Clone, Debug, Default)]
struct Pipe(Arc<Piped>);

#[derive(Debug, Default)]
struct Piped {
    bytes: Mutex<Vec<u8>>,
    is_full: AtomicBool,
}

impl Pipe {
    fn bytes(&self) -> MutexGuard<'_, Vec<u8>> {
        lock(&self.0.bytes)
    }

    fn is_full(&self) -> bool {
        self.0.is_full.load(Ordering::Relaxed)
    }
}

/// Whether there is a process of this number.
pub fn is_running(process: u32) -> bool {
    let id = i32::try_from(process).ok().and_then(Pid::from_raw);
    id.is_some_and(|id| test_kill_process(id) != Err(rustix::io::Errno::SRCH))
}

/// A command for a program that dies with this process: `dpb` asks for that and becomes the program.
///
/// # Errors
/// If this program's path is not known.
pub fn tied(program: &OsStr) -> io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    let parent = std::process::id().to_string();
    command
        .args(["tied", "--parent", &parent, "--"])
        .arg(program);
    Ok(command)
}

/// Waits for the child's end. If it has to be ended, it is asked first.
fn wait(
    child: &mut Child,
    time: Duration,
    said: &OutputSoFar<'_>,
    watch: &mut dyn Watch,
) -> io::Result<Option<How>> {
    let pid = Pid::from_child(child);
    let process = pidfd_open(pid, PidfdFlags::empty())?;
    let end = Instant::now() + time;
    let (mut stopped, mut force) = (None, end);
    loop {
        let now = Instant::now();
        if stopped.is_none() {
            stopped = match () {
                () if interrupt::is_set() => Some(How::Interrupted),
                () if said.stdout.is_full() => Some(How::TooMuchOutput),
                () if now >= end => Some(How::TimedOut),
                () if watch.ends(said) => Some(How::Stopped),
                () => None,
            };
            if stopped.is_some() {
                let _ = kill_process_group(pid, Signal::TERM);
                force = now + GRACE;
            }
        } else if now >= force {
            return Ok(stopped);
        }
        let look = Timespec {
            tv_sec: 0,
            tv_nsec: LOOK.as_nanos() as i64,
        };
        let mut ended = [PollFd::new(&process, PollFlags::IN)];
        match poll(&mut ended, Some(&look)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) => return Ok(stopped),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Ends all children of this process but those that are kept, those that come of orphans too, and says how many there were.
fn end_children() -> usize {
    let mut ended = 0;
    // A child of a child becomes one of this process when its parent has ended; so there may be several rounds.
    for _ in 0..1000 {
        let children = children();
        if children.is_empty() {
            break;
        }
        for pid in children {
            let _ = kill_process(pid, Signal::KILL);
            if waitpid(Some(pid), WaitOptions::empty()).is_ok() {
                ended += 1;
            }
        }
    }
    ended
}

/// The children of this process that nobody keeps, as the kernel lists them.
fn children() -> Vec<Pid> {
    let kept = lock(&KEPT).clone();
    let own = std::process::id().to_string();
    let Ok(processes) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    let processes = processes.filter_map(Result::ok).filter_map(|entry| {
        let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
        let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
        // Behind the name, which may hold anything: state, parent.
        let (_, rest) = stat.rsplit_once(')')?;
        let parent = rest.split_whitespace().nth(1)?;
        (parent == own).then(|| Pid::from_raw(pid)).flatten()
    });
    processes.filter(|pid| !kept.contains(pid)).collect()
}

/// Reads a pipe to its end, and keeps the first bytes.
fn read_up_to(
    mut from: impl Read + Send + 'static,
    bytes_max: usize,
    into: Pipe,
) -> JoinHandle<()> {
    thread::spawn(move || {
        let mut piece = [0; 16 << 10];
        while let Ok(read @ 1..) = from.read(&mut piece) {
            let mut kept = into.bytes();
            let room = bytes_max - kept.len();
            kept.extend_from_slice(&piece[..read.min(room)]);
            if read > room {
                into.0.is_full.store(true, Ordering::Relaxed);
            }
        }
    })
}

/// Reads a pipe to its end, and keeps the last bytes.
fn read_last(mut from: impl Read + Send + 'static, into: Pipe) -> JoinHandle<()> {
    thread::spawn(move || {
        let mut piece = [0; 16 << 10];
        while let Ok(read @ 1..) = from.read(&mut piece) {
            let mut kept = into.bytes();
            kept.extend_from_slice(&piece[..read]);
            let over = kept.len().saturating_sub(STDERR_BYTES_MAX);
            kept.drain(..over);
        }
    })
}
