//! At scale factor 0.01, against the generator's own lines.

use std::fs::File;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::{Date32Type, Decimal64Type, Int32Type, Int64Type};
use arrow_schema::DataType;
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator,
    PartSuppGenerator, RegionGenerator, SupplierGenerator,
};

use super::*;
use crate::duckdb::tests::library;
use crate::tpch::GENERATOR;
use crate::tpch::lock::Lock;

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
    let schema = batch.schema();
    let cells = schema.fields().iter().zip(batch.columns());
    let cells = cells.map(|(field, column)| match field.data_type() {
        DataType::Int64 => column.as_primitive::<Int64Type>().value(row).to_string(),
        DataType::Int32 => column.as_primitive::<Int32Type>().value(row).to_string(),
        DataType::Date32 => {
            let column = column.as_primitive::<Date32Type>();
            column.value_as_date(row).unwrap().to_string()
        }
        DataType::Decimal64(15, 2) => {
            let cents = column.as_primitive::<Decimal64Type>().value(row);
            let sign = if cents < 0 { "-" } else { "" };
            let cents = cents.unsigned_abs();
            match field.name().as_str() {
                "l_quantity" => {
                    assert_eq!(cents % 100, 0);
                    (cents / 100).to_string()
                }
                _ => format!("{sign}{}.{:02}", cents / 100, cents % 100),
            }
        }
        DataType::Utf8 => column.as_string::<i32>().value(row).to_owned(),
        other => panic!("{other}"),
    });
    cells.map(|cell| cell + "|").collect()
}

/// The lines of `.tbl` of a table, by the generator.
fn lines(table: &str) -> Vec<String> {
    fn all(rows: impl Iterator<Item = impl std::fmt::Display>) -> Vec<String> {
        rows.map(|row| row.to_string()).collect()
    }
    match table {
        "region" => all(RegionGenerator::new(SF, 1, 1).iter()),
        "nation" => all(NationGenerator::new(SF, 1, 1).iter()),
        "supplier" => all(SupplierGenerator::new(SF, 1, 1).iter()),
        "customer" => all(CustomerGenerator::new(SF, 1, 1).iter()),
        "part" => all(PartGenerator::new(SF, 1, 1).iter()),
        "partsupp" => all(PartSuppGenerator::new(SF, 1, 1).iter()),
        "orders" => all(OrderGenerator::new(SF, 1, 1).iter()),
        "lineitem" => all(LineItemGenerator::new(SF, 1, 1).iter()),
        other => panic!("{other}"),
    }
}

#[test]
fn both_files_of_every_table_hold_the_generator_s_rows_in_its_order() {
    let Some(library) = library() else { return };
    let dir = tempfile::tempdir().unwrap();
    for table in tpch::TABLES {
        let made = ensure(
            library,
            dir.path(),
            SF,
            table,
            2,
            &dpb_core::WallClock::default(),
            &mut |_| (),
        )
        .unwrap();
        assert!(made.is_new);
        let expected = lines(table);
        assert_eq!(made.rows, expected.len() as u64);
        let database = read(library, &made);
        let parquet = format!("SELECT * FROM '{}'", made.parquet_path.display());
        for sql in [format!("SELECT * FROM {table}"), parquet] {
            let mut connection = database.connect().unwrap();
            let rows = connection
                .query(&sql, None, Delivery::Materialised)
                .unwrap();
            let mut found = Vec::new();
            for batch in rows {
                let batch = batch.unwrap();
                found.extend((0..batch.num_rows()).map(|row| line(&batch, row)));
            }
            let differs = found.iter().zip(&expected).position(|(a, b)| a != b);
            assert_eq!((differs, found.len()), (None, expected.len()), "{sql}");
        }
    }
    let kept = list(dir.path());
    let tables: Vec<&str> = kept.iter().map(|kept| kept.table.as_str()).collect();
    assert_eq!(tables, tpch::TABLES);
    let made = find(library, dir.path(), SF, "lineitem").unwrap();
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
        "lineitem",
        1,
        &dpb_core::WallClock::default(),
        &mut |_| unreachable!("nothing to do"),
    )
    .unwrap();
    assert_eq!(found, made);
}

