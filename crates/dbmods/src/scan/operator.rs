//! The scan behind dpb's seam: row groups in, Arrow batches or partial aggregates out.
//!
//! The table and the query are prepared once. An item names row groups, and its output is what comes of them, so a
//! device that has the table, or a pool of threads, or a model of either takes a scan as it takes any other operator.
//! [`Plan::scan_on`] makes a whole scan of that.
//!
//! * Item ([`write_item`]): a row, four bytes, then numbers of row groups, four bytes each, little endian. The scan begins at that row
//!   of the first row group. An item that is cut short, or names a row or a row group that the table has not, is refused.
//! * Output ([`Output`]): how far it came, what was counted, then record batches or a partial aggregate.
//!
//! How far it came: a slot may be too short for all rows that qualify. The scan then ends before the first row that does not fit, and
//! the rest is another item's. So a caller chooses the memory that a job takes, whatever the data are. A slot of
//! [`Kernel::dst_len`] bytes fits all.
//!
//! A row group is read through a cache, so the first job that needs it waits for the file. Unlike most kernels this
//! one allocates: some vectors for each row group. A row group takes tens of microseconds at least.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::num::NonZeroU32;
use std::ops::ControlFlow;
use std::sync::{Arc, OnceLock};

use arrow_array::RecordBatch;
use arrow_schema::{DataType, SchemaRef};
use dpb_core::lift::OneKernel;
use dpb_core::{
    Backend, Batch, BatchOut, JobError, Kernel, Limits, OutputShape, ParameterValue, SetupError,
    Spec, Unsupported,
};

use super::ScanError;
use super::aggregate::Partial;
use super::group_scan::GroupScan;
use super::kernels::Kernels;
use super::layout::GAPS_PART;
use super::memory::Memory;
use super::output::NUMBER;
pub use super::output::Output;
use super::plan::{Plan, TABLES_BYTES_MAX, Target};
use super::rows::Sink;
use crate::query::{Query, sql};
use crate::schema::{ColumnType, Schema};
use crate::table::cache::Cache;
use crate::table::chunk::Encoding;
use crate::table::segment::Segment;

/// The name of the operator.
pub const NAME: &str = "scan";

/// Rows of a batch, at most. A batch that is copied out at once may be small enough for a cache.
pub(crate) const BATCH_ROWS: usize = 16 << 10;
/// `EIO`: what a job's error says of a table that cannot be read, or is damaged.
const UNREADABLE: i32 = 5;
/// `ENOMEM`: what a job's error says of an aggregate with too many groups for the memory that it may take.
pub(super) const NO_MEMORY: i32 = 12;
/// Nanoseconds that a row takes on a slow path, its check by the reference evaluator included.
const ROW_NS: usize = 1000;

/// A query over a table: the spec of the operator `scan`.
#[derive(Clone)]
pub struct Scan {
    segment: Arc<Segment>,
    query: Arc<Query>,
    plan: Arc<Plan>,
    share: Share,
    /// The texts that equality and hash go by, once they are asked for.
    identity: OnceLock<(String, String)>,
}

/// The cache that a scan shares with others, and the bounds of what it may take.
#[derive(Clone, Debug)]
pub struct Share {
    /// The cache that row groups are read through; none for one of its own, which the whole table fits.
    pub cache: Option<Arc<Cache>>,
    /// Rows of a batch, at most.
    pub batch_rows: usize,
    /// Batches of an output, at most.
    pub batches_max: usize,
    /// For the groups of an aggregate, bytes.
    pub group_bytes: usize,
}

impl Default for Share {
    fn default() -> Self {
        Self {
            cache: None,
            batch_rows: BATCH_ROWS,
            batches_max: usize::MAX,
            group_bytes: usize::MAX,
        }
    }
}

