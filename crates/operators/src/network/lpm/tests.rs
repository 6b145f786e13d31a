//! Lookups and changes against a model that has a map for each length, lists there and back, vectors.

mod room;

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use dpb_core::random::SplitMix64;
use dpb_core::{ChangeError, JobError, Kernel, Versioned, Versions};
use proptest::prelude::*;

use super::model::Model;
use super::*;

/// Addresses where something may change: the first and last of each route and their neighbours.
fn edges<A: Address>(routes: &[Route<A>]) -> Vec<A> {
    let around = |route: &Route<A>| {
        let first = route.prefix.fill(0).high();
        let last = route.prefix.fill(u128::MAX).high();
        let step = 1u128 << (128 - u32::from(A::BITS));
        [
            first,
            first.wrapping_sub(step),
            last,
            last.wrapping_add(step),
        ]
    };
    routes.iter().flat_map(around).map(A::from_high).collect()
}

/// One by one, and in batches on every path.
fn assert_agrees<A: Address>(table: &Lpm<A>, model: &Model<A>, addresses: &[A]) {
    let right: Vec<u32> = addresses
        .iter()
        .map(|address| model.lookup(*address))
        .collect();
    let mut wire = Vec::new();
    for (address, right) in addresses.iter().zip(&right) {
        assert_eq!(table.lookup(*address), *right, "{address}");
        address.to_wire(&mut wire);
    }
    let mut scratch = LookupScratch::default();
    for path in Lpm::<A>::PATHS.iter().filter(|path| path.is_available()) {
        let table = table.clone().on(*path).expect("available");
        let mut hops = vec![[0xee; 4]; addresses.len()];
        table.lookup_batch(&wire, &mut hops, &mut scratch);
        for ((address, right), hop) in addresses.iter().zip(&right).zip(&hops) {
            assert_eq!(u32::from_le_bytes(*hop), *right, "{address} on {path}");
        }
        // Lengths about those from which on lookups go another way.
        let lengths = [1, 63, 64, 65, 127, 128, 255, 256, 257, 319, 320, 321];
        let (mut wire, mut of_calls) = (&wire[..], &mut vec![[0xee; 4]; addresses.len()][..]);
        let mut in_calls = Vec::new();
        for len in lengths.into_iter().cycle() {
            let len = len.min(of_calls.len());
            let (call, later) = wire.split_at(len * A::BYTES);
            let (found, rest) = of_calls.split_at_mut(len);
            table.lookup_batch(call, found, &mut scratch);
            in_calls.extend_from_slice(found);
            if rest.is_empty() {
                break;
            }
            (wire, of_calls) = (later, rest);
        }
        assert_eq!(in_calls, hops, "on {path}");
    }
}

fn assert_generated<A: Generated>(seed: u64, count: usize, hops: u32) {
    let routes = A::routes(seed, count, hops);
    let table = Lpm::new(&routes).expect("fits");
    let model = Model::new(&routes);
    assert_eq!(table.len(), routes.len());
    assert_agrees(&table, &model, &edges(&routes));
    for keys in LookupKeys::ALL {
        assert_agrees(&table, &model, &draw(keys, seed, 2000, &routes));
    }
    let mut back = table.routes();
    back.sort_unstable();
    assert_eq!(back, routes);
}

#[test]
fn agrees_with_the_model_on_generated_tables() {
    // From 191 on bytes of tables for IPv4 cannot say all hops, from 255 on no byte can.
    for hops in [1, 2, 190, 191, 192, 253, 254, 255, 256, 5000, 100_000] {
        assert_generated::<Ipv4Addr>(1, 6000, hops);
        assert_generated::<Ipv6Addr>(2, 4000, hops);
    }
}

/// Any prefix, but often inside a few ones, so that routes nest.
fn prefixes<A: Address>() -> impl Strategy<Value = Prefix<A>> {
    let any_bits = any::<u128>();
    let near = (any::<u8>(), any::<u128>()).prop_map(|(shift, noise)| {
        0xc0a8_0102_0304_0506_0708_090a_0b0c_0d0e ^ noise.checked_shr(u32::from(shift)).unwrap_or(0)
    });
    let bits = prop_oneof![1 => any_bits, 4 => near];
    (bits, 0..=A::BITS).prop_map(|(bits, len)| Prefix::of(A::from_high(bits), len))
}

