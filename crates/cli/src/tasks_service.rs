//! The service `tasks`: tests of a client's box, run on the agent's machine.
//!
//! The client sends a test; the agent runs it as `dpb run` does, in a process of its own, and sends the records back. One test runs at a
//! time, whoever asks. A test that has a server's end ([`crate::task::ServerEnd`]) can also run between both machines: the agent starts the
//! server's end, the client runs the test against it.
//!
//! ```text
//! client                              agent
//! describe                  ─────▶
//!                           ◀─────    described: machine, tasks with the schemas of their parameters, quotas
//! check: tests              ─────▶
//!                           ◀─────    checked: of each what it takes, or why it is refused
//! test: parameters, repeats,─────▶
//! seed, run                 ◀─────    progress …, records …, ended: exit code, the last words on stderr
//! server's end of a test    ─────▶
//!                           ◀─────    progress …, ready: port, token, fingerprint
//! stop                      ─────▶    the server's end is ended
//!                           ◀─────    ended
//! ```
//!
//! A client that leaves ends its test. Nothing compares the clocks of the two machines: times in records are differences on one machine.

pub mod client;
pub mod protocol;
mod quotas;
mod refusals;
mod service;

pub use self::quotas::Quotas;
pub use self::service::{TasksOptions, TasksService};
