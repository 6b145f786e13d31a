//! Requests of YCSB, drawn before the clock runs.

use std::sync::Arc;

use dpb_dbmods::index::ycsb::{
    Generator, Inserted, Key, KeyForm, LOADED, Request, Spec, Workload, fill,
};

/// Requests that a thread hands in together.
pub(crate) const WINDOW: usize = 64;
/// Requests that are handed in together: all reads come before all writes, and those before all scans.
#[derive(Default)]
pub(crate) struct Window {
    /// The records to read, each with its key.
    pub(crate) reads: Vec<(u64, Key)>,
    /// The records to write.
    pub(crate) writes: Vec<Put>,
    /// The first key and the most rows of each scan.
    pub(crate) scans: Vec<(Key, usize)>,
}

/// A write.
pub(crate) struct Put {
    /// The record.
    pub(crate) record: u64,
    /// Its key.
    pub(crate) key: Key,
    /// True if the record is a new one.
    pub(crate) inserts: bool,
}

/// The requests of all threads of one phase.
pub(crate) type Streams = Vec<Vec<Window>>;

/// Draws the requests of a workload.
pub(crate) struct Draw {
    generators: Vec<Generator>,
    inserted: Arc<Inserted>,
}

impl Draw {
    /// For so many requests of each of `threads` threads in all.
    pub(crate) fn new(
        workload: Workload,
        inserted: &Arc<Inserted>,
        threads: u32,
        requests: u64,
    ) -> Self {
        let spec = Spec::new(workload, inserted.records(), requests * u64::from(threads));
        let generators = (0..threads).map(|thread| Generator::new(&spec, 7, thread));
        Self {
            generators: generators
                .map(|made| made.expect("a core workload"))
                .collect(),
            inserted: Arc::clone(inserted),
        }
    }

    /// The next `requests` requests of each thread. What they insert is read in the next phase: no thread waits for another's inserts.
    pub(crate) fn streams(&mut self, requests: usize) -> Streams {
        let windows = requests.div_ceil(WINDOW);
        let inserted = &self.inserted;
        let streams: Streams = (self.generators.iter_mut())
            .map(|generator| (0..windows).map(|_| window(generator, inserted)).collect())
            .collect();
        let writes = streams.iter().flatten().flat_map(|window| &window.writes);
        for put in writes.filter(|put| put.inserts) {
            inserted.acknowledge(put.record);
        }
        streams
    }
}

fn window(generator: &mut Generator, inserted: &Inserted) -> Window {
    let mut window = Window::default();
    let key = |record| KeyForm::Ycsb.key(record);
    let put = |record, inserts| Put {
        record,
        key: key(record),
        inserts,
    };
    for _ in 0..WINDOW {
        match generator.next(inserted).expect("room for all inserts") {
            Request::Read(record) => window.reads.push((record, key(record))),
            Request::Update(record) => window.writes.push(put(record, false)),
            Request::Insert(record) => window.writes.push(put(record, true)),
            Request::Scan { from, rows } => window.scans.push((key(from), rows as usize)),
            Request::ReadModifyWrite(record) => {
                window.reads.push((record, key(record)));
                window.writes.push(put(record, false));
            }
        }
    }
    window
}

/// What becomes of the values that a scan gives.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Rows {
    /// They are copied out, as values of reads are.
    Copied,
    /// Every word of them is read where the engine shows it.
    InPlace,
}

/// Memory for the values of a window's writes and reads.
pub(crate) struct Room {
    pub(crate) rows: Rows,
    value_bytes: usize,
    /// Values to write, each whole but for its head.
    values: Vec<u8>,
    /// Values that were read.
    pub(crate) read: Vec<u8>,
    stamp: u64,
}

impl Room {
    /// For values of so many bytes.
    pub(crate) fn new(value_bytes: usize, rows: Rows) -> Self {
        let mut values = vec![0; WINDOW * value_bytes];
        for value in values.chunks_exact_mut(value_bytes) {
            fill(0, LOADED, value);
        }
        Self {
            rows,
            value_bytes,
            values,
            read: vec![0; WINDOW * value_bytes],
            stamp: 0,
        }
    }

    /// Bytes of a value.
    pub(crate) fn value_bytes(&self) -> usize {
        self.value_bytes
    }

    /// The values of these writes: each begins with its record and a number that no value had before.
    pub(crate) fn values(&mut self, writes: &[Put]) -> impl Iterator<Item = &[u8]> {
        let values = self.values.chunks_exact_mut(self.value_bytes);
        for (value, put) in values.zip(writes) {
            self.stamp += 1;
            value[..8].copy_from_slice(&put.record.to_le_bytes());
            value[8..16].copy_from_slice(&self.stamp.to_le_bytes());
        }
        self.values
            .chunks_exact(self.value_bytes)
            .take(writes.len())
    }
}
