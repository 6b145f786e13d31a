//! Every path gives what the portable path gives: all lengths, unaligned, one item, equal items, items of any length.

use std::sync::Arc;

use dpb_core::{Batch, BatchOut, Items, Kernel};
use dpb_operators::cpu::Path;
use dpb_operators::input;
use dpb_operators::network::crc32c::Crc32c;
use dpb_operators::security::sha256::Sha256;
use proptest::prelude::*;

/// The kernels of one operator: the portable one, and all others that this CPU has.
fn kernels<K>(paths: &[Path], new: impl Fn(Path) -> K) -> (K, Vec<(Path, K)>) {
    let others = paths
        .iter()
        .copied()
        .filter(|path| *path != Path::Portable && path.is_available())
        .map(|path| (path, new(path)))
        .collect();
    (new(Path::Portable), others)
}

/// What a kernel of fixed shape makes of a batch.
fn outputs<K: Kernel>(kernel: &K, src: &[u8], items: &Items) -> Vec<u8> {
    let slot = kernel.dst_len(0);
    let mut dst = vec![0; slot * items.count()];
    let out = BatchOut {
        dst: &mut dst,
        slot,
        outcomes: &mut Vec::new(),
    };
    let batch = Batch::new(src, items).expect("items lie inside");
    kernel
        .run(batch, out, &mut kernel.scratch())
        .expect("fixed shapes refuse nothing");
    dst
}

fn assert_all_lengths<K: Kernel>((portable, others): (K, Vec<(Path, K)>)) {
    let bytes = input::random(1, 560, 1).bytes;
    for len in 0..=520 {
        for start in [0, 1, 15, 33] {
            let src = &bytes[start..start + len];
            let right = outputs(&portable, src, &Items::One);
            for (path, kernel) in &others {
                assert_eq!(
                    outputs(kernel, src, &Items::One),
                    right,
                    "{path}, {len} bytes from {start}"
                );
            }
        }
    }
}

/// Batches of 0 to 20 equal items of each length, from an odd address.
fn assert_equal_items<K: Kernel>((portable, others): (K, Vec<(Path, K)>)) {
    let bytes = input::random(2, 1 + 20 * 400, 1).bytes;
    for len in (0..=130).chain([191, 192, 193, 255, 256, 257, 319, 320, 321, 400]) {
        for count in [0, 1, 2, 3, 4, 5, 7, 8, 9, 20] {
            let items = Items::Fixed { len, count };
            let right = outputs(&portable, &bytes[1..], &items);
            for (path, kernel) in &others {
                let found = outputs(kernel, &bytes[1..], &items);
                assert_eq!(found, right, "{path}, {count} items of {len}");
            }
        }
    }
}

fn assert_long<K: Kernel>((portable, others): (K, Vec<(Path, K)>)) {
    for len in [
        1000, 1500, 4096, 4097, 9000, 20_011, 65_535, 65_536, 70_001, 300_000,
    ] {
        let src = input::random(3, len, 1).bytes;
        let right = outputs(&portable, &src, &Items::One);
        for (path, kernel) in &others {
            assert_eq!(
                outputs(kernel, &src, &Items::One),
                right,
                "{path}, {len} bytes"
            );
        }
    }
}

fn crc32c() -> (Crc32c, Vec<(Path, Crc32c)>) {
    kernels(Crc32c::PATHS, |path| Crc32c::new(path).expect("available"))
}

fn sha256() -> (Sha256, Vec<(Path, Sha256)>) {
    kernels(Sha256::PATHS, |path| Sha256::new(path).expect("available"))
}

#[test]
fn crc32c_agrees_at_all_lengths() {
    assert_all_lengths(crc32c());
}

#[test]
fn crc32c_agrees_on_equal_items() {
    assert_equal_items(crc32c());
}

#[test]
fn crc32c_agrees_on_long_items() {
    assert_long(crc32c());
}

#[test]
fn sha256_agrees_at_all_lengths() {
    assert_all_lengths(sha256());
}

#[test]
fn sha256_agrees_on_equal_items() {
    assert_equal_items(sha256());
}

#[test]
fn sha256_agrees_on_long_items() {
    assert_long(sha256());
}

/// Items of mixed lengths over random bytes, with a gap before the first.
fn batches() -> impl Strategy<Value = (Vec<u8>, Items)> {
    let lengths = prop::collection::vec(
        prop_oneof![0usize..70, 0usize..600, Just(64usize), 1000usize..9000],
        0..24,
    );
    (lengths, 0usize..70, any::<u64>()).prop_map(|(lengths, gap, seed)| {
        let mut offsets = vec![gap as u32];
        for len in &lengths {
            offsets.push(offsets.last().expect("not empty") + *len as u32);
        }
        let total = *offsets.last().expect("not empty") as usize;
        let bytes = input::random(seed, total, 1).bytes;
        (bytes, Items::Offsets(Arc::from(offsets)))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(target_arch = "x86_64") { 200 } else { 30 }))]

    #[test]
    fn mixed_batches_agree((src, items) in batches()) {
        let (portable, others) = crc32c();
        let right = outputs(&portable, &src, &items);
        for (path, kernel) in &others {
            prop_assert_eq!(outputs(kernel, &src, &items), right.clone(), "crc32c on {}", path);
        }
        let (portable, others) = sha256();
        let right = outputs(&portable, &src, &items);
        for (path, kernel) in &others {
            prop_assert_eq!(outputs(kernel, &src, &items), right.clone(), "sha256 on {}", path);
        }
    }
}
