//! Micro-benchmark of storage.
