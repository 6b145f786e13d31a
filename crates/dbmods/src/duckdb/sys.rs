//! The part of DuckDB's C API (v1, `duckdb.h`) that dpb calls: types, constants and a table of functions.
//!
//! Declared by hand and kept narrow: DuckDB promises that these functions keep their meaning, and 1.5 and 2.0 both export
//! them. The table is filled from a library that was loaded at run time or, with the feature `duckdb-bundled`, from
//! symbols that were linked in ([`abi`](super::abi)). The tests compare
//! every declaration with DuckDB's header.
#![allow(unsafe_code)]

#[cfg(test)]
pub(super) mod header;

use std::ffi::{c_char, c_void};

pub(super) use super::abi::{Huge, INLINE_MAX, Index, Text};
use super::abi::{functions, handles};

handles! {
    /// An open database.
    DatabaseHandle,
    /// Options of a database about to be opened.
    ConfigHandle,
    /// A connection.
    ConnectionHandle,
    /// A prepared statement.
    StatementHandle,
    /// A prepared statement about to run.
    PendingHandle,
    /// Up to `duckdb_vector_size()` rows.
    ChunkHandle,
    /// One column of a chunk; lives as long as the chunk.
    VectorHandle,
    /// A column's type.
    TypeHandle,
    /// A table function about to be registered.
    TableFunctionHandle,
    /// The argument of a table function's bind callback.
    BindHandle,
    /// The argument of a table function's init callback.
    InitHandle,
    /// The argument of a table function's main callback.
    CallHandle,
}

/// `duckdb_state`: zero is success.
pub(super) type State = i32;

/// `duckdb_result`. Only `internal` is used by the functions below.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct ResultRaw {
    pub(super) deprecated_columns: Index,
    pub(super) deprecated_rows: Index,
    pub(super) deprecated_rows_changed: Index,
    pub(super) deprecated_data: *mut c_void,
    pub(super) deprecated_error: *mut c_char,
    pub(super) internal: *mut c_void,
}

impl ResultRaw {
    /// An empty result, for the functions that fill one.
    pub(super) const EMPTY: Self = Self {
        deprecated_columns: 0,
        deprecated_rows: 0,
        deprecated_rows_changed: 0,
        deprecated_data: std::ptr::null_mut(),
        deprecated_error: std::ptr::null_mut(),
        internal: std::ptr::null_mut(),
    };
}

/// `duckdb_type`, as far as dpb reads it.
pub(super) mod type_id {
    pub(in super::super) const TINYINT: u32 = 2;
    pub(in super::super) const SMALLINT: u32 = 3;
    pub(in super::super) const INTEGER: u32 = 4;
    pub(in super::super) const BIGINT: u32 = 5;
    pub(in super::super) const DOUBLE: u32 = 11;
    pub(in super::super) const DATE: u32 = 13;
    pub(in super::super) const HUGEINT: u32 = 16;
    pub(in super::super) const VARCHAR: u32 = 17;
    pub(in super::super) const DECIMAL: u32 = 19;
}

/// `duckdb_delete_callback_t`.
pub(super) type Delete = unsafe extern "C" fn(*mut c_void);

/// `duckdb_table_function_bind_t`.
pub(super) type Bind = unsafe extern "C" fn(BindHandle);

/// `duckdb_table_function_init_t`.
pub(super) type Init = unsafe extern "C" fn(InitHandle);

/// `duckdb_table_function_t`.
pub(super) type Call = unsafe extern "C" fn(CallHandle, ChunkHandle);

