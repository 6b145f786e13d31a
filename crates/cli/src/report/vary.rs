//! Parameters of a list of records: which values they have, and which follow from which.

use std::collections::{BTreeMap, BTreeSet};

use dpb_core::measure::{Record, Value};

/// A parameter's value as text; empty where the record has none.
pub(super) fn text_of(record: &Record, name: &str) -> String {
    record
        .parameters
        .get(name)
        .map_or(String::new(), ToString::to_string)
}

/// A parameter's value, if it is a number.
pub(super) fn number_of(record: &Record, name: &str) -> Option<f64> {
    record.parameters.get(name).and_then(as_number)
}

/// A value, if it is a number.
pub(super) fn as_number(value: &Value) -> Option<f64> {
    match value {
        Value::Int(value) => Some(*value as f64),
        Value::Float(value) => Some(*value),
        Value::Bool(_) | Value::Text(_) => None,
    }
}

/// The values that a parameter has.
pub(super) fn distinct(records: &[&Record], name: &str) -> BTreeSet<String> {
    records.iter().map(|record| text_of(record, name)).collect()
}

/// Whether `name` has one value for each value of `by`.
pub(super) fn determines(records: &[&Record], by: &str, name: &str) -> bool {
    let mut seen = BTreeMap::new();
    records.iter().all(|record| {
        let value = text_of(record, name);
        *seen
            .entry(text_of(record, by))
            .or_insert_with(|| value.clone())
            == value
    })
}