/// A hop of few, so that neighbours share one, or of many, so that codes get wide.
fn hops() -> impl Strategy<Value = u32> {
    prop_oneof![0u32..3, 0..NO_ROUTE]
}

/// An insertion, or a removal.
type Change<A> = (Prefix<A>, Option<u32>);

fn changes<A: Address>() -> impl Strategy<Value = Vec<Change<A>>> {
    prop::collection::vec(
        (prefixes::<A>(), prop::option::weighted(0.7, hops())),
        0..120,
    )
}

/// A prefix about the addresses that begin with one 16 bits, or with their neighbour's.
fn crowded() -> impl Strategy<Value = Prefix<Ipv4Addr>> {
    (any::<u16>(), 0u32..2, 14u8..=32).prop_map(|(bits, slot, len)| {
        Prefix::of(
            Ipv4Addr::from_bits(0x0a01_0000 + (slot << 16) + u32::from(bits)),
            len,
        )
    })
}

/// A prefix about the addresses that begin with one 32 bits, mostly inside one 40.
fn crowded6() -> impl Strategy<Value = Prefix<Ipv6Addr>> {
    let upper = prop_oneof![4 => Just(7u8), 2 => 0u8..12, 1 => any::<u8>()];
    (upper, any::<u8>(), any::<u8>(), 22u8..=52).prop_map(|(upper, lower, behind, len)| {
        let bytes = [0x20, 1, 0xd, 0xb8, upper, lower, behind];
        let high = bytes
            .iter()
            .fold(0u128, |high, byte| high << 8 | u128::from(*byte));
        Prefix::of(Ipv6Addr::from_bits(high << 72), len)
    })
}

/// The address that has `bits` behind 32 ones of its own.
fn in_one_network(bits: u16) -> Ipv6Addr {
    Ipv6Addr::from_bits(0x2001_0db8 << 96 | u128::from(bits) << 80)
}

/// So many routes of more than 24 bits, each with 24 of its own, in one slot of the root: 63 of them can be named.
fn in_one_slot(children: u32) -> Vec<Route<Ipv4Addr>> {
    let route = |child: u32| Route {
        prefix: Prefix::of(Ipv4Addr::from_bits(0x0a01_0080 + (child << 8)), 25),
        hop: child % 7,
    };
    (0..children).map(|child| route(3 * child)).collect()
}

/// Routes for the prefixes of these changes.
fn prefixes_of<A: Address>(changes: &[Change<A>]) -> Vec<Route<A>> {
    let route = |(prefix, _): &Change<A>| Route {
        prefix: *prefix,
        hop: 0,
    };
    changes.iter().map(route).collect()
}

