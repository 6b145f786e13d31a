//! A predicate made ready: negations pushed to the leaves, NULL gone, predicates on one column as sets.
//!
//! A WHERE keeps the rows for which its predicate is TRUE. Once no NOT is left (De Morgan holds in three-valued logic, and a
//! negated comparison is the opposite comparison, NULL staying NULL), AND and OR are monotone, so a leaf that is NULL may as
//! well be FALSE. No column holds NULL, so a leaf is NULL only for a NULL literal, and that is known here.

use std::sync::Arc;

use super::ScanError;
use super::automaton::Automaton;
use super::dag::{Dag, NodeId, Typed, power_of_ten, to_double_by};
use super::intset::IntSet;
use crate::pushdown::query::{CompareOp, Literal, Predicate, Scalar};
use crate::pushdown::schema::{ColumnType, Schema};

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
    /// All; at least two, none of them constant or `And`.
    And(Vec<Filter>),
    /// Any; at least two, none of them constant or `Or`.
    Or(Vec<Filter>),
}

impl Filter {
    /// Compiles `predicate`.
    pub(super) fn new(
        dag: &mut Dag,
        schema: &Schema,
        predicate: &Predicate,
    ) -> Result<Self, ScanError> {
        Compiler { dag, schema }.predicate(predicate, false)
    }

    /// The conjuncts of the whole.
    pub(super) fn into_conjuncts(self) -> Vec<Filter> {
        match self {
            Self::Constant(true) => Vec::new(),
            Self::And(all) => all,
            other => vec![other],
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
                        let automaton = Automaton::like(pattern, *escape)?.negated(negated);
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
            (TextColumn(column), Text(text)) => {
                Filter::Text(column, Arc::new(Automaton::compare(op, text.as_bytes())?))
            }
            (Text(text), TextColumn(column)) => {
                let op = mirrored(op);
                Filter::Text(column, Arc::new(Automaton::compare(op, text.as_bytes())?))
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
        use super::dag::Node;
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
        use super::dag::Node;
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
        use super::dag::Node;
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
            let automaton = Automaton::any_of(&texts)?.negated(negated);
            return Ok(Filter::Text(column, Arc::new(automaton)));
        }
        // One DOUBLE in the list makes all of it DOUBLE.
        let double = list
            .iter()
            .any(|literal| matches!(literal, Literal::Double(_)));
        let op = if negated {
            CompareOp::NotEqual
        } else {
            CompareOp::Equal
        };
        let mut all = Vec::with_capacity(list.len());
        for literal in list {
            let literal = self.dag.literal(literal)?;
            let value = value.clone();
            all.push(match literal {
                Typed::Null => Filter::Constant(negated),
                literal if double => self.compare_doubles(op, &value, &literal)?,
                literal => self.compare(op, value, literal)?,
            });
        }
        Ok(combine(all, negated))
    }
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

/// Doubles in SQL's order: all NaNs equal and above everything, zeros equal.
pub(super) fn total_order(left: f64, right: f64) -> std::cmp::Ordering {
    left.partial_cmp(&right)
        .unwrap_or_else(|| left.is_nan().cmp(&right.is_nan()))
}

/// Whether `order` is what `op` asks for.
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
