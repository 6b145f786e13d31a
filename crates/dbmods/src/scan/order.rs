//! Order: of doubles, and what comparisons ask of one.

use crate::query::CompareOp;

/// Doubles in SQL's order: all NaNs equal and above everything, zeros equal.
pub(super) fn total_order(left: f64, right: f64) -> std::cmp::Ordering {
    left.partial_cmp(&right)
        .unwrap_or_else(|| left.is_nan().cmp(&right.is_nan()))
}

/// Returns true if `order` is what `op` asks for.
pub(super) fn holds(op: CompareOp, order: std::cmp::Ordering) -> bool {
    match op {
        CompareOp::Equal => order.is_eq(),
        CompareOp::NotEqual => order.is_ne(),
        CompareOp::Less => order.is_lt(),
        CompareOp::LessOrEqual => order.is_le(),
        CompareOp::Greater => order.is_gt(),
        CompareOp::GreaterOrEqual => order.is_ge(),
    }
}
