//! A table of ours as a table function: callbacks that DuckDB's threads make, and its vectors.
//!
//! DuckDB keeps data for us: with the function the table, with each use of it in a statement the filters that were taken, with each scan
//! the scan, and with each of its threads the batch that it has in hand.
#![allow(unsafe_code)]

use std::any::Any;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::cast::AsArray;
use arrow_array::types::{Date32Type, Decimal64Type, Int32Type, Int64Type};
use arrow_array::{Array, ArrowPrimitiveType, RecordBatch, StringArray};
use arrow_schema::DataType;

use super::raw::{self, Connection, Refusal, tried};
use super::sys::{
    ArenaHandle, BindHandle, CallHandle, ChunkHandle, ContextHandle, ErrorHandle, ExpressionHandle,
    FAILURE, FactoryHandle, Functions, INLINE_MAX, Index, InitHandle, LocalHandle, NO_ORDER,
    OfferHandle, Opaque, Str, TableBindHandle, TableFunctionHandle, Text, TypeHandle, VectorHandle,
};
use super::{Offered, Pushed, PushedScan, PushedTable};
use crate::query::sql;
use crate::schema::Column;

/// The data that DuckDB keeps with the function.
struct Registered {
    table: Arc<dyn PushedTable>,
}

/// The data that DuckDB keeps with each use of the table.
struct Bound {
    table: Arc<dyn PushedTable>,
    number: usize,
    taken: Mutex<Vec<Pushed>>,
}

/// The data that DuckDB keeps with each scan.
struct Scanning {
    scan: Box<dyn PushedScan>,
    /// The column of a batch that each vector of a chunk is.
    places: Vec<usize>,
}

/// The data that DuckDB keeps with each thread of a scan.
#[derive(Default)]
struct Held {
    batch: Option<RecordBatch>,
    taken: usize,
}

/// Makes `table` callable as `SELECT * FROM name()`.
pub(super) fn register(
    connection: &Connection,
    name: &str,
    table: Arc<dyn PushedTable>,
) -> Result<(), Refusal> {
    let api = connection.api;
    let factory = connection.factory()?;
    let mut function = TableFunctionHandle::NULL;
    // SAFETY: the factory and the connection are alive; the function is created and destroyed here, and a registration keeps what it
    // needs; the name is copied; callbacks have the types that `duckdb_v2.h` asks for; from `set_user_data` on DuckDB owns the table
    // and drops it once.
    unsafe {
        tried(api, |error| {
            (api.duckdb_v2_table_function_create)(factory, &raw mut function, error)
        })?;
        let configured = configure(api, function, name, table).and_then(|()| {
            tried(api, |error| {
                (api.duckdb_v2_connection_register_table_function)(
                    connection.handle,
                    function,
                    error,
                )
            })
        });
        (api.duckdb_v2_table_function_destroy)(&raw mut function);
        configured
    }
}

/// Sets everything that a function has.
///
/// # Safety
/// `function` is one that was created and not yet destroyed.
unsafe fn configure(
    api: &Functions,
    function: TableFunctionHandle,
    name: &str,
    table: Arc<dyn PushedTable>,
) -> Result<(), Refusal> {
    let name = Str::of(name);
    let mut data = kept(Registered { table });
    // SAFETY: the caller's, and as `register` says.
    unsafe {
        tried(api, |error| {
            (api.duckdb_v2_table_function_set_user_data)(function, &raw mut data, error)
        })
        .inspect_err(|_| dropped::<Registered>(data.ptr))?;
        tried(api, |error| {
            (api.duckdb_v2_table_function_set_name)(function, &raw const name, error)
        })?;
        tried(api, |error| {
            (api.duckdb_v2_table_function_set_bind_callback)(function, bind, error)
        })?;
        tried(api, |error| {
            (api.duckdb_v2_table_function_set_init_global_callback)(function, init, error)
        })?;
        tried(api, |error| {
            (api.duckdb_v2_table_function_set_init_local_callback)(function, init_local, error)
        })?;
        tried(api, |error| {
            (api.duckdb_v2_table_function_set_exec_callback)(function, call, error)
        })?;
        tried(api, |error| {
            (api.duckdb_v2_table_function_set_projection_pushdown)(function, true, error)
        })?;
        tried(api, |error| {
            (api.duckdb_v2_table_function_set_filter_pushdown_callback)(function, offer, error)
        })
    }
}

