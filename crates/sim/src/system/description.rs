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
//! Times of stages and digests are in the file, or in others: a model of a device, or records that dpb measured ([`Description::load`]).
//!
//! Parameters that are not named are as in the part's model. A name that is no parameter is an error, and so is a parameter that changes nothing. A host has a card, which a table
//! `card` with its name describes; without one it is a dumb card.

use std::path::Path;

use serde::Deserialize;

use super::card::{CardModel, Crossing, DMA_NAMES, SharedModel, StageModel};
use super::frame::HEAD_BYTES_MAX;
use super::host::{Application, HostModel};
use super::inputs::{Given, Input, InputText};
use super::protect::Framing;
pub use super::refusal::DescriptionError;
use super::refusal::{at_most, byte_ps, job_ps, lanes, picoseconds, refuse, unused, waiting};
use super::sources::{OfferText, PaceText, ServeText, SizesText};
use super::switch::SwitchModel;
use super::times::Times;
use super::wire::{WireFaults, WireModel};
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
    /// Distributions of the sizes of datagrams.
    #[serde(default)]
    pub sizes: Vec<SizesText>,
    /// The files that times were taken from ([`Description::load`]).
    #[serde(skip)]
    pub inputs: Vec<Input>,
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
    /// The share by which each time of a core may be longer or shorter, evenly, by the seed: 0 to below 1.
    #[serde(default)]
    pub jitter: f64,
    /// Digests that the host's cores compute.
    pub digest: Option<DigestText>,
    /// Ports that it listens at.
    #[serde(default)]
    pub listen: Vec<ListenText>,
    /// Connections that it opens.
    #[serde(default)]
    pub connect: Vec<ConnectText>,
    /// Datagrams that it sends.
    #[serde(default)]
    pub offer: Vec<OfferText>,
    /// Ports at which it takes datagrams.
    #[serde(default)]
    pub serve: Vec<ServeText>,
}

/// Digests behind frames that a host's cores compute.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct DigestText {
    /// The operator: `sha256`.
    pub operator: String,
    /// `length`, as the paper, or `mark`.
    #[serde(default = "length")]
    pub framing: String,
    /// A core's time for each digest.
    #[serde(default)]
    pub job_ns: f64,
    /// A core's time for each byte that is digested.
    #[serde(default)]
    pub byte_ps: u64,
    /// A file of records from which a core's time for a digest is taken, in place of both.
    pub record: Option<String>,
    /// The backend that these records are of, if there are several.
    pub backend: Option<String>,
    /// True if each time is drawn from the measured latencies.
    #[serde(default)]
    pub draw: bool,
    /// A model of a device from which the time is taken, in place of all that.
    pub model: Option<String>,
    /// The times that the files gave.
    #[serde(skip)]
    pub(crate) given: Option<Given>,
}

/// Digests behind frames that a card computes. Its stages have the times.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct CardDigestText {
    /// The operator: `sha256`.
    pub operator: String,
    /// `length`, as the paper, or `mark`.
    #[serde(default = "length")]
    pub framing: String,
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
    /// `receive`, from those that send, or `answer`, those that ask.
    pub application: String,
    /// The bytes of a request that is answered.
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
    /// The time by which it may be opened later, evenly, by the seed.
    #[serde(default)]
    pub spread_us: f64,
    /// `send`, to a port that receives, or `ask`, at one that answers.
    pub application: String,
    /// The bytes that are sent.
    pub bytes: Option<u64>,
    /// The number of requests.
    pub requests: Option<u64>,
    /// The bytes of a request, as the port has them.
    pub request_bytes: Option<u64>,
    /// The bytes of an answer, as the port has them.
    pub answer_bytes: Option<u64>,
    /// Time from an answer to the next request.
    pub think_us: Option<f64>,
    /// `constant`, or `exponential` with this mean.
    pub think: Option<String>,
    /// Requests a second that are made whether or not earlier ones are answered: an open loop.
    pub rate_per_s: Option<f64>,
    /// Their gaps: `constant` or `poisson`.
    pub gaps: Option<String>,
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
    /// Buffers for frames that come in: a frame that finds none is dropped, and in a modelled host one has its buffer until a core takes it.
    pub receive_descriptors: Option<u32>,
    /// Least time between two interrupts.
    pub interrupt_gap_us: Option<f64>,
    /// The order in which frames that come in pass the stages: `mirrored`, as on the path, or `same`, as off it.
    pub order: Option<String>,
    /// Stages that frames pass; the last that is named computes digests.
    #[serde(default)]
    pub stage: Vec<StageText>,
    /// Memories and buses that stages share.
    #[serde(default)]
    pub shared: Vec<SharedText>,
    /// Digests that the card computes, behind IPv4 packets. Other frames, such as ARP and IPv6, pass as they are, and nobody authenticates them.
    pub digest: Option<CardDigestText>,
}

