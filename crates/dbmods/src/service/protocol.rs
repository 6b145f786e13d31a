//! The wire between the compute side and the agent: frames over TCP, Arrow IPC inside.
//!
//! All numbers are little endian. **A frame** is a header of 8 bytes and a body:
//!
//! | at | bytes | what |
//! |---|---|---|
//! | 0 | 1 | tag |
//! | 1 | 3 | zero |
//! | 4 | 4 | length of the body, at most what the tag allows |
//! | 8 | … | body |
//!
//! | tag | sent by | body | most bytes |
//! |---|---|---|---|
//! | 1 hello | client, first | see below | 1 KiB |
//! | 2 request | client | [`Request`], postcard | 64 KiB |
//! | 3 stop | client, during a reply | empty | 0 |
//! | 4 credit | client | pieces of its ring that are free again (4) | 4 |
//! | 129 welcome | agent, first | see below | 4 KiB |
//! | 130 reply | agent | [`Reply`], postcard | 1 MiB |
//! | 131 schema | agent | one encapsulated Arrow IPC message, a schema | 1 MiB |
//! | 132 batch | agent | one encapsulated Arrow IPC message, a record batch | 64 MiB |
//! | 133 file | agent | the next bytes of a file | 4 MiB |
//! | 134 end | agent | [`End`], postcard | 64 KiB |
//! | 135 error | agent | code (2), UTF-8 text | 64 KiB |
//! | 137 partial | agent | a partial aggregate, see [`crate::scan::operator::Merged`] | 16 MiB |
//! | 136 placed | agent | tag (1), zero (3), length (4) of a body that another transport carries | 8 |
//!
//! **Hello**: magic `DPBW` (4), version (2), length of the token (2), capabilities asked for (8), the link's pace in bits
//! per second, 0 for none (8), the token. **Welcome**: magic `DPBW` (4), version (2), zero (2), capabilities (8),
//! [`AgentInfo`] in postcard. Both layouts up to the version, and the error frame's, never change, so that two versions can
//! always tell each other apart: an agent refuses a client of another version with an error frame, a client refuses such an
//! agent's welcome, and both say both versions. Since version 3 a scan carries the fingerprint of its table's schema,
//! since version 4 an end the number of threads, since version 5 a welcome the agent's backend. Since version 6 requests name
//! a [`DataSet`], and a scan may ask for a partial aggregate.
//!
//! **Secrecy.** There is none: token, queries and rows cross in clear. On a network that strangers share the connection
//! belongs in a tunnel.
//!
//! **Conversation.** Hello, then welcome or error. After that one request at a time. A scan answers schema, batches, end;
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
//! the client's; agents and clients from before never hear of it. Where both agree, *placed* stands for a batch or file frame
//! whose body comes so, see [`crate::service::bulk`]; *credit* may come at any time. Short bodies stay on TCP.
//!
//! **Trust.** A length is checked against the tag's bound before anything is allocated, a control body is decoded to its
//! last byte, and a predicate's nesting is bounded while it is decoded. The client trusts no agent either: batches are
//! validated in full (buffer bounds, offsets, UTF-8), see [`crate::ipc`], and words and figures are checked where they enter
//! (`client/claims.rs`). Validation costs the client about a tenth of the copy out of
//! the socket, so there is no mode without it.

use std::fmt;
use std::io::{self, Read};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::ipc::MESSAGE_BYTES_MAX;
use crate::query::{Predicate, Query};
use crate::schema::Schema;

pub use error::{Refusal, WireError, cut, parse_refusal, refusal_bytes};
pub use placed::{Placed, credit_bytes, parse_credit};

mod error;
mod placed;

/// First bytes of hello and welcome.
pub const MAGIC: [u8; 4] = *b"DPBW";
/// Version of this protocol.
pub const VERSION: u16 = 6;
/// Bytes of a frame's header.
pub const HEADER_BYTES: usize = 8;
/// Most bytes of a scan's plan in words.
pub const EXPLAIN_BYTES_MAX: usize = 16 << 10;
/// Fewest bytes of a token: what nobody guesses, if they are random.
pub const TOKEN_BYTES_MIN: usize = 16;
/// Most bytes of a token.
pub const TOKEN_BYTES_MAX: usize = 512;
/// Bytes that a token may have.
pub const TOKEN_BYTES: std::ops::RangeInclusive<usize> = TOKEN_BYTES_MIN..=TOKEN_BYTES_MAX;
/// Most bytes of each text of [`AgentInfo`], so that a welcome keeps its bound.
const INFO_TEXT_BYTES_MAX: usize = 512;

/// The agent can run DuckDB beside its own scan.
pub const CAPABILITY_DUCKDB: u64 = 1;
/// The agent hands out whole files.
pub const CAPABILITY_FETCH: u64 = 2;
/// The agent answers [`Request::Bulk`].
pub const CAPABILITY_BULK: u64 = 4;
/// The agent answers a scan that asks for a partial aggregate.
pub const CAPABILITY_PARTIALS: u64 = 8;

