//! Jobs behind one another over bursts of packets that lie in buffers of their own: each stage reads its part of every packet
//! where it lies, the last one reads what another has written. Nothing is copied, and after the first burst nothing is
//! allocated.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use dpb_core::random::SplitMix64;
use dpb_core::{
    Backend, Buf, Buffers, Completion, Items, Job, JobError, Memory, Operator, Queue, Span,
    Workload,
};
use dpb_operators::cpu;
use dpb_operators::registry::find;

/// The system's memory, counted.
struct Counted;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

#[global_allocator]
static COUNTED: Counted = Counted;

// SAFETY: every call is the system allocator's own.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps to the same contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps to the same contract.
        unsafe { System.dealloc(ptr, layout) }
    }
}

const BURST: usize = 64;
/// Room before each packet, as drivers leave it.
const HEADROOM: usize = 128;
const IPV4: usize = HEADROOM + 14;

/// One operator, and the parts of its jobs, which are used again and again.
struct Stage {
    operator: Arc<dyn Operator>,
    queue: Box<dyn Queue>,
    workload: Box<dyn Workload>,
    dst: Option<Buf>,
    spans: Vec<Span>,
    slots: Vec<Span>,
    outcomes: Vec<Result<u32, JobError>>,
    ready: VecDeque<Job>,
    done: Vec<Completion>,
}

impl Stage {
    fn new(backend: &dyn Backend, name: &str, parameters: &str, item_len: usize) -> Self {
        let entry = find(name).expect("an operator");
        let spec = entry.spec(parameters).expect("its parameters");
        let operator = backend.prepare(&spec).expect("a CPU has it");
        let queue = operator.clone().open(NonZeroU32::MIN).expect("opens");
        let dst_len = operator.dst_len(item_len) * BURST;
        Self {
            queue,
            workload: entry.workload(&spec).expect("its own"),
            dst: Some(backend.alloc(dst_len).expect("memory")),
            operator,
            spans: Vec::with_capacity(BURST),
            slots: Vec::with_capacity(BURST),
            outcomes: Vec::with_capacity(BURST),
            ready: VecDeque::with_capacity(1),
            done: Vec::with_capacity(1),
        }
    }

    /// One job over `src`, from the queue and back.
    fn run(&mut self, src: Memory, items: Items) -> Job {
        let dst = self.dst.take().expect("at home");
        let slots = self.operator.shape().slots(dst.len(), items.count());
        self.send(src, items, dst.into(), slots)
    }

    fn send(&mut self, src: Memory, items: Items, dst: Buffers, slots: Items) -> Job {
        let outcomes = std::mem::take(&mut self.outcomes);
        let job = Job::recycled(0, src, items, dst, slots, outcomes);
        self.ready.push_back(job);
        assert_eq!(self.queue.submit(&mut self.ready), 1);
        while self.queue.poll(&mut self.done) == 0 {
            std::thread::yield_now();
        }
        let Completion { job, result } = self.done.pop().expect("polled");
        result.expect("carried out");
        job
    }

    /// The part of each packet from `start` on, of `len` bytes.
    fn part(&mut self, packets: &[Buf], start: usize, len: impl Fn(&Buf) -> usize) -> Items {
        let mut spans = std::mem::take(&mut self.spans);
        spans.clear();
        spans.extend(packets.iter().zip(0..).map(|(packet, buf)| Span {
            buf,
            start: start as u32,
            len: len(packet) as u32,
        }));
        Items::Spans(spans)
    }

    /// Replaces the part of each packet from `start` on, but for its last `room` bytes: what is written there begins as far behind
    /// `start` as the operator says, and has the room as well.
    fn over(&mut self, packets: Vec<Buf>, start: usize, room: usize, is_checked: bool) -> Vec<Buf> {
        let offset = self.operator.in_place().expect("it works in place");
        let mut slots = std::mem::take(&mut self.slots);
        slots.clear();
        slots.extend(packets.iter().zip(0..).map(|(packet, buf)| Span {
            buf,
            start: (start + offset) as u32,
            len: (packet.len() - start - offset) as u32,
        }));
        let items = self.part(&packets, start, |packet| packet.len() - start - room);
        let before: Vec<Vec<u8>> = match is_checked {
            true => packets.iter().map(|packet| packet.to_vec()).collect(),
            false => Vec::new(),
        };
        let mut job = self.send(Memory::Output, items, packets.into(), Items::Spans(slots));
        for (i, before) in before.iter().enumerate() {
            let item = &before[start..before.len() - room];
            let output = job.output(self.operator.shape(), i);
            let judged = self.workload.check(item, output, item.len() + room);
            judged.unwrap_or_else(|why| panic!("{}: {why}", self.operator.spec()));
            assert_eq!(before[..start + offset], job.dst[i][..start + offset]);
        }
        if let Items::Spans(slots) = std::mem::replace(&mut job.slots, Items::One) {
            self.slots = slots;
        }
        if let Items::Spans(items) = job.items {
            self.spans = items;
        }
        self.outcomes = job.outcomes;
        match job.dst {
            Buffers::Many(packets) => packets,
            other => panic!("{other:?} came home instead of packets"),
        }
    }

