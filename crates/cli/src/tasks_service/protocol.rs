//! The messages between a client and the service `tasks`. Bodies are JSON, but for progress, which is text.
//!
//! | tag | sent by | body | most bytes |
//! |---|---|---|---|
//! | 16 describe | client | empty | 0 |
//! | 17 check | client | tests ([`Asked`]), at most [`CHECKED_AT_ONCE`] | 1 MiB |
//! | 18 test | client | [`TestOrder`] | 64 KiB |
//! | 19 server's end | client | [`TestOrder`] | 64 KiB |
//! | 144 described | agent | [`Description`] | 1 MiB |
//! | 145 checked | agent | [`Checked`] of each test, in order | 1 MiB |
//! | 146 progress | agent | a line of text; empty: the test still runs | 1 KiB |
//! | 147 records | agent | whole lines, each a record | 1 MiB, or one line |
//! | 148 ended | agent | [`Ended`] | 128 KiB |
//! | 149 ready | agent | [`Ready`] | 4 KiB |

use std::collections::BTreeMap;
use std::time::Duration;

use dpb_core::measure::Provenance;
use dpb_link::{LinkError, Refusal, Tags};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::quotas::Quotas;
use crate::boxes::Test;
use crate::executor::Order;
use crate::task::Cost;

/// The service's name.
pub const NAME: &str = "tasks";
/// The version of its protocol.
pub const VERSION: u16 = 1;
/// Asks for the agent's description.
pub const DESCRIBE: u8 = 16;
/// Asks whether tests can run.
pub const CHECK: u8 = 17;
/// A test that is to run.
pub const TEST: u8 = 18;
/// A test whose server's end is to run.
pub const SERVER_END: u8 = 19;
/// The agent's description.
pub const DESCRIBED: u8 = 144;
/// The answers whether tests can run.
pub const CHECKED: u8 = 145;
/// A line about what a test does.
pub const PROGRESS: u8 = 146;
/// Some of a test's records.
pub const RECORDS: u8 = 147;
/// A test's end.
pub const ENDED: u8 = 148;
/// A server's end that is ready.
pub const READY: u8 = 149;

/// Most tests in one question whether they can run.
pub const CHECKED_AT_ONCE: usize = 50;
/// Most bytes of a line of progress.
pub const PROGRESS_BYTES_MAX: usize = 1 << 10;
/// Most bytes of some records, unless a line is longer.
pub const RECORDS_BYTES: usize = 1 << 20;
/// Most bytes of a line that is a record: histograms may be long.
pub const RECORD_BYTES_MAX: usize = 64 << 20;
/// Most bytes of all records of a test.
pub const RECORDS_BYTES_MAX: usize = 256 << 20;
/// The interval at which an agent says that a test still runs.
pub const STILL_RUNS: Duration = Duration::from_secs(5);
/// The time for which an agent may say nothing.
pub const SILENCE_MAX: Duration = Duration::from_secs(30);

/// Longest time of a test that is believed, seconds: ten years.
const TIME_MAX_S: f64 = 3.2e8;

/// The tags of the service's frames.
pub const TAGS: Tags = Tags {
    body_bytes_max,
    is_bulk: |_| false,
};

fn body_bytes_max(tag: u8) -> Option<usize> {
    Some(match tag {
        DESCRIBE => 0,
        CHECK | DESCRIBED | CHECKED => 1 << 20,
        TEST | SERVER_END => 64 << 10,
        PROGRESS => PROGRESS_BYTES_MAX,
        RECORDS => RECORD_BYTES_MAX,
        ENDED => 128 << 10,
        READY => 4 << 10,
        _ => return None,
    })
}

/// A test that a client asks for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    /// The task, or the plug-in.
    pub task: String,
    /// The parameters that are given, one value each, as in a box.
    pub parameters: BTreeMap<String, Value>,
}

/// A test that is to run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TestOrder {
    /// The test.
    pub test: Asked,
    /// Runs of it.
    pub repeats: u64,
    /// The seed of everything random in it.
    pub seed: u64,
    /// The name that the records of one run of a box share.
    pub run: String,
}

