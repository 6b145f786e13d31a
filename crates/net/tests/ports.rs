//! Ports, two by two: what one sends the other receives. Those of interfaces are on virtual ones, in a network namespace that the test makes for itself.

use std::collections::VecDeque;
use std::io;
use std::net::UdpSocket;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dpb_core::port::{Dating, PacketPort};
use dpb_core::{Buf, WallClock};
use dpb_net::port::af_packet::{self, Fanout, FanoutBy};
use dpb_net::port::af_xdp::{self, Attachment, Copying};
use dpb_net::port::{AfPacket, AfXdp, Dated, Looped, Tap, ethernet_address, pair, pair_of, wait};

mod support;

use support::{
    Rights, be_silent_on, exchange, fill, frame, heap_frame, ip, is_inside, is_ours, make_link,
    receive, send,
};

/// Says why a test is over: only rights that are missing, or a part of the kernel, are a reason.
fn skip(what: &str, error: &io::Error) {
    use io::ErrorKind::{NotFound, OutOfMemory, PermissionDenied};
    let is_reason = matches!(error.kind(), NotFound | OutOfMemory | PermissionDenied);
    assert!(
        is_reason || error.to_string().contains("CONFIG_"),
        "{error}"
    );
    println!("skipped: {what}: {error}");
}

#[test]
fn memory() {
    let [mut one, mut two] = pair();
    exchange(&mut one, &mut two);
    exchange(&mut two, &mut one);
    let [one, two] = pair_of(64);
    let clock = Arc::new(WallClock::default());
    let (mut one, mut two) = (Dated::new(one, clock.clone()), Dated::new(two, clock));
    exchange(&mut one, &mut two);
    exchange(&mut two, &mut one);
    let mut looped = Looped::new(2);
    let mut ready: VecDeque<Buf> = (0..3).map(|i| heap_frame(i, 60)).collect();
    assert_eq!(looped.send(&mut ready).expect("room for two"), 2);
    assert_eq!(receive(&mut looped, 2).len(), 2);
    let stats = looped.stats();
    assert_eq!(
        (stats.taken, stats.sent),
        (stats.delivered, stats.delivered)
    );
    assert_eq!(stats.refused.queue_full, 1);
    // A box is a port, too.
    let [one, two]: [Box<dyn PacketPort>; 2] = pair().map(|end| Box::new(end) as _);
    let (mut one, mut two) = (one, two);
    exchange(&mut one, &mut two);
}

#[test]
fn raw_sockets() {
    if !is_inside("raw_sockets", Rights::Anybody) {
        return;
    }
    make_link();
    let (mut left, mut right) = (open("left"), open("right"));
    exchange(&mut left, &mut right);
    exchange(&mut right, &mut left);
    assert_eq!(right.arrivals().by, Dating::Kernel);
    // What it sends does not come back to it.
    let mut came = Vec::new();
    assert_eq!(right.receive(&mut came, 99).expect("works"), 0);
    let mut short = VecDeque::from([Buf::zeroed(13).expect("memory")]);
    let error = left.send(&mut short).expect_err("no frame");
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    assert_eq!(left.stats().refused.malformed, 1);
    // Without a tag the interface takes four bytes less.
    let mut untagged = VecDeque::from([frame(&mut left, 0, 1515)]);
    let error = left.send(&mut untagged).expect_err("too long");
    assert!(error.to_string().contains("up to 1514"), "{error}");
    ip("link set left address 02:00:00:00:0a:0b");
    assert_eq!(
        ethernet_address("left").expect("there"),
        [2, 0, 0, 0, 10, 11]
    );
    assert!(ethernet_address("lo").is_err() && ethernet_address("no-such-one").is_err());
    let error = AfPacket::open("no-such-one").expect_err("there is none");
    assert!(error.to_string().contains("no such interface"), "{error}");
}

fn open(interface: &str) -> AfPacket {
    AfPacket::open(interface).expect("CAP_NET_RAW in the namespace")
}

