//! perftest's program of the same kind beside `dpb rdma`: both sides run it in turn, told the same.

use std::process::{Command, Stdio};
use std::time::Duration;

use dpb_accel::rdma::bench::{MeasurementPlan, Method, Role, Verb};
use dpb_core::measure::import::Program;

use super::show::verb_name;
use crate::cmd::peer::{self, Peer, Ran};
use crate::exit::Failure;
use crate::output;

/// The importer's names of figures, and ours.
const FIGURES: &[(&str, &str, f64)] = &[
    ("items_per_s", "messages_per_s", 1.0),
    ("bytes_per_s", "bytes_per_s", 1.0),
    ("bytes_per_s_peak", "bytes_per_s_peak", 1.0),
    ("latency_ns_min", "latency_ns_min", 1.0),
    ("latency_ns_mean", "latency_ns_mean", 1.0),
    ("latency_ns_p50", "latency_ns_p50", 1.0),
    ("latency_ns_p99", "latency_ns_p99", 1.0),
    ("latency_ns_p999", "latency_ns_p999", 1.0),
    ("latency_ns_max", "latency_ns_max", 1.0),
];

/// What perftest's clients say while no server listens.
const NO_SERVER: &str = "Couldn't connect";
/// Longest time of one run of theirs: a server whose client never comes is ended.
const RUN_MAX: Duration = Duration::from_secs(120);

/// The client's runs of one size.
pub(super) fn client(
    plan: &MeasurementPlan,
    role: &Role,
    size_bytes: u32,
    repeat: usize,
) -> Peer<'static> {
    Peer {
        program: Program::Perftest,
        command: words(plan, role, size_bytes),
        repeat,
        seconds: None,
        time_max: Some(RUN_MAX),
        workers: 1,
        figures: FIGURES,
        judged: match plan.method {
            Method::Latency => "latency_ns_p50",
            Method::Bandwidth => "bytes_per_s",
        },
        before: &|| {},
        no_server: Some(NO_SERVER),
    }
}

/// The server's runs of all sizes. Their figures are the client's business; a server that ends badly is said.
///
/// # Errors
/// If an interrupt ends it.
pub(super) fn serve(plan: &MeasurementPlan, role: &Role, repeat: usize) -> Result<(), Failure> {
    for &size_bytes in &plan.sizes {
        let words = match words(plan, role, size_bytes) {
            Ok(words) => words,
            Err(why) => {
                output::note(&format!("dpb: --beside: {why}"));
                return Ok(());
            }
        };
        for _ in 0..repeat {
            match peer::run(Program::Perftest, &words, Some(RUN_MAX)) {
                Ran::Printed(_) => {}
                Ran::Interrupted => return Err(Failure::interrupted("interrupted")),
                Ran::Missing(why) | Ran::Failed(why) => {
                    output::note(&format!("dpb: --beside: {why}"));
                    return Ok(());
                }
            }
        }
    }
    Ok(())
}

/// perftest's command line for one size; why there is none.
fn words(plan: &MeasurementPlan, role: &Role, size_bytes: u32) -> Result<Vec<String>, String> {
    if plan.by_rdma_cm {
        return Err("perftest's own way to connect by rdma_cm is another one than --cm".to_owned());
    }
    if plan.chain > 1 && !plan.chain.is_multiple_of(plan.signal_every()) {
        return Err(format!(
            "perftest signals at least once a chain; give --signal-every {}, or a divisor of it",
            plan.chain
        ));
    }
    let method = match plan.method {
        Method::Latency => "lat",
        Method::Bandwidth => "bw",
    };
    let program = format!("ib_{}_{method}", verb_name(plan.verb));
    if let Err(error) = Command::new(&program)
        .arg("--version")
        .stdin(Stdio::null())
        .output()
    {
        return Err(format!(
            "{program} is not here ({error}); apt-get install perftest"
        ));
    }
    let mut words = vec![program, "-F".into()];
    let mut tell = |flag: &str, value: u32| words.extend([flag.to_owned(), value.to_string()]);
    tell("-s", size_bytes);
    tell("-n", plan.iterations);
    tell("-p", u32::from(plan.port));
    if let Some(index) = plan.gid_index {
        tell("-x", u32::from(index));
    }
    if plan.verb != Verb::Read {
        tell("-I", plan.inline_bytes);
    }
    if plan.method == Method::Bandwidth {
        tell("-t", plan.depth);
        tell("-q", plan.queue_pairs);
        tell("-Q", plan.signal_every());
        if plan.chain > 1 {
            tell("-l", plan.chain);
        }
    }
    words.extend(["-d".to_owned(), plan.device.clone()]);
    if let Role::Client(host) = role {
        words.push(host.clone());
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn perftest_is_told_what_dpb_does() {
        let plan = MeasurementPlan {
            depth: 16,
            queue_pairs: 2,
            chain: 4,
            signal_every: 4,
            gid_index: Some(1),
            ..MeasurementPlan::new("rxe0", Method::Bandwidth, Verb::Write, vec![64])
        };
        let client = Role::Client("10.0.0.1".to_owned());
        let by_cm = MeasurementPlan {
            by_rdma_cm: true,
            ..plan.clone()
        };
        assert!(words(&by_cm, &client, 64).is_err());
        let rarely = MeasurementPlan {
            signal_every: 13,
            ..plan.clone()
        };
        assert!(words(&rarely, &client, 64).is_err(), "perftest refuses it");
        let Ok(told) = words(&plan, &client, 64) else {
            println!("skipped: perftest is not installed; apt-get install perftest");
            return;
        };
        assert_eq!(
            told.join(" "),
            "ib_write_bw -F -s 64 -n 5000 -p 18515 -x 1 -I 0 -t 16 -q 2 -Q 4 -l 4 -d rxe0 10.0.0.1"
        );
        // Its own parser takes the words: what is missing is the device or the peer, never the usage.
        // A device of that name that is here waits for the peer.
        let ran = Command::new("timeout").arg("10").args(&told).output();
        let ran = ran.expect("it starts");
        let said = String::from_utf8_lossy(&ran.stderr) + String::from_utf8_lossy(&ran.stdout);
        assert!(
            ["Usage:", "invalid option", "must be"]
                .iter()
                .all(|wrong| !said.contains(wrong)),
            "{said}"
        );
    }
}
