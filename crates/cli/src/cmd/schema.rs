//! `dpb schema`: the JSON Schema of what dpb writes, on stdout.

use clap::ValueEnum;
use dpb_core::measure::Record;

use crate::Globals;
use crate::exit::Failure;
use crate::output;

/// Of what.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: dpb schema record > record.schema.json")]
pub struct Args {
    /// The document whose schema is printed
    #[arg(value_enum)]
    of: Subject,
}

/// What has a schema.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Subject {
    /// A record, the result of one test: one line of a records file
    Record,
}

/// Prints the schema.
pub fn run(args: Args, _globals: &Globals) -> Result<(), Failure> {
    let schema = match args.of {
        Subject::Record => schemars::schema_for!(Record),
    };
    let text = serde_json::to_string_pretty(&schema)
        .map_err(|error| Failure::check(format!("cannot write the schema: {error}")))?;
    output::print(&(text + "\n"))
}
