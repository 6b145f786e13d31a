//! Addresses, prefixes, routes, and route lists as text.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::hash::Hash;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use dpb_core::{IpFamily, printable};

use super::NO_ROUTE;

/// An IPv4 or IPv6 address.
pub trait Address:
    Copy + Ord + Hash + fmt::Debug + fmt::Display + FromStr + Send + Sync + 'static
{
    /// 32 or 128.
    const BITS: u8;
    /// 4 or 16.
    const BYTES: usize;
    /// The family of the addresses.
    const FAMILY: IpFamily;
    /// The name of the operator that looks them up.
    const OPERATOR: &'static str;

    /// The address in the high bits of `bits`; the others do not matter.
    fn from_high(bits: u128) -> Self;
    /// The address in the high bits, zeros below.
    fn high(self) -> u128;

    /// From [`Address::BYTES`] bytes in network order.
    ///
    /// # Panics
    /// If there are more or fewer.
    fn from_wire(bytes: &[u8]) -> Self {
        assert_eq!(bytes.len(), Self::BYTES, "bytes of an address");
        let mut high = [0; 16];
        high[..bytes.len()].copy_from_slice(bytes);
        Self::from_high(u128::from_be_bytes(high))
    }

    /// Appends it in network order.
    fn to_wire(self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.high().to_be_bytes()[..Self::BYTES]);
    }
}

/// The addresses whose first `len` bits are those of `address`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix<A> {
    address: A,
    len: u8,
}

/// The hop to which the addresses of a prefix go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Route<A> {
    /// The addresses that the route is for.
    pub prefix: Prefix<A>,
    /// The next hop: any number but [`NO_ROUTE`].
    pub hop: u32,
}

/// Why a text is no route list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteError {
    /// The line, from 1.
    pub line: usize,
    /// The fault of the line.
    pub what: String,
}

impl Address for Ipv4Addr {
    const BITS: u8 = 32;
    const BYTES: usize = 4;
    const FAMILY: IpFamily = IpFamily::V4;
    const OPERATOR: &'static str = "lpm4";

    fn from_high(bits: u128) -> Self {
        Self::from_bits((bits >> 96) as u32)
    }

    fn high(self) -> u128 {
        u128::from(self.to_bits()) << 96
    }
}

impl Address for Ipv6Addr {
    const BITS: u8 = 128;
    const BYTES: usize = 16;
    const FAMILY: IpFamily = IpFamily::V6;
    const OPERATOR: &'static str = "lpm6";

    fn from_high(bits: u128) -> Self {
        Self::from_bits(bits)
    }

    fn high(self) -> u128 {
        self.to_bits()
    }
}

impl<A: Address> Prefix<A> {
    /// The prefix of `len` bits that starts at `address`. `None` if that is too many bits or `address` has bits set behind
    /// them.
    pub fn new(address: A, len: u8) -> Option<Self> {
        let prefix = (len <= A::BITS).then(|| Self::of(address, len))?;
        (prefix.address == address).then_some(prefix)
    }

    /// The prefix of `len` bits that `address` lies in.
    ///
    /// # Panics
    /// If that is more bits than an address has.
    pub fn of(address: A, len: u8) -> Self {
        assert!(len <= A::BITS, "{len} bits of {}", A::BITS);
        Self {
            address: A::from_high(address.high() & mask(len)),
            len,
        }
    }

    /// The first address of the prefix.
    pub fn address(&self) -> A {
        self.address
    }

    /// The length of the prefix in bits.
    pub fn bits(&self) -> u8 {
        self.len
    }

    /// Says whether `address` lies in the prefix.
    pub fn contains(&self, address: A) -> bool {
        (address.high() ^ self.address.high()) & mask(self.len) == 0
    }

    /// The address in it whose other bits are those of `filling`.
    pub fn fill(&self, filling: u128) -> A {
        A::from_high(self.address.high() | filling & !mask(self.len))
    }
}

/// The high `len` bits set.
fn mask(len: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0)
}

/// Reads a route list: on each line a prefix and a hop, `192.0.2.0/24 17`. What follows `#` is a comment; empty lines are
/// fine.
///
/// # Errors
/// The first line that is none of these, whose address has bits set behind the prefix, or whose prefix an earlier line
/// has.
pub fn parse<A: Address>(text: &str) -> Result<Vec<Route<A>>, RouteError> {
    let mut routes = Vec::new();
    let mut lines = HashMap::new();
    for (line, text) in (1..).zip(text.lines()) {
        let wrong = |what: String| RouteError { line, what };
        let Some(route) = parse_line(text).map_err(wrong)? else {
            continue;
        };
        match lines.entry(route.prefix) {
            Entry::Vacant(entry) => entry.insert(line),
            Entry::Occupied(entry) => {
                let what = format!("{} is on line {} already", route.prefix, entry.get());
                return Err(wrong(what));
            }
        };
        routes.push(route);
    }
    Ok(routes)
}

/// A word of the list, as a message may show it.
fn quoted(word: &str) -> String {
    printable(word, 60)
}

/// The route of one line; `None` if there is none on it.
fn parse_line<A: Address>(line: &str) -> Result<Option<Route<A>>, String> {
    let (line, _comment) = line.split_once('#').unwrap_or((line, ""));
    let mut words = line.split_ascii_whitespace();
    let Some(prefix) = words.next() else {
        return Ok(None);
    };
    let prefix = prefix.parse()?;
    let word = words.next().ok_or("no hop behind the prefix")?;
    let hop = word
        .parse()
        .ok()
        .filter(|hop| *hop != NO_ROUTE)
        .ok_or_else(|| {
            format!(
                "`{}` is no hop: a number from 0 to {}",
                quoted(word),
                NO_ROUTE - 1
            )
        })?;
    match words.next() {
        None => Ok(Some(Route { prefix, hop })),
        Some(word) => Err(format!("`{}` behind the hop", quoted(word))),
    }
}

/// Writes a route list as [`parse`] reads it.
pub fn write<A: Address>(routes: &[Route<A>]) -> String {
    use fmt::Write;

    let mut text = String::with_capacity(routes.len() * 20);
    for route in routes {
        writeln!(text, "{route}").expect("strings take everything");
    }
    text
}

impl<A: Address> FromStr for Prefix<A> {
    type Err = String;

    /// `192.0.2.0/24`, `2001:db8::/32`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (address, word) = text
            .split_once('/')
            .ok_or_else(|| format!("`{}` is no prefix: address/length", quoted(text)))?;
        let address = address
            .parse()
            .map_err(|_| format!("`{}` is no address of {} bits", quoted(address), A::BITS))?;
        // A sign would be read as well.
        let is_number = word.bytes().all(|byte| byte.is_ascii_digit());
        let len = word
            .parse()
            .ok()
            .filter(|len| is_number && *len <= A::BITS)
            .ok_or_else(|| format!("`{}` is no length: 0 to {}", quoted(word), A::BITS))?;
        Self::new(address, len)
            .ok_or_else(|| format!("{} has bits set behind the prefix", quoted(text)))
    }
}

impl<A: Address> fmt::Display for Prefix<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.len)
    }
}

impl<A: Address> fmt::Display for Route<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.prefix, self.hop)
    }
}

impl fmt::Display for RouteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

impl std::error::Error for RouteError {}
