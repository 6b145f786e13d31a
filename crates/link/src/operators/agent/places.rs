//! The jobs of a queue at the agent: their memory, which grows to what they need and is then used again.

use dpb_core::{
    Backend, Buf, Buffers, Completion, Items, Job, JobParts, Memory, OutputShape, SetupError,
};

use super::super::job::{Body, Lists, put_done};
use super::super::outbox::Sheets;

/// The places of jobs, as many as the queue is deep.
pub(super) struct Places {
    places: Vec<Place>,
    free: Vec<u32>,
    /// Bytes of all buffers.
    held_bytes: usize,
    held_bytes_max: usize,
    /// Bytes that clients may still have in flight.
    window_left: usize,
}

/// A job: here while its bytes come and go, in the queue in between.
struct Place {
    job: Option<Job>,
    lists: Lists,
    id: u64,
    bytes: usize,
    head: Vec<u8>,
    body: Body,
}

/// The shortest buffer.
const BUFFER_BYTES_MIN: usize = 4096;

impl Places {
    pub(super) fn new(
        depth: u32,
        window_bytes: usize,
        held_bytes_max: usize,
        backend: &dyn Backend,
    ) -> Result<Self, SetupError> {
        let place = |number: u32| {
            let (src, dst) = (backend.alloc(0)?, backend.alloc(0)?);
            let (items, slots) = (Items::default(), Items::default());
            let tag = number.into();
            Ok(Place {
                job: Some(Job::with_slots(tag, src, items, dst, slots, Vec::new())),
                lists: Lists::default(),
                id: 0,
                bytes: 0,
                head: Vec::new(),
                body: Body::default(),
            })
        };
        Ok(Self {
            places: (0..depth).map(place).collect::<Result<_, SetupError>>()?,
            free: (0..depth).rev().collect(),
            held_bytes: 0,
            held_bytes_max,
            window_left: window_bytes,
        })
    }

    /// A place for the job `id`; `None` if there are as many jobs as the queue is deep.
    pub(super) fn take(&mut self, id: u64) -> Option<u32> {
        let number = self.free.pop()?;
        self.places[number as usize].id = id;
        Some(number)
    }

    /// The lists of the job in `number`.
    pub(super) fn lists(&mut self, number: u32) -> &mut Lists {
        let place = &mut self.places[number as usize];
        if let Some(job) = &mut place.job {
            let items = std::mem::take(&mut job.items);
            place.lists.keep(items, std::mem::take(&mut job.slots));
        }
        &mut place.lists
    }

    /// Counts `bytes` to the job in `number`; `false` if the client has more in flight than it may.
    pub(super) fn count(&mut self, number: u32, bytes: usize) -> bool {
        let Some(left) = self.window_left.checked_sub(bytes) else {
            return false;
        };
        self.window_left = left;
        self.places[number as usize].bytes = bytes;
        true
    }

    /// Gives the job in `number` memory for so many bytes to read and to write, and its items and slots.
    ///
    /// # Errors
    /// If there is no memory.
    pub(super) fn prepare(
        &mut self,
        number: u32,
        [input_bytes, output_bytes]: [usize; 2],
        (items, slots): (Items, Items),
        shape: OutputShape,
        backend: &dyn Backend,
    ) -> Result<(), SetupError> {
        self.fit(number, [input_bytes, output_bytes], backend)?;
        let job = self.job(number);
        if shape == OutputShape::Variable {
            job.outcomes.clear();
            job.outcomes.reserve(items.count());
        }
        (job.items, job.slots) = (items, slots);
        Ok(())
    }

    fn fit(
        &mut self,
        number: u32,
        needed: [usize; 2],
        backend: &dyn Backend,
    ) -> Result<(), SetupError> {
        for (which, needed) in needed.into_iter().enumerate() {
            let has = buffer(self.job(number), which).len();
            if needed <= has {
                continue;
            }
            let len = needed.next_power_of_two().max(BUFFER_BYTES_MIN);
            if self.held_bytes - has + len > self.held_bytes_max {
                self.shrink(backend)?;
            }
            // The old one goes first.
            *buffer(self.job(number), which) = backend.alloc(0)?;
            self.held_bytes -= has;
            *buffer(self.job(number), which) = backend.alloc(len)?;
            self.held_bytes += len;
        }
        Ok(())
    }

    /// Gives back the buffers of places without a job.
    fn shrink(&mut self, backend: &dyn Backend) -> Result<(), SetupError> {
        for place in &self.free {
            let Some(job) = &mut self.places[*place as usize].job else {
                continue;
            };
            for which in [0, 1] {
                let buffer = buffer(job, which);
                self.held_bytes -= buffer.len();
                *buffer = backend.alloc(0)?;
            }
        }
        Ok(())
    }

    /// The memory that the items of the job in `number` are read into.
    pub(super) fn input(&mut self, number: u32) -> &mut [u8] {
        buffer(self.job(number), 0)
    }

    /// The job in `number`, to be submitted, and the bytes that it counts as.
    pub(super) fn submit(&mut self, number: u32) -> (Job, usize) {
        let place = &mut self.places[number as usize];
        (place.job.take().expect("a job that is here"), place.bytes)
    }

    /// Takes a completion back and writes its message; says in which place.
    pub(super) fn complete(
        &mut self,
        completion: Completion,
        shape: OutputShape,
        inline_bytes_max: usize,
    ) -> u32 {
        let Completion { job, result } = completion;
        let number = job.tag as u32;
        let place = &mut self.places[number as usize];
        // Whatever a backend says, nothing but its slots is sent.
        let result = result.and_then(|()| job.check_outcomes(shape));
        let (id, head) = (place.id, &mut place.head);
        place.body = put_done(&job, result, shape, id, inline_bytes_max, head);
        place.job = Some(job);
        number
    }

    fn job(&mut self, number: u32) -> &mut Job {
        let place = &mut self.places[number as usize];
        place.job.as_mut().expect("a job that is here")
    }
}

/// The buffer that a job of this side reads (0) or writes (1).
fn buffer(job: &mut JobParts, which: usize) -> &mut Buf {
    let buffers = match (&mut job.src, which) {
        (Memory::Own(buffers), 0) => buffers,
        _ => &mut job.dst,
    };
    match buffers {
        Buffers::One(buf) => buf,
        Buffers::Many(bufs) => &mut bufs[0],
    }
}

impl Sheets for Places {
    fn pieces(&self, number: u32) -> [&[u8]; 2] {
        let Place {
            job, head, body, ..
        } = &self.places[number as usize];
        let output = job.as_ref().and_then(|job| job.dst.first());
        let payload = output.map_or(&[][..], |buf| &buf[body.payload.clone()]);
        [head, payload]
    }

    fn placed_bytes(&self, number: u32) -> usize {
        self.places[number as usize].body.placed_bytes
    }

    /// The client knows of the completion only now, so only now it may send another job.
    fn sent(&mut self, number: u32) {
        let place = &mut self.places[number as usize];
        self.window_left += std::mem::take(&mut place.bytes);
        self.free.push(number);
    }
}