/// `/sys` still shows the interfaces of the namespace outside.
#[test]
fn the_longest_packet_is_the_one_of_this_namespace() {
    if !is_inside(
        "the_longest_packet_is_the_one_of_this_namespace",
        Rights::Anybody,
    ) {
        return;
    }
    make_link();
    ip("link set left mtu 9000");
    ip("link set right mtu 9000");
    let (mut left, mut right) = (open("left"), open("right"));
    assert_eq!(left.packet_bytes_max(), 9018);
    let mut long = frame(&mut left, 7, 9014);
    fill(&mut long, 7);
    send(&mut left, VecDeque::from([long]));
    assert_eq!(receive(&mut right, 1)[0].len(), 9014);
    assert_eq!(open("lo").packet_bytes_max(), 65554);
}

/// Puts the frame into a virtual network, as IEEE 802.1Q or 802.1ad tag it.
fn tag(frame: &mut Buf, number: u8) {
    let outer = [[0x81, 0x00], [0x88, 0xA8]][usize::from(number) / 3 % 2];
    let network = [0x20 | number >> 4, number];
    frame.copy_within(12..14, 16);
    frame[12..14].copy_from_slice(&outer);
    frame[14..16].copy_from_slice(&network);
}

/// The kernel takes tags out, and they are back in what arrives.
#[test]
fn tags_of_virtual_networks_are_put_back() {
    if !is_inside("tags_of_virtual_networks_are_put_back", Rights::Anybody) {
        return;
    }
    make_link();
    let (mut left, mut right) = (open("left"), open("right"));
    let mut sent = Vec::new();
    for i in 0..50_u8 {
        let mut ready = VecDeque::new();
        for copy in 0..2 {
            let mut frame = frame(&mut left, i.into(), 60 + usize::from(i));
            if !i.is_multiple_of(3) {
                tag(&mut frame, i);
            }
            match copy {
                0 => ready.push_back(frame),
                _ => sent.push(frame),
            }
        }
        send(&mut left, ready);
    }
    let (mut came, start) = (Vec::new(), Instant::now());
    while came.len() < 50 && start.elapsed() < Duration::from_secs(10) {
        right.receive(&mut came, 50).expect("receives");
    }
    for (i, sent) in sent.iter().enumerate() {
        assert_eq!(came[i][..], sent[..], "{i}");
    }
    // The longest frame there is has a tag.
    let mut long = frame(&mut left, 0, 1518);
    tag(&mut long, 1);
    let right_bytes = long.to_vec();
    send(&mut left, VecDeque::from([long]));
    came.clear();
    while came.is_empty() && start.elapsed() < Duration::from_secs(10) {
        right.receive(&mut came, 1).expect("receives");
    }
    assert_eq!(came[0][..], right_bytes);
}

/// What this machine's own UDP sends has no checksum yet when a virtual interface hands it over.
#[test]
fn checksums_that_were_left_to_the_device_are_computed() {
    if !is_inside(
        "checksums_that_were_left_to_the_device_are_computed",
        Rights::Anybody,
    ) {
        return;
    }
    make_link();
    ip("addr add 10.9.8.1/24 dev left");
    ip("neigh add 10.9.8.2 lladdr 02:00:00:00:00:02 dev left");
    let mut right = open("right");
    let socket = UdpSocket::bind("10.9.8.1:5000").expect("the address is there");
    for len in [0, 1, 5, 700, 1400] {
        let payload: Vec<u8> = (0..len).map(|i| i as u8).collect();
        socket
            .send_to(&payload, "10.9.8.2:6000")
            .expect("a way there");
        let (mut came, start) = (Vec::new(), Instant::now());
        while came.is_empty() && start.elapsed() < Duration::from_secs(10) {
            right.receive(&mut came, 1).expect("receives");
        }
        let ip = &came[0][14..];
        assert_eq!((ip[0], ip[9]), (0x45, 17), "UDP over IPv4");
        let datagram = &ip[20..];
        assert!(datagram[8..].starts_with(&payload) && datagram[6..8] != [0, 0]);
        // RFC 768: addresses, protocol, length and the datagram sum to ones.
        let mut sum = 17 + u32::from(u16::from_be_bytes([datagram[4], datagram[5]]));
        let datagram = &datagram[..8 + len];
        for pair in ip[12..20].chunks(2).chain(datagram.chunks(2)) {
            sum += u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |&byte| u32::from(byte));
        }
        assert_eq!((sum & 0xFFFF) + (sum >> 16), 0xFFFF, "{len}");
    }
}

