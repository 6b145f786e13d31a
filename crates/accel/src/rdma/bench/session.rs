//! Two sides meet, agree, connect, and measure size after size.
//!
//! Who waits for whom, and when, is perftest's order, which differs from program to program.

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;

use super::exchange::{Control, Keys};
use super::loops::{Loops, Stage};
use super::{
    Figures, Measured, MeasurementFailure, MeasurementPlan, Method, RECEIVES, Report, Role, Verb,
    Waiting,
};
use crate::rdma::port::{Address, Device, first_packet_number, is_v4};
use crate::rdma::raw::cm::{Connection, Listener};
use crate::rdma::raw::requests::RequestQueue;
use crate::rdma::raw::{
    Access, Capacity, CompletionQueue, ProtectionDomain, QueuePair, RemotePair, Retry, Route,
    Window,
};

/// A page, and a cache line, as most machines have them; the peer's count where they are larger.
const PAGE_BYTES: u32 = 4096;
const LINE_BYTES: u32 = 64;

/// One side, connected to the other.
pub(super) struct Session<'a> {
    plan: &'a MeasurementPlan,
    is_client: bool,
    control: Control<'a>,
    keys: Vec<Keys>,
    loops: Loops,
    /// The connections that librdmacm made; queue pairs go first.
    connections: Vec<Connection>,
    waiting: Waiting<'a>,
}

impl<'a> Session<'a> {
    /// Meets the peer and connects. Packet numbers are drawn from `seed`.
    pub(super) fn open(
        plan: &'a MeasurementPlan,
        role: &Role,
        waiting: Waiting<'a>,
        seed: u64,
    ) -> Result<Self, MeasurementFailure> {
        let device = Device::open(&plan.device)?;
        let address = device.address(plan.gid_index)?;
        let watched = device.clone();
        let mut control = Control::meet(role, plan.port, waiting, move || is_up(&watched))?;
        control.versions()?;
        let page_bytes = control.larger(PAGE_BYTES)?;
        let line_bytes = control.larger(LINE_BYTES)?;
        let mtu = control.mtu(device.link.mtu)?;
        let stage = Stage::new(plan, page_bytes, line_bytes);
        let side = LocalResources::new(plan, &device, &stage)?;
        let mut session = Self {
            plan,
            is_client: matches!(role, Role::Client(_)),
            keys: side.keys(plan, &device, &address, &stage, seed),
            control,
            loops: Loops::new(plan, stage, side.window, side.completions, side.lanes),
            connections: Vec::new(),
            waiting,
        };
        session.agree(role, &device, &address, mtu)?;
        Ok(session)
    }

    /// Tells and learns where queue pairs and memory are, and connects.
    fn agree(
        &mut self,
        role: &Role,
        device: &Device,
        address: &Address,
        mtu: u8,
    ) -> Result<(), MeasurementFailure> {
        let is_send = self.plan.verb == Verb::Send;
        // Before the client can know that there is a server.
        let way = match self.plan.by_rdma_cm {
            true => Some(CmEndpoint::new(role, self.plan.port)?),
            false => None,
        };
        if self.plan.method == Method::Latency && !is_send {
            self.sync()?;
        }
        let mut peers = Vec::with_capacity(self.keys.len());
        for i in 0..self.keys.len() {
            peers.push(self.control.keys(&self.keys[i])?);
        }
        same_kind(&self.keys[0], &peers[0])?;
        match way {
            Some(way) => self.connect_by_cm(&way)?,
            None => self.connect(device, address, mtu, &peers)?,
        }
        self.loops.remotes = peers.iter().map(|peer| (peer.address, peer.rkey)).collect();
        if is_send {
            self.sync()?;
        }
        for i in 0..self.keys.len() {
            self.control.keys(&self.keys[i])?;
        }
        if !is_send {
            self.sync()?;
        }
        Ok(())
    }

    /// Connects the queue pairs to the peer's.
    fn connect(
        &mut self,
        device: &Device,
        address: &Address,
        mtu: u8,
        peers: &[Keys],
    ) -> Result<(), MeasurementFailure> {
        for ((lane, mine), peer) in self.loops.lanes.iter_mut().zip(&self.keys).zip(peers) {
            lane.queue_pair().connect(&Route {
                port: device.port,
                gid_index: address.gid_index,
                mtu,
                psn: mine.psn,
                reads: mine.reads,
                retry: Retry::USUAL,
                peer: RemotePair {
                    lid: peer.lid,
                    gid: peer.gid.unwrap_or_default(),
                    qp_num: peer.qp_num,
                    psn: peer.psn,
                    reads: peer.reads,
                },
            })?;
        }
        Ok(())
    }

    /// Connects the queue pairs by librdmacm, one after the other.
    fn connect_by_cm(&mut self, way: &CmEndpoint) -> Result<(), MeasurementFailure> {
        for (lane, keys) in self.loops.lanes.iter_mut().zip(&self.keys) {
            let pair = lane.queue_pair();
            let connection = match way {
                CmEndpoint::Local(listener) => {
                    listener.accept(pair, keys.reads, self.waiting.timer)
                }
                CmEndpoint::Remote(address) => {
                    Connection::connect(*address, pair, keys.reads, self.waiting.timer)
                }
            };
            self.connections
                .push(connection.map_err(MeasurementFailure::Broken)?);
        }
        Ok(())
    }

    /// Waits until the peer is here too.
    fn sync(&mut self) -> Result<(), MeasurementFailure> {
        self.control.keys(&self.keys[0]).map(drop)
    }

