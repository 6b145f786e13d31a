//! Operators with a key for each session ([`spec::Sessions`]): a session of the device for each key. An item begins with the number of
//! its session, four bytes, little endian; the rest is what the operator takes.
//!
//! The table of sessions is a [`Versions`]. A job takes the version that is live when it is submitted, and keeps it until it is home,
//! because the device holds the sessions of its operations. Nobody waits for such a job: a change makes a new table if a job may have
//! the old one, and old ones are set aside. What nobody has any more is freed with the next change or commit, or with the
//! operator; never in `submit` or `poll`, since freeing a session waits for DPDK's lock.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use dpb_core::sessions::{self, SessionTable, changes};
use dpb_core::versions::Reader;
use dpb_core::{
    ChangeError, Control, JobError, Limits, NotInPlace, OpSpec, OutputShape, SetupError,
    Unsupported, Versioned, Versions, WallClock, spec,
};

use super::super::raw::{Cipher, CryptoDevice, End, Operation, Over, Recipe, Session, Step};
use super::super::sys::{self, Done};
use super::empty_hmac::Hasher;
use super::transform::{CryptoTransform, end, takes_key};

/// The table of sessions of an operator, and what makes sessions for it. Its [`Control`] takes changes as
/// [`dpb_core::sessions`] reads them, like the CPU's operators.
pub(super) struct Sessions {
    of: OpSpec,
    transform: CryptoTransform,
    device: Arc<CryptoDevice>,
    clock: Arc<WallClock>,
    versions: Versions<Published>,
    retired: Arc<Retired>,
    /// Whether a queue is open, where only one may be.
    is_taken: AtomicBool,
}

/// Sessions by their numbers.
type Table = SessionTable<Keyed>;

/// A key on the device.
pub(super) struct Keyed {
    session: Session,
    /// The code of an empty message, under HMAC.
    of_nothing: Option<Arc<[u8]>>,
}

/// A version of the table, which jobs keep.
#[derive(Clone)]
struct Published {
    table: Arc<Table>,
    retired: Arc<Retired>,
}

/// Tables that are no version's any more. That jobs may still have one of them is why they are here: the last who lets one go frees its
/// sessions, and must not be a job.
#[derive(Default)]
struct Retired(Mutex<Vec<Arc<Table>>>);

impl Retired {
    fn add(&self, table: Arc<Table>) {
        let mut tables = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Both copies of a version have it.
        if !tables.iter().any(|known| Arc::ptr_eq(known, &table)) {
            tables.push(table);
        }
    }

    /// Frees the tables that nobody has any more.
    fn free(&self) {
        let mut tables = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tables.retain(|table| Arc::strong_count(table) > 1);
    }
}

impl Versioned for Published {
    /// The changes of one call: the key that a session gets, or none.
    type Change = Box<[(u32, Option<Arc<Keyed>>)]>;
    type Error = ChangeError;

    fn apply(&mut self, changes: &Self::Change) -> Result<(), ChangeError> {
        if Arc::get_mut(&mut self.table).is_none() {
            let fresh = Arc::new(Table::clone(&self.table));
            self.retired.add(std::mem::replace(&mut self.table, fresh));
        }
        let table = Arc::get_mut(&mut self.table).expect("just made, or nobody else's");
        table.apply(changes)
    }
}

impl Sessions {
    /// A table with the keys of `sessions`, for items as `transform` reads them.
    ///
    /// # Errors
    /// Too many keys, or too many for the device.
    pub(super) fn new(
        sessions: &spec::Sessions,
        transform: &CryptoTransform,
        device: &Arc<CryptoDevice>,
        clock: &Arc<WallClock>,
    ) -> Result<Self, SetupError> {
        let mut maker = SessionMaker::open(transform, device, clock)?;
        let table = Table::new(sessions, |key| maker.make(key.bytes()))?;
        let retired = Arc::<Retired>::default();
        let published = Published {
            table: Arc::new(table),
            retired: retired.clone(),
        };
        Ok(Self {
            of: sessions.of.clone(),
            transform: transform.clone(),
            device: device.clone(),
            clock: clock.clone(),
            // A device has room for few sessions: none stays for a queue that gets no job any more.
            versions: Versions::seated(Arc::new(published)),
            retired,
            is_taken: AtomicBool::new(false),
        })
    }

    fn maker(&self) -> Result<SessionMaker<'_>, SetupError> {
        SessionMaker::open(&self.transform, &self.device, &self.clock)
    }
}

/// Makes sessions of keys. To be dropped soon: under HMAC it has a queue pair.
struct SessionMaker<'a> {
    device: &'a Arc<CryptoDevice>,
    cipher: Cipher,
    hasher: Option<Hasher>,
}

impl<'a> SessionMaker<'a> {
    fn open(
        transform: &CryptoTransform,
        device: &'a Arc<CryptoDevice>,
        clock: &Arc<WallClock>,
    ) -> Result<Self, SetupError> {
        let hash = transform.hash_under.as_ref();
        let hasher = hash.map(|hash| Hasher::open(hash, device, clock));
        Ok(Self {
            device,
            cipher: transform.cipher,
            hasher: hasher.transpose()?,
        })
    }

