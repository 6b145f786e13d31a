//! Random predicates, aggregates and statements over a table: every type and operator that the IR has, constants drawn from the table's
//! own values so that selectivities vary, the same sequence for the same seed on every machine.
//!
//! What DuckDB itself refuses or fails on is left out, and nothing else: DuckDB gives intermediate results a type, and fails
//! where a value does not fit it. So each expression carries DuckDB's type for it and an interval that its values lie
//! in, and is kept only if the interval fits the type.

mod samples;
mod statements;
mod texts;
mod types;

use dpb_core::random::SplitMix64;

pub use self::statements::Statement;
use self::types::{
    Expression, Type, combine, comparable, is_exact, is_literal, number_type, scale_of,
};
use crate::query::eval;
use crate::query::{
    Aggregate, AggregateCall, AggregateFunction, ArithmeticOp, CompareOp, Literal, Predicate,
    Scalar,
};
use crate::schema::{ColumnType, Schema};

/// The rows that constants are drawn from, and the bounds of all values.
#[derive(Clone, Debug)]
pub struct Samples {
    /// At least one of the table's rows.
    pub rows: Vec<Vec<Literal>>,
    /// The smallest and the largest value of each column, as stored (unscaled, days); anything for text.
    pub bounds: Vec<(i64, i64)>,
}

/// Draws predicates and aggregates.
#[derive(Clone, Debug)]
pub struct Generator<'a> {
    schema: &'a Schema,
    samples: &'a Samples,
    random: Random,
}

/// Choices that a seed repeats.
#[derive(Clone, Debug)]
pub struct Random(SplitMix64);

/// Deepest nesting of AND, OR and NOT.
const NESTING: u32 = 3;

impl Random {
    /// The sequence of this seed.
    pub fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed))
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Draws a number below `n`.
    ///
    /// # Panics
    /// If `n` is 0.
    pub fn below(&mut self, n: usize) -> usize {
        assert!(n > 0, "one of none");
        self.0.below(n)
    }

    /// True `percent` times in a hundred.
    pub fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// Draws one of the values.
    ///
    /// # Panics
    /// If there is none.
    pub fn of<'t, T>(&mut self, choices: &'t [T]) -> &'t T {
        &choices[self.below(choices.len())]
    }
}

impl<'a> Generator<'a> {
    /// Predicates over `schema`, of values like `samples`.
    ///
    /// # Panics
    /// If there is no row, or bounds are not one a column.
    pub fn new(schema: &'a Schema, samples: &'a Samples, seed: u64) -> Self {
        assert_eq!(
            schema.columns.len(),
            samples.bounds.len(),
            "bounds of each column"
        );
        assert!(!samples.rows.is_empty(), "a row at least");
        Self {
            schema,
            samples,
            random: Random::new(seed),
        }
    }

    /// The next predicate.
    pub fn predicate(&mut self) -> Predicate {
        self.nested(NESTING)
    }

    /// The next aggregate: one to four functions, grouped by none to two columns of `group_by`.
    pub fn aggregate(&mut self, group_by: &[u32]) -> Aggregate {
        let mut columns = Vec::new();
        if !group_by.is_empty() {
            for _ in 0..self.random.below(3) {
                let column = *self.random.of(group_by);
                if !columns.contains(&column) {
                    columns.push(column);
                }
            }
        }
        let functions = 1 + self.random.below(4);
        let functions = (0..functions).map(|i| AggregateCall {
            name: format!("f{i}"),
            function: self.function(),
        });
        Aggregate {
            functions: functions.collect(),
            group_by: columns,
        }
    }

    fn function(&mut self) -> AggregateFunction {
        let exact = |ty: Type| !matches!(ty, Type::Double | Type::Date | Type::Text | Type::Null);
        let choice = self.random.below(5);
        let argument = loop {
            let argument = match self.random.below(4) {
                0 if choice < 2 => self.column_where(|_| true),
                0 | 1 => self.column_where(is_number),
                _ => self.numeric(2),
            };
            let fits = exact(argument.ty)
                || (choice < 2 && matches!(argument.ty, Type::Date | Type::Text));
            if fits && !is_literal(&argument.scalar) {
                break argument.scalar;
            }
        };
        match choice {
            0 => AggregateFunction::Min(argument),
            1 => AggregateFunction::Max(argument),
            2 => AggregateFunction::Sum(argument),
            3 => AggregateFunction::Avg(argument),
            _ => AggregateFunction::Count,
        }
    }

