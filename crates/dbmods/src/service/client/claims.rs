//! What an agent may claim. Its words are checked, against what this side knows of TPC-H and against what arrived, before
//! anybody uses them: an index that is used, a figure that becomes part of a record. Of its own tables an agent alone knows the
//! columns and rows; what it has said of them holds for its scans.

use arrow_array::RecordBatch;
use arrow_schema::{DataType, SchemaRef};
use dpb_link::LinkError;

use crate::ipc::COLUMNS_MAX;
use crate::query::{Output, Predicate};
use crate::scan;
use crate::schema::{ColumnType, Schema};
use crate::service::protocol::{DataSet, End, ScanRequest, TableInfo, Usage};
use crate::table::values::STRING_BYTES_MAX;
use crate::tpch;

/// Seconds that a process may have used: three hundred years of a CPU.
const USED_S_MAX: f64 = 1e10;
/// Memory that a process may have, bytes.
const MEMORY_BYTES_MAX: u64 = 1 << 50;
/// Bytes of a text value, in a batch on average at most; TPC-H's longest texts have 199.
const TEXT_BYTES_MAX: usize = 256;
/// Rows of a table that an agent was given, at most: a client waits for a scan as long as they may take.
const GIVEN_ROWS_MAX: u64 = 1 << 40;
/// Bytes of a batch beside its values, for each column and in all.
const FRAMING_BYTES: (usize, usize) = (512, 4096);

fn disbelieve(claim: impl Into<String>) -> LinkError {
    LinkError::Disbelieved(claim.into())
}

/// Tables are of the data set that was asked for, if one was. Tables of TPC-H are those that the generator makes, with their columns
/// and as many rows. Others are such that a segment can hold them, with names that a terminal can show.
pub(super) fn tables(tables: &[TableInfo], asked: Option<&DataSet>) -> Result<(), LinkError> {
    tables.iter().try_for_each(|table| {
        if asked.is_some_and(|asked| *asked != table.data) {
            return Err(disbelieve("a table of another data set than was asked for"));
        }
        match table.data.scale_factor() {
            Some(sf) => made(table, sf),
            None => given(table),
        }
    })
}

fn made(TableInfo { schema, rows, .. }: &TableInfo, sf: f64) -> Result<(), LinkError> {
    if tpch::schema(&schema.table).as_ref() != Some(schema) {
        return Err(disbelieve(
            "a table has other columns than dpb makes: install the same dpb on both sides",
        ));
    }
    let made = tpch::row_count(&schema.table, sf);
    if !made.as_ref().is_some_and(|made| made.contains(rows)) {
        return Err(disbelieve(format!(
            "{} at scale factor {sf} has {rows} rows, where the generator makes {}",
            schema.table,
            made.map_or(0, |made| *made.end())
        )));
    }
    Ok(())
}

fn given(TableInfo { schema, rows, .. }: &TableInfo) -> Result<(), LinkError> {
    let is_type = |ty| match ty {
        ColumnType::Decimal { precision, scale } => {
            (1..=18).contains(&precision) && scale <= precision
        }
        _ => true,
    };
    let is_name = |name: &str| !name.is_empty() && !name.chars().any(char::is_control);
    let columns = &schema.columns;
    let fits = (1..=COLUMNS_MAX).contains(&columns.len())
        && is_name(&schema.table)
        && columns
            .iter()
            .all(|column| is_name(&column.name) && is_type(column.ty))
        && *rows <= GIVEN_ROWS_MAX;
    match fits {
        true => Ok(()),
        false => Err(disbelieve("it has a table that no segment can hold")),
    }
}

/// A predicate fits its table, and a share is one.
pub(super) fn picked(
    schema: Option<&Schema>,
    predicate: &Predicate,
    share: f64,
) -> Result<(), LinkError> {
    let schema = schema.ok_or_else(|| disbelieve("a predicate on no table"))?;
    let fits = predicate.check(schema);
    let table = &schema.table;
    fits.map_err(|why| disbelieve(format!("its predicate does not fit {table}: {why}")))?;
    if !(0.0..=1.0).contains(&share) {
        return Err(disbelieve(format!("{share} is a share of its rows")));
    }
    Ok(())
}

/// Figures are such that a record can hold them.
pub(super) fn usage(usage: &Usage) -> Result<(), LinkError> {
    let seconds = [usage.cpu_s, usage.core_wait_s.unwrap_or(0.0)];
    let in_range = seconds.iter().all(|used| (0.0..=USED_S_MAX).contains(used));
    if !in_range || usage.peak_bytes.max(usage.resident_bytes) > MEMORY_BYTES_MAX {
        return Err(disbelieve(format!("its process has used {usage:?}")));
    }
    Ok(())
}

