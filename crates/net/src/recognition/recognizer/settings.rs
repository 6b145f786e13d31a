//! What a recognizer does, and its bounds.

/// How much is looked at, and held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Flows of which something is held at the same time. Each takes some 250 bytes and, where bytes are held, a block of 2 or 8 KiB and an eighth of that, a bit
    /// for each byte; there are as many short blocks as flows, and a quarter as many long ones.
    pub undecided_max: u32,
    /// Packets with a payload that bring a TCP flow no further before it is given up. Those that a reader waits for do not count; the 8 KiB bound these.
    pub packets_max: u16,
    /// Datagrams of a flow that are looked at.
    pub datagrams_max: u16,
    /// An undecided flow without a packet for so long makes room for a new one if there is none.
    pub idle_ms: u32,
    /// Addresses whose names are remembered, and questions of DNS that wait for their answers; 144 bytes and 16 bytes each.
    pub names_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            undecided_max: 4096,
            packets_max: 24,
            datagrams_max: 4,
            idle_ms: 2000,
            names_max: 8192,
        }
    }
}

/// What a recognizer does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Its bounds.
    pub limits: Limits,
    /// True if hellos get a fingerprint.
    pub has_ja4: bool,
    /// True if connections that may go over to TLS are looked at until they do, or it is too late: mail, proxies, databases, remote desktops.
    pub follows_upgrades: bool,
    /// True if bytes of undecided flows are kept for rules, though no reader knows them; see [`Recognizer::candidates`](super::Recognizer::candidates).
    pub has_rules: bool,
    /// Of the hash of addresses.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            has_ja4: true,
            follows_upgrades: true,
            has_rules: false,
            seed: 0,
        }
    }
}
