//! At scale factor 0.01, against the generator's own rows.

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::{Date32Type, Decimal64Type, Int32Type, Int64Type};
use tpchgen::generators::LineItemGenerator;

use super::*;
use crate::duckdb::tests::library;
use crate::tpch::GENERATOR;

const SF: f64 = 0.01;

fn read(library: Library, made: &Baseline) -> Database {
    let config = Config {
        threads: Some(2),
        read_only: true,
        allowed_paths: vec![made.parquet_path.clone()],
        ..Config::default()
    };
    Database::open(library, Some(&made.duckdb_path), &config).unwrap()
}

/// One row as DuckDB gave it, written as `.tbl` writes it.
fn line(batch: &RecordBatch, row: usize) -> String {
    let long = |i: usize| batch.column(i).as_primitive::<Int64Type>().value(row);
    let money = |i: usize| batch.column(i).as_primitive::<Decimal64Type>().value(row);
    let cents = |i: usize| format!("{}.{:02}", money(i) / 100, money(i) % 100);
    let text = |i: usize| batch.column(i).as_string::<i32>().value(row);
    let date = |i: usize| {
        batch
            .column(i)
            .as_primitive::<Date32Type>()
            .value_as_date(row)
            .unwrap()
    };
    assert_eq!(money(4) % 100, 0);
    [
        long(0).to_string(),
        long(1).to_string(),
        long(2).to_string(),
        batch
            .column(3)
            .as_primitive::<Int32Type>()
            .value(row)
            .to_string(),
        (money(4) / 100).to_string(),
        cents(5),
        cents(6),
        cents(7),
        text(8).to_owned(),
        text(9).to_owned(),
        date(10).to_string(),
        date(11).to_string(),
        date(12).to_string(),
        text(13).to_owned(),
        text(14).to_owned(),
        text(15).to_owned(),
        String::new(),
    ]
    .join("|")
}

#[test]
fn both_files_hold_the_generator_s_rows_in_its_order() {
    let Some(library) = library() else { return };
    let dir = tempfile::tempdir().unwrap();
    let made = ensure(
        library,
        dir.path(),
        SF,
        2,
        &dpb_core::WallClock::default(),
        &mut |_| (),
    )
    .unwrap();
    assert!(made.is_new);
    assert_eq!(made.rows, 60_175);
    let database = read(library, &made);
    let parquet = format!("SELECT * FROM '{}'", made.parquet_path.display());
    for sql in ["SELECT * FROM lineitem", &parquet] {
        let mut connection = database.connect().unwrap();
        let mut expected = LineItemGenerator::new(SF, 1, 1).iter();
        for batch in connection.query(sql, None, Delivery::Materialised).unwrap() {
            let batch = batch.unwrap();
            for row in 0..batch.num_rows() {
                let expected = expected.next().expect("no more rows than generated");
                assert_eq!(line(&batch, row), expected.to_string());
            }
        }
        assert!(expected.next().is_none());
    }
    let files: Vec<_> = made
        .duckdb_path
        .parent()
        .unwrap()
        .read_dir()
        .unwrap()
        .collect();
    assert_eq!(files.len(), 3, "{files:?}");

    let found = ensure(
        library,
        dir.path(),
        SF,
        1,
        &dpb_core::WallClock::default(),
        &mut |_| unreachable!("nothing to do"),
    )
    .unwrap();
    assert_eq!(
        found,
        Baseline {
            is_new: false,
            ..made
        }
    );
}

