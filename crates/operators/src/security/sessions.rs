//! Keyed operators with a key for each session ([`spec::Sessions`]): what IPsec and TLS gateways need, whose packets have thousands of
//! keys. An item begins with the number of its session, four bytes, little endian; the rest is what the operator takes.
//!
//! The table of sessions changes while queues run ([`Control`]), by changes as [`dpb_core::sessions`] reads them.

use std::ops::Range;
use std::sync::Arc;

use dpb_core::random::SplitMix64;
use dpb_core::sessions::{NUMBER_BYTES, SessionTable, changes, number};
use dpb_core::versions::Reader;
use dpb_core::{
    Batch, BatchOut, ChangeError, Control, InPlace, JobError, Kernel, Material, NotInPlace, OpSpec,
    OutputShape, Right, SetupError, Spec, Versions, Workload,
    spec::{self, Arguments, Domain, Parameter},
};

use crate::entry::PORTABLE;

/// Most items that a [`Keyed`] operator is given at a time. A job of more items is carried out in parts, so that every scratch has a
/// bound and is made whole before the first job.
pub(super) const TOGETHER: usize = 256;

/// The parameter that chooses sessions.
pub(super) const SESSIONS: Parameter = Parameter {
    name: "sessions",
    values: Domain::Number(0, 4096),
    default: "0",
    meaning: "Sessions, each with a key of its own: an item then begins with the number of its session, four bytes. \
              0: one key for all, and no number",
};

/// What makes the keys of sessions ready.
pub(super) trait KeyMaker: Send + Sync + 'static {
    /// A key, ready.
    type Key: Send + Sync + 'static;
    /// Makes a key ready.
    ///
    /// # Errors
    /// If the operator does not take it.
    fn ready(&self, key: &[u8]) -> Result<Arc<Self::Key>, SetupError>;
}

/// A keyed operator that computes items of many keys, some at a time.
pub(super) trait Keyed: KeyMaker {
    /// The memory of one thread.
    type Scratch: Send;
    /// The scratch, with room for [`TOGETHER`] items.
    fn scratch(&self) -> Self::Scratch;
    /// See [`Kernel::dst_len`]; of an item without its number.
    fn dst_len(&self, item_len: usize) -> usize;
    /// Bytes that a slot has at least; shorter ones are refused before.
    fn slot_bytes(&self) -> usize {
        0
    }
    /// See [`Kernel::in_place`]; of an item without its number.
    ///
    /// # Errors
    /// Why it does not work so.
    fn in_place(&self) -> Result<usize, NotInPlace>;
    /// Computes the wanted items, [`TOGETHER`] at most, and enters their outcomes, which are there already.
    fn run(
        &self,
        wanted: Wanted<'_, Self::Key>,
        batch: &Batch<'_>,
        out: &mut BatchOut<'_>,
        scratch: &mut Self::Scratch,
    );
    /// The same where outputs are written over their items.
    ///
    /// # Errors
    /// [`JobError::NotInPlace`] if it cannot.
    fn run_in_place(
        &self,
        _wanted: Wanted<'_, Self::Key>,
        _items: &mut InPlace<'_>,
        _scratch: &mut Self::Scratch,
    ) -> Result<(), JobError> {
        Err(JobError::NotInPlace)
    }
}

/// Some items whose session there is, in their order.
pub(super) struct Wanted<'a, K> {
    /// The session of each.
    sessions: &'a [u32],
    /// The number of each in the batch.
    indices: &'a [u32],
    table: &'a SessionTable<K>,
}

impl<'a, K> Wanted<'a, K> {
    /// Neighbours of one session: its key, and which items they are.
    #[cfg(feature = "aes")]
    pub(super) fn groups(self) -> impl Iterator<Item = (&'a K, &'a [u32])> {
        let mut indices = self.indices;
        self.sessions.chunk_by(|a, b| a == b).map(move |group| {
            let (these, rest) = indices.split_at(group.len());
            indices = rest;
            (key_of(self.table, group[0]), these)
        })
    }

    /// The key of each, and which items they are; `None` if there is no item.
    #[cfg(feature = "hashes")]
    pub(super) fn all(self) -> Option<([&'a K; TOGETHER], &'a [u32])> {
        let first = key_of(self.table, *self.sessions.first()?);
        let mut keys = [first; TOGETHER];
        for (place, session) in keys.iter_mut().zip(self.sessions) {
            *place = key_of(self.table, *session);
        }
        Some((keys, self.indices))
    }
}

/// # Panics
/// If there is no such session.
fn key_of<K>(table: &SessionTable<K>, number: u32) -> &K {
    table.key(number).expect("found before")
}

/// The kernel.
pub(super) struct Sessions<K: Keyed> {
    operator: Arc<K>,
    table: Table<K::Key>,
}

impl<K: Keyed> Sessions<K> {
    /// `operator` with the keys of `sessions`.
    ///
    /// # Errors
    /// A key that the operator does not take; more keys than there may be.
    pub(super) fn new(sessions: &spec::Sessions, operator: K) -> Result<Self, SetupError> {
        let operator = Arc::new(operator);
        let table = table(sessions, &*operator)?;
        Ok(Self { operator, table })
    }
}

/// The memory of one thread that works for sessions.
pub(super) struct Scratch<K: Keyed> {
    table: Reader<SessionTable<K::Key>>,
    found: Found,
    own: K::Scratch,
}

impl<K: Keyed> Kernel for Sessions<K> {
    type Scratch = Scratch<K>;

