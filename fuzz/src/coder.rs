//! Decoders and their encoders, on all paths of this CPU.

use std::cell::RefCell;

use dpb_core::{Batch, BatchOut, Items, JobError, Right, Workload};
use dpb_operators::direct::Direct;
use dpb_operators::registry;

/// A decoder and its encoder, on all paths of this CPU.
pub struct Coder {
    decoder: Side,
    encoder: Side,
    /// Some paths take items that the oracle refuses; its page says which.
    is_lenient: bool,
}

/// One operator.
struct Side {
    workload: Box<dyn Workload>,
    kernels: Vec<RefCell<Box<dyn Direct>>>,
}

/// Slots are at most so long.
const SLOT_BYTES_MAX: usize = 1 << 16;

impl Coder {
    /// By their names; the encoder with these parameters.
    pub fn new(decoder: &str, encoder: &str, parameters: &str) -> Self {
        Self {
            decoder: Side::new(decoder, ""),
            encoder: Side::new(encoder, parameters),
            is_lenient: matches!(decoder, "inflate" | "unlz4"),
        }
    }

    /// Streams of text, noise and runs, each with a slot that fits and one that does not.
    pub fn seeds(&self) -> Vec<Vec<u8>> {
        let plain = [
            Vec::new(),
            b"abcabcabcabcabcabcabcabcabc, and so on and so on and so on".repeat(40),
            (0..700u32).map(|at| (at * at >> 3) as u8).collect(),
            vec![7; 1000],
        ];
        let item = |plain: &Vec<u8>| self.decoder.workload.encode_item(plain).expect("encodes");
        let with_slot = |(plain, less): (&Vec<u8>, usize)| {
            let slot = plain.len().saturating_sub(less) as u16;
            [&slot.to_le_bytes()[..], &item(plain)].concat()
        };
        plain
            .iter()
            .flat_map(|plain| [(plain, 0), (plain, 1)])
            .map(with_slot)
            .collect()
    }

    /// The first two bytes say how long the slot is, the rest is an item: each path does what the oracle says. The
    /// same bytes then go there and back.
    pub fn run(&self, bytes: &[u8]) {
        let Some((slot, item)) = bytes.split_first_chunk() else {
            return;
        };
        let slot = usize::from(u16::from_le_bytes(*slot)).min(SLOT_BYTES_MAX);
        let right = self.decoder.workload.right(item, slot);
        for kernel in &self.decoder.kernels {
            let output = run(kernel, item, slot);
            if self.is_lenient && matches!(right, Right::Refused(_)) {
                continue;
            }
            let checked =
                self.decoder
                    .workload
                    .check(item, output.as_deref().map_err(|error| *error), slot);
            checked.unwrap_or_else(|wrong| panic!("{wrong}"));
        }
        for kernel in &self.encoder.kernels {
            let slot = kernel.borrow().dst_len(item.len());
            let stream = run(kernel, item, slot).expect("there is room");
            let checked = self.encoder.workload.check(item, Ok(&stream), slot);
            checked.unwrap_or_else(|wrong| panic!("{wrong}"));
        }
    }
}

impl Side {
    fn new(name: &str, parameters: &str) -> Self {
        let entry = registry::find(name).expect("registered");
        let spec = entry.spec(parameters).expect("valid");
        let paths = entry.paths_of(&spec).filter(|path| path.is_available());
        let kernel = |path| RefCell::new(entry.direct(&spec, path).expect("available"));
        Self {
            workload: entry.workload(&spec).expect("its own spec"),
            kernels: paths.map(kernel).collect(),
        }
    }
}

/// One item, in a slot of its own, so that the sanitizer sees what is written behind it.
fn run(kernel: &RefCell<Box<dyn Direct>>, item: &[u8], slot: usize) -> Result<Vec<u8>, JobError> {
    let mut dst = vec![0; slot];
    let mut outcomes = Vec::with_capacity(1);
    let batch = Batch::new(item, &Items::One).expect("one item is all of it");
    let out = BatchOut::new(&mut dst, &Items::One, &mut outcomes)?;
    kernel.borrow_mut().run(batch, out)?;
    let len = outcomes[0]? as usize;
    dst.truncate(len);
    Ok(dst)
}
