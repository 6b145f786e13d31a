//! `dpb tcp`: round trips and throughput of TCP over loopback, or to another machine.

mod beside;
mod serve;
mod table;

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgMatches, ValueEnum};
use dpb_core::measure::latency::Latencies;
use dpb_core::measure::provenance::allowed_cpus;
use dpb_core::measure::statistics::judge;
use dpb_core::measure::{Check, Durability, Evidence, Outcome, Record, Samples, Store, Summary};
use dpb_micro::tcp::{self, Direction, Engine, Link, Load, Measured, Plan, Run, Target};

use crate::args::{self, List};
use crate::cmd::own_server::OwnServer;
use crate::cmd::serve::read_token;
use crate::exit::Failure;
use crate::output::{self, Format, Progress};
use crate::task::{
    Cost, EndPass, Parameter, ServerEnd, Task, View, axis, charted, flags, listed, recorded_by_name,
};
use crate::{Globals, interrupt};

const WHERE: &str = "Where";
const TEST: &str = "Test";
const RUNS: &str = "Runs";
const FILES: &str = "Files";

/// A name ending and the share of messages that it stands for.
const PERCENTILES: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999)];
/// One arrival in so many may go unserved before a connection counts as too slow for the rate.
const UNSERVED_SHARE: u64 = 100;

/// Round trips and throughput of TCP, and the CPU time of both ends.
/// The task: round trips and throughput of TCP, with the CPU time of both ends.
pub const TASK: Task = Task {
    name: "tcp",
    summary: "round trips and throughput of TCP, with the CPU time of both ends",
    example: "dpb tcp --size 64 --depth 1",
    apart: &[
        "out",
        "beside",
        "iperf3_port",
        "sockperf_port",
        "serve",
        "listen",
        "token_file",
        "until_stdin_closes",
    ],
    prepare: None,
    shared_file: None,
    view: VIEW,
    check,
    cost,
    recorded,
    published: None,
    server_end: Some(ServerEnd {
        words: &["tcp", "--serve", "--until-stdin-closes"],
        pass: EndPass::Token,
        clears: None,
    }),
};

const VIEW: View = View {
    lead: &[
        "direction",
        "size",
        "depth",
        "connections",
        "engine",
        "mode",
        "rate",
        "server",
        "tool",
    ],
    series: &["direction", "engine", "tool"],
    sweeps: &[
        axis("size", "bytes per message", output::bytes),
        axis("depth", "messages in flight", output::number),
        axis("connections", "connections", output::number),
        axis("rate", "messages offered per second", output::short),
    ],
    fixed: &["mode", "server", "nodelay"],
    metrics: &[
        charted("messages_per_s", "messages per second", output::short),
        listed("bytes_per_s", "bytes per second", output::short),
        charted("latency_ns_p50", "round trip, median", output::short_ns),
        charted(
            "latency_ns_p99",
            "round trip, 99th percentile",
            output::short_ns,
        ),
        listed(
            "latency_ns_p999",
            "round trip, 99.9th percentile",
            output::short_ns,
        ),
        listed(
            "client_cpu_ns_per_message",
            "CPU time of the client per message",
            output::short_ns,
        ),
        listed(
            "server_cpu_ns_per_message",
            "CPU time of the server per message",
            output::short_ns,
        ),
    ],
    base: None,
};

/// Checks that there are such messages.
fn check(matches: &ArgMatches, _: &Globals) -> Result<(), Failure> {
    flags::<Args>(matches)?.plans().map(drop)
}

/// A record names the server's machine, also where that is this one; the address is the command line's.
fn recorded(parameter: &Parameter, record: &Record) -> Option<String> {
    match parameter.name.as_str() {
        "server" => None,
        _ => recorded_by_name(parameter, record),
    }
}

