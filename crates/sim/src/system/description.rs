//! Systems as data: a TOML file of hosts, cards, switches and links.
//!
//! ```toml
//! [[host]]
//! name = "server"
//! listen = [{ port = 5001, application = "receive" }]
//!
//! [[host]]
//! name = "client"
//! connect = [{ to = "server", port = 5001, application = "send", bytes = 10_000_000 }]
//!
//! [[link]]
//! ends = ["server", "client"]
//! rate_gbps = 10
//! latency_ns = 1000
//! ```
//!
//! What is not named is as in the part's model. A name that is no parameter is an error. A host has a card, which a table `card` with its name describes; without one
//! it is a dumb card.

use std::fmt;

use serde::Deserialize;

use super::frame::HEAD_BYTES_MAX;
use super::host::{Application, HostModel};
use super::protect::Framing;
use super::switch::SwitchModel;
use super::wire::{WireFaults, WireModel};
use super::{CardModel, StageModel};
use crate::tcp;

/// A system.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Description {
    /// Virtual seconds after which a run ends even if applications have not finished.
    #[serde(default = "limit_s")]
    pub limit_s: f64,
    /// The parameters of TCP, at all hosts.
    #[serde(default)]
    pub tcp: TcpText,
    /// Hosts.
    #[serde(default)]
    pub host: Vec<HostText>,
    /// Cards, by their hosts.
    #[serde(default)]
    pub card: Vec<CardText>,
    /// Switches.
    #[serde(default)]
    pub switch: Vec<SwitchText>,
    /// Links.
    #[serde(default)]
    pub link: Vec<LinkText>,
    /// Real hosts, whose cards are modelled.
    #[serde(default)]
    pub real: Vec<RealText>,
}

fn limit_s() -> f64 {
    10.0
}

/// Parameters of TCP.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct TcpText {
    /// `cubic` or `newreno`.
    pub congestion: Option<String>,
    /// Longest IP packet, in bytes: 100 to 9000.
    pub mtu: Option<u16>,
    /// The receive buffer, in bytes.
    pub buffer_bytes: Option<u32>,
}

/// A host.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct HostText {
    /// Its name.
    pub name: String,
    /// Cores that work for the network.
    pub cores: Option<usize>,
    /// A core's time for each frame that is sent.
    pub send_ns: Option<f64>,
    /// A core's time for each frame that is received.
    pub receive_ns: Option<f64>,
    /// A core's time for each byte of payload.
    pub byte_ps: Option<u64>,
    /// A core's time for each interrupt.
    pub interrupt_ns: Option<f64>,
    /// Frames that may be in the card's ring and not yet sent.
    pub ring: Option<u32>,
    /// Frames of one connection that are taken together before it answers, as by receive offload.
    pub merge: Option<u32>,
    /// True if frames with wrong checksums are dropped.
    pub checksums: Option<bool>,
    /// Digests that the host's cores compute.
    pub digest: Option<DigestText>,
    /// Ports that it listens at.
    #[serde(default)]
    pub listen: Vec<ListenText>,
    /// Connections that it opens.
    #[serde(default)]
    pub connect: Vec<ConnectText>,
}

/// Digests behind frames.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct DigestText {
    /// The operator: `sha256`.
    pub operator: String,
    /// `length`, as the paper, or `mark`.
    #[serde(default = "length")]
    pub framing: String,
    /// A host core's time for each digest. A card has its stages.
    #[serde(default)]
    pub job_ns: f64,
    /// A host core's time for each byte that is digested.
    #[serde(default)]
    pub byte_ps: u64,
}

fn length() -> String {
    Framing::Length.name().to_owned()
}

/// A port that a host listens at.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct ListenText {
    /// The port.
    pub port: u16,
    /// `receive` or `answer`.
    pub application: String,
    /// The bytes of a request.
    pub request_bytes: Option<u64>,
    /// The bytes of an answer.
    pub answer_bytes: Option<u64>,
}

