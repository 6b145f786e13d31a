//! Micro-benchmark of tcp.
