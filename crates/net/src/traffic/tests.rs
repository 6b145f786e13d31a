//! Frames as another implementation reads them (etherparse); shares by statistics; captures.

use dpb_core::random::SplitMix64;
use etherparse::{NetHeaders, PacketHeaders, TcpHeader, TransportHeader};
use proptest::prelude::*;

use super::application::{Application, Applications, Delivery, QuicDelivery, Transport};
use super::*;

/// Reads a frame with another implementation, which checks lengths and, computed anew, every checksum. A UDP checksum of zero over IPv4
/// counts if `zero_sum`. Returns what it found, and the bytes behind the datagram.
fn received(frame: &[u8], zero_sum: bool) -> (PacketHeaders<'_>, usize) {
    let headers =
        PacketHeaders::from_ethernet_slice(frame).expect("another implementation reads it");
    let payload = headers.payload.slice();
    let tags = 4 * headers.link_exts.len();
    let l4 = headers.transport.as_ref().expect("layer 4");
    let found = match l4 {
        TransportHeader::Tcp(tcp) => tcp.checksum,
        TransportHeader::Udp(udp) => udp.checksum,
        other => panic!("{other:?}"),
    };
    let (datagram, sum) = match (headers.net.as_ref().expect("IP"), l4) {
        (NetHeaders::Ipv4(ip, _), l4) => {
            assert_eq!(ip.calc_header_checksum(), ip.header_checksum);
            let sum = match l4 {
                TransportHeader::Tcp(tcp) => tcp.calc_checksum_ipv4(ip, payload),
                TransportHeader::Udp(_) if zero_sum && found == 0 => Ok(0),
                TransportHeader::Udp(udp) => udp.calc_checksum_ipv4(ip, payload),
                other => panic!("{other:?}"),
            };
            (usize::from(ip.total_len), sum)
        }
        (NetHeaders::Ipv6(ip, _), l4) => {
            let sum = match l4 {
                TransportHeader::Tcp(tcp) => tcp.calc_checksum_ipv6(ip, payload),
                TransportHeader::Udp(udp) => udp.calc_checksum_ipv6(ip, payload),
                other => panic!("{other:?}"),
            };
            (usize::from(ip.payload_length) + 40, sum)
        }
        (NetHeaders::Arp(_), _) => panic!("not IP"),
    };
    assert_eq!(found, sum.expect("short"));
    let behind = frame.len() - 14 - tags - datagram;
    (headers, behind)
}

fn frame_of(traffic: &impl Traffic, i: u64, key: &StampKey) -> Vec<u8> {
    // Whatever was in the buffer before must not show.
    let mut frame = vec![0xa5; traffic.frame_bytes(i)];
    traffic.write(i, 7 * i, key, &mut frame);
    assert!(frame.len() <= traffic.frame_bytes_max());
    frame
}

/// Profiles of all kinds.
fn profiles() -> Vec<Profile> {
    let base = Profile::new(42);
    let mixed = Profile {
        tcp_share: 0.5385,
        ipv6_share: 0.4,
        reply_share: 0.5,
        flows: Flows {
            strata: 1024,
            ..Flows::churning(100, Mixture::agh_campus())
        },
        ..base.clone()
    };
    let mut profiles = vec![
        base.clone(),
        Profile {
            udp_checksum: UdpChecksum::Zero,
            sizes: Sizes::Uniform { min: 60, max: 200 },
            ..base.clone()
        },
        Profile {
            link: Link {
                vlan: Some(4095),
                ..Link::default()
            },
            sizes: Sizes::Uniform {
                min: 100,
                max: 1518,
            },
            ..mixed.clone()
        },
        Profile {
            sizes: Sizes::genome("abcdefghij", 1514)
                .expect("letters")
                .at_least(100),
            ..mixed.clone()
        },
    ];
    for mix in Mix::all() {
        profiles.push(Profile {
            sizes: Sizes::Mix(mix).at_least(92),
            ..mixed.clone()
        });
    }
    for (delivery, quic_delivery) in [
        (Delivery::Whole, QuicDelivery::Whole),
        (Delivery::Overlapping(100), QuicDelivery::Scattered(5)),
    ] {
        profiles.push(Profile {
            sizes: Sizes::Mix(Mix::trex()).at_least(92),
            applications: Some(Applications {
                conversations: 3,
                delivery,
                quic_delivery,
                ..Applications::today()
            }),
            ..mixed.clone()
        });
    }
    profiles
}

