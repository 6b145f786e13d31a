//! What tests of ports share: network namespaces of their own, and what every pair of ports must do.
#![allow(dead_code, unreachable_pub)]

use std::collections::VecDeque;
use std::process::Command;
use std::time::{Duration, Instant};

use dpb_core::Buf;
use dpb_core::port::{Dating, PacketPort};
use dpb_net::port::wait;

/// Set for a test that runs in a namespace of its own.
const INSIDE: &str = "DPB_NETWORK_NAMESPACE";
/// How long packets may take that are on their way.
const PATIENCE: Duration = Duration::from_secs(10);

/// The rights of a test in its namespace.
#[derive(Clone, Copy)]
pub enum Rights {
    /// All that a user namespace gives to anybody.
    Anybody,
    /// Those of the machine's root.
    Root,
}

/// Runs the test of this name once more, in a network namespace of its own, by a process that has no threads yet. True in there; outside it is over, or skipped.
pub fn is_inside(test: &str, rights: Rights) -> bool {
    if std::env::var_os(INSIDE).is_some_and(|inside| inside == test) {
        return true;
    }
    let (namespaces, remedy): (&[_], _) = match rights {
        Rights::Anybody => (
            &["--user", "--map-root-user", "--net"],
            "allow user namespaces",
        ),
        Rights::Root => (&["--net"], "run it as root"),
    };
    let tried = Command::new("unshare")
        .args(namespaces)
        .args([
            "ip", "link", "add", "left", "type", "veth", "peer", "name", "right",
        ])
        .output();
    if !tried.as_ref().is_ok_and(|tried| tried.status.success()) {
        let why = tried.map_or_else(
            |error| error.to_string(),
            |tried| String::from_utf8_lossy(&tried.stderr).into_owned(),
        );
        println!(
            "skipped: no virtual interfaces here ({}); {remedy}, apt-get install iproute2",
            why.trim()
        );
        return false;
    }
    let this = std::env::current_exe().expect("this program");
    let output = Command::new("unshare")
        .args(namespaces)
        .arg(this)
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(INSIDE, test)
        .output()
        .expect("unshare starts");
    print!("{}", String::from_utf8_lossy(&output.stdout));
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    false
}

/// Runs `ip` with these words.
pub fn ip(words: &str) {
    let output = Command::new("ip")
        .args(words.split(' '))
        .output()
        .expect("ip starts");
    assert!(
        output.status.success(),
        "ip {words}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Two interfaces, `left` and `right`: what one sends comes to the other. The kernel has nothing to say on them.
pub fn make_link() {
    ip("link add left type veth peer name right");
    for end in ["left", "right"] {
        be_silent_on(end);
    }
}

/// Brings an interface up without an IPv6 address: the kernel reports the groups of one that it has, and repeats it after a while. An interface that was up goes down first, which ends such reports.
pub fn be_silent_on(interface: &str) {
    ip(&format!("link set {interface} down"));
    ip(&format!("link set {interface} addrgenmode none"));
    ip(&format!("link set {interface} up"));
}

/// The type of a frame that is for experiments (IEEE 802).
pub const EXPERIMENT: [u8; 2] = [0x88, 0xB5];

/// Fills a frame: two addresses, a type for experiments, its number, and bytes that follow from it.
pub fn fill(frame: &mut [u8], number: u32) {
    for (i, byte) in frame.iter_mut().enumerate() {
        *byte = number.wrapping_mul(31).wrapping_add(i as u32) as u8;
    }
    frame[..12].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2]);
    frame[12..14].copy_from_slice(&EXPERIMENT);
    frame[14..18].copy_from_slice(&number.to_be_bytes());
}

/// A frame of this port's memory, or of the heap.
pub fn frame(port: &mut dyn PacketPort, number: u32, len: usize) -> Buf {
    let own = number
        .is_multiple_of(3)
        .then(|| port.alloc(len).ok())
        .flatten();
    let mut frame = own.unwrap_or_else(|| Buf::zeroed(len).expect("memory"));
    fill(&mut frame, number);
    frame
}

/// A frame of the heap's memory.
pub fn heap_frame(number: u32, len: usize) -> Buf {
    let mut frame = Buf::zeroed(len).expect("memory");
    fill(&mut frame, number);
    frame
}

/// True if the frame is for experiments. Others use an interface, too.
pub fn is_ours(frame: &Buf) -> bool {
    frame.get(12..14) == Some(&EXPERIMENT)
}

/// Receives until `count` frames for experiments have come.
pub fn receive(port: &mut dyn PacketPort, count: usize) -> Vec<Buf> {
    let (mut ours, start) = (Vec::new(), Instant::now());
    while ours.len() < count && start.elapsed() < PATIENCE {
        let mut came = Vec::new();
        port.receive(&mut came, count - ours.len())
            .expect("receives");
        ours.extend(came.into_iter().filter(is_ours));
        if ours.len() < count {
            wait(port, false, Duration::from_millis(10)).expect("waits");
        }
    }
    assert_eq!(ours.len(), count, "{}", port.name());
    ours
}

