//! The ports of packets that command lines name, and their opening.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use dpb_accel::dpdk::Dpdk;
use dpb_core::{Clock, Evidence, PacketPort};
use dpb_net::port::af_packet::{self, Fanout, FanoutBy};
use dpb_net::port::{AfPacket, AfXdp, Capture, Dates, FrameStream, Tap, af_xdp, ethernet_address};

use crate::exit::Failure;

/// The names that there are, for the help of a verb.
pub const PORTS_HELP: &str = "Ports:\n  \
    af-packet:eth0           an interface, by raw sockets (CAP_NET_RAW)\n  \
    af-xdp:eth0[:QUEUE]      a queue of an interface, past most of the kernel (CAP_NET_RAW, CAP_BPF, CAP_NET_ADMIN)\n  \
    tap:NAME                 an interface that is made, whose other side is the kernel's (CAP_NET_ADMIN)\n  \
    stream:PATH              a Unix socket that is made, for a guest of QEMU: -netdev stream,server=off,addr.type=unix,addr.path=PATH\n  \
    capture:IN.pcap          packets from a file, pcap or pcapng; what is sent is thrown away\n  \
    capture:IN.pcap,OUT.pcap the same, and what is sent goes to another file; `capture:,OUT.pcap` sends alone\n  \
    dpdk:net_ring0           a device of DPDK, or a driver with arguments: dpdk:net_pcap0,rx_pcap=in.pcap\n\
    In a network namespace of one's own (unshare -Urn) anybody has all of these rights but CAP_BPF.";

/// A port, by the name that it has on command lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortName {
    /// An interface, by raw sockets.
    AfPacket(String),
    /// A queue of an interface.
    AfXdp {
        /// The interface.
        interface: String,
        /// The first queue.
        queue: u32,
    },
    /// An interface that is made.
    Tap(String),
    /// A Unix socket that is made, for a guest of QEMU.
    Stream(PathBuf),
    /// Files.
    Capture {
        /// The file that packets come from.
        read: Option<PathBuf>,
        /// The file that packets go to.
        write: Option<PathBuf>,
    },
    /// A device of DPDK.
    Dpdk(String),
}

impl FromStr for PortName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some((kind, what)) = text.split_once(':') else {
            return Err(format!(
                "{text:?} is no port: a kind, a colon, a name, as af-packet:eth0"
            ));
        };
        if what.is_empty() {
            return Err(format!("{text:?} names no {kind}"));
        }
        match kind {
            "af-packet" => Ok(Self::AfPacket(what.to_owned())),
            "af-xdp" => {
                let (interface, queue) = what.split_once(':').unwrap_or((what, "0"));
                let queue = queue
                    .parse()
                    .map_err(|_| format!("{queue:?} is no number of a queue, in {text:?}"))?;
                Ok(Self::AfXdp {
                    interface: interface.to_owned(),
                    queue,
                })
            }
            "tap" => Ok(Self::Tap(what.to_owned())),
            "stream" => Ok(Self::Stream(PathBuf::from(what))),
            "capture" => {
                let (read, write) = what.split_once(',').unwrap_or((what, ""));
                let path = |text: &str| (!text.is_empty()).then(|| PathBuf::from(text));
                match (path(read), path(write)) {
                    (None, None) => Err(format!("{text:?} names no file")),
                    (read, write) => Ok(Self::Capture { read, write }),
                }
            }
            "dpdk" => Ok(Self::Dpdk(what.to_owned())),
            _ => Err(format!(
                "{kind:?} is no kind of port; there are af-packet, af-xdp, tap, stream, capture and dpdk"
            )),
        }
    }
}

impl fmt::Display for PortName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AfPacket(interface) => write!(f, "af-packet:{interface}"),
            Self::AfXdp { interface, queue } => write!(f, "af-xdp:{interface}:{queue}"),
            Self::Tap(name) => write!(f, "tap:{name}"),
            Self::Stream(path) => write!(f, "stream:{}", path.display()),
            Self::Capture { read, write } => {
                let shown = |path: &Option<PathBuf>| {
                    let path = path.as_ref();
                    path.map_or_else(String::new, |path| path.display().to_string())
                };
                write!(f, "capture:{},{}", shown(read), shown(write))
            }
            Self::Dpdk(device) => write!(f, "dpdk:{device}"),
        }
    }
}