impl Scan {
    /// `query` over the table of `segment`.
    ///
    /// # Errors
    /// If the query does not fit the table, or has a limit.
    pub fn new(segment: Arc<Segment>, query: Query) -> Result<Self, SetupError> {
        let schema = segment.schema();
        let wrong = |why: &dyn fmt::Display| SetupError::Parameter(format!("{NAME}: {why}"));
        query.check(schema).map_err(|error| wrong(&error))?;
        if query.limit.is_some() {
            return Err(wrong(&"a limit is a whole scan's, and not one of an item"));
        }
        let plan = Plan::new(schema, &query).map_err(|error| wrong(&error))?;
        Ok(Self::of_plan(
            Arc::new(plan),
            segment,
            Arc::new(query),
            Share::default(),
        ))
    }

    /// A query whose plan was made already, with `share`.
    pub fn of_plan(
        plan: Arc<Plan>,
        segment: Arc<Segment>,
        query: Arc<Query>,
        share: Share,
    ) -> Self {
        Self {
            segment,
            query,
            plan,
            share,
            identity: OnceLock::new(),
        }
    }

    /// The same with a name for the query in lists and records, instead of its SQL: `q6`. Specs of one table are equal if these
    /// names are, so a name must say exactly what is asked.
    #[must_use]
    pub fn named(self, query: &str) -> Self {
        let identity = (self.segment.identity(), query.to_owned());
        Self {
            identity: identity.into(),
            ..self
        }
    }

    /// The table.
    pub fn segment(&self) -> &Arc<Segment> {
        &self.segment
    }

    /// The query.
    pub fn query(&self) -> &Query {
        &self.query
    }

    /// The query made ready, for the best instruction set unless made otherwise.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// The share.
    pub fn share(&self) -> &Share {
        &self.share
    }

    fn identity(&self) -> &(String, String) {
        self.identity.get_or_init(|| {
            let schema = self.segment.schema();
            let query = sql::query_to_sql(&self.query, schema, &schema.table);
            (self.segment.identity(), query)
        })
    }

    /// The kernel on an instruction set: `portable`, `avx2`, `avx512`, `neon`.
    ///
    /// # Errors
    /// If this CPU does not have it.
    pub fn kernel(&self, instruction_set: &str) -> Result<ScanKernel, SetupError> {
        let mut sets = Kernels::available().iter();
        let kernels = sets.find(|kernels| kernels.name() == instruction_set);
        let kernels = kernels.ok_or_else(|| {
            let reason = format!("{NAME} has no {instruction_set} path on this CPU");
            SetupError::Unsupported(Unsupported { reason })
        })?;
        let wrong = |error: ScanError| SetupError::Parameter(format!("{NAME}: {error}"));
        let schema = self.segment.schema();
        let plan = match self.plan.kernels.name() == instruction_set {
            true => Arc::clone(&self.plan),
            false => {
                let plan = Plan::with_kernels(kernels, schema, &self.query, TABLES_BYTES_MAX);
                Arc::new(plan.map_err(wrong)?)
            }
        };
        Ok(self.kernel_of(plan))
    }

    /// The kernel of `plan`, which is the query's.
    fn kernel_of(&self, plan: Arc<Plan>) -> ScanKernel {
        let own_cache = || Arc::new(Cache::new(self.segment.file_bytes()));
        ScanKernel {
            text_bytes: OnceLock::new(),
            segment: Arc::clone(&self.segment),
            cache: self.share.cache.clone().unwrap_or_else(own_cache),
            memory: Arc::new(Memory::new(self.share.group_bytes)),
            batch_rows: self.share.batch_rows,
            batches_max: self.share.batches_max,
            plan,
        }
    }
}

impl Spec for Scan {
    fn name(&self) -> &str {
        NAME
    }

    fn parameters(&self) -> Vec<(&str, ParameterValue)> {
        let (table, query) = self.identity();
        vec![
            ("table", table.as_str().into()),
            ("query", query.as_str().into()),
        ]
    }

    fn cost_bytes(&self) -> usize {
        group_rows_max(&self.segment) * ROW_NS
    }
}

impl PartialEq for Scan {
    fn eq(&self, other: &Self) -> bool {
        self.identity() == other.identity()
    }
}

impl Eq for Scan {}

