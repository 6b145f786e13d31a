//! The ports of real hosts: made, in their network namespaces; and the ways to guests on virtual time.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::thread;

use dpb_core::PacketPort;
use dpb_net::port::{FrameStream, Tap};
use dpb_sim::kernel::MICROSECOND_PS;
use dpb_sim::system::GuestWays;
use dpb_sim::system::description::RealText;
use dpb_sim::system::lockstep::PIECES;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::exit::Failure;
use crate::interrupt;

/// The folder of namespaces that have names (`ip-netns(8)`).
const NAMED: &str = "/run/netns";

/// A port for each.
///
/// # Errors
/// Exit 2 if a host names no port or two; exit 3 if one is not to be had.
pub(super) fn open(hosts: &[RealText]) -> Result<Vec<Box<dyn PacketPort>>, Failure> {
    hosts.iter().map(open_one).collect()
}

fn open_one(host: &RealText) -> Result<Box<dyn PacketPort>, Failure> {
    let name = &host.name;
    let missing = |what: &str, why: &io::Error| {
        Failure::unavailable(format!("real host `{name}`, {what}: {why}"))
    };
    match (&host.tap, &host.stream, &host.namespace) {
        (Some(tap), None, namespace) => {
            let opened = match namespace {
                None => Tap::open(tap),
                Some(namespace) => in_namespace(&file_of(namespace), tap),
            };
            let opened = opened.map_err(|why| missing(&format!("TAP {tap}"), &why))?;
            Ok(Box::new(opened))
        }
        (None, Some(path), None) => {
            let opened = FrameStream::listen(Path::new(path));
            Ok(Box::new(opened.map_err(|why| missing(path, &why))?))
        }
        (None, Some(_), Some(_)) => Err(Failure::usage(format!(
            "real host `{name}`: a namespace is for a TAP interface; a socket needs none"
        ))),
        _ => Err(Failure::usage(format!(
            "real host `{name}` has one port: tap = \"NAME\" or stream = \"PATH\""
        ))),
    }
}

/// The file of a namespace.
fn file_of(namespace: &str) -> PathBuf {
    match namespace.contains('/') {
        true => PathBuf::from(namespace),
        false => Path::new(NAMED).join(namespace),
    }
}

/// Makes an interface in another network namespace, in which a thread is that ends.
fn in_namespace(namespace: &Path, tap: &str) -> io::Result<Tap> {
    let with_path = |why: io::Error| {
        io::Error::new(
            why.kind(),
            format!("namespace {}: {why}", namespace.display()),
        )
    };
    let file = File::open(namespace).map_err(with_path)?;
    let opened = thread::scope(|scope| {
        let made = scope.spawn(|| {
            let moved = move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network));
            moved.map_err(|why| with_path(why.into()))?;
            Tap::open(tap)
        });
        made.join()
    });
    opened.unwrap_or_else(|_| Err(io::Error::other("the thread in the namespace panicked")))
}

/// A guest on virtual time whose QEMU may not be there yet.
pub(super) struct Awaited {
    path: String,
    control: UnixListener,
    _file: SocketFile,
    frames: FrameStream,
    beats_in: FrameStream,
    beats_out: FrameStream,
    quantum_us: u32,
}

/// A socket's file, removed when dropped.
struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Whoever has removed it meanwhile wanted the same.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Sockets for guests on virtual time.
///
/// # Errors
/// Exit 2 if a host has no such guest; exit 3 if a socket is not to be had.
pub(super) fn await_guests(hosts: &[RealText]) -> Result<Vec<Awaited>, Failure> {
    hosts.iter().map(await_guest).collect()
}

fn await_guest(host: &RealText) -> Result<Awaited, Failure> {
    let name = &host.name;
    let (Some(path), Some(quantum_us), None, None) =
        (&host.stream, host.lockstep_us, &host.tap, &host.namespace)
    else {
        return Err(Failure::usage(format!(
            "real host `{name}`: where one is on virtual time (lockstep_us) all are, each a guest with a socket, stream = \"PATH\""
        )));
    };
    let missing = |path: &str, why: &io::Error| {
        Failure::unavailable(format!("real host `{name}`, {path}: {why}"))
    };
    let listen = |path: String| {
        let opened = FrameStream::listen(Path::new(&path));
        opened.map_err(|why| missing(&path, &why))
    };
    let control_path = format!("{path}.control");
    Ok(Awaited {
        frames: listen(path.clone())?,
        beats_in: listen(format!("{path}.in"))?,
        beats_out: listen(format!("{path}.out"))?,
        control: UnixListener::bind(&control_path).map_err(|why| missing(&control_path, &why))?,
        _file: SocketFile(PathBuf::from(control_path)),
        path: path.clone(),
        quantum_us,
    })
}

impl Awaited {
    /// The flags that the guest's QEMU needs.
    pub(super) fn flags(&self) -> String {
        let (path, quantum_us) = (&self.path, self.quantum_us);
        let piece = u64::from(quantum_us) * 1000 / PIECES;
        let stream = |id: &str, ending: &str| {
            format!("-netdev stream,id={id},server=off,addr.type=unix,addr.path={path}{ending}")
        };
        [
            "-nodefaults -vga none -accel tcg -icount shift=0,sleep=off -smp 1 -seed 1 -rtc clock=vm,base=2026-01-01 -name debug-threads=on"
                .to_owned(),
            format!("-plugin ./lockstep.so,control={path}.control,piece={piece},sockets=3"),
            stream("net", ""),
            "-device e1000,netdev=net,mac=MAC".to_owned(),
            stream("in", ".in"),
            stream("out", ".out"),
            "-netdev hubport,id=hub0,hubid=0,netdev=in -netdev hubport,id=hub1,hubid=0,netdev=out"
                .to_owned(),
            format!("-object filter-buffer,id=held,netdev=net,interval={quantum_us}"),
            format!("-object filter-buffer,id=beat,netdev=in,interval={quantum_us}"),
            "-append 'idle=poll nokaslr ...'".to_owned(),
        ]
        .join(" ")
    }

    /// Waits until the guest's QEMU is there.
    ///
    /// # Errors
    /// An interrupt, or the system's.
    pub(super) fn accept(self) -> Result<GuestWays, Failure> {
        let failed = |why: &io::Error| {
            Failure::unavailable(format!("the guest at {}.control: {why}", self.path))
        };
        self.control
            .set_nonblocking(true)
            .map_err(|why| failed(&why))?;
        let control = loop {
            match self.control.accept() {
                Ok((control, _)) => break control,
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => {}
                Err(why) => return Err(failed(&why)),
            }
            if interrupt::is_set() {
                return Err(Failure::interrupted(
                    "interrupted before all guests had come",
                ));
            }
            wait(&self.control).map_err(|why| failed(&why))?;
        };
        Ok(GuestWays {
            control,
            frames: Box::new(self.frames),
            beats_in: Box::new(self.beats_in),
            beats_out: Box::new(self.beats_out),
            quantum_ps: u64::from(self.quantum_us) * MICROSECOND_PS,
        })
    }
}

/// Waits a moment for somebody who connects.
fn wait(listener: &UnixListener) -> io::Result<()> {
    let mut files = [PollFd::new(listener, PollFlags::IN)];
    let moment = Timespec {
        tv_sec: 0,
        tv_nsec: 50_000_000,
    };
    match poll(&mut files, Some(&moment)) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
