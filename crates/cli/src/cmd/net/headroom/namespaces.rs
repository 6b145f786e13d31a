//! Network namespaces of this process's own: the DPU, its network and its host, joined by pairs of virtual interfaces. Nobody else's interfaces are touched, and
//! everything is gone when the process ends.

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::OnceLock;

use clap::ValueEnum;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Set in a process that is in namespaces of its own.
const INSIDE: &str = "DPB_NET_NAMESPACES";
/// The words for `unshare`: as root, then as anybody.
const RIGHTS: [&[&str]; 2] = [
    &["--net", "--mount"],
    &["--user", "--map-root-user", "--net", "--mount"],
];
/// A command that needs all that is needed later: a place for names of namespaces, two of them, interfaces in both.
const PROBE: &str = "mount -t tmpfs tmpfs /run && ip netns add one && ip netns add two && \
                     ip link add name a netns one type veth peer name b netns two";
const REMEDY: &str = "run it as root or allow user namespaces (sysctl kernel.unprivileged_userns_clone=1, \
                      kernel.apparmor_restrict_unprivileged_userns=0), and apt-get install iproute2 util-linux";

/// True if this process is in namespaces of its own.
pub(super) fn is_inside() -> bool {
    std::env::var_os(INSIDE).is_some()
}

/// Becomes the same program with the same words in namespaces of its own. To be called before there are other threads.
///
/// It returns only if that cannot be: with the reason, and what to do.
pub(super) fn enter() -> String {
    let mut said = String::new();
    for rights in RIGHTS {
        let tried = Command::new("unshare")
            .args(rights)
            .args(["sh", "-c", PROBE])
            .output();
        match (tried, std::env::current_exe()) {
            (Ok(tried), Ok(this)) if tried.status.success() => {
                let error = Command::new("unshare")
                    .args(rights)
                    .arg("--")
                    .arg(this)
                    .args(std::env::args_os().skip(1))
                    .env(INSIDE, "1")
                    .exec();
                said = error.to_string();
            }
            (Ok(tried), Ok(_)) => said = String::from_utf8_lossy(&tried.stderr).trim().to_owned(),
            (Err(error), _) => said = format!("unshare: {error}"),
            (_, Err(error)) => said = format!("this program's own file: {error}"),
        }
    }
    format!("there are no network namespaces here ({said}); {REMEDY}")
}

/// Where the system stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Topology {
    /// The system is a host of its own: packets come from the network to it, and it sends them back there
    Separated,
    /// The system stands between its host and the network: the host sends, packets pass its cores, the network receives
    Embedded,
}

impl Topology {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Separated => "separated",
            Self::Embedded => "embedded",
        }
    }
}

/// A namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The machine on the other end of the DPU's wire.
    Network,
    /// The DPU.
    Dpu,
    /// The machine that the DPU is in.
    Host,
}

impl Place {
    fn name(self) -> &'static str {
        match self {
            Self::Network => "network",
            Self::Dpu => "dpu",
            Self::Host => "host",
        }
    }
}

/// The interfaces of a layout.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ends {
    /// Where packets are sent to the DPU.
    pub(super) sender: (Place, &'static str),
    /// Where they come to the DPU.
    pub(super) dpu_in: &'static str,
    /// Where they leave it.
    pub(super) dpu_out: &'static str,
    /// Where they arrive.
    pub(super) receiver: (Place, &'static str),
}

impl Ends {
    pub(super) fn of(topology: Topology) -> Self {
        let network = (Place::Network, "net0");
        match topology {
            Topology::Separated => Self {
                sender: network,
                dpu_in: "dpu0",
                dpu_out: "dpu0",
                receiver: network,
            },
            Topology::Embedded => Self {
                sender: (Place::Host, "host0"),
                dpu_in: "dpu1",
                dpu_out: "dpu0",
                receiver: network,
            },
        }
    }
}

/// The port of the DPU's program where it has sockets of UDP.
pub(super) const UDP_PORT: u16 = 4789;
/// Where such a program sends what it has worked on, and the interface's own address in that network.
pub(super) const SINK: [u8; 4] = [192, 0, 2, 1];
/// The link address of the DPU's interfaces where its kernel is to take packets: that of the servers of generated traffic.
const DPU_MAC: &str = "02:00:00:00:00:02";
/// A link address that no interface has, so that the kernel behind it looks at no packet: a raw socket gets them before.
const NOBODY_MAC: &str = "02:00:00:00:00:99";

/// What is to be made.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub(super) topology: Topology,
    /// Queues of each interface.
    pub(super) queues: u32,
    /// True if the DPU's kernel is to take the packets and route its program's.
    pub(super) is_routed: bool,
    /// Longest packet of IP.
    pub(super) mtu: usize,
    /// Cores of the DPU, and the core of the others; empty if threads are not pinned.
    pub(super) dpu_cores: Vec<u32>,
    pub(super) tester_cores: Vec<u32>,
}