/// Data that DuckDB keeps, and drops by [`dropped`].
fn kept<T>(data: T) -> Opaque {
    Opaque {
        ptr: Box::into_raw(Box::new(data)).cast(),
        destroy: Some(dropped::<T>),
        equals: None,
    }
}

unsafe extern "C" fn dropped<T>(data: *mut c_void) {
    // SAFETY: DuckDB gives back, once, what `kept` made of a `T`.
    drop(unsafe { Box::from_raw(data.cast::<T>()) });
}

/// Runs the body of a callback, and tells DuckDB what went wrong. A panic does not unwind into DuckDB.
///
/// # Safety
/// `error` is the slot that the callback was given.
unsafe fn guarded(error: *mut ErrorHandle, body: impl FnOnce() -> Result<(), Refusal>) {
    let outcome = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| Err(words(&*panic)));
    if let Err(why) = outcome {
        let api = raw::known_api();
        let text = Str::of(&why);
        // SAFETY: the caller's: the slot holds a live error, and the text is copied.
        unsafe {
            (api.duckdb_v2_error_info_set_code)(*error, FAILURE);
            (api.duckdb_v2_error_info_set_text)(*error, &raw const text);
        }
    }
}

fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    format!(
        "a table of dpb's panicked: {}",
        text.unwrap_or("without a word")
    )
}

unsafe extern "C" fn bind(
    info: BindHandle,
    result: TableBindHandle,
    context: ContextHandle,
    error: *mut ErrorHandle,
) {
    // SAFETY: the handles are those of this call, and live as long as it; the user data is what `configure` set.
    unsafe { guarded(error, || bound(raw::known_api(), info, result, context)) }
}

/// # Safety
/// As of a callback.
unsafe fn bound(
    api: &Functions,
    info: BindHandle,
    result: TableBindHandle,
    context: ContextHandle,
) -> Result<(), Refusal> {
    let mut data = std::ptr::null_mut();
    let mut factory = FactoryHandle::NULL;
    // SAFETY: the caller's; out-pointers are to locals; types are destroyed once, after DuckDB has copied them.
    unsafe {
        tried(api, |error| {
            (api.duckdb_v2_function_bind_get_user_data)(info, &raw mut data, error)
        })?;
        let table = Arc::clone(&(*data.cast::<Registered>()).table);
        tried(api, |error| {
            (api.duckdb_v2_context_get_factory)(context, &raw mut factory, error)
        })?;
        for Column { name, ty } in &table.schema().columns {
            let (name, text) = (Str::of(name), sql::type_name(*ty));
            let text = Str::of(&text);
            let mut ty = TypeHandle::NULL;
            tried(api, |error| {
                (api.duckdb_v2_factory_create_type_from_text)(
                    factory,
                    &raw const text,
                    &raw mut ty,
                    error,
                )
            })?;
            let added = tried(api, |error| {
                (api.duckdb_v2_table_function_bind_add_result_column)(
                    result,
                    &raw const name,
                    ty,
                    error,
                )
            });
            (api.duckdb_v2_logical_type_destroy)(&raw mut ty);
            added?;
        }
        let used = table.used();
        tried(api, |error| {
            (api.duckdb_v2_table_function_bind_set_cardinality)(
                result,
                used.rows_expected,
                false,
                error,
            )
        })?;
        tried(api, |error| {
            (api.duckdb_v2_table_function_bind_set_order_preservation)(result, NO_ORDER, error)
        })?;
        let mut data = kept(Bound {
            table,
            number: used.number,
            taken: Mutex::default(),
        });
        tried(api, |error| {
            (api.duckdb_v2_function_bind_set_bind_data)(info, &raw mut data, error)
        })
        .inspect_err(|_| dropped::<Bound>(data.ptr))
    }
}