/// A stage of a card.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct StageText {
    /// Its name.
    pub name: String,
    /// Frames that are served at a time.
    pub lanes: Option<usize>,
    /// Frames of each direction that may wait.
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
    /// Time for which the stage before rings this one's doorbell for each frame.
    pub doorbell_ns: Option<f64>,
    /// The buses and memories that a frame crosses before its service.
    #[serde(default)]
    pub crosses: Vec<CrossText>,
    /// Ports of TCP or UDP whose frames pass the stage; all frames if there are none. Fragments and packets with options of IPv4 have no ports here.
    #[serde(default)]
    pub ports: Vec<u16>,
    /// A file of records from which the time of service is taken, in place of `job_ns` and `byte_ps`.
    pub record: Option<String>,
    /// The operator that these records are of; that of the card's digest, if none is named.
    pub operator: Option<String>,
    /// The backend that they are of, if there are several.
    pub backend: Option<String>,
    /// True if each time is drawn from the measured latencies.
    #[serde(default)]
    pub draw: bool,
    /// A model of a device from which times, lanes, queue and doorbell are taken, in place of all that.
    pub model: Option<String>,
    /// The times that the files gave.
    #[serde(skip)]
    pub(crate) given: Option<Given>,
}

/// A memory or a bus in a card.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct SharedText {
    /// Its name.
    pub name: String,
    /// Time of each byte.
    pub byte_ps: u64,
    /// Time from the end of a transfer until it is there.
    #[serde(default)]
    pub latency_ns: f64,
}

/// A crossing of a memory or a bus.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct CrossText {
    /// The name of what is crossed: a shared one of the card, `DMA out` or `DMA in`.
    pub over: String,
    /// The bytes that cross, by the bytes of the frame: 2 if it is written and read.
    #[serde(default = "once")]
    pub times: f64,
}

fn once() -> f64 {
    1.0
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
    /// Bytes of frames that are being forwarded or are in queues, of all ports together.
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

impl std::str::FromStr for Description {
    type Err = DescriptionError;

    fn from_str(text: &str) -> Result<Self, DescriptionError> {
        toml::from_str(text).map_err(|wrong| DescriptionError(wrong.to_string()))
    }
}

/// A time in nanoseconds, or the model's.
fn ns(what: &str, value: Option<f64>, usual_ps: u64) -> Result<u64, DescriptionError> {
    value.map_or(Ok(usual_ps), |value| picoseconds(what, value, 1e3))
}

/// A core's time in nanoseconds, or the model's.
fn job(what: &str, value: Option<f64>, usual_ps: u64) -> Result<u64, DescriptionError> {
    value.map_or(Ok(usual_ps), |value| job_ps(what, value))
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
        let cores = lanes(&at("cores"), self.cores.unwrap_or(usual.cores))?;
        if !(0.0..1.0).contains(&self.jitter) {
            return refuse(at("jitter: it is a share, from 0 to below 1"));
        }
        Ok(HostModel {
            cores,
            send_ps: job(&at("send_ns"), self.send_ns, usual.send_ps)?,
            receive_ps: job(&at("receive_ns"), self.receive_ns, usual.receive_ps)?,
            byte_ps: byte_ps(&at("byte_ps"), self.byte_ps.unwrap_or(usual.byte_ps))?,
            interrupt_ps: job(&at("interrupt_ns"), self.interrupt_ns, usual.interrupt_ps)?,
            ring: self.ring.unwrap_or(usual.ring).max(1),
            merge: self.merge.unwrap_or(usual.merge),
            checksums: self.checksums.unwrap_or(usual.checksums),
            digest_ps: job(&at("digest.job_ns"), digest.map(|it| it.job_ns), 0)?,
            digest_byte_ps: byte_ps(&at("digest.byte_ps"), digest.map_or(0, |it| it.byte_ps))?,
            jitter_ppm: (self.jitter * 1e6).round() as u32,
        })
    }
}

/// The framing of this name.
pub(crate) fn framing(name: &str) -> Result<Framing, DescriptionError> {
    let known = [Framing::Length, Framing::Mark];
    let found = known.into_iter().find(|it| it.name() == name);
    found.ok_or_else(|| DescriptionError(format!("framing is length or mark, not `{name}`")))
}

