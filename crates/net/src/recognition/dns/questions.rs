//! Questions that wait for their answers: [`Questions`].

use std::hash::{DefaultHasher, Hash, Hasher};

use dpb_core::random::SplitMix64;

/// Questions among which one has its place.
const WAYS: usize = 8;
/// An answer counts so long after its question: resolvers ask again after some seconds, and give up soon after.
const WAIT_MS: u32 = 10_000;

/// A question, as its answer repeats it.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Question<'a> {
    /// Who asks whom.
    pub(in super::super) addresses: [u128; 2],
    /// From which port to which.
    pub(in super::super) ports: [u16; 2],
    /// The message's identifier.
    pub(in super::super) id: u16,
    /// The name that is asked for.
    pub(in super::super) name: &'a [u8],
}

/// Questions that were seen and not answered yet: a table of fixed size, whose entries end after ten seconds. Whoever has not seen a question cannot guess the entry's
/// 64 bits, nor what they are made of: the port and the identifier that the client drew.
pub(in super::super) struct Questions {
    /// Fingerprints, and when they end. Zero is none.
    entries: Vec<(u64, u32)>,
    sets: usize,
    key: [u64; 2],
}

impl Questions {
    /// A table for about `capacity` questions; none if it is zero. `seed` keeps whoever asks from knowing which of them meet.
    pub(in super::super) fn new(capacity: usize, seed: u64) -> Self {
        let sets = capacity.div_ceil(WAYS);
        let mut random = SplitMix64::new(!seed);
        Self {
            entries: vec![(0, 0); sets * WAYS],
            sets,
            key: [random.next_u64(), random.next_u64()],
        }
    }

    /// A question was asked. If there is no room, what ends first goes.
    pub(in super::super) fn ask(&mut self, question: &Question<'_>, now_ms: u32) {
        let fingerprint = self.fingerprint(question);
        let Some(set) = self.set(fingerprint) else {
            return;
        };
        let known = set.iter().position(|(other, _)| *other == fingerprint);
        let oldest = (0..WAYS).min_by_key(|way| left_ms(set[*way], now_ms));
        if let Some(place) = known.or(oldest) {
            set[place] = (fingerprint, now_ms.wrapping_add(WAIT_MS));
        }
    }

    /// True if an answer is to a question that waits for it, which it does no more then.
    pub(in super::super) fn answer(&mut self, question: &Question<'_>, now_ms: u32) -> bool {
        let fingerprint = self.fingerprint(question);
        let set = self.set(fingerprint).unwrap_or_default();
        let Some(entry) = set.iter_mut().find(|(other, _)| *other == fingerprint) else {
            return false;
        };
        left_ms(std::mem::take(entry), now_ms) > 0
    }

    /// Never zero. Servers may change the case of names.
    fn fingerprint(&self, question: &Question<'_>) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.key.hash(&mut hasher);
        (question.addresses, question.ports, question.id).hash(&mut hasher);
        for byte in question.name {
            byte.to_ascii_lowercase().hash(&mut hasher);
        }
        hasher.finish().max(1)
    }

    fn set(&mut self, fingerprint: u64) -> Option<&mut [(u64, u32)]> {
        let set = (u128::from(fingerprint) * self.sets as u128) >> 64;
        let start = set as usize * WAYS;
        self.entries.get_mut(start..start + WAYS)
    }
}

/// Milliseconds until an entry ends, zero of none. The clock wraps around.
fn left_ms((fingerprint, end_ms): (u64, u32), now_ms: u32) -> u32 {
    let left = end_ms.wrapping_sub(now_ms);
    match fingerprint {
        0 => 0,
        _ if left > WAIT_MS => 0,
        _ => left,
    }
}
