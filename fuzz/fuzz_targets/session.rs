//! Arbitrary bytes as the bodies of a handshake and as a credentials file; and as all that one side of a session ever sends: a client's to
//! real agents on loopback, with a token and with credentials, and an agent's to a real client.
//!
//! What is read is written as it was. An agent answers with whole frames, ends the connection, and welcomes nobody without the token.
#![no_main]

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use dpb_core::{Timer, WallClock};
use dpb_link::hello::{Hello, Offer, Open, Welcome, opened_bytes, parse_opened};
use dpb_link::{
    Access, Agent, AgentDescription, AgentOptions, ClientCredentials, Connect, Header, LinkError,
    Pass, Refusal, ServerCredentials, Tags, Token, echo, tag,
};
use libfuzzer_sys::fuzz_target;

const TOKEN: &[u8] = b"correct horse battery staple";
/// The time after which a side that neither answers nor ends is a fault.
const PATIENCE: Duration = Duration::from_secs(15);

fuzz_target!(init: dpb_fuzz::plant(seeds()), |bytes: &[u8]| {
    let Some((&mode, rest)) = bytes.split_first() else {
        return;
    };
    match mode % 8 {
        0 => hello(rest),
        1 => open(rest),
        2 => welcome(rest),
        3 => credentials(rest),
        4 => answer(rest),
        5 => as_client(TOKEN_AGENT.0, rest),
        6 => as_client(ENCRYPTED_AGENT.0, rest),
        _ => as_agent(rest),
    }
});

fn hello(body: &[u8]) {
    if let Ok(hello) = Hello::parse(body) {
        assert_eq!(hello.to_bytes(), body);
    }
}

fn open(body: &[u8]) {
    if let Ok(open) = Open::parse(body) {
        assert_eq!(open.to_bytes(), body);
    }
}

fn welcome(body: &[u8]) {
    if let Ok(welcome) = Welcome::parse(body) {
        assert!(welcome.services.iter().all(|offer| offer.check().is_ok()));
        // Texts of the agent's were made printable, and so they stay.
        let again = Welcome::parse(&welcome.to_bytes()).expect("it was one");
        assert_eq!(again.services, welcome.services);
        let texts = |of: &AgentDescription| [of.host.clone(), of.cpu_model.clone()];
        let cut = texts(&again.agent);
        for (text, cut) in texts(&welcome.agent).into_iter().zip(cut) {
            assert!(text.starts_with(&cut), "{text}, {cut}");
            assert!(!text.contains(char::is_control), "{text:?}");
        }
    }
}

fn credentials(text: &[u8]) {
    if let Ok(credentials) = ClientCredentials::parse(text) {
        let again = ClientCredentials::parse(credentials.to_text().as_bytes());
        assert_eq!(again, Ok(credentials));
    }
}

/// The short bodies of either side.
fn answer(body: &[u8]) {
    if let Ok(version) = parse_opened(body) {
        assert_eq!(opened_bytes(version), body);
    }
    if let Ok(pieces) = dpb_link::parse_credit(body) {
        assert_eq!(dpb_link::credit_bytes(pieces), body);
    }
    let LinkError::Refused { text, .. } = dpb_link::parse_refusal(body) else {
        return;
    };
    assert!(!text.contains(char::is_control), "{text:?}");
}

/// Agents that serve as long as the process lives, at these addresses.
struct Served(SocketAddr);

static TOKEN_AGENT: LazyLock<Served> = LazyLock::new(|| Served::start(Access::Token(token())));
static ENCRYPTED_AGENT: LazyLock<Served> = LazyLock::new(|| {
    let folder = std::env::temp_dir().join(format!("dpb-fuzz-session-{}", std::process::id()));
    let made = ServerCredentials::make(&folder);
    // They are in memory now.
    std::fs::remove_dir_all(&folder).expect("it was just made");
    Served::start(Access::Credentials(made.expect("a folder of our own")))
});

fn token() -> Token {
    Token::new(TOKEN).expect("long enough")
}

