//! The figures of datagrams, of answers to them, and of requests over connections.

use dpb_core::measure::Record;
use dpb_core::measure::latency::Latencies;
use dpb_sim::system::assembly::report::DatagramFlow;
use dpb_sim::system::{System, report};

use super::Samples;

/// The figures of a flow of datagrams: counts of them, then times in nanoseconds from the intended departure.
pub(in super::super) const DATAGRAMS: [&str; 9] = [
    "offered",
    "refused",
    "delivered",
    "again",
    "reordered",
    "dropped",
    "p50",
    "p99",
    "max",
];
/// The figures of requests over a connection: counts, then times in nanoseconds from the intended begin.
pub(in super::super) const REQUESTS: [&str; 5] = ["made", "answered", "p50", "p99", "max"];

/// The metrics of latencies of all together: of datagrams one way, of answers to them, of requests.
const METRICS: [[&str; 2]; 3] = [
    ["datagram_latency_ns_p50", "datagram_latency_ns_p99"],
    ["answer_latency_ns_p50", "answer_latency_ns_p99"],
    ["request_latency_ns_p50", "request_latency_ns_p99"],
];

/// The median, the 99th percentile and the maximum, in nanoseconds; no numbers if nothing came.
fn quantiles(latencies: &Latencies) -> [f64; 3] {
    match latencies.count() {
        0 => [f64::NAN; 3],
        _ => [
            latencies.percentile_ns(0.5) as f64,
            latencies.percentile_ns(0.99) as f64,
            latencies.max_ns() as f64,
        ],
    }
}

impl Samples {
    /// Adds a run's datagrams and requests, and the fates of the datagrams to the record's counts.
    pub(super) fn add_loads(&mut self, system: &System, record: &mut Record) {
        let mut all = [(); 3].map(|()| Latencies::default());
        for flow in report::datagram_flows(system) {
            if let Some(received) = flow.received {
                all[usize::from(flow.is_answer)].add(&received.latencies);
            }
            self.add_datagrams(&flow);
            count(&flow, record);
        }
        for (name, host) in system.hosts() {
            for flow in host.flows() {
                let Some(asking) = &flow.asking else {
                    continue;
                };
                all[2].add(&asking.latencies);
                let counts = [asking.asked(), asking.latencies.count()].map(|it| it as f64);
                let [p50, p99, max] = quantiles(&asking.latencies);
                let name = format!("{name} to {}:{}", flow.peer.ip, flow.peer.port);
                let [made, answered] = counts;
                self.requests.add([name], [made, answered, p50, p99, max]);
            }
        }
        for ([p50, p99], latencies) in METRICS.into_iter().zip(&all) {
            if latencies.count() > 0 {
                let [half, most, _] = quantiles(latencies);
                self.push(p50, half);
                self.push(p99, most);
            }
        }
    }

    fn add_datagrams(&mut self, flow: &DatagramFlow<'_>) {
        let answers = if flow.is_answer { " (answers)" } else { "" };
        let name = format!("{} to {}, port {}{answers}", flow.from, flow.to, flow.port);
        let (again, reordered) = flow
            .received
            .map_or((0, 0), |it| (it.duplicates, it.reordered));
        let latencies = flow.received.map(|it| &it.latencies);
        let [p50, p99, max] = latencies.map_or([f64::NAN; 3], quantiles);
        let counts = [
            flow.offered,
            flow.refused,
            flow.delivered(),
            again,
            reordered,
            flow.dropped_all(),
        ];
        let [offered, refused, delivered, again, reordered, dropped] = counts.map(|it| it as f64);
        self.datagrams.add(
            [name.clone()],
            [
                offered, refused, delivered, again, reordered, dropped, p50, p99, max,
            ],
        );
        for (reason, dropped) in &flow.dropped {
            let names = [name.clone(), reason.name().to_owned()];
            self.dropped.add(names, [*dropped as f64]);
        }
    }
}

/// Counts the fates of a flow.
fn count(flow: &DatagramFlow<'_>, record: &mut Record) {
    let of = match flow.is_answer {
        true => "answers",
        false => "datagrams",
    };
    let mut count = |what: &str, more: u64| {
        *record.counts.entry(format!("{of}_{what}")).or_insert(0) += more;
    };
    count("offered", flow.offered);
    count("copied", flow.copied);
    count("refused", flow.refused);
    count("delivered", flow.delivered());
    let received = flow.received;
    count("duplicates", received.map_or(0, |it| it.duplicates));
    count("reordered", received.map_or(0, |it| it.reordered));
    for (reason, dropped) in &flow.dropped {
        count(&format!("dropped: {}", reason.name()), *dropped);
    }
}
