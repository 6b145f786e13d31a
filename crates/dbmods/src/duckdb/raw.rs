//! Owning handles over [`sys`](super::sys): everything `unsafe` of reading from DuckDB is here.
//!
//! Each handle destroys its object when dropped and holds what the object needs in an `Arc`: a result its connection, a
//! connection its database. A field is dropped after its owner's `drop`, so objects go in the order that DuckDB asks for.
//! The function table is `'static`: a library once loaded stays.
#![allow(unsafe_code)]

use std::borrow::Cow;
use std::ffi::{CStr, CString, c_char};
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::path::Path;
use std::sync::Arc;

use super::sys::{
    ChunkHandle, ConfigHandle, ConnectionHandle, DatabaseHandle, Functions, Huge, INLINE_MAX,
    PendingHandle, ResultRaw, StatementHandle, Text, TypeHandle, VectorHandle, type_id,
};

/// DuckDB's own words about what went wrong.
pub(super) type Refusal = String;

/// The layout of a column in memory, and its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Physical {
    I8,
    I16,
    I32,
    I64,
    F64,
    I128,
    Date,
    Text,
    Decimal {
        precision: u8,
        scale: u8,
        bytes: u8,
    },
    /// A type that dpb does not read: `duckdb_type`'s number.
    Other(u32),
}

/// An open database.
pub(super) struct Database {
    api: &'static Functions,
    handle: DatabaseHandle,
}

/// A connection.
pub(super) struct Connection {
    pub(super) api: &'static Functions,
    pub(super) handle: ConnectionHandle,
    _database: Arc<Database>,
}

/// A statement's result, whole or still running.
pub(super) struct QueryResult {
    raw: ResultRaw,
    connection: Arc<Connection>,
}

/// A chunk of a result's rows. The chunk borrows from the result, because texts may lie in the result's memory.
pub(super) struct Chunk<'a> {
    api: &'static Functions,
    handle: ChunkHandle,
    rows: usize,
    _result: PhantomData<&'a QueryResult>,
}

/// One column of a chunk, whose values are of type `physical`.
pub(super) struct Vector<'a> {
    api: &'static Functions,
    handle: VectorHandle,
    physical: Physical,
    rows: usize,
    _chunk: PhantomData<&'a ()>,
}

/// Types that a vector's memory may be read as.
///
/// # Safety
/// Every bit pattern is a value, and `fits` answers true only for vectors whose elements are laid out like `Self`.
pub(super) unsafe trait Element: Copy + Default {
    /// Returns true if a vector of this type holds such elements.
    fn fits(physical: Physical) -> bool;
}

// SAFETY: a database handle may be used from any thread (`duckdb.h`: "thread-safe"), here only to connect and to close.
unsafe impl Send for Database {}
// SAFETY: as above.
unsafe impl Sync for Database {}
// SAFETY: a connection may move between threads. Shared, only `duckdb_interrupt`, which sets a flag, is called without
// the owner's `&mut`: `duckdb.rs` gives a connection's other functions to one caller at a time.
unsafe impl Send for Connection {}
// SAFETY: as above.
unsafe impl Sync for Connection {}
// SAFETY: a result belongs to whoever holds it; DuckDB has no thread affinity.
unsafe impl Send for QueryResult {}

/// Copies a text of DuckDB's; an absent one becomes a fixed phrase.
fn owned(text: *const c_char) -> String {
    if text.is_null() {
        return "DuckDB gave no reason".to_owned();
    }
    // SAFETY: not null, and DuckDB's texts end with a zero and live as long as the object just asked.
    unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned()
}

/// A text for DuckDB.
fn terminated(text: &str) -> Result<CString, Refusal> {
    CString::new(text).map_err(|_| "a zero byte in a text for DuckDB".to_owned())
}

