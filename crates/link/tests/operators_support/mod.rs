//! An agent on loopback, and the family that reaches it.
#![allow(dead_code, unreachable_pub, reason = "each test program uses a part")]

pub mod proxy;

use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use dpb_core::{
    Backend, Families, Family, OpSpec, OpenError, ParameterValue, SetupError, Unsupported,
};
use dpb_link::operators::{OperatorsService, Remote, SessionSecurity, tcp};
use dpb_operators::cpu::{Cpu, CpuPaths, Pools};
use dpb_operators::registry::Operators;
use dpb_sim::{Faultiness, Models};

/// The best CPU path.
pub fn best() -> Box<dyn Backend> {
    Box::new(Cpu::best())
}

/// The backends of a machine, each test's its own: models of one family share a simulation.
pub fn families() -> Families {
    static BEST: &(dyn Fn() -> Box<dyn Backend> + Sync) = &best;
    fn kept(family: impl Family + 'static) -> &'static dyn Family {
        Box::leak(Box::new(family))
    }
    let families = vec![
        kept(CpuPaths::new(Operators::DPB)),
        kept(Pools::new(Operators::DPB)),
        kept(Models::new(BEST)),
        kept(Faultiness::new(BEST)),
    ];
    Families::new(families.leak())
}

/// Specs of dpb's operators.
pub fn resolve(name: &str, parameters: &[(&str, ParameterValue)]) -> Result<OpSpec, SetupError> {
    Operators::DPB.spec_from(name, parameters)
}

/// The service over dpb's CPU paths and models.
pub fn service() -> OperatorsService {
    let families = families();
    let open = move |name: &str| match families.open(name) {
        Ok(backend) => Ok(backend),
        Err(OpenError::Absent(why)) => Err(why),
        Err(OpenError::NoSuch(reason)) => Err(Unsupported { reason }),
    };
    OperatorsService::new(Box::new(open), resolve)
}

/// An agent that listens on loopback until this is dropped.
pub struct Served {
    pub address: SocketAddr,
    stop: Arc<AtomicBool>,
    listening: Option<JoinHandle<()>>,
}

impl Served {
    pub fn start(agent: OperatorsService) -> Self {
        Self::start_at(agent, "127.0.0.1:0".parse().expect("an address"))
    }

    pub fn start_at(agent: OperatorsService, address: SocketAddr) -> Self {
        let listener = TcpListener::bind(address).expect("loopback");
        let address = listener.local_addr().expect("bound");
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let listening = thread::spawn(move || listen(&listener, &agent, &stopped));
        Self {
            address,
            stop,
            listening: Some(listening),
        }
    }

    pub fn name(&self, backend: &str) -> String {
        format!("remote/{}/{backend}", self.address)
    }
}

fn listen(listener: &TcpListener, agent: &OperatorsService, stop: &Arc<AtomicBool>) {
    thread::scope(|scope| {
        while let Ok((stream, client)) = listener.accept() {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            scope.spawn(move || {
                let is_stopped = || stop.load(Ordering::Relaxed);
                // How it ended is the client's to see.
                let (wire, client) = (Box::new(stream), client.ip());
                let _ = agent.serve_wire(wire, client, SessionSecurity::Loopback, &is_stopped);
            });
        }
    });
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // Wakes `accept`.
        drop(std::net::TcpStream::connect(self.address));
        if let Some(listening) = self.listening.take() {
            listening.join().expect("the agent does not panic");
        }
    }
}

/// The family that reaches agents over plain TCP.
pub fn remote() -> Remote {
    Remote::new(tcp, resolve).with_patience(Duration::from_secs(120))
}

/// A backend by its whole name.
pub fn open(name: &str) -> Box<dyn Backend> {
    static REMOTE: LazyLock<Remote> = LazyLock::new(remote);
    let instance = name.strip_prefix("remote/").expect("a remote backend");
    REMOTE.open(instance).unwrap_or_else(|why| panic!("{why}"))
}
