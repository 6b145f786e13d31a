//! The service `operators`, each side against whatever the other one says: an agent that computes for a client, and a client's backend,
//! operator, table and queue at an agent; with a transport beside the connection if it is asked for, whose pieces are always there.
//!
//! An agent answers in whole messages and with the tags of an agent. A client's jobs come home, each once, in their own memory.
#![no_main]

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroU32;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use dpb_core::{
    Backend, Family, Items, Job, OpSpec, OutputShape, ParameterValue, Queue, SetupError,
    Unsupported,
};
use dpb_link::bulk::{Acceptor, BodyReader, BodyWriter, Broken, Connected, Connector, Offer, Ring};
use dpb_link::operators::{
    Dialled, OperatorsService, Quotas, Remote, SessionSecurity, Share, Wire,
};
use dpb_operators::cpu;
use dpb_operators::registry::Operators;
use libfuzzer_sys::fuzz_target;

/// Operators of the seeds: a fixed output, a variable one, one with a key, one with a table that changes.
const SPECS: [(&str, &str); 4] = [
    ("crc32c", ""),
    ("deflate", "level=1"),
    ("aes-gcm", ""),
    ("lpm4", "routes=generated:100"),
];
/// Bytes of an item of the client's jobs; and where a job of three is to be placed.
const ITEM_BYTES: [u32; 2] = [40, 1500];
/// Slots of the client's are not longer, whatever the agent says.
const SLOT_BYTES_MAX: usize = 4096;
/// The most of a peer's bytes that end up in one allocation is bounded by these.
const QUOTAS: Quotas = Quotas {
    depth_max: 4,
    input_bytes_max: 64 << 10,
    output_bytes_max: 64 << 10,
    items_max: 256,
    spec_bytes_max: 64 << 10,
    a_client: SHARE,
    all_clients: SHARE,
};
const SHARE: Share = Share {
    operators: 8,
    queues: 4,
    backends: 2,
    threads: 2,
};
/// Every client's address.
const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// The bit of a client's mode by which it wants a transport beside its connections.
const BESIDE: u8 = 0x80;

fuzz_target!(init: dpb_fuzz::plant(seeds()), |bytes: &[u8]| {
    match bytes.split_first() {
        Some((&mode, rest)) if mode % 2 == 0 => ask_agent(rest, mode & 2 == 0),
        Some((&mode, rest)) => {
            let which = usize::from(mode >> 1 & 0x3f) % SPECS.len();
            answer_client(rest, which, mode & BESIDE != 0);
        }
        None => {}
    }
});

fn resolve(name: &str, parameters: &[(&str, ParameterValue)]) -> Result<OpSpec, SetupError> {
    Operators::DPB.spec_from(name, parameters)
}

fn specs() -> Vec<OpSpec> {
    let spec = |(name, parameters): (&str, &str)| {
        let entry = Operators::DPB.find(name).expect("registered");
        entry.spec(parameters).expect("valid")
    };
    SPECS.map(spec).into()
}

fn service() -> OperatorsService {
    let open = |name: &str| match name {
        "cpu" => Ok(cpu::best()),
        other => Err(Unsupported {
            reason: format!("no {other}"),
        }),
    };
    let service = OperatorsService::new(Box::new(open), resolve).with_quotas(QUOTAS);
    service
        .with_machine("a machine")
        .with_duplex(Ok(Arc::new(Endless)))
        .with_patience(Duration::from_secs(5))
}

/// A transport whose ring takes everything, and whose pieces, of a byte each, are always there.
#[derive(Debug)]
struct Endless;

/// As large as the longest body here.
const ENDLESS: Ring = Ring {
    pieces: 1 << 20,
    piece_bytes: 1,
};

impl BodyWriter for Endless {
    fn ring(&self) -> Ring {
        ENDLESS
    }

    fn write(&mut self, parts: &[&[u8]]) -> Result<(), Broken> {
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        assert_eq!(bytes, ENDLESS.piece_bytes, "a whole piece, and no more");
        Ok(())
    }

    fn in_flight(&mut self) -> Result<u32, Broken> {
        Ok(0)
    }
}

impl BodyReader for Endless {
    fn ring(&self) -> Ring {
        ENDLESS
    }

    fn arrived(&mut self) -> Result<Option<usize>, Broken> {
        Ok(Some(ENDLESS.piece_bytes))
    }

    fn copy(&self, at: usize, into: &mut [u8]) {
        assert!(at + into.len() <= ENDLESS.piece_bytes, "inside the piece");
        into.fill(7);
    }

