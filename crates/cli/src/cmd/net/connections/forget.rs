//! How a system is made to forget its connections: [`ForgetFlags`].

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use dpb_core::measure::Record;
use dpb_core::{Timer, WallClock};
use dpb_net::flow::Timeouts;
use dpb_net::trial::stateful::{AheadClock, Forgetting};

use super::{Figure, TABLE};
use crate::args;
use crate::cmd::net::trial::system::{Choice, SystemFlags};
use crate::contained::{self, Bounds, How};
use crate::exit::Failure;
use crate::interrupt;

/// Answers by which the threads of a program notice the time: enough for each thread to get some, wherever its connections are.
const ANSWERS_PER_THREAD: u64 = 64;
/// The time that somebody's program may take, and the bytes that it may say.
const BOUNDS: Bounds = Bounds {
    time: Duration::from_secs(300),
    stdout_bytes: 1 << 20,
};
/// The interval at which one that waits looks for an interrupt.
const LOOK: Duration = Duration::from_millis(100);

/// Flags for somebody's own system under test.
#[derive(Debug, clap::Args)]
pub(super) struct ForgetFlags {
    /// With --from: a program that makes the system forget all connections, as a script with `conntrack -F`. It is called without arguments, and how long it takes is what a tear-down takes. What it leaves running is ended
    #[arg(long, value_name = "FILE", help_heading = TABLE, requires = "from", conflicts_with = "forget_after")]
    tear_down: Option<PathBuf>,
    /// With --from: wait for so long instead, longer than a connection lives without a packet. There is no rate of tear-down then
    #[arg(long, value_name = "TIME", help_heading = TABLE, value_parser = args::duration, requires = "from")]
    forget_after: Option<Duration>,
}

impl ForgetFlags {
    /// Checks that there is a way for a system elsewhere, and one that takes a time if that is measured.
    pub(super) fn check(&self, system: &SystemFlags, figures: &[Figure]) -> Result<(), Failure> {
        if !system.is_elsewhere() {
            return Ok(());
        }
        match (&self.tear_down, self.forget_after) {
            (None, None) => Err(Failure::usage(
                "--from: say how the system forgets its connections, by --tear-down FILE or --forget-after TIME",
            )),
            (None, Some(_)) if figures.contains(&Figure::TearDown) => Err(Failure::usage(
                "--measure tear-down: connections that are over by themselves have no rate of tear-down; take --tear-down FILE",
            )),
            _ => Ok(()),
        }
    }

    /// The record with these parameters.
    pub(super) fn note(&self, record: Record) -> Record {
        let record = match &self.tear_down {
            Some(path) => record.with("tear_down", path.display().to_string()),
            None => record,
        };
        match self.forget_after {
            Some(time) => record.with("forget_after", time.as_secs_f64()),
            None => record,
        }
    }

    /// The way for this system; a program of dpb has its connections end by `clock`.
    pub(super) fn of(&self, system: Choice<'_>, clock: Arc<AheadClock>) -> Forgetting<'_> {
        if let Choice::Program { threads, .. } = system {
            let call = move || {
                clock.put_forward(2 * life().as_nanos() as u64);
                Ok(())
            };
            return Forgetting {
                call: Box::new(call),
                answers: ANSWERS_PER_THREAD * threads,
            };
        }
        Forgetting {
            call: match (&self.tear_down, self.forget_after) {
                (Some(path), _) => Box::new(move || call(path)),
                (None, time) => Box::new(move || wait(time.unwrap_or_default())),
            },
            answers: 0,
        }
    }
}

/// The time that a connection of UDP lives in a program of dpb without a packet.
pub(super) fn life() -> Duration {
    Duration::from_millis(Timeouts::default().datagrams_ms.into())
}

/// Calls somebody's program, which has to end well.
fn call(path: &Path) -> io::Result<()> {
    let ended = contained::run(Command::new(path), &[], BOUNDS)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
    match ended.how {
        How::Exited(status) if status.success() => Ok(()),
        how => {
            let said = ended
                .stderr
                .trim()
                .lines()
                .last()
                .unwrap_or("it said nothing")
                .to_owned();
            let why = match how {
                How::Exited(status) => format!("{status}"),
                other => format!("{other:?}"),
            };
            Err(io::Error::other(format!(
                "{}: {why}: {said}",
                path.display()
            )))
        }
    }
}

/// Waits for so long, or until somebody wants the work to end.
fn wait(time: Duration) -> io::Result<()> {
    let clock = WallClock::default();
    let mut left = time;
    while !left.is_zero() && !interrupt::is_set() {
        let now = left.min(LOOK);
        clock.sleep(now);
        left -= now;
    }
    Ok(())
}