/// Loads the library at `path`, or by that name from where the system's loader looks, and never unloads it.
pub(super) fn load(path: &Path) -> Result<Functions, String> {
    // SAFETY: loading runs the library's initialisers; whoever chose the path (DUCKDB_LIB_DIR, the cache that setup
    // filled after checking a digest, the system's folders) vouches for what lies there.
    let library = unsafe { libloading::Library::new(path) }.map_err(|why| {
        // The loader's own text is the error's source.
        let source = std::error::Error::source(&why).map(ToString::to_string);
        source.unwrap_or_else(|| why.to_string())
    })?;
    let functions = Functions::load(&library)
        .map_err(|name| format!("has no function {name}, so it is no DuckDB of 1.2 or later"));
    // Functions stay good and DuckDB's threads may outlive a handle.
    std::mem::forget(library);
    functions
}

/// `duckdb_library_version`.
pub(super) fn version(api: &Functions) -> String {
    // SAFETY: takes nothing and gives a static text.
    owned(unsafe { (api.duckdb_library_version)() })
}

impl Database {
    /// Opens `path`, or a database in memory, with these options.
    pub(super) fn open(
        api: &'static Functions,
        path: Option<&str>,
        options: &[(&str, String)],
    ) -> Result<Self, Refusal> {
        let path = path.map(terminated).transpose()?;
        let options = options
            .iter()
            .map(|(name, value)| Ok((terminated(name)?, terminated(value)?)))
            .collect::<Result<Vec<_>, Refusal>>()?;
        let mut config = ConfigHandle::NULL;
        let mut handle = DatabaseHandle::NULL;
        let mut reason: *mut c_char = std::ptr::null_mut();
        // SAFETY: the out-pointers are to locals; the texts outlive the calls; `config` is destroyed once, on every way
        // out; `reason`, if set, was allocated by DuckDB for us to free.
        unsafe {
            if (api.duckdb_create_config)(&raw mut config) != 0 {
                return Err("DuckDB gave no configuration".to_owned());
            }
            for (name, value) in &options {
                if (api.duckdb_set_config)(config, name.as_ptr(), value.as_ptr()) != 0 {
                    (api.duckdb_destroy_config)(&raw mut config);
                    return Err(format!(
                        "this DuckDB does not take {}={}",
                        name.to_string_lossy(),
                        value.to_string_lossy()
                    ));
                }
            }
            let path = path.as_ref().map_or(std::ptr::null(), |p| p.as_ptr());
            let state = (api.duckdb_open_ext)(path, &raw mut handle, config, &raw mut reason);
            (api.duckdb_destroy_config)(&raw mut config);
            if state != 0 {
                let text = owned(reason);
                (api.duckdb_free)(reason.cast());
                return Err(text);
            }
        }
        Ok(Self { api, handle })
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // SAFETY: ours, open, and nothing refers to it any more: connections hold an `Arc` of this.
        unsafe { (self.api.duckdb_close)(&raw mut self.handle) }
    }
}

impl Connection {
    pub(super) fn open(database: &Arc<Database>) -> Result<Self, Refusal> {
        let mut handle = ConnectionHandle::NULL;
        // SAFETY: the database is open; the out-pointer is to a local.
        let state = unsafe { (database.api.duckdb_connect)(database.handle, &raw mut handle) };
        if state != 0 {
            return Err("DuckDB gave no connection".to_owned());
        }
        Ok(Self {
            api: database.api,
            handle,
            _database: Arc::clone(database),
        })
    }

    /// Asks whatever runs on this connection to stop.
    pub(super) fn interrupt(&self) {
        // SAFETY: the connection is open; the call sets an atomic flag and may come from any thread.
        unsafe { (self.api.duckdb_interrupt)(self.handle) }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // SAFETY: ours and open; results hold an `Arc` of this.
        unsafe { (self.api.duckdb_disconnect)(&raw mut self.handle) }
    }
}

impl QueryResult {
    /// Runs `sql`, which may be several statements, and keeps the last one's result whole.
    pub(super) fn materialised(connection: &Arc<Connection>, sql: &str) -> Result<Self, Refusal> {
        let sql = terminated(sql)?;
        let mut result = Self::empty(connection);
        // SAFETY: the connection is open, the text outlives the call; the result is destroyed by `Drop` even if the
        // call failed, as `duckdb.h` asks.
        let state = unsafe {
            (connection.api.duckdb_query)(connection.handle, sql.as_ptr(), &raw mut result.raw)
        };
        result.checked(state)
    }

