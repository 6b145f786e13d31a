//! The handshake: a Unix socket, over which the two sides exchange one intro each, and the listener its memory.

use std::ffi::{OsStr, OsString};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, RenameFlags, openat, renameat_with, statat, unlinkat,
};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind,
    listen, recvmsg, sendmsg, socket_with,
};

use super::endpoint::Endpoint;
use super::error::Error;
use super::intro::{ConnecterIntro, Direction, ListenerIntro, RingPlace};
use super::params::{LinkParams, RingShape};
use super::raw::{Region, Slots};

/// Bytes of the longest path of a Unix socket, without the zero behind it.
const PATH_BYTES_MAX: usize = 107;
/// Connections that may wait.
const BACKLOG: i32 = 5;
/// A message is received whole with this much room, and with no more.
const INTRO_BYTES_MAX: usize = 2048;
/// Files that are looked for in a message. One is right; more are closed.
const FILES_MAX: usize = 4;
/// The first pause between two tries to connect. It doubles.
const RETRY_FIRST: Duration = Duration::from_millis(1);
/// The longest one.
const RETRY_LAST: Duration = Duration::from_millis(20);
/// Names that are tried for a socket that is not announced yet.
const NAMES_MAX: u64 = 1000;

/// The side that makes the memory, and waits for the other one. Dropping it removes its socket's file.
#[derive(Debug)]
pub struct Listener {
    socket: OwnedFd,
    file: SocketFile,
    region: Arc<Region>,
    intro: ListenerIntro,
    params: LinkParams,
}

impl Listener {
    /// Makes the rings, and a socket at `path` on which one peer can connect as soon as there is a file of that name: it listens
    /// under another name before.
    ///
    /// # Errors
    /// A parameter is out of range. There is a file of that name, or the path is longer than 107 bytes. The system refuses memory or socket.
    pub fn bind(
        path: impl AsRef<Path>,
        shape: RingShape,
        params: LinkParams,
    ) -> Result<Self, Error> {
        let path = path.as_ref();
        params.check()?;
        check_path(path)?;
        let (intro, bytes) = rings(shape, params)?;
        let region = Region::create(bytes);
        let region = region
            .map_err(|error| Error::system(format!("{bytes} bytes of shared memory"), error))?;
        let (socket, file) = SocketFile::listen(path)?;
        Ok(Self {
            socket,
            file,
            region: Arc::new(region),
            intro,
            params,
        })
    }

    /// The socket's path.
    pub fn path(&self) -> &Path {
        &self.file.path
    }

    /// Waits for the peer, and agrees with it.
    ///
    /// # Errors
    /// Nobody came within `timeout`, or was as slow with the intro. The peer's intro is wrong, or it does not agree on synchronisation.
    pub fn accept(self, timeout: Duration) -> Result<Endpoint, Error> {
        let deadline = Deadline::after(timeout);
        let failed = |error| Error::system(format!("a peer at {}", self.path().display()), error);
        deadline.wait_to_read(&self.socket, "a peer that connects")?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = retry_on_intr(|| accept_with(&self.socket, flags)).map_err(failed)?;
        send_intro(&socket, &self.intro.encode(), Some(&self.region))?;
        let (bytes, _) = receive_intro(&socket, &deadline)?;
        let peer = ConnecterIntro::decode(&bytes)?;
        let is_synchronised = self.params.sync.agree(peer.flags)?;
        let rings = [
            (self.intro.to_connecter, Direction::ToConnecter),
            (self.intro.to_listener, Direction::ToListener),
        ];
        endpoint(socket, self.region, rings, self.params, is_synchronised)
    }
}

/// Connects to the listener at `path`, which may not be there yet, and agrees with it.
///
/// # Errors
/// There was no listener within `timeout`, or it was as slow with its intro. Its intro is wrong, its memory cannot be mapped, or it does not agree on
/// synchronisation.
pub fn connect(
    path: impl AsRef<Path>,
    params: LinkParams,
    timeout: Duration,
) -> Result<Endpoint, Error> {
    let path = path.as_ref();
    params.check()?;
    check_path(path)?;
    let deadline = Deadline::after(timeout);
    let socket = connected(path, &deadline)?;
    let intro = ConnecterIntro {
        flags: params.sync.flags(),
    };
    send_intro(&socket, &intro.encode(), None)?;
    let (bytes, files) = receive_intro(&socket, &deadline)?;
    let peer = ListenerIntro::decode(&bytes)?;
    let is_synchronised = params.sync.agree(peer.flags)?;
    let [file] = <[OwnedFd; 1]>::try_from(files).map_err(|files| Error::Files(files.len()))?;
    let region = Region::of_peer(file);
    let region = region.map_err(|error| Error::system("the listener's shared memory", error))?;
    peer.check_inside(region.len())?;
    let rings = [
        (peer.to_listener, Direction::ToListener),
        (peer.to_connecter, Direction::ToConnecter),
    ];
    endpoint(socket, Arc::new(region), rings, params, is_synchronised)
}

