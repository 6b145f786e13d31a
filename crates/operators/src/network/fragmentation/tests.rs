//! Fragments read by another implementation, and refusals.

use etherparse::NetHeaders;
use proptest::prelude::*;

use super::*;
use crate::network::packet::sample::{OPTIONS_V4, OPTIONS_V6};
use crate::network::packet::tests::{ACK, bytes, chained, received, samples};
use crate::network::packet::{Burst, Sample, Transport, UDP};

fn each(mtu: u16) -> Vec<Fragmentation> {
    let paths = Fragmentation::PATHS
        .iter()
        .filter(|path| path.is_available());
    let made = paths.map(|path| Fragmentation::new(mtu, *path).expect("available"));
    made.collect()
}

/// The output in a slot of exactly the operator's `dst_len`, every byte behind it untouched.
fn run(fragmentation: &Fragmentation, packet: &[u8]) -> Result<Vec<u8>, PacketError> {
    let slot = fragmentation.dst_len(packet.len());
    let mut dst = vec![0xaa; slot + 64];
    let len = fragmentation.fragment(packet, 7, &mut dst[..slot])?;
    assert!(
        dst[len..].iter().all(|&byte| byte == 0xaa),
        "written behind the output"
    );
    dst.truncate(len);
    Ok(dst)
}

/// The fields that another implementation reads in the fragments: offset, whether more follow, payload.
fn read(output: &[u8]) -> Vec<(usize, bool, Vec<u8>)> {
    Burst::new(output)
        .map(|fragment| {
            let fragment = fragment.expect("sound");
            let headers = received(fragment);
            let (offset, more) = match headers.net.as_ref().expect("IP") {
                NetHeaders::Ipv4(ip, _) => (ip.fragment_offset, ip.more_fragments),
                NetHeaders::Ipv6(_, extensions) => {
                    let header = extensions.fragment.as_ref().expect("a fragment");
                    assert_eq!(header.identification, 7);
                    (header.fragment_offset, header.more_fragments)
                }
                NetHeaders::Arp(_) => unreachable!(),
            };
            let ip = etherparse::SlicedPacket::from_ip(fragment).expect("sound");
            let payload = ip.ip_payload().expect("IP").payload.to_vec();
            (usize::from(offset.value()) * 8, more, payload)
        })
        .collect()
}

#[test]
fn another_implementation_reads_the_fragments() {
    for sample in samples(ACK).into_iter().chain(samples(Transport::Udp)) {
        for (len, mtu) in [
            (2000, 1500),
            (1480, 1500),
            (9000, 1280),
            (65_000, 1500),
            (500, 128),
            (300, 124),
        ] {
            let packet = sample.packet(&bytes(len, 1));
            for fragmentation in each(mtu) {
                let output = run(&fragmentation, &packet).expect("fragments");
                if packet.len() <= usize::from(mtu) {
                    assert_eq!(output, packet);
                    continue;
                }
                let fragments = read(&output);
                let last = fragments.len() - 1;
                let mut payload = Vec::<u8>::new();
                for (i, (offset, more, part)) in fragments.iter().enumerate() {
                    assert_eq!((*offset, *more), (payload.len(), i < last));
                    payload.extend(part);
                }
                assert_eq!(payload, Packet::parse(&packet).expect("sound").payload());
                assert!(Burst::new(&output).all(|f| f.expect("sound").len() <= usize::from(mtu)));
            }
        }
    }
}

/// RFC 791, 3.1 and 3.2: the first fragment has them all, the others what has the copy bit.
#[test]
fn options_are_kept_as_their_copy_bit_says() {
    let sample = Sample {
        options: OPTIONS_V4,
        ..Sample::new(Version::V4, Transport::Udp)
    };
    let packet = sample.packet(&bytes(300, 1));
    for fragmentation in each(128) {
        let output = run(&fragmentation, &packet).expect("fragments");
        let options: Vec<_> = Burst::new(&output)
            .map(|fragment| {
                Packet::parse(fragment.expect("sound"))
                    .expect("sound")
                    .headers()[20..]
                    .to_vec()
            })
            .collect();
        assert_eq!(options[0], OPTIONS_V4);
        assert!(
            options[1..]
                .iter()
                .all(|options| options[..] == [0x94, 4, 0, 0])
        );
    }
    let mut endless = packet.clone();
    endless[21] = 0;
    let sum = checksum_of(&endless);
    put_u16(&mut endless, 10, sum);
    for fragmentation in each(128) {
        assert_eq!(run(&fragmentation, &endless), Err(PacketError::Malformed));
        assert_eq!(
            run(&each(1500)[0], &endless),
            Ok(endless.clone()),
            "fits, so nobody looks"
        );
        let _ = fragmentation;
    }
}

fn checksum_of(packet: &[u8]) -> u16 {
    let checksum = crate::network::checksum::Checksum::best(dpb_core::ChecksumForm::Ipv4);
    checksum.of(packet).expect("IPv4")
}

/// A fragment that is fragmented again gives what the datagram would have given.
#[test]
fn fragments_can_be_cut_again() {
    let packet = Sample::new(Version::V4, Transport::Udp).packet(&bytes(4000, 1));
    for (coarse, fine) in each(1500).iter().zip(each(500)) {
        let first = run(coarse, &packet).expect("fragments");
        let again: Vec<u8> = Burst::new(&first)
            .flat_map(|fragment| run(&fine, fragment.expect("sound")).expect("fragments"))
            .collect();
        let parts = read(&again);
        let mut end = 0;
        for (offset, more, part) in &parts {
            assert_eq!(*offset, end);
            end += part.len();
            assert_eq!(*more, end < 4008);
        }
        assert_eq!(end, 4008);
    }
}