/// Namespaces and wires that were made. They go when it is dropped and the sockets in them are closed.
#[derive(Debug)]
pub(super) struct Wires {
    places: Vec<Place>,
    /// True if the kernel's work on packets that come is done by the cores of who receives them, not by the sender's.
    pub(super) is_steered: bool,
}

impl Wires {
    /// Makes them.
    ///
    /// # Errors
    /// What the tools say, and what to do.
    pub(super) fn new(layout: &Layout) -> Result<Self, String> {
        assert!(is_inside(), "nobody else's interfaces are touched");
        let mut places = vec![Place::Network, Place::Dpu];
        if layout.topology == Topology::Embedded {
            places.push(Place::Host);
        }
        // Dropped, and its places with it, if the script fails.
        let mut wires = Self {
            places,
            is_steered: false,
        };
        // Names of namespaces are in a folder that only this process sees, once for all layouts.
        static FOLDER: OnceLock<Result<(), String>> = OnceLock::new();
        FOLDER
            .get_or_init(|| shell("mount -t tmpfs tmpfs /run").map(drop))
            .clone()?;
        let steered = shell(&layout.script())?;
        wires.is_steered = !steered.is_empty() && !steered.contains("unsteered");
        Ok(wires)
    }

    /// Does something on this thread in a namespace: sockets that are opened there stay there.
    ///
    /// # Errors
    /// If the thread cannot go there, or not come back.
    pub(super) fn at<T>(&self, place: Place, act: impl FnOnce() -> T) -> Result<T, String> {
        let open = |path: &str| File::open(path).map_err(|error| format!("{path}: {error}"));
        let go = |file: &File| {
            let kind = Some(LinkNameSpaceType::Network);
            let gone = move_into_link_name_space(file.as_fd(), kind);
            gone.map_err(|error| format!("a network namespace cannot be entered: {error}"))
        };
        let home = open("/proc/thread-self/ns/net")?;
        go(&open(&format!("/run/netns/{}", place.name()))?)?;
        let done = act();
        go(&home)?;
        Ok(done)
    }
}

impl Drop for Wires {
    fn drop(&mut self) {
        for place in &self.places {
            // The process's end does it as well.
            let _ = Command::new("ip")
                .args(["netns", "del", place.name()])
                .output();
        }
    }
}

