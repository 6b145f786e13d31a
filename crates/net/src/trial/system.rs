//! The system under test: the trait [`SystemUnderTest`], and one that runs in this process, [`Hosted`].

use std::io;

use dpb_core::SetupError;

use super::Drops;
use crate::pipeline::{self, Account, Make, Settings, Work, Workers, WorkersError};

/// The system between the two ports of a trial, as far as the trial has to do with it.
pub trait SystemUnderTest {
    /// Called in each turn of the trial's loop: a system that has no thread of its own works here, and a virtual clock is moved.
    ///
    /// # Errors
    /// If the system cannot go on; the trial ends.
    fn turn(&mut self) -> io::Result<()>;

    /// True if it has no packet in its hands, and finds none at its ports. Asked at the end of each trial, between turns, until it is so: what is
    /// left from one trial must not be work in the next. True at once where nobody can tell.
    ///
    /// # Errors
    /// If the system cannot go on.
    fn is_idle(&mut self) -> io::Result<bool> {
        Ok(true)
    }

    /// Packets that the system and the ports dropped since the last call. Called at the end of each trial.
    ///
    /// # Errors
    /// If the system cannot say.
    fn drops(&mut self) -> io::Result<Drops>;
}

/// A system that does something in each turn, and another thing to tell its drops.
impl<T: FnMut(), D: FnMut() -> Drops> SystemUnderTest for (T, D) {
    fn turn(&mut self) -> io::Result<()> {
        (self.0)();
        Ok(())
    }

    fn drops(&mut self) -> io::Result<Drops> {
        Ok((self.1)())
    }
}

/// A system elsewhere: nothing is to be done for it, and its counters are not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Foreign;

impl SystemUnderTest for Foreign {
    fn turn(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn drops(&mut self) -> io::Result<Drops> {
        Ok(Drops::default())
    }
}

/// Loops of a [`pipeline`] as a system under test: on the thread of the trial, or on threads of their own. It knows the
/// reason of each drop.
#[derive(Debug)]
pub struct Hosted {
    loops: Loops,
    /// The drops that were told already.
    told: pipeline::Drops,
    /// Packets received, as of the last look.
    received: u64,
    /// Packets or bursts that the last turn on this thread moved.
    moved: usize,
}

enum Loops {
    Inline(Vec<Box<dyn Work>>),
    Threads(Workers),
}

impl Hosted {
    /// On the calling thread, which drives it between turns of the trial: the packets' host and the system share a core.
    ///
    /// # Errors
    /// If a loop cannot be made.
    pub fn inline(loops: Vec<(String, Make)>) -> Result<Self, SetupError> {
        let made: Result<_, _> = loops.into_iter().map(|(_, make)| make()).collect();
        Ok(Self::of(Loops::Inline(made?)))
    }

    /// On threads of its own.
    ///
    /// # Errors
    /// As [`Workers::start`].
    pub fn threads(loops: Vec<(String, Make)>, settings: &Settings) -> Result<Self, WorkersError> {
        Ok(Self::of(Loops::Threads(Workers::start(loops, settings)?)))
    }

    fn of(loops: Loops) -> Self {
        Self {
            loops,
            told: pipeline::Drops::default(),
            received: 0,
            moved: 0,
        }
    }

    /// The accounts of its loops as they are now.
    ///
    /// # Errors
    /// If a loop has ended with an error.
    pub fn accounts(&self) -> Result<Vec<Account>, WorkersError> {
        match &self.loops {
            Loops::Inline(loops) => Ok(loops.iter().map(|it| it.account()).collect()),
            Loops::Threads(workers) => workers.accounts(),
        }
    }

    /// Ends it, when all packets in its hands have gone; gives the last accounts.
    ///
    /// # Errors
    /// The first loop that failed.
    pub fn stop(self) -> Result<Vec<Account>, WorkersError> {
        match self.loops {
            Loops::Threads(workers) => workers.stop(),
            Loops::Inline(mut loops) => {
                loops.iter_mut().for_each(|it| it.close());
                while loops.iter().any(|it| !it.is_done()) {
                    let mut moved = 0;
                    for it in &mut loops {
                        moved += it.turn().map_err(|error| WorkersError::Io {
                            name: it.account().name,
                            error,
                        })?;
                    }
                    // What nobody takes stays: the account shows it.
                    if moved == 0 {
                        break;
                    }
                }
                Ok(loops.iter().map(|it| it.account()).collect())
            }
        }
    }
}

impl SystemUnderTest for Hosted {
    fn turn(&mut self) -> io::Result<()> {
        if let Loops::Inline(loops) = &mut self.loops {
            self.moved = 0;
            for it in loops {
                self.moved += it.turn()?;
            }
        }
        Ok(())
    }

    fn is_idle(&mut self) -> io::Result<bool> {
        let accounts = self.accounts().map_err(io::Error::other)?;
        let in_flight: u64 = accounts.iter().map(Account::in_flight).sum();
        let received = accounts.iter().map(|it| it.received.packets).sum();
        // Between two accounts a loop that runs by itself has looked at its ports.
        let has_stopped = std::mem::replace(&mut self.received, received) == received;
        Ok(in_flight == 0 && has_stopped && self.moved == 0)
    }

    fn drops(&mut self) -> io::Result<Drops> {
        let accounts = self.accounts().map_err(io::Error::other)?;
        let mut now = pipeline::Drops::default();
        let mut in_flight = 0;
        for account in &accounts {
            account.check().map_err(io::Error::other)?;
            now.merge(&account.dropped());
            in_flight += account.in_flight();
        }
        let since = |(reason, tally): (pipeline::Reason, pipeline::Tally)| {
            let packets = tally.packets - self.told.of(reason).packets;
            (packets > 0).then(|| (reason.to_string(), packets))
        };
        let reasons = now.iter().filter_map(since).collect();
        self.told = now;
        Ok(Drops {
            reasons,
            // What it has not finished in all that time it may drop yet.
            are_complete: in_flight == 0,
        })
    }
}

impl std::fmt::Debug for Loops {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Inline(loops) => write!(f, "{} loops inline", loops.len()),
            Self::Threads(workers) => workers.fmt(f),
        }
    }
}