/// Everything that was sent was received, or the kernel has counted it.
#[test]
fn a_ring_that_is_full_loses_what_is_counted() {
    if !is_inside("a_ring_that_is_full_loses_what_is_counted", Rights::Anybody) {
        return;
    }
    make_link();
    let mut left = open("left");
    let small = af_packet::Options {
        blocks: 2,
        block_bytes: 4096,
        block_time: Duration::from_millis(1),
        ..af_packet::Options::default()
    };
    let mut right = AfPacket::open_with("right", &small).expect("CAP_NET_RAW in the namespace");
    for _ in 0..100 {
        let ready = (0..50).map(|i| frame(&mut left, i, 200)).collect();
        send(&mut left, ready);
    }
    let (mut came, mut empty) = (Vec::new(), 0);
    while empty < 20 {
        match right.receive(&mut came, 64).expect("receives") {
            0 => {
                empty += 1;
                wait(&right, false, Duration::from_millis(5)).expect("waits");
            }
            _ => empty = 0,
        }
    }
    let stats = right.stats();
    assert!(
        stats.receive_lost.kernel > 0 && !came.is_empty(),
        "{stats:?}"
    );
    assert_eq!(stats.delivered.packets, came.len() as u64);
    assert_eq!(stats.delivered.packets + stats.receive_lost.total(), 5000);
    assert_eq!(left.stats().sent.packets, 5000);
    // Asked again, it does not count again.
    assert_eq!(right.stats(), stats);
}

/// Frames that are held come back when they are dropped, and nothing is lost meanwhile.
#[test]
fn packets_wait_for_frames() {
    if !is_inside("packets_wait_for_frames", Rights::Anybody) {
        return;
    }
    make_link();
    let mut left = open("left");
    let few = af_packet::Options {
        frames: 8,
        ..af_packet::Options::default()
    };
    let mut right = AfPacket::open_with("right", &few).expect("CAP_NET_RAW in the namespace");
    let ready = (0..30).map(|i| frame(&mut left, i, 60)).collect();
    send(&mut left, ready);
    let mut seen = 0_u32;
    for count in [8, 8, 8, 6] {
        let held = receive(&mut right, count);
        let mut more = Vec::new();
        if count == 8 {
            assert_eq!(right.receive(&mut more, 9).expect("works"), 0);
            assert!(right.alloc(60).is_err(), "no frame is left");
        }
        for packet in &held {
            assert_eq!(packet[14..18], seen.to_be_bytes());
            seen += 1;
        }
    }
    assert_eq!(right.stats().receive_lost.total(), 0);
}

/// A datagram of UDP over IPv4 of flow `flow`, for who looks at headers to find flows.
fn datagram(flow: u8, number: u8) -> Buf {
    let mut frame = Buf::zeroed(60).expect("memory");
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x08, 0x00]);
    let ip = [
        0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, flow, 10, 0, 1, 1,
    ];
    frame[14..34].copy_from_slice(&ip);
    frame[34..42].copy_from_slice(&[0x10, flow, 0, 53, 0, 26, 0, 0]);
    frame[42] = number;
    frame
}

