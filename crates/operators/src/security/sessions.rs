//! Keyed operators with a key for each session ([`spec::Sessions`]): what IPsec and TLS gateways need, whose packets have thousands of
//! keys. An item begins with the number of its session, four bytes, little endian; the rest is what the operator takes.
//!
//! The table of sessions changes while queues run ([`Control`]). Changes lie one behind another: the number of a session, four bytes;
//! the length of its key, two bytes; the key. A key of no bytes ends the session. All numbers are little endian.
//! [`write_change`] writes one.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use dpb_core::random::SplitMix64;
use dpb_core::versions::Reader;
use dpb_core::{
    Batch, BatchOut, ChangeError, Control, InPlace, JobError, Kernel, Material, OpSpec,
    OutputShape, Right, SetupError, Spec, Versioned, Versions, Workload,
    spec::{self, Arguments, Domain, Parameter},
};

use crate::entry::PORTABLE;

/// Sessions of a table, at most: no number is higher.
pub const SESSIONS_MAX: u32 = 1 << 20;
/// Bytes of a session's number.
const NUMBER: usize = 4;
/// Bytes of a change before its key.
const CHANGE_HEAD: usize = NUMBER + 2;

/// The parameter that chooses them.
pub(super) const SESSIONS: Parameter = Parameter {
    name: "sessions",
    values: Domain::Number(0, 4096),
    default: "0",
    meaning: "Sessions, each with a key of its own: an item then begins with the number of its session, four bytes. \
              0: one key for all, and no number",
};

/// The key of a session, ready.
pub(super) trait Keyed: Send + Sync {
    /// See [`Kernel::run`]; the shape is variable, whatever the operator's own.
    fn run(&self, batch: Batch<'_>, out: BatchOut<'_>, bytes: &mut Vec<u8>)
    -> Result<(), JobError>;
    /// See [`Kernel::run_in_place`].
    fn run_in_place(&self, _items: InPlace<'_>) -> Result<(), JobError> {
        Err(JobError::NotInPlace)
    }
}

/// A kernel that keys make.
pub(super) struct Rekeyed {
    /// What it does with the operator's own key.
    pub(super) of: OpSpec,
    /// Makes a key ready.
    pub(super) make: Box<Make>,
    /// See [`Kernel::in_place`].
    pub(super) in_place: Option<usize>,
    /// Bytes of the output of an item of so many.
    pub(super) dst_len: Box<dyn Fn(usize) -> usize + Send + Sync>,
    /// Bytes of each output, if all have so many.
    pub(super) fixed: usize,
    /// Whether the items of a session gain from being together.
    pub(super) is_side_by_side: bool,
}

type Make = dyn Fn(&[u8]) -> Result<Arc<dyn Keyed>, SetupError> + Send + Sync;

/// The kernel.
pub(super) struct Sessions {
    kernel: Arc<Rekeyed>,
    table: Arc<Versions<Table>>,
}

/// Sessions by their numbers.
#[derive(Clone, Default)]
struct Table(Vec<Option<Arc<dyn Keyed>>>);

/// The changes of one call: the key that a session gets, or none.
type Changes = Box<[(u32, Option<Arc<dyn Keyed>>)]>;

impl Versioned for Table {
    type Change = Changes;
    type Error = ChangeError;

    fn apply(&mut self, changes: &Changes) -> Result<(), ChangeError> {
        for (number, session) in changes {
            let at = *number as usize;
            if at >= self.0.len() && session.is_some() {
                self.0.resize(at + 1, None);
            }
            if let Some(place) = self.0.get_mut(at) {
                place.clone_from(session);
            }
        }
        Ok(())
    }
}

