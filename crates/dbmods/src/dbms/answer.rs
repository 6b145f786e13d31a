//! The answer to a query, as text: what engines, processes and files of expected answers have in common.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal64Type, Decimal128Type, Float64Type, Int32Type, Int64Type,
};
use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType;
use crc_fast::{CrcAlgorithm, Digest};
use serde::{Deserialize, Serialize};

use crate::query::date;

/// A value as text; `None` is NULL. Decimals have all digits of their scale, dates are ISO.
pub type Cell = Option<String>;

/// The rows of a query, in the order in which they came.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// True for each column of DOUBLEs, whose last digits depend on the order in which values were added up.
    pub doubles: Vec<bool>,
    /// The rows.
    pub rows: Vec<Vec<Cell>>,
}

/// Digits after the point of a DOUBLE in a digest, in scientific notation.
const DIGEST_DIGITS: usize = 6;

impl Answer {
    /// Adds the rows of a batch.
    ///
    /// # Errors
    /// Names a column of a type that no query of TPC-H has.
    pub fn add(&mut self, batch: &RecordBatch) -> Result<(), String> {
        let columns = batch.columns();
        self.doubles = columns
            .iter()
            .map(|column| *column.data_type() == DataType::Float64)
            .collect();
        for row in 0..batch.num_rows() {
            let cells = columns.iter().map(|column| cell(column.as_ref(), row));
            self.rows.push(cells.collect::<Result<_, _>>()?);
        }
        Ok(())
    }

    /// A digest of the rows whatever their order, DOUBLEs rounded to seven digits: for people who compare two records.
    pub fn digest(&self) -> String {
        let mut rows: Vec<String> = self.rows.iter().map(|row| self.rounded(row)).collect();
        rows.sort_unstable();
        let mut digest = Digest::new(CrcAlgorithm::Crc64Nvme);
        for row in rows {
            digest.update(row.as_bytes());
            digest.update(b"\n");
        }
        format!("crc64:{:016x}", digest.finalize())
    }

    fn rounded(&self, row: &[Cell]) -> String {
        let cells = row.iter().enumerate().map(|(at, cell)| {
            let is_double = self.doubles.get(at).copied().unwrap_or(false);
            match cell {
                None => "\u{0}".to_owned(),
                Some(text) if is_double => match text.parse::<f64>() {
                    Ok(value) => format!("{value:.DIGEST_DIGITS$e}"),
                    Err(_) => text.clone(),
                },
                Some(text) => text.clone(),
            }
        });
        cells.collect::<Vec<_>>().join("\u{1f}")
    }
}

fn cell(column: &dyn Array, row: usize) -> Result<Cell, String> {
    if column.is_null(row) {
        return Ok(None);
    }
    Ok(Some(match column.data_type() {
        DataType::Int32 => column.as_primitive::<Int32Type>().value(row).to_string(),
        DataType::Int64 => column.as_primitive::<Int64Type>().value(row).to_string(),
        DataType::Decimal64(_, scale) => {
            let value = column.as_primitive::<Decimal64Type>().value(row);
            decimal(value.into(), *scale as u8)
        }
        DataType::Decimal128(_, scale) => {
            let value = column.as_primitive::<Decimal128Type>().value(row);
            decimal(value, *scale as u8)
        }
        DataType::Float64 => column.as_primitive::<Float64Type>().value(row).to_string(),
        DataType::Date32 => date::text(column.as_primitive::<Date32Type>().value(row)),
        DataType::Utf8 => column.as_string::<i32>().value(row).to_owned(),
        other => return Err(format!("an answer with a column of {other}")),
    }))
}

/// A decimal with `scale` digits after the point.
pub(super) fn decimal(unscaled: i128, scale: u8) -> String {
    let digits = unscaled.unsigned_abs().to_string();
    let sign = if unscaled < 0 { "-" } else { "" };
    let scale = usize::from(scale);
    if scale == 0 {
        return format!("{sign}{digits}");
    }
    let digits = format!("{digits:0>width$}", width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    format!("{sign}{whole}.{fraction}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(rows: &[[&str; 2]]) -> Answer {
        let cell = |text: &&str| Some((*text).to_owned());
        Answer {
            doubles: vec![false, true],
            rows: rows
                .iter()
                .map(|row| row.iter().map(cell).collect())
                .collect(),
        }
    }

    #[test]
    fn decimals_keep_their_scale() {
        assert_eq!(decimal(-5, 2), "-0.05");
        assert_eq!(decimal(123_456, 4), "12.3456");
        assert_eq!(decimal(i128::MIN, 0), i128::MIN.to_string());
    }

    #[test]
    fn a_digest_does_not_depend_on_order_or_last_digits_but_on_all_else() {
        let digest = answer(&[["a", "1.25"], ["b", "2.5"]]).digest();
        assert_eq!(
            answer(&[["b", "2.5"], ["a", "1.2500000001"]]).digest(),
            digest
        );
        assert_ne!(answer(&[["a", "1.26"], ["b", "2.5"]]).digest(), digest);
        assert_ne!(answer(&[["a", "1.25"], ["c", "2.5"]]).digest(), digest);
        assert_ne!(answer(&[["a", "1.25"]]).digest(), digest);
    }
}