/// A connection that a host opens.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct ConnectText {
    /// The host that it leads to.
    pub to: String,
    /// The port that it leads to.
    pub port: u16,
    /// When it is opened.
    #[serde(default)]
    pub at_us: f64,
    /// `send` or `ask`.
    pub application: String,
    /// The bytes that are sent.
    pub bytes: Option<u64>,
    /// The number of requests.
    pub requests: Option<u64>,
    /// The bytes of a request.
    pub request_bytes: Option<u64>,
    /// The bytes of an answer.
    pub answer_bytes: Option<u64>,
}

/// A card.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct CardText {
    /// The host that it is in, modelled or real.
    pub host: String,
    /// Latency of PCIe in each direction: a doorbell, an interrupt.
    pub pcie_ns: Option<f64>,
    /// Time of a DMA transfer to its first byte.
    pub dma_ns: Option<f64>,
    /// Time of each byte of a transfer.
    pub dma_byte_ps: Option<u64>,
    /// Buffers for frames that come in.
    pub receive_descriptors: Option<u32>,
    /// Least time between two interrupts.
    pub interrupt_gap_us: Option<f64>,
    /// Stages that frames pass; the last before the wire computes digests.
    #[serde(default)]
    pub stage: Vec<StageText>,
    /// Digests that the card computes.
    pub digest: Option<DigestText>,
}

/// A stage of a card.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct StageText {
    /// Its name.
    pub name: String,
    /// Frames that are served at a time.
    #[serde(default = "one")]
    pub lanes: usize,
    /// Frames that may wait.
    pub waiting: Option<usize>,
    /// Time for each frame.
    #[serde(default)]
    pub job_ns: f64,
    /// Time for each byte.
    #[serde(default)]
    pub byte_ps: u64,
    /// Time to the next stage, in which the lane is free.
    #[serde(default)]
    pub latency_ns: f64,
}

fn one() -> usize {
    1
}

/// A host that is not modelled: a network stack of Linux or of a guest, behind a port of frames. It has a card as a modelled host has one.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct RealText {
    /// Its name.
    pub name: String,
    /// The name of a TAP interface that is made for it.
    pub tap: Option<String>,
    /// The network namespace in which it is made: a name as `ip netns` gives them, or a file, such as `/proc/PID/ns/net`.
    pub namespace: Option<String>,
    /// The Unix socket at which a guest of QEMU finds its network, by `-netdev stream`.
    pub stream: Option<String>,
    /// The quantum of a guest on virtual time, in microseconds. Without one it runs as the wall clock goes.
    pub lockstep_us: Option<u32>,
}

/// A switch.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct SwitchText {
    /// Its name.
    pub name: String,
    /// Time from the last bit in to the first bit out.
    pub forward_ns: Option<f64>,
    /// Bytes of frames in all queues together.
    pub buffer_bytes: Option<u64>,
}

/// A link.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct LinkText {
    /// The parts that it joins: hosts or switches.
    pub ends: [String; 2],
    /// Bits a second, in billions.
    pub rate_gbps: Option<f64>,
    /// The way of a bit.
    pub latency_ns: Option<f64>,
    /// Bytes of frames that may wait at a switch for the link.
    pub queue_bytes: Option<u64>,
    /// Bytes of each frame's framing.
    pub overhead_bytes: Option<u64>,
    /// The probability with which a frame is lost.
    pub loss: Option<f64>,
    /// The probability with which a frame has a flipped bit.
    pub flip: Option<f64>,
    /// The probability with which a frame arrives twice.
    pub duplicate: Option<f64>,
}

/// The reason why a file describes no system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescriptionError(pub(crate) String);

impl fmt::Display for DescriptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for DescriptionError {}

pub(crate) fn refuse<T>(why: impl Into<String>) -> Result<T, DescriptionError> {
    Err(DescriptionError(why.into()))
}

impl std::str::FromStr for Description {
    type Err = DescriptionError;

    fn from_str(text: &str) -> Result<Self, DescriptionError> {
        toml::from_str(text).map_err(|wrong| DescriptionError(wrong.to_string()))
    }
}

/// Picoseconds of so many units; `None` if they are no time.
pub(crate) fn picoseconds(what: &str, value: f64, unit_ps: f64) -> Result<u64, DescriptionError> {
    let ps = value * unit_ps;
    match ps.is_finite() && (0.0..1e18).contains(&ps) {
        true => Ok(ps.round() as u64),
        false => refuse(format!("{what}: {value} is no time")),
    }
}