#[test]
fn what_is_damaged_or_half_made_is_made_anew() {
    let Some(library) = library() else { return };
    let dir = tempfile::tempdir().unwrap();
    let parent = dir.path().join(format!("duckdb-{}", library.version()));
    // What a killed process leaves.
    let partial = parent.join(".sf0.01.partial");
    let leave = || {
        fs::create_dir_all(&partial).unwrap();
        fs::write(partial.join("lineitem.duckdb"), "half").unwrap();
        fs::write(parent.join(".sf0.01.lock"), "").unwrap();
    };
    leave();
    remove_unfinished(library, dir.path(), SF).unwrap();
    remove_unfinished(library, dir.path(), SF).unwrap();
    assert!(!parent.exists());
    leave();
    // Another process has them in the making.
    let held = lock(&parent, SF, &WallClock::default(), || ()).unwrap();
    remove_unfinished(library, dir.path(), SF).unwrap();
    assert!(partial.exists());
    drop(held);
    let made = ensure(
        library,
        dir.path(),
        SF,
        2,
        &dpb_core::WallClock::default(),
        &mut |_| (),
    )
    .unwrap();
    assert!(made.is_new && !partial.exists());

    let parquet = File::options()
        .write(true)
        .open(&made.parquet_path)
        .unwrap();
    parquet.set_len(made.parquet_bytes - 1).unwrap();
    let again = ensure(
        library,
        dir.path(),
        SF,
        2,
        &dpb_core::WallClock::default(),
        &mut |_| (),
    )
    .unwrap();
    assert!(again.is_new);
    assert_eq!(again.rows, made.rows);
}

#[test]
fn what_another_generator_made_is_made_anew() {
    let Some(library) = library() else { return };
    let dir = tempfile::tempdir().unwrap();
    let made = ensure(
        library,
        dir.path(),
        0.001,
        2,
        &dpb_core::WallClock::default(),
        &mut |_| (),
    )
    .unwrap();
    let manifest_path = made.duckdb_path.with_file_name("manifest.json");
    let text = fs::read_to_string(&manifest_path).unwrap();
    let line = format!("\"generator\": \"{GENERATOR}\",");
    assert!(text.contains(&line), "{text}");
    // Of an older version, and from before the manifest said so.
    for other in ["\"generator\": \"tpchgen 3.0.0\",", ""] {
        fs::write(&manifest_path, text.replace(&line, other)).unwrap();
        assert_eq!(find(library, dir.path(), 0.001), None);
        let again = ensure(
            library,
            dir.path(),
            0.001,
            2,
            &dpb_core::WallClock::default(),
            &mut |_| (),
        )
        .unwrap();
        assert!(again.is_new);
        assert_eq!(again.rows, made.rows);
    }
}

#[test]
fn two_callers_make_it_once() {
    let Some(library) = library() else { return };
    let dir = tempfile::tempdir().unwrap();
    let made: Vec<Baseline> = std::thread::scope(|scope| {
        let callers = [(); 3].map(|()| {
            scope.spawn(|| {
                ensure(
                    library,
                    dir.path(),
                    0.001,
                    1,
                    &dpb_core::WallClock::default(),
                    &mut |_| (),
                )
            })
        });
        callers.map(|caller| caller.join().unwrap().unwrap()).into()
    });
    assert_eq!(made.iter().filter(|baseline| baseline.is_new).count(), 1);
    assert!(made.iter().all(|baseline| baseline.rows == made[0].rows));
}

#[test]
fn what_cannot_be_made_is_refused() {
    let Some(library) = library() else { return };
    let dir = tempfile::tempdir().unwrap();
    for scale_factor in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let refused = ensure(
            library,
            dir.path(),
            scale_factor,
            1,
            &dpb_core::WallClock::default(),
            &mut |_| (),
        );
        assert!(matches!(refused, Err(BaselineError::ScaleFactor(_))));
    }
    let refused = ensure(
        library,
        dir.path(),
        100_000.0,
        1,
        &dpb_core::WallClock::default(),
        &mut |_| (),
    )
    .unwrap_err();
    assert!(
        matches!(refused, BaselineError::NoSpace { .. }),
        "{refused}"
    );
    assert!(refused.to_string().contains("MB are free"), "{refused}");
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    let refused = ensure(
        library,
        &file,
        SF,
        1,
        &dpb_core::WallClock::default(),
        &mut |_| (),
    )
    .unwrap_err();
    assert!(matches!(refused, BaselineError::Io { .. }), "{refused}");
}
