//! Traces by hand: what the analyser counts, and what its readers refuse.

use dpb_core::random::SplitMix64;

use super::*;

const OPTIONS: Options = Options {
    geometry: Geometry::NAMED[0],
    mica_from: Some(0),
    working_set_from: 0,
    has_models: true,
};

/// `addl $1, -8(%rsp)`, `dec %ecx`, `jne`: a loop of three instructions at 0x1000.
const LOOP: [(u64, &[u8]); 3] = [
    (0x1000, &[0x83, 0x44, 0x24, 0xf8, 0x01]),
    (0x1005, &[0xff, 0xc9]),
    (0x1007, &[0x75, 0xf7]),
];
/// `rep stosb` behind it.
const STORES: (u64, &[u8]) = (0x1009, &[0xf3, 0xaa]);

fn count(tally: &Tally, name: &str) -> u64 {
    tally
        .count(name)
        .unwrap_or_else(|| panic!("no count {name}"))
}

fn load(address: u64, bytes: u32) -> Access {
    Access {
        address,
        bytes,
        direction: Direction::Load,
    }
}

fn store(address: u64, bytes: u32) -> Access {
    Access {
        direction: Direction::Store,
        ..load(address, bytes)
    }
}

#[test]
fn a_loop_is_counted() {
    let mut analyser = Analyser::new(Isa::X86, OPTIONS);
    let ids = LOOP.map(|(at, bytes)| analyser.define(at, bytes).expect("defined"));
    for _ in 0..100 {
        for (at, id) in ids.into_iter().enumerate() {
            analyser.execute(id);
            if at == 0 {
                analyser.access(load(0x8000, 4)).expect("an access");
                analyser.access(store(0x8000, 4)).expect("an access");
            }
        }
    }
    let tally = analyser.finish();
    for (name, right) in [
        ("instructions", 300),
        ("scalar_integer", 200),
        ("branch", 100),
        ("load_store", 100),
        ("loading", 100),
        ("storing", 100),
        ("modifies", 100),
        ("loads", 0),
        ("stores", 0),
        // The outcome of the last one is not known.
        ("conditional_branches", 99),
        ("conditional_branches_taken", 99),
        ("l1i_misses", 1),
        ("l1d_misses", 1),
        ("itlb_misses", 1),
        ("dtlb_misses", 1),
        ("data_blocks_touched", 1),
        ("instruction_blocks_touched", 1),
        ("local_load_strides", 99),
        ("local_load_stride_0", 99),
        ("reuses", 100),
        ("reuse_0", 99),
        ("undecoded", 0),
    ] {
        assert_eq!(count(&tally, name), right, "{name}");
    }
}

#[test]
fn pieces_of_an_access_are_one_and_repetitions_are_one_instruction() {
    let mut analyser = Analyser::new(Isa::X86, OPTIONS);
    // vmovdqu (%rbx), %ymm0, as qemu-user reports it.
    let wide = analyser
        .define(0x2000, &[0xc5, 0xfe, 0x6f, 0x03])
        .expect("defined");
    analyser.execute(wide);
    for piece in 0..4 {
        analyser
            .access(load(0x8000 + 8 * piece, 8))
            .expect("an access");
    }
    let stores = analyser.define(STORES.0, STORES.1).expect("defined");
    for byte in 0..5 {
        analyser.execute(stores);
        analyser.access(store(0x9000 + byte, 1)).expect("an access");
    }
    // Valgrind looks once more whether it is to go on.
    analyser.execute(stores);
    let tally = analyser.finish();
    assert_eq!(count(&tally, "instructions"), 2);
    assert_eq!(count(&tally, "loads"), 1);
    assert_eq!(count(&tally, "stores"), 5);
    assert_eq!(count(&tally, "load_store"), 2);
    assert_eq!(count(&tally, "storing"), 1);
}

/// A length that is the first to meet an instruction of a kind, or has instructions that it does not come to, is still the same program.
#[test]
fn kinds_that_one_length_lacks_are_subtracted() {
    let counted = |has_vector: bool| {
        let mut analyser = Analyser::new(Isa::X86, OPTIONS);
        let dec = analyser.define(LOOP[1].0, LOOP[1].1).expect("defined");
        let wide = [0xc5, 0xfe, 0x6f, 0x03];
        let vector = has_vector.then(|| analyser.define(0x2000, &wide).expect("defined"));
        for id in [Some(dec), vector].into_iter().flatten() {
            analyser.execute(id);
        }
        analyser.finish()
    };
    let difference = counted(true).since(&counted(false)).expect("a longer run");
    assert_eq!(count(&difference, "instructions"), 1);
    assert_eq!(count(&difference, "move"), 1);
    assert_eq!(count(&difference, "scalar_integer"), 0);
    let nothing = Analyser::new(Isa::X86, OPTIONS).finish();
    assert!(
        nothing
            .iter()
            .map(|it| it.0)
            .eq(counted(true).iter().map(|it| it.0))
    );
}

