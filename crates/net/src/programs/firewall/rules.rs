//! Rules, and the text that they are written in: [`Rules`].

use std::fmt;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::str::FromStr;

use super::classifier::{Classifier, Fit};
use crate::flow::Tuple;
use crate::packet::protocol::{ICMP, ICMPV6, SCTP, TCP, UDP};

/// The fate of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// It passes.
    Allow,
    /// It is dropped.
    Deny,
}

/// Addresses that begin alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Prefix {
    /// The first one.
    pub address: IpAddr,
    /// Bits that all have.
    pub bits: u8,
}

/// One rule. A packet matches it if it matches each part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The fate of a packet that matches this rule and none before it.
    pub action: Action,
    /// The protocol's number; `None` is any.
    pub protocol: Option<u8>,
    /// Addresses that the packet comes from; `None` is any.
    pub source: Option<Prefix>,
    /// Source ports.
    pub source_ports: RangeInclusive<u16>,
    /// Addresses that it goes to; `None` is any.
    pub destination: Option<Prefix>,
    /// Destination ports.
    pub destination_ports: RangeInclusive<u16>,
    /// The line that it stands on, from 1.
    pub line: usize,
}

/// A fault of a text of rules.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct RuleError {
    /// The line, from 1.
    pub line: usize,
    /// A description of the fault.
    pub what: String,
}

/// Rules in order, ready to be asked.
#[derive(Debug)]
pub struct Rules {
    rules: Vec<Rule>,
    default: Action,
    v4: Classifier<u32>,
    v6: Classifier<u128>,
}

/// Rules of one text, at most: their vectors take memory by the square of their number.
pub const RULES_MAX: usize = 8192;

const ALL_PORTS: RangeInclusive<u16> = 0..=u16::MAX;

impl Rules {
    /// Reads rules, one a line:
    ///
    /// ```text
    /// # What follows is a comment.
    /// allow tcp from 10.0.0.0/8 to 192.0.2.0/24 port 443
    /// allow udp from any port 1024-65535 to any port 53
    /// deny  any from 2001:db8::/32
    /// allow icmp
    /// default deny
    /// ```
    ///
    /// A rule is `allow` or `deny`, a protocol (`tcp`, `udp`, `sctp`, `dccp`, `icmp`, `icmp6`, a number, `any`), `from` and `to` with an address, a prefix or `any`, and behind them
    /// `port` with a number or a range, which the protocol must have. What is left out fits all. `default`, once and on any line, is for packets that
    /// match no rule; without it they are dropped.
    ///
    /// # Errors
    /// The first line that is no rule, has a prefix with bits behind its length, or addresses of both families; a second `default`; more than [`RULES_MAX`]
    /// rules.
    pub fn read(text: &str) -> Result<Self, RuleError> {
        let (mut rules, mut default) = (Vec::new(), None);
        for (line, text) in (1..).zip(text.lines()) {
            let text = text.split_once('#').map_or(text, |(text, _)| text);
            let wrong = |what: String| RuleError { line, what };
            let mut words = text.split_whitespace();
            let Some(first) = words.next() else { continue };
            if first == "default" {
                let action = action(words.next().unwrap_or("")).map_err(wrong)?;
                if let Some(word) = words.next() {
                    return Err(wrong(format!("`{word}` behind the default")));
                }
                if default.replace(action).is_some() {
                    return Err(wrong("a second default".to_owned()));
                }
                continue;
            }
            if rules.len() == RULES_MAX {
                return Err(wrong(format!("more than {RULES_MAX} rules")));
            }
            rules.push(rule(first, &mut words, line).map_err(wrong)?);
        }
        Ok(Self::new(rules, default.unwrap_or(Action::Deny)))
    }

    /// These rules, in order; `default` is for packets that match none.
    pub fn new(rules: Vec<Rule>, default: Action) -> Self {
        let v4 = rules.iter().map(|rule| rule.fit(v4_range)).collect();
        let v6 = rules.iter().map(|rule| rule.fit(v6_range)).collect();
        Self {
            v4: Classifier::new(v4),
            v6: Classifier::new(v6),
            rules,
            default,
        }
    }

    /// The rules.
    pub fn list(&self) -> &[Rule] {
        &self.rules
    }

    /// The fate of packets that match no rule.
    pub fn default_action(&self) -> Action {
        self.default
    }

    /// The fate of a packet of IPv4, and the index of the rule that says so.
    pub fn v4(&self, tuple: &Tuple<u32>) -> (Action, Option<usize>) {
        self.action(self.v4.first(tuple))
    }

    /// The fate of a packet of IPv6, and the index of the rule that says so.
    pub fn v6(&self, tuple: &Tuple<u128>) -> (Action, Option<usize>) {
        self.action(self.v6.first(tuple))
    }

    fn action(&self, rule: Option<usize>) -> (Action, Option<usize>) {
        let action = rule.map_or(self.default, |rule| self.rules[rule].action);
        (action, rule)
    }
}

impl Rule {
    /// Its ranges in one family; `None` if no packet of that family matches.
    fn fit<A>(&self, range: fn(Option<Prefix>) -> Option<RangeInclusive<A>>) -> Option<Fit<A>> {
        if self.source_ports.is_empty() || self.destination_ports.is_empty() {
            return None;
        }
        Some(Fit {
            addresses: [range(self.source)?, range(self.destination)?],
            ports: [self.source_ports.clone(), self.destination_ports.clone()],
            protocol: self.protocol,
        })
    }
}

