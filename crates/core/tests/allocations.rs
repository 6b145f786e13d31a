//! Nothing is allocated once a queue, a chain or a stage is warm, whatever ways of using it alternate.

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::sync::Arc;

use dpb_core::conformance::{self, Counting, Suite, sample};
use dpb_core::lift::OneKernel;
use dpb_core::{
    Backend, Batch, BatchOut, Buf, Buffers, Chain, Completion, InPlace, Inline, Items, Job,
    JobError, Kernel, Limits, Memory, NotInPlace, OpSpec, Operator, OutputShape, Pool, Pooled,
    Queue, Right, SetupError, Span, Stage, Stride, spec,
};

#[global_allocator]
static COUNTING: Counting = Counting;

const ITEMS: usize = 4;

/// Each item backwards. Its first byte says that it is refused, if it is zero.
struct Backwards;

impl Kernel for Backwards {
    type Scratch = ();

    fn scratch(&self) {}

    fn shape(&self) -> OutputShape {
        OutputShape::Variable
    }

    fn dst_len(&self, item_len: usize) -> usize {
        item_len
    }

    fn in_place(&self) -> Result<usize, NotInPlace> {
        Ok(0)
    }

    fn run(&self, batch: Batch<'_>, out: BatchOut<'_>, (): &mut ()) -> Result<(), JobError> {
        out.each_outcome(batch, |item, slot| {
            let slot = slot.get_mut(..item.len()).ok_or(JobError::DstTooShort)?;
            slot.copy_from_slice(item);
            slot.reverse();
            match item {
                [0, ..] => Err(JobError::Malformed),
                _ => Ok(item.len() as u32),
            }
        });
        Ok(())
    }

    fn run_in_place(&self, work: InPlace<'_>, (): &mut ()) -> Result<(), JobError> {
        for overlay in work.items {
            overlay.bytes[..overlay.item_len].reverse();
            work.outcomes.push(Ok(overlay.item_len as u32));
        }
        Ok(())
    }
}

/// The sum of an item's bytes.
struct Sum;

impl Kernel for Sum {
    type Scratch = ();

    fn scratch(&self) {}

    fn shape(&self) -> OutputShape {
        OutputShape::Fixed(1)
    }

    fn dst_len(&self, _item_len: usize) -> usize {
        1
    }

    fn run(&self, batch: Batch<'_>, out: BatchOut<'_>, (): &mut ()) -> Result<(), JobError> {
        let sum = |item: &[u8]| item.iter().fold(0, |sum: u8, byte| sum.wrapping_add(*byte));
        out.each(batch, |item, slot| slot[0] = sum(item));
        Ok(())
    }
}

fn limits() -> Limits {
    let mut limits = Limits::new(NonZeroU32::new(8).expect("not zero"));
    (limits.input_bytes_max, limits.items_max) = (256, ITEMS);
    limits
}

fn lifted(kernel: impl Kernel, name: &'static str, pool: Option<&Arc<Pool>>) -> Arc<dyn Operator> {
    let spec = OpSpec::custom(name, []);
    match pool {
        None => Arc::new(Inline::new(kernel, spec, limits())),
        Some(pool) => Arc::new(Pooled::new(kernel, spec, limits(), pool.clone())),
    }
}

fn zeroed(len: usize) -> Result<Buf, SetupError> {
    Buf::zeroed(len).ok_or(SetupError::OutOfMemory { len })
}

fn filled(bytes: &[u8]) -> Buf {
    let mut buf = zeroed(bytes.len()).expect("memory");
    buf.copy_from_slice(bytes);
    buf
}

fn span(buf: u32, start: u32, len: u32) -> Span {
    Span { buf, start, len }
}

/// Workers run beside the caller: what they allocate counts too, so that no other test of this program may run meanwhile.
fn pools() -> [Option<Arc<Pool>>; 2] {
    let two = NonZeroU32::new(2).expect("not zero");
    [None, Some(Pool::new(two).expect("threads"))]
}

