//! What the operator `scan` is run on, and what is right for it: the reference evaluator, over rows that the format's simple decoder
//! has read.

use std::fmt;
use std::sync::{Arc, OnceLock};

use dpb_core::workload::Right;
use dpb_core::{JobError, OpSpec, Workload};

use crate::ipc;
use crate::query::{self, Literal, eval};
use crate::scan::ScanError;
use crate::scan::operator::{Merged, Output, Scan, row_groups, write_item};
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

    /// The rows of a row group, decoded.
    fn rows(&self, group: usize) -> Result<Arc<Rows>, SegmentError> {
        let segment = self.scan.segment();
        if let Some(rows) = self.groups[group].get() {
            return Ok(Arc::clone(rows));
        }
        let rows = Arc::new(decoded(segment, group)?);
        if segment.rows() <= KEPT_ROWS_MAX {
            let _another_was_first = self.groups[group].set(Arc::clone(&rows));
        }
        Ok(rows)
    }

    /// The result's rows for an item, up to row `end` of its row group `groups_done`.
    fn expected(&self, item: &[u8], groups_done: usize, end: usize) -> Result<Rows, String> {
        let (first, groups) = row_groups(item, self.scan.segment()).ok_or("no row groups")?;
        let mut covered = Vec::new();
        for (at, group) in groups.enumerate().take(groups_done + 1) {
            let rows = self.rows(group).map_err(|error| error.to_string())?;
            let start = if at == 0 { first } else { 0 };
            let end = if at == groups_done { end } else { rows.len() };
            covered.push((rows, start..end));
        }
        let rows = covered
            .iter()
            .flat_map(|(rows, range)| &rows[range.clone()]);
        eval::run(self.scan.query(), rows).map_err(|error| error.to_string())
    }

    /// The rows of a body, or what it adds up to.
    fn came(&self, body: &[u8]) -> Result<Rows, String> {
        let (plan, said) = (self.scan.plan(), |error: ScanError| error.to_string());
        let batches = match self.scan.query().output {
            query::Output::Rows(_) => ipc::decode_batches(body, plan.output_schema())
                .map_err(|error| error.to_string())?,
            query::Output::Aggregate(_) => {
                let mut merged = Merged::new(plan, usize::MAX);
                merged.add(body).map_err(said)?;
                vec![merged.finish().map_err(said)?]
            }
        };
        let mut came = Vec::new();
        for batch in &batches {
            came.extend(eval::rows(batch).ok_or("a column of a type that no scan returns")?);
        }
        Ok(came)
    }
}

impl Workload for ScanWorkload {
    fn spec(&self) -> &OpSpec {
        &self.spec
    }

    fn name(&self) -> &str {
        "the reference evaluator"
    }

    /// One row group for every 96 KiB of `plain`, at least one, chosen by its bytes. The last byte chooses the row where the scan of
    /// several begins.
    fn encode_item(&self, plain: &[u8]) -> Result<Vec<u8>, String> {
        let groups = self.groups.len();
        if groups == 0 {
            return Err("the table has no rows".to_owned());
        }
        let pick = |plain: &[u8]| {
            let mut start = [0; 4];
            let known = plain.len().min(start.len());
            start[..known].copy_from_slice(&plain[..known]);
            u32::from_le_bytes(start) as usize % groups
        };
        let mut item = Vec::new();
        match plain {
            [] => write_item(&mut item, 0, [0]),
            [.., last] => {
                let picked: Vec<usize> = plain.chunks(GROUP_BYTES).map(pick).collect();
                let rows = self.scan.segment().groups()[picked[0]].rows as usize;
                let first = match picked.len() {
                    1 => 0,
                    _ => usize::from(*last) * rows / 256,
                };
                write_item(&mut item, first, picked);
            }
        }
        Ok(item)
    }

    fn describe(&self, _plain: &str) -> String {
        format!("row groups of {}", self.scan.segment().identity())
    }

    fn right(&self, item: &[u8], _slot_bytes: usize) -> Right {
        match row_groups(item, self.scan.segment()) {
            None => Right::Refused(JobError::Malformed),
            // The computation itself can fail: a sum that is out of range.
            Some(_) => match self.expected(item, usize::MAX - 1, 0) {
                Ok(_) => Right::AnyValid,
                Err(_) => Right::Refused(JobError::Malformed),
            },
        }
    }

    fn approve(&self, item: &[u8], output: &[u8]) -> Result<(), String> {
        let output = Output::parse(output, self.scan.plan().conjuncts().len())
            .map_err(|error| error.to_string())?;
        let (first, groups) = row_groups(item, self.scan.segment()).ok_or("no row groups")?;
        let count = groups.count();
        let is_whole = output.groups == count && output.row == 0;
        let has_more = output.groups > 0 || output.row > first;
        let went_on = output.groups < count && has_more && !output.body.is_empty();
        if !is_whole && !went_on {
            let (groups, row) = (output.groups, output.row);
            return Err(format!(
                "it ended at row {row} of row group {groups} of {count}, and began at row {first}"
            ));
        }
        let came = self.came(output.body)?;
        let expected = self.expected(item, output.groups, output.row)?;
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
