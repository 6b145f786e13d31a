//! Published vectors of the checksums, on every path that this CPU has.

use dpb_operators::cpu::Path;
use dpb_operators::network::crc32c::Crc32c;

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
