//! The links of `dpb sim join`: sockets by the links that they are for, and the agreement with all peers.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use dpb_sim::simbricks::{Endpoint, Error, LinkParams, Listener, RingShape, SyncMode, connect};
use dpb_sim::system::CutLink;

use crate::args;
use crate::exit::Failure;
use crate::interrupt;

const HEADING: &str = "Links";

/// Flags of links.
#[derive(Debug, clap::Args)]
pub(super) struct LinkFlags {
    /// Make a socket and wait there for the peer: PATH, or LINK=PATH with the link's ends, as server-switch=/tmp/link
    #[arg(long, value_name = "SOCKET", help_heading = HEADING)]
    listen: Vec<String>,
    /// Connect to a socket that the peer makes, now or soon: PATH, or LINK=PATH
    #[arg(long, value_name = "SOCKET", help_heading = HEADING)]
    connect: Vec<String>,
    /// The time that a frame takes from here to the peer, for all links [default: each link's in the file]
    #[arg(long, value_name = "TIME", help_heading = HEADING, value_parser = args::duration)]
    latency: Option<Duration>,
    /// Tell a peer at least so often how far this side is, in the system's time; at most the latency [default: the latency]
    #[arg(long, value_name = "TIME", help_heading = HEADING, value_parser = args::duration)]
    sync_interval: Option<Duration>,
    /// Without common time: the system's time follows the wall clock, latencies of links do not count, and no two runs are alike
    #[arg(long, help_heading = HEADING)]
    pub(super) unsynchronised: bool,
    /// Bytes of each entry of a ring, of which 64 are a header; a side that listens chooses [default: 1600, or 9088 if frames are longer]
    #[arg(long, value_name = "SIZE", help_heading = HEADING, value_parser = args::size)]
    entry_bytes: Option<u64>,
    /// Entries of each ring; a side that listens chooses
    #[arg(long, value_name = "COUNT", help_heading = HEADING, default_value_t = RingShape::ETHERNET.entries)]
    entries: u64,
    /// Wait so long for peers to come
    #[arg(long, value_name = "TIME", help_heading = HEADING, default_value = "60", value_parser = args::duration)]
    timeout: Duration,
    /// Give up a peer that is there and says nothing for so long
    #[arg(long, value_name = "TIME", help_heading = HEADING, default_value = "60", value_parser = args::duration)]
    pub(super) patience: Duration,
}

/// The side of a link that this process has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// It makes the socket.
    Listen,
    /// It comes to the peer's.
    Connect,
}

impl Way {
    /// The word of its flag.
    fn flag(self) -> &'static str {
        match self {
            Self::Listen => "--listen",
            Self::Connect => "--connect",
        }
    }
}

/// A link and its socket.
#[derive(Clone, Debug)]
pub(super) struct Joint {
    pub(super) link: CutLink,
    way: Way,
    path: PathBuf,
}

/// The time between two looks at whether somebody wants this to end.
const LOOK: Duration = Duration::from_millis(50);

impl LinkFlags {
    /// A socket for each link that is cut.
    ///
    /// # Errors
    /// A flag names no such link; a link has no socket, or two.
    pub(super) fn joints(&self, cut: &[CutLink]) -> Result<Vec<Joint>, Failure> {
        let listen = self.listen.iter().map(|text| (Way::Listen, text));
        let connect = self.connect.iter().map(|text| (Way::Connect, text));
        let mut joints: Vec<Joint> = Vec::new();
        for (way, text) in listen.chain(connect) {
            let (link, path) = named(way, text, cut)?;
            if let Some(twice) = joints.iter().find(|it| it.link == *link) {
                return Err(Failure::usage(format!(
                    "{} {text}: the link {link} has the socket {} already",
                    way.flag(),
                    twice.path.display()
                )));
            }
            joints.push(Joint {
                link: link.clone(),
                way,
                path: PathBuf::from(path),
            });
        }
        let lacks = |link: &&CutLink| !joints.iter().any(|it| it.link == **link);
        match cut.iter().find(lacks) {
            Some(link) => Err(Failure::usage(format!(
                "the link {link} leads to another process and has no socket: give it one, --listen '{link}=PATH' or --connect '{link}=PATH'"
            ))),
            None => Ok(joints),
        }
    }

    fn params(&self, link: &CutLink) -> Result<LinkParams, Failure> {
        let ps = |time: Duration| time.as_nanos() as u64 * 1000;
        let latency_ps = self.latency.map_or(link.latency_ps, ps);
        let params = LinkParams {
            sync: match self.unsynchronised {
                true => SyncMode::Disabled,
                false => SyncMode::Required,
            },
            link_latency_ps: latency_ps,
            sync_interval_ps: self.sync_interval.map_or(latency_ps, ps),
        };
        let checked = params.check();
        checked.map_err(|why| Failure::usage(format!("the link {link}: {why}")))?;
        Ok(params)
    }

    fn shape(&self, frame_bytes: usize) -> RingShape {
        let usual = [RingShape::ETHERNET, RingShape::LONG_FRAMES];
        let fits = |shape: &RingShape| frame_bytes as u64 + 64 <= shape.entry_bytes;
        let fit = usual.into_iter().find(fits);
        let usual_bytes = fit.unwrap_or(RingShape::LONG_FRAMES).entry_bytes;
        RingShape {
            entries: self.entries,
            entry_bytes: self.entry_bytes.unwrap_or(usual_bytes),
        }
    }

