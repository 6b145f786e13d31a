//! A connection between client and agent on which messages are lost, changed and made up, as the documentation of the protocol has them.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

/// Kinds of messages.
pub const WELCOME: u8 = 2;
pub const JOB: u8 = 17;
pub const DONE: u8 = 18;

/// One message: its kind and its body.
#[derive(Clone, Debug)]
pub struct Message {
    pub from_client: bool,
    pub tag: u8,
    pub body: Vec<u8>,
}

impl Message {
    pub fn bytes(&self) -> Vec<u8> {
        let len = u32::try_from(self.body.len()).expect("short");
        let mut bytes = vec![self.tag, 0, 0, 0];
        bytes.extend(len.to_le_bytes());
        bytes.extend(&self.body);
        bytes
    }
}

/// What becomes of a message.
pub enum Fate {
    /// These bytes go on instead.
    Bytes(Vec<u8>),
    /// The connection ends, in both directions.
    Close,
}

/// Decides what becomes of messages.
pub type Tamper = dyn Fn(&Message) -> Fate + Send + Sync;

/// Starts a proxy to the agent at `agent`; its threads end with their connections. Says where it listens.
pub fn start(agent: SocketAddr, tamper: Box<Tamper>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let address = listener.local_addr().expect("bound");
    let tamper: Arc<Tamper> = tamper.into();
    thread::spawn(move || {
        while let Ok((client, _)) = listener.accept() {
            let Ok(agent) = TcpStream::connect(agent) else {
                continue;
            };
            let ends = [(client, true), (agent, false)];
            let copy = |(stream, from_client): &(TcpStream, bool)| {
                (stream.try_clone().expect("a socket"), *from_client)
            };
            for [from, to] in [[0, 1], [1, 0]] {
                let ((from, from_client), (to, _)) = (copy(&ends[from]), copy(&ends[to]));
                let tamper = tamper.clone();
                thread::spawn(move || pass(from, to, from_client, &*tamper));
            }
        }
    });
    address
}

fn pass(mut from: TcpStream, mut to: TcpStream, from_client: bool, tamper: &Tamper) {
    while let Some(message) = receive(&mut from, from_client) {
        match tamper(&message) {
            Fate::Bytes(bytes) if to.write_all(&bytes).is_ok() => {}
            Fate::Bytes(_) => break,
            Fate::Close => {
                let _ = from.shutdown(Shutdown::Both);
                break;
            }
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}

/// The next message; `None` at the end.
pub fn receive(from: &mut TcpStream, from_client: bool) -> Option<Message> {
    let mut header = [0; 8];
    from.read_exact(&mut header).ok()?;
    let [tag, _, _, _, len @ ..] = header;
    let mut body = vec![0; u32::from_le_bytes(len) as usize];
    from.read_exact(&mut body).ok()?;
    Some(Message {
        from_client,
        tag,
        body,
    })
}
