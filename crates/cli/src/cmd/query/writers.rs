//! Rows in each format, batch by batch.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal64Type, Decimal128Type};
use arrow_array::{ArrayRef, Decimal128Array, RecordBatch};
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use dpb_core::printable;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;

use super::cells::{Cells, is_json_number, is_number};
use super::format::Format;
use crate::exit::Failure;

/// Rows by which the widths of a table's columns are chosen: those of a first batch.
const WIDTH_ROWS: usize = 1000;
/// Rows of a Parquet file's row group, as DuckDB makes them.
const GROUP_ROWS: usize = 122_880;

/// The place that bytes go to.
type Sink = Box<dyn Write + Send>;

/// Writes batches of one schema.
pub(super) trait RowWriter: Send {
    /// Writes a batch; what is text has left this process then.
    fn write(&mut self, batch: &RecordBatch) -> io::Result<()>;

    /// Writes what is left.
    fn finish(self: Box<Self>) -> io::Result<()>;
}

/// Begins to write rows of `schema`.
///
/// # Errors
/// Columns that the format cannot have.
pub(super) fn open(
    format: Format,
    null: &str,
    to: Sink,
    schema: &SchemaRef,
) -> Result<Box<dyn RowWriter>, Failure> {
    let failed = |error: &dyn std::fmt::Display| {
        Failure::check(format!("cannot begin to write the rows: {error}"))
    };
    match format {
        Format::Json => check_names(schema, "an object")?,
        Format::Parquet => check_names(schema, "a Parquet file")?,
        Format::Table | Format::Csv | Format::Arrow => {}
    }
    Ok(match format {
        Format::Table => Box::new(TableWriter {
            to,
            schema: Arc::clone(schema),
            widths: None,
        }),
        Format::Csv => Box::new(CsvWriter {
            null: null.to_owned(),
            to,
            header: Some(header(schema)),
        }),
        Format::Json => Box::new(JsonWriter {
            to,
            keys: keys(schema),
            is_number: schema
                .fields()
                .iter()
                .map(|f| is_json_number(f.data_type()))
                .collect(),
        }),
        Format::Arrow => {
            let schema = wide_schema(schema);
            let writer = StreamWriter::try_new(to, &schema).map_err(|error| failed(&error))?;
            Box::new(StreamOfBatches { writer, schema })
        }
        Format::Parquet => {
            let schema = wide_schema(schema);
            let properties = WriterProperties::builder()
                .set_compression(Compression::SNAPPY)
                .set_max_row_group_row_count(Some(GROUP_ROWS))
                .build();
            let writer = ArrowWriter::try_new(to, Arc::clone(&schema), Some(properties));
            Box::new(ParquetFile {
                writer: writer.map_err(|error| failed(&error))?,
                schema,
            })
        }
    })
}

/// Aligned columns. Widths are those of the first rows; a longer value moves the rest of its line.
struct TableWriter {
    to: Sink,
    schema: SchemaRef,
    /// Known once the first rows are.
    widths: Option<Vec<usize>>,
}

impl TableWriter {
    fn line(&mut self, cells: &[String]) -> io::Result<()> {
        let widths = self.widths.as_deref().unwrap_or_default();
        let mut line = String::new();
        for ((cell, &wide), field) in cells.iter().zip(widths).zip(self.schema.fields()) {
            let blank = " ".repeat(wide.saturating_sub(cell.chars().count()));
            match is_number(field.data_type()) {
                true => line.extend([&blank, cell.as_str(), "  "]),
                false => line.extend([cell.as_str(), &blank, "  "]),
            }
        }
        writeln!(self.to, "{}", line.trim_end())
    }

    /// Chooses widths and writes the header.
    fn begin(&mut self, rows: &[Vec<String>]) -> io::Result<()> {
        let names: Vec<String> = self
            .schema
            .fields()
            .iter()
            .map(|field| printable(field.name(), usize::MAX))
            .collect();
        let width = |column: usize| {
            let cells = rows.iter().take(WIDTH_ROWS).map(|row| &row[column]);
            cells
                .chain([&names[column]])
                .map(|cell| cell.chars().count())
                .max()
        };
        self.widths = Some((0..names.len()).map(|at| width(at).unwrap_or(0)).collect());
        self.line(&names)
    }
}

