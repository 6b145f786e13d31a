//! The tables of a system that ran.

use dpb_core::measure::{Outcome, Record};
use dpb_sim::system::{Leg, System};

use crate::exit::Failure;
use crate::output::{self, Column, Format, Table};

/// Prints tables for a person: connections, parts, and the way of frames, of the first run.
pub(super) fn print_tables(
    format: Format,
    system: &System,
    record: &Record,
) -> Result<(), Failure> {
    for table in [connections(system), parts(system), legs(system)] {
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
        "completion {}, goodput {}bit/s: median of {runs} run(s); the tables are of the first; evidence: {}\n",
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

/// Utilisation and waiting of every part, until all applications had finished.
fn parts(system: &System) -> Table {
    let mut table = Table::new([
        Column::left("part"),
        Column::right("busy"),
        Column::right("jobs"),
        Column::right("mean wait"),
        Column::right("dropped"),
    ]);
    let run_ps = system.kernel().now_ps();
    let share = |busy_ps: u64, lanes: usize| {
        output::percent(busy_ps as f64 / (run_ps as f64 * lanes as f64))
    };
    for (name, host) in system.hosts() {
        let usage = host.usage();
        table.row([
            format!("{name}: cores"),
            share(usage.busy_ps, host.cores()),
            (usage.sent + usage.received).to_string(),
            String::new(),
            (usage.sum_wrong + usage.refused).to_string(),
        ]);
    }
    for (name, card) in system.cards() {
        for (stage, lanes, usage) in card.stages() {
            table.row([
                format!("card of {name}: {stage}"),
                share(usage.busy_ps, lanes),
                usage.jobs.to_string(),
                output::short_ns(usage.waited_ps as f64 / 1e3 / usage.jobs.max(1) as f64),
                usage.refused.to_string(),
            ]);
        }
        for (way, usage) in ["DMA out", "DMA in"].into_iter().zip(card.dma()) {
            table.row([
                format!("card of {name}: {way}"),
                share(usage.busy_ps, 1),
                usage.jobs.to_string(),
                output::short_ns(usage.waited_ps as f64 / 1e3 / usage.jobs.max(1) as f64),
                String::new(),
            ]);
        }
        let wire = card.wire_usage();
        let dropped = card.usage().no_descriptor;
        table.row([
            format!("card of {name}: wire"),
            share(wire.busy_ps, 1),
            wire.sent.to_string(),
            String::new(),
            dropped.to_string(),
        ]);
    }
    for (name, switch, ports) in system.switches() {
        for (port, to) in ports.iter().enumerate() {
            let wire = switch.wire_usage(port).unwrap_or_default();
            table.row([
                format!("{name}: wire to {to}"),
                share(wire.busy_ps, 1),
                wire.sent.to_string(),
                String::new(),
                (wire.dropped + wire.lost).to_string(),
            ]);
        }
    }
    table
}

/// The mean time of each leg of frames with payload, by the host that received them.
fn legs(system: &System) -> Table {
    let mut columns = vec![Column::left("frames received at")];
    columns.extend(Leg::ALL.map(|leg| Column::right(leg.name().replace('_', " "))));
    let mut table = Table::new(columns);
    for (name, host) in system.hosts().filter(|(_, host)| host.ways().frames > 0) {
        let ways = host.ways();
        let mean = |sum_ps: u64| output::short_ns(sum_ps as f64 / 1e3 / ways.frames as f64);
        table.row([name.to_owned()].into_iter().chain(ways.legs_ps.map(mean)));
    }
    table
}
