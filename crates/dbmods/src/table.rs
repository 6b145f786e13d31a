//! Tables on disk and in memory: a [`segment`] is a file of one table, cut into row groups; a [`chunk`] is one column of one
//! row group, and the unit that is read, verified and kept by the [`cache`].

pub mod arena;
pub mod cache;
pub mod chunk;
pub mod encode;
pub mod pack;
pub mod segment;
mod text;
pub mod values;