fn v4_range(prefix: Option<Prefix>) -> Option<RangeInclusive<u32>> {
    match prefix {
        None => Some(0..=u32::MAX),
        Some(Prefix {
            address: IpAddr::V4(address),
            bits,
        }) => {
            let first = address.to_bits();
            Some(first..=first | u32::MAX.checked_shr(bits.into()).unwrap_or(0))
        }
        Some(_) => None,
    }
}

fn v6_range(prefix: Option<Prefix>) -> Option<RangeInclusive<u128>> {
    match prefix {
        None => Some(0..=u128::MAX),
        Some(Prefix {
            address: IpAddr::V6(address),
            bits,
        }) => {
            let first = address.to_bits();
            Some(first..=first | u128::MAX.checked_shr(bits.into()).unwrap_or(0))
        }
        Some(_) => None,
    }
}

fn action(word: &str) -> Result<Action, String> {
    match word {
        "allow" => Ok(Action::Allow),
        "deny" => Ok(Action::Deny),
        "" => Err("`allow` or `deny` is missing".to_owned()),
        _ => Err(format!(
            "`{word}`; a line begins with allow, deny or default"
        )),
    }
}

fn rule<'a>(
    first: &str,
    words: &mut impl Iterator<Item = &'a str>,
    line: usize,
) -> Result<Rule, String> {
    let mut rule = Rule {
        action: action(first)?,
        protocol: None,
        source: None,
        source_ports: ALL_PORTS,
        destination: None,
        destination_ports: ALL_PORTS,
        line,
    };
    let mut words = words.peekable();
    if let Some(word) = words.next_if(|word| !matches!(*word, "from" | "to" | "port")) {
        rule.protocol = protocol(word)?;
    }
    for (name, address, ports) in [
        ("from", &mut rule.source, &mut rule.source_ports),
        ("to", &mut rule.destination, &mut rule.destination_ports),
    ] {
        if words.next_if_eq(&name).is_none() {
            continue;
        }
        let word = words.next();
        *address = prefix(word.ok_or_else(|| format!("an address is missing behind `{name}`"))?)?;
        if words.next_if_eq(&"port").is_some() {
            *ports = range(words.next().ok_or("a port is missing behind `port`")?)?;
            if !rule.protocol.is_some_and(has_ports) {
                return Err("a port needs a protocol that has ports: tcp, udp, sctp, dccp".into());
            }
        }
    }
    if let Some(word) = words.next() {
        return Err(format!(
            "`{word}` is not expected here; a rule is: allow|deny PROTOCOL from ADDRESS port RANGE to ADDRESS port RANGE"
        ));
    }
    match (rule.source, rule.destination) {
        (Some(from), Some(to)) if from.address.is_ipv4() != to.address.is_ipv4() => {
            Err(format!("{from} and {to} are of two families"))
        }
        _ => Ok(rule),
    }
}

/// RFC 4340.
pub(super) const DCCP: u8 = 33;

fn has_ports(protocol: u8) -> bool {
    matches!(protocol, TCP | UDP | SCTP | DCCP)
}

fn protocol(word: &str) -> Result<Option<u8>, String> {
    Ok(Some(match word {
        "any" => return Ok(None),
        "tcp" => TCP,
        "udp" => UDP,
        "sctp" => SCTP,
        "dccp" => DCCP,
        "icmp" => ICMP,
        "icmp6" => ICMPV6,
        _ => word
            .parse()
            .map_err(|_| format!("`{word}` is no protocol: a name, or a number below 256"))?,
    }))
}

fn prefix(word: &str) -> Result<Option<Prefix>, String> {
    match word {
        "any" => Ok(None),
        _ => word.parse().map(Some),
    }
}

/// An address with a slash and its bits, or one without: all of them.
impl FromStr for Prefix {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let (address, bits) = match word.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (word, None),
        };
        let address: IpAddr = address
            .parse()
            .map_err(|_| format!("`{address}` is no address"))?;
        let longest = if address.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            None => longest,
            Some(bits) => bits
                .parse()
                .ok()
                .filter(|bits| *bits <= longest)
                .ok_or_else(|| format!("`/{bits}`: a prefix here has 0 to {longest} bits"))?,
        };
        let rest = match address {
            IpAddr::V4(address) => u128::from(address.to_bits()) << 96,
            IpAddr::V6(address) => address.to_bits(),
        };
        if rest.checked_shl(bits.into()).unwrap_or(0) != 0 {
            return Err(format!("{word} has bits behind its length"));
        }
        Ok(Self { address, bits })
    }
}

fn range(word: &str) -> Result<RangeInclusive<u16>, String> {
    let port = |text: &str| {
        let port = text.parse::<u16>();
        port.map_err(|_| format!("`{text}` is no port: a number below 65536"))
    };
    let (first, last) = match word.split_once('-') {
        Some((first, last)) => (port(first)?, port(last)?),
        None => (port(word)?, port(word)?),
    };
    match first <= last {
        true => Ok(first..=last),
        false => Err(format!("`{word}` ends before it begins")),
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
        })
    }
}

/// As [`Rules::read`] reads it.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.action)?;
        match self.protocol {
            Some(protocol) => write!(f, " {protocol}")?,
            None => f.write_str(" any")?,
        }
        for (name, address, ports) in [
            ("from", self.source, &self.source_ports),
            ("to", self.destination, &self.destination_ports),
        ] {
            match address {
                Some(prefix) => write!(f, " {name} {prefix}")?,
                None => write!(f, " {name} any")?,
            }
            if *ports != ALL_PORTS {
                write!(f, " port {}-{}", ports.start(), ports.end())?;
            }
        }
        Ok(())
    }
}
