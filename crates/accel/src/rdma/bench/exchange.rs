//! perftest's exchange over TCP, of version 6.06. Each step is a message of the same length both ways, the client's first.
//!
//! | step | bytes | what |
//! |---|---|---|
//! | version | 16 | text, filled with zeros |
//! | page, cache line | 4 each | big endian; the larger of both sides counts |
//! | MTU | 2 | as text, `5` for 4096; the smaller counts |
//! | keys | 59, with a GID 108 | hexadecimal text, colons between, a zero at the end; also sent where sides only wait for each other |
//! | report | 5 times 8 | size, messages, peak, average, rate; big endian, the last three as IEEE 754 |
//! | done | 5 | from both, and read by nobody |

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::time::Duration;

use dpb_core::patience::Silence;

use super::{MeasurementFailure, Role, Waiting};

/// The version that this side speaks, and the oldest version that speaks the same.
const VERSION: &str = "6.06";
const VERSION_MIN: f64 = 5.7;
/// The time for which a client tries to reach a server that may not have started yet.
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);
/// The time after which a client tries again, and a server looks again.
const RETRY: Duration = Duration::from_millis(50);
/// No page and no cache line of a peer is longer: memory is laid out by them.
const UNIT_BYTES_MAX: u32 = 1 << 21;
/// The time for which half a message may wait for its other half.
const HALF_PATIENCE: Duration = Duration::from_secs(10);
/// The time after which who waits looks whether it is still worth it.
const GLANCE: Duration = Duration::from_millis(500);

/// The place of a queue pair and of its memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Keys {
    pub(super) lid: u16,
    /// Reads that may be under way towards it.
    pub(super) reads: u8,
    pub(super) qp_num: u32,
    pub(super) psn: u32,
    pub(super) rkey: u32,
    pub(super) address: u64,
    /// The GID, where the link has GIDs.
    pub(super) gid: Option<[u8; 16]>,
}

/// The report of a client to its server, as perftest prints it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Report {
    /// Bytes of a message.
    pub size_bytes: u64,
    /// Over all queue pairs.
    pub messages: u64,
    /// The best between a post and a completion, in 2^20 bytes a second.
    pub peak: f64,
    /// The mean over the whole measurement, likewise.
    pub average: f64,
    /// Messages over the whole measurement, in millions a second.
    pub million_messages_per_s: f64,
}

/// The connection that sides agree over.
pub(super) struct Control<'a> {
    stream: TcpStream,
    is_client: bool,
    /// How it waits for the peer.
    waiting: Waiting<'a>,
    /// While it answers `Ok`, waiting is worth it.
    is_worth_it: Box<dyn Fn() -> Result<(), MeasurementFailure> + Send + 'a>,
}

impl<'a> Control<'a> {
    /// Meets the peer.
    pub(super) fn meet(
        role: &Role,
        port: u16,
        waiting: Waiting<'a>,
        is_worth_it: impl Fn() -> Result<(), MeasurementFailure> + Send + 'a,
    ) -> Result<Self, MeasurementFailure> {
        let stream = match role {
            Role::Server(address) => accept(*address, port, &waiting)?,
            Role::Client(host) => connect(host, port, &waiting)?,
        };
        Self::over(
            stream,
            matches!(role, Role::Client(_)),
            waiting,
            is_worth_it,
        )
    }

    fn over(
        stream: TcpStream,
        is_client: bool,
        waiting: Waiting<'a>,
        is_worth_it: impl Fn() -> Result<(), MeasurementFailure> + Send + 'a,
    ) -> Result<Self, MeasurementFailure> {
        let prepared = stream
            .set_nodelay(true)
            .and_then(|()| stream.set_read_timeout(Some(GLANCE)));
        prepared
            .map_err(|e| MeasurementFailure::Broken(format!("the connection to the peer: {e}")))?;
        Ok(Self {
            stream,
            is_client,
            waiting,
            is_worth_it: Box::new(is_worth_it),
        })
    }

