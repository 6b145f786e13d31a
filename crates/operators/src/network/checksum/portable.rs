//! The oracle: sixteen bits at a time, as RFC 1071 writes it down.

/// The checksum of `data` (RFC 1071): what goes into the field.
pub(crate) fn checksum(data: &[u8]) -> u16 {
    !folded(sum(data))
}

/// The checksum of a transport's header and payload, checksum field included, behind the pseudo header of these addresses
/// (RFC 9293, 3.1; RFC 768; RFC 8200, 8.1).
pub(crate) fn transport(addresses: &[u8], protocol: u8, data: &[u8]) -> u16 {
    let length = data.len() as u64;
    let length = (length >> 16) + (length & 0xffff);
    !folded(sum(addresses) + u64::from(protocol) + length + sum(data))
}

/// The words of `data`, in network order, added up. An odd last byte is the high half of a word.
fn sum(data: &[u8]) -> u64 {
    data.chunks(2)
        .map(|pair| u64::from(u16::from_be_bytes([pair[0], *pair.get(1).unwrap_or(&0)])))
        .sum()
}

/// The same in the byte order of memory: little-endian words, which sum to the same checksum with its bytes swapped (RFC 1071, 2 B).
pub(crate) fn sum_le(data: &[u8]) -> u64 {
    let (words, rest) = data.as_chunks::<4>();
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    let words = words.iter().chain([&last]);
    words.map(|word| u64::from(u32::from_le_bytes(*word))).sum()
}

/// Carries added back in until none is left.
fn folded(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}
