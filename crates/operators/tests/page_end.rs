//! No kernel of the registry touches a byte beyond its input or its output: both end where a page without access begins,
//! and both begin where one ends.
#![allow(unsafe_code)]

mod support;

use std::ptr::NonNull;

use dpb_core::conformance::Remembered;
use dpb_core::{Batch, Input, Workload};
use dpb_operators::cpu::Implementation;
use dpb_operators::direct::Direct;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};
use support::{affordable, assert_right, kernels, operators, say_what_is_skipped, slot_bytes};

/// The largest page size of the architectures that dpb runs on.
const PAGE_BYTES: usize = 65_536;

/// Room for an input or an output.
const MIDDLE_BYTES: usize = 4 * PAGE_BYTES;

/// Pages between two without access.
struct Guarded(NonNull<u8>);

impl Guarded {
    fn new() -> Self {
        // SAFETY: a fresh anonymous mapping; the protection of its middle changes before anything refers to it.
        unsafe {
            let start = mmap_anonymous(
                std::ptr::null_mut(),
                MIDDLE_BYTES + 2 * PAGE_BYTES,
                ProtFlags::empty(),
                MapFlags::PRIVATE,
            )
            .expect("address space");
            let middle = start.add(PAGE_BYTES);
            mprotect(
                middle,
                MIDDLE_BYTES,
                MprotectFlags::READ | MprotectFlags::WRITE,
            )
            .expect("pages");
            Self(NonNull::new(middle.cast()).expect("not null"))
        }
    }

    fn middle(&mut self) -> &mut [u8] {
        // SAFETY: the middle pages are readable, writable, zeroed by the kernel, ours alone, and borrowed with `self`.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_ptr(), MIDDLE_BYTES) }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: the mapping that `new` made; no reference into it outlives `self`.
        unsafe {
            let start = self.0.as_ptr().sub(PAGE_BYTES);
            munmap(start.cast(), MIDDLE_BYTES + 2 * PAGE_BYTES).expect("was mapped");
        }
    }
}

/// Runs a batch, at the end of its pages or at their start, and checks each output.
fn assert_stays_inside(
    workload: &dyn Workload,
    (kernel, path): (&mut dyn Direct, Implementation),
    (src, dst): (&mut Guarded, &mut Guarded),
    input: &Input,
    at_end: bool,
) {
    let place = |bytes: usize| match at_end {
        true => MIDDLE_BYTES - bytes..MIDDLE_BYTES,
        false => 0..bytes,
    };
    let src = &mut src.middle()[place(input.bytes.len())];
    src.copy_from_slice(&input.bytes);
    let batch = Batch::new(src, &input.items).expect("items lie inside");
    let slot = slot_bytes(kernel, batch, input.slot_bytes);
    let dst = &mut dst.middle()[place(slot * batch.len())];
    let who = format!(
        "{path}, {} items of up to {}, at end: {at_end}",
        batch.len(),
        batch.longest()
    );
    assert_right(workload, kernel, batch, dst, &who);
}

#[test]
fn every_operator_stays_inside() {
    say_what_is_skipped();
    let (mut src, mut dst) = (Guarded::new(), Guarded::new());
    let long = [255, 256, 257, 511, 512, 513, 1500, 4097, 9000, 12_289];
    let lengths = (0..=200).chain(long);
    let all: Vec<(usize, usize)> = lengths
        .flat_map(|len| [1, 3, 4, 5].map(|count| (len, count)))
        .collect();
    // For what is not the default, one length in seven, and every count among them.
    let some: Vec<(usize, usize)> = all.iter().copied().step_by(7).collect();
    for entry in operators() {
        let mut cases = entry.cases();
        // Each of the low levels has code of its own in a library.
        if entry.name == "deflate" {
            let low = ["level=2", "level=3,format=gzip"];
            cases.extend(low.map(|parameters| entry.case(parameters).expect("in its domain")));
        }
        for (i, case) in cases.iter().enumerate() {
            // Its slots have room for what came before, and are longer than all these pages.
            if (entry.keeps_state)(&case.spec) {
                continue;
            }
            let workload = entry.workload(case).expect("its own spec");
            let mut kernels = kernels(entry, &case.spec);
            let shapes = if i == 0 { &all } else { &some };
            for (len, count) in affordable(&*workload, shapes.clone(), |(_, count)| 2 * count) {
                let input = Input::of(&*workload, 5, len, count).expect("feeds");
                let remembered = Remembered::new(&*workload);
                for (path, kernel) in &mut kernels {
                    for at_end in [true, false] {
                        let pages = (&mut src, &mut dst);
                        let who = (&mut **kernel as &mut dyn Direct, *path);
                        assert_stays_inside(&remembered, who, pages, &input, at_end);
                    }
                }
            }
        }
    }
}