unsafe extern "C" fn offer(info: OfferHandle, _: ContextHandle, error: *mut ErrorHandle) {
    // SAFETY: the handle is that of this call; the bind data is what `bound` set.
    unsafe { guarded(error, || offered(raw::known_api(), info)) }
}

/// # Safety
/// As of a callback.
unsafe fn offered(api: &Functions, info: OfferHandle) -> Result<(), Refusal> {
    let mut data = std::ptr::null_mut();
    let (mut filters, mut count) = (0, 0);
    // SAFETY: the caller's; out-pointers are to locals; indices are below the counts.
    unsafe {
        tried(api, |error| {
            (api.duckdb_v2_table_function_filter_pushdown_get_bind_data)(info, &raw mut data, error)
        })?;
        let bound = &*data.cast::<Bound>();
        tried(api, |error| {
            (api.duckdb_v2_table_function_filter_pushdown_get_filter_count)(
                info,
                &raw mut filters,
                error,
            )
        })?;
        tried(api, |error| {
            (api.duckdb_v2_table_function_filter_pushdown_get_column_count)(
                info,
                &raw mut count,
                error,
            )
        })?;
        let mut columns = Vec::new();
        for at in 0..count {
            let mut column = 0;
            tried(api, |error| {
                (api.duckdb_v2_table_function_filter_pushdown_get_column_index)(
                    info,
                    at,
                    &raw mut column,
                    error,
                )
            })?;
            // A column that is none of the schema's, as the number of a row is, leads to a filter that nobody takes.
            columns.push(u32::try_from(column).unwrap_or(u32::MAX));
        }
        for at in 0..filters {
            let mut filter = ExpressionHandle::NULL;
            tried(api, |error| {
                (api.duckdb_v2_table_function_filter_pushdown_get_filter)(
                    info,
                    at,
                    &raw mut filter,
                    error,
                )
            })?;
            let filter = raw::expression(api, filter, &columns)?;
            let (predicate, is_whole) = match bound.table.offered(&filter) {
                Offered::Taken(predicate) => (predicate, true),
                Offered::InPart(predicate) => (predicate, false),
                Offered::Refused => continue,
            };
            let mut taken = bound.taken.lock().unwrap_or_else(PoisonError::into_inner);
            if is_whole {
                tried(api, |error| {
                    (api.duckdb_v2_table_function_filter_pushdown_accept)(info, at, error)
                })?;
            }
            taken.push(Pushed {
                predicate,
                is_whole,
            });
        }
        Ok(())
    }
}

unsafe extern "C" fn init(info: InitHandle, _: ContextHandle, error: *mut ErrorHandle) {
    // SAFETY: the handle is that of this call; the bind data is what `bound` set.
    unsafe { guarded(error, || begun(raw::known_api(), info)) }
}

/// # Safety
/// As of a callback.
unsafe fn begun(api: &Functions, info: InitHandle) -> Result<(), Refusal> {
    let mut data = std::ptr::null_mut();
    let mut count = 0;
    // SAFETY: the caller's; out-pointers are to locals; indices are below the count.
    unsafe {
        tried(api, |error| {
            (api.duckdb_v2_table_function_init_global_get_bind_data)(info, &raw mut data, error)
        })?;
        let bound = &*data.cast::<Bound>();
        tried(api, |error| {
            (api.duckdb_v2_table_function_init_global_get_column_count)(info, &raw mut count, error)
        })?;
        let (mut columns, mut places) = (Vec::new(), Vec::new());
        for at in 0..count {
            let mut column: Index = 0;
            tried(api, |error| {
                (api.duckdb_v2_table_function_init_global_get_column_index)(
                    info,
                    at,
                    &raw mut column,
                    error,
                )
            })?;
            if column >= bound.table.schema().columns.len() as Index {
                return Err(format!(
                    "DuckDB asks for column {column}, which is not there"
                ));
            }
            let column = column as u32;
            let place = columns.iter().position(|&known| known == column);
            places.push(place.unwrap_or(columns.len()));
            if place.is_none() {
                columns.push(column);
            }
        }
        let taken = bound.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let scan = bound.table.scan(bound.number, &columns, taken.clone())?;
        let mut data = kept(Scanning { scan, places });
        tried(api, |error| {
            (api.duckdb_v2_table_function_init_global_set_global_state)(info, &raw mut data, error)
        })
        .inspect_err(|_| dropped::<Scanning>(data.ptr))?;
        let threads = bound.table.threads_max() as Index;
        tried(api, |error| {
            (api.duckdb_v2_table_function_init_global_set_max_threads)(info, threads, error)
        })
    }
}

