//! A client and peers that are strangers, late, or gone.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread;

use super::super::serve::{Agent, AgentOptions};
use super::*;

fn frame(tag: Tag, body: &[u8]) -> Vec<u8> {
    let len = body.len();
    [&Header { tag, len }.to_bytes(), body].concat()
}

/// A peer that welcomes a client and answers its first request, whatever it is, with these bytes.
fn stranger(answer: Vec<u8>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut link = Link::new(stream, 0).unwrap();
        let welcome = Welcome {
            capabilities: wire::CAPABILITY_FETCH,
            agent: AgentInfo::of_this_process(0),
        };
        for words in [frame(Tag::Welcome, &welcome.to_bytes()), answer] {
            let header = link.receive_header().unwrap().unwrap();
            link.receive_body(header).unwrap();
            // The client may leave before the last of it.
            let _ = link.stream().write_all(&words);
        }
        link.drain(Duration::from_secs(10));
    });
    address.to_string()
}

#[test]
fn no_more_of_a_file_is_taken_than_was_announced_and_expected() {
    let fetch = |announced, pieces: &[usize], bytes_max| {
        let reply = Reply::File { bytes: announced };
        let mut answer = frame(Tag::Reply, &wire::encode(&reply));
        for &len in pieces {
            answer.extend(frame(Tag::File, &vec![7; len]));
        }
        answer.extend(frame(Tag::End, &wire::encode(&End::default())));
        let mut client = Client::connect(&stranger(answer), &[], 0).unwrap();
        let mut file = tempfile::tempfile().unwrap();
        let fetched = client.fetch(1.0, "lineitem", FileFormat::Parquet, bytes_max, &mut file);
        (fetched, file.metadata().unwrap().len())
    };
    let (fetched, len) = fetch(3000, &[1000, 2000], 3000);
    assert_eq!((fetched.unwrap(), len), (3000, 3000));
    for (announced, pieces, bytes_max, kept) in [
        (3000, &[1000, 2001][..], u64::MAX, 1000),
        (3000, &[1000, 2000, 1], 3000, 3000),
        (3000, &[1000], 3000, 1000),
        (3001, &[3001], 3000, 0),
    ] {
        let (fetched, len) = fetch(announced, pieces, bytes_max);
        let refused = fetched.unwrap_err();
        assert!(matches!(refused, ClientError::Wire { .. }), "{refused}");
        assert_eq!(len, kept, "{refused}");
    }
}

#[test]
fn an_interrupt_ends_the_wait_for_a_frame() {
    static INTERRUPTED: AtomicBool = AtomicBool::new(false);
    let half = frame(Tag::Reply, &[0; 100])[..50].to_vec();
    for answer in [vec![], half] {
        INTERRUPTED.store(false, Ordering::Relaxed);
        let mut client = Client::connect(&stranger(answer), &[], 0).unwrap();
        client.set_interrupted(|| INTERRUPTED.load(Ordering::Relaxed));
        let (tell, told) = channel();
        thread::spawn(move || tell.send(client.usage(false)));
        assert!(told.recv_timeout(Duration::from_millis(300)).is_err());
        INTERRUPTED.store(true, Ordering::Relaxed);
        let told = told.recv_timeout(Duration::from_secs(10)).unwrap();
        assert!(matches!(told, Err(ClientError::Interrupted)), "{told:?}");
    }
}

/// An agent without data, until `stop` is set.
fn agent(listen: SocketAddr, cache_bytes: u64, stop: &Arc<AtomicBool>) -> SocketAddr {
    let agent = Agent::bind(AgentOptions {
        listen,
        data_dir: "/nowhere".into(),
        cache_bytes,
        token: None,
        threads_max: 1,
        connections_max: 4,
        cold: false,
        say: |_| (),
        handshake_patience: Duration::from_secs(5),
        idle_patience: Some(Duration::from_millis(50)),
        bulk: Err("not tried here".into()),
    });
    let agent = agent.unwrap();
    let (address, stop) = (agent.address(), Arc::clone(stop));
    thread::spawn(move || agent.run(&|| stop.load(Ordering::Relaxed)));
    address
}

#[test]
fn a_connection_that_was_idle_for_too_long_is_made_anew_to_the_same_agent() {
    let stop = Arc::new(AtomicBool::new(false));
    let address = agent("127.0.0.1:0".parse().unwrap(), 0, &stop);
    let mut client = Client::connect(&address.to_string(), &[], 0).unwrap();
    let wait_for_the_end = |client: &Client| {
        let until = Instant::now() + Duration::from_secs(10);
        while !client.link.peer_gone() && Instant::now() < until {
            thread::sleep(Duration::from_millis(10));
        }
        assert!(client.link.peer_gone());
    };
    let mut bytes = (0, 0);
    for _ in 0..3 {
        client.usage(false).unwrap();
        let after = client.bytes();
        assert!(after.0 > bytes.0 && after.1 > bytes.1);
        bytes = after;
        wait_for_the_end(&client);
    }
    stop.store(true, Ordering::Relaxed);
    let until = Instant::now() + Duration::from_secs(10);
    while TcpStream::connect(address).is_ok() && Instant::now() < until {
        thread::sleep(Duration::from_millis(10));
    }
    let gone = client.usage(false).unwrap_err();
    let source = match gone {
        ClientError::Wire { source, .. } => source,
        other => panic!("{other}"),
    };
    assert!(matches!(source, WireError::Closed), "{source}");
    // Another cache: another agent.
    let stop = Arc::new(AtomicBool::new(false));
    agent(address, 1 << 20, &stop);
    let replaced = client.usage(false).unwrap_err();
    assert!(
        matches!(replaced, ClientError::Replaced { .. }),
        "{replaced}"
    );
    stop.store(true, Ordering::Relaxed);
}
