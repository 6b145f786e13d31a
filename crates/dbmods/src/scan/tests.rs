//! The scan against the reference evaluator, row for row, on every instruction set that this CPU runs.

mod operator;

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal64Type, Decimal128Type, Float64Type, Int32Type, Int64Type,
};
use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType;

use super::kernels::Kernels;
use super::plan::Chunks;
use super::*;
use crate::compare::random::{Generator, Random, Samples};
use crate::query::{
    Aggregate, AggregateCall, AggregateFunction, ArithmeticOp, CompareOp, Literal, Output,
    Predicate, Query, Scalar, eval, sql,
};
use crate::schema::{Column, ColumnType, Schema};
use crate::table::cache::Cache;
use crate::table::chunk::{Encoding, GROUP_ROWS};
use crate::table::encode::{Texts, Values};
use crate::table::segment::{Segment, SegmentWriter};
use crate::tpch;

static NEVER: AtomicBool = AtomicBool::new(false);
/// One thread, and memory for anything.
const ROOMY: ScanOptions<'static> = ScanOptions {
    threads: 1,
    stop: &NEVER,
    batch_rows: 1024,
    memory_bytes: 1 << 30,
    sink_batches: 0,
    slots: None,
};

type Row = Vec<Literal>;

/// A segment, and its rows as the segment's own slow decoder reads them.
struct Table {
    segment: Arc<Segment>,
    rows: Vec<Row>,
    _dir: tempfile::TempDir,
}

impl Table {
    fn open(path: &Path, dir: tempfile::TempDir) -> Self {
        let segment = Arc::new(Segment::open(path).unwrap());
        let mut rows: Vec<Row> = vec![Row::new(); segment.rows() as usize];
        for (column, described) in segment.schema().columns.iter().enumerate() {
            let mut row = 0;
            for group in 0..segment.groups().len() {
                let chunk = segment.read_chunk(group, column).unwrap();
                for block in 0..chunk.blocks().len() {
                    if described.ty == ColumnType::Text {
                        chunk.decode_texts(block, |text| {
                            rows[row].push(Literal::Text(text.to_owned()));
                            row += 1;
                        });
                    } else {
                        let mut numbers = Vec::new();
                        chunk.decode_numbers(block, &mut numbers);
                        for number in numbers {
                            rows[row].push(literal(described.ty, number));
                            row += 1;
                        }
                    }
                }
            }
        }
        Self {
            segment,
            rows,
            _dir: dir,
        }
    }

