//! The conversation of a client and a server on the control connection: frames over TCP.
//!
//! All numbers are little endian. **A frame** is a header of 8 bytes (tag, three zeros, the length of the body in 4) and a body.
//!
//! | tag | sent by | body | most bytes |
//! |---|---|---|---|
//! | 1 hello | client, first | magic `DPBT` (4), version (2), length of the token (2), the token | 520 |
//! | 2 open | client | `Open` | 48 |
//! | 3 phase | client | the milliseconds that it takes (8) | 8 |
//! | 4 end | client | empty | 0 |
//! | 5 join | a data connection, first | magic, version, zero (2), the session (16), the connection's index (4) | 28 |
//! | 129 welcome | server | magic, version, zero (2), the session (16), [`Machine`] as three texts | 1,600 |
//! | 130 opened | server | empty | 0 |
//! | 131 joined | server | empty | 0 |
//! | 132 ready | server | empty | 0 |
//! | 133 figures | server | `Figures` | 1,100 |
//! | 134 refused | server | why (1), UTF-8 text | 1,025 |
//!
//! Hello, welcome; open, opened; as many data connections as were announced, each with a join; joined. Then phases: phase, ready, messages on the data
//! connections, end, figures. The client's last message of a phase has the number 2^64 - 1 (in the direction `receive`: the server's, after *end*). Closing the
//! control connection ends the session.
//!
//! **Trust.** A length is compared with the tag's bound before memory is taken, a body has exactly the bytes that it says, and each frame has a deadline that begins with
//! the wait for it: who is silent and who trickles are given up alike. **Secrecy.** There is none; the token crosses in clear.

use std::fmt;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use dpb_core::{Clock, WallClock};

use super::{Direction, Engine, Failure, Load, Plan};

/// Version of this protocol.
pub const VERSION: u16 = 1;
/// Bytes that a token may have: what nobody guesses, if they are random.
pub const TOKEN_BYTES: std::ops::RangeInclusive<usize> = 16..=512;

/// First bytes of hello, welcome and join.
const MAGIC: [u8; 4] = *b"DPBT";
const HEADER_BYTES: usize = 8;
/// Most bytes of each text of a [`Machine`].
const TEXT_BYTES_MAX: usize = 512;
const REASON_BYTES_MAX: usize = 1024;
/// How often somebody who waits looks whether to go on.
const LOOK: Duration = Duration::from_millis(50);

/// What tells a session from others; who joins must know it.
pub(super) type SessionId = [u8; 16];

/// What a frame holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Tag {
    Hello = 1,
    Open = 2,
    Phase = 3,
    End = 4,
    Join = 5,
    Welcome = 129,
    Opened = 130,
    Joined = 131,
    Ready = 132,
    Figures = 133,
    Refused = 134,
}

impl Tag {
    fn of(byte: u8) -> Option<Self> {
        use Tag::*;
        [
            Hello, Open, Phase, End, Join, Welcome, Opened, Joined, Ready, Figures, Refused,
        ]
        .into_iter()
        .find(|tag| *tag as u8 == byte)
    }

    fn body_bytes_max(self) -> usize {
        match self {
            Self::Hello => 8 + *TOKEN_BYTES.end(),
            Self::Open => 48,
            Self::Phase => 8,
            Self::Join => 28,
            Self::Welcome => 24 + 3 * (2 + TEXT_BYTES_MAX),
            Self::Figures => 48 + REASON_BYTES_MAX,
            Self::Refused => 1 + REASON_BYTES_MAX,
            Self::End | Self::Opened | Self::Joined | Self::Ready => 0,
        }
    }
}

/// Why a conversation ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Broken {
    /// Nothing came in time.
    Silent(Duration),
    /// The peer closed the connection.
    Closed,
    /// What came is none of this protocol.
    Garbage(String),
    /// The kernel's words.
    Io(String),
    /// The server does not want to.
    Refused(Refusal, String),
    /// Somebody wants the work to end.
    Stopped,
}

/// What a refusal is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Refusal {
    /// The client: its token, its version, or another is there.
    Client = 1,
    /// The test cannot be carried out there.
    Test = 2,
    /// The session went wrong.
    Session = 3,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Silent(patience) => {
                write!(f, "no answer within {:.1} s", patience.as_secs_f64())
            }
            Self::Closed => f.write_str("it closed the connection"),
            Self::Garbage(what) => write!(f, "it does not speak this protocol: {what}"),
            Self::Io(why) => f.write_str(why),
            Self::Refused(_, why) => f.write_str(why),
            Self::Stopped => f.write_str("interrupted"),
        }
    }
}

