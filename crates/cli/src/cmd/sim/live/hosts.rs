//! The ports of real hosts: made, in their network namespaces.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::thread;

use dpb_core::PacketPort;
use dpb_net::port::{FrameStream, Tap};
use dpb_sim::system::description::RealText;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::exit::Failure;

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
