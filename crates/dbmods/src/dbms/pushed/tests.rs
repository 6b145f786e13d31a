//! All queries at a small scale factor, by both engines in this process, against the expected answers.

mod random;

use std::ops::ControlFlow;
use std::path::Path;

use dpb_core::WallClock;

use super::super::source::OwnSource;
use super::super::stock::{Settings, Stock};
use super::super::{answers, database, queries};
use super::*;
use crate::duckdb::tests::library;
use crate::duckdb::v2::tests::known_library;
use crate::tpch::{self, TABLES};

fn segments(dir: &Path, sf: f64) -> tpch::TableSet {
    let going = |_: tpch::Step<'_>| ControlFlow::Continue(());
    tpch::ensure(dir, sf, &TABLES, 2, &WallClock::default(), &going).unwrap()
}

fn pushed(set: &tpch::TableSet) -> Option<PushedDuckDb> {
    let library = known_library()?;
    let source = Arc::new(OwnSource::open(set, 2).unwrap());
    Some(PushedDuckDb::open(library, source, 2, None, std::env::temp_dir()).unwrap())
}

/// DuckDB over its own file of the same rows.
fn stock(library: Library, dir: &Path, set: &tpch::TableSet) -> Stock {
    let mut go_on = |_: database::DatabaseStep<'_>| ControlFlow::Continue(());
    let clock = WallClock::default();
    let file = database::ensure(library, dir, set, 2, &clock, &mut go_on);
    let settings = Settings {
        threads: 2,
        memory_bytes_max: None,
        spill: dir.join("spill"),
    };
    Stock::open(library, &file.unwrap().path, &settings).unwrap()
}

fn all_answers_are_right(sf: f64) {
    let Some(library) = library() else { return };
    let dir = tempfile::tempdir().unwrap();
    let set = segments(dir.path(), sf);
    let mut stock = stock(library, dir.path(), &set);
    let mut pushed = pushed(&set);
    for query in queries::all() {
        let expected = answers::expected(query, sf).unwrap();
        let alone = stock.run(query.sql, || ()).unwrap();
        assert_eq!(answers::wrong(query, &expected, &alone), None);
        let Some(pushed) = &mut pushed else { continue };
        // Twice: the second plan knows what the scans of the first gave.
        for _ in 0..2 {
            let (answer, notes) = pushed.run(query, || ()).unwrap();
            pushed.expect(&notes);
            assert_eq!(answers::wrong(query, &expected, &answer), None);
            assert_eq!(answers::differ(query, &alone, &answer), None);
            for table in query.tables() {
                assert!(
                    notes.iter().any(|note| note.table == table),
                    "{} {table}",
                    query.name()
                );
            }
        }
    }
}

#[test]
fn all_22_answers_are_right_at_a_small_scale() {
    all_answers_are_right(0.01);
}

#[test]
#[ignore = "minutes; `cargo test -- --ignored` runs it"]
fn all_22_answers_are_right_at_two_more_scales() {
    all_answers_are_right(0.1);
    all_answers_are_right(1.0);
}

#[test]
fn filters_are_evaluated_at_the_scan() {
    let dir = tempfile::tempdir().unwrap();
    let set = segments(dir.path(), 0.01);
    let Some(mut pushed) = pushed(&set) else {
        return;
    };
    let mut notes = |number| {
        pushed
            .run(queries::query(number).unwrap(), || ())
            .unwrap()
            .1
    };
    let q6 = notes(6);
    assert_eq!(q6.len(), 1);
    for column in ["l_shipdate", "l_discount", "l_quantity"] {
        assert!(q6[0].filters.contains(column), "{q6:?}");
    }
    assert_eq!(q6[0].counts.rows_scanned, 60_175);
    assert!(
        q6[0].counts.rows_sent * 20 < q6[0].counts.rows_scanned,
        "{q6:?}"
    );
    // A column of a filter that is taken whole does not come back.
    assert!(!q6[0].columns.contains(&"l_quantity".to_owned()), "{q6:?}");
    let q13 = notes(13);
    let orders = q13.iter().find(|note| note.table == "orders").unwrap();
    assert!(
        orders.filters.contains("LIKE '%special%requests%'"),
        "{orders:?}"
    );
    assert!(
        !orders.columns.contains(&"o_comment".to_owned()),
        "{orders:?}"
    );
    let q22 = notes(22);
    assert!(
        q22.iter()
            .any(|note| note.filters.contains("c_phone LIKE '13%'")),
        "{q22:?}"
    );
}
