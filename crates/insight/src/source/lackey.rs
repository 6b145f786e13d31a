//! Valgrind's lackey, and the files that its instructions lie in.

use std::io::BufReader;
use std::sync::atomic::{AtomicBool, Ordering};

use super::mapped::Mapped;
use super::process::{self, Process, Stoppable, inherited_pipe};
use super::{Program, WatchError, Watched};
use crate::trace::{Analyser, Isa, Options, read_lackey};

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
    let process = Process::start(&mut process::command(&words, program))?;
    drop(writer);
    let mut mapped = Mapped::of(process.child.id());
    let mut analyser = Analyser::new(program.isa, options);
    let stream = Stoppable {
        inner: reader,
        stop,
    };
    let read = read_lackey(
        &mut BufReader::with_capacity(1 << 20, stream),
        &mut analyser,
        &mut |address, length| mapped.bytes(address, length),
    );
    if stop.load(Ordering::Relaxed) {
        return Err(WatchError::Stopped);
    }
    read?;
    let ended = process.end()?;
    ended.check()?;
    Ok(Watched {
        tally: analyser.finish(),
        stdout: ended.stdout,
        by: format!("lackey of {}", process::version("valgrind")),
    })
}
