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
    Backend, Buf, Buffers, Completion, Items, Job, Memory, Operator, Queue, Span, Workload,
};
use dpb_operators::cpu::FAMILIES;
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

/// One operator and its only job, which is used again and again.
struct Stage {
    operator: Arc<dyn Operator>,
    queue: Box<dyn Queue>,
    workload: Box<dyn Workload>,
    /// At home between two bursts.
    job: Option<Job>,
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
        let dst = backend.alloc(dst_len).expect("memory");
        let [items, slots] = [0; 2].map(|_| Items::Spans(Vec::with_capacity(BURST)));
        let outcomes = Vec::with_capacity(BURST);
        let job = Job::with_slots(0, Memory::Output, items, dst, slots, outcomes);
        Self {
            queue,
            workload: entry.workload(&spec).expect("its own"),
            operator,
            job: Some(job),
            ready: VecDeque::with_capacity(1),
            done: Vec::with_capacity(1),
        }
    }

    fn job(&mut self) -> Job {
        self.job.take().expect("at home")
    }

    /// The job over `src`, from the queue and back. Its outputs go to memory of its own.
    fn run(&mut self, src: impl Into<Memory>, items: Items) -> Job {
        let mut job = self.job();
        job.src = src.into();
        job.slots = self.operator.shape().slots(job.dst[0].len(), items.count());
        job.items = items;
        self.send(job)
    }

    fn send(&mut self, job: Job) -> Job {
        self.ready.push_back(job);
        assert_eq!(self.queue.submit(&mut self.ready), 1);
        while self.queue.poll(&mut self.done) == 0 {
            std::thread::yield_now();
        }
        let Completion { job, result } = self.done.pop().expect("polled");
        result.expect("carried out");
        job
    }

    /// The list that the job's items were in.
    fn spans(&mut self) -> Vec<Span> {
        let job = self.job.as_mut().expect("at home");
        std::mem::take(&mut job.items).into_spans()
    }

    /// Replaces the part of each packet from `start` on, but for its last `room` bytes: what is written there begins as far behind
    /// `start` as the operator says, and has the room as well.
    fn over(&mut self, packets: Vec<Buf>, start: usize, room: usize, is_checked: bool) -> Vec<Buf> {
        let offset = self.operator.in_place().expect("it works in place");
        let before: Vec<Vec<u8>> = match is_checked {
            true => packets.iter().map(|packet| packet.to_vec()).collect(),
            false => Vec::new(),
        };
        let items = part(self.spans(), &packets, start, |packet| {
            packet.len() - start - room
        });
        let mut job = self.job();
        let slots = std::mem::take(&mut job.slots).into_spans();
        job.slots = part(slots, &packets, start + offset, |packet| {
            packet.len() - start - offset
        });
        job.items = items;
        job.dst = packets.into();
        let job = self.send(job);
        for (i, before) in before.iter().enumerate() {
            let item = &before[start..before.len() - room];
            let output = job.output(self.operator.shape(), i);
            let judged = self.workload.check(item, output, item.len() + room);
            judged.unwrap_or_else(|why| panic!("{}: {why}", self.operator.spec()));
            assert_eq!(before[..start + offset], job.dst[i][..start + offset]);
        }
        let job = self.job.insert(job);
        many(std::mem::take(&mut job.dst))
    }

    /// Judges what the job gave.
    fn judge(&self, job: &Job) {
        let shape = self.operator.shape();
        let batch = job.batch().expect("as it went in");
        for (i, item) in batch.iter().enumerate() {
            let slot = job.slots.place(i, &job.dst).len;
            let judged = self.workload.check(item, job.output(shape, i), slot);
            judged.unwrap_or_else(|why| panic!("{}: {why}", self.operator.spec()));
        }
    }

    /// The job over a part of each packet.
    fn on(
        &mut self,
        packets: Vec<Buf>,
        start: usize,
        len: impl Fn(&Buf) -> usize,
        is_checked: bool,
    ) -> Vec<Buf> {
        let items = part(self.spans(), &packets, start, len);
        let mut job = self.run(packets, items);
        if is_checked {
            self.judge(&job);
        }
        let packets = many(own(&mut job));
        self.job = Some(job);
        packets
    }
}

/// The part of each packet from `start` on, of `len` bytes.
fn part(mut spans: Vec<Span>, packets: &[Buf], start: usize, len: impl Fn(&Buf) -> usize) -> Items {
    spans.extend(packets.iter().zip(0..).map(|(packet, buf)| Span {
        buf,
        start: start as u32,
        len: len(packet) as u32,
    }));
    Items::Spans(spans)
}

/// Takes the memory that a job has read.
fn own(job: &mut Job) -> Buffers {
    match std::mem::replace(&mut job.src, Memory::Output) {
        Memory::Own(buffers) => buffers,
        other => panic!("{other:?} came home instead of buffers"),
    }
}

fn many(buffers: Buffers) -> Vec<Buf> {
    match buffers {
        Buffers::Many(packets) => packets,
        other => panic!("{other:?} came home instead of packets"),
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
        let backend = FAMILIES.open(name).expect("a CPU");
        let mut checksum = Stage::new(&backend, "checksum", "form=plain", 20);
        let mut toeplitz = Stage::new(&backend, "toeplitz", "", 12);
        let mut lpm = Stage::new(&backend, "lpm4", "routes=generated:1000", 4);
        let mut sha256 = Stage::new(&backend, "sha256", "", 1500);
        let mut crc = Stage::new(&backend, "crc32c", "", 4);
        let mut gcm = Stage::new(&backend, "aes-gcm", "", 0);
        let mut packets = packets(&backend);
        let places: Vec<_> = packets.iter().map(|packet| packet.as_ptr()).collect();
        let hops = lpm.job.as_ref().map(|job| job.dst[0].as_ptr());
        for burst in 0..20 {
            // The oracles allocate; so does the first burst.
            let is_checked = burst == 0 || burst == 19;
            let before = ALLOCATIONS.load(Ordering::Relaxed);
            packets = checksum.on(packets, IPV4, |_| 20, is_checked);
            packets = toeplitz.on(packets, IPV4 + 12, |_| 12, is_checked);
            packets = sha256.on(packets, IPV4, |packet| packet.len() - IPV4, is_checked);
            // The nonce, twelve bytes from the destination address on, stays; the tag takes the last bytes.
            packets = gcm.over(packets, IPV4 + 16, 16, is_checked);
            let items = part(lpm.spans(), &packets, IPV4 + 16, |_| 4);
            let mut found = lpm.run(packets, items);
            if is_checked {
                lpm.judge(&found);
            }
            packets = many(own(&mut found));
            // What one stage has written is what the next one reads, where it lies.
            let items = found.outputs(lpm.operator.shape(), crc.spans());
            let written = std::mem::take(&mut found.dst);
            assert_eq!(Some(written[0].as_ptr()), hops);
            let mut summed = crc.run(written, items);
            if is_checked {
                crc.judge(&summed);
            }
            found.dst = own(&mut summed);
            (lpm.job, crc.job) = (Some(found), Some(summed));
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
