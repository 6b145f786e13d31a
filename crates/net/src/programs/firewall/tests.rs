//! Rules against rules that are tried one after the other, and texts with faults.

use std::net::IpAddr;

use proptest::prelude::*;

use super::*;
use crate::flow::Tuple;

/// Rule after rule, each part compared: what the sets must say.
fn by_trying<A: Copy>(
    rules: &Rules,
    tuple: &Tuple<A>,
    address: fn(A) -> IpAddr,
) -> (Action, Option<usize>) {
    let within = |prefix: Option<Prefix>, of: A| {
        let Some(prefix) = prefix else { return true };
        let bits = |address: IpAddr| match address {
            IpAddr::V4(address) => (4, u128::from(address.to_bits()) << 96),
            IpAddr::V6(address) => (6, address.to_bits()),
        };
        let ((family, mine), (other, theirs)) = (bits(prefix.address), bits(address(of)));
        let differ = (mine ^ theirs).leading_zeros();
        family == other && differ >= u32::from(prefix.bits)
    };
    let fits = |rule: &Rule| {
        within(rule.source, tuple.addresses[0])
            && within(rule.destination, tuple.addresses[1])
            && rule.source_ports.contains(&tuple.ports[0])
            && rule.destination_ports.contains(&tuple.ports[1])
            && rule.protocol.is_none_or(|of| of == tuple.protocol)
    };
    match rules.list().iter().position(fits) {
        Some(i) => (rules.list()[i].action, Some(i)),
        None => (rules.default_action(), None),
    }
}

fn prefix(is_v6: bool) -> impl Strategy<Value = Option<Prefix>> {
    // Few different bits, so that prefixes lie in each other and tuples in them.
    let bits = prop_oneof![Just(0_u32), 1_u32..6, 7_u32..33];
    prop::option::of((any::<u128>(), bits)).prop_map(move |prefix| {
        let (address, bits) = prefix?;
        let address = few(address);
        let kept = address & u128::MAX.checked_shl(128 - bits).unwrap_or(0);
        Some(Prefix {
            address: match is_v6 {
                true => IpAddr::V6(kept.into()),
                false => IpAddr::V4(((kept >> 96) as u32).into()),
            },
            bits: bits as u8,
        })
    })
}

/// The first 32 bits, two of each byte.
fn few(address: u128) -> u128 {
    address & 0x8180_8181 << 96
}

fn ports() -> impl Strategy<Value = std::ops::RangeInclusive<u16>> {
    let port = || prop_oneof![0_u16..6, 65530_u16..=65535, any::<u16>()];
    prop_oneof![
        Just(0..=u16::MAX),
        (port(), port()).prop_map(|(a, b)| a.min(b)..=a.max(b)),
    ]
}

