//! Any text as a box, dpb's and dpBento's: an error with its place, or tests. The tests, written out one by one, are a box with the same
//! tests; the program takes each of their command lines, and no value of a box becomes a flag.
#![no_main]

use dpb_cli::testing::{ReadBox, shipped_boxes};
use libfuzzer_sys::fuzz_target;

/// Tests of one box that are looked at: each takes a parse of the whole command line.
const TESTS_MAX: usize = 20;

fuzz_target!(init: dpb_fuzz::plant(seeds()), |bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let read = match ReadBox::read(text) {
        Ok(read) => read,
        Err(why) => {
            assert!(why.starts_with("fuzz.json: "), "{why}");
            return;
        }
    };
    // The last ones, since their values are the farthest from the first.
    let from = read.tests().saturating_sub(TESTS_MAX);
    let written = read.written_out(from, read.tests());
    let again = ReadBox::read(&written).unwrap_or_else(|why| panic!("{why}: {written}"));
    assert_eq!(again.tests(), read.tests() - from);
    for at in from..read.tests() {
        assert_eq!(again.words(at - from), read.words(at));
        if let Err(why) = read.accepts(at) {
            panic!("{why}: {:?}", read.words(at));
        }
    }
});

/// The tasks of the boxes that dpb ships, each alone, and tasks that those have not.
fn seeds() -> Vec<Vec<u8>> {
    let mut seeds: Vec<Vec<u8>> = Vec::new();
    for text in shipped_boxes() {
        // Whole boxes have hundreds of tests, which takes long.
        let whole: serde_json::Value = serde_json::from_str(text).expect("a shipped box is JSON");
        for key in ["tasks", "benchmarks"] {
            for task in whole[key].as_array().into_iter().flatten() {
                seeds.push(serde_json::json!({ key: [task] }).to_string().into_bytes());
            }
        }
    }
    let more = [
        r#"{"name":"n","seed":3,"repeats":2,"tasks":[{"task":"op","metrics":["items_per_s"],"parameters":{"operator":"crc32c","size":"64..1024","latency":true}}]}"#,
        r#"{"tasks":[{"task":"memory","parameters":{"size":["16KiB","1MB"],"pattern":["random","sequential"],"seconds":0.1}}]}"#,
        r#"{"tasks":[{"task":"storage","repeats":1,"parameters":{"block":4096,"file_size":"1MiB","access":"read","direct":"no","depth":[1,2]}}]}"#,
        r#"{"tasks":[{"task":"tcp","parameters":{"size":8,"connections":[1,2],"seconds":"200ms"}}]}"#,
        r#"{"tasks":[{"task":"pushdown","parameters":{"sf":0.01,"selectivity":["1%",0.5],"cold":true,"where":"l_tax < 0.05"}}]}"#,
        r#"{"tasks":[{"task":"rdma","parameters":{"method":"lat","verb":"read","host":"h","size":[2,4]}}]}"#,
        r#"{"benchmarks":[{"benchmark_class":"compute","parameters":{"data_type":"int8,fp32"}},{"benchmark_class":"hashing","parameters":{"algorithm":["sha1","aes-128-gcm"],"bytes":["1K",16]}}]}"#,
        r#"{"benchmarks":[{"benchmark_class":"compression","benchmark_items":["single"],"parameters":{"operation":["decompression"],"data_size":"4K"}},{"benchmark_class":"regex"}]}"#,
        r#"{"benchmarks":[{"benchmark_class":"storage","parameters":{"test_lst":["randread","write"],"size":"1G","block_sizes":["4k"],"runtime":"3s"}},{"benchmark_class":"communication"},{"benchmark_class":"RDB"}]}"#,
    ];
    seeds.extend(more.map(|text| text.as_bytes().to_vec()));
    seeds
}
