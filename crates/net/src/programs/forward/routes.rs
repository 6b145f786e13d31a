//! Routes, and the text that they are written in: [`Routes`].

use std::collections::HashMap;
use std::fmt::Write;

use super::NextHop;
use crate::programs::firewall::Prefix;

/// Routes of both families, as a router's operators and hops take them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Routes {
    /// The next hops, by number.
    pub hops: Vec<NextHop>,
    /// The list of `lpm4`: a prefix and the number of a hop on each line.
    pub v4: String,
    /// The list of `lpm6`.
    pub v6: String,
}

/// A fault of a text of routes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct RouteError {
    /// The line, from 1.
    pub line: usize,
    /// A description of the fault.
    pub what: String,
}

impl Routes {
    /// Reads routes, one a line:
    ///
    /// ```text
    /// # What follows is a comment.
    /// 10.0.1.0/24      port 1 via 02:00:00:00:01:01
    /// 2001:db8:1::/48  port 1 via 02:00:00:00:01:01 mtu 1400
    /// 10.0.0.7         port 0 via 02:00:00:00:00:07 from 02:00:00:00:00:01
    /// default          port 0 via 02:00:00:00:00:02
    /// ```
    ///
    /// A route is a prefix, or `default` for all addresses of both families; behind it, in any order, the number of the port that packets leave by, the Ethernet
    /// address of the next router or host (`via`), and perhaps the address that frames come from (`from`; without it that of the port, `sources[port]`) and the longest IP
    /// packet of the link (`mtu`; without it the argument). `sources` has as many addresses as there are ports.
    ///
    /// # Errors
    /// The first line that is no route, has a prefix with bits behind its length, names a port that there is not, or has the prefix of an earlier line.
    pub fn read(text: &str, sources: &[[u8; 6]], mtu: u16) -> Result<Self, RouteError> {
        let mut routes = Self::default();
        let (mut lines, mut numbers) = (HashMap::new(), HashMap::new());
        for (line, text) in (1..).zip(text.lines()) {
            let wrong = |what: String| RouteError { line, what };
            let text = text.split_once('#').map_or(text, |(text, _)| text);
            let mut words = text.split_ascii_whitespace();
            let Some(first) = words.next() else { continue };
            let prefixes: Result<Vec<Prefix>, String> = match first {
                "default" => ["0.0.0.0/0", "::/0"]
                    .map(|all| all.parse::<Prefix>())
                    .into_iter()
                    .collect(),
                word => word.parse::<Prefix>().map(|prefix| vec![prefix]),
            };
            let prefixes = prefixes.map_err(wrong)?;
            let hop = hop(&mut words, sources, mtu).map_err(wrong)?;
            let hops = &mut routes.hops;
            let number = *numbers.entry(key(&hop)).or_insert_with(|| {
                hops.push(hop);
                hops.len() - 1
            });
            for prefix in prefixes {
                if let Some(before) = lines.insert(prefix, line) {
                    return Err(wrong(format!("{prefix} is on line {before} already")));
                }
                let list = match prefix.address.is_ipv4() {
                    true => &mut routes.v4,
                    false => &mut routes.v6,
                };
                writeln!(list, "{prefix} {number}").expect("strings take everything");
            }
        }
        Ok(routes)
    }
}

type HopKey = (u16, [u8; 6], [u8; 6], u16);

fn key(hop: &NextHop) -> HopKey {
    (hop.egress, hop.destination, hop.source, hop.mtu)
}

/// The hop that the words behind a prefix say.
fn hop<'a>(
    words: &mut impl Iterator<Item = &'a str>,
    sources: &[[u8; 6]],
    mtu: u16,
) -> Result<NextHop, String> {
    let (mut port, mut via, mut from, mut own_mtu) = (None, None, None, None);
    while let Some(word) = words.next() {
        let value = words
            .next()
            .ok_or_else(|| format!("nothing stands behind `{word}`"))?;
        let is_second = match word {
            "port" => port.replace(port_number(value, sources.len())?).is_some(),
            "via" => via.replace(ethernet(value)?).is_some(),
            "from" => from.replace(ethernet(value)?).is_some(),
            "mtu" => own_mtu.replace(bytes(value)?).is_some(),
            _ => return Err(format!("`{word}`: port, via, from and mtu are known here")),
        };
        if is_second {
            return Err(format!("a second `{word}`"));
        }
    }
    let port = port.ok_or("no `port` behind the prefix")?;
    Ok(NextHop {
        egress: port as u16,
        destination: via.ok_or(
            "no `via` behind the prefix: the next router's or the host's Ethernet address",
        )?,
        source: from.unwrap_or(sources[port]),
        mtu: own_mtu.unwrap_or(mtu),
    })
}

fn port_number(word: &str, ports: usize) -> Result<usize, String> {
    let number = word.parse::<usize>().ok().filter(|port| *port < ports);
    number.ok_or_else(|| format!("`port {word}`: there are {ports} ports, from 0 on"))
}

fn bytes(word: &str) -> Result<u16, String> {
    // RFC 791: what every link takes.
    let bytes = word.parse::<u16>().ok().filter(|bytes| *bytes >= 68);
    bytes.ok_or_else(|| format!("`mtu {word}`: a number of bytes from 68 to 65535"))
}

