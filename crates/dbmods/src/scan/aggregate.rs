//! Aggregates: partial sums block by block in 64 bits where the bounds allow it, totals in 128.
//!
//! Grouping by dictionaries and narrow integers costs no hashing: each value of a block's column is a fused compare that
//! gives its rows' mask, two columns' masks are intersected, and the functions run over the values under each mask.
//! Per row group the groups are a small table by position; across row groups they merge by value. Texts that a row group has
//! no dictionary of (few rows, or many values) are looked at one by one, and numbered as they are met.

use std::sync::Arc;

use arrow_schema::{DataType, Field, SchemaRef};

use self::groups::Numbered;
pub(super) use self::state::Partial;
use self::state::{Accumulated, ExtremeSide, Key, State};
use super::ScanError;
use super::dag::{Dag, NodeId, Typed};
use super::kernels::Mask;
use super::rows::{column, data_type};
use crate::query::{Aggregate, AggregateFunction, GROUP_BY_MAX, Scalar};
use crate::schema::{ColumnType, Schema};
use crate::table::chunk::BLOCK_ROWS;

mod groups;
mod result;
mod state;
mod wire;

/// Most groups of a result.
pub(super) const GROUPS_MAX: usize = 1 << 16;
/// Bytes of a text that is kept for a group, in estimates.
const TEXT_BYTES: usize = 64;
/// Bytes of a number or of a text's length, and of what tells which, at most.
const NUMBER_BYTES: usize = 20;
/// Bytes of a count, at most.
const LENGTH_BYTES: usize = 10;
/// The aggregate of a query, made ready.
#[derive(Debug)]
pub(super) struct Aggregation {
    group_by: Vec<usize>,
    names: Vec<String>,
    functions: Vec<Function>,
    /// The parts to accumulate, each once.
    parts: Vec<Part>,
}

/// A function of the output, over accumulated parts.
#[derive(Clone, Debug)]
enum Function {
    Count,
    Sum(usize, DataType),
    Extreme(usize, DataType),
    /// The part of the sum, and its digits after the point.
    Average(usize, u8),
    /// NULL, of this type.
    Null(DataType),
}

/// Something to accumulate.
#[derive(Clone, Debug, PartialEq)]
enum Part {
    Sum(NodeId),
    Extreme(NodeId, ExtremeSide),
    ExtremeText(usize, ExtremeSide),
}

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
                self.extreme(schema, scalar, value, ExtremeSide::Least)?
            }
            AggregateFunction::Max(scalar) => {
                let value = typed(dag, scalar)?;
                self.extreme(schema, scalar, value, ExtremeSide::Greatest)?
            }
        })
    }

    fn extreme(
        &mut self,
        schema: &Schema,
        scalar: &Scalar,
        value: Typed,
        side: ExtremeSide,
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

    /// The memory that a thread computes with, groups aside.
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

    /// Most bytes of a partial aggregate of so many groups, whose texts have `text_bytes` together.
    pub(super) fn written_bytes(&self, groups: usize, text_bytes: usize) -> usize {
        let numbers = (self.parts.len() + self.group_by.len()) * NUMBER_BYTES;
        LENGTH_BYTES + groups * (3 * LENGTH_BYTES + numbers + text_bytes)
    }
}

fn decimal(scale: u8) -> Result<DataType, ScanError> {
    match i8::try_from(scale) {
        Ok(scale) if scale <= 38 => Ok(DataType::Decimal128(38, scale)),
        _ => Err(ScanError::Overflow),
    }
}