    /// Starts `sql`, one statement, whose rows are computed as they are fetched, or before if this DuckDB cannot do so.
    pub(super) fn streamed(connection: &Arc<Connection>, sql: &str) -> Result<Self, Refusal> {
        let api = connection.api;
        let Some(pending_streaming) = api.duckdb_pending_prepared_streaming else {
            return Self::materialised(connection, sql);
        };
        let sql = terminated(sql)?;
        let mut result = Self::empty(connection);
        let mut statement = StatementHandle::NULL;
        let mut pending = PendingHandle::NULL;
        // SAFETY: the connection is open; out-pointers are to locals; each handle is destroyed once on every way out,
        // also after a failure, as `duckdb.h` asks. A result outlives the statement it came from.
        unsafe {
            if (api.duckdb_prepare)(connection.handle, sql.as_ptr(), &raw mut statement) != 0 {
                let text = owned((api.duckdb_prepare_error)(statement));
                (api.duckdb_destroy_prepare)(&raw mut statement);
                return Err(text);
            }
            let mut state = pending_streaming(statement, &raw mut pending);
            let outcome = if state != 0 {
                Err(owned((api.duckdb_pending_error)(pending)))
            } else {
                state = (api.duckdb_execute_pending)(pending, &raw mut result.raw);
                result.checked(state)
            };
            (api.duckdb_destroy_pending)(&raw mut pending);
            (api.duckdb_destroy_prepare)(&raw mut statement);
            outcome
        }
    }

    fn empty(connection: &Arc<Connection>) -> Self {
        Self {
            raw: ResultRaw::EMPTY,
            connection: Arc::clone(connection),
        }
    }

    fn checked(mut self, state: i32) -> Result<Self, Refusal> {
        if state == 0 {
            Ok(self)
        } else {
            Err(self.error().unwrap_or_else(|| owned(std::ptr::null())))
        }
    }

    /// Returns the error of the statement, if it failed at the start or while rows were fetched.
    pub(super) fn error(&mut self) -> Option<Refusal> {
        // SAFETY: `raw` is a result that DuckDB filled, or empty, which the function answers with null.
        let text = unsafe { (self.connection.api.duckdb_result_error)(&raw mut self.raw) };
        (!text.is_null()).then(|| owned(text))
    }

    /// Returns the number of rows that the statement inserted, updated or deleted.
    pub(super) fn rows_changed(&mut self) -> u64 {
        // SAFETY: a result that DuckDB filled.
        unsafe { (self.connection.api.duckdb_rows_changed)(&raw mut self.raw) }
    }

    /// Names and types of the columns.
    pub(super) fn columns(&mut self) -> Vec<(String, Physical)> {
        let api = self.connection.api;
        // SAFETY: a result that DuckDB filled; the position is below the count; the type is destroyed once.
        unsafe {
            (0..(api.duckdb_column_count)(&raw mut self.raw))
                .map(|i| {
                    let name = owned((api.duckdb_column_name)(&raw mut self.raw, i));
                    let mut ty = (api.duckdb_column_logical_type)(&raw mut self.raw, i);
                    let physical = physical(api, ty);
                    (api.duckdb_destroy_logical_type)(&raw mut ty);
                    (name, physical)
                })
                .collect()
        }
    }

    /// The next rows; `None` at the end or after an error, which [`QueryResult::error`] tells apart.
    pub(super) fn fetch(&mut self) -> Option<Chunk<'_>> {
        // SAFETY: a result that DuckDB filled; the chunk is ours.
        let handle = unsafe { (self.connection.api.duckdb_fetch_chunk)(self.raw) };
        self.chunk(handle)
    }

    fn chunk(&self, handle: ChunkHandle) -> Option<Chunk<'_>> {
        if handle == ChunkHandle::NULL {
            return None;
        }
        let api = self.connection.api;
        // SAFETY: a chunk that DuckDB just gave.
        let rows = unsafe { (api.duckdb_data_chunk_get_size)(handle) } as usize;
        Some(Chunk {
            api,
            handle,
            rows,
            _result: PhantomData,
        })
    }
}

