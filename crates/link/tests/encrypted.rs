//! Encrypted sessions: credentials as files, peers that encrypt otherwise or not at all, and OpenSSL as the other side.

#![cfg(feature = "tls")]

mod support;

use std::fs;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use dpb_link::tls::CLIENT_FILE;
use dpb_link::{
    Access, Agent, AgentOptions, ClientCredentials, ClientInfo, Connect, ConnectError,
    CredentialsError, Link, LinkError, Pass, Refusal, ServerCredentials, Service, Stream, Tags,
    echo,
};
use proptest::prelude::*;
use support::{Serving, credentials, echoing, hello, last_words, loopback, open, soon, token};

fn encrypted() -> Serving {
    Serving::start(Access::Credentials(credentials()))
}

fn pass() -> Pass {
    Pass::Credentials(credentials().for_clients())
}

#[test]
fn credentials_are_files_that_only_their_owner_reads() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("new/credentials");
    let made = ServerCredentials::make(&dir).unwrap();
    let loaded = ServerCredentials::load(&dir).unwrap();
    assert_eq!(loaded.fingerprint(), made.fingerprint());
    let client = ClientCredentials::load(&dir.join(CLIENT_FILE)).unwrap();
    assert_eq!(client, made.for_clients());
    assert_eq!(client.token, *made.token());
    let mode = |name: &str| fs::metadata(dir.join(name)).unwrap().permissions().mode() & 0o777;
    for name in ["key.pem", "token", CLIENT_FILE] {
        assert_eq!(mode(name), 0o600, "{name}");
    }
    // Nothing is overwritten, and nothing is left of the attempt.
    let again = ServerCredentials::make(&dir).unwrap_err();
    assert!(matches!(again, CredentialsError::Exists(_)), "{again}");
    assert_eq!(fs::read_dir(dir.parent().unwrap()).unwrap().count(), 1);
    // Others may read it, it is cut short, it is another's.
    for name in ["key.pem", "token"] {
        let path = dir.join(name);
        let is_shared = |mode| {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            matches!(
                ServerCredentials::load(&dir),
                Err(CredentialsError::Shared { .. })
            )
        };
        assert!(is_shared(0o640) && is_shared(0o604) && !is_shared(0o600));
        let whole = fs::read(&path).unwrap();
        fs::write(&path, &whole[..10]).unwrap();
        let cut = ServerCredentials::load(&dir).unwrap_err();
        assert!(matches!(cut, CredentialsError::Content { .. }), "{cut}");
        fs::write(&path, whole).unwrap();
    }
    let other = folder.path().join("other");
    ServerCredentials::make(&other).unwrap();
    fs::copy(other.join("key.pem"), dir.join("key.pem")).unwrap();
    let mixed = ServerCredentials::load(&dir).unwrap_err();
    assert!(mixed.to_string().contains("key.pem"), "{mixed}");
}

#[test]
fn secrets_reach_no_log() {
    let made = credentials();
    let token = String::from_utf8(made.token().as_bytes().to_vec()).unwrap();
    for shown in [
        format!("{made:?}"),
        format!("{:?}", made.for_clients()),
        format!("{:?}", Access::Credentials(made)),
        format!(
            "{:?}",
            Connect {
                pass: pass(),
                ..Connect::new("x:1")
            }
        ),
    ] {
        assert!(
            !shown.contains(&token) && shown.contains("sha256:"),
            "{shown}"
        );
    }
}

#[test]
fn a_credentials_file_has_no_control_character_in_its_token() {
    let credentials = credentials().for_clients();
    let text = credentials.to_text();
    // The end of a line may be that of another system.
    let other = text.replace('\n', "\r\n");
    assert_eq!(ClientCredentials::parse(other.as_bytes()), Ok(credentials));
    for odd in ["\r\r\n", "\t\n", "\u{7f}\n"] {
        let spoilt = format!("{}{odd}", text.trim_end());
        assert!(
            ClientCredentials::parse(spoilt.as_bytes()).is_err(),
            "{odd:?}"
        );
    }
}

