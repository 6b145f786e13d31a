//! YCSB's hash of a number.

const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x100_0000_01b3;
/// Octets that are hashed one by one; numbers above them take the slow path.
const OCTETS: u32 = 5;
/// What the octets above those of a small number do: they are zero, so each multiplies only.
const REST: u64 = PRIME.wrapping_pow(8 - OCTETS);

/// YCSB's `Utils.fnvhash64`: FNV-1a (Fowler, Noll and Vo) with 64 bits over the eight octets of `number`, the lowest first, and its absolute value
/// as a signed number. YCSB calls it FNV-1.
///
/// No number below 2^63 that is used as a record or an item is known to give the one value without a positive counterpart, 2^63; it would be
/// returned as it is.
#[inline]
pub const fn hash(number: u64) -> u64 {
    let (octets, rest) = match number >> (8 * OCTETS) {
        0 => (OCTETS, REST),
        _ => (8, 1),
    };
    let (mut left, mut hash) = (number, BASIS);
    let mut octet = 0;
    while octet < octets {
        hash = (hash ^ (left & 0xff)).wrapping_mul(PRIME);
        left >>= 8;
        octet += 1;
    }
    hash.wrapping_mul(rest).cast_signed().unsigned_abs()
}
