//! Agents, and peers that are none, for the tests beside this.

#![allow(dead_code, reason = "each test program uses a part")]
#![allow(unreachable_pub, reason = "used by the tests beside it")]

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use dpb_core::{Timer, WallClock};
use dpb_link::hello::{Hello, Open};
use dpb_link::tag::{ERROR, HELLO, OPEN};
use dpb_link::{
    Access, Agent, AgentOptions, ClientInfo, Connect, ConnectError, Header, Link, LinkError, Pass,
    Refusal, Service, Stream, Tags, Token, VERSION, echo, parse_refusal,
};
use rustix::event::{PollFd, PollFlags, poll};

pub fn loopback() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

pub fn token() -> Token {
    Token::new(*b"sixteen or more letters").unwrap()
}

/// Every kind of access that there is.
pub fn accesses() -> Vec<Access> {
    vec![
        Access::Anyone,
        Access::Token(token()),
        #[cfg(feature = "tls")]
        Access::Credentials(credentials()),
    ]
}

/// Made once, as making a key takes a while.
#[cfg(feature = "tls")]
pub fn credentials() -> dpb_link::ServerCredentials {
    static MADE: std::sync::OnceLock<dpb_link::ServerCredentials> = std::sync::OnceLock::new();
    let make = || {
        let dir = tempfile::tempdir().unwrap();
        dpb_link::ServerCredentials::make(&dir.path().join("credentials")).unwrap()
    };
    MADE.get_or_init(make).clone()
}

/// What a client shows to an agent with this access.
pub fn pass(access: &Access) -> Pass {
    match access {
        Access::Anyone => Pass::None,
        Access::Token(token) => Pass::Token(token.clone()),
        #[cfg(feature = "tls")]
        Access::Credentials(credentials) => Pass::Credentials(credentials.for_clients()),
    }
}

pub fn pass_with_wrong_token(access: &Access) -> Pass {
    let wrong = Token::new(*b"sixteen or more lettert").unwrap();
    match access {
        #[cfg(feature = "tls")]
        Access::Credentials(credentials) => Pass::Credentials(dpb_link::ClientCredentials {
            token: wrong,
            ..credentials.for_clients()
        }),
        _ => Pass::Token(wrong),
    }
}

/// Connects and opens the service `echo`; a link that broke on the way, or was refused, is an error.
pub fn echoing(address: &str, pass: Pass) -> Result<Link, LinkError> {
    let connect = Connect {
        pass,
        ..Connect::new(address)
    };
    match connect.session() {
        Ok(session) => session.open(echo::NAME, echo::VERSION, echo::TAGS),
        Err(ConnectError::Link { source, .. }) => Err(source),
        Err(other) => panic!("{other}"),
    }
}

/// Describes itself, and does nothing.
struct Telling;

impl Service for Telling {
    fn name(&self) -> &str {
        "telling"
    }

    fn version(&self) -> u16 {
        2
    }

    fn tags(&self) -> Tags {
        Tags::NONE
    }

    fn describe(&self) -> Vec<u8> {
        b"what it has to say".to_vec()
    }

    fn serve(&self, _: &mut Link, _: &ClientInfo) -> Result<(), LinkError> {
        Ok(())
    }
}

/// Takes the stream over, and sends every byte back inverted, in a loop that never blocks but in `poll`.
struct Raw;

impl Service for Raw {
    fn name(&self) -> &str {
        "raw"
    }

    fn version(&self) -> u16 {
        3
    }

    fn tags(&self) -> Tags {
        Tags::NONE
    }

    fn serve(&self, link: &mut Link, _: &ClientInfo) -> Result<(), LinkError> {
        let stream = link.take_over();
        stream.set_nonblocking(true)?;
        let (mut waiting, mut buffer) = (Vec::new(), [0; 5000]);
        let mut has_ended = false;
        while !has_ended || !waiting.is_empty() || stream.has_unsent() {
            if waiting.len() < 100_000 && !has_ended {
                match stream.read(&mut buffer) {
                    Ok(0) => has_ended = true,
                    Ok(count) => waiting.extend(buffer[..count].iter().map(|byte| !byte)),
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                    Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
                    Err(e) => return Err(e.into()),
                }
            }
            if !send_some(stream, &mut waiting)? {
                wait(
                    stream,
                    !waiting.is_empty(),
                    waiting.len() < 100_000 && !has_ended,
                );
            }
        }
        Ok(())
    }
}

/// Sends what goes now; says if something did.
fn send_some(stream: &mut Stream, waiting: &mut Vec<u8>) -> io::Result<bool> {
    let sent = match waiting.is_empty() {
        true => stream.flush().map(|()| 0),
        false => stream.write(waiting),
    };
    match sent {
        Ok(count) => {
            waiting.drain(..count);
            Ok(count > 0)
        }
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(false),
        Err(e) => Err(e),
    }
}