/// After each change the table is what the model says, and after all of them what a fresh table is; with all routes taken
/// out it is empty.
fn assert_changes<A: Address>(
    changes: &[Change<A>],
    base: &[Route<A>],
) -> Result<(), TestCaseError> {
    let mut table = Lpm::new(base).expect("fits");
    let mut model = Model::new(base);
    let addresses = [edges(&prefixes_of(changes)), edges(base)].concat();
    for (prefix, hop) in changes {
        prop_assert_eq!(table.exact(*prefix), model.exact(*prefix));
        match hop {
            Some(hop) => {
                let before = table.insert(*prefix, *hop).expect("fits");
                prop_assert_eq!(before, model.insert(*prefix, *hop));
            }
            None => prop_assert_eq!(table.remove(*prefix), model.remove(*prefix)),
        }
        for address in edges(&[Route {
            prefix: *prefix,
            hop: 0,
        }]) {
            prop_assert_eq!(table.lookup(address), model.lookup(address));
        }
    }
    assert_agrees(&table, &model, &addresses);
    let fresh = Lpm::new(&table.routes()).expect("fits");
    assert_agrees(&fresh, &model, &addresses);
    for (left, route) in table.routes().into_iter().enumerate().rev() {
        prop_assert_eq!(table.remove(route.prefix), Some(route.hop));
        model.remove(route.prefix);
        // Where half of them are gone, and where few are left.
        if left == base.len() / 2 || left == 3 {
            assert_agrees(&table, &model, &addresses);
        }
    }
    prop_assert!(table.is_empty());
    for address in addresses {
        prop_assert_eq!(table.lookup(address), NO_ROUTE);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(target_arch = "x86_64") { 60 } else { 6 }))]

    #[test]
    fn agrees_with_the_model_through_changes_4(changes in changes::<Ipv4Addr>()) {
        assert_changes(&changes, &[])?;
    }

    #[test]
    fn agrees_with_the_model_through_changes_6(changes in changes::<Ipv6Addr>()) {
        assert_changes(&changes, &[])?;
    }

    #[test]
    fn changes_of_a_large_table(changes in changes::<Ipv4Addr>(), seed in any::<u64>()) {
        assert_changes(&changes, &Ipv4Addr::routes(seed, 500, 300))?;
    }

    /// Of as many hops as lines can say, or a few less: new ones make them too many.
    #[test]
    fn changes_of_a_table_of_many_hops(
        changes in changes::<Ipv6Addr>(),
        seed in any::<u64>(),
        hops in 240u32..256,
    ) {
        let mut base = Ipv6Addr::routes(seed, 500, 300);
        for (hop, route) in (0..).zip(&mut base) {
            route.hop = hop % hops;
        }
        assert_changes(&changes, &base)?;
    }

    #[test]
    fn changes_where_children_are_many(
        changes in prop::collection::vec(
            (crowded(), prop::option::weighted(0.5, hops())),
            0..120,
        ),
        gone in prop::collection::vec(0u32..80, 0..60),
        children in 50u32..80,
    ) {
        let base = in_one_slot(children);
        let gone = gone.iter().filter_map(|number| Some((base.get(*number as usize)?.prefix, None)));
        // Removals of what is there between changes of which few are.
        let mut all: Vec<_> = gone.collect();
        all.extend(changes);
        let half = all.len() / 2;
        all.rotate_left(half);
        assert_changes(&all, &base)?;
    }

    #[test]
    fn changes_where_networks_are_crowded(
        changes in prop::collection::vec(
            (crowded6(), prop::option::weighted(0.6, hops())),
            0..160,
        ),
        dense in 0u16..256,
        sparse in 0u16..40,
    ) {
        // More runs than a line has below one byte, and below many.
        let route = |bits: u16, hop: u32| Route {
            prefix: Prefix::of(in_one_network(bits), 48),
            hop,
        };
        let dense = (0..dense).map(|i| route(0x700 | i, u32::from(i % 3)));
        let base: Vec<_> = dense.chain((0..sparse).map(|i| route(i.wrapping_mul(0x1234) | 1, 9))).collect();
        let base: std::collections::BTreeMap<_, _> = base.into_iter().map(|route| (route.prefix, route.hop)).collect();
        let base: Vec<_> = base.into_iter().map(|(prefix, hop)| Route { prefix, hop }).collect();
        assert_changes(&changes, &base)?;
    }

    #[test]
    fn lists_are_read_as_they_were_written(
        routes in prop::collection::btree_map(prefixes::<Ipv6Addr>(), 0..NO_ROUTE, 0..30)
    ) {
        let routes: Vec<_> = routes.into_iter().map(|(prefix, hop)| Route { prefix, hop }).collect();
        prop_assert_eq!(parse(&write(&routes)), Ok(routes));
    }

    #[test]
    fn no_text_breaks_the_reader(text in "[0-9a-f:./ #\n-]{0,60}") {
        let _ = parse::<Ipv4Addr>(&text);
        let _ = parse::<Ipv6Addr>(&text);
    }
}

