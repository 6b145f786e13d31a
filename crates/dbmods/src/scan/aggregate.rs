//! Aggregates: partial sums block by block in 64 bits where the bounds allow it, totals in 128.
//!
//! Grouping by dictionaries and narrow integers costs no hashing: each value of a block's column is a fused compare that
//! gives its rows' mask, two columns' masks are intersected, and the functions run over the values under each mask.
//! Per row group the groups are a small table by position; across row groups they merge by value. Texts that a row group has
//! no dictionary of (few rows, or many values) are looked at one by one, and numbered as they are met.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use arrow_array::{
    ArrayRef, Date32Array, Decimal64Array, Decimal128Array, Float64Array, Int32Array, Int64Array,
    RecordBatch, RecordBatchOptions, StringArray,
};
use arrow_schema::{DataType, Field, SchemaRef};
use serde::{Deserialize, Serialize};

use super::ScanError;
use super::bind::TextReader;
use super::context::{Context, packed};
use super::dag::{Dag, NodeId, Typed, power_of_ten, to_double_by};
use super::kernels::Mask;
use super::memory::Memory;
use super::rows::{column, data_type};
use crate::query::{Aggregate, AggregateFunction, GROUP_BY_MAX, Scalar};
use crate::schema::{ColumnType, Schema};
use crate::table::chunk::BLOCK_ROWS;

/// Most groups of a result.
pub(super) const GROUPS_MAX: usize = 1 << 16;
/// Up to so many groups of a row group are found by looking at each.
const GROUPS_LOOKED_THROUGH: usize = 8;
/// Bytes of a text that is kept for a group, in estimates.
const TEXT_BYTES: usize = 64;
/// Bytes of a number or of a text's length, and of what tells which, at most.
const NUMBER_BYTES: usize = 20;
/// Bytes of a count, at most.
const LENGTH_BYTES: usize = 10;
/// Most values of one grouping column in a block that are told apart by compares.
const COMPARED_VALUES_MAX: i64 = 32;

/// The aggregate of a query, made ready.
#[derive(Debug)]
pub(super) struct Aggregation {
    group_by: Vec<usize>,
    names: Vec<String>,
    functions: Vec<Function>,
    /// What has to be accumulated, each thing once.
    parts: Vec<Part>,
}

/// A function of the output, over accumulated parts.
#[derive(Clone, Debug)]
enum Function {
    Count,
    Sum(usize, DataType),
    Extreme(usize, DataType),
    /// Its sum, and the digits after the point of that.
    Average(usize, u8),
    /// Of NULLs: NULL.
    Null(DataType),
}

/// Something to accumulate.
#[derive(Clone, Debug, PartialEq)]
enum Part {
    Sum(NodeId),
    Extreme(NodeId, Side),
    ExtremeText(usize, Side),
}

/// Which extreme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Least,
    Greatest,
}

/// What was accumulated of a [`Part`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum State {
    Nothing,
    Integer(i128),
    Double(f64),
    Text(Vec<u8>),
}

/// One group's accumulated parts.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Accumulated {
    count: u64,
    states: Vec<State>,
}

/// A grouping column's value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
enum Key {
    Integer(i64),
    Text(Vec<u8>),
}

/// Groups by value.
#[derive(Debug, Default)]
pub(super) struct Partial {
    groups: HashMap<Vec<Key>, Accumulated>,
}

/// Texts of a grouping column, numbered, for a row group that has no dictionary of them.
struct Numbered {
    reader: TextReader,
    numbers: HashMap<Vec<u8>, i64>,
    /// What they took of the scan's memory.
    bytes: usize,
}

/// Groups of one row group, by integer, dictionary position or the text's number.
pub(super) struct GroupTable<'a> {
    aggregation: &'a Aggregation,
    memory: &'a Memory,
    groups: Vec<([i64; 2], Accumulated)>,
    /// Where each group is, once they are too many to look through.
    places: HashMap<[i64; 2], usize>,
    readers: Vec<Option<TextReader>>,
    /// One for each grouping column.
    numbered: [Option<Numbered>; GROUP_BY_MAX],
}

