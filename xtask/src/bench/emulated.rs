//! The benches under qemu-user: everything is checked, instructions are counted on each core, no speed is claimed.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::arm64::Libraries;
use super::cycles::Cycles;
use super::programs::{Counts, How, Program};
use crate::aarch64::Emulation;
use crate::shell;

/// The emulator that takes plugins; the static one does not.
const WITH_PLUGINS: &str = "qemu-aarch64";
/// Versions of its interface that the plugin may call itself.
const VERSIONS: [u32; 3] = [1, 2, 4];

/// The plugin that counts, ready.
struct Counter {
    plugin: PathBuf,
    file: PathBuf,
    cycles: Option<Cycles>,
}

/// The cores that peers are counted on: Armv8.0 with its extension for cryptography, as in BlueField-2, and all that the emulator has.
const CORES: [&str; 2] = ["cortex-a72", "max"];
/// What the core of all benches but the peers' is.
const ALL: &str = "max";
/// Where a table of peers goes, as people call it.
const RECORD: &str = "--record";
/// The tables of all cores, which the bench of peers writes beside its records: of all rows, and of some.
const TABLES: [&str; 2] = ["emulated.md", "emulated.part.md"];

/// Runs all, peers on each core, or on `cpu` alone; with `shows_loops` prints the peers' hottest loops.
pub(super) fn run(
    programs: &[Program],
    cpu: Option<&str>,
    shows_loops: bool,
    libraries: &Libraries,
    rest: &[String],
) -> Result<()> {
    let own = super::records("emulated");
    std::fs::create_dir_all(&own)?;
    let (records, rest) = records(&own, rest)?;
    let counter = Counter::make(&own, &Emulation::find(ALL)?, shows_loops);
    if let Err(why) = &counter {
        println!("instructions are not counted: {why:#}");
    }
    let counter = counter.ok();
    let revision = revision();
    let mut failed = Vec::new();
    for program in programs {
        let is_of_peers = program.name == super::programs::PEERS;
        let cores: &[&str] = match &cpu {
            Some(cpu) => std::slice::from_ref(cpu),
            None if is_of_peers => &CORES,
            None => &[ALL],
        };
        let counter = counter.as_ref().filter(|_| is_of_peers);
        for core in cores {
            let mut emulation = Emulation::find(&in_full(core))?;
            // All that were built link with them.
            libraries.run_with(&mut emulation);
            let named = revision.clone().map(|revision| ("DPB_REVISION", revision));
            emulation.variables.extend(named);
            if let Err(why) = one(program, &emulation, counter, &rest, &records) {
                failed.push(format!("{} on {core}: {why:#}", program.name));
            }
        }
        let table = records.join(TABLES[usize::from(!rest.is_empty())]);
        if let (true, Ok(table)) = (is_of_peers, std::fs::read_to_string(table)) {
            println!("\n{table}");
        }
    }
    println!(
        "\nemulated: 64-bit Arm under qemu-user; right or wrong, and how many instructions. Its times mean nothing. Records are in {}",
        records.display()
    );
    ensure!(failed.is_empty(), "{}", failed.join("; "));
    Ok(())
}

/// Runs a program on a core.
fn one(
    program: &Program,
    emulation: &Emulation,
    counter: Option<&Counter>,
    rest: &[String],
    records: &Path,
) -> Result<()> {
    let by = format!("qemu-user -cpu {}", emulation.cpu);
    let how = How::Checked {
        by: &by,
        counts: counter.map(Counter::counts),
    };
    let mut command = match counter {
        Some(counter) => counter.emulator(),
        None => Command::new(emulation.qemu),
    };
    command
        .arg(&program.path)
        .args(program.arguments(&how, &records.to_string_lossy(), rest));
    emulation.set(&mut command);
    shell::run(&mut command)
}

/// The checkout's revision, before records in it change.
fn revision() -> Option<String> {
    let mut git = Command::new("git");
    git.args(["describe", "--always", "--dirty", "--tags"]);
    let said = shell::output(git.current_dir(shell::root())).ok()?;
    Some(said.trim().to_owned())
}

/// A core, as the emulator is told. `max` has the scalable vectors (SVE) of 128 bits that the cores have which are in use for such programs; the
/// emulator's own choice, 512 bits, is that of no DPU.
fn in_full(core: &str) -> String {
    match core {
        "max" => "max,sve-max-vq=1".to_owned(),
        core => core.to_owned(),
    }
}

/// The folder for records, out of what a person passes on, and the rest of that. As cargo's benches have it, it is seen from their
/// package.
fn records(own: &Path, rest: &[String]) -> Result<(PathBuf, Vec<String>)> {
    let Some(at) = rest.iter().position(|word| word == RECORD) else {
        return Ok((own.to_owned(), rest.to_vec()));
    };
    let folder = rest.get(at + 1).context("--record wants a folder")?;
    let rest = [&rest[..at], &rest[at + 2..]].concat();
    let folder = std::path::absolute(shell::root().join("benches/peers").join(folder))?;
    Ok((folder, rest))
}

impl Counter {
    /// Compiles the plugin for the emulator that is here, and looks for llvm-mca.
    ///
    /// # Errors
    /// What is missing for counts.
    fn make(folder: &Path, emulation: &Emulation, shows_loops: bool) -> Result<Self> {
        ensure!(
            shell::find(WITH_PLUGINS).is_some(),
            "no {WITH_PLUGINS}, which takes plugins: apt-get install qemu-user"
        );
        let source = shell::root().join("xtask/src/bench/instructions.c");
        let cycles = Cycles::start(folder, shows_loops);
        if let Err(why) = &cycles {
            println!("missing  cycles by models of cores: {why:#}");
        }
        let counter = Self {
            plugin: folder.join("instructions.so"),
            file: folder.join("instructions"),
            cycles: cycles.ok(),
        };
        let mut last = None;
        for version in VERSIONS {
            let mut compiler = Command::new("cc");
            compiler
                .args(["-O2", "-shared", "-fPIC"])
                .arg(format!("-DVERSION={version}"))
                .arg("-o")
                .arg(&counter.plugin)
                .arg(&source);
            shell::output(&mut compiler)?;
            // Any Arm program shows whether the emulator takes it.
            let mut probe = counter.emulator();
            emulation.set(probe.arg(crate::aarch64::loader()).arg("--version"));
            match shell::output(&mut probe) {
                Ok(_) => return Ok(counter),
                Err(why) => last = Some(why),
            }
        }
        Err(last.expect("there are versions"))
    }

    fn emulator(&self) -> Command {
        let mut plugin = format!("{},counts={}", self.plugin.display(), self.file.display());
        if let Some(cycles) = &self.cycles {
            plugin += &format!(",blocks={}", cycles.blocks.display());
        }
        let mut command = Command::new(WITH_PLUGINS);
        command.arg("-plugin").arg(plugin);
        command
    }

    fn counts(&self) -> Counts<'_> {
        let cycles = self.cycles.as_ref();
        Counts {
            instructions: &self.file,
            cycles: cycles.map(|cycles| cycles.socket.as_path()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_for_records_is_taken_out_of_what_is_passed_on() {
        let own = Path::new("/own");
        let rest = ["crc32", "--record", "/there", "toeplitz"].map(str::to_owned);
        let (folder, others) = records(own, &rest).expect("a folder");
        assert_eq!(folder, Path::new("/there"));
        assert_eq!(others, ["crc32", "toeplitz"]);
        assert_eq!(records(own, &others).expect("none").0, own);
        assert!(records(own, &rest[..2]).is_err());
    }
}
