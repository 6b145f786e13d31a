//! Record batches as Arrow IPC messages: written without copying their buffers, read without copying the frame.
//!
//! Written by arrow-ipc. Read by our own decoder: arrow-ipc's reader is made for trusted files and panics on some
//! messages that a stranger can forge. Ours takes exactly the types that a scan returns (Int32, Int64, Decimal64,
//! Decimal128, Date32, Float64, Utf8), no compression, no dictionaries, no nesting, and checks the rest with Arrow's own
//! full validation.

use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions, make_array};
use arrow_buffer::Buffer;
use arrow_data::ArrayData;
use arrow_ipc::writer::{
    DictionaryTracker, IpcDataGenerator, IpcWriteContext, IpcWriteOptions, StreamEncoder,
    write_message,
};
use arrow_ipc::{MessageHeader, MetadataVersion, Precision};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};

/// Most columns of a batch that the decoder takes.
pub const COLUMNS_MAX: usize = 1024;
/// Bytes before the metadata: the continuation marker and the metadata's length.
const PREFIX_BYTES: usize = 8;
/// Most bytes of a message.
pub const MESSAGE_BYTES_MAX: usize = 64 << 20;

/// The reason why a message is none, or not of the schema.
#[derive(Debug, thiserror::Error)]
#[error("malformed Arrow message: {0}")]
pub struct IpcError(String);

/// Turns batches of one schema into IPC messages.
pub struct Encoder {
    stream: StreamEncoder,
}

/// One encoded batch: slices to be written one after another. The large ones share the batch's memory.
#[derive(Debug)]
pub struct Encoded {
    /// The slices.
    pub parts: Vec<Buffer>,
    /// Bytes in all.
    pub len: usize,
}

impl Encoder {
    /// An encoder, and the schema's message.
    ///
    /// # Errors
    /// A schema that IPC cannot carry.
    pub fn new(schema: &SchemaRef) -> Result<(Self, Vec<u8>), ArrowError> {
        let options = IpcWriteOptions::default();
        let message = IpcDataGenerator::default().schema_to_bytes_with_dictionary_tracker(
            schema,
            &mut DictionaryTracker::new(true),
            &options,
        );
        let mut bytes = Vec::new();
        write_message(&mut bytes, message, &options)?;
        // The encoder puts the schema before its first batch; here it travels in a frame of its own.
        let mut stream = StreamEncoder::try_new_with_options(schema, options)?;
        stream.encode(&RecordBatch::new_empty(Arc::clone(schema)))?;
        Ok((Self { stream }, bytes))
    }

    /// Encodes a batch.
    ///
    /// # Errors
    /// A batch of another schema; one that does not fit a message.
    pub fn encode(&mut self, batch: &RecordBatch) -> Result<Encoded, ArrowError> {
        let parts = self.stream.encode(batch)?;
        let len = parts.iter().map(Buffer::len).sum();
        fits(len)?;
        Ok(Encoded { parts, len })
    }
}

/// A single small batch as a message. Its buffers are copied, but nothing is made for batches to come, as [`Encoder`] does.
///
/// # Errors
/// A batch that does not fit a message.
pub fn batch_message(batch: &RecordBatch) -> Result<Vec<u8>, ArrowError> {
    let options = IpcWriteOptions::default();
    let (_dictionaries, message) = IpcDataGenerator::default().encode(
        batch,
        &mut DictionaryTracker::new(true),
        &options,
        &mut IpcWriteContext::default(),
    )?;
    let mut bytes = Vec::new();
    write_message(&mut bytes, message, &options)?;
    fits(bytes.len())?;
    Ok(bytes)
}

/// Refuses a batch whose message is longer than [`MESSAGE_BYTES_MAX`].
fn fits(bytes: usize) -> Result<(), ArrowError> {
    match bytes > MESSAGE_BYTES_MAX {
        true => Err(ArrowError::IpcError(format!(
            "a batch of {bytes} bytes does not fit a message"
        ))),
        false => Ok(()),
    }
}

