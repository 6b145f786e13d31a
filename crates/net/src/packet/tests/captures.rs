//! Captures as tshark reads them: every packet that we read has the addresses, ports, flags and VLANs that tshark finds.
//!
//! `DPB_CAPTURES` names a folder of pcap and pcapng files, which is searched with all folders in it. Such files are others', and not part of dpb: tcpdump's (`tests/` of
//! github.com/the-tcpdump-group/tcpdump, BSD), suricata-verify's (`tests/` of github.com/OISF/suricata-verify, MIT).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::packet::{Ends, Frame, Start, ether_type};

/// A frame of a capture.
struct Captured {
    number: usize,
    bytes: Vec<u8>,
    /// False if only its start was captured.
    is_whole: bool,
}

/// What a link type of libpcap's list starts with; `None` of any other, whose files are passed over. Of raw IP the first byte decides.
fn start_of(link_type: u32, bytes: &[u8]) -> Option<Start> {
    match (link_type, bytes.first().map(|first| first >> 4)) {
        (1, _) => Some(Start::Ethernet),
        (101 | 228, Some(4)) => Some(Start::Ipv4),
        (101 | 229, Some(6)) => Some(Start::Ipv6),
        _ => None,
    }
}

/// Numbers in a file's own byte order.
struct Reader<'a> {
    bytes: &'a [u8],
    is_little: bool,
}

impl Reader<'_> {
    fn u32(&self, at: usize) -> Option<u32> {
        let bytes = self.bytes.get(at..)?.first_chunk().copied()?;
        Some(match self.is_little {
            true => u32::from_le_bytes(bytes),
            false => u32::from_be_bytes(bytes),
        })
    }

    fn u16(&self, at: usize) -> Option<u16> {
        let bytes = self.bytes.get(at..)?.first_chunk().copied()?;
        Some(match self.is_little {
            true => u16::from_le_bytes(bytes),
            false => u16::from_be_bytes(bytes),
        })
    }
}

/// The frames of a capture with the link type of each, as far as they can be read.
fn frames(file: &[u8]) -> Vec<(u32, Captured)> {
    let mut frames = Vec::new();
    let mut push = |link_type, bytes: &[u8], len: u32| {
        let number = frames.len() + 1;
        let captured = Captured {
            number,
            bytes: bytes.to_vec(),
            is_whole: bytes.len() == len as usize,
        };
        frames.push((link_type, captured));
    };
    match file.first_chunk::<4>() {
        Some(&[0xd4, 0xc3, 0xb2, 0xa1] | &[0x4d, 0x3c, 0xb2, 0xa1]) => {
            let _ = pcap(file, true, &mut push);
        }
        Some(&[0xa1, 0xb2, 0xc3, 0xd4] | &[0xa1, 0xb2, 0x3c, 0x4d]) => {
            let _ = pcap(file, false, &mut push);
        }
        Some(&[0x0a, 0x0d, 0x0d, 0x0a]) => {
            let _ = pcapng(file, &mut push);
        }
        _ => {}
    }
    frames
}

fn pcap(bytes: &[u8], is_little: bool, push: &mut impl FnMut(u32, &[u8], u32)) -> Option<()> {
    let file = Reader { bytes, is_little };
    let link_type = file.u32(20)? & 0xffff;
    let mut at = 24;
    loop {
        let captured = file.u32(at + 8)? as usize;
        let len = file.u32(at + 12)?;
        at += 16;
        push(link_type, bytes.get(at..at + captured)?, len);
        at += captured;
    }
}

fn pcapng(bytes: &[u8], push: &mut impl FnMut(u32, &[u8], u32)) -> Option<()> {
    let mut file = Reader {
        bytes,
        is_little: true,
    };
    let mut link_types = Vec::new();
    let mut at = 0;
    loop {
        if bytes.get(at..at + 4)? == [0x0a, 0x0d, 0x0d, 0x0a] {
            file.is_little = bytes.get(at + 8..at + 12)? == [0x4d, 0x3c, 0x2b, 0x1a];
            link_types.clear();
        }
        let block_bytes = file.u32(at + 4)? as usize;
        match file.u32(at)? {
            1 => link_types.push(u32::from(file.u16(at + 8)?)),
            3 => {
                let len = file.u32(at + 8)?;
                let captured = (len as usize).min(block_bytes.saturating_sub(16));
                push(
                    *link_types.first()?,
                    bytes.get(at + 12..)?.get(..captured)?,
                    len,
                );
            }
            6 => {
                let link_type = *link_types.get(file.u32(at + 8)? as usize)?;
                let captured = file.u32(at + 20)? as usize;
                push(
                    link_type,
                    bytes.get(at + 28..)?.get(..captured)?,
                    file.u32(at + 24)?,
                );
            }
            _ => {}
        }
        at += block_bytes.max(12);
    }
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    for path in entries.filter_map(Result::ok).map(|entry| entry.path()) {
        let kind = path.extension().and_then(|kind| kind.to_str());
        if path.is_dir() {
            files(&path, found);
        } else if matches!(kind, Some("pcap" | "pcapng" | "cap")) {
            found.push(path);
        }
    }
}

/// The fields that tshark is asked for, all occurrences of each: of a tunnel the outer one is first.
const FIELDS: [&str; 13] = [
    "frame.number",
    "vlan.id",
    "ieee8021ad.id",
    "ip.src",
    "ip.dst",
    "ipv6.src",
    "ipv6.dst",
    "tcp.srcport",
    "tcp.dstport",
    "tcp.flags",
    "udp.srcport",
    "udp.dstport",
    "sctp.srcport",
];

