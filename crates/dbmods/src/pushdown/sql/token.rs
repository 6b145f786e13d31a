//! Tokens with their places in the text, in bytes. The tokenizer is `sqlparser`'s, for DuckDB's dialect.

use std::ops::Range;

use sqlparser::dialect::DuckDbDialect;
use sqlparser::tokenizer::{Location, Token, Tokenizer};

use super::{SQL_BYTES_MAX, SqlError};
use crate::pushdown::schema::Schema;

/// A text's tokens without blanks and comments; the last is [`Token::EOF`].
pub(super) struct Tokens {
    tokens: Vec<(Token, Range<usize>)>,
    next: usize,
}

impl Tokens {
    pub(super) fn of(schema: &Schema, text: &str) -> Result<Self, SqlError> {
        if text.len() > SQL_BYTES_MAX {
            let message = format!(
                "{} bytes of SQL; at most {SQL_BYTES_MAX} are read",
                text.len()
            );
            return Err(SqlError::new(schema, text, 0..0, message));
        }
        let places = Places::of(text);
        let read = Tokenizer::new(&DuckDbDialect, text).tokenize_with_location();
        let read = read.map_err(|error| {
            let at = places.byte(error.location).min(text.len());
            SqlError::new(schema, text, at..at, error.message)
        })?;
        let mut tokens: Vec<_> = (read.into_iter())
            .filter(|token| !matches!(token.token, Token::Whitespace(_)))
            .map(|token| {
                (
                    token.token,
                    places.byte(token.span.start)..places.byte(token.span.end),
                )
            })
            .collect();
        let end = text.trim_end().len();
        tokens.push((Token::EOF, end..end));
        Ok(Self { tokens, next: 0 })
    }

    /// The next token, and where it is.
    pub(super) fn peek(&self) -> (&Token, Range<usize>) {
        let (token, at) = &self.tokens[self.next];
        (token, at.clone())
    }

    /// The token after the next.
    pub(super) fn peek_second(&self) -> &Token {
        &self.tokens[(self.next + 1).min(self.tokens.len() - 1)].0
    }

    /// Steps over the next token; stays at the end.
    pub(super) fn advance(&mut self) -> Range<usize> {
        let at = self.peek().1;
        self.next = (self.next + 1).min(self.tokens.len() - 1);
        at
    }

    /// Where the token before the next ends.
    pub(super) fn last_end(&self) -> usize {
        self.next
            .checked_sub(1)
            .map_or(0, |last| self.tokens[last].1.end)
    }

    /// Steps over the next token if it is this one.
    pub(super) fn take(&mut self, token: &Token) -> bool {
        let found = self.peek().0 == token;
        if found {
            self.advance();
        }
        found
    }

    /// Whether the next token is this word, unquoted, in any case.
    pub(super) fn at_word(&self, word: &str) -> bool {
        is_word(self.peek().0, word)
    }

    /// Steps over the next token if it is this word.
    pub(super) fn take_word(&mut self, word: &str) -> bool {
        let found = self.at_word(word);
        if found {
            self.advance();
        }
        found
    }
}

/// Whether a token is this word, unquoted, in any case.
pub(super) fn is_word(token: &Token, word: &str) -> bool {
    matches!(token, Token::Word(w) if w.quote_style.is_none() && w.value.eq_ignore_ascii_case(word))
}

/// Where lines and characters start, in bytes.
struct Places {
    lines: Vec<Vec<usize>>,
}

impl Places {
    fn of(text: &str) -> Self {
        let mut lines = vec![Vec::new()];
        for (at, c) in text.char_indices() {
            lines.last_mut().expect("never empty").push(at);
            if c == '\n' {
                lines.push(Vec::new());
            }
        }
        lines.last_mut().expect("never empty").push(text.len());
        Self { lines }
    }

    /// The byte at a line and a column, both counted from one.
    fn byte(&self, location: Location) -> usize {
        let line = (location.line.max(1) as usize - 1).min(self.lines.len() - 1);
        let starts = &self.lines[line];
        let column = location.column.max(1) as usize - 1;
        match starts.get(column) {
            Some(&at) => at,
            None => self
                .lines
                .get(line + 1)
                .unwrap_or(starts)
                .first()
                .copied()
                .unwrap_or(0),
        }
    }
}
