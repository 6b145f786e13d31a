//! Published vectors, on every path that this CPU has.

use dpb_operators::cpu::Path;
use dpb_operators::network::crc32c::Crc32c;
use dpb_operators::security::sha256::Sha256;

fn available(paths: &'static [Path]) -> impl Iterator<Item = Path> {
    paths.iter().copied().filter(|path| path.is_available())
}

/// RFC 3720, B.4: the bytes on the wire, read as a little-endian register; and the check value of the CRC catalogue.
#[test]
fn crc32c_of_rfc_3720() {
    let up: Vec<u8> = (0..32).collect();
    let down: Vec<u8> = (0..32).rev().collect();
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
    let vectors: [(&[u8], u32); 6] = [
        (&[0; 32], 0x8a91_36aa),
        (&[0xff; 32], 0x62a8_ab43),
        (&up, 0x46dd_794e),
        (&down, 0x113f_db5c),
        (&read_10, 0xd996_3a56),
        (b"123456789", 0xe306_9283),
    ];
    for path in available(Crc32c::PATHS) {
        let kernel = Crc32c::new(path).expect("available");
        for (message, crc) in vectors {
            assert_eq!(kernel.checksum(message), crc, "{path}, {message:02x?}");
        }
    }
}

/// NIST CAVP, byte-oriented SHA-256 messages: all short ones, every eighth long one.
#[test]
fn sha256_of_cavp() {
    for file in [
        include_str!("data/sha256_short.rsp"),
        include_str!("data/sha256_long.rsp"),
    ] {
        let mut compared = 0;
        let (mut len, mut message) = (0, Vec::new());
        for line in file.lines() {
            match line.split_once(" = ") {
                Some(("Len", bits)) => len = bits.parse::<usize>().expect("a length") / 8,
                Some(("Msg", digits)) => {
                    message = hex(digits);
                    message.truncate(len);
                }
                Some(("MD", digits)) => {
                    for path in available(Sha256::PATHS) {
                        let digest = Sha256::new(path).expect("available").digest(&message);
                        assert_eq!(digest[..], hex(digits), "{path}, {len} bytes");
                    }
                    compared += 1;
                }
                _ => {}
            }
        }
        assert!(compared >= 8, "{compared} vectors");
    }
}

/// FIPS 180-4's examples and RFC 6234, 8.5, tests 1 to 4.
#[test]
fn sha256_of_rfc_6234() {
    let repeated = "0123456701234567012345670123456701234567012345670123456701234567".repeat(10);
    let million = "a".repeat(1_000_000);
    let vectors = [
        (
            "abc",
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
        ),
        (
            "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1",
        ),
        (
            million.as_str(),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0",
        ),
        (
            repeated.as_str(),
            "594847328451bdfa85056225462cc1d867d877fb388df0ce35f25ab5562bfbb5",
        ),
    ];
    for path in available(Sha256::PATHS) {
        let kernel = Sha256::new(path).expect("available");
        for (message, digest) in vectors {
            assert_eq!(kernel.digest(message.as_bytes())[..], hex(digest), "{path}");
        }
    }
}

fn hex(digits: &str) -> Vec<u8> {
    (0..digits.len() / 2)
        .map(|i| u8::from_str_radix(&digits[2 * i..2 * i + 2], 16).expect("hexadecimal"))
        .collect()
}