/// The endpoint that sends in the first of `rings` and receives in the second.
fn endpoint(
    socket: OwnedFd,
    region: Arc<Region>,
    [(out, out_ring), (input, input_ring)]: [(RingPlace, Direction); 2],
    params: LinkParams,
    is_synchronised: bool,
) -> Result<Endpoint, Error> {
    let out = Slots::new(&region, out, out_ring)?;
    let input = Slots::new(&region, input, input_ring)?;
    Ok(Endpoint::new(
        socket,
        region,
        [out, input],
        params,
        is_synchronised,
    ))
}

/// The listener's intro, and bytes of the memory: the ring to the listener lies first.
fn rings(shape: RingShape, params: LinkParams) -> Result<(ListenerIntro, u64), Error> {
    let place = |offset| RingPlace {
        offset,
        entry_bytes: shape.entry_bytes,
        entries: shape.entries,
    };
    let wrong = |error| Error::Parameter(format!("this side's rings: {error}"));
    let to_listener = place(0);
    let first = to_listener.bytes(Direction::ToListener).map_err(wrong)?;
    let to_connecter = place(first.end);
    let second = to_connecter.bytes(Direction::ToConnecter).map_err(wrong)?;
    let intro = ListenerIntro {
        flags: params.sync.flags(),
        to_connecter,
        to_listener,
    };
    Ok((intro, second.end))
}

fn check_path(path: &Path) -> Result<(), Error> {
    let bytes = path.as_os_str().len();
    if bytes > PATH_BYTES_MAX {
        let path = path.display().to_string();
        return Err(Error::PathTooLong { path, bytes });
    }
    if path.file_name().is_none() || path.as_os_str().as_bytes().contains(&0) {
        return Err(Error::NotAPath(path.display().to_string()));
    }
    Ok(())
}

/// A listening socket's file, removed when dropped.
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    folder: OwnedFd,
    name: OsString,
    /// Device and number of the file, which tell if it is still this one.
    identity: (u64, u64),
}

impl SocketFile {
    /// A socket that listens, and its file. Whoever sees the file can connect: it has another name until then.
    fn listen(path: &Path) -> Result<(OwnedFd, Self), Error> {
        let failed = |error| Error::system(format!("a socket at {}", path.display()), error);
        let socket = new_socket().map_err(failed)?;
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = openat(CWD, folder, flags, Mode::empty()).map_err(failed)?;
        let unannounced = bind_unannounced(&socket, &folder).map_err(failed)?;
        let remove = |error: Errno| {
            // The first error is the one that counts.
            let _ = unlinkat(&folder, unannounced.as_str(), AtFlags::empty());
            failed(error)
        };
        listen(&socket, BACKLOG).map_err(remove)?;
        let stat = statat(&folder, unannounced.as_str(), AtFlags::SYMLINK_NOFOLLOW);
        let stat = stat.map_err(remove)?;
        // `check_path` has seen that there is one.
        let name = path.file_name().unwrap_or_default().to_owned();
        let rename = RenameFlags::NOREPLACE;
        renameat_with(&folder, unannounced.as_str(), &folder, &name, rename).map_err(remove)?;
        let file = Self {
            path: path.to_owned(),
            folder,
            name,
            identity: (stat.st_dev, stat.st_ino),
        };
        Ok((socket, file))
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let name: &OsStr = &self.name;
        let stat = statat(&self.folder, name, AtFlags::SYMLINK_NOFOLLOW);
        if stat.is_ok_and(|stat| (stat.st_dev, stat.st_ino) == self.identity) {
            // Whoever has removed it meanwhile wanted the same.
            let _ = unlinkat(&self.folder, name, AtFlags::empty());
        }
    }
}

/// Binds `socket` in `folder` under a name that nobody looks for, and returns the name. The folder is reached by its number, so that
/// the address is short, however long the folder's path is.
fn bind_unannounced(socket: &OwnedFd, folder: &OwnedFd) -> Result<String, Errno> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let mut result = Err(Errno::EXIST);
    for _ in 0..NAMES_MAX {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!(".dpb-{}-{number}", std::process::id());
        let path = format!("/proc/self/fd/{}/{name}", folder.as_raw_fd());
        match bind(socket, &SocketAddrUnix::new(path)?) {
            // Of a process that was killed, or one of the same number in another container.
            Err(Errno::ADDRINUSE) => result = Err(Errno::ADDRINUSE),
            other => return other.map(|()| name),
        }
    }
    result
}