/// The metadata of batches of one schema without nulls, whose numbers are written anew for each: who lays out a batch's values
/// itself needs no arrays. Made by arrow-ipc, patched where its reader finds the numbers.
#[derive(Clone, Debug)]
pub struct Template {
    /// The prefix and the metadata of a batch of one row.
    metadata: Vec<u8>,
    /// Where the data's length is, and the number of rows.
    body_bytes_at: usize,
    rows_at: usize,
    /// Where columns' numbers of rows and of nulls are, and offsets and lengths of buffers.
    nodes_at: usize,
    buffers_at: usize,
    nodes: usize,
    buffers: usize,
}

impl Template {
    /// For batches of `schema`, of types that rows of a scan have.
    ///
    /// # Errors
    /// A schema that IPC cannot carry.
    pub fn new(schema: &SchemaRef) -> Result<Self, ArrowError> {
        let column = |field: &arrow_schema::FieldRef| {
            let ty = field.data_type().clone();
            let array = ArrayData::builder(ty.clone()).len(1);
            let array = match ty {
                DataType::Utf8 => array
                    .add_buffer(Buffer::from_slice_ref([0i32, 0]))
                    .add_buffer(Buffer::from_slice_ref([0u8; 0])),
                _ => array.add_buffer(Buffer::from_slice_ref([0i128])),
            };
            Ok(make_array(array.build()?))
        };
        let columns: Result<Vec<_>, ArrowError> = schema.fields().iter().map(column).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(1));
        let batch = RecordBatch::try_new_with_options(Arc::clone(schema), columns?, &options)?;
        let message = batch_message(&batch)?;
        let unlike = || ArrowError::IpcError("metadata of an unknown layout".to_owned());
        let (parsed, data) = metadata(&message).map_err(|_| unlike())?;
        let batch = parsed.header_as_record_batch().ok_or_else(unlike)?;
        let nodes = batch.nodes().ok_or_else(unlike)?;
        let buffers = batch.buffers().ok_or_else(unlike)?;
        // Where a table's field lies; it is there, for it is not zero.
        let place = |table: usize, field: u16| match field {
            0 => Err(unlike()),
            within => Ok(PREFIX_BYTES + table + usize::from(within)),
        };
        let (message_table, batch_table) = (parsed._tab, batch._tab);
        let body_bytes = message_table
            .vtable()
            .get(arrow_ipc::Message::VT_BODYLENGTH);
        let rows = batch_table.vtable().get(arrow_ipc::RecordBatch::VT_LENGTH);
        let start = message.as_ptr() as usize;
        let at = |bytes: &[u8]| bytes.as_ptr() as usize - start;
        let template = Self {
            body_bytes_at: place(message_table.loc(), body_bytes)?,
            rows_at: place(batch_table.loc(), rows)?,
            nodes_at: at(nodes.bytes()),
            buffers_at: at(buffers.bytes()),
            nodes: nodes.len(),
            buffers: buffers.len(),
            metadata: message[..message.len() - data.len()].to_vec(),
        };
        Ok(template)
    }

    /// Bytes of the metadata, whatever the batch.
    pub fn bytes(&self) -> usize {
        self.metadata.len()
    }

    /// Writes the metadata of a batch of so many rows and bytes of data, whose buffers lie at these offsets and have these lengths:
    /// for each column validity, offsets if it is of texts, values.
    ///
    /// # Panics
    /// If `out` is shorter than the metadata, or there are more or fewer buffers.
    pub fn write(
        &self,
        out: &mut [u8],
        rows: usize,
        body_bytes: usize,
        buffers: impl IntoIterator<Item = (usize, usize)>,
    ) {
        let out = &mut out[..self.metadata.len()];
        out.copy_from_slice(&self.metadata);
        let mut put = |at: usize, number: usize| {
            out[at..][..8].copy_from_slice(&(number as i64).to_le_bytes());
        };
        put(self.body_bytes_at, body_bytes);
        put(self.rows_at, rows);
        (0..self.nodes).for_each(|node| put(self.nodes_at + 16 * node, rows));
        let mut count = 0;
        for (offset, len) in buffers {
            assert!(count < self.buffers, "as many buffers as the schema has");
            put(self.buffers_at + 16 * count, offset);
            put(self.buffers_at + 16 * count + 8, len);
            count += 1;
        }
        assert_eq!(count, self.buffers, "as many buffers as the schema has");
    }
}