impl Sessions {
    /// `kernel` with the keys of `sessions`.
    ///
    /// # Errors
    /// A key that the operator does not take; more keys than there may be.
    pub(super) fn new(sessions: &spec::Sessions, kernel: Rekeyed) -> Result<Self, SetupError> {
        if sessions.keys.len() > SESSIONS_MAX as usize {
            let (of, count) = (&sessions.of, sessions.keys.len());
            return Err(SetupError::Parameter(format!(
                "{of}: {count} sessions; at most {SESSIONS_MAX} are possible"
            )));
        }
        let keyed = |key: &Material| (kernel.make)(key.bytes()).map(Some);
        let table: Result<Vec<_>, _> = sessions.keys.iter().map(keyed).collect();
        Ok(Self {
            kernel: Arc::new(kernel),
            table: Arc::new(Versions::new(Arc::new(Table(table?)))),
        })
    }
}

/// What a thread that works for sessions has to itself.
pub(super) struct Scratch {
    table: Reader<Table>,
    groups: Groups,
    outcomes: Vec<Result<u32, JobError>>,
    bytes: Vec<u8>,
}

/// The items of a job by their sessions.
#[derive(Default)]
struct Groups {
    /// Session and index of each item that has a session's number.
    items: Vec<(u32, u32)>,
    /// The indices alone, in the same order.
    indices: Vec<u32>,
    /// A session, and where its items are among the indices.
    groups: Vec<(u32, Range<usize>)>,
}

impl Groups {
    /// Finds the groups: neighbours of one session, or all items of one if `is_sorted`. Items for which `number` says nothing are in none.
    fn find(
        &mut self,
        count: usize,
        is_sorted: bool,
        mut number: impl FnMut(usize) -> Option<u32>,
    ) {
        let Self {
            items,
            indices,
            groups,
        } = self;
        items.clear();
        items.extend((0..count).filter_map(|i| Some((number(i)?, i as u32))));
        if is_sorted && !items.is_sorted() {
            items.sort_unstable();
        }
        indices.clear();
        indices.extend(items.iter().map(|&(_, i)| i));
        groups.clear();
        let mut at = 0;
        for group in items.chunk_by(|a, b| a.0 == b.0) {
            groups.push((group[0].0, at..at + group.len()));
            at += group.len();
        }
    }

    /// Each session that `table` has, with the indices of its items.
    fn of<'a>(
        &'a self,
        table: &'a Table,
    ) -> impl Iterator<Item = (&'a dyn Keyed, &'a [u32])> + use<'a> {
        self.groups.iter().filter_map(|(session, range)| {
            let session = table.0.get(*session as usize)?.as_deref()?;
            Some((session, &self.indices[range.clone()]))
        })
    }
}

fn number(item: &[u8]) -> Option<u32> {
    let (number, _) = item.split_first_chunk::<NUMBER>()?;
    Some(u32::from_le_bytes(*number))
}

impl Kernel for Sessions {
    type Scratch = Scratch;

    fn scratch(&self) -> Scratch {
        Scratch {
            table: self.table.reader(),
            groups: Groups::default(),
            outcomes: Vec::new(),
            bytes: Vec::new(),
        }
    }

    fn shape(&self) -> OutputShape {
        OutputShape::Variable
    }

    fn dst_len(&self, item_len: usize) -> usize {
        (self.kernel.dst_len)(item_len.saturating_sub(NUMBER))
    }

    fn in_place(&self) -> Option<usize> {
        self.kernel.in_place.map(|offset| NUMBER + offset)
    }

    fn control(&self) -> Option<Arc<dyn Control>> {
        let (kernel, table) = (Arc::clone(&self.kernel), Arc::clone(&self.table));
        Some(Arc::new(Changer { kernel, table }))
    }

    fn run(
        &self,
        batch: Batch<'_>,
        mut out: BatchOut<'_>,
        scratch: &mut Scratch,
    ) -> Result<(), JobError> {
        let Scratch {
            table,
            groups,
            outcomes,
            bytes,
        } = scratch;
        let Rekeyed {
            fixed,
            is_side_by_side,
            ..
        } = *self.kernel;
        // Of a session that there is not.
        out.outcomes.resize(batch.len(), Err(JobError::Malformed));
        groups.find(batch.len(), is_side_by_side, |i| {
            let number = number(batch.item(i))?;
            let is_short = out.slots[i].len() < fixed;
            if is_short {
                out.outcomes[i] = Err(JobError::DstTooShort);
            }
            (!is_short).then_some(number)
        });
        for (session, indices) in groups.of(&table.enter()) {
            outcomes.clear();
            let items = batch.pick(indices, NUMBER).expect("each has its number");
            let slots = out.slots.pick(indices).expect("one for each item");
            session.run(items, BatchOut { slots, outcomes }, bytes)?;
            put(outcomes, indices, out.outcomes);
        }
        Ok(())
    }

