//! `dpb completions`: completions for a shell, on stdout.

use clap_complete::Shell;

use crate::Globals;
use crate::exit::Failure;
use crate::output;

/// Which shell.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: dpb completions bash > ~/.local/share/bash-completion/completions/dpb"
)]
pub struct Args {
    /// The shell that will read them
    shell: Shell,
}

/// Prints the completions.
pub fn run(args: Args, _globals: &Globals) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut crate::command(), "dpb", &mut script);
    output::print(&String::from_utf8_lossy(&script))
}
