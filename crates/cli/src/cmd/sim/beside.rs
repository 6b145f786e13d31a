//! `dpb sim beside`: measured programs on packets, and a model that was fed with their own records.

use std::path::PathBuf;

use dpb_core::measure::{Reading, Record};
use dpb_sim::beside::{Beside, beside, error};

use crate::Globals;
use crate::exit::Failure;
use crate::output::{self, Column, Table};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "The model of a program has a server and an overhead. The server's time for a packet is that of the run above the highest rate, the overhead is the latency of the run at the lowest \
                  rate. Runs between both are laid beside what the model says of them. What is simulated is labelled so; nothing of these runs is an input of it.\n\
                  Example:\n  dpb net trial --program forward --schedule poisson --rate 20k,200k,500k,10M --out records.jsonl\n  dpb sim beside records.jsonl"
)]
pub(super) struct Args {
    /// Records of `dpb net trial --rate`
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The seed of arrivals and overheads
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
}

/// Lays measured runs beside simulated ones.
pub(super) fn run(args: &Args, globals: &Globals) -> Result<(), Failure> {
    let reading = Reading::of_file(&args.file);
    let reading = reading.map_err(|why| Failure::usage(why.to_string()))?;
    let records: Vec<Record> = reading
        .records
        .into_iter()
        .map(|line| line.record)
        .collect();
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    for it in beside(&records, args.seed) {
        match it {
            Ok(it) => found.push(it),
            Err(why) => missing.push(why.to_string()),
        }
    }
    if found.is_empty() {
        let (file, why) = (args.file.display(), missing.join("; "));
        return Err(Failure::usage(format!("{file}: {why}")));
    }
    let table = table(&found);
    output::print(&(table.to(globals.format()) + "\n"))?;
    for why in &missing {
        output::print(&format!("without a model: {why}\n"))?;
    }
    for it in &found {
        let kind = it.evidence.kind();
        let [highest, lowest] = &it.calibration;
        output::print(&format!(
            "{}: {kind} on {}; simulated with {:.1} ns a packet (record {highest}) and the latencies of record {lowest}\n",
            it.program,
            it.machine,
            it.service_ps as f64 / 1e3,
        ))?;
    }
    Ok(())
}

fn table(found: &[Beside]) -> Table {
    let mut table = Table::new([
        Column::left("program"),
        Column::right("offered/s"),
        Column::right("measured/s"),
        Column::right("simulated/s"),
        Column::right("error"),
        Column::right("p50"),
        Column::right("simulated"),
        Column::right("error"),
        Column::right("p99"),
        Column::right("simulated"),
        Column::right("error"),
    ]);
    for it in found {
        for pair in &it.pairs {
            let mut row = vec![it.program.clone(), output::short(pair.rate)];
            row.extend(pair.packets_per_s.map(output::short));
            row.push(signed(error(pair.packets_per_s)));
            for times in [pair.p50_ns, pair.p99_ns] {
                row.extend(times.map(output::short_ns));
                row.push(signed(error(times)));
            }
            table.row(row);
        }
    }
    table
}

/// An error in percent, with its sign.
fn signed(error: f64) -> String {
    format!("{:+.1} %", error * 100.0)
}