impl Drop for QueryResult {
    fn drop(&mut self) {
        // SAFETY: filled by DuckDB or empty, which the function ignores; chunks borrow this and are gone.
        unsafe { (self.connection.api.duckdb_destroy_result)(&raw mut self.raw) }
    }
}

/// Returns the layout that a logical type stands for.
///
/// # Safety
/// `ty` is a type that DuckDB gave and that is not yet destroyed.
unsafe fn physical(api: &Functions, ty: TypeHandle) -> Physical {
    // SAFETY: the caller's.
    unsafe {
        match (api.duckdb_get_type_id)(ty) {
            type_id::TINYINT => Physical::I8,
            type_id::SMALLINT => Physical::I16,
            type_id::INTEGER => Physical::I32,
            type_id::BIGINT => Physical::I64,
            type_id::DOUBLE => Physical::F64,
            type_id::DATE => Physical::Date,
            type_id::HUGEINT => Physical::I128,
            type_id::VARCHAR => Physical::Text,
            type_id::DECIMAL => Physical::Decimal {
                precision: (api.duckdb_decimal_width)(ty),
                scale: (api.duckdb_decimal_scale)(ty),
                bytes: match (api.duckdb_decimal_internal_type)(ty) {
                    type_id::SMALLINT => 2,
                    type_id::INTEGER => 4,
                    type_id::BIGINT => 8,
                    _ => 16,
                },
            },
            other => Physical::Other(other),
        }
    }
}

impl Chunk<'_> {
    /// Returns the number of rows.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Column `i`, which the result said to be `physical`.
    pub(super) fn vector(&self, i: usize, physical: Physical) -> Vector<'_> {
        // SAFETY: the chunk is ours; an out-of-range column gives null, which is refused below.
        let handle = unsafe { (self.api.duckdb_data_chunk_get_vector)(self.handle, i as u64) };
        assert!(handle != VectorHandle::NULL, "DuckDB has no column {i}");
        Vector {
            api: self.api,
            handle,
            physical,
            rows: self.rows,
            _chunk: PhantomData,
        }
    }
}

impl Drop for Chunk<'_> {
    fn drop(&mut self) {
        // SAFETY: ours, destroyed once; vectors borrow this and are gone.
        unsafe { (self.api.duckdb_destroy_data_chunk)(&raw mut self.handle) }
    }
}

