//! `dpb schema`: the JSON Schema of what dpb writes and reads, on stdout.

use clap::ValueEnum;
use dpb_core::measure::Record;
use dpb_core::measure::comparison::Comparison;
use dpb_core::spec::{Domain, Parameter};
use dpb_operators::registry::Entry;
use serde_json::{Map, Value, json};

use crate::exit::Failure;
use crate::output;
use crate::{Globals, boxes};

/// Print the JSON Schema of a document that dpb writes or reads.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  dpb schema record > record.schema.json\n  dpb schema operators"
)]
pub struct Args {
    /// The document
    #[arg(value_enum)]
    of: Subject,
}

/// What has a schema.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Subject {
    /// A record, the result of one test: one line of a records file
    Record,
    /// What `dpb compare` finds of one metric of one test: one line of its output
    Comparison,
    /// An operator with its parameters, as an object
    Operators,
    /// A box: the file that `dpb run` takes
    Box,
}

/// Prints the schema.
pub fn run(args: Args, globals: &Globals) -> Result<(), Failure> {
    let schema = match args.of {
        Subject::Record => schemars::schema_for!(Record).to_value(),
        Subject::Comparison => schemars::schema_for!(Comparison).to_value(),
        Subject::Box => boxes::schema(globals.tasks),
        Subject::Operators => json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": "Operator",
            "description": "An operator of dpb with its parameters; those that are not given have their defaults.",
            "oneOf": globals.operators.iter().map(operator).collect::<Vec<Value>>(),
        }),
    };
    let text = serde_json::to_string_pretty(&schema)
        .map_err(|error| Failure::check(format!("cannot write the schema: {error}")))?;
    output::print(&(text + "\n"))
}

/// An object of the operator's name and parameters.
fn operator(entry: &Entry) -> Value {
    let mut properties = Map::new();
    properties.insert("operator".to_owned(), json!({ "const": entry.name }));
    let parameters = entry.all_parameters();
    properties.extend(parameters.map(|p| (p.name.to_owned(), parameter(p))));
    json!({
        "title": entry.name,
        "description": entry.summary,
        "type": "object",
        "properties": properties,
        "required": ["operator"],
        "additionalProperties": false,
    })
}

/// The values that a parameter takes, its default and its meaning.
fn parameter(parameter: &Parameter) -> Value {
    let mut schema = match parameter.values {
        Domain::Number(first, last) => {
            json!({ "type": "integer", "minimum": first, "maximum": last })
        }
        Domain::Numbers { .. } => json!({ "type": "string", "pattern": r"^[0-9]+(\+[0-9]+)*$" }),
        Domain::Word(words) => json!({ "type": "string", "enum": words }),
        Domain::File => json!({ "type": "string", "minLength": 1 }),
    };
    schema["description"] = parameter.meaning.into();
    schema["default"] = match (parameter.values, parameter.default.parse()) {
        (Domain::Number(..), Ok::<u64, _>(number)) => number.into(),
        _ => parameter.default.into(),
    };
    schema
}