impl Served {
    fn start(access: Access) -> Self {
        let clock: Arc<dyn Timer> = Arc::new(WallClock::default());
        let mut options = AgentOptions::new("127.0.0.1:0".parse().expect("an address"));
        options.access = access;
        let services: Vec<Arc<dyn dpb_link::Service>> =
            vec![Arc::new(echo::Echo::new(None, &clock))];
        let agent = Agent::bind(options, services).expect("loopback");
        let address = agent.address();
        std::thread::spawn(move || agent.run(&|| false));
        Self(address)
    }
}

/// Says `bytes` to the agent, and nothing more; the agent answers and ends.
fn as_client(agent: SocketAddr, bytes: &[u8]) {
    let is_encrypted = agent == ENCRYPTED_AGENT.0;
    let mut stream = TcpStream::connect(agent).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
    stream.set_write_timeout(Some(PATIENCE)).expect("a socket");
    // The agent may end before it has all of it.
    let _ = stream
        .write_all(bytes)
        .and_then(|()| stream.shutdown(Shutdown::Write));
    let mut answer = Vec::new();
    if let Err(error) = stream.read_to_end(&mut answer) {
        assert_ne!(
            error.kind(),
            ErrorKind::WouldBlock,
            "the agent neither answers nor ends"
        );
        return;
    }
    if is_encrypted && bytes.first() == Some(&22) {
        return;
    }
    check_answer(&answer, shows_token(bytes) && !is_encrypted);
}

/// Whether the first frame is a hello with the token.
fn shows_token(bytes: &[u8]) -> bool {
    let mut stream = bytes;
    let Ok(Some(header)) = Header::read(&mut stream, &Tags::NONE) else {
        return false;
    };
    let hello = stream.get(..header.len).map(Hello::parse);
    header.tag == tag::HELLO && matches!(hello, Some(Ok(hello)) if hello.token == TOKEN)
}

/// Frames, whole to the last byte; a welcome first, and for those alone who have the token.
fn check_answer(answer: &[u8], has_token: bool) {
    let (mut stream, mut is_first) = (answer, true);
    while !stream.is_empty() {
        let header = Header::read(&mut stream, &echo::TAGS).expect("a header");
        let header = header.expect("bytes were left");
        let (body, rest) = stream.split_at_checked(header.len).expect("a whole body");
        match header.tag {
            tag::WELCOME => {
                assert!(has_token && is_first, "a stranger is welcomed");
                assert!(Welcome::parse(body).is_ok());
            }
            tag::ERROR => {
                assert!(matches!(
                    dpb_link::parse_refusal(body),
                    LinkError::Refused { .. }
                ));
                assert!(rest.is_empty(), "words behind the last");
            }
            tag::OPENED => assert_eq!(parse_opened(body).ok(), Some(echo::VERSION)),
            _ => assert!(!is_first, "no welcome before tag {}", header.tag),
        }
        (stream, is_first) = (rest, false);
    }
}

/// An agent whose every word is `bytes`; the client has a session or says why not.
fn as_agent(bytes: &[u8]) {
    static LISTENER: LazyLock<Mutex<TcpListener>> =
        LazyLock::new(|| Mutex::new(TcpListener::bind("127.0.0.1:0").expect("loopback")));
    let listener = LISTENER.lock().expect("a panic ends it all");
    let address = listener.local_addr().expect("bound").to_string();
    let Some((&pass, words)) = bytes.split_first() else {
        return;
    };
    let client = std::thread::spawn(move || be_client(&address, pass));
    let (mut stream, _) = listener.accept().expect("a client");
    // The client may have seen enough.
    let _ = stream
        .write_all(words)
        .and_then(|()| stream.shutdown(Shutdown::Write));
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
    let heard = stream.read_to_end(&mut Vec::new());
    let is_silent = |error: std::io::Error| error.kind() == ErrorKind::WouldBlock;
    assert!(!heard.is_err_and(is_silent), "the client does not give up");
    client.join().expect("it does not panic");
}