    fn release(&mut self) -> Result<(), Broken> {
        Ok(())
    }

    fn check(&mut self) -> Result<(), Broken> {
        Ok(())
    }
}

impl Connector for Endless {
    fn offer(&self) -> Result<(Vec<u8>, Box<dyn Offer>), String> {
        Ok((b"a ring".to_vec(), Box::new(Endless)))
    }
}

impl Offer for Endless {
    fn open(self: Box<Self>, answer: &[u8]) -> Result<Connected, String> {
        match answer {
            b"" => Err("no answer".to_owned()),
            _ => Ok(Connected {
                reader: self,
                name: "memory".to_owned(),
                emulated_by: Some("a stand-in".to_owned()),
            }),
        }
    }
}

impl Acceptor for Endless {
    fn accept(&self, offer: &[u8]) -> Result<(Vec<u8>, Box<dyn BodyWriter>), String> {
        match offer {
            b"" => Err("no offer".to_owned()),
            _ => Ok((b"here".to_vec(), Box::new(Endless))),
        }
    }
}

/// A peer that has said all that it will ever say, and the words of the other side.
struct Script {
    /// Some file, which nobody waits for: all bytes are there.
    file: UnixStream,
    messages: VecDeque<Vec<u8>>,
    /// Bytes of the first message that were read.
    read: usize,
    /// The last number of a prepared operator is put where a question has one.
    is_patched: bool,
    heard: Arc<Mutex<Vec<u8>>>,
}

/// A message's header: tag, three zeros, length.
const HEADER_BYTES: usize = 8;
const TAG_PREPARED: u8 = 8;
/// Questions whose body begins with the number of an operator.
const NUMBERED: [u8; 5] = [9, 11, 12, 13, 15];

impl Script {
    fn new(bytes: &[u8], is_patched: bool) -> Self {
        static FILES: LazyLock<(UnixStream, UnixStream)> =
            LazyLock::new(|| UnixStream::pair().expect("sockets"));
        Self {
            file: FILES.0.try_clone().expect("a socket"),
            messages: split(bytes),
            read: 0,
            is_patched,
            heard: Arc::default(),
        }
    }

    fn patch(&mut self) {
        let number = last_number(&self.heard.lock().expect("no panic"));
        if let (Some(number), Some(message)) = (number, self.messages.front_mut())
            && NUMBERED.contains(&message[0])
            && let Some(place) = message.get_mut(HEADER_BYTES..HEADER_BYTES + 16)
        {
            place.copy_from_slice(&number);
        }
    }
}

/// Whole messages as far as the bytes are some, then the rest.
fn split(mut bytes: &[u8]) -> VecDeque<Vec<u8>> {
    let mut messages = VecDeque::new();
    while let Some(len) = bytes.get(4..HEADER_BYTES) {
        let len = u32::from_le_bytes(len.try_into().expect("four bytes")) as usize;
        let Some((message, rest)) = bytes.split_at_checked(HEADER_BYTES.saturating_add(len)) else {
            break;
        };
        messages.push_back(message.to_vec());
        bytes = rest;
    }
    if !bytes.is_empty() {
        messages.push_back(bytes.to_vec());
    }
    messages
}

fn last_number(heard: &[u8]) -> Option<[u8; 16]> {
    let messages = split(heard);
    let prepared = messages
        .iter()
        .rfind(|message| message[0] == TAG_PREPARED)?;
    prepared
        .get(HEADER_BYTES..HEADER_BYTES + 16)?
        .try_into()
        .ok()
}

impl Read for Script {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if self.read == 0 && self.is_patched {
            self.patch();
        }
        let Some(message) = self.messages.front() else {
            return Ok(0);
        };
        let len = to.len().min(message.len() - self.read);
        to[..len].copy_from_slice(&message[self.read..][..len]);
        self.read += len;
        if self.read == message.len() {
            self.messages.pop_front();
            self.read = 0;
        }
        Ok(len)
    }
}

impl Write for Script {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.heard.lock().expect("no panic").extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsFd for Script {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Wire for Script {
    fn set_nonblocking(&self, _: bool) -> io::Result<()> {
        Ok(())
    }

