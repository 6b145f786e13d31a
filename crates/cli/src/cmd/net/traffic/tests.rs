//! Flags of traffic, read and refused; records that lead back to them.

use super::*;

fn flags(words: &[&str]) -> Result<TrafficFlags, clap::Error> {
    use clap::{Args as _, FromArgMatches as _};
    let command = TrafficFlags::augment_args(clap::Command::new("x"));
    let matches = command.no_binary_name(true).try_get_matches_from(words)?;
    TrafficFlags::from_arg_matches(&matches)
}

#[test]
fn sizes_are_those_of_the_wire() {
    let found = sizes("64,512..1024,imix-csit,imix-csit-from-84,uniform-64-1518,imix-genome-ag")
        .expect("sizes");
    let names: Vec<String> = found.iter().map(Size::to_string).collect();
    let right = [
        "64",
        "512",
        "1024",
        "imix-csit",
        "imix-csit-from-84",
        "uniform-64-1518",
        "imix-genome-ag",
    ];
    assert_eq!(names, right);
    let ends: Vec<(usize, usize)> = (found.iter())
        .map(|size| (size.sizes.min() + 4, size.sizes.max() + 4))
        .collect();
    let right = [
        (64, 64),
        (512, 512),
        (1024, 1024),
        (64, 1518),
        (84, 1518),
        (64, 1518),
        (64, 1518),
    ];
    assert_eq!(ends, right);
    assert_eq!(found.0[0].value(), Value::Int(64));
    assert_eq!(found.0[3].value(), Value::Text("imix-csit".to_owned()));
    for wrong in [
        "63",
        "16001",
        "imix",
        "uniform-64",
        "uniform-128-64",
        "imix-genome-x",
        "64,",
        "imix-csit-from-1",
    ] {
        assert!(sizes(wrong).is_err(), "{wrong}");
    }
}

/// RFC 2544, appendix B: 14,880 frames of 64 bytes a second fill 10 Mb/s.
#[test]
fn a_rate_of_bits_is_that_of_its_layer() {
    let rate = Unit::WireBits.packets_per_s(1e7, 60.0);
    assert_eq!(rate as u32, 14_880);
    assert_eq!(Unit::FrameBits.packets_per_s(512e3, 60.0), 1000.0);
    assert_eq!(Unit::BufferBits.packets_per_s(480e3, 60.0), 1000.0);
    assert_eq!(Unit::Packets.packets_per_s(5.0, 60.0), 5.0);
}

#[test]
fn combinations_and_their_profiles() {
    let asked = flags(&[
        "--size",
        "64,1518",
        "--flows",
        "1,8",
        "--family",
        "both",
        "--clients",
        "10.1.0.0/24",
    ])
    .expect("flags");
    assert_eq!(asked.each().len(), 4);
    assert!(asked.one().is_err());
    let profile = asked.profile(3, asked.each()[3]);
    assert_eq!((profile.sizes, profile.flows.live), (Sizes::Fixed(1514), 8));
    assert_eq!(
        (profile.ipv6_share, profile.addresses.client_bits),
        (0.5, 8)
    );
    assert!(asked.generator(3, asked.each()[3]).is_ok());
    let why = asked
        .generator(3, asked.each()[0])
        .expect_err("64 bytes of IPv6");
    assert!(why.message.contains("take 84 bytes"), "{why}");
}

#[test]
fn what_is_written_wrong_is_refused() {
    for (flag, wrong) in [
        ("--clients", "10.0.0.0/4"),
        ("--clients", "10.0.0.1/16"),
        ("--client-mac", "02:00:00:00:00"),
        ("--server-mac", "02:00:00:00:00:2"),
        ("--lengths", "short"),
        ("--application", "gopher"),
        ("--application", "dns=0"),
        ("--vlan", "4096"),
        ("--replies", "2"),
    ] {
        assert!(flags(&[flag, wrong]).is_err(), "{flag} {wrong}");
    }
    let said = flags(&["--application", "tls-1.3=2,dns", "--size", "128"]).expect("flags");
    let profile = said.profile(1, said.one().expect("one"));
    let shares = profile.applications.expect("applications").shares;
    assert_eq!(shares, [(Application::Tls13, 2.0), (Application::Dns, 1.0)]);
}

/// What a record says leads back to the same flags.
#[test]
fn a_record_has_the_words_of_the_command_line() {
    let asked = flags(&[
        "--size",
        "imix-trex",
        "--lengths",
        "agh-campus",
        "--vlan",
        "7",
        "--transport",
        "udp",
    ])
    .expect("flags");
    let chosen = asked.one().expect("one");
    let record = asked.note(Record::new("test", dpb_core::Evidence::Measured, 1), chosen);
    let words: Vec<String> = (record.parameters.iter())
        .map(|(name, value)| format!("--{}={value}", name.replace('_', "-")))
        .collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let again = flags(&words).expect("its own words");
    assert_eq!(
        again.profile(1, again.one().expect("one")),
        asked.profile(1, chosen)
    );
}
