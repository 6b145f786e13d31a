//! A predicate made ready: negations pushed to the leaves, NULL gone, predicates on one column as sets.
//!
//! A WHERE keeps the rows for which its predicate is TRUE. Once no NOT is left (De Morgan holds in three-valued logic, and a
//! negated comparison is the opposite comparison, NULL staying NULL), AND and OR are monotone, so a leaf that is NULL may as
//! well be FALSE. No column holds NULL, so a leaf is NULL only for a NULL literal, and that is known here.

use std::sync::Arc;

use super::ScanError;
use super::automaton::{Automaton, Budget, STATE_BYTES, Table};
use super::dag::{Dag, Node, NodeId, Typed, power_of_ten, to_double_by};
use super::intset::IntSet;
use super::order::{holds, total_order};
use crate::query::{CompareOp, Literal, Predicate, Scalar};
use crate::schema::{ColumnType, Schema};

/// A predicate that is TRUE or not.
#[derive(Clone, Debug)]
pub(super) enum Filter {
    /// Always.
    Constant(bool),
    /// The column's integer is in the set.
    Numbers(usize, IntSet),
    /// The column's text is accepted.
    Text(usize, Arc<Automaton>),
    /// Two integers compare.
    Compare(CompareOp, NodeId, NodeId),
    /// Two doubles compare.
    CompareDouble(CompareOp, NodeId, NodeId),
    /// Two text columns compare.
    CompareText(CompareOp, usize, usize),
    /// A computed value is one of these, or if negated, none of them.
    Among {
        /// The number that is computed.
        node: NodeId,
        /// In order, each once.
        values: Arc<Values>,
        /// True if rows pass whose number is none of them.
        negated: bool,
    },
    /// All; at least two, none of them constant or `And`.
    And(Vec<Filter>),
    /// Any; at least two, none of them constant or `Or`.
    Or(Vec<Filter>),
}

/// Constants that a computed value may be.
#[derive(Clone, Debug)]
pub(super) enum Values {
    /// At the node's scale.
    Integers(Vec<i128>),
    Doubles(Vec<f64>),
}

impl Values {
    fn len(&self) -> usize {
        match self {
            Self::Integers(values) => values.len(),
            Self::Doubles(values) => values.len(),
        }
    }
}

impl Filter {
    /// Compiles `predicate`, with tables of so many bytes at most.
    pub(super) fn new(
        dag: &mut Dag,
        schema: &Schema,
        predicate: &Predicate,
        table_bytes_max: usize,
    ) -> Result<Self, ScanError> {
        let budget = Budget::new(table_bytes_max);
        Compiler {
            dag,
            schema,
            budget,
        }
        .predicate(predicate, false)
    }

    /// The conjuncts of the whole.
    pub(super) fn into_conjuncts(self) -> Vec<Filter> {
        match self {
            Self::Constant(true) => Vec::new(),
            Self::And(all) => all,
            other => vec![other],
        }
    }

    /// Adds the columns that it names itself, those of expressions aside.
    pub(super) fn columns(&self, columns: &mut Vec<usize>) {
        match self {
            Self::Numbers(column, _) | Self::Text(column, _) => columns.push(*column),
            Self::CompareText(_, left, right) => columns.extend([left, right]),
            Self::And(all) | Self::Or(all) => all.iter().for_each(|one| one.columns(columns)),
            Self::Constant(_)
            | Self::Compare(..)
            | Self::CompareDouble(..)
            | Self::Among { .. } => {}
        }
    }

    /// The memory of its tables.
    pub(super) fn table_bytes(&self) -> usize {
        match self {
            Self::Text(_, automaton) => automaton.table().map_or(0, Table::states) * STATE_BYTES,
            Self::And(all) | Self::Or(all) => all.iter().map(Self::table_bytes).sum(),
            _ => 0,
        }
    }

