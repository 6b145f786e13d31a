//! TPC-H: schemas, and data made once by the generator `tpchgen`, straight into segments.

mod error;
mod generate;
pub(crate) mod lock;
mod rows;
mod schema;
mod store;

pub use error::DataError;
pub use generate::sample;
pub use rows::{GENERATOR, SCALE_FACTORS, row_count};
pub(crate) use schema::columns;
pub use schema::{TABLES, schema};
pub(crate) use store::bytes_needed;
pub use store::{
    MakingProgress, Step, TableFile, TableSet, bytes_to_make, check_space, default_data_dir,
    ensure, files, find, list, remove, rows_expected, set_dir,
};
