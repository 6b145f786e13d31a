//! Keys: their forms, and that they differ.

use dpb_core::random::SplitMix64;

use crate::index::ycsb::{KEY_BYTES_MAX, KeyForm, RECORDS_MAX, hash};

#[test]
fn keys_are_the_hash_in_decimal_or_as_bytes() {
    let mut random = SplitMix64::new(1);
    let numbers = (0..2000).chain((0..20_000).map(|_| random.next_u64() >> random.below(64)));
    for record in numbers {
        let expected = format!("user{}", hash(record));
        let key = KeyForm::Ycsb.key(record);
        assert_eq!(key.as_bytes(), expected.as_bytes(), "{record}");
        assert!(key.len() <= KEY_BYTES_MAX);
        assert_eq!(
            KeyForm::Integer.key(record).as_bytes(),
            hash(record).to_be_bytes()
        );
        assert_eq!(KeyForm::integer(record), hash(record).to_be_bytes());
    }
}

#[test]
fn decimals_have_any_length() {
    use crate::index::ycsb::key::Key;
    let powers = (0..19).map(|power| 10u64.pow(power));
    let numbers = powers.flat_map(|power| [power - 1, power, power + 1, power * 9]);
    for number in numbers.chain([1 << 63, (1 << 63) - 1, 99_999_999, 9_999_999_999_999_999]) {
        let key = Key::decimal(number);
        assert_eq!(key.as_bytes(), format!("user{number}").as_bytes());
    }
}

/// That an FNV hash with this prime, and its absolute value, differs among all numbers of `octets` octets.
///
/// The octets above are zero and multiply by an odd number. That keeps numbers apart, and numbers that are not each other's negative too. So the hash
/// before the last multiplication is looked at. There, the last octet makes a block of 256 numbers of each state of the octets before it. The
/// blocks are numbered, those of negative numbers by their opposite, which may also touch the block before. Blocks that are farther apart have no
/// number in common.
fn hashes_differ(prime: u64, octets: u32) -> bool {
    let states = 1u64 << (8 * (octets - 1));
    let mut blocks = Vec::with_capacity(states as usize);
    for number in 0..states {
        let mut hash = 0xcbf2_9ce4_8422_2325u64;
        for octet in 0..octets - 1 {
            hash = (hash ^ (number >> (8 * octet) & 0xff)).wrapping_mul(prime);
        }
        let begin = (hash & !0xff).cast_signed();
        blocks.push(begin.unsigned_abs() >> 8 << 1 | u64::from(begin < 0));
    }
    blocks.sort_unstable();
    blocks.windows(2).all(|pair| pair[1] - pair[0] > 3)
}

#[test]
#[cfg_attr(miri, ignore = "16 million states")]
fn keys_of_all_records_differ() {
    let octets = RECORDS_MAX.ilog2() / 8;
    assert_eq!(1 << (8 * octets), RECORDS_MAX);
    assert!(hashes_differ(0x100_0000_01b3, octets));
    assert!(
        !hashes_differ(0x101, 3),
        "a prime that is too small is found"
    );
    // The same by looking at each hash, for a small number of records.
    let mut hashes: Vec<u64> = (0..1 << 20).map(hash).collect();
    hashes.sort_unstable();
    assert!(hashes.windows(2).all(|pair| pair[0] != pair[1]));
}