/// Decodes a schema's message.
///
/// # Errors
/// [`IpcError`] if it is malformed or has types that a scan does not return.
pub fn decode_schema(body: &[u8]) -> Result<SchemaRef, IpcError> {
    let (message, rest) = message(body)?;
    if !rest.is_empty() {
        return Err(IpcError(format!(
            "{} bytes after the end of a message",
            rest.len()
        )));
    }
    let schema = message
        .header_as_schema()
        .ok_or_else(|| bad("not a schema"))?;
    let fields = schema
        .fields()
        .ok_or_else(|| bad("a schema of no fields"))?;
    if fields.len() > COLUMNS_MAX {
        return Err(bad("too many columns"));
    }
    let fields = fields
        .iter()
        .map(|field| {
            let name = field.name().ok_or_else(|| bad("a field without a name"))?;
            Ok(Field::new(name, data_type(&field)?, field.nullable()))
        })
        .collect::<Result<Vec<_>, IpcError>>()?;
    Ok(Arc::new(Schema::new(fields)))
}

/// Decodes a batch's message; the arrays share `body`'s memory.
///
/// # Errors
/// [`IpcError`] if anything in it is not valid for `schema`.
pub fn decode_batch(body: &Buffer, schema: &SchemaRef) -> Result<RecordBatch, IpcError> {
    let (message, data) = message(body)?;
    let data_start = body.len() - data.len();
    let batch = message
        .header_as_record_batch()
        .ok_or_else(|| bad("not a record batch"))?;
    if batch.compression().is_some() {
        return Err(bad("compressed"));
    }
    let rows = length(batch.length())?;
    let (nodes, buffers) = (
        batch.nodes().ok_or_else(|| bad("no nodes"))?,
        batch.buffers().ok_or_else(|| bad("no buffers"))?,
    );
    if nodes.len() != schema.fields().len() {
        return Err(bad("a batch of another number of columns"));
    }
    let mut buffers = buffers.iter();
    let mut next = || -> Result<Buffer, IpcError> {
        let buffer = buffers.next().ok_or_else(|| bad("too few buffers"))?;
        let (offset, len) = (length(buffer.offset())?, length(buffer.length())?);
        match offset.checked_add(len) {
            Some(end) if end <= data.len() => Ok(body.slice_with_length(data_start + offset, len)),
            _ => Err(bad("a buffer outside the message")),
        }
    };
    let mut columns = Vec::with_capacity(nodes.len());
    for (field, node) in schema.fields().iter().zip(nodes.iter()) {
        if length(node.length())? != rows {
            return Err(bad("columns of different lengths"));
        }
        let nulls = length(node.null_count())?;
        let validity = next()?;
        let mut array = ArrayData::builder(field.data_type().clone()).len(rows);
        if nulls > 0 {
            // Arrow panics on this instead of refusing it.
            if validity.len() < rows.div_ceil(8) {
                return Err(bad("a validity bitmap shorter than its column"));
            }
            array = array.null_bit_buffer(Some(validity)).null_count(nulls);
        }
        let values = next()?;
        let unit = match field.data_type() {
            DataType::Utf8 => size_of::<i32>(),
            ty => ty.primitive_width().unwrap_or(1),
        };
        // Arrow panics on this instead of refusing it.
        if values.as_ptr().align_offset(unit) != 0 || !values.len().is_multiple_of(unit) {
            return Err(bad("a buffer that is no whole number of aligned values"));
        }
        array = array.add_buffer(values);
        if *field.data_type() == DataType::Utf8 {
            array = array.add_buffer(next()?);
        }
        // `build` validates in full: lengths, alignment, offsets, UTF-8, the count of nulls.
        let array = array.build().map_err(arrow)?;
        columns.push(make_array(array));
    }
    if buffers.next().is_some() {
        return Err(bad("too many buffers"));
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options).map_err(arrow)
}

