//! Why an index refuses.

/// Why a call of an index failed. A transaction that fails changes nothing.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// A key is empty or too long.
    #[error("a key of {bytes} bytes; an index takes keys of 1 to {max}")]
    KeyLength {
        /// Bytes of the key.
        bytes: usize,
        /// Bytes of the longest key that is taken.
        max: usize,
    },
    /// A value is too long.
    #[error("a value of {bytes} bytes; an index takes values up to {max}")]
    ValueLength {
        /// Bytes of the value.
        bytes: usize,
        /// Bytes of the longest value that is taken.
        max: usize,
    },
    /// The memory that a caller laid out does not hold the results.
    #[error("room for {room} results of {each} bytes in {bytes} bytes, for {keys} keys")]
    Layout {
        /// Results that there is room for.
        room: usize,
        /// Bytes of room for a value.
        each: usize,
        /// Bytes of room for all values.
        bytes: usize,
        /// Keys that were asked for.
        keys: usize,
    },
    /// The index is as large as it may become.
    #[error("{what} are full at {limit_bytes} bytes; {remedy}")]
    Full {
        /// The part that is full.
        what: &'static str,
        /// Its limit.
        limit_bytes: u64,
        /// What helps.
        remedy: &'static str,
    },
    /// The system gives no memory.
    #[error("no memory for {bytes} more bytes of an index")]
    Memory {
        /// Bytes that were asked for.
        bytes: usize,
    },
    /// There are as many sessions as there may be.
    #[error(
        "{max} sessions are open, and no more may be; close one, or ask for more when the index is made"
    )]
    Sessions {
        /// Sessions that may be open at once.
        max: usize,
    },
    /// A session that holds a snapshot was told to hold one.
    #[error("the session holds a snapshot already; release it first")]
    Held,
    /// A map of LMDB cannot be as large as asked.
    #[error(
        "a map of {asked_bytes} bytes for {path}: {free_bytes} bytes are free there; ask for a smaller map or free some room"
    )]
    Disk {
        /// Bytes of the map.
        asked_bytes: u64,
        /// Bytes that the file system has free.
        free_bytes: u64,
        /// The folder of the map.
        path: String,
    },
    /// LMDB, or the file system under it, reports an error.
    #[error("LMDB: {0}")]
    Lmdb(#[from] heed::Error),
    /// The folder of an LMDB index cannot be made or read.
    #[error("{path}: {source}")]
    Folder {
        /// The folder.
        path: String,
        /// What the system says.
        source: std::io::Error,
    },
}
