//! Tables where there is no room for all that lookups would read.

use super::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(target_arch = "x86_64") { 60 } else { 6 }))]

    #[test]
    fn changes_where_lines_run_out(
        changes in prop::collection::vec(
            (crowded6(), prop::option::weighted(0.8, 0u32..9)),
            0..120,
        ),
        most in 256usize..420,
    ) {
        let mut table = Lpm6::new(&[]).expect("fits");
        table.trie.limit_spans(most);
        let mut model = Model::new(&[]);
        let addresses = edges(&prefixes_of(&changes));
        for (number, (prefix, hop)) in changes.iter().enumerate() {
            match hop {
                Some(hop) => {
                    table.insert(*prefix, *hop).expect("fits");
                    model.insert(*prefix, *hop);
                }
                None => prop_assert_eq!(table.remove(*prefix), model.remove(*prefix)),
            }
            if number % 20 == 0 {
                assert_agrees(&table, &model, &addresses);
            }
        }
        assert_agrees(&table, &model, &addresses);
        // Room again, and what was there goes one by one and comes back.
        table.trie.limit_spans(most + 1000);
        let routes = table.routes();
        for (number, route) in routes.iter().enumerate() {
            prop_assert_eq!(table.remove(route.prefix), model.remove(route.prefix));
            if number % 20 == 0 {
                assert_agrees(&table, &model, &addresses);
            }
        }
        prop_assert!(table.is_empty());
        for route in &routes {
            table.insert(route.prefix, route.hop).expect("fits");
            model.insert(route.prefix, route.hop);
        }
        assert_agrees(&table, &model, &addresses);
    }

    #[test]
    fn changes_where_pages_run_out(
        changes in prop::collection::vec((crowded(), hops().prop_map(Some)), 0..60),
        most in 63usize..200,
    ) {
        let base = in_one_slot(40);
        let mut table = Lpm4::new(&[]).expect("fits");
        table.trie.limit_pages(most);
        let mut model = Model::new(&[]);
        let base = base.iter().map(|route| (route.prefix, Some(route.hop)));
        for (prefix, hop) in base.chain(changes.iter().copied()) {
            let hop = hop.expect("an insertion");
            table.insert(prefix, hop).expect("fits");
            model.insert(prefix, hop);
        }
        let addresses = [edges(&prefixes_of(&changes)), edges(&in_one_slot(40))].concat();
        assert_agrees(&table, &model, &addresses);
        // Room again, and what was there goes one by one.
        table.trie.limit_pages(1000);
        for (number, route) in in_one_slot(40).iter().enumerate() {
            prop_assert_eq!(table.remove(route.prefix), model.remove(route.prefix));
            if number % 13 == 0 {
                assert_agrees(&table, &model, &addresses);
            }
        }
    }
}

/// Networks of 48 bits, four in each of 64 of 40 bits, all in one slot of the root.
fn networks() -> Vec<Route<Ipv6Addr>> {
    let networks = (0..64u16).flat_map(|upper| (0..4u16).map(move |lower| upper << 8 | lower << 6));
    let routes = networks.map(|bits| Route {
        prefix: Prefix::of(in_one_network(bits), 48),
        hop: u32::from(bits >> 6) % 5,
    });
    routes.collect()
}

fn span_bytes(table: &Lpm6) -> usize {
    table.trie.spans().expect("IPv6").lookup_bytes()
}

/// What there is room for is decided by lines also where a slot needs more, and whatever is written anew.
#[test]
fn a_slot_that_needs_more_lines_than_there_are_has_some() {
    let mut table = Lpm6::new(&networks()).expect("fits");
    let mut model = Model::new(&networks());
    let all = span_bytes(&table);
    let mut small = Lpm6::new(&[]).expect("fits");
    // Lines of codes, tables by the third, the fourth and the fifth byte, and few lines.
    small.trie.limit_spans(256 + 3 * 16 + 9);
    for route in networks() {
        small.insert(route.prefix, route.hop).expect("fits");
    }
    let few = span_bytes(&small);
    assert!(few < all, "{few} {all}");
    // A table that has all its lines needs its old ones for the new ones.
    table.trie.limit_spans(0);
    let above = Prefix::of(Ipv6Addr::from_bits(0x2001 << 112), 16);
    for hop in [8, 9] {
        model.insert(above, hop);
        for table in [&mut table, &mut small] {
            let addresses = edges(&networks());
            table.insert(above, hop).expect("fits");
            let slot = table.trie.spans().expect("IPv6").of_slot(0x2001);
            assert!(spans::is_table(slot), "the slot gave up");
            assert_agrees(table, &model, &addresses);
        }
    }
    assert_eq!((span_bytes(&table), span_bytes(&small)), (all, few));
}

/// A slot that has no room for its own table is not built to be thrown away with each change.
#[test]
fn a_slot_without_a_table_takes_no_lines() {
    let mut table = Lpm6::new(&[]).expect("fits");
    let mut model = Model::new(&[]);
    table.trie.limit_spans(256 + 15);
    let before = span_bytes(&table);
    for route in networks() {
        table.insert(route.prefix, route.hop).expect("fits");
        model.insert(route.prefix, route.hop);
    }
    assert_eq!(span_bytes(&table), before);
    assert_agrees(&table, &model, &edges(&networks()));
}
