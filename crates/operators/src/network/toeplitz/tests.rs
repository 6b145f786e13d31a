//! Microsoft's verification suite, and each path against the definition.

use proptest::prelude::*;

use super::*;

/// Source, destination, their ports, and the hash without and with ports.
type Case<A> = (A, A, u16, u16, u32, u32);

/// Microsoft's RSS verification suite, IPv4.
const SUITE4: [Case<[u8; 4]>; 5] = [
    (
        [66, 9, 149, 187],
        [161, 142, 100, 80],
        2794,
        1766,
        0x323e_8fc2,
        0x51cc_c178,
    ),
    (
        [199, 92, 111, 2],
        [65, 69, 140, 83],
        14230,
        4739,
        0xd718_262a,
        0xc626_b0ea,
    ),
    (
        [24, 19, 198, 95],
        [12, 22, 207, 184],
        12898,
        38024,
        0xd2d0_a5de,
        0x5c2b_394a,
    ),
    (
        [38, 27, 205, 30],
        [209, 142, 163, 6],
        48228,
        2217,
        0x8298_9176,
        0xafc7_327f,
    ),
    (
        [153, 39, 163, 191],
        [202, 188, 127, 2],
        44251,
        1303,
        0x5d18_09c5,
        0x10e8_28a2,
    ),
];

/// The same for IPv6.
const SUITE6: [Case<&str>; 3] = [
    (
        "3ffe:2501:200:1fff::7",
        "3ffe:2501:200:3::1",
        2794,
        1766,
        0x2cc1_8cd5,
        0x4020_7d3d,
    ),
    (
        "3ffe:501:8::260:97ff:fe40:efab",
        "ff02::1",
        14230,
        4739,
        0x0f0c_461c,
        0xdde5_1bbf,
    ),
    (
        "3ffe:1900:4545:3:200:f8ff:fe21:67cf",
        "fe80::200:f8ff:fe21:67cf",
        44251,
        38024,
        0x4b61_e985,
        0x02d1_feef,
    ),
];

/// The suite's tuples with their hashes, by kind.
fn suite(tuple: HashTuple) -> Vec<(Vec<u8>, u32)> {
    let octets = |text: &str| {
        text.parse::<std::net::Ipv6Addr>()
            .expect("an address")
            .octets()
    };
    let with = |source: &[u8], destination: &[u8], ports: [u16; 2], hashes: [u32; 2]| match tuple {
        HashTuple::Ipv4 | HashTuple::Ipv6 => ([source, destination].concat(), hashes[0]),
        HashTuple::Ipv4Ports | HashTuple::Ipv6Ports => {
            let ports = ports.map(u16::to_be_bytes);
            (
                [source, destination, &ports[0], &ports[1]].concat(),
                hashes[1],
            )
        }
    };
    match tuple {
        HashTuple::Ipv4 | HashTuple::Ipv4Ports => SUITE4
            .iter()
            .map(|(from, to, a, b, without, ports)| with(from, to, [*a, *b], [*without, *ports]))
            .collect(),
        HashTuple::Ipv6 | HashTuple::Ipv6Ports => SUITE6
            .iter()
            .map(|(from, to, a, b, without, ports)| {
                with(&octets(from), &octets(to), [*a, *b], [*without, *ports])
            })
            .collect(),
    }
}

/// The operator on every path of this CPU.
fn all(key: &Key, tuple: HashTuple) -> Vec<Toeplitz> {
    Toeplitz::PATHS
        .iter()
        .filter(|path| path.is_available())
        .map(|path| Toeplitz::new(key, tuple, *path).expect("available"))
        .collect()
}

#[test]
fn verification_suite() {
    let key = Key::new(&MICROSOFT_KEY).expect("40 bytes");
    for tuple in HashTuple::ALL {
        for (bytes, hash) in suite(tuple) {
            assert_eq!(
                definition(&key, tuple, None, &bytes),
                Some(hash.to_le_bytes().to_vec())
            );
            for toeplitz in all(&key, tuple) {
                assert_eq!(toeplitz.hash(&bytes), hash, "{toeplitz:?}");
            }
        }
    }
}

/// A key that repeats every 16 bits hashes both directions of a flow alike (Woo and Park, 2012).
#[test]
fn symmetric_key() {
    let key = Key::new(&[0x6d, 0x5a].repeat(26)).expect("52 bytes");
    for toeplitz in all(&key, HashTuple::Ipv4Ports) {
        let there = toeplitz.hash(&[192, 0, 2, 1, 198, 51, 100, 7, 0x12, 0x34, 0, 80]);
        let back = toeplitz.hash(&[198, 51, 100, 7, 192, 0, 2, 1, 0, 80, 0x12, 0x34]);
        assert_eq!(there, back);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(target_arch = "x86_64") { 40 } else { 4 }))]

    #[test]
    fn agrees_with_the_definition(
        key in prop_oneof![
            prop::collection::vec(any::<u8>(), 40),
            prop::collection::vec(any::<u8>(), 52),
        ],
        bytes in prop::collection::vec(any::<u8>(), 67 * 36 + 64),
        start in 0usize..64,
    ) {
        let key = Key::new(&key).expect("a length of keys");
        for tuple in HashTuple::ALL {
            for toeplitz in all(&key, tuple) {
                for count in (0..20).chain([31, 32, 33, 48, 67]) {
                    let tuples = &bytes[start..][..count * tuple.bytes()];
                    let mut hashes = vec![[0; 4]; count];
                    toeplitz.hash_all(tuples, &mut hashes);
                    let right = definition(&key, tuple, None, tuples).expect("whole tuples");
                    prop_assert_eq!(hashes.concat(), right);
                }
            }
        }
    }
}

#[test]
fn keys_and_tables_have_the_lengths_of_network_cards() {
    assert_eq!(Key::new(&[0; 41]), None);
    assert_eq!(Redirection::new(&[0; 64]), None);
    assert_eq!(Redirection::in_turn(0, 128), None);
    assert_eq!(Redirection::in_turn(129, 128), None);
}

#[test]
fn queues() {
    let key = Key::new(&MICROSOFT_KEY).expect("40 bytes");
    let redirection = Redirection::in_turn(6, 128).expect("128 entries");
    for toeplitz in all(&key, HashTuple::Ipv4Ports) {
        let toeplitz = toeplitz.redirected(redirection.clone());
        let (tuple, hash) = &suite(HashTuple::Ipv4Ports)[0];
        assert_eq!(toeplitz.hash(tuple), hash % 128 % 6);
    }
}
