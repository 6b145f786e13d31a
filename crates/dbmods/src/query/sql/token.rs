//! Tokens with their places in the text, in bytes: the part of DuckDB's lexical rules that predicates need.
//!
//! Our own, since `sqlparser` took a third of the default build's time and only its tokenizer was of use here.

use std::ops::Range;

use super::{SQL_BYTES_MAX, SqlError};
use crate::schema::Schema;

/// One token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// A name or a keyword; quoted with `"` it is a name only.
    Word { value: String, quoted: bool },
    /// Digits with at most one point, and maybe an exponent.
    Number(String),
    /// The text between `'` and `'`, doubled quotes made single.
    Text(String),
    /// An operator or a mark, as it is written.
    Symbol(&'static str),
    /// A character that begins no token; digits that run into letters.
    Unknown,
    /// The end of the text.
    End,
}

/// Longest first, so that `<=` is not `<` and `=`.
const SYMBOLS: [&str; 24] = [
    "::", "==", "!=", "<>", "<=", ">=", "||", "=", "<", ">", "+", "-", "*", "/", "%", "(", ")",
    ",", ".", ";", ":", "[", "]", "^",
];

/// A text's tokens without blanks and comments; the last is [`Token::End`].
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
        let mut reader = TokenReader { text, at: 0 };
        let mut tokens = Vec::new();
        loop {
            let read = reader.next();
            let (token, at) = read
                .map_err(|(at, message)| SqlError::new(schema, text, at..at, message.to_owned()))?;
            let ended = token == Token::End;
            tokens.push((token, at));
            if ended {
                break;
            }
        }
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

    /// The end of the token before the next.
    pub(super) fn last_end(&self) -> usize {
        self.next
            .checked_sub(1)
            .map_or(0, |last| self.tokens[last].1.end)
    }

    /// Steps over the next token if it is this operator or mark.
    pub(super) fn take(&mut self, symbol: &str) -> bool {
        let found = is_symbol(self.peek().0, symbol);
        if found {
            self.advance();
        }
        found
    }

    /// Returns true if the next token is this word, unquoted, in any case.
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

/// Returns true if a token is this operator or mark.
pub(super) fn is_symbol(token: &Token, symbol: &str) -> bool {
    matches!(token, Token::Symbol(found) if *found == symbol)
}

/// Returns true if a token is this word, unquoted, in any case.
pub(super) fn is_word(token: &Token, word: &str) -> bool {
    matches!(token, Token::Word { value, quoted: false } if value.eq_ignore_ascii_case(word))
}

/// Reads tokens one by one.
struct TokenReader<'a> {
    text: &'a str,
    at: usize,
}

/// The place of an error, and its message.
type Wrong = (usize, &'static str);

impl TokenReader<'_> {
    fn next(&mut self) -> Result<(Token, Range<usize>), Wrong> {
        self.skip_blanks()?;
        let start = self.at;
        let rest = &self.text[start..];
        let Some(first) = rest.chars().next() else {
            let end = self.text.trim_end().len();
            return Ok((Token::End, end..end));
        };
        let second = rest[first.len_utf8()..].chars().next();
        let token = match first {
            '\'' => Token::Text(self.quoted('\'', "Unterminated string")?),
            '"' => Token::Word {
                value: self.quoted('"', "Unterminated name")?,
                quoted: true,
            },
            c if c.is_ascii_digit() || (c == '.' && second.is_some_and(|c| c.is_ascii_digit())) => {
                let number = self.number();
                match self.run(|c| !(c.is_alphanumeric() || c == '_')) {
                    "" => Token::Number(number),
                    _ => Token::Unknown,
                }
            }
            c if c.is_alphabetic() || c == '_' => {
                let ends = |c: char| !(c.is_alphanumeric() || c == '_' || c == '$');
                Token::Word {
                    value: self.run(ends).to_owned(),
                    quoted: false,
                }
            }
            other => match SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
                Some(symbol) => {
                    self.at += symbol.len();
                    Token::Symbol(symbol)
                }
                None => {
                    self.at += other.len_utf8();
                    Token::Unknown
                }
            },
        };
        Ok((token, start..self.at))
    }

    /// Steps up to the first character that ends the run.
    fn run(&mut self, ends: impl FnMut(char) -> bool) -> &str {
        let rest = &self.text[self.at..];
        let len = rest.find(ends).unwrap_or(rest.len());
        self.at += len;
        &rest[..len]
    }

    /// Blanks, `-- comment` to the end of the line, and `/* comment */`, which nests.
    fn skip_blanks(&mut self) -> Result<(), Wrong> {
        loop {
            self.run(|c| !c.is_whitespace());
            let rest = &self.text[self.at..];
            if rest.starts_with("--") {
                self.run(|c| c == '\n');
            } else if rest.starts_with("/*") {
                self.skip_comment()?;
            } else {
                return Ok(());
            }
        }
    }

    fn skip_comment(&mut self) -> Result<(), Wrong> {
        let start = self.at;
        let mut depth = 0;
        loop {
            let rest = &self.text.as_bytes()[self.at..];
            match rest {
                [b'/', b'*', ..] => (depth, self.at) = (depth + 1, self.at + 2),
                [b'*', b'/', ..] => (depth, self.at) = (depth - 1, self.at + 2),
                [_, ..] => self.at += 1,
                [] => return Err((start, "Unterminated comment")),
            }
            if depth == 0 {
                return Ok(());
            }
        }
    }

    /// Reads from one quote to the next that is not doubled.
    fn quoted(&mut self, quote: char, unterminated: &'static str) -> Result<String, Wrong> {
        let start = self.at;
        let mut value = String::new();
        loop {
            self.at += 1;
            value.push_str(self.run(|c| c == quote));
            if self.at == self.text.len() {
                return Err((start, unterminated));
            }
            self.at += 1;
            if !self.text[self.at..].starts_with(quote) {
                return Ok(value);
            }
            value.push(quote);
        }
    }

    fn number(&mut self) -> String {
        let start = self.at;
        let digits = |c: char| !c.is_ascii_digit();
        self.run(digits);
        if self.text[self.at..].starts_with('.') {
            self.at += 1;
            self.run(digits);
        }
        let rest = &self.text.as_bytes()[self.at..];
        let exponent = match rest {
            [b'e' | b'E', b'+' | b'-', b'0'..=b'9', ..] => 2,
            [b'e' | b'E', b'0'..=b'9', ..] => 1,
            _ => 0,
        };
        if exponent > 0 {
            self.at += exponent;
            self.run(digits);
        }
        self.text[start..self.at].to_owned()
    }
}
