//! Route lists like those of a BGP router's, and addresses to look up, by seed.

use std::collections::HashSet;
use std::net::{Ipv4Addr, Ipv6Addr};

use dpb_core::random::SplitMix64;
use dpb_core::words;

use super::route::{Address, Prefix, Route};

words! {
    /// The way in which addresses to look up are drawn.
    pub enum LookupKeys {
        /// Every address is equally likely; for IPv6 every address of 2000::/3, the global ones.
        Random = "random",
        /// First a route, then an address in it. Of a random order of the routes, the *n*-th is about *n* times rarer than the first.
        Zipf = "zipf",
        /// First a route, each equally likely, then an address in it.
        RouteWeighted = "route-weighted",
    }
}

/// A family whose routing tables can be imitated.
pub trait Generated: Address {
    /// `count` routes with as many of each length as published tables have, in proportion, each to one of `hops` hops from
    /// 0, all equally likely. Sorted; a few less where `count` is more than there are prefixes of a length.
    fn routes(seed: u64, count: usize, hops: u32) -> Vec<Route<Self>>;

    /// A random address, see [`LookupKeys::Random`].
    fn random(random: &mut SplitMix64) -> Self;
}

/// `count` addresses to look up, by seed. Without routes all are random.
pub fn draw<A: Generated>(
    keys: LookupKeys,
    seed: u64,
    count: usize,
    routes: &[Route<A>],
) -> Vec<A> {
    let mut random = SplitMix64::new(seed);
    let order = match keys {
        LookupKeys::Zipf => shuffled(&mut random, routes.len()),
        LookupKeys::Random | LookupKeys::RouteWeighted => Vec::new(),
    };
    let mut one = || {
        let route = match keys {
            LookupKeys::Random => return A::random(&mut random),
            _ if routes.is_empty() => return A::random(&mut random),
            LookupKeys::RouteWeighted => random.below(routes.len()),
            LookupKeys::Zipf => order[zipf(&mut random, order.len())] as usize,
        };
        routes[route].prefix.fill(bits(&mut random))
    };
    (0..count).map(|_| one()).collect()
}

/// A rank below `n`, with a density of 1/rank: Zipf's law with exponent 1.
fn zipf(random: &mut SplitMix64, n: usize) -> usize {
    let rank = ((n + 1) as f64).powf(random.unit()) as usize;
    rank.clamp(1, n) - 1
}

/// The numbers below `n` in random order (Fisher and Yates).
fn shuffled(random: &mut SplitMix64, n: usize) -> Vec<u32> {
    let mut order: Vec<u32> = (0..n as u32).collect();
    for i in (1..n).rev() {
        order.swap(i, random.below(i + 1));
    }
    order
}

fn bits(random: &mut SplitMix64) -> u128 {
    u128::from(random.next_u64()) << 64 | u128::from(random.next_u64())
}

/// The number of routes that each published length gets if there are `count` in all: in proportion, the rest to the most frequent.
fn scaled(weights: &[u32], count: usize) -> Vec<usize> {
    let total: u64 = weights.iter().map(|weight| u64::from(*weight)).sum();
    let share = |weight: &u32| (u64::from(*weight) * count as u64 / total) as usize;
    let mut counts: Vec<usize> = weights.iter().map(share).collect();
    let most = (0..weights.len()).max_by_key(|i| weights[*i]);
    if let Some(most) = most {
        counts[most] += count - counts.iter().sum::<usize>();
    }
    counts
}

/// The old address classes: the first bits, how many, and the routes of lengths 1 to 32 in a router's table that DPDK's
/// performance tests imitate (app/test/test_lpm_perf.c); of class B's 50,800 of 16 bits the 16,384 that can differ.
const CLASSES: [(u32, u8, [u32; 32]); 3] = [
    (
        0x0000_0000,
        1,
        [
            0, 0, 1, 0, 2, 1, 3, 185, 26, 16, 39, 144, 233, 528, 866, 3856, 3268, 5662, 17301,
            22226, 11147, 16746, 17120, 77578, 401, 656, 1107, 1121, 2316, 717, 10, 66,
        ],
    ),
    (
        0x8000_0000,
        2,
        [
            0, 0, 0, 0, 1, 1, 1, 3, 3, 30, 25, 168, 305, 569, 1129, 16384, 1645, 1820, 3506, 3258,
            3424, 4971, 6885, 39771, 424, 170, 433, 92, 366, 377, 2, 200,
        ],
    ),
    (
        0xc000_0000,
        3,
        [
            0, 0, 0, 0, 0, 0, 0, 12, 8, 9, 33, 69, 237, 1007, 1717, 14663, 8070, 16185, 48261,
            36870, 33960, 50638, 61422, 466_549, 1829, 4824, 4927, 5914, 10254, 4905, 1, 716,
        ],
    ),
];