/// What bytes are called that no scan has written.
const MALFORMED: ScanError = ScanError::Malformed("a partial aggregate");

/// The rest of a partial aggregate's bytes.
struct PartialReader<'a>(&'a [u8]);

impl PartialReader<'_> {
    fn take<T: for<'de> Deserialize<'de>>(&mut self) -> Result<T, ScanError> {
        let (value, rest) = postcard::take_from_bytes(self.0).map_err(|_| MALFORMED)?;
        self.0 = rest;
        Ok(value)
    }

    /// A list of a length that is known, so that nobody else chooses it.
    fn list<T: for<'de> Deserialize<'de>>(&mut self, len: usize) -> Result<Vec<T>, ScanError> {
        if self.take::<u64>()? != len as u64 {
            return Err(MALFORMED);
        }
        (0..len).map(|_| self.take()).collect()
    }
}

/// Takes a table, a value of a grouping column, and the rows that have it.
type EachValue<'f, T> = dyn FnMut(&mut T, &mut Context, i64, &Mask) -> Result<(), ScanError> + 'f;

impl Aggregation {
    pub(super) fn new(
        dag: &mut Dag,
        schema: &Schema,
        aggregate: &Aggregate,
    ) -> Result<Self, ScanError> {
        if aggregate.group_by.len() > GROUP_BY_MAX {
            return Err(ScanError::Type(format!(
                "group by takes at most {GROUP_BY_MAX} columns"
            )));
        }
        let mut group_by = Vec::with_capacity(aggregate.group_by.len());
        for &at in &aggregate.group_by {
            column(schema, at as usize)?;
            group_by.push(at as usize);
        }
        let mut new = Self {
            group_by,
            names: Vec::new(),
            functions: Vec::new(),
            parts: Vec::new(),
        };
        for call in &aggregate.functions {
            let function = new.function(dag, schema, &call.function)?;
            new.names.push(call.name.clone());
            new.functions.push(function);
        }
        Ok(new)
    }

    fn function(
        &mut self,
        dag: &mut Dag,
        schema: &Schema,
        function: &AggregateFunction,
    ) -> Result<Function, ScanError> {
        let typed = |dag: &mut Dag, scalar: &Scalar| dag.scalar(schema, scalar);
        Ok(match function {
            AggregateFunction::Count => Function::Count,
            AggregateFunction::Sum(scalar) => match typed(dag, scalar)? {
                Typed::Number { node, scale } => {
                    Function::Sum(self.part(Part::Sum(node)), decimal(scale)?)
                }
                Typed::Null => Function::Null(decimal(0)?),
                other => return Err(ScanError::Type(format!("no sum of {}", other.kind()))),
            },
            AggregateFunction::Avg(scalar) => match typed(dag, scalar)? {
                Typed::Number { node, scale } => {
                    decimal(scale)?;
                    Function::Average(self.part(Part::Sum(node)), scale)
                }
                Typed::Null => Function::Null(DataType::Float64),
                other => return Err(ScanError::Type(format!("no avg of {}", other.kind()))),
            },
            AggregateFunction::Min(scalar) => {
                let value = typed(dag, scalar)?;
                self.extreme(schema, scalar, value, Side::Least)?
            }
            AggregateFunction::Max(scalar) => {
                let value = typed(dag, scalar)?;
                self.extreme(schema, scalar, value, Side::Greatest)?
            }
        })
    }

    fn extreme(
        &mut self,
        schema: &Schema,
        scalar: &Scalar,
        value: Typed,
        side: Side,
    ) -> Result<Function, ScanError> {
        let (part, ty) = match value {
            Typed::Number { node, scale } => (Part::Extreme(node, side), decimal(scale)?),
            Typed::Date(node) => (Part::Extreme(node, side), DataType::Date32),
            Typed::TextColumn(column) => (Part::ExtremeText(column, side), DataType::Utf8),
            Typed::Null => return Ok(Function::Null(decimal(0)?)),
            // A sum of doubles depends on the order of additions; an extreme of one would be the only inexact result.
            Typed::Double(_) => return Err(ScanError::Type("no aggregate of a DOUBLE".to_owned())),
            Typed::Text(_) => {
                return Err(ScanError::Type("min and max of a text constant".to_owned()));
            }
        };
        let ty = match scalar {
            Scalar::Column(at) => data_type(column(schema, *at as usize)?.ty),
            _ => ty,
        };
        Ok(Function::Extreme(self.part(part), ty))
    }