/// A socket that is connected to the listener at `path`.
fn connected(path: &Path, deadline: &Deadline) -> Result<OwnedFd, Error> {
    let failed = |error| Error::system(format!("a connection to {}", path.display()), error);
    let address = SocketAddrUnix::new(path).map_err(failed)?;
    let mut pause = RETRY_FIRST;
    loop {
        let socket = new_socket().map_err(failed)?;
        match rustix::net::connect(&socket, &address) {
            Ok(()) => return Ok(socket),
            // Not there yet, bound but not listening, or others wait as well.
            Err(Errno::NOENT | Errno::CONNREFUSED | Errno::AGAIN | Errno::INTR) => {}
            Err(error) => return Err(failed(error)),
        }
        if !deadline.sleep(pause) {
            return Err(deadline.passed(&format!("a listener at {}", path.display())));
        }
        pause = (pause * 2).min(RETRY_LAST);
    }
}

fn new_socket() -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
}

/// Sends an intro in one message, with the memory's file if there is one.
fn send_intro(socket: &OwnedFd, bytes: &[u8], region: Option<&Region>) -> Result<(), Error> {
    let failed = |error: io::Error| Error::system("this side's intro", error);
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut files = SendAncillaryBuffer::new(&mut room);
    let file = region.map(|region| [region.file().as_fd()]);
    if let Some(file) = &file {
        let has_room = files.push(SendAncillaryMessage::ScmRights(file));
        debug_assert!(has_room);
    }
    let flags = SendFlags::NOSIGNAL;
    let sent = retry_on_intr(|| sendmsg(socket, &[IoSlice::new(bytes)], &mut files, flags));
    let sent = sent.map_err(|error| match error {
        Errno::PIPE | Errno::CONNRESET => Error::ClosedBeforeIntro,
        error => failed(error.into()),
    })?;
    if sent != bytes.len() {
        return Err(failed(io::ErrorKind::WriteZero.into()));
    }
    Ok(())
}

/// Receives the peer's intro: one message, and the files that came with it.
fn receive_intro(socket: &OwnedFd, deadline: &Deadline) -> Result<(Vec<u8>, Vec<OwnedFd>), Error> {
    deadline.wait_to_read(socket, "the peer's intro")?;
    let mut bytes = vec![0; INTRO_BYTES_MAX];
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES_MAX))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut room);
    let flags = RecvFlags::CMSG_CLOEXEC;
    let received = retry_on_intr(|| {
        let mut into = [IoSliceMut::new(&mut bytes)];
        recvmsg(socket, &mut into, &mut ancillary, flags)
    });
    let received = received.map_err(|error| match error {
        Errno::CONNRESET => Error::ClosedBeforeIntro,
        error => Error::system("the peer's intro", error),
    })?;
    if received.bytes == 0 {
        return Err(Error::ClosedBeforeIntro);
    }
    bytes.truncate(received.bytes);
    let files = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(files) => Some(files),
        _ => None,
    });
    Ok((bytes, files.flatten().collect()))
}

/// The time at which waiting ends.
struct Deadline {
    /// `None` if it is beyond the clock's last time.
    at: Option<Instant>,
    timeout: Duration,
}

impl Deadline {
    fn after(timeout: Duration) -> Self {
        let at = Instant::now().checked_add(timeout);
        Self { at, timeout }
    }

    /// The time that is left.
    fn left(&self) -> Duration {
        let at = self
            .at
            .map(|at| at.saturating_duration_since(Instant::now()));
        at.unwrap_or(Duration::MAX)
    }

    /// Sleeps for `pause`, or until the deadline; false if that has passed.
    fn sleep(&self, pause: Duration) -> bool {
        let left = self.left();
        thread::sleep(pause.min(left));
        !left.is_zero()
    }

    /// The error that `awaited` did not come.
    fn passed(&self, awaited: &str) -> Error {
        Error::Timeout {
            awaited: awaited.to_string(),
            waited: self.timeout,
        }
    }

    /// Waits until there is something to read, be it the end.
    fn wait_to_read(&self, socket: &OwnedFd, awaited: &str) -> Result<(), Error> {
        loop {
            let left = self.left();
            // More than the kernel's type holds is for ever.
            let left_for_kernel = Timespec::try_from(left).ok();
            let mut sockets = [PollFd::new(socket, PollFlags::IN)];
            match poll(&mut sockets, left_for_kernel.as_ref()) {
                Ok(0) if left.is_zero() => return Err(self.passed(awaited)),
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => return Ok(()),
                Err(error) => return Err(Error::system(awaited, error)),
            }
        }
    }
}