#[test]
fn frames_are_what_another_implementation_reads() {
    let key = StampKey::new(1, 2);
    let mut random = SplitMix64::new(3);
    for profile in profiles() {
        let generator = Generator::new(&profile).expect("a profile");
        let zero_sum = profile.udp_checksum == UdpChecksum::Zero;
        for n in 0..4000u64 {
            let i = if n < 1000 {
                n
            } else {
                random.next_u64() % (1 << 38)
            };
            let frame = frame_of(&generator, i, &key);
            let (headers, behind) = received(&frame, zero_sum);
            let identity = generator.identity(i);
            is_from(&profile, &identity, &headers);
            let Read::Stamp(stamp) = key.read(&frame) else {
                panic!("no stamp in {frame:02x?}")
            };
            assert_eq!((stamp.number, stamp.departure_ns), (i, 7 * i));
            let at = frame.len() - STAMP_BYTES;
            let filler = &frame[at - stamp.filler_bytes..at];
            assert!(generator.has_filler(i, filler));
            let is_message = profile.applications.is_some() && behind > 0;
            match is_message {
                // Behind the datagram, and nothing that was in the buffer before.
                true => {
                    assert!(behind >= STAMP_BYTES);
                    let message = headers.payload.slice().len();
                    assert_eq!(stamp.filler_bytes, message + behind - STAMP_BYTES);
                    assert!(
                        frame[frame.len() - behind..at]
                            .iter()
                            .all(|byte| *byte == 0)
                    );
                }
                false => {
                    let payload = headers.payload.slice().len();
                    assert_eq!(payload, stamp.filler_bytes + STAMP_BYTES);
                }
            }
        }
    }
}

/// Holds addresses, ports and direction against what the generator says of the packet.
fn is_from(profile: &Profile, identity: &Identity, headers: &PacketHeaders<'_>) {
    let Ends {
        client,
        server,
        port,
    } = identity.ends;
    let (mut addresses, v6);
    match headers.net.as_ref().expect("IP") {
        NetHeaders::Ipv4(ip, _) => {
            addresses =
                [ip.source, ip.destination].map(|address| u128::from(u32::from_be_bytes(address)));
            v6 = false;
        }
        NetHeaders::Ipv6(ip, _) => {
            addresses = [ip.source, ip.destination].map(u128::from_be_bytes);
            v6 = true;
        }
        NetHeaders::Arp(_) => panic!("not IP"),
    }
    let mut ports = match headers.transport.as_ref().expect("layer 4") {
        TransportHeader::Tcp(tcp) => {
            assert_eq!(identity.transport, Transport::Tcp);
            [tcp.source_port, tcp.destination_port]
        }
        TransportHeader::Udp(udp) => {
            assert_eq!(identity.transport, Transport::Udp);
            [udp.source_port, udp.destination_port]
        }
        other => panic!("{other:?}"),
    };
    if !identity.is_from_client {
        addresses.reverse();
        ports.reverse();
    }
    assert_eq!(v6, identity.family == Family::V6);
    let right = match identity.family {
        Family::V4 => [
            u128::from(profile.addresses.clients_v4 + client),
            u128::from(profile.addresses.servers_v4 + server),
        ],
        Family::V6 => [
            profile.addresses.clients_v6 + u128::from(client),
            profile.addresses.servers_v6 + u128::from(server),
        ],
    };
    assert_eq!(addresses, right);
    assert_eq!(ports, [port, identity.server_port]);
    let vlans: Vec<u16> = (headers.link_exts.iter())
        .filter_map(|ext| match ext {
            etherparse::LinkExtHeader::Vlan(vlan) => Some(vlan.vlan_id.value()),
            _ => None,
        })
        .collect();
    assert_eq!(vlans, profile.link.vlan.into_iter().collect::<Vec<_>>());
}

/// What TCP packets say beside their addresses.
fn tcp_of(frame: &[u8]) -> TcpHeader {
    match received(frame, false).0.transport {
        Some(TransportHeader::Tcp(tcp)) => tcp,
        other => panic!("not TCP: {other:?}"),
    }
}

