//! `dpb report`: one HTML file from files of records.

use std::io::Write;
use std::path::{Path, PathBuf};

use dpb_core::measure::Reading;

use crate::Globals;
use crate::exit::Failure;
use crate::{output, report};

/// Draw records as one HTML page.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: dpb op all --out records.jsonl && dpb report records.jsonl --out report.html"
)]
pub struct Args {
    /// Files of records, as `--out` of other verbs writes them
    #[arg(required = true)]
    records: Vec<PathBuf>,
    /// The page to write; a page that is there is replaced
    #[arg(long, default_value = "report.html")]
    out: PathBuf,
}

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
    write_whole(&args.out, &report::html(&records, &warnings, globals.tasks))?;
    output::note(&format!(
        "{} records, {}",
        records.len(),
        args.out.display()
    ));
    Ok(())
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
