//! Names of addresses, as answers of DNS gave them: a table of fixed size, whose entries end with their time to live.

use std::fmt;

use dpb_core::random::SplitMix64;

/// A name of at most 255 bytes: of a host, as it came over the wire.
#[derive(Clone, Copy)]
pub struct Name {
    len: u8,
    bytes: [u8; 255],
}

impl Name {
    /// No name.
    pub const EMPTY: Self = Self {
        len: 0,
        bytes: [0; 255],
    };

    /// This name, cut behind 255 bytes.
    pub fn of(bytes: &[u8]) -> Self {
        let mut name = Self::EMPTY;
        name.push(bytes);
        name
    }

    /// Its bytes: a sender may put anything there.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn clear(&mut self) {
        self.len = 0;
    }

    /// Becomes this name.
    pub(in super::super) fn set(&mut self, bytes: &[u8]) {
        self.clear();
        self.push(bytes);
    }

    pub(super) fn push_label(&mut self, label: &[u8]) {
        if !self.is_empty() {
            self.push(b".");
        }
        self.push(label);
    }

    fn push(&mut self, bytes: &[u8]) {
        let len = usize::from(self.len);
        let room = &mut self.bytes[len..];
        let count = bytes.len().min(room.len());
        room[..count].copy_from_slice(&bytes[..count]);
        self.len = (len + count) as u8;
    }
}

/// Two names are equal if their bytes are, in the same case.
impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for Name {}

impl Default for Name {
    fn default() -> Self {
        Self::EMPTY
    }
}

/// Bytes that are no printable ASCII are escaped.
impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.as_bytes().escape_ascii())
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

/// Names longer than this are not kept.
const KEPT_BYTES_MAX: usize = 106;
/// Entries among which an address has its place.
const WAYS: usize = 8;
/// No answer counts for longer: the clock has 32 bits of milliseconds.
const TTL_S_MAX: u32 = 24 * 60 * 60;
/// Nor for less: a connection may be opened somewhat after the answer.
const TTL_S_MIN: u32 = 60;

#[derive(Clone, Copy)]
struct Entry {
    address: u128,
    /// When it ends.
    end_ms: u32,
    len: u8,
    name: [u8; KEPT_BYTES_MAX],
}

/// Names by address. What a server is called is what was asked for last, of the names that lead to it: many share an address, so this is a weaker
/// sign than a name in the flow itself.
pub struct Names {
    entries: Vec<Entry>,
    sets: usize,
    keys: [u64; 2],
}

impl Names {
    /// A table for about `capacity` addresses; none if it is zero. `seed` keeps whoever chooses addresses from knowing which of them meet.
    pub fn new(capacity: usize, seed: u64) -> Self {
        const NONE: Entry = Entry {
            address: 0,
            end_ms: 0,
            len: 0,
            name: [0; KEPT_BYTES_MAX],
        };
        let sets = capacity.div_ceil(WAYS);
        let mut random = SplitMix64::new(seed);
        Self {
            entries: vec![NONE; sets * WAYS],
            sets,
            keys: [random.next_u64() | 1, random.next_u64() | 1],
        }
    }

    /// Keeps the name of an address for its time to live, between a minute and a day. If there is no room, what ends first goes.
    pub fn insert(&mut self, address: u128, name: &[u8], ttl_s: u32, now_ms: u32) {
        if self.sets == 0 || name.is_empty() || name.len() > KEPT_BYTES_MAX {
            return;
        }
        let set = self.set(address);
        let left_ms = |entry: &Entry| match entry.len {
            0 => 0,
            _ => left_ms(entry.end_ms, now_ms),
        };
        let entries = &mut self.entries[set..set + WAYS];
        let known = entries
            .iter()
            .position(|entry| entry.len > 0 && entry.address == address);
        let place = known.or_else(|| (0..WAYS).min_by_key(|way| left_ms(&entries[*way])));
        let entry = &mut entries[place.unwrap_or(0)];
        let ttl_ms = ttl_s.clamp(TTL_S_MIN, TTL_S_MAX) * 1000;
        entry.address = address;
        entry.end_ms = now_ms.wrapping_add(ttl_ms);
        entry.len = name.len() as u8;
        entry.name[..name.len()].copy_from_slice(name);
    }

    /// The name of an address, if one is known and has not ended.
    pub fn find(&self, address: u128, now_ms: u32) -> Option<&[u8]> {
        if self.sets == 0 {
            return None;
        }
        let set = self.set(address);
        let entries = &self.entries[set..set + WAYS];
        let is_it = |entry: &&Entry| {
            entry.len > 0 && entry.address == address && left_ms(entry.end_ms, now_ms) > 0
        };
        let entry = entries.iter().find(is_it)?;
        Some(&entry.name[..usize::from(entry.len)])
    }

    /// The place of the first entry of an address's set.
    fn set(&self, address: u128) -> usize {
        let folded = |word: u64, key: u64| {
            let product = u128::from(word) * u128::from(key);
            (product >> 64) as u64 ^ product as u64
        };
        let [a, b] = self.keys;
        let hash = folded(address as u64 ^ b, a) ^ folded((address >> 64) as u64 ^ a, b);
        let hash = folded(hash, a);
        ((u128::from(hash) * self.sets as u128) >> 64) as usize * WAYS
    }
}

/// Milliseconds until `end_ms`, zero if that was before. The clock wraps around.
fn left_ms(end_ms: u32, now_ms: u32) -> u32 {
    let left = end_ms.wrapping_sub(now_ms);
    // Nothing lasts longer than a day.
    if left > TTL_S_MAX * 1000 { 0 } else { left }
}