/// A time in nanoseconds, or the model's.
fn ns(what: &str, value: Option<f64>, usual_ps: u64) -> Result<u64, DescriptionError> {
    value.map_or(Ok(usual_ps), |value| picoseconds(what, value, 1e3))
}

impl TcpText {
    pub(crate) fn config(&self) -> Result<tcp::Config, DescriptionError> {
        let mtu = self.mtu.unwrap_or(1500);
        if !(100..=9000).contains(&mtu) {
            return refuse(format!("tcp: mtu is 100 to 9000, not {mtu}"));
        }
        let mut config = tcp::Config::for_mtu(mtu);
        config.algorithm = match self.congestion.as_deref() {
            None | Some("cubic") => tcp::Algorithm::Cubic,
            Some("newreno") => tcp::Algorithm::NewReno,
            Some(other) => {
                return refuse(format!(
                    "tcp: congestion is cubic or newreno, not `{other}`"
                ));
            }
        };
        if let Some(bytes) = self.buffer_bytes {
            if !(1 << 12..1 << 24).contains(&bytes) {
                return refuse(format!(
                    "tcp: buffer_bytes is 4096 to 16777215, not {bytes}"
                ));
            }
            config.receive_buffer_bytes = bytes;
        }
        Ok(config)
    }
}

impl HostText {
    pub(crate) fn model(&self) -> Result<HostModel, DescriptionError> {
        let usual = HostModel::default();
        let at = |field: &str| format!("host `{}`, {field}", self.name);
        let digest = self.digest.as_ref();
        let cores = self.cores.unwrap_or(usual.cores);
        if cores == 0 {
            return refuse(at("cores: a host has a core"));
        }
        Ok(HostModel {
            cores,
            send_ps: ns(&at("send_ns"), self.send_ns, usual.send_ps)?,
            receive_ps: ns(&at("receive_ns"), self.receive_ns, usual.receive_ps)?,
            byte_ps: self.byte_ps.unwrap_or(usual.byte_ps),
            interrupt_ps: ns(&at("interrupt_ns"), self.interrupt_ns, usual.interrupt_ps)?,
            ring: self.ring.unwrap_or(usual.ring).max(1),
            merge: self.merge.unwrap_or(usual.merge),
            checksums: self.checksums.unwrap_or(usual.checksums),
            digest_ps: ns(&at("digest.job_ns"), digest.map(|it| it.job_ns), 0)?,
            digest_byte_ps: digest.map_or(0, |it| it.byte_ps),
        })
    }
}

impl DigestText {
    pub(crate) fn framing(&self) -> Result<Framing, DescriptionError> {
        let known = [Framing::Length, Framing::Mark];
        let found = known.into_iter().find(|it| it.name() == self.framing);
        let wrong =
            || DescriptionError(format!("framing is length or mark, not `{}`", self.framing));
        found.ok_or_else(wrong)
    }
}

/// A number that an application needs.
fn needed(what: &str, name: &str, value: Option<u64>) -> Result<u64, DescriptionError> {
    match value {
        Some(value) if value > 0 => Ok(value),
        _ => refuse(format!("{what} needs {name}, above zero")),
    }
}

impl ListenText {
    pub(crate) fn application(&self) -> Result<Application, DescriptionError> {
        match self.application.as_str() {
            "receive" => Ok(Application::Receive),
            "answer" => Ok(Application::Answer {
                request_bytes: needed("answer", "request_bytes", self.request_bytes)?,
                answer_bytes: needed("answer", "answer_bytes", self.answer_bytes)?,
            }),
            other => refuse(format!(
                "a host that listens does receive or answer, not `{other}`"
            )),
        }
    }
}

impl ConnectText {
    pub(crate) fn application(&self) -> Result<Application, DescriptionError> {
        match self.application.as_str() {
            "send" => Ok(Application::Send {
                bytes: needed("send", "bytes", self.bytes)?,
            }),
            "ask" => Ok(Application::Ask {
                requests: needed("ask", "requests", self.requests)?,
                request_bytes: needed("ask", "request_bytes", self.request_bytes)?,
                answer_bytes: needed("ask", "answer_bytes", self.answer_bytes)?,
            }),
            other => refuse(format!(
                "a host that connects does send or ask, not `{other}`"
            )),
        }
    }
}

