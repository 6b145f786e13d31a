//! Bursts: the requests that go to one side at once, what came of them, and both as bytes.
//!
//! A [`Burst`] has lookups, writes and scans, each a column of its own, so that a side looks all keys up at once ([`Reads::get_batch`](super::Reads::get_batch)) and commits
//! all writes as one transaction. [`Executor::run`] carries a burst out. It is the same code on both sides of a link.
//!
//! # Order
//!
//! The lookups of a burst read one state, from before its writes. The writes are one transaction, in the order in which they were added. The scans
//! come last, each of a state of its own. Whoever wants a read behind a write of its own waits for the write's burst first.
//!
//! # On the wire
//!
//! All numbers are little endian, four bytes each unless said otherwise. A column of *n* byte strings is the *n* ends of the strings, then their bytes.
//!
//! | burst | outcome |
//! |---|---|
//! | numbers of lookups, writes, scans; room for a value | numbers of lookups, scans; state of the writes (8 bytes); time of the work in nanoseconds (8 bytes) |
//! | keys of the lookups, a column | of each lookup: the length of its value, or 2³² − 1 if there is none |
//! | keys of the writes, a column | the values that fitted, one behind another |
//! | of each write: 0 puts, 1 deletes (1 byte) | of each scan: the number of its rows |
//! | values of the writes, a column | keys of all rows, a column |
//! | of each scan: most rows; its flags | values of all rows, a column |
//! | starts of the scans, a column | |
//! | ends of the scans, a column | |
//!
//! The flags of a scan: 1 the start itself is left out, 2 the end counts (without it, the scan goes on to the last key).

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use dpb_core::Timer;
use dpb_link::LinkError;

use super::{
    Found, Index, IndexError, KEY_BYTES_MAX, KeyRange, Keys, Session, VALUE_BYTES_MAX, Values,
    Write,
};

/// Requests of a burst, at most.
pub const BURST_REQUESTS_MAX: usize = 1 << 16;
/// Bytes of a burst or of its outcome on the wire, at most.
pub const BURST_BYTES_MAX: usize = 64 << 20;
/// Rows of a scan, at most: a longer one is asked for in parts.
pub const SCAN_ROWS_MAX: u32 = 1 << 16;

/// Bytes of the keys and values of all rows of a burst, at most.
const ROWS_BYTES_MAX: usize = BURST_BYTES_MAX / 2;
/// Of [`requests_fit`] requests, bytes that their keys take, at most.
const KEYS_BYTES_MAX: usize = BURST_BYTES_MAX / 4;
/// Of [`requests_fit`] requests, bytes that the longest answers take: values of lookups, or one row of each scan.
const ANSWERS_BYTES_MAX: usize = ROWS_BYTES_MAX / 2;
/// The length that stands for no value.
const ABSENT: u32 = u32::MAX;
/// A scan leaves its start itself out.
const START_IS_LEFT_OUT: u32 = 1;
/// A scan has an end.
const HAS_END: u32 = 2;

/// Bytes that a row, or the value of a lookup, has on the wire, at most, if no value is longer than `value_room`.
fn row_bytes_max(value_room: usize) -> usize {
    8 + KEY_BYTES_MAX + value_room
}

/// Requests that a burst may have, so that neither it nor its outcome is longer than [`BURST_BYTES_MAX`], whatever keys they have. Writes keep to
/// [`Burst::takes_write`] besides, and scans to [`Burst::rows_fit`].
pub fn requests_fit(value_room: usize) -> usize {
    // A scan has two keys, and most numbers beside them.
    let of_keys = KEYS_BYTES_MAX / (16 + 2 * (KEY_BYTES_MAX + 1));
    let of_answers = ANSWERS_BYTES_MAX / row_bytes_max(value_room);
    of_keys.min(of_answers).max(1)
}

/// Byte strings, one behind another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Strings {
    bytes: Vec<u8>,
    /// Zero, then the end of each string.
    offsets: Vec<u32>,
}

impl Strings {
    fn new() -> Self {
        Self {
            bytes: Vec::new(),
            offsets: vec![0],
        }
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.offsets.truncate(1);
    }