/// Flows of TCP open and close, and their sequence numbers leave no gap where frames have one length.
#[test]
fn connections_open_and_close() {
    let profile = Profile {
        sizes: Sizes::Fixed(100),
        tcp_share: 1.0,
        flows: Flows {
            lengths: Lengths::Fixed(6),
            start: Start::Cold,
            ..Flows::endless(10)
        },
        ..Profile::new(5)
    };
    let generator = Generator::new(&profile).expect("a profile");
    let key = StampKey::new(1, 1);
    let mut next = std::collections::HashMap::new();
    for i in 0..60 {
        let tcp = tcp_of(&frame_of(&generator, i, &key));
        let member = generator.population().expect("flows").of(i);
        assert_eq!(tcp.syn, member.sequence == 0);
        assert_eq!(tcp.fin, member.sequence == 5);
        assert_eq!(tcp.ack, member.sequence > 0);
        // SYN counts one.
        let advance = 100 - 54 + u32::from(tcp.syn);
        let expected = next.insert(member.flow, tcp.sequence_number.wrapping_add(advance));
        assert_eq!(expected.is_some(), member.sequence > 0);
        assert!(expected.is_none_or(|expected| expected == tcp.sequence_number));
    }
    // With replies the second packet grants what the first asks for.
    let both = Generator::new(&Profile {
        reply_share: 0.5,
        ..profile
    });
    let both = both.expect("a profile");
    for i in 0..60 {
        let tcp = tcp_of(&frame_of(&both, i, &key));
        let Identity {
            member,
            is_from_client,
            ..
        } = both.identity(i);
        let right = match member.sequence {
            0 => (true, false, true),
            1 => (true, true, false),
            2 => (false, true, true),
            _ => (false, true, is_from_client),
        };
        assert_eq!((tcp.syn, tcp.ack, is_from_client), right);
    }
}

/// A stream of a conversation is what was said, put together by sequence numbers, whatever the delivery.
#[test]
fn conversations_make_the_same_stream_however_they_travel() {
    let deliveries = [
        Delivery::Whole,
        Delivery::Segments(1),
        Delivery::Backwards(100),
        Delivery::Swapped(7),
        Delivery::Overlapping(50),
        Delivery::Retransmitted(300),
    ];
    let mut streams = Vec::new();
    for delivery in deliveries {
        let profile = Profile {
            flows: Flows {
                lengths: Lengths::Fixed(4000),
                start: Start::Cold,
                ..Flows::endless(1)
            },
            sizes: Sizes::Fixed(1514),
            applications: Some(Applications {
                conversations: 1,
                delivery,
                ..Applications::only(Application::Tls13PostQuantum)
            }),
            ..Profile::new(8)
        };
        let generator = Generator::new(&profile).expect("a profile");
        let key = StampKey::new(0, 0);
        let mut stream = Vec::new();
        let mut initial = 0u32;
        let segments = generator.catalogue().expect("conversations").all()[0]
            .segments()
            .len();
        for i in 0..segments as u64 {
            let frame = frame_of(&generator, i, &key);
            let (headers, _) = received(&frame, false);
            if !generator.identity(i).is_from_client {
                continue;
            }
            let Some(TransportHeader::Tcp(tcp)) = &headers.transport else {
                panic!("not TCP")
            };
            if tcp.syn {
                initial = tcp.sequence_number;
                continue;
            }
            let at = tcp.sequence_number.wrapping_sub(initial).wrapping_sub(1) as usize;
            let payload = headers.payload.slice();
            if stream.len() < at + payload.len() {
                stream.resize(at + payload.len(), None);
            }
            for (place, byte) in stream[at..].iter_mut().zip(payload) {
                assert!(place.is_none_or(|before| before == *byte), "overlaps agree");
                *place = Some(*byte);
            }
        }
        let whole: Option<Vec<u8>> = stream.into_iter().collect();
        streams.push(whole.expect("no gap"));
    }
    assert!(
        streams[0].len() > 1600,
        "a post-quantum hello of {} bytes",
        streams[0].len()
    );
    assert!(streams.iter().all(|stream| *stream == streams[0]));
}

/// Shares of protocols, and evenness of ports and clients (chi-square with 4 and 15 degrees of freedom; 18.5 and 37.7 are passed by one in a
/// thousand).
#[test]
fn shares_of_flows_are_kept() {
    let profile = Profile {
        sizes: Sizes::Fixed(100),
        flows: Flows::endless(100_000),
        tcp_share: 0.5385,
        ipv6_share: 0.25,
        ..Profile::new(9)
    };
    let generator = Generator::new(&profile).expect("a profile");
    let n = 100_000;
    let (mut tcp, mut v6, mut ports, mut clients) = (0, 0, [0u32; 5], [0u32; 16]);
    for i in 0..n {
        let identity = generator.identity(i);
        tcp += u64::from(identity.transport == Transport::Tcp);
        v6 += u64::from(identity.family == Family::V6);
        let port = profile
            .ports
            .iter()
            .position(|port| *port == identity.server_port);
        ports[port.expect("one of them")] += 1;
        clients[identity.ends.client as usize >> 12] += 1;
    }
    let share = |count: u64| count as f64 / n as f64;
    assert!((share(tcp) - 0.5385).abs() < 0.006 && (share(v6) - 0.25).abs() < 0.006);
    let chi = |counts: &[u32]| -> f64 {
        let expected = n as f64 / counts.len() as f64;
        counts
            .iter()
            .map(|count| (f64::from(*count) - expected).powi(2) / expected)
            .sum()
    };
    assert!(
        chi(&ports) < 18.5 && chi(&clients) < 37.7,
        "{ports:?} {clients:?}"
    );
}

