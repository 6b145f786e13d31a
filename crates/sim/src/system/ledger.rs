//! The fates of frames that no application got.

use std::collections::BTreeMap;

/// The reasons for which a frame ends before an application has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// A wire's queue had no room.
    QueueFull,
    /// A wire lost it.
    Lost,
    /// A switch's buffer had no room.
    BufferFull,
    /// It came to a switch from where its destination lies.
    TurnedBack,
    /// The queue of a card's stage had no room.
    StageFull,
    /// Its digest was wrong or missing.
    Digest,
    /// No receive descriptor was free.
    NoDescriptor,
    /// It came to a host that it was not for.
    Foreign,
    /// Its checksum was wrong.
    Checksum,
    /// Nobody waited for it, or it was not well-formed.
    Unwanted,
    /// Its payload was not what had been sent, and nothing had found that before.
    Payload,
    /// The host that was to answer had no room for the answer.
    NoRoom,
}

impl Reason {
    /// The name in records and tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::QueueFull => "wire queue full",
            Self::Lost => "lost on a wire",
            Self::BufferFull => "switch buffer full",
            Self::TurnedBack => "turned back",
            Self::StageFull => "stage full",
            Self::Digest => "digest",
            Self::NoDescriptor => "no receive descriptor",
            Self::Foreign => "for another host",
            Self::Checksum => "checksum",
            Self::Unwanted => "unwanted",
            Self::Payload => "payload wrong",
            Self::NoRoom => "no room for the answer",
        }
    }
}

/// The fates of the frames of each flow, in one part or in several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    dropped: BTreeMap<(u32, Reason), u64>,
    copied: BTreeMap<u32, u64>,
}

impl Ledger {
    /// A frame of this flow ends early. Of flow zero nobody keeps account.
    pub fn drop_one(&mut self, flow: u32, reason: Reason) {
        if flow != 0 {
            *self.dropped.entry((flow, reason)).or_insert(0) += 1;
        }
    }

    /// There are so many more frames of this flow.
    pub fn copy(&mut self, flow: u32, more: u64) {
        if flow != 0 && more > 0 {
            *self.copied.entry(flow).or_insert(0) += more;
        }
    }

    /// Adds what another part counted.
    pub fn add(&mut self, other: &Self) {
        for (&key, count) in &other.dropped {
            *self.dropped.entry(key).or_insert(0) += count;
        }
        for (&flow, count) in &other.copied {
            *self.copied.entry(flow).or_insert(0) += count;
        }
    }

    /// The frames of a flow that ended early, by reason.
    pub fn dropped(&self, flow: u32) -> impl Iterator<Item = (Reason, u64)> + '_ {
        let of_flow = self
            .dropped
            .range((flow, Reason::QueueFull)..=(flow, Reason::NoRoom));
        of_flow.map(|(&(_, reason), &count)| (reason, count))
    }

    /// The frames of a flow that a wire doubled or a switch flooded, beyond the first of each.
    pub fn copied(&self, flow: u32) -> u64 {
        self.copied.get(&flow).copied().unwrap_or(0)
    }
}