    #[inline]
    fn push(&mut self, string: &[u8]) {
        self.bytes.extend_from_slice(string);
        let end = u32::try_from(self.bytes.len());
        self.offsets
            .push(end.expect("whoever fills a burst keeps it below BURST_BYTES_MAX"));
    }

    fn get(&self, at: usize) -> &[u8] {
        &self.bytes[self.offsets[at] as usize..self.offsets[at + 1] as usize]
    }

    fn write_to(&self, out: &mut Vec<u8>) {
        for end in &self.offsets[1..] {
            out.extend_from_slice(&end.to_le_bytes());
        }
        out.extend_from_slice(&self.bytes);
    }

    /// Reads `count` strings of at most `max` bytes each.
    fn read_from(
        &mut self,
        from: &mut Reader<'_>,
        count: usize,
        max: usize,
    ) -> Result<(), LinkError> {
        self.clear();
        let ends = from.take(4 * count)?;
        let mut last = 0;
        for end in ends.as_chunks().0 {
            let end = u32::from_le_bytes(*end);
            if end < last || (end - last) as usize > max {
                return Err(LinkError::Malformed("a column of byte strings"));
            }
            self.offsets.push(end);
            last = end;
        }
        self.bytes.extend_from_slice(from.take(last as usize)?);
        Ok(())
    }
}

/// What is left of a body.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], LinkError> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(LinkError::Torn)?;
        self.0 = rest;
        Ok(taken)
    }

    fn u32(&mut self) -> Result<u32, LinkError> {
        let (number, rest) = self.0.split_first_chunk().ok_or(LinkError::Torn)?;
        self.0 = rest;
        Ok(u32::from_le_bytes(*number))
    }

    fn u64(&mut self) -> Result<u64, LinkError> {
        let (number, rest) = self.0.split_first_chunk().ok_or(LinkError::Torn)?;
        self.0 = rest;
        Ok(u64::from_le_bytes(*number))
    }

    fn end(self) -> Result<(), LinkError> {
        match self.0.len() {
            0 => Ok(()),
            bytes => Err(LinkError::TrailingBytes(bytes)),
        }
    }
}

/// A scan of a burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ScanOf {
    rows_max: u32,
    flags: u32,
}

/// Requests that go to one side at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Burst {
    /// Room for each value of a lookup. A longer value is cut.
    value_room: u32,
    lookups: Strings,
    write_keys: Strings,
    write_values: Strings,
    /// Of each write: 0 puts, 1 deletes.
    deletes: Vec<u8>,
    scans: Vec<ScanOf>,
    scan_starts: Strings,
    scan_ends: Strings,
}

impl Burst {
    /// An empty burst, whose lookups have room for values of `value_room` bytes.
    pub fn new(value_room: usize) -> Self {
        Self {
            value_room: value_room.min(VALUE_BYTES_MAX) as u32,
            lookups: Strings::new(),
            write_keys: Strings::new(),
            write_values: Strings::new(),
            deletes: Vec::new(),
            scans: Vec::new(),
            scan_starts: Strings::new(),
            scan_ends: Strings::new(),
        }
    }

    /// Forgets all requests, and keeps the memory.
    pub fn clear(&mut self) {
        self.lookups.clear();
        self.write_keys.clear();
        self.write_values.clear();
        self.deletes.clear();
        self.scans.clear();
        self.scan_starts.clear();
        self.scan_ends.clear();
    }

    /// Adds a lookup.
    #[inline]
    pub fn lookup(&mut self, key: &[u8]) {
        self.lookups.push(key);
    }

    /// Adds a write that gives `key` a value.
    #[inline]
    pub fn put(&mut self, key: &[u8], value: &[u8]) {
        self.write_keys.push(key);
        self.write_values.push(value);
        self.deletes.push(0);
    }

    /// Adds a write that takes `key` away.
    pub fn delete(&mut self, key: &[u8]) {
        self.write_keys.push(key);
        self.write_values.push(&[]);
        self.deletes.push(1);
    }

