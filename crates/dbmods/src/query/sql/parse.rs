//! The parser: precedence climbing over tokens; each term is bound, typed and folded as it is read, so that every error has
//! its token.

mod beyond;
mod constants;
mod lists;
mod select;

use std::ops::Range;

use self::constants::number;
pub(super) use self::select::{query, table_name};
use super::SqlError;
use super::token::{Token, Tokens, is_symbol, is_word};
use crate::query::{
    Aggregate, ArithmeticOp, CompareOp, DEPTH_MAX, GROUP_BY_MAX, Literal, Predicate, QueryError,
    Scalar, ScalarType, literal_fits, pattern_fits,
};
use crate::query::{date, eval};
use crate::schema::Schema;

type Result<T> = std::result::Result<T, SqlError>;

pub(super) fn predicate(schema: &Schema, text: &str) -> Result<Predicate> {
    let mut parser = Parser::new(schema, text)?;
    let term = parser.condition()?;
    let predicate = parser.predicate_of(term)?;
    parser.end("AND, OR or the end")?;
    predicate
        .check(schema)
        .map_err(|error| parser.error(0..text.len(), error.0))?;
    Ok(predicate)
}

pub(super) fn columns(schema: &Schema, text: &str) -> Result<Vec<u32>> {
    let mut parser = Parser::new(schema, text)?;
    let columns = if parser.tokens.take("*") {
        (0..schema.columns.len() as u32).collect()
    } else {
        parser.column_list()?
    };
    parser.end("a comma or the end")?;
    Ok(columns)
}

pub(super) fn aggregate(schema: &Schema, text: &str, group_by: Option<&str>) -> Result<Aggregate> {
    let group_by = match group_by {
        Some(text) => {
            let mut parser = Parser::new(schema, text)?;
            let columns = parser.column_list()?;
            parser.end("a comma or the end")?;
            if columns.len() > GROUP_BY_MAX {
                let message = format!(
                    "{} columns to group by; at most {GROUP_BY_MAX} are possible",
                    columns.len()
                );
                return Err(parser.error(0..text.len(), message));
            }
            columns
        }
        None => Vec::new(),
    };
    let mut parser = Parser::new(schema, text)?;
    let mut functions = vec![parser.aggregate_call()?];
    while parser.tokens.take(",") {
        functions.push(parser.aggregate_call()?);
    }
    parser.end("a comma, AS or the end")?;
    let aggregate = Aggregate {
        group_by,
        functions,
    };
    aggregate
        .check(schema)
        .map_err(|error| parser.error(0..text.len(), error.0))?;
    Ok(aggregate)
}

/// The meaning of a part of the text, and its place.
struct Term {
    meaning: Meaning,
    at: Range<usize>,
}

enum Meaning {
    Value {
        scalar: Scalar,
        ty: ScalarType,
        depth: usize,
    },
    Condition(Predicate),
    Interval {
        days: i32,
        months: i32,
    },
}

/// A value with its place.
#[derive(Clone)]
struct Value {
    scalar: Scalar,
    ty: ScalarType,
    depth: usize,
    at: Range<usize>,
}

impl From<Value> for Term {
    fn from(value: Value) -> Self {
        Self {
            meaning: Meaning::Value {
                scalar: value.scalar,
                ty: value.ty,
                depth: value.depth,
            },
            at: value.at,
        }
    }
}

struct Parser<'a> {
    schema: &'a Schema,
    text: &'a str,
    tokens: Tokens,
    nesting: usize,
}

impl<'a> Parser<'a> {
    fn new(schema: &'a Schema, text: &'a str) -> Result<Self> {
        Ok(Self {
            schema,
            text,
            tokens: Tokens::of(schema, text)?,
            nesting: 0,
        })
    }

    // Conditions

    /// `a OR b`, down to single values.
    fn condition(&mut self) -> Result<Term> {
        self.chain("OR", Predicate::Or, |parser| {
            parser.chain("AND", Predicate::And, Self::negation)
        })
    }

    fn chain(
        &mut self,
        word: &str,
        join: fn(Vec<Predicate>) -> Predicate,
        operand: fn(&mut Self) -> Result<Term>,
    ) -> Result<Term> {
        let first = operand(self)?;
        if !self.tokens.at_word(word) {
            return Ok(first);
        }
        let start = first.at.start;
        let mut parts = vec![self.predicate_of(first)?];
        while self.tokens.take_word(word) {
            let next = operand(self)?;
            parts.push(self.predicate_of(next)?);
        }
        Ok(Term {
            meaning: Meaning::Condition(join(parts)),
            at: start..self.tokens.last_end(),
        })
    }

