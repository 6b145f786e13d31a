//! Flows through the firewall, packet by packet.

use std::sync::Arc;

use dpb_core::VirtualClock;
use dpb_net::flow::Timeouts;
use dpb_net::pipeline::{Line, Reason, Stage};
use dpb_net::programs::firewall::{Action, Firewall, Policy, Rules};
use etherparse::{Icmpv4Type, PacketBuilder, icmpv4};

use super::support::{HERE, THERE, buf, udp_v4, udp_v6};
use super::through;

const INSIDE: [u8; 4] = [10, 0, 0, 5];
const OUTSIDE: [u8; 4] = [192, 0, 2, 9];

struct Test {
    clock: Arc<VirtualClock>,
    line: Line,
    before: Vec<(Reason, u64)>,
}

impl Test {
    fn new(rules: &str, policy: Policy) -> Self {
        let clock = Arc::new(VirtualClock::new(false));
        let rules = Arc::new(Rules::read(rules).expect("rules"));
        let firewall = Firewall::new(rules, policy, clock.clone()).expect("memory");
        let stages: Vec<Box<dyn Stage>> = vec![Box::new(firewall)];
        Self {
            clock,
            line: Line::new("firewall", stages, 4),
            before: Vec::new(),
        }
    }

    /// The outcome of one frame.
    fn give(&mut self, frame: &[u8]) -> Result<(), Reason> {
        let outcomes = through(&mut self.line, vec![buf(frame)]);
        let passed = outcomes.iter().any(Result::is_ok);
        let now = self.dropped();
        let new = now.iter().find(|of| !self.before.contains(of)).copied();
        self.before = now;
        match new {
            None => {
                assert!(passed);
                Ok(())
            }
            Some((reason, _)) => Err(reason),
        }
    }

    /// Frames of one burst that pass.
    fn give_burst(&mut self, frames: &[Vec<u8>]) -> usize {
        let frames = frames.iter().map(|frame| buf(frame)).collect();
        let outcomes = through(&mut self.line, frames);
        self.before = self.dropped();
        outcomes.iter().filter(|outcome| outcome.is_ok()).count()
    }

    fn dropped(&self) -> Vec<(Reason, u64)> {
        let reports = self.line.reports();
        let dropped = reports[0].counters.dropped.iter();
        dropped
            .map(|(reason, tally)| (reason, tally.packets))
            .collect()
    }

    fn wait_ms(&self, ms: u64) {
        use dpb_core::Clock;
        self.clock.advance_to(self.clock.now_ns() + ms * 1_000_000);
    }
}

fn tcp(from: [u8; 4], to: [u8; 4], ports: [u16; 2], flags: &str) -> Vec<u8> {
    let mut builder = PacketBuilder::ethernet2(HERE, THERE)
        .ipv4(from, to, 64)
        .tcp(ports[0], ports[1], 1, 1000);
    for flag in flags.chars() {
        builder = match flag {
            'S' => builder.syn(),
            'A' => builder.ack(1),
            'F' => builder.fin(),
            'R' => builder.rst(),
            _ => panic!("{flag}"),
        };
    }
    let mut frame = Vec::new();
    builder
        .write(&mut frame, &[0; 10])
        .expect("a Vec takes all");
    frame
}

const RULES: &str = "
allow tcp from 10.0.0.0/8 to any port 443
allow udp from 10.0.0.0/8
allow icmp from 10.0.0.0/8
deny udp from any to any port 1-1023 # and a comment
allow udp from 2001:db8::/32
default deny
";

