//! Readers against another implementation (etherparse), against each other, and against tshark on captures; writers against etherparse; rewritten
//! packets against the same packets written anew.

mod another;
mod captures;
mod frames;
mod readers;
mod rewriting;
mod writers;
