//! Against the library that is found here; without one, or with another version, each test says so and checks nothing.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use arrow_array::{ArrayRef, Date32Array, Decimal64Array, Int32Array, Int64Array, StringArray};

use super::*;
use crate::duckdb::tests::library;
use crate::schema::{Column, ColumnType};

/// A table of a few rows, which writes down what it was offered.
struct Few {
    schema: Schema,
    rows: usize,
    offered: Mutex<Vec<Expression>>,
    scans: Mutex<Vec<(Vec<u32>, Vec<Pushed>)>>,
    /// Its answer to the filters that it is offered.
    takes: fn(&Expression) -> Offered,
    fails: bool,
}

struct Once {
    batch: RecordBatch,
    given: AtomicUsize,
    fails: bool,
}

const TEXTS: [&str; 4] = [
    "",
    "twelve bytes",
    "thirteen bytes",
    "naïve and long enough",
];

fn few(rows: usize, takes: fn(&Expression) -> Offered) -> Few {
    let column = |name: &str, ty| Column {
        name: name.to_owned(),
        ty,
    };
    Few {
        schema: Schema {
            table: "few".to_owned(),
            columns: vec![
                column("i", ColumnType::Integer),
                column("b", ColumnType::BigInt),
                column(
                    "m",
                    ColumnType::Decimal {
                        precision: 15,
                        scale: 2,
                    },
                ),
                column("d", ColumnType::Date),
                column("t", ColumnType::Text),
            ],
        },
        rows,
        offered: Mutex::default(),
        scans: Mutex::default(),
        takes,
        fails: false,
    }
}

impl PushedTable for Few {
    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn used(&self) -> Use {
        Use {
            number: 7,
            rows_expected: self.rows as u64,
        }
    }

    fn offered(&self, filter: &Expression) -> Offered {
        self.offered.lock().unwrap().push(filter.clone());
        (self.takes)(filter)
    }

    fn scan(
        &self,
        number: usize,
        columns: &[u32],
        filters: Vec<Pushed>,
    ) -> Result<Box<dyn PushedScan>, String> {
        assert_eq!(number, 7);
        let rows = 0..self.rows;
        let columns_of = |column: &u32| -> (String, ArrayRef) {
            let name = self.schema.columns[*column as usize].name.clone();
            let array: ArrayRef = match column {
                0 => Arc::new(Int32Array::from_iter_values(
                    rows.clone().map(|row| row as i32 - 1),
                )),
                1 => Arc::new(Int64Array::from_iter_values(
                    rows.clone().map(|row| row as i64 * 3),
                )),
                2 => {
                    let money = Decimal64Array::from_iter_values(
                        rows.clone().map(|row| row as i64 * 5 - 5),
                    );
                    Arc::new(money.with_precision_and_scale(15, 2).unwrap())
                }
                3 => Arc::new(Date32Array::from_iter_values(
                    rows.clone().map(|row| row as i32 - 1),
                )),
                _ => Arc::new(StringArray::from_iter_values(
                    rows.clone().map(|row| TEXTS[row % 4]),
                )),
            };
            (name, array)
        };
        let batch = RecordBatch::try_from_iter(columns.iter().map(columns_of)).unwrap();
        self.scans.lock().unwrap().push((columns.to_vec(), filters));
        Ok(Box::new(Once {
            batch,
            given: AtomicUsize::new(0),
            fails: self.fails,
        }))
    }

    fn threads_max(&self) -> usize {
        2
    }
}

impl PushedScan for Once {
    fn next(&self) -> Result<Option<RecordBatch>, String> {
        if self.fails {
            return Err("the link is down".to_owned());
        }
        let is_first = self.given.fetch_add(1, Relaxed) == 0;
        Ok(is_first.then(|| self.batch.clone()))
    }
}

/// A library whose functions of version 2 are known, or a line that says why the test does not run.
pub(crate) fn known_library() -> Option<Library> {
    let library = library()?;
    if check_version(library.version()).is_err() {
        let refused = Instance::open(library, 1, None, Path::new("/tmp")).unwrap_err();
        assert!(refused.contains("it takes DuckDB v2.0"), "{refused}");
        println!("skipped: {refused}");
        return None;
    }
    Some(library)
}

fn instance(table: Few) -> Option<(Instance, Arc<Few>)> {
    let library = known_library()?;
    let dir = std::env::temp_dir();
    let mut instance = Instance::open(library, 2, None, &dir).unwrap();
    let table = Arc::new(table);
    instance
        .register(Arc::clone(&table) as Arc<dyn PushedTable>)
        .unwrap();
    Some((instance, table))
}

fn rows(instance: &mut Instance, sql: &str) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    instance
        .query(sql)
        .unwrap()
        .rows(&mut |row| rows.push(row))
        .unwrap();
    rows
}

#[test]
fn rows_keep_the_instance_whose_memory_they_are() {
    let Some((mut instance, _)) = instance(few(5000, |_| Offered::Refused)) else {
        return;
    };
    let chunks = instance.query("SELECT t FROM few ORDER BY b").unwrap();
    let alive = instance.raw.instance_for_tests();
    drop(instance);
    assert!(alive.upgrade().is_some());
    let mut texts = Vec::new();
    chunks.rows(&mut |row| texts.extend(row)).unwrap();
    let expected = (0..5000).map(|row| Value::Text(TEXTS[row % 4].to_owned()));
    assert!(texts.into_iter().eq(expected));
    drop(chunks);
    assert!(alive.upgrade().is_none());
}