fn be_client(address: &str, pass: u8) {
    let connect = Connect {
        pass: match pass % 3 {
            0 => Pass::None,
            1 => Pass::Token(token()),
            _ => {
                Pass::Credentials(ClientCredentials::parse(CREDENTIALS.as_bytes()).expect("right"))
            }
        },
        ..Connect::new(address)
    };
    let asked = || -> Result<(), String> {
        let session = connect.session().map_err(|error| error.to_string())?;
        assert!(!connect_is_encrypted(pass), "no such certificate was shown");
        assert!(session.services().iter().all(|offer| offer.check().is_ok()));
        let opened = session.open(echo::NAME, echo::VERSION, echo::TAGS);
        let mut link = opened.map_err(|error| error.to_string())?;
        echo::round_trip(&mut link, b"hello").map_err(|error| error.to_string())
    };
    if let Err(why) = asked() {
        assert!(!why.is_empty() && !why.contains('\u{1b}'), "{why:?}");
    }
}

fn connect_is_encrypted(pass: u8) -> bool {
    pass % 3 == 2
}

const CREDENTIALS: &str = "dpb credentials 1\n\
    fingerprint sha256:000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n\
    token correct horse battery staple\n";

/// Each kind of body, right; a whole conversation of each side; the front of a TLS handshake.
fn seeds() -> Vec<Vec<u8>> {
    let hello = |token: &[u8]| Hello {
        version: dpb_link::VERSION,
        capabilities: 1,
        link_bits_per_s: 10_000_000_000,
        token: token.to_vec(),
    };
    let mut older = hello(TOKEN).to_bytes();
    older[4] -= 1;
    let open = |version| Open {
        service: echo::NAME.to_owned(),
        version,
    };
    let welcome = welcome_seed();
    let refusal = dpb_link::refusal_bytes(Refusal::Busy, "all places are taken");
    let frame = |tag: u8, body: &[u8]| {
        let header = Header::checked(tag, body.len(), &echo::TAGS).expect("a seed is short");
        [&header.to_bytes()[..], body].concat()
    };
    let (body, echoed) = (frame(16, b"hello"), frame(144, b"hello"));
    let greeting = frame(tag::HELLO, &hello(TOKEN).to_bytes());
    let asked = [&greeting[..], &frame(tag::OPEN, &open(1).to_bytes()), &body].concat();
    let newer = [&greeting[..], &frame(tag::OPEN, &open(9).to_bytes())].concat();
    let welcomed = frame(tag::WELCOME, &welcome);
    let opened = frame(tag::OPENED, &opened_bytes(1));
    let answered = [&welcomed[..], &opened, &echoed].concat();
    let refused = [&welcomed[..], &frame(tag::ERROR, &refusal)].concat();
    // A record of a handshake, and the front of a client's first message.
    let tls = [22, 3, 1, 0, 8, 1, 0, 0, 4, 3, 3, 0, 0];
    let as_client = |mode: u8, bytes: &[u8]| [&[mode], bytes].concat();
    let as_agent = |pass: u8, bytes: &[u8]| [&[7, pass], bytes].concat();
    vec![
        as_client(0, &hello(TOKEN).to_bytes()),
        as_client(0, &older),
        as_client(1, &open(1).to_bytes()),
        as_client(2, &welcome),
        as_client(3, CREDENTIALS.as_bytes()),
        as_client(4, &refusal),
        as_client(4, &opened_bytes(1)),
        as_client(4, &dpb_link::credit_bytes(3)),
        as_client(5, &asked),
        as_client(5, &newer),
        as_client(
            5,
            &frame(tag::HELLO, &hello(b"another token, also long").to_bytes()),
        ),
        as_client(5, &frame(tag::HELLO, &older)),
        as_client(5, &tls),
        as_client(6, &asked),
        as_client(6, &tls),
        as_agent(0, &answered),
        as_agent(1, &refused),
        as_agent(0, &frame(tag::ERROR, &refusal)),
        as_agent(2, &tls),
        as_agent(2, &answered),
    ]
}

fn welcome_seed() -> Vec<u8> {
    let welcome = Welcome {
        capabilities: 1,
        agent: AgentDescription {
            dpb_version: "0".to_owned(),
            host: "h".to_owned(),
            cpu_model: "c".to_owned(),
            cpus: 2,
            pid: 1,
        },
        services: vec![Offer {
            name: echo::NAME.to_owned(),
            version: echo::VERSION,
            description: b"d".to_vec(),
        }],
    };
    welcome.to_bytes()
}
