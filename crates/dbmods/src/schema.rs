//! Tables, columns, types and values.

use crc_fast::CrcAlgorithm;
use serde::{Deserialize, Serialize};

/// A column's type. Everything but text is an `i64` inside a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ColumnType {
    /// 32-bit signed integer (SQL INTEGER).
    Integer,
    /// 64-bit signed integer (SQL BIGINT).
    BigInt,
    /// Exact decimal of at most 18 digits, stored unscaled: 12.34 at scale 2 is 1234.
    Decimal {
        /// Digits in all.
        precision: u8,
        /// Digits after the point.
        scale: u8,
    },
    /// Days since 1970-01-01.
    Date,
    /// UTF-8 text (SQL VARCHAR); compares by bytes.
    Text,
}

/// A column. There is no NULL in a segment: TPC-H declares every column NOT NULL (clause 1.4.1).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    /// As written in SQL, lower case.
    pub name: String,
    /// The column's type.
    pub ty: ColumnType,
}

/// A table's name and columns, in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schema {
    /// The table's name.
    pub table: String,
    /// The table's columns.
    pub columns: Vec<Column>,
}

impl Schema {
    /// A number that tells schemas apart: of the table's name and its columns' names and types, in their order.
    pub fn fingerprint(&self) -> u64 {
        let bytes =
            postcard::to_stdvec(self).expect("names and types are data that postcard can write");
        crc_fast::checksum(CrcAlgorithm::Crc64Nvme, &bytes)
    }

    /// The position of the column called `name`, in any case.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.columns
            .iter()
            .position(|column| column.name.eq_ignore_ascii_case(name))
    }
}
