//! The scan behind dpb's seam: row groups in, Arrow batches out.
//!
//! The table and the query are prepared once. An item names row groups, and its output is the query's result over them, so a
//! device that has the table, or a pool of threads, or a model of either takes a scan as it takes any other operator.
//!
//! * Item: numbers of row groups, four bytes each, little endian. An item that ends inside a number, or names a row group that
//!   the table has not, is refused.
//! * Output: messages of the Arrow IPC format, one record batch each, of the schema that [`Plan::output_schema`] says and that is not
//!   sent: rows in the order of the item's row groups, or one batch with the aggregate over these row groups. An item
//!   without a row that qualifies has no output; of an aggregate without groups, one row.
//!
//! A row group is read through a cache, so the first job that needs it waits for the file. Unlike the kernels of other operators this
//! one allocates: Arrow's arrays, some vectors for each row group. A row group takes tens of microseconds at least.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::DataType;
use dpb_core::{
    Batch, BatchOut, JobError, Kernel, OutputShape, ParameterValue, SetupError, Spec, Unsupported,
};

use super::kernels::Kernels;
use super::plan::{Plan, TABLES_BYTES_MAX, Target};
use super::{GroupScan, ScanError};
use crate::ipc::Encoder;
use crate::query::{Query, sql};
use crate::schema::ColumnType;
use crate::table::cache::Cache;
use crate::table::chunk::{BLOCK_ROWS, Encoding};
use crate::table::segment::Segment;

/// The name of the operator.
pub const NAME: &str = "scan";

/// Rows of a batch, at most. A batch that is copied out at once may be small enough for a cache.
const BATCH_ROWS: usize = 16 << 10;
/// Arrow begins each of a batch's buffers at a multiple of so many bytes.
const ALIGNMENT: usize = 64;
/// Buffers of a column: validity, offsets, values.
const BUFFERS: usize = 3;
/// `EIO`: what a job's error says of a table that cannot be read, or is damaged.
const UNREADABLE: i32 = 5;
/// Nanoseconds that a row takes on a slow path, its check by the reference evaluator included.
const ROW_NS: usize = 1000;

/// A query over a table: the spec of the operator `scan`.
#[derive(Clone)]
pub struct Scan {
    segment: Arc<Segment>,
    query: Arc<Query>,
    /// What equality and hash go by.
    identity: (String, String),
}

impl Scan {
    /// `query` over the table of `segment`.
    ///
    /// # Errors
    /// If the query does not fit the table.
    pub fn new(segment: Arc<Segment>, query: Query) -> Result<Self, SetupError> {
        let schema = segment.schema();
        let wrong = |why: &dyn fmt::Display| SetupError::Parameter(format!("{NAME}: {why}"));
        query.check(schema).map_err(|error| wrong(&error))?;
        Plan::new(schema, &query).map_err(|error| wrong(&error))?;
        let identity = (
            segment.identity(),
            sql::query_to_sql(&query, schema, &schema.table),
        );
        Ok(Self {
            segment,
            query: Arc::new(query),
            identity,
        })
    }

    /// The same with a name for the query in lists and records, instead of its SQL: `q6`. Specs of one table are equal if these
    /// names are, so a name must say exactly what is asked.
    #[must_use]
    pub fn named(mut self, query: &str) -> Self {
        self.identity.1 = query.to_owned();
        self
    }

    /// The table.
    pub fn segment(&self) -> &Arc<Segment> {
        &self.segment
    }

    /// What is asked of it.
    pub fn query(&self) -> &Query {
        &self.query
    }

