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
    let hash = match number >> (8 * OCTETS) {
        0 => octets::<OCTETS>(number).wrapping_mul(REST),
        _ => octets::<8>(number),
    };
    hash.cast_signed().unsigned_abs()
}

/// The hash of the lowest octets. Their number is known when this is compiled, so the loop is unrolled.
#[inline(always)]
const fn octets<const OCTETS: u32>(mut left: u64) -> u64 {
    let (mut hash, mut octet) = (BASIS, 0);
    while octet < OCTETS {
        hash = (hash ^ (left & 0xff)).wrapping_mul(PRIME);
        left >>= 8;
        octet += 1;
    }
    hash
}
