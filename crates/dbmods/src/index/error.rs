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
    /// The offsets of a key are not in order, or lie outside of the bytes of the keys.
    #[error("key {key} lies at bytes {start} to {end} of {bytes}")]
    Offsets {
        /// The key.
        key: usize,
        /// Where it would begin.
        start: u32,
        /// Where it would end.
        end: u32,
        /// Bytes of all keys.
        bytes: usize,
    },
    /// The rows of a burst's scans take more bytes than an outcome may have.
    #[error(
        "the rows of the scans of a burst take more than {max} bytes; ask for fewer rows at once"
    )]
    Rows {
        /// Bytes that they may take.
        max: usize,
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
    /// A snapshot could not be renewed, and was read.
    #[error("the snapshot holds no state, as renewing it failed; renew it again")]
    Released,
    /// A writer panicked in the middle of a transaction, so a part of it may be there.
    #[error("the index is broken, as a writer of it panicked; load its data into a new one")]
    Broken,
    /// An engine does not have such a durability.
    #[error("{engine} cannot be {durability}; ask for another durability")]
    Durability {
        /// The engine.
        engine: &'static str,
        /// The word for what was asked.
        durability: &'static str,
    },
    /// A file was not closed before the system went down, and its durability does not survive that.
    #[error(
        "{path} was open with durability `none` when the system went down, so it may be damaged; delete the folder and load the data again"
    )]
    Unclean {
        /// The folder of the file.
        path: String,
    },
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