    /// Judges what a job gave.
    fn judge(&self, job: &Job) {
        let shape = self.operator.shape();
        let batch = job.batch().expect("as it went in");
        for (i, item) in batch.iter().enumerate() {
            let slot = job.slots.place(i, &job.dst).len;
            let judged = self.workload.check(item, job.output(shape, i), slot);
            judged.unwrap_or_else(|why| panic!("{}: {why}", self.operator.spec()));
        }
    }

    /// Takes a job apart: its memory, and its output. The lists are kept for the next job.
    fn recycle(&mut self, job: Job) -> (Memory, Buf) {
        let Job {
            src,
            items,
            dst,
            outcomes,
            ..
        } = job;
        if let Items::Spans(spans) = items {
            self.spans = spans;
        }
        self.outcomes = outcomes;
        (src, one(dst))
    }

    /// One job over a part of each packet.
    fn on(
        &mut self,
        packets: Vec<Buf>,
        start: usize,
        len: impl Fn(&Buf) -> usize,
        is_checked: bool,
    ) -> Vec<Buf> {
        let items = self.part(&packets, start, len);
        let job = self.run(packets.into(), items);
        if is_checked {
            self.judge(&job);
        }
        let (src, dst) = self.recycle(job);
        self.dst = Some(dst);
        scattered(src)
    }
}

fn scattered(memory: Memory) -> Vec<Buf> {
    match memory {
        Memory::Own(Buffers::Many(packets)) => packets,
        other => panic!("{other:?} came home instead of packets"),
    }
}

fn one(buffers: Buffers) -> Buf {
    match buffers {
        Buffers::One(buf) => buf,
        other => panic!("{other:?} came home instead of one buffer"),
    }
}

/// Packets of 64 to 1500 bytes behind their headroom.
fn packets(backend: &dyn Backend) -> Vec<Buf> {
    let mut random = SplitMix64::new(7);
    let mut packet = || {
        let mut buf = backend
            .alloc(HEADROOM + 64 + random.below(1437))
            .expect("memory");
        buf[HEADROOM..].fill_with(|| random.next_u64() as u8);
        buf
    };
    (0..BURST).map(|_| packet()).collect()
}

#[test]
fn a_burst_goes_through_stages_without_a_copy_or_an_allocation() {
    for name in ["cpu/portable", "cpu/best", "pool/1", "pool/2"] {
        let backend = cpu::by_name(name).expect("a CPU");
        let mut checksum = Stage::new(&backend, "checksum", "form=plain", 20);
        let mut toeplitz = Stage::new(&backend, "toeplitz", "", 12);
        let mut lpm = Stage::new(&backend, "lpm4", "routes=generated:1000", 4);
        let mut sha256 = Stage::new(&backend, "sha256", "", 1500);
        let mut crc = Stage::new(&backend, "crc32c", "", 4);
        let mut gcm = Stage::new(&backend, "aes-gcm", "", 0);
        let mut packets = packets(&backend);
        let places: Vec<_> = packets.iter().map(|packet| packet.as_ptr()).collect();
        let dst_of = |stage: &Stage| stage.dst.as_ref().map(|dst| dst.as_ptr());
        let hops = dst_of(&lpm);
        for burst in 0..20 {
            // The oracles allocate; so does the first burst.
            let is_checked = burst == 0 || burst == 19;
            let before = ALLOCATIONS.load(Ordering::Relaxed);
            packets = checksum.on(packets, IPV4, |_| 20, is_checked);
            packets = toeplitz.on(packets, IPV4 + 12, |_| 12, is_checked);
            packets = sha256.on(packets, IPV4, |packet| packet.len() - IPV4, is_checked);
            // The nonce, twelve bytes from the destination address on, stays; the tag takes the last bytes.
            packets = gcm.over(packets, IPV4 + 16, 16, is_checked);
            let items = lpm.part(&packets, IPV4 + 16, |_| 4);
            let found = lpm.run(packets.into(), items);
            // What one stage has written is what the next one reads, where it lies.
            let items = found.outputs(lpm.operator.shape(), std::mem::take(&mut crc.spans));
            if is_checked {
                lpm.judge(&found);
            }
            let (src, written) = lpm.recycle(found);
            packets = scattered(src);
            assert_eq!(Some(written.as_ptr()), hops);
            let summed = crc.run(written.into(), items);
            if is_checked {
                crc.judge(&summed);
            }
            let (written, sums) = crc.recycle(summed);
            crc.dst = Some(sums);
            lpm.dst = match written {
                Memory::Own(written) => Some(one(written)),
                other => panic!("{other:?} came home instead of hops"),
            };
            let allocated = ALLOCATIONS.load(Ordering::Relaxed) - before;
            assert!(
                is_checked || allocated == 0,
                "{name}: {allocated} allocations"
            );
        }
        let moved = packets.iter().map(|packet| packet.as_ptr());
        assert!(moved.eq(places), "{name}: packets moved");
    }
}
