//! The pushdown's protocol: frames on a session of [`dpb_link`], Arrow IPC inside.
//!
//! The service is called [`SERVICE`]. Frames, handshake and encryption are the session's, see [`dpb_link`]; these are the service's own:
//!
//! | tag | sent by | body | most bytes |
//! |---|---|---|---|
//! | 16 request | client | [`Request`], postcard | 64 KiB |
//! | 3 stop | client, during a reply | empty; the session's | 0 |
//! | 144 reply | agent | [`Reply`], postcard | 1 MiB |
//! | 145 schema | agent | one encapsulated Arrow IPC message, a schema | 1 MiB |
//! | 146 batch | agent | one encapsulated Arrow IPC message, a record batch | 64 MiB |
//! | 147 file | agent | the next bytes of a file | 4 MiB |
//! | 148 end | agent | [`End`], postcard | 64 KiB |
//! | 149 partial | agent | a partial aggregate, see [`crate::scan::operator::Merged`] | 16 MiB |
//! | 150 compact | agent | a record batch's message, compact (`service/compact.rs`), to a client that has asked for [`CAPABILITY_COMPACT`] | 64 MiB |
//! | 135 error | agent | code (2), UTF-8 text; the session's | 64 KiB |
//!
//! The service's description, which a client has before it opens the service, is a [`Description`] in postcard. Since version 3 a scan
//! carries the fingerprint of its table's schema, since version 4 an end the number of threads, since version 5 a description the
//! agent's backend. Since version 6 requests name a [`DataSet`], and a scan may ask for a partial aggregate. Since version 7 the
//! handshake is the session's, and capabilities are asked for by a request. Since version 8 a data set has a name, an agent lists all
//! that it has, and a query may have a limit.
//!
//! **Conversation.** One request at a time. A scan answers schema, batches, end;
//! a fetch answers reply, file pieces, end; all others answer one reply. An error frame may come in place of any of these. A
//! request that could not be carried out (unknown table, no data) leaves the connection usable; a frame that could not be
//! understood ends it. Stop, or closing the connection, ends a scan early. An agent that scans and has found nothing for five
//! seconds sends a batch without rows, as a sign of life: a client gives up who is silent for long.
//!
//! **Partial aggregates.** An agent that has [`CAPABILITY_PARTIALS`] may be asked for what it has accumulated instead of the final
//! batch of an aggregate ([`ScanRequest::partial`]): it answers schema, one partial frame, end. So a client can add up parts of
//! a table that several agents have, and its result is the one that the whole table would give.
//!
//! **Another transport.** An agent that has [`CAPABILITY_BULK`] may be asked, by [`Request::Bulk`], to write large bodies into memory of
//! the client's, see [`dpb_link::bulk`]. Batches and pieces of files go so where both agree; short bodies stay on TCP.
//!
//! **Trust.** A predicate's nesting is bounded while it is decoded. The client trusts no agent either: batches are
//! validated in full (buffer bounds, offsets, UTF-8), see [`crate::ipc`], and words and figures are checked where they enter
//! (`client/claims.rs`). Validation costs the client about a tenth of the copy out of
//! the socket, so there is no mode without it.

use dpb_link::{AgentDescription, LinkError, Tags, tag};
use serde::{Deserialize, Serialize};

use crate::ipc::{IpcError, MESSAGE_BYTES_MAX};
use crate::query::{Predicate, Query};
use crate::scan::operator::BATCH_ROWS;
use crate::schema::Schema;

pub use super::data_set::{DataSet, DataSetError};
pub use dpb_link::{Refusal, cut, decode, encode};

/// The name of the service.
pub const SERVICE: &str = "pushdown";
/// Version of this protocol.
pub const VERSION: u16 = 8;
/// The tags of the service's frames.
pub const TAGS: Tags = Tags {
    body_bytes_max: |byte| Tag::of_service(byte).map(Tag::body_bytes_max),
    is_bulk: |byte| {
        matches!(
            Tag::of_service(byte),
            Some(Tag::Batch | Tag::Compact | Tag::File)
        )
    },
};
/// Most bytes of a scan's plan in words.
pub const EXPLAIN_BYTES_MAX: usize = 16 << 10;
/// Most bytes of each text of a [`Description`], so that it keeps its bound.
pub(super) const TEXT_BYTES_MAX: usize = 512;