/// RFC 8200, 4.5: what comes before the fragment header, and what it says comes behind it.
#[test]
fn headers_up_to_the_routing_header_are_repeated() {
    let mut udp = vec![0; 3000];
    put_u16(&mut udp, 4, 3000);
    let packet = chained(UDP, 0, &udp);
    for fragmentation in each(1280) {
        let output = run(&fragmentation, &packet).expect("fragments");
        for fragment in Burst::new(&output) {
            let fragment = fragment.expect("sound");
            // The routing header says what comes next: the fragment header, which says what came next before.
            assert_eq!(fragment[40..64], packet[40..64]);
            assert_eq!((packet[64], fragment[64]), (60, 44));
            assert_eq!(fragment[65..72], packet[65..72]);
            assert_eq!(fragment[72], 60);
        }
        assert_eq!(Burst::new(&output).count(), 3);
    }
}

#[test]
fn what_cannot_be_cut_is_refused() {
    let sample = Sample::new(Version::V4, Transport::Udp);
    let packet = sample.packet(&bytes(3000, 1));
    let resummed = |at: usize, bits: u8| {
        let mut packet = packet.clone();
        packet[at] |= bits;
        let sum = checksum_of(&packet);
        put_u16(&mut packet, 10, sum);
        packet
    };
    let mut wrong = packet.clone();
    wrong[8] ^= 1;
    let six = Sample::new(Version::V6, Transport::Udp).packet(&bytes(3000, 1));
    let mut fragment = run(&each(1280)[0], &six).expect("fragments");
    fragment.truncate(1280);
    let chain = chained(UDP, 0, &bytes(3000, 1));
    let cases = [
        (500, resummed(6, 0x40), PacketError::DontFragment),
        // An offset that leads beyond 64 KiB; three thousand and eight bytes before the last, which is no multiple of 8.
        (500, resummed(6, 0x1f), PacketError::Malformed),
        (500, wrong, PacketError::Checksum),
        (500, fragment, PacketError::Fragment),
        // No room for a unit of payload; none for the chain of headers in the first.
        (80, chain.clone(), PacketError::Headers),
        (88, chain, PacketError::Headers),
        (500, six[..100].to_vec(), PacketError::Malformed),
    ];
    for (mtu, packet, error) in cases {
        for fragmentation in each(mtu) {
            assert_eq!(
                run(&fragmentation, &packet),
                Err(error),
                "{fragmentation:?}"
            );
        }
    }
    for fragmentation in each(500) {
        let mut short = vec![0; 3100];
        let error = fragmentation.fragment(&packet, 7, &mut short);
        assert_eq!(error, Err(PacketError::DstTooShort));
    }
    assert!(Fragmentation::best(MTU_MIN - 1).is_err());
}

/// scapy's fragments of the same datagram, if this machine has scapy.
#[test]
fn scapy_cuts_the_same() {
    let script = "import sys\nfrom scapy.all import IP, fragment\npacket = IP(sys.stdin.buffer.read())\n\
                  for f in fragment(packet, int(sys.argv[1])): sys.stdout.buffer.write(bytes(f))";
    for (len, mtu) in [(4000, 1500), (3001, 576)] {
        let packet = Sample::new(Version::V4, Transport::Udp).packet(&bytes(len, 1));
        // scapy takes bytes of payload, a multiple of eight.
        let room = ((mtu - 20) & !7u16).to_string();
        let Some(theirs) = python(&[script, &room], &packet) else {
            println!("skipped: no python3 with scapy");
            return;
        };
        for fragmentation in each(mtu) {
            assert_eq!(run(&fragmentation, &packet).expect("fragments"), theirs);
        }
    }
}

/// The output of a Python program for `input`; none without Python or if it fails.
fn python(arguments: &[&str], input: &[u8]) -> Option<Vec<u8>> {
    use std::io::Write;
    use std::process::{Command, Stdio};
    ["/usr/bin/python3", "python3"].iter().find_map(|python| {
        let mut child = Command::new(python)
            .arg("-c")
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        // It may have ended already.
        let _ = child.stdin.take()?.write_all(input);
        let output = child.wait_with_output().ok()?;
        output.status.success().then_some(output.stdout)
    })
}

/// Packets of all kinds, some of them spoilt, IPv4 header checksums right.
fn packets() -> impl Strategy<Value = Vec<u8>> {
    let packet = (0usize..4, 0usize..4000, any::<u64>(), 0usize..60);
    packet.prop_map(|(kind, len, seed, at)| {
        let mut packet = samples(Transport::Udp)[kind].packet(&bytes(len, seed));
        if let Some(byte) = packet.get_mut(at).filter(|_| seed % 3 == 0) {
            *byte ^= (seed >> 40) as u8;
        }
        if let Ok(sum) = crate::network::checksum::oracle(dpb_core::ChecksumForm::Ipv4, &packet) {
            put_u16(&mut packet, 10, sum);
        }
        packet
    })
}

proptest! {
    #[test]
    fn every_path_is_as_the_oracle(packet in packets(), mtu in prop_oneof![68u16..200, 200u16..2000]) {
        let right = oracle::fragment(&packet, mtu.into(), 7);
        for fragmentation in each(mtu) {
            prop_assert_eq!(&run(&fragmentation, &packet), &right);
        }
    }
}

#[test]
fn an_identification_follows_from_the_packet() {
    let sample = Sample {
        options: OPTIONS_V6,
        ..Sample::new(Version::V6, Transport::Udp)
    };
    let (a, b) = (sample.packet(b"a"), sample.packet(b"b"));
    assert_eq!(identification(&a), identification(&a));
    // Their UDP checksums differ.
    assert_ne!(identification(&a), identification(&b));
    assert_eq!(identification(&[]), 0);
}
