//! The engines: dpb's by their sessions and by the router, redb, and a concurrent map with an ordered index of its keys.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use dpb_core::WallClock;
use dpb_dbmods::index::router::{Lane, Receive, Router, RouterError, RouterOptions};
use dpb_dbmods::index::ycsb::Key;
use dpb_dbmods::index::{
    Durability, Found, Index, KeyRange, Keys, Lmdb, LmdbOptions, Session, Tree, TreeOptions,
    Values, Write,
};
use redb::{ReadableDatabase, ReadableTableMetadata};

use super::requests::{Room, Rows, WINDOW, Window};

/// What came of requests.
#[derive(Clone, Copy, Default)]
pub(crate) struct Sum {
    /// Rows of scans.
    pub(crate) rows: u64,
    /// The sum of the records that the values name, which is the first word of each.
    pub(crate) records: u64,
    /// The sum of all words of the values that a scan showed in place. The second word depends on which thread wrote last.
    words: u64,
}

impl Sum {
    /// A value that was read of `record`.
    #[inline]
    fn read(&mut self, record: u64, value: Option<&[u8]>) {
        let value = value.expect("a record that was loaded or inserted before");
        assert_eq!(word(value), record, "the value of another record");
        self.records = self.records.wrapping_add(record);
    }

    /// A row of a scan.
    #[inline]
    fn row(&mut self, value: &[u8], rows: Rows, room: &mut [u8]) {
        self.rows += 1;
        match rows {
            Rows::Copied => self.records = self.records.wrapping_add(word(copied(room, value))),
            Rows::InPlace => {
                self.records = self.records.wrapping_add(word(value));
                let (words, _) = value.as_chunks::<8>();
                for word in words {
                    self.words = self.words.wrapping_add(u64::from_le_bytes(*word));
                }
            }
        }
    }
}

/// The first word of a value.
#[inline]
fn word(value: &[u8]) -> u64 {
    value
        .first_chunk()
        .map_or(0, |word| u64::from_le_bytes(*word))
}

/// An engine that threads share.
pub(crate) trait Engine: Sync {
    /// Its name in the table.
    fn name(&self) -> &'static str;
    /// What one thread has of it.
    fn worker(&self) -> Box<dyn Worker + '_>;
    /// The number of its keys.
    fn keys(&self) -> u64;
    /// Housekeeping between phases, outside of their time.
    fn settle(&self) {}
}

/// What one thread has of an engine.
pub(crate) trait Worker {
    /// Carries the requests of a window out, each read into the room's memory.
    fn carry_out(&mut self, window: &Window, room: &mut Room, sum: &mut Sum);
}

/// An engine of dpb's, called directly: reads in one batch, writes in one transaction.
pub(crate) struct Direct {
    name: &'static str,
    index: Arc<dyn Index>,
}

impl Direct {
    /// The tree.
    pub(crate) fn tree(name: &'static str) -> Self {
        let index = Arc::new(Tree::new(TreeOptions::default()).expect("memory"));
        Self { name, index }
    }

    /// LMDB at its fastest: nothing is flushed, and pages are written in place.
    pub(crate) fn lmdb(folder: &Path, records: u64, value_bytes: u64) -> Self {
        let map_bytes = 2 * Lmdb::map_bytes(records, 23, value_bytes);
        let index = Lmdb::open(&LmdbOptions {
            durability: Durability::None,
            ..LmdbOptions::new(folder, map_bytes)
        });
        Self {
            name: "LMDB",
            index: Arc::new(index.expect("room for a map")),
        }
    }
}

impl Engine for Direct {
    fn name(&self) -> &'static str {
        self.name
    }

    fn worker(&self) -> Box<dyn Worker + '_> {
        Box::new(DirectWorker {
            index: &*self.index,
            session: Arc::clone(&self.index).session().expect("few sessions"),
            found: [Found::Absent; WINDOW],
        })
    }

    fn keys(&self) -> u64 {
        self.index.usage().expect("counts").keys
    }
}

struct DirectWorker<'a> {
    index: &'a dyn Index,
    session: Box<dyn Session>,
    found: [Found; WINDOW],
}

