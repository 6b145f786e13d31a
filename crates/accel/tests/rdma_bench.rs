//! Both sides of every measurement, on every RDMA device that is here: a client and a server in one process. `cargo xtask
//! vm rdma` runs this where there is soft-RoCE, and perftest's programs on either side.

mod rdma_support;

use std::net::TcpListener;
use std::thread;

use dpb_accel::rdma::bench::{
    self, Figures, Measured, MeasurementPlan, Method, Role, Verb, Waiting,
};
use dpb_core::WallClock;
use rdma_support::devices;

const SIZES: [u32; 4] = [2, 64, 4096, 65536];
const ITERATIONS: u32 = 20;

/// Carries `plan` out; what the client has to say, and the server.
fn both(plan: &MeasurementPlan) -> [Vec<Measured>; 2] {
    let free = TcpListener::bind(("127.0.0.1", 0)).expect("loopback");
    let port = free.local_addr().expect("bound").port();
    drop(free);
    let plan = MeasurementPlan {
        port,
        ..plan.clone()
    };
    let side = |role: Role| {
        let plan = plan.clone();
        thread::spawn(move || {
            let mut all = Vec::new();
            let timer = WallClock::default();
            let ended = bench::run(&plan, &role, Waiting::patient(&timer), 1, &mut |measured| {
                all.push(measured)
            });
            ended.map(|()| all)
        })
    };
    let server = side(Role::Server([127, 0, 0, 1].into()));
    let client = side(Role::Client("127.0.0.1".into()));
    [client, server].map(|side| {
        let ended = side.join().expect("no panic");
        ended.unwrap_or_else(|failure| panic!("{plan:?}: {failure}"))
    })
}

fn plans(device: &str, method: Method) -> Vec<MeasurementPlan> {
    let verbs = [Verb::Read, Verb::Write, Verb::Send];
    let plan = |verb| MeasurementPlan {
        iterations: ITERATIONS,
        ..MeasurementPlan::new(device, method, verb, SIZES.to_vec())
    };
    verbs.map(plan).into()
}

#[test]
fn every_latency_has_all_its_samples() {
    for device in devices() {
        for plan in plans(&device, Method::Latency) {
            let [client, server] = both(&plan);
            let sides = match plan.verb {
                Verb::Read => {
                    assert!(server.is_empty(), "who is read from measures nothing");
                    vec![client]
                }
                Verb::Write | Verb::Send => vec![client, server],
            };
            for side in sides {
                let sizes: Vec<u32> = side.iter().map(|measured| measured.size_bytes).collect();
                assert_eq!(sizes, SIZES, "{plan:?}");
                for measured in side {
                    let Figures::Latency(latency) = measured.figures else {
                        panic!("{plan:?}: no latency");
                    };
                    assert_eq!(latency.samples_ns.len() + 1, ITERATIONS as usize);
                    assert!(latency.samples_ns.iter().all(|&ns| ns > 0.0));
                }
            }
        }
    }
}

#[test]
fn every_bandwidth_has_all_its_messages() {
    for device in devices() {
        for plain in plans(&device, Method::Bandwidth) {
            let fuller = MeasurementPlan {
                queue_pairs: 3,
                depth: 8,
                chain: 4,
                signal_every: 3,
                ..plain.clone()
            };
            for plan in [plain, fuller] {
                let [client, server] = both(&plan);
                let messages = u64::from(ITERATIONS * plan.queue_pairs);
                assert_eq!(client.len(), SIZES.len());
                for measured in client {
                    let Figures::Bandwidth(bandwidth) = measured.figures else {
                        panic!("{plan:?}: no bandwidth");
                    };
                    assert_eq!(bandwidth.messages(), messages, "{plan:?}");
                    assert_eq!(bandwidth.posted_ns.len() as u64, messages);
                    let (mean, peak) =
                        (bandwidth.messages_per_s(), bandwidth.peak_messages_per_s());
                    assert!(mean > Some(0.0) && peak >= mean);
                }
                match (plan.verb, &server[..]) {
                    (Verb::Send, all) => assert_eq!(all.len(), SIZES.len()),
                    (_, [last]) => match &last.figures {
                        Figures::Reported(report) => assert_eq!(report.messages, messages),
                        other => panic!("{plan:?}: {other:?}"),
                    },
                    (_, other) => panic!("{plan:?}: {other:?}"),
                }
            }
        }
    }
}

#[test]
fn a_device_that_is_not_there_is_unavailable() {
    let plan = MeasurementPlan::new("no-such-device", Method::Latency, Verb::Read, vec![2]);
    let role = Role::Client("127.0.0.1".into());
    let timer = WallClock::default();
    let why = bench::run(&plan, &role, Waiting::patient(&timer), 1, &mut |_| {})
        .expect_err("there is none");
    assert!(
        matches!(why, bench::MeasurementFailure::Unavailable(_)),
        "{why:?}"
    );
}
