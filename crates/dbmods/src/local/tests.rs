//! A table of a user's own, against arithmetic over the batches that it was made of.

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Int64Type};
use arrow_array::{ArrayRef, Int32Array, Int64Array, StringArray};

use super::*;
use crate::scan::operator::Merged;

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
fn splits_on_threads_of_a_caller_are_the_whole_scan() {
    let dir = tempfile::tempdir().unwrap();
    let table = made(dir.path());
    let query = table
        .query("SELECT id FROM things WHERE name LIKE '%3'")
        .unwrap();
    let whole = ids(table.scan(&query).unwrap().map(Result::unwrap));
    let splits = table.splits(&query).unwrap();
    assert_eq!(splits.iter().map(Split::rows).sum::<u64>(), ROWS as u64);
    assert!(splits.len() > 1);
    let scan = |split: Split| {
        std::thread::spawn(move || -> Vec<RecordBatch> {
            split.batches().unwrap().map(Result::unwrap).collect()
        })
    };
    let threads: Vec<_> = splits.into_iter().map(scan).collect();
    // The table is not needed any more.
    let rebuilt = table.schema().clone();
    drop(table);
    let batches = threads
        .into_iter()
        .flat_map(|thread| thread.join().unwrap());
    assert_eq!(ids(batches), whole);

    let table = made(dir.path());
    assert_eq!(table.schema(), &rebuilt);
    let query = table
        .query("SELECT kind, avg(id), min(name) FROM things GROUP BY kind")
        .unwrap();
    let mut merged = Merged::of_query(table.schema(), &query, 1 << 20).unwrap();
    for split in table.splits(&query).unwrap().iter().rev() {
        assert!(split.batches().is_err());
        assert_eq!(merged.add(&split.partial().unwrap()).unwrap(), 7);
    }
    let whole: Vec<RecordBatch> = table.scan(&query).unwrap().map(Result::unwrap).collect();
    assert_eq!(whole, [merged.finish().unwrap()]);
    let rows = table.query("SELECT id FROM things").unwrap();
    assert!(table.splits(&rows).unwrap()[0].partial().is_err());
}

#[test]
fn a_limit_is_one_for_all_that_work_at_a_scan() {
    let dir = tempfile::tempdir().unwrap();
    let table = made(dir.path());
    for limit in [0, 1, 100, 20_000, 100_000, ROWS as usize, 1 << 40] {
        let query = |sql: &str| table.query(&format!("{sql} LIMIT {limit}")).unwrap();
        let rows = query("SELECT id FROM things");
        let due = limit.min(ROWS as usize);
        let right = |found: Vec<i64>, who: &str| {
            let mut once = found.clone();
            once.dedup();
            assert_eq!(
                (found.len(), once.len()),
                (due, due),
                "{who}, LIMIT {limit}"
            );
            assert!(found.iter().all(|id| (0..ROWS).contains(id)));
        };
        right(
            ids(table.scan(&rows).unwrap().map(Result::unwrap)),
            "one thread",
        );
        let several = std::sync::Mutex::new(Vec::new());
        let stats = table.scan_with_threads(&rows, 3, &|batch| {
            several.lock().unwrap().push(batch);
            ControlFlow::Continue(())
        });
        right(ids(several.into_inner().unwrap()), "three threads");
        let scanned = stats.unwrap().tuples_scanned;
        assert!(limit > 0 || scanned == 0, "{scanned} for no rows");
        let splits = table.splits(&rows).unwrap();
        let all = splits.iter().flat_map(|split| split.batches().unwrap());
        right(ids(all.map(Result::unwrap)), "splits");
        let groups = query("SELECT kind, count(*) FROM things GROUP BY kind");
        let found = table.scan(&groups).unwrap().map(Result::unwrap);
        assert_eq!(
            found.map(|batch| batch.num_rows()).sum::<usize>(),
            limit.min(7)
        );
    }
    // A scan for few rows ends with its first row group.
    let few = table.query("SELECT id FROM things LIMIT 5").unwrap();
    let mut batches = table.scan(&few).unwrap();
    assert_eq!(batches.next().unwrap().unwrap().num_rows(), 5);
    assert!(batches.next().is_none());
    assert!(batches.stats().tuples_scanned <= 65_536);
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
