//! The agent: listens, lets clients in, and gives each connection to the service that it opens.
//!
//! One thread a connection. A panic of a service ends its connection alone.
//!
//! **Strangers.** A connection that has shown no token takes no place from clients, see [`KNOCKING_MAX`]. One that has shown a wrong
//! token waits for the answer.
//! [`AgentOptions::say`] hears of those that are refused; who listens slowly keeps nobody waiting. The whole handshake, TLS
//! included, has one deadline, [`AgentOptions::handshake_patience`].
//!
//! **Memory.** A connection that shakes hands takes its thread's stack and its buffers, [`KNOCKING_BYTES`] at most; one that is served
//! [`CONNECTION_BYTES`] beside what its service takes, which hands out memory of its own by a [`crate::budget::Budget`].

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

pub use self::door::KNOCKING_MAX;
use self::door::{Door, Refusals};
use self::handshake::{Refused, admit, open};
pub use self::options::{Access, AgentOptions, BindError, CONNECTIONS_MAX};
use crate::error::LinkError;
use crate::hello::{AgentDescription, Offer, SERVICES_MAX, Welcome};
use crate::service::Service;

mod door;
mod handshake;
mod options;

/// What a connection takes beside its service's requests: stacks, its socket, its buffers, and those of TLS.
pub const CONNECTION_BYTES: u64 = 192 << 10;
/// What a connection takes before it is served: its thread's stack and what that thread has allocated, its hello, and the
/// buffers of a TLS handshake.
pub const KNOCKING_BYTES: u64 = 96 << 10;
/// The interval at which the agent looks whether it should end.
const STOP_LOOK: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};

/// An agent that listens.
pub struct Agent {
    listener: TcpListener,
    address: SocketAddr,
    shared: Arc<Shared>,
}

/// The state that all connections of an agent share.
struct Shared {
    options: AgentOptions,
    services: Vec<Arc<dyn Service>>,
    welcome: Welcome,
    stop: AtomicBool,
    door: Door,
    refusals: Refusals,
}

impl Shared {
    fn is_ending(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn service(&self, name: &str) -> Option<&Arc<dyn Service>> {
        self.services.iter().find(|service| service.name() == name)
    }

    fn say_refused(&self, peer: io::Result<SocketAddr>, why: &str) {
        // Nobody can be told of a peer that has gone without an address.
        if let Ok(peer) = peer {
            self.refusals.add(peer, why);
        }
    }
}

impl Agent {
    /// Starts to listen.
    ///
    /// # Errors
    /// [`BindError`].
    pub fn bind(options: AgentOptions, services: Vec<Arc<dyn Service>>) -> Result<Self, BindError> {
        options.check()?;
        let offers = offers(&services)?;
        let address = options.listen;
        let refused = |source| BindError::Listen { address, source };
        let listener = TcpListener::bind(address).map_err(refused)?;
        listener.set_nonblocking(true).map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        let shared = Arc::new(Shared {
            welcome: Welcome {
                capabilities: 0,
                agent: AgentDescription::of_this_process(),
                services: offers,
            },
            services,
            stop: AtomicBool::new(false),
            door: Door::default(),
            refusals: Refusals::new(options.say, Arc::clone(&options.clock)),
            options,
        });
        Ok(Self {
            listener,
            address,
            shared,
        })
    }

    /// The address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The agent's description, as its clients are told.
    pub fn description(&self) -> &AgentDescription {
        &self.shared.welcome.agent
    }

    /// The services, as its clients are told.
    pub fn services(&self) -> &[Offer] {
        &self.shared.welcome.services
    }

    /// Serves until `stop` says so, which is asked ten times a second; then ends every connection and waits for their
    /// threads.
    pub fn run(self, stop: &dyn Fn() -> bool) {
        let mut threads: Vec<thread::JoinHandle<()>> = Vec::new();
        let mut next_id = 0;
        while !stop() {
            let mut fds = [PollFd::new(&self.listener, PollFlags::IN)];
            if !matches!(poll(&mut fds, Some(&STOP_LOOK)), Ok(1..)) {
                continue;
            }
            threads.retain(|thread| !thread.is_finished());
            match self.listener.accept() {
                Ok((stream, peer)) => {
                    next_id += 1;
                    threads.extend(self.welcome(stream, peer, next_id));
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                // Out of file descriptors, or a client gone already: let others finish.
                Err(_) => self.shared.options.clock.sleep(Duration::from_millis(10)),
            }
        }
        self.shared.stop.store(true, Ordering::Relaxed);
        self.shared
            .services
            .iter()
            .for_each(|service| service.stop());
        self.shared.door.close();
        for thread in threads {
            // A connection's panic has ended that connection.
            let _ = thread.join();
        }
    }

    /// Gives a connection its thread.
    fn welcome(
        &self,
        stream: TcpStream,
        peer: SocketAddr,
        id: u64,
    ) -> Option<thread::JoinHandle<()>> {
        let shared = Arc::clone(&self.shared);
        stream.set_nonblocking(false).ok()?;
        let kept = stream.try_clone().ok()?;
        if let Some(oldest) = shared.door.knock(id, kept) {
            let why = format!("{KNOCKING_MAX} newer connections came before it had said hello");
            shared.say_refused(oldest.peer_addr(), &why);
        }
        let spawned = thread::Builder::new()
            .name(format!("connection {id}"))
            .spawn({
                let shared = Arc::clone(&shared);
                move || {
                    let _place = Place {
                        shared: &shared,
                        id,
                    };
                    serve(&shared, stream, (peer, id));
                }
            });
        if spawned.is_err() {
            shared.door.leave(id);
        }
        spawned.ok()
    }
}

/// One connection, from its first byte to its last.
fn serve(shared: &Shared, tcp: TcpStream, (peer, id): (SocketAddr, u64)) {
    let (mut link, client) = match admit(shared, tcp, (peer, id)) {
        Ok(admitted) => admitted,
        Err(Refused { error, link }) => {
            if error.refusal().is_some() {
                shared.say_refused(Ok(peer), &error.to_string());
            }
            if let Some(mut link) = link {
                link.say_goodbye(&error);
            }
            return;
        }
    };
    let served = match open(shared, &mut link) {
        Ok(Some(service)) => service.serve(&mut link, &client),
        Ok(None) => Ok(()),
        Err(error) => {
            if matches!(error, LinkError::Refused { .. }) {
                shared.say_refused(Ok(peer), &error.to_string());
            }
            Err(error)
        }
    };
    if let Err(error) = served {
        link.say_goodbye(&error);
    }
}

/// What clients are told of the services.
fn offers(services: &[Arc<dyn Service>]) -> Result<Vec<Offer>, BindError> {
    let offer = |service: &Arc<dyn Service>| Offer {
        name: service.name().to_owned(),
        version: service.version(),
        description: service.describe(),
    };
    let offers: Vec<Offer> = services.iter().map(offer).collect();
    if offers.len() > SERVICES_MAX {
        let text = format!("{}; at most {SERVICES_MAX} are possible", offers.len());
        return Err(BindError::Services(text));
    }
    for (at, offer) in offers.iter().enumerate() {
        if let Err(error) = offer.check() {
            let text = format!("`{}` is {error}", offer.name);
            return Err(BindError::Services(text));
        }
        if offers[..at].iter().any(|other| other.name == offer.name) {
            return Err(BindError::Services(format!(
                "two are called {}",
                offer.name
            )));
        }
    }
    Ok(offers)
}

/// A connection's place; freed when its thread ends, also by a panic.
struct Place<'a> {
    shared: &'a Shared,
    id: u64,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.shared.door.leave(self.id);
    }
}
