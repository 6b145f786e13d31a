//! The service `operators`: any operator of another machine, through the seam.
//!
//! A client opens the backend `remote/HOST:PORT/BACKEND` ([`Remote`]), and an agent at `HOST:PORT` that has the [`OperatorsService`] runs its operators on its own
//! `BACKEND`. Items go there, outputs come back. A queue has a connection of its own, which the thread that has the queue drives: no
//! helper threads. What a backend says of itself, of an operator and of its limits is asked of the agent once, on another connection.
//!
//! **Specs.** An operator is sent as its name and the values of its parameters, keys and tables as bytes; a chain as the list of its
//! stages. Both sides make the spec by a [`Resolve`], which a registry of operators is. A spec that the client's own registry does not
//! make again from these parts, such as a scan of a table that lies in a file, is refused by [`Limits`](dpb_core::Limits) with the reason. An
//! agent follows no path and generates no key.
//!
//! **Secrets** are sent only where [`SessionSecurity`] keeps them: to loopback, or in an encrypted session.
//!
//! **Tables that change** ([`Control`](dpb_core::Control)) change at the agent: a change and a commit each are a round trip. All queues of a
//! prepared operator share its table there. The agent keeps as many bytes of changes without a commit as a spec may have
//! ([`Quotas::spec_bytes_max`]), and refuses more.
//!
//! **Quotas.** An agent bounds each job, what one client has at once, and what all clients have together ([`Quotas`]). A client is the
//! address that its connections come from. Backends, operators and queues are given back when they are dropped, or when the client leaves;
//! a backend that no client has any more is closed.
//!
//! **Messages.** A session opens the service ([`Sessions`]), which then takes the stream over: its messages are its own, and their tags too. Over a
//! stream without a session ([`tcp`]) they are the same. All numbers are little endian. A message is a header of 8 bytes, which is its tag (a byte), three zeros and the length of
//! its body (a word of 4 bytes), and the body. A text is its length (4 bytes) and UTF-8.
//!
//! | tag | message | from | body | answer |
//! |---|---|---|---|---|
//! | 1 | hello | client | magic `dpbO`, version (2 bytes) | 2 |
//! | 2 | welcome | agent | magic, version, description of the machine (text), most bytes of a spec (8 bytes) | |
//! | 3 | backend | client | name (text) | 4 |
//! | 4 | described | agent | evidence, what the backend is made of, whether it is a model | |
//! | 5 | limits | client | spec | 6 |
//! | 6 | limited | agent | limits of a job and a queue, code (text) | |
//! | 7 | prepare | client | spec | 8 |
//! | 8 | prepared | agent | the operator's number (16 random bytes), limits, shape, in place, whether it has a table that changes | |
//! | 9 | lengths | client | number, first length of an item | 10 |
//! | 10 | lengths | agent | the longest outputs of items of 256 lengths in a row | |
//! | 11 | change | client | number, changes | 14 |
//! | 12 | commit | client | number | 14 |
//! | 13 | release | client | number | none |
//! | 14 | changed | agent | version, or why not | |
//! | 15 | open | client | number, depth | 16 |
//! | 16 | opened | agent | bytes that may be in flight | |
//! | 17 | job | client | see `job`: id, places of items and slots, the bytes of the items | 18 |
//! | 18 | done | agent | see `job`: id, result, outcomes of the items, the bytes of the outputs | |
//! | 19 | refused | agent | a kind (1 byte), its numbers, reason (text) | |
//! | 20 | ring | client | the transport's words for the client's ring | 21 |
//! | 21 | rings | agent | words that answer, and words for the agent's ring, each behind its length (4 bytes) | |
//! | 22 | join | client | words that answer | 23 |
//! | 23 | joined | agent | empty | |
//! | 24 | placed job | client | see `job`: a job without the bytes of its items | 18, 25 |
//! | 25 | placed done | agent | see `job`: a completion without the bytes of the outputs | |
//! | 26 | credit | both | pieces of this side's ring that are free again (4 bytes) | |
//! | 27 | working | agent | empty: the answer takes longer | |
//!
//! **A transport beside the connection** ([`Remote::beside`], [`OperatorsService::with_duplex`]) is agreed on before `open`: a ring of
//! pieces at each end ([`bulk`](crate::bulk)), into which the other end writes. Items of a job, and outputs, of more than
//! [`INLINE_BYTES_MAX`](crate::bulk::INLINE_BYTES_MAX) bytes go there, and their messages are the placed ones. Bodies come in the order of
//! their messages, cut into pieces; a piece has come when the transport itself says so. A message does not wait for its pieces, nor do later
//! messages: pieces may wait for a credit, which comes among the messages. What is missing at an end, when the backend is
//! opened, is `Unsupported` and never another way; a transport that breaks later ends the connection. What a device may write to is its ring, which
//! the transport owns, and never a job's memory.
//!
//! After `opened` a connection carries jobs, completions and credits and nothing else, in any number, in either direction; completions come
//! in any order. The client has at most `depth` jobs and the granted bytes in flight, each job counted as the bytes of its items, its slots
//! and its lists. Lengths are checked before anything is allocated. A message that is wrong in any way ends its connection; the agent says why
//! first.
//!
//! **A question that takes long**, such as a backend that is slow to open or a change that a table is compiled anew for, ends no connection: the agent
//! says every few seconds that it works (a twelfth of its own [patience](OperatorsService::with_patience)), and the client waits as
//! long as it does, but no longer than ten times its own patience.
//!
//! **An agent that is gone** is noticed by the socket, or by its silence: a queue whose jobs bring no byte for the
//! [patience](Remote::with_patience), which grows with the cost of the jobs in flight, is over. Its jobs end with
//! [`JobError::Device`](dpb_core::JobError::Device) and an error number of the system below zero, and so does every later one, at once;
//! [`lost`] says which.

mod agent;
mod client;
mod codec;
mod job;
mod outbox;
mod protocol;
mod quotas;
mod rings;
mod session;
mod spec;
mod talk;
mod wire;

/// The family's name.
const REMOTE: &str = "remote";

/// True if `name` is that of a backend of yet another machine: one of the family `remote`, or of another that begins with `remote-`.
pub fn is_remote(name: &str) -> bool {
    let family = name.split(['/', ':']).next().unwrap_or(name);
    let rest = family.strip_prefix(REMOTE);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

pub use agent::{OpenBackend, OperatorsService};
pub use client::{Dial, Dialled, Remote, lost, tcp};
pub use protocol::VERSION;
pub use quotas::{Quotas, Share};
pub use session::{NAME, Sessions};
pub use spec::Resolve;
pub use wire::{SessionSecurity, Wire};
