//! A table of a user's own, against arithmetic over the batches that it was made of.

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Int64Type};
use arrow_array::{ArrayRef, Int32Array, Int64Array, StringArray};

use super::*;

const ROWS: i64 = 150_000;

fn made(dir: &Path) -> Table {
    let part = |from: i64, to: i64| {
        let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(from..to));
        let kinds: ArrayRef = Arc::new(Int32Array::from_iter_values(
            (from..to).map(|id| (id % 7) as i32),
        ));
        let names: ArrayRef = Arc::new(StringArray::from_iter_values(
            (from..to).map(|id| format!("name {}", id * id % 1009)),
        ));
        RecordBatch::try_from_iter([("id", ids), ("kind", kinds), ("name", names)]).unwrap()
    };
    let batches = [part(0, 10), part(10, 100_000), part(100_000, ROWS)];
    Table::create(&dir.join("things"), "things", batches).unwrap()
}

fn ids(batches: impl IntoIterator<Item = RecordBatch>) -> Vec<i64> {
    let of = |batch: RecordBatch| {
        batch
            .column(0)
            .as_primitive::<Int64Type>()
            .values()
            .to_vec()
    };
    let mut ids: Vec<i64> = batches.into_iter().flat_map(of).collect();
    ids.sort_unstable();
    ids
}

#[test]
fn rows_and_aggregates_are_those_of_the_batches() {
    let dir = tempfile::tempdir().unwrap();
    let table = made(dir.path());
    assert_eq!(table.rows(), ROWS as u64);
    let query = table
        .query("SELECT id, name FROM things WHERE kind = 3 AND name LIKE '%7'")
        .unwrap();
    let right: Vec<i64> = (0..ROWS)
        .filter(|id| id % 7 == 3 && id * id % 1009 % 10 == 7)
        .collect();
    let found = ids(table.scan(&query).unwrap().map(Result::unwrap));
    assert_eq!(found, right);
    let several = std::sync::Mutex::new(Vec::new());
    let stats = table.scan_with_threads(&query, 3, &|batch| {
        several.lock().unwrap().push(batch);
        ControlFlow::Continue(())
    });
    assert_eq!(stats.unwrap().rows_selected, right.len() as u64);
    assert_eq!(ids(several.into_inner().unwrap()), right);

    let query = table
        .query("SELECT kind, count(*), sum(id) FROM things GROUP BY kind")
        .unwrap();
    let groups: Vec<RecordBatch> = table.scan(&query).unwrap().map(Result::unwrap).collect();
    let [groups] = &groups[..] else {
        panic!("one batch of groups");
    };
    for kind in 0..7 {
        let of_kind = || (0..ROWS).filter(move |id| id % 7 == kind);
        let at = kind as usize;
        let count = groups.column(1).as_primitive::<Int64Type>().value(at);
        let sum = groups.column(2).as_primitive::<Decimal128Type>().value(at);
        assert_eq!(count, of_kind().count() as i64);
        assert_eq!(sum, i128::from(of_kind().sum::<i64>()));
    }
}

#[test]
fn a_scan_goes_as_far_as_it_is_asked() {
    let dir = tempfile::tempdir().unwrap();
    let table = made(dir.path());
    let query = table.query("SELECT id FROM things").unwrap();
    let mut batches = table.scan(&query).unwrap();
    assert!(batches.next().unwrap().is_ok());
    assert_eq!(batches.stats().tuples_scanned, 65_536);
    assert_eq!(batches.schema().fields().len(), 1);
}

#[test]
fn queries_about_another_table_and_damage_are_errors() {
    let dir = tempfile::tempdir().unwrap();
    let table = made(dir.path());
    let mut query = table.query("SELECT id FROM things").unwrap();
    let path = table.segment().path().to_owned();
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[200] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let damaged = Table::open(&path).unwrap();
    let mut batches = damaged.scan(&query).unwrap();
    assert!(batches.next().unwrap().is_err());
    assert!(batches.next().is_none());
    query.table = "others".to_owned();
    assert!(table.scan(&query).is_err());
    assert!(Table::create(&path, "none", []).is_err());
}
