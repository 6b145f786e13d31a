//! Tests of the requests, keys, values and the ledger. Draws have fixed seeds, so a test fails always or never; a right distribution fails one of a
//! million such tests.

mod counter;
mod distributions;
mod keys;
mod ledger;
mod peer;
mod requests;
mod statistics;
mod values;
