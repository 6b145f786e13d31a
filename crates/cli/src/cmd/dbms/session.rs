//! `dpb dbms-session`: the process that answers queries for `dpb dbms`, and ends with it.

use std::io;

use dpb_dbmods::dbms::session::{self, AgentAt};
use dpb_link::{ClientCredentials, Connect, Pass, Token};
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};

use crate::Globals;
use crate::exit::Failure;

/// Answer queries for the process that started this one.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The process that started this one
    #[arg(long)]
    parent: i32,
}

/// Answers until its input ends.
pub fn run(args: Args, _: &Globals) -> Result<(), Failure> {
    // A query that runs does not look at its input.
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    if Pid::as_raw(getppid()) != args.parent {
        return Err(Failure::interrupted(
            "the process that asked for this one has ended",
        ));
    }
    session::serve(io::stdin().lock(), io::stdout().lock(), &connect)
        .map_err(|error| Failure::check(format!("dbms-session: {error}")))
}

/// The way to connect to an agent.
fn connect(agent: &AgentAt) -> Result<Connect, String> {
    let pass = match (&agent.token, &agent.credentials) {
        (Some(token), _) => {
            Pass::Token(Token::new(token.as_bytes()).map_err(|error| error.to_string())?)
        }
        (None, Some(path)) => {
            let credentials = ClientCredentials::load(path);
            Pass::Credentials(credentials.map_err(|error| format!("--credentials: {error}"))?)
        }
        (None, None) => Pass::None,
    };
    Ok(Connect {
        pass,
        link_bits_per_s: agent.link_bits_per_s,
        ..Connect::new(&agent.address)
    })
}

/// The same without a pace, for whoever asks an agent about itself.
pub(super) fn connect_unpaced(agent: &AgentAt) -> Result<Connect, String> {
    Ok(Connect {
        link_bits_per_s: 0,
        ..connect(agent)?
    })
}
