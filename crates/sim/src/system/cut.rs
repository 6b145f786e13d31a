//! Systems of which a part runs in this process: the parts that are here, the links that lead out, and the end of such a run.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::description::Description;
use super::gate::GateWatch;
use super::message::Message;
use super::refusal::{DescriptionError, refuse};
use crate::kernel::Outside;

/// A link of which one end alone is in this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CutLink {
    /// Its number in the file.
    pub number: usize,
    /// The names of its ends, as the file has them.
    pub ends: [String; 2],
    /// The way of a bit, in picoseconds.
    pub latency_ps: u64,
}

impl CutLink {
    /// True if this text names the link: its ends with a hyphen between them, in any order.
    pub fn is_named(&self, text: &str) -> bool {
        let [a, b] = &self.ends;
        text == format!("{a}-{b}") || text == format!("{b}-{a}")
    }
}

impl fmt::Display for CutLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.ends[0], self.ends[1])
    }
}

/// The ways by which a system's frames leave this process and come to it.
#[derive(Default)]
#[allow(missing_debug_implementations)] // ways are anything
pub struct WaysOut {
    /// The names of the parts that are here; all, if there is no list.
    pub here: Option<BTreeSet<String>>,
    /// Ways of the links that are cut, by their numbers. One without a way loses its frames.
    pub links: BTreeMap<usize, Box<dyn Outside<Message>>>,
    /// Ways to real hosts, by their names. One without a way loses its frames.
    pub real: BTreeMap<String, Box<dyn Outside<Message>>>,
}

impl WaysOut {
    /// True if the part of this name is in this process.
    pub fn is_here(&self, name: &str) -> bool {
        self.here.as_ref().is_none_or(|here| here.contains(name))
    }
}

/// Bytes that a digest and its mark put behind a frame, at most.
const TRAILER_BYTES: usize = 64 + 6;
/// The header of Ethernet.
const ETHERNET_BYTES: usize = 14;

impl Description {
    /// The links that are cut if these parts alone are in this process.
    ///
    /// # Errors
    /// There is no part of a name, or a time of a link is none; or a link is cut and a host is a source of datagrams, of which each process alone knows what becomes
    /// of those that end in it.
    pub fn cut_links(&self, here: &BTreeSet<String>) -> Result<Vec<CutLink>, DescriptionError> {
        let names: BTreeSet<&str> = self.part_names().collect();
        if let Some(name) = here.iter().find(|name| !names.contains(name.as_str())) {
            return refuse(format!("`{name}` is no part of the system"));
        }
        let mut cut = Vec::new();
        for (number, link) in self.link.iter().enumerate() {
            let [a, b] = link.ends.each_ref().map(|end| here.contains(end));
            if a != b {
                let (_, latency_ps) = link.model()?;
                cut.push(CutLink {
                    number,
                    ends: link.ends.clone(),
                    latency_ps,
                });
            }
        }
        let source = self.host.iter().find(|host| !host.offer.is_empty());
        if let Some(source) = source.filter(|_| !cut.is_empty()) {
            return refuse(format!(
                "`{}` offers datagrams, and in a system of several processes nobody knows what became of each: run it whole, by `dpb sim run`",
                source.name
            ));
        }
        Ok(cut)
    }

    /// True if the host of this number sends or takes datagrams.
    pub(super) fn has_datagrams(&self, host: usize) -> bool {
        let host = &self.host[host];
        !host.offer.is_empty() || !host.serve.is_empty()
    }

    /// The names of hosts, switches and real hosts.
    pub fn part_names(&self) -> impl Iterator<Item = &str> {
        let hosts = self.host.iter().map(|it| it.name.as_str());
        let switches = self.switch.iter().map(|it| it.name.as_str());
        let real = self.real.iter().map(|it| it.name.as_str());
        hosts.chain(switches).chain(real)
    }

    /// Bytes of the longest frame on a link, without check sequence: a packet of the longest length, with a digest behind it if anything computes one.
    pub fn frame_bytes_max(&self) -> usize {
        let packet_bytes = usize::from(self.tcp.mtu.unwrap_or(1500));
        let hosts = self.host.iter().any(|it| it.digest.is_some());
        let is_digested = hosts || self.card.iter().any(|it| it.digest.is_some());
        ETHERNET_BYTES + packet_bytes + if is_digested { TRAILER_BYTES } else { 0 }
    }

    /// True if a link loses frames or flips their bits.
    pub fn has_faults(&self) -> bool {
        let faults = |link: &super::description::LinkText| [link.loss, link.flip, link.duplicate];
        let mut all = self.link.iter().flat_map(faults);
        all.any(|fault| fault.is_some_and(|probability| probability > 0.0))
    }

    /// The number of connections that other hosts open to a host, by the names of all hosts.
    pub(super) fn connections_to(&self) -> BTreeMap<&str, usize> {
        let mut all: BTreeMap<&str, usize> = BTreeMap::new();
        for connect in self.host.iter().flat_map(|host| &host.connect) {
            *all.entry(connect.to.as_str()).or_default() += 1;
        }
        all
    }
}

/// True if all peers have said that they have ended.
pub(super) fn have_ended(peers: &[GateWatch]) -> bool {
    peers.iter().all(GateWatch::peer_has_ended)
}
