//! DPDK's network devices of software as ports. One process, so one test after another in one function.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dpb_accel::dpdk::Dpdk;
use dpb_core::family::State;
use dpb_core::{Buf, Family, PacketPort, VirtualClock};
use dpb_net::port::{AfPacket, Capture, Dates};

fn open(device: &str) -> Option<Box<dyn PacketPort>> {
    match Dpdk.port(device) {
        Ok(port) => Some(port),
        Err(why) => {
            println!("skipped: {device}: {why}");
            None
        }
    }
}

#[test]
fn ports() {
    if let Some(finding) = Dpdk
        .findings()
        .iter()
        .find(|finding| finding.state == State::Missing)
        && finding.what == "library"
    {
        println!(
            "skipped: ports of DPDK: {} ({})",
            finding.detail, finding.remedy
        );
        return;
    }
    null();
    ring();
    captures();
    tap();
}

/// A frame of a type that is for experiments (IEEE 802), told from others by its number.
fn frame(port: &mut dyn PacketPort, number: u8, len: usize) -> Buf {
    let mut frame = port.alloc(len).expect("memory");
    frame.fill(number);
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xB5]);
    frame
}

/// Gives packets without end, and takes all.
fn null() {
    let Some(mut port) = open("net_null0,size=100") else {
        return;
    };
    let mut came = Vec::new();
    assert_eq!(port.receive(&mut came, 40).expect("works"), 40);
    assert!(came.iter().all(|packet| packet.len() == 100));
    let mut ready = came.into();
    assert_eq!(port.send(&mut ready).expect("works"), 40);
    assert!(
        Dpdk.port("net_null0")
            .is_err_and(|why| why.reason.contains("open already"))
    );
    assert!(Dpdk.port("net_no_such_driver0").is_err());
    // Its mbufs come back: more packets than it has.
    for _ in 0..1000 {
        let mut came = Vec::new();
        assert_eq!(port.receive(&mut came, 32).expect("works"), 32);
    }
    // They outlive it, and it can be opened again.
    let mut came = Vec::new();
    port.receive(&mut came, 3).expect("works");
    drop(port);
    assert!(open("net_null0").is_some());
    assert!(came.iter().all(|packet| packet[..] == [0; 100]));
}

/// Gives back what it is given.
fn ring() {
    let Some(mut port) = open("net_ring0") else {
        return;
    };
    let mut ready = VecDeque::new();
    for i in 0..100 {
        let mut packet = frame(&mut *port, i, 60 + usize::from(i));
        if i % 2 == 1 {
            // From elsewhere: goes out as a copy.
            let mut foreign = Buf::zeroed(packet.len()).expect("memory");
            foreign.copy_from_slice(&packet);
            packet = foreign;
        }
        ready.push_back(packet);
    }
    let mut came = Vec::new();
    while !ready.is_empty() {
        port.send(&mut ready).expect("room");
        port.receive(&mut came, 32).expect("works");
    }
    while port.receive(&mut came, 32).expect("works") > 0 {}
    assert_eq!(came.len(), 100);
    for (i, packet) in came.iter().enumerate() {
        let right = frame(&mut *port, i as u8, 60 + i);
        assert_eq!(packet[..], right[..], "{i}");
    }
    let max = port.packet_bytes_max();
    let mut long = VecDeque::from([Buf::zeroed(max + 1).expect("memory")]);
    assert!(port.send(&mut long).is_err() && long.len() == 1);
    assert!(port.alloc(max + 1).is_err());
}

/// Packets go from a file that this crate wrote into one that it reads.
fn captures() {
    let name = |name: &str| -> PathBuf {
        std::env::temp_dir().join(format!("dpb-{}-{name}.pcap", std::process::id()))
    };
    let (from, to) = (name("from"), name("to"));
    let dates = Dates {
        clock: Arc::new(VirtualClock::new(false)),
        start_ns: 0,
    };
    let mut writer = Capture::open(None, Some((&from, dates))).expect("scratch");
    let mut ready: VecDeque<Buf> = (0..100)
        .map(|i| frame(&mut writer, i, 80 + usize::from(i)))
        .collect();
    writer.send(&mut ready).expect("writes");
    drop(writer);
    let device = format!(
        "net_pcap0,rx_pcap={},tx_pcap={}",
        from.display(),
        to.display()
    );
    if let Some(mut port) = open(&device) {
        let mut ready = VecDeque::new();
        loop {
            let mut came = Vec::new();
            if port.receive(&mut came, 32).expect("works") == 0 {
                break;
            }
            ready.extend(came);
            port.send(&mut ready).expect("works");
        }
        assert!(ready.is_empty());
        drop(port);
        let mut reader = Capture::open(Some(&to), None).expect("written");
        let mut came = Vec::new();
        assert_eq!(reader.receive(&mut came, 200).expect("whole"), 100);
        for (i, packet) in came.iter().enumerate() {
            assert_eq!(packet[..], frame(&mut reader, i as u8, 80 + i)[..], "{i}");
        }
        std::fs::remove_file(&to).expect("scratch");
    }
    std::fs::remove_file(&from).expect("scratch");
}

/// Out of an interface that DPDK makes, into a raw socket on it, and back.
fn tap() {
    let Some(mut tap) = open("net_tap0,iface=dpbtest0") else {
        return;
    };
    let mut socket = match AfPacket::open("dpbtest0") {
        Ok(socket) => socket,
        Err(error) => {
            println!("skipped: raw socket on dpbtest0: {error} (needs CAP_NET_RAW)");
            return;
        }
    };
    let (tap, socket): (&mut dyn PacketPort, &mut dyn PacketPort) = (&mut *tap, &mut socket);
    for is_out in [true, false] {
        let (from, to) = if is_out {
            (&mut *tap, &mut *socket)
        } else {
            (&mut *socket, &mut *tap)
        };
        let mut ready: VecDeque<Buf> = (0..20).map(|i| frame(from, i, 200)).collect();
        let (mut came, start) = (Vec::new(), Instant::now());
        while came.len() < 20 && start.elapsed() < Duration::from_secs(10) {
            from.send(&mut ready).expect("sends");
            let mut all = Vec::new();
            to.receive(&mut all, 32).expect("receives");
            // The system has things of its own to say on a new interface.
            came.extend(
                all.into_iter()
                    .filter(|packet| packet.get(12..14) == Some(&[0x88, 0xB5])),
            );
        }
        assert_eq!(came.len(), 20, "{} to {}", from.name(), to.name());
        for (i, packet) in came.iter().enumerate() {
            assert_eq!(packet[..], frame(to, i as u8, 200)[..]);
        }
    }
}