/// Shares of applications among flows, by weight.
#[test]
fn applications_have_their_shares() {
    let mix = Applications {
        conversations: 2,
        ..Applications::today()
    };
    let catalogue = application::Catalogue::new(&mix, 1400, 3).expect("a mix");
    let n = 20_000;
    let mut counts = std::collections::HashMap::new();
    (0..n).for_each(|flow| {
        *counts
            .entry(catalogue.of(flow).application())
            .or_insert(0u32) += 1
    });
    let chi: f64 = (mix.shares.iter())
        .map(|(application, weight)| {
            let expected = n as f64 * weight / 100.0;
            (f64::from(counts[application]) - expected).powi(2) / expected
        })
        .sum();
    // Nine degrees of freedom.
    assert!(chi < 27.9, "{chi}: {counts:?}");
}

#[test]
fn profiles_that_are_none_are_refused() {
    let base = Profile::new(1);
    let wrong = [
        Profile {
            tcp_share: 1.5,
            ..base.clone()
        },
        Profile {
            ipv6_share: -0.1,
            ..base.clone()
        },
        Profile {
            ports: Vec::new(),
            ..base.clone()
        },
        Profile {
            sizes: Sizes::Fixed(20),
            ..base.clone()
        },
        Profile {
            flows: Flows::endless(0),
            ..base.clone()
        },
        Profile {
            flows: Flows::endless(1 << 32),
            addresses: Addresses {
                client_bits: 1,
                server_bits: 0,
                ..Addresses::default()
            },
            ..base.clone()
        },
        Profile {
            link: Link {
                vlan: Some(4096),
                ..Link::default()
            },
            ..base.clone()
        },
        Profile {
            applications: Some(Applications {
                shares: Vec::new(),
                ..Applications::today()
            }),
            ..base.clone()
        },
    ];
    for profile in wrong {
        assert!(Generator::new(&profile).is_err(), "{profile:?}");
    }
    // 14 + 20 + 20 bytes of headers leave no room for a stamp in 60.
    let tcp = Profile {
        tcp_share: 0.5,
        ..base
    };
    let error = Generator::new(&tcp).expect_err("too short");
    assert_eq!(
        error,
        TrafficError::TooShort {
            kind: "TCP over IPv4",
            bytes: 60,
            needed: 72
        }
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Packet i is the same whoever makes it, in whatever order, and whatever was made before.
    #[test]
    fn packets_are_functions_of_their_numbers(seed: u64, which in 0usize..10, mut at in prop::collection::vec(0u64..1 << 30, 1..12)) {
        let mut profiles = profiles();
        let which = which % profiles.len();
        let profile = Profile { seed, ..profiles.swap_remove(which) };
        let one = Generator::new(&profile).expect("a profile");
        let key = StampKey::new(seed, 1);
        let first: Vec<_> = at.iter().map(|i| frame_of(&one, *i, &key)).collect();
        at.reverse();
        let other = Generator::new(&profile).expect("a profile");
        let second: Vec<_> = at.iter().map(|i| frame_of(&other, *i, &key)).collect();
        prop_assert!(first.iter().eq(second.iter().rev()));
    }
}

/// Frames of a generator, as a capture.
fn capture() -> Vec<(u64, Vec<u8>)> {
    let profile = &profiles()[2];
    let generator = Generator::new(profile).expect("a profile");
    let key = StampKey::new(1, 1);
    (0..50)
        .map(|i| (1_000_000 + 300 * i, frame_of(&generator, i, &key)))
        .collect()
}

#[test]
fn captures_are_played_as_they_were() {
    let capture = capture();
    let replay = Replay::new(capture.clone(), Rewrite::Nothing).expect("a capture");
    let key = StampKey::new(3, 3);
    for i in [0, 1, 49, 50, 99, 12_345] {
        let (_, captured) = &capture[(i % 50) as usize];
        let frame = frame_of(&replay, i, &key);
        assert_eq!(frame[..captured.len()], captured[..]);
        assert!(matches!(key.read(&frame), Read::Stamp(stamp) if stamp.number == i));
    }
    assert_eq!(replay.departure_ns(0, 1.0), 0);
    assert_eq!(replay.departure_ns(49, 1.0), 49 * 300);
    // The mean gap between two loops; twice as fast.
    assert_eq!(replay.departure_ns(50, 1.0), 50 * 300);
    assert_eq!(replay.departure_ns(101, 2.0), 101 * 150);
    assert!((replay.packets_per_s().expect("not all at once") - 1e9 / 300.0).abs() < 1e-3);
    assert!(Replay::new(Vec::<(u64, Vec<u8>)>::new(), Rewrite::Nothing).is_err());
    assert!(Replay::new([(0, [])], Rewrite::Nothing).is_err());
}

/// Rewritten packets have right checksums, their flows are whole, and each loop has other ones.
#[test]
fn rewritten_captures_have_right_checksums_and_new_flows() {
    let rewrite = Rewrite::Addresses {
        seed: 4,
        v4_bits: 24,
        v6_bits: 62,
    };
    let replay = Replay::new(capture(), rewrite).expect("a capture");
    let key = StampKey::new(3, 3);
    let addresses = |i: u64| {
        let frame = frame_of(&replay, i, &key);
        let captured = replay.captured(i).len();
        let (headers, _) = received(&frame[..captured], false);
        match headers.net.expect("IP") {
            NetHeaders::Ipv4(ip, _) => {
                // The first eight bits stay.
                assert!([10, 198].contains(&ip.source[0]));
                [ip.source, ip.destination].map(|address| u128::from(u32::from_be_bytes(address)))
            }
            NetHeaders::Ipv6(ip, _) => {
                assert_eq!(
                    ip.source[..8],
                    if ip.source[7] == 1 {
                        [0x20, 1, 0, 2, 0, 0, 0, 1]
                    } else {
                        [0x20, 1, 0, 2, 0, 0, 0, 2]
                    }
                );
                [ip.source, ip.destination].map(u128::from_be_bytes)
            }
            NetHeaders::Arp(_) => panic!("not IP"),
        }
    };
    let original = Replay::new(capture(), Rewrite::Nothing).expect("a capture");
    let original = |i: u64| -> [Vec<u8>; 2] {
        let (headers, _) = received(original.captured(i), false);
        match headers.net.expect("IP") {
            NetHeaders::Ipv4(ip, _) => [ip.source.to_vec(), ip.destination.to_vec()],
            NetHeaders::Ipv6(ip, _) => [ip.source.to_vec(), ip.destination.to_vec()],
            NetHeaders::Arp(_) => panic!("not IP"),
        }
    };
    let mut map = std::collections::HashMap::new();
    for i in 0..50 {
        let new = addresses(i);
        for (old, new) in original(i).into_iter().zip(new) {
            // Equal addresses stay equal, in both directions.
            assert_eq!(*map.entry(old).or_insert(new), new);
        }
        assert_ne!(addresses(i), addresses(i + 50));
    }
    let all: std::collections::HashSet<_> = map.values().collect();
    assert_eq!(all.len(), map.len());
    let few = Rewrite::Addresses {
        seed: 0,
        v4_bits: 1,
        v6_bits: 62,
    };
    assert!(Replay::new(capture(), few).is_err());
}

proptest! {
    /// Whatever a capture holds, it is played, and what is no IP stays as it is.
    #[test]
    fn any_bytes_can_be_rewritten(packet in prop::collection::vec(any::<u8>(), 1..120), kind in prop::sample::select(vec![0x0800u16, 0x86dd, 0x8100, 0x0806])) {
        let mut packet = packet;
        if packet.len() > 14 {
            packet[12..14].copy_from_slice(&kind.to_be_bytes());
        }
        let rewrite = Rewrite::Addresses { seed: 4, v4_bits: 32, v6_bits: 63 };
        let replay = Replay::new([(0, packet.clone())], rewrite).expect("a packet");
        let frame = frame_of(&replay, 3, &StampKey::new(0, 0));
        prop_assert_eq!(frame.len(), (packet.len() + STAMP_BYTES).max(60));
        if kind == 0x0806 || packet.len() < 14 + 20 {
            prop_assert_eq!(&frame[..packet.len()], &packet[..]);
        }
    }
}