    /// Measures, and parts.
    pub(super) fn run(mut self, each: &mut dyn FnMut(Measured)) -> Result<(), MeasurementFailure> {
        let plan = self.plan;
        let mut last = Report::default();
        for &size in &plan.sizes {
            self.waiting.go_on()?;
            if plan.verb == Verb::Send {
                if plan.method == Method::Latency || !self.is_client {
                    self.loops.post_receives(size, plan.iterations)?;
                }
                self.sync()?;
            }
            if let Some(figures) = self.loops.measure(plan, self.is_client, size)? {
                if let Figures::Bandwidth(bandwidth) = &figures {
                    last = Report::of(bandwidth);
                }
                let size_bytes = size;
                each(Measured {
                    size_bytes,
                    figures,
                });
            }
            if plan.verb == Verb::Send && plan.method == Method::Bandwidth && plan.is_sweep() {
                self.sync()?;
            }
        }
        self.part(&last, each)
    }

    /// Parts as perftest's programs do: writers of latency do without.
    fn part(
        mut self,
        mine: &Report,
        each: &mut dyn FnMut(Measured),
    ) -> Result<(), MeasurementFailure> {
        match (self.plan.method, self.plan.verb) {
            (Method::Latency, Verb::Write) => return Ok(()),
            (Method::Bandwidth, Verb::Read | Verb::Write) => {
                self.sync()?;
                let theirs = self.control.report(mine)?;
                if !self.is_client {
                    each(Measured {
                        size_bytes: theirs.size_bytes as u32,
                        figures: Figures::Reported(theirs),
                    });
                }
            }
            _ => {}
        }
        self.sync()?;
        self.control.done()
    }
}

/// The end that librdmacm connects.
enum CmEndpoint {
    Local(Listener),
    Remote(SocketAddr),
}

impl CmEndpoint {
    /// The end on the port behind that of the exchange: on iWARP, both are TCP's.
    fn new(role: &Role, port: u16) -> Result<Self, MeasurementFailure> {
        let port = port
            .checked_add(1)
            .ok_or_else(|| MeasurementFailure::Plan("no port behind this one".into()))?;
        match role {
            Role::Server(address) => Listener::bind((*address, port).into())
                .map(Self::Local)
                .map_err(MeasurementFailure::Unavailable),
            Role::Client(host) => {
                let addresses = (host.as_str(), port).to_socket_addrs();
                let address = addresses.ok().and_then(|mut addresses| addresses.next());
                let unknown = || MeasurementFailure::Unavailable(format!("no address of {host}"));
                address.map(Self::Remote).ok_or_else(unknown)
            }
        }
    }
}

/// The resources of this side, made before it connects.
struct LocalResources {
    window: Arc<Window>,
    /// The completion queues of sends and of receives.
    completions: [Arc<CompletionQueue>; 2],
    lanes: Vec<RequestQueue>,
}

impl LocalResources {
    fn new(
        plan: &MeasurementPlan,
        device: &Device,
        stage: &Stage,
    ) -> Result<Self, MeasurementFailure> {
        let domain = ProtectionDomain::new(&device.context)?;
        let window = Window::new(&domain, stage.window_bytes(), Access::ReadWrite)?;
        if (plan.method, plan.verb) != (Method::Latency, Verb::Write) {
            window.fill((0..=250).cycle());
        }
        let receives = match plan.verb {
            Verb::Send => RECEIVES.min(plan.iterations),
            _ => 1,
        };
        let queue = |depth| CompletionQueue::new(&device.context, depth * plan.queue_pairs);
        let completions = [queue(plan.depth)?, queue(receives)?];
        let capacity = |inline_bytes| Capacity {
            sends: plan.depth,
            receives,
            inline_bytes,
        };
        let both = [&completions[0], &completions[1]];
        let lane = |_| {
            // What is not to be had inline is sent from memory.
            let pair = QueuePair::new(&domain, both, capacity(plan.inline_bytes))
                .or_else(|_| QueuePair::new(&domain, both, capacity(0)))?;
            Ok(RequestQueue::new(pair, window.clone(), plan.chain as usize))
        };
        let lanes: Result<Vec<_>, MeasurementFailure> = (0..plan.queue_pairs).map(lane).collect();
        let lanes = lanes?;
        Ok(Self {
            window,
            completions,
            lanes,
        })
    }

    /// The places of our queue pairs and of their parts of the window.
    fn keys(
        &self,
        plan: &MeasurementPlan,
        device: &Device,
        address: &Address,
        stage: &Stage,
        seed: u64,
    ) -> Vec<Keys> {
        let reads = match plan.verb {
            Verb::Read => device.attributes.reads_max.max(1),
            _ => 1,
        };
        let lanes = self.lanes.iter().enumerate();
        let keys = lanes.map(|(i, lane)| Keys {
            lid: device.link.lid,
            reads,
            qp_num: lane.number(),
            psn: first_packet_number(seed, lane.number()),
            rkey: self.window.rkey(),
            address: self.window.address(stage.receive_offset(i)),
            gid: address.gid_index.map(|_| address.gid),
        });
        keys.collect()
    }
}

/// Addresses of IPv4 and of IPv6 do not reach each other.
fn same_kind(mine: &Keys, theirs: &Keys) -> Result<(), MeasurementFailure> {
    let is_v4 = |keys: &Keys| keys.gid.as_ref().map(is_v4);
    match is_v4(mine) == is_v4(theirs) {
        true => Ok(()),
        false => Err(MeasurementFailure::Broken(
            "one side has an address of IPv4, the other none; choose with --gid-index".into(),
        )),
    }
}

/// Whether the device's port still is.
fn is_up(device: &Device) -> Result<(), MeasurementFailure> {
    device.still_up().map_err(MeasurementFailure::Broken)
}
