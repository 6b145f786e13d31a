//! Every RDMA device that is here passes core's suite. `cargo xtask vm rdma` runs this where there is soft-RoCE.

mod rdma_support;

use std::time::Duration;

use dpb_accel::rdma::Rdma;
use dpb_core::{
    Backend, Completion, CopyMode, Family, Items, Job, JobError, OpSpec, OutputShape, Queue,
    conformance, spec,
};
use dpb_operators::registry;
use rustix::event::{PollFd, PollFlags, poll};

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

/// Bytes of a copy that takes a while.
const LONG_BYTES: usize = 4 << 20;

/// A queue for copies, and `count` long jobs for it, each of one write.
fn long_copies(device: &dyn Backend, count: u64) -> (Box<dyn Queue>, Vec<Job>) {
    let mode = CopyMode::Cached;
    let operator = device.prepare(&OpSpec::from(spec::Copy { mode }));
    let operator = operator.expect("supported");
    let queue = operator.open(1.try_into().expect("one")).expect("opens");
    let job = |tag| {
        let src = device.alloc(LONG_BYTES).expect("memory").freeze();
        let dst = device.alloc(LONG_BYTES).expect("memory");
        Job::new(tag, src, Items::One, dst, OutputShape::Variable)
    };
    (queue, (0..count).map(job).collect())
}

/// A wait that missed the end of its copy would last for an hour.
#[test]
fn a_copy_is_waited_for_and_not_polled_for() {
    for device in devices() {
        let (mut queue, jobs) = long_copies(&*device, 4);
        let mut done: Vec<Completion> = Vec::new();
        for (job, sleeps_elsewhere) in jobs.into_iter().zip([false, false, true, true]) {
            done.clear();
            assert_eq!(queue.submit(&mut [job].into()), 1);
            if sleeps_elsewhere {
                // Then the copy has probably ended when it is waited for.
                std::thread::sleep(Duration::from_secs(3));
            }
            let mut polls = 0;
            while done.is_empty() {
                queue.wait(Duration::from_secs(3600));
                queue.poll(&mut done);
                polls += 1;
            }
            assert_eq!(done[0].result, Ok(()));
            assert!(polls <= 2, "{}: {polls} polls", device.name());
        }
    }
}

#[test]
fn the_file_of_a_queue_says_when_a_copy_has_ended() {
    for device in devices() {
        let (mut queue, jobs) = long_copies(&*device, 3);
        let mut done: Vec<Completion> = Vec::new();
        for job in jobs {
            done.clear();
            assert_eq!(queue.submit(&mut [job].into()), 1);
            let mut sleeps = 0;
            loop {
                queue.wait(Duration::ZERO);
                if queue.poll(&mut done) > 0 {
                    break;
                }
                let file = queue.file().expect("it has one");
                let mut files = [PollFd::new(&file, PollFlags::IN)];
                // For ever, if nothing came.
                poll(&mut files, None).expect("readable in the end");
                sleeps += 1;
            }
            assert!(sleeps <= 2, "{}: {sleeps} sleeps", device.name());
        }
    }
}
