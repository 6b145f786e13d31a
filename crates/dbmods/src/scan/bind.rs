//! A conjunct bound to a row group: what zone maps decide is gone, dictionary predicates are sets of positions.

use self::packed_test::test_packed;
use super::ScanError;
use super::automaton::{Automaton, STATE_BYTES, Table};
use super::codes::CodeTest;
use super::context::{Context, packed};
use super::dag::NodeId;
use super::filter::{Filter, Values, among};
use super::intset::IntSet;
use super::kernels::gather::Symbols;
use super::kernels::{Mask, Relation, gather};
use super::order::{holds, total_order};
use crate::query::CompareOp;
use crate::table::chunk::{Chunk, Encoding};

mod packed_test;

/// A test of the rows of one row group.
#[derive(Debug)]
pub(super) enum Bound<'a> {
    Constant(bool),
    /// The column's integer, or its position in the dictionary, is in the set.
    Packed(usize, IntSet),
    /// FSST text.
    Text(usize, Box<CodeTest<'a>>),
    /// Integers that fit 64 bits.
    Compare(CompareOp, NodeId, NodeId),
    /// Integers that may not.
    CompareWide(CompareOp, NodeId, NodeId),
    CompareDouble(CompareOp, NodeId, NodeId),
    /// Doubles of integers that may overflow.
    CompareDoubleWide(CompareOp, NodeId, NodeId),
    CompareText(CompareOp, Box<[TextReader; 2]>),
    Among {
        node: NodeId,
        values: &'a Values,
        negated: bool,
    },
    And(Vec<Bound<'a>>),
    Or(Vec<Bound<'a>>),
}

/// Reads single texts of a column.
#[derive(Debug)]
pub(super) struct TextReader {
    column: usize,
    symbols: Option<Symbols>,
    text: Vec<u8>,
}

impl<'a> Bound<'a> {
    /// About what a thread needs to test `filter`, bytes.
    pub(super) fn thread_bytes(filter: &Filter) -> usize {
        let bound = size_of::<Self>();
        bound
            + match filter {
                Filter::Numbers(_, set) => size_of_val(set.ranges()),
                Filter::Text(_, automaton) => {
                    // Transitions by code; symbols, hits of a block and a decoded text.
                    automaton.table().map_or(0, Table::states) * STATE_BYTES + (64 << 10)
                }
                Filter::CompareText(..) => 16 << 10,
                Filter::And(all) | Filter::Or(all) => all.iter().map(Self::thread_bytes).sum(),
                Filter::Constant(_)
                | Filter::Compare(..)
                | Filter::CompareDouble(..)
                | Filter::Among { .. } => 0,
            }
    }

    /// Binds `filter` to the row group of `context`, and loads what it needs.
    pub(super) fn new(context: &mut Context, filter: &'a Filter) -> Result<Self, ScanError> {
        match filter {
            Filter::And(all) => Self::combine(context, all, true),
            Filter::Or(all) => Self::combine(context, all, false),
            leaf => Self::leaf(context, leaf),
        }
    }

    /// Binds what holds no other filter. Its tables are large while they are made: were it part of [`Bound::new`], each level of a
    /// nested filter would take their room on the stack.
    #[inline(never)]
    fn leaf(context: &mut Context, filter: &'a Filter) -> Result<Self, ScanError> {
        Ok(match filter {
            Filter::Constant(value) => Self::Constant(*value),
            Filter::Numbers(column, set) => {
                let meta = context.meta(*column);
                match set.over(meta.min, meta.max) {
                    Some(value) => Self::Constant(value),
                    None => {
                        context.load(*column)?;
                        Self::Packed(*column, set.clone())
                    }
                }
            }
            Filter::Text(column, automaton) => {
                let chunk = context.load(*column)?.clone();
                match chunk.encoding() {
                    Encoding::Dictionary => dictionary_test(*column, &chunk, automaton)?,
                    Encoding::Text => {
                        Self::Text(*column, Box::new(CodeTest::new(automaton, &chunk)?))
                    }
                    Encoding::Numbers => return Err(ScanError::Internal("text kept as numbers")),
                }
            }
            Filter::Compare(op, left, right) => Self::compare(context, *op, *left, *right)?,
            Filter::CompareDouble(op, left, right) => {
                if context.may_overflow(*left) || context.may_overflow(*right) {
                    Self::CompareDoubleWide(*op, *left, *right)
                } else {
                    Self::CompareDouble(*op, *left, *right)
                }
            }
            Filter::CompareText(op, left, right) => {
                context.load(*left)?;
                context.load(*right)?;
                let readers = [
                    TextReader::new(context, *left)?,
                    TextReader::new(context, *right)?,
                ];
                Self::CompareText(*op, Box::new(readers))
            }
            Filter::Among {
                node,
                values,
                negated,
            } => Self::among(context, *node, values, *negated),
            Filter::And(_) | Filter::Or(_) => return Self::new(context, filter),
        })
    }

    fn compare(
        context: &Context,
        op: CompareOp,
        left: NodeId,
        right: NodeId,
    ) -> Result<Self, ScanError> {
        let (Some(a), Some(b)) = (context.interval(left), context.interval(right)) else {
            return Ok(Self::CompareWide(op, left, right));
        };
        // Where the intervals do not meet, every pair compares alike.
        if a.hi < b.lo || b.hi < a.lo {
            return Ok(Self::Constant(holds(op, a.lo.cmp(&b.lo))));
        }
        Ok(if a.is_narrow() && b.is_narrow() {
            Self::Compare(op, left, right)
        } else {
            Self::CompareWide(op, left, right)
        })
    }

    fn among(context: &Context, node: NodeId, values: &'a Values, negated: bool) -> Self {
        if let (Values::Integers(values), Some(interval)) = (values, context.interval(node)) {
            let first = values.partition_point(|value| *value < interval.lo);
            if values.get(first).is_none_or(|value| *value > interval.hi) {
                return Self::Constant(negated);
            }
        }
        Self::Among {
            node,
            values,
            negated,
        }
    }

    fn combine(
        context: &mut Context,
        all: &'a [Filter],
        conjunction: bool,
    ) -> Result<Self, ScanError> {
        let mut bound = Vec::with_capacity(all.len());
        for one in all {
            match Self::new(context, one)? {
                Self::Constant(value) if value == conjunction => {}
                Self::Constant(value) => return Ok(Self::Constant(value)),
                other => bound.push(other),
            }
        }
        Ok(match bound.len() {
            0 => Self::Constant(conjunction),
            1 => bound.swap_remove(0),
            _ if conjunction => Self::And(bound),
            _ => Self::Or(bound),
        })
    }

    /// Returns true if a test can fail for the values of the row group.
    pub(super) fn may_overflow(&self, context: &Context) -> bool {
        match self {
            Self::CompareWide(_, left, right) => {
                context.may_overflow(*left) || context.may_overflow(*right)
            }
            Self::CompareDoubleWide(..) => true,
            Self::Among { node, .. } => context.may_overflow(*node),
            Self::And(all) | Self::Or(all) => all.iter().any(|one| one.may_overflow(context)),
            _ => false,
        }
    }

    /// The answer of the zone maps for a whole block, if it is the same for all its rows.
    pub(super) fn zone(&self, context: &Context, block: usize) -> Option<bool> {
        match self {
            Self::Constant(value) => Some(*value),
            Self::Packed(column, set) => {
                let meta = context.block(*column, block).ok()?;
                set.over(meta.min, meta.max)
            }
            Self::And(all) => all
                .iter()
                .try_fold(true, |sum, one| match one.zone(context, block) {
                    Some(false) => Err(Some(false)),
                    Some(true) => Ok(sum),
                    None => Err(None),
                })
                .map_or_else(|early| early, Some),
            Self::Or(all) => all
                .iter()
                .try_fold(false, |sum, one| match one.zone(context, block) {
                    Some(true) => Err(Some(true)),
                    Some(false) => Ok(sum),
                    None => Err(None),
                })
                .map_or_else(|early| early, Some),
            _ => None,
        }
    }

    /// Finds the rows that pass; what `out` says of rows outside `within` means nothing.
    pub(super) fn test(
        &mut self,
        context: &mut Context,
        block: usize,
        within: &Mask,
        out: &mut Mask,
    ) -> Result<(), ScanError> {
        match self {
            Self::Constant(value) => *out = if *value { *within } else { Mask::NONE },
            Self::Packed(column, set) => {
                let kernels = context.kernels();
                let (chunk, lanes) = context.chunk_and_lanes(*column)?;
                test_packed(kernels, chunk, block, set, lanes, within, out);
            }
            Self::Text(column, test) => {
                let text = context.chunk(*column)?.text(block);
                test.block(context.kernels(), text, within, out);
            }
            Self::Compare(op, left, right) => {
                test_compare(context, block, (*op, *left, *right), out)?;
            }
            Self::CompareWide(op, left, right) => {
                test_compare_wide(context, block, (*op, *left, *right), within, out)?;
            }
            Self::CompareDouble(op, left, right) => {
                test_compare_double(context, block, (*op, *left, *right), within, out)?;
            }
            Self::CompareDoubleWide(op, left, right) => {
                test_compare_double_wide(context, block, (*op, *left, *right), within, out)?;
            }
            Self::CompareText(op, readers) => {
                test_compare_text(context, block, *op, readers, within, out)?;
            }
            Self::Among {
                node,
                values,
                negated,
            } => test_among(context, block, (*node, *values, *negated), within, out)?,
            Self::And(all) => test_all(all, context, block, within, out)?,
            Self::Or(all) => test_any(all, context, block, within, out)?,
        }
        Ok(())
    }
}

/// A comparison of two numbers.
type Comparison = (CompareOp, NodeId, NodeId);

/// [`Bound::Compare`] on a block.
#[inline]
fn test_compare(
    context: &mut Context,
    block: usize,
    (op, left, right): Comparison,
    out: &mut Mask,
) -> Result<(), ScanError> {
    context.evaluate(left, block)?;
    context.evaluate(right, block)?;
    let (left, right) = (context.values(left)?, context.values(right)?);
    let kernels = context.kernels();
    match op {
        CompareOp::Equal => kernels.compare(Relation::Equal, left, right, out),
        CompareOp::NotEqual => {
            kernels.compare(Relation::Equal, left, right, out);
            out.not();
        }
        CompareOp::Less => kernels.compare(Relation::Less, left, right, out),
        CompareOp::LessOrEqual => kernels.compare(Relation::LessOrEqual, left, right, out),
        CompareOp::Greater => kernels.compare(Relation::Less, right, left, out),
        CompareOp::GreaterOrEqual => kernels.compare(Relation::LessOrEqual, right, left, out),
    }
    Ok(())
}

/// [`Bound::CompareWide`] on a block.
#[inline]
fn test_compare_wide(
    context: &mut Context,
    block: usize,
    (op, left, right): Comparison,
    within: &Mask,
    out: &mut Mask,
) -> Result<(), ScanError> {
    context.unpack_columns(left, block)?;
    context.unpack_columns(right, block)?;
    *out = Mask::NONE;
    within.try_for_each(|row| {
        let order = context.wide(left, row)?.cmp(&context.wide(right, row)?);
        if holds(op, order) {
            out.insert(row);
        }
        Ok::<_, ScanError>(())
    })
}

/// [`Bound::CompareDouble`] on a block.
#[inline]
fn test_compare_double(
    context: &mut Context,
    block: usize,
    (op, left, right): Comparison,
    within: &Mask,
    out: &mut Mask,
) -> Result<(), ScanError> {
    context.evaluate(left, block)?;
    context.evaluate(right, block)?;
    let (left, right) = (context.values(left)?, context.values(right)?);
    *out = Mask::NONE;
    within.for_each(|row| {
        let double = |values: &[i64; 1024]| f64::from_bits(values[row] as u64);
        if holds(op, total_order(double(left), double(right))) {
            out.insert(row);
        }
    });
    Ok(())
}

/// [`Bound::CompareDoubleWide`] on a block.
#[inline]
fn test_compare_double_wide(
    context: &mut Context,
    block: usize,
    (op, left, right): Comparison,
    within: &Mask,
    out: &mut Mask,
) -> Result<(), ScanError> {
    context.unpack_columns(left, block)?;
    context.unpack_columns(right, block)?;
    *out = Mask::NONE;
    within.try_for_each(|row| {
        let (left, right) = (
            context.wide_double(left, row)?,
            context.wide_double(right, row)?,
        );
        if holds(op, total_order(left, right)) {
            out.insert(row);
        }
        Ok::<_, ScanError>(())
    })
}

/// [`Bound::CompareText`] on a block.
#[inline]
fn test_compare_text(
    context: &Context,
    block: usize,
    op: CompareOp,
    readers: &mut [TextReader; 2],
    within: &Mask,
    out: &mut Mask,
) -> Result<(), ScanError> {
    let [left, right] = readers;
    *out = Mask::NONE;
    within.try_for_each(|row| {
        let order = left
            .read(context, block, row)?
            .cmp(right.read(context, block, row)?);
        if holds(op, order) {
            out.insert(row);
        }
        Ok::<_, ScanError>(())
    })
}

/// [`Bound::Among`] on a block.
#[inline]
fn test_among(
    context: &mut Context,
    block: usize,
    (node, values, negated): (NodeId, &Values, bool),
    within: &Mask,
    out: &mut Mask,
) -> Result<(), ScanError> {
    let vector = match values {
        Values::Integers(_) => context.is_narrow(node),
        Values::Doubles(_) => !context.may_overflow(node),
    };
    if vector {
        context.evaluate(node, block)?;
    } else {
        context.unpack_columns(node, block)?;
    }
    *out = Mask::NONE;
    within.try_for_each(|row| {
        let found = match values {
            Values::Integers(values) => values.binary_search(&context.exact(node, row)?).is_ok(),
            Values::Doubles(values) if vector => {
                among(values, f64::from_bits(context.values(node)?[row] as u64))
            }
            Values::Doubles(values) => among(values, context.wide_double(node, row)?),
        };
        if found != negated {
            out.insert(row);
        }
        Ok::<_, ScanError>(())
    })
}

/// [`Bound::And`] on a block.
#[inline]
fn test_all(
    all: &mut [Bound<'_>],
    context: &mut Context,
    block: usize,
    within: &Mask,
    out: &mut Mask,
) -> Result<(), ScanError> {
    let mut left = *within;
    for one in all {
        one.test(context, block, &left, out)?;
        left.and(out);
        if left.is_empty() {
            break;
        }
    }
    *out = left;
    Ok(())
}

/// [`Bound::Or`] on a block.
#[inline]
fn test_any(
    all: &mut [Bound<'_>],
    context: &mut Context,
    block: usize,
    within: &Mask,
    out: &mut Mask,
) -> Result<(), ScanError> {
    let mut left = *within;
    let mut found = Mask::NONE;
    for one in all {
        one.test(context, block, &left, out)?;
        out.and(&left);
        found.or(out);
        left.and_not(out);
        if left.is_empty() {
            break;
        }
    }
    *out = found;
    Ok(())
}

/// The positions of a dictionary that hold texts that pass.
fn dictionary_test<'a>(
    column: usize,
    chunk: &Chunk,
    automaton: &Automaton,
) -> Result<Bound<'a>, ScanError> {
    let dictionary = chunk.dictionary().ok_or(ScanError::Internal(
        "a dictionary chunk without a dictionary",
    ))?;
    let passing = (0..dictionary.len())
        .filter(|&at| automaton.matches(dictionary.bytes(at)))
        .map(|at| (at as i64, at as i64))
        .collect();
    let set = IntSet::from_ranges(passing);
    Ok(match set.over(0, dictionary.len() as i64 - 1) {
        Some(value) => Bound::Constant(value),
        None => Bound::Packed(column, set),
    })
}

impl TextReader {
    /// Reads `column` of the row group of `context`, whose chunk must be loaded.
    pub(super) fn new(context: &Context, column: usize) -> Result<Self, ScanError> {
        let chunk = context.chunk(column)?;
        let symbols = chunk.symbols().map(|table| {
            Symbols::new(&table.symbols[..table.len()], &table.lengths[..table.len()])
        });
        Ok(Self {
            column,
            symbols,
            text: Vec::new(),
        })
    }

    /// A row's text.
    pub(super) fn read(
        &mut self,
        context: &Context,
        block: usize,
        row: usize,
    ) -> Result<&[u8], ScanError> {
        let chunk = context.chunk(self.column)?;
        self.text.clear();
        match (&self.symbols, chunk.dictionary()) {
            (Some(symbols), _) => {
                let codes = chunk.text(block).row(row);
                symbols.decode(codes, 0..codes.len(), &mut self.text);
            }
            (None, Some(dictionary)) => {
                let mut at = chunk.blocks()[block].min;
                if let Some(packed) = packed(chunk, block) {
                    gather::for_each(packed, &[row as u16], |position| at += position as i64);
                }
                self.text.extend_from_slice(dictionary.bytes(at as usize));
            }
            (None, None) => return Err(ScanError::Internal("text kept as numbers")),
        }
        Ok(&self.text)
    }
}
