//! From a filter as DuckDB offers it to a predicate of ours, as far as both mean the same.
//!
//! A filter that is a predicate wholly is taken, and DuckDB forgets it. Of others the part is pushed that follows from them: rows that it
//! drops would be dropped anyway, and DuckDB evaluates the filter on the rest. No column of a table is NULL, so three-valued logic does not
//! come up.

use crate::duckdb::v2::{Comparison, Expression, Offered, Type, Value};
use crate::query::{CompareOp, Literal, Predicate, Scalar};
use crate::schema::{ColumnType, Schema};

/// The answer to a filter on a table of this schema.
pub fn offered(schema: &Schema, filter: &Expression) -> Offered {
    let reader = Reader { schema };
    let checked = |predicate: Predicate| predicate.check(schema).is_ok().then_some(predicate);
    if let Some(whole) = reader.whole(filter).and_then(checked) {
        return Offered::Taken(whole);
    }
    match reader.implied(filter).and_then(checked) {
        Some(part) => Offered::InPart(part),
        None => Offered::Refused,
    }
}

/// The character that makes the next one of a pattern literal, in patterns that are made here.
const ESCAPE: char = '\\';

struct Reader<'a> {
    schema: &'a Schema,
}

impl Reader<'_> {
    /// The predicate that holds of the same rows.
    fn whole(&self, filter: &Expression) -> Option<Predicate> {
        match filter {
            Expression::Constant(Value::Boolean(value)) => Some(Predicate::Constant(Some(*value))),
            Expression::Compare(op, left, right) => self.comparison(*op, left, right),
            Expression::In(value, list) => self.in_list(value, list),
            Expression::And(all) => self.wholes(all).map(Predicate::And),
            Expression::Or(any) => self.wholes(any).map(Predicate::Or),
            Expression::Not(of) => self.whole(of).map(|of| Predicate::Not(Box::new(of))),
            Expression::Function(name, arguments) => self.function(name, arguments),
            Expression::Column(_)
            | Expression::Constant(_)
            | Expression::Between(..)
            | Expression::IsNull(_)
            | Expression::Cast(..)
            | Expression::Other => None,
        }
    }

    fn wholes(&self, parts: &[Expression]) -> Option<Vec<Predicate>> {
        parts.iter().map(|part| self.whole(part)).collect()
    }

    /// A predicate that holds of all rows of which the filter holds, and perhaps of others.
    fn implied(&self, filter: &Expression) -> Option<Predicate> {
        if let Some(whole) = self.whole(filter) {
            return Some(whole);
        }
        match filter {
            // Whether the bounds belong to it is not said, so they do.
            Expression::Between(value, low, high) => Some(Predicate::And(vec![
                self.comparison(Comparison::GreaterOrEqual, value, low)?,
                self.comparison(Comparison::LessOrEqual, value, high)?,
            ])),
            Expression::And(all) => {
                let mut parts: Vec<Predicate> =
                    all.iter().filter_map(|part| self.implied(part)).collect();
                match parts.len() {
                    0 | 1 => parts.pop(),
                    _ => Some(Predicate::And(parts)),
                }
            }
            Expression::Or(any) => {
                let parts = any.iter().map(|part| self.implied(part));
                parts.collect::<Option<_>>().map(Predicate::Or)
            }
            _ => None,
        }
    }

    fn comparison(
        &self,
        op: Comparison,
        left: &Expression,
        right: &Expression,
    ) -> Option<Predicate> {
        let op = match op {
            Comparison::Equal => CompareOp::Equal,
            Comparison::NotEqual => CompareOp::NotEqual,
            Comparison::Less => CompareOp::Less,
            Comparison::LessOrEqual => CompareOp::LessOrEqual,
            Comparison::Greater => CompareOp::Greater,
            Comparison::GreaterOrEqual => CompareOp::GreaterOrEqual,
        };
        if let (CompareOp::Equal, Some(start), Expression::Constant(Value::Text(text))) =
            (op, self.start(left), right)
        {
            return start.is(text);
        }
        Some(Predicate::Compare {
            op,
            left: self.scalar(left)?,
            right: self.scalar(right)?,
        })
    }

    fn in_list(&self, value: &Expression, list: &[Expression]) -> Option<Predicate> {
        if let Some(start) = self.start(value) {
            let texts = list.iter().map(|text| match text {
                Expression::Constant(Value::Text(text)) => start.is(text),
                _ => None,
            });
            return texts.collect::<Option<_>>().map(Predicate::Or);
        }
        let literals = list.iter().map(|value| match value {
            Expression::Constant(value) => literal(value),
            _ => None,
        });
        Some(Predicate::In {
            value: self.scalar(value)?,
            list: literals.collect::<Option<_>>()?,
        })
    }

    /// A column, perhaps as a wider integer, or a constant.
    fn scalar(&self, value: &Expression) -> Option<Scalar> {
        match value {
            Expression::Column(column) => Some(Scalar::Column(*column)),
            Expression::Constant(value) => literal(value).map(Scalar::Literal),
            Expression::Cast(to, of) => match (to, of.as_ref()) {
                (to, Expression::Column(column)) => {
                    let is_wider = matches!(
                        (self.column(*column)?, to),
                        (
                            ColumnType::Integer,
                            Type::Integer | Type::BigInt | Type::HugeInt
                        ) | (ColumnType::BigInt, Type::BigInt | Type::HugeInt)
                    );
                    is_wider.then_some(Scalar::Column(*column))
                }
                _ => None,
            },
            _ => None,
        }
    }

    fn column(&self, column: u32) -> Option<ColumnType> {
        let column = self.schema.columns.get(column as usize)?;
        Some(column.ty)
    }

    /// A column of text.
    fn text(&self, value: &Expression) -> Option<u32> {
        match value {
            Expression::Column(column) if self.column(*column)? == ColumnType::Text => {
                Some(*column)
            }
            _ => None,
        }
    }

    /// `substring(column FROM 1 FOR n)`, however it is written.
    fn start(&self, value: &Expression) -> Option<Start> {
        let Expression::Function(name, arguments) = value else {
            return None;
        };
        let integer = |value: &Expression| match value {
            Expression::Constant(Value::Integer(value)) => usize::try_from(*value).ok(),
            _ => None,
        };
        let (column, chars) = match (name.as_str(), arguments.as_slice()) {
            ("substring" | "substr", [column, from, chars]) if integer(from) == Some(1) => {
                (column, chars)
            }
            ("left", [column, chars]) => (column, chars),
            _ => return None,
        };
        Some(Start {
            column: self.text(column)?,
            chars: integer(chars)?,
        })
    }

    fn function(&self, name: &str, arguments: &[Expression]) -> Option<Predicate> {
        let [column, Expression::Constant(Value::Text(text))] = arguments else {
            return None;
        };
        let column = self.text(column)?;
        let like = |pattern: String, escape| Predicate::Like {
            column,
            pattern,
            escape,
        };
        let part = escaped(text);
        Some(match name {
            "~~" => like(text.clone(), None),
            "!~~" => Predicate::Not(Box::new(like(text.clone(), None))),
            "prefix" | "starts_with" | "^@" => like(format!("{part}%"), Some(ESCAPE)),
            "suffix" | "ends_with" => like(format!("%{part}"), Some(ESCAPE)),
            "contains" => like(format!("%{part}%"), Some(ESCAPE)),
            _ => return None,
        })
    }
}

