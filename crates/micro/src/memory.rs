//! Micro-benchmark of memory.