    fn part(&mut self, part: Part) -> usize {
        match self.parts.iter().position(|known| *known == part) {
            Some(at) => at,
            None => {
                self.parts.push(part);
                self.parts.len() - 1
            }
        }
    }

    /// The result's schema: grouping columns, then functions.
    pub(super) fn output_schema(&self, schema: &Schema) -> Result<SchemaRef, ScanError> {
        let mut fields = Vec::new();
        for &at in &self.group_by {
            let column = column(schema, at)?;
            fields.push(Field::new(&column.name, data_type(column.ty), false));
        }
        for (name, function) in self.names.iter().zip(&self.functions) {
            let (ty, nullable) = match function {
                Function::Count => (DataType::Int64, false),
                Function::Sum(_, ty) | Function::Extreme(_, ty) | Function::Null(ty) => {
                    (ty.clone(), true)
                }
                Function::Average(..) => (DataType::Float64, true),
            };
            fields.push(Field::new(name, ty, nullable));
        }
        Ok(Arc::new(arrow_schema::Schema::new(fields)))
    }

    /// Adds the columns that it names itself, those of expressions aside.
    pub(super) fn columns(&self, columns: &mut Vec<usize>) {
        columns.extend(&self.group_by);
        columns.extend(self.parts.iter().filter_map(|part| match part {
            Part::ExtremeText(column, _) => Some(*column),
            Part::Sum(_) | Part::Extreme(..) => None,
        }));
    }

    /// For each text of a row of the result, the column that it comes from.
    pub(super) fn text_columns(&self, schema: &Schema) -> Vec<usize> {
        let is_text = |column: &usize| schema.columns[*column].ty == ColumnType::Text;
        let keys = self.group_by.iter().copied().filter(is_text);
        let extremes = self.functions.iter().filter_map(|function| match function {
            Function::Extreme(at, _) => match self.parts[*at] {
                Part::ExtremeText(column, _) => Some(column),
                Part::Sum(_) | Part::Extreme(..) => None,
            },
            _ => None,
        });
        keys.chain(extremes).collect()
    }

    /// Most groups that so many rows can make.
    pub(super) fn groups_max(&self, rows: usize) -> usize {
        match self.group_by.is_empty() {
            true => 1,
            false => rows.min(GROUPS_MAX),
        }
    }

    /// What a thread computes with, groups aside.
    pub(super) fn thread_bytes(&self) -> usize {
        // Readers of text; for each grouping column, the masks of a block's values.
        let masks = BLOCK_ROWS * (size_of::<(i64, Mask)>() + 1) * 2;
        let readers = self.parts.len() + self.group_by.len();
        readers * (4 << 10) + self.group_by.len() * masks
    }

    /// About what so many groups take in a thread, while they are accumulated; there is only one without grouping columns.
    pub(super) fn groups_bytes(&self, groups: usize) -> usize {
        let numbered = self.group_by.len() * (Numbered::ENTRY_BYTES + TEXT_BYTES);
        self.groups_max(groups) * (self.table_bytes() + numbered + self.partial_bytes())
    }

    /// About what so many groups take when they are written.
    pub(super) fn slot_bytes(&self, groups: usize) -> usize {
        let texts = (self.parts.len() + self.group_by.len()) * TEXT_BYTES;
        self.written_bytes(self.groups_max(groups), texts)
    }

    /// About what a group takes in a row group's table.
    fn table_bytes(&self) -> usize {
        size_of::<([i64; 2], Accumulated)>() * 2
            + self.parts.len() * size_of::<State>()
            + size_of::<([i64; 2], usize)>() * 2
    }

