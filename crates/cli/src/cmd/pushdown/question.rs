//! From flags to queries.

use dpb_core::printable;
use dpb_dbmods::compare::Question;
use dpb_dbmods::compare::tpch_predicates::{self, PRESETS};
use dpb_dbmods::query::sql::{self, SqlError};
use dpb_dbmods::query::{Output, Predicate, Query};
use dpb_dbmods::schema::Schema;
use dpb_dbmods::service::client::Client;
use dpb_dbmods::service::protocol::DataSet;

use super::{Args, client_failure};
use crate::exit::Failure;
use crate::output;

/// Characters of an agent's condition that are shown.
const CONDITION_CHARS_MAX: usize = 2000;

/// What was asked, checked as far as it can be without an agent.
#[derive(Debug)]
pub struct Asked {
    condition: Condition,
    output: Output,
    table: String,
}

#[derive(Debug)]
enum Condition {
    /// A condition, and what it is called.
    Given(Predicate, String),
    /// Shares of rows, for which the agent finds conditions.
    Shares(Vec<f64>),
}

impl Asked {
    /// Reads the flags.
    ///
    /// # Errors
    /// Wrong usage; SQL that is not understood, pointing at the token.
    pub fn parse(args: &Args, schema: &Schema) -> Result<Self, Failure> {
        let condition = match (&args.condition, &args.query) {
            (Some(text), _) => {
                let predicate = sql::parse_predicate(schema, text)
                    .map_err(|error| not_understood("--where", &error))?;
                Condition::Given(predicate, "where".to_owned())
            }
            (None, Some(name)) => {
                let preset = tpch_predicates::preset(name).ok_or_else(|| {
                    let known: Vec<&str> = PRESETS.iter().map(|preset| preset.name).collect();
                    Failure::usage(format!(
                        "--query {name}: there is no such query here; there are {}",
                        known.join(", ")
                    ))
                })?;
                check_preset("--query", name, schema)?;
                let predicate = sql::parse_predicate(schema, preset.predicate)
                    .map_err(|error| not_understood("--query", &error))?;
                Condition::Given(predicate, preset.name.to_owned())
            }
            (None, None) => Condition::Shares(args.selectivity.iter().copied().collect()),
        };
        let output = match &args.aggregate {
            Some(text) => {
                // `--aggregate q1` is that query's own.
                let preset = tpch_predicates::preset(text).and_then(|preset| {
                    let functions = preset.aggregate?;
                    Some((functions, preset.group_by))
                });
                if preset.is_some() {
                    check_preset("--aggregate", text, schema)?;
                }
                let (text, own_groups) = preset.unwrap_or((text.as_str(), None));
                let group_by = args.group_by.as_deref().or(own_groups);
                let aggregate = sql::parse_aggregate(schema, text, group_by)
                    .map_err(|error| not_understood("--aggregate", &error))?;
                Output::Aggregate(aggregate)
            }
            None => {
                let columns = sql::parse_columns(schema, &args.columns)
                    .map_err(|error| not_understood("--columns", &error))?;
                Output::Rows(columns)
            }
        };
        Ok(Self {
            condition,
            output,
            table: schema.table.clone(),
        })
    }

    /// The questions. For shares of rows the agent behind `client` finds the conditions, and what it chose is said.
    ///
    /// # Errors
    /// If the agent cannot say.
    pub fn questions(
        self,
        client: &mut Client,
        schema: &Schema,
        data: &DataSet,
    ) -> Result<Vec<Question>, Failure> {
        let ask = |predicate, name: String, selectivity_asked| Question {
            query: Query {
                table: self.table.clone(),
                predicate,
                output: self.output.clone(),
                limit: None,
            },
            name,
            selectivity_asked,
        };
        let shares = match &self.condition {
            Condition::Given(predicate, name) => {
                return Ok(vec![ask(predicate.clone(), name.clone(), None)]);
            }
            Condition::Shares(shares) => shares,
        };
        let mut questions = Vec::new();
        for &share in shares {
            let (predicate, found) = client
                .pick(data, &self.table, share)
                .map_err(client_failure)?;
            output::note(&format!(
                "selectivity {share}: {} selects {found:.6}",
                printable(&sql::to_sql(&predicate, schema), CONDITION_CHARS_MAX)
            ));
            questions.push(ask(predicate, "selectivity".to_owned(), Some(share)));
        }
        Ok(questions)
    }
}

/// Refuses a preset for another table than its own.
fn check_preset(flag: &str, name: &str, schema: &Schema) -> Result<(), Failure> {
    match schema.table == tpch_predicates::TABLE {
        true => Ok(()),
        false => Err(Failure::usage(format!(
            "{flag} {name} asks about {}, and --table is {}: give a condition with --where, or a share of rows with --selectivity",
            tpch_predicates::TABLE,
            schema.table
        ))),
    }
}

fn not_understood(flag: &str, error: &SqlError) -> Failure {
    Failure::usage(format!("{flag} is not understood\n{error}"))
}