/// Waits as [`Stream`] says that one must.
fn wait(stream: &Stream, has_more: bool, is_reading: bool) {
    if is_reading && stream.has_plaintext() {
        return;
    }
    let mut events = PollFlags::empty();
    if is_reading {
        events |= PollFlags::IN;
    }
    if has_more || stream.has_unsent() {
        events |= PollFlags::OUT;
    }
    poll(&mut [PollFd::new(stream, events)], None).unwrap();
}

/// Sends these bytes and receives as many, both at once, without blocking.
pub fn exchange(stream: &mut Stream, bytes: &[u8]) -> Vec<u8> {
    stream.set_nonblocking(true).unwrap();
    let (mut waiting, mut back, mut buffer) = (bytes.to_vec(), Vec::new(), vec![0; 7000]);
    while back.len() < bytes.len() {
        match stream.read(&mut buffer) {
            Ok(0) => panic!("it ended"),
            Ok(count) => {
                back.extend_from_slice(&buffer[..count]);
                continue;
            }
            Err(e) => assert_eq!(e.kind(), io::ErrorKind::WouldBlock, "{e}"),
        }
        if !send_some(stream, &mut waiting).unwrap() {
            wait(stream, !waiting.is_empty(), true);
        }
    }
    back
}

/// Lines about refused peers, of all agents of this program.
static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// An agent with an echo and two more services, in a thread.
pub struct Serving {
    pub address: String,
    pub is_encrypted: bool,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Serving {
    pub fn start(access: Access) -> Self {
        Self::with(AgentOptions {
            access,
            ..AgentOptions::new(loopback())
        })
    }

    pub fn with(options: AgentOptions) -> Self {
        let clock: Arc<dyn Timer> = Arc::new(WallClock::default());
        let is_encrypted = !matches!(options.access, Access::Anyone | Access::Token(_));
        let services: Vec<Arc<dyn Service>> = vec![
            Arc::new(echo::Echo::new(None, &clock)),
            Arc::new(Telling),
            Arc::new(Raw),
        ];
        let options = AgentOptions {
            say: |line| SAID.lock().unwrap().push(line.to_owned()),
            ..options
        };
        Self::of(Agent::bind(options, services).unwrap(), is_encrypted)
    }

    pub fn of(agent: Agent, is_encrypted: bool) -> Self {
        let address = agent.address().to_string();
        let stop = Arc::new(AtomicBool::new(false));
        let thread = thread::spawn({
            let stop = Arc::clone(&stop);
            move || agent.run(&|| stop.load(Ordering::Relaxed))
        });
        Self {
            address,
            is_encrypted,
            stop,
            thread: Some(thread),
        }
    }

    pub fn dial(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(SOON)).unwrap();
        stream
    }

    /// Whether lines with each of these words were said of refused peers.
    pub fn said(&self, words: &[&str]) -> bool {
        wait_until(|| {
            let said = SAID.lock().unwrap();
            words
                .iter()
                .all(|word| said.iter().any(|line| line.contains(word)))
        })
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Longer than any wait here may take on a busy machine.
const SOON: Duration = Duration::from_secs(60);

/// Asks in a thread of its own: a client that waits for ever must not keep the test.
pub fn soon<T: Send + 'static>(ask: impl FnOnce() -> T + Send + 'static) -> T {
    let (tell, told) = channel();
    thread::spawn(move || tell.send(ask()));
    told.recv_timeout(SOON).expect("an end of the wait")
}

pub fn wait_until(is_so: impl Fn() -> bool) -> bool {
    let until = Instant::now() + SOON;
    while Instant::now() < until {
        if is_so() {
            return true;
        }
        thread::sleep(Duration::from_millis(5));
    }
    false
}

pub fn frame(tag: u8, body: &[u8]) -> Vec<u8> {
    let len = body.len();
    [&Header { tag, len }.to_bytes(), body].concat()
}

pub fn hello() -> Vec<u8> {
    let hello = Hello {
        version: VERSION,
        capabilities: 0,
        link_bits_per_s: 0,
        token: Vec::new(),
    };
    frame(HELLO, &hello.to_bytes())
}

pub fn open(service: &str, version: u16) -> Vec<u8> {
    let open = Open {
        service: service.to_owned(),
        version,
    };
    frame(OPEN, &open.to_bytes())
}

/// Reads frames until the peer closes; the last error frame, if there was one.
pub fn last_words(stream: &mut impl Read) -> Option<(Refusal, String)> {
    let mut words = None;
    while let Ok(Some(header)) = Header::read(stream, &echo::TAGS) {
        let mut body = vec![0; header.len];
        stream.read_exact(&mut body).ok()?;
        if let (ERROR, LinkError::Refused { refusal, text }) = (header.tag, parse_refusal(&body)) {
            words = Some((refusal, text));
        }
    }
    words
}

/// A peer that says this to whoever connects, and then nothing more; it reads what comes meanwhile.
pub fn saying(bytes: Vec<u8>) -> String {
    let listener = TcpListener::bind(loopback()).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        // The client may leave before the last of it.
        let _ = stream.write_all(&bytes);
        let _ = stream.shutdown(Shutdown::Write);
        let mut dropped = [0; 1000];
        while matches!(stream.read(&mut dropped), Ok(1..)) {}
    });
    address
}
