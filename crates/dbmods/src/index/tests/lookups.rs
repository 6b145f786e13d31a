//! The operator `lookup` against a map, however keys lie, on own cores and on a pool, while a writer goes on.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use dpb_core::random::SplitMix64;
use dpb_core::{Backend, Buf, Buffers, JobError, OpSpec, Span, Stage};

use crate::index::operator::{Lookup, own_cores, pool};
use crate::index::{Index, Tree, TreeOptions};

const ROOM: usize = 40;

/// Looks keys up that lie with `gap` bytes between them.
fn looked_up(
    backend: &dyn Backend,
    index: &Arc<dyn Index>,
    keys: &[Vec<u8>],
    gap: usize,
) -> Vec<Result<Vec<u8>, JobError>> {
    let operator = backend
        .prepare(&OpSpec::from(Lookup::new(Arc::clone(index), ROOM)))
        .expect("it looks keys up");
    let slot = operator.dst_len(0) as u32;
    let mut stage =
        Stage::new(operator, keys.len(), slot, |bytes| backend.alloc(bytes)).expect("memory");
    let mut bytes = Vec::new();
    let spans: Vec<Span> = keys
        .iter()
        .map(|key| {
            let start = bytes.len() as u32;
            bytes.extend_from_slice(key);
            bytes.extend(std::iter::repeat_n(0xee, gap));
            Span {
                buf: 0,
                start,
                len: key.len() as u32,
            }
        })
        .collect();
    let mut memory = Buf::zeroed(bytes.len().max(1)).expect("memory");
    memory[..bytes.len()].copy_from_slice(&bytes);
    let outputs = stage
        .run_over(&mut Buffers::from(memory), &spans)
        .expect("the job is done");
    (0..keys.len())
        .map(|at| outputs.get(at).map(<[u8]>::to_vec))
        .collect()
}

#[test]
fn lookups_are_those_of_a_map_wherever_keys_lie() {
    let mut random = SplitMix64::new(5);
    for length in [Some(8), Some(5), None] {
        let index: Arc<dyn Index> = Arc::new(Tree::new(TreeOptions::default()).expect("memory"));
        let mut map = BTreeMap::new();
        let key = |random: &mut SplitMix64| -> Vec<u8> {
            let len = length.unwrap_or_else(|| 1 + random.below(40));
            (0..len).map(|_| b'a' + random.below(3) as u8).collect()
        };
        for _ in 0..500 {
            let (key, len) = (key(&mut random), random.below(ROOM + 4));
            let value: Vec<u8> = (0..len).map(|_| random.next_u64() as u8).collect();
            index.put(&key, &value).expect("it is put");
            map.insert(key, value);
        }
        let asked: Vec<Vec<u8>> = (0..200).map(|_| key(&mut random)).collect();
        let workers = NonZeroU32::new(2).expect("two");
        let backends: [Box<dyn Backend>; 2] = [Box::new(own_cores()), Box::new(pool(workers))];
        for backend in &backends {
            for gap in [0, 3] {
                let outputs = looked_up(&**backend, &index, &asked, gap);
                for (key, output) in asked.iter().zip(outputs) {
                    let expected = match map.get(key) {
                        None => Ok(Vec::new()),
                        Some(value) if value.len() > ROOM => Err(JobError::DstTooShort),
                        Some(value) => Ok([&[1], &value[..]].concat()),
                    };
                    assert_eq!(output, expected, "{key:?}, gap {gap}, {}", backend.name());
                }
            }
        }
    }
}

/// A job sees one state: both halves of a transaction or neither.
#[test]
fn a_job_sees_one_state_while_a_writer_goes_on() {
    let index: Arc<dyn Index> = Arc::new(Tree::new(TreeOptions::default()).expect("memory"));
    let keys: Vec<Vec<u8>> = (0..64_u64).map(|key| key.to_be_bytes().to_vec()).collect();
    let write = |round: u64| {
        let value = round.to_le_bytes();
        let writes: Vec<_> = (keys.iter())
            .map(|key| crate::index::Write::Put { key, value: &value })
            .collect();
        index.apply(&writes).expect("it is written");
    };
    write(0);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..2000 {
                write(round);
            }
            done.store(true, Ordering::Relaxed);
        });
        let backend = own_cores();
        while !done.load(Ordering::Relaxed) {
            let outputs = looked_up(&backend, &index, &keys, 0);
            assert!(
                outputs.iter().all(|output| output == &outputs[0]),
                "values of two transactions in one job"
            );
        }
    });
}