impl Generated for Ipv4Addr {
    /// By DPDK's counts for each class and length, evenly spread as there: in each of equal parts of the class one prefix,
    /// at random.
    fn routes(seed: u64, count: usize, hops: u32) -> Vec<Route<Self>> {
        let mut random = SplitMix64::new(seed);
        let weights = CLASSES.map(|(_, _, counts)| counts).concat();
        let counts = scaled(&weights, count);
        let mut routes = Vec::with_capacity(count);
        for ((first, fixed, _), counts) in CLASSES.iter().zip(counts.chunks(32)) {
            for (len, count) in (1..).zip(counts) {
                let there_are = 1u64 << (len - *fixed.min(&len));
                let count = there_are.min(*count as u64);
                for i in 0..count {
                    let (from, to) = (i * there_are / count, (i + 1) * there_are / count);
                    let at = from + random.below((to - from) as usize) as u64;
                    let address = Ipv4Addr::from_bits(first | (at << (32 - len)) as u32);
                    routes.push(route(Prefix::of(address, len), hops, &mut random));
                }
            }
        }
        routes.sort_unstable();
        routes
    }

    fn random(random: &mut SplitMix64) -> Self {
        Self::from_bits(random.next_u64() as u32)
    }
}

/// Lengths, and the routes of each, in the full table of 160,146 that the Go package bart tests with
/// (github.com/gaissmai/bart, internal/tests/testdata/prefixes.txt.gz, July 2026).
const LENGTHS6: [(u8, u32); 46] = [
    (16, 1),
    (19, 1),
    (20, 16),
    (21, 3),
    (22, 7),
    (23, 8),
    (24, 30),
    (25, 8),
    (26, 15),
    (27, 20),
    (28, 193),
    (29, 4371),
    (30, 650),
    (31, 284),
    (32, 22548),
    (33, 2926),
    (34, 2603),
    (35, 1043),
    (36, 5996),
    (37, 880),
    (38, 1617),
    (39, 1377),
    (40, 13418),
    (41, 903),
    (42, 2301),
    (43, 1001),
    (44, 14365),
    (45, 1553),
    (46, 3039),
    (47, 3153),
    (48, 75488),
    (49, 11),
    (50, 3),
    (52, 1),
    (55, 1),
    (56, 24),
    (58, 20),
    (60, 2),
    (64, 184),
    (112, 2),
    (122, 1),
    (124, 4),
    (125, 9),
    (126, 19),
    (127, 42),
    (128, 6),
];

/// The ranges that the registries give out from, and the routes there in the same table.
const REGIONS6: [(u32, u8, u32); 8] = [
    (0x2001_0000, 16, 20_154),
    (0x2400_0000, 12, 52_268),
    (0x2600_0000, 12, 19_437),
    (0x2620_0000, 20, 2886),
    (0x2800_0000, 12, 28_380),
    (0x2a00_0000, 12, 32_244),
    (0x2a10_0000, 14, 2813),
    (0x2c00_0000, 12, 1479),
];

impl Generated for Ipv6Addr {
    /// Up to 32 bits, spread over what the registries give out from; longer ones inside those of 32 bits, a few of which
    /// have most.
    fn routes(seed: u64, count: usize, hops: u32) -> Vec<Route<Self>> {
        let mut random = SplitMix64::new(seed);
        let counts = scaled(&LENGTHS6.map(|(_, weight)| weight), count);
        let mut known = HashSet::with_capacity(count);
        let mut networks = Vec::new();
        let mut routes = Vec::with_capacity(count);
        for ((len, _), count) in LENGTHS6.iter().zip(counts) {
            // Where there is little room, a prefix may be hard to find that is not there yet.
            let mut tries = 32 * count;
            let mut left = count;
            while left > 0 && tries > 0 {
                tries -= 1;
                let network = match *len {
                    0..=32 => network(&mut random),
                    _ => skewed(&mut random, &networks).unwrap_or(0x2001_0db8),
                };
                let below = skew(&mut random, 256) << 24 | random.below(1 << 24);
                let rest = (below as u128) << 64 | u128::from(random.next_u64());
                let prefix =
                    Prefix::of(Ipv6Addr::from_bits(u128::from(network) << 96 | rest), *len);
                if known.insert(prefix) {
                    left -= 1;
                    routes.push(route(prefix, hops, &mut random));
                    if *len == 32 {
                        networks.push(network);
                    }
                }
            }
        }
        routes.sort_unstable();
        routes
    }

    fn random(random: &mut SplitMix64) -> Self {
        Self::from_bits(1 << 125 | bits(random) >> 3)
    }
}

/// 32 bits that a registry may give out.
fn network(random: &mut SplitMix64) -> u32 {
    let total: u32 = REGIONS6.iter().map(|(_, _, weight)| weight).sum();
    let mut draw = random.below(total as usize) as u32;
    let region = REGIONS6.iter().find(|(_, _, weight)| {
        let is_it = draw < *weight;
        draw = draw.saturating_sub(*weight);
        is_it
    });
    let (first, len, _) = region.expect("a draw below the total");
    first | skew(random, 1 << (32 - len)) as u32
}

/// One of them, the first ones more often.
fn skewed(random: &mut SplitMix64, networks: &[u32]) -> Option<u32> {
    networks.get(skew(random, networks.len())).copied()
}

/// Below `n`, with a density that falls as rank^(-2/3): as the routes inside a network do with the network's rank.
fn skew(random: &mut SplitMix64, n: usize) -> usize {
    let unit = 1.0 - random.unit();
    (unit * unit * unit * n as f64) as usize
}

fn route<A: Address>(prefix: Prefix<A>, hops: u32, random: &mut SplitMix64) -> Route<A> {
    Route {
        prefix,
        hop: random.below(hops as usize) as u32,
    }
}