    /// About what a group takes in a thread's [`Partial`].
    fn partial_bytes(&self) -> usize {
        size_of::<(Vec<Key>, Accumulated)>() * 2
            + self.parts.len() * (size_of::<State>() + TEXT_BYTES)
            + self.group_by.len() * (size_of::<Key>() + TEXT_BYTES)
    }

    /// The table of a row group; its groups take from `memory`.
    pub(super) fn open<'a>(&'a self, memory: &'a Memory) -> GroupTable<'a> {
        GroupTable {
            aggregation: self,
            memory,
            groups: Vec::new(),
            places: HashMap::new(),
            readers: self.parts.iter().map(|_| None).collect(),
            numbered: Default::default(),
        }
    }

    /// Adds one part's groups to another's.
    pub(super) fn merge(
        &self,
        into: &mut Partial,
        from: Partial,
        memory: &Memory,
    ) -> Result<(), ScanError> {
        for (key, accumulated) in from.groups {
            into.add(key, accumulated, self, memory)?;
        }
        Ok(())
    }

    /// Gives back what the groups of a partial aggregate took from `memory`.
    pub(super) fn give_back(&self, partial: &Partial, memory: &Memory) {
        memory.give_back(partial.groups.len() * self.partial_bytes());
    }

    /// Writes a partial aggregate, groups ascending; says how many bytes, or nothing if they are too many for `slot`.
    pub(super) fn write(
        &self,
        partial: &Partial,
        slot: &mut [u8],
    ) -> Result<Option<usize>, ScanError> {
        let mut groups: Vec<(&Vec<Key>, &Accumulated)> = partial.groups.iter().collect();
        groups.sort_by_key(|(key, _)| *key);
        match postcard::to_slice(&groups, slot) {
            Ok(written) => Ok(Some(written.len())),
            Err(postcard::Error::SerializeBufferFull) => Ok(None),
            Err(_) => Err(ScanError::Internal("a partial aggregate cannot be written")),
        }
    }

    /// The bytes that [`Aggregation::write`] writes, however many.
    pub(super) fn to_bytes(&self, partial: &Partial) -> Result<Vec<u8>, ScanError> {
        let mut groups: Vec<(&Vec<Key>, &Accumulated)> = partial.groups.iter().collect();
        groups.sort_by_key(|(key, _)| *key);
        let written = postcard::to_stdvec(&groups);
        written.map_err(|_| ScanError::Internal("a partial aggregate cannot be written"))
    }

    /// Reads what [`Aggregation::write`] has written, or a stranger: it takes memory in proportion to the bytes.
    pub(super) fn read(&self, bytes: &[u8]) -> Result<Partial, ScanError> {
        let mut from = PartialReader(bytes);
        let count: u64 = from.take()?;
        if count > GROUPS_MAX as u64 {
            return Err(ScanError::TooManyGroups(GROUPS_MAX));
        }
        let mut groups = HashMap::new();
        let mut last: Option<Vec<Key>> = None;
        for _ in 0..count {
            let key: Vec<Key> = from.list(self.group_by.len())?;
            let count = from.take()?;
            let states: Vec<State> = from.list(self.parts.len())?;
            let fits = states.iter().zip(&self.parts).all(|(state, part)| {
                matches!(
                    (state, part),
                    (State::Nothing, _)
                        | (State::Integer(_), Part::Sum(_) | Part::Extreme(..))
                        | (State::Text(_), Part::ExtremeText(..))
                )
            });
            if !fits || last.is_some_and(|last| last >= key) {
                return Err(MALFORMED);
            }
            last = Some(key.clone());
            groups.insert(key, Accumulated { count, states });
        }
        match from.0.is_empty() {
            true => Ok(Partial { groups }),
            false => Err(MALFORMED),
        }
    }

    /// Most bytes of a partial aggregate of so many groups, whose texts have `text_bytes` together.
    pub(super) fn written_bytes(&self, groups: usize, text_bytes: usize) -> usize {
        let numbers = (self.parts.len() + self.group_by.len()) * NUMBER_BYTES;
        LENGTH_BYTES + groups * (3 * LENGTH_BYTES + numbers + text_bytes)
    }

