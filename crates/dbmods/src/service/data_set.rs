//! Names of data sets: the tables that a request is about.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::tpch;

/// Most bytes of a name.
const NAME_BYTES_MAX: usize = 64;
/// The begin of the names of TPC-H's data sets; the scale factor follows.
const TPCH: &str = "tpch-sf";
/// The name of the tables that an agent was given.
const GIVEN: &str = "given";

/// The name of a data set of an agent's: `tpch-sf10` for TPC-H's tables at scale factor 10, `given` for the tables that the agent was
/// given when it started. A name has 1 to 64 letters, digits, points, hyphens and underscores (ASCII), so it may stand in a message or
/// in a path.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct DataSet(String);

/// The reason why there is no such data set.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum DataSetError {
    /// The name has other characters, or too many.
    #[error(
        "a data set's name has 1 to {NAME_BYTES_MAX} letters, digits, points, hyphens and underscores"
    )]
    Name,
    /// The scale factor is none that dpb makes tables for.
    #[error(
        "{0} is no scale factor; it is {least} to {most}",
        least = tpch::SCALE_FACTORS.start(),
        most = tpch::SCALE_FACTORS.end()
    )]
    ScaleFactor(f64),
}

impl DataSet {
    /// TPC-H's tables at this scale factor, made by dpb in the agent's data directory.
    ///
    /// # Errors
    /// [`DataSetError::ScaleFactor`].
    pub fn tpch(scale_factor: f64) -> Result<Self, DataSetError> {
        match tpch::SCALE_FACTORS.contains(&scale_factor) {
            true => Ok(Self(format!("{TPCH}{scale_factor}"))),
            false => Err(DataSetError::ScaleFactor(scale_factor)),
        }
    }

    /// The tables that the agent was given when it started.
    pub fn given() -> Self {
        Self(GIVEN.to_owned())
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.0
    }

    /// TPC-H's scale factor; `None` of another data set.
    pub fn scale_factor(&self) -> Option<f64> {
        let scale_factor = self.0.strip_prefix(TPCH)?.parse().ok()?;
        // One name for each: `tpch-sf1.0` is none.
        (Self::tpch(scale_factor).as_ref() == Ok(self)).then_some(scale_factor)
    }

    /// True if it is the tables that the agent was given.
    pub fn is_given(&self) -> bool {
        self.0 == GIVEN
    }
}

impl FromStr for DataSet {
    type Err = DataSetError;

    fn from_str(name: &str) -> Result<Self, DataSetError> {
        let is_fit = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
        let fits = (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_fit);
        match fits {
            true => Ok(Self(name.to_owned())),
            false => Err(DataSetError::Name),
        }
    }
}

impl TryFrom<String> for DataSet {
    type Error = DataSetError;

    fn try_from(name: String) -> Result<Self, DataSetError> {
        name.parse()
    }
}

impl From<DataSet> for String {
    fn from(data: DataSet) -> Self {
        data.0
    }
}

impl fmt::Display for DataSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_factor_has_one_name_and_a_name_one_scale_factor() {
        for (scale_factor, name) in [
            (1.0, "tpch-sf1"),
            (0.01, "tpch-sf0.01"),
            (1e4, "tpch-sf10000"),
        ] {
            let data = DataSet::tpch(scale_factor).unwrap();
            assert_eq!(
                (data.name(), data.scale_factor()),
                (name, Some(scale_factor))
            );
            assert_eq!(name.parse(), Ok(data));
        }
        for other in [
            "tpch-sf1.0",
            "tpch-sf01",
            "tpch-sf1e1",
            "tpch-sfNaN",
            "tpch-sf0",
            "tpch-sf",
            "given",
        ] {
            let data: DataSet = other.parse().unwrap();
            assert_eq!(data.scale_factor(), None, "{other}");
        }
        for wrong in [0.0, -1.0, 1e5, f64::NAN, f64::INFINITY] {
            assert!(DataSet::tpch(wrong).is_err());
        }
        assert!(DataSet::given().is_given());
    }

    #[test]
    fn a_name_that_no_path_may_have_is_refused_wherever_it_comes_from() {
        let long = "x".repeat(65);
        for name in ["", "a b", "../x", "a/b", "a\n", "ü", long.as_str()] {
            assert_eq!(name.parse::<DataSet>(), Err(DataSetError::Name), "{name:?}");
            let sent = postcard::to_stdvec(name).unwrap();
            assert!(postcard::from_bytes::<DataSet>(&sent).is_err(), "{name:?}");
        }
        let data = DataSet::tpch(10.0).unwrap();
        let sent = postcard::to_stdvec(&data).unwrap();
        assert_eq!(postcard::from_bytes::<DataSet>(&sent), Ok(data));
    }
}