/// Bytes of one direction of a connection, at most: far less than the stream that TCP's model takes for endless.
const STREAM_BYTES_MAX: u64 = 1 << 60;

/// A number that an application needs.
fn needed(what: &str, name: &str, value: Option<u64>) -> Result<u64, DescriptionError> {
    match value {
        Some(value) if value > 0 => at_most(STREAM_BYTES_MAX, &format!("{what}, {name}"), value),
        _ => refuse(format!("{what} needs {name}, above zero")),
    }
}

impl ListenText {
    pub(crate) fn application(&self) -> Result<Application, DescriptionError> {
        match self.application.as_str() {
            "receive" => {
                let given = [
                    ("request_bytes", self.request_bytes.is_some()),
                    ("answer_bytes", self.answer_bytes.is_some()),
                ];
                unused("receive", &given)?;
                Ok(Application::Receive)
            }
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
    /// The application; the seed is that of its requests' times.
    pub(crate) fn application(&self, seed: u64) -> Result<Application, DescriptionError> {
        let text = PaceText {
            think_us: self.think_us,
            think: self.think.as_deref(),
            rate_per_s: self.rate_per_s,
            gaps: self.gaps.as_deref(),
        };
        if self.application != "ask" && text != PaceText::default() {
            return refuse("think and rate_per_s are for requests: application ask");
        }
        match self.application.as_str() {
            "send" => {
                let bytes = needed("send", "bytes", self.bytes)?;
                let given = [
                    ("requests", self.requests.is_some()),
                    ("request_bytes", self.request_bytes.is_some()),
                    ("answer_bytes", self.answer_bytes.is_some()),
                ];
                unused("send", &given)?;
                Ok(Application::Send { bytes })
            }
            "ask" => {
                let requests = needed("ask", "requests", self.requests)?;
                let request_bytes = needed("ask", "request_bytes", self.request_bytes)?;
                let answer_bytes = needed("ask", "answer_bytes", self.answer_bytes)?;
                let all = requests.saturating_mul(request_bytes.max(answer_bytes));
                at_most(
                    STREAM_BYTES_MAX,
                    "ask, bytes of all requests or answers",
                    all,
                )?;
                unused("ask", &[("bytes", self.bytes.is_some())])?;
                Ok(Application::Ask {
                    requests,
                    request_bytes,
                    answer_bytes,
                    pace: text.pace("ask", seed)?,
                })
            }
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
            dma_byte_ps: byte_ps(
                &at("dma_byte_ps"),
                self.dma_byte_ps.unwrap_or(usual.dma_byte_ps),
            )?,
            receive_descriptors: self
                .receive_descriptors
                .unwrap_or(usual.receive_descriptors),
            interrupt_gap_ps: ns(&at("interrupt_gap_us"), gap, usual.interrupt_gap_ps)?,
            is_mirrored: match self.order.as_deref() {
                None | Some("mirrored") => true,
                Some("same") => false,
                Some(other) => {
                    return refuse(format!(
                        "{} is mirrored or same, not `{other}`",
                        at("order")
                    ));
                }
            },
        };
        Ok((model, ns(&at("pcie_ns"), self.pcie_ns, PCIE_PS)?))
    }
}

/// Latency of PCIe in one direction, where none is named.
pub(crate) const PCIE_PS: u64 = 300_000;
/// Latency of a link, where none is named.
const LINK_PS: u64 = 1_000_000;

impl CardText {
    /// The buses and memories that the card's stages share, behind its DMA engines.
    pub(crate) fn shared(&self) -> Result<Vec<SharedModel>, DescriptionError> {
        let shared = self.shared.iter().map(|text| {
            let at = |field: &str| format!("`{}`, {field}", text.name);
            Ok(SharedModel {
                name: text.name.clone(),
                byte_ps: byte_ps(&at("byte_ps"), text.byte_ps)?,
                latency_ps: picoseconds(&at("latency_ns"), text.latency_ns, 1e3)?,
            })
        });
        shared.collect()
    }

    /// The number of what is crossed.
    fn crossing(&self, text: &CrossText) -> Result<Crossing, DescriptionError> {
        let own = self.shared.iter().map(|it| it.name.as_str());
        let mut names = DMA_NAMES.into_iter().chain(own);
        let Some(shared) = names.position(|it| it == text.over) else {
            return refuse(format!(
                "card of `{}`: a stage crosses `{}`, which is not shared in it",
                self.host, text.over
            ));
        };
        match (0.0..=1e3).contains(&text.times) {
            true => Ok(Crossing {
                shared,
                permille: (text.times * 1e3).round() as u64,
            }),
            false => refuse(format!("`{}`, times: 0 to 1000", text.over)),
        }
    }
}

impl StageText {
    /// The stage, in this card.
    pub(crate) fn model(&self, card: &CardText, seed: u64) -> Result<StageModel, DescriptionError> {
        let at = |field: &str| format!("stage `{}`, {field}", self.name);
        let device = match &self.given {
            Some(Given::Device(model)) => Some(model),
            _ => None,
        };
        let given = self.lanes.or(device.map(|it| it.lanes.get() as usize));
        let lanes = lanes(&at("lanes"), given.unwrap_or(1))?;
        let is_given = self.record.is_some() || self.model.is_some();
        let has_own = self.job_ns != 0.0 || self.byte_ps != 0;
        let times = match &self.given {
            Some(_) if has_own => {
                return refuse(at("job_ns and byte_ps are in the file that is named"));
            }
            Some(given) => given.times(&self.name)?,
            None if is_given => return refuse(at("its files were not read")),
            None => Times::Linear {
                job_ps: job_ps(&at("job_ns"), self.job_ns)?,
                byte_ps: byte_ps(&at("byte_ps"), self.byte_ps)?,
            },
        };
        let depth = device.map(|it| it.depth_max.get() as usize);
        let doorbell_ns = device.map_or(0.0, |it| it.doorbell_ns as f64);
        let crosses = self.crosses.iter().map(|it| card.crossing(it));
        Ok(StageModel {
            lanes,
            waiting_max: waiting(&at("waiting"), self.waiting.or(depth).unwrap_or(256))?,
            latency_ps: picoseconds(&at("latency_ns"), self.latency_ns, 1e3)?,
            doorbell_ps: job_ps(&at("doorbell_ns"), self.doorbell_ns.unwrap_or(doorbell_ns))?,
            crosses: crosses.collect::<Result<_, _>>()?,
            ports: self.ports.clone(),
            seed,
            ..StageModel::new(&self.name, times)
        })
    }
}

impl Given {
    /// The times of service of a single item at this part.
    fn times(&self, part: &str) -> Result<Times, DescriptionError> {
        let at = |field: &str| format!("model of `{part}`, {field}");
        Ok(match self {
            Self::Times(times) => times.clone(),
            Self::Device(model) => Times::Linear {
                job_ps: job_ps(
                    &at("job_ns and item_ns"),
                    model.job_ns as f64 + model.item_ns as f64,
                )?,
                byte_ps: byte_ps(&at("byte_ps"), model.byte_ps)?,
            },
        })
    }
}

impl DigestText {
    /// A host core's time for a digest, where a file gives it.
    pub(crate) fn times(&self) -> Result<Option<Times>, DescriptionError> {
        let is_named = self.record.is_some() || self.model.is_some();
        let has_own = self.job_ns != 0.0 || self.byte_ps != 0;
        match &self.given {
            Some(_) if has_own => {
                refuse("digest: job_ns and byte_ps are in the file that is named")
            }
            Some(given) => given.times("digest").map(Some),
            None if is_named => refuse("digest: its files were not read"),
            None => Ok(None),
        }
    }
}

impl Description {
    /// Reads the files that times are taken from, of which paths begin in this folder, and keeps what they are in `inputs`.
    ///
    /// # Errors
    /// The error in a file, or in what is asked of it.
    pub fn load(&mut self, folder: &Path) -> Result<(), DescriptionError> {
        let mut inputs = Vec::new();
        for host in &mut self.host {
            let Some(digest) = &mut host.digest else {
                continue;
            };
            let text = InputText {
                record: digest.record.clone(),
                operator: None,
                backend: digest.backend.clone(),
                draw: digest.draw,
                model: digest.model.clone(),
            };
            if let Some((given, input)) = text.read(folder, Some(&digest.operator))? {
                digest.given = Some(given);
                inputs.push(input);
            }
        }
        for card in &mut self.card {
            let usual = card.digest.as_ref().map(|it| it.operator.clone());
            for stage in &mut card.stage {
                let text = InputText {
                    record: stage.record.clone(),
                    operator: stage.operator.clone(),
                    backend: stage.backend.clone(),
                    draw: stage.draw,
                    model: stage.model.clone(),
                };
                let read = text.read(folder, usual.as_deref());
                let read = read.map_err(|wrong| {
                    DescriptionError(format!("stage `{}`: {wrong}", stage.name))
                })?;
                if let Some((given, input)) = read {
                    stage.given = Some(given);
                    inputs.push(input);
                }
            }
        }
        self.inputs = inputs;
        Ok(())
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
