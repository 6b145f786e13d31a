//! No kernel touches a byte beyond its input or its output: both end where a page without access begins, and both
//! begin where one ends.
#![allow(unsafe_code)]

use std::ptr::NonNull;

use dpb_core::{Batch, BatchOut, Items, Kernel};
use dpb_operators::cpu::Path;
use dpb_operators::input;
use dpb_operators::network::crc32c::Crc32c;
use dpb_operators::security::sha256::Sha256;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

/// The largest page size of the architectures that dpb runs on.
const PAGE_BYTES: usize = 65_536;

/// A page between two without access.
struct Guarded(NonNull<u8>);

impl Guarded {
    fn new() -> Self {
        // SAFETY: a fresh anonymous mapping; the protection of its middle changes before anything refers to it.
        unsafe {
            let start = mmap_anonymous(
                std::ptr::null_mut(),
                3 * PAGE_BYTES,
                ProtFlags::empty(),
                MapFlags::PRIVATE,
            )
            .expect("address space");
            let middle = start.add(PAGE_BYTES);
            mprotect(
                middle,
                PAGE_BYTES,
                MprotectFlags::READ | MprotectFlags::WRITE,
            )
            .expect("a page");
            Self(NonNull::new(middle.cast()).expect("not null"))
        }
    }

    fn page(&mut self) -> &mut [u8] {
        // SAFETY: the middle page is readable, writable, zeroed by the kernel, ours alone, and borrowed with `self`.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_ptr(), PAGE_BYTES) }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: the mapping that `new` made; no reference into it outlives `self`.
        unsafe {
            let start = self.0.as_ptr().sub(PAGE_BYTES);
            munmap(start.cast(), 3 * PAGE_BYTES).expect("was mapped");
        }
    }
}

fn assert_stays_inside<K: Kernel>(path: Path, kernel: &K, portable: &K) {
    let slot = kernel.dst_len(0);
    let (mut src, mut dst) = (Guarded::new(), Guarded::new());
    let bytes = input::random(5, PAGE_BYTES, 1).bytes;
    src.page().copy_from_slice(&bytes);
    let lengths = (0..=200).chain([255, 256, 257, 511, 512, 513, 1500, 4097, 9000, 12_289]);
    for len in lengths {
        for count in [1, 3, 4, 5] {
            for at_end in [true, false] {
                let (src_range, dst_range) = if at_end {
                    (
                        PAGE_BYTES - len * count..PAGE_BYTES,
                        PAGE_BYTES - slot * count..PAGE_BYTES,
                    )
                } else {
                    (0..len * count, 0..slot * count)
                };
                let items = Items::Fixed {
                    len: len as u32,
                    count: count as u32,
                };
                let mut right = vec![0; slot * count];
                let src = &src.page()[src_range];
                let dst = &mut dst.page()[dst_range];
                for (kernel, dst) in [(portable, &mut right[..]), (kernel, &mut *dst)] {
                    let out = BatchOut {
                        dst,
                        slot,
                        outcomes: &mut Vec::new(),
                    };
                    let batch = Batch::new(src, &items).expect("items lie inside");
                    kernel.run(batch, out, &mut kernel.scratch()).expect("runs");
                }
                assert_eq!(
                    dst, right,
                    "{path}, {count} items of {len}, at end: {at_end}"
                );
            }
        }
    }
}

#[test]
fn crc32c_stays_inside() {
    let portable = Crc32c::new(Path::Portable).expect("any CPU");
    for path in Crc32c::PATHS.iter().filter(|path| path.is_available()) {
        assert_stays_inside(*path, &Crc32c::new(*path).expect("available"), &portable);
    }
}

#[test]
fn sha256_stays_inside() {
    let portable = Sha256::new(Path::Portable).expect("any CPU");
    for path in Sha256::PATHS.iter().filter(|path| path.is_available()) {
        assert_stays_inside(*path, &Sha256::new(*path).expect("available"), &portable);
    }
}
