//! Operators of another machine pass core's suite, judged by the portable path: over loopback, every operator, several backends.

mod operators_support;

use dpb_core::conformance::{Counting, Coverage, Suite};
use dpb_core::{Backend, Evidence, Executor, OpSpec, StageByStage, spec};
use dpb_operators::registry::{self, Entry};
use operators_support::{Served, open, service};
use rayon::prelude::*;

/// Of each thread, so that tests beside each other do not count each other's.
#[global_allocator]
static COUNTING: Counting = Counting;

fn conforms(served: &Served, backend: &str, entry: &Entry) -> Coverage {
    let case = entry.default_case();
    let workload = entry.workload(&case).expect("its own spec");
    let backend = open(&served.name(backend));
    let suite = Suite::default().counting(Counting::here);
    let coverage = suite.check(&*backend, &[&*workload]);
    coverage.unwrap_or_else(|failure| panic!("{failure}"))
}

#[test]
fn every_operator_of_the_best_path() {
    let served = Served::start(service());
    registry::OPERATORS.par_iter().for_each(|entry| {
        let coverage = conforms(&served, "cpu", entry);
        assert!(coverage.items > 0, "{}: nothing compared", entry.name);
    });
}

/// One of a fixed shape, one in place, one whose outputs grow, one that opens, one that keeps a table.
const SOME: [&str; 5] = ["crc32c", "aes-gcm", "deflate", "inflate", "lpm4"];

#[test]
fn some_operators_of_other_backends() {
    let served = Served::start(service());
    let backends = [
        "pool/2",
        "faulty/delay_polls_max=3,reorder=1",
        "cpu/portable",
    ];
    let pairs: Vec<_> = backends
        .iter()
        .flat_map(|backend| SOME.map(|name| (backend, name)))
        .collect();
    pairs.par_iter().for_each(|(backend, name)| {
        let entry = registry::find(name).expect("registered");
        let coverage = conforms(&served, backend, entry);
        assert!(coverage.items > 0, "{backend} {name}: nothing compared");
    });
}

/// A simulation is driven by one thread, so one operator after the other.
#[test]
fn operators_of_a_model() {
    let served = Served::start(service());
    for name in SOME {
        let entry = registry::find(name).expect("registered");
        let coverage = conforms(&served, "sim/default", entry);
        assert!(coverage.items > 0, "{name}: nothing compared");
    }
}

#[test]
fn a_chain_goes_whole() {
    let served = Served::start(service());
    let find = |name| registry::find(name).expect("registered").default_spec();
    let chain = OpSpec::from(spec::Chain(vec![find("deflate"), find("inflate")]));
    let backend = open(&served.name("cpu"));
    let limits = backend.limits(&chain).expect("the agent runs it");
    assert!(limits.depth_max.get() > 1);
    let code = backend.code(&chain).expect("its stages' code");
    assert!(
        code.contains("deflate: ") && code.contains("inflate: "),
        "{code}"
    );
    let operator = backend.prepare(&chain).expect("as promised");
    assert_eq!(operator.spec(), &chain);
    // And one that the agent does not know whole is not needed to run it here, stage by stage.
    assert!(StageByStage::new(backend).limits(&chain).is_ok());
}

#[test]
fn a_record_says_what_is_at_the_other_end() {
    let served = Served::start(service().with_machine("a machine"));
    let of = |name: &str| open(&served.name(name)).properties();
    let cpu = of("cpu/portable");
    assert_eq!(cpu.evidence, Evidence::of_this_cpu());
    assert_eq!(cpu.made_of.executor, Executor::Device);
    let device = cpu.made_of.device.expect("where it is");
    assert!(
        device.contains("a machine") && device.contains("127.0.0.1"),
        "{device}"
    );
    let inner = cpu.made_of.inner.expect("the agent's backend");
    assert_eq!(inner.name, "cpu/portable");
    assert_eq!(inner.made_of.executor, Executor::Caller);
    for (name, says) in [
        ("sim/default", "not the model's"),
        ("faulty/flips_ppm=1", "faults"),
    ] {
        match of(name).evidence {
            Evidence::Emulated { by } => assert!(by.contains(says), "{by}"),
            other => panic!("{name}: {other:?}"),
        }
    }
}
