//! The operator and the backend behave as dpb's own.

use std::process::Command;

use dpb_core::conformance;
use dpb_core::{Families, Family, OpSpec};
use dpb_operators::cpu::{CpuPaths, Pools};
use dpb_operators::registry::Operators;
use prototype::{ADLER32, Adler32, Cards};

static OPERATORS: Operators = Operators::new(&[&[ADLER32]]);
static CPU: CpuPaths = CpuPaths::new(OPERATORS);
static POOLS: Pools = Pools::new(OPERATORS);
static FAMILIES: Families = Families::new(&[&CPU, &POOLS, &Cards]);

/// RFC 1950's checksum, by another implementation: the trailer of a stream that miniz_oxide writes.
#[test]
fn the_checksum_is_zlibs() {
    for len in [0, 1, 5551, 5552, 5553, 100_000] {
        let item: Vec<u8> = (0..len)
            .map(|i: usize| ((i * 7) >> 3) as u8 | 0x80)
            .collect();
        let stream = miniz_oxide::deflate::compress_to_vec_zlib(&item, 1);
        let trailer = stream.last_chunk::<4>().expect("a trailer");
        let start = Adler32 { start: 1 };
        for checksum in [start.by_byte(&item), start.in_lanes(&item)] {
            assert_eq!(checksum.to_be_bytes(), *trailer, "{len} bytes");
        }
    }
}

#[test]
fn every_backend_conforms() {
    for name in ["cpu/portable", "cpu/lanes", "pool/2", "card", "card/2"] {
        let backend = FAMILIES.open(name).expect("there is one");
        for case in ADLER32.cases() {
            let workload = ADLER32.workload(&case).expect("its own");
            let coverage = conformance::check(&*backend, &[&*workload]);
            let coverage = coverage.unwrap_or_else(|failure| panic!("{failure}"));
            assert!(coverage.items > 0, "{name}");
        }
    }
    let other = OpSpec::custom("adler32", []);
    assert!(FAMILIES.all_for(&other).is_empty());
    for wrong in ["none", "0", "4000000000"] {
        assert!(Cards.open(wrong).is_err(), "{wrong}");
    }
}

/// What the program says on this command line.
fn prototype(args: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_prototype"));
    let output = command.args(args).output().expect("starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {said}");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn the_program_shows_both() {
    let listed = prototype(&["list", "--format", "csv"]);
    for line in [
        "operator,adler32,",
        "operator,crc32c,",
        "backend,card/N,",
        "backend,cpu/lanes,",
        "backend,cpu/best,",
    ] {
        assert!(
            listed.lines().any(|said| said.starts_with(line)),
            "{line}: {listed}"
        );
    }
    let folder = tempfile::tempdir().expect("a folder");
    let [records, report] = ["records.jsonl", "report.html"].map(|name| folder.path().join(name));
    let [records, report] = [&records, &report].map(|path| path.to_str().expect("text"));
    let names = "cpu,cpu/lanes,pool/2,card,sim/default,faulty/reorder=1";
    let run = [
        "op",
        "adler32",
        "--parameters",
        "start=7",
        "--backend",
        names,
        "--size",
        "1KiB",
    ];
    let short = [
        "--seconds",
        "0.01",
        "--warm-up",
        "1ms",
        "--repeat",
        "1",
        "--format",
        "json",
    ];
    let written = prototype(&[&run[..], &short, &["--out", records]].concat());
    for name in [
        "cpu/best",
        "cpu/lanes",
        "pool/2",
        "card/1",
        "sim/default",
        "faulty/reorder=1",
    ] {
        let backend = format!("\"backend\":\"{name}\"");
        let line = written.lines().find(|line| line.contains(&backend));
        let line = line.unwrap_or_else(|| panic!("{name}: {written}"));
        assert!(line.contains("\"op.start\":7,"), "{line}");
    }
    prototype(&["report", records, "--out", report]);
    let report = std::fs::read_to_string(report).expect("written");
    assert!(report.contains("adler32") && report.contains("card/1"));
}