/// Tests of every kind of message.
fn cost(matches: &ArgMatches) -> Cost {
    let Ok(args) = flags::<Args>(matches) else {
        return Cost::default();
    };
    let axes = [
        args.size.0.len(),
        args.depth.0.len(),
        args.connections.0.len(),
        args.direction.len().max(1),
        args.engine.len().max(1),
        args.rate.as_ref().map_or(1, |rates| rates.0.len()),
    ];
    let tests = axes.iter().product::<usize>() as u32;
    Cost {
        once: tests * (args.warm_up + Duration::from_millis(100)) + Duration::from_millis(300),
        each_run: tests * args.seconds,
        memory_bytes: 64 << 20,
        disk_bytes: 0,
    }
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Without --server it measures loopback, with a server of its own. Every message is compared whole by who receives it.\n\
                  Nothing is encrypted: the token crosses the network in clear.\n\
                  Examples:\n  dpb tcp\n  \
                  dpb tcp --size 64..64KiB --depth 1,16 --connections 1,4 --engine sockets,io_uring\n  \
                  dpb tcp --direction send,receive --size 128KiB --beside\n  \
                  dpb tcp --mode open --rate 10k,50k --size 64 --depth 64\n  \
                  (umask 077; head -c 32 /dev/urandom | base64 > ~/dpb.token)\n  \
                  dpb tcp --serve --listen 192.168.100.2:7500 --token-file ~/dpb.token      on the DPU\n  \
                  dpb tcp --server 192.168.100.2:7500 --token-file ~/dpb.token --beside     on the host"
)]
pub struct Args {
    /// The address of a server elsewhere (`dpb tcp --serve`), host:port [default: a server of our own on loopback]
    #[arg(long, value_name = "ADDRESS", help_heading = WHERE, value_parser = args::address, conflicts_with = "serve")]
    server: Option<String>,
    /// Be the server: wait for clients and serve them one after the other
    #[arg(long, help_heading = WHERE)]
    serve: bool,
    /// Where the server listens; other than loopback needs a token
    #[arg(long, value_name = "ADDRESS", help_heading = WHERE, default_value = "127.0.0.1:7500", requires = "serve", value_parser = args::address)]
    listen: String,
    /// A file with the token that clients must show, 16 to 512 bytes; only its owner may read it
    #[arg(long, value_name = "FILE", help_heading = WHERE)]
    token_file: Option<PathBuf>,
    /// Bytes of a message, 8 to 16 MiB
    #[arg(long, value_name = "SIZES", help_heading = TEST, value_parser = args::sizes, default_value = "8,64,1KiB,32KiB")]
    size: List<u64>,
    /// Messages in flight on a connection; of one way, messages that a call hands to the kernel
    #[arg(long, value_name = "COUNTS", help_heading = TEST, value_parser = args::counts, default_value = "1,16")]
    depth: List<u64>,
    /// Connections, each with a thread of its own at both ends
    #[arg(long, value_name = "COUNTS", help_heading = TEST, value_parser = args::counts, default_value = "1")]
    connections: List<u64>,
    /// Which way messages go: to the server and back (round trips), to the server, from the server
    #[arg(long, help_heading = TEST, value_enum, value_delimiter = ',', default_value = "echo")]
    direction: Vec<Way>,
    /// What moves the bytes, at both ends: blocking sockets, or io_uring
    #[arg(long, help_heading = TEST, value_enum, value_delimiter = ',', default_value = "sockets")]
    engine: Vec<EngineName>,
    /// Closed loop: a message starts when another has come back. Open loop: messages start at the given rate, whatever the server
    /// does
    #[arg(long, help_heading = TEST, value_enum, default_value = "closed")]
    mode: Loop,
    /// Open loop: the number of messages a second, over all connections
    #[arg(long, value_name = "RATES", help_heading = TEST, value_parser = args::rates, required_if_eq("mode", "open"))]
    rate: Option<List<f64>>,
    /// Send small segments at once (TCP_NODELAY)
    #[arg(long, help_heading = TEST, default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    nodelay: bool,
    /// Bytes of each socket's send and receive buffer [default: the kernel's choice]
    #[arg(long, value_name = "SIZE", help_heading = TEST, value_parser = args::size)]
    buffer: Option<u64>,
    /// How long one run takes
    #[arg(long, value_name = "TIME", help_heading = RUNS, value_parser = args::duration, default_value = "0.2")]
    seconds: Duration,
    /// How long the connections work before the first run
    #[arg(long, value_name = "TIME", help_heading = RUNS, value_parser = args::duration, default_value = "50ms")]
    warm_up: Duration,
    /// Runs of each test; below 6 a number has no 95 % interval
    #[arg(long, value_name = "COUNT", help_heading = RUNS, value_parser = args::count, default_value = "7")]
    repeat: u64,
    /// Pin the threads of this side, client or server, to these cores, in order
    #[arg(long, value_name = "NUMBERS", help_heading = RUNS, value_parser = args::numbers)]
    pin: Option<List<u64>>,
    /// Pin the threads of the server of our own to these cores, in order
    #[arg(long, value_name = "NUMBERS", help_heading = RUNS, value_parser = args::numbers, conflicts_with_all = ["server", "serve"])]
    server_pin: Option<List<u64>>,
    /// The seed of the messages and of the open loop's schedule
    #[arg(long, value_name = "NUMBER", help_heading = RUNS, default_value = "1")]
    seed: u64,
    /// Run iperf3 (one way) and sockperf (round trips of one message) beside each test that they can do, and keep their figures as records
    /// of their own. With --server theirs must have been started there: `iperf3 -s`, `sockperf server --tcp -i 0.0.0.0`
    #[arg(long, help_heading = RUNS, conflicts_with = "serve")]
    beside: bool,
    /// The port of the server of iperf3 that was started on the host of --server
    #[arg(long, value_name = "NUMBER", help_heading = RUNS, default_value_t = 5201, requires_all = ["beside", "server"])]
    iperf3_port: u16,
    /// The port of the server of sockperf that was started on the host of --server
    #[arg(long, value_name = "NUMBER", help_heading = RUNS, default_value_t = 11111, requires_all = ["beside", "server"])]
    sockperf_port: u16,
    /// Append the records to this file, in a folder that is there
    #[arg(long, value_name = "FILE", help_heading = FILES)]
    out: Option<PathBuf>,
    /// For who starts a server for itself: take the token from the first line of standard input, which no other user can read, and
    /// end when standard input ends
    #[arg(long, hide = true, requires = "serve", conflicts_with = "token_file")]
    until_stdin_closes: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Way {
    Echo,
    Send,
    Receive,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum EngineName {
    Sockets,
    #[value(name = "io_uring")]
    IoUring,
}

/// Who decides when a message starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Loop {
    Closed,
    Open,
}

/// Serves, or runs every combination and shows each.
pub fn run(args: Args, globals: &Globals) -> Result<(), Failure> {
    if args.serve {
        return serve::run(&args, globals);
    }
    let plans = args.plans()?;
    let mut show = Show {
        format: globals.format(),
        store: match &args.out {
            Some(path) => Some(output::open_records(path, Durability::Machine)?),
            None => None,
        },
        records: Vec::new(),
    };
    let peers = args
        .beside
        .then(|| beside::Peers::find(args.peers_elsewhere()));
    interrupt::flag();
    let own = match &args.server {
        Some(_) => None,
        None => Some(args.own_server()?),
    };
    let target = args.target(own.as_ref())?;
    let asked = plans.len();
    let swept = args.sweep(&plans, &target, peers.as_ref(), &mut show, globals);
    show.end()?;
    swept?;
    judge_all(&show.records, asked)
}

impl Args {
    /// The cartesian product, engines innermost so that what is compared is measured close together.
    fn plans(&self) -> Result<Vec<Plan>, Failure> {
        if self.mode == Loop::Closed && self.rate.is_some() {
            return Err(Failure::usage(
                "--rate needs --mode open: a closed loop has no rate",
            ));
        }
        for (flag, cores) in [("pin", &self.pin), ("server-pin", &self.server_pin)] {
            check_cores(flag, cores.as_ref())?;
        }
        let loads: Vec<Load> = match &self.rate {
            Some(rates) => {
                let open = |&messages_per_s| Load::Open { messages_per_s };
                rates.iter().map(open).collect()
            }
            None => vec![Load::Closed],
        };
        let mut plans = Vec::new();
        for &direction in &self.direction {
            for &size_bytes in &self.size {
                for &depth in &self.depth {
                    for &connections in &self.connections {
                        for &load in &loads {
                            for &engine in &self.engine {
                                let plan = Plan {
                                    size_bytes,
                                    depth,
                                    connections,
                                    direction: direction.into(),
                                    engine: engine.into(),
                                    load,
                                    nodelay: self.nodelay,
                                    buffer_bytes: self.buffer,
                                    run: self.seconds,
                                    warm_up: self.warm_up,
                                    repeat: self.repeat as u32,
                                    pin: numbers(self.pin.as_ref()),
                                    seed: self.seed,
                                };
                                plan.check().map_err(Failure::usage)?;
                                plans.push(plan);
                            }
                        }
                    }
                }
            }
        }
        Ok(plans)
    }

