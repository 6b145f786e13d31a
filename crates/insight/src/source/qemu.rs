//! qemu-user with a plugin that writes down everything, which is compiled when it is first needed.

use std::io::BufReader;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use super::process::{self, Process, Stoppable, inherited_pipe};
use super::{Program, WatchError, Watched};
use crate::trace::{Analyser, Isa, Options, TraceError, read_plugin};

const PLUGIN: &str = include_str!("plugin.c");
/// Versions of the emulator's interface that the plugin may call itself.
const VERSIONS: [u32; 6] = [1, 2, 3, 4, 5, 6];
/// Bytes that are read at once.
const READ_BYTES: usize = 256 << 10;

/// The emulator of an instruction set; the static ones take no plugins.
fn emulator(isa: Isa) -> &'static str {
    match isa {
        Isa::X86 => "qemu-x86_64",
        Isa::A64 => "qemu-aarch64",
    }
}

/// The words before a program of that instruction set, without a plugin.
pub(super) fn words(isa: Isa) -> Vec<&'static str> {
    vec![emulator(isa), "-cpu", "max"]
}

pub(super) fn check(isa: Isa) -> Result<(), WatchError> {
    let name = emulator(isa);
    if process::find(name).is_none() {
        return Err(WatchError::Missing(format!(
            "no {name}, which takes plugins: apt-get install qemu-user"
        )));
    }
    if process::find("cc").is_none() {
        return Err(WatchError::Missing(
            "no C compiler for the emulator's plugin: apt-get install gcc libc6-dev".to_owned(),
        ));
    }
    Ok(())
}

pub(super) fn watch(
    program: &Program,
    options: Options,
    stop: &AtomicBool,
) -> Result<Watched, WatchError> {
    let folder = tempfile::tempdir().map_err(TraceError::from)?;
    let mut last = None;
    for version in VERSIONS {
        let plugin = folder.path().join(format!("plugin{version}.so"));
        compile(version, &plugin)?;
        match watch_by(&plugin, program, options, stop) {
            Err(WatchError::Ended(why)) if why.contains("API version") => last = Some(why),
            watched => return watched,
        }
    }
    Err(WatchError::Missing(last.unwrap_or_default()))
}

/// Compiles the plugin, which calls itself of this version.
fn compile(version: u32, plugin: &PathBuf) -> Result<(), WatchError> {
    let source = plugin.with_extension("c");
    std::fs::write(&source, PLUGIN).map_err(TraceError::from)?;
    let mut compiler = Command::new("cc");
    compiler
        .args(["-O2", "-shared", "-fPIC", "-pthread"])
        .arg(format!("-DVERSION={version}"))
        .arg("-o")
        .arg(plugin)
        .arg(&source);
    Process::start(&mut compiler)?.end()?.check()
}

fn watch_by(
    plugin: &std::path::Path,
    program: &Program,
    options: Options,
    stop: &AtomicBool,
) -> Result<Watched, WatchError> {
    let (reader, writer, number) = inherited_pipe()?;
    let plugin = format!("{},out={number}", plugin.display());
    let mut words = words(program.isa);
    words.extend(["-plugin", &plugin]);
    let mut command = process::command(&words, program);
    let process = Process::start(&mut command)?;
    drop(writer);
    let mut analyser = Analyser::new(program.isa, options);
    let stream = Stoppable {
        inner: reader,
        stop,
    };
    let read = read_plugin(
        &mut BufReader::with_capacity(READ_BYTES, stream),
        &mut analyser,
    );
    if stop.load(Ordering::Relaxed) {
        return Err(WatchError::Stopped);
    }
    // A trace that was not read to its end says less than the program's last words.
    let (ended, read) = match read {
        Ok(()) | Err(TraceError::CutOff) => (process.end()?, read),
        Err(error) => return Err(error.into()),
    };
    ended.check()?;
    read?;
    Ok(Watched {
        tally: analyser.finish(),
        stdout: ended.stdout,
        by: format!("{}, -cpu max", process::version(emulator(program.isa))),
    })
}