    /// In a person's words.
    pub(super) fn describe(&self, schema: &Schema) -> String {
        let name = |column: usize| schema.columns[column].name.as_str();
        match self {
            Self::Constant(value) => value.to_string(),
            Self::Numbers(column, set) => match set.ranges() {
                [(lo, hi)] if lo == hi => format!("{} = {lo}", name(*column)),
                [(i64::MIN, hi)] => format!("{} <= {hi}", name(*column)),
                [(lo, i64::MAX)] => format!("{} >= {lo}", name(*column)),
                [(lo, hi)] => format!("{} in {lo}..={hi}", name(*column)),
                ranges => format!("{} in {} ranges", name(*column), ranges.len()),
            },
            Self::Text(column, _) => format!("{} matches", name(*column)),
            Self::Compare(op, ..) | Self::CompareDouble(op, ..) => format!("expressions {op:?}"),
            Self::CompareText(op, left, right) => {
                format!("{} {op:?} {}", name(*left), name(*right))
            }
            Self::Among {
                values, negated, ..
            } => {
                let not = if *negated { "not " } else { "" };
                format!("expression {not}in {} values", values.len())
            }
            Self::And(all) | Self::Or(all) => {
                let word = if matches!(self, Self::And(_)) {
                    " and "
                } else {
                    " or "
                };
                let all: Vec<String> = all.iter().map(|one| one.describe(schema)).collect();
                format!("({})", all.join(word))
            }
        }
    }
}

struct Compiler<'a> {
    dag: &'a mut Dag,
    schema: &'a Schema,
    budget: Budget,
}

