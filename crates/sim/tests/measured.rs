//! What the harness measures on a model is the model's alone: the host's clock and scheduler leave no trace.

use std::num::NonZeroU32;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use dpb_core::Input;
use dpb_core::conformance::sample::{Sample, workloads};
use dpb_core::measure::harness::{Broken, Measured, Mode, Plan, SILENCE, measure};
use dpb_sim::{Model, Modelled, Simulation};

fn plan(mode: Mode) -> Plan {
    Plan {
        mode,
        threads: NonZeroU32::MIN,
        depth: NonZeroU32::new(5).expect("not zero"),
        seconds: Duration::from_millis(2),
        warm_up: Duration::ZERO,
        repeat: 3,
        pin: Vec::new(),
        seed: 1,
        silence: SILENCE,
        memory_bytes: 1 << 30,
    }
}

fn run(plan: &Plan) -> Result<Measured, Broken> {
    // Three lanes, and inputs that take them for different times, so that the order of things shows.
    let model: Model = "lanes=3,job_ns=700,byte_ps=900,doorbell_ns=40,poll_ns=30"
        .parse()
        .expect("a model");
    let backend = Modelled::new("test", model, Sample::new(None), &Simulation::new());
    let input = |bytes: usize| Input::fixed("sevens", vec![7; bytes], bytes, 1);
    let inputs = [64, 5000, 300, 1, 1200, 90, 4000].map(input);
    let never = AtomicBool::new(false);
    measure(&backend, &inputs, workloads()[0], plan, &never)
}

/// Everything that a run says.
fn told(measured: &Measured) -> Vec<String> {
    let run = |run: &dpb_core::measure::harness::Run| {
        let histogram = run.latencies.to_base64();
        let rates = (run.items_per_s, run.bytes_per_s);
        format!("{:?} {rates:?} {histogram}", run.counts)
    };
    measured.runs.iter().map(run).collect()
}

#[test]
fn numbers_do_not_depend_on_the_hosts_clock() {
    for mode in [
        Mode::Throughput,
        Mode::Latency,
        Mode::Open { jobs_per_s: 5e5 },
    ] {
        let hasty = plan(mode);
        let mut slow = plan(mode);
        slow.warm_up = Duration::from_millis(30);
        if mode != (Mode::Open { jobs_per_s: 5e5 }) {
            slow.seconds = Duration::from_millis(40);
        }
        let hasty = run(&hasty).expect("all is right");
        let slow = run(&slow).expect("all is right");
        assert_eq!(hasty.segment_jobs, slow.segment_jobs);
        assert_eq!(told(&hasty), told(&slow), "{mode:?}");
        assert!(hasty.runs[0].items_per_s > 0.0);
    }
}

#[test]
fn several_threads_on_a_model_are_refused() {
    let mut plan = plan(Mode::Throughput);
    plan.threads = NonZeroU32::new(2).expect("not zero");
    let broken = run(&plan).expect_err("two threads");
    assert!(matches!(broken, Broken::Unsupported(_)), "{broken:?}");
    assert!(broken.to_string().contains("use one thread"), "{broken}");
}