    /// Both versions agree.
    pub(super) fn versions(&mut self) -> Result<(), MeasurementFailure> {
        let mut mine = [0; 16];
        mine[..VERSION.len()].copy_from_slice(VERSION.as_bytes());
        let theirs = text(&self.swap(mine)?);
        match theirs.parse::<f64>() {
            Ok(version) if version >= VERSION_MIN => Ok(()),
            _ => Err(MeasurementFailure::Broken(format!(
                "the peer speaks version `{theirs}` of perftest's exchange; {VERSION_MIN:.2} or later is needed"
            ))),
        }
    }

    /// The larger of both sides' numbers.
    pub(super) fn larger(&mut self, mine: u32) -> Result<u32, MeasurementFailure> {
        match u32::from_be_bytes(self.swap(mine.to_be_bytes())?) {
            theirs @ 0..=UNIT_BYTES_MAX => Ok(theirs.max(mine)),
            theirs => Err(MeasurementFailure::Broken(format!(
                "the peer says that its pages or cache lines have {theirs} bytes"
            ))),
        }
    }

    /// The smaller of both sides' MTUs, 1 for 256 bytes to 5 for 4096.
    pub(super) fn mtu(&mut self, mine: u8) -> Result<u8, MeasurementFailure> {
        let theirs = self.swap([b'0' + mine, 0])?[0].wrapping_sub(b'0');
        // perftest takes its own if the other's is none.
        Ok(if (1..=5).contains(&theirs) {
            theirs.min(mine)
        } else {
            mine
        })
    }

    /// Both sides' keys; whoever comes first waits.
    pub(super) fn keys(&mut self, mine: &Keys) -> Result<Keys, MeasurementFailure> {
        let theirs = match mine.gid {
            Some(_) => text(&self.swap::<108>(padded(&mine.encode()))?),
            None => text(&self.swap::<59>(padded(&mine.encode()))?),
        };
        Keys::decode(&theirs).ok_or_else(|| {
            MeasurementFailure::Broken(format!("the peer sent `{theirs}` in the place of its keys"))
        })
    }

    /// Both sides' reports.
    pub(super) fn report(&mut self, mine: &Report) -> Result<Report, MeasurementFailure> {
        let size_bytes = u64::from_be_bytes(self.swap(mine.size_bytes.to_be_bytes())?);
        let messages = u64::from_be_bytes(self.swap(mine.messages.to_be_bytes())?);
        let mut number = |mine: f64| {
            Ok::<_, MeasurementFailure>(f64::from_be_bytes(self.swap(mine.to_be_bytes())?))
        };
        let theirs = Report {
            size_bytes,
            messages,
            peak: number(mine.peak)?,
            average: number(mine.average)?,
            million_messages_per_s: number(mine.million_messages_per_s)?,
        };
        let figures = [theirs.peak, theirs.average, theirs.million_messages_per_s];
        let is_possible = |figure: &f64| figure.is_finite() && *figure >= 0.0;
        // perftest's servers send what happens to be in their memory, and its clients read past it: so do ours.
        let is_for_use = !self.is_client;
        match !is_for_use || size_bytes <= u32::MAX.into() && figures.iter().all(is_possible) {
            true => Ok(theirs),
            false => Err(MeasurementFailure::Broken(format!(
                "the peer reports what no measurement gives: {theirs:?}"
            ))),
        }
    }

    /// The last word.
    pub(super) fn done(mut self) -> Result<(), MeasurementFailure> {
        self.write(b"done\0")
    }

    fn swap<const N: usize>(&mut self, mine: [u8; N]) -> Result<[u8; N], MeasurementFailure> {
        if self.is_client {
            self.write(&mine)?;
        }
        let theirs = self.read()?;
        if !self.is_client {
            self.write(&mine)?;
        }
        Ok(theirs)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), MeasurementFailure> {
        self.stream.write_all(bytes).map_err(|e| gone(&e))
    }

