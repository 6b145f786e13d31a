//! iperf3 and sockperf beside dpb, told the same: on loopback with servers of their own, elsewhere against servers that a person has started.
//!
//! iperf3 measures one direction, over several connections with one process at each end. Its blocks have as many bytes as one call of
//! dpb's hands to the kernel. sockperf measures round trips of one message on one connection. Neither checks the bytes that it receives.

use std::fs;
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use dpb_core::measure::import::{Origin, Program};
use dpb_core::measure::statistics::judge;
use dpb_core::measure::{Evidence, Interference, Outcome, Record};
use dpb_micro::tcp::{Direction, Engine, Load, Plan};
use rustix::process::{Pid, Signal, kill_process};

use crate::interrupt;

/// iperf3's longest block.
const IPERF3_BYTES_MAX: u64 = 1 << 20;
/// sockperf's messages: its own header, and what its help says is the longest.
const SOCKPERF_BYTES: std::ops::RangeInclusive<u64> = 14..=65_507;
/// What a run of theirs may take besides its time.
const GRACE_S: u64 = 10;
/// A server of theirs on another machine answers by then.
const REACH: Duration = Duration::from_secs(2);
/// A server of theirs listens by then.
const START: Duration = Duration::from_secs(5);

/// A program that measures TCP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Tool {
    /// With its version, or why it is not here.
    Iperf3(Result<String, String>),
    /// The same.
    Sockperf(Result<String, String>),
}

/// The programs.
#[derive(Debug)]
pub(super) struct Peers {
    iperf3: Tool,
    sockperf: Tool,
    /// Where servers of theirs are; `None` for loopback, where each run starts one.
    elsewhere: Option<Elsewhere>,
}

/// The machine on which a person has started their servers.
#[derive(Clone, Debug)]
pub(super) struct Elsewhere {
    pub(super) host: String,
    pub(super) iperf3_port: u16,
    pub(super) sockperf_port: u16,
}

/// The server of a run: its address, and itself where it is of our own.
struct ServerOfRun {
    host: String,
    port: u16,
    _own: Option<Serving>,
}

impl Elsewhere {
    fn port(&self, tool: &Tool) -> u16 {
        match tool {
            Tool::Iperf3(_) => self.iperf3_port,
            Tool::Sockperf(_) => self.sockperf_port,
        }
    }

    /// True if the tool's server listens there.
    ///
    /// # Errors
    /// What to start there.
    fn check(&self, tool: &Tool) -> Result<(), String> {
        let (host, port) = (self.host.as_str(), self.port(tool));
        let addresses = (host, port).to_socket_addrs();
        let is_there = addresses.is_ok_and(|mut addresses| {
            addresses.any(|address| TcpStream::connect_timeout(&address, REACH).is_ok())
        });
        let words = match tool {
            Tool::Iperf3(_) => format!("iperf3 -s -p {port}"),
            Tool::Sockperf(_) => format!("sockperf server --tcp -i 0.0.0.0 -p {port}"),
        };
        match is_there {
            true => Ok(()),
            false => Err(format!(
                "no server of {0} at {host}:{port}: start `{words}` there, or name its port with --{0}-port",
                tool.name()
            )),
        }
    }
}

impl Peers {
    /// Looks for them.
    pub(super) fn find(elsewhere: Option<Elsewhere>) -> Self {
        Self {
            iperf3: Tool::Iperf3(version("iperf3")),
            sockperf: Tool::Sockperf(version("sockperf")),
            elsewhere,
        }
    }

    /// The record with a tool's figures, whatever comes of it. `beside` is dpb's of the same test: both cross the same link.
    pub(super) fn measured(
        &self,
        tool: &Tool,
        record: Record,
        plan: &Plan,
        beside: &Record,
    ) -> Record {
        let mut record = record;
        for name in ["link", "wire"] {
            if let Some(value) = beside.parameters.get(name) {
                record.parameters.insert(name.to_owned(), value.clone());
            }
        }
        tool.measured(record, plan, self.elsewhere.as_ref())
    }

