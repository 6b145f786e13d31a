//! Types of expressions, and whether a query that came from a stranger is one that this schema can answer.

use super::{
    Aggregate, AggregateFunction, ArithmeticOp, Literal, Output, Predicate, Query, Scalar,
};
use crate::query::date;
use crate::schema::{ColumnType, Schema};

/// Deepest nesting of a predicate or an expression: of SQL's parentheses, of what is decoded, of what is checked. All that
/// recurses over a query, the binder of a scan above all, has room for it on a thread's stack of 2 MiB.
pub const DEPTH_MAX: usize = 64;
/// Most nodes of one query: predicates, expressions and listed constants together.
pub const NODES_MAX: usize = 100_000;
/// Longest text constant or LIKE pattern, in bytes.
pub const TEXT_BYTES_MAX: usize = 64 * 1024;
/// Most columns that come back, most aggregate functions.
pub const OUTPUTS_MAX: usize = 1024;
/// Most rows that a LIMIT may name: SQL's BIGINT.
pub const LIMIT_MAX: u64 = i64::MAX as u64;
/// Most columns that an aggregate groups by.
pub const GROUP_BY_MAX: usize = 2;
/// Most digits of an exact number, and most of them after the point.
pub const DIGITS_MAX: u8 = 38;

/// The type of an expression, as DuckDB derives it. It bounds what is accepted and names result types; values
/// themselves are exact, whatever the width of an intermediate type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScalarType {
    /// NULL, comparable with everything.
    Null,
    /// INTEGER.
    Integer,
    /// BIGINT.
    BigInt,
    /// HUGEINT.
    HugeInt,
    /// DECIMAL with this many digits after the point.
    Decimal {
        /// Digits after the point.
        scale: u8,
    },
    /// DOUBLE.
    Double,
    /// DATE.
    Date,
    /// VARCHAR.
    Text,
}

/// The reason why a query cannot be answered, in words for its author.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct QueryError(pub String);

impl ScalarType {
    /// The name as SQL has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Null => "NULL",
            Self::Integer => "INTEGER",
            Self::BigInt => "BIGINT",
            Self::HugeInt => "HUGEINT",
            Self::Decimal { .. } => "DECIMAL",
            Self::Double => "DOUBLE",
            Self::Date => "DATE",
            Self::Text => "VARCHAR",
        }
    }

    /// Returns true if it is a number, exact or DOUBLE.
    pub fn is_number(self) -> bool {
        self.scale().is_some() || self == Self::Double
    }

    /// Digits after the point of an exact number.
    pub fn scale(self) -> Option<u8> {
        match self {
            Self::Integer | Self::BigInt | Self::HugeInt => Some(0),
            Self::Decimal { scale } => Some(scale),
            _ => None,
        }
    }

    /// Returns true if SQL compares values of these types.
    pub fn comparable(self, other: Self) -> bool {
        self == Self::Null
            || other == Self::Null
            || self == other
            || (self.is_number() && other.is_number())
    }

    /// The type of `self op other`.
    ///
    /// # Errors
    /// If there is no such operation, or an exact result would need more than 38 digits after the point.
    pub fn arithmetic(op: ArithmeticOp, left: Self, right: Self) -> Result<Self, QueryError> {
        use ArithmeticOp::{Add, Divide, Multiply, Subtract};
        let refused = || {
            Err(QueryError(format!(
                "there is no {} {} {}",
                left.name(),
                op.symbol(),
                right.name()
            )))
        };
        match (left, right) {
            (Self::Date, Self::Integer | Self::Null) if matches!(op, Add | Subtract) => {
                Ok(Self::Date)
            }
            (Self::Integer | Self::Null, Self::Date) if op == Add => Ok(Self::Date),
            (Self::Date, Self::Date) if op == Subtract => Ok(Self::BigInt),
            (Self::Null, Self::Null) => Ok(Self::Null),
            (Self::Null, other) | (other, Self::Null) if other.is_number() => Ok(Self::Null),
            _ if !left.is_number() || !right.is_number() => refused(),
            _ if op == Divide => Ok(Self::Double),
            (Self::Double, _) | (_, Self::Double) => Ok(Self::Double),
            (Self::Decimal { .. }, _) | (_, Self::Decimal { .. }) => {
                let (a, b) = (left.scale().unwrap_or(0), right.scale().unwrap_or(0));
                let scale = if op == Multiply { a + b } else { a.max(b) };
                if scale > DIGITS_MAX {
                    return Err(QueryError(format!(
                        "the product has {scale} digits after the point; DECIMAL has at most {DIGITS_MAX}"
                    )));
                }
                Ok(Self::Decimal { scale })
            }
            (Self::HugeInt, _) | (_, Self::HugeInt) => Ok(Self::HugeInt),
            (Self::BigInt, _) | (_, Self::BigInt) => Ok(Self::BigInt),
            _ => Ok(Self::Integer),
        }
    }
}