impl Layout {
    /// The commands, for `sh -e`. Its only words on stdout say if the kernel's work was steered.
    fn script(&self) -> String {
        let ends = Ends::of(self.topology);
        let mut lines = Vec::new();
        let mut pairs = vec![((Place::Network, "net0"), "dpu0")];
        if self.topology == Topology::Embedded {
            pairs.push(((Place::Host, "host0"), "dpu1"));
        }
        lines.push("ip netns add dpu".to_owned());
        let queues = format!("numrxqueues {0} numtxqueues {0}", self.queues);
        for ((place, far), near) in pairs {
            let place = place.name();
            lines.extend([
                format!("ip netns add {place}"),
                format!(
                    "ip link add name {far} netns {place} {queues} type veth peer name {near} netns dpu {queues}"
                ),
                format!("ip -n {place} link set {far} addrgenmode none mtu {} up", self.mtu),
            ]);
            let address = match self.is_routed {
                true => format!("address {DPU_MAC} "),
                false => String::new(),
            };
            lines.push(format!(
                "ip -n dpu link set {near} {address}addrgenmode none mtu {} up",
                self.mtu
            ));
            lines.extend(steering(place, far, &self.tester_cores));
            lines.extend(steering("dpu", near, &self.dpu_cores));
        }
        if self.is_routed {
            let [a, b, c, d] = SINK;
            let out = ends.dpu_out;
            lines.extend([
                "ip -n dpu link set lo up".to_owned(),
                "ip netns exec dpu sh -c 'for it in /proc/sys/net/ipv4/conf/*/rp_filter; do echo 0 > $it; done'".to_owned(),
                // Every server of the generated traffic is this machine.
                "ip -n dpu route add local 198.18.0.0/15 dev lo".to_owned(),
                format!("ip -n dpu addr add {a}.{b}.{c}.{}/24 dev {out}", d + 1),
                format!("ip -n dpu route add 10.0.0.0/8 dev {}", ends.dpu_in),
                format!(
                    "ip -n dpu neigh replace {a}.{b}.{c}.{d} lladdr {NOBODY_MAC} dev {out} nud permanent"
                ),
            ]);
        }
        lines.join("\n")
    }
}

/// Runs commands until one fails; gives what they say.
fn shell(script: &str) -> Result<String, String> {
    let output = Command::new("sh").args(["-ec", script]).output();
    let output = output.map_err(|error| format!("sh: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.trim();
        return Err(format!(
            "virtual interfaces cannot be made ({said}); {REMEDY}"
        ));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The kernel's work on packets that come to an interface is done by these cores (receive packet steering). Without it, it is done where the
/// packet was sent, as nobody interrupts a core for a pair of virtual interfaces.
fn steering(place: &str, interface: &str, cores: &[u32]) -> Option<String> {
    if cores.is_empty() {
        return None;
    }
    let mask = mask(cores);
    Some(format!(
        "ip netns exec {place} sh -ec 'for it in /sys/class/net/{interface}/queues/rx-*; do echo {mask} > $it/rps_cpus; done' \
         2>/dev/null && echo steered || echo unsteered"
    ))
}

/// Cores as the kernel writes sets of them: 32 to a group, the highest first.
fn mask(cores: &[u32]) -> String {
    let last = cores.iter().max().map_or(0, |core| core / 32);
    let group = |at: u32| {
        let own = cores.iter().filter(|core| *core / 32 == at);
        own.fold(0_u32, |bits, core| bits | 1 << (core % 32))
    };
    let groups: Vec<String> = (0..=last)
        .rev()
        .map(|at| format!("{:08x}", group(at)))
        .collect();
    groups.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_cores_are_written_as_the_kernel_does() {
        assert_eq!(mask(&[0]), "00000001");
        assert_eq!(mask(&[1, 3, 31]), "8000000a");
        assert_eq!(mask(&[0, 32, 65]), "00000002,00000001,00000001");
    }

    #[test]
    fn a_layout_has_the_wires_of_its_topology() {
        let layout = |topology, is_routed| Layout {
            topology,
            queues: 2,
            is_routed,
            mtu: 1500,
            dpu_cores: vec![1],
            tester_cores: Vec::new(),
        };
        let separated = layout(Topology::Separated, false).script();
        assert!(separated.contains("net0") && !separated.contains("host0"));
        assert!(separated.contains("dpu0/queues") && !separated.contains("net0/queues"));
        assert!(!separated.contains("route"));
        let embedded = layout(Topology::Embedded, true).script();
        assert!(
            embedded.contains("name host0 netns host")
                && embedded.contains("peer name dpu1 netns dpu")
        );
        assert!(embedded.contains("192.0.2.2/24 dev dpu0"));
        assert!(embedded.contains("route add 10.0.0.0/8 dev dpu1"));
    }
}