/// Decodes messages of batches that lie one behind another, each copied to memory of its own.
///
/// # Errors
/// As [`decode_batch`].
pub fn decode_batches(mut bytes: &[u8], schema: &SchemaRef) -> Result<Vec<RecordBatch>, IpcError> {
    let mut batches = Vec::new();
    while !bytes.is_empty() {
        let (metadata, data) = metadata(bytes)?;
        let len = bytes.len() - data.len() + length(metadata.bodyLength())?;
        let message = bytes.get(..len).ok_or_else(|| bad("cut short"))?;
        batches.push(decode_batch(&Buffer::from(message), schema)?);
        bytes = &bytes[len..];
    }
    Ok(batches)
}

/// Splits an encapsulated message into its verified metadata and its data.
fn message(body: &[u8]) -> Result<(arrow_ipc::Message<'_>, &[u8]), IpcError> {
    let (message, data) = metadata(body)?;
    if length(message.bodyLength())? != data.len() {
        return Err(bad("data of another length than announced"));
    }
    if message.header_type() == MessageHeader::NONE {
        return Err(bad("no header"));
    }
    Ok((message, data))
}

/// The metadata that `bytes` begin with, and what lies behind it.
fn metadata(bytes: &[u8]) -> Result<(arrow_ipc::Message<'_>, &[u8]), IpcError> {
    let Some((prefix, rest)) = bytes.split_first_chunk::<PREFIX_BYTES>() else {
        return Err(bad("shorter than its prefix"));
    };
    if prefix[..4] != [0xff; 4] {
        return Err(bad("no continuation marker"));
    }
    let len = u32::from_le_bytes([prefix[4], prefix[5], prefix[6], prefix[7]]) as usize;
    let Some((metadata, data)) = rest.split_at_checked(len) else {
        return Err(bad("metadata longer than the message"));
    };
    let message =
        arrow_ipc::root_as_message(metadata).map_err(|e| IpcError(format!("metadata: {e}")))?;
    if message.version() != MetadataVersion::V5 {
        return Err(bad("metadata of another version"));
    }
    Ok((message, data))
}

fn data_type(field: &arrow_ipc::Field<'_>) -> Result<DataType, IpcError> {
    if field.dictionary().is_some() {
        return Err(bad("a dictionary"));
    }
    let unknown = || {
        IpcError(format!(
            "a column of type {:?}, which no scan returns",
            field.type_type()
        ))
    };
    if let Some(int) = field.type_as_int() {
        return match (int.bitWidth(), int.is_signed()) {
            (32, true) => Ok(DataType::Int32),
            (64, true) => Ok(DataType::Int64),
            _ => Err(unknown()),
        };
    }
    if let Some(decimal) = field.type_as_decimal() {
        let (Ok(precision), Ok(scale)) = (
            u8::try_from(decimal.precision()),
            i8::try_from(decimal.scale()),
        ) else {
            return Err(unknown());
        };
        return match decimal.bitWidth() {
            64 if (1..=18).contains(&precision) && (0..=18).contains(&scale) => {
                Ok(DataType::Decimal64(precision, scale))
            }
            128 if (1..=38).contains(&precision) && (0..=38).contains(&scale) => {
                Ok(DataType::Decimal128(precision, scale))
            }
            _ => Err(unknown()),
        };
    }
    if let Some(date) = field.type_as_date() {
        return match date.unit() {
            arrow_ipc::DateUnit::DAY => Ok(DataType::Date32),
            _ => Err(unknown()),
        };
    }
    if let Some(float) = field.type_as_floating_point() {
        return match float.precision() {
            Precision::DOUBLE => Ok(DataType::Float64),
            _ => Err(unknown()),
        };
    }
    match field.type_as_utf_8() {
        Some(_) => Ok(DataType::Utf8),
        None => Err(unknown()),
    }
}