proptest! {
    #[test]
    fn a_credentials_file_is_read_as_it_was_written_or_not_at_all(
        fingerprint in any::<[u8; 32]>(), token in "[!-~]{16,80}", at in 0usize..200, byte in any::<u8>(),
    ) {
        let credentials = ClientCredentials {
            fingerprint: dpb_link::tls::Fingerprint(fingerprint),
            token: dpb_link::Token::new(token).unwrap(),
        };
        let text = credentials.to_text();
        prop_assert_eq!(ClientCredentials::parse(text.as_bytes()), Ok(credentials.clone()));
        let mut bytes = text.into_bytes();
        let at = at % bytes.len();
        let before = bytes[at];
        bytes[at] = byte;
        if let Ok(read) = ClientCredentials::parse(&bytes) {
            // A letter's case, a line's end, or another value.
            prop_assert!(read != credentials || before.eq_ignore_ascii_case(&byte) || at + 1 == bytes.len());
        }
        prop_assert!(ClientCredentials::parse(&bytes[..at]).is_err() || at + 1 >= bytes.len() || read_token_is_shorter(&bytes[..at], &credentials));
        let _ = ClientCredentials::parse(&bytes[at..]);
    }
}

/// A file that is cut inside its token is another token, of which nobody can say that it was longer.
fn read_token_is_shorter(bytes: &[u8], whole: &ClientCredentials) -> bool {
    ClientCredentials::parse(bytes).is_ok_and(|read| {
        read.fingerprint == whole.fingerprint
            && whole.token.as_bytes().starts_with(read.token.as_bytes())
    })
}

#[test]
fn another_certificate_is_refused_before_the_token_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    let other = ServerCredentials::make(&folder.path().join("other")).unwrap();
    let serving = encrypted();
    let address = serving.address.clone();
    let expected = other.for_clients();
    let error = soon(move || echoing(&address, Pass::Credentials(expected))).unwrap_err();
    let said = error.to_string();
    for fingerprint in [credentials().fingerprint(), other.fingerprint()] {
        assert!(said.contains(&fingerprint.to_string()), "{said}");
    }
    assert!(serving.said(&["another certificate"]));
    assert!(echoing(&serving.address, pass()).is_ok());
}

#[test]
fn a_client_that_does_not_encrypt_is_told_so_by_an_agent_that_does() {
    let serving = encrypted();
    for pass in [Pass::None, Pass::Token(token())] {
        match echoing(&serving.address, pass) {
            Err(LinkError::Refused {
                refusal: Refusal::Credentials,
                text,
            }) => {
                assert!(text.contains("--credentials FILE"), "{text}");
            }
            other => panic!("{other:?}"),
        }
    }
    for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0], &[0xff; 300]] {
        let mut stream = serving.dial();
        stream.write_all(bytes).unwrap();
        let (refusal, _) = last_words(&mut stream).unwrap();
        assert_eq!(refusal, Refusal::Credentials);
    }
    assert!(echoing(&serving.address, pass()).is_ok());
}

#[test]
fn a_client_that_encrypts_is_told_so_by_an_agent_that_does_not() {
    for access in [Access::Anyone, Access::Token(token())] {
        let serving = Serving::start(access);
        let address = serving.address.clone();
        let error = soon(move || echoing(&address, pass())).unwrap_err();
        assert!(matches!(error, LinkError::Tls(_)), "{error}");
        assert!(error.to_string().contains("does not speak TLS"), "{error}");
        assert!(serving.said(&["does not encrypt"]));
    }
}

