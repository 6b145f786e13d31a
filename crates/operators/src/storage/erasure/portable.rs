//! One look-up a byte and coefficient.

use super::field::products;
use super::matrix::Matrix;

/// Each block of `out` is the sum of the blocks, each times its coefficient.
pub(super) fn product(matrix: &Matrix, blocks: &[u8], block_bytes: usize, out: &mut [u8]) {
    if block_bytes == 0 {
        return;
    }
    for (row, out) in out.chunks_exact_mut(block_bytes).enumerate() {
        out.fill(0);
        for (column, block) in blocks.chunks_exact(block_bytes).enumerate() {
            let products = products(matrix.at(row, column));
            for (sum, &byte) in out.iter_mut().zip(block) {
                *sum ^= products[usize::from(byte)];
            }
        }
    }
}