impl RowWriter for TableWriter {
    fn write(&mut self, batch: &RecordBatch) -> io::Result<()> {
        let columns = Cells::of(batch);
        let row = |row: usize| -> Vec<String> {
            let cells = columns.iter().map(|column| {
                let mut cell = String::new();
                match column.is_null(row) {
                    true => cell.push_str("NULL"),
                    false => column.write(row, &mut cell),
                }
                // What a terminal would act on is escaped.
                printable(&cell, usize::MAX)
            });
            cells.collect()
        };
        let rows: Vec<Vec<String>> = (0..batch.num_rows()).map(row).collect();
        if self.widths.is_none() {
            self.begin(&rows)?;
        }
        rows.iter().try_for_each(|row| self.line(row))?;
        self.to.flush()
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        if self.widths.is_none() {
            self.begin(&[])?;
        }
        self.to.flush()
    }
}

/// RFC 4180, with `\n` at the end of a line. NULL is nothing, or the text that was asked for; a value that is as this text stands between quotes, so an empty text is
/// a pair of them.
struct CsvWriter {
    null: String,
    to: Sink,
    /// Until it is written.
    header: Option<String>,
}

fn header(schema: &Schema) -> String {
    let mut line = String::new();
    for (at, field) in schema.fields().iter().enumerate() {
        line.push_str(if at > 0 { "," } else { "" });
        quoted(field.name(), "", &mut line);
    }
    line + "\n"
}

/// Appends a text, between quotes if it must be, or is the text of a NULL.
fn quoted(text: &str, null: &str, to: &mut String) {
    if text != null && !text.is_empty() && !text.contains(['"', ',', '\n', '\r']) {
        to.push_str(text);
        return;
    }
    to.push('"');
    to.push_str(&text.replace('"', "\"\""));
    to.push('"');
}

impl RowWriter for CsvWriter {
    fn write(&mut self, batch: &RecordBatch) -> io::Result<()> {
        let columns = Cells::of(batch);
        let mut text = self.header.take().unwrap_or_default();
        for row in 0..batch.num_rows() {
            for (at, column) in columns.iter().enumerate() {
                text.push_str(if at > 0 { "," } else { "" });
                match column.text(row) {
                    _ if column.is_null(row) => text.push_str(&self.null),
                    Some(value) => quoted(value, &self.null, &mut text),
                    None => column.write(row, &mut text),
                }
            }
            text.push('\n');
        }
        self.to.write_all(text.as_bytes())?;
        self.to.flush()
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        let header = self.header.take().unwrap_or_default();
        self.to.write_all(header.as_bytes())?;
        self.to.flush()
    }
}

/// An object a line.
struct JsonWriter {
    to: Sink,
    /// `{"a":`, `,"b":`.
    keys: Vec<String>,
    is_number: Vec<bool>,
}

/// Refuses two columns of one name, of which readers would lose one.
fn check_names(schema: &Schema, whole: &str) -> Result<(), Failure> {
    let mut seen = BTreeSet::new();
    let names = schema.fields().iter().map(|field| field.name());
    match names.into_iter().find(|name| !seen.insert(*name)) {
        None => Ok(()),
        Some(name) => Err(Failure::usage(format!(
            "two columns are called {name}, and {whole} has each name once: ask for --format csv, or name one with AS",
        ))),
    }
}

/// The name and punctuation before each value of an object.
fn keys(schema: &Schema) -> Vec<String> {
    let fields = schema.fields().iter().enumerate();
    let keys = fields.map(|(at, field)| {
        let name = serde_json::to_string(field.name()).expect("a text is JSON");
        format!("{}{name}:", if at == 0 { '{' } else { ',' })
    });
    keys.collect()
}

