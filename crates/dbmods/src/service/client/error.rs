//! What goes wrong between a client and its agent.

use std::io;

use dpb_link::{ConnectError, LinkError};

use crate::ends::Ends;
use crate::scan::ScanError;
use crate::service::protocol::Refusal;

/// A failure between this side and an agent.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody there.
    #[error("cannot reach an agent at {address}: {source}. Start one there with `dpb serve`")]
    Unreachable {
        /// The agent's address.
        address: String,
        /// The operating system's error.
        source: io::Error,
    },
    /// An agent on another machine, and no credentials.
    #[error(transparent)]
    Unprotected(ConnectError),
    /// The agent refused.
    #[error("the agent at {address} refused: {text}{}", remedy(*refusal))]
    Refused {
        /// The agent's address.
        address: String,
        /// The agent's code.
        refusal: Refusal,
        /// The agent's words, on one line.
        text: String,
    },
    /// The connection broke, or what came over it was no sense.
    #[error("the connection to the agent at {address} failed: {source}")]
    Wire {
        /// The agent's address.
        address: String,
        /// The failure of the connection.
        source: LinkError,
    },
    /// The agent has ended, and another process answers in its place.
    #[error("the agent at {address} has ended, and another one answers there now: run again")]
    Replaced {
        /// The agent's address.
        address: String,
    },
    /// A signal asked to end.
    #[error("interrupted")]
    Interrupted,
    /// Partial aggregates cannot be added up.
    #[error("the partial aggregates of the agents cannot be added up: {0}")]
    Merge(ScanError),
    /// What was received cannot be written.
    #[error("cannot write what was fetched: {0}")]
    Write(io::Error),
}

impl ClientError {
    /// The end that it is.
    pub fn ends(&self) -> Ends {
        match self {
            Self::Unreachable { .. } => Ends::Unavailable,
            Self::Unprotected(_) => Ends::Usage,
            Self::Interrupted => Ends::Interrupted,
            Self::Refused { refusal, .. } => match refusal {
                Refusal::Usage | Refusal::Token | Refusal::Credentials => Ends::Usage,
                Refusal::Unavailable | Refusal::Busy | Refusal::Version => Ends::Unavailable,
                Refusal::Protocol | Refusal::Damaged | Refusal::Internal => Ends::Broken,
            },
            Self::Wire { source, .. } => match source {
                LinkError::Version { .. } | LinkError::Foreign => Ends::Unavailable,
                LinkError::Tls(_) => Ends::Usage,
                _ => Ends::Broken,
            },
            Self::Merge(error) => error.ends(),
            Self::Write(_) | Self::Replaced { .. } => Ends::Broken,
        }
    }
}

/// The remedy for a refusal whose words do not say it.
fn remedy(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::Damaged => {
            "; on the agent's machine `dpb data --remove` removes the table, and `dpb data` makes it anew"
        }
        _ => "",
    }
}

/// A broken exchange, as the client's error.
pub(super) fn wrong(address: &str, source: LinkError) -> ClientError {
    let address = address.to_owned();
    match source {
        LinkError::Refused { refusal, text } => ClientError::Refused {
            address,
            refusal,
            text,
        },
        source => ClientError::Wire { address, source },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_ends_alike_at_one_agent_and_at_several() {
        // One agent's refusal has the code of its scan's error; several agents' parts are added here.
        for (error, refusal, ends) in [
            (ScanError::Overflow, Refusal::Usage, Ends::Usage),
            (ScanError::TooManyGroups(1), Refusal::Usage, Ends::Usage),
            (ScanError::Memory(1), Refusal::Usage, Ends::Usage),
            (ScanError::Internal("rule"), Refusal::Internal, Ends::Broken),
            (
                ScanError::Malformed("rows"),
                Refusal::Internal,
                Ends::Broken,
            ),
        ] {
            assert_eq!(error.ends(), ends, "{error}");
            let at_one = ClientError::Refused {
                address: String::new(),
                refusal,
                text: error.to_string(),
            };
            assert_eq!(at_one.ends(), ends, "{error}");
            assert_eq!(ClientError::Merge(error).ends(), ends);
        }
    }
}
