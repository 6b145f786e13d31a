//! Rows from Rust into DuckDB, as a table function: DuckDB's threads call a [`Feed`] each, which writes straight into its
//! vectors.
#![allow(unsafe_code)]

use std::ffi::{CString, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};

use super::raw::{Connection, Element, Physical, Refusal};
use super::sys::{
    BindHandle, CallHandle, ChunkHandle, Functions, INLINE_MAX, InitHandle, TableFunctionHandle,
    Text, TypeHandle, VectorHandle, type_id,
};

/// A table that Rust makes.
pub(super) trait Source: Send + Sync + 'static {
    /// Returns the names and types of the columns.
    fn columns(&self) -> &[(&'static str, Physical)];
    /// Returns the largest number of threads that may ask for rows at once.
    fn threads_max(&self) -> usize;
    /// Opens one thread's share of the rows. The feeds divide the rows among themselves.
    fn open(&self) -> Box<dyn Feed>;
}

/// One thread's lane into a [`Source`].
pub(super) trait Feed: Send {
    /// Writes up to [`Page::rows_max`] rows, all columns of each, and says how many; zero ends this feed.
    fn fill(&mut self, page: &mut Page<'_>) -> Result<usize, Refusal>;
}

/// Empty vectors to write into.
pub(super) struct Page<'a> {
    api: &'static Functions,
    chunk: ChunkHandle,
    columns: &'a [(&'static str, Physical)],
    /// The number of rows written so far, a column each.
    written: Vec<usize>,
    rows_max: usize,
}

/// The data that DuckDB keeps for as long as the function is registered.
struct Registered {
    source: Box<dyn Source>,
}

/// The data that DuckDB keeps for each thread of a query. The registration outlives every query.
struct Local {
    registered: *const Registered,
    feed: Box<dyn Feed>,
}

/// The functions of [`api`], once they are known.
static API: OnceLock<&'static Functions> = OnceLock::new();

/// Makes `source` callable as `SELECT * FROM name()`.
pub(super) fn register(
    connection: &Arc<Connection>,
    name: &str,
    source: Box<dyn Source>,
) -> Result<(), Refusal> {
    let api = connection.api;
    let name = CString::new(name).map_err(|_| "a zero byte in a function's name".to_owned())?;
    if !std::ptr::eq(*API.get_or_init(|| api), api) {
        return Err("another DuckDB library of this process already has sources".to_owned());
    }
    let registered = Box::into_raw(Box::new(Registered { source }));
    // SAFETY: `function` is created and destroyed here; from `set_extra_info` on it owns `registered`, which it frees by
    // `drop_registered` when the last reference to the function goes; callbacks have the types that `duckdb.h` asks for.
    let state = unsafe {
        let mut function: TableFunctionHandle = (api.duckdb_create_table_function)();
        (api.duckdb_table_function_set_name)(function, name.as_ptr());
        (api.duckdb_table_function_set_extra_info)(
            function,
            registered.cast(),
            Some(drop_registered),
        );
        (api.duckdb_table_function_set_bind)(function, bind);
        (api.duckdb_table_function_set_init)(function, init);
        (api.duckdb_table_function_set_local_init)(function, local_init);
        (api.duckdb_table_function_set_function)(function, call);
        let state = (api.duckdb_register_table_function)(connection.handle, function);
        (api.duckdb_destroy_table_function)(&raw mut function);
        state
    };
    if state == 0 {
        Ok(())
    } else {
        Err("DuckDB does not take the table function".to_owned())
    }
}

impl Page<'_> {
    /// Returns the number of rows that fit.
    pub(super) fn rows_max(&self) -> usize {
        self.rows_max
    }

    /// Writes column `i`, from the first row on, as far as rows fit.
    pub(super) fn set<T: Element>(&mut self, i: usize, values: impl Iterator<Item = T>) {
        let (_, to) = self.column::<T>(i);
        let mut rows = 0;
        for value in values.take(self.rows_max) {
            // SAFETY: `column` says that there is room for so many.
            unsafe { to.add(rows).write(value) };
            rows += 1;
        }
        self.written[i] = rows;
    }

    /// Writes texts into column `i`, from the first row on, as far as rows fit.
    pub(super) fn set_texts(&mut self, i: usize, texts: impl Iterator<Item: AsRef<str>>) {
        let (vector, to) = self.column::<Text>(i);
        let mut rows = 0;
        for text in texts.take(self.rows_max) {
            let bytes = text.as_ref().as_bytes();
            if bytes.len() <= INLINE_MAX {
                // The layout of short texts is part of the API; written here, each saves a call.
                let mut inlined = [0; INLINE_MAX];
                inlined[..bytes.len()].copy_from_slice(bytes);
                let len = bytes.len() as u32;
                // SAFETY: as in `set`.
                unsafe { to.add(rows).write(Text { len, inlined }) };
            } else {
                // SAFETY: the vector has such a row; DuckDB copies the bytes.
                unsafe {
                    (self.api.duckdb_vector_assign_string_element_len)(
                        vector,
                        rows as u64,
                        bytes.as_ptr().cast(),
                        bytes.len() as u64,
                    );
                }
            }
            rows += 1;
        }
        self.written[i] = rows;
    }

    /// Column `i`, and its memory, which has room for `rows_max` elements that were not yet written.
    fn column<T: Element>(&self, i: usize) -> (VectorHandle, *mut T) {
        assert!(T::fits(self.columns[i].1), "written as another type");
        // SAFETY: the chunk is valid while DuckDB's call lasts, which `self` cannot outlive, and has a vector for each
        // column that `bind` declared, whose elements are of the declared type.
        let (vector, data) = unsafe {
            let vector = (self.api.duckdb_data_chunk_get_vector)(self.chunk, i as u64);
            (vector, (self.api.duckdb_vector_get_data)(vector))
        };
        let data = data.cast::<T>();
        assert!(
            !data.is_null() && data.is_aligned(),
            "a vector without data"
        );
        (vector, data)
    }

    /// Returns `rows` if every column has so many.
    fn complete(&self, rows: usize) -> Result<u64, Refusal> {
        match self.written.iter().all(|&written| rows <= written) {
            true => Ok(rows as u64),
            false => Err("the source wrote fewer rows than it says".to_owned()),
        }
    }
}

