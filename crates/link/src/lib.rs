//! The link between machines: sessions, and the services on them.
//!
//! * [`operators`]: any operator on another machine, as the backend `remote/HOST:PORT/BACKEND`.

pub mod operators;