unsafe extern "C" fn init_local(info: LocalHandle, _: ContextHandle, error: *mut ErrorHandle) {
    // SAFETY: the handle is that of this call; DuckDB owns the state from here on.
    unsafe {
        guarded(error, || {
            let api = raw::known_api();
            let mut data = kept(Held::default());
            tried(api, |error| {
                (api.duckdb_v2_table_function_init_local_set_local_state)(
                    info,
                    &raw mut data,
                    error,
                )
            })
            .inspect_err(|_| dropped::<Held>(data.ptr))
        });
    }
}

unsafe extern "C" fn call(info: CallHandle, _: ContextHandle, error: *mut ErrorHandle) {
    // SAFETY: the handle is that of this call; the states are what `begun` and `init_local` set, the latter this thread's own.
    unsafe { guarded(error, || called(raw::known_api(), info)) }
}

/// # Safety
/// As of a callback.
unsafe fn called(api: &Functions, info: CallHandle) -> Result<(), Refusal> {
    let (mut global, mut local) = (std::ptr::null_mut(), std::ptr::null_mut());
    let mut chunk = ChunkHandle::NULL;
    let mut rows_max = 0;
    // SAFETY: the caller's; out-pointers are to locals; nobody else has this thread's state.
    unsafe {
        tried(api, |error| {
            (api.duckdb_v2_table_function_exec_get_global_state)(info, &raw mut global, error)
        })?;
        tried(api, |error| {
            (api.duckdb_v2_table_function_exec_get_local_state)(info, &raw mut local, error)
        })?;
        tried(api, |error| {
            (api.duckdb_v2_table_function_exec_get_output_chunk)(info, &raw mut chunk, error)
        })?;
        tried(api, |error| {
            (api.duckdb_v2_data_chunk_get_capacity)(chunk, &raw mut rows_max, error)
        })?;
        let scanning = &*global.cast::<Scanning>();
        let held = &mut *local.cast::<Held>();
        let rows = held.rows(scanning.scan.as_ref(), rows_max as usize)?;
        for (at, &place) in scanning.places.iter().enumerate() {
            let mut vector = VectorHandle::NULL;
            tried(api, |error| {
                (api.duckdb_v2_data_chunk_get_vector)(chunk, at as Index, &raw mut vector, error)
            })?;
            match &rows {
                Some(rows) => write(api, vector, rows.column(place).as_ref())?,
                None => size(api, vector, 0)?,
            }
        }
        Ok(())
    }
}

impl Held {
    /// Returns rows that were not yet handed over; none at the end.
    fn rows(
        &mut self,
        scan: &dyn PushedScan,
        rows_max: usize,
    ) -> Result<Option<RecordBatch>, Refusal> {
        loop {
            if let Some(batch) = &self.batch
                && self.taken < batch.num_rows()
            {
                let rows = rows_max.min(batch.num_rows() - self.taken);
                let pending = batch.slice(self.taken, rows);
                self.taken += rows;
                return Ok(Some(pending));
            }
            (self.batch, self.taken) = (scan.next()?, 0);
            if self.batch.is_none() {
                return Ok(None);
            }
        }
    }
}

/// Sets the number of rows of a vector.
///
/// # Safety
/// `vector` is one of the chunk that the callback fills.
unsafe fn size(api: &Functions, vector: VectorHandle, rows: usize) -> Result<(), Refusal> {
    // SAFETY: the caller's.
    tried(api, |error| unsafe {
        (api.duckdb_v2_vector_set_size)(vector, rows as Index, error)
    })
}

