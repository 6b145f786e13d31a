//! A queue has all its memory when it is open: its first job allocates nothing, however many items it has.

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::sync::Arc;

use dpb_core::conformance::Counting;
use dpb_core::spec::Parameter;
use dpb_core::{Backend, Buf, Input, Job, OutputShape};
use dpb_operators::cpu;
use dpb_operators::registry::{Case, Entry, OPERATORS};

#[global_allocator]
static COUNTING: Counting = Counting;

/// The length of the data in an item: all items are equally long.
const ITEM_BYTES: usize = 256;

/// Fewer items than go together in a kernel's scratch, and more than several times as many.
const ITEMS: [usize; 2] = [3, 1500];

/// AES and HMAC, with one key and with a key for each session.
#[test]
fn keyed_operators_allocate_nothing_for_their_first_job() {
    let mut queues = 0;
    for entry in OPERATORS {
        let has_sessions = |parameter: &Parameter| parameter.name == "sessions";
        if !entry.parameters.iter().any(has_sessions) {
            continue;
        }
        for case in [
            entry.default_case(),
            entry.case("sessions=7").expect("in its domain"),
        ] {
            let backends = cpu::backends().into_iter();
            for backend in backends.filter(|backend| backend.limits(&case.spec).is_ok()) {
                for items in ITEMS {
                    let allocations = first_job_allocations(&backend, entry, &case, items);
                    let (spec, name) = (&case.spec, backend.name());
                    assert_eq!(allocations, 0, "{spec:?} on {name}, {items} items");
                    queues += 1;
                }
            }
        }
    }
    assert!(queues > 0, "no operator has sessions");
}

/// Allocations from the submission of a queue's first job, of `items` items, to its completion. The CPU works on this thread; the harness's own
/// thread allocates when it likes.
fn first_job_allocations(backend: &dyn Backend, entry: &Entry, case: &Case, items: usize) -> u64 {
    let workload = entry.workload(case).expect("its own");
    let input = Input::of(&*workload, 1, ITEM_BYTES, items).expect("items");
    let Input { bytes, items, .. } = input;
    let operator = backend.prepare(&case.spec).expect("prepared");
    let shape = operator.shape();
    let slot_bytes = match shape {
        OutputShape::Fixed(bytes) => bytes,
        OutputShape::Variable => operator.dst_len(bytes.len() / items.count()),
    };
    let mut src = Buf::zeroed(bytes.len()).expect("memory");
    src.copy_from_slice(&bytes);
    let dst = Buf::zeroed(slot_bytes * items.count()).expect("memory");
    let mut queue = Arc::clone(&operator).open(NonZeroU32::MIN).expect("opens");
    let mut ready = VecDeque::from([Job::new(0, src.freeze(), items, dst, shape)]);
    let mut done = Vec::with_capacity(1);
    let before = Counting::here();
    assert_eq!(queue.submit(&mut ready), 1);
    while queue.poll(&mut done) == 0 {
        std::hint::spin_loop();
    }
    let allocations = Counting::here() - before;
    let done = done.pop().expect("came home");
    done.result.expect("carried out");
    allocations
}