    /// Agrees with all peers at once: one that waits for another of this process's links is not waited for.
    ///
    /// # Errors
    /// A flag is out of range, a peer did not come or does not speak the protocol, or somebody wants this to end.
    pub(super) fn open(
        &self,
        frame_bytes: usize,
        joints: Vec<Joint>,
    ) -> Result<Vec<(Joint, Endpoint)>, Failure> {
        interrupt::flag();
        let shape = self.shape(frame_bytes);
        let (done, results) = mpsc::channel();
        let mut sockets: Vec<(usize, PathBuf)> = Vec::new();
        let mut waiting: Vec<Box<dyn FnOnce() + Send>> = Vec::new();
        for (number, joint) in joints.iter().enumerate() {
            let (params, timeout) = (self.params(&joint.link)?, self.timeout);
            let (path, done) = (joint.path.clone(), done.clone());
            let failed = |error| failure(joint, &error);
            match joint.way {
                Way::Listen => {
                    let listener = Listener::bind(&path, shape, params).map_err(failed)?;
                    sockets.push((number, path));
                    waiting.push(Box::new(move || {
                        let _ = done.send((number, listener.accept(timeout)));
                    }));
                }
                Way::Connect => waiting.push(Box::new(move || {
                    let _ = done.send((number, connect(path, params, timeout)));
                })),
            }
        }
        // Threads that still wait when this ends are ended with the process.
        for wait in waiting {
            thread::spawn(wait);
        }
        collect(&joints, &results, &sockets)
    }
}

fn collect(
    joints: &[Joint],
    results: &mpsc::Receiver<(usize, Result<Endpoint, Error>)>,
    sockets: &[(usize, PathBuf)],
) -> Result<Vec<(Joint, Endpoint)>, Failure> {
    let mut open: Vec<(Joint, Endpoint)> = Vec::new();
    let end = |open: &[(Joint, Endpoint)], failure| {
        let is_open = |number: usize| open.iter().any(|(it, _)| it.link == joints[number].link);
        for (_, socket) in sockets.iter().filter(|(number, _)| !is_open(*number)) {
            // A listener that has ended has removed it itself.
            let _ = fs::remove_file(socket);
        }
        Err(failure)
    };
    while open.len() < joints.len() {
        match results.recv_timeout(LOOK) {
            Ok((number, Ok(endpoint))) => open.push((joints[number].clone(), endpoint)),
            Ok((number, Err(error))) => return end(&open, failure(&joints[number], &error)),
            Err(RecvTimeoutError::Timeout) if !interrupt::is_set() => {}
            Err(_) => {
                let failure = Failure::interrupted("interrupted before all peers had come");
                return end(&open, failure);
            }
        }
    }
    open.sort_by_key(|(joint, _)| joint.link.number);
    Ok(open)
}

/// The link that a flag is for, and the path.
fn named<'a, 'b>(
    way: Way,
    text: &'b str,
    cut: &'a [CutLink],
) -> Result<(&'a CutLink, &'b str), Failure> {
    let flag = way.flag();
    if let Some((name, path)) = text.split_once('=')
        && let Some(link) = cut.iter().find(|link| link.is_named(name))
    {
        return Ok((link, path));
    }
    let names = || {
        let names: Vec<String> = cut.iter().map(ToString::to_string).collect();
        names.join(", ")
    };
    match (cut, text.contains('=') && !Path::new(text).has_root()) {
        ([link], false) => Ok((link, text)),
        (_, false) => Err(Failure::usage(format!(
            "{flag} {text}: several links lead to other processes, so a socket names its own, as {}={text}; there are {}",
            cut[0],
            names()
        ))),
        (_, true) => Err(Failure::usage(format!(
            "{flag} {text}: no such link leads to another process; there are {}",
            names()
        ))),
    }
}

fn failure(joint: &Joint, error: &Error) -> Failure {
    let why = format!("the link {}, {}: {error}", joint.link, joint.path.display());
    match error {
        Error::Parameter(_) | Error::PathTooLong { .. } | Error::NotAPath(_) => Failure::usage(why),
        Error::Timeout { .. } | Error::System { .. } => Failure::unavailable(why),
        _ => Failure::check(why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(number: usize, a: &str, b: &str) -> CutLink {
        CutLink {
            number,
            ends: [a.to_owned(), b.to_owned()],
            latency_ps: 1,
        }
    }

    #[test]
    fn sockets_find_their_links() {
        let one = [link(3, "client 0", "switch")];
        let found =
            |text, cut| named(Way::Listen, text, cut).map(|(link, path)| (link.number, path));
        assert_eq!(found("/tmp/a", &one).expect("the only one"), (3, "/tmp/a"));
        assert_eq!(found("/tmp/a=b", &one).expect("a path"), (3, "/tmp/a=b"));
        for text in ["client 0-switch=a", "switch-client 0=a"] {
            assert_eq!(found(text, &one).expect("named"), (3, "a"));
        }
        let two = [link(3, "client 0", "switch"), link(5, "b", "switch")];
        assert_eq!(found("b-switch=x=y", &two).expect("named"), (5, "x=y"));
        for (text, said) in [
            ("/tmp/a", "several links"),
            (
                "c-switch=a",
                "no such link leads to another process; there are client 0-switch, b-switch",
            ),
        ] {
            let why = found(text, &two).expect_err("no link").to_string();
            assert!(why.contains(said), "{why}");
        }
    }
}