impl RowWriter for JsonWriter {
    fn write(&mut self, batch: &RecordBatch) -> io::Result<()> {
        let columns = Cells::of(batch);
        let (mut lines, mut value) = (String::new(), String::new());
        for row in 0..batch.num_rows() {
            for ((column, key), &is_number) in columns.iter().zip(&self.keys).zip(&self.is_number) {
                lines.push_str(key);
                if column.is_null(row) {
                    lines.push_str("null");
                    continue;
                }
                value.clear();
                column.write(row, &mut value);
                match is_number {
                    // JSON has no number for them.
                    true if ["inf", "-inf", "NaN"].contains(&value.as_str()) => {
                        lines.push_str("null");
                    }
                    true => lines.push_str(&value),
                    false => lines.push_str(&serde_json::to_string(&value)?),
                }
            }
            lines.push_str("}\n");
        }
        self.to.write_all(lines.as_bytes())?;
        self.to.flush()
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        self.to.flush()
    }
}

/// Arrow's IPC stream.
struct StreamOfBatches {
    writer: StreamWriter<Sink>,
    schema: SchemaRef,
}

impl RowWriter for StreamOfBatches {
    fn write(&mut self, batch: &RecordBatch) -> io::Result<()> {
        let batch = wide(batch, &self.schema).map_err(of_arrow)?;
        self.writer.write(&batch).map_err(of_arrow)?;
        self.writer.flush().map_err(of_arrow)
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        self.writer.finish().map_err(of_arrow)?;
        self.writer.flush().map_err(of_arrow)
    }
}

/// A Parquet file; rows leave once a row group is full.
struct ParquetFile {
    writer: ArrowWriter<Sink>,
    schema: SchemaRef,
}

impl RowWriter for ParquetFile {
    fn write(&mut self, batch: &RecordBatch) -> io::Result<()> {
        let batch = wide(batch, &self.schema).map_err(of_arrow)?;
        self.writer.write(&batch).map_err(of_parquet)
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        self.writer.finish().map_err(of_parquet)?;
        self.writer.inner_mut().flush()
    }
}