    fn negation(&mut self) -> Result<Term> {
        if !self.tokens.at_word("NOT") {
            return self.comparison();
        }
        let at = self.tokens.advance();
        let operand = self.nested(at.clone(), Self::negation)?;
        let operand = self.predicate_of(operand)?;
        Ok(self.condition_from(at.start, Predicate::Not(Box::new(operand))))
    }

    fn comparison(&mut self) -> Result<Term> {
        let left = self.sum()?;
        let start = left.at.start;
        if let Some(op) = compare_op(self.tokens.peek().0) {
            self.tokens.advance();
            let left = self.value_of(left)?;
            let right = self.sum()?;
            let right = self.value_of(right)?;
            let predicate = self.compare(op, left, right)?;
            if compare_op(self.tokens.peek().0).is_some() {
                let at = self.tokens.peek().1;
                return Err(self.error(at, "comparisons do not chain: join them with AND"));
            }
            return Ok(self.condition_from(start, predicate));
        }
        if self.tokens.at_word("IS") {
            return self.is_null(left);
        }
        let negated = self.tokens.at_word("NOT");
        let follows = if negated {
            self.tokens.peek_second()
        } else {
            self.tokens.peek().0
        };
        let rest: fn(&mut Self, Value) -> Result<Predicate> = if is_word(follows, "BETWEEN") {
            Self::between
        } else if is_word(follows, "IN") {
            Self::in_list
        } else if is_word(follows, "LIKE") {
            Self::like
        } else {
            return self.alone(left);
        };
        self.tokens.advance();
        if negated {
            self.tokens.advance();
        }
        let left = self.value_of(left)?;
        let predicate = rest(self, left)?;
        let predicate = if negated {
            Predicate::Not(Box::new(predicate))
        } else {
            predicate
        };
        Ok(self.condition_from(start, predicate))
    }

    /// A term that nothing is compared with: a condition in parentheses, or a value in them.
    fn alone(&self, term: Term) -> Result<Term> {
        let token = self.tokens.peek().0;
        let ends = matches!(token, Token::End | Token::Symbol(")" | ";"))
            || ["AND", "OR", "GROUP", "LIMIT"]
                .iter()
                .any(|word| is_word(token, word));
        match term.meaning {
            Meaning::Condition(_) => Ok(term),
            _ if ends => Ok(term),
            _ => Err(self.expected("an operator")),
        }
    }

    fn is_null(&mut self, left: Term) -> Result<Term> {
        let start = left.at.start;
        self.tokens.advance();
        let negated = self.tokens.take_word("NOT");
        if !self.tokens.take_word("NULL") {
            return Err(self.expected(if negated { "NULL" } else { "NULL or NOT NULL" }));
        }
        let is_null = Predicate::IsNull(self.value_of(left)?.scalar);
        let predicate = if negated {
            Predicate::Not(Box::new(is_null))
        } else {
            is_null
        };
        Ok(self.condition_from(start, predicate))
    }

    fn between(&mut self, mut value: Value) -> Result<Predicate> {
        let low = self.sum()?;
        let low = self.value_of(low)?;
        if !self.tokens.take_word("AND") {
            return Err(self.expected("the AND of BETWEEN"));
        }
        let high = self.sum()?;
        let high = self.value_of(high)?;
        let mut bounds = [low, high];
        self.dates_from_texts(&mut value, &mut bounds)?;
        let [mut low, mut high] = bounds;
        self.comparable(&low.at, low.ty, &high.at, high.ty)?;
        // Three DOUBLEs if one is; a comparison is one of DOUBLEs as soon as its bound is.
        if [&value, &low, &high]
            .map(|one| one.ty)
            .contains(&ScalarType::Double)
        {
            (low, high) = (self.double(low)?, self.double(high)?);
        }
        Ok(Predicate::And(vec![
            self.compare(CompareOp::GreaterOrEqual, value.clone(), low)?,
            self.compare(CompareOp::LessOrEqual, value, high)?,
        ]))
    }

