//! SQL text to the IR of [`crate::query`], and back to the text that DuckDB runs.
//!
//! # What is understood
//! - Conditions: `= == <> != < <= > >=` between columns, constants and arithmetic of both; `AND OR NOT`,
//!   `[NOT] BETWEEN`, `[NOT] IN` (constants, also constant expressions), `[NOT] LIKE` with `%`, `_` and `ESCAPE`,
//!   `IS [NOT] NULL`, `TRUE FALSE NULL`, parentheses.
//! - Values: columns (quoted, or with the table's name before them), exact numbers, DOUBLEs (`1e3`, `CAST('inf' AS
//!   DOUBLE)`), texts, dates (`DATE '1994-01-01'`, `CAST(… AS DATE)`, `…::DATE`, or a plain text compared with a date; BETWEEN
//!   compares all three, IN all of its list),
//!   `+ - * /`, unary `+ -`; DATE ± integer days; a constant DATE ± `INTERVAL '3' month` (or `INTERVAL 3 month`; day, week,
//!   month, year), and a date column ± an interval of days or weeks.
//! - Statements: `SELECT * FROM table`, or a list of columns, or aggregates behind the columns that they are grouped by; then
//!   `WHERE condition`, then `GROUP BY columns`, then `LIMIT number`.
//! - Aggregates: `count(*)`, `count(column)`, `sum min max avg` of an expression, each with an optional `AS name`.
//!
//! Precedence, types and constant folding are DuckDB's. Differences on the side of refusing: text is never turned into a
//! number, numbers are never conditions, comparisons do not chain. On the other side: `text BETWEEN text AND date` compares
//! dates, where DuckDB asks for a cast.
//!
//! # Errors
//! What is not understood is an error that points at the token, lists the table's columns, and suggests the nearest name. The
//! parser allocates in proportion to the text, and its depth is bounded: any text whatever gives an answer or an error.

mod parse;
mod token;
mod write;

use std::fmt;
use std::ops::Range;

use crate::query::{Aggregate, Predicate, Query};
use crate::schema::{ColumnType, Schema};

pub use write::{query_to_sql, scalar_to_sql, to_sql};

/// Longest text that is read, in bytes. Parentheses, NOTs and signs nest at most [`DEPTH_MAX`] levels deep.
///
/// [`DEPTH_MAX`]: crate::query::DEPTH_MAX
pub const SQL_BYTES_MAX: usize = 1024 * 1024;

/// What was not understood, and where. Its text is a message, the line with a caret under the place, and the columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqlError {
    /// The message, in one line.
    pub message: String,
    /// The line of the text that it is in (clipped if it is very long).
    pub line: String,
    /// The characters of `line` that are meant.
    pub at: Range<usize>,
    /// The table's columns and their types, as a line.
    pub columns: String,
}

impl std::error::Error for SqlError {}

impl fmt::Display for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.message)?;
        writeln!(f, "  {}", self.line)?;
        let carets = "^".repeat(self.at.len().max(1));
        writeln!(f, "  {}{carets}", " ".repeat(self.at.start))?;
        f.write_str(&self.columns)
    }
}

impl SqlError {
    /// An error at `at`, in bytes of `text`.
    fn new(schema: &Schema, text: &str, at: Range<usize>, message: impl Into<String>) -> Self {
        const CONTEXT: usize = 70;
        let start = text.floor_char_boundary(at.start);
        let end = text.ceil_char_boundary(at.end.min(text.len())).max(start);
        let line_start = text[..start].rfind('\n').map_or(0, |newline| newline + 1);
        let line_end = text[start..]
            .find('\n')
            .map_or(text.len(), |newline| start + newline);
        let before: Vec<char> = text[line_start..start].chars().collect();
        let inside = text[start..end.min(line_end)].chars().count().min(CONTEXT);
        let rest: Vec<char> = text[start..line_end]
            .chars()
            .take(inside + CONTEXT)
            .collect();
        let skipped = before.len().saturating_sub(CONTEXT);
        let mut line = String::from(if skipped > 0 { "…" } else { "" });
        // Escape sequences in a text must not reach the terminal; each stays one column wide.
        let shown = before[skipped..].iter().chain(&rest);
        line.extend(shown.map(|&c| if c.is_control() { ' ' } else { c }));
        let caret = before.len() - skipped + usize::from(skipped > 0);
        Self {
            message: message.into(),
            line,
            at: caret..caret + inside,
            columns: columns_line(schema),
        }
    }
}

impl Query {
    /// Reads a statement over the table of `schema`: `SELECT columns or aggregates FROM table WHERE condition GROUP BY columns`.
    ///
    /// # Errors
    /// Points at the first thing that is not understood.
    pub fn parse(schema: &Schema, text: &str) -> Result<Self, SqlError> {
        parse::query(schema, text)
    }
}

/// Reads a condition over the table's columns.
///
/// # Errors
/// Points at the first thing that is not understood.
pub fn parse_predicate(schema: &Schema, text: &str) -> Result<Predicate, SqlError> {
    parse::predicate(schema, text)
}

/// Reads `*`, or a list of columns: their positions in the schema.
///
/// # Errors
/// As [`parse_predicate`].
pub fn parse_columns(schema: &Schema, text: &str) -> Result<Vec<u32>, SqlError> {
    parse::columns(schema, text)
}

/// Reads a list of aggregate functions, and the columns that they are grouped by.
///
/// # Errors
/// As [`parse_predicate`].
pub fn parse_aggregate(
    schema: &Schema,
    text: &str,
    group_by: Option<&str>,
) -> Result<Aggregate, SqlError> {
    parse::aggregate(schema, text, group_by)
}

/// The type as SQL writes it.
pub fn type_name(ty: ColumnType) -> String {
    match ty {
        ColumnType::Integer => "INTEGER".into(),
        ColumnType::BigInt => "BIGINT".into(),
        ColumnType::Decimal { precision, scale } => format!("DECIMAL({precision},{scale})"),
        ColumnType::Date => "DATE".into(),
        ColumnType::Text => "VARCHAR".into(),
    }
}

fn columns_line(schema: &Schema) -> String {
    let columns: Vec<String> = (schema.columns.iter())
        .map(|column| format!("{} {}", column.name, type_name(column.ty)))
        .collect();
    format!("columns of {}: {}", schema.table, columns.join(", "))
}

#[cfg(test)]
mod tests;
