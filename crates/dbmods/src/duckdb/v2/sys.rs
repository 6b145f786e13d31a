//! The part of DuckDB's C API v2 (`duckdb_v2.h`) that dpb calls: what table functions need that are offered a query's filters.
//!
//! Version 1 of the API offers no filters. DuckDB calls these functions of version 2 unstable, so [`Functions::load`] takes them from
//! DuckDB 2.0 alone. The tests compare every declaration with DuckDB's header.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_void};

pub(super) use crate::duckdb::abi::{Huge, INLINE_MAX, Index, Text};
use crate::duckdb::abi::{functions, handles};

handles! {
    /// The root of all instances.
    EnvironmentHandle,
    /// A database instance.
    InstanceHandle,
    /// Options of a database that is attached; none are made here.
    AttachOptionsHandle,
    /// A connection.
    ConnectionHandle,
    /// The scope that types are created in.
    FactoryHandle,
    /// The detail of an error.
    ErrorHandle,
    /// A parsed text of SQL.
    StatementsHandle,
    /// A parsed statement.
    StatementHandle,
    /// A running query.
    ResultHandle,
    /// Up to `duckdb_vector_size()` rows.
    ChunkHandle,
    /// A column of a chunk; lives as long as the chunk.
    VectorHandle,
    /// The memory of a vector's long texts.
    ArenaHandle,
    /// A single value.
    ValueHandle,
    /// A type.
    TypeHandle,
    /// A node of a filter, for the duration of a callback.
    ExpressionHandle,
    /// A client's context, for the duration of a callback.
    ContextHandle,
    /// A table function about to be registered.
    TableFunctionHandle,
    /// A call of a function that is bound.
    BindHandle,
    /// The table that is bound.
    TableBindHandle,
    /// A scan that begins.
    InitHandle,
    /// A thread of a scan that begins.
    LocalHandle,
    /// A thread of a scan that is asked for rows.
    CallHandle,
    /// Filters that are offered.
    OfferHandle,
}

/// `DUCKDB_V2_ERROR`: zero is success.
pub(super) type Status = u32;

/// Any failure, as the API calls the ones that have no code of their own.
pub(super) const FAILURE: Status = 1;

/// `duckdb_v2_str`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct Str {
    pub(super) ptr: *const c_char,
    pub(super) len: Index,
}

impl Str {
    /// An empty text, for the functions that fill one.
    pub(super) const EMPTY: Self = Self {
        ptr: std::ptr::null(),
        len: 0,
    };

    /// A view of a text.
    pub(super) fn of(text: &str) -> Self {
        Self {
            ptr: text.as_ptr().cast(),
            len: text.len() as Index,
        }
    }
}

/// `duckdb_v2_opaque`: data of ours that DuckDB keeps, and how it is dropped.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Opaque {
    pub(super) ptr: *mut c_void,
    pub(super) destroy: Option<Destroy>,
    pub(super) equals: Option<Equals>,
}

/// `duckdb_v2_opaque_destroy_fn`.
pub(super) type Destroy = unsafe extern "C" fn(*mut c_void);
/// `duckdb_v2_opaque_equals_fn`.
pub(super) type Equals = unsafe extern "C" fn(*mut c_void, *mut c_void) -> bool;
/// `duckdb_v2_table_function_bind_callback_fn`.
pub(super) type Bind =
    unsafe extern "C" fn(BindHandle, TableBindHandle, ContextHandle, *mut ErrorHandle);
/// `duckdb_v2_table_function_init_global_callback_fn`.
pub(super) type Init = unsafe extern "C" fn(InitHandle, ContextHandle, *mut ErrorHandle);
/// `duckdb_v2_table_function_init_local_callback_fn`.
pub(super) type InitLocal = unsafe extern "C" fn(LocalHandle, ContextHandle, *mut ErrorHandle);
/// `duckdb_v2_table_function_exec_callback_fn`.
pub(super) type Call = unsafe extern "C" fn(CallHandle, ContextHandle, *mut ErrorHandle);
/// `duckdb_v2_table_function_filter_pushdown_callback_fn`.
pub(super) type Offer = unsafe extern "C" fn(OfferHandle, ContextHandle, *mut ErrorHandle);

