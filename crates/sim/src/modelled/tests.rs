//! Exact to the nanosecond, whatever computes inside.

use super::*;
use dpb_core::conformance::check;
use dpb_core::conformance::sample::{Sample, workloads};
use dpb_core::{Items, spec};

fn model(text: &str) -> Model {
    text.parse().unwrap()
}

fn jobs(count: u64, items: &Items, src_bytes: usize) -> VecDeque<Job> {
    let src = Buf::zeroed(src_bytes).unwrap().freeze();
    let job = |tag| {
        let dst = Buf::zeroed(4 * items.count()).unwrap();
        Job::new(tag, src.clone(), items.clone(), dst, OutputShape::Fixed(4))
    };
    (0..count).map(job).collect()
}

/// Virtual time for `count` jobs in a closed loop, and the most that one poll brought home.
fn closed_loop(model: Model, depth: u32, mut ready: VecDeque<Job>) -> (u64, usize) {
    let backend = Modelled::new("test", model, Sample::new(None), &Simulation::new());
    let operator = backend.prepare(&OpSpec::from(spec::Crc32c)).unwrap();
    let mut queue = operator.open(NonZeroU32::new(depth).unwrap()).unwrap();
    let (mut done, count, mut burst) = (Vec::new(), ready.len(), 0);
    while done.len() < count {
        queue.submit(&mut ready);
        burst = burst.max(queue.poll(&mut done));
    }
    (backend.clock().now_ns(), burst)
}

#[test]
fn conforms_over_one_core_and_over_a_pool() {
    let pool = NonZeroU32::new(2);
    for (text, workers) in [
        ("", None),
        ("lanes=1,poll_ns=700", None),
        ("depth_max=3", None),
        ("item_bytes_max=1000,items_max=200", None),
        ("job_ns=0,byte_ps=0,doorbell_ns=0", pool),
    ] {
        let backend = Modelled::new(
            "test",
            model(text),
            Sample::new(workers),
            &Simulation::new(),
        );
        check(&backend, workloads()).unwrap_or_else(|f| panic!("{text}: {f}"));
    }
}

#[test]
fn lanes_overlap_exactly() {
    let model = model("lanes=4,job_ns=2100,byte_ps=0,doorbell_ns=0");
    for (depth, total_ns) in [
        (1, 840_000),
        (2, 420_000),
        (3, 280_000 + 1400),
        (4, 210_000),
        (64, 210_000),
    ] {
        let ready = jobs(400, &Items::One, 64);
        assert_eq!(
            closed_loop(model.clone(), depth, ready).0,
            total_ns,
            "depth {depth}"
        );
    }
}

#[test]
fn a_batch_costs_its_job_its_items_and_its_bytes() {
    let model = model("lanes=1,job_ns=1000,item_ns=7,byte_ps=125,doorbell_ns=30");
    // One job of 256 items of 64 bytes: 1000 + 256 * 7 + 16384 * 0.125, and one doorbell.
    let items = Items::fixed(64, 256);
    let ready = jobs(1, &items, 64 * 256);
    assert_eq!(
        closed_loop(model.clone(), 1, ready).0,
        30 + 1000 + 1792 + 2048
    );
    // 3 bytes are 0.375 ns, which count as one; bytes outside the items cost nothing.
    let items = Items::Offsets([5, 6, 8].into());
    let ready = jobs(1, &items, 64);
    assert_eq!(closed_loop(model, 1, ready).0, 30 + 1000 + 14 + 1);
}

#[test]
fn a_doorbell_is_paid_for_each_submission_not_for_each_job() {
    let model = model("lanes=8,job_ns=1000,byte_ps=0,doorbell_ns=30");
    let ready = jobs(8, &Items::One, 8);
    assert_eq!(closed_loop(model.clone(), 8, ready).0, 1030);
    let ready = jobs(8, &Items::One, 8);
    assert_eq!(closed_loop(model, 1, ready).0, 8 * 1030);
}

#[test]
fn queues_share_the_lanes() {
    let model = model("lanes=1,job_ns=500,byte_ps=0,doorbell_ns=0");
    let backend = Modelled::new("test", model, Sample::new(None), &Simulation::new());
    let operator = backend.prepare(&OpSpec::from(spec::Crc32c)).unwrap();
    let mut queues = [(); 2].map(|()| operator.clone().open(NonZeroU32::MIN).unwrap());
    let mut done = Vec::new();
    for queue in &mut queues {
        queue.submit(&mut jobs(1, &Items::One, 8));
    }
    assert_eq!(
        (queues[0].poll(&mut done), backend.clock().now_ns()),
        (1, 500)
    );
    assert_eq!(
        (queues[1].poll(&mut done), backend.clock().now_ns()),
        (1, 1000)
    );
}

#[test]
fn a_poll_that_costs_time_lets_an_open_loop_arrive() {
    let model = model("lanes=1,job_ns=250,byte_ps=0,doorbell_ns=0,poll_ns=100");
    let backend = Modelled::new("test", model, Sample::new(None), &Simulation::new());
    let operator = backend.prepare(&OpSpec::from(spec::Crc32c)).unwrap();
    let mut queue = operator.open(NonZeroU32::new(2).unwrap()).unwrap();
    let mut done = Vec::new();
    let mut poll = |queue: &mut Box<dyn Queue>| (queue.poll(&mut done), backend.clock().now_ns());
    assert_eq!(poll(&mut queue), (0, 100), "idle polls pass time");
    queue.submit(&mut jobs(1, &Items::One, 8));
    assert_eq!(poll(&mut queue), (0, 200));
    queue.submit(&mut jobs(1, &Items::One, 8));
    assert_eq!(poll(&mut queue), (0, 300));
    assert_eq!(
        poll(&mut queue),
        (1, 350),
        "no further than the job that is due"
    );
    assert_eq!(
        [poll(&mut queue), poll(&mut queue), poll(&mut queue)],
        [(0, 450), (0, 550), (1, 600)]
    );
}

#[test]
fn models_are_written_as_they_are_read() {
    let model = model(
        "lanes=3,job_ns=1,item_ns=2,byte_ps=4,doorbell_ns=5,poll_ns=6,depth_max=7,items_max=8",
    );
    assert_eq!(model.to_string().parse(), Ok(model.clone()));
    assert_ne!(model, Model::default());
    for bad in [
        "lanes=0",
        "lanes",
        "speed=1",
        "job_ns=-1",
        "depth_max=99999999999",
    ] {
        let said = bad.parse::<Model>().unwrap_err().to_string();
        assert!(said.contains(bad), "{said}");
    }
}
