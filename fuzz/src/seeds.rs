//! Seeds: what a fuzzer starts from.

use std::path::Path;

/// Writes seeds, small valid inputs for the fuzzer to start from, into the folder that `DPB_FUZZ_SEEDS` names; nothing if it
/// names none. A target calls this before the fuzzer reads its corpus.
pub fn plant(seeds: impl IntoIterator<Item = Vec<u8>>) {
    let Some(folder) = std::env::var_os("DPB_FUZZ_SEEDS") else {
        return;
    };
    for (number, seed) in seeds.into_iter().enumerate() {
        let path = Path::new(&folder).join(format!("seed-{number}"));
        std::fs::write(&path, seed).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
}
