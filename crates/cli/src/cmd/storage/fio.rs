//! fio on the same file, with the parameters of one of dpb's tests.

use std::time::Duration;

use dpb_core::measure::import::Program;
use dpb_micro::storage::{Access, Engine, Fsync, Pattern, Plan, Target};

use super::RunFlags;
use crate::cmd::peer::Peer;

/// fio's latencies are of completion: what the submission takes is not in them.
const FIGURES: &[(&str, &str, f64)] = &[
    ("items_per_s", "items_per_s", 1.0),
    ("bytes_per_s", "bytes_per_s", 1.0),
    ("latency_ns_mean", "latency_ns_mean", 1.0),
    ("latency_ns_p50", "latency_ns_p50", 1.0),
    ("latency_ns_p99", "latency_ns_p99", 1.0),
    ("latency_ns_p999", "latency_ns_p999", 1.0),
    ("latency_ns_max", "latency_ns_max", 1.0),
];

pub(super) fn peer<'a>(
    runs: &RunFlags,
    plan: &Plan,
    target: &Target,
    before: &'a dyn Fn(),
) -> Peer<'a> {
    Peer {
        program: Program::Fio,
        command: command(runs, plan, target),
        repeat: runs.repeat(),
        seconds: Some(runs.seconds().as_secs_f64()),
        time_max: None,
        workers: u64::from(plan.jobs),
        figures: FIGURES,
        judged: "items_per_s",
        before,
        no_server: None,
    }
}

/// Why not, if fio does not do this.
fn command(runs: &RunFlags, plan: &Plan, target: &Target) -> Result<Vec<String>, String> {
    if plan.access.writes() && !target.may_write() {
        return Err(format!("{} may only be read", target.path().display()));
    }
    if plan.verify {
        return Err(
            "fio verifies data of its own alone, not dpb's; leave --verify out beside it".into(),
        );
    }
    let mut words = vec!["fio".to_owned()];
    let told = usual(target).into_iter().chain(of_test(runs, plan, target));
    words.extend(told.map(|(name, value)| format!("--{name}={value}")));
    Ok(words)
}

/// What every test is told.
fn usual(target: &Target) -> Vec<(&'static str, String)> {
    let (yes, no) = (|| "1".to_owned(), || "0".to_owned());
    vec![
        ("output-format", "json".to_owned()),
        ("name", "dpb".to_owned()),
        // One process, so that ending it ends all.
        ("thread", yes()),
        ("group_reporting", yes()),
        ("filename", target.path_for_others().display().to_string()),
        ("allow_file_create", no()),
        ("fallocate", "none".to_owned()),
        // What is in the cache stays, and a block may be drawn twice, as dpb's may.
        ("invalidate", no()),
        ("norandommap", yes()),
        ("time_based", yes()),
    ]
}

fn of_test(runs: &RunFlags, plan: &Plan, target: &Target) -> Vec<(&'static str, String)> {
    let part = target.bytes() / u64::from(plan.jobs) / plan.block * plan.block;
    let flag = |is: bool| u8::from(is).to_string();
    let ms = |time: Duration| format!("{}ms", time.as_millis().max(1));
    let mut told = vec![
        // Each job has its own part, as dpb's have.
        ("size", part.to_string()),
        ("offset_increment", part.to_string()),
        ("randseed", runs.seed.to_string()),
        ("numjobs", plan.jobs.to_string()),
        ("ioengine", engine(plan.engine).to_owned()),
        ("rw", mode(plan.pattern, plan.access).to_owned()),
        ("bs", plan.block.to_string()),
        ("iodepth", plan.depth.to_string()),
        ("direct", flag(plan.direct)),
        ("runtime", ms(runs.seconds())),
        ("ramp_time", ms(runs.warm_up())),
    ];
    if plan.registered {
        told.extend([("fixedbufs", flag(true)), ("registerfiles", flag(true))]);
    }
    match plan.sync {
        Fsync::Never => {}
        Fsync::End => told.push(("end_fsync", flag(true))),
        Fsync::Every(writes) => told.push(("fsync", writes.to_string())),
    }
    if let Access::Mixed { read_share } = plan.access {
        told.push(("rwmixread", format!("{:.0}", read_share * 100.0)));
    }
    if !runs.pins().is_empty() {
        let cores: Vec<String> = runs.pins().iter().map(ToString::to_string).collect();
        told.push(("cpus_allowed", cores.join(",")));
    }
    told
}

fn engine(engine: Engine) -> &'static str {
    match engine {
        Engine::IoUring => "io_uring",
        Engine::Libaio => "libaio",
        Engine::Sync => "psync",
    }
}

fn mode(pattern: Pattern, access: Access) -> &'static str {
    match (pattern, access) {
        (Pattern::Random, Access::Read) => "randread",
        (Pattern::Random, Access::Write) => "randwrite",
        (Pattern::Random, Access::Mixed { .. }) => "randrw",
        (Pattern::Sequential, Access::Read) => "read",
        (Pattern::Sequential, Access::Write) => "write",
        (Pattern::Sequential, Access::Mixed { .. }) => "rw",
    }
}
