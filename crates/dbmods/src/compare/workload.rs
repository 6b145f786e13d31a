//! What the operator `scan` is run on, and what is right for it: the reference evaluator, over rows that the format's simple decoder
//! has read.

use std::fmt;
use std::sync::{Arc, OnceLock};

use dpb_core::workload::Right;
use dpb_core::{JobError, OpSpec, Workload};

use crate::ipc;
use crate::query::{Literal, eval};
use crate::scan::operator::{Scan, row_groups};
use crate::scan::{self, ScanError};
use crate::schema::{ColumnType, Schema};
use crate::table::encode::{self, Values};
use crate::table::segment::{Segment, SegmentError};

/// Bytes of user data for which an item scans a row group: about what one of 1,500 rows of lineitem takes.
const GROUP_BYTES: usize = 96 << 10;
/// Rows up to which the oracle keeps what it has decoded.
const KEPT_ROWS_MAX: u64 = 200_000;

/// The workload of one [`Scan`].
pub struct ScanWorkload {
    spec: OpSpec,
    scan: Scan,
    /// The rows of each row group, once they were asked for.
    groups: Vec<OnceLock<Arc<Rows>>>,
}

type Rows = Vec<Vec<Literal>>;

impl ScanWorkload {
    /// The workload of `scan`.
    pub fn new(scan: &Scan) -> Self {
        let groups = scan.segment().groups().iter();
        Self {
            spec: scan.clone().into(),
            scan: scan.clone(),
            groups: groups.map(|_| OnceLock::new()).collect(),
        }
    }

    /// The rows of the row groups that an item names, decoded.
    fn rows(&self, groups: impl Iterator<Item = usize>) -> Result<Vec<Arc<Rows>>, SegmentError> {
        let segment = self.scan.segment();
        groups
            .map(|group| match self.groups[group].get() {
                Some(rows) => Ok(Arc::clone(rows)),
                None => {
                    let rows = Arc::new(decoded(segment, group)?);
                    if segment.rows() <= KEPT_ROWS_MAX {
                        let _another_was_first = self.groups[group].set(Arc::clone(&rows));
                    }
                    Ok(rows)
                }
            })
            .collect()
    }

    /// The result's rows for an item that names row groups of the table.
    fn expected(&self, item: &[u8]) -> Result<Rows, String> {
        let groups = row_groups(item, self.scan.segment()).ok_or("no row groups")?;
        let rows = self.rows(groups).map_err(|error| error.to_string())?;
        let rows = rows.iter().flat_map(|rows| rows.iter());
        eval::run(self.scan.query(), rows).map_err(|error| error.to_string())
    }
}

impl Workload for ScanWorkload {
    fn spec(&self) -> &OpSpec {
        &self.spec
    }

    fn name(&self) -> &str {
        "the reference evaluator"
    }

    /// One row group for every 96 KiB of `plain`, at least one, chosen by its bytes.
    fn feed(&self, plain: &[u8]) -> Result<Vec<u8>, String> {
        let groups = self.groups.len();
        if groups == 0 {
            return Err("the table has no rows".to_owned());
        }
        let pick = |plain: &[u8]| {
            let mut start = [0; 4];
            let known = plain.len().min(start.len());
            start[..known].copy_from_slice(&plain[..known]);
            (u32::from_le_bytes(start) % groups as u32).to_le_bytes()
        };
        Ok(match plain.is_empty() {
            true => pick(&[]).to_vec(),
            false => plain.chunks(GROUP_BYTES).flat_map(pick).collect(),
        })
    }

    fn describe(&self, _plain: &str) -> String {
        format!("row groups of {}", self.scan.segment().identity())
    }

    fn right(&self, item: &[u8], _slot_bytes: usize) -> Right {
        match row_groups(item, self.scan.segment()) {
            None => Right::Refused(JobError::Malformed),
            // The computation itself can fail: a sum that is out of range.
            Some(_) => match self.expected(item) {
                Ok(_) => Right::AnyValid,
                Err(_) => Right::Refused(JobError::Malformed),
            },
        }
    }

    fn approve(&self, item: &[u8], output: &[u8]) -> Result<(), String> {
        let said = |error: ScanError| error.to_string();
        let schema = scan::output_schema(self.scan.segment().schema(), self.scan.query());
        let schema = schema.map_err(said)?;
        let batches = ipc::decode_batches(output, &schema).map_err(|error| error.to_string())?;
        let mut came = Vec::new();
        for batch in &batches {
            came.extend(eval::rows(batch).ok_or("a column of a type that no scan returns")?);
        }
        let expected = self.expected(item)?;
        if came.len() != expected.len() {
            let (came, expected) = (came.len(), expected.len());
            return Err(format!("{came} rows where {expected} are right"));
        }
        let differs = came
            .iter()
            .zip(&expected)
            .position(|(a, b)| !same_row(a, b));
        match differs {
            None => Ok(()),
            Some(at) => Err(format!(
                "row {at} is {:?}, and {:?} is right",
                came[at], expected[at]
            )),
        }
    }
}

impl fmt::Debug for ScanWorkload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.scan.fmt(f)
    }
}

/// Equal values, whatever the scale that a number is written with.
fn same_row(a: &[Literal], b: &[Literal]) -> bool {
    let same = |(a, b): (&Literal, &Literal)| match (a, b) {
        (Literal::Null, Literal::Null) => true,
        _ => matches!(eval::compare(a, b), Ok(Some(std::cmp::Ordering::Equal))),
    };
    a.len() == b.len() && a.iter().zip(b).all(same)
}

/// The rows of a row group, by the simple decoder.
fn decoded(segment: &Segment, group: usize) -> Result<Rows, SegmentError> {
    let schema = segment.schema();
    let mut columns = encode::empty(schema);
    for (at, values) in columns.iter_mut().enumerate() {
        segment.read_chunk(group, at)?.decode(values);
    }
    let rows = segment.groups()[group].rows as usize;
    let row = |row| {
        columns
            .iter()
            .enumerate()
            .map(|(at, values)| literal(schema, at, values, row))
            .collect()
    };
    Ok((0..rows).map(row).collect())
}

fn literal(schema: &Schema, column: usize, values: &Values, row: usize) -> Literal {
    match (values, schema.columns[column].ty) {
        (Values::Texts(texts), _) => Literal::Text(texts.get(row).to_owned()),
        (Values::Numbers(numbers), ColumnType::Date) => Literal::Date(numbers[row] as i32),
        (Values::Numbers(numbers), ty) => Literal::Number {
            unscaled: i128::from(numbers[row]),
            scale: match ty {
                ColumnType::Decimal { scale, .. } => scale,
                _ => 0,
            },
        },
    }
}