impl Compiler<'_> {
    /// `predicate` is TRUE, or if `negated`, FALSE.
    fn predicate(&mut self, predicate: &Predicate, negated: bool) -> Result<Filter, ScanError> {
        match predicate {
            Predicate::Constant(value) => Ok(Filter::Constant(*value == Some(!negated))),
            Predicate::Not(inner) => self.predicate(inner, !negated),
            Predicate::And(all) | Predicate::Or(all) => {
                let conjunction = matches!(predicate, Predicate::And(_)) != negated;
                let all = all
                    .iter()
                    .map(|one| self.predicate(one, negated))
                    .collect::<Result<Vec<_>, _>>()?;
                Ok(combine(all, conjunction))
            }
            Predicate::IsNull(value) => {
                let null = self.dag.scalar(self.schema, value)? == Typed::Null;
                Ok(Filter::Constant(null != negated))
            }
            Predicate::Compare { op, left, right } => {
                let op = if negated { opposite(*op) } else { *op };
                let left = self.dag.scalar(self.schema, left)?;
                let right = self.dag.scalar(self.schema, right)?;
                self.compare(op, left, right)
            }
            Predicate::In { value, list } => self.membership(value, list, negated),
            Predicate::Like {
                column,
                pattern,
                escape,
            } => {
                let column = *column as usize;
                match self.schema.columns.get(column).map(|column| column.ty) {
                    Some(ColumnType::Text) => {
                        let automaton =
                            Automaton::like(pattern, *escape, &mut self.budget)?.negated(negated);
                        Ok(Filter::Text(column, Arc::new(automaton)))
                    }
                    Some(_) => Err(ScanError::Type("LIKE needs a text column".to_owned())),
                    None => Err(ScanError::NoSuchColumn(column)),
                }
            }
        }
    }

    fn compare(&mut self, op: CompareOp, left: Typed, right: Typed) -> Result<Filter, ScanError> {
        use Typed::{Date, Double, Null, Number, Text, TextColumn};
        Ok(match (left, right) {
            (Null, _) | (_, Null) => Filter::Constant(false),
            (Date(left), Date(right)) => self.compare_nodes(op, left, right),
            (left @ Number { .. }, right @ Number { .. }) => {
                self.compare_numbers(op, left, right)?
            }
            (left @ (Number { .. } | Double(_)), right @ (Number { .. } | Double(_))) => {
                self.compare_doubles(op, &left, &right)?
            }
            (TextColumn(left), TextColumn(right)) => Filter::CompareText(op, left, right),
            (TextColumn(column), Text(text)) => Filter::Text(
                column,
                Arc::new(Automaton::compare(op, text.as_bytes(), &mut self.budget)?),
            ),
            (Text(text), TextColumn(column)) => {
                let op = mirrored(op);
                Filter::Text(
                    column,
                    Arc::new(Automaton::compare(op, text.as_bytes(), &mut self.budget)?),
                )
            }
            (Text(left), Text(right)) => {
                Filter::Constant(holds(op, left.as_bytes().cmp(right.as_bytes())))
            }
            (left, right) => {
                return Err(ScanError::Type(format!(
                    "{} and {} do not compare",
                    left.kind(),
                    right.kind()
                )));
            }
        })
    }

    /// Integers of one scale.
    fn compare_nodes(&mut self, op: CompareOp, left: NodeId, right: NodeId) -> Filter {
        match (self.dag.nodes()[left], self.dag.nodes()[right]) {
            (Node::Constant(left), Node::Constant(right)) => {
                Filter::Constant(holds(op, left.cmp(&right)))
            }
            (Node::Column(column), Node::Constant(value)) => {
                simplify(Filter::Numbers(column, relation_set(op, value, true)))
            }
            (Node::Constant(value), Node::Column(column)) => simplify(Filter::Numbers(
                column,
                relation_set(mirrored(op), value, true),
            )),
            _ => Filter::Compare(op, left, right),
        }
    }

    fn compare_numbers(
        &mut self,
        op: CompareOp,
        left: Typed,
        right: Typed,
    ) -> Result<Filter, ScanError> {
        let (Typed::Number { node: a, scale: s }, Typed::Number { node: b, scale: t }) =
            (&left, &right)
        else {
            return Err(ScanError::Type("numbers expected".to_owned()));
        };
        // A column against a constant stays at the column's scale: the constant is brought there, rounded down if it must.
        let constant = match (self.dag.nodes()[*a], self.dag.nodes()[*b]) {
            (Node::Column(column), Node::Constant(value)) => Some((column, *s, op, value, *t)),
            (Node::Constant(value), Node::Column(column)) => {
                Some((column, *t, mirrored(op), value, *s))
            }
            _ => None,
        };
        if let Some((column, column_scale, op, value, scale)) = constant {
            let set = if scale <= column_scale {
                // Beyond i128 is beyond every column too.
                let value = value.saturating_mul(power_of_ten(column_scale - scale)?);
                relation_set(op, value, true)
            } else {
                let power = power_of_ten(scale - column_scale)?;
                relation_set(op, value.div_euclid(power), value.rem_euclid(power) == 0)
            };
            return Ok(simplify(Filter::Numbers(column, set)));
        }
        let (left, right, _) = self.dag.aligned(left, right)?;
        Ok(self.compare_nodes(op, left, right))
    }

    fn compare_doubles(
        &mut self,
        op: CompareOp,
        left: &Typed,
        right: &Typed,
    ) -> Result<Filter, ScanError> {
        let (left, right) = (self.dag.as_double(left)?, self.dag.as_double(right)?);
        let nodes = self.dag.nodes();
        let (op, column, value) = match (nodes[left], nodes[right]) {
            (Node::Double(left), Node::Double(right)) => {
                let order = total_order(f64::from_bits(left), f64::from_bits(right));
                return Ok(Filter::Constant(holds(op, order)));
            }
            (column @ Node::ToDouble(..), Node::Double(value)) => (op, column, value),
            (Node::Double(value), column @ Node::ToDouble(..)) => (mirrored(op), column, value),
            _ => return Ok(Filter::CompareDouble(op, left, right)),
        };
        if let Node::ToDouble(node, scale) = column
            && let Node::Column(column) = nodes[node]
        {
            let set = double_set(op, f64::from_bits(value), power_of_ten(scale)?);
            return Ok(simplify(Filter::Numbers(column, set)));
        }
        Ok(Filter::CompareDouble(op, left, right))
    }

    fn membership(
        &mut self,
        value: &Scalar,
        list: &[Literal],
        negated: bool,
    ) -> Result<Filter, ScanError> {
        let value = self.dag.scalar(self.schema, value)?;
        if list.is_empty() {
            return Ok(Filter::Constant(negated));
        }
        if value == Typed::Null {
            return Ok(Filter::Constant(false));
        }
        if negated && list.contains(&Literal::Null) {
            return Ok(Filter::Constant(false));
        }
        if let Typed::TextColumn(column) = value {
            let mut texts = Vec::with_capacity(list.len());
            for literal in list {
                match literal {
                    Literal::Text(text) => texts.push(text.as_bytes()),
                    Literal::Null => {}
                    _ => return Err(ScanError::Type("IN: text and other types".to_owned())),
                }
            }
            let automaton = Automaton::any_of(&texts, &mut self.budget)?.negated(negated);
            return Ok(Filter::Text(column, Arc::new(automaton)));
        }
        if let Typed::Text(text) = value {
            let mut found = false;
            for literal in list {
                match literal {
                    Literal::Text(one) => found |= *one == text,
                    Literal::Null => {}
                    _ => return Err(ScanError::Type("IN: text and other types".to_owned())),
                }
            }
            return Ok(Filter::Constant(found != negated));
        }
        // One DOUBLE makes all of it DOUBLE.
        let double = matches!(value, Typed::Double(_))
            || list
                .iter()
                .any(|literal| matches!(literal, Literal::Double(_)));
        if double {
            return self.among_doubles(&value, list, negated);
        }
        self.among_integers(&value, list, negated)
    }

    fn among_integers(
        &mut self,
        value: &Typed,
        list: &[Literal],
        negated: bool,
    ) -> Result<Filter, ScanError> {
        let mut values = Vec::with_capacity(list.len());
        for literal in list {
            values.extend(match (value, literal) {
                (_, Literal::Null) => None,
                (Typed::Date(_), Literal::Date(days)) => Some(i128::from(*days)),
                (Typed::Number { scale, .. }, Literal::Number { unscaled, scale: s }) => {
                    at_scale(*unscaled, *s, *scale)?
                }
                _ => {
                    let kind = value.kind();
                    return Err(ScanError::Type(format!("IN: {kind} and other types")));
                }
            });
        }
        values.sort_unstable();
        values.dedup();
        let (Typed::Date(node) | Typed::Number { node, .. }) = *value else {
            return Err(ScanError::Type("numbers or dates expected".to_owned()));
        };
        Ok(match self.dag.nodes()[node] {
            Node::Constant(value) => {
                Filter::Constant(values.binary_search(&value).is_ok() != negated)
            }
            Node::Column(column) => {
                let points = values
                    .iter()
                    .filter_map(|&value| i64::try_from(value).ok())
                    .map(|value| (value, value));
                in_set(column, IntSet::from_ranges(points.collect()), negated)
            }
            _ => Filter::Among {
                node,
                values: Arc::new(Values::Integers(values)),
                negated,
            },
        })
    }

    fn among_doubles(
        &mut self,
        value: &Typed,
        list: &[Literal],
        negated: bool,
    ) -> Result<Filter, ScanError> {
        let mut values = Vec::with_capacity(list.len());
        for literal in list {
            let number = self.dag.literal(literal)?;
            if number == Typed::Null {
                continue;
            }
            let node = self.dag.as_double(&number)?;
            match self.dag.nodes()[node] {
                Node::Double(bits) => values.push(f64::from_bits(bits)),
                _ => return Err(ScanError::Internal("a constant that is none")),
            }
        }
        values.sort_unstable_by(|a, b| total_order(*a, *b));
        values.dedup_by(|a, b| total_order(*a, *b).is_eq());
        let node = self.dag.as_double(value)?;
        Ok(match self.dag.nodes()[node] {
            Node::Double(bits) => {
                let found = among(&values, f64::from_bits(bits));
                Filter::Constant(found != negated)
            }
            Node::ToDouble(of, scale) if let Node::Column(column) = self.dag.nodes()[of] => {
                let power = power_of_ten(scale)?;
                let ranges = values.iter().flat_map(|&value| {
                    let set = double_set(CompareOp::Equal, value, power);
                    set.ranges().to_vec()
                });
                in_set(column, IntSet::from_ranges(ranges.collect()), negated)
            }
            _ => Filter::Among {
                node,
                values: Arc::new(Values::Doubles(values)),
                negated,
            },
        })
    }
}