    /// True if the burst has room for a write of these bytes. One without writes always has.
    pub fn takes_write(&self, key: &[u8], value: &[u8]) -> bool {
        let written = self.write_keys.bytes.len() + self.write_values.bytes.len();
        written + 9 * (self.writes() + 1) + key.len() + value.len()
            <= BURST_BYTES_MAX - KEYS_BYTES_MAX
    }

    /// Rows that a further scan may have, one at least, so that the outcome stays short enough to be sent.
    pub fn rows_fit(&self) -> u32 {
        let asked: usize = self.scans.iter().map(|scan| scan.rows_max as usize).sum();
        let all = (ROWS_BYTES_MAX - ANSWERS_BYTES_MAX) / row_bytes_max(self.value_room as usize);
        (all.saturating_sub(asked).max(1) as u32).min(SCAN_ROWS_MAX)
    }

    /// Adds a scan of at most `rows_max` rows, and at most [`SCAN_ROWS_MAX`]: [`Burst::rows_max`] says how many. An excluded end is the only kind of end; an inclusive one is asked for as the key behind it.
    pub fn scan(&mut self, start: Bound<&[u8]>, end: Option<&[u8]>, rows_max: u32) {
        let (start, left_out) = match start {
            Bound::Unbounded => (&[][..], 0),
            Bound::Included(key) => (key, 0),
            Bound::Excluded(key) => (key, START_IS_LEFT_OUT),
        };
        let has_end = end.map_or(0, |_| HAS_END);
        self.scan_starts.push(start);
        self.scan_ends.push(end.unwrap_or_default());
        self.scans.push(ScanOf {
            rows_max: rows_max.min(SCAN_ROWS_MAX),
            flags: left_out | has_end,
        });
    }

    /// Forgets the writes alone.
    pub fn forget_writes(&mut self) {
        self.write_keys.clear();
        self.write_values.clear();
        self.deletes.clear();
    }

    /// The number of requests.
    #[inline]
    pub fn len(&self) -> usize {
        self.lookups.offsets.len() - 1 + self.deletes.len() + self.scans.len()
    }

    /// True if there is no request.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of lookups.
    pub fn lookups(&self) -> usize {
        self.lookups.offsets.len() - 1
    }

    /// The number of writes.
    pub fn writes(&self) -> usize {
        self.deletes.len()
    }

    /// The number of scans.
    pub fn scans(&self) -> usize {
        self.scans.len()
    }

