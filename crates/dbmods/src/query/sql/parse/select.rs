//! Whole statements: `SELECT … FROM … WHERE … GROUP BY …`.

use super::super::token::{Token, is_symbol};
use super::{Parser, Result};
use crate::query::{Aggregate, AggregateCall, GROUP_BY_MAX, LIMIT_MAX, Output, Predicate, Query};
use crate::schema::Schema;

/// Reads a statement over the table of `schema`.
pub(in crate::query::sql) fn query(schema: &Schema, text: &str) -> Result<Query> {
    let mut parser = Parser::new(schema, text)?;
    let list = parser.select_list()?;
    parser.table_name()?;
    let predicate = match parser.tokens.take_word("WHERE") {
        true => {
            let term = parser.condition()?;
            parser.predicate_of(term)?
        }
        false => Predicate::Constant(Some(true)),
    };
    let output = parser.output_of(list)?;
    let limit = parser.limit()?;
    parser.tokens.take(";");
    parser.end("the end")?;
    let query = Query {
        table: schema.table.clone(),
        predicate,
        output,
        limit,
    };
    query
        .check(schema)
        .map_err(|error| parser.error(0..text.len(), error.0))?;
    Ok(query)
}

/// A list behind SELECT: columns, then aggregate functions.
struct SelectList {
    columns: Vec<u32>,
    functions: Vec<AggregateCall>,
}

impl Parser<'_> {
    fn select_list(&mut self) -> Result<SelectList> {
        if !self.tokens.take_word("SELECT") {
            return Err(self.expected("SELECT"));
        }
        let mut list = SelectList {
            columns: Vec::new(),
            functions: Vec::new(),
        };
        if self.tokens.take("*") {
            list.columns = (0..self.schema.columns.len() as u32).collect();
            return Ok(list);
        }
        loop {
            let is_call = matches!(self.tokens.peek().0, Token::Word { .. })
                && is_symbol(self.tokens.peek_second(), "(");
            if is_call || !list.functions.is_empty() {
                list.functions.push(self.aggregate_call()?);
            } else {
                list.columns.push(self.column()?);
            }
            if !self.tokens.take(",") {
                return Ok(list);
            }
        }
    }

    fn table_name(&mut self) -> Result<()> {
        if !self.tokens.take_word("FROM") {
            return Err(self.expected("a comma or FROM"));
        }
        let (token, at) = self.tokens.peek();
        match token {
            Token::Word { value, .. } if value.eq_ignore_ascii_case(&self.schema.table) => {
                self.tokens.advance();
                Ok(())
            }
            Token::Word { .. } => {
                let (asked, there) = (self.snippet(&at), &self.schema.table);
                Err(self.error(at, format!("no table `{asked}`; this one is `{there}`")))
            }
            _ => Err(self.expected("the table's name")),
        }
    }

    /// The number behind LIMIT, if there is one.
    fn limit(&mut self) -> Result<Option<u64>> {
        if !self.tokens.take_word("LIMIT") {
            return Ok(None);
        }
        let (token, at) = self.tokens.peek();
        let Token::Number(digits) = token else {
            return Err(self.expected("a number of rows"));
        };
        let limit = digits.parse().ok().filter(|&limit| limit <= LIMIT_MAX);
        let Some(limit) = limit else {
            let message = format!("LIMIT takes a whole number up to {LIMIT_MAX}");
            return Err(self.error(at, message));
        };
        self.tokens.advance();
        Ok(Some(limit))
    }

    /// The output that the list asks for, with the GROUP BY that may follow.
    fn output_of(&mut self, list: SelectList) -> Result<Output> {
        let (_, at) = self.tokens.peek();
        let mut group_by = Vec::new();
        if self.tokens.take_word("GROUP") {
            if !self.tokens.take_word("BY") {
                return Err(self.expected("BY"));
            }
            group_by = self.column_list()?;
        }
        let whole = at.start..self.tokens.last_end().max(at.start);
        if group_by.len() > GROUP_BY_MAX {
            let count = group_by.len();
            let message =
                format!("{count} columns to group by; at most {GROUP_BY_MAX} are possible");
            return Err(self.error(whole, message));
        }
        if list.functions.is_empty() && group_by.is_empty() {
            return Ok(Output::Rows(list.columns));
        }
        if list.columns != group_by {
            let message =
                "SELECT lists the columns of GROUP BY first, in the same order, then functions";
            return Err(self.error(whole, message));
        }
        if list.functions.is_empty() {
            return Err(self.error(whole, "GROUP BY without a function"));
        }
        Ok(Output::Aggregate(Aggregate {
            group_by,
            functions: list.functions,
        }))
    }
}