    fn lineitem(scale_factor: f64) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let set = tpch::ensure(
            dir.path(),
            scale_factor,
            &["lineitem"],
            1,
            &dpb_core::WallClock::default(),
            &|_| ControlFlow::Continue(()),
        )
        .unwrap();
        Self::open(&set.path("lineitem"), dir)
    }

    /// Two row groups of values that lineitem has not: extremes, all widths, wide characters, escapes, constants.
    fn extremes() -> Self {
        let types = [
            ("big", ColumnType::BigInt),
            ("wide", ColumnType::BigInt),
            ("small", ColumnType::Integer),
            ("fixed", ColumnType::Integer),
            (
                "money",
                ColumnType::Decimal {
                    precision: 18,
                    scale: 4,
                },
            ),
            ("day", ColumnType::Date),
            ("word", ColumnType::Text),
            ("text", ColumnType::Text),
        ];
        let schema = schema_of("extremes", &types);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("extremes.dpbseg");
        let mut writer = SegmentWriter::create(&path, schema).unwrap();
        let mut random = Random::new(3);
        for rows in [GROUP_ROWS, 2500] {
            let mut numbers = vec![Vec::new(); 6];
            let (mut words, mut texts) = (Texts::default(), Texts::default());
            for row in 0..rows {
                let bits = random.bits();
                numbers[0].push(match row % 700 {
                    0 => i64::MIN,
                    1 => i64::MAX,
                    _ => bits as i64,
                });
                // A width for each block.
                numbers[1].push((bits >> (row / 1024 % 64)) as i64);
                numbers[2].push(((bits % 40) * 3) as i64);
                numbers[3].push(7);
                numbers[4]
                    .push((bits % 2_000_000_000_000_000_000) as i64 - 1_000_000_000_000_000_000);
                numbers[5].push((bits % 30_000) as i64 - 3_000);
                words.push(["", "a", "b%", "héé", "zz"][random.below(5)]);
                let mut text = String::new();
                for _ in 0..random.below(7) {
                    text.push_str(
                        ["special ", "re", "quests ", "ü", "😀_", "%", "\u{7f}x"][random.below(7)],
                    );
                }
                text.push_str(&(bits % 10_000).to_string());
                texts.push(&text);
            }
            let mut values: Vec<Values> = numbers.into_iter().map(Values::Numbers).collect();
            values.extend([Values::Texts(words), Values::Texts(texts)]);
            writer.write_group(&values).unwrap();
        }
        writer.finish().unwrap();
        let table = Self::open(&path, dir);
        let encodings: Vec<Encoding> = table.segment.groups()[0]
            .chunks
            .iter()
            .map(|chunk| chunk.encoding)
            .collect();
        assert_eq!(encodings[6..], [Encoding::Dictionary, Encoding::Text]);
        table
    }

    /// A full row group and one of eight rows, of seven words.
    fn short_last_group() -> Self {
        let types = [("mode", ColumnType::Text), ("number", ColumnType::Integer)];
        let schema = schema_of("short", &types);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("short.dpbseg");
        let mut writer = SegmentWriter::create(&path, schema).unwrap();
        let words = ["REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB"];
        for rows in [GROUP_ROWS, 8] {
            let mut texts = Texts::default();
            (0..rows).for_each(|row| texts.push(words[row % 7]));
            let numbers = (0..rows as i64).map(|row| row % 3).collect();
            writer
                .write_group(&[Values::Texts(texts), Values::Numbers(numbers)])
                .unwrap();
        }
        writer.finish().unwrap();
        let table = Self::open(&path, dir);
        let encodings = table
            .segment
            .groups()
            .iter()
            .map(|group| group.chunks[0].encoding);
        assert!(encodings.eq([Encoding::Dictionary, Encoding::Text]));
        table
    }

    fn samples(&self) -> Samples {
        Samples::of_segment(&self.segment, &Cache::new(1 << 30), 1).unwrap()
    }

    fn scan(
        &self,
        kernels: &'static Kernels,
        query: &Query,
        threads: usize,
    ) -> (Vec<Row>, ScanStats) {
        let batches = Mutex::new(Vec::new());
        let stop = AtomicBool::new(false);
        let options = ScanOptions {
            threads,
            stop: &stop,
            batch_rows: 3000,
            ..ROOMY
        };
        let plan = Plan::with_kernels(kernels, self.segment.schema(), query, TABLES_BYTES_MAX);
        let cache = Arc::new(Cache::new(1 << 30));
        let stats = Arc::new(plan.unwrap())
            .batches_on(
                &super::operator::own_cores(),
                &Arc::new(query.clone()),
                &self.segment,
                &cache,
                &options,
                &|batch| {
                    batches.lock().unwrap().push(batch);
                    ControlFlow::Continue(())
                },
            )
            .unwrap();
        let batches = batches.into_inner().unwrap();
        let schema = output_schema(self.segment.schema(), query).unwrap();
        for batch in &batches {
            assert_eq!(batch.schema(), schema);
            assert!(batch.num_rows() > 0 || matches!(query.output, Output::Aggregate(_)));
        }
        (batches.iter().flat_map(rows_of).collect(), stats)
    }

    /// How a scan on one thread ends.
    fn result(&self, query: &Query) -> Result<ScanStats, ScanError> {
        let options = ScanOptions {
            threads: 1,
            stop: &AtomicBool::new(false),
            batch_rows: 1024,
            ..ROOMY
        };
        let cache = Arc::new(Cache::new(1 << 30));
        scan(&self.segment, &cache, query, &options, &|_| {
            ControlFlow::Continue(())
        })
    }

    /// Asserts that all instruction sets find what the reference evaluator finds.
    fn check(&self, query: &Query) -> usize {
        let mut expected = eval::run(query, &self.rows).unwrap();
        let sort = |rows: &mut Vec<Row>| {
            if matches!(query.output, Output::Rows(_)) {
                rows.sort_by_cached_key(|row| format!("{row:?}"));
            }
        };
        sort(&mut expected);
        for kernels in Kernels::available() {
            let (mut found, stats) = self.scan(kernels, query, 2);
            sort(&mut found);
            assert_eq!(found.len(), expected.len(), "{kernels:?} {query:?}");
            for (found, expected) in found.iter().zip(&expected) {
                let same = found
                    .iter()
                    .zip(expected)
                    .all(|(found, expected)| is_same(found, expected));
                assert!(
                    same,
                    "{kernels:?} {query:?}\n   found {found:?}\nexpected {expected:?}"
                );
            }
            assert_eq!(stats.tuples_scanned, self.rows.len() as u64);
            if matches!(query.output, Output::Rows(_)) {
                assert_eq!(stats.rows_selected, expected.len() as u64);
            }
        }
        expected.len()
    }
}

