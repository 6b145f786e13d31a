//! The layouts in DuckDB of types and tables of ours.

use super::raw::Physical;
use crate::schema::ColumnType;
use crate::tpch;

/// DuckDB's layout of a type of ours.
pub(super) fn physical(ty: ColumnType) -> Physical {
    match ty {
        ColumnType::Integer => Physical::I32,
        ColumnType::BigInt => Physical::I64,
        ColumnType::Decimal { precision, scale } => Physical::Decimal {
            precision,
            scale,
            bytes: match precision {
                0..=4 => 2,
                5..=9 => 4,
                _ => 8,
            },
        },
        ColumnType::Date => Physical::Date,
        ColumnType::Text => Physical::Text,
    }
}

/// The names and layouts of the columns of a table of TPC-H; `None` if TPC-H has no such table.
pub(super) fn physical_columns(table: &str) -> Option<Vec<(&'static str, Physical)>> {
    let columns = tpch::columns(table)?.iter();
    Some(columns.map(|&(name, ty)| (name, physical(ty))).collect())
}