/// Writes a column without NULLs into a vector of its type.
///
/// # Safety
/// `vector` is one of the chunk that the callback fills, of the type that `bound` has declared for the column, with room for its rows.
unsafe fn write(api: &Functions, vector: VectorHandle, column: &dyn Array) -> Result<(), Refusal> {
    if column.null_count() > 0 {
        return Err("a scan gave NULL".to_owned());
    }
    let mut data = std::ptr::null_mut();
    // SAFETY: the caller's; a size is set before the memory is asked for, so that there is memory for all rows.
    unsafe {
        size(api, vector, column.len())?;
        tried(api, |error| {
            (api.duckdb_v2_vector_get_data_mutable)(vector, &raw mut data, error)
        })?;
        if data.is_null() {
            return Err("DuckDB gave a vector without memory".to_owned());
        }
        match column.data_type() {
            DataType::Int32 => numbers::<Int32Type>(column, data),
            DataType::Date32 => numbers::<Date32Type>(column, data),
            DataType::Int64 => numbers::<Int64Type>(column, data),
            // Of more than nine digits, as TPC-H's are: narrower ones have narrower elements.
            DataType::Decimal64(10.., _) => numbers::<Decimal64Type>(column, data),
            DataType::Utf8 => return texts(api, vector, column.as_string(), data.cast()),
            other => return Err(format!("a scan gave a column of {other}")),
        }
    }
    Ok(())
}

/// Copies numbers.
///
/// # Safety
/// `to` has room for the column's elements, and is aligned for them.
unsafe fn numbers<T: ArrowPrimitiveType>(column: &dyn Array, to: *mut c_void) {
    let values = column.as_primitive::<T>().values();
    // SAFETY: the caller's; DuckDB's memory is none of Arrow's.
    unsafe {
        to.cast::<T::Native>()
            .copy_from_nonoverlapping(values.as_ptr(), values.len());
    }
}

/// Writes texts: long ones lie in the vector's arena, copied at once.
///
/// # Safety
/// `to` has room for as many [`Text`]s as there are rows; `vector` is the vector that it belongs to.
unsafe fn texts(
    api: &Functions,
    vector: VectorHandle,
    texts: &StringArray,
    to: *mut Text,
) -> Result<(), Refusal> {
    let offsets = texts.value_offsets();
    let (first, last) = match (offsets.first(), offsets.last()) {
        (Some(&first), Some(&last)) => (first as usize, last as usize),
        _ => return Ok(()),
    };
    let bytes = &texts.value_data()[first..last];
    let mut arena = ArenaHandle::NULL;
    let mut home: *mut u8 = std::ptr::null_mut();
    // SAFETY: the caller's; the arena lives as long as the vector's rows; `home` has room for all bytes, and each text lies in them
    // where it lies in the array, whose offsets Arrow has checked.
    unsafe {
        let has_long = offsets
            .windows(2)
            .any(|pair| (pair[1] - pair[0]) as usize > INLINE_MAX);
        if has_long {
            tried(api, |error| {
                (api.duckdb_v2_vector_get_arena)(vector, &raw mut arena, error)
            })?;
            tried(api, |error| {
                (api.duckdb_v2_arena_allocate)(arena, bytes.len() as Index, &raw mut home, error)
            })?;
            home.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
        for (row, pair) in offsets.windows(2).enumerate() {
            let (start, end) = (pair[0] as usize - first, pair[1] as usize - first);
            let mut inlined = [0; INLINE_MAX];
            let len = end - start;
            if len <= INLINE_MAX {
                inlined[..len].copy_from_slice(&bytes[start..end]);
            } else {
                inlined[..4].copy_from_slice(&bytes[start..start + 4]);
                let address = home.add(start).expose_provenance() as u64;
                inlined[4..].copy_from_slice(&address.to_ne_bytes());
            }
            to.add(row).write(Text {
                len: len as u32,
                inlined,
            });
        }
    }
    Ok(())
}
