//! Recognises the application of each flow, and does with its packets what a policy says.
//!
//! The second end-to-end program of DPUBench (Wang et al., section 5.2): the payload of packets decides whether a packet is hashed, its payload is compressed, or it is
//! only sent back. The text says no more of the decision, and the published code draws it at random; here it is that of a [recognizer](crate::recognition).
//!
//! ```text
//! Recognise ─▶ hash ─▶ compress ─▶ bridge
//!     │  ▲       └───────────┴─ operators of any backend, over the packets that the policy gives them
//!     ▼  │
//!    rules    an operator such as `rxpmatch`, over the start of each stream that no reader knows
//! ```
//!
//! | stage | what |
//! |---|---|
//! | [`Recognise`] | reads a burst, finds the flow of each packet, looks into flows without a verdict, and leaves the [`Action`] in each packet's mark |
//! | [`hash`](fn@hash) | hashes the whole frame of each packet whose action is [`Action::Hash`] |
//! | [`compress`](fn@compress) | compresses the payload of each packet whose action is [`Action::Compress`] |
//! | [`send_back`] | sends each packet whose action is [`Action::Back`] out by the port that it came by; without this stage it goes on as the others do |
//!
//! All packets go on as they came, unless the policy drops them or has them sent back. What hashing and compressing gives is counted, and some of it is kept with its input, so that whoever
//! runs the program can check it: [`Results`]. What the recognizer found out of each flow is in the [`Log`], and added up in the [`Tally`].
//!
//! Rules see what undecided flows have said, put together, at most 8 KiB of each direction ([`crate::recognition`]). So a match that lies across packets is found, and a
//! flow that a reader knows costs no rule anything.

mod actions;
mod counts;
mod flows;
mod log;
mod note;
mod policy;
mod recognise;
mod results;
mod rules;
mod settings;
mod tally;

pub use actions::{Compress, Hash, compress, hash, send_back};
pub use counts::{Counts, Totals};
pub use log::{Decided, Log};
pub use policy::{Action, Policy, PolicyError};
pub use recognise::Recognise;
pub use results::{Outputs, Results, Sample, is_sha256};
pub use rules::RuleEngine;
pub use settings::Settings;
pub use tally::{Tallied, Tally};