/// A connection on which frames cross.
pub(super) struct Control<'a> {
    pub(super) stream: TcpStream,
    clock: &'a WallClock,
    is_stopped: &'a (dyn Fn() -> bool + Sync),
}

impl<'a> Control<'a> {
    /// Whoever waits for a frame gives up when `is_stopped` says so.
    pub(super) fn new(
        stream: TcpStream,
        clock: &'a WallClock,
        is_stopped: &'a (dyn Fn() -> bool + Sync),
    ) -> Self {
        let _ = stream.set_nodelay(true);
        Self {
            stream,
            clock,
            is_stopped,
        }
    }

    /// Sends a frame, in `patience` at most.
    pub(super) fn send(&mut self, tag: Tag, body: &[u8], patience: Duration) -> Result<(), Broken> {
        assert!(body.len() <= tag.body_bytes_max(), "{tag:?} is too long");
        let mut frame = vec![tag as u8, 0, 0, 0];
        frame.extend((body.len() as u32).to_le_bytes());
        frame.extend(body);
        // A frame fits the kernel's buffer, so one timeout bounds it all.
        let io = |error: std::io::Error| Broken::Io(error.to_string());
        self.stream.set_write_timeout(Some(patience)).map_err(io)?;
        match self.stream.write_all(&frame) {
            Err(error) if is_timeout(error.kind()) => Err(Broken::Silent(patience)),
            sent => sent.map_err(io),
        }
    }

    /// The next frame, all of it within `patience`.
    pub(super) fn receive(&mut self, patience: Duration) -> Result<(Tag, Vec<u8>), Broken> {
        let end_ns = self.clock.now_ns() + patience.as_nanos() as u64;
        let mut header = [0; HEADER_BYTES];
        self.fill(&mut header, end_ns, patience)?;
        let tag = Tag::of(header[0]).filter(|_| header[1..4] == [0; 3]);
        let tag = tag.ok_or_else(|| Broken::Garbage(format!("bytes {:02x?}", &header[..4])))?;
        let len = u32::from_le_bytes(header[4..].try_into().expect("four bytes")) as usize;
        if len > tag.body_bytes_max() {
            let what = format!("{tag:?} of {len} bytes");
            return Err(Broken::Garbage(what));
        }
        let mut body = vec![0; len];
        self.fill(&mut body, end_ns, patience)?;
        Ok((tag, body))
    }

    /// The body of the next frame, which is to be this one.
    pub(super) fn expect(&mut self, wanted: Tag, patience: Duration) -> Result<Vec<u8>, Broken> {
        let (tag, body) = self.receive(patience)?;
        match tag {
            _ if tag == wanted => Ok(body),
            Tag::Refused => Err(refusal(&body)),
            _ => Err(Broken::Garbage(format!("{tag:?} in place of {wanted:?}"))),
        }
    }

    /// Says no; whether that arrives does not matter.
    pub(super) fn refuse(&mut self, what: Refusal, why: &str, patience: Duration) {
        let mut body = vec![what as u8];
        body.extend(cut(why, REASON_BYTES_MAX).as_bytes());
        let _ = self.send(Tag::Refused, &body, patience);
    }

    fn fill(&mut self, mut room: &mut [u8], end_ns: u64, patience: Duration) -> Result<(), Broken> {
        while !room.is_empty() {
            if (self.is_stopped)() {
                return Err(Broken::Stopped);
            }
            let left = Duration::from_nanos(end_ns.saturating_sub(self.clock.now_ns()));
            if left.is_zero() {
                return Err(Broken::Silent(patience));
            }
            let tick = left.min(LOOK);
            let io = |error: std::io::Error| Broken::Io(error.to_string());
            self.stream.set_read_timeout(Some(tick)).map_err(io)?;
            match self.stream.read(room) {
                Ok(0) => return Err(Broken::Closed),
                Ok(read) => room = &mut room[read..],
                Err(error) if is_timeout(error.kind()) => {}
                Err(error) if error.kind() == ErrorKind::ConnectionReset => {
                    return Err(Broken::Closed);
                }
                Err(error) => return Err(io(error)),
            }
        }
        Ok(())
    }
}

