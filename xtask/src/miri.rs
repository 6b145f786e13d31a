//! `cargo xtask miri`: core's buffers, lifts and versions and the tree of the index under Miri, which sees undefined behaviour and weak memory orders.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use anyhow::{Context, Result, bail, ensure};

use crate::shell;

/// Runs the tests with shrunk sizes.
pub(crate) fn run() -> Result<()> {
    if let Some(why) = missing() {
        bail!("{why}");
    }
    tests().iter_mut().try_for_each(shell::run)
}

/// The same beside other work: it keeps one core busy for minutes.
pub(crate) struct Aside {
    worker: Option<JoinHandle<Result<()>>>,
    running: Arc<Running>,
    said: PathBuf,
}

/// What runs now, or that nothing more shall.
type Running = Mutex<Now>;

enum Now {
    Nothing,
    Child(Child),
    Stopped,
}

impl Aside {
    /// Starts it; what it says is kept in a file.
    pub(crate) fn start() -> Result<Self> {
        let folder = folder();
        let said = folder.join("said.txt");
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("cannot make {}", folder.display()))?;
        let file =
            File::create(&said).with_context(|| format!("cannot write {}", said.display()))?;
        let running = Arc::new(Mutex::new(Now::Nothing));
        let shared = running.clone();
        let worker = std::thread::spawn(move || {
            (tests().iter_mut()).try_for_each(|command| run_aside(command, &file, &shared))
        });
        Ok(Self {
            worker: Some(worker),
            running,
            said,
        })
    }

    /// Waits for its end, and shows what it said.
    pub(crate) fn finish(mut self) -> Result<()> {
        let worker = self.worker.take().context("it was finished before")?;
        let done = worker.join();
        io::copy(&mut File::open(&self.said)?, &mut io::stdout())?;
        match done {
            Ok(done) => done,
            Err(_) => bail!("what waits for Miri panicked"),
        }
    }
}

/// Runs one command, unless it was stopped.
fn run_aside(command: &mut Command, said: &File, running: &Running) -> Result<()> {
    command
        .stdin(Stdio::null())
        .stdout(said.try_clone()?)
        .stderr(said.try_clone()?);
    {
        let mut now = running.lock().unwrap_or_else(PoisonError::into_inner);
        ensure!(!matches!(*now, Now::Stopped), "it was stopped");
        *now = Now::Child(shell::start(command)?);
    }
    loop {
        {
            let mut now = running.lock().unwrap_or_else(PoisonError::into_inner);
            let Now::Child(child) = &mut *now else {
                bail!("it was stopped");
            };
            if let Some(status) = child.try_wait()? {
                *now = Now::Nothing;
                ensure!(status.success(), "Miri: {status}");
                return Ok(());
            }
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        let mut now = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Now::Child(child) = &mut *now {
            // In vain if it has ended.
            drop(child.kill());
            drop(child.wait());
        }
        *now = Now::Stopped;
    }
}

/// Its own, in this checkout: from a target directory that checkouts share, Miri has run another checkout's tests.
fn folder() -> PathBuf {
    shell::root().join("target/miri")
}

fn tests() -> [Command; 2] {
    let miri = |arguments: &[&str]| {
        let mut cargo = shell::cargo_nightly();
        cargo.env("CARGO_TARGET_DIR", folder());
        cargo.args(["miri", "test", "--package"]).args(arguments);
        cargo
    };
    let core = miri(&[
        "dpb-core",
        "--features",
        "conformance",
        "--lib",
        "--test",
        "versions",
    ]);
    let mut index = miri(&["dpb-dbmods", "--lib", "--", "index::"]);
    // Random tests read their settings from the environment and the clock.
    index.env("MIRIFLAGS", "-Zmiri-disable-isolation");
    [core, index]
}

/// Why Miri cannot run here, and what to do.
pub(crate) fn missing() -> Option<String> {
    let works = |command: &mut Command| {
        let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    };
    if works(shell::cargo_nightly().args(["miri", "--version"])) {
        return None;
    }
    Some(
        "no Miri: rustup toolchain install nightly --profile minimal --component miri,rust-src"
            .into(),
    )
}
