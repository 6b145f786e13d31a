//! The tables of a system that ran.

use dpb_core::measure::{Outcome, Record};
use dpb_sim::system::System;

use super::observed;
use crate::exit::Failure;
use crate::output::{self, Column, Format, Table};

/// Prints tables for a person: connections, parts, and the way of frames, of the first run.
pub(super) fn print_tables(
    format: Format,
    system: &System,
    record: &Record,
) -> Result<(), Failure> {
    let has_flows = system.hosts().any(|(_, host)| !host.flows().is_empty());
    let connections = has_flows.then(|| connections(system));
    for table in connections.into_iter().chain(observed::tables(system)) {
        let text = match format {
            Format::Markdown => table.to_markdown(),
            Format::Csv => table.to_csv(),
            Format::Table | Format::Json => table.to_text(),
        };
        output::print(&(text + "\n"))?;
    }
    if record.outcome != Outcome::Done {
        return Ok(());
    }
    let runs = record
        .samples
        .get("completion_s")
        .map_or(0, |it| it.values.len());
    let median = |name: &str| record.summary.get(name).map_or(0.0, |it| it.median);
    output::print(&format!(
        "{}\ncompletion {}, goodput {}bit/s: median of {runs} run(s); the tables are of the first; evidence: {}\n",
        observed::binding(system),
        output::short_ns(median("completion_s") * 1e9),
        output::short(median("goodput_bps")),
        output::evidence(record),
    ))
}

fn connections(system: &System) -> Table {
    let mut table = Table::new([
        Column::left("connection at"),
        Column::right("bytes received"),
        Column::right("answers"),
        Column::right("finished"),
        Column::right("Gbit/s"),
        Column::right("sent again"),
    ]);
    for (name, host) in system.hosts() {
        for flow in host.flows() {
            let bytes = flow.endpoint.delivered_bytes();
            let took_ps = flow.finished_ps.unwrap_or(0).saturating_sub(flow.opened_ps);
            table.row([
                format!("{name}, {}:{}", flow.peer.ip, flow.peer.port),
                bytes.to_string(),
                flow.answers.to_string(),
                output::short_ns(flow.finished_ps.unwrap_or(0) as f64 / 1e3),
                format!("{:.3}", bytes as f64 * 8e3 / took_ps.max(1) as f64),
                flow.endpoint
                    .sender()
                    .statistics()
                    .retransmissions
                    .to_string(),
            ]);
        }
    }
    table
}
