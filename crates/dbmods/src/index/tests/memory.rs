//! Memory of the tree beside LMDB's file.

use super::{TreeOptions, tree};
use crate::index::ycsb::KeyForm;
use crate::index::{Durability, Index, Lmdb, LmdbOptions, Write};

/// Records, more than a thousand leaves of them.
const RECORDS: u64 = 20_000;

/// Bytes that an index takes for records whose keys come in no order; then a third of them are written once more.
fn bytes(index: &dyn Index, value_bytes: usize) -> u64 {
    let value = vec![7; value_bytes];
    let put = |records: &[u64]| {
        let keys: Vec<_> = (records.iter())
            .map(|record| KeyForm::Ycsb.key(*record))
            .collect();
        let writes: Vec<Write<'_>> = (keys.iter())
            .map(|key| Write::Put {
                key: key.as_bytes(),
                value: &value,
            })
            .collect();
        index.apply(&writes).expect("there is room");
    };
    // Their keys are hashed, so this is no order of keys.
    let records: Vec<u64> = (0..RECORDS).collect();
    for records in records.chunks(100) {
        put(records);
    }
    for records in records[..RECORDS as usize / 3].chunks(100) {
        put(records);
    }
    let usage = index.usage().expect("counts");
    assert_eq!(usage.keys, RECORDS);
    usage.bytes
}

#[test]
fn records_take_at_most_a_fifth_more_than_in_lmdbs_file() {
    for value_bytes in [
        24, 100, 300, 512, 513, 600, 700, 800, 1000, 1024, 1100, 2000,
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let lmdb = Lmdb::open(&LmdbOptions {
            durability: Durability::None,
            ..LmdbOptions::new(folder.path(), 512 << 20)
        });
        let lmdb = bytes(&lmdb.expect("a map"), value_bytes);
        let tree = bytes(&*tree(TreeOptions::default()), value_bytes);
        let ratio = tree as f64 / lmdb as f64;
        println!("values of {value_bytes}: {ratio:.2}");
        assert!(
            ratio <= 1.2,
            "values of {value_bytes}: {tree} {lmdb} {ratio:.2}"
        );
    }
}