#[test]
fn replies_of_known_flows_pass_and_nothing_else() {
    let mut test = Test::new(RULES, Policy::default());
    let there = |flags: &str| tcp(INSIDE, OUTSIDE, [5000, 443], flags);
    let back = |flags: &str| tcp(OUTSIDE, INSIDE, [443, 5000], flags);
    assert_eq!(test.give(&back("SA")), Err(Firewall::DENIED));
    assert_eq!(test.give(&there("A")), Err(Firewall::NO_CONNECTION));
    assert_eq!(test.give(&there("S")), Ok(()));
    for frame in [
        back("SA"),
        there("A"),
        back("A"),
        there("FA"),
        back("FA"),
        there("A"),
    ] {
        assert_eq!(test.give(&frame), Ok(()));
    }
    assert_eq!(
        test.give(&tcp(OUTSIDE, INSIDE, [443, 5001], "S")),
        Err(Firewall::DENIED)
    );
    assert_eq!(
        test.give(&tcp(INSIDE, OUTSIDE, [5000, 80], "S")),
        Err(Firewall::DENIED)
    );
    // UDP: a reply within the timeout, and none behind it.
    let (asks, answers) = (
        udp_v4([INSIDE, OUTSIDE], [7000, 53], 9, b"?"),
        udp_v4([OUTSIDE, INSIDE], [53, 7000], 9, b"!"),
    );
    assert_eq!(test.give(&answers), Err(Firewall::DENIED));
    assert_eq!(test.give(&asks), Ok(()));
    test.wait_ms(200_000);
    assert_eq!(test.give(&answers), Ok(()));
    test.wait_ms(u64::from(Timeouts::default().datagrams_ms) + 1000);
    assert_eq!(test.give(&answers), Err(Firewall::DENIED));
    // IPv6.
    let inside = [0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    assert_eq!(
        test.give(&udp_v6([[0x20; 16], inside], [9000, 8000], 9, b"x")),
        Err(Firewall::DENIED)
    );
    assert_eq!(
        test.give(&udp_v6([inside, [0x20; 16]], [8000, 9000], 9, b"x")),
        Ok(())
    );
    assert_eq!(
        test.give(&udp_v6([[0x20; 16], inside], [9000, 8000], 9, b"x")),
        Ok(())
    );
}

#[test]
fn a_flow_that_a_burst_denies_is_not_known_to_its_later_packets() {
    let mut test = Test::new(RULES, Policy::default());
    let denied: Vec<_> = (0..40)
        .map(|_| buf(&udp_v4([OUTSIDE, INSIDE], [9, 7], 9, b"x")))
        .collect();
    let outcomes = through(&mut test.line, denied);
    assert_eq!(outcomes.len(), 40);
    assert!(
        outcomes
            .iter()
            .all(|outcome| outcome.as_ref().is_err_and(|r| *r == Firewall::DENIED))
    );
    // And allowed ones of one burst are one flow.
    let allowed: Vec<_> = (0..40)
        .map(|_| buf(&udp_v4([INSIDE, OUTSIDE], [7, 2000], 9, b"x")))
        .collect();
    let outcomes = through(&mut test.line, allowed);
    assert_eq!(
        outcomes.iter().filter(|outcome| outcome.is_ok()).count(),
        40
    );
}

/// A forged reset and a forged request, which no rule allows, do not end a connection; the hosts do.
#[test]
fn a_forged_request_opens_nothing_anew() {
    let mut test = Test::new(RULES, Policy::default());
    let there = |flags: &str| tcp(INSIDE, OUTSIDE, [5000, 443], flags);
    let back = |flags: &str| tcp(OUTSIDE, INSIDE, [443, 5000], flags);
    let forged = [back("R"), back("S")];
    for is_one_burst in [false, true] {
        for frame in [there("S"), back("SA"), there("A")] {
            assert_eq!(test.give(&frame), Ok(()));
        }
        if is_one_burst {
            assert_eq!(test.give_burst(&forged), 1);
        } else {
            assert_eq!(test.give(&forged[0]), Ok(()));
            assert_eq!(test.give(&forged[1]), Err(Firewall::DENIED));
        }
        for frame in [there("A"), back("A"), there("A")] {
            assert_eq!(test.give(&frame), Ok(()), "goes on");
        }
        // The side that may ask opens it anew.
        assert_eq!(test.give(&back("R")), Ok(()));
    }
    assert_eq!(test.dropped(), [(Firewall::DENIED, 2)]);
}

#[test]
fn errors_about_known_flows_pass() {
    let mut test = Test::new(RULES, Policy::default());
    let sent = udp_v4([INSIDE, OUTSIDE], [7000, 33434], 1, b"trace");
    let error = |about: &[u8]| {
        let mut frame = Vec::new();
        PacketBuilder::ethernet2(THERE, HERE)
            .ipv4([203, 0, 113, 1], INSIDE, 60)
            .icmpv4(Icmpv4Type::TimeExceeded(
                icmpv4::TimeExceededCode::TtlExceededInTransit,
            ))
            .write(&mut frame, &about[14..42])
            .expect("a Vec takes all");
        frame
    };
    assert_eq!(test.give(&error(&sent)), Err(Firewall::DENIED));
    assert_eq!(test.give(&sent), Ok(()));
    assert_eq!(test.give(&error(&sent)), Ok(()));
    let other = udp_v4([INSIDE, OUTSIDE], [7001, 33434], 1, b"trace");
    assert_eq!(test.give(&error(&other)), Err(Firewall::DENIED));
}

#[test]
fn a_full_table_and_odd_frames_are_outcomes() {
    let policy = Policy {
        flows: 8,
        ..Policy::default()
    };
    let mut test = Test::new(RULES, policy.clone());
    for i in 0..8 {
        assert_eq!(
            test.give(&udp_v4([INSIDE, OUTSIDE], [i, 53], 9, b"x")),
            Ok(())
        );
    }
    assert_eq!(
        test.give(&udp_v4([INSIDE, OUTSIDE], [8, 53], 9, b"x")),
        Err(Firewall::TABLE_FULL)
    );
    assert_eq!(
        test.give(&udp_v4([OUTSIDE, INSIDE], [8, 53], 9, b"x")),
        Err(Firewall::DENIED)
    );
    assert_eq!(
        test.give(&udp_v4([OUTSIDE, INSIDE], [53, 3], 9, b"x")),
        Ok(())
    );

    let mut arp = vec![0xff; 6];
    arp.extend([2, 0, 0, 0, 0, 1, 8, 6]);
    arp.resize(60, 0);
    assert_eq!(test.give(&arp), Err(Reason::NOT_IP));
    let mut later = udp_v4([INSIDE, OUTSIDE], [1, 53], 9, b"x");
    later[21] = 5;
    assert_eq!(test.give(&later), Err(Firewall::FRAGMENT));
    let open = Policy {
        others: Action::Allow,
        fragments: Action::Allow,
        takes_up_connections: true,
        ..policy
    };
    let mut test = Test::new(RULES, open);
    assert_eq!(test.give(&arp), Ok(()));
    assert_eq!(test.give(&later), Ok(()));
    assert_eq!(test.give(&tcp(INSIDE, OUTSIDE, [5000, 443], "A")), Ok(()));
    later[26..30].copy_from_slice(&OUTSIDE);
    assert_eq!(test.give(&later), Err(Firewall::DENIED));
}

/// An Ethernet frame of IPv6 whose payload stands behind a fragment header.
fn fragment_v6(next: u8, start: u16, more: bool, payload: &[u8]) -> Vec<u8> {
    let mut frame = [HERE, THERE].concat();
    frame.extend([0x86, 0xdd]);
    let header = etherparse::Ipv6Header {
        payload_length: 8 + payload.len() as u16,
        next_header: etherparse::IpNumber::IPV6_FRAGMENTATION_HEADER,
        hop_limit: 9,
        source: [0x20; 16],
        destination: [0x21; 16],
        ..Default::default()
    };
    header.write(&mut frame).expect("a Vec takes all");
    let start = etherparse::IpFragOffset::try_new(start).expect("small");
    etherparse::Ipv6FragmentHeader::new(next.into(), start, more, 7)
        .write(&mut frame)
        .expect("a Vec takes all");
    frame.extend(payload);
    frame
}

#[test]
fn first_fragments_are_asked_with_their_ports() {
    const RULES: &str =
        "allow tcp from any to any port 443\nallow dccp from any to any port 5001\ndefault deny\n";
    let mut test = Test::new(RULES, Policy::default());
    let first = |mut frame: Vec<u8>| {
        // More fragments follow.
        frame[20] = 0x20;
        frame
    };
    let allowed = first(tcp(INSIDE, OUTSIDE, [5000, 443], "S"));
    assert_eq!(test.give(&allowed), Ok(()));
    assert_eq!(
        test.give(&first(tcp(INSIDE, OUTSIDE, [5000, 22], "S"))),
        Err(Firewall::DENIED)
    );
    let middle = first(tcp(INSIDE, OUTSIDE, [5001, 443], "A"));
    assert_eq!(test.give(&middle), Err(Firewall::NO_CONNECTION));

    // DCCP (RFC 4340, 5.1) has its ports where TCP has.
    let dccp = |to: u16| {
        let mut frame = tcp(INSIDE, OUTSIDE, [5000, to], "S");
        frame[23] = 33;
        frame
    };
    assert_eq!(test.give(&dccp(5001)), Ok(()));
    assert_eq!(test.give(&dccp(5002)), Err(Firewall::DENIED));
    assert_eq!(test.give(&first(dccp(5001))), Ok(()));

    let segment = &allowed[34..];
    assert_eq!(test.give(&fragment_v6(6, 0, true, segment)), Ok(()));
    assert_eq!(
        test.give(&fragment_v6(6, 9, false, segment)),
        Err(Firewall::FRAGMENT)
    );
    // Destination options behind the fragment header: a rule that allows everything does not let them pass unseen.
    let open = Policy {
        fragments: Action::Allow,
        ..Policy::default()
    };
    let mut test = Test::new("deny tcp from any\ndefault allow\n", open);
    let hidden = [&[6, 0, 1, 4, 0, 0, 0, 0], segment].concat();
    for (start, more) in [(0, true), (9, false)] {
        assert_eq!(
            test.give(&fragment_v6(60, start, more, &hidden)),
            Err(Firewall::FRAGMENT)
        );
    }
    assert_eq!(
        test.give(&fragment_v6(6, 0, true, segment)),
        Err(Firewall::DENIED)
    );
}

#[test]
fn hits_say_which_rule_decided() {
    let clock = Arc::new(VirtualClock::new(false));
    let rules = Arc::new(Rules::read(RULES).expect("rules"));
    let firewall = Firewall::new(rules, Policy::default(), clock).expect("memory");
    let hits = firewall.hits();
    let mut line = Line::new("firewall", vec![Box::new(firewall)], 4);
    let frames = [
        udp_v4([INSIDE, OUTSIDE], [1, 2], 9, b"x"),
        udp_v4([INSIDE, OUTSIDE], [1, 2], 9, b"x"),
        udp_v4([OUTSIDE, INSIDE], [1, 1023], 9, b"x"),
        udp_v4([OUTSIDE, INSIDE], [1, 1024], 9, b"x"),
    ];
    through(&mut line, frames.iter().map(|frame| buf(frame)).collect());
    let counts: Vec<u64> = (0..5).map(|i| hits.of(i)).collect();
    assert_eq!(
        counts,
        [0, 1, 0, 1, 0],
        "the second packet's flow was known"
    );
    assert_eq!(hits.by_default(), 1);
}