fn schema_of(table: &str, types: &[(&str, ColumnType)]) -> Schema {
    let columns = types.iter().map(|&(name, ty)| Column {
        name: name.to_owned(),
        ty,
    });
    Schema {
        table: table.to_owned(),
        columns: columns.collect(),
    }
}

fn literal(ty: ColumnType, number: i64) -> Literal {
    match ty {
        ColumnType::Date => Literal::Date(number as i32),
        ColumnType::Decimal { scale, .. } => Literal::Number {
            unscaled: number.into(),
            scale,
        },
        _ => Literal::Number {
            unscaled: number.into(),
            scale: 0,
        },
    }
}

/// Doubles may differ by the order of additions.
fn is_same(found: &Literal, expected: &Literal) -> bool {
    match (found, expected) {
        (Literal::Double(a), Literal::Double(b)) => {
            a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= 1e-12 * a.abs().max(b.abs())
        }
        _ => found == expected,
    }
}

fn rows_of(batch: &RecordBatch) -> Vec<Row> {
    let number = |unscaled: i128, scale: i8| Literal::Number {
        unscaled,
        scale: scale as u8,
    };
    let value = |column: &dyn Array, row: usize| {
        if column.is_null(row) {
            return Literal::Null;
        }
        match *column.data_type() {
            DataType::Int32 => number(column.as_primitive::<Int32Type>().value(row).into(), 0),
            DataType::Int64 => number(column.as_primitive::<Int64Type>().value(row).into(), 0),
            DataType::Decimal64(_, scale) => number(
                column.as_primitive::<Decimal64Type>().value(row).into(),
                scale,
            ),
            DataType::Decimal128(_, scale) => {
                number(column.as_primitive::<Decimal128Type>().value(row), scale)
            }
            DataType::Date32 => Literal::Date(column.as_primitive::<Date32Type>().value(row)),
            DataType::Float64 => Literal::Double(column.as_primitive::<Float64Type>().value(row)),
            DataType::Utf8 => Literal::Text(column.as_string::<i32>().value(row).to_owned()),
            ref other => panic!("a scan returns no {other}"),
        }
    };
    (0..batch.num_rows())
        .map(|row| {
            batch
                .columns()
                .iter()
                .map(|column| value(column, row))
                .collect()
        })
        .collect()
}

fn query(table: &Table, predicate: &str, output: Output) -> Query {
    let schema = table.segment.schema();
    Query {
        table: schema.table.clone(),
        predicate: sql::parse_predicate(schema, predicate).unwrap(),
        output,
        limit: None,
    }
}

fn all_columns(table: &Table) -> Output {
    Output::Rows((0..table.segment.schema().columns.len() as u32).collect())
}

fn random_queries(table: &Table, seed: u64, count: usize, group_by: &[u32]) {
    let (schema, samples) = (table.segment.schema(), table.samples());
    let mut generator = Generator::new(schema, &samples, seed);
    let mut selected = 0;
    for i in 0..count {
        let predicate = generator.predicate();
        let output = if i % 4 == 0 {
            Output::Aggregate(generator.aggregate(group_by))
        } else {
            all_columns(table)
        };
        let query = Query {
            table: schema.table.clone(),
            predicate,
            output,
            limit: None,
        };
        selected += usize::from(table.check(&query) > 0);
    }
    assert!(
        selected > count / 4,
        "{selected} of {count} queries found rows"
    );
}

#[test]
fn random_queries_over_lineitem() {
    let table = Table::lineitem(0.001);
    random_queries(&table, 1, 120, &[3, 4, 8, 9, 14]);
}

#[test]
fn random_queries_over_extremes() {
    random_queries(&Table::extremes(), 2, 12, &[2, 3, 6]);
}