fn is_timeout(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
    )
}

fn refusal(body: &[u8]) -> Broken {
    let kinds = [Refusal::Client, Refusal::Test, Refusal::Session];
    let Some((&first, why)) = body.split_first() else {
        return Broken::Garbage("a refusal without a reason".to_owned());
    };
    match (
        kinds.into_iter().find(|kind| *kind as u8 == first),
        std::str::from_utf8(why),
    ) {
        (Some(kind), Ok(why)) => Broken::Refused(kind, why.to_owned()),
        _ => Broken::Garbage("a refusal that is none".to_owned()),
    }
}

/// The longest beginning of `text` that has at most `bytes` bytes.
fn cut(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

/// Reads numbers and bytes one after the other.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn bytes(&mut self, len: usize) -> Result<&'a [u8], Broken> {
        let (bytes, rest) = self.0.split_at_checked(len).ok_or_else(too_short)?;
        self.0 = rest;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Broken> {
        Ok(self.bytes(N)?.try_into().expect("as many as asked for"))
    }

    fn u16(&mut self) -> Result<u16, Broken> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Result<u32, Broken> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, Broken> {
        self.array().map(u64::from_le_bytes)
    }

    fn text(&mut self, bytes_max: usize) -> Result<String, Broken> {
        let len = usize::from(self.u16()?);
        if len > bytes_max {
            return Err(Broken::Garbage(format!("a text of {len} bytes")));
        }
        let text = std::str::from_utf8(self.bytes(len)?);
        let text = text.map_err(|_| Broken::Garbage("a text that is no UTF-8".to_owned()))?;
        Ok(text.to_owned())
    }

    fn magic_and_version(&mut self) -> Result<u16, Broken> {
        match self.array()? {
            MAGIC => self.u16(),
            other => Err(Broken::Garbage(format!("it begins with {other:02x?}"))),
        }
    }

    fn end(self) -> Result<(), Broken> {
        match self.0 {
            [] => Ok(()),
            more => Err(Broken::Garbage(format!("{} bytes too many", more.len()))),
        }
    }
}

fn too_short() -> Broken {
    Broken::Garbage("a frame that ends too early".to_owned())
}

fn put_text(bytes: &mut Vec<u8>, text: &str) {
    let text = cut(text, TEXT_BYTES_MAX);
    bytes.extend((text.len() as u16).to_le_bytes());
    bytes.extend(text.as_bytes());
}

/// A client's first words.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Hello {
    pub(super) version: u16,
    pub(super) token: Vec<u8>,
}

impl Hello {
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(self.version.to_le_bytes());
        bytes.extend((self.token.len() as u16).to_le_bytes());
        bytes.extend(&self.token);
        bytes
    }

    pub(super) fn parse(body: &[u8]) -> Result<Self, Broken> {
        let mut fields = Fields(body);
        let version = fields.magic_and_version()?;
        let len = usize::from(fields.u16()?);
        let token = fields.bytes(len)?.to_vec();
        fields.end()?;
        Ok(Self { version, token })
    }
}

/// Compares in a time that depends on the lengths alone.
pub(super) fn same_secret(ours: &[u8], theirs: &[u8]) -> bool {
    let differing = ours.iter().zip(theirs).fold(0, |differing, (a, b)| {
        std::hint::black_box(differing | (a ^ b))
    });
    ours.len() == theirs.len() && differing == 0
}

/// Where a server runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// The machine's name.
    pub host: String,
    /// Its CPU.
    pub cpu_model: String,
    /// Its kernel, and what serves.
    pub software: String,
}

/// A server's first words.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Welcome {
    pub(super) session: SessionId,
    pub(super) machine: Machine,
}

impl Welcome {
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend([0; 2]);
        bytes.extend(self.session);
        let Machine {
            host,
            cpu_model,
            software,
        } = &self.machine;
        for text in [host, cpu_model, software] {
            put_text(&mut bytes, text);
        }
        bytes
    }

    pub(super) fn parse(body: &[u8]) -> Result<Self, Broken> {
        let mut fields = Fields(body);
        let version = fields.magic_and_version()?;
        if version != VERSION {
            return Err(Broken::Garbage(format!(
                "it has version {version}, this one {VERSION}"
            )));
        }
        fields.u16()?;
        let session = fields.array()?;
        let mut text = || fields.text(TEXT_BYTES_MAX);
        let machine = Machine {
            host: text()?,
            cpu_model: text()?,
            software: text()?,
        };
        fields.end()?;
        Ok(Self { session, machine })
    }
}