    fn in_list(&mut self, mut value: Value) -> Result<Predicate> {
        if !self.tokens.take("(") {
            return Err(self.expected("a list in parentheses after IN"));
        }
        let mut items = Vec::new();
        loop {
            let item = self.sum()?;
            items.push(self.value_of(item)?);
            if !self.tokens.take(",") {
                break;
            }
        }
        if !self.tokens.take(")") {
            return Err(self.expected("a comma or the ) of IN"));
        }
        self.dates_from_texts(&mut value, &mut items)?;
        let mut list = Vec::with_capacity(items.len());
        for item in items {
            let Scalar::Literal(literal) = item.scalar else {
                return Err(self.error(item.at, "IN takes constants"));
            };
            self.comparable(&value.at, value.ty, &item.at, item.ty)?;
            list.push(literal);
        }
        Ok(Predicate::In {
            value: value.scalar,
            list,
        })
    }

    fn like(&mut self, value: Value) -> Result<Predicate> {
        let Scalar::Column(column) = value.scalar else {
            return Err(self.error(value.at, "LIKE takes a column on its left"));
        };
        if value.ty != ScalarType::Text {
            let message = format!("LIKE takes a VARCHAR column, this is {}", value.ty.name());
            return Err(self.error(value.at, message));
        }
        if self.tokens.take_word("NULL") {
            return Ok(Predicate::Constant(None));
        }
        let at = self.tokens.peek().1;
        let pattern = self.string("a pattern in quotes")?;
        let mut escape = None;
        if self.tokens.take_word("ESCAPE") {
            let at = self.tokens.peek().1;
            let text = self.string("a character in quotes")?;
            let mut chars = text.chars();
            escape = chars.next();
            if chars.next().is_some() {
                return Err(self.error(at, "ESCAPE takes one character"));
            }
        }
        literal_fits(&Literal::Text(pattern.clone()))
            .map_err(|error| self.error(at.clone(), error.0))?;
        pattern_fits(&pattern, escape).map_err(|error| self.error(at, error.0))?;
        Ok(Predicate::Like {
            column,
            pattern,
            escape,
        })
    }

    fn compare(&self, op: CompareOp, mut left: Value, mut right: Value) -> Result<Predicate> {
        self.dates_from_texts(&mut left, std::slice::from_mut(&mut right))?;
        self.comparable(&left.at, left.ty, &right.at, right.ty)?;
        Ok(Predicate::Compare {
            op,
            left: left.scalar,
            right: right.scalar,
        })
    }

    /// SQL reads plain texts as dates where they are compared with a date.
    fn dates_from_texts(&self, value: &mut Value, others: &mut [Value]) -> Result<()> {
        let is_date = |one: &Value| one.ty == ScalarType::Date;
        if !is_date(value) && !others.iter().any(is_date) {
            return Ok(());
        }
        for one in std::iter::once(value).chain(others) {
            if let Scalar::Literal(Literal::Text(text)) = &one.scalar {
                one.scalar = Scalar::Literal(self.date(text, one.at.clone())?);
                one.ty = ScalarType::Date;
            }
        }
        Ok(())
    }

    /// An exact number as a DOUBLE, for which the IR has a quotient; anything else as it is.
    fn double(&self, value: Value) -> Result<Value> {
        if value.ty.scale().is_none() {
            return Ok(value);
        }
        let one = Literal::Number {
            unscaled: 1,
            scale: 0,
        };
        let (at, one) = (value.at.clone(), self.literal(one, value.at.clone()));
        let quotient = self.arithmetic(ArithmeticOp::Divide, at, value.into(), one)?;
        self.value_of(quotient)
    }

    fn comparable(
        &self,
        left_at: &Range<usize>,
        left: ScalarType,
        right_at: &Range<usize>,
        right: ScalarType,
    ) -> Result<()> {
        if left.comparable(right) {
            return Ok(());
        }
        let hint = match (left, right) {
            (a, ScalarType::Text) | (ScalarType::Text, a) if a.is_number() => {
                "; numbers are written without quotes"
            }
            (ScalarType::Date, other) | (other, ScalarType::Date) if other.is_number() => {
                "; dates are written DATE '1994-01-01'"
            }
            _ => "",
        };
        let message = format!(
            "`{}` is {} and `{}` is {}, which do not compare{hint}",
            self.snippet(left_at),
            left.name(),
            self.snippet(right_at),
            right.name()
        );
        Err(self.error(right_at.clone(), message))
    }

