//! The declarations, against `duckdb_v2.h`: a C compiler is asked to agree with every prototype, size, place and value.

use std::mem::{align_of, offset_of, size_of};

use super::{DECLARED, Huge, NO_ORDER, Opaque, Str, Text, node, type_id};
use crate::duckdb::sys::header::{check, equalities, header};

/// A type of `duckdb_v2.h`, as C writes it.
fn own_type(rust: &str) -> Option<&'static str> {
    Some(match rust {
        // An enumeration.
        "Status" => "unsigned",
        "Str" => "duckdb_v2_str",
        "Opaque" => "duckdb_v2_opaque",
        "Huge" => "duckdb_v2_hugeint_t",
        "EnvironmentHandle" => "duckdb_v2_environment_handle",
        "InstanceHandle" => "duckdb_v2_instance_handle",
        "AttachOptionsHandle" => "duckdb_v2_attach_options_handle",
        "ConnectionHandle" => "duckdb_v2_connection_handle",
        "FactoryHandle" => "duckdb_v2_factory_handle",
        "ErrorHandle" => "duckdb_v2_error_info_handle",
        "StatementsHandle" => "duckdb_v2_statement_iterator_handle",
        "StatementHandle" => "duckdb_v2_sql_statement_handle",
        "ResultHandle" => "duckdb_v2_result_handle",
        "ChunkHandle" => "duckdb_v2_data_chunk_handle",
        "VectorHandle" => "duckdb_v2_vector_handle",
        "ArenaHandle" => "duckdb_v2_arena_handle",
        "ValueHandle" => "duckdb_v2_value_handle",
        "TypeHandle" => "duckdb_v2_logical_type_handle",
        "ExpressionHandle" => "duckdb_v2_expression_handle",
        "ContextHandle" => "duckdb_v2_context_handle",
        "TableFunctionHandle" => "duckdb_v2_table_function_handle",
        "BindHandle" => "duckdb_v2_function_bind_info_handle",
        "TableBindHandle" => "duckdb_v2_table_function_bind_info_handle",
        "InitHandle" => "duckdb_v2_table_function_init_global_info_handle",
        "LocalHandle" => "duckdb_v2_table_function_init_local_info_handle",
        "CallHandle" => "duckdb_v2_table_function_exec_info_handle",
        "OfferHandle" => "duckdb_v2_table_function_filter_pushdown_info_handle",
        "Bind" => "duckdb_v2_table_function_bind_callback_fn",
        "Init" => "duckdb_v2_table_function_init_global_callback_fn",
        "InitLocal" => "duckdb_v2_table_function_init_local_callback_fn",
        "Call" => "duckdb_v2_table_function_exec_callback_fn",
        "Offer" => "duckdb_v2_table_function_filter_pushdown_callback_fn",
        _ => return None,
    })
}

/// Layouts and constants, as C says them, and as they are here.
fn values() -> String {
    let layouts = [
        ("sizeof(DUCKDB_V2_ERROR)", size_of::<super::Status>()),
        ("DUCKDB_V2_ERROR_NONE", 0),
        ("DUCKDB_V2_ERROR_API", super::FAILURE as usize),
        ("sizeof(idx_t)", size_of::<super::Index>()),
        ("sizeof(duckdb_v2_str)", size_of::<Str>()),
        ("offsetof(duckdb_v2_str, len)", offset_of!(Str, len)),
        ("sizeof(duckdb_v2_bytes)", size_of::<Text>()),
        ("_Alignof(duckdb_v2_bytes)", align_of::<Text>()),
        (
            "offsetof(duckdb_v2_bytes, value.inlined.inlined)",
            offset_of!(Text, inlined),
        ),
        (
            "offsetof(duckdb_v2_bytes, value.pointer.ptr)",
            offset_of!(Text, inlined) + 4,
        ),
        ("DUCKDB_V2_BYTES_INLINE_LENGTH", super::INLINE_MAX),
        ("sizeof(duckdb_v2_hugeint_t)", size_of::<Huge>()),
        (
            "offsetof(duckdb_v2_hugeint_t, upper)",
            offset_of!(Huge, upper),
        ),
        ("sizeof(duckdb_v2_opaque)", size_of::<Opaque>()),
        (
            "offsetof(duckdb_v2_opaque, destroy)",
            offset_of!(Opaque, destroy),
        ),
        (
            "offsetof(duckdb_v2_opaque, equals)",
            offset_of!(Opaque, equals),
        ),
        ("DUCKDB_V2_ORDER_PRESERVATION_NO_ORDER", NO_ORDER as usize),
    ];
    let types = [
        ("BOOLEAN", type_id::BOOLEAN),
        ("TINYINT", type_id::TINYINT),
        ("SMALLINT", type_id::SMALLINT),
        ("INTEGER", type_id::INTEGER),
        ("BIGINT", type_id::BIGINT),
        ("DATE", type_id::DATE),
        ("DECIMAL", type_id::DECIMAL),
        ("DOUBLE", type_id::DOUBLE),
        ("VARCHAR", type_id::VARCHAR),
        ("HUGEINT", type_id::HUGEINT),
    ]
    .map(|(name, id)| (format!("DUCKDB_V2_LOGICAL_TYPE_ID_{name}"), id as usize));
    let nodes = [
        ("OPERATOR_CAST", node::CAST),
        ("OPERATOR_NOT", node::NOT),
        ("OPERATOR_IS_NULL", node::IS_NULL),
        ("OPERATOR_IS_NOT_NULL", node::IS_NOT_NULL),
        ("COMPARE_EQUAL", node::EQUAL),
        ("COMPARE_NOTEQUAL", node::NOT_EQUAL),
        ("COMPARE_LESSTHAN", node::LESS),
        ("COMPARE_GREATERTHAN", node::GREATER),
        ("COMPARE_LESSTHANOREQUALTO", node::LESS_OR_EQUAL),
        ("COMPARE_GREATERTHANOREQUALTO", node::GREATER_OR_EQUAL),
        ("COMPARE_IN", node::IN),
        ("COMPARE_NOT_IN", node::NOT_IN),
        ("COMPARE_BETWEEN", node::BETWEEN),
        ("CONJUNCTION_AND", node::AND),
        ("CONJUNCTION_OR", node::OR),
        ("VALUE_CONSTANT", node::CONSTANT),
        ("BOUND_FUNCTION", node::FUNCTION),
        ("BOUND_COLUMN_REF", node::COLUMN),
    ]
    .map(|(name, id)| (format!("DUCKDB_V2_EXPRESSION_TYPE_{name}"), id as usize));
    let mut claims: Vec<(&str, usize)> = layouts.to_vec();
    claims.extend(types.iter().map(|(name, id)| (name.as_str(), *id)));
    claims.extend(nodes.iter().map(|(name, id)| (name.as_str(), *id)));
    equalities(&claims)
}

#[test]
fn declarations_agree_with_the_header_and_wrong_ones_do_not() {
    let header = match header("duckdb_v2.h") {
        Ok(header) => format!("#define DUCKDB_V2_API_ALLOW_UNSTABLE 1\n{header}"),
        Err(why) => return println!("skipped: {why}"),
    };
    let wrong: [(&str, &[&str], &str); 3] = [
        (
            "duckdb_v2_environment_destroy",
            &["*mut InstanceHandle"],
            "Status",
        ),
        ("duckdb_v2_result_destroy", &[], "Status"),
        ("duckdb_v2_nothing", &[], "Status"),
    ];
    check(&header, DECLARED, &values(), own_type, &wrong);
}