#[test]
fn copies_are_removed_by_table_and_those_of_an_older_dpb_with_lineitem() {
    let dir = tempfile::tempdir().unwrap();
    let parent = dir.path().join("duckdb-v1.2.3");
    for name in [
        "sf1-orders",
        ".sf1-orders.lock",
        "sf1-nation",
        ".sf2-orders.partial",
    ] {
        fs::create_dir_all(parent.join(name)).unwrap();
    }
    fs::remove_dir(parent.join(".sf1-orders.lock")).unwrap();
    fs::write(parent.join(".sf1-orders.lock"), "").unwrap();
    // What an older dpb has made, and what is nobody's.
    for name in ["sf1", "sf1-others", "notes"] {
        fs::create_dir_all(parent.join(name)).unwrap();
        fs::write(parent.join(name).join("lineitem.duckdb"), "1234").unwrap();
    }
    let listed = |dir: &Path| -> Vec<(f64, String)> {
        let kept = list(dir).into_iter();
        kept.map(|kept| (kept.scale_factor, kept.table)).collect()
    };
    let names = |names: &[&str]| -> Vec<(f64, String)> {
        names.iter().map(|name| (1.0, (*name).to_owned())).collect()
    };
    assert_eq!(listed(dir.path()), names(&["nation", "orders", "lineitem"]));
    assert_eq!(paths(dir.path()).len(), 5);
    let clock = WallClock::default();
    assert_eq!(remove(dir.path(), 1.0, &["lineitem"], &clock).unwrap(), 4);
    assert_eq!(listed(dir.path()), names(&["nation", "orders"]));
    assert_eq!(remove(dir.path(), 1.0, &["orders"], &clock).unwrap(), 0);
    assert_eq!(listed(dir.path()), names(&["nation"]));
    let left = [".sf2-orders.partial", "sf1-nation", "sf1-others", "notes"];
    assert!(left.iter().all(|name| parent.join(name).exists()));
    assert!(!parent.join(".sf1-orders.lock").exists());
}

#[test]
fn what_is_damaged_or_half_made_is_made_anew() {
    let Some(library) = library() else { return };
    let dir = tempfile::tempdir().unwrap();
    let parent = dir.path().join(format!("duckdb-{}", library.version()));
    // What a killed process leaves.
    let partial = parent.join(".sf0.01-lineitem.partial");
    let leave = || {
        fs::create_dir_all(&partial).unwrap();
        fs::write(partial.join("lineitem.duckdb"), "half").unwrap();
        fs::write(parent.join(".sf0.01-lineitem.lock"), "").unwrap();
    };
    leave();
    remove_unfinished(library, dir.path(), SF, "lineitem").unwrap();
    remove_unfinished(library, dir.path(), SF, "lineitem").unwrap();
    assert!(!parent.exists());
    leave();
    // Another process has them in the making.
    let path = parent.join(".sf0.01-lineitem.lock");
    let held = Lock::take(&path, &WallClock::default(), || ControlFlow::Break(())).unwrap();
    assert!(held.is_some());
    remove_unfinished(library, dir.path(), SF, "lineitem").unwrap();
    assert!(partial.exists());
    drop(held);
    let made = ensure(
        library,
        dir.path(),
        SF,
        "lineitem",
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
        "lineitem",
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
        "lineitem",
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
        assert_eq!(find(library, dir.path(), 0.001, "lineitem"), None);
        let again = ensure(
            library,
            dir.path(),
            0.001,
            "lineitem",
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
                    "orders",
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
            "lineitem",
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
        "lineitem",
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
    let refused = ensure(
        library,
        dir.path(),
        SF,
        "../orders",
        1,
        &dpb_core::WallClock::default(),
        &mut |_| (),
    );
    assert!(matches!(refused, Err(BaselineError::Table(_))));
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    let refused = ensure(
        library,
        &file,
        SF,
        "lineitem",
        1,
        &dpb_core::WallClock::default(),
        &mut |_| (),
    )
    .unwrap_err();
    assert!(matches!(refused, BaselineError::Io { .. }), "{refused}");
}