#[test]
fn garbage_for_tls_ends_soon_and_alone() {
    let serving = encrypted();
    let mut survivor = echoing(&serving.address, pass()).unwrap();
    // What looks like a handshake record, and is none.
    let noise = |len: usize| -> Vec<u8> {
        (0..len)
            .map(|i| ((i as u32).wrapping_mul(2_654_435_761) >> 24) as u8)
            .collect()
    };
    let record = |len: u16, body: Vec<u8>| [&[22, 3, 1], &len.to_be_bytes()[..], &body].concat();
    for bytes in [
        record(5000, noise(5000)),
        record(200, noise(100)),
        record(u16::MAX, noise(70_000)),
        record(0, vec![]),
        [record(4, vec![1, 0, 0, 0]), record(4, vec![1, 0, 0, 0])].concat(),
    ] {
        let mut stream = serving.dial();
        // It may be refused before it was read.
        let _ = stream.write_all(&bytes);
        let _ = stream.shutdown(Shutdown::Write);
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        assert!(rest.len() < 100, "an alert at most");
    }
    // A client that gets it.
    for answer in [
        noise(3000),
        record(5000, noise(5000)),
        vec![22, 3],
        vec![21, 3, 3, 0, 2, 2, 40],
    ] {
        let address = support::saying(answer);
        let error = soon(move || echoing(&address, pass())).unwrap_err();
        assert!(
            matches!(error, LinkError::Tls(_) | LinkError::Io(_)),
            "{error}"
        );
    }
    echo::round_trip(&mut survivor, b"still there").unwrap();
}

/// A stream whose reads wait, however long it takes.
struct Patient(Stream);

impl Read for Patient {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.0.read(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return read,
            }
        }
    }
}

/// A client with the right credentials is a client; that does not make its bytes right.
#[test]
fn garbage_inside_an_encrypted_session_ends_it_with_a_word() {
    let serving = encrypted();
    let mut survivor = echoing(&serving.address, pass()).unwrap();
    for garbage in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        &[0xff; 70_000],
        &[16, 0, 0, 0, 0xff, 0xff, 0xff, 0x7f],
        &[16, 0, 0, 1, 0, 0, 0, 0],
    ] {
        let mut stream = echoing(&serving.address, pass()).unwrap().into_stream();
        // The agent may end before it has all of it.
        let _ = stream.write_all(garbage).and_then(|()| stream.flush());
        let words = soon(move || last_words(&mut Patient(stream)));
        assert_eq!(words.map(|words| words.0), Some(Refusal::Protocol));
    }
    echo::round_trip(&mut survivor, b"still there").unwrap();
}

/// Whoever can write to the connection of a session that others have made.
#[test]
fn bytes_that_are_not_of_the_encrypted_session_end_it() {
    let serving = encrypted();
    let mut survivor = echoing(&serving.address, pass()).unwrap();
    for garbage in [
        hello(),
        vec![23, 3, 3, 0, 40].into_iter().chain([7; 40]).collect(),
        vec![22, 3, 3, 0, 4, 1, 0, 0, 0],
        vec![0xff; 70_000],
    ] {
        let stream = echoing(&serving.address, pass()).unwrap().into_stream();
        let _ = stream.tcp().write_all(&garbage);
        let _ = stream.tcp().shutdown(Shutdown::Write);
        let mut rest = Vec::new();
        let ended = soon(move || Patient(stream).read_to_end(&mut rest).map(|_| rest));
        // An alert, an end, or a reset; never an answer.
        assert!(ended.is_err() || ended.is_ok_and(|rest| rest.is_empty()));
    }
    echo::round_trip(&mut survivor, b"still there").unwrap();
}