    fn read<const N: usize>(&mut self) -> Result<[u8; N], MeasurementFailure> {
        let mut bytes = [0; N];
        let mut filled = 0;
        let mut silence = Silence::default();
        while filled < N {
            match self.stream.read(&mut bytes[filled..]) {
                Ok(0) => return Err(gone(&ErrorKind::UnexpectedEof.into())),
                Ok(count) => {
                    filled += count;
                    silence.end();
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    self.waiting.go_on()?;
                    (self.is_worth_it)()?;
                    if filled > 0 && silence.lasts(self.waiting.timer) > HALF_PATIENCE {
                        return Err(MeasurementFailure::Broken(format!(
                            "the peer sent {filled} bytes where {N} were due: has one side a GID and the other none?"
                        )));
                    }
                }
                Err(e) => return Err(gone(&e)),
            }
        }
        Ok(bytes)
    }
}

fn gone(error: &io::Error) -> MeasurementFailure {
    MeasurementFailure::Broken(format!("the peer went away: {error}"))
}

/// One client, then no more.
fn accept(
    address: IpAddr,
    port: u16,
    waiting: &Waiting<'_>,
) -> Result<TcpStream, MeasurementFailure> {
    let unavailable = |e: io::Error| {
        MeasurementFailure::Unavailable(format!("cannot listen on {address} port {port}: {e}"))
    };
    let listener = TcpListener::bind((address, port)).map_err(unavailable)?;
    // A blocking accept would never look at `stop`.
    listener.set_nonblocking(true).map_err(unavailable)?;
    let mut silence = Silence::default();
    loop {
        waiting.go_on()?;
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false).map_err(unavailable)?;
                return Ok(stream);
            }
            Err(e) if e.kind() == ErrorKind::Interrupted => continue,
            Err(e) if e.kind() != ErrorKind::WouldBlock => return Err(unavailable(e)),
            Err(_) => {}
        }
        match waiting.client_within {
            Some(longest) if silence.lasts(waiting.timer) > longest => {
                return Err(MeasurementFailure::NoPeer(format!(
                    "no client came within {} s",
                    longest.as_secs_f64()
                )));
            }
            _ => waiting.timer.sleep(RETRY),
        }
    }
}

fn connect(host: &str, port: u16, waiting: &Waiting<'_>) -> Result<TcpStream, MeasurementFailure> {
    let mut silence = Silence::default();
    loop {
        waiting.go_on()?;
        let may_come = silence.lasts(waiting.timer) < CONNECT_PATIENCE;
        match TcpStream::connect((host, port)) {
            Ok(stream) => return Ok(stream),
            Err(e) if e.kind() == ErrorKind::ConnectionRefused && may_come => {
                waiting.timer.sleep(RETRY);
            }
            Err(e) => {
                return Err(MeasurementFailure::NoPeer(format!(
                    "no server at {host} port {port}: {e}; start it there first, with the same options and --server"
                )));
            }
        }
    }
}

/// Text up to the first zero.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0);
    String::from_utf8_lossy(&bytes[..end.unwrap_or(bytes.len())]).into_owned()
}

/// The text, filled up with zeros.
fn padded<const N: usize>(text: &str) -> [u8; N] {
    let mut bytes = [0; N];
    bytes[..text.len()].copy_from_slice(text.as_bytes());
    bytes
}

impl Keys {
    fn encode(&self) -> String {
        let Self {
            lid,
            reads,
            qp_num,
            psn,
            rkey,
            address,
            gid,
        } = self;
        let head =
            format!("{lid:04x}:{reads:04x}:{qp_num:06x}:{psn:06x}:{rkey:08x}:{address:016x}");
        // What follows is the number of a shared receive queue: there is none.
        match gid {
            None => format!("{head}:00000000"),
            Some(gid) => {
                let gid: String = gid.iter().map(|byte| format!("{byte:02x}:")).collect();
                format!("{head}:{gid}00000000:")
            }
        }
    }