/// A data connection's first words.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Join {
    pub(super) session: SessionId,
    pub(super) connection: u32,
}

impl Join {
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend([0; 2]);
        bytes.extend(self.session);
        bytes.extend(self.connection.to_le_bytes());
        bytes
    }

    pub(super) fn parse(body: &[u8]) -> Result<Self, Broken> {
        let mut fields = Fields(body);
        fields.magic_and_version()?;
        fields.u16()?;
        let (session, connection) = (fields.array()?, fields.u32()?);
        fields.end()?;
        Ok(Self {
            session,
            connection,
        })
    }
}

/// What the server needs to know of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Open {
    pub(super) size_bytes: u64,
    pub(super) depth: u64,
    pub(super) connections: u64,
    pub(super) buffer_bytes: Option<u64>,
    pub(super) seed: u64,
    pub(super) direction: Direction,
    pub(super) engine: Engine,
    pub(super) nodelay: bool,
}

impl Open {
    pub(super) fn of(plan: &Plan) -> Self {
        Self {
            size_bytes: plan.size_bytes,
            depth: plan.depth,
            connections: plan.connections,
            buffer_bytes: plan.buffer_bytes,
            seed: plan.seed,
            direction: plan.direction,
            engine: plan.engine,
            nodelay: plan.nodelay,
        }
    }

    /// The plan, as far as the server knows it.
    pub(super) fn plan(&self) -> Plan {
        Plan {
            size_bytes: self.size_bytes,
            depth: self.depth,
            connections: self.connections,
            direction: self.direction,
            engine: self.engine,
            load: Load::Closed,
            nodelay: self.nodelay,
            buffer_bytes: self.buffer_bytes,
            run: Duration::ZERO,
            warm_up: Duration::ZERO,
            repeat: 0,
            pin: Vec::new(),
            seed: self.seed,
        }
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let numbers = [
            self.size_bytes,
            self.depth,
            self.connections,
            self.buffer_bytes.unwrap_or(0),
            self.seed,
        ];
        let mut bytes: Vec<u8> = numbers.into_iter().flat_map(u64::to_le_bytes).collect();
        bytes.extend([
            self.direction as u8,
            self.engine as u8,
            u8::from(self.nodelay),
            0,
            0,
            0,
            0,
            0,
        ]);
        bytes
    }

    pub(super) fn parse(body: &[u8]) -> Result<Self, Broken> {
        let mut fields = Fields(body);
        let [size_bytes, depth, connections, buffer, seed] = [
            fields.u64()?,
            fields.u64()?,
            fields.u64()?,
            fields.u64()?,
            fields.u64()?,
        ];
        let [direction, engine, nodelay, ..] = fields.array::<8>()?;
        fields.end()?;
        let directions = [Direction::Echo, Direction::Send, Direction::Receive];
        let engines = [Engine::Sockets, Engine::IoUring];
        let unknown = |what| Broken::Garbage(format!("an unknown {what}"));
        let direction = directions.into_iter().find(|d| *d as u8 == direction);
        let engine = engines.into_iter().find(|e| *e as u8 == engine);
        Ok(Self {
            size_bytes,
            depth,
            connections,
            buffer_bytes: (buffer != 0).then_some(buffer),
            seed,
            direction: direction.ok_or_else(|| unknown("direction"))?,
            engine: engine.ok_or_else(|| unknown("engine"))?,
            nodelay: nodelay != 0,
        })
    }
}

/// The server's figures of a phase, over all connections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Figures {
    /// Messages that arrived there, or that it sent in the direction `receive`; the mark is not among them.
    pub(super) messages: u64,
    /// From the first to the last arrival.
    pub(super) elapsed_ns: u64,
    /// CPU time of its threads.
    pub(super) cpu_ns: u64,
    /// How long its threads were ready and waited for a core; all ones where its kernel does not say.
    pub(super) core_wait_ns: u64,
    /// Segments that it sent again; all ones where its kernel does not say.
    pub(super) retransmissions: u64,
    /// What was wrong with a message; empty if nothing was.
    pub(super) wrong: String,
}

