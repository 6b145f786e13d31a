//! Arithmetic as a graph in which equal sub-expressions are one node, with a type for each root.

use std::collections::HashMap;

use super::ScanError;
use crate::query::eval::exact_to_double;
use crate::query::{ArithmeticOp, Literal, Scalar};
use crate::schema::{ColumnType, Schema};

/// A node's position; operands come before what uses them.
pub(super) type NodeId = usize;

/// What a node computes for a row. Integers are exact; doubles are kept as their bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Node {
    /// The column's integer: unscaled for decimals, days for dates.
    Column(usize),
    /// An integer.
    Constant(i128),
    /// An integer from two.
    Exact(Exact, NodeId, NodeId),
    /// A double's bits.
    Double(u64),
    /// Integer / 10^scale, as a double.
    ToDouble(NodeId, u8),
    /// A double from two.
    Float(ArithmeticOp, NodeId, NodeId),
}

/// What integers can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Exact {
    Add,
    Subtract,
    Multiply,
    /// Days added to a date: a date again, of 32 bits.
    AddDays,
    /// Days taken from a date.
    SubtractDays,
}

/// What a value is.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Typed {
    /// A number: `node / 10^scale`.
    Number { node: NodeId, scale: u8 },
    /// Days since 1970-01-01.
    Date(NodeId),
    /// A double.
    Double(NodeId),
    /// A text column.
    TextColumn(usize),
    /// A text constant.
    Text(String),
    /// SQL NULL, whatever its type.
    Null,
}

/// The graph.
#[derive(Clone, Debug, Default)]
pub(super) struct Dag {
    nodes: Vec<Node>,
    ids: HashMap<Node, NodeId>,
}

/// Powers of ten that fit.
pub(super) fn power_of_ten(exponent: u8) -> Result<i128, ScanError> {
    10i128
        .checked_pow(u32::from(exponent))
        .ok_or(ScanError::Overflow)
}

impl Dag {
    /// All nodes, operands first.
    pub(super) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The columns that expressions read.
    pub(super) fn columns(&self) -> impl Iterator<Item = usize> {
        self.nodes.iter().filter_map(|node| match *node {
            Node::Column(column) => Some(column),
            _ => None,
        })
    }

    /// The node, new or known.
    pub(super) fn add(&mut self, node: Node) -> NodeId {
        *self.ids.entry(node).or_insert_with(|| {
            self.nodes.push(node);
            self.nodes.len() - 1
        })
    }

    /// The constant that a node is.
    pub(super) fn constant(&self, node: NodeId) -> Option<i128> {
        match self.nodes[node] {
            Node::Constant(value) => Some(value),
            _ => None,
        }
    }

    /// A value of the IR with its type.
    pub(super) fn scalar(&mut self, schema: &Schema, scalar: &Scalar) -> Result<Typed, ScanError> {
        match scalar {
            Scalar::Column(column) => self.column(schema, *column),
            Scalar::Literal(literal) => self.literal(literal),
            Scalar::Arithmetic { op, left, right } => {
                let (left, right) = (self.scalar(schema, left)?, self.scalar(schema, right)?);
                self.arithmetic(*op, left, right)
            }
        }
    }

    fn column(&mut self, schema: &Schema, column: u32) -> Result<Typed, ScanError> {
        let column = column as usize;
        let described = schema
            .columns
            .get(column)
            .ok_or(ScanError::NoSuchColumn(column))?;
        Ok(match described.ty {
            ColumnType::Text => Typed::TextColumn(column),
            ColumnType::Date => Typed::Date(self.add(Node::Column(column))),
            ColumnType::Integer | ColumnType::BigInt => Typed::Number {
                node: self.add(Node::Column(column)),
                scale: 0,
            },
            ColumnType::Decimal { scale, .. } => Typed::Number {
                node: self.add(Node::Column(column)),
                scale,
            },
        })
    }

    /// A constant with its type.
    pub(super) fn literal(&mut self, literal: &Literal) -> Result<Typed, ScanError> {
        Ok(match literal {
            Literal::Null => Typed::Null,
            Literal::Number { unscaled, scale } => Typed::Number {
                node: self.add(Node::Constant(*unscaled)),
                scale: *scale,
            },
            Literal::Double(value) => Typed::Double(self.add(Node::Double(value.to_bits()))),
            Literal::Date(days) => Typed::Date(self.add(Node::Constant(i128::from(*days)))),
            Literal::Text(text) => Typed::Text(text.clone()),
        })
    }

