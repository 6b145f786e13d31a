//! Parts of SQL that a scan of one table has not: named, so that their author knows what to leave to the reader of the rows.

use super::super::SqlError;
use super::super::token::{Token, is_symbol};
use super::Parser;

/// Words with which such parts begin, and the parts' names.
const PARTS: [(&str, &str); 46] = [
    ("WITH", "WITH"),
    ("DISTINCT", "DISTINCT"),
    ("JOIN", "JOIN"),
    ("INNER", "JOIN"),
    ("LEFT", "JOIN"),
    ("RIGHT", "JOIN"),
    ("FULL", "JOIN"),
    ("CROSS", "JOIN"),
    ("NATURAL", "JOIN"),
    ("SEMI", "JOIN"),
    ("ANTI", "JOIN"),
    ("ASOF", "JOIN"),
    ("LATERAL", "JOIN"),
    ("ORDER", "ORDER BY"),
    ("HAVING", "HAVING"),
    ("OFFSET", "OFFSET"),
    ("FETCH", "FETCH"),
    ("UNION", "UNION"),
    ("INTERSECT", "INTERSECT"),
    ("EXCEPT", "EXCEPT"),
    ("OVER", "a window function"),
    ("WINDOW", "a window function"),
    ("QUALIFY", "a window function"),
    ("SELECT", "a subquery"),
    ("EXISTS", "a subquery"),
    ("VALUES", "VALUES"),
    ("CASE", "CASE"),
    ("FILTER", "FILTER"),
    ("ROLLUP", "ROLLUP"),
    ("CUBE", "CUBE"),
    ("GROUPING", "GROUPING SETS"),
    ("ILIKE", "ILIKE"),
    ("SIMILAR", "SIMILAR TO"),
    ("TABLESAMPLE", "TABLESAMPLE"),
    ("USING", "JOIN"),
    ("ON", "JOIN"),
    ("INSERT", "INSERT"),
    ("UPDATE", "UPDATE"),
    ("DELETE", "DELETE"),
    ("CREATE", "CREATE"),
    ("DROP", "DROP"),
    ("ALTER", "ALTER"),
    ("COPY", "COPY"),
    ("EXPLAIN", "EXPLAIN"),
    ("PRAGMA", "PRAGMA"),
    ("SET", "SET"),
];

impl Parser<'_> {
    /// The error that names the part of SQL that begins with the next token; `None` if no such part does.
    pub(super) fn beyond(&self) -> Option<SqlError> {
        let Token::Word {
            value,
            quoted: false,
        } = self.tokens.peek().0
        else {
            return None;
        };
        let known = PARTS
            .iter()
            .find(|(word, _)| value.eq_ignore_ascii_case(word));
        known.map(|(_, part)| self.cannot_be_pushed(part))
    }

    /// The error of a part that begins with the next token.
    pub(super) fn cannot_be_pushed(&self, part: &str) -> SqlError {
        let at = self.tokens.peek().1;
        let message = format!(
            "{part} cannot be pushed down: a scan has one table, WHERE, columns or aggregates, GROUP BY and LIMIT"
        );
        self.error(at, message)
    }

    /// The error of what stands behind a table's name, where neither a clause nor the end does; `None` if one of these does.
    pub(super) fn behind_table(&self) -> Option<SqlError> {
        let (token, at) = self.tokens.peek();
        let is_clause = ["WHERE", "GROUP", "LIMIT"]
            .iter()
            .any(|word| self.tokens.at_word(word));
        match token {
            Token::Word { .. } if !is_clause => Some(self.beyond().unwrap_or_else(|| {
                let message = "a table has no other name here: its columns go by their own names";
                self.error(at, message)
            })),
            _ if is_symbol(token, ",") => Some(self.cannot_be_pushed("a second table")),
            _ => None,
        }
    }

    /// The error of what stands behind a column of the list, where neither a comma nor FROM does; `None` if one of these does.
    pub(super) fn behind_column(&self) -> Option<SqlError> {
        const OPERATORS: [&str; 7] = ["+", "-", "*", "/", "%", "||", "::"];
        let token = self.tokens.peek().0;
        if self.tokens.at_word("AS") {
            let at = self.tokens.peek().1;
            return Some(self.error(at, "a column keeps its name: AS is for aggregates"));
        }
        OPERATORS
            .iter()
            .any(|operator| is_symbol(token, operator))
            .then(|| self.cannot_be_pushed("an expression behind SELECT"))
    }
}