impl Vector<'_> {
    /// The elements; those of NULL rows are zero.
    pub(super) fn elements<T: Element>(&self) -> Cow<'_, [T]> {
        assert!(T::fits(self.physical), "read as another type");
        if self.rows == 0 {
            return Cow::Borrowed(&[]);
        }
        // SAFETY: the vector belongs to a live chunk.
        let data = unsafe { (self.api.duckdb_vector_get_data)(self.handle) }.cast::<T>();
        assert!(
            !data.is_null() && data.is_aligned(),
            "a vector without data"
        );
        // SAFETY: DuckDB's chunks are flat when they reach the C API: `rows` elements of the type that the result
        // declared lie at `data` and stay as long as the chunk, which `self` borrows; `Element` vouches for the layout.
        let elements =
            unsafe { std::slice::from_raw_parts(data.cast::<MaybeUninit<T>>(), self.rows) };
        match self.validity() {
            // SAFETY: DuckDB has written every element of a row that is not NULL, and none is.
            None => Cow::Borrowed(unsafe { elements.assume_init_ref() }),
            Some(validity) => Cow::Owned(
                (0..self.rows)
                    .map(|row| match validity[row / 64] >> (row % 64) & 1 {
                        0 => T::default(),
                        // SAFETY: as above, this row is not NULL.
                        _ => unsafe { elements[row].assume_init() },
                    })
                    .collect(),
            ),
        }
    }

    /// Returns one bit a row, set if the row is not NULL; `None` if no row is NULL.
    pub(super) fn validity(&self) -> Option<&[u64]> {
        // SAFETY: the vector belongs to a live chunk; null means that all rows are valid, else there is a bit for each.
        unsafe {
            let mask = (self.api.duckdb_vector_get_validity)(self.handle);
            (!mask.is_null()).then(|| std::slice::from_raw_parts(mask, self.rows.div_ceil(64)))
        }
    }

    /// Appends the texts of all rows to `bytes`, nothing for NULL ones, and where each ends to `ends`.
    ///
    /// # Errors
    /// If `bytes` would grow beyond what an `i32` counts.
    pub(super) fn texts(&self, bytes: &mut Vec<u8>, ends: &mut Vec<i32>) -> Result<(), Refusal> {
        // A NULL row's text is empty.
        let texts = self.elements::<Text>();
        let total: usize = texts.iter().map(|text| text.len as usize).sum();
        let start = bytes.len();
        if start + total > i32::MAX as usize {
            return Err("more than 2 GiB of text in one batch".to_owned());
        }
        // Room for the longest over-long copy below.
        bytes.reserve(total + SLACK);
        ends.reserve(texts.len());
        let mut end = start;
        for text in texts.iter() {
            let len = text.len as usize;
            // SAFETY: `end + len` stays within `start + total` by the sum above, and `SLACK` bytes more are reserved;
            // a row's text follows `duckdb_string_t`'s layout, so `copy` may read what it reads.
            unsafe { copy(text, len, bytes.as_mut_ptr().add(end)) };
            end += len;
            ends.push(end as i32);
        }
        // SAFETY: the bytes up to `end` were written above, and `end == start + total` was reserved.
        unsafe { bytes.set_len(end) };
        Ok(())
    }
}

/// The number of bytes that [`copy`] may write beyond a text's end.
const SLACK: usize = 16;

/// Copies a text of `len` bytes to `to`; may write up to [`SLACK`] bytes past its end.
///
/// # Safety
/// `len` is the text's own; `to` is valid for `len + SLACK` bytes.
#[inline(always)]
unsafe fn copy(text: &Text, len: usize, to: *mut u8) {
    // SAFETY: the caller's, and: a text of at most `INLINE_MAX` bytes lies in `inlined`, of which all twelve bytes are
    // initialised; a longer one has a pointer to its `len` bytes in the last eight bytes. Two overlapping copies of a
    // fixed size read only inside those bytes.
    unsafe {
        if len <= INLINE_MAX {
            to.copy_from_nonoverlapping(text.inlined.as_ptr(), INLINE_MAX);
            return;
        }
        let from = text
            .inlined
            .as_ptr()
            .add(4)
            .cast::<*const u8>()
            .read_unaligned();
        match len {
            ..16 => {
                to.copy_from_nonoverlapping(from, 8);
                to.add(len - 8)
                    .copy_from_nonoverlapping(from.add(len - 8), 8);
            }
            16..=32 => {
                to.copy_from_nonoverlapping(from, 16);
                to.add(len - 16)
                    .copy_from_nonoverlapping(from.add(len - 16), 16);
            }
            33..=64 => {
                to.copy_from_nonoverlapping(from, 32);
                to.add(len - 32)
                    .copy_from_nonoverlapping(from.add(len - 32), 32);
            }
            _ => to.copy_from_nonoverlapping(from, len),
        }
    }
}

macro_rules! elements {
    ($($ty:ty: $pattern:pat,)*) => {$(
        // SAFETY: an integer, a float, or a structure of integers without padding; the pattern names exactly the
        // physical types that DuckDB lays out like it.
        unsafe impl Element for $ty {
            fn fits(physical: Physical) -> bool {
                matches!(physical, $pattern)
            }
        }
    )*};
}

elements! {
    i8: Physical::I8,
    i16: Physical::I16 | Physical::Decimal { bytes: 2, .. },
    i32: Physical::I32 | Physical::Date | Physical::Decimal { bytes: 4, .. },
    i64: Physical::I64 | Physical::Decimal { bytes: 8, .. },
    f64: Physical::F64,
    Huge: Physical::I128 | Physical::Decimal { bytes: 16, .. },
    Text: Physical::Text,
}
