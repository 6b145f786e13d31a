//! The benches on another machine, over ssh: copied there, run, their records brought back, everything removed.
//!
//! All goes through one command, which a person's ssh configuration rules; files travel as tar archives through it.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::programs::{How, Program};
use crate::shell;

/// A machine to run on.
#[derive(clap::Args)]
pub(crate) struct Ssh {
    /// Another machine to run on, as ssh names it: `user@dpu`
    #[arg(long)]
    ssh: Option<String>,
    /// How it is reached, with options: `ssh -p 2222`
    #[arg(long, default_value = "ssh", requires = "ssh")]
    ssh_command: String,
}

/// A machine that answers.
pub(crate) struct Machine<'a> {
    words: Vec<&'a str>,
    host: &'a str,
    /// As `uname -m` there says.
    pub(crate) architecture: String,
}

impl Ssh {
    /// The machine, if one is named.
    ///
    /// # Errors
    /// If it does not answer.
    pub(crate) fn machine(&self) -> Result<Option<Machine<'_>>> {
        let Some(host) = &self.ssh else {
            return Ok(None);
        };
        let mut machine = Machine {
            words: self.ssh_command.split_whitespace().collect(),
            host,
            architecture: String::new(),
        };
        machine.architecture = machine.said("uname -m")?;
        Ok(Some(machine))
    }
}

impl Machine<'_> {
    /// Runs `programs` there; what they record comes to `records` here.
    ///
    /// # Errors
    /// If a program fails, or the machine goes away. What was copied is removed in any case, as far as it answers.
    pub(super) fn run(
        &self,
        programs: &[Program],
        how: &How<'_>,
        rest: &[String],
        records: &Path,
    ) -> Result<()> {
        let folder = self.said("mktemp -d")?;
        ensure!(folder.starts_with('/'), "mktemp -d said `{folder}`");
        let outcome = self.run_in(&folder, programs, how, rest, records);
        let removed = self.said(&format!("rm -rf {}", quoted(&folder)));
        outcome?;
        removed.map(|_| ())
    }

    fn run_in(
        &self,
        folder: &str,
        programs: &[Program],
        how: &How<'_>,
        rest: &[String],
        records: &Path,
    ) -> Result<()> {
        let inside = format!("cd {} &&", quoted(folder));
        for program in programs {
            self.send(&program.path, &program.name, folder)?;
        }
        let mut failed = Vec::new();
        for program in programs {
            let arguments = program.arguments(how, "records", rest);
            let arguments: Vec<_> = arguments.iter().map(|word| quoted(word)).collect();
            let line = format!(
                "{inside} mkdir -p records && CRITERION_HOME=records/criterion ./{} {}",
                program.name,
                arguments.join(" ")
            );
            if let Err(why) = shell::run(self.command(&line).stdin(Stdio::null())) {
                failed.push(format!("{}: {why:#}", program.name));
            }
        }
        // What the others recorded counts all the same.
        self.fetch(&format!("{inside} tar -C records -c ."), records)?;
        ensure!(failed.is_empty(), "{}", failed.join("; "));
        Ok(())
    }

    /// Installs `program` as `~/.local/bin/dpb` there.
    ///
    /// # Errors
    /// If it cannot be copied, or does not start there.
    pub(crate) fn install(&self, program: &Path) -> Result<String> {
        let folder = self.said("mkdir -p ~/.local/bin && cd ~/.local/bin && pwd")?;
        self.send(program, "dpb", &folder)?;
        self.said(&format!("{}/dpb --version", quoted(&folder)))?;
        Ok(folder)
    }

    /// Copies a file there, executable, in one step at the end.
    fn send(&self, path: &Path, name: &str, folder: &str) -> Result<()> {
        let file = std::fs::File::open(path).with_context(|| path.display().to_string())?;
        let line = format!(
            "cd {} && cat > {name}.new && chmod 755 {name}.new && mv {name}.new {name}",
            quoted(folder)
        );
        shell::run(self.command(&line).stdin(file))
    }

    /// Unpacks into `folder` here the archive that `line` writes there.
    fn fetch(&self, line: &str, folder: &Path) -> Result<()> {
        std::fs::create_dir_all(folder)?;
        let mut there = shell::start(
            self.command(line)
                .stdin(Stdio::null())
                .stdout(Stdio::piped()),
        )?;
        let archive = there.stdout.take().expect("was piped");
        let unpacked = shell::run(
            Command::new("tar")
                .arg("-C")
                .arg(folder)
                .arg("-x")
                .stdin(archive),
        );
        let status = there.wait()?;
        ensure!(status.success(), "`{line}` there: {status}");
        unpacked
    }

    /// What a shell there says to `line`, trimmed.
    fn said(&self, line: &str) -> Result<String> {
        let said = shell::output(self.command(line).stdin(Stdio::null()));
        let said = said.with_context(|| format!("{}: `{line}`", self.host))?;
        Ok(said.trim().to_owned())
    }

    fn command(&self, line: &str) -> Command {
        let (program, options) = self.words.split_first().unwrap_or((&"ssh", &[]));
        let mut command = Command::new(program);
        command.args(options).arg(self.host).arg(line);
        command
    }
}

/// As a shell takes it for one word.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests;
