//! Every operator of the registry on every path that this CPU has gives what the oracle calls right: all lengths,
//! unaligned, one item, equal items, items of any length, every parameter.

mod support;

use std::sync::Arc;

use dpb_core::{Batch, Items, OpSpec};
use dpb_operators::cpu::Path;
use dpb_operators::direct::Direct;
use dpb_operators::input::{self, Input};
use dpb_operators::registry::{Entry, OPERATORS};
use proptest::prelude::*;
use support::{assert_right, slot_bytes};

/// Behind the last slot; must stay as it is.
const CANARY: u8 = 0xa5;

/// One spec on one path.
struct Contender {
    entry: &'static Entry,
    spec: OpSpec,
    path: Path,
    kernel: Box<dyn Direct>,
}

impl Contender {
    /// Runs the batch and checks each item's output, and that nothing is written behind the last slot.
    fn assert_right(&mut self, src: &[u8], items: &Items, of_input: Option<usize>) {
        let batch = Batch::new(src, items).expect("items lie inside");
        let total = slot_bytes(&*self.kernel, batch, of_input) * batch.len();
        let mut dst = vec![CANARY; total + 64];
        let Self {
            entry,
            spec,
            path,
            kernel,
        } = self;
        assert_right(entry, spec, &mut **kernel, batch, &mut dst[..total], path);
        let is_as_it_was = dst[total..].iter().all(|byte| *byte == CANARY);
        assert!(is_as_it_was, "{spec:?} on {path} wrote past its slots");
    }
}

/// `spec` on all paths that this CPU has.
fn contenders(entry: &'static Entry, spec: &OpSpec) -> Vec<Contender> {
    let paths = entry
        .paths
        .iter()
        .copied()
        .filter(|path| path.is_available());
    paths
        .map(|path| Contender {
            entry,
            spec: spec.clone(),
            path,
            kernel: entry.direct(spec, path).expect("available"),
        })
        .collect()
}

/// `count` items of `len` bytes from `bytes`, as `spec` reads them. A decoder's are all the same, and so as long.
fn equal(entry: &Entry, spec: &OpSpec, bytes: &[u8], len: usize, count: usize) -> Input {
    let is_decoder = spec.fed_by().is_some();
    let item = |i| if is_decoder { 0 } else { i * len };
    let plain = Input {
        what: "a slice".to_owned(),
        bytes: (0..count)
            .flat_map(|i| &bytes[item(i)..][..len])
            .copied()
            .collect(),
        items: Items::Fixed {
            len: len as u32,
            count: count as u32,
        },
        slot_bytes: None,
    };
    let mut input = entry.fed(spec, plain).expect("encodes");
    if is_decoder {
        input.items = Items::Fixed {
            len: input.bytes.len().checked_div(count).unwrap_or(0) as u32,
            count: count as u32,
        };
    }
    input
}

/// The input from an address of `start` modulo the allocator's alignment.
fn assert_right_from(start: usize, contenders: &mut [Contender], input: &Input) {
    let shifted = [&vec![0xee; start][..], &input.bytes].concat();
    for contender in contenders {
        contender.assert_right(&shifted[start..], &input.items, input.slot_bytes);
    }
}

#[test]
fn all_lengths() {
    let bytes = input::random(1, 520, 1).bytes;
    for entry in OPERATORS {
        let mut contenders = contenders(entry, &entry.default);
        for len in 0..=520 {
            let mut one = equal(entry, &entry.default, &bytes, len, 1);
            one.items = Items::One;
            for start in [0, 1, 15, 33] {
                assert_right_from(start, &mut contenders, &one);
            }
        }
    }
}

/// Batches of 0 to 20 equal items of each length, from an odd address.
#[test]
fn equal_items() {
    let bytes = input::random(2, 20 * 400, 1).bytes;
    for entry in OPERATORS {
        let mut contenders = contenders(entry, &entry.default);
        for len in (0..=130).chain([191, 192, 193, 255, 256, 257, 319, 320, 321, 400]) {
            for count in [0, 1, 2, 3, 4, 5, 7, 8, 9, 20] {
                let input = equal(entry, &entry.default, &bytes, len, count);
                assert_right_from(1, &mut contenders, &input);
            }
        }
    }
}

#[test]
fn long_items() {
    for entry in OPERATORS {
        let mut contenders = contenders(entry, &entry.default);
        for len in [
            1000, 1500, 4096, 4097, 9000, 20_011, 65_535, 65_536, 70_001, 300_000,
        ] {
            let input = entry.input(&entry.default, 3, len, 1);
            assert_right_from(0, &mut contenders, &input);
        }
    }
}

#[test]
fn every_parameter() {
    for entry in OPERATORS {
        for spec in entry.specs() {
            let mut contenders = contenders(entry, &spec);
            for (len, count) in [(0, 3), (1, 1), (64, 20), (65, 3), (1500, 4), (70_001, 1)] {
                let input = entry.input(&spec, 4, len, count);
                assert_right_from(1, &mut contenders, &input);
            }
        }
    }
}

/// Items of mixed lengths over random bytes, with a gap before the first.
fn batches() -> impl Strategy<Value = Input> {
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
        Input {
            items: Items::Offsets(Arc::from(offsets)),
            ..input::random(seed, total, 1)
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(target_arch = "x86_64") { 100 } else { 20 }))]

    #[test]
    fn mixed_batches(plain in batches()) {
        for entry in OPERATORS {
            let input = entry.fed(&entry.default, plain.clone()).expect("encodes");
            assert_right_from(0, &mut contenders(entry, &entry.default), &input);
        }
    }
}
