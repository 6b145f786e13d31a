//! The door: connections that shake hands, those that are served, and what is said of those that are refused.
//!
//! A connection that shakes hands has shown no token yet, and takes no place from those that are served. There are
//! [`KNOCKING_MAX`] such connections at most; when one more comes, the oldest ends. A client's handshake takes two messages, so
//! it is over long before that many strangers have come. A connection that has shown the token takes a place to be served.

use std::collections::{BTreeMap, HashMap};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use dpb_core::{Timer, printable};

use crate::link::between;
use crate::lock::lock;

/// Connections that shake hands at once, at most.
pub const KNOCKING_MAX: usize = 128;
/// Lines about refused peers in each [`LINES_SPAN`], at most.
const LINES_MAX: u32 = 10;
/// The span that [`LINES_MAX`] is for.
const LINES_SPAN: Duration = Duration::from_secs(10);
/// Characters of a reason that are said.
const WHY_MAX: usize = 500;

/// Connections, by their numbers, which rise with time.
#[derive(Default)]
pub(super) struct Door(Mutex<Connections>);

#[derive(Default)]
struct Connections {
    knocking: BTreeMap<u64, TcpStream>,
    served: HashMap<u64, TcpStream>,
}

/// The answer to a connection that has shaken hands.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Admission {
    Served,
    /// All places are taken.
    Full,
    /// It has made room for newer ones meanwhile.
    Gone,
}

impl Door {
    /// A connection comes. Gives the one that goes for it, already ended.
    pub(super) fn knock(&self, id: u64, stream: TcpStream) -> Option<TcpStream> {
        let mut connections = lock(&self.0);
        connections.knocking.insert(id, stream);
        let too_many = connections.knocking.len() > KNOCKING_MAX;
        let (_, oldest) = too_many.then(|| connections.knocking.pop_first())??;
        end(&oldest);
        Some(oldest)
    }

    /// A connection has shaken hands and takes one of `places`.
    pub(super) fn admit(&self, id: u64, places: usize) -> Admission {
        let mut connections = lock(&self.0);
        if connections.served.len() >= places {
            return Admission::Full;
        }
        match connections.knocking.remove(&id) {
            Some(stream) => {
                connections.served.insert(id, stream);
                Admission::Served
            }
            None => Admission::Gone,
        }
    }

    /// A connection has ended.
    pub(super) fn leave(&self, id: u64) {
        let mut connections = lock(&self.0);
        connections.knocking.remove(&id);
        connections.served.remove(&id);
    }

    /// Ends all connections.
    pub(super) fn close(&self) {
        let connections = lock(&self.0);
        let knocking = connections.knocking.values();
        knocking.chain(connections.served.values()).for_each(end);
    }
}

fn end(stream: &TcpStream) {
    // Whoever has gone already needs no shutdown.
    let _ = stream.shutdown(Shutdown::Both);
}

/// Says who was refused and why: a line each, and no more of them than somebody can read.
pub(super) struct Refusals {
    lines: SyncSender<String>,
    span: Mutex<Span>,
    clock: Arc<dyn Timer>,
}

struct Span {
    began_ns: u64,
    lines: u32,
    unsaid: u64,
}

impl Refusals {
    /// `say` has a thread of its own, for which nobody waits: it may hang where nobody reads what it writes.
    pub(super) fn new(say: fn(&str), clock: Arc<dyn Timer>) -> Self {
        let (lines, queue) = sync_channel::<String>(LINES_MAX as usize);
        let saying = move || queue.iter().for_each(|line| say(&line));
        // Without a thread nothing is said.
        let _ = thread::Builder::new().name("refusals".into()).spawn(saying);
        let span = Span {
            began_ns: clock.now_ns(),
            lines: 0,
            unsaid: 0,
        };
        Self {
            lines,
            span: Mutex::new(span),
            clock,
        }
    }

    pub(super) fn add(&self, peer: SocketAddr, why: &str) {
        let say = |line| self.lines.try_send(line).is_ok();
        let mut span = lock(&self.span);
        let now_ns = self.clock.now_ns();
        if between(span.began_ns, now_ns) >= LINES_SPAN {
            (span.began_ns, span.lines) = (now_ns, 0);
            if span.unsaid > 0 && say(format!("refused {} more connections", span.unsaid)) {
                span.unsaid = 0;
            }
        }
        if span.lines < LINES_MAX && say(format!("refused {peer}: {}", printable(why, WHY_MAX))) {
            span.lines += 1;
        } else {
            span.unsaid += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpListener;

    use dpb_core::WallClock;

    use super::*;

    #[test]
    fn strangers_make_room_for_newer_ones_and_take_no_place() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let door = Door::default();
        let mut peers = Vec::new();
        let mut come = |id| {
            peers.push(TcpStream::connect(address).unwrap());
            door.knock(id, listener.accept().unwrap().0)
        };
        for id in 0..KNOCKING_MAX as u64 {
            assert!(come(id).is_none());
        }
        assert_eq!(door.admit(1, 2), Admission::Served);
        assert!(come(1000).is_none());
        assert!(come(1001).is_some());
        assert_eq!(door.admit(0, 2), Admission::Gone);
        assert_eq!(door.admit(1001, 2), Admission::Served);
        assert_eq!(door.admit(1000, 2), Admission::Full);
        door.leave(1);
        assert_eq!(door.admit(1000, 2), Admission::Served);
        // The oldest one was ended.
        assert_eq!(peers[0].read(&mut [0]).unwrap(), 0);
    }

    #[test]
    fn a_crowd_of_refused_peers_gets_few_lines_and_no_escape_sequences() {
        static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());
        let refusals = Refusals::new(
            |line| lock(&SAID).push(line.to_owned()),
            Arc::new(WallClock::default()),
        );
        let peer = "10.0.0.7:99".parse().unwrap();
        // Whoever listens does not come to it, and nobody waits.
        let mut said = lock(&SAID);
        for _ in 0..1000 {
            refusals.add(peer, "\u{1b}[2Jits token\nis wrong");
        }
        assert_eq!(lock(&refusals.span).unsaid, 1000 - u64::from(LINES_MAX));
        while said.len() < LINES_MAX as usize {
            drop(said);
            thread::yield_now();
            said = lock(&SAID);
        }
        let line = "refused 10.0.0.7:99: \\u{1b}[2Jits token\\nis wrong";
        assert_eq!(said[0], line);
    }
}