    /// The result, groups ascending.
    pub(super) fn finish(
        &self,
        schema: SchemaRef,
        partial: Partial,
    ) -> Result<RecordBatch, ScanError> {
        let mut groups: Vec<(Vec<Key>, Accumulated)> = partial.groups.into_iter().collect();
        if groups.is_empty() && self.group_by.is_empty() {
            groups.push((Vec::new(), Accumulated::new(&self.parts)));
        }
        groups.sort_by(|a, b| a.0.cmp(&b.0));
        let mut columns = Vec::with_capacity(schema.fields().len());
        for (at, field) in schema.fields().iter().take(self.group_by.len()).enumerate() {
            let states = groups.iter().map(|(key, _)| match &key[at] {
                Key::Integer(value) => State::Integer(i128::from(*value)),
                Key::Text(text) => State::Text(text.clone()),
            });
            columns.push(array(field.data_type(), states)?);
        }
        for function in &self.functions {
            columns.push(function.array(groups.iter().map(|(_, accumulated)| accumulated))?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(groups.len()));
        Ok(RecordBatch::try_new_with_options(
            schema, columns, &options,
        )?)
    }
}

fn decimal(scale: u8) -> Result<DataType, ScanError> {
    match i8::try_from(scale) {
        Ok(scale) if scale <= 38 => Ok(DataType::Decimal128(38, scale)),
        _ => Err(ScanError::Overflow),
    }
}

impl Function {
    fn array<'a>(
        &self,
        groups: impl Iterator<Item = &'a Accumulated>,
    ) -> Result<ArrayRef, ScanError> {
        let state = |at: usize| move |group: &Accumulated| group.states[at].clone();
        match self {
            Self::Count => Ok(Arc::new(Int64Array::from_iter_values(
                groups.map(|group| group.count as i64),
            ))),
            Self::Sum(at, ty) | Self::Extreme(at, ty) => array(ty, groups.map(state(*at))),
            Self::Average(at, scale) => {
                // As DuckDB: the exact sum as a DOUBLE, then one division.
                let power = power_of_ten(*scale)?;
                let average = |group: &Accumulated| match group.states[*at] {
                    State::Integer(sum) => {
                        State::Double(to_double_by(sum, power) / group.count as f64)
                    }
                    _ => State::Nothing,
                };
                array(&DataType::Float64, groups.map(average))
            }
            Self::Null(ty) => array(ty, groups.map(|_| State::Nothing)),
        }
    }
}

/// An array of one state a row; an integer that its type cannot hold is an overflow.
fn array(ty: &DataType, states: impl Iterator<Item = State>) -> Result<ArrayRef, ScanError> {
    Ok(match ty {
        DataType::Int32 => Arc::new(integers(states, narrowed)?.collect::<Int32Array>()),
        DataType::Date32 => Arc::new(integers(states, narrowed)?.collect::<Date32Array>()),
        DataType::Int64 => Arc::new(integers(states, narrowed)?.collect::<Int64Array>()),
        DataType::Decimal64(precision, scale) => Arc::new(
            integers(states, narrowed)?
                .collect::<Decimal64Array>()
                .with_precision_and_scale(*precision, *scale)?,
        ),
        DataType::Decimal128(precision, scale) => {
            let bound = power_of_ten(*precision)?.unsigned_abs();
            let within = |value: i128| {
                if value.unsigned_abs() < bound {
                    Ok(value)
                } else {
                    Err(ScanError::Overflow)
                }
            };
            Arc::new(
                integers(states, within)?
                    .collect::<Decimal128Array>()
                    .with_precision_and_scale(*precision, *scale)?,
            )
        }
        DataType::Float64 => Arc::new(
            states
                .map(|state| match state {
                    State::Double(value) => Some(value),
                    _ => None,
                })
                .collect::<Float64Array>(),
        ),
        _ => {
            let texts: Result<Vec<Option<String>>, ScanError> = states
                .map(|state| match state {
                    State::Text(bytes) => String::from_utf8(bytes)
                        .map(Some)
                        .map_err(|_| ScanError::Internal("text that is not UTF-8")),
                    _ => Ok(None),
                })
                .collect();
            Arc::new(StringArray::from(texts?))
        }
    })
}

