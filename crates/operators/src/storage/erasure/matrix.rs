//! Matrices over the field: what parity is computed by, and what lost blocks are.

use dpb_core::{BlockLoss, ErasureCode};

use super::field::{inverse, product, products};

/// Coefficients, a row for each block that comes out, a column for each that goes in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Matrix {
    columns: usize,
    coefficients: Vec<u8>,
}

impl Matrix {
    /// The matrix that gives the parity blocks from the data blocks.
    pub(super) fn parity(code: ErasureCode) -> Self {
        let first = code.data_blocks() as u8;
        Self::of_blocks(code, (0..code.parity_blocks()).map(|j| first + j as u8))
    }

    /// The matrix that gives the missing blocks from the blocks that they are recovered from: data from these, and the missing blocks from data.
    pub(super) fn recovery(loss: &BlockLoss) -> Self {
        let data = Self::of_blocks(loss.code(), loss.available()).inverted();
        Self::of_blocks(loss.code(), loss.missing()).times(&data)
    }

    /// The matrix that gives these blocks from the data blocks.
    fn of_blocks(code: ErasureCode, blocks: impl Iterator<Item = u8>) -> Self {
        let columns = code.data_blocks();
        let coefficient = |block: u8, i: u8| match usize::from(block) < columns {
            true => u8::from(block == i),
            // A difference of two elements is their exclusive or, as their sum is.
            false => inverse(block ^ i),
        };
        let row = |block| (0..columns as u8).map(move |i| coefficient(block, i));
        Self {
            columns,
            coefficients: blocks.flat_map(row).collect(),
        }
    }

    /// Blocks that come out.
    pub(super) fn rows(&self) -> usize {
        self.coefficients.len() / self.columns
    }

    /// Blocks that go in.
    pub(super) fn columns(&self) -> usize {
        self.columns
    }

    /// The coefficient of block `column` for block `row`.
    pub(super) fn at(&self, row: usize, column: usize) -> u8 {
        self.row(row)[column]
    }

    fn row(&self, row: usize) -> &[u8] {
        &self.coefficients[row * self.columns..][..self.columns]
    }

    fn times(&self, other: &Self) -> Self {
        let mut coefficients = vec![0; self.rows() * other.columns];
        for (i, sum) in coefficients.chunks_exact_mut(other.columns).enumerate() {
            for (j, &factor) in self.row(i).iter().enumerate() {
                add_multiple(sum, factor, other.row(j));
            }
        }
        Self {
            columns: other.columns,
            coefficients,
        }
    }

    /// Gauss and Jordan's elimination, of this matrix and the one beside it that starts as the identity.
    ///
    /// # Panics
    /// If it is not square and invertible, which rows of a Cauchy matrix and of the identity always are.
    fn inverted(self) -> Self {
        let n = self.columns;
        let beside = |i: usize| (0..n).map(move |j| u8::from(i == j));
        let mut rows: Vec<Vec<u8>> = (0..n)
            .map(|i| self.row(i).iter().copied().chain(beside(i)).collect())
            .collect();
        for i in 0..n {
            let pivot = (i..n).find(|&row| rows[row][i] != 0);
            rows.swap(i, pivot.expect("a Cauchy matrix is invertible"));
            let scale = products(inverse(rows[i][i]));
            for value in &mut rows[i] {
                *value = scale[usize::from(*value)];
            }
            let pivot = rows[i].clone();
            for (_, row) in rows.iter_mut().enumerate().filter(|(row, _)| *row != i) {
                let factor = row[i];
                add_multiple(row, factor, &pivot);
            }
        }
        Self {
            columns: n,
            coefficients: rows
                .into_iter()
                .flat_map(|row| row.into_iter().skip(n))
                .collect(),
        }
    }
}

fn add_multiple(sum: &mut [u8], factor: u8, row: &[u8]) {
    for (sum, &value) in sum.iter_mut().zip(row) {
        *sum ^= product(factor, value);
    }
}