impl From<ColumnType> for ScalarType {
    fn from(ty: ColumnType) -> Self {
        match ty {
            ColumnType::Integer => Self::Integer,
            ColumnType::BigInt => Self::BigInt,
            ColumnType::Decimal { scale, .. } => Self::Decimal { scale },
            ColumnType::Date => Self::Date,
            ColumnType::Text => Self::Text,
        }
    }
}

impl Literal {
    /// The constant's type; integers take the narrowest that holds them.
    pub fn scalar_type(&self) -> ScalarType {
        match *self {
            Self::Null => ScalarType::Null,
            Self::Number { unscaled, scale: 0 } if i32::try_from(unscaled).is_ok() => {
                ScalarType::Integer
            }
            Self::Number { unscaled, scale: 0 } if i64::try_from(unscaled).is_ok() => {
                ScalarType::BigInt
            }
            Self::Number { scale: 0, .. } => ScalarType::HugeInt,
            Self::Number { scale, .. } => ScalarType::Decimal { scale },
            Self::Double(_) => ScalarType::Double,
            Self::Date(_) => ScalarType::Date,
            Self::Text(_) => ScalarType::Text,
        }
    }
}

impl Scalar {
    /// Its type over rows of `schema`.
    ///
    /// # Errors
    /// If it names a column that is not there, or an operation that is not there.
    pub fn scalar_type(&self, schema: &Schema) -> Result<ScalarType, QueryError> {
        match self {
            Self::Column(column) => Ok(column_type(schema, *column)?.into()),
            Self::Literal(literal) => Ok(literal.scalar_type()),
            Self::Arithmetic { op, left, right } => {
                ScalarType::arithmetic(*op, left.scalar_type(schema)?, right.scalar_type(schema)?)
            }
        }
    }
}

impl Predicate {
    /// Checks everything that [`Query::check`] checks about a predicate, and that a comparison of a column with a constant can
    /// still be joined to it by AND: what is asked can then be asked of a sample of the rows.
    ///
    /// # Errors
    /// Names the first thing that is wrong.
    pub fn check(&self, schema: &Schema) -> Result<(), QueryError> {
        // The AND, the comparison, the column and the constant; the AND is a level too.
        Checker { schema, nodes: 4 }.predicate(self, 1)
    }
}

impl Aggregate {
    /// Checks everything that [`Query::check`] checks about an aggregate.
    ///
    /// # Errors
    /// Names the first thing that is wrong.
    pub fn check(&self, schema: &Schema) -> Result<(), QueryError> {
        Checker { schema, nodes: 0 }.aggregate(self)
    }
}

impl AggregateFunction {
    /// The expression that it is computed of; nothing for `count(*)`.
    pub fn argument(&self) -> Option<&Scalar> {
        match self {
            Self::Count => None,
            Self::Sum(of) | Self::Min(of) | Self::Max(of) | Self::Avg(of) => Some(of),
        }
    }

