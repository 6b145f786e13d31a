//! The benches under qemu-user: everything is checked, instructions are counted, no speed is claimed.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};

use super::programs::{How, Program};
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
}

/// Runs all.
pub(super) fn run(
    programs: &[Program],
    emulation: &Emulation,
    rest: &[String],
    records: &Path,
) -> Result<()> {
    std::fs::create_dir_all(records)?;
    let counter = Counter::make(records, emulation);
    if let Err(why) = &counter {
        println!("instructions are not counted: {why:#}");
    }
    let counter = counter.ok();
    let by = format!("qemu-user -cpu {}", emulation.cpu);
    let how = How::Checked {
        by: &by,
        instructions: counter.as_ref().map(|counter| counter.file.as_path()),
    };
    let mut failed = Vec::new();
    for program in programs {
        let counter = counter
            .as_ref()
            .filter(|_| program.name == super::programs::PEERS);
        let mut command = match counter {
            Some(counter) => counter.emulator(),
            None => Command::new(emulation.qemu),
        };
        command
            .arg(&program.path)
            .args(program.arguments(&how, &records.to_string_lossy(), rest));
        emulation.set(&mut command);
        if let Err(why) = shell::run(&mut command) {
            failed.push(format!("{}: {why:#}", program.name));
        }
    }
    println!(
        "\nemulated: 64-bit Arm under {by}; right or wrong only, its times mean nothing. Records are in {}",
        records.display()
    );
    ensure!(failed.is_empty(), "{}", failed.join("; "));
    Ok(())
}

impl Counter {
    /// Compiles the plugin for the emulator that is here.
    ///
    /// # Errors
    /// What is missing.
    fn make(folder: &Path, emulation: &Emulation) -> Result<Self> {
        ensure!(
            shell::find(WITH_PLUGINS).is_some(),
            "no {WITH_PLUGINS}, which takes plugins: apt-get install qemu-user"
        );
        let source = shell::root().join("xtask/src/bench/instructions.c");
        let counter = Self {
            plugin: folder.join("instructions.so"),
            file: folder.join("instructions"),
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
        let mut command = Command::new(WITH_PLUGINS);
        command.arg("-plugin").arg(format!(
            "{},counts={}",
            self.plugin.display(),
            self.file.display()
        ));
        command
    }
}
