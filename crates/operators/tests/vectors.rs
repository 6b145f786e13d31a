//! Published vectors of the CRCs, and another implementation at every length near a border, on every path that this CPU has.

use dpb_core::Input;
use dpb_operators::cpu::Implementation;
use dpb_operators::network::crc::combine::Combine;
use dpb_operators::network::crc::{Algorithm, Castagnoli, Crc, Ieee, T10Dif};

/// Asserts the CRC of each message on each path.
fn assert_vectors<A: Algorithm>(vectors: &[(&[u8], u64)]) {
    for path in paths::<A>() {
        let kernel = Crc::<A>::new(path).expect("available");
        for &(message, crc) in vectors {
            let ours: u64 = kernel.checksum(message).into();
            assert_eq!(ours, crc, "{} on {path}, {message:02x?}", A::NAME);
        }
    }
}

fn paths<A: Algorithm>() -> impl Iterator<Item = Implementation> {
    let paths = Crc::<A>::PATHS.iter().copied();
    paths.filter(|path| path.is_available())
}

/// The check values of the catalogue of parametrised CRC algorithms (reveng): CRC-32/ISO-HDLC, CRC-32/ISCSI, CRC-16/T10-DIF.
#[test]
fn check_values_of_the_catalogue() {
    assert_vectors::<Ieee>(&[(b"123456789", 0xcbf4_3926)]);
    assert_vectors::<Castagnoli>(&[(b"123456789", 0xe306_9283)]);
    assert_vectors::<T10Dif>(&[(b"123456789", 0xd0db)]);
}

/// RFC 3720, B.4: the bytes on the wire, read as a little-endian register.
#[test]
fn crc32c_of_rfc_3720() {
    let (up, down) = up_and_down();
    let mut read_10 = [0u8; 48];
    for (at, byte) in [
        (0, 0x01),
        (1, 0xc0),
        (16, 0x14),
        (22, 0x04),
        (27, 0x14),
        (31, 0x18),
        (32, 0x28),
        (40, 0x02),
    ] {
        read_10[at] = byte;
    }
    assert_vectors::<Castagnoli>(&[
        (&[0; 32], 0x8a91_36aa),
        (&[0xff; 32], 0x62a8_ab43),
        (&up, 0x46dd_794e),
        (&down, 0x113f_db5c),
        (&read_10, 0xd996_3a56),
    ]);
}

/// The CRC that zlib's `crc32` gives.
#[test]
fn crc32_of_zlib() {
    let (up, down) = up_and_down();
    assert_vectors::<Ieee>(&[
        (b"", 0),
        (b"a", 0xe8b7_be43),
        (b"The quick brown fox jumps over the lazy dog", 0x414f_a339),
        (&[0; 32], 0x190a_55ad),
        (&[0xff; 32], 0xff6c_ab0b),
        (&up, 0x9126_7e8a),
        (&down, 0x9ab0_ef72),
    ]);
}

/// T10 SBC-3, table of CRC test cases.
#[test]
fn crc16_of_sbc_3() {
    let (up, _) = up_and_down();
    let mut two = [0; 32];
    two[..2].fill(0xff);
    let down: Vec<u8> = (0xe0..=0xff).rev().collect();
    assert_vectors::<T10Dif>(&[
        (&[0; 32], 0x0000),
        (&[0xff; 32], 0xa293),
        (&up, 0x0224),
        (&two, 0x21b8),
        (&down, 0xa0b7),
    ]);
}

fn up_and_down() -> (Vec<u8>, Vec<u8>) {
    ((0..32).collect(), (0..32).rev().collect())
}

/// Crate crc-fast gives the same at every length up to 700, and at long ones, from every address modulo 64.
#[test]
fn every_length_as_crc_fast_has_it() {
    assert_lengths::<Ieee>(crc_fast::CrcAlgorithm::Crc32IsoHdlc);
    assert_lengths::<Castagnoli>(crc_fast::CrcAlgorithm::Crc32Iscsi);
    assert_lengths::<T10Dif>(crc_fast::CrcAlgorithm::Crc16T10Dif);
}

fn assert_lengths<A: Algorithm>(theirs: crc_fast::CrcAlgorithm) {
    let bytes = Input::random(1, 70_100, 1).bytes;
    for path in paths::<A>() {
        let kernel = Crc::<A>::new(path).expect("available");
        // About the strides of vectors of 16, 32 and 64 bytes, two and eight steps long, and their multiples.
        let strides = [248, 376, 632]
            .into_iter()
            .flat_map(|step| [2, 4, 8, 16, 24].map(|n| n * step));
        let borders = strides.flat_map(|len| [len - 1, len, len + 1]);
        let long = [1023, 1024, 1500, 8191, 32_768, 40_000, 70_000];
        for len in (0..=700).chain(borders).chain(long) {
            let data = &bytes[len % 64..][..len];
            let crc: u64 = kernel.checksum(data).into();
            let right = crc_fast::checksum(theirs, data);
            assert_eq!(crc, right, "{} on {path}, {len} bytes", A::NAME);
        }
    }
}

/// The CRC of a message is what its parts' CRCs combine to, wherever it is cut, and as crate crc-fast has it for lengths beyond
/// any memory.
#[test]
fn parts_combine_to_the_whole() {
    assert_combines::<Ieee>(crc_fast::CrcAlgorithm::Crc32IsoHdlc);
    assert_combines::<Castagnoli>(crc_fast::CrcAlgorithm::Crc32Iscsi);
    assert_combines::<T10Dif>(crc_fast::CrcAlgorithm::Crc16T10Dif);
}

fn assert_combines<A: Algorithm>(theirs: crc_fast::CrcAlgorithm) {
    let message = Input::random(2, 70_000, 1).bytes;
    let crc = Crc::<A>::best();
    let whole = crc.checksum(&message);
    let paths = Combine::<A>::PATHS.iter().copied();
    for path in paths.filter(|path| path.is_available()) {
        let combine = Combine::<A>::new(path).expect("available");
        for at in [0, 1, 7, 255, 256, 4000, 69_743, 69_999, 70_000] {
            let (first, second) = message.split_at(at);
            let (a, b) = (crc.checksum(first), crc.checksum(second));
            let ours = combine.combine(a, b, second.len() as u64);
            assert_eq!(ours, whole, "{} on {path}, cut at {at}", A::NAME);
            for len in [1 << 20, (1 << 40) + 12_345, u64::MAX >> 3] {
                let ours: u64 = combine.combine(a, b, len).into();
                let right = crc_fast::checksum_combine(theirs, a.into(), b.into(), len);
                assert_eq!(ours, right, "{} on {path}, {len} bytes", A::NAME);
            }
        }
    }
}
