//! The way of packets to the system and back: the ports of the generator and of the system's threads.

use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clap::ValueEnum;
use dpb_accel::dpdk::Dpdk;
use dpb_core::port::{Arrivals, PortStats};
use dpb_core::{Buf, Evidence, PacketPort, SetupError};
use dpb_net::pipeline::WhenFull;
use dpb_net::port::af_packet::{self, Fanout, FanoutBy};
use dpb_net::port::{AfPacket, AfXdp, Datagrams, MultiQueue, af_xdp, datagrams, halves, pair_of};

use super::namespaces::{Ends, Layout, Place, SINK, Topology, UDP_PORT, Wires};

/// What packets come and go by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum LinkName {
    /// Ports in memory
    Memory,
    /// Raw sockets on a pair of virtual interfaces
    AfPacket,
    /// AF_XDP on such a pair
    AfXdp,
    /// UDP sockets of the system, behind the kernel's network stack, on such a pair
    Kernel,
    /// DPDK's af_packet driver on such a pair
    Dpdk,
}

/// The ports of a test.
pub(super) struct Link {
    /// Where the generator sends, and where it receives.
    pub(super) from: Box<dyn PacketPort>,
    pub(super) to: Box<dyn PacketPort>,
    /// The ports of each of the system's threads.
    pub(super) shards: Vec<Vec<Box<dyn PacketPort>>>,
    /// To which of its ports a thread sends what came by one.
    pub(super) ways: Vec<u16>,
    /// True if the system sends frames, which go back to where they came from: then it changes their addresses as a host that answers does.
    pub(super) is_answered: bool,
    /// The counters of the system's ports.
    pub(super) reports: Vec<Report>,
    /// Packets that were dropped in front of the system, for a reason that is known.
    pub(super) dropped: Option<Arc<AtomicU64>>,
    /// True if all that is dropped is counted somewhere.
    pub(super) is_counted: bool,
    /// True if the kernel's work for packets that come to the system is done by its cores; `None` if there is none.
    pub(super) is_steered: Option<bool>,
    /// The holder of the namespaces, which last as long as the sockets in them.
    pub(super) wires: Option<Wires>,
}

/// How a link is made.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) link: LinkName,
    pub(super) topology: Topology,
    /// Threads of the system, each with ports of its own.
    pub(super) threads: u32,
    /// Bytes of a frame.
    pub(super) size: usize,
    /// Packets that may wait for a thread of the system, where they wait in memory.
    pub(super) queue: usize,
    pub(super) system_cores: Vec<u32>,
    pub(super) tester_cores: Vec<u32>,
}

/// Ethernet, IP and UDP: what the kernel takes off.
const HEADERS: usize = 14 + 20 + 8;
/// Blocks of a ring of a raw socket: half a MiB, which is a few milliseconds of packets. In a long ring a system could be behind by a whole trial.
const RING: (u32, u32) = (8, 64 << 10);
/// The generator's ring: what has come back must not be lost, whatever a system still sends when a trial is over.
const TESTERS_RING: (u32, u32) = (64, 128 << 10);

impl LinkName {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::AfPacket => "af-packet",
            Self::AfXdp => "af-xdp",
            Self::Kernel => "kernel",
            Self::Dpdk => "dpdk",
        }
    }

    /// True if it needs namespaces.
    pub(super) fn has_wires(self) -> bool {
        self != Self::Memory
    }

    /// Of memory the numbers are measured: nothing else is in it. A pair of virtual interfaces stands in for a card, a wire and a driver.
    pub(super) fn evidence(self) -> Evidence {
        let stand_in = self
            .has_wires()
            .then(|| "veth, virtual interfaces of Linux".to_owned());
        Evidence::of_device(stand_in)
    }

    /// The rate that a search for the highest begins at, packets a second: more than one core generates.
    pub(super) fn rate_max(self) -> f64 {
        match self {
            Self::Memory => 16e6,
            _ => 2e6,
        }
    }

    /// The time after the last packet in which what is under way may still arrive. A raw socket's ring hands packets over a millisecond later, on both sides.
    pub(super) fn settle(self) -> Duration {
        match self {
            Self::Memory => Duration::from_millis(1),
            _ => Duration::from_millis(4),
        }
    }
}

impl Plan {
    /// Opens all ports.
    ///
    /// # Errors
    /// Why there is no such link here, and what to do.
    pub(super) fn open(&self) -> Result<Link, String> {
        match self.link {
            LinkName::Memory => Ok(self.memory()),
            _ => self.wired(),
        }
    }