impl TestOrder {
    /// The order of `test`, which is what [`TestOrder::test`] asks for, by its agent's estimate.
    pub fn of<'a>(&'a self, test: &'a Test, cost: Cost) -> Order<'a> {
        Order {
            test,
            repeats: self.repeats,
            seed: self.seed,
            run: &self.run,
            cost,
            words: &[],
        }
    }
}

/// An agent's description of itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Description {
    /// The agent's machine and program, as its records have them.
    pub machine: Provenance,
    /// Its tasks and plug-ins, by name.
    pub tasks: BTreeMap<String, TaskDescription>,
    /// What a test may take.
    pub quotas: Quotas,
}

/// A task, as clients are told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskDescription {
    /// What it measures, in a few words.
    pub summary: String,
    /// The JSON Schema of each parameter.
    pub parameters: BTreeMap<String, Value>,
    /// True if its server's end can run alone.
    pub has_server_end: bool,
}

/// The answer whether a test can run: what it takes, or why not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Checked {
    /// It can run, and takes this.
    Takes(Taken),
    /// It is refused, for this reason.
    Refused(String),
}

/// What a test takes, roughly; [`Cost`] in a message.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Taken {
    /// Seconds that do not depend on the number of runs.
    pub once_s: f64,
    /// Seconds of a run.
    pub each_run_s: f64,
    /// Main memory at once.
    pub memory_bytes: u64,
    /// Disk space for data that is not there yet.
    pub disk_bytes: u64,
}

/// A test's end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ended {
    /// The exit code of its process; none where it was ended, or is no process of dpb's.
    pub code: Option<i32>,
    /// Its last words on stderr.
    pub stderr: String,
}

/// A server's end that is ready, at the address by which the client has reached the agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ready {
    /// The port that it listens at.
    pub port: u16,
    /// The token that it wants to be shown.
    pub token: String,
    /// The fingerprint of its certificate, if it encrypts.
    pub fingerprint: Option<String>,
}

impl From<Cost> for Taken {
    fn from(cost: Cost) -> Self {
        Self {
            once_s: cost.once.as_secs_f64(),
            each_run_s: cost.each_run.as_secs_f64(),
            memory_bytes: cost.memory_bytes,
            disk_bytes: cost.disk_bytes,
        }
    }
}

impl From<Taken> for Cost {
    /// Times that cannot be are none.
    fn from(taken: Taken) -> Self {
        let time = |s: f64| match (0.0..=TIME_MAX_S).contains(&s) {
            true => Duration::from_secs_f64(s),
            false => Duration::ZERO,
        };
        Self {
            once: time(taken.once_s),
            each_run: time(taken.each_run_s),
            memory_bytes: taken.memory_bytes,
            disk_bytes: taken.disk_bytes,
        }
    }
}

/// A body of JSON.
pub fn encode(value: &impl Serialize) -> Result<Vec<u8>, LinkError> {
    serde_json::to_vec(value)
        .map_err(|error| LinkError::refused(Refusal::Internal, error.to_string()))
}

/// Reads a body of JSON.
///
/// # Errors
/// [`LinkError::Body`].
pub fn decode<T: DeserializeOwned>(body: &[u8]) -> Result<T, LinkError> {
    serde_json::from_slice(body).map_err(|error| LinkError::Body(Box::new(error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_read_as_they_were_written_and_strange_times_are_none() {
        let cost = Cost {
            once: Duration::from_millis(1500),
            each_run: Duration::from_secs(2),
            memory_bytes: 3,
            disk_bytes: 4,
        };
        let body = encode(&Checked::Takes(cost.into())).expect("JSON");
        let Checked::Takes(taken) = decode(&body).expect("the same") else {
            panic!("a refusal");
        };
        assert_eq!(Cost::from(taken), cost);
        for strange in [f64::NAN, -1.0, f64::INFINITY, 1e300] {
            let taken = Taken {
                once_s: strange,
                ..taken
            };
            assert_eq!(Cost::from(taken).once, Duration::ZERO);
        }
    }

    #[test]
    fn tags_are_the_services_own() {
        for tag in 0..=255 {
            if body_bytes_max(tag).is_some() {
                assert!(!dpb_link::tag::is_of_session(tag), "{tag}");
            }
        }
    }
}
