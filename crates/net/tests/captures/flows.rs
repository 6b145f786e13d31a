//! Packets of a file through a recognizer, and what it said.
// Each of the programs that share this needs a part of it.
#![allow(dead_code)]

use std::collections::HashMap;

use dpb_net::flow::{Direction, Flags};
use dpb_net::recognition::{Mark, Packet, Recognizer, Segment, Verdict};

use super::file::Seen;

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
            if let Some(verdict) = recognizer.end(&mut entry.1, now_ms) {
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
        if let Some(verdict) = recognizer.end(&mut entry.1, now_ms) {
            found.push((*tuple, *verdict));
        }
    }
    found
}
