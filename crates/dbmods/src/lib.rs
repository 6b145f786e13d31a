//! Database modules: predicate pushdown, and ordered indexes ([`index`]); whole-DBMS modules meet the same seam later.
//!
//! Predicate pushdown (dpBento, "predicate pushdown") scans where the data is and ships what qualifies. A [`Table`] is made of
//! Arrow record batches or opened, a [`Query`] is read from SQL, and the scan runs in this process or at an
//! [`Agent`], which a [`Client`] asks:
//!
//! ```
//! use std::ops::ControlFlow;
//! use std::sync::Arc;
//! use std::sync::atomic::{AtomicBool, Ordering};
//!
//! use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
//! use dpb_dbmods::{Agent, AgentOptions, Client, DataSet, ScanRequest, Table};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("cities.dpbseg");
//! let names: ArrayRef = Arc::new(StringArray::from(vec!["Oslo", "Bergen", "Trondheim"]));
//! let people: ArrayRef = Arc::new(Int64Array::from(vec![717_710, 291_189, 214_565]));
//! let batch = RecordBatch::try_from_iter([("name", names), ("people", people)])?;
//! let table = Table::create(&path, "cities", [batch])?;
//!
//! // In this process, on the calling thread.
//! let query = table.query("SELECT name FROM cities WHERE people > 250000")?;
//! let mut rows = 0;
//! for batch in table.scan(&query)? {
//!     rows += batch?.num_rows();
//! }
//! assert_eq!(rows, 2);
//!
//! // By an agent, which would run on another machine.
//! let agent = Agent::bind(AgentOptions {
//!     tables: vec![table.clone()],
//!     ..AgentOptions::new("127.0.0.1:0".parse()?)
//! })?;
//! let address = agent.address().to_string();
//! let stop = AtomicBool::new(false);
//! std::thread::scope(|scope| {
//!     scope.spawn(|| agent.run(&|| stop.load(Ordering::Relaxed)));
//!     let asked = (|| {
//!         let mut client = Client::connect(&address, &[], 0)?;
//!         let request = ScanRequest::new(DataSet::given(), table.schema(), query);
//!         client.scan(request, &mut |batch| {
//!             rows += batch.num_rows();
//!             ControlFlow::Continue(())
//!         })
//!     })();
//!     stop.store(true, Ordering::Relaxed);
//!     asked
//! })?;
//! assert_eq!(rows, 4);
//! # Ok(())
//! # }
//! ```
//!
//! A scan's row groups go to threads of a caller's own as [`Split`]s. Parts of a table that several agents have are asked together by
//! [`service::client::scan_parts`], which adds up aggregates. A [`Scan`] is the scan as an operator, for a backend of one's own.
//!
//! # Modules
//!
//! They stand in the order in which they use each other, each only those above it; `compare` uses all.
//!
//! ```text
//! SQL text ──query──▶ Query ──service──▶ agent ──scan──▶ Arrow batches ──service──▶ client ──compare──▶ a record
//!                                          │
//!                       segment ──table────┘
//! ```
//!
//! * [`schema`], [`query`]: tables, types and the IR of a query; SQL to it and back; the reference evaluator.
//! * [`ipc`]: record batches as messages.
//! * [`table`]: the file format, byte by byte, verified chunks in memory, and segments of a user's own record batches.
//! * [`scan`]: predicates on packed data, late materialisation, aggregates. [`Table`] and [`Batches`] are over these.
//! * [`tpch`] fills tables; [`duckdb`] is the peer, loaded at run time.
//! * [`service`]: the scan as a service on a session of [`dpb_link`]: its protocol, the agent, its client.
//! * [`index`]: ordered indexes of byte keys, which use none of the others: LMDB, and a B+tree in memory.
//! * [`Ends`]: how failures end whoever asked.
//! * [`compare`]: ways to answer one query, checked against each other, then timed.

pub mod compare;
pub mod dbms;
pub mod duckdb;
mod ends;
pub mod index;
pub mod ipc;
mod local;
pub mod query;
pub mod scan;
pub mod schema;
pub mod service;
pub mod table;
pub mod tpch;

pub use ends::Ends;
pub use local::{Batches, Split, Table};
pub use query::Query;
pub use scan::operator::Scan;
pub use schema::{Column, ColumnType, Schema};
pub use service::agent::{Agent, AgentOptions};
pub use service::client::Client;
pub use service::protocol::{DataSet, ScanRequest, TableInfo};
