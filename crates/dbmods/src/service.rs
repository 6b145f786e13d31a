//! A table's scan as a service on a session of [`dpb_link`]: an [`agent`] beside the data, a [`client`] that asks it, and the
//! [`protocol`] between them.

pub mod agent;
pub mod client;
pub mod compact;
mod data_set;
mod evidence;
pub mod protocol;
mod selectivity;
pub mod usage;

pub use evidence::evidence;