    // Values

    fn sum(&mut self) -> Result<Term> {
        self.operators(
            |token| match token {
                Token::Symbol("+") => Some(ArithmeticOp::Add),
                Token::Symbol("-") => Some(ArithmeticOp::Subtract),
                _ => None,
            },
            |parser| {
                parser.operators(
                    |token| match token {
                        Token::Symbol("*") => Some(ArithmeticOp::Multiply),
                        Token::Symbol("/") => Some(ArithmeticOp::Divide),
                        _ => None,
                    },
                    Self::signed,
                )
            },
        )
    }

    fn operators(
        &mut self,
        op_of: fn(&Token) -> Option<ArithmeticOp>,
        operand: fn(&mut Self) -> Result<Term>,
    ) -> Result<Term> {
        let mut left = operand(self)?;
        while let Some(op) = op_of(self.tokens.peek().0) {
            let at = self.tokens.advance();
            let right = operand(self)?;
            left = self.arithmetic(op, at, left, right)?;
        }
        Ok(left)
    }

    fn signed(&mut self) -> Result<Term> {
        let negative = match self.tokens.peek().0 {
            Token::Symbol("-") => true,
            Token::Symbol("+") => false,
            _ => return self.primary(),
        };
        let at = self.tokens.advance();
        let operand = self.nested(at.clone(), Self::signed)?;
        let operand = self.value_of(operand)?;
        if !operand.ty.is_number() && operand.ty != ScalarType::Null {
            let message = format!("there is no {}{}", self.snippet(&at), operand.ty.name());
            return Err(self.error(at, message));
        }
        let whole = at.start..operand.at.end;
        let (scalar, ty) = match operand.scalar {
            scalar if !negative => (scalar, operand.ty),
            Scalar::Literal(Literal::Number { unscaled, scale }) => {
                let literal = Literal::Number {
                    unscaled: -unscaled,
                    scale,
                };
                let ty = literal.scalar_type();
                (Scalar::Literal(literal), ty)
            }
            Scalar::Literal(Literal::Double(value)) => {
                (Scalar::Literal(Literal::Double(-value)), operand.ty)
            }
            Scalar::Literal(Literal::Null) => (Scalar::Literal(Literal::Null), operand.ty),
            scalar => {
                let zero = self.literal(
                    Literal::Number {
                        unscaled: 0,
                        scale: 0,
                    },
                    at.clone(),
                );
                let operand = Value { scalar, ..operand };
                return self.arithmetic(ArithmeticOp::Subtract, at, zero, operand.into());
            }
        };
        Ok(Term {
            meaning: Meaning::Value {
                scalar,
                ty,
                depth: operand.depth,
            },
            at: whole,
        })
    }

    fn primary(&mut self) -> Result<Term> {
        let (token, at) = self.tokens.peek();
        let term = match token {
            Token::Symbol("(") => {
                self.tokens.advance();
                let mut inner = self.nested(at.clone(), Self::condition)?;
                if !self.tokens.take(")") {
                    return Err(self.expected("an operator or )"));
                }
                inner.at = at.start..self.tokens.last_end();
                inner
            }
            Token::Number(digits) => {
                let literal = number(digits).map_err(|why| self.error(at.clone(), why))?;
                self.tokens.advance();
                self.literal(literal, at)
            }
            Token::Text(text) => {
                let literal = Literal::Text(text.clone());
                literal_fits(&literal).map_err(|error| self.error(at.clone(), error.0))?;
                self.tokens.advance();
                self.literal(literal, at)
            }
            Token::Word { value, quoted } => {
                let keyword = (!quoted).then(|| value.to_ascii_uppercase());
                self.word(keyword.as_deref().unwrap_or(""), at)?
            }
            _ => return Err(self.expected("a column or a constant")),
        };
        self.cast_suffix(term)
    }