/// Stands between a client and an agent, and passes on what `change` makes of the bytes that the client sends, as they come.
fn between(agent: &str, change: impl Fn(u64, &mut Vec<u8>) + Send + 'static) -> String {
    let listener = TcpListener::bind(loopback()).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let agent = agent.to_owned();
    thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let mut agent = TcpStream::connect(agent).unwrap();
        let (mut from_agent, mut to_client) =
            (agent.try_clone().unwrap(), client.try_clone().unwrap());
        let back = thread::spawn(move || {
            let _ = std::io::copy(&mut from_agent, &mut to_client);
            let _ = to_client.shutdown(Shutdown::Both);
        });
        let (mut at, mut buffer) = (0, vec![0; 70_000]);
        while let Ok(count @ 1..) = client.read(&mut buffer) {
            let mut bytes = buffer[..count].to_vec();
            change(at, &mut bytes);
            at += count as u64;
            if agent.write_all(&bytes).is_err() || bytes.len() < count {
                break;
            }
        }
        let _ = agent.shutdown(Shutdown::Both);
        let _ = back.join();
    });
    address
}

#[test]
fn a_handshake_that_is_cut_or_changed_anywhere_gives_no_session() {
    // A length that was changed keeps the agent waiting.
    let mut options = AgentOptions::new(loopback());
    options.access = Access::Credentials(credentials());
    options.handshake_patience = Duration::from_secs(2);
    let serving = Serving::with(options);
    // Its bytes, as they crossed.
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&seen);
    let address = between(&serving.address, move |_, bytes| {
        noted.lock().unwrap().extend_from_slice(bytes);
    });
    let mut link = soon(move || echoing(&address, pass())).unwrap();
    echo::round_trip(&mut link, b"a body").unwrap();
    let seen = seen.lock().unwrap().clone();
    let whole = seen.len() as u64;
    assert!(whole > 300, "{whole}");
    drop(link);
    for cut in (0..whole).step_by(7) {
        let address = between(&serving.address, move |at, bytes| {
            bytes.truncate(cut.saturating_sub(at) as usize);
        });
        let asked = soon(move || {
            let mut link = echoing(&address, pass())?;
            echo::round_trip(&mut link, b"a body")
        });
        assert!(asked.is_err(), "cut at {cut}");
    }
    // But for the versions in the headers of records, which are to be ignored (RFC 8446, section 5.1).
    let versions = versions_of_records(&seen);
    let flipped = (0..whole).filter(|at| !versions.contains(at));
    for flipped in flipped.step_by(13) {
        let address = between(&serving.address, move |at, bytes| {
            if (at..at + bytes.len() as u64).contains(&flipped) {
                bytes[(flipped - at) as usize] ^= 0x10;
            }
        });
        let asked = soon(move || {
            let connect = Connect {
                pass: pass(),
                patience: Duration::from_secs(3),
                ..Connect::new(address)
            };
            let mut link = match connect.session() {
                Ok(session) => session.open(echo::NAME, echo::VERSION, echo::TAGS)?,
                Err(ConnectError::Link { source, .. }) => return Err(source),
                Err(other) => panic!("{other}"),
            };
            link.set_deadline(Some(Duration::from_secs(3)));
            echo::round_trip(&mut link, b"a body")
        });
        assert!(asked.is_err(), "changed at {flipped}");
    }
    assert!(echoing(&serving.address, pass()).is_ok());
}

/// Where the versions in the headers of these records are.
fn versions_of_records(mut records: &[u8]) -> Vec<u64> {
    let (mut at, mut versions) = (0, Vec::new());
    while let Some((&[_, _, _, high, low], rest)) = records.split_first_chunk::<5>() {
        versions.extend([at + 1, at + 2]);
        let len = u16::from_be_bytes([high, low]);
        at += 5 + u64::from(len);
        records = &rest[usize::from(len)..];
    }
    versions
}

#[test]
fn nothing_of_a_body_or_a_token_crosses_in_clear() {
    let serving = encrypted();
    let crossed = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&crossed);
    let address = between(&serving.address, move |_, bytes| {
        noted.lock().unwrap().extend_from_slice(bytes);
    });
    let body = b"a body that somebody might look for".repeat(100);
    let sent = body.clone();
    soon(move || {
        let mut link = echoing(&address, pass()).unwrap();
        echo::round_trip(&mut link, &sent).unwrap();
    });
    let crossed = crossed.lock().unwrap();
    assert!(crossed.len() > body.len());
    let is_there = |needle: &[u8]| crossed.windows(needle.len()).any(|window| window == needle);
    assert!(!is_there(&body[..16]) && !is_there(&credentials().token().as_bytes()[..16]));
    assert!(!is_there(b"DPBW") && is_there(&[22, 3, 1]));
}

