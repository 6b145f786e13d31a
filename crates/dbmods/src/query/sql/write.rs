//! The IR as the text that DuckDB runs.

use std::fmt::Write;

use crate::query::date;
use crate::query::{
    AggregateFunction, ArithmeticOp, DIGITS_MAX, Literal, Output, Predicate, Query, Scalar,
    ScalarType,
};
use crate::schema::Schema;

/// A predicate as SQL. [`super::parse_predicate`] reads it back to the same predicate, if its constants are folded.
/// Of what [`Predicate::check`] would refuse something is written too, for a person.
pub fn to_sql(predicate: &Predicate, schema: &Schema) -> String {
    let mut writer = Writer {
        schema,
        sql: String::new(),
    };
    writer.predicate(predicate);
    writer.sql
}

/// A value as SQL.
pub fn scalar_to_sql(scalar: &Scalar, schema: &Schema) -> String {
    let mut writer = Writer {
        schema,
        sql: String::new(),
    };
    writer.scalar(scalar);
    writer.sql
}

/// A whole query over `from` (a table's name, or a table function as SQL writes it). Results have the types of
/// the scan's output schema: casts are there where DuckDB's own differ.
pub fn query_to_sql(query: &Query, schema: &Schema, from: &str) -> String {
    let mut writer = Writer {
        schema,
        sql: String::from("SELECT "),
    };
    match &query.output {
        Output::Rows(columns) => writer.columns(columns),
        Output::Aggregate(aggregate) => {
            writer.columns(&aggregate.group_by);
            for (i, call) in aggregate.functions.iter().enumerate() {
                if i > 0 || !aggregate.group_by.is_empty() {
                    writer.sql.push_str(", ");
                }
                writer.function(&call.function);
                let name = call.name.replace('"', "\"\"");
                writer.push(format_args!(" AS \"{name}\""));
            }
        }
    }
    writer.push(format_args!(" FROM {from}"));
    if query.predicate != Predicate::Constant(Some(true)) {
        writer.sql.push_str(" WHERE ");
        writer.predicate(&query.predicate);
    }
    if let Output::Aggregate(aggregate) = &query.output
        && !aggregate.group_by.is_empty()
    {
        writer.sql.push_str(" GROUP BY ");
        writer.columns(&aggregate.group_by);
    }
    if let Some(limit) = query.limit {
        writer.push(format_args!(" LIMIT {limit}"));
    }
    writer.sql
}

struct Writer<'a> {
    schema: &'a Schema,
    sql: String,
}

