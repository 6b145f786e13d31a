//! A firewall: rules over five-tuples, and the flows that they let through.
//!
//! The first rule that a packet matches decides ([`Rules`]). A flow that was allowed is known from then on, and its packets pass in both directions without being
//! looked at again, until it ends or is silent for too long ([`flow::Table`](crate::flow::Table)). A shard has its own tables ([`Firewall`]), so the ports' hash must be symmetric.
//!
//! Flags of TCP are believed, sequence numbers are not looked at. Whoever knows the tuple of a connection can forge its packets: they pass, and it is for the hosts to
//! refuse them (RFC 5961). A forged reset has the flow forgotten as a closed one is, after [`Timeouts::closed_ms`](crate::flow::Timeouts) without a packet instead of
//! [`Timeouts::established_ms`](crate::flow::Timeouts). Until then the connection goes on, and a packet that no rule allows does not open it anew.
//!
//! Rules are not tried one after the other. For each part of the tuple there is a table of intervals, each with the set of rules that it
//! fits as a vector of bits; the rule is the lowest bit that all five vectors have (the bit vectors of Lakshman and Stiliadis, SIGCOMM 1998, with the
//! aggregates of Baboescu and Varghese, SIGCOMM 2001). Time grows with the logarithm of the number of rules, and by a word for each 4,096 of them.

mod classifier;
mod rules;
mod stage;
#[cfg(test)]
mod tests;
mod view;

pub use rules::{Action, Prefix, RULES_MAX, Rule, RuleError, Rules};
pub use stage::{Firewall, Hits, Policy};