/// An Ethernet address, as six numbers of two hexadecimal digits with colons between them.
fn ethernet(word: &str) -> Result<[u8; 6], String> {
    let wrong = || format!("`{word}` is no Ethernet address, as 02:00:00:00:00:01");
    let mut address = [0; 6];
    let mut parts = word.split(':');
    for byte in &mut address {
        let part = parts
            .next()
            .filter(|part| part.len() == 2)
            .ok_or_else(wrong)?;
        let is_hex = part.bytes().all(|digit| digit.is_ascii_hexdigit());
        let value = u8::from_str_radix(part, 16).ok().filter(|_| is_hex);
        *byte = value.ok_or_else(wrong)?;
    }
    match parts.next() {
        None => Ok(address),
        Some(_) => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SOURCES: [[u8; 6]; 2] = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]];

    #[test]
    fn what_the_documentation_shows_is_read() {
        let text = "# What follows is a comment.\n\n\
                    10.0.1.0/24 port 1 via 02:00:00:00:01:01 # near\n\
                    2001:db8:1::/48 via 02:00:00:00:01:01 mtu 1400 port 1\n\
                    10.0.0.7 port 0 via 02:00:00:00:00:07 from 0a:00:00:00:00:FF\n\
                    10.0.2.0/24 port 1 via 02:00:00:00:01:01\n\
                    default port 0 via 02:00:00:00:00:02\n";
        let routes = Routes::read(text, &SOURCES, 1500).expect("routes");
        assert_eq!(
            routes.v4,
            "10.0.1.0/24 0\n10.0.0.7/32 2\n10.0.2.0/24 0\n0.0.0.0/0 3\n"
        );
        assert_eq!(routes.v6, "2001:db8:1::/48 1\n::/0 3\n");
        let hop = |egress, last, second_last, source, mtu| NextHop {
            egress,
            destination: [2, 0, 0, 0, second_last, last],
            source,
            mtu,
        };
        let right = [
            hop(1, 1, 1, SOURCES[1], 1500),
            hop(1, 1, 1, SOURCES[1], 1400),
            hop(0, 7, 0, [10, 0, 0, 0, 0, 255], 1500),
            hop(0, 2, 0, SOURCES[0], 1500),
        ];
        assert_eq!(routes.hops, right);
    }

    proptest! {
        /// Whatever the words, there are routes whose hops exist, or a line that is at fault.
        #[test]
        fn any_text_has_an_outcome(words in prop::collection::vec(prop_oneof![
            4 => "(10.0.0.0/8|2001:db8::/32|default|port [0-9]|via 0[0-9]:00:00:00:00:01|from 0[0-9]:00:00:00:00:01|mtu [0-9]{2,6}|#)",
            1 => "\\PC{0,9}",
            2 => Just("\n".to_owned()),
        ], 0..30)) {
            let text = words.join(" ");
            match Routes::read(&text, &SOURCES, 1500) {
                Ok(routes) => {
                    for line in routes.v4.lines().chain(routes.v6.lines()) {
                        let (prefix, hop) = line.split_once(' ').expect("two words");
                        prop_assert!(prefix.parse::<Prefix>().is_ok());
                        prop_assert!(hop.parse::<usize>().expect("a number") < routes.hops.len());
                    }
                }
                Err(error) => prop_assert!((1..=text.lines().count()).contains(&error.line)),
            }
        }
    }

    #[test]
    fn a_fault_names_its_line() {
        let via = "via 02:00:00:00:00:01";
        for (wrong, said) in [
            ("10.0.0.1/24 port 1 VIA", "bits behind its length"),
            ("10.0.0.0/33 port 1 VIA", "0 to 32 bits"),
            ("10.0.0.0/8 port 2 VIA", "there are 2 ports"),
            ("10.0.0.0/8 VIA", "no `port`"),
            ("10.0.0.0/8 port 1", "no `via`"),
            ("10.0.0.0/8 port 1 via", "nothing stands behind `via`"),
            ("10.0.0.0/8 port 1 via 2:0:0:0:0:1", "no Ethernet address"),
            (
                "10.0.0.0/8 port 1 via 02:00:00:00:00:01:02",
                "no Ethernet address",
            ),
            (
                "10.0.0.0/8 port 1 via +2:00:00:00:00:01",
                "no Ethernet address",
            ),
            ("10.0.0.0/8 port 1 port 0 VIA", "a second `port`"),
            ("10.0.0.0/8 port 1 VIA mtu 9", "from 68"),
            ("10.0.0.0/8 port 1 VIA metric 9", "`metric`"),
            ("everything port 1 VIA", "`everything` is no address"),
            (
                "default port 1 VIA\n0.0.0.0/0 port 0 VIA",
                "on line 2 already",
            ),
        ] {
            let text = format!("\n{}", wrong.replace("VIA", via));
            let error = Routes::read(&text, &SOURCES, 1500)
                .expect_err(wrong)
                .to_string();
            assert!(
                error.starts_with("line ") && error.contains(said),
                "{wrong}: {error}"
            );
        }
    }
}