#[test]
fn predicates_that_people_write() {
    let table = Table::extremes();
    let Literal::Text(some_text) = &table.rows[2000][7] else {
        panic!("column 7 is text");
    };
    for (predicate, some) in [
        ("text LIKE '%special%quests%'", true),
        ("text NOT LIKE '%special%'", true),
        (
            "text LIKE '%special %' AND small IN (3, 9, 15, 30, 33, 60, 90)",
            true,
        ),
        ("text LIKE '_%ü%😀!_%' ESCAPE '!'", true),
        ("text LIKE 'special %1'", true),
        (&format!("text = '{some_text}'"), true),
        (&format!("text IN ('nowhere', '{some_text}', '')"), true),
        ("text >= 'special ' AND text < 'special 5'", true),
        ("text > word AND word <> ''", true),
        ("word LIKE '%é' OR word IN ('a', 'nowhere')", true),
        ("NOT (word = 'a' OR small < 50) AND fixed = 7", true),
        ("fixed <> 7", false),
        (
            "big IN (1, 2, 3) OR big = -9223372036854775808 OR big >= 9223372036854775807",
            true,
        ),
        (
            "wide BETWEEN 1000 AND 100000 OR wide IN (5, 7, 9, 11)",
            true,
        ),
        ("big * 2 > wide AND big + big > 100", true),
        (
            "small * small > day - DATE '1970-01-01' AND day > DATE '1970-01-05'",
            true,
        ),
        ("money / small > 3e14 OR money = 0.00001", true),
        ("money < 123.45678 AND money >= -5e13", true),
        (
            "day + 10 <= DATE '1990-03-01' AND day <> DATE '1980-01-01'",
            true,
        ),
        ("small = NULL OR small NOT IN (3, NULL)", false),
        ("small * small + 1 IN (10, 82, 82.0, 5.5, 101, NULL)", true),
        ("small * small + 1 NOT IN (10, 82, 5.5)", true),
        ("small * 0.5 IN (1.50, 2, 0.125)", true),
        (
            "big * big - big * big IN (0, 1e3) OR small IN (1, 2.00, 3.5)",
            true,
        ),
        ("big * big - big * big IN (1, 0, 9) AND small > 3", true),
        (
            "money / small IN (0, 1, 0.5) OR small / 2 NOT IN (1, 1.5, 1e0)",
            true,
        ),
        ("day + 10 IN (DATE '1970-01-11', DATE '1990-03-01')", true),
        ("7 IN (3, 7) AND 'a' NOT IN ('b') AND small < 5", true),
    ] {
        let found = table.check(&query(&table, predicate, all_columns(&table)));
        assert_eq!(found > 0, some, "{predicate}");
    }
}

#[test]
fn aggregates_of_everything() {
    let table = Table::extremes();
    let schema = table.segment.schema();
    for (aggregate, group_by) in [
        (
            "count(*), sum(big), min(big), max(big), avg(small), sum(money*small)",
            None,
        ),
        (
            "min(text), max(text), min(word), max(day), sum(wide*small)",
            Some("word"),
        ),
        (
            "count(*), sum(small), min(day), avg(money)",
            Some("small, word"),
        ),
        (
            "max(money * small), sum(fixed), avg(day - DATE '1970-01-01')",
            Some("fixed"),
        ),
    ] {
        let aggregate = sql::parse_aggregate(schema, aggregate, group_by).unwrap();
        for predicate in ["TRUE", "small > 30 AND text LIKE '%re%'", "fixed = 8"] {
            table.check(&query(
                &table,
                predicate,
                Output::Aggregate(aggregate.clone()),
            ));
        }
    }
}

#[test]
fn an_expression_beyond_64_bits_is_exact_and_beyond_128_an_error() {
    let table = Table::extremes();
    let big = || Box::new(Scalar::Column(0));
    let product = |left, right| Scalar::Arithmetic {
        op: ArithmeticOp::Multiply,
        left,
        right,
    };
    let square = product(big(), big());
    let over = |scalar: Scalar| Query {
        table: String::new(),
        predicate: Predicate::Compare {
            op: CompareOp::Greater,
            left: scalar,
            right: Scalar::Literal(Literal::Number {
                unscaled: 1 << 100,
                scale: 0,
            }),
        },
        output: Output::Rows(vec![0]),
        limit: None,
    };
    assert!(table.check(&over(square.clone())) > 1000);
    let result = table.result(&over(product(Box::new(square.clone()), Box::new(square))));
    assert!(matches!(result, Err(ScanError::Overflow)), "{result:?}");
}

