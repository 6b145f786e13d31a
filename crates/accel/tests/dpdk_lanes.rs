//! What the suite does not try of queues on DPDK's devices: the longest items, chains of mbufs, counters that run over,
//! and queues, operators and buffers that go in every order. One process, so one test after another in one function.

mod dpdk;

use std::any::Any;
use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::process::Command;
use std::sync::{Arc, Mutex};

use dpb_core::{
    Backend, DeflateFormat, Input, Items, Job, JobError, Material, OpSpec, Operator, OutputShape,
    Queue, SetupError, Workload, spec,
};
use dpb_operators::{input, registry};

#[test]
fn lanes() {
    if let Some(backend) = dpdk::open("crypto_aesni_mb") {
        longest_items(&*backend);
        counters_that_run_over(&*backend);
        every_order(&*backend);
        as_many_queues_as_there_are(&*backend);
    }
    for device in ["compress_isal", "compress_zlib"] {
        if let Some(backend) = dpdk::open(device) {
            streams_that_go_on_or_stop(&*backend);
            longest_streams(&*backend);
        }
    }
}

fn workload(spec: &OpSpec) -> Box<dyn Workload> {
    let entry = registry::of(spec).expect("registered");
    entry.workload(spec).expect("its own spec")
}

fn job(backend: &dyn Backend, operator: &dyn Operator, item: &[u8], slot: usize) -> Job {
    let mut src = backend.alloc(item.len()).expect("memory");
    src.copy_from_slice(item);
    let dst = backend.alloc(slot).expect("memory");
    Job::new(7, src.freeze(), Items::One, dst, operator.shape())
}

/// The item's output, in a slot as long as the operator suggests or this.
fn run(
    backend: &dyn Backend,
    spec: &OpSpec,
    item: &[u8],
    slot: Option<usize>,
) -> Result<Vec<u8>, JobError> {
    let operator = backend.prepare(spec).expect("offered");
    let slot = slot.unwrap_or_else(|| operator.dst_len(item.len()));
    let shape = operator.shape();
    let job = job(backend, &*operator, item, slot);
    let mut queue = operator.open(NonZeroU32::MIN).expect("a queue");
    queue.submit(&mut VecDeque::from([job]));
    let mut done = Vec::new();
    while queue.poll(&mut done) == 0 {}
    let done = done.remove(0);
    done.result?;
    done.job.output(shape, 0).map(<[u8]>::to_vec)
}

/// The longest that is promised is right; one more byte is too long.
fn longest_items(backend: &dyn Backend) {
    for name in [
        "aes-gcm",
        "aes-gcm-decrypt",
        "aes-ctr",
        "aes-cbc",
        "aes-cbc-decrypt",
        "sha256",
        "hmac-sha1",
    ] {
        let spec = registry::find(name).expect("registered").default_spec();
        let max = backend.limits(&spec).expect("offered").item_bytes_max;
        let workload = workload(&spec);
        let around = workload.encode_item(&[]).expect("an item").len();
        let plain = input::text(1, max - around, 1).bytes;
        let item = workload.encode_item(&plain).expect("an item");
        assert_eq!(item.len(), max, "{name}");
        let output = run(backend, &spec, &item, None);
        let slot = backend.prepare(&spec).expect("offered").dst_len(max);
        let judged = workload.check(&item, output.as_deref().map_err(|&error| error), slot);
        judged.unwrap_or_else(|wrong| panic!("{name}: {wrong}"));
        let longer = [&item[..], &[0]].concat();
        assert_eq!(
            run(backend, &spec, &longer, None),
            Err(JobError::TooLong),
            "{name}"
        );
    }
}

/// Counter mode counts all of its block, whatever part of it the device counts.
fn counters_that_run_over(backend: &dyn Backend) {
    let spec = OpSpec::from(spec::AesCtr {
        key: Material::secret(*b"0123456789abcdef"),
    });
    let workload = workload(&spec);
    for high in [0, 0xFFFF_FFFF, u128::MAX >> 32] {
        for low in [0_u32, 0xFFFF_FFF0, 0xFFFF_FFFE, 0xFFFF_FFFF] {
            for len in [1, 15, 16, 17, 33, 1000] {
                let counter = high << 32 | u128::from(low);
                let text = input::text(2, len, 1).bytes;
                let item = [&counter.to_be_bytes()[..], &text].concat();
                let output = run(backend, &spec, &item, None);
                let judged = workload.check(&item, output.as_deref().map_err(|&error| error), len);
                judged.unwrap_or_else(|wrong| panic!("{counter:x}, {len}: {wrong}"));
            }
        }
    }
}

