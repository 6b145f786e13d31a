//! Conditions as text, for what the IR does not show any more: how the types of a BETWEEN become one.

use super::Generator;
use super::types::{Expression, comparable};
use crate::query::{Literal, Scalar};
use crate::query::{date, eval, sql};

impl Generator<'_> {
    /// `a [NOT] BETWEEN b AND c`: a column or an expression in any of the three places, constants or another column in the
    /// others, numbers at times as DOUBLEs, dates at times as plain texts.
    pub fn between_text(&mut self) -> String {
        let (mut three, place) = loop {
            let value = if self.random.percent(70) {
                self.column_where(|_| true)
            } else {
                self.numeric(2)
            };
            let mut three = [self.bound(&value), self.bound(&value), value];
            let place = self.random.below(3);
            three.swap(place, 2);
            let [a, b, c] = &three;
            if comparable(a, b) && comparable(b, c) && comparable(a, c) {
                break (three, place);
            }
        };
        if self.random.percent(30) {
            let bound = &mut three[(place + 1 + self.random.below(2)) % 3];
            if let Scalar::Literal(literal @ Literal::Number { .. }) = &bound.scalar
                && let Ok(double) = eval::double(literal)
            {
                *bound = self.literal(Literal::Double(double));
            }
        }
        // DuckDB takes the first two for texts if both may be.
        let as_texts = place < 2;
        let [a, b, c] = three.map(|one| self.written(&one, as_texts));
        let not = if self.random.percent(25) { "NOT " } else { "" };
        format!("{a} {not}BETWEEN {b} AND {c}")
    }

    /// A constant that compares with `value`, or a column of its type.
    fn bound(&mut self, value: &Expression) -> Expression {
        if self.random.percent(20) {
            let other = self.column_where(|_| true);
            if other.ty == value.ty {
                return other;
            }
        }
        let literal = if self.random.percent(4) {
            Literal::Null
        } else {
            self.constant_like(value)
        };
        self.literal(literal)
    }

    fn written(&mut self, value: &Expression, dates_as_texts: bool) -> String {
        match value.scalar {
            Scalar::Literal(Literal::Date(days)) if dates_as_texts && self.random.percent(60) => {
                let text = date::text(days);
                let text = if self.random.percent(50) {
                    text.replace("-0", "-")
                } else {
                    text
                };
                format!("'{text}'")
            }
            _ => sql::scalar_to_sql(&value.scalar, self.schema),
        }
    }
}