/// The agent can run DuckDB beside its own scan.
pub const CAPABILITY_DUCKDB: u64 = 1;
/// The agent hands out whole files.
pub const CAPABILITY_FETCH: u64 = 2;
/// The agent answers [`Request::Bulk`].
pub const CAPABILITY_BULK: u64 = 4;
/// The agent answers a scan that asks for a partial aggregate.
pub const CAPABILITY_PARTIALS: u64 = 8;
/// The agent sends batches compact to who asks for it: in fewer bytes, for links that are slower than a core.
pub const CAPABILITY_COMPACT: u64 = 16;

/// The kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Tag {
    /// Ends the running scan early.
    Stop = tag::STOP,
    /// A question.
    Request = 16,
    /// An error.
    Error = tag::ERROR,
    /// An answer.
    Reply = 144,
    /// The Arrow schema of the batches that follow.
    Schema = 145,
    /// Rows.
    Batch = 146,
    /// The next piece of a file.
    File = 147,
    /// No more batches or pieces.
    End = 148,
    /// A partial aggregate.
    Partial = 149,
    /// Rows, compact.
    Compact = 150,
}

impl Tag {
    /// The tag of this byte.
    ///
    /// # Errors
    /// [`LinkError::OutOfPlace`] of one that has no place while the service is open.
    pub fn of(byte: u8) -> Result<Self, LinkError> {
        match byte {
            tag::STOP => Ok(Self::Stop),
            tag::ERROR => Ok(Self::Error),
            _ => Self::of_service(byte).ok_or(LinkError::OutOfPlace(byte)),
        }
    }

    /// The service's own tag of this byte.
    fn of_service(byte: u8) -> Option<Self> {
        Some(match byte {
            16 => Self::Request,
            144 => Self::Reply,
            145 => Self::Schema,
            146 => Self::Batch,
            147 => Self::File,
            148 => Self::End,
            149 => Self::Partial,
            150 => Self::Compact,
            _ => return None,
        })
    }

    /// Most bytes that a body with this tag may have.
    pub const fn body_bytes_max(self) -> usize {
        match self {
            Self::Stop => 0,
            Self::Request | Self::End | Self::Error => 64 << 10,
            Self::Reply | Self::Schema => 1 << 20,
            Self::Batch | Self::Compact => MESSAGE_BYTES_MAX,
            Self::File => 4 << 20,
            Self::Partial => 16 << 20,
        }
    }
}

impl From<Tag> for u8 {
    fn from(tag: Tag) -> Self {
        tag as Self
    }
}

impl From<IpcError> for LinkError {
    fn from(error: IpcError) -> Self {
        Self::Body(Box::new(error))
    }
}

/// The service's description of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Description {
    /// Most bytes of chunks that the agent keeps.
    pub cache_bytes: u64,
    /// The backend that carries out its scans.
    pub backend: String,
    /// The stand-in for the device of that backend, or for the agent's CPU.
    pub emulated_by: Option<String>,
}

impl Description {
    /// Its bytes; long texts are cut.
    pub fn to_bytes(&self) -> Vec<u8> {
        let short = |text: &String| cut(text, TEXT_BYTES_MAX).to_owned();
        encode(&Self {
            backend: short(&self.backend),
            emulated_by: self.emulated_by.as_ref().map(short),
            ..*self
        })
    }
}

