//! Published vectors of CRC-64/NVME, and another implementation at every length near a border, on every path that this CPU has.
#![cfg(feature = "crc")]

use dpb_core::Input;
use dpb_operators::cpu::Implementation;
use dpb_operators::storage::crc64::Crc64;

fn kernels() -> impl Iterator<Item = (Implementation, Crc64)> {
    let paths = Crc64::PATHS.iter().copied();
    let paths = paths.filter(|path| path.is_available());
    paths.map(|path| (path, Crc64::new(path).expect("available")))
}

/// The catalogue of parametrised CRC algorithms (reveng): CRC-64/NVME.
#[test]
fn check_value_of_the_catalogue() {
    for (path, crc) in kernels() {
        let ours = crc.checksum(b"123456789");
        assert_eq!(ours, 0xae8b_1486_0a79_9888, "{path}");
    }
}

/// NVM Express NVM Command Set, the table of 64b CRC test cases for a logical block of 4096 bytes.
#[test]
fn blocks_of_the_nvm_command_set() {
    let up: Vec<u8> = (0..=255).cycle().take(4096).collect();
    let down: Vec<u8> = (0..=255).rev().cycle().take(4096).collect();
    for (path, crc) in kernels() {
        assert_eq!(crc.checksum(&[0; 4096]), 0x6482_d367_eb22_b64e, "{path}");
        assert_eq!(crc.checksum(&[0xff; 4096]), 0xc0dd_ba73_02ec_a3ac, "{path}");
        assert_eq!(crc.checksum(&up), 0x3e72_9f5f_6750_449c, "{path}");
        assert_eq!(crc.checksum(&down), 0x9a2d_f64b_8e9e_517e, "{path}");
    }
}

/// Crate crc-fast gives the same at every length up to 1100, and at long ones, from every address modulo 64.
#[test]
fn every_length_as_crc_fast_has_it() {
    let bytes = Input::random(1, 140_100, 1).bytes;
    let long = [
        1500, 4095, 4096, 4097, 8191, 32_767, 32_768, 40_000, 65_536, 140_000,
    ];
    for (path, crc) in kernels() {
        let strides = [248, 376, 632]
            .into_iter()
            .flat_map(|step| [4, 8, 16, 24].map(|n| n * step));
        let borders = strides.flat_map(|len| [len - 1, len, len + 1]);
        for len in (0..=1100).chain(borders).chain(long) {
            let data = &bytes[len % 64..][..len];
            let right = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Nvme, data);
            assert_eq!(crc.checksum(data), right, "{path}, {len} bytes");
        }
    }
}
