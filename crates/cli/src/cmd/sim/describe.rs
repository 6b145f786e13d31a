//! `dpb sim describe`: a system as a drawing.

use std::path::PathBuf;

use super::source::{BACKEND, assemble, read};
use crate::Globals;
use crate::exit::Failure;
use crate::output;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  dpb sim describe crates/sim/systems/card.toml | dot -Tsvg > system.svg"
)]
pub(super) struct Args {
    /// The system: a TOML file
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// Prints the system as a graph.
pub(super) fn run(args: &Args, globals: &Globals) -> Result<(), Failure> {
    let description = read(&args.file)?;
    // A system that cannot be put together is not drawn.
    assemble(&description, &args.file, BACKEND, 1, 1, globals)?;
    let mut text = "graph system {\n  node [shape=box]\n".to_owned();
    for host in &description.host {
        let card = description.card.iter().find(|card| card.host == host.name);
        let mut lines = vec![host.name.clone()];
        let digest = host
            .digest
            .as_ref()
            .map(|it| format!("cores: {}", it.operator));
        lines.extend(digest);
        let stages = card.into_iter().flat_map(|card| &card.stage);
        lines.extend(
            stages.map(|stage| format!("card: {} x {}", stage.lanes.unwrap_or(1), stage.name)),
        );
        text += &format!("  {:?} [label={:?}]\n", host.name, lines.join("\n"));
    }
    for switch in &description.switch {
        text += &format!("  {:?} [shape=diamond]\n", switch.name);
    }
    for link in &description.link {
        let rate = link
            .rate_gbps
            .map_or_else(String::new, |it| format!("{it} Gbit/s"));
        text += &format!(
            "  {:?} -- {:?} [label={rate:?}]\n",
            link.ends[0], link.ends[1]
        );
    }
    output::print(&(text + "}\n"))
}