/// The integers of states, each brought to its type; other states are NULL.
fn integers<T>(
    states: impl Iterator<Item = State>,
    convert: impl Fn(i128) -> Result<T, ScanError>,
) -> Result<std::vec::IntoIter<Option<T>>, ScanError> {
    let values: Result<Vec<Option<T>>, ScanError> = states
        .map(|state| match state {
            State::Integer(value) => convert(value).map(Some),
            _ => Ok(None),
        })
        .collect();
    Ok(values?.into_iter())
}

fn narrowed<T: TryFrom<i128>>(value: i128) -> Result<T, ScanError> {
    T::try_from(value).map_err(|_| ScanError::Overflow)
}

impl Accumulated {
    fn new(parts: &[Part]) -> Self {
        Self {
            count: 0,
            states: vec![State::Nothing; parts.len()],
        }
    }

    fn merge(&mut self, other: Self, parts: &[Part]) -> Result<(), ScanError> {
        self.count = self
            .count
            .checked_add(other.count)
            .ok_or(ScanError::Overflow)?;
        for ((state, other), part) in self.states.iter_mut().zip(other.states).zip(parts) {
            state.merge(other, part)?;
        }
        Ok(())
    }
}

impl State {
    /// Takes in another's.
    fn merge(&mut self, other: Self, part: &Part) -> Result<(), ScanError> {
        let replaces = match (&*self, &other, part) {
            (_, Self::Nothing, _) => false,
            (Self::Nothing, ..) => true,
            (Self::Integer(a), Self::Integer(b), Part::Sum(_)) => {
                *self = Self::Integer(a.checked_add(*b).ok_or(ScanError::Overflow)?);
                false
            }
            (Self::Integer(a), Self::Integer(b), Part::Extreme(_, side)) => side.prefers(b.cmp(a)),
            (Self::Text(a), Self::Text(b), Part::ExtremeText(_, side)) => side.prefers(b.cmp(a)),
            _ => return Err(ScanError::Internal("partial aggregates of two kinds")),
        };
        if replaces {
            *self = other;
        }
        Ok(())
    }
}

impl Side {
    /// Whether a value that compares so with the best so far is better.
    fn prefers(self, order: std::cmp::Ordering) -> bool {
        match self {
            Self::Least => order.is_lt(),
            Self::Greatest => order.is_gt(),
        }
    }
}

impl Partial {
    /// The number of groups.
    pub(super) fn groups(&self) -> usize {
        self.groups.len()
    }

    fn add(
        &mut self,
        key: Vec<Key>,
        accumulated: Accumulated,
        aggregation: &Aggregation,
        memory: &Memory,
    ) -> Result<(), ScanError> {
        let groups = self.groups.len();
        match self.groups.entry(key) {
            Entry::Occupied(known) => known.into_mut().merge(accumulated, &aggregation.parts),
            Entry::Vacant(_) if groups == GROUPS_MAX => Err(ScanError::TooManyGroups(GROUPS_MAX)),
            Entry::Vacant(new) => {
                memory.take(aggregation.partial_bytes())?;
                new.insert(accumulated);
                Ok(())
            }
        }
    }
}

