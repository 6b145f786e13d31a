//! Published vectors of XXH3, and another implementation at every length near a border, on every path that this CPU has.
#![cfg(feature = "hashes")]

use dpb_core::Input;
use dpb_operators::cpu::Implementation;
use dpb_operators::storage::xxh3::Xxh3Hash;
use twox_hash::XxHash3_64;

/// The seed of the published vectors.
const SEED: u64 = 0x9e37_79b1_85eb_ca8d;

fn kernels(seed: u64) -> impl Iterator<Item = (Implementation, Xxh3Hash)> {
    let paths = Xxh3Hash::PATHS.iter().copied();
    let paths = paths.filter(|path| path.is_available());
    paths.map(move |path| (path, Xxh3Hash::new(seed, path).expect("available")))
}

/// xxHash 0.8, `tests/sanity_test_vectors.h`: the length, the hash without a seed, the hash with [`SEED`].
const VECTORS: &[(usize, u64, u64)] = &[
    (0, 0x2d06_8005_38d3_94c2, 0xa8a6_b918_b2f0_364a),
    (1, 0xc44b_dff4_074e_ecdb, 0x032b_e332_dd76_6ef8),
    (6, 0x27b5_6a84_cd2d_7325, 0x8458_9c11_6ab5_9ab9),
    (12, 0xa713_daf0_dfbb_77e7, 0xe730_3e1b_2336_de0e),
    (24, 0xa3fe_70bf_9d35_10eb, 0x850e_80fc_35bd_d690),
    (48, 0x397d_a259_ecba_1f11, 0xadc2_cbaa_44ac_c616),
    (80, 0xbcde_fbbb_2c47_c90a, 0xc6dd_0cb6_9953_2e73),
    (195, 0xcd94_217e_e362_ec3a, 0xba68_003d_370c_b3d9),
    (403, 0xcdeb_804d_65c6_dea4, 0x6259_f6ec_fd64_43fd),
    (512, 0x617e_4959_9013_cb6b, 0x3ce4_57de_14c2_7708),
    (2048, 0xdd59_e2c3_a5f0_38e0, 0x66f8_1670_669a_babc),
    (2240, 0x6e73_a905_39cf_2948, 0x757b_a848_7d1b_5247),
    (2367, 0xcb37_aeb9_e5d3_61ed, 0xd2db_3415_b942_b42a),
];

#[test]
fn vectors_of_xxhash() {
    let mut state: u64 = 2_654_435_761;
    let next = || {
        let byte = (state >> 56) as u8;
        state = state.wrapping_mul(SEED);
        byte
    };
    let bytes: Vec<u8> = std::iter::repeat_with(next).take(2367).collect();
    for &(len, unseeded, seeded) in VECTORS {
        for (seed, right) in [(0, unseeded), (SEED, seeded)] {
            for (path, kernel) in kernels(seed) {
                let ours = kernel.hash(&bytes[..len]);
                assert_eq!(ours, right, "{path}, {len} bytes, seed {seed:#x}");
            }
        }
    }
}

/// Crate twox-hash gives the same at every length up to 1100, and at long ones, from every address modulo 64.
#[test]
fn every_length_as_twox_hash_has_it() {
    let bytes = Input::random(1, (1 << 20) + 64, 1).bytes;
    let long = [2047, 2048, 2049, 4095, 4096, 4097, 65_536, 1 << 20];
    for seed in [0, 1, SEED, u64::MAX >> 1, u64::MAX] {
        for (path, kernel) in kernels(seed) {
            for len in (0..=1100).chain(long) {
                let data = &bytes[len % 64..][..len];
                let right = XxHash3_64::oneshot_with_seed(seed, data);
                assert_eq!(
                    kernel.hash(data),
                    right,
                    "{path}, {len} bytes, seed {seed:#x}"
                );
            }
        }
    }
}