unsafe extern "C" fn drop_registered(data: *mut c_void) {
    // SAFETY: DuckDB gives back, once, what `register` gave it.
    drop(unsafe { Box::from_raw(data.cast::<Registered>()) });
}

unsafe extern "C" fn drop_local(data: *mut c_void) {
    // SAFETY: DuckDB gives back, once, what `local_init` gave it.
    drop(unsafe { Box::from_raw(data.cast::<Local>()) });
}

/// A type as DuckDB creates it; the caller destroys it.
fn logical(api: &Functions, physical: Physical) -> TypeHandle {
    let id = match physical {
        Physical::I8 => type_id::TINYINT,
        Physical::I16 => type_id::SMALLINT,
        Physical::I32 => type_id::INTEGER,
        Physical::I64 => type_id::BIGINT,
        Physical::F64 => type_id::DOUBLE,
        Physical::I128 => type_id::HUGEINT,
        Physical::Date => type_id::DATE,
        Physical::Text => type_id::VARCHAR,
        Physical::Decimal { .. } => type_id::DECIMAL,
        Physical::Other(id) => id,
    };
    // SAFETY: both take numbers only and give an object that is ours.
    unsafe {
        match physical {
            Physical::Decimal {
                precision, scale, ..
            } => (api.duckdb_create_decimal_type)(precision, scale),
            _ => (api.duckdb_create_logical_type)(id),
        }
    }
}

/// The functions of the library whose callbacks run. A callback is given a handle and no function table, so a process can
/// register sources with one library only.
fn api() -> &'static Functions {
    API.get().expect("set before any callback was registered")
}

unsafe extern "C" fn bind(info: BindHandle) {
    let api = api();
    // SAFETY: the extra info is what `register` set and lives as long as the function; types are destroyed once; the
    // names outlive the calls.
    unsafe {
        let registered = &*(api.duckdb_bind_get_extra_info)(info).cast::<Registered>();
        for &(name, physical) in registered.source.columns() {
            let name = CString::new(name).expect("column names hold no zero byte");
            let mut ty = logical(api, physical);
            (api.duckdb_bind_add_result_column)(info, name.as_ptr(), ty);
            (api.duckdb_destroy_logical_type)(&raw mut ty);
        }
    }
}

unsafe extern "C" fn init(info: InitHandle) {
    let api = api();
    // SAFETY: as in `bind`.
    unsafe {
        let registered = &*(api.duckdb_init_get_extra_info)(info).cast::<Registered>();
        (api.duckdb_init_set_max_threads)(info, registered.source.threads_max() as u64);
    }
}

unsafe extern "C" fn local_init(info: InitHandle) {
    let api = api();
    // SAFETY: as in `bind`; DuckDB owns the local data from here on and frees it by `drop_local`.
    unsafe {
        let registered = (api.duckdb_init_get_extra_info)(info).cast::<Registered>();
        match catch_unwind(AssertUnwindSafe(|| (*registered).source.open())) {
            Ok(feed) => {
                let local = Box::into_raw(Box::new(Local { registered, feed }));
                (api.duckdb_init_set_init_data)(info, local.cast(), Some(drop_local));
            }
            Err(_) => (api.duckdb_init_set_error)(info, c"the source panicked".as_ptr()),
        }
    }
}

unsafe extern "C" fn call(info: CallHandle, chunk: ChunkHandle) {
    let api = api();
    // SAFETY: the local data is this thread's own, set by `local_init`; the registration outlives the query; the chunk is
    // valid while this call lasts.
    unsafe {
        let local = &mut *(api.duckdb_function_get_local_init_data)(info).cast::<Local>();
        let columns = (*local.registered).source.columns();
        let mut page = Page {
            api,
            chunk,
            columns,
            written: vec![0; columns.len()],
            rows_max: (api.duckdb_vector_size)() as usize,
        };
        // A panic must not unwind into DuckDB.
        let outcome = catch_unwind(AssertUnwindSafe(|| local.feed.fill(&mut page)))
            .unwrap_or_else(|_| Err("the source panicked".to_owned()));
        match outcome.and_then(|rows| page.complete(rows)) {
            Ok(rows) => (api.duckdb_data_chunk_set_size)(chunk, rows),
            Err(why) => {
                let why = CString::new(why).unwrap_or_default();
                (api.duckdb_function_set_error)(info, why.as_ptr());
            }
        }
    }
}