/// The schema with decimals of 128 bits: of 64 bits not every reader of Arrow knows them.
fn wide_schema(schema: &Schema) -> SchemaRef {
    let fields = schema.fields().iter().map(|field| match field.data_type() {
        DataType::Decimal64(precision, scale) => Arc::new(Field::new(
            field.name(),
            DataType::Decimal128(*precision, *scale),
            field.is_nullable(),
        )),
        _ => Arc::clone(field),
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// The batch with the types of [`wide_schema`].
fn wide(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let columns = batch.columns().iter().map(|column| {
        let DataType::Decimal64(precision, scale) = column.data_type() else {
            return Ok(Arc::clone(column));
        };
        let narrow = column.as_primitive::<Decimal64Type>();
        let wide: Decimal128Array = narrow.unary::<_, Decimal128Type>(i128::from);
        let wide = wide.with_precision_and_scale(*precision, *scale)?;
        Ok(Arc::new(wide) as ArrayRef)
    });
    let columns = columns.collect::<Result<Vec<_>, ArrowError>>()?;
    RecordBatch::try_new(Arc::clone(schema), columns)
}

/// The error of the sink that a writer of Arrow's wraps.
fn of_arrow(error: ArrowError) -> io::Error {
    match error {
        ArrowError::IoError(_, error) => error,
        other => io::Error::other(other),
    }
}

/// The same of a writer of Parquet.
fn of_parquet(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(error) => match error.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(other) => io::Error::other(other),
        },
        other => io::Error::other(other),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use arrow_array::{Date32Array, Decimal64Array, Float64Array, Int64Array, StringArray};

    use super::*;

    /// What was written.
    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn batch() -> RecordBatch {
        let cents = Decimal64Array::from(vec![Some(-5), Some(123_456), None]);
        let columns: [(&str, ArrayRef); 5] = [
            ("key", Arc::new(Int64Array::from(vec![1, -20, i64::MAX]))),
            (
                "price",
                Arc::new(cents.with_precision_and_scale(15, 2).unwrap()),
            ),
            ("day", Arc::new(Date32Array::from(vec![0, -1, 10_561]))),
            (
                "a \"text\"",
                Arc::new(StringArray::from(vec![Some("a,\"b\"\nc"), Some(""), None])),
            ),
            ("avg", Arc::new(Float64Array::from(vec![0.1, 1e300, 2.0]))),
        ];
        let columns = columns.map(|(name, column)| (name, column, true));
        RecordBatch::try_from_iter_with_nullable(columns).unwrap()
    }

    fn written(format: Format, batches: &[RecordBatch]) -> String {
        let to = Written::default();
        let schema = batch().schema();
        let mut writer =
            open(format, "", Box::new(to.clone()), &schema).unwrap_or_else(|e| panic!("{e}"));
        batches
            .iter()
            .for_each(|batch| writer.write(batch).unwrap());
        writer.finish().unwrap();
        let bytes = to.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn csv_quotes_what_must_be_quoted_and_tells_null_from_an_empty_text() {
        let expected = "key,price,day,\"a \"\"text\"\"\",avg\n\
                        1,-0.05,1970-01-01,\"a,\"\"b\"\"\nc\",0.1\n\
                        -20,1234.56,1969-12-31,\"\",1e300\n\
                        9223372036854775807,,1998-12-01,,2.0\n";
        assert_eq!(written(Format::Csv, &[batch()]), expected);
        let header = expected.lines().next().unwrap().to_owned() + "\n";
        assert_eq!(written(Format::Csv, &[]), header);
    }

    #[test]
    fn a_null_has_the_text_that_was_asked_for_and_no_value_looks_like_it() {
        let sums: ArrayRef = Arc::new(Int64Array::from(vec![None, Some(3)]));
        let batch = RecordBatch::try_from_iter_with_nullable([("sum", sums, true)]).unwrap();
        let texts: ArrayRef = Arc::new(StringArray::from(vec![None, Some("none")]));
        let texts = RecordBatch::try_from_iter_with_nullable([("t", texts, true)]).unwrap();
        for (batch, null, expected) in [
            (&batch, "", "sum\n\n3\n"),
            (&batch, "none", "sum\nnone\n3\n"),
            (&texts, "none", "t\nnone\n\"none\"\n"),
        ] {
            let to = Written::default();
            let writer = open(Format::Csv, null, Box::new(to.clone()), &batch.schema());
            let mut writer = writer.unwrap_or_else(|error| panic!("{error}"));
            writer.write(batch).unwrap();
            writer.finish().unwrap();
            let bytes = to.0.lock().unwrap().clone();
            assert_eq!(String::from_utf8(bytes).unwrap(), expected);
        }
    }

    #[test]
    fn columns_of_one_name_are_refused_where_readers_would_lose_one() {
        let field = |name: &str| Field::new(name, DataType::Int64, false);
        let twice: SchemaRef = Arc::new(Schema::new(vec![field("a"), field("b"), field("a")]));
        let opened = |format| open(format, "", Box::new(Written::default()), &twice).map(drop);
        for format in [Format::Json, Format::Parquet] {
            let refused = opened(format).unwrap_err().to_string();
            assert!(
                refused.starts_with("two columns are called a,"),
                "{refused}"
            );
        }
        for format in [Format::Table, Format::Csv, Format::Arrow] {
            assert!(opened(format).is_ok(), "{format:?}");
        }
    }

    #[test]
    fn json_has_decimals_and_dates_as_texts() {
        let lines = written(Format::Json, &[batch()]);
        let rows: Vec<serde_json::Value> = lines
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(
            rows[0],
            serde_json::json!({"key": 1, "price": "-0.05", "day": "1970-01-01", "a \"text\"": "a,\"b\"\nc", "avg": 0.1})
        );
        assert_eq!(rows[2]["key"], serde_json::json!(i64::MAX));
        assert!(rows[2]["price"].is_null() && rows[2]["a \"text\""].is_null());
        assert_eq!(written(Format::Json, &[]), "");
    }

    #[test]
    fn a_table_has_a_header_even_without_rows_and_no_control_characters() {
        let table = written(Format::Table, &[batch()]);
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines.len(), 4, "{table}");
        assert!(
            lines[0].starts_with("                key    price  day"),
            "{table}"
        );
        assert!(
            lines[1].contains("a,\"b\"\\nc") && lines[3].contains("NULL"),
            "{table}"
        );
        assert!(written(Format::Table, &[]).starts_with("key  price  day  a \"text\""));
    }
}
