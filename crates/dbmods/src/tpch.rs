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
pub(crate) use schema::column_names;
pub use schema::{TABLES, schema};
pub use store::{
    MakingProgress, Step, TableFile, TableSet, bytes_to_make, check_space, default_data_dir,
    ensure, files, find, list, remove, set_dir,
};