    /// Where the peers' servers are, unless they are on loopback.
    fn peers_elsewhere(&self) -> Option<beside::Elsewhere> {
        let (host, _) = self.server.as_deref()?.rsplit_once(':')?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        Some(beside::Elsewhere {
            host: host.to_owned(),
            iperf3_port: self.iperf3_port,
            sockperf_port: self.sockperf_port,
        })
    }

    /// A server on a free port of loopback, whose memory and CPU time are its own.
    fn own_server(&self) -> Result<OwnServer<serve::Ready>, Failure> {
        OwnServer::start("a server", |command| {
            command
                .args(["tcp", "--serve", "--until-stdin-closes"])
                .args(["--listen", "127.0.0.1:0"]);
            if let Some(cores) = &self.server_pin {
                let cores: Vec<String> = cores.iter().map(ToString::to_string).collect();
                command.args(["--pin", &cores.join(",")]);
            }
        })
    }

    fn target(&self, own: Option<&OwnServer<serve::Ready>>) -> Result<Target, Failure> {
        let token = self.token_file.as_deref().map(read_token).transpose()?;
        let (addresses, token) = match (own, &self.server) {
            (Some(own), _) => (
                vec![own.ready.listening],
                Some(own.token.as_bytes().to_vec()),
            ),
            (None, server) => {
                let server = server.as_deref().unwrap_or_default();
                let addresses = server.to_socket_addrs();
                let addresses: Vec<SocketAddr> = addresses
                    .map_err(|error| Failure::unavailable(format!("--server {server}: {error}")))?
                    .collect();
                (addresses, token)
            }
        };
        Ok(Target {
            addresses,
            token,
            patience: tcp::PATIENCE,
        })
    }