    /// Write `at`.
    pub fn write(&self, at: usize) -> Write<'_> {
        let key = self.write_keys.get(at);
        match self.deletes[at] {
            0 => Write::Put {
                key,
                value: self.write_values.get(at),
            },
            _ => Write::Delete { key },
        }
    }

    /// The range of scan `at`.
    pub fn range(&self, at: usize) -> KeyRange<'_> {
        let ScanOf { flags, .. } = self.scans[at];
        let start = self.scan_starts.get(at);
        KeyRange {
            start: match flags & START_IS_LEFT_OUT {
                0 => Bound::Included(start),
                _ => Bound::Excluded(start),
            },
            end: match flags & HAS_END {
                0 => Bound::Unbounded,
                _ => Bound::Excluded(self.scan_ends.get(at)),
            },
        }
    }

    /// The most rows of scan `at`.
    pub fn rows_max(&self, at: usize) -> u32 {
        self.scans[at].rows_max
    }

    /// Bytes on the wire.
    pub fn wire_bytes(&self) -> usize {
        16 + 4 * (self.lookups() + 2 * self.writes() + 4 * self.scans())
            + self.lookups.bytes.len()
            + self.write_keys.bytes.len()
            + self.deletes.len()
            + self.write_values.bytes.len()
            + self.scan_starts.bytes.len()
            + self.scan_ends.bytes.len()
    }

    /// Bytes that the outcome has at most, on the wire, if no value is longer than the room for one and no key than [`KEY_BYTES_MAX`].
    pub fn outcome_bytes_max(&self) -> usize {
        let rows: usize = self.scans.iter().map(|scan| scan.rows_max as usize).sum();
        let room = self.value_room as usize;
        24 + self.lookups() * (4 + room) + 4 * self.scans() + rows * row_bytes_max(room)
    }

    /// Appends the burst as it goes over the wire.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        out.reserve(self.wire_bytes());
        for number in [self.lookups(), self.writes(), self.scans()] {
            out.extend_from_slice(&(number as u32).to_le_bytes());
        }
        out.extend_from_slice(&self.value_room.to_le_bytes());
        self.lookups.write_to(out);
        self.write_keys.write_to(out);
        out.extend_from_slice(&self.deletes);
        self.write_values.write_to(out);
        for scan in &self.scans {
            out.extend_from_slice(&scan.rows_max.to_le_bytes());
            out.extend_from_slice(&scan.flags.to_le_bytes());
        }
        self.scan_starts.write_to(out);
        self.scan_ends.write_to(out);
    }

    /// Reads a burst, in place of the one that is here.
    ///
    /// # Errors
    /// [`LinkError`] for bytes that [`Burst::write_to`] never writes. What is here then is no burst, and may only be cleared.
    pub fn read_from(&mut self, body: &[u8]) -> Result<(), LinkError> {
        let mut from = Reader(body);
        let [lookups, writes, scans] = [from.u32()?, from.u32()?, from.u32()?];
        let requests = u64::from(lookups) + u64::from(writes) + u64::from(scans);
        if requests > BURST_REQUESTS_MAX as u64 {
            return Err(LinkError::Malformed("a burst of too many requests"));
        }
        self.value_room = from.u32()?;
        if self.value_room as usize > VALUE_BYTES_MAX {
            return Err(LinkError::Malformed("the room for a value"));
        }
        let (lookups, writes, scans) = (lookups as usize, writes as usize, scans as usize);
        self.lookups.read_from(&mut from, lookups, KEY_BYTES_MAX)?;
        self.write_keys
            .read_from(&mut from, writes, KEY_BYTES_MAX)?;
        self.deletes.clear();
        self.deletes.extend_from_slice(from.take(writes)?);
        if self.deletes.iter().any(|&kind| kind > 1) {
            return Err(LinkError::Malformed("the kind of a write"));
        }
        self.write_values
            .read_from(&mut from, writes, VALUE_BYTES_MAX)?;
        self.scans.clear();
        for _ in 0..scans {
            let scan = ScanOf {
                rows_max: from.u32()?,
                flags: from.u32()?,
            };
            if scan.rows_max > SCAN_ROWS_MAX || scan.flags > (START_IS_LEFT_OUT | HAS_END) {
                return Err(LinkError::Malformed("a scan"));
            }
            self.scans.push(scan);
        }
        self.scan_starts
            .read_from(&mut from, scans, KEY_BYTES_MAX + 1)?;
        self.scan_ends
            .read_from(&mut from, scans, KEY_BYTES_MAX + 1)?;
        from.end()
    }
}

/// What is called with the number of a scan in its burst, and the key and value of one of its rows.
pub type EachScanned<'a> = dyn FnMut(usize, &[u8], &[u8]) + 'a;

/// What came of a burst.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The room for each value of a lookup.
    room: usize,
    /// Values of lookups, each at a multiple of the room.
    values: Vec<u8>,
    found: Vec<Found>,
    /// The state that the writes made; zero without writes.
    state: u64,
    /// Time that the burst took, nanoseconds.
    work_ns: u64,
    /// Rows of each scan.
    rows: Vec<u32>,
    row_keys: Strings,
    row_values: Strings,
}

impl Outcome {
    /// Room for outcomes.
    pub fn new() -> Self {
        Self {
            row_keys: Strings::new(),
            row_values: Strings::new(),
            ..Self::default()
        }
    }

    /// Forgets what is here, and makes room for the lookups of `burst`.
    fn prepare(&mut self, burst: &Burst) {
        self.room = burst.value_room as usize;
        self.found.clear();
        self.found.resize(burst.lookups(), Found::Absent);
        let bytes = self.room * burst.lookups();
        if self.values.len() < bytes {
            self.values.resize(bytes, 0);
        }
        (self.state, self.work_ns) = (0, 0);
        self.rows.clear();
        self.row_keys.clear();
        self.row_values.clear();
    }

