//! The reasons why a description is none.

use std::fmt;

use super::times::{BYTE_PS_MAX, JOB_PS_MAX};

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

/// The longest time that is waited once, in picoseconds: eleven days. A few of them still fit into a time.
const WAIT_PS_MAX: u64 = 1_000_000_000_000_000_000;
/// Lanes or cores, at most.
const LANES_MAX: u64 = 1 << 16;
/// Jobs that wait, at most. If each takes as long as one may, their sum is the longest wait.
const WAITING_MAX: u64 = 1 << 20;

/// Picoseconds of so many units; refused if they are no time.
pub(crate) fn picoseconds(what: &str, value: f64, unit_ps: f64) -> Result<u64, DescriptionError> {
    picoseconds_to(WAIT_PS_MAX, what, value, unit_ps)
}

/// Picoseconds of so many units; refused if they are no time, or more than `most_ps`.
pub(crate) fn picoseconds_to(
    most_ps: u64,
    what: &str,
    value: f64,
    unit_ps: f64,
) -> Result<u64, DescriptionError> {
    let ps = value * unit_ps;
    match ps.is_finite() && (0.0..=most_ps as f64).contains(&ps) {
        true => Ok(ps.round() as u64),
        false => refuse(format!(
            "{what}: {value} is no time from 0 to {} s",
            most_ps as f64 / 1e12
        )),
    }
}

/// Picoseconds of so many nanoseconds for which a part has a job. Jobs wait for each other, so their times add up.
pub(crate) fn job_ps(what: &str, value_ns: f64) -> Result<u64, DescriptionError> {
    picoseconds_to(JOB_PS_MAX, what, value_ns, 1e3)
}

/// Picoseconds for which a part has a byte.
pub(crate) fn byte_ps(what: &str, value: u64) -> Result<u64, DescriptionError> {
    at_most(BYTE_PS_MAX, what, value)
}

/// A number of lanes or of cores: above zero.
pub(crate) fn lanes(what: &str, value: usize) -> Result<usize, DescriptionError> {
    match value {
        0 => refuse(format!("{what}: there is at least one")),
        _ => at_most(LANES_MAX, what, value as u64).map(|_| value),
    }
}

/// A number of jobs that may wait.
pub(crate) fn waiting(what: &str, value: usize) -> Result<usize, DescriptionError> {
    at_most(WAITING_MAX, what, value as u64).map(|_| value)
}

/// A number that is not more than `most`.
pub(crate) fn at_most(most: u64, what: &str, value: u64) -> Result<u64, DescriptionError> {
    match value <= most {
        true => Ok(value),
        false => refuse(format!("{what}: {value} is more than {most}")),
    }
}

/// Refuses parameters that are there and change nothing.
pub(crate) fn unused(what: &str, given: &[(&str, bool)]) -> Result<(), DescriptionError> {
    match given.iter().find(|(_, is_given)| *is_given) {
        Some((name, _)) => refuse(format!("{what}: {name} would change nothing")),
        None => Ok(()),
    }
}