fn rule() -> impl Strategy<Value = Rule> {
    let action = prop_oneof![Just(Action::Allow), Just(Action::Deny)];
    let protocol = prop::option::of(prop_oneof![Just(6_u8), Just(17_u8), any::<u8>()]);
    let addresses = any::<bool>().prop_flat_map(|is_v6| (prefix(is_v6), prefix(is_v6)));
    (action, protocol, addresses, ports(), ports()).prop_map(
        |(action, protocol, (source, destination), source_ports, destination_ports)| Rule {
            action,
            protocol,
            source,
            source_ports,
            destination,
            destination_ports,
            line: 1,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn the_first_rule_that_fits_decides(
        rules in prop::collection::vec(rule(), 0..150),
        tuples in prop::collection::vec((any::<[u128; 2]>(), prop_oneof![0_u16..6, any::<u16>()], any::<u16>(), prop_oneof![Just(6_u8), any::<u8>()]), 1..50),
    ) {
        let rules = Rules::new(rules, Action::Allow);
        for (addresses, from, to, protocol) in tuples {
            let addresses = addresses.map(few);
            let v6 = Tuple { addresses, ports: [from, to], protocol };
            prop_assert_eq!(rules.v6(&v6), by_trying(&rules, &v6, |address| IpAddr::V6(address.into())));
            let v4 = Tuple { addresses: addresses.map(|address| (address >> 96) as u32), ports: [from, to], protocol };
            prop_assert_eq!(rules.v4(&v4), by_trying(&rules, &v4, |address| IpAddr::V4(address.into())));
        }
    }

    /// A rule's text is the rule.
    #[test]
    fn rules_are_read_as_they_are_written(rule in rule()) {
        let has_ports = rule.protocol.is_some_and(|of| [6, 17, 33, 132].contains(&of));
        let mut rule = rule;
        if !has_ports {
            rule.source_ports = 0..=u16::MAX;
            rule.destination_ports = 0..=u16::MAX;
        }
        let read = Rules::read(&rule.to_string()).expect("sound");
        prop_assert_eq!(read.list(), &[rule]);
    }

    /// Of any text: rules or an error with a line, and no panic.
    #[test]
    fn any_text_is_read_or_refused(words in prop::collection::vec("allow|deny|default|from|to|port|any|tcp|[0-9./:-]{1,9}|\n|#|\\PC{1,3}", 0..30)) {
        let text = words.join(" ");
        if let Err(error) = Rules::read(&text) {
            prop_assert!((1..=text.lines().count()).contains(&error.line));
        }
    }
}

/// Thousands of rules, over several words of a summary.
#[test]
fn many_rules_are_one_look() {
    let mut text = String::new();
    for i in 0..5000_u32 {
        let action = if i % 2 == 0 { "allow" } else { "deny" };
        text += &format!(
            "{action} tcp from 10.{}.{}.0/24 to any port {}\n",
            i / 256,
            i % 256,
            i + 1
        );
    }
    let rules = Rules::read(&text).expect("rules");
    for i in 0..5000_u32 {
        let tuple = |port: u16| Tuple {
            addresses: [10 << 24 | i << 8 | 7, 5],
            ports: [1, port],
            protocol: 6,
        };
        let right = if i % 2 == 0 {
            Action::Allow
        } else {
            Action::Deny
        };
        assert_eq!(rules.v4(&tuple(i as u16 + 1)), (right, Some(i as usize)));
        assert_eq!(rules.v4(&tuple(i as u16 + 2)), (Action::Deny, None));
    }
}

#[test]
fn faults_of_a_text_name_their_line() {
    for (text, line, what) in [
        (
            "allow any\n\npermit tcp",
            3,
            "`permit`; a line begins with allow, deny or default",
        ),
        (
            "allow quic",
            1,
            "`quic` is no protocol: a name, or a number below 256",
        ),
        (
            "allow 256",
            1,
            "`256` is no protocol: a name, or a number below 256",
        ),
        ("allow tcp from", 1, "an address is missing behind `from`"),
        (
            "# one\nallow tcp from 10.0.0.1/8",
            2,
            "10.0.0.1/8 has bits behind its length",
        ),
        (
            "allow tcp from 10.0.0.0/33",
            1,
            "`/33`: a prefix here has 0 to 32 bits",
        ),
        (
            "allow tcp from 2001:db8::1/64",
            1,
            "2001:db8::1/64 has bits behind its length",
        ),
        (
            "allow tcp from ::/129",
            1,
            "`/129`: a prefix here has 0 to 128 bits",
        ),
        ("allow tcp from host", 1, "`host` is no address"),
        (
            "allow tcp to any port",
            1,
            "a port is missing behind `port`",
        ),
        (
            "allow tcp to any port 70000",
            1,
            "`70000` is no port: a number below 65536",
        ),
        (
            "allow tcp to any port 9-1",
            1,
            "`9-1` ends before it begins",
        ),
        (
            "allow icmp to any port 9",
            1,
            "a port needs a protocol that has ports: tcp, udp, sctp, dccp",
        ),
        (
            "allow to any port 9",
            1,
            "a port needs a protocol that has ports: tcp, udp, sctp, dccp",
        ),
        (
            "allow tcp from 10.0.0.0/8 to ::1",
            1,
            "10.0.0.0/8 and ::1/128 are of two families",
        ),
        ("default", 1, "`allow` or `deny` is missing"),
        ("default allow now", 1, "`now` behind the default"),
        ("default allow\ndefault deny", 2, "a second default"),
        (
            "allow tcp to any from any",
            1,
            "`from` is not expected here; a rule is: allow|deny PROTOCOL from ADDRESS port RANGE to ADDRESS port RANGE",
        ),
    ] {
        let what = what.to_owned();
        assert_eq!(
            Rules::read(text).map(|_| ()),
            Err(RuleError { line, what }),
            "{text}"
        );
    }
}

/// A range that ends before it begins has no port, however the rule was made.
#[test]
fn a_rule_without_a_port_matches_nothing() {
    let mut rule = Rules::read("allow tcp").expect("a rule").list()[0].clone();
    rule.destination_ports = std::ops::RangeInclusive::new(10, 5);
    let rules = Rules::new(vec![rule], Action::Deny);
    for port in [0, 5, 7, 10, u16::MAX] {
        let tuple = Tuple {
            addresses: [1, 2],
            ports: [port, port],
            protocol: 6,
        };
        assert_eq!(rules.v4(&tuple), (Action::Deny, None));
    }
}
