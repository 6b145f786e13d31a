//! Generated conversations, read by tshark: names in hellos of TLS and QUIC, hosts of HTTP, names of DNS, however they travel.
//!
//! Debian: `apt-get install tshark`. Without it the test is skipped.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::process::Command;

use dpb_net::port::capture::{ByteOrder, Format, Resolution, Writer};
use dpb_net::traffic::application::{Application, Applications, Catalogue, Delivery, QuicDelivery};
use dpb_net::traffic::{
    Flows, Generator, Lengths, Order, Profile, Sizes, StampKey, Start, Traffic,
};

/// Flows of a capture.
const FLOWS: u64 = 12;

/// A capture of all packets of conversations of one application. Returns the names that clients say, each with its number of flows.
fn capture(
    path: &Path,
    application: Application,
    delivery: Delivery,
    quic_delivery: QuicDelivery,
) -> std::io::Result<BTreeMap<String, usize>> {
    let mix = Applications {
        conversations: 5,
        delivery,
        quic_delivery,
        ..Applications::only(application)
    };
    let profile = Profile {
        flows: Flows {
            lengths: Lengths::Fixed(10_000),
            start: Start::Cold,
            order: Order::RoundRobin,
            ..Flows::endless(FLOWS)
        },
        ipv6_share: 0.3,
        sizes: Sizes::Fixed(200),
        applications: Some(mix),
        ..Profile::new(7)
    };
    let generator = Generator::new(&profile).expect("a profile");
    let catalogue = generator.catalogue().expect("conversations");
    let key = StampKey::new(1, 1);
    let format = Format::Pcap(ByteOrder::Little, Resolution::Microseconds);
    let mut file = Writer::new(BufWriter::new(File::create(path)?), format)?;
    let rounds = longest(catalogue);
    let mut names = BTreeMap::new();
    for i in 0..FLOWS * rounds {
        let member = generator.identity(i).member;
        let conversation = catalogue.of(member.flow);
        if member.sequence == 0
            && let Some(name) = conversation.server_name()
        {
            *names.entry(name.to_owned()).or_insert(0) += 1;
        }
        if member.sequence >= conversation.segments().len() as u64 {
            continue;
        }
        let mut frame = vec![0; generator.frame_bytes(i)];
        generator.write(i, 0, &key, &mut frame);
        file.write(i * 10_000, &frame)?;
    }
    file.into_inner().into_inner()?;
    Ok(names)
}

fn longest(catalogue: &Catalogue) -> u64 {
    let lens = catalogue
        .all()
        .iter()
        .map(|conversation| conversation.segments().len());
    lens.max().unwrap_or(0) as u64
}