impl Hash for Scan {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.identity().hash(state);
    }
}

impl fmt::Debug for Scan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (table, query) = self.identity();
        f.debug_struct("Scan")
            .field("table", table)
            .field("query", query)
            .finish()
    }
}

/// A [`Scan`] made ready.
pub struct ScanKernel {
    plan: Arc<Plan>,
    segment: Arc<Segment>,
    cache: Arc<Cache>,
    /// For groups.
    memory: Arc<Memory>,
    batch_rows: usize,
    batches_max: usize,
    /// Bytes of the texts of a row of the result, at most, once that is asked for.
    text_bytes: OnceLock<usize>,
}

/// The state with which a thread scans.
pub struct Scratch {
    scan: GroupScan,
}

/// The slot of an item, as it fills.
struct Slot<'a> {
    bytes: &'a mut [u8],
    at: usize,
    batches_left: usize,
    is_too_short: bool,
}

impl Sink for Slot<'_> {
    fn memory(&mut self) -> &mut [u8] {
        match self.batches_left {
            0 => &mut [],
            _ => &mut self.bytes[self.at..],
        }
    }

    fn filled(&mut self, bytes: usize, _rows: usize) -> Result<ControlFlow<()>, ScanError> {
        self.at += bytes;
        self.batches_left -= 1;
        Ok(match self.batches_left {
            0 => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        })
    }

    fn grow(&mut self, _bytes: usize) -> ControlFlow<()> {
        // What lies there already is an output, and the rest another item's.
        self.is_too_short = self.at == 0;
        ControlFlow::Break(())
    }
}

impl ScanKernel {
    fn group_scan(&self) -> GroupScan {
        GroupScan::within(
            &self.plan,
            &self.segment,
            &self.cache,
            self.batch_rows,
            &self.memory,
        )
    }

    /// Writes what comes of the row groups that `item` names into `slot`; says how many bytes.
    fn scan(
        &self,
        item: &[u8],
        slot: &mut [u8],
        Scratch { scan }: &mut Scratch,
    ) -> Result<Result<u32, JobError>, ScanError> {
        let Some((row, groups)) = row_groups(item, &self.segment) else {
            return Ok(Err(JobError::Malformed));
        };
        let head_bytes = Output::head_bytes(self.plan.names.len());
        let Some((head, body)) = slot.split_at_mut_checked(head_bytes) else {
            return Ok(Err(JobError::DstTooShort));
        };
        let mut slot = Slot {
            bytes: body,
            at: 0,
            batches_left: self.batches_max,
            is_too_short: false,
        };
        let (mut first, mut done) = (row, 0);
        let mut stopped_at = None;
        for group in groups {
            stopped_at = scan.scan_from(group, first, &mut slot)?;
            if stopped_at.is_some() {
                break;
            }
            (first, done) = (0, done + 1);
        }
        if stopped_at.is_none() {
            let _last = scan.flush(&mut slot)?;
        }
        if let Some((aggregation, partial)) = scan.take_partial() {
            match aggregation.write(&partial, slot.bytes)? {
                Some(bytes) => slot.at = bytes,
                None => slot.is_too_short = true,
            }
        }
        let bytes = head_bytes + slot.at;
        if slot.is_too_short {
            return Ok(Err(JobError::DstTooShort));
        }
        Output::write_head(head, done, stopped_at.unwrap_or(0), scan.stats_mut());
        Ok(u32::try_from(bytes).map_err(|_| JobError::TooLong))
    }

