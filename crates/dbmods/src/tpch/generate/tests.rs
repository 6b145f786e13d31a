//! Tables hold the generator's rows, whatever the number of threads.

use std::fmt::Display;

use tpchgen::generators::*;

use super::*;
use crate::schema::ColumnType;
use crate::table::encode::Values;
use crate::table::segment::Segment;

fn make(table: &str, scale_factor: f64, threads: usize, path: &Path) -> Segment {
    let made = generate(table, scale_factor, GROUP_ROWS, path, threads, &|_| {
        ControlFlow::Continue(())
    })
    .unwrap();
    let segment = Segment::open(path).unwrap();
    assert_eq!(
        (made.rows, made.bytes),
        (segment.rows(), segment.file_bytes())
    );
    segment
}

/// The segment's rows as dbgen's `.tbl` format writes them.
fn lines(segment: &Segment) -> Vec<String> {
    let schema = segment.schema();
    let mut lines = Vec::new();
    for group in 0..segment.groups().len() {
        let mut columns = encode::empty(schema);
        for (i, column) in columns.iter_mut().enumerate() {
            segment.read_chunk(group, i).unwrap().decode(column);
        }
        for row in 0..columns[0].len() {
            let mut line = String::new();
            for (values, column) in columns.iter().zip(&schema.columns) {
                match (values, column.ty) {
                    // dbgen writes quantities without their decimals.
                    (Values::Numbers(values), _) if column.name == "l_quantity" => {
                        assert_eq!(values[row] % 100, 0);
                        line.push_str(&(values[row] / 100).to_string());
                    }
                    (Values::Numbers(values), ColumnType::Decimal { scale: 2, .. }) => {
                        line.push_str(&tpchgen::decimal::TPCHDecimal(values[row]).to_string());
                    }
                    (Values::Numbers(values), ColumnType::Date) => {
                        let index =
                            values[row] as i32 - tpchgen::dates::TPCHDate::UNIX_EPOCH_OFFSET;
                        let date = tpchgen::dates::TPCHDate::new(
                            index + tpchgen::dates::MIN_GENERATE_DATE,
                        );
                        line.push_str(&date.to_string());
                    }
                    (Values::Numbers(values), _) => line.push_str(&values[row].to_string()),
                    (Values::Texts(texts), _) => line.push_str(texts.get(row)),
                }
                line.push('|');
            }
            lines.push(line);
        }
    }
    lines
}

fn same(segment: &Segment, expected: impl Iterator<Item = impl Display>) {
    let table = &segment.schema().table;
    let lines = lines(segment);
    let mut count = 0;
    for (i, row) in expected.enumerate() {
        assert_eq!(lines.get(i), Some(&row.to_string()), "row {i} of {table}");
        count += 1;
    }
    assert_eq!(lines.len(), count, "rows of {table}");
}

#[test]
fn all_tables_are_the_generators_rows() {
    let dir = tempfile::tempdir().unwrap();
    let made = |table: &str| make(table, 0.01, 2, &dir.path().join(table));
    same(&made("region"), RegionGenerator::new(0.01, 1, 1).iter());
    same(&made("nation"), NationGenerator::new(0.01, 1, 1).iter());
    same(&made("supplier"), SupplierGenerator::new(0.01, 1, 1).iter());
    same(&made("customer"), CustomerGenerator::new(0.01, 1, 1).iter());
    same(&made("part"), PartGenerator::new(0.01, 1, 1).iter());
    same(&made("partsupp"), PartSuppGenerator::new(0.01, 1, 1).iter());
    same(&made("orders"), OrderGenerator::new(0.01, 1, 1).iter());
    same(&made("lineitem"), LineItemGenerator::new(0.01, 1, 1).iter());
}

#[test]
fn row_groups_are_full_and_the_file_does_not_depend_on_threads() {
    let dir = tempfile::tempdir().unwrap();
    for (table, scale_factor) in [("lineitem", 0.035), ("partsupp", 0.1)] {
        let one = make(table, scale_factor, 1, &dir.path().join("one"));
        make(table, scale_factor, 5, &dir.path().join("five"));
        let read = |name| std::fs::read(dir.path().join(name)).unwrap();
        assert!(read("one") == read("five"), "{table}");
        assert!(one.groups().len() > 1);
        match table {
            "lineitem" => same(&one, LineItemGenerator::new(scale_factor, 1, 1).iter()),
            _ => same(&one, PartSuppGenerator::new(scale_factor, 1, 1).iter()),
        }
    }
}

#[test]
fn row_counts_are_those_that_the_specification_gives() {
    let rows = |table, scale_factor| {
        Cuts::new(table, scale_factor, GROUP_ROWS)
            .map(|cut| cut.rows)
            .sum::<usize>()
    };
    // Clause 4.2.5.1: lineitem's are approximate there; these are what dbgen makes.
    assert_eq!(rows("lineitem", 1.0), 6_001_215);
    assert_eq!(rows("lineitem", 0.01), 60_175);
    assert_eq!(rows("orders", 1.0), 1_500_000);
    assert_eq!(rows("partsupp", 1.0), 800_000);
    assert_eq!(rows("part", 10.0), 2_000_000);
    assert_eq!(rows("customer", 0.1), 15_000);
    assert_eq!(rows("supplier", 0.001), 10);
    assert_eq!((rows("nation", 30.0), rows("region", 0.001)), (25, 5));
    // Told without a generation.
    for table in crate::tpch::TABLES {
        for scale_factor in [0.001, 0.013, 0.1] {
            let rows = rows(table, scale_factor) as u64;
            assert_eq!(
                rows::row_count(table, scale_factor),
                Some(rows..=rows),
                "{table}"
            );
        }
    }
    // dbgen's, where counting takes long.
    for (scale_factor, rows) in [(100.0, 600_037_902), (1000.0, 5_999_989_709)] {
        let told = rows::row_count("lineitem", scale_factor).unwrap();
        assert!(told.contains(&rows) && told.end() - told.start() < rows / 1000);
    }
    for scale_factor in [f64::NAN, -1.0, 0.0, f64::INFINITY, 1e9] {
        assert_eq!(rows::row_count("lineitem", scale_factor), None);
    }
    assert_eq!(rows::row_count("nothing", 1.0), None);
}

#[test]
fn giving_up_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let given_up = generate(
        "lineitem",
        0.05,
        GROUP_ROWS,
        &dir.path().join("t"),
        2,
        &|rows| {
            if rows > 100_000 {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        },
    );
    assert!(matches!(given_up, Err(DataError::Interrupted)));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn the_manifest_names_the_generator_that_is_built_in() {
    let lock = include_str!("../../../../../Cargo.lock");
    let (name, version) = crate::tpch::GENERATOR.split_once(' ').unwrap();
    assert!(lock.contains(&format!("name = \"{name}\"\nversion = \"{version}\"\n")));
}