#[test]
fn only_rows_that_all_else_passes_can_overflow() {
    let table = Table::extremes();
    // Cubes of numbers of 42 bits fit 127; `wide` has blocks in which some numbers are wider.
    let fits = "wide >= 0 AND wide < 4000000000000";
    for fallible in [
        "wide * wide * wide <> 8",
        "wide * wide * wide / 1e0 > 1e30",
        "1e30 < wide * wide * wide / 1e0 + small",
        "wide * wide * wide / 1e0 IN (1e0, 8, 27) OR small > 60",
        "wide * wide * wide NOT IN (1e0, 8, 27)",
        "(small > 30 AND wide * wide * wide / 1e0 < 1e30 OR wide * wide * wide / 1e0 > 1e29)",
    ] {
        let predicate = format!("{fits} AND {fallible}");
        let found = table.check(&query(&table, &predicate, all_columns(&table)));
        assert!(found > 100, "{predicate}: {found} rows");
        let result = table.result(&query(&table, fallible, all_columns(&table)));
        assert!(
            matches!(result, Err(ScanError::Overflow)),
            "{fallible}: {result:?}"
        );
    }
}

#[test]
fn an_aggregate_that_its_type_cannot_hold_is_an_error() {
    let table = Table::extremes();
    let plus = |column, unscaled| Scalar::Arithmetic {
        op: ArithmeticOp::Add,
        left: Box::new(Scalar::Column(column)),
        right: Box::new(Scalar::Literal(Literal::Number { unscaled, scale: 0 })),
    };
    for function in [
        AggregateFunction::Max(plus(5, i32::MAX.into())),
        // 10^38 is the first number of 39 digits.
        AggregateFunction::Min(plus(3, 10i128.pow(38) - 1)),
    ] {
        let aggregate = Aggregate {
            group_by: Vec::new(),
            functions: vec![AggregateCall {
                name: "x".to_owned(),
                function,
            }],
        };
        let result = table.result(&query(&table, "TRUE", Output::Aggregate(aggregate)));
        assert!(matches!(result, Err(ScanError::Overflow)), "{result:?}");
    }
}

#[test]
fn more_groups_than_a_result_may_have_is_an_error() {
    let table = Table::extremes();
    let aggregate = Aggregate {
        group_by: vec![0],
        functions: vec![AggregateCall {
            name: "n".to_owned(),
            function: AggregateFunction::Count,
        }],
    };
    let result = table.result(&query(&table, "TRUE", Output::Aggregate(aggregate)));
    assert!(
        matches!(result, Err(ScanError::TooManyGroups(_))),
        "{result:?}"
    );
}

/// A last row group of a few rows keeps no dictionary.
#[test]
fn groups_form_whatever_the_encoding_of_their_texts() {
    let table = Table::extremes();
    let schema = table.segment.schema();
    for (group_by, predicate, groups) in [
        ("text", "small = 30", 1000),
        ("text, word", "small = 30", 1000),
        ("small, text", "small IN (30, 33)", 1000),
        ("text, text", "small = 30", 1000),
    ] {
        let functions = "count(*), min(text), sum(small)";
        let aggregate = sql::parse_aggregate(schema, functions, Some(group_by)).unwrap();
        let found = table.check(&query(&table, predicate, Output::Aggregate(aggregate)));
        assert!(found > groups, "{group_by}: {found} groups");
    }
    let table = Table::short_last_group();
    let schema = table.segment.schema();
    for group_by in ["mode", "number, mode", "mode, number"] {
        let aggregate =
            sql::parse_aggregate(schema, "count(*), max(mode)", Some(group_by)).unwrap();
        for (predicate, groups) in [("TRUE", 7), ("mode <> 'AIR'", 6)] {
            let output = Output::Aggregate(aggregate.clone());
            let found = table.check(&query(&table, predicate, output));
            assert!(found >= groups, "{group_by}: {found} groups");
        }
    }
}

#[test]
fn zone_maps_leave_out_what_cannot_qualify() {
    let table = Table::lineitem(0.02);
    let (_, stats) = table.scan(
        Kernels::detect(),
        &query(
            &table,
            "l_orderkey BETWEEN 1000 AND 1100",
            Output::Rows(vec![0]),
        ),
        1,
    );
    assert_eq!(stats.groups_skipped, 1);
    assert!(
        stats.blocks_scanned <= 2 && stats.blocks_skipped >= 60,
        "{stats:?}"
    );
    assert_eq!(stats.tuples_scanned, table.rows.len() as u64);
}

