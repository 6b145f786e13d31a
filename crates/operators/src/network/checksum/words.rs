//! Without any instruction set: eight bytes at a time.

/// The sum of the little-endian words of `data`, its carries not added back in.
pub(crate) fn sum(data: &[u8]) -> u64 {
    let (blocks, rest) = data.as_chunks::<32>();
    let (mut low, mut high) = ([0u64; 4], [0u64; 4]);
    for block in blocks {
        let (words, _) = block.as_chunks::<8>();
        for ((low, high), word) in low.iter_mut().zip(&mut high).zip(words) {
            let word = u64::from_le_bytes(*word);
            // Of what wraps around here, the high halves say how much it was.
            *low = low.wrapping_add(word);
            *high += word >> 32;
        }
    }
    let mut sum = few(rest);
    for (low, high) in low.into_iter().zip(high) {
        sum += low.wrapping_sub(high << 32) + high;
    }
    sum
}

/// The same of fewer than 32 bytes.
fn few(data: &[u8]) -> u64 {
    let (words, mut rest) = data.as_chunks::<8>();
    let mut sum = 0;
    for word in words {
        let word = u64::from_le_bytes(*word);
        sum += (word >> 32) + (word & 0xffff_ffff);
    }
    if let Some((word, behind)) = rest.split_first_chunk() {
        sum += u64::from(u32::from_le_bytes(*word));
        rest = behind;
    }
    if let Some((word, behind)) = rest.split_first_chunk() {
        sum += u64::from(u16::from_le_bytes(*word));
        rest = behind;
    }
    sum + rest.first().map_or(0, |&byte| u64::from(byte))
}
