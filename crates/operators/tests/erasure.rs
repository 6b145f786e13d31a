//! Erasure codes beside another implementation of the same code, and what is lost beside what there was, on every path that this
//! CPU has.

use dpb_core::random::SplitMix64;
use dpb_core::{Batch, BatchOut, BlockLoss, ErasureCode, Input, Items, JobError, OpSpec, spec};
use dpb_operators::registry;
use proptest::prelude::*;
use rusty_erasure_core::{Coder, Matrix};

/// The data blocks, and behind them the parity blocks of the other implementation.
fn encoded(code: ErasureCode, block_bytes: usize, seed: u64) -> Vec<Vec<u8>> {
    let data = Input::random(seed, block_bytes, code.data_blocks()).bytes;
    let data: Vec<&[u8]> = data.chunks_exact(block_bytes).collect();
    let mut parity = vec![vec![0; block_bytes]; code.parity_blocks()];
    let mut room: Vec<&mut [u8]> = parity.iter_mut().map(Vec::as_mut_slice).collect();
    let matrix = Matrix::cauchy(code.data_blocks(), code.parity_blocks()).expect("a code");
    let coder = Coder::new(matrix).expect("a code");
    coder.encode(&data, &mut room).expect("encodes");
    data.into_iter().map(<[u8]>::to_vec).chain(parity).collect()
}

/// Asserts the output of `spec` for an item on each path.
fn assert_gives(spec: &OpSpec, item: &[u8], right: &[u8]) {
    let entry = registry::of(spec).expect("registered");
    for path in entry.paths.iter().filter(|path| path.is_available()) {
        let mut kernel = entry.direct(spec, *path).expect("available");
        let mut dst = vec![0xee; kernel.dst_len(item.len())];
        let mut outcomes = Vec::with_capacity(1);
        let out = BatchOut::new(&mut dst, &Items::One, &mut outcomes).expect("one slot");
        let batch = Batch::new(item, &Items::One).expect("one item");
        kernel.run(batch, out).expect("runs");
        assert_eq!(outcomes, [Ok(right.len() as u32)], "{spec:?} on {path}");
        assert!(dst == right, "{spec:?} on {path}: other bytes");
    }
}

fn assert_code(code: ErasureCode, block_bytes: usize, missing: &[u8]) {
    let blocks = encoded(code, block_bytes, u64::from(missing[0]));
    let (data, parity) = blocks.split_at(code.data_blocks());
    assert_gives(
        &OpSpec::from(spec::ErasureEncode { code }),
        &data.concat(),
        &parity.concat(),
    );
    let loss = BlockLoss::new(code, missing.iter().copied()).expect("recoverable");
    let of = |numbers: Vec<u8>| -> Vec<u8> {
        let blocks = numbers
            .into_iter()
            .flat_map(|block| &blocks[usize::from(block)]);
        blocks.copied().collect()
    };
    let available = of(loss.available().collect());
    let lost = of(loss.missing().collect());
    assert_gives(
        &OpSpec::from(spec::ErasureRecover { loss }),
        &available,
        &lost,
    );
}

#[test]
fn every_number_of_outputs_and_every_length_near_a_column() {
    for parity in 1..=20 {
        let code = ErasureCode::new(5, parity).expect("a code");
        for lines in (1..=9).chain([16, 31]) {
            let missing: Vec<u8> = (0..parity).collect();
            assert_code(code, lines * ErasureCode::UNIT_BYTES, &missing);
        }
    }
}

/// As many blocks as the other implementation takes, which is one less than ours.
#[test]
fn the_largest_codes() {
    for (data, parity) in [(1, 1), (1, 253), (253, 1), (200, 54), (128, 64)] {
        let code = ErasureCode::new(data, parity).expect("a code");
        let missing: Vec<u8> = (0..parity.min(data)).collect();
        assert_code(code, 2 * ErasureCode::UNIT_BYTES, &missing);
    }
}

/// Any square of rows of the code can be inverted: every loss of two and three of a small code.
#[test]
fn every_loss_of_a_small_code() {
    let code = ErasureCode::new(4, 3).expect("a code");
    for set in 1u8..128 {
        let missing: Vec<u8> = (0..7).filter(|block| set >> block & 1 == 1).collect();
        if missing.len() <= 3 {
            assert_code(code, ErasureCode::UNIT_BYTES, &missing);
        }
    }
}

#[test]
fn what_is_not_blocks_of_whole_units_is_refused() {
    let entry = registry::find("erasure-encode").expect("registered");
    for path in entry.paths.iter().filter(|path| path.is_available()) {
        let mut kernel = entry
            .direct(&entry.default_spec(), *path)
            .expect("available");
        for (len, room, outcome) in [
            (0, 0, Ok(0)),
            (640, 256, Ok(256)),
            (640, 255, Err(JobError::DstTooShort)),
            (639, 4096, Err(JobError::Malformed)),
            (704, 4096, Err(JobError::Malformed)),
            (10, 4096, Err(JobError::Malformed)),
        ] {
            let (item, mut dst) = (vec![7; len], vec![0; room]);
            let mut outcomes = Vec::with_capacity(1);
            let out = BatchOut::new(&mut dst, &Items::One, &mut outcomes).expect("one slot");
            let batch = Batch::new(&item, &Items::One).expect("one item");
            kernel.run(batch, out).expect("runs");
            assert_eq!(outcomes, [outcome], "{len} bytes on {path}");
        }
    }
}

#[test]
fn what_cannot_be_recovered_is_said() {
    let entry = registry::find("erasure-recover").expect("registered");
    for (parameters, said) in [
        ("missing=0+1+2+3+4", "5 blocks, more than the 4 of parity"),
        ("missing=14", "there are blocks 0 to 13"),
        ("missing=255", "not 0..254 joined by +"),
        ("missing=", "not 0..254 joined by +"),
        ("missing=1+", "not 0..254 joined by +"),
    ] {
        let error = entry.spec(parameters).expect_err(parameters).to_string();
        assert!(error.contains(said), "{parameters}: {error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_code_and_any_loss(data in 1u8..40, parity in 1u8..20, lines in 1usize..40, seed: u64) {
        let code = ErasureCode::new(data, parity).expect("a code");
        let mut random = SplitMix64::new(seed);
        let lost = 1 + random.below(parity.into());
        let missing: Vec<u8> = (0..lost).map(|_| random.below(code.blocks()) as u8).collect();
        assert_code(code, lines * ErasureCode::UNIT_BYTES, &missing);
    }
}
