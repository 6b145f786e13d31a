//! The digest against multisets of rows, compared as such.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::{
    Date32Array, Decimal64Array, Decimal128Array, Float64Array, Int32Array, Int64Array, StringArray,
};
use arrow_schema::{Field, Schema};
use proptest::prelude::*;

use super::*;

/// Small domains, so that equal sets are as likely as different ones.
type Row = (Option<i32>, i64, String, String, Option<i64>);

fn batch(rows: &[Row]) -> RecordBatch {
    let columns: Vec<(&str, ArrayRef)> = vec![
        (
            "a",
            Arc::new(rows.iter().map(|row| row.0).collect::<Int32Array>()),
        ),
        (
            "b",
            Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.1))),
        ),
        (
            "c",
            Arc::new(StringArray::from_iter_values(rows.iter().map(|row| &row.2))),
        ),
        (
            "d",
            Arc::new(StringArray::from_iter_values(rows.iter().map(|row| &row.3))),
        ),
        (
            "e",
            Arc::new(rows.iter().map(|row| row.4).collect::<Int64Array>()),
        ),
    ];
    let nullable = columns
        .into_iter()
        .map(|(name, column)| (name, column, true));
    RecordBatch::try_from_iter_with_nullable(nullable).unwrap()
}

fn multiset(rows: &[Row]) -> BTreeMap<&Row, usize> {
    let mut times = BTreeMap::new();
    rows.iter()
        .for_each(|row| *times.entry(row).or_default() += 1);
    times
}

fn digest(batches: &[RecordBatch]) -> Digest {
    Digest::of(batches).unwrap()
}

prop_compose! {
    fn row()(a in prop_oneof![Just(None), (0..2i32).prop_map(Some)], b in 0..2i64, c in "[ab]{0,2}", d in "[ab]{0,2}",
        e in prop_oneof![Just(None), (0..2i64).prop_map(Some)]) -> Row { (a, b, c, d, e) }
}

proptest! {
    #[test]
    fn equal_if_the_rows_are(
        left in proptest::collection::vec(row(), 0..4),
        right in proptest::collection::vec(row(), 0..4)
    ) {
        let same = multiset(&left) == multiset(&right);
        let (left, right) = ([batch(&left)], [batch(&right)]);
        prop_assert_eq!(digest(&left) == digest(&right), same);
        prop_assert_eq!(first_difference("l", &left, "r", &right).unwrap().is_none(), same);
    }

    #[test]
    fn order_and_batches_do_not_matter(
        rows in proptest::collection::vec(row(), 0..20), cut in 0..20usize, turn in 0..20usize
    ) {
        let whole = digest(&[batch(&rows)]);
        let mut turned = rows.clone();
        turned.rotate_left(turn.min(rows.len()));
        let (first, second) = turned.split_at(cut.min(rows.len()));
        prop_assert_eq!(digest(&[batch(first), batch(second)]), whole);
        prop_assert_eq!(digest(&[batch(first)]).merge(digest(&[batch(second)])), whole);
    }
}

#[test]
fn types_columns_and_boundaries_matter() {
    let of = |columns: Vec<ArrayRef>| {
        let named = columns
            .into_iter()
            .enumerate()
            .map(|(i, column)| (format!("c{i}"), column));
        digest(&[
            RecordBatch::try_from_iter_with_nullable(named.map(|(n, c)| (n, c, true))).unwrap(),
        ])
    };
    let text = |values: &[&str]| -> ArrayRef { Arc::new(StringArray::from(values.to_vec())) };
    let decimal = |scale| -> ArrayRef {
        Arc::new(
            Decimal64Array::from(vec![1])
                .with_precision_and_scale(15, scale)
                .unwrap(),
        )
    };
    let wide = |value| -> ArrayRef { Arc::new(Decimal128Array::from(vec![value])) };
    let double = |value| -> ArrayRef { Arc::new(Float64Array::from(vec![value])) };
    let digests = [
        of(vec![text(&["ab"]), text(&["c"])]),
        of(vec![text(&["a"]), text(&["bc"])]),
        of(vec![text(&["c"]), text(&["ab"])]),
        of(vec![text(&["ab\0"]), text(&["c"])]),
        of(vec![text(&["0123456789abcdef"])]),
        of(vec![text(&["0123456789abcdef\0"])]),
        of(vec![text(&["89abcdef01234567"])]),
        of(vec![Arc::new(Int32Array::from(vec![1]))]),
        of(vec![Arc::new(Int64Array::from(vec![1]))]),
        of(vec![Arc::new(Date32Array::from(vec![1]))]),
        of(vec![Arc::new(Int64Array::from(vec![None]))]),
        of(vec![Arc::new(Int64Array::from(vec![0]))]),
        of(vec![decimal(2)]),
        of(vec![decimal(3)]),
        of(vec![wide(1)]),
        of(vec![wide(1 << 64)]),
        of(vec![double(0.0)]),
        of(vec![double(1.0)]),
        of(vec![double(f64::NAN)]),
    ];
    for (i, a) in digests.iter().enumerate() {
        for b in &digests[..i] {
            assert_ne!(a.sum, b.sum);
        }
    }
    assert_eq!(of(vec![double(-0.0)]), digests[16]);
    assert_eq!(of(vec![double(-f64::NAN)]), digests[18]);
}

#[test]
fn the_first_difference_is_the_smallest_row() {
    let row = |b: i64, c: &str| -> Row { (None, b, c.into(), "x".into(), Some(7)) };
    let left = [
        batch(&[row(3, "c"), row(1, "a")]),
        batch(&[row(2, "b"), row(2, "b")]),
    ];
    let right = [batch(&[row(2, "b"), row(9, "z"), row(1, "a")])];
    assert_eq!(
        first_difference("DuckDB", &left, "the scan", &right)
            .unwrap()
            .as_deref(),
        Some("DuckDB has 2, the scan has 1 of the row (a=NULL, b=2, c=\"b\", d=\"x\", e=7)")
    );
    // What one side has more often is no surplus of the other.
    let surplus = |left: &[RecordBatch], right: &[RecordBatch]| {
        first_surplus("part", left, "whole", right).unwrap()
    };
    assert_eq!(surplus(&left[1..], &left), None);
    assert_eq!(
        surplus(&right, &left).as_deref(),
        Some("part has 1, whole has 0 of the row (a=NULL, b=9, c=\"z\", d=\"x\", e=7)")
    );
    assert!(
        surplus(&left[1..], &right)
            .unwrap()
            .starts_with("part has 2, whole has 1")
    );
    let odd = RecordBatch::new_empty(Arc::new(Schema::new(vec![Field::new(
        "k",
        DataType::Int8,
        false,
    )])));
    let error = Digest::of([&odd]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "no digest of column `k`: a scan returns no Int8"
    );
}