#[test]
fn other_versions_than_those_that_were_compared_are_refused() {
    assert!(check_version(VERSIONS[0]).is_ok());
    for version in ["v2.0.1", "v2.0.10", "v2.0.0-dev1", "v1.5.5", ""] {
        let refused = check_version(version).unwrap_err();
        assert!(refused.contains(VERSIONS[0]), "{refused}");
    }
}

#[test]
fn every_type_and_more_rows_than_a_chunk_has() {
    let Some((mut instance, table)) = instance(few(5000, |_| Offered::Refused)) else {
        return;
    };
    let found = rows(&mut instance, "SELECT i, b, m, d, t FROM few ORDER BY b");
    assert_eq!(found.len(), 5000);
    for (row, values) in found.into_iter().enumerate() {
        let expected = [
            Value::Integer(row as i128 - 1),
            Value::Integer(row as i128 * 3),
            Value::Decimal {
                unscaled: row as i128 * 5 - 5,
                scale: 2,
            },
            Value::Date(row as i32 - 1),
            Value::Text(TEXTS[row % 4].to_owned()),
        ];
        assert_eq!(values, expected);
    }
    let sums = rows(
        &mut instance,
        "SELECT count(*), min(t), NULL, 0.5::DOUBLE FROM few",
    );
    assert_eq!(
        sums,
        [[
            Value::Integer(5000),
            Value::Text(String::new()),
            Value::Null,
            Value::Double(0.5)
        ]]
    );
    // Only the columns that a statement needs are asked for.
    assert_eq!(table.scans.lock().unwrap()[1].0, [4]);
}

#[test]
fn filters_are_offered_as_they_are_and_those_that_are_taken_are_gone() {
    // Takes comparisons with equality, without doing anything about them.
    let takes = |filter: &Expression| match filter {
        Expression::Compare(Comparison::Equal, ..) => {
            Offered::Taken(Predicate::Constant(Some(true)))
        }
        Expression::Between(..) => Offered::InPart(Predicate::Constant(None)),
        _ => Offered::Refused,
    };
    let Some((mut instance, table)) = instance(few(10, takes)) else {
        return;
    };
    let all = rows(&mut instance, "SELECT b FROM few WHERE m = 0.05");
    assert_eq!(all.len(), 10);
    let (columns, filters) = table.scans.lock().unwrap().pop().unwrap();
    // Neither is its column asked for any more.
    assert_eq!(columns, [1]);
    assert!(filters.len() == 1 && filters[0].is_whole);
    assert_eq!(
        table.offered.lock().unwrap().pop().unwrap(),
        Expression::Compare(
            Comparison::Equal,
            Box::new(Expression::Column(2)),
            Box::new(Expression::Constant(Value::Decimal {
                unscaled: 5,
                scale: 2
            }))
        )
    );
    // Two comparisons become one BETWEEN, whose bounds are not said to belong to it; DuckDB still evaluates it.
    let some = rows(
        &mut instance,
        "SELECT i FROM few WHERE i >= 2 AND i < 4 ORDER BY i",
    );
    assert_eq!(some, [[Value::Integer(2)], [Value::Integer(3)]]);
    assert!(matches!(
        table.offered.lock().unwrap().pop(),
        Some(Expression::Between(..))
    ));
    let (_, filters) = table.scans.lock().unwrap().pop().unwrap();
    assert!(filters.len() == 1 && !filters[0].is_whole);
    // Functions come by name, with their arguments.
    let some = rows(
        &mut instance,
        "SELECT count(*) FROM few WHERE t LIKE 'thir_een%'",
    );
    assert_eq!(some, [[Value::Integer(2)]]);
    assert_eq!(
        table.offered.lock().unwrap().pop().unwrap(),
        Expression::Function(
            "~~".to_owned(),
            vec![
                Expression::Column(4),
                Expression::Constant(Value::Text("thir_een%".to_owned()))
            ]
        )
    );
    for (filter, is_in) in [("i IN (1, 5, 9)", true), ("i NOT IN (1, 5, 9)", false)] {
        rows(
            &mut instance,
            &format!("SELECT count(*) FROM few WHERE {filter}"),
        );
        let offered = table.offered.lock().unwrap().pop().unwrap();
        match (&offered, is_in) {
            (Expression::In(..), true) | (Expression::Not(_) | Expression::And(_), false) => {}
            _ => panic!("{filter}: {offered:?}"),
        }
    }
}

#[test]
fn what_fails_at_the_scan_or_in_the_statement_is_said() {
    let broken = Few {
        fails: true,
        ..few(3, |_| Offered::Refused)
    };
    let Some((mut instance, _table)) = instance(broken) else {
        return;
    };
    let why = instance.query("SELECT sum(b) FROM few").unwrap_err();
    assert!(why.contains("the link is down"), "{why}");
    let why = instance.query("SELECT nothing FROM few").unwrap_err();
    assert!(why.contains("nothing"), "{why}");
    assert!(instance.query("").is_err());
    // It goes on.
    assert_eq!(rows(&mut instance, "SELECT 1"), [[Value::Integer(1)]]);
}