    /// A term that begins with a word: a keyword (upper case) or a column.
    fn word(&mut self, keyword: &str, at: Range<usize>) -> Result<Term> {
        let follows_string = matches!(self.tokens.peek_second(), Token::Text(_));
        match keyword {
            "TRUE" | "FALSE" => {
                self.tokens.advance();
                Ok(self.condition_from(at.start, Predicate::Constant(Some(keyword == "TRUE"))))
            }
            "NULL" => {
                self.tokens.advance();
                Ok(self.literal(Literal::Null, at))
            }
            "DATE" if follows_string => {
                self.tokens.advance();
                let text_at = self.tokens.peek().1;
                let text = self.string("a date in quotes")?;
                let literal = self.date(&text, text_at)?;
                Ok(self.literal(literal, at.start..self.tokens.last_end()))
            }
            "INTERVAL" => self.interval(),
            "CAST" if is_symbol(self.tokens.peek_second(), "(") => self.cast(),
            "AND" | "OR" | "NOT" | "BETWEEN" | "IN" | "LIKE" | "IS" | "ESCAPE" | "AS" => {
                Err(self.expected("a column or a constant"))
            }
            _ => {
                let column = self.column()?;
                let ty = self.schema.columns[column as usize].ty.into();
                let value = Meaning::Value {
                    scalar: Scalar::Column(column),
                    ty,
                    depth: 0,
                };
                Ok(Term {
                    meaning: value,
                    at: at.start..self.tokens.last_end(),
                })
            }
        }
    }

    fn arithmetic(
        &self,
        op: ArithmeticOp,
        op_at: Range<usize>,
        left: Term,
        right: Term,
    ) -> Result<Term> {
        let at = left.at.start..right.at.end;
        if let Meaning::Interval { days, months } = right.meaning {
            return self.add_interval(op, op_at, left, (days, months), at);
        }
        if let (Meaning::Interval { days, months }, ArithmeticOp::Add) = (&left.meaning, op) {
            return self.add_interval(op, op_at, right, (*days, *months), at);
        }
        let (left, right) = (self.value_of(left)?, self.value_of(right)?);
        let fail = |error: QueryError| self.error(op_at.clone(), error.0);
        let ty = ScalarType::arithmetic(op, left.ty, right.ty).map_err(fail)?;
        let depth = left.depth.max(right.depth) + 1;
        if depth > DEPTH_MAX {
            return Err(self.error(
                op_at,
                format!("more than {DEPTH_MAX} operations in one chain"),
            ));
        }
        if let (Scalar::Literal(a), Scalar::Literal(b)) = (&left.scalar, &right.scalar) {
            let folded = eval::arithmetic(op, a, b)
                .ok()
                .filter(|value| fits(value, ty));
            let Some(literal) = folded else {
                return Err(
                    self.error(at, format!("the constant is out of range of {}", ty.name()))
                );
            };
            return Ok(self.literal(literal, at));
        }
        let (left, right) = (Box::new(left.scalar), Box::new(right.scalar));
        let scalar = Scalar::Arithmetic { op, left, right };
        Ok(Term {
            meaning: Meaning::Value { scalar, ty, depth },
            at,
        })
    }

    fn add_interval(
        &self,
        op: ArithmeticOp,
        op_at: Range<usize>,
        date: Term,
        (days, months): (i32, i32),
        at: Range<usize>,
    ) -> Result<Term> {
        let date = self.value_of(date)?;
        let sign = match op {
            ArithmeticOp::Add => 1,
            ArithmeticOp::Subtract => -1,
            _ => return Err(self.error(op_at, "an interval is added to or subtracted from a date")),
        };
        match (&date.scalar, date.ty) {
            (Scalar::Literal(Literal::Date(start)), _) => {
                let moved = months
                    .checked_mul(sign)
                    .and_then(|months| date::add_months(*start, months));
                let moved = moved.and_then(|moved| moved.checked_add(days.checked_mul(sign)?));
                match moved
                    .map(Literal::Date)
                    .filter(|date| literal_fits(date).is_ok())
                {
                    Some(literal) => Ok(self.literal(literal, at)),
                    None => Err(self.error(at, "the date is out of range")),
                }
            }
            (_, ScalarType::Date) if months == 0 => {
                let days = Literal::Number {
                    unscaled: i128::from(days),
                    scale: 0,
                };
                let days = self.literal(days, at.clone());
                self.arithmetic(op, op_at, Value { at, ..date }.into(), days)
            }
            (_, ScalarType::Date) => Err(self.error(
                at,
                "months and years are added to constant dates only; days also to columns",
            )),
            _ => Err(self.error(
                op_at,
                format!("there is no {} {} INTERVAL", date.ty.name(), op.symbol()),
            )),
        }
    }

    // Parts