/// An agent's description of itself: its process and machine, from the session's welcome, and the service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentInfo {
    /// dpb's version.
    pub dpb_version: String,
    /// The agent's process.
    pub pid: u32,
    /// Logical CPUs that it may use.
    pub cpus: u32,
    /// The model of the agent's CPU.
    pub cpu_model: String,
    /// The name of the agent's host.
    pub host: String,
    /// Most bytes of chunks that it keeps.
    pub cache_bytes: u64,
    /// The backend that carries out its scans.
    pub backend: String,
    /// The stand-in for the device of that backend, or for the agent's CPU.
    pub emulated_by: Option<String>,
    /// The version of DuckDB that it found, or why it found none and what to do. An agent looks for one once a client
    /// asks for [`CAPABILITY_DUCKDB`].
    pub duckdb: Result<String, String>,
}

impl AgentInfo {
    /// The description of an agent that offers the service.
    pub fn new(
        agent: &AgentDescription,
        service: Description,
        duckdb: Result<String, String>,
    ) -> Self {
        Self {
            dpb_version: agent.dpb_version.clone(),
            pid: agent.pid,
            cpus: agent.cpus,
            cpu_model: agent.cpu_model.clone(),
            host: agent.host.clone(),
            cache_bytes: service.cache_bytes,
            backend: service.backend,
            emulated_by: service.emulated_by,
            duckdb,
        }
    }
}

/// A question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Request {
    /// What can you do of this? Answer: [`Reply::Capabilities`]. A client that wants DuckDB asks before anything else.
    Capabilities {
        /// What the client may ask for.
        wanted: u64,
    },
    /// What tables are there? Answer: [`Reply::Tables`].
    Describe {
        /// The data set; `None` for all tables of all data sets.
        data: Option<DataSet>,
    },
    /// Which predicate selects this share of the table's rows? Answer: [`Reply::Predicate`].
    Pick {
        /// The data set.
        data: DataSet,
        /// The table.
        table: String,
        /// The share, 0 to 1.
        selectivity: f64,
    },
    /// Scan. Answer: schema, batches, end.
    Scan(ScanRequest),
    /// Send a file whole. Answer: [`Reply::File`], pieces, end.
    Fetch {
        /// The data set.
        data: DataSet,
        /// The table.
        table: String,
        /// Which file.
        format: FileFormat,
    },
    /// Drop this table's file from the page cache and from the engine's own. Answer: [`Reply::Dropped`].
    Cold {
        /// The data set.
        data: DataSet,
        /// The table.
        table: String,
        /// Whose file.
        format: FileFormat,
    },
    /// What has the agent's process used? Answer: [`Reply::Usage`].
    Usage {
        /// Start a new peak after answering.
        reset_peak: bool,
    },
    /// Write large bodies into the client's memory from now on. Only to agents with [`CAPABILITY_BULK`]. Answer:
    /// [`Reply::Bulk`].
    Bulk {
        /// The place of that memory, in the words of the transport, see [`dpb_link::bulk`].
        offer: Vec<u8>,
    },
}

/// One scan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScanRequest {
    /// The data set.
    pub data: DataSet,
    /// [`Schema::fingerprint`] of the table that the query was written for: its columns travel by position.
    pub schema: u64,
    /// The engine that scans.
    pub engine: Engine,
    /// The query.
    pub query: Query,
    /// Threads that scan; the agent may have a lower bound.
    pub threads: u32,
    /// Rows per batch that the client would like; the agent bounds it.
    pub batch_rows: u32,
    /// Rows that the client expects, if it has asked before; DuckDB is faster when it may finish a small result first.
    pub rows_expected: Option<u64>,
    /// True if the agent sends a partial aggregate instead of the final batch; of aggregates by our scan alone.
    pub partial: bool,
}

impl ScanRequest {
    /// A scan by our own engine with one thread, in batches of a usual size. The query was written for `schema`.
    pub fn new(data: DataSet, schema: &Schema, query: Query) -> Self {
        Self {
            data,
            schema: schema.fingerprint(),
            engine: Engine::Dpb,
            query,
            threads: 1,
            batch_rows: BATCH_ROWS as u32,
            rows_expected: None,
            partial: false,
        }
    }
}

