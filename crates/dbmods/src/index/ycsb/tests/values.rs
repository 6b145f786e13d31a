//! Values: whatever is wrong with one is found.

use crate::index::ycsb::{VALUE_BYTES_MIN, WrongValue, check, fill};

fn value(record: u64, version: u64, bytes: usize) -> Vec<u8> {
    let mut value = vec![0; bytes];
    fill(record, version, &mut value);
    value
}

/// Lengths with and without whole words and whole groups of words.
fn lengths() -> impl Iterator<Item = usize> {
    let last = if cfg!(miri) { 30 } else { 220 };
    (VALUE_BYTES_MIN..last).chain([1000, 1024])
}

#[test]
fn a_value_says_its_version() {
    for bytes in lengths() {
        for (record, version) in [
            (0, 0),
            (0, 1),
            (1, 0),
            (12_345, 6_789),
            (u64::MAX, u64::MAX),
        ] {
            let value = value(record, version, bytes);
            assert_eq!(check(record, &value), Ok(version), "{bytes}");
            let found = record;
            let record = record ^ 1;
            assert_eq!(
                check(record, &value),
                Err(WrongValue::Record { record, found })
            );
        }
    }
}

#[test]
fn each_byte_is_checked() {
    for bytes in lengths() {
        let right = value(7, 3, bytes);
        for at in 0..bytes {
            for bit in 0..8 {
                let mut wrong = right.clone();
                wrong[at] ^= 1 << bit;
                let said = check(7, &wrong).expect_err("a bit is wrong");
                match said {
                    WrongValue::Record { .. } => assert!(at < 8),
                    WrongValue::Bytes {
                        at: said, version, ..
                    } => match at {
                        8..16 => assert_ne!(version, 3),
                        _ => assert_eq!((said, version), (at, 3)),
                    },
                    WrongValue::Short { .. } => panic!("{said}"),
                }
            }
        }
    }
}

#[test]
fn a_value_that_is_cut_grown_shifted_or_torn_is_found() {
    for bytes in lengths() {
        let right = value(7, 3, bytes);
        let other = value(7, 4, bytes);
        for len in VALUE_BYTES_MIN..bytes {
            assert!(check(7, &right[..len]).is_err(), "{bytes} cut to {len}");
        }
        assert!(check(7, &[&right[..], &[0]].concat()).is_err());
        for split in 1..bytes {
            let torn = [&right[..split], &other[split..]].concat();
            match check(7, &torn) {
                Ok(3) => assert_eq!(torn, right),
                Ok(4) => assert_eq!(torn, other),
                Ok(version) => panic!("version {version} at {split} of {bytes}"),
                Err(_) => assert!(torn != right && torn != other),
            }
        }
        if bytes >= 40 {
            let mut swapped = right.clone();
            swapped[16..32].rotate_left(8);
            assert!(
                check(7, &swapped).is_err(),
                "two words of {bytes} are swapped"
            );
        }
    }
}

#[test]
fn no_bytes_and_zeros_are_no_value() {
    for bytes in 0..VALUE_BYTES_MIN {
        assert_eq!(
            check(9, &vec![0; bytes]),
            Err(WrongValue::Short { record: 9, bytes })
        );
    }
    assert!(check(0, &[0; 100]).is_err());
}
