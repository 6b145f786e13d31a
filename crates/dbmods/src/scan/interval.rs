//! The smallest and the largest value that each node of a row group can have, by its zone maps.

use super::dag::{Dag, Exact, Node};
use crate::table::segment::ChunkMeta;

/// The smallest and the largest of some integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Interval {
    pub(super) lo: i128,
    pub(super) hi: i128,
}

impl Interval {
    fn point(value: i128) -> Self {
        Self {
            lo: value,
            hi: value,
        }
    }

    /// Returns true if all of it fits 64 bits.
    pub(super) fn is_narrow(&self) -> bool {
        i64::try_from(self.lo).is_ok() && i64::try_from(self.hi).is_ok()
    }

    /// The interval of sums of `count` values.
    pub(super) fn times(&self, count: i128) -> Self {
        Self {
            lo: self.lo.saturating_mul(count),
            hi: self.hi.saturating_mul(count),
        }
    }

    /// The interval of what `op` makes of two intervals; `None` if it overflows.
    fn apply(op: Exact, left: Self, right: Self) -> Option<Self> {
        let corners = [
            op.apply(left.lo, right.lo).ok()?,
            op.apply(left.lo, right.hi).ok()?,
            op.apply(left.hi, right.lo).ok()?,
            op.apply(left.hi, right.hi).ok()?,
        ];
        Some(Self {
            lo: corners.into_iter().min()?,
            hi: corners.into_iter().max()?,
        })
    }
}

/// The interval of every integer node in a row group.
pub(super) fn intervals(dag: &Dag, metas: &[ChunkMeta], out: &mut Vec<Option<Interval>>) {
    out.clear();
    for node in dag.nodes() {
        let interval = match *node {
            Node::Column(column) => Some(Interval {
                lo: i128::from(metas[column].min),
                hi: i128::from(metas[column].max),
            }),
            Node::Constant(value) => Some(Interval::point(value)),
            Node::Exact(op, left, right) => match (out[left], out[right]) {
                (Some(left), Some(right)) => Interval::apply(op, left, right),
                _ => None,
            },
            Node::Double(_) | Node::ToDouble(..) | Node::Float(..) => None,
        };
        out.push(interval);
    }
}