/// A column's integer in `set`, or if `negated`, not in it.
fn in_set(column: usize, set: IntSet, negated: bool) -> Filter {
    let set = if negated { set.complement() } else { set };
    simplify(Filter::Numbers(column, set))
}

/// `unscaled / 10^from` at the scale `to`; `None` for what that scale cannot say.
fn at_scale(unscaled: i128, from: u8, to: u8) -> Result<Option<i128>, ScanError> {
    if from <= to {
        // Beyond 128 bits is beyond every value of that scale.
        return Ok(unscaled.checked_mul(power_of_ten(to - from)?));
    }
    let power = power_of_ten(from - to)?;
    Ok((unscaled % power == 0).then(|| unscaled / power))
}

/// Returns true if `value` is one of `values`, which are in order.
pub(super) fn among(values: &[f64], value: f64) -> bool {
    values
        .binary_search_by(|one| total_order(*one, value))
        .is_ok()
}

/// Flattens, folds constants, and merges what is said about one column.
fn combine(all: Vec<Filter>, conjunction: bool) -> Filter {
    let mut flat: Vec<Filter> = Vec::with_capacity(all.len());
    let mut sets: Vec<(usize, usize)> = Vec::new();
    let mut pending = all;
    pending.reverse();
    while let Some(one) = pending.pop() {
        match one {
            Filter::Constant(value) if value == conjunction => {}
            Filter::Constant(value) => return Filter::Constant(value),
            Filter::And(inner) if conjunction => pending.extend(inner.into_iter().rev()),
            Filter::Or(inner) if !conjunction => pending.extend(inner.into_iter().rev()),
            Filter::Numbers(column, set) => match sets.iter().find(|(known, _)| *known == column) {
                Some(&(_, at)) => {
                    if let Filter::Numbers(_, merged) = &mut flat[at] {
                        let known = std::mem::replace(merged, IntSet::none());
                        *merged = if conjunction {
                            known.intersection(&set)
                        } else {
                            known.union(set)
                        };
                    }
                }
                None => {
                    sets.push((column, flat.len()));
                    flat.push(Filter::Numbers(column, set));
                }
            },
            other => flat.push(other),
        }
    }
    let mut folded = Vec::with_capacity(flat.len());
    for one in flat {
        match simplify(one) {
            Filter::Constant(value) if value == conjunction => {}
            Filter::Constant(value) => return Filter::Constant(value),
            other => folded.push(other),
        }
    }
    match folded.len() {
        0 => Filter::Constant(conjunction),
        1 => folded.swap_remove(0),
        _ if conjunction => Filter::And(folded),
        _ => Filter::Or(folded),
    }
}