    fn run_in_place(&self, mut work: InPlace<'_>, scratch: &mut Scratch) -> Result<(), JobError> {
        let Scratch {
            table,
            groups,
            outcomes,
            ..
        } = scratch;
        let count = work.items.len();
        work.outcomes.resize(count, Err(JobError::Malformed));
        groups.find(count, self.kernel.is_side_by_side, |i| {
            number(work.items.item(i))
        });
        for (session, indices) in groups.of(&table.enter()) {
            outcomes.clear();
            // A slot never begins before the text, so never in the number.
            let items = work.items.pick(indices, NUMBER);
            let items = items.expect("each has its number");
            session.run_in_place(InPlace { items, outcomes })?;
            put(outcomes, indices, work.outcomes);
        }
        Ok(())
    }
}

/// Writes outcomes to the items that they are of.
fn put(from: &[Result<u32, JobError>], indices: &[u32], to: &mut [Result<u32, JobError>]) {
    for (outcome, &i) in from.iter().zip(indices) {
        to[i as usize] = *outcome;
    }
}

/// The control of a table of sessions.
struct Changer {
    kernel: Arc<Rekeyed>,
    table: Arc<Versions<Table>>,
}

impl Control for Changer {
    fn change(&self, changes: &[u8]) -> Result<(), ChangeError> {
        let mut made = Vec::new();
        let mut rest = changes;
        while !rest.is_empty() {
            let malformed = ChangeError::Malformed {
                at: changes.len() - rest.len(),
            };
            let (head, behind) = rest.split_first_chunk::<CHANGE_HEAD>().ok_or(malformed)?;
            let number = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
            let len = usize::from(u16::from_le_bytes([head[4], head[5]]));
            let (key, behind) = behind.split_at_checked(len).ok_or(malformed)?;
            if number >= SESSIONS_MAX {
                return Err(ChangeError::Full);
            }
            let session = match key {
                [] => None,
                key => Some((self.kernel.make)(key).map_err(|_| malformed)?),
            };
            made.push((number, session));
            rest = behind;
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

/// Appends a change: session `number` has `key` from now on, or ends if there is none.
///
/// # Panics
/// If the key is longer than 65,535 bytes.
pub fn write_change(changes: &mut Vec<u8>, number: u32, key: &[u8]) {
    let len = u16::try_from(key.len()).expect("a key of less than 64 KiB");
    changes.extend(number.to_le_bytes());
    changes.extend(len.to_le_bytes());
    changes.extend(key);
}

/// How many sessions arguments ask for.
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
        Some((&**session, NUMBER))
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
    fn feed(&self, plain: &[u8]) -> Result<Vec<u8>, String> {
        let mut random = SplitMix64::new(plain.len() as u64);
        for word in plain.chunks(8).take(8) {
            let mut bytes = [0; 8];
            bytes[..word.len()].copy_from_slice(word);
            random = SplitMix64::new(random.next_u64() ^ u64::from_le_bytes(bytes));
        }
        let session = random.below(self.each.len());
        let mut item = (session as u32).to_le_bytes().to_vec();
        item.extend(self.each[session].feed(plain)?);
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

    /// What a session's workload does, or a session that there is not.
    fn spoil(&self, item: &mut Vec<u8>, seed: u64) {
        match item.split_first_chunk_mut::<NUMBER>() {
            Some((number, _)) if seed % 4 == 3 => {
                *number = (self.each.len() as u32 + (seed / 4) as u32 % 3).to_le_bytes();
            }
            _ => dpb_core::workload::spoil(item, seed),
        }
    }
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sessions")
            .field("of", &self.kernel.of)
            .finish_non_exhaustive()
    }
}
