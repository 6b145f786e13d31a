//! A table's scan as a service: an [`agent`] beside the data, a [`client`] that asks it, the [`protocol`] between them, and
//! the link that carries it at a given speed.

pub mod agent;
pub mod bulk;
pub mod client;
mod link;
pub mod protocol;
mod selectivity;
pub mod usage;
