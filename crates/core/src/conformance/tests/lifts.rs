//! What the lifts promise, and queues that do not answer.

use std::collections::HashSet;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Mutex;
use std::thread::ThreadId;

use super::*;

/// Panics on items that begin with `!`; counts its scratches.
struct Nervous;

impl Kernel for Nervous {
    type Scratch = bool;

    fn scratch(&self) -> bool {
        false
    }

    fn shape(&self) -> OutputShape {
        OutputShape::Fixed(1)
    }

    fn dst_len(&self, _item_len: usize) -> usize {
        1
    }

    fn run(
        &self,
        batch: Batch<'_>,
        mut out: BatchOut<'_>,
        spoilt: &mut bool,
    ) -> Result<(), JobError> {
        assert!(!*spoilt, "a scratch that a panic left behind is used");
        *spoilt = true;
        if batch.item(0).starts_with(b"!") {
            resume_unwind(Box::new("on purpose, and quietly"));
        }
        out.slots[0][0] = batch.item(0)[0];
        *spoilt = false;
        Ok(())
    }
}

#[test]
fn a_panic_fails_its_own_job_only() {
    let limits = Sample::new(workers(1))
        .limits(&OpSpec::from(spec::Crc32c))
        .unwrap();
    let spec = OpSpec::custom("nervous", []);
    let inline: Arc<dyn Operator> = Arc::new(Inline::new(Nervous, spec.clone(), limits));
    let quietly = |_| resume_unwind(Box::new("on purpose"));
    let pool = Pool::with_start(NonZeroU32::MIN, quietly).unwrap();
    let pooled: Arc<dyn Operator> = Arc::new(Pooled::new(Nervous, spec, limits, pool));
    for operator in [inline, pooled] {
        let mut checked = CheckedQueue::open(&operator, &limits, 4).unwrap();
        for tag in 0..20 {
            let mut src = Buf::zeroed(1).unwrap();
            src[0] = if tag % 3 == 0 { b'!' } else { b'a' };
            let dst = Buf::zeroed(1).unwrap();
            checked.add(Job::new(tag, src, Items::One, dst, OutputShape::Fixed(1)));
        }
        for completion in checked.finish().unwrap() {
            if completion.job.tag % 3 == 0 {
                assert_eq!(completion.result, Err(JobError::Panicked));
            } else {
                assert_eq!(
                    (completion.result, completion.job.dst[0][0]),
                    (Ok(()), b'a')
                );
            }
        }
    }
}

