//! Longest prefix match by `rte_lpm` or `rte_fib`: a route list, how large a table it needs, and the table.

use std::collections::HashSet;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};

use dpb_core::{
    Batch, BatchOut, IpFamily, JobError, Kernel, Material, OpSpec, OutputShape, Unsupported, spec,
};

use super::{Libraries, because, none};
use crate::dpdk::raw::{self, Size};
use crate::dpdk::sys::libraries::{Route, TableKind};

/// Bits that the first table of each kind is indexed by; each table behind it is indexed by eight more.
const FIRST_BITS: u32 = 24;

/// One of DPDK's two ways to find the longest prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrefixMatch {
    /// `rte_lpm`, `rte_lpm6`. Filling `rte_lpm` takes time that grows with the square of the routes: minutes for a million.
    Lpm,
    /// `rte_fib`, `rte_fib6`.
    Fib,
}

impl PrefixMatch {
    /// Address `at`'s hop, of those that [`Routes::bursts_v4`] or [`Routes::bursts_v6`] wrote, where there is a route.
    pub fn hop(self, hops: &[u64], at: usize) -> u32 {
        match self {
            // Four bytes each, flags in the upper one.
            Self::Lpm => {
                let bytes = hops[at / 2].to_ne_bytes();
                let half = bytes.as_chunks().0[at % 2];
                u32::from_ne_bytes(half) & 0xff_ffff
            }
            Self::Fib => hops[at] as u32,
        }
    }
}

/// A table filled with routes: [`Kernel`] of variable outputs, four bytes an address, little endian, all ones where no route leads.
#[derive(Clone)]
pub struct Routes(Arc<raw::Routes>);

/// A table, and what it was made of.
struct Kept {
    kind: TableKind,
    /// The level of instruction sets of lookups.
    level: String,
    list: Material,
    table: Arc<raw::Routes>,
}

/// One table of each kind at most: a sweep asks for the same one again and again.
static KEPT: Mutex<Vec<Kept>> = Mutex::new(Vec::new());

impl Libraries {
    /// A table of the routes of `spec`; the same one as before, if the list is.
    ///
    /// # Errors
    /// `spec` is no longest prefix match, its list is none, or does not go into such a table.
    pub fn routes(&self, spec: &OpSpec, way: PrefixMatch) -> Result<Routes, Unsupported> {
        let (kind, list) = asked(spec, way)?;
        // Whole entries come and go: a panic leaves nothing half done.
        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        let level = self.level();
        let known = |kept: &&Kept| kept.kind == kind && kept.level == level && kept.list == *list;
        if let Some(Kept { table, .. }) = kept.iter().find(known) {
            return Ok(Routes(table.clone()));
        }
        kept.retain(|kept| kept.kind != kind);
        let table = Arc::new(self.filled(kind, &read(kind, list)?)?);
        kept.push(Kept {
            kind,
            level,
            list: list.clone(),
            table: table.clone(),
        });
        Ok(Routes(table))
    }

    /// A table, with as many tables behind the first as it turns out to need.
    fn filled(&self, kind: TableKind, routes: &[Route]) -> Result<raw::Routes, Unsupported> {
        const NO_SPACE: i32 = -28;
        let mut last = NO_SPACE;
        for Fit {
            hop_bytes,
            tbl8s,
            tbl8s_max,
        } in fits(kind, routes)?
        {
            let mut tbl8s = tbl8s;
            loop {
                let size = Size { hop_bytes, tbl8s };
                match raw::Routes::new(self.0, kind, size, routes) {
                    Ok(table) => return Ok(table),
                    Err(error) => last = error,
                }
                // rte_fib6 puts more aside than it comes to need.
                if last != NO_SPACE || tbl8s == tbl8s_max {
                    break;
                }
                tbl8s = tbl8s.saturating_mul(2).min(tbl8s_max);
            }
        }
        let (name, why) = (name(kind), self.0.eal().error(last));
        let count = routes.len();
        Err(because(format!(
            "{name} takes not these {count} routes: {why}"
        )))
    }
}

/// Whether the routes of `spec` go into a table.
///
/// # Errors
/// Why not.
pub(super) fn check(spec: &OpSpec, way: PrefixMatch) -> Result<(), Unsupported> {
    let (kind, list) = asked(spec, way)?;
    fits(kind, &read(kind, list)?).map(|_| ())
}

fn asked(spec: &OpSpec, way: PrefixMatch) -> Result<(TableKind, &Material), Unsupported> {
    let Some(spec::Lpm { family, routes }) = spec.get() else {
        return Err(none(spec));
    };
    let kind = match (way, family) {
        (PrefixMatch::Lpm, IpFamily::V4) => TableKind::Lpm,
        (PrefixMatch::Lpm, IpFamily::V6) => TableKind::Lpm6,
        (PrefixMatch::Fib, IpFamily::V4) => TableKind::Fib,
        (PrefixMatch::Fib, IpFamily::V6) => TableKind::Fib6,
    };
    Ok((kind, routes))
}