#[test]
fn code_that_changes_is_another_instruction() {
    let mut analyser = Analyser::new(Isa::X86, OPTIONS);
    let first = analyser.define(0, &[0x90]).expect("nop");
    assert_eq!(analyser.define(0, &[0x90]).expect("nop"), first);
    assert_ne!(analyser.define(0, &[0xc3]).expect("ret"), first);
    assert_eq!(analyser.known(0, 2), None);
    assert!(analyser.define(0, &[]).is_err());
    assert!(analyser.define(0, &[0x90; 16]).is_err());
    assert!(Analyser::new(Isa::A64, OPTIONS).define(0, &[0; 3]).is_err());
    assert!(analyser.define_unknown(0, 200).is_err());
}

/// The words of a stream of the plugin.
fn stream(chunks: &[(u64, u64, &[u64])]) -> Vec<u8> {
    let mut words = vec![u64::from_le_bytes(*b"DPBTRAC1")];
    for (kind, thread, body) in chunks {
        words.push(kind << 56 | thread << 32 | body.len() as u64);
        words.extend_from_slice(body);
    }
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// The definition of a block.
fn block(number: u64, instructions: &[(u64, &[u8])]) -> Vec<u64> {
    let mut words = vec![number];
    for (address, bytes) in instructions {
        let mut padded = [0; 16];
        padded[..bytes.len()].copy_from_slice(bytes);
        let half = |at: usize| u64::from_le_bytes(padded[at..at + 8].try_into().expect("eight"));
        words.extend([*address, bytes.len() as u64, half(0), half(8)]);
    }
    words
}

fn accessed(instruction: u64, is_store: u64, shift: u64, address: u64) -> u64 {
    1 << 63 | is_store << 62 | shift << 58 | instruction << 49 | address
}

fn read(bytes: &[u8]) -> Result<Tally, TraceError> {
    let mut analyser = Analyser::new(Isa::X86, OPTIONS);
    read_plugin(&mut &bytes[..], &mut analyser)?;
    Ok(analyser.finish())
}

const BLOCK: u64 = 1;
const EVENTS: u64 = 2;
const END: u64 = 3;

#[test]
fn a_stream_of_the_plugin_is_read() {
    let body = block(0, &LOOP);
    let (load, store) = (accessed(0, 0, 2, 0x8000), accessed(0, 1, 2, 0x8000));
    // The second time around is handed over in two chunks, and another thread's between them.
    let tally = read(&stream(&[
        (BLOCK, 0, &body),
        (EVENTS, 0, &[0, load, store, 0, load]),
        (EVENTS, 7, &[0, load, store]),
        (EVENTS, 0, &[store]),
        (END, 0, &[]),
    ]));
    let tally = tally.expect("a trace");
    assert_eq!(count(&tally, "instructions"), 9);
    assert_eq!(count(&tally, "branch"), 3);
    // Between threads nothing follows from one another.
    assert_eq!(count(&tally, "modifies"), 2);
    assert_eq!(count(&tally, "conditional_branches"), 1);
}

#[test]
fn hostile_streams_are_refused() {
    let body = block(0, &LOOP);
    let load = |instruction| accessed(instruction, 0, 2, 0x8000);
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("nothing", Vec::new()),
        ("another beginning", b"DPBTRAC2".to_vec()),
        ("no end", stream(&[(BLOCK, 0, &body)])),
        ("an unknown kind", stream(&[(9, 0, &[])])),
        ("an end with words", stream(&[(END, 0, &[1])])),
        (
            "no such block",
            stream(&[(BLOCK, 0, &body), (EVENTS, 0, &[1]), (END, 0, &[])]),
        ),
        (
            "an access first",
            stream(&[(BLOCK, 0, &body), (EVENTS, 0, &[load(0)]), (END, 0, &[])]),
        ),
        (
            "beyond the block",
            stream(&[(BLOCK, 0, &body), (EVENTS, 0, &[0, load(3)]), (END, 0, &[])]),
        ),
        (
            "backwards",
            stream(&[
                (BLOCK, 0, &body),
                (EVENTS, 0, &[0, load(2), load(1)]),
                (END, 0, &[]),
            ]),
        ),
        (
            "a block out of order",
            stream(&[(BLOCK, 0, &block(1, &LOOP)), (END, 0, &[])]),
        ),
        (
            "a block of nothing",
            stream(&[(BLOCK, 0, &[]), (END, 0, &[])]),
        ),
        (
            "half an instruction",
            stream(&[(BLOCK, 0, &body[..4]), (END, 0, &[])]),
        ),
        (
            "too long an instruction",
            stream(&[(BLOCK, 0, &[0, 0x1000, 17, 0, 0]), (END, 0, &[])]),
        ),
        (
            "an endless instruction",
            stream(&[(BLOCK, 0, &[0, 0x1000, u64::MAX, 0, 0]), (END, 0, &[])]),
        ),
        ("a long chunk", {
            let mut bytes = stream(&[]);
            bytes.extend((EVENTS << 56 | u64::from(u32::MAX)).to_ne_bytes());
            bytes
        }),
        (
            "a long access",
            stream(&[
                (BLOCK, 0, &body),
                (EVENTS, 0, &[0, accessed(0, 0, 15, 1)]),
                (END, 0, &[]),
            ]),
        ),
    ];
    for (name, bytes) in cases {
        assert!(read(&bytes).is_err(), "{name}");
    }
}

