//! The jobs of a queue that are in flight, each in a place of its own.

use dpb_core::{Buf, Job};

use super::super::job::Body;
use super::super::outbox::Sheets;

/// The jobs in flight.
pub(super) struct Places {
    pub(super) places: Vec<Place>,
    pub(super) free: Vec<u32>,
    /// Sum of the time that the jobs in flight may take.
    pub(super) cost_ns: u64,
}

/// A job in flight.
#[derive(Default)]
pub(super) struct Place {
    pub(super) job: Option<Job>,
    /// One more for each job, so that no answer is taken for that of another.
    pub(super) generation: u32,
    /// True from when the agent has all of it to its answer.
    pub(super) is_sent: bool,
    pub(super) head: Vec<u8>,
    pub(super) body: Body,
    pub(super) bytes: usize,
    pub(super) cost_ns: u64,
}

impl Places {
    pub(super) fn new(depth: usize) -> Self {
        Self {
            places: (0..depth).map(|_| Place::default()).collect(),
            free: (0..depth as u32).rev().collect(),
            cost_ns: 0,
        }
    }

    pub(super) fn id(&self, place: u32) -> u64 {
        let generation = self.places[place as usize].generation;
        u64::from(generation) << 32 | u64::from(place)
    }

    /// The place whose job the agent means by `id`, if it has the whole of it.
    pub(super) fn find(&self, id: u64) -> Option<u32> {
        let (place, generation) = (id as u32, (id >> 32) as u32);
        let found = self.places.get(place as usize)?;
        let is_it = found.job.is_some() && found.is_sent && found.generation == generation;
        is_it.then_some(place)
    }

    /// The agent has answered the job in `place`: it does so once.
    pub(super) fn answered(&mut self, place: u32) {
        self.places[place as usize].is_sent = false;
    }

    /// The job in `place`, which has one.
    pub(super) fn job(&mut self, place: u32) -> &mut Job {
        let job = self.places[place as usize].job.as_mut();
        job.expect("a job in flight")
    }

    /// Takes the job out of `place`; says how many bytes of the window it had.
    pub(super) fn take(&mut self, place: u32) -> Option<(Job, usize)> {
        let gone = &mut self.places[place as usize];
        let job = gone.job.take()?;
        gone.generation = gone.generation.wrapping_add(1);
        gone.is_sent = false;
        self.cost_ns -= gone.cost_ns;
        self.free.push(place);
        Some((job, gone.bytes))
    }
}

impl Sheets for Places {
    fn pieces(&self, place: u32) -> [&[u8]; 2] {
        let Place {
            job, head, body, ..
        } = &self.places[place as usize];
        let input: &[Buf] = job.as_ref().map_or(&[], |job| job.input());
        let payload = input
            .first()
            .map_or(&[][..], |buf| &buf[body.payload.clone()]);
        [head, payload]
    }

    fn placed_bytes(&self, place: u32) -> usize {
        self.places[place as usize].body.placed_bytes
    }

    fn sent(&mut self, place: u32) {
        self.places[place as usize].is_sent = true;
    }
}
