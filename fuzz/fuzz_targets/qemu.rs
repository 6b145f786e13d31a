//! Any bytes as the stream of the plugin of qemu-user: an error, or counts that fit each other, are the same however the stream comes in pieces, and
//! need the stream to its last word. The first byte chooses the instruction set and what is computed; the stream's beginning is put before the rest.
#![no_main]

use std::io::Read;

use dpb_insight::trace::{Analyser, Geometry, Isa, Operation, Options, Tally, TraceError, read_plugin};
use libfuzzer_sys::fuzz_target;

const MAGIC: &[u8] = b"DPBTRAC1";

/// A reader that gives few bytes at a time.
struct Pieces<'a>(&'a [u8]);

impl Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let bytes = buffer.len().min(5);
        self.0.read(&mut buffer[..bytes])
    }
}

fn read(stream: &mut dyn Read, chosen: u8) -> Result<Tally, TraceError> {
    let isa = if chosen & 1 == 0 { Isa::X86 } else { Isa::A64 };
    let options = Options {
        geometry: Geometry::NAMED[usize::from(chosen >> 2) % Geometry::NAMED.len()],
        mica_from: (chosen & 2 != 0).then_some(u64::from(chosen >> 4)),
        working_set_from: u64::from(chosen >> 5),
        has_models: true,
    };
    let mut analyser = Analyser::new(isa, options);
    read_plugin(stream, &mut analyser)?;
    Ok(analyser.finish())
}

fuzz_target!(init: dpb_fuzz::plant(seeds()), |input: &[u8]| {
    let Some((&chosen, rest)) = input.split_first() else {
        return;
    };
    let stream = [MAGIC, rest].concat();
    let mut left = &stream[..];
    let whole = read(&mut left, chosen);
    let used = stream.len() - left.len();
    let in_pieces = read(&mut Pieces(&stream), chosen);
    match (&whole, &in_pieces) {
        (Ok(one), Ok(other)) => assert_eq!(one, other),
        (Err(one), Err(other)) => assert_eq!(one.to_string(), other.to_string()),
        _ => panic!("{whole:?} whole, {in_pieces:?} in pieces"),
    }
    let Ok(tally) = whole else { return };
    // The end is a word of its own, without which the program did not end.
    let cut = read(&mut &stream[..used - 8], chosen);
    assert!(matches!(cut, Err(TraceError::CutOff)), "{cut:?}");
    check(&tally);
});

fn check(tally: &Tally) {
    let count = |name: &str| tally.count(name).unwrap_or(0);
    let instructions = count("instructions");
    let sum: u64 = Operation::ALL.iter().map(|it| count(it.name())).sum();
    assert_eq!(sum, instructions);
    assert_eq!(count("undecoded"), count("unknown"));
    let accessing = count("load_store");
    assert!(accessing <= instructions && accessing <= count("loading") + count("storing"));
    assert!(accessing <= count("loads") + count("stores") + count("modifies"));
    assert!(count("conditional_branches_taken") <= count("conditional_branches"));
    assert!(count("conditional_branches") <= count("branch"));
    for cache in ["l1d", "dtlb", "l1i", "itlb"] {
        let of = if cache.ends_with('d') || cache == "dtlb" {
            count("loads") + count("stores") + count("modifies")
        } else {
            instructions
        };
        assert!(count(&format!("{cache}_misses")) <= of, "{cache}");
    }
    for (name, value) in tally.metrics(Some(3)) {
        assert!(value.is_finite() && value >= 0.0, "{name}: {value}");
        if name.ends_with("_share") || name.ends_with("_ratio") {
            assert!(value <= 1.0, "{name}: {value}");
        }
    }
}

/// A loop of three instructions that changes memory, on each instruction set, with and without MICA's sets; and two threads.
fn seeds() -> Vec<Vec<u8>> {
    let word = |kind: u64, thread: u64, count: usize| kind << 56 | thread << 32 | count as u64;
    let instruction = |address: u64, bytes: &[u8]| {
        let mut all = [0; 16];
        all[..bytes.len()].copy_from_slice(bytes);
        let (low, high) = all.split_at(8);
        let of = |half: &[u8]| u64::from_le_bytes(half.try_into().expect("eight bytes"));
        [address, bytes.len() as u64, of(low), of(high)]
    };
    let access = |store: u64, log: u64, at: u64, address: u64| {
        1 << 63 | store << 62 | log << 58 | at << 49 | address
    };
    let stream = |chosen: u8, code: &[[u64; 4]], threads: u64| {
        let mut words = vec![word(1, 0, 1 + 4 * code.len()), 0];
        words.extend(code.iter().flatten());
        for turn in 0..4 {
            let events = [0, access(0, 2, 0, 0x8000), access(1, 2, 0, 0x8000 + 64 * turn)];
            words.push(word(2, turn % threads, events.len()));
            words.extend(events);
        }
        words.push(word(3, 0, 0));
        let bytes = words.iter().flat_map(|word| word.to_ne_bytes());
        [vec![chosen], bytes.collect()].concat()
    };
    let x86 = [
        instruction(0x1000, &[0x83, 0x44, 0x24, 0xf8, 0x01]),
        instruction(0x1005, &[0xff, 0xc9]),
        instruction(0x1007, &[0x75, 0xf7]),
    ];
    let arm = [
        instruction(0x1000, &0xf940_0020_u32.to_le_bytes()),
        instruction(0x1004, &0x9100_0400_u32.to_le_bytes()),
        instruction(0x1008, &0x5400_0041_u32.to_le_bytes()),
    ];
    vec![
        stream(0, &x86, 1),
        stream(2, &x86, 2),
        stream(6, &x86[..1], 1),
        stream(1, &arm, 1),
        stream(11, &arm, 3),
    ]
}
