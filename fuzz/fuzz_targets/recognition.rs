//! Flows of arbitrary packets through a recognizer with little memory: it never panics, decides a flow once, and holds nothing in the end.
//!
//! Four bytes say what a packet is: flow and kind, place, flags, length; its payload follows.
#![no_main]

use dpb_net::flow::{Direction, Flags};
use dpb_net::recognition::{
    Applications, Limits, Mark, Outcome, Packet, Recognizer, Segment, Settings,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(init: dpb_fuzz::plant(seeds()), |input: &[u8]| {
    let Some((&mode, mut bytes)) = input.split_first() else {
        return;
    };
    let settings = Settings {
        limits: Limits { undecided_max: 3, names_max: 8, ..Limits::default() },
        has_ja4: true,
        follows_upgrades: mode & 1 == 0,
        has_rules: mode & 2 != 0,
        seed: 7,
    };
    let port = [53, 80, 443, 123, 1194, 502, 25, 9999][usize::from(mode >> 2 & 7)];
    let mut recognizer = Recognizer::new(settings, Applications::built_in());
    let mut marks = [Mark::default(); 8];
    let mut now_ms = 0;
    while let [kind, place, flags, len, rest @ ..] = bytes {
        let (payload, rest) = rest.split_at(rest.len().min(usize::from(*len) * 4));
        bytes = rest;
        now_ms += u32::from(*place);
        let flow = usize::from(kind & 7);
        let direction = if kind & 8 == 0 { Direction::Up } else { Direction::Down };
        let ports = if kind & 8 == 0 { [40_000, port] } else { [port, 40_000] };
        let segment = (kind & 16 == 0).then(|| Segment {
            sequence: u32::from(*place).wrapping_mul(if kind & 32 == 0 { 4 } else { 400 }).wrapping_sub(100),
            flags: Flags(*flags),
        });
        let packet = Packet { flow: flow as u64, direction, segment, addresses: [1, 2], ports, payload };
        let before = marks[flow].label();
        let outcome = recognizer.packet(&mut marks[flow], &packet, now_ms);
        assert_eq!(matches!(outcome, Outcome::Known(_)), before.is_some());
        assert_eq!(outcome.verdict().is_some(), before.is_none() && marks[flow].label().is_some());
        if kind & 64 != 0 {
            recognizer.candidates(|candidate| assert!(candidate.bytes.len() <= 8192));
        }
    }
    for mark in &mut marks {
        recognizer.end(mark, now_ms);
    }
    assert_eq!(recognizer.undecided(), 0);
});

fn seeds() -> Vec<Vec<u8>> {
    let request = b"GET / HTTP/1.1\r\nHost: a.b\r\n\r\n  ";
    let packet = |head: [u8; 4], payload: &[u8]| [&head[..], payload].concat();
    vec![
        [
            &[4][..],
            &packet([0, 25, 2, 0], b""),
            &packet([0, 26, 16, 2], &request[..8]),
            &packet([0, 28, 16, 6], &request[8..]),
        ]
        .concat(),
        [
            &[4 << 2][..],
            &packet([16, 0, 0, 5], &[0x23; 20]),
            &packet([24, 0, 0, 12], &[0x24; 48]),
        ]
        .concat(),
    ]
}
