//! Every type that is taken, what is refused, and where row groups end.

use arrow_array::{
    ArrayRef, Date32Array, Decimal128Array, Float64Array, Int8Array, Int32Array, Int64Array,
    LargeStringArray, StringArray, StringViewArray,
};

use super::*;
use crate::table::Segment;

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter(columns).unwrap()
}

/// The column types of a segment of these batches, and its rows, as they are stored.
fn written(batches: &[RecordBatch]) -> Result<(Vec<ColumnType>, Vec<Vec<Values>>), WriteError> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t");
    let mut writer = BatchWriter::create(&path, "t", &batches[0].schema())?;
    for batch in batches {
        if let Err(error) = writer.write(batch) {
            drop(writer);
            assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
            return Err(error);
        }
    }
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    assert_eq!(writer.finish()?.rows, rows as u64);
    let segment = Segment::open(&path).unwrap();
    let types = segment.schema().columns.iter().map(|column| column.ty);
    let groups = (0..segment.groups().len()).map(|group| {
        let mut columns = values::empty(segment.schema());
        for (at, values) in columns.iter_mut().enumerate() {
            segment.read_chunk(group, at).unwrap().decode(values);
        }
        columns
    });
    Ok((types.collect(), groups.collect()))
}

fn numbers(numbers: &[i64]) -> Values {
    Values::Numbers(numbers.to_vec())
}

fn texts(all: &[&str]) -> Values {
    let mut texts = values::Texts::default();
    all.iter().for_each(|text| texts.push(text));
    Values::Texts(texts)
}

#[test]
fn each_type_is_stored_as_the_table_says() {
    let decimals = Decimal128Array::from(vec![-1234, 999_999]);
    let decimals = decimals.with_precision_and_scale(6, 2).unwrap();
    let all = batch(vec![
        ("tiny", Arc::new(Int8Array::from(vec![-128, 127]))),
        ("int", Arc::new(Int32Array::from(vec![i32::MIN, i32::MAX]))),
        ("big", Arc::new(Int64Array::from(vec![i64::MIN, i64::MAX]))),
        ("price", Arc::new(decimals)),
        ("day", Arc::new(Date32Array::from(vec![0, 8035]))),
        ("short", Arc::new(StringArray::from(vec!["", "über"]))),
        ("large", Arc::new(LargeStringArray::from(vec!["a", "b"]))),
        ("view", Arc::new(StringViewArray::from(vec!["a", "c"]))),
    ]);
    // A slice is what it shows.
    let (types, groups) = written(&[all.clone(), all.slice(1, 1)]).unwrap();
    let decimal = ColumnType::Decimal {
        precision: 6,
        scale: 2,
    };
    assert_eq!(
        types[..3],
        [ColumnType::Integer, ColumnType::Integer, ColumnType::BigInt]
    );
    assert_eq!(types[3..5], [decimal, ColumnType::Date]);
    assert_eq!(types[5..], [ColumnType::Text; 3]);
    let right = [
        numbers(&[-128, 127, 127]),
        numbers(&[i32::MIN.into(), i32::MAX.into(), i32::MAX.into()]),
        numbers(&[i64::MIN, i64::MAX, i64::MAX]),
        numbers(&[-1234, 999_999, 999_999]),
        numbers(&[0, 8035, 8035]),
        texts(&["", "über", "über"]),
        texts(&["a", "b", "b"]),
        texts(&["a", "c", "c"]),
    ];
    assert_eq!(groups, [right]);
}

#[test]
fn row_groups_end_after_65536_rows_and_before_too_much_text() {
    let rows = GROUP_ROWS + 10;
    let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows as i64));
    let (_, groups) = written(&[
        batch(vec![("a", Arc::clone(&column))]),
        batch(vec![("a", column)]),
    ])
    .unwrap();
    let lens: Vec<usize> = groups.iter().map(|columns| columns[0].len()).collect();
    assert_eq!(lens, [GROUP_ROWS, GROUP_ROWS, 20]);
    let mut all = groups
        .into_iter()
        .flat_map(|mut columns| match columns.remove(0) {
            Values::Numbers(numbers) => numbers,
            Values::Texts(_) => panic!("numbers"),
        });
    assert!(
        (0..rows as i64)
            .chain(0..rows as i64)
            .all(|right| all.next() == Some(right))
    );

    let long = "x".repeat(STRING_BYTES_MAX);
    let texts = StringArray::from_iter_values((0..40).map(|_| &long));
    let (_, groups) = written(&[batch(vec![("a", Arc::new(texts))])]).unwrap();
    let lens: Vec<usize> = groups.iter().map(|columns| columns[0].len()).collect();
    let fitting = GROUP_TEXT_BYTES_MAX / STRING_BYTES_MAX;
    assert_eq!(lens, [fitting, fitting, 40 - 2 * fitting]);
}

#[test]
fn what_a_segment_cannot_hold_is_refused_with_its_place() {
    let ints = || -> ArrayRef { Arc::new(Int32Array::from(vec![1, 2])) };
    let refused = |batches: &[RecordBatch]| written(batches).unwrap_err().to_string();
    let floats = batch(vec![("f", Arc::new(Float64Array::from(vec![0.5])))]);
    let told = refused(&[floats]);
    assert!(
        told.contains("column f: a segment has no Float64; cast"),
        "{told}"
    );
    let holes = batch(vec![("a", Arc::new(Int32Array::from(vec![Some(1), None])))]);
    let told = refused(&[batch(vec![("a", ints())]), holes]);
    assert!(told.contains("column a, row 3: NULL"), "{told}");
    let long = "x".repeat(STRING_BYTES_MAX + 1);
    let told = refused(&[batch(vec![(
        "t",
        Arc::new(StringArray::from(vec!["", &long])),
    )])]);
    assert!(
        told.contains("column t, row 1: a text of 1048577 bytes"),
        "{told}"
    );
    // Arrow itself does not look whether a decimal has more digits than its type says.
    let wide = Decimal128Array::from(vec![1000]).with_precision_and_scale(3, 0);
    let told = refused(&[batch(vec![("d", Arc::new(wide.unwrap()))])]);
    assert!(
        told.contains("column d, row 0: a number of more than 3 digits"),
        "{told}"
    );
    let exact = Decimal128Array::from(vec![1]).with_precision_and_scale(19, 0);
    let told = refused(&[batch(vec![("d", Arc::new(exact.unwrap()))])]);
    assert!(
        told.contains("column d: a segment has no Decimal128(19, 0)"),
        "{told}"
    );
    let told = refused(&[batch(vec![("a", ints()), ("A", ints())])]);
    assert!(told.contains("two columns are called A"), "{told}");
    let told = refused(&[batch(vec![("a", ints())]), batch(vec![("b", ints())])]);
    assert!(told.contains("other columns than t"), "{told}");
}

#[test]
fn a_table_without_rows_is_one() {
    let none = batch(vec![("a", Arc::new(Int32Array::from(Vec::<i32>::new())))]);
    let (types, groups) = written(&[none]).unwrap();
    assert_eq!((types, groups), (vec![ColumnType::Integer], vec![]));
}