/// Runs `round` a few times; the first two times it may allocate.
fn assert_allocates_nothing(name: &str, mut round: impl FnMut()) {
    for number in 0..8 {
        let before = Counting::here();
        round();
        let made = Counting::here() - before;
        assert!(
            number < 2 || made == 0,
            "{name}, round {number}: {made} allocations"
        );
    }
}

#[test]
fn a_stage_that_alternates_between_all_its_ways_allocates_nothing() {
    for pool in pools() {
        let stage = |kernel_is_sum: bool| {
            let operator = match kernel_is_sum {
                true => lifted(Sum, "sum", pool.as_ref()),
                false => lifted(Backwards, "backwards", pool.as_ref()),
            };
            Stage::new(operator, ITEMS, 8, zeroed).expect("opens")
        };
        let (mut sums, mut first, mut second) = (stage(true), stage(false), stage(false));
        let shared = filled(&[1, 2, 3, 0, 5, 6]).freeze();
        let mut packets = Buffers::from(vec![filled(&[1, 2, 3]), filled(&[7, 8, 9])]);
        let parts = [span(0, 0, 3), span(1, 1, 2)];
        let mut memory = Some(zeroed(ITEMS * 8).expect("memory"));
        let mut own_bufs = Some(vec![filled(&[4, 5])]);
        assert_allocates_nothing("a stage", || {
            // Behind outputs of one length, which lie at a stride, and behind others, which are a list.
            sums.run(&shared, &[span(0, 0, 2), span(0, 2, 4)])
                .expect("runs");
            let behind = second.run_behind(&mut sums).expect("runs");
            assert_eq!(behind.get(0), Ok(&[3][..]));
            second.run(&shared, &[span(0, 4, 2)]).expect("runs");
            first.run_over(&mut packets, &parts).expect("runs");
            let behind = second.run_behind(&mut first).expect("runs");
            assert_eq!(behind.get(1), Ok(&[8, 9][..]));
            sums.run_behind(&mut second).expect("runs");
            let lens = second
                .run_in_place(&mut packets, &parts, &parts)
                .expect("runs");
            assert!(lens.eq([Ok(3), Ok(2)]));
            let lens = second
                .run_in_place(&mut packets, &parts, &parts)
                .expect("runs");
            assert!(lens.eq([Ok(3), Ok(2)]), "as they were");
            second.run_over(&mut packets, &parts).expect("runs");
            let refused = second.run(&shared, &[span(0, 3, 2), span(0, 0, 9)]);
            assert!(refused.is_err(), "an item beyond its buffer");
            // Outputs that leave with their memory, which comes back.
            let taken = second.take_memory().expect("at home");
            second
                .give_memory(memory.take().expect("lent once"))
                .expect("at home");
            let Buffers::One(buf) = taken else {
                panic!("one buffer was given")
            };
            memory = Some(buf);
            // A list that was lent comes back as the same list.
            let mut lent = Buffers::from(own_bufs.take().expect("lent once"));
            second.run_over(&mut lent, &[span(0, 0, 2)]).expect("runs");
            own_bufs = Some(lent.into_vec());
        });
    }
}

/// A queue's jobs, in and out, with `job` for the next round.
fn through(
    queue: &mut dyn Queue,
    ready: &mut VecDeque<Job>,
    done: &mut Vec<Completion>,
    right: Result<(), JobError>,
) {
    let jobs = ready.len();
    while done.len() < jobs {
        queue.submit(ready);
        queue.poll(done);
    }
    for Completion { job, result } in done.drain(..) {
        assert_eq!(result, right);
        ready.push_back(job);
    }
}

