//! SimBricks' protocol from outside: golden vectors, endpoints against each other in threads and processes, and peers that lie.
//!
//! The vectors are of an unmodified simulator of SimBricks' own, as they were seen on its socket. `raw_peer` is a second
//! implementation, by reads and writes of the memory's file, from the protocol's tables alone. `gates` has whole systems that links cut in pieces.

mod cut;
mod drive;
mod gates;
mod hostile;
mod intro;
mod pairs;
mod processes;
mod raw_peer;
mod sockets;
