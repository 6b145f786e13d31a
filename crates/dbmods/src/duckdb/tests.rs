use super::*;
use arrow_array::cast::AsArray;
use arrow_array::types::*;

/// The library, or a line that says why the test does not run.
fn library() -> Option<Library> {
    Library::find()
        .inspect_err(|missing| eprintln!("skipped: {missing}"))
        .ok()
}

#[test]
fn counts() {
    let Some(library) = library() else { return };
    eprintln!("{library:?}");
    let database = Database::open(
        library,
        None,
        &Config {
            threads: Some(2),
            ..Config::default()
        },
    )
    .unwrap();
    let mut connection = database.connect().unwrap();
    for delivery in [Delivery::Streamed, Delivery::Materialised] {
        let rows = connection
            .query(
                "select range as i, 'x'||range as t from range(100000)",
                None,
                delivery,
            )
            .unwrap();
        let batches: Vec<_> = rows.map(Result::unwrap).collect();
        let total: usize = batches.iter().map(|b| b.num_rows()).sum();
        assert_eq!(total, 100_000);
        let sum: i64 = batches
            .iter()
            .flat_map(|b| b.column(0).as_primitive::<Int64Type>().values().to_vec())
            .sum();
        assert_eq!(sum, 99_999 * 50_000);
    }
}