    fn scratch(&self) -> Scratch<K> {
        Scratch {
            table: self.table.reader(),
            found: Found::new(),
            own: self.operator.scratch(),
        }
    }

    fn shape(&self) -> OutputShape {
        OutputShape::Variable
    }

    fn dst_len(&self, item_len: usize) -> usize {
        self.operator.dst_len(item_len.saturating_sub(NUMBER_BYTES))
    }

    fn in_place(&self) -> Result<usize, NotInPlace> {
        self.operator.in_place().map(|offset| NUMBER_BYTES + offset)
    }

    fn control(&self) -> Option<Arc<dyn Control>> {
        Some(control(&self.operator, &self.table))
    }

    fn run(
        &self,
        batch: Batch<'_>,
        mut out: BatchOut<'_>,
        scratch: &mut Scratch<K>,
    ) -> Result<(), JobError> {
        let Scratch { table, found, own } = scratch;
        let table = table.enter();
        let slot_bytes = self.operator.slot_bytes();
        for part in parts(batch.len()) {
            let slots = &out.slots;
            let item = |i: usize| match slots[i].len() < slot_bytes {
                true => Err(JobError::DstTooShort),
                false => Ok(batch.item(i)),
            };
            let wanted = found.wanted(&table, part, out.outcomes, item);
            self.operator.run(wanted, &batch, &mut out, own);
        }
        Ok(())
    }

    fn run_in_place(
        &self,
        mut work: InPlace<'_>,
        scratch: &mut Scratch<K>,
    ) -> Result<(), JobError> {
        let Scratch { table, found, own } = scratch;
        let table = table.enter();
        for part in parts(work.items.len()) {
            let item = |i| Ok(work.items.item(i));
            let wanted = found.wanted(&table, part, work.outcomes, item);
            self.operator.run_in_place(wanted, &mut work, own)?;
        }
        Ok(())
    }
}

/// The items of a job, [`TOGETHER`] at a time.
fn parts(count: usize) -> impl Iterator<Item = Range<usize>> {
    let starts = (0..count).step_by(TOGETHER);
    starts.map(move |start| start..count.min(start + TOGETHER))
}

/// Room for the sessions and the numbers of [`TOGETHER`] items.
struct Found {
    sessions: Vec<u32>,
    indices: Vec<u32>,
}

impl Found {
    fn new() -> Self {
        Self {
            sessions: Vec::with_capacity(TOGETHER),
            indices: Vec::with_capacity(TOGETHER),
        }
    }

    /// Finds the items of `part` whose session there is, and refuses the others; `item` may refuse one too.
    fn wanted<'a, 'b, K>(
        &'a mut self,
        table: &'a SessionTable<K>,
        part: Range<usize>,
        outcomes: &mut Vec<Result<u32, JobError>>,
        item: impl Fn(usize) -> Result<&'b [u8], JobError>,
    ) -> Wanted<'a, K> {
        let Self { sessions, indices } = self;
        sessions.clear();
        indices.clear();
        outcomes.extend(part.map(|i| {
            let number = number(item(i)?).filter(|&number| table.key(number).is_some());
            sessions.push(number.ok_or(JobError::Malformed)?);
            indices.push(i as u32);
            Ok(0)
        }));
        Wanted {
            sessions,
            indices,
            table,
        }
    }
}

/// A table of sessions that may change.
pub(super) type Table<K> = Arc<Versions<SessionTable<K>>>;

/// The table of `sessions`.
///
/// # Errors
/// A key that `operator` does not take; more keys than there may be.
pub(super) fn table<K: KeyMaker>(
    sessions: &spec::Sessions,
    operator: &K,
) -> Result<Table<K::Key>, SetupError> {
    let table = SessionTable::new(sessions, |key| operator.ready(key.bytes()))?;
    // Keys that are taken out must go, also where a queue gets no job any more; a lock matters little beside a cipher.
    Ok(Arc::new(Versions::seated(Arc::new(table))))
}

/// The control of `table`, whose keys `operator` makes ready.
pub(super) fn control<K: KeyMaker>(operator: &Arc<K>, table: &Table<K::Key>) -> Arc<dyn Control> {
    let (operator, table) = (Arc::clone(operator), Arc::clone(table));
    Arc::new(Changer { operator, table })
}