    /// What lookup `at` found.
    pub fn found(&self, at: usize) -> Found {
        self.found[at]
    }

    /// The value of lookup `at`, if there is one that fitted.
    #[inline]
    pub fn value(&self, at: usize) -> Option<&[u8]> {
        match self.found[at] {
            Found::Whole(len) => Some(&self.values[at * self.room..][..len as usize]),
            Found::Absent | Found::Cut(_) => None,
        }
    }

    /// The state that the writes made; zero if there were none.
    pub fn state(&self) -> u64 {
        self.state
    }

    /// The time that the side took for the burst, nanoseconds on its clock. The way there and back is not in it.
    pub fn work_ns(&self) -> u64 {
        self.work_ns
    }

    /// Calls `each` with the number of each scan and each of its rows, in order.
    pub fn each_row(&self, each: &mut EachScanned<'_>) {
        let mut row = 0;
        for (scan, &rows) in self.rows.iter().enumerate() {
            for _ in 0..rows {
                each(scan, self.row_keys.get(row), self.row_values.get(row));
                row += 1;
            }
        }
    }

    /// The number of rows of scan `at`.
    pub fn rows(&self, at: usize) -> u32 {
        self.rows[at]
    }

    /// Appends the outcome as it goes over the wire.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        for number in [self.found.len(), self.rows.len()] {
            out.extend_from_slice(&(number as u32).to_le_bytes());
        }
        for number in [self.state, self.work_ns] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        for found in &self.found {
            let len = match *found {
                Found::Absent => ABSENT,
                Found::Whole(len) | Found::Cut(len) => len,
            };
            out.extend_from_slice(&len.to_le_bytes());
        }
        for at in 0..self.found.len() {
            out.extend_from_slice(self.value(at).unwrap_or_default());
        }
        for rows in &self.rows {
            out.extend_from_slice(&rows.to_le_bytes());
        }
        self.row_keys.write_to(out);
        self.row_values.write_to(out);
    }

    /// Reads the outcome of `burst`, in place of the one that is here.
    ///
    /// # Errors
    /// [`LinkError`] for bytes that are no outcome of that burst.
    pub fn read_from(&mut self, burst: &Burst, body: &[u8]) -> Result<(), LinkError> {
        self.prepare(burst);
        let mut from = Reader(body);
        let (lookups, scans) = (from.u32()? as usize, from.u32()? as usize);
        if (lookups, scans) != (burst.lookups(), burst.scans()) {
            return Err(LinkError::Malformed("an outcome of another burst"));
        }
        (self.state, self.work_ns) = (from.u64()?, from.u64()?);
        for found in &mut self.found {
            *found = match from.u32()? {
                ABSENT => Found::Absent,
                len if len as usize > VALUE_BYTES_MAX => {
                    return Err(LinkError::Malformed("the length of a value"));
                }
                len if len as usize <= self.room => Found::Whole(len),
                len => Found::Cut(len),
            };
        }
        for (at, found) in self.found.iter().enumerate() {
            if let Found::Whole(len) = *found {
                let len = len as usize;
                self.values[at * self.room..][..len].copy_from_slice(from.take(len)?);
            }
        }
        let mut all = 0;
        for at in 0..scans {
            let rows = from.u32()?;
            if rows > burst.rows_max(at) {
                return Err(LinkError::Malformed("more rows than were asked for"));
            }
            all += rows as usize;
            self.rows.push(rows);
        }
        self.row_keys.read_from(&mut from, all, KEY_BYTES_MAX)?;
        self.row_values.read_from(&mut from, all, VALUE_BYTES_MAX)?;
        from.end()
    }
}

/// What carries bursts out for one thread: a session of an index, and the index for its writes.
pub struct Executor {
    index: Arc<dyn Index>,
    session: Box<dyn Session>,
    clock: Arc<dyn Timer>,
}

impl Executor {
    /// An executor for one thread. Times go by `clock`.
    ///
    /// # Errors
    /// As [`Index::session`].
    pub fn new(index: Arc<dyn Index>, clock: Arc<dyn Timer>) -> Result<Self, IndexError> {
        Ok(Self {
            session: Arc::clone(&index).session()?,
            index,
            clock,
        })
    }