    /// Those that can do what a plan says. They have sockets and no ring, so they stand beside the engine `sockets`.
    pub(super) fn of(&self, plan: &Plan) -> Vec<&Tool> {
        let is_plain = plan.load == Load::Closed && plan.engine == Engine::Sockets;
        let is_single = plan.depth == 1 && plan.connections == 1;
        match plan.direction {
            _ if !is_plain => Vec::new(),
            Direction::Echo if is_single && SOCKPERF_BYTES.contains(&plan.size_bytes) => {
                vec![&self.sockperf]
            }
            Direction::Send | Direction::Receive
                if plan.size_bytes * plan.depth <= IPERF3_BYTES_MAX && plan.connections <= 128 =>
            {
                vec![&self.iperf3]
            }
            _ => Vec::new(),
        }
    }
}

impl Tool {
    /// Its name, which is the parameter `tool`.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Iperf3(_) => "iperf3",
            Self::Sockperf(_) => "sockperf",
        }
    }

    /// The record with its figures, whatever comes of it. Its runs take whole seconds.
    fn measured(&self, record: Record, plan: &Plan, elsewhere: Option<&Elsewhere>) -> Record {
        let (Self::Iperf3(found) | Self::Sockperf(found)) = self;
        let version = match found {
            Ok(version) => version.clone(),
            Err(reason) => {
                let reason = reason.clone();
                return record.without_numbers(Outcome::Unsupported { reason });
            }
        };
        if let Some(Err(reason)) = elsewhere.map(|elsewhere| elsewhere.check(self)) {
            return record.without_numbers(Outcome::Unsupported { reason });
        }
        let seconds = plan.run.as_secs_f64().ceil().max(1.0);
        let mut record = record.with("seconds", seconds);
        record
            .provenance
            .libraries
            .insert(self.name().to_owned(), version);
        let mut runs = Vec::new();
        for _ in 0..plan.repeat {
            let run = self.run(plan, seconds as u64, elsewhere);
            match run {
                Ok(run) => runs.push(run),
                Err(_) if interrupt::is_set() => break,
                Err(reason) => return record.without_numbers(Outcome::Failed { reason }),
            }
        }
        if runs.len() < plan.repeat as usize {
            record.outcome = Outcome::Interrupted;
        }
        fill(&mut record, plan, &runs);
        record
    }

    fn run(
        &self,
        plan: &Plan,
        seconds: u64,
        elsewhere: Option<&Elsewhere>,
    ) -> Result<Figures, String> {
        let at = match elsewhere {
            Some(elsewhere) => ServerOfRun {
                host: elsewhere.host.clone(),
                port: elsewhere.port(self),
                _own: None,
            },
            None => self.serve(plan, seconds)?,
        };
        match self {
            Self::Iperf3(_) => iperf3(plan, seconds, &at),
            Self::Sockperf(_) => sockperf(plan, seconds, &at),
        }
    }

    /// A server on loopback, for one run.
    fn serve(&self, plan: &Plan, seconds: u64) -> Result<ServerOfRun, String> {
        const HERE: &str = "127.0.0.1";
        let port = free_port()?;
        let mut server = bounded(self.name(), seconds);
        match self {
            Self::Iperf3(_) => {
                server.args(["-s", "-1", "-B", HERE, "-p", &port.to_string()]);
            }
            Self::Sockperf(_) => {
                server.arg("server");
                tell_sockperf(&mut server, plan, HERE, port);
            }
        }
        Ok(ServerOfRun {
            host: HERE.to_owned(),
            port,
            _own: Some(Serving::start(server, port)?),
        })
    }
}

