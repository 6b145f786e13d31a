//! Valgrind's lackey, and the files that its instructions lie in.

use std::io::{self, BufReader};
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use rustix::process::{Pid as ProcessNumber, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::mapped::Mapped;
use super::process::{self, Process, Stoppable, inherited_pipe};
use super::sys::{self, Pid, Stop};
use super::{Program, WatchError, Watched};
use crate::trace::{Analyser, Isa, Options, TraceError, read_lackey};

/// The words before a program that runs on the same emulated CPU, and is not watched.
pub(super) const REHEARSED: [&str; 3] = ["valgrind", "--tool=none", "--quiet"];

pub(super) fn check(isa: Isa) -> Result<(), WatchError> {
    if isa != Isa::HOST {
        return Err(WatchError::Missing(
            "Valgrind runs programs of this machine's instruction set alone; take --source qemu"
                .to_owned(),
        ));
    }
    if process::find("valgrind").is_none() {
        return Err(WatchError::Missing(
            "no valgrind: apt-get install valgrind".to_owned(),
        ));
    }
    Ok(())
}

pub(super) fn watch(
    program: &Program,
    options: Options,
    stop: &AtomicBool,
) -> Result<Watched, WatchError> {
    let (reader, writer, number) = inherited_pipe()?;
    let log = format!("--log-fd={number}");
    let words = [
        "valgrind",
        "--tool=lackey",
        "--basic-counts=no",
        "--trace-mem=yes",
        &log,
    ];
    let mut command = process::command(&words, program);
    sys::traced(&mut command);
    let mut process = Process::start(&mut command)?;
    drop(writer);
    let kill = killer(&process)?;
    let mapped = Mutex::new(Mapped::of(process.child.id()));
    let mut analyser = Analyser::new(program.isa, options);
    let read_all = || {
        let stream = Stoppable {
            inner: reader,
            stop,
        };
        let read = read_lackey(
            &mut BufReader::with_capacity(1 << 20, stream),
            &mut analyser,
            &mut |address, length| lock(&mapped).bytes(address, length),
        );
        // Nobody reads the rest.
        if read.is_err() {
            kill();
        }
        read
    };
    // The thread that started the process is the one that ptrace obeys.
    let (status, read) = thread::scope(|scope| {
        let read = scope.spawn(read_all);
        let status = to_its_end(process.child.id() as Pid, &mapped);
        if status.is_err() {
            kill();
        }
        (status, read.join())
    });
    if stop.load(Ordering::Relaxed) {
        return Err(WatchError::Stopped);
    }
    read.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
    let ended = process.ended(status.map_err(TraceError::from)?)?;
    ended.check()?;
    Ok(Watched {
        tally: analyser.finish(),
        stdout: ended.stdout,
        by: format!("lackey of {}", process::version("valgrind")),
    })
}

/// Ends the process, if it has not ended.
fn killer(process: &Process) -> Result<impl Fn() + Sync + use<>, WatchError> {
    let opened = pidfd_open(
        ProcessNumber::from_child(&process.child),
        PidfdFlags::empty(),
    );
    let opened = opened.map_err(|error| TraceError::Read(error.into()))?;
    Ok(move || {
        // It may have ended.
        let _ = pidfd_send_signal(&opened, Signal::KILL);
    })
}

/// Lets a traced process run to its end. Before its memory goes, its mappings are read for the last time: its trace may lie in the pipe
/// for longer than the process lives.
fn to_its_end(pid: Pid, mapped: &Mutex<Mapped>) -> io::Result<ExitStatus> {
    let mut is_program = false;
    loop {
        let delivered = match sys::wait(pid)? {
            Stop::Ended(status) => return Ok(status),
            Stop::Ending => {
                lock(mapped).refresh();
                0
            }
            Stop::Became => 0,
            Stop::Signal(libc::SIGTRAP) if !is_program => {
                is_program = true;
                sys::stops_at_its_end(pid)?;
                0
            }
            // Somebody has stopped everything for a while.
            Stop::Signal(libc::SIGSTOP) => 0,
            Stop::Signal(signal) => signal,
        };
        match sys::go_on(pid, delivered) {
            // It was killed while it was stopped.
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
            went_on => went_on?,
        }
    }
}

fn lock(mapped: &Mutex<Mapped>) -> MutexGuard<'_, Mapped> {
    mapped.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    use super::*;

    /// Runs a shell under the watch; gives its end and, of what it then was, the first bytes.
    fn ends(script: &str) -> (ExitStatus, Option<Vec<u8>>) {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        sys::traced(&mut command);
        let mut process = Process::start(&mut command).expect("a shell");
        let pid = process.child.id();
        let mapped = Mutex::new(Mapped::of(pid));
        let status = to_its_end(pid as Pid, &mapped).expect("its end");
        process.ended(status).expect("its words");
        let mut mapped = mapped.into_inner().expect("no panic");
        (status, mapped.first_bytes(4))
    }

    #[test]
    fn mappings_outlive_the_process() {
        let elf = Some(b"\x7fELF".to_vec());
        let (status, bytes) = ends("exit 7");
        assert_eq!((status.code(), &bytes), (Some(7), &elf));
        // Another program, in which a signal is handled.
        let (status, bytes) =
            ends("exec sh -c 'trap \"exit 3\" USR1; kill -USR1 $$; sleep 9; exit 4'");
        assert_eq!((status.code(), &bytes), (Some(3), &elf));
        let (status, bytes) = ends("kill -TERM $$");
        assert_eq!((status.signal(), &bytes), (Some(libc::SIGTERM), &elf));
    }
}
