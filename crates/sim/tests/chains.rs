//! One chain whose stages run on several backends: the caller's core, a pool, a modelled engine, and one that completes late and in any
//! order.

use std::num::NonZeroU32;
use std::sync::Arc;

use dpb_core::conformance::{self, sample};
use dpb_core::{
    Backend, Buf, Chain, Clock, JobError, Limits, OpSpec, Operator, Properties, Right, SetupError,
    Unsupported, Workload, spec,
};
use dpb_sim::{Faults, Faulty, Model, Modelled, Simulation};

/// Each stage of a chain on a backend of its own.
struct Several {
    stages: Vec<Box<dyn Backend>>,
    /// The one whose clock the chain goes by: a model's is virtual.
    timed_by: usize,
}

/// The workloads of the sample that the stages compute: an exclusive or, DEFLATE, INFLATE, CRC-32C.
const STAGES: [usize; 4] = [3, 1, 2, 0];

fn chain() -> OpSpec {
    let stage = |at: usize| sample::workloads()[at].spec().clone();
    OpSpec::from(spec::Chain(STAGES.map(stage).to_vec()))
}

impl Several {
    fn limits_of(&self, specs: &[OpSpec]) -> Result<Limits, Unsupported> {
        let mut limits = Limits::new(const { NonZeroU32::new(64).unwrap() });
        (limits.input_bytes_max, limits.items_max) = (1 << 18, 1024);
        for (spec, backend) in specs.iter().zip(&self.stages) {
            limits = limits.and(backend.limits(spec)?);
        }
        Ok(limits)
    }
}

impl Backend for Several {
    fn name(&self) -> &str {
        "several"
    }

    fn clock(&self) -> &dyn Clock {
        self.stages[self.timed_by].clock()
    }

    fn properties(&self) -> Properties {
        self.stages[self.timed_by].properties()
    }

    fn alloc(&self, len: usize) -> Result<Buf, SetupError> {
        Buf::zeroed(len).ok_or(SetupError::OutOfMemory { len })
    }

    fn limits(&self, spec: &OpSpec) -> Result<Limits, Unsupported> {
        match spec.get() {
            Some(spec::Chain(specs)) if specs.len() == self.stages.len() => self.limits_of(specs),
            _ => Err(Unsupported {
                reason: format!("a stage for each of {} backends", self.stages.len()),
            }),
        }
    }

    fn prepare(&self, spec: &OpSpec) -> Result<Arc<dyn Operator>, SetupError> {
        let limits = self.limits(spec)?;
        let spec::Chain(specs) = spec.get().expect("its limits say so");
        let stages = specs.iter().zip(&self.stages);
        let stages: Result<Vec<_>, _> = stages.map(|(spec, on)| on.prepare(spec)).collect();
        let alloc = |len| Buf::zeroed(len).ok_or(SetupError::OutOfMemory { len });
        Ok(Arc::new(Chain::new(stages?, limits, alloc)?))
    }
}

/// What is right for the chain: what DEFLATE packs, INFLATE unpacks.
struct Chained(OpSpec);

impl Workload for Chained {
    fn spec(&self) -> &OpSpec {
        &self.0
    }

    fn name(&self) -> &str {
        "sample"
    }

    fn right(&self, item: &[u8], slot_bytes: usize) -> Right {
        // As long as a stored block holds.
        if item.len() > 0xFFFF {
            return Right::Refused(JobError::TooLong);
        }
        match sample::workloads()[3].right(item, usize::MAX) {
            Right::Only(xored) => sample::workloads()[0].right(&xored, slot_bytes),
            other => other,
        }
    }
}

fn inline() -> sample::Sample {
    sample::Sample::new(None)
}

fn pool() -> sample::Sample {
    sample::Sample::new(NonZeroU32::new(2))
}

fn assert_conforms(backend: &dyn Backend) {
    let workload = Chained(chain());
    let coverage = conformance::check(backend, &[&workload]);
    let coverage = coverage.unwrap_or_else(|failure| panic!("{failure}"));
    assert!(coverage.items > 100, "{coverage:?}");
}

/// No faults but that completions are late and out of order, which a chain must stand.
fn late() -> Box<dyn Backend> {
    let faults = Faults {
        seed: 5,
        delay_polls_max: 3,
        reorder: true,
        ..Faults::default()
    };
    Box::new(Faulty::new("late", faults, inline()))
}

#[test]
fn stages_on_a_core_a_pool_and_one_without_faults_conform() {
    let without_faults = Box::new(Faulty::new("none", Faults::default(), inline()));
    for last in [without_faults as Box<dyn Backend>, late()] {
        let stages: Vec<Box<dyn Backend>> = vec![
            Box::new(inline()),
            Box::new(pool()),
            last,
            Box::new(inline()),
        ];
        assert_conforms(&Several {
            stages,
            timed_by: 0,
        });
    }
}

#[test]
fn stages_of_which_one_is_modelled_conform() {
    for timed_by in [0, 1, 3] {
        let simulation = Simulation::new();
        let model = Model::default();
        let modelled = |_| -> Box<dyn Backend> {
            Box::new(Modelled::new(
                "engine",
                model.clone(),
                inline(),
                &simulation,
            ))
        };
        let mut stages: Vec<Box<dyn Backend>> = vec![
            Box::new(inline()),
            late(),
            Box::new(pool()),
            Box::new(inline()),
        ];
        stages[timed_by] = modelled(());
        assert_conforms(&Several { stages, timed_by });
    }
}

/// Two engines of one simulation, the second behind the first: time moves while the chain is driven, by both.
#[test]
fn two_modelled_stages_share_their_simulation() {
    let simulation = Simulation::new();
    let modelled = |name: &str| -> Box<dyn Backend> {
        Box::new(Modelled::new(name, Model::default(), inline(), &simulation))
    };
    let stages = vec![
        modelled("first"),
        Box::new(inline()) as Box<dyn Backend>,
        Box::new(inline()),
        modelled("second"),
    ];
    assert_conforms(&Several {
        stages,
        timed_by: 3,
    });
}