/// The first characters of a column.
struct Start {
    column: u32,
    chars: usize,
}

impl Start {
    /// The predicate that they are these.
    fn is(&self, text: &str) -> Option<Predicate> {
        // A shorter text is a value that is short itself, a longer one no value at all.
        (text.chars().count() == self.chars).then(|| Predicate::Like {
            column: self.column,
            pattern: format!("{}%", escaped(text)),
            escape: Some(ESCAPE),
        })
    }
}

/// A text as a pattern that it alone matches.
fn escaped(text: &str) -> String {
    let mut pattern = String::new();
    for character in text.chars() {
        if matches!(character, '%' | '_' | ESCAPE) {
            pattern.push(ESCAPE);
        }
        pattern.push(character);
    }
    pattern
}

fn literal(value: &Value) -> Option<Literal> {
    match value {
        Value::Integer(value) => Some(Literal::Number {
            unscaled: *value,
            scale: 0,
        }),
        Value::Decimal { unscaled, scale } => Some(Literal::Number {
            unscaled: *unscaled,
            scale: *scale,
        }),
        Value::Date(days) => Some(Literal::Date(*days)),
        Value::Text(text) => Some(Literal::Text(text.clone())),
        Value::Null | Value::Boolean(_) | Value::Double(_) | Value::Other(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::sql;
    use crate::tpch;

    fn column(schema: &Schema, name: &str) -> Box<Expression> {
        Box::new(Expression::Column(schema.position(name).unwrap() as u32))
    }

    fn text(text: &str) -> Expression {
        Expression::Constant(Value::Text(text.to_owned()))
    }

    fn integer(value: i128) -> Box<Expression> {
        Box::new(Expression::Constant(Value::Integer(value)))
    }

    fn shown(schema: &Schema, filter: &Expression) -> String {
        match offered(schema, filter) {
            Offered::Taken(predicate) => sql::to_sql(&predicate, schema),
            Offered::InPart(predicate) => format!("in part: {}", sql::to_sql(&predicate, schema)),
            Offered::Refused => "refused".to_owned(),
        }
    }

    #[test]
    fn what_is_understood_is_taken_and_what_follows_is_pushed() {
        let customer = tpch::schema("customer").unwrap();
        let phone = column(&customer, "c_phone");
        let start = Expression::Function(
            "substring".into(),
            vec![*phone.clone(), *integer(1), *integer(2)],
        );
        let codes = Expression::In(Box::new(start.clone()), vec![text("13"), text("31")]);
        let same = |one: &Expression, other: &str| {
            let expected = sql::parse_predicate(&customer, other).unwrap();
            assert_eq!(shown(&customer, one), sql::to_sql(&expected, &customer));
        };
        same(
            &codes,
            r"c_phone LIKE '13%' ESCAPE '\' OR c_phone LIKE '31%' ESCAPE '\'",
        );
        // A text of another length is no such start.
        let odd = Expression::In(Box::new(start), vec![text("13"), text("3")]);
        assert_eq!(shown(&customer, &odd), "refused");
        let percent = Expression::Function(
            "contains".into(),
            vec![*column(&customer, "c_comment"), text("50%_")],
        );
        same(&percent, r"c_comment LIKE '%50\%\_%' ESCAPE '\'");
        let wide = Expression::Cast(Type::BigInt, column(&customer, "c_nationkey"));
        let compare = Expression::Compare(Comparison::Less, Box::new(wide), integer(7));
        same(&compare, "c_nationkey < 7");
        let narrow = Expression::Cast(Type::Integer, column(&customer, "c_nationkey"));
        let compare = Expression::Compare(Comparison::Less, Box::new(narrow), integer(7));
        assert_eq!(shown(&customer, &compare), "refused");
        let between = Expression::Between(column(&customer, "c_nationkey"), integer(1), integer(5));
        assert_eq!(
            shown(&customer, &between),
            format!(
                "in part: {}",
                sql::to_sql(
                    &sql::parse_predicate(&customer, "c_nationkey >= 1 AND c_nationkey <= 5")
                        .unwrap(),
                    &customer
                )
            )
        );
        // A BETWEEN is wider than it may be, so its negation is not known to follow.
        assert_eq!(
            shown(&customer, &Expression::Not(Box::new(between.clone()))),
            "refused"
        );
        let either = Expression::Or(vec![between.clone(), Expression::Other]);
        assert_eq!(shown(&customer, &either), "refused");
        let both = Expression::And(vec![between, Expression::Other]);
        assert!(shown(&customer, &both).starts_with("in part: "));
        // Values that do not compare.
        let text_and_number = Expression::Compare(Comparison::Equal, phone, integer(7));
        assert_eq!(shown(&customer, &text_and_number), "refused");
    }
}