impl Writer<'_> {
    fn predicate(&mut self, predicate: &Predicate) {
        match predicate {
            Predicate::Constant(Some(true)) => self.sql.push_str("TRUE"),
            Predicate::Constant(Some(false)) => self.sql.push_str("FALSE"),
            Predicate::Constant(None) => self.sql.push_str("NULL"),
            Predicate::Compare { op, left, right } => {
                self.scalar(left);
                self.push(format_args!(" {} ", op.symbol()));
                self.scalar(right);
            }
            Predicate::In { .. } | Predicate::Like { .. } | Predicate::IsNull(_) => {
                self.postfix(predicate, "");
            }
            Predicate::And(all) => self.joined(all, " AND ", "TRUE"),
            Predicate::Or(any) => self.joined(any, " OR ", "FALSE"),
            Predicate::Not(one) => match **one {
                Predicate::In { .. } | Predicate::Like { .. } | Predicate::IsNull(_) => {
                    self.postfix(one, "NOT ");
                }
                _ => {
                    self.sql.push_str("NOT (");
                    self.predicate(one);
                    self.sql.push(')');
                }
            },
        }
    }

    /// IN, LIKE and IS NULL, which take their NOT inside.
    fn postfix(&mut self, predicate: &Predicate, not: &str) {
        match predicate {
            Predicate::In { value, list } => {
                self.scalar(value);
                self.push(format_args!(" {not}IN ("));
                for (i, literal) in list.iter().enumerate() {
                    if i > 0 {
                        self.sql.push_str(", ");
                    }
                    self.literal(literal);
                }
                self.sql.push(')');
            }
            Predicate::Like {
                column,
                pattern,
                escape,
            } => {
                self.column(*column);
                self.push(format_args!(" {not}LIKE "));
                self.text(pattern);
                if let Some(escape) = escape {
                    self.sql.push_str(" ESCAPE ");
                    self.text(escape.encode_utf8(&mut [0; 4]));
                }
            }
            Predicate::IsNull(value) => {
                self.scalar(value);
                self.push(format_args!(" IS {not}NULL"));
            }
            other => self.predicate(other),
        }
    }

    fn joined(&mut self, parts: &[Predicate], word: &str, of_none: &str) {
        if parts.is_empty() {
            self.sql.push_str(of_none);
        }
        for (i, part) in parts.iter().enumerate() {
            if i > 0 {
                self.sql.push_str(word);
            }
            let nested = matches!(part, Predicate::And(_) | Predicate::Or(_));
            self.sql.push_str(if nested { "(" } else { "" });
            self.predicate(part);
            self.sql.push_str(if nested { ")" } else { "" });
        }
    }

    fn scalar(&mut self, scalar: &Scalar) {
        match scalar {
            Scalar::Column(column) => self.column(*column),
            Scalar::Literal(literal) => self.literal(literal),
            Scalar::Arithmetic { op, left, right } => {
                self.operand(left, precedence(*op));
                self.push(format_args!(" {} ", op.symbol()));
                self.operand(right, precedence(*op) + 1);
            }
        }
    }

    /// In parentheses if it binds less than it must.
    fn operand(&mut self, scalar: &Scalar, at_least: u8) {
        let nested = matches!(scalar, Scalar::Arithmetic { op, .. } if precedence(*op) < at_least);
        self.sql.push_str(if nested { "(" } else { "" });
        self.scalar(scalar);
        self.sql.push_str(if nested { ")" } else { "" });
    }

    fn function(&mut self, function: &AggregateFunction) {
        let (name, cast) = match function {
            AggregateFunction::Count => {
                self.sql.push_str("count(*)");
                return;
            }
            AggregateFunction::Sum(of) => {
                let decimal = matches!(self.type_of(of), ScalarType::Decimal { .. });
                ("sum", (!decimal).then_some(0))
            }
            AggregateFunction::Min(of) => ("min", self.expression_scale(of)),
            AggregateFunction::Max(of) => ("max", self.expression_scale(of)),
            // What DuckDB 2 makes of avg itself; versions before it round an avg differently.
            AggregateFunction::Avg(of) => {
                self.sql.push_str("CAST(sum(");
                self.scalar(of);
                self.sql.push_str(") AS DOUBLE) / count(*)");
                return;
            }
        };
        self.sql.push_str(if cast.is_some() { "CAST(" } else { "" });
        self.push(format_args!("{name}("));
        if let Some(argument) = function.argument() {
            self.scalar(argument);
        }
        self.sql.push(')');
        if let Some(scale) = cast {
            self.push(format_args!(" AS DECIMAL({DIGITS_MAX},{scale}))"));
        }
    }

    /// The scale of an exact number that is no plain column, whose own type is not the output's.
    fn expression_scale(&self, scalar: &Scalar) -> Option<u8> {
        match scalar {
            Scalar::Column(_) => None,
            expression => self.type_of(expression).scale(),
        }
    }

    /// NULL for what has no type.
    fn type_of(&self, scalar: &Scalar) -> ScalarType {
        let checked = scalar.scalar_type(self.schema);
        checked.unwrap_or(ScalarType::Null)
    }

    fn columns(&mut self, columns: &[u32]) {
        for (i, &column) in columns.iter().enumerate() {
            if i > 0 {
                self.sql.push_str(", ");
            }
            self.column(column);
        }
    }

    fn column(&mut self, column: u32) {
        let Some(known) = self.schema.columns.get(column as usize) else {
            self.push(format_args!("\"column {column}\""));
            return;
        };
        let name = &known.name;
        // As TPC-H names its columns; no keyword looks so, and everything else is quoted.
        let plain = name
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
            && name.starts_with(|c: char| !c.is_ascii_digit())
            && name
                .split_once('_')
                .is_some_and(|(table, _)| table.len() <= 2);
        if plain {
            self.sql.push_str(name);
        } else {
            self.push(format_args!("\"{}\"", name.replace('"', "\"\"")));
        }
    }

    fn literal(&mut self, literal: &Literal) {
        match literal {
            Literal::Null => self.sql.push_str("NULL"),
            Literal::Number { unscaled, scale } => self.number(*unscaled, *scale),
            Literal::Double(value) if value.is_finite() => self.push(format_args!("{value:e}")),
            Literal::Double(value) => self.push(format_args!("CAST('{value}' AS DOUBLE)")),
            Literal::Date(days) => self.push(format_args!("DATE '{}'", date::text(*days))),
            Literal::Text(text) => self.text(text),
        }
    }

    fn number(&mut self, unscaled: i128, scale: u8) {
        if unscaled < 0 {
            self.sql.push('-');
        }
        let digits = unscaled.unsigned_abs().to_string();
        if scale == 0 {
            self.sql.push_str(&digits);
            return;
        }
        // DuckDB counts a leading zero as a digit, so that a full fraction has none.
        let least = usize::from(scale) + usize::from(scale < DIGITS_MAX);
        let digits = format!("{digits:0>least$}");
        let (whole, fraction) = digits.split_at(digits.len() - usize::from(scale));
        self.push(format_args!("{whole}.{fraction}"));
    }

    fn text(&mut self, text: &str) {
        self.push(format_args!("'{}'", text.replace('\'', "''")));
    }

    fn push(&mut self, text: std::fmt::Arguments<'_>) {
        self.sql.write_fmt(text).expect("a String takes all");
    }
}

fn precedence(op: ArithmeticOp) -> u8 {
    match op {
        ArithmeticOp::Add | ArithmeticOp::Subtract => 1,
        ArithmeticOp::Multiply | ArithmeticOp::Divide => 2,
    }
}