#[test]
fn a_tls_peer_that_says_nothing_is_given_up() {
    let mut options = AgentOptions::new(loopback());
    options.access = Access::Credentials(credentials());
    options.handshake_patience = Duration::from_millis(300);
    let serving = Serving::with(options);
    let mut stream = serving.dial();
    let mut rest = Vec::new();
    // Closed, or reset.
    let _ = stream.read_to_end(&mut rest);
    let listener = TcpListener::bind(loopback()).unwrap();
    let connect = Connect {
        pass: pass(),
        patience: Duration::from_millis(300),
        ..Connect::new(listener.local_addr().unwrap().to_string())
    };
    let late = soon(move || connect.session()).unwrap_err();
    assert!(late.to_string().contains("in time"), "{late}");
}

/// Sends parts of a file.
struct Files(fs::File);

const FILE_TAGS: Tags = Tags {
    body_bytes_max: |tag| (tag == 150).then_some(8 << 20),
    is_bulk: |_| false,
};

impl Service for Files {
    fn name(&self) -> &str {
        "files"
    }

    fn version(&self) -> u16 {
        1
    }

    fn tags(&self) -> Tags {
        FILE_TAGS
    }

    fn serve(&self, link: &mut Link, _: &ClientInfo) -> Result<(), LinkError> {
        for (offset, len) in [(0, 1), (7, 1_000_000), (1000, 2_799_000)] {
            let sent = link.send_file_frame(150, &self.0, offset, len, &|| false)?;
            assert_eq!(sent, None);
        }
        link.receive_header().map(drop)
    }
}

#[test]
fn a_file_arrives_byte_for_byte_in_clear_and_encrypted() {
    let bytes: Vec<u8> = (0..700_000u32).flat_map(|i| i.to_le_bytes()).collect();
    for access in support::accesses() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes).unwrap();
        let pass = support::pass(&access);
        let options = AgentOptions {
            access,
            ..AgentOptions::new(loopback())
        };
        let agent = Agent::bind(options, vec![Arc::new(Files(file))]).unwrap();
        let serving = Serving::of(agent, false);
        let connect = Connect {
            pass,
            ..Connect::new(&*serving.address)
        };
        let mut link = connect
            .session()
            .unwrap()
            .open("files", 1, FILE_TAGS)
            .unwrap();
        for (offset, len) in [(0, 1), (7, 1_000_000), (1000, 2_799_000)] {
            let header = link.receive_answer_of(150).unwrap();
            assert!(link.receive_body(header).unwrap() == bytes[offset..offset + len]);
        }
    }
}

/// OpenSSL's client on a connection to `address`, which is given `input`; what it has received, and what it has said.
fn openssl(address: &str, version: &str, input: &[u8]) -> Option<(Vec<u8>, String)> {
    let spawned = Command::new("openssl")
        .args(["s_client", "-quiet", "-connect", address, version])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut child) = spawned else {
        println!(
            "skipped: no openssl; install it to have TLS checked against another implementation"
        );
        return None;
    };
    let mut stdin = child.stdin.take().unwrap();
    // It may have ended already.
    let _ = stdin.write_all(input);
    let _ = stdin.flush();
    // -quiet waits for the agent to end the connection, so standard input stays open until then.
    let ended = child.wait_with_output().unwrap();
    drop(stdin);
    Some((
        ended.stdout,
        String::from_utf8_lossy(&ended.stderr).into_owned(),
    ))
}