    /// The kernel on an instruction set: `portable`, `avx2`, `avx512`, `neon`.
    ///
    /// # Errors
    /// If this CPU does not have it; if a dictionary of the table, which says how long an output can be, cannot be read.
    pub fn kernel(&self, instruction_set: &str) -> Result<ScanKernel, SetupError> {
        let mut sets = Kernels::available().iter();
        let kernels = sets.find(|kernels| kernels.name() == instruction_set);
        let kernels = kernels.ok_or_else(|| {
            let reason = format!("{NAME} has no {instruction_set} path on this CPU");
            SetupError::Unsupported(Unsupported { reason })
        })?;
        let unreadable = |error: ScanError| SetupError::Parameter(format!("{NAME}: {error}"));
        let schema = self.segment.schema();
        let plan = Plan::with_kernels(kernels, schema, &self.query, TABLES_BYTES_MAX);
        let plan = Arc::new(plan.map_err(unreadable)?);
        let cache = Arc::new(Cache::new(self.segment.file_bytes()));
        let row_bytes = row_bytes(&plan, &self.segment, &cache).map_err(unreadable)?;
        let empty = RecordBatch::new_empty(Arc::clone(plan.output_schema()));
        let empty = encoder(&plan).and_then(|mut encoder| encoder.encode(&empty));
        let columns = plan.output_schema().fields().len();
        Ok(ScanKernel {
            message_bytes: empty.map_err(|error| unreadable(error.into()))?.len
                + columns * BUFFERS * ALIGNMENT,
            row_bytes,
            segment: Arc::clone(&self.segment),
            cache,
            plan,
        })
    }

    /// Rows of the largest row group.
    fn group_rows_max(&self) -> usize {
        group_rows_max(&self.segment)
    }
}

impl Spec for Scan {
    fn name(&self) -> &str {
        NAME
    }

    fn parameters(&self) -> Vec<(&str, ParameterValue)> {
        vec![
            ("table", self.identity.0.as_str().into()),
            ("query", self.identity.1.as_str().into()),
        ]
    }

    fn cost_bytes(&self) -> usize {
        self.group_rows_max() * ROW_NS
    }
}

impl PartialEq for Scan {
    fn eq(&self, other: &Self) -> bool {
        self.identity == other.identity
    }
}

impl Eq for Scan {}

impl Hash for Scan {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.identity.hash(state);
    }
}

impl fmt::Debug for Scan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (table, query) = &self.identity;
        f.debug_struct("Scan")
            .field("table", table)
            .field("query", query)
            .finish()
    }
}

/// A [`Scan`] made ready: the table, a cache of its own that all of it fits, and the compiled query.
#[derive(Debug)]
pub struct ScanKernel {
    plan: Arc<Plan>,
    segment: Arc<Segment>,
    cache: Arc<Cache>,
    /// Bytes of a message besides its values, at most.
    message_bytes: usize,
    /// Bytes of a row of the result, at most.
    row_bytes: usize,
}

/// What a thread scans with.
pub struct Scratch {
    scan: GroupScan,
    encoder: Encoder,
}

impl ScanKernel {
    /// The result's schema, which outputs are without.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Writes what comes of the row groups that `item` names into `slot`; says how many bytes.
    fn scan(
        &self,
        item: &[u8],
        slot: &mut [u8],
        Scratch { scan, encoder }: &mut Scratch,
    ) -> Result<Result<u32, JobError>, ScanError> {
        let Some(groups) = row_groups(item, &self.segment) else {
            return Ok(Err(JobError::Malformed));
        };
        let mut written = Ok(0);
        let mut failed = None;
        let mut give = |batch: RecordBatch| {
            match (encoder.encode(&batch), written) {
                (Err(error), _) => failed = Some(error),
                (Ok(_), Err(_)) => {}
                (Ok(message), Ok(at)) if message.len > slot.len() - at => {
                    written = Err(JobError::DstTooShort);
                }
                (Ok(message), Ok(mut at)) => {
                    for part in &message.parts {
                        slot[at..at + part.len()].copy_from_slice(part);
                        at += part.len();
                    }
                    written = Ok(at);
                }
            }
            match failed.is_none() && written.is_ok() {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        };
        let mut flow = ControlFlow::Continue(());
        for group in groups {
            flow = scan.scan(group, &mut give)?;
            if flow.is_break() {
                break;
            }
        }
        if flow.is_continue() {
            let _last = scan.finish(&mut give)?;
        }
        match failed {
            Some(error) => Err(error.into()),
            None => Ok(written.map(|bytes| bytes as u32)),
        }
    }
}

impl Kernel for ScanKernel {
    type Scratch = Scratch;