    /// Checks whether it can be computed of values of type `ty`; says why not.
    ///
    /// # Errors
    /// `sum` and `avg` take exact numbers only: a sum of DOUBLEs depends on the order of the rows. `min` and `max` take
    /// anything but DOUBLE and NULL.
    pub fn accepts(&self, ty: ScalarType) -> Result<(), QueryError> {
        let (name, fits) = match self {
            Self::Count => return Ok(()),
            Self::Sum(_) => ("sum", ty.scale().is_some()),
            Self::Avg(_) => ("avg", ty.scale().is_some()),
            Self::Min(_) => ("min", !matches!(ty, ScalarType::Double | ScalarType::Null)),
            Self::Max(_) => ("max", !matches!(ty, ScalarType::Double | ScalarType::Null)),
        };
        if fits {
            return Ok(());
        }
        let why = match ty {
            ScalarType::Double => ": aggregates are exact, and `/` is not",
            _ => "",
        };
        Err(QueryError(format!(
            "there is no {name} of {}{why}",
            ty.name()
        )))
    }
}

impl Query {
    /// Checks a query that came from somewhere else against the table that it asks for: positions of columns, types,
    /// depth, sizes. What passes can be evaluated and written as SQL without a panic.
    ///
    /// # Errors
    /// Names the first thing that is wrong.
    pub fn check(&self, schema: &Schema) -> Result<(), QueryError> {
        self.count_terms(schema).map(drop)
    }

    /// Checks it, and counts its predicates, expressions and listed constants.
    ///
    /// # Errors
    /// As [`Query::check`].
    pub fn count_terms(&self, schema: &Schema) -> Result<usize, QueryError> {
        if self.table != schema.table {
            return Err(QueryError(format!(
                "the query asks for table `{}`, this is `{}`",
                self.table.escape_debug(),
                schema.table
            )));
        }
        let mut checker = Checker { schema, nodes: 0 };
        checker.predicate(&self.predicate, 0)?;
        match &self.output {
            Output::Rows(columns) => {
                count_in("columns", columns.len(), 1..=OUTPUTS_MAX)?;
                (columns.iter()).try_for_each(|&column| column_type(schema, column).map(drop))?;
            }
            Output::Aggregate(aggregate) => checker.aggregate(aggregate)?,
        }
        if let Some(limit) = self.limit
            && limit > LIMIT_MAX
        {
            return Err(QueryError(format!(
                "a LIMIT of {limit}; at most {LIMIT_MAX} are possible"
            )));
        }
        Ok(checker.nodes)
    }
}

/// Walks a query and counts what it has seen.
struct Checker<'a> {
    schema: &'a Schema,
    nodes: usize,
}

impl Checker<'_> {
    fn predicate(&mut self, predicate: &Predicate, depth: usize) -> Result<(), QueryError> {
        self.enter(depth)?;
        match predicate {
            Predicate::Constant(_) => Ok(()),
            Predicate::Compare { left, right, .. } => {
                let left = self.scalar(left, depth + 1)?;
                let right = self.scalar(right, depth + 1)?;
                comparable(left, right)
            }
            Predicate::In { value, list } => {
                let ty = self.scalar(value, depth + 1)?;
                count_in("constants after IN", list.len(), 1..=NODES_MAX)?;
                for literal in list {
                    self.enter(depth + 1)?;
                    literal_fits(literal)?;
                    comparable(ty, literal.scalar_type())?;
                }
                Ok(())
            }
            Predicate::Like {
                column,
                pattern,
                escape,
            } => {
                if column_type(self.schema, *column)? != ColumnType::Text {
                    return Err(QueryError("LIKE takes a VARCHAR column".into()));
                }
                text_fits(pattern)?;
                pattern_fits(pattern, *escape)
            }
            Predicate::IsNull(value) => self.scalar(value, depth + 1).map(drop),
            Predicate::And(all) | Predicate::Or(all) => all
                .iter()
                .try_for_each(|one| self.predicate(one, depth + 1)),
            Predicate::Not(one) => self.predicate(one, depth + 1),
        }
    }

    fn scalar(&mut self, scalar: &Scalar, depth: usize) -> Result<ScalarType, QueryError> {
        self.enter(depth)?;
        match scalar {
            Scalar::Column(column) => Ok(column_type(self.schema, *column)?.into()),
            Scalar::Literal(literal) => {
                literal_fits(literal)?;
                Ok(literal.scalar_type())
            }
            Scalar::Arithmetic { op, left, right } => {
                let left = self.scalar(left, depth + 1)?;
                let right = self.scalar(right, depth + 1)?;
                ScalarType::arithmetic(*op, left, right)
            }
        }
    }

    fn aggregate(&mut self, aggregate: &Aggregate) -> Result<(), QueryError> {
        count_in(
            "columns to group by",
            aggregate.group_by.len(),
            0..=GROUP_BY_MAX,
        )?;
        for &column in &aggregate.group_by {
            column_type(self.schema, column)?;
        }
        count_in(
            "aggregate functions",
            aggregate.functions.len(),
            1..=OUTPUTS_MAX,
        )?;
        for call in &aggregate.functions {
            text_fits(&call.name)?;
            if call.name.is_empty() {
                return Err(QueryError("an aggregate function has no name".into()));
            }
            if let Some(argument) = call.function.argument() {
                let ty = self.scalar(argument, 0)?;
                call.function.accepts(ty)?;
            }
        }
        Ok(())
    }

    fn enter(&mut self, depth: usize) -> Result<(), QueryError> {
        self.nodes += 1;
        if depth > DEPTH_MAX {
            return Err(QueryError(format!("nested deeper than {DEPTH_MAX} levels")));
        }
        if self.nodes > NODES_MAX {
            return Err(QueryError(format!("more than {NODES_MAX} terms")));
        }
        Ok(())
    }
}

