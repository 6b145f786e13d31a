//! The work of YCSB, the Yahoo! Cloud Serving Benchmark (Cooper, Silberstein, Tam, Ramakrishnan and Sears, "Benchmarking Cloud Serving Systems
//! with YCSB", SoCC 2010): requests, keys and values of its core workloads, and the check of each read.
//!
//! A [`Spec`] says what is asked. Each thread has a [`Generator`] of its own and shares one [`Inserted`], the count of records. A record is a
//! number; [`KeyForm`] makes its key, [`fill`] its value. A [`Ledger`] knows which version of a record a read may return while others write.
//!
//! Nothing here does input or output, and nothing reads a clock. Seeds are arguments, and the same seed gives the same requests on every machine.
//!
//! ```
//! use dpb_dbmods::index::ycsb::{
//!     Generator, Inserted, KeyForm, LOADED, Ledger, Request, Spec, VALUE_BYTES_MIN, Workload, check, fill,
//! };
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let spec = Spec::new(Workload::A, 1_000, 10_000);
//! let inserted = Inserted::new(1_000, 1_000)?;
//! let ledger = Ledger::new(1_000, 1_000);
//! // The index of this example is a vector of values.
//! let mut values = vec![[0; VALUE_BYTES_MIN]; 1_000];
//! for (record, value) in (0..).zip(&mut values) {
//!     fill(record, LOADED, value);
//! }
//!
//! let mut generator = Generator::new(&spec, 42, 0)?;
//! for _ in 0..100 {
//!     match generator.next(&inserted)? {
//!         Request::Read(record) => {
//!             let floor = ledger.begin_read(record);
//!             let version = check(record, &values[record as usize])?;
//!             ledger.end_read(record, floor, version)?;
//!         }
//!         Request::Update(record) => {
//!             let write = ledger.begin_write(record)?;
//!             fill(record, write.version, &mut values[record as usize]);
//!             ledger.end_write(write);
//!         }
//!         other => unreachable!("{other:?} is not part of workload A"),
//!     }
//! }
//! assert_eq!(KeyForm::Ycsb.key(0).as_bytes(), b"user6284781860667377211");
//! # Ok(())
//! # }
//! ```

mod generator;
mod hash;
mod inserted;
mod key;
mod ledger;
mod spec;
mod sync;
mod value;
mod workload;
mod zipfian;

pub use generator::{Generator, Request};
pub use hash::hash;
pub use inserted::{Full, Inserted};
pub use key::{KEY_BYTES_MAX, Key, KeyForm, RECORDS_MAX};
pub use ledger::{ABSENT, Floor, LOADED, Ledger, TooManyWrites, Write, WrongRead};
pub use spec::{Spec, SpecError};
pub use value::{VALUE_BYTES_MIN, WrongValue, check, fill};
pub use workload::{Distribution, Mix, UnknownName, Workload};

#[cfg(test)]
mod tests;
