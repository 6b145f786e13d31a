//! `dpb report`: one HTML file from files of records, or charts for a terminal.

use std::path::PathBuf;

use dpb_core::measure::Reading;
use dpb_dbmods::tpch;

use crate::Globals;
use crate::exit::Failure;
use crate::plugin::Plugins;
use crate::shown::ShownTasks;
use crate::{output, report};

/// Draw records as one HTML page, or in the terminal.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Records of several machines on one page are compared where their tests are the same.\n\
                  Examples:\n  dpb op all --out records.jsonl && dpb report records.jsonl --out report.html\n  \
                  dpb report host.jsonl dpu.jsonl\n  \
                  dpb report records.jsonl --text | less"
)]
pub struct Args {
    /// Files of records, as `--out` of other verbs writes them
    #[arg(required = true)]
    records: Vec<PathBuf>,
    /// The page to write; a page that is there is replaced
    #[arg(long, default_value = "report.html")]
    out: PathBuf,
    /// A plug-in's folder, or a folder with plug-ins, whose records are drawn as its manifest says; those that the data folder
    /// (`DPB_DATA_DIR`) knows, because they have run with it, are found without the flag
    #[arg(long, value_name = "FOLDER")]
    plugins: Vec<PathBuf>,
    /// Draw in the terminal instead, with bars of text
    #[arg(long, conflicts_with = "out")]
    text: bool,
}

/// Characters of a line where the terminal does not say.
const COLUMNS: usize = 100;

/// Reads, draws, writes.
pub fn run(args: Args, globals: &Globals) -> Result<(), Failure> {
    let (mut records, mut warnings) = (Vec::new(), Vec::new());
    for path in &args.records {
        let reading = Reading::of_file(path)
            .map_err(|error| Failure::usage(format!("cannot read the {error}")))?;
        for damage in reading.damaged {
            let warning = format!("{}:{}: {}", path.display(), damage.number, damage.reason);
            output::note(&format!("dpb: skipped {warning}"));
            warnings.push(format!("Skipped {warning}"));
        }
        records.extend(reading.records.into_iter().map(|line| line.record));
    }
    if records.is_empty() {
        let names: Vec<String> = args
            .records
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        return Err(Failure::usage(format!("no record in {}", names.join(", "))));
    }
    let plugins = Plugins::known(&args.plugins, &tpch::default_data_dir(), globals.tasks)?;
    let shown = ShownTasks::of(globals.tasks, &plugins)?;
    if args.text {
        let text = report::text(&records, &warnings, &shown, columns());
        return output::print(&text);
    }
    output::write_whole(&args.out, &report::html(&records, &warnings, &shown))?;
    output::note(&format!(
        "{} records, {}",
        records.len(),
        args.out.display()
    ));
    Ok(())
}

/// The width of the terminal that stdout is.
fn columns() -> usize {
    let size = rustix::termios::tcgetwinsize(std::io::stdout());
    match size {
        Ok(size) if size.ws_col > 0 => usize::from(size.ws_col),
        _ => COLUMNS,
    }
}