fn column_type(schema: &Schema, column: u32) -> Result<ColumnType, QueryError> {
    match schema.columns.get(column as usize) {
        Some(column) => Ok(column.ty),
        None => Err(QueryError(format!(
            "column {column} of `{}`, which has {}",
            schema.table,
            schema.columns.len()
        ))),
    }
}

fn comparable(left: ScalarType, right: ScalarType) -> Result<(), QueryError> {
    if left.comparable(right) {
        return Ok(());
    }
    Err(QueryError(format!(
        "{} and {} do not compare",
        left.name(),
        right.name()
    )))
}

fn count_in(
    what: &str,
    count: usize,
    range: std::ops::RangeInclusive<usize>,
) -> Result<(), QueryError> {
    if range.contains(&count) {
        return Ok(());
    }
    Err(QueryError(format!(
        "{count} {what}; {} to {} are possible",
        range.start(),
        range.end()
    )))
}

/// Checks whether a constant is one that SQL can write.
pub(crate) fn literal_fits(literal: &Literal) -> Result<(), QueryError> {
    match literal {
        Literal::Null | Literal::Double(_) => Ok(()),
        Literal::Number { unscaled, scale } => {
            let limit = 10u128.pow(u32::from(DIGITS_MAX));
            if unscaled.unsigned_abs() >= limit || *scale > DIGITS_MAX {
                return Err(QueryError(format!(
                    "a number of more than {DIGITS_MAX} digits"
                )));
            }
            Ok(())
        }
        Literal::Date(days) => {
            if !(date::FIRST..=date::LAST).contains(days) {
                return Err(QueryError("a date outside the years 1 to 9999".into()));
            }
            Ok(())
        }
        Literal::Text(text) => text_fits(text),
    }
}

fn text_fits(text: &str) -> Result<(), QueryError> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(QueryError(format!(
            "a text longer than {TEXT_BYTES_MAX} bytes"
        )));
    }
    if text.contains('\0') {
        return Err(QueryError("a text that holds a NUL character".into()));
    }
    Ok(())
}

/// Checks whether a LIKE pattern and its escape character are ones that SQL accepts.
pub(crate) fn pattern_fits(pattern: &str, escape: Option<char>) -> Result<(), QueryError> {
    let Some(escape) = escape else { return Ok(()) };
    if !escape.is_ascii() || matches!(escape, '%' | '_' | '\0') {
        return Err(QueryError(
            "ESCAPE takes one ASCII character other than % and _".into(),
        ));
    }
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        if c == escape && chars.next().is_none() {
            return Err(QueryError(
                "the pattern ends with its escape character".into(),
            ));
        }
    }
    Ok(())
}