/// The control of a table of sessions.
struct Changer<K: KeyMaker> {
    operator: Arc<K>,
    table: Table<K::Key>,
}

impl<K: KeyMaker> Control for Changer<K> {
    fn change(&self, bytes: &[u8]) -> Result<(), ChangeError> {
        let mut made = Vec::new();
        for change in changes(bytes) {
            let change = change?;
            let ready = |key| self.operator.ready(key).map_err(|_| change.malformed());
            made.push((change.number, change.key.map(ready).transpose()?));
        }
        match made.is_empty() {
            true => Ok(()),
            false => self.table.change(made.into()),
        }
    }

    fn commit(&self) -> Result<u64, ChangeError> {
        Ok(self.table.commit())
    }
}

/// The number of sessions that arguments ask for.
pub(super) fn count(given: &Arguments<'_>) -> usize {
    given.get::<u32>(SESSIONS.name) as usize
}

/// `of` with a key for each of `count` sessions, that lie one behind another in `keys`, all of one length; `of` itself, whose key they
/// are, if there is none.
pub(super) fn with_keys(
    count: usize,
    keys: Vec<u8>,
    of: impl FnOnce(Material) -> OpSpec,
) -> Result<OpSpec, SetupError> {
    if count == 0 {
        return Ok(of(Material::secret(keys)));
    }
    if keys.is_empty() || !keys.len().is_multiple_of(count) {
        let bytes = keys.len();
        return Err(SetupError::Parameter(format!(
            "key: {bytes} bytes in the file are not the keys of {count} sessions"
        )));
    }
    let keys: Vec<_> = keys
        .chunks(keys.len() / count)
        .map(Material::secret)
        .collect();
    let of = of(keys[0].clone());
    Ok(spec::Sessions { of, keys }.into())
}

/// The specs that `spec` is of, if it is of sessions of an `S`.
pub(super) fn of<S: Spec>(spec: &OpSpec) -> Option<&spec::Sessions> {
    let sessions = spec.get::<spec::Sessions>();
    sessions.filter(|sessions| sessions.of.is::<S>())
}

/// Whether `spec` is an `S`, or sessions of one.
pub(super) fn is_own<S: Spec>(spec: &OpSpec) -> bool {
    spec.is::<S>() || of::<S>(spec).is_some()
}

/// Items of many sessions, each as the operator's own workload makes and judges it.
pub(super) struct Items {
    spec: OpSpec,
    /// One for each session.
    each: Vec<Box<dyn Workload>>,
}

impl Items {
    /// `each` makes the workload of a key.
    pub(super) fn new(
        spec: &OpSpec,
        sessions: &spec::Sessions,
        each: impl Fn(&Material) -> Result<Box<dyn Workload>, SetupError>,
    ) -> Result<Self, SetupError> {
        let each: Result<_, _> = sessions.keys.iter().map(each).collect();
        let spec = spec.clone();
        Ok(Self { spec, each: each? })
    }

    fn of(&self, item: &[u8]) -> Option<(&dyn Workload, usize)> {
        let session = self.each.get(number(item)? as usize)?;
        Some((&**session, NUMBER_BYTES))
    }
}

impl Workload for Items {
    fn spec(&self) -> &OpSpec {
        &self.spec
    }

    fn name(&self) -> &str {
        PORTABLE
    }

    /// The session is drawn from the text, so that the same text makes the same item.
    fn encode_item(&self, plain: &[u8]) -> Result<Vec<u8>, String> {
        let mut random = SplitMix64::new(plain.len() as u64);
        for word in plain.chunks(8).take(8) {
            let mut bytes = [0; 8];
            bytes[..word.len()].copy_from_slice(word);
            random = SplitMix64::new(random.next_u64() ^ u64::from_le_bytes(bytes));
        }
        let session = random.below(self.each.len());
        let mut item = (session as u32).to_le_bytes().to_vec();
        item.extend(self.each[session].encode_item(plain)?);
        Ok(item)
    }

    fn describe(&self, plain: &str) -> String {
        let count = self.each.len();
        format!(
            "number of one of {count} sessions, {}",
            self.each[0].describe(plain)
        )
    }

    fn right(&self, item: &[u8], slot_bytes: usize) -> Right {
        match self.of(item) {
            Some((session, at)) => session.right(&item[at..], slot_bytes),
            None => Right::Refused(JobError::Malformed),
        }
    }

    /// Spoils the item as workloads do, or gives it a session that there is not.
    fn spoil(&self, item: &mut Vec<u8>, seed: u64) {
        match item.split_first_chunk_mut::<NUMBER_BYTES>() {
            Some((number, _)) if seed % 4 == 3 => {
                *number = (self.each.len() as u32 + (seed / 4) as u32 % 3).to_le_bytes();
            }
            _ => dpb_core::workload::spoil(item, seed),
        }
    }
}