    fn sweep(
        &self,
        plans: &[Plan],
        target: &Target,
        peers: Option<&beside::Peers>,
        show: &mut Show,
        globals: &Globals,
    ) -> Result<(), Failure> {
        let progress = Progress::of_task(plans.len() as u64, globals);
        for (at, plan) in plans.iter().enumerate() {
            if interrupt::is_set() {
                break;
            }
            progress.set(at as u64, &named(plan));
            let record = self.record(plan, "dpb");
            let record = match tcp::measure(target, plan, interrupt::flag()) {
                Ok(measured) => filled(record, plan, &measured),
                Err(tcp::Failure::Unreachable(why)) => return Err(Failure::unavailable(why)),
                Err(failure) => record.without_numbers(outcome_of(&failure)),
            };
            let own = record.clone();
            show.keep(record)?;
            let Some(peers) = peers else {
                continue;
            };
            for tool in peers.of(plan) {
                if interrupt::is_set() {
                    break;
                }
                let record = self.record(plan, tool.name());
                show.keep(peers.measured(tool, record, plan, &own))?;
            }
        }
        Ok(())
    }

    fn record(&self, plan: &Plan, tool: &str) -> Record {
        let mut record = Record::new("tcp", Evidence::of_this_cpu(), self.seed)
            .with("tool", tool)
            .with("server", self.server.as_deref().unwrap_or("loopback"))
            .with("size", plan.size_bytes)
            .with("depth", plan.depth)
            .with("connections", plan.connections)
            .with("direction", direction_name(plan.direction))
            .with("mode", mode_name(plan.load))
            .with("engine", engine_name(plan.engine))
            .with("nodelay", plan.nodelay)
            .with("seconds", plan.run.as_secs_f64())
            .with("repeat", u64::from(plan.repeat));
        if let Load::Open { messages_per_s } = plan.load {
            record = record.with("rate", messages_per_s);
        }
        if let Some(bytes) = plan.buffer_bytes {
            record = record.with("buffer", bytes);
        }
        if let Some(cores) = &self.server_pin {
            let cores: Vec<String> = cores.iter().map(ToString::to_string).collect();
            record = record.with("server_pin", cores.join(","));
        }
        record.provenance.pinned = plan.pin.clone();
        record
    }
}

/// Where results go.
struct Show {
    format: Format,
    store: Option<Store>,
    records: Vec<Record>,
}

impl Show {
    fn keep(&mut self, record: Record) -> Result<(), Failure> {
        if let Some(store) = &mut self.store {
            store.append(&record).map_err(anyhow::Error::from)?;
        }
        if self.format == Format::Json {
            output::print_json(&record)?;
        }
        self.records.push(record);
        Ok(())
    }