impl GroupTable<'_> {
    /// Takes in the rows of `mask`.
    pub(super) fn update(
        &mut self,
        context: &mut Context,
        block: usize,
        mask: &Mask,
    ) -> Result<(), ScanError> {
        let aggregation = self.aggregation;
        for part in &aggregation.parts {
            part.prepare(context, block)?;
        }
        match aggregation.group_by.len() {
            0 => self.accumulate(context, block, [0, 0], mask),
            1 => self.by_value(
                context,
                block,
                mask,
                0,
                &mut |table, context, value, rows| {
                    table.accumulate(context, block, [value, 0], rows)
                },
            ),
            _ => self.by_value(
                context,
                block,
                mask,
                0,
                &mut |table, context, left, rows| {
                    table.by_value(
                        context,
                        block,
                        rows,
                        1,
                        &mut |table, context, right, rows| {
                            table.accumulate(context, block, [left, right], rows)
                        },
                    )
                },
            ),
        }
    }

    /// Calls `each` with every value that a grouping column has in the rows of `mask`, and those rows.
    fn by_value(
        &mut self,
        context: &mut Context,
        block: usize,
        mask: &Mask,
        place: usize,
        each: &mut EachValue<'_, Self>,
    ) -> Result<(), ScanError> {
        let column = self.aggregation.group_by[place];
        let chunk = context.load(column)?.clone();
        if chunk.symbols().is_some() {
            let masks = self.by_text(context, block, mask, place)?;
            return (masks.into_iter())
                .try_for_each(|(number, rows)| each(self, context, number, &rows));
        }
        let (meta, unit) = (chunk.blocks()[block], chunk.unit());
        let Some(packed) = packed(&chunk, block) else {
            return each(self, context, meta.min, mask);
        };
        let span = (meta.max as u64).wrapping_sub(meta.min as u64) / unit as u64;
        if span < COMPARED_VALUES_MAX as u64 {
            let mut rows = Mask::NONE;
            for value in 0..=span {
                context.kernels().range(packed, value, 0, &mut rows);
                rows.and(mask);
                if !rows.is_empty() {
                    // The product may leave 64 bits where the sum comes back.
                    let value = meta.min.wrapping_add(unit.wrapping_mul(value as i64));
                    each(self, context, value, &rows)?;
                }
            }
            return Ok(());
        }
        context.unpack(column, block)?;
        let mut masks: HashMap<i64, Mask> = HashMap::new();
        let values = context.column(column)?;
        mask.for_each(|row| masks.entry(values[row]).or_insert(Mask::NONE).insert(row));
        for (value, rows) in masks {
            each(self, context, value, &rows)?;
        }
        Ok(())
    }

    /// The numbers of the texts that a grouping column has in the rows of `mask`, each with its rows.
    fn by_text(
        &mut self,
        context: &Context,
        block: usize,
        mask: &Mask,
        place: usize,
    ) -> Result<HashMap<i64, Mask>, ScanError> {
        let numbered = match &mut self.numbered[place] {
            Some(numbered) => numbered,
            none => none.insert(Numbered {
                reader: TextReader::new(context, self.aggregation.group_by[place])?,
                numbers: HashMap::new(),
                bytes: 0,
            }),
        };
        let mut masks = HashMap::new();
        mask.try_for_each(|row| {
            let text = numbered.reader.read(context, block, row)?;
            let number = match numbered.numbers.get(text) {
                Some(&number) => number,
                None => {
                    let number = numbered.numbers.len() as i64;
                    let bytes = Numbered::ENTRY_BYTES + text.len();
                    self.memory.take(bytes)?;
                    numbered.bytes += bytes;
                    numbered.numbers.insert(text.to_vec(), number);
                    number
                }
            };
            masks.entry(number).or_insert(Mask::NONE).insert(row);
            Ok::<_, ScanError>(())
        })?;
        Ok(masks)
    }

    /// Where a group is, new or known.
    fn place(&mut self, key: [i64; 2]) -> Result<usize, ScanError> {
        let known = if self.groups.len() <= GROUPS_LOOKED_THROUGH {
            self.groups.iter().position(|(of, _)| *of == key)
        } else {
            self.places.get(&key).copied()
        };
        if let Some(at) = known {
            return Ok(at);
        }
        let at = self.groups.len();
        if at == GROUPS_MAX {
            return Err(ScanError::TooManyGroups(GROUPS_MAX));
        }
        self.memory.take(self.aggregation.table_bytes())?;
        self.groups
            .push((key, Accumulated::new(&self.aggregation.parts)));
        self.places.insert(key, at);
        Ok(at)
    }

    /// Adds the rows of `mask`, all of one group.
    fn accumulate(
        &mut self,
        context: &Context,
        block: usize,
        key: [i64; 2],
        mask: &Mask,
    ) -> Result<(), ScanError> {
        let parts = &self.aggregation.parts;
        let at = self.place(key)?;
        let (_, group) = &mut self.groups[at];
        group.count += context.kernels().count(mask) as u64;
        for ((part, state), reader) in parts.iter().zip(&mut group.states).zip(&mut self.readers) {
            let value = part.of_rows(context, block, mask, reader)?;
            state.merge(value, part)?;
        }
        Ok(())
    }

    /// Merges the row group's groups by value.
    pub(super) fn close(
        self,
        context: &mut Context,
        partial: &mut Partial,
    ) -> Result<(), ScanError> {
        let numbered_bytes: usize = self
            .numbered
            .iter()
            .flatten()
            .map(|column| column.bytes)
            .sum();
        let texts = self.numbered.map(|column| column.map(Numbered::in_order));
        for (key, accumulated) in self.groups {
            self.memory.give_back(self.aggregation.table_bytes());
            let mut values = Vec::with_capacity(self.aggregation.group_by.len());
            for (place, &column) in self.aggregation.group_by.iter().enumerate() {
                let value = key[place];
                let dictionary = context.load(column)?.dictionary();
                values.push(match (&texts[place], dictionary) {
                    (Some(texts), _) => Key::Text(texts[value as usize].clone()),
                    (None, Some(dictionary)) => {
                        Key::Text(dictionary.bytes(value as usize).to_vec())
                    }
                    (None, None) => Key::Integer(value),
                });
            }
            partial.add(values, accumulated, self.aggregation, self.memory)?;
        }
        self.memory.give_back(numbered_bytes);
        Ok(())
    }
}