/// The values of `field` in the packets that `filter` lets through, each with the number of flows that have it. No packet of the capture is
/// malformed, and no checksum wrong.
fn found(path: &Path, filter: &str, field: &str) -> BTreeMap<String, usize> {
    const WRONG: [&str; 4] = [
        "_ws.malformed",
        "ip.checksum.status",
        "tcp.checksum.status",
        "udp.checksum.status",
    ];
    let [malformed, sums @ ..] = WRONG;
    let wrong = sums.map(|status| format!("{status} == 0")).join(" || ");
    let filter = format!("({filter}) || {malformed} || {wrong}");
    let mut tshark = Command::new("tshark");
    tshark.args(["-n", "-o", "tcp.reassemble_out_of_order:TRUE"]);
    // It guesses that the stamp behind a packet is another maker's trailer.
    tshark.args(["--disable-protocol", "f5ethtrailer"]);
    for layer in ["ip", "tcp", "udp"] {
        tshark.args(["-o", &format!("{layer}.check_checksum:TRUE")]);
    }
    tshark.args(["-Y", &filter, "-T", "fields", "-E", "occurrence=f"]);
    let flow = ["ip.src", "ipv6.src", "tcp.srcport", "udp.srcport"];
    for column in WRONG.iter().chain([&field]).chain(&flow) {
        tshark.args(["-e", column]);
    }
    let output = tshark.arg("-r").arg(path).output().expect("tshark runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8(output.stdout).expect("text");
    let mut flows: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in text.lines() {
        let columns: Vec<&str> = line.split('\t').collect();
        let (wrong, rest) = columns.split_at(WRONG.len());
        assert!(wrong[0].is_empty() && !wrong.contains(&"0"), "{line}");
        if !rest[0].is_empty() {
            let value = rest[0].to_owned();
            flows.entry(value).or_default().insert(rest[1..].join(" "));
        }
    }
    flows
        .into_iter()
        .map(|(value, flows)| (value, flows.len()))
        .collect()
}

fn is_there() -> bool {
    let runs = Command::new("tshark").arg("--version").output();
    let is_there = runs.is_ok_and(|output| output.status.success());
    if !is_there {
        println!("skipped: hellos read by tshark: no tshark (Debian: tshark)");
    }
    is_there
}

const SNI: &str = "tls.handshake.extensions_server_name";

#[test]
fn names_are_found_whatever_the_delivery() {
    if !is_there() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("hellos.pcap");
    let whole = QuicDelivery::Whole;
    let mut cases = Vec::new();
    let mut tls = |application, deliveries: &[Delivery]| {
        for delivery in deliveries {
            cases.push((
                application,
                *delivery,
                whole,
                "tls.handshake.type == 1",
                SNI,
            ));
        }
    };
    tls(
        Application::Tls12,
        &[Delivery::Whole, Delivery::Segments(100)],
    );
    tls(
        Application::Tls13,
        &[
            Delivery::SplitAt(1),
            Delivery::SplitAt(9),
            Delivery::Segments(1),
            Delivery::Swapped(100),
            Delivery::Retransmitted(100),
        ],
    );
    tls(
        Application::Tls13PostQuantum,
        &[
            Delivery::Whole,
            Delivery::Swapped(100),
            Delivery::Overlapping(100),
        ],
    );
    cases.push((
        Application::Http,
        Delivery::Whole,
        whole,
        "http.request",
        "http.host",
    ));
    cases.push((
        Application::Http,
        Delivery::Segments(40),
        whole,
        "http.request",
        "http.host",
    ));
    cases.push((
        Application::Dns,
        Delivery::Whole,
        whole,
        "dns.flags.response == 0",
        "dns.qry.name",
    ));
    for delivery in [whole, QuicDelivery::Frames(4), QuicDelivery::Scattered(7)] {
        cases.push((Application::QuicV1, Delivery::Whole, delivery, "quic", SNI));
        cases.push((Application::QuicV2, Delivery::Whole, delivery, "quic", SNI));
    }
    cases.push((
        Application::QuicV1PostQuantum,
        Delivery::Whole,
        whole,
        "quic",
        SNI,
    ));
    for (application, delivery, quic_delivery, filter, field) in cases {
        let mut names = capture(&path, application, delivery, quic_delivery).expect("a capture");
        assert_eq!(names.values().sum::<usize>() as u64, FLOWS);
        if filter == "quic" {
            // tshark tells connections apart by their IDs, which flows of one conversation share.
            names.values_mut().for_each(|flows| *flows = 1);
        }
        let found = found(&path, filter, field);
        assert_eq!(
            found, names,
            "{application:?}, {delivery:?}, {quic_delivery:?}"
        );
    }
}

/// tshark knows the other protocols too.
#[test]
fn banners_are_recognised() {
    if !is_there() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("banners.pcap");
    for (application, filter, field, right) in [
        (
            Application::Ssh,
            "ssh.protocol && tcp.dstport == 22",
            "ssh.protocol",
            "SSH-2.0-dpb_client_1.0",
        ),
        (
            Application::Smb,
            "smb2.cmd == 0 && tcp.dstport == 445",
            "smb2.dialect_count",
            "4",
        ),
        (
            Application::Tls13PostQuantum,
            "tls.handshake.type == 1",
            "tls.handshake.extensions_alpn_str",
            "h2",
        ),
    ] {
        capture(&path, application, Delivery::Whole, QuicDelivery::Whole).expect("a capture");
        let found = found(&path, filter, field);
        let right = BTreeMap::from([(right.to_owned(), FLOWS as usize)]);
        assert_eq!(found, right, "{application:?}");
    }
}
