//! Outputs whose sums a path keeps in registers together, so that it reads each input once for all of them.

use super::matrix::Matrix;

/// A matrix, its rows in groups, its coefficients as a path multiplies by them.
#[derive(Debug)]
pub(super) struct Groups<T> {
    inputs: usize,
    outputs: usize,
    groups: Vec<Group<T>>,
}

/// Some rows of it.
#[derive(Debug)]
pub(super) struct Group<T> {
    /// The number of outputs.
    pub(super) outputs: usize,
    /// The coefficients: for each input one for each output.
    pub(super) coefficients: Vec<T>,
}

impl<T> Groups<T> {
    /// Groups of at most `outputs_max` rows each, as many in one as in another if that can be: each reads all inputs again.
    pub(super) fn new(matrix: &Matrix, outputs_max: usize, coefficient: impl Fn(u8) -> T) -> Self {
        let (inputs, outputs) = (matrix.columns(), matrix.rows());
        let together = outputs.div_ceil(outputs.div_ceil(outputs_max));
        let group = |first: usize| {
            let rows = first..outputs.min(first + together);
            let pairs = (0..inputs).flat_map(|input| rows.clone().map(move |row| (row, input)));
            Group {
                outputs: rows.len(),
                coefficients: pairs
                    .map(|(row, input)| coefficient(matrix.at(row, input)))
                    .collect(),
            }
        };
        Self {
            inputs,
            outputs,
            groups: (0..outputs).step_by(together).map(group).collect(),
        }
    }

    /// Has `product` compute the blocks of each group. It gets as many blocks as there are inputs, and room for as many as
    /// the group has outputs.
    ///
    /// # Panics
    /// If that is not so.
    pub(super) fn run(
        &self,
        blocks: &[u8],
        block_bytes: usize,
        out: &mut [u8],
        mut product: impl FnMut(&Group<T>, &[u8], &mut [u8]),
    ) {
        assert_eq!(blocks.len(), self.inputs * block_bytes);
        assert_eq!(out.len(), self.outputs * block_bytes);
        let mut rest = out;
        for group in &self.groups {
            let (out, behind) = rest.split_at_mut(group.outputs * block_bytes);
            product(group, blocks, out);
            rest = behind;
        }
    }
}
