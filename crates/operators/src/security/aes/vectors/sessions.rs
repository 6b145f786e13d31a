//! Items of many sessions: each is computed where its turn comes, with the keys of its session.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::Arc;

use dpb_core::sessions::{NUMBER_BYTES, SessionTable, number};
use dpb_core::versions::Reader;
use dpb_core::{
    Batch, BatchOut, Control, InPlace, JobError, Kernel, Material, NotInPlace, OpSpec, OutputShape,
    SetupError, spec,
};

use super::blocks::Blocks;
use super::keys::{Expansion, Keys, LONG, OfSessions, SHORT};
use super::modes::Modes;
use crate::security::aes::form::{Form, Places, Work};
use crate::security::aes::rekeyed;
use crate::security::sessions::{self, KeyMaker, Table};

/// The kernel: of the modes whose keys have an `E`, on the instruction set of `T`.
pub(super) struct PerSession<T, E: Modes> {
    proof: T,
    /// Of items without their numbers.
    form: Form,
    maker: Arc<Maker<T, E>>,
    table: Table<Keys<E>>,
}

/// Makes keys ready, each where it stays: a copy that is moved from is not overwritten.
struct Maker<T, E> {
    proof: T,
    /// The operator, with a key that is no session's.
    of: OpSpec,
    keys: PhantomData<fn() -> E>,
}

impl<T: Blocks, E: Modes> KeyMaker for Maker<T, E> {
    type Key = Keys<E>;

    fn ready(&self, key: &[u8]) -> Result<Arc<Keys<E>>, SetupError> {
        let spec = rekeyed(&self.of, Material::secret(key));
        let (form, key) = Form::of(&spec)?;
        let mut made = Arc::new(Keys::NONE);
        let into = Arc::get_mut(&mut made).expect("nobody else has it");
        match key.len() / form.keys() {
            16 => (self.proof).enter(Expansion::<_, SHORT> { form, key, into }),
            _ => (self.proof).enter(Expansion::<_, LONG> { form, key, into }),
        }
        Ok(made)
    }
}

impl<T: Blocks, E: Modes> PerSession<T, E> {
    /// # Errors
    /// A key that the operator does not take; more keys than there may be.
    pub(super) fn new(proof: T, sessions: &spec::Sessions, form: Form) -> Result<Self, SetupError> {
        let maker = Arc::new(Maker {
            proof,
            of: sessions.of.clone(),
            keys: PhantomData,
        });
        Ok(Self {
            proof,
            form,
            table: sessions::table(sessions, &*maker)?,
            maker,
        })
    }

    /// Calls `run` with code for keys of one length, that of session `first` if there is one, and again with code for the other length if
    /// the first code came upon such keys.
    fn by_length(
        &self,
        table: &SessionTable<Keys<E>>,
        first: Option<u32>,
        mut run: impl FnMut(Code<'_, T, E>),
    ) {
        let others = Cell::new(false);
        let first = first.and_then(|first| table.key(first));
        let is_long = first.is_some_and(|keys| keys.count() == LONG);
        let (proof, form) = (self.proof, self.form);
        for (is_first, is_long) in [(true, is_long), (false, !is_long)] {
            run(Code {
                proof,
                form,
                table,
                is_first,
                is_long,
                others: &others,
            });
            if !others.get() {
                break;
            }
        }
    }
}

/// The code for keys of one length.
struct Code<'k, T, E: Modes> {
    proof: T,
    form: Form,
    table: &'k SessionTable<Keys<E>>,
    is_first: bool,
    is_long: bool,
    others: &'k Cell<bool>,
}

impl<T: Blocks, E: Modes> Code<'_, T, E> {
    fn run<'a>(self, work: Work<'a, impl Places<'a>>) {
        match self.is_long {
            false => self.run_by::<SHORT>(work),
            true => self.run_by::<LONG>(work),
        }
    }

    fn run_by<'a, const N: usize>(self, work: Work<'a, impl Places<'a>>) {
        let source = OfSessions::<_, N> {
            table: self.table,
            is_first: self.is_first,
            others: self.others,
        };
        E::crypt(self.proof, self.form, source, work);
    }
}

impl<T: Blocks, E: Modes> Kernel for PerSession<T, E> {
    type Scratch = Reader<SessionTable<Keys<E>>>;

    fn scratch(&self) -> Self::Scratch {
        self.table.reader()
    }

    fn shape(&self) -> OutputShape {
        OutputShape::Variable
    }

    fn dst_len(&self, item_len: usize) -> usize {
        let rest = item_len.saturating_sub(NUMBER_BYTES);
        self.form.output_bytes_max(rest)
    }

    fn in_place(&self) -> Result<usize, NotInPlace> {
        Ok(NUMBER_BYTES + self.form.head_bytes())
    }

    fn control(&self) -> Option<Arc<dyn Control>> {
        Some(sessions::control(&self.maker, &self.table))
    }

    fn run(
        &self,
        batch: Batch<'_>,
        mut out: BatchOut<'_>,
        scratch: &mut Self::Scratch,
    ) -> Result<(), JobError> {
        let table = scratch.enter();
        let first = batch.iter().peek(0).and_then(number);
        self.by_length(&table, first, |code| {
            let slots = out.slots.reborrow();
            let outcomes = &mut *out.outcomes;
            code.run(Work::apart(batch, BatchOut { slots, outcomes }));
        });
        Ok(())
    }

    fn run_in_place(
        &self,
        mut work: InPlace<'_>,
        scratch: &mut Self::Scratch,
    ) -> Result<(), JobError> {
        let table = scratch.enter();
        let first = work.items.session(0);
        self.by_length(&table, first, |code| {
            let items = work.items.reborrow();
            let outcomes = &mut *work.outcomes;
            code.run(Work::in_place(InPlace { items, outcomes }));
        });
        Ok(())
    }
}
