//! The advisor on records that were made up: engines that are known, and hostile ones.
use super::*;