    /// One level deeper.
    fn nested(&mut self, at: Range<usize>, read: fn(&mut Self) -> Result<Term>) -> Result<Term> {
        if self.nesting == DEPTH_MAX {
            return Err(self.error(at, format!("nested deeper than {DEPTH_MAX} levels")));
        }
        self.nesting += 1;
        let term = read(self);
        self.nesting -= 1;
        term
    }

    fn string(&mut self, what: &str) -> Result<String> {
        let Token::Text(text) = self.tokens.peek().0 else {
            return Err(self.expected(what));
        };
        let text = text.clone();
        self.tokens.advance();
        Ok(text)
    }

    fn literal(&self, literal: Literal, at: Range<usize>) -> Term {
        let ty = literal.scalar_type();
        Term {
            meaning: Meaning::Value {
                scalar: Scalar::Literal(literal),
                ty,
                depth: 0,
            },
            at,
        }
    }

    /// A condition that ends with the last token read.
    fn condition_from(&self, start: usize, predicate: Predicate) -> Term {
        Term {
            meaning: Meaning::Condition(predicate),
            at: start..self.tokens.last_end(),
        }
    }

    fn predicate_of(&self, term: Term) -> Result<Predicate> {
        match term.meaning {
            Meaning::Condition(predicate) => Ok(predicate),
            Meaning::Value {
                scalar: Scalar::Literal(Literal::Null),
                ..
            } => Ok(Predicate::Constant(None)),
            Meaning::Value { ty, .. } => {
                let shown = self.snippet(&term.at);
                let message = format!("expected a condition; `{shown}` is a value ({})", ty.name());
                Err(self.error(term.at, message))
            }
            Meaning::Interval { .. } => {
                Err(self.error(term.at, "expected a condition, not an interval"))
            }
        }
    }

    fn value_of(&self, term: Term) -> Result<Value> {
        match term.meaning {
            Meaning::Value { scalar, ty, depth } => Ok(Value {
                scalar,
                ty,
                depth,
                at: term.at,
            }),
            Meaning::Condition(_) => {
                let message = format!(
                    "expected a value; `{}` is a condition",
                    self.snippet(&term.at)
                );
                Err(self.error(term.at, message))
            }
            Meaning::Interval { .. } => {
                Err(self.error(term.at, "an interval is added to or subtracted from a date"))
            }
        }
    }

    fn end(&mut self, expected: &str) -> Result<()> {
        if *self.tokens.peek().0 == Token::End {
            return Ok(());
        }
        Err(self.expected(expected))
    }

    fn expected(&self, what: &str) -> SqlError {
        if let Some(beyond) = self.beyond() {
            return beyond;
        }
        let (token, at) = self.tokens.peek();
        let message = match token {
            Token::End => format!("expected {what}, found the end"),
            _ => format!("expected {what}, found `{}`", self.snippet(&at)),
        };
        self.error(at, message)
    }

    /// A short piece of the text, for a message.
    fn snippet(&self, at: &Range<usize>) -> String {
        const SHOWN: usize = 40;
        let text = &self.text[at.clone()];
        let mut shown: String = text
            .chars()
            .take(SHOWN)
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect();
        if text.chars().nth(SHOWN).is_some() {
            shown.push('…');
        }
        shown
    }

    fn error(&self, at: Range<usize>, message: impl Into<String>) -> SqlError {
        SqlError::new(self.schema, self.text, at, message)
    }
}

fn compare_op(token: &Token) -> Option<CompareOp> {
    Some(match token {
        Token::Symbol("=") | Token::Symbol("==") => CompareOp::Equal,
        Token::Symbol("<>" | "!=") => CompareOp::NotEqual,
        Token::Symbol("<") => CompareOp::Less,
        Token::Symbol("<=") => CompareOp::LessOrEqual,
        Token::Symbol(">") => CompareOp::Greater,
        Token::Symbol(">=") => CompareOp::GreaterOrEqual,
        _ => return None,
    })
}

/// Returns true if DuckDB's type for a folded constant holds it.
fn fits(value: &Literal, ty: ScalarType) -> bool {
    let in_type = match (value, ty) {
        (Literal::Number { unscaled, .. }, ScalarType::Integer) => i32::try_from(*unscaled).is_ok(),
        (Literal::Number { unscaled, .. }, ScalarType::BigInt) => i64::try_from(*unscaled).is_ok(),
        _ => true,
    };
    in_type && literal_fits(value).is_ok()
}
