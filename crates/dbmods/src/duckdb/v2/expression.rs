//! A filter of a query, as DuckDB offers it.

/// A node of a filter.
#[derive(Clone, Debug, PartialEq)]
pub enum Expression {
    /// A column of the table, by its position in the schema.
    Column(u32),
    /// A constant.
    Constant(Value),
    /// A comparison of two values.
    Compare(Comparison, Box<Expression>, Box<Expression>),
    /// `value BETWEEN low AND high`. DuckDB also makes one of two comparisons, and does not say whether the bounds themselves belong to it.
    Between(Box<Expression>, Box<Expression>, Box<Expression>),
    /// `value IN (list)`.
    In(Box<Expression>, Vec<Expression>),
    /// All of them.
    And(Vec<Expression>),
    /// Any of them.
    Or(Vec<Expression>),
    /// Not.
    Not(Box<Expression>),
    /// `value IS NULL`.
    IsNull(Box<Expression>),
    /// A value as another type.
    Cast(Type, Box<Expression>),
    /// A function, by its name.
    Function(String, Vec<Expression>),
    /// Something that dpb knows nothing of.
    Other,
}

/// A comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
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

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// NULL.
    Null,
    /// TRUE or FALSE.
    Boolean(bool),
    /// An integer of any width.
    Integer(i128),
    /// A decimal: `unscaled / 10^scale`.
    Decimal {
        /// The digits.
        unscaled: i128,
        /// Digits after the point.
        scale: u8,
    },
    /// A DOUBLE.
    Double(f64),
    /// Days since 1970-01-01.
    Date(i32),
    /// Text.
    Text(String),
    /// A value of another type, by DuckDB's number for it.
    Other(u32),
}

/// A type, as far as filters need it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// INTEGER.
    Integer,
    /// BIGINT.
    BigInt,
    /// HUGEINT.
    HugeInt,
    /// Another one, by DuckDB's number.
    Other(u32),
}