/// The kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Tag {
    /// The client's first frame.
    Hello = 1,
    /// A question.
    Request = 2,
    /// Ends the running scan early.
    Stop = 3,
    /// Gives room in its ring back.
    Credit = 4,
    /// The agent's first frame.
    Welcome = 129,
    /// An answer.
    Reply = 130,
    /// The Arrow schema of the batches that follow.
    Schema = 131,
    /// Rows.
    Batch = 132,
    /// The next piece of a file.
    File = 133,
    /// No more batches or pieces.
    End = 134,
    /// An error.
    Error = 135,
    /// The announcement of a body that another transport carries.
    Placed = 136,
    /// A partial aggregate.
    Partial = 137,
}

impl Tag {
    /// The tag of this byte.
    pub fn of(byte: u8) -> Option<Self> {
        Some(match byte {
            1 => Self::Hello,
            2 => Self::Request,
            3 => Self::Stop,
            4 => Self::Credit,
            129 => Self::Welcome,
            130 => Self::Reply,
            131 => Self::Schema,
            132 => Self::Batch,
            133 => Self::File,
            134 => Self::End,
            135 => Self::Error,
            136 => Self::Placed,
            137 => Self::Partial,
            _ => return None,
        })
    }

    /// Most bytes that a body with this tag may have.
    pub const fn body_bytes_max(self) -> usize {
        match self {
            Self::Hello => 1 << 10,
            Self::Request | Self::End | Self::Error => 64 << 10,
            Self::Stop => 0,
            Self::Credit => 4,
            Self::Placed => 8,
            Self::Welcome => 4 << 10,
            Self::Reply | Self::Schema => 1 << 20,
            Self::Batch => MESSAGE_BYTES_MAX,
            Self::File => 4 << 20,
            Self::Partial => 16 << 20,
        }
    }
}

/// A frame's header, checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The kind of the body.
    pub tag: Tag,
    /// Bytes of body, within the tag's bound.
    pub len: usize,
}

impl Header {
    /// The header of a body of `len` bytes.
    ///
    /// # Errors
    /// A length beyond the tag's bound.
    pub fn checked(tag: Tag, len: usize) -> Result<Self, WireError> {
        let max = tag.body_bytes_max();
        if len > max {
            return Err(WireError::TooLong { tag, len, max });
        }
        Ok(Self { tag, len })
    }

    /// The bytes on the wire. `len` must keep the tag's bound, as [`Header::checked`] sees to.
    pub fn to_bytes(self) -> [u8; HEADER_BYTES] {
        debug_assert!(self.len <= self.tag.body_bytes_max());
        let mut bytes = [0; HEADER_BYTES];
        bytes[0] = self.tag as u8;
        bytes[4..].copy_from_slice(&(self.len as u32).to_le_bytes());
        bytes
    }

    /// Reads a header.
    ///
    /// # Errors
    /// An unknown tag, a length beyond the tag's bound, a byte that must be zero and is not.
    pub fn parse(bytes: [u8; HEADER_BYTES]) -> Result<Self, WireError> {
        let tag = Tag::of(bytes[0]).ok_or(WireError::UnknownTag(bytes[0]))?;
        if bytes[1..4] != [0; 3] {
            return Err(WireError::Malformed("a header byte that must be zero"));
        }
        let len = u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]) as usize;
        Self::checked(tag, len)
    }

    /// Reads a header from a stream. `None` if the stream ended cleanly before its first byte.
    ///
    /// # Errors
    /// As [`Header::parse`]; [`WireError::Torn`] if the stream ends inside; [`WireError::Io`].
    pub fn read(stream: &mut impl Read) -> Result<Option<Self>, WireError> {
        let mut bytes = [0; HEADER_BYTES];
        let mut have = 0;
        while have < HEADER_BYTES {
            match stream.read(&mut bytes[have..]) {
                Ok(0) if have == 0 => return Ok(None),
                Ok(0) => return Err(WireError::Torn),
                Ok(n) => have += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(WireError::Io(e)),
            }
        }
        Self::parse(bytes).map(Some)
    }
}

/// The client's first frame.
#[derive(Clone, PartialEq, Eq)]
pub struct Hello {
    /// Version of the protocol that the client speaks.
    pub version: u16,
    /// Capabilities that it may ask for.
    pub capabilities: u64,
    /// The pace that the agent sends at on this connection, bits per second; 0 for none.
    pub link_bits_per_s: u64,
    /// Proof that it may ask at all; empty if the agent wants none.
    pub token: Vec<u8>,
}

impl fmt::Debug for Hello {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hello")
            .field("version", &self.version)
            .field("capabilities", &self.capabilities)
            .field("link_bits_per_s", &self.link_bits_per_s)
            .field("token_bytes", &self.token.len())
            .finish()
    }
}

