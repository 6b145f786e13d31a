//! `dpb report`: one HTML file from files of records, or charts for a terminal.

use std::io::Write;
use std::path::{Path, PathBuf};

use dpb_core::measure::Reading;

use crate::Globals;
use crate::exit::Failure;
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
    if args.text {
        let text = report::text(&records, &warnings, globals.tasks, columns());
        return output::print(&text);
    }
    write_whole(&args.out, &report::html(&records, &warnings, globals.tasks))?;
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

/// Writes a file that is there whole or not at all.
pub fn write_whole(path: &Path, text: &str) -> Result<(), Failure> {
    let failed = |error: std::io::Error| {
        let named = format!("cannot write {}: {error}", path.display());
        output::unwritable(&std::io::Error::new(error.kind(), named))
    };
    if path.is_dir() {
        return Err(failed(std::io::ErrorKind::IsADirectory.into()));
    }
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = PathBuf::from(name);
    let written = std::fs::File::create(&temporary)
        .and_then(|mut file| {
            file.write_all(text.as_bytes())
                .and_then(|()| file.sync_all())
        })
        .and_then(|()| std::fs::rename(&temporary, path));
    written.map_err(|error| {
        // Best effort: the first error is the one to tell.
        let _ = std::fs::remove_file(&temporary);
        failed(error)
    })
}