impl Worker for DirectWorker<'_> {
    fn carry_out(&mut self, window: &Window, room: &mut Room, sum: &mut Sum) {
        if !window.reads.is_empty() {
            let each = room.value_bytes();
            let mut keys: [&[u8]; WINDOW] = [&[]; WINDOW];
            for (key, (_, from)) in keys.iter_mut().zip(&window.reads) {
                *key = from.as_bytes();
            }
            let mut values = Values::new(&mut room.read, each, &mut self.found).expect("room");
            let keys = Keys::Slices(&keys[..window.reads.len()]);
            self.session.get_batch(keys, &mut values).expect("reads");
            for (at, (record, _)) in window.reads.iter().enumerate() {
                sum.read(*record, values.value(at));
            }
        }
        if !window.writes.is_empty() {
            let values = room.values(&window.writes);
            let writes: Vec<Write<'_>> = (window.writes.iter().zip(values))
                .map(|(put, value)| Write::Put {
                    key: put.key.as_bytes(),
                    value,
                })
                .collect();
            self.index.apply(&writes).expect("writes");
        }
        for (from, rows) in &window.scans {
            let each = &mut |_: &[u8], value: &[u8]| {
                sum.row(value, room.rows, &mut room.read);
                ControlFlow::Continue(())
            };
            self.session
                .scan(KeyRange::from(from.as_bytes()), *rows, each)
                .expect("reads");
        }
    }
}

/// The tree behind a router all of whose keys are the host's: one request at a time is handed in.
pub(crate) struct Routed(Arc<Router>);

impl Routed {
    /// A router for values of so many bytes.
    pub(crate) fn new(value_bytes: usize) -> Self {
        let tree = Arc::new(Tree::new(TreeOptions::default()).expect("memory"));
        let options = RouterOptions {
            dpu: None,
            marks: vec![Box::default()],
            boundary: 1,
            value_room: value_bytes,
            burst_requests: WINDOW,
            depth: 1,
            connections: 1,
            patience: Duration::from_secs(10),
            mirror: false,
            clock: Arc::new(WallClock::default()),
        };
        Self(Router::new(tree, options).expect("there is no other side"))
    }
}

impl Engine for Routed {
    fn name(&self) -> &'static str {
        "router"
    }

    fn worker(&self) -> Box<dyn Worker + '_> {
        Box::new(Lane::new(&self.0).expect("few sessions"))
    }

    fn keys(&self) -> u64 {
        self.0.host().usage().expect("counts").keys
    }
}

impl Worker for Lane {
    fn carry_out(&mut self, window: &Window, room: &mut Room, sum: &mut Sum) {
        let read = std::mem::take(&mut room.read);
        let mut answers = Answers {
            sum,
            rows: room.rows,
            read,
        };
        for (record, key) in &window.reads {
            self.lookup(*record, key.as_bytes(), &mut answers);
        }
        for (put, value) in window.writes.iter().zip(room.values(&window.writes)) {
            self.put(put.record, put.key.as_bytes(), value, &mut answers);
        }
        for (from, rows) in &window.scans {
            self.scan(0, from.as_bytes(), *rows as u32, &mut answers);
        }
        self.flush(&mut answers);
        room.read = answers.read;
    }
}

struct Answers<'a> {
    sum: &'a mut Sum,
    rows: Rows,
    /// Where rows are copied to.
    read: Vec<u8>,
}

impl Receive for Answers<'_> {
    fn looked_up(&mut self, request: u64, value: Option<&[u8]>) {
        self.sum.read(request, value);
    }

    fn written(&mut self, _: u64) {}

    fn row(&mut self, _: u64, _: &[u8], value: &[u8]) {
        self.sum.row(value, self.rows, &mut self.read);
    }

    fn scanned(&mut self, _: u64) {}

    fn failed(&mut self, _: u64, error: &RouterError) {
        panic!("{error}");
    }
}

const TABLE: redb::TableDefinition<'_, &[u8], &[u8]> = redb::TableDefinition::new("records");

/// redb at its fastest: all data in its cache, no commit durable, reads and writes of a window one transaction each.
pub(crate) struct Redb(redb::Database);

impl Redb {
    /// A new file in `folder`.
    pub(crate) fn new(folder: &Path, records: u64, value_bytes: u64) -> Self {
        let cache = (4 * records * (value_bytes + 64)).max(1 << 28);
        let mut builder = redb::Builder::new();
        builder.set_cache_size(usize::try_from(cache).expect("a size"));
        let made = builder.create(folder.join("redb"));
        let made = Self(made.expect("a file"));
        made.commit(redb::Durability::Immediate);
        made
    }

