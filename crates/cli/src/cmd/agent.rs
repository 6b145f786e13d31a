//! What the verbs that ask an agent about its tables share: what is shown to it, and how its failures end the process.

use std::path::Path;

use dpb_dbmods::service::client::ClientError;
use dpb_dbmods::service::protocol::Refusal;
use dpb_link::{ClientCredentials, LinkError, Pass};

use super::serve;
use crate::exit::Failure;

/// What is shown to an agent: credentials of a file, the token of a file, or nothing.
///
/// # Errors
/// A file that cannot be used.
pub fn pass(credentials: Option<&Path>, token_file: Option<&Path>) -> Result<Pass, Failure> {
    Ok(match (credentials, token_file) {
        (Some(path), _) => {
            let credentials = ClientCredentials::load(path);
            Pass::Credentials(
                credentials.map_err(|error| Failure::usage(format!("--credentials: {error}")))?,
            )
        }
        (None, Some(path)) => Pass::Token(serve::token_of(path)?),
        (None, None) => Pass::None,
    })
}

/// How a failure between us and an agent ends the process.
pub fn client_failure(error: ClientError) -> Failure {
    let message = error.to_string();
    match error {
        ClientError::Unreachable { .. } => Failure::unavailable(message),
        ClientError::Unprotected(_) => Failure::usage(message),
        ClientError::Interrupted => Failure::interrupted(message),
        ClientError::Refused { refusal, .. } => match refusal {
            Refusal::Usage | Refusal::Token | Refusal::Credentials => Failure::usage(message),
            Refusal::Unavailable | Refusal::Busy | Refusal::Version => {
                Failure::unavailable(message)
            }
            Refusal::Protocol | Refusal::Damaged | Refusal::Internal => Failure::check(message),
        },
        ClientError::Wire { source, .. } => match source {
            LinkError::Version { .. } | LinkError::Foreign => Failure::unavailable(message),
            LinkError::Tls(_) => Failure::usage(message),
            _ => Failure::check(message),
        },
        ClientError::Write(_) | ClientError::Replaced { .. } | ClientError::Merge(_) => {
            Failure::check(message)
        }
    }
}
