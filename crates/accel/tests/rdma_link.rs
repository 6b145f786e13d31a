//! A link that goes down under a queue: every job comes home, with the device's word for it, and nothing hangs.
//!
//! Takes the interface down that `DPB_RDMA_LINK` names, and up again; `cargo xtask vm rdma` has one to spare.

use std::collections::VecDeque;
use std::process::Command;
use std::time::{Duration, Instant};

use dpb_accel::rdma::{Rdma, status_text};
use dpb_core::{
    Backend, Completion, CopyMode, Family, Items, Job, JobError, OpSpec, OutputShape, spec,
};

const DEPTH: u32 = 16;
const LIMIT: Duration = Duration::from_secs(60);

fn set_link(name: &str, state: &str) {
    let status = Command::new("/usr/sbin/ip")
        .args(["link", "set", name, state])
        .status();
    assert!(
        status.expect("ip runs").success(),
        "ip link set {name} {state}"
    );
}

fn job(backend: &dyn Backend, tag: u64) -> Job {
    let src = backend.alloc(1 << 16).expect("memory").freeze();
    let dst = backend.alloc(1 << 16).expect("memory");
    Job::new(tag, src, Items::One, dst, OutputShape::Variable)
}

#[test]
fn jobs_come_home_when_the_link_goes_down() {
    let Some(link) = std::env::var("DPB_RDMA_LINK").ok() else {
        println!("skipped: DPB_RDMA_LINK names no interface to take down; `cargo xtask vm rdma`");
        return;
    };
    let listed = Rdma.backends();
    let device = listed
        .iter()
        .find(|listed| listed.is_here)
        .expect("a device on that link");
    let backend = Rdma.open(&device.instance).expect("listed as here");
    let mode = CopyMode::Cached;
    let operator = backend
        .prepare(&OpSpec::from(spec::Copy { mode }))
        .expect("supported");
    let mut queue = operator
        .open(DEPTH.try_into().expect("not zero"))
        .expect("opens");
    let mut ready: VecDeque<Job> = (0..DEPTH.into()).map(|tag| job(&*backend, tag)).collect();
    let mut done: Vec<Completion> = Vec::new();
    let (mut taken, mut home, mut failed) = (0, 0, Vec::new());
    let start = Instant::now();
    let mut is_down = false;
    // What comes home well goes in again, until something does not.
    while failed.is_empty() || queue.in_flight() > 0 {
        assert!(
            start.elapsed() < LIMIT,
            "{} jobs did not come home",
            queue.in_flight()
        );
        if !is_down && home > 100 {
            set_link(&link, "down");
            is_down = true;
        }
        if failed.is_empty() {
            taken += queue.submit(&mut ready);
        }
        home += queue.poll(&mut done);
        for Completion { job, result } in done.drain(..) {
            match result {
                Ok(()) => ready.push_back(job),
                Err(error) => failed.push(error),
            }
        }
    }
    set_link(&link, "up");
    assert_eq!(taken, home);
    assert!(is_down, "it failed before: {failed:?}");
    let JobError::Device(status) = failed[0] else {
        panic!("{failed:?}");
    };
    println!(
        "{} jobs failed: {}",
        failed.len(),
        status_text(status).expect("loaded")
    );
    assert!(failed.iter().all(|error| *error == failed[0]), "{failed:?}");

    // The queue says so from now on, and does not touch the device.
    ready.truncate(0);
    ready.push_back(job(&*backend, 0));
    assert_eq!(queue.submit(&mut ready), 1);
    assert_eq!(queue.poll(&mut done), 1);
    assert_eq!(done[0].result, Err(JobError::Device(status)));
}