/// Figures of one run by their names in a record.
type Figures = Vec<(&'static str, f64)>;

fn fill(record: &mut Record, plan: &Plan, runs: &[Figures]) {
    let names = runs.first().into_iter().flatten().map(|(name, _)| *name);
    for name in names {
        let of_run = |run: &Figures| {
            run.iter()
                .find(|(other, _)| *other == name)
                .map(|(_, value)| *value)
        };
        let values: Vec<f64> = runs.iter().filter_map(of_run).collect();
        match name {
            "retransmissions" => {
                let sum = values.iter().sum::<f64>() as u64;
                record.counts.insert(name.to_owned(), sum);
            }
            _ => record.sample(name, values),
        }
    }
    let series = record.samples.get("messages_per_s");
    let series = series.map_or(&[][..], |samples| &samples.values);
    let asked = plan.repeat as usize;
    record.stability = Some(judge(series, asked, 1, &Interference::default()));
}

/// The first line that a program says of its version.
fn version(program: &str) -> Result<String, String> {
    let missing = || format!("{program} is not installed; apt-get install {program}");
    let output = Command::new(program)
        .arg("--version")
        .stdin(Stdio::null())
        .output();
    let output = output.map_err(|_| missing())?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().next().map(str::to_owned).ok_or_else(missing)
}

fn iperf3(plan: &Plan, seconds: u64, at: &ServerOfRun) -> Result<Figures, String> {
    let text = |number: u64| number.to_string();
    let mut client = bounded("iperf3", seconds);
    client.args(["-J", "-c", &at.host, "-p", &at.port.to_string()]);
    client.args(["-t", &text(seconds), "-P", &text(plan.connections)]);
    client.args(["-l", &text(plan.size_bytes * plan.depth)]);
    if plan.direction == Direction::Receive {
        client.arg("-R");
    }
    if plan.nodelay {
        client.arg("-N");
    }
    if let Some(bytes) = plan.buffer_bytes {
        client.args(["-w", &text(bytes)]);
    }
    if let Some(core) = plan.pin.first() {
        client.args(["-A", &core.to_string()]);
    }
    let said = finished("iperf3", client)?;
    let origin = Origin {
        host: None,
        evidence: Evidence::of_this_cpu(),
    };
    let records = Program::Iperf3.records(&said, &origin);
    let records = records.map_err(|error| format!("iperf3: {error}"))?;
    let record = records.first().ok_or("iperf3 measured nothing")?;
    if let Outcome::Failed { reason } = &record.outcome {
        return Err(format!("iperf3: {reason}"));
    }
    let of = |name: &str| record.summary.get(name).map(|summary| summary.median);
    let bytes_per_s = of("bytes_per_s").ok_or("iperf3 gives no throughput")?;
    let mut figures = vec![
        ("messages_per_s", bytes_per_s / plan.size_bytes as f64),
        ("bytes_per_s", bytes_per_s),
    ];
    for (share, name) in [
        ("cpu_share_here", "client_cpu_ns_per_byte"),
        ("cpu_share_there", "server_cpu_ns_per_byte"),
    ] {
        figures.extend(of(share).map(|share| (name, share * 1e9 / bytes_per_s)));
    }
    let again = record.counts.get("retransmits");
    figures.extend(again.map(|&count| ("retransmissions", count as f64)));
    Ok(figures)
}

/// What both ends of sockperf are told.
fn tell_sockperf(command: &mut Command, plan: &Plan, host: &str, port: u16) {
    command.args(["--tcp", "-i", host, "-p", &port.to_string()]);
    if !plan.nodelay {
        command.arg("--tcp-avoid-nodelay");
    }
    if let Some(bytes) = plan.buffer_bytes {
        command.args(["--buffer-size", &bytes.to_string()]);
    }
}

fn sockperf(plan: &Plan, seconds: u64, at: &ServerOfRun) -> Result<Figures, String> {
    let mut client = bounded("sockperf", seconds);
    client.args(["ping-pong", "--full-rtt"]);
    tell_sockperf(&mut client, plan, &at.host, at.port);
    client.args([
        "-m",
        &plan.size_bytes.to_string(),
        "-t",
        &seconds.to_string(),
    ]);
    parse_sockperf(&finished("sockperf", client)?)
        .ok_or_else(|| "sockperf's output has no figures".to_owned())
}

/// Of `sockperf ping-pong --full-rtt`.
fn parse_sockperf(said: &str) -> Option<Figures> {
    let behind = |text: &str| {
        let (_, rest) = said.rsplit_once(text)?;
        let rest = rest.trim_start_matches([' ', '=']);
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.');
        rest[..end.unwrap_or(rest.len())].parse::<f64>().ok()
    };
    let seconds = behind("[Valid Duration] RunTime=")?;
    let messages = behind("ReceivedMessages=")?;
    let mut figures = vec![("messages_per_s", messages / seconds)];
    for (text, name) in [
        ("percentile 50.000 ", "latency_ns_p50"),
        ("percentile 90.000 ", "latency_ns_p90"),
        ("percentile 99.000 ", "latency_ns_p99"),
        ("percentile 99.900 ", "latency_ns_p999"),
        ("<MAX> observation ", "latency_ns_max"),
        ("Round trip is ", "latency_ns_mean"),
    ] {
        figures.push((name, behind(text)? * 1e3));
    }
    Some(figures)
}

/// A program that ends by itself, whatever becomes of this one.
fn bounded(program: &str, seconds: u64) -> Command {
    let mut command = Command::new("timeout");
    command.args([&(seconds + GRACE_S).to_string(), program]);
    command.stdin(Stdio::null());
    command
}

/// What a program said that succeeded.
fn finished(program: &str, mut command: Command) -> Result<String, String> {
    let output = command.output();
    let Output {
        status,
        stdout,
        stderr,
    } = output.map_err(|error| format!("{program}: {error}"))?;
    let stdout = String::from_utf8_lossy(&stdout).into_owned();
    match status.success() || stdout.contains("\"error\"") {
        true => Ok(stdout),
        false => {
            let stderr = String::from_utf8_lossy(&stderr);
            let last = stderr
                .lines()
                .chain(stdout.lines())
                .last()
                .unwrap_or_default();
            Err(format!("{program} ended with {status}: {last}"))
        }
    }
}

/// A port of loopback that nobody listens on, a moment ago.
fn free_port() -> Result<u16, String> {
    let listener = TcpListener::bind("127.0.0.1:0");
    let address = listener.and_then(|listener| listener.local_addr());
    address
        .map(|address| address.port())
        .map_err(|error| format!("no port: {error}"))
}

/// A server of theirs, ended with this value.
struct Serving(Child);

impl Serving {
    fn start(mut command: Command, port: u16) -> Result<Self, String> {
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().map_err(|error| error.to_string())?;
        let serving = Self(child);
        let until = Instant::now() + START;
        while !listens(port) {
            if Instant::now() > until {
                return Err(format!("a server does not listen on port {port}"));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(serving)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // `timeout` hands this on to its program.
        let pid = Pid::from_child(&self.0);
        let _ = kill_process(pid, Signal::TERM);
        let _ = self.0.wait();
    }
}

/// Whether somebody listens on a port. Who tries by connecting is taken for a client.
fn listens(port: u16) -> bool {
    let table = fs::read_to_string("/proc/net/tcp").unwrap_or_default();
    let local = format!(":{port:04X}");
    table.lines().any(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        // 0A is LISTEN.
        matches!(fields[..], [_, address, _, "0A", ..] if address.ends_with(&local))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockperfs_words_are_figures() {
        // As sockperf 3.7 wrote it, colours and all.
        let said = "sockperf: [Total Run] RunTime=1.000 sec; Warm up time=400 msec; SentMessages=30330; ReceivedMessages=30329\n\
                    sockperf: ========= Printing statistics for Server No: 0\n\
                    sockperf: [Valid Duration] RunTime=0.552 sec; SentMessages=16505; ReceivedMessages=16505\n\
                    sockperf: \u{1b}[2;35m====> avg-rtt=33.395 (std-dev=265.579)\u{1b}[0m\n\
                    sockperf: # dropped messages = 0; # duplicated messages = 0; # out-of-order messages = 0\n\
                    sockperf: Summary: Round trip is 33.395 usec\n\
                    sockperf: \u{1b}[2;35mTotal 16505 observations\u{1b}[0m; each percentile contains 165.05 observations\n\
                    sockperf: ---> <MAX> observation = 10650.437\n\
                    sockperf: ---> percentile 99.999 = 10650.437\n\
                    sockperf: ---> percentile 99.990 = 6781.834\n\
                    sockperf: ---> percentile 99.900 = 4897.160\n\
                    sockperf: ---> percentile 99.000 =   31.739\n\
                    sockperf: ---> percentile 90.000 =   17.412\n\
                    sockperf: ---> percentile 50.000 =   16.310\n";
        let figures = parse_sockperf(said).expect("figures");
        let of = |name: &str| {
            figures
                .iter()
                .find(|(other, _)| *other == name)
                .expect(name)
                .1
        };
        for (name, ns) in [
            ("latency_ns_p50", 16310.0),
            ("latency_ns_p999", 4_897_160.0),
            ("latency_ns_max", 10_650_437.0),
            ("latency_ns_mean", 33395.0),
        ] {
            assert!((of(name) - ns).abs() < 1e-3, "{name}: {}", of(name));
        }
        assert!((of("messages_per_s") - 16505.0 / 0.552).abs() < 1e-6);
        assert_eq!(parse_sockperf("sockperf: ERROR"), None);
    }
}