fn simplify(filter: Filter) -> Filter {
    match &filter {
        Filter::Numbers(_, set) => match set.over(i64::MIN, i64::MAX) {
            Some(value) => Filter::Constant(value),
            None => filter,
        },
        _ => filter,
    }
}

/// Which integers are `op` a number that is `floor`, or if not `exact` lies between `floor` and the next integer.
fn relation_set(op: CompareOp, floor: i128, exact: bool) -> IntSet {
    let above = floor.saturating_add(1);
    let below = if exact {
        floor.saturating_sub(1)
    } else {
        floor
    };
    match op {
        CompareOp::Equal if exact => IntSet::range(floor, floor),
        CompareOp::Equal => IntSet::none(),
        CompareOp::NotEqual => relation_set(CompareOp::Equal, floor, exact).complement(),
        CompareOp::Less => IntSet::range(i128::MIN, below),
        CompareOp::LessOrEqual => IntSet::range(i128::MIN, floor),
        CompareOp::Greater => IntSet::range(above, i128::MAX),
        CompareOp::GreaterOrEqual => IntSet::range(if exact { floor } else { above }, i128::MAX),
    }
}

/// Which integers, divided by `power` as a double, are `op` `value`. The cast never decreases, so each side of `value` is a
/// range whose end a bisection finds.
fn double_set(op: CompareOp, value: f64, power: i128) -> IntSet {
    use std::cmp::Ordering::{Greater, Less};
    let first = |reached: &dyn Fn(std::cmp::Ordering) -> bool| {
        let (mut lo, mut hi) = (i128::from(i64::MIN), i128::from(i64::MAX) + 1);
        while lo < hi {
            let mid = lo + (hi - lo) / 2;
            if reached(total_order(to_double_by(mid, power), value)) {
                hi = mid;
            } else {
                lo = mid + 1;
            }
        }
        lo
    };
    let equal_from = first(&|order| order != Less);
    let greater_from = first(&|order| order == Greater);
    match op {
        CompareOp::Equal => IntSet::range(equal_from, greater_from - 1),
        CompareOp::NotEqual => IntSet::range(equal_from, greater_from - 1).complement(),
        CompareOp::Less => IntSet::range(i128::MIN, equal_from - 1),
        CompareOp::LessOrEqual => IntSet::range(i128::MIN, greater_from - 1),
        CompareOp::Greater => IntSet::range(greater_from, i128::MAX),
        CompareOp::GreaterOrEqual => IntSet::range(equal_from, i128::MAX),
    }
}

fn opposite(op: CompareOp) -> CompareOp {
    match op {
        CompareOp::Equal => CompareOp::NotEqual,
        CompareOp::NotEqual => CompareOp::Equal,
        CompareOp::Less => CompareOp::GreaterOrEqual,
        CompareOp::LessOrEqual => CompareOp::Greater,
        CompareOp::Greater => CompareOp::LessOrEqual,
        CompareOp::GreaterOrEqual => CompareOp::Less,
    }
}

fn mirrored(op: CompareOp) -> CompareOp {
    match op {
        CompareOp::Equal | CompareOp::NotEqual => op,
        CompareOp::Less => CompareOp::Greater,
        CompareOp::LessOrEqual => CompareOp::GreaterOrEqual,
        CompareOp::Greater => CompareOp::Less,
        CompareOp::GreaterOrEqual => CompareOp::LessOrEqual,
    }
}
