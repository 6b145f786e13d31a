//! `dpb` needs no library of a machine but those of the C library: DuckDB, Hyperscan, ISA-L, Snappy and what drives devices are found at run time.

use std::process::Command;

/// The C library's parts, the loader, and the compiler's unwinder.
const OF_THE_C_LIBRARY: [&str; 8] = [
    "libc.",
    "libm.",
    "libdl.",
    "librt.",
    "libpthread",
    "libgcc_s.",
    "ld-linux",
    "ld64",
];

#[test]
fn nothing_is_linked_that_a_machine_must_have() {
    if cfg!(feature = "duckdb-bundled") {
        println!(
            "skipped: with DuckDB's sources the C++ library is linked; build without duckdb-bundled"
        );
        return;
    }
    let mut readelf = Command::new("readelf");
    let read = readelf.args(["-dW", env!("CARGO_BIN_EXE_dpb")]).output();
    let Ok(read) = read else {
        println!("skipped: no readelf; install binutils");
        return;
    };
    let read = String::from_utf8(read.stdout).expect("text");
    let needed = read.lines().filter(|line| line.contains("(NEEDED)"));
    let names = needed.map(|line| line.split(['[', ']']).nth(1).expect("a name"));
    let names: Vec<&str> = names.collect();
    assert!(names.contains(&"libc.so.6"), "{read}");
    for name in names {
        let is_known = OF_THE_C_LIBRARY.iter().any(|part| name.starts_with(part));
        assert!(is_known, "dpb is linked to {name}");
    }
}