#[test]
fn a_group_shares_an_interface_by_flows() {
    if !is_inside("a_group_shares_an_interface_by_flows", Rights::Anybody) {
        return;
    }
    make_link();
    let mut left = open("left");
    for by in [
        FanoutBy::Hash,
        FanoutBy::Turns,
        FanoutBy::Cpu,
        FanoutBy::Room,
        FanoutBy::Random,
        FanoutBy::Queue,
    ] {
        let options = af_packet::Options {
            fanout: Some(Fanout { group: 77, by }),
            ..af_packet::Options::default()
        };
        let mut group: Vec<AfPacket> = (0..3)
            .map(|_| AfPacket::open_with("right", &options).expect("CAP_NET_RAW in the namespace"))
            .collect();
        for number in 0..10 {
            send(
                &mut left,
                (0..40).map(|flow| datagram(flow, number)).collect(),
            );
        }
        // Nobody gets what the group sends.
        send(
            &mut group[0],
            (0..40).map(|flow| datagram(flow, 99)).collect(),
        );
        // For each flow the ports that saw it, and the numbers in the order in which they came.
        let mut seen = vec![(Vec::new(), Vec::new()); 40];
        let mut shares = [0; 3];
        let start = Instant::now();
        while shares.iter().sum::<usize>() < 400 && start.elapsed() < Duration::from_secs(10) {
            for (i, port) in group.iter_mut().enumerate() {
                let mut came = Vec::new();
                shares[i] += port.receive(&mut came, 64).expect("receives");
                for packet in came {
                    let (ports, numbers) = &mut seen[usize::from(packet[29])];
                    ports.push(i);
                    numbers.push(packet[42]);
                }
            }
        }
        assert_eq!(shares.iter().sum::<usize>(), 400, "{by:?}: {shares:?}");
        for (ports, numbers) in &mut seen {
            if by == FanoutBy::Hash {
                assert!(numbers.iter().copied().eq(0..10), "{numbers:?}");
                ports.dedup();
                assert_eq!(ports.len(), 1, "a flow has one port");
            }
            numbers.sort_unstable();
            assert!(numbers.iter().copied().eq(0..10), "{by:?}: {numbers:?}");
        }
        if matches!(by, FanoutBy::Hash | FanoutBy::Turns | FanoutBy::Random) {
            assert!(shares.iter().all(|&share| share > 0), "{by:?}: {shares:?}");
        }
    }
}

#[test]
fn an_interface_of_this_program() {
    if !is_inside("an_interface_of_this_program", Rights::Anybody) {
        return;
    }
    let mut tap = match Tap::open("dpb%d") {
        Ok(tap) => tap,
        Err(error) => return skip("interfaces of this program", &error),
    };
    assert_eq!(tap.name(), "dpb0");
    be_silent_on("dpb0");
    let mut socket = open("dpb0");
    exchange(&mut tap, &mut socket);
    exchange(&mut socket, &mut tap);
    // Its queue holds so many, and the kernel counts the others.
    ip("link set dpb0 txqueuelen 50");
    ip("addr add 10.9.8.1/24 dev dpb0");
    ip("neigh add 10.9.8.2 lladdr 02:00:00:00:00:02 dev dpb0");
    let mut came = Vec::new();
    while tap.receive(&mut came, 64).expect("receives") > 0 {}
    came.clear();
    let before = tap.stats();
    let kernel = UdpSocket::bind("10.9.8.1:5000").expect("the address is there");
    for _ in 0..400 {
        kernel
            .send_to(&[1; 100], "10.9.8.2:6000")
            .expect("a way there");
    }
    while tap.receive(&mut came, 64).expect("receives") > 0 {}
    let counted = tap.stats().since(&before);
    assert_eq!(counted.delivered.packets, came.len() as u64);
    assert!(
        counted.receive_lost.kernel > 0 && came.len() >= 50,
        "{counted:?}"
    );
    assert_eq!(
        counted.delivered.packets + counted.receive_lost.total(),
        400,
        "{counted:?}"
    );
    let error = Tap::open("dpb0").expect_err("there is one");
    assert!(error.to_string().contains("ip link"), "{error}");
    assert!(Tap::open("a-name-that-is-too-long").is_err());
}

/// Sending needs no program in the kernel; what receiving lacks is said.
#[test]
fn af_xdp_sends_without_root() {
    if !is_inside("af_xdp_sends_without_root", Rights::Anybody) {
        return;
    }
    make_link();
    let sends = af_xdp::Options {
        receives: false,
        frames: 256,
        ..af_xdp::Options::default()
    };
    let mut left = match AfXdp::open_with("left", &sends) {
        Ok(left) => left,
        Err(error) => return skip("AF_XDP", &error),
    };
    let mut right = open("right");
    exchange(&mut left, &mut right);
    let mut came = Vec::new();
    assert_eq!(left.receive(&mut came, 9).expect("works"), 0);
    let many: VecDeque<Buf> = (0..1000).map(|i| heap_frame(i, 60)).collect();
    send(&mut left, many);
    receive(&mut right, 1000);
    assert_eq!(
        (left.stats().sent.packets, left.stats().in_flight()),
        (left.stats().taken.packets, 0)
    );
    drop(left);
    let both = af_xdp::Options {
        receives: true,
        ..sends
    };
    match AfXdp::open_with("left", &both) {
        // With CAP_BPF outside of the namespace.
        Ok(_) => {}
        Err(error) => assert!(error.to_string().contains("CAP_BPF"), "{error}"),
    }
}