/// `DUCKDB_V2_ORDER_PRESERVATION_NO_ORDER`.
pub(super) const NO_ORDER: u32 = 0;

/// `DUCKDB_V2_LOGICAL_TYPE_ID`, as far as dpb reads it.
pub(super) mod type_id {
    pub(in super::super) const BOOLEAN: u32 = 10;
    pub(in super::super) const TINYINT: u32 = 11;
    pub(in super::super) const SMALLINT: u32 = 12;
    pub(in super::super) const INTEGER: u32 = 13;
    pub(in super::super) const BIGINT: u32 = 14;
    pub(in super::super) const DATE: u32 = 15;
    pub(in super::super) const DECIMAL: u32 = 21;
    pub(in super::super) const DOUBLE: u32 = 23;
    pub(in super::super) const VARCHAR: u32 = 25;
    pub(in super::super) const HUGEINT: u32 = 50;
}

/// `DUCKDB_V2_EXPRESSION_TYPE`, as far as dpb reads it.
pub(super) mod node {
    pub(in super::super) const CAST: u32 = 12;
    pub(in super::super) const NOT: u32 = 13;
    pub(in super::super) const IS_NULL: u32 = 14;
    pub(in super::super) const IS_NOT_NULL: u32 = 15;
    pub(in super::super) const EQUAL: u32 = 25;
    pub(in super::super) const NOT_EQUAL: u32 = 26;
    pub(in super::super) const LESS: u32 = 27;
    pub(in super::super) const GREATER: u32 = 28;
    pub(in super::super) const LESS_OR_EQUAL: u32 = 29;
    pub(in super::super) const GREATER_OR_EQUAL: u32 = 30;
    pub(in super::super) const IN: u32 = 35;
    pub(in super::super) const NOT_IN: u32 = 36;
    pub(in super::super) const BETWEEN: u32 = 38;
    pub(in super::super) const AND: u32 = 50;
    pub(in super::super) const OR: u32 = 51;
    pub(in super::super) const CONSTANT: u32 = 75;
    pub(in super::super) const FUNCTION: u32 = 141;
    pub(in super::super) const COLUMN: u32 = 228;
}