/// What tshark finds in each frame of `file`, by the frame's number.
fn tshark(file: &Path) -> Result<BTreeMap<usize, Vec<Vec<String>>>, std::io::Error> {
    let mut command = Command::new("tshark");
    command.args([
        "-n",
        "-T",
        "fields",
        "-E",
        "occurrence=a",
        "-E",
        "aggregator=;",
    ]);
    // Each packet by itself.
    for preference in [
        "ip.defragment:FALSE",
        "ipv6.defragment:FALSE",
        "tcp.desegment_tcp_streams:FALSE",
    ] {
        command.args(["-o", preference]);
    }
    for field in FIELDS {
        command.args(["-e", field]);
    }
    let output = command.arg("-r").arg(file).output()?;
    let mut frames = BTreeMap::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let fields: Vec<Vec<String>> = line
            .split('\t')
            .map(|field| {
                field
                    .split(';')
                    .filter(|one| !one.is_empty())
                    .map(str::to_owned)
                    .collect()
            })
            .collect();
        if let Some(number) = fields[0].first().and_then(|number| number.parse().ok()) {
            frames.insert(number, fields);
        }
    }
    Ok(frames)
}

/// What differs between what we and tshark say of a frame.
fn difference(frame: &Frame<'_>, theirs: &[Vec<String>]) -> Option<String> {
    let theirs = |name: &str| {
        let at = FIELDS
            .iter()
            .position(|field| *field == name)
            .expect("asked for");
        theirs.get(at).map_or(&[][..], Vec::as_slice)
    };
    let differ = |what: &str, ours: String, theirs: Option<&String>| {
        (theirs != Some(&ours)).then(|| format!("{what}: {ours}, tshark {theirs:?}"))
    };
    // It has a list for each kind of tag.
    let mut ids = [theirs("vlan.id").iter(), theirs("ieee8021ad.id").iter()];
    for tag in frame.tags() {
        let id = ids[usize::from(tag.ether_type == ether_type::SERVICE_TAG)].next();
        if let Some(difference) = differ("VLAN", tag.id().to_string(), id) {
            return Some(difference);
        }
    }
    let [from, to] = frame.addresses()?;
    let [source, destination] = match frame.ends()? {
        Ends::V4(_) => ["ip.src", "ip.dst"],
        Ends::V6(_) => ["ipv6.src", "ipv6.dst"],
    };
    let addresses = differ("source", from.to_string(), theirs(source).first())
        .or_else(|| differ("destination", to.to_string(), theirs(destination).first()));
    let Some(ports) = frame.ports().filter(|_| addresses.is_none()) else {
        return addresses;
    };
    let ports = ports.map(|port| port.to_string());
    if let Some(flags) = frame.tcp_flags() {
        let low = |flags: &String| {
            let flags = flags.trim_start_matches("0x");
            u16::from_str_radix(flags, 16).map_or_else(
                |_| flags.to_owned(),
                |flags| format!("{:02x}", flags & 0xff),
            )
        };
        let theirs_low = theirs("tcp.flags").first().map(low);
        return differ(
            "source port",
            ports[0].clone(),
            theirs("tcp.srcport").first(),
        )
        .or_else(|| {
            differ(
                "destination port",
                ports[1].clone(),
                theirs("tcp.dstport").first(),
            )
        })
        .or_else(|| differ("flags", format!("{:02x}", flags.0), theirs_low.as_ref()));
    }
    if frame.protocol() == Some(dpb_core::packet::UDP) {
        return differ(
            "source port",
            ports[0].clone(),
            theirs("udp.srcport").first(),
        )
        .or_else(|| {
            differ(
                "destination port",
                ports[1].clone(),
                theirs("udp.dstport").first(),
            )
        });
    }
    differ(
        "source port",
        ports[0].clone(),
        theirs("sctp.srcport").first(),
    )
}

#[test]
fn captures_are_read_as_tshark_reads_them() {
    let Some(folder) = std::env::var_os("DPB_CAPTURES") else {
        return println!(
            "skipped: no captures; fetch tests/ of github.com/the-tcpdump-group/tcpdump or github.com/OISF/suricata-verify, and name the folder in DPB_CAPTURES"
        );
    };
    if Command::new("tshark").arg("--version").output().is_err() {
        return println!("skipped: no tshark; apt-get install tshark");
    }
    let mut paths = Vec::new();
    files(Path::new(&folder), &mut paths);
    paths.sort();
    assert!(
        !paths.is_empty(),
        "no captures in {}",
        Path::new(&folder).display()
    );
    let (mut compared, mut refused, mut wrong) = (0, BTreeMap::new(), Vec::new());
    for path in paths {
        let frames = frames(&std::fs::read(&path).expect("readable"));
        let is_known = |(link_type, frame): &(u32, Captured)| {
            frame.is_whole && start_of(*link_type, &frame.bytes).is_some()
        };
        if !frames.iter().any(is_known) {
            continue;
        }
        let theirs = tshark(&path).expect("tshark runs");
        for (link_type, captured) in frames.iter().filter(|frame| is_known(frame)) {
            let Some(theirs) = theirs.get(&captured.number) else {
                continue;
            };
            let start = start_of(*link_type, &captured.bytes).expect("known");
            match Frame::read_from(&captured.bytes, start) {
                Ok(frame) => {
                    compared += 1;
                    if let Some(difference) = difference(&frame, theirs) {
                        wrong.push(format!(
                            "{} {}: {difference}",
                            path.display(),
                            captured.number
                        ));
                    }
                }
                Err(refusal) => *refused.entry(refusal.to_string()).or_insert(0) += 1,
            }
        }
    }
    println!("{compared} frames compared; refused: {refused:?}");
    assert!(
        wrong.is_empty(),
        "{} differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(compared > 0, "nothing to compare");
}