#[test]
fn a_sink_or_the_stop_flag_ends_the_scan() {
    let table = Table::extremes();
    let query = query(&table, "TRUE", all_columns(&table));
    let cache = Arc::new(Cache::new(1 << 30));
    let stop = AtomicBool::new(false);
    let options = ScanOptions {
        threads: 2,
        stop: &stop,
        batch_rows: 1024,
        ..ROOMY
    };
    let batches = AtomicUsize::new(0);
    let sink = |_| {
        batches.fetch_add(1, Ordering::Relaxed);
        ControlFlow::Break(())
    };
    let stats = scan(&table.segment, &cache, &query, &options, &sink).unwrap();
    assert!(stats.stopped && batches.load(Ordering::Relaxed) <= 2);
    stop.store(true, Ordering::Relaxed);
    let stats = scan(&table.segment, &cache, &query, &options, &sink).unwrap();
    assert!(stats.stopped && stats.tuples_scanned == 0, "{stats:?}");
}

/// The rows of all batches, and the largest batch in bytes and rows. The cache has no room.
fn gathered(
    table: &Table,
    query: &Query,
    options: &ScanOptions<'_>,
) -> Result<(usize, usize, usize), ScanError> {
    let seen = Mutex::new((0, 0, 0));
    let cache = Arc::new(Cache::new(0));
    scan(&table.segment, &cache, query, options, &|batch| {
        let mut seen = seen.lock().unwrap();
        // All columns lie in the one message.
        let bytes = batch.column(0).get_buffer_memory_size();
        *seen = (
            seen.0 + batch.num_rows(),
            seen.1.max(bytes),
            seen.2.max(batch.num_rows()),
        );
        ControlFlow::Continue(())
    })?;
    Ok(seen.into_inner().unwrap())
}

#[test]
fn batches_keep_to_the_rows_and_the_memory_that_they_may_have() {
    let table = Table::lineitem(0.001);
    let query = query(&table, "TRUE", all_columns(&table));
    let plan = Plan::new(table.segment.schema(), &query).unwrap();
    for sink_batches in [0, 5] {
        let least = plan.memory_bytes_min(&table.segment, sink_batches);
        let most = plan.memory_bytes_max(&table.segment, 2, 16 << 10, sink_batches);
        for memory_bytes in [least, 2 * least, most] {
            for batch_rows in [1, 100, 5000, 1 << 20] {
                let options = ScanOptions {
                    threads: 2,
                    memory_bytes,
                    sink_batches,
                    batch_rows,
                    ..ROOMY
                };
                let (rows, bytes, longest) = gathered(&table, &query, &options).unwrap();
                assert_eq!(rows, table.rows.len());
                assert!(
                    longest <= batch_rows,
                    "{longest} rows, {batch_rows} allowed"
                );
                // Arrow's own structures are not counted.
                let batches = 2 + sink_batches;
                let allowed = memory_bytes / batches + 16 * 256;
                assert!(bytes <= allowed, "{bytes} bytes, {allowed} allowed");
            }
        }
        let options = ScanOptions {
            memory_bytes: least - 1,
            sink_batches,
            ..ROOMY
        };
        let refused = gathered(&table, &query, &options).unwrap_err();
        assert!(matches!(refused, ScanError::Memory(_)), "{refused}");
    }
}

#[test]
fn threads_share_the_memory_for_chunks_that_the_cache_has_no_room_for() {
    let table = Table::extremes();
    let plan = |columns: &[u32]| {
        let query = query(&table, "small > 3", Output::Rows(columns.to_vec()));
        Plan::new(table.segment.schema(), &query).unwrap()
    };
    // A full row group's column of 64 random bits a row is 512 KiB.
    let (narrow, wide) = (plan(&[2]), plan(&[0, 2]));
    let least = narrow.memory_bytes_min(&table.segment, 0);
    assert!(wide.memory_bytes_min(&table.segment, 0) > least + (512 << 10));
    let chunks = wide.chunks(&table.segment);
    let memory = 2 * wide.memory_bytes_min(&table.segment, 0);
    assert_eq!(
        wide.shares(8, chunks, memory, (1024, 0)).unwrap().threads,
        2
    );
    let room = 8 * chunks.thread_bytes;
    let roomy = wide
        .shares(8, Chunks { room, ..chunks }, memory, (1024, 0))
        .unwrap();
    assert_eq!(roomy.threads, 8);
}