#[test]
fn spoilt_streams_end() {
    let body = block(0, &LOOP);
    let load = accessed(0, 0, 2, 0x8000);
    let whole = stream(&[
        (BLOCK, 0, &body),
        (EVENTS, 0, &[0, load, 0, load, 0, load]),
        (END, 0, &[]),
    ]);
    let mut random = SplitMix64::new(5);
    for _ in 0..2000 {
        let mut spoilt = whole.clone();
        let at = random.below(spoilt.len());
        spoilt[at] ^= 1 << random.below(8);
        spoilt.truncate(random.below(spoilt.len() + 8));
        // Whatever comes of it, it comes.
        let _ = read(&spoilt);
    }
}

fn lackey(text: &str) -> Result<Tally, TraceError> {
    let mut analyser = Analyser::new(Isa::X86, OPTIONS);
    let code = |address: u64, length: usize| {
        let all = LOOP.iter().chain([&STORES]);
        let mut here = all.filter(|(at, bytes)| *at == address && bytes.len() == length);
        here.next().map(|(_, bytes)| bytes.to_vec())
    };
    read_lackey(&mut text.as_bytes(), &mut analyser, &mut { code })?;
    Ok(analyser.finish())
}

#[test]
fn lackeys_text_is_read() {
    let text = "==7== Lackey, an example Valgrind tool\n\
                I  00001000,5\n M 1fff000758,4\nI  00001005,2\nI  00001007,2\n\
                I  00001009,2\n S 1fff000720,1\nI  00001009,2\n S 1fff000721,1\nI  00001009,2\n\
                I  00001000,5\n L 1fff000758,4\n S 1fff000758,4\nI  deadbeef,3\n==7== \n";
    let tally = lackey(text).expect("a trace");
    assert_eq!(count(&tally, "instructions"), 6);
    assert_eq!(count(&tally, "modifies"), 2);
    assert_eq!(count(&tally, "stores"), 2);
    assert_eq!(count(&tally, "undecoded"), 1);
    assert_eq!(count(&tally, "conditional_branches"), 1);
    assert_eq!(count(&tally, "conditional_branches_taken"), 0);
}

#[test]
fn hostile_text_is_refused() {
    for text in [
        "hello\n",
        "I 1000,5\n",
        "I  00001000\n",
        "I  00001000,5,6\n",
        "I  0000100g,5\n",
        "I  +1000,5\n",
        "I  00001000,16\n",
        "I  00001000,0\n",
        "I  00001000,999999999999\n",
        "I  10000000000000000,1\n",
        "I  00001000,5\n L 8000,0\n",
        "I  00001000,5\n L 8000,1000000\n",
        "I  00001000,5\n X 8000,4\n",
        "I  00001000,5\n L 8000,-4\n",
    ] {
        assert!(lackey(text).is_err(), "{text:?}");
    }
    let endless = "I".repeat(100_000);
    assert!(lackey(&endless).is_err());
}
