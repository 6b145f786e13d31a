//! Operators that stored data needs.

pub mod deflate;
