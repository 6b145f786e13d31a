//! What each side of a link chooses.

use super::error::Error;
use super::intro::{FLAG_FORCED, FLAG_OFFERED};

/// The part that virtual time has in a link, as one side wants it. The links are synchronised if neither side has it disabled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SyncMode {
    /// Frames arrive as fast as they can. A peer that requires synchronisation is refused.
    Disabled,
    /// The peer decides.
    #[default]
    Optional,
    /// A peer that does not offer synchronisation is refused.
    Required,
}

impl SyncMode {
    /// The flags of this side's intro.
    pub fn flags(self) -> u64 {
        match self {
            Self::Disabled => 0,
            Self::Optional => FLAG_OFFERED,
            Self::Required => FLAG_OFFERED | FLAG_FORCED,
        }
    }

    /// True if a link with a peer of those flags is synchronised.
    ///
    /// # Errors
    /// One side requires what the other refuses.
    pub fn agree(self, peer_flags: u64) -> Result<bool, Error> {
        let offers = peer_flags & (FLAG_OFFERED | FLAG_FORCED) != 0;
        match self {
            Self::Disabled if peer_flags & FLAG_FORCED != 0 => Err(Error::SyncForced),
            Self::Required if !offers => Err(Error::SyncNotOffered),
            Self::Disabled => Ok(false),
            Self::Optional | Self::Required => Ok(offers),
        }
    }
}

/// One side's parameters of a link. Each side has its own; they may differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkParams {
    /// The part that virtual time has.
    pub sync: SyncMode,
    /// Picoseconds from the time at which this side sends a message to the time at which the peer receives it.
    pub link_latency_ps: u64,
    /// Picoseconds after which this side sends a SYNC, if it has sent nothing else. At most the latency.
    pub sync_interval_ps: u64,
}

impl Default for LinkParams {
    /// The protocol's usual ones: 500 ns both, synchronised if the peer offers it.
    fn default() -> Self {
        Self {
            sync: SyncMode::default(),
            link_latency_ps: 500_000,
            sync_interval_ps: 500_000,
        }
    }
}

impl LinkParams {
    /// Checks the times against each other.
    ///
    /// # Errors
    /// A time is zero, or the interval is longer than the latency: two such sides would wait for each other for ever.
    pub fn check(&self) -> Result<(), Error> {
        let (latency, interval) = (self.link_latency_ps, self.sync_interval_ps);
        if latency == 0 || interval == 0 {
            let why = format!(
                "a latency of {latency} ps and a SYNC each {interval} ps: neither may be 0"
            );
            return Err(Error::Parameter(why));
        }
        if interval > latency {
            let why =
                format!("a SYNC each {interval} ps is too seldom for a latency of {latency} ps");
            return Err(Error::Parameter(why));
        }
        Ok(())
    }
}

/// The size of each of a link's two rings, which its listener chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingShape {
    /// Entries of each ring.
    pub entries: u64,
    /// Bytes of an entry: 64 of a header, the rest for a frame without its check sequence. A multiple of 8.
    pub entry_bytes: u64,
}

impl RingShape {
    /// The usual size for Ethernet: frames of up to 1536 bytes. 26 MB for both rings.
    pub const ETHERNET: Self = Self {
        entries: 8192,
        entry_bytes: 1600,
    };
    /// Frames of up to 9024 bytes: a full frame with a digest behind it, too. 149 MB for both rings.
    pub const LONG_FRAMES: Self = Self {
        entries: 8192,
        entry_bytes: 9088,
    };
}