#[test]
fn openssl_shakes_hands_as_a_client_and_frames_pass() {
    let serving = encrypted();
    let mut hello = dpb_link::hello::Hello::parse(&hello()[8..]).unwrap();
    hello.token = credentials().token().as_bytes().to_vec();
    let frames = [
        support::frame(1, &hello.to_bytes()),
        open("echo", 1),
        support::frame(16, b"through OpenSSL"),
        // It ends the connection.
        support::frame(9, &[]),
    ];
    let Some((received, said)) = openssl(&serving.address, "-tls1_3", &frames.concat()) else {
        return;
    };
    let expected = support::frame(144, b"through OpenSSL");
    let is_there = received
        .windows(expected.len())
        .any(|window| window == expected);
    assert!(is_there, "{said}");
    // No older version.
    let (received, said) = openssl(&serving.address, "-tls1_2", &frames.concat()).unwrap();
    assert!(received.is_empty() && said.contains("alert"), "{said}");
}

#[test]
fn openssl_shows_the_certificate_that_the_credentials_name() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("credentials");
    let made = ServerCredentials::make(&dir).unwrap();
    let asked = Command::new("openssl")
        .args(["x509", "-noout", "-fingerprint", "-sha256", "-in"])
        .arg(dir.join("certificate.pem"))
        .output();
    let Ok(asked) = asked else {
        println!(
            "skipped: no openssl; install it to have certificates checked against another implementation"
        );
        return;
    };
    let said = String::from_utf8_lossy(&asked.stdout)
        .to_lowercase()
        .replace(':', "");
    let fingerprint = made.fingerprint().to_string();
    assert!(
        said.contains(fingerprint.trim_start_matches("sha256:")),
        "{said} {fingerprint}"
    );
}

#[test]
fn a_client_takes_openssls_server_for_what_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("credentials");
    let made = ServerCredentials::make(&dir).unwrap();
    // A port that was free a moment ago.
    let port = TcpListener::bind(loopback())
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let spawned = Command::new("openssl")
        .args([
            "s_server",
            "-quiet",
            "-naccept",
            "1",
            "-accept",
            &format!("127.0.0.1:{port}"),
        ])
        .arg("-key")
        .arg(dir.join("key.pem"))
        .arg("-cert")
        .arg(dir.join("certificate.pem"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut child) = spawned else {
        println!(
            "skipped: no openssl; install it to have TLS checked against another implementation"
        );
        return;
    };
    let address = format!("127.0.0.1:{port}");
    let ask = || {
        let connect = Connect {
            pass: Pass::Credentials(made.for_clients()),
            patience: Duration::from_secs(20),
            ..Connect::new(&*address)
        };
        connect.session()
    };
    // What it says is typed at it: an error frame, in answer to the hello that it prints.
    let refusal = dpb_link::refusal_bytes(Refusal::Busy, "typed at OpenSSL");
    let mut stdin = child.stdin.take().unwrap();
    let typed = thread::spawn({
        let mut stdout = child.stdout.take().unwrap();
        move || {
            let mut begin = [0; 8 + 4];
            stdout.read_exact(&mut begin).unwrap();
            stdin.write_all(&support::frame(135, &refusal)).unwrap();
            stdin.flush().unwrap();
            (begin, stdin)
        }
    });
    let is_there = support::wait_until(|| is_listening(port));
    assert!(is_there);
    match ask() {
        Err(ConnectError::Link {
            source: LinkError::Refused { refusal, text },
            ..
        }) => assert_eq!((refusal, &*text), (Refusal::Busy, "typed at OpenSSL")),
        other => panic!("{other:?}"),
    }
    let (begin, _stdin) = typed.join().unwrap();
    assert_eq!(&begin[8..], b"DPBW");
    let _ = child.kill();
    let _ = child.wait();
}

/// Whether somebody listens on this port of loopback, without a connection to it.
fn is_listening(port: u16) -> bool {
    let sockets = fs::read_to_string("/proc/net/tcp").unwrap_or_default();
    sockets.contains(&format!("0100007F:{port:04X} 00000000:0000 0A"))
}