fn length(value: i64) -> Result<usize, IpcError> {
    usize::try_from(value)
        .ok()
        .filter(|&len| len <= MESSAGE_BYTES_MAX)
        .ok_or_else(|| bad("a length out of range"))
}

fn bad(what: &str) -> IpcError {
    IpcError(what.to_owned())
}

fn arrow(error: ArrowError) -> IpcError {
    IpcError(error.to_string())
}

#[cfg(test)]
mod tests {
    use arrow_array::{
        ArrayRef, Date32Array, Decimal64Array, Decimal128Array, Float64Array, Int32Array,
        Int64Array, StringArray,
    };

    use super::*;

    fn sample(rows: usize, nulls: bool) -> RecordBatch {
        let n = rows as i64;
        let maybe = |i: i64| (!nulls || i % 3 != 0).then_some(i);
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("a", Arc::new((0..n).map(maybe).collect::<Int64Array>())),
            (
                "b",
                Arc::new((0..n).map(|i| i as i32).collect::<Int32Array>()),
            ),
            (
                "c",
                Arc::new(
                    Decimal64Array::from_iter((0..n).map(maybe))
                        .with_precision_and_scale(15, 2)
                        .unwrap(),
                ),
            ),
            (
                "d",
                Arc::new(
                    Decimal128Array::from_iter_values((0..n).map(|i| i as i128 * 10))
                        .with_precision_and_scale(38, 4)
                        .unwrap(),
                ),
            ),
            (
                "e",
                Arc::new(Date32Array::from_iter_values((0..n).map(|i| i as i32))),
            ),
            (
                "f",
                Arc::new((0..n).map(|i| i as f64 / 7.0).collect::<Float64Array>()),
            ),
            (
                "g",
                Arc::new(
                    (0..n)
                        .map(|i| maybe(i).map(|i| format!("Größe {i}")))
                        .collect::<StringArray>(),
                ),
            ),
        ];
        RecordBatch::try_from_iter(columns).unwrap()
    }

    fn frame(batch: &RecordBatch) -> (Vec<u8>, Vec<u8>) {
        let (mut encoder, schema) = Encoder::new(&batch.schema()).unwrap();
        let encoded = encoder.encode(batch).unwrap();
        let bytes: Vec<u8> = encoded.parts.iter().flat_map(|p| p.to_vec()).collect();
        assert_eq!(bytes.len(), encoded.len);
        assert_eq!(bytes, batch_message(batch).unwrap());
        (schema, bytes)
    }

    #[test]
    fn arrow_ipc_reads_what_we_write_and_we_read_the_same() {
        for (rows, nulls) in [(0, false), (1, true), (1000, false), (1000, true)] {
            let batch = sample(rows, nulls);
            for batch in [batch.clone(), batch.slice(rows / 3, rows / 2)] {
                let (schema, bytes) = frame(&batch);
                let stream = [schema.clone(), bytes.clone()].concat();
                let mut theirs =
                    arrow_ipc::reader::StreamReader::try_new(stream.as_slice(), None).unwrap();
                assert_eq!(theirs.next().unwrap().unwrap(), batch);
                let ours = decode_schema(&schema).unwrap();
                assert_eq!(ours.fields(), batch.schema().fields());
                assert_eq!(
                    decode_batch(&Buffer::from(&bytes[..]), &ours).unwrap(),
                    batch
                );
            }
        }
    }

    #[test]
    fn patched_metadata_describes_a_batch_as_arrow_ipc_would() {
        let batch = sample(100, false).project(&[0, 1, 2, 4, 6]).unwrap();
        let template = Template::new(&batch.schema()).unwrap();
        // Values right behind each other, no validity.
        let (mut data, mut buffers) = (Vec::new(), Vec::new());
        for column in batch.columns() {
            buffers.push((data.len(), 0));
            for buffer in column.to_data().buffers() {
                buffers.push((data.len(), buffer.len()));
                data.extend_from_slice(buffer);
                data.resize(data.len().next_multiple_of(64), 0);
            }
        }
        let mut message = vec![0; template.bytes()];
        template.write(&mut message, 100, data.len(), buffers);
        message.extend(data);
        let (_, schema) = Encoder::new(&batch.schema()).unwrap();
        let stream = [schema, message.clone()].concat();
        let mut theirs = arrow_ipc::reader::StreamReader::try_new(stream.as_slice(), None).unwrap();
        assert_eq!(theirs.next().unwrap().unwrap(), batch);
        let ours = decode_batch(&Buffer::from(&message[..]), &batch.schema());
        assert_eq!(ours.unwrap(), batch);
        assert!(theirs.next().is_none());
    }

    #[test]
    fn a_large_column_is_not_copied() {
        let batch = sample(1000, false);
        let (mut encoder, _) = Encoder::new(&batch.schema()).unwrap();
        let encoded = encoder.encode(&batch).unwrap();
        let column = batch.column(0).to_data().buffers()[0].as_ptr();
        assert!(encoded.parts.iter().any(|part| part.as_ptr() == column));
        let (_, bytes) = frame(&batch);
        let body = Buffer::from(&bytes[..]);
        let decoded = decode_batch(&body, &batch.schema()).unwrap();
        let column = decoded.column(0).to_data().buffers()[0].as_ptr();
        assert!(body.as_slice().as_ptr_range().contains(&column));
    }

    #[test]
    fn no_truncation_and_no_flipped_byte_panics() {
        let batch = sample(50, true);
        let (schema, bytes) = frame(&batch);
        let parsed = decode_schema(&schema).unwrap();
        for end in 0..bytes.len() {
            let torn = Buffer::from(&bytes[..end]);
            assert!(decode_batch(&torn, &parsed).is_err(), "cut at {end}");
        }
        for end in 0..schema.len() {
            assert!(decode_schema(&schema[..end]).is_err(), "cut at {end}");
        }
        let mut refused = 0;
        for at in 0..bytes.len() {
            for flip in [1, 0x80, 0xff] {
                let mut forged = bytes.clone();
                forged[at] ^= flip;
                refused += usize::from(decode_batch(&Buffer::from(&forged[..]), &parsed).is_err());
            }
        }
        assert!(refused > 100, "{refused}");
        for at in 0..schema.len() {
            for flip in [1, 0x80, 0xff] {
                let mut forged = schema.clone();
                forged[at] ^= flip;
                let _ = decode_schema(&forged);
            }
        }
    }

    #[test]
    fn messages_one_behind_another_are_told_apart() {
        let batches = [50, 0, 7].map(|rows| sample(rows, false));
        let schema = batches[0].schema();
        let (mut encoder, _) = Encoder::new(&schema).unwrap();
        let bytes: Vec<u8> = batches
            .iter()
            .flat_map(|batch| encoder.encode(batch).unwrap().parts)
            .flat_map(|part| part.to_vec())
            .collect();
        assert_eq!(decode_batches(&bytes, &schema).unwrap(), batches);
        assert_eq!(decode_batches(&[], &schema).unwrap(), []);
        for torn in [bytes.len() - 1, 1] {
            assert!(decode_batches(&bytes[..torn], &schema).is_err(), "{torn}");
        }
    }

    #[test]
    fn a_batch_of_another_schema_is_refused() {
        let batch = sample(10, false);
        let (_, bytes) = frame(&batch);
        let fewer = Arc::new(batch.schema().project(&[0, 1]).unwrap());
        assert!(decode_batch(&Buffer::from(&bytes[..]), &fewer).is_err());
    }
}
