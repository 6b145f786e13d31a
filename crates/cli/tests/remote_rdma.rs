//! `remote-rdma/HOST:PORT/BACKEND` between this process and an agent in one of its own, where there is an RDMA device: operators conform, jobs
//! larger than a ring come home, and an agent that dies takes none with it. `cargo xtask vm rdma` runs this where there is soft-RoCE.

#[path = "../../accel/tests/rdma_support/mod.rs"]
mod rdma_support;

use std::collections::VecDeque;
use std::env;
use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::num::NonZeroU32;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use dpb_core::conformance::Suite;
use dpb_core::{Backend, Completion, Families, Items, Job, JobError, Operator, Queue};
use dpb_operators::registry;
use rdma_support::devices;

/// Longer than anything here takes on an emulated CPU.
const LIMIT: Duration = Duration::from_secs(120);

/// An agent; killed with this.
struct Agent {
    child: Child,
    address: String,
}

impl Agent {
    fn start(bulk: &str) -> Self {
        // In a guest the program lies elsewhere than where it was built.
        let built = || OsString::from(env!("CARGO_BIN_EXE_dpb"));
        let mut child = Command::new(env::var_os("DPB").unwrap_or_else(built))
            .args(["--format", "json", "serve", "--listen", "127.0.0.1:0"])
            .args(["--bulk", bulk])
            .stdout(Stdio::piped())
            .spawn()
            .expect("dpb starts");
        let stdout = child.stdout.take().expect("was piped");
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).expect("a line");
        let ready: serde_json::Value = serde_json::from_str(&line).expect("JSON");
        let address = ready["listening"].as_str().expect("an address").to_owned();
        Self { child, address }
    }

    fn open(&self, backend: &str) -> Box<dyn Backend> {
        let name = format!("remote-rdma/{}/{backend}", self.address);
        families().open(&name).unwrap_or_else(|why| panic!("{why}"))
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn families() -> Families {
    dpb_cli::Dpb::new().families()
}

/// The device that clients take: the first.
fn first_device() -> Option<String> {
    devices().into_iter().next()
}

fn prepared(backend: &dyn Backend, name: &str) -> Arc<dyn Operator> {
    let spec = registry::find(name).expect("registered").default_spec();
    backend
        .prepare(&spec)
        .unwrap_or_else(|why| panic!("{name}: {why}"))
}

#[test]
fn operators_conform_by_rdma() {
    let Some(device) = first_device() else { return };
    let agent = Agent::start(&format!("rdma/{device}"));
    let backend = agent.open("cpu");
    let properties = backend.properties();
    let place = properties.made_of.device.expect("where it is");
    assert!(place.ends_with(&format!(", by rdma/{device}")), "{place}");
    println!("{}: {place}, {:?}", backend.name(), properties.evidence);
    // By soft-RoCE on an emulated CPU a job takes some milliseconds. One of a fixed shape, one whose outputs are as long as its items, one whose outputs
    // vary.
    for name in ["crc32c", "copy", "deflate"] {
        let entry = registry::find(name).expect("registered");
        let workload = entry.workload(entry.default_case()).expect("its own spec");
        let began = Instant::now();
        let coverage = Suite::default().brief().check(&*backend, &[&*workload]);
        let coverage = coverage.unwrap_or_else(|failure| panic!("{failure}"));
        assert!(coverage.items > 0, "{name}: nothing compared");
        println!("{name}: {coverage:?}, {:?}", began.elapsed());
    }
}

/// A job of one item of `len` bytes, which `tag` tells from others.
fn job(operator: &dyn Operator, backend: &dyn Backend, tag: u64, len: usize) -> Job {
    let mut src = backend.alloc(len).expect("memory");
    let mut at = 0;
    src.fill_with(|| {
        at += 1;
        (at * 7 + (at >> 9) + tag * 31) as u8
    });
    let dst = backend.alloc(operator.dst_len(len)).expect("memory");
    let items = Items::fixed(len as u32, 1);
    Job::new(tag, src, items, dst, operator.shape())
}

/// Polls until `count` jobs are home.
fn home(queue: &mut dyn Queue, count: usize) -> Vec<Completion> {
    let (mut done, began) = (Vec::new(), Instant::now());
    while done.len() < count {
        if queue.poll(&mut done) == 0 {
            queue.wait(Duration::from_millis(100));
        }
        assert!(
            began.elapsed() < LIMIT,
            "{} of {count} are home",
            done.len()
        );
    }
    done
}

/// A ring has 4 MiB, and both directions are full at once.
#[test]
fn jobs_larger_than_a_ring_come_home_as_they_went() {
    let Some(device) = first_device() else { return };
    let agent = Agent::start(&format!("rdma/{device}"));
    let backend = agent.open("cpu");
    let operator = prepared(&*backend, "copy");
    let depth = NonZeroU32::new(3).expect("three");
    let mut queue = operator.clone().open(depth).expect("a queue");
    let lengths = [
        6 << 20,
        1,
        4097,
        256 << 10,
        (256 << 10) + 1,
        5_000_001,
        4096,
    ];
    let jobs = lengths.iter().zip(0..);
    let mut ready: VecDeque<Job> = jobs
        .map(|(len, tag)| job(&*operator, &*backend, tag, *len))
        .collect();
    let mut done = Vec::new();
    while done.len() < lengths.len() {
        queue.submit(&mut ready);
        done.extend(home(&mut *queue, 1));
    }
    for Completion { job, result } in done {
        assert_eq!(result, Ok(()), "{}", job.tag);
        assert_eq!(job.dst[0].len(), lengths[job.tag as usize]);
        assert!(*job.input()[0] == *job.dst[0], "{}", job.tag);
    }
}

#[test]
fn an_agent_that_dies_takes_no_job_with_it() {
    let Some(device) = first_device() else { return };
    let agent = Agent::start(&format!("rdma/{device}"));
    let backend = agent.open("cpu");
    let operator = prepared(&*backend, "copy");
    let depth = NonZeroU32::new(4).expect("four");
    let mut queue = operator.clone().open(depth).expect("a queue");
    let mut ready: VecDeque<Job> = (0..4)
        .map(|tag| job(&*operator, &*backend, tag, 1 << 20))
        .collect();
    queue.submit(&mut ready);
    drop(agent);
    let is_over = |result: &Result<(), JobError>| matches!(result, Err(JobError::Device(..0)));
    for Completion { job, result } in home(&mut *queue, 4) {
        let is_whole = result.is_ok() && *job.input()[0] == *job.dst[0];
        assert!(is_whole || is_over(&result), "{result:?}");
    }
    queue.submit(&mut [job(&*operator, &*backend, 9, 1)].into());
    assert!(is_over(&home(&mut *queue, 1)[0].result));
}

/// Wherever this runs, some end has none: the agent, which is told so, or this one.
#[test]
fn an_end_without_rdma_is_named() {
    let agent = Agent::start("tcp");
    let backend = agent.open("cpu");
    let spec = registry::find("copy").expect("registered").default_spec();
    let why = backend.limits(&spec).expect_err("no transport").reason;
    let says = match first_device() {
        Some(_) => "the agent: it was started with --bulk tcp",
        None => "this end: ",
    };
    assert!(why.contains(says), "{why}");
}