impl Figures {
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let numbers = [
            self.messages,
            self.elapsed_ns,
            self.cpu_ns,
            self.core_wait_ns,
            self.retransmissions,
        ];
        let mut bytes: Vec<u8> = numbers.into_iter().flat_map(u64::to_le_bytes).collect();
        let wrong = cut(&self.wrong, TEXT_BYTES_MAX);
        put_text(&mut bytes, wrong);
        bytes
    }

    pub(super) fn parse(body: &[u8]) -> Result<Self, Broken> {
        let mut fields = Fields(body);
        let mut number = || fields.u64();
        let figures = Self {
            messages: number()?,
            elapsed_ns: number()?,
            cpu_ns: number()?,
            core_wait_ns: number()?,
            retransmissions: number()?,
            wrong: fields.text(TEXT_BYTES_MAX)?,
        };
        fields.end()?;
        Ok(figures)
    }
}

/// The milliseconds of a phase.
pub(super) fn parse_phase(body: &[u8]) -> Result<Duration, Broken> {
    let mut fields = Fields(body);
    let span = Duration::from_millis(fields.u64()?);
    fields.end()?;
    match span <= super::RUN_MAX {
        true => Ok(span),
        false => Err(Broken::Garbage(format!("a phase of {span:?}"))),
    }
}

impl Broken {
    /// What it means to a client whose server it is.
    pub(super) fn failure(&self, during: &str) -> Failure {
        match self {
            Self::Refused(Refusal::Client, why) => {
                Failure::Unreachable(format!("the server refuses: {why}"))
            }
            Self::Refused(Refusal::Test, why) => {
                Failure::Unavailable(format!("the server cannot: {why}"))
            }
            _ => Failure::Broken(format!("the server, {during}: {self}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_nothing_shorter_or_longer() {
        let hello = Hello {
            version: 3,
            token: b"0123456789abcdef".to_vec(),
        };
        let welcome = Welcome {
            session: [7; 16],
            machine: Machine {
                host: "dpu".into(),
                cpu_model: "Arm".into(),
                software: "x".repeat(TEXT_BYTES_MAX),
            },
        };
        let join = Join {
            session: [9; 16],
            connection: 3,
        };
        let open = Open {
            size_bytes: 64,
            depth: 16,
            connections: 4,
            buffer_bytes: None,
            seed: 5,
            direction: Direction::Receive,
            engine: Engine::IoUring,
            nodelay: true,
        };
        let figures = Figures {
            messages: 1,
            wrong: "a byte".into(),
            ..Figures::default()
        };
        assert_eq!(Hello::parse(&hello.to_bytes()).as_ref(), Ok(&hello));
        assert_eq!(Welcome::parse(&welcome.to_bytes()).as_ref(), Ok(&welcome));
        assert_eq!(Join::parse(&join.to_bytes()).as_ref(), Ok(&join));
        assert_eq!(Open::parse(&open.to_bytes()).as_ref(), Ok(&open));
        assert_eq!(Figures::parse(&figures.to_bytes()).as_ref(), Ok(&figures));
        type Parses = fn(&[u8]) -> bool;
        let all: [(Vec<u8>, Parses); 5] = [
            (hello.to_bytes(), |body| Hello::parse(body).is_ok()),
            (welcome.to_bytes(), |body| Welcome::parse(body).is_ok()),
            (join.to_bytes(), |body| Join::parse(body).is_ok()),
            (open.to_bytes(), |body| Open::parse(body).is_ok()),
            (figures.to_bytes(), |body| Figures::parse(body).is_ok()),
        ];
        for (bytes, parses) in all {
            assert!(parses(&bytes));
            (0..bytes.len()).for_each(|len| assert!(!parses(&bytes[..len]), "{len}"));
            assert!(!parses(&[&bytes[..], &[0]].concat()));
        }
        let long = Duration::from_secs(7200).as_millis() as u64;
        assert!(parse_phase(&long.to_le_bytes()).is_err());
    }

    #[test]
    fn secrets_are_the_same_or_not() {
        assert!(same_secret(b"abc", b"abc"));
        for other in [&b"abd"[..], b"ab", b"abcd", b""] {
            assert!(!same_secret(b"abc", other));
        }
    }
}
