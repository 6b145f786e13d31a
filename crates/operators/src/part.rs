//! The end of an item that fills no vector, read without what lies behind it.

/// Fewer than sixteen bytes, the first one lowest, and zeros behind them: two or three reads that may overlap.
#[inline(always)]
pub(crate) fn part(bytes: &[u8]) -> u128 {
    let len = bytes.len();
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let [first, last] = [u64::from_le_bytes(*first), u64::from_le_bytes(*last)];
        u128::from(first) | u128::from(last) << (8 * (len - 8))
    } else if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let first = u64::from(u32::from_le_bytes(*first));
        let last = u64::from(u32::from_le_bytes(*last));
        u128::from(first | last << (8 * (len - 4)))
    } else if let (Some(first), Some(last)) = (bytes.first(), bytes.last()) {
        let middle = u64::from(bytes[len / 2]) << (8 * (len / 2));
        let last = u64::from(*last) << (8 * (len - 1));
        u128::from(u64::from(*first) | middle | last)
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_is_read_whole() {
        let bytes: [u8; 16] = std::array::from_fn(|i| 0xa1 + i as u8);
        for len in 0..16 {
            let mut right = [0; 16];
            right[..len].copy_from_slice(&bytes[..len]);
            assert_eq!(part(&bytes[..len]).to_le_bytes(), right, "{len} bytes");
        }
    }
}