/// The library's name in DPDK.
fn name(kind: TableKind) -> &'static str {
    match kind {
        TableKind::Lpm => "rte_lpm",
        TableKind::Lpm6 => "rte_lpm6",
        TableKind::Fib => "rte_fib",
        TableKind::Fib6 => "rte_fib6",
    }
}

fn is_v4(kind: TableKind) -> bool {
    matches!(kind, TableKind::Lpm | TableKind::Fib)
}

/// The routes of a list: on each line a prefix and a hop, `192.0.2.0/24 17`; what follows `#` is a comment.
fn read(kind: TableKind, list: &Material) -> Result<Vec<Route>, Unsupported> {
    let text = std::str::from_utf8(list.bytes());
    let text = text.map_err(|error| because(format!("the route list: {error}")))?;
    let mut routes = Vec::new();
    let mut prefixes = HashSet::new();
    for (line, text) in (1..).zip(text.lines()) {
        let text = text.split_once('#').map_or(text, |(text, _)| text).trim();
        if !text.is_empty() {
            let wrong =
                |what: &str| because(format!("line {line} of the route list {what}: `{text}`"));
            let route = route(kind, text).ok_or_else(|| wrong("is none"))?;
            if !prefixes.insert((route.address, route.bits)) {
                return Err(wrong("has the prefix of an earlier one"));
            }
            routes.push(route);
        }
    }
    if matches!(kind, TableKind::Lpm | TableKind::Lpm6) {
        split_default(&mut routes);
    }
    Ok(routes)
}

fn route(kind: TableKind, line: &str) -> Option<Route> {
    let mut words = line.split_ascii_whitespace();
    let (prefix, hop) = (words.next()?, words.next()?.parse().ok()?);
    let (text, bits) = prefix.split_once('/')?;
    let mut address = [0; 16];
    let bits_max = match is_v4(kind) {
        true => {
            address[..4].copy_from_slice(&text.parse::<Ipv4Addr>().ok()?.octets());
            32
        }
        false => {
            address = text.parse::<Ipv6Addr>().ok()?.octets();
            128
        }
    };
    let bits = bits.parse().ok().filter(|bits| *bits <= bits_max)?;
    let behind = u128::from_be_bytes(address).checked_shl(bits).unwrap_or(0);
    if behind != 0 {
        return None;
    }
    words
        .next()
        .is_none()
        .then_some(Route { address, hop, bits })
}

/// The default route as two halves, which is the same: rte_lpm takes no prefix without a bit.
fn split_default(routes: &mut Vec<Route>) {
    let Some(at) = routes.iter().position(|route| route.bits == 0) else {
        return;
    };
    let default = routes.swap_remove(at);
    for first in [0, 0x80] {
        let mut half = Route { bits: 1, ..default };
        half.address[0] = first;
        let is_same = |route: &Route| route.bits == 1 && route.address[0] == first;
        if !routes.iter().any(is_same) {
            routes.push(half);
        }
    }
}

/// A size to try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fit {
    hop_bytes: u32,
    /// The number of tables behind the first: one for each prefix that routes go on behind.
    tbl8s: u32,
    /// The number of tables behind the first that a table can have or could come to need.
    tbl8s_max: u32,
}

/// The sizes that the routes may go into, smaller ones first: they are faster.
fn fits(kind: TableKind, routes: &[Route]) -> Result<Vec<Fit>, Unsupported> {
    // Bytes of a hop, the first hop that is none, most tables behind the first.
    let sizes: &[(u32, u32, u32)] = match kind {
        TableKind::Lpm => &[(4, 1 << 24, 1 << 21)],
        TableKind::Lpm6 => &[(4, 1 << 21, 1 << 21)],
        TableKind::Fib => &[
            (1, 127, 127),
            (2, 32_767, 32_767),
            (4, 0x7fff_ffff, 1 << 24),
        ],
        TableKind::Fib6 => &[(2, 32_767, 32_767), (4, 0x7fff_ffff, 1 << 24)],
    };
    let (tbl8s, most) = tbl8s(kind, routes);
    let hop = routes.iter().map(|route| route.hop).max().unwrap_or(0);
    let fit = |&(hop_bytes, hops, max): &(u32, u32, u32)| {
        (hop < hops && tbl8s <= max).then(|| Fit {
            hop_bytes,
            tbl8s,
            tbl8s_max: most.clamp(tbl8s, max),
        })
    };
    let fits: Vec<Fit> = sizes.iter().filter_map(fit).collect();
    let (_, hops, max) = sizes[sizes.len() - 1];
    match fits.is_empty() {
        false => Ok(fits),
        true => Err(because(format!(
            "{} has hops below {hops} and {max} tables behind its first, these routes hops up to {hop} and {tbl8s} tables",
            name(kind)
        ))),
    }
}