    fn memory(&self) -> Link {
        let pairs = |count: u32| -> (Vec<_>, Vec<_>) {
            let ends = (0..count).map(|_| pair_of(self.queue));
            ends.map(|[near, far]| (boxed(near), boxed(far))).unzip()
        };
        let (near, far) = pairs(self.threads);
        let (sender, dropped) = one_of(near);
        let (from, to, shards, ways): (_, _, Vec<Vec<_>>, _) = match self.topology {
            Topology::Separated => {
                let [from, to] = halves(sender);
                let shards = far.into_iter().map(|port| vec![port]).collect();
                (boxed(from), boxed(to), shards, vec![0])
            }
            Topology::Embedded => {
                let (receiving, leaving) = pairs(self.threads);
                let shards = far.into_iter().zip(leaving);
                let shards = shards.map(|(comes, leaves)| vec![comes, leaves]).collect();
                (sender, one_of(receiving).0, shards, vec![1])
            }
        };
        Link {
            from,
            to,
            shards,
            ways,
            is_answered: self.topology == Topology::Separated,
            reports: Vec::new(),
            dropped,
            is_counted: true,
            is_steered: None,
            wires: None,
        }
    }

    fn wired(&self) -> Result<Link, String> {
        if self.link == LinkName::Dpdk && self.threads > 1 {
            return Err("DPDK's ports here have one queue; take --threads 1".to_owned());
        }
        let is_routed = self.link == LinkName::Kernel;
        let wires = Wires::new(&Layout {
            topology: self.topology,
            queues: self.threads,
            is_routed,
            mtu: (self.size - 14).max(1500),
            dpu_cores: self.system_cores.clone(),
            tester_cores: self.tester_cores.clone(),
        })?;
        let ends = Ends::of(self.topology);
        let (place, interface) = ends.sender;
        let raw = wires.at(place, || self.raw(interface, None, TESTERS_RING))?;
        let raw = raw.map_err(|error| format!("{interface}: {error}"))?;
        let (from, to) = match self.topology {
            Topology::Separated => {
                let [from, to] = halves(raw);
                (boxed(from), boxed(to))
            }
            Topology::Embedded => {
                let (place, interface) = ends.receiver;
                let to = wires.at(place, || self.raw(interface, None, TESTERS_RING))?;
                (
                    boxed(raw),
                    boxed(to.map_err(|error| format!("{interface}: {error}"))?),
                )
            }
        };
        let mut reports = Vec::new();
        let mut report = |port: Box<dyn PacketPort>| -> Box<dyn PacketPort> {
            let (port, report) = Reported::new(port);
            reports.push(report);
            Box::new(port)
        };
        let mut shards: Vec<Vec<Box<dyn PacketPort>>> =
            (0..self.threads).map(|_| Vec::new()).collect();
        let opened = wires.at(
            Place::Dpu,
            || -> Result<Vec<Vec<Box<dyn PacketPort>>>, String> {
                let interfaces = match (self.link, ends.dpu_in == ends.dpu_out) {
                    (LinkName::Kernel, _) => return self.sockets(),
                    (_, true) => vec![ends.dpu_in],
                    (_, false) => vec![ends.dpu_in, ends.dpu_out],
                };
                interfaces
                    .into_iter()
                    .map(|interface| self.queues(interface))
                    .collect()
            },
        )?;
        // One list for each port of a thread, in the order of threads.
        for of_port in opened? {
            for (shard, port) in shards.iter_mut().zip(of_port) {
                shard.push(report(port));
            }
        }
        let is_answered = self.topology == Topology::Separated && !is_routed;
        Ok(Link {
            from,
            to,
            shards,
            ways: vec![u16::from(!is_answered)],
            is_answered,
            reports,
            dropped: None,
            is_counted: false,
            is_steered: Some(wires.is_steered),
            wires: Some(wires),
        })
    }

    fn raw(
        &self,
        interface: &str,
        fanout: Option<Fanout>,
        ring: (u32, u32),
    ) -> io::Result<AfPacket> {
        let (blocks, block_bytes) = ring;
        let options = af_packet::Options {
            blocks,
            block_bytes,
            fanout,
            // The kernel then chooses a queue by the flow, where there are several.
            skips_queueing: self.threads == 1,
            ..af_packet::Options::default()
        };
        AfPacket::open_with(interface, &options)
    }