impl Numbered {
    /// About what a text takes beside its own bytes.
    const ENTRY_BYTES: usize = 2 * size_of::<(Vec<u8>, i64)>();

    /// The texts, each at its number.
    fn in_order(self) -> Vec<Vec<u8>> {
        let mut texts = vec![Vec::new(); self.numbers.len()];
        for (text, number) in self.numbers {
            texts[number as usize] = text;
        }
        texts
    }
}

impl Part {
    /// Makes the block's values present.
    fn prepare(&self, context: &mut Context, block: usize) -> Result<(), ScanError> {
        match *self {
            Self::Sum(node) | Self::Extreme(node, _) if !context.is_narrow(node) => {
                context.unpack_columns(node, block)
            }
            Self::Sum(node) | Self::Extreme(node, _) => context.evaluate(node, block),
            Self::ExtremeText(column, _) => context.load(column).map(|_| ()),
        }
    }

    /// Of the rows of `mask`, at least one.
    fn of_rows(
        &self,
        context: &Context,
        block: usize,
        mask: &Mask,
        reader: &mut Option<TextReader>,
    ) -> Result<State, ScanError> {
        Ok(match *self {
            Self::Sum(node) if context.fits_sum(node) => State::Integer(i128::from(
                context.kernels().sum(context.values(node)?, mask),
            )),
            Self::Sum(node) => {
                let mut sum = 0i128;
                mask.try_for_each(|row| {
                    let value = context.exact(node, row)?;
                    sum = sum.checked_add(value).ok_or(ScanError::Overflow)?;
                    Ok::<_, ScanError>(())
                })?;
                State::Integer(sum)
            }
            Self::Extreme(node, side) => {
                let mut best: Option<i128> = None;
                mask.try_for_each(|row| {
                    let value = context.exact(node, row)?;
                    if best.is_none_or(|best| side.prefers(value.cmp(&best))) {
                        best = Some(value);
                    }
                    Ok::<_, ScanError>(())
                })?;
                best.map_or(State::Nothing, State::Integer)
            }
            Self::ExtremeText(column, side) => {
                let reader = match reader {
                    Some(reader) => reader,
                    none => none.insert(TextReader::new(context, column)?),
                };
                let mut best: Option<Vec<u8>> = None;
                mask.try_for_each(|row| {
                    let text = reader.read(context, block, row)?;
                    if best
                        .as_ref()
                        .is_none_or(|best| side.prefers(text.cmp(best)))
                    {
                        best = Some(text.to_vec());
                    }
                    Ok::<_, ScanError>(())
                })?;
                best.map_or(State::Nothing, State::Text)
            }
        })
    }
}