    // Conditions

    fn nested(&mut self, depth: u32) -> Predicate {
        if depth == 0 || self.random.percent(45) {
            return self.leaf();
        }
        let parts = 2 + self.random.below(3);
        match self.random.below(5) {
            0 | 1 => Predicate::And((0..parts).map(|_| self.nested(depth - 1)).collect()),
            2 | 3 => Predicate::Or((0..parts).map(|_| self.nested(depth - 1)).collect()),
            _ => Predicate::Not(Box::new(self.nested(depth - 1))),
        }
    }

    fn leaf(&mut self) -> Predicate {
        match self.random.below(100) {
            0..25 => self.column_with_constant(),
            25..37 => self.between(),
            37..47 => self.in_list(),
            47..60 => self.like(),
            60..85 => self.comparison(),
            85..90 => self.dates(),
            90..95 => self.texts(),
            95..97 => self.is_null(),
            97..99 => self.with_null(),
            _ => Predicate::Constant(*self.random.of(&[Some(true), Some(false), None])),
        }
    }

    fn op(&mut self) -> CompareOp {
        use CompareOp::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};
        *self
            .random
            .of(&[Equal, NotEqual, Less, LessOrEqual, Greater, GreaterOrEqual])
    }

    fn column_with_constant(&mut self) -> Predicate {
        let column = self.column_where(|_| true);
        let constant = self.constant_like(&column);
        let op = self.op();
        let constant = Scalar::Literal(constant);
        let (left, right) = if self.random.percent(80) {
            (column.scalar, constant)
        } else {
            (constant, column.scalar)
        };
        Predicate::Compare { op, left, right }
    }

    fn between(&mut self) -> Predicate {
        let value = if self.random.percent(70) {
            self.column_where(|_| true)
        } else {
            self.numeric(2)
        };
        let (low, high) = (self.constant_like(&value), self.constant_like(&value));
        let compare = |op, literal| Predicate::Compare {
            op,
            left: value.scalar.clone(),
            right: Scalar::Literal(literal),
        };
        let between = Predicate::And(vec![
            compare(CompareOp::GreaterOrEqual, low),
            compare(CompareOp::LessOrEqual, high),
        ]);
        if self.random.percent(25) {
            Predicate::Not(Box::new(between))
        } else {
            between
        }
    }

    fn in_list(&mut self) -> Predicate {
        let value = if self.random.percent(80) {
            self.column_where(|_| true)
        } else {
            self.numeric(1)
        };
        let most = *self.random.of(&[3, 8, 40]);
        let count = 1 + self.random.below(most);
        let mut list: Vec<Literal> = (0..count).map(|_| self.constant_like(&value)).collect();
        if self.random.percent(10) {
            let at = self.random.below(list.len() + 1);
            list.insert(at, Literal::Null);
        }
        let found = Predicate::In {
            value: value.scalar,
            list,
        };
        if self.random.percent(30) {
            Predicate::Not(Box::new(found))
        } else {
            found
        }
    }

    /// Two expressions of numbers, or one and a constant near it.
    fn comparison(&mut self) -> Predicate {
        loop {
            let left = self.numeric(3);
            let right = if self.random.percent(50) {
                let constant = self.constant_like(&left);
                self.literal(constant)
            } else {
                self.numeric(2)
            };
            if comparable(&left, &right) {
                return Predicate::Compare {
                    op: self.op(),
                    left: left.scalar,
                    right: right.scalar,
                };
            }
        }
    }

    /// Dates with each other, moved by days, or their difference with a number of days.
    fn dates(&mut self) -> Predicate {
        let is_date = |ty| ty == ColumnType::Date;
        if !self.schema.columns.iter().any(|column| is_date(column.ty)) {
            return self.column_with_constant();
        }
        let (first, second) = (self.column_where(is_date), self.column_where(is_date));
        let first = self.moved(first);
        let op = self.op();
        if self.random.percent(60) {
            let second = self.moved(second);
            return Predicate::Compare {
                op,
                left: first.scalar,
                right: second.scalar,
            };
        }
        let days = Literal::Number {
            unscaled: self.random.below(120) as i128 - 60,
            scale: 0,
        };
        let difference = Scalar::Arithmetic {
            op: ArithmeticOp::Subtract,
            left: Box::new(first.scalar),
            right: Box::new(second.scalar),
        };
        Predicate::Compare {
            op,
            left: difference,
            right: Scalar::Literal(days),
        }
    }

    /// A date plus or minus some days, perhaps as many as an INTEGER column says.
    fn moved(&mut self, date: Expression) -> Expression {
        if self.random.percent(40) {
            return date;
        }
        let by = if self.random.percent(70) || !self.has(ColumnType::Integer) {
            let unscaled = self.random.below(200) as i128 - 100;
            self.literal(Literal::Number { unscaled, scale: 0 })
        } else {
            self.column_where(|ty| ty == ColumnType::Integer)
        };
        let op = *self.random.of(&[ArithmeticOp::Add, ArithmeticOp::Subtract]);
        let moved = if op == ArithmeticOp::Add && self.random.percent(20) {
            combine(op, &by, &date)
        } else {
            combine(op, &date, &by)
        };
        moved.unwrap_or(date)
    }

    fn texts(&mut self) -> Predicate {
        if !self.has(ColumnType::Text) {
            return self.column_with_constant();
        }
        let left = self.column_where(|ty| ty == ColumnType::Text).scalar;
        let right = self.column_where(|ty| ty == ColumnType::Text).scalar;
        Predicate::Compare {
            op: self.op(),
            left,
            right,
        }
    }

    fn is_null(&mut self) -> Predicate {
        let value = if self.random.percent(50) {
            self.column_where(|_| true)
        } else {
            self.numeric(2)
        };
        let is_null = Predicate::IsNull(value.scalar);
        if self.random.percent(50) {
            Predicate::Not(Box::new(is_null))
        } else {
            is_null
        }
    }

    fn with_null(&mut self) -> Predicate {
        let null = || Scalar::Literal(Literal::Null);
        let column = self.column_where(|_| true);
        if is_exact(column.ty) && self.random.percent(50) {
            let sum = Scalar::Arithmetic {
                op: ArithmeticOp::Add,
                left: Box::new(column.scalar),
                right: Box::new(null()),
            };
            let right = Scalar::Literal(Literal::Number {
                unscaled: 1,
                scale: 0,
            });
            return Predicate::Compare {
                op: self.op(),
                left: sum,
                right,
            };
        }
        Predicate::Compare {
            op: self.op(),
            left: column.scalar,
            right: null(),
        }
    }

    fn like(&mut self) -> Predicate {
        if !self.has(ColumnType::Text) {
            return self.column_with_constant();
        }
        let column = self.column_where(|ty| ty == ColumnType::Text);
        let Scalar::Column(column) = column.scalar else {
            unreachable!("a column")
        };
        let (pattern, escape) = self.pattern(column);
        let like = Predicate::Like {
            column,
            pattern,
            escape,
        };
        if self.random.percent(25) {
            Predicate::Not(Box::new(like))
        } else {
            like
        }
    }

    /// Pieces of a real value between wildcards, at times with a letter that is not in it, at times escaped.
    fn pattern(&mut self, column: u32) -> (String, Option<char>) {
        let Literal::Text(text) = self.sample(column) else {
            return ("%".into(), None);
        };
        let chars: Vec<char> = text.chars().collect();
        let escape = self
            .random
            .percent(15)
            .then(|| *self.random.of(&['\\', '!', 'e', '#']));
        let mut pattern = String::new();
        let mut at = if self.random.percent(40) {
            0
        } else {
            pattern.push('%');
            self.random.below(chars.len() + 1)
        };
        for _ in 0..1 + self.random.below(3) {
            let longest = *self.random.of(&[2, 6, 14]);
            let len = 1 + self.random.below(longest);
            let end = (at + len).min(chars.len());
            for &c in &chars[at..end] {
                match self.random.below(40) {
                    0 | 1 => pattern.push('_'),
                    2 => pattern.push(*self.random.of(&['q', 'Z', 'é', '\''])),
                    roll => {
                        if let Some(escape) = escape
                            .filter(|&escape| c == escape || matches!(c, '%' | '_') || roll < 8)
                        {
                            pattern.push(escape);
                        }
                        pattern.push(c);
                    }
                }
            }
            at = (end + self.random.below(8)).min(chars.len());
            if at == chars.len() {
                break;
            }
            pattern.push('%');
        }
        if at < chars.len() || self.random.percent(20) {
            pattern.push('%');
        }
        if let Some(escape) = escape.filter(|_| self.random.percent(20)) {
            pattern.extend([escape, '%']);
        }
        (pattern, escape)
    }

    // Values

    fn has(&self, ty: ColumnType) -> bool {
        self.schema.columns.iter().any(|column| column.ty == ty)
    }

    fn sample(&mut self, column: u32) -> Literal {
        self.random.of(&self.samples.rows)[column as usize].clone()
    }

    /// A column whose type is wanted; any column if none is.
    fn column_where(&mut self, wanted: impl Fn(ColumnType) -> bool) -> Expression {
        let fitting: Vec<usize> = (0..self.schema.columns.len())
            .filter(|&column| wanted(self.schema.columns[column].ty))
            .collect();
        let column = match fitting.as_slice() {
            [] => self.random.below(self.schema.columns.len()),
            some => *self.random.of(some),
        };
        let (low, high) = self.samples.bounds[column];
        let ty = match self.schema.columns[column].ty {
            ColumnType::Integer => Type::Integer,
            ColumnType::BigInt => Type::BigInt,
            ColumnType::Decimal { precision, scale } => Type::Decimal {
                width: precision,
                scale,
            },
            ColumnType::Date => Type::Date,
            ColumnType::Text => Type::Text,
        };
        Expression {
            scalar: Scalar::Column(column as u32),
            ty,
            bounds: (low.into(), high.into()),
        }
    }

    fn literal(&self, literal: Literal) -> Expression {
        let (ty, bounds) = match &literal {
            Literal::Number { unscaled, scale } => {
                (number_type(*unscaled, *scale), (*unscaled, *unscaled))
            }
            Literal::Double(_) => (Type::Double, (0, 0)),
            Literal::Date(days) => (Type::Date, (i128::from(*days), i128::from(*days))),
            Literal::Text(_) => (Type::Text, (0, 0)),
            Literal::Null => (Type::Null, (0, 0)),
        };
        Expression {
            scalar: Scalar::Literal(literal),
            ty,
            bounds,
        }
    }

    /// Arithmetic over at least one column, at most `depth` operations deep; a plain column if there are no numbers.
    fn numeric(&mut self, depth: u32) -> Expression {
        let column = self.column_where(is_number);
        if depth == 0 || !is_exact(column.ty) || self.random.percent(25) {
            return column;
        }
        for _ in 0..8 {
            use ArithmeticOp::{Add, Divide, Multiply, Subtract};
            let op = *self
                .random
                .of(&[Add, Add, Subtract, Subtract, Multiply, Multiply, Divide]);
            let left = self.numeric(depth - 1);
            let right = if self.random.percent(45) {
                let constant = self.operand();
                self.literal(constant)
            } else {
                self.numeric(depth - 1)
            };
            let combined = if self.random.percent(50) {
                combine(op, &left, &right)
            } else {
                combine(op, &right, &left)
            };
            if let Some(combined) = combined {
                return combined;
            }
        }
        column
    }

    /// A constant for arithmetic.
    fn operand(&mut self) -> Literal {
        match self.random.below(10) {
            0..4 => Literal::Number {
                unscaled: self.random.below(21) as i128 - 5,
                scale: 0,
            },
            4..8 => Literal::Number {
                unscaled: self.random.below(4000) as i128 - 1000,
                scale: 1 + self.random.below(3) as u8,
            },
            8 => Literal::Number {
                unscaled: i128::from(self.random.bits() >> 24),
                scale: 0,
            },
            _ => Literal::Double(self.random.below(1000) as f64 / 64.0),
        }
    }

    /// A constant that compares with `value`, at times equal to it in some row, at times outside all it can be.
    fn constant_like(&mut self, value: &Expression) -> Literal {
        if let Scalar::Column(column) = value.scalar
            && self.random.percent(70)
        {
            return self.sample(column);
        }
        let within = self.within(value);
        match value.ty {
            Type::Date => Literal::Date((within + self.random.below(9) as i128 - 4) as i32),
            Type::Text => match self.random.below(4) {
                0 => Literal::Text(String::new()),
                1 => Literal::Text("zz'é".into()),
                _ => {
                    let Scalar::Column(column) = value.scalar else {
                        return Literal::Null;
                    };
                    match self.sample(column) {
                        Literal::Text(text) => {
                            let shorter = self.random.below(text.chars().count() + 1);
                            Literal::Text(text.chars().take(shorter).collect())
                        }
                        other => other,
                    }
                }
            },
            Type::Null => Literal::Null,
            Type::Double => self.double_near(value),
            Type::Integer | Type::BigInt | Type::HugeInt | Type::Decimal { .. } => {
                self.number_near(within, value)
            }
        }
    }

    /// What the expression is for some row, or about that, or a small number.
    fn double_near(&mut self, value: &Expression) -> Literal {
        let samples = self.samples;
        let row = self.random.of(&samples.rows);
        match eval::scalar(&value.scalar, row) {
            Ok(Literal::Double(exact)) if exact.is_finite() && self.random.percent(80) => {
                match self.random.below(3) {
                    0 => Literal::Double(exact),
                    1 => Literal::Double(exact * 1.0625),
                    _ if exact.abs() < 1e12 => Literal::Number {
                        unscaled: (exact * 1000.0) as i128,
                        scale: 3,
                    },
                    _ => Literal::Double(exact),
                }
            }
            _ => Literal::Number {
                unscaled: self.random.below(400) as i128 - 100,
                scale: 2,
            },
        }
    }

    /// What the expression is for some row, or, seldom, anything in its bounds.
    fn within(&mut self, value: &Expression) -> i128 {
        let samples = self.samples;
        let row = self.random.of(&samples.rows);
        match eval::scalar(&value.scalar, row) {
            Ok(Literal::Number { unscaled, .. }) if self.random.percent(85) => unscaled,
            Ok(Literal::Date(days)) if self.random.percent(85) => days.into(),
            _ => {
                let (low, high) = value.bounds;
                let span = high.saturating_sub(low).unsigned_abs();
                let part = u128::from(self.random.bits() >> 32);
                let above = match span.checked_mul(part) {
                    Some(product) => product >> 32,
                    None => (span >> 32) * part,
                };
                low.saturating_add_unsigned(above)
            }
        }
    }

    /// A number of the value's scale, or of fewer or more digits, or a DOUBLE.
    fn number_near(&mut self, within: i128, value: &Expression) -> Literal {
        let scale = scale_of(value.ty);
        let candidate = match self.random.below(10) {
            0 if scale > 0 => Literal::Number {
                unscaled: within / 10,
                scale: scale - 1,
            },
            1 => Literal::Number {
                unscaled: within.saturating_mul(10) + 5,
                scale: scale + 1,
            },
            2 => Literal::Number {
                unscaled: within.saturating_mul(-3),
                scale,
            },
            3 => Literal::Double(eval::number_to_double(within, scale)),
            _ => Literal::Number {
                unscaled: within,
                scale,
            },
        };
        let expression = self.literal(candidate.clone());
        if comparable(value, &expression) {
            candidate
        } else {
            Literal::Number {
                unscaled: 0,
                scale: 0,
            }
        }
    }
}

fn is_number(ty: ColumnType) -> bool {
    !matches!(ty, ColumnType::Date | ColumnType::Text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first numbers of the published sequence for seed 1234567 (Rosetta Code, "Pseudo-random numbers/Splitmix64").
    #[test]
    fn published_sequence() {
        let mut random = Random::new(1_234_567);
        let numbers = [(); 3].map(|()| random.bits());
        assert_eq!(
            numbers,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423
            ]
        );
    }
}
