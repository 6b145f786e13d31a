//! Packets of a file through a recognizer, and what it said.
// Each of the programs that share this needs a part of it.
#![allow(dead_code)]

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use dpb_net::flow::{Direction, Flags};
use dpb_net::recognition::{Mark, Outcome, Packet, Recognizer, Segment, Verdict};

use super::file::{self, Seen};

/// What tells flows apart, lower end first.
pub(crate) type Tuple = ([(u128, u16); 2], bool);

/// The tuple and the direction of a packet.
pub(crate) fn tuple(seen: &Seen) -> (Tuple, Direction) {
    let [from, to] = [0, 1].map(|side| (seen.addresses[side], seen.ports[side]));
    match from <= to {
        true => (([from, to], seen.tcp.is_some()), Direction::Up),
        false => (([to, from], seen.tcp.is_some()), Direction::Down),
    }
}

/// The packet as a recognizer wants it.
pub(crate) fn packet(seen: &Seen, flow: u64, direction: Direction) -> Packet<'_> {
    let segment = seen.tcp.map(|(sequence, flags)| Segment {
        sequence,
        flags: Flags(flags),
    });
    Packet {
        flow,
        direction,
        segment,
        addresses: seen.addresses,
        ports: seen.ports,
        payload: &seen.payload,
    }
}

/// A file, and its packets.
pub(crate) type Captured = (PathBuf, Vec<Seen>);

/// What the examples are told: `[--repeat N] FILE|FOLDER …`. Returns N, if it is there, and the packets of each file below these paths, in order.
///
/// # Errors
/// What to say to whoever called it otherwise, or a file that cannot be read.
pub(crate) fn arguments() -> Result<(Option<usize>, Vec<Captured>), String> {
    const USAGE: &str = "[--repeat N] FILE|FOLDER …, where N is 1 at least";
    let mut repeat = None;
    let mut paths = Vec::new();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        if argument == "--repeat" {
            let count = arguments.next().and_then(|count| count.parse().ok());
            repeat = Some(count.filter(|count| *count > 0).ok_or(USAGE)?);
        } else {
            collect(Path::new(&argument), &mut paths);
        }
    }
    if paths.is_empty() {
        return Err(USAGE.to_owned());
    }
    paths.sort();
    let mut files = Vec::new();
    for path in paths {
        let bytes = std::fs::read(&path).map_err(|why| format!("{}: {why}", path.display()))?;
        files.push((path, file::packets(&bytes)));
    }
    Ok((repeat, files))
}

/// The files below a folder, or the file itself.
fn collect(path: &Path, into: &mut Vec<PathBuf>) {
    match std::fs::read_dir(path) {
        Ok(entries) => entries
            .flatten()
            .for_each(|entry| collect(&entry.path(), into)),
        Err(_) => into.push(path.to_owned()),
    }
}

/// A packet with its flow's number.
pub(crate) struct Numbered<'a> {
    pub(crate) flow: usize,
    pub(crate) time_ms: u32,
    pub(crate) direction: Direction,
    pub(crate) seen: &'a Seen,
}

/// All packets with the numbers of their flows, and the number of flows. Each file is a net of its own.
pub(crate) fn numbered(files: &[Captured]) -> (Vec<Numbered<'_>>, usize) {
    let mut packets = Vec::new();
    let mut flows = 0;
    for (_, file) in files {
        let mut numbers = HashMap::new();
        let mut time_ms = 0;
        for seen in file {
            time_ms = seen.time_ms.max(time_ms);
            let (tuple, direction) = tuple(seen);
            let flow = *numbers.entry(tuple).or_insert_with(|| {
                flows += 1;
                flows - 1
            });
            packets.push(Numbered {
                flow,
                time_ms,
                direction,
                seen,
            });
        }
    }
    (packets, flows)
}

/// Every flow's verdict. A SYN that opens a connection after another one's data is another flow's, as a flow table has it.
pub(crate) fn verdicts(recognizer: &mut Recognizer, packets: &[Seen]) -> Vec<(Tuple, Verdict)> {
    /// Flow's number, mark, the first SYN's sequence number, true if it is over.
    type Entry = (u64, Mark, Option<u32>, bool);
    let mut flows: HashMap<Tuple, Entry> = HashMap::new();
    let mut found = Vec::new();
    let mut count = 0;
    let mut now_ms = 0;
    for seen in packets {
        now_ms = now_ms.max(seen.time_ms);
        let (tuple, direction) = tuple(seen);
        let opens = match seen.tcp {
            Some((sequence, flags)) if flags & 0x12 == 0x02 => Some(sequence),
            _ => None,
        };
        let entry = flows.entry(tuple).or_insert_with(|| {
            count += 1;
            (count, Mark::default(), None, false)
        });
        if opens.is_some() && entry.2.is_some() && entry.2 != opens {
            let outcome = recognizer.end(&mut entry.1, now_ms);
            if let Some(verdict) = outcome.and_then(Outcome::verdict) {
                found.push((tuple, *verdict));
            }
            count += 1;
            *entry = (count, Mark::default(), opens, false);
        }
        entry.2 = entry.2.or(opens);
        let outcome = recognizer.packet(&mut entry.1, &packet(seen, entry.0, direction), now_ms);
        if let Some(verdict) = outcome.verdict() {
            found.push((tuple, *verdict));
        }
    }
    for (tuple, entry) in &mut flows {
        let outcome = recognizer.end(&mut entry.1, now_ms);
        if let Some(verdict) = outcome.and_then(Outcome::verdict) {
            found.push((*tuple, *verdict));
        }
    }
    found
}
