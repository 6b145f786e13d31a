//! The reasons why a description is none.

use std::fmt;

/// The reason why a file describes no system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescriptionError(pub(crate) String);

impl fmt::Display for DescriptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for DescriptionError {}

pub(crate) fn refuse<T>(why: impl Into<String>) -> Result<T, DescriptionError> {
    Err(DescriptionError(why.into()))
}

/// Picoseconds of so many units; refused if they are no time.
pub(crate) fn picoseconds(what: &str, value: f64, unit_ps: f64) -> Result<u64, DescriptionError> {
    let ps = value * unit_ps;
    match ps.is_finite() && (0.0..1e18).contains(&ps) {
        true => Ok(ps.round() as u64),
        false => refuse(format!("{what}: {value} is no time")),
    }
}
