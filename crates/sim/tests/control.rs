//! The handle that changes a table reaches through wrappers: what is committed there is what jobs see behind them.

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::sync::Arc;

use dpb_core::versions::Reader;
use dpb_core::{
    Backend, Batch, BatchOut, Buf, ChangeError, Clock, Control, Inline, Items, Job, JobError,
    Kernel, Limits, OpSpec, Operator, OutputShape, Pool, Pooled, Properties, SetupError,
    Unsupported, Versioned, Versions, WallClock,
};
use dpb_sim::{Faults, Faulty, Model, Modelled, Simulation};

/// A table of one byte, which is each item's output.
#[derive(Clone)]
struct Value(u8);

impl Versioned for Value {
    type Change = u8;
    type Error = ChangeError;

    fn apply(&mut self, change: &u8) -> Result<(), ChangeError> {
        self.0 = *change;
        Ok(())
    }
}

struct Told(Arc<Versions<Value>>);

impl Kernel for Told {
    type Scratch = Reader<Value>;

    fn scratch(&self) -> Reader<Value> {
        self.0.reader()
    }

    fn shape(&self) -> OutputShape {
        OutputShape::Fixed(1)
    }

    fn dst_len(&self, _item_len: usize) -> usize {
        1
    }

    fn control(&self) -> Option<Arc<dyn Control>> {
        Some(Arc::new(Handle(self.0.clone())))
    }

    fn run(
        &self,
        batch: Batch<'_>,
        mut out: BatchOut<'_>,
        table: &mut Reader<Value>,
    ) -> Result<(), JobError> {
        let table = table.enter();
        (0..batch.len()).for_each(|item| out.slots[item][0] = table.0);
        Ok(())
    }
}

/// Changes of one byte.
struct Handle(Arc<Versions<Value>>);

impl Control for Handle {
    fn change(&self, changes: &[u8]) -> Result<(), ChangeError> {
        match changes {
            [value] => self.0.change(*value),
            _ => Err(ChangeError::Malformed { at: 0 }),
        }
    }

    fn commit(&self) -> Result<u64, ChangeError> {
        Ok(self.0.commit())
    }
}

/// Lifts the kernel, to a pool if there is one.
struct Lifted(WallClock, Option<Arc<Pool>>);

impl Backend for Lifted {
    fn name(&self) -> &str {
        "lifted"
    }

    fn clock(&self) -> &dyn Clock {
        &self.0
    }

    fn properties(&self) -> Properties {
        Properties::of_this_cpu()
    }

    fn alloc(&self, len: usize) -> Result<Buf, SetupError> {
        Buf::zeroed(len).ok_or(SetupError::OutOfMemory { len })
    }

    fn limits(&self, _: &OpSpec) -> Result<Limits, Unsupported> {
        Ok(Limits::new(NonZeroU32::MIN))
    }

    fn prepare(&self, spec: &OpSpec) -> Result<Arc<dyn Operator>, SetupError> {
        let kernel = Told(Arc::new(Versions::new(Arc::new(Value(1)))));
        let (spec, limits) = (spec.clone(), self.limits(spec)?);
        Ok(match &self.1 {
            None => Arc::new(Inline::new(kernel, spec, limits)),
            Some(pool) => Arc::new(Pooled::new(kernel, spec, limits, pool.clone())),
        })
    }
}

fn told(operator: &Arc<dyn Operator>) -> u8 {
    let mut queue = operator.clone().open(NonZeroU32::MIN).expect("opens");
    let buf = || Buf::zeroed(3).expect("memory");
    let items = Items::fixed(1, 3);
    let job = Job::new(0, buf().freeze(), items, buf(), operator.shape());
    let (mut ready, mut done) = (VecDeque::from([job]), Vec::new());
    queue.submit(&mut ready);
    while queue.poll(&mut done) == 0 {
        std::thread::yield_now();
    }
    let dst = &done[0].job.dst[0];
    assert!(done[0].result.is_ok() && dst.iter().all(|byte| *byte == dst[0]));
    dst[0]
}

fn assert_controlled(backend: &dyn Backend) {
    let spec = OpSpec::custom("told", []);
    let operator = backend.prepare(&spec).expect("prepares");
    let control = operator.control().expect("a wrapper hands it on");
    assert_eq!(told(&operator), 1);
    assert_eq!(control.change(&[7]), Ok(()));
    assert_eq!(told(&operator), 1, "not committed");
    assert_eq!(control.commit(), Ok(1));
    assert_eq!(told(&operator), 7);
    assert!(control.change(&[]).is_err());
    assert_eq!(control.commit(), Ok(1));
}

#[test]
fn controls_reach_through_lifts_and_wrappers() {
    let pool = Pool::new(NonZeroU32::MIN).expect("a thread");
    for pool in [None, Some(pool)] {
        let lifted = || Lifted(WallClock::default(), pool.clone());
        assert_controlled(&lifted());
        assert_controlled(&Faulty::new("test", Faults::default(), lifted()));
        let model: Model = "lanes=1,job_ns=700".parse().expect("a model");
        assert_controlled(&Modelled::new("test", model, lifted(), &Simulation::new()));
    }
}