/// The number of tables behind the first that the routes need, and the number if no two had one in common.
fn tbl8s(kind: TableKind, routes: &[Route]) -> (u32, u32) {
    let mut prefixes = HashSet::new();
    let mut most = 0u32;
    let bits_max = if is_v4(kind) { 32 } else { 128 };
    for route in routes {
        let address = u128::from_be_bytes(route.address);
        for bits in (FIRST_BITS..route.bits.min(bits_max)).step_by(8) {
            prefixes.insert((bits, address >> (128 - bits)));
            most = most.saturating_add(1);
        }
    }
    // One at least: none is an error to DPDK.
    let needed = u32::try_from(prefixes.len()).unwrap_or(u32::MAX);
    (needed.max(1), most.max(1))
}

impl Routes {
    /// DPDK's own calls for `burst` IPv4 addresses each, which are in the CPU's byte order. The library writes `hops` in its own
    /// way: `rte_lpm` four bytes each, `rte_fib` eight. For who compares the cost of these calls.
    ///
    /// # Panics
    /// If the table is of IPv6, there are fewer hops than addresses, or a burst is empty.
    pub fn bursts_v4(&self, addresses: &[u32], burst: u32, hops: &mut [u64]) {
        self.0.bursts_v4(addresses, burst, hops);
    }

    /// The same for IPv6 addresses in network order.
    ///
    /// # Panics
    /// As [`Routes::bursts_v4`], if the table is of IPv4.
    pub fn bursts_v6(&self, addresses: &[[u8; 16]], burst: u32, hops: &mut [u64]) {
        self.0.bursts_v6(addresses, burst, hops);
    }
}

impl Kernel for Routes {
    type Scratch = ();

    fn scratch(&self) {}

    fn shape(&self) -> OutputShape {
        OutputShape::Variable
    }

    fn dst_len(&self, item_len: usize) -> usize {
        item_len / self.0.address_bytes() * 4
    }

    fn run(&self, batch: Batch<'_>, out: BatchOut<'_>, (): &mut ()) -> Result<(), JobError> {
        dpb_core::records(batch, out, self.0.address_bytes(), |addresses, hops| {
            self.0.lookup(addresses, hops.as_flattened_mut());
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(kind: TableKind, list: &str) -> Result<Vec<Fit>, Unsupported> {
        fits(kind, &read(kind, &Material::public(list))?)
    }

    #[test]
    fn a_list_says_how_large_its_table_is() {
        let fit = |hop_bytes, tbl8s, tbl8s_max| Fit {
            hop_bytes,
            tbl8s,
            tbl8s_max,
        };
        // Three routes behind two prefixes of 24 bits.
        let list = "192.0.2.0/25 1\n192.0.2.128/25 2 # the other half\n\n198.51.100.7/32 126\n10.0.0.0/8 3";
        let of_fib = of(TableKind::Fib, list).expect("fits");
        assert_eq!(of_fib, [fit(1, 2, 3), fit(2, 2, 3), fit(4, 2, 3)]);
        // Behind 24, 32 and 40 bits, the first two for both.
        let list = "2001:db8:100::/48 1\n2001:db8:200::/40 40000";
        let of_fib6 = of(TableKind::Fib6, list).expect("fits");
        assert_eq!(of_fib6, [fit(4, 3, 5)]);
    }

    #[test]
    fn what_does_not_fit_is_said() {
        let why = |kind, list| of(kind, list).expect_err("refused").reason;
        let said = why(TableKind::Lpm, "192.0.2.0/24 16777216");
        assert!(said.contains("rte_lpm has hops below 16777216"), "{said}");
        assert!(why(TableKind::Lpm6, "2001:db8::/32 2097152").contains("rte_lpm6"));
        assert!(why(TableKind::Fib, "192.0.2.0/24 2147483647").contains("rte_fib"));
        for line in [
            "192.0.2.0/33 1",
            "192.0.2.0 1",
            "192.0.2.0/24",
            "2001:db8::/32 1",
            "192.0.2.0/24 1 2",
            "192.0.2.1/24 1",
            "10.0.0.0/8 2",
        ] {
            let list = format!("10.0.0.0/8 1\n{line}");
            let said = of(TableKind::Fib, &list).expect_err("refused").reason;
            assert!(said.contains("line 2"), "{said}");
        }
    }

    #[test]
    fn a_default_route_is_two_halves() {
        let list = Material::public("0.0.0.0/0 7\n128.0.0.0/1 8");
        let of = |kind| read(kind, &list).expect("a list");
        let mut lpm: Vec<(u8, u32, u32)> = of(TableKind::Lpm)
            .iter()
            .map(|route| (route.address[0], route.bits, route.hop))
            .collect();
        lpm.sort_unstable();
        assert_eq!(lpm, [(0, 1, 7), (128, 1, 8)]);
        assert_eq!(of(TableKind::Fib)[0].bits, 0);
    }
}