impl PortName {
    /// The kind of the port, which records have as the link.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::AfPacket(_) => "af-packet",
            Self::AfXdp { .. } => "af-xdp",
            Self::Tap(_) => "tap",
            Self::Stream(_) => "stream",
            Self::Capture { .. } => "capture",
            Self::Dpdk(_) => "dpdk",
        }
    }

    /// The interface of Linux that the port is of, where there is one before the port is opened.
    pub fn interface(&self) -> Option<&str> {
        match self {
            Self::AfPacket(interface) | Self::AfXdp { interface, .. } => Some(interface),
            Self::Tap(_) | Self::Stream(_) | Self::Capture { .. } | Self::Dpdk(_) => None,
        }
    }

    /// The evidence of figures of packets through the port. Of an interface it is to be asked while it is there, in its network namespace; where no device can be found, software stands in
    /// for one.
    pub(super) fn evidence(&self) -> Evidence {
        Evidence::of_device(match self {
            Self::AfPacket(interface) | Self::AfXdp { interface, .. } => {
                let address = ethernet_address(interface).ok();
                let is_real = has_device(&Path::new(INTERFACES).join(interface), address);
                (!is_real).then(|| "an interface of software".to_owned())
            }
            Self::Tap(_) => Some("a TAP interface".to_owned()),
            Self::Stream(_) => Some("a guest of QEMU".to_owned()),
            Self::Capture { .. } => Some("capture files".to_owned()),
            Self::Dpdk(device) => software_driver(device).map(|driver| format!("DPDK's {driver}")),
        })
    }

    /// Opens the port, in this thread's network namespace. A capture that is written dates packets by `clock`.
    ///
    /// # Errors
    /// Exit 3, with the reason and a remedy.
    pub fn open(&self, clock: &Arc<dyn Clock>) -> Result<Box<dyn PacketPort>, Failure> {
        let mut ports = self.open_shards(1, clock)?;
        Ok(ports.pop().expect("one port for one shard"))
    }

    /// Opens a port for each of `shards`: the packets of a flow come to one of them. With AF_PACKET they share the interface by a hash of flows, with
    /// AF_XDP each has a queue of its own.
    ///
    /// # Errors
    /// Exit 3, with the reason and a remedy; exit 2 if such a port cannot be shared.
    pub fn open_shards(
        &self,
        shards: u32,
        clock: &Arc<dyn Clock>,
    ) -> Result<Vec<Box<dyn PacketPort>>, Failure> {
        if shards != 1 && !matches!(self, Self::AfPacket(_) | Self::AfXdp { .. }) {
            return Err(Failure::usage(format!(
                "{self} has one queue and cannot be shared by {shards} threads"
            )));
        }
        self.opened(shards, clock)
            .map_err(|why| Failure::unavailable(format!("port {self}: {why}")))
    }

    fn opened(
        &self,
        shards: u32,
        clock: &Arc<dyn Clock>,
    ) -> Result<Vec<Box<dyn PacketPort>>, String> {
        let said = |error: io::Error| error.to_string();
        match self {
            Self::AfPacket(interface) => {
                let fanout = (shards > 1).then(|| Fanout {
                    group: own_group(),
                    by: FanoutBy::Hash,
                });
                let options = af_packet::Options {
                    fanout,
                    ..af_packet::Options::default()
                };
                let port = |_| AfPacket::open_with(interface, &options).map(boxed);
                (0..shards)
                    .map(port)
                    .collect::<io::Result<_>>()
                    .map_err(said)
            }
            Self::AfXdp { interface, queue } => {
                let queues = *queue..queue.saturating_add(shards);
                let ports = AfXdp::open_queues(interface, queues, &af_xdp::Options::default());
                Ok(ports.map_err(said)?.into_iter().map(boxed).collect())
            }
            Self::Tap(name) => Ok(vec![boxed(Tap::open(name).map_err(said)?)]),
            Self::Stream(path) => Ok(vec![boxed(FrameStream::listen(path).map_err(said)?)]),
            Self::Capture { read, write } => {
                let dates = Dates {
                    clock: Arc::clone(clock),
                    start_ns: 0,
                };
                let write = write.as_deref().map(|path| (path, dates));
                let port = Capture::open(read.as_deref(), write).map_err(said)?;
                Ok(vec![boxed(port)])
            }
            Self::Dpdk(device) => {
                let port = Dpdk.port(device).map_err(|why| why.to_string())?;
                Ok(vec![port])
            }
        }
    }
}