    fn decode(text: &str) -> Option<Self> {
        let fields: Vec<&str> = text.trim_end_matches(':').split(':').collect();
        let number = |i: usize| u64::from_str_radix(fields.get(i)?, 16).ok();
        let gid = match fields.len() {
            7 => None,
            23 => {
                let mut gid = [0; 16];
                for (i, byte) in gid.iter_mut().enumerate() {
                    *byte = number(6 + i)?.try_into().ok()?;
                }
                Some(gid)
            }
            _ => return None,
        };
        Some(Self {
            lid: number(0)?.try_into().ok()?,
            reads: number(1)?.min(255) as u8,
            qp_num: number(2)?.try_into().ok()?,
            psn: number(3)?.try_into().ok()?,
            rkey: number(4)?.try_into().ok()?,
            address: number(5)?,
            gid,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use dpb_core::WallClock;

    use super::*;

    const KEYS: Keys = Keys {
        lid: 0x1f,
        reads: 16,
        qp_num: 0x1234,
        psn: 0xabcdef,
        rkey: 0xdead_beef,
        address: 0x7fff_0123_4567,
        gid: None,
    };

    /// Written down from what perftest 4.5 sends.
    #[test]
    fn keys_are_written_as_perftest_writes_them() {
        let text = "001f:0010:001234:abcdef:deadbeef:00007fff01234567:00000000";
        assert_eq!((KEYS.encode().as_str(), text.len() + 1), (text, 59));
        let mut gid = [0; 16];
        gid[10..].copy_from_slice(&[0xff, 0xff, 10, 0, 0, 1]);
        let with_gid = Keys {
            gid: Some(gid),
            ..KEYS
        };
        let text = "001f:0010:001234:abcdef:deadbeef:00007fff01234567:00:00:00:00:00:00:00:00:00:00:ff:ff:0a:00:00:01:\
                    00000000:";
        assert_eq!((with_gid.encode().as_str(), text.len() + 1), (text, 108));
        for keys in [KEYS, with_gid] {
            assert_eq!(Keys::decode(&keys.encode()), Some(keys));
        }
    }

    #[test]
    fn what_is_no_key_is_refused() {
        let good = KEYS.encode();
        for wrong in [
            "",
            "done",
            ":::::::",
            &good[1 + good.len() / 2..],
            &good.replace('f', "g"),
        ] {
            assert_eq!(Keys::decode(wrong), None, "{wrong}");
        }
    }

    fn pair() -> [Control<'static>; 2] {
        static TIMER: LazyLock<WallClock> = LazyLock::new(WallClock::default);
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("loopback");
        let address = listener.local_addr().expect("bound");
        let client = TcpStream::connect(address).expect("listening");
        let (server, _) = listener.accept().expect("a client");
        let client = Control::over(client, true, Waiting::patient(&*TIMER), || Ok(()));
        let server = Control::over(server, false, Waiting::patient(&*TIMER), || Ok(()));
        [client, server].map(|side| side.unwrap_or_else(|e| panic!("{e}")))
    }

    #[test]
    fn both_sides_agree() {
        let [mut client, mut server] = pair();
        let report = Report {
            size_bytes: 2,
            messages: 1000,
            peak: 1.5,
            average: 0.25,
            million_messages_per_s: 1e-3,
        };
        let other = std::thread::spawn(move || {
            server.versions()?;
            let seen = (server.larger(4096)?, server.mtu(5)?, server.keys(&KEYS)?);
            let seen = (seen, server.report(&Report::default())?);
            server.done()?;
            Ok::<_, MeasurementFailure>(seen)
        });
        let mine = Keys { lid: 7, ..KEYS };
        client.versions().expect("the same");
        assert_eq!(client.larger(64), Ok(4096));
        assert_eq!(client.mtu(3), Ok(3));
        assert_eq!(client.keys(&mine), Ok(KEYS));
        assert_eq!(client.report(&report), Ok(Report::default()));
        client.done().expect("there");
        let seen = other.join().expect("no panic").expect("agrees");
        assert_eq!(seen, ((4096, 3, mine), report));
    }

    #[test]
    fn a_peer_that_leaves_ends_the_wait() {
        let [client, mut server] = pair();
        drop(client);
        let why = server.versions().expect_err("nobody is there").to_string();
        assert!(why.contains("went away"), "{why}");
    }

    #[test]
    fn a_wait_that_is_not_worth_it_ends() {
        let [_client, mut server] = pair();
        server.is_worth_it =
            Box::new(|| Err(MeasurementFailure::Broken("the port is down".into())));
        assert_eq!(
            server.versions(),
            Err(MeasurementFailure::Broken("the port is down".into()))
        );
    }

    #[test]
    fn a_side_that_is_told_to_stop_waits_no_longer() {
        let [_client, mut server] = pair();
        server.waiting.stop = &|| true;
        assert_eq!(server.versions(), Err(MeasurementFailure::Interrupted));
        let timer = WallClock::default();
        let stopped = Waiting {
            stop: &|| true,
            ..Waiting::patient(&timer)
        };
        let address = IpAddr::from([127, 0, 0, 1]);
        for role in [Role::Server(address), Role::Client("127.0.0.1".into())] {
            let met = Control::meet(&role, 0, stopped, || Ok(()));
            assert_eq!(met.err(), Some(MeasurementFailure::Interrupted), "{role:?}");
        }
    }

    #[test]
    fn a_server_whose_client_never_comes_ends() {
        let timer = WallClock::default();
        let short = Waiting {
            client_within: Some(Duration::from_millis(1)),
            ..Waiting::patient(&timer)
        };
        let role = Role::Server([127, 0, 0, 1].into());
        let met = Control::meet(&role, 0, short, || Ok(()));
        assert!(matches!(met.err(), Some(MeasurementFailure::NoPeer(_))));
    }

    /// Though its listener does not block.
    #[test]
    fn a_server_waits_for_what_its_client_says_later() {
        let free = TcpListener::bind(("127.0.0.1", 0)).expect("loopback");
        let port = free.local_addr().expect("bound").port();
        drop(free);
        let side = |role: Role, first: Duration| {
            std::thread::spawn(move || {
                let timer = WallClock::default();
                let mut control = Control::meet(&role, port, Waiting::patient(&timer), || Ok(()))?;
                std::thread::sleep(first);
                control.versions()
            })
        };
        let server = side(Role::Server([127, 0, 0, 1].into()), Duration::ZERO);
        let client = side(Role::Client("127.0.0.1".into()), GLANCE * 2);
        assert_eq!(client.join().expect("no panic"), Ok(()));
        assert_eq!(server.join().expect("no panic"), Ok(()));
    }

    #[test]
    fn pages_that_cannot_be_are_refused() {
        let [mut client, mut server] = pair();
        let other = std::thread::spawn(move || server.larger(u32::MAX));
        assert!(client.larger(4096).is_err());
        assert_eq!(other.join().expect("no panic"), Ok(u32::MAX));
    }

    #[test]
    fn figures_that_no_measurement_gives_are_refused() {
        for (size_bytes, average) in [(1 << 32, 1.0), (64, f64::NAN), (64, -1.0)] {
            let [mut client, mut server] = pair();
            let told = Report {
                size_bytes,
                average,
                ..Report::default()
            };
            let other = std::thread::spawn(move || client.report(&told));
            assert!(server.report(&Report::default()).is_err(), "{told:?}");
            assert!(other.join().expect("no panic").is_ok());
            // A server's nobody uses.
            let [mut client, mut server] = pair();
            let other = std::thread::spawn(move || server.report(&told));
            assert!(client.report(&Report::default()).is_ok(), "{told:?}");
            assert!(other.join().expect("no panic").is_ok());
        }
    }

    #[test]
    fn an_old_peer_is_refused() {
        let [mut client, mut server] = pair();
        let other = std::thread::spawn(move || server.swap::<16>(padded("5.33")));
        let why = client.versions().expect_err("too old").to_string();
        assert!(why.contains("5.33"), "{why}");
        assert_eq!(
            text(&other.join().expect("no panic").expect("sent")),
            VERSION
        );
    }
}