/// Of variable shape; claims these outcomes, whatever the items.
struct Boaster(&'static [Result<u32, JobError>]);

impl Kernel for Boaster {
    type Scratch = ();

    fn scratch(&self) {}

    fn shape(&self) -> OutputShape {
        OutputShape::Variable
    }

    fn dst_len(&self, item_len: usize) -> usize {
        item_len
    }

    fn run(&self, _: Batch<'_>, out: BatchOut<'_>, (): &mut ()) -> Result<(), JobError> {
        out.outcomes.extend_from_slice(self.0);
        Ok(())
    }
}

#[test]
fn outcomes_that_cannot_be_fail_their_job() {
    let limits = Sample::new(workers(1))
        .limits(&OpSpec::from(spec::Crc32c))
        .unwrap();
    // Two items, slots of eight bytes.
    let claims: [(&'static [Result<u32, JobError>], _); 6] = [
        (&[Ok(8), Err(JobError::Malformed)], Ok(())),
        (&[Ok(0), Ok(0)], Ok(())),
        (&[Ok(9), Ok(0)], Err(JobError::BadOutcomes)),
        (&[Ok(0), Ok(u32::MAX)], Err(JobError::BadOutcomes)),
        (&[Ok(8)], Err(JobError::BadOutcomes)),
        (&[Ok(8), Ok(8), Ok(8)], Err(JobError::BadOutcomes)),
    ];
    for (claimed, expected) in claims {
        let spec = OpSpec::custom("boast", []);
        let inline: Arc<dyn Operator> =
            Arc::new(Inline::new(Boaster(claimed), spec.clone(), limits));
        let pool = Pool::shared(NonZeroU32::MIN).unwrap();
        let pooled = Pooled::new(Boaster(claimed), spec, limits, pool);
        for operator in [inline, Arc::new(pooled)] {
            let mut checked = CheckedQueue::open(&operator, &limits, 1).unwrap();
            let [src, dst] = [16, 16].map(|len| Buf::zeroed(len).unwrap());
            let items = Items::fixed(8, 2);
            checked.add(Job::new(0, src, items, dst, OutputShape::Variable));
            let done = checked.finish().unwrap();
            assert_eq!(done[0].result, expected, "{claimed:?}");
        }
    }
}

/// Takes jobs and gives none back; cannot be dropped. It may have a file, of which nothing comes either.
struct Wedged(Vec<Job>, Option<[UnixStream; 2]>);

impl Queue for Wedged {
    fn in_flight(&self) -> usize {
        self.0.len()
    }

    fn submit(&mut self, ready: &mut VecDeque<Job>) -> usize {
        let taken = ready.len();
        self.0.extend(ready.drain(..));
        taken
    }

    fn poll(&mut self, _: &mut Vec<Completion>) -> usize {
        0
    }

    fn file(&self) -> Option<BorrowedFd<'_>> {
        self.1.as_ref().map(|[near, _far]| near.as_fd())
    }
}

impl Drop for Wedged {
    fn drop(&mut self) {
        unreachable!("would wait for ever");
    }
}

struct Wedge {
    spec: OpSpec,
    has_file: bool,
}

impl Operator for Wedge {
    fn spec(&self) -> &OpSpec {
        &self.spec
    }

    fn shape(&self) -> OutputShape {
        OutputShape::Fixed(0)
    }

    fn dst_len(&self, _item_len: usize) -> usize {
        0
    }

    fn open(self: Arc<Self>, _: NonZeroU32) -> Result<Box<dyn Queue>, SetupError> {
        let file = self
            .has_file
            .then(|| <[UnixStream; 2]>::from(UnixStream::pair().expect("sockets")));
        Ok(Box::new(Wedged(Vec::new(), file)))
    }
}

#[test]
#[cfg_attr(miri, ignore = "it leaks on purpose")]
fn a_wedged_queue_is_a_failure_and_is_left_alone() {
    for (has_file, complaint) in [
        (false, "1 jobs in flight and 0 ready, but nothing happens"),
        (true, "1 jobs in flight, but the queue's file does not"),
    ] {
        let spec = OpSpec::custom("wedge", []);
        let operator: Arc<dyn Operator> = Arc::new(Wedge { spec, has_file });
        let limits = Limits::new(NonZeroU32::MIN);
        let checked = CheckedQueue::open(&operator, &limits, 1).unwrap();
        let mut checked = checked.with_silence(Duration::from_millis(20));
        let empty = || Buf::zeroed(0).unwrap();
        let shape = operator.shape();
        checked.add(Job::new(0, empty().freeze(), Items::One, empty(), shape));
        let said = checked.finish().unwrap_err();
        assert!(said.starts_with(complaint), "{said}");
    }
}

/// Notes the threads that it runs on.
struct Noting(Arc<Mutex<HashSet<ThreadId>>>);

impl Kernel for Noting {
    type Scratch = ();

    fn scratch(&self) {}

    fn shape(&self) -> OutputShape {
        OutputShape::Fixed(0)
    }

    fn dst_len(&self, _: usize) -> usize {
        0
    }

    fn run(&self, _: Batch<'_>, _: BatchOut<'_>, (): &mut ()) -> Result<(), JobError> {
        let mut threads = self.0.lock().unwrap();
        threads.insert(std::thread::current().id());
        Ok(())
    }
}

#[test]
fn queues_share_the_workers_of_a_pool() {
    let limits = Sample::new(workers(2))
        .limits(&OpSpec::from(spec::Crc32c))
        .unwrap();
    let two = NonZeroU32::new(2).unwrap();
    let threads = Arc::new(Mutex::new(HashSet::new()));
    let pool = Pool::new(two).unwrap();
    let operator = |pool: &Arc<Pool>| -> Arc<dyn Operator> {
        let spec = OpSpec::custom("noting", []);
        Arc::new(Pooled::new(
            Noting(threads.clone()),
            spec,
            limits,
            pool.clone(),
        ))
    };
    let job = |tag| {
        let [src, dst] = [1, 0].map(|len| Buf::zeroed(len).unwrap());
        Job::new(tag, src, Items::One, dst, OutputShape::Fixed(0))
    };
    let open = || CheckedQueue::open(&operator(&pool), &limits, 3).unwrap();
    for _ in 0..if cfg!(miri) { 2 } else { 20 } {
        let (mut first, mut second) = (open(), open());
        // A third one goes with its jobs, wherever these are.
        let mut third = operator(&pool).open(two).unwrap();
        third.submit(&mut [job(0), job(1)].into());
        drop(third);
        for tag in 0..8 {
            first.add(job(tag));
            second.add(job(tag));
        }
        first.finish_both(second).unwrap();
    }
    assert!(threads.lock().unwrap().len() <= 2);
    let shared = Pool::shared(two).unwrap();
    assert!(Arc::ptr_eq(&shared, &Pool::shared(two).unwrap()));
}

#[test]
fn workers_that_sleep_wake_up() {
    let limits = Sample::new(None)
        .limits(&OpSpec::from(spec::Crc32c))
        .unwrap();
    let two = NonZeroU32::new(2).unwrap();
    let pool = Pool::new(two).unwrap();
    let pooled = Pooled::new(Nervous, OpSpec::custom("nervous", []), limits, pool);
    let mut queue = Arc::new(pooled).open(two).unwrap();
    let (mut ready, mut done) = (VecDeque::new(), Vec::new());
    for tag in 0..if cfg!(miri) { 3 } else { 30 } {
        // Longer than a worker's patience.
        std::thread::sleep(Duration::from_millis(2));
        let mut src = Buf::zeroed(1).unwrap();
        src[0] = b'a';
        let dst = Buf::zeroed(1).unwrap();
        ready.push_back(Job::new(tag, src, Items::One, dst, OutputShape::Fixed(1)));
        assert_eq!(queue.submit(&mut ready), 1);
        // So long that a worker that wakes nobody is found.
        while queue.poll(&mut done) == 0 {
            queue.wait(Duration::from_secs(3600));
        }
        assert_eq!(
            done.last().map(|c| (c.job.tag, c.result)),
            Some((tag, Ok(())))
        );
    }
}