functions! {
    or_linked if feature = "duckdb-bundled";

    fn duckdb_library_version() -> *const c_char;
    fn duckdb_free(*mut c_void);

    fn duckdb_create_config(*mut ConfigHandle) -> State;
    fn duckdb_set_config(ConfigHandle, *const c_char, *const c_char) -> State;
    fn duckdb_destroy_config(*mut ConfigHandle);
    fn duckdb_open_ext(*const c_char, *mut DatabaseHandle, ConfigHandle, *mut *mut c_char) -> State;
    fn duckdb_close(*mut DatabaseHandle);
    fn duckdb_connect(DatabaseHandle, *mut ConnectionHandle) -> State;
    fn duckdb_disconnect(*mut ConnectionHandle);
    fn duckdb_interrupt(ConnectionHandle);

    fn duckdb_query(ConnectionHandle, *const c_char, *mut ResultRaw) -> State;
    fn duckdb_prepare(ConnectionHandle, *const c_char, *mut StatementHandle) -> State;
    fn duckdb_prepare_error(StatementHandle) -> *const c_char;
    fn duckdb_destroy_prepare(*mut StatementHandle);
    fn duckdb_pending_error(PendingHandle) -> *const c_char;
    fn duckdb_execute_pending(PendingHandle, *mut ResultRaw) -> State;
    fn duckdb_destroy_pending(*mut PendingHandle);

    fn duckdb_result_error(*mut ResultRaw) -> *const c_char;
    fn duckdb_rows_changed(*mut ResultRaw) -> Index;
    fn duckdb_column_count(*mut ResultRaw) -> Index;
    fn duckdb_column_name(*mut ResultRaw, Index) -> *const c_char;
    fn duckdb_column_logical_type(*mut ResultRaw, Index) -> TypeHandle;
    fn duckdb_fetch_chunk(ResultRaw) -> ChunkHandle;
    fn duckdb_destroy_result(*mut ResultRaw);

    fn duckdb_destroy_data_chunk(*mut ChunkHandle);
    fn duckdb_data_chunk_get_size(ChunkHandle) -> Index;
    fn duckdb_data_chunk_set_size(ChunkHandle, Index);
    fn duckdb_data_chunk_get_vector(ChunkHandle, Index) -> VectorHandle;
    fn duckdb_vector_size() -> Index;
    fn duckdb_vector_get_data(VectorHandle) -> *mut c_void;
    fn duckdb_vector_get_validity(VectorHandle) -> *mut u64;
    fn duckdb_vector_assign_string_element_len(VectorHandle, Index, *const c_char, Index);

    fn duckdb_create_logical_type(u32) -> TypeHandle;
    fn duckdb_create_decimal_type(u8, u8) -> TypeHandle;
    fn duckdb_get_type_id(TypeHandle) -> u32;
    fn duckdb_decimal_width(TypeHandle) -> u8;
    fn duckdb_decimal_scale(TypeHandle) -> u8;
    fn duckdb_decimal_internal_type(TypeHandle) -> u32;
    fn duckdb_destroy_logical_type(*mut TypeHandle);

    fn duckdb_create_table_function() -> TableFunctionHandle;
    fn duckdb_destroy_table_function(*mut TableFunctionHandle);
    fn duckdb_table_function_set_name(TableFunctionHandle, *const c_char);
    fn duckdb_table_function_set_extra_info(TableFunctionHandle, *mut c_void, Option<Delete>);
    fn duckdb_table_function_set_bind(TableFunctionHandle, Bind);
    fn duckdb_table_function_set_init(TableFunctionHandle, Init);
    fn duckdb_table_function_set_local_init(TableFunctionHandle, Init);
    fn duckdb_table_function_set_function(TableFunctionHandle, Call);
    fn duckdb_register_table_function(ConnectionHandle, TableFunctionHandle) -> State;
    fn duckdb_bind_get_extra_info(BindHandle) -> *mut c_void;
    fn duckdb_bind_add_result_column(BindHandle, *const c_char, TypeHandle);
    fn duckdb_init_get_extra_info(InitHandle) -> *mut c_void;
    fn duckdb_init_set_max_threads(InitHandle, Index);
    fn duckdb_init_set_init_data(InitHandle, *mut c_void, Option<Delete>);
    fn duckdb_init_set_error(InitHandle, *const c_char);
    fn duckdb_function_get_local_init_data(CallHandle) -> *mut c_void;
    fn duckdb_function_set_error(CallHandle, *const c_char);

    optional {
        // DuckDB says that it will go.
        fn duckdb_pending_prepared_streaming(StatementHandle, *mut PendingHandle) -> State;
    }
}