    fn end(&self) -> Result<(), Failure> {
        table::print(&self.records, self.format)
    }
}

/// The record with what was measured.
fn filled(mut record: Record, plan: &Plan, measured: &Measured) -> Record {
    let server = &measured.server;
    let of_server = format!(
        "{} on {}: {}",
        server.software, server.host, server.cpu_model
    );
    let libraries = &mut record.provenance.libraries;
    libraries.insert("server".to_owned(), of_server);
    record = match &measured.link {
        Link::Loopback => record.with("link", "loopback").with("wire", false),
        Link::Virtual(name) => record.with("link", name.as_str()).with("wire", false),
        Link::Device(name) => record.with("link", name.as_str()).with("wire", true),
        Link::Unknown => record.with("link", "unknown"),
    };
    if measured.interrupted {
        record.outcome = Outcome::Interrupted;
    }
    let runs = &measured.runs;
    let each = |of: &dyn Fn(&Run) -> f64| runs.iter().map(of).collect::<Vec<f64>>();
    let per_s = |of: fn(&Run) -> u64| each(&|run| of(run) as f64 * 1e9 / run.elapsed_ns as f64);
    record.sample("messages_per_s", per_s(|run| run.messages));
    // One way: an echo carries as much in either.
    record.sample(
        "bytes_per_s",
        per_s(|run| run.sent_bytes.max(run.received_bytes)),
    );
    for (name, of) in [
        (
            "bytes_per_s_sent",
            (|run| run.sent_bytes) as fn(&Run) -> u64,
        ),
        ("bytes_per_s_received", |run| run.received_bytes),
    ] {
        if runs.iter().any(|run| of(run) > 0) {
            record.sample(name, per_s(of));
        }
    }
    for (end, of) in [
        ("client", (|run| run.client_cpu_ns) as fn(&Run) -> u64),
        ("server", |run| run.server_cpu_ns),
    ] {
        let cpu = |by: u64, run: &Run| of(run) as f64 / by.max(1) as f64;
        let by_message = each(&|run| cpu(run.messages, run));
        record.sample(&format!("{end}_cpu_ns_per_message"), by_message);
        let by_byte = each(&|run| cpu(run.sent_bytes.max(run.received_bytes), run));
        record.sample(&format!("{end}_cpu_ns_per_byte"), by_byte);
    }
    add_counts(&mut record, runs);
    add_latencies(&mut record, plan, runs);
    record.check = Some(Check {
        against: "the messages' numbers and their pattern, all bytes".to_owned(),
        compared: runs.iter().map(|run| run.messages).sum(),
        digest: None,
    });
    add_verdict(&mut record, plan, measured);
    record
}

fn add_counts(record: &mut Record, runs: &[Run]) {
    let sum = |of: fn(&Run) -> u64| runs.iter().map(of).sum::<u64>();
    let counts = [
        ("messages", sum(|run| run.messages)),
        ("bytes_sent", sum(|run| run.sent_bytes)),
        ("bytes_received", sum(|run| run.received_bytes)),
    ];
    let counts = counts.map(|(name, count)| (name.to_owned(), count));
    record.counts.extend(counts);
    let again: Option<u64> = runs.iter().map(|run| run.retransmissions).sum();
    if let Some(again) = again {
        record.counts.insert("retransmissions".to_owned(), again);
    }
}

/// A percentile is taken of each run, so that it has an interval; the histogram is of all runs.
fn add_latencies(record: &mut Record, plan: &Plan, runs: &[Run]) {
    if plan.direction != Direction::Echo {
        return;
    }
    let mut all = Latencies::default();
    runs.iter().for_each(|run| all.add(&run.latencies));
    let each = |of: &dyn Fn(&Run) -> f64| runs.iter().map(of).collect::<Vec<f64>>();
    for (name, share) in PERCENTILES {
        let values = each(&|run| run.latencies.percentile_ns(share) as f64);
        record.sample(&format!("latency_ns_{name}"), values);
    }
    record.sample("latency_ns_max", each(&|run| run.latencies.max_ns() as f64));
    let mean = |run: &Run| run.latency_sum_ns as f64 / run.latencies.count().max(1) as f64;
    record.sample("latency_ns_mean", each(&mean));
    let histogram = Samples {
        values: Vec::new(),
        hdr: Some(all.to_base64()),
    };
    record.samples.insert("latency_ns".to_owned(), histogram);
    if let Load::Open { messages_per_s } = plan.load {
        let delays = each(&|run| run.delays.percentile_ns(0.99) as f64);
        record.sample("start_delay_ns_p99", delays);
        let unserved = runs.iter().map(|run| run.unserved).sum();
        let counts = &mut record.counts;
        counts.insert("arrivals_unserved".to_owned(), unserved);
        let offered = Summary {
            median: messages_per_s,
            ci95_low: None,
            ci95_high: None,
            samples: 1,
        };
        let summary = &mut record.summary;
        summary.insert("offered_messages_per_s".to_owned(), offered);
    }
}

fn add_verdict(record: &mut Record, plan: &Plan, measured: &Measured) {
    let runs = &measured.runs;
    let name = match plan.load {
        Load::Open { .. } => "latency_ns_p50",
        Load::Closed => "messages_per_s",
    };
    let series = record.samples.get(name);
    let series = series.map_or(&[][..], |samples| &samples.values);
    // The waits are those of both ends' threads.
    let workers = 2 * plan.connections as u32;
    let asked = plan.repeat as usize;
    let mut verdict = judge(series, asked, workers, &measured.interference);
    let unserved: u64 = runs.iter().map(|run| run.unserved).sum();
    let served: u64 = runs.iter().map(|run| run.messages).sum();
    if unserved * UNSERVED_SHARE > served {
        verdict.stable = false;
        verdict.reasons.push(format!(
            "fell behind: {unserved} of {} arrivals not served, latencies are lower bounds",
            unserved + served
        ));
    }
    record.stability = Some(verdict);
}

fn outcome_of(failure: &tcp::Failure) -> Outcome {
    let reason = failure.to_string();
    match failure {
        tcp::Failure::Unavailable(_) => Outcome::Unsupported { reason },
        _ => Outcome::Failed { reason },
    }
}

fn judge_all(records: &[Record], asked: usize) -> Result<(), Failure> {
    let failed = records.iter().find_map(|record| match &record.outcome {
        Outcome::Failed { reason } => Some((record, reason)),
        _ => None,
    });
    if let Some((record, reason)) = failed {
        let of = |name: &str| record.parameters[name].to_string();
        return Err(Failure::check(format!(
            "{} of {} bytes, depth {}, by {}: {reason}; there is no number for it",
            of("direction"),
            of("size"),
            of("depth"),
            of("tool"),
        )));
    }
    if interrupt::is_set() {
        let done = records
            .iter()
            .filter(|record| record.parameters["tool"].to_string() == "dpb");
        return Err(Failure::interrupted(format!(
            "interrupted after {} of {asked} tests",
            done.count()
        )));
    }
    if records.iter().any(|record| record.outcome == Outcome::Done) {
        return Ok(());
    }
    let reasons = records.iter().find_map(|record| match &record.outcome {
        Outcome::Unsupported { reason } => Some(reason.as_str()),
        _ => None,
    });
    Err(Failure::unavailable(format!(
        "nothing that was asked for is available: {}",
        reasons.unwrap_or("no test")
    )))
}

/// Cores that this process may use.
fn check_cores(flag: &str, cores: Option<&List<u64>>) -> Result<(), Failure> {
    let cpus = allowed_cpus();
    let is_foreign =
        |core: &&u64| !cpus.is_empty() && !cpus.iter().any(|&cpu| u64::from(cpu) == **core);
    match cores.into_iter().flatten().find(is_foreign) {
        Some(core) => Err(Failure::usage(format!(
            "--{flag} {core}: this process may not use such a core; it may use {cpus:?}"
        ))),
        None => Ok(()),
    }
}

fn numbers(list: Option<&List<u64>>) -> Vec<u32> {
    list.into_iter().flatten().map(|&n| n as u32).collect()
}

fn named(plan: &Plan) -> String {
    format!(
        "{} {} B, depth {}, {} connections, {}",
        direction_name(plan.direction),
        plan.size_bytes,
        plan.depth,
        plan.connections,
        engine_name(plan.engine)
    )
}

impl From<Way> for Direction {
    fn from(way: Way) -> Self {
        match way {
            Way::Echo => Self::Echo,
            Way::Send => Self::Send,
            Way::Receive => Self::Receive,
        }
    }
}

impl From<EngineName> for Engine {
    fn from(name: EngineName) -> Self {
        match name {
            EngineName::Sockets => Self::Sockets,
            EngineName::IoUring => Self::IoUring,
        }
    }
}

fn direction_name(direction: Direction) -> &'static str {
    match direction {
        Direction::Echo => "echo",
        Direction::Send => "send",
        Direction::Receive => "receive",
    }
}

fn engine_name(engine: Engine) -> &'static str {
    match engine {
        Engine::Sockets => "sockets",
        Engine::IoUring => "io_uring",
    }
}

fn mode_name(load: Load) -> &'static str {
    match load {
        Load::Closed => "closed",
        Load::Open { .. } => "open",
    }
}
