//! sysbench's `memory` test with the parameters of one of dpb's.

use dpb_core::measure::import::Program;
use dpb_micro::memory::{ACCESS_BYTES, Access, Work};

use super::{PagesName, RunFlags, Test};
use crate::cmd::peer::Peer;

/// sysbench counts bytes; a word of 8 is an access. Its own count is of whole buffers.
const FIGURES: &[(&str, &str, f64)] = &[
    ("bytes_per_s", "bytes_per_s", 1.0),
    ("bytes_per_s", "accesses_per_s", 1.0 / ACCESS_BYTES as f64),
];

pub(super) fn peer(runs: &RunFlags, test: &Test) -> Peer<'static> {
    Peer {
        program: Program::Sysbench,
        command: command(runs, test),
        repeat: runs.repeat(),
        seconds: Some(seconds(runs)),
        time_max: None,
        workers: test.threads,
        figures: FIGURES,
        judged: "bytes_per_s",
        before: &|| {},
        no_server: None,
    }
}

/// Why not, if it does not measure this.
fn command(runs: &RunFlags, test: &Test) -> Result<Vec<String>, String> {
    let (mode, access) = match test.work {
        Some(Work::Random(access)) => ("rnd", access),
        Some(Work::Sequential(access)) => ("seq", access),
        Some(Work::Chain) | None => return Err("sysbench has no chains".into()),
        Some(Work::Stream(_)) => return Err("sysbench has no kernels of STREAM".into()),
    };
    if !test.size.is_power_of_two() {
        return Err(format!(
            "sysbench takes sizes that are powers of two, not {}",
            test.size
        ));
    }
    let operation = match access {
        Access::Read => "read",
        Access::Write => "write",
    };
    let mut words = Vec::new();
    if !runs.pins().is_empty() {
        let cores: Vec<String> = runs.pins().iter().map(ToString::to_string).collect();
        words.extend(["taskset".to_owned(), "-c".to_owned(), cores.join(",")]);
    }
    words.extend(["sysbench".to_owned(), "memory".to_owned()]);
    words.extend([
        format!("--memory-block-size={}", test.size),
        "--memory-total-size=1000T".to_owned(),
        "--memory-scope=local".to_owned(),
        format!("--memory-access-mode={mode}"),
        format!("--memory-oper={operation}"),
        format!("--rand-seed={}", runs.seed),
        format!("--threads={}", test.threads),
        format!("--time={}", seconds(runs)),
    ]);
    if test.pages == PagesName::Huge {
        words.push("--memory-hugetlb=on".to_owned());
    }
    words.push("run".to_owned());
    Ok(words)
}

/// Its time is in whole seconds.
fn seconds(runs: &RunFlags) -> f64 {
    runs.seconds().as_secs_f64().ceil().max(1.0)
}