    fn end(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn has_buffered(&self) -> bool {
        true
    }
}

/// An agent hears `bytes`, and then the client's end.
fn ask_agent(bytes: &[u8], is_patched: bool) {
    static SERVICE: LazyLock<OperatorsService> = LazyLock::new(service);
    let script = Script::new(bytes, is_patched);
    let heard = script.heard.clone();
    // Why it ended was said to the client as well, and is looked at there.
    let _ = SERVICE.serve_wire(Box::new(script), CLIENT, SessionSecurity::Loopback, &|| {
        false
    });
    let heard = heard.lock().expect("no panic");
    for message in split(&heard) {
        let of_agent = [2, 4, 6, 8, 10, 14, 16, 18, 19, 21, 23, 25, 26, 27].contains(&message[0]);
        assert!(
            of_agent && message[1..4] == [0; 3],
            "{:?}",
            &message[..HEADER_BYTES.min(message.len())]
        );
        let len = u32::from_le_bytes(message[4..HEADER_BYTES].try_into().expect("four bytes"));
        assert_eq!(
            message.len(),
            HEADER_BYTES + len as usize,
            "a whole message"
        );
    }
}

/// A client hears `bytes`: the first two say where what comes over its second connection begins. By a transport beside it there is a third one,
/// which says the same.
fn answer_client(bytes: &[u8], which: usize, is_beside: bool) {
    static SPECS: LazyLock<Vec<OpSpec>> = LazyLock::new(specs);
    let Some((at, bytes)) = bytes.split_first_chunk() else {
        return;
    };
    let at = usize::from(u16::from_le_bytes(*at)).min(bytes.len());
    let (questions, queue) = bytes.split_at(at);
    let said = [questions.to_vec(), queue.to_vec(), queue.to_vec()];
    let said = Mutex::new(VecDeque::from(said));
    let dial = move |_: &str| -> Result<Dialled, String> {
        let words = said
            .lock()
            .expect("no panic")
            .pop_front()
            .unwrap_or_default();
        Ok(Dialled {
            wire: Box::new(Script::new(&words, false)),
            security: SessionSecurity::Loopback,
        })
    };
    let mut remote = Remote::new(dial, resolve).with_patience(Duration::from_secs(5));
    if is_beside {
        remote = remote.beside("remote-memory", "memory", Arc::new(Endless));
    }
    if let Ok(backend) = remote.open("127.0.0.1:1/cpu") {
        use_backend(&*backend, &SPECS[which], ITEM_BYTES[usize::from(is_beside)]);
    }
}

/// All that a client does with a backend: limits, an operator, its table, a queue with two jobs.
fn use_backend(backend: &dyn Backend, spec: &OpSpec, item_bytes: u32) {
    let _ = (
        backend.properties(),
        backend.limits(spec),
        backend.code(spec),
    );
    let Ok(operator) = backend.prepare(spec) else {
        return;
    };
    let _ = operator.in_place();
    let len = operator.dst_len(item_bytes as usize).min(SLOT_BYTES_MAX);
    if let Some(control) = operator.control() {
        let _ = (control.change(b"10.0.0.0/8 1"), control.commit());
    }
    let (shape, depth) = (operator.shape(), NonZeroU32::new(2).expect("two"));
    let Ok(mut queue) = operator.open(depth) else {
        return;
    };
    let mut ready: VecDeque<Job> = (0..2)
        .map(|tag| job(backend, tag, item_bytes, len, shape))
        .collect();
    let taken = queue.submit(&mut ready);
    assert_eq!(taken, 2, "a queue takes as many as it is deep");
    home(&mut *queue, taken, len);
}

fn job(backend: &dyn Backend, tag: u64, item_bytes: u32, len: usize, shape: OutputShape) -> Job {
    let items = 2 + tag as u32;
    let src = backend
        .alloc((item_bytes * items) as usize)
        .expect("memory");
    let dst = backend.alloc(len * items as usize).expect("memory");
    Job::new(tag, src, Items::fixed(item_bytes, items), dst, shape)
}

/// Polls until all jobs are home, and looks at them.
fn home(queue: &mut dyn Queue, taken: usize, len: usize) {
    let mut done = Vec::new();
    // Every byte that will ever come is there, so a poll either takes a job home or loses the connection.
    for _ in 0..100 {
        queue.poll(&mut done);
        if queue.in_flight() == 0 {
            break;
        }
        queue.wait(Duration::ZERO);
    }
    assert_eq!((queue.in_flight(), done.len()), (0, taken));
    let mut tags: Vec<u64> = done.iter().map(|done| done.job.tag).collect();
    tags.sort_unstable();
    assert_eq!(tags, [0, 1]);
    for done in &done {
        let items = 2 + done.job.tag as usize;
        assert_eq!(done.job.dst[0].len(), len * items);
        if done.result.is_ok() {
            let lens = done.job.outcomes.iter().flatten();
            lens.for_each(|&out| assert!(out as usize <= len));
        }
    }
}

/// Conversations of a real client with a real agent: what each side said.
fn seeds() -> Vec<Vec<u8>> {
    let service = service();
    let mut seeds = Vec::new();
    for (which, spec) in specs().iter().enumerate() {
        for is_beside in [false, true] {
            let [client, agent] = conversation(&service, spec, is_beside);
            // By a transport beside the connection it is tried on the second one, and the queue is the last.
            let (questions, queue) = (&client[0], client.last().expect("two at least"));
            let whole = client.concat();
            // The queue on the connection of the questions, so that one input has all of it.
            let one = [&questions[..], &queue[HELLO_BYTES..]].concat();
            for bytes in [questions, &whole, &one] {
                seeds.push([&[0][..], bytes].concat());
            }
            let (questions, queue) = (&agent[0], agent.last().expect("two at least"));
            let at = questions.len() as u16;
            let mode = 1 + 2 * which as u8 + if is_beside { BESIDE } else { 0 };
            seeds.push([&[mode], &at.to_le_bytes()[..], questions, queue].concat());
        }
    }
    seeds.sort();
    seeds.dedup();
    seeds
}

/// A client's first message: a header, and a magic with a version.
const HELLO_BYTES: usize = HEADER_BYTES + 6;

/// The bytes of a client and of its agent, each by connection.
fn conversation(service: &OperatorsService, spec: &OpSpec, is_beside: bool) -> [Vec<Vec<u8>>; 2] {
    let tapes: Arc<Mutex<Vec<Tape>>> = Arc::default();
    std::thread::scope(|scope| {
        let (calls, called) = std::sync::mpsc::channel::<UnixStream>();
        scope.spawn(move || {
            std::thread::scope(|scope| {
                for stream in called {
                    scope.spawn(|| {
                        let wire = Box::new(stream);
                        service.serve_wire(wire, CLIENT, SessionSecurity::Loopback, &|| false)
                    });
                }
            });
        });
        let kept = tapes.clone();
        let dial = move |_: &str| -> Result<Dialled, String> {
            let (ours, theirs) = UnixStream::pair().expect("sockets");
            calls.send(theirs).expect("the agent lives");
            let tape = Tape::default();
            kept.lock().expect("no panic").push(tape.clone());
            Ok(Dialled {
                wire: Box::new(Recorded { stream: ours, tape }),
                security: SessionSecurity::Loopback,
            })
        };
        let mut remote = Remote::new(dial, resolve);
        if is_beside {
            remote = remote.beside("remote-memory", "memory", Arc::new(Endless));
        }
        let backend = remote.open("127.0.0.1:1/cpu").expect("an agent");
        let item_bytes = ITEM_BYTES[usize::from(is_beside)];
        use_backend_for_real(&*backend, spec, item_bytes);
    });
    let tapes = tapes.lock().expect("no panic");
    [0, 1].map(|side| {
        tapes
            .iter()
            .map(|tape| tape.0.lock().expect("no panic")[side].clone())
            .collect()
    })
}

/// As [`use_backend`], of an agent that answers in its time.
fn use_backend_for_real(backend: &dyn Backend, spec: &OpSpec, item_bytes: u32) {
    let _ = (backend.limits(spec), backend.code(spec));
    let operator = backend.prepare(spec).expect("an operator");
    let len = operator.dst_len(item_bytes as usize).min(SLOT_BYTES_MAX);
    if let Some(control) = operator.control() {
        let _ = (control.change(b"10.0.0.0/8 1"), control.commit());
    }
    let shape = operator.shape();
    let mut queue = operator
        .open(NonZeroU32::new(2).expect("two"))
        .expect("a queue");
    let mut ready: VecDeque<Job> = (0..2)
        .map(|tag| job(backend, tag, item_bytes, len, shape))
        .collect();
    queue.submit(&mut ready);
    let mut done = Vec::new();
    while queue.in_flight() > 0 {
        queue.poll(&mut done);
        queue.wait(Duration::from_millis(5));
    }
}

/// What a client said, and what it heard.
#[derive(Clone, Default)]
struct Tape(Arc<Mutex<[Vec<u8>; 2]>>);

struct Recorded {
    stream: UnixStream,
    tape: Tape,
}

impl Read for Recorded {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let len = self.stream.read(to)?;
        self.tape.0.lock().expect("no panic")[1].extend(&to[..len]);
        Ok(len)
    }
}

impl Write for Recorded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let len = self.stream.write(bytes)?;
        self.tape.0.lock().expect("no panic")[0].extend(&bytes[..len]);
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsFd for Recorded {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl Wire for Recorded {
    fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        self.stream.set_nonblocking(nonblocking)
    }
}
