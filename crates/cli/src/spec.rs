//! An operator's own parameters in a record, and the changes of a simulated system: all of them, typed, behind a prefix, so that none
//! is taken for one of the harness (`mode`, `size` …) and each can be swept and compared.

use dpb_core::measure::{Record, Value};
use dpb_operators::registry::Case;

/// Before the name of an operator's own parameter: `op.level`.
const PREFIX: &str = "op.";
/// Before the place of a simulated system's parameter that was changed: `set.card.pcie_ns`.
pub const SETTING: &str = "set.";

/// The record with what `case` computes, and on what: `operator`, and its parameters.
pub fn kept(record: Record, case: &Case) -> Record {
    let record = record.with("operator", case.spec.name());
    let parameters = case.parameters().into_iter();
    parameters.fold(record, |record, (name, value)| {
        record.with(&format!("{PREFIX}{name}"), value)
    })
}

/// True if this parameter of a record is the operator's own, or the system's.
pub fn is_own(name: &str) -> bool {
    name.starts_with(PREFIX) || name.starts_with(SETTING)
}

/// The parameter's name without the prefix.
pub fn bare(name: &str) -> &str {
    let bare = name.strip_prefix(PREFIX);
    bare.or_else(|| name.strip_prefix(SETTING)).unwrap_or(name)
}

/// The operator's own parameters, or the system's, by their names in the record.
pub fn own(record: &Record) -> impl Iterator<Item = (&str, &Value)> {
    let parameters = record.parameters.iter();
    let parameters = parameters.map(|(name, value)| (name.as_str(), value));
    parameters.filter(|(name, _)| is_own(name))
}

/// As `--parameters` takes them: `format=raw,level=6`; instead of a file what tells its content from another's.
pub fn written(record: &Record) -> String {
    let pairs: Vec<String> = own(record)
        .map(|(name, value)| format!("{}={value}", bare(name)))
        .collect();
    pairs.join(",")
}
