//! DuckDB's types of expressions, and whether it can fail on one.

use crate::query::{ArithmeticOp, DIGITS_MAX, Scalar};

/// DuckDB's type of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    Integer,
    BigInt,
    HugeInt,
    Decimal { width: u8, scale: u8 },
    Double,
    Date,
    Text,
    Null,
}

/// An expression that DuckDB evaluates without failing.
#[derive(Clone, Debug)]
pub(super) struct Expression {
    pub(super) scalar: Scalar,
    pub(super) ty: Type,
    /// Of exact numbers (unscaled) and dates.
    pub(super) bounds: (i128, i128),
}

pub(super) fn is_literal(scalar: &Scalar) -> bool {
    matches!(scalar, Scalar::Literal(_))
}

pub(super) fn is_exact(ty: Type) -> bool {
    matches!(
        ty,
        Type::Integer | Type::BigInt | Type::HugeInt | Type::Decimal { .. }
    )
}

pub(super) fn scale_of(ty: Type) -> u8 {
    match ty {
        Type::Decimal { scale, .. } => scale,
        _ => 0,
    }
}

/// Digits of an exact type, when DuckDB reads it as a DECIMAL.
fn width_of(ty: Type) -> u8 {
    match ty {
        Type::Integer => 10,
        Type::BigInt => 19,
        Type::Decimal { width, .. } => width,
        _ => DIGITS_MAX,
    }
}

pub(super) fn number_type(unscaled: i128, scale: u8) -> Type {
    if scale > 0 {
        let digits = unscaled.unsigned_abs().to_string().len() as u8;
        return Type::Decimal {
            width: digits.max(scale + 1).min(DIGITS_MAX),
            scale,
        };
    }
    match unscaled {
        value if i32::try_from(value).is_ok() => Type::Integer,
        value if i64::try_from(value).is_ok() => Type::BigInt,
        _ => Type::HugeInt,
    }
}

/// `left op right` with DuckDB's type for it, unless DuckDB could fail on some row.
pub(super) fn combine(
    op: ArithmeticOp,
    left: &Expression,
    right: &Expression,
) -> Option<Expression> {
    if is_literal(&left.scalar) && is_literal(&right.scalar) {
        return None;
    }
    let (ty, bounds) = combined_type(op, left, right)?;
    let scalar = Scalar::Arithmetic {
        op,
        left: Box::new(left.scalar.clone()),
        right: Box::new(right.scalar.clone()),
    };
    Some(Expression { scalar, ty, bounds })
}

fn combined_type(
    op: ArithmeticOp,
    left: &Expression,
    right: &Expression,
) -> Option<(Type, (i128, i128))> {
    let days = match (left.ty, right.ty) {
        (Type::Date, Type::Integer) => matches!(op, ArithmeticOp::Add | ArithmeticOp::Subtract),
        (Type::Integer, Type::Date) => op == ArithmeticOp::Add,
        _ => false,
    };
    if days {
        return Some((Type::Date, interval(op, left.bounds, right.bounds)?));
    }
    let number = |ty| is_exact(ty) || ty == Type::Double;
    if !number(left.ty) || !number(right.ty) {
        return None;
    }
    if op == ArithmeticOp::Divide || left.ty == Type::Double || right.ty == Type::Double {
        return Some((Type::Double, (0, 0)));
    }
    let ty = exact_type(op, left.ty, right.ty)?;
    let scale = scale_of(ty);
    let (a, b) = match op {
        ArithmeticOp::Multiply => (left.bounds, right.bounds),
        _ => (rescaled(left, scale)?, rescaled(right, scale)?),
    };
    let bounds = interval(op, a, b)?;
    // Operands of sums are cast to the sum's type first.
    let all = match op {
        ArithmeticOp::Multiply => vec![bounds],
        _ => vec![a, b, bounds],
    };
    all.into_iter()
        .all(|bounds| holds(ty, bounds))
        .then_some((ty, bounds))
}

/// DuckDB's result types of exact arithmetic: widths are capped at 18 digits while both operands have no more.
fn exact_type(op: ArithmeticOp, left: Type, right: Type) -> Option<Type> {
    const NARROW: u8 = 18;
    if !matches!(left, Type::Decimal { .. }) && !matches!(right, Type::Decimal { .. }) {
        let widest = [Type::HugeInt, Type::BigInt, Type::Integer];
        return widest.into_iter().find(|&ty| left == ty || right == ty);
    }
    let (a, b) = (width_of(left), width_of(right));
    let (s, t) = (scale_of(left), scale_of(right));
    let (width, scale) = match op {
        ArithmeticOp::Multiply => (a + b, s + t),
        _ => ((a - s).max(b - t) + s.max(t) + 1, s.max(t)),
    };
    if scale > DIGITS_MAX {
        return None;
    }
    let width = match width {
        wide if wide > NARROW && a.max(b) <= NARROW && scale < NARROW => NARROW,
        wide => wide.min(DIGITS_MAX),
    };
    Some(Type::Decimal { width, scale })
}

fn rescaled(value: &Expression, scale: u8) -> Option<(i128, i128)> {
    let factor = 10i128.checked_pow(u32::from(scale.checked_sub(scale_of(value.ty))?))?;
    Some((
        value.bounds.0.checked_mul(factor)?,
        value.bounds.1.checked_mul(factor)?,
    ))
}

fn interval(op: ArithmeticOp, a: (i128, i128), b: (i128, i128)) -> Option<(i128, i128)> {
    match op {
        ArithmeticOp::Add => Some((a.0.checked_add(b.0)?, a.1.checked_add(b.1)?)),
        ArithmeticOp::Subtract => Some((a.0.checked_sub(b.1)?, a.1.checked_sub(b.0)?)),
        _ => {
            let products = [
                a.0.checked_mul(b.0)?,
                a.0.checked_mul(b.1)?,
                a.1.checked_mul(b.0)?,
                a.1.checked_mul(b.1)?,
            ];
            Some((*products.iter().min()?, *products.iter().max()?))
        }
    }
}

fn holds(ty: Type, (low, high): (i128, i128)) -> bool {
    let (least, most) = match ty {
        Type::Integer => (i128::from(i32::MIN), i128::from(i32::MAX)),
        Type::BigInt => (i128::from(i64::MIN), i128::from(i64::MAX)),
        Type::Decimal { width, .. } => {
            let limit = 10i128.pow(u32::from(width)) - 1;
            (-limit, limit)
        }
        _ => (i128::MIN, i128::MAX),
    };
    least <= low && high <= most
}

/// Returns true if DuckDB compares them without failing: exact numbers are cast to the DECIMAL that holds both types' digits.
pub(super) fn comparable(left: &Expression, right: &Expression) -> bool {
    if !is_exact(left.ty) || !is_exact(right.ty) {
        return true;
    }
    let decimal = |ty| matches!(ty, Type::Decimal { .. });
    if !decimal(left.ty) && !decimal(right.ty) {
        return true;
    }
    let scale = scale_of(left.ty).max(scale_of(right.ty));
    let whole = |ty| width_of(ty) - scale_of(ty);
    let width = (whole(left.ty).max(whole(right.ty)) + scale).min(DIGITS_MAX);
    [left, right].into_iter().all(|side| {
        rescaled(side, scale).is_some_and(|bounds| holds(Type::Decimal { width, scale }, bounds))
    })
}