#[test]
fn lists_may_have_comments_and_say_what_is_wrong() {
    let good = "# two routes\n\n 10.0.0.0/8\t1 # the first\n0.0.0.0/0 4294967294\n";
    let routes = parse::<Ipv4Addr>(good).expect("is a list");
    assert_eq!(write(&routes), "10.0.0.0/8 1\n0.0.0.0/0 4294967294\n");
    for (text, line, what) in [
        (
            "10.0.0.0/8 1\n\n10.0.0.0/8 2",
            3,
            "10.0.0.0/8 is on line 1 already",
        ),
        ("10.0.0.0 1", 1, "`10.0.0.0` is no prefix: address/length"),
        ("\n10.0.0/8 1", 2, "`10.0.0` is no address of 32 bits"),
        ("::/0 1", 1, "`::` is no address of 32 bits"),
        ("10.0.0.0/33 1", 1, "`33` is no length: 0 to 32"),
        ("10.0.0.0/+8 1", 1, "`+8` is no length: 0 to 32"),
        (
            "10.0.0.1/8 1",
            1,
            "10.0.0.1/8 has bits set behind the prefix",
        ),
        ("10.0.0.0/8", 1, "no hop behind the prefix"),
        (
            "10.0.0.0/8 -1",
            1,
            "`-1` is no hop: a number from 0 to 4294967294",
        ),
        (
            "10.0.0.0/8 4294967295",
            1,
            "`4294967295` is no hop: a number from 0 to 4294967294",
        ),
        ("10.0.0.0/8 1 2", 1, "`2` behind the hop"),
    ] {
        let error = parse::<Ipv4Addr>(text).expect_err(text);
        assert_eq!((error.line, error.what.as_str()), (line, what));
    }
}

#[test]
fn a_hop_that_stands_for_no_route_is_refused() {
    let mut table = Lpm4::new(&[]).expect("empty");
    let all = Prefix::of(Ipv4Addr::UNSPECIFIED, 0);
    assert_eq!(table.insert(all, NO_ROUTE), Err(InsertError::NoRoute));
    assert!(table.is_empty());
}

/// Withdrawals, other hops, and more new routes than there is room for.
fn too_much(random: &mut SplitMix64, routes: &[Route<Ipv4Addr>]) -> Box<[Change<Ipv4Addr>]> {
    let known = |random: &mut SplitMix64| routes[random.below(routes.len())].prefix;
    let mut changes = Vec::new();
    for hop in 0..100 {
        changes.push((known(random), None));
        changes.push((known(random), Some(hop)));
    }
    for hop in 0..5000 {
        let inside = known(random).fill(random.next_u64().into());
        changes.push((Prefix::of(inside, 32), Some(hop)));
    }
    changes.into()
}

#[test]
fn a_full_table_says_so() {
    let routes = Ipv4Addr::routes(4, 3000, 300);
    let mut table = Lpm::new(&routes).expect("fits");
    table.block_bytes_max = table.trie.block_bytes() + 5000;
    let changes = too_much(&mut SplitMix64::new(4), &routes);
    assert_eq!(table.apply(&changes), Err(ChangeError::Full));
    // What is there stays, and can be taken out.
    for route in table.routes() {
        assert_eq!(table.remove(route.prefix), Some(route.hop));
    }
    assert_agrees(&table, &Model::new(&[]), &edges(&prefixes_of(&changes)));
}

/// A script that the table has no room for leaves it as it was.
#[test]
fn a_script_that_is_too_long_is_undone() {
    let routes = Ipv4Addr::routes(6, 3000, 300);
    let mut table = Lpm::new(&routes).expect("fits");
    table.block_bytes_max = table.trie.block_bytes() + 5000;
    let updates = Updates::new(table);
    let mut scratch = updates.scratch();
    let mut script = Vec::new();
    let changes = too_much(&mut SplitMix64::new(6), &routes);
    for (prefix, hop) in &changes {
        write_change(*prefix, *hop, &mut script);
    }
    let mut slot = vec![0; changes.len() * 4];
    assert_eq!(scratch.run(&script, &mut slot), Err(JobError::TooLong));
    assert_agrees(
        scratch.table(),
        &Model::new(&routes),
        &edges(&prefixes_of(&changes)),
    );
}

/// Both tables of a live one have what was taken and nothing of what was refused.
#[test]
fn a_full_live_table_keeps_what_it_took() {
    let routes = Ipv4Addr::routes(5, 3000, 300);
    let mut table = Lpm::new(&routes).expect("fits");
    table.block_bytes_max = table.trie.block_bytes() + 5000;
    let mut model = Model::new(&routes);
    let versions = Versions::new(Arc::new(table));
    let mut reader = versions.reader();
    let mut random = SplitMix64::new(5);
    let (mut taken, mut refused) = (0, 0);
    for _ in 0..40 {
        let mut changes = too_much(&mut random, &routes).into_vec();
        changes.truncate([20, 250, 5200][random.below(3)]);
        match versions.change(changes.clone().into()) {
            Ok(()) => {
                taken += 1;
                for (prefix, hop) in &changes {
                    match hop {
                        Some(hop) => model.insert(*prefix, *hop),
                        None => model.remove(*prefix),
                    };
                }
            }
            Err(error) => {
                refused += 1;
                assert_eq!(error, ChangeError::Full);
            }
        }
        versions.commit();
        assert_agrees(&reader.enter(), &model, &edges(&prefixes_of(&changes)));
    }
    assert!(taken > 0 && refused > 0, "{taken} taken, {refused} refused");
}

