//! Endpoints in two processes. The other process is this program again, with one test that is an echo.

use std::env;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use dpb_sim::simbricks::{
    Endpoint, Error, LinkParams, Listener, RingShape, Sent, SyncMode, Waiting, connect,
};
use tempfile::tempdir;

use crate::drive::{Model, PATIENCE, Station, Timed, drive, drive_freely, error_of, frame, params};

/// The variable by which the other process knows what to be: `listen` or `connect`, `sync` or `free`, and the path.
const ROLE: &str = "DPB_SIM_TEST_PEER";
const SHAPE: RingShape = RingShape {
    entries: 512,
    entry_bytes: 1600,
};
/// The latency of this process's side and of the other's.
const LATENCIES: [u64; 2] = [500_000, 300_000];

/// The other process, ended when dropped.
struct Peer(Child);

impl Drop for Peer {
    fn drop(&mut self) {
        // One that has ended by itself is no error.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Peer {
    fn start(does_listen: bool, is_synchronised: bool, path: &Path) -> Self {
        let how = if does_listen { "listen" } else { "connect" };
        let sync = if is_synchronised { "sync" } else { "free" };
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--exact", "processes::peer", "--ignored", "--nocapture"]);
        command.env(ROLE, format!("{how} {sync} {}", path.display()));
        command.stdin(Stdio::null()).stdout(Stdio::null());
        Self(command.spawn().unwrap())
    }
}

fn side(is_synchronised: bool, latency: u64) -> LinkParams {
    let sync = if is_synchronised {
        SyncMode::Required
    } else {
        SyncMode::Disabled
    };
    params(sync, latency, latency)
}

fn open(does_listen: bool, path: &Path, side: LinkParams) -> Endpoint {
    if does_listen {
        let listener = Listener::bind(path, SHAPE, side).unwrap();
        listener.accept(PATIENCE).unwrap()
    } else {
        connect(path, side, PATIENCE).unwrap()
    }
}

/// Sends back what it receives, at the same time.
struct Echo(Vec<Vec<u8>>);

impl Model for Echo {
    fn next_ps(&self) -> u64 {
        u64::MAX
    }

    fn receive(&mut self, now_ps: u64, timestamp_ps: u64, _: usize, frame: &[u8]) {
        assert_eq!(now_ps, timestamp_ps);
        self.0.push(frame.to_vec());
    }

    fn send(&mut self, _: u64) -> Option<(usize, Vec<u8>)> {
        (!self.0.is_empty()).then(|| (0, self.0.remove(0)))
    }

    fn has_ended(&self) -> bool {
        false
    }
}

/// Sends back what it receives, stamped with the time of its arrival, until the peer ends.
fn echo_freely(link: &mut Endpoint) -> Result<(), Error> {
    let mut waiting = Waiting::new(true);
    while !link.peer_has_terminated() {
        let Some(received) = link.poll(0)? else {
            waiting.pause();
            continue;
        };
        let (at_ps, frame) = (received.timestamp_ps, received.frame.to_vec());
        while link.send(at_ps, &frame)? == Sent::Full {
            waiting.pause();
        }
        waiting.end();
    }
    Ok(())
}

/// The other process. It ends with its peer, or is killed.
#[test]
#[ignore = "the other process of the tests here"]
fn peer() {
    let Ok(role) = env::var(ROLE) else { return };
    let mut words = role.splitn(3, ' ');
    let mut word = || words.next().unwrap();
    let (does_listen, is_synchronised) = (word() == "listen", word() == "sync");
    let side = side(is_synchronised, LATENCIES[1]);
    let mut link = open(does_listen, Path::new(word()), side);
    if is_synchronised {
        // An echo never ends: the error is that its peer has.
        let _ = drive(std::slice::from_mut(&mut link), &mut Echo(Vec::new()));
    } else {
        let _ = echo_freely(&mut link);
    }
}

#[test]
fn frames_come_back_from_another_process_to_the_picosecond() {
    let folder = tempdir().unwrap();
    let sent: Vec<Timed> = (60..=1536)
        .map(|len| (len as u64 * 7_001, frame(len, len)))
        .collect();
    for does_listen in [true, false] {
        for is_synchronised in [true, false] {
            let path = folder
                .path()
                .join(format!("{does_listen}-{is_synchronised}"));
            let _peer = Peer::start(!does_listen, is_synchronised, &path);
            let mut link = open(does_listen, &path, side(is_synchronised, LATENCIES[0]));
            let received = if is_synchronised {
                let mut station = Station::new(&sent, sent.len());
                drive(std::slice::from_mut(&mut link), &mut station).unwrap();
                station.received
            } else {
                drive_freely(&mut link, &sent, sent.len()).unwrap()
            };
            assert_eq!(received.len(), sent.len());
            for ((back_ps, back), (at_ps, frame)) in received.iter().zip(&sent) {
                assert_eq!(back_ps - at_ps, LATENCIES[0] + LATENCIES[1]);
                assert!(back == frame);
            }
        }
    }
}

#[test]
fn a_process_that_is_killed_is_an_error() {
    let folder = tempdir().unwrap();
    for does_listen in [true, false] {
        for is_synchronised in [true, false] {
            let path = folder
                .path()
                .join(format!("{does_listen}-{is_synchronised}"));
            let peer = Peer::start(!does_listen, is_synchronised, &path);
            let mut link = open(does_listen, &path, side(is_synchronised, LATENCIES[0]));
            if is_synchronised {
                // Far into the run, the other one is killed from beside.
                let killer = std::thread::spawn(move || {
                    std::thread::sleep(Duration::from_millis(30));
                    drop(peer);
                });
                let mut station = Station::new(&[], usize::MAX);
                let result = drive(std::slice::from_mut(&mut link), &mut station);
                assert!(matches!(result, Err(Error::PeerGone)), "{result:?}");
                killer.join().unwrap();
            } else {
                assert_eq!(link.send(0, &[1; 60]).unwrap(), Sent::Queued);
                drop(peer);
                let error = error_of(&mut link, 0);
                assert!(matches!(error, Error::PeerGone), "{error}");
            }
        }
    }
}