/// Jobs for a busy queue: more than a burst of items each.
fn jobs(backend: &dyn Backend, operator: &dyn Operator, count: u64) -> VecDeque<Job> {
    let items = Items::fixed(300, 100);
    let job = |tag| {
        let src = backend.alloc(300 * 100).expect("memory").freeze();
        let dst = backend.alloc(operator.dst_len(300) * 100).expect("memory");
        Job::new(tag, src, items.clone(), dst, operator.shape())
    };
    (0..count).map(job).collect()
}

/// Queue, operator, buffers and backend go in each order, with jobs in flight or done; then all still works.
fn every_order(backend: &dyn Backend) {
    let spec = registry::find("aes-gcm")
        .expect("registered")
        .default_spec();
    let prepare = || backend.prepare(&spec).expect("offered");
    let depth = NonZeroU32::new(4).expect("not zero");
    let open = |operator: &Arc<dyn Operator>| operator.clone().open(depth).expect("a queue");
    for (order, polls) in orders()
        .iter()
        .flat_map(|order| [(order, 0), (order, 1), (order, 9)])
    {
        // One of the four, or none, stays for ever; a queue has a queue pair, of which there are few.
        for kept in [None, Some(0), Some(2), Some(3)] {
            let operator = prepare();
            let mut ready = jobs(backend, &*operator, 6);
            let mut queue = open(&operator);
            assert_eq!(queue.submit(&mut ready), 4);
            let mut done = Vec::new();
            for _ in 0..polls {
                queue.poll(&mut done);
                queue.submit(&mut ready);
            }
            assert!(done.iter().all(|done| done.result == Ok(())));
            let mut things: [Option<Box<dyn Any>>; 4] = [
                Some(Box::new(operator)),
                Some(Box::new(queue)),
                Some(Box::new(ready)),
                Some(Box::new(done)),
            ];
            for &i in order {
                let thing = things[i].take().expect("each once");
                match kept == Some(i) {
                    true => keep(thing),
                    false => drop(thing),
                }
            }
        }
    }
    for _ in 0..3 {
        // Another queue of the same operator goes on while one is dropped.
        let operator = prepare();
        let (mut one, mut two) = (open(&operator), open(&operator));
        let mut ready = [jobs(backend, &*operator, 4), jobs(backend, &*operator, 4)];
        one.submit(&mut ready[0]);
        two.submit(&mut ready[1]);
        drop(one);
        let mut done = Vec::new();
        while done.len() < 4 {
            two.poll(&mut done);
        }
        drop(operator);
        drop(two);
        assert!(done.iter().all(|done| done.result == Ok(())));
    }
    // A queue that is forgotten with jobs in flight keeps its buffers, its queue pair and its session; others work.
    let operator = prepare();
    let mut lost = open(&operator);
    lost.submit(&mut jobs(backend, &*operator, 4));
    keep(Box::new(lost));
    drop(operator);
    assert!(run(backend, &spec, &[0; 200], None).is_ok());
}

/// The 24 orders of four things.
fn orders() -> Vec<[usize; 4]> {
    let codes = (0..256).map(|code| [code / 64, code / 16 % 4, code / 4 % 4, code % 4]);
    codes
        .filter(|order| (0..4).all(|i| order.contains(&i)))
        .collect()
}

/// Never drops it, and knows where it is: leak checkers look for what nobody knows.
fn keep(thing: Box<dyn Any>) {
    static KEPT: Mutex<Vec<usize>> = Mutex::new(Vec::new());
    let at = Box::into_raw(thing).cast::<()>() as usize;
    KEPT.lock().expect("nobody panics").push(at);
}

/// Set for a process that ends in the middle of everything.
const ENDS: &str = "DPB_TEST_ENDS";
/// The code that it ends with.
const CODE: i32 = 3;

