//! Operators in sessions: encrypted, with a token, and side by side with another service.

mod operators_support;

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use dpb_core::conformance::Suite;
use dpb_core::{Backend, Family, Items, Job, JobError, Timer, WallClock};
use dpb_link::operators::{NAME, Remote, Sessions};
use dpb_link::{
    Access, Agent, AgentOptions, ClientCredentials, Connect, Pass, ServerCredentials, Token, echo,
};
use dpb_operators::registry;
use operators_support::{resolve, service};

/// An agent that ends when this is dropped.
struct Running {
    address: String,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    fn start(access: Access) -> Self {
        let options = AgentOptions {
            access,
            ..AgentOptions::new("127.0.0.1:0".parse().expect("an address"))
        };
        let clock: Arc<dyn Timer> = Arc::new(WallClock::default());
        let services: Vec<Arc<dyn dpb_link::Service>> =
            vec![Arc::new(echo::Echo::new(None, &clock)), Arc::new(service())];
        let agent = Agent::bind(options, services).expect("loopback");
        let (address, stop) = (
            agent.address().to_string(),
            Arc::new(AtomicBool::new(false)),
        );
        let stopped = stop.clone();
        let run = move || agent.run(&|| stopped.load(Ordering::Relaxed));
        Self {
            address,
            stop,
            thread: Some(thread::spawn(run)),
        }
    }

    fn end(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the agent does not panic");
        }
    }

    fn open(&self, pass: Pass) -> Result<Box<dyn Backend>, String> {
        let remote = Remote::new(Sessions::new(move || Ok(pass.clone())), resolve);
        let backend = remote.open(&format!("{}/cpu", self.address));
        backend.map_err(|why| why.to_string())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

fn conforms(backend: &dyn Backend, names: &[&str]) {
    for name in names {
        let entry = registry::find(name).expect("registered");
        let workload = entry.workload(entry.default_case()).expect("its own spec");
        let coverage = Suite::default().check(backend, &[&*workload]);
        let coverage = coverage.unwrap_or_else(|failure| panic!("{failure}"));
        assert!(coverage.items > 0, "{name}: nothing compared");
    }
}

fn credentials() -> (ServerCredentials, ClientCredentials) {
    let folder = tempfile::tempdir().expect("a folder");
    let server = ServerCredentials::make(&folder.path().join("credentials"));
    let server = server.expect("a certificate");
    let client = server.for_clients();
    (server, client)
}

/// With keys, which only an encrypted session carries to another machine.
#[test]
fn operators_conform_in_encrypted_sessions() {
    let (server, client) = credentials();
    let running = Running::start(Access::Credentials(server));
    let backend = running.open(Pass::Credentials(client)).expect("let in");
    conforms(&*backend, &["aes-gcm", "crc32c", "deflate"]);
}

#[test]
fn operators_conform_with_a_token() {
    let token = Token::random().expect("random bytes");
    let mut running = Running::start(Access::Token(token.clone()));
    let backend = running.open(Pass::Token(token)).expect("let in");
    conforms(&*backend, &["crc32c"]);
    let device = backend.properties().made_of.device.expect("where it is");
    assert!(device.contains("CPUs, dpb "), "{device}");
    // The agent ends while a queue is open: its jobs fail, and do not hang.
    let spec = registry::find("crc32c").expect("registered").default_spec();
    let operator = backend.prepare(&spec).expect("an operator");
    let mut queue = operator.clone().open(NonZeroU32::MIN).expect("a queue");
    running.end();
    let (src, dst) = (backend.alloc(8).unwrap(), backend.alloc(4).unwrap());
    let job = Job::new(1, src, Items::fixed(8, 1), dst, operator.shape());
    let (mut ready, mut done) = (VecDeque::from([job]), Vec::new());
    queue.submit(&mut ready);
    while queue.poll(&mut done) == 0 {
        queue.wait(Duration::from_millis(5));
    }
    assert!(matches!(done[0].result, Err(JobError::Device(..0))));
}

#[test]
fn who_may_not_is_told_why() {
    let (server, _) = credentials();
    let (_, stranger) = credentials();
    let running = Running::start(Access::Credentials(server));
    let why = running.open(Pass::Credentials(stranger)).err();
    let why = why.expect("another agent's credentials");
    assert!(why.contains("certificate"), "{why}");
    let why = running.open(Pass::None).err().expect("in clear");
    assert!(!why.is_empty());
    let token = Token::random().expect("random bytes");
    let running = Running::start(Access::Token(token));
    let other = Token::random().expect("random bytes");
    let why = running.open(Pass::Token(other)).err().expect("wrong");
    assert!(why.contains("token"), "{why}");
}

/// One port, one handshake, several services.
#[test]
fn other_services_are_beside_it() {
    let running = Running::start(Access::Anyone);
    let session = Connect::new(running.address.as_str()).session();
    let session = session.expect("it listens");
    let names: Vec<&str> = session
        .services()
        .iter()
        .map(|offer| &*offer.name)
        .collect();
    assert_eq!(names, [echo::NAME, NAME]);
    let link = session.open(echo::NAME, echo::VERSION, echo::TAGS);
    echo::round_trip(&mut link.expect("offered"), b"hello").expect("it comes back");
    conforms(&*running.open(Pass::None).expect("let in"), &["crc32c"]);
}
