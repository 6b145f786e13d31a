//! Every RDMA device that is here passes core's suite. `cargo xtask vm rdma` runs this where there is soft-RoCE.

mod rdma_support;

use dpb_accel::rdma::Rdma;
use dpb_core::{
    Backend, CopyMode, Family, Items, Job, JobError, OpSpec, OutputShape, conformance, spec,
};
use dpb_operators::registry;

/// All devices, or a line that says why there is none.
fn devices() -> Vec<Box<dyn Backend>> {
    let names = rdma_support::devices().into_iter();
    let open = |name: String| Rdma.open(&name).expect("listed as here");
    names.map(open).collect()
}

#[test]
fn devices_pass_the_suite() {
    let entry = registry::find("copy").expect("registered");
    let modes =
        [CopyMode::Cached, CopyMode::Streaming].map(|mode| OpSpec::from(spec::Copy { mode }));
    let workloads = modes.map(|spec| entry.workload(&spec).expect("its own spec"));
    for device in devices() {
        let coverage = conformance::check(&*device, &[&*workloads[0], &*workloads[1]])
            .unwrap_or_else(|failure| panic!("{failure}"));
        assert!(coverage.items > 0, "nothing compared");
        let name = device.name();
        println!("{name}: {} jobs, {} items", coverage.jobs, coverage.items);
        coverage.skipped.iter().for_each(|why| println!("{why}"));
    }
}

#[test]
fn other_operators_are_refused_with_a_reason() {
    for device in devices() {
        let why = device
            .limits(&OpSpec::from(spec::Sha256))
            .expect_err("computes nothing");
        assert!(why.reason.contains("sha256"), "{}", why.reason);
    }
}

/// Two backends of one device are two protection domains: neither reaches the other's memory.
#[test]
fn buffers_of_another_domain_are_foreign() {
    let spec = OpSpec::from(spec::Copy {
        mode: CopyMode::Cached,
    });
    for (mine, other) in devices().into_iter().zip(devices()) {
        let operator = mine.prepare(&spec).expect("supported");
        let mut queue = operator.open(1.try_into().expect("one")).expect("opens");
        for (src, dst) in [(&other, &mine), (&mine, &other)] {
            let src = src.alloc(64).expect("memory").freeze();
            let dst = dst.alloc(64).expect("memory");
            let job = Job::new(0, src, Items::One, dst, OutputShape::Variable);
            let (mut ready, mut done) = ([job].into(), Vec::new());
            assert_eq!(queue.submit(&mut ready), 1);
            assert_eq!(queue.poll(&mut done), 1);
            assert_eq!(done[0].result, Err(JobError::ForeignBuffer));
        }
    }
}
