//! Whole statements as text: columns or aggregates, a condition, groups, a limit.

use super::Generator;
use crate::query::{Output, Predicate, Query, sql};

/// A statement as its author writes it, and as DuckDB runs it.
#[derive(Clone, Debug)]
pub struct Statement {
    /// The text that dpb reads, with its limit.
    pub text: String,
    /// The text for DuckDB, without the limit: the same condition, word for word, and results of the types that a scan has.
    pub whole: String,
    /// The output that the text asks for.
    pub output: Output,
    /// The limit of the text.
    pub limit: Option<u64>,
}

impl Generator<'_> {
    /// The next statement; aggregates are grouped by none to two columns of `group_by`.
    pub fn statement(&mut self, group_by: &[u32]) -> Statement {
        let schema = self.schema;
        let output = match self.random.percent(30) {
            true => Output::Aggregate(self.aggregate(group_by)),
            false => Output::Rows(self.some_columns()),
        };
        let condition = self.condition_text();
        let limit = self.random.percent(25).then(|| self.limit());
        let query = Query {
            table: schema.table.clone(),
            predicate: Predicate::Constant(Some(true)),
            output: output.clone(),
            limit: None,
        };
        let table = &schema.table;
        let from = match &condition {
            Some(condition) => format!("(SELECT * FROM {table} WHERE {condition}) AS {table}"),
            None => table.clone(),
        };
        let mut text = format!("SELECT {} FROM {table}", self.list(&output));
        if let Some(condition) = &condition {
            text += &format!(" WHERE {condition}");
        }
        if let Output::Aggregate(aggregate) = &output
            && !aggregate.group_by.is_empty()
        {
            text += &format!(" GROUP BY {}", self.names(&aggregate.group_by));
        }
        if let Some(limit) = limit {
            text += &format!(" LIMIT {limit}");
        }
        Statement {
            text,
            whole: sql::query_to_sql(&query, schema, &from),
            output,
            limit,
        }
    }

    /// All columns, or some in any order, at times one of them twice.
    fn some_columns(&mut self) -> Vec<u32> {
        let columns = self.schema.columns.len();
        if self.random.percent(30) {
            return (0..columns as u32).collect();
        }
        let count = 1 + self.random.below(columns.min(6));
        (0..count)
            .map(|_| self.random.below(columns) as u32)
            .collect()
    }

    fn condition_text(&mut self) -> Option<String> {
        let schema = self.schema;
        Some(match self.random.below(20) {
            0 => return None,
            1..4 => self.between_text(),
            4 | 5 => {
                let word = *self.random.of(&["AND", "OR"]);
                let predicate = sql::to_sql(&self.predicate(), schema);
                format!("{} {word} ({predicate})", self.between_text())
            }
            _ => sql::to_sql(&self.predicate(), schema),
        })
    }

    /// None, a few rows, many, or more than there are.
    fn limit(&mut self) -> u64 {
        match self.random.below(6) {
            0 => 0,
            1 => 1,
            2 | 3 => self.random.below(40) as u64,
            4 => self.random.below(30_000) as u64,
            _ => 1 << 40,
        }
    }

    /// What stands behind SELECT.
    fn list(&mut self, output: &Output) -> String {
        match output {
            Output::Rows(columns) => {
                let all = 0..self.schema.columns.len() as u32;
                match columns.iter().copied().eq(all) {
                    true => "*".to_owned(),
                    false => self.names(columns),
                }
            }
            Output::Aggregate(aggregate) => {
                let calls = aggregate.functions.iter().map(|call| {
                    let argument = call.function.argument();
                    let argument = argument.map_or_else(
                        || "*".to_owned(),
                        |argument| sql::scalar_to_sql(argument, self.schema),
                    );
                    format!("{}({argument}) AS {}", call.function.name(), call.name)
                });
                let calls = calls.collect::<Vec<_>>().join(", ");
                match aggregate.group_by.is_empty() {
                    true => calls,
                    false => format!("{}, {calls}", self.names(&aggregate.group_by)),
                }
            }
        }
    }

    fn names(&self, columns: &[u32]) -> String {
        let names = columns
            .iter()
            .map(|&column| self.schema.columns[column as usize].name.as_str());
        names.collect::<Vec<_>>().join(", ")
    }
}