impl CardText {
    /// The card, and the latency of PCIe.
    pub(crate) fn model(&self) -> Result<(CardModel, u64), DescriptionError> {
        let usual = CardModel::default();
        let at = |field: &str| format!("card of `{}`, {field}", self.host);
        let gap = self.interrupt_gap_us.map(|it| it * 1e3);
        let model = CardModel {
            dma_ps: ns(&at("dma_ns"), self.dma_ns, usual.dma_ps)?,
            dma_byte_ps: self.dma_byte_ps.unwrap_or(usual.dma_byte_ps),
            receive_descriptors: self
                .receive_descriptors
                .unwrap_or(usual.receive_descriptors),
            interrupt_gap_ps: ns(&at("interrupt_gap_us"), gap, usual.interrupt_gap_ps)?,
        };
        Ok((model, ns(&at("pcie_ns"), self.pcie_ns, PCIE_PS)?))
    }
}

/// Latency of PCIe in one direction, where none is named.
pub(crate) const PCIE_PS: u64 = 300_000;
/// Latency of a link, where none is named.
const LINK_PS: u64 = 1_000_000;

impl StageText {
    pub(crate) fn model(&self) -> Result<StageModel, DescriptionError> {
        let at = |field: &str| format!("stage `{}`, {field}", self.name);
        if self.lanes == 0 {
            return refuse(at("lanes: a stage has a lane"));
        }
        Ok(StageModel {
            name: self.name.clone(),
            lanes: self.lanes,
            waiting_max: self.waiting.unwrap_or(256),
            job_ps: picoseconds(&at("job_ns"), self.job_ns, 1e3)?,
            byte_ps: self.byte_ps,
            latency_ps: picoseconds(&at("latency_ns"), self.latency_ns, 1e3)?,
        })
    }
}

impl SwitchText {
    pub(crate) fn model(&self) -> Result<SwitchModel, DescriptionError> {
        let usual = SwitchModel::default();
        let at = format!("switch `{}`, forward_ns", self.name);
        Ok(SwitchModel {
            forward_ps: ns(&at, self.forward_ns, usual.forward_ps)?,
            buffer_bytes: self.buffer_bytes.unwrap_or(usual.buffer_bytes),
        })
    }
}

impl LinkText {
    /// The wire of one direction, and its latency.
    pub(crate) fn model(&self) -> Result<(WireModel, u64), DescriptionError> {
        let usual = WireModel::default();
        let at =
            |field: &str| format!("link of `{}` and `{}`, {field}", self.ends[0], self.ends[1]);
        let rate_bps = self.rate_gbps.map_or(usual.rate_bps as f64, |it| it * 1e9);
        if !(1e3..=1e13).contains(&rate_bps) {
            return refuse(at("rate_gbps: a link has 0.000001 to 10000"));
        }
        let probability = |field: &str, value: Option<f64>| {
            let value = value.unwrap_or(0.0);
            match (0.0..=1.0).contains(&value) {
                true => Ok(value),
                false => refuse(at(&format!("{field}: {value} is no probability"))),
            }
        };
        let overhead_bytes = self.overhead_bytes.unwrap_or(usual.overhead_bytes);
        if overhead_bytes > HEAD_BYTES_MAX as u64 * 1000 {
            return refuse(at("overhead_bytes: it is more than a frame"));
        }
        let model = WireModel {
            rate_bps: rate_bps.round() as u64,
            overhead_bytes,
            queue_bytes: self.queue_bytes.unwrap_or(usual.queue_bytes),
            faults: WireFaults {
                loss: probability("loss", self.loss)?,
                flip: probability("flip", self.flip)?,
                duplicate: probability("duplicate", self.duplicate)?,
            },
        };
        let latency_ps = ns(&at("latency_ns"), self.latency_ns, LINK_PS)?;
        Ok((model, latency_ps))
    }
}
