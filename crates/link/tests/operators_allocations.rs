//! Neither end of a queue allocates anything per job once it is warm. Alone in its program, so that all that is counted is of the two ends.

mod operators_support;

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::time::Duration;

use dpb_core::conformance::Counting;
use dpb_core::{Backend, Family, Items, Job, Operator, Span};
use dpb_link::bulk::Ring;
use dpb_link::testing::{Device, Fault};
use dpb_operators::registry;
use operators_support::{Served, open, remote, service};

#[global_allocator]
static COUNTING: Counting = Counting;

const DEPTH: usize = 4;

/// Jobs of several layouts over items of up to `len` bytes, so that lists of items and slots come too.
fn jobs(backend: &dyn Backend, operator: &dyn Operator, len: usize) -> VecDeque<Job> {
    let alloc = |len| backend.alloc(len).expect("memory");
    let (slot, bytes) = (operator.dst_len(len), len as u32);
    let spans = (0..7).map(|i| Span {
        buf: 0,
        start: 2 * bytes * (7 - i),
        len: bytes / 10 * i,
    });
    let layouts = [
        Items::fixed(bytes, 7),
        Items::one_behind_another((0..7).map(|i| len / 10 * i)),
        Items::Spans(spans.collect()),
        Items::fixed(bytes, 7),
    ];
    let job = |(tag, items): (usize, Items)| {
        let slots = match tag % 2 {
            0 => Items::fixed(slot as u32, 7),
            _ => Items::one_behind_another([slot; 7]),
        };
        let outcomes = Vec::with_capacity(7);
        let (src, dst) = (alloc(20 * len), alloc(7 * slot));
        Job::with_slots(tag as u64, src, items, dst, slots, outcomes)
    };
    layouts.into_iter().enumerate().map(job).collect()
}

#[test]
fn a_warm_queue_allocates_at_neither_end() {
    let served = Served::start(service());
    allocates_nothing(&*open(&served.name("cpu")), 100);
    // The same where items and outputs go past the connection.
    let ring = Ring {
        pieces: 4,
        piece_bytes: 10_001,
    };
    let device = Device::with_delay(ring, &[Fault::None], Duration::ZERO);
    let served = Served::start(service().with_duplex(Ok(device.clone())));
    let remote = remote().beside("remote-memory", "memory", device.clone());
    let backend = remote.open(&format!("{}/cpu", served.address));
    allocates_nothing(&*backend.unwrap_or_else(|why| panic!("{why}")), 20_000);
    assert!(device.written_bytes() > 1 << 20);
}

fn allocates_nothing(backend: &dyn Backend, len: usize) {
    for name in ["crc32c", "deflate", "copy"] {
        let spec = registry::find(name).expect("registered").default_spec();
        let operator = backend.prepare(&spec).expect("an operator");
        let depth = NonZeroU32::new(DEPTH as u32).expect("not zero");
        let mut queue = operator.clone().open(depth).expect("a queue");
        let mut ready = jobs(backend, &*operator, len);
        let mut done = Vec::with_capacity(DEPTH);
        let mut round = || {
            queue.submit(&mut ready);
            while done.len() < DEPTH {
                if queue.poll(&mut done) == 0 {
                    queue.wait(Duration::from_millis(5));
                }
            }
            for completion in done.drain(..) {
                assert_eq!(completion.result, Ok(()));
                ready.push_back(completion.job);
            }
            ready.rotate_left(1);
        };
        // Which job meets which place of the agent, chance decides, and each place grows to its largest job. So not the first stretch, but
        // one of them has no allocation at all; an allocation a job would be in each.
        let mut stretch = || {
            let before = Counting::everywhere();
            (0..50).for_each(|_| round());
            Counting::everywhere() - before
        };
        let mut made = Vec::new();
        while !made.contains(&0) {
            assert!(made.len() < 20, "{name}: {made:?}");
            made.push(stretch());
        }
    }
}