    fn begin_write(&self) -> redb::WriteTransaction {
        let mut transaction = self.0.begin_write().expect("a transaction");
        (transaction.set_durability(redb::Durability::None)).expect("nothing was written");
        transaction
    }

    /// An empty transaction, by which earlier ones become durable.
    fn commit(&self, durability: redb::Durability) {
        let mut transaction = self.0.begin_write().expect("a transaction");
        (transaction.set_durability(durability)).expect("nothing was written");
        transaction.open_table(TABLE).expect("the table");
        transaction.commit().expect("a commit");
    }
}

impl Engine for Redb {
    fn name(&self) -> &'static str {
        "redb"
    }

    fn worker(&self) -> Box<dyn Worker + '_> {
        Box::new(self)
    }

    fn keys(&self) -> u64 {
        let transaction = self.0.begin_read().expect("a transaction");
        let table = transaction.open_table(TABLE).expect("the table");
        table.len().expect("a count")
    }

    fn settle(&self) {
        // Pages that transactions without durability let go are free only behind one that has it.
        self.commit(redb::Durability::Immediate);
    }
}

impl Worker for &Redb {
    fn carry_out(&mut self, window: &Window, room: &mut Room, sum: &mut Sum) {
        if !window.reads.is_empty() || !window.scans.is_empty() {
            let transaction = self.0.begin_read().expect("a transaction");
            let table = transaction.open_table(TABLE).expect("the table");
            for (record, key) in &window.reads {
                let found = table.get(key.as_bytes()).expect("a read");
                let value = found.as_ref().map(redb::AccessGuard::value);
                let read = value.map(|value| copied(&mut room.read, value));
                sum.read(*record, read);
            }
            for (from, rows) in &window.scans {
                let range = table.range(from.as_bytes()..).expect("a range");
                for row in range.take(*rows) {
                    sum.row(row.expect("a row").1.value(), room.rows, &mut room.read);
                }
            }
        }
        if !window.writes.is_empty() {
            let transaction = self.begin_write();
            {
                let mut table = transaction.open_table(TABLE).expect("the table");
                let values = room.values(&window.writes);
                for (put, value) in window.writes.iter().zip(values) {
                    table.insert(put.key.as_bytes(), value).expect("a write");
                }
            }
            transaction.commit().expect("a commit");
        }
    }
}

fn copied<'a>(room: &'a mut [u8], value: &[u8]) -> &'a [u8] {
    let room = &mut room[..value.len()];
    room.copy_from_slice(value);
    room
}

/// A key of one length. YCSB's keys have no zero bytes, so the zeroes behind one do not change its order.
type Padded = [u8; 24];

fn padded(key: &Key) -> Padded {
    let mut padded = [0; 24];
    padded[..key.as_bytes().len()].copy_from_slice(key.as_bytes());
    padded
}

/// papaya's hash map from keys to values, and scc's B+tree of its keys for scans. No transactions, no snapshots.
#[derive(Default)]
pub(crate) struct Map {
    values: papaya::HashMap<Padded, Box<[u8]>, foldhash::fast::RandomState>,
    order: scc::TreeIndex<Padded, ()>,
}

impl Engine for Map {
    fn name(&self) -> &'static str {
        "papaya+scc"
    }

    fn worker(&self) -> Box<dyn Worker + '_> {
        Box::new(self)
    }

    fn keys(&self) -> u64 {
        assert_eq!(self.values.len(), self.order.len());
        self.values.len() as u64
    }
}

impl Worker for &Map {
    fn carry_out(&mut self, window: &Window, room: &mut Room, sum: &mut Sum) {
        let values = self.values.pin();
        for (record, key) in &window.reads {
            let found = values.get(&padded(key));
            let read = found.map(|value| copied(&mut room.read, value));
            sum.read(*record, read);
        }
        for (put, value) in window.writes.iter().zip(room.values(&window.writes)) {
            let key = padded(&put.key);
            values.insert(key, value.into());
            if put.inserts {
                // The other thread never inserts this key.
                self.order.insert_sync(key, ()).expect("a new key");
            }
        }
        if window.scans.is_empty() {
            return;
        }
        let guard = scc::Guard::new();
        for (from, rows) in &window.scans {
            for (key, ()) in self.order.range(padded(from).., &guard).take(*rows) {
                let value = values.get(key).expect("a key in order has a value");
                sum.row(value, room.rows, &mut room.read);
            }
        }
    }
}