/// An engine that scans at the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Engine {
    /// Our scan over our segment.
    Dpb,
    /// DuckDB over its own file. The agent writes the SQL from the query itself, so that no text of a stranger reaches DuckDB.
    DuckDb,
}

/// The files of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FileFormat {
    /// Our segment.
    Segment,
    /// DuckDB's own storage.
    DuckDb,
    /// Parquet.
    Parquet,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Reply {
    /// To [`Request::Capabilities`].
    Capabilities {
        /// What the agent can do.
        capabilities: u64,
        /// As [`AgentInfo::duckdb`].
        duckdb: Result<String, String>,
    },
    /// To [`Request::Describe`].
    Tables(Vec<TableInfo>),
    /// To [`Request::Pick`].
    Predicate {
        /// The predicate.
        predicate: Predicate,
        /// The share of rows that it selects, exactly.
        selectivity: f64,
    },
    /// To [`Request::Fetch`]; the pieces follow.
    File {
        /// The file's length.
        bytes: u64,
    },
    /// To [`Request::Cold`].
    Dropped,
    /// To [`Request::Usage`].
    Usage(Usage),
    /// To [`Request::Bulk`]: the agent's side of it, or why everything stays on TCP.
    Bulk(Result<Vec<u8>, String>),
}

/// A table that the agent has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TableInfo {
    /// The data set that it belongs to.
    pub data: DataSet,
    /// Name and columns.
    pub schema: Schema,
    /// Rows.
    pub rows: u64,
    /// Bytes of our segment.
    pub segment_bytes: u64,
    /// Bytes of DuckDB's file, if there is one.
    pub duckdb_bytes: Option<u64>,
    /// Bytes of the Parquet file, if there is one.
    pub parquet_bytes: Option<u64>,
}

impl TableInfo {
    /// Bytes of this file; 0 if there is none.
    pub fn file_bytes(&self, format: FileFormat) -> u64 {
        match format {
            FileFormat::Segment => self.segment_bytes,
            FileFormat::DuckDb => self.duckdb_bytes.unwrap_or(0),
            FileFormat::Parquet => self.parquet_bytes.unwrap_or(0),
        }
    }
}

/// The resources that a process has used since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// CPU time of all its threads, user and system, seconds.
    pub cpu_s: f64,
    /// The time that its threads were ready and waited for a core, seconds; `None` where the kernel does not say. Of a scan's
    /// thread that has ended, what came after the last look is missing, see [`crate::service::agent::CORE_WAIT_LOOK`].
    pub core_wait_s: Option<f64>,
    /// Most memory that was resident at once since the last reset, bytes.
    pub peak_bytes: u64,
    /// Memory that is resident now, bytes.
    pub resident_bytes: u64,
    /// True if the peak could be reset, so that it is of this run alone.
    pub peak_was_reset: bool,
}

impl Usage {
    /// The distance of the peak from the memory that was resident `before`.
    pub fn peak_over(&self, before: &Self) -> u64 {
        self.peak_bytes.saturating_sub(before.resident_bytes)
    }
}

/// The agent's counts of a scan or a fetch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct End {
    /// Rows that were looked at: ours are counted block by block, for DuckDB it is the table's rows.
    pub tuples_scanned: u64,
    /// Rows that were sent.
    pub rows: u64,
    /// Batches, or pieces of a file, that were sent.
    pub batches: u64,
    /// For our scan the bytes of all chunks that it used, from storage or from the cache; for a file its length; 0 for DuckDB.
    pub bytes_read: u64,
    /// Blocks whose rows were looked at.
    pub blocks_scanned: u64,
    /// Blocks that the zone maps excluded.
    pub blocks_skipped: u64,
    /// Threads that scanned, at most: the agent may have fewer than were asked for. 0 for a file.
    pub threads: u32,
    /// True if a stop ended it early.
    pub stopped: bool,
    /// The plan, for `--explain`; cut to [`EXPLAIN_BYTES_MAX`].
    pub explain: String,
}

#[cfg(test)]
mod tests;
