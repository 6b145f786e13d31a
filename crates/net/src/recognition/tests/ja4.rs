//! JA4's specification: its example, its rules for ALPN, lists that are empty.

use super::super::tls::Hello;
use super::*;

const CIPHERS: [u16; 15] = [
    0x1301, 0x1302, 0x1303, 0xc02b, 0xc02f, 0xc02c, 0xc030, 0xcca9, 0xcca8, 0xc013, 0xc014, 0x009c,
    0x009d, 0x002f, 0x0035,
];
const EXTENSIONS: [u16; 16] = [
    0x001b, 0x0000, 0x0033, 0x0010, 0x4469, 0x0017, 0x002d, 0x000d, 0x0005, 0x0023, 0x0012, 0x002b,
    0xff01, 0x000b, 0x000a, 0x0015,
];
const ALGORITHMS: [u16; 8] = [
    0x0403, 0x0804, 0x0401, 0x0503, 0x0805, 0x0501, 0x0806, 0x0601,
];

/// The hello of the specification's example, with GREASE where clients put it.
fn example(protocol: &[u8], algorithms: &[u16]) -> Vec<u8> {
    let body = |kind| match kind {
        0 => server_name("example.com"),
        0x0010 => {
            let name = [&[protocol.len() as u8][..], protocol].concat();
            extension(kind, &vector_16(&name))
        }
        0x000d => extension(kind, &vector_16(&codes(algorithms))),
        0x002b => extension(kind, &[6, 0x1a, 0x1a, 3, 3, 3, 4]),
        kind => extension(kind, &[]),
    };
    let mut extensions = vec![extension(0x0a0a, &[])];
    extensions.extend(EXTENSIONS.map(body));
    extensions.push(extension(0xeaea, &[0]));
    let ciphers = [&[0xaaaa][..], &CIPHERS].concat();
    hello(&ciphers, &extensions)
}

fn of(message: &[u8], carrier: Carrier) -> String {
    let hello = Hello::read(&message[4..]).expect("a hello");
    Ja4::of(&hello, carrier, &mut Vec::new()).to_string()
}

#[test]
fn the_example_has_its_fingerprint() {
    let message = example(b"h2", &ALGORITHMS);
    assert_eq!(
        of(&message, Carrier::Tcp),
        "t13d1516h2_8daaf6152771_e5627efa2ab1"
    );
    assert_eq!(
        of(&message, Carrier::Quic),
        "q13d1516h2_8daaf6152771_e5627efa2ab1"
    );
    let hello = Hello::read(&message[4..]).expect("a hello");
    assert_eq!(
        Ja4::raw(&hello, Carrier::Tcp),
        "t13d1516h2_002f,0035,009c,009d,1301,1302,1303,c013,c014,c02b,c02c,c02f,c030,cca8,cca9_\
         0005,000a,000b,000d,0012,0015,0017,001b,0023,002b,002d,0033,4469,ff01_\
         0403,0804,0401,0503,0805,0501,0806,0601"
    );
    // Without signature algorithms there is no underscore before the hash.
    assert_eq!(
        of(&example(b"h2", &[]), Carrier::Tcp),
        "t13d1516h2_8daaf6152771_6d807ffa2a79"
    );
}

#[test]
fn alpn_has_its_two_characters() {
    let cases: [(&[u8], &str); 12] = [
        (b"h2", "h2"),
        (b"http/1.1", "h1"),
        (b"", "00"),
        (b"a", "aa"),
        (&[0xab], "ab"),
        (&[0x20], "20"),
        (&[0xab, 0xcd], "ad"),
        (&[0x20, 0x61], "21"),
        (&[0x30, 0xab], "3b"),
        (&[0x61, 0x20], "60"),
        (&[0x30, 0x31, 0xab, 0xcd], "3d"),
        (&[0x30, 0xab, 0xcd, 0x31], "01"),
    ];
    for (protocol, characters) in cases {
        let name = of(&example(protocol, &ALGORITHMS), Carrier::Tcp);
        assert_eq!(&name[8..10], characters, "{protocol:?}");
    }
}

#[test]
fn empty_lists_and_old_versions_have_their_marks() {
    assert_eq!(
        of(&hello(&[], &[]), Carrier::Tcp),
        "t12i000000_000000000000_000000000000"
    );
    let grease: Vec<u16> = vec![0x0a0a; 3];
    assert_eq!(
        of(&hello(&grease, &[]), Carrier::Tcp),
        "t12i000000_000000000000_000000000000"
    );
    for (version, name) in [
        (0x0302, "11"),
        (0x0301, "10"),
        (0x0300, "s3"),
        (0x0305, "00"),
    ] {
        let mut message = hello(&[0x002f], &[]);
        message[4..6].copy_from_slice(&u16::to_be_bytes(version));
        assert_eq!(&of(&message, Carrier::Tcp)[1..3], name);
    }
    let many: Vec<u16> = (0x1301..0x1301 + 120).collect();
    assert_eq!(&of(&hello(&many, &[]), Carrier::Tcp)[4..6], "99");
}
