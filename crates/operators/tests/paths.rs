//! Every operator of the registry on every path that this CPU has gives what the oracle calls right: all lengths,
//! unaligned, one item, equal items, items of any length, every parameter.

mod support;

use dpb_core::conformance::Remembered;
use dpb_core::random::SplitMix64;
use dpb_core::{Batch, Input, Items, Span, Stride, Workload, workload};
use dpb_operators::cpu::Implementation;
use dpb_operators::direct::Direct;
use dpb_operators::registry::{Case, Entry};
use proptest::prelude::*;
use support::{
    affordable, assert_right, items_max, kernels, operators, say_what_is_skipped, slot_bytes,
};

/// Behind the last slot; must stay as it is.
const CANARY: u8 = 0xa5;

/// One spec on all paths that this CPU has.
struct Contest {
    workload: Box<dyn Workload>,
    kernels: Vec<(Implementation, Box<dyn Direct>)>,
}

impl Contest {
    fn new(entry: &Entry, case: &Case) -> Self {
        Self {
            workload: entry.workload(case).expect("its own spec"),
            kernels: kernels(entry, &case.spec),
        }
    }

    /// Items that carry `len` bytes of `bytes` each, one after the other, and are as long as each other.
    fn equal(&self, bytes: &[u8], len: usize, count: usize) -> Input {
        let plain = (0..count).map(|i| &bytes[i * len..][..len]);
        let mut items = workload::fed(&*self.workload, plain).expect("feeds");
        workload::equalize_lengths(&mut items);
        let item_len = items.first().map_or(len, Vec::len);
        Input {
            slot_bytes: self.workload.slot_bytes(len),
            ..Input::fixed("a slice", items.concat(), item_len, count)
        }
    }

    /// See [`affordable`].
    fn affordable<T>(&self, cases: Vec<T>, items_of: impl Fn(&T) -> usize) -> Vec<T> {
        affordable(&*self.workload, cases, items_of)
    }

    /// `count` items that carry `len` bytes each. `None` beyond what an operator's items can carry: 64 KiB of a packet.
    fn input(&self, seed: u64, len: usize, count: usize) -> Option<Input> {
        let input = Input::of(&*self.workload, seed, len, count);
        input.map_err(|why| assert!(len > 60_000, "{why}")).ok()
    }

    /// Runs the batch on each path and checks each item's output, and that nothing is written behind the last slot.
    fn assert_right(&mut self, src: &[u8], items: &Items, of_input: Option<usize>) {
        let batch = Batch::new(src, items).expect("items lie inside");
        let workload = Remembered::new(&*self.workload);
        for (path, kernel) in &mut self.kernels {
            let total = slot_bytes(&**kernel, batch, of_input) * batch.len();
            let mut dst = vec![CANARY; total + 64];
            let slots = &mut dst[..total];
            assert_right(&workload, &mut **kernel, batch, slots, path);
            let is_as_it_was = dst[total..].iter().all(|byte| *byte == CANARY);
            let spec = self.workload.spec();
            assert!(is_as_it_was, "{spec:?} on {path} wrote past its slots");
        }
    }

    /// The input from an address of `start` modulo the allocator's alignment.
    fn assert_right_from(&mut self, start: usize, input: &Input) {
        let shifted = [&vec![0xee; start][..], &input.bytes].concat();
        self.assert_right(&shifted[start..], &input.items, input.slot_bytes);
    }
}

#[test]
fn all_lengths() {
    let bytes = Input::random(1, 520, 1).bytes;
    for entry in operators() {
        let mut contest = Contest::new(entry, &entry.default_case());
        for len in contest.affordable((0..=520).collect(), |_| 4) {
            let mut one = contest.equal(&bytes, len, 1);
            one.items = Items::One;
            for start in [0, 1, 15, 33] {
                contest.assert_right_from(start, &one);
            }
        }
    }
}

/// Batches of 0 to 20 equal items of each length, from an odd address.
#[test]
fn equal_items() {
    let bytes = Input::random(2, 20 * 400, 1).bytes;
    let lengths = (0..=130).chain([191, 192, 193, 255, 256, 257, 319, 320, 321, 400]);
    let shapes: Vec<(usize, usize)> = lengths
        .flat_map(|len| [0, 1, 2, 3, 4, 5, 7, 8, 9, 20].map(|count| (len, count)))
        .collect();
    for entry in operators() {
        let mut contest = Contest::new(entry, &entry.default_case());
        for (len, count) in contest.affordable(shapes.clone(), |(_, count)| *count) {
            let input = contest.equal(&bytes, len, count);
            contest.assert_right_from(1, &input);
            if count == 5 || count == 20 {
                contest.assert_right_from(0, &spaced(&input));
            }
        }
    }
}

#[test]
fn long_items() {
    for entry in operators() {
        let mut contest = Contest::new(entry, &entry.default_case());
        let lengths = [
            1000, 1500, 4096, 4097, 9000, 20_011, 65_535, 65_536, 70_001, 300_000,
        ];
        for len in contest.affordable(lengths.to_vec(), |_| 1) {
            if let Some(input) = contest.input(3, len, 1) {
                contest.assert_right_from(0, &input);
            }
        }
    }
}

