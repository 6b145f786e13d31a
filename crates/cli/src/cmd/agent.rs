//! What the verbs that ask an agent share: which one, what is shown to it, the link to it, and how its failures end the process.

use std::path::{Path, PathBuf};

use dpb_dbmods::service::client::ClientError;
use dpb_link::{ClientCredentials, Pass};

use super::serve;
use crate::args;
use crate::exit::Failure;

/// The agent of a verb that starts its own where none is named. The verb gives the heading in the help.
#[derive(Debug, clap::Args)]
pub struct AgentFlags {
    /// The address of an agent elsewhere (`dpb serve`), host:port [default: processes of our own on loopback]
    #[arg(long, value_name = "ADDRESS", value_parser = args::address)]
    pub server: Option<String>,
    /// The file `client.credentials` of the agent's credentials (`dpb serve init` there makes it): the connection is encrypted.
    /// An agent on another machine needs it
    #[arg(long, value_name = "FILE", requires = "server")]
    pub credentials: Option<PathBuf>,
    /// A file with the token that an agent on this machine asks for; only its owner may read it
    #[arg(
        long,
        value_name = "FILE",
        requires = "server",
        conflicts_with = "credentials"
    )]
    pub token_file: Option<PathBuf>,
}

/// The link of a verb that compares ways over it, and the agent behind it.
#[derive(Debug, clap::Args)]
pub struct LinkFlags {
    /// The pace of the link in both directions, the same for all that are compared; 0 is the bare connection
    #[arg(
        long,
        value_name = "REAL",
        default_value = "0",
        value_parser = gbps,
        allow_negative_numbers = true
    )]
    link_gbps: f64,
    #[command(flatten)]
    pub agent: AgentFlags,
}

impl AgentFlags {
    /// What is shown to the agent.
    ///
    /// # Errors
    /// A file that cannot be used.
    pub fn pass(&self) -> Result<Pass, Failure> {
        pass(self.credentials.as_deref(), self.token_file.as_deref())
    }

    /// The agent, as records name it.
    pub fn name(&self) -> &str {
        self.server.as_deref().unwrap_or("loopback")
    }
}

impl LinkFlags {
    /// The pace in Gbit/s; 0 without one.
    pub fn gbps(&self) -> f64 {
        self.link_gbps
    }

    /// The pace in bits a second; 0 without one.
    pub fn bits_per_s(&self) -> u64 {
        (self.link_gbps * 1e9) as u64
    }
}

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
    Failure::that_ends(error.ends(), error.to_string())
}

/// A link's pace.
fn gbps(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(0.0) => Ok(0.0),
        Ok(value) if (0.001..=10_000.0).contains(&value) => Ok(value),
        Ok(_) => Err(format!("{text} is not 0 or between 0.001 and 10000")),
        Err(_) => Err(format!("`{text}` is not a number")),
    }
}
