//! How a verb ends when it does not end well: an exit code and one message for a person.
//!
//! 0 done; 1 a check failed, a regression was found, or the work broke; 2 wrong usage; 3 what was asked for is not
//! available here; 130 interrupted, with complete records left behind.

use std::fmt;

use dpb_dbmods::Ends;

/// The exit code of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// A check failed, a regression was found, or the work broke on the way.
    Check = 1,
    /// The command line asks for something that makes no sense.
    Usage = 2,
    /// What was asked for is not available on this machine.
    Unavailable = 3,
    /// Ctrl-C or SIGTERM.
    Interrupted = 130,
}

/// Why a verb did not do what it was asked to.
///
/// The message says what failed, on which input, why, and what to do; it is all that reaches stderr.
#[derive(Debug)]
pub struct Failure {
    /// The process ends with this code.
    pub exit: Exit,
    /// For a person; one sentence or a few lines, without `error:` in front. Empty if all was said.
    pub message: String,
}

impl Failure {
    /// A check failed or the work broke: exit 1.
    pub fn check(message: impl Into<String>) -> Self {
        Self::new(Exit::Check, message)
    }

    /// Wrong usage: exit 2.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// Not available here: exit 3.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(Exit::Unavailable, message)
    }

    /// Ended by a signal: exit 130.
    pub fn interrupted(message: impl Into<String>) -> Self {
        Self::new(Exit::Interrupted, message)
    }

    /// The failure of a work of the database modules that ended so.
    pub fn that_ends(ends: Ends, message: impl Into<String>) -> Self {
        match ends {
            Ends::Usage => Self::usage(message),
            Ends::Unavailable => Self::unavailable(message),
            Ends::Interrupted => Self::interrupted(message),
            Ends::Broken => Self::check(message),
        }
    }

    /// The exit code of a process that this one started, and that has said why.
    pub fn said(code: i32) -> Self {
        let exit = [Exit::Usage, Exit::Unavailable, Exit::Interrupted];
        let exit = exit.into_iter().find(|&exit| exit as i32 == code);
        Self::new(exit.unwrap_or(Exit::Check), "")
    }

    fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self {
            exit,
            message: message.into(),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Anything without a better code broke on the way: exit 1, with its whole chain of causes.
impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::check(format!("{error:#}"))
    }
}