#[test]
fn groups_keep_to_the_memory_that_they_may_have() {
    let table = Table::lineitem(0.001);
    let schema = table.segment.schema();
    let aggregate = "count(*), sum(l_quantity), min(l_comment)";
    let aggregate =
        sql::parse_aggregate(schema, aggregate, Some("l_shipdate, l_shipmode")).unwrap();
    let query = query(&table, "TRUE", Output::Aggregate(aggregate));
    let plan = Plan::new(schema, &query).unwrap();
    let with = |memory_bytes| {
        let options = ScanOptions {
            memory_bytes,
            ..ROOMY
        };
        gathered(&table, &query, &options)
    };
    let (groups, ..) = with(plan.memory_bytes_max(&table.segment, 1, 1024, 0)).unwrap();
    assert!(groups > 2000, "{groups}");
    let refused = with(plan.memory_bytes_min(&table.segment, 0)).unwrap_err();
    assert!(matches!(refused, ScanError::Memory(_)), "{refused}");
}

#[test]
fn a_long_list_over_an_expression_takes_no_vector_a_value() {
    let table = Table::lineitem(0.001);
    let list: Vec<String> = (0..5000).map(|i| (i * 7).to_string()).collect();
    let predicate = format!("l_orderkey + l_linenumber IN ({})", list.join(", "));
    let query = query(&table, &predicate, all_columns(&table));
    let plan = Plan::new(table.segment.schema(), &query).unwrap();
    assert!(
        plan.memory_bytes_min(&table.segment, 0) < 1 << 20,
        "{}",
        plan.memory_bytes_min(&table.segment, 0)
    );
    assert!(table.check(&query) > 500);
}

#[test]
fn a_date_beyond_32_bits_is_an_error_as_it_is_for_the_evaluator() {
    let table = Table::extremes();
    for (predicate, fails) in [
        ("day + 2147483647 > DATE '1970-01-01'", true),
        ("day - 2147483647 - 2147483647 < DATE '1970-01-01'", true),
        ("small < 0 AND day + 2147483647 > DATE '1970-01-01'", false),
        ("day + small > DATE '1970-01-01'", false),
    ] {
        let query = query(&table, predicate, all_columns(&table));
        let expected = eval::run(&query, &table.rows);
        assert_eq!(expected.is_err(), fails, "{predicate}");
        match table.result(&query) {
            Ok(stats) => assert_eq!(stats.rows_selected as usize, expected.unwrap().len()),
            Err(error) => assert!(fails && matches!(error, ScanError::Overflow), "{error}"),
        }
    }
}

/// The deepest query that is accepted, of AND and OR in turn, so that none of it can be flattened.
#[test]
fn the_deepest_query_is_bound_and_tested_on_half_of_a_threads_stack() {
    let table = Table::lineitem(0.001);
    let schema = table.segment.schema();
    let nested = |levels: usize| {
        let leaf = |op| Predicate::Compare {
            op,
            left: Scalar::Column(0),
            right: Scalar::Column(1),
        };
        let predicate =
            (0..levels).fold(leaf(CompareOp::NotEqual), |inner, level| match level % 2 {
                0 => Predicate::And(vec![leaf(CompareOp::Less), inner]),
                _ => Predicate::Or(vec![leaf(CompareOp::Greater), inner]),
            });
        Query {
            table: "lineitem".to_owned(),
            predicate,
            output: Output::Rows(vec![0]),
            limit: None,
        }
    };
    // Scalars are a level below the comparison that they are in.
    let levels = crate::query::DEPTH_MAX - 1;
    assert!(nested(levels + 1).check(schema).is_err());
    let query = nested(levels);
    query.check(schema).unwrap();
    let expected = eval::run(&query, table.rows.iter().cloned()).unwrap();
    let rows = std::thread::scope(|scope| {
        let scanning = std::thread::Builder::new().stack_size(1 << 20);
        let scanned = scanning.spawn_scoped(scope, || {
            let rows = Mutex::new(0);
            let cache = Arc::new(Cache::new(1 << 30));
            let count = |batch: RecordBatch| {
                *rows.lock().unwrap() += batch.num_rows();
                ControlFlow::Continue(())
            };
            scan(&table.segment, &cache, &query, &ROOMY, &count).unwrap();
            rows.into_inner().unwrap()
        });
        scanned.unwrap().join().unwrap()
    });
    assert_eq!(rows, expected.len());
    assert!(rows > 0);
}