/// The lengths of the source's histogram, in proportion, and no prefix twice.
#[test]
fn generated_tables_have_the_published_lengths() {
    let routes = Ipv4Addr::routes(3, 100_000, 10);
    assert!(
        (99_900..=100_000).contains(&routes.len()),
        "{}",
        routes.len()
    );
    let longest = routes
        .iter()
        .filter(|route| route.prefix.bits() == 24)
        .count();
    // 583,898 of 1,042,384.
    assert!((55_500..56_500).contains(&longest), "{longest}");
    assert!(
        routes
            .windows(2)
            .all(|pair| pair[0].prefix < pair[1].prefix)
    );
    let routes = Ipv6Addr::routes(3, 50_000, 10);
    assert!(
        (49_900..=50_000).contains(&routes.len()),
        "{}",
        routes.len()
    );
    let longest = routes
        .iter()
        .filter(|route| route.prefix.bits() == 48)
        .count();
    // 75,488 of 160,146.
    assert!((23_300..23_900).contains(&longest), "{longest}");
    assert!(
        routes
            .windows(2)
            .all(|pair| pair[0].prefix < pair[1].prefix)
    );
}

/// Of addresses in routes, the share of the most frequent route is 1 of *n* where all are equally likely, and by Zipf's law
/// 1 of the *n*-th harmonic number, 7.5 for a thousand.
#[test]
fn keys_are_drawn_as_they_say() {
    let routes: Vec<_> = (0..1000)
        .map(|i| Route {
            prefix: Prefix::of(Ipv4Addr::from_bits(i << 20), 12),
            hop: i,
        })
        .collect();
    let model = Model::new(&routes);
    let most = |keys| {
        let mut counts = vec![0; routes.len()];
        let keys = draw(keys, 5, 100_000, &routes);
        for hop in keys.into_iter().map(|key| model.lookup(key)) {
            if hop != NO_ROUTE {
                counts[hop as usize] += 1;
            }
        }
        (
            counts.iter().sum::<i32>(),
            counts.into_iter().max().expect("routes"),
        )
    };
    let (routed, most_often) = most(LookupKeys::Zipf);
    assert!(
        routed == 100_000 && (9_000..14_500).contains(&most_often),
        "{most_often}"
    );
    let (routed, most_often) = most(LookupKeys::RouteWeighted);
    assert!(routed == 100_000 && most_often < 200, "{most_often}");
    let (routed, most_often) = most(LookupKeys::Random);
    // A thousand of 4,096 blocks have a route.
    assert!(
        (23_400..25_400).contains(&routed) && most_often < 80,
        "{routed} {most_often}"
    );
}

#[test]
fn as_many_routes_are_generated_as_are_asked_for() {
    for (entry, name) in [(LPM4, "lpm4"), (LPM6, "lpm6"), (LPM4_UPDATE, "lpm4-update")] {
        let spec = entry.spec("routes=generated:300").expect(name);
        let routes = spec
            .parameters()
            .into_iter()
            .find_map(|(_, value)| match value {
                dpb_core::ParameterValue::Material(routes) => Some(routes),
                _ => None,
            });
        let text = routes.expect("a route list").bytes().to_vec();
        let lines = text
            .split(|&byte| byte == b'\n')
            .filter(|line| !line.is_empty());
        assert_eq!(lines.count(), 300, "{name}");
        for wrong in ["generated:0", "generated:many", "generated:3000000"] {
            let refused = entry.spec(&format!("routes={wrong}"));
            let said = refused.expect_err(wrong).to_string();
            assert!(said.contains(wrong), "{said}");
        }
    }
}