#[test]
fn every_parameter() {
    say_what_is_skipped();
    for entry in operators() {
        for case in entry.cases() {
            let mut contest = Contest::new(entry, &case);
            let shapes = vec![(0, 3), (1, 1), (64, 20), (65, 3), (1500, 4), (70_001, 1)];
            for (len, count) in contest.affordable(shapes, |(_, count)| *count) {
                if let Some(input) = contest.input(4, len, count) {
                    contest.assert_right_from(1, &input);
                }
            }
        }
    }
}

/// Items made worse among good ones: all paths give or refuse the same.
#[test]
fn spoilt_items() {
    for entry in operators() {
        for case in entry.cases() {
            // Of an item that was made worse, something may be kept that changes what is right for the next.
            if (entry.keeps_state)(&case.spec) {
                continue;
            }
            let mut contest = Contest::new(entry, &case);
            let count = items_max(contest.workload.cost_bytes()).clamp(4, 24);
            let shapes = vec![(0, 1), (1, 2), (64, 3), (600, 4), (1500, 5)];
            for (len, seed) in contest.affordable(shapes, |_| count) {
                let workload = &*contest.workload;
                let good = contest.input(seed, len, count).expect("short");
                let batch = good.batch().expect("items lie inside");
                let mut random = SplitMix64::new(seed);
                let (mut bytes, mut offsets) = (Vec::new(), vec![0]);
                for i in 0..batch.len() {
                    let mut item = batch.item(i).to_vec();
                    if i % 4 != 0 {
                        workload.spoil(&mut item, random.next_u64());
                    }
                    bytes.extend(item);
                    offsets.push(bytes.len() as u32);
                }
                let items = Items::Offsets(offsets.into());
                contest.assert_right(&bytes, &items, good.slot_bytes);
            }
        }
    }
}

/// User data of mixed lengths, a gap before the first item, and a lot.
fn batches() -> impl Strategy<Value = (Input, usize, u64)> {
    let lengths = prop::collection::vec(
        prop_oneof![0usize..70, 0usize..600, Just(64usize), 1000usize..9000],
        0..24,
    );
    (lengths, 0usize..70, any::<u64>()).prop_map(|(lengths, gap, seed)| {
        let mut offsets = vec![0];
        for len in &lengths {
            offsets.push(offsets.last().expect("not empty") + *len as u32);
        }
        let total = *offsets.last().expect("not empty") as usize;
        let plain = Input {
            items: Items::Offsets(offsets.into()),
            ..Input::random(seed, total, 1)
        };
        (plain, gap, seed)
    })
}

/// The same items `gap` bytes further on, by their offsets.
fn moved(input: Input, gap: usize) -> Input {
    let batch = input.batch().expect("items lie inside");
    let mut end = gap as u32;
    let ends = (0..batch.len()).map(|i| {
        end += batch.item(i).len() as u32;
        end
    });
    let offsets = std::iter::once(gap as u32).chain(ends).collect();
    Input {
        items: Items::Offsets(offsets),
        bytes: [&vec![0xee; gap][..], &input.bytes].concat(),
        ..input
    }
}

/// The same items, the last in front, `gap` bytes apart.
fn reversed(input: Input, gap: usize) -> Input {
    let batch = input.batch().expect("items lie inside");
    let mut bytes = Vec::new();
    let mut spans: Vec<Span> = (0..batch.len())
        .rev()
        .map(|i| {
            bytes.resize(bytes.len() + gap, 0xee);
            let (start, item) = (bytes.len() as u32, batch.item(i));
            bytes.extend_from_slice(item);
            let len = item.len() as u32;
            Span { buf: 0, start, len }
        })
        .collect();
    spans.reverse();
    Input {
        items: Items::Spans(spans),
        bytes,
        ..input
    }
}

/// The same items, which have one length, three bytes apart.
fn spaced(input: &Input) -> Input {
    let batch = input.batch().expect("items lie inside");
    let mut bytes = Vec::new();
    for item in batch.iter() {
        bytes.extend_from_slice(&[0xee; 3]);
        bytes.extend_from_slice(item);
    }
    let len = batch.longest() as u32;
    Input {
        items: Items::Strided(Stride {
            start: 3,
            len,
            step: len + 3,
            count: batch.len() as u32,
        }),
        bytes,
        ..input.clone()
    }
}

/// Of [`mixed_batches`].
const CASES: u32 = if cfg!(target_arch = "x86_64") {
    100
} else {
    20
};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES))]

    #[test]
    fn mixed_batches((plain, gap, lot) in batches()) {
        for entry in operators() {
            let case = entry.default_case();
            // Costly items get one case in so many that all cases together can be afforded.
            let one_in = CASES as usize * plain.items.count() / items_max(case.spec.cost_bytes()).max(1);
            if lot % (one_in as u64 + 1) != 0 {
                continue;
            }
            let mut contest = Contest::new(entry, &case);
            let input = plain.fed(&*contest.workload).expect("feeds");
            contest.assert_right_from(0, &moved(input.clone(), gap));
            contest.assert_right_from(0, &reversed(input, gap));
        }
    }
}