#[test]
fn a_chain_allocates_nothing_once_it_is_warm() {
    for pool in pools() {
        let backwards = || lifted(Backwards, "backwards", pool.as_ref());
        let stages = vec![backwards(), backwards(), lifted(Sum, "sum", pool.as_ref())];
        let chain = Chain::new(stages, limits(), zeroed).expect("three stages");
        let in_place = Chain::new(vec![backwards(), backwards()], limits(), zeroed);
        let chains = [chain, in_place.expect("two stages")].map(Arc::new);
        let depth = NonZeroU32::new(4).expect("not zero");
        let [mut queue, mut queue_in_place] = chains
            .each_ref()
            .map(|chain| chain.clone().open(depth).expect("opens"));
        let list = |spans: &[Span]| Items::Spans(spans.to_vec());
        let item = [span(0, 0, 3), span(0, 3, 2)];
        let slots = [
            list(&[span(0, 0, 3), span(0, 4, 3)]),
            // The second is too short for a sum: that item is refused alone.
            list(&[span(0, 0, 3), span(0, 4, 0)]),
            Items::Strided(Stride {
                start: 1,
                len: 2,
                step: 3,
                count: 2,
            }),
        ];
        let job = |slots: &Items, items: Items| {
            let (src, dst) = (filled(&[1, 2, 3, 0, 5, 6]), zeroed(8).expect("memory"));
            Job::with_slots(0, src, items, dst, slots.clone(), Vec::with_capacity(ITEMS))
        };
        let mut ready: VecDeque<Job> = slots.iter().map(|slots| job(slots, list(&item))).collect();
        let offsets = Items::one_behind_another([3, 2]);
        ready.push_back(job(&slots[0], offsets));
        let over = |spans: &[Span]| {
            let dst = filled(&[1, 2, 3, 4, 5, 6]);
            let outcomes = Vec::with_capacity(ITEMS);
            Job::with_slots(0, Memory::Output, list(spans), dst, list(spans), outcomes)
        };
        let mut ready_in_place = VecDeque::from([over(&item), over(&item[..1])]);
        let mut wrong = VecDeque::from([job(&slots[0], list(&[span(0, 0, 9), span(0, 0, 0)]))]);
        let mut done = Vec::with_capacity(8);
        assert_allocates_nothing("a chain", || {
            through(&mut *queue, &mut ready, &mut done, Ok(()));
            through(&mut *queue_in_place, &mut ready_in_place, &mut done, Ok(()));
            through(&mut *queue, &mut wrong, &mut done, Err(JobError::BadItems));
        });
        let [shape, _] = chains.map(|chain| chain.shape());
        let outputs = ready.iter().map(|job| [0, 1].map(|i| job.output(shape, i)));
        let [sum, refused] = [Ok(&[6][..]), Err(JobError::Malformed)];
        for output in outputs {
            assert_eq!(output, [sum, refused]);
        }
    }
}

#[test]
fn inline_queues_of_the_sample_allocate_nothing() {
    let suite = Suite::default().counting(Counting::here);
    let sample = sample::Sample::new(None);
    let coverage = suite.check(&sample, sample::workloads());
    let coverage = coverage.unwrap_or_else(|failure| panic!("{failure}"));
    assert_eq!(coverage.skipped, [""; 0], "nothing that is not counted");
    let pool = sample::Sample::new(NonZeroU32::new(1));
    let coverage = suite
        .check(&pool, &sample::workloads()[..1])
        .expect("conforms");
    assert!(
        coverage.skipped[0].contains("outside of `submit`"),
        "{coverage:?}"
    );
}

/// A checksum that makes a list of each item first.
struct Wasteful;

impl Kernel for Wasteful {
    type Scratch = ();

    fn scratch(&self) {}

    fn shape(&self) -> OutputShape {
        OutputShape::Fixed(4)
    }

    fn dst_len(&self, _item_len: usize) -> usize {
        4
    }

    fn run(&self, batch: Batch<'_>, out: BatchOut<'_>, (): &mut ()) -> Result<(), JobError> {
        let crc = sample::workloads()[0];
        out.each(batch, |item, slot| {
            if let Right::Only(output) = crc.right(item, 4) {
                slot[..4].copy_from_slice(&output);
            }
        });
        Ok(())
    }
}

#[test]
fn a_kernel_that_allocates_is_found_if_somebody_counts() {
    let wasteful = OneKernel::new("wasteful", |_: &spec::Crc32c| Ok(Wasteful));
    let suite = Suite::default().counting(Counting::here);
    let crc = sample::workloads()[0];
    let found = suite.check(&wasteful, &[crc]).expect_err("it allocates");
    assert!(found.case.starts_with("allocations"), "{found}");
    conformance::check(&wasteful, &[crc]).expect("nobody counts");
    assert_eq!(wasteful.name(), "wasteful");
}