/// The kernel's folder of interfaces: those of the network namespace in which it was mounted, which may be another one than this thread's.
const INTERFACES: &str = "/sys/class/net";

/// True if the interface with this folder and this Ethernet address is a device's. A folder with another address is that of an interface of the same name elsewhere.
fn has_device(folder: &Path, address: Option<[u8; 6]>) -> bool {
    let shown = address.map(|address| address.map(|byte| format!("{byte:02x}")).join(":"));
    let known = fs::read_to_string(folder.join("address")).ok();
    let is_same = shown.is_some() && known.as_deref().map(str::trim) == shown.as_deref();
    is_same && folder.join("device").exists()
}

/// The driver of a DPDK device that is none of hardware: the name of one that is added begins with its driver's, that of one that is found with its bus's.
fn software_driver(device: &str) -> Option<&str> {
    let name = device.split(',').next().unwrap_or(device);
    let driver = name.trim_end_matches(|c: char| c.is_ascii_digit());
    driver.starts_with("net_").then_some(driver)
}

/// A group of ports for one interface: of this process, so that no other program's port joins it by accident, and another one for each
/// interface, as the kernel wants it.
fn own_group() -> u16 {
    static OPENED: AtomicU16 = AtomicU16::new(0);
    let number = OPENED.fetch_add(1, Ordering::Relaxed);
    (std::process::id() as u16)
        .wrapping_mul(8)
        .wrapping_add(number)
}

fn boxed(port: impl PacketPort + 'static) -> Box<dyn PacketPort> {
    Box::new(port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_shown_as_it_is_written() {
        for text in [
            "af-packet:eth0",
            "af-xdp:eth0:3",
            "tap:tap%d",
            "stream:/run/guest",
            "capture:in.pcap,",
            "capture:,out.pcapng",
            "capture:a,b",
            "dpdk:net_pcap0,rx_pcap=in.pcap",
        ] {
            let port: PortName = text.parse().expect("a port");
            assert_eq!(port.to_string(), text);
        }
        for (wrong, said) in [
            ("eth0", "a kind, a colon"),
            ("tap:", "names no tap"),
            ("af-xdp:eth0:x", "no number of a queue"),
            ("capture:,", "names no file"),
            ("netmap:eth0", "af-packet, af-xdp"),
        ] {
            let why = wrong.parse::<PortName>().expect_err(wrong);
            assert!(why.contains(said), "{why}");
        }
    }

    #[test]
    fn software_stands_in_for_a_card_unless_there_is_a_device() {
        let by = |port: &str| {
            let port: PortName = port.parse().expect("a port");
            match port.evidence() {
                Evidence::Emulated { by } => by,
                other => panic!("{port}: {other:?}"),
            }
        };
        // Loopback, and what is not there.
        for port in ["af-packet:lo", "af-xdp:lo", "af-packet:no-such-one"] {
            assert_eq!(by(port), "an interface of software");
        }
        assert_eq!(by("tap:tap%d"), "a TAP interface");
        assert_eq!(by("stream:/run/guest"), "a guest of QEMU");
        assert_eq!(by("capture:in.pcap,"), "capture files");
        for driver in [
            "net_ring",
            "net_pcap",
            "net_af_packet",
            "net_tap",
            "net_null",
        ] {
            assert_eq!(
                by(&format!("dpdk:{driver}0,a=b")),
                format!("DPDK's {driver}")
            );
        }
        let card: PortName = "dpdk:0000:03:00.0".parse().expect("a port");
        assert_eq!(card.evidence(), Evidence::of_this_cpu());
        // As sysfs has them.
        let folder = tempfile::tempdir().expect("a folder");
        let file = |name: &str, text: &str| {
            fs::write(folder.path().join(name), text).expect("writes");
        };
        file("address", "02:00:00:00:00:0a\n");
        let mine = Some([2, 0, 0, 0, 0, 10]);
        assert!(!has_device(folder.path(), mine));
        fs::create_dir(folder.path().join("device")).expect("a folder");
        assert!(has_device(folder.path(), mine));
        assert!(!has_device(folder.path(), Some([2, 0, 0, 0, 0, 11])));
        assert!(!has_device(folder.path(), None));
    }
}
