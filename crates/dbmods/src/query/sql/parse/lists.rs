//! Columns, and calls of aggregate functions.

use super::super::token::{Token, is_symbol};
use super::{Parser, Result};
use crate::query::{AggregateCall, AggregateFunction, Literal, Scalar, literal_fits};
use crate::schema::Schema;

impl Parser<'_> {
    pub(super) fn column_list(&mut self) -> Result<Vec<u32>> {
        let mut columns = vec![self.column()?];
        while self.tokens.take(",") {
            columns.push(self.column()?);
        }
        Ok(columns)
    }

    /// A column, alone or after the table's name and a point.
    pub(super) fn column(&mut self) -> Result<u32> {
        let (token, mut at) = self.tokens.peek();
        let Token::Word { value, .. } = token else {
            return Err(self.expected("a column"));
        };
        let mut name = value.clone();
        if self.schema.position(&name).is_none()
            && let Some(beyond) = self.beyond()
        {
            return Err(beyond);
        }
        self.tokens.advance();
        if is_symbol(self.tokens.peek().0, ".") && name.eq_ignore_ascii_case(&self.schema.table) {
            self.tokens.advance();
            let (token, column_at) = self.tokens.peek();
            let Token::Word { value, .. } = token else {
                return Err(self.expected("a column"));
            };
            (name, at) = (value.clone(), column_at);
            self.tokens.advance();
        }
        if let Some(column) = self.schema.position(&name) {
            return Ok(column as u32);
        }
        let shown = self.snippet(&at);
        if is_symbol(self.tokens.peek().0, "(") {
            return Err(self.error(at, format!("there is no function `{shown}` here")));
        }
        let hint = match nearest(self.schema, &name) {
            Some(nearest) => format!("; did you mean `{nearest}`?"),
            None => String::new(),
        };
        Err(self.error(
            at,
            format!("no column `{shown}` in {}{hint}", self.schema.table),
        ))
    }

    pub(super) fn aggregate_call(&mut self) -> Result<AggregateCall> {
        const FUNCTIONS: &str = "count, sum, min, max or avg";
        let (token, at) = self.tokens.peek();
        let name = match token {
            Token::Word { value, .. } if is_symbol(self.tokens.peek_second(), "(") => {
                value.to_ascii_lowercase()
            }
            _ => return Err(self.expected(FUNCTIONS)),
        };
        let build: fn(Scalar) -> AggregateFunction = match name.as_str() {
            "count" => |_| AggregateFunction::Count,
            "sum" => AggregateFunction::Sum,
            "min" => AggregateFunction::Min,
            "max" => AggregateFunction::Max,
            "avg" => AggregateFunction::Avg,
            _ => return Err(self.expected(FUNCTIONS)),
        };
        self.tokens.advance();
        self.tokens.advance();
        let function = if name == "count" {
            if !self.tokens.take("*") {
                self.column()?;
            }
            AggregateFunction::Count
        } else {
            let argument = self.sum()?;
            let argument = self.value_of(argument)?;
            let function = build(argument.scalar);
            function
                .accepts(argument.ty)
                .map_err(|error| self.error(argument.at, error.0))?;
            function
        };
        if !self.tokens.take(")") {
            return Err(self.expected(&format!("an operator or the ) of {name}")));
        }
        let written = self.text[at.start..self.tokens.last_end()].to_owned();
        let name = if self.tokens.take_word("AS") {
            self.alias()?
        } else {
            written
        };
        literal_fits(&Literal::Text(name.clone())).map_err(|error| self.error(at, error.0))?;
        Ok(AggregateCall { name, function })
    }

    fn alias(&mut self) -> Result<String> {
        let name = match self.tokens.peek().0 {
            Token::Word { value, .. } if !value.is_empty() => value.clone(),
            _ => return Err(self.expected("a name")),
        };
        self.tokens.advance();
        Ok(name)
    }
}

/// The column whose name differs least, if by no more than a third of its letters.
fn nearest<'a>(schema: &'a Schema, name: &str) -> Option<&'a str> {
    const LONGEST: usize = 64;
    if name.len() > LONGEST {
        return None;
    }
    let name: Vec<char> = name.to_lowercase().chars().collect();
    let distances = schema
        .columns
        .iter()
        .map(|column| (distance(&name, &column.name), &column.name));
    let (distance, nearest) = distances.min_by_key(|(distance, _)| *distance)?;
    (distance * 3 <= nearest.len().max(name.len())).then_some(nearest)
}

/// Levenshtein's distance.
fn distance(a: &[char], b: &str) -> usize {
    let mut row: Vec<usize> = (0..=a.len()).collect();
    for (i, y) in b.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, x) in a.iter().enumerate() {
            let replaced = diagonal + usize::from(*x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[a.len()]
}