functions! {
    fn duckdb_v2_error_info_get_text(ErrorHandle, *mut Str) -> Status;
    fn duckdb_v2_error_info_set_text(ErrorHandle, *const Str) -> Status;
    fn duckdb_v2_error_info_set_code(ErrorHandle, Status) -> Status;
    fn duckdb_v2_error_info_destroy(*mut ErrorHandle) -> Status;

    fn duckdb_v2_environment_create(*mut EnvironmentHandle, *mut ErrorHandle) -> Status;
    fn duckdb_v2_environment_destroy(*mut EnvironmentHandle) -> Status;
    fn duckdb_v2_instance_create_with_options(EnvironmentHandle, *const Str, *const Str, Index, *mut InstanceHandle, *mut ErrorHandle) -> Status;
    fn duckdb_v2_instance_attach(InstanceHandle, *const Str, *const Str, AttachOptionsHandle, bool, *mut ErrorHandle) -> Status;
    fn duckdb_v2_instance_destroy(*mut InstanceHandle) -> Status;
    fn duckdb_v2_connection_create(InstanceHandle, *mut ConnectionHandle, *mut ErrorHandle) -> Status;
    fn duckdb_v2_connection_destroy(*mut ConnectionHandle) -> Status;
    fn duckdb_v2_connection_get_factory(ConnectionHandle, *mut FactoryHandle, *mut ErrorHandle) -> Status;
    fn duckdb_v2_connection_register_table_function(ConnectionHandle, TableFunctionHandle, *mut ErrorHandle) -> Status;
    fn duckdb_v2_context_get_factory(ContextHandle, *mut FactoryHandle, *mut ErrorHandle) -> Status;

    fn duckdb_v2_parse_sql(ConnectionHandle, *const c_char, *mut StatementsHandle, *mut ErrorHandle) -> Status;
    fn duckdb_v2_statement_iterator_next(StatementsHandle, *mut StatementHandle, *mut ErrorHandle) -> Status;
    fn duckdb_v2_statement_iterator_destroy(*mut StatementsHandle) -> Status;
    fn duckdb_v2_sql_statement_destroy(*mut StatementHandle) -> Status;
    fn duckdb_v2_statement_execute(ConnectionHandle, StatementHandle, *const Str, *const ValueHandle, Index, *mut ResultHandle, *mut ErrorHandle) -> Status;
    fn duckdb_v2_result_fetch_chunk(ResultHandle, *mut ChunkHandle, *mut ErrorHandle) -> Status;
    fn duckdb_v2_result_destroy(*mut ResultHandle) -> Status;

    fn duckdb_v2_data_chunk_get_size(ChunkHandle, *mut Index, *mut ErrorHandle) -> Status;
    fn duckdb_v2_data_chunk_get_capacity(ChunkHandle, *mut Index, *mut ErrorHandle) -> Status;
    fn duckdb_v2_data_chunk_get_vector_count(ChunkHandle, *mut Index, *mut ErrorHandle) -> Status;
    fn duckdb_v2_data_chunk_get_vector(ChunkHandle, Index, *mut VectorHandle, *mut ErrorHandle) -> Status;
    fn duckdb_v2_data_chunk_destroy(*mut ChunkHandle) -> Status;
    fn duckdb_v2_vector_get_value(VectorHandle, Index, *mut ValueHandle, *mut ErrorHandle) -> Status;
    fn duckdb_v2_vector_set_size(VectorHandle, Index, *mut ErrorHandle) -> Status;
    fn duckdb_v2_vector_get_data_mutable(VectorHandle, *mut *mut c_void, *mut ErrorHandle) -> Status;
    fn duckdb_v2_vector_get_arena(VectorHandle, *mut ArenaHandle, *mut ErrorHandle) -> Status;
    fn duckdb_v2_arena_allocate(ArenaHandle, Index, *mut *mut u8, *mut ErrorHandle) -> Status;

    fn duckdb_v2_value_is_null(ValueHandle, *mut bool, *mut ErrorHandle) -> Status;
    fn duckdb_v2_value_get_logical_type(ValueHandle, *mut TypeHandle, *mut ErrorHandle) -> Status;
    fn duckdb_v2_value_get_bool(ValueHandle, *mut bool, *mut ErrorHandle) -> Status;
    fn duckdb_v2_value_get_hugeint(ValueHandle, *mut Huge, *mut ErrorHandle) -> Status;
    fn duckdb_v2_value_get_decimal(ValueHandle, *mut Huge, *mut u8, *mut u8, *mut ErrorHandle) -> Status;
    fn duckdb_v2_value_get_double(ValueHandle, *mut f64, *mut ErrorHandle) -> Status;
    fn duckdb_v2_value_get_date(ValueHandle, *mut i32, *mut ErrorHandle) -> Status;
    fn duckdb_v2_value_get_varchar(ValueHandle, *mut Str, *mut ErrorHandle) -> Status;
    fn duckdb_v2_value_destroy(*mut ValueHandle) -> Status;
    fn duckdb_v2_logical_type_get_id(TypeHandle, *mut u32, *mut ErrorHandle) -> Status;
    fn duckdb_v2_logical_type_destroy(*mut TypeHandle) -> Status;
    fn duckdb_v2_factory_create_type_from_text(FactoryHandle, *const Str, *mut TypeHandle, *mut ErrorHandle) -> Status;

    fn duckdb_v2_expression_get_type(ExpressionHandle, *mut u32, *mut ErrorHandle) -> Status;
    fn duckdb_v2_expression_get_return_type(ExpressionHandle, *mut TypeHandle, *mut ErrorHandle) -> Status;
    fn duckdb_v2_expression_get_child_count(ExpressionHandle, *mut Index, *mut ErrorHandle) -> Status;
    fn duckdb_v2_expression_get_child(ExpressionHandle, Index, *mut ExpressionHandle, *mut ErrorHandle) -> Status;
    fn duckdb_v2_expression_constant_get_value(ExpressionHandle, *mut ValueHandle, *mut ErrorHandle) -> Status;
    fn duckdb_v2_expression_column_ref_get_index(ExpressionHandle, *mut Index, *mut ErrorHandle) -> Status;
    fn duckdb_v2_expression_function_get_name(ExpressionHandle, *mut Str, *mut ErrorHandle) -> Status;

    fn duckdb_v2_table_function_create(FactoryHandle, *mut TableFunctionHandle, *mut ErrorHandle) -> Status;
    fn duckdb_v2_table_function_destroy(*mut TableFunctionHandle) -> Status;
    fn duckdb_v2_table_function_set_name(TableFunctionHandle, *const Str, *mut ErrorHandle) -> Status;
    fn duckdb_v2_table_function_set_user_data(TableFunctionHandle, *mut Opaque, *mut ErrorHandle) -> Status;
    fn duckdb_v2_table_function_set_bind_callback(TableFunctionHandle, Bind, *mut ErrorHandle) -> Status;
    fn duckdb_v2_table_function_set_init_global_callback(TableFunctionHandle, Init, *mut ErrorHandle) -> Status;
    fn duckdb_v2_table_function_set_init_local_callback(TableFunctionHandle, InitLocal, *mut ErrorHandle) -> Status;
    fn duckdb_v2_table_function_set_exec_callback(TableFunctionHandle, Call, *mut ErrorHandle) -> Status;
    fn duckdb_v2_table_function_set_projection_pushdown(TableFunctionHandle, bool, *mut ErrorHandle) -> Status;
    fn duckdb_v2_table_function_set_filter_pushdown_callback(TableFunctionHandle, Offer, *mut ErrorHandle) -> Status;

    fn duckdb_v2_function_bind_get_user_data(BindHandle, *mut *mut c_void, *mut ErrorHandle) -> Status;
    fn duckdb_v2_function_bind_set_bind_data(BindHandle, *mut Opaque, *mut ErrorHandle) -> Status;
    fn duckdb_v2_table_function_bind_add_result_column(TableBindHandle, *const Str, TypeHandle, *mut ErrorHandle) -> Status;
    fn duckdb_v2_table_function_bind_set_cardinality(TableBindHandle, Index, bool, *mut ErrorHandle) -> Status;
    fn duckdb_v2_table_function_bind_set_order_preservation(TableBindHandle, u32, *mut ErrorHandle) -> Status;

    fn duckdb_v2_table_function_init_global_get_bind_data(InitHandle, *mut *mut c_void, *mut ErrorHandle) -> Status;
    fn duckdb_v2_table_function_init_global_set_global_state(InitHandle, *mut Opaque, *mut ErrorHandle) -> Status;
    fn duckdb_v2_table_function_init_global_set_max_threads(InitHandle, Index, *mut ErrorHandle) -> Status;
    fn duckdb_v2_table_function_init_global_get_column_count(InitHandle, *mut Index, *mut ErrorHandle) -> Status;
    fn duckdb_v2_table_function_init_global_get_column_index(InitHandle, Index, *mut Index, *mut ErrorHandle) -> Status;
    fn duckdb_v2_table_function_init_local_set_local_state(LocalHandle, *mut Opaque, *mut ErrorHandle) -> Status;

    fn duckdb_v2_table_function_exec_get_global_state(CallHandle, *mut *mut c_void, *mut ErrorHandle) -> Status;
    fn duckdb_v2_table_function_exec_get_local_state(CallHandle, *mut *mut c_void, *mut ErrorHandle) -> Status;
    fn duckdb_v2_table_function_exec_get_output_chunk(CallHandle, *mut ChunkHandle, *mut ErrorHandle) -> Status;

    fn duckdb_v2_table_function_filter_pushdown_get_bind_data(OfferHandle, *mut *mut c_void, *mut ErrorHandle) -> Status;
    fn duckdb_v2_table_function_filter_pushdown_get_filter_count(OfferHandle, *mut Index, *mut ErrorHandle) -> Status;
    fn duckdb_v2_table_function_filter_pushdown_get_filter(OfferHandle, Index, *mut ExpressionHandle, *mut ErrorHandle) -> Status;
    fn duckdb_v2_table_function_filter_pushdown_accept(OfferHandle, Index, *mut ErrorHandle) -> Status;
    fn duckdb_v2_table_function_filter_pushdown_get_column_count(OfferHandle, *mut Index, *mut ErrorHandle) -> Status;
    fn duckdb_v2_table_function_filter_pushdown_get_column_index(OfferHandle, Index, *mut Index, *mut ErrorHandle) -> Status;
}

#[cfg(test)]
mod tests;