    fn make(&mut self, key: &[u8]) -> Result<Keyed, SetupError> {
        let session = self.device.session(self.cipher, key);
        let hasher = self.hasher.as_mut();
        let of_nothing = hasher.map(|hasher| hasher.hmac_of_nothing(key));
        Ok(Keyed {
            session: session.map_err(SetupError::Unsupported)?,
            of_nothing: of_nothing.transpose()?,
        })
    }
}

impl Control for Sessions {
    /// # Errors
    /// [`ChangeError::Malformed`] also for a key of a length that the device does not take; [`ChangeError::Full`] if the device has no room
    /// for a session, or of HMAC no queue pair for hashes.
    fn change(&self, bytes: &[u8]) -> Result<(), ChangeError> {
        self.retired.free();
        let mut made = Vec::new();
        let mut maker = None;
        for change in changes(bytes) {
            let change = change?;
            let keyed = change.key.map(|key| {
                let algorithm = self.transform.cipher.algorithm;
                if !takes_key(&self.device, algorithm, key.len()) {
                    return Err(change.malformed());
                }
                let maker = match &mut maker {
                    Some(maker) => maker,
                    none => none.insert(self.maker().map_err(|_| ChangeError::Full)?),
                };
                maker.make(key).map_err(|_| ChangeError::Full)
            });
            made.push((change.number, keyed.transpose()?.map(Arc::new)));
        }
        match made.is_empty() {
            true => Ok(()),
            false => self.versions.change(made.into()),
        }
    }

    fn commit(&self) -> Result<u64, ChangeError> {
        self.retired.free();
        Ok(self.versions.commit())
    }
}

/// The recipe of an operator with a key for each session.
pub(super) struct SessionTransform {
    transform: CryptoTransform,
    reader: Reader<Published>,
    sessions: Arc<Sessions>,
}

impl SessionTransform {
    /// # Errors
    /// Another queue is open, on a device whose sessions are for one queue at a time.
    pub(super) fn new(
        transform: CryptoTransform,
        sessions: &Arc<Sessions>,
    ) -> Result<Self, SetupError> {
        let is_shared = sessions.device.shares_sessions();
        if !is_shared && sessions.is_taken.swap(true, Ordering::AcqRel) {
            let (name, of) = (sessions.device.name(), &sessions.of);
            let reason = format!(
                "sessions of {name} are for one queue at a time, and one of {of} is open; prepare it once for each queue"
            );
            return Err(SetupError::Unsupported(Unsupported { reason }));
        }
        Ok(Self {
            transform,
            reader: sessions.versions.reader(),
            sessions: sessions.clone(),
        })
    }
}

impl Drop for SessionTransform {
    fn drop(&mut self) {
        self.sessions.is_taken.store(false, Ordering::Release);
    }
}

impl Recipe for SessionTransform {
    type Version = Arc<Table>;

    fn version(&mut self) -> Arc<Table> {
        self.reader.enter().table.clone()
    }

    fn limits(&self) -> &Limits {
        &self.transform.limits
    }

    fn shape(&self) -> OutputShape {
        OutputShape::Variable
    }

    fn in_place(&self) -> Result<usize, NotInPlace> {
        self.transform.in_place()
    }

    fn step<'a>(
        &'a self,
        version: &'a Arc<Table>,
        item: &[u8],
        slot_len: usize,
        piece: u32,
    ) -> Step<'a> {
        if slot_len < self.transform.slot_bytes_min() {
            return Step::Known(Err(JobError::DstTooShort));
        }
        let keyed = sessions::number(item).and_then(|number| version.key(number));
        let Some(Keyed {
            session,
            of_nothing,
        }) = keyed
        else {
            return Step::Known(Err(JobError::Malformed));
        };
        let of_nothing = of_nothing.as_deref();
        match self.transform.step(of_nothing, item, slot_len, piece) {
            Step::Run(operation) => Step::Run(Operation {
                session: Some(session.reference()),
                // Of another session, if another item is.
                is_alike: false,
                ..operation
            }),
            known => known,
        }
    }

    fn is_as_planned(&self, done: &Done) -> bool {
        done.verdict == sys::DONE
    }

    fn end(&self, done: &Done, over: Over<'_>) -> End {
        end(done, over)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_that_a_job_still_has_is_freed_when_the_job_is_home() {
        let mut published = Published {
            table: Arc::default(),
            retired: Arc::default(),
        };
        let retired = published.retired.clone();
        let (live, job) = (published.clone(), published.table.clone());
        let old = Arc::downgrade(&job);
        let nothing: Box<[_]> = [(7, None)].into();
        // Both copies of the version before go on to the next.
        published.apply(&nothing).expect("taken");
        assert!(
            !Arc::ptr_eq(&published.table, &job),
            "copied for the change"
        );
        let mut live = live;
        live.apply(&nothing).expect("taken");
        retired.free();
        assert!(old.upgrade().is_some(), "the job has it");
        drop(job);
        assert!(old.upgrade().is_some(), "and frees nothing itself");
        retired.free();
        assert!(old.upgrade().is_none(), "nobody has it any more");
        // Alone, a copy is changed where it is.
        let table = Arc::as_ptr(&published.table);
        published.apply(&nothing).expect("taken");
        assert_eq!(Arc::as_ptr(&published.table), table);
    }
}
