//! Constants that take more than a token: numbers, dates, intervals, casts.

use std::ops::Range;

use super::super::token::{Token, is_symbol};
use super::{Meaning, Parser, Result, Term};
use crate::query::date;
use crate::query::{DIGITS_MAX, Literal, Scalar, literal_fits};

impl Parser<'_> {
    /// `INTERVAL '3' month`, `INTERVAL 3 month`, `INTERVAL '3 months'`.
    pub(super) fn interval(&mut self) -> Result<Term> {
        let start = self.tokens.advance().start;
        let negative = self.tokens.take("-");
        let (token, at) = self.tokens.peek();
        let (count, unit) = match token {
            Token::Text(text) => {
                let mut words = text.split_ascii_whitespace();
                (
                    words.next().unwrap_or("").to_owned(),
                    words.collect::<Vec<_>>().join(" "),
                )
            }
            Token::Number(digits) => (digits.clone(), String::new()),
            _ => return Err(self.expected("a number, for example INTERVAL '3' month")),
        };
        let Ok(count) = count.parse::<i32>() else {
            return Err(self.error(
                at,
                "an interval takes an integer, for example INTERVAL '3' month",
            ));
        };
        self.tokens.advance();
        let (unit, unit_at) = if unit.is_empty() {
            let (token, at) = self.tokens.peek();
            let Token::Word { value, .. } = token else {
                return Err(self.expected("day, week, month or year"));
            };
            let word = value.clone();
            self.tokens.advance();
            (word, at)
        } else {
            (unit, at.clone())
        };
        let (days, months) = match unit.to_ascii_lowercase().as_str() {
            "day" | "days" => (1, 0),
            "week" | "weeks" => (7, 0),
            "month" | "months" => (0, 1),
            "year" | "years" => (0, 12),
            _ => return Err(self.error(unit_at, "an interval is in day, week, month or year")),
        };
        let count = if negative {
            count.checked_neg()
        } else {
            Some(count)
        };
        let scaled =
            count.and_then(|count| Some((count.checked_mul(days)?, count.checked_mul(months)?)));
        let Some((days, months)) = scaled else {
            return Err(self.error(at, "the interval is out of range"));
        };
        Ok(Term {
            meaning: Meaning::Interval { days, months },
            at: start..self.tokens.last_end(),
        })
    }

    /// `CAST('…' AS DATE)`, `CAST('…' AS DOUBLE)`.
    pub(super) fn cast(&mut self) -> Result<Term> {
        let start = self.tokens.advance().start;
        self.tokens.advance();
        let at = self.tokens.peek().1;
        let text = self.string("a constant in quotes: columns are not cast")?;
        if !self.tokens.take_word("AS") {
            return Err(self.expected("AS"));
        }
        let literal = self.cast_to(&text, at)?;
        if !self.tokens.take(")") {
            return Err(self.expected("the ) of CAST"));
        }
        Ok(self.literal(literal, start..self.tokens.last_end()))
    }

    /// `'…'::DATE`, `'…'::DOUBLE`.
    pub(super) fn cast_suffix(&mut self, term: Term) -> Result<Term> {
        if !is_symbol(self.tokens.peek().0, "::") {
            return Ok(term);
        }
        let Meaning::Value {
            scalar: Scalar::Literal(Literal::Text(text)),
            ..
        } = &term.meaning
        else {
            let at = self.tokens.peek().1;
            return Err(self.error(at, "only a constant in quotes is cast"));
        };
        self.tokens.advance();
        let literal = self.cast_to(text, term.at.clone())?;
        Ok(self.literal(literal, term.at.start..self.tokens.last_end()))
    }

    fn cast_to(&mut self, text: &str, at: Range<usize>) -> Result<Literal> {
        if self.tokens.take_word("DATE") {
            return self.date(text, at);
        }
        if !self.tokens.take_word("DOUBLE") {
            return Err(self.expected("DATE or DOUBLE"));
        }
        match text.trim().parse::<f64>() {
            Ok(value) => Ok(Literal::Double(value)),
            Err(_) => Err(self.error(at, "this is no DOUBLE")),
        }
    }

    pub(super) fn date(&self, text: &str, at: Range<usize>) -> Result<Literal> {
        let days = date::parse(text);
        days.map(Literal::Date)
            .ok_or_else(|| self.error(at, "this is no date: dates are written 'YYYY-MM-DD'"))
    }
}

/// An exact number, or a DOUBLE if it has an exponent.
pub(super) fn number(digits: &str) -> std::result::Result<Literal, String> {
    if digits.contains(['e', 'E']) {
        return digits
            .parse()
            .map(Literal::Double)
            .map_err(|_| "this is no number".into());
    }
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let unscaled: String = [whole, fraction].concat();
    let too_long = || format!("exact numbers have at most {DIGITS_MAX} digits");
    let literal = Literal::Number {
        unscaled: unscaled.parse().map_err(|_| too_long())?,
        scale: u8::try_from(fraction.len()).map_err(|_| too_long())?,
    };
    literal_fits(&literal).map_err(|_| too_long())?;
    Ok(literal)
}