/// A file came whole.
pub(super) fn fetched(end: &End, pieces: u64, bytes: u64) -> Result<(), LinkError> {
    if (end.batches, end.bytes_read) != (pieces, bytes) || end.stopped {
        return Err(disbelieve(format!(
            "it sent {} bytes in {} pieces, where {bytes} came in {pieces}",
            end.bytes_read, end.batches
        )));
    }
    Ok(())
}

/// The bounds of a scan's answer, and the counts of what has arrived.
pub(super) struct Arriving {
    /// `None` if the query is wrong, which the agent is to say.
    schema: Option<SchemaRef>,
    table_rows: u64,
    rows_max: u64,
    row_bytes_max: usize,
    rows: u64,
    batches: u64,
    is_partial: bool,
    partials: u64,
    /// True if a partial aggregate came whose groups could not be counted.
    is_uncounted: bool,
}

impl Arriving {
    /// The answer to `request`, of a table with these columns and at most so many rows.
    pub(super) fn of(request: &ScanRequest, table: Option<&Schema>, table_rows: u64) -> Self {
        let query = &request.query;
        let schema = table.and_then(|table| scan::output_schema(table, query).ok());
        let text_bytes_max = match request.data.scale_factor() {
            Some(_) => TEXT_BYTES_MAX,
            None => STRING_BYTES_MAX,
        };
        let fields = schema.iter().flat_map(|schema| schema.fields());
        let widths = fields.map(|field| match field.data_type() {
            DataType::Utf8 => size_of::<i32>() + text_bytes_max,
            ty => ty.primitive_width().unwrap_or(size_of::<i128>()),
        });
        let rows_max = match &query.output {
            Output::Aggregate(aggregate) if aggregate.group_by.is_empty() => 1,
            _ => table_rows,
        };
        // A partial aggregate has all groups: who adds it up cuts the result.
        let limit = query.limit.filter(|_| !request.partial);
        let rows_max = rows_max.min(limit.unwrap_or(u64::MAX));
        Self {
            // A byte more than what is valid.
            row_bytes_max: widths.map(|width| width + 1).sum(),
            schema,
            table_rows,
            rows_max,
            rows: 0,
            batches: 0,
            is_partial: request.partial,
            partials: 0,
            is_uncounted: false,
        }
    }

    pub(super) fn schema(&self, schema: &SchemaRef) -> Result<(), LinkError> {
        if self.schema.as_ref() != Some(schema) {
            return Err(disbelieve(
                "its rows have other columns than were asked for",
            ));
        }
        Ok(())
    }

    /// Takes a batch that came in so many bytes.
    pub(super) fn batch(&mut self, batch: &RecordBatch, bytes: usize) -> Result<(), LinkError> {
        self.batches += 1;
        self.count(batch.num_rows())?;
        let framing = FRAMING_BYTES.0 * batch.num_columns() + FRAMING_BYTES.1;
        if bytes > framing + batch.num_rows() * self.row_bytes_max {
            return Err(disbelieve(format!(
                "a batch of {} rows has {bytes} bytes",
                batch.num_rows()
            )));
        }
        Ok(())
    }

    /// Takes a partial aggregate of so many groups; `None` if they could not be counted.
    pub(super) fn partial(&mut self, groups: Option<usize>) -> Result<(), LinkError> {
        self.batches += 1;
        self.partials += 1;
        if self.partials > 1 {
            return Err(disbelieve("one scan has two partial aggregates"));
        }
        match groups {
            Some(groups) => self.count(groups),
            None => {
                self.is_uncounted = true;
                Ok(())
            }
        }
    }

    fn count(&mut self, rows: usize) -> Result<(), LinkError> {
        self.rows += rows as u64;
        match self.rows > self.rows_max {
            true => Err(disbelieve(format!(
                "more than {} rows come of a table of {}",
                self.rows_max, self.table_rows
            ))),
            false => Ok(()),
        }
    }

    pub(super) fn end(&self, end: &End, stopped: bool) -> Result<(), LinkError> {
        let rows = match self.is_uncounted {
            true => end.rows,
            false => self.rows,
        };
        let came = (rows, self.batches);
        if self.is_partial && self.partials == 0 && !stopped {
            return Err(disbelieve(
                "a scan without the partial aggregate that was asked for",
            ));
        }
        if !stopped && (end.stopped || (end.rows, end.batches) != came) {
            return Err(disbelieve(format!(
                "it sent {} rows in {} batches, where {} came in {}",
                end.rows, end.batches, came.0, came.1
            )));
        }
        let counts = [end.tuples_scanned, end.blocks_scanned, end.blocks_skipped];
        if counts.iter().any(|&count| count > self.table_rows) {
            return Err(disbelieve(format!(
                "it looked at {counts:?} rows and blocks of a table of {} rows",
                self.table_rows
            )));
        }
        Ok(())
    }
}
