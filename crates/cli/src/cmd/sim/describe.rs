//! `dpb sim describe`: a system as a drawing.

use dpb_sim::system::{Description, WaysOut};

use super::source::{BACKEND, assemble_part, read};
use crate::Globals;
use crate::exit::Failure;
use crate::output;

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  dpb sim describe card | dot -Tsvg > system.svg")]
pub(super) struct Args {
    /// The system: a file, or the name of one that comes with dpb
    #[arg(value_name = "NAME")]
    system: String,
}

/// Prints the system as a graph.
pub(super) fn run(args: &Args, globals: &Globals) -> Result<(), Failure> {
    let description = read(&args.system, &[])?;
    // A system that cannot be put together is not drawn.
    let ways = WaysOut::default();
    assemble_part(&description, &args.system, BACKEND, 1, 1, ways, globals)?;
    let mut text = "graph system {\n  node [shape=box]\n".to_owned();
    for host in &description.host {
        let digest = host.digest.as_ref();
        let digest = digest.map(|it| format!("cores: {}", it.operator));
        text += &station(&description, &host.name, digest);
    }
    for real in &description.real {
        let port = match (&real.tap, &real.stream) {
            (Some(tap), _) => format!("real: TAP {tap}"),
            (None, Some(path)) => format!("real: QEMU at {path}"),
            (None, None) => "real".to_owned(),
        };
        text += &station(&description, &real.name, Some(port));
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

/// A host with its card.
fn station(description: &Description, name: &str, more: Option<String>) -> String {
    let card = description.card.iter().find(|card| card.host == name);
    let mut lines = vec![name.to_owned()];
    lines.extend(more);
    let stages = card.into_iter().flat_map(|card| &card.stage);
    lines
        .extend(stages.map(|stage| format!("card: {} x {}", stage.lanes.unwrap_or(1), stage.name)));
    format!("  {:?} [label={:?}]\n", name, lines.join("\n"))
}
