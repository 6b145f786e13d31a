//! What a scan is asked: predicate, projection, aggregate. The IR that SQL parses to, and that travels on the wire.
//!
//! Semantics are those of SQL as DuckDB implements it: three-valued logic, exact decimals (`+ - *` keep every digit), `/`
//! gives a DOUBLE (by zero: infinite, or NaN), comparisons across numeric types compare values (as DOUBLEs if one is), text
//! compares by bytes. Where an intermediate type of DuckDB's is too narrow for a value DuckDB fails; here values stay exact up
//! to 128 bits, and only beyond those an evaluation fails.

mod check;
pub mod date;
mod depth;
pub mod eval;
pub mod sql;

use serde::{Deserialize, Serialize};

use crate::schema::ColumnType;

pub use check::{
    DEPTH_MAX, DIGITS_MAX, GROUP_BY_MAX, LIMIT_MAX, NODES_MAX, OUTPUTS_MAX, QueryError, ScalarType,
    TEXT_BYTES_MAX,
};
pub(crate) use check::{literal_fits, pattern_fits};

/// One scan of one table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Query {
    /// The table.
    pub table: String,
    /// The condition on rows.
    pub predicate: Predicate,
    /// The columns or aggregates that come back.
    pub output: Output,
    /// Most rows of the result, whichever they are; of an aggregate most groups. `None` for all. A scan ends early once it has so many
    /// rows.
    pub limit: Option<u64>,
}

/// The form of a result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Output {
    /// These columns (positions in the schema, in this order) of the rows that qualify.
    Rows(Vec<u32>),
    /// One row a group.
    Aggregate(Aggregate),
}

/// Functions over the rows that qualify.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Aggregate {
    /// At most two columns of low cardinality; their values lead each output row. Empty: one row in all.
    pub group_by: Vec<u32>,
    /// The functions, in output order.
    pub functions: Vec<AggregateCall>,
}

/// One aggregate function and its name in the output (its text as the user wrote it).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AggregateCall {
    /// The output column's name.
    pub name: String,
    /// The function.
    pub function: AggregateFunction,
}

/// An aggregate function.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum AggregateFunction {
    /// `count(*)`; with no NULLs in a segment also `count(column)`.
    Count,
    /// `sum`, of integers or decimals: exact, DECIMAL(38, scale). NULL over no rows.
    Sum(Scalar),
    /// `min`: of any type.
    Min(Scalar),
    /// `max`: of any type.
    Max(Scalar),
    /// `avg`: DOUBLE.
    Avg(Scalar),
}

/// A constant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Literal {
    /// SQL NULL.
    Null,
    /// An exact number: `unscaled / 10^scale`. Integers have scale 0.
    Number {
        /// The digits.
        unscaled: i128,
        /// Digits after the point.
        scale: u8,
    },
    /// A DOUBLE, from `/` or from a number with an exponent. All NaNs are equal and above everything else.
    Double(f64),
    /// Days since 1970-01-01.
    Date(i32),
    /// Text.
    Text(String),
}

impl Literal {
    /// A value of a column other than text, from the form in which a segment stores it.
    pub fn of_stored(stored: i64, ty: ColumnType) -> Self {
        match ty {
            ColumnType::Date => Self::Date(stored as i32),
            ColumnType::Decimal { scale, .. } => Self::Number {
                unscaled: stored.into(),
                scale,
            },
            ColumnType::Integer | ColumnType::BigInt | ColumnType::Text => Self::Number {
                unscaled: stored.into(),
                scale: 0,
            },
        }
    }
}

/// An expression over one row that gives a value. Constant sub-expressions are folded by the parser.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Scalar {
    /// A column, by its position in the schema.
    Column(u32),
    /// A constant.
    Literal(Literal),
    /// Arithmetic on numbers, and DATE ± integer days, DATE − DATE (days).
    Arithmetic {
        /// The operation.
        op: ArithmeticOp,
        /// Left.
        #[serde(deserialize_with = "depth::bounded")]
        left: Box<Scalar>,
        /// Right.
        #[serde(deserialize_with = "depth::bounded")]
        right: Box<Scalar>,
    },
}

/// Arithmetic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ArithmeticOp {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`, in DOUBLE.
    Divide,
}

impl ArithmeticOp {
    /// As SQL writes it.
    pub fn symbol(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
        }
    }
}

/// A comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum CompareOp {
    /// `=`
    Equal,
    /// `<>`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

impl CompareOp {
    /// As SQL writes it.
    pub fn symbol(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::NotEqual => "<>",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
        }
    }

    /// Returns true if the comparison holds of two values in this order.
    pub fn holds(self, order: std::cmp::Ordering) -> bool {
        match self {
            Self::Equal => order.is_eq(),
            Self::NotEqual => order.is_ne(),
            Self::Less => order.is_lt(),
            Self::LessOrEqual => order.is_le(),
            Self::Greater => order.is_gt(),
            Self::GreaterOrEqual => order.is_ge(),
        }
    }
}

/// An expression over one row that gives TRUE, FALSE or NULL.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Predicate {
    /// Always this; `None` is NULL. `Constant(Some(true))` selects all rows.
    Constant(Option<bool>),
    /// A comparison of two values of comparable types. BETWEEN is two of them under [`Predicate::And`].
    Compare {
        /// The comparison.
        op: CompareOp,
        /// Left.
        left: Scalar,
        /// Right.
        right: Scalar,
    },
    /// `value IN (list)`; literals only. A NULL in the list makes "not found" NULL.
    In {
        /// The value that is looked for.
        value: Scalar,
        /// The list, of the value's type or comparable to it.
        list: Vec<Literal>,
    },
    /// `column LIKE pattern`: `%` any run, `_` any one character (not byte), no escape character unless given.
    Like {
        /// A text column.
        column: u32,
        /// The pattern.
        pattern: String,
        /// The character that makes the next one literal, from `ESCAPE`.
        escape: Option<char>,
    },
    /// `value IS NULL`.
    IsNull(Scalar),
    /// All of them.
    And(#[serde(deserialize_with = "depth::bounded")] Vec<Predicate>),
    /// Any of them.
    Or(#[serde(deserialize_with = "depth::bounded")] Vec<Predicate>),
    /// Not.
    Not(#[serde(deserialize_with = "depth::bounded")] Box<Predicate>),
}

#[cfg(test)]
mod tests;
