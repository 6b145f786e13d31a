//! Systems under test in this process and trials of them: parts that the measuring verbs share.

mod counted;
mod searches;
mod system;

use std::error::Error;

use dpb_micro::Broken;
use dpb_net::trial::{Outcome, TrialError, Validity};

pub(super) use counted::{Counted, OfRuns, figure};
pub(super) use searches::{irregular, judge_searches, search_down, unstable};
pub(super) use system::{Pinned, Place, cores, host, pin};

/// The reason why a trial says nothing of its system, if it does not.
pub(super) fn invalid(outcome: &Outcome) -> Option<String> {
    let offered = outcome.balance.offered;
    match outcome.validity {
        Validity::Late { packets, allowed } => Some(format!(
            "the generator was late: {packets} packets of {offered} were offered after their time, and {allowed} may be; lower the load, give the generator a core of \
             its own (--pin), or allow more (--tolerance)"
        )),
        Validity::Valid if offered == 0 => {
            Some("no packet was due; take a higher rate or longer trials".to_owned())
        }
        Validity::Valid => None,
    }
}

/// What a trial's error makes of a test: what fails because of the machine or the load is not available, what does not add up is wrong.
pub(super) fn broken(error: &TrialError) -> Broken {
    let why = said(error);
    match error {
        TrialError::TooLong { .. }
        | TrialError::Memory(_)
        | TrialError::Traffic(_)
        | TrialError::Duration(_)
        | TrialError::Packets => Broken::Unsupported(why),
        TrialError::Port { .. } | TrialError::System(_) | TrialError::Imbalance(_) => {
            Broken::Wrong(why)
        }
    }
}

/// An error with its causes.
pub(super) fn said(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}
