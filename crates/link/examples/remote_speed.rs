//! What the way to another machine costs, over loopback: the time that it adds to a job of one item of 64 bytes, the throughput of copies
//! and of DEFLATE beside the same backend without a wire, and the time on a core that the thread of the queue takes for a job. `remote/…` is
//! driven beside the local backend in turns. With `--tls` the connection is a session that is encrypted, else it is plain TCP.
//!
//! ```text
//! cargo run --release -p dpb-link --no-default-features --example remote_speed
//! cargo run --release -p dpb-link --example remote_speed -- --tls
//! ```

use std::collections::VecDeque;
use std::net::TcpListener;
use std::num::NonZeroU32;
#[cfg(feature = "tls")]
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use dpb_core::{
    Backend, Clock, Completion, Family, Items, Job, OpSpec, OpenError, Operator, ParameterValue,
    Queue, SetupError, Unsupported, WallClock,
};
use dpb_link::operators::{OperatorsService, Remote, SessionSecurity, tcp};
use dpb_operators::cpu::Cpu;
use dpb_operators::registry::{self, Operators};

/// Rounds of each side.
const ROUNDS: usize = 7;
const ROUND: Duration = Duration::from_millis(300);

fn resolve(name: &str, values: &[(&str, ParameterValue)]) -> Result<OpSpec, SetupError> {
    Operators::DPB.spec_from(name, values)
}

/// The backend `cpu` of an agent in this process, over plain TCP.
fn plain() -> Result<Box<dyn Backend>, OpenError> {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let address = listener.local_addr().expect("bound");
    thread::spawn(move || {
        let service: &_ = Box::leak(Box::new(service()));
        for stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let (wire, client) = (Box::new(stream), address.ip());
                service.serve_wire(wire, client, SessionSecurity::Loopback, &|| false)
            });
        }
    });
    Remote::new(tcp, resolve).open(&format!("{address}/cpu"))
}

/// The same in an encrypted session.
#[cfg(feature = "tls")]
fn encrypted() -> Result<Box<dyn Backend>, OpenError> {
    use dpb_link::operators::Sessions;
    use dpb_link::{Access, Agent, AgentOptions, Pass, ServerCredentials, Token};

    let token = Token::random().expect("random bytes");
    let credentials = ServerCredentials::one_time(token).expect("a key");
    let pass = Pass::Credentials(credentials.for_clients());
    let mut options = AgentOptions::new("127.0.0.1:0".parse().expect("an address"));
    options.access = Access::Credentials(credentials);
    let agent = Agent::bind(options, vec![Arc::new(service())]).expect("loopback");
    let address = agent.address();
    thread::spawn(move || agent.run(&|| false));
    let sessions = Sessions::new(move || Ok(pass.clone()));
    Remote::new(sessions, resolve).open(&format!("{address}/cpu"))
}

#[cfg(not(feature = "tls"))]
fn encrypted() -> Result<Box<dyn Backend>, OpenError> {
    let reason = "this example was built without the feature `tls`".to_owned();
    Err(Unsupported { reason }.into())
}

fn service() -> OperatorsService {
    let open = |name: &str| match name {
        "cpu" => Ok(Box::new(Cpu::best()) as Box<dyn Backend>),
        _ => Err(Unsupported {
            reason: format!("no backend {name}"),
        }),
    };
    OperatorsService::new(Box::new(open), resolve)
}

fn main() {
    let remote = match std::env::args().any(|word| word == "--tls") {
        true => encrypted(),
        false => plain(),
    };
    let sides: [Box<dyn Backend>; 2] = [Box::new(Cpu::best()), remote.expect("an agent")];
    for (name, item_bytes, depth) in [
        ("crc32c", 64, 1),
        ("copy", 16 << 10, 8),
        ("deflate", 64 << 10, 8),
    ] {
        let mut lanes = sides
            .each_ref()
            .map(|side| Lane::new(&**side, name, item_bytes, depth));
        let (mut ns, mut cpu_ns) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
        for _ in 0..ROUNDS {
            for (side, lane) in lanes.iter_mut().enumerate() {
                let [wall, cpu] = lane.ns_per_job();
                ns[side].push(wall);
                cpu_ns[side].push(cpu);
            }
        }
        let median = |mut ns: Vec<f64>| {
            ns.sort_by(f64::total_cmp);
            ns[ROUNDS / 2]
        };
        let [here, there] = ns.map(median);
        let [cpu_here, cpu_there] = cpu_ns.map(median);
        let mb_per_s = |ns: f64| item_bytes as f64 / ns * 1e3;
        println!(
            "{name}, {item_bytes} bytes, depth {depth}: here {here:.0} ns a job ({:.0} MB/s), remote {there:.0} ns ({:.0} MB/s); \
             the way adds {:.0} ns; on this thread's core {cpu_here:.0} ns here, {cpu_there:.0} ns remote",
            mb_per_s(here),
            mb_per_s(there),
            there - here
        );
    }
}

/// A queue that is kept full.
struct Lane {
    queue: Box<dyn Queue>,
    ready: VecDeque<Job>,
    done: Vec<Completion>,
    clock: WallClock,
}

impl Lane {
    fn new(backend: &dyn Backend, name: &str, item_bytes: usize, depth: u32) -> Self {
        let spec = registry::find(name).expect("registered").default_spec();
        let operator = backend.prepare(&spec).expect("an operator");
        let depth = NonZeroU32::new(depth).expect("not zero");
        let job = |tag: u32| job(&*operator, backend, tag, item_bytes);
        let ready = (0..depth.get()).map(job).collect();
        Self {
            queue: operator.clone().open(depth).expect("a queue"),
            ready,
            done: Vec::with_capacity(depth.get() as usize),
            clock: WallClock::default(),
        }
    }

    /// The time of a job, and the part of it that this thread had a core.
    fn ns_per_job(&mut self) -> [f64; 2] {
        let (start_ns, start_cpu_ns) = (self.clock.now_ns(), thread_cpu_ns());
        let mut jobs = 0;
        loop {
            self.queue.submit(&mut self.ready);
            if self.queue.poll(&mut self.done) == 0 {
                self.queue.wait(Duration::from_millis(1));
            }
            jobs += self.done.len();
            for Completion { job, result } in self.done.drain(..) {
                result.expect("carried out");
                self.ready.push_back(job);
            }
            let ns = self.clock.now_ns() - start_ns;
            if ns > ROUND.as_nanos() as u64 && jobs > 0 {
                let cpu_ns = thread_cpu_ns() - start_cpu_ns;
                return [ns, cpu_ns].map(|ns| ns as f64 / jobs as f64);
            }
        }
    }
}

/// The time for which this thread has had a core.
fn thread_cpu_ns() -> u64 {
    use rustix::time::{ClockId, clock_gettime};
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

/// A job of one item: text that compresses about as prose does.
fn job(operator: &dyn Operator, backend: &dyn Backend, tag: u32, item_bytes: usize) -> Job {
    let mut src = backend.alloc(item_bytes).expect("memory");
    let words = ["the ", "wire ", "between ", "two ", "machines ", "costs "];
    let mut random = dpb_core::random::SplitMix64::new(tag.into());
    let text = std::iter::repeat_with(|| words[random.below(words.len())].bytes()).flatten();
    src.iter_mut().zip(text).for_each(|(byte, of)| *byte = of);
    let dst = backend.alloc(operator.dst_len(item_bytes)).expect("memory");
    let items = Items::fixed(item_bytes as u32, 1);
    Job::new(tag.into(), src, items, dst, operator.shape())
}