    /// A port of this interface for each thread.
    fn queues(&self, interface: &str) -> Result<Vec<Box<dyn PacketPort>>, String> {
        /// Each device of DPDK has a name of its own.
        static DEVICES: AtomicU32 = AtomicU32::new(0);
        let said = |error: io::Error| format!("{interface}: {error}");
        let of = 0..self.threads;
        match self.link {
            LinkName::AfPacket => {
                let fanout = (self.threads > 1).then(|| Fanout {
                    group: DEVICES.fetch_add(1, Ordering::Relaxed) as u16,
                    by: FanoutBy::Hash,
                });
                of.map(|_| self.raw(interface, fanout, RING).map(boxed).map_err(said))
                    .collect()
            }
            LinkName::AfXdp => {
                let ports = AfXdp::open_queues(interface, of, &af_xdp::Options::default());
                Ok(ports.map_err(said)?.into_iter().map(boxed).collect())
            }
            LinkName::Dpdk => {
                let number = DEVICES.fetch_add(1, Ordering::Relaxed);
                let device = format!("net_af_packet{number},iface={interface}");
                let port = Dpdk
                    .port(&device)
                    .map_err(|why| format!("{device}: {why}"))?;
                Ok(vec![port])
            }
            LinkName::Memory | LinkName::Kernel => unreachable!("these have no such queues"),
        }
    }

    /// For each thread a socket that receives and one that sends.
    fn sockets(&self) -> Result<Vec<Vec<Box<dyn PacketPort>>>, String> {
        let options = |to: Option<SocketAddrV4>| datagrams::Options {
            port: UDP_PORT,
            to,
            receives: to.is_none(),
            bytes_max: self.size - HEADERS,
            is_shared: self.threads > 1,
        };
        let sink = SocketAddrV4::new(Ipv4Addr::from(SINK), UDP_PORT);
        let all = [None, Some(sink)].map(|to| {
            let each = (0..self.threads).map(|_| Datagrams::open(&options(to)).map(boxed));
            let each: io::Result<Vec<_>> = each.collect();
            each.map_err(|error| format!("a socket of UDP: {error}"))
        });
        all.into_iter().collect()
    }
}

fn boxed(port: impl PacketPort + 'static) -> Box<dyn PacketPort> {
    Box::new(port)
}

/// Several ports as one, and where its drops are counted.
fn one_of(mut ports: Vec<Box<dyn PacketPort>>) -> (Box<dyn PacketPort>, Option<Arc<AtomicU64>>) {
    match (ports.len(), ports.pop()) {
        (1, Some(port)) => (port, None),
        (_, last) => {
            ports.extend(last);
            let spread = MultiQueue::new(ports, WhenFull::Drop);
            let dropped = spread.dropped();
            (boxed(spread), Some(dropped))
        }
    }
}

/// The counters of a port that another thread drives.
#[derive(Clone, Debug, Default)]
pub(super) struct Report(Arc<Told>);

#[derive(Debug, Default)]
struct Told {
    is_asked: AtomicBool,
    stats: Mutex<PortStats>,
}

impl Report {
    /// Asks: the answer is there when the port's thread has been around once.
    pub(super) fn ask(&self) {
        self.0.is_asked.store(true, Ordering::Release);
    }

    /// The last answer.
    pub(super) fn stats(&self) -> PortStats {
        *self.0.stats.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A port that tells what it has counted when it is asked.
#[derive(Debug)]
struct Reported<P> {
    port: P,
    report: Report,
}

impl<P: PacketPort> Reported<P> {
    fn new(port: P) -> (Self, Report) {
        let report = Report::default();
        let told = report.clone();
        (Self { port, report }, told)
    }
}

impl<P: PacketPort> PacketPort for Reported<P> {
    fn name(&self) -> &str {
        self.port.name()
    }

    fn packet_bytes_max(&self) -> usize {
        self.port.packet_bytes_max()
    }

    fn alloc(&mut self, len: usize) -> Result<Buf, SetupError> {
        self.port.alloc(len)
    }

    fn receive(&mut self, packets: &mut Vec<Buf>, max: usize) -> io::Result<usize> {
        let Told { is_asked, stats } = &*self.report.0;
        if is_asked.load(Ordering::Acquire) {
            *stats.lock().unwrap_or_else(PoisonError::into_inner) = self.port.stats();
            is_asked.store(false, Ordering::Release);
        }
        self.port.receive(packets, max)
    }

    fn arrivals(&self) -> Arrivals<'_> {
        self.port.arrivals()
    }

    fn send(&mut self, packets: &mut VecDeque<Buf>) -> io::Result<usize> {
        self.port.send(packets)
    }

    fn stats(&mut self) -> PortStats {
        self.port.stats()
    }
}