#[test]
fn a_process_may_end_at_any_time() {
    if std::env::var_os(ENDS).is_some() {
        let Some(backend) = dpdk::open("crypto_aesni_mb") else {
            std::process::exit(CODE);
        };
        let spec = registry::find("aes-gcm")
            .expect("registered")
            .default_spec();
        let operator = backend.prepare(&spec).expect("offered");
        let depth = NonZeroU32::new(4).expect("not zero");
        let mut queue = operator.clone().open(depth).expect("a queue");
        queue.submit(&mut jobs(&*backend, &*operator, 4));
        std::process::exit(CODE);
    }
    let program = std::env::current_exe().expect("this one");
    let output = Command::new(program)
        .args(["--exact", "a_process_may_end_at_any_time", "--nocapture"])
        .env(ENDS, "1")
        .output()
        .expect("starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(CODE), "{errors}");
}

/// All queue pairs can be taken; one more is refused with a reason, and comes back when one is dropped.
fn as_many_queues_as_there_are(backend: &dyn Backend) {
    let operator = backend.prepare(&OpSpec::from(spec::Sha1)).expect("offered");
    let mut queues: Vec<Box<dyn Queue>> = Vec::new();
    let refused = loop {
        match operator.clone().open(NonZeroU32::MIN) {
            Ok(queue) => queues.push(queue),
            Err(refused) => break refused,
        }
    };
    assert!(!queues.is_empty());
    assert!(matches!(refused, SetupError::Unsupported(why) if why.reason.contains("in use")));
    queues.pop();
    assert!(operator.open(NonZeroU32::MIN).is_ok());
}

const RAW: DeflateFormat = DeflateFormat::Raw;

/// Bytes behind a stream are not looked at; a stream that is cut is refused, wherever it stops.
fn streams_that_go_on_or_stop(backend: &dyn Backend) {
    let spec = OpSpec::from(spec::Inflate { format: RAW });
    let workload = workload(&spec);
    let name = backend.name();
    for len in [0, 1, 10, 300] {
        let plain = input::text(3, len, 1).bytes;
        let item = workload.encode_item(&plain).expect("encodes");
        for end in 0..item.len() {
            let output = run(backend, &spec, &item[..end], Some(len));
            assert!(
                output.is_err(),
                "{name}, {end} of {} bytes: {output:?}",
                item.len()
            );
        }
        for tail in [&[][..], &[0], &[0xFF; 9], &[0x55; 200]] {
            let item = [&item[..], tail].concat();
            let output = run(backend, &spec, &item, Some(len));
            assert_eq!(
                output.as_deref(),
                Ok(&plain[..]),
                "{name}, {} bytes behind",
                tail.len()
            );
        }
        if len > 0 {
            let item = [&item[..], &[0; 3]].concat();
            let output = run(backend, &spec, &item, Some(len - 1));
            assert_eq!(output, Err(JobError::DstTooShort), "{name}, {len}");
        }
    }
}

/// Items as long as is promised, or of several mbufs where that is more than is quick.
fn longest_streams(backend: &dyn Backend) {
    let name = backend.name();
    for format in [RAW, DeflateFormat::Zlib, DeflateFormat::Gzip] {
        let spec = OpSpec::from(spec::Deflate { level: 1, format });
        let Ok(limits) = backend.limits(&spec) else {
            continue;
        };
        for len in [65_535, 65_536, 1_000_000] {
            let len = len.min(limits.item_bytes_max);
            for plain in [input::text(4, len, 1), Input::random(4, len, 1)] {
                let workload = workload(&spec);
                let output = run(backend, &spec, &plain.bytes, None).expect("compresses");
                let judged = workload.approve(&plain.bytes, &output);
                judged.unwrap_or_else(|wrong| panic!("{name}, {spec:?}, {len}: {wrong}"));
            }
        }
    }
    let spec = OpSpec::from(spec::Inflate { format: RAW });
    let item_bytes_max = backend.limits(&spec).expect("offered").item_bytes_max;
    let workload = workload(&spec);
    for len in [60_000, 1_000_000] {
        let plain = input::text(5, len, 1).bytes;
        let item = workload.encode_item(&plain).expect("encodes");
        // Where an mbuf must hold all, it bounds the output, too.
        if item_bytes_max < 65_536 && len > 65_535 {
            let output = run(
                backend,
                &spec,
                &item[..item.len().min(item_bytes_max)],
                Some(len),
            );
            assert_eq!(output, Err(JobError::TooLong), "{name}");
            continue;
        }
        assert_eq!(
            run(backend, &spec, &item, Some(len)).as_deref(),
            Ok(&plain[..]),
            "{name}, {len}"
        );
        for end in [1, item.len() / 2, item.len() - 1] {
            let output = run(backend, &spec, &item[..end], Some(len));
            assert!(output.is_err(), "{name}, {end} of {}", item.len());
        }
    }
    assert_eq!(
        backend.prepare(&spec).expect("offered").shape(),
        OutputShape::Variable
    );
}
