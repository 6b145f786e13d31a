//! A gate before an agent: connections through it can be cut, or hang, and the agent behind it can be another one.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// The time between two looks at what the gate was told.
const LOOK: Duration = Duration::from_millis(1);

/// A gate. It ends when it is dropped.
pub(super) struct Gate {
    pub(super) address: String,
    state: Arc<State>,
}

struct State {
    behind: Mutex<String>,
    /// Connections of an earlier number are cut.
    era: AtomicUsize,
    hangs: AtomicBool,
    closed: AtomicBool,
}

impl Gate {
    /// A gate before the agent at `address`.
    pub(super) fn before(address: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let own = listener.local_addr().expect("it listens").to_string();
        let state = Arc::new(State {
            behind: Mutex::new(address.to_owned()),
            era: AtomicUsize::new(0),
            hangs: AtomicBool::new(false),
            closed: AtomicBool::new(false),
        });
        let of_thread = Arc::clone(&state);
        listener.set_nonblocking(true).expect("a socket's option");
        thread::spawn(move || {
            while !of_thread.closed.load(Ordering::Relaxed) {
                match listener.accept() {
                    Ok((client, _)) => of_thread.join(client),
                    Err(_) => thread::sleep(LOOK),
                }
            }
        });
        Self {
            address: own,
            state,
        }
    }

    /// Cuts all connections.
    pub(super) fn cut(&self) {
        self.state.era.fetch_add(1, Ordering::SeqCst);
    }

    /// Carries nothing any more, and keeps the connections.
    pub(super) fn hang(&self) {
        self.state.hangs.store(true, Ordering::SeqCst);
    }

    /// Leads to the agent at `address` from now on. Old connections are cut.
    pub(super) fn lead_to(&self, address: &str) {
        *self.state.behind.lock().expect("no panic") = address.to_owned();
        self.cut();
        self.state.hangs.store(false, Ordering::SeqCst);
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.state.closed.store(true, Ordering::Relaxed);
        self.cut();
    }
}

impl State {
    fn join(self: &Arc<Self>, client: TcpStream) {
        let behind = self.behind.lock().expect("no panic").clone();
        let era = self.era.load(Ordering::SeqCst);
        // A client that finds nobody behind the gate is cut.
        let Ok(agent) = TcpStream::connect(behind) else {
            return;
        };
        let copies = [
            (client.try_clone(), agent.try_clone()),
            (agent.try_clone(), client.try_clone()),
        ];
        for (from, to) in copies {
            let state = Arc::clone(self);
            let (from, to) = (from.expect("a handle"), to.expect("a handle"));
            thread::spawn(move || state.carry(era, from, to));
        }
    }

    /// Carries bytes one way until the connection is cut or ends.
    fn carry(&self, era: usize, mut from: TcpStream, mut to: TcpStream) {
        let mut bytes = [0; 16 << 10];
        from.set_read_timeout(Some(LOOK))
            .expect("a socket's option");
        from.set_nonblocking(false).expect("a socket's option");
        while self.era.load(Ordering::SeqCst) == era {
            if self.hangs.load(Ordering::SeqCst) {
                thread::sleep(LOOK);
                continue;
            }
            match from.read(&mut bytes) {
                Ok(0) => break,
                Ok(count) => {
                    if to.write_all(&bytes[..count]).is_err() {
                        break;
                    }
                }
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(_) => break,
            }
        }
        let _ = from.shutdown(Shutdown::Both);
        let _ = to.shutdown(Shutdown::Both);
    }
}