/// Sends all, for as long as it takes.
pub fn send(port: &mut dyn PacketPort, mut ready: VecDeque<Buf>) {
    let start = Instant::now();
    while !ready.is_empty() && start.elapsed() < PATIENCE {
        port.send(&mut ready).expect("sends");
    }
    assert_eq!(ready.len(), 0, "{}", port.name());
}

/// What every two ports must do of which one receives what the other sends.
pub fn exchange(from: &mut dyn PacketPort, to: &mut dyn PacketPort) {
    let (from_before, to_before) = (from.stats(), to.stats());
    let max = from.packet_bytes_max().min(to.packet_bytes_max()).min(1514);
    let len = |number: u32| 60 + number as usize * 7 % (max - 59);
    let (mut number, mut held) = (0, Vec::new());
    for burst in [1, 2, 31, 32, 33, 64, 5, 40] {
        let numbers = number..number + burst;
        number += burst;
        let ready = numbers.clone().map(|i| frame(from, i, len(i))).collect();
        send(from, ready);
        let came = receive(to, burst as usize);
        for (packet, i) in came.iter().zip(numbers) {
            let mut right = vec![0; len(i)];
            fill(&mut right, i);
            assert_eq!(packet[..], right[..], "{i} of {}", to.name());
        }
        // Some are held while others come.
        held.extend(came.into_iter().step_by(4));
    }
    for packet in &held {
        let i = u32::from_be_bytes(*packet[14..].first_chunk().expect("a frame"));
        let mut right = vec![0; len(i)];
        fill(&mut right, i);
        assert_eq!(packet[..], right[..], "{i} was held");
    }
    let bytes: u64 = (0..number).map(|i| len(i) as u64).sum();
    let start = Instant::now();
    while from.stats().in_flight() > 0 && start.elapsed() < PATIENCE {
        std::thread::yield_now();
    }
    let (sent, came) = (
        from.stats().since(&from_before),
        to.stats().since(&to_before),
    );
    assert_eq!(
        (sent.taken.packets, sent.taken.bytes),
        (u64::from(number), bytes)
    );
    assert_eq!(
        (sent.sent, sent.in_flight(), sent.send_lost.total()),
        (sent.taken, 0, 0)
    );
    // Others may have sent something.
    assert!(came.delivered.packets >= sent.sent.packets && came.delivered.bytes >= bytes);
    assert_eq!(came.receive_lost.total(), 0, "{came:?}");

    dates(from, to);
    refuses_what_is_too_long(from, to);
}

fn dates(from: &mut dyn PacketPort, to: &mut dyn PacketPort) {
    let ready = (0..5).map(|i| frame(from, i, 60)).collect();
    send(from, ready);
    let start = Instant::now();
    let (mut ours, mut last_ns) = (0, 0);
    while ours < 5 && start.elapsed() < PATIENCE {
        let mut came = Vec::new();
        let count = to.receive(&mut came, 3).expect("receives");
        let arrivals = to.arrivals();
        match arrivals.by {
            Dating::Nothing => assert!(arrivals.times_ns.is_empty()),
            _ => assert_eq!(arrivals.times_ns.len(), count),
        }
        for &time_ns in arrivals.times_ns {
            assert!(time_ns >= last_ns, "{time_ns} behind {last_ns}");
            last_ns = time_ns;
        }
        ours += came.iter().filter(|packet| is_ours(packet)).count();
    }
    assert_eq!(ours, 5);
}

fn refuses_what_is_too_long(from: &mut dyn PacketPort, to: &mut dyn PacketPort) {
    let max = from.packet_bytes_max();
    let before = from.stats();
    let mut ready: VecDeque<Buf> = (0..2).map(|i| frame(from, i, 60)).collect();
    ready.push_back(Buf::zeroed(max + 1).expect("memory"));
    ready.push_back(frame(from, 2, 60));
    assert_eq!(from.send(&mut ready).expect("the first two"), 2);
    let error = from.send(&mut ready).expect_err("too long");
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
    assert!(
        error.to_string().contains(&format!("{} bytes", max + 1)),
        "{error}"
    );
    assert_eq!((ready.len(), ready[0].len()), (2, max + 1));
    let counted = from.stats().since(&before);
    assert_eq!((counted.refused.too_long, counted.taken.packets), (1, 2));
    assert!(
        from.alloc(max + 1).is_err() && from.alloc(max).is_ok_and(|buf| buf[..] == vec![0; max])
    );
    receive(to, 2);
}