    fn scratch(&self) -> Scratch {
        Scratch {
            scan: GroupScan::new(&self.plan, &self.segment, &self.cache, BATCH_ROWS),
            encoder: encoder(&self.plan).expect("the kernel was made with one"),
        }
    }

    fn shape(&self) -> OutputShape {
        OutputShape::Variable
    }

    fn dst_len(&self, item_len: usize) -> usize {
        let rows = item_len / size_of::<u32>() * group_rows_max(&self.segment);
        let (rows, batches) = match &self.plan.target {
            // A batch goes when the rest of a block might not fit it.
            Target::Rows(_) => (rows, rows.div_ceil(BATCH_ROWS - BLOCK_ROWS)),
            Target::Aggregate(aggregation) => (aggregation.groups_max(rows), 1),
        };
        batches * self.message_bytes + rows * self.row_bytes
    }

    fn run(
        &self,
        batch: Batch<'_>,
        out: BatchOut<'_>,
        scratch: &mut Scratch,
    ) -> Result<(), JobError> {
        let mut unreadable = false;
        out.each_outcome(batch, |item, slot| {
            let done = self.scan(item, slot, scratch);
            if !matches!(done, Ok(Ok(_))) {
                // What an item that failed has left must not become another's.
                scratch.scan = GroupScan::new(&self.plan, &self.segment, &self.cache, BATCH_ROWS);
            }
            done.unwrap_or_else(|error| {
                unreadable |= matches!(error, ScanError::Segment(_));
                Err(JobError::Malformed)
            })
        });
        match unreadable {
            true => Err(JobError::Device(UNREADABLE)),
            false => Ok(()),
        }
    }
}

impl fmt::Debug for Scratch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.scan.fmt(f)
    }
}

/// The row groups that an item names; `None` if it is malformed.
pub fn row_groups(item: &[u8], segment: &Segment) -> Option<impl Iterator<Item = usize>> {
    let (numbers, rest) = item.as_chunks::<4>();
    let number = |bytes: &[u8; 4]| u32::from_le_bytes(*bytes) as usize;
    let is_there = |bytes: &[u8; 4]| number(bytes) < segment.groups().len();
    let is_right = rest.is_empty() && numbers.iter().all(is_there);
    is_right.then(|| numbers.iter().map(number))
}

fn encoder(plan: &Plan) -> Result<Encoder, arrow_schema::ArrowError> {
    Encoder::new(plan.output_schema()).map(|(encoder, _schema)| encoder)
}

/// Rows of the largest row group.
fn group_rows_max(segment: &Segment) -> usize {
    let rows = segment.groups().iter().map(|group| group.rows as usize);
    rows.max().unwrap_or(0)
}

/// Most bytes of values of a row of the result.
fn row_bytes(plan: &Plan, segment: &Segment, cache: &Cache) -> Result<usize, ScanError> {
    let schema = segment.schema();
    let texts = match &plan.target {
        Target::Rows(columns) => columns
            .iter()
            .copied()
            .filter(|&column| schema.columns[column].ty == ColumnType::Text)
            .collect(),
        Target::Aggregate(aggregation) => aggregation.text_columns(schema),
    };
    let fields = plan.output_schema().fields().iter();
    let fixed: usize = fields
        .map(|field| match field.data_type() {
            DataType::Utf8 => size_of::<i32>(),
            ty => ty.primitive_width().unwrap_or(0),
        })
        .sum();
    let mut longest = vec![0; texts.len()];
    for (group, meta) in segment.groups().iter().enumerate() {
        for (longest, &column) in longest.iter_mut().zip(&texts) {
            let of_group = match meta.chunks[column].encoding {
                // The footer knows.
                Encoding::Text => meta.chunks[column].max as usize,
                _ => segment.chunk(group, column, cache)?.longest_text(),
            };
            *longest = of_group.max(*longest);
        }
    }
    // A bit of validity for each value.
    let validity = plan.output_schema().fields().len().div_ceil(8);
    Ok(fixed + longest.iter().sum::<usize>() + validity)
}