impl Hello {
    /// The frame's body.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut body = Vec::with_capacity(24 + self.token.len());
        body.extend_from_slice(&MAGIC);
        body.extend_from_slice(&self.version.to_le_bytes());
        body.extend_from_slice(&(self.token.len() as u16).to_le_bytes());
        body.extend_from_slice(&self.capabilities.to_le_bytes());
        body.extend_from_slice(&self.link_bits_per_s.to_le_bytes());
        body.extend_from_slice(&self.token);
        body
    }

    /// Reads the frame's body.
    ///
    /// # Errors
    /// Another protocol, another version, a length that is not that of the body.
    pub fn parse(body: &[u8]) -> Result<Self, WireError> {
        check_version(body)?;
        let (Some(len), Some(capabilities), Some(link_bits_per_s)) =
            (u16_at(body, 6), u64_at(body, 8), u64_at(body, 16))
        else {
            return Err(WireError::Torn);
        };
        let token = &body[24..];
        if token.len() != len as usize || token.len() > TOKEN_BYTES_MAX {
            return Err(WireError::Malformed("the token's length"));
        }
        Ok(Self {
            version: VERSION,
            capabilities,
            link_bits_per_s,
            token: token.to_vec(),
        })
    }
}

/// An agent's description of itself.
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
    /// The version of DuckDB that it found, or why it found none and what to do. An agent looks for one once a client's
    /// hello asks for [`CAPABILITY_DUCKDB`].
    pub duckdb: Result<String, String>,
}

/// The agent's first frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// What it can do.
    pub capabilities: u64,
    /// The agent's description.
    pub agent: AgentInfo,
}

impl Welcome {
    /// The frame's body. Long texts of the agent's are cut.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut body = Vec::with_capacity(256);
        body.extend_from_slice(&MAGIC);
        body.extend_from_slice(&VERSION.to_le_bytes());
        body.extend_from_slice(&[0; 2]);
        body.extend_from_slice(&self.capabilities.to_le_bytes());
        let short = |text: &String| cut(text, INFO_TEXT_BYTES_MAX).to_owned();
        let agent = AgentInfo {
            dpb_version: short(&self.agent.dpb_version),
            cpu_model: short(&self.agent.cpu_model),
            host: short(&self.agent.host),
            backend: short(&self.agent.backend),
            emulated_by: self.agent.emulated_by.as_ref().map(short),
            duckdb: self.agent.duckdb.as_ref().map(short).map_err(short),
            ..self.agent
        };
        body.extend_from_slice(&encode(&agent));
        body
    }

    /// Reads the frame's body.
    ///
    /// # Errors
    /// Another protocol, another version, a body that does not decode.
    pub fn parse(body: &[u8]) -> Result<Self, WireError> {
        check_version(body)?;
        if u16_at(body, 6) != Some(0) {
            return Err(WireError::Malformed("a welcome byte that must be zero"));
        }
        let capabilities = u64_at(body, 8).ok_or(WireError::Torn)?;
        Ok(Self {
            capabilities,
            agent: decode(&body[16..])?,
        })
    }
}

/// The tables that a request is about.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum DataSet {
    /// TPC-H's tables at this scale factor, made by dpb in the agent's data directory.
    Tpch(f64),
    /// The tables that the agent was given when it started.
    Given,
}

impl From<f64> for DataSet {
    fn from(scale_factor: f64) -> Self {
        Self::Tpch(scale_factor)
    }
}

impl fmt::Display for DataSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tpch(sf) => write!(f, "scale factor {sf}"),
            Self::Given => f.write_str("the agent's own tables"),
        }
    }
}

/// A question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Request {
    /// What tables are there? Answer: [`Reply::Tables`].
    Describe {
        /// The data set.
        data: DataSet,
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
        /// The place of that memory, in the words of the transport, see [`crate::service::bulk`].
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
    pub fn new(data: impl Into<DataSet>, schema: &Schema, query: Query) -> Self {
        Self {
            data: data.into(),
            schema: schema.fingerprint(),
            engine: Engine::Dpb,
            query,
            threads: 1,
            batch_rows: 16 << 10,
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

/// The body of a control frame.
pub fn encode<T: Serialize>(message: &T) -> Vec<u8> {
    postcard::to_stdvec(message).expect("messages hold nothing that postcard cannot write")
}

/// Decodes the body of a control frame, to its last byte.
///
/// # Errors
/// [`WireError::Malformed`] or [`WireError::TrailingBytes`].
pub fn decode<T: DeserializeOwned>(body: &[u8]) -> Result<T, WireError> {
    match postcard::take_from_bytes(body) {
        Ok((message, [])) => Ok(message),
        Ok((_, rest)) => Err(WireError::TrailingBytes(rest.len())),
        Err(_) => Err(WireError::Malformed("a message's body")),
    }
}

fn check_version(body: &[u8]) -> Result<(), WireError> {
    if body.len() < 6 || body[..4] != MAGIC {
        return Err(WireError::Foreign);
    }
    match u16::from_le_bytes([body[4], body[5]]) {
        VERSION => Ok(()),
        theirs => Err(WireError::Version { theirs }),
    }
}

fn u16_at(body: &[u8], at: usize) -> Option<u16> {
    let bytes = body.get(at..at + 2)?;
    Some(u16::from_le_bytes(bytes.try_into().ok()?))
}

fn u64_at(body: &[u8], at: usize) -> Option<u64> {
    let bytes = body.get(at..at + 8)?;
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests;