    /// Bytes of the texts of a row of the result, at most.
    fn text_bytes(&self) -> usize {
        *self.text_bytes.get_or_init(|| {
            let schema = self.segment.schema();
            let texts = match &self.plan.target {
                Target::Rows(columns) => columns
                    .iter()
                    .copied()
                    .filter(|&column| schema.columns[column].ty == ColumnType::Text)
                    .collect(),
                Target::Aggregate(aggregation) => aggregation.text_columns(schema),
            };
            let mut longest = vec![0; texts.len()];
            for (group, meta) in self.segment.groups().iter().enumerate() {
                for (longest, &column) in longest.iter_mut().zip(&texts) {
                    let chunk = &meta.chunks[column];
                    let of_group = match chunk.encoding {
                        // The footer knows.
                        Encoding::Text => chunk.max as usize,
                        // Of one that cannot be read no text is longer than all of it; its scan says what is wrong.
                        _ => match self.segment.chunk(group, column, &self.cache) {
                            Ok(chunk) => chunk.longest_text(),
                            Err(_) => chunk.len as usize,
                        },
                    };
                    *longest = of_group.max(*longest);
                }
            }
            longest.iter().sum()
        })
    }
}

impl Kernel for ScanKernel {
    type Scratch = Scratch;

    fn scratch(&self) -> Scratch {
        Scratch {
            scan: self.group_scan(),
        }
    }

    fn shape(&self) -> OutputShape {
        OutputShape::Variable
    }

    fn dst_len(&self, item_len: usize) -> usize {
        let rows = item_len / NUMBER * group_rows_max(&self.segment);
        let body = match &self.plan.target {
            Target::Rows(_) => {
                let fields = self.plan.output_schema().fields().iter();
                let fixed: usize = fields
                    .map(|field| match field.data_type() {
                        DataType::Utf8 => size_of::<i32>(),
                        ty => ty.primitive_width().unwrap_or(0),
                    })
                    .sum();
                let row_bytes = fixed + self.text_bytes();
                let batches = rows.div_ceil(self.batch_rows.max(1)) + 1;
                let values = rows * row_bytes;
                let beside = self.plan.message_bytes + row_bytes;
                batches.min(self.batches_max) * beside + values + values / GAPS_PART
            }
            Target::Aggregate(aggregation) => {
                aggregation.written_bytes(aggregation.groups_max(rows), self.text_bytes())
            }
        };
        Output::head_bytes(self.plan.names.len()) + body
    }

    fn run(
        &self,
        batch: Batch<'_>,
        out: BatchOut<'_>,
        scratch: &mut Scratch,
    ) -> Result<(), JobError> {
        let mut failed = None;
        out.each_outcome(batch, |item, slot| {
            let done = self.scan(item, slot, scratch);
            if !matches!(done, Ok(Ok(_))) {
                // What an item that failed has left must not become another's.
                scratch.scan = self.group_scan();
            }
            done.unwrap_or_else(|error| {
                match error {
                    ScanError::Segment(_) => failed = Some(UNREADABLE),
                    ScanError::Memory(_) => failed = Some(NO_MEMORY),
                    _ => {}
                }
                Err(JobError::Malformed)
            })
        });
        match failed {
            Some(code) => Err(JobError::Device(code)),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for ScanKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScanKernel")
            .field("table", &self.segment.identity())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Scratch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.scan.fmt(f)
    }
}

/// Appends an item: the scan of `groups`, from `row` of the first one on.
pub fn write_item(item: &mut Vec<u8>, row: usize, groups: impl IntoIterator<Item = usize>) {
    let numbers = std::iter::once(row).chain(groups);
    item.extend(numbers.flat_map(|number| (number as u32).to_le_bytes()));
}

/// The row that an item begins at, and its row groups; `None` if it is malformed.
pub fn row_groups(item: &[u8], segment: &Segment) -> Option<(usize, impl Iterator<Item = usize>)> {
    let number = |bytes: &[u8; NUMBER]| u32::from_le_bytes(*bytes) as usize;
    let ([row, groups @ ..], []) = item.as_chunks::<NUMBER>() else {
        return None;
    };
    let rows = |group: &[u8; NUMBER]| Some(segment.groups().get(number(group))?.rows as usize);
    let row = number(row);
    let is_there = match groups.first() {
        Some(first) => row < rows(first)?,
        None => row == 0,
    };
    let is_right = is_there && groups.iter().all(|group| rows(group).is_some());
    is_right.then(|| (row, groups.iter().map(number)))
}

/// The aggregate over several items, of the partial aggregates that they gave.
#[derive(Debug)]
pub struct Merged {
    plan: Arc<Plan>,
    partial: Partial,
    memory: Memory,
}

impl Merged {
    /// Of no item yet; its groups take so much memory at most.
    pub fn new(plan: &Arc<Plan>, group_bytes: usize) -> Self {
        Self {
            plan: Arc::clone(plan),
            partial: Partial::default(),
            memory: Memory::new(group_bytes),
        }
    }

