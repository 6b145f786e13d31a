//! Route lists from arbitrary bytes: what can be read comes back as it was written, and a table of it answers as the model
//! does, on every path, before and after every other route is taken out.
#![no_main]

use std::net::{Ipv4Addr, Ipv6Addr};

use dpb_operators::network::lpm::model::Model;
use dpb_operators::network::lpm::{Address, LookupScratch, Lpm, parse, write};
use libfuzzer_sys::fuzz_target;

fuzz_target!(init: dpb_fuzz::plant(seeds()), |input: &[u8]| {
    if let Ok(text) = std::str::from_utf8(input) {
        check::<Ipv4Addr>(text);
        check::<Ipv6Addr>(text);
    }
});

fn check<A: Address>(text: &str) {
    let Ok(routes) = parse::<A>(text) else {
        return;
    };
    assert_eq!(parse(&write(&routes)), Ok(routes.clone()));

    // Where something may change: the first and last address of each route, and their neighbours.
    let step = 1u128 << (128 - u32::from(A::BITS));
    let around = |first: u128, last: u128| {
        [
            first,
            first.wrapping_sub(step),
            last,
            last.wrapping_add(step),
        ]
    };
    let addresses: Vec<A> = routes
        .iter()
        .flat_map(|route| {
            around(
                route.prefix.fill(0).high(),
                route.prefix.fill(u128::MAX).high(),
            )
        })
        .map(A::from_high)
        .collect();

    let mut table = Lpm::new(&routes).expect("an input has few routes");
    let mut model = Model::new(&routes);
    agree(&table, &model, &addresses);
    for route in routes.iter().step_by(2) {
        assert_eq!(
            table.remove(route.prefix),
            model.remove(route.prefix),
            "{}",
            route.prefix
        );
    }
    assert_eq!(table.len(), routes.len() / 2);
    agree(&table, &model, &addresses);
}

fn agree<A: Address>(table: &Lpm<A>, model: &Model<A>, addresses: &[A]) {
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
        let mut hops = vec![[0; 4]; addresses.len()];
        table.lookup_batch(&wire, &mut hops, &mut scratch);
        let hops: Vec<u32> = hops.into_iter().map(u32::from_le_bytes).collect();
        assert_eq!(hops, right, "{path}");
    }
}

/// Lists of either family, and lines that are none.
fn seeds() -> Vec<Vec<u8>> {
    let seeds = [
        "0.0.0.0/0 1\n10.0.0.0/8 2\n10.1.0.0/16 3\n10.1.2.0/24 4\n10.1.2.3/32 5\n",
        "# a comment\n\n192.0.2.0/25 4294967294 # the last hop\n192.0.2.128/25 0\n255.255.255.255/32 7\n",
        "::/0 1\n2001:db8::/32 2\n2001:db8::/48 3\n2001:db8:0:1::/64 4\n2001:db8::1/128 5\n",
        "fe80::/10 9\nffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128 8\n::ffff:192.0.2.1/128 6\n",
        "10.0.0.1/8 2\n",
        "10.0.0.0/8 4294967295\n10.0.0.0/8\n",
    ];
    seeds
        .into_iter()
        .map(|text| text.as_bytes().to_vec())
        .collect()
}