    /// The index.
    pub fn index(&self) -> &Arc<dyn Index> {
        &self.index
    }

    /// Carries a burst out: lookups, then writes, then scans; see the [order](self).
    ///
    /// # Errors
    /// [`IndexError`]. If the writes failed, none of them is done. If a scan failed, all writes are done.
    pub fn run(&mut self, burst: &Burst, outcome: &mut Outcome) -> Result<(), IndexError> {
        let begun_ns = self.clock.now_ns();
        self.points(burst, outcome)?;
        for at in 0..burst.scans() {
            self.scan(burst, at, outcome)?;
        }
        outcome.work_ns = self.clock.now_ns().saturating_sub(begun_ns);
        Ok(())
    }

    /// The same, but the rows of scans go to `each` as they are read. The outcome has their number alone, and is neither for the wire nor for
    /// [`Outcome::each_row`]. The time that `each` takes is part of the burst's.
    ///
    /// # Errors
    /// As [`Executor::run`]. Rows may have been given before.
    pub(super) fn run_with(
        &mut self,
        burst: &Burst,
        outcome: &mut Outcome,
        each: &mut EachScanned<'_>,
    ) -> Result<(), IndexError> {
        let begun_ns = self.clock.now_ns();
        self.points(burst, outcome)?;
        for at in 0..burst.scans() {
            let limit = burst.rows_max(at) as usize;
            let give = &mut |key: &[u8], value: &[u8]| {
                each(at, key, value);
                ControlFlow::Continue(())
            };
            let rows = self.session.scan(burst.range(at), limit, give)?;
            outcome.rows.push(rows as u32);
        }
        outcome.work_ns = self.clock.now_ns().saturating_sub(begun_ns);
        Ok(())
    }

    /// The lookups, then the writes.
    fn points(&mut self, burst: &Burst, outcome: &mut Outcome) -> Result<(), IndexError> {
        outcome.prepare(burst);
        self.look_up(burst, outcome)?;
        if burst.writes() > 0 {
            outcome.state = self.write(burst)?;
        }
        Ok(())
    }

    fn look_up(&mut self, burst: &Burst, outcome: &mut Outcome) -> Result<(), IndexError> {
        if burst.lookups() == 0 {
            return Ok(());
        }
        let Strings { bytes, offsets } = &burst.lookups;
        let eight = bytes.as_chunks::<8>().0;
        // Keys of eight bytes each have the fast path.
        let are_eight = bytes.len() == 8 * burst.lookups()
            && (offsets.iter().enumerate()).all(|(at, &offset)| offset as usize == 8 * at);
        let keys = match are_eight {
            true => Keys::Eight(eight),
            false => Keys::Offsets { bytes, offsets },
        };
        let mut values = Values::new(&mut outcome.values, outcome.room, &mut outcome.found)?;
        self.session.get_batch(keys, &mut values)
    }

    fn write(&self, burst: &Burst) -> Result<u64, IndexError> {
        // One write needs no list, and most bursts that wait for nothing else have one.
        match burst.writes() {
            1 => self.index.apply(&[burst.write(0)]),
            count => {
                let writes: Vec<Write<'_>> = (0..count).map(|at| burst.write(at)).collect();
                self.index.apply(&writes)
            }
        }
    }

    fn scan(&mut self, burst: &Burst, at: usize, outcome: &mut Outcome) -> Result<(), IndexError> {
        let (keys, values) = (&mut outcome.row_keys, &mut outcome.row_values);
        let limit = burst.rows_max(at) as usize;
        let mut fits = true;
        let rows = self
            .session
            .scan(burst.range(at), limit, &mut |key, value| {
                fits = keys.bytes.len() + values.bytes.len() + key.len() + value.len()
                    <= ROWS_BYTES_MAX;
                if !fits {
                    return ControlFlow::Break(());
                }
                keys.push(key);
                values.push(value);
                ControlFlow::Continue(())
            })?;
        if !fits {
            return Err(IndexError::Rows {
                max: ROWS_BYTES_MAX,
            });
        }
        outcome.rows.push(rows as u32);
        Ok(())
    }
}
