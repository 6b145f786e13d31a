//! Tables and charts of application recognition.

use dpb_core::measure::Record;

use crate::cmd::net::bench::figure;
use crate::cmd::net::flow_table::{seconds, shown_load};
use crate::cmd::sweep::{self, parameter};
use crate::output::{self, Column, Table, evidence, percent, short, short_ns, verdict};
use crate::task::{Base, View, axis, charted, listed};

pub(super) const VIEW: View = View {
    lead: &[
        "side",
        "size",
        "interval",
        "rate",
        "application",
        "flows",
        "compression",
        "backend",
    ],
    series: &["side", "size", "backend"],
    sweeps: &[
        axis("interval", "time between packets", seconds),
        axis("rate", "packets offered per second", output::short),
        axis("flows", "flows at a time", output::short),
    ],
    fixed: &["application", "policy", "compression", "capture", "link"],
    metrics: &[
        charted(
            "server_cpu_share",
            "part of the server's core that the program works",
            output::percent,
        ),
        charted("latency_ns_p50", "latency, median", output::short_ns),
        charted(
            "latency_ns_p99",
            "latency, 99th percentile",
            output::short_ns,
        ),
        charted(
            "packets_per_s",
            "packets delivered per second",
            output::short,
        ),
        charted("loss_ratio", "part of the packets lost", output::percent),
        listed(
            "latency_ns_p90",
            "latency, 90th percentile",
            output::short_ns,
        ),
        listed(
            "dpu_cpu_share",
            "part of the DPU's core that the program works",
            output::percent,
        ),
        listed(
            "dpu_thread_cpu_share",
            "part of the DPU's core that its thread has, looks for packets included",
            output::percent,
        ),
        listed(
            "server_cpu_ns_per_packet",
            "time of the server's core per packet",
            output::short_ns,
        ),
        listed(
            "dpu_cpu_ns_per_packet",
            "time of the DPU's core per packet",
            output::short_ns,
        ),
        listed(
            "server_cpu_saved",
            "part of the server's time that the DPU's side saves",
            output::percent,
        ),
        listed(
            "latency_saved",
            "part of the median latency that the DPU's side saves",
            output::percent,
        ),
        listed(
            "bytes_per_s",
            "bytes of frames delivered per second",
            output::short,
        ),
    ],
    base: Some(Base {
        side: "side",
        base: "host",
        metric: "latency_ns_p50",
        own: &[],
    }),
};

pub(super) fn for_people(records: &[Record]) -> Table {
    let mut table = Table::new(vec![
        Column::left("side"),
        Column::right("size"),
        Column::right("load"),
        Column::left("backend"),
        Column::right("packets/s"),
        Column::right("lost"),
        Column::right("p50"),
        Column::right("p99"),
        Column::right("server CPU"),
        Column::right("DPU CPU"),
        Column::right("CPU saved"),
        Column::right("latency saved"),
        Column::left("evidence"),
        Column::noted("verdict"),
    ]);
    for record in records {
        let figure = |name: &str, text: fn(f64) -> String| figure(record, name, text);
        table.row([
            parameter(record, "side"),
            parameter(record, "size"),
            shown_load(record),
            parameter(record, "backend"),
            figure("packets_per_s", short),
            figure("loss_ratio", percent),
            figure("latency_ns_p50", short_ns),
            figure("latency_ns_p99", short_ns),
            figure("server_cpu_share", percent),
            figure("dpu_cpu_share", percent),
            figure("server_cpu_saved", percent),
            figure("latency_saved", percent),
            evidence(record).to_owned(),
            verdict(record),
        ]);
    }
    table
}

pub(super) fn for_machines(records: &[Record]) -> Table {
    let figures: Vec<&str> = VIEW.metrics.iter().map(|metric| metric.name).collect();
    sweep::for_machines(records, VIEW.lead, &figures)
}