    /// The aggregate `query` over parts of a table of `schema`, of no part yet; its groups take so much memory at most.
    ///
    /// # Errors
    /// If the query does not fit the table, or is no aggregate.
    pub fn of_query(schema: &Schema, query: &Query, group_bytes: usize) -> Result<Self, ScanError> {
        let checked = query.check(schema);
        checked.map_err(|error| ScanError::Type(error.to_string()))?;
        let plan = Plan::new(schema, query)?;
        match plan.target {
            Target::Aggregate(_) => Ok(Self::new(&Arc::new(plan), group_bytes)),
            Target::Rows(_) => Err(ScanError::Type("rows are not merged".to_owned())),
        }
    }

    /// The schema of the result.
    pub fn output_schema(&self) -> &SchemaRef {
        self.plan.output_schema()
    }

    /// Takes in the body of an output; says how many groups it has.
    ///
    /// # Errors
    /// If it is no partial aggregate of this query, there are too many groups, or a sum is out of range.
    pub fn add(&mut self, body: &[u8]) -> Result<usize, ScanError> {
        let Target::Aggregate(aggregation) = &self.plan.target else {
            return Err(ScanError::Internal("rows are not merged"));
        };
        let partial = aggregation.read(body)?;
        let groups = partial.groups();
        aggregation.merge(&mut self.partial, partial, &self.memory)?;
        Ok(groups)
    }

    /// What [`Merged::add`] of another one takes, and the number of its groups.
    pub(super) fn to_bytes(&self) -> Result<(Vec<u8>, usize), ScanError> {
        let Target::Aggregate(aggregation) = &self.plan.target else {
            return Err(ScanError::Internal("rows are not merged"));
        };
        Ok((aggregation.to_bytes(&self.partial)?, self.partial.groups()))
    }

    /// The result, of as many groups as the query's limit says.
    ///
    /// # Errors
    /// If a number of it is out of range.
    pub fn finish(self) -> Result<RecordBatch, ScanError> {
        let Target::Aggregate(aggregation) = &self.plan.target else {
            return Err(ScanError::Internal("rows are not merged"));
        };
        let output = Arc::clone(self.plan.output_schema());
        Ok(self.plan.cut(aggregation.finish(output, self.partial)?))
    }

    /// Takes in what another one of the same query has.
    ///
    /// # Errors
    /// If there are too many groups, or a sum is out of range.
    pub fn merge(&mut self, other: Self) -> Result<(), ScanError> {
        let Target::Aggregate(aggregation) = &self.plan.target else {
            return Err(ScanError::Internal("rows are not merged"));
        };
        if self.plan.output_schema() != other.plan.output_schema() {
            return Err(ScanError::Type(
                "what is added up is the aggregate of another query".to_owned(),
            ));
        }
        aggregation.merge(&mut self.partial, other.partial, &self.memory)
    }
}

/// The scan on the cores of whoever submits, on the instruction set that its plan was made for: the backend of programs that have no
/// other. Its only operator is [`Scan`], and a queue of it takes any number of jobs.
pub fn own_cores() -> impl Backend {
    OneKernel::of_operator("cpu", NAME, |scan: &Scan| {
        Ok(scan.kernel_of(Arc::clone(&scan.plan)))
    })
    .with_limits(Limits::new(NonZeroU32::MAX))
}

/// Rows of the largest row group.
fn group_rows_max(segment: &Segment) -> usize {
    let rows = segment.groups().iter().map(|group| group.rows as usize);
    rows.max().unwrap_or(0)
}