    fn arithmetic(
        &mut self,
        op: ArithmeticOp,
        left: Typed,
        right: Typed,
    ) -> Result<Typed, ScanError> {
        use ArithmeticOp::{Add, Divide, Multiply, Subtract};
        use Typed::{Date, Double, Null, Number};
        Ok(match (op, left, right) {
            (_, Null, _) | (_, _, Null) => Null,
            (Add, Date(days), Number { node, scale: 0 })
            | (Add, Number { node, scale: 0 }, Date(days)) => {
                Date(self.exact(Exact::AddDays, days, node)?)
            }
            (Subtract, Date(days), Number { node, scale: 0 }) => {
                Date(self.exact(Exact::SubtractDays, days, node)?)
            }
            (Subtract, Date(left), Date(right)) => Number {
                node: self.exact(Exact::Subtract, left, right)?,
                scale: 0,
            },
            (Multiply, Number { node: a, scale: s }, Number { node: b, scale: t }) => Number {
                node: self.exact(Exact::Multiply, a, b)?,
                scale: s.checked_add(t).ok_or(ScanError::Overflow)?,
            },
            (Add | Subtract, left @ Number { .. }, right @ Number { .. }) => {
                let (left, right, scale) = self.aligned(left, right)?;
                let op = if op == Add {
                    Exact::Add
                } else {
                    Exact::Subtract
                };
                Number {
                    node: self.exact(op, left, right)?,
                    scale,
                }
            }
            (Divide, left @ Number { .. }, right @ Number { .. })
            | (_, left @ Double(_), right @ (Number { .. } | Double(_)))
            | (_, left @ Number { .. }, right @ Double(_)) => {
                let (left, right) = (self.as_double(&left)?, self.as_double(&right)?);
                Double(self.add(Node::Float(op, left, right)))
            }
            (op, left, right) => {
                return Err(ScanError::Type(format!(
                    "no {op:?} of {} and {}",
                    left.kind(),
                    right.kind()
                )));
            }
        })
    }

    /// An exact operation, folded if both sides are constants.
    fn exact(&mut self, op: Exact, left: NodeId, right: NodeId) -> Result<NodeId, ScanError> {
        let node = match (self.constant(left), self.constant(right)) {
            (Some(left), Some(right)) => Node::Constant(op.apply(left, right)?),
            _ => Node::Exact(op, left, right),
        };
        Ok(self.add(node))
    }

    /// Two numbers at one scale.
    pub(super) fn aligned(
        &mut self,
        left: Typed,
        right: Typed,
    ) -> Result<(NodeId, NodeId, u8), ScanError> {
        let (Typed::Number { node: a, scale: s }, Typed::Number { node: b, scale: t }) =
            (&left, &right)
        else {
            return Err(ScanError::Type("numbers expected".to_owned()));
        };
        let scale = *s.max(t);
        let mut rescale = |node: NodeId, from: u8| {
            if from == scale {
                return Ok(node);
            }
            let power = self.add(Node::Constant(power_of_ten(scale - from)?));
            self.exact(Exact::Multiply, node, power)
        };
        Ok((rescale(*a, *s)?, rescale(*b, *t)?, scale))
    }

    /// The value as a double.
    pub(super) fn as_double(&mut self, value: &Typed) -> Result<NodeId, ScanError> {
        match *value {
            Typed::Double(node) => Ok(node),
            Typed::Number { node, scale } => Ok(match self.constant(node) {
                Some(value) => self.add(Node::Double(to_double(value, scale)?.to_bits())),
                None => self.add(Node::ToDouble(node, scale)),
            }),
            _ => Err(ScanError::Type(format!("{} is no number", value.kind()))),
        }
    }
}

impl Exact {
    /// The exact result.
    pub(super) fn apply(self, left: i128, right: i128) -> Result<i128, ScanError> {
        let date = |days: &i128| i32::try_from(*days).is_ok();
        match self {
            Self::Add => left.checked_add(right),
            Self::Subtract => left.checked_sub(right),
            Self::Multiply => left.checked_mul(right),
            Self::AddDays => left.checked_add(right).filter(date),
            Self::SubtractDays => left.checked_sub(right).filter(date),
        }
        .ok_or(ScanError::Overflow)
    }
}

impl Typed {
    /// The value's kind, for messages.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Number { .. } => "a number",
            Self::Date(_) => "a date",
            Self::Double(_) => "a DOUBLE",
            Self::TextColumn(_) | Self::Text(_) => "text",
            Self::Null => "NULL",
        }
    }
}

/// `value / 10^scale` as DuckDB casts a DECIMAL to DOUBLE.
pub(super) fn to_double(value: i128, scale: u8) -> Result<f64, ScanError> {
    let power = power_of_ten(scale)?;
    Ok(to_double_by(value, power))
}

/// As [`to_double`], with 10^scale at hand.
pub(super) fn to_double_by(value: i128, power: i128) -> f64 {
    exact_to_double(value, power)
}

/// `left op right` in doubles.
pub(super) fn float(op: ArithmeticOp, left: f64, right: f64) -> f64 {
    match op {
        ArithmeticOp::Add => left + right,
        ArithmeticOp::Subtract => left - right,
        ArithmeticOp::Multiply => left * right,
        ArithmeticOp::Divide => left / right,
    }
}
