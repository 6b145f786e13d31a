//! Any text as the trace of Valgrind's lackey: an error, or no more instructions and accesses than it has lines of them, the same however the text
//! comes in pieces and whatever Valgrind says between. And one trace that is told as lackey and as the plugin of qemu-user would tell it is counted the same.
#![no_main]

use std::fmt::Write;
use std::io::{BufRead, BufReader};

use dpb_insight::trace::{
    Analyser, Geometry, Isa, Options, Tally, TraceError, read_lackey, read_plugin,
};
use libfuzzer_sys::fuzz_target;

const OPTIONS: Options = Options {
    geometry: Geometry::NAMED[0],
    mica_from: Some(2),
    working_set_from: 4,
    has_models: true,
};

/// Bytes of an instruction that follow from its place; none in one page of eight.
fn code(address: u64, length: usize) -> Option<Vec<u8>> {
    let bytes = (0..length as u64).map(|at| (address ^ address >> 7 ^ at.wrapping_mul(0x9d)) as u8);
    (address >> 12 & 7 != 7 && length <= 15).then(|| bytes.collect())
}

fn read(text: &mut dyn BufRead) -> Result<Tally, TraceError> {
    let mut analyser = Analyser::new(Isa::X86, OPTIONS);
    read_lackey(text, &mut analyser, &mut code)?;
    Ok(analyser.finish())
}

fuzz_target!(init: dpb_fuzz::plant(seeds()), |input: &[u8]| {
    text(input);
    told_twice(input);
});

fn text(input: &[u8]) {
    let whole = read(&mut &*input);
    let in_pieces = read(&mut BufReader::with_capacity(3, input));
    match (&whole, &in_pieces) {
        (Ok(one), Ok(other)) => assert_eq!(one, other),
        (Err(one), Err(other)) => assert_eq!(one.to_string(), other.to_string()),
        _ => panic!("{whole:?} whole, {in_pieces:?} in pieces"),
    }
    let Ok(tally) = whole else { return };
    let count = |name: &str| tally.count(name).unwrap_or(0);
    let lines = |begins: &[&[u8]]| {
        let all = input.split(|byte| *byte == b'\n');
        all.filter(|line| begins.iter().any(|begin| line.starts_with(begin)))
            .count() as u64
    };
    assert!(count("instructions") <= lines(&[b"I  "]));
    let accesses = count("loads") + count("stores") + count("modifies");
    assert!(accesses <= lines(&[b" L ", b" S ", b" M "]));
    // Words of Valgrind in the middle of what it traces.
    let said = input.split(|byte| *byte == b'\n').flat_map(|line| [line, b"==7== said"]);
    let said = said.collect::<Vec<_>>().join(&b'\n');
    match read(&mut &said[..]) {
        Ok(other) => assert_eq!(other, tally),
        Err(why) => panic!("{why}"),
    }
}

/// A program of some blocks, and what it does, out of arbitrary bytes; in both forms.
fn told_twice(input: &[u8]) {
    let mut bytes = input.iter().copied();
    let mut next = move || bytes.next();
    let Some(blocks) = next().map(|byte| usize::from(byte % 6) + 1) else {
        return;
    };
    let mut address = 0x40_0000 + u64::from(next().unwrap_or(0)) * 59;
    let mut words: Vec<u64> = vec![u64::from_le_bytes(*b"DPBTRAC1")];
    let mut program: Vec<Vec<(u64, usize)>> = Vec::new();
    for number in 0..blocks {
        let instructions = usize::from(next().unwrap_or(0) % 5) + 1;
        words.extend([1 << 56 | (1 + 4 * instructions) as u64, number as u64]);
        let mut block = Vec::new();
        for _ in 0..instructions {
            let length = usize::from(next().unwrap_or(0) % 15) + 1;
            // Only where lackey finds the bytes too.
            while code(address, length).is_none() {
                address += 4096;
            }
            let mut sixteen = [0; 16];
            sixteen[..length].copy_from_slice(&code(address, length).unwrap_or_default());
            let number = u128::from_le_bytes(sixteen);
            words.extend([address, length as u64, number as u64, (number >> 64) as u64]);
            block.push((address, length));
            address += length as u64;
        }
        address += u64::from(next().unwrap_or(0));
        program.push(block);
    }
    let (mut events, mut text) = (Vec::new(), String::new());
    while let Some(number) = next() {
        let number = usize::from(number) % program.len();
        events.push(number as u64);
        for (at, (address, length)) in program[number].iter().enumerate() {
            let _ = writeln!(text, "I  {address:08x},{length}");
            for _ in 0..next().unwrap_or(0) % 4 {
                let [kind, high, low] = [next(), next(), next()].map(|it| u64::from(it.unwrap_or(0)));
                let (is_store, log) = (kind & 1, kind >> 1 & 7);
                let place = high << 11 | low << 3;
                events.push(1 << 63 | is_store << 62 | log << 58 | (at as u64) << 49 | place);
                let letter = if is_store == 0 { 'L' } else { 'S' };
                let _ = writeln!(text, " {letter} {place:08x},{}", 1u64 << log);
            }
        }
    }
    for chunk in events.chunks(1000) {
        words.push(2 << 56 | chunk.len() as u64);
        words.extend(chunk);
    }
    words.push(3 << 56);
    let stream: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let mut analyser = Analyser::new(Isa::X86, OPTIONS);
    read_plugin(&mut &stream[..], &mut analyser).expect("a stream");
    let told = read(&mut text.as_bytes()).expect("a trace");
    assert_eq!(analyser.finish(), told, "{text}");
}

/// A trace of each kind of line.
fn seeds() -> Vec<Vec<u8>> {
    let lines = "==7== Lackey\nI  04001090,3\n L 1ffe80,8\n S 1ffe80,8\nI  04001093,5\n M 1ffe88,4\nI  04001090,3\n";
    let repeated = "I  7007,2\n S 9000,1\nI  7007,2\n S 9001,1\n--7-- said\n\nI  ffffffffffffffff,15\n L ffffffffffffffff,64\n";
    let program: Vec<u8> = (0..120).map(|at: u8| at.wrapping_mul(37)).collect();
    vec![lines.as_bytes().to_vec(), repeated.as_bytes().to_vec(), program]
}
