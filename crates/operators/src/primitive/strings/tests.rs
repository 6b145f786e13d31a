//! The oracles against the C library's `strcmp`, by way of the standard library's `CStr`, and what halves mean.

use std::ffi::CStr;

use dpb_core::random::SplitMix64;

use super::*;

/// Halves of `half` bytes with strings out of few letters, some of them without a zero byte.
fn item(random: &mut SplitMix64, half: usize) -> Vec<u8> {
    let mut byte = || b"\0aaaaaaab\xff"[random.below(10)];
    (0..2 * half).map(|_| byte()).collect()
}

/// The outcomes of one item, whose output goes into `slot`.
fn run(
    kernel: &impl Kernel<Scratch = ()>,
    item: &[u8],
    slot: &mut [u8],
) -> Vec<Result<u32, JobError>> {
    let mut outcomes = Vec::new();
    let batch = Batch::new(item, &dpb_core::Items::One).expect("one");
    let out = BatchOut::new(slot, &dpb_core::Items::One, &mut outcomes).expect("one slot");
    kernel.run(batch, out, &mut ()).expect("runs");
    outcomes
}

#[test]
fn strings_are_what_the_c_library_takes_them_for() {
    let mut random = SplitMix64::new(1);
    for round in 0..2000 {
        let mut item = item(&mut random, 1 + round % 20);
        let half = item.len() / 2;
        // The C library needs the zero bytes.
        (item[half - 1], item[2 * half - 1]) = (0, 0);
        let [a, b] = halves(&item).map(|half| CStr::from_bytes_until_nul(half).expect("has one"));
        assert_eq!(compare(&item), a.cmp(b) as i8 as u8, "{item:?}");
        let joined = [a.to_bytes(), b.to_bytes_with_nul()].concat();
        assert_eq!(join(&item), joined, "{item:?}");
    }
}

#[test]
fn every_path_agrees_on_strings_that_end_anywhere() {
    let mut random = SplitMix64::new(2);
    let there = |path: &&Implementation| path.is_available();
    let strcmps = Strcmp::PATHS.iter().filter(there);
    let strcmps: Vec<Strcmp> = strcmps
        .map(|path| Strcmp::new(*path).expect("there"))
        .collect();
    let strcats = Strcat::PATHS.iter().filter(there);
    let strcats: Vec<Strcat> = strcats
        .map(|path| Strcat::new(*path).expect("there"))
        .collect();
    for half in 0..200 {
        for _ in 0..10 {
            let mut item = item(&mut random, half);
            // Long strings that are the same up to somewhere.
            if half > 0 && random.below(2) == 0 {
                item.fill(b'x');
                let at = random.below(2 * half);
                item[at] = b"\0yw"[random.below(3)];
            }
            // Both halves end with a zero byte, as columns of fixed width do, or one of them does, or neither.
            let which = random.below(4);
            for (bit, end) in [(1, half), (2, 2 * half)] {
                if half > 0 && which & bit != 0 {
                    item[end - 1] = 0;
                }
            }
            for strcmp in &strcmps {
                let mut order = [9];
                run(strcmp, &item, &mut order);
                assert_eq!(order[0], compare(&item), "{strcmp:?}, {item:?}");
            }
            for strcat in &strcats {
                let right = join(&item);
                let len = right.len() as u32;
                // As long as an output can be, and as long as this one is.
                let mut slot = vec![9; item.len() + 1];
                assert_eq!(run(strcat, &item, &mut slot), [Ok(len)]);
                assert_eq!(slot[..right.len()], right, "{strcat:?}, {item:?}");
                let mut slot = vec![9; right.len()];
                assert_eq!(run(strcat, &item, &mut slot), [Ok(len)]);
                assert_eq!(slot, right, "{strcat:?}, {item:?}");
                let (_, short) = slot.split_first_mut().expect("a zero byte at least");
                assert_eq!(run(strcat, &item, short), [Err(JobError::DstTooShort)]);
            }
        }
    }
}