#[test]
fn af_xdp_both_ways() {
    if !is_inside("af_xdp_both_ways", Rights::Root) {
        return;
    }
    make_link();
    for attachment in [Attachment::Any, Attachment::Driver, Attachment::Generic] {
        let options = af_xdp::Options {
            copying: Copying::Kernel,
            attachment,
            ..af_xdp::Options::default()
        };
        let opened = AfXdp::open_with("left", &options)
            .and_then(|left| Ok([left, AfXdp::open_with("right", &options)?]));
        let [mut left, mut right] = match opened {
            Ok(both) => both,
            Err(error) => return skip("AF_XDP", &error),
        };
        assert!(!left.is_zero_copy());
        exchange(&mut left, &mut right);
        exchange(&mut right, &mut left);
        // What one receives it sends on without a copy; more than it has frames.
        for i in 0..5000 {
            send(
                &mut left,
                VecDeque::from([heap_frame(i, 60 + i as usize % 1000)]),
            );
            let there: VecDeque<Buf> = receive(&mut right, 1).into();
            send(&mut right, there);
            let back = receive(&mut left, 1);
            let mut as_sent = vec![0; back[0].len()];
            fill(&mut as_sent, i);
            assert_eq!(back[0][..], as_sent[..], "{i}");
        }
        let error = AfXdp::open_with("left", &options).expect_err("one socket a queue");
        assert!(error.to_string().contains("queue 0 of left"), "{error}");
        drop((left, right));
        // Sockets of the kernel get packets again, and tell what came from what was sent.
        let (mut left, mut right) = (open("left"), open("right"));
        exchange(&mut left, &mut right);
    }
    let error = AfXdp::open_queues("left", 0..3, &af_xdp::Options::default());
    assert!(
        error
            .expect_err("one queue")
            .to_string()
            .contains("queue 1")
    );
    // What is taken while the interface is down stays under way until it is up.
    ip("link set left down");
    let sends = af_xdp::Options {
        receives: false,
        ..af_xdp::Options::default()
    };
    let mut left = AfXdp::open_with("left", &sends).expect("as before");
    let mut ready = VecDeque::from([frame(&mut left, 7, 60)]);
    assert_eq!(left.send(&mut ready).expect("room"), 1);
    assert_eq!(left.stats().in_flight(), 1);
    assert!(left.send(&mut ready).is_err(), "the interface is down");
    ip("link set left up");
    let mut right = open("right");
    assert_eq!(left.send(&mut ready).expect("nothing more"), 0);
    receive(&mut right, 1);
    assert_eq!(
        (left.stats().in_flight(), left.stats().sent.packets),
        (0, 1)
    );
}

/// Nobody takes packets out: what has no room is counted, and all are accounted for.
#[test]
fn af_xdp_counts_what_it_loses() {
    if !is_inside("af_xdp_counts_what_it_loses", Rights::Root) {
        return;
    }
    make_link();
    let options = af_xdp::Options {
        frames: 64,
        attachment: Attachment::Generic,
        ..af_xdp::Options::default()
    };
    let mut right = match AfXdp::open_with("right", &options) {
        Ok(right) => right,
        Err(error) => return skip("AF_XDP", &error),
    };
    let mut left = open("left");
    send(&mut left, (0..100).map(|i| heap_frame(i, 60)).collect());
    let came = receive(&mut right, 32);
    assert!(came.iter().all(is_ours));
    let stats = right.stats();
    assert_eq!(
        (stats.delivered.packets, stats.receive_lost.total()),
        (32, 68),
        "{stats:?}"
    );
    // The frames that were received are held, and the rest was lent meanwhile.
    send(&mut left, (0..100).map(|i| heap_frame(i, 60)).collect());
    let more = receive(&mut right, 32);
    let stats = right.stats();
    assert_eq!(
        (stats.delivered.packets, stats.receive_lost.total()),
        (64, 136),
        "{stats:?}"
    );
    assert!(right.alloc(60).is_err(), "all frames are held");
    drop((came, more));
    assert!(right.alloc(60).is_ok());
}
